; replay.c, compiled by clang 22.1.8 (ziglang 0.17.1) and tidied by
; python -m treadle.backend.native.runtime.build: change the C file, not this one.
; python -m ziglang cc -target x86_64-linux-gnu -S -emit-llvm -Os -g0 -std=gnu11 -fPIC -Wall -Wextra -Werror -Wno-unused-command-line-argument -fno-sanitize=all -fno-stack-protector -fno-asynchronous-unwind-tables -fno-vectorize -fno-slp-vectorize -fno-unroll-loops -fno-strict-aliasing -fno-ident -fno-discard-value-names -Xclang -no-enable-noundef-analysis -isystem PYTHON -isystem NUMPY replay.c
; sha256 of replay.c, team.h: d66116bedc66e0296ddcd4116fefc0c249acd65eb9ca443bb2ede18134e24f70

%struct.phase = type { ptr, i64 }
%struct.array = type { i64, ptr, ptr, i64, ptr, ptr, i64 }
%struct.dimension = type { i64, i64 }
%struct.number = type { i64, i64, i64, i64, i64, ptr, i64 }
%struct.result = type { ptr, i64, ptr, ptr, i64, ptr, i64, ptr }
%struct.block = type { ptr, ptr }

@replay_function.method = internal global { ptr, ptr, i32, [4 x i8], ptr } { ptr @.str, ptr @replay, i32 128, [4 x i8] zeroinitializer, ptr null }, align 8
@.str = private constant [7 x i8] c"replay\00", align 1
@numpy_functions = external global i8, align 8
@_Py_NoneStruct = external global i8, align 8
@PyFloat_Type = external global i8, align 8
@PyLong_Type = external global i8, align 8
@PyBool_Type = external global i8, align 8
@_Py_TrueStruct = external global i8, align 8

define i64 @iterate(ptr %phases, i64 %phase_count, i64 %origin, i64 %first, i64 %last) nounwind {
entry:
  %cmp12 = icmp slt i64 %first, %last
  br i1 %cmp12, label %for.body, label %cleanup1

for.body:
  %k.013 = phi i64 [ %inc, %for.inc ], [ %first, %entry ]
  %sub = sub nsw i64 %k.013, %origin
  %rem = urem i64 %sub, %phase_count
  %arrayidx = getelementptr inbounds nuw %struct.phase, ptr %phases, i64 %rem
  %0 = load ptr, ptr %arrayidx, align 8
  %operation_count = getelementptr inbounds nuw i8, ptr %arrayidx, i64 8
  %1 = load i64, ptr %operation_count, align 8
  %call = tail call fastcc zeroext i1 @execute(ptr %0, i64 %1, i64 %k.013) nounwind
  br i1 %call, label %for.inc, label %cleanup1

for.inc:
  %inc = add i64 %k.013, 1
  %exitcond.not = icmp eq i64 %inc, %last
  br i1 %exitcond.not, label %cleanup1, label %for.body

cleanup1:
  %2 = phi i64 [ %last, %entry ], [ %last, %for.inc ], [ %k.013, %for.body ]
  ret i64 %2
}

define internal fastcc zeroext i1 @execute(ptr %operations, i64 %count, i64 %iteration) nounwind {
entry:
  %add.ptr.idx = mul nsw i64 %count, 40
  %add.ptr = getelementptr inbounds i8, ptr %operations, i64 %add.ptr.idx
  %cmp32 = icmp slt i64 %count, 1
  br i1 %cmp32, label %cleanup, label %for.body

for.body:
  %op.033 = phi ptr [ %incdec.ptr, %for.inc ], [ %operations, %entry ]
  %0 = load i64, ptr %op.033, align 8
  %conv = trunc i64 %0 to i32
  switch i32 %conv, label %for.inc [
    i32 0, label %sw.bb
    i32 1, label %sw.bb1
    i32 2, label %sw.bb4
    i32 3, label %sw.bb8
    i32 4, label %sw.bb10
    i32 5, label %sw.bb12
  ]

sw.bb:
  %target = getelementptr inbounds nuw i8, ptr %op.033, i64 8
  %1 = load ptr, ptr %target, align 8
  %source = getelementptr inbounds nuw i8, ptr %op.033, i64 16
  %2 = load ptr, ptr %source, align 8
  %size = getelementptr inbounds nuw i8, ptr %op.033, i64 24
  %3 = load i64, ptr %size, align 8
  %threads = getelementptr inbounds nuw i8, ptr %op.033, i64 32
  %4 = load i64, ptr %threads, align 8
  tail call void @parallel(ptr %1, ptr %2, i64 %3, i64 %4) nounwind
  br label %for.inc

sw.bb1:
  %target2 = getelementptr inbounds nuw i8, ptr %op.033, i64 8
  %5 = load ptr, ptr %target2, align 8
  %size3 = getelementptr inbounds nuw i8, ptr %op.033, i64 24
  %6 = load i64, ptr %size3, align 8
  tail call void @llvm.memset.p0.i64(ptr align 1 %5, i8 0, i64 %6, i1 false)
  br label %for.inc

sw.bb4:
  %target5 = getelementptr inbounds nuw i8, ptr %op.033, i64 8
  %7 = load ptr, ptr %target5, align 8
  %source6 = getelementptr inbounds nuw i8, ptr %op.033, i64 16
  %8 = load ptr, ptr %source6, align 8
  %size7 = getelementptr inbounds nuw i8, ptr %op.033, i64 24
  %9 = load i64, ptr %size7, align 8
  tail call void @llvm.memcpy.p0.p0.i64(ptr align 1 %7, ptr align 1 %8, i64 %9, i1 false)
  br label %for.inc

sw.bb8:
  %target9 = getelementptr inbounds nuw i8, ptr %op.033, i64 8
  %10 = load ptr, ptr %target9, align 8
  %11 = load i8, ptr %10, align 1
  %tobool.not = icmp eq i8 %11, 0
  br i1 %tobool.not, label %cleanup, label %for.inc

sw.bb10:
  %target11 = getelementptr inbounds nuw i8, ptr %op.033, i64 8
  %12 = load ptr, ptr %target11, align 8
  store i64 %iteration, ptr %12, align 8
  br label %for.inc

sw.bb12:
  %target13 = getelementptr inbounds nuw i8, ptr %op.033, i64 8
  %13 = load ptr, ptr %target13, align 8
  %14 = load i64, ptr %13, align 8
  %tobool14.not = icmp eq i64 %14, 0
  br i1 %tobool14.not, label %for.inc, label %cleanup

for.inc:
  %incdec.ptr = getelementptr inbounds nuw i8, ptr %op.033, i64 40
  %cmp.not = icmp ult ptr %incdec.ptr, %add.ptr
  br i1 %cmp.not, label %for.body, label %cleanup

cleanup:
  %cmp.lcssa = phi i1 [ true, %entry ], [ false, %sw.bb12 ], [ false, %sw.bb8 ], [ true, %for.inc ]
  ret i1 %cmp.lcssa
}

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
  %record.0112 = load ptr, ptr %0, align 8
  %tobool.not113 = icmp eq ptr %record.0112, null
  br i1 %tobool.not113, label %if.end15, label %land.rhs

land.rhs:
  %record.0114 = phi ptr [ %record.0, %record_fits.exit ], [ %record.0112, %entry ]
  %busy.i = getelementptr inbounds nuw i8, ptr %record.0114, i64 8
  %1 = load i64, ptr %busy.i, align 8
  %tobool.not.i = icmp eq i64 %1, 0
  br i1 %tobool.not.i, label %lor.lhs.false.i, label %record_fits.exit

lor.lhs.false.i:
  %argument_count.i = getelementptr inbounds nuw i8, ptr %record.0114, i64 16
  %2 = load i64, ptr %argument_count.i, align 8
  %cmp.not.i = icmp eq i64 %2, %count
  br i1 %cmp.not.i, label %for.cond.preheader.i, label %record_fits.exit

for.cond.preheader.i:
  %array_count.i = getelementptr inbounds nuw i8, ptr %record.0114, i64 32
  %3 = load i64, ptr %array_count.i, align 8
  %cmp154.i = icmp sgt i64 %3, 0
  br i1 %cmp154.i, label %for.body.lr.ph.i, label %for.cond8.preheader.i

for.body.lr.ph.i:
  %arrays.i = getelementptr inbounds nuw i8, ptr %record.0114, i64 24
  %4 = load ptr, ptr %arrays.i, align 8
  %5 = load ptr, ptr @numpy_functions, align 8
  %arrayidx.i41.i = getelementptr inbounds nuw i8, ptr %5, i64 16
  %6 = load ptr, ptr %arrayidx.i41.i, align 8
  br label %for.body.i

for.cond8.preheader.i:
  %number_count.i = getelementptr inbounds nuw i8, ptr %record.0114, i64 48
  %7 = load i64, ptr %number_count.i, align 8
  %cmp956.i = icmp slt i64 %7, 1
  br i1 %cmp956.i, label %land.lhs.true, label %for.body11.lr.ph.i

for.body11.lr.ph.i:
  %numbers.i = getelementptr inbounds nuw i8, ptr %record.0114, i64 40
  br label %for.body11.i

for.body.i:
  %k.055.i = phi i64 [ 0, %for.body.lr.ph.i ], [ %inc.i, %for.inc.i ]
  %arrayidx.i = getelementptr inbounds nuw %struct.array, ptr %4, i64 %k.055.i
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
  %inc.i = add nuw nsw i64 %k.055.i, 1
  %exitcond.not.i = icmp eq i64 %inc.i, %3
  br i1 %exitcond.not.i, label %for.cond8.preheader.i, label %for.body.i

for.cond8.i:
  %inc21.i = add nuw nsw i64 %k7.057.i, 1
  %22 = load i64, ptr %number_count.i, align 8
  %cmp9.not.i = icmp slt i64 %inc21.i, %22
  br i1 %cmp9.not.i, label %for.body11.i, label %land.lhs.true

for.body11.i:
  %k7.057.i = phi i64 [ 0, %for.body11.lr.ph.i ], [ %inc21.i, %for.cond8.i ]
  %23 = load ptr, ptr %numbers.i, align 8
  %arrayidx12.i = getelementptr inbounds nuw %struct.number, ptr %23, i64 %k7.057.i
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
  ]

entry.sw.epilog_crit_edge.i.i:
  %bits23.phi.trans.insert.i.i = getelementptr inbounds nuw i8, ptr %arrayidx12.i, i64 32
  %.pre.i.i = load i64, ptr %bits23.phi.trans.insert.i.i, align 8
  br label %sw.epilog.i.i

sw.bb.i.i:
  %ob_type.i.i48.i = getelementptr inbounds nuw i8, ptr %25, i64 8
  %27 = load ptr, ptr %ob_type.i.i48.i, align 8
  %cmp.not.i.i = icmp eq ptr %27, @PyFloat_Type
  br i1 %cmp.not.i.i, label %if.end.i.i, label %record_fits.exit

if.end.i.i:
  %call2.i.i = call double @PyFloat_AsDouble(ptr %25) nounwind
  %bits.i.i = getelementptr inbounds nuw i8, ptr %arrayidx12.i, i64 32
  store double %call2.i.i, ptr %bits.i.i, align 8
  %28 = bitcast double %call2.i.i to i64
  br label %sw.epilog.i.i

sw.bb3.i.i:
  %ob_type.i41.i.i = getelementptr inbounds nuw i8, ptr %25, i64 8
  %29 = load ptr, ptr %ob_type.i41.i.i, align 8
  %cmp5.not.i46.i = icmp eq ptr %29, @PyLong_Type
  br i1 %cmp5.not.i46.i, label %if.end8.i.i, label %record_fits.exit

if.end8.i.i:
  %call9.i.i = call i64 @PyLong_AsLongLongAndOverflow(ptr %25, ptr %overflow.i.i) nounwind
  %bits10.i.i = getelementptr inbounds nuw i8, ptr %arrayidx12.i, i64 32
  store i64 %call9.i.i, ptr %bits10.i.i, align 8
  %30 = load i32, ptr %overflow.i.i, align 4
  %tobool.not.i47.i = icmp eq i32 %30, 0
  br i1 %tobool.not.i47.i, label %sw.epilog.i.i, label %record_fits.exit

sw.bb13.i.i:
  %ob_type.i42.i.i = getelementptr inbounds nuw i8, ptr %25, i64 8
  %31 = load ptr, ptr %ob_type.i42.i.i, align 8
  %cmp15.not.i44.i = icmp eq ptr %31, @PyBool_Type
  br i1 %cmp15.not.i44.i, label %if.end18.i.i, label %record_fits.exit

if.end18.i.i:
  %cmp19.i.i = icmp eq ptr %25, @_Py_TrueStruct
  %conv21.i.i = zext i1 %cmp19.i.i to i64
  %bits22.i.i = getelementptr inbounds nuw i8, ptr %arrayidx12.i, i64 32
  store i64 %conv21.i.i, ptr %bits22.i.i, align 8
  br label %sw.epilog.i.i

sw.epilog.i.i:
  %32 = phi i64 [ %.pre.i.i, %entry.sw.epilog_crit_edge.i.i ], [ %call9.i.i, %if.end8.i.i ], [ %conv21.i.i, %if.end18.i.i ], [ %28, %if.end.i.i ]
  %least.i.i = getelementptr inbounds nuw i8, ptr %arrayidx12.i, i64 16
  %33 = load i64, ptr %least.i.i, align 8
  %cmp24.not.i.i = icmp slt i64 %32, %33
  br i1 %cmp24.not.i.i, label %record_fits.exit, label %number_fits.exit.i

number_fits.exit.i:
  %most.i.i = getelementptr inbounds nuw i8, ptr %arrayidx12.i, i64 24
  %34 = load i64, ptr %most.i.i, align 8
  %cmp27.i.not.i = icmp sgt i64 %32, %34
  br i1 %cmp27.i.not.i, label %record_fits.exit, label %for.cond8.i

record_fits.exit:
  %record.0 = load ptr, ptr %record.0114, align 8
  %tobool.not = icmp eq ptr %record.0, null
  br i1 %tobool.not, label %if.end15, label %land.rhs

land.lhs.true:
  %busy.i.le181 = getelementptr inbounds nuw i8, ptr %record.0114, i64 8
  %array_count.i.le178 = getelementptr inbounds nuw i8, ptr %record.0114, i64 32
  %results = getelementptr inbounds nuw i8, ptr %record.0114, i64 56
  %35 = load ptr, ptr %results, align 8
  %result_count = getelementptr inbounds nuw i8, ptr %record.0114, i64 64
  %36 = load i64, ptr %result_count, align 8
  %cmp40.i = icmp slt i64 %36, 1
  br i1 %cmp40.i, label %if.then, label %for.body.i33

for.body.i33:
  %k.041.i = phi i64 [ %inc.i43, %for.inc.i42 ], [ 0, %land.lhs.true ]
  %arrayidx.i34 = getelementptr inbounds nuw %struct.result, ptr %35, i64 %k.041.i
  %block_count.i.i = getelementptr inbounds nuw i8, ptr %arrayidx.i34, i64 32
  %37 = load i64, ptr %block_count.i.i, align 8
  %cmp.i.i35 = icmp eq i64 %37, 0
  br i1 %cmp.i.i35, label %new_result.exit.i, label %if.end.i.i36

if.end.i.i36:
  %cmp11.i.i.i = icmp sgt i64 %37, 0
  br i1 %cmp11.i.i.i, label %for.body.lr.ph.i.i.i, label %new_result.exit.thread.i

for.body.lr.ph.i.i.i:
  %blocks.i.i.i = getelementptr inbounds nuw i8, ptr %arrayidx.i34, i64 24
  %38 = load ptr, ptr %blocks.i.i.i, align 8
  br label %for.body.i.i.i

for.cond.i.i.i:
  %inc.i.i.i = add nuw nsw i64 %k.012.i.i.i, 1
  %exitcond.not.i.i.i = icmp eq i64 %inc.i.i.i, %37
  br i1 %exitcond.not.i.i.i, label %new_result.exit.thread.i, label %for.body.i.i.i

for.body.i.i.i:
  %k.012.i.i.i = phi i64 [ 0, %for.body.lr.ph.i.i.i ], [ %inc.i.i.i, %for.cond.i.i.i ]
  %arrayidx.i.i.i = getelementptr inbounds nuw %struct.block, ptr %38, i64 %k.012.i.i.i
  %39 = load ptr, ptr %arrayidx.i.i.i, align 8
  %40 = load i32, ptr %39, align 4
  %cmp1.i.i.i = icmp eq i32 %40, 1
  br i1 %cmp1.i.i.i, label %if.end3.i.i, label %for.cond.i.i.i

if.end3.i.i:
  %address.i.i = getelementptr inbounds nuw i8, ptr %arrayidx.i.i.i, i64 8
  %41 = load ptr, ptr %address.i.i, align 8
  %call4.i.i = call fastcc ptr @new_array(ptr %arrayidx.i34, ptr %41) nounwind
  %tobool5.not.i.i = icmp eq ptr %call4.i.i, null
  br i1 %tobool5.not.i.i, label %new_result.exit.thread.i, label %if.end7.i.i

if.end7.i.i:
  %42 = load ptr, ptr %arrayidx.i.i.i, align 8
  call void @Py_IncRef(ptr %42) nounwind
  %43 = load ptr, ptr @numpy_functions, align 8
  %arrayidx.i.i40 = getelementptr inbounds nuw i8, ptr %43, i64 2256
  %44 = load ptr, ptr %arrayidx.i.i40, align 8
  %45 = load ptr, ptr %arrayidx.i.i.i, align 8
  %call9.i.i41 = call i32 %44(ptr %call4.i.i, ptr %45) nounwind
  %tobool10.not.i.i = icmp eq i32 %call9.i.i41, 0
  br i1 %tobool10.not.i.i, label %new_result.exit.thread16.i, label %if.then11.i.i

new_result.exit.thread16.i:
  %made18.i = getelementptr inbounds nuw i8, ptr %arrayidx.i34, i64 56
  store ptr %call4.i.i, ptr %made18.i, align 8
  br label %for.inc.i42

if.then11.i.i:
  call void @Py_DecRef(ptr %call4.i.i) nounwind
  br label %new_result.exit.thread.i

new_result.exit.thread.i:
  %made14.i = getelementptr inbounds nuw i8, ptr %arrayidx.i34, i64 56
  store ptr null, ptr %made14.i, align 8
  br label %if.then.i

new_result.exit.i:
  %call.i.i = call fastcc ptr @new_array(ptr %arrayidx.i34, ptr null) nounwind
  %made.i = getelementptr inbounds nuw i8, ptr %arrayidx.i34, i64 56
  store ptr %call.i.i, ptr %made.i, align 8
  %tobool.not.i45 = icmp eq ptr %call.i.i, null
  br i1 %tobool.not.i45, label %if.then.i, label %for.inc.i42

if.then.i:
  call void @PyErr_Clear() nounwind
  %cmp3.i.not.i = icmp eq i64 %k.041.i, 0
  br i1 %cmp3.i.not.i, label %if.end15, label %for.body.i.i37

for.body.i.i37:
  %k.04.i.i = phi i64 [ %inc.i.i38, %for.body.i.i37 ], [ 0, %if.then.i ]
  %arrayidx.i12.i = getelementptr inbounds nuw %struct.result, ptr %35, i64 %k.04.i.i
  %made.i.i = getelementptr inbounds nuw i8, ptr %arrayidx.i12.i, i64 56
  %46 = load ptr, ptr %made.i.i, align 8
  call void @Py_DecRef(ptr %46) nounwind
  %inc.i.i38 = add nuw nsw i64 %k.04.i.i, 1
  %exitcond.not.i.i39 = icmp eq i64 %inc.i.i38, %k.041.i
  br i1 %exitcond.not.i.i39, label %if.end15, label %for.body.i.i37

for.inc.i42:
  %inc.i43 = add nuw nsw i64 %k.041.i, 1
  %exitcond.not.i44 = icmp eq i64 %inc.i43, %36
  br i1 %exitcond.not.i44, label %if.then, label %for.body.i33

if.then:
  store i64 1, ptr %busy.i.le181, align 8
  %47 = load i64, ptr %array_count.i.le178, align 8
  %cmp58.i = icmp sgt i64 %47, 0
  br i1 %cmp58.i, label %for.body.lr.ph.i50, label %for.cond3.preheader.i

for.body.lr.ph.i50:
  %arrays.i51 = getelementptr inbounds nuw i8, ptr %record.0114, i64 24
  br label %for.body.i52

for.cond3.preheader.i:
  %48 = load i64, ptr %number_count.i, align 8
  %cmp460.i = icmp sgt i64 %48, 0
  br i1 %cmp460.i, label %for.body6.lr.ph.i, label %for.cond14.preheader.i

for.body6.lr.ph.i:
  %numbers.i49 = getelementptr inbounds nuw i8, ptr %record.0114, i64 40
  br label %for.body6.i

for.body.i52:
  %49 = phi i64 [ %47, %for.body.lr.ph.i50 ], [ %57, %patch.exit.i ]
  %k.059.i = phi i64 [ 0, %for.body.lr.ph.i50 ], [ %inc.i59, %patch.exit.i ]
  %50 = load ptr, ptr %arrays.i51, align 8
  %arrayidx.i53 = getelementptr inbounds nuw %struct.array, ptr %50, i64 %k.059.i
  %patches.i = getelementptr inbounds nuw i8, ptr %arrayidx.i53, i64 40
  %51 = load ptr, ptr %patches.i, align 8
  %patch_count.i = getelementptr inbounds nuw i8, ptr %arrayidx.i53, i64 48
  %52 = load i64, ptr %patch_count.i, align 8
  %53 = load i64, ptr %arrayidx.i53, align 8
  %cmp.i.i54 = icmp slt i64 %53, 0
  %captured.i.i55 = getelementptr inbounds nuw i8, ptr %arrayidx.i53, i64 8
  %arrayidx.i.i56 = getelementptr inbounds nuw ptr, ptr %arguments, i64 %53
  %cond.in.i.i57 = select i1 %cmp.i.i54, ptr %captured.i.i55, ptr %arrayidx.i.i56
  %cond.i.i58 = load ptr, ptr %cond.in.i.i57, align 8
  %data.i.i = getelementptr inbounds nuw i8, ptr %cond.i.i58, i64 16
  %54 = load ptr, ptr %data.i.i, align 8
  %55 = ptrtoint ptr %54 to i64
  %cmp3.i.i = icmp sgt i64 %52, 0
  br i1 %cmp3.i.i, label %for.body.i.i60, label %patch.exit.i

for.body.i.i60:
  %k.04.i.i61 = phi i64 [ %inc.i.i62, %for.body.i.i60 ], [ 0, %for.body.i52 ]
  %arrayidx.i42.i = getelementptr inbounds nuw ptr, ptr %51, i64 %k.04.i.i61
  %56 = load ptr, ptr %arrayidx.i42.i, align 8
  store i64 %55, ptr %56, align 8
  %inc.i.i62 = add nuw nsw i64 %k.04.i.i61, 1
  %exitcond.not.i.i63 = icmp eq i64 %inc.i.i62, %52
  br i1 %exitcond.not.i.i63, label %patch.exit.loopexit.i, label %for.body.i.i60

patch.exit.loopexit.i:
  %.pre.i = load i64, ptr %array_count.i.le178, align 8
  br label %patch.exit.i

patch.exit.i:
  %57 = phi i64 [ %.pre.i, %patch.exit.loopexit.i ], [ %49, %for.body.i52 ]
  %inc.i59 = add nuw nsw i64 %k.059.i, 1
  %cmp.i = icmp slt i64 %inc.i59, %57
  br i1 %cmp.i, label %for.body.i52, label %for.cond3.preheader.i

for.cond14.preheader.i:
  %58 = load i64, ptr %result_count, align 8
  %cmp1562.i = icmp sgt i64 %58, 0
  br i1 %cmp1562.i, label %for.body17.i, label %patch_operations.exit

for.body6.i:
  %59 = phi i64 [ %48, %for.body6.lr.ph.i ], [ %65, %patch.exit49.i ]
  %k2.061.i = phi i64 [ 0, %for.body6.lr.ph.i ], [ %inc11.i, %patch.exit49.i ]
  %60 = load ptr, ptr %numbers.i49, align 8
  %arrayidx7.i = getelementptr inbounds nuw %struct.number, ptr %60, i64 %k2.061.i
  %patches8.i = getelementptr inbounds nuw i8, ptr %arrayidx7.i, i64 40
  %61 = load ptr, ptr %patches8.i, align 8
  %patch_count9.i = getelementptr inbounds nuw i8, ptr %arrayidx7.i, i64 48
  %62 = load i64, ptr %patch_count9.i, align 8
  %bits.i = getelementptr inbounds nuw i8, ptr %arrayidx7.i, i64 32
  %63 = load i64, ptr %bits.i, align 8
  %cmp3.i43.i = icmp sgt i64 %62, 0
  br i1 %cmp3.i43.i, label %for.body.i44.i, label %patch.exit49.i

for.body.i44.i:
  %k.04.i45.i = phi i64 [ %inc.i47.i, %for.body.i44.i ], [ 0, %for.body6.i ]
  %arrayidx.i46.i = getelementptr inbounds nuw ptr, ptr %61, i64 %k.04.i45.i
  %64 = load ptr, ptr %arrayidx.i46.i, align 8
  store i64 %63, ptr %64, align 8
  %inc.i47.i = add nuw nsw i64 %k.04.i45.i, 1
  %exitcond.not.i48.i = icmp eq i64 %inc.i47.i, %62
  br i1 %exitcond.not.i48.i, label %patch.exit49.loopexit.i, label %for.body.i44.i

patch.exit49.loopexit.i:
  %.pre64.i = load i64, ptr %number_count.i, align 8
  br label %patch.exit49.i

patch.exit49.i:
  %65 = phi i64 [ %.pre64.i, %patch.exit49.loopexit.i ], [ %59, %for.body6.i ]
  %inc11.i = add nuw nsw i64 %k2.061.i, 1
  %cmp4.i = icmp slt i64 %inc11.i, %65
  br i1 %cmp4.i, label %for.body6.i, label %for.cond14.preheader.i

for.body17.i:
  %66 = phi i64 [ %74, %patch.exit57.i ], [ %58, %for.cond14.preheader.i ]
  %k13.063.i = phi i64 [ %inc23.i, %patch.exit57.i ], [ 0, %for.cond14.preheader.i ]
  %67 = load ptr, ptr %results, align 8
  %arrayidx18.i = getelementptr inbounds nuw %struct.result, ptr %67, i64 %k13.063.i
  %patches19.i = getelementptr inbounds nuw i8, ptr %arrayidx18.i, i64 40
  %68 = load ptr, ptr %patches19.i, align 8
  %patch_count20.i = getelementptr inbounds nuw i8, ptr %arrayidx18.i, i64 48
  %69 = load i64, ptr %patch_count20.i, align 8
  %made.i48 = getelementptr inbounds nuw i8, ptr %arrayidx18.i, i64 56
  %70 = load ptr, ptr %made.i48, align 8
  %data.i50.i = getelementptr inbounds nuw i8, ptr %70, i64 16
  %71 = load ptr, ptr %data.i50.i, align 8
  %72 = ptrtoint ptr %71 to i64
  %cmp3.i51.i = icmp sgt i64 %69, 0
  br i1 %cmp3.i51.i, label %for.body.i52.i, label %patch.exit57.i

for.body.i52.i:
  %k.04.i53.i = phi i64 [ %inc.i55.i, %for.body.i52.i ], [ 0, %for.body17.i ]
  %arrayidx.i54.i = getelementptr inbounds nuw ptr, ptr %68, i64 %k.04.i53.i
  %73 = load ptr, ptr %arrayidx.i54.i, align 8
  store i64 %72, ptr %73, align 8
  %inc.i55.i = add nuw nsw i64 %k.04.i53.i, 1
  %exitcond.not.i56.i = icmp eq i64 %inc.i55.i, %69
  br i1 %exitcond.not.i56.i, label %patch.exit57.loopexit.i, label %for.body.i52.i

patch.exit57.loopexit.i:
  %.pre65.i = load i64, ptr %result_count, align 8
  br label %patch.exit57.i

patch.exit57.i:
  %74 = phi i64 [ %.pre65.i, %patch.exit57.loopexit.i ], [ %66, %for.body17.i ]
  %inc23.i = add nuw nsw i64 %k13.063.i, 1
  %cmp15.i = icmp slt i64 %inc23.i, %74
  br i1 %cmp15.i, label %for.body17.i, label %patch_operations.exit

patch_operations.exit:
  %call4 = call ptr @PyEval_SaveThread() nounwind
  %operations = getelementptr inbounds nuw i8, ptr %record.0114, i64 72
  %75 = load ptr, ptr %operations, align 8
  %operation_count = getelementptr inbounds nuw i8, ptr %record.0114, i64 80
  %76 = load i64, ptr %operation_count, align 8
  %call5 = call fastcc zeroext i1 @execute(ptr %75, i64 %76, i64 0) nounwind
  call void @PyEval_RestoreThread(ptr %call4) nounwind
  %77 = load ptr, ptr %results, align 8
  %78 = load i64, ptr %result_count, align 8
  br i1 %call5, label %if.then6, label %if.end

if.then6:
  %cmp.i64 = icmp eq i64 %78, 1
  br i1 %cmp.i64, label %if.then.i77, label %if.end.i

if.then.i77:
  %made.i78 = getelementptr inbounds nuw i8, ptr %77, i64 56
  %79 = load ptr, ptr %made.i78, align 8
  br label %cleanup.thread

if.end.i:
  %call.i = call ptr @PyTuple_New(i64 %78) nounwind
  %tobool.not.i65 = icmp eq ptr %call.i, null
  %cmp3.i.i66 = icmp sgt i64 %78, 0
  br i1 %tobool.not.i65, label %if.then1.i, label %for.cond.preheader.i67

for.cond.preheader.i67:
  br i1 %cmp3.i.i66, label %for.body.i68, label %cleanup.thread

if.then1.i:
  br i1 %cmp3.i.i66, label %for.body.i.i71, label %cleanup.thread

for.body.i.i71:
  %k.04.i.i72 = phi i64 [ %inc.i.i75, %for.body.i.i71 ], [ 0, %if.then1.i ]
  %arrayidx.i.i73 = getelementptr inbounds nuw %struct.result, ptr %77, i64 %k.04.i.i72
  %made.i.i74 = getelementptr inbounds nuw i8, ptr %arrayidx.i.i73, i64 56
  %80 = load ptr, ptr %made.i.i74, align 8
  call void @Py_DecRef(ptr %80) nounwind
  %inc.i.i75 = add nuw nsw i64 %k.04.i.i72, 1
  %exitcond.not.i.i76 = icmp eq i64 %inc.i.i75, %78
  br i1 %exitcond.not.i.i76, label %cleanup.thread, label %for.body.i.i71

for.body.i68:
  %k.019.i = phi i64 [ %inc.i69, %for.body.i68 ], [ 0, %for.cond.preheader.i67 ]
  %arrayidx4.i = getelementptr inbounds nuw %struct.result, ptr %77, i64 %k.019.i
  %made5.i = getelementptr inbounds nuw i8, ptr %arrayidx4.i, i64 56
  %81 = load ptr, ptr %made5.i, align 8
  %call6.i = call i32 @PyTuple_SetItem(ptr %call.i, i64 %k.019.i, ptr %81) nounwind
  %inc.i69 = add nuw nsw i64 %k.019.i, 1
  %exitcond.not.i70 = icmp eq i64 %inc.i69, %78
  br i1 %exitcond.not.i70, label %cleanup.thread, label %for.body.i68

if.end:
  %cmp3.i = icmp sgt i64 %78, 0
  br i1 %cmp3.i, label %for.body.i79, label %cleanup

for.body.i79:
  %k.04.i = phi i64 [ %inc.i82, %for.body.i79 ], [ 0, %if.end ]
  %arrayidx.i80 = getelementptr inbounds nuw %struct.result, ptr %77, i64 %k.04.i
  %made.i81 = getelementptr inbounds nuw i8, ptr %arrayidx.i80, i64 56
  %82 = load ptr, ptr %made.i81, align 8
  call void @Py_DecRef(ptr %82) nounwind
  %inc.i82 = add nuw nsw i64 %k.04.i, 1
  %exitcond.not.i83 = icmp eq i64 %inc.i82, %78
  br i1 %exitcond.not.i83, label %cleanup, label %for.body.i79

cleanup.thread:
  %retval.0.ph = phi ptr [ null, %for.body.i.i71 ], [ null, %if.then1.i ], [ %call.i, %for.cond.preheader.i67 ], [ %79, %if.then.i77 ], [ %call.i, %for.body.i68 ]
  store i64 0, ptr %busy.i.le181, align 8
  br label %cleanup16

cleanup:
  store i64 0, ptr %busy.i.le181, align 8
  br label %if.end15

if.end15:
  call void @Py_IncRef(ptr @_Py_NoneStruct) nounwind
  br label %cleanup16

cleanup16:
  %retval.1 = phi ptr [ @_Py_NoneStruct, %if.end15 ], [ %retval.0.ph, %cleanup.thread ]
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

declare void @llvm.memcpy.p0.p0.i64(ptr noalias, ptr noalias, i64, i1 immarg) nounwind

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

declare void @parallel(ptr, ptr, i64, i64) nounwind

declare void @llvm.memset.p0.i64(ptr, i8, i64, i1 immarg) nounwind

declare ptr @PyEval_SaveThread() nounwind

declare void @PyEval_RestoreThread(ptr) nounwind

declare void @Py_IncRef(ptr) nounwind

declare double @PyFloat_AsDouble(ptr) nounwind

declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr) nounwind

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

declare void @Py_DecRef(ptr) nounwind

declare ptr @PyTuple_New(i64) nounwind

declare i32 @PyTuple_SetItem(ptr, i64, ptr) nounwind
