"""CUDA C++ to machine code."""
