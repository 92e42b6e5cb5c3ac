"""The conformance suite: what the language promises, on every backend, against NumPy and SciPy."""
