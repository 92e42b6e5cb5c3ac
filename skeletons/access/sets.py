"""Which sets of a cache some lines map to, and so how much of the cache they can use.

In a set-associative cache a line maps to one set, its number modulo the number of sets, which has
as many lines as the cache has ways.  Rows whose pitch is a multiple of many lines begin in few
sets: 4 096 of them, 16 kB apart, share one set of a first cache of 64, that is 12 lines of 768.
Such an array needs a cache larger than itself:

    needed = lines / (sets that they map to) · (all sets) · 64 bytes

which is compared with the cache size instead of the number of bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from treadle.dsl.records import dataclass

from .footprint import boxes_by_array, union
from .maps import Map, Points

#: Bytes of a cache line, on a CPU.
LINE = 64
#: Rows of an array that are sampled; the others are taken to be like them.
ROWS = 4096
#: Bytes of a memory page, and of a large page, which arrays get from SOME_PAGES bytes on.  Only
#: within a page do contiguous addresses map to contiguous sets; the next page is random.
PAGE, LARGE_PAGE, SOME_PAGES = 1 << 12, 1 << 21, 1 << 22


@dataclass(frozen=True)
class Cache:
    """The size of a cache in bytes, and its associativity (0: fully associative)."""

    size: float
    ways: int = 0

    @property
    def sets(self) -> int:
        return max(int(self.size) // (LINE * self.ways), 1) if self.ways else 1

    def seen(self, size: int) -> int:
        """The number of sets that addresses within an array of `size` bytes can distinguish."""
        page = LARGE_PAGE if size >= SOME_PAGES else PAGE
        return min(self.sets, page // LINE)


def occupied(maps: Sequence[Map], low: Points, high: Points, chunk: int, inner: Sequence[int],
             cache: Cache) -> tuple[float, float]:  # fmt: skip
    """Bytes of all distinct chunks that boxes of outputs touch (`union_lines`), and the cache size
    that keeps them: more than the bytes if one of the arrays maps to few sets."""
    total = crowded = 0.0
    for m, begin, end in boxes_by_array(maps, low, high, inner):
        bytes_ = union(m, begin, end, chunk) * chunk
        total += bytes_
        if cache.ways and bytes_ > LINE * cache.ways:
            crowded = max(crowded, bytes_ * (1 / share(m, begin, end, cache) - 1))
    return total, total + crowded


def share(m: Map, begin: Points, end: Points, cache: Cache) -> float:
    """The fraction of a cache's sets that the lines of these boxes map to; 1.0 if no two lines map
    to one set."""
    seen = cache.seen(m.size)
    rows, widths = _rows(m, begin, end)
    first, last = rows // LINE, (rows + widths - 1) // LINE
    keep = np.ones(len(first), np.bool_)
    keep[1:] = first[1:] != first[:-1]  # adjacent rows in one line
    first, count = first[keep], (last - first)[keep] + 1
    if (count >= seen).any():
        return 1.0
    # How many runs of lines begin and end at each set, modulo the number of sets.
    edges: NDArray[np.int64] = np.zeros(2 * seen + 1, np.int64)
    np.add.at(edges, first % seen, 1)
    np.add.at(edges, first % seen + count, -1)
    around = np.cumsum(edges)[: 2 * seen].reshape(2, seen).sum(0)
    used = int(np.count_nonzero(around))
    return 1.0 if around.max() <= 1 else used / seen


def _rows(m: Map, begin: Points, end: Points) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The byte addresses at which rows of an array's boxes begin, sorted, and their lengths."""
    pitch = np.array(m.pitch, np.int64) * m.element
    counts = (end - begin)[:, :-1]
    rows = counts.prod(1)
    ends = np.cumsum(rows)
    box = np.repeat(np.arange(len(rows)), rows)[:ROWS] if ends[-1] <= 16 * ROWS else (
        np.searchsorted(ends, np.arange(ROWS), "right")
    )  # fmt: skip
    number = np.arange(len(box)) - (ends - rows)[box]
    address = (begin @ pitch)[box]
    for axis in range(counts.shape[1] - 1, -1, -1):
        number, index = np.divmod(number, counts[box, axis])
        address = address + index * pitch[axis]
    widths = ((end - begin)[:, -1] * m.element)[box]
    order = np.argsort(address, kind="stable")
    return address[order], widths[order]
