"""A schedule as boxes of outputs, in the order in which they are visited.

The ids of an order that lie next to each other are cut into pieces, and a piece into the box
around a few of its points: exact for runs, columns and tiles whose lengths divide the piece,
an estimate elsewhere.  The order's own NumPy evaluation says where the points are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from treadle.skeletons.schedules import Order, Row
from treadle.skeletons.schedules.block_table import block_table

from .maps import Points

#: Points that are looked at in a piece.
SAMPLES = 5
#: Pieces that a long range of ids is cut into.
PIECES = 128


@dataclass(frozen=True)
class Walk:
    """Units of `unit` outputs of `domain`, visited in `order`.

    A unit is one block at block grain, the outputs of one thread at thread grain.  `table`: units
    are looked up, and none is skipped.
    """

    domain: tuple[int, ...]
    order: Order
    unit: tuple[int, ...]
    table: bool = False

    @property
    def grid(self) -> tuple[int, ...]:
        """Units along every axis."""
        return tuple(-(-n // u) for n, u in zip(self.domain, self.unit, strict=True))

    @property
    def size(self) -> int:
        """Number of ids, those outside the domain included."""
        return math.prod(self.grid) if self.table else int(self.order.linear_size(self.grid))

    @property
    def run(self) -> int | None:
        """Ids that lie side by side in a row, where the order has such runs."""
        return self.grid[-1] if isinstance(self.order, Row) else self.order.run

    def origins(self, ids: Points) -> Points:
        """The first output of each unit (…, rank); ids beyond the end are the last one."""
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
        piece, run = self._piece(length, len(starts)), self.run
        if run is not None:  # whole runs, or whole parts of them
            starts = starts - starts % min(piece, run)
        begins = (starts[:, None] + np.arange(0, length, piece)).reshape(-1)
        begins = begins[begins < self.size]
        spread = np.unique(np.linspace(0, piece - 1, min(SAMPLES, piece)).astype(np.int64))
        points = self.origins(begins[:, None] + spread)
        extents, unit = np.array(self.domain, np.int64), np.array(self.unit, np.int64)
        low, high = points.min(1), points.max(1) + unit
        if piece > 1:  # pieces that go on elsewhere: their parts, without the one that jumps
            apart = ((high - low) // unit).prod(1) > 2 * piece
            if apart.any():
                pairs = np.stack((points[apart, :-1], points[apart, 1:]), 2)
                pairs = pairs.reshape(-1, 2, len(extents))
                begin, end = pairs.min(1), pairs.max(1) + unit
                near = ((end - begin) // unit).prod(1) <= piece
                low = np.concatenate([low[~apart], begin[near]])
                high = np.concatenate([high[~apart], end[near]])
        inside = (low < extents).all(1)
        low, high = low[inside], np.minimum(high[inside], extents)
        return (low, high) if len(low) else (np.zeros((1, len(extents)), np.int64), unit[None, :])

    def _piece(self, length: int, starts: int) -> int:
        wanted = max(length * starts // PIECES, 1)
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


def row_major(domain: tuple[int, ...], unit: tuple[int, ...]) -> Walk:
    """Units row by row."""
    return Walk(domain, Row(), unit)


def points_of(low: Points, high: Points) -> Points:
    """All outputs of one box, row-major."""
    sides = [np.arange(a, b) for a, b in zip(low, high, strict=True)]
    grid = np.meshgrid(*sides, indexing="ij")
    return np.stack(grid, -1).reshape(-1, len(sides)).astype(np.int64)
