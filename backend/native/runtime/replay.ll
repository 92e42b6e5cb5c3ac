; replay.c, compiled by clang 22.1.8 (ziglang 0.17.1) and tidied by
; python -m treadle.backend.native.runtime.build: change the C file, not this one.
; python -m ziglang cc -target x86_64-linux-gnu -S -emit-llvm -Os -g0 -std=gnu11 -fPIC -Wall -Wextra -Werror -Wno-unused-command-line-argument -fno-sanitize=all -fno-stack-protector -fno-asynchronous-unwind-tables -fno-vectorize -fno-slp-vectorize -fno-unroll-loops -fno-strict-aliasing -fno-ident -fno-discard-value-names -Xclang -no-enable-noundef-analysis -isystem PYTHON -isystem NUMPY replay.c
; sha256 of replay.c, team.h: 9cc849ab3fc2fab0283194fcb79d57310c9236c0d30898cff7d8b5ff6025e1d4

%struct.runner = type { ptr, i64, i64, i64 }
%struct.state = type { %struct.moving, ptr, i64, i64, i64, ptr, i64 }
%struct.moving = type { ptr, i64, ptr, i64 }
%struct.made = type { %struct.moving, i64, i64, i64, i64 }
%struct.room = type { ptr, i64, i64 }
%struct.array = type { i64, ptr, ptr, i64, ptr, ptr, i64 }
%struct.dimension = type { i64, i64 }
%struct.number = type { i64, i64, i64, i64, i64, ptr, i64 }
%struct.result = type { ptr, i64, ptr, ptr, i64, ptr, i64, ptr }
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
  %cmp151 = icmp sgt i64 %1, 0
  br i1 %cmp151, label %for.body.lr.ph, label %for.cond.cleanup

for.body.lr.ph:
  %iterations.i = getelementptr inbounds nuw i8, ptr %runner, i64 8
  %since.i = getelementptr inbounds nuw i8, ptr %runner, i64 24
  %interval5.i = getelementptr inbounds nuw i8, ptr %runner, i64 16
  br label %for.body

for.cond.cleanup:
  %outcome.0.lcssa = phi i32 [ 0, %entry ], [ %call20.i, %if.end21.i ], [ %call24.i, %if.end25.i ], [ 2, %if.end13.i ], [ %call.i, %if.then8.i ], [ %outcome.1, %for.inc ]
  ret i32 %outcome.0.lcssa

for.body:
  %op.0152 = phi ptr [ %0, %for.body.lr.ph ], [ %incdec.ptr, %for.inc ]
  %2 = load i64, ptr %op.0152, align 8
  %conv = trunc i64 %2 to i32
  switch i32 %conv, label %for.inc [
    i32 0, label %sw.bb
    i32 1, label %sw.bb3
    i32 2, label %sw.bb6
    i32 3, label %sw.bb10
    i32 4, label %sw.bb12
    i32 5, label %sw.bb14
  ]

sw.bb:
  %target = getelementptr inbounds nuw i8, ptr %op.0152, i64 8
  %3 = load ptr, ptr %target, align 8
  %source = getelementptr inbounds nuw i8, ptr %op.0152, i64 16
  %4 = load ptr, ptr %source, align 8
  %size = getelementptr inbounds nuw i8, ptr %op.0152, i64 24
  %5 = load i64, ptr %size, align 8
  %threads = getelementptr inbounds nuw i8, ptr %op.0152, i64 32
  %6 = load i64, ptr %threads, align 8
  tail call void @parallel(ptr %3, ptr %4, i64 %5, i64 %6) nounwind
  br label %for.inc

sw.bb3:
  %target4 = getelementptr inbounds nuw i8, ptr %op.0152, i64 8
  %7 = load ptr, ptr %target4, align 8
  %size5 = getelementptr inbounds nuw i8, ptr %op.0152, i64 24
  %8 = load i64, ptr %size5, align 8
  tail call void @llvm.memset.p0.i64(ptr align 1 %7, i8 0, i64 %8, i1 false)
  br label %for.inc

sw.bb6:
  %target7 = getelementptr inbounds nuw i8, ptr %op.0152, i64 8
  %9 = load ptr, ptr %target7, align 8
  %source8 = getelementptr inbounds nuw i8, ptr %op.0152, i64 16
  %10 = load ptr, ptr %source8, align 8
  %size9 = getelementptr inbounds nuw i8, ptr %op.0152, i64 24
  %11 = load i64, ptr %size9, align 8
  tail call void @llvm.memcpy.p0.p0.i64(ptr align 1 %9, ptr align 1 %10, i64 %11, i1 false)
  br label %for.inc

sw.bb10:
  %target11 = getelementptr inbounds nuw i8, ptr %op.0152, i64 8
  %12 = load ptr, ptr %target11, align 8
  %13 = load i64, ptr %12, align 8
  %tobool.not = icmp ne i64 %13, 0
  %cond = zext i1 %tobool.not to i32
  br label %for.inc

sw.bb12:
  %target13 = getelementptr inbounds nuw i8, ptr %op.0152, i64 8
  %14 = load ptr, ptr %target13, align 8
  %computed_limit.i = getelementptr inbounds nuw i8, ptr %14, i64 16
  %15 = load ptr, ptr %computed_limit.i, align 8
  %tobool.not.i = icmp eq ptr %15, null
  br i1 %tobool.not.i, label %if.end.i, label %if.then.i

if.then.i:
  %16 = load i64, ptr %15, align 8
  %limit.i = getelementptr inbounds nuw i8, ptr %14, i64 8
  store i64 %16, ptr %limit.i, align 8
  br label %if.end.i

if.end.i:
  %state_count.i106 = getelementptr inbounds nuw i8, ptr %14, i64 96
  %17 = load i64, ptr %state_count.i106, align 8
  %cmp37.i = icmp sgt i64 %17, 0
  br i1 %cmp37.i, label %for.body.lr.ph.i107, label %enter_loop.exit

for.body.lr.ph.i107:
  %states.i108 = getelementptr inbounds nuw i8, ptr %14, i64 88
  %made2.i = getelementptr inbounds nuw i8, ptr %14, i64 104
  %limit.i109 = getelementptr inbounds nuw i8, ptr %14, i64 8
  %rooms.i110 = getelementptr inbounds nuw i8, ptr %14, i64 120
  br label %for.body.i111

for.body.i111:
  %k.038.i = phi i64 [ 0, %for.body.lr.ph.i107 ], [ %inc.i126, %place.exit.i125 ]
  %18 = load ptr, ptr %states.i108, align 8
  %arrayidx.i112 = getelementptr inbounds nuw %struct.state, ptr %18, i64 %k.038.i
  %first.i = getelementptr inbounds nuw i8, ptr %arrayidx.i112, i64 32
  %19 = load ptr, ptr %first.i, align 8
  %copied.i = getelementptr inbounds nuw i8, ptr %arrayidx.i112, i64 40
  %20 = load i64, ptr %copied.i, align 8
  %tobool.not.i113 = icmp eq i64 %20, 0
  br i1 %tobool.not.i113, label %if.end17.i, label %if.then.i114

if.then.i114:
  %result.i115 = getelementptr inbounds nuw i8, ptr %arrayidx.i112, i64 48
  %21 = load i64, ptr %result.i115, align 8
  %source.i = getelementptr inbounds nuw i8, ptr %arrayidx.i112, i64 56
  %22 = load i64, ptr %source.i, align 8
  %cmp1.i116 = icmp slt i64 %22, 0
  br i1 %cmp1.i116, label %land.lhs.true.i133, label %if.end.i117

land.lhs.true.i133:
  %not.i134 = xor i64 %22, -1
  %23 = load ptr, ptr %made2.i, align 8
  %arrayidx3.i = getelementptr inbounds nuw %struct.made, ptr %23, i64 %not.i134
  %partner.i135 = getelementptr inbounds nuw i8, ptr %arrayidx3.i, i64 56
  %24 = load i64, ptr %partner.i135, align 8
  %cmp4.i = icmp sgt i64 %24, -1
  br i1 %cmp4.i, label %land.lhs.true5.i, label %if.end.i117

land.lhs.true5.i:
  %25 = load i64, ptr %limit.i109, align 8
  %26 = load i64, ptr %14, align 8
  %sub.i136 = sub nsw i64 %25, %26
  %27 = and i64 %sub.i136, 1
  %tobool7.not.i137 = icmp eq i64 %27, 0
  %spec.select.i = select i1 %tobool7.not.i137, i64 %21, i64 %24
  br label %if.end.i117

if.end.i117:
  %room.0.i = phi i64 [ %21, %if.then.i114 ], [ %spec.select.i, %land.lhs.true5.i ], [ %21, %land.lhs.true.i133 ]
  %28 = load ptr, ptr %rooms.i110, align 8
  %arrayidx12.i = getelementptr inbounds %struct.room, ptr %28, i64 %room.0.i
  %29 = load ptr, ptr %arrayidx12.i, align 8
  %bytes.i118 = getelementptr inbounds nuw i8, ptr %arrayidx12.i, i64 8
  %30 = load i64, ptr %bytes.i118, align 8
  tail call void @llvm.memcpy.p0.p0.i64(ptr align 1 %29, ptr align 1 %19, i64 %30, i1 false)
  br label %if.end17.i

if.end17.i:
  %address.0.i = phi ptr [ %29, %if.end.i117 ], [ %19, %for.body.i111 ]
  %room.1.i = phi i64 [ %room.0.i, %if.end.i117 ], [ -1, %for.body.i111 ]
  %room1.i.i119 = getelementptr inbounds nuw i8, ptr %arrayidx.i112, i64 8
  store i64 %room.1.i, ptr %room1.i.i119, align 8
  %31 = load ptr, ptr %arrayidx.i112, align 8
  %cmp.not.i.i120 = icmp eq ptr %31, %address.0.i
  br i1 %cmp.not.i.i120, label %place.exit.i125, label %if.then.i.i121

if.then.i.i121:
  store ptr %address.0.i, ptr %arrayidx.i112, align 8
  %patches.i.i122 = getelementptr inbounds nuw i8, ptr %arrayidx.i112, i64 16
  %32 = load ptr, ptr %patches.i.i122, align 8
  %patch_count.i.i123 = getelementptr inbounds nuw i8, ptr %arrayidx.i112, i64 24
  %33 = load i64, ptr %patch_count.i.i123, align 8
  %34 = ptrtoint ptr %address.0.i to i64
  %cmp3.i.i.i124 = icmp sgt i64 %33, 0
  br i1 %cmp3.i.i.i124, label %for.body.i.i.i128, label %place.exit.i125

for.body.i.i.i128:
  %k.04.i.i.i129 = phi i64 [ %inc.i.i.i131, %for.body.i.i.i128 ], [ 0, %if.then.i.i121 ]
  %arrayidx.i.i.i130 = getelementptr inbounds nuw ptr, ptr %32, i64 %k.04.i.i.i129
  %35 = load ptr, ptr %arrayidx.i.i.i130, align 8
  store i64 %34, ptr %35, align 8
  %inc.i.i.i131 = add nuw nsw i64 %k.04.i.i.i129, 1
  %exitcond.not.i.i.i132 = icmp eq i64 %inc.i.i.i131, %33
  br i1 %exitcond.not.i.i.i132, label %place.exit.i125, label %for.body.i.i.i128

place.exit.i125:
  %inc.i126 = add nuw nsw i64 %k.038.i, 1
  %36 = load i64, ptr %state_count.i106, align 8
  %cmp.i127 = icmp slt i64 %inc.i126, %36
  br i1 %cmp.i127, label %for.body.i111, label %enter_loop.exit

enter_loop.exit:
  %37 = phi i64 [ %17, %if.end.i ], [ %36, %place.exit.i125 ]
  %38 = load i64, ptr %14, align 8
  %limit2.i = getelementptr inbounds nuw i8, ptr %14, i64 8
  %39 = load i64, ptr %limit2.i, align 8
  %cmp.i149 = icmp slt i64 %38, %39
  br i1 %cmp.i149, label %for.body.i.lr.ph, label %for.end.i

for.body.i.lr.ph:
  %room_count.i = getelementptr inbounds nuw i8, ptr %14, i64 128
  %rooms.i101 = getelementptr inbounds nuw i8, ptr %14, i64 120
  %states.i95 = getelementptr inbounds nuw i8, ptr %14, i64 88
  %made_count.i = getelementptr inbounds nuw i8, ptr %14, i64 112
  %made23.i = getelementptr inbounds nuw i8, ptr %14, i64 104
  %counter.i = getelementptr inbounds nuw i8, ptr %14, i64 24
  %test.i = getelementptr inbounds nuw i8, ptr %14, i64 32
  %look.i = getelementptr inbounds nuw i8, ptr %14, i64 40
  %once.i = getelementptr inbounds nuw i8, ptr %14, i64 56
  %rest.i = getelementptr inbounds nuw i8, ptr %14, i64 72
  br label %for.body.i

for.body.i:
  %40 = phi i64 [ %37, %for.body.i.lr.ph ], [ %98, %next_state.exit ]
  %k.0.i150 = phi i64 [ %38, %for.body.i.lr.ph ], [ %inc.i, %next_state.exit ]
  %41 = load i64, ptr %room_count.i, align 8
  %cmp74.i = icmp sgt i64 %41, 0
  br i1 %cmp74.i, label %for.body.i102, label %for.cond2.preheader.i

for.cond2.preheader.i.loopexit:
  %.pre = load i64, ptr %state_count.i106, align 8
  br label %for.cond2.preheader.i

for.cond2.preheader.i:
  %42 = phi i64 [ %.pre, %for.cond2.preheader.i.loopexit ], [ %40, %for.body.i ]
  %cmp376.i = icmp sgt i64 %42, 0
  br i1 %cmp376.i, label %for.body5.i, label %for.cond19.preheader.i

for.body.i102:
  %k.075.i = phi i64 [ %inc.i104, %for.body.i102 ], [ 0, %for.body.i ]
  %43 = load ptr, ptr %rooms.i101, align 8
  %arrayidx.i103 = getelementptr inbounds nuw %struct.room, ptr %43, i64 %k.075.i
  %taken.i = getelementptr inbounds nuw i8, ptr %arrayidx.i103, i64 16
  store i64 0, ptr %taken.i, align 8
  %inc.i104 = add nuw nsw i64 %k.075.i, 1
  %44 = load i64, ptr %room_count.i, align 8
  %cmp.i105 = icmp slt i64 %inc.i104, %44
  br i1 %cmp.i105, label %for.body.i102, label %for.cond2.preheader.i.loopexit

for.cond19.preheader.i:
  %45 = load i64, ptr %made_count.i, align 8
  %cmp2081.i = icmp sgt i64 %45, 0
  br i1 %cmp2081.i, label %for.body22.i, label %choose_rooms.exit

for.body5.i:
  %46 = phi i64 [ %50, %for.inc15.i ], [ %42, %for.cond2.preheader.i ]
  %k1.077.i = phi i64 [ %inc16.i, %for.inc15.i ], [ 0, %for.cond2.preheader.i ]
  %47 = load ptr, ptr %states.i95, align 8
  %arrayidx6.i = getelementptr inbounds nuw %struct.state, ptr %47, i64 %k1.077.i
  %room.i96 = getelementptr inbounds nuw i8, ptr %arrayidx6.i, i64 8
  %48 = load i64, ptr %room.i96, align 8
  %cmp7.i = icmp sgt i64 %48, -1
  br i1 %cmp7.i, label %if.then.i98, label %for.inc15.i

if.then.i98:
  %49 = load ptr, ptr %rooms.i101, align 8
  %arrayidx13.i = getelementptr inbounds nuw %struct.room, ptr %49, i64 %48
  %taken14.i = getelementptr inbounds nuw i8, ptr %arrayidx13.i, i64 16
  store i64 1, ptr %taken14.i, align 8
  %.pre.i99 = load i64, ptr %state_count.i106, align 8
  br label %for.inc15.i

for.inc15.i:
  %50 = phi i64 [ %46, %for.body5.i ], [ %.pre.i99, %if.then.i98 ]
  %inc16.i = add nuw nsw i64 %k1.077.i, 1
  %cmp3.i97 = icmp slt i64 %inc16.i, %50
  br i1 %cmp3.i97, label %for.body5.i, label %for.cond19.preheader.i

for.body22.i:
  %k18.082.i = phi i64 [ %inc43.i, %place.exit.i85 ], [ 0, %for.cond19.preheader.i ]
  %51 = load ptr, ptr %made23.i, align 8
  %arrayidx24.i = getelementptr inbounds nuw %struct.made, ptr %51, i64 %k18.082.i
  %first_room.i = getelementptr inbounds nuw i8, ptr %arrayidx24.i, i64 32
  %52 = load i64, ptr %first_room.i, align 8
  %partner.i = getelementptr inbounds nuw i8, ptr %arrayidx24.i, i64 56
  %53 = load i64, ptr %partner.i, align 8
  %cmp26.i78 = icmp sgt i64 %53, -1
  br i1 %cmp26.i78, label %if.then27.i, label %while.cond.preheader.i

while.cond.preheader.i:
  %last_room.i = getelementptr inbounds nuw i8, ptr %arrayidx24.i, i64 40
  %54 = load i64, ptr %last_room.i, align 8
  %cmp2978.i = icmp slt i64 %52, %54
  br i1 %cmp2978.i, label %land.rhs.lr.ph.i, label %if.end35.i

land.rhs.lr.ph.i:
  %55 = load ptr, ptr %rooms.i101, align 8
  br label %land.rhs.i

if.then27.i:
  %56 = load i64, ptr %limit2.i, align 8
  %sub.i91 = sub nsw i64 %56, %k.0.i150
  %57 = and i64 %sub.i91, 1
  %tobool.not.i92 = icmp eq i64 %57, 0
  br i1 %tobool.not.i92, label %if.end35.i, label %cond.true.i93

cond.true.i93:
  %result.i94 = getelementptr inbounds nuw i8, ptr %arrayidx24.i, i64 48
  %58 = load i64, ptr %result.i94, align 8
  br label %if.end35.i

land.rhs.i:
  %room25.079.i = phi i64 [ %52, %land.rhs.lr.ph.i ], [ %inc34.i, %while.body.i ]
  %arrayidx31.i = getelementptr inbounds %struct.room, ptr %55, i64 %room25.079.i
  %taken32.i = getelementptr inbounds nuw i8, ptr %arrayidx31.i, i64 16
  %59 = load i64, ptr %taken32.i, align 8
  %tobool33.not.i = icmp eq i64 %59, 0
  br i1 %tobool33.not.i, label %if.end35.i, label %while.body.i

while.body.i:
  %inc34.i = add i64 %room25.079.i, 1
  %exitcond.not.i = icmp eq i64 %inc34.i, %54
  br i1 %exitcond.not.i, label %if.end35.i, label %land.rhs.i

if.end35.i:
  %room25.1.i = phi i64 [ %58, %cond.true.i93 ], [ %53, %if.then27.i ], [ %52, %while.cond.preheader.i ], [ %room25.079.i, %land.rhs.i ], [ %54, %while.body.i ]
  %60 = load ptr, ptr %rooms.i101, align 8
  %arrayidx37.i = getelementptr inbounds %struct.room, ptr %60, i64 %room25.1.i
  %taken38.i = getelementptr inbounds nuw i8, ptr %arrayidx37.i, i64 16
  store i64 1, ptr %taken38.i, align 8
  %61 = load ptr, ptr %rooms.i101, align 8
  %arrayidx41.i = getelementptr inbounds %struct.room, ptr %61, i64 %room25.1.i
  %62 = load ptr, ptr %arrayidx41.i, align 8
  %room1.i.i79 = getelementptr inbounds nuw i8, ptr %arrayidx24.i, i64 8
  store i64 %room25.1.i, ptr %room1.i.i79, align 8
  %63 = load ptr, ptr %arrayidx24.i, align 8
  %cmp.not.i.i80 = icmp eq ptr %63, %62
  br i1 %cmp.not.i.i80, label %place.exit.i85, label %if.then.i.i81

if.then.i.i81:
  store ptr %62, ptr %arrayidx24.i, align 8
  %patches.i.i82 = getelementptr inbounds nuw i8, ptr %arrayidx24.i, i64 16
  %64 = load ptr, ptr %patches.i.i82, align 8
  %patch_count.i.i83 = getelementptr inbounds nuw i8, ptr %arrayidx24.i, i64 24
  %65 = load i64, ptr %patch_count.i.i83, align 8
  %66 = ptrtoint ptr %62 to i64
  %cmp3.i.i.i84 = icmp sgt i64 %65, 0
  br i1 %cmp3.i.i.i84, label %for.body.i.i.i86, label %place.exit.i85

for.body.i.i.i86:
  %k.04.i.i.i87 = phi i64 [ %inc.i.i.i89, %for.body.i.i.i86 ], [ 0, %if.then.i.i81 ]
  %arrayidx.i.i.i88 = getelementptr inbounds nuw ptr, ptr %64, i64 %k.04.i.i.i87
  %67 = load ptr, ptr %arrayidx.i.i.i88, align 8
  store i64 %66, ptr %67, align 8
  %inc.i.i.i89 = add nuw nsw i64 %k.04.i.i.i87, 1
  %exitcond.not.i.i.i90 = icmp eq i64 %inc.i.i.i89, %65
  br i1 %exitcond.not.i.i.i90, label %place.exit.i85, label %for.body.i.i.i86

place.exit.i85:
  %inc43.i = add nuw nsw i64 %k18.082.i, 1
  %68 = load i64, ptr %made_count.i, align 8
  %cmp20.i = icmp slt i64 %inc43.i, %68
  br i1 %cmp20.i, label %for.body22.i, label %choose_rooms.exit

choose_rooms.exit:
  %69 = load ptr, ptr %counter.i, align 8
  %tobool3.not.i = icmp eq ptr %69, null
  br i1 %tobool3.not.i, label %if.end6.i, label %if.then4.i

if.then4.i:
  store i64 %k.0.i150, ptr %69, align 8
  br label %if.end6.i

if.end6.i:
  %70 = load ptr, ptr %test.i, align 8
  %tobool7.not.i = icmp eq ptr %70, null
  br i1 %tobool7.not.i, label %if.end16.i, label %if.then8.i

if.then8.i:
  %call.i = tail call fastcc i32 @run_part(ptr %look.i, ptr %runner) nounwind
  %cmp9.not.i = icmp eq i32 %call.i, 0
  br i1 %cmp9.not.i, label %if.end11.i, label %for.cond.cleanup

if.end11.i:
  %71 = load ptr, ptr %test.i, align 8
  %72 = load i8, ptr %71, align 1
  %tobool13.not.i = icmp eq i8 %72, 0
  br i1 %tobool13.not.i, label %if.end11.i.for.end.i.loopexit_crit_edge, label %if.end16.i

if.end11.i.for.end.i.loopexit_crit_edge:
  %.pre156.pre = load i64, ptr %state_count.i106, align 8
  br label %for.end.i

if.end16.i:
  %73 = load i64, ptr %14, align 8
  %cmp18.i = icmp eq i64 %k.0.i150, %73
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
  %74 = load i64, ptr %iterations.i, align 8
  %dec.i = add nsw i64 %74, -1
  store i64 %dec.i, ptr %iterations.i, align 8
  %cmp27.i = icmp slt i64 %74, 2
  br i1 %cmp27.i, label %if.then28.i, label %if.end33.i

if.then28.i:
  %call.i66 = tail call i64 @clock() nounwind
  %75 = load i64, ptr %since.i, align 8
  %sub.i = sub nsw i64 %call.i66, %75
  %cmp.i67 = icmp slt i64 %sub.i, 6250
  br i1 %cmp.i67, label %land.lhs.true.i73, label %if.else.i

land.lhs.true.i73:
  %76 = load i64, ptr %interval5.i, align 8
  %cmp1.i74 = icmp slt i64 %76, 4096
  br i1 %cmp1.i74, label %if.then.i75, label %if.end9.thread.i

if.then.i75:
  %mul.i = shl nsw i64 %76, 1
  store i64 %mul.i, ptr %interval5.i, align 8
  br label %if.end9.thread.i

if.else.i:
  %cmp3.i = icmp samesign ugt i64 %sub.i, 50000
  %77 = load i64, ptr %interval5.i, align 8
  br i1 %cmp3.i, label %land.lhs.true4.i, label %if.end9.i

land.lhs.true4.i:
  %cmp6.i = icmp sgt i64 %77, 1
  br i1 %cmp6.i, label %if.then7.i, label %if.end9.thread38.i

if.then7.i:
  %div32.i = lshr i64 %77, 1
  store i64 %div32.i, ptr %interval5.i, align 8
  br label %if.end9.thread38.i

if.end9.thread.i:
  %78 = phi i64 [ %mul.i, %if.then.i75 ], [ %76, %land.lhs.true.i73 ]
  store i64 %78, ptr %iterations.i, align 8
  br label %if.end33.i

if.end9.thread38.i:
  %79 = phi i64 [ %77, %land.lhs.true4.i ], [ %div32.i, %if.then7.i ]
  store i64 %79, ptr %iterations.i, align 8
  br label %if.end13.i

if.end9.i:
  store i64 %77, ptr %iterations.i, align 8
  %cmp11.not.i = icmp eq i64 %sub.i, 50000
  br i1 %cmp11.not.i, label %if.end13.i, label %if.end33.i

if.end13.i:
  %80 = load ptr, ptr %runner, align 8
  tail call void @PyEval_RestoreThread(ptr %80) nounwind
  %call14.i = tail call i32 @PyErr_CheckSignals() nounwind
  %call15.i = tail call ptr @PyEval_SaveThread() nounwind
  store ptr %call15.i, ptr %runner, align 8
  %call17.i = tail call i64 @clock() nounwind
  store i64 %call17.i, ptr %since.i, align 8
  %tobool.not.i71 = icmp eq i32 %call14.i, 0
  br i1 %tobool.not.i71, label %if.end33.i, label %for.cond.cleanup

if.end33.i:
  %81 = load i64, ptr %state_count.i106, align 8
  %cmp45.i = icmp sgt i64 %81, 0
  br i1 %cmp45.i, label %for.body.i52, label %next_state.exit

for.cond10.preheader.i:
  %82 = icmp sgt i64 %88, 0
  br i1 %82, label %for.body14.i, label %next_state.exit

for.body.i52:
  %k.046.i = phi i64 [ %inc.i57, %cond.end.i ], [ 0, %if.end33.i ]
  %83 = load ptr, ptr %states.i95, align 8
  %arrayidx.i53 = getelementptr inbounds nuw %struct.state, ptr %83, i64 %k.046.i
  %source1.i = getelementptr inbounds nuw i8, ptr %arrayidx.i53, i64 56
  %84 = load i64, ptr %source1.i, align 8
  %cmp2.i54 = icmp sgt i64 %84, -1
  br i1 %cmp2.i54, label %cond.true.i, label %cond.false.i

cond.true.i:
  %arrayidx5.i = getelementptr inbounds nuw %struct.state, ptr %83, i64 %84
  br label %cond.end.i

cond.false.i:
  %85 = load ptr, ptr %made23.i, align 8
  %not.i = xor i64 %84, -1
  %arrayidx7.i = getelementptr inbounds nuw %struct.made, ptr %85, i64 %not.i
  br label %cond.end.i

cond.end.i:
  %cond.i55 = phi ptr [ %arrayidx5.i, %cond.true.i ], [ %arrayidx7.i, %cond.false.i ]
  %86 = load ptr, ptr %cond.i55, align 8
  %next.i = getelementptr inbounds nuw i8, ptr %arrayidx.i53, i64 64
  store ptr %86, ptr %next.i, align 8
  %room.i56 = getelementptr inbounds nuw i8, ptr %cond.i55, i64 8
  %87 = load i64, ptr %room.i56, align 8
  %next_room.i = getelementptr inbounds nuw i8, ptr %arrayidx.i53, i64 72
  store i64 %87, ptr %next_room.i, align 8
  %inc.i57 = add nuw nsw i64 %k.046.i, 1
  %88 = load i64, ptr %state_count.i106, align 8
  %cmp.i58 = icmp slt i64 %inc.i57, %88
  br i1 %cmp.i58, label %for.body.i52, label %for.cond10.preheader.i

for.body14.i:
  %k9.048.i = phi i64 [ %inc25.i, %place.exit.i ], [ 0, %for.cond10.preheader.i ]
  %89 = load ptr, ptr %states.i95, align 8
  %arrayidx16.i60 = getelementptr inbounds nuw %struct.state, ptr %89, i64 %k9.048.i
  %next20.i = getelementptr inbounds nuw i8, ptr %arrayidx16.i60, i64 64
  %90 = load ptr, ptr %next20.i, align 8
  %next_room23.i = getelementptr inbounds nuw i8, ptr %arrayidx16.i60, i64 72
  %91 = load i64, ptr %next_room23.i, align 8
  %room1.i.i = getelementptr inbounds nuw i8, ptr %arrayidx16.i60, i64 8
  store i64 %91, ptr %room1.i.i, align 8
  %92 = load ptr, ptr %arrayidx16.i60, align 8
  %cmp.not.i.i = icmp eq ptr %92, %90
  br i1 %cmp.not.i.i, label %place.exit.i, label %if.then.i.i61

if.then.i.i61:
  store ptr %90, ptr %arrayidx16.i60, align 8
  %patches.i.i = getelementptr inbounds nuw i8, ptr %arrayidx16.i60, i64 16
  %93 = load ptr, ptr %patches.i.i, align 8
  %patch_count.i.i = getelementptr inbounds nuw i8, ptr %arrayidx16.i60, i64 24
  %94 = load i64, ptr %patch_count.i.i, align 8
  %95 = ptrtoint ptr %90 to i64
  %cmp3.i.i.i = icmp sgt i64 %94, 0
  br i1 %cmp3.i.i.i, label %for.body.i.i.i62, label %place.exit.i

for.body.i.i.i62:
  %k.04.i.i.i = phi i64 [ %inc.i.i.i64, %for.body.i.i.i62 ], [ 0, %if.then.i.i61 ]
  %arrayidx.i.i.i63 = getelementptr inbounds nuw ptr, ptr %93, i64 %k.04.i.i.i
  %96 = load ptr, ptr %arrayidx.i.i.i63, align 8
  store i64 %95, ptr %96, align 8
  %inc.i.i.i64 = add nuw nsw i64 %k.04.i.i.i, 1
  %exitcond.not.i.i.i65 = icmp eq i64 %inc.i.i.i64, %94
  br i1 %exitcond.not.i.i.i65, label %place.exit.i, label %for.body.i.i.i62

place.exit.i:
  %inc25.i = add nuw nsw i64 %k9.048.i, 1
  %97 = load i64, ptr %state_count.i106, align 8
  %cmp12.i = icmp slt i64 %inc25.i, %97
  br i1 %cmp12.i, label %for.body14.i, label %next_state.exit

next_state.exit:
  %98 = phi i64 [ %88, %for.cond10.preheader.i ], [ %81, %if.end33.i ], [ %97, %place.exit.i ]
  %inc.i = add nsw i64 %k.0.i150, 1
  %99 = load i64, ptr %limit2.i, align 8
  %cmp.i = icmp slt i64 %inc.i, %99
  br i1 %cmp.i, label %for.body.i, label %for.end.i

for.end.i:
  %100 = phi i64 [ %37, %enter_loop.exit ], [ %.pre156.pre, %if.end11.i.for.end.i.loopexit_crit_edge ], [ %98, %next_state.exit ]
  %cmp52.i = icmp sgt i64 %100, 0
  br i1 %cmp52.i, label %for.body.lr.ph.i, label %for.inc

for.body.lr.ph.i:
  %states.i = getelementptr inbounds nuw i8, ptr %14, i64 88
  %rooms76.i.i = getelementptr inbounds nuw i8, ptr %14, i64 120
  br label %for.body.i40

for.cond9.preheader.i:
  %cmp1154.i = icmp sgt i64 %119, 0
  br i1 %cmp1154.i, label %for.body13.i, label %for.inc

for.body.i40:
  %101 = phi i64 [ %100, %for.body.lr.ph.i ], [ %119, %if.end.i41 ]
  %k.053.i = phi i64 [ 0, %for.body.lr.ph.i ], [ %inc.i42, %if.end.i41 ]
  %102 = load ptr, ptr %states.i, align 8
  %arrayidx.i = getelementptr inbounds nuw %struct.state, ptr %102, i64 %k.053.i
  %result.i = getelementptr inbounds nuw i8, ptr %arrayidx.i, i64 48
  %103 = load i64, ptr %result.i, align 8
  %cmp1.i = icmp sgt i64 %103, -1
  br i1 %cmp1.i, label %land.lhs.true.i47, label %if.end.i41

land.lhs.true.i47:
  %room.i = getelementptr inbounds nuw i8, ptr %arrayidx.i, i64 8
  %104 = load i64, ptr %room.i, align 8
  %cmp2.i = icmp slt i64 %104, 0
  %cmp7.not.i = icmp eq i64 %104, %103
  %or.cond.i = or i1 %cmp2.i, %cmp7.not.i
  br i1 %or.cond.i, label %if.end.i41, label %if.then.i48

if.then.i48:
  %cmp69.i.i = icmp sgt i64 %101, 0
  br i1 %cmp69.i.i, label %for.body.i.i, label %for.cond.cleanup.thread.i.i

for.cond.cleanup.thread.i.i:
  %105 = load ptr, ptr %rooms76.i.i, align 8
  %arrayidx577.i.i = getelementptr inbounds nuw %struct.room, ptr %105, i64 %104
  %arrayidx778.i.i = getelementptr inbounds nuw %struct.room, ptr %105, i64 %103
  br label %if.then.i.i

for.cond.cleanup.i.i:
  %106 = load ptr, ptr %rooms76.i.i, align 8
  %arrayidx5.i.i = getelementptr inbounds nuw %struct.room, ptr %106, i64 %104
  %arrayidx7.i.i = getelementptr inbounds nuw %struct.room, ptr %106, i64 %103
  br i1 %or68.i.i, label %if.end.i.i, label %if.then.i.i

for.body.i.i:
  %taken.071.i.i = phi i1 [ %or68.i.i, %for.body.i.i ], [ false, %if.then.i48 ]
  %k.070.i.i = phi i64 [ %inc.i.i, %for.body.i.i ], [ 0, %if.then.i48 ]
  %arrayidx.i.i = getelementptr inbounds nuw %struct.state, ptr %102, i64 %k.070.i.i
  %room2.i.i = getelementptr inbounds nuw i8, ptr %arrayidx.i.i, i64 8
  %107 = load i64, ptr %room2.i.i, align 8
  %cmp3.i.i = icmp eq i64 %107, %103
  %or68.i.i = or i1 %taken.071.i.i, %cmp3.i.i
  %inc.i.i = add nuw nsw i64 %k.070.i.i, 1
  %exitcond.not.i.i = icmp eq i64 %inc.i.i, %101
  br i1 %exitcond.not.i.i, label %for.cond.cleanup.i.i, label %for.body.i.i

if.then.i.i:
  %arrayidx780.i.i = phi ptr [ %arrayidx778.i.i, %for.cond.cleanup.thread.i.i ], [ %arrayidx7.i.i, %for.cond.cleanup.i.i ]
  %arrayidx579.i.i = phi ptr [ %arrayidx577.i.i, %for.cond.cleanup.thread.i.i ], [ %arrayidx5.i.i, %for.cond.cleanup.i.i ]
  %108 = load ptr, ptr %arrayidx780.i.i, align 8
  %109 = load ptr, ptr %arrayidx579.i.i, align 8
  %bytes.i.i = getelementptr inbounds nuw i8, ptr %arrayidx780.i.i, i64 8
  %110 = load i64, ptr %bytes.i.i, align 8
  tail call void @llvm.memcpy.p0.p0.i64(ptr align 1 %108, ptr align 1 %109, i64 %110, i1 false)
  store i64 %103, ptr %room.i, align 8
  %.pre.i = load i64, ptr %state_count.i106, align 8
  br label %if.end.i41

if.end.i.i:
  %111 = load ptr, ptr %arrayidx5.i.i, align 8
  %112 = load ptr, ptr %arrayidx7.i.i, align 8
  %bytes14.i.i = getelementptr inbounds nuw i8, ptr %arrayidx7.i.i, i64 8
  %113 = load i64, ptr %bytes14.i.i, align 8
  %cmp11.i.i.i = icmp sgt i64 %113, 0
  br i1 %cmp11.i.i.i, label %for.body.i.i.i, label %for.body21.i.i.preheader

for.body.i.i.i:
  %k.012.i.i.i = phi i64 [ %inc.i.i.i, %for.body.i.i.i ], [ 0, %if.end.i.i ]
  %arrayidx.i.i.i = getelementptr inbounds nuw i8, ptr %111, i64 %k.012.i.i.i
  %114 = load i8, ptr %arrayidx.i.i.i, align 1
  %arrayidx1.i.i.i = getelementptr inbounds nuw i8, ptr %112, i64 %k.012.i.i.i
  %115 = load i8, ptr %arrayidx1.i.i.i, align 1
  store i8 %115, ptr %arrayidx.i.i.i, align 1
  store i8 %114, ptr %arrayidx1.i.i.i, align 1
  %inc.i.i.i = add nuw nsw i64 %k.012.i.i.i, 1
  %exitcond.not.i.i.i = icmp eq i64 %inc.i.i.i, %113
  br i1 %exitcond.not.i.i.i, label %swap_bytes.exit.i.i, label %for.body.i.i.i

swap_bytes.exit.i.i:
  %.pre.i.i = load i64, ptr %state_count.i106, align 8
  %cmp1872.i.i = icmp sgt i64 %.pre.i.i, 0
  br i1 %cmp1872.i.i, label %for.body21.i.i.preheader, label %if.end.i41

for.body21.i.i.preheader:
  br label %for.body21.i.i

for.body21.i.i:
  %k15.073.i.i = phi i64 [ %inc36.i.i, %for.body21.i.i ], [ 0, %for.body21.i.i.preheader ]
  %116 = load ptr, ptr %states.i, align 8
  %arrayidx24.i.i = getelementptr inbounds nuw %struct.state, ptr %116, i64 %k15.073.i.i
  %room26.i.i = getelementptr inbounds nuw i8, ptr %arrayidx24.i.i, i64 8
  %117 = load i64, ptr %room26.i.i, align 8
  %cmp27.i.i = icmp eq i64 %117, %104
  %cmp29.i.i = icmp eq i64 %117, %103
  %..i.i = select i1 %cmp29.i.i, i64 %104, i64 %117
  %cond34.i.i = select i1 %cmp27.i.i, i64 %103, i64 %..i.i
  store i64 %cond34.i.i, ptr %room26.i.i, align 8
  %inc36.i.i = add nuw nsw i64 %k15.073.i.i, 1
  %118 = load i64, ptr %state_count.i106, align 8
  %cmp18.i.i = icmp slt i64 %inc36.i.i, %118
  br i1 %cmp18.i.i, label %for.body21.i.i, label %if.end.i41

if.end.i41:
  %119 = phi i64 [ %101, %for.body.i40 ], [ %.pre.i.i, %swap_bytes.exit.i.i ], [ %.pre.i, %if.then.i.i ], [ %101, %land.lhs.true.i47 ], [ %118, %for.body21.i.i ]
  %inc.i42 = add nuw nsw i64 %k.053.i, 1
  %cmp.i43 = icmp slt i64 %inc.i42, %119
  br i1 %cmp.i43, label %for.body.i40, label %for.cond9.preheader.i

for.body13.i:
  %120 = phi i64 [ %128, %if.end29.i ], [ %119, %for.cond9.preheader.i ]
  %k8.055.i = phi i64 [ %inc31.i, %if.end29.i ], [ 0, %for.cond9.preheader.i ]
  %121 = load ptr, ptr %states.i, align 8
  %arrayidx16.i = getelementptr inbounds nuw %struct.state, ptr %121, i64 %k8.055.i
  %result17.i = getelementptr inbounds nuw i8, ptr %arrayidx16.i, i64 48
  %122 = load i64, ptr %result17.i, align 8
  %cmp18.i44 = icmp sgt i64 %122, -1
  br i1 %cmp18.i44, label %land.lhs.true19.i, label %if.end29.i

land.lhs.true19.i:
  %room21.i = getelementptr inbounds nuw i8, ptr %arrayidx16.i, i64 8
  %123 = load i64, ptr %room21.i, align 8
  %cmp22.i45 = icmp slt i64 %123, 0
  br i1 %cmp22.i45, label %if.then23.i46, label %if.end29.i

if.then23.i46:
  %124 = load ptr, ptr %rooms76.i.i, align 8
  %arrayidx26.i = getelementptr inbounds nuw %struct.room, ptr %124, i64 %122
  %125 = load ptr, ptr %arrayidx26.i, align 8
  %126 = load ptr, ptr %arrayidx16.i, align 8
  %bytes.i = getelementptr inbounds nuw i8, ptr %arrayidx26.i, i64 8
  %127 = load i64, ptr %bytes.i, align 8
  tail call void @llvm.memcpy.p0.p0.i64(ptr align 1 %125, ptr align 1 %126, i64 %127, i1 false)
  %.pre56.i = load i64, ptr %state_count.i106, align 8
  br label %if.end29.i

if.end29.i:
  %128 = phi i64 [ %.pre56.i, %if.then23.i46 ], [ %120, %land.lhs.true19.i ], [ %120, %for.body13.i ]
  %inc31.i = add nuw nsw i64 %k8.055.i, 1
  %cmp11.i = icmp slt i64 %inc31.i, %128
  br i1 %cmp11.i, label %for.body13.i, label %for.inc

sw.bb14:
  %target15 = getelementptr inbounds nuw i8, ptr %op.0152, i64 8
  %129 = load ptr, ptr %target15, align 8
  %130 = load ptr, ptr %129, align 8
  %131 = load i8, ptr %130, align 1
  %tobool17.not = icmp eq i8 %131, 0
  %cond18.v = select i1 %tobool17.not, i64 24, i64 8
  %cond18 = getelementptr inbounds nuw i8, ptr %129, i64 %cond18.v
  %call19 = tail call fastcc i32 @run_part(ptr %cond18, ptr %runner) nounwind
  br label %for.inc

for.inc:
  %outcome.1 = phi i32 [ 0, %for.body ], [ 0, %sw.bb ], [ 0, %sw.bb3 ], [ 0, %sw.bb6 ], [ %cond, %sw.bb10 ], [ %call19, %sw.bb14 ], [ 0, %for.cond9.preheader.i ], [ 0, %for.end.i ], [ 0, %if.end29.i ]
  %incdec.ptr = getelementptr inbounds nuw i8, ptr %op.0152, i64 40
  %cmp = icmp ult ptr %incdec.ptr, %add.ptr
  %cmp2 = icmp eq i32 %outcome.1, 0
  %132 = select i1 %cmp, i1 %cmp2, i1 false
  br i1 %132, label %for.body, label %for.cond.cleanup
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
  %record.0117 = load ptr, ptr %0, align 8
  %tobool.not118 = icmp eq ptr %record.0117, null
  br i1 %tobool.not118, label %if.end18, label %land.rhs

land.rhs:
  %record.0119 = phi ptr [ %record.0, %record_fits.exit ], [ %record.0117, %entry ]
  %busy.i = getelementptr inbounds nuw i8, ptr %record.0119, i64 8
  %1 = load i64, ptr %busy.i, align 8
  %tobool.not.i = icmp eq i64 %1, 0
  br i1 %tobool.not.i, label %lor.lhs.false.i, label %record_fits.exit

lor.lhs.false.i:
  %argument_count.i = getelementptr inbounds nuw i8, ptr %record.0119, i64 16
  %2 = load i64, ptr %argument_count.i, align 8
  %cmp.not.i = icmp eq i64 %2, %count
  br i1 %cmp.not.i, label %for.cond.preheader.i, label %record_fits.exit

for.cond.preheader.i:
  %array_count.i = getelementptr inbounds nuw i8, ptr %record.0119, i64 32
  %3 = load i64, ptr %array_count.i, align 8
  %cmp154.i = icmp sgt i64 %3, 0
  br i1 %cmp154.i, label %for.body.lr.ph.i, label %for.cond8.preheader.i

for.body.lr.ph.i:
  %arrays.i = getelementptr inbounds nuw i8, ptr %record.0119, i64 24
  %4 = load ptr, ptr %arrays.i, align 8
  %5 = load ptr, ptr @numpy_functions, align 8
  %arrayidx.i41.i = getelementptr inbounds nuw i8, ptr %5, i64 16
  %6 = load ptr, ptr %arrayidx.i41.i, align 8
  br label %for.body.i

for.cond8.preheader.i:
  %number_count.i = getelementptr inbounds nuw i8, ptr %record.0119, i64 48
  %7 = load i64, ptr %number_count.i, align 8
  %cmp956.i = icmp slt i64 %7, 1
  br i1 %cmp956.i, label %land.lhs.true, label %for.body11.lr.ph.i

for.body11.lr.ph.i:
  %numbers.i = getelementptr inbounds nuw i8, ptr %record.0119, i64 40
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
  %record.0 = load ptr, ptr %record.0119, align 8
  %tobool.not = icmp eq ptr %record.0, null
  br i1 %tobool.not, label %if.end18, label %land.rhs

land.lhs.true:
  %busy.i.le186 = getelementptr inbounds nuw i8, ptr %record.0119, i64 8
  %array_count.i.le183 = getelementptr inbounds nuw i8, ptr %record.0119, i64 32
  %results = getelementptr inbounds nuw i8, ptr %record.0119, i64 56
  %35 = load ptr, ptr %results, align 8
  %result_count = getelementptr inbounds nuw i8, ptr %record.0119, i64 64
  %36 = load i64, ptr %result_count, align 8
  %cmp40.i = icmp slt i64 %36, 1
  br i1 %cmp40.i, label %if.then, label %for.body.i37

for.body.i37:
  %k.041.i = phi i64 [ %inc.i47, %for.inc.i46 ], [ 0, %land.lhs.true ]
  %arrayidx.i38 = getelementptr inbounds nuw %struct.result, ptr %35, i64 %k.041.i
  %block_count.i.i = getelementptr inbounds nuw i8, ptr %arrayidx.i38, i64 32
  %37 = load i64, ptr %block_count.i.i, align 8
  %cmp.i.i39 = icmp eq i64 %37, 0
  br i1 %cmp.i.i39, label %new_result.exit.i, label %if.end.i.i40

if.end.i.i40:
  %cmp11.i.i.i = icmp sgt i64 %37, 0
  br i1 %cmp11.i.i.i, label %for.body.lr.ph.i.i.i, label %new_result.exit.thread.i

for.body.lr.ph.i.i.i:
  %blocks.i.i.i = getelementptr inbounds nuw i8, ptr %arrayidx.i38, i64 24
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
  %call4.i.i = call fastcc ptr @new_array(ptr %arrayidx.i38, ptr %41) nounwind
  %tobool5.not.i.i = icmp eq ptr %call4.i.i, null
  br i1 %tobool5.not.i.i, label %new_result.exit.thread.i, label %if.end7.i.i

if.end7.i.i:
  %42 = load ptr, ptr %arrayidx.i.i.i, align 8
  call void @Py_IncRef(ptr %42) nounwind
  %43 = load ptr, ptr @numpy_functions, align 8
  %arrayidx.i.i44 = getelementptr inbounds nuw i8, ptr %43, i64 2256
  %44 = load ptr, ptr %arrayidx.i.i44, align 8
  %45 = load ptr, ptr %arrayidx.i.i.i, align 8
  %call9.i.i45 = call i32 %44(ptr %call4.i.i, ptr %45) nounwind
  %tobool10.not.i.i = icmp eq i32 %call9.i.i45, 0
  br i1 %tobool10.not.i.i, label %new_result.exit.thread16.i, label %if.then11.i.i

new_result.exit.thread16.i:
  %made18.i = getelementptr inbounds nuw i8, ptr %arrayidx.i38, i64 56
  store ptr %call4.i.i, ptr %made18.i, align 8
  br label %for.inc.i46

if.then11.i.i:
  call void @Py_DecRef(ptr %call4.i.i) nounwind
  br label %new_result.exit.thread.i

new_result.exit.thread.i:
  %made14.i = getelementptr inbounds nuw i8, ptr %arrayidx.i38, i64 56
  store ptr null, ptr %made14.i, align 8
  br label %if.then.i

new_result.exit.i:
  %call.i.i = call fastcc ptr @new_array(ptr %arrayidx.i38, ptr null) nounwind
  %made.i = getelementptr inbounds nuw i8, ptr %arrayidx.i38, i64 56
  store ptr %call.i.i, ptr %made.i, align 8
  %tobool.not.i49 = icmp eq ptr %call.i.i, null
  br i1 %tobool.not.i49, label %if.then.i, label %for.inc.i46

if.then.i:
  call void @PyErr_Clear() nounwind
  %cmp3.i.not.i = icmp eq i64 %k.041.i, 0
  br i1 %cmp3.i.not.i, label %if.end18, label %for.body.i.i41

for.body.i.i41:
  %k.04.i.i = phi i64 [ %inc.i.i42, %for.body.i.i41 ], [ 0, %if.then.i ]
  %arrayidx.i12.i = getelementptr inbounds nuw %struct.result, ptr %35, i64 %k.04.i.i
  %made.i.i = getelementptr inbounds nuw i8, ptr %arrayidx.i12.i, i64 56
  %46 = load ptr, ptr %made.i.i, align 8
  call void @Py_DecRef(ptr %46) nounwind
  %inc.i.i42 = add nuw nsw i64 %k.04.i.i, 1
  %exitcond.not.i.i43 = icmp eq i64 %inc.i.i42, %k.041.i
  br i1 %exitcond.not.i.i43, label %if.end18, label %for.body.i.i41

for.inc.i46:
  %inc.i47 = add nuw nsw i64 %k.041.i, 1
  %exitcond.not.i48 = icmp eq i64 %inc.i47, %36
  br i1 %exitcond.not.i48, label %if.then, label %for.body.i37

if.then:
  store i64 1, ptr %busy.i.le186, align 8
  %47 = load i64, ptr %array_count.i.le183, align 8
  %cmp58.i = icmp sgt i64 %47, 0
  br i1 %cmp58.i, label %for.body.lr.ph.i54, label %for.cond3.preheader.i

for.body.lr.ph.i54:
  %arrays.i55 = getelementptr inbounds nuw i8, ptr %record.0119, i64 24
  br label %for.body.i56

for.cond3.preheader.i:
  %48 = load i64, ptr %number_count.i, align 8
  %cmp460.i = icmp sgt i64 %48, 0
  br i1 %cmp460.i, label %for.body6.lr.ph.i, label %for.cond14.preheader.i

for.body6.lr.ph.i:
  %numbers.i53 = getelementptr inbounds nuw i8, ptr %record.0119, i64 40
  br label %for.body6.i

for.body.i56:
  %49 = phi i64 [ %47, %for.body.lr.ph.i54 ], [ %57, %patch.exit.i ]
  %k.059.i = phi i64 [ 0, %for.body.lr.ph.i54 ], [ %inc.i63, %patch.exit.i ]
  %50 = load ptr, ptr %arrays.i55, align 8
  %arrayidx.i57 = getelementptr inbounds nuw %struct.array, ptr %50, i64 %k.059.i
  %patches.i = getelementptr inbounds nuw i8, ptr %arrayidx.i57, i64 40
  %51 = load ptr, ptr %patches.i, align 8
  %patch_count.i = getelementptr inbounds nuw i8, ptr %arrayidx.i57, i64 48
  %52 = load i64, ptr %patch_count.i, align 8
  %53 = load i64, ptr %arrayidx.i57, align 8
  %cmp.i.i58 = icmp slt i64 %53, 0
  %captured.i.i59 = getelementptr inbounds nuw i8, ptr %arrayidx.i57, i64 8
  %arrayidx.i.i60 = getelementptr inbounds nuw ptr, ptr %arguments, i64 %53
  %cond.in.i.i61 = select i1 %cmp.i.i58, ptr %captured.i.i59, ptr %arrayidx.i.i60
  %cond.i.i62 = load ptr, ptr %cond.in.i.i61, align 8
  %data.i.i = getelementptr inbounds nuw i8, ptr %cond.i.i62, i64 16
  %54 = load ptr, ptr %data.i.i, align 8
  %55 = ptrtoint ptr %54 to i64
  %cmp3.i.i = icmp sgt i64 %52, 0
  br i1 %cmp3.i.i, label %for.body.i.i64, label %patch.exit.i

for.body.i.i64:
  %k.04.i.i65 = phi i64 [ %inc.i.i66, %for.body.i.i64 ], [ 0, %for.body.i56 ]
  %arrayidx.i42.i = getelementptr inbounds nuw ptr, ptr %51, i64 %k.04.i.i65
  %56 = load ptr, ptr %arrayidx.i42.i, align 8
  store i64 %55, ptr %56, align 8
  %inc.i.i66 = add nuw nsw i64 %k.04.i.i65, 1
  %exitcond.not.i.i67 = icmp eq i64 %inc.i.i66, %52
  br i1 %exitcond.not.i.i67, label %patch.exit.loopexit.i, label %for.body.i.i64

patch.exit.loopexit.i:
  %.pre.i = load i64, ptr %array_count.i.le183, align 8
  br label %patch.exit.i

patch.exit.i:
  %57 = phi i64 [ %.pre.i, %patch.exit.loopexit.i ], [ %49, %for.body.i56 ]
  %inc.i63 = add nuw nsw i64 %k.059.i, 1
  %cmp.i = icmp slt i64 %inc.i63, %57
  br i1 %cmp.i, label %for.body.i56, label %for.cond3.preheader.i

for.cond14.preheader.i:
  %58 = load i64, ptr %result_count, align 8
  %cmp1562.i = icmp sgt i64 %58, 0
  br i1 %cmp1562.i, label %for.body17.i, label %patch_operations.exit

for.body6.i:
  %59 = phi i64 [ %48, %for.body6.lr.ph.i ], [ %65, %patch.exit49.i ]
  %k2.061.i = phi i64 [ 0, %for.body6.lr.ph.i ], [ %inc11.i, %patch.exit49.i ]
  %60 = load ptr, ptr %numbers.i53, align 8
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
  %made.i52 = getelementptr inbounds nuw i8, ptr %arrayidx18.i, i64 56
  %70 = load ptr, ptr %made.i52, align 8
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
  %part = getelementptr inbounds nuw i8, ptr %record.0119, i64 72
  %call4 = call i64 @run_operations(ptr %part) nounwind
  %cmp = icmp eq i64 %call4, 0
  %75 = load ptr, ptr %results, align 8
  %76 = load i64, ptr %result_count, align 8
  br i1 %cmp, label %if.then6, label %if.end

if.then6:
  %cmp.i68 = icmp eq i64 %76, 1
  br i1 %cmp.i68, label %if.then.i81, label %if.end.i

if.then.i81:
  %made.i82 = getelementptr inbounds nuw i8, ptr %75, i64 56
  %77 = load ptr, ptr %made.i82, align 8
  br label %cleanup.thread

if.end.i:
  %call.i = call ptr @PyTuple_New(i64 %76) nounwind
  %tobool.not.i69 = icmp eq ptr %call.i, null
  %cmp3.i.i70 = icmp sgt i64 %76, 0
  br i1 %tobool.not.i69, label %if.then1.i, label %for.cond.preheader.i71

for.cond.preheader.i71:
  br i1 %cmp3.i.i70, label %for.body.i72, label %cleanup.thread

if.then1.i:
  br i1 %cmp3.i.i70, label %for.body.i.i75, label %cleanup.thread

for.body.i.i75:
  %k.04.i.i76 = phi i64 [ %inc.i.i79, %for.body.i.i75 ], [ 0, %if.then1.i ]
  %arrayidx.i.i77 = getelementptr inbounds nuw %struct.result, ptr %75, i64 %k.04.i.i76
  %made.i.i78 = getelementptr inbounds nuw i8, ptr %arrayidx.i.i77, i64 56
  %78 = load ptr, ptr %made.i.i78, align 8
  call void @Py_DecRef(ptr %78) nounwind
  %inc.i.i79 = add nuw nsw i64 %k.04.i.i76, 1
  %exitcond.not.i.i80 = icmp eq i64 %inc.i.i79, %76
  br i1 %exitcond.not.i.i80, label %cleanup.thread, label %for.body.i.i75

for.body.i72:
  %k.019.i = phi i64 [ %inc.i73, %for.body.i72 ], [ 0, %for.cond.preheader.i71 ]
  %arrayidx4.i = getelementptr inbounds nuw %struct.result, ptr %75, i64 %k.019.i
  %made5.i = getelementptr inbounds nuw i8, ptr %arrayidx4.i, i64 56
  %79 = load ptr, ptr %made5.i, align 8
  %call6.i = call i32 @PyTuple_SetItem(ptr %call.i, i64 %k.019.i, ptr %79) nounwind
  %inc.i73 = add nuw nsw i64 %k.019.i, 1
  %exitcond.not.i74 = icmp eq i64 %inc.i73, %76
  br i1 %exitcond.not.i74, label %cleanup.thread, label %for.body.i72

cleanup.thread:
  %retval.1.i = phi ptr [ %77, %if.then.i81 ], [ %call.i, %for.cond.preheader.i71 ], [ null, %if.then1.i ], [ null, %for.body.i.i75 ], [ %call.i, %for.body.i72 ]
  store i64 0, ptr %busy.i.le186, align 8
  br label %cleanup19

if.end:
  %cmp3.i = icmp sgt i64 %76, 0
  br i1 %cmp3.i, label %for.body.i83, label %cleanup

for.body.i83:
  %k.04.i = phi i64 [ %inc.i86, %for.body.i83 ], [ 0, %if.end ]
  %arrayidx.i84 = getelementptr inbounds nuw %struct.result, ptr %75, i64 %k.04.i
  %made.i85 = getelementptr inbounds nuw i8, ptr %arrayidx.i84, i64 56
  %80 = load ptr, ptr %made.i85, align 8
  call void @Py_DecRef(ptr %80) nounwind
  %inc.i86 = add nuw nsw i64 %k.04.i, 1
  %exitcond.not.i87 = icmp eq i64 %inc.i86, %76
  br i1 %exitcond.not.i87, label %cleanup, label %for.body.i83

cleanup:
  store i64 0, ptr %busy.i.le186, align 8
  %cmp14.not = icmp eq i64 %call4, 2
  br i1 %cmp14.not, label %cleanup19, label %if.end18

if.end18:
  call void @Py_IncRef(ptr @_Py_NoneStruct) nounwind
  br label %cleanup19

cleanup19:
  %retval.1 = phi ptr [ @_Py_NoneStruct, %if.end18 ], [ null, %cleanup ], [ %retval.1.i, %cleanup.thread ]
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

declare void @parallel(ptr, ptr, i64, i64) nounwind

declare void @llvm.memset.p0.i64(ptr, i8, i64, i1 immarg) nounwind

declare i32 @PyErr_CheckSignals() nounwind

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
