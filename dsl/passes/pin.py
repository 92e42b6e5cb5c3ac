"""pin_order: apply `deterministic=True` of a program to every operation that it affects.

These are permutes whose result depends on the order of updates (sums of floats, overwriting), folds
and products of floats, which then group elements by their index and not by their memory layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..analysis.combines import is_commutative
from ..graph import Fold, FoldSeg, Leaf, Matmul, Node, Permute
from ..graphs.rebuild import rewrite_graph
from .base import Context


def pin_order(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    """Copy the setting to labels and options of operations."""
    if not context.settings.deterministic:
        return list(roots)

    def change(node: Node) -> Node:
        made: Node = node
        if _depends_on_order(node):
            made = node.with_(label=replace(node.label, deterministic=True))
        elif isinstance(node, Matmul):
            made = node.with_(options=replace(node.options, deterministic=True))
        return made

    return rewrite_graph(roots, change, context.kept)


def _depends_on_order(node: Node) -> bool:
    if isinstance(node, Fold | FoldSeg):
        return any(r.type.is_inexact for r in node.combine.results)
    if not isinstance(node, Permute):
        return False
    exact = not any(o.type.is_inexact for o in node.outputs)
    return not (exact and node.combine is not None and is_commutative(node.combine))
