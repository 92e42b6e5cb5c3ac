"""guard_reads: `where(p, a[f(i)], x)` reads only where p holds.

Both sides of `where` are evaluated, and a checked program reports an index out of range in either.
In unchecked programs, users write `where(i > 0, a[i - 1], 0)`, and reading element −1 could access
memory outside the array.  So a select with a read at a computed index becomes a `Cond`: a masked
load on vector units, with the same value and without unused accesses.  For the same reason, a
permute drops writes outside its target.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..analysis.polynomial import always_inside
from ..expr import Apply, Cond, Const, Expr, Index, Proj, Read, rewrite, walk
from ..graph import Compact, Leaf, Node, Permute, Shape
from ..graphs.rebuild import rewrite_graph
from ..operations.stencils import in_range
from ..scalar import apply_primitive
from .base import Context


def guard_reads(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    """Guard selects over reads at computed indices (unchecked programs only)."""
    if context.settings.check:
        return list(roots)

    def change(node: Node) -> Node:
        changes: dict[str, Any] = {}
        for name in node.computed:
            value = getattr(node, name)
            if isinstance(value, tuple):
                made = guarded(value)
                if made != value:
                    changes[name] = made
        if isinstance(node, Permute) and not isinstance(node, Compact):  # its target is a place
            equal = [(c.left, c.right) for c in node.checks if c.relation == "=="]
            changes["valid"] = inside(
                node.valid, node.target, node.defaults[0].shape, node.domain, equal
            )
        return node.with_(**changes) if changes else node

    return rewrite_graph(roots, change, context.kept)


def inside(valid: Expr, target: Sequence[Expr], shape: Shape, domain: Shape,
           equal: Iterable[tuple[Expr, Expr]]) -> Expr:  # fmt: skip
    """The condition of a write, with its target in range: others would corrupt memory.

    Nothing is added for an index that is always in range, by the extents of the domain or by those
    that are `equal` to them.
    """
    same: dict[Expr, Expr] = {}
    for left, right in equal:
        same |= {left: right, right: left}
    domains = {domain, tuple(same.get(n, n) for n in domain)}
    for i, n in zip(target, shape, strict=True):
        if not any(always_inside(i, n, d) for d in domains):
            valid = apply_primitive("logical_and", [valid, in_range(i, n)])
    return valid


def guarded(roots: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The expressions with selects over possibly invalid reads replaced by conditionals."""
    risky: dict[Expr, bool] = {}
    for e in walk(roots):
        risky[e] = _is_risky(e) or any(risky[a] for a in e.args)

    def change(e: Expr) -> Expr:
        if not isinstance(e, Apply) or e.op.name != "select":
            return e
        p, a, b = e.args
        if isinstance(p, Const) or not (risky.get(a, True) or risky.get(b, True)):
            return e
        return Proj(Cond(p, (a,), (b,)), 0)

    if not any(isinstance(e, Apply) and e.op.name == "select" for e in risky):
        return roots
    return rewrite(roots, change)


def _is_risky(e: Expr) -> bool:
    """Whether this is a read at an index other than an axis of the domain or a constant."""
    return isinstance(e, Read) and e.boundary is None and not all(
        isinstance(a, Index | Const) for a in e.args)  # fmt: skip
