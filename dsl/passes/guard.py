"""guard_reads: `where(p, a[f(i)], x)` reads only where p holds.

Both sides of `where` are evaluated, and a checked program reports an index out of range in either.
Unchecked, `where(i > 0, a[i - 1], 0)` is what people write; reading element −1 could leave the
array's memory.  So a select whose side reads at a computed index becomes a `Cond`: masked loads
on vector units, the same value, and no access that the program does not use.  For the same reason
a permute's write outside its target is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..expr import Apply, Cond, Const, Expr, Index, Proj, Read, rewrite, walk
from ..graph import Leaf, Node, Permute
from ..operations.stencils import in_range
from ..rebuild import rewrite_graph
from ..scalar import apply_primitive
from .base import Context

FIELDS = ("elements", "epilogue", "target", "values")


def guard_reads(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    """Selects over reads at computed indices become guarded (unchecked programs only)."""
    if context.settings.check:
        return list(roots)

    def change(node: Node) -> Node:
        changes: dict[str, Any] = {}
        for name in FIELDS:
            value = getattr(node, name, ())
            if value:
                made = guarded(value)
                if made != value:
                    changes[name] = made
        if isinstance(node, Permute):
            changes["valid"] = _inside(node)
        return node.with_(**changes) if changes else node

    return rewrite_graph(roots, change, context.kept)


def _inside(node: Permute) -> Expr:
    """Writes outside the target are dropped: they would end in somebody else's memory."""
    valid = node.valid
    for i, n in zip(node.target, node.defaults[0].shape, strict=True):
        valid = apply_primitive("logical_and", [valid, in_range(i, n)])
    return valid


def guarded(roots: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The expressions with selects over risky reads turned into conditionals."""
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
    """A read at an index that is not plainly an axis of the domain."""
    return isinstance(e, Read) and e.boundary is None and not all(
        isinstance(a, Index | Const) for a in e.args)  # fmt: skip
