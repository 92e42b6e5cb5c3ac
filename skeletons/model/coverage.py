"""How kernels cover a domain under a schedule: units in an order, and threads within them.

`form_of` counts what a kernel does without an order: it lowers the node, once for all extents, and
evaluates where a block or a task stores (`../ir/counts.py`).  Candidate orders are not lowered,
which would take 1 to 50 ms each; they are resolved to units by the same `Resolved` that the
lowerings use.

A `Walk` is a schedule as boxes of outputs, in visiting order.  A range of consecutive ids is cut
into chunks, and a chunk becomes the bounding box of a few of its points: exact for runs, columns
and tiles whose lengths divide the chunk, an estimate for others.  The NumPy evaluation of the order
locates the points.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from treadle.dsl.graph import Node, Permute
from treadle.dsl.process.locks import cached
from treadle.dsl.target import CUDA, NATIVE
from treadle.skeletons.schedules import (
    Clusters,
    Hilbert,
    Morton,
    Order,
    PlaneOrder,
    Resolved,
    Row,
    Schedule,
    as_schedule,
)
from treadle.skeletons.schedules.resolved import block_table

from ..access.footprint import with_inner
from ..access.maps import DATA, KernelMaps, Map, Points
from ..ir.counts import Launch, Stored, launched
from ..lower import tiling
from ..lower.gpu import orders
from ..lower.gpu.common import THREADS, threads_for
from ..lower.gpu.unroll import REGISTERS
from ..lower.lower import LoweringContext, untidied
from .device import Ceilings

_SLOTS = json.loads((Path(__file__).parent / "index_sm90.json").read_text(encoding="utf-8"))
#: Issue slots for the index arithmetic of a thread's outputs, by order: for orders of elements, for
#: orders of blocks, and on a CPU, which uses 64 bits.
INDEX: dict[str, int] = _SLOTS["elements"]
BLOCK_INDEX: dict[str, int] = _SLOTS["blocks"]
CPU_INDEX: dict[str, int] = INDEX | _SLOTS["elements in 64 bits"]
#: Issue slots for the index arithmetic of a user-defined order, and of rows in sequence; and extra
#: slots for a curve on a line, some of whose ids are beyond the end.
OWN_INDEX, ROWS_INDEX, BEYOND = 75, 12, 2
#: Where warps are sampled, as fractions of the domain: not at its edges.
POSITIONS = (0.371, 0.537, 0.713)
#: Extra slots if a GPU looks up the next block, beyond those of the row order; and if blocks come
#: in clusters, in which a block has to find its position (14 instructions counted).
LOOK_UP, IN_CLUSTER = 6, 13
#: Extra slots for every axis beyond two (one more division: 10 instructions counted).
ANOTHER_AXIS = 18
#: The most resident blocks of a multiprocessor.
RESIDENT_BLOCKS = 32
#: Extra slots for the index of an element of a permute in an order; twice that with blocks.
VISIT_INDEX = 8
#: Points sampled in a chunk.
SAMPLES = 5
#: Points sampled in a chunk of an order without runs.
CURVE = 33
#: How often a chunk whose box does not fit is split into four; the tolerated error factor.
SPLITS, MOST = 4, 1.3
#: The most chunks that are split: a user-defined order may have no boxes.
BOXES = 1024
#: Ids of an order that are sampled for those inside the domain.
LOOKS = 1024
#: The number of chunks that a long range of ids is cut into.
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
        return tuple(-(-n // u) for n, u in zip(self.domain, self.unit, strict=True))

    @cached
    def size(self) -> int:
        """The number of ids, including those outside the domain."""
        return math.prod(self.grid) if self.table else int(self.order.linear_size(self.grid))

    @property
    def inside(self) -> int:
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


def points_of(low: Points, high: Points) -> Points:
    sides = [np.arange(a, b) for a, b in zip(low, high, strict=True)]
    grid = np.meshgrid(*sides, indexing="ij")
    return np.stack(grid, -1).reshape(-1, len(sides)).astype(np.int64)


# --- forms ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Form:
    """How a lowering covers a domain: units in an order, threads (lanes) within them.

    `ids`: units of one block or task; `patch`: outputs of a thread along every axis; `sharing`:
    those of them that share loaded values; `block`: at block grain; `staged`: transposing reads go
    through shared memory, or through tiles in a core's caches.  `following`: a rectangle of outputs
    that consecutive lanes compute.  `fit`: the most resident blocks of a multiprocessor; `stay`:
    they are persistent.  `looked_up`: a block first loads its position from a table.
    """

    walk: Walk
    ids: int
    threads: int
    patch: tuple[int, ...]
    block: bool
    lanes: int
    staged: bool
    index: float
    sharing: tuple[int, ...]
    following: tuple[int, ...] = ()
    fit: int = 32
    stay: bool = False
    looked_up: bool = False


def form_of(kernel: KernelMaps, schedule: Schedule | None, device: Ceilings) -> Form:
    """How the kernels of a node cover its domain under a schedule, or without one."""
    given = None if schedule is None else as_schedule(schedule)
    if kernel.size <= 1:  # one output has no order
        given = None
    key = (kernel.outputs, given, device)
    found: Form | None = kernel.memo.get(key)
    if found is None:
        found = kernel.memo[key] = _form(kernel, given, device)
    return found


def _form(kernel: KernelMaps, schedule: Schedule | None, device: Ceilings) -> Form:
    rank, permute = len(kernel.outputs), isinstance(kernel.node, Permute)
    if device.gpu:
        plan = orders.resolved(schedule, rank)
        if permute:
            return _visits(kernel, plan, device)
        if plan is not None and schedule is not None and not _by_rows(plan):
            return _on_gpu(kernel, plan, schedule)
        return _counted(kernel, schedule, device)
    plan = tiling.resolved(schedule, rank, outputs=permute)
    if plan is not None:
        return _on_cpu(kernel, plan, schedule, device)
    return _tasks_of_permute(kernel, device) if permute else _counted(kernel, schedule, device)


def _by_rows(plan: Resolved) -> bool:
    """Whether a plan only sets the number of elements per thread, so that kernels use a tiling."""
    return plan.grain == "thread" and type(plan.order) is Row


def _slots(kernel: KernelMaps, plan: Resolved, slots: dict[str, int]) -> float:
    """Issue slots for the index arithmetic of an order."""
    rank, order = len(kernel.outputs), plan.order
    name = type(order).__name__
    if rank == 1 and isinstance(order, PlaneOrder):
        name = "Row"  # on one axis these orders coincide
    elif plan.grain == "block" and getattr(order, "width", 0) == 1:
        name = "Row"  # columns of one block: one division less
    return slots.get(name, OWN_INDEX) + BEYOND * (rank == 1 and isinstance(order, Morton | Hilbert))


# --- counted from kernels ------------------------------------------------------------------------


def launch_of(kernel: KernelMaps, schedule: Schedule | None, device: Ceilings) -> Launch:
    """The first kernel that is launched for a node under a schedule, or without one."""
    lowered = kernel.lowerings.get((schedule, device))
    if lowered is None:
        lowered = untidied(*lowering_of(kernel.node, schedule, device))
        kernel.lowerings[schedule, device] = lowered
    return launched(lowered, kernel.known)


def lowering_of(node: Node, schedule: Schedule | None, device: Ceilings
                ) -> tuple[Any, LoweringContext]:  # fmt: skip
    """The inputs of the lowering to count under a schedule, which overrides that of the node's
    label.  A residency is left out: it only affects which units the model considers shared."""
    if schedule is not None:
        schedule = replace(schedule, residency=None, hints=None)
    if node.label.schedule is not None:
        node = node.with_(label=replace(node.label, schedule=None))
    target = CUDA if device.gpu else NATIVE
    return node, LoweringContext(target, threads=device.units, schedule=schedule)


def _counted(kernel: KernelMaps, schedule: Schedule | None, device: Ceilings) -> Form:
    """The form without an order: what a block or task, and a thread, stores, in row order."""
    launch = launch_of(kernel, schedule, device)
    stored = _inside(launch.fullest(), math.prod(kernel.outputs))
    threads, roles = launch.kernel.threads, {b.role for b in launch.kernel.buffers}
    if not stored:
        return _uncounted(kernel, threads or 1)
    if not threads:
        return _per_task(kernel, stored, "local" in roles)
    return _per_block(kernel, stored, threads, "shared" in roles)


def _uncounted(kernel: KernelMaps, threads: int) -> Form:
    """The form if no store could be counted, as for a block whose position is unknown: one unit."""
    domain, rank = kernel.outputs, len(kernel.outputs)
    one = (1,) * rank
    walk = Walk(domain, Row(), domain)
    return Form(walk, 1, threads, one, True, rank - 1, False, ROWS_INDEX, one)


def _inside(stored: Sequence[Stored], size: int) -> list[Stored]:
    """The stores, restricted to indices inside the domain: indices beyond it occur because
    conditions on data or on unknown values count as true."""
    found = []
    for s in stored:
        exists = s.exists & (s.index < size)
        if not exists.any():
            continue
        whole = exists.sum() == s.exists.sum()
        found.append(s if whole else replace(s, exists=exists, count=min(s.count, size)))
    return found


def _per_task(kernel: KernelMaps, stored: Sequence[Stored], staged: bool) -> Form:
    domain, rank = kernel.outputs, len(kernel.outputs)
    main = max(stored, key=lambda s: s.count)
    unit, jammed = _box(stored, domain)[0], 1 if staged else main.jammed
    if len(stored) == len(main.loops) == 1 and main.count < math.prod(unit):
        # A run of positions that ends within a row: about so many rows.
        rows = max(main.count // domain[-1], 1)
        unit = (*(1,) * (rank - 2), rows, min(main.count, domain[-1]))[-rank:]
    patch = tuple(jammed if k == rank - 2 else 1 for k in range(rank))
    return Form(Walk(domain, Row(), unit), 1, 1, patch, True, rank - 1, staged, ROWS_INDEX, patch)


def _per_block(kernel: KernelMaps, stored: Sequence[Stored], threads: int, staged: bool) -> Form:
    domain, rank = kernel.outputs, len(kernel.outputs)
    unit, together = _box(stored, domain)
    busiest = int(np.sum([s.exists.sum(1) for s in stored], 0).argmax())
    _, own = _box([s.of_thread(busiest) for s in stored], domain)
    patch = tuple(len(np.unique(own[:, k])) for k in range(rank))
    rectangle = math.prod(np.ptp(own, 0) + 1) == len(own)
    wide = (*(1,) * (rank - 1), min(_consecutive(own), domain[-1]))
    sharing = (1,) * rank if staged else patch if rectangle else wide
    registers = 32 + (math.prod(patch) - 1) * kernel.state // 4
    fit = max(REGISTERS // (registers * threads), 1)
    in_rows = not staged and (not rectangle or max(patch[:-1], default=1) == 1)
    if (in_rows and _run(together, domain)) or math.prod(unit) != len(together):
        patch = wide if in_rows else patch
        ids = max(len(together) // math.prod(patch), 1)
        return Form(Walk(domain, Row(), patch), ids, threads, patch, False, rank - 1, False,
                    INDEX["Row"], patch, (), fit)  # fmt: skip
    # Loops that are jammed are lowered as blocks in the row order, others have a simpler index.
    index = BLOCK_INDEX["Row"] if kernel.inner else ROWS_INDEX
    return Form(Walk(domain, Row(), unit), 1, threads, patch, True, rank - 1, staged, index,
                sharing, (), fit)  # fmt: skip


def _box(stored: Sequence[Stored], domain: tuple[int, ...]) -> tuple[tuple[int, ...], Points]:
    """The sides of the box around what is stored, and its points in row-major order."""
    positions = np.unique(np.concatenate([s.positions for s in stored]))
    positions = positions[positions < math.prod(domain)]  # (the last vector may be a part)
    points = np.stack(np.unravel_index(positions, domain), -1)
    return tuple(int(n) + 1 for n in np.ptp(points, 0)), points


def _consecutive(points: Points) -> int:
    """The number of points, from the first, that are consecutive along the last axis."""
    steps = np.diff(points, axis=0)
    ends = np.flatnonzero((steps[:, -1] != 1) | steps[:, :-1].any(1))
    return int(ends[0]) + 1 if len(ends) else len(points)


def _run(points: Points, domain: tuple[int, ...]) -> bool:
    """Whether points are consecutive in row-major order."""
    first, last = np.ravel_multi_index(tuple(points[[0, -1]].T), domain)
    return int(last - first) + 1 == len(points)


def _tasks_of_permute(kernel: KernelMaps, device: Ceilings) -> Form:
    """A permute on a CPU: tasks are runs of the source."""
    rank, domain = len(kernel.outputs), kernel.outputs
    each = max(kernel.size // launch_of(kernel, None, device).tasks, 1)
    unit = (*(1,) * (rank - 2), max(each // domain[-1], 1), min(each, domain[-1]))[-rank:]
    ones = (1,) * rank
    return Form(Walk(domain, Row(), unit), 1, 1, ones, True, rank - 1, False, ROWS_INDEX, ones)


# --- under an order ----------------------------------------------------------------------------


def _on_cpu(kernel: KernelMaps, plan: Resolved, schedule: Schedule | None, device: Ceilings
            ) -> Form:  # fmt: skip
    last, walk = len(kernel.outputs) - 1, Walk(kernel.outputs, plan.order, plan.unit)
    patch = plan.per_thread
    if plan.grain == "block":
        return Form(walk, 1, 1, patch, True, last, False, ROWS_INDEX, patch)
    ids = -(-walk.size // launch_of(kernel, schedule, device).tasks)
    return Form(walk, ids, 1, patch, False, last, False, _slots(kernel, plan, CPU_INDEX), patch)


def _on_gpu(kernel: KernelMaps, plan: Resolved, schedule: Schedule) -> Form:
    rank, by_blocks = len(kernel.outputs), plan.grain == "block"
    index = _slots(kernel, plan, BLOCK_INDEX if by_blocks else INDEX)
    if plan.table:
        index = BLOCK_INDEX["Row"] + LOOK_UP
    index += IN_CLUSTER * isinstance(schedule.residency, Clusters)
    index += ANOTHER_AXIS * max(rank - 2, 0)
    patch, walk = plan.per_thread, Walk(kernel.outputs, plan.order, plan.unit, plan.table)
    # The loops of a thread's outputs share values; without loops, only neighbours in a row do.
    sharing = patch if kernel.inner else (*(1,) * (rank - 1), patch[-1])
    if not by_blocks:
        threads = threads_for(plan.threads or THREADS)
        return Form(walk, threads, threads, patch, False, rank - 1, False, index, sharing)
    # Warps outside the domain exit immediately, and other warps take their slots.
    covered = math.prod(min(u, n) for u, n in zip(plan.unit, kernel.outputs, strict=True))
    threads = threads_for(covered // math.prod(patch))
    registers = 32 + (math.prod(patch) - 1) * kernel.state // 4
    fit = max(REGISTERS // (registers * threads), 1)
    return Form(walk, 1, threads, patch, True, plan.lanes, False, index, sharing, (), fit,
                looked_up=plan.table)  # fmt: skip


def _visits(kernel: KernelMaps, plan: Resolved | None, device: Ceilings) -> Form:
    """The form of a permute: persistent blocks take groups of elements, or blocks of them."""
    rank, launch = len(kernel.outputs), launch_of(kernel, None, device)
    last, ones, threads = rank - 1, (1,) * rank, launch.kernel.threads
    together, fit = threads * launch.updates, launch.kernel.resident or RESIDENT_BLOCKS
    if plan is None:
        return Form(Walk(kernel.outputs, Row(), ones), together, threads, ones, False, last, False,
                    ROWS_INDEX, ones, (), fit, True)  # fmt: skip
    by_blocks = plan.grain == "block"
    unit = plan.unit if by_blocks else ones
    index = _slots(kernel, plan, BLOCK_INDEX if by_blocks else INDEX)
    index += VISIT_INDEX * (1 + by_blocks)
    return Form(Walk(kernel.outputs, plan.order, unit), max(together // math.prod(unit), 1),
                threads, ones, by_blocks, last, False, index, ones, plan.per_thread, fit,
                True)  # fmt: skip


# --- what threads do ---------------------------------------------------------------------------


def operations(kernel: KernelMaps, form: Form) -> float:
    """Additions per output; work shared by the rows of a thread counts once."""
    rows = form.patch[-2] if len(form.patch) > 1 else 1
    return kernel.operations - kernel.shared * (1 - 1 / rows)


def shared_loads(m: Map, patch: Sequence[int], inner: Sequence[int]) -> float:
    """Loads per output; a load that several outputs of a thread share counts once."""
    outputs = math.prod(patch)
    if outputs == 1 or m.kind == DATA:
        return m.taps * m.iterations
    if not m.shape:
        return m.iterations / outputs
    low = np.array([[0] * len(patch)], np.int64)
    points = with_inner(points_of(low[0], low[0] + np.array(patch)), inner, 1)
    # Indices as written: boundary handling would make some at the edges equal.
    indices = np.unique(m.indices(points), axis=0)
    return len(indices) / outputs * m.iterations


def lanes_of(form: Form, part: float, count: int = 32) -> Points:
    """The first outputs of the lanes of a warp, at a fraction of the way through the domain."""
    walk = form.walk
    if not form.block:
        first = walk.at(part) // form.ids * form.ids
        ids = np.minimum(first + np.arange(count), max(walk.size - 1, 0))
        points = walk.origins(ids)
    else:
        origin = walk.origins(np.array([walk.at(part)]))[0]
        counts = [u // p for u, p in zip(walk.unit, form.patch, strict=True)]
        axes = [k for k in range(len(counts)) if k != form.lanes] + [form.lanes]
        patch = form.following or form.patch
        counts = [u // p for u, p in zip(walk.unit, patch, strict=True)]
        own = math.prod(form.following or (1,))
        threads = np.arange(min(count, math.prod(counts) * own))
        local = np.unravel_index(threads // own, [counts[k] for k in axes])
        after = np.unravel_index(threads % own, form.following or (1,) * len(counts))
        points = np.stack([origin[k] + local[axes.index(k)] * patch[k] + after[k]
                           for k in range(len(counts))], 1)  # fmt: skip
    inside: Points = np.minimum(points, np.maximum(np.array(walk.domain) - 1, 0))
    return inside
