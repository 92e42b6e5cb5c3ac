"""Folds of adjacent columns, for sums over the first axes: reads are contiguous across columns.

A thread folds VECTOR columns.  `height` threads share the rows of these columns and combine their
results in order through shared memory.  If the operator commutes and has a neutral element, the
threads take rows round-robin, otherwise consecutive rows.  If there are few columns, the rows are
split into parts, which a second kernel combines.  A schedule orders the parts of the columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from treadle.dsl.analysis.combines import argument_ahead
from treadle.dsl.expr import FALSE, TRUE, Expr, Index, Var, constant
from treadle.dsl.graph import Combine, Fold, Shape
from treadle.dsl.node import LEAVES, PARTIALS
from treadle.dsl.records import dataclass
from treadle.dsl.types import int64

from ...ir import arithmetic as at
from ...ir.kernel import Barrier, Buffer, Kernel, Load, Lowered
from ...ir.linearize import Linearizer
from .. import tiling, transform
from ..build import Builder, element_cost
from ..combining import Values, accumulate, assign, declare, get, put, zeros
from ..gpu.collectives import STEPS, neutral_of
from ..gpu.common import Group, Threads, multiples
from ..gpu.orders import BlockVisits, Visits
from .gpu_row_folder import UNROLL, unrolling, vector_of
from .gpu_rows import how
from .gpu_short import sequential
from .rows import Kept, RowFold

#: Threads of a block; of one that combines partial results.
THREADS, COMBINE_THREADS = 256, 1024
#: Threads across the columns: a warp of vectors; a sector when combining partial results.
WIDTH, COMBINE_WIDTH = 32, 8
#: Minimum number of threads for which each takes several short columns.
FEW_UNITS = 1 << 16
#: Total number of blocks to split rows into; minimum rows per thread for which splitting pays.
BLOCKS, LEAST = 2112, 8


def sides_across(columns: Expr, vector: int, widest: Expr) -> tuple[Expr, Expr]:
    """The threads of a block across the columns, `widest` at most, and the blocks across them."""
    groups = at.ceil_div(columns, vector)
    width = at.maximum(at.ceil_div(groups, at.maximum(at.ceil_div(groups, widest), 1)), 1)
    return width, at.ceil_div(groups, width)


def parts_of(planes: Expr, across: Expr, height: Expr, count: Expr, short: Expr = FALSE
             ) -> tuple[Expr, Expr]:  # fmt: skip
    """The parts that columns of `count` rows are split into, and the rows of a part."""
    most = at.minimum(BLOCKS // at.maximum(planes * across, 1), count // (height * LEAST))
    share = at.ceil_div(count, at.maximum(at.select(short, 1, most), 1))
    span = at.maximum(at.ceil_div(share, height) * height, height)
    return at.maximum(at.ceil_div(count, span), 1), span


def leaves(outer: Shape, parts: Expr, across: Expr, vector: int) -> tuple[Shape, tuple[int, ...]]:
    """The grid of leaves (`../visits.py`), and the elements of one along each axis."""
    leaf = THREADS // WIDTH * LEAST, *(1 for _ in outer[1:]), WIDTH * vector
    return (parts, *outer[:-1], across), leaf


@dataclass(frozen=True)
class _Sides:
    """The assignment of `columns` columns of `count` rows in `planes` planes to blocks, as kernel
    scalars.

    A block is `width` threads wide, each with VECTOR columns, and `height` threads high.  A plane
    is `across` blocks wide and `parts` blocks high, with `span` rows per part.
    """

    planes: Expr
    columns: Expr
    count: Expr
    width: Expr
    height: Expr
    across: Expr
    parts: Expr
    span: Expr
    tasks: Expr
    host_parts: Expr
    host_across: Expr

    @classmethod
    def of(cls, builder: Builder, outer: Shape, count: Expr, vector: int, threads: int,
           widest: Expr | int, cut: bool, short: Expr = FALSE, when: Expr = TRUE,
           whole: Shape | None = None) -> _Sides:  # fmt: skip
        """`short`: the condition under which a single thread folds a column from the top; `whole`:
        the outer extents that determine the grouping, if `outer` is that of a block."""
        planes, columns = at.product(outer[:-1]), outer[-1]
        all_of = outer if whole is None else whole
        width, blocks_across = sides_across(all_of[-1], vector, at.select(short, threads, widest))
        across = at.ceil_div(at.ceil_div(columns, vector), width)
        height = at.select(short, 1, threads // width)
        parts: Expr = constant(1)
        span = at.maximum(count, 1)
        if cut:
            parts, span = parts_of(at.product(all_of[:-1]), blocks_across, height, count, short)
        tasks = at.select(when, at.product((planes, parts, across)), 0)
        names = ("planes", "columns", "count", "width", "height", "across", "parts", "span",
                 "blocks")  # fmt: skip
        hosts = (planes, columns, count, width, height, across, parts, span, tasks)
        a, b, c, d, e, f, g, h, i = map(builder.scalar, hosts, names)
        return cls(a, b, c, d, e, f, g, h, i, parts, across)


Columns = Callable[[Linearizer, Sequence[Expr]], "list[list[Values]]"]


class ColumnFold(RowFold):
    """Folds of adjacent columns."""

    def __init__(self, builder: Builder, node: Fold, kept: Kept | None = None) -> None:
        super().__init__(builder, node, node.outer)
        self.inner, self.kept = node.inner, kept
        elements = node.elements if kept is None else kept.elements()
        self.roots = transform.resolve(elements, builder, (*node.outer, *node.inner))
        self.column = Index(len(node.outer) - 1)
        self.vector = vector_of(node)
        self.neutral, self.short = neutral_of(node.combine), sequential(node)
        self.types = [r.type for r in node.combine.results]
        count = at.product(self.inner)
        self.of_leaves = node.label.part == LEAVES
        if self.of_leaves:
            self.short = FALSE
        whole = node.label.grouping((*self.outer, *self.inner))[: len(self.outer)]
        self.sides = _Sides.of(builder, self.outer, count, self.vector, THREADS, WIDTH,
                               not self.of_leaves, self.short, whole=whole)  # fmt: skip
        grid = leaves(self.outer, self.sides.host_parts, self.sides.host_across, self.vector)
        self.visits = None if self.of_leaves else Visits.of(builder, *grid)

    def blocks(self) -> Expr:
        """The number of thread blocks that fold the elements (host)."""
        if self.visits is not None:
            return BlockVisits(self.visits).tasks
        sides = self.sides
        return at.product((at.product(self.outer[:-1]), sides.host_parts, sides.host_across))

    def lower(self) -> Lowered:
        builder, sides = self.builder, self.sides
        if self.node.label.part == PARTIALS:
            alone = Group(builder, self.roots, self.column, 1)
            return builder.lowered(self._combine(at.product(self.inner), alone, self._inner))
        if not self.of_leaves:
            partials = at.product((sides.host_parts, *self.outer))
            self.scratch = self.partials(builder.scalar(partials, "partials"))
        group = Group(builder, self.roots, self.column, self.vector)
        alone = Group(builder, self.roots, self.column, 1)
        whole = multiples(self.outer[-1], self.vector, builder)
        wide = bool(group.streams) and whole is not None
        if wide:
            group.requires += tuple(whole or ())
        kernels = [self._blocks(sides, alone, None)]
        if wide:
            kernels = [self._blocks(sides, group, kernels[0])]
        if self.short is not FALSE and self.visits is None:
            made = self._short(alone, None)
            kernels.insert(0, self._short(group, made) if wide else made)
        return builder.lowered(*kernels, *([] if self.of_leaves else [self._combine_parts(sides)]))

    def _short(self, group: Group, fallback: Kernel | None) -> Kernel:
        """Columns of few elements, each folded from the top; those of all planes form one range."""
        builder, vector = self.builder, group.count
        planes, columns = at.product(self.outer[:-1]), self.outer[-1]
        groups = at.ceil_div(columns, vector)
        units = planes * groups
        tasks = at.select(self.short, at.ceil_div(units, THREADS), 0)
        one = constant(1)
        hosts = (planes, columns, at.product(self.inner), groups, units, tasks)
        names = ("planes", "columns", "count", "groups", "units", "short_blocks")
        n_planes, n_columns, count, n_groups, n_units, n_tasks = map(builder.scalar, hosts, names)
        sides = _Sides(n_planes, n_columns, count, n_groups, one, one, one, count, n_tasks, one,
                       one)  # fmt: skip
        into, grid = builder.emitter(), Threads.of(THREADS)
        unit = into.let(grid.ident, "unit")
        with into.when(at.less(unit, n_units)):
            plane = into.let(unit // n_groups, "plane")
            x = into.let(unit % n_groups, "x")
            at_plane = tiling.coordinates(builder, into, plane, self.outer[:-1])

            def end(at_row: Sequence[Expr], _: Expr, __: Expr, total: tuple[Var, ...]) -> None:
                self.finish(into, at_row, total, count)

            none = constant(0)
            self._part(into, grid, sides, group, vector, self._inner, end, (plane, none, none),
                       (x, none), at_plane, TRUE)  # fmt: skip
        # One column per thread if there are few columns.
        requires = (*group.requires, at.less(FEW_UNITS, n_units)) if vector > 1 else ()
        gpu = grid.launch(requires, self._aligned(group), fallback)
        return self.kernel("short", n_tasks, grid.task, into, "short columns, each from the top",
                           **gpu)  # fmt: skip

    def _aligned(self, group: Group) -> tuple[Buffer, ...]:
        """The buffers of wide accesses."""
        stored = () if self.kept is None else self.kept.buffers(self.builder)
        return (*group.aligned, *stored) if group.count > 1 else ()

    def _inner(self, inside: Linearizer, k: Expr) -> dict[Expr, Expr]:
        found = tiling.coordinates(self.builder, inside, k, self.inner, "k")
        return {Index(len(self.outer) + n): c for n, c in enumerate(found)}

    def _blocks(self, sides: _Sides, group: Group, fallback: Kernel | None) -> Kernel:
        into, grid = self.builder.emitter(), Threads.of(THREADS)

        def end(at_row: Sequence[Expr], plane: Expr, part: Expr, total: tuple[Var, ...]) -> None:
            above = plane * sides.parts + part
            where = above * sides.columns + at_row[-1]
            self.finish_or_keep(into, at_row, total, sides.count, sides.parts, where)

        visits, tasks = self.visits, sides.tasks
        if visits is None and self.short is not FALSE:  # short columns have a separate kernel
            tasks = self.builder.scalar(at.select(self.short, 0, self.blocks()), "long_blocks")
        if visits is None:
            self._emit(into, grid, sides, group, self.vector, self._inner, end)
        else:
            iterations = BlockVisits(visits)
            with iterations.leaves(into, grid.task, constant(0)) as (own, (part, *at_plane, block)):
                plane = into.let(at.linear(at_plane, self.extents[:-1]), "plane")
                self._part(into, grid, sides, group, self.vector, self._inner, end,
                           (plane, part, block), self._thread_coordinates(into, grid, sides),
                           at_plane, own)  # fmt: skip
            tasks = self.builder.scalar(iterations.tasks, "visit_blocks")
        wide = group.count > 1
        gpu = grid.launch(group.requires if wide else (), self._aligned(group), fallback)
        return self.kernel("blocks", tasks, grid.task, into,
                           f"columns side by side, {how(self.combine)}", **gpu)  # fmt: skip

    def _combine_parts(self, first: _Sides) -> Kernel:
        """The kernel that combines each column's partial results, stored by the kernel before."""
        parts, plane, k = first.host_parts, Var("plane", int64), Var("k", int64)
        above = plane * self.builder.scalar(parts, "count") + k
        columns = self.builder.scalar(self.outer[-1], "columns")
        roots = [Load(s, above * columns + self.column) for s in self.scratch]
        group = Group(self.builder, roots, self.column, 1)
        return self._combine(parts, group, lambda inside, p: {k: p}, first, plane)

    def _combine(self, parts: Expr, group: Group,
                 inner: Callable[[Linearizer, Expr], dict[Expr, Expr]],
                 first: _Sides | None = None, plane: Var | None = None) -> Kernel:  # fmt: skip
        """The kernel that combines each column's partial results from top to bottom: those of the
        kernel before, assigned as in `first`, or, without it, of another program."""
        builder = self.builder
        below = at.maximum(at.ceil_div(parts, UNROLL), 1)
        width = at.maximum(COMBINE_THREADS // below, COMBINE_WIDTH)
        sides = _Sides.of(builder, self.outer, parts, 1, COMBINE_THREADS, width, False,
                          when=TRUE if first is None else at.less(1, parts))  # fmt: skip
        into, grid = builder.emitter(), Threads.of(COMBINE_THREADS)
        count = sides.count if first is None else first.count

        def end(at_row: Sequence[Expr], plane: Expr, part: Expr, total: tuple[Var, ...]) -> None:
            self.finish(into, at_row, total, count)

        self._emit(into, grid, sides, group, 1, inner, end, plane)
        return self.kernel("combine", sides.tasks, grid.task, into,
                           "partial results from top to bottom", **grid.launch())  # fmt: skip

    def _emit(self, into: Linearizer, grid: Threads, sides: _Sides, group: Group, vector: int,
              inner: Callable[[Linearizer, Expr], dict[Expr, Expr]], end: Callable[..., None],
              bound: Var | None = None) -> None:  # fmt: skip
        plane, part, block = (
            into.let(c, name) for c, name in zip(
                at.row_major(grid.task, (sides.planes, sides.parts, sides.across)),
                ("plane", "part", "block"), strict=True)
        )  # fmt: skip
        at_plane = tiling.coordinates(self.builder, into, plane, self.outer[:-1])
        self._part(into, grid, sides, group, vector, inner, end, (plane, part, block),
                   self._thread_coordinates(into, grid, sides), at_plane, TRUE, bound)  # fmt: skip

    def _thread_coordinates(
        self, into: Linearizer, grid: Threads, sides: _Sides
    ) -> tuple[Expr, Expr]:
        """The coordinates of a thread in its block."""
        return (into.let(grid.thread % sides.width, "x"),
                into.let(grid.thread // sides.width, "y"))  # fmt: skip

    def _part(self, into: Linearizer, grid: Threads, sides: _Sides, group: Group, vector: int,
              inner: Callable[[Linearizer, Expr], dict[Expr, Expr]], end: Callable[..., None],
              which: tuple[Expr, Expr, Expr], thread: tuple[Expr, Expr], at_plane: Sequence[Expr],
              owner: Expr, bound: Var | None = None) -> None:  # fmt: skip
        """Fold the plane, part and columns of `which` by the thread there; store if `owner`."""
        (plane, part, block), (x, y) = which, thread
        start, stop = tiling.block_range(into, "part", part, sides.span, sides.count)
        own, known = self._columns(into, sides, group, vector, block, x)
        bindings: dict[Expr, Expr] = {Index(k): c for k, c in enumerate(at_plane)}
        if bound is not None:
            bindings[bound] = plane

        def rows(inside: Linearizer, ks: Sequence[Expr]) -> list[list[Values]]:
            return self._rows(inside, group, own, [inner(inside, into.let(k, "k")) for k in ks])

        # A column of one thread: the other threads of the block repeat it, and store nothing.
        row = at.integer(0) if at.is_constant(sides.height, 1) else y
        with into.when_always(bindings):
            if self.neutral is not None:
                totals = self._strided(into, self.neutral, sides, row, start, stop, rows, vector,
                                       element_cost(group.roots))  # fmt: skip
                valid = sides.height
            else:
                totals, valid = self._ordered(into, sides, row, start, stop, rows, vector)
        self._tree(into, grid, sides, y, totals, valid)
        with into.when(at.both(at.equal(y, 0), owner)):
            for column, inside_, total in zip(own, known, totals, strict=True):
                with into.when(inside_):
                    end((*at_plane, column), plane, part, total)

    def _columns(self, into: Linearizer, sides: _Sides, group: Group, vector: int, block: Expr,
                 x: Expr) -> tuple[list[Expr], list[Expr]]:  # fmt: skip
        """The columns of a thread, clamped to the array, and whether they are its own.

        Adjacent if they are read together; otherwise strided, so that a warp reads consecutive
        columns.
        """
        last = sides.columns - 1
        own, known = [], []
        if group.count > 1:
            mine = into.let(block * sides.width + x, "mine")
            mine = into.let(mine * vector, "first")
            first = into.let(at.minimum(mine, sides.columns - vector), "column")
            inside = into.let(at.less(mine, sides.columns), "inside")
            return [first + k for k in range(vector)], [inside] * vector
        begin = into.let(block * sides.width * vector, "begin")
        for k in range(vector):
            mine = into.let(begin + (sides.width * k + x), "mine")
            column = into.let(at.minimum(mine, last), "column")
            self.builder.stays_below(column, self.outer[-1])
            own.append(column)
            known.append(at.less(mine, sides.columns))
        return own, known

    def _rows(self, into: Linearizer, group: Group, own: Sequence[Expr],
              positions: Sequence[dict[Expr, Expr]]) -> list[list[Values]]:  # fmt: skip
        """The elements of a thread's columns in several rows, all loads first."""
        loaded = []
        for bindings in positions:
            with into.when_always(bindings):
                if group.count > 1:
                    loaded.append(group.load(into, own[0]))
                else:
                    loaded.append([{} for _ in own])
        found = []
        for bindings, reads in zip(positions, loaded, strict=True):
            row, where = [], None
            for column, values_read in zip(own, reads, strict=True):
                with into.when_always({**bindings, self.column: column, **values_read}):
                    row.append(into.emit(group.roots, named=True))
                    if self.kept is None or group.roots is not self.roots:
                        continue
                    if where is None or group.count == 1:
                        where = self.kept.where(into, self.builder)
                    if group.count == 1:
                        row[-1:] = self.kept.store(into, self.builder, where, row[-1:])
            if self.kept is not None and where is not None and group.count > 1:
                row = self.kept.store(into, self.builder, where, row)
            found.append(row)
        return found

    def _strided(self, into: Linearizer, neutral: Sequence[Expr], sides: _Sides, y: Expr,
                 start: Expr, stop: Expr, rows: Columns, vector: int, cost: float
                 ) -> list[tuple[Var, ...]]:  # fmt: skip
        """Every `height`-th row."""
        most = UNROLL if vector > 1 else 2 * UNROLL
        alone = at.is_constant(sides.height, 1)
        unroll = unrolling(cost * vector / 4, 2 * most if alone and vector == 1 else most)
        totals = [declare(into, neutral) for _ in range(vector)]
        length = at.maximum(stop - start, 0)
        all_have = into.let(length // sides.height, "all_have")
        left = length - all_have * sides.height
        mine = all_have
        if not alone:
            mine = all_have + at.select(at.less(y, left), 1, 0)
            mine = into.let(at.select(at.less(y, sides.height), mine, 0), "mine")
        own = at.select(at.less(y, sides.height), all_have, 0)
        rounds = into.let(own // unroll, "rounds")
        first = into.let(start + y, "first")

        def position(k: Expr) -> Expr:
            return first + k * sides.height

        def add(combine: Combine, row: Sequence[Values]) -> None:
            for total, value in zip(totals, row, strict=True):
                accumulate(into, combine, total, value)

        # As in `gpu_row_folder.py`: once a total has its first element, ties need no test.
        ahead = argument_ahead(self.combine)
        if ahead is not None:
            with into.when(at.less(0, rounds)):
                (row,) = rows(into, [position(at.integer(0))])
                for total, value in zip(totals, row, strict=True):
                    assign(into, total, value)
        with into.loop("iteration", 0, rounds) as iteration:
            base = iteration * unroll
            for row in rows(into, [position(base + u) for u in range(unroll)]):
                add(ahead or self.combine, row)
        base = into.let(rounds * unroll, "base")
        with into.when(at.less(base, mine)):
            into.note("What is no whole round: neutral elements stand for what does not exist.")
            loaded = []
            for u in range(unroll):
                values = [declare(into, neutral, "x") for _ in range(vector)]
                k = base + u
                with into.when(at.less(k, mine)):
                    (found,) = rows(into, [position(k)])
                    for variables, value in zip(values, found, strict=True):
                        assign(into, variables, value)
                loaded.append(values)
            for values in loaded:
                add(self.combine, values)
        return totals

    def _ordered(self, into: Linearizer, sides: _Sides, y: Expr, start: Expr, stop: Expr,
                 rows: Columns, vector: int) -> tuple[list[tuple[Var, ...]], Expr]:  # fmt: skip
        """Fold consecutive rows; also the number of threads along the height that have any."""
        length = stop - start
        share = into.let(at.maximum(at.ceil_div(length, sides.height), 1), "share")
        begin = into.let(at.minimum(start + y * share, stop), "begin")
        end = into.let(at.minimum(begin + share, stop), "end")
        totals = [declare(into, zeros(self.combine)) for _ in range(vector)]
        with into.when(at.less(begin, end)):
            (row,) = rows(into, [begin])
            for total, value in zip(totals, row, strict=True):
                assign(into, total, value)
            with into.loop("k", begin + 1, end) as k:
                (row,) = rows(into, [k])
                for total, value in zip(totals, row, strict=True):
                    accumulate(into, self.combine, total, value)
        valid = at.minimum(at.ceil_div(length, share), sides.height)
        return totals, into.let(valid, "valid")

    def _tree(self, into: Linearizer, grid: Threads, sides: _Sides, y: Expr,
              totals: Sequence[tuple[Var, ...]], valid: Expr) -> None:  # fmt: skip
        """Combine vertical neighbours, then every second, …, in order."""
        if at.is_constant(sides.height, 1):
            return
        partials = self.builder.shared("side", self.types, grid.count * len(totals))
        steps = [*STEPS, 32, 64, 128, 256]
        into.note("Rows of threads, by halves: one half hands its totals to the other.")
        for step in [s for s in steps if s < grid.count]:
            with into.when(at.less(step, sides.height)):
                role = into.let(y % (2 * step), "role")
                with into.when(at.equal(role, step)):
                    for k, total in enumerate(totals):
                        put(into, partials, grid.thread + k * grid.count, total)
                into.append(Barrier())
                below = at.less(y + step, valid)
                with into.when(at.both(at.equal(role, 0), below)):
                    other = grid.thread + sides.width * step
                    for k, total in enumerate(totals):
                        value = get(into, partials, other + k * grid.count)
                        accumulate(into, self.combine, total, value)
