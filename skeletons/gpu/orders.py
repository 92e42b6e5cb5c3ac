"""Schedules of a Generate on a GPU: which thread computes which elements, and in which order.

    thread grain   id = block · threads + thread  →  coordinates  →  the elements of a thread
    block grain    id = block  →  coordinates of a block of elements, its threads row by row

The coordinates are the order's own arithmetic (`Order.coordinates`), computed once per thread;
whatever in it depends on the extents alone is computed by the host, once per launch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from treadle.dsl.expr import (
    TRUE,
    Apply,
    Const,
    Expr,
    Extent,
    Index,
    Param,
    rewrite,
    walk,
)
from treadle.dsl.graph import Generate, Shape
from treadle.dsl.scalar import Scalar
from treadle.dsl.tracing import scalar_function_of
from treadle.dsl.types import int64
from treadle.skeletons.kernel import arithmetic as at
from treadle.skeletons.kernel.build import Builder
from treadle.skeletons.kernel.ir import Buffer, Kernel
from treadle.skeletons.kernel.linearize import Linearizer
from treadle.skeletons.kernel.tiling import _expr, host_grid, host_ids
from treadle.skeletons.schedules import Grid, Layer, Resolved, Row, Schedule, as_schedule

from .common import THREADS, Threads, blocks, threads_for
from .elements import Elements, make_kernel


def schedule_of(builder: Builder) -> Schedule | None:
    """The schedule that the user gave, if any."""
    given = builder.context.schedule
    given = builder.node.label.schedule if given is None else given
    return None if given is None else as_schedule(given)


def plan_of(builder: Builder) -> Resolved | None:
    """The user's schedule for this node; None when the defaults apply.

    The row order over single elements is what the defaults do, with wide accesses.  Layers that
    have no effect here are noted.
    """
    schedule, rank = schedule_of(builder), len(builder.node.outputs[0].shape)
    if schedule is None or rank == 0:
        return None
    plan = None
    if schedule.order or schedule.block or schedule.per_thread:
        plan = schedule.resolve(rank)
        if plan.grain == "thread" and type(plan.order) is Row and max(plan.unit) == 1:
            plan = None
    for layer in (schedule.residency, schedule.hints):
        if layer is not None and not isinstance(layer, Grid):
            note_useless(builder, layer)
    if schedule.lanes is not None and (plan is None or plan.grain == "thread"):
        builder.notes.append(f"{schedule.lanes!r} has no effect without blocks: lanes take "
                             "consecutive ids")  # fmt: skip
    return plan


def note_useless(builder: Builder, layer: Layer) -> None:
    """For `explain()`: a layer of the schedule that nothing came of."""
    builder.notes.append(f"{layer!r} has no effect here")


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
    if count > 1:
        kernel = lower(builder, node, elements, plan, count, kernel)
    return kernel


def _by_threads(builder: Builder, node: Generate, elements: Elements, plan: Resolved, count: int,
                fallback: Kernel | None) -> Kernel:  # fmt: skip
    """An id is a thread."""
    grid = Threads.of(_whole_warps(builder, plan.threads or THREADS))
    into = builder.emitter()
    ids = host_ids(plan, node.shape)
    ident = into.let(grid.ident, "id")
    with into.when(at.less(ident, builder.scalar(ids, "ids"))):
        exists, first = origin(plan, builder, node.shape, into, ident)
        with into.when(exists):
            _unit(into, elements, first, plan.unit, count)
    return make_kernel(builder, node, blocks(builder, ids, grid.count), grid, into,
                       **grid.launch(*elements.conditions(count), fallback))  # fmt: skip


def by_blocks(builder: Builder, node: Generate, elements: Elements, plan: Resolved, count: int,
              fallback: Kernel | None, requires: Sequence[Expr] = ()) -> Kernel:  # fmt: skip
    """An id is a block of elements; its threads are dealt out row by row, lanes along an axis."""
    per_axis = [n // own for n, own in zip(plan.unit, plan.per_thread, strict=True)]
    workers = math.prod(per_axis)
    threads = threads_for(workers)
    grid, into = Threads.of(threads), builder.emitter()
    exists, corner = origin(plan, builder, node.shape, into, grid.task)

    def work(local: Expr) -> None:
        place = [
            into.let(at.add(o, at.multiply(x, own)), f"i{k}")
            for k, (o, x, own) in enumerate(
                zip(corner, _local(local, per_axis, plan.lanes), plan.per_thread, strict=True)
            )
        ]
        inside = at.both(*(at.less(i, n) for i, n in zip(place, elements.extents, strict=True)))
        with into.when(inside):
            _unit(into, elements, place, plan.per_thread, count)

    with into.when(exists):
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
    tasks = builder.scalar(host_ids(plan, node.shape), "blocks")
    launch = grid.launch((*requires, *own), aligned, fallback)
    return make_kernel(builder, node, tasks, grid, into, comments, **launch)


def _local(local: Expr, per_axis: Sequence[int], lanes: int) -> list[Expr]:
    """The place of a thread in its block: row-major, the axis of the lanes fastest."""
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


# --- coordinates ---------------------------------------------------------------------------------


def origin(plan: Resolved, builder: Builder, domain: Shape, into: Linearizer, ident: Expr
           ) -> tuple[Expr, tuple[Expr, ...]]:  # fmt: skip
    """Whether unit `ident` of the order exists, and its first element."""
    hosts = host_grid(plan, domain)
    grid = builder.shape(hosts)
    with scalar_function_of("schedule", None):  # a table is read as a kernel reads an array
        made = plan.order.coordinates(Scalar(ident), tuple(Scalar(n) for n in hosts))
    places = rewrite([_expr(p) for p in made], _divide_by_known)
    for e in _host_parts(places):
        builder.scalar(e, "h")
    found = into.emit(places)
    exists = TRUE if plan.order.dense else at.both(
        *(at.less(p, n) for p, n in zip(found, grid, strict=True)))  # fmt: skip
    named = [into.let(at.multiply(p, unit), f"i{k}")
             for k, (p, unit) in enumerate(zip(found, plan.unit, strict=True))]  # fmt: skip
    for k, (e, unit) in enumerate(zip(named, plan.unit, strict=True)):
        if unit == 1 and plan.order.dense:
            builder.stays_below(e, domain[k])
    return exists, tuple(named)


def _divide_by_known(e: Expr) -> Expr:
    """x // (select(p, a, b) · c)  →  select(p, x // (a · c), x // (b · c)).

    a, b and c are known before the launch, and so are the reciprocals of their products.
    """
    if not isinstance(e, Apply) or len(e.args) != 2:
        return e
    x, y = e.args
    if e.op.name == "multiply":
        if _chooses(y):
            x, y = y, x
        if _chooses(x) and _is_host(y):
            return at.select(x.args[0], *(at.multiply(a, y) for a in x.args[1:]))
    elif e.op.name in ("floor_divide", "remainder") and _chooses(y):
        divide = at.floor_divide if e.op.name == "floor_divide" else at.remainder
        return at.select(y.args[0], *(divide(x, a) for a in y.args[1:]))
    return e


def _chooses(e: Expr) -> bool:
    return isinstance(e, Apply) and e.op.name == "select" and all(map(_is_host, e.args[1:]))


def _is_host(e: Expr) -> bool:
    return all(isinstance(x, Const | Extent | Param | Apply) for x in walk((e,)))


def _host_parts(roots: Sequence[Expr]) -> list[Expr]:
    """The largest parts of `roots` that are known before the launch, without plain leaves."""
    known: dict[Expr, bool] = {}
    found: dict[Expr, None] = {}
    for e in walk(roots):
        known[e] = isinstance(e, Const | Extent | Param) or (
            isinstance(e, Apply) and all(known[a] for a in e.args)
        )
        if not known[e]:
            found.update((a, None) for a in e.args if known[a] and isinstance(a, Apply)
                         and a.type == int64)  # fmt: skip
    return list(found)
