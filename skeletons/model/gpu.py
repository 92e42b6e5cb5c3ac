"""Costs of a kernel on a GPU other than DRAM traffic: instructions, wavefronts of the L1, bytes
between L2 and L1s, and the lifetimes of blocks.

    issue       slots of the schedulers; integer instructions take two, since their units are half
                as wide; 64-bit multiplications, for addresses, four; double-precision instructions
                two, in separate units
    wavefronts  conflicts between a warp's words in the banks of the L1, and lines they straddle
    far         sectors that the blocks of one multiprocessor share, at least each line's request
    turnover    a block lives as long as its latencies, longer if all multiprocessors wait for the
                same sector; launches are serial, in parallel with everything else

The constants are those of an H200, from measurements (benchmarks/results/schedules-gpu-*,
and the machine code).  None is specific to a schedule; only those of irregular loops come from a
single program.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from treadle.skeletons.schedules import Agents, Clusters, Hilbert, Hints, LocalityGraph, Schedule

from ..access.footprint import array_boxes, union_lines, with_inner
from ..access.maps import DATA, HORIZONTAL, RANDOM, STREAMING, VERTICAL, KernelMaps, Map, Points
from ..lower.gpu.common import WIDEST
from ..lower.gpu.unroll import most_iterations
from .coverage import POSITIONS, Form, lanes_of, operations, shared_loads
from .device import Ceilings

#: Threads of a multiprocessor, and blocks.
RESIDENT_THREADS, RESIDENT_BLOCKS = 2048, 32
#: Cycles of the L1 for each line that a warp's words are on, in addition to those of its banks.
STRADDLE = 0.27
#: Banks of the L1, each of which delivers a word of four bytes in a cycle.
BANKS = 32
#: Cycles for adding 32 words into shared memory at random: twice the most words in a bank.
ATOMIC = 7.0
#: Bytes that the L2 could have delivered in the time of a request for one line, however small; the
#: same for reads that bypass the L1, where requests for the same sectors are merged.
REQUEST, BYPASSING = 60, 39
#: The same for each byte of a sector that is stored in part, and for every doubling of the rows in
#: which resident blocks store such parts: if the parts of a sector are stored far apart in time,
#: DRAM writes it in part and reads it again.
OF_BYTE, OPEN = 14.6, 10.6
#: The fraction of shared reads bypassing the L1 whose lines the L2 has evicted.
REFETCHED = 0.09
#: The fraction of a multiprocessor's sector requests that no nearby multiprocessor makes at the
#: same time (the L2 merges those).
ALONE = 0.45
#: The same in loops, where few requests coincide.
IN_LOOPS = 0.75
#: Seconds between the launches of two blocks.
DISPATCH = 0.6e-9
#: The lifetime of any block in seconds (launch, addresses, the last store); additional seconds
#: until data from L2 or DRAM arrives; and for starting the blocks of a cluster together.
LIFE, FIRST_DATA, CLUSTER = 0.32e-6, 0.47e-6, 0.025e-6
#: Additional seconds if the L1 can hold all reads, but a block starts with new ones: from L2, and
#: per multiprocessor that requests the same sectors at that time.
FROM_L2, SAME = 0.13e-6, 0.9e-9
#: The latter for reads bypassing the L1, where every warp makes a request.
SAME_PAST = 3e-9
#: Additional seconds until a block has loaded its position from a table of the order.
LOOKED_UP = 0.34e-6
#: Additional seconds until data arrives if resident blocks touch parts of rows all over memory:
#: each open DRAM row serves fewer bytes.
OPENED = 0.075e-6
#: Additional cycles of a block's life: per load of a thread; per loop iteration, whose loads wait
#: for each other; per slot of index arithmetic, which is a dependence chain; and per doubling of
#: the lines of a warp's access, which waits for the last one.
LOAD, ITERATION, INDEX_SLOT, LINES = 54.0, 112.0, 2.3, 60.0
#: Additional cycles of a loop iteration for every line that its warp fetches and every
#: multiprocessor that requests it at that time: these requests are served serially.
CONTENDED = 0.86
#: Additional cycles of an iteration if all resident blocks together read more than the L2 holds, so
#: that lines come from DRAM.
FROM_DRAM = 50.0
#: Additional cycles of an iteration for every doubling of the rows of an array that are read all
#: over the device at the same time, each at its own position, starting from one per multiprocessor.
ROW_DISTANCE_LIMIT = 7.0
#: Additional cycles of an iteration if a thread interleaves several loops.
APIECE = 110.0
#: Issue slots per iteration: the loop overhead; the address of a load that is not contiguous with
#: the one before; of a contiguous one, if several outputs are interleaved; and additional slots of
#: a non-contiguous load along Hilbert's curve of elements.
LOOP_OVERHEAD, STEP, TOGETHER, CURVED = 0.5, 3.5, 2.0, 3.3
#: Slots of the address of a load outside loops, for every row of an array: two integer clamps and
#: an address.
OTHER_ROW = 5.6
#: The relative slowdown of a warp in loops of irregular lengths, per element of distance between
#: its lanes: neighbours have similar lengths, and the warp waits for the longest.
ROW_DISTANCE = 0.002
#: The slowdown of such loops if half of the resident blocks are close together and span no axis:
#: then they are all expensive or all cheap, and cheap blocks, which wait, do not overlap with
#: expensive ones, which compute.
UNMIXED = 0.024
#: Cycles between dependent instructions of such a loop, twice that for doubles: if there are few
#: warps, slots remain idle.
DEPENDENT = 4.5
#: Scatters the blocks of a multiprocessor over the ids of a wave: coprime to most grids.
SCATTER = 53
#: The names of access classes in `Hints`.
_CLASSES = {HORIZONTAL: "horizontal", VERTICAL: "vertical", STREAMING: "stream", RANDOM: "random"}


@dataclass(frozen=True)
class Traffic:
    """Bytes between L2 and L1s, and the bytes that the L2 could have moved in that time: a request
    for one sector keeps it as `busy` as one for two."""

    bytes: float = 0.0
    busy: float = 0.0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.bytes + other.bytes, self.busy + other.busy)

    def times(self, count: float) -> Traffic:
        return Traffic(self.bytes * count, self.busy * count)


@dataclass(frozen=True)
class Work:
    """Warp instructions, the instructions of one thread, wavefronts of the L1, bytes written to L2,
    bytes read past the L1 or at data-dependent indices, the number of doublings of the lines that a
    warp waits for, and the cycles of dependence chains in a thread."""

    issue: float
    own: float
    wavefronts: float
    written: Traffic
    past: Traffic
    doublings: float
    waiting: float


def resident(form: Form) -> int:
    return max(min(RESIDENT_THREADS // max(form.threads, 1), RESIDENT_BLOCKS, form.fit), 1)


def work(kernel: KernelMaps, form: Form, device: Ceilings, schedule: Schedule | None) -> Work:
    """The work of all warps, extrapolated from a few sampled positions."""
    patch = math.prod(form.patch)
    warps = kernel.size / patch / 32
    loads = [shared_loads(m, form.sharing, kernel.inner) for m in kernel.reads]
    iterations = math.prod(kernel.inner) if kernel.inner else 1
    at_once = iterations_per_load(kernel, form)
    loads = [load / at_once.get(m, 1) for m, load in zip(kernel.reads, loads, strict=True)]
    each = operations(kernel, form) + len(kernel.stores)
    each += LOOP_OVERHEAD * iterations / patch / max(at_once.values(), default=1)
    for m, load in zip(kernel.reads, loads, strict=True):
        at_a_time = load / _together(m, form, kernel)
        addresses = _rows(m, form) * OTHER_ROW
        each += at_a_time + (at_a_time * _stepping(m, kernel, form) if kernel.inner else addresses)
    points = np.concatenate([lanes_of(form, part) for part in POSITIONS])
    first = with_inner(points, [min(n, 1) for n in kernel.inner])
    wavefronts = doublings = 0.0
    written = past = Traffic()
    for m, load in zip(kernel.reads, loads, strict=True):
        wide = _together(m, form, kernel)
        cycles, sectors, lines = _access(m, form, first, wide * at_once.get(m, 1))
        wavefronts += load * patch / wide * cycles
        doublings = max(doublings, math.log2(max(lines / wide, 1)))
        bypassing = _policy(m, schedule) == "no_l1"
        if bypassing or m.kind == DATA:
            request = BYPASSING if bypassing else REQUEST
            asked = Traffic(sectors * 32, max(sectors * 32, lines * request))
            past += asked.times(warps * load * patch / wide)
    for m in kernel.stores:
        if kernel.binned:
            wavefronts += ATOMIC
            continue
        wide = _together(m, form, kernel)
        cycles, sectors, lines = _access(m, form, first, wide)
        doublings += math.log2(max(lines / wide, 1))
        full, sector = 32 * m.element * wide / sectors, 32.0
        if full < 32 and not _filled(m, form, kernel):
            rows = _rows_stored(m, kernel, form, device)
            sector = max(OF_BYTE * full + OPEN * math.log2(rows), sector)
        wavefronts += patch / wide * cycles
        asked = Traffic(sectors * 32, max(sectors * sector, lines * REQUEST))
        written += asked.times(warps * patch / wide)
    longer = 1.0
    if not kernel.regular:  # and while the last blocks run, multiprocessors become idle
        longer += ROW_DISTANCE * float(np.ptp(points[:32], 0).sum())
        longer *= 1 + UNMIXED * (1 - _spanned(form, device))
        longer *= 1 + resident(form) * device.units * form.threads / max(warps * 32, 1)
    own, doubles = patch * each * longer + form.index, patch * kernel.doubles * longer
    # The units for doubles are half as wide and separate: with this many warps, the slower of the
    # two kinds of units determines the time.
    slots = max(own, 2 * doubles)
    waiting = own * DEPENDENT + doubles * DEPENDENT
    return Work(warps * slots, own, warps * wavefronts, written, past, doublings, waiting)


def iterations_per_load(kernel: KernelMaps, form: Form) -> dict[Map, int]:
    """By map, the iterations of the innermost loop whose contiguous loads become one instruction:
    up to 16 bytes, as long as the values fit the registers together with the loop states."""
    if not kernel.inner or not kernel.regular:
        return {}
    found = [m for m in kernel.reads if m.coefficients and m.strides[-1] == 1]
    if not found:
        return {}
    patch, iterations = math.prod(form.sharing), math.prod(kernel.inner)
    count = WIDEST // max(m.element for m in found)
    ahead = sum(shared_loads(m, form.sharing, kernel.inner) / iterations * m.element for m in found)
    count = most_iterations(count, patch * kernel.state, patch * ahead)
    whole = [m for m in found if m.shape[-1] % count == 0]
    return dict.fromkeys(whole, count) if count > 1 and kernel.inner[-1] % count == 0 else {}


def _spanned(form: Form, device: Ceilings) -> float:
    """The largest fraction of an axis that half of the resident blocks span: while cheap blocks are
    replaced, expensive ones remain, on average for half of their life."""
    together = max(resident(form) * device.units * form.ids // 2, 1)
    extents = np.array(form.walk.domain)
    found = []
    for part in POSITIONS:
        first = form.walk.at(part, together)
        points = form.walk.origins(first + np.arange(1024) * together // 1024)
        inside = points[(points < extents).all(1)]
        sides = np.ptp(inside, 0) + form.walk.unit if len(inside) else extents
        found.append(min(float((sides / extents).max()), 1.0))
    return sum(found) / len(found)


def _stepping(m: Map, kernel: KernelMaps, form: Form) -> float:
    """Slots for the address of a load in a loop: 0 if the next iteration reads the neighbour."""
    far = not m.coefficients or any(abs(s) > 1 for s in m.strides[len(kernel.outputs) :])
    if far and isinstance(form.walk.order, Hilbert) and not form.block:
        return STEP + CURVED
    return STEP if far else TOGETHER if math.prod(form.sharing) > 1 else 0.0


def _rows(m: Map, form: Form) -> float:
    """Addresses per output that are computed separately: one for each row of the array."""
    height = form.sharing[-2] if len(form.sharing) > 1 else 1
    rows = {o[:-1] for o in m.offsets} if m.coefficients else {()}
    return len(rows) / math.prod(form.sharing) * (1 + (height - 1) / max(len(rows), 1))


def _together(m: Map, form: Form, kernel: KernelMaps) -> int:
    """Neighbouring outputs of a thread that one instruction loads or stores: up to 16 bytes."""
    axis = len(kernel.outputs) - 1
    if not m.rows and (not m.coefficients or axis < 0 or abs(m.strides[axis]) != 1):
        return 1
    return math.gcd(form.patch[-1], max(WIDEST // m.element, 1))


def _access(m: Map, form: Form, first: Points, wide: int) -> tuple[float, float, float]:
    """(L1 cycles, sectors, lines) of an access of a warp to `wide` neighbours a lane: with 16 bytes
    a lane, each quarter of the warp is delivered separately, even if all read the same."""
    if form.staged:
        return float(wide), 4.0 * wide, float(wide)
    if m.rows:  # data-dependent rows: anywhere, but no two of them in a line
        _, rows = np.unique(first[:, :-1], axis=0, return_inverse=True)
        pitch = -(-max(m.shape[-1] * m.element, 1) // 128) * 128
        addresses = rows.reshape(-1) * pitch + first[:, -1] * m.element
        addresses = addresses.reshape(len(POSITIONS), -1)
    elif m.kind == DATA:
        return 1 + STRADDLE * 31, 32.0, 32.0
    else:
        addresses = m.addresses(first).reshape(m.taps * len(POSITIONS), -1)
    words = max(wide * m.element // 4, 1)
    if words > 1:
        addresses = (addresses[:, :, None] + 4 * np.arange(words)).reshape(len(addresses), -1)
    # Wide accesses are split into halves or quarters of the warp.
    parts = np.array_split(addresses, min(words, 4), axis=1)
    found = np.sum([_banks(part) for part in parts], 0)
    lines = _distinct(addresses // 128)
    cycles = found + STRADDLE * np.maximum(lines - found, 0)
    return float(cycles.mean()), float(_distinct(addresses // 32).mean()), float(lines.mean())


def _filled(m: Map, form: Form, kernel: KernelMaps) -> bool:
    """Whether a block stores at least a sector's width of a row: then its neighbours complete the
    partial sectors at its ends soon, and the L2 merges them."""
    last = len(kernel.outputs) - 1
    if not m.coefficients or abs(m.strides[last]) != 1:
        return False
    lanes = [np.ptp(lanes_of(form, part, form.threads)[:, last]) for part in POSITIONS]
    wide = float(np.mean(lanes)) + form.patch[-1]
    return wide * m.element >= min(32, m.shape[-1] * m.element)


def _banks(addresses: Points) -> Points:
    """For every row of byte addresses, the largest number of words in one bank."""
    words = np.sort(addresses // 4, 1)
    new = np.ones(words.shape, np.bool_)
    new[:, 1:] = words[:, 1:] != words[:, :-1]
    banks = words % BANKS + BANKS * np.arange(len(words))[:, None]
    counts = np.bincount(banks[new], minlength=BANKS * len(words))
    found: Points = counts.reshape(-1, BANKS).max(1)
    return found


def _distinct(rows: Points) -> Points:
    ordered = np.sort(rows, 1)
    found: Points = 1 + np.count_nonzero(np.diff(ordered, axis=1), axis=1)
    return found


def _policy(m: Map, schedule: Schedule | None) -> str | None:
    """The cache policy that a schedule's hints give an array, by its most local access class."""
    hints = None if schedule is None else schedule.hints
    if not isinstance(hints, Hints) or not m.classes:
        return None
    given: str | None = getattr(hints, _CLASSES[m.classes[0]])
    return given


def from_l2(kernel: KernelMaps, form: Form, device: Ceilings, done: Work,
            schedule: Schedule | None) -> tuple[Traffic, float]:  # fmt: skip
    """The traffic between L2 and L1s: stores, reads past the L1, and other reads, which the blocks
    of one multiprocessor share; and the bytes of the latter, which fill the L1s.

    A line costs at least a REQUEST.  The resident blocks of a multiprocessor come from all over a
    wave, one from every `units` ids, in no fixed order (measured); those of agents and clusters are
    consecutive.  If one iteration of their loops touches more than the L1 holds, every iteration
    fetches its sectors again.
    """
    reads = [m for m in kernel.reads if m.kind != DATA and _policy(m, schedule) != "no_l1"]
    total = done.written + done.past
    bypassing = [m for m in kernel.reads if m.kind != DATA and _policy(m, schedule) == "no_l1"]
    if bypassing:  # requests of a block's warps for the same sector are merged
        least = _of_blocks(bypassing, kernel, form, 32)
        again = refetched(kernel, form, device, schedule) / 32
        busy = max(done.past.busy, least * REQUEST) + again * REQUEST
        total = done.written + Traffic(max(done.past.bytes, least * 32), busy)
    walk, step = form.walk, form.ids
    blocks = -(-walk.inside // step)
    if not reads or not blocks:
        return total, 0.0
    taken = min(resident(form), max(blocks // device.units, 1))
    first = max(walk.at(3 / 8) // step - taken * device.units // 2, 0)
    order = np.arange(taken)
    spread = order * device.units + order * SCATTER % device.units
    if kernel.inner and not in_step(kernel, done, device):
        taken, order, spread = 1, order[:1], spread[:1]
    residency = None if schedule is None else schedule.residency
    if isinstance(residency, Agents | LocalityGraph | Clusters):
        spread = order
    starts = (first + spread) * step
    low, high = walk.boxes(starts[starts < walk.size], step)
    live = union_lines(reads, low, high, 128, [min(n, 1) for n in kernel.inner]) * 128
    inner: Sequence[int] = kernel.inner
    iterations = 1
    if live > device.first and kernel.inner:
        inner, iterations = [min(n, 1) for n in kernel.inner], math.prod(kernel.inner)
        at_once = iterations_per_load(kernel, form)
        iterations = iterations // min(at_once.get(m, 1) for m in reads)
    sectors = union_lines(reads, low, high, 32, inner) * 32
    lines = union_lines(reads, low, high, 128, inner) * REQUEST
    often = iterations * blocks / taken
    alone = IN_LOOPS if kernel.inner else ALONE
    asked = Traffic(sectors, max(sectors * alone, lines))
    return total + asked.times(often), sectors * often


def _of_blocks(maps: Sequence[Map], kernel: KernelMaps, form: Form, piece: int) -> float:
    """The distinct chunks that each block touches, summed over all blocks."""
    walk, step = form.walk, form.ids
    low, high = walk.boxes(walk.at(3 / 8) // step * step, step)
    return union_lines(maps, low, high, piece, kernel.inner) * -(-walk.inside // step)


def refetched(kernel: KernelMaps, form: Form, device: Ceilings, schedule: Schedule | None) -> float:
    """Bytes refetched from DRAM after reads past the L1: the L2 evicts such lines first."""
    past = [m for m in kernel.reads if m.kind != DATA and _policy(m, schedule) == "no_l1"]
    if not past or sum(m.size for m in kernel.maps) <= device.shared:
        return 0.0
    low, high = form.walk.whole()
    once = union_lines(past, low, high, 64, kernel.inner)
    return REFETCHED * 64 * max(_of_blocks(past, kernel, form, 64) - once, 0.0)


def turnover(kernel: KernelMaps, form: Form, device: Ceilings, done: Work,
             schedule: Schedule | None) -> tuple[float, float]:  # fmt: skip
    """The seconds that blocks live, with as many resident as fit; and the seconds to launch them
    all, serially, in parallel with everything else."""
    blocks = -(-form.walk.size // form.ids)
    residency = None if schedule is None else schedule.residency
    fit, life, launched = resident(form), LIFE, float(blocks)
    if form.stay:
        life, launched = 0.0, 0.0
    if isinstance(residency, Agents | LocalityGraph):
        fit = min(fit, residency.per_sm) if isinstance(residency, Agents) else fit
        launched = 0.0  # agents fetch the next block while they compute
    elif isinstance(residency, Clusters):
        life += CLUSTER
    if form.looked_up:
        life += LOOKED_UP
    past = [m for m in kernel.reads if _policy(m, schedule) == "no_l1"]
    if past and not kernel.inner and launched:
        life += SAME_PAST * max(_asking(m, kernel, form, device) for m in past)
    if sum(m.size for m in kernel.reads) <= device.first:
        # Consecutive blocks of an agent find what the block before has read.
        life += FROM_L2 if past else _fresh(kernel, form, device) if launched else 0.0
    else:
        planned = [_reached(m, kernel, form, device) for m in kernel.reads if m.kind != DATA]
        life += FIRST_DATA + OPENED * (1 - sum(planned) / max(len(planned), 1))
    if any(m.kind == DATA for m in kernel.reads):
        life += FIRST_DATA  # the indices have to arrive first
    cycles = form.index * INDEX_SLOT + done.doublings * LINES
    if not kernel.regular:
        cycles += done.waiting
    if kernel.inner:
        iterations = math.prod(kernel.inner)
        step = in_step(kernel, done, device)
        cycles += iterations * (
            ITERATION + CONTENDED * _contended_lines(kernel, form, device, iterations, step)
        )
        cycles += iterations * FROM_DRAM * _from_dram(kernel, form, device, iterations)
        if step:
            rows = _rows_at_once(kernel, form, device) / device.units
            cycles += iterations * ROW_DISTANCE_LIMIT * math.log2(max(rows, 1))
        if math.prod(form.sharing) > 1:
            # Few warps with many instructions each: their instructions are issued one after the
            # other, and iterations hardly overlap.
            cycles += done.own + iterations * APIECE
    else:
        each = [shared_loads(m, form.sharing, ()) / _together(m, form, kernel)
                for m in kernel.reads]  # fmt: skip
        cycles += math.prod(form.patch) * sum(each) * LOAD
    life += cycles / device.clock
    # Blocks outside the domain exit after their index arithmetic.
    within = form.walk.inside / max(form.walk.size, 1)
    life = life * within + (LIFE + form.index * INDEX_SLOT / device.clock) * (1 - within)
    return max(blocks / (device.units * fit), 1.0) * life, launched * DISPATCH


def _fresh(kernel: KernelMaps, form: Form, device: Ceilings) -> float:
    """Seconds until a block has the data that its multiprocessor's earlier blocks did not read."""
    now, wave = _resident_ids(form, device)
    reads = [m for m in kernel.reads if m.kind != DATA]
    if not reads or now[1][0] + 2 * wave > form.walk.size:
        return 0.0
    grown = []
    for starts, length in zip(now, (form.ids, wave), strict=True):
        boxes = (form.walk.boxes(s, length) for s in (starts, np.append(starts, starts + wave)))
        before, after = (union_lines(reads, *b, 32, kernel.inner) for b in boxes)
        grown.append(after - before)
    alone, together = grown
    if alone <= 0:
        return 0.0
    return FROM_L2 + SAME * device.units * alone / max(together, alone)


def _asking(m: Map, kernel: KernelMaps, form: Form, device: Ceilings) -> float:
    """The number of multiprocessors that request the same sector of an array at a time."""
    if m.kind == DATA:
        return 0.0
    now, wave = _resident_ids(form, device)
    boxes = (form.walk.boxes(s, n) for s, n in zip(now, (form.ids, wave), strict=True))
    alone, together = (union_lines([m], *b, 32, kernel.inner) for b in boxes)
    return device.units * alone / max(together, alone)


def _resident_ids(form: Form, device: Ceilings) -> tuple[tuple[Points, Points], int]:
    """The first ids of the resident blocks of one multiprocessor, and of all resident blocks; and
    the number of the latter's ids."""
    order, units = np.arange(resident(form)), device.units
    wave = len(order) * units * form.ids
    first = form.walk.at(3 / 8) // wave * wave
    mine = first + (order * units + order * SCATTER % units) * form.ids
    return (mine, np.array([first])), wave


def _reached(m: Map, kernel: KernelMaps, form: Form, device: Ceilings) -> float:
    """The fraction of an array's row that all resident blocks reach."""
    if not m.shape:
        return 1.0
    together = form.ids * resident(form) * device.units
    low, high = form.walk.boxes(form.walk.at(3 / 8, together) // form.ids * form.ids, together)
    begin, end = array_boxes(m, low, high, kernel.inner)
    return float(end[:, -1].max() - begin[:, -1].min()) / max(m.shape[-1], 1)


def _rows_stored(m: Map, kernel: KernelMaps, form: Form, device: Ceilings) -> float:
    """Rows of an array that all resident blocks store to; one per output if data-dependent."""
    outputs = form.ids * math.prod(form.walk.unit) * resident(form) * device.units
    outputs = min(outputs, kernel.size)
    if m.kind == DATA or not m.shape:
        return float(outputs)
    return max(outputs / max(_reached(m, kernel, form, device) * m.shape[-1], 1), 1.0)


def _contended_lines(
    kernel: KernelMaps, form: Form, device: Ceilings, iterations: int, step: bool
) -> float:
    """Lines that a warp fetches into the L1 in an iteration of its loops, times the multiprocessors
    that request each at that time.  They are all lines that its multiprocessor reads, divided by
    iterations and warps, or those of its own block if blocks are not in `step`."""
    mine = _resident_ids(form, device)[0][0]
    mine = mine[mine < form.walk.size][: None if step else 1]
    warps, total = max(form.threads / 32, 1) * max(len(mine), 1), 0.0
    for m in (m for m in kernel.reads if m.kind != DATA):
        lines = union_lines([m], *form.walk.boxes(mine, form.ids), 128, kernel.inner)
        total += min(lines / iterations / warps, 1) * _asking(m, kernel, form, device)
    return total


def in_step(kernel: KernelMaps, done: Work, device: Ceilings) -> bool:
    """Whether the blocks of a multiprocessor iterate in step.  If the L1 limits them, a block that
    is ahead misses, and one that is behind hits (58 to 71 % of the sectors of A·B in columns of
    blocks of one row); if instructions limit them, they drift apart (18 to 23 % of those of
    Aᵀ·B)."""
    cycles = device.clock * device.units
    return bool(kernel.inner) and done.wavefronts / cycles >= done.issue / device.issue


def _rows_at_once(kernel: KernelMaps, form: Form, device: Ceilings) -> float:
    """Rows of an array that all resident blocks read at the same time, each along the row."""
    last = len(kernel.outputs)
    found = 1.0
    for m in kernel.reads:
        if m.coefficients and m.strides[last:] and m.strides[-1] == 1 and m.size:
            now, wave = _resident_ids(form, device)
            lines = union_lines([m], *form.walk.boxes(now[1], wave), 128, kernel.inner)
            found = max(found, lines * 128 / max(m.shape[-1] * m.element, 128))
    return found


def _from_dram(kernel: KernelMaps, form: Form, device: Ceilings, iterations: int) -> float:
    """Lines from DRAM that a block waits for in an iteration of its loops, at most one: of arrays
    of which all resident blocks together read more than the L2 holds, so that no line is left for
    later blocks."""
    now, wave = _resident_ids(form, device)
    low, high = form.walk.boxes(now[1], wave)
    mine = form.walk.boxes(now[0][:1], form.ids)
    lines = [union_lines([m], *mine, 128, kernel.inner) for m in kernel.reads if m.kind != DATA
             and union_lines([m], low, high, 128, kernel.inner) * 128 > device.shared]  # fmt: skip
    return min(sum(lines) / iterations, 1.0)
