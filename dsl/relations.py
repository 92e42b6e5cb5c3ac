"""Run-time checks: relations between extents that must hold before the first kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from . import errors
from .expr import Expr
from .graph import ArrayLoop, Check, Leaf, topological


def checks_before(roots: Iterable[Leaf]) -> list[Check]:
    """What must hold before the first kernel: the checks that read no array, those in the bodies of
    loops included (whether or not there will be a turn), those of a branch's sides left out."""
    found: dict[Check, None] = {}
    pending = list(roots)
    while pending:
        nodes = list(topological(pending, inside=False))
        found.update(dict.fromkeys(c for n in nodes for c in n.checks if not c.reads))
        pending = [leaf for n in nodes if isinstance(n, ArrayLoop) for leaf in n.inner_roots()]
    return list(found)


def verify_checks(checks: Iterable[Check], value: Callable[[Expr], Any]) -> None:
    """Raise the error of the first relation that does not hold; `value` evaluates a scalar."""
    for check in checks:
        left, right = int(value(check.left)), int(value(check.right))
        holds = left >= right if check.relation == ">=" else left == right
        if not holds:
            kind = getattr(errors, check.error)
            raise kind(check.told(left, right), hint=check.hint, where=check.where)
