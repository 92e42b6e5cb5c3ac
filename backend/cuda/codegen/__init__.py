"""Kernel IR to CUDA C++."""
