"""The time of a fold on a GPU under a schedule: its bytes, and the blocks that request them.

A fold reads everything once in any order.  A schedule changes how many leaves (parts of rows,
strips of columns: `lower/visits.py`) a block folds in sequence, and the size of its code.  A few
blocks with many leaves each leave multiprocessors idle, and a single block keeps too few bytes in
flight.  Fewer blocks are resident if they need more registers, and those that only partly fill a
second wave run alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from treadle.skeletons.schedules import Agents, Row, Schedule

from ..access.maps import KernelMaps
from .coverage import BLOCK_INDEX, OWN_INDEX, REGISTERS
from .device import Ceilings
from .gpu import DISPATCH, FIRST_DATA, INDEX_SLOT, LIFE, RESIDENT_THREADS
from .time import least_bytes

#: Threads of a block, and the bytes a second that a block alone gets from memory: its 256 threads
#: wait for 4 vectors of 16 bytes each (a fold of 8 192 rows in 32 blocks takes 450 us: measured).
THREADS, OF_BLOCK = 256, 18.5e9
#: Registers of a thread for anything but loads in flight, and registers for its 4 vectors: if the
#: compiler allots 32, fewer loads are in flight (256 blocks of 32 rows of 8 192: 97 us, with 40
#: registers 78: measured).
OTHERS, WAITED_FOR = 21, 16
#: Seconds that a block waits for a register that was spilled before its loop: everything that it
#: has read since went through the L1 (sums of 8 192 columns: 68.8 us with a spilled register, 66.8
#: without, of which 0.2 for fewer registers; 1.94 blocks after each other).
SPILLED = 0.93e-6
#: Registers if the fold was not compiled: few enough for the most blocks of a multiprocessor.
LEAN = 32
#: The power of the norm that combines the demand of blocks and the memory bandwidth, as times.
TOGETHER = 3.0
#: Most blocks that rows are split into in all; fewest elements of a block.
BLOCKS, LEAST = 16384, 8 * 4 * THREADS
#: Columns of a strip, its rows that are folded at a time, and most blocks that strips are split
#: into (`lower/fold/gpu_columns.py`).
STRIP, BELOW, STRIP_BLOCKS = 128, 8, 2112


@dataclass(frozen=True)
class _Blocks:
    """`tasks` blocks of threads, of `leaves` leaves each."""

    tasks: int
    leaves: float


def predict_fold(kernel: KernelMaps, schedule: Schedule | None, device: Ceilings,
                 registers: int = 0, spilled: bool = False) -> float:  # fmt: skip
    """Seconds that a fold of one array, or several of the same extents, takes on a GPU.

    `registers`: of a thread, as compiled; 0: few enough for the most blocks of a multiprocessor.
    `spilled`: the compiler spilled some.  Raises `ScheduleError` when the schedule does not fit.
    """
    total, taken = least_bytes(kernel, device.piece), registers or LEAN
    blocks = _blocks(kernel, schedule)
    fit = min(RESIDENT_THREADS, REGISTERS // (-(-taken // 8) * 8)) // THREADS
    residency = None if schedule is None else schedule.residency
    index = _index_cycles(schedule) / device.clock
    launched, waits = blocks.tasks * DISPATCH, blocks.leaves * index
    if isinstance(residency, Agents):
        fit, launched, waits = min(fit, residency.per_sm), 0.0, waits + FIRST_DATA
    # For each leaf in sequence: the time of its bytes, and the time to compute its index.
    each = total / blocks.tasks
    own = OF_BLOCK * min(max(taken - OTHERS, 1) / WAITED_FOR, 1.0) if registers else OF_BLOCK
    own = each / (each / own + waits)
    together = device.units * max(fit, 1)
    # Blocks that begin in step end in step: those that do not fill the second wave run alone.
    # Later waves are out of step, and a block begins whenever another one ends.
    full, last = divmod(blocks.tasks, together)
    if full != 1:
        full, last = 0, blocks.tasks
    asked = full * together * _time(together, own, device)
    asked += last * _time(min(last, together), own, device)
    again = SPILLED * max(blocks.tasks / together, 1.0) if spilled else 0.0
    return device.launch + max(launched, LIFE + FIRST_DATA + index + asked * each + again)


def _time(count: int, own: float, device: Ceilings) -> float:
    """Seconds per byte if `count` blocks request bytes together, each at most at the rate `own`."""
    if not count:
        return 0.0
    parts = (count * own, device.dram)
    return float(sum(rate**-TOGETHER for rate in parts) ** (1 / TOGETHER))


def _index_cycles(schedule: Schedule | None) -> float:
    """Cycles for the index of a leaf in an order, beyond those of the row order."""
    order = None if schedule is None else schedule.order
    slots = BLOCK_INDEX.get(type(order or Row()).__name__, OWN_INDEX)
    return (slots - BLOCK_INDEX["Row"]) * INDEX_SLOT


def _blocks(kernel: KernelMaps, schedule: Schedule | None) -> _Blocks:
    """The blocks of threads, with as many leaves as a block of the schedule covers."""
    count, outer = max(math.prod(kernel.inner), 1), kernel.outputs
    along = any(m.strides and abs(m.strides[-1]) == 1 for m in kernel.reads)
    if along:  # rows of the array are folded
        parts = max(min(BLOCKS // max(kernel.size, 1), count // LEAST), 1)
        leaf, grid = (-(-count // parts), *(1 for _ in outer)), (parts, *outer)
    else:
        strips = -(-outer[-1] // STRIP)
        many = max(math.prod(outer[:-1]) * strips, 1)
        parts = max(min(STRIP_BLOCKS // many, count // (BELOW * BELOW)), 1)
        span = math.ceil(math.ceil(count / parts) / BELOW) * BELOW
        leaf = (span, *(1 for _ in outer[1:]), STRIP)
        grid = (-(-count // span), *outer[:-1], strips)
    leaves = math.prod(grid)
    if schedule is None or not (schedule.block or schedule.per_thread or schedule.lanes):
        return _Blocks(leaves, 1.0)
    if kernel.size == 1 and len(kernel.inner) > 1:
        schedule = schedule.along_a_line()
    unit = schedule.resolve(len(grid), leaf=leaf).unit
    tasks = math.prod(-(-n // u) for n, u in zip(grid, unit, strict=True))
    return _Blocks(tasks, leaves / tasks)
