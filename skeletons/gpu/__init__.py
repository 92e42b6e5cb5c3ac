"""How each operation becomes kernels of a GPU: one file per skeleton, beside the CPU's above."""
