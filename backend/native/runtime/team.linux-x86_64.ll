; team.c, compiled by clang 22.1.8 (ziglang 0.17.1) and tidied by
; python -m treadle.backend.native.runtime.build: change the C file, not this one.
; python -m ziglang cc -target x86_64-linux-gnu -S -emit-llvm -Os -g0 -std=gnu11 -fPIC -Wall -Wextra -Werror -Wno-unused-command-line-argument -fno-sanitize=all -fno-stack-protector -fno-asynchronous-unwind-tables -fno-vectorize -fno-slp-vectorize -fno-unroll-loops -fno-strict-aliasing -fno-ident -fno-discard-value-names -Xclang -no-enable-noundef-analysis team.c
; sha256 of team.c, team.h: 29795db94cb70e8a91c4890f47e50afe15d020a8e48857c25c712765e3db3f71

%struct.presence = type { i64, i32, [52 x i8] }
%struct.counter = type { i64, [56 x i8] }
%struct.timespec = type { i64, i64 }
%union.pthread_attr_t = type { i64, [48 x i8] }
%struct.__sigset_t = type { [16 x i64] }

@deadline = internal global i64 0, align 8
@gomp_parallel = internal global ptr null, align 8
@briefs_alone = internal global i64 0, align 8
@woken = internal global i32 0, align 4
@slept = internal global i1 false, align 4
@helped = internal global i1 false, align 4
@most_alone = internal global i64 0, align 8
@paused = internal global i32 0, align 64
@omp_thread_number = internal global ptr null, align 8
@caller_sleeps = internal global i32 0, align 64
@started = internal global i64 1, align 64
@workers = internal global [1024 x %struct.presence] zeroinitializer, align 64
@busy = internal global i32 0, align 64
@job.0 = internal global i64 0, align 64
@job.1 = internal global ptr null, align 8
@job.2 = internal global ptr null, align 16
@job.3 = internal global i64 0, align 8
@job.4 = internal global i64 0, align 32
@job.5 = internal global i64 0, align 8
@job.6 = internal global i32 -1, align 16
@handed_out = internal global [1024 x %struct.counter] zeroinitializer, align 64
@jobs_to_avoid = internal global i64 0, align 8
@caller_finished = internal global i64 0, align 8
@penalty = internal global i64 64, align 8

define void @parallel(ptr %function, ptr %arguments, i64 %tasks, i64 %threads) nounwind {
entry:
  %cmp.i = icmp slt i64 %threads, 2
  br i1 %cmp.i, label %take_team.exit, label %lor.lhs.false.i

lor.lhs.false.i:
  %0 = cmpxchg ptr @busy, i32 0, i32 1 seq_cst seq_cst, align 64
  %1 = extractvalue { i32, i1 } %0, 1
  br i1 %1, label %if.then, label %take_team.exit

take_team.exit:
  tail call void %function(ptr %arguments, i64 0, i64 %tasks) nounwind
  br label %if.end2

if.then:
  store ptr %function, ptr @job.1, align 8
  store ptr %arguments, ptr @job.2, align 16
  store i64 %tasks, ptr @job.3, align 8
  store i64 %threads, ptr @job.4, align 32
  %mul.i = shl nsw i64 %threads, 4
  %div.i = sdiv i64 %tasks, %mul.i
  %spec.select.i = tail call i64 @llvm.smax.i64(i64 %div.i, i64 1)
  store i64 %spec.select.i, ptr @job.5, align 8
  store i64 9223372036854775807, ptr @deadline, align 8
  %mul = shl nuw nsw i64 %threads, 1
  %cmp = icmp sgt i64 %tasks, %mul
  %2 = load ptr, ptr @gomp_parallel, align 8
  %tobool = icmp ne ptr %2, null
  %or.cond = select i1 %cmp, i1 true, i1 %tobool
  br i1 %or.cond, label %for.body.i.preheader, label %if.then1

if.then1:
  store i64 0, ptr @job.5, align 8
  br label %if.end

for.body.i.preheader:
  store atomic i32 0, ptr @paused monotonic, align 64
  br label %for.body.i

for.body.i:
  %k.05.i = phi i64 [ %inc.i, %for.body.i ], [ 0, %for.body.i.preheader ]
  %arrayidx.i = getelementptr inbounds nuw %struct.counter, ptr @handed_out, i64 %k.05.i
  store atomic i64 0, ptr %arrayidx.i monotonic, align 64
  %inc.i = add nuw i64 %k.05.i, 1
  %exitcond.not = icmp eq i64 %inc.i, %threads
  br i1 %exitcond.not, label %if.end, label %for.body.i

if.end:
  tail call fastcc void @run_job(i64 %threads) nounwind
  store atomic i32 0, ptr @busy release, align 64
  br label %if.end2

if.end2:
  ret void
}

define internal fastcc void @run_job(i64 %threads) nounwind {
entry:
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
  tail call fastcc void @start_workers(i64 %threads) nounwind
  %call = tail call i32 @sched_getcpu() nounwind
  store atomic i32 %call, ptr @job.6 monotonic, align 16
  %9 = load atomic i64, ptr @job.0 monotonic, align 64
  %div1.i = and i64 %9, -2048
  %mul.i37 = add i64 %div1.i, 2048
  %sub = add nsw i64 %threads, -1
  %or = or i64 %mul.i37, %sub
  %or4 = or i64 %or, 1024
  store atomic i64 %or4, ptr @job.0 seq_cst, align 64
  %call6 = tail call fastcc zeroext i1 @wake(i64 %threads) nounwind
  store i1 false, ptr @slept, align 4
  store i1 false, ptr @helped, align 4
  tail call fastcc void @work(i64 0) nounwind
  %10 = load i64, ptr @job.5, align 8
  %tobool7.not = icmp eq i64 %10, 0
  br i1 %tobool7.not, label %for.cond.preheader, label %if.then8

for.cond.preheader:
  %cmp1045 = icmp sgt i64 %threads, 1
  br i1 %cmp1045, label %for.body.lr.ph, label %return

for.body.lr.ph:
  %shl.i = shl i64 %or4, 1
  br label %for.body

if.then8:
  %xor = and i64 %or, -1025
  store atomic i64 %xor, ptr @job.0 seq_cst, align 64
  br label %if.end15

for.body:
  %k.046 = phi i64 [ 1, %for.body.lr.ph ], [ %inc.pre-phi, %for.inc ]
  %arrayidx = getelementptr inbounds nuw %struct.presence, ptr @workers, i64 %k.046
  %11 = load atomic i64, ptr %arrayidx seq_cst, align 64
  br label %while.cond.i

while.cond.i:
  %before.0.i = phi i64 [ %11, %for.body ], [ %14, %while.body.i ]
  %shr.i = lshr i64 %before.0.i, 1
  %cmp.i38 = icmp ult i64 %shr.i, %or4
  br i1 %cmp.i38, label %while.body.i, label %if.else13

while.body.i:
  %12 = cmpxchg weak ptr %arrayidx, i64 %before.0.i, i64 %shl.i seq_cst seq_cst, align 64
  %13 = extractvalue { i64, i1 } %12, 1
  %14 = extractvalue { i64, i1 } %12, 0
  br i1 %13, label %if.then12, label %while.cond.i

if.then12:
  %15 = load ptr, ptr @job.1, align 8
  %16 = load ptr, ptr @job.2, align 16
  %17 = load i64, ptr @job.3, align 8
  %mul.i.i = mul i64 %17, %k.046
  %18 = load i64, ptr @job.4, align 32
  %div.i.i = udiv i64 %mul.i.i, %18
  %add.i39 = add nuw nsw i64 %k.046, 1
  %mul.i3.i = mul i64 %17, %add.i39
  %div.i4.i = udiv i64 %mul.i3.i, %18
  tail call void %15(ptr %16, i64 %div.i.i, i64 %div.i4.i) nounwind
  br label %for.inc

if.else13:
  store i1 true, ptr @helped, align 4
  %.pre = add nuw nsw i64 %k.046, 1
  br label %for.inc

for.inc:
  %inc.pre-phi = phi i64 [ %add.i39, %if.then12 ], [ %.pre, %if.else13 ]
  %exitcond.not = icmp eq i64 %inc.pre-phi, %threads
  br i1 %exitcond.not, label %if.end15, label %for.body

if.end15:
  %cmp1847 = icmp sgt i64 %threads, 1
  br i1 %cmp1847, label %for.body20.lr.ph, label %return

for.body20.lr.ph:
  %shl.i.i = shl i64 %or4, 1
  %or.i.i = or disjoint i64 %shl.i.i, 1
  br label %for.body20

for.body20:
  %k16.048 = phi i64 [ 1, %for.body20.lr.ph ], [ %inc22, %wait_for.exit ]
  %arrayidx.i.i = getelementptr inbounds nuw %struct.presence, ptr @workers, i64 %k16.048
  %19 = load atomic i64, ptr %arrayidx.i.i seq_cst, align 64
  %cmp.i11.i = icmp eq i64 %19, %or.i.i
  br i1 %cmp.i11.i, label %while.body.i40, label %wait_for.exit

while.body.i40:
  %polls.012.i = phi i32 [ %polls.0.be.i, %while.cond.backedge.i ], [ 0, %for.body20 ]
  %cmp.i41 = icmp slt i32 %polls.012.i, 2000
  br i1 %cmp.i41, label %if.then.i43, label %if.end.i

if.then.i43:
  %inc.i = add nsw i32 %polls.012.i, 1
  tail call void @llvm.x86.sse2.pause()
  br label %while.cond.backedge.i

while.cond.backedge.i:
  %polls.0.be.i = phi i32 [ %inc.i, %if.then.i43 ], [ 0, %if.end3.i ]
  %20 = load atomic i64, ptr %arrayidx.i.i seq_cst, align 64
  %cmp.i.i = icmp eq i64 %20, %or.i.i
  br i1 %cmp.i.i, label %while.body.i40, label %wait_for.exit

if.end.i:
  store i1 true, ptr @slept, align 4
  store atomic i32 1, ptr @caller_sleeps seq_cst, align 64
  %21 = load atomic i64, ptr %arrayidx.i.i seq_cst, align 64
  %cmp.i10.i = icmp eq i64 %21, %or.i.i
  br i1 %cmp.i10.i, label %if.then2.i, label %if.end3.i

if.then2.i:
  %call.i.i42 = tail call i64 (i64, ...) @syscall(i64 202, ptr @caller_sleeps, i32 128, i32 1, ptr null, ptr null, i32 0) nounwind
  br label %if.end3.i

if.end3.i:
  store atomic i32 0, ptr @caller_sleeps seq_cst, align 64
  br label %while.cond.backedge.i

wait_for.exit:
  %inc22 = add nuw nsw i64 %k16.048, 1
  %exitcond49.not = icmp eq i64 %inc22, %threads
  br i1 %exitcond49.not, label %return, label %for.body20

return:
  ret void
}

define void @parallel_brief(ptr %function, ptr %arguments, i64 %tasks, i64 %threads) nounwind {
entry:
  %cmp.i = icmp slt i64 %threads, 2
  br i1 %cmp.i, label %take_team.exit, label %lor.lhs.false.i

lor.lhs.false.i:
  %0 = cmpxchg ptr @busy, i32 0, i32 1 seq_cst seq_cst, align 64
  %1 = extractvalue { i32, i1 } %0, 1
  br i1 %1, label %if.end, label %take_team.exit

take_team.exit:
  tail call void %function(ptr %arguments, i64 0, i64 %tasks) nounwind
  br label %return

if.end:
  store ptr %function, ptr @job.1, align 8
  store ptr %arguments, ptr @job.2, align 16
  store i64 %tasks, ptr @job.3, align 8
  store i64 %threads, ptr @job.4, align 32
  %mul.i = shl nsw i64 %threads, 4
  %div.i = sdiv i64 %tasks, %mul.i
  %spec.select.i = tail call i64 @llvm.smax.i64(i64 %div.i, i64 1)
  store i64 %spec.select.i, ptr @job.5, align 8
  %2 = load i64, ptr @briefs_alone, align 8
  %cmp1 = icmp sgt i64 %2, 0
  br i1 %cmp1, label %if.end3.thread, label %if.end3

if.end3.thread:
  %dec = add nsw i64 %2, -1
  store i64 %dec, ptr @briefs_alone, align 8
  br label %if.then14

if.end3:
  %3 = load ptr, ptr @gomp_parallel, align 8
  %cmp.not = icmp eq ptr %3, null
  br i1 %cmp.not, label %if.then4, label %if.then14

if.then4:
  tail call fastcc void @start_workers(i64 %threads) nounwind
  %call5 = tail call fastcc zeroext i1 @wake(i64 %threads) nounwind
  %4 = load i32, ptr @woken, align 4
  %tobool = icmp ne i32 %4, 0
  %or.cond = select i1 %call5, i1 %tobool, i1 false
  br i1 %or.cond, label %if.then8, label %if.end12

if.then8:
  %5 = load i64, ptr @most_alone, align 8
  %cond.i = tail call i64 @llvm.smax.i64(i64 %5, i64 16)
  store i64 %cond.i, ptr @briefs_alone, align 8
  %mul.i33 = shl nuw nsw i64 %cond.i, 1
  %cond6.i = tail call i64 @llvm.umin.i64(i64 %mul.i33, i64 1048576)
  store i64 %cond6.i, ptr @most_alone, align 8
  br label %if.end12

if.end12:
  %tobool11.not = icmp eq i32 %4, 0
  %6 = select i1 %call5, i1 %tobool11.not, i1 false
  %land.ext = zext i1 %6 to i32
  store i32 %land.ext, ptr @woken, align 4
  br i1 %call5, label %if.then14, label %if.else

if.then14:
  tail call void %function(ptr %arguments, i64 0, i64 %tasks) nounwind
  br label %if.end22

if.else:
  store i64 0, ptr @job.5, align 8
  tail call fastcc void @run_job(i64 %threads) nounwind
  %.b = load i1, ptr @slept, align 4
  br i1 %.b, label %if.then16, label %if.else17

if.then16:
  %7 = load i64, ptr @most_alone, align 8
  %cond.i34 = tail call i64 @llvm.smax.i64(i64 %7, i64 1024)
  store i64 %cond.i34, ptr @briefs_alone, align 8
  %mul.i35 = shl nuw nsw i64 %cond.i34, 1
  %cond6.i36 = tail call i64 @llvm.umin.i64(i64 %mul.i35, i64 1048576)
  store i64 %cond6.i36, ptr @most_alone, align 8
  br label %if.end22

if.else17:
  %.b32 = load i1, ptr @helped, align 4
  br i1 %.b32, label %if.then19, label %if.end22

if.then19:
  store i64 0, ptr @most_alone, align 8
  br label %if.end22

if.end22:
  store atomic i32 0, ptr @busy release, align 64
  br label %return

return:
  ret void
}

define internal fastcc void @start_workers(i64 %threads) nounwind {
entry:
  %attributes = alloca %union.pthread_attr_t, align 8
  %all = alloca %struct.__sigset_t, align 8
  %before = alloca %struct.__sigset_t, align 8
  %made = alloca i64, align 8
  %0 = load i64, ptr @started, align 64
  %cmp.not = icmp slt i64 %0, %threads
  br i1 %cmp.not, label %if.end, label %return

if.end:
  %call = call i32 @pthread_attr_init(ptr %attributes) nounwind
  %call1 = call i32 @pthread_attr_setdetachstate(ptr %attributes, i32 1) nounwind
  %call2 = call i32 @pthread_attr_setstacksize(ptr %attributes, i64 4194304) nounwind
  %call3 = call i32 @sigfillset(ptr %all) nounwind
  %call4 = call i32 @pthread_sigmask(i32 0, ptr %all, ptr %before) nounwind
  %1 = load i64, ptr @started, align 64
  %cmp512 = icmp slt i64 %1, %threads
  br i1 %cmp512, label %for.body, label %for.end

for.body:
  %2 = phi i64 [ %inc, %for.inc ], [ %1, %if.end ]
  %3 = inttoptr i64 %2 to ptr
  %call6 = call i32 @pthread_create(ptr %made, ptr %attributes, ptr @worker, ptr %3) nounwind
  %tobool.not = icmp eq i32 %call6, 0
  br i1 %tobool.not, label %for.inc, label %for.end

for.inc:
  %4 = load i64, ptr @started, align 64
  %inc = add nsw i64 %4, 1
  store i64 %inc, ptr @started, align 64
  %cmp5 = icmp slt i64 %inc, %threads
  br i1 %cmp5, label %for.body, label %for.end

for.end:
  %call9 = call i32 @pthread_attr_destroy(ptr %attributes) nounwind
  %call10 = call i32 @pthread_sigmask(i32 2, ptr %before, ptr null) nounwind
  br label %return

return:
  ret void
}

define internal fastcc zeroext i1 @wake(i64 %threads) nounwind {
entry:
  %cmp11 = icmp sgt i64 %threads, 1
  br i1 %cmp11, label %for.body, label %for.cond.cleanup

for.cond.cleanup:
  %any.0.lcssa = phi i1 [ false, %entry ], [ %any.1, %for.inc ]
  ret i1 %any.0.lcssa

for.body:
  %any.013 = phi i1 [ %any.1, %for.inc ], [ false, %entry ]
  %k.012 = phi i64 [ %inc, %for.inc ], [ 1, %entry ]
  %arrayidx = getelementptr inbounds nuw %struct.presence, ptr @workers, i64 %k.012
  %asleep = getelementptr inbounds nuw i8, ptr %arrayidx, i64 8
  %0 = load atomic i32, ptr %asleep seq_cst, align 8
  %tobool.not = icmp eq i32 %0, 0
  br i1 %tobool.not, label %for.inc, label %land.lhs.true

land.lhs.true:
  %1 = atomicrmw xchg ptr %asleep, i32 0 seq_cst, align 8
  %tobool4.not = icmp eq i32 %1, 0
  br i1 %tobool4.not, label %for.inc, label %if.then

if.then:
  %call.i = tail call i64 (i64, ...) @syscall(i64 202, ptr %asleep, i32 129, i32 1, ptr null, ptr null, i32 0) nounwind
  br label %for.inc

for.inc:
  %any.1 = phi i1 [ true, %if.then ], [ %any.013, %land.lhs.true ], [ %any.013, %for.body ]
  %inc = add nuw nsw i64 %k.012, 1
  %exitcond.not = icmp eq i64 %inc, %threads
  br i1 %exitcond.not, label %for.cond.cleanup, label %for.body
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
  %1 = load i64, ptr @job.5, align 8
  %2 = tail call i64 @llvm.smax.i64(i64 %1, i64 2)
  %spec.select = lshr i64 %2, 1
  store i64 %spec.select, ptr @job.5, align 8
  store atomic i32 0, ptr @paused monotonic, align 64
  br label %if.end7

if.else:
  %cmp.i = icmp slt i64 %threads, 2
  br i1 %cmp.i, label %take_team.exit, label %lor.lhs.false.i

lor.lhs.false.i:
  %3 = cmpxchg ptr @busy, i32 0, i32 1 seq_cst seq_cst, align 64
  %4 = extractvalue { i32, i1 } %3, 1
  br i1 %4, label %for.body.i.preheader, label %take_team.exit

take_team.exit:
  tail call void %function(ptr %arguments, i64 0, i64 %tasks) nounwind
  br label %return

for.body.i.preheader:
  store ptr %function, ptr @job.1, align 8
  store ptr %arguments, ptr @job.2, align 16
  store i64 %tasks, ptr @job.3, align 8
  store i64 %threads, ptr @job.4, align 32
  %mul.i = shl nsw i64 %threads, 4
  %div.i = sdiv i64 %tasks, %mul.i
  %spec.select.i = tail call i64 @llvm.smax.i64(i64 %div.i, i64 1)
  store atomic i32 0, ptr @paused monotonic, align 64
  br label %for.body.i

for.body.i:
  %k.05.i = phi i64 [ %inc.i, %for.body.i ], [ 0, %for.body.i.preheader ]
  %arrayidx.i = getelementptr inbounds nuw %struct.counter, ptr @handed_out, i64 %k.05.i
  store atomic i64 0, ptr %arrayidx.i monotonic, align 64
  %inc.i = add nuw i64 %k.05.i, 1
  %exitcond.not = icmp eq i64 %inc.i, %threads
  br i1 %exitcond.not, label %start_ranges.exit, label %for.body.i

start_ranges.exit:
  %5 = tail call i64 @llvm.umin.i64(i64 %spec.select.i, i64 128)
  store i64 %5, ptr @job.5, align 8
  br label %if.end7

if.end7:
  store i32 1, ptr %held, align 4
  %call.i = call i32 @clock_gettime(i32 1, ptr %time.i) nounwind
  %6 = load i64, ptr %time.i, align 8
  %mul.i17 = mul nsw i64 %6, 1000000000
  %tv_nsec.i = getelementptr inbounds nuw i8, ptr %time.i, i64 8
  %7 = load i64, ptr %tv_nsec.i, align 8
  %add.i = add i64 %7, 50000000
  %add = add i64 %add.i, %mul.i17
  store i64 %add, ptr @deadline, align 8
  call fastcc void @run_job(i64 %threads) nounwind
  %8 = load atomic i32, ptr @paused monotonic, align 64
  %tobool9.not = icmp eq i32 %8, 0
  br i1 %tobool9.not, label %if.end11, label %return

if.end11:
  store i32 0, ptr %held, align 4
  store atomic i32 0, ptr @busy release, align 64
  br label %return

return:
  %retval.0 = phi i32 [ 0, %take_team.exit ], [ 0, %if.end11 ], [ 1, %if.end7 ]
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
  %0 = load atomic i64, ptr @job.0 monotonic, align 64
  %div1.i = and i64 %0, -2048
  %mul.i = add i64 %div1.i, 2048
  store atomic i64 %mul.i, ptr @job.0 monotonic, align 64
  store atomic i32 0, ptr @caller_sleeps monotonic, align 64
  %1 = load i64, ptr @started, align 64
  %cmp6 = icmp sgt i64 %1, 0
  br i1 %cmp6, label %for.body, label %for.cond.cleanup

for.cond.cleanup:
  store atomic i32 0, ptr @busy monotonic, align 64
  store i64 1, ptr @started, align 64
  store ptr null, ptr @gomp_parallel, align 8
  ret void

for.body:
  %k.07 = phi i64 [ %inc, %for.body ], [ 0, %entry ]
  %arrayidx = getelementptr inbounds nuw %struct.presence, ptr @workers, i64 %k.07
  %asleep = getelementptr inbounds nuw i8, ptr %arrayidx, i64 8
  store atomic i32 0, ptr %asleep monotonic, align 8
  %inc = add nuw nsw i64 %k.07, 1
  %cmp = icmp slt i64 %inc, %1
  br i1 %cmp, label %for.body, label %for.cond.cleanup
}

declare i32 @sched_getcpu() nounwind

define internal fastcc void @work(i64 %thread) nounwind {
entry:
  %time.i.i = alloca %struct.timespec, align 8
  %0 = load i64, ptr @job.5, align 8
  %tobool.not = icmp eq i64 %0, 0
  %1 = load ptr, ptr @job.1, align 8
  %2 = load ptr, ptr @job.2, align 16
  br i1 %tobool.not, label %if.else, label %if.then

if.then:
  %3 = load i64, ptr @job.4, align 32
  %cmp71.not.i = icmp eq i64 %3, 0
  br i1 %cmp71.not.i, label %if.end, label %for.body.lr.ph.i

for.body.lr.ph.i:
  %cmp19.i = icmp eq i64 %thread, 0
  %tv_nsec.i.i = getelementptr inbounds nuw i8, ptr %time.i.i, i64 8
  br label %for.body.i

for.body.i:
  %k.072.i = phi i64 [ 0, %for.body.lr.ph.i ], [ %inc.i, %for.inc.i ]
  %add.i = add i64 %k.072.i, %thread
  %rem.i = urem i64 %add.i, %3
  %4 = load i64, ptr @job.3, align 8
  %mul.i.i = mul i64 %4, %rem.i
  %5 = load i64, ptr @job.4, align 32
  %div.i.i = udiv i64 %mul.i.i, %5
  %add1.i = add nuw i64 %rem.i, 1
  %mul.i61.i = mul i64 %4, %add1.i
  %div.i62.i = udiv i64 %mul.i61.i, %5
  %6 = load atomic i32, ptr @paused monotonic, align 64
  %tobool.not70.i = icmp eq i32 %6, 0
  br i1 %tobool.not70.i, label %if.end.lr.ph.i, label %if.end

if.end.lr.ph.i:
  %arrayidx.i = getelementptr inbounds nuw %struct.counter, ptr @handed_out, i64 %rem.i
  br label %if.end.i

if.end.i:
  %7 = load atomic i64, ptr %arrayidx.i monotonic, align 64
  %add5.i = add nsw i64 %7, %div.i.i
  %cmp6.not.i = icmp slt i64 %add5.i, %div.i62.i
  br i1 %cmp6.not.i, label %if.end8.i, label %for.inc.i

if.end8.i:
  %8 = atomicrmw add ptr %arrayidx.i, i64 %0 monotonic, align 64
  %add12.i = add nsw i64 %8, %div.i.i
  %cmp13.not.i = icmp slt i64 %add12.i, %div.i62.i
  br i1 %cmp13.not.i, label %if.end15.i, label %for.inc.i

if.end15.i:
  %add16.i = add nsw i64 %add12.i, %0
  %cond.i = call i64 @llvm.smin.i64(i64 %add16.i, i64 %div.i62.i)
  call void %1(ptr %2, i64 %add12.i, i64 %cond.i) nounwind
  %9 = load i64, ptr @deadline, align 8
  %cmp20.i = icmp ne i64 %9, 9223372036854775807
  %or.cond.i = select i1 %cmp19.i, i1 %cmp20.i, i1 false
  br i1 %or.cond.i, label %land.lhs.true21.i, label %cleanup.i

land.lhs.true21.i:
  %call.i.i = call i32 @clock_gettime(i32 1, ptr %time.i.i) nounwind
  %10 = load i64, ptr %time.i.i, align 8
  %mul.i63.i = mul nsw i64 %10, 1000000000
  %11 = load i64, ptr %tv_nsec.i.i, align 8
  %add.i.i = add nsw i64 %mul.i63.i, %11
  %12 = load i64, ptr @deadline, align 8
  %cmp23.not.i = icmp slt i64 %add.i.i, %12
  br i1 %cmp23.not.i, label %cleanup.i, label %cleanup.thread.i

cleanup.thread.i:
  store atomic i32 1, ptr @paused monotonic, align 64
  br label %if.end

cleanup.i:
  %13 = load atomic i32, ptr @paused monotonic, align 64
  %tobool.not.i = icmp eq i32 %13, 0
  br i1 %tobool.not.i, label %if.end.i, label %if.end

for.inc.i:
  %inc.i = add nuw i64 %k.072.i, 1
  %exitcond.not.i = icmp eq i64 %inc.i, %3
  br i1 %exitcond.not.i, label %if.end, label %for.body.i

if.else:
  %14 = load i64, ptr @job.3, align 8
  %mul.i.i2 = mul i64 %14, %thread
  %15 = load i64, ptr @job.4, align 32
  %div.i.i3 = udiv i64 %mul.i.i2, %15
  %add.i4 = add i64 %thread, 1
  %mul.i3.i = mul i64 %14, %add.i4
  %div.i4.i = udiv i64 %mul.i3.i, %15
  tail call void %1(ptr %2, i64 %div.i.i3, i64 %div.i4.i) nounwind
  br label %if.end

if.end:
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

declare void @llvm.x86.sse2.pause() nounwind

declare i64 @syscall(i64, ...) nounwind

declare i32 @pthread_attr_init(ptr) nounwind

declare i32 @pthread_attr_setdetachstate(ptr, i32) nounwind

declare i32 @pthread_attr_setstacksize(ptr, i64) nounwind

declare i32 @sigfillset(ptr) nounwind

declare i32 @pthread_sigmask(i32, ptr, ptr) nounwind

declare i32 @pthread_create(ptr, ptr, ptr, ptr) nounwind

define internal noalias ptr @worker(ptr %thread) nounwind {
entry:
  %time.i38.i = alloca %struct.timespec, align 8
  %time.i32.i = alloca %struct.timespec, align 8
  %time.i27.i = alloca %struct.timespec, align 8
  %time.i.i = alloca %struct.timespec, align 8
  %0 = ptrtoint ptr %thread to i64
  %arrayidx = getelementptr inbounds nuw %struct.presence, ptr @workers, i64 %0
  %tv_nsec.i.i = getelementptr inbounds nuw i8, ptr %time.i.i, i64 8
  %tv_nsec.i30.i = getelementptr inbounds nuw i8, ptr %time.i27.i, i64 8
  %tv_nsec.i35.i = getelementptr inbounds nuw i8, ptr %time.i32.i, i64 8
  %asleep.i = getelementptr inbounds nuw i8, ptr %arrayidx, i64 8
  %tv_nsec.i41.i = getelementptr inbounds nuw i8, ptr %time.i38.i, i64 8
  br label %for.cond

for.cond:
  %number.0 = phi i64 [ 0, %entry ], [ %3, %for.cond.backedge ]
  %call.i.i = call i32 @clock_gettime(i32 1, ptr %time.i.i) nounwind
  %1 = load i64, ptr %time.i.i, align 8
  %mul.i.i = mul nsw i64 %1, 1000000000
  %2 = load i64, ptr %tv_nsec.i.i, align 8
  %add.i.i = add nsw i64 %mul.i.i, %2
  br label %for.cond.i

for.cond.i:
  %since.0.i = phi i64 [ %add.i.i, %for.cond ], [ %since.0.i.be, %for.cond.i.backedge ]
  %previous.addr.0.i = phi i64 [ %number.0, %for.cond ], [ %previous.addr.1.i, %for.cond.i.backedge ]
  %3 = load atomic i64, ptr @job.0 seq_cst, align 64
  %cmp.not.i = icmp eq i64 %3, %previous.addr.0.i
  br i1 %cmp.not.i, label %if.end4.i, label %if.then.i

if.then.i:
  %and.i.i = and i64 %3, 1024
  %tobool.i.i = icmp ne i64 %and.i.i, 0
  %and1.i.i = and i64 %3, 1023
  %cmp.i.i = icmp uge i64 %and1.i.i, %0
  %4 = select i1 %tobool.i.i, i1 %cmp.i.i, i1 false
  br i1 %4, label %next_job.exit, label %if.end.i

if.end.i:
  %call.i28.i = call i32 @clock_gettime(i32 1, ptr %time.i27.i) nounwind
  %5 = load i64, ptr %time.i27.i, align 8
  %mul.i29.i = mul nsw i64 %5, 1000000000
  %6 = load i64, ptr %tv_nsec.i30.i, align 8
  %add.i31.i = add nsw i64 %mul.i29.i, %6
  br label %if.end4.i

if.end4.i:
  %since.1.i = phi i64 [ %add.i31.i, %if.end.i ], [ %since.0.i, %for.cond.i ]
  %previous.addr.1.i = phi i64 [ %3, %if.end.i ], [ %previous.addr.0.i, %for.cond.i ]
  call void @llvm.x86.sse2.pause()
  %call5.i = call i32 @sched_getcpu() nounwind
  %7 = load atomic i32, ptr @job.6 monotonic, align 16
  %cmp7.i = icmp eq i32 %call5.i, %7
  br i1 %cmp7.i, label %if.then10.i, label %lor.lhs.false.i

lor.lhs.false.i:
  %call.i33.i = call i32 @clock_gettime(i32 1, ptr %time.i32.i) nounwind
  %8 = load i64, ptr %time.i32.i, align 8
  %mul.i34.i = mul nsw i64 %8, 1000000000
  %9 = load i64, ptr %tv_nsec.i35.i, align 8
  %add.i36.i = sub i64 %9, %since.1.i
  %sub.i = add i64 %add.i36.i, %mul.i34.i
  %cmp9.i = icmp sgt i64 %sub.i, 24999
  br i1 %cmp9.i, label %if.then10.i, label %for.cond.i.backedge

if.then10.i:
  store atomic i32 1, ptr %asleep.i seq_cst, align 8
  %10 = load atomic i64, ptr @job.0 seq_cst, align 64
  %cmp12.i = icmp eq i64 %10, %3
  br i1 %cmp12.i, label %if.then13.i, label %if.end15.i

if.then13.i:
  %call.i37.i = call i64 (i64, ...) @syscall(i64 202, ptr %asleep.i, i32 128, i32 1, ptr null, ptr null, i32 0) nounwind
  br label %if.end15.i

if.end15.i:
  store atomic i32 0, ptr %asleep.i seq_cst, align 8
  %call.i39.i = call i32 @clock_gettime(i32 1, ptr %time.i38.i) nounwind
  %11 = load i64, ptr %time.i38.i, align 8
  %mul.i40.i = mul nsw i64 %11, 1000000000
  %12 = load i64, ptr %tv_nsec.i41.i, align 8
  %add.i42.i = add nsw i64 %mul.i40.i, %12
  br label %for.cond.i.backedge

for.cond.i.backedge:
  %since.0.i.be = phi i64 [ %since.1.i, %lor.lhs.false.i ], [ %add.i42.i, %if.end15.i ]
  br label %for.cond.i

next_job.exit:
  %13 = load atomic i64, ptr %arrayidx seq_cst, align 64
  %shl.i.i = shl i64 %3, 1
  %or.i.i = or disjoint i64 %shl.i.i, 1
  br label %while.cond.i.i

while.cond.i.i:
  %before.0.i.i = phi i64 [ %13, %next_job.exit ], [ %16, %while.body.i.i ]
  %shr.i.i = lshr i64 %before.0.i.i, 1
  %cmp.i.i8 = icmp ult i64 %shr.i.i, %3
  br i1 %cmp.i.i8, label %while.body.i.i, label %for.cond.backedge

while.body.i.i:
  %14 = cmpxchg weak ptr %arrayidx, i64 %before.0.i.i, i64 %or.i.i seq_cst seq_cst, align 64
  %15 = extractvalue { i64, i1 } %14, 1
  %16 = extractvalue { i64, i1 } %14, 0
  br i1 %15, label %if.end.i9, label %while.cond.i.i

if.end.i9:
  %17 = load atomic i64, ptr @job.0 seq_cst, align 64
  %cmp.i = icmp eq i64 %17, %3
  br i1 %cmp.i, label %if.then, label %if.end.sink.split

if.then:
  call fastcc void @work(i64 %0) nounwind
  br label %if.end.sink.split

if.end.sink.split:
  call fastcc void @leave(ptr %arrayidx, i64 %3) nounwind
  br label %for.cond.backedge

for.cond.backedge:
  br label %for.cond
}

declare i32 @pthread_attr_destroy(ptr) nounwind

define internal fastcc void @leave(ptr %own, i64 %number) nounwind {
entry:
  %shl = shl i64 %number, 1
  %or = or disjoint i64 %shl, 1
  %0 = cmpxchg ptr %own, i64 %or, i64 %shl seq_cst seq_cst, align 64
  %1 = load atomic i32, ptr @caller_sleeps seq_cst, align 64
  %tobool.not = icmp eq i32 %1, 0
  br i1 %tobool.not, label %if.end, label %land.lhs.true

land.lhs.true:
  %2 = atomicrmw xchg ptr @caller_sleeps, i32 0 seq_cst, align 64
  %tobool4.not = icmp eq i32 %2, 0
  br i1 %tobool4.not, label %if.end, label %if.then

if.then:
  %call.i = tail call i64 (i64, ...) @syscall(i64 202, ptr @caller_sleeps, i32 129, i32 1, ptr null, ptr null, i32 0) nounwind
  br label %if.end

if.end:
  ret void
}

declare i32 @clock_gettime(i32, ptr) nounwind

declare i64 @llvm.smax.i64(i64, i64) nounwind

declare i64 @llvm.umin.i64(i64, i64) nounwind

declare i64 @llvm.smin.i64(i64, i64) nounwind
