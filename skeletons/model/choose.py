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
from treadle.dsl.schedule import ScheduleError
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
from .device import Ceilings
from .set_conflicts import Meeting, meetings
from .time import Prediction, predict

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
    Row() | Block(64, 128) | PerThread(8, 8), Row() | Block(64, 128) | PerThread(8, 4),
)  # fmt: skip
#: Bytes of the states of all loops that a thread runs together; additions of a turn of them.
MOST_STATE, MOST_WORK = 256, 1024
#: Tasks for a CPU, rows at once.
TASKS: tuple[ScheduleLike, ...] = (
    Row() | Block(64, 128) | PerThread(rows=8), Row() | Block(64, 64) | PerThread(rows=8),
    Row() | Block(16, 64) | PerThread(rows=8), Row() | Block(64, 64) | PerThread(rows=4),
)  # fmt: skip
#: Blocks of a permute on a CPU whose neighbours go to different rows: so many elements that lie
#: side by side in the target, of so many of its rows each.
SIDE_BY_SIDE, ROWS_OF_TARGET = 256, (4, 8, 16, 32)
#: Decisions that are kept, where they depend on the extents themselves.
KEPT = 256
#: Orders of blocks, for a schedule that gives only these.
BLOCK_ORDERS: tuple[ScheduleLike, ...] = (Column(64), Column(256), Column(1024))


@dataclass(frozen=True)
class Choice:
    """What was chosen, from what: `predictions` of all candidates, the one that stands without a
    reason to change first.  `schedule` None: as treadle does it without one.  `crowded`: arrays
    whose lines throw each other out of a CPU's first cache as it stands, and then under
    `schedule` (lost: 0.0 where none does any more)."""

    schedule: Schedule | None
    predictions: tuple[Prediction, ...]
    device: Ceilings
    crowded: tuple[tuple[Map, Meeting, Meeting], ...] = ()

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


def candidates(kernel: KernelMaps, given: Schedule | None, gpu: bool, crowding: bool = False
               ) -> list[Schedule | None]:  # fmt: skip
    """What is worth a prediction: first what stands, then what fills the layers left open.

    `crowding`: stores of a CPU lose lines to each other."""
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
    fit = [s for s in found if _fits(s, height, width) and (not gpu or _holds(s, kernel))]
    fixed = given is not None and any(layer.slot != "chooser" for layer in given.layers)
    return [given if fixed else None, *fit]


def across_blocks(kernel: KernelMaps) -> list[ScheduleLike]:
    """Blocks for a kernel that stores each element somewhere else, and neighbours of a row of its
    domain to different rows of the target: narrow, so that the sets of a cache hold a line of each
    row, and long along the axis that follows the rows of the target."""
    last = len(kernel.outputs) - 1
    if len(kernel.stores) != 1 or not kernel.stores[0].coefficients or last < 1:
        return []
    store = kernel.stores[0]
    moved = [[k for k, n in enumerate(kernel.outputs) if row[k] and n > 1]
             for row in store.coefficients]  # fmt: skip
    if sorted(k for axes in moved for k in axes) != [
        k for k, n in enumerate(kernel.outputs) if n > 1
    ] or any(len(axes) > 1 for axes in moved):  # two elements may meet
        return []
    beside = next((k for k in range(last) if abs(store.strides[k]) == 1), None)
    if beside is None or abs(store.strides[last]) <= 1:
        return []
    between = (1,) * (last - beside - 1)
    return [Row() | Block(SIDE_BY_SIDE, *between, rows) for rows in ROWS_OF_TARGET]


def _fits(schedule: Schedule, height: int, width: int) -> bool:
    order, block = schedule.order, schedule.block
    if isinstance(order, Column | ZigZag) and order.width >= width:
        return False
    if block is None:
        return True
    rows, cols = (1, *block.extents)[-2:]
    return (rows < 2 * height or len(block.extents) > 2) and cols < 2 * width


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
    full also what could not win, and what has nothing to win against.
    """
    before = [(m, met) for m, met in meetings(kernel, device, way, given) if met.lost]
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
            predictions.append(predict(kernel, schedule, device, way, beyond))
        except ScheduleError:
            if not predictions:
                raise  # what was given does not fit; other candidates are left out
    best, plain = least(predictions), predictions[0].seconds
    gained = best.seconds < min(MARGIN * plain, plain - WORTH)
    chosen = best.schedule if gained else predictions[0].schedule
    if complete:
        predictions = [predict(kernel, p.schedule, device, way) for p in predictions]
    after = dict(meetings(kernel, device, way, chosen)) if before else {}
    crowded = tuple((m, met, after[m]) for m, met in before)
    return Choice(chosen, tuple(predictions), device, crowded)


# --- of nodes --------------------------------------------------------------------------------


def has_choice(node: Node, gpu: bool) -> bool:
    """Whether orders and blocks of a kernel are open and could matter: see the module.

    A permute has a choice where its stores go across the rows of the source; on a CPU if it
    overwrites, so that its elements may go in any order.
    """
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
    return bool(shared) and way_of(node, gpu) == "rows"


def way_of(node: Node, gpu: bool) -> str:
    """How a kernel is done without a schedule: "rows", "strips" or "tiles"."""
    from ..ir import transform
    from ..lower.build import Builder, LoweringContext

    if not isinstance(node, Generate):
        return "visits" if gpu and isinstance(node, Permute) else "rows"
    rank = len(node.shape)
    builder = Builder(node, LoweringContext(target="cuda" if gpu else "cpu"))
    if gpu:
        from ..lower.stencil import gpu as stencil
        from ..lower.transpose import gpu as transpose

        if stencil.is_stencil(node, builder):
            return "strips"
        return "tiles" if transpose.staged_reads(builder, node) is not None else "rows"
    elements = transform.inside(node.elements, node.shape)
    if transform.is_transposing(elements, rank):
        return "tiles"
    window = elements != node.elements or transform.has_boundary(elements)
    return "strips" if window and transform.row_sharing(elements, rank) >= 0.4 else "rows"


class Decider:
    """The choice for one kernel, made once per class of extents (powers of two); for a permute on a
    CPU once for every extents, as they decide which sets of the caches it crowds.

    `extents` are what the choice depends on; call it with their values, in order.
    """

    def __init__(self, node: Node, device: Ceilings) -> None:
        self.node, self.device = node, device
        roots = [*node.expressions(), *(e for le in node.inputs() for e in le.shape)]
        self.extents = tuple(e for e in walk(roots) if isinstance(e, Extent))
        given = node.label.schedule
        self.given = None if given is None else as_schedule(given)
        self.exact = isinstance(node, Permute) and not device.gpu
        self._made: dict[tuple[int, ...], Schedule | None] = {}

    def __call__(self, values: Sequence[int]) -> Schedule | None:
        """The schedule to use, None for the node's own."""
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

    def choice(self, known: Mapping[Expr, int], complete: bool = False) -> Choice | None:
        """The choice with its predictions; None where extents are not known, or there is nothing
        to compute."""
        kernel = kernel_maps(self.node, known)
        if kernel is None or not kernel.size or 0 in kernel.inner:
            return None
        way = way_of(self.node, self.device.gpu)
        return choose(kernel, self.device, self.given, way, complete=complete)
