"""sort_partitions: replaces partial sorting by sorting where no library supports it.

    partition(x, positions)      →   sort(x)
    argpartition(x, positions)   →   argsort(x)

NumPy selects some positions of an array in memory faster than it sorts the array.  CuPy sorts in
any case, and arrays in blocks are sorted by samples.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..graph import Leaf, Library, Node, topological
from ..graphs.rebuild import rewrite_graph
from ..libraries.sort import sorting
from .base import Context


def sort_partitions(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    """Replace partitions by sorting, except on CPU cores with arrays in memory."""
    if context.target.cores or not any(_is_partition(n) for n in topological(roots)):
        return list(roots)

    def change(node: Node) -> Node:
        if not _is_partition(node):
            return node
        assert isinstance(node, Library)
        name = node.operation.name.replace("partition", "sort")
        operation = sorting(name, *node.operation.parameters)
        return node.with_(operation=operation, arguments=node.arguments[:1])

    return rewrite_graph(roots, change, context.kept)


def _is_partition(node: Node) -> bool:
    return isinstance(node, Library) and node.operation.name in ("partition", "argpartition")
