"""Matrix products on a GPU: libraries, tile engines, and which of them computes what."""
