"""What a fold costs on a GPU under a schedule: its bytes, and the tasks that they are dealt out to.

A fold reads everything once in any order.  What a schedule changes is how many leaves (parts of
rows, strips of columns: `skeletons/visits.py`) a block of threads has one after the other: few
blocks with much each leave multiprocessors without work, and a block alone does not ask memory for
enough at a time.
"""

from __future__ import annotations

import math

from treadle.skeletons.schedules import Agents, Schedule

from .device import Ceilings
from .gpu import DISPATCH, FIRST_DATA, LIFE, RESIDENT_THREADS
from .maps import KernelMaps
from .model import Prediction, least_bytes

#: Threads of a block, and bytes a second that a block by itself gets from memory: 256 threads that
#: wait for 4 vectors of 16 bytes each (a fold of 8 192 rows in 32 blocks takes 456 us: measured).
THREADS, OF_BLOCK = 256, 18.5e9
#: Blocks that rows are cut into altogether; elements of a block below which it does not pay.
BLOCKS, LEAST = 16384, 8 * 4 * THREADS
#: Elements of a strip of columns side by side.
STRIP = 128


def predict_fold(kernel: KernelMaps, schedule: Schedule | None, device: Ceilings) -> Prediction:
    """The cost of a fold of one array, or several of the same extents, on a GPU.

    Raises `ScheduleError` when the schedule does not fit.
    """
    total = least_bytes(kernel, device.piece)
    tasks = _tasks(kernel, schedule)
    fit = RESIDENT_THREADS // THREADS
    residency = None if schedule is None else schedule.residency
    launched = float(tasks)
    if isinstance(residency, Agents):
        fit, launched = min(fit, residency.per_sm), 0.0
    together = device.units * fit
    life = LIFE + FIRST_DATA + total / tasks / OF_BLOCK
    turnover = max(launched * DISPATCH, math.ceil(tasks / together) * life)
    # What all that run ask for together is more than memory gives: then that is the time.
    rate = min(tasks, together) * OF_BLOCK
    if rate > device.dram:
        turnover = max(launched * DISPATCH, LIFE + FIRST_DATA + total / rate)
    work = kernel.operations * kernel.size / 32 + kernel.loads * kernel.size / 128
    seconds = (total / device.dram, total / device.far, work / device.issue, 0.0)
    return Prediction(schedule, total, total, work, 0.0, seconds, device.launch, False, turnover)


def _tasks(kernel: KernelMaps, schedule: Schedule | None) -> int:
    """Blocks of threads: of leaves, as many as a block of the schedule covers."""
    rows, count = max(kernel.size, 1), max(math.prod(kernel.inner), 1)
    along = any(m.strides and abs(m.strides[-1]) == 1 for m in kernel.reads)
    if along:  # rows of the array are folded
        parts = max(min(BLOCKS // rows, count // LEAST), 1)
        leaf, leaves = (-(-count // parts), 1), rows * parts
    else:
        parts = max(BLOCKS * THREADS // 8 // rows, 1)
        leaf, leaves = (-(-count // parts), STRIP), -(-rows // STRIP) * parts
    if schedule is None or not (schedule.block or schedule.per_thread or schedule.lanes):
        return leaves
    unit = schedule.resolve(2, leaf=leaf).unit
    return max(-(-leaves // math.prod(unit)), 1)
