; unit, gil.py:20
;   with unit × 3, gil.py:20
; schedule: default
; tasks %begin to %end; %a0 u, %a1 out0, %a2 out1, %a3 out2, %a4 out3, %a5 errors, %a6 n0
define internal void @unit_line20(ptr noalias %a0, ptr noalias %a1, ptr noalias %a2, ptr noalias %a3, ptr noalias %a4, ptr noalias %a5, i64 range(i64 0, -9223372036854775808) %a6, i64 %begin, i64 %end) #2 {
entry:
  %m6 = alloca double
  %m7 = alloca double
  %m8 = alloca double
  %m9 = alloca double
  %t4 = icmp slt i64 %begin, %end
  br i1 %t4, label %enter_task1, label %end_task3
enter_task1:
  br label %task2
task2:
  %i5 = phi i64 [ %begin, %enter_task1 ], [ %t77, %end_for12 ]
  store double 0x408EF00000000000, ptr %m6
  store double 0x4024000000000000, ptr %m7
  store double 0x0000000000000000, ptr %m8
  store double 0x0000000000000000, ptr %m9
  br label %enter_for10
enter_for10:
  br label %for11
for11:
  %i13 = phi i64 [ 0, %enter_for10 ], [ %t70, %done56 ]
  %t14 = load double, ptr %m7
  %t15 = fcmp ogt double %t14, 0x0000000000000000
  %t16 = load double, ptr %m6
  %t17 = fmul double %t16, 0x3FD3333333333333
  %t18 = fmul double %t17, %t14
  %t19 = fdiv double %t18, 0x408F400000000000
  %t20 = call double @llvm.fma.f64(double %t14, double 0x3FB999999999999A, double %t19)
  %t21 = mul i64 %i13, 2
  %t22 = add i64 %t21, 1
  %t23 = icmp slt i64 %t22, 0
  %t24 = add i64 %a6, %t21
  %t25 = add i64 %t24, 1
  %t26 = select i1 %t23, i64 %t25, i64 %t22
  %t27 = getelementptr double, ptr %a0, i64 %t26
  %t28 = load double, ptr %t27, align 8, !invariant.load !0
  %t29 = fmul double %t28, %t20
  %t30 = fcmp olt double %t29, %t19
  %t31 = select i1 %t30, double 0x3FF0000000000000, double 0xBFF0000000000000
  %t32 = select i1 %t15, double %t31, double 0x0000000000000000
  %t33 = and i1 %t15, %t30
  %t34 = select i1 %t33, double 0x3FF0000000000000, double 0x0000000000000000
  %t35 = fsub double %t16, %t34
  %t36 = fadd double %t14, %t32
  %t37 = load double, ptr %m8
  %t38 = xor i1 %t30, true
  %t39 = and i1 %t15, %t38
  %t40 = select i1 %t39, double 0x3FF0000000000000, double 0x0000000000000000
  %t41 = fadd double %t37, %t40
  %t42 = load double, ptr %m9
  %t43 = icmp slt i64 %t21, 0
  %t44 = select i1 %t43, i64 %t24, i64 %t21
  %t45 = getelementptr double, ptr %a0, i64 %t44
  %t46 = load double, ptr %t45, align 8, !invariant.load !0
  %t47 = insertelement <8 x double> poison, double %t46, i64 0
  %t48 = shufflevector <8 x double> %t47, <8 x double> poison, <8 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %t49 = bitcast <8 x double> %t48 to <8 x i64>
  %t50 = sub <8 x i64> %t49, splat (i64 4503599627370496)
  %t51 = icmp uge <8 x i64> %t50, splat (i64 9214364837600034816)
  %t52 = bitcast <8 x i1> %t51 to i8
  %t53 = icmp ne i8 %t52, 0
  br i1 %t53, label %hard54, label %easy55
hard54:
  %t57 = call <8 x double> @treadle._ZGVeN8v_log(<8 x double> %t48)
  br label %done56
easy55:
  %t58 = call <8 x double> @_ZGVeN8v_log(<8 x double> %t48)
  br label %done56
done56:
  %p59 = phi <8 x double> [ %t58, %easy55 ], [ %t57, %hard54 ]
  %t60 = extractelement <8 x double> %p59, i64 0
  %t61 = insertelement <2 x double> poison, double %t20, i64 0
  %t62 = insertelement <2 x double> poison, double 0x3D719799812DEA11, i64 0
  %t63 = call <2 x double> @llvm.x86.avx512.mask.range.sd(<2 x double> %t61, <2 x double> %t62, <2 x double> zeroinitializer, i8 -1, i32 5, i32 4)
  %t64 = extractelement <2 x double> %t63, i64 0
  %t65 = fcmp uno double %t20, 0x3D719799812DEA11
  %t66 = select i1 %t65, double 0x7FF8000000000000, double %t64
  %t67 = fdiv double %t60, %t66
  %t68 = fsub double %t42, %t67
  store double %t35, ptr %m6
  store double %t36, ptr %m7
  store double %t41, ptr %m8
  store double %t68, ptr %m9
  %t69 = add i64 %i13, 1
  %t70 = call i64 asm "", "=r,0"(i64 %t69) nounwind memory(none)
  %t71 = icmp slt i64 %t70, 20000
  br i1 %t71, label %for11, label %end_for12
end_for12:
  %t72 = load double, ptr %m6
  store double %t72, ptr %a1, align 8
  %t73 = load double, ptr %m7
  store double %t73, ptr %a2, align 8
  %t74 = load double, ptr %m8
  store double %t74, ptr %a3, align 8
  %t75 = load double, ptr %m9
  store double %t75, ptr %a4, align 8
  %t76 = add i64 %i5, 1
  %t77 = call i64 asm "", "=r,0"(i64 %t76) nounwind memory(none)
  %t78 = icmp slt i64 %t77, %end
  br i1 %t78, label %task2, label %end_task3
end_task3:
  ret void
}

define void @entry(ptr %args, i64 %begin, i64 %end) #0 {
  %p0 = getelementptr i64, ptr %args, i64 0
  %v0 = load ptr, ptr %p0
  %p1 = getelementptr i64, ptr %args, i64 1
  %v1 = load ptr, ptr %p1
  %p2 = getelementptr i64, ptr %args, i64 2
  %v2 = load ptr, ptr %p2
  %p3 = getelementptr i64, ptr %args, i64 3
  %v3 = load ptr, ptr %p3
  %p4 = getelementptr i64, ptr %args, i64 4
  %v4 = load ptr, ptr %p4
  %p5 = getelementptr i64, ptr %args, i64 5
  %v5 = load ptr, ptr %p5
  %p6 = getelementptr i64, ptr %args, i64 6
  %v6 = load i64, ptr %p6
  call void @unit_line20(ptr %v0, ptr %v1, ptr %v2, ptr %v3, ptr %v4, ptr %v5, i64 %v6, i64 %begin, i64 %end)
  ret void
}

define internal <8 x double> @treadle._ZGVeN8v_log(<8 x double> %a0) #2 {
entry:
  %t1 = fcmp ogt <8 x double> %a0, splat (double 0x0000000000000000)
  %t2 = fcmp olt <8 x double> %a0, splat (double 0x0010000000000000)
  %t3 = and <8 x i1> %t1, %t2
  %t4 = fmul <8 x double> %a0, splat (double 0x4340000000000000)
  %t5 = select <8 x i1> %t3, <8 x double> %t4, <8 x double> %a0
  %t6 = bitcast <8 x double> %t5 to <8 x i64>
  %t7 = sub <8 x i64> %t6, splat (i64 4503599627370496)
  %t8 = icmp uge <8 x i64> %t7, splat (i64 9214364837600034816)
  %t9 = select <8 x i1> %t8, <8 x double> splat (double 0x3FF0000000000000), <8 x double> %t5
  %t10 = call <8 x double> @_ZGVeN8v_log(<8 x double> %t9)
  %t11 = fsub <8 x double> %t10, splat (double 0x40425E4F7B2737FA)
  %t12 = select <8 x i1> %t3, <8 x double> %t11, <8 x double> %t10
  %t13 = fcmp oeq <8 x double> %a0, splat (double 0x0000000000000000)
  %t14 = select <8 x i1> %t13, <8 x double> splat (double 0xFFF0000000000000), <8 x double> %t12
  %t15 = fcmp olt <8 x double> %a0, splat (double 0x0000000000000000)
  %t16 = select <8 x i1> %t15, <8 x double> splat (double 0x7FF8000000000000), <8 x double> %t14
  %t17 = fcmp ueq <8 x double> %a0, splat (double 0x7FF0000000000000)
  %t18 = select <8 x i1> %t17, <8 x double> %a0, <8 x double> %t16
  ret <8 x double> %t18
}

declare double @llvm.fma.f64(double, double, double) #1
declare <8 x double> @_ZGVeN8v_log(<8 x double>) #1
declare <2 x double> @llvm.x86.avx512.mask.range.sd(<2 x double>, <2 x double>, <2 x double>, i8, i32, i32) #1
attributes #0 = { nounwind alignstack=64 "prefer-vector-width"="512" "min-legal-vector-width"="512" }
attributes #1 = { nobuiltin nounwind willreturn memory(none) }
attributes #2 = { nounwind noinline "prefer-vector-width"="512" "min-legal-vector-width"="512" }
!0 = !{}
!1 = !{i32 1}
!2 = !{i32 1, !"override-stack-alignment", i32 64}
!llvm.module.flags = !{!2}
