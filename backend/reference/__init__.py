"""The executable semantics of the language: a simple, slow NumPy interpreter of the graph."""

from .evaluate import run

__all__ = ["run"]
