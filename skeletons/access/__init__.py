"""Where kernels read and write: index maps, footprints, intervals."""
