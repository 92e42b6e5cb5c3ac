"""The tasks of a stage: the chunks that each block needs, how they are assembled, its numbers.

Everything that depends on one axis is computed once per index along that axis, so a task costs a
few microseconds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice, product, repeat
from math import prod
from typing import Any, NamedTuple

import numpy as np

from .buffers import ALL, Block, Cut, Piece
from .domain import Axis, Numbers, edges
from .localise import Blocks, Buffer

#: Indices of chunks along an axis, with the part of the buffer that each provides; and whether the
#: buffer is exactly one whole chunk.
Parts = tuple[tuple[int, ...], tuple[Piece, ...], bool]


def parts(low: int, high: int, ends: Sequence[int], periodic: bool) -> Parts:
    """The chunks, which end at `ends`, that hold the indices `low` … `high` − 1."""
    extent = ends[-1]
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
    return tuple(found), tuple(pieces), whole


class _Lookup:
    """Values per block of a grid that depend on some of its dimensions only."""

    def __init__(self, arrays: Sequence[Numbers], make: Callable[..., Any]) -> None:
        """`make` is called with the elements of the arrays, once for each different block."""
        shape = np.broadcast_shapes(*(a.shape for a in arrays))
        self.dimensions = tuple(k for k, n in enumerate(shape) if n > 1)
        wide = [np.broadcast_to(a, shape) for a in arrays]
        flat = [w.reshape(-1).tolist() for w in wide]
        known: dict[Any, Any] = {}
        values = []
        for given in zip(*flat, strict=True):
            if given not in known:
                known[given] = make(*given)
            values.append(known[given])
        self.values = values
        self.steps = [0] * len(shape)
        step = 1
        for k in reversed(range(len(shape))):
            if shape[k] > 1:
                self.steps[k] = step
            step *= shape[k]

    def row(self, row: Sequence[int]) -> Iterator[Any]:
        """The values along the last dimension, at this position along the others; an endless
        iterator if all are the same."""
        first = sum(k * step for k, step in zip(row, self.steps, strict=False))
        if len(self.steps) > len(row) and self.steps[-1]:
            return islice(self.values, first, None)
        return repeat(self.values[first])


class Task(NamedTuple):
    """A block: its position in the grid, its numbers, and for each buffer the indices, along each
    axis, of the chunks that it is assembled from."""

    position: tuple[int, ...]
    block: Block
    along: tuple[tuple[Sequence[int], ...], ...]

    @property
    def chunks(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """The chunks of each buffer, in row-major order."""
        return tuple(tuple(product(*axes)) for axes in self.along)


def tasks(blocks: Blocks, chunks: Sequence[Sequence[Sequence[int]]]) -> Iterator[Task]:
    """The tasks of all blocks; `chunks`: those of the array of each buffer.

    Goes along rows of the grid: what is the same for a row is found once for it.
    """
    grid = blocks.grid
    lookups = [_buffer_lookups(b, c) for b, c in zip(blocks.buffers, chunks, strict=True)]
    numbers = [_number(n) for n in blocks.numbers]
    kept = [_kept(r.axes, r.added) for r in blocks.results]
    flat = [None if b.flat is None else _Lookup(b.flat, slice) for b in blocks.buffers]
    some_flat = any(flat)
    for row in product(*map(range, grid[:-1])):
        positions = product(*zip(row, strict=True), *map(range, grid[-1:]))
        of_buffers = _together([_row_of_buffer(axes, row) for axes in lookups])
        others = (_together([_row(v, row) for v in some])
                  for some in (numbers, kept, flat if some_flat else ()))  # fmt: skip
        for position, buffers, *rest in zip(positions, of_buffers, *others, strict=False):
            cuts, along = zip(*buffers, strict=True) if buffers else ((), ())
            yield Task(position, Block(cuts, *rest), along)


def _together(rows: Sequence[Iterator[Any]]) -> Iterator[tuple[Any, ...]]:
    return zip(*rows, strict=False) if rows else repeat(())


def _row(value: Any, row: Sequence[int]) -> Iterator[Any]:
    return value.row(row) if type(value) is _Lookup else repeat(value)


def _row_of_buffer(
    axes: list[_Lookup] | int, row: Sequence[int]
) -> Iterator[tuple[Cut, tuple[Sequence[int], ...]]]:
    """How a buffer is put together, and of which chunks along each axis, along a row."""
    if isinstance(axes, int):
        return repeat((((ALL,) * axes,), (range(axes),)))
    return (
        (None if all(whole) else pieces, along)
        for along, pieces, whole in (
            zip(*found, strict=True) if found else ((), (), ())
            for found in _together([axis.row(row) for axis in axes])
        )
    )


def _buffer_lookups(buffer: Buffer, chunks: Sequence[Sequence[int]]) -> list[_Lookup] | int:
    """What a buffer has of the chunks along each axis; of all of them, their number."""
    if buffer.windows is not None:
        return len(chunks[0])
    made = []
    for low, high, periodic, sizes in zip(
        buffer.low, buffer.high, buffer.periodic, chunks, strict=True
    ):
        made.append(_Lookup([low, high], partial(_parts, edges(sizes), periodic, {})))
    return made


def _parts(
    ends: Sequence[int], periodic: bool, known: dict[Any, Any], low: int, high: int
) -> Parts:
    """The same, with equal pieces as one object."""
    found, pieces, whole = parts(low, high, ends, periodic)
    return found, known.setdefault(pieces, pieces), whole


def _number(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    if value.size == 1:
        return int(value.reshape(())[()])
    return _Lookup([value], lambda n: n)


def _kept(axes: Sequence[Axis | None], added: int) -> Any:
    """The part of the program's result that a block keeps: without the halo."""
    own = axes[: len(axes) - added]
    halo = [a for a in own if a is not None and (a.before or a.after)]
    if not halo:
        if not added:
            return None
        return (*(slice(None),) * len(own), *(None,) * added)
    arrays: list[Numbers] = []
    which: list[int] = []
    for a in own:
        if a is not None and (a.before or a.after):
            which.append(len(arrays))
            arrays += [a.start - a.low, a.stop - a.low]
        else:
            which.append(-1)

    def make(*ends: int) -> tuple[slice | None, ...]:
        found = [slice(None) if w < 0 else slice(ends[w], ends[w + 1]) for w in which]
        return (*found, *(None,) * added)

    return _Lookup(arrays, make)


def key_of(axes: Sequence[Axis | None], position: Sequence[int]) -> tuple[int, ...]:
    """The index of the chunk of a result that a block computes."""
    return tuple(
        [position[a.dimension] if a is not None and a.dimension is not None else 0 for a in axes]
    )


def count(blocks: Blocks) -> int:
    """The number of tasks."""
    return prod(blocks.grid)


def traffic(blocks: Blocks, chunks: Sequence[Sequence[Sequence[int]]]) -> tuple[int, int]:
    """The bytes that tasks read, and those of them that are not in the chunk of which a buffer has
    most; `chunks`: those of the array of each buffer."""
    read = moved = 0
    for task in tasks(blocks, chunks):
        for buffer, cut, used, sizes in zip(
            blocks.buffers, task.block.cuts, task.chunks, chunks, strict=True
        ):
            each = buffer.leaf.type.numpy.itemsize
            if cut is None:
                read += each * (
                    prod(s[k] for s, k in zip(sizes, used[0], strict=True)) if used else 0
                )
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


__all__ = ["Task", "count", "key_of", "parts", "tasks", "traffic"]
