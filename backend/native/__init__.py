"""The native backend: kernel IR to vectorised machine code on all cores, through LLVM.

emitter      kernel IR -> LLVM IR, with explicit SIMD
compile      LLVM IR -> machine code, cached in memory and on disk
threads      tasks -> cores
"""
