"""Schedules of a Generate on a GPU: the assignment of elements to threads, and their order.

    thread grain   id = block · threads + thread  →  coordinates  →  the elements of a thread
    block grain    id = block  →  coordinates of a block of elements, its threads row by row

The order computes the coordinates (`Order.coordinates`) once per thread; the host computes
subexpressions that depend only on extents, once per launch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from treadle.dsl.expr import Expr, Index
from treadle.dsl.graph import Generate
from treadle.skeletons.schedules import LocalityGraph, Resolved, Schedule
from treadle.skeletons.schedules.block_table import looked_up
from treadle.skeletons.schedules.examine import pieces_of_a_warp

from ...ir import arithmetic as at
from ...ir.kernel import Buffer, Kernel
from ...ir.linearize import Linearizer
from .. import tiling
from ..build import Builder
from ..elementwise.gpu_elements import Elements, make_kernel
from ..tiling import host_ids, schedule_of, unit_origin
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


def asked_threads(builder: Builder) -> int:
    """The threads per block that the schedule asks for where elements are visited."""
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
    """An id is a thread."""
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
    """An id is a block of elements; its threads are dealt out row by row, lanes along an axis."""
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
            into.let(at.add(o, at.multiply(x, own)), f"i{k}")
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
        at.less_equal(at.add(i, own), n)
        for i, own, n in zip(first, unit, elements.extents, strict=True) if own > 1
    ))  # fmt: skip
    whole = into.let(whole, "whole")
    with into.when(whole):
        elements.unit(into, first, unit, count)
    with into.otherwise(whole):
        elements.guarded_unit(into, first, unit)
