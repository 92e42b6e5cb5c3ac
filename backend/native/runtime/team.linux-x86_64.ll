; team.c, compiled by clang 22.1.8 (ziglang 0.17.1) and tidied by
; python -m treadle.backend.native.runtime.build: change the C file, not this one.
; python -m ziglang cc -target x86_64-linux-gnu -S -emit-llvm -Os -g0 -std=gnu11 -fPIC -Wall -Wextra -Werror -Wno-unused-command-line-argument -fno-sanitize=all -fno-stack-protector -fno-asynchronous-unwind-tables -fno-vectorize -fno-slp-vectorize -fno-unroll-loops -fno-strict-aliasing -fno-ident -fno-discard-value-names -Xclang -no-enable-noundef-analysis team.c
; sha256 of team.c, team.h: 8b6463b1fd90486e11fe9ac3e57806055dd9f213a67a1a7a7b5dedb49ab26b40

%struct.presence = type { i32, [60 x i8] }
%struct.counter = type { i64, [56 x i8] }
%union.pthread_attr_t = type { i64, [48 x i8] }
%struct.__sigset_t = type { [16 x i64] }
%struct.timespec = type { i64, i64 }

@deadline = internal global i64 0, align 8
@job_range = internal global i64 0, align 8
@paused = internal global i32 0, align 64
@omp_thread_number = internal global ptr null, align 8
@gomp_parallel = internal global ptr null, align 8
@epoch = internal global i32 0, align 64
@sleepers = internal global i32 0, align 64
@caller_sleeps = internal global i32 0, align 64
@started = internal global i64 1, align 64
@inside = internal global [1024 x %struct.presence] zeroinitializer, align 64
@busy = internal global i32 0, align 64
@job_function = internal global ptr null, align 64
@job_arguments = internal global ptr null, align 8
@job_tasks = internal global i64 0, align 8
@job_threads = internal global i64 0, align 8
@handed_out = internal global [1024 x %struct.counter] zeroinitializer, align 64
@jobs_to_avoid = internal global i64 0, align 8
@caller_core = internal global i32 -1, align 4
@caller_finished = internal global i64 0, align 8
@penalty = internal global i64 64, align 8

define void @parallel(ptr %function, ptr %arguments, i64 %tasks, i64 %threads) nounwind {
entry:
  %call = tail call fastcc zeroext i1 @take_team(ptr %function, ptr %arguments, i64 %tasks, i64 %threads) nounwind
  br i1 %call, label %if.then, label %if.end

if.then:
  store i64 9223372036854775807, ptr @deadline, align 8
  tail call fastcc void @run_job(i64 %threads) nounwind
  store atomic i32 0, ptr @busy release, align 64
  br label %if.end

if.end:
  ret void
}

define internal fastcc zeroext i1 @take_team(ptr %function, ptr %arguments, i64 %tasks, i64 %threads) nounwind {
entry:
  %cmp = icmp slt i64 %threads, 2
  br i1 %cmp, label %if.then, label %lor.lhs.false

lor.lhs.false:
  %0 = cmpxchg ptr @busy, i32 0, i32 1 seq_cst seq_cst, align 64
  %1 = extractvalue { i32, i1 } %0, 1
  br i1 %1, label %for.body.preheader, label %if.then

if.then:
  tail call void %function(ptr %arguments, i64 0, i64 %tasks) nounwind
  br label %cleanup

for.body.preheader:
  store ptr %function, ptr @job_function, align 64
  store ptr %arguments, ptr @job_arguments, align 8
  store i64 %tasks, ptr @job_tasks, align 8
  store i64 %threads, ptr @job_threads, align 8
  %mul = shl nsw i64 %threads, 4
  %div = sdiv i64 %tasks, %mul
  %spec.select = tail call i64 @llvm.smax.i64(i64 %div, i64 1)
  store i64 %spec.select, ptr @job_range, align 8
  store atomic i32 0, ptr @paused monotonic, align 64
  br label %for.body

for.body:
  %k.019 = phi i64 [ %inc, %for.body ], [ 0, %for.body.preheader ]
  %arrayidx = getelementptr inbounds nuw %struct.counter, ptr @handed_out, i64 %k.019
  store atomic i64 0, ptr %arrayidx monotonic, align 64
  %inc = add nuw nsw i64 %k.019, 1
  %exitcond.not = icmp eq i64 %inc, %threads
  br i1 %exitcond.not, label %cleanup, label %for.body

cleanup:
  %retval.0 = phi i1 [ false, %if.then ], [ true, %for.body ]
  ret i1 %retval.0
}

define internal fastcc void @run_job(i64 %threads) nounwind {
entry:
  %attributes.i = alloca %union.pthread_attr_t, align 8
  %all.i = alloca %struct.__sigset_t, align 8
  %before.i = alloca %struct.__sigset_t, align 8
  %made.i = alloca i64, align 8
  %time.i7.i = alloca %struct.timespec, align 8
  %time.i.i = alloca %struct.timespec, align 8
  %0 = load ptr, ptr @gomp_parallel, align 8
  %tobool.not = icmp eq ptr %0, null
  br i1 %tobool.not, label %if.end2, label %if.then

if.then:
  %1 = load i64, ptr @jobs_to_avoid, align 8
  %cmp = icmp eq i64 %1, 0
  br i1 %cmp, label %if.then1, label %if.end

if.then1:
  %call.i.i = call i32 @clock_gettime(i32 1, ptr %time.i.i) nounwind
  %2 = load i64, ptr %time.i.i, align 8
  %tv_nsec.i.i = getelementptr inbounds nuw i8, ptr %time.i.i, i64 8
  %3 = load i64, ptr %tv_nsec.i.i, align 8
  %4 = load ptr, ptr @gomp_parallel, align 8
  %conv.i = trunc i64 %threads to i32
  call void %4(ptr @openmp_member, ptr null, i32 %conv.i, i32 0) nounwind
  %call.i8.i = call i32 @clock_gettime(i32 1, ptr %time.i7.i) nounwind
  %5 = load i64, ptr %time.i7.i, align 8
  %mul.i9.i = mul nsw i64 %5, 1000000000
  %tv_nsec.i10.i = getelementptr inbounds nuw i8, ptr %time.i7.i, i64 8
  %6 = load i64, ptr %tv_nsec.i10.i, align 8
  %add.i11.i = add nsw i64 %mul.i9.i, %6
  %7 = load i64, ptr @caller_finished, align 8
  %sub.i = sub i64 %add.i11.i, %7
  %mul.i.neg.i = mul i64 %2, -1000000000
  %add.i.neg.i = sub i64 %mul.i.neg.i, %3
  %sub2.i = add i64 %add.i.neg.i, %7
  %div.i = sdiv i64 %sub2.i, 2
  %add.i = add nsw i64 %div.i, 200000
  %cmp.i = icmp sgt i64 %sub.i, %add.i
  br i1 %cmp.i, label %if.then.i, label %run_by_openmp.exit

if.then.i:
  %8 = load i64, ptr @penalty, align 8
  %mul.i = shl nsw i64 %8, 1
  %cond.i = call i64 @llvm.smin.i64(i64 %mul.i, i64 1048576)
  store i64 %cond.i, ptr @jobs_to_avoid, align 8
  br label %run_by_openmp.exit

run_by_openmp.exit:
  %.sink.i = phi i64 [ %cond.i, %if.then.i ], [ 64, %if.then1 ]
  store i64 %.sink.i, ptr @penalty, align 8
  br label %return

if.end:
  %dec = add nsw i64 %1, -1
  store i64 %dec, ptr @jobs_to_avoid, align 8
  br label %if.end2

if.end2:
  %9 = load i64, ptr @started, align 64
  %cmp.not.i = icmp slt i64 %9, %threads
  br i1 %cmp.not.i, label %if.end.i, label %start_workers.exit

if.end.i:
  %call.i = call i32 @pthread_attr_init(ptr %attributes.i) nounwind
  %call1.i = call i32 @pthread_attr_setdetachstate(ptr %attributes.i, i32 1) nounwind
  %call2.i = call i32 @pthread_attr_setstacksize(ptr %attributes.i, i64 4194304) nounwind
  %call3.i = call i32 @sigfillset(ptr %all.i) nounwind
  %call4.i = call i32 @pthread_sigmask(i32 0, ptr %all.i, ptr %before.i) nounwind
  %10 = load i64, ptr @started, align 64
  %cmp512.i = icmp slt i64 %10, %threads
  br i1 %cmp512.i, label %for.body.i, label %for.end.i

for.body.i:
  %11 = phi i64 [ %inc.i, %for.inc.i ], [ %10, %if.end.i ]
  %12 = inttoptr i64 %11 to ptr
  %call6.i = call i32 @pthread_create(ptr %made.i, ptr %attributes.i, ptr @worker, ptr %12) nounwind
  %tobool.not.i = icmp eq i32 %call6.i, 0
  br i1 %tobool.not.i, label %for.inc.i, label %for.end.i

for.inc.i:
  %13 = load i64, ptr @started, align 64
  %inc.i = add nsw i64 %13, 1
  store i64 %inc.i, ptr @started, align 64
  %cmp5.i = icmp slt i64 %inc.i, %threads
  br i1 %cmp5.i, label %for.body.i, label %for.end.i

for.end.i:
  %call9.i = call i32 @pthread_attr_destroy(ptr %attributes.i) nounwind
  %call10.i = call i32 @pthread_sigmask(i32 2, ptr %before.i, ptr null) nounwind
  br label %start_workers.exit

start_workers.exit:
  %call = call i32 @sched_getcpu() nounwind
  store atomic i32 %call, ptr @caller_core monotonic, align 4
  %14 = atomicrmw add ptr @epoch, i32 1 seq_cst, align 64
  %15 = load atomic i32, ptr @sleepers seq_cst, align 64
  %tobool5.not = icmp eq i32 %15, 0
  br i1 %tobool5.not, label %if.end7, label %if.then6

if.then6:
  %16 = trunc i64 %threads to i32
  %conv.i12 = add i32 %16, -1
  %call.i13 = call i64 (i64, ...) @syscall(i64 202, ptr @epoch, i32 129, i32 %conv.i12, ptr null, ptr null, i32 0) nounwind
  br label %if.end7

if.end7:
  call fastcc void @work(i64 0) nounwind
  %17 = atomicrmw add ptr @epoch, i32 1 seq_cst, align 64
  %18 = load i64, ptr @started, align 64
  %cmp3.i25.i = icmp sgt i64 %18, 1
  br i1 %cmp3.i25.i, label %for.body.i.preheader.i, label %return

for.body.i.preheader.i:
  %polls.027.i = phi i32 [ %polls.0.be.i, %while.cond.backedge.i ], [ 0, %if.end7 ]
  %first.026.i = phi i64 [ %first.0.be.i, %while.cond.backedge.i ], [ 1, %if.end7 ]
  br label %for.body.i.i

for.body.i.i:
  %first.1.i = phi i64 [ %inc.i.i, %for.inc.i.i ], [ %first.026.i, %for.body.i.preheader.i ]
  %arrayidx.i.i = getelementptr inbounds %struct.presence, ptr @inside, i64 %first.1.i
  %19 = load atomic i32, ptr %arrayidx.i.i seq_cst, align 64
  %tobool.not.not.i.i = icmp eq i32 %19, 0
  br i1 %tobool.not.not.i.i, label %for.inc.i.i, label %while.body.i

for.inc.i.i:
  %inc.i.i = add nsw i64 %first.1.i, 1
  %20 = load i64, ptr @started, align 64
  %cmp.i.i = icmp slt i64 %inc.i.i, %20
  br i1 %cmp.i.i, label %for.body.i.i, label %return

while.body.i:
  %cmp.i14 = icmp slt i32 %polls.027.i, 2000
  br i1 %cmp.i14, label %if.then.i17, label %if.end.i15

if.then.i17:
  %inc.i18 = add nsw i32 %polls.027.i, 1
  call void @llvm.x86.sse2.pause()
  br label %while.cond.backedge.i

while.cond.backedge.i:
  %first.0.be.i = phi i64 [ %first.1.i, %if.then.i17 ], [ %first.421.i, %if.end3.i ]
  %polls.0.be.i = phi i32 [ %inc.i18, %if.then.i17 ], [ 0, %if.end3.i ]
  %21 = load i64, ptr @started, align 64
  %cmp3.i.i = icmp slt i64 %first.0.be.i, %21
  br i1 %cmp3.i.i, label %for.body.i.preheader.i, label %return

if.end.i15:
  store atomic i32 1, ptr @caller_sleeps seq_cst, align 64
  %22 = load i64, ptr @started, align 64
  %cmp3.i5.i = icmp slt i64 %first.1.i, %22
  br i1 %cmp3.i5.i, label %for.body.i7.i, label %if.end3.i

for.body.i7.i:
  %first.3.i = phi i64 [ %inc.i11.i, %for.inc.i10.i ], [ %first.1.i, %if.end.i15 ]
  %arrayidx.i8.i = getelementptr inbounds %struct.presence, ptr @inside, i64 %first.3.i
  %23 = load atomic i32, ptr %arrayidx.i8.i seq_cst, align 64
  %tobool.not.not.i9.i = icmp eq i32 %23, 0
  br i1 %tobool.not.not.i9.i, label %for.inc.i10.i, label %if.then2.i

for.inc.i10.i:
  %inc.i11.i = add nsw i64 %first.3.i, 1
  %24 = load i64, ptr @started, align 64
  %cmp.i12.i = icmp slt i64 %inc.i11.i, %24
  br i1 %cmp.i12.i, label %for.body.i7.i, label %if.end3.i

if.then2.i:
  %call.i.i16 = call i64 (i64, ...) @syscall(i64 202, ptr @caller_sleeps, i32 128, i32 1, ptr null, ptr null, i32 0) nounwind
  br label %if.end3.i

if.end3.i:
  %first.421.i = phi i64 [ %first.3.i, %if.then2.i ], [ %first.1.i, %if.end.i15 ], [ %inc.i11.i, %for.inc.i10.i ]
  store atomic i32 0, ptr @caller_sleeps seq_cst, align 64
  br label %while.cond.backedge.i

return:
  ret void
}

define void @abandon(ptr %held) nounwind {
entry:
  store i32 0, ptr %held, align 4
  store atomic i32 0, ptr @busy release, align 64
  ret void
}

define i32 @parallel_interruptible(ptr %function, ptr %arguments, i64 %tasks, i64 %threads, ptr %held) nounwind {
entry:
  %time.i = alloca %struct.timespec, align 8
  %0 = load i32, ptr %held, align 4
  %tobool.not = icmp eq i32 %0, 0
  br i1 %tobool.not, label %if.else, label %if.then

if.then:
  %1 = load i64, ptr @job_range, align 8
  %2 = tail call i64 @llvm.smax.i64(i64 %1, i64 2)
  %spec.select = lshr i64 %2, 1
  store i64 %spec.select, ptr @job_range, align 8
  store atomic i32 0, ptr @paused monotonic, align 64
  br label %if.end7

if.else:
  %call = tail call fastcc zeroext i1 @take_team(ptr %function, ptr %arguments, i64 %tasks, i64 %threads) nounwind
  br i1 %call, label %if.end, label %return

if.end:
  %3 = load i64, ptr @job_range, align 8
  %cond6 = tail call i64 @llvm.smin.i64(i64 %3, i64 128)
  store i64 %cond6, ptr @job_range, align 8
  br label %if.end7

if.end7:
  store i32 1, ptr %held, align 4
  %call.i = call i32 @clock_gettime(i32 1, ptr %time.i) nounwind
  %4 = load i64, ptr %time.i, align 8
  %mul.i = mul nsw i64 %4, 1000000000
  %tv_nsec.i = getelementptr inbounds nuw i8, ptr %time.i, i64 8
  %5 = load i64, ptr %tv_nsec.i, align 8
  %add.i = add i64 %5, 50000000
  %add = add i64 %add.i, %mul.i
  store i64 %add, ptr @deadline, align 8
  call fastcc void @run_job(i64 %threads) nounwind
  %6 = load atomic i32, ptr @paused monotonic, align 64
  %tobool9.not = icmp eq i32 %6, 0
  br i1 %tobool9.not, label %if.end11, label %return

if.end11:
  store i32 0, ptr %held, align 4
  store atomic i32 0, ptr @busy release, align 64
  br label %return

return:
  %retval.0 = phi i32 [ 0, %if.else ], [ 0, %if.end11 ], [ 1, %if.end7 ]
  ret i32 %retval.0
}

define void @use_openmp(ptr %parallel_region, ptr %thread_number) nounwind {
entry:
  store ptr %thread_number, ptr @omp_thread_number, align 8
  store ptr %parallel_region, ptr @gomp_parallel, align 8
  ret void
}

define void @forget_threads() nounwind {
entry:
  store atomic i32 0, ptr @epoch monotonic, align 64
  store atomic i32 0, ptr @sleepers monotonic, align 64
  store atomic i32 0, ptr @caller_sleeps monotonic, align 64
  %0 = load i64, ptr @started, align 64
  %cmp7 = icmp sgt i64 %0, 0
  br i1 %cmp7, label %for.body, label %for.cond.cleanup

for.cond.cleanup:
  store atomic i32 0, ptr @busy monotonic, align 64
  store i64 1, ptr @started, align 64
  store ptr null, ptr @gomp_parallel, align 8
  ret void

for.body:
  %k.08 = phi i64 [ %inc, %for.body ], [ 0, %entry ]
  %arrayidx = getelementptr inbounds nuw %struct.presence, ptr @inside, i64 %k.08
  store atomic i32 0, ptr %arrayidx monotonic, align 64
  %inc = add nuw nsw i64 %k.08, 1
  %cmp = icmp slt i64 %inc, %0
  br i1 %cmp, label %for.body, label %for.cond.cleanup
}

declare i32 @sched_getcpu() nounwind

define internal fastcc void @work(i64 %thread) nounwind {
entry:
  %time.i = alloca %struct.timespec, align 8
  %0 = load ptr, ptr @job_function, align 64
  %1 = load ptr, ptr @job_arguments, align 8
  %2 = load i64, ptr @job_tasks, align 8
  %3 = load i64, ptr @job_threads, align 8
  %4 = load i64, ptr @job_range, align 8
  %cmp72.not = icmp eq i64 %3, 0
  br i1 %cmp72.not, label %cleanup32, label %for.body.lr.ph

for.body.lr.ph:
  %cmp20 = icmp eq i64 %thread, 0
  %tv_nsec.i = getelementptr inbounds nuw i8, ptr %time.i, i64 8
  br label %for.body

for.body:
  %k.073 = phi i64 [ 0, %for.body.lr.ph ], [ %inc, %for.inc ]
  %add = add i64 %k.073, %thread
  %rem = urem i64 %add, %3
  %mul = mul i64 %rem, %2
  %div = udiv i64 %mul, %3
  %add1 = add nuw nsw i64 %rem, 1
  %mul2 = mul i64 %add1, %2
  %div3 = udiv i64 %mul2, %3
  %5 = load atomic i32, ptr @paused monotonic, align 64
  %tobool.not71 = icmp eq i32 %5, 0
  br i1 %tobool.not71, label %if.end.lr.ph, label %cleanup32

if.end.lr.ph:
  %arrayidx = getelementptr inbounds nuw %struct.counter, ptr @handed_out, i64 %rem
  br label %if.end

if.end:
  %6 = load atomic i64, ptr %arrayidx monotonic, align 64
  %add6 = add nsw i64 %6, %div
  %cmp7.not = icmp slt i64 %add6, %div3
  br i1 %cmp7.not, label %if.end9, label %for.inc

if.end9:
  %7 = atomicrmw add ptr %arrayidx, i64 %4 monotonic, align 64
  %add13 = add nsw i64 %7, %div
  %cmp14.not = icmp slt i64 %add13, %div3
  br i1 %cmp14.not, label %if.end16, label %for.inc

if.end16:
  %add17 = add nsw i64 %add13, %4
  %cond = call i64 @llvm.smin.i64(i64 %add17, i64 %div3)
  call void %0(ptr %1, i64 %add13, i64 %cond) nounwind
  %8 = load i64, ptr @deadline, align 8
  %cmp21 = icmp ne i64 %8, 9223372036854775807
  %or.cond = select i1 %cmp20, i1 %cmp21, i1 false
  br i1 %or.cond, label %land.lhs.true22, label %cleanup

land.lhs.true22:
  %call.i = call i32 @clock_gettime(i32 1, ptr %time.i) nounwind
  %9 = load i64, ptr %time.i, align 8
  %mul.i = mul nsw i64 %9, 1000000000
  %10 = load i64, ptr %tv_nsec.i, align 8
  %add.i = add nsw i64 %mul.i, %10
  %11 = load i64, ptr @deadline, align 8
  %cmp23.not = icmp slt i64 %add.i, %11
  br i1 %cmp23.not, label %cleanup, label %cleanup.thread

cleanup.thread:
  store atomic i32 1, ptr @paused monotonic, align 64
  br label %cleanup32

cleanup:
  %12 = load atomic i32, ptr @paused monotonic, align 64
  %tobool.not = icmp eq i32 %12, 0
  br i1 %tobool.not, label %if.end, label %cleanup32

for.inc:
  %inc = add nuw i64 %k.073, 1
  %exitcond.not = icmp eq i64 %inc, %3
  br i1 %exitcond.not, label %cleanup32, label %for.body

cleanup32:
  ret void
}

define internal void @openmp_member(ptr readnone %unused) nounwind {
entry:
  %time.i = alloca %struct.timespec, align 8
  %0 = load ptr, ptr @omp_thread_number, align 8
  %call = tail call i32 %0() nounwind
  %conv = zext i32 %call to i64
  tail call fastcc void @work(i64 %conv) nounwind
  %cmp = icmp eq i32 %call, 0
  br i1 %cmp, label %if.then, label %if.end

if.then:
  %call.i = call i32 @clock_gettime(i32 1, ptr %time.i) nounwind
  %1 = load i64, ptr %time.i, align 8
  %mul.i = mul nsw i64 %1, 1000000000
  %tv_nsec.i = getelementptr inbounds nuw i8, ptr %time.i, i64 8
  %2 = load i64, ptr %tv_nsec.i, align 8
  %add.i = add nsw i64 %mul.i, %2
  store i64 %add.i, ptr @caller_finished, align 8
  br label %if.end

if.end:
  ret void
}

declare i32 @pthread_attr_init(ptr) nounwind

declare i32 @pthread_attr_setdetachstate(ptr, i32) nounwind

declare i32 @pthread_attr_setstacksize(ptr, i64) nounwind

declare i32 @sigfillset(ptr) nounwind

declare i32 @pthread_sigmask(i32, ptr, ptr) nounwind

declare i32 @pthread_create(ptr, ptr, ptr, ptr) nounwind

define internal noalias ptr @worker(ptr %thread) nounwind {
entry:
  %time.i16.i = alloca %struct.timespec, align 8
  %time.i.i = alloca %struct.timespec, align 8
  %0 = ptrtoint ptr %thread to i64
  %arrayidx = getelementptr inbounds nuw %struct.presence, ptr @inside, i64 %0
  %tv_nsec.i.i = getelementptr inbounds nuw i8, ptr %time.i.i, i64 8
  %tv_nsec.i19.i = getelementptr inbounds nuw i8, ptr %time.i16.i, i64 8
  br label %for.cond

for.cond:
  %job.0 = phi i32 [ 0, %entry ], [ %.lcssa.i, %for.cond.backedge ]
  %call.i.i = call i32 @clock_gettime(i32 1, ptr %time.i.i) nounwind
  %1 = load i64, ptr %time.i.i, align 8
  %2 = load i64, ptr %tv_nsec.i.i, align 8
  %3 = load atomic i32, ptr @epoch seq_cst, align 64
  %cmp.not25.i = icmp ne i32 %3, %job.0
  %and.i26.i = and i32 %3, 1
  %tobool.i27.i = icmp ne i32 %and.i26.i, 0
  %or.cond28.i = and i1 %cmp.not25.i, %tobool.i27.i
  br i1 %or.cond28.i, label %next_job.exit, label %if.end.i

if.end.i:
  %4 = phi i32 [ %10, %cleanup.i ], [ %3, %for.cond ]
  call void @llvm.x86.sse2.pause()
  %call2.i = call i32 @sched_getcpu() nounwind
  %5 = load atomic i32, ptr @caller_core monotonic, align 4
  %cmp4.i = icmp eq i32 %call2.i, %5
  br i1 %cmp4.i, label %if.then7.i, label %lor.lhs.false.i

lor.lhs.false.i:
  %call.i17.i = call i32 @clock_gettime(i32 1, ptr %time.i16.i) nounwind
  %6 = load i64, ptr %time.i16.i, align 8
  %7 = load i64, ptr %tv_nsec.i19.i, align 8
  %reass.add.i = sub i64 %6, %1
  %reass.mul.i = mul i64 %reass.add.i, 1000000000
  %add.i20.i = sub i64 %7, %2
  %sub.i = add i64 %add.i20.i, %reass.mul.i
  %cmp6.i = icmp sgt i64 %sub.i, 24999
  br i1 %cmp6.i, label %if.then7.i, label %cleanup.i

if.then7.i:
  %8 = atomicrmw add ptr @sleepers, i32 1 seq_cst, align 64
  %call.i21.i = call i64 (i64, ...) @syscall(i64 202, ptr @epoch, i32 128, i32 %4, ptr null, ptr null, i32 0) nounwind
  %9 = atomicrmw sub ptr @sleepers, i32 1 seq_cst, align 64
  br label %cleanup.i

cleanup.i:
  %10 = load atomic i32, ptr @epoch seq_cst, align 64
  %cmp.not.i = icmp ne i32 %10, %job.0
  %and.i.i = and i32 %10, 1
  %tobool.i.i = icmp ne i32 %and.i.i, 0
  %or.cond.i = and i1 %cmp.not.i, %tobool.i.i
  br i1 %or.cond.i, label %next_job.exit, label %if.end.i

next_job.exit:
  %.lcssa.i = phi i32 [ %3, %for.cond ], [ %10, %cleanup.i ]
  store atomic i32 1, ptr %arrayidx seq_cst, align 64
  %11 = load atomic i32, ptr @epoch seq_cst, align 64
  %cmp.i = icmp eq i32 %11, %.lcssa.i
  br i1 %cmp.i, label %if.then, label %if.end

if.then:
  call fastcc void @work(i64 %0) nounwind
  br label %if.end

if.end:
  store atomic i32 0, ptr %arrayidx seq_cst, align 64
  %12 = load atomic i32, ptr @caller_sleeps seq_cst, align 64
  %tobool.not.i = icmp eq i32 %12, 0
  br i1 %tobool.not.i, label %for.cond.backedge, label %land.lhs.true.i

for.cond.backedge:
  br label %for.cond

land.lhs.true.i:
  %13 = atomicrmw xchg ptr @caller_sleeps, i32 0 seq_cst, align 64
  %tobool3.not.i = icmp eq i32 %13, 0
  br i1 %tobool3.not.i, label %for.cond.backedge, label %if.then.i

if.then.i:
  %call.i.i5 = call i64 (i64, ...) @syscall(i64 202, ptr @caller_sleeps, i32 129, i32 1, ptr null, ptr null, i32 0) nounwind
  br label %for.cond.backedge
}

declare i32 @pthread_attr_destroy(ptr) nounwind

declare void @llvm.x86.sse2.pause() nounwind

declare i64 @syscall(i64, ...) nounwind

declare i32 @clock_gettime(i32, ptr) nounwind

declare i64 @llvm.smin.i64(i64, i64) nounwind

declare i64 @llvm.smax.i64(i64, i64) nounwind
