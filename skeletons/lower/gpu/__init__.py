"""What the GPU lowerings share: threads and vectors, orders, shared memory, jammed loops."""
