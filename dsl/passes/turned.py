"""turn_axes: an intermediate array computed from transposes and read as a transpose is stored
transposed.

    t = f(u.T); s = g(t.T, u)   →   t' = f(u) over the axes of u; s = g(t', u)

Steps along one axis are often written once and applied to both axes by transposing.  The last two
axes of what they store are exchanged if more arrays are then read along rows, by the step and by
its readers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ..expr import Expr, Index, Read, reading, rewrite, walk
from ..graph import Generate, Leaf, Node, Shape, known, topological
from ..graphs.rebuild import Rebuilder
from ..operations.indexing.index_space import reshaped
from .base import Context


def turn_axes(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    """Exchange the last two axes of intermediate arrays where that makes reads contiguous."""
    order = list(topological(roots))
    turned = set() if context.in_parts else _Reads(roots, order).turned()
    if not turned:
        return list(roots)
    builder = _Turning(turned)
    for node in order:
        made = builder.node(node)
        if node in turned:
            assert isinstance(made, Generate)
            rank = len(node.iteration_space())
            swapped: dict[Expr, Expr] = dict(zip(
                (Index(rank - 2), Index(rank - 1)), (Index(rank - 1), Index(rank - 2)), strict=True
            ))  # fmt: skip
            elements = rewrite(made.elements, lambda e: e, swapped)
            made = made.with_(shape=_exchanged(made.shape), elements=elements)
            context.notes.append(f"{node.label}: stored transposed, as its readers want it")
        builder.replace(node, made, context.kept)
    return [builder.leaf(r) for r in roots]


def _exchanged(parts: Shape) -> Shape:
    return (*parts[:-2], parts[-1], parts[-2])


class _Turning(Rebuilder):
    def __init__(self, turned: set[Node]) -> None:
        super().__init__()
        self.turned = turned

    def _read(self, e: Expr) -> Expr:
        made = super()._read(e)
        if isinstance(e, Read) and e.node in self.turned:
            assert isinstance(made, Read)
            return Read(made.node, made.component, _exchanged(made.args), made.boundary)
        return made


class _Reads:
    """The reads of each array, by reader and direction."""

    def __init__(self, roots: Sequence[Leaf], order: Sequence[Node]) -> None:
        self.made: dict[Node, set[Read]] = {}  # the reads of a node
        self.readers: dict[Node, set[Node]] = defaultdict(set)
        fixed = {leaf.node for leaf in roots}
        for node in order:
            fixed.update(leaf.node for leaf in (*node.operands(), *node.inside()))
            checked = (e for c in node.checks for e in (c.left, c.right))
            reads = {*node.reads(), *reading(checked)}
            self.made[node] = {e for e in reads if len(e.args) > 1}
            for e in reads:
                self.readers[e.node].add(node)
                if e.scoped or type(node) is not Generate or len(node.shape) < 2:
                    fixed.add(e.node)
        self.free = [n for n in order if n not in fixed and self.readers[n] and _is_plain(n)]
        self.ways: set[Node] = set()

    def turned(self) -> set[Node]:
        """The nodes to turn; every step reduces the number of reads that cross rows."""
        found = True
        while found:
            found = False
            for node in self.free:
                if sum(self._direction(n, e) for n, e in self._beside(node)) < 0:
                    self.ways ^= {node}
                    found = True
        return self.ways

    def _beside(self, node: Node) -> set[tuple[Node, Read]]:
        own = {(node, e) for e in self.made[node]}
        return own | {(n, e) for n in self.readers[node] for e in self.made[n] if e.node is node}

    def _direction(self, reader: Node, read: Read) -> int:
        """1 for a read along rows, -1 for a read across rows, 0 for both or neither."""
        rank = len(reader.iteration_space())
        row, column = Index(rank - 2), Index(rank - 1)
        last, other = read.args[-1], read.args[-2]
        if (reader in self.ways) != (read.node in self.ways):
            last, other = other, last
        return _by(last, column, row) - _by(other, column, row)


def _by(e: Expr, index: Expr, other: Expr) -> bool:
    """Whether an index depends on one index and not on another."""
    used = walk((e,))
    return index in used and other not in used


def _is_plain(node: Node) -> bool:
    """Whether a node may be stored in another layout."""
    if type(node) is not Generate or len(node.shape) < 2 or reshaped(node) is not None:
        return False
    label = node.label
    short = any(known(n) is not None for n in node.shape[-2:])
    return not (short or label.ordered or label.schedule or label.operation == "compute")
