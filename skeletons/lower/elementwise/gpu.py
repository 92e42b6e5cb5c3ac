"""Generate on a GPU: independent elements, with map, zip, every index transform and stencils.

    blocks                         the next 128 · items · count elements in row-major order
      for item (unrolled)          128 · count elements apart
        count elements             16-byte accesses; 1 where data is not aligned, or with loops

A domain whose arrays are all dense and read at the element's own index collapses to one row
(`transform.collapse`); for other domains as many trailing axes as possible collapse.  Division of
the position yields the remaining coordinates, once per `count` elements.  Reads along a domain
axis other than the last go through shared memory (`../transpose/gpu.py`).  A schedule assigns
elements to threads (`../gpu/orders.py`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from treadle.dsl.expr import FALSE, Const, Expr, Index, Var, constant
from treadle.dsl.graph import Generate, Shape
from treadle.dsl.passes.rows import row_axes
from treadle.dsl.types import int64
from treadle.skeletons.schedules import Block, Schedule

from ...ir import arithmetic as at
from ...ir.kernel import Buffer, Kernel, Lowered
from ...ir.linearize import Linearizer
from .. import transform
from ..build import Builder, LoweringContext, element_bytes, element_cost
from ..gpu import orders
from ..gpu.common import Threads, blocks, has_loops
from ..gpu.jam_neighbours import jam_neighbours
from ..gpu.staged import Staging
from ..stencil import gpu as stencil
from ..tiling import schedule_of
from ..transpose import gpu as transpose
from . import gpu_rows as rows
from .gpu_elements import Elements, make_kernel

#: The approximate bytes that a thread loads and stores, and its most vectors: one load and one
#: store are best if each is 16 bytes wide.
THREAD_BYTES = 32
MOST_ITEMS = 4
#: A thread computes two vectors of elements that cost more than COSTLY additions, which hide each
#: other's latency; of elements that cost more than HEAVY, one.
COSTLY, HEAVY = 50.0, 500.0
#: Elements per thread for unaligned data.
SCALAR_ITEMS = 4
#: The side of a tile for reads along another axis, if a schedule requests tiles.
TILE = 32


def lower_generate(node: Generate, context: LoweringContext) -> Lowered:
    """One kernel, with the variants it needs."""
    builder = Builder(node, context)
    outs = builder.outputs()
    if not node.shape:
        return builder.lowered(_single(builder, node, outs))
    if not context.check:
        node = node.with_(elements=transform.unresolved(node.elements, node.shape, builder))
    schedule = schedule_of(builder)
    if schedule is not None and schedule.stage is not None:
        found = _staged(builder, node, outs, schedule)
        if found is not None:
            return builder.lowered(found)
        schedule = dataclasses.replace(schedule, stage=None)
    plan = orders.plan_of(builder, schedule)
    if plan is not None and not stencil.follows(plan, node, builder):
        return builder.lowered(orders.scheduled_kernel(builder, node, outs, plan))
    axes = row_axes(node.elements, [builder.root(e) for e in node.shape])
    if axes is not None and schedule is None:
        return builder.lowered(rows.rows_kernel(builder, node, outs, axes))
    way = strategy_of(builder, node) if plan is None else "strips"
    if way == "strips":
        return stencil.lower_stencil(builder, node, outs, plan)
    if schedule is None and way == "rows" and rows.reads_rows(builder, node):
        return builder.lowered(rows.rows_kernel(builder, node, outs, len(node.shape)))
    if schedule is not None and schedule.order is not None:  # row by row, as requested: no tiles
        return builder.lowered(_in_rows(builder, node, outs, False))
    staged = transpose.staged_reads(builder, node) if way == "tiles" else None
    # Beside tiles, this kernel handles only short axes.
    few = staged is not None and not builder.context.strided
    kernel = jam_neighbours(builder, node, outs, _in_rows(builder, node, outs, few))
    if staged is not None:
        kernel = _along_short(builder, node, outs, staged[0], kernel)
        kernel = transpose.transposing_kernel(builder, node, outs, *staged, kernel)
    return builder.lowered(kernel)


def strategy_of(builder: Builder, node: Generate) -> str:
    """How elements are computed without a schedule: "strips" (a thread computes several rows),
    "tiles" (in shared memory, for transposing reads) or "rows"."""
    if stencil.is_stencil(node, builder):
        return "strips"
    return "tiles" if transpose.staged_reads(builder, node) is not None else "rows"


def _staged(builder: Builder, node: Generate, outs: Sequence[Buffer], schedule: Schedule
            ) -> Kernel | None:  # fmt: skip
    """The blocks of a schedule with `Stage`, in its order: tiles of arrays read along another axis,
    or windows that neighbours share; None if there are neither."""
    transposed = transpose.staged_reads(builder, node)
    rank = len(node.shape)
    if transposed is not None:
        side = [TILE if k in (transposed[0], rank - 1) else 1 for k in range(rank)]
        plan = schedule.resolve(rank, block=Block(*side))
        if transpose.can_stage(builder, node, plan):
            plain = orders.scheduled_kernel(builder, node, outs, plan)
            return transpose.transposing_kernel(builder, node, outs, *transposed, plain, plan)
    plan = schedule.resolve(rank)
    staging = Staging(builder, node, plan)
    if staging.windows:
        return orders.staged_kernel(builder, node, outs, plan, staging)
    why = "no element that two of a block's threads read"
    if transposed is not None:
        why = f"tiles are square, as Block({TILE}, {TILE}), with one element a thread"
    builder.notes.append(f"{schedule.stage!r} has no effect: {why}")
    return None


def _single(builder: Builder, node: Generate, outs: Sequence[Buffer]) -> Kernel:
    """Rank 0: one thread."""
    grid, into = Threads.of(32), builder.emitter()
    elements = Elements(builder, outs, node.elements, (), ())
    with into.when(at.equal(grid.thread, 0)):
        elements.one(into, (), constant(0))
    return make_kernel(builder, node, constant(1), grid, into, **grid.launch())


# --- row-major order -----------------------------------------------------------------------------


def _in_rows(builder: Builder, node: Generate, outs: Sequence[Buffer], few: bool) -> Kernel:
    """Row-major order, several elements at once if data is aligned.

    Single elements if the kernel is rarely used (`few`) or vectors would gain nothing.
    """
    elements, merged = _merged(builder, node, outs)
    plain_only = few or builder.context.check or has_loops(node.elements)
    count = 1 if plain_only else elements.widest()
    items = _items(builder, node, outs, count)
    alone = SCALAR_ITEMS if few else min(items * count, SCALAR_ITEMS)
    plain = _row_kernel(builder, node, elements, 1, alone, merged, None)
    if count > 1:
        return _row_kernel(builder, node, elements, count, items, merged, plain)
    unrolled = elements.unrolled()
    if unrolled is None:
        return plain
    return _row_kernel(builder, node, unrolled, 1, alone, merged, plain)


def _merged(builder: Builder, node: Generate, outs: Sequence[Buffer]) -> tuple[Elements, int]:
    """The elements with as many trailing axes as possible collapsed, and the number of these."""
    rank, domain = len(node.shape), node.shape
    if not transform.has_boundary(node.elements):
        for first in range(rank - 1):
            p = Var("p", int64)
            roots = transform.collapse(node.elements, domain, builder, p, first)
            if roots is not None:
                axes = (*(Index(k) for k in range(first)), p)
                shape: Shape = (*domain[:first], at.product(domain[first:]))
                return Elements(builder, outs, roots, axes, shape), rank - first
    axes = tuple(Index(k) for k in range(rank))
    return Elements(builder, outs, node.elements, axes, domain), 1


def _items(builder: Builder, node: Generate, outs: Sequence[Buffer], count: int) -> int:
    """The number of vectors that a thread computes in sequence; a power of two."""
    cost = element_cost(node.elements)
    if builder.context.check or has_loops(node.elements) or cost > HEAVY:
        return 1
    size = count * max(element_bytes(node.elements, [b.type for b in outs]), 1)
    wanted = min(max(THREAD_BYTES // size, 2 if cost > COSTLY else 1), MOST_ITEMS)
    return 1 << (wanted.bit_length() - 1)


def _along_short(builder: Builder, node: Generate, outs: Sequence[Buffer], across: int,
                 fallback: Kernel) -> Kernel:  # fmt: skip
    """The axis `across`, which reads follow, as the innermost: for axes too short for tiles."""
    rank = len(node.shape)
    elements = Elements(builder, outs, node.elements, tuple(map(Index, range(rank))), node.shape)
    order = [k for k in range(rank) if k != across] + [across]
    short = at.less(elements.extents[across], transpose.SHORTEST)
    return _row_kernel(builder, node, elements, 1, SCALAR_ITEMS, 1, fallback, order, [short])


def _row_kernel(builder: Builder, node: Generate, elements: Elements, count: int, items: int,
                merged: int, fallback: Kernel | None, order: Sequence[int] | None = None,
                requires: Sequence[Expr] = ()) -> Kernel:  # fmt: skip
    """`items` · `count` elements per thread; the threads of a block are adjacent.

    The last axis of `order` is the fastest (default: row-major).
    """
    grid, into = Threads.of(orders.requested_threads(builder)), elements.emitter()
    total = at.product(elements.domain)
    size = builder.scalar(total, "size")
    per_block = grid.count * count * items
    few = isinstance(size, Const) and int(size.value) < per_block
    if few and count > 1 and fallback is not None and not requires:
        return fallback  # no complete block

    def compute(ident: Expr, neighbours: int) -> None:
        indices = _indices(into, ident, elements, order)
        elements.several(into, indices, neighbours, ident if order is None else None)

    if items == 1 and count == 1:
        ident = into.let(grid.ident, "p")
        with into.when(at.less(ident, size)):
            compute(ident, 1)
    else:
        start = into.let(grid.task * per_block, "start")
        whole = FALSE if few else at.less_equal(start + per_block, size)
        with into.when(whole):
            into.note("All elements of this block exist.")
            first = into.let(start + grid.thread * count, "first")
            if items == 1:
                compute(first, count)
            else:
                with into.loop("u", 0, items, "unrolled") as u:
                    compute(into.let(first + u * (grid.count * count), "p"), count)
        with into.otherwise(whole), into.loop("p", start + grid.thread, size, step=grid.count) as p:
            compute(p, 1)
    comments = [f"{merged} contiguous axes as one"] if merged > 1 else []
    if count * items > 1:
        comments.append(f"{count} × {items} elements a thread")
    if order is not None:
        comments.append(f"axis {order[-1]} innermost")
    own, aligned = elements.conditions(count)
    launch = grid.launch((*requires, *own), aligned, fallback)
    return make_kernel(builder, node, blocks(builder, total, per_block), grid, into, comments,
                       **launch)  # fmt: skip


def _indices(into: Linearizer, ident: Expr, elements: Elements, order: Sequence[int] | None
           ) -> tuple[Expr, ...]:  # fmt: skip
    """The coordinates of an id, the last axis of `order` fastest, each named."""
    rank = len(elements.domain)
    if rank == 1:
        return (ident,)
    axes = list(range(rank)) if order is None else list(order)
    found = at.row_major(ident, tuple(elements.extents[k] for k in axes))
    return tuple(into.let(found[axes.index(k)], f"i{k}") for k in range(rank))
