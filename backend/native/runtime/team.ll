; A team of threads.
;
; parallel(function, arguments, tasks, threads) gives every thread a span of the tasks, the same one
; each time, so that what a core has in its caches is what it works on; ranges of it are handed out by
; an atomic counter, and whoever has done its own takes ranges of the others.
;
; A worker looks for the next job for a moment and then sleeps (a futex on @epoch).  The caller never
; waits for a worker that has not come yet: workers enter through @gate while it is open, the caller
; closes it when no task is left, and waits for those inside only.  On a machine that is busy elsewhere
; the caller does the work alone.  A worker that finds itself on the caller's core sleeps at once.
; Whoever calls while the team is taken runs its tasks alone.
;
; patiently(…, held) returns with tasks left after $PATIENCE ns, so that Python can see to its signals,
; and says so: 1, with *held set.  Called again with that it goes on, in smaller ranges; abandon(held)
; gives the team back instead.  Nobody is within a task then.
;
; Names with a dollar are filled in by modules.py.
@function = internal global ptr null, align 64
@arguments = internal global ptr null
@tasks = internal global i64 0
@range = internal global i64 0
@threads = internal global i64 1
@counts = internal global [$MOST x [8 x i64]] zeroinitializer, align 64 ; a line for each thread
@busy = internal global i32 0, align 64
@deadline = internal global i64 0           ; when the caller hands out no more
@paused = internal global i32 0, align 64   ; … and that it does not

declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.smin.i64(i64, i64)

define internal void @work(i64 %number) nounwind {
entry:
  %function = load ptr, ptr @function
  %arguments = load ptr, ptr @arguments
  %tasks = load i64, ptr @tasks
  %range = load i64, ptr @range
  %threads = load i64, ptr @threads
  br label %span
span:
  %k = phi i64 [ 0, %entry ], [ %k.next, %spent ]
  %left = icmp ult i64 %k, %threads
  br i1 %left, label %take, label %done
take:
  %sum = add i64 %number, %k
  %whose = urem i64 %sum, %threads
  %after = add i64 %whose, 1
  %first.up = mul i64 %tasks, %whose
  %last.up = mul i64 %tasks, %after
  %first = udiv i64 %first.up, %threads
  %last = udiv i64 %last.up, %threads
  %taken = getelementptr [8 x i64], ptr @counts, i64 %whose
  br label %next
next:
  %paused = load atomic i32, ptr @paused monotonic, align 4
  %go = icmp eq i32 %paused, 0
  br i1 %go, label %get, label %done
get:
  %got = atomicrmw add ptr %taken, i64 %range monotonic
  %begin = add i64 %first, %got
  %some = icmp slt i64 %begin, %last
  br i1 %some, label %run, label %spent
run:
  %stop = add i64 %begin, %range
  %end = call i64 @llvm.smin.i64(i64 %stop, i64 %last)
  call void %function(ptr %arguments, i64 %begin, i64 %end)
  %deadline = load i64, ptr @deadline
  %endless = icmp eq i64 %deadline, 9223372036854775807
  %worker = icmp ne i64 %number, 0
  %careless = or i1 %endless, %worker
  br i1 %careless, label %next, label %clock
clock:
  %time = call i64 @now()
  %early = icmp slt i64 %time, %deadline
  br i1 %early, label %next, label %pause
pause:
  store atomic i32 1, ptr @paused monotonic, align 4
  br label %done
spent:
  %k.next = add i64 %k, 1
  br label %span
done:
  ret void
}

define void @parallel(ptr %function, ptr %arguments, i64 %tasks, i64 %threads) nounwind {
  %ours = call i1 @begin(ptr %function, ptr %arguments, i64 %tasks, i64 %threads)
  br i1 %ours, label %share, label %done
share:
  store i64 9223372036854775807, ptr @deadline
  call void @together(i64 %threads)
  store atomic i32 0, ptr @busy release, align 4
  br label %done
done:
  ret void
}

define i32 @patiently(ptr %function, ptr %arguments, i64 %tasks, i64 %threads, ptr %held) nounwind {
entry:
  %before = load i32, ptr %held
  %again = icmp ne i32 %before, 0
  br i1 %again, label %resume, label %ask
resume:
  %range = load i64, ptr @range
  %half = lshr i64 %range, 1
  %smaller = call i64 @llvm.umax.i64(i64 %half, i64 1)
  store i64 %smaller, ptr @range
  store atomic i32 0, ptr @paused monotonic, align 4
  br label %share
ask:
  %ours = call i1 @begin(ptr %function, ptr %arguments, i64 %tasks, i64 %threads)
  br i1 %ours, label %limit, label %over
limit:
  %whole = load i64, ptr @range
  %few = call i64 @llvm.umin.i64(i64 %whole, i64 $MOST_TASKS)
  store i64 %few, ptr @range
  br label %share
share:
  store i32 1, ptr %held
  %time = call i64 @now()
  %deadline = add i64 %time, $PATIENCE
  store i64 %deadline, ptr @deadline
  call void @together(i64 %threads)
  %paused = load atomic i32, ptr @paused monotonic, align 4
  %left = icmp ne i32 %paused, 0
  br i1 %left, label %pause, label %done
pause:
  ret i32 1
done:
  call void @abandon(ptr %held)
  ret i32 0
over:
  ret i32 0
}

define void @abandon(ptr %held) nounwind {
  store i32 0, ptr %held
  store atomic i32 0, ptr @busy release, align 4
  ret void
}

; Take the team and set its job, or do the tasks alone: whether the team is ours.
define internal i1 @begin(ptr %function, ptr %arguments, i64 %tasks, i64 %threads) nounwind {
entry:
  %several = icmp sgt i64 %threads, 1
  br i1 %several, label %ask, label %alone
ask:
  %asked = cmpxchg ptr @busy, i32 0, i32 1 seq_cst seq_cst
  %mine = extractvalue { i32, i1 } %asked, 1
  br i1 %mine, label %share, label %alone
alone:
  call void %function(ptr %arguments, i64 0, i64 %tasks)
  ret i1 false
share:
  store ptr %function, ptr @function
  store ptr %arguments, ptr @arguments
  store i64 %tasks, ptr @tasks
  store i64 %threads, ptr @threads
  %parts = mul i64 %threads, $RANGES
  %even = udiv i64 %tasks, %parts
  %range = call i64 @llvm.umax.i64(i64 %even, i64 1)
  store i64 %range, ptr @range
  store atomic i32 0, ptr @paused monotonic, align 4
  br label %clear
clear:
  %t = phi i64 [ 0, %share ], [ %t.next, %clear ]
  %taken = getelementptr [8 x i64], ptr @counts, i64 %t
  store i64 0, ptr %taken
  %t.next = add i64 %t, 1
  %more = icmp ult i64 %t.next, %threads
  br i1 %more, label %clear, label %ready
ready:
  ret i1 true
}

; --- run @work on so many threads at most, and return when all is done -------------------------
@epoch = internal global i32 0, align 64    ; the number of the job
@sleepers = internal global i32 0           ; workers that must be woken
@core = internal global i32 -1              ; where the caller is
@gate = internal global i32 0, align 64     ; bit 31: open, bit 30: the caller sleeps; workers inside
@started = internal global i64 1, align 64
@gomp = internal global ptr null            ; GOMP_parallel, if OpenMP's threads are the team
@number = internal global ptr null          ; omp_get_thread_num
; OpenMP's caller waits for every thread, also for one that does not run: after a long wait it is
; avoided for some jobs, twice as many each time.
@finished = internal global i64 0           ; when the caller had no more to do
@avoided = internal global i64 0
@penalty = internal global i64 64

declare i64 @llvm.umin.i64(i64, i64)
declare i32 @clock_gettime(i32, ptr)
declare i64 @syscall(i64, ...)
declare i32 @sched_getcpu()
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_attr_init(ptr)
declare i32 @pthread_attr_setdetachstate(ptr, i32)
declare i32 @pthread_attr_setstacksize(ptr, i64)
declare i32 @pthread_attr_destroy(ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sigfillset(ptr)
$DECLARE_PAUSE

define internal i64 @now() nounwind {
  %time = alloca [2 x i64]
  %ignored = call i32 @clock_gettime(i32 1, ptr %time)
  %second = getelementptr i64, ptr %time, i64 1
  %s = load i64, ptr %time
  %ns = load i64, ptr %second
  %whole = mul i64 %s, 1000000000
  %sum = add i64 %whole, %ns
  ret i64 %sum
}

; operation 128: sleep while the word is `value`; 129: wake so many sleepers
define internal void @futex(ptr %word, i64 %operation, i32 %value) nounwind {
  %r = call i64 (i64, ...) @syscall(i64 $FUTEX, ptr %word, i64 %operation, i32 %value, ptr null, ptr null, i64 0)
  ret void
}

define internal ptr @worker(ptr %which) nounwind {
entry:
  %me = ptrtoint ptr %which to i64
  br label %rest
rest:
  %seen = phi i32 [ 0, %entry ], [ %job, %over ]
  %since = call i64 @now()
  br label %look
look:
  %job = load atomic i32, ptr @epoch seq_cst, align 4
  %new = icmp ne i32 %job, %seen
  br i1 %new, label %enter, label %idle
idle:
  $PAUSE
  %here = call i32 @sched_getcpu()
  %there = load atomic i32, ptr @core monotonic, align 4
  %apart = icmp ne i32 %here, %there
  %time = call i64 @now()
  %spent = sub i64 %time, %since
  %early = icmp slt i64 %spent, $SPIN
  %stay = and i1 %apart, %early
  br i1 %stay, label %look, label %tired
tired:
  %s0 = atomicrmw add ptr @sleepers, i32 1 seq_cst
  call void @futex(ptr @epoch, i64 128, i32 %seen)
  %s1 = atomicrmw sub ptr @sleepers, i32 1 seq_cst
  br label %look
enter:
  %gate0 = load atomic i32, ptr @gate seq_cst, align 4
  br label %try
try:
  %gate = phi i32 [ %gate0, %enter ], [ %gate1, %step ]
  %open = icmp slt i32 %gate, 0
  br i1 %open, label %step, label %over
step:
  %one.more = add i32 %gate, 1
  %tried = cmpxchg ptr @gate, i32 %gate, i32 %one.more seq_cst seq_cst
  %gate1 = extractvalue { i32, i1 } %tried, 0
  %inside = extractvalue { i32, i1 } %tried, 1
  br i1 %inside, label %join, label %try
join:
  call void @work(i64 %me)
  %before = atomicrmw sub ptr @gate, i32 1 seq_cst
  %last = icmp eq i32 %before, 1073741825
  br i1 %last, label %tell, label %over
tell:
  call void @futex(ptr @gate, i64 129, i32 1)
  br label %over
over:
  br label %rest
}

define internal void @start(i64 %threads) nounwind {
entry:
  %ready = load i64, ptr @started
  %enough = icmp uge i64 %ready, %threads
  br i1 %enough, label %all.there, label %prepare
all.there:
  ret void
prepare:
  %thread = alloca i64
  %all = alloca [128 x i8], align 16
  %before = alloca [128 x i8], align 16
  %how = alloca [128 x i8], align 16
  %a0 = call i32 @pthread_attr_init(ptr %how)
  %a1 = call i32 @pthread_attr_setdetachstate(ptr %how, i32 1)
  %a2 = call i32 @pthread_attr_setstacksize(ptr %how, i64 4194304)
  %filled = call i32 @sigfillset(ptr %all)
  ; signals are for the threads of Python
  %blocked = call i32 @pthread_sigmask(i32 0, ptr %all, ptr %before)
  br label %head
head:
  %have = load i64, ptr @started
  %less = icmp ult i64 %have, %threads
  br i1 %less, label %one, label %done
one:
  %which = inttoptr i64 %have to ptr
  %failed = call i32 @pthread_create(ptr %thread, ptr %how, ptr @worker, ptr %which)
  %made = icmp eq i32 %failed, 0
  br i1 %made, label %count, label %done
count:
  %next = add i64 %have, 1
  store i64 %next, ptr @started
  br label %head
done:
  %a3 = call i32 @pthread_attr_destroy(ptr %how)
  %restored = call i32 @pthread_sigmask(i32 2, ptr %before, ptr null)
  ret void
}

define internal void @member(ptr %ignored) nounwind {
entry:
  %number = load ptr, ptr @number
  %me = call i32 %number()
  %wide = zext i32 %me to i64
  call void @work(i64 %wide)
  %caller = icmp eq i32 %me, 0
  br i1 %caller, label %note, label %done
note:
  %time = call i64 @now()
  store i64 %time, ptr @finished
  br label %done
done:
  ret void
}

define internal void @together(i64 %threads) nounwind {
entry:
  %gomp = load ptr, ptr @gomp
  %openmp = icmp ne ptr %gomp, null
  br i1 %openmp, label %trust, label %own
trust:
  %avoided = load i64, ptr @avoided
  %again = icmp eq i64 %avoided, 0
  br i1 %again, label %others, label %avoid
avoid:
  %one.less = sub i64 %avoided, 1
  store i64 %one.less, ptr @avoided
  br label %own
others:
  %count = trunc i64 %threads to i32
  %began = call i64 @now()
  call void %gomp(ptr @member, ptr null, i32 %count, i32 0)
  %end = call i64 @now()
  %finished = load i64, ptr @finished
  %waited = sub i64 %end, %finished
  ; the last range of a long job takes long, too
  %worked = sub i64 %finished, %began
  %half = ashr i64 %worked, 1
  %most = add i64 %half, $STALL
  %stalled = icmp sgt i64 %waited, %most
  %penalty = load i64, ptr @penalty
  %double = shl i64 %penalty, 1
  %some.jobs = call i64 @llvm.umin.i64(i64 %double, i64 1048576)
  %next.penalty = select i1 %stalled, i64 %some.jobs, i64 64
  %next.avoided = select i1 %stalled, i64 %some.jobs, i64 0
  store i64 %next.penalty, ptr @penalty
  store i64 %next.avoided, ptr @avoided
  ret void
own:
  call void @start(i64 %threads)
  %here = call i32 @sched_getcpu()
  store atomic i32 %here, ptr @core monotonic, align 4
  store atomic i32 -2147483648, ptr @gate seq_cst, align 4
  %job = atomicrmw add ptr @epoch, i32 1 seq_cst
  %asleep = load atomic i32, ptr @sleepers seq_cst, align 4
  %some = icmp ne i32 %asleep, 0
  br i1 %some, label %rouse, label %begin
rouse:
  %workers = trunc i64 %threads to i32
  %others.count = sub i32 %workers, 1
  call void @futex(ptr @epoch, i64 129, i32 %others.count)
  br label %begin
begin:
  call void @work(i64 0)
  %closed = atomicrmw and ptr @gate, i32 2147483647 seq_cst
  br label %wait
wait:
  %turn = phi i32 [ 0, %begin ], [ %turn.next, %spin ], [ 0, %tired ], [ 0, %doze ]
  %gate = load atomic i32, ptr @gate seq_cst, align 4
  %inside = and i32 %gate, 1073741823
  %empty = icmp eq i32 %inside, 0
  br i1 %empty, label %done, label %patience
patience:
  %turn.next = add i32 %turn, 1
  %patient = icmp ult i32 %turn, 2000
  br i1 %patient, label %spin, label %tired
spin:
  $PAUSE
  br label %wait
tired:
  %marked = or i32 %gate, 1073741824
  %tried = cmpxchg ptr @gate, i32 %gate, i32 %marked seq_cst seq_cst
  %set = extractvalue { i32, i1 } %tried, 1
  br i1 %set, label %doze, label %wait
doze:
  call void @futex(ptr @gate, i64 128, i32 %marked)
  br label %wait
done:
  ret void
}

define void @openmp(ptr %gomp, ptr %number) nounwind {
  store ptr %number, ptr @number
  store ptr %gomp, ptr @gomp
  ret void
}

; In the child of a fork: the parent's threads are not there.
define void @forget() nounwind {
  store i32 0, ptr @epoch
  store i32 0, ptr @sleepers
  store i32 0, ptr @gate
  store i32 0, ptr @busy
  store i64 1, ptr @started
  store ptr null, ptr @gomp
  ret void
}
