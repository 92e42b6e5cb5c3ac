"""form_fma: `a·b + c → fma(a, b, c)`, inside one operation.

The pass runs before fusion and considers one operation at a time, so that fusion never changes a
bit.  The interior and the border of a stencil share the expression, so they agree as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ..expr import Apply, Expr, no_common_sum, rewrite, walk
from ..graph import Combine, Leaf, Node
from ..graphs.rebuild import rewrite_graph
from ..primitives import TABLE
from ..simplify import apply
from .base import Context


def form_fma(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    """Replace products used once, in an addition of the same float type, by fused multiply-adds."""

    def change(node: Node) -> Node:
        changes: dict[str, Any] = {}
        for field in ("elements", "epilogue"):
            value = getattr(node, field, ())
            if value:
                made = contract(value)
                if made != value:
                    changes[field] = made
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
    """The expressions with fused multiply-adds."""
    inside = walk(roots, no_common_sum)
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
    memo: dict[Expr, Expr] = {}
    for e in inside:
        if _is_product(e, uses):
            (made,) = rewrite((e,), change, memo, no_common_sum)
            single.add(made)
    if not single:
        return roots
    return rewrite(roots, change, memo, no_common_sum)
