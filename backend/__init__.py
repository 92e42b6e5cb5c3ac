"""Where programs run: print, compile, cache, run."""
