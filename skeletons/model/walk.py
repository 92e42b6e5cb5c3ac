"""A schedule as boxes of outputs, in visiting order.

A range of consecutive ids is cut into chunks, and a chunk becomes the bounding box of a few of its
points: exact for runs, columns and tiles whose lengths divide the chunk, an estimate for others.
The NumPy evaluation of the order locates the points.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from treadle.dsl.locks import cached
from treadle.skeletons.schedules import Order, Row
from treadle.skeletons.schedules.block_table import block_table

from ..access.maps import Points

#: Points sampled in a chunk.
SAMPLES = 5
#: … along an order without runs.
CURVE = 33
#: How often a chunk whose box does not fit is split into four, and the factor it may be off by.
SPLITS, MOST = 4, 1.3
#: Chunks split at most: a user-defined order may have no boxes.
BOXES = 1024
#: Ids of an order that are sampled for those inside the domain.
LOOKS = 1024
#: Chunks that a long range of ids is cut into.
CHUNKS = 128


@dataclass(frozen=True)
class Walk:
    """Units of `unit` outputs of `domain`, visited in `order`.

    A unit is one block at block grain, the outputs of one thread at thread grain.  `table`: ids
    are looked up, and none is skipped.
    """

    domain: tuple[int, ...]
    order: Order
    unit: tuple[int, ...]
    table: bool = False

    @cached
    def grid(self) -> tuple[int, ...]:
        """Units along every axis."""
        return tuple(-(-n // u) for n, u in zip(self.domain, self.unit, strict=True))

    @cached
    def size(self) -> int:
        """The number of ids, including those outside the domain."""
        return math.prod(self.grid) if self.table else int(self.order.linear_size(self.grid))

    @property
    def inside(self) -> int:
        """The number of ids inside the domain."""
        return math.prod(self.grid)

    def at(self, part: float, count: int = 0) -> int:
        """The first of `count` ids at a fraction of the way through those inside the domain."""
        space = max(self.size - count, 0)
        if self.size <= self.inside:
            return int(space * part)
        found = self._found
        return min(int(found[int(len(found) * part)]), space) if len(found) else 0

    @cached
    def _found(self) -> Points:
        """A sample of the ids inside the domain."""
        ids = np.arange(LOOKS) * self.size // LOOKS
        found: Points = ids[(self.origins(ids) < np.array(self.domain)).all(1)]
        return found

    @property
    def run(self) -> int | None:
        """The number of ids that are contiguous in a row, if the order has such runs."""
        return self.grid[-1] if isinstance(self.order, Row) else self.order.run

    def origins(self, ids: Points) -> Points:
        """The first output of each unit (…, rank); ids beyond the end give the last one."""
        ids = np.minimum(ids, max(self.size - 1, 0))
        if self.table and self.size != self.order.linear_size(self.grid):
            numbers = block_table(self.order, self.grid)[ids]
            found = np.stack(np.unravel_index(numbers, self.grid), -1)
        elif len(self.grid) == 2 and type(self.order) is Row:
            found = np.stack((ids // self.grid[1], ids % self.grid[1]), -1)
        else:
            found = np.stack(np.broadcast_arrays(*self.order.coordinates(ids, self.grid)), -1)
        return np.asarray(found, np.int64) * np.array(self.unit, np.int64)

    def boxes(self, start: int | Points, length: int) -> tuple[Points, Points]:
        """Half-open boxes that cover the ids [start, start + length) of one or several starts."""
        starts = np.atleast_1d(np.asarray(start, np.int64))
        chunk = self._chunk(length, len(starts))
        starts = starts - starts % chunk
        begins = (starts[:, None] + np.arange(0, length, chunk)).reshape(-1)
        begins = begins[begins < self.size]
        extents, unit = np.array(self.domain, np.int64), np.array(self.unit, np.int64)
        found: list[tuple[Points, Points]] = []
        for left in range(SPLITS, -1, -1):
            points = self.origins(begins[:, None] + _samples(chunk, self.run))
            low, high = points.min(1), points.max(1) + unit
            # The box is right if it has as many units as the chunk has ids.
            units = ((high - low) // unit).prod(1)
            poor = (units > MOST * chunk) | (units * MOST < chunk)
            if chunk == 1 or not left or not 0 < np.count_nonzero(poor) <= BOXES:
                found.append((low, high))
                break
            found.append((low[~poor], high[~poor]))
            parts = np.arange(0, chunk, -(-chunk // 4))
            begins, chunk = (begins[poor][:, None] + parts).reshape(-1), -(-chunk // 4)
            begins = begins[begins < self.size]
        low, high = (np.concatenate([f[k] for f in found]) for k in (0, 1))
        inside = (low < extents).all(1)
        low, high = low[inside], np.minimum(high[inside], extents)
        return (low, high) if len(low) else (np.zeros((1, len(extents)), np.int64), unit[None, :])

    def _chunk(self, length: int, starts: int) -> int:
        wanted = max(length * starts // CHUNKS, 1)
        if wanted <= 1:
            return 1
        run = self.run
        if run is None:
            return min(1 << (wanted - 1).bit_length(), length)
        if wanted <= run:
            parts = max(run // wanted, 1)
            return min(max(run // parts, 1), length)
        return min(run << (wanted // run).bit_length() - 1, length)

    def whole(self) -> tuple[Points, Points]:
        """The domain as one box."""
        rank = len(self.domain)
        return np.zeros((1, rank), np.int64), np.array([self.domain], np.int64)


@lru_cache(maxsize=256)
def _samples(chunk: int, run: int | None) -> Points:
    """The sampled ids of a chunk: many for an order without runs; else a few and the end of the
    first run (every second row of a zigzag begins where the one before ends)."""
    spread = np.linspace(0, chunk - 1, min(CURVE if run is None else SAMPLES, chunk))
    found: Points = np.unique(np.append(spread.astype(np.int64), min(run or chunk, chunk) - 1))
    found.flags.writeable = False
    return found


def row_major(domain: tuple[int, ...], unit: tuple[int, ...]) -> Walk:
    """Units row by row."""
    return Walk(domain, Row(), unit)


def points_of(low: Points, high: Points) -> Points:
    """All outputs of one box, row-major."""
    sides = [np.arange(a, b) for a, b in zip(low, high, strict=True)]
    grid = np.meshgrid(*sides, indexing="ij")
    return np.stack(grid, -1).reshape(-1, len(sides)).astype(np.int64)
