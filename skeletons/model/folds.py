"""The time of a fold on a GPU under a schedule, and `Auto` for folds.

A fold reads everything once in any order.  A schedule changes how many leaves (parts of rows,
strips of columns: `lower/visits.py`) a block folds in sequence, and the size of its code.  A few
blocks with many leaves each leave multiprocessors idle, and a single block keeps too few bytes in
flight.  Fewer blocks are resident if they need more registers, and those that only partly fill a
second wave run alone.

Orders therefore differ only in how many blocks access memory at a time, and the lowering without a
schedule has the most.  The axis along which neighbouring lanes fold is not part of a schedule,
because it decides how elements are grouped (`skeletons/lower/fold/rows.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from treadle.dsl.expr import Expr
from treadle.dsl.graph import Fold, FoldSeg, Node, Permute, Scan
from treadle.dsl.graphs.names import evaluate
from treadle.dsl.text import duration
from treadle.skeletons.schedules import Agents, Block, Column, Row, Schedule, as_schedule

from ..access.maps import DATA, VERTICAL, KernelMaps, access_classes, kernel_maps
from ..lower.fold import gpu as gpu_folds
from ..lower.fold.rows import is_exact, runs_across
from ..lower.gpu.unroll import REGISTERS
from .choose import MARGIN, WORTH, OncePerExtents
from .coverage import BLOCK_INDEX, OWN_INDEX, lowering_of
from .device import Ceilings
from .gpu import DISPATCH, FIRST_DATA, INDEX_SLOT, LIFE, RESIDENT_THREADS
from .time import least_bytes

#: Threads of a block, and the bytes per second that a single block gets from memory: each of its
#: 256 threads waits for 4 vectors of 16 bytes.
THREADS, OF_BLOCK = 256, 18.5e9
#: Registers of a thread for anything but loads in flight, and for its 4 vectors in flight: if the
#: compiler allots fewer, fewer loads are in flight.
OTHERS, WAITED_FOR = 21, 16
#: Seconds that a block waits for a register spilled before its loop: everything it has read since
#: went through the L1.
SPILLED = 0.93e-6
#: Registers if the fold was not compiled: few enough for the most blocks of a multiprocessor.
LEAN = 32
#: The power of the norm that combines the demand of blocks and the memory bandwidth, as times.
TOGETHER = 3.0


def predict_fold(kernel: KernelMaps, schedule: Schedule | None, device: Ceilings,
                 registers: int = 0, spilled: bool = False) -> float:  # fmt: skip
    """Seconds that a fold of one array, or several of the same extents, takes on a GPU.

    `registers`: of a thread, as compiled; 0: few enough for the most blocks of a multiprocessor.
    `spilled`: the compiler spilled some.  Raises `ScheduleError` when the schedule does not fit.
    """
    total, taken = least_bytes(kernel, device.piece), registers or LEAN
    # Without a schedule, a block folds one leaf.
    tasks, leaves = (_blocks(kernel, s, device) for s in (schedule, None))
    fit = min(RESIDENT_THREADS, REGISTERS // (-(-taken // 8) * 8)) // THREADS
    residency = None if schedule is None else schedule.residency
    index = _index_cycles(schedule) / device.clock
    launched, waits = tasks * DISPATCH, leaves / tasks * index
    if isinstance(residency, Agents):
        fit, launched, waits = min(fit, residency.per_sm), 0.0, waits + FIRST_DATA
    # For each leaf in sequence: the time of its bytes, and the time to compute its index.
    each = total / tasks
    own = OF_BLOCK * min(max(taken - OTHERS, 1) / WAITED_FOR, 1.0) if registers else OF_BLOCK
    own = each / (each / own + waits)
    together = device.units * max(fit, 1)
    # Blocks that begin in step end in step: those that only partly fill the second wave run alone.
    # Later waves are out of step, and a block begins whenever another ends.
    full, last = divmod(tasks, together)
    if full != 1:
        full, last = 0, tasks
    asked = full * together * _time(together, own, device)
    asked += last * _time(min(last, together), own, device)
    again = SPILLED * max(tasks / together, 1.0) if spilled else 0.0
    return device.launch + max(launched, LIFE + FIRST_DATA + index + asked * each + again)


def _time(count: int, own: float, device: Ceilings) -> float:
    """Seconds per byte if `count` blocks request bytes together, each at most at the rate `own`."""
    if not count:
        return 0.0
    parts = (count * own, device.dram)
    return float(sum(rate**-TOGETHER for rate in parts) ** (1 / TOGETHER))


def _blocks(kernel: KernelMaps, schedule: Schedule | None, device: Ceilings) -> int:
    """The thread blocks of the lowering under a schedule, or without one."""
    made = gpu_folds.blocks(*lowering_of(kernel.node, schedule, device))
    return evaluate(made, kernel.known) or 1


def _index_cycles(schedule: Schedule | None) -> float:
    """Cycles for the index of a leaf in an order, beyond those of the row order."""
    order = None if schedule is None else schedule.order
    slots = BLOCK_INDEX.get(type(order or Row()).__name__, OWN_INDEX)
    return (slots - BLOCK_INDEX["Row"]) * INDEX_SLOT


# --- the choice ----------------------------------------------------------------------------------

#: Candidates next to the lowering without a schedule: an order of leaves, several to a block.
POOL: tuple[Schedule, ...] = tuple(
    as_schedule(s)
    for s in (Column(256), Row() | Block(8, 32), Row() | Block(32, 32), Row() | Block(1, 256))
)

#: Elements of a row from which on a row gets a block of threads (`lower/fold/gpu_rows.py`).
SHORTEST = 4096


@dataclass(frozen=True)
class FoldChoice:
    """The predicted seconds without a schedule, and for each of `others`."""

    plain: float
    others: tuple[tuple[Schedule, float], ...]

    @property
    def schedule(self) -> Schedule | None:
        """The best of `others` if its predicted gain is large enough, as in `choose.py`."""
        if not self.others:
            return None
        best, seconds = min(self.others, key=lambda o: o[1])
        return best if seconds < min(MARGIN * self.plain, self.plain - WORTH) else None

    def lines(self) -> list[str]:
        ranked = sorted(self.others, key=lambda o: o[1])
        shown = ", ".join(f"{s!r} {duration(t)}" for s, t in ranked)
        if not shown:
            return [f"{duration(self.plain)} predicted; the extents are too small for others"]
        if self.schedule is None:
            return [f"{duration(self.plain)} predicted, and no candidate is faster: {shown}"]
        return [f"{duration(self.plain)} predicted without a schedule: {shown}"]


class FoldDecider(OncePerExtents):
    """The choice for one fold on a GPU."""

    node: Fold

    def choice(self, known: Mapping[Expr, int], complete: bool = False) -> FoldChoice | None:
        """None if extents are unknown, if results share reads (no order of leaves is known to be
        better), and for short rows, of which a thread folds several without a schedule."""
        kernel = kernel_maps(self.node, known)
        if kernel is None or not kernel.size or 0 in kernel.inner or not reads_once(kernel):
            return None
        if math.prod(kernel.inner) < SHORTEST and not runs_across(self.node):
            return None
        fit = [s for s in POOL if _fits(s, kernel)]
        others = tuple((s, predict_fold(kernel, s, self.device)) for s in fit)
        return FoldChoice(predict_fold(kernel, None, self.device), others)


def reads_once(kernel: KernelMaps) -> bool:
    """Whether no two elements of a fold read the same array element."""
    extents = (*kernel.outputs, *kernel.inner)
    return all(
        m.kind == "affine"
        and m.taps == 1
        and all(n == 1 or any(c[k] for c in m.coefficients) for k, n in enumerate(extents))
        for m in kernel.reads
    )


def _fits(schedule: Schedule, kernel: KernelMaps) -> bool:
    height, width = max(math.prod(kernel.inner), 1), max(kernel.size, 1)
    if isinstance(schedule.order, Column) and schedule.order.width >= width:
        return False
    rows, cols = (1, 1) if schedule.block is None else schedule.block.extents
    return rows < 2 * height and cols < 2 * width


def why_not(node: Node, gpu: bool) -> str:
    """Why a fold, a scan or a permute has no choice."""
    if isinstance(node, Fold):
        return _of_fold(node)
    if isinstance(node, Permute):
        return _of_permute(node, gpu)
    if isinstance(node, Scan):
        return "each result needs the one before it, and every element is read once"
    if isinstance(node, FoldSeg):
        return "segment lengths depend on data: threads divide the work by elements"
    return "a matrix product has an order of its own"


def _of_fold(node: Fold) -> str:
    """The axis along which neighbouring lanes fold, and why."""
    if not node.outer:
        return "a fold of everything is one row, read once from end to end"
    if runs_across(node):
        return "neighbouring lanes fold different results, which share a cache line"
    kept = "" if is_exact(node.combine) else ", and sums of floats keep their grouping"
    return f"neighbouring lanes fold the same row{kept}"


def _of_permute(node: Permute, gpu: bool) -> str:
    stores = [a for a in access_classes(node) if a.store]
    if any(a.kind == DATA for a in stores):
        return "target indices depend on data (a LocalityGraph may group blocks that share lines)"
    if any(a.classes == (VERTICAL,) for a in stores) and not gpu:
        return "updates of the same element keep the order of the source, and threads divide them"
    return "elements are stored row by row, or to a few indices"
