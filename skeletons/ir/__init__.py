"""The kernel IR: a small typed imperative language that two printers finish (CUDA C++, LLVM)."""
