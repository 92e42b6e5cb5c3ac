"""Schedules of a Generate on a GPU: the assignment of elements to threads, and their order.

    thread grain   id = block · threads + thread  →  coordinates  →  the elements of a thread
    block grain    id = block  →  coordinates of a block of elements, its threads row by row

The order computes the coordinates (`Order.coordinates`) once per thread; the host computes
subexpressions that depend only on extents, once per launch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from treadle.dsl.expr import Expr, Index
from treadle.dsl.graph import Generate
from treadle.skeletons.schedules import LocalityGraph, Resolved, Schedule
from treadle.skeletons.schedules.examine import pieces_of_a_warp
from treadle.skeletons.schedules.resolved import looked_up

from ...ir import arithmetic as at
from ...ir.kernel import Barrier, Buffer, Kernel
from ...ir.linearize import Linearizer
from .. import tiling
from ..build import Builder
from ..elementwise.gpu_elements import Elements, make_kernel
from ..tiling import host_ids, schedule_of, unit_origin
from ..visits import WHOLE, Visits
from .common import THREADS, Threads, blocks, threads_for
from .staged import Staging


def plan_of(builder: Builder, schedule: Schedule | None) -> Resolved | None:
    """The user's schedule for this node; None when the defaults apply."""
    rank = len(builder.node.outputs[0].shape)
    plan = resolved(schedule, rank)
    if plan is not None and plan.grain == "thread" and rank > 1:
        pieces = pieces_of_a_warp(plan.order)
        if pieces > 1:
            builder.notes.append(f"{plan.order!r} gives the 32 threads of a warp elements of "
                                 f"{pieces} pieces of rows, each a transaction of L1: widths that "
                                 "are multiples of 32 keep them together")  # fmt: skip
    return plan


def resolved(schedule: Schedule | None, rank: int) -> Resolved | None:
    """A schedule for a domain of this rank; None when the defaults apply: the row order over single
    elements equals the default, which has wide accesses."""
    plan = tiling.resolved(schedule, rank, outputs=True)
    if plan is None or plan.grain != "block" or not looked_up(plan.order):
        return plan
    # Blocks of a graph have a separate table.
    by_graph = schedule is not None and isinstance(schedule.residency, LocalityGraph)
    return plan if by_graph else replace(plan, table=True)


def requested_threads(builder: Builder) -> int:
    """The threads per block that the schedule requests for orders of elements."""
    schedule = schedule_of(builder)
    if schedule is None or schedule.block is None or len(builder.node.outputs[0].shape) == 0:
        return THREADS
    plan = schedule.resolve(len(builder.node.outputs[0].shape))
    return _whole_warps(builder, plan.threads or THREADS)


def _whole_warps(builder: Builder, wanted: int) -> int:
    threads = threads_for(wanted)
    if threads != wanted:
        builder.notes.append(f"{wanted} threads per block asked for: {threads}, whole warps")
    return threads


def scheduled_kernel(builder: Builder, node: Generate, outs: Sequence[Buffer], plan: Resolved
                     ) -> Kernel:  # fmt: skip
    """The kernel under the user's schedule."""
    axes = tuple(Index(k) for k in range(len(node.shape)))
    elements = Elements(builder, outs, node.elements, axes, node.shape)
    lower = _by_threads if plan.grain == "thread" else by_blocks
    count = 1 if builder.context.check else math.gcd(plan.per_thread[-1], elements.widest())
    kernel = lower(builder, node, elements, plan, 1, None)
    unrolled = elements.unrolled()
    if count > 1 or unrolled is not None:
        kernel = lower(builder, node, unrolled or elements, plan, count, kernel)
    return kernel


def staged_kernel(builder: Builder, node: Generate, outs: Sequence[Buffer], plan: Resolved,
                  staging: Staging) -> Kernel:  # fmt: skip
    """The kernel under a schedule with `Stage`."""
    axes = tuple(Index(k) for k in range(len(node.shape)))
    elements = Elements(builder, outs, node.elements, axes, node.shape)
    return by_blocks(builder, node, elements, plan, 1, None, staging=staging)


def _by_threads(builder: Builder, node: Generate, elements: Elements, plan: Resolved, count: int,
                fallback: Kernel | None) -> Kernel:  # fmt: skip
    """The kernel in which an id is a thread."""
    grid = Threads.of(_whole_warps(builder, plan.threads or THREADS))
    into = elements.emitter()
    ids = host_ids(plan, node.shape)
    ident = into.let(grid.ident, "id")
    with into.when(at.less(ident, builder.scalar(ids, "ids"))):
        exists, first = unit_origin(plan, builder, node.shape, into, ident)
        with into.when(exists):
            _unit(into, elements, first, plan.unit, count)
    resident = elements.resident(plan.unit, grid.count)
    return make_kernel(builder, node, blocks(builder, ids, grid.count), grid, into,
                       **grid.launch(*elements.conditions(count), fallback, resident))  # fmt: skip


def by_blocks(builder: Builder, node: Generate, elements: Elements, plan: Resolved, count: int,
              fallback: Kernel | None, requires: Sequence[Expr] = (),
              staging: Staging | None = None) -> Kernel:  # fmt: skip
    """The kernel in which an id is a block of elements; its threads are assigned row by row, lanes
    along an axis."""
    per_axis = [n // own for n, own in zip(plan.unit, plan.per_thread, strict=True)]
    workers = math.prod(per_axis)
    threads = threads_for(workers)
    if workers > threads:
        note = (f"a block has at most {threads:,} threads: of {workers:,} asked for, each does the "
                f"work of {-(-workers // threads)}, one after the other")  # fmt: skip
        if note not in builder.notes:
            builder.notes.append(note)
    grid, into = Threads.of(threads), elements.emitter()
    exists, corner = unit_origin(plan, builder, node.shape, into, grid.task, "corner")

    def work(local: Expr) -> None:
        indices = [
            into.let(o + x * own, f"i{k}")
            for k, (o, x, own) in enumerate(
                zip(corner, _local(local, per_axis, plan.lanes), plan.per_thread, strict=True)
            )
        ]
        inside = at.both(*(at.less(i, n) for i, n in zip(indices, elements.extents, strict=True)))
        with into.when(inside):
            _unit(into, elements, indices, plan.per_thread, count)

    with into.when(exists):
        if staging is not None:
            elements = staging.load(into, grid, corner, elements)
        if workers == threads:
            work(grid.thread)
        elif workers < threads:
            with into.when(at.less(grid.thread, workers)):
                work(grid.thread)
        else:
            with into.loop("local", grid.thread, workers, step=threads) as local:
                work(local)
    own, aligned = elements.conditions(count)
    rectangle = " × ".join(str(n) for n in plan.per_thread[-2:])
    comments = [f"{rectangle} elements a thread"] if max(plan.per_thread) > 1 else []
    if staging is not None:
        comments.append(staging.named())
    tasks = builder.scalar(host_ids(plan, node.shape), "blocks")
    resident = elements.resident(plan.per_thread, threads)
    launch = grid.launch((*requires, *own), aligned, fallback, resident)
    return make_kernel(builder, node, tasks, grid, into, comments, **launch)


def _local(local: Expr, per_axis: Sequence[int], lanes: int) -> list[Expr]:
    """The coordinates of a thread in its block: row-major, the axis of the lanes fastest."""
    axes = [k for k in range(len(per_axis)) if k != lanes] + [lanes]
    found = at.row_major(local, tuple(at.integer(per_axis[k]) for k in axes))
    return [found[axes.index(k)] for k in range(len(per_axis))]


def _unit(into: Linearizer, elements: Elements, first: Sequence[Expr], unit: Sequence[int],
          count: int) -> None:  # fmt: skip
    """The elements of one thread from `first` on: `unit[k]` of them along axis k."""
    if max(unit) == 1:
        elements.one(into, first)
        return
    whole = at.both(*(
        at.less_equal(i + own, n)
        for i, own, n in zip(first, unit, elements.extents, strict=True) if own > 1
    ))  # fmt: skip
    whole = into.let(whole, "whole")
    with into.when(whole):
        elements.unit(into, first, unit, count)
    with into.otherwise(whole):
        elements.guarded_unit(into, first, unit)


# --- Assigns leaves, in the order of a schedule, to the thread blocks of a kernel -----------------
#     numbers of a thread block     those of the schedule's block, or one per group of threads
#       iteration                   a group takes the next `own` numbers, one per iteration
#         leaf                      its position in the grid (`skeletons/lower/visits.py`)
#
# All groups of a thread block run the same number of iterations, so that all threads reach every
# barrier.  A group without a leaf of its own computes another leaf and stores nothing.

__all__ = ["WHOLE", "BlockVisits", "Visits", "leaf"]


class BlockVisits:
    """`groups` (host) groups of threads per block, each with one leaf at a time.

    `tasks` (host): the number of thread blocks that cover the grid.
    """

    def __init__(self, visits: Visits, groups: Expr | int = 1) -> None:
        self.visits = visits
        builder = visits.builder
        together = at.multiply(groups, visits.own)
        span = at.integer(visits.per_task) if visits.per_task else together
        self.tasks = at.ceil_div(visits.total_host, span)
        iterations = at.ceil_div(span, together) * visits.own
        self.groups = builder.scalar(at.integer(groups), "groups")
        self.span, self.iterations = (
            builder.scalar(span, "span"),
            builder.scalar(iterations, "iterations"),
        )

    @contextmanager
    def leaves(self, into: Linearizer, task: Expr, group: Expr
               ) -> Iterator[tuple[Expr, tuple[Expr, ...]]]:  # fmt: skip
        """For each iteration of group `group` of thread block `task`: whether the group owns the
        leaf, and its position in the grid, clamped if there is no such leaf."""
        if at.is_constant(self.iterations, 1):
            yield self._leaf(into, task, group)
            return
        with into.loop("iteration", 0, self.iterations) as iteration:
            own = self.visits.own
            patch = iteration // own * self.groups
            local = (patch + group) * own
            yield self._leaf(into, task, into.let(local + iteration % own, "local"))
            into.append(Barrier())

    def _leaf(self, into: Linearizer, task: Expr, local: Expr) -> tuple[Expr, tuple[Expr, ...]]:
        number = into.let(task * self.span + local, "number")
        exists, indices = leaf(self.visits, into, number)
        return into.let(at.both(at.less(local, self.span), exists), "owner"), indices


def leaf(visits: Visits, into: Linearizer, number: Expr) -> tuple[Expr, tuple[Expr, ...]]:
    """Whether a leaf has this number, and its position in the grid (if none, a valid position)."""
    last = visits.total - 1
    exists, indices = visits.at(into, into.let(at.minimum(number, last), "visit"))
    inside = [
        into.let(at.minimum(p, n - 1), f"leaf{k}")
        for k, (p, n) in enumerate(zip(indices, visits.counts, strict=True))
    ]
    for p, n in zip(inside, visits.grid, strict=True):
        visits.builder.stays_below(p, n)
    return into.let(at.both(at.less(number, visits.total), exists), "own"), tuple(inside)
