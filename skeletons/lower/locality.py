"""`LocalityGraph`: from the reads of an operation to the order in which its blocks are queued.

    lines_of        the 128-byte lines that each block reads: from affine index maps (boxes of
                    indices, without enumerating elements), or element by element where NumPy can
                    compute the indices, from the contents of index arrays if they depend on data
    queues          graph of shared lines → order of the blocks, cut into queues of equal size
    queue_table     the same as a table that the host fills before a launch

The graph considers reads only (blocks that write a common line do not wait for each other), except
that the target of a permute, which is read where it is written, counts as read.  Indices outside an
array are clamped.
"""

from __future__ import annotations

import functools
import hashlib
import math
import time
import weakref
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from treadle.dsl.expr import Apply, Const, Expr, Extent, Index, Loop, Param, Read, Var, walk
from treadle.dsl.graph import Generate, Input, Leaf, Node, Permute, Shape, topological
from treadle.dsl.graphs.names import Names, evaluate
from treadle.dsl.process import locks
from treadle.dsl.process.recent import Recent
from treadle.dsl.program import TracedProgram
from treadle.dsl.records import dataclass
from treadle.dsl.text import duration

from ..access.maps import AFFINE, Map, counters, index_map, kernel_maps
from ..ir.kernel import Buffer, HostTable
from ..schedules import LocalityGraph, Resolved, ScheduleError, ScheduleLike, as_schedule, sharing
from ..schedules.layers import METHODS

Ints = NDArray[np.int64]

#: Nodes whose blocks are independent of each other.
Blocked: TypeAlias = Generate | Permute

#: Bytes of a cache line.
LINE = 128
#: The bisection stops at as many blocks as a multiprocessor runs concurrently (2048 threads).
RESIDENT_THREADS = 2048
#: The number of orders cached per operation, one for each combination of extents and contents, and
#: of graphs, which all methods share and which live no longer than their expressions.
_KEPT, _GRAPHS_KEPT = 8, 2
#: Indices computed at a time.
_BATCH = 1 << 20


#: Graphs with the seconds they took, keyed by the expressions (by identity, held weakly) and
#: extents they were made from.
_GRAPHS = Recent[Hashable, tuple[sharing.BlockGraph, float, list[weakref.ref[Expr]]]](_GRAPHS_KEPT)
_GRAPHS_LOCK = locks.lock()
_LAST: list[weakref.ref[Queues]] = []
#: The latest queues of each operation.
_PREPARED: weakref.WeakKeyDictionary[Node, Queues] = weakref.WeakKeyDictionary()


def prepared(node: Node) -> str:
    """The result and duration of the last preprocessing for an operation, in words."""
    found = _PREPARED.get(node)
    return "made at the first call for any extents" if found is None else str(found)


def last_used() -> Queues | None:
    """The queues of the latest launch under a `LocalityGraph`, or None.  For studies."""
    return _LAST[0]() if _LAST else None


@dataclass(frozen=True)
class Queues:
    """`order`: every block once, queue after queue (`agents.agents` derives the queues' lengths).

    `graph_seconds` and `order_seconds`: the preprocessing time.
    """

    order: Ints
    blocks: int
    edges: int
    graph_seconds: float
    order_seconds: float

    @property
    def seconds(self) -> float:
        return self.graph_seconds + self.order_seconds

    def __str__(self) -> str:
        return (
            f"{self.blocks:,} blocks, {self.edges:,} pairs of them share lines; "
            f"graph {duration(self.graph_seconds)}, order {duration(self.order_seconds)}"
        )


def queues(graph: sharing.BlockGraph, method: str, count: int, resident: int, graph_seconds: float
           ) -> Queues:  # fmt: skip
    """The blocks in the order of `count` queues; a multiprocessor runs `resident` at once."""
    begin = time.perf_counter()
    if method == "mst":
        order = sharing.spanning_order(graph)
    elif method == "kway":
        order = sharing.parts(graph, count)
    else:
        order = sharing.bisected(graph, max(resident, 1))
    seconds = time.perf_counter() - begin
    return Queues(order, graph.count, graph.edges, graph_seconds, seconds)


@functools.lru_cache(maxsize=len(METHODS))
def ready(method: str) -> None:
    """Import the modules of a method, so that preprocessing times exclude imports."""
    two = sharing.Footprints(*np.array([[0, 0], [0, 1], [0, 1]]))
    queues(sharing.block_graph(2, [two]), method, 2, 1, 0.0)


# --- what blocks read ----------------------------------------------------------------------------


def domain_of(node: Blocked) -> Shape:
    """The extents of the domain that is assigned to blocks."""
    return node.domain if isinstance(node, Permute) else node.shape


def _roots(node: Blocked) -> tuple[Expr, ...]:
    """The reads of an element, for a permute including the target elements that it updates."""
    if not isinstance(node, Permute):
        return node.elements
    updated = (Read(d.node, d.component, node.target) for d in node.defaults)
    return (node.valid, *node.values, *updated)


def lines_of(node: Blocked, plan: Resolved, known: Mapping[Expr, int],
             contents: Mapping[Leaf, Any]) -> tuple[int, list[sharing.Footprints]]:  # fmt: skip
    """The number of blocks of `plan`, and for every array the lines that each block reads.

    `known`: values of Extent and Param; `contents`: the arrays that indices depend on.  Reads whose
    indices depend on other arrays, or on a loop without a known count, are omitted (`unseen`).
    """
    found = kernel_maps(node, known)
    assert found is not None, "the extents of the domain are known"
    shape = found.outputs
    grid = tuple(int(n) for n in plan.grid(shape))
    count = int(plan.order.linear_size(grid))
    ids = np.arange(count, dtype=np.int64)
    positions = plan.order.coordinates(ids, grid)
    first = np.stack([np.broadcast_to(p, (count,)) for p in positions], 1) * np.array(plan.unit)
    exists = ((first >= 0) & (first < np.array(shape))).all(1)
    last = np.minimum(first + np.array(plan.unit), np.array(shape)) - 1
    maps = found.maps if isinstance(node, Permute) else found.reads
    affine = [m for m in maps if m.kind == "affine" and m.shape and 0 not in m.shape]
    lines = [_by_boxes(m, first, last, exists, found.inner) for m in affine]
    placed = [read for read in _placed_reads(node) if _needed(read) <= set(contents)]
    if placed:
        blocks = _elements(first, last, exists, plan.unit)
        for read in placed:
            lines.append(_by_indices(read, node, blocks, first, last, found.inner, known, contents))
    return count, lines


def _by_boxes(
    m: Map, first: Ints, last: Ints, exists: Ints, inner: Sequence[int]
) -> sharing.Footprints:
    """The lines of an affine read, which maps boxes to boxes; equal boxes are visited once."""
    c = np.array(m.coefficients, np.int64).reshape(len(m.shape), -1)
    low_in = np.concatenate((first, np.zeros((len(first), len(inner)), np.int64)), 1)
    ends = np.maximum(np.array(inner, np.int64) - 1, 0).reshape(1, -1)
    high_in = np.concatenate((last, np.repeat(ends, len(last), 0)), 1)
    offsets = np.array(m.offsets, np.int64).reshape(-1, len(m.shape))
    up, down = np.maximum(c, 0).T, np.minimum(c, 0).T
    low = low_in @ up + high_in @ down + offsets.min(0)
    high = high_in @ up + low_in @ down + offsets.max(0)
    edge = np.array(m.shape) - 1
    boxes = np.concatenate((np.clip(low, 0, edge), np.clip(high, 0, edge)), 1)
    boxes[~exists] = -1  # an owner without lines
    distinct, owner = np.unique(boxes, axis=0, return_inverse=True)
    lines, owners = _lines_of_boxes(m, distinct)
    return sharing.Footprints(lines, owners, owner.reshape(-1).astype(np.int64))


def _lines_of_boxes(m: Map, boxes: Ints) -> tuple[Ints, Ints]:
    """The lines that boxes of indices touch, row by row, as distinct pairs (line, box)."""
    rank = len(m.shape)
    low, high = boxes[:, :rank], boxes[:, rank:]
    pitch = np.array(m.pitch, np.int64)
    lengths = np.where(low[:, 0] < 0, 0, np.prod(high[:, :-1] - low[:, :-1] + 1, axis=1))
    owners = np.repeat(np.arange(len(boxes)), lengths)
    ends = np.cumsum(lengths)
    rest = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - lengths, lengths)
    start = np.zeros(len(rest), np.int64)
    for axis in range(rank - 2, -1, -1):
        extent = (high[:, axis] - low[:, axis] + 1)[owners]
        start += (low[owners, axis] + rest % extent) * pitch[axis]
        rest //= extent
    begin = (start + low[owners, -1]) * m.element // LINE
    end = ((start + high[owners, -1]) * m.element + m.element - 1) // LINE
    counts = end - begin + 1
    stops = np.cumsum(counts)
    within = np.arange(int(stops[-1]) if len(stops) else 0) - np.repeat(stops - counts, counts)
    return _distinct(np.repeat(begin, counts) + within, np.repeat(owners, counts))


def _distinct(lines: Ints, owners: Ints) -> tuple[Ints, Ints]:
    if not len(lines):
        return lines, owners
    span = int(lines.max()) + 1
    keys = np.unique(owners * span + lines)
    return keys % span, keys // span


def _elements(first: Ints, last: Ints, exists: Ints, unit: Sequence[int]) -> tuple[Ints, Ints]:
    """The elements of all blocks, and the block of each."""
    inside = np.stack(np.meshgrid(*map(np.arange, unit), indexing="ij"), -1).reshape(-1, len(unit))
    points = first[:, None, :] + inside[None, :, :]
    kept = (points <= last[:, None, :]).all(2) & exists[:, None]
    return points[kept], np.nonzero(kept)[0]


def _by_indices(read: Read, node: Blocked, blocks: tuple[Ints, Ints], first: Ints, last: Ints,
               inner: Sequence[int], known: Mapping[Expr, int], contents: Mapping[Leaf, Any]
               ) -> sharing.Footprints:  # fmt: skip
    """Lines of a read whose indices NumPy computes, for all elements and all loop iterations.

    Axes and loops on which the indices do not depend stay at their first value.  An axis that
    follows a row of the array is sampled once per cache line.
    """
    points, block = blocks
    used = {e for e in walk(read.args)}
    along = read.args[-1]
    steps = max(LINE // Leaf(read.node, read.component).type.bytes, 1)
    for k in range(points.shape[1]):
        offset = points[:, k] - first[block, k]
        if Index(k) not in used:
            kept = offset == 0
        elif along is Index(k) and not any(along in walk((a,)) for a in read.args[:-1]):
            # Along a row, one element per cache line, and the last element, touch every line.
            kept = (offset % steps == 0) | (points[:, k] == last[block, k])
        else:
            continue
        points, block = points[kept], block[kept]
    counts = [n if v in used else min(n, 1) for v, n in zip(_loops(node), inner, strict=True)]
    coordinates = np.zeros((1, 0), np.int64)
    if counts:
        coordinates = np.stack(np.unravel_index(np.arange(math.prod(counts)), tuple(counts)), 1)
    found: list[tuple[Ints, Ints]] = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
    step = max(_BATCH // max(len(points), 1), 1)
    for k in range(0, len(coordinates), step):
        some = coordinates[k : k + step]
        # Neighbouring elements in sequence: most share the line of their predecessor.
        again = np.tile(points, (len(some), 1)), np.repeat(some, len(points), 0)
        at = _looked_up(read, np.concatenate(again, 1), node, known, contents) // LINE
        mine = np.tile(block, len(some))
        new = np.ones(len(at), np.bool_)
        new[1:] = (at[1:] != at[:-1]) | (mine[1:] != mine[:-1])
        found.append(_distinct(at[new], mine[new]))
    lines, owners = (np.concatenate(x) for x in zip(*found, strict=True))
    return sharing.Footprints(*_distinct(lines, owners), np.arange(len(first), dtype=np.int64))


# --- indices that are not affine -----------------------------------------------------------------


def _placed_reads(node: Blocked) -> list[Read]:
    """Reads at indices that are not affine but computable from indices and array contents."""
    counting = counters(_roots(node))
    return [e for e in walk(_roots(node)) if isinstance(e, Read) and e.args
            and index_map(e.args, counting)[0] != AFFINE and _followed(e, node)]  # fmt: skip


def _loops(node: Blocked) -> list[Var]:
    """The variables of counted loops, in the order of the analysis."""
    return list(dict.fromkeys(e.vars[0] for e in walk(_roots(node)) if isinstance(e, Loop)))


def _inner_reads(read: Read) -> list[Read]:
    return [e for e in walk(read.args) if isinstance(e, Read)]


def _followed(read: Read, node: Blocked) -> bool:
    """Whether NumPy can compute the indices of a read (`_looked_up`)."""
    counted = _loops(node)
    known = Const | Apply | Read | Index | Extent | Param
    return all(isinstance(e, known) or e in counted for e in walk(read.args))


def _needed(read: Read) -> set[Leaf]:
    return {Leaf(e.node, e.component) for e in _inner_reads(read)}


def unseen(node: Blocked) -> list[Leaf]:
    """Arrays read at indices unknown before the launch, which the graph omits."""
    seen = {Leaf(e.node, e.component) for e in _placed_reads(node)}
    data = {Leaf(e.node, e.component): None for e in walk(_roots(node))
            if isinstance(e, Read) and e.args and _inner_reads(e)}  # fmt: skip
    return [leaf for leaf in data if leaf not in seen]


def _looked_up(read: Read, points: Ints, node: Blocked, known: Mapping[Expr, int],
               contents: Mapping[Leaf, Any]) -> Ints:  # fmt: skip
    """Byte addresses of a read at points (outputs and loop iterations), by NumPy."""
    rank = len(domain_of(node))
    here: dict[Expr, Any] = {Index(k): points[:, k] for k in range(rank)}
    here.update({v: points[:, rank + k] for k, v in enumerate(_loops(node))})
    for e in walk(read.args):
        if e in here:
            continue
        if isinstance(e, Const):
            here[e] = e.value
        elif isinstance(e, Apply):
            here[e] = e.value([here[a] for a in e.args])
        elif isinstance(e, Read):
            array = np.asarray(contents[Leaf(e.node, e.component)])
            index = tuple(np.clip(here[a], 0, n - 1)
                          for a, n in zip(e.args, array.shape, strict=True))  # fmt: skip
            here[e] = array[index]
        else:
            here[e] = known[e]
    leaf = Leaf(read.node, read.component)
    at = np.zeros(len(points), np.int64)
    for a, extent in zip(read.args, leaf.shape, strict=True):
        n = _value(extent, known)
        at = at * n + np.clip(np.broadcast_to(here[a], (len(points),)), 0, max(n - 1, 0))
    return at * leaf.type.bytes


def _value(e: Expr, known: Mapping[Expr, int]) -> int:
    found = evaluate(e, known)
    assert found is not None, e
    return int(found)


# --- tables for launches -------------------------------------------------------------------------


class QueueMaker:
    """`HostTable.make` of a `LocalityGraph`, with a cache of the queues it made."""

    def __init__(self, node: Blocked, plan: Resolved, layer: LocalityGraph, count: int,
                 known: Sequence[Expr], arrays: Sequence[Leaf]) -> None:  # fmt: skip
        self.node, self.plan, self.layer, self.count = node, plan, layer, count
        self.known, self.arrays = tuple(known), tuple(arrays)
        self._made = Recent[Hashable, Queues](_KEPT)
        self._lock = locks.lock()

    def __call__(self, values: Sequence[Any], contents: Sequence[Any]) -> Any:
        """int32, one for each block."""
        return self.queues(values, contents).order.astype(np.int32)

    def queues(self, values: Sequence[Any], contents: Sequence[Any]) -> Queues:
        """The queues for values of `known` and contents of `arrays`, made once for equal ones."""
        digests = tuple(hashlib.blake2b(np.ascontiguousarray(a).data).digest() for a in contents)
        numbers = tuple(int(v) for v in values)
        key = (numbers, digests)
        with self._lock:
            found = self._made.made(key, lambda: self._make(numbers, contents, digests))
            _PREPARED[self.node] = found
            _LAST[:] = [weakref.ref(found)]
        return found

    def _make(self, values: Sequence[int], contents: Sequence[Any], digests: Sequence[bytes]
              ) -> Queues:  # fmt: skip
        ready(self.layer.method)
        graph, seconds = self._graph(values, contents, digests)
        threads = max(math.prod(self.plan.unit) // math.prod(self.plan.per_thread), 32)
        resident = max(1, RESIDENT_THREADS // threads)
        return queues(graph, self.layer.method, self.count, resident, seconds)

    def _graph(self, values: Sequence[int], contents: Sequence[Any], digests: Sequence[bytes]
               ) -> tuple[sharing.BlockGraph, float]:  # fmt: skip
        """The graph and the seconds it took; kept for the other methods."""
        plan, of = self.plan, (*domain_of(self.node), *_roots(self.node), *self.known)
        key = (tuple(map(id, of)), plan.order, plan.unit, tuple(values), tuple(digests))
        with _GRAPHS_LOCK:
            if key in _GRAPHS:
                _GRAPHS.move_to_end(key)
                return _GRAPHS[key][:2]
        begin = time.perf_counter()
        known = dict(zip(self.known, values, strict=True))
        known_contents = dict(zip(self.arrays, contents, strict=True))
        known_contents.update(_constants(self.node))
        graph = sharing.block_graph(*lines_of(self.node, plan, known, known_contents))
        seconds = time.perf_counter() - begin
        gone = [weakref.ref(e, lambda _: _GRAPHS.pop(key, None)) for e in of]
        with _GRAPHS_LOCK:
            _GRAPHS[key] = graph, seconds, gone
        return graph, seconds


def _constants(node: Blocked) -> dict[Leaf, Any]:
    """Those arrays that indices depend on which are constants of the program."""
    found: dict[Leaf, Any] = {}
    for read in _placed_reads(node):
        for leaf in _needed(read):
            if isinstance(leaf.node, Input) and leaf.node.source is not None:
                found[leaf] = leaf.node.source
    return found


def queues_of(
    program: TracedProgram,
    schedule: ScheduleLike,
    count: int,
    arrays: Sequence[Any] = (),
    kernel: str | None = None,
) -> Queues:
    """The queues of a `LocalityGraph` for one kernel of a program; nothing is run.

    program: `td.jit(f).lower(*args)`; schedule: contains a `LocalityGraph`; count: the number of
    queues; arrays: the arguments, if indices depend on data; kernel: the name of the operation if
    there are several.  Errors: `ScheduleError` if there is no such kernel of independent elements,
    or no graph.
    """
    layers = as_schedule(schedule)
    if not isinstance(layers.residency, LocalityGraph):
        raise ScheduleError(f"{schedule!r} has no LocalityGraph.",
                            hint=f"Write {schedule!r} | LocalityGraph().")  # fmt: skip
    found = [n for n in topological(program.roots) if isinstance(n, Blocked) and domain_of(n)
             and kernel in (None, n.label.name, n.label.operation)]  # fmt: skip
    if len(found) != 1:
        names = ", ".join(str(n.label) for n in found) or "none"
        raise ScheduleError(f"there are {len(found)} kernels that could be meant: {names}.",
                            hint="Say which by kernel=…; operations take a name=.")  # fmt: skip
    (node,) = found
    plan = layers.resolve(len(domain_of(node)))
    known = Names(program).known
    given = {
        Leaf(contents, 0): np.asarray(a)
        for contents, a in zip(program.inputs, arrays, strict=False)
    }
    maker = QueueMaker(node, plan, layers.residency, count, tuple(known), tuple(given))
    return maker.queues(tuple(known.values()), tuple(given.values()))


def queue_table(node: Blocked, plan: Resolved, layer: LocalityGraph, count: int, table: Buffer
                ) -> HostTable:  # fmt: skip
    """`table`, filled with the blocks of `plan` in the order of `count` queues."""
    if layer.method != "mst":
        sharing.metis()
    roots = _roots(node)
    reads = [e for e in walk(roots) if isinstance(e, Read)]
    # Extents are known too: the extents of a filter are array contents.
    extents = [*domain_of(node), *(n for r in reads for n in Leaf(r.node, r.component).shape)]
    known = dict.fromkeys(e for e in extents if not isinstance(e, Const))
    known.update((e, None) for e in walk((*roots, *extents)) if isinstance(e, Extent)
                 or (isinstance(e, Param) and e.type.is_integer))  # fmt: skip
    brought = _constants(node)
    needed = {leaf: None for r in _placed_reads(node) for leaf in sorted(_needed(r), key=repr)}
    arrays = [leaf for leaf in needed if leaf not in brought]
    maker = QueueMaker(node, plan, layer, count, tuple(known), arrays)
    return HostTable(table, tuple(known), tuple(arrays), maker)
