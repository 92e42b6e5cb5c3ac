"""fuse_epilogues: fuse element-wise consumers into the write-back of folds, scans and products.

`map(f, fold(…))` becomes a fold that stores `f` of its results, if the consumer reads the result
only at its own index.  A plain result with other readers stays as another component.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import graph
from ..analysis.regions import regions
from ..expr import Expr, Read, reading, rewrite
from ..graphs.rebuild import Rebuilder
from ..target import target_of
from .base import Context
from .operands import ENGINES
from .rows import row_axes
from .tested import keeps_tests


def fuse_epilogues(roots: Sequence[graph.Leaf], context: Context) -> list[graph.Leaf]:
    """Fuse in one traversal, producers first; chains of consumers are fused one at a time."""
    order = list(graph.topological(roots))
    uses = _Uses(order, roots)
    builder = Rebuilder()
    heads: dict[graph.Node, Any] = {}  # producer or last node fused into it → kernel
    for node in order:
        if isinstance(node, graph.Generate):
            last = next((p for p in uses.producers(node) if p in heads and (
                not context.settings.check or _keeps_tests(heads[p], p, node))), None)  # fmt: skip
            if last is not None:
                merged = _merge(heads.pop(last), node, builder)
                context.kept[merged] = context.kept.get(node, "")
                heads[node] = merged
                for k in range(len(node.outputs)):
                    builder.leaves[graph.Leaf(node, k)] = graph.Leaf(merged, k)
                continue
        made = builder.node(node)
        builder.replace(node, made, context.kept)
        if not isinstance(node, graph.Fold | graph.FoldSeg | graph.Scan | graph.Matmul):
            continue
        if isinstance(node, graph.Scan) and node.form == "total":
            continue
        if isinstance(node, graph.Matmul) and _is_library_product(node, context.backend):
            context.kept[made] = "the library's matrix product writes plain products"
            continue
        heads[node] = made
    return [builder.leaf(r) for r in roots]


def _is_library_product(node: graph.Matmul, backend: str) -> bool:
    """Whether a product is computed by BLAS, or by recursion over the standard product, which write
    plain products.

    On a GPU, treadle's own engines compute integers, float32 (Strassen's algorithm, too) and 16-bit
    floats; for other floats cuBLAS uses tensor cores. treadle computes many small products on every
    machine; if products along leading axes are large, their epilogue is a separate kernel.
    """
    t, gpu = node.left.type, target_of(backend).gpu
    if node.options.algorithm not in ("auto", "standard"):
        return not (gpu and t.name in ENGINES and not node.batch)
    own = t.name == "float32" or (t.is_float and t.bits == 16)
    return t.is_inexact and not (node.batch or (gpu and own))


class _Uses:
    """Consumers of nodes, in a graph that does not change."""

    def __init__(self, order: Sequence[graph.Node], roots: Sequence[graph.Leaf]) -> None:
        self.position = {node: k for k, node in enumerate(order)}
        self.region = regions(roots)
        self.consumers: dict[graph.Node, set[graph.Node]] = {}
        self.whole: set[graph.Node] = {leaf.node for leaf in roots}
        for node in order:
            for leaf in node.inputs():
                self.consumers.setdefault(leaf.node, set()).add(node)
            self.whole |= {leaf.node for leaf in graph.inner_inputs(node)}

    def producers(self, user: graph.Generate) -> list[graph.Node]:
        """Nodes that only `user` consumes, element by element and over the same extents."""
        if user.label.ordered or row_axes(user.elements, user.shape) is not None:
            return []
        found = {leaf.node for leaf in user.inputs() if self._only(leaf.node, user)}
        return sorted(found, key=self.position.__getitem__)

    def _only(self, node: graph.Node, user: graph.Generate) -> bool:
        return (
            node not in self.whole and len(self.consumers[node]) == 1
            and user.shape == node.outputs[0].shape
            and self.region[user] == self.region[node] and _reads_only_here(user, node)
        )  # fmt: skip


def _reads_only_here(user: graph.Generate, node: graph.Node) -> bool:
    rank = len(user.shape)
    hosts = [*user.shape, *(e for c in user.checks for e in (c.left, c.right))]
    if any(e.node is node for e in reading(hosts)):
        return False
    return all(graph.is_identity_read(e, rank) for e in reading(user.elements) if e.node is node)


def _keeps_tests(head: Any, last: graph.Node, user: graph.Generate) -> bool:
    """Whether `user`, which reads `head` through `last`, tests every index used by `head`."""
    reads = ((user, e) for e in reading(user.elements) if e.node is last)
    return keeps_tests(head.epilogue, head.outputs[0].shape, reads)


def _merge(head: Any, user: graph.Generate, builder: Rebuilder) -> Any:
    """The kernel `head`, storing the elements of `user` instead of its own results."""

    stored: tuple[Expr, ...] = head.epilogue

    def change(e: Expr) -> Expr:
        return stored[e.component] if isinstance(e, Read) and e.node is head else e

    elements = builder.exprs(user.elements)
    epilogue = rewrite(elements, change)
    fused = (*head.fused, (user.label, user.where), *user.fused)
    return head.with_(epilogue=epilogue, fused=fused,
                      checks=(*head.checks, *builder.field(user.checks)))  # fmt: skip
