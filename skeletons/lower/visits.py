"""Visits: the order in which a schedule computes the parts of a fold, scan, permute or product.

Such an operation consists of *leaves*: independent parts that every schedule computes as a unit.
The computation of a leaf and the combination of leaf results depend only on extents, so no schedule
changes the result.  A schedule numbers leaves:

    number  →  unit (the order's coordinates)  →  the outputs of one thread  →  leaf

    domain of                    axes                          a leaf (elements along them)
    fold, along rows             folded, *axes of the result   a block of a row
    fold, columns side by side   folded, *axes of the result   a block of some columns
    fold of everything           folded (a line)               a block
    segmented fold               *leading axes, segments       a segment (GPU: up to 256)
    scan along the last axis     *axes of the array            a block of a row, or a row
    scan along another axis      *axes of the array            some columns (GPU: or parts of one)
    permute                      *axes of the source           an element
    matmul                       *axes of the result           a tile

    order       the visiting order of single leaves or, together with a Block, of blocks of leaves
    Block       the elements that a task, or a thread block, computes, leaf by leaf
    Lanes       the axis along which leaves of a block follow each other
    PerThread   neighbouring outputs that follow each other in the same thread, or group of threads

Lengths are rounded up to complete leaves; the number of adjacent columns in a leaf is the width of
the schedule's columns (`strip_width`). "folded" is the position along all folded axes.  The updates
of a permute are combined in the order of visits.  If that order affects the result (rounding,
`overwrite`), the language leaves the result unspecified; `deterministic=True` keeps the order of
the source.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from treadle.dsl.expr import Expr
from treadle.dsl.graph import Fold, Permute, Shape

from ..ir import arithmetic as at
from ..ir.linearize import Linearizer
from ..schedules import LocalityGraph, PlaneOrder, Resolved, Row, Schedule
from .build import Builder
from .tiling import block_range, host_ids, schedule_of, unit_origin

#: Larger than any extent: a leaf of this length spans the whole axis.
WHOLE = 1 << 62
#: The table of blocks in the order of a `LocalityGraph`, which the host fills (`resident.py`).
QUEUES = "queue_order"
#: On a CPU, the granularity of the columns computed side by side, and the number used for an order
#: without a width.
LINE, STRIP = 16, 64


def strip_width(builder: Builder, most: int) -> int:
    """The number of adjacent columns in a leaf: the width of the schedule's blocks or columns."""
    schedule = schedule_of(builder)
    width = STRIP
    if schedule is not None and schedule.block is not None:
        width = schedule.block.extents[-1]
    elif schedule is not None and schedule.order is not None:
        width = schedule.order.run or STRIP
    return min(-(-width // LINE) * LINE, most)


class Visits:
    """A numbering of the leaves of a grid: `total` numbers, some of which have no leaf.

    `per_task`: numbers per block of the schedule, None without a block; `own`: how many of them one
    thread computes.  `grid` holds host expressions, `counts` the same as scalars.
    """

    def __init__(self, builder: Builder, plan: Resolved, grid: Shape, leaf: Sequence[int]) -> None:
        self.builder, self.plan, self.grid = builder, plan, tuple(grid)
        self.counts = builder.shape(self.grid, [f"visits{k}" for k in range(len(self.grid))])
        sides = zip(plan.unit, plan.per_thread, strict=True)
        self.patch = tuple(own if unit % own == 0 else 1 for unit, own in sides)
        self.unit, self.own = math.prod(plan.unit), math.prod(self.patch)
        self.total_host = host_ids(plan, self.grid) * self.unit
        self.total = builder.scalar(self.total_host, "visits")
        self.per_task: int | None = None
        if plan.grain == "block":
            self.per_task = self.unit
        elif plan.threads is not None:
            leaves = -(-plan.threads * self.own // math.prod(leaf))
            self.per_task = -(-leaves // self.own) * self.own

    @classmethod
    def of(cls, builder: Builder, grid: Sequence[Expr], leaf: Sequence[int],
           line: bool = False) -> Visits | None:  # fmt: skip
        """The visits of `grid` under the user's schedule; None if the defaults apply.

        `leaf`: the elements of a leaf along each axis.  `line`: the single axis of the grid stands
        for all axes of the user's domain, in row-major order.
        """
        schedule, node = schedule_of(builder), builder.node
        if schedule is None:
            return None
        if schedule.stage is not None:
            what = node.label.operation
            builder.notes.append(f"{schedule.stage!r} has no effect: {what} stages by itself")
        graph = isinstance(node, Permute) and isinstance(schedule.residency, LocalityGraph)
        along = line and isinstance(node, Fold) and len(node.inner) > 1
        plan = plan_over(schedule, len(grid), leaf, along, graph)
        if plan is None:
            return None
        builder.notes.append(shown(schedule, plan, leaf))
        return cls(builder, plan, tuple(grid), leaf)

    def at(self, into: Linearizer, number: Expr) -> tuple[Expr, tuple[Expr, ...]]:
        """Whether there is a leaf of this number (below `total`), and its position in the grid."""
        plan = self.plan
        if self.unit == 1:
            return unit_origin(plan, self.builder, self.grid, into, number)
        ident = into.let(number // self.unit, "unit")
        local = into.let(number % self.unit, "local")
        exists, corner = unit_origin(plan, self.builder, self.grid, into, ident)
        patches = [unit // own for unit, own in zip(plan.unit, self.patch, strict=True)]
        axes = [k for k in range(plan.ndim) if k != plan.lanes] + [plan.lanes]
        found = at.row_major(local // self.own, tuple(at.integer(patches[k])
                                                                     for k in axes))  # fmt: skip
        outer = [found[axes.index(k)] for k in range(plan.ndim)]
        inner = at.row_major(local % self.own, tuple(map(at.integer, self.patch)))
        indices = []
        for k, (c, x, y) in enumerate(zip(corner, outer, inner, strict=True)):
            step = x * self.patch[k] + y
            indices.append(into.let(c + step, f"at{k}"))
        inside = [at.less(p, n) for p, n, unit in zip(indices, self.counts, plan.unit, strict=True)
                  if unit > 1]  # fmt: skip
        return at.both(exists, *inside), tuple(indices)

    @contextmanager
    def each(self, into: Linearizer, task: Expr, per_task: Expr) -> Iterator[tuple[Expr, ...]]:
        """The positions in the grid of the leaves of a task, of `per_task` numbers."""
        numbers = block_range(into, "visit", task, per_task, self.total)
        with into.loop("number", *numbers) as number:
            exists, indices = self.at(into, number)
            with into.when(exists):
                yield indices

    def tasks(self, otherwise: Expr | int) -> tuple[Expr, Expr]:
        """The number of tasks and the numbers per task (a block of the schedule, or else
        `otherwise`, a host expression), as scalars."""
        each = at.integer(self.per_task) if self.per_task else otherwise
        tasks = self.builder.scalar(at.ceil_div(self.total_host, each), "tasks")
        size = each if isinstance(each, int) else self.builder.scalar(each, "visits_per_task")
        return tasks, at.integer(size) if isinstance(size, int) else size


def plan_over(schedule: Schedule, rank: int, leaf: Sequence[int], line: bool = False,
              graph: bool = False) -> Resolved | None:  # fmt: skip
    """A schedule for a grid of leaves; None if the defaults apply.

    `line`: the grid has one axis for all axes of the user's schedule; `graph`: the schedule's
    residency determines which leaves form a block.
    """
    if not (schedule.order or schedule.block or schedule.per_thread or schedule.lanes or graph):
        return None
    plan = (schedule.along_a_line() if line else schedule).resolve(rank, leaf=leaf)
    single = plan.grain == "thread" and type(plan.order) is Row and max(plan.unit) == 1
    return None if single else plan


def shown(schedule: Schedule, plan: Resolved, leaf: Sequence[int]) -> str:
    """The visited unit, as `explain` shows it."""

    def sides(extents: Sequence[int]) -> str:
        return " × ".join("all" if n >= WHOLE else f"{n:,}" for n in extents)

    what = "one by one" if max(leaf) == 1 else f"in parts of {sides(leaf)}"
    if max(plan.unit) > 1:
        what += f", {sides(plan.unit)} of them together"
    order = f"in the order {plan.order!r}" if plan.ndim > 1 else "from left to right"
    if not isinstance(plan.order, PlaneOrder):
        order = f"in the order {plan.order!r}"
    return f"{schedule!r}: {what}, {order}"
