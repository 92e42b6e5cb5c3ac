"""store_first: stores the new elements of a loop's state before it is updated in place.

    a = update(a, (k, j), f(a[k − 1, j], a[j, k]))   →   new = f(…);  a = update(a, (k, j), new)

An update that reads elements of the state which it may write itself would need a copy of the state
in every iteration.  Computing the new elements first needs memory only for these.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis.updates import overwritable, overwrites
from ..graph import ArrayLoop, Generate, Label, Leaf, Node, Permute, topological
from ..graphs.rebuild import replace_nodes
from ..node import indices
from .base import Context


def store_first(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    """Split updates that read elements they may write, if nothing else requires a copy."""
    split: set[Node] = set()
    for loop in topological(roots):
        if isinstance(loop, ArrayLoop):
            found = overwritable(loop, split, between=True)
            split |= {n for n, states in found.items() if not all(overwrites(n, s) for s in states)}
    if not split:
        return list(roots)

    def change(node: Node, made: Node) -> Node:
        return _split(made) if node in split and isinstance(made, Permute) else made

    return replace_nodes(roots, change, context.kept)


def _split(node: Permute) -> Permute:
    label = Label("values", node.label.name)
    stored = Generate(node.domain, node.values, label=label, where=node.where)
    at = indices(len(node.domain))
    return node.with_(values=tuple(leaf.at(*at) for leaf in stored.leaves))
