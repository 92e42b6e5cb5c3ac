"""What the operations of a graph range over: the axes of their elements, and the turns of loops."""

from __future__ import annotations

from collections.abc import Sequence

from .expr import Expr
from .graph import (
    ArrayLoop,
    Branch,
    Fold,
    FoldSeg,
    Generate,
    Input,
    Leaf,
    Matmul,
    Node,
    Permute,
    Scan,
    topological,
)  # fmt: skip


def domain(node: Node) -> tuple[Expr | None, ...]:
    """Extents of the axes that the element expressions of a node range over, as far as known."""
    match node:
        case Generate() | Scan():
            return node.shape
        case Fold():
            return (*node.outer, *node.inner)
        case FoldSeg():
            return (*node.outer, None)
        case Permute():
            return node.domain
        case Matmul():
            return (None,) * (len(node.batch) + 2)
    return ()


def per_element(node: Node) -> tuple[Expr, ...]:
    """The expressions evaluated at every point of the domain (no shapes, no initial values)."""
    match node:
        case Generate():
            return node.elements
        case Fold() | FoldSeg() | Scan():
            return (*node.elements, *node.epilogue)
        case Permute():
            return (node.valid, *node.target, *node.values)
        case Matmul():
            return (node.left, node.right)
    return ()


def regions(roots: Sequence[Leaf]) -> dict[Node, frozenset[Node]]:
    """The loop states every node depends on; with one state of a loop all of it, for they change
    together."""
    found: dict[Node, frozenset[Node]] = {}
    order = list(topological(roots))
    loops = [node for node in order if isinstance(node, ArrayLoop)]
    together = {held: frozenset(loop.bound) for loop in loops for held in loop.bound}
    for node in order:
        if isinstance(node, Input):
            alone = frozenset((node,)) if node.kind == "state" else frozenset()
            found[node] = together.get(node, alone)
            continue
        mine: frozenset[Node] = frozenset()
        for leaf in node.inputs():
            mine |= found[leaf.node]
        if isinstance(node, ArrayLoop):
            for leaf in node.inner_roots():
                mine |= found[leaf.node]
            mine -= frozenset(node.bound)
        elif isinstance(node, Branch):
            for leaf in (*node.then, *node.other):
                mine |= found[leaf.node]
        found[node] = mine
    return found
