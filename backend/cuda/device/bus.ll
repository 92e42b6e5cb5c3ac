; bus.c, compiled by clang 22.1.8 (ziglang 0.17.1) and tidied by
; python -m treadle.backend.native.runtime.build: change the C file, not this one.
; python -m ziglang cc -target x86_64-linux-gnu -S -emit-llvm -Os -g0 -std=gnu11 -fPIC -Wall -Wextra -Werror -Wno-unused-command-line-argument -fno-sanitize=all -fno-stack-protector -fno-asynchronous-unwind-tables -fno-vectorize -fno-slp-vectorize -fno-unroll-loops -fno-strict-aliasing -fno-ident -fno-discard-value-names -Xclang -no-enable-noundef-analysis bus.c
; sha256 of bus.c: 226eedda541d3fde60a4ad7537579827fc34cc89f4273699a8604c5fcee4d98f

%struct.buffer = type { ptr, ptr, i64, i64, ptr }
%struct.segment = type { i64, i64, i64, ptr, ptr }

define void @publish(ptr %word, i64 %value) nounwind {
entry:
  store atomic i64 %value, ptr %word release, align 8
  ret void
}

define void @serve(ptr %lane, ptr %worker) nounwind {
entry:
  %failed.i = getelementptr inbounds nuw i8, ptr %lane, i64 256
  %0 = atomicrmw add ptr %lane, i64 1 monotonic, align 8
  %1 = load atomic i64, ptr %failed.i monotonic, align 8
  %tobool.not26.i67 = icmp eq i64 %1, 0
  br i1 %tobool.not26.i67, label %while.body.lr.ph.i.lr.ph, label %if.end8

while.body.lr.ph.i.lr.ph:
  %closed2.i = getelementptr inbounds nuw i8, ptr %lane, i64 192
  %filled.i = getelementptr inbounds nuw i8, ptr %lane, i64 128
  %buffers.i.i = getelementptr inbounds nuw i8, ptr %worker, i64 16
  %sleep.i = getelementptr inbounds nuw i8, ptr %lane, i64 384
  %table.i = getelementptr inbounds nuw i8, ptr %lane, i64 320
  %entries.i = getelementptr inbounds nuw i8, ptr %lane, i64 328
  %wait.i = getelementptr inbounds nuw i8, ptr %lane, i64 360
  %last.i = getelementptr inbounds nuw i8, ptr %worker, i64 8
  %record.i.i = getelementptr inbounds nuw i8, ptr %lane, i64 376
  %chunk.i = getelementptr inbounds nuw i8, ptr %lane, i64 336
  %upload.i.i = getelementptr inbounds nuw i8, ptr %lane, i64 344
  %copy.i.i = getelementptr inbounds nuw i8, ptr %lane, i64 368
  br label %while.body.lr.ph.i

while.body.lr.ph.i:
  %2 = phi i64 [ %0, %while.body.lr.ph.i.lr.ph ], [ %28, %if.end ]
  br label %while.body.i

while.body.i:
  %3 = load atomic i64, ptr %closed2.i acquire, align 8
  %4 = load atomic i64, ptr %filled.i acquire, align 8
  %cmp.i = icmp slt i64 %2, %4
  br i1 %cmp.i, label %await_segment.exit, label %if.end.i

if.end.i:
  %tobool7.not.i = icmp eq i64 %3, 0
  br i1 %tobool7.not.i, label %for.body.i.i, label %if.end8

for.body.i.i:
  %cmp.i.i = phi i1 [ false, %for.body.i.i ], [ true, %if.end.i ]
  %indvars.iv.i.i = phi i64 [ 1, %for.body.i.i ], [ 0, %if.end.i ]
  %failed.06.i.i = phi i32 [ %cond.i.i, %for.body.i.i ], [ 0, %if.end.i ]
  %arrayidx.i.i = getelementptr inbounds nuw %struct.buffer, ptr %buffers.i.i, i64 %indvars.iv.i.i
  %call.i.i = tail call fastcc i32 @complete(ptr %lane, ptr %arrayidx.i.i) nounwind
  %tobool.not.i.i = icmp eq i32 %failed.06.i.i, 0
  %cond.i.i = select i1 %tobool.not.i.i, i32 %call.i.i, i32 %failed.06.i.i
  br i1 %cmp.i.i, label %for.body.i.i, label %complete_all.exit.i

complete_all.exit.i:
  %tobool10.not.i = icmp eq i32 %cond.i.i, 0
  br i1 %tobool10.not.i, label %cleanup14.i, label %if.then6

cleanup14.i:
  %5 = load ptr, ptr %sleep.i, align 8
  %call13.i = tail call i32 %5(i32 20) nounwind
  %6 = load atomic i64, ptr %failed.i monotonic, align 8
  %tobool.not.i = icmp eq i64 %6, 0
  br i1 %tobool.not.i, label %while.body.i, label %if.end8

await_segment.exit:
  %7 = load ptr, ptr %table.i, align 8
  %tobool.not = icmp eq ptr %7, null
  br i1 %tobool.not, label %if.end8, label %if.then

if.then:
  %8 = load i64, ptr %entries.i, align 8
  %sub.i = add nsw i64 %8, -1
  %and.i = and i64 %sub.i, %2
  %arrayidx.i = getelementptr inbounds %struct.segment, ptr %7, i64 %and.i
  %9 = load i64, ptr %arrayidx.i, align 8
  %source3.i = getelementptr inbounds nuw i8, ptr %arrayidx.i, i64 8
  %10 = load i64, ptr %source3.i, align 8
  %size4.i = getelementptr inbounds nuw i8, ptr %arrayidx.i, i64 16
  %11 = load atomic i64, ptr %size4.i monotonic, align 8
  %after5.i = getelementptr inbounds nuw i8, ptr %arrayidx.i, i64 24
  %12 = load ptr, ptr %after5.i, align 8
  %arrived6.i = getelementptr inbounds nuw i8, ptr %arrayidx.i, i64 32
  %13 = load ptr, ptr %arrived6.i, align 8
  store atomic i64 0, ptr %size4.i release, align 8
  %tobool.not.i31 = icmp eq ptr %12, null
  br i1 %tobool.not.i31, label %if.end10.i, label %if.then.i32

if.then.i32:
  %14 = load ptr, ptr %wait.i, align 8
  %15 = load ptr, ptr %worker, align 8
  %call.i = tail call i32 %14(ptr %15, ptr %12, i32 0) nounwind
  %tobool8.not.i = icmp eq i32 %call.i, 0
  br i1 %tobool8.not.i, label %if.end10.i, label %if.then6

if.end10.i:
  %cmp.not74.i = icmp sgt i64 %11, 0
  br i1 %cmp.not74.i, label %for.body.i, label %if.end

for.body.i:
  %at.075.i = phi i64 [ %add31.i, %for.inc.i ], [ 0, %if.end10.i ]
  %16 = load i64, ptr %last.i, align 8
  %xor.i = xor i64 %16, 1
  store i64 %xor.i, ptr %last.i, align 8
  %arrayidx.i33 = getelementptr inbounds %struct.buffer, ptr %buffers.i.i, i64 %xor.i
  %call13.i34 = tail call fastcc i32 @complete(ptr %lane, ptr %arrayidx.i33) nounwind
  %tobool14.not.i = icmp eq i32 %call13.i34, 0
  br i1 %tobool14.not.i, label %if.then15.i, label %if.then6

if.then15.i:
  %sub.i35 = sub nsw i64 %11, %at.075.i
  %17 = load ptr, ptr %worker, align 8
  %add.i = add nsw i64 %at.075.i, %9
  %add17.i = add nsw i64 %at.075.i, %10
  %18 = load i64, ptr %chunk.i, align 8
  %sub..i = tail call i64 @llvm.smin.i64(i64 %sub.i35, i64 %18)
  %19 = load ptr, ptr %arrayidx.i33, align 8
  %20 = ptrtoint ptr %19 to i64
  %21 = load i64, ptr %upload.i.i, align 8
  %tobool.not.i.i36 = icmp eq i64 %21, 0
  br i1 %tobool.not.i.i36, label %if.else.i.i, label %if.then.i.i

if.then.i.i:
  %22 = inttoptr i64 %add17.i to ptr
  tail call void @llvm.memcpy.p0.p0.i64(ptr align 1 %19, ptr align 1 %22, i64 %sub..i, i1 false)
  %23 = load ptr, ptr %copy.i.i, align 8
  %call.i.i37 = tail call i32 %23(i64 %add.i, i64 %20, i64 %sub..i, ptr %17) nounwind
  br label %if.end.i.i

if.else.i.i:
  %24 = load ptr, ptr %copy.i.i, align 8
  %call4.i.i = tail call i32 %24(i64 %20, i64 %add17.i, i64 %sub..i, ptr %17) nounwind
  br label %if.end.i.i

if.end.i.i:
  %status.0.i.i = phi i32 [ %call.i.i37, %if.then.i.i ], [ %call4.i.i, %if.else.i.i ]
  %tobool5.not.i.i = icmp eq i32 %status.0.i.i, 0
  br i1 %tobool5.not.i.i, label %if.end8.i.i, label %if.then6

if.end8.i.i:
  %25 = load ptr, ptr %record.i.i, align 8
  %event.i.i = getelementptr inbounds nuw i8, ptr %arrayidx.i33, i64 8
  %26 = load ptr, ptr %event.i.i, align 8
  %call7.i.i = tail call i32 %25(ptr %26, ptr %17) nounwind
  %tobool9.not.i.i = icmp eq i32 %call7.i.i, 0
  br i1 %tobool9.not.i.i, label %for.inc.i, label %if.then6

for.inc.i:
  %size11.i.i = getelementptr inbounds nuw i8, ptr %arrayidx.i33, i64 16
  store i64 %sub..i, ptr %size11.i.i, align 8
  %target12.i.i = getelementptr inbounds nuw i8, ptr %arrayidx.i33, i64 24
  store i64 %add.i, ptr %target12.i.i, align 8
  %arrived13.i.i = getelementptr inbounds nuw i8, ptr %arrayidx.i33, i64 32
  store ptr %13, ptr %arrived13.i.i, align 8
  %27 = load i64, ptr %chunk.i, align 8
  %add31.i = add nsw i64 %27, %at.075.i
  %cmp.not.i = icmp slt i64 %add31.i, %11
  br i1 %cmp.not.i, label %for.body.i, label %if.end

if.end:
  %28 = atomicrmw add ptr %lane, i64 1 monotonic, align 8
  %29 = load atomic i64, ptr %failed.i monotonic, align 8
  %tobool.not26.i = icmp eq i64 %29, 0
  br i1 %tobool.not26.i, label %while.body.lr.ph.i, label %if.end8

if.then6:
  %status.05355 = phi i32 [ %call13.i34, %for.body.i ], [ %cond.i.i, %complete_all.exit.i ], [ %status.0.i.i, %if.end.i.i ], [ %call7.i.i, %if.end8.i.i ], [ %call.i, %if.then.i32 ]
  %conv = sext i32 %status.05355 to i64
  store atomic i64 %conv, ptr %failed.i release, align 8
  br label %if.end8

if.end8:
  %buffers.i38 = getelementptr inbounds nuw i8, ptr %worker, i64 16
  br label %for.body.i39

for.body.i39:
  %cmp.i40 = phi i1 [ true, %if.end8 ], [ false, %for.body.i39 ]
  %indvars.iv.i = phi i64 [ 0, %if.end8 ], [ 1, %for.body.i39 ]
  %failed.06.i = phi i32 [ 0, %if.end8 ], [ %cond.i, %for.body.i39 ]
  %arrayidx.i41 = getelementptr inbounds nuw %struct.buffer, ptr %buffers.i38, i64 %indvars.iv.i
  %call.i42 = tail call fastcc i32 @complete(ptr %lane, ptr %arrayidx.i41) nounwind
  %tobool.not.i43 = icmp eq i32 %failed.06.i, 0
  %cond.i = select i1 %tobool.not.i43, i32 %call.i42, i32 %failed.06.i
  br i1 %cmp.i40, label %for.body.i39, label %complete_all.exit

complete_all.exit:
  %tobool10.not = icmp eq i32 %cond.i, 0
  br i1 %tobool10.not, label %if.end15, label %if.then11

if.then11:
  %conv14 = sext i32 %cond.i to i64
  store atomic i64 %conv14, ptr %failed.i release, align 8
  br label %if.end15

if.end15:
  %active = getelementptr inbounds nuw i8, ptr %lane, i64 64
  %30 = atomicrmw sub ptr %active, i64 1 release, align 8
  ret void
}

define internal fastcc i32 @complete(ptr %lane, ptr %buffer) nounwind {
entry:
  %size1 = getelementptr inbounds nuw i8, ptr %buffer, i64 16
  %0 = load i64, ptr %size1, align 8
  %cmp = icmp eq i64 %0, 0
  br i1 %cmp, label %cleanup8, label %if.end

if.end:
  store i64 0, ptr %size1, align 8
  %synchronize = getelementptr inbounds nuw i8, ptr %lane, i64 352
  %1 = load ptr, ptr %synchronize, align 8
  %event = getelementptr inbounds nuw i8, ptr %buffer, i64 8
  %2 = load ptr, ptr %event, align 8
  %call = tail call i32 %1(ptr %2) nounwind
  %tobool.not = icmp eq i32 %call, 0
  br i1 %tobool.not, label %if.end4, label %cleanup8

if.end4:
  %upload = getelementptr inbounds nuw i8, ptr %lane, i64 344
  %3 = load i64, ptr %upload, align 8
  %tobool5.not = icmp eq i64 %3, 0
  br i1 %tobool5.not, label %if.then6, label %if.end7

if.then6:
  %target = getelementptr inbounds nuw i8, ptr %buffer, i64 24
  %4 = load i64, ptr %target, align 8
  %5 = inttoptr i64 %4 to ptr
  %6 = load ptr, ptr %buffer, align 8
  tail call void @llvm.memcpy.p0.p0.i64(ptr align 1 %5, ptr align 1 %6, i64 %0, i1 false)
  br label %if.end7

if.end7:
  %arrived = getelementptr inbounds nuw i8, ptr %buffer, i64 32
  %7 = load ptr, ptr %arrived, align 8
  %8 = atomicrmw add ptr %7, i64 %0 release, align 8
  br label %cleanup8

cleanup8:
  %retval.1 = phi i32 [ 0, %entry ], [ 0, %if.end7 ], [ %call, %if.end ]
  ret i32 %retval.1
}

declare void @llvm.memcpy.p0.p0.i64(ptr noalias, ptr noalias, i64, i1 immarg) nounwind

declare i64 @llvm.smin.i64(i64, i64) nounwind
