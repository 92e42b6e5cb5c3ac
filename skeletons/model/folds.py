"""What a fold costs on a GPU under a schedule: its bytes, and the blocks that ask for them.

A fold reads everything once in any order.  What a schedule changes is how many leaves (parts of
rows, strips of columns: `lower/visits.py`) a block of threads has one after the other, and by
what its code grows: few blocks with much each leave multiprocessors without work, a block alone
does not ask memory for enough at a time, and blocks whose code takes more registers are fewer at a
time: those that do not fill the second wave of them are alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from treadle.skeletons.schedules import Agents, Row, Schedule

from ..access.maps import KernelMaps
from .coverage import BLOCK_INDEX, OWN_INDEX, REGISTERS
from .device import Ceilings
from .gpu import DISPATCH, FIRST_DATA, LIFE, PLACE, RESIDENT_THREADS
from .time import least_bytes

#: Threads of a block, and bytes a second that a block by itself gets from memory: 256 threads that
#: wait for 4 vectors of 16 bytes each (a fold of 8 192 rows in 32 blocks takes 450 us: measured).
THREADS, OF_BLOCK = 256, 18.5e9
#: Registers of a thread that hold anything but what it waits for, and that hold its 4 vectors:
#: where the compiler takes 32, fewer are on the way (256 blocks of 32 rows of 8 192: 97 us, with 40
#: registers 78: measured).
OTHERS, WAITED_FOR = 21, 16
#: Seconds that a block waits for what was put aside before its loop: all that it read since went
#: through the L1 (sums of 8 192 columns: 68.8 us with a spilled register, 66.8 without, of which
#: 0.2 for fewer registers; 1.94 blocks after each other).
SPILLED = 0.93e-6
#: Registers where nobody has compiled it: all blocks that a multiprocessor can have.
LEAN = 32
#: The power by which what blocks ask for and what memory gives add up, as times.
TOGETHER = 3.0
#: Blocks that rows are cut into altogether; elements of a block below which it does not pay.
BLOCKS, LEAST = 16384, 8 * 4 * THREADS
#: Elements of a strip of columns side by side, its rows below each other that are folded at a time,
#: and blocks that strips are cut into (`lower/fold/gpu_columns.py`).
STRIP, BELOW, STRIP_BLOCKS = 128, 8, 2112


@dataclass(frozen=True)
class _Blocks:
    """`tasks` blocks of threads, of `leaves` leaves each."""

    tasks: int
    leaves: float


def predict_fold(kernel: KernelMaps, schedule: Schedule | None, device: Ceilings,
                 registers: int = 0, spilled: bool = False) -> float:  # fmt: skip
    """Seconds that a fold of one array, or several of the same extents, takes on a GPU.

    `registers`: of a thread, as compiled, 0: so few that all blocks fit which could; `spilled`:
    there were not enough.  Raises `ScheduleError` when the schedule does not fit.
    """
    total, taken = least_bytes(kernel, device.piece), registers or LEAN
    blocks = _blocks(kernel, schedule)
    fit = min(RESIDENT_THREADS, REGISTERS // (-(-taken // 8) * 8)) // THREADS
    residency = None if schedule is None else schedule.residency
    place = _places(schedule) / device.clock
    launched, waits = blocks.tasks * DISPATCH, blocks.leaves * place
    if isinstance(residency, Agents):
        fit, launched, waits = min(fit, residency.per_sm), 0.0, waits + FIRST_DATA
    # A leaf after the other: its bytes as they come, and before it where it is.
    each = total / blocks.tasks
    own = OF_BLOCK * min(max(taken - OTHERS, 1) / WAITED_FOR, 1.0) if registers else OF_BLOCK
    own = each / (each / own + waits)
    together = device.units * max(fit, 1)
    # Blocks that begin in step end so: those that do not fill the second wave are alone.  Later
    # waves are out of step, and one goes on where another ends.
    full, last = divmod(blocks.tasks, together)
    if full != 1:
        full, last = 0, blocks.tasks
    asked = full * together * _time(together, own, device)
    asked += last * _time(min(last, together), own, device)
    again = SPILLED * max(blocks.tasks / together, 1.0) if spilled else 0.0
    return device.launch + max(launched, LIFE + FIRST_DATA + place + asked * each + again)


def _time(count: int, own: float, device: Ceilings) -> float:
    """Seconds a byte, where `count` blocks ask for them together and each gets `own` alone."""
    if not count:
        return 0.0
    parts = (count * own, device.dram)
    return float(sum(rate**-TOGETHER for rate in parts) ** (1 / TOGETHER))


def _places(schedule: Schedule | None) -> float:
    """Cycles for the place of a leaf in an order, beyond those of the order of rows."""
    order = None if schedule is None else schedule.order
    slots = BLOCK_INDEX.get(type(order or Row()).__name__, OWN_INDEX)
    return (slots - BLOCK_INDEX["Row"]) * PLACE


def _blocks(kernel: KernelMaps, schedule: Schedule | None) -> _Blocks:
    """Blocks of threads: of leaves, as many as a block of the schedule covers."""
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
