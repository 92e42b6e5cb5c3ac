"""The model of time: bytes per level, issue slots and L1 wavefronts of a schedule.

    time = (DRAM⁵ + shared cache⁵ + issue⁵ + first cache⁵ + turnover⁵)^⅕ + launch

The longest term dominates, and terms nearly as long add to it: they overlap, but not entirely (on a
CPU less: squares, and no turnover).  Nothing is run or simulated.  At a few sampled positions of
the schedule's order, the model takes what is resident at a time (the blocks of all multiprocessors,
or of one; a task, a vector row) and counts the memory chunks that it touches
(`../access/footprint.py`).  Data touched before that still fits in a cache is not fetched again.

On a GPU the levels are DRAM → L2 (waves of resident blocks, two sectors at a time), L2 → L1 (the
blocks of one multiprocessor), warp instructions, and wavefronts of the L1; the turnover is that of
blocks (`gpu.py`).  On a CPU they are DRAM → last-level cache (tasks of all cores, 64-byte lines),
last-level → L2 (a core's tasks), L2 → L1 (rows of vectors within a task), and vector instructions,
with their stalls on evicted lines (`conflicts`).  What fits the caches of a core depends on their
sets (`../access/sets.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from treadle.skeletons.schedules import Row, Schedule

from ..access.footprint import distinct, union_lines, with_inner
from ..access.maps import DATA, KernelMaps, Map, Points
from ..access.sets import LINE, Cache, occupied
from . import gpu
from .coverage import POSITIONS, Form, Walk, form_of, lanes_of, operations, points_of, shared_loads
from .device import Ceilings

#: Bytes that a GPU's L1 fills per cycle, during which it delivers nothing.
FILL = 128
#: The slowdown of a GPU's memory for scattered chunks.
AT_RANDOM = 2.0
#: The power of the norm that combines the terms, on a CPU and on a GPU.
TOGETHER = (2.0, 5.0)
#: Cycles between dependent additions, on a CPU core.
LATENCY = 4.0
#: Independent sums of a CPU core; bytes per lane that loops carry in registers.
CHAINS, SPILLED = 8, 48
#: Instructions per lane of a gather and of a scatter (transposing 1 000 squared: 0.9 ns an element
#: and core, measured).
GATHERED, SCATTERED = 1.5, 3.5
#: Instructions to begin and end a row segment of a block, on a CPU.
SEGMENT = 30.0
#: Accesses that a core has in flight; the stall in cycles of a store whose line was evicted before
#: it completed; and the additional cycles of a load each time its set is refilled.
IN_FLIGHT, STORE_STALL, REFILL = 64, 28.0, 1.05


@dataclass(frozen=True)
class Prediction:
    """The cost of a kernel under a schedule: bytes, warp or vector instructions, L1 wavefronts; and
    the seconds that each of the four takes alone.

    `schedule` None: the lowering without a schedule.  `near`: on a GPU wavefronts of the L1, on a
    CPU bytes from the L2.  `turnover`: on a GPU, the seconds that blocks live, with as many
    resident as fit; `dispatch`: the least time to launch all blocks.  `rough`: the candidate cannot
    win, and its bytes are a lower bound.
    """

    schedule: Schedule | None
    dram: float
    far: float
    issue: float
    near: float
    terms: tuple[float, float, float, float]
    launch: float
    rough: bool = False
    turnover: float = 0.0
    dispatch: float = 0.0

    @property
    def seconds(self) -> float:
        longest = max(*self.terms, self.turnover)
        power = TOGETHER[bool(self.turnover)]
        parts = ((t / longest) ** power for t in (*self.terms, self.turnover))
        return max(float(longest * sum(parts) ** (1 / power)), self.dispatch) + self.launch

    @property
    def longest(self) -> int:
        """The index of the longest term; 4 is the turnover, or the dispatch."""
        times = (*self.terms, max(self.turnover, self.dispatch))
        return times.index(max(times))

    @property
    def limit(self) -> str:
        """Which of "dram", "far", "issue", "near", "turnover" takes longest."""
        return ("dram", "far", "issue", "near", "turnover")[self.longest]


def predict(kernel: KernelMaps, schedule: Schedule | None, device: Ceilings,
            beyond: float = math.inf) -> Prediction:  # fmt: skip
    """The cost of a kernel under a schedule, or without one if None.

    If instructions and the L1 alone take `beyond` seconds, the prediction is `rough`.  Raises
    `ScheduleError` if the schedule does not fit the kernel's rank.
    """
    form = form_of(kernel, schedule, device)
    turnover, dispatch, done = 0.0, 0.0, None
    if device.gpu:
        done = gpu.work(kernel, form, device, schedule)
        issue, near, cycles = done.issue, done.wavefronts, device.clock * device.units
        turnover, dispatch = gpu.turnover(kernel, form, device, done, schedule)
    else:
        issue, near, cycles = _instructions(kernel, form, device), 0.0, device.near
    # If there are fewer blocks than multiprocessors, or tasks than cores, some are idle.
    idle = max(device.units * form.ids / max(form.walk.size, 1), 1.0)
    terms = [0.0, idle * issue / device.issue, idle * near / cycles]
    rough = max(*terms, turnover, dispatch) + device.launch >= beyond
    if rough:
        far = busy = least_bytes(kernel, device.piece)
    elif done is not None:
        traffic, filled = gpu.from_l2(kernel, form, device, done, schedule)
        far, busy = traffic.bytes, traffic.busy
        if not kernel.inner:  # else lines are filled while other warps wait
            near += filled / FILL
        terms[2] = idle * near / cycles
    else:
        near, again = _own_caches(kernel, form, device)
        terms[2] = idle * near / cycles
        far = busy = _from_shared(kernel, form, device) * again
    terms[0] = idle * busy / device.far
    dram = _from_dram(kernel, form, device, rough)
    if device.gpu and not rough:
        dram += gpu.refetched(kernel, form, device, schedule)
    seconds = (dram / device.dram, terms[0], terms[1], terms[2])
    return Prediction(schedule, dram, far, issue, near, seconds, device.launch, rough, turnover,
                      dispatch)  # fmt: skip


def _from_dram(kernel: KernelMaps, form: Form, device: Ceilings, rough: bool) -> float:
    """Bytes to and from DRAM: on a GPU, two sectors at a time."""
    chunk = 64
    if rough:
        return least_bytes(kernel, chunk)
    step = form.ids * (gpu.resident(form) * device.units if device.gpu else 1)
    positions = POSITIONS if device.gpu else POSITIONS[:1]
    found = fetched(kernel, form.walk, step, Cache(device.shared), chunk, positions)
    if not device.gpu:
        return found + _random(kernel, device.shared, chunk)
    return found + _random(kernel, device.shared, chunk, AT_RANDOM, _along(form.walk, step))


def _along(walk: Walk, step: int) -> int:
    """The extent along the last axis of the outputs of `step` ids."""
    ids = walk.at(POSITIONS[0], step) + np.arange(1024) * step // 1024
    return int(np.ptp(walk.origins(ids)[:, -1])) + walk.unit[-1]


@dataclass(frozen=True)
class Footprint:
    """Distinct cache lines, and distinct units of a miss (sectors on a GPU), of all arrays."""

    lines: float
    pieces: float


def footprints(kernel: KernelMaps, schedule: Schedule | None, device: Ceilings
               ) -> dict[str, Footprint]:  # fmt: skip
    """The footprint, in the middle of the domain, of a "warp" (one iteration of its loops; on a CPU
    a vector), of a "block" or task, and of the "wave" of blocks that are resident at a time (tasks
    of all cores).  Excludes data-dependent accesses."""
    form = form_of(kernel, schedule, device)
    maps = [m for m in kernel.maps if m.kind != DATA]
    ones = [min(n, 1) for n in kernel.inner]
    lanes = with_inner(lanes_of(form, POSITIONS[0], 32 if device.gpu else device.lanes), ones)
    together = form.ids * device.units * (gpu.resident(form) if device.gpu else 1)
    found = {"warp": Footprint(*(distinct(maps, lanes, u) for u in (device.line, device.piece)))}
    for name, count in (("block", form.ids), ("wave", together)):
        boxes = form.walk.boxes(form.walk.at(POSITIONS[0], count) // form.ids * form.ids, count)
        found[name] = Footprint(*(
            union_lines(maps, *boxes, u, kernel.inner) for u in (device.line, device.piece)
        ))  # fmt: skip
    return found


# --- memory traffic ----------------------------------------------------------------------------


def least_bytes(kernel: KernelMaps, chunk: int) -> float:
    """Bytes of all distinct chunks that a kernel touches, which no cache avoids."""
    found = kernel.memo.get(chunk)
    if found is None:
        low = np.zeros((1, len(kernel.outputs)), np.int64)
        high = np.array([kernel.outputs], np.int64)
        planned = [m for m in kernel.maps if m.kind != DATA]
        found = union_lines(planned, low, high, chunk, kernel.inner) * chunk
        kernel.memo[chunk] = found
    return found


def fetched(kernel: KernelMaps, walk: Walk, step: int, cache: Cache, chunk: int,
            positions: Sequence[float] = POSITIONS[:1]) -> float:  # fmt: skip
    """Bytes fetched in total if `step` ids are resident at a time and a cache keeps what fits;
    windows are sampled at `positions`, fractions of the domain.

    The misses of a step equal the growth of a window's footprint per step where the window fills
    the cache (Xiang, Ding, Luo and Bao, "HOTL: a higher order theory of locality", ASPLOS 2013);
    windows are doubled until they fill it.
    """
    maps = [m for m in kernel.maps if m.kind != DATA]
    if not maps or not walk.size:
        return 0.0
    inner = kernel.inner
    steps = walk.size / step
    if cache.ways or walk.domain != kernel.outputs:
        least, needed = occupied(maps, *walk.whole(), chunk, inner, cache)
    else:
        least = needed = least_bytes(kernel, chunk)
    if steps <= 1 or needed <= cache.size:
        return least

    def touched(count: int) -> tuple[float, float, float]:
        """For windows of `count` steps, averaged over the sampled positions: the bytes touched, the
        capacity needed, and the fraction of all outputs (along a curve, some ids are outside)."""
        spans = []
        for part in positions:  # all windows of one position begin together, if there is space
            start = min(walk.at(part), max(walk.size - count * step, 0))
            low, high = walk.boxes(start, count * step)
            outputs = float((high - low).prod(1).sum()) / math.prod(walk.domain)
            spans.append((*occupied(maps, low, high, chunk, inner, cache), outputs))
        touch, need, part = np.mean(spans, 0)
        return float(touch), float(need), float(part)

    now, needed, part = touched(1)
    if needed > cache.size:
        return max(now / part, least)
    count = 1 << int(cache.size / needed).bit_length() - 1
    low, before = now, part
    while count > 1:
        low, needed, before = touched(count)
        if needed <= cache.size or not cache.ways:
            break
        count, low, before = count // 2, now, part
    while 2 * count < steps:
        high, needed, after = touched(2 * count)
        if needed > cache.size and after > before:
            return max(low + (high - low) / (after - before) * (1 - before), least)
        count, low, before = 2 * count, high, after
    return least


def _random(kernel: KernelMaps, capacity: float, chunk: int, slowdown: float = 1.0,
            along: float = math.inf) -> float:  # fmt: skip
    """Bytes that data-dependent accesses fetch: a chunk each, unless the array fits in the cache.
    Scattered chunks take `slowdown` times as long; `along`: contiguous outputs that are computed
    together."""
    total = 0.0
    for m in kernel.maps:
        if m.kind == DATA:
            count = kernel.size * m.iterations * m.taps
            missing = max(0.0, 1 - capacity / max(m.size, 1))
            slower = slowdown
            if m.rows:  # neighbours are contiguous
                count *= m.element / chunk
                slower = 1.0
                if along * m.element < min(chunk, m.shape[-1] * m.element) and missing:
                    # Parts of chunks: the other parts are used after all rows have been visited.
                    count *= chunk / (along * m.element)
                    missing, slower = 1.0, slowdown
            total += count * chunk * slower * missing + min(m.size, count * chunk) * (1 - missing)
    return total


# --- CPU -------------------------------------------------------------------------------------


def _from_shared(kernel: KernelMaps, form: Form, device: Ceilings) -> float:
    """Bytes from the last-level cache to the cores' own caches."""
    found = fetched(kernel, form.walk, form.ids, Cache(device.own), 64)
    return found + _random(kernel, device.own, 64)


def _own_caches(kernel: KernelMaps, form: Form, device: Ceilings) -> tuple[float, float]:
    """Bytes from a core's L2 into its L1; and how many times a task's data enters the L2: more than
    once if its sets are over capacity."""
    walk = form.walk
    # Within a task: row vectors, several rows a time; the complete tile if reads transpose.
    inside = walk
    if form.block:
        rows = (*form.patch[:-1], max(min(device.lanes, walk.unit[-1]), form.patch[-1]))
        covered = tuple(min(u, n) for u, n in zip(walk.unit, walk.domain, strict=True))
        rows = covered if form.staged else rows
        inside = Walk(covered, Row(), tuple(min(r, n) for r, n in zip(rows, covered, strict=True)))
    tasks = kernel.size / max(math.prod(inside.domain), 1)
    grain = 1 if form.block else device.lanes
    first, own = Cache(device.first, device.first_ways), Cache(device.own, device.own_ways)
    near = tasks * fetched(kernel, inside, grain, first, LINE) + _random(kernel, first.size, LINE)
    planned = [m for m in kernel.maps if m.kind != DATA]
    touched, needed = occupied(planned, *inside.whole(), LINE, kernel.inner, own)
    if not form.block or needed <= max(touched, own.size):
        return near, 1.0
    once = fetched(kernel, inside, grain, Cache(own.size), LINE)
    return near, fetched(kernel, inside, grain, own, LINE) / max(once, 1.0)


def _broken(walk: Walk, run: int) -> bool:
    """Whether the runs of an order, one after the other, are not row segments: if a run does not
    divide the extents, all later runs are misaligned."""
    starts = (walk.size * np.array(POSITIONS)).astype(np.int64) // run * run
    ends = walk.origins(starts + run - 1)
    return bool((np.abs(ends - walk.origins(starts)).sum(1) != run - 1).any())


def _instructions(kernel: KernelMaps, form: Form, device: Ceilings) -> float:
    """Vector instructions of all cores; dependent loop iterations include the stalls."""
    patch = math.prod(form.patch)
    vectors = kernel.size / device.lanes
    rows = form.patch[-2] if len(form.patch) > 1 else 1
    last = len(kernel.outputs) - 1
    each = operations(kernel, form)
    for m in kernel.stores:
        each += SCATTERED * device.lanes if strided(m, kernel) else 1.0
    scattered = not form.block and form.walk.run is None  # lanes are not contiguous
    for m in kernel.reads:
        loads = shared_loads(m, form.patch, kernel.inner)
        stride = m.strides[last] if m.coefficients and last >= 0 else device.lanes
        gathered = 1.0 if abs(stride) <= 1 and not scattered else GATHERED * device.lanes
        each += loads * gathered
    iterations = math.prod(kernel.inner) if kernel.inner else 0
    carried = patch * kernel.state / SPILLED
    each *= max(carried, 1.0) ** 2  # registers spill
    a_cycle = device.issue / (device.clock * device.units)
    waits = stalls(kernel, form, device) * a_cycle / vectors
    chained = iterations * LATENCY * a_cycle / min(patch, CHAINS)
    if scattered:
        return vectors * (max(each, chained) + form.index + waits)
    # Rows are computed in segments: complete vectors, then halves and quarters for the rest, with
    # an overhead for each segment. Runs longer than the row are of unknown length: element-wise.
    length = kernel.outputs[-1] if kernel.outputs else 1
    run = form.walk.unit[-1] if form.block else form.walk.run or 1
    width = max(min(run, length), 1)
    spread = any(strided(m, kernel) for m in kernel.stores)
    if spread and not form.block and _broken(form.walk, width):
        width = 1  # runs that are not row segments are updated one element at a time
    whole, rest = divmod(width, device.lanes)
    steps = width if run > length and not form.block else whole + rest.bit_count()
    pieces = kernel.size / width
    begun = SEGMENT / rows if form.block else form.index
    slots = vectors * max(each, chained) * steps * device.lanes / width
    return slots + vectors * waits + pieces * begun


# --- conflicts in the sets of a core's first cache -----------------------------------------------
#
# A core has dozens of accesses in flight.  If neighbours of a row go to addresses a power of two
# apart, or nearly, all their lines map to one set, or to a few.  Lines beyond the associativity are
# evicted before their accesses complete, and fetched again.  Loads wait for that together; stores
# leave a core in program order, and wait one after the other.


@dataclass(frozen=True)
class Conflict:
    """`lines` of an array in flight map to `sets` of a core's L1; `lost` is the fraction of them
    beyond the associativity, `fills` how often the sets are refilled until all lines have been
    loaded.  Averages over the sampled positions."""

    lines: float
    sets: float
    lost: float
    fills: float


def stalls(kernel: KernelMaps, form: Form, device: Ceilings) -> float:
    """Cycles, over all cores, in which accesses wait for lines that others evicted."""
    if form.staged:
        return 0.0
    total = 0.0
    for m in (m for m in kernel.maps if strided(m, kernel)):
        met = _conflict(m, kernel, form, device)
        if m.store:
            total += met.lost * STORE_STALL
        elif met.lost:
            total += met.fills * REFILL * shared_loads(m, form.patch, kernel.inner)
    return total * kernel.size


def conflicts(kernel: KernelMaps, device: Ceilings, schedule: Schedule | None
             ) -> list[tuple[Map, Conflict]]:  # fmt: skip
    """The conflicts of each array whose neighbours are not contiguous; empty on a GPU."""
    if device.gpu:
        return []
    form = form_of(kernel, schedule, device)
    if form.staged:  # tiles read and write contiguous rows on both sides
        return []
    return [(m, _conflict(m, kernel, form, device)) for m in kernel.maps if strided(m, kernel)]


def strided(m: Map, kernel: KernelMaps) -> bool:
    """Whether neighbours along the last axis of the domain are not contiguous in an array."""
    last = len(kernel.outputs) - 1
    return bool(m.coefficients) and last >= 0 and abs(m.strides[last]) > 1


def _conflict(m: Map, kernel: KernelMaps, form: Form, device: Ceilings) -> Conflict:
    first = Cache(device.first, device.first_ways)
    found = []
    for part in POSITIONS:
        lines = np.unique(m.addresses(_in_flight(kernel, form, device, part)) // LINE)
        counts = np.bincount(lines % first.seen(m.size))
        over = np.maximum(counts - first.ways, 0) if first.ways else np.zeros(len(counts))
        again = over * counts / max(first.ways, 1)
        found.append((float(len(lines)), float(np.count_nonzero(counts)),
                      float(over.sum()) / len(lines), float(again.sum()) / len(lines)))  # fmt: skip
    return Conflict(*(sum(numbers) / len(POSITIONS) for numbers in zip(*found, strict=True)))


def _in_flight(kernel: KernelMaps, form: Form, device: Ceilings, part: float) -> Points:
    """The outputs, with loop iterations, in flight in a core at a fraction of the domain."""
    walk = form.walk
    if form.block:
        origin = walk.origins(np.array([int(walk.size * part)]))[0]
        width = min(walk.unit[-1], walk.domain[-1])
        height = form.patch[-2] if len(form.patch) > 1 else 1
        if kernel.inner:
            width = min(width, device.lanes)
        if not kernel.inner:
            width = min(width, IN_FLIGHT)
            height = max(IN_FLIGHT // width, height)
        sides = np.ones(len(origin), np.int64)
        sides[-2:] = (height, width)[-len(sides) :]
        points = points_of(origin, origin + np.minimum(sides, walk.unit))
    else:
        count = device.lanes if kernel.inner else IN_FLIGHT
        points = walk.origins(int(walk.size * part) + np.arange(count))
    inside = np.minimum(points, np.array(kernel.outputs) - 1)
    return with_inner(inside, kernel.inner, max(IN_FLIGHT // len(inside), 1))
