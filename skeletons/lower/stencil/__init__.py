"""Elements that read neighbours of their index (on a CPU they are elementwise kernels)."""
