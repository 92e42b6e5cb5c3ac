"""Kernels partitioned into blocks that an engine computes separately: dask, files, or several
GPUs."""
