"""Run-time checks: relations between extents that must hold before the first kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from . import errors
from .expr import Expr
from .graph import Check


def verify_checks(checks: Iterable[Check], value: Callable[[Expr], Any]) -> None:
    """Raise the error of the first relation that does not hold; `value` evaluates a scalar."""
    for check in checks:
        left, right = int(value(check.left)), int(value(check.right))
        holds = left >= right if check.relation == ">=" else left == right
        if not holds:
            kind = getattr(errors, check.error)
            raise kind(
                check.message.format(left=left, right=right), hint=check.hint, where=check.where
            )
