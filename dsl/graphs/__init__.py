"""What works on any graph: rebuild, verify, encode, name and print it."""
