"""Several GPUs of one host: arrays in parts, kernels in blocks, copies between peers."""
