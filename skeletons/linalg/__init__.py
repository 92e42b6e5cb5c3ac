"""Kernels of linear algebra for matrices that are too large for the registers of a thread."""
