"""Footprints: how many cache lines, or sectors, of every array some outputs touch.

`distinct` enumerates addresses, for a thread, a warp or a small block; `box_lines` is exact for
boxes of outputs under affine maps; `union_lines` counts the lines in the union of many boxes, such
as what is resident at a time, with rows aligned to lines.  `column_loads` and `column_cache` are
M_loads and M_cache of Prasetya (2021), section 4.1, counted instead of bounded, for any rank, any
set of arrays and fused programs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from .maps import DATA, KernelMaps, Map, Points

#: Cells of a compressed grid of boxes: a union with more is bounded by its hull.
CELLS = 1 << 20


def with_inner(points: Points, inner: Sequence[int], iterations: int | None = None) -> Points:
    """Points of the outputs with all indices of the inner axes, or the first `iterations`."""
    counts = [max(n if iterations is None else min(n, iterations), 0) for n in inner]
    if not counts:
        return points
    inside = np.array(list(itertools.product(*map(range, counts))), np.int64)
    inside = inside.reshape(-1, len(counts))
    left = np.repeat(points, len(inside), 0)
    return np.concatenate([left, np.tile(inside, (len(points), 1))], 1)


def distinct(maps: Iterable[Map], points: Points, unit: int) -> int:
    """The number of distinct chunks of `unit` bytes that points (outputs and inner indices) touch,
    over all arrays; every data-dependent access counts as a chunk of its own.

    Units of 128 are the lines of a GPU, of 32 its sectors, of 64 the lines of a CPU.
    """
    touched: dict[object, list[NDArray[np.int64]]] = {}
    total = 0
    for m in maps:
        if m.kind == DATA:
            total += len(points) * m.taps
        else:
            touched.setdefault(m.leaf, []).append(m.addresses(points) // unit)
    return total + sum(len(np.unique(np.concatenate(a))) for a in touched.values())


# --- boxes -----------------------------------------------------------------------------------


def array_boxes(m: Map, low: Points, high: Points, inner: Sequence[int]) -> tuple[Points, Points]:
    """Half-open boxes of the array that boxes of outputs (n, outputs) access, inside the array.

    For maps that are not affine: the hull of what the corners access, or the complete array.
    """
    shape = np.array(m.shape, np.int64)
    count, rank = len(low), len(m.shape)
    if m.kind == DATA or not rank:
        return np.zeros((count, rank), np.int64), np.tile(shape, (count, 1))
    first, last = low, high - 1
    if inner:
        first = np.concatenate([low, np.zeros((count, len(inner)), np.int64)], 1)
        last = np.concatenate([last, np.tile(np.array(inner, np.int64) - 1, (count, 1))], 1)
    if m.compute is not None:
        axes = range(first.shape[1])
        found = []
        for side in itertools.product((0, 1), repeat=min(first.shape[1], 4)):
            chosen = [(first, last)[side[k] if k < len(side) else 0][:, k] for k in axes]
            indices = m.indices(np.stack(chosen, 1)).reshape(-1, count, rank)
            found += [*indices]
        stacked = np.stack(found)
        begin, end = stacked.min(0), stacked.max(0) + 1
    else:
        c = np.array(m.coefficients, np.int64).reshape(rank, first.shape[1]).T
        up, down = np.maximum(c, 0), np.minimum(c, 0)
        offsets = np.array(m.offsets, np.int64).reshape(-1, rank)
        begin = first @ up + last @ down + offsets.min(0)
        end = last @ up + first @ down + offsets.max(0) + 1
    # A boundary keeps indices inside the array: indices outside go to its edge.
    begin = np.minimum(np.maximum(begin, 0), np.maximum(shape - 1, 0))
    return begin, np.minimum(np.maximum(end, begin + 1), shape)


def box_lines(m: Map, low: Points, high: Points, line: int, inner: Sequence[int] = ()
              ) -> NDArray[np.int64]:  # fmt: skip
    """Lines of `line` bytes that each box of outputs touches; exact if the map is affine and
    touches every element of a box (coefficients and gaps of 1)."""
    begin, end = array_boxes(m, low, high, inner)
    pitch = np.array(m.pitch, np.int64)
    found = np.zeros(len(low), np.int64)
    for k, (b, e) in enumerate(zip(begin, end, strict=True)):
        rows = np.zeros(1, np.int64)
        for axis in range(len(b) - 1):
            steps = np.arange(b[axis], e[axis], dtype=np.int64) * pitch[axis]
            rows = (rows[:, None] + steps).reshape(-1)
        left, right = (b[-1], e[-1]) if len(b) else (0, 1)
        first = (rows + left) * m.element // line
        last = ((rows + right) * m.element - 1) // line
        before = np.concatenate([[-1], last[:-1]])
        found[k] = np.maximum(last - np.maximum(first, before + 1) + 1, 0).sum()
    return found


def union_lines(maps: Sequence[Map], low: Points, high: Points, line: int, inner: Sequence[int]
                ) -> float:  # fmt: skip
    """Distinct lines that boxes of outputs touch, summed over the arrays.

    Rows are taken to be aligned to lines; for those that are not, an average number of straddled
    lines is added.
    """
    total = 0.0
    for m, begin, end in boxes_by_array(maps, low, high, inner):
        total += union(m, begin, end, line)
    return total


def boxes_by_array(maps: Sequence[Map], low: Points, high: Points, inner: Sequence[int]
                   ) -> Iterator[tuple[Map, Points, Points]]:  # fmt: skip
    """For each array one of its maps, and the boxes that boxes of outputs touch."""
    for _, same in itertools.groupby(sorted(maps, key=array_order), key=array_order):
        arrays = list(same)
        boxes = [array_boxes(p, low, high, inner) for m in arrays for p in m.parts]
        begin, end = (np.concatenate([b[k] for b in boxes]) for k in (0, 1))
        yield arrays[0], begin, end


def array_order(m: Map) -> tuple[int, int]:
    """A key that sorts maps by array."""
    return m.leaf.node.uid, m.leaf.component


def union(m: Map, begin: Points, end: Points, line: int) -> float:
    """Lines of one array in the union of some of its boxes (see `union_lines`)."""
    if not m.shape:
        return 1.0
    per_line = line / m.element
    straddling = m.shape[-1] > per_line and (m.shape[-1] * m.element) % line != 0
    if m.shape[-1] <= per_line:  # a line holds several rows
        cells = _covered(begin, end)
        return max(cells / per_line, 1.0)
    begin, end = begin.copy(), end.copy()
    begin[:, -1] = begin[:, -1] * m.element // line
    end[:, -1] = -(-end[:, -1] * m.element // line)
    if not straddling:
        return _covered(begin, end)
    width = float(np.mean(end[:, -1] - begin[:, -1]))
    return _covered(begin, end) * (1 + (1 - 1 / per_line) / max(width, 1.0) / 2)


def _covered(begin: Points, end: Points) -> float:
    """Cells in the union of boxes, by coordinate compression."""
    hull = (end.max(0) - begin.min(0)).astype(float)
    whole = float(hull.prod())
    volumes = (end - begin).prod(1)
    if len(begin) == 1 or volumes.max() == whole:
        return whole
    edges = [np.unique(np.concatenate([begin[:, k], end[:, k]])) for k in range(begin.shape[1])]
    if math.prod(len(e) for e in edges) > CELLS:
        return min(float(volumes.sum()), whole)
    sides = tuple(len(e) for e in edges)
    at = [(np.searchsorted(e, begin[:, k]), np.searchsorted(e, end[:, k]))
          for k, e in enumerate(edges)]  # fmt: skip
    counts = np.zeros(math.prod(sides), np.int64)
    for side in itertools.product((0, 1), repeat=len(edges)):
        cells = np.ravel_multi_index([a[s] for a, s in zip(at, side, strict=True)], sides)
        found = np.bincount(cells, minlength=counts.size)
        counts += -found if sum(side) % 2 else found
    counts = counts.reshape(sides)
    for k in range(len(edges)):
        counts = np.cumsum(counts, axis=k)
    inside = counts > 0
    sizes: NDArray[np.float64] = np.ones(())
    for k, e in enumerate(edges):
        width = np.append(np.diff(e), 0).astype(float)
        sizes = np.multiply.outer(sizes, width) if k else width
    return float(sizes[inside].sum())


# --- columns: M_loads and M_cache ------------------------------------------------------------


def columns(extents: Sequence[int], width: int) -> tuple[Points, Points]:
    """The boxes of columns of `width` outputs, complete along all other axes."""
    starts = np.arange(0, max(extents[-1], 0), width, dtype=np.int64)
    low = np.zeros((len(starts), len(extents)), np.int64)
    high = np.tile(np.array(extents, np.int64), (len(starts), 1))
    low[:, -1], high[:, -1] = starts, np.minimum(starts + width, extents[-1])
    return low, high


def column_loads(kernel: KernelMaps, width: int, line: int) -> int:
    """M_loads, counted: lines of `line` bytes read in total if every column of `width` outputs
    starts with an empty cache of the capacity that `column_cache` computes.

    Maps of one array are counted separately if their linear parts differ.  Each data-dependent read
    counts as a load.
    """
    low, high = columns(kernel.outputs, width)
    total = sum(
        int(box_lines(m, low, high, line, kernel.inner).sum())
        for m in kernel.reads if m.kind != DATA
    )  # fmt: skip
    return total + int(sum(kernel.size * m.iterations for m in kernel.reads if m.kind == DATA))


def column_cache(kernel: KernelMaps, width: int, threads: int, line: int) -> int:
    """M_cache, counted: bytes of the lines that `threads` consecutive outputs of a column keep in
    use, in the middle of the domain; data-dependent accesses are excluded."""
    rows = -(-threads // width)
    middle = [n // 2 for n in kernel.outputs]
    low = np.array([middle], np.int64)
    low[:, -1] = 0
    high = low + 1
    high[:, -1] = min(width, kernel.outputs[-1])
    if len(kernel.outputs) > 1:
        high[:, -2] = min(low[0, -2] + rows, kernel.outputs[-2])
    return sum(
        int(box_lines(m, low, high, line, kernel.inner)[0]) * line
        for m in kernel.reads if m.kind != DATA
    )  # fmt: skip
