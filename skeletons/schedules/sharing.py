"""Blocks that share cache lines: their graph, and the orders and queues made from it.

    footprints → block_graph     sparse; the weight of an edge is the number of lines shared
    spanning_order               the order in which Prim's algorithm builds a maximum spanning tree
    parts                        k parts of equal size with few lines shared between them (METIS)
    bisected                     recursive bisection; neighbouring parts share a parent (METIS)

After D. Tripathy et al., *PAVER: Locality graph-based thread block scheduling for GPUs* (TACO
2021).  METIS comes with `pymetis`, an optional dependency.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treadle.dsl.schedule import ScheduleError

Ints = NDArray[np.int64]

#: Each block that shares a line gets edges to at most this many next sharers of it: the edges
#: between all sharers would add little, and their number is quadratic.
MOST_SHARERS = 64


@dataclass(frozen=True)
class Footprints:
    """The lines that blocks touch in one array.

    Blocks that touch the same lines have one owner: `owner[b]` is the owner of block b, and owner
    `owners[k]` touches line `lines[k]` (every pair once, in any order).
    """

    lines: Ints
    owners: Ints
    owner: Ints


@dataclass(frozen=True)
class BlockGraph:
    """Blocks 0 … count − 1: block b shares lines with `neighbours[starts[b]:starts[b + 1]]`, and
    `weights` has the numbers of lines.  Symmetric, without loops."""

    count: int
    starts: Ints
    neighbours: Ints
    weights: Ints

    @property
    def edges(self) -> int:
        """The number of edges, each counted once."""
        return len(self.neighbours) // 2


def block_graph(count: int, footprints: Sequence[Footprints]) -> BlockGraph:
    """The graph of `count` blocks from the lines they touch, array by array.

    Lines are sorted, and lines shared by the same blocks are merged; pairs of blocks that share
    nothing are never enumerated.

    >>> lines, blocks = np.array([0, 1, 1, 2, 2]), np.array([0, 0, 1, 1, 2])
    >>> graph = block_graph(3, [Footprints(lines, blocks, np.arange(3))])
    >>> graph.neighbours.tolist(), graph.weights.tolist()
    ([1, 0, 2, 1], [1, 1, 1, 1])
    """
    keys: list[Ints] = []
    weights: list[Ints] = []
    for one in footprints:
        atoms, blocks, weight = _shared_lists(one)
        for distance in range(1, MOST_SHARERS + 1):
            same = atoms[distance:] == atoms[:-distance]
            if not same.any():
                break
            low, high = blocks[:-distance][same], blocks[distance:][same]
            keys.append(low * count + high)
            weights.append(weight[atoms[distance:][same]])
    if not keys:
        return BlockGraph(count, np.zeros(count + 1, np.int64), *(np.zeros((2, 0), np.int64)))
    pairs, inverse = np.unique(np.concatenate(keys), return_inverse=True)
    total = np.bincount(inverse, np.concatenate(weights)).astype(np.int64)
    low, high = pairs // count, pairs % count
    source, target = np.concatenate((low, high)), np.concatenate((high, low))
    order = np.lexsort((target, source))
    starts = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(source, minlength=count), out=starts[1:])
    return BlockGraph(count, starts, target[order], np.concatenate((total, total))[order])


def _shared_lists(one: Footprints) -> tuple[Ints, Ints, Ints]:
    """Merges lines that the same blocks share into atoms: (atom, block) pairs sorted by both, and
    the number of lines of each atom."""
    nothing = np.zeros(0, np.int64)
    if not len(one.lines):
        return nothing, nothing, nothing
    order = np.lexsort((one.owners, one.lines))
    lines, owners = one.lines[order], one.owners[order]
    first = np.flatnonzero(np.r_[True, lines[1:] != lines[:-1]])
    sharers = np.diff(np.r_[first, len(lines)])
    # Sets of owners are compared by sums of random 64-bit words; a collision changes only weights.
    words = np.random.default_rng(1).integers(0, 1 << 63, int(owners.max()) + 1, np.int64)
    sums = np.add.reduceat(words[owners], first)
    _, chosen, weight = np.unique(sums, return_index=True, return_counts=True)
    # The (atom, owner) pairs of the chosen lines, then the blocks of these owners.
    counts = sharers[chosen]
    atom_of = np.repeat(np.arange(len(chosen)), counts)
    owner_of = owners[_ranges(first[chosen], counts)]
    by_owner = np.argsort(one.owner, kind="stable")
    begins = np.searchsorted(one.owner[by_owner], np.arange(int(owners.max()) + 2))
    members = np.diff(begins)[owner_of]
    blocks = by_owner[_ranges(begins[owner_of], members)]
    atoms = np.repeat(atom_of, members)
    order = np.lexsort((blocks, atoms))
    return atoms[order], blocks[order], weight.astype(np.int64)


def _ranges(starts: Ints, counts: Ints) -> Ints:
    """starts[0], starts[0] + 1, … (counts[0] of them), starts[1], …"""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    found: Ints = np.arange(total) + np.repeat(starts - (ends - counts), counts)
    return found


# --- the maximum spanning tree -------------------------------------------------------------------


def spanning_order(graph: BlockGraph) -> Ints:
    """The blocks in the order in which Prim's algorithm adds them to a maximum spanning tree.

    It starts at block 0, and again at the lowest block not yet reached when no edges are left.

    >>> lines, blocks = np.array([0, 0, 1, 1, 2, 2]), np.array([0, 2, 0, 2, 1, 2])
    >>> spanning_order(block_graph(4, [Footprints(lines, blocks, np.arange(4))])).tolist()
    [0, 2, 1, 3]
    """
    from .prim import walk

    found: Ints = walk(graph.starts, graph.neighbours, graph.weights)
    return found


# --- partitions ----------------------------------------------------------------------------------


def metis() -> Any:
    """The module `pymetis`; `ScheduleError` where it is not installed."""
    try:
        import pymetis
    except ImportError:
        raise ScheduleError(
            'LocalityGraph(method="kway") and (method="bisect") partition graphs with pymetis, '
            "which is not installed.",
            hint='Run pip install "treadle[schedules]", or write LocalityGraph(method="mst").',
        ) from None
    return pymetis


def _cut(graph: BlockGraph, pieces: int) -> Ints:
    """The part of every block in a partition into `pieces` parts."""
    if pieces < 2 or not len(graph.neighbours):
        return np.arange(graph.count, dtype=np.int64) * max(pieces, 1) // max(graph.count, 1)
    tool = metis()
    csr = tool.CSRAdjacency(graph.starts, graph.neighbours)
    _, found = tool.part_graph(pieces, csr, eweights=graph.weights.tolist())
    return np.asarray(found, np.int64)


def parts(graph: BlockGraph, pieces: int) -> Ints:
    """The blocks as queues one after the other; the first ones have one block more where the
    lengths cannot be equal.

    METIS partitions the graph. Then blocks move from parts that are too large to those that are
    too small, first the blocks that share least with their own part. Inside a part, blocks are in
    the order of the spanning tree.
    """
    count, pieces = graph.count, max(1, min(pieces, graph.count))
    order = spanning_order(graph)
    when = np.empty(count, np.int64)
    when[order] = np.arange(count)
    part = _cut(graph, pieces)
    earliest = np.full(pieces, count, np.int64)
    np.minimum.at(earliest, part, when)
    number = np.empty(pieces, np.int64)
    number[np.argsort(earliest, kind="stable")] = np.arange(pieces)
    part = number[part]  # parts are numbered in the order in which the tree reaches them
    _even_out(graph, part, count // pieces + (np.arange(pieces) < count % pieces))
    return np.lexsort((when, part))


def _even_out(graph: BlockGraph, part: Ints, sizes: Ints) -> None:
    """Moves blocks until every part has its size."""
    have = np.bincount(part, minlength=len(sizes))
    rows = np.repeat(np.arange(graph.count), np.diff(graph.starts))
    inside = part[rows] == part[graph.neighbours]
    bound = np.bincount(rows[inside], graph.weights[inside], minlength=graph.count)
    loose: list[int] = []
    for p in np.flatnonzero(have > sizes):
        mine = np.flatnonzero(part == p)
        loose += mine[np.argsort(bound[mine], kind="stable")][: have[p] - sizes[p]].tolist()
    space = np.maximum(sizes - have, 0)
    for b in loose:
        near = slice(graph.starts[b], graph.starts[b + 1])
        shared = np.bincount(part[graph.neighbours[near]], graph.weights[near],
                             minlength=len(sizes))  # fmt: skip
        chosen = int(np.argmax(np.where(space > 0, shared + 1, 0)))
        part[b] = chosen
        space[chosen] -= 1


def bisected(graph: BlockGraph, most: int) -> Ints:
    """The blocks as the leaves of a tree of bisections, from left to right. A leaf has at most
    `most` blocks, in ascending order."""
    done: list[Ints] = []
    waiting: list[tuple[Ints, BlockGraph]] = [(np.arange(graph.count), graph)]
    while waiting:
        blocks, inner = waiting.pop()
        if len(blocks) <= most:
            done.append(blocks)
            continue
        side = _cut(inner, 2)
        if side.min() == side.max():
            side = np.arange(len(blocks)) * 2 // len(blocks)
        if side[0] == 1:  # the half with the lowest block comes first, which makes the cut unique
            side = 1 - side
        for half in (1, 0):
            kept = np.flatnonzero(side == half)
            waiting.append((blocks[kept], _within(inner, kept)))
    return np.concatenate(done) if done else np.zeros(0, np.int64)


def _within(graph: BlockGraph, kept: Ints) -> BlockGraph:
    """The subgraph of the `kept` blocks, which are in ascending order."""
    new = np.full(graph.count, -1, np.int64)
    new[kept] = np.arange(len(kept))
    begins, lengths = graph.starts[kept], np.diff(graph.starts)[kept]
    at = _ranges(begins, lengths)
    rows, targets = np.repeat(np.arange(len(kept)), lengths), new[graph.neighbours[at]]
    inside = targets >= 0
    starts = np.zeros(len(kept) + 1, np.int64)
    np.cumsum(np.bincount(rows[inside], minlength=len(kept)), out=starts[1:])
    return BlockGraph(len(kept), starts, targets[inside], graph.weights[at][inside])
