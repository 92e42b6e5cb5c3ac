"""Kernels partitioned into blocks that an engine computes separately: dask, files, several GPUs."""
