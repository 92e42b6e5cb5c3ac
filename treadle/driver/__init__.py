"""From Python functions to results: tracing, programs, their explanations and files."""
