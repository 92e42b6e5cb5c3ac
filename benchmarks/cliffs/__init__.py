"""Programs in natural form that once took a cliff, one module per kind of work."""

from . import windows, folds, elements, loops, programs  # isort: skip  (the order of the table)
from .cliff import CLIFFS

__all__ = ["CLIFFS", "elements", "folds", "loops", "programs", "windows"]
