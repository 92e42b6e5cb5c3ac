"""What a kernel costs on a GPU beside the bytes of its memory: instructions, wavefronts of the L1,
bytes between L2 and L1s, and blocks that come and go.

    issue       slots of the schedulers; integer instructions take two, their units are half as wide
    wavefronts  banks of the L1 that a warp's words meet in, and lines that its words straddle
    far         sectors that the blocks of one multiprocessor share, each request of a line at least
    turnover    one block after the other is launched, and each lives as long as its latencies
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from treadle.dsl.access import DATA
from treadle.skeletons.schedules import Agents, Clusters, Hilbert, Hints, LocalityGraph, Schedule

from .device import Ceilings
from .footprint import union_lines, with_inner
from .forms import PLACES, Form, lanes_of, operations, shared_loads
from .maps import HORIZONTAL, RANDOM, STREAMING, VERTICAL, KernelMaps, Map, Points

#: Threads of a multiprocessor, and blocks.
RESIDENT_THREADS, RESIDENT_BLOCKS = 2048, 32
#: Cycles of the L1 for each line that a warp's words are on beside what their banks need: 32 lanes
#: in 32 lines without a conflict take 9.3 cycles (measured on an H200).
STRADDLE = 0.27
#: Words of a bank, of four bytes, that the L1 delivers in a cycle; and banks.
BANKS = 32
#: Bytes that the L2 could have delivered while it answers for one line, however little is asked of
#: it: transposing 16 384 squared row by row takes 1.88 ms (measured), not 1.0.  Of a store that
#: leaves part of a sector as it was: what the L2 has to read first.
REQUEST, PARTIAL = 64, 176
#: Of the sectors that a multiprocessor asks for: those that no other one near it asks for at that
#: time (the L2 answers these together): 17 taps down a column, in blocks of a row, take 88 us
#: (measured), not 146.
ALONE = 0.6
#: Seconds from one block's launch to the next one's: 262 144 blocks of any kind take 157 us.
DISPATCH = 0.6e-9
#: Seconds that a block lives whatever it does (launch, addresses, the last store); more until data
#: from L2 or DRAM is there, and where agents take it from a queue.
LIFE, FIRST_DATA, QUEUE = 0.35e-6, 0.47e-6, 0.12e-6
#: Cycles more that a block lives for every load of a thread, and for every turn of a loop, whose
#: loads wait for each other.
LOAD, TURN = 54.0, 143.0
#: How much longer a turn is where every warp brings in a line of its own, and waits for L2.
WAITING = 0.43
#: How much longer a turn takes under an order whose coordinates are computed in 64 bits, so that
#: the addresses in the loop are, too.
WIDE = 1.5
#: Where the blocks of a multiprocessor are among the ids of a wave: coprime to most grids.
SCATTER = 53
#: The names of access classes in hints.
_CLASSES = {HORIZONTAL: "horizontal", VERTICAL: "vertical", STREAMING: "stream", RANDOM: "random"}


@dataclass(frozen=True)
class Work:
    """Warp instructions, wavefronts of the L1, bytes written to L2, bytes read past the L1."""

    issue: float
    wavefronts: float
    written: float
    past: float


def resident(form: Form) -> int:
    """Blocks of a multiprocessor at a time."""
    return max(min(RESIDENT_THREADS // max(form.threads, 1), RESIDENT_BLOCKS), 1)


def work(kernel: KernelMaps, form: Form, schedule: Schedule | None) -> Work:
    """What the warps do.  Several places are looked at; the domain is taken to be like them."""
    patch = math.prod(form.patch)
    warps = kernel.size / patch / 32
    loads = [shared_loads(m, form.sharing, kernel.inner) for m in kernel.reads]
    turns = math.prod(kernel.inner) if kernel.inner else 1
    each = operations(kernel, form) + 1.5 * sum(loads) + len(kernel.stores) + 0.5 * turns / patch
    points = np.concatenate([lanes_of(form, part) for part in PLACES])
    first = with_inner(points, [min(n, 1) for n in kernel.inner])
    wavefronts = written = past = 0.0
    for m, load in zip(kernel.reads, loads, strict=True):
        wide = _together(m, form, kernel)
        cycles, sectors, lines = _access(m, form, first, wide)
        wavefronts += load * patch / wide * cycles
        if _policy(m, schedule) == "no_l1":
            past += load * patch / wide * max(sectors * 32, lines * REQUEST)
    for m in kernel.stores:
        wide = _together(m, form, kernel)
        cycles, sectors, _ = _access(m, form, first, wide)
        full = min(32, 32 * m.element * wide / sectors)
        wavefronts += patch / wide * cycles
        written += patch / wide * sectors * (32 if full >= 32 else PARTIAL)
    return Work(warps * (patch * each + form.index), warps * wavefronts, warps * written,
                warps * past)  # fmt: skip


def _together(m: Map, form: Form, kernel: KernelMaps) -> int:
    """Neighbours of a thread that one instruction loads or stores: up to 16 bytes of a row."""
    axis = len(kernel.outputs) - 1
    if not m.coefficients or axis < 0 or abs(m.strides[axis]) != 1:
        return 1
    return math.gcd(form.patch[-1], max(16 // m.element, 1))


def _access(m: Map, form: Form, first: Points, wide: int) -> tuple[float, float, float]:
    """(cycles of the L1, sectors, lines) of an access of a warp, `wide` neighbours of a lane."""
    if form.staged or m.rows:
        return float(wide), 4.0 * wide, float(wide)
    if m.kind == DATA:
        return 1 + STRADDLE * 31, 32.0, 32.0
    places = m.addresses(first).reshape(m.taps * len(PLACES), -1)
    words = max(wide * m.element // 4, 1)
    if words > 1:
        places = (places[:, :, None] + 4 * np.arange(words)).reshape(len(places), -1)
    # Wide accesses are done by halves and quarters of the warp.
    parts = np.array_split(places, min(words, 4), axis=1)
    found = np.sum([_banks(part) for part in parts], 0)
    lines = _distinct(places // 128)
    cycles = found + STRADDLE * np.maximum(lines - found, 0)
    return float(cycles.mean()), float(_distinct(places // 32).mean()), float(lines.mean())


def _banks(addresses: Points) -> Points:
    """For every row of byte addresses, the most words that meet in one bank."""
    words = np.sort(addresses // 4, 1)
    new = np.ones(words.shape, np.bool_)
    new[:, 1:] = words[:, 1:] != words[:, :-1]
    places = words % BANKS + BANKS * np.arange(len(words))[:, None]
    counts = np.bincount(places[new], minlength=BANKS * len(words))
    found: Points = counts.reshape(-1, BANKS).max(1)
    return found


def _distinct(rows: Points) -> Points:
    """Distinct values of each row."""
    ordered = np.sort(rows, 1)
    found: Points = 1 + np.count_nonzero(np.diff(ordered, axis=1), axis=1)
    return found


def _policy(m: Map, schedule: Schedule | None) -> str | None:
    """What the hints of a schedule say of an array: by its most local class."""
    hints = None if schedule is None else schedule.hints
    if not isinstance(hints, Hints) or not m.classes:
        return None
    given: str | None = getattr(hints, _CLASSES[m.classes[0]])
    return given


def from_l2(kernel: KernelMaps, form: Form, device: Ceilings, done: Work,
            schedule: Schedule | None) -> float:  # fmt: skip
    """Bytes between L2 and L1s: every warp's stores, what is read past the L1, and other reads,
    which the blocks of one multiprocessor share.

    A line costs a REQUEST at least.  Blocks that are together come from all over a wave, one from
    every `units` ids, in no fixed order (measured); those of agents and clusters follow each other.
    Where one turn of their loops touches more than the L1 holds, every turn fetches its sectors
    again.
    """
    reads = [m for m in kernel.reads if m.kind != DATA and _policy(m, schedule) != "no_l1"]
    total = done.written + done.past
    for m in kernel.reads:
        if m.kind == DATA:
            total += kernel.size * m.turns * m.taps * (m.element if m.rows else REQUEST)
    walk, step = form.walk, form.ids
    blocks = -(-walk.size // step)
    if not reads or not blocks:
        return total
    taken = min(resident(form), max(blocks // device.units, 1))
    first = max(blocks * 3 // 8 - taken * device.units // 2, 0)
    order = np.arange(taken)
    spread = order * device.units + order * SCATTER % device.units
    residency = None if schedule is None else schedule.residency
    if isinstance(residency, Agents | LocalityGraph | Clusters):
        spread = order
    starts = (first + spread) * step
    low, high = walk.boxes(starts[starts < walk.size], step)
    live = union_lines(reads, low, high, 128, [min(n, 1) for n in kernel.inner]) * 128
    inner: Sequence[int] = kernel.inner
    turns = 1
    if live > device.first and kernel.inner:
        inner, turns = [min(n, 1) for n in kernel.inner], math.prod(kernel.inner)
    sectors = union_lines(reads, low, high, 32, inner) * 32 * ALONE
    lines = union_lines(reads, low, high, 128, inner) * REQUEST
    return total + max(sectors, lines) * turns * blocks / taken


def turnover(kernel: KernelMaps, form: Form, device: Ceilings, schedule: Schedule | None
             ) -> float:  # fmt: skip
    """Seconds that blocks take to come and go: launched one by one, each as long as it lives,
    as many at a time as fit."""
    blocks = -(-form.walk.size // form.ids)
    residency = None if schedule is None else schedule.residency
    fit, life, launched = resident(form), LIFE, float(blocks)
    if isinstance(residency, Agents | LocalityGraph):
        fit = min(fit, residency.per_sm) if isinstance(residency, Agents) else fit
        life, launched = life + QUEUE, 0.0
    if sum(m.size for m in kernel.reads) > device.first:
        life += FIRST_DATA
    cycles = form.index
    if kernel.inner:
        wide = WIDE if isinstance(form.walk.order, Hilbert) else 1.0
        turns = math.prod(kernel.inner)
        cycles += turns * TURN * wide * (1 + WAITING * min(_new_lines(kernel, form, turns), 1))
    else:
        each = [shared_loads(m, form.sharing, ()) / _together(m, form, kernel)
                for m in kernel.reads]  # fmt: skip
        cycles += math.prod(form.patch) * sum(each) * LOAD
    life += cycles / device.clock
    return max(launched * DISPATCH, blocks / (device.units * fit) * life)


def _new_lines(kernel: KernelMaps, form: Form, turns: int) -> float:
    """Lines that a warp brings into the L1 in a turn of its loops: what its block reads in all, by
    turns and warps."""
    reads = [m for m in kernel.reads if m.kind != DATA]
    low, high = form.walk.boxes(form.walk.size * 3 // 8 // form.ids * form.ids, form.ids)
    warps = max(form.threads / 32, 1)
    return union_lines(reads, low, high, 128, kernel.inner) / turns / warps if reads else 0.0
