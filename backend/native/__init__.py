"""The native backend: kernel IR to vectorised machine code on all cores, through LLVM.

codegen/emitter    kernel IR -> LLVM IR, with explicit SIMD
codegen/compile    LLVM IR -> machine code
runtime/code       machine code kept in memory and on disk, and launched
runtime/threads    tasks -> cores
"""
