"""`Auto` for folds, and why folds, scans and permutes rarely have a choice.

A fold reads everything once in any order.  So orders differ only by how many blocks access memory
at a time (`folds.py`), and the lowering without a schedule has the most.  Along which axis
neighbouring lanes fold is not part of a schedule: it decides how elements are grouped
(`skeletons/lower/fold/rows.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from treadle.dsl.access import DATA
from treadle.dsl.expr import Expr, Extent, walk
from treadle.dsl.graph import Fold, FoldSeg, Node, Permute, Scan
from treadle.dsl.quantities import duration
from treadle.skeletons.schedules import Block, Column, Row, Schedule, as_schedule

from ..access.maps import VERTICAL, KernelMaps, access_classes, kernel_maps
from ..lower.fold.rows import is_exact, runs_across
from .choose import KEPT, MARGIN, WORTH
from .device import Ceilings
from .folds import predict_fold

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
        """The lines of `explain()`."""
        ranked = sorted(self.others, key=lambda o: o[1])
        shown = ", ".join(f"{s!r} {duration(t)}" for s, t in ranked)
        if not shown:
            return [f"{duration(self.plain)} predicted; the extents are too small for others"]
        if self.schedule is None:
            return [f"{duration(self.plain)} predicted, and no candidate is faster: {shown}"]
        return [f"{duration(self.plain)} predicted without a schedule: {shown}"]


class FoldDecider:
    """The choice for one fold on a GPU, the counterpart of `choose.Decider`."""

    def __init__(self, node: Fold, device: Ceilings) -> None:
        self.node, self.device = node, device
        roots = [*node.expressions(), *(e for le in node.inputs() for e in le.shape)]
        self.extents = tuple(e for e in walk(roots) if isinstance(e, Extent))
        self._made: dict[tuple[int, ...], Schedule | None] = {}

    def __call__(self, values: Sequence[int]) -> Schedule | None:
        """The schedule to use, None for the node's own; decided once per class of extents."""
        key = tuple([max(int(n) - 1, 0).bit_length() for n in values])
        try:
            return self._made[key]
        except KeyError:
            found = self.choice(dict(zip(self.extents, map(int, values), strict=True)))
            if len(self._made) >= KEPT:
                self._made.clear()
            schedule = self._made[key] = None if found is None else found.schedule
            return schedule

    def choice(self, known: Mapping[Expr, int]) -> FoldChoice | None:
        """None where extents are unknown, where results share reads (no order of leaves is known to
        be better), and for short rows, of which a thread folds several without a schedule."""
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
    """Why there is nothing to choose for a fold, a scan or a permute."""
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
    """Along which axis neighbouring lanes fold, and why."""
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
