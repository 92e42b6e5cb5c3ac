"""Which programs can be computed in chunks along the leading axis, and why others cannot.

Rows i … j of every result must depend only on rows i … j of the split inputs (plus a halo of rows
for a stencil) and on the other inputs in full.  A kernel may use the leading index only to read
rows of split arrays at that index, or at a constant offset from it if the read has a boundary.  It
may use the leading extent only as a length.  A chunk then executes exactly the operations that the
complete program executes for its rows; programs that could observe the difference are not split.
"""

from __future__ import annotations

from collections.abc import Sequence

from treadle.dsl.analysis.polynomial import Polynomial, polynomial
from treadle.dsl.expr import Apply, Expr, Extent, Foreign, Index, Read, walk
from treadle.dsl.graph import Barrier, Fold, Generate, Input, Leaf, Node, Scan, topological
from treadle.dsl.records import dataclass

from ..schedules import Auto
from .fold.gpu import grouping
from .gpu.collectives import is_exact

#: Boundaries that resolve an index beyond an edge to one near that edge.
_NEAR = ("clamp", "mirror", "symmetric", "constant")
#: The boundaries among `_NEAR` that reflect at the edge.
_BACK = ("mirror", "symmetric")
_ROW = Index(0)


@dataclass(frozen=True)
class Pieces:
    """How a program is split: the positions of the split inputs, and the rows of halo `before` and
    `after` a chunk.  The results of halo rows are wrong, since the edge of a chunk is not an edge
    of the array.

    `grouped`: values that must be equal for the extents of a chunk and of the complete program;
    otherwise sums of floats are rounded differently.
    """

    cut: tuple[int, ...]
    before: int = 0
    after: int = 0
    grouped: tuple[Expr, ...] = ()


class NotDivisible(Exception):
    """The reason why a program cannot be computed in chunks."""


def pieces_of(roots: Sequence[Leaf], inputs: Sequence[Input], check: bool = False) -> Pieces:
    """How to compute an optimised graph in chunks along the leading axis of its results.

    All split inputs must have the same leading extent at run time.  `check`: indices are checked
    and reported in errors.  Raises `NotDivisible`.
    """
    if check:
        raise NotDivisible("checked mode tells the indices of the whole arrays")
    cutter = _Cutter()
    for leaf in roots:
        cutter.demand(leaf, 0, 0)
    for node in reversed(list(topological(roots))):
        cutter.visit(node)
    cutter.check_extents()
    cut = tuple(k for k, node in enumerate(inputs) if node in cutter.near)
    before = max((cutter.near[inputs[k]][0] for k in cut), default=0)
    after = max((cutter.near[inputs[k]][1] for k in cut), default=0)
    return Pieces(cut, before, after, tuple(dict.fromkeys(cutter.grouped)))


class _Cutter:
    """Traverses the graph from the results to the inputs and finds the arrays to split.

    `near`: split arrays, with the halo of rows that a chunk needs before and after its own;
    `whole`: arrays that every chunk needs in full; `used`: extents with uses other than as a
    leading extent, and their users; `checked`: the compared extents, and the comparing node;
    `grouped`: see `Pieces`.
    """

    def __init__(self) -> None:
        self.near: dict[Node, tuple[int, int]] = {}
        self.whole: set[Node] = set()
        self.used: dict[Extent, Node] = {}
        self.checked: list[tuple[Node, Expr, Expr]] = []
        self.grouped: list[Expr] = []

    def demand(self, leaf: Leaf, before: int, after: int) -> None:
        """Record that a chunk needs its own rows of an array, and a halo."""
        if not leaf.shape:
            raise NotDivisible(f"{_name(leaf.node)} makes a single number")
        length = leaf.shape[0]
        if not isinstance(length, Extent) or length.axis:
            raise NotDivisible(
                f"the leading extent of {_name(leaf.node)} is no argument's leading extent"
            )
        if leaf.node in self.whole or length.node in self.whole:
            raise NotDivisible(f"{_name(leaf.node)} is read by rows and also as a whole")
        self.near.setdefault(length.node, (0, 0))
        had = self.near.get(leaf.node, (0, 0))
        self.near[leaf.node] = max(had[0], before), max(had[1], after)

    def demand_whole(self, leaf: Leaf, reader: Node) -> None:
        """Record that every chunk needs all of an array."""
        if leaf.node in self.near:
            raise NotDivisible(
                f"{_name(reader)} reads {_name(leaf.node)} at other rows than its own"
            )
        if not isinstance(leaf.node, Input):
            raise NotDivisible(f"{_name(reader)} needs the whole of {_name(leaf.node)}")
        self.whole.add(leaf.node)

    def visit(self, node: Node) -> None:
        """Propagate the demand for a node's rows to its inputs, after all its readers."""
        if isinstance(node, Input):
            return
        before, after = self.near[node]
        if node.label.schedule not in (None, Auto()):
            raise NotDivisible(f"{_name(node)} has a schedule, which is for the whole")
        if isinstance(node, Barrier):
            for leaf in node.arguments:
                self.demand(leaf, before, after)
        elif isinstance(node, Fold | Scan):
            if isinstance(node, Scan) and not node.axis:
                raise NotDivisible(f"{_name(node)} goes along the leading axis")
            if not is_exact(node.combine):
                grouped = grouping(node) if isinstance(node, Fold) else None
                if grouped is None:
                    raise NotDivisible(
                        f"how {_name(node)} rounds depends on how many rows there are"
                    )
                self.grouped.append(grouped)
        elif not isinstance(node, Generate):
            raise NotDivisible(f"{_name(node)} works on whole arrays")
        for leaf in node.leaves:
            self.demand(leaf, before, after)
            self._extents(node, leaf.shape[1:])
        self._rows(node, before, after)
        for check in node.checks:
            if check.reads:
                raise NotDivisible(f"{_name(node)} is checked against what an array holds")
            self.checked.append((node, check.left, check.right))

    def _rows(self, node: Node, before: int, after: int) -> None:
        """Record how the node's expressions use the leading index."""
        seen: set[Expr] = set()
        stack: list[Expr] = list(node.bodies())
        while stack:
            e = stack.pop()
            if e in seen:
                continue
            seen.add(e)
            if e is _ROW:
                raise NotDivisible(f"{_name(node)} computes with the leading index")
            if isinstance(e, Extent):
                self.used.setdefault(e, node)
            if isinstance(e, Foreign) and e.function.raises:
                raise NotDivisible(f"{_name(node)} calls '{e.function.name}', which may raise")
            stack += e.scoped
            if not isinstance(e, Read):
                stack += e.args
                continue
            leaf = Leaf(e.node, e.component)
            offset = self._offset(e)
            if offset is None:
                self.demand_whole(leaf, node)
                stack += e.args
                continue
            if offset and e.boundary not in _NEAR:
                raise NotDivisible(f"{_name(node)} reads {_name(e.node)} {_beyond(e, offset)}")
            if e.vars and any(v is e.vars[0] for v in walk(e.scoped)):
                raise NotDivisible(f"what {_name(node)} reads beyond the edge depends on the row")
            up, down = max(-offset, 0), max(offset, 0)
            if e.boundary in _BACK:
                up = down = abs(offset)
            self.demand(leaf, before + up, after + down)
            stack += e.args[1:]

    @staticmethod
    def _offset(read: Read) -> int | None:
        """c if a read is at row + c; None if its row does not depend on the leading index."""
        if not read.args or any(isinstance(e, Apply) and e.op.name == "cast"
                                for e in walk(read.args[:1])):  # fmt: skip
            return None
        position = polynomial(read.args[0])
        if position is None or position.nonconstant != Polynomial.atom(_ROW):
            return None
        return position.constant

    def _extents(self, node: Node, expressions: Sequence[Expr]) -> None:
        for e in walk(expressions):
            if isinstance(e, Extent):
                self.used.setdefault(e, node)

    def check_extents(self) -> None:
        """Require that the split extent is only a length of arrays, compared only with itself."""

        def is_cut(e: Expr) -> bool:
            return isinstance(e, Extent) and not e.axis and e.node in self.near

        for node, left, right in self.checked:
            if not (is_cut(left) and is_cut(right)):
                self._extents(node, (left, right))
        for e, node in self.used.items():
            if is_cut(e):
                raise NotDivisible(f"{_name(node)} computes with the leading extent")


def _beyond(read: Read, offset: int) -> str:
    rows = f"{abs(offset)} row{'s' if abs(offset) > 1 else ''} {'on' if offset > 0 else 'back'}"
    return rows if read.boundary is None else f"{rows}, with boundary {read.boundary}"


def _name(node: Node) -> str:
    if isinstance(node, Input):
        return node.called()
    where = "" if node.where is None else f" at {node.where.short()}"
    return f"{node.label}{where}"
