"""Which rows of its arrays an operation touches for a row of its domain; rows are the indices of a
first axis, or of the first one after those whose index all elements share.

    out[i, j] = a[i − 1, j] + a[i + 1, j] + b[i, j]     a: −1 … 1,  b: 0,  out: 0
    a[i + 1, j] = c[i, j]                               c: 0,  a: 1
    s[k + 1, i, j] = s[k, i − 1, j]                     s: −1 … 0 of its axis 1 (k: a counter)

Blocks of rows of such operations can run in another order than operation after operation
(`backend/native/passes.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from treadle.dsl.analysis.polynomial import polynomial
from treadle.dsl.analysis.updates import is_one_to_one
from treadle.dsl.expr import (
    Apply,
    Const,
    Expr,
    Extent,
    Index,
    Param,
    Read,
    constant,
    split_constant,
    walk,
)
from treadle.dsl.graph import ArrayLoop, Generate, Leaf, Node, Permute, Shape, topological


class Rows(NamedTuple):
    """Rows x + `low` … x + `high` of an array for row x of the domain.  `wraps`: modulo the extent,
    which is that of the domain; otherwise rows that do not exist are not touched.

    Rows are along `axis`; along the axes before it, any index may be touched."""

    low: int
    high: int
    wraps: bool = False
    axis: int = 0

    def with_(self, other: Rows) -> Rows:
        """Both; `other` has the same axis."""
        return Rows(min(self.low, other.low), max(self.high, other.high),
                    self.wraps or other.wraps, self.axis)  # fmt: skip


ZERO = constant(0)
#: Expressions that depend on no element, besides reads of numbers.
SHARED = Const, Extent, Param, Apply

#: The rows touched of each array; None: any of them.
Touched = Mapping[Leaf, Rows | None]


class Access(NamedTuple):
    """What an operation reads and writes.  Arrays without axes are left out.

    `row`: the only row of a domain that has no axis for rows (host), as in a[0, j] = a[1, j]."""

    reads: Touched
    writes: Touched
    row: Expr | None = None


def access_of(node: Node) -> Access | None:
    """The rows that an operation touches; None if it is not made row by row, or if a schedule says
    in which order."""
    if node.label.ordered:
        return None
    if isinstance(node, Generate) and node.shape:
        reads = _reads(node.elements, node.shape, None)
        return Access(reads, dict.fromkeys(node.leaves, Rows(0, 0)))
    if isinstance(node, Permute) and node.target and is_one_to_one(node):
        roots = node.valid, *node.target, *node.values
        axis = _axis_of_rows(node.target)
        written = _distance(node.target[axis], ZERO) if node.domain else None
        if written is not None:
            written = written._replace(axis=axis)
            return Access(_reads(roots, node.domain, None), dict.fromkeys(node.leaves, written))
        row = node.target[axis]
        if all(isinstance(e, Const | Extent | Apply) for e in walk((row,))):
            reads = _reads(roots, node.domain, row)
            return Access(reads, dict.fromkeys(node.leaves, Rows(0, 0, axis=axis)), row)
    return None


def _reads(roots: tuple[Expr, ...], domain: Shape, row: Expr | None) -> Touched:
    found: dict[Leaf, Rows | None] = {}
    for e in walk(roots):
        if not isinstance(e, Read) or not e.args:
            continue
        leaf = Leaf(e.node, e.component)
        own = _read(e, leaf, domain) if row is None else _near(e, row)
        before = found.get(leaf, own)
        apart = own is None or before is None or own.axis != before.axis
        found[leaf] = None if apart else own.with_(before)  # type: ignore[union-attr, arg-type]
    return found


def _axis_of_rows(index: Sequence[Expr]) -> int:
    """The first axis whose index is not that of all elements: computed from the counters of loops
    and other numbers alone."""
    planes = 0
    for e in index[:-1]:
        found = list(walk((e,)))
        numbers = [x for x in found if isinstance(x, Read) and not x.args]
        if not numbers or not all(x in numbers or isinstance(x, SHARED) for x in found):
            break
        planes += 1
    return planes


def _near(e: Read, row: Expr) -> Rows | None:
    """The row that is read, as a distance from `row`."""
    axis = _axis_of_rows(e.args)
    there, here = (polynomial(x) for x in (e.args[axis], row))
    if e.boundary is not None or there is None or here is None:
        return None
    distance = (there - here).value
    return None if distance is None else Rows(distance, distance, axis=axis)


def _read(e: Read, leaf: Leaf, domain: Shape) -> Rows | None:
    axis = _axis_of_rows(e.args)
    own = _distance(e.args[axis], domain[0]) if domain else None
    if own is None or e.boundary == "function":
        return None
    own = own._replace(axis=axis)
    if e.boundary == "wrap":
        return own._replace(wraps=True) if leaf.shape[axis] == domain[0] else None
    if e.boundary == "clamp":
        return own.with_(Rows(0, 0))
    if e.boundary in ("mirror", "symmetric"):
        most = max(abs(own.low), abs(own.high))
        return own.with_(Rows(-most, most))
    return own


def _distance(index: Expr, extent: Expr) -> Rows | None:
    """How far an index of rows is from that of the domain's row, which is below `extent`."""
    index, offset = split_constant(index)
    found: Rows | None = None
    if index is Index(0):
        found = Rows(0, 0)
    elif isinstance(index, Apply) and index.op.name == "remainder" and index.args[1] == extent:
        around = _distance(index.args[0], extent)
        found = around and around._replace(wraps=True)
    elif isinstance(index, Apply) and index.op.name == "minimum":
        inner, last = index.args
        if (isinstance(inner, Apply) and inner.op.name == "maximum" and inner.args[1] == ZERO
                and split_constant(last) == (extent, -1)):  # fmt: skip
            clamped = _distance(inner.args[0], extent)
            found = clamped and clamped.with_(Rows(0, 0))
    return found and Rows(found.low + offset, found.high + offset, found.wraps)


def by_rows(loop: ArrayLoop) -> frozenset[Node]:
    """The operations of an iteration, if all of them are made row by row from rows at constant
    distances of the arrays that iterations write; none otherwise."""
    if loop.count is None or loop.predicate is not None:
        return frozenset()
    states = {s.leaf() for s in loop.state}
    order = list(topological(loop.body))
    inside = loop.varying(order)
    outer = {*loop.state, loop.index}
    nodes = [n for n in order if n in inside and n not in outer]
    written = states | {leaf for n in nodes for leaf in n.leaves}
    for node in nodes:
        access = access_of(node)
        if access is None:
            return frozenset()
        defaults = node.defaults if isinstance(node, Permute) else ()
        if any(leaf in written and rows is None for leaf, rows in access.reads.items()):
            return frozenset()
        if any(len(leaf.shape) == 0 for leaf in (*node.leaves, *defaults)):
            return frozenset()
    return frozenset(nodes)
