"""The tasks of a stage: the chunks that each block needs, how they are assembled, its numbers.

Everything that depends on one axis only is computed once per index along that axis, so that a task
costs a few microseconds.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterator, Sequence
from copy import copy
from functools import partial
from itertools import product, repeat
from math import prod
from typing import Any, NamedTuple, Protocol

import numpy as np

from treadle.dsl.process.recent import Recent

from .buffers import ALL, Block, Cut, Piece, Whole
from .domain import Axis, Numbers, edges
from .localise import Blocks, Buffer
from .stages import Stage

#: A part of a chunk is sent without the rest if it is this many times smaller and saves this many
#: bytes: as many as are sent in the time of a task.
SMALL, WORTH = 4, 1 << 20
#: The number of rows whose values a `_Combined` caches.
REMEMBERED = 64


class Parts(NamedTuple):
    """The parts of a buffer along an axis: the indices of chunks, the part that each provides, and
    whether it is exactly one whole chunk.

    `ways`: how each chunk is sent, for engines that distinguish.
    """

    chunks: Sequence[int]
    pieces: tuple[Piece, ...]
    whole: bool
    ways: tuple[Any, ...] = ()


def parts(low: int, high: int, ends: Sequence[int], periodic: bool) -> Parts:
    """The chunks, which end at `ends`, that contain the indices `low` … `high` − 1."""
    extent = ends[-1]
    if 0 <= low < high <= extent:
        k = bisect_right(ends, low) - 1
        first, end = ends[k], ends[k + 1]
        if high <= end:  # the common case
            piece = 0, high - low, low - first, high - first
            return Parts((k,), (piece,), low == first and high == end)
    found: list[int] = []
    pieces: list[Piece] = []
    at = low
    while at < high and extent:
        inside = at % extent if periodic else at
        k = bisect_right(ends, inside) - 1
        size = min(ends[k + 1] - inside, high - at)
        found.append(k)
        first = inside - ends[k]
        pieces.append((at - low, at - low + size, first, first + size))
        at += size
    whole = len(found) == 1 and low == ends[found[0]] and high == ends[found[0] + 1]
    return Parts(tuple(found), tuple(pieces), whole)


def travels_alone(length: int, n: int, size: int) -> bool:
    """Whether `length` of the `n` indices of a chunk of `size` bytes are sent without the rest."""
    return SMALL * length <= n and (n - length) * size >= n * WORTH


class _Values(Protocol):
    """A value per block of a grid, row by row along its last dimension."""

    def key(self, row: Sequence[int]) -> Hashable:
        """A key of a row, a position along the other dimensions; equal keys mean equal values."""

    def row(self, row: Sequence[int]) -> list[Any]:
        """The values of a row."""


class _Lookup:
    """Values per block that depend only on some dimensions of the grid."""

    def __init__(
        self, arrays: Sequence[Numbers], make: Callable[..., Any] | None, grid: Sequence[int]
    ) -> None:
        """`make` is called with the elements of the arrays, once per distinct block, so that equal
        values are one object.  None: the values are the elements of one array."""
        shape = np.broadcast_shapes(*(a.shape for a in arrays))
        wide = [np.broadcast_to(a, shape) for a in arrays]
        flat = [w.reshape(-1).tolist() for w in wide]
        if make is None:
            self.values: list[Any] = flat[0]
        else:
            given = list(zip(*flat, strict=True))
            known = {one: make(*one) for one in dict.fromkeys(given)}
            self.values = [known[one] for one in given]
        self.steps = [0] * len(grid)
        step = 1
        for k in reversed(range(len(shape))):
            if shape[k] > 1:
                self.steps[k] = step
            step *= shape[k]
        self.width = grid[-1] if grid else 1
        self.varies = bool(grid) and self.steps[-1] > 0

    def each(self, of: Callable[[Any], Any]) -> _Lookup:
        made = copy(self)
        made.values = list(map(of, self.values))
        return made

    def _first(self, row: Sequence[int]) -> int:
        return sum(k * step for k, step in zip(row, self.steps, strict=False))

    def key(self, row: Sequence[int]) -> Hashable:
        first = self._first(row)
        return first if self.varies else id(self.values[first])

    def row(self, row: Sequence[int]) -> list[Any]:
        first = self._first(row)
        if self.varies:
            return self.values[first : first + self.width]
        return [self.values[first]] * self.width


class _Combined:
    """`make` (by default, a tuple) of the values of several, computed once for equal rows."""

    def __init__(
        self, values: Sequence[_Values], width: int, make: Callable[..., Any] | None = None
    ) -> None:
        self.values, self.width, self.make = values, width, make
        self.known = Recent[Hashable, list[Any]](REMEMBERED)

    def key(self, row: Sequence[int]) -> Hashable:
        return tuple([v.key(row) for v in self.values])

    def row(self, row: Sequence[int]) -> list[Any]:
        key = self.key(row)
        found = self.known.get(key)
        if found is None:
            every = [v.row(row) for v in self.values]
            if not every:
                found = [() if self.make is None else self.make()] * self.width
            elif self.make is None:
                found = list(zip(*every, strict=True))
            else:
                found = list(map(self.make, *every))
            self.known[key] = found
        return found


class Task(NamedTuple):
    """A block: its grid position, its numbers, and the parts of each buffer along each axis."""

    position: tuple[int, ...]
    block: Block
    along: tuple[tuple[Parts, ...], ...]

    @property
    def chunks(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """The chunks of each buffer, in row-major order."""
        return tuple(tuple(product(*(p.chunks for p in axes))) for axes in self.along)


class Row(NamedTuple):
    """The tasks along the last dimension of a grid, at a position along the others: their blocks,
    and for each buffer its parts in each of them along each axis."""

    position: tuple[int, ...]
    blocks: list[Block]
    along: list[list[tuple[Parts, ...]]]


#: A hook of an engine that rewrites the parts of buffer `k` along an axis, given all of them.
Adapt = Callable[[int, int, list[Parts]], Callable[[Parts], Parts]]


def rows(
    blocks: Blocks, chunks: Sequence[Sequence[Sequence[int]]], adapt: Adapt | None = None
) -> Iterator[Row]:
    """The tasks of all blocks, row by row; `chunks`: the chunks of each buffer's array.

    Values that depend on one axis are computed once per index along it, and values that rows of the
    grid share once for these rows.
    """
    grid = blocks.grid
    width = grid[-1] if grid else 1
    along: list[_Combined] = []
    cuts: list[_Values] = []
    for k, (buffer, sizes) in enumerate(zip(blocks.buffers, chunks, strict=True)):
        axes = _axes_of(buffer, sizes, grid)
        if adapt is not None and buffer.windows is None:
            axes = [axis.each(adapt(k, a, axis.values)) for a, axis in enumerate(axes)]
        along.append(_Combined(axes, width))
        pieces = [axis.each(partial(_pieces, {})) for axis in axes]
        cuts.append(_Combined(pieces, width, _cut))
    numbers = _Combined([_number(n, grid) for n in blocks.numbers], width)
    kept = _Combined([_kept(r.axes, r.added, grid) for r in blocks.results], width)
    made: list[_Values] = [_Combined(cuts, width), numbers, kept]
    if any(b.flat for b in blocks.buffers):
        made.append(_Combined([_flat(b, grid) for b in blocks.buffers], width))
    whole = _Combined(made, width, Block)
    for row in product(*map(range, grid[:-1])):
        yield Row(row, whole.row(row), [buffer.row(row) for buffer in along])


def tasks(blocks: Blocks, chunks: Sequence[Sequence[Sequence[int]]]) -> Iterator[Task]:
    last = blocks.grid[-1:]
    for position, made, along in rows(blocks, chunks):
        of_tasks = zip(*along, strict=True) if along else repeat(())
        for at, block, axes in zip(product(*map(range, last)), made, of_tasks, strict=False):
            yield Task((*position, *at), block, axes)


#: The pieces of a buffer along an axis, and whether they are one whole chunk.
_Along = tuple[tuple[Piece, ...], bool]


def _pieces(known: dict[_Along, _Along], p: Parts) -> _Along:
    """Intern equal pieces as one object."""
    made = p.pieces, p.whole
    return known.setdefault(made, made)


def _cut(*axes: _Along) -> Cut:
    if all([whole for _, whole in axes]):
        return Whole(tuple([pieces[0][1] for pieces, _ in axes]))
    return tuple([pieces for pieces, _ in axes])


def _axes_of(buffer: Buffer, chunks: Sequence[Sequence[int]], grid: Sequence[int]) -> list[_Lookup]:
    """The parts of a buffer along each axis."""
    if buffer.windows is not None:
        every = Parts(range(len(chunks[0])), (ALL,), False)
        return [_Lookup([np.zeros((), np.int64)], lambda _: every, grid)]
    made = []
    for low, high, periodic, sizes in zip(
        buffer.low, buffer.high, buffer.periodic, chunks, strict=True
    ):
        ends = edges(sizes)
        first, last = low.ravel().tolist(), high.ravel().tolist()
        if [*first, ends[-1]] == ends == [0, *last] and all(sizes):  # perhaps of many chunks
            whole = [_whole_chunk(*chunk) for chunk in enumerate(sizes)]
            number = np.arange(len(sizes)).reshape(low.shape)
            made.append(_Lookup([number], None, grid).each(whole.__getitem__))
        else:
            made.append(_Lookup([low, high], partial(parts, ends=ends, periodic=periodic), grid))
    return made


def _whole_chunk(number: int, size: int) -> Parts:
    return Parts((number,), ((0, size, 0, size),), True)


def _number(value: Any, grid: Sequence[int]) -> _Lookup:
    if not isinstance(value, np.ndarray):
        return _Lookup([np.zeros((), np.int64)], lambda _: value, grid)
    return _Lookup([value], None, grid)


def _flat(buffer: Buffer, grid: Sequence[int]) -> _Lookup:
    if buffer.flat is None:
        return _Lookup([np.zeros((), np.int64)], lambda _: None, grid)
    return _Lookup(buffer.flat, slice, grid)


def _kept(axes: Sequence[Axis | None], added: int, grid: Sequence[int]) -> _Values:
    """The part of the program's result that a block keeps: without the halo."""
    own = axes[: len(axes) - added]
    zero = [np.zeros((), np.int64)]
    if not added and not any(a is not None and (a.before or a.after) for a in own):
        return _Lookup(zero, lambda _: None, grid)
    made: list[_Values] = []
    for a in own:
        if a is not None and (a.before or a.after):
            made.append(_Lookup([a.start - a.low, a.stop - a.low], slice, grid))
        else:
            made.append(_Lookup(zero, lambda _: slice(None), grid))
    made += [_Lookup(zero, lambda _: None, grid) for _ in range(added)]
    return _Combined(made, grid[-1] if grid else 1)


def key_of(axes: Sequence[Axis | None], position: Sequence[int]) -> tuple[int, ...]:
    """The index of the chunk of a result that a block computes."""
    return tuple(
        [position[a.dimension] if a is not None and a.dimension is not None else 0 for a in axes]
    )


def chunks_in(stage: Stage, axes: Sequence[Axis | None], position: Sequence[int]
              ) -> list[tuple[tuple[int, ...], tuple[slice, ...] | None]]:  # fmt: skip
    """The chunks of a result, with these axes, that a block of a stage computes: the index of each,
    and its part of the block (None: all)."""
    at = key_of(axes, position)
    if stage.chunks is None:
        return [(at, None)]
    along: list[list[tuple[int, slice]]] = []
    for k, axis, sizes in zip(at, axes, stage.chunks, strict=True):
        ends = edges(sizes)
        first, last = 0, ends[-1]
        if axis is not None:
            first, last = int(axis.start.reshape(-1)[k]), int(axis.stop.reshape(-1)[k])
        inside = range(bisect_left(ends, first), bisect_right(ends, last) - 1)
        along.append([(c, slice(ends[c] - first, ends[c + 1] - first)) for c in inside])
    found = [tuple(zip(*parts, strict=True)) for parts in product(*along)]
    return [(index, part) for index, part in found]


def count(blocks: Blocks) -> int:
    return prod(blocks.grid)


def traffic(blocks: Blocks, chunks: Sequence[Sequence[Sequence[int]]]) -> tuple[int, int]:
    """The bytes that tasks read, and how many of them are outside the chunk that contributes most
    to a buffer; `chunks`: the chunks of each buffer's array."""
    read = moved = 0
    for task in tasks(blocks, chunks):
        for buffer, cut in zip(blocks.buffers, task.block.cuts, strict=True):
            each = buffer.leaf.type.numpy.itemsize
            if isinstance(cut, Whole):
                read += each * prod(cut.shape)
                continue
            if buffer.windows is not None:
                continue  # below
            lengths = [[p[1] - p[0] for p in along] for along in cut]
            total = prod(sum(along) for along in lengths)
            read += each * total
            moved += each * (total - prod(max(along, default=0) for along in lengths))
    for buffer in blocks.buffers:
        if buffer.windows is not None:
            size = buffer.leaf.type.numpy.itemsize * int((buffer.high[0] - buffer.low[0]).sum())
            read, moved = read + size, moved + size
    return read, moved
