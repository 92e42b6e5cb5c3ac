"""The executable meaning of the language: NumPy, straight from the graph, plain and slow."""

from .evaluate import run

__all__ = ["run"]
