"""`Auto`: the schedule with the least predicted time, chosen without running anything.

A kernel has a choice where its elements are independent, lie over two axes or more, and share
what they read; everything else is done as treadle does it without a schedule.  That is also what
stays wherever the model does not promise clearly more (`MARGIN`): a model errs, and a wrong choice
is worse than none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from treadle.dsl.expr import Expr, Extent, walk
from treadle.dsl.graph import Generate, Node, Permute
from treadle.skeletons.schedules import (
    Block,
    Column,
    PerThread,
    Row,
    Schedule,
    ScheduleLike,
    ZigZag,
    as_schedule,
)
from treadle.skeletons.schedules.errors import ScheduleError

from .device import Ceilings
from .maps import STREAMING, VERTICAL, KernelMaps, access_classes, kernel_maps
from .model import Prediction, predict

#: Another schedule has to promise less than this part of the time.
MARGIN = 0.9
#: … and save so many seconds: other code has to be compiled, once.
WORTH = 30e-6
#: Times this close are equal: then the sum of the four terms decides.
EQUAL = 1.02

#: Orders of single elements, for a GPU.
ORDERS: tuple[ScheduleLike, ...] = (
    Column(8), Column(16), Column(32), Column(64), Column(256), ZigZag(128),
)  # fmt: skip
#: Blocks for a GPU: threads, and several outputs of each where loops share what they read.
BLOCKS: tuple[ScheduleLike, ...] = (
    Row() | Block(8, 32), Row() | Block(32, 32), Column(256) | Block(8, 32),
)  # fmt: skip
STRIPS: tuple[ScheduleLike, ...] = (
    Row() | Block(16, 128) | PerThread(rows=4), Row() | Block(32, 128) | PerThread(rows=8),
    Row() | Block(64, 128) | PerThread(8, 8),
)  # fmt: skip
#: Bytes of the states of all loops that a thread runs together; additions of a turn of them.
MOST_STATE, MOST_WORK = 256, 1024
#: Tasks for a CPU, rows at once.
TASKS: tuple[ScheduleLike, ...] = (
    Row() | Block(64, 128) | PerThread(rows=8), Row() | Block(64, 64) | PerThread(rows=8),
    Row() | Block(16, 64) | PerThread(rows=8), Row() | Block(64, 64) | PerThread(rows=4),
)  # fmt: skip
#: Orders of blocks, for a schedule that gives only these.
BLOCK_ORDERS: tuple[ScheduleLike, ...] = (Column(64), Column(256), Column(1024))


@dataclass(frozen=True)
class Choice:
    """What was chosen, from what: `predictions` of all candidates, the one that stands without a
    reason to change first.  `schedule` None: as treadle does it without one."""

    schedule: Schedule | None
    predictions: tuple[Prediction, ...]
    device: Ceilings

    @property
    def plain(self) -> Prediction:
        return self.predictions[0]

    @property
    def best(self) -> Prediction:
        return least(self.predictions)

    @property
    def chosen(self) -> Prediction:
        return next(p for p in self.predictions if p.schedule == self.schedule)


def least(predictions: Sequence[Prediction]) -> Prediction:
    """The shortest; of those as good as that, the one with the least work in all four terms."""
    predictions = [p for p in predictions if not p.rough]
    shortest = min(p.seconds for p in predictions)
    return min((p for p in predictions if p.seconds <= EQUAL * shortest),
               key=lambda p: sum(p.terms))  # fmt: skip


def candidates(kernel: KernelMaps, given: Schedule | None, gpu: bool) -> list[Schedule | None]:
    """What is worth a prediction: first what stands, then what fills the layers left open."""
    height, width = kernel.outputs[-2:]
    if given is None or not given.layers or given.layers == (given.chooser,):
        pool: list[ScheduleLike] = []
        if kernel.inner and kernel.regular:
            pool += STRIPS if gpu else TASKS
        if gpu:
            pool += [*BLOCKS, *ORDERS]
        found = [as_schedule(s) for s in pool]
    elif given.order is None and (gpu or given.block is not None):
        orders = BLOCK_ORDERS if given.block is not None else ORDERS
        found = [given.replace(*as_schedule(o).layers) for o in orders]
    else:
        found = []
    fit = [s for s in found if _fits(s, height, width) and (not gpu or _holds(s, kernel))]
    fixed = given is not None and any(layer.slot != "chooser" for layer in given.layers)
    return [given if fixed else None, *fit]


def _fits(schedule: Schedule, height: int, width: int) -> bool:
    order, block = schedule.order, schedule.block
    if isinstance(order, Column | ZigZag) and order.width >= width:
        return False
    if block is None:
        return True
    rows, cols = (1, *block.extents)[-2:]
    return rows < 2 * height and cols < 2 * width


def _holds(schedule: Schedule, kernel: KernelMaps) -> bool:
    """Whether the loops that a thread of a GPU runs together fit its registers, and a compiler."""
    per_thread = schedule.per_thread
    own = 1 if per_thread is None else per_thread.rows * per_thread.cols
    work = kernel.operations / max(math.prod(kernel.inner), 1)
    return own == 1 or (own * kernel.state <= MOST_STATE and own * work <= MOST_WORK)


def choose(kernel: KernelMaps, device: Ceilings, given: Schedule | None = None,
           way: str = "rows", pool: Sequence[ScheduleLike | None] | None = None, *,
           complete: bool = False) -> Choice:  # fmt: skip
    """The schedule with the least predicted time, if that is below MARGIN of the plain one's, and
    WORTH seconds below it.

    `given`: layers that stay; `way`: how the kernel is done without a schedule (`model.predict`);
    `pool`: other candidates than `candidates` has, the plain one first; `complete`: predict in
    full also what could not win.
    """
    wanted = candidates(kernel, given, device.gpu) if pool is None else [
        None if s is None else as_schedule(s) for s in pool
    ]  # fmt: skip
    predictions: list[Prediction] = []
    for schedule in wanted:
        beyond = min((p.seconds for p in predictions if not p.rough), default=math.inf)
        try:
            predictions.append(predict(kernel, schedule, device, way, beyond))
        except ScheduleError:
            if not predictions:
                raise  # what was given does not fit; other candidates are left out
    best, plain = least(predictions), predictions[0].seconds
    gained = best.seconds < min(MARGIN * plain, plain - WORTH)
    chosen = best.schedule if gained else predictions[0].schedule
    if complete:
        predictions = [predict(kernel, p.schedule, device, way) for p in predictions]
    return Choice(chosen, tuple(predictions), device)


# --- of nodes --------------------------------------------------------------------------------


def has_choice(node: Node, gpu: bool) -> bool:
    """Whether orders and blocks of a kernel are open and could matter: see the module.

    A permute has a choice on a GPU where its stores go across the rows of the source.
    """
    if isinstance(node, Permute):
        stores = [a for a in access_classes(node) if a.store]
        across = any(a.kind == "affine" and a.classes == (VERTICAL,) for a in stores)
        return gpu and len(node.domain) > 1 and across
    if not isinstance(node, Generate) or len(node.shape) < 2:
        return False
    given = node.label.schedule
    if given is not None and as_schedule(given).order is not None:
        return False
    shared = [a for a in access_classes(node) if a.classes != (STREAMING,)]
    return bool(shared) and way_of(node, gpu) == "rows"


def way_of(node: Node, gpu: bool) -> str:
    """How a kernel is done without a schedule: "rows", "strips" or "tiles"."""
    from treadle.skeletons.kernel import transform
    from treadle.skeletons.kernel.build import Builder, LoweringContext

    if not isinstance(node, Generate):
        return "visits" if gpu and isinstance(node, Permute) else "rows"
    rank = len(node.shape)
    builder = Builder(node, LoweringContext(target="cuda" if gpu else "cpu"))
    if gpu:
        from treadle.skeletons.gpu import stencil, transpose

        if stencil.is_stencil(node, builder):
            return "strips"
        return "tiles" if transpose.staged_reads(builder, node) is not None else "rows"
    if transform.is_transposing(node.elements, rank):
        return "tiles"
    window = transform.has_boundary(node.elements)
    return "strips" if window and transform.row_sharing(node.elements, rank) >= 0.4 else "rows"


class Decider:
    """The choice for one kernel, made once per class of extents (powers of two).

    `extents` are what the choice depends on; call it with their values, in order.
    """

    def __init__(self, node: Node, device: Ceilings) -> None:
        self.node, self.device = node, device
        roots = [*node.expressions(), *(e for le in node.inputs() for e in le.shape)]
        self.extents = tuple(e for e in walk(roots) if isinstance(e, Extent))
        given = node.label.schedule
        self.given = None if given is None else as_schedule(given)
        self._made: dict[tuple[int, ...], Schedule | None] = {}

    def __call__(self, values: Sequence[int]) -> Schedule | None:
        """The schedule to use, None for the node's own."""
        key = tuple([max(int(n) - 1, 0).bit_length() for n in values])
        try:
            return self._made[key]
        except KeyError:
            known: dict[Expr, int] = dict(zip(self.extents, map(int, values), strict=True))
            found = self.choice(known)
            self._made[key] = None if found is None else found.schedule
            return self._made[key]

    def reasons(self, known: Mapping[Expr, int]) -> list[str]:
        """For `explain`."""
        from .report import explained

        return explained(self, known)

    def choice(self, known: Mapping[Expr, int], complete: bool = False) -> Choice | None:
        """The choice with its predictions; None where extents are not known, or there is nothing
        to compute."""
        kernel = kernel_maps(self.node, known)
        if kernel is None or not kernel.size or 0 in kernel.inner:
            return None
        way = way_of(self.node, self.device.gpu)
        return choose(kernel, self.device, self.given, way, complete=complete)
