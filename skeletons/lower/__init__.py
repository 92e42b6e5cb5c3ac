"""From a node of the graph to kernels: a folder for each skeleton, its CPU and GPU side by side."""
