"""The dask backend: programs on dask arrays, larger than one memory, on threads or on a cluster."""
