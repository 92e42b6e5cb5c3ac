; replay.c, compiled by clang 22.1.8 (ziglang 0.17.1) and tidied by
; python -m treadle.backend.native.runtime.build: change the C file, not this one.
; python -m ziglang cc -target x86_64-linux-gnu -S -emit-llvm -Os -g0 -std=gnu11 -fPIC -Wall -Wextra -Werror -Wno-unused-command-line-argument -fno-sanitize=all -fno-stack-protector -fno-asynchronous-unwind-tables -fno-vectorize -fno-slp-vectorize -fno-unroll-loops -fno-strict-aliasing -fno-ident -fno-discard-value-names -Xclang -no-enable-noundef-analysis -isystem PYTHON -isystem NUMPY replay.c
; sha256 of replay.c, late.h, passes.h, team.h: 78f62912bbeb6288cdc63a59cbfb04ec562cfe536c41b6428a294683141f350c

%struct.runner = type { ptr, i64, i64, i64 }
%struct.array = type { i64, ptr, ptr, i64, ptr, ptr, i64 }
%struct.dimension = type { i64, i64 }
%struct.number = type { i64, i64, i64, i64, i64, ptr, i64 }
%struct.result = type { ptr, i64, ptr, ptr, i64, ptr, i64, ptr, ptr }
%struct.block = type { ptr, ptr }
%struct.buffer = type { ptr, i64, i64, i64 }
%struct.state = type { %struct.moving, ptr, i64, i64, i64, ptr, i64 }
%struct.moving = type { ptr, i64, ptr, i64 }
%struct.made = type { %struct.moving, i64, i64, i64, i64 }

@__const.run_operations.runner = private constant %struct.runner { ptr null, i64 1, i64 1, i64 0 }, align 8
@replay_function.method = internal global { ptr, ptr, i32, [4 x i8], ptr } { ptr @.str, ptr @replay, i32 128, [4 x i8] zeroinitializer, ptr null }, align 8
@.str = private constant [7 x i8] c"replay\00", align 1
@numpy_functions = external global i8, align 8
@_Py_NoneStruct = external global i8, align 8
@PyFloat_Type = external global i8, align 8
@PyLong_Type = external global i8, align 8
@PyBool_Type = external global i8, align 8
@_Py_TrueStruct = external global i8, align 8
@PyComplex_Type = external global i8, align 8

define i64 @run_operations(ptr %part) nounwind {
entry:
  %runner = alloca %struct.runner, align 8
  call void @llvm.memcpy.p0.p0.i64(ptr align 8 dereferenceable(32) %runner, ptr align 8 dereferenceable(32) @__const.run_operations.runner, i64 24, i1 false)
  %call = tail call ptr @PyEval_SaveThread() nounwind
  store ptr %call, ptr %runner, align 8
  %call1 = tail call i64 @clock() nounwind
  %since = getelementptr inbounds nuw i8, ptr %runner, i64 24
  store i64 %call1, ptr %since, align 8
  %call2 = call fastcc i32 @run_part(ptr %part, ptr %runner) nounwind
  %0 = load ptr, ptr %runner, align 8
  call void @PyEval_RestoreThread(ptr %0) nounwind
  %conv = zext nneg i32 %call2 to i64
  ret i64 %conv
}

declare void @llvm.memcpy.p0.p0.i64(ptr noalias, ptr noalias, i64, i1 immarg) nounwind

declare ptr @PyEval_SaveThread() nounwind

declare i64 @clock() nounwind

define internal fastcc i32 @run_part(ptr %part, ptr %runner) nounwind {
entry:
  %0 = load ptr, ptr %part, align 8
  %operation_count = getelementptr inbounds nuw i8, ptr %part, i64 8
  %1 = load i64, ptr %operation_count, align 8
  %add.ptr.idx = mul nsw i64 %1, 40
  %add.ptr = getelementptr inbounds i8, ptr %0, i64 %add.ptr.idx
  %cmp133 = icmp sgt i64 %1, 0
  br i1 %cmp133, label %for.body.lr.ph, label %for.cond.cleanup

for.body.lr.ph:
  %iterations.i102 = getelementptr inbounds nuw i8, ptr %runner, i64 8
  br label %for.body

for.cond.cleanup:
  %outcome.0.lcssa = phi i32 [ 0, %entry ], [ %call.i100, %if.then.i98 ], [ %call24.i, %if.then22.i ], [ %call31.i, %if.end32.i ], [ %call27.i, %if.end28.i ], [ %call15.i, %if.then14.i ], [ %call36.i, %if.end37.i ], [ %outcome.1, %for.inc ]
  ret i32 %outcome.0.lcssa

for.body:
  %op.0134 = phi ptr [ %0, %for.body.lr.ph ], [ %incdec.ptr, %for.inc ]
  %2 = load i64, ptr %op.0134, align 8
  %conv = trunc i64 %2 to i32
  switch i32 %conv, label %for.inc [
    i32 0, label %sw.bb
    i32 1, label %sw.bb21
    i32 2, label %sw.bb24
    i32 3, label %sw.bb28
    i32 4, label %sw.bb30
    i32 5, label %sw.bb33
    i32 6, label %sw.bb39
    i32 7, label %sw.bb44
  ]

sw.bb:
  %threads = getelementptr inbounds nuw i8, ptr %op.0134, i64 32
  %3 = load i64, ptr %threads, align 8
  %cmp3 = icmp slt i64 %3, 0
  br i1 %cmp3, label %if.then, label %if.else

if.then:
  %target = getelementptr inbounds nuw i8, ptr %op.0134, i64 8
  %4 = load ptr, ptr %target, align 8
  %source = getelementptr inbounds nuw i8, ptr %op.0134, i64 16
  %5 = load ptr, ptr %source, align 8
  %size = getelementptr inbounds nuw i8, ptr %op.0134, i64 24
  %6 = load i64, ptr %size, align 8
  %sub = sub nsw i64 0, %3
  tail call void @parallel_brief(ptr %4, ptr %5, i64 %6, i64 %sub) nounwind
  br label %for.inc

if.else:
  %cmp7 = icmp samesign ult i64 %3, 2
  br i1 %cmp7, label %if.then9, label %if.else10

if.then9:
  %target.i = getelementptr inbounds nuw i8, ptr %op.0134, i64 8
  %7 = load ptr, ptr %target.i, align 8
  %size.i = getelementptr inbounds nuw i8, ptr %op.0134, i64 24
  %8 = load i64, ptr %size.i, align 8
  %cmp17.i = icmp sgt i64 %8, 0
  br i1 %cmp17.i, label %for.body.lr.ph.i, label %for.inc

for.body.lr.ph.i:
  %source.i = getelementptr inbounds nuw i8, ptr %op.0134, i64 16
  br label %for.body.i

for.body.i:
  %9 = phi i64 [ %8, %for.body.lr.ph.i ], [ %11, %if.end.i ]
  %first.018.i = phi i64 [ 0, %for.body.lr.ph.i ], [ %add.i, %if.end.i ]
  %sub.i = sub nsw i64 %9, %first.018.i
  %cmp3.i = icmp slt i64 %sub.i, 129
  %10 = load ptr, ptr %source.i, align 8
  %add.i = add nuw nsw i64 %first.018.i, 128
  %cond.i = select i1 %cmp3.i, i64 %9, i64 %add.i
  tail call void %7(ptr %10, i64 %first.018.i, i64 %cond.i) nounwind
  br i1 %cmp3.i, label %if.end.i, label %if.then.i

if.then.i:
  %call.i = tail call fastcc i32 @breathe(ptr %runner) nounwind
  br label %if.end.i

if.end.i:
  %outcome.1.i = phi i32 [ 0, %for.body.i ], [ %call.i, %if.then.i ]
  %11 = load i64, ptr %size.i, align 8
  %cmp.i = icmp slt i64 %add.i, %11
  %cmp1.i = icmp eq i32 %outcome.1.i, 0
  %12 = select i1 %cmp.i, i1 %cmp1.i, i1 false
  br i1 %12, label %for.body.i, label %for.inc

if.else10:
  %size11 = getelementptr inbounds nuw i8, ptr %op.0134, i64 24
  %13 = load i64, ptr %size11, align 8
  %cmp12 = icmp sgt i64 %13, 0
  br i1 %cmp12, label %if.then14, label %for.inc

if.then14:
  %target15 = getelementptr inbounds nuw i8, ptr %op.0134, i64 8
  %14 = load ptr, ptr %target15, align 8
  %source16 = getelementptr inbounds nuw i8, ptr %op.0134, i64 16
  %15 = load ptr, ptr %source16, align 8
  tail call void @parallel(ptr %14, ptr %15, i64 %13, i64 %3) nounwind
  br label %for.inc

sw.bb21:
  %target22 = getelementptr inbounds nuw i8, ptr %op.0134, i64 8
  %16 = load ptr, ptr %target22, align 8
  %size23 = getelementptr inbounds nuw i8, ptr %op.0134, i64 24
  %17 = load i64, ptr %size23, align 8
  tail call void @llvm.memset.p0.i64(ptr align 1 %16, i8 0, i64 %17, i1 false)
  br label %for.inc

sw.bb24:
  %target25 = getelementptr inbounds nuw i8, ptr %op.0134, i64 8
  %18 = load ptr, ptr %target25, align 8
  %source26 = getelementptr inbounds nuw i8, ptr %op.0134, i64 16
  %19 = load ptr, ptr %source26, align 8
  %size27 = getelementptr inbounds nuw i8, ptr %op.0134, i64 24
  %20 = load i64, ptr %size27, align 8
  tail call void @llvm.memcpy.p0.p0.i64(ptr align 1 %18, ptr align 1 %19, i64 %20, i1 false)
  br label %for.inc

sw.bb28:
  %target29 = getelementptr inbounds nuw i8, ptr %op.0134, i64 8
  %21 = load ptr, ptr %target29, align 8
  %22 = load i64, ptr %21, align 8
  %tobool.not = icmp ne i64 %22, 0
  %cond = zext i1 %tobool.not to i32
  br label %for.inc

sw.bb30:
  %target31 = getelementptr inbounds nuw i8, ptr %op.0134, i64 8
  %23 = load ptr, ptr %target31, align 8
  %computed_limit.i = getelementptr inbounds nuw i8, ptr %23, i64 16
  %24 = load ptr, ptr %computed_limit.i, align 8
  %tobool.not.i = icmp eq ptr %24, null
  br i1 %tobool.not.i, label %if.end.i81, label %if.then.i80

if.then.i80:
  %25 = load i64, ptr %24, align 8
  %limit.i = getelementptr inbounds nuw i8, ptr %23, i64 8
  store i64 %25, ptr %limit.i, align 8
  br label %if.end.i81

if.end.i81:
  tail call fastcc void @enter_loop(ptr %23) nounwind
  %passes.i = getelementptr inbounds nuw i8, ptr %23, i64 152
  %26 = load ptr, ptr %passes.i, align 8
  %tobool2.not.i = icmp eq ptr %26, null
  %27 = load i64, ptr %23, align 8
  %limit7.i = getelementptr inbounds nuw i8, ptr %23, i64 8
  %28 = load i64, ptr %limit7.i, align 8
  %cmp8.i131 = icmp slt i64 %27, %28
  br i1 %tobool2.not.i, label %if.end6.i, label %if.then3.i

if.then3.i:
  br i1 %cmp8.i131, label %for.body.i94.lr.ph, label %if.then4.i

for.body.i94.lr.ph:
  %depth.i = getelementptr inbounds nuw i8, ptr %26, i64 16
  %once.i99 = getelementptr inbounds nuw i8, ptr %23, i64 56
  br label %for.body.i94

for.body.i94:
  %29 = phi i64 [ %28, %for.body.i94.lr.ph ], [ %34, %for.cond.i90.backedge ]
  %k.0.i91130 = phi i64 [ %27, %for.body.i94.lr.ph ], [ %k.1.i.lcssa, %for.cond.i90.backedge ]
  %30 = xor i64 %k.0.i91130, -1
  %sub3.i = add i64 %29, %30
  %31 = load i64, ptr %depth.i, align 8
  %div.i = sdiv i64 %sub3.i, %31
  %add.i95 = add nsw i64 %div.i, 1
  %div5.i = sdiv i64 %sub3.i, %add.i95
  %add6.i = add i64 %div5.i, 1
  %cmp8.not.i126 = icmp slt i64 %div5.i, 0
  br i1 %cmp8.not.i126, label %for.end.i101, label %for.body10.i

for.body10.i:
  %k.1.i128 = phi i64 [ %inc16.i, %if.end15.i ], [ %k.0.i91130, %for.body.i94 ]
  %j.0.i127 = phi i64 [ %inc.i97, %if.end15.i ], [ 0, %for.body.i94 ]
  tail call fastcc void @choose_buffers(ptr %23, i64 %k.1.i128) nounwind
  tail call fastcc void @use_buffers(ptr %23) nounwind
  %32 = load i64, ptr %23, align 8
  %cmp12.i = icmp eq i64 %k.1.i128, %32
  br i1 %cmp12.i, label %if.then.i98, label %if.end15.i

if.then.i98:
  %call.i100 = tail call fastcc i32 @run_part(ptr %once.i99, ptr %runner) nounwind
  %cmp13.not.i = icmp eq i32 %call.i100, 0
  br i1 %cmp13.not.i, label %if.end15.i, label %for.cond.cleanup

if.end15.i:
  tail call void @keep_arguments(ptr %26, i64 %j.0.i127, i64 %k.1.i128) nounwind
  tail call fastcc void @next_state(ptr %23) nounwind
  %inc.i97 = add nuw i64 %j.0.i127, 1
  %inc16.i = add nsw i64 %k.1.i128, 1
  %exitcond.not = icmp eq i64 %j.0.i127, %div5.i
  br i1 %exitcond.not, label %for.end.i101, label %for.body10.i

for.end.i101:
  %k.1.i.lcssa = phi i64 [ %k.0.i91130, %for.body.i94 ], [ %inc16.i, %if.end15.i ]
  tail call void @run_pass(ptr %26, i64 %add6.i) nounwind
  %33 = load i64, ptr %iterations.i102, align 8
  %sub19.i = sub nsw i64 %33, %add6.i
  store i64 %sub19.i, ptr %iterations.i102, align 8
  %cmp21.i = icmp slt i64 %sub19.i, 1
  br i1 %cmp21.i, label %if.then22.i, label %for.cond.i90.backedge

if.then22.i:
  %call24.i = tail call fastcc i32 @breathe(ptr %runner) nounwind
  %cmp25.not.i = icmp eq i32 %call24.i, 0
  br i1 %cmp25.not.i, label %for.cond.i90.backedge, label %for.cond.cleanup

for.cond.i90.backedge:
  %34 = load i64, ptr %limit7.i, align 8
  %cmp.not.i = icmp slt i64 %k.1.i.lcssa, %34
  br i1 %cmp.not.i, label %for.body.i94, label %if.then4.i

if.then4.i:
  tail call fastcc void @leave_loop(ptr %23) nounwind
  br label %for.inc

if.end6.i:
  br i1 %cmp8.i131, label %for.body.i85.lr.ph, label %for.end.i

for.body.i85.lr.ph:
  %counter.i = getelementptr inbounds nuw i8, ptr %23, i64 24
  %test.i = getelementptr inbounds nuw i8, ptr %23, i64 32
  %testing.i = getelementptr inbounds nuw i8, ptr %23, i64 40
  %once.i = getelementptr inbounds nuw i8, ptr %23, i64 56
  %rest.i = getelementptr inbounds nuw i8, ptr %23, i64 72
  br label %for.body.i85

for.body.i85:
  %k.0.i132 = phi i64 [ %27, %for.body.i85.lr.ph ], [ %inc.i, %if.end40.i ]
  tail call fastcc void @choose_buffers(ptr %23, i64 %k.0.i132) nounwind
  tail call fastcc void @use_buffers(ptr %23) nounwind
  %35 = load ptr, ptr %counter.i, align 8
  %tobool9.not.i = icmp eq ptr %35, null
  br i1 %tobool9.not.i, label %if.end12.i, label %if.then10.i

if.then10.i:
  store i64 %k.0.i132, ptr %35, align 8
  br label %if.end12.i

if.end12.i:
  %36 = load ptr, ptr %test.i, align 8
  %tobool13.not.i = icmp eq ptr %36, null
  br i1 %tobool13.not.i, label %if.end23.i, label %if.then14.i

if.then14.i:
  %call15.i = tail call fastcc i32 @run_part(ptr %testing.i, ptr %runner) nounwind
  %cmp16.not.i = icmp eq i32 %call15.i, 0
  br i1 %cmp16.not.i, label %if.end18.i, label %for.cond.cleanup

if.end18.i:
  %37 = load ptr, ptr %test.i, align 8
  %38 = load i8, ptr %37, align 1
  %tobool20.not.i = icmp eq i8 %38, 0
  br i1 %tobool20.not.i, label %for.end.i, label %if.end23.i

if.end23.i:
  %39 = load i64, ptr %23, align 8
  %cmp25.i = icmp eq i64 %k.0.i132, %39
  br i1 %cmp25.i, label %if.end28.i, label %if.end32.i

if.end28.i:
  %call27.i = tail call fastcc i32 @run_part(ptr %once.i, ptr %runner) nounwind
  %cmp29.i = icmp eq i32 %call27.i, 0
  br i1 %cmp29.i, label %if.end32.i, label %for.cond.cleanup

if.end32.i:
  %call31.i = tail call fastcc i32 @run_part(ptr %rest.i, ptr %runner) nounwind
  %cmp33.i = icmp eq i32 %call31.i, 0
  br i1 %cmp33.i, label %land.lhs.true.i, label %for.cond.cleanup

land.lhs.true.i:
  %40 = load i64, ptr %iterations.i102, align 8
  %dec.i = add nsw i64 %40, -1
  store i64 %dec.i, ptr %iterations.i102, align 8
  %cmp34.i = icmp slt i64 %40, 2
  br i1 %cmp34.i, label %if.end37.i, label %if.end40.i

if.end37.i:
  %call36.i = tail call fastcc i32 @breathe(ptr %runner) nounwind
  %cmp38.not.i = icmp eq i32 %call36.i, 0
  br i1 %cmp38.not.i, label %if.end40.i, label %for.cond.cleanup

if.end40.i:
  tail call fastcc void @next_state(ptr %23) nounwind
  %inc.i = add nsw i64 %k.0.i132, 1
  %41 = load i64, ptr %limit7.i, align 8
  %cmp8.i = icmp slt i64 %inc.i, %41
  br i1 %cmp8.i, label %for.body.i85, label %for.end.i

for.end.i:
  tail call fastcc void @leave_loop(ptr %23) nounwind
  br label %for.inc

sw.bb33:
  %target34 = getelementptr inbounds nuw i8, ptr %op.0134, i64 8
  %42 = load ptr, ptr %target34, align 8
  %43 = load ptr, ptr %42, align 8
  %44 = load i8, ptr %43, align 1
  %tobool36.not = icmp eq i8 %44, 0
  %cond37.v = select i1 %tobool36.not, i64 24, i64 8
  %cond37 = getelementptr inbounds nuw i8, ptr %42, i64 %cond37.v
  %call38 = tail call fastcc i32 @run_part(ptr %cond37, ptr %runner) nounwind
  br label %for.inc

sw.bb39:
  %target40 = getelementptr inbounds nuw i8, ptr %op.0134, i64 8
  %45 = load ptr, ptr %target40, align 8
  %call41 = tail call zeroext i1 @run_evaluation(ptr %45) nounwind
  %not.call41 = xor i1 %call41, true
  %cond43 = zext i1 %not.call41 to i32
  br label %for.inc

sw.bb44:
  %target45 = getelementptr inbounds nuw i8, ptr %op.0134, i64 8
  %46 = load ptr, ptr %target45, align 8
  %47 = load ptr, ptr %runner, align 8
  tail call void @PyEval_RestoreThread(ptr %47) nounwind
  %call.i86 = tail call ptr @PyObject_CallNoArgs(ptr %46) nounwind
  %tobool.not.i87 = icmp eq ptr %call.i86, null
  %cond.i88 = select i1 %tobool.not.i87, i32 2, i32 0
  tail call void @Py_DecRef(ptr %call.i86) nounwind
  %call1.i = tail call ptr @PyEval_SaveThread() nounwind
  store ptr %call1.i, ptr %runner, align 8
  br label %for.inc

for.inc:
  %outcome.1 = phi i32 [ 0, %for.body ], [ 0, %if.then ], [ %cond.i88, %sw.bb44 ], [ 0, %if.then14 ], [ 0, %if.else10 ], [ 0, %sw.bb21 ], [ 0, %sw.bb24 ], [ %cond, %sw.bb28 ], [ 0, %if.then4.i ], [ %call38, %sw.bb33 ], [ %cond43, %sw.bb39 ], [ 0, %if.then9 ], [ 0, %for.end.i ], [ %outcome.1.i, %if.end.i ]
  %incdec.ptr = getelementptr inbounds nuw i8, ptr %op.0134, i64 40
  %cmp = icmp ult ptr %incdec.ptr, %add.ptr
  %cmp2 = icmp eq i32 %outcome.1, 0
  %48 = select i1 %cmp, i1 %cmp2, i1 false
  br i1 %48, label %for.body, label %for.cond.cleanup
}

declare void @PyEval_RestoreThread(ptr) nounwind

define ptr @replay_function(ptr %self, ptr %module) nounwind {
entry:
  %call = tail call ptr @PyCMethod_New(ptr @replay_function.method, ptr %self, ptr %module, ptr null) nounwind
  ret ptr %call
}

define internal ptr @replay(ptr %self, ptr %arguments, i64 %count) nounwind {
entry:
  %overflow.i.i = alloca i32, align 4
  %data.i = getelementptr inbounds nuw i8, ptr %self, i64 16
  %0 = load ptr, ptr %data.i, align 8
  %record.0141 = load ptr, ptr %0, align 8
  %tobool.not142 = icmp eq ptr %record.0141, null
  br i1 %tobool.not142, label %if.end23, label %land.rhs

land.rhs:
  %record.0143 = phi ptr [ %record.0, %record_fits.exit ], [ %record.0141, %entry ]
  %busy.i = getelementptr inbounds nuw i8, ptr %record.0143, i64 8
  %1 = load i64, ptr %busy.i, align 8
  %tobool.not.i = icmp eq i64 %1, 0
  br i1 %tobool.not.i, label %lor.lhs.false.i, label %record_fits.exit

lor.lhs.false.i:
  %argument_count.i = getelementptr inbounds nuw i8, ptr %record.0143, i64 16
  %2 = load i64, ptr %argument_count.i, align 8
  %cmp.not.i = icmp eq i64 %2, %count
  br i1 %cmp.not.i, label %for.cond.preheader.i, label %record_fits.exit

for.cond.preheader.i:
  %array_count.i = getelementptr inbounds nuw i8, ptr %record.0143, i64 32
  %3 = load i64, ptr %array_count.i, align 8
  %cmp155.i = icmp sgt i64 %3, 0
  br i1 %cmp155.i, label %for.body.lr.ph.i, label %for.cond8.preheader.i

for.body.lr.ph.i:
  %arrays.i = getelementptr inbounds nuw i8, ptr %record.0143, i64 24
  %4 = load ptr, ptr %arrays.i, align 8
  %5 = load ptr, ptr @numpy_functions, align 8
  %arrayidx.i41.i = getelementptr inbounds nuw i8, ptr %5, i64 16
  %6 = load ptr, ptr %arrayidx.i41.i, align 8
  br label %for.body.i

for.cond8.preheader.i:
  %number_count.i = getelementptr inbounds nuw i8, ptr %record.0143, i64 48
  %7 = load i64, ptr %number_count.i, align 8
  %cmp957.i = icmp slt i64 %7, 1
  br i1 %cmp957.i, label %land.lhs.true, label %for.body11.lr.ph.i

for.body11.lr.ph.i:
  %numbers.i = getelementptr inbounds nuw i8, ptr %record.0143, i64 40
  br label %for.body11.i

for.body.i:
  %k.056.i = phi i64 [ 0, %for.body.lr.ph.i ], [ %inc.i, %for.inc.i ]
  %arrayidx.i = getelementptr inbounds nuw %struct.array, ptr %4, i64 %k.056.i
  %8 = load i64, ptr %arrayidx.i, align 8
  %cmp.i.i = icmp slt i64 %8, 0
  %captured.i.i = getelementptr inbounds nuw i8, ptr %arrayidx.i, i64 8
  %arrayidx.i.i = getelementptr inbounds nuw ptr, ptr %arguments, i64 %8
  %cond.in.i.i = select i1 %cmp.i.i, ptr %captured.i.i, ptr %arrayidx.i.i
  %cond.i.i = load ptr, ptr %cond.in.i.i, align 8
  %ob_type.i.i.i = getelementptr inbounds nuw i8, ptr %cond.i.i, i64 8
  %9 = load ptr, ptr %ob_type.i.i.i, align 8
  %cmp.i42.i = icmp eq ptr %9, %6
  br i1 %cmp.i42.i, label %lor.lhs.false.i.i, label %record_fits.exit

lor.lhs.false.i.i:
  %descr.i.i.i = getelementptr inbounds nuw i8, ptr %cond.i.i, i64 56
  %10 = load ptr, ptr %descr.i.i.i, align 8
  %dtype.i.i = getelementptr inbounds nuw i8, ptr %arrayidx.i, i64 16
  %11 = load ptr, ptr %dtype.i.i, align 8
  %cmp2.not.i.i = icmp eq ptr %10, %11
  br i1 %cmp2.not.i.i, label %lor.lhs.false3.i.i, label %record_fits.exit

lor.lhs.false3.i.i:
  %nd.i.i.i = getelementptr inbounds nuw i8, ptr %cond.i.i, i64 24
  %12 = load i32, ptr %nd.i.i.i, align 8
  %conv.i.i = sext i32 %12 to i64
  %rank.i.i = getelementptr inbounds nuw i8, ptr %arrayidx.i, i64 24
  %13 = load i64, ptr %rank.i.i, align 8
  %cmp5.not.i.i = icmp eq i64 %13, %conv.i.i
  br i1 %cmp5.not.i.i, label %lor.lhs.false7.i.i, label %record_fits.exit

lor.lhs.false7.i.i:
  %flags.i.i.i = getelementptr inbounds nuw i8, ptr %cond.i.i, i64 64
  %14 = load i32, ptr %flags.i.i.i, align 8
  %and.i.i = and i32 %14, 256
  %tobool.not.i.i = icmp eq i32 %and.i.i, 0
  br i1 %tobool.not.i.i, label %record_fits.exit, label %for.cond.preheader.i.i

for.cond.preheader.i.i:
  %strides.i.i.i = getelementptr inbounds nuw i8, ptr %cond.i.i, i64 40
  %cmp1040.i.i = icmp slt i32 %12, 1
  br i1 %cmp1040.i.i, label %for.inc.i, label %for.body.lr.ph.i.i

for.body.lr.ph.i.i:
  %dimensions.i.i.i = getelementptr inbounds nuw i8, ptr %cond.i.i, i64 32
  %15 = load ptr, ptr %dimensions.i.i.i, align 8
  %dimensions.i.i = getelementptr inbounds nuw i8, ptr %arrayidx.i, i64 32
  %16 = load ptr, ptr %dimensions.i.i, align 8
  br label %for.body.i.i

for.cond.i.i:
  %inc.i.i = add nuw nsw i64 %k.041.i.i, 1
  %exitcond.not.i.i = icmp eq i64 %inc.i.i, %conv.i.i
  br i1 %exitcond.not.i.i, label %for.inc.i, label %for.body.i.i

for.body.i.i:
  %k.041.i.i = phi i64 [ 0, %for.body.lr.ph.i.i ], [ %inc.i.i, %for.cond.i.i ]
  %arrayidx13.i.i = getelementptr inbounds nuw i64, ptr %15, i64 %k.041.i.i
  %17 = load i64, ptr %arrayidx13.i.i, align 8
  %arrayidx14.i.i = getelementptr inbounds nuw %struct.dimension, ptr %16, i64 %k.041.i.i
  %18 = load i64, ptr %arrayidx14.i.i, align 8
  %cmp15.not.i.i = icmp eq i64 %17, %18
  br i1 %cmp15.not.i.i, label %lor.lhs.false17.i.i, label %record_fits.exit

lor.lhs.false17.i.i:
  %19 = load ptr, ptr %strides.i.i.i, align 8
  %arrayidx19.i.i = getelementptr inbounds nuw i64, ptr %19, i64 %k.041.i.i
  %20 = load i64, ptr %arrayidx19.i.i, align 8
  %stride.i.i = getelementptr inbounds nuw i8, ptr %arrayidx14.i.i, i64 8
  %21 = load i64, ptr %stride.i.i, align 8
  %cmp22.not.i.i = icmp eq i64 %20, %21
  br i1 %cmp22.not.i.i, label %for.cond.i.i, label %record_fits.exit

for.inc.i:
  %inc.i = add nuw nsw i64 %k.056.i, 1
  %exitcond.not.i = icmp eq i64 %inc.i, %3
  br i1 %exitcond.not.i, label %for.cond8.preheader.i, label %for.body.i

for.cond8.i:
  %inc21.i = add nuw nsw i64 %k7.058.i, 1
  %22 = load i64, ptr %number_count.i, align 8
  %cmp9.not.i = icmp slt i64 %inc21.i, %22
  br i1 %cmp9.not.i, label %for.body11.i, label %land.lhs.true

for.body11.i:
  %k7.058.i = phi i64 [ 0, %for.body11.lr.ph.i ], [ %inc21.i, %for.cond8.i ]
  %23 = load ptr, ptr %numbers.i, align 8
  %arrayidx12.i = getelementptr inbounds nuw %struct.number, ptr %23, i64 %k7.058.i
  %24 = load i64, ptr %arrayidx12.i, align 8
  %arrayidx13.i = getelementptr inbounds ptr, ptr %arguments, i64 %24
  %25 = load ptr, ptr %arrayidx13.i, align 8
  %kind.i.i = getelementptr inbounds nuw i8, ptr %arrayidx12.i, i64 8
  %26 = load i64, ptr %kind.i.i, align 8
  %conv.i43.i = trunc i64 %26 to i32
  switch i32 %conv.i43.i, label %entry.sw.epilog_crit_edge.i.i [
    i32 0, label %sw.bb.i.i
    i32 1, label %sw.bb3.i.i
    i32 2, label %sw.bb13.i.i
    i32 3, label %sw.bb23.i.i
    i32 4, label %sw.bb23.i.i
    i32 5, label %sw.bb23.i.i
    i32 6, label %sw.bb23.i.i
  ]

entry.sw.epilog_crit_edge.i.i:
  %bits53.phi.trans.insert.i.i = getelementptr inbounds nuw i8, ptr %arrayidx12.i, i64 32
  %.pre.i.i = load i64, ptr %bits53.phi.trans.insert.i.i, align 8
  br label %sw.epilog.i.i

sw.bb.i.i:
  %ob_type.i.i49.i = getelementptr inbounds nuw i8, ptr %25, i64 8
  %27 = load ptr, ptr %ob_type.i.i49.i, align 8
  %cmp.not.i.i = icmp eq ptr %27, @PyFloat_Type
  br i1 %cmp.not.i.i, label %if.end.i.i, label %record_fits.exit

if.end.i.i:
  %call2.i.i = call double @PyFloat_AsDouble(ptr %25) nounwind
  %bits.i.i = getelementptr inbounds nuw i8, ptr %arrayidx12.i, i64 32
  store double %call2.i.i, ptr %bits.i.i, align 8
  %28 = bitcast double %call2.i.i to i64
  br label %sw.epilog.i.i

sw.bb3.i.i:
  %ob_type.i82.i.i = getelementptr inbounds nuw i8, ptr %25, i64 8
  %29 = load ptr, ptr %ob_type.i82.i.i, align 8
  %cmp5.not.i47.i = icmp eq ptr %29, @PyLong_Type
  br i1 %cmp5.not.i47.i, label %if.end8.i.i, label %record_fits.exit

if.end8.i.i:
  %call9.i.i = call i64 @PyLong_AsLongLongAndOverflow(ptr %25, ptr %overflow.i.i) nounwind
  %bits10.i.i = getelementptr inbounds nuw i8, ptr %arrayidx12.i, i64 32
  store i64 %call9.i.i, ptr %bits10.i.i, align 8
  %30 = load i32, ptr %overflow.i.i, align 4
  %tobool.not.i48.i = icmp eq i32 %30, 0
  br i1 %tobool.not.i48.i, label %sw.epilog.i.i, label %record_fits.exit

sw.bb13.i.i:
  %ob_type.i83.i.i = getelementptr inbounds nuw i8, ptr %25, i64 8
  %31 = load ptr, ptr %ob_type.i83.i.i, align 8
  %cmp15.not.i46.i = icmp eq ptr %31, @PyBool_Type
  br i1 %cmp15.not.i46.i, label %if.end18.i.i, label %record_fits.exit

if.end18.i.i:
  %cmp19.i.i = icmp eq ptr %25, @_Py_TrueStruct
  %conv21.i.i = zext i1 %cmp19.i.i to i64
  %bits22.i.i = getelementptr inbounds nuw i8, ptr %arrayidx12.i, i64 32
  store i64 %conv21.i.i, ptr %bits22.i.i, align 8
  br label %sw.epilog.i.i

sw.bb23.i.i:
  %ob_type.i84.i.i = getelementptr inbounds nuw i8, ptr %25, i64 8
  %32 = load ptr, ptr %ob_type.i84.i.i, align 8
  %cmp25.not.i.i = icmp eq ptr %32, @PyComplex_Type
  br i1 %cmp25.not.i.i, label %if.end28.i.i, label %record_fits.exit

if.end28.i.i:
  switch i64 %26, label %cond.false.i.i [
    i64 5, label %cond.true.i.i
    i64 3, label %cond.true.i.i
  ]

cond.true.i.i:
  %call37.i.i = call double @PyComplex_RealAsDouble(ptr %25) nounwind
  br label %cond.end.i.i

cond.false.i.i:
  %call38.i.i = call double @PyComplex_ImagAsDouble(ptr %25) nounwind
  br label %cond.end.i.i

cond.end.i.i:
  %cond.i45.i = phi double [ %call37.i.i, %cond.true.i.i ], [ %call38.i.i, %cond.false.i.i ]
  %33 = load i64, ptr %kind.i.i, align 8
  %.off.i.i = add i64 %33, -3
  %switch.i.i = icmp ult i64 %.off.i.i, 2
  br i1 %switch.i.i, label %if.then45.i.i, label %if.else.i.i

if.then45.i.i:
  %bits46.i.i = getelementptr inbounds nuw i8, ptr %arrayidx12.i, i64 32
  store double %cond.i45.i, ptr %bits46.i.i, align 8
  %34 = bitcast double %cond.i45.i to i64
  br label %sw.epilog.i.i

if.else.i.i:
  %conv47.i.i = fptrunc double %cond.i45.i to float
  %35 = bitcast float %conv47.i.i to i32
  %conv48.i.i = sext i32 %35 to i64
  %bits49.i.i = getelementptr inbounds nuw i8, ptr %arrayidx12.i, i64 32
  store i64 %conv48.i.i, ptr %bits49.i.i, align 8
  br label %sw.epilog.i.i

sw.epilog.i.i:
  %36 = phi i64 [ %.pre.i.i, %entry.sw.epilog_crit_edge.i.i ], [ %call9.i.i, %if.end8.i.i ], [ %34, %if.then45.i.i ], [ %conv48.i.i, %if.else.i.i ], [ %conv21.i.i, %if.end18.i.i ], [ %28, %if.end.i.i ]
  %least.i.i = getelementptr inbounds nuw i8, ptr %arrayidx12.i, i64 16
  %37 = load i64, ptr %least.i.i, align 8
  %cmp54.not.i.i = icmp slt i64 %36, %37
  br i1 %cmp54.not.i.i, label %record_fits.exit, label %number_fits.exit.i

number_fits.exit.i:
  %most.i.i = getelementptr inbounds nuw i8, ptr %arrayidx12.i, i64 24
  %38 = load i64, ptr %most.i.i, align 8
  %cmp57.i.not.i = icmp sgt i64 %36, %38
  br i1 %cmp57.i.not.i, label %record_fits.exit, label %for.cond8.i

record_fits.exit:
  %record.0 = load ptr, ptr %record.0143, align 8
  %tobool.not = icmp eq ptr %record.0, null
  br i1 %tobool.not, label %if.end23, label %land.rhs

land.lhs.true:
  %busy.i.le196 = getelementptr inbounds nuw i8, ptr %record.0143, i64 8
  %array_count.i.le193 = getelementptr inbounds nuw i8, ptr %record.0143, i64 32
  %results = getelementptr inbounds nuw i8, ptr %record.0143, i64 56
  %39 = load ptr, ptr %results, align 8
  %result_count = getelementptr inbounds nuw i8, ptr %record.0143, i64 64
  %40 = load i64, ptr %result_count, align 8
  %cmp34.i = icmp slt i64 %40, 1
  br i1 %cmp34.i, label %if.then, label %for.body.i44

for.body.i44:
  %k.035.i = phi i64 [ %inc.i48, %for.inc.i47 ], [ 0, %land.lhs.true ]
  %arrayidx.i45 = getelementptr inbounds nuw %struct.result, ptr %39, i64 %k.035.i
  %memory.i = getelementptr inbounds nuw i8, ptr %arrayidx.i45, i64 56
  %41 = load ptr, ptr %memory.i, align 8
  %tobool.not.i46 = icmp eq ptr %41, null
  br i1 %tobool.not.i46, label %cond.false.i, label %cond.end.thread.i

cond.false.i:
  %block_count.i.i = getelementptr inbounds nuw i8, ptr %arrayidx.i45, i64 32
  %42 = load i64, ptr %block_count.i.i, align 8
  %cmp.i.i53 = icmp eq i64 %42, 0
  br i1 %cmp.i.i53, label %cond.end.i, label %if.end.i.i54

if.end.i.i54:
  %cmp11.i.i.i = icmp sgt i64 %42, 0
  br i1 %cmp11.i.i.i, label %for.body.lr.ph.i.i.i, label %cond.end.thread.i

for.body.lr.ph.i.i.i:
  %blocks.i.i.i = getelementptr inbounds nuw i8, ptr %arrayidx.i45, i64 24
  %43 = load ptr, ptr %blocks.i.i.i, align 8
  br label %for.body.i.i.i

for.cond.i.i.i:
  %inc.i.i.i = add nuw nsw i64 %k.012.i.i.i, 1
  %exitcond.not.i.i.i = icmp eq i64 %inc.i.i.i, %42
  br i1 %exitcond.not.i.i.i, label %cond.end.thread.i, label %for.body.i.i.i

for.body.i.i.i:
  %k.012.i.i.i = phi i64 [ 0, %for.body.lr.ph.i.i.i ], [ %inc.i.i.i, %for.cond.i.i.i ]
  %arrayidx.i.i.i = getelementptr inbounds nuw %struct.block, ptr %43, i64 %k.012.i.i.i
  %44 = load ptr, ptr %arrayidx.i.i.i, align 8
  %45 = load i32, ptr %44, align 4
  %cmp1.i.i.i = icmp eq i32 %45, 1
  br i1 %cmp1.i.i.i, label %if.end3.i.i, label %for.cond.i.i.i

if.end3.i.i:
  %address.i.i = getelementptr inbounds nuw i8, ptr %arrayidx.i.i.i, i64 8
  %46 = load ptr, ptr %address.i.i, align 8
  %call4.i.i = call fastcc ptr @new_array(ptr %arrayidx.i45, ptr %46) nounwind
  %tobool5.not.i.i = icmp eq ptr %call4.i.i, null
  br i1 %tobool5.not.i.i, label %cond.end.thread.i, label %if.end7.i.i

if.end7.i.i:
  %47 = load ptr, ptr %arrayidx.i.i.i, align 8
  call void @Py_IncRef(ptr %47) nounwind
  %48 = load ptr, ptr @numpy_functions, align 8
  %arrayidx.i.i55 = getelementptr inbounds nuw i8, ptr %48, i64 2256
  %49 = load ptr, ptr %arrayidx.i.i55, align 8
  %50 = load ptr, ptr %arrayidx.i.i.i, align 8
  %call9.i.i56 = call i32 %49(ptr %call4.i.i, ptr %50) nounwind
  %tobool10.not.i.i = icmp eq i32 %call9.i.i56, 0
  br i1 %tobool10.not.i.i, label %cond.end.thread25.i, label %if.then11.i.i

cond.end.thread25.i:
  %made27.i = getelementptr inbounds nuw i8, ptr %arrayidx.i45, i64 64
  store ptr %call4.i.i, ptr %made27.i, align 8
  br label %for.inc.i47

if.then11.i.i:
  call void @Py_DecRef(ptr %call4.i.i) nounwind
  br label %cond.end.thread.i

cond.end.thread.i:
  %made23.i = getelementptr inbounds nuw i8, ptr %arrayidx.i45, i64 64
  store ptr null, ptr %made23.i, align 8
  br label %land.lhs.true.i

cond.end.i:
  %call.i.i = call fastcc ptr @new_array(ptr %arrayidx.i45, ptr null) nounwind
  %made.i = getelementptr inbounds nuw i8, ptr %arrayidx.i45, i64 64
  store ptr %call.i.i, ptr %made.i, align 8
  %tobool5.not.i = icmp eq ptr %call.i.i, null
  br i1 %tobool5.not.i, label %land.lhs.true.i, label %for.inc.i47

land.lhs.true.i:
  %51 = load ptr, ptr %memory.i, align 8
  %tobool8.not.i = icmp eq ptr %51, null
  br i1 %tobool8.not.i, label %if.then.i, label %for.inc.i47

if.then.i:
  call void @PyErr_Clear() nounwind
  %cmp3.i.not.i = icmp eq i64 %k.035.i, 0
  br i1 %cmp3.i.not.i, label %if.end23, label %for.body.i.i50

for.body.i.i50:
  %k.04.i.i = phi i64 [ %inc.i.i51, %for.body.i.i50 ], [ 0, %if.then.i ]
  %arrayidx.i21.i = getelementptr inbounds nuw %struct.result, ptr %39, i64 %k.04.i.i
  %made.i.i = getelementptr inbounds nuw i8, ptr %arrayidx.i21.i, i64 64
  %52 = load ptr, ptr %made.i.i, align 8
  call void @Py_DecRef(ptr %52) nounwind
  %inc.i.i51 = add nuw nsw i64 %k.04.i.i, 1
  %exitcond.not.i.i52 = icmp eq i64 %inc.i.i51, %k.035.i
  br i1 %exitcond.not.i.i52, label %if.end23, label %for.body.i.i50

for.inc.i47:
  %inc.i48 = add nuw nsw i64 %k.035.i, 1
  %exitcond.not.i49 = icmp eq i64 %inc.i48, %40
  br i1 %exitcond.not.i49, label %if.then, label %for.body.i44

if.then:
  store i64 1, ptr %busy.i.le196, align 8
  %53 = load i64, ptr %array_count.i.le193, align 8
  %cmp60.i = icmp sgt i64 %53, 0
  br i1 %cmp60.i, label %for.body.lr.ph.i63, label %for.cond3.preheader.i

for.body.lr.ph.i63:
  %arrays.i64 = getelementptr inbounds nuw i8, ptr %record.0143, i64 24
  br label %for.body.i65

for.cond3.preheader.i:
  %54 = load i64, ptr %number_count.i, align 8
  %cmp462.i = icmp sgt i64 %54, 0
  br i1 %cmp462.i, label %for.body6.lr.ph.i, label %for.cond14.preheader.i

for.body6.lr.ph.i:
  %numbers.i62 = getelementptr inbounds nuw i8, ptr %record.0143, i64 40
  br label %for.body6.i

for.body.i65:
  %55 = phi i64 [ %53, %for.body.lr.ph.i63 ], [ %63, %patch.exit.i ]
  %k.061.i = phi i64 [ 0, %for.body.lr.ph.i63 ], [ %inc.i72, %patch.exit.i ]
  %56 = load ptr, ptr %arrays.i64, align 8
  %arrayidx.i66 = getelementptr inbounds nuw %struct.array, ptr %56, i64 %k.061.i
  %patches.i = getelementptr inbounds nuw i8, ptr %arrayidx.i66, i64 40
  %57 = load ptr, ptr %patches.i, align 8
  %patch_count.i = getelementptr inbounds nuw i8, ptr %arrayidx.i66, i64 48
  %58 = load i64, ptr %patch_count.i, align 8
  %59 = load i64, ptr %arrayidx.i66, align 8
  %cmp.i.i67 = icmp slt i64 %59, 0
  %captured.i.i68 = getelementptr inbounds nuw i8, ptr %arrayidx.i66, i64 8
  %arrayidx.i.i69 = getelementptr inbounds nuw ptr, ptr %arguments, i64 %59
  %cond.in.i.i70 = select i1 %cmp.i.i67, ptr %captured.i.i68, ptr %arrayidx.i.i69
  %cond.i.i71 = load ptr, ptr %cond.in.i.i70, align 8
  %data.i.i = getelementptr inbounds nuw i8, ptr %cond.i.i71, i64 16
  %60 = load ptr, ptr %data.i.i, align 8
  %61 = ptrtoint ptr %60 to i64
  %cmp3.i.i = icmp sgt i64 %58, 0
  br i1 %cmp3.i.i, label %for.body.i.i73, label %patch.exit.i

for.body.i.i73:
  %k.04.i.i74 = phi i64 [ %inc.i.i75, %for.body.i.i73 ], [ 0, %for.body.i65 ]
  %arrayidx.i44.i = getelementptr inbounds nuw ptr, ptr %57, i64 %k.04.i.i74
  %62 = load ptr, ptr %arrayidx.i44.i, align 8
  store i64 %61, ptr %62, align 8
  %inc.i.i75 = add nuw nsw i64 %k.04.i.i74, 1
  %exitcond.not.i.i76 = icmp eq i64 %inc.i.i75, %58
  br i1 %exitcond.not.i.i76, label %patch.exit.loopexit.i, label %for.body.i.i73

patch.exit.loopexit.i:
  %.pre.i = load i64, ptr %array_count.i.le193, align 8
  br label %patch.exit.i

patch.exit.i:
  %63 = phi i64 [ %.pre.i, %patch.exit.loopexit.i ], [ %55, %for.body.i65 ]
  %inc.i72 = add nuw nsw i64 %k.061.i, 1
  %cmp.i = icmp slt i64 %inc.i72, %63
  br i1 %cmp.i, label %for.body.i65, label %for.cond3.preheader.i

for.cond14.preheader.i:
  %64 = load i64, ptr %result_count, align 8
  %cmp1564.i = icmp sgt i64 %64, 0
  br i1 %cmp1564.i, label %for.body17.i, label %patch_operations.exit

for.body6.i:
  %65 = phi i64 [ %54, %for.body6.lr.ph.i ], [ %71, %patch.exit51.i ]
  %k2.063.i = phi i64 [ 0, %for.body6.lr.ph.i ], [ %inc11.i, %patch.exit51.i ]
  %66 = load ptr, ptr %numbers.i62, align 8
  %arrayidx7.i = getelementptr inbounds nuw %struct.number, ptr %66, i64 %k2.063.i
  %patches8.i = getelementptr inbounds nuw i8, ptr %arrayidx7.i, i64 40
  %67 = load ptr, ptr %patches8.i, align 8
  %patch_count9.i = getelementptr inbounds nuw i8, ptr %arrayidx7.i, i64 48
  %68 = load i64, ptr %patch_count9.i, align 8
  %bits.i = getelementptr inbounds nuw i8, ptr %arrayidx7.i, i64 32
  %69 = load i64, ptr %bits.i, align 8
  %cmp3.i45.i = icmp sgt i64 %68, 0
  br i1 %cmp3.i45.i, label %for.body.i46.i, label %patch.exit51.i

for.body.i46.i:
  %k.04.i47.i = phi i64 [ %inc.i49.i, %for.body.i46.i ], [ 0, %for.body6.i ]
  %arrayidx.i48.i = getelementptr inbounds nuw ptr, ptr %67, i64 %k.04.i47.i
  %70 = load ptr, ptr %arrayidx.i48.i, align 8
  store i64 %69, ptr %70, align 8
  %inc.i49.i = add nuw nsw i64 %k.04.i47.i, 1
  %exitcond.not.i50.i = icmp eq i64 %inc.i49.i, %68
  br i1 %exitcond.not.i50.i, label %patch.exit51.loopexit.i, label %for.body.i46.i

patch.exit51.loopexit.i:
  %.pre66.i = load i64, ptr %number_count.i, align 8
  br label %patch.exit51.i

patch.exit51.i:
  %71 = phi i64 [ %.pre66.i, %patch.exit51.loopexit.i ], [ %65, %for.body6.i ]
  %inc11.i = add nuw nsw i64 %k2.063.i, 1
  %cmp4.i = icmp slt i64 %inc11.i, %71
  br i1 %cmp4.i, label %for.body6.i, label %for.cond14.preheader.i

for.body17.i:
  %72 = phi i64 [ %81, %cleanup.i ], [ %64, %for.cond14.preheader.i ]
  %k13.065.i = phi i64 [ %inc23.i, %cleanup.i ], [ 0, %for.cond14.preheader.i ]
  %73 = load ptr, ptr %results, align 8
  %arrayidx18.i = getelementptr inbounds nuw %struct.result, ptr %73, i64 %k13.065.i
  %memory.i59 = getelementptr inbounds nuw i8, ptr %arrayidx18.i, i64 56
  %74 = load ptr, ptr %memory.i59, align 8
  %tobool.not.i60 = icmp eq ptr %74, null
  br i1 %tobool.not.i60, label %if.end.i, label %cleanup.i

if.end.i:
  %patches19.i = getelementptr inbounds nuw i8, ptr %arrayidx18.i, i64 40
  %75 = load ptr, ptr %patches19.i, align 8
  %patch_count20.i = getelementptr inbounds nuw i8, ptr %arrayidx18.i, i64 48
  %76 = load i64, ptr %patch_count20.i, align 8
  %made.i61 = getelementptr inbounds nuw i8, ptr %arrayidx18.i, i64 64
  %77 = load ptr, ptr %made.i61, align 8
  %data.i52.i = getelementptr inbounds nuw i8, ptr %77, i64 16
  %78 = load ptr, ptr %data.i52.i, align 8
  %79 = ptrtoint ptr %78 to i64
  %cmp3.i53.i = icmp sgt i64 %76, 0
  br i1 %cmp3.i53.i, label %for.body.i54.i, label %cleanup.i

for.body.i54.i:
  %k.04.i55.i = phi i64 [ %inc.i57.i, %for.body.i54.i ], [ 0, %if.end.i ]
  %arrayidx.i56.i = getelementptr inbounds nuw ptr, ptr %75, i64 %k.04.i55.i
  %80 = load ptr, ptr %arrayidx.i56.i, align 8
  store i64 %79, ptr %80, align 8
  %inc.i57.i = add nuw nsw i64 %k.04.i55.i, 1
  %exitcond.not.i58.i = icmp eq i64 %inc.i57.i, %76
  br i1 %exitcond.not.i58.i, label %cleanup.loopexit.i, label %for.body.i54.i

cleanup.loopexit.i:
  %.pre67.i = load i64, ptr %result_count, align 8
  br label %cleanup.i

cleanup.i:
  %81 = phi i64 [ %.pre67.i, %cleanup.loopexit.i ], [ %72, %if.end.i ], [ %72, %for.body17.i ]
  %inc23.i = add nuw nsw i64 %k13.065.i, 1
  %cmp15.i = icmp slt i64 %inc23.i, %81
  br i1 %cmp15.i, label %for.body17.i, label %patch_operations.exit

patch_operations.exit:
  %part = getelementptr inbounds nuw i8, ptr %record.0143, i64 72
  %call4 = call i64 @run_operations(ptr %part) nounwind
  %cmp = icmp eq i64 %call4, 0
  br i1 %cmp, label %land.lhs.true6, label %if.end

land.lhs.true6:
  %82 = load ptr, ptr %results, align 8
  %83 = load i64, ptr %result_count, align 8
  %cmp33.i = icmp slt i64 %83, 1
  br i1 %cmp33.i, label %if.end.i98, label %for.body.i77

for.body.i77:
  %k.034.i = phi i64 [ %inc.i92, %for.inc.i91 ], [ 0, %land.lhs.true6 ]
  %arrayidx.i78 = getelementptr inbounds nuw %struct.result, ptr %82, i64 %k.034.i
  %memory.i79 = getelementptr inbounds nuw i8, ptr %arrayidx.i78, i64 56
  %84 = load ptr, ptr %memory.i79, align 8
  %tobool.not.i80 = icmp eq ptr %84, null
  br i1 %tobool.not.i80, label %for.inc.i91, label %if.then.i81

if.then.i81:
  %block.i.i = getelementptr inbounds nuw i8, ptr %84, i64 24
  %85 = load ptr, ptr %block.i.i, align 8
  %tobool.not.i.i82 = icmp eq ptr %85, null
  br i1 %tobool.not.i.i82, label %written_result.exit.i, label %if.end.i.i83

if.end.i.i83:
  %86 = load ptr, ptr %84, align 8
  %call2.i.i84 = call fastcc ptr @new_array(ptr %arrayidx.i78, ptr %86) nounwind
  %tobool3.not.i.i = icmp eq ptr %call2.i.i84, null
  br i1 %tobool3.not.i.i, label %written_result.exit.thread.i, label %cond.end.i.i85

cond.end.i.i85:
  %87 = load ptr, ptr %block.i.i, align 8
  %call5.i.i = call ptr @PyCapsule_New(ptr %87, ptr null, ptr @free_block) nounwind
  %tobool6.not.i.i = icmp eq ptr %call5.i.i, null
  br i1 %tobool6.not.i.i, label %written_result.exit.thread.i, label %if.end8.i.i86

if.end8.i.i86:
  call void @hold(ptr %84, ptr null, ptr null, i64 0, i64 0) nounwind
  %88 = load ptr, ptr @numpy_functions, align 8
  %arrayidx.i.i87 = getelementptr inbounds nuw i8, ptr %88, i64 2256
  %89 = load ptr, ptr %arrayidx.i.i87, align 8
  %call9.i.i88 = call i32 %89(ptr %call2.i.i84, ptr %call5.i.i) nounwind
  %tobool10.not.i.i89 = icmp eq i32 %call9.i.i88, 0
  br i1 %tobool10.not.i.i89, label %written_result.exit.thread19.i, label %written_result.exit.thread.i

written_result.exit.thread19.i:
  %made21.i = getelementptr inbounds nuw i8, ptr %arrayidx.i78, i64 64
  store ptr %call2.i.i84, ptr %made21.i, align 8
  br label %for.inc.i91

written_result.exit.thread.i:
  call void @Py_DecRef(ptr %call2.i.i84) nounwind
  %made17.i = getelementptr inbounds nuw i8, ptr %arrayidx.i78, i64 64
  store ptr null, ptr %made17.i, align 8
  br label %take_results.exit

written_result.exit.i:
  %call.i.i94 = call fastcc ptr @new_array(ptr %arrayidx.i78, ptr null) nounwind
  %made.i95 = getelementptr inbounds nuw i8, ptr %arrayidx.i78, i64 64
  store ptr %call.i.i94, ptr %made.i95, align 8
  %tobool5.not.i96 = icmp eq ptr %call.i.i94, null
  br i1 %tobool5.not.i96, label %take_results.exit, label %for.inc.i91

for.inc.i91:
  %inc.i92 = add nuw nsw i64 %k.034.i, 1
  %exitcond.not.i93 = icmp eq i64 %inc.i92, %83
  br i1 %exitcond.not.i93, label %if.then11, label %for.body.i77

take_results.exit:
  call void @PyErr_Clear() nounwind
  br label %if.end

if.then11:
  %.pr = load i64, ptr %result_count, align 8
  %90 = load ptr, ptr %results, align 8
  %cmp.i97 = icmp eq i64 %.pr, 1
  br i1 %cmp.i97, label %if.then.i111, label %if.end.i98

if.then.i111:
  %made.i112 = getelementptr inbounds nuw i8, ptr %90, i64 64
  %91 = load ptr, ptr %made.i112, align 8
  br label %cleanup.thread

if.end.i98:
  %92 = phi ptr [ %90, %if.then11 ], [ %82, %land.lhs.true6 ]
  %93 = phi i64 [ %.pr, %if.then11 ], [ %83, %land.lhs.true6 ]
  %call.i = call ptr @PyTuple_New(i64 %93) nounwind
  %tobool.not.i99 = icmp eq ptr %call.i, null
  %cmp3.i.i100 = icmp sgt i64 %93, 0
  br i1 %tobool.not.i99, label %if.then1.i, label %for.cond.preheader.i101

for.cond.preheader.i101:
  br i1 %cmp3.i.i100, label %for.body.i102, label %cleanup.thread

if.then1.i:
  br i1 %cmp3.i.i100, label %for.body.i.i105, label %cleanup.thread

for.body.i.i105:
  %k.04.i.i106 = phi i64 [ %inc.i.i109, %for.body.i.i105 ], [ 0, %if.then1.i ]
  %arrayidx.i.i107 = getelementptr inbounds nuw %struct.result, ptr %92, i64 %k.04.i.i106
  %made.i.i108 = getelementptr inbounds nuw i8, ptr %arrayidx.i.i107, i64 64
  %94 = load ptr, ptr %made.i.i108, align 8
  call void @Py_DecRef(ptr %94) nounwind
  %inc.i.i109 = add nuw nsw i64 %k.04.i.i106, 1
  %exitcond.not.i.i110 = icmp eq i64 %inc.i.i109, %93
  br i1 %exitcond.not.i.i110, label %cleanup.thread, label %for.body.i.i105

for.body.i102:
  %k.019.i = phi i64 [ %inc.i103, %for.body.i102 ], [ 0, %for.cond.preheader.i101 ]
  %arrayidx4.i = getelementptr inbounds nuw %struct.result, ptr %92, i64 %k.019.i
  %made5.i = getelementptr inbounds nuw i8, ptr %arrayidx4.i, i64 64
  %95 = load ptr, ptr %made5.i, align 8
  %call6.i = call i32 @PyTuple_SetItem(ptr %call.i, i64 %k.019.i, ptr %95) nounwind
  %inc.i103 = add nuw nsw i64 %k.019.i, 1
  %exitcond.not.i104 = icmp eq i64 %inc.i103, %93
  br i1 %exitcond.not.i104, label %cleanup.thread, label %for.body.i102

cleanup.thread:
  %retval.1.i = phi ptr [ %91, %if.then.i111 ], [ %call.i, %for.cond.preheader.i101 ], [ null, %if.then1.i ], [ null, %for.body.i.i105 ], [ %call.i, %for.body.i102 ]
  store i64 0, ptr %busy.i.le196, align 8
  br label %cleanup24

if.end:
  %96 = load ptr, ptr %results, align 8
  %97 = load i64, ptr %result_count, align 8
  %cmp3.i = icmp sgt i64 %97, 0
  br i1 %cmp3.i, label %for.body.i113, label %cleanup

for.body.i113:
  %k.04.i = phi i64 [ %inc.i116, %for.body.i113 ], [ 0, %if.end ]
  %arrayidx.i114 = getelementptr inbounds nuw %struct.result, ptr %96, i64 %k.04.i
  %made.i115 = getelementptr inbounds nuw i8, ptr %arrayidx.i114, i64 64
  %98 = load ptr, ptr %made.i115, align 8
  call void @Py_DecRef(ptr %98) nounwind
  %inc.i116 = add nuw nsw i64 %k.04.i, 1
  %exitcond.not.i117 = icmp eq i64 %inc.i116, %97
  br i1 %exitcond.not.i117, label %cleanup, label %for.body.i113

cleanup:
  store i64 0, ptr %busy.i.le196, align 8
  %cmp19.not = icmp eq i64 %call4, 2
  br i1 %cmp19.not, label %cleanup24, label %if.end23

if.end23:
  call void @Py_IncRef(ptr @_Py_NoneStruct) nounwind
  br label %cleanup24

cleanup24:
  %retval.1 = phi ptr [ @_Py_NoneStruct, %if.end23 ], [ null, %cleanup ], [ %retval.1.i, %cleanup.thread ]
  ret ptr %retval.1
}

declare ptr @PyCMethod_New(ptr, ptr, ptr, ptr) nounwind

define void @inspect(ptr %array, ptr %view) nounwind {
entry:
  %ob_type.i = getelementptr inbounds nuw i8, ptr %array, i64 8
  %0 = load ptr, ptr %ob_type.i, align 8
  %1 = load i32, ptr %array, align 8
  %conv = zext i32 %1 to i64
  %data.i = getelementptr inbounds nuw i8, ptr %array, i64 16
  %2 = load ptr, ptr %data.i, align 8
  %nd.i = getelementptr inbounds nuw i8, ptr %array, i64 24
  %3 = load i32, ptr %nd.i, align 8
  %conv4 = sext i32 %3 to i64
  %dimensions.i = getelementptr inbounds nuw i8, ptr %array, i64 32
  %4 = load ptr, ptr %dimensions.i, align 8
  %strides.i = getelementptr inbounds nuw i8, ptr %array, i64 40
  %5 = load ptr, ptr %strides.i, align 8
  %descr.i = getelementptr inbounds nuw i8, ptr %array, i64 56
  %6 = load ptr, ptr %descr.i, align 8
  %flags.i = getelementptr inbounds nuw i8, ptr %array, i64 64
  %7 = load i32, ptr %flags.i, align 8
  %conv9 = sext i32 %7 to i64
  store i64 16, ptr %view, align 8
  %.compoundliteral.sroa.2.0..sroa_idx = getelementptr inbounds nuw i8, ptr %view, i64 8
  store ptr %0, ptr %.compoundliteral.sroa.2.0..sroa_idx, align 8
  %.compoundliteral.sroa.3.0..sroa_idx = getelementptr inbounds nuw i8, ptr %view, i64 16
  store i64 %conv, ptr %.compoundliteral.sroa.3.0..sroa_idx, align 8
  %.compoundliteral.sroa.4.0..sroa_idx = getelementptr inbounds nuw i8, ptr %view, i64 24
  store ptr %2, ptr %.compoundliteral.sroa.4.0..sroa_idx, align 8
  %.compoundliteral.sroa.5.0..sroa_idx = getelementptr inbounds nuw i8, ptr %view, i64 32
  store i64 %conv4, ptr %.compoundliteral.sroa.5.0..sroa_idx, align 8
  %.compoundliteral.sroa.6.0..sroa_idx = getelementptr inbounds nuw i8, ptr %view, i64 40
  store ptr %4, ptr %.compoundliteral.sroa.6.0..sroa_idx, align 8
  %.compoundliteral.sroa.7.0..sroa_idx = getelementptr inbounds nuw i8, ptr %view, i64 48
  store ptr %5, ptr %.compoundliteral.sroa.7.0..sroa_idx, align 8
  %.compoundliteral.sroa.8.0..sroa_idx = getelementptr inbounds nuw i8, ptr %view, i64 56
  store ptr %6, ptr %.compoundliteral.sroa.8.0..sroa_idx, align 8
  %.compoundliteral.sroa.9.0..sroa_idx = getelementptr inbounds nuw i8, ptr %view, i64 64
  store i64 %conv9, ptr %.compoundliteral.sroa.9.0..sroa_idx, align 8
  ret void
}

define i32 @numpy_agrees() nounwind {
entry:
  %0 = load ptr, ptr @numpy_functions, align 8
  %1 = load ptr, ptr %0, align 8
  %call = tail call i32 %1() nounwind
  %cmp = icmp eq i32 %call, 33554432
  br i1 %cmp, label %land.rhs, label %land.end

land.rhs:
  %2 = load ptr, ptr @numpy_functions, align 8
  %arrayidx1 = getelementptr inbounds nuw i8, ptr %2, i64 1688
  %3 = load ptr, ptr %arrayidx1, align 8
  %call2 = tail call i32 %3() nounwind
  %cmp3 = icmp ugt i32 %call2, 17
  %4 = zext i1 %cmp3 to i32
  br label %land.end

land.end:
  %land.ext = phi i32 [ 0, %entry ], [ %4, %land.rhs ]
  ret i32 %land.ext
}

declare void @parallel_brief(ptr, ptr, i64, i64) nounwind

declare void @parallel(ptr, ptr, i64, i64) nounwind

declare void @llvm.memset.p0.i64(ptr, i8, i64, i1 immarg) nounwind

declare zeroext i1 @run_evaluation(ptr) nounwind

define internal fastcc i32 @breathe(ptr %runner) nounwind {
entry:
  %call = tail call i64 @clock() nounwind
  %since = getelementptr inbounds nuw i8, ptr %runner, i64 24
  %0 = load i64, ptr %since, align 8
  %sub = sub nsw i64 %call, %0
  %cmp = icmp slt i64 %sub, 6250
  br i1 %cmp, label %land.lhs.true, label %if.else

land.lhs.true:
  %interval = getelementptr inbounds nuw i8, ptr %runner, i64 16
  %1 = load i64, ptr %interval, align 8
  %cmp1 = icmp slt i64 %1, 4096
  br i1 %cmp1, label %if.then, label %if.end9.thread

if.then:
  %mul = shl nsw i64 %1, 1
  store i64 %mul, ptr %interval, align 8
  br label %if.end9.thread

if.else:
  %cmp3 = icmp samesign ugt i64 %sub, 50000
  %interval5 = getelementptr inbounds nuw i8, ptr %runner, i64 16
  %2 = load i64, ptr %interval5, align 8
  br i1 %cmp3, label %land.lhs.true4, label %if.end9

land.lhs.true4:
  %cmp6 = icmp sgt i64 %2, 1
  br i1 %cmp6, label %if.then7, label %if.end9.thread38

if.then7:
  %div32 = lshr i64 %2, 1
  store i64 %div32, ptr %interval5, align 8
  br label %if.end9.thread38

if.end9.thread:
  %3 = phi i64 [ %mul, %if.then ], [ %1, %land.lhs.true ]
  %iterations35 = getelementptr inbounds nuw i8, ptr %runner, i64 8
  store i64 %3, ptr %iterations35, align 8
  br label %cleanup

if.end9.thread38:
  %4 = phi i64 [ %2, %land.lhs.true4 ], [ %div32, %if.then7 ]
  %iterations40 = getelementptr inbounds nuw i8, ptr %runner, i64 8
  store i64 %4, ptr %iterations40, align 8
  br label %if.end13

if.end9:
  %iterations = getelementptr inbounds nuw i8, ptr %runner, i64 8
  store i64 %2, ptr %iterations, align 8
  %cmp11.not = icmp eq i64 %sub, 50000
  br i1 %cmp11.not, label %if.end13, label %cleanup

if.end13:
  %5 = load ptr, ptr %runner, align 8
  tail call void @PyEval_RestoreThread(ptr %5) nounwind
  %call14 = tail call i32 @PyErr_CheckSignals() nounwind
  %call15 = tail call ptr @PyEval_SaveThread() nounwind
  store ptr %call15, ptr %runner, align 8
  %call17 = tail call i64 @clock() nounwind
  store i64 %call17, ptr %since, align 8
  %tobool.not = icmp eq i32 %call14, 0
  %cond = select i1 %tobool.not, i32 0, i32 2
  br label %cleanup

cleanup:
  %retval.0 = phi i32 [ %cond, %if.end13 ], [ 0, %if.end9 ], [ 0, %if.end9.thread ]
  ret i32 %retval.0
}

declare i32 @PyErr_CheckSignals() nounwind

define internal fastcc void @enter_loop(ptr %loop) nounwind {
entry:
  %history.i.i = alloca [32 x [16 x i64]], align 16
  %last.i = alloca [16 x i64], align 16
  %state_count = getelementptr inbounds nuw i8, ptr %loop, i64 96
  %0 = load i64, ptr %state_count, align 8
  %cmp51 = icmp sgt i64 %0, 0
  br i1 %cmp51, label %for.body.lr.ph, label %for.cond.cleanup

for.body.lr.ph:
  %states = getelementptr inbounds nuw i8, ptr %loop, i64 88
  br label %for.body

for.cond.cleanup:
  %.lcssa = phi i64 [ %0, %entry ], [ %34, %for.body ]
  %buffer_count.i = getelementptr inbounds nuw i8, ptr %loop, i64 128
  %1 = load i64, ptr %buffer_count.i, align 8
  %cmp103.i = icmp sgt i64 %1, 0
  br i1 %cmp103.i, label %for.body.lr.ph.i, label %place_results.exit

for.body.lr.ph.i:
  %buffers.i = getelementptr inbounds nuw i8, ptr %loop, i64 120
  %.pre.i = load ptr, ptr %buffers.i, align 8
  br label %for.body.i

for.cond.cleanup.i:
  %2 = icmp slt i64 %add.i, 65536
  %test.i = getelementptr inbounds nuw i8, ptr %loop, i64 32
  %3 = load ptr, ptr %test.i, align 8
  %tobool.i = icmp ne ptr %3, null
  %or.cond.i = select i1 %tobool.i, i1 true, i1 %2
  %cmp6.i = icmp sgt i64 %.lcssa, 16
  %or.cond66.i = or i1 %cmp6.i, %or.cond.i
  br i1 %or.cond66.i, label %place_results.exit, label %lor.lhs.false7.i

for.body.i:
  %4 = phi ptr [ %.pre.i, %for.body.lr.ph.i ], [ %5, %for.body.i ]
  %k.0105.i = phi i64 [ 0, %for.body.lr.ph.i ], [ %inc.i, %for.body.i ]
  %bytes.0104.i = phi i64 [ 0, %for.body.lr.ph.i ], [ %add.i, %for.body.i ]
  %arrayidx.i = getelementptr inbounds nuw %struct.buffer, ptr %4, i64 %k.0105.i
  %place.i = getelementptr inbounds nuw i8, ptr %arrayidx.i, i64 24
  store i64 %k.0105.i, ptr %place.i, align 8
  %5 = load ptr, ptr %buffers.i, align 8
  %arrayidx2.i = getelementptr inbounds nuw %struct.buffer, ptr %5, i64 %k.0105.i
  %bytes3.i = getelementptr inbounds nuw i8, ptr %arrayidx2.i, i64 8
  %6 = load i64, ptr %bytes3.i, align 8
  %add.i = add nsw i64 %6, %bytes.0104.i
  %inc.i = add nuw nsw i64 %k.0105.i, 1
  %7 = load i64, ptr %buffer_count.i, align 8
  %cmp.i = icmp slt i64 %inc.i, %7
  br i1 %cmp.i, label %for.body.i, label %for.cond.cleanup.i

lor.lhs.false7.i:
  %limit.i.i = getelementptr inbounds nuw i8, ptr %loop, i64 8
  %8 = load i64, ptr %limit.i.i, align 8
  %9 = load i64, ptr %loop, align 8
  %sub.i.i = sub nsw i64 %8, %9
  %10 = load i64, ptr %state_count, align 8
  %.not.not123.i.i = icmp sgt i64 %sub.i.i, 0
  br i1 %.not.not123.i.i, label %for.body.lr.ph.i.i, label %find_last_buffers.exit.thread.i

for.body.lr.ph.i.i:
  %cmp4114.i.i = icmp sgt i64 %10, 0
  %states7.i.i = getelementptr inbounds nuw i8, ptr %loop, i64 88
  %made.i.i = getelementptr inbounds nuw i8, ptr %loop, i64 104
  %sub31.i.i = add nsw i64 %sub.i.i, -1
  %mul.i.i = shl i64 %10, 3
  %11 = tail call i64 @llvm.umin.i64(i64 %sub.i.i, i64 32)
  br label %for.body.i.i

for.cond.i.i:
  %inc62.i.i = add nuw nsw i64 %step.0124.i.i, 1
  %exitcond130.not.i.i = icmp eq i64 %inc62.i.i, %11
  br i1 %exitcond130.not.i.i, label %find_last_buffers.exit.thread.i, label %for.body.i.i

for.body.i.i:
  %step.0124.i.i = phi i64 [ 0, %for.body.lr.ph.i.i ], [ %inc62.i.i, %for.cond.i.i ]
  %12 = load i64, ptr %loop, align 8
  %add.i.i = add nsw i64 %12, %step.0124.i.i
  tail call fastcc void @choose_buffers(ptr %loop, i64 %add.i.i) nounwind
  br i1 %cmp4114.i.i, label %for.body6.lr.ph.i.i, label %for.cond.cleanup20.i.i

for.body6.lr.ph.i.i:
  %13 = load ptr, ptr %states7.i.i, align 8
  %arrayidx15.i.i = getelementptr inbounds nuw [16 x i64], ptr %history.i.i, i64 %step.0124.i.i
  br label %for.body6.i.i

for.body6.i.i:
  %k.0115.i.i = phi i64 [ 0, %for.body6.lr.ph.i.i ], [ %inc.i.i, %cond.end.i.i ]
  %arrayidx.i.i = getelementptr inbounds nuw %struct.state, ptr %13, i64 %k.0115.i.i
  %source8.i.i = getelementptr inbounds nuw i8, ptr %arrayidx.i.i, i64 56
  %14 = load i64, ptr %source8.i.i, align 8
  %cmp9.i.i = icmp sgt i64 %14, -1
  br i1 %cmp9.i.i, label %cond.true.i.i, label %cond.false.i.i

cond.true.i.i:
  %arrayidx11.i.i = getelementptr inbounds nuw %struct.state, ptr %13, i64 %14
  br label %cond.end.i.i

cond.false.i.i:
  %15 = load ptr, ptr %made.i.i, align 8
  %not.i.i = xor i64 %14, -1
  %arrayidx12.i.i = getelementptr inbounds nuw %struct.made, ptr %15, i64 %not.i.i
  br label %cond.end.i.i

cond.end.i.i:
  %arrayidx11.pn.i.i = phi ptr [ %arrayidx11.i.i, %cond.true.i.i ], [ %arrayidx12.i.i, %cond.false.i.i ]
  %cond.in.i.i = getelementptr inbounds nuw i8, ptr %arrayidx11.pn.i.i, i64 8
  %cond.i.i = load i64, ptr %cond.in.i.i, align 8
  %arrayidx16.i.i = getelementptr inbounds nuw i64, ptr %arrayidx15.i.i, i64 %k.0115.i.i
  store i64 %cond.i.i, ptr %arrayidx16.i.i, align 8
  %inc.i.i = add nuw nsw i64 %k.0115.i.i, 1
  %exitcond.not.i.i = icmp eq i64 %inc.i.i, %10
  br i1 %exitcond.not.i.i, label %for.body21.i.i, label %for.body6.i.i

for.cond.cleanup20.i.i:
  %cmp32.i.i = icmp ne i64 %step.0124.i.i, %sub31.i.i
  %cond36.i.i = select i1 %cmp32.i.i, i64 -1, i64 %step.0124.i.i
  %cmp38118.i.i = icmp samesign ugt i64 %step.0124.i.i, 1
  %16 = select i1 %cmp38118.i.i, i1 %cmp32.i.i, i1 false
  br i1 %16, label %for.body43.lr.ph.i.i, label %for.cond.cleanup42.i.i

for.body43.lr.ph.i.i:
  %arrayidx44.i.i = getelementptr inbounds nuw [16 x i64], ptr %history.i.i, i64 %step.0124.i.i
  %sub50.i.i = sub nsw i64 %sub31.i.i, %step.0124.i.i
  br label %for.body43.i.i

for.body21.i.i:
  %k17.0117.i.i = phi i64 [ %inc29.i.i, %for.body21.i.i ], [ 0, %cond.end.i.i ]
  %arrayidx23.i.i = getelementptr inbounds nuw i64, ptr %arrayidx15.i.i, i64 %k17.0117.i.i
  %17 = load i64, ptr %arrayidx23.i.i, align 8
  %18 = load ptr, ptr %states7.i.i, align 8
  %arrayidx25.i.i = getelementptr inbounds nuw %struct.state, ptr %18, i64 %k17.0117.i.i
  %buffer27.i.i = getelementptr inbounds nuw i8, ptr %arrayidx25.i.i, i64 8
  store i64 %17, ptr %buffer27.i.i, align 8
  %inc29.i.i = add nuw nsw i64 %k17.0117.i.i, 1
  %exitcond129.not.i.i = icmp eq i64 %inc29.i.i, %10
  br i1 %exitcond129.not.i.i, label %for.cond.cleanup20.i.i, label %for.body21.i.i

for.cond.cleanup42.i.i:
  %found.0.lcssa.i.i = phi i64 [ %cond36.i.i, %for.cond.cleanup20.i.i ], [ %found.1.i.i, %for.inc52.i.i ]
  %cmp40.lcssa.i.i = phi i1 [ %cmp32.i.i, %for.cond.cleanup20.i.i ], [ %cmp40.i.i, %for.inc52.i.i ]
  br i1 %cmp40.lcssa.i.i, label %for.cond.i.i, label %find_last_buffers.exit.i

for.body43.i.i:
  %p.0121.i.i = phi i64 [ 2, %for.body43.lr.ph.i.i ], [ %add53.i.i, %for.inc52.i.i ]
  %found.0120.i.i = phi i64 [ %cond36.i.i, %for.body43.lr.ph.i.i ], [ %found.1.i.i, %for.inc52.i.i ]
  %sub45.i.i = sub nuw nsw i64 %step.0124.i.i, %p.0121.i.i
  %arrayidx46.i.i = getelementptr inbounds nuw [16 x i64], ptr %history.i.i, i64 %sub45.i.i
  %bcmp.i.i = call i32 @bcmp(ptr %arrayidx44.i.i, ptr %arrayidx46.i.i, i64 %mul.i.i)
  %tobool.not.i.i = icmp eq i32 %bcmp.i.i, 0
  br i1 %tobool.not.i.i, label %if.then.i.i, label %for.inc52.i.i

if.then.i.i:
  %rem.i.i = srem i64 %sub50.i.i, %p.0121.i.i
  %add51.i.i = add nsw i64 %rem.i.i, %sub45.i.i
  br label %for.inc52.i.i

for.inc52.i.i:
  %found.1.i.i = phi i64 [ %found.0120.i.i, %for.body43.i.i ], [ %add51.i.i, %if.then.i.i ]
  %add53.i.i = add nuw nsw i64 %p.0121.i.i, 2
  %cmp38.i.i = icmp samesign ule i64 %add53.i.i, %step.0124.i.i
  %cmp40.i.i = icmp slt i64 %found.1.i.i, 0
  %19 = select i1 %cmp38.i.i, i1 %cmp40.i.i, i1 false
  br i1 %19, label %for.body43.i.i, label %for.cond.cleanup42.i.i

find_last_buffers.exit.thread.i:
  br label %place_results.exit

find_last_buffers.exit.i:
  %arrayidx57.i.i = getelementptr inbounds nuw [16 x i64], ptr %history.i.i, i64 %found.0.lcssa.i.i
  call void @llvm.memcpy.p0.p0.i64(ptr align 16 %last.i, ptr align 16 %arrayidx57.i.i, i64 %mul.i.i, i1 false)
  %cmp10111.i = icmp sgt i64 %.lcssa, 0
  br i1 %cmp10111.i, label %for.body12.i, label %place_results.exit

for.body12.i:
  %k8.0112.i = phi i64 [ %inc62.i, %if.end60.i ], [ 0, %find_last_buffers.exit.i ]
  %arrayidx13.i = getelementptr inbounds nuw i64, ptr %last.i, i64 %k8.0112.i
  %20 = load i64, ptr %arrayidx13.i, align 8
  %cmp14.i = icmp sgt i64 %20, -1
  br i1 %cmp14.i, label %land.rhs.i, label %land.end.i

land.rhs.i:
  %21 = load ptr, ptr %states7.i.i, align 8
  %arrayidx16.i = getelementptr inbounds nuw %struct.state, ptr %21, i64 %k8.0112.i
  %result.i = getelementptr inbounds nuw i8, ptr %arrayidx16.i, i64 48
  %22 = load i64, ptr %result.i, align 8
  %cmp17.i = icmp sgt i64 %22, -1
  br label %land.end.i

land.end.i:
  %storedv.i = phi i1 [ false, %for.body12.i ], [ %cmp17.i, %land.rhs.i ]
  %cmp19106.not.i = icmp eq i64 %k8.0112.i, 0
  br i1 %cmp19106.not.i, label %while.cond.preheader.i, label %for.body21.i

while.cond.preheader.i:
  %first.0.lcssa.i = phi i1 [ %storedv.i, %land.end.i ], [ %and100.i, %for.body21.i ]
  br i1 %first.0.lcssa.i, label %land.rhs33.lr.ph.i, label %if.end60.i

land.rhs33.lr.ph.i:
  %23 = load ptr, ptr %buffers.i, align 8
  %24 = load ptr, ptr %states7.i.i, align 8
  %arrayidx38.i = getelementptr inbounds nuw %struct.state, ptr %24, i64 %k8.0112.i
  %result39.i = getelementptr inbounds nuw i8, ptr %arrayidx38.i, i64 48
  %25 = load i64, ptr %result39.i, align 8
  br label %land.rhs33.i

for.body21.i:
  %j.0108.i = phi i64 [ %inc29.i, %for.body21.i ], [ 0, %land.end.i ]
  %first.0107.i = phi i1 [ %and100.i, %for.body21.i ], [ %storedv.i, %land.end.i ]
  %arrayidx22.i = getelementptr inbounds nuw i64, ptr %last.i, i64 %j.0108.i
  %26 = load i64, ptr %arrayidx22.i, align 8
  %cmp24.i = icmp ne i64 %26, %20
  %and100.i = and i1 %first.0107.i, %cmp24.i
  %inc29.i = add nuw nsw i64 %j.0108.i, 1
  %exitcond.not.i = icmp eq i64 %inc29.i, %k8.0112.i
  br i1 %exitcond.not.i, label %while.cond.preheader.i, label %for.body21.i

land.rhs33.i:
  %other.0110.i = phi i64 [ 0, %land.rhs33.lr.ph.i ], [ %inc43.i, %land.rhs33.i ]
  %arrayidx35.i = getelementptr inbounds nuw %struct.buffer, ptr %23, i64 %other.0110.i
  %place36.i = getelementptr inbounds nuw i8, ptr %arrayidx35.i, i64 24
  %27 = load i64, ptr %place36.i, align 8
  %cmp40.not.i = icmp eq i64 %27, %25
  %inc43.i = add nuw nsw i64 %other.0110.i, 1
  br i1 %cmp40.not.i, label %if.then45.i, label %land.rhs33.i

if.then45.i:
  %place36.i.le = getelementptr inbounds nuw i8, ptr %arrayidx35.i, i64 24
  %arrayidx48.i = getelementptr inbounds %struct.buffer, ptr %23, i64 %20
  %place49.i = getelementptr inbounds nuw i8, ptr %arrayidx48.i, i64 24
  %28 = load i64, ptr %place49.i, align 8
  store i64 %28, ptr %place36.i.le, align 8
  %29 = load ptr, ptr %states7.i.i, align 8
  %arrayidx54.i = getelementptr inbounds nuw %struct.state, ptr %29, i64 %k8.0112.i
  %result55.i = getelementptr inbounds nuw i8, ptr %arrayidx54.i, i64 48
  %30 = load i64, ptr %result55.i, align 8
  %31 = load ptr, ptr %buffers.i, align 8
  %arrayidx58.i = getelementptr inbounds %struct.buffer, ptr %31, i64 %20
  %place59.i = getelementptr inbounds nuw i8, ptr %arrayidx58.i, i64 24
  store i64 %30, ptr %place59.i, align 8
  br label %if.end60.i

if.end60.i:
  %inc62.i = add nuw nsw i64 %k8.0112.i, 1
  %exitcond116.not.i = icmp eq i64 %inc62.i, %.lcssa
  br i1 %exitcond116.not.i, label %place_results.exit, label %for.body12.i

place_results.exit:
  %32 = load i64, ptr %state_count, align 8
  %cmp653 = icmp sgt i64 %32, 0
  br i1 %cmp653, label %for.body8.lr.ph, label %for.cond.cleanup7

for.body8.lr.ph:
  %states9 = getelementptr inbounds nuw i8, ptr %loop, i64 88
  %buffers.i42 = getelementptr inbounds nuw i8, ptr %loop, i64 120
  br label %for.body8

for.body:
  %k.052 = phi i64 [ 0, %for.body.lr.ph ], [ %inc, %for.body ]
  %33 = load ptr, ptr %states, align 8
  %arrayidx = getelementptr inbounds nuw %struct.state, ptr %33, i64 %k.052
  %call = tail call fastcc i64 @first_buffer(ptr %loop, ptr %arrayidx) nounwind
  %buffer = getelementptr inbounds nuw i8, ptr %arrayidx, i64 8
  store i64 %call, ptr %buffer, align 8
  %inc = add nuw nsw i64 %k.052, 1
  %34 = load i64, ptr %state_count, align 8
  %cmp = icmp slt i64 %inc, %34
  br i1 %cmp, label %for.body, label %for.cond.cleanup

for.cond.cleanup7:
  ret void

for.body8:
  %k3.054 = phi i64 [ 0, %for.body8.lr.ph ], [ %inc19, %move_to.exit ]
  %35 = load ptr, ptr %states9, align 8
  %arrayidx10 = getelementptr inbounds nuw %struct.state, ptr %35, i64 %k3.054
  %call12 = tail call fastcc i64 @first_buffer(ptr %loop, ptr %arrayidx10) nounwind
  %first = getelementptr inbounds nuw i8, ptr %arrayidx10, i64 32
  %36 = load ptr, ptr %first, align 8
  %cmp13 = icmp sgt i64 %call12, -1
  br i1 %cmp13, label %if.then, label %if.end

if.then:
  %37 = load ptr, ptr %buffers.i42, align 8
  %arrayidx.i43 = getelementptr inbounds nuw %struct.buffer, ptr %37, i64 %call12
  %place.i44 = getelementptr inbounds nuw i8, ptr %arrayidx.i43, i64 24
  %38 = load i64, ptr %place.i44, align 8
  %arrayidx2.i45 = getelementptr inbounds %struct.buffer, ptr %37, i64 %38
  %39 = load ptr, ptr %arrayidx2.i45, align 8
  %bytes = getelementptr inbounds nuw i8, ptr %arrayidx.i43, i64 8
  %40 = load i64, ptr %bytes, align 8
  tail call void @llvm.memcpy.p0.p0.i64(ptr align 1 %39, ptr align 1 %36, i64 %40, i1 false)
  br label %if.end

if.end:
  %address.0 = phi ptr [ %39, %if.then ], [ %36, %for.body8 ]
  %buffer1.i = getelementptr inbounds nuw i8, ptr %arrayidx10, i64 8
  store i64 %call12, ptr %buffer1.i, align 8
  %41 = load ptr, ptr %arrayidx10, align 8
  %cmp.not.i = icmp eq ptr %41, %address.0
  br i1 %cmp.not.i, label %move_to.exit, label %if.then.i

if.then.i:
  store ptr %address.0, ptr %arrayidx10, align 8
  %patches.i = getelementptr inbounds nuw i8, ptr %arrayidx10, i64 16
  %42 = load ptr, ptr %patches.i, align 8
  %patch_count.i = getelementptr inbounds nuw i8, ptr %arrayidx10, i64 24
  %43 = load i64, ptr %patch_count.i, align 8
  %44 = ptrtoint ptr %address.0 to i64
  %cmp3.i.i = icmp sgt i64 %43, 0
  br i1 %cmp3.i.i, label %for.body.i.i46, label %move_to.exit

for.body.i.i46:
  %k.04.i.i = phi i64 [ %inc.i.i48, %for.body.i.i46 ], [ 0, %if.then.i ]
  %arrayidx.i.i47 = getelementptr inbounds nuw ptr, ptr %42, i64 %k.04.i.i
  %45 = load ptr, ptr %arrayidx.i.i47, align 8
  store i64 %44, ptr %45, align 8
  %inc.i.i48 = add nuw nsw i64 %k.04.i.i, 1
  %exitcond.not.i.i49 = icmp eq i64 %inc.i.i48, %43
  br i1 %exitcond.not.i.i49, label %move_to.exit, label %for.body.i.i46

move_to.exit:
  %inc19 = add nuw nsw i64 %k3.054, 1
  %46 = load i64, ptr %state_count, align 8
  %cmp6 = icmp slt i64 %inc19, %46
  br i1 %cmp6, label %for.body8, label %for.cond.cleanup7
}

define internal fastcc void @leave_loop(ptr %loop) nounwind {
entry:
  %kept.i.i = alloca [4096 x i8], align 16
  %state_count = getelementptr inbounds nuw i8, ptr %loop, i64 96
  %0 = load i64, ptr %state_count, align 8
  %cmp109 = icmp sgt i64 %0, 0
  br i1 %cmp109, label %for.body.lr.ph, label %for.cond.cleanup37

for.body.lr.ph:
  %states = getelementptr inbounds nuw i8, ptr %loop, i64 88
  %buffers = getelementptr inbounds nuw i8, ptr %loop, i64 120
  br label %for.body

for.cond5.preheader:
  %cmp7111 = icmp sgt i64 %5, 0
  br i1 %cmp7111, label %for.body9.lr.ph, label %for.cond.cleanup37

for.body9.lr.ph:
  %states11 = getelementptr inbounds nuw i8, ptr %loop, i64 88
  %buffers.i = getelementptr inbounds nuw i8, ptr %loop, i64 120
  br label %for.body9

for.body:
  %k.0110 = phi i64 [ 0, %for.body.lr.ph ], [ %inc, %cond.end ]
  %1 = load ptr, ptr %states, align 8
  %arrayidx = getelementptr inbounds nuw %struct.state, ptr %1, i64 %k.0110
  %buffer1 = getelementptr inbounds nuw i8, ptr %arrayidx, i64 8
  %2 = load i64, ptr %buffer1, align 8
  %cmp2 = icmp slt i64 %2, 0
  br i1 %cmp2, label %cond.end, label %cond.false

cond.false:
  %3 = load ptr, ptr %buffers, align 8
  %arrayidx3 = getelementptr inbounds nuw %struct.buffer, ptr %3, i64 %2
  %place = getelementptr inbounds nuw i8, ptr %arrayidx3, i64 24
  %4 = load i64, ptr %place, align 8
  br label %cond.end

cond.end:
  %cond = phi i64 [ %4, %cond.false ], [ -1, %for.body ]
  store i64 %cond, ptr %buffer1, align 8
  %inc = add nuw nsw i64 %k.0110, 1
  %5 = load i64, ptr %state_count, align 8
  %cmp = icmp slt i64 %inc, %5
  br i1 %cmp, label %for.body, label %for.cond5.preheader

for.cond34.preheader:
  %cmp36113 = icmp sgt i64 %.pr, 0
  br i1 %cmp36113, label %for.body38.lr.ph, label %for.cond.cleanup37

for.body38.lr.ph:
  %states39 = getelementptr inbounds nuw i8, ptr %loop, i64 88
  %buffers51 = getelementptr inbounds nuw i8, ptr %loop, i64 120
  br label %for.body38

for.body9:
  %k4.0112 = phi i64 [ 0, %for.body9.lr.ph ], [ %inc31, %if.end ]
  %6 = phi i64 [ %5, %for.body9.lr.ph ], [ %.pr, %if.end ]
  %7 = load ptr, ptr %states11, align 8
  %arrayidx12 = getelementptr inbounds nuw %struct.state, ptr %7, i64 %k4.0112
  %buffer14 = getelementptr inbounds nuw i8, ptr %arrayidx12, i64 8
  %8 = load i64, ptr %buffer14, align 8
  br label %while.cond

while.cond:
  %first.0 = phi i64 [ 0, %for.body9 ], [ %inc20, %while.cond ]
  %arrayidx16 = getelementptr inbounds nuw %struct.state, ptr %7, i64 %first.0
  %buffer18 = getelementptr inbounds nuw i8, ptr %arrayidx16, i64 8
  %9 = load i64, ptr %buffer18, align 8
  %cmp19.not = icmp eq i64 %9, %8
  %inc20 = add nuw nsw i64 %first.0, 1
  br i1 %cmp19.not, label %while.end, label %while.cond

while.end:
  %cmp21 = icmp sgt i64 %8, -1
  %cmp22 = icmp eq i64 %first.0, %k4.0112
  %or.cond = and i1 %cmp21, %cmp22
  br i1 %or.cond, label %land.lhs.true23, label %if.end

land.lhs.true23:
  %result = getelementptr inbounds nuw i8, ptr %arrayidx12, i64 48
  %10 = load i64, ptr %result, align 8
  %cmp26.not = icmp eq i64 %8, %10
  br i1 %cmp26.not, label %if.end, label %if.then

if.then:
  %11 = load ptr, ptr %buffers.i, align 8
  %arrayidx.i = getelementptr inbounds nuw %struct.buffer, ptr %11, i64 %8
  %arrayidx2.i = getelementptr inbounds %struct.buffer, ptr %11, i64 %10
  %cmp40.i = icmp sgt i64 %6, 0
  br i1 %cmp40.i, label %for.body.i, label %if.else.i

for.cond.cleanup.i:
  br i1 %or39.i, label %if.then.i, label %if.else.i

for.body.i:
  %taken.042.i = phi i1 [ %or39.i, %for.body.i ], [ false, %if.then ]
  %k.041.i = phi i64 [ %inc.i, %for.body.i ], [ 0, %if.then ]
  %12 = load ptr, ptr %states11, align 8
  %arrayidx3.i = getelementptr inbounds nuw %struct.state, ptr %12, i64 %k.041.i
  %buffer4.i = getelementptr inbounds nuw i8, ptr %arrayidx3.i, i64 8
  %13 = load i64, ptr %buffer4.i, align 8
  %cmp5.i = icmp eq i64 %13, %10
  %or39.i = or i1 %taken.042.i, %cmp5.i
  %cmp7.i = icmp eq i64 %13, %8
  %from..i = select i1 %cmp5.i, i64 %8, i64 %13
  %cond14.i = select i1 %cmp7.i, i64 %10, i64 %from..i
  store i64 %cond14.i, ptr %buffer4.i, align 8
  %inc.i = add nuw nsw i64 %k.041.i, 1
  %14 = load i64, ptr %state_count, align 8
  %cmp.i = icmp slt i64 %inc.i, %14
  br i1 %cmp.i, label %for.body.i, label %for.cond.cleanup.i

if.then.i:
  %15 = load ptr, ptr %arrayidx.i, align 8
  %16 = load ptr, ptr %arrayidx2.i, align 8
  %bytes.i = getelementptr inbounds nuw i8, ptr %arrayidx2.i, i64 8
  %17 = load i64, ptr %bytes.i, align 8
  %cmp20.i.i = icmp sgt i64 %17, 0
  br i1 %cmp20.i.i, label %for.body.i.i, label %swap_bytes.exit.i

for.body.i.i:
  %k.021.i.i = phi i64 [ %add.i.i, %for.body.i.i ], [ 0, %if.then.i ]
  %sub.i.i = sub nsw i64 %17, %k.021.i.i
  %cond.i.i = tail call i64 @llvm.smin.i64(i64 %sub.i.i, i64 4096)
  %add.ptr.i.i = getelementptr inbounds nuw i8, ptr %15, i64 %k.021.i.i
  call void @llvm.memcpy.p0.p0.i64(ptr align 16 %kept.i.i, ptr align 1 %add.ptr.i.i, i64 %cond.i.i, i1 false)
  %add.ptr4.i.i = getelementptr inbounds nuw i8, ptr %16, i64 %k.021.i.i
  tail call void @llvm.memcpy.p0.p0.i64(ptr align 1 %add.ptr.i.i, ptr align 1 %add.ptr4.i.i, i64 %cond.i.i, i1 false)
  call void @llvm.memcpy.p0.p0.i64(ptr align 1 %add.ptr4.i.i, ptr align 16 %kept.i.i, i64 %cond.i.i, i1 false)
  %add.i.i = add nuw nsw i64 %k.021.i.i, 4096
  %cmp.i.i = icmp slt i64 %add.i.i, %17
  br i1 %cmp.i.i, label %for.body.i.i, label %swap_bytes.exit.i

swap_bytes.exit.i:
  br label %if.end

if.else.i:
  %18 = load ptr, ptr %arrayidx2.i, align 8
  %19 = load ptr, ptr %arrayidx.i, align 8
  %bytes19.i = getelementptr inbounds nuw i8, ptr %arrayidx2.i, i64 8
  %20 = load i64, ptr %bytes19.i, align 8
  tail call void @llvm.memcpy.p0.p0.i64(ptr align 1 %18, ptr align 1 %19, i64 %20, i1 false)
  br label %if.end

if.end:
  %inc31 = add nuw nsw i64 %k4.0112, 1
  %.pr = load i64, ptr %state_count, align 8
  %cmp7 = icmp slt i64 %inc31, %.pr
  br i1 %cmp7, label %for.body9, label %for.cond34.preheader

for.cond.cleanup37:
  ret void

for.body38:
  %21 = phi i64 [ %.pr, %for.body38.lr.ph ], [ %28, %if.end65 ]
  %k33.0114 = phi i64 [ 0, %for.body38.lr.ph ], [ %inc67, %if.end65 ]
  %22 = load ptr, ptr %states39, align 8
  %arrayidx40 = getelementptr inbounds nuw %struct.state, ptr %22, i64 %k33.0114
  %buffer43 = getelementptr inbounds nuw i8, ptr %arrayidx40, i64 8
  %23 = load i64, ptr %buffer43, align 8
  %result44 = getelementptr inbounds nuw i8, ptr %arrayidx40, i64 48
  %24 = load i64, ptr %result44, align 8
  %cmp45 = icmp slt i64 %24, 0
  %cmp48.not = icmp eq i64 %23, %24
  %or.cond108 = select i1 %cmp45, i1 true, i1 %cmp48.not
  br i1 %or.cond108, label %if.end65, label %if.then49

if.then49:
  %25 = load ptr, ptr %buffers51, align 8
  %arrayidx53 = getelementptr inbounds nuw %struct.buffer, ptr %25, i64 %24
  %cmp54 = icmp slt i64 %23, 0
  %arrayidx60 = getelementptr inbounds nuw %struct.buffer, ptr %25, i64 %23
  %cond63.in = select i1 %cmp54, ptr %arrayidx40, ptr %arrayidx60
  %cond63 = load ptr, ptr %cond63.in, align 8
  %26 = load ptr, ptr %arrayidx53, align 8
  %bytes = getelementptr inbounds nuw i8, ptr %arrayidx53, i64 8
  %27 = load i64, ptr %bytes, align 8
  tail call void @llvm.memcpy.p0.p0.i64(ptr align 1 %26, ptr align 1 %cond63, i64 %27, i1 false)
  %.pre = load i64, ptr %state_count, align 8
  br label %if.end65

if.end65:
  %28 = phi i64 [ %.pre, %if.then49 ], [ %21, %for.body38 ]
  %inc67 = add nuw nsw i64 %k33.0114, 1
  %cmp36 = icmp slt i64 %inc67, %28
  br i1 %cmp36, label %for.body38, label %for.cond.cleanup37
}

define internal fastcc void @choose_buffers(ptr %loop, i64 %iteration) nounwind {
entry:
  %buffer_count = getelementptr inbounds nuw i8, ptr %loop, i64 128
  %0 = load i64, ptr %buffer_count, align 8
  %cmp71 = icmp sgt i64 %0, 0
  br i1 %cmp71, label %for.body.lr.ph, label %for.cond2.preheader

for.body.lr.ph:
  %buffers = getelementptr inbounds nuw i8, ptr %loop, i64 120
  br label %for.body

for.cond2.preheader:
  %state_count = getelementptr inbounds nuw i8, ptr %loop, i64 96
  %1 = load i64, ptr %state_count, align 8
  %cmp373 = icmp sgt i64 %1, 0
  br i1 %cmp373, label %for.body5.lr.ph, label %for.cond19.preheader

for.body5.lr.ph:
  %states = getelementptr inbounds nuw i8, ptr %loop, i64 88
  %buffers8 = getelementptr inbounds nuw i8, ptr %loop, i64 120
  br label %for.body5

for.body:
  %k.072 = phi i64 [ 0, %for.body.lr.ph ], [ %inc, %for.body ]
  %2 = load ptr, ptr %buffers, align 8
  %arrayidx = getelementptr inbounds nuw %struct.buffer, ptr %2, i64 %k.072
  %taken = getelementptr inbounds nuw i8, ptr %arrayidx, i64 16
  store i64 0, ptr %taken, align 8
  %inc = add nuw nsw i64 %k.072, 1
  %3 = load i64, ptr %buffer_count, align 8
  %cmp = icmp slt i64 %inc, %3
  br i1 %cmp, label %for.body, label %for.cond2.preheader

for.cond19.preheader:
  %made_count = getelementptr inbounds nuw i8, ptr %loop, i64 112
  %4 = load i64, ptr %made_count, align 8
  %cmp2078 = icmp sgt i64 %4, 0
  br i1 %cmp2078, label %for.body22.lr.ph, label %for.cond.cleanup21

for.body22.lr.ph:
  %made23 = getelementptr inbounds nuw i8, ptr %loop, i64 104
  %buffers30 = getelementptr inbounds nuw i8, ptr %loop, i64 120
  %limit = getelementptr inbounds nuw i8, ptr %loop, i64 8
  br label %for.body22

for.body5:
  %5 = phi i64 [ %1, %for.body5.lr.ph ], [ %9, %for.inc15 ]
  %k1.074 = phi i64 [ 0, %for.body5.lr.ph ], [ %inc16, %for.inc15 ]
  %6 = load ptr, ptr %states, align 8
  %arrayidx6 = getelementptr inbounds nuw %struct.state, ptr %6, i64 %k1.074
  %buffer = getelementptr inbounds nuw i8, ptr %arrayidx6, i64 8
  %7 = load i64, ptr %buffer, align 8
  %cmp7 = icmp sgt i64 %7, -1
  br i1 %cmp7, label %if.then, label %for.inc15

if.then:
  %8 = load ptr, ptr %buffers8, align 8
  %arrayidx13 = getelementptr inbounds nuw %struct.buffer, ptr %8, i64 %7
  %taken14 = getelementptr inbounds nuw i8, ptr %arrayidx13, i64 16
  store i64 1, ptr %taken14, align 8
  %.pre = load i64, ptr %state_count, align 8
  br label %for.inc15

for.inc15:
  %9 = phi i64 [ %5, %for.body5 ], [ %.pre, %if.then ]
  %inc16 = add nuw nsw i64 %k1.074, 1
  %cmp3 = icmp slt i64 %inc16, %9
  br i1 %cmp3, label %for.body5, label %for.cond19.preheader

for.cond.cleanup21:
  ret void

for.body22:
  %k18.079 = phi i64 [ 0, %for.body22.lr.ph ], [ %inc42, %if.end35 ]
  %10 = load ptr, ptr %made23, align 8
  %arrayidx24 = getelementptr inbounds nuw %struct.made, ptr %10, i64 %k18.079
  %first_buffer = getelementptr inbounds nuw i8, ptr %arrayidx24, i64 32
  %11 = load i64, ptr %first_buffer, align 8
  %partner = getelementptr inbounds nuw i8, ptr %arrayidx24, i64 56
  %12 = load i64, ptr %partner, align 8
  %cmp26 = icmp sgt i64 %12, -1
  br i1 %cmp26, label %if.then27, label %while.cond.preheader

while.cond.preheader:
  %last_buffer = getelementptr inbounds nuw i8, ptr %arrayidx24, i64 40
  %13 = load i64, ptr %last_buffer, align 8
  %cmp2975 = icmp slt i64 %11, %13
  br i1 %cmp2975, label %land.rhs.lr.ph, label %if.end35

land.rhs.lr.ph:
  %14 = load ptr, ptr %buffers30, align 8
  br label %land.rhs

if.then27:
  %15 = load i64, ptr %limit, align 8
  %sub = sub nsw i64 %15, %iteration
  %16 = and i64 %sub, 1
  %tobool.not = icmp eq i64 %16, 0
  br i1 %tobool.not, label %if.end35, label %cond.true

cond.true:
  %result = getelementptr inbounds nuw i8, ptr %arrayidx24, i64 48
  %17 = load i64, ptr %result, align 8
  br label %if.end35

land.rhs:
  %buffer25.076 = phi i64 [ %11, %land.rhs.lr.ph ], [ %inc34, %while.body ]
  %arrayidx31 = getelementptr inbounds %struct.buffer, ptr %14, i64 %buffer25.076
  %taken32 = getelementptr inbounds nuw i8, ptr %arrayidx31, i64 16
  %18 = load i64, ptr %taken32, align 8
  %tobool33.not = icmp eq i64 %18, 0
  br i1 %tobool33.not, label %if.end35, label %while.body

while.body:
  %inc34 = add i64 %buffer25.076, 1
  %exitcond.not = icmp eq i64 %inc34, %13
  br i1 %exitcond.not, label %if.end35, label %land.rhs

if.end35:
  %buffer25.1 = phi i64 [ %17, %cond.true ], [ %12, %if.then27 ], [ %11, %while.cond.preheader ], [ %13, %while.body ], [ %buffer25.076, %land.rhs ]
  %19 = load ptr, ptr %buffers30, align 8
  %arrayidx37 = getelementptr inbounds %struct.buffer, ptr %19, i64 %buffer25.1
  %taken38 = getelementptr inbounds nuw i8, ptr %arrayidx37, i64 16
  store i64 1, ptr %taken38, align 8
  %buffer40 = getelementptr inbounds nuw i8, ptr %arrayidx24, i64 8
  store i64 %buffer25.1, ptr %buffer40, align 8
  %inc42 = add nuw nsw i64 %k18.079, 1
  %20 = load i64, ptr %made_count, align 8
  %cmp20 = icmp slt i64 %inc42, %20
  br i1 %cmp20, label %for.body22, label %for.cond.cleanup21
}

define internal fastcc void @use_buffers(ptr %loop) nounwind {
entry:
  %made_count = getelementptr inbounds nuw i8, ptr %loop, i64 112
  %0 = load i64, ptr %made_count, align 8
  %cmp9 = icmp sgt i64 %0, 0
  br i1 %cmp9, label %for.body.lr.ph, label %for.cond.cleanup

for.body.lr.ph:
  %made = getelementptr inbounds nuw i8, ptr %loop, i64 104
  %buffers.i = getelementptr inbounds nuw i8, ptr %loop, i64 120
  br label %for.body

for.cond.cleanup:
  ret void

for.body:
  %k.010 = phi i64 [ 0, %for.body.lr.ph ], [ %inc, %move_to.exit ]
  %1 = load ptr, ptr %made, align 8
  %arrayidx = getelementptr inbounds nuw %struct.made, ptr %1, i64 %k.010
  %buffer = getelementptr inbounds nuw i8, ptr %arrayidx, i64 8
  %2 = load i64, ptr %buffer, align 8
  %3 = load ptr, ptr %buffers.i, align 8
  %arrayidx.i = getelementptr inbounds %struct.buffer, ptr %3, i64 %2
  %place.i = getelementptr inbounds nuw i8, ptr %arrayidx.i, i64 24
  %4 = load i64, ptr %place.i, align 8
  %arrayidx2.i = getelementptr inbounds %struct.buffer, ptr %3, i64 %4
  %5 = load ptr, ptr %arrayidx2.i, align 8
  %6 = load ptr, ptr %arrayidx, align 8
  %cmp.not.i = icmp eq ptr %6, %5
  br i1 %cmp.not.i, label %move_to.exit, label %if.then.i

if.then.i:
  store ptr %5, ptr %arrayidx, align 8
  %patches.i = getelementptr inbounds nuw i8, ptr %arrayidx, i64 16
  %7 = load ptr, ptr %patches.i, align 8
  %patch_count.i = getelementptr inbounds nuw i8, ptr %arrayidx, i64 24
  %8 = load i64, ptr %patch_count.i, align 8
  %9 = ptrtoint ptr %5 to i64
  %cmp3.i.i = icmp sgt i64 %8, 0
  br i1 %cmp3.i.i, label %for.body.i.i, label %move_to.exit

for.body.i.i:
  %k.04.i.i = phi i64 [ %inc.i.i, %for.body.i.i ], [ 0, %if.then.i ]
  %arrayidx.i.i = getelementptr inbounds nuw ptr, ptr %7, i64 %k.04.i.i
  %10 = load ptr, ptr %arrayidx.i.i, align 8
  store i64 %9, ptr %10, align 8
  %inc.i.i = add nuw nsw i64 %k.04.i.i, 1
  %exitcond.not.i.i = icmp eq i64 %inc.i.i, %8
  br i1 %exitcond.not.i.i, label %move_to.exit, label %for.body.i.i

move_to.exit:
  %inc = add nuw nsw i64 %k.010, 1
  %11 = load i64, ptr %made_count, align 8
  %cmp = icmp slt i64 %inc, %11
  br i1 %cmp, label %for.body, label %for.cond.cleanup
}

define internal fastcc void @next_state(ptr %loop) nounwind {
entry:
  %state_count = getelementptr inbounds nuw i8, ptr %loop, i64 96
  %0 = load i64, ptr %state_count, align 8
  %cmp73 = icmp sgt i64 %0, 0
  br i1 %cmp73, label %for.body.lr.ph, label %for.cond28.preheader

for.body.lr.ph:
  %states = getelementptr inbounds nuw i8, ptr %loop, i64 88
  %made = getelementptr inbounds nuw i8, ptr %loop, i64 104
  br label %for.body

for.cond10.preheader:
  %1 = icmp sgt i64 %7, 0
  br i1 %1, label %for.body14.lr.ph, label %for.cond28.preheader

for.body14.lr.ph:
  %states15 = getelementptr inbounds nuw i8, ptr %loop, i64 88
  br label %for.body14

for.body:
  %k.074 = phi i64 [ 0, %for.body.lr.ph ], [ %inc, %cond.end ]
  %2 = load ptr, ptr %states, align 8
  %arrayidx = getelementptr inbounds nuw %struct.state, ptr %2, i64 %k.074
  %source1 = getelementptr inbounds nuw i8, ptr %arrayidx, i64 56
  %3 = load i64, ptr %source1, align 8
  %cmp2 = icmp sgt i64 %3, -1
  br i1 %cmp2, label %cond.true, label %cond.false

cond.true:
  %arrayidx5 = getelementptr inbounds nuw %struct.state, ptr %2, i64 %3
  br label %cond.end

cond.false:
  %4 = load ptr, ptr %made, align 8
  %not = xor i64 %3, -1
  %arrayidx7 = getelementptr inbounds nuw %struct.made, ptr %4, i64 %not
  br label %cond.end

cond.end:
  %cond = phi ptr [ %arrayidx5, %cond.true ], [ %arrayidx7, %cond.false ]
  %5 = load ptr, ptr %cond, align 8
  %next = getelementptr inbounds nuw i8, ptr %arrayidx, i64 64
  store ptr %5, ptr %next, align 8
  %buffer = getelementptr inbounds nuw i8, ptr %cond, i64 8
  %6 = load i64, ptr %buffer, align 8
  %next_buffer = getelementptr inbounds nuw i8, ptr %arrayidx, i64 72
  store i64 %6, ptr %next_buffer, align 8
  %inc = add nuw nsw i64 %k.074, 1
  %7 = load i64, ptr %state_count, align 8
  %cmp = icmp slt i64 %inc, %7
  br i1 %cmp, label %for.body, label %for.cond10.preheader

for.cond28.preheader:
  %exchange_count = getelementptr inbounds nuw i8, ptr %loop, i64 144
  %8 = load i64, ptr %exchange_count, align 8
  %cmp2977 = icmp sgt i64 %8, 0
  br i1 %cmp2977, label %for.body31.lr.ph, label %for.cond.cleanup30

for.body31.lr.ph:
  %exchanged = getelementptr inbounds nuw i8, ptr %loop, i64 136
  br label %for.body31

for.body14:
  %k9.076 = phi i64 [ 0, %for.body14.lr.ph ], [ %inc25, %move_to.exit ]
  %9 = load ptr, ptr %states15, align 8
  %arrayidx16 = getelementptr inbounds nuw %struct.state, ptr %9, i64 %k9.076
  %next20 = getelementptr inbounds nuw i8, ptr %arrayidx16, i64 64
  %10 = load ptr, ptr %next20, align 8
  %next_buffer23 = getelementptr inbounds nuw i8, ptr %arrayidx16, i64 72
  %11 = load i64, ptr %next_buffer23, align 8
  %buffer1.i = getelementptr inbounds nuw i8, ptr %arrayidx16, i64 8
  store i64 %11, ptr %buffer1.i, align 8
  %12 = load ptr, ptr %arrayidx16, align 8
  %cmp.not.i = icmp eq ptr %12, %10
  br i1 %cmp.not.i, label %move_to.exit, label %if.then.i

if.then.i:
  store ptr %10, ptr %arrayidx16, align 8
  %patches.i = getelementptr inbounds nuw i8, ptr %arrayidx16, i64 16
  %13 = load ptr, ptr %patches.i, align 8
  %patch_count.i = getelementptr inbounds nuw i8, ptr %arrayidx16, i64 24
  %14 = load i64, ptr %patch_count.i, align 8
  %15 = ptrtoint ptr %10 to i64
  %cmp3.i.i = icmp sgt i64 %14, 0
  br i1 %cmp3.i.i, label %for.body.i.i, label %move_to.exit

for.body.i.i:
  %k.04.i.i = phi i64 [ %inc.i.i, %for.body.i.i ], [ 0, %if.then.i ]
  %arrayidx.i.i = getelementptr inbounds nuw ptr, ptr %13, i64 %k.04.i.i
  %16 = load ptr, ptr %arrayidx.i.i, align 8
  store i64 %15, ptr %16, align 8
  %inc.i.i = add nuw nsw i64 %k.04.i.i, 1
  %exitcond.not.i.i = icmp eq i64 %inc.i.i, %14
  br i1 %exitcond.not.i.i, label %move_to.exit, label %for.body.i.i

move_to.exit:
  %inc25 = add nuw nsw i64 %k9.076, 1
  %17 = load i64, ptr %state_count, align 8
  %cmp12 = icmp slt i64 %inc25, %17
  br i1 %cmp12, label %for.body14, label %for.cond28.preheader

for.cond.cleanup30:
  ret void

for.body31:
  %k27.078 = phi i64 [ 0, %for.body31.lr.ph ], [ %inc42, %for.body31 ]
  %18 = load ptr, ptr %exchanged, align 8
  %arrayidx32.idx = shl nuw nsw i64 %k27.078, 4
  %arrayidx32 = getelementptr inbounds nuw i8, ptr %18, i64 %arrayidx32.idx
  %19 = load ptr, ptr %arrayidx32, align 8
  %arrayidx35 = getelementptr inbounds nuw i8, ptr %arrayidx32, i64 8
  %20 = load ptr, ptr %arrayidx35, align 8
  %was.sroa.0.0.copyload = load ptr, ptr %19, align 8
  %was.sroa.4.0..sroa_idx = getelementptr inbounds nuw i8, ptr %19, i64 8
  %was.sroa.4.0.copyload = load i64, ptr %was.sroa.4.0..sroa_idx, align 8
  %was.sroa.5.0..sroa_idx = getelementptr inbounds nuw i8, ptr %19, i64 16
  %was.sroa.5.0.copyload = load i64, ptr %was.sroa.5.0..sroa_idx, align 8
  %was.sroa.6.0..sroa_idx = getelementptr inbounds nuw i8, ptr %19, i64 24
  %was.sroa.6.0.copyload = load ptr, ptr %was.sroa.6.0..sroa_idx, align 8
  %block = getelementptr inbounds nuw i8, ptr %20, i64 24
  %21 = load ptr, ptr %block, align 8
  %22 = load ptr, ptr %20, align 8
  %size = getelementptr inbounds nuw i8, ptr %20, i64 8
  %23 = load i64, ptr %size, align 8
  %capacity = getelementptr inbounds nuw i8, ptr %20, i64 16
  %24 = load i64, ptr %capacity, align 8
  tail call void @hold(ptr %19, ptr %21, ptr %22, i64 %23, i64 %24) nounwind
  tail call void @hold(ptr %20, ptr %was.sroa.6.0.copyload, ptr %was.sroa.0.0.copyload, i64 %was.sroa.4.0.copyload, i64 %was.sroa.5.0.copyload) nounwind
  %inc42 = add nuw nsw i64 %k27.078, 1
  %25 = load i64, ptr %exchange_count, align 8
  %cmp29 = icmp slt i64 %inc42, %25
  br i1 %cmp29, label %for.body31, label %for.cond.cleanup30
}

define internal fastcc i64 @first_buffer(ptr %loop, ptr %state) nounwind {
entry:
  %copied = getelementptr inbounds nuw i8, ptr %state, i64 40
  %0 = load i64, ptr %copied, align 8
  %tobool.not = icmp eq i64 %0, 0
  br i1 %tobool.not, label %return, label %if.end

if.end:
  %source = getelementptr inbounds nuw i8, ptr %state, i64 56
  %1 = load i64, ptr %source, align 8
  %cmp = icmp slt i64 %1, 0
  br i1 %cmp, label %land.lhs.true, label %if.end9

land.lhs.true:
  %not = xor i64 %1, -1
  %made1 = getelementptr inbounds nuw i8, ptr %loop, i64 104
  %2 = load ptr, ptr %made1, align 8
  %arrayidx = getelementptr inbounds nuw %struct.made, ptr %2, i64 %not
  %partner = getelementptr inbounds nuw i8, ptr %arrayidx, i64 56
  %3 = load i64, ptr %partner, align 8
  %cmp2 = icmp sgt i64 %3, -1
  br i1 %cmp2, label %land.lhs.true3, label %if.end9

land.lhs.true3:
  %limit = getelementptr inbounds nuw i8, ptr %loop, i64 8
  %4 = load i64, ptr %limit, align 8
  %5 = load i64, ptr %loop, align 8
  %sub = sub nsw i64 %4, %5
  %6 = and i64 %sub, 1
  %tobool4.not = icmp eq i64 %6, 0
  br i1 %tobool4.not, label %if.end9, label %return

if.end9:
  %result = getelementptr inbounds nuw i8, ptr %state, i64 48
  %7 = load i64, ptr %result, align 8
  br label %return

return:
  %retval.1 = phi i64 [ -1, %entry ], [ %7, %if.end9 ], [ %3, %land.lhs.true3 ]
  ret i64 %retval.1
}

declare void @keep_arguments(ptr, i64, i64) nounwind

declare void @run_pass(ptr, i64) nounwind

declare void @hold(ptr, ptr, ptr, i64, i64) nounwind

declare ptr @PyObject_CallNoArgs(ptr) nounwind

declare void @Py_DecRef(ptr) nounwind

declare void @Py_IncRef(ptr) nounwind

declare double @PyFloat_AsDouble(ptr) nounwind

declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr) nounwind

declare double @PyComplex_RealAsDouble(ptr) nounwind

declare double @PyComplex_ImagAsDouble(ptr) nounwind

declare void @PyErr_Clear() nounwind

define internal fastcc ptr @new_array(ptr %result, ptr %data) nounwind {
entry:
  %0 = load ptr, ptr %result, align 8
  tail call void @Py_IncRef(ptr %0) nounwind
  %1 = load ptr, ptr @numpy_functions, align 8
  %arrayidx = getelementptr inbounds nuw i8, ptr %1, i64 752
  %2 = load ptr, ptr %arrayidx, align 8
  %arrayidx1 = getelementptr inbounds nuw i8, ptr %1, i64 16
  %3 = load ptr, ptr %arrayidx1, align 8
  %4 = load ptr, ptr %result, align 8
  %rank = getelementptr inbounds nuw i8, ptr %result, i64 8
  %5 = load i64, ptr %rank, align 8
  %conv = trunc i64 %5 to i32
  %extents = getelementptr inbounds nuw i8, ptr %result, i64 16
  %6 = load ptr, ptr %extents, align 8
  %tobool.not = icmp eq ptr %data, null
  %cond = select i1 %tobool.not, i32 0, i32 1281
  %call = tail call ptr %2(ptr %3, ptr %4, i32 %conv, ptr %6, ptr null, ptr %data, i32 %cond, ptr null) nounwind
  ret ptr %call
}

declare ptr @PyCapsule_New(ptr, ptr, ptr) nounwind

define internal void @free_block(ptr %owner) nounwind {
entry:
  %call = tail call ptr @PyCapsule_GetPointer(ptr %owner, ptr null) nounwind
  tail call void @PyMem_RawFree(ptr %call) nounwind
  ret void
}

declare void @PyMem_RawFree(ptr) nounwind

declare ptr @PyCapsule_GetPointer(ptr, ptr) nounwind

declare ptr @PyTuple_New(i64) nounwind

declare i32 @PyTuple_SetItem(ptr, i64, ptr) nounwind

declare i32 @bcmp(ptr, ptr, i64) nounwind

declare i64 @llvm.smin.i64(i64, i64) nounwind

declare i64 @llvm.umin.i64(i64, i64) nounwind
