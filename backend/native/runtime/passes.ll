; passes.c, compiled by clang 22.1.8 (ziglang 0.17.1) and tidied by
; python -m treadle.backend.native.runtime.build: change the C file, not this one.
; python -m ziglang cc -target x86_64-linux-gnu -S -emit-llvm -Os -g0 -std=gnu11 -fPIC -Wall -Wextra -Werror -Wno-unused-command-line-argument -fno-sanitize=all -fno-stack-protector -fno-asynchronous-unwind-tables -fno-vectorize -fno-slp-vectorize -fno-unroll-loops -fno-strict-aliasing -fno-ident -fno-discard-value-names -Xclang -no-enable-noundef-analysis passes.c
; sha256 of passes.c, passes.h, team.h: ac326c44ff8f53ac54ce40f0600b2d0b70cd0bda20c7fc19247beafffb3cea09

%struct.unit = type { ptr, ptr, i64, i64, i64, i64, i64, i64, i64 }
%struct.part_of_pass = type { ptr, i64 }

define void @keep_arguments(ptr %pass, i64 %iteration, i64 %number) nounwind {
entry:
  %arguments = getelementptr inbounds nuw i8, ptr %pass, i64 64
  %0 = load ptr, ptr %arguments, align 8
  %words = getelementptr inbounds nuw i8, ptr %pass, i64 72
  %1 = load i64, ptr %words, align 8
  %numbers = getelementptr inbounds nuw i8, ptr %pass, i64 80
  %2 = load ptr, ptr %numbers, align 8
  %arrayidx = getelementptr inbounds i64, ptr %2, i64 %iteration
  store i64 %number, ptr %arrayidx, align 8
  %unit_count = getelementptr inbounds nuw i8, ptr %pass, i64 8
  %3 = load i64, ptr %unit_count, align 8
  %cmp26 = icmp sgt i64 %3, 0
  br i1 %cmp26, label %for.body.preheader, label %for.cond.cleanup

for.body.preheader:
  %mul = mul nsw i64 %1, %iteration
  %add.ptr = getelementptr inbounds i64, ptr %0, i64 %mul
  br label %for.body

for.cond.cleanup:
  ret void

for.body:
  %to.028 = phi ptr [ %add.ptr10, %if.end ], [ %add.ptr, %for.body.preheader ]
  %k.027 = phi i64 [ %inc, %if.end ], [ 0, %for.body.preheader ]
  %4 = load ptr, ptr %pass, align 8
  %arrayidx1 = getelementptr inbounds nuw %struct.unit, ptr %4, i64 %k.027
  %source = getelementptr inbounds nuw i8, ptr %arrayidx1, i64 8
  %5 = load ptr, ptr %source, align 8
  %words2 = getelementptr inbounds nuw i8, ptr %arrayidx1, i64 16
  %6 = load i64, ptr %words2, align 8
  %mul3 = shl i64 %6, 3
  tail call void @llvm.memcpy.p0.p0.i64(ptr align 8 %to.028, ptr align 1 %5, i64 %mul3, i1 false)
  %counter = getelementptr inbounds nuw i8, ptr %arrayidx1, i64 24
  %7 = load i64, ptr %counter, align 8
  %cmp4 = icmp sgt i64 %7, -1
  br i1 %cmp4, label %if.then, label %if.end

if.then:
  %8 = load ptr, ptr %numbers, align 8
  %arrayidx6 = getelementptr inbounds i64, ptr %8, i64 %iteration
  %9 = ptrtoint ptr %arrayidx6 to i64
  %arrayidx8 = getelementptr inbounds nuw i64, ptr %to.028, i64 %7
  store i64 %9, ptr %arrayidx8, align 8
  br label %if.end

if.end:
  %10 = load i64, ptr %words2, align 8
  %add.ptr10 = getelementptr inbounds i64, ptr %to.028, i64 %10
  %inc = add nuw nsw i64 %k.027, 1
  %11 = load i64, ptr %unit_count, align 8
  %cmp = icmp slt i64 %inc, %11
  br i1 %cmp, label %for.body, label %for.cond.cleanup
}

declare void @llvm.memcpy.p0.p0.i64(ptr noalias, ptr noalias, i64, i1 immarg) nounwind

define void @copy_rows(ptr %arguments, i64 %first, i64 %end) nounwind {
entry:
  %arrayidx = getelementptr inbounds nuw i8, ptr %arguments, i64 16
  %0 = load i64, ptr %arrayidx, align 8
  %arrayidx1 = getelementptr inbounds nuw i8, ptr %arguments, i64 24
  %1 = load i64, ptr %arrayidx1, align 8
  %cond = tail call i64 @llvm.smin.i64(i64 %end, i64 %0)
  %2 = load i64, ptr %arguments, align 8
  %3 = inttoptr i64 %2 to ptr
  %mul = mul nsw i64 %1, %first
  %add.ptr = getelementptr inbounds i8, ptr %3, i64 %mul
  %arrayidx3 = getelementptr inbounds nuw i8, ptr %arguments, i64 8
  %4 = load i64, ptr %arrayidx3, align 8
  %5 = inttoptr i64 %4 to ptr
  %add.ptr5 = getelementptr inbounds i8, ptr %5, i64 %mul
  %sub = sub nsw i64 %cond, %first
  %mul6 = mul nsw i64 %sub, %1
  tail call void @llvm.memcpy.p0.p0.i64(ptr align 1 %add.ptr, ptr align 1 %add.ptr5, i64 %mul6, i1 false)
  ret void
}

define void @run_pass(ptr %pass, i64 %iterations) nounwind {
entry:
  %part = alloca %struct.part_of_pass, align 8
  store ptr %pass, ptr %part, align 8
  %iterations2 = getelementptr inbounds nuw i8, ptr %part, i64 8
  store i64 %iterations, ptr %iterations2, align 8
  %chunks = getelementptr inbounds nuw i8, ptr %pass, i64 48
  %0 = load i64, ptr %chunks, align 8
  call void @parallel(ptr @chunks, ptr %part, i64 %0, i64 %0) nounwind
  %circular = getelementptr inbounds nuw i8, ptr %pass, i64 56
  %1 = load i64, ptr %circular, align 8
  %tobool.not = icmp eq i64 %1, 0
  %2 = load i64, ptr %chunks, align 8
  %sub = sext i1 %tobool.not to i64
  %cond = add nsw i64 %2, %sub
  %cmp = icmp sgt i64 %cond, 0
  br i1 %cmp, label %if.then, label %if.end

if.then:
  call void @parallel(ptr @gaps, ptr %part, i64 %cond, i64 %cond) nounwind
  br label %if.end

if.end:
  ret void
}

declare void @parallel(ptr, ptr, i64, i64) nounwind

define internal void @chunks(ptr %arguments, i64 %first, i64 %last) nounwind {
entry:
  %0 = load ptr, ptr %arguments, align 8
  %unit_count = getelementptr inbounds nuw i8, ptr %0, i64 8
  %1 = load i64, ptr %unit_count, align 8
  %cmp105 = icmp sgt i64 %1, 0
  br i1 %cmp105, label %for.body.lr.ph, label %for.cond.cleanup

for.body.lr.ph:
  %2 = load ptr, ptr %0, align 8
  br label %for.body

for.cond.cleanup:
  %farthest.0.lcssa = phi i64 [ 0, %entry ], [ %cond.i, %for.body ]
  %iterations = getelementptr inbounds nuw i8, ptr %arguments, i64 8
  %3 = load i64, ptr %iterations, align 8
  %sub = add nsw i64 %3, -1
  %down2 = getelementptr inbounds nuw i8, ptr %0, i64 24
  %4 = load i64, ptr %down2, align 8
  %mul = mul nsw i64 %sub, %4
  %add = add nsw i64 %mul, %farthest.0.lcssa
  %cmp4117 = icmp slt i64 %first, %last
  br i1 %cmp4117, label %for.body6.lr.ph, label %for.cond.cleanup5

for.body6.lr.ph:
  %circular = getelementptr inbounds nuw i8, ptr %0, i64 56
  %chunks = getelementptr inbounds nuw i8, ptr %0, i64 48
  %bounds = getelementptr inbounds nuw i8, ptr %0, i64 40
  %arguments24 = getelementptr inbounds nuw i8, ptr %0, i64 64
  %up = getelementptr inbounds nuw i8, ptr %0, i64 32
  br label %for.body6

for.body:
  %farthest.0107 = phi i64 [ 0, %for.body.lr.ph ], [ %cond.i, %for.body ]
  %k.0106 = phi i64 [ 0, %for.body.lr.ph ], [ %inc, %for.body ]
  %arrayidx = getelementptr inbounds nuw %struct.unit, ptr %2, i64 %k.0106
  %down = getelementptr inbounds nuw i8, ptr %arrayidx, i64 56
  %5 = load i64, ptr %down, align 8
  %cond.i = tail call i64 @llvm.smax.i64(i64 %farthest.0107, i64 %5)
  %inc = add nuw nsw i64 %k.0106, 1
  %exitcond.not = icmp eq i64 %inc, %1
  br i1 %exitcond.not, label %for.cond.cleanup, label %for.body

for.cond3.loopexit:
  %6 = phi i64 [ %10, %lor.end13 ], [ %29, %for.cond.cleanup29 ]
  %7 = phi i64 [ %11, %lor.end13 ], [ %30, %for.cond.cleanup29 ]
  %8 = phi i64 [ %12, %lor.end13 ], [ %31, %for.cond.cleanup29 ]
  %9 = phi i64 [ %13, %lor.end13 ], [ %32, %for.cond.cleanup29 ]
  %exitcond119.not = icmp eq i64 %add17, %last
  br i1 %exitcond119.not, label %for.cond.cleanup5, label %for.body6

for.cond.cleanup5:
  ret void

for.body6:
  %10 = phi i64 [ %3, %for.body6.lr.ph ], [ %6, %for.cond3.loopexit ]
  %11 = phi i64 [ %1, %for.body6.lr.ph ], [ %7, %for.cond3.loopexit ]
  %12 = phi i64 [ %1, %for.body6.lr.ph ], [ %8, %for.cond3.loopexit ]
  %13 = phi i64 [ %3, %for.body6.lr.ph ], [ %9, %for.cond3.loopexit ]
  %chunk.0118 = phi i64 [ %first, %for.body6.lr.ph ], [ %add17, %for.cond3.loopexit ]
  %14 = load i64, ptr %circular, align 8
  %tobool = icmp ne i64 %14, 0
  %cmp7 = icmp sgt i64 %chunk.0118, 0
  %15 = or i1 %cmp7, %tobool
  br i1 %tobool, label %lor.end13, label %lor.rhs10

lor.rhs10:
  %16 = load i64, ptr %chunks, align 8
  %sub11 = add nsw i64 %16, -1
  %cmp12 = icmp slt i64 %chunk.0118, %sub11
  %17 = select i1 %cmp12, i64 0, i64 %add
  br label %lor.end13

lor.end13:
  %cond = phi i64 [ 0, %for.body6 ], [ %17, %lor.rhs10 ]
  %18 = load ptr, ptr %bounds, align 8
  %arrayidx15 = getelementptr inbounds i64, ptr %18, i64 %chunk.0118
  %19 = load i64, ptr %arrayidx15, align 8
  %add17 = add i64 %chunk.0118, 1
  %arrayidx18 = getelementptr inbounds i64, ptr %18, i64 %add17
  %20 = load i64, ptr %arrayidx18, align 8
  %add20 = add nsw i64 %20, %cond
  %cmp21115 = icmp slt i64 %19, %add20
  br i1 %cmp21115, label %for.body23, label %for.cond3.loopexit

for.body23:
  %21 = phi i64 [ %29, %for.cond.cleanup29 ], [ %10, %lor.end13 ]
  %22 = phi i64 [ %30, %for.cond.cleanup29 ], [ %11, %lor.end13 ]
  %23 = phi i64 [ %31, %for.cond.cleanup29 ], [ %12, %lor.end13 ]
  %24 = phi i64 [ %32, %for.cond.cleanup29 ], [ %13, %lor.end13 ]
  %newest.0116 = phi i64 [ %inc61, %for.cond.cleanup29 ], [ %19, %lor.end13 ]
  %cmp28112 = icmp sgt i64 %24, 0
  br i1 %cmp28112, label %for.cond31.preheader.preheader, label %for.cond.cleanup29

for.cond31.preheader.preheader:
  %25 = load ptr, ptr %arguments24, align 8
  br label %for.cond31.preheader

for.cond31.preheader:
  %26 = phi i64 [ %33, %for.cond.cleanup34 ], [ %21, %for.cond31.preheader.preheader ]
  %27 = phi i64 [ %34, %for.cond.cleanup34 ], [ %22, %for.cond31.preheader.preheader ]
  %28 = phi i64 [ %35, %for.cond.cleanup34 ], [ %23, %for.cond31.preheader.preheader ]
  %k25.0114 = phi i64 [ %inc58, %for.cond.cleanup34 ], [ 0, %for.cond31.preheader.preheader ]
  %kept.0113 = phi ptr [ %kept.1.lcssa, %for.cond.cleanup34 ], [ %25, %for.cond31.preheader.preheader ]
  %cmp33108 = icmp sgt i64 %28, 0
  br i1 %cmp33108, label %for.body35, label %for.cond.cleanup34

for.cond.cleanup29:
  %29 = phi i64 [ %21, %for.body23 ], [ %33, %for.cond.cleanup34 ]
  %30 = phi i64 [ %22, %for.body23 ], [ %34, %for.cond.cleanup34 ]
  %31 = phi i64 [ %23, %for.body23 ], [ %35, %for.cond.cleanup34 ]
  %32 = phi i64 [ %24, %for.body23 ], [ %33, %for.cond.cleanup34 ]
  %inc61 = add nsw i64 %newest.0116, 1
  %cmp21 = icmp slt i64 %inc61, %add20
  br i1 %cmp21, label %for.body23, label %for.cond3.loopexit

for.cond.cleanup34.loopexit:
  %.pre120 = load i64, ptr %iterations, align 8
  br label %for.cond.cleanup34

for.cond.cleanup34:
  %33 = phi i64 [ %26, %for.cond31.preheader ], [ %.pre120, %for.cond.cleanup34.loopexit ]
  %34 = phi i64 [ %27, %for.cond31.preheader ], [ %48, %for.cond.cleanup34.loopexit ]
  %35 = phi i64 [ %28, %for.cond31.preheader ], [ %48, %for.cond.cleanup34.loopexit ]
  %kept.1.lcssa = phi ptr [ %kept.0113, %for.cond31.preheader ], [ %add.ptr, %for.cond.cleanup34.loopexit ]
  %inc58 = add nuw nsw i64 %k25.0114, 1
  %cmp28 = icmp slt i64 %inc58, %33
  br i1 %cmp28, label %for.cond31.preheader, label %for.cond.cleanup29

for.body35:
  %36 = phi i64 [ %48, %if.end ], [ %27, %for.cond31.preheader ]
  %u.0110 = phi i64 [ %inc55, %if.end ], [ 0, %for.cond31.preheader ]
  %kept.1109 = phi ptr [ %add.ptr, %if.end ], [ %kept.0113, %for.cond31.preheader ]
  %37 = load ptr, ptr %0, align 8
  %arrayidx37 = getelementptr inbounds nuw %struct.unit, ptr %37, i64 %u.0110
  %38 = load i64, ptr %down2, align 8
  %39 = mul i64 %k25.0114, %38
  %down41 = getelementptr inbounds nuw i8, ptr %arrayidx37, i64 56
  %40 = load i64, ptr %down41, align 8
  %41 = add i64 %40, %39
  %sub42 = sub i64 %newest.0116, %41
  br i1 %15, label %cond.true44, label %cond.end49

cond.true44:
  %42 = load i64, ptr %up, align 8
  %mul45 = mul nsw i64 %42, %k25.0114
  %up46 = getelementptr inbounds nuw i8, ptr %arrayidx37, i64 64
  %43 = load i64, ptr %up46, align 8
  %add47 = add nsw i64 %mul45, %43
  br label %cond.end49

cond.end49:
  %cond50 = phi i64 [ %add47, %cond.true44 ], [ 0, %for.body35 ]
  %add51 = add nsw i64 %cond50, %19
  %cmp52.not = icmp slt i64 %sub42, %add51
  br i1 %cmp52.not, label %if.end, label %if.then

if.then:
  %add53 = add nsw i64 %sub42, 1
  %first1.i = getelementptr inbounds nuw i8, ptr %arrayidx37, i64 32
  %44 = load i64, ptr %first1.i, align 8
  %sub.i = sub nsw i64 %sub42, %44
  %cond.i.i = tail call i64 @llvm.smax.i64(i64 %sub.i, i64 0)
  %sub3.i = sub i64 %add53, %44
  %blocks.i = getelementptr inbounds nuw i8, ptr %arrayidx37, i64 40
  %45 = load i64, ptr %blocks.i, align 8
  %cond.i16.i = tail call i64 @llvm.smin.i64(i64 %sub3.i, i64 %45)
  %cmp.i = icmp slt i64 %cond.i.i, %cond.i16.i
  br i1 %cmp.i, label %if.then.i, label %if.end

if.then.i:
  %46 = load ptr, ptr %arrayidx37, align 8
  %tasks.i = getelementptr inbounds nuw i8, ptr %arrayidx37, i64 48
  %47 = load i64, ptr %tasks.i, align 8
  %mul.i = mul nsw i64 %47, %cond.i.i
  %mul6.i = mul nsw i64 %47, %cond.i16.i
  tail call void %46(ptr %kept.1109, i64 %mul.i, i64 %mul6.i) nounwind
  %.pre = load i64, ptr %unit_count, align 8
  br label %if.end

if.end:
  %48 = phi i64 [ %.pre, %if.then.i ], [ %36, %if.then ], [ %36, %cond.end49 ]
  %words = getelementptr inbounds nuw i8, ptr %arrayidx37, i64 16
  %49 = load i64, ptr %words, align 8
  %add.ptr = getelementptr inbounds i64, ptr %kept.1109, i64 %49
  %inc55 = add nuw nsw i64 %u.0110, 1
  %cmp33 = icmp slt i64 %inc55, %48
  br i1 %cmp33, label %for.body35, label %for.cond.cleanup34.loopexit
}

define internal void @gaps(ptr %arguments, i64 %first, i64 %last) nounwind {
entry:
  %0 = load ptr, ptr %arguments, align 8
  %cmp102 = icmp slt i64 %first, %last
  br i1 %cmp102, label %for.body.lr.ph, label %for.cond.cleanup

for.body.lr.ph:
  %bounds = getelementptr inbounds nuw i8, ptr %0, i64 40
  %circular = getelementptr inbounds nuw i8, ptr %0, i64 56
  %arguments2 = getelementptr inbounds nuw i8, ptr %0, i64 64
  %iterations = getelementptr inbounds nuw i8, ptr %arguments, i64 8
  %unit_count = getelementptr inbounds nuw i8, ptr %0, i64 8
  %down = getelementptr inbounds nuw i8, ptr %0, i64 24
  %up = getelementptr inbounds nuw i8, ptr %0, i64 32
  %chunks = getelementptr inbounds nuw i8, ptr %0, i64 48
  %.pre = load i64, ptr %iterations, align 8
  br label %for.body

for.cond.loopexit:
  %1 = phi i64 [ %3, %for.body ], [ %11, %for.cond.cleanup9 ]
  %2 = phi i64 [ %4, %for.body ], [ %11, %for.cond.cleanup9 ]
  %exitcond.not = icmp eq i64 %add, %last
  br i1 %exitcond.not, label %for.cond.cleanup, label %for.body

for.cond.cleanup:
  ret void

for.body:
  %3 = phi i64 [ %.pre, %for.body.lr.ph ], [ %1, %for.cond.loopexit ]
  %4 = phi i64 [ %.pre, %for.body.lr.ph ], [ %2, %for.cond.loopexit ]
  %gap.0103 = phi i64 [ %first, %for.body.lr.ph ], [ %add, %for.cond.loopexit ]
  %5 = load ptr, ptr %bounds, align 8
  %6 = load i64, ptr %circular, align 8
  %tobool.not = icmp eq i64 %6, 0
  %add = add i64 %gap.0103, 1
  %cond = select i1 %tobool.not, i64 %add, i64 %gap.0103
  %arrayidx = getelementptr inbounds i64, ptr %5, i64 %cond
  %7 = load i64, ptr %arrayidx, align 8
  %cmp499 = icmp sgt i64 %4, 0
  br i1 %cmp499, label %for.cond7.preheader.preheader, label %for.cond.loopexit

for.cond7.preheader.preheader:
  %8 = load ptr, ptr %arguments2, align 8
  %.pre104 = load i64, ptr %unit_count, align 8
  br label %for.cond7.preheader

for.cond7.preheader:
  %9 = phi i64 [ %11, %for.cond.cleanup9 ], [ %3, %for.cond7.preheader.preheader ]
  %10 = phi i64 [ %12, %for.cond.cleanup9 ], [ %.pre104, %for.cond7.preheader.preheader ]
  %kept.0101 = phi ptr [ %kept.1.lcssa, %for.cond.cleanup9 ], [ %8, %for.cond7.preheader.preheader ]
  %k.0100 = phi i64 [ %inc27, %for.cond.cleanup9 ], [ 0, %for.cond7.preheader.preheader ]
  %cmp896 = icmp sgt i64 %10, 0
  br i1 %cmp896, label %for.body10, label %for.cond.cleanup9

for.cond.cleanup9.loopexit:
  %.pre107 = load i64, ptr %iterations, align 8
  br label %for.cond.cleanup9

for.cond.cleanup9:
  %11 = phi i64 [ %9, %for.cond7.preheader ], [ %.pre107, %for.cond.cleanup9.loopexit ]
  %12 = phi i64 [ %10, %for.cond7.preheader ], [ %38, %for.cond.cleanup9.loopexit ]
  %kept.1.lcssa = phi ptr [ %kept.0101, %for.cond7.preheader ], [ %add.ptr, %for.cond.cleanup9.loopexit ]
  %inc27 = add nuw nsw i64 %k.0100, 1
  %cmp4 = icmp slt i64 %inc27, %11
  br i1 %cmp4, label %for.cond7.preheader, label %for.cond.loopexit

for.body10:
  %kept.198 = phi ptr [ %add.ptr, %if.end ], [ %kept.0101, %for.cond7.preheader ]
  %u.097 = phi i64 [ %inc, %if.end ], [ 0, %for.cond7.preheader ]
  %13 = load ptr, ptr %0, align 8
  %arrayidx11 = getelementptr inbounds nuw %struct.unit, ptr %13, i64 %u.097
  %14 = load i64, ptr %down, align 8
  %15 = mul i64 %k.0100, %14
  %down12 = getelementptr inbounds nuw i8, ptr %arrayidx11, i64 56
  %16 = load i64, ptr %down12, align 8
  %17 = add i64 %16, %15
  %sub13 = sub i64 %7, %17
  %18 = load i64, ptr %up, align 8
  %mul14 = mul nsw i64 %18, %k.0100
  %add15 = add nsw i64 %mul14, %7
  %up16 = getelementptr inbounds nuw i8, ptr %arrayidx11, i64 64
  %19 = load i64, ptr %up16, align 8
  %add17 = add nsw i64 %add15, %19
  %first1.i = getelementptr inbounds nuw i8, ptr %arrayidx11, i64 32
  %20 = load i64, ptr %first1.i, align 8
  %sub.i = sub nsw i64 %sub13, %20
  %cond.i.i = tail call i64 @llvm.smax.i64(i64 %sub.i, i64 0)
  %sub3.i = sub nsw i64 %add17, %20
  %blocks.i = getelementptr inbounds nuw i8, ptr %arrayidx11, i64 40
  %21 = load i64, ptr %blocks.i, align 8
  %cond.i16.i = tail call i64 @llvm.smin.i64(i64 %sub3.i, i64 %21)
  %cmp.i = icmp slt i64 %cond.i.i, %cond.i16.i
  br i1 %cmp.i, label %if.then.i, label %run_blocks.exit

if.then.i:
  %22 = load ptr, ptr %arrayidx11, align 8
  %tasks.i = getelementptr inbounds nuw i8, ptr %arrayidx11, i64 48
  %23 = load i64, ptr %tasks.i, align 8
  %mul.i = mul nsw i64 %23, %cond.i.i
  %mul6.i = mul nsw i64 %23, %cond.i16.i
  tail call void %22(ptr %kept.198, i64 %mul.i, i64 %mul6.i) nounwind
  br label %run_blocks.exit

run_blocks.exit:
  %24 = load i64, ptr %circular, align 8
  %tobool19.not = icmp eq i64 %24, 0
  br i1 %tobool19.not, label %if.end, label %if.then

if.then:
  %25 = load ptr, ptr %bounds, align 8
  %26 = load i64, ptr %chunks, align 8
  %arrayidx21 = getelementptr inbounds i64, ptr %25, i64 %26
  %27 = load i64, ptr %arrayidx21, align 8
  %add22 = add nsw i64 %27, %sub13
  %add23 = add nsw i64 %27, %add17
  %28 = load i64, ptr %first1.i, align 8
  %sub.i67 = sub i64 %add22, %28
  %cond.i.i68 = tail call i64 @llvm.smax.i64(i64 %sub.i67, i64 0)
  %sub3.i69 = sub i64 %add23, %28
  %29 = load i64, ptr %blocks.i, align 8
  %cond.i16.i71 = tail call i64 @llvm.smin.i64(i64 %sub3.i69, i64 %29)
  %cmp.i72 = icmp slt i64 %cond.i.i68, %cond.i16.i71
  br i1 %cmp.i72, label %if.then.i73, label %run_blocks.exit77

if.then.i73:
  %30 = load ptr, ptr %arrayidx11, align 8
  %tasks.i74 = getelementptr inbounds nuw i8, ptr %arrayidx11, i64 48
  %31 = load i64, ptr %tasks.i74, align 8
  %mul.i75 = mul nsw i64 %31, %cond.i.i68
  %mul6.i76 = mul nsw i64 %31, %cond.i16.i71
  tail call void %30(ptr %kept.198, i64 %mul.i75, i64 %mul6.i76) nounwind
  %.pre105 = load i64, ptr %first1.i, align 8
  %.pre106 = load i64, ptr %blocks.i, align 8
  br label %run_blocks.exit77

run_blocks.exit77:
  %32 = phi i64 [ %29, %if.then ], [ %.pre106, %if.then.i73 ]
  %33 = phi i64 [ %28, %if.then ], [ %.pre105, %if.then.i73 ]
  %34 = add i64 %27, %33
  %sub.i79 = sub i64 %sub13, %34
  %cond.i.i80 = tail call i64 @llvm.smax.i64(i64 %sub.i79, i64 0)
  %sub3.i81 = sub i64 %add17, %34
  %cond.i16.i83 = tail call i64 @llvm.smin.i64(i64 %sub3.i81, i64 %32)
  %cmp.i84 = icmp slt i64 %cond.i.i80, %cond.i16.i83
  br i1 %cmp.i84, label %if.then.i85, label %if.end

if.then.i85:
  %35 = load ptr, ptr %arrayidx11, align 8
  %tasks.i86 = getelementptr inbounds nuw i8, ptr %arrayidx11, i64 48
  %36 = load i64, ptr %tasks.i86, align 8
  %mul.i87 = mul nsw i64 %36, %cond.i.i80
  %mul6.i88 = mul nsw i64 %36, %cond.i16.i83
  tail call void %35(ptr %kept.198, i64 %mul.i87, i64 %mul6.i88) nounwind
  br label %if.end

if.end:
  %words = getelementptr inbounds nuw i8, ptr %arrayidx11, i64 16
  %37 = load i64, ptr %words, align 8
  %add.ptr = getelementptr inbounds i64, ptr %kept.198, i64 %37
  %inc = add nuw nsw i64 %u.097, 1
  %38 = load i64, ptr %unit_count, align 8
  %cmp8 = icmp slt i64 %inc, %38
  br i1 %cmp8, label %for.body10, label %for.cond.cleanup9.loopexit
}

declare i64 @llvm.smin.i64(i64, i64) nounwind

declare i64 @llvm.smax.i64(i64, i64) nounwind
