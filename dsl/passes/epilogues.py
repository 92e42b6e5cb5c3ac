"""fuse_epilogues: element-wise consumers into the write-back of fold, scan and matmul.

`map(f, fold(…))` becomes a fold that stores `f` of its results, when the consumer reads the
result only at its own index.  Other readers of the plain result keep it as a further component.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..expr import Expr, Read, rewrite, walk
from ..graph import (
    ArrayLoop, Branch, Fold, FoldSeg, Generate, Leaf, Matmul, Node, Scan, inner_inputs,
    is_identity_read, topological,
)  # fmt: skip
from .base import Context
from .rebuild import Rebuilder
from .vertical import regions


def fuse_epilogues(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    """Repeat until no consumer can be taken in (a chain is eaten one by one)."""
    current = list(roots)
    for _ in range(1000):
        found = _find(current, context)
        if found is None:
            return current
        current = _merge(current, *found, context)
    return current


def _shape_of(node: Node) -> tuple[Expr, ...]:
    return node.outputs[0].shape


def _find(roots: Sequence[Leaf], context: Context) -> tuple[Any, Generate] | None:
    """A producer and the one node that consumes it, element by element."""
    consumers: dict[Node, set[Node]] = {}
    whole: set[Node] = set()
    order = list(topological(roots))
    for node in order:
        for leaf in node.inputs():
            consumers.setdefault(leaf.node, set()).add(node)
        for leaf in inner_inputs(node):
            whole.add(leaf.node)
    region = regions(roots)
    for node in order:
        if not isinstance(node, Fold | FoldSeg | Scan | Matmul):
            continue
        if isinstance(node, Scan) and node.form == "total":
            continue
        if isinstance(node, Matmul) and context.backend == "native":
            continue  # BLAS writes plain products
        users = consumers.get(node, set())
        if len(users) != 1 or node in whole or any(r.node is node for r in roots):
            continue
        (user,) = users
        if not isinstance(user, Generate) or user.label.schedule is not None:
            continue
        if user.shape != _shape_of(node) or region[user] != region[node]:
            continue
        if _reads_only_here(user, node):
            return node, user
    return None


def _reads_only_here(user: Generate, node: Node) -> bool:
    rank = len(user.shape)
    hosts = [*user.shape, *(e for c in user.checks for e in (c.left, c.right))]
    if any(isinstance(e, Read) and e.node is node for e in walk(hosts)):
        return False
    for e in walk(user.elements):
        if not isinstance(e, Read):
            continue
        if e.node is node:
            if not is_identity_read(e, rank):
                return False
    return True


def _merge(roots: Sequence[Leaf], node: Any, user: Generate, context: Context) -> list[Leaf]:
    """The producer stores the consumer's elements."""

    def change(e: Expr) -> Expr:
        if isinstance(e, Read) and e.node is node:
            return node.epilogue[e.component]  # type: ignore[no-any-return]
        return e

    epilogue = rewrite(user.elements, change)
    fused = (*node.fused, (user.label, user.where), *user.fused)
    merged = node.with_(epilogue=epilogue, fused=fused, checks=(*node.checks, *user.checks))
    context.kept[merged] = context.kept.get(user, "")
    builder = Rebuilder()
    for k in range(len(user.outputs)):
        builder.leaves[Leaf(user, k)] = Leaf(merged, k)
    for other in topological(roots):
        if other is user or other is node:
            continue
        made = builder.node(other)
        if made is not other:
            builder.nodes[other] = made
            if other in context.kept:
                context.kept[made] = context.kept[other]
    return [builder.leaf(r) for r in roots]


__all__ = ["ArrayLoop", "Branch", "fuse_epilogues"]
