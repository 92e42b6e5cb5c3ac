"""How the lowerings cover a domain under a schedule: units in an order, and threads within them.

The lowering without a schedule has a form as well.  The rules summarise those of `skeletons/lower`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from treadle.dsl.access import DATA
from treadle.skeletons.schedules import (
    Clusters,
    Hilbert,
    LocalityGraph,
    Morton,
    Order,
    PlaneOrder,
    Row,
    Schedule,
    as_schedule,
)
from treadle.skeletons.schedules.block_table import looked_up

from ..access.footprint import with_inner
from ..access.maps import KernelMaps, Map, Points
from ..lower.transpose.cpu import sides
from .device import Ceilings
from .walk import Walk, points_of

#: Issue slots for the index arithmetic of a thread's outputs, by order; compiled for sm_90a.
#: Integer instructions count twice: their units are half as wide.  First where elements are
#: visited, then blocks.  Curves use 32 bits where extents allow it (in 64 bits: 125 and 210).
INDEX = {"Row": 25, "Column": 50, "ZigZag": 57, "Tile": 70, "Swizzle": 50, "Morton": 79,
         "Hilbert": 116, "Table": 45}  # fmt: skip
BLOCK_INDEX = {"Row": 35, "Column": 48, "ZigZag": 54, "Tile": 58, "Swizzle": 38, "Morton": 92,
               "Hilbert": 129, "Table": 50}  # fmt: skip
#: … on a CPU, which uses 64 bits.
CPU_INDEX = INDEX | {"Morton": 125, "Hilbert": 210}
#: … of a user-defined order; of rows in sequence; and the extra slots of a curve on a line, some of
#: whose ids are beyond the end.
OWN_INDEX, ROWS_INDEX, BEYOND = 75, 12, 2
#: Where warps are sampled, as fractions of the domain: not at its edges.
POSITIONS = (0.371, 0.537, 0.713)
#: Extra slots if a GPU looks up which block comes next, beyond those of the row order; and if
#: blocks come in clusters, in which a block has to find its position (14 instructions counted).
LOOK_UP, IN_CLUSTER = 6, 13
#: … for every axis beyond two (one more division: 10 instructions counted).
ANOTHER_AXIS = 18
#: Bytes that a task moves on a CPU.
TASK_BYTES = 1 << 17


@dataclass(frozen=True)
class Form:
    """How a lowering covers a domain: units in an order, threads (lanes) within them.

    `ids`: units of one block or task; `patch`: outputs of a thread along every axis; `sharing`: of
    these, the outputs that share loaded values; `block`: at block grain; `staged`: transposing
    reads go through shared memory, or through tiles in a core's caches.  `following`: a rectangle
    of outputs that consecutive lanes compute.  `fit`: resident blocks of a multiprocessor at most;
    `stay`: these are persistent.  `looked_up`: a block first loads its position from a table.
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


def form_of(kernel: KernelMaps, schedule: Schedule | None, device: Ceilings, way: str) -> Form:
    """How the lowerings cover the domain of a kernel under a schedule."""
    rank = len(kernel.outputs)
    fixed = schedule is not None and (schedule.order or schedule.visits_blocks
                                      or schedule.per_thread)  # fmt: skip
    if schedule is None or not fixed or kernel.size <= 1:  # one output has no order
        return _together(kernel, device) or _default(kernel, device, way)
    plan = as_schedule(schedule).resolve(rank)
    order: Order = plan.order
    name, by_blocks = type(order).__name__, plan.grain == "block"
    if rank == 1 and isinstance(order, PlaneOrder):
        name = "Row"  # on a line these orders are all the same
    slots = BLOCK_INDEX if by_blocks else INDEX if device.gpu else CPU_INDEX
    index = slots.get(name, OWN_INDEX)
    if rank == 1 and isinstance(order, Morton | Hilbert):
        index += BEYOND
    if by_blocks and getattr(order, "width", 0) == 1:
        index = BLOCK_INDEX["Row"]  # columns of one block: one division less
    walk, patch = Walk(kernel.outputs, order, plan.unit), plan.per_thread
    plain = not by_blocks and type(order) is Row and max(plan.unit) == 1
    if not device.gpu:
        if plain:
            return _default(kernel, device, way)
        if by_blocks:
            return Form(walk, 1, 1, patch, True, rank - 1, False, ROWS_INDEX, patch)
        return Form(walk, _task(kernel), 1, patch, False, rank - 1, False, index, patch)
    # Single elements row by row are what happens without a schedule, except for tiles.
    if plain:
        return _default(kernel, device, "rows" if way == "tiles" else way, plan.threads)
    if way == "visits":
        ones, unit = (1,) * rank, math.prod(plan.unit) if by_blocks else 1
        index += VISIT_INDEX * (1 + by_blocks)
        return Form(Walk(kernel.outputs, order, plan.unit if by_blocks else ones),
                    max(VISITS // unit, 1), VISIT_THREADS, ones, by_blocks, rank - 1, False, index,
                    ones, patch, VISIT_FIT, True)  # fmt: skip
    residency = as_schedule(schedule).residency
    by_graph = isinstance(residency, LocalityGraph)
    index += IN_CLUSTER * isinstance(residency, Clusters) + ANOTHER_AXIS * max(rank - 2, 0)
    table = by_blocks and looked_up(order) and not by_graph
    if table:
        index += BLOCK_INDEX["Row"] + LOOK_UP - slots.get(name, OWN_INDEX)
        walk = dataclasses.replace(walk, table=True)
    # If there are loops, those of a thread's outputs share values; else only neighbours in a row.
    sharing = patch if kernel.inner else (*(1,) * (rank - 1), patch[-1])
    if not by_blocks:
        threads = plan.threads or THREADS
        return Form(walk, threads, threads, patch, False, rank - 1, False, index, sharing)
    # Warps outside the domain exit immediately, and other warps take their slots.
    covered = math.prod(min(u, n) for u, n in zip(plan.unit, kernel.outputs, strict=True))
    threads = min(max(covered // math.prod(patch), 1), 1024)
    registers = 32 + (math.prod(patch) - 1) * kernel.state // 4
    fit = max(REGISTERS // (registers * threads), 1)
    return Form(walk, 1, threads, patch, True, plan.lanes, False, index, sharing, (), fit,
                looked_up=table)  # fmt: skip


def _together(kernel: KernelMaps, device: Ceilings) -> Form | None:
    """The form of loops that a GPU lowering interleaves unasked (`lower/gpu/jam_neighbours.py`)."""
    from ..lower.gpu.jam_neighbours import MOST_STATE, PLANS

    rank = len(kernel.outputs)
    if not device.gpu or rank < 2 or not kernel.inner or not kernel.regular:
        return None
    reads = [m for m in kernel.reads if m.coefficients]
    shared = any(m.strides[rank - 2] == 0 for m in reads)
    wide = any(abs(m.strides[rank - 1]) == 1 for m in reads)
    found = None
    for pair in PLANS:
        fit = [
            (block, own, own.rows * own.cols * least)
            for block, own, least in pair
            if own.rows * own.cols * kernel.state <= MOST_STATE and (wide or own.cols == 1)
        ]
        if fit and kernel.size >= fit[0][2] * device.units:
            found = Row() | fit[0][0] | fit[0][1]
    return form_of(kernel, found, device, "rows") if shared and found is not None else None


#: Registers per multiprocessor.
REGISTERS = 65536
#: Elements that a block of a permute takes at a time, its threads, and the number of such blocks
#: resident on a multiprocessor.
VISITS, VISIT_THREADS, VISIT_FIT = 4096, 512, 3
#: Extra slots for the index of an element of a permute in an order; twice that with blocks.
VISIT_INDEX = 8
#: Default threads of a block on a GPU; threads of a block that moves tiles.
THREADS, TILE_THREADS = 128, 512


def _default(kernel: KernelMaps, device: Ceilings, way: str, threads: int | None = None) -> Form:
    rank, domain = len(kernel.outputs), kernel.outputs
    ones, last = (1,) * rank, rank - 1
    lead = (1,) * max(rank - 2, 0)
    if way == "visits":
        return Form(Walk(domain, Row(), ones), VISITS, VISIT_THREADS, ones, False, last, False,
                    ROWS_INDEX, ones, (), VISIT_FIT, True)  # fmt: skip
    if way == "tiles" and rank > 1:
        across = _across(kernel)
        if not device.gpu:
            # For one read: nearly all such kernels have only one.
            width, length = sides([max(m.element for m in kernel.reads)])
            unit = tuple({across: width, last: length}.get(k, 1) for k in range(rank))
            return Form(Walk(domain, Row(), unit), 1, 1, ones, True, last, True, ROWS_INDEX, ones)
        unit = tuple(64 if k in (across, last) else 1 for k in range(rank))
        patch = tuple({across: 2, last: 4}.get(k, 1) for k in range(rank))
        return Form(Walk(domain, Row(), unit), 1, TILE_THREADS, patch, True, last, True, ROWS_INDEX,
                    ones)  # fmt: skip
    if device.gpu:
        threads = threads or THREADS
        wide = (
            1
            if kernel.inner or not kernel.regular
            else max(16 // max(m.element for m in kernel.maps), 1)
        )
        if way == "strips" and rank > 1:
            unit, patch = (*lead, 4 * (threads // 32), 32 * wide), (*lead, 4, wide)
            return Form(Walk(domain, Row(), unit), 1, threads, patch, True, last, False, ROWS_INDEX,
                        patch)  # fmt: skip
        patch = (*ones[:-1], wide)
        return Form(Walk(domain, Row(), patch), threads, threads, patch, False, last, False,
                    INDEX["Row"], patch)  # fmt: skip
    rows = 4 if way == "strips" else 1
    elements = _task(kernel)
    width = min(domain[-1], elements)
    height = max(elements // max(domain[-1], 1), rows)
    unit = (*lead, height, width) if rank > 1 else (width,)
    patch = (*lead, rows, 1) if rank > 1 else (1,)
    return Form(Walk(domain, Row(), unit), 1, 1, patch, True, last, False, ROWS_INDEX, patch)


def _across(kernel: KernelMaps) -> int:
    """The axis other than the last along which reads are contiguous."""
    rank = len(kernel.outputs)
    for m in kernel.reads:
        for k in range(rank - 2, -1, -1):
            if m.coefficients and abs(m.strides[k]) == 1:
                return k
    return rank - 2


def _task(kernel: KernelMaps) -> int:
    """Outputs of a task that reads and writes about TASK_BYTES."""
    size = sum(m.element for m in {m.leaf: m for m in kernel.maps}.values())
    return 1 << max(int(TASK_BYTES / max(size, 1)).bit_length() - 1, 6)


# --- what threads do ---------------------------------------------------------------------------


def operations(kernel: KernelMaps, form: Form) -> float:
    """Additions per output; what the rows of a thread have in common counts once."""
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
