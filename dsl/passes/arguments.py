"""single_pass_arguments: argmin and argmax read their array once.

    m = fold(max, x);  fold(min, where(x == m, i, ∞))   →   fold(best of (value, index), (x, i))

A GPU folds the pairs; a CPU makes two passes over each block while the block is in cache.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis.combines import argument_combine
from ..expr import Apply, Read, walk
from ..graph import Fold, Leaf, Node, result_variables
from ..graphs.rebuild import rewrite_graph
from .base import Context

_BETTER = {"minimum": "less", "maximum": "greater"}


def single_pass_arguments(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    """See the module docstring; the reference interprets programs as written."""
    if not context.target.kernels:
        return list(roots)

    def change(node: Node) -> Node:
        made = _single_pass(node)
        if made is None:
            return node
        context.notes.append(f"{node.label}: the value and its index in one pass")
        return made

    return rewrite_graph(roots, change)


def _single_pass(node: Node) -> Fold | None:
    if not isinstance(node, Fold) or node.label.operation not in ("argmin", "argmax"):
        return None
    element = node.elements[0]
    if len(node.elements) != 1 or not isinstance(element, Apply) or element.op.name != "select":
        return None
    hit, index, _ = element.args
    for e in walk((hit,)):
        extreme = e.node if isinstance(e, Read) else None
        if not isinstance(extreme, Fold) or extreme.label.operation != node.label.operation:
            continue
        best = extreme.combine.results[0]
        better = _BETTER.get(best.op.name) if isinstance(best, Apply) else None
        same = (extreme.outer, extreme.inner) == (node.outer, node.inner)
        if better is None or not same or extreme.epilogue != extreme.results:
            return None
        value = extreme.elements[0]
        results = result_variables((value, index))
        combine = argument_combine(value.type, better)
        return Fold(
            node.outer, node.inner, (value, index), combine, None, results, (results[1],),
            label=node.label, where=node.where, checks=node.checks, fused=node.fused,
        )  # fmt: skip
    return None
