; team.c, compiled by clang 22.1.8 (ziglang 0.17.1) and tidied by
; python -m treadle.backend.native.runtime.build: change the C file, not this one.
; python -m ziglang cc -target x86_64-freestanding -S -emit-llvm -Os -g0 -std=gnu11 -fPIC -Wall -Wextra -Werror -Wno-unused-command-line-argument -fno-sanitize=all -fno-stack-protector -fno-asynchronous-unwind-tables -fno-vectorize -fno-slp-vectorize -fno-unroll-loops -fno-strict-aliasing -fno-ident -fno-discard-value-names -Xclang -no-enable-noundef-analysis team.c
; sha256 of team.c, team.h: 29795db94cb70e8a91c4890f47e50afe15d020a8e48857c25c712765e3db3f71

define void @parallel(ptr %function, ptr %arguments, i64 %tasks, i64 %threads) nounwind {
entry:
  tail call void %function(ptr %arguments, i64 0, i64 %tasks) nounwind
  ret void
}

define void @parallel_brief(ptr %function, ptr %arguments, i64 %tasks, i64 %threads) nounwind {
entry:
  tail call void %function(ptr %arguments, i64 0, i64 %tasks) nounwind
  ret void
}
