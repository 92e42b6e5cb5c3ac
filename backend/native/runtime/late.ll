; late.c, compiled by clang 22.1.8 (ziglang 0.17.1) and tidied by
; python -m treadle.backend.native.runtime.build: change the C file, not this one.
; python -m ziglang cc -target x86_64-linux-gnu -S -emit-llvm -Os -g0 -std=gnu11 -fPIC -Wall -Wextra -Werror -Wno-unused-command-line-argument -fno-sanitize=all -fno-stack-protector -fno-asynchronous-unwind-tables -fno-vectorize -fno-slp-vectorize -fno-unroll-loops -fno-strict-aliasing -fno-ident -fno-discard-value-names -Xclang -no-enable-noundef-analysis -isystem PYTHON -isystem NUMPY late.c
; sha256 of late.c, late.h: 970ce8c1b1ee0f06967776563b87885e0fd7f60e454386762b0162ec80f9aac4

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
  %cmp.not354 = icmp slt i64 %2, 1
  br i1 %cmp.not354, label %cleanup192, label %for.body

for.body:
  %at.0355 = phi ptr [ %incdec.ptr, %for.inc ], [ %1, %entry ]
  %3 = load i64, ptr %at.0355, align 8
  %conv = trunc i64 %3 to i32
  switch i32 %conv, label %sw.epilog [
    i32 0, label %sw.bb
    i32 1, label %sw.bb2
    i32 2, label %sw.bb5
    i32 3, label %sw.bb7
    i32 4, label %sw.bb12
    i32 5, label %sw.bb16
    i32 6, label %sw.bb21
    i32 7, label %sw.bb26
    i32 8, label %sw.bb32
    i32 9, label %sw.bb38
    i32 10, label %sw.bb49
    i32 11, label %sw.bb64
    i32 12, label %sw.bb68
    i32 13, label %sw.bb76
    i32 14, label %sw.bb91
    i32 15, label %sw.bb108
    i32 16, label %sw.bb119
    i32 17, label %sw.bb124
    i32 18, label %sw.bb129
    i32 19, label %sw.bb134
    i32 20, label %sw.bb137
    i32 21, label %sw.bb140
    i32 22, label %sw.bb148
    i32 23, label %sw.bb156
    i32 24, label %sw.bb164
    i32 25, label %sw.bb172
    i32 26, label %sw.bb176
  ]

sw.bb:
  %a = getelementptr inbounds nuw i8, ptr %at.0355, i64 32
  %4 = load i64, ptr %a, align 8
  %5 = inttoptr i64 %4 to ptr
  %b = getelementptr inbounds nuw i8, ptr %at.0355, i64 40
  %6 = load i64, ptr %b, align 8
  %arrayidx = getelementptr inbounds i64, ptr %0, i64 %6
  %7 = load i64, ptr %arrayidx, align 8
  %bits = getelementptr inbounds nuw i8, ptr %at.0355, i64 8
  %8 = load i64, ptr %bits, align 8
  %cond.i = tail call i64 @llvm.abs.i64(i64 %8, i1 true)
  %add.i = add nuw nsw i64 %cond.i, 7
  %div20.i = lshr i64 %add.i, 3
  %mul.i = mul nsw i64 %div20.i, %7
  %add.ptr.i = getelementptr inbounds i8, ptr %5, i64 %mul.i
  switch i64 %8, label %sw.default.i [
    i64 1, label %sw.bb.i
    i64 8, label %sw.bb.i
    i64 16, label %sw.bb1.i
    i64 32, label %sw.bb3.i
    i64 -8, label %sw.bb5.i
    i64 -16, label %sw.bb7.i
    i64 -32, label %sw.bb9.i
  ]

sw.bb.i:
  %9 = load i8, ptr %add.ptr.i, align 1
  %conv.i = zext i8 %9 to i64
  br label %sw.epilog

sw.bb1.i:
  %10 = load i16, ptr %add.ptr.i, align 2
  %conv2.i = zext i16 %10 to i64
  br label %sw.epilog

sw.bb3.i:
  %11 = load i32, ptr %add.ptr.i, align 4
  %conv4.i = zext i32 %11 to i64
  br label %sw.epilog

sw.bb5.i:
  %12 = load i8, ptr %add.ptr.i, align 1
  %conv6.i = sext i8 %12 to i64
  br label %sw.epilog

sw.bb7.i:
  %13 = load i16, ptr %add.ptr.i, align 2
  %conv8.i = sext i16 %13 to i64
  br label %sw.epilog

sw.bb9.i:
  %14 = load i32, ptr %add.ptr.i, align 4
  %conv10.i = sext i32 %14 to i64
  br label %sw.epilog

sw.default.i:
  %15 = load i64, ptr %add.ptr.i, align 8
  br label %sw.epilog

sw.bb2:
  %a3 = getelementptr inbounds nuw i8, ptr %at.0355, i64 32
  %16 = load i64, ptr %a3, align 8
  %arrayidx4 = getelementptr inbounds i64, ptr %0, i64 %16
  %17 = load i64, ptr %arrayidx4, align 8
  %to = getelementptr inbounds nuw i8, ptr %at.0355, i64 24
  %18 = load i64, ptr %to, align 8
  %19 = inttoptr i64 %18 to ptr
  store i64 %17, ptr %19, align 8
  br label %for.inc

sw.bb5:
  %a6 = getelementptr inbounds nuw i8, ptr %at.0355, i64 32
  %20 = load i64, ptr %a6, align 8
  %21 = inttoptr i64 %20 to ptr
  %size = getelementptr inbounds nuw i8, ptr %21, i64 8
  %22 = load i64, ptr %size, align 8
  br label %sw.epilog

sw.bb7:
  %to8 = getelementptr inbounds nuw i8, ptr %at.0355, i64 24
  %23 = load i64, ptr %to8, align 8
  %24 = inttoptr i64 %23 to ptr
  %a9 = getelementptr inbounds nuw i8, ptr %at.0355, i64 32
  %25 = load i64, ptr %a9, align 8
  %arrayidx10 = getelementptr inbounds i64, ptr %0, i64 %25
  %26 = load i64, ptr %arrayidx10, align 8
  %call11 = tail call fastcc zeroext i1 @resize(ptr %24, i64 %26) nounwind
  br i1 %call11, label %for.inc, label %cleanup192

sw.bb12:
  %to13 = getelementptr inbounds nuw i8, ptr %at.0355, i64 24
  %27 = load i64, ptr %to13, align 8
  %28 = inttoptr i64 %27 to ptr
  %a14 = getelementptr inbounds nuw i8, ptr %at.0355, i64 32
  %29 = load i64, ptr %a14, align 8
  %arrayidx15 = getelementptr inbounds i64, ptr %0, i64 %29
  %30 = load i64, ptr %arrayidx15, align 8
  tail call void @release(ptr %28, i64 %30) nounwind
  br label %for.inc

sw.bb16:
  %a17 = getelementptr inbounds nuw i8, ptr %at.0355, i64 32
  %31 = load i64, ptr %a17, align 8
  %arrayidx18 = getelementptr inbounds i64, ptr %0, i64 %31
  %32 = load i64, ptr %arrayidx18, align 8
  %tobool.not = icmp eq i64 %32, 0
  br i1 %tobool.not, label %cleanup192, label %for.inc

sw.bb21:
  %a22 = getelementptr inbounds nuw i8, ptr %at.0355, i64 32
  %33 = load i64, ptr %a22, align 8
  %arrayidx23 = getelementptr inbounds i64, ptr %0, i64 %33
  %34 = load i64, ptr %arrayidx23, align 8
  %b24 = getelementptr inbounds nuw i8, ptr %at.0355, i64 40
  %35 = load i64, ptr %b24, align 8
  %arrayidx25 = getelementptr inbounds i64, ptr %0, i64 %35
  %36 = load i64, ptr %arrayidx25, align 8
  %37 = tail call { i64, i1 } @llvm.sadd.with.overflow.i64(i64 %34, i64 %36)
  %38 = extractvalue { i64, i1 } %37, 1
  %39 = extractvalue { i64, i1 } %37, 0
  br label %sw.epilog

sw.bb26:
  %a27 = getelementptr inbounds nuw i8, ptr %at.0355, i64 32
  %40 = load i64, ptr %a27, align 8
  %arrayidx28 = getelementptr inbounds i64, ptr %0, i64 %40
  %41 = load i64, ptr %arrayidx28, align 8
  %b29 = getelementptr inbounds nuw i8, ptr %at.0355, i64 40
  %42 = load i64, ptr %b29, align 8
  %arrayidx30 = getelementptr inbounds i64, ptr %0, i64 %42
  %43 = load i64, ptr %arrayidx30, align 8
  %44 = tail call { i64, i1 } @llvm.ssub.with.overflow.i64(i64 %41, i64 %43)
  %45 = extractvalue { i64, i1 } %44, 1
  %46 = extractvalue { i64, i1 } %44, 0
  br label %sw.epilog

sw.bb32:
  %a33 = getelementptr inbounds nuw i8, ptr %at.0355, i64 32
  %47 = load i64, ptr %a33, align 8
  %arrayidx34 = getelementptr inbounds i64, ptr %0, i64 %47
  %48 = load i64, ptr %arrayidx34, align 8
  %b35 = getelementptr inbounds nuw i8, ptr %at.0355, i64 40
  %49 = load i64, ptr %b35, align 8
  %arrayidx36 = getelementptr inbounds i64, ptr %0, i64 %49
  %50 = load i64, ptr %arrayidx36, align 8
  %51 = tail call { i64, i1 } @llvm.smul.with.overflow.i64(i64 %48, i64 %50)
  %52 = extractvalue { i64, i1 } %51, 1
  %53 = extractvalue { i64, i1 } %51, 0
  br label %sw.epilog

sw.bb38:
  %a39 = getelementptr inbounds nuw i8, ptr %at.0355, i64 32
  %54 = load i64, ptr %a39, align 8
  %arrayidx40 = getelementptr inbounds i64, ptr %0, i64 %54
  %55 = load i64, ptr %arrayidx40, align 8
  %b41 = getelementptr inbounds nuw i8, ptr %at.0355, i64 40
  %56 = load i64, ptr %b41, align 8
  %arrayidx42 = getelementptr inbounds i64, ptr %0, i64 %56
  %57 = load i64, ptr %arrayidx42, align 8
  %.321 = tail call i64 @llvm.smin.i64(i64 %55, i64 %57)
  br label %sw.epilog

sw.bb49:
  %a50 = getelementptr inbounds nuw i8, ptr %at.0355, i64 32
  %58 = load i64, ptr %a50, align 8
  %arrayidx51 = getelementptr inbounds i64, ptr %0, i64 %58
  %59 = load i64, ptr %arrayidx51, align 8
  %b52 = getelementptr inbounds nuw i8, ptr %at.0355, i64 40
  %60 = load i64, ptr %b52, align 8
  %arrayidx53 = getelementptr inbounds i64, ptr %0, i64 %60
  %61 = load i64, ptr %arrayidx53, align 8
  %.322 = tail call i64 @llvm.smax.i64(i64 %59, i64 %61)
  br label %sw.epilog

sw.bb64:
  %a65 = getelementptr inbounds nuw i8, ptr %at.0355, i64 32
  %62 = load i64, ptr %a65, align 8
  %arrayidx66 = getelementptr inbounds i64, ptr %0, i64 %62
  %63 = load i64, ptr %arrayidx66, align 8
  %64 = tail call { i64, i1 } @llvm.ssub.with.overflow.i64(i64 0, i64 %63)
  %65 = extractvalue { i64, i1 } %64, 1
  %66 = extractvalue { i64, i1 } %64, 0
  br label %sw.epilog

sw.bb68:
  %a69 = getelementptr inbounds nuw i8, ptr %at.0355, i64 32
  %67 = load i64, ptr %a69, align 8
  %arrayidx70 = getelementptr inbounds i64, ptr %0, i64 %67
  %68 = load i64, ptr %arrayidx70, align 8
  %cmp71 = icmp slt i64 %68, 0
  br i1 %cmp71, label %if.then73, label %sw.epilog

if.then73:
  %69 = tail call { i64, i1 } @llvm.ssub.with.overflow.i64(i64 0, i64 %68)
  %70 = extractvalue { i64, i1 } %69, 1
  %71 = extractvalue { i64, i1 } %69, 0
  br label %sw.epilog

sw.bb76:
  %a77 = getelementptr inbounds nuw i8, ptr %at.0355, i64 32
  %72 = load i64, ptr %a77, align 8
  %arrayidx78 = getelementptr inbounds i64, ptr %0, i64 %72
  %73 = load i64, ptr %arrayidx78, align 8
  %b79 = getelementptr inbounds nuw i8, ptr %at.0355, i64 40
  %74 = load i64, ptr %b79, align 8
  %arrayidx80 = getelementptr inbounds i64, ptr %0, i64 %74
  %75 = load i64, ptr %arrayidx80, align 8
  switch i64 %75, label %if.end3.i [
    i64 0, label %floor_divide.exit
    i64 -1, label %if.then2.i
  ]

if.then2.i:
  %sub.i = sub i64 0, %73
  br label %floor_divide.exit

if.end3.i:
  %div.i = sdiv i64 %73, %75
  %rem.i = srem i64 %73, %75
  %cmp4.not.i = icmp eq i64 %rem.i, 0
  %cmp8.unshifted.i = xor i64 %75, %73
  %cmp8.unshifted.lobit.neg.i = ashr i64 %cmp8.unshifted.i, 63
  %land.ext.neg.i = select i1 %cmp4.not.i, i64 0, i64 %cmp8.unshifted.lobit.neg.i
  %sub11.i = add i64 %land.ext.neg.i, %div.i
  br label %floor_divide.exit

floor_divide.exit:
  %retval.0.i323 = phi i64 [ %sub11.i, %if.end3.i ], [ %sub.i, %if.then2.i ], [ %75, %sw.bb76 ]
  %cmp84 = icmp eq i64 %73, -9223372036854775808
  %cmp88 = icmp eq i64 %75, -1
  %spec.select = and i1 %cmp84, %cmp88
  br label %sw.epilog

sw.bb91:
  %a92 = getelementptr inbounds nuw i8, ptr %at.0355, i64 32
  %76 = load i64, ptr %a92, align 8
  %arrayidx93 = getelementptr inbounds i64, ptr %0, i64 %76
  %77 = load i64, ptr %arrayidx93, align 8
  %b96 = getelementptr inbounds nuw i8, ptr %at.0355, i64 40
  %78 = load i64, ptr %b96, align 8
  %arrayidx97 = getelementptr inbounds i64, ptr %0, i64 %78
  %79 = load i64, ptr %arrayidx97, align 8
  switch i64 %79, label %if.end3.i327 [
    i64 0, label %floor_divide.exit335
    i64 -1, label %if.then2.i324
  ]

if.then2.i324:
  %sub.i325 = sub i64 0, %77
  br label %floor_divide.exit335

if.end3.i327:
  %div.i328 = sdiv i64 %77, %79
  %rem.i329 = srem i64 %77, %79
  %cmp4.not.i330 = icmp eq i64 %rem.i329, 0
  %cmp8.unshifted.i331 = xor i64 %79, %77
  %cmp8.unshifted.lobit.neg.i332 = ashr i64 %cmp8.unshifted.i331, 63
  %land.ext.neg.i333 = select i1 %cmp4.not.i330, i64 0, i64 %cmp8.unshifted.lobit.neg.i332
  %sub11.i334 = add i64 %land.ext.neg.i333, %div.i328
  br label %floor_divide.exit335

floor_divide.exit335:
  %retval.0.i326 = phi i64 [ %sub11.i334, %if.end3.i327 ], [ %sub.i325, %if.then2.i324 ], [ %79, %sw.bb91 ]
  %mul = mul i64 %retval.0.i326, %79
  %sub = sub i64 %77, %mul
  %tobool103.not = icmp eq i64 %79, 0
  %cond107 = select i1 %tobool103.not, i64 0, i64 %sub
  br label %sw.epilog

sw.bb108:
  %a109 = getelementptr inbounds nuw i8, ptr %at.0355, i64 32
  %80 = load i64, ptr %a109, align 8
  %arrayidx110 = getelementptr inbounds i64, ptr %0, i64 %80
  %81 = load i64, ptr %arrayidx110, align 8
  %tobool111.not = icmp eq i64 %81, 0
  %.pn.in.v = select i1 %tobool111.not, i64 48, i64 40
  %.pn.in = getelementptr inbounds nuw i8, ptr %at.0355, i64 %.pn.in.v
  %.pn = load i64, ptr %.pn.in, align 8
  %cond118.in = getelementptr inbounds i64, ptr %0, i64 %.pn
  %cond118 = load i64, ptr %cond118.in, align 8
  br label %sw.epilog

sw.bb119:
  %a120 = getelementptr inbounds nuw i8, ptr %at.0355, i64 32
  %82 = load i64, ptr %a120, align 8
  %arrayidx121 = getelementptr inbounds i64, ptr %0, i64 %82
  %83 = load i64, ptr %arrayidx121, align 8
  %b122 = getelementptr inbounds nuw i8, ptr %at.0355, i64 40
  %84 = load i64, ptr %b122, align 8
  %arrayidx123 = getelementptr inbounds i64, ptr %0, i64 %84
  %85 = load i64, ptr %arrayidx123, align 8
  %and = and i64 %85, %83
  br label %sw.epilog

sw.bb124:
  %a125 = getelementptr inbounds nuw i8, ptr %at.0355, i64 32
  %86 = load i64, ptr %a125, align 8
  %arrayidx126 = getelementptr inbounds i64, ptr %0, i64 %86
  %87 = load i64, ptr %arrayidx126, align 8
  %b127 = getelementptr inbounds nuw i8, ptr %at.0355, i64 40
  %88 = load i64, ptr %b127, align 8
  %arrayidx128 = getelementptr inbounds i64, ptr %0, i64 %88
  %89 = load i64, ptr %arrayidx128, align 8
  %or = or i64 %89, %87
  br label %sw.epilog

sw.bb129:
  %a130 = getelementptr inbounds nuw i8, ptr %at.0355, i64 32
  %90 = load i64, ptr %a130, align 8
  %arrayidx131 = getelementptr inbounds i64, ptr %0, i64 %90
  %91 = load i64, ptr %arrayidx131, align 8
  %b132 = getelementptr inbounds nuw i8, ptr %at.0355, i64 40
  %92 = load i64, ptr %b132, align 8
  %arrayidx133 = getelementptr inbounds i64, ptr %0, i64 %92
  %93 = load i64, ptr %arrayidx133, align 8
  %xor = xor i64 %93, %91
  br label %sw.epilog

sw.bb134:
  %a135 = getelementptr inbounds nuw i8, ptr %at.0355, i64 32
  %94 = load i64, ptr %a135, align 8
  %arrayidx136 = getelementptr inbounds i64, ptr %0, i64 %94
  %95 = load i64, ptr %arrayidx136, align 8
  %not = xor i64 %95, -1
  br label %sw.epilog

sw.bb137:
  %a138 = getelementptr inbounds nuw i8, ptr %at.0355, i64 32
  %96 = load i64, ptr %a138, align 8
  %arrayidx139 = getelementptr inbounds i64, ptr %0, i64 %96
  %97 = load i64, ptr %arrayidx139, align 8
  br label %sw.epilog

sw.bb140:
  %a141 = getelementptr inbounds nuw i8, ptr %at.0355, i64 32
  %98 = load i64, ptr %a141, align 8
  %arrayidx142 = getelementptr inbounds i64, ptr %0, i64 %98
  %99 = load i64, ptr %arrayidx142, align 8
  %b143 = getelementptr inbounds nuw i8, ptr %at.0355, i64 40
  %100 = load i64, ptr %b143, align 8
  %arrayidx144 = getelementptr inbounds i64, ptr %0, i64 %100
  %101 = load i64, ptr %arrayidx144, align 8
  %cmp145 = icmp slt i64 %99, %101
  %conv147 = zext i1 %cmp145 to i64
  br label %sw.epilog

sw.bb148:
  %a149 = getelementptr inbounds nuw i8, ptr %at.0355, i64 32
  %102 = load i64, ptr %a149, align 8
  %arrayidx150 = getelementptr inbounds i64, ptr %0, i64 %102
  %103 = load i64, ptr %arrayidx150, align 8
  %b151 = getelementptr inbounds nuw i8, ptr %at.0355, i64 40
  %104 = load i64, ptr %b151, align 8
  %arrayidx152 = getelementptr inbounds i64, ptr %0, i64 %104
  %105 = load i64, ptr %arrayidx152, align 8
  %cmp153 = icmp sle i64 %103, %105
  %conv155 = zext i1 %cmp153 to i64
  br label %sw.epilog

sw.bb156:
  %a157 = getelementptr inbounds nuw i8, ptr %at.0355, i64 32
  %106 = load i64, ptr %a157, align 8
  %arrayidx158 = getelementptr inbounds i64, ptr %0, i64 %106
  %107 = load i64, ptr %arrayidx158, align 8
  %b159 = getelementptr inbounds nuw i8, ptr %at.0355, i64 40
  %108 = load i64, ptr %b159, align 8
  %arrayidx160 = getelementptr inbounds i64, ptr %0, i64 %108
  %109 = load i64, ptr %arrayidx160, align 8
  %cmp161 = icmp eq i64 %107, %109
  %conv163 = zext i1 %cmp161 to i64
  br label %sw.epilog

sw.bb164:
  %a165 = getelementptr inbounds nuw i8, ptr %at.0355, i64 32
  %110 = load i64, ptr %a165, align 8
  %arrayidx166 = getelementptr inbounds i64, ptr %0, i64 %110
  %111 = load i64, ptr %arrayidx166, align 8
  %b167 = getelementptr inbounds nuw i8, ptr %at.0355, i64 40
  %112 = load i64, ptr %b167, align 8
  %arrayidx168 = getelementptr inbounds i64, ptr %0, i64 %112
  %113 = load i64, ptr %arrayidx168, align 8
  %cmp169 = icmp ne i64 %111, %113
  %conv171 = zext i1 %cmp169 to i64
  br label %sw.epilog

sw.bb172:
  %a173 = getelementptr inbounds nuw i8, ptr %at.0355, i64 32
  %114 = load i64, ptr %a173, align 8
  %arrayidx174 = getelementptr inbounds i64, ptr %0, i64 %114
  %115 = load i64, ptr %arrayidx174, align 8
  %116 = add i64 %115, -2147483648
  %or.cond.i = icmp ult i64 %116, -2147483647
  br i1 %or.cond.i, label %sw.epilog, label %if.end.i

if.end.i:
  %cmp.i.i = icmp samesign ult i64 %115, 2
  %sub.i.i = add nsw i64 %115, -1
  %117 = tail call i64 @llvm.ctlz.i64(i64 %sub.i.i, i1 true)
  %sub1.i.i = sub nuw nsw i64 64, %117
  %118 = shl nuw nsw i64 2147483648, %sub1.i.i
  %119 = add nsw i64 %118, -1
  %sub.i337 = select i1 %cmp.i.i, i64 2147483647, i64 %119
  %div.i338 = udiv i64 %sub.i337, %115
  %sub5.i = add nsw i64 %div.i338, -4294967295
  br label %sw.epilog

sw.bb176:
  %a177 = getelementptr inbounds nuw i8, ptr %at.0355, i64 32
  %120 = load i64, ptr %a177, align 8
  %arrayidx178 = getelementptr inbounds i64, ptr %0, i64 %120
  %121 = load i64, ptr %arrayidx178, align 8
  %122 = add i64 %121, -2147483648
  %or.cond.i339 = icmp ult i64 %122, -2147483647
  br i1 %or.cond.i339, label %sw.epilog, label %if.end.i340

if.end.i340:
  %cmp.i.i341 = icmp samesign ult i64 %121, 2
  %sub.i.i342 = add nsw i64 %121, -1
  %123 = tail call i64 @llvm.ctlz.i64(i64 %sub.i.i342, i1 true)
  %sub1.i.i343 = sub nuw nsw i64 64, %123
  %cond.i.i344 = select i1 %cmp.i.i341, i64 0, i64 %sub1.i.i343
  br label %sw.epilog

sw.epilog:
  %value.0 = phi i64 [ 0, %for.body ], [ %retval.0.i323, %floor_divide.exit ], [ %22, %sw.bb5 ], [ %39, %sw.bb21 ], [ %46, %sw.bb26 ], [ %53, %sw.bb32 ], [ %.321, %sw.bb38 ], [ %.322, %sw.bb49 ], [ %66, %sw.bb64 ], [ %71, %if.then73 ], [ %68, %sw.bb68 ], [ %sub5.i, %if.end.i ], [ %cond107, %floor_divide.exit335 ], [ %cond118, %sw.bb108 ], [ %and, %sw.bb119 ], [ %or, %sw.bb124 ], [ %xor, %sw.bb129 ], [ %not, %sw.bb134 ], [ %97, %sw.bb137 ], [ %conv147, %sw.bb140 ], [ %conv155, %sw.bb148 ], [ %conv163, %sw.bb156 ], [ %conv171, %sw.bb164 ], [ %conv10.i, %sw.bb9.i ], [ %cond.i.i344, %if.end.i340 ], [ %15, %sw.default.i ], [ %conv.i, %sw.bb.i ], [ %conv2.i, %sw.bb1.i ], [ %conv4.i, %sw.bb3.i ], [ %conv6.i, %sw.bb5.i ], [ %conv8.i, %sw.bb7.i ], [ 0, %sw.bb172 ], [ 0, %sw.bb176 ]
  %over.0 = phi i1 [ false, %for.body ], [ %spec.select, %floor_divide.exit ], [ false, %sw.bb5 ], [ %38, %sw.bb21 ], [ %45, %sw.bb26 ], [ %52, %sw.bb32 ], [ false, %sw.bb38 ], [ false, %sw.bb49 ], [ %65, %sw.bb64 ], [ %70, %if.then73 ], [ false, %sw.bb68 ], [ false, %if.end.i ], [ false, %floor_divide.exit335 ], [ false, %sw.bb108 ], [ false, %sw.bb119 ], [ false, %sw.bb124 ], [ false, %sw.bb129 ], [ false, %sw.bb134 ], [ false, %sw.bb137 ], [ false, %sw.bb140 ], [ false, %sw.bb148 ], [ false, %sw.bb156 ], [ false, %sw.bb164 ], [ false, %sw.bb9.i ], [ false, %if.end.i340 ], [ false, %sw.default.i ], [ false, %sw.bb.i ], [ false, %sw.bb1.i ], [ false, %sw.bb3.i ], [ false, %sw.bb5.i ], [ false, %sw.bb7.i ], [ false, %sw.bb172 ], [ false, %sw.bb176 ]
  %exact = getelementptr inbounds nuw i8, ptr %at.0355, i64 16
  %124 = load i64, ptr %exact, align 8
  %tobool180.not = icmp eq i64 %124, 0
  br i1 %tobool180.not, label %if.then181, label %if.else

if.then181:
  %bits182 = getelementptr inbounds nuw i8, ptr %at.0355, i64 8
  %125 = load i64, ptr %bits182, align 8
  %cmp.i = icmp eq i64 %125, 1
  br i1 %cmp.i, label %if.then.i, label %if.end.i347

if.then.i:
  %cmp1.i = icmp ne i64 %value.0, 0
  %conv2.i351 = zext i1 %cmp1.i to i64
  br label %if.end186

if.end.i347:
  %cond.i348 = tail call i64 @llvm.abs.i64(i64 %125, i1 true)
  %cmp5.i = icmp samesign ugt i64 %cond.i348, 63
  br i1 %cmp5.i, label %if.end186, label %if.end8.i

if.end8.i:
  %cmp3.i = icmp slt i64 %125, 0
  %sub9.i = sub nuw nsw i64 64, %cond.i348
  %shl.i349 = shl i64 %value.0, %sub9.i
  %shr.i = ashr exact i64 %shl.i349, %sub9.i
  %shr16.i = lshr exact i64 %shl.i349, %sub9.i
  %cond18.i = select i1 %cmp3.i, i64 %shr.i, i64 %shr16.i
  br label %if.end186

if.else:
  br i1 %over.0, label %cleanup192, label %if.end186

if.end186:
  %value.1 = phi i64 [ %value.0, %if.else ], [ %conv2.i351, %if.then.i ], [ %cond18.i, %if.end8.i ], [ %value.0, %if.end.i347 ]
  %to187 = getelementptr inbounds nuw i8, ptr %at.0355, i64 24
  %126 = load i64, ptr %to187, align 8
  %arrayidx188 = getelementptr inbounds i64, ptr %0, i64 %126
  store i64 %value.1, ptr %arrayidx188, align 8
  br label %for.inc

for.inc:
  %incdec.ptr = getelementptr inbounds nuw i8, ptr %at.0355, i64 56
  %cmp.not.not = icmp ult ptr %incdec.ptr, %add.ptr
  br i1 %cmp.not.not, label %for.body, label %cleanup192

cleanup192:
  %cmp.not.lcssa = phi i1 [ true, %entry ], [ false, %sw.bb16 ], [ false, %if.else ], [ false, %sw.bb7 ], [ true, %for.inc ]
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
