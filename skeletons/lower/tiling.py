"""Assignment of the elements of a domain to tasks.

A task covers a rectangle of rows and columns (the last two axes) of one or several planes (the
leading axes).  `default_tiling` chooses rectangles of about a given number of elements for any
run-time extents:

    tasks = ⌈planes / group⌉ · ⌈rows / height⌉ · ⌈columns / width⌉

A task takes several planes only if it has all their rows, and several rows only if it has all their
columns.  `scheduled_tiling` takes blocks, and their order, from a schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from treadle.dsl import simplify
from treadle.dsl.expr import (
    TRUE,
    Apply,
    Const,
    Expr,
    Extent,
    Param,
    Var,
    constant,
    known_before,
    rewrite,
    walk,
)
from treadle.dsl.frontend.tracing import scalar_function_of
from treadle.dsl.graph import Shape
from treadle.dsl.records import dataclass
from treadle.dsl.scalar import Scalar, lift
from treadle.dsl.types import int64
from treadle.skeletons.schedules import Resolved, Row, Schedule
from treadle.skeletons.schedules.schedule import shown

from ..ir import arithmetic as at
from ..ir.kernel import Blocks
from ..ir.linearize import Linearizer
from .build import Builder


@dataclass(frozen=True)
class Tile:
    """The part of one plane that a task computes: half-open ranges of rows and columns.

    `leading` are the coordinates of the plane.  Rank 1 has no rows: `rows` is (0, 1).
    """

    leading: tuple[Expr, ...]
    rows: tuple[Expr, Expr]
    cols: tuple[Expr, Expr]


Inner = Callable[[Linearizer, Tile], None]


@dataclass(frozen=True)
class Tiling:
    """`tasks`: their number; `emit` writes the loops over the tiles of a task around `inner`;
    `blocks`: how the tasks divide the first axis, if a launch may divide it differently."""

    tasks: Expr
    emit: Callable[[Linearizer, Var, Inner], None]
    blocks: Blocks | None = None


def block_range(into: Linearizer, name: str, block: Expr, size: Expr | int, extent: Expr) -> (
        tuple[Expr, Expr]):  # fmt: skip
    """The elements [block·size, min((block + 1)·size, extent))."""
    start = into.let(block * size, f"{name}_start")
    stop = into.let(at.minimum(start + size, extent), f"{name}_stop")
    return start, stop


def default_tiling(builder: Builder, domain: Shape, elements: int, row_multiple: int = 1,
                   columns: int | None = None, rows: int | None = None) -> Tiling:  # fmt: skip
    """Tiles of about `elements` elements, whole rows if they fit.

    `columns` bounds the width of a tile (default `elements`), `rows` fixes its height; heights
    are multiples of `row_multiple`.
    """
    width = columns or elements
    rank = len(domain)
    extents = builder.shape(domain)
    cols_host = domain[-1]
    free = builder.context.blocks and columns is None and rows is None
    sized: Callable[[Expr, str], Expr] = builder.variable if free else builder.scalar
    if rank == 1:
        length = sized(constant(width), "block_elements")
        across = builder.scalar(at.ceil_div(cols_host, width), "blocks_across")

        def emit_1d(into: Linearizer, task: Var, inner: Inner) -> None:
            inner(into, Tile((), (constant(0), constant(1)),
                             block_range(into, "col", task, length, extents[0])))  # fmt: skip

        return Tiling(across, emit_1d, Blocks(length, cols_host) if free else None)

    across = builder.scalar(at.ceil_div(cols_host, width), "blocks_across")
    rows_host = domain[-2]
    if rows is None:
        wanted = whole_rows(elements, cols_host, row_multiple)
        height = sized(wanted, "block_rows") if rank == 2 else builder.scalar(wanted, "block_rows")
        down = builder.scalar(at.ceil_div(rows_host, wanted), "blocks_down")
    else:
        height = constant(rows)
        down = builder.scalar(at.ceil_div(rows_host, rows), "blocks_down")
    planes_host = at.product(domain[:-2])
    group_host = at.maximum(elements // at.maximum(rows_host * cols_host, 1), 1)
    single = rank == 2 or rows is not None
    groups = (
        builder.scalar(planes_host, "planes") if single
        else builder.scalar(at.ceil_div(planes_host, group_host), "plane_groups")
    )  # fmt: skip
    size = height if single else sized(group_host, "group")
    blocks = None
    if free and rank == 2:
        blocks = Blocks(height, rows_host, multiple=row_multiple)
    elif free:
        blocks = Blocks(size, planes_host, at.product(domain[1:-2]))

    def emit(into: Linearizer, task: Var, inner: Inner) -> None:
        outer = () if free and rank == 2 else (groups,)
        *leading, row_block, col_block = at.row_major(task, (*outer, down, across))
        tile_rows = block_range(into, "row", row_block, height, extents[-2])
        tile_cols = block_range(into, "col", col_block, width, extents[-1])
        if rank == 2:
            inner(into, Tile((), tile_rows, tile_cols))
            return
        (group,) = leading
        start, stop = group, group + 1
        if not single:
            planes = builder.scalar(planes_host, "planes")
            start, stop = block_range(into, "plane", group, size, planes)
        with into.loop("plane", start, stop) as plane:
            inner(into, Tile(coordinates(builder, into, plane, domain[:-2]), tile_rows, tile_cols))

    return Tiling(at.product((groups, down, across)), emit, blocks)


def whole_rows(elements: int, columns: Expr | int, multiple: int) -> Expr:
    """The rows of a tile of about `elements` elements, a multiple of `multiple` (host)."""
    rows = at.maximum(elements // at.maximum(columns, 1), 1)
    return at.ceil_div(rows, multiple) * multiple


def coordinates(builder: Builder, into: Linearizer, index: Expr, extents: Shape,
                name: str = "i") -> tuple[Expr, ...]:  # fmt: skip
    """The coordinates of a linear id over `extents` (host), as named variables."""
    found = at.row_major(index, builder.shape(extents))
    named = tuple(into.let(c, f"{name}{k}") for k, c in enumerate(found))
    for c, extent in zip(named, extents, strict=True):
        builder.stays_below(c, extent)
    return named


# --- schedules -------------------------------------------------------------------------------


def schedule_of(builder: Builder) -> Schedule | None:
    schedule = builder.context.schedule_of(builder.node)
    if schedule is None or builder.context.gpu:
        return schedule
    # On a CPU the caches serve as staging memory, and blocks need not be as small.
    return replace(schedule, stage=None)


def plan_of(builder: Builder, rank: int, outputs: bool = False) -> Resolved | None:
    """The user's schedule for a domain of this rank; None when the defaults apply."""
    return resolved(schedule_of(builder), rank, outputs)


def resolved(schedule: Schedule | None, rank: int, outputs: bool) -> Resolved | None:
    """A schedule for a domain of this rank; None when the defaults apply.

    The row order over single elements equals the default, which takes larger steps.  `outputs`:
    several outputs per thread are part of the plan (otherwise they are `rows_per_thread`).
    """
    if schedule is None or rank == 0:
        return None
    if not (schedule.order or schedule.visits_blocks or (outputs and schedule.per_thread)):
        return None
    plan = schedule.resolve(rank)
    several = outputs and max(plan.unit) > 1
    by_rows = plan.grain == "thread" and type(plan.order) is Row and not several
    return None if by_rows else plan


def rows_per_thread(builder: Builder, rank: int) -> int | None:
    schedule = schedule_of(builder)
    per_thread = None if schedule is None else schedule.per_thread
    return per_thread.rows if per_thread is not None and rank >= 2 else None


def shown_schedule(builder: Builder) -> str:
    schedule = schedule_of(builder)
    return "default" if schedule is None else shown(schedule)


def _expr(value: Any) -> Expr:
    e = lift(value)
    return simplify.cast(e, int64)


def host_grid(plan: Resolved, domain: Shape) -> tuple[Expr, ...]:
    """The number of units along each axis, as host expressions."""
    return tuple(n if unit == 1 else at.ceil_div(n, unit)
                 for n, unit in zip(domain, plan.unit, strict=True))  # fmt: skip


def host_ids(plan: Resolved, domain: Shape) -> Expr:
    """The number of ids the order visits, as a host expression."""
    if plan.table:
        return at.product(host_grid(plan, domain))
    grid = tuple(Scalar(n) for n in host_grid(plan, domain))
    return _expr(plan.order.linear_size(grid))


def unit_origin(plan: Resolved, builder: Builder, domain: Shape, into: Linearizer, ident: Expr,
                name: str = "i") -> tuple[Expr, tuple[Expr, ...]]:  # fmt: skip
    """Whether unit `ident` of the order exists, and its first element (variables named after
    `name`).

    The order computes the coordinates; the host computes subexpressions that depend only on
    extents, once per launch.
    """
    hosts = host_grid(plan, domain)
    grid = builder.shape(hosts, [f"blocks{k}" for k in range(len(hosts))])
    builder.must_fit(plan.order, hosts)
    if plan.table:
        number = into.let(builder.block_number(plan.order, hosts, ident), "block")
        found = into.emit(at.row_major(number, grid))
    else:
        with scalar_function_of("schedule", None):  # a table is read as a kernel reads an array
            made = plan.order.coordinates(Scalar(ident), tuple(Scalar(n) for n in hosts))
        positions = rewrite([_expr(p) for p in made], _divide_by_known)
        for e in _host_parts(positions):
            builder.scalar(e, "h")
        found = into.emit(positions)
    whole = plan.table or plan.order.dense
    exists = TRUE if whole else at.both(*(at.less(p, n) for p, n in zip(found, grid, strict=True)))
    named = [into.let(p * unit, f"{name}{k}")
             for k, (p, unit) in enumerate(zip(found, plan.unit, strict=True))]  # fmt: skip
    for k, (e, unit) in enumerate(zip(named, plan.unit, strict=True)):
        if unit == 1 and whole:
            builder.stays_below(e, domain[k])
    return exists, tuple(named)


def _divide_by_known(e: Expr) -> Expr:
    """x // (select(p, a, b) · c)  →  select(p, x // (a · c), x // (b · c)).

    a, b and c are known before the launch, so the host computes the reciprocals of their products.
    """
    if not isinstance(e, Apply) or len(e.args) != 2:
        return e
    x, y = e.args
    if e.op.name == "multiply":
        if _chooses(y):
            x, y = y, x
        if _chooses(x) and known_before(y):
            return at.select(x.args[0], *(a * y for a in x.args[1:]))
    elif e.op.name in ("floor_divide", "remainder") and _chooses(y):
        divide = at.floor_divide if e.op.name == "floor_divide" else at.remainder
        return at.select(y.args[0], *(divide(x, a) for a in y.args[1:]))
    return e


def _chooses(e: Expr) -> bool:
    return isinstance(e, Apply) and e.op.name == "select" and all(map(known_before, e.args[1:]))


def _host_parts(roots: Sequence[Expr]) -> list[Expr]:
    """The largest subexpressions of `roots` that the host can compute, other than plain leaves."""
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


def scheduled_tiling(plan: Resolved, builder: Builder, domain: Shape) -> Tiling:
    """The blocks of the schedule, in its order: a task is a block."""
    tasks = builder.scalar(host_ids(plan, domain), "blocks")

    def emit(into: Linearizer, task: Var, inner: Inner) -> None:
        _unit_of(plan, builder, domain, into, task, inner)

    return Tiling(tasks, emit)


#: Maximum number of consecutive ids of an order that form one row segment.
LONGEST_RUN = 1024


def whole_runs(plan: Resolved, elements: int) -> int:
    """`elements`, rounded up to complete row segments if the order has them (`Order.run`)."""
    run = min(plan.order.run or 1, LONGEST_RUN)
    return -(-elements // run) * run


def in_runs(plan: Resolved, builder: Builder, domain: Shape, into: Linearizer,
            ids: tuple[Expr, Expr], tile: Inner, one_by_one: Callable[[Expr, Expr], None]
            ) -> None:  # fmt: skip
    """The elements of `ids`, one run at a time: a `tile` if its ids form a row segment according to
    the coordinates of its two ends (`Order.run`), otherwise `one_by_one(begin, end)`."""
    run = min(plan.order.run or 1, LONGEST_RUN)
    with into.loop("run", *ids, step=run) as begin:
        end = at.minimum(begin + run, ids[1])
        last = into.let(end - 1, "last")
        _, first = unit_origin(plan, builder, domain, into, begin)
        _, final = unit_origin(plan, builder, domain, into, last)
        low = into.let(at.minimum(first[-1], final[-1]), "low")
        high = into.let(at.maximum(first[-1], final[-1]) + 1, "high")
        one_row = at.both(
            *(at.equal(a, b) for a, b in zip(first[:-1], final[:-1], strict=True)),
            at.equal(high - low, last - begin + 1),
        )
        if plan.order.reverses:
            after = at.minimum(begin + 1, last)
            _, second = unit_origin(plan, builder, domain, into, into.let(after, "after"))
            step = second[-1] - first[-1]
            one_row = at.both(
                one_row,
                *(at.equal(a, b) for a, b in zip(first[:-1], second[:-1], strict=True)),
                at.equal(step * (last - begin), final[-1] - first[-1]),
            )
        together = into.let(one_row, "together")
        with into.when(together):
            row = first[-2] if len(first) > 1 else constant(0)
            tile(into, Tile(tuple(first[:-2]), (row, row + 1), (low, high)))
        with into.otherwise(together):
            one_by_one(begin, last + 1)


def ordered_tiling(plan: Resolved, builder: Builder, domain: Shape, elements: int) -> Tiling:
    """The tiling in the order of the schedule: a task is a block, or about `elements` elements."""
    if plan.grain == "block":
        return scheduled_tiling(plan, builder, domain)
    in_pieces = plan.order.run is not None and max(plan.unit) == 1
    per_task = whole_runs(plan, plan.threads or elements) if in_pieces else plan.threads or elements
    ids_host = host_ids(plan, domain)
    ids = builder.scalar(ids_host, "ids")

    def emit(into: Linearizer, task: Var, inner: Inner) -> None:
        def one_by_one(begin: Expr, end: Expr) -> None:
            with into.loop("id", begin, end) as ident:
                _unit_of(plan, builder, domain, into, ident, inner)

        span = block_range(into, "id", task, per_task, ids)
        if in_pieces:
            in_runs(plan, builder, domain, into, span, inner, one_by_one)
        else:
            one_by_one(*span)

    return Tiling(builder.scalar(at.ceil_div(ids_host, per_task), "tiles"), emit)


def _unit_of(plan: Resolved, builder: Builder, domain: Shape, into: Linearizer, ident: Expr,
             inner: Inner) -> None:  # fmt: skip
    """Emit `inner` for the elements of unit `ident`, if it exists, plane by plane."""
    exists, origin = unit_origin(plan, builder, domain, into, ident)
    with into.when(exists):
        ranges = [
            (o, into.let(at.minimum(o + unit, n), f"stop{k}"))
            for k, (o, unit, n) in enumerate(
                zip(origin, plan.unit, builder.shape(domain), strict=True)
            )
        ]
        _nest(builder, domain, into, [], ranges, inner)


def _nest(builder: Builder, domain: Shape, into: Linearizer, done: list[Expr],
          ranges: Sequence[tuple[Expr, Expr]], inner: Inner) -> None:  # fmt: skip
    """Serial loops over the leading axes of a block."""
    if len(ranges) <= 2:
        rows = ranges[0] if len(ranges) == 2 else (constant(0), constant(1))
        inner(into, Tile(tuple(done), rows, ranges[-1]))
        return
    with into.loop(f"i{len(done)}", *ranges[0]) as i:
        builder.stays_below(i, domain[len(done)])
        _nest(builder, domain, into, [*done, i], ranges[1:], inner)
