"""Folds of rows: `lanes` threads (a power of two up to a block) fold a row (`gpu_row_folder.py`); a
single thread folds a short row of a floating-point reduction (`gpu_short.py`).

If there are few long rows, they are split into parts, and a second kernel combines the parts of a
row.  A schedule orders the blocks and the parts within a block (`../gpu/visits.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from treadle.dsl.analysis.combines import SHORT_ROW
from treadle.dsl.expr import FALSE, TRUE, Expr, Index, Var, constant
from treadle.dsl.graph import Combine, Fold, Shape
from treadle.dsl.node import LEAVES, PARTIALS
from treadle.dsl.records import dataclass
from treadle.dsl.types import int64

from ...ir import arithmetic as at
from ...ir.kernel import Buffer, Kernel, Load, Lowered
from ...ir.linearize import Linearizer
from .. import tiling, transform
from ..build import Builder
from ..combining import accumulate, declare, get, put
from ..gpu.collectives import neutral_of, reduce_warp, shuffled, tree
from ..gpu.common import WARP, Threads, multiples
from ..gpu.orders import BlockVisits, Visits, leaf
from .gpu_jam import JammedFold
from .gpu_row_folder import RowElements, RowFolder, vector_of
from .gpu_short import FEW_LANES, ShortRows, sequential
from .rows import Kept, RowFold

#: Threads of a block; of one that combines partial results, and the vectors it loads at once.
THREADS, COMBINE_THREADS, COMBINE_UNROLL = 256, 512, 8
#: Total number of blocks to split rows into; minimum vectors per thread for which splitting pays.
BLOCKS, LEAST = 16384, 8
#: Vectors per thread for which fewer threads per row pay off.
DEPTH = 4
#: Rows per thread if a row has one vector per lane and at most FEW_LANES lanes; longer rows get
#: more vectors per lane before they get more lanes.
ROWS_PER_THREAD = 4


def part_of(rows: Expr, count: Expr, step: int) -> Expr:
    """Elements per part of a row, if rows may be split; a block takes `step` at a time."""
    most = at.minimum(BLOCKS // at.maximum(rows, 1),
                      count // (step * LEAST))  # fmt: skip
    share = at.ceil_div(count, at.maximum(most, 1))
    return at.maximum(at.ceil_div(share, step) * step, step)


def parts_of(count: Expr, span: Expr) -> Expr:
    """Parts of `span` elements of a row."""
    return at.maximum(at.ceil_div(count, span), 1)


def leaves(outer: Shape, parts: Expr, each: int) -> tuple[Shape, tuple[int, ...]]:
    """The grid of leaves (`../visits.py`), and the elements of one along each axis."""
    return (parts, *outer), (THREADS * each * LEAST, *(1 for _ in outer))


@dataclass(frozen=True)
class _RowSplit:
    """The assignment of `rows` rows of `count` elements to blocks of THREADS threads, as kernel
    scalars.

    `lanes` threads fold a part of `span` elements; a row has `parts` parts, and a block folds
    `per_block` of them.
    """

    rows: Expr
    count: Expr
    lanes: Expr
    parts: Expr
    span: Expr
    per_block: Expr
    units: Expr
    tasks: Expr
    host_lanes: Expr
    host_parts: Expr

    @classmethod
    def of(cls, builder: Builder, rows: Expr, count: Expr, each: int, threads: int,
           cut: Expr | None, when: Expr = TRUE, least: int = 1) -> _RowSplit:  # fmt: skip
        """`each`: consecutive elements per thread; `cut`: elements per part, if rows are split;
        `least`: lanes of a row."""
        lanes: Expr = at.integer(threads)
        width = threads // 2
        while width >= least:
            depth = DEPTH if width >= FEW_LANES else 1
            lanes = at.select(at.less_equal(count, width * each * depth), width, lanes)
            width //= 2
        parts: Expr = constant(1)
        span: Expr = at.maximum(count, 1)
        if cut is not None:
            span = cut
            parts = parts_of(count, span)
        per_block = threads // lanes
        units = rows * parts
        tasks = at.select(when, at.ceil_div(units, per_block), 0)
        names = ("rows", "count", "lanes", "parts", "span", "per_block", "units", "blocks")
        hosts = (rows, count, lanes, parts, span, per_block, units, tasks)
        a, b, c, d, e, f, g, h = map(builder.scalar, hosts, names)
        return cls(a, b, c, d, e, f, g, h, lanes, parts)


class RowsFold(RowFold):
    """Rows along the inner axes."""

    def __init__(self, builder: Builder, node: Fold, kept: Kept | None = None) -> None:
        super().__init__(builder, node, node.outer)
        self.jammed = JammedFold.of(builder, node) if kept is None else None
        self.sequential = sequential(node)
        elements = node.elements if kept is None else kept.elements()
        roots = transform.resolve(elements, builder, (*node.outer, *node.inner))
        rank, inner = len(node.outer), node.inner
        vector = 1 if node.label.part == PARTIALS else vector_of(node)
        self.rows, self.count = at.product(node.outer), at.product(inner)
        position = Var("p", int64)
        linear = None
        if len(inner) > 1 and (kept is None or kept.in_order):
            domain = (*node.outer, *inner)
            linear = transform.collapse(roots, domain, builder, position, rank)
        if linear is not None or not inner:
            self.elements = RowElements(builder, linear or roots, position, vector, kept=kept)
        else:
            last = Index(rank + len(inner) - 1)
            self.elements = RowElements(builder, roots, last, vector, inner[:-1], inner[-1], rank,
                                        kept)  # fmt: skip
        types = [r.type for r in node.combine.results]
        if self.outer and self.elements.wide:
            whole = multiples(self.count, vector, builder)
            self.elements.wide = whole is not None
            self.elements.requires += tuple(whole or ())
        self.warp_totals = builder.shared("warp_total", types, COMBINE_THREADS // WARP)

        self.each = RowFolder(self.combine, self.elements, constant(1)).each
        self.tiles = FALSE if self.jammed is None else self.jammed.when
        rows = node.label.grouping((*node.outer, *inner))[: len(node.outer)]
        span = part_of(at.product(rows), self.count, THREADS * self.each)
        if self.jammed is not None and self.jammed.exact:
            span = at.select(self.tiles, self.jammed.span, span)
        #: Whether rows are so short that they have few lanes, and other kernels fold them.
        self.few = at.both(at.less_equal(self.count, FEW_LANES * self.each), at.negate(self.tiles))
        if self.sequential is FALSE:  # either the fold is exact, or no row is short
            exact = self.outer and neutral_of(self.combine) is not None
            self.short_rows = self.few = self.few if exact else FALSE
        else:
            self.short_rows = self.sequential
            self.few = at.both(self.sequential, self.few)
        self.long = at.negate(self.short_rows)
        self.split = _RowSplit.of(
            builder, self.rows, self.count, self.each, THREADS, span, self.long
        )
        grid, leaf = leaves(self.outer, self.split.host_parts, self.each)
        self.visits = Visits.of(builder, grid, leaf, not self.outer)

    def blocks(self) -> Expr:
        """The number of thread blocks (host) for rows that are not short."""
        per_block = THREADS // self.split.host_lanes
        if self.visits is not None:
            return BlockVisits(self.visits, per_block).tasks
        return at.ceil_div(self.rows * self.split.host_parts, per_block)

    def lower(self) -> Lowered:
        if self.node.label.part == LEAVES:
            return self._leaves()
        if self.node.label.part == PARTIALS:
            return self.builder.lowered(self._combine(None, self.count, self.elements))
        builder, split, jammed, few, each = (
            self.builder, self.split, self.jammed, self.few, self.each)  # fmt: skip
        partials = self.rows * split.host_parts
        self.scratch = self.partials(builder.scalar(partials, "partials"))
        kernels = []
        if few is not FALSE:
            kernels.append(self._variants(partial(self._short, split, few)))
        if self.sequential is not FALSE and (
            FEW_LANES * each < SHORT_ROW - 1 or jammed is not None
        ):
            more = ShortRows(self, at.both(self.short_rows, at.negate(few)), THREADS)
            kernel = self._variants(more.kernel)
            kernels.append(kernel if jammed is None else jammed.sequential(self, split, kernel))
        first = self._variants(partial(self._blocks, split))
        if jammed is not None:
            first = jammed.kernels(self, split, first)
        base, k = Var("base", int64), Var("k", int64)
        loads = [Load(s, base + k) for s in self.scratch]
        results = RowElements(builder, loads, k, 1)
        return builder.lowered(
            *kernels, first, self._combine(split, split.host_parts, results, base)
        )

    def _leaves(self) -> Lowered:
        """Rows that are leaves: each is folded by a block, like the parts of a long row."""
        builder = self.builder
        split = _RowSplit.of(builder, self.rows, self.count, 1, THREADS, None, least=THREADS)
        self.visits, self.long, self.scratch = None, TRUE, ()
        return builder.lowered(self._variants(partial(self._blocks, split)))

    def _variants(self, make: Callable[[RowElements, Kernel | None], Kernel]) -> Kernel:
        """A kernel with wide loads if they are valid, otherwise without."""
        plain = make(self.elements.scalar_only(), None)
        return make(self.elements, plain) if self.elements.wide else plain

    def _blocks(self, split: _RowSplit, elements: RowElements, fallback: Kernel | None) -> Kernel:
        into, grid = self.builder.emitter(), Threads.of(THREADS)
        folder = RowFolder(self.combine, elements, split.lanes)

        def end(at_row: Sequence[Expr], row: Expr, part: Expr, total: tuple[Var, ...]) -> None:
            where = row * split.parts + part
            self.finish_or_keep(into, at_row, total, split.count, split.parts, where)

        tasks = split.tasks
        if self.visits is None:
            self._emit(into, grid, split, folder, end)
        else:
            tasks = self._emit_visits(self.visits, into, grid, split, folder, end)
        gpu = grid.launch(elements.requires if elements.wide else (), elements.aligned, fallback)
        return self.kernel("blocks", tasks, grid.task, into, how(self.combine), **gpu)

    def _emit_visits(self, visits: Visits, into: Linearizer, grid: Threads, split: _RowSplit,
                     folder: RowFolder, end: Callable[..., None]) -> Expr:  # fmt: skip
        """Emit the code of a thread under a schedule; returns the number of thread blocks."""
        iterations = BlockVisits(visits, THREADS // split.host_lanes)
        lane = into.let(grid.thread % split.lanes, "lane")
        group = into.let(grid.thread // split.lanes, "group")
        with iterations.leaves(into, grid.task, group) as (owner, (part, *at_row)):
            row = into.let(at.linear(at_row, self.extents), "row")
            self._part(into, grid, split, folder, end, (lane, owner, row, part), at_row)
        tasks = at.select(self.long, iterations.tasks, 0)
        return self.builder.scalar(tasks, "visit_blocks")

    def _combine(self, first: _RowSplit | None, parts: Expr, elements: RowElements,
                 base: Var | None = None) -> Kernel:  # fmt: skip
        """The kernel that combines each row's partial results in order: those of the kernel before,
        assigned as in `first`, or, without it, of another program."""
        builder = self.builder
        into, grid = builder.emitter(), Threads.of(COMBINE_THREADS)
        elements = elements.scalar_only()
        each = RowFolder(self.combine, elements, constant(1)).each
        several = TRUE if first is None else at.less(1, parts)
        split = _RowSplit.of(builder, self.rows, parts, each, COMBINE_THREADS, None, several)
        folder = RowFolder(self.combine, elements, split.lanes, COMBINE_UNROLL)
        count = split.count if first is None else first.count

        def end(at_row: Sequence[Expr], row: Expr, part: Expr, total: tuple[Var, ...]) -> None:
            self.finish(into, at_row, total, count)

        self._emit(into, grid, split, folder, end, base)
        return self.kernel("combine", split.tasks, grid.task, into,
                           "partial results from left to right", **grid.launch())  # fmt: skip

    def _short(self, split: _RowSplit, when: Expr, elements: RowElements, fallback: Kernel | None
               ) -> Kernel:  # fmt: skip
        """Rows of one vector per lane, ROWS_PER_THREAD rows per thread: all loads first."""
        builder, into, grid = self.builder, self.builder.emitter(), Threads.of(THREADS)
        folder = RowFolder(self.combine, elements, split.lanes)
        side_host = THREADS // split.host_lanes
        visits = self.visits
        numbers = self.rows if visits is None else visits.total_host
        blocks = at.ceil_div(numbers, side_host * ROWS_PER_THREAD)
        tasks = builder.scalar(at.select(when, blocks, 0), "short_blocks")
        side = builder.scalar(side_host, "side")
        lane = into.let(grid.thread % split.lanes, "lane")
        first = into.let(lane * folder.vector, "first")
        begin = grid.task * side * ROWS_PER_THREAD
        begin = into.let(begin + grid.thread // split.lanes, "begin")
        types = [r.type for r in self.combine.results]
        elements_ = builder.local("row", types, ROWS_PER_THREAD * folder.vector)
        last = split.rows - 1
        with into.loop("iteration", 0, ROWS_PER_THREAD, "unrolled") as iteration:
            number = begin + side * iteration
            if visits is None:
                row = into.let(at.minimum(number, last), "row")
                at_row = tiling.coordinates(builder, into, row, self.outer)
            else:
                at_row = leaf(visits, into, into.let(number, "number"))[1][1:]
            slot = into.let(iteration * folder.vector, "slot")
            with into.when_always({Index(k): c for k, c in enumerate(at_row)}):
                folder.short(into, first, split.count, elements_, slot)
        mine: Expr = at.equal(lane, 0)
        if self.sequential is not FALSE:
            vectors = at.maximum(at.ceil_div(self.count, folder.vector), 1)
            with_any = builder.scalar(vectors, "vectors")
            totals = self._from_the_left(into, elements_, folder.vector, with_any)
            mine = at.equal(lane, with_any - 1)
        with into.loop("iteration", 0, ROWS_PER_THREAD, "unrolled") as iteration:
            if self.sequential is not FALSE:
                total = declare(into, get(into, totals, iteration))
            else:
                slot = into.let(iteration * folder.vector, "slot")
                slots = [slot + k for k in range(folder.vector)]
                own = [declare(into, get(into, elements_, p)) for p in slots]
                total = tree(into, self.combine, own)
                reduce_warp(into, self.combine, total, lane, split.lanes, most=FEW_LANES)
            number = begin + side * iteration
            if visits is None:
                row = into.let(number, "row")
                with into.when(at.both(mine, at.less(row, split.rows))):
                    at_row = tiling.coordinates(builder, into, row, self.outer)
                    self.finish(into, at_row, total, split.count)
            else:
                exists, found = leaf(visits, into, into.let(number, "number"))
                with into.when(at.both(mine, exists)):
                    self.finish(into, found[1:], total, split.count)
        gpu = grid.launch(elements.requires if elements.wide else (), elements.aligned, fallback)
        return self.kernel(
            "short", tasks, grid.task, into, f"{ROWS_PER_THREAD} short rows a thread", **gpu
        )

    def _from_the_left(self, into: Linearizer, elements_: Sequence[Buffer], vector: int, lanes: Expr
                       ) -> tuple[Buffer, ...]:  # fmt: skip
        """The combinations of ROWS_PER_THREAD rows, in the last lane that has elements: in
        step n lane n continues from the total of lane n − 1.  The results of other lanes are not
        used."""
        totals = self.builder.local("total", [b.type for b in elements_], ROWS_PER_THREAD)

        def go_on(iteration: Expr, total: tuple[Var, ...], first: int) -> None:
            slot = into.let(iteration * vector, "slot")
            for k in range(first, vector):
                accumulate(into, self.combine, total, get(into, elements_, slot + k))
            put(into, totals, iteration, total)

        with into.loop("iteration", 0, ROWS_PER_THREAD, "unrolled") as iteration:
            own = get(into, elements_, iteration * vector)
            go_on(iteration, declare(into, own), 1)
        for step in range(1, FEW_LANES):  # a loop would use more registers
            with (
                into.when(at.less(step, lanes)),
                into.loop("iteration", 0, ROWS_PER_THREAD, "unrolled") as iteration,
            ):
                before = shuffled(into, "shuffle_up", get(into, totals, iteration), 1)
                go_on(iteration, declare(into, before), 0)
        return totals

    def _emit(self, into: Linearizer, grid: Threads, split: _RowSplit, folder: RowFolder,
              end: Callable[..., None], base: Var | None = None) -> None:  # fmt: skip
        """Emit the code of a thread; `base` is bound to the first partial result of a row."""
        lane = into.let(grid.thread % split.lanes, "lane")
        own = into.let(grid.task * split.per_block + grid.thread // split.lanes, "own")  # fmt: skip
        unit = into.let(at.minimum(own, split.units - 1), "unit")
        row = into.let(unit // split.parts, "row")
        part = into.let(unit % split.parts, "part")
        at_row = tiling.coordinates(self.builder, into, row, self.outer)
        which = (lane, at.less(own, split.units), row, part)
        self._part(into, grid, split, folder, end, which, at_row, base)

    def _part(self, into: Linearizer, grid: Threads, split: _RowSplit, folder: RowFolder,
              end: Callable[..., None], which: tuple[Expr, Expr, Expr, Expr],
              at_row: Sequence[Expr], base: Var | None = None) -> None:  # fmt: skip
        """One part of one row.  `which`: lane, whether the thread owns the part, row, part."""
        lane, owner, row, part = which
        start, stop = tiling.block_range(into, "part", part, split.span, split.count)
        bindings: dict[Expr, Expr] = {Index(k): c for k, c in enumerate(at_row)}
        if base is not None:
            bindings = {base: into.let(row * split.count, "base")}
        with into.when_always(bindings):
            total = folder.fold(into, grid, lane, start, stop, self.warp_totals)
        with into.when(at.both(at.equal(lane, 0), owner)):
            end(at_row, row, part, total)


def how(combine: Combine) -> str:
    return "threads take elements round-robin" if neutral_of(combine) is not None else "in order"
