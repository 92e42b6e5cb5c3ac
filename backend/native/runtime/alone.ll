; Where there is no team: the caller alone (threads.py has Python's threads).
define void @parallel(ptr %function, ptr %arguments, i64 %tasks, i64 %threads) nounwind {
  call void %function(ptr %arguments, i64 0, i64 %tasks)
  ret void
}
define i32 @patiently(ptr %function, ptr %arguments, i64 %tasks, i64 %threads, ptr %held) nounwind {
  call void %function(ptr %arguments, i64 0, i64 %tasks)
  ret i32 0
}
define void @abandon(ptr %held) nounwind {
  ret void
}
define void @openmp(ptr %gomp, ptr %number) nounwind {
  ret void
}
define void @forget() nounwind {
  ret void
}
