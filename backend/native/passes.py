"""Temporal blocking: which loops run several iterations in one pass over the rows of their arrays,
and in which blocks.

The operations of an iteration are kernels that compute their results row by row from rows at
constant distances (`skeletons/access/rows.py`).  What an operation reads determines how far it lags
behind earlier operations (`_lags`); the caches and the threads determine the number of iterations
of a pass (`_depth`).  passes.c runs them, and explains why concurrent blocks are independent.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import NamedTuple

from treadle.dsl.graph import ArrayLoop, Node, topological
from treadle.dsl.program import TracedProgram
from treadle.skeletons.access.rows import by_rows

from ..runtime.types import HostArray
from .runtime import machine, threads
from .runtime.late import Growing, Late
from .runtime.tape import Copy, Launch, Operation, Pass, Unit

#: The share of a core's private cache that the rows between the first and last iteration may take.
CACHE_SHARE = 0.5
#: Nanoseconds of work in a block of the longest operation.  (Each block is a call of a kernel,
#: about 50 ns.)
BLOCK_WORK = 500.0
#: Nanoseconds per copied byte.
COPY = 0.1
#: The maximum number of iterations in a pass, beyond which little is gained; and the maximum
#: nanoseconds of work per thread, because a pass does not handle signals.
MOST_ITERATIONS, MOST_WORK = 32, 2e9
#: The fraction of a chunk's rows that its open ends may take in the last iteration of a pass.
ENDS = 0.6
#: If the arrays fit into the cores' caches, a pass only saves barriers: it pays if the longest
#: operation takes at most this many nanoseconds per thread, from this many iterations on.
BRIEF, WORTH = 10_000.0, 4


def loops_by_rows(program: TracedProgram) -> dict[ArrayLoop, frozenset[Node]]:
    """The loops that may run in passes, with the operations of their iterations."""
    found: dict[ArrayLoop, frozenset[Node]] = {}
    waiting = [] if program.settings.check else list(topological(program.roots))
    for node in waiting:
        if isinstance(node, ArrayLoop) and node not in found:
            waiting += topological(node.body)
            found[node] = by_rows(node)
    return {loop: nodes for loop, nodes in found.items() if nodes}


class _Use(NamedTuple):
    """The rows x + `low` … x + `high` of an array that an operation touches for its row x; an
    `array` is the identity of its memory."""

    array: int
    low: int
    high: int
    written: bool


class _Rows(NamedTuple):
    """An operation of an iteration: it computes rows `first` to `end` − 1, each in `work`
    nanoseconds."""

    operation: Launch | Copy
    first: int
    end: int
    work: float
    uses: Sequence[_Use]
    wraps: bool


def pass_of(rest: Sequence[Operation], states: Sequence[HostArray], made: Sequence[HostArray],
            counter: HostArray | None) -> Pass | None:  # fmt: skip
    """How the iterations of a loop run in passes; None if they cannot, or if it would not pay.

    `rest`: the operations of an iteration; `states` and the next states `made` are arrays whose
    memory differs from iteration to iteration."""
    moving = {_memory(a) for a in (*states, *made)}
    operations = _by_rows(rest, moving, counter)
    kernels = [op.operation.rows for op in operations if isinstance(op.operation, Launch)]
    if not kernels:
        return None
    height = max(op.end for op in operations)
    wraps = any(op.wraps for op in operations)
    if wraps and any(_is_part(op, height) for op in operations):
        return None
    longest = max(operations, key=lambda op: op.work * (op.end - op.first))
    work = longest.work * (longest.end - longest.first)
    multiple = max(rows.multiple for rows in kernels if rows is not None)
    size = max(round(BLOCK_WORK / longest.work), 1)
    size = min(-(-size // multiple) * multiple, height)
    lags = _lags(operations, moving, size, wraps)
    blocks = -(-height // size)
    count = threads.thread_count() if work >= threads.BRIEF_WORK else 1
    arrays = {_memory(a): n for op in operations for a, n in _sizes(op.operation)
              if a is not counter}  # fmt: skip
    cache, total = machine.own_cache() * CACHE_SHARE, sum(arrays.values())
    depth = _depth(lags, blocks, count, cache * height / max(total * size, 1))
    depth = min(depth, int(MOST_WORK * count / sum(op.work * (op.end - op.first)
                                                   for op in operations)))  # fmt: skip
    brief = count > 1 and depth >= WORTH and work <= BRIEF * count
    if depth < 2 or (total <= cache * count and not brief):
        return None
    units = [
        _unit(op, size, counter, down, up)
        for op, down, up in zip(operations, lags.downs, lags.ups, strict=True)
    ]
    return Pass(units, depth, lags.down, lags.up, _bounds(blocks, count, lags, depth, wraps), wraps)


def _by_rows(rest: Sequence[Operation], moving: Collection[int], counter: HostArray | None
             ) -> list[_Rows]:  # fmt: skip
    """The operations by rows; none if one of them is not computed row by row."""
    written = set(moving)
    for op in rest:
        if isinstance(op, Launch) and op.rows is not None:
            found = zip(op.arrays, op.rows.touched, strict=True)
            written |= {_memory(a) for a, rows in found if rows is not None and rows[4]}
        elif isinstance(op, Copy):
            written.add(_memory(op.target))
    made: list[_Rows] = []
    axes: dict[object, int] = {}  # of arrays; of moving ones by shape: they change places
    for op in rest:
        if isinstance(op, Copy):
            if isinstance(op.target, Growing) or not op.target.ndim:
                return []
            for array in (op.target, op.source):
                key = _memory(array)
                if axes.setdefault(array.shape if key in moving else key, 0) != 0:
                    return []
            work = COPY * op.target.nbytes / max(op.target.shape[0], 1)
            uses = [_Use(_memory(op.target), 0, 0, True), _Use(_memory(op.source), 0, 0, False)]
            made.append(_Rows(op, 0, op.target.shape[0], work, uses, False))
            continue
        if not isinstance(op, Launch) or op.rows is None or op.in_order or op.errors is not None:
            return []
        if not isinstance(op.tasks, int) or any(isinstance(x, Late) for x in op.scalars):
            return []
        uses, wraps, first = [], False, op.rows.row
        for array, rows in zip(op.arrays, op.rows.touched, strict=True):
            if array is counter or (key := _memory(array)) not in written:
                continue
            if rows is None:
                return []
            low, high, around, axis, is_written = rows
            same = array.shape if key in moving else key
            if axes.setdefault(same, axis) != axis:
                return []
            uses.append(_Use(key, low, high, is_written))
            wraps |= around
        count = op.rows.extent // op.rows.unit
        work = op.tasks * op.task_work / max(count, 1)
        made.append(_Rows(op, first, first + count, work, uses, wraps))
    return made


def _is_part(op: _Rows, height: int) -> bool:
    """Whether an operation computes only some of the rows, and more than one."""
    one = isinstance(op.operation, Launch) and op.operation.rows and op.operation.rows.size < 0
    return not one and (op.first, op.end) != (0, height)


def _sizes(op: Launch | Copy) -> list[tuple[HostArray, int]]:
    """The arrays of an operation, with the bytes of which an iteration touches some."""
    if isinstance(op, Copy):
        return [(op.target, op.target.nbytes), (op.source, op.source.nbytes)]
    assert op.rows is not None
    axes = (0 if rows is None else rows[3] for rows in op.rows.touched)
    return [(a, a.nbytes // max(math.prod(a.shape[:axis]), 1))
            for a, axis in zip(op.arrays, axes, strict=True)]  # fmt: skip


def _memory(array: HostArray) -> int:
    """The identity of the memory behind an array, which views share."""
    base = array
    while base.base is not None and hasattr(base.base, "base"):
        base = base.base
    return id(base)


class _Lags(NamedTuple):
    """Distances in blocks: of each operation behind the first one, at both ends of a chunk, and of
    one iteration behind the previous one."""

    downs: list[int]
    ups: list[int]
    down: int
    up: int


def _lags(operations: Sequence[_Rows], moving: Collection[int], size: int, wraps: bool) -> _Lags:
    """The smallest lags that respect all dependences between rows: write after write, write after
    read, and read after write.

    Between two iterations, any two of the `moving` arrays may share memory."""
    count = len(operations)
    more = 1 if wraps else 0  # the last block may be a short one
    uses = [[u._replace(low=u.low + op.first % size, high=u.high + op.first % size)
             for u in op.uses] for op in operations]  # fmt: skip

    def apart(first: int, second: int, above: bool, later: bool) -> int | None:
        """The number of blocks by which `second` must lag behind `first`; `later`: it belongs to a
        later iteration."""
        found = [
            -(-(a.high - b.low if above else b.high - a.low) // size) + more
            for a in uses[first] for b in uses[second]
            if (a.written or b.written)
            and (a.array == b.array or (later and a.array in moving and b.array in moving))
        ]  # fmt: skip
        return max(found, default=None)

    def within(above: bool) -> list[int]:
        found: list[int] = []
        for k in range(count):
            waits = ((apart(j, k, above, False), found[j]) for j in range(k))
            found.append(max((0, *(n + lag for n, lag in waits if n is not None))))
        return found

    def following(lags: Sequence[int], above: bool) -> int:
        pairs = ((apart(j, k, above, True), lags[j] - lags[k])
                 for j in range(count) for k in range(count))  # fmt: skip
        return max((0, *(n + lag for n, lag in pairs if n is not None)))

    downs, ups = within(False), within(True)
    return _Lags(downs, ups, following(downs, False), following(ups, True))


def _depth(lags: _Lags, blocks: int, count: int, cached: float) -> int:
    """The iterations of a pass that `count` threads share; `cached`: how many blocks of all arrays
    fit into a core's cache."""
    within = (cached - max(lags.downs) - 2) / max(lags.down, 1)
    depth = max(min(int(within), MOST_ITERATIONS), 0)
    if count < 2:
        return depth
    ends, each = max(lags.downs) + max(lags.ups), lags.down + lags.up
    chunk = blocks / count * ENDS
    return min(depth, int((chunk - ends) / max(each, 1)) + 1)


def _bounds(blocks: int, count: int, lags: _Lags, depth: int, wraps: bool) -> list[int]:
    """The first blocks of the chunks, and the end.  Outer chunks have only one open end, and fewer
    blocks, so that all chunks take the same time."""
    if wraps or count < 3:
        return [blocks * k // count for k in range(count + 1)]
    spared = (depth - 1) * (lags.down + lags.up) / 4
    width = (blocks + 2 * spared) / count
    middle = [round(k * width - spared) for k in range(1, count)]
    return [0, *middle, blocks]


def _unit(op: _Rows, size: int, counter: HostArray | None, down: int, up: int) -> Unit:
    made, first = op.operation, op.first // size
    if isinstance(made, Copy):
        return Unit(made, -1, first, -(-op.end // size), size, down, up)
    rows = made.rows
    assert rows is not None and made.regular is not None and isinstance(made.tasks, int)
    blocks, each, scalars = 1, made.tasks, list(made.scalars)
    if rows.size >= 0:
        natural, entries = scalars[rows.size], size * rows.unit
        assert isinstance(natural, int)
        each = made.tasks // -(-rows.extent // natural)
        blocks = -(-rows.extent // entries)
        scalars[rows.size] = entries
    launch = made._replace(compiled=made.regular(), scalars=tuple(scalars), tasks=blocks * each)
    where = [k for k, a in enumerate(made.arrays) if a is counter]
    assert len(where) <= 1
    return Unit(launch, where[0] if where else -1, first, blocks, each, down, up)
