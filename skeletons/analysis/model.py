"""The model of time: bytes per level, issue slots and first-cache wavefronts of a schedule.

    time = max(DRAM, shared cache, issue, first cache) + launch

Nothing is run and nothing simulated: what is resident at a time (the blocks of all
multiprocessors, of one of them; a task, a row of vectors) is walked in the schedule's order at a
few places, and the pieces of memory that it touches are counted (`footprint.py`).  What the walk
touched before and still fits in a cache is not fetched again.

On a GPU the levels are DRAM → L2 (waves of resident blocks, 32-byte sectors), L2 → L1 (the blocks
of one multiprocessor), warp instructions, and wavefronts of the L1.  On a CPU they are DRAM → last
cache (tasks of all cores, 64-byte lines), last → second cache (a core's tasks), second → first
(rows of vectors within a task), and vector instructions.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from treadle.dsl.access import DATA
from treadle.skeletons.schedules import Order, Row, Schedule, as_schedule

from .device import Ceilings
from .footprint import distinct, union_lines, with_inner
from .maps import KernelMaps, Map, Points
from .walk import Walk, points_of

#: Cycles of the L1 for one load of a warp, by the lines that its lanes are spread over: measured
#: on an H200 for rows of 32, 16, 8, 4 and 1 lanes (docs/design.md).
LINES, CYCLES = (1, 2, 4, 8, 32), (1.0, 2.0, 4.0, 3.0, 9.3)
#: Instructions of a thread for the place of its outputs, by order (SASS, compiled): thread grain.
INDEX = {"Row": 30, "Column": 46, "ZigZag": 48, "Tile": 60, "Swizzle": 46, "Morton": 43,
         "Hilbert": 90, "Table": 31}  # fmt: skip
BLOCK_INDEX, ROWS_INDEX = 45, 12
#: Threads of a multiprocessor, and blocks.
RESIDENT_THREADS, RESIDENT_BLOCKS = 2048, 32
#: Bytes that the L2 could have delivered while it answers for one line, however little is asked of
#: it: transposing 16 384 squared row by row takes 1.88 ms (measured), not 1.0.
REQUEST = 64
#: What is left of the rate of the L2 when what is resident touches so many times its size, by
#: the logarithm: products of 4 096 and 8 192 squared, row by row, 27.0 and 433 ms (measured).
CROWDING, RATE = (0.0, 0.42, 1.8), (1.0, 0.75, 0.54)
#: Where the blocks of a multiprocessor are among the ids of a wave: coprime to most grids.
SCATTER = 53
#: Cycles from one addition to the next that needs it, on a CPU core.
LATENCY = 4.0
#: Sums of a CPU core that need not wait for each other; bytes of a lane that loops may carry before
#: they go to memory.
CHAINS, SPILLED = 8, 48
#: Where warps are looked at, as parts of the way: not at edges.
PLACES = (0.371, 0.537, 0.713)
#: Where windows of steps are looked at, as parts of the way.
STARTS = (0.37,)
#: Bytes that a task moves on a CPU; rows and columns of transposing ones.
TASK_BYTES = 1 << 17


@dataclass(frozen=True)
class Prediction:
    """What a kernel costs under a schedule: bytes, warp or vector instructions, L1 wavefronts;
    and the seconds that each of the four takes alone.

    `schedule` None: as treadle does it without one.  `near`: on a GPU wavefronts of the L1, on a
    CPU bytes from the second cache.  `rough`: it cannot win, and its bytes are the least possible.
    """

    schedule: Schedule | None
    dram: float
    far: float
    issue: float
    near: float
    terms: tuple[float, float, float, float]
    launch: float
    rough: bool = False

    @property
    def seconds(self) -> float:
        return max(self.terms) + self.launch

    @property
    def limit(self) -> str:
        """Which of "dram", "far", "issue", "near" takes longest."""
        return ("dram", "far", "issue", "near")[self.terms.index(max(self.terms))]


@dataclass(frozen=True)
class Form:
    """How a lowering covers a domain: units in an order, threads (lanes) within them.

    `ids`: units of one block or task; `patch`: outputs of a thread along every axis; `block`: at
    block grain; `staged`: transposing reads go through shared memory, or narrow columns.
    """

    walk: Walk
    ids: int
    threads: int
    patch: tuple[int, ...]
    block: bool
    lanes: int
    staged: bool
    index: float


def predict(kernel: KernelMaps, schedule: Schedule | None, device: Ceilings, way: str = "rows",
            beyond: float = math.inf) -> Prediction:  # fmt: skip
    """The cost of a kernel under a schedule; None: as treadle does it without one, in a `way`:
    "rows", "strips" (several rows at once) or "tiles" (transposing).

    Where it takes `beyond` seconds by the instructions and the first cache alone, the prediction is
    `rough`.  Raises `ScheduleError` when the schedule does not fit the kernel's rank.
    """
    form = form_of(kernel, schedule, device, way)
    issue, near = (_gpu if device.gpu else _cpu)(kernel, form, device)
    cycles = device.clock * device.units if device.gpu else device.near
    # Fewer blocks than multiprocessors, or tasks than cores, leave some without work.
    idle = max(device.units * form.ids / max(form.walk.size, 1), 1.0)
    terms = [0.0, idle * issue / device.issue, idle * near / cycles]
    rough = max(terms) + device.launch >= beyond
    if rough:
        far = _least(kernel, kernel.maps, device.piece)
    else:
        far = (_from_l2 if device.gpu else _from_shared)(kernel, form, device)
    terms[0] = idle * far / device.far
    dram, resident = _from_dram(kernel, form, device, rough)
    if device.gpu and resident > device.shared:
        terms[0] /= float(np.interp(math.log(resident / device.shared), CROWDING, RATE))
    seconds = (dram / device.dram, terms[0], terms[1], terms[2])
    return Prediction(schedule, dram, far, issue, near, seconds, device.launch, rough)


def _from_dram(kernel: KernelMaps, form: Form, device: Ceilings, rough: bool
               ) -> tuple[float, float]:  # fmt: skip
    """(bytes from DRAM and to it, bytes touched by what is resident at a time)."""
    piece = device.piece
    if rough:
        return _least(kernel, kernel.maps, piece), 0.0
    step = form.ids * (_resident(form) * device.units if device.gpu else 1)
    found, resident = fetched(kernel, form.walk, step, device.shared, piece)
    return found + _random(kernel, device.shared, piece), resident


def _resident(form: Form) -> int:
    """Blocks of a multiprocessor at a time."""
    return max(min(RESIDENT_THREADS // max(form.threads, 1), RESIDENT_BLOCKS), 1)


@dataclass(frozen=True)
class Footprint:
    """Distinct cache lines, and pieces that a miss brings in (sectors, on a GPU), of all arrays."""

    lines: float
    pieces: float


def footprints(kernel: KernelMaps, schedule: Schedule | None, device: Ceilings, way: str = "rows"
               ) -> dict[str, Footprint]:  # fmt: skip
    """What is touched in the middle of the domain by a "warp" (one turn of its loops; on a CPU a
    vector), by a "block" or task, and by the "wave" of blocks that are resident at a time (tasks of
    all cores).  Data-dependent accesses are not among them."""
    form = form_of(kernel, schedule, device, way)
    maps = [m for m in kernel.maps if m.kind != DATA]
    ones = [min(n, 1) for n in kernel.inner]
    lanes = with_inner(_lanes(form, PLACES[0], 32 if device.gpu else device.lanes), ones)
    together = form.ids * device.units * (_resident(form) if device.gpu else 1)
    found = {"warp": Footprint(*(distinct(maps, lanes, u) for u in (device.line, device.piece)))}
    for name, count in (("block", form.ids), ("wave", together)):
        room = max(form.walk.size - count, 0)
        boxes = form.walk.boxes(int(room * PLACES[0]) // form.ids * form.ids, count)
        found[name] = Footprint(*(
            union_lines(maps, *boxes, u, kernel.inner) for u in (device.line, device.piece)
        ))  # fmt: skip
    return found


def form_of(kernel: KernelMaps, schedule: Schedule | None, device: Ceilings, way: str) -> Form:
    """What the lowerings make of a schedule."""
    rank = len(kernel.outputs)
    ones = (1,) * rank
    fixed = schedule is not None and (schedule.order or schedule.block or schedule.per_thread)
    if schedule is None or not fixed or rank == 0:
        return _default(kernel, device, way)
    plan = as_schedule(schedule).resolve(rank)
    order: Order = plan.order
    index = INDEX.get(type(order).__name__, 60)
    if not device.gpu:
        patch = plan.per_thread
        if plan.grain == "thread":
            walk = Walk(kernel.outputs, order, plan.unit)
            return Form(walk, _task(kernel), 1, patch, False, rank - 1, False, index)
        walk = Walk(kernel.outputs, order, plan.unit)
        return Form(walk, 1, 1, patch, True, rank - 1, False, ROWS_INDEX)
    if plan.grain == "thread":
        threads = plan.threads or 128
        walk = Walk(kernel.outputs, order, plan.unit)
        return Form(walk, threads, threads, plan.per_thread or ones, False, rank - 1, False, index)
    threads = min(max(math.prod(plan.unit) // math.prod(plan.per_thread), 1), 1024)
    return Form(Walk(kernel.outputs, order, plan.unit), 1, threads, plan.per_thread, True,
                plan.lanes, False, BLOCK_INDEX)  # fmt: skip


def _default(kernel: KernelMaps, device: Ceilings, way: str) -> Form:
    rank, domain = len(kernel.outputs), kernel.outputs
    ones, last = (1,) * rank, rank - 1
    lead = (1,) * max(rank - 2, 0)
    if rank == 0:
        return Form(Walk((1,), Row(), (1,)), 1, 1, (1,), True, 0, False, ROWS_INDEX)
    if way == "tiles" and rank > 1:
        unit = (*lead, 64, 64) if device.gpu else (*lead, 64, 256)
        patch = (*lead, 1, 4) if device.gpu else ones
        return Form(Walk(domain, Row(), unit), 1, 512, patch, True, last, True, ROWS_INDEX)
    rows = 4 if way == "strips" else 1
    if device.gpu:
        if way == "strips" and rank > 1:
            unit, patch = (*lead, 16, 128), (*lead, rows, 1)
            return Form(Walk(domain, Row(), unit), 1, 512, patch, True, last, False, ROWS_INDEX)
        wide = 1 if kernel.inner else 4
        patch = (*ones[:-1], wide)
        return Form(Walk(domain, Row(), patch), 128, 128, patch, False, last, False, ROWS_INDEX)
    elements = _task(kernel)
    width = min(domain[-1], elements)
    height = max(elements // max(domain[-1], 1), rows)
    unit = (*lead, height, width) if rank > 1 else (width,)
    patch = (*lead, rows, 1) if rank > 1 else (1,)
    return Form(Walk(domain, Row(), unit), 1, 1, patch, True, last, False, ROWS_INDEX)


def _task(kernel: KernelMaps) -> int:
    """Outputs of a task: about TASK_BYTES in and out."""
    size = sum(m.element for m in {m.leaf: m for m in kernel.maps}.values())
    return 1 << max(int(TASK_BYTES / max(size, 1)).bit_length() - 1, 6)


# --- what comes from below -------------------------------------------------------------------


def _least(kernel: KernelMaps, maps: Sequence[Map], piece: int) -> float:
    """Bytes of all pieces that a kernel touches: what no cache avoids.  (`maps`: its own.)"""
    found = kernel.memo.get(piece)
    if found is None:
        low = np.zeros((1, len(kernel.outputs)), np.int64)
        high = np.array([kernel.outputs], np.int64)
        planned = [m for m in maps if m.kind != DATA]
        found = union_lines(planned, low, high, piece, kernel.inner) * piece
        kernel.memo[piece] = found
    return found


def fetched(kernel: KernelMaps, walk: Walk, step: int, capacity: float, piece: int
           ) -> tuple[float, float]:  # fmt: skip
    """Bytes fetched in all when `step` ids are resident at a time and `capacity` bytes stay; and
    the bytes that these ids touch.

    What a step misses is by how much the footprint of a window grows from step to step where the
    window fills the cache (Xiang, Ding, Luo and Bao, "HOTL: a higher order theory of locality",
    ASPLOS 2013); windows are doubled until they do.
    """
    maps = [m for m in kernel.maps if m.kind != DATA]
    if not maps or not walk.size:
        return 0.0, 0.0
    inner = kernel.inner

    whole = walk.domain == kernel.outputs
    least = (
        _least(kernel, maps, piece)
        if whole
        else union_lines(maps, *walk.whole(), piece, inner) * piece
    )
    steps = walk.size / step
    if steps <= 1 or least <= capacity:
        return least, least

    def touched(count: int) -> float:
        """Bytes that so many steps touch, on average over some places."""
        room = max(walk.size - count * step, 0)
        spans = [union_lines(maps, *walk.boxes(int(room * part), count * step), piece, inner)
                 for part in STARTS]  # fmt: skip
        return sum(spans) / len(STARTS) * piece

    now = touched(1)
    if now > capacity:
        return max(now * steps, least), now
    count = 1 << int(capacity / now).bit_length() - 1
    low = touched(count) if count > 1 else now
    while 2 * count < steps:
        high = touched(2 * count)
        if high > capacity:
            return max(low + (high - low) / count * (steps - count), least), now
        count, low = 2 * count, high
    return least, now


def _random(kernel: KernelMaps, capacity: float, piece: int) -> float:
    """Bytes that data-dependent accesses fetch: each a piece, unless the array fits."""
    total = 0.0
    for m in kernel.maps:
        if m.kind == DATA:
            count = kernel.size * m.turns * m.taps
            missing = max(0.0, 1 - capacity / max(m.size, 1))
            total += count * piece * missing + min(m.size, count * piece) * (1 - missing)
    return total


def _shared_loads(m: Map, patch: Sequence[int], inner: Sequence[int]) -> float:
    """Loads of one output, those that a thread's outputs share counted once."""
    outputs = math.prod(patch)
    if outputs == 1 or m.kind == DATA:
        return m.taps * m.turns
    low = np.array([[0] * len(patch)], np.int64)
    points = with_inner(points_of(low[0], low[0] + np.array(patch)), inner, 1)
    # Away from the edges, where a boundary would make places equal.
    away = dataclasses.replace(m, shape=tuple(n + (1 << 16) for n in m.shape))
    if m.coefficients:
        shifted = tuple(tuple(o + (1 << 12) for o in offset) for offset in m.offsets)
        away = dataclasses.replace(away, offsets=shifted)
    return distinct([away], points, m.element) / outputs * m.turns


def _operations(kernel: KernelMaps, form: Form) -> float:
    """Additions of one output; what the rows of a thread have in common is computed once."""
    rows = form.patch[-2] if len(form.patch) > 1 else 1
    return kernel.operations - kernel.shared * (1 - 1 / rows)


# --- GPU -------------------------------------------------------------------------------------


def _gpu(kernel: KernelMaps, form: Form, device: Ceilings) -> tuple[float, float]:
    """(warp instructions, L1 wavefronts)."""
    patch = math.prod(form.patch)
    warps = kernel.size / patch / 32
    loads = [_shared_loads(m, form.patch, kernel.inner) for m in kernel.reads]
    wavefronts, _ = _per_warp(kernel, form, loads)
    turns = math.prod(kernel.inner) if kernel.inner else 1
    each = _operations(kernel, form) + 1.5 * sum(loads) + len(kernel.stores) + 0.5 * turns / patch
    issue = warps * (patch * each + form.index)
    return issue, warps * wavefronts


def _per_warp(kernel: KernelMaps, form: Form, loads: Sequence[float], stores: bool = False
              ) -> tuple[float, float]:  # fmt: skip
    """(L1 wavefronts, bytes written to L2) of a warp, all outputs and turns of its threads; of its
    `stores` alone."""
    patch = math.prod(form.patch)
    points = np.concatenate([_lanes(form, part) for part in PLACES])
    warps = len(PLACES)
    first = with_inner(points, [min(n, 1) for n in kernel.inner])
    wavefronts = written = 0.0
    reads = iter(loads)
    for m in kernel.stores if stores else kernel.maps:
        each = 1.0 if m.store else next(reads)
        if form.staged:
            cycles, sectors = 2.0, 4.0
        elif m.kind == DATA:
            cycles, sectors = CYCLES[-1], 32.0
        else:
            places = m.addresses(first).reshape(m.taps * warps, -1)
            cycles = float(np.interp(_count(places // 128), LINES, CYCLES).mean())
            sectors = float(_count(places // 32).mean()) if m.store else 0.0
        # Neighbours of a thread are loaded and stored together, where they lie together.
        axis = len(kernel.outputs) - 1
        together = m.coefficients and abs(m.strides[axis]) == 1
        accesses = patch / min(form.patch[-1], 4) if together else patch
        wavefronts += each * accesses * cycles
        written += accesses * 32 * sectors if m.store else 0.0
    return wavefronts, written


def _count(rows: Points) -> Points:
    """Distinct values of each row."""
    ordered = np.sort(rows, 1)
    found: Points = 1 + np.count_nonzero(np.diff(ordered, axis=1), axis=1)
    return found


def _lanes(form: Form, part: float, count: int = 32) -> Points:
    """The first outputs of the lanes of a warp, at a part of the way through the domain."""
    walk = form.walk
    if not form.block:
        blocks = max(walk.size // max(form.ids, 1), 1)
        first = int(blocks * part) * form.ids
        ids = np.minimum(first + np.arange(count), max(walk.size - 1, 0))
        points = walk.origins(ids)
    else:
        origin = walk.origins(np.array([int(walk.size * part)]))[0]
        counts = [u // p for u, p in zip(walk.unit, form.patch, strict=True)]
        axes = [k for k in range(len(counts)) if k != form.lanes] + [form.lanes]
        threads = np.arange(min(count, math.prod(counts)))
        local = np.unravel_index(threads, [counts[k] for k in axes])
        points = np.stack([origin[k] + local[axes.index(k)] * form.patch[k]
                           for k in range(len(counts))], 1)  # fmt: skip
    inside: Points = np.minimum(points, np.maximum(np.array(walk.domain) - 1, 0))
    return inside


def _from_l2(kernel: KernelMaps, form: Form, device: Ceilings) -> float:
    """Bytes between L2 and L1s: every warp's stores, and reads, which the blocks of one
    multiprocessor share.

    A line costs a REQUEST at least.  Blocks that are together come from all over a wave, one from
    every `units` ids, in no fixed order (measured).  Where one turn of their loops touches more
    than the L1 holds, every turn fetches its sectors again.
    """
    reads = [m for m in kernel.reads if m.kind != DATA]
    total = sum(kernel.size * m.turns * m.taps * 32 for m in kernel.reads if m.kind == DATA)
    warps = kernel.size / math.prod(form.patch) / 32
    total += warps * _per_warp(kernel, form, (), stores=True)[1]
    walk, step = form.walk, form.ids
    blocks = -(-walk.size // step)
    if not reads or not blocks:
        return total
    taken = min(_resident(form), max(blocks // device.units, 1))
    first = max(blocks * 3 // 8 - taken * device.units // 2, 0)
    order = np.arange(taken)
    starts = (first + order * device.units + order * SCATTER % device.units) * step
    low, high = walk.boxes(starts[starts < walk.size], step)
    live = union_lines(reads, low, high, 128, [min(n, 1) for n in kernel.inner]) * 128
    inner: Sequence[int] = kernel.inner
    turns = 1
    if live > device.first and kernel.inner:
        inner, turns = [min(n, 1) for n in kernel.inner], math.prod(kernel.inner)
    sectors = union_lines(reads, low, high, 32, inner) * 32
    lines = union_lines(reads, low, high, 128, inner) * REQUEST
    return total + max(sectors, lines) * turns * blocks / taken


# --- CPU -------------------------------------------------------------------------------------


def _from_shared(kernel: KernelMaps, form: Form, device: Ceilings) -> float:
    """Bytes from the last cache to the cores' own."""
    found, _ = fetched(kernel, form.walk, form.ids, device.own, 64)
    return found + _random(kernel, device.own, 64)


def _cpu(kernel: KernelMaps, form: Form, device: Ceilings) -> tuple[float, float]:
    """(vector instructions, bytes from the second cache)."""
    walk = form.walk
    # Within a task: vectors of a row, several rows at once; narrow columns where reads transpose.
    inside = walk
    if form.block:
        rows = (*form.patch[:-1], max(min(device.lanes, walk.unit[-1]), form.patch[-1]))
        covered = tuple(min(u, n) for u, n in zip(walk.unit, walk.domain, strict=True))
        order = _narrow() if form.staged else Row()
        inside = Walk(covered, order, tuple(min(r, n) for r, n in zip(rows, covered, strict=True)))
    tasks = kernel.size / max(math.prod(inside.domain), 1)
    grain = 1 if form.block else device.lanes
    near = tasks * fetched(kernel, inside, grain, device.first, 64)[0]
    return _instructions(kernel, form, device), near + _random(kernel, device.first, 64)


def _narrow() -> Order:
    from treadle.skeletons.schedules import Column

    return Column(1)  # of vectors: a column as wide as a vector


def _instructions(kernel: KernelMaps, form: Form, device: Ceilings) -> float:
    """Vector instructions of all cores; loops whose turns wait for each other count the wait."""
    patch = math.prod(form.patch)
    vectors = kernel.size / device.lanes
    last = len(kernel.outputs) - 1
    each = _operations(kernel, form) + len(kernel.stores)
    for m in kernel.reads:
        loads = _shared_loads(m, form.patch, kernel.inner)
        stride = m.strides[last] if m.coefficients and last >= 0 else device.lanes
        gathered = 1.0 if abs(stride) <= 1 else 1.5 * device.lanes
        each += loads * gathered
    turns = math.prod(kernel.inner) if kernel.inner else 0
    carried = patch * kernel.state / SPILLED
    each *= max(carried, 1.0) ** 2  # what does not fit goes to memory and back
    a_cycle = device.issue / (device.clock * device.units)
    waiting = turns * LATENCY * a_cycle / min(patch, CHAINS)
    pieces = 1.0 if form.block else kernel.size / max(form.walk.order.run or 1, 1)
    return vectors * max(each, waiting) + (0.0 if form.block else pieces * form.index)
