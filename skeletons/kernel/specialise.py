"""Kernels for the small extents of one call: before → after.

    Σ w[k]·a[i + k − n // 2] over k < n, n = 3   →   w[0]·a[i − 1] + w[1]·a[i] + w[2]·a[i + 1]

Weights that are known only at run time are few.  Once their number is a constant, reads have
constant offsets, and a stencil is lowered like one whose weights were written into the program:
neighbouring rows share reads, and the weights stay in registers.  Every sum keeps its order.
"""

from __future__ import annotations

from treadle.dsl.expr import Const, Expr, Extent, Loop, Proj, constant, rewrite, substitute, walk
from treadle.dsl.graph import Generate, Node

#: So many turns of all loops together, at most, are written out.
MOST_TURNS = 128


def counting_extents(node: Node) -> tuple[Extent, ...]:
    """The extents that loops in the elements of a `Generate` count with."""
    if not isinstance(node, Generate):
        return ()
    loops = (e for e in walk(node.elements) if isinstance(e, Loop))
    return tuple(dict.fromkeys(e.count for e in loops if isinstance(e.count, Extent)))


def specialise(node: Generate, sizes: dict[Extent, int]) -> Generate:
    """The node where these extents, in its elements, have these values; loops are written out."""
    known: dict[Expr, Expr] = {e: constant(n) for e, n in sizes.items()}
    unrolled: dict[Expr, tuple[Expr, ...]] = {}

    def change(e: Expr) -> Expr:
        if not isinstance(e, Proj) or not isinstance(e.args[0], Loop):
            return e
        loop = e.args[0]
        if not isinstance(loop.count, Const) or int(loop.count.value) > MOST_TURNS:
            return e
        if loop not in unrolled:
            state = loop.args[1:]
            for k in range(int(loop.count.value)):
                pairs = zip(loop.vars, (constant(k), *state), strict=True)
                values: dict[Expr, Expr] = dict(pairs)
                state = substitute(loop.scoped, values)
            unrolled[loop] = state
        return unrolled[loop][e.which]

    elements = rewrite(substitute(node.elements, known), change)
    made: Generate = node.with_(elements=elements)
    return made
