; late.c, compiled by clang 22.1.8 (ziglang 0.17.1) and tidied by
; python -m treadle.backend.native.runtime.build: change the C file, not this one.
; python -m ziglang cc -target x86_64-linux-gnu -S -emit-llvm -Os -g0 -std=gnu11 -fPIC -Wall -Wextra -Werror -Wno-unused-command-line-argument -fno-sanitize=all -fno-stack-protector -fno-asynchronous-unwind-tables -fno-vectorize -fno-slp-vectorize -fno-unroll-loops -fno-strict-aliasing -fno-ident -fno-discard-value-names -Xclang -no-enable-noundef-analysis -isystem PYTHON -isystem NUMPY late.c
; sha256 of late.c, late.h: 4b1932d9ccf7991727ead915d06bcedeb185de884d3237a4fc9b842abcf827ba

define void @hold(ptr %memory, ptr %block, ptr %address, i64 %size, i64 %capacity) nounwind {
entry:
  %block1 = getelementptr inbounds nuw i8, ptr %memory, i64 24
  store ptr %block, ptr %block1, align 8
  %size2 = getelementptr inbounds nuw i8, ptr %memory, i64 8
  store i64 %size, ptr %size2, align 8
  %capacity3 = getelementptr inbounds nuw i8, ptr %memory, i64 16
  store i64 %capacity, ptr %capacity3, align 8
  %0 = load ptr, ptr %memory, align 8
  %cmp.not = icmp eq ptr %0, %address
  br i1 %cmp.not, label %if.end, label %if.then

if.then:
  store ptr %address, ptr %memory, align 8
  %patches = getelementptr inbounds nuw i8, ptr %memory, i64 32
  %1 = load ptr, ptr %patches, align 8
  %patch_count = getelementptr inbounds nuw i8, ptr %memory, i64 40
  %2 = load i64, ptr %patch_count, align 8
  %3 = ptrtoint ptr %address to i64
  %cmp3.i = icmp sgt i64 %2, 0
  br i1 %cmp3.i, label %for.body.i, label %if.end

for.body.i:
  %k.04.i = phi i64 [ %inc.i, %for.body.i ], [ 0, %if.then ]
  %arrayidx.i = getelementptr inbounds nuw ptr, ptr %1, i64 %k.04.i
  %4 = load ptr, ptr %arrayidx.i, align 8
  store i64 %3, ptr %4, align 8
  %inc.i = add nuw nsw i64 %k.04.i, 1
  %exitcond.not.i = icmp eq i64 %inc.i, %2
  br i1 %exitcond.not.i, label %if.end, label %for.body.i

if.end:
  ret void
}

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

define zeroext i1 @run_evaluation(ptr %evaluation) nounwind {
entry:
  %registers = getelementptr inbounds nuw i8, ptr %evaluation, i64 16
  %0 = load ptr, ptr %registers, align 8
  %1 = load ptr, ptr %evaluation, align 8
  %count = getelementptr inbounds nuw i8, ptr %evaluation, i64 8
  %2 = load i64, ptr %count, align 8
  %add.ptr.idx = mul nsw i64 %2, 56
  %add.ptr = getelementptr inbounds i8, ptr %1, i64 %add.ptr.idx
  %cmp.not349 = icmp slt i64 %2, 1
  br i1 %cmp.not349, label %cleanup190, label %for.body

for.body:
  %at.0350 = phi ptr [ %incdec.ptr, %for.inc ], [ %1, %entry ]
  %3 = load i64, ptr %at.0350, align 8
  %conv = trunc i64 %3 to i32
  switch i32 %conv, label %sw.epilog [
    i32 0, label %sw.bb
    i32 1, label %sw.bb2
    i32 2, label %sw.bb4
    i32 3, label %sw.bb6
    i32 4, label %sw.bb11
    i32 5, label %sw.bb15
    i32 6, label %sw.bb20
    i32 7, label %sw.bb24
    i32 8, label %sw.bb30
    i32 9, label %sw.bb36
    i32 10, label %sw.bb47
    i32 11, label %sw.bb62
    i32 12, label %sw.bb66
    i32 13, label %sw.bb74
    i32 14, label %sw.bb89
    i32 15, label %sw.bb106
    i32 16, label %sw.bb117
    i32 17, label %sw.bb122
    i32 18, label %sw.bb127
    i32 19, label %sw.bb132
    i32 20, label %sw.bb135
    i32 21, label %sw.bb138
    i32 22, label %sw.bb146
    i32 23, label %sw.bb154
    i32 24, label %sw.bb162
    i32 25, label %sw.bb170
    i32 26, label %sw.bb174
  ]

sw.bb:
  %a = getelementptr inbounds nuw i8, ptr %at.0350, i64 32
  %4 = load i64, ptr %a, align 8
  %5 = inttoptr i64 %4 to ptr
  %bits = getelementptr inbounds nuw i8, ptr %at.0350, i64 8
  %6 = load i64, ptr %bits, align 8
  switch i64 %6, label %sw.default.i [
    i64 1, label %sw.bb.i
    i64 8, label %sw.bb.i
    i64 16, label %sw.bb1.i
    i64 32, label %sw.bb3.i
    i64 -8, label %sw.bb5.i
    i64 -16, label %sw.bb7.i
    i64 -32, label %sw.bb9.i
  ]

sw.bb.i:
  %7 = load i8, ptr %5, align 1
  %conv.i = zext i8 %7 to i64
  br label %sw.epilog

sw.bb1.i:
  %8 = load i16, ptr %5, align 2
  %conv2.i = zext i16 %8 to i64
  br label %sw.epilog

sw.bb3.i:
  %9 = load i32, ptr %5, align 4
  %conv4.i = zext i32 %9 to i64
  br label %sw.epilog

sw.bb5.i:
  %10 = load i8, ptr %5, align 1
  %conv6.i = sext i8 %10 to i64
  br label %sw.epilog

sw.bb7.i:
  %11 = load i16, ptr %5, align 2
  %conv8.i = sext i16 %11 to i64
  br label %sw.epilog

sw.bb9.i:
  %12 = load i32, ptr %5, align 4
  %conv10.i = sext i32 %12 to i64
  br label %sw.epilog

sw.default.i:
  %13 = load i64, ptr %5, align 8
  br label %sw.epilog

sw.bb2:
  %a3 = getelementptr inbounds nuw i8, ptr %at.0350, i64 32
  %14 = load i64, ptr %a3, align 8
  %arrayidx = getelementptr inbounds i64, ptr %0, i64 %14
  %15 = load i64, ptr %arrayidx, align 8
  %to = getelementptr inbounds nuw i8, ptr %at.0350, i64 24
  %16 = load i64, ptr %to, align 8
  %17 = inttoptr i64 %16 to ptr
  store i64 %15, ptr %17, align 8
  br label %for.inc

sw.bb4:
  %a5 = getelementptr inbounds nuw i8, ptr %at.0350, i64 32
  %18 = load i64, ptr %a5, align 8
  %19 = inttoptr i64 %18 to ptr
  %size = getelementptr inbounds nuw i8, ptr %19, i64 8
  %20 = load i64, ptr %size, align 8
  br label %sw.epilog

sw.bb6:
  %to7 = getelementptr inbounds nuw i8, ptr %at.0350, i64 24
  %21 = load i64, ptr %to7, align 8
  %22 = inttoptr i64 %21 to ptr
  %a8 = getelementptr inbounds nuw i8, ptr %at.0350, i64 32
  %23 = load i64, ptr %a8, align 8
  %arrayidx9 = getelementptr inbounds i64, ptr %0, i64 %23
  %24 = load i64, ptr %arrayidx9, align 8
  %call10 = tail call fastcc zeroext i1 @resize(ptr %22, i64 %24) nounwind
  br i1 %call10, label %for.inc, label %cleanup190

sw.bb11:
  %to12 = getelementptr inbounds nuw i8, ptr %at.0350, i64 24
  %25 = load i64, ptr %to12, align 8
  %26 = inttoptr i64 %25 to ptr
  %a13 = getelementptr inbounds nuw i8, ptr %at.0350, i64 32
  %27 = load i64, ptr %a13, align 8
  %arrayidx14 = getelementptr inbounds i64, ptr %0, i64 %27
  %28 = load i64, ptr %arrayidx14, align 8
  tail call void @release(ptr %26, i64 %28) nounwind
  br label %for.inc

sw.bb15:
  %a16 = getelementptr inbounds nuw i8, ptr %at.0350, i64 32
  %29 = load i64, ptr %a16, align 8
  %arrayidx17 = getelementptr inbounds i64, ptr %0, i64 %29
  %30 = load i64, ptr %arrayidx17, align 8
  %tobool.not = icmp eq i64 %30, 0
  br i1 %tobool.not, label %cleanup190, label %for.inc

sw.bb20:
  %a21 = getelementptr inbounds nuw i8, ptr %at.0350, i64 32
  %31 = load i64, ptr %a21, align 8
  %arrayidx22 = getelementptr inbounds i64, ptr %0, i64 %31
  %32 = load i64, ptr %arrayidx22, align 8
  %b = getelementptr inbounds nuw i8, ptr %at.0350, i64 40
  %33 = load i64, ptr %b, align 8
  %arrayidx23 = getelementptr inbounds i64, ptr %0, i64 %33
  %34 = load i64, ptr %arrayidx23, align 8
  %35 = tail call { i64, i1 } @llvm.sadd.with.overflow.i64(i64 %32, i64 %34)
  %36 = extractvalue { i64, i1 } %35, 1
  %37 = extractvalue { i64, i1 } %35, 0
  br label %sw.epilog

sw.bb24:
  %a25 = getelementptr inbounds nuw i8, ptr %at.0350, i64 32
  %38 = load i64, ptr %a25, align 8
  %arrayidx26 = getelementptr inbounds i64, ptr %0, i64 %38
  %39 = load i64, ptr %arrayidx26, align 8
  %b27 = getelementptr inbounds nuw i8, ptr %at.0350, i64 40
  %40 = load i64, ptr %b27, align 8
  %arrayidx28 = getelementptr inbounds i64, ptr %0, i64 %40
  %41 = load i64, ptr %arrayidx28, align 8
  %42 = tail call { i64, i1 } @llvm.ssub.with.overflow.i64(i64 %39, i64 %41)
  %43 = extractvalue { i64, i1 } %42, 1
  %44 = extractvalue { i64, i1 } %42, 0
  br label %sw.epilog

sw.bb30:
  %a31 = getelementptr inbounds nuw i8, ptr %at.0350, i64 32
  %45 = load i64, ptr %a31, align 8
  %arrayidx32 = getelementptr inbounds i64, ptr %0, i64 %45
  %46 = load i64, ptr %arrayidx32, align 8
  %b33 = getelementptr inbounds nuw i8, ptr %at.0350, i64 40
  %47 = load i64, ptr %b33, align 8
  %arrayidx34 = getelementptr inbounds i64, ptr %0, i64 %47
  %48 = load i64, ptr %arrayidx34, align 8
  %49 = tail call { i64, i1 } @llvm.smul.with.overflow.i64(i64 %46, i64 %48)
  %50 = extractvalue { i64, i1 } %49, 1
  %51 = extractvalue { i64, i1 } %49, 0
  br label %sw.epilog

sw.bb36:
  %a37 = getelementptr inbounds nuw i8, ptr %at.0350, i64 32
  %52 = load i64, ptr %a37, align 8
  %arrayidx38 = getelementptr inbounds i64, ptr %0, i64 %52
  %53 = load i64, ptr %arrayidx38, align 8
  %b39 = getelementptr inbounds nuw i8, ptr %at.0350, i64 40
  %54 = load i64, ptr %b39, align 8
  %arrayidx40 = getelementptr inbounds i64, ptr %0, i64 %54
  %55 = load i64, ptr %arrayidx40, align 8
  %.317 = tail call i64 @llvm.smin.i64(i64 %53, i64 %55)
  br label %sw.epilog

sw.bb47:
  %a48 = getelementptr inbounds nuw i8, ptr %at.0350, i64 32
  %56 = load i64, ptr %a48, align 8
  %arrayidx49 = getelementptr inbounds i64, ptr %0, i64 %56
  %57 = load i64, ptr %arrayidx49, align 8
  %b50 = getelementptr inbounds nuw i8, ptr %at.0350, i64 40
  %58 = load i64, ptr %b50, align 8
  %arrayidx51 = getelementptr inbounds i64, ptr %0, i64 %58
  %59 = load i64, ptr %arrayidx51, align 8
  %.318 = tail call i64 @llvm.smax.i64(i64 %57, i64 %59)
  br label %sw.epilog

sw.bb62:
  %a63 = getelementptr inbounds nuw i8, ptr %at.0350, i64 32
  %60 = load i64, ptr %a63, align 8
  %arrayidx64 = getelementptr inbounds i64, ptr %0, i64 %60
  %61 = load i64, ptr %arrayidx64, align 8
  %62 = tail call { i64, i1 } @llvm.ssub.with.overflow.i64(i64 0, i64 %61)
  %63 = extractvalue { i64, i1 } %62, 1
  %64 = extractvalue { i64, i1 } %62, 0
  br label %sw.epilog

sw.bb66:
  %a67 = getelementptr inbounds nuw i8, ptr %at.0350, i64 32
  %65 = load i64, ptr %a67, align 8
  %arrayidx68 = getelementptr inbounds i64, ptr %0, i64 %65
  %66 = load i64, ptr %arrayidx68, align 8
  %cmp69 = icmp slt i64 %66, 0
  br i1 %cmp69, label %if.then71, label %sw.epilog

if.then71:
  %67 = tail call { i64, i1 } @llvm.ssub.with.overflow.i64(i64 0, i64 %66)
  %68 = extractvalue { i64, i1 } %67, 1
  %69 = extractvalue { i64, i1 } %67, 0
  br label %sw.epilog

sw.bb74:
  %a75 = getelementptr inbounds nuw i8, ptr %at.0350, i64 32
  %70 = load i64, ptr %a75, align 8
  %arrayidx76 = getelementptr inbounds i64, ptr %0, i64 %70
  %71 = load i64, ptr %arrayidx76, align 8
  %b77 = getelementptr inbounds nuw i8, ptr %at.0350, i64 40
  %72 = load i64, ptr %b77, align 8
  %arrayidx78 = getelementptr inbounds i64, ptr %0, i64 %72
  %73 = load i64, ptr %arrayidx78, align 8
  switch i64 %73, label %if.end3.i [
    i64 0, label %floor_divide.exit
    i64 -1, label %if.then2.i
  ]

if.then2.i:
  %sub.i = sub i64 0, %71
  br label %floor_divide.exit

if.end3.i:
  %div.i = sdiv i64 %71, %73
  %rem.i = srem i64 %71, %73
  %cmp4.not.i = icmp eq i64 %rem.i, 0
  %cmp8.unshifted.i = xor i64 %73, %71
  %cmp8.unshifted.lobit.neg.i = ashr i64 %cmp8.unshifted.i, 63
  %land.ext.neg.i = select i1 %cmp4.not.i, i64 0, i64 %cmp8.unshifted.lobit.neg.i
  %sub11.i = add i64 %land.ext.neg.i, %div.i
  br label %floor_divide.exit

floor_divide.exit:
  %retval.0.i319 = phi i64 [ %sub11.i, %if.end3.i ], [ %sub.i, %if.then2.i ], [ %73, %sw.bb74 ]
  %cmp82 = icmp eq i64 %71, -9223372036854775808
  %cmp86 = icmp eq i64 %73, -1
  %spec.select = and i1 %cmp82, %cmp86
  br label %sw.epilog

sw.bb89:
  %a90 = getelementptr inbounds nuw i8, ptr %at.0350, i64 32
  %74 = load i64, ptr %a90, align 8
  %arrayidx91 = getelementptr inbounds i64, ptr %0, i64 %74
  %75 = load i64, ptr %arrayidx91, align 8
  %b94 = getelementptr inbounds nuw i8, ptr %at.0350, i64 40
  %76 = load i64, ptr %b94, align 8
  %arrayidx95 = getelementptr inbounds i64, ptr %0, i64 %76
  %77 = load i64, ptr %arrayidx95, align 8
  switch i64 %77, label %if.end3.i323 [
    i64 0, label %floor_divide.exit331
    i64 -1, label %if.then2.i320
  ]

if.then2.i320:
  %sub.i321 = sub i64 0, %75
  br label %floor_divide.exit331

if.end3.i323:
  %div.i324 = sdiv i64 %75, %77
  %rem.i325 = srem i64 %75, %77
  %cmp4.not.i326 = icmp eq i64 %rem.i325, 0
  %cmp8.unshifted.i327 = xor i64 %77, %75
  %cmp8.unshifted.lobit.neg.i328 = ashr i64 %cmp8.unshifted.i327, 63
  %land.ext.neg.i329 = select i1 %cmp4.not.i326, i64 0, i64 %cmp8.unshifted.lobit.neg.i328
  %sub11.i330 = add i64 %land.ext.neg.i329, %div.i324
  br label %floor_divide.exit331

floor_divide.exit331:
  %retval.0.i322 = phi i64 [ %sub11.i330, %if.end3.i323 ], [ %sub.i321, %if.then2.i320 ], [ %77, %sw.bb89 ]
  %mul = mul i64 %retval.0.i322, %77
  %sub = sub i64 %75, %mul
  %tobool101.not = icmp eq i64 %77, 0
  %cond105 = select i1 %tobool101.not, i64 0, i64 %sub
  br label %sw.epilog

sw.bb106:
  %a107 = getelementptr inbounds nuw i8, ptr %at.0350, i64 32
  %78 = load i64, ptr %a107, align 8
  %arrayidx108 = getelementptr inbounds i64, ptr %0, i64 %78
  %79 = load i64, ptr %arrayidx108, align 8
  %tobool109.not = icmp eq i64 %79, 0
  %.pn.in.v = select i1 %tobool109.not, i64 48, i64 40
  %.pn.in = getelementptr inbounds nuw i8, ptr %at.0350, i64 %.pn.in.v
  %.pn = load i64, ptr %.pn.in, align 8
  %cond116.in = getelementptr inbounds i64, ptr %0, i64 %.pn
  %cond116 = load i64, ptr %cond116.in, align 8
  br label %sw.epilog

sw.bb117:
  %a118 = getelementptr inbounds nuw i8, ptr %at.0350, i64 32
  %80 = load i64, ptr %a118, align 8
  %arrayidx119 = getelementptr inbounds i64, ptr %0, i64 %80
  %81 = load i64, ptr %arrayidx119, align 8
  %b120 = getelementptr inbounds nuw i8, ptr %at.0350, i64 40
  %82 = load i64, ptr %b120, align 8
  %arrayidx121 = getelementptr inbounds i64, ptr %0, i64 %82
  %83 = load i64, ptr %arrayidx121, align 8
  %and = and i64 %83, %81
  br label %sw.epilog

sw.bb122:
  %a123 = getelementptr inbounds nuw i8, ptr %at.0350, i64 32
  %84 = load i64, ptr %a123, align 8
  %arrayidx124 = getelementptr inbounds i64, ptr %0, i64 %84
  %85 = load i64, ptr %arrayidx124, align 8
  %b125 = getelementptr inbounds nuw i8, ptr %at.0350, i64 40
  %86 = load i64, ptr %b125, align 8
  %arrayidx126 = getelementptr inbounds i64, ptr %0, i64 %86
  %87 = load i64, ptr %arrayidx126, align 8
  %or = or i64 %87, %85
  br label %sw.epilog

sw.bb127:
  %a128 = getelementptr inbounds nuw i8, ptr %at.0350, i64 32
  %88 = load i64, ptr %a128, align 8
  %arrayidx129 = getelementptr inbounds i64, ptr %0, i64 %88
  %89 = load i64, ptr %arrayidx129, align 8
  %b130 = getelementptr inbounds nuw i8, ptr %at.0350, i64 40
  %90 = load i64, ptr %b130, align 8
  %arrayidx131 = getelementptr inbounds i64, ptr %0, i64 %90
  %91 = load i64, ptr %arrayidx131, align 8
  %xor = xor i64 %91, %89
  br label %sw.epilog

sw.bb132:
  %a133 = getelementptr inbounds nuw i8, ptr %at.0350, i64 32
  %92 = load i64, ptr %a133, align 8
  %arrayidx134 = getelementptr inbounds i64, ptr %0, i64 %92
  %93 = load i64, ptr %arrayidx134, align 8
  %not = xor i64 %93, -1
  br label %sw.epilog

sw.bb135:
  %a136 = getelementptr inbounds nuw i8, ptr %at.0350, i64 32
  %94 = load i64, ptr %a136, align 8
  %arrayidx137 = getelementptr inbounds i64, ptr %0, i64 %94
  %95 = load i64, ptr %arrayidx137, align 8
  br label %sw.epilog

sw.bb138:
  %a139 = getelementptr inbounds nuw i8, ptr %at.0350, i64 32
  %96 = load i64, ptr %a139, align 8
  %arrayidx140 = getelementptr inbounds i64, ptr %0, i64 %96
  %97 = load i64, ptr %arrayidx140, align 8
  %b141 = getelementptr inbounds nuw i8, ptr %at.0350, i64 40
  %98 = load i64, ptr %b141, align 8
  %arrayidx142 = getelementptr inbounds i64, ptr %0, i64 %98
  %99 = load i64, ptr %arrayidx142, align 8
  %cmp143 = icmp slt i64 %97, %99
  %conv145 = zext i1 %cmp143 to i64
  br label %sw.epilog

sw.bb146:
  %a147 = getelementptr inbounds nuw i8, ptr %at.0350, i64 32
  %100 = load i64, ptr %a147, align 8
  %arrayidx148 = getelementptr inbounds i64, ptr %0, i64 %100
  %101 = load i64, ptr %arrayidx148, align 8
  %b149 = getelementptr inbounds nuw i8, ptr %at.0350, i64 40
  %102 = load i64, ptr %b149, align 8
  %arrayidx150 = getelementptr inbounds i64, ptr %0, i64 %102
  %103 = load i64, ptr %arrayidx150, align 8
  %cmp151 = icmp sle i64 %101, %103
  %conv153 = zext i1 %cmp151 to i64
  br label %sw.epilog

sw.bb154:
  %a155 = getelementptr inbounds nuw i8, ptr %at.0350, i64 32
  %104 = load i64, ptr %a155, align 8
  %arrayidx156 = getelementptr inbounds i64, ptr %0, i64 %104
  %105 = load i64, ptr %arrayidx156, align 8
  %b157 = getelementptr inbounds nuw i8, ptr %at.0350, i64 40
  %106 = load i64, ptr %b157, align 8
  %arrayidx158 = getelementptr inbounds i64, ptr %0, i64 %106
  %107 = load i64, ptr %arrayidx158, align 8
  %cmp159 = icmp eq i64 %105, %107
  %conv161 = zext i1 %cmp159 to i64
  br label %sw.epilog

sw.bb162:
  %a163 = getelementptr inbounds nuw i8, ptr %at.0350, i64 32
  %108 = load i64, ptr %a163, align 8
  %arrayidx164 = getelementptr inbounds i64, ptr %0, i64 %108
  %109 = load i64, ptr %arrayidx164, align 8
  %b165 = getelementptr inbounds nuw i8, ptr %at.0350, i64 40
  %110 = load i64, ptr %b165, align 8
  %arrayidx166 = getelementptr inbounds i64, ptr %0, i64 %110
  %111 = load i64, ptr %arrayidx166, align 8
  %cmp167 = icmp ne i64 %109, %111
  %conv169 = zext i1 %cmp167 to i64
  br label %sw.epilog

sw.bb170:
  %a171 = getelementptr inbounds nuw i8, ptr %at.0350, i64 32
  %112 = load i64, ptr %a171, align 8
  %arrayidx172 = getelementptr inbounds i64, ptr %0, i64 %112
  %113 = load i64, ptr %arrayidx172, align 8
  %114 = add i64 %113, -2147483648
  %or.cond.i = icmp ult i64 %114, -2147483647
  br i1 %or.cond.i, label %sw.epilog, label %if.end.i

if.end.i:
  %cmp.i.i = icmp samesign ult i64 %113, 2
  %sub.i.i = add nsw i64 %113, -1
  %115 = tail call i64 @llvm.ctlz.i64(i64 %sub.i.i, i1 true)
  %sub1.i.i = sub nuw nsw i64 64, %115
  %116 = shl nuw nsw i64 2147483648, %sub1.i.i
  %117 = add nsw i64 %116, -1
  %sub.i333 = select i1 %cmp.i.i, i64 2147483647, i64 %117
  %div.i334 = udiv i64 %sub.i333, %113
  %sub5.i = add nsw i64 %div.i334, -4294967295
  br label %sw.epilog

sw.bb174:
  %a175 = getelementptr inbounds nuw i8, ptr %at.0350, i64 32
  %118 = load i64, ptr %a175, align 8
  %arrayidx176 = getelementptr inbounds i64, ptr %0, i64 %118
  %119 = load i64, ptr %arrayidx176, align 8
  %120 = add i64 %119, -2147483648
  %or.cond.i335 = icmp ult i64 %120, -2147483647
  br i1 %or.cond.i335, label %sw.epilog, label %if.end.i336

if.end.i336:
  %cmp.i.i337 = icmp samesign ult i64 %119, 2
  %sub.i.i338 = add nsw i64 %119, -1
  %121 = tail call i64 @llvm.ctlz.i64(i64 %sub.i.i338, i1 true)
  %sub1.i.i339 = sub nuw nsw i64 64, %121
  %cond.i.i340 = select i1 %cmp.i.i337, i64 0, i64 %sub1.i.i339
  br label %sw.epilog

sw.epilog:
  %value.0 = phi i64 [ 0, %for.body ], [ %retval.0.i319, %floor_divide.exit ], [ %20, %sw.bb4 ], [ %37, %sw.bb20 ], [ %44, %sw.bb24 ], [ %51, %sw.bb30 ], [ %.317, %sw.bb36 ], [ %.318, %sw.bb47 ], [ %64, %sw.bb62 ], [ %69, %if.then71 ], [ %66, %sw.bb66 ], [ %sub5.i, %if.end.i ], [ %cond105, %floor_divide.exit331 ], [ %cond116, %sw.bb106 ], [ %and, %sw.bb117 ], [ %or, %sw.bb122 ], [ %xor, %sw.bb127 ], [ %not, %sw.bb132 ], [ %95, %sw.bb135 ], [ %conv145, %sw.bb138 ], [ %conv153, %sw.bb146 ], [ %conv161, %sw.bb154 ], [ %conv169, %sw.bb162 ], [ %conv10.i, %sw.bb9.i ], [ %cond.i.i340, %if.end.i336 ], [ %13, %sw.default.i ], [ %conv.i, %sw.bb.i ], [ %conv2.i, %sw.bb1.i ], [ %conv4.i, %sw.bb3.i ], [ %conv6.i, %sw.bb5.i ], [ %conv8.i, %sw.bb7.i ], [ 0, %sw.bb170 ], [ 0, %sw.bb174 ]
  %over.0 = phi i1 [ false, %for.body ], [ %spec.select, %floor_divide.exit ], [ false, %sw.bb4 ], [ %36, %sw.bb20 ], [ %43, %sw.bb24 ], [ %50, %sw.bb30 ], [ false, %sw.bb36 ], [ false, %sw.bb47 ], [ %63, %sw.bb62 ], [ %68, %if.then71 ], [ false, %sw.bb66 ], [ false, %if.end.i ], [ false, %floor_divide.exit331 ], [ false, %sw.bb106 ], [ false, %sw.bb117 ], [ false, %sw.bb122 ], [ false, %sw.bb127 ], [ false, %sw.bb132 ], [ false, %sw.bb135 ], [ false, %sw.bb138 ], [ false, %sw.bb146 ], [ false, %sw.bb154 ], [ false, %sw.bb162 ], [ false, %sw.bb9.i ], [ false, %if.end.i336 ], [ false, %sw.default.i ], [ false, %sw.bb.i ], [ false, %sw.bb1.i ], [ false, %sw.bb3.i ], [ false, %sw.bb5.i ], [ false, %sw.bb7.i ], [ false, %sw.bb170 ], [ false, %sw.bb174 ]
  %exact = getelementptr inbounds nuw i8, ptr %at.0350, i64 16
  %122 = load i64, ptr %exact, align 8
  %tobool178.not = icmp eq i64 %122, 0
  br i1 %tobool178.not, label %if.then179, label %if.else

if.then179:
  %bits180 = getelementptr inbounds nuw i8, ptr %at.0350, i64 8
  %123 = load i64, ptr %bits180, align 8
  %cmp.i = icmp eq i64 %123, 1
  br i1 %cmp.i, label %if.then.i, label %if.end.i343

if.then.i:
  %cmp1.i = icmp ne i64 %value.0, 0
  %conv2.i346 = zext i1 %cmp1.i to i64
  br label %if.end184

if.end.i343:
  %cond.i = tail call i64 @llvm.abs.i64(i64 %123, i1 true)
  %cmp5.i = icmp samesign ugt i64 %cond.i, 63
  br i1 %cmp5.i, label %if.end184, label %if.end8.i

if.end8.i:
  %cmp3.i = icmp slt i64 %123, 0
  %sub9.i = sub nuw nsw i64 64, %cond.i
  %shl.i344 = shl i64 %value.0, %sub9.i
  %shr.i = ashr exact i64 %shl.i344, %sub9.i
  %shr16.i = lshr exact i64 %shl.i344, %sub9.i
  %cond18.i = select i1 %cmp3.i, i64 %shr.i, i64 %shr16.i
  br label %if.end184

if.else:
  br i1 %over.0, label %cleanup190, label %if.end184

if.end184:
  %value.1 = phi i64 [ %value.0, %if.else ], [ %conv2.i346, %if.then.i ], [ %cond18.i, %if.end8.i ], [ %value.0, %if.end.i343 ]
  %to185 = getelementptr inbounds nuw i8, ptr %at.0350, i64 24
  %124 = load i64, ptr %to185, align 8
  %arrayidx186 = getelementptr inbounds i64, ptr %0, i64 %124
  store i64 %value.1, ptr %arrayidx186, align 8
  br label %for.inc

for.inc:
  %incdec.ptr = getelementptr inbounds nuw i8, ptr %at.0350, i64 56
  %cmp.not.not = icmp ult ptr %incdec.ptr, %add.ptr
  br i1 %cmp.not.not, label %for.body, label %cleanup190

cleanup190:
  %cmp.not.lcssa = phi i1 [ true, %entry ], [ false, %sw.bb15 ], [ false, %if.else ], [ false, %sw.bb6 ], [ true, %for.inc ]
  ret i1 %cmp.not.lcssa
}

declare { i64, i1 } @llvm.sadd.with.overflow.i64(i64, i64) nounwind

declare { i64, i1 } @llvm.ssub.with.overflow.i64(i64, i64) nounwind

declare { i64, i1 } @llvm.smul.with.overflow.i64(i64, i64) nounwind

declare ptr @PyMem_RawMalloc(i64) nounwind

declare i64 @llvm.ctlz.i64(i64, i1 immarg) nounwind

declare i64 @llvm.abs.i64(i64, i1 immarg) nounwind

declare void @llvm.memset.p0.i64(ptr, i8, i64, i1 immarg) nounwind

declare i64 @llvm.smax.i64(i64, i64) nounwind

declare i64 @llvm.smin.i64(i64, i64) nounwind
