"""Run-time checks: relations between extents that must hold before the first kernel runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from . import errors
from .expr import Const, Expr, Param
from .graph import ArrayLoop, Check, Input, Leaf, Node, topological
from .rebuild import rewrite_graph
from .types import int64


def checks_before(roots: Iterable[Leaf]) -> list[Check]:
    """Checks to make before the first kernel: those that read no array, including checks in loop
    bodies (even if there will be no iteration), but not those in the sides of a branch."""
    found: dict[Check, None] = {}
    pending = list(roots)
    while pending:
        nodes = list(topological(pending, inside=False))
        found.update(dict.fromkeys(c for n in nodes for c in n.checks if not c.reads))
        pending = [leaf for n in nodes if isinstance(n, ArrayLoop) for leaf in n.inner_roots()]
    return list(found)


def with_checks(roots: Sequence[Leaf], checks: Iterable[Check]) -> list[Leaf]:
    """The graph with additional checks, attached to its first operation."""
    more = tuple(dict.fromkeys(checks))
    first = next((n for n in topological(roots, inside=False) if not isinstance(n, Input)), None)
    if not more or first is None:
        return list(roots)
    made = first.with_(checks=(*first.checks, *more))
    return rewrite_graph(roots, lambda node: made if node is first else node)


def without_tests(roots: Sequence[Leaf]) -> list[Leaf]:
    """The graph without the checks that only checked programs make."""
    nodes = topological(roots)
    if not any(c.in_checked for n in nodes if not isinstance(n, Input) for c in n.checks):
        return list(roots)

    def change(node: Node) -> Node:
        kept = tuple(c for c in node.checks if not c.in_checked)
        return node if len(kept) == len(node.checks) else node.with_(checks=kept)

    return rewrite_graph(roots, change)


def limit_of(check: Check) -> tuple[Param, int, int] | None:
    """An int64 parameter and the range to which a check limits it; None for other checks."""
    left, right = check.left, check.right
    if check.relation == ">=" and isinstance(left, Param) and isinstance(right, Const):
        return left, int(right.value), int64.highest
    if check.relation == ">=" and isinstance(left, Const) and isinstance(right, Param):
        return right, int64.lowest, int(left.value)
    return None


def verify_checks(checks: Iterable[Check], value: Callable[[Expr], Any]) -> None:
    """Raise the error of the first violated relation; `value` evaluates a scalar."""
    for check in checks:
        left, right = int(value(check.left)), int(value(check.right))
        holds = left >= right if check.relation == ">=" else left == right
        if not holds:
            kind = getattr(errors, check.error)
            raise kind(check.told(left, right), hint=check.hint, where=check.where)
