"""Derivatives of array programs: from graph to graph, before the passes."""

from . import folds as folds
from . import loops as loops
from .gradients import grad, stop, value_and_grad, vjp

__all__ = ["grad", "stop", "value_and_grad", "vjp"]
