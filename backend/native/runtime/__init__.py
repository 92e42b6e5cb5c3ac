"""Machine code at run time: threads, launches, calls that are replayed."""
