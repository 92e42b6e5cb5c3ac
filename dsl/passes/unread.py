"""drop_unread: do not store components that are not read.

    s = stencil(…of tuples…);  p, q = unzip(s);  return p, imap(…, q)

After fusion the kernel of `s` computes three components, the second of which is read only in
registers.  Kernels store only components read by a result, another kernel or the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import graph
from ..graphs.rebuild import Rebuilder
from .base import Context


def drop_unread(roots: Sequence[graph.Leaf], context: Context) -> list[graph.Leaf]:
    """The graph without unread components.  Those of libraries and permutes stay, as do all
    components in checked programs, because their indices are tested."""
    if context.settings.check:
        return list(roots)
    order = list(graph.topological(roots))
    read = set(roots)
    kept: dict[
        graph.Node, tuple[graph.Node, list[int]]
    ] = {}  # shortened nodes, and the remaining components
    for node in reversed(order):
        left = [k for k in range(len(node.outputs)) if graph.Leaf(node, k) in read]
        if left:
            short = _with_only(node, left)
            if short is not node:
                kept[node] = short, left
            read.update(short.inputs(), short.inside())
    if not kept:
        return list(roots)
    builder = Rebuilder()
    for node in order:
        short, left = kept.get(node, (node, []))
        made = builder.node(short)
        if made is node:
            continue
        builder.replace(node, made, context.kept)
        builder.leaves.update((node.leaf(k), made.leaf(at)) for at, k in enumerate(left))
    return [builder.leaf(r) for r in roots]


def _with_only(node: Any, components: list[int]) -> graph.Node:
    """The node with only these components, if they do not depend on the others."""
    if len(components) == len(node.outputs) or isinstance(node, graph.Input):
        return node  # type: ignore[no-any-return]
    if isinstance(node, graph.Generate):
        return node.with_(elements=tuple(node.elements[k] for k in components))
    if isinstance(node, graph.Recurrence):
        count = len(node.collected)
        return node.with_(
            collected=tuple(node.collected[k] for k in components if k < count),
            last=tuple(node.last[k - count] for k in components if k >= count),
        )
    total = isinstance(node, graph.Scan) and node.form == "total"
    if isinstance(node, graph.Fold | graph.FoldSeg | graph.Scan | graph.Matmul) and not total:
        return node.with_(epilogue=tuple(node.epilogue[k] for k in components))
    return node  # type: ignore[no-any-return]
