; Copies in one direction, by several workers, without Python.
;
; serve(lane, worker) takes segments from the table of a lane, in order, until the lane is closed.  A
; segment goes through two pinned buffers that take turns: while one is on the bus, the other is filled
; (or emptied).  Bytes are credited when they have arrived; a worker that finds no segment credits all
; that it has under way before it waits for one.
;
; lane: 0 segments taken · 1 workers that are not done · 8 segments in the table · 16 closed · 24 what failed (a status of the driver)
;       32 the table · 33 segments that fit in it (a power of two) · 34 bytes of a buffer
;       35 1 to the device, 0 to the host
;       36 cuEventSynchronize · 37 cuStreamWaitEvent · 38 cuMemcpy…Async · 39 cuEventRecord · 40 usleep
; worker: 0 stream · 1 the buffer that was used last; for buffers 0 and 1, at 8 and 16:
;       its address · its event · bytes under way · where they go · where they are credited
; segment, 8 words: target · source · bytes (0: free) · the event that it comes after, or 0 ·
;       where to credit

declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare i64 @llvm.smin.i64(i64, i64)

define void @publish(ptr %where, i64 %value) nounwind {
  store atomic i64 %value, ptr %where release, align 8
  ret void
}

; Wait until a buffer is free; what it held has arrived then.
define internal i32 @complete(ptr %lane, ptr %worker, i64 %turn) nounwind {
entry:
  %above = add i64 %turn, 1
  %first = mul i64 %above, 8
  %buffer = getelementptr i64, ptr %worker, i64 %first
  %size.at = getelementptr i64, ptr %buffer, i64 2
  %size = load i64, ptr %size.at
  %idle = icmp eq i64 %size, 0
  br i1 %idle, label %done, label %wait
wait:
  store i64 0, ptr %size.at
  %event.at = getelementptr i64, ptr %buffer, i64 1
  %event = load ptr, ptr %event.at
  %sync.at = getelementptr i64, ptr %lane, i64 36
  %sync = load ptr, ptr %sync.at
  %status = call i32 %sync(ptr %event)
  %bad = icmp ne i32 %status, 0
  br i1 %bad, label %failed, label %there
failed:
  ret i32 %status
there:
  %up.at = getelementptr i64, ptr %lane, i64 35
  %up = load i64, ptr %up.at
  %upward = icmp ne i64 %up, 0
  br i1 %upward, label %credit, label %empty
empty:
  %pinned = load ptr, ptr %buffer
  %target.at = getelementptr i64, ptr %buffer, i64 3
  %target = load ptr, ptr %target.at
  call void @llvm.memcpy.p0.p0.i64(ptr %target, ptr %pinned, i64 %size, i1 false)
  br label %credit
credit:
  %credit.at = getelementptr i64, ptr %buffer, i64 4
  %account = load ptr, ptr %credit.at
  %before = atomicrmw add ptr %account, i64 %size release
  br label %done
done:
  ret i32 0
}

; Begin to copy a chunk through a buffer that is free.
define internal i32 @begin(ptr %lane, ptr %worker, i64 %turn, i64 %target, i64 %source, i64 %size,
                           i64 %account) nounwind {
entry:
  %above = add i64 %turn, 1
  %first = mul i64 %above, 8
  %buffer = getelementptr i64, ptr %worker, i64 %first
  %pinned = load ptr, ptr %buffer
  %pinned.number = ptrtoint ptr %pinned to i64
  %up.at = getelementptr i64, ptr %lane, i64 35
  %up = load i64, ptr %up.at
  %upward = icmp ne i64 %up, 0
  br i1 %upward, label %fill, label %send
fill:
  %from = inttoptr i64 %source to ptr
  call void @llvm.memcpy.p0.p0.i64(ptr %pinned, ptr %from, i64 %size, i1 false)
  br label %send
send:
  %there = phi i64 [ %target, %fill ], [ %pinned.number, %entry ]
  %here = phi i64 [ %pinned.number, %fill ], [ %source, %entry ]
  %stream = load ptr, ptr %worker
  %copy.at = getelementptr i64, ptr %lane, i64 38
  %copy = load ptr, ptr %copy.at
  %status = call i32 %copy(i64 %there, i64 %here, i64 %size, ptr %stream)
  %bad = icmp ne i32 %status, 0
  br i1 %bad, label %failed, label %record
record:
  %event.at = getelementptr i64, ptr %buffer, i64 1
  %event = load ptr, ptr %event.at
  %record.at = getelementptr i64, ptr %lane, i64 39
  %mark = load ptr, ptr %record.at
  %recorded = call i32 %mark(ptr %event, ptr %stream)
  %wrong = icmp ne i32 %recorded, 0
  br i1 %wrong, label %failed, label %note
note:
  %size.at = getelementptr i64, ptr %buffer, i64 2
  store i64 %size, ptr %size.at
  %target.at = getelementptr i64, ptr %buffer, i64 3
  store i64 %target, ptr %target.at
  %credit.at = getelementptr i64, ptr %buffer, i64 4
  store i64 %account, ptr %credit.at
  ret i32 0
failed:
  %which = phi i32 [ %status, %send ], [ %recorded, %record ]
  ret i32 %which
}

define void @serve(ptr %lane, ptr %worker) nounwind {
entry:
  %filled.at = getelementptr i64, ptr %lane, i64 8
  %closed.at = getelementptr i64, ptr %lane, i64 16
  %failed.at = getelementptr i64, ptr %lane, i64 24
  %table.at = getelementptr i64, ptr %lane, i64 32
  %table = load ptr, ptr %table.at
  %fits.at = getelementptr i64, ptr %lane, i64 33
  %fits = load i64, ptr %fits.at
  %mask = sub i64 %fits, 1
  %chunk.at = getelementptr i64, ptr %lane, i64 34
  %chunk = load i64, ptr %chunk.at
  %wait.at = getelementptr i64, ptr %lane, i64 37
  %wait = load ptr, ptr %wait.at
  %sleep.at = getelementptr i64, ptr %lane, i64 40
  %sleep = load ptr, ptr %sleep.at
  %stream = load ptr, ptr %worker
  %turn.at = getelementptr i64, ptr %worker, i64 1
  br label %take
take:
  %number = atomicrmw add ptr %lane, i64 1 monotonic
  br label %look
look:
  %given.up = load atomic i64, ptr %failed.at monotonic, align 8
  %useless = icmp ne i64 %given.up, 0
  br i1 %useless, label %out, label %ask
ask:
  ; closed is looked at before the number of segments, for it was written after it
  %closed = load atomic i64, ptr %closed.at acquire, align 8
  %filled = load atomic i64, ptr %filled.at acquire, align 8
  %some = icmp slt i64 %number, %filled
  br i1 %some, label %segment, label %none
none:
  %over = icmp ne i64 %closed, 0
  br i1 %over, label %out, label %settle
settle:
  %settled.0 = call i32 @complete(ptr %lane, ptr %worker, i64 0)
  %wrong.0 = icmp ne i32 %settled.0, 0
  br i1 %wrong.0, label %failed, label %settle.other
settle.other:
  %settled.1 = call i32 @complete(ptr %lane, ptr %worker, i64 1)
  %wrong.1 = icmp ne i32 %settled.1, 0
  br i1 %wrong.1, label %failed, label %rest
rest:
  %ignored = call i32 %sleep(i32 20)
  br label %look
segment:
  %place = and i64 %number, %mask
  %words = mul i64 %place, 8
  %target.at = getelementptr i64, ptr %table, i64 %words
  %source.at = getelementptr i64, ptr %target.at, i64 1
  %size.at = getelementptr i64, ptr %target.at, i64 2
  %event.at = getelementptr i64, ptr %target.at, i64 3
  %account.at = getelementptr i64, ptr %target.at, i64 4
  %target = load i64, ptr %target.at
  %source = load i64, ptr %source.at
  %size = load i64, ptr %size.at
  %event = load ptr, ptr %event.at
  %account = load i64, ptr %account.at
  store atomic i64 0, ptr %size.at release, align 8 ; its place in the table is free again
  %free = icmp eq ptr %event, null
  br i1 %free, label %loop, label %after
after:
  %waited = call i32 %wait(ptr %stream, ptr %event, i32 0)
  %not.waited = icmp ne i32 %waited, 0
  br i1 %not.waited, label %failed, label %loop
loop:
  %at = phi i64 [ 0, %segment ], [ 0, %after ], [ %next, %begun ]
  %more = icmp slt i64 %at, %size
  br i1 %more, label %part, label %take
part:
  %last = load i64, ptr %turn.at
  %turn = xor i64 %last, 1
  store i64 %turn, ptr %turn.at
  %completed = call i32 @complete(ptr %lane, ptr %worker, i64 %turn)
  %not.completed = icmp ne i32 %completed, 0
  br i1 %not.completed, label %failed, label %go
go:
  %left = sub i64 %size, %at
  %count = call i64 @llvm.smin.i64(i64 %left, i64 %chunk)
  %to = add i64 %target, %at
  %from = add i64 %source, %at
  %started = call i32 @begin(ptr %lane, ptr %worker, i64 %turn, i64 %to, i64 %from, i64 %count,
                             i64 %account)
  %not.started = icmp ne i32 %started, 0
  br i1 %not.started, label %failed, label %begun
begun:
  %next = add i64 %at, %chunk
  br label %loop
failed:
  %status = phi i32 [ %settled.0, %settle ], [ %settled.1, %settle.other ], [ %waited, %after ],
                    [ %completed, %part ], [ %started, %go ]
  %wide = sext i32 %status to i64
  store atomic i64 %wide, ptr %failed.at release, align 8
  br label %out
out:
  ; memory is let go afterwards: nothing stays under way
  %end.0 = call i32 @complete(ptr %lane, ptr %worker, i64 0)
  %end.1 = call i32 @complete(ptr %lane, ptr %worker, i64 1)
  %end.bad = or i32 %end.0, %end.1
  %fine = icmp eq i32 %end.bad, 0
  br i1 %fine, label %gone, label %told
told:
  %end.wide = sext i32 %end.bad to i64
  store atomic i64 %end.wide, ptr %failed.at release, align 8
  br label %gone
gone:
  %active.at = getelementptr i64, ptr %lane, i64 1
  %active = atomicrmw sub ptr %active.at, i64 1 release
  ret void
}
