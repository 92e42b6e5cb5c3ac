"""Elements that read the neighbours of their position (on a CPU they are elementwise kernels)."""
