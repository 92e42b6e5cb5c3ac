"""What is measured on the CPU: one module per kind of work, each with a function `works`."""
