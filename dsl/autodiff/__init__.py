"""Derivatives of array programs: from graph to graph, before the passes."""

from . import (
    elements as elements,
    folds as folds,
    library_rules as library_rules,
    loops as loops,
    permutes as permutes,
    products as products,
)
from .custom import rule
from .fixed_points import fixed_point
from .gradients import check_grad, grad, jvp, stop, value_and_grad, vjp

__all__ = ["check_grad", "fixed_point", "grad", "jvp", "rule", "stop", "value_and_grad", "vjp"]
