"""The tasks of a stage: which chunks each block needs, how they are put together, its numbers.

Everything that depends on one axis is computed once per index along that axis, so a task costs a
few microseconds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import prod
from typing import Any

import numpy as np

from .buffers import ALL, Block, Piece
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

    def at(self, place: Sequence[int]) -> Any:
        number = 0
        for k, step in zip(place, self.steps, strict=False):
            number += k * step
        return self.values[number]


@dataclass(frozen=True)
class Task:
    """A block: its place in the grid, its numbers, and for each buffer the chunks it is made of."""

    place: tuple[int, ...]
    block: Block
    chunks: tuple[tuple[tuple[int, ...], ...], ...]


def tasks(blocks: Blocks, chunks: Sequence[Sequence[Sequence[int]]]) -> Iterator[Task]:
    """The tasks of all blocks; `chunks`: those of the array of each buffer."""
    grid = blocks.grid
    lookups = [_buffer_lookups(b, c) for b, c in zip(blocks.buffers, chunks, strict=True)]
    numbers = [_number(n) for n in blocks.numbers]
    kept = [_kept(r.axes, r.added) for r in blocks.results]
    flat = [None if b.flat is None else _Lookup(b.flat, slice) for b in blocks.buffers]
    some_flat = any(flat)
    shared: dict[Any, Any] = {}
    for place in product(*map(range, grid)):
        cuts: list[Any] = []
        used: list[Any] = []
        for axes in lookups:
            if isinstance(axes, int):
                cuts.append(((ALL,) * axes,))
                used.append(tuple((k,) for k in range(axes)))
                continue
            found = [axis.at(place) for axis in axes]
            used.append(tuple(product(*[f[0] for f in found])))
            if all(f[2] for f in found):
                cuts.append(None)
            else:
                cut = tuple([f[1] for f in found])
                cuts.append(shared.setdefault(cut, cut))
        block = Block(
            tuple(cuts),
            tuple([n if type(n) is not _Lookup else n.at(place) for n in numbers]),
            tuple([k if type(k) is not _Lookup else k.at(place) for k in kept]),
            tuple([None if f is None else f.at(place) for f in flat]) if some_flat else (),
        )
        yield Task(place, block, tuple(used))


def _buffer_lookups(buffer: Buffer, chunks: Sequence[Sequence[int]]) -> list[_Lookup] | int:
    """What a buffer has of the chunks along each axis; of all of them, their number."""
    if buffer.windows is not None:
        return len(chunks[0])
    made = []
    for low, high, periodic, sizes in zip(
        buffer.low, buffer.high, buffer.periodic, chunks, strict=True
    ):
        ends = edges(sizes)
        made.append(_Lookup([low, high], partial(_parts, ends, periodic)))
    return made


def _parts(ends: Sequence[int], periodic: bool, low: int, high: int) -> Parts:
    return parts(low, high, ends, periodic)


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


def key_of(axes: Sequence[Axis | None], place: Sequence[int]) -> tuple[int, ...]:
    """The index of the chunk of a result that a block computes."""
    return tuple(
        place[a.dimension] if a is not None and a.dimension is not None else 0 for a in axes
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
