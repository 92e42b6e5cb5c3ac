"""Kernels specialised for the small extents of one call: before → after.

    Σ w[k]·a[i + k − n // 2] over k < n, n = 3   →   w[0]·a[i − 1] + w[1]·a[i] + w[2]·a[i + 1]

Run-time weights are usually few, as are the coordinates of a point.  Once their number is a
constant, reads have constant offsets and strides: a stencil is lowered like one with constant
weights (neighbouring rows share reads, the weights stay in registers), and points are loaded as
vectors.  Every sum keeps its order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from treadle.dsl import expr as ex
from treadle.dsl.expr import Expr
from treadle.dsl.graph import Check, Node

#: The maximum number of iterations that are unrolled, over all loops.
MOST_ITERATIONS = 128


def computed(node: Node) -> tuple[Expr, ...]:
    """The expressions that kernels evaluate for each element or result."""
    found: list[Expr] = []
    for name in node.computed:
        value = getattr(node, name)
        found += (value,) if isinstance(value, Expr) else value
    return tuple(found)


def counting_extents(node: Node) -> dict[ex.Extent, int]:
    """The extents that are trip counts of loops in a kernel's expressions, inner loops first, with
    the operations of an iteration, not counting index arithmetic."""
    found: dict[ex.Extent, int] = {}
    for e in ex.walk(computed(node)):
        if isinstance(e, ex.Loop) and isinstance(e.count, ex.Extent):
            body = ex.walk(e.scoped, lambda e: not isinstance(e, ex.Read))
            operations = sum(isinstance(e, ex.Apply) for e in body)
            found[e.count] = max(operations, found.get(e.count, 0))
    return found


def unroll(most: int | None = None) -> Callable[[Expr], Expr]:
    """A callback for `rewrite` that unrolls loops with constant trip counts, at most `most`."""
    results: dict[Expr, tuple[Expr, ...]] = {}

    def change(e: Expr) -> Expr:
        if not isinstance(e, ex.Proj) or not isinstance(e.args[0], ex.Loop):
            return e
        loop = e.args[0]
        if not isinstance(loop.count, ex.Const) or (
            most is not None and int(loop.count.value) > most
        ):
            return e
        if loop not in results:
            state = loop.args[1:]
            for k in range(int(loop.count.value)):
                known = zip(loop.vars, (ex.constant(k), *state), strict=True)
                state = ex.substitute(loop.scoped, dict[Expr, Expr](known))
            results[loop] = state
        return results[loop][e.which]

    return change


def specialise(node: Node, sizes: Mapping[Expr, int]) -> Node:
    """The node specialised for these values of extents, with the loops that they bound unrolled.

    Shapes stay symbolic: an extent of the node is an extent of its results.
    """
    if not sizes:
        return node
    known: dict[Expr, Expr] = {e: ex.constant(n) for e, n in sizes.items()}
    change, memo = unroll(MOST_ITERATIONS), dict[Expr, Expr]()
    changes: dict[str, Any] = {}
    for name in node.computed:
        value = getattr(node, name)
        if isinstance(value, Expr):
            changes[name] = ex.rewrite(ex.substitute((value,), known), change, memo)[0]
        elif value:
            changes[name] = ex.rewrite(ex.substitute(value, known), change, memo)
    for e in (e for o in node.outputs for e in o.shape if e not in known):
        (derived,) = ex.substitute((e,), known)
        if isinstance(derived, ex.Const) and derived is not e:
            known[e] = derived
    facts = tuple(Check(e, n, "{left} is {right}") for e, n in known.items())
    return node.with_(**changes, checks=(*node.checks, *facts))
