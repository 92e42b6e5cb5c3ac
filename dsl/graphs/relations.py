"""Run-time checks: relations between extents that must hold before the first kernel runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .. import errors
from ..expr import Expr, Param, Read, walk
from ..graph import ArrayLoop, Check, Generate, Input, Leaf, Node, is_identity_read, topological
from ..types import int64
from .rebuild import Rebuilder, rewrite_graph


def checks_before(roots: Iterable[Leaf]) -> list[Check]:
    """Checks to make before the first kernel: those that read no array, including checks in loop
    bodies (even if there is no iteration), but not those in the sides of a branch."""
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
    """The graph without checks of checked programs, and copies that only carried these."""
    nodes = list(topological(roots))
    if not any(c.in_checked for n in nodes for c in n.checks):
        return list(roots)
    builder = Rebuilder()
    for node in nodes:
        made = builder.node(node)
        kept = tuple(c for c in made.checks if not c.in_checked)
        if len(kept) < len(made.checks):
            made = made.with_(checks=kept)
            copied = _copied(made)
            if copied is not None:
                builder.leaves[Leaf(node, 0)] = copied
                continue
        builder.replace(node, made)
    return [builder.leaf(r) for r in roots]


def _copied(node: Node) -> Leaf | None:
    """The array that a node copies, if the node is a plain copy without checks or a schedule."""
    if not isinstance(node, Generate) or node.checks or node.label.schedule is not None:
        return None
    (first, *others) = node.elements
    if others or not isinstance(first, Read) or not is_identity_read(first, len(node.shape)):
        return None
    source = Leaf(first.node, first.component)
    return source if source.shape == node.shape else None


def limit_of(check: Check) -> Param | None:
    """The int64 parameter that a check bounds by a value that depends only on extents: from below
    if it is the left side, from above if it is the right one; None for other checks."""
    for param, other in ((check.left, check.right), (check.right, check.left)):
        if check.relation == ">=" and isinstance(param, Param) and param.type == int64:
            if not any(isinstance(e, Param | Read) for e in walk((other,))):
                return param
    return None


def verify_checks(checks: Iterable[Check], value: Callable[[Expr], Any]) -> None:
    """Raise the error of the first violated relation; `value` evaluates a scalar."""
    for check in checks:
        left, right = int(value(check.left)), int(value(check.right))
        holds = left >= right if check.relation == ">=" else left == right
        if not holds:
            kind = getattr(errors, check.error)
            raise kind(check.text(left, right), hint=check.hint, where=check.where)
