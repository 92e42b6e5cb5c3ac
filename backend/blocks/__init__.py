"""Kernels cut into blocks, for engines that compute these apart: dask, files, several GPUs."""
