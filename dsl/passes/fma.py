"""form_fma: `a·b + c → fma(a, b, c)`, inside one operation.

The pass runs before fusion and considers one operation at a time, so that fusion never changes a
bit.  A scalar loop, which several operations may copy, is contracted independently of its context:
as an index or in a condition, its result is the same as elsewhere.  The interior and the border of
a stencil share the expression, so they agree as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ..expr import Apply, Expr, Loop, While, no_common_sum, rewrite, walk
from ..graph import Combine, Leaf, Node
from ..graphs.rebuild import rewrite_graph
from ..primitives import TABLE
from ..simplify import apply
from .base import Context


def form_fma(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    """Replace products used once, in an addition of the same float type, by fused multiply-adds."""

    def change(node: Node) -> Node:
        changes: dict[str, Any] = {}
        for field in node.computed:
            value = getattr(node, field) or ()
            whole = field in ("elements", "epilogue")
            made = (contract if whole else in_loops)((value,) if isinstance(value, Expr) else value)
            if made != value and made != (value,):
                changes[field] = made[0] if isinstance(value, Expr) else made
        combine = getattr(node, "combine", None)
        if isinstance(combine, Combine):
            results = contract(combine.results)
            if results != combine.results:
                changes["combine"] = Combine(combine.left, combine.right, results)
        return node.with_(**changes) if changes else node

    return rewrite_graph(roots, change)


def _is_product(e: Expr, uses: Counter[Expr]) -> bool:
    return isinstance(e, Apply) and e.op.name == "multiply" and uses[e] == 1


def contract(roots: tuple[Expr, ...]) -> tuple[Expr, ...]:
    return _contracted(roots, _loops(roots))


def in_loops(roots: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The expressions with fused multiply-adds in scalar loops only."""
    memo = _loops(roots)
    return rewrite(roots, lambda e: e, memo) if memo else roots


def _loops(roots: tuple[Expr, ...]) -> dict[Expr, Expr]:
    """The scalar loops, each contracted independently of its context, so that all operations that
    compute a loop get the same code."""
    found: dict[Expr, Expr] = {}
    for e in walk([e for e in roots if e.scopes], no_common_sum):
        if isinstance(e, While | Loop):
            (found[e],) = _contracted((e,), found)
    return found


def _contracted(roots: tuple[Expr, ...], loops: dict[Expr, Expr]) -> tuple[Expr, ...]:
    """The expressions with fused multiply-adds; inner `loops` are contracted already."""

    def into(e: Expr) -> bool:
        return no_common_sum(e) and e not in loops

    inside = [e for e in walk(roots, into) if e not in loops]
    uses = Counter([*roots, *(child for e in inside for child in e.args + e.scoped)])

    def change(e: Expr) -> Expr:
        if not isinstance(e, Apply) or e.type.family != "float" or e.type.bits < 32:
            return e
        if e.op.name not in ("add", "subtract"):
            return e
        a, b = e.args
        minus = e.op.name == "subtract"
        negate = TABLE["negative"]
        if isinstance(a, Apply) and a in single:
            c = apply(negate, (b,), e.type) if minus else b
            return apply(TABLE["fma"], (a.args[0], a.args[1], c), e.type)
        if isinstance(b, Apply) and b in single:
            x = apply(negate, (b.args[0],), e.type) if minus else b.args[0]
            return apply(TABLE["fma"], (x, b.args[1], a), e.type)
        return e

    single: set[Expr] = set()  # products after rewriting, which are others if their operands are
    memo = dict(loops)
    for e in inside:
        if _is_product(e, uses):
            (made,) = rewrite((e,), change, memo, no_common_sum)
            single.add(made)
    if not single and not loops:
        return roots
    return rewrite(roots, change, memo, no_common_sum)
