"""Lowering: from a node of the array graph to kernels.  A folder per skeleton holds its CPU and GPU
lowerings; `lower.py` is the entry point."""
