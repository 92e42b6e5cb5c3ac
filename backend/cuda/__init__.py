"""The CUDA backend: CUDA C++ printed from kernels, compiled by NVRTC, launched by cuda-bindings."""
