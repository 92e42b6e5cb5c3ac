"""Generate: independent elements, with map, zip, every index transform and stencils.

    tasks                          tiles of rows × columns, 64 … 256 kB each
      for row (serial)
        for column (vector)        whole contiguous runs of the last axis
          out[row, column] = element

A domain whose arrays are all dense and read at the element's own index collapses to one long row
(`transform.collapse`).  In the interior of the domain, boundary reads become plain reads.
Conditions on indices (joined arrays) split rows into parts (`parts.py`).  Rows that read the same
input rows are computed several at a time (`unrolled`); other rows are computed from end to end
(`../stencil/overrun.py`).  A transposing read goes through tiles in a core's caches
(`../transpose/cpu.py`); if it is conditional, the loop runs over narrow columns instead, so that
each cache line it touches is fully used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace

from treadle.dsl.expr import Const, Expr, Index, Read, Var, constant, rewrite, substitute, walk
from treadle.dsl.graph import Generate, Leaf
from treadle.dsl.passes.cost import operations
from treadle.dsl.passes.rows import LITTLE, LONGEST, NARROW, most_narrow, row_axes, row_members
from treadle.dsl.types import bool_, int64

from ...ir import arithmetic as at
from ...ir.kernel import Blocks, Buffer, Comment, Kernel, Let, Lowered, Store
from ...ir.linearize import Linearizer
from ...schedules import Block, Resolved, Schedule, Table
from ...schedules.arithmetic import ceil_div
from ...schedules.examine import ascends
from ...schedules.schedule import shown
from .. import tiling, transform
from ..build import Builder, LoweringContext, element_bytes, element_cost
from ..combining import compute, put
from ..stencil.cpu import Overrun, is_short, merge, overrun
from ..tiling import Tile, Tiling
from ..transpose.cpu import in_tiles
from .parts import Part, in_parts

#: The approximate bytes moved per task: they fit in the L2 cache and amortise the dispatch.
TASK_BYTES = 1 << 17
#: The approximate cost of a task of expensive elements, in additions.
TASK_COST = 1 << 18
#: Outputs per thread along the rows, where neighbouring rows share their reads.
UNROLLED_ROWS = 4
#: The least share of a row's reads that the previous row also makes, for UNROLLED_ROWS.
SHARED_READS = 0.4
#: Rows with at most WHOLE_READS reads of neighbours, of at least WHOLE_BYTES each, are computed
#: from end to end instead of several at a time.  Measured times relative to that, in the caches:
#: 0.5 to 0.8 for five reads, 0.7 to 1.8 for 3 × 3 on different CPUs, 2 to 3 for bytes.
WHOLE_READS, WHOLE_BYTES = 5, 4
#: The largest cost, in additions, of elements computed in rows from end to end.
CHEAP_END = 64.0
#: Width and height of the tile of a transposing read.
TRANSPOSE_COLUMNS, TRANSPOSE_ROWS = 16, 64
CHEAP_TRANSPOSE = 4.0
#: Minimum length of a row segment for vectorisation.
VECTOR = 8


def lower_generate(node: Generate, context: LoweringContext) -> Lowered:
    """One kernel."""
    builder = Builder(node, context)
    outs = builder.outputs()
    plan = tiling.plan_of(builder, len(node.shape))
    task = Var("task", int64)
    into = builder.emitter()
    if not context.check:
        node = node.with_(elements=transform.unresolved(node.elements, node.shape, builder))
    if plan is None:
        node = _without_ones(builder, node)
    domain, roots = node.shape, node.elements
    rank = len(domain)
    if rank == 0:
        compute(into, outs, (), (), transform.resolve(roots, builder, domain))
        return builder.lowered(_kernel(builder, node, constant(1), task, into))
    if plan is not None and plan.grain == "thread":
        _note_single_elements(plan, builder)
        tasks = _elements_in_order(plan, builder, node, outs, task, into)
        return builder.lowered(_kernel(builder, node, tasks, task, into))

    axes = row_axes(roots, [builder.root(e) for e in domain]) if plan is None else None
    if axes is not None:
        tiles = _narrow_rows(builder, node, outs, axes, task, into)
        return builder.lowered(_kernel(builder, node, tiles, task, into))
    if rank > 1 and plan is None:
        p = Var("p", int64)
        row = transform.collapse(roots, domain, builder, p)
        if row is not None:
            tasks, blocks = _one_row(builder, node, outs, row, p, task, into)
            return builder.lowered(_kernel(builder, node, tasks, task, into, blocks, True))
    narrow = _narrow_axes(builder, node) if plan is None else None
    if narrow is not None:
        tiles = _narrow_rows(builder, node, outs, narrow, task, into)
        return builder.lowered(_kernel(builder, node, tiles, task, into))
    if plan is None and (merged := _Merged.of(builder, node, outs)) is not None:
        tiles = merged.emit(task, into)
        return builder.lowered(_kernel(builder, node, tiles, task, into))
    transposing = plan is None and _walks_columns(builder, roots, rank)
    if transposing and (found := in_tiles(builder, node, outs, task, into)) is not None:
        return builder.lowered(_kernel(builder, node, found, task, into))
    unroll = _unrolled_rows(builder, transform.inside(roots, domain), rank)
    wide = elements_per_task(builder, roots, outs)
    if plan is not None and plan.lanes < rank - 1:
        tasks = _along_lanes(plan, builder, node, outs, task, into)
        return builder.lowered(_kernel(builder, node, tasks, task, into))
    box = transform.interior(roots, domain, builder)
    over = None
    if box is not None and plan is None and not context.check:
        few = unroll == 1 or _is_whole(roots)
        if few and element_cost(roots) <= CHEAP_END:
            over = overrun(roots, domain, builder, box)
        unroll = unroll if over is None else 1
    chosen: Tiling
    if plan is not None:
        chosen = tiling.scheduled_tiling(plan, builder, domain)
    elif transposing:
        chosen = tiling.default_tiling(builder, domain, wide, columns=16 * TRANSPOSE_COLUMNS,
                                       rows=TRANSPOSE_ROWS)  # fmt: skip
        builder.notes.append("transposing reads: columns of "
                             f"{TRANSPOSE_COLUMNS} within {TRANSPOSE_ROWS} rows")  # fmt: skip
    else:
        chosen = tiling.default_tiling(builder, domain, wide, unroll)
    body = _Rows(builder, node, outs, unroll, box, over)
    inner = body.transposed if transposing and box is None else body.tile
    chosen.emit(into, task, inner)
    return builder.lowered(_kernel(builder, node, chosen, task, into))


def _without_ones(builder: Builder, node: Generate) -> Generate:
    """The same elements in the same order, without axes of extent 1: a row along such an axis would
    be a vector of one element."""
    one = [builder.is_one(e) for e in node.shape]
    if not any(one) or transform.has_boundary(node.elements):
        return node
    kept = [k for k, single in enumerate(one) if not single]
    index: dict[Expr, Expr] = {Index(k): constant(0) for k, single in enumerate(one) if single}
    index |= {Index(k): Index(position) for position, k in enumerate(kept)}
    shape = tuple(node.shape[k] for k in kept)
    return node.with_(shape=shape, elements=substitute(node.elements, index))


def elements_per_task(builder: Builder, roots: Sequence[Expr], outs: Sequence[Buffer]) -> int:
    """Elements per task, a power of two: about TASK_BYTES of traffic, less for costly elements."""
    return per_task(element_bytes(roots, [b.type for b in outs]), element_cost(roots))


def per_task(size: float, cost: float = 1.0) -> int:
    """Elements per task that move `size` bytes and cost `cost` additions each."""
    wanted = min(TASK_BYTES / max(size, 1), max(TASK_COST / max(cost, 1.0), 64.0))
    return int(1 << max(int(wanted).bit_length() - 1, 6))


def _unrolled_rows(builder: Builder, roots: Sequence[Expr], rank: int) -> int:
    asked = tiling.rows_per_thread(builder, rank)
    if builder.context.check:
        return 1
    if asked is not None:
        return asked
    return _rows_together(builder, roots, rank)


def _rows_together(builder: Builder, roots: Sequence[Expr], rank: int) -> int:
    """The number of rows computed at a time without a schedule."""
    if transform.is_transposing(roots, rank, builder):
        return 1
    return UNROLLED_ROWS if transform.row_sharing(roots, rank) >= SHARED_READS else 1


def _reads(roots: Sequence[Expr]) -> int:
    """The most reads of neighbours that an element makes in one array."""
    found = Counter((e.node, e.component) for e in walk(roots)
                    if isinstance(e, Read) and e.boundary is not None)  # fmt: skip
    return max(found.values(), default=0)


def _is_whole(roots: Sequence[Expr]) -> bool:
    """Whether rows of a window are computed from end to end."""
    narrow = any(r.type.bytes < WHOLE_BYTES for r in roots)
    return 0 < _reads(roots) <= WHOLE_READS and not narrow


def strategy_of(builder: Builder, node: Generate) -> str:
    """How elements are computed without a schedule: "strips" (several rows of a window at a time),
    "whole" (rows of a window from end to end), "tiles" (for transposing reads) or "rows"."""
    rank, roots = len(node.shape), transform.inside(node.elements, node.shape)
    if _walks_columns(builder, roots, rank):
        return "tiles"
    window = roots != node.elements or transform.has_boundary(roots)
    if not window or _rows_together(builder, roots, rank) == 1:
        return "rows"
    unresolved = transform.unresolved(node.elements, node.shape, builder)
    return "whole" if _is_whole(unresolved) else "strips"


def _walks_columns(builder: Builder, roots: Sequence[Expr], rank: int) -> bool:
    """Whether a row of results reads a column of an array whose rows may be long."""
    long = [e for e in walk(roots) if isinstance(e, Read) and not (
        e.args and isinstance(n := builder.root(Leaf(e.node, e.component).shape[-1]), Const)
        and int(n.value) <= NARROW)]  # fmt: skip
    return transform.is_transposing(long, rank, builder)


def _kernel(builder: Builder, node: Generate, tasks: Expr | Tiling, task: Var, into: Linearizer,
            blocks: Blocks | None = None, collapsed: bool = False) -> Kernel:  # fmt: skip
    if isinstance(tasks, Tiling):
        blocks, tasks = tasks.blocks, tasks.tasks
    rank = len(node.shape)
    outs = builder.outputs()
    comments = [f"schedule: {tiling.shown_schedule(builder)}"]
    if collapsed:
        comments.append(f"{rank} contiguous axes as one")
    work = elements_per_task(builder, node.elements, outs) * element_cost(node.elements)
    return builder.kernel("", tasks, task, tuple(into.out), comments=comments,
                          light=work <= TASK_COST / 2, blocks=blocks)  # fmt: skip


def _one_row(builder: Builder, node: Generate, outs: Sequence[Buffer], roots: Sequence[Expr],
             p: Var, task: Var, into: Linearizer) -> tuple[Expr, Blocks | None]:  # fmt: skip
    """A dense domain of any rank as one row; `roots` are expressions over the position `p`."""
    size, blocks = at.product(node.shape), None
    total = builder.scalar(size, "size")
    elements = elements_per_task(builder, node.elements, outs)
    length: Expr | int = elements
    if builder.context.blocks:
        length = builder.variable(constant(elements), "block_elements")
        blocks = Blocks(length, size, at.product(node.shape[1:]))
    start, stop = tiling.block_range(into, "at", task, length, total)
    with into.loop(p, start, stop, "vector"):
        compute(into, outs, (), (), roots, p)
    return builder.scalar(at.ceil_div(size, elements), "blocks"), blocks


def _narrow_axes(builder: Builder, node: Generate) -> int | None:
    """The number of axes before those of a row, if rows of results are known to be short and may be
    numerous; None otherwise.  A row extends over the trailing axes until one may be long."""
    shape, axes = node.shape, len(node.shape) - 1
    if axes < 1 or builder.context.check or transform.has_boundary(node.elements):
        return None
    if not is_short(builder, shape[-1], most_narrow(node.elements, axes + 1)):
        return None
    size, work = builder.root(shape[-1]), max(operations(node.elements), 1.0)
    assert isinstance(size, Const)
    elements = int(size.value)
    while isinstance(rows := builder.root(shape[axes - 1]), Const) and int(rows.value) <= NARROW:
        elements *= int(rows.value)
        if axes == 1 or not 0 < elements <= LONGEST or elements * work > LITTLE:
            return None
        axes -= 1
    return axes


def _narrow_rows(builder: Builder, node: Generate, outs: Sequence[Buffer], axes: int, task: Var,
                 into: Linearizer) -> Expr | Tiling:  # fmt: skip
    """Short rows, vectorised along the axis before their own: those from `axes` on."""
    lead, count = node.shape[:axes], len(node.elements)
    extents = builder.shape(node.shape)
    resolved = transform.resolve(node.elements, builder, node.shape)
    members = row_members(resolved, [builder.root(e) for e in node.shape], axes)
    width, roots = len(members), tuple(e for member in members for e in member)
    if not lead:
        values = into.emit(roots)
        into.append(*(Store(outs[k % count], at.integer(k // count), v)
                      for k, v in enumerate(values)))  # fmt: skip
        return constant(1)
    elements = max(elements_per_task(builder, resolved, outs) // width, 64)
    tiles = tiling.default_tiling(builder, lead, elements)

    def rows(inner: Linearizer, tile: Tile) -> None:
        if len(lead) == 1:
            side_by_side(inner, (), tile)
            return
        with inner.loop("i", *tile.rows) as i:
            side_by_side(inner, (*tile.leading, i), tile)

    def side_by_side(inner: Linearizer, before: tuple[Expr, ...], tile: Tile) -> None:
        def part(cols: tuple[Expr, Expr], roots: Sequence[Expr], _: bool) -> None:
            with inner.loop("j", *cols, "vector") as j:
                indices = (*before, j)
                for index, extent in zip(indices, lead, strict=True):
                    builder.stays_below(index, extent)
                with inner.when_always({Index(k): i for k, i in enumerate(indices)}):
                    values = inner.emit(roots)
                    row = at.linear(indices, extents[:axes]) * width
                    inner.append(*(Store(outs[k % count], row + k // count, v)
                                   for k, v in enumerate(values)))  # fmt: skip

        in_parts(inner, builder, roots, dict(enumerate(before)), len(lead) - 1, tile.cols, part)

    tiles.emit(into, task, rows)
    builder.notes.append(f"rows of {width} elements side by side")
    return tiles


class _Rows:
    """The loops over one tile: several rows at a time in the interior, single rows at borders."""

    def __init__(self, builder: Builder, node: Generate, outs: Sequence[Buffer], unroll: int,
                 box: transform.Interior | None, over: Overrun | None = None
                 ) -> None:  # fmt: skip
        self.builder, self.outs, self.unroll, self.box = builder, outs, unroll, box
        self.over = over
        self.domain = domain = node.shape
        self.rank = len(node.shape)
        self.extents = builder.shape(node.shape)
        self.roots = roots = node.elements
        # For cheap elements, scalar loads are faster than vector gathers.
        self.gathering = "serial" if element_cost(roots) <= CHEAP_TRANSPOSE else "vector"
        last = self.rank - 1
        if box is None:
            resolved = transform.resolve(roots, builder, domain)
            self.inside = self.between = self.anywhere = resolved
        else:
            self.inside = transform.resolve(roots, builder, domain, box.safe(range(self.rank)))
            self.between = transform.resolve(roots, builder, domain, box.safe([last]))
            self.anywhere = transform.resolve(roots, builder, domain)

    def _element(self, into: Linearizer, tile: Tile, row: Expr | None, col: Expr,
                 roots: Sequence[Expr]) -> None:  # fmt: skip
        indices = (*tile.leading, col) if row is None else (*tile.leading, row, col)
        for k, index in enumerate(indices):
            self.builder.stays_below(index, self.domain[k])
        compute(into, self.outs, indices, self.extents, roots)

    def _row(self, into: Linearizer, tile: Tile, row: Expr | None, cols: tuple[Expr, Expr],
             roots: Sequence[Expr], kind: str = "vector", rare: bool = False) -> None:  # fmt: skip
        def part(cols: tuple[Expr, Expr], roots: Sequence[Expr], single: bool) -> None:
            with into.loop("j", *cols, "serial" if single else kind, rare=rare) as j:
                self._element(into, tile, row, j, roots)

        if kind == "vector" and roots is self.inside:
            indices = tile.leading if row is None else (*tile.leading, row)
            self._in_parts(into, indices, roots, cols, part)
        else:
            part(cols, roots, False)

    def _in_parts(self, into: Linearizer, indices: Sequence[Expr], roots: Sequence[Expr],
                  cols: tuple[Expr, Expr], part: Part) -> None:  # fmt: skip
        """Split rows so that the conditions that guard reads are constant in each part."""
        known = dict(enumerate(indices))
        in_parts(into, self.builder, tuple(roots), known, self.rank - 1, cols, part)

    def tile(self, into: Linearizer, tile: Tile) -> None:
        if self.box is not None:
            self._with_border(into, tile)
        elif self.rank == 1:
            self._row(into, tile, None, tile.cols, self.inside)
        else:
            first = self._several_rows(into, tile, tile.rows, tile.cols)
            with into.loop("i", first, tile.rows[1]) as i:
                self._row(into, tile, i, tile.cols, self.inside)

    def _several_rows(self, into: Linearizer, tile: Tile, rows: tuple[Expr, Expr],
                      cols: tuple[Expr, Expr]) -> Expr:  # fmt: skip
        """Compute `unroll` rows at a time; returns the first remaining row."""
        if self.unroll == 1:
            return rows[0]
        count = (rows[1] - rows[0]) // self.unroll * self.unroll  # fmt: skip
        stop = into.let(rows[0] + count, "rows_left")
        with into.loop("i", rows[0], stop, step=self.unroll) as i:

            def part(cols: tuple[Expr, Expr], roots: Sequence[Expr], single: bool) -> None:
                with (
                    into.loop("j", *cols, "serial" if single else "vector") as j,
                    into.loop("u", 0, self.unroll, "unrolled") as u,
                ):
                    self._element(into, tile, i + u, j, roots)

            self._in_parts(into, tile.leading, self.inside, cols, part)
        return stop

    def _with_border(self, into: Linearizer, tile: Tile) -> None:
        """Plain reads inside the box, reads with resolved boundaries around it."""
        box, rank = self.box, self.rank
        assert box is not None
        c0, c1 = tile.cols
        left = into.let(at.minimum(at.maximum(c0, box.low[-1]), c1), "left")
        right = into.let(at.maximum(left, at.minimum(c1, box.high[-1])), "right")
        if rank == 1:
            into.append(Comment("interior"))
            self._row(into, tile, None, (left, right), self.inside)
            into.append(Comment("border"))
            self._sides(into, tile, None, left, right)
            return
        r0, r1 = tile.rows
        inner = at.both(*(
            at.both(at.less_equal(box.low[k], i), at.less(i, box.high[k]))
            for k, i in enumerate(tile.leading)
        ))  # fmt: skip
        rows = self.over or Overrun(box.low[-2], box.high[-2], 0, 0)
        top = into.let(at.minimum(at.maximum(r0, rows.low), r1), "top")
        bottom = at.maximum(top, at.minimum(r1, rows.high))
        bottom = into.let(at.select(inner, bottom, top), "bottom")
        into.append(Comment("interior"))
        below = bottom
        if self.over is not None:
            self._whole_rows(into, tile, (top, bottom), self.over)
        elif self.unroll > 1:
            below = self._several_rows(into, tile, (top, bottom), (left, right))
        else:
            with into.loop("i", top, bottom) as i:
                self._row(into, tile, i, (left, right), self.inside)
        rare = rank == 2 and self.unroll == 1  # the first and last rows of the domain
        into.append(Comment("rows at the border (and those left over)"))
        with into.loop("part", 0, 2) as part:
            upper = at.equal(part, 0)
            with into.loop("i", at.select(upper, r0, below), at.select(upper, top, r1)) as i:
                self._row(into, tile, i, (left, right), self.between, rare=rare)
                if self.over is not None:
                    self._sides(into, tile, i, left, right)
        if self.over is None:
            into.append(Comment("columns at the border"))
            with into.loop("i", r0, r1) as i:
                self._sides(into, tile, i, left, right)

    def _whole_rows(self, into: Linearizer, tile: Tile, rows: tuple[Expr, Expr], over: Overrun
                    ) -> None:  # fmt: skip
        """Rows from end to end; values that reads beyond the ends resolve to are patched in."""

        def at_index(*indices: Expr) -> AbstractContextManager[None]:
            return into.when_always({Index(k): x for k, x in enumerate((*tile.leading, *indices))})

        columns = [at.integer(c) for c in range(over.left)]
        columns += [self.extents[-1] - (1 + c) for c in range(over.right)]
        with into.loop("i", *rows) as i:
            ends = [into.let(column, "end") for column in columns]
            here = [Var("here", bool_) for _ in columns]
            found: dict[Expr, Expr] = {}
            for read, c in over.reads:
                beyond = range(-c) if c < 0 else range(over.left, over.left + c)
                value: Expr = Read(read.node, read.component, read.args)
                for k in beyond:
                    with at_index(i, ends[k]):
                        own = transform.resolve_axes(read, [len(read.args) - 1])
                        value = at.select(here[k], into.value(own, "beyond"), value)
                found[read] = value
            roots = rewrite(self.roots, lambda e: e, found)
            box = self.box
            assert box is not None
            roots = transform.resolve(roots, self.builder, self.domain, box.safe(range(self.rank)))
            with into.loop("j", *tile.cols, "vector") as j:
                into.append(*(Let(v, at.equal(j, e)) for v, e in zip(here, ends, strict=True)))
                self._element(into, tile, i, j, roots)

    def _sides(self, into: Linearizer, tile: Tile, row: Expr | None, left: Expr, right: Expr
               ) -> None:  # fmt: skip
        c0, c1 = tile.cols
        with into.loop("side", 0, 2) as side:
            first = at.equal(side, 0)
            cols = (at.select(first, c0, right), at.select(first, left, c1))
            self._row(into, tile, row, cols, self.anywhere, "serial")

    def transposed(self, into: Linearizer, tile: Tile) -> None:
        """Narrow columns: the cache lines read for one row are reused for the next."""
        c0, c1 = tile.cols
        with into.loop("column", c0, c1, step=TRANSPOSE_COLUMNS) as column:
            stop = into.let(at.minimum(column + TRANSPOSE_COLUMNS, c1), "column_stop")
            with into.loop("i", *tile.rows) as i:
                self._row(into, tile, i, (column, stop), self.inside, self.gathering)


class _Merged(_Rows):
    """Columns and a short channel axis merged into one row (`lower/stencil/merged.py`)."""

    def __init__(self, builder: Builder, node: Generate, outs: Sequence[Buffer],
                 box: transform.Interior, inside: Sequence[Expr], between: Sequence[Expr],
                 position: Var) -> None:  # fmt: skip
        roots, rank = node.elements, len(node.shape)
        unroll = _unrolled_rows(builder, transform.inside(roots, node.shape), rank - 1)
        super().__init__(builder, node, outs, unroll, box)
        self.short, self.channels = node.shape[-1], builder.extent(node.shape[-1])
        self.domain = (*node.shape[:-2], at.product(node.shape[-2:]))
        self.rank, self.extents = rank - 1, builder.shape(self.domain)
        low, high = ([*bounds[:-2], bounds[-2] * self.channels] for bounds in (box.low, box.high))
        self.box = replace(box, low=low, high=high)
        self.inside, self.between = tuple(inside), tuple(between)
        self.position = position
        self.elements = elements_per_task(builder, roots, outs)

    @staticmethod
    def of(builder: Builder, node: Generate, outs: Sequence[Buffer]) -> _Merged | None:
        """For stencils without offsets along a short last axis."""
        roots, domain, rank = node.elements, node.shape, len(node.shape)
        if builder.context.check or rank < 2 or not transform.has_boundary(roots):
            return None
        if not is_short(builder, domain[-1], NARROW):
            return None
        box = transform.interior(roots, domain, builder)
        if box is None or box.positions:
            return None
        position = Var("p", int64)
        inside, between = (
            merge(transform.resolve(roots, builder, domain, box.safe(axes)), domain, builder,
                  position)
            for axes in (range(rank), (rank - 2, rank - 1))
        )  # fmt: skip
        if inside is None or between is None:
            return None
        return _Merged(builder, node, outs, box, inside, between, position)

    def emit(self, task: Var, into: Linearizer) -> Tiling:
        """Emit the tiles."""
        tiles = tiling.default_tiling(self.builder, self.domain, self.elements, self.unroll)
        tiles.emit(into, task, self.tile)
        self.builder.notes.append("columns and elements of the last axis as one row")
        if self.rank == 1 and tiles.blocks is not None:
            return replace(tiles, blocks=replace(tiles.blocks, unit=self.short))
        return tiles

    def _in_parts(self, into: Linearizer, indices: Sequence[Expr], roots: Sequence[Expr],
                  cols: tuple[Expr, Expr], part: Part) -> None:  # fmt: skip
        part(cols, roots, False)  # a merged column is not an index

    def _element(self, into: Linearizer, tile: Tile, row: Expr | None, col: Expr,
                 roots: Sequence[Expr]) -> None:  # fmt: skip
        indices = (*tile.leading, col) if row is None else (*tile.leading, row, col)
        named: dict[Expr, Expr] = {Index(k): x for k, x in enumerate(indices[:-1])}
        named[self.position] = col
        named[Index(self.rank - 1)] = col // self.channels
        named[Index(self.rank)] = col % self.channels
        with into.when_always(named):
            put(into, self.outs, at.linear(indices, self.extents), into.emit(roots))


def _note_single_elements(plan: Resolved, builder: Builder) -> None:
    """A note if the order prevents vectorisation along rows, with a suggested schedule."""
    schedule = tiling.schedule_of(builder)
    in_pieces = plan.order.run is not None and max(plan.unit) == 1
    if schedule is None:
        return
    if in_pieces and not ascends(plan.order, plan.ndim):
        builder.notes.append(f"{shown(schedule)}: a CPU takes each piece of a row that the order "
                             "visits from left to right")  # fmt: skip
    if in_pieces and (plan.order.run or 0) >= VECTOR:
        return
    order = replace(plan.order, grain=None)
    kept = [layer for layer in schedule.layers if layer.slot not in ("order", "block")]
    sides = (1024,) if plan.ndim == 1 else (1,) * (plan.ndim - 2) + (8, 256)
    sides = tuple(ceil_div(n, u) * u for n, u in zip(sides, plan.unit, strict=True))
    better = f", e.g. {shown(Schedule().replace(order, Block(*sides), *kept))}"
    if isinstance(order, Table):  # a table of elements; blocks would need another one
        better = ""
    few = plan.order.run or 1
    grain = f"{few} at a time" if in_pieces and few > 1 else "one by one"
    builder.notes.append(
        f"{shown(schedule)}: {grain}, in the order {shown(order)}: add a Block for vectors{better}"
    )


def _elements_in_order(plan: Resolved, builder: Builder, node: Generate,
                       outs: Sequence[Buffer], task: Var, into: Linearizer) -> Expr:  # fmt: skip
    """Thread grain: ids in sequence, each at the coordinates that the order assigns to it.

    Consecutive ids that form a row segment are computed together; the coordinates of its two ends
    determine that (`Order.run`).
    """
    if plan.order.run is not None and all(u == 1 for u in plan.unit):
        return _runs_in_order(plan, builder, node, outs, task, into)
    roots = transform.resolve(node.elements, builder, node.shape)
    extents = builder.shape(node.shape)
    ids_host = tiling.host_ids(plan, node.shape)
    ids = builder.scalar(ids_host, "ids")
    elements = elements_per_task(builder, roots, outs)
    start, stop = tiling.block_range(into, "id", task, elements, ids)
    with into.loop("id", start, stop, "vector") as ident:
        exists, origin = tiling.unit_origin(plan, builder, node.shape, into, ident)
        with into.when(exists):
            _unit(builder, into, outs, extents, plan.unit, origin, [], roots)
    return builder.scalar(at.ceil_div(ids_host, elements), "blocks")


def _runs_in_order(plan: Resolved, builder: Builder, node: Generate, outs: Sequence[Buffer],
                   task: Var, into: Linearizer) -> Expr:  # fmt: skip
    """One run at a time: as a row segment if its ids form one, else element by element."""
    extents = builder.shape(node.shape)
    ids_host = tiling.host_ids(plan, node.shape)
    ids = builder.scalar(ids_host, "ids")
    elements = tiling.whole_runs(plan, elements_per_task(builder, node.elements, outs))
    start, stop = tiling.block_range(into, "id", task, elements, ids)
    box = transform.interior(node.elements, node.shape, builder)
    body = _Rows(builder, node, outs, 1, box)

    def one_by_one(begin: Expr, end: Expr) -> None:
        with into.loop("id", begin, end, "vector") as ident:
            _, origin = tiling.unit_origin(plan, builder, node.shape, into, ident)
            compute(into, outs, origin, extents, body.anywhere)

    tiling.in_runs(plan, builder, node.shape, into, (start, stop), body.tile, one_by_one)
    return builder.scalar(at.ceil_div(ids_host, elements), "blocks")


def _along_lanes(plan: Resolved, builder: Builder, node: Generate, outs: Sequence[Buffer],
                 task: Var, into: Linearizer) -> Expr:  # fmt: skip
    """Blocks in the order of the schedule, their elements in vectors along the axis of `Lanes`."""
    roots = transform.resolve(node.elements, builder, node.shape)
    extents = builder.shape(node.shape)
    axes = [k for k in range(plan.ndim) if k != plan.lanes] + [plan.lanes]
    exists, origin = tiling.unit_origin(plan, builder, node.shape, into, task)
    with into.when(exists), ExitStack() as around:
        indices: dict[int, Expr] = {}
        for k in axes:
            stop = into.let(at.minimum(origin[k] + plan.unit[k], extents[k]), f"stop{k}")
            kind = "vector" if k == plan.lanes else "serial"
            indices[k] = around.enter_context(into.loop(f"i{k}", origin[k], stop, kind))
            builder.stays_below(indices[k], node.shape[k])
        compute(into, outs, [indices[k] for k in range(plan.ndim)], extents, roots)
    return builder.scalar(tiling.host_ids(plan, node.shape), "blocks")


def _unit(builder: Builder, into: Linearizer, outs: Sequence[Buffer], extents: Sequence[Expr],
          unit: Sequence[int], origin: Sequence[Expr], done: list[Expr], roots: Sequence[Expr]
          ) -> None:  # fmt: skip
    """The outputs of one thread: small loops over the axes that have several."""
    k = len(done)
    if k == len(unit):
        compute(into, outs, done, extents, roots)
        return
    if unit[k] == 1:
        _unit(builder, into, outs, extents, unit, origin, [*done, origin[k]], roots)
        return
    with into.loop(f"u{k}", 0, unit[k], "unrolled") as u:
        index = origin[k] + u
        with into.when(at.less(index, extents[k])):
            _unit(builder, into, outs, extents, unit, origin, [*done, index], roots)
