"""Programs on arrays of dask, larger than one memory, on threads or on a cluster of machines."""
