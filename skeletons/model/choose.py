"""`Auto`: the schedule with the least predicted time, chosen without running anything.

A kernel has a choice if its elements are independent, it has at least two axes, and elements share
reads.  Every other kernel is lowered as without a schedule, and so is a kernel for which the model
does not predict a clear gain (`MARGIN`): models err, and a wrong choice is worse than none.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from treadle.dsl.expr import Expr, Extent, walk
from treadle.dsl.graph import Generate, Node, Permute, Sequential
from treadle.dsl.schedule import ScheduleError
from treadle.dsl.target import CUDA, NATIVE
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

from ..access.maps import STREAMING, VERTICAL, KernelMaps, Map, access_classes, kernel_maps
from ..lower.build import Builder, LoweringContext
from ..lower.elementwise import cpu
from ..lower.elementwise.gpu import strategy_of as on_gpu
from .device import Ceilings
from .time import Conflict, Prediction, conflicts, predict

#: A schedule is chosen only if its time is below this fraction of the plain one's …
MARGIN = 0.9
#: … and it saves this many seconds: it needs another compilation, once.
WORTH = 30e-6
#: Times within this factor count as equal: then the sum of the four terms decides.
EQUAL = 1.02

#: Orders of single elements, for a GPU.
ORDERS: tuple[ScheduleLike, ...] = (
    Column(8), Column(16), Column(32), Column(64), Column(256), ZigZag(128),
)  # fmt: skip
#: Blocks for a GPU: single outputs, and several outputs a thread where loops share their reads.
BLOCKS: tuple[ScheduleLike, ...] = (
    Row() | Block(8, 32), Row() | Block(32, 32), Column(256) | Block(8, 32),
)  # fmt: skip
STRIPS: tuple[ScheduleLike, ...] = (
    Row() | Block(16, 128) | PerThread(rows=4), Row() | Block(32, 128) | PerThread(rows=8),
    Row() | Block(64, 128) | PerThread(8, 8), Row() | Block(64, 128) | PerThread(8, 4),
)  # fmt: skip
#: The most bytes of loop state in a thread, and additions in an iteration of all its loops.
MOST_STATE, MOST_WORK = 256, 1024
#: Tasks for a CPU, with several rows a thread.
TASKS: tuple[ScheduleLike, ...] = (
    Row() | Block(64, 128) | PerThread(rows=8), Row() | Block(64, 64) | PerThread(rows=8),
    Row() | Block(16, 64) | PerThread(rows=8), Row() | Block(64, 64) | PerThread(rows=4),
)  # fmt: skip
#: Block shapes of a CPU permute that sends neighbours to different rows: the number of elements
#: that are contiguous in the target, by numbers of target rows.
SIDE_BY_SIDE, ROWS_OF_TARGET = 256, (4, 8, 16, 32)
#: Decisions kept per kernel.
KEPT = 256
#: Orders of blocks, for a schedule that fixes only the block.
BLOCK_ORDERS: tuple[ScheduleLike, ...] = (Column(64), Column(256), Column(1024))


class AnyChoice(Protocol):
    """A choice; `schedule` None: no schedule."""

    @property
    def schedule(self) -> Schedule | None: ...


@dataclass(frozen=True)
class Choice:
    """A choice and its predictions; the first is that of the plain candidate, which is kept unless
    another is clearly faster.  `schedule` None: no schedule.  `crowded`: arrays whose lines evict
    each other from a CPU's L1 under the plain candidate, then under `schedule` (lost: 0.0 if none
    do)."""

    schedule: Schedule | None
    predictions: tuple[Prediction, ...]
    device: Ceilings
    crowded: tuple[tuple[Map, Conflict, Conflict], ...] = ()

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
    """The fastest prediction; of those about as fast, the one with the least sum of terms."""
    predictions = [p for p in predictions if not p.rough]
    shortest = min(p.seconds for p in predictions)
    return min((p for p in predictions if p.seconds <= EQUAL * shortest),
               key=lambda p: sum(p.terms))  # fmt: skip


def candidates(kernel: KernelMaps, given: Schedule | None, gpu: bool, crowding: bool = False
               ) -> list[Schedule | None]:  # fmt: skip
    """The schedules worth predicting: the plain one, then those that fill its open layers.

    `crowding`: stores on a CPU evict each other's lines.
    """
    height, width = kernel.outputs[-2:]
    if given is None or not given.layers or given.layers == (given.chooser,):
        pool: list[ScheduleLike] = []
        if kernel.inner and kernel.regular:
            pool += STRIPS if gpu else TASKS
        if crowding:
            pool += across_blocks(kernel)
        if gpu:
            pool += [*BLOCKS, *ORDERS]
        found = [as_schedule(s) for s in pool]
    elif given.order is None and (gpu or given.block is not None):
        orders = BLOCK_ORDERS if given.block is not None else ORDERS
        found = [given.replace(*as_schedule(o).layers) for o in orders]
    else:
        found = []
    fit = [s for s in found if _fits(s, height, width) and (not gpu or _fits_registers(s, kernel))]
    fixed = given is not None and any(layer.slot != "chooser" for layer in given.layers)
    return [given if fixed else None, *fit]


def across_blocks(kernel: KernelMaps) -> list[ScheduleLike]:
    """Blocks for a kernel that stores each element at its own index, with neighbours of a row in
    different rows of the target.  They are narrow, so that the sets of a cache hold a line of each
    row, and long along the axis that follows the rows of the target."""
    last = len(kernel.outputs) - 1
    if len(kernel.stores) != 1 or not kernel.stores[0].coefficients or last < 1:
        return []
    store = kernel.stores[0]
    moved = [[k for k, n in enumerate(kernel.outputs) if row[k] and n > 1]
             for row in store.coefficients]  # fmt: skip
    if sorted(k for axes in moved for k in axes) != [
        k for k, n in enumerate(kernel.outputs) if n > 1
    ] or any(len(axes) > 1 for axes in moved):  # two elements may have one target
        return []
    contiguous = next((k for k in range(last) if abs(store.strides[k]) == 1), None)
    if contiguous is None or abs(store.strides[last]) <= 1:
        return []
    between = (1,) * (last - contiguous - 1)
    return [Row() | Block(SIDE_BY_SIDE, *between, rows) for rows in ROWS_OF_TARGET]


def _fits(schedule: Schedule, height: int, width: int) -> bool:
    order, block = schedule.order, schedule.block
    if isinstance(order, Column | ZigZag) and order.width >= width:
        return False
    if block is None:
        return True
    rows, cols = (1, *block.extents)[-2:]
    return (rows < 2 * height or len(block.extents) > 2) and cols < 2 * width


def _fits_registers(schedule: Schedule, kernel: KernelMaps) -> bool:
    """Whether the loops that a GPU thread interleaves fit its registers and code size."""
    per_thread = schedule.per_thread
    own = 1 if per_thread is None else per_thread.rows * per_thread.cols
    work = kernel.operations / max(math.prod(kernel.inner), 1)
    return own == 1 or (own * kernel.state <= MOST_STATE and own * work <= MOST_WORK)


def choose(kernel: KernelMaps, device: Ceilings, given: Schedule | None = None,
           pool: Sequence[ScheduleLike | None] | None = None, *,
           complete: bool = False) -> Choice:  # fmt: skip
    """The schedule with the least predicted time, if it beats the plain one by MARGIN and by WORTH
    seconds.

    `given`: layers to keep; `pool`: candidates to use instead of `candidates`, the plain one first;
    `complete`: predict in full even candidates that cannot win, or that have no competitor.
    """
    before = [(m, met) for m, met in conflicts(kernel, device, given) if met.lost]
    if pool is None:
        crowding = any(m.store for m, _ in before)
        wanted = candidates(kernel, given, device.gpu, crowding)
        if wanted == [None] and not complete:
            return Choice(None, (), device)
    else:
        wanted = [None if s is None else as_schedule(s) for s in pool]
    predictions: list[Prediction] = []
    for schedule in wanted:
        beyond = min((p.seconds for p in predictions if not p.rough), default=math.inf)
        try:
            predictions.append(predict(kernel, schedule, device, beyond))
        except ScheduleError:
            if not predictions:
                raise  # the given schedule does not fit; other candidates are dropped
    best, plain = least(predictions), predictions[0].seconds
    gained = best.seconds < min(MARGIN * plain, plain - WORTH)
    chosen = best.schedule if gained else predictions[0].schedule
    if complete:
        predictions = [predict(kernel, p.schedule, device) for p in predictions]
    after = dict(conflicts(kernel, device, chosen)) if before else {}
    crowded = tuple((m, met, after[m]) for m, met in before)
    return Choice(chosen, tuple(predictions), device, crowded)


# --- of nodes --------------------------------------------------------------------------------


def has_choice(node: Node, gpu: bool) -> bool:
    """Whether the order and blocks of a kernel are open and can matter (module docstring).

    A permute has a choice if its stores cross the rows of the source; on a CPU, only if it
    overwrites, so that its elements may be stored in any order.
    """
    if isinstance(node, Sequential):
        return False
    if isinstance(node, Permute):
        stores = [a for a in access_classes(node) if a.store]
        across = any(a.kind == "affine" and a.classes == (VERTICAL,) for a in stores)
        free = gpu or (node.combine is None and len(stores) == 1 and not node.label.deterministic)
        return free and len(node.domain) > 1 and across
    if not isinstance(node, Generate) or len(node.shape) < 2:
        return False
    given = node.label.schedule
    if given is not None and as_schedule(given).order is not None:
        return False
    shared = [a for a in access_classes(node) if a.classes != (STREAMING,)]
    return bool(shared) and strategy_of(node, gpu) == "rows"


def strategy_of(node: Node, gpu: bool) -> str:
    """The lowering without a schedule: "rows", "whole", "strips", "tiles" or "visits" (permute)."""
    if isinstance(node, Permute):
        return "visits"
    if not isinstance(node, Generate):
        return "rows"
    builder = Builder(node, LoweringContext(target=CUDA if gpu else NATIVE))
    if gpu:
        return on_gpu(builder, node)
    return cpu.strategy_of(builder, node)


class OncePerExtents(ABC):
    """The choice for one kernel, made once per class of extents (powers of two).

    `extents` are the extents that the choice depends on; call it with their values, in order.
    """

    def __init__(self, node: Node, device: Ceilings) -> None:
        self.node, self.device = node, device
        roots = [*node.expressions(), *(e for le in node.inputs() for e in le.shape)]
        # A kernel may refer to an extent by either side of an equality check.
        roots += [e for c in node.checks if not c.reads for e in (c.left, c.right)]
        self.extents = tuple(e for e in walk(roots) if isinstance(e, Extent))
        self.exact = False
        self._made: dict[tuple[int, ...], Schedule | None] = {}

    def __call__(self, values: Sequence[int]) -> Schedule | None:
        """The schedule to use, None for the node's own schedule."""
        key = tuple(map(int, values))
        if not self.exact:
            key = tuple([max(n - 1, 0).bit_length() for n in key])
        try:
            return self._made[key]
        except KeyError:
            known: dict[Expr, int] = dict(zip(self.extents, map(int, values), strict=True))
            found = self.choice(known)
            if len(self._made) >= KEPT:
                self._made.clear()
            schedule = self._made[key] = None if found is None else found.schedule
            return schedule

    @abstractmethod
    def choice(self, known: Mapping[Expr, int], complete: bool = False) -> AnyChoice | None:
        """The choice with its predictions (all if `complete`), or None if there is none."""


class Decider(OncePerExtents):
    """The choice for one kernel of independent elements.  For a permute on a CPU it is made once
    per exact extents, since these decide which cache sets its stores map to."""

    def __init__(self, node: Node, device: Ceilings) -> None:
        super().__init__(node, device)
        given = node.label.schedule
        self.given = None if given is None else as_schedule(given)
        self._lowerings: dict[object, object] = {}
        self.exact = isinstance(node, Permute) and not device.gpu

    def choice(self, known: Mapping[Expr, int], complete: bool = False) -> Choice | None:
        """The choice with its predictions; None if extents are unknown or the kernel is empty."""
        kernel = kernel_maps(self.node, known)
        if kernel is None or not kernel.size or 0 in kernel.inner:
            return None
        kernel = replace(kernel, lowerings=self._lowerings)
        return choose(kernel, self.device, self.given, complete=complete)
