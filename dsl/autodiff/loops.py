"""The adjoints of branches and of loops over arrays."""
