"""Memory, copies and launches of a GPU."""
