"""What is measured on a GPU: one module per kind of work, each with a function `works`."""
