"""The kernel IR: a small typed imperative language with two printers, to CUDA C++ and to LLVM
IR."""
