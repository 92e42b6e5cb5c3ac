; replay.c, compiled by clang 22.1.8 (ziglang 0.17.1) and tidied by
; python -m treadle.backend.native.runtime.build: change the C file, not this one.
; python -m ziglang cc -target x86_64-linux-gnu -S -emit-llvm -Os -g0 -std=gnu11 -fPIC -Wall -Wextra -Werror -Wno-unused-command-line-argument -fno-sanitize=all -fno-stack-protector -fno-asynchronous-unwind-tables -fno-vectorize -fno-slp-vectorize -fno-unroll-loops -fno-strict-aliasing -fno-ident -fno-discard-value-names -Xclang -no-enable-noundef-analysis -isystem PYTHON -isystem NUMPY replay.c
; sha256 of replay.c, team.h: 4bce3587fa265113604186c5e29912ee9ee29d7bef6eb22e86a7056494a93331

%struct.runner = type { ptr, i64, i64, i64 }
%struct.state = type { %struct.moving, ptr, i64, i64, i64, ptr, i64 }
%struct.moving = type { ptr, i64, ptr, i64 }
%struct.made = type { %struct.moving, i64, i64, i64, i64 }
%struct.buffer = type { ptr, i64, i64 }
%struct.array = type { i64, ptr, ptr, i64, ptr, ptr, i64 }
%struct.dimension = type { i64, i64 }
%struct.number = type { i64, i64, i64, i64, i64, ptr, i64 }
%struct.result = type { ptr, i64, ptr, ptr, i64, ptr, i64, ptr, ptr }
%struct.block = type { ptr, ptr }

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

define void @release(ptr %memory, i64 %most) nounwind {
entry:
  %capacity = getelementptr inbounds nuw i8, ptr %memory, i64 16
  %0 = load i64, ptr %capacity, align 8
  %cmp = icmp sgt i64 %0, %most
  br i1 %cmp, label %if.then, label %if.end

if.then:
  %block = getelementptr inbounds nuw i8, ptr %memory, i64 24
  %1 = load ptr, ptr %block, align 8
  tail call void @PyMem_RawFree(ptr %1) nounwind
  %size2.i = getelementptr inbounds nuw i8, ptr %memory, i64 8
  tail call void @llvm.memset.p0.i64(ptr align 8 dereferenceable(24) %size2.i, i8 0, i64 24, i1 false)
  %2 = load ptr, ptr %memory, align 8
  %cmp.not.i = icmp eq ptr %2, null
  br i1 %cmp.not.i, label %if.end, label %if.then.i

if.then.i:
  store ptr null, ptr %memory, align 8
  %patches.i = getelementptr inbounds nuw i8, ptr %memory, i64 32
  %3 = load ptr, ptr %patches.i, align 8
  %patch_count.i = getelementptr inbounds nuw i8, ptr %memory, i64 40
  %4 = load i64, ptr %patch_count.i, align 8
  %cmp3.i.i = icmp sgt i64 %4, 0
  br i1 %cmp3.i.i, label %for.body.i.i, label %if.end

for.body.i.i:
  %k.04.i.i = phi i64 [ %inc.i.i, %for.body.i.i ], [ 0, %if.then.i ]
  %arrayidx.i.i = getelementptr inbounds nuw ptr, ptr %3, i64 %k.04.i.i
  %5 = load ptr, ptr %arrayidx.i.i, align 8
  store i64 0, ptr %5, align 8
  %inc.i.i = add nuw nsw i64 %k.04.i.i, 1
  %exitcond.not.i.i = icmp eq i64 %inc.i.i, %4
  br i1 %exitcond.not.i.i, label %if.end, label %for.body.i.i

if.end:
  ret void
}

declare void @PyMem_RawFree(ptr) nounwind

define i64 @fill_memory(ptr %memory, ptr %source, i64 %bytes) nounwind {
entry:
  %call = tail call fastcc zeroext i1 @resize(ptr %memory, i64 %bytes) nounwind
  br i1 %call, label %if.end, label %return

if.end:
  %0 = load ptr, ptr %memory, align 8
  tail call void @llvm.memcpy.p0.p0.i64(ptr align 1 %0, ptr align 1 %source, i64 %bytes, i1 false)
  br label %return

return:
  %retval.0 = phi i64 [ 1, %if.end ], [ 0, %entry ]
  ret i64 %retval.0
}

define internal fastcc zeroext i1 @resize(ptr %memory, i64 %bytes) nounwind {
entry:
  %or.cond = icmp ugt i64 %bytes, 70368744177664
  br i1 %or.cond, label %return, label %if.end

if.end:
  %capacity = getelementptr inbounds nuw i8, ptr %memory, i64 16
  %0 = load i64, ptr %capacity, align 8
  %cmp2.not = icmp sgt i64 %bytes, %0
  br i1 %cmp2.not, label %if.end4, label %if.then3

if.then3:
  %size = getelementptr inbounds nuw i8, ptr %memory, i64 8
  store i64 %bytes, ptr %size, align 8
  br label %return

if.end4:
  %mul = shl nsw i64 %0, 1
  %mul.bytes = tail call i64 @llvm.smax.i64(i64 %mul, i64 %bytes)
  %block = getelementptr inbounds nuw i8, ptr %memory, i64 24
  %1 = load ptr, ptr %block, align 8
  tail call void @PyMem_RawFree(ptr %1) nounwind
  %add = add nuw nsw i64 %mul.bytes, 128
  %call = tail call ptr @PyMem_RawMalloc(i64 %add) nounwind
  %tobool.not = icmp eq ptr %call, null
  br i1 %tobool.not, label %if.end14, label %if.end17

if.end14:
  %add12 = add nuw nsw i64 %bytes, 128
  %call13 = tail call ptr @PyMem_RawMalloc(i64 %add12) nounwind
  %tobool15.not.not = icmp eq ptr %call13, null
  br i1 %tobool15.not.not, label %if.then16, label %if.end17

if.then16:
  %size2.i = getelementptr inbounds nuw i8, ptr %memory, i64 8
  tail call void @llvm.memset.p0.i64(ptr align 8 dereferenceable(24) %size2.i, i8 0, i64 24, i1 false)
  %2 = load ptr, ptr %memory, align 8
  %cmp.not.i = icmp eq ptr %2, null
  br i1 %cmp.not.i, label %return, label %if.then.i

if.then.i:
  store ptr null, ptr %memory, align 8
  %patches.i = getelementptr inbounds nuw i8, ptr %memory, i64 32
  %3 = load ptr, ptr %patches.i, align 8
  %patch_count.i = getelementptr inbounds nuw i8, ptr %memory, i64 40
  %4 = load i64, ptr %patch_count.i, align 8
  %cmp3.i.i = icmp sgt i64 %4, 0
  br i1 %cmp3.i.i, label %for.body.i.i, label %return

for.body.i.i:
  %k.04.i.i = phi i64 [ %inc.i.i, %for.body.i.i ], [ 0, %if.then.i ]
  %arrayidx.i.i = getelementptr inbounds nuw ptr, ptr %3, i64 %k.04.i.i
  %5 = load ptr, ptr %arrayidx.i.i, align 8
  store i64 0, ptr %5, align 8
  %inc.i.i = add nuw nsw i64 %k.04.i.i, 1
  %exitcond.not.i.i = icmp eq i64 %inc.i.i, %4
  br i1 %exitcond.not.i.i, label %return, label %for.body.i.i

if.end17:
  %block10.057 = phi ptr [ %call13, %if.end14 ], [ %call, %if.end4 ]
  %capacity5.056 = phi i64 [ %bytes, %if.end14 ], [ %mul.bytes, %if.end4 ]
  %6 = ptrtoint ptr %block10.057 to i64
  %sub = add nsw i64 %6, 63
  %div = sdiv i64 %sub, 64
  %mul19 = shl nsw i64 %div, 6
  %7 = inttoptr i64 %mul19 to ptr
  store ptr %block10.057, ptr %block, align 8
  %size2.i40 = getelementptr inbounds nuw i8, ptr %memory, i64 8
  store i64 %bytes, ptr %size2.i40, align 8
  store i64 %capacity5.056, ptr %capacity, align 8
  %8 = load ptr, ptr %memory, align 8
  %cmp.not.i42 = icmp eq ptr %8, %7
  br i1 %cmp.not.i42, label %return, label %if.then.i43

if.then.i43:
  store ptr %7, ptr %memory, align 8
  %patches.i44 = getelementptr inbounds nuw i8, ptr %memory, i64 32
  %9 = load ptr, ptr %patches.i44, align 8
  %patch_count.i45 = getelementptr inbounds nuw i8, ptr %memory, i64 40
  %10 = load i64, ptr %patch_count.i45, align 8
  %cmp3.i.i46 = icmp sgt i64 %10, 0
  br i1 %cmp3.i.i46, label %for.body.i.i47, label %return

for.body.i.i47:
  %k.04.i.i48 = phi i64 [ %inc.i.i50, %for.body.i.i47 ], [ 0, %if.then.i43 ]
  %arrayidx.i.i49 = getelementptr inbounds nuw ptr, ptr %9, i64 %k.04.i.i48
  %11 = load ptr, ptr %arrayidx.i.i49, align 8
  store i64 %mul19, ptr %11, align 8
  %inc.i.i50 = add nuw nsw i64 %k.04.i.i48, 1
  %exitcond.not.i.i51 = icmp eq i64 %inc.i.i50, %10
  br i1 %exitcond.not.i.i51, label %return, label %for.body.i.i47

return:
  %retval.1 = phi i1 [ false, %entry ], [ true, %if.then3 ], [ false, %for.body.i.i ], [ false, %if.then16 ], [ false, %if.then.i ], [ true, %if.end17 ], [ true, %if.then.i43 ], [ true, %for.body.i.i47 ]
  ret i1 %retval.1
}

declare void @llvm.memcpy.p0.p0.i64(ptr noalias, ptr noalias, i64, i1 immarg) nounwind

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

declare ptr @PyEval_SaveThread() nounwind

declare i64 @clock() nounwind

define internal fastcc i32 @run_part(ptr %part, ptr %runner) nounwind {
entry:
  %0 = load ptr, ptr %part, align 8
  %operation_count = getelementptr inbounds nuw i8, ptr %part, i64 8
  %1 = load i64, ptr %operation_count, align 8
  %add.ptr.idx = mul nsw i64 %1, 40
  %add.ptr = getelementptr inbounds i8, ptr %0, i64 %add.ptr.idx
  %cmp212 = icmp sgt i64 %1, 0
  br i1 %cmp212, label %for.body.lr.ph, label %for.cond.cleanup

for.body.lr.ph:
  %iterations.i = getelementptr inbounds nuw i8, ptr %runner, i64 8
  br label %for.body

for.cond.cleanup:
  %outcome.0.lcssa = phi i32 [ 0, %entry ], [ %call24.i, %if.end25.i ], [ 1, %sw.bb6.i ], [ %call20.i, %if.end21.i ], [ %call.i85, %if.then8.i ], [ %call29.i, %if.end30.i ], [ 1, %sw.bb15.i ], [ 1, %if.else.i ], [ %outcome.1, %for.inc ]
  ret i32 %outcome.0.lcssa

for.body:
  %op.0213 = phi ptr [ %0, %for.body.lr.ph ], [ %incdec.ptr, %for.inc ]
  %2 = load i64, ptr %op.0213, align 8
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
  %threads = getelementptr inbounds nuw i8, ptr %op.0213, i64 32
  %3 = load i64, ptr %threads, align 8
  %cmp3 = icmp slt i64 %3, 0
  br i1 %cmp3, label %if.then, label %if.else

if.then:
  %target = getelementptr inbounds nuw i8, ptr %op.0213, i64 8
  %4 = load ptr, ptr %target, align 8
  %source = getelementptr inbounds nuw i8, ptr %op.0213, i64 16
  %5 = load ptr, ptr %source, align 8
  %size = getelementptr inbounds nuw i8, ptr %op.0213, i64 24
  %6 = load i64, ptr %size, align 8
  %sub = sub nsw i64 0, %3
  tail call void @parallel_brief(ptr %4, ptr %5, i64 %6, i64 %sub) nounwind
  br label %for.inc

if.else:
  %cmp7 = icmp samesign ult i64 %3, 2
  br i1 %cmp7, label %if.then9, label %if.else10

if.then9:
  %target.i = getelementptr inbounds nuw i8, ptr %op.0213, i64 8
  %7 = load ptr, ptr %target.i, align 8
  %size.i = getelementptr inbounds nuw i8, ptr %op.0213, i64 24
  %8 = load i64, ptr %size.i, align 8
  %cmp17.i = icmp sgt i64 %8, 0
  br i1 %cmp17.i, label %for.body.lr.ph.i, label %for.inc

for.body.lr.ph.i:
  %source.i = getelementptr inbounds nuw i8, ptr %op.0213, i64 16
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
  %size11 = getelementptr inbounds nuw i8, ptr %op.0213, i64 24
  %13 = load i64, ptr %size11, align 8
  %cmp12 = icmp sgt i64 %13, 0
  br i1 %cmp12, label %if.then14, label %for.inc

if.then14:
  %target15 = getelementptr inbounds nuw i8, ptr %op.0213, i64 8
  %14 = load ptr, ptr %target15, align 8
  %source16 = getelementptr inbounds nuw i8, ptr %op.0213, i64 16
  %15 = load ptr, ptr %source16, align 8
  tail call void @parallel(ptr %14, ptr %15, i64 %13, i64 %3) nounwind
  br label %for.inc

sw.bb21:
  %target22 = getelementptr inbounds nuw i8, ptr %op.0213, i64 8
  %16 = load ptr, ptr %target22, align 8
  %size23 = getelementptr inbounds nuw i8, ptr %op.0213, i64 24
  %17 = load i64, ptr %size23, align 8
  tail call void @llvm.memset.p0.i64(ptr align 1 %16, i8 0, i64 %17, i1 false)
  br label %for.inc

sw.bb24:
  %target25 = getelementptr inbounds nuw i8, ptr %op.0213, i64 8
  %18 = load ptr, ptr %target25, align 8
  %source26 = getelementptr inbounds nuw i8, ptr %op.0213, i64 16
  %19 = load ptr, ptr %source26, align 8
  %size27 = getelementptr inbounds nuw i8, ptr %op.0213, i64 24
  %20 = load i64, ptr %size27, align 8
  tail call void @llvm.memcpy.p0.p0.i64(ptr align 1 %18, ptr align 1 %19, i64 %20, i1 false)
  br label %for.inc

sw.bb28:
  %target29 = getelementptr inbounds nuw i8, ptr %op.0213, i64 8
  %21 = load ptr, ptr %target29, align 8
  %22 = load i64, ptr %21, align 8
  %tobool.not = icmp ne i64 %22, 0
  %cond = zext i1 %tobool.not to i32
  br label %for.inc

sw.bb30:
  %target31 = getelementptr inbounds nuw i8, ptr %op.0213, i64 8
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
  %state_count.i158 = getelementptr inbounds nuw i8, ptr %23, i64 96
  %26 = load i64, ptr %state_count.i158, align 8
  %cmp37.i159 = icmp sgt i64 %26, 0
  br i1 %cmp37.i159, label %for.body.lr.ph.i160, label %enter_loop.exit

for.body.lr.ph.i160:
  %states.i161 = getelementptr inbounds nuw i8, ptr %23, i64 88
  %made2.i = getelementptr inbounds nuw i8, ptr %23, i64 104
  %limit.i162 = getelementptr inbounds nuw i8, ptr %23, i64 8
  %buffers.i163 = getelementptr inbounds nuw i8, ptr %23, i64 120
  br label %for.body.i164

for.body.i164:
  %k.038.i = phi i64 [ 0, %for.body.lr.ph.i160 ], [ %inc.i180, %move_to.exit.i179 ]
  %27 = load ptr, ptr %states.i161, align 8
  %arrayidx.i165 = getelementptr inbounds nuw %struct.state, ptr %27, i64 %k.038.i
  %first.i = getelementptr inbounds nuw i8, ptr %arrayidx.i165, i64 32
  %28 = load ptr, ptr %first.i, align 8
  %copied.i = getelementptr inbounds nuw i8, ptr %arrayidx.i165, i64 40
  %29 = load i64, ptr %copied.i, align 8
  %tobool.not.i166 = icmp eq i64 %29, 0
  br i1 %tobool.not.i166, label %if.end17.i, label %if.then.i167

if.then.i167:
  %result.i168 = getelementptr inbounds nuw i8, ptr %arrayidx.i165, i64 48
  %30 = load i64, ptr %result.i168, align 8
  %source.i169 = getelementptr inbounds nuw i8, ptr %arrayidx.i165, i64 56
  %31 = load i64, ptr %source.i169, align 8
  %cmp1.i170 = icmp slt i64 %31, 0
  br i1 %cmp1.i170, label %land.lhs.true.i187, label %if.end.i171

land.lhs.true.i187:
  %not.i188 = xor i64 %31, -1
  %32 = load ptr, ptr %made2.i, align 8
  %arrayidx3.i189 = getelementptr inbounds nuw %struct.made, ptr %32, i64 %not.i188
  %partner.i190 = getelementptr inbounds nuw i8, ptr %arrayidx3.i189, i64 56
  %33 = load i64, ptr %partner.i190, align 8
  %cmp4.i = icmp sgt i64 %33, -1
  br i1 %cmp4.i, label %land.lhs.true5.i, label %if.end.i171

land.lhs.true5.i:
  %34 = load i64, ptr %limit.i162, align 8
  %35 = load i64, ptr %23, align 8
  %sub.i191 = sub nsw i64 %34, %35
  %36 = and i64 %sub.i191, 1
  %tobool7.not.i192 = icmp eq i64 %36, 0
  %spec.select.i193 = select i1 %tobool7.not.i192, i64 %30, i64 %33
  br label %if.end.i171

if.end.i171:
  %buffer.0.i = phi i64 [ %30, %if.then.i167 ], [ %spec.select.i193, %land.lhs.true5.i ], [ %30, %land.lhs.true.i187 ]
  %37 = load ptr, ptr %buffers.i163, align 8
  %arrayidx12.i = getelementptr inbounds %struct.buffer, ptr %37, i64 %buffer.0.i
  %38 = load ptr, ptr %arrayidx12.i, align 8
  %bytes.i172 = getelementptr inbounds nuw i8, ptr %arrayidx12.i, i64 8
  %39 = load i64, ptr %bytes.i172, align 8
  tail call void @llvm.memcpy.p0.p0.i64(ptr align 1 %38, ptr align 1 %28, i64 %39, i1 false)
  br label %if.end17.i

if.end17.i:
  %address.0.i = phi ptr [ %38, %if.end.i171 ], [ %28, %for.body.i164 ]
  %buffer.1.i = phi i64 [ %buffer.0.i, %if.end.i171 ], [ -1, %for.body.i164 ]
  %buffer1.i.i173 = getelementptr inbounds nuw i8, ptr %arrayidx.i165, i64 8
  store i64 %buffer.1.i, ptr %buffer1.i.i173, align 8
  %40 = load ptr, ptr %arrayidx.i165, align 8
  %cmp.not.i.i174 = icmp eq ptr %40, %address.0.i
  br i1 %cmp.not.i.i174, label %move_to.exit.i179, label %if.then.i.i175

if.then.i.i175:
  store ptr %address.0.i, ptr %arrayidx.i165, align 8
  %patches.i.i176 = getelementptr inbounds nuw i8, ptr %arrayidx.i165, i64 16
  %41 = load ptr, ptr %patches.i.i176, align 8
  %patch_count.i.i177 = getelementptr inbounds nuw i8, ptr %arrayidx.i165, i64 24
  %42 = load i64, ptr %patch_count.i.i177, align 8
  %43 = ptrtoint ptr %address.0.i to i64
  %cmp3.i.i.i178 = icmp sgt i64 %42, 0
  br i1 %cmp3.i.i.i178, label %for.body.i.i.i182, label %move_to.exit.i179

for.body.i.i.i182:
  %k.04.i.i.i183 = phi i64 [ %inc.i.i.i185, %for.body.i.i.i182 ], [ 0, %if.then.i.i175 ]
  %arrayidx.i.i.i184 = getelementptr inbounds nuw ptr, ptr %41, i64 %k.04.i.i.i183
  %44 = load ptr, ptr %arrayidx.i.i.i184, align 8
  store i64 %43, ptr %44, align 8
  %inc.i.i.i185 = add nuw nsw i64 %k.04.i.i.i183, 1
  %exitcond.not.i.i.i186 = icmp eq i64 %inc.i.i.i185, %42
  br i1 %exitcond.not.i.i.i186, label %move_to.exit.i179, label %for.body.i.i.i182

move_to.exit.i179:
  %inc.i180 = add nuw nsw i64 %k.038.i, 1
  %45 = load i64, ptr %state_count.i158, align 8
  %cmp.i181 = icmp slt i64 %inc.i180, %45
  br i1 %cmp.i181, label %for.body.i164, label %enter_loop.exit

enter_loop.exit:
  %46 = phi i64 [ %26, %if.end.i81 ], [ %45, %move_to.exit.i179 ]
  %47 = load i64, ptr %23, align 8
  %limit2.i = getelementptr inbounds nuw i8, ptr %23, i64 8
  %48 = load i64, ptr %limit2.i, align 8
  %cmp.i82210 = icmp slt i64 %47, %48
  br i1 %cmp.i82210, label %for.body.i84.lr.ph, label %for.end.i

for.body.i84.lr.ph:
  %buffer_count.i = getelementptr inbounds nuw i8, ptr %23, i64 128
  %buffers.i153 = getelementptr inbounds nuw i8, ptr %23, i64 120
  %states.i145 = getelementptr inbounds nuw i8, ptr %23, i64 88
  %made_count.i = getelementptr inbounds nuw i8, ptr %23, i64 112
  %made23.i = getelementptr inbounds nuw i8, ptr %23, i64 104
  %counter.i = getelementptr inbounds nuw i8, ptr %23, i64 24
  %test.i = getelementptr inbounds nuw i8, ptr %23, i64 32
  %testing.i = getelementptr inbounds nuw i8, ptr %23, i64 40
  %once.i = getelementptr inbounds nuw i8, ptr %23, i64 56
  %rest.i = getelementptr inbounds nuw i8, ptr %23, i64 72
  %exchange_count.i = getelementptr inbounds nuw i8, ptr %23, i64 144
  %exchanged.i = getelementptr inbounds nuw i8, ptr %23, i64 136
  br label %for.body.i84

for.body.i84:
  %k.0.i211 = phi i64 [ %47, %for.body.i84.lr.ph ], [ %inc.i, %next_state.exit ]
  %49 = load i64, ptr %buffer_count.i, align 8
  %cmp74.i = icmp sgt i64 %49, 0
  br i1 %cmp74.i, label %for.body.i154, label %for.cond2.preheader.i

for.cond2.preheader.i:
  %50 = load i64, ptr %state_count.i158, align 8
  %cmp376.i = icmp sgt i64 %50, 0
  br i1 %cmp376.i, label %for.body5.i, label %for.cond19.preheader.i

for.body.i154:
  %k.075.i = phi i64 [ %inc.i156, %for.body.i154 ], [ 0, %for.body.i84 ]
  %51 = load ptr, ptr %buffers.i153, align 8
  %arrayidx.i155 = getelementptr inbounds nuw %struct.buffer, ptr %51, i64 %k.075.i
  %taken.i = getelementptr inbounds nuw i8, ptr %arrayidx.i155, i64 16
  store i64 0, ptr %taken.i, align 8
  %inc.i156 = add nuw nsw i64 %k.075.i, 1
  %52 = load i64, ptr %buffer_count.i, align 8
  %cmp.i157 = icmp slt i64 %inc.i156, %52
  br i1 %cmp.i157, label %for.body.i154, label %for.cond2.preheader.i

for.cond19.preheader.i:
  %53 = load i64, ptr %made_count.i, align 8
  %cmp2081.i = icmp sgt i64 %53, 0
  br i1 %cmp2081.i, label %for.body22.i124, label %choose_buffers.exit

for.body5.i:
  %54 = phi i64 [ %58, %for.inc15.i ], [ %50, %for.cond2.preheader.i ]
  %k1.077.i = phi i64 [ %inc16.i148, %for.inc15.i ], [ 0, %for.cond2.preheader.i ]
  %55 = load ptr, ptr %states.i145, align 8
  %arrayidx6.i = getelementptr inbounds nuw %struct.state, ptr %55, i64 %k1.077.i
  %buffer.i146 = getelementptr inbounds nuw i8, ptr %arrayidx6.i, i64 8
  %56 = load i64, ptr %buffer.i146, align 8
  %cmp7.i147 = icmp sgt i64 %56, -1
  br i1 %cmp7.i147, label %if.then.i150, label %for.inc15.i

if.then.i150:
  %57 = load ptr, ptr %buffers.i153, align 8
  %arrayidx13.i = getelementptr inbounds nuw %struct.buffer, ptr %57, i64 %56
  %taken14.i = getelementptr inbounds nuw i8, ptr %arrayidx13.i, i64 16
  store i64 1, ptr %taken14.i, align 8
  %.pre.i151 = load i64, ptr %state_count.i158, align 8
  br label %for.inc15.i

for.inc15.i:
  %58 = phi i64 [ %54, %for.body5.i ], [ %.pre.i151, %if.then.i150 ]
  %inc16.i148 = add nuw nsw i64 %k1.077.i, 1
  %cmp3.i149 = icmp slt i64 %inc16.i148, %58
  br i1 %cmp3.i149, label %for.body5.i, label %for.cond19.preheader.i

for.body22.i124:
  %k18.082.i = phi i64 [ %inc43.i, %move_to.exit.i134 ], [ 0, %for.cond19.preheader.i ]
  %59 = load ptr, ptr %made23.i, align 8
  %arrayidx24.i125 = getelementptr inbounds nuw %struct.made, ptr %59, i64 %k18.082.i
  %first_buffer.i = getelementptr inbounds nuw i8, ptr %arrayidx24.i125, i64 32
  %60 = load i64, ptr %first_buffer.i, align 8
  %partner.i = getelementptr inbounds nuw i8, ptr %arrayidx24.i125, i64 56
  %61 = load i64, ptr %partner.i, align 8
  %cmp26.i126 = icmp sgt i64 %61, -1
  br i1 %cmp26.i126, label %if.then27.i, label %while.cond.preheader.i

while.cond.preheader.i:
  %last_buffer.i = getelementptr inbounds nuw i8, ptr %arrayidx24.i125, i64 40
  %62 = load i64, ptr %last_buffer.i, align 8
  %cmp2978.i = icmp slt i64 %60, %62
  br i1 %cmp2978.i, label %land.rhs.lr.ph.i, label %if.end35.i

land.rhs.lr.ph.i:
  %63 = load ptr, ptr %buffers.i153, align 8
  br label %land.rhs.i

if.then27.i:
  %64 = load i64, ptr %limit2.i, align 8
  %sub.i141 = sub nsw i64 %64, %k.0.i211
  %65 = and i64 %sub.i141, 1
  %tobool.not.i142 = icmp eq i64 %65, 0
  br i1 %tobool.not.i142, label %if.end35.i, label %cond.true.i143

cond.true.i143:
  %result.i144 = getelementptr inbounds nuw i8, ptr %arrayidx24.i125, i64 48
  %66 = load i64, ptr %result.i144, align 8
  br label %if.end35.i

land.rhs.i:
  %buffer25.079.i = phi i64 [ %60, %land.rhs.lr.ph.i ], [ %inc34.i, %while.body.i ]
  %arrayidx31.i = getelementptr inbounds %struct.buffer, ptr %63, i64 %buffer25.079.i
  %taken32.i = getelementptr inbounds nuw i8, ptr %arrayidx31.i, i64 16
  %67 = load i64, ptr %taken32.i, align 8
  %tobool33.not.i = icmp eq i64 %67, 0
  br i1 %tobool33.not.i, label %if.end35.i, label %while.body.i

while.body.i:
  %inc34.i = add i64 %buffer25.079.i, 1
  %exitcond.not.i = icmp eq i64 %inc34.i, %62
  br i1 %exitcond.not.i, label %if.end35.i, label %land.rhs.i

if.end35.i:
  %buffer25.1.i = phi i64 [ %66, %cond.true.i143 ], [ %61, %if.then27.i ], [ %60, %while.cond.preheader.i ], [ %buffer25.079.i, %land.rhs.i ], [ %62, %while.body.i ]
  %68 = load ptr, ptr %buffers.i153, align 8
  %arrayidx37.i = getelementptr inbounds %struct.buffer, ptr %68, i64 %buffer25.1.i
  %taken38.i = getelementptr inbounds nuw i8, ptr %arrayidx37.i, i64 16
  store i64 1, ptr %taken38.i, align 8
  %69 = load ptr, ptr %buffers.i153, align 8
  %arrayidx41.i127 = getelementptr inbounds %struct.buffer, ptr %69, i64 %buffer25.1.i
  %70 = load ptr, ptr %arrayidx41.i127, align 8
  %buffer1.i.i128 = getelementptr inbounds nuw i8, ptr %arrayidx24.i125, i64 8
  store i64 %buffer25.1.i, ptr %buffer1.i.i128, align 8
  %71 = load ptr, ptr %arrayidx24.i125, align 8
  %cmp.not.i.i129 = icmp eq ptr %71, %70
  br i1 %cmp.not.i.i129, label %move_to.exit.i134, label %if.then.i.i130

if.then.i.i130:
  store ptr %70, ptr %arrayidx24.i125, align 8
  %patches.i.i131 = getelementptr inbounds nuw i8, ptr %arrayidx24.i125, i64 16
  %72 = load ptr, ptr %patches.i.i131, align 8
  %patch_count.i.i132 = getelementptr inbounds nuw i8, ptr %arrayidx24.i125, i64 24
  %73 = load i64, ptr %patch_count.i.i132, align 8
  %74 = ptrtoint ptr %70 to i64
  %cmp3.i.i.i133 = icmp sgt i64 %73, 0
  br i1 %cmp3.i.i.i133, label %for.body.i.i.i136, label %move_to.exit.i134

for.body.i.i.i136:
  %k.04.i.i.i137 = phi i64 [ %inc.i.i.i139, %for.body.i.i.i136 ], [ 0, %if.then.i.i130 ]
  %arrayidx.i.i.i138 = getelementptr inbounds nuw ptr, ptr %72, i64 %k.04.i.i.i137
  %75 = load ptr, ptr %arrayidx.i.i.i138, align 8
  store i64 %74, ptr %75, align 8
  %inc.i.i.i139 = add nuw nsw i64 %k.04.i.i.i137, 1
  %exitcond.not.i.i.i140 = icmp eq i64 %inc.i.i.i139, %73
  br i1 %exitcond.not.i.i.i140, label %move_to.exit.i134, label %for.body.i.i.i136

move_to.exit.i134:
  %inc43.i = add nuw nsw i64 %k18.082.i, 1
  %76 = load i64, ptr %made_count.i, align 8
  %cmp20.i135 = icmp slt i64 %inc43.i, %76
  br i1 %cmp20.i135, label %for.body22.i124, label %choose_buffers.exit

choose_buffers.exit:
  %77 = load ptr, ptr %counter.i, align 8
  %tobool3.not.i = icmp eq ptr %77, null
  br i1 %tobool3.not.i, label %if.end6.i, label %if.then4.i

if.then4.i:
  store i64 %k.0.i211, ptr %77, align 8
  br label %if.end6.i

if.end6.i:
  %78 = load ptr, ptr %test.i, align 8
  %tobool7.not.i = icmp eq ptr %78, null
  br i1 %tobool7.not.i, label %if.end16.i, label %if.then8.i

if.then8.i:
  %call.i85 = tail call fastcc i32 @run_part(ptr %testing.i, ptr %runner) nounwind
  %cmp9.not.i = icmp eq i32 %call.i85, 0
  br i1 %cmp9.not.i, label %if.end11.i, label %for.cond.cleanup

if.end11.i:
  %79 = load ptr, ptr %test.i, align 8
  %80 = load i8, ptr %79, align 1
  %tobool13.not.i = icmp eq i8 %80, 0
  br i1 %tobool13.not.i, label %for.end.i.loopexit, label %if.end16.i

if.end16.i:
  %81 = load i64, ptr %23, align 8
  %cmp18.i = icmp eq i64 %k.0.i211, %81
  br i1 %cmp18.i, label %if.end21.i, label %if.end25.i

if.end21.i:
  %call20.i = tail call fastcc i32 @run_part(ptr %once.i, ptr %runner) nounwind
  %cmp22.i = icmp eq i32 %call20.i, 0
  br i1 %cmp22.i, label %if.end25.i, label %for.cond.cleanup

if.end25.i:
  %call24.i = tail call fastcc i32 @run_part(ptr %rest.i, ptr %runner) nounwind
  %cmp26.i = icmp eq i32 %call24.i, 0
  br i1 %cmp26.i, label %land.lhs.true.i, label %for.cond.cleanup

land.lhs.true.i:
  %82 = load i64, ptr %iterations.i, align 8
  %dec.i = add nsw i64 %82, -1
  store i64 %dec.i, ptr %iterations.i, align 8
  %cmp27.i = icmp slt i64 %82, 2
  br i1 %cmp27.i, label %if.end30.i, label %if.end33.i

if.end30.i:
  %call29.i = tail call fastcc i32 @breathe(ptr %runner) nounwind
  %cmp31.not.i = icmp eq i32 %call29.i, 0
  br i1 %cmp31.not.i, label %if.end33.i, label %for.cond.cleanup

if.end33.i:
  %83 = load i64, ptr %state_count.i158, align 8
  %cmp97.i = icmp sgt i64 %83, 0
  br i1 %cmp97.i, label %for.body.i110, label %for.cond28.preheader.i

for.cond10.preheader.i:
  %84 = icmp sgt i64 %90, 0
  br i1 %84, label %for.body14.i, label %for.cond28.preheader.i

for.body.i110:
  %k.098.i = phi i64 [ %inc.i114, %cond.end.i ], [ 0, %if.end33.i ]
  %85 = load ptr, ptr %states.i145, align 8
  %arrayidx.i111 = getelementptr inbounds nuw %struct.state, ptr %85, i64 %k.098.i
  %source1.i = getelementptr inbounds nuw i8, ptr %arrayidx.i111, i64 56
  %86 = load i64, ptr %source1.i, align 8
  %cmp2.i = icmp sgt i64 %86, -1
  br i1 %cmp2.i, label %cond.true.i, label %cond.false.i

cond.true.i:
  %arrayidx5.i = getelementptr inbounds nuw %struct.state, ptr %85, i64 %86
  br label %cond.end.i

cond.false.i:
  %87 = load ptr, ptr %made23.i, align 8
  %not.i112 = xor i64 %86, -1
  %arrayidx7.i = getelementptr inbounds nuw %struct.made, ptr %87, i64 %not.i112
  br label %cond.end.i

cond.end.i:
  %cond.i113 = phi ptr [ %arrayidx5.i, %cond.true.i ], [ %arrayidx7.i, %cond.false.i ]
  %88 = load ptr, ptr %cond.i113, align 8
  %next.i = getelementptr inbounds nuw i8, ptr %arrayidx.i111, i64 64
  store ptr %88, ptr %next.i, align 8
  %buffer.i = getelementptr inbounds nuw i8, ptr %cond.i113, i64 8
  %89 = load i64, ptr %buffer.i, align 8
  %next_buffer.i = getelementptr inbounds nuw i8, ptr %arrayidx.i111, i64 72
  store i64 %89, ptr %next_buffer.i, align 8
  %inc.i114 = add nuw nsw i64 %k.098.i, 1
  %90 = load i64, ptr %state_count.i158, align 8
  %cmp.i115 = icmp slt i64 %inc.i114, %90
  br i1 %cmp.i115, label %for.body.i110, label %for.cond10.preheader.i

for.cond28.preheader.i:
  %91 = load i64, ptr %exchange_count.i, align 8
  %cmp29101.i = icmp sgt i64 %91, 0
  br i1 %cmp29101.i, label %for.body31.i, label %next_state.exit

for.body14.i:
  %k9.0100.i = phi i64 [ %inc25.i, %move_to.exit.i ], [ 0, %for.cond10.preheader.i ]
  %92 = load ptr, ptr %states.i145, align 8
  %arrayidx16.i = getelementptr inbounds nuw %struct.state, ptr %92, i64 %k9.0100.i
  %next20.i = getelementptr inbounds nuw i8, ptr %arrayidx16.i, i64 64
  %93 = load ptr, ptr %next20.i, align 8
  %next_buffer23.i = getelementptr inbounds nuw i8, ptr %arrayidx16.i, i64 72
  %94 = load i64, ptr %next_buffer23.i, align 8
  %buffer1.i.i = getelementptr inbounds nuw i8, ptr %arrayidx16.i, i64 8
  store i64 %94, ptr %buffer1.i.i, align 8
  %95 = load ptr, ptr %arrayidx16.i, align 8
  %cmp.not.i.i = icmp eq ptr %95, %93
  br i1 %cmp.not.i.i, label %move_to.exit.i, label %if.then.i.i116

if.then.i.i116:
  store ptr %93, ptr %arrayidx16.i, align 8
  %patches.i.i = getelementptr inbounds nuw i8, ptr %arrayidx16.i, i64 16
  %96 = load ptr, ptr %patches.i.i, align 8
  %patch_count.i.i = getelementptr inbounds nuw i8, ptr %arrayidx16.i, i64 24
  %97 = load i64, ptr %patch_count.i.i, align 8
  %98 = ptrtoint ptr %93 to i64
  %cmp3.i.i.i = icmp sgt i64 %97, 0
  br i1 %cmp3.i.i.i, label %for.body.i.i.i117, label %move_to.exit.i

for.body.i.i.i117:
  %k.04.i.i.i = phi i64 [ %inc.i.i.i119, %for.body.i.i.i117 ], [ 0, %if.then.i.i116 ]
  %arrayidx.i.i.i118 = getelementptr inbounds nuw ptr, ptr %96, i64 %k.04.i.i.i
  %99 = load ptr, ptr %arrayidx.i.i.i118, align 8
  store i64 %98, ptr %99, align 8
  %inc.i.i.i119 = add nuw nsw i64 %k.04.i.i.i, 1
  %exitcond.not.i.i.i120 = icmp eq i64 %inc.i.i.i119, %97
  br i1 %exitcond.not.i.i.i120, label %move_to.exit.i, label %for.body.i.i.i117

move_to.exit.i:
  %inc25.i = add nuw nsw i64 %k9.0100.i, 1
  %100 = load i64, ptr %state_count.i158, align 8
  %cmp12.i = icmp slt i64 %inc25.i, %100
  br i1 %cmp12.i, label %for.body14.i, label %for.cond28.preheader.i

for.body31.i:
  %k27.0102.i = phi i64 [ %inc42.i, %hold.exit96.i ], [ 0, %for.cond28.preheader.i ]
  %101 = load ptr, ptr %exchanged.i, align 8
  %arrayidx32.idx.i = shl nuw nsw i64 %k27.0102.i, 4
  %arrayidx32.i105 = getelementptr inbounds nuw i8, ptr %101, i64 %arrayidx32.idx.i
  %102 = load ptr, ptr %arrayidx32.i105, align 8
  %arrayidx35.i = getelementptr inbounds nuw i8, ptr %arrayidx32.i105, i64 8
  %103 = load ptr, ptr %arrayidx35.i, align 8
  %was.sroa.0.0.copyload.i = load ptr, ptr %102, align 8
  %was.sroa.4.0..sroa_idx.i = getelementptr inbounds nuw i8, ptr %102, i64 8
  %was.sroa.4.0.copyload.i = load i64, ptr %was.sroa.4.0..sroa_idx.i, align 8
  %was.sroa.5.0..sroa_idx.i = getelementptr inbounds nuw i8, ptr %102, i64 16
  %was.sroa.5.0.copyload.i = load i64, ptr %was.sroa.5.0..sroa_idx.i, align 8
  %was.sroa.6.0..sroa_idx.i = getelementptr inbounds nuw i8, ptr %102, i64 24
  %was.sroa.6.0.copyload.i = load ptr, ptr %was.sroa.6.0..sroa_idx.i, align 8
  %block.i = getelementptr inbounds nuw i8, ptr %103, i64 24
  %104 = load ptr, ptr %block.i, align 8
  %105 = load ptr, ptr %103, align 8
  %size.i106 = getelementptr inbounds nuw i8, ptr %103, i64 8
  %106 = load i64, ptr %size.i106, align 8
  %capacity.i = getelementptr inbounds nuw i8, ptr %103, i64 16
  %107 = load i64, ptr %capacity.i, align 8
  store ptr %104, ptr %was.sroa.6.0..sroa_idx.i, align 8
  store i64 %106, ptr %was.sroa.4.0..sroa_idx.i, align 8
  store i64 %107, ptr %was.sroa.5.0..sroa_idx.i, align 8
  %cmp.not.i73.i = icmp eq ptr %was.sroa.0.0.copyload.i, %105
  br i1 %cmp.not.i73.i, label %hold.exit.i, label %if.then.i74.i

if.then.i74.i:
  store ptr %105, ptr %102, align 8
  %patches.i75.i = getelementptr inbounds nuw i8, ptr %102, i64 32
  %108 = load ptr, ptr %patches.i75.i, align 8
  %patch_count.i76.i = getelementptr inbounds nuw i8, ptr %102, i64 40
  %109 = load i64, ptr %patch_count.i76.i, align 8
  %110 = ptrtoint ptr %105 to i64
  %cmp3.i.i77.i = icmp sgt i64 %109, 0
  br i1 %cmp3.i.i77.i, label %for.body.i.i78.i, label %hold.exit.i

for.body.i.i78.i:
  %k.04.i.i79.i = phi i64 [ %inc.i.i81.i, %for.body.i.i78.i ], [ 0, %if.then.i74.i ]
  %arrayidx.i.i80.i = getelementptr inbounds nuw ptr, ptr %108, i64 %k.04.i.i79.i
  %111 = load ptr, ptr %arrayidx.i.i80.i, align 8
  store i64 %110, ptr %111, align 8
  %inc.i.i81.i = add nuw nsw i64 %k.04.i.i79.i, 1
  %exitcond.not.i.i82.i = icmp eq i64 %inc.i.i81.i, %109
  br i1 %exitcond.not.i.i82.i, label %hold.exit.i, label %for.body.i.i78.i

hold.exit.i:
  store ptr %was.sroa.6.0.copyload.i, ptr %block.i, align 8
  store i64 %was.sroa.4.0.copyload.i, ptr %size.i106, align 8
  store i64 %was.sroa.5.0.copyload.i, ptr %capacity.i, align 8
  %112 = load ptr, ptr %103, align 8
  %cmp.not.i86.i = icmp eq ptr %112, %was.sroa.0.0.copyload.i
  br i1 %cmp.not.i86.i, label %hold.exit96.i, label %if.then.i87.i

if.then.i87.i:
  store ptr %was.sroa.0.0.copyload.i, ptr %103, align 8
  %patches.i88.i = getelementptr inbounds nuw i8, ptr %103, i64 32
  %113 = load ptr, ptr %patches.i88.i, align 8
  %patch_count.i89.i = getelementptr inbounds nuw i8, ptr %103, i64 40
  %114 = load i64, ptr %patch_count.i89.i, align 8
  %115 = ptrtoint ptr %was.sroa.0.0.copyload.i to i64
  %cmp3.i.i90.i = icmp sgt i64 %114, 0
  br i1 %cmp3.i.i90.i, label %for.body.i.i91.i, label %hold.exit96.i

for.body.i.i91.i:
  %k.04.i.i92.i = phi i64 [ %inc.i.i94.i, %for.body.i.i91.i ], [ 0, %if.then.i87.i ]
  %arrayidx.i.i93.i = getelementptr inbounds nuw ptr, ptr %113, i64 %k.04.i.i92.i
  %116 = load ptr, ptr %arrayidx.i.i93.i, align 8
  store i64 %115, ptr %116, align 8
  %inc.i.i94.i = add nuw nsw i64 %k.04.i.i92.i, 1
  %exitcond.not.i.i95.i = icmp eq i64 %inc.i.i94.i, %114
  br i1 %exitcond.not.i.i95.i, label %hold.exit96.i, label %for.body.i.i91.i

hold.exit96.i:
  %inc42.i = add nuw nsw i64 %k27.0102.i, 1
  %117 = load i64, ptr %exchange_count.i, align 8
  %cmp29.i107 = icmp slt i64 %inc42.i, %117
  br i1 %cmp29.i107, label %for.body31.i, label %next_state.exit

next_state.exit:
  %inc.i = add nsw i64 %k.0.i211, 1
  %118 = load i64, ptr %limit2.i, align 8
  %cmp.i82 = icmp slt i64 %inc.i, %118
  br i1 %cmp.i82, label %for.body.i84, label %for.end.i.loopexit

for.end.i.loopexit:
  %.pre = load i64, ptr %state_count.i158, align 8
  br label %for.end.i

for.end.i:
  %119 = phi i64 [ %.pre, %for.end.i.loopexit ], [ %46, %enter_loop.exit ]
  %cmp80.i = icmp sgt i64 %119, 0
  br i1 %cmp80.i, label %for.body.lr.ph.i93, label %for.inc

for.body.lr.ph.i93:
  %states.i = getelementptr inbounds nuw i8, ptr %23, i64 88
  %buffers.i.i = getelementptr inbounds nuw i8, ptr %23, i64 120
  br label %for.body.i94

for.cond18.preheader.i:
  %cmp2082.i = icmp sgt i64 %137, 0
  br i1 %cmp2082.i, label %for.body22.i, label %for.inc

for.body.i94:
  %120 = phi i64 [ %119, %for.body.lr.ph.i93 ], [ %137, %if.end.i97 ]
  %k.081.i = phi i64 [ 0, %for.body.lr.ph.i93 ], [ %inc16.i, %if.end.i97 ]
  %121 = load ptr, ptr %states.i, align 8
  %arrayidx.i95 = getelementptr inbounds nuw %struct.state, ptr %121, i64 %k.081.i
  %buffer1.i = getelementptr inbounds nuw i8, ptr %arrayidx.i95, i64 8
  %122 = load i64, ptr %buffer1.i, align 8
  br label %while.cond.i

while.cond.i:
  %first.0.i = phi i64 [ 0, %for.body.i94 ], [ %inc.i96, %while.cond.i ]
  %arrayidx3.i = getelementptr inbounds nuw %struct.state, ptr %121, i64 %first.0.i
  %buffer5.i = getelementptr inbounds nuw i8, ptr %arrayidx3.i, i64 8
  %123 = load i64, ptr %buffer5.i, align 8
  %cmp6.not.i = icmp eq i64 %123, %122
  %inc.i96 = add nuw nsw i64 %first.0.i, 1
  br i1 %cmp6.not.i, label %while.end.i, label %while.cond.i

while.end.i:
  %cmp7.i = icmp sgt i64 %122, -1
  %cmp8.i = icmp eq i64 %first.0.i, %k.081.i
  %or.cond.i = and i1 %cmp7.i, %cmp8.i
  br i1 %or.cond.i, label %land.lhs.true9.i, label %if.end.i97

land.lhs.true9.i:
  %result.i = getelementptr inbounds nuw i8, ptr %arrayidx.i95, i64 48
  %124 = load i64, ptr %result.i, align 8
  %cmp12.not.i = icmp eq i64 %122, %124
  br i1 %cmp12.not.i, label %if.end.i97, label %if.then.i100

if.then.i100:
  %125 = load ptr, ptr %buffers.i.i, align 8
  %arrayidx.i.i = getelementptr inbounds nuw %struct.buffer, ptr %125, i64 %122
  %arrayidx2.i.i = getelementptr inbounds %struct.buffer, ptr %125, i64 %124
  %cmp40.i.i = icmp sgt i64 %120, 0
  br i1 %cmp40.i.i, label %for.body.i.i, label %if.else.i.i

for.cond.cleanup.i.i:
  br i1 %or39.i.i, label %if.then.i.i103, label %if.else.i.i

for.body.i.i:
  %taken.042.i.i = phi i1 [ %or39.i.i, %for.body.i.i ], [ false, %if.then.i100 ]
  %k.041.i.i = phi i64 [ %inc.i.i, %for.body.i.i ], [ 0, %if.then.i100 ]
  %126 = load ptr, ptr %states.i, align 8
  %arrayidx3.i.i = getelementptr inbounds nuw %struct.state, ptr %126, i64 %k.041.i.i
  %buffer4.i.i = getelementptr inbounds nuw i8, ptr %arrayidx3.i.i, i64 8
  %127 = load i64, ptr %buffer4.i.i, align 8
  %cmp5.i.i101 = icmp eq i64 %127, %124
  %or39.i.i = or i1 %taken.042.i.i, %cmp5.i.i101
  %cmp7.i.i = icmp eq i64 %127, %122
  %from..i.i = select i1 %cmp5.i.i101, i64 %122, i64 %127
  %cond14.i.i = select i1 %cmp7.i.i, i64 %124, i64 %from..i.i
  store i64 %cond14.i.i, ptr %buffer4.i.i, align 8
  %inc.i.i = add nuw nsw i64 %k.041.i.i, 1
  %128 = load i64, ptr %state_count.i158, align 8
  %cmp.i.i102 = icmp slt i64 %inc.i.i, %128
  br i1 %cmp.i.i102, label %for.body.i.i, label %for.cond.cleanup.i.i

if.then.i.i103:
  %129 = load ptr, ptr %arrayidx.i.i, align 8
  %130 = load ptr, ptr %arrayidx2.i.i, align 8
  %bytes.i.i = getelementptr inbounds nuw i8, ptr %arrayidx2.i.i, i64 8
  %131 = load i64, ptr %bytes.i.i, align 8
  %cmp11.i.i.i = icmp sgt i64 %131, 0
  br i1 %cmp11.i.i.i, label %for.body.i.i.i, label %if.end.i97

for.body.i.i.i:
  %k.012.i.i.i = phi i64 [ %inc.i.i.i, %for.body.i.i.i ], [ 0, %if.then.i.i103 ]
  %arrayidx.i.i.i = getelementptr inbounds nuw i8, ptr %129, i64 %k.012.i.i.i
  %132 = load i8, ptr %arrayidx.i.i.i, align 1
  %arrayidx1.i.i.i = getelementptr inbounds nuw i8, ptr %130, i64 %k.012.i.i.i
  %133 = load i8, ptr %arrayidx1.i.i.i, align 1
  store i8 %133, ptr %arrayidx.i.i.i, align 1
  store i8 %132, ptr %arrayidx1.i.i.i, align 1
  %inc.i.i.i = add nuw nsw i64 %k.012.i.i.i, 1
  %exitcond.not.i.i.i = icmp eq i64 %inc.i.i.i, %131
  br i1 %exitcond.not.i.i.i, label %if.end.i97, label %for.body.i.i.i

if.else.i.i:
  %134 = load ptr, ptr %arrayidx2.i.i, align 8
  %135 = load ptr, ptr %arrayidx.i.i, align 8
  %bytes19.i.i = getelementptr inbounds nuw i8, ptr %arrayidx2.i.i, i64 8
  %136 = load i64, ptr %bytes19.i.i, align 8
  tail call void @llvm.memcpy.p0.p0.i64(ptr align 1 %134, ptr align 1 %135, i64 %136, i1 false)
  br label %if.end.i97

if.end.i97:
  %inc16.i = add nuw nsw i64 %k.081.i, 1
  %137 = load i64, ptr %state_count.i158, align 8
  %cmp.i98 = icmp slt i64 %inc16.i, %137
  br i1 %cmp.i98, label %for.body.i94, label %for.cond18.preheader.i

for.body22.i:
  %138 = phi i64 [ %145, %if.end44.i ], [ %137, %for.cond18.preheader.i ]
  %k17.083.i = phi i64 [ %inc46.i, %if.end44.i ], [ 0, %for.cond18.preheader.i ]
  %139 = load ptr, ptr %states.i, align 8
  %arrayidx24.i = getelementptr inbounds nuw %struct.state, ptr %139, i64 %k17.083.i
  %buffer27.i = getelementptr inbounds nuw i8, ptr %arrayidx24.i, i64 8
  %140 = load i64, ptr %buffer27.i, align 8
  %result28.i = getelementptr inbounds nuw i8, ptr %arrayidx24.i, i64 48
  %141 = load i64, ptr %result28.i, align 8
  %cmp29.i = icmp slt i64 %141, 0
  %cmp32.not.i = icmp eq i64 %140, %141
  %or.cond79.i = select i1 %cmp29.i, i1 true, i1 %cmp32.not.i
  br i1 %or.cond79.i, label %if.end44.i, label %if.then33.i

if.then33.i:
  %142 = load ptr, ptr %buffers.i.i, align 8
  %arrayidx36.i = getelementptr inbounds nuw %struct.buffer, ptr %142, i64 %141
  %cmp37.i = icmp slt i64 %140, 0
  %arrayidx41.i = getelementptr inbounds nuw %struct.buffer, ptr %142, i64 %140
  %cond.in.i = select i1 %cmp37.i, ptr %arrayidx24.i, ptr %arrayidx41.i
  %cond.i99 = load ptr, ptr %cond.in.i, align 8
  %143 = load ptr, ptr %arrayidx36.i, align 8
  %bytes.i = getelementptr inbounds nuw i8, ptr %arrayidx36.i, i64 8
  %144 = load i64, ptr %bytes.i, align 8
  tail call void @llvm.memcpy.p0.p0.i64(ptr align 1 %143, ptr align 1 %cond.i99, i64 %144, i1 false)
  %.pre.i = load i64, ptr %state_count.i158, align 8
  br label %if.end44.i

if.end44.i:
  %145 = phi i64 [ %.pre.i, %if.then33.i ], [ %138, %for.body22.i ]
  %inc46.i = add nuw nsw i64 %k17.083.i, 1
  %cmp20.i = icmp slt i64 %inc46.i, %145
  br i1 %cmp20.i, label %for.body22.i, label %for.inc

sw.bb33:
  %target34 = getelementptr inbounds nuw i8, ptr %op.0213, i64 8
  %146 = load ptr, ptr %target34, align 8
  %147 = load ptr, ptr %146, align 8
  %148 = load i8, ptr %147, align 1
  %tobool36.not = icmp eq i8 %148, 0
  %cond37.v = select i1 %tobool36.not, i64 24, i64 8
  %cond37 = getelementptr inbounds nuw i8, ptr %146, i64 %cond37.v
  %call38 = tail call fastcc i32 @run_part(ptr %cond37, ptr %runner) nounwind
  br label %for.inc

sw.bb39:
  %target40 = getelementptr inbounds nuw i8, ptr %op.0213, i64 8
  %149 = load ptr, ptr %target40, align 8
  %registers.i = getelementptr inbounds nuw i8, ptr %149, i64 16
  %150 = load ptr, ptr %registers.i, align 8
  %151 = load ptr, ptr %149, align 8
  %count.i = getelementptr inbounds nuw i8, ptr %149, i64 8
  %152 = load i64, ptr %count.i, align 8
  %add.ptr.idx.i = mul nsw i64 %152, 56
  %add.ptr.i = getelementptr inbounds i8, ptr %151, i64 %add.ptr.idx.i
  %cmp.not349.i = icmp slt i64 %152, 1
  br i1 %cmp.not349.i, label %for.inc, label %for.body.i86

for.body.i86:
  %at.0350.i = phi ptr [ %incdec.ptr.i, %for.inc.i ], [ %151, %sw.bb39 ]
  %153 = load i64, ptr %at.0350.i, align 8
  %conv.i = trunc i64 %153 to i32
  switch i32 %conv.i, label %sw.epilog.i [
    i32 0, label %sw.bb.i
    i32 1, label %sw.bb2.i
    i32 2, label %sw.bb4.i
    i32 3, label %sw.bb6.i
    i32 4, label %sw.bb11.i
    i32 5, label %sw.bb15.i
    i32 6, label %sw.bb20.i
    i32 7, label %sw.bb24.i
    i32 8, label %sw.bb30.i
    i32 9, label %sw.bb36.i
    i32 10, label %sw.bb47.i
    i32 11, label %sw.bb62.i
    i32 12, label %sw.bb66.i
    i32 13, label %sw.bb74.i
    i32 14, label %sw.bb89.i
    i32 15, label %sw.bb106.i
    i32 16, label %sw.bb117.i
    i32 17, label %sw.bb122.i
    i32 18, label %sw.bb127.i
    i32 19, label %sw.bb132.i
    i32 20, label %sw.bb135.i
    i32 21, label %sw.bb138.i
    i32 22, label %sw.bb146.i
    i32 23, label %sw.bb154.i
    i32 24, label %sw.bb162.i
    i32 25, label %sw.bb170.i
    i32 26, label %sw.bb174.i
  ]

sw.bb.i:
  %a.i = getelementptr inbounds nuw i8, ptr %at.0350.i, i64 32
  %154 = load i64, ptr %a.i, align 8
  %155 = inttoptr i64 %154 to ptr
  %bits.i = getelementptr inbounds nuw i8, ptr %at.0350.i, i64 8
  %156 = load i64, ptr %bits.i, align 8
  switch i64 %156, label %sw.default.i.i [
    i64 1, label %sw.bb.i.i
    i64 8, label %sw.bb.i.i
    i64 16, label %sw.bb1.i.i
    i64 32, label %sw.bb3.i.i
    i64 -8, label %sw.bb5.i.i
    i64 -16, label %sw.bb7.i.i
    i64 -32, label %sw.bb9.i.i
  ]

sw.bb.i.i:
  %157 = load i8, ptr %155, align 1
  %conv.i.i = zext i8 %157 to i64
  br label %sw.epilog.i

sw.bb1.i.i:
  %158 = load i16, ptr %155, align 2
  %conv2.i.i = zext i16 %158 to i64
  br label %sw.epilog.i

sw.bb3.i.i:
  %159 = load i32, ptr %155, align 4
  %conv4.i.i = zext i32 %159 to i64
  br label %sw.epilog.i

sw.bb5.i.i:
  %160 = load i8, ptr %155, align 1
  %conv6.i.i = sext i8 %160 to i64
  br label %sw.epilog.i

sw.bb7.i.i:
  %161 = load i16, ptr %155, align 2
  %conv8.i.i = sext i16 %161 to i64
  br label %sw.epilog.i

sw.bb9.i.i:
  %162 = load i32, ptr %155, align 4
  %conv10.i.i = sext i32 %162 to i64
  br label %sw.epilog.i

sw.default.i.i:
  %163 = load i64, ptr %155, align 8
  br label %sw.epilog.i

sw.bb2.i:
  %a3.i = getelementptr inbounds nuw i8, ptr %at.0350.i, i64 32
  %164 = load i64, ptr %a3.i, align 8
  %arrayidx.i = getelementptr inbounds i64, ptr %150, i64 %164
  %165 = load i64, ptr %arrayidx.i, align 8
  %to.i = getelementptr inbounds nuw i8, ptr %at.0350.i, i64 24
  %166 = load i64, ptr %to.i, align 8
  %167 = inttoptr i64 %166 to ptr
  store i64 %165, ptr %167, align 8
  br label %for.inc.i

sw.bb4.i:
  %a5.i = getelementptr inbounds nuw i8, ptr %at.0350.i, i64 32
  %168 = load i64, ptr %a5.i, align 8
  %169 = inttoptr i64 %168 to ptr
  %size.i89 = getelementptr inbounds nuw i8, ptr %169, i64 8
  %170 = load i64, ptr %size.i89, align 8
  br label %sw.epilog.i

sw.bb6.i:
  %to7.i = getelementptr inbounds nuw i8, ptr %at.0350.i, i64 24
  %171 = load i64, ptr %to7.i, align 8
  %172 = inttoptr i64 %171 to ptr
  %a8.i = getelementptr inbounds nuw i8, ptr %at.0350.i, i64 32
  %173 = load i64, ptr %a8.i, align 8
  %arrayidx9.i = getelementptr inbounds i64, ptr %150, i64 %173
  %174 = load i64, ptr %arrayidx9.i, align 8
  %call10.i = tail call fastcc zeroext i1 @resize(ptr %172, i64 %174) nounwind
  br i1 %call10.i, label %for.inc.i, label %for.cond.cleanup

sw.bb11.i:
  %to12.i = getelementptr inbounds nuw i8, ptr %at.0350.i, i64 24
  %175 = load i64, ptr %to12.i, align 8
  %176 = inttoptr i64 %175 to ptr
  %a13.i = getelementptr inbounds nuw i8, ptr %at.0350.i, i64 32
  %177 = load i64, ptr %a13.i, align 8
  %arrayidx14.i = getelementptr inbounds i64, ptr %150, i64 %177
  %178 = load i64, ptr %arrayidx14.i, align 8
  tail call void @release(ptr %176, i64 %178) nounwind
  br label %for.inc.i

sw.bb15.i:
  %a16.i = getelementptr inbounds nuw i8, ptr %at.0350.i, i64 32
  %179 = load i64, ptr %a16.i, align 8
  %arrayidx17.i = getelementptr inbounds i64, ptr %150, i64 %179
  %180 = load i64, ptr %arrayidx17.i, align 8
  %tobool.not.i88 = icmp eq i64 %180, 0
  br i1 %tobool.not.i88, label %for.cond.cleanup, label %for.inc.i

sw.bb20.i:
  %a21.i = getelementptr inbounds nuw i8, ptr %at.0350.i, i64 32
  %181 = load i64, ptr %a21.i, align 8
  %arrayidx22.i = getelementptr inbounds i64, ptr %150, i64 %181
  %182 = load i64, ptr %arrayidx22.i, align 8
  %b.i = getelementptr inbounds nuw i8, ptr %at.0350.i, i64 40
  %183 = load i64, ptr %b.i, align 8
  %arrayidx23.i = getelementptr inbounds i64, ptr %150, i64 %183
  %184 = load i64, ptr %arrayidx23.i, align 8
  %185 = tail call { i64, i1 } @llvm.sadd.with.overflow.i64(i64 %182, i64 %184)
  %186 = extractvalue { i64, i1 } %185, 1
  %187 = extractvalue { i64, i1 } %185, 0
  br label %sw.epilog.i

sw.bb24.i:
  %a25.i = getelementptr inbounds nuw i8, ptr %at.0350.i, i64 32
  %188 = load i64, ptr %a25.i, align 8
  %arrayidx26.i = getelementptr inbounds i64, ptr %150, i64 %188
  %189 = load i64, ptr %arrayidx26.i, align 8
  %b27.i = getelementptr inbounds nuw i8, ptr %at.0350.i, i64 40
  %190 = load i64, ptr %b27.i, align 8
  %arrayidx28.i = getelementptr inbounds i64, ptr %150, i64 %190
  %191 = load i64, ptr %arrayidx28.i, align 8
  %192 = tail call { i64, i1 } @llvm.ssub.with.overflow.i64(i64 %189, i64 %191)
  %193 = extractvalue { i64, i1 } %192, 1
  %194 = extractvalue { i64, i1 } %192, 0
  br label %sw.epilog.i

sw.bb30.i:
  %a31.i = getelementptr inbounds nuw i8, ptr %at.0350.i, i64 32
  %195 = load i64, ptr %a31.i, align 8
  %arrayidx32.i = getelementptr inbounds i64, ptr %150, i64 %195
  %196 = load i64, ptr %arrayidx32.i, align 8
  %b33.i = getelementptr inbounds nuw i8, ptr %at.0350.i, i64 40
  %197 = load i64, ptr %b33.i, align 8
  %arrayidx34.i = getelementptr inbounds i64, ptr %150, i64 %197
  %198 = load i64, ptr %arrayidx34.i, align 8
  %199 = tail call { i64, i1 } @llvm.smul.with.overflow.i64(i64 %196, i64 %198)
  %200 = extractvalue { i64, i1 } %199, 1
  %201 = extractvalue { i64, i1 } %199, 0
  br label %sw.epilog.i

sw.bb36.i:
  %a37.i = getelementptr inbounds nuw i8, ptr %at.0350.i, i64 32
  %202 = load i64, ptr %a37.i, align 8
  %arrayidx38.i = getelementptr inbounds i64, ptr %150, i64 %202
  %203 = load i64, ptr %arrayidx38.i, align 8
  %b39.i = getelementptr inbounds nuw i8, ptr %at.0350.i, i64 40
  %204 = load i64, ptr %b39.i, align 8
  %arrayidx40.i = getelementptr inbounds i64, ptr %150, i64 %204
  %205 = load i64, ptr %arrayidx40.i, align 8
  %.317.i = tail call i64 @llvm.smin.i64(i64 %203, i64 %205)
  br label %sw.epilog.i

sw.bb47.i:
  %a48.i = getelementptr inbounds nuw i8, ptr %at.0350.i, i64 32
  %206 = load i64, ptr %a48.i, align 8
  %arrayidx49.i = getelementptr inbounds i64, ptr %150, i64 %206
  %207 = load i64, ptr %arrayidx49.i, align 8
  %b50.i = getelementptr inbounds nuw i8, ptr %at.0350.i, i64 40
  %208 = load i64, ptr %b50.i, align 8
  %arrayidx51.i = getelementptr inbounds i64, ptr %150, i64 %208
  %209 = load i64, ptr %arrayidx51.i, align 8
  %.318.i = tail call i64 @llvm.smax.i64(i64 %207, i64 %209)
  br label %sw.epilog.i

sw.bb62.i:
  %a63.i = getelementptr inbounds nuw i8, ptr %at.0350.i, i64 32
  %210 = load i64, ptr %a63.i, align 8
  %arrayidx64.i = getelementptr inbounds i64, ptr %150, i64 %210
  %211 = load i64, ptr %arrayidx64.i, align 8
  %212 = tail call { i64, i1 } @llvm.ssub.with.overflow.i64(i64 0, i64 %211)
  %213 = extractvalue { i64, i1 } %212, 1
  %214 = extractvalue { i64, i1 } %212, 0
  br label %sw.epilog.i

sw.bb66.i:
  %a67.i = getelementptr inbounds nuw i8, ptr %at.0350.i, i64 32
  %215 = load i64, ptr %a67.i, align 8
  %arrayidx68.i = getelementptr inbounds i64, ptr %150, i64 %215
  %216 = load i64, ptr %arrayidx68.i, align 8
  %cmp69.i = icmp slt i64 %216, 0
  br i1 %cmp69.i, label %if.then71.i, label %sw.epilog.i

if.then71.i:
  %217 = tail call { i64, i1 } @llvm.ssub.with.overflow.i64(i64 0, i64 %216)
  %218 = extractvalue { i64, i1 } %217, 1
  %219 = extractvalue { i64, i1 } %217, 0
  br label %sw.epilog.i

sw.bb74.i:
  %a75.i = getelementptr inbounds nuw i8, ptr %at.0350.i, i64 32
  %220 = load i64, ptr %a75.i, align 8
  %arrayidx76.i = getelementptr inbounds i64, ptr %150, i64 %220
  %221 = load i64, ptr %arrayidx76.i, align 8
  %b77.i = getelementptr inbounds nuw i8, ptr %at.0350.i, i64 40
  %222 = load i64, ptr %b77.i, align 8
  %arrayidx78.i = getelementptr inbounds i64, ptr %150, i64 %222
  %223 = load i64, ptr %arrayidx78.i, align 8
  switch i64 %223, label %if.end3.i.i [
    i64 0, label %floor_divide.exit.i
    i64 -1, label %if.then2.i.i
  ]

if.then2.i.i:
  %sub.i.i = sub i64 0, %221
  br label %floor_divide.exit.i

if.end3.i.i:
  %div.i.i = sdiv i64 %221, %223
  %rem.i.i = srem i64 %221, %223
  %cmp4.not.i.i = icmp eq i64 %rem.i.i, 0
  %cmp8.unshifted.i.i = xor i64 %223, %221
  %cmp8.unshifted.lobit.neg.i.i = ashr i64 %cmp8.unshifted.i.i, 63
  %land.ext.neg.i.i = select i1 %cmp4.not.i.i, i64 0, i64 %cmp8.unshifted.lobit.neg.i.i
  %sub11.i.i = add i64 %land.ext.neg.i.i, %div.i.i
  br label %floor_divide.exit.i

floor_divide.exit.i:
  %retval.0.i319.i = phi i64 [ %sub11.i.i, %if.end3.i.i ], [ %sub.i.i, %if.then2.i.i ], [ %223, %sw.bb74.i ]
  %cmp82.i = icmp eq i64 %221, -9223372036854775808
  %cmp86.i = icmp eq i64 %223, -1
  %spec.select.i = and i1 %cmp82.i, %cmp86.i
  br label %sw.epilog.i

sw.bb89.i:
  %a90.i = getelementptr inbounds nuw i8, ptr %at.0350.i, i64 32
  %224 = load i64, ptr %a90.i, align 8
  %arrayidx91.i = getelementptr inbounds i64, ptr %150, i64 %224
  %225 = load i64, ptr %arrayidx91.i, align 8
  %b94.i = getelementptr inbounds nuw i8, ptr %at.0350.i, i64 40
  %226 = load i64, ptr %b94.i, align 8
  %arrayidx95.i = getelementptr inbounds i64, ptr %150, i64 %226
  %227 = load i64, ptr %arrayidx95.i, align 8
  switch i64 %227, label %if.end3.i323.i [
    i64 0, label %floor_divide.exit331.i
    i64 -1, label %if.then2.i320.i
  ]

if.then2.i320.i:
  %sub.i321.i = sub i64 0, %225
  br label %floor_divide.exit331.i

if.end3.i323.i:
  %div.i324.i = sdiv i64 %225, %227
  %rem.i325.i = srem i64 %225, %227
  %cmp4.not.i326.i = icmp eq i64 %rem.i325.i, 0
  %cmp8.unshifted.i327.i = xor i64 %227, %225
  %cmp8.unshifted.lobit.neg.i328.i = ashr i64 %cmp8.unshifted.i327.i, 63
  %land.ext.neg.i329.i = select i1 %cmp4.not.i326.i, i64 0, i64 %cmp8.unshifted.lobit.neg.i328.i
  %sub11.i330.i = add i64 %land.ext.neg.i329.i, %div.i324.i
  br label %floor_divide.exit331.i

floor_divide.exit331.i:
  %retval.0.i322.i = phi i64 [ %sub11.i330.i, %if.end3.i323.i ], [ %sub.i321.i, %if.then2.i320.i ], [ %227, %sw.bb89.i ]
  %mul.i = mul i64 %retval.0.i322.i, %227
  %sub.i87 = sub i64 %225, %mul.i
  %tobool101.not.i = icmp eq i64 %227, 0
  %cond105.i = select i1 %tobool101.not.i, i64 0, i64 %sub.i87
  br label %sw.epilog.i

sw.bb106.i:
  %a107.i = getelementptr inbounds nuw i8, ptr %at.0350.i, i64 32
  %228 = load i64, ptr %a107.i, align 8
  %arrayidx108.i = getelementptr inbounds i64, ptr %150, i64 %228
  %229 = load i64, ptr %arrayidx108.i, align 8
  %tobool109.not.i = icmp eq i64 %229, 0
  %.pn.in.v.i = select i1 %tobool109.not.i, i64 48, i64 40
  %.pn.in.i = getelementptr inbounds nuw i8, ptr %at.0350.i, i64 %.pn.in.v.i
  %.pn.i = load i64, ptr %.pn.in.i, align 8
  %cond116.in.i = getelementptr inbounds i64, ptr %150, i64 %.pn.i
  %cond116.i = load i64, ptr %cond116.in.i, align 8
  br label %sw.epilog.i

sw.bb117.i:
  %a118.i = getelementptr inbounds nuw i8, ptr %at.0350.i, i64 32
  %230 = load i64, ptr %a118.i, align 8
  %arrayidx119.i = getelementptr inbounds i64, ptr %150, i64 %230
  %231 = load i64, ptr %arrayidx119.i, align 8
  %b120.i = getelementptr inbounds nuw i8, ptr %at.0350.i, i64 40
  %232 = load i64, ptr %b120.i, align 8
  %arrayidx121.i = getelementptr inbounds i64, ptr %150, i64 %232
  %233 = load i64, ptr %arrayidx121.i, align 8
  %and.i = and i64 %233, %231
  br label %sw.epilog.i

sw.bb122.i:
  %a123.i = getelementptr inbounds nuw i8, ptr %at.0350.i, i64 32
  %234 = load i64, ptr %a123.i, align 8
  %arrayidx124.i = getelementptr inbounds i64, ptr %150, i64 %234
  %235 = load i64, ptr %arrayidx124.i, align 8
  %b125.i = getelementptr inbounds nuw i8, ptr %at.0350.i, i64 40
  %236 = load i64, ptr %b125.i, align 8
  %arrayidx126.i = getelementptr inbounds i64, ptr %150, i64 %236
  %237 = load i64, ptr %arrayidx126.i, align 8
  %or.i = or i64 %237, %235
  br label %sw.epilog.i

sw.bb127.i:
  %a128.i = getelementptr inbounds nuw i8, ptr %at.0350.i, i64 32
  %238 = load i64, ptr %a128.i, align 8
  %arrayidx129.i = getelementptr inbounds i64, ptr %150, i64 %238
  %239 = load i64, ptr %arrayidx129.i, align 8
  %b130.i = getelementptr inbounds nuw i8, ptr %at.0350.i, i64 40
  %240 = load i64, ptr %b130.i, align 8
  %arrayidx131.i = getelementptr inbounds i64, ptr %150, i64 %240
  %241 = load i64, ptr %arrayidx131.i, align 8
  %xor.i = xor i64 %241, %239
  br label %sw.epilog.i

sw.bb132.i:
  %a133.i = getelementptr inbounds nuw i8, ptr %at.0350.i, i64 32
  %242 = load i64, ptr %a133.i, align 8
  %arrayidx134.i = getelementptr inbounds i64, ptr %150, i64 %242
  %243 = load i64, ptr %arrayidx134.i, align 8
  %not.i = xor i64 %243, -1
  br label %sw.epilog.i

sw.bb135.i:
  %a136.i = getelementptr inbounds nuw i8, ptr %at.0350.i, i64 32
  %244 = load i64, ptr %a136.i, align 8
  %arrayidx137.i = getelementptr inbounds i64, ptr %150, i64 %244
  %245 = load i64, ptr %arrayidx137.i, align 8
  br label %sw.epilog.i

sw.bb138.i:
  %a139.i = getelementptr inbounds nuw i8, ptr %at.0350.i, i64 32
  %246 = load i64, ptr %a139.i, align 8
  %arrayidx140.i = getelementptr inbounds i64, ptr %150, i64 %246
  %247 = load i64, ptr %arrayidx140.i, align 8
  %b141.i = getelementptr inbounds nuw i8, ptr %at.0350.i, i64 40
  %248 = load i64, ptr %b141.i, align 8
  %arrayidx142.i = getelementptr inbounds i64, ptr %150, i64 %248
  %249 = load i64, ptr %arrayidx142.i, align 8
  %cmp143.i = icmp slt i64 %247, %249
  %conv145.i = zext i1 %cmp143.i to i64
  br label %sw.epilog.i

sw.bb146.i:
  %a147.i = getelementptr inbounds nuw i8, ptr %at.0350.i, i64 32
  %250 = load i64, ptr %a147.i, align 8
  %arrayidx148.i = getelementptr inbounds i64, ptr %150, i64 %250
  %251 = load i64, ptr %arrayidx148.i, align 8
  %b149.i = getelementptr inbounds nuw i8, ptr %at.0350.i, i64 40
  %252 = load i64, ptr %b149.i, align 8
  %arrayidx150.i = getelementptr inbounds i64, ptr %150, i64 %252
  %253 = load i64, ptr %arrayidx150.i, align 8
  %cmp151.i = icmp sle i64 %251, %253
  %conv153.i = zext i1 %cmp151.i to i64
  br label %sw.epilog.i

sw.bb154.i:
  %a155.i = getelementptr inbounds nuw i8, ptr %at.0350.i, i64 32
  %254 = load i64, ptr %a155.i, align 8
  %arrayidx156.i = getelementptr inbounds i64, ptr %150, i64 %254
  %255 = load i64, ptr %arrayidx156.i, align 8
  %b157.i = getelementptr inbounds nuw i8, ptr %at.0350.i, i64 40
  %256 = load i64, ptr %b157.i, align 8
  %arrayidx158.i = getelementptr inbounds i64, ptr %150, i64 %256
  %257 = load i64, ptr %arrayidx158.i, align 8
  %cmp159.i = icmp eq i64 %255, %257
  %conv161.i = zext i1 %cmp159.i to i64
  br label %sw.epilog.i

sw.bb162.i:
  %a163.i = getelementptr inbounds nuw i8, ptr %at.0350.i, i64 32
  %258 = load i64, ptr %a163.i, align 8
  %arrayidx164.i = getelementptr inbounds i64, ptr %150, i64 %258
  %259 = load i64, ptr %arrayidx164.i, align 8
  %b165.i = getelementptr inbounds nuw i8, ptr %at.0350.i, i64 40
  %260 = load i64, ptr %b165.i, align 8
  %arrayidx166.i = getelementptr inbounds i64, ptr %150, i64 %260
  %261 = load i64, ptr %arrayidx166.i, align 8
  %cmp167.i = icmp ne i64 %259, %261
  %conv169.i = zext i1 %cmp167.i to i64
  br label %sw.epilog.i

sw.bb170.i:
  %a171.i = getelementptr inbounds nuw i8, ptr %at.0350.i, i64 32
  %262 = load i64, ptr %a171.i, align 8
  %arrayidx172.i = getelementptr inbounds i64, ptr %150, i64 %262
  %263 = load i64, ptr %arrayidx172.i, align 8
  %264 = add i64 %263, -2147483648
  %or.cond.i.i = icmp ult i64 %264, -2147483647
  br i1 %or.cond.i.i, label %sw.epilog.i, label %if.end.i.i

if.end.i.i:
  %cmp.i.i.i = icmp samesign ult i64 %263, 2
  %sub.i.i.i = add nsw i64 %263, -1
  %265 = tail call i64 @llvm.ctlz.i64(i64 %sub.i.i.i, i1 true)
  %sub1.i.i.i = sub nuw nsw i64 64, %265
  %266 = shl nuw nsw i64 2147483648, %sub1.i.i.i
  %267 = add nsw i64 %266, -1
  %sub.i333.i = select i1 %cmp.i.i.i, i64 2147483647, i64 %267
  %div.i334.i = udiv i64 %sub.i333.i, %263
  %sub5.i.i = add nsw i64 %div.i334.i, -4294967295
  br label %sw.epilog.i

sw.bb174.i:
  %a175.i = getelementptr inbounds nuw i8, ptr %at.0350.i, i64 32
  %268 = load i64, ptr %a175.i, align 8
  %arrayidx176.i = getelementptr inbounds i64, ptr %150, i64 %268
  %269 = load i64, ptr %arrayidx176.i, align 8
  %270 = add i64 %269, -2147483648
  %or.cond.i335.i = icmp ult i64 %270, -2147483647
  br i1 %or.cond.i335.i, label %sw.epilog.i, label %if.end.i336.i

if.end.i336.i:
  %cmp.i.i337.i = icmp samesign ult i64 %269, 2
  %sub.i.i338.i = add nsw i64 %269, -1
  %271 = tail call i64 @llvm.ctlz.i64(i64 %sub.i.i338.i, i1 true)
  %sub1.i.i339.i = sub nuw nsw i64 64, %271
  %cond.i.i340.i = select i1 %cmp.i.i337.i, i64 0, i64 %sub1.i.i339.i
  br label %sw.epilog.i

sw.epilog.i:
  %value.0.i = phi i64 [ 0, %for.body.i86 ], [ %retval.0.i319.i, %floor_divide.exit.i ], [ %170, %sw.bb4.i ], [ %187, %sw.bb20.i ], [ %194, %sw.bb24.i ], [ %201, %sw.bb30.i ], [ %.317.i, %sw.bb36.i ], [ %.318.i, %sw.bb47.i ], [ %214, %sw.bb62.i ], [ %219, %if.then71.i ], [ %216, %sw.bb66.i ], [ %sub5.i.i, %if.end.i.i ], [ %cond105.i, %floor_divide.exit331.i ], [ %cond116.i, %sw.bb106.i ], [ %and.i, %sw.bb117.i ], [ %or.i, %sw.bb122.i ], [ %xor.i, %sw.bb127.i ], [ %not.i, %sw.bb132.i ], [ %245, %sw.bb135.i ], [ %conv145.i, %sw.bb138.i ], [ %conv153.i, %sw.bb146.i ], [ %conv161.i, %sw.bb154.i ], [ %conv169.i, %sw.bb162.i ], [ %conv10.i.i, %sw.bb9.i.i ], [ %cond.i.i340.i, %if.end.i336.i ], [ %163, %sw.default.i.i ], [ %conv.i.i, %sw.bb.i.i ], [ %conv2.i.i, %sw.bb1.i.i ], [ %conv4.i.i, %sw.bb3.i.i ], [ %conv6.i.i, %sw.bb5.i.i ], [ %conv8.i.i, %sw.bb7.i.i ], [ 0, %sw.bb170.i ], [ 0, %sw.bb174.i ]
  %over.0.i = phi i1 [ false, %for.body.i86 ], [ %spec.select.i, %floor_divide.exit.i ], [ false, %sw.bb4.i ], [ %186, %sw.bb20.i ], [ %193, %sw.bb24.i ], [ %200, %sw.bb30.i ], [ false, %sw.bb36.i ], [ false, %sw.bb47.i ], [ %213, %sw.bb62.i ], [ %218, %if.then71.i ], [ false, %sw.bb66.i ], [ false, %if.end.i.i ], [ false, %floor_divide.exit331.i ], [ false, %sw.bb106.i ], [ false, %sw.bb117.i ], [ false, %sw.bb122.i ], [ false, %sw.bb127.i ], [ false, %sw.bb132.i ], [ false, %sw.bb135.i ], [ false, %sw.bb138.i ], [ false, %sw.bb146.i ], [ false, %sw.bb154.i ], [ false, %sw.bb162.i ], [ false, %sw.bb9.i.i ], [ false, %if.end.i336.i ], [ false, %sw.default.i.i ], [ false, %sw.bb.i.i ], [ false, %sw.bb1.i.i ], [ false, %sw.bb3.i.i ], [ false, %sw.bb5.i.i ], [ false, %sw.bb7.i.i ], [ false, %sw.bb170.i ], [ false, %sw.bb174.i ]
  %exact.i = getelementptr inbounds nuw i8, ptr %at.0350.i, i64 16
  %272 = load i64, ptr %exact.i, align 8
  %tobool178.not.i = icmp eq i64 %272, 0
  br i1 %tobool178.not.i, label %if.then179.i, label %if.else.i

if.then179.i:
  %bits180.i = getelementptr inbounds nuw i8, ptr %at.0350.i, i64 8
  %273 = load i64, ptr %bits180.i, align 8
  %cmp.i.i = icmp eq i64 %273, 1
  br i1 %cmp.i.i, label %if.then.i.i, label %if.end.i343.i

if.then.i.i:
  %cmp1.i.i = icmp ne i64 %value.0.i, 0
  %conv2.i346.i = zext i1 %cmp1.i.i to i64
  br label %if.end184.i

if.end.i343.i:
  %cond.i.i = tail call i64 @llvm.abs.i64(i64 %273, i1 true)
  %cmp5.i.i = icmp samesign ugt i64 %cond.i.i, 63
  br i1 %cmp5.i.i, label %if.end184.i, label %if.end8.i.i

if.end8.i.i:
  %cmp3.i.i = icmp slt i64 %273, 0
  %sub9.i.i = sub nuw nsw i64 64, %cond.i.i
  %shl.i344.i = shl i64 %value.0.i, %sub9.i.i
  %shr.i.i = ashr exact i64 %shl.i344.i, %sub9.i.i
  %shr16.i.i = lshr exact i64 %shl.i344.i, %sub9.i.i
  %cond18.i.i = select i1 %cmp3.i.i, i64 %shr.i.i, i64 %shr16.i.i
  br label %if.end184.i

if.else.i:
  br i1 %over.0.i, label %for.cond.cleanup, label %if.end184.i

if.end184.i:
  %value.1.i = phi i64 [ %value.0.i, %if.else.i ], [ %conv2.i346.i, %if.then.i.i ], [ %cond18.i.i, %if.end8.i.i ], [ %value.0.i, %if.end.i343.i ]
  %to185.i = getelementptr inbounds nuw i8, ptr %at.0350.i, i64 24
  %274 = load i64, ptr %to185.i, align 8
  %arrayidx186.i = getelementptr inbounds i64, ptr %150, i64 %274
  store i64 %value.1.i, ptr %arrayidx186.i, align 8
  br label %for.inc.i

for.inc.i:
  %incdec.ptr.i = getelementptr inbounds nuw i8, ptr %at.0350.i, i64 56
  %cmp.not.not.i = icmp ult ptr %incdec.ptr.i, %add.ptr.i
  br i1 %cmp.not.not.i, label %for.body.i86, label %for.inc

sw.bb44:
  %target45 = getelementptr inbounds nuw i8, ptr %op.0213, i64 8
  %275 = load ptr, ptr %target45, align 8
  %276 = load ptr, ptr %runner, align 8
  tail call void @PyEval_RestoreThread(ptr %276) nounwind
  %call.i90 = tail call ptr @PyObject_CallNoArgs(ptr %275) nounwind
  %tobool.not.i91 = icmp eq ptr %call.i90, null
  %cond.i92 = select i1 %tobool.not.i91, i32 2, i32 0
  tail call void @Py_DecRef(ptr %call.i90) nounwind
  %call1.i = tail call ptr @PyEval_SaveThread() nounwind
  store ptr %call1.i, ptr %runner, align 8
  br label %for.inc

for.inc:
  %outcome.1 = phi i32 [ 0, %for.body ], [ 0, %if.then ], [ %cond.i92, %sw.bb44 ], [ 0, %if.then14 ], [ 0, %if.else10 ], [ 0, %sw.bb21 ], [ 0, %sw.bb24 ], [ %cond, %sw.bb28 ], [ %outcome.1.i, %if.end.i ], [ %call38, %sw.bb33 ], [ 0, %sw.bb39 ], [ 0, %if.then9 ], [ 0, %if.end44.i ], [ 0, %for.end.i ], [ 0, %for.cond18.preheader.i ], [ 0, %for.inc.i ]
  %incdec.ptr = getelementptr inbounds nuw i8, ptr %op.0213, i64 40
  %cmp = icmp ult ptr %incdec.ptr, %add.ptr
  %cmp2 = icmp eq i32 %outcome.1, 0
  %277 = select i1 %cmp, i1 %cmp2, i1 false
  br i1 %277, label %for.body, label %for.cond.cleanup
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
  %busy.i.le197 = getelementptr inbounds nuw i8, ptr %record.0143, i64 8
  %array_count.i.le194 = getelementptr inbounds nuw i8, ptr %record.0143, i64 32
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
  store i64 1, ptr %busy.i.le197, align 8
  %53 = load i64, ptr %array_count.i.le194, align 8
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
  %.pre.i = load i64, ptr %array_count.i.le194, align 8
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
  %size2.i.i.i = getelementptr inbounds nuw i8, ptr %84, i64 8
  call void @llvm.memset.p0.i64(ptr align 8 dereferenceable(24) %size2.i.i.i, i8 0, i64 24, i1 false)
  %88 = load ptr, ptr %84, align 8
  %cmp.not.i.i.i = icmp eq ptr %88, null
  br i1 %cmp.not.i.i.i, label %hold.exit.i.i, label %if.then.i.i.i

if.then.i.i.i:
  store ptr null, ptr %84, align 8
  %patches.i.i.i = getelementptr inbounds nuw i8, ptr %84, i64 32
  %89 = load ptr, ptr %patches.i.i.i, align 8
  %patch_count.i.i.i = getelementptr inbounds nuw i8, ptr %84, i64 40
  %90 = load i64, ptr %patch_count.i.i.i, align 8
  %cmp3.i.i.i.i = icmp sgt i64 %90, 0
  br i1 %cmp3.i.i.i.i, label %for.body.i.i.i.i, label %hold.exit.i.i

for.body.i.i.i.i:
  %k.04.i.i.i.i = phi i64 [ %inc.i.i.i.i, %for.body.i.i.i.i ], [ 0, %if.then.i.i.i ]
  %arrayidx.i.i.i.i = getelementptr inbounds nuw ptr, ptr %89, i64 %k.04.i.i.i.i
  %91 = load ptr, ptr %arrayidx.i.i.i.i, align 8
  store i64 0, ptr %91, align 8
  %inc.i.i.i.i = add nuw nsw i64 %k.04.i.i.i.i, 1
  %exitcond.not.i.i.i.i = icmp eq i64 %inc.i.i.i.i, %90
  br i1 %exitcond.not.i.i.i.i, label %hold.exit.i.i, label %for.body.i.i.i.i

hold.exit.i.i:
  %92 = load ptr, ptr @numpy_functions, align 8
  %arrayidx.i.i87 = getelementptr inbounds nuw i8, ptr %92, i64 2256
  %93 = load ptr, ptr %arrayidx.i.i87, align 8
  %call9.i.i88 = call i32 %93(ptr %call2.i.i84, ptr %call5.i.i) nounwind
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
  %94 = load ptr, ptr %results, align 8
  %cmp.i97 = icmp eq i64 %.pr, 1
  br i1 %cmp.i97, label %if.then.i111, label %if.end.i98

if.then.i111:
  %made.i112 = getelementptr inbounds nuw i8, ptr %94, i64 64
  %95 = load ptr, ptr %made.i112, align 8
  br label %cleanup.thread

if.end.i98:
  %96 = phi ptr [ %94, %if.then11 ], [ %82, %land.lhs.true6 ]
  %97 = phi i64 [ %.pr, %if.then11 ], [ %83, %land.lhs.true6 ]
  %call.i = call ptr @PyTuple_New(i64 %97) nounwind
  %tobool.not.i99 = icmp eq ptr %call.i, null
  %cmp3.i.i100 = icmp sgt i64 %97, 0
  br i1 %tobool.not.i99, label %if.then1.i, label %for.cond.preheader.i101

for.cond.preheader.i101:
  br i1 %cmp3.i.i100, label %for.body.i102, label %cleanup.thread

if.then1.i:
  br i1 %cmp3.i.i100, label %for.body.i.i105, label %cleanup.thread

for.body.i.i105:
  %k.04.i.i106 = phi i64 [ %inc.i.i109, %for.body.i.i105 ], [ 0, %if.then1.i ]
  %arrayidx.i.i107 = getelementptr inbounds nuw %struct.result, ptr %96, i64 %k.04.i.i106
  %made.i.i108 = getelementptr inbounds nuw i8, ptr %arrayidx.i.i107, i64 64
  %98 = load ptr, ptr %made.i.i108, align 8
  call void @Py_DecRef(ptr %98) nounwind
  %inc.i.i109 = add nuw nsw i64 %k.04.i.i106, 1
  %exitcond.not.i.i110 = icmp eq i64 %inc.i.i109, %97
  br i1 %exitcond.not.i.i110, label %cleanup.thread, label %for.body.i.i105

for.body.i102:
  %k.019.i = phi i64 [ %inc.i103, %for.body.i102 ], [ 0, %for.cond.preheader.i101 ]
  %arrayidx4.i = getelementptr inbounds nuw %struct.result, ptr %96, i64 %k.019.i
  %made5.i = getelementptr inbounds nuw i8, ptr %arrayidx4.i, i64 64
  %99 = load ptr, ptr %made5.i, align 8
  %call6.i = call i32 @PyTuple_SetItem(ptr %call.i, i64 %k.019.i, ptr %99) nounwind
  %inc.i103 = add nuw nsw i64 %k.019.i, 1
  %exitcond.not.i104 = icmp eq i64 %inc.i103, %97
  br i1 %exitcond.not.i104, label %cleanup.thread, label %for.body.i102

cleanup.thread:
  %retval.1.i = phi ptr [ %95, %if.then.i111 ], [ %call.i, %for.cond.preheader.i101 ], [ null, %if.then1.i ], [ null, %for.body.i.i105 ], [ %call.i, %for.body.i102 ]
  store i64 0, ptr %busy.i.le197, align 8
  br label %cleanup24

if.end:
  %100 = load ptr, ptr %results, align 8
  %101 = load i64, ptr %result_count, align 8
  %cmp3.i = icmp sgt i64 %101, 0
  br i1 %cmp3.i, label %for.body.i113, label %cleanup

for.body.i113:
  %k.04.i = phi i64 [ %inc.i116, %for.body.i113 ], [ 0, %if.end ]
  %arrayidx.i114 = getelementptr inbounds nuw %struct.result, ptr %100, i64 %k.04.i
  %made.i115 = getelementptr inbounds nuw i8, ptr %arrayidx.i114, i64 64
  %102 = load ptr, ptr %made.i115, align 8
  call void @Py_DecRef(ptr %102) nounwind
  %inc.i116 = add nuw nsw i64 %k.04.i, 1
  %exitcond.not.i117 = icmp eq i64 %inc.i116, %101
  br i1 %exitcond.not.i117, label %cleanup, label %for.body.i113

cleanup:
  store i64 0, ptr %busy.i.le197, align 8
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

declare ptr @PyMem_RawMalloc(i64) nounwind

declare void @parallel_brief(ptr, ptr, i64, i64) nounwind

declare void @parallel(ptr, ptr, i64, i64) nounwind

declare void @llvm.memset.p0.i64(ptr, i8, i64, i1 immarg) nounwind

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

declare { i64, i1 } @llvm.sadd.with.overflow.i64(i64, i64) nounwind

declare { i64, i1 } @llvm.ssub.with.overflow.i64(i64, i64) nounwind

declare { i64, i1 } @llvm.smul.with.overflow.i64(i64, i64) nounwind

declare i64 @llvm.ctlz.i64(i64, i1 immarg) nounwind

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

declare ptr @PyCapsule_GetPointer(ptr, ptr) nounwind

declare ptr @PyTuple_New(i64) nounwind

declare i32 @PyTuple_SetItem(ptr, i64, ptr) nounwind

declare i64 @llvm.abs.i64(i64, i1 immarg) nounwind

declare i64 @llvm.smax.i64(i64, i64) nounwind

declare i64 @llvm.smin.i64(i64, i64) nounwind
