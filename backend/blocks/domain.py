"""The blocks of a kernel's domain, and the parts of arrays that blocks read.

A domain is cut along some of its axes; the blocks form a grid with one dimension per cut axis.
Numbers that differ from block to block are NumPy arrays that broadcast to the shape of the grid.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise, product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treadle.dsl.analysis.bounds import Intervals, Range, whole
from treadle.dsl.analysis.polynomial import polynomial
from treadle.dsl.expr import Apply, Const, Expr, Extent, Index, Loop, Param, Read, Var, walk
from treadle.dsl.graph import Leaf
from treadle.dsl.graphs.names import evaluate

#: An int64 for every block of a grid.
Numbers = NDArray[np.int64]
#: The sizes of the chunks of an array, or of the blocks of a domain, per axis.
Chunks = tuple[tuple[int, ...], ...]
#: Minimum size of a chunk, in halos, whose boundary is computed by separate blocks.
NARROW = 4
#: Boundaries that reflect an index beyond an edge.
BACK = ("mirror", "symmetric")
#: A block at an edge is merged with its neighbour if it is this many times smaller than the others.
SHORT = 4
#: An upper bound of indices.
MOST_INDEX = 1 << 62
#: The most ranges to evaluate in order to narrow down which indices blocks read.
MOST_RANGES = 2048


def edges(sizes: Sequence[int]) -> list[int]:
    """The first index of each chunk, and the index after the last one."""
    return [0, *accumulate(sizes)]


def halves(sizes: Sequence[int]) -> tuple[int, ...]:
    """Each chunk split into two, if it has several elements."""
    return tuple(part for n in sizes for part in ((n - n // 2, n // 2) if n > 1 else (n,)))


def even(extent: int, count: int) -> tuple[int, ...]:
    """The sizes of `count` equal parts of an axis, or of single elements if there are fewer."""
    count = max(min(count, extent), 1)
    least, more = divmod(extent, count)
    return (least + 1,) * more + (least,) * (count - more)


def whole_parts(sizes: Sequence[int], size: int) -> tuple[int, ...]:
    """The whole parts of `size` elements grouped by chunk: the number of parts inside each chunk; a
    part that spans several chunks is a group of its own."""
    full, cuts = sum(sizes) // size, edges(sizes)
    starts = sorted({e // size for e in cuts} | {min(-(-e // size), full) for e in cuts})
    return tuple(b - a for a, b in pairwise(starts))


@dataclass
class Axis:
    """An axis of a domain: its extent, the sizes of its blocks, and for each block the range of
    indices (`low` … `high` − 1) that it computes, including the halo that only its neighbours need.

    `dimension`: that of the grid (None: the axis is not cut).  `periodic`: indices wrap around at
    the edges.

    A chunk is one block, or `pieces` of them, which needs `before` and `after` elements of its
    neighbours.  With `split_boundary`, a chunk is one block that needs no elements of its
    neighbours, so that its results near the cuts are wrong, plus one block per cut, whose results
    replace them.
    """

    extent: int
    sizes: tuple[int, ...]
    dimension: int | None
    before: int = 0
    after: int = 0
    periodic: bool = False
    rank: int = 0
    split_boundary: bool = False
    pieces: int = 1
    #: The chunk of each block.  With `split_boundary`, its first block computes all of it.
    chunk: tuple[int, ...] = field(init=False)
    start: Numbers = field(init=False)
    stop: Numbers = field(init=False)
    low: Numbers = field(init=False)
    high: Numbers = field(init=False)

    def __post_init__(self) -> None:
        if self.dimension is None or len(self.sizes) == 1:
            self.sizes, self.before, self.after, self.periodic = (self.extent,), 0, 0, False
            self.pieces = 1
        self.split_boundary = self.split_boundary and self._is_wide()
        if self.split_boundary or self.pieces > 1:
            spans = list(self._blocks())
            self.chunk = tuple(span[0] for span in spans)
            start, stop, low, high = np.array([span[1:] for span in spans], np.int64).T
        else:  # the same without a loop, for many chunks
            self.chunk = tuple(range(len(self.sizes)))
            stop = np.cumsum(self.sizes, dtype=np.int64)
            start = stop - np.asarray(self.sizes, np.int64)
            low, high = start - self.before, stop + self.after
        if not self.periodic:
            low, high = np.maximum(low, 0), np.minimum(high, self.extent)
        self.start, self.stop, self.low, self.high = map(self._over, (start, stop, low, high))

    def _is_wide(self) -> bool:
        """Whether the blocks at cuts are much smaller than chunks."""
        halo = self.before + self.after
        return 0 < NARROW * halo <= min(self.sizes)

    def _blocks(self) -> Iterator[tuple[int, int, int, int, int]]:
        """(chunk, `start`, `stop`, `low`, `high`) of each block, for chunks of several blocks."""
        before, after = self.before, self.after
        ends = edges(self.sizes)
        for k, (first, last) in enumerate(pairwise(ends)):
            if not self.split_boundary:
                for a, b in pairwise(edges(even(last - first, self.pieces))):
                    yield k, first + a, first + b, first + a - before, first + b + after
                continue
            yield k, first, last, first, last
            if before and (k or self.periodic):
                yield k, first, first + before, first - before, first + before + after
            if after and (k + 1 < len(self.sizes) or self.periodic):
                yield k, last - after, last, last - after - before, last + after

    def _over(self, values: Numbers) -> Numbers:
        shape = [1] * self.rank
        if self.dimension is not None:
            shape[self.dimension] = len(values)
        return values.reshape(shape)

    @property
    def is_cut(self) -> bool:
        return self.dimension is not None

    @property
    def count(self) -> int:
        return len(self.chunk)

    def numbers(self) -> Numbers:
        return self._over(np.arange(self.count, dtype=np.int64))

    def counting(self) -> Axis:
        """The axis of an array with one element per block along this axis."""
        count = self.count
        return Axis(count, (1,) * count, self.dimension, rank=self.rank)


class Known:
    """Values of expressions over a call's extents and numbers; arrays if they vary by block."""

    def __init__(self, values: Mapping[Expr, Any]) -> None:
        self.values = dict(values)
        self._integers = {
            e: int(np.asarray(v).item())
            for e, v in self.values.items()
            if (e.type.is_integer or e.type.family == "bool") and np.size(v) == 1
        }

    def number(self, e: Expr) -> int | None:
        """The value of an integer expression; None if it depends on the contents of arrays."""
        return evaluate(e, self._integers)

    def with_(self, more: Mapping[Expr, Any]) -> Known:
        return Known({**self.values, **more})


@dataclass(frozen=True)
class Bounds:
    """The smallest and the largest element of each chunk of an array of rank 1."""

    sizes: tuple[int, ...]
    low: Numbers
    high: Numbers

    def of(self, first: int, last: int) -> Range:
        """The range of the elements `first` … `last`; (0, 0) if there are none."""
        ends = np.cumsum(self.sizes)
        used = (ends > first) & (ends - self.sizes <= last) & (np.asarray(self.sizes) > 0)
        return (int(self.low[used].min()), int(self.high[used].max())) if used.any() else (0, 0)


#: Rank-1 arrays with known elements, or with bounds of their elements.
Values = Mapping[Leaf, "Numbers | Bounds"]


class Spans:
    """The smallest and largest values of index expressions in every block of a domain."""

    def __init__(
        self, axes: Mapping[int, Axis], known: Known, roots: Sequence[Expr], constants: Values
    ) -> None:
        """`axes`: the axis that each `Index(k)` runs over."""
        self.axes, self.known, self.constants = axes, known, constants
        self.counters = {e.vars[0]: e.count for e in walk(roots) if isinstance(e, Loop)}

    def of(self, e: Expr) -> tuple[Numbers, Numbers] | None:
        """The range of an int64 expression; None if it depends on the contents of arrays."""
        leaves = [x for x in walk((e,)) if not (x.args or x.scoped)]
        if e.reads:
            return self._by_blocks(e, [x for x in leaves if self._is_known(x)])
        if not all(self._is_known(x) for x in leaves):
            return None
        found = self._affine(e)
        return self._by_blocks(e, leaves) if found is None else found

    def _is_known(self, e: Expr) -> bool:
        if isinstance(e, Var):
            return e in self.counters and self.known.number(self.counters[e]) is not None
        if isinstance(e, Index):
            return e.axis in self.axes
        if isinstance(e, Const) and not e.type.is_integer:
            return True
        if self._varies(e):
            return True
        number = self.known.number(e)
        return number is not None and -(1 << 63) <= number < 1 << 63

    def _varies(self, e: Expr) -> bool:
        """Whether an expression is a number that differs from block to block."""
        return isinstance(e, Param) and np.size(self.known.values.get(e, 0)) > 1

    def _leaf(self, e: Expr) -> tuple[Numbers, Numbers]:
        if isinstance(e, Index):
            axis = self.axes[e.axis]
            return axis.low, axis.high - 1
        if isinstance(e, Var):
            last = np.int64((self.known.number(self.counters[e]) or 0) - 1)
            return np.zeros((), np.int64), np.maximum(last, 0)
        if self._varies(e):
            values = np.asarray(self.known.values[e], np.int64)
            return values, values
        value = np.int64(self.known.number(e) or 0)
        return np.asarray(value), np.asarray(value)

    def _affine(self, e: Expr) -> tuple[Numbers, Numbers] | None:
        form = polynomial(e)
        if form is None:
            return None
        low = high = np.zeros((), np.int64)
        most = 0
        for atoms, count in form.terms.items():
            factor, moving = count, None
            for atom in atoms:
                if not isinstance(atom, Index | Var | Extent | Param):
                    return None
                if not isinstance(atom, Index | Var) and not self._varies(atom):
                    factor *= self.known.number(atom) or 0
                elif moving is None:
                    moving = atom
                else:
                    return None
            ends = self._leaf(moving) if moving is not None else ()
            largest = max((int(abs(end).max(initial=0)) for end in ends), default=1)
            most += abs(factor) * largest
            if most >= MOST_INDEX:  # may overflow
                return None
            if moving is None:
                low, high = low + factor, high + factor
                continue
            first, last = (part * factor for part in ends)
            low, high = (low + first, high + last) if factor > 0 else (low + last, high + first)
        return low, high

    def _by_blocks(self, e: Expr, leaves: Sequence[Expr]) -> tuple[Numbers, Numbers] | None:
        used = [x for x in leaves if not isinstance(x, Const)]
        ends = {x: self._leaf(x) for x in used}
        hull = {x: (int(a.min()), int(b.max())) for x, (a, b) in ends.items()}
        if _Block(hull, self.constants).range(e) == whole(e.type):
            return None
        shape = np.broadcast_shapes(*(low.shape for low, _ in ends.values()), ())
        low, high = np.empty(shape, np.int64), np.empty(shape, np.int64)
        wide = {x: [np.broadcast_to(side, shape) for side in both] for x, both in ends.items()}
        left = MOST_RANGES
        for at in product(*map(range, shape)):
            ranges = {x: (int(a[at]), int(b[at])) for x, (a, b) in wide.items()}
            found, left = self._range(e, ranges, left)
            if found == whole(e.type):
                return None
            low[at], high[at] = found
        return low, high

    def _range(self, e: Expr, ranges: Mapping[Expr, Range], left: int) -> tuple[Range, int]:
        """The range of an expression.  If it has more values than the block has elements, as near
        an edge where indices are reflected, the block is bisected; `left`: the number of ranges
        that may still be evaluated."""
        found = _Block(ranges, self.constants).range(e)
        widest = max(ranges, key=lambda x: ranges[x][1] - ranges[x][0], default=None)
        if widest is None or left <= 0:
            return found, left
        first, last = ranges[widest]
        if first >= last or found[1] - found[0] < 2 * prod(b - a + 1 for a, b in ranges.values()):
            return found, left
        middle = (first + last) // 2
        lower, left = self._range(e, {**ranges, widest: (first, middle)}, left - 1)
        upper, left = self._range(e, {**ranges, widest: (middle + 1, last)}, left - 1)
        return (min(lower[0], upper[0]), max(lower[1], upper[1])), left


class _Block(Intervals):
    """Interval analysis in one block."""

    def __init__(self, leaves: Mapping[Expr, Range], constants: Values) -> None:
        super().__init__()
        self.leaves, self.constants = leaves, constants

    def leaf(self, e: Expr) -> Range:
        if isinstance(e, Read) and Leaf(e.node, e.component) in self.constants:
            low, high = self.range(e.args[0])
            known = self.constants[Leaf(e.node, e.component)]
            if isinstance(known, Bounds):
                return known.of(low, high)
            values = known[max(low, 0) : high + 1]
            return (int(values.min()), int(values.max())) if values.size else (0, 0)
        return self.leaves[e] if e in self.leaves else super().leaf(e)

    def result(self, e: Apply, found: Range) -> Range:
        """Refines the range of an operation: comparisons that are constant within a block decide
        which index is read (negative ones count from the end), and remainders with a constant
        quotient are differences."""
        ends = [self.known[a] for a in e.args]
        if e.op.name == "less":
            found = int(ends[0][1] < ends[1][0]), int(ends[0][0] < ends[1][1])
        elif e.op.name == "remainder" and ends[1][0] == ends[1][1] > 0:
            n = ends[1][0]
            if ends[0][0] // n == ends[0][1] // n:
                found = ends[0][0] % n, ends[0][1] % n
        elif e.op.name == "select" and ends[0][0] == ends[0][1]:
            found = ends[1] if ends[0][0] else ends[2]
        return super().result(e, found)


@dataclass(frozen=True)
class Following:
    """An index `Index(axis) + offset + …`; the remaining terms, the same for all elements, have the
    value `value`, and equal remaining terms have equal `rest`."""

    axis: int
    offset: int
    value: int
    rest: frozenset[tuple[tuple[Expr, ...], int]]


def follows(e: Expr, known: Known) -> Following | None:
    """How an index follows one axis of the domain, or None."""
    form = None if e.reads else polynomial(e)
    if form is None:
        return None
    moving = [atoms for atoms in form.terms if any(isinstance(a, Index | Var) for a in atoms)]
    if len(moving) != 1 or len(moving[0]) != 1 or form.terms[moving[0]] != 1:
        return None
    index = moving[0][0]
    if not isinstance(index, Index):
        return None
    rest = {atoms: n for atoms, n in form.terms.items() if atoms and atoms != moving[0]}
    total = 0
    for atoms, count in rest.items():
        for atom in atoms:
            value = known.number(atom)
            if value is None:
                return None
            count *= value
        total += count
    return Following(index.axis, form.constant, total, frozenset(rest.items()))


def strides(e: Expr, known: Known) -> tuple[int, int, int] | None:
    """The axis, step and offset of an index `step · Index(axis) + offset`, or None."""
    form = None if e.reads else polynomial(e)
    if form is None:
        return None
    axis, step, offset = None, 0, 0
    for atoms, count in form.terms.items():
        for atom in atoms:
            if isinstance(atom, Index):
                if axis not in (None, atom.axis):
                    return None
                axis = atom.axis
                continue
            value = known.number(atom)
            if value is None:
                return None
            count *= value
        moving = sum(isinstance(atom, Index) for atom in atoms)
        if moving > 1:
            return None
        step, offset = (step + count, offset) if moving else (step, offset + count)
    return None if axis is None or not step else (axis, step, offset)


def reads_of(roots: Sequence[Expr]) -> list[Read]:
    return [e for e in walk(roots) if isinstance(e, Read)]


@dataclass(frozen=True)
class Cuts:
    """Blocks for an axis of the domain, and the indices for which their array has elements."""

    axis: int
    sizes: tuple[int, ...]
    first: int
    last: int
    #: How often the array is read.
    times: int = 1


def shifted(sizes: Sequence[int], offset: int, extent: int) -> tuple[int, ...]:
    """The chunks of `extent` elements that begin `offset` elements after the first of `sizes`."""
    if not offset and all(sizes) and sum(sizes) == extent:
        return tuple(sizes)
    ends = sorted({0, extent, *(e - offset for e in edges(sizes) if 0 < e - offset < extent)})
    return tuple(b - a for a, b in pairwise(ends)) or (extent,)


def joined(several: Sequence[Cuts], extent: int) -> tuple[int, ...]:
    """The blocks of an axis: those of the first of these cuts, and outside its range those of the
    next ones, or blocks of the same size.  A small remainder joins the adjacent block.

    >>> joined([Cuts(0, (1, 5, 5, 2), 1, 11), Cuts(0, (11, 2), 11, 13)], 13)
    (6, 5, 2)
    """
    best = several[0]
    if (best.first, best.last) == (0, extent):
        return best.sizes
    ends, gaps = {0, extent}, [(0, extent)]
    for cuts in several:
        own, left = edges(cuts.sizes), list[tuple[int, int]]()
        for a, b in gaps:
            first, last = max(a, cuts.first), min(b, cuts.last)
            if first >= last:
                left.append((a, b))
                continue
            ends.update(e for e in own if first < e < last)
            ends.update((first, last))
            left += [(x, y) for x, y in ((a, first), (last, b)) if x < y]
        gaps = left
    size = max(best.sizes)
    for a, b in gaps:
        if 2 * (b - a) > size:
            ends.update(a + e for e in edges(even(b - a, -(-(b - a) // size))))
        else:
            ends.discard(a if a else b)
    return tuple(b - a for a, b in pairwise(sorted({*ends, 0, extent})))


def without_short_ends(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Blocks whose first and last are not much smaller than the others.

    >>> without_short_ends((3, 100, 100, 97)), without_short_ends((50, 100))
    ((103, 100, 97), (50, 100))
    """
    least = max(sizes) // SHORT
    for _ in range(2):
        if len(sizes) > 1 and sizes[-1] <= least:
            sizes = (*sizes[:-2], sizes[-2] + sizes[-1])
        sizes = sizes[::-1]
    return sizes


def spread(first: Numbers, last: Numbers) -> float:
    """The largest distance between int64 indices, computed without overflow."""
    wide = max(float((last / 2 - first / 2).max(initial=0)), 0.0)
    return 2 * wide if float(last.max(initial=0)) < MOST_INDEX else float(MOST_INDEX)


def needed(first: Numbers, last: Numbers, n: int, boundary: str | None) -> tuple[Numbers, Numbers]:
    """The range of elements of an array of n elements that reads at `first` … `last` need.  It ends
    at an edge if they go beyond it and are reflected there."""
    low = np.clip(first, 0, n)
    high = np.maximum(np.clip(last + 1, 0, n), low)
    if boundary == "clamp":
        return np.minimum(low, n - 1), np.maximum(high, 1)
    if boundary in BACK:
        edge = int(boundary == "mirror")
        before, after = first < 0, last >= n
        low = np.where(after, np.minimum(low, np.maximum(2 * n - 1 - edge - last, 0)), low)
        high = np.where(before, np.maximum(high, np.minimum(edge - first, n)), high)
        return np.where(before, 0, low), np.where(after, n, high)
    return low, high


def stepped(sizes: Sequence[int], step: int, offset: int, extent: int) -> tuple[int, ...]:
    """Blocks of `extent` indices k for which step·k + offset lies in the same chunk."""
    if step > 0:
        found = (-(-(e - offset) // step) for e in edges(sizes))
    else:
        found = ((offset - e) // -step + 1 for e in edges(sizes))
    ends = sorted({0, extent, *(k for k in found if 0 < k < extent)})
    return tuple(b - a for a, b in pairwise(ends)) or (extent,)
