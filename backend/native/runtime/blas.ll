; blas.c, compiled by clang 22.1.8 (ziglang 0.17.1) and tidied by
; python -m treadle.backend.native.runtime.build: change the C file, not this one.
; python -m ziglang cc -target x86_64-linux-gnu -S -emit-llvm -Os -g0 -std=gnu11 -fPIC -Wall -Wextra -Werror -Wno-unused-command-line-argument -fno-sanitize=all -fno-stack-protector -fno-asynchronous-unwind-tables -fno-vectorize -fno-slp-vectorize -fno-unroll-loops -fno-strict-aliasing -fno-ident -fno-discard-value-names -Xclang -no-enable-noundef-analysis blas.c
; sha256 of blas.c: 0c4cd81c7b38c573212b48359df8dc3a6e0a45ddf57b088d6ff40de5d07205db

%struct.pair = type { i64, i64 }

@inside = internal global i32 0, align 4
@before = internal global i32 0, align 4
@restore = internal global ptr null, align 8
@changing = internal global i32 0, align 4
@.str = private constant [2 x i8] c"T\00", align 1
@.str.1 = private constant [2 x i8] c"N\00", align 1
@.str.2 = private constant [2 x i8] c"U\00", align 1

define i32 @threads_outside(ptr %threads) nounwind {
entry:
  %0 = atomicrmw xchg ptr @changing, i32 1 acquire, align 4
  %tobool.not6.i = icmp eq i32 %0, 0
  br i1 %tobool.not6.i, label %lock.exit, label %while.cond1.i

while.cond1.i:
  %1 = load atomic i32, ptr @changing monotonic, align 4
  %tobool3.not.i = icmp eq i32 %1, 0
  br i1 %tobool3.not.i, label %while.end.i, label %while.cond1.i.backedge

while.cond1.i.backedge:
  br label %while.cond1.i

while.end.i:
  %2 = atomicrmw xchg ptr @changing, i32 1 acquire, align 4
  %tobool.not.i = icmp eq i32 %2, 0
  br i1 %tobool.not.i, label %lock.exit, label %while.cond1.i.backedge

lock.exit:
  %3 = load i32, ptr @inside, align 4
  %tobool.not = icmp eq i32 %3, 0
  br i1 %tobool.not, label %cond.false, label %cond.true

cond.true:
  %4 = load i32, ptr @before, align 4
  br label %cond.end

cond.false:
  %call = tail call i32 %threads() nounwind
  br label %cond.end

cond.end:
  %cond = phi i32 [ %4, %cond.true ], [ %call, %cond.false ]
  store atomic i32 0, ptr @changing release, align 4
  ret i32 %cond
}

define void @forget_products() nounwind {
entry:
  %0 = load i32, ptr @inside, align 4
  %tobool.not = icmp eq i32 %0, 0
  br i1 %tobool.not, label %if.end, label %if.then

if.then:
  %1 = load ptr, ptr @restore, align 8
  %2 = load i32, ptr @before, align 4
  tail call void %1(i32 %2) nounwind
  br label %if.end

if.end:
  store i32 0, ptr @inside, align 4
  store atomic i32 0, ptr @changing release, align 4
  ret void
}

define void @blocks(ptr %product, i64 %first, i64 %last) nounwind {
entry:
  %k.i = alloca i64, align 8
  %rows.i = alloca i64, align 8
  %columns.i = alloca i64, align 8
  %m = getelementptr inbounds nuw i8, ptr %product, i64 56
  %0 = load i64, ptr %m, align 8
  %down1 = getelementptr inbounds nuw i8, ptr %product, i64 128
  %1 = load i64, ptr %down1, align 8
  %add.i = add i64 %0, -1
  %sub.i = add i64 %add.i, %1
  %div.i = sdiv i64 %sub.i, %1
  %n = getelementptr inbounds nuw i8, ptr %product, i64 64
  %2 = load i64, ptr %n, align 8
  %across2 = getelementptr inbounds nuw i8, ptr %product, i64 136
  %3 = load i64, ptr %across2, align 8
  %add.i43 = add i64 %2, -1
  %sub.i44 = add i64 %add.i43, %3
  %div.i45 = sdiv i64 %sub.i44, %3
  %kind = getelementptr inbounds nuw i8, ptr %product, i64 48
  %4 = load i64, ptr %kind, align 8
  %cmp = icmp eq i64 %4, 2
  br i1 %cmp, label %cond.true, label %cond.false

cond.true:
  %add = add nsw i64 %div.i, 1
  %mul = mul nsw i64 %add, %div.i
  %div = sdiv i64 %mul, 2
  br label %cond.end

cond.false:
  %mul4 = mul nsw i64 %div.i45, %div.i
  br label %cond.end

cond.end:
  %cond = phi i64 [ %div, %cond.true ], [ %mul4, %cond.false ]
  %5 = atomicrmw xchg ptr @changing, i32 1 acquire, align 4
  %tobool.not6.i.i = icmp eq i32 %5, 0
  br i1 %tobool.not6.i.i, label %lock.exit.i, label %while.cond1.i.i

while.cond1.i.i:
  %6 = load atomic i32, ptr @changing monotonic, align 4
  %tobool3.not.i.i = icmp eq i32 %6, 0
  br i1 %tobool3.not.i.i, label %while.end.i.i, label %while.cond1.i.i.backedge

while.cond1.i.i.backedge:
  br label %while.cond1.i.i

while.end.i.i:
  %7 = atomicrmw xchg ptr @changing, i32 1 acquire, align 4
  %tobool.not.i.i = icmp eq i32 %7, 0
  br i1 %tobool.not.i.i, label %lock.exit.i, label %while.cond1.i.i.backedge

lock.exit.i:
  %8 = load i32, ptr @inside, align 4
  %inc.i = add nsw i32 %8, 1
  store i32 %inc.i, ptr @inside, align 4
  %cmp.i = icmp eq i32 %8, 0
  br i1 %cmp.i, label %if.then.i, label %enter.exit

if.then.i:
  %threads.i = getelementptr inbounds nuw i8, ptr %product, i64 16
  %9 = load ptr, ptr %threads.i, align 8
  %call.i = tail call i32 %9() nounwind
  store i32 %call.i, ptr @before, align 4
  %set_threads.i = getelementptr inbounds nuw i8, ptr %product, i64 24
  %10 = load ptr, ptr %set_threads.i, align 8
  store ptr %10, ptr @restore, align 8
  tail call void %10(i32 1) nounwind
  br label %enter.exit

enter.exit:
  store atomic i32 0, ptr @changing release, align 4
  %cmp562 = icmp slt i64 %first, %last
  br i1 %cmp562, label %for.body.lr.ph, label %for.cond.cleanup

for.body.lr.ph:
  %addresses = getelementptr inbounds nuw i8, ptr %product, i64 144
  %own = getelementptr inbounds nuw i8, ptr %product, i64 152
  %k2.i = getelementptr inbounds nuw i8, ptr %product, i64 72
  %size.i = getelementptr inbounds nuw i8, ptr %product, i64 80
  %left_by_columns.i = getelementptr inbounds nuw i8, ptr %product, i64 88
  %left_next.i = getelementptr inbounds nuw i8, ptr %product, i64 104
  %right_by_columns.i = getelementptr inbounds nuw i8, ptr %product, i64 96
  %right_next.i = getelementptr inbounds nuw i8, ptr %product, i64 112
  %out_next.i = getelementptr inbounds nuw i8, ptr %product, i64 120
  %square.i = getelementptr inbounds nuw i8, ptr %product, i64 8
  %one55.i = getelementptr inbounds nuw i8, ptr %product, i64 32
  %zero57.i = getelementptr inbounds nuw i8, ptr %product, i64 40
  br label %for.body

for.cond.cleanup:
  %11 = atomicrmw xchg ptr @changing, i32 1 acquire, align 4
  %tobool.not6.i.i46 = icmp eq i32 %11, 0
  br i1 %tobool.not6.i.i46, label %lock.exit.i52, label %while.cond1.i.i48

while.cond1.i.i48:
  %12 = load atomic i32, ptr @changing monotonic, align 4
  %tobool3.not.i.i49 = icmp eq i32 %12, 0
  br i1 %tobool3.not.i.i49, label %while.end.i.i50, label %while.cond1.i.i48.backedge

while.cond1.i.i48.backedge:
  br label %while.cond1.i.i48

while.end.i.i50:
  %13 = atomicrmw xchg ptr @changing, i32 1 acquire, align 4
  %tobool.not.i.i51 = icmp eq i32 %13, 0
  br i1 %tobool.not.i.i51, label %lock.exit.i52, label %while.cond1.i.i48.backedge

lock.exit.i52:
  %14 = load i32, ptr @inside, align 4
  %dec.i = add nsw i32 %14, -1
  store i32 %dec.i, ptr @inside, align 4
  %cmp.i53 = icmp eq i32 %dec.i, 0
  br i1 %cmp.i53, label %if.then.i54, label %leave.exit

if.then.i54:
  %15 = load ptr, ptr @restore, align 8
  %16 = load i32, ptr @before, align 4
  call void %15(i32 %16) nounwind
  br label %leave.exit

leave.exit:
  store atomic i32 0, ptr @changing release, align 4
  ret void

for.body:
  %task.063 = phi i64 [ %first, %for.body.lr.ph ], [ %inc18, %block.exit ]
  %rem = srem i64 %task.063, %cond
  %div13 = sdiv i64 %task.063, %cond
  %17 = load i64, ptr %kind, align 8
  %cmp7 = icmp eq i64 %17, 2
  br i1 %cmp7, label %while.cond.preheader, label %if.else

while.cond.preheader:
  %cmp858 = icmp sgt i64 %rem, 0
  br i1 %cmp858, label %while.body, label %if.end

while.body:
  %j.060 = phi i64 [ %sub, %while.body ], [ %rem, %while.cond.preheader ]
  %i.059 = phi i64 [ %inc, %while.body ], [ 0, %while.cond.preheader ]
  %inc = add nuw nsw i64 %i.059, 1
  %sub = sub nsw i64 %j.060, %inc
  %cmp8 = icmp sgt i64 %sub, %inc
  br i1 %cmp8, label %while.body, label %if.end

if.else:
  %div9 = sdiv i64 %rem, %div.i45
  %rem10 = srem i64 %rem, %div.i45
  br label %if.end

if.end:
  %i.1 = phi i64 [ %div9, %if.else ], [ 0, %while.cond.preheader ], [ %inc, %while.body ]
  %j.1 = phi i64 [ %rem10, %if.else ], [ %rem, %while.cond.preheader ], [ %sub, %while.body ]
  %18 = load ptr, ptr %addresses, align 8
  %tobool.not = icmp eq ptr %18, null
  %add.ptr.idx = mul nsw i64 %div13, 24
  %add.ptr = getelementptr inbounds i8, ptr %18, i64 %add.ptr.idx
  %cond17 = select i1 %tobool.not, ptr %own, ptr %add.ptr
  %19 = load i64, ptr %down1, align 8
  %mul.i = mul nsw i64 %19, %i.1
  %20 = load i64, ptr %across2, align 8
  %mul1.i = mul nsw i64 %20, %j.1
  %21 = load i64, ptr %k2.i, align 8
  store i64 %21, ptr %k.i, align 8
  %22 = load i64, ptr %m, align 8
  %sub.i55 = sub nsw i64 %22, %mul.i
  %cond.i.i = call i64 @llvm.smin.i64(i64 %19, i64 %sub.i55)
  store i64 %cond.i.i, ptr %rows.i, align 8
  %23 = load i64, ptr %n, align 8
  %sub5.i = sub nsw i64 %23, %mul1.i
  %cond.i141.i = call i64 @llvm.smin.i64(i64 %20, i64 %sub5.i)
  store i64 %cond.i141.i, ptr %columns.i, align 8
  %24 = load i64, ptr %cond17, align 8
  %25 = inttoptr i64 %24 to ptr
  %26 = load i64, ptr %size.i, align 8
  %mul7.i = mul nsw i64 %26, %mul.i
  %27 = load i64, ptr %left_by_columns.i, align 8
  %tobool.not.i = icmp eq i64 %27, 0
  br i1 %tobool.not.i, label %cond.false.i, label %cond.end.i

cond.false.i:
  %28 = load i64, ptr %left_next.i, align 8
  br label %cond.end.i

cond.end.i:
  %cond.i = phi i64 [ %28, %cond.false.i ], [ 1, %if.end ]
  %mul8.i = mul nsw i64 %mul7.i, %cond.i
  %add.ptr.i = getelementptr inbounds i8, ptr %25, i64 %mul8.i
  %arrayidx9.i = getelementptr inbounds nuw i8, ptr %cond17, i64 8
  %29 = load i64, ptr %arrayidx9.i, align 8
  %30 = inttoptr i64 %29 to ptr
  %mul11.i = mul nsw i64 %26, %mul1.i
  %31 = load i64, ptr %right_by_columns.i, align 8
  %tobool12.not.i = icmp eq i64 %31, 0
  br i1 %tobool12.not.i, label %cond.end15.i, label %cond.true13.i

cond.true13.i:
  %32 = load i64, ptr %right_next.i, align 8
  br label %cond.end15.i

cond.end15.i:
  %cond29.i = phi ptr [ @.str, %cond.true13.i ], [ @.str.1, %cond.end.i ]
  %cond16.i = phi i64 [ %32, %cond.true13.i ], [ 1, %cond.end.i ]
  %mul17.i = mul nsw i64 %mul11.i, %cond16.i
  %add.ptr18.i = getelementptr inbounds i8, ptr %30, i64 %mul17.i
  %arrayidx19.i = getelementptr inbounds nuw i8, ptr %cond17, i64 16
  %33 = load i64, ptr %arrayidx19.i, align 8
  %34 = inttoptr i64 %33 to ptr
  %35 = load i64, ptr %out_next.i, align 8
  %mul21.i = mul nsw i64 %35, %mul.i
  %add.i56 = add nsw i64 %mul21.i, %mul1.i
  %mul22.i = mul nsw i64 %add.i56, %26
  %add.ptr23.i = getelementptr inbounds i8, ptr %34, i64 %mul22.i
  %cond26.i = select i1 %tobool.not.i, ptr @.str.1, ptr @.str
  switch i64 %17, label %if.else59.i [
    i64 1, label %if.then.i57
    i64 2, label %land.lhs.true.i
  ]

if.then.i57:
  %cond32.i = select i1 %tobool.not.i, ptr @.str, ptr @.str.1
  %rows.k.i = select i1 %tobool.not.i, ptr %k.i, ptr %rows.i
  %cond44.i = select i1 %tobool.not.i, ptr %rows.i, ptr %k.i
  %36 = load ptr, ptr %product, align 8
  %37 = load ptr, ptr %one55.i, align 8
  %38 = load ptr, ptr %zero57.i, align 8
  call void %36(ptr %cond32.i, ptr %rows.k.i, ptr %cond44.i, ptr %37, ptr %add.ptr.i, ptr %left_next.i, ptr %add.ptr18.i, ptr %right_next.i, ptr %38, ptr %add.ptr23.i, ptr %out_next.i, i64 1) nounwind
  br label %block.exit

land.lhs.true.i:
  %cmp50.i = icmp eq i64 %i.1, %j.1
  br i1 %cmp50.i, label %if.then51.i, label %if.else59.i

if.then51.i:
  %39 = load ptr, ptr %square.i, align 8
  %cond54.i = select i1 %tobool.not.i, ptr @.str, ptr @.str.1
  %40 = load ptr, ptr %one55.i, align 8
  %41 = load ptr, ptr %zero57.i, align 8
  call void %39(ptr @.str.2, ptr %cond54.i, ptr %rows.i, ptr %k.i, ptr %40, ptr %add.ptr.i, ptr %left_next.i, ptr %41, ptr %add.ptr23.i, ptr %out_next.i, i64 1, i64 1) nounwind
  %42 = load i64, ptr %rows.i, align 8
  call fastcc void @mirror(ptr %product, ptr %add.ptr23.i, ptr %add.ptr23.i, i64 %42, i64 %42, i32 1) nounwind
  br label %block.exit

if.else59.i:
  %43 = load ptr, ptr %product, align 8
  %44 = load ptr, ptr %one55.i, align 8
  %45 = load ptr, ptr %zero57.i, align 8
  call void %43(ptr %cond29.i, ptr %cond26.i, ptr %columns.i, ptr %rows.i, ptr %k.i, ptr %44, ptr %add.ptr18.i, ptr %right_next.i, ptr %add.ptr.i, ptr %left_next.i, ptr %45, ptr %add.ptr23.i, ptr %out_next.i, i64 1, i64 1) nounwind
  %46 = load i64, ptr %kind, align 8
  %cmp67.i = icmp eq i64 %46, 2
  br i1 %cmp67.i, label %if.then68.i, label %block.exit

if.then68.i:
  %47 = load i64, ptr %arrayidx19.i, align 8
  %48 = inttoptr i64 %47 to ptr
  %49 = load i64, ptr %size.i, align 8
  %50 = load i64, ptr %out_next.i, align 8
  %mul72.i = mul nsw i64 %50, %mul1.i
  %add73.i = add nsw i64 %mul72.i, %mul.i
  %mul74.i = mul nsw i64 %add73.i, %49
  %add.ptr75.i = getelementptr inbounds i8, ptr %48, i64 %mul74.i
  %51 = load i64, ptr %rows.i, align 8
  %52 = load i64, ptr %columns.i, align 8
  call fastcc void @mirror(ptr %product, ptr %add.ptr23.i, ptr %add.ptr75.i, i64 %51, i64 %52, i32 0) nounwind
  br label %block.exit

block.exit:
  %inc18 = add i64 %task.063, 1
  %exitcond.not = icmp eq i64 %inc18, %last
  br i1 %exitcond.not, label %for.cond.cleanup, label %for.body
}

define internal fastcc void @mirror(ptr %p, ptr %from, ptr %to, i64 %rows, i64 %columns, i32 %diagonal) nounwind {
entry:
  %size = getelementptr inbounds nuw i8, ptr %p, i64 80
  %0 = load i64, ptr %size, align 8
  %out_next6 = getelementptr inbounds nuw i8, ptr %p, i64 120
  %1 = load i64, ptr %out_next6, align 8
  %cmp21.i42 = icmp sgt i64 %rows, 0
  switch i64 %0, label %if.else5 [
    i64 4, label %if.then
    i64 8, label %if.then3
  ]

if.then:
  br i1 %cmp21.i42, label %for.cond1.preheader.lr.ph.i, label %if.end7

for.cond1.preheader.lr.ph.i:
  %tobool.not.i = icmp eq i32 %diagonal, 0
  br label %for.cond1.preheader.i

for.cond1.preheader.i:
  %i.022.i = phi i64 [ 0, %for.cond1.preheader.lr.ph.i ], [ %inc9.i, %for.cond.cleanup3.i ]
  %cond.i = select i1 %tobool.not.i, i64 %columns, i64 %i.022.i
  %invariant.gep.i = getelementptr i32, ptr %to, i64 %i.022.i
  %cmp219.i = icmp sgt i64 %cond.i, 0
  br i1 %cmp219.i, label %for.body4.lr.ph.i, label %for.cond.cleanup3.i

for.body4.lr.ph.i:
  %mul.i = mul nsw i64 %i.022.i, %1
  %2 = getelementptr i32, ptr %from, i64 %mul.i
  br label %for.body4.i

for.cond.cleanup3.i:
  %inc9.i = add nuw nsw i64 %i.022.i, 1
  %exitcond23.not.i = icmp eq i64 %inc9.i, %rows
  br i1 %exitcond23.not.i, label %if.end7, label %for.cond1.preheader.i

for.body4.i:
  %j.020.i = phi i64 [ 0, %for.body4.lr.ph.i ], [ %inc.i, %for.body4.i ]
  %arrayidx.i = getelementptr i32, ptr %2, i64 %j.020.i
  %3 = load i32, ptr %arrayidx.i, align 4
  %mul5.i = mul nsw i64 %j.020.i, %1
  %gep.i = getelementptr i32, ptr %invariant.gep.i, i64 %mul5.i
  store i32 %3, ptr %gep.i, align 4
  %inc.i = add nuw nsw i64 %j.020.i, 1
  %exitcond.not.i = icmp eq i64 %inc.i, %cond.i
  br i1 %exitcond.not.i, label %for.cond.cleanup3.i, label %for.body4.i

if.then3:
  br i1 %cmp21.i42, label %for.cond1.preheader.lr.ph.i23, label %if.end7

for.cond1.preheader.lr.ph.i23:
  %tobool.not.i24 = icmp eq i32 %diagonal, 0
  br label %for.cond1.preheader.i25

for.cond1.preheader.i25:
  %i.022.i26 = phi i64 [ 0, %for.cond1.preheader.lr.ph.i23 ], [ %inc9.i31, %for.cond.cleanup3.i30 ]
  %cond.i27 = select i1 %tobool.not.i24, i64 %columns, i64 %i.022.i26
  %invariant.gep.i28 = getelementptr i64, ptr %to, i64 %i.022.i26
  %cmp219.i29 = icmp sgt i64 %cond.i27, 0
  br i1 %cmp219.i29, label %for.body4.lr.ph.i33, label %for.cond.cleanup3.i30

for.body4.lr.ph.i33:
  %mul.i34 = mul nsw i64 %i.022.i26, %1
  %4 = getelementptr i64, ptr %from, i64 %mul.i34
  br label %for.body4.i35

for.cond.cleanup3.i30:
  %inc9.i31 = add nuw nsw i64 %i.022.i26, 1
  %exitcond23.not.i32 = icmp eq i64 %inc9.i31, %rows
  br i1 %exitcond23.not.i32, label %if.end7, label %for.cond1.preheader.i25

for.body4.i35:
  %j.020.i36 = phi i64 [ 0, %for.body4.lr.ph.i33 ], [ %inc.i40, %for.body4.i35 ]
  %arrayidx.i37 = getelementptr i64, ptr %4, i64 %j.020.i36
  %5 = load i64, ptr %arrayidx.i37, align 8
  %mul5.i38 = mul nsw i64 %j.020.i36, %1
  %gep.i39 = getelementptr i64, ptr %invariant.gep.i28, i64 %mul5.i38
  store i64 %5, ptr %gep.i39, align 8
  %inc.i40 = add nuw nsw i64 %j.020.i36, 1
  %exitcond.not.i41 = icmp eq i64 %inc.i40, %cond.i27
  br i1 %exitcond.not.i41, label %for.cond.cleanup3.i30, label %for.body4.i35

if.else5:
  br i1 %cmp21.i42, label %for.cond1.preheader.lr.ph.i43, label %if.end7

for.cond1.preheader.lr.ph.i43:
  %tobool.not.i44 = icmp eq i32 %diagonal, 0
  br label %for.cond1.preheader.i45

for.cond1.preheader.i45:
  %i.022.i46 = phi i64 [ 0, %for.cond1.preheader.lr.ph.i43 ], [ %inc9.i51, %for.cond.cleanup3.i50 ]
  %cond.i47 = select i1 %tobool.not.i44, i64 %columns, i64 %i.022.i46
  %invariant.gep.i48 = getelementptr %struct.pair, ptr %to, i64 %i.022.i46
  %cmp219.i49 = icmp sgt i64 %cond.i47, 0
  br i1 %cmp219.i49, label %for.body4.lr.ph.i53, label %for.cond.cleanup3.i50

for.body4.lr.ph.i53:
  %mul5.i54 = mul nsw i64 %i.022.i46, %1
  %6 = getelementptr %struct.pair, ptr %from, i64 %mul5.i54
  br label %for.body4.i55

for.cond.cleanup3.i50:
  %inc9.i51 = add nuw nsw i64 %i.022.i46, 1
  %exitcond23.not.i52 = icmp eq i64 %inc9.i51, %rows
  br i1 %exitcond23.not.i52, label %if.end7, label %for.cond1.preheader.i45

for.body4.i55:
  %j.020.i56 = phi i64 [ 0, %for.body4.lr.ph.i53 ], [ %inc.i59, %for.body4.i55 ]
  %mul.i57 = mul nsw i64 %j.020.i56, %1
  %gep.i58 = getelementptr %struct.pair, ptr %invariant.gep.i48, i64 %mul.i57
  %arrayidx7.i = getelementptr %struct.pair, ptr %6, i64 %j.020.i56
  tail call void @llvm.memcpy.p0.p0.i64(ptr align 8 dereferenceable(16) %gep.i58, ptr align 8 dereferenceable(16) %arrayidx7.i, i64 16, i1 false)
  %inc.i59 = add nuw nsw i64 %j.020.i56, 1
  %exitcond.not.i60 = icmp eq i64 %inc.i59, %cond.i47
  br i1 %exitcond.not.i60, label %for.cond.cleanup3.i50, label %for.body4.i55

if.end7:
  ret void
}

declare void @llvm.memcpy.p0.p0.i64(ptr noalias, ptr noalias, i64, i1 immarg) nounwind

declare i64 @llvm.smin.i64(i64, i64) nounwind
