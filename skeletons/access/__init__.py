"""Where kernels read and write: affine forms, intervals, index maps, footprints."""
