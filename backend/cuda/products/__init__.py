"""Matrix products on a GPU: libraries, tile engines, and the choice between them."""
