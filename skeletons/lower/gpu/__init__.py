"""Shared parts of the GPU lowerings: threads, vectors, orders, shared memory, jammed loops."""
