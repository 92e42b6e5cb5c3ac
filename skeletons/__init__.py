"""How each operation becomes a kernel, and in which order its elements are visited."""
