"""NVIDIA GPUs: CUDA C++ printed from kernels, compiled by NVRTC, launched through cuda-bindings."""
