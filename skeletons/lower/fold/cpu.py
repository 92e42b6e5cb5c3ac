"""Folds along rows, on a CPU: blocks of the inner axes, reduced along the last one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from treadle.dsl import expr as ex
from treadle.dsl.analysis.combines import (
    SHORT_ROW,
    argument_ahead,
    argument_of,
    identities,
    is_commutative,
    simple_combine,
)
from treadle.dsl.analysis.polynomial import affine_forms
from treadle.dsl.expr import Expr
from treadle.dsl.graph import Combine, Fold, Leaf, StoringFold
from treadle.dsl.node import LEAVES, PARTIALS
from treadle.dsl.operations.indexing.row_major import delinear
from treadle.dsl.scalar import apply_primitive
from treadle.dsl.simplify import select
from treadle.dsl.types import int64

from ...ir import arithmetic as at
from ...ir.kernel import Assign, Buffer, Fetch, If, Kernel, Load, Lowered, Publish, Store
from ...ir.linearize import Linearizer, zero
from .. import tiling, transform
from ..build import Builder, LoweringContext, element_cost, takes_vectors
from ..combining import (
    Elements,
    accumulate,
    apply_combine,
    assign,
    declare,
    fold_partials,
    fold_range,
    fold_runs,
    fold_tree,
    put,
    zeros,
)
from ..visits import Visits, strip_width
from .memory_order import visited
from .rows import Kept, RowFold, goes_across, is_exact, is_pinned, shares_elements
from .traversals import ACROSS_COLUMNS, ACROSS_ROWS, ACROSS_STEP, BLOCK

Pick = Callable[[Linearizer, tuple[Expr, ...]], tuple[Expr, ...]]

#: Elements of a block folded by one lane: not a multiple of 1024, so that the lanes' cache lines
#: map to different sets.
LANE_BLOCK = 1040
#: Absorbing elements: after a block with this result, as in `any` and `all`, the remaining blocks
#: of the row do not matter.
ABSORBING = {"logical_or": ex.TRUE, "bitwise_or": ex.TRUE, "maximum": ex.TRUE,
             "logical_and": ex.FALSE, "bitwise_and": ex.FALSE, "minimum": ex.FALSE}  # fmt: skip
#: Larger than any row: a block that is never full.
_EVERYTHING = 1 << 60
#: Blocks per task if each lane folds its own block.
LANE_UNITS = 64


#: The range of an axis in which neighbour reads along it are in range, and the elements there.
Interior = tuple[Expr, Expr, tuple[Expr, ...]]


def _in_rows(node: Fold, builder: Builder, axis: int, kept: Kept | None = None
             ) -> tuple[tuple[Expr, ...], Interior | None]:  # fmt: skip
    """The elements, in general and in the interior of an axis along which they read neighbours."""
    domain = (*node.outer, *node.inner)
    written = node.elements if kept is None else kept.elements()
    if domain and not builder.context.check:
        written = transform.unresolved(written, domain, builder)
    anywhere = transform.resolve(written, builder, domain)
    box = transform.interior(written, domain, builder) if domain else None
    if box is None or builder.context.check:
        return anywhere, None
    inside = transform.resolve(written, builder, domain, box.safe([axis % len(domain)]))
    return anywhere, None if inside == anywhere else (box.low[axis], box.high[axis], inside)


class Along(RowFold):
    """Blocks of the inner axes, reduced along the last one."""

    def __init__(self, builder: Builder, node: Fold, kept: Kept | None = None) -> None:
        super().__init__(builder, node, node.outer)
        self.inner, self.kept = node.inner, kept
        self.elements, self.interior = _in_rows(node, builder, -1, kept)
        self.position = ex.Var("p", int64)
        self.linear: tuple[Expr, ...] | None = None
        if len(self.inner) > 1 and (kept is None or kept.in_order):
            self.linear = transform.collapse(
                self.elements, (*node.outer, *node.inner), builder, self.position, len(node.outer)
            )
            if self.linear is None and is_pinned(node):
                self.linear = self._in_row_major_order()
        #: Whether the elements are partial results of another fold, combined as by its second
        #: kernel.
        self.of_leaves = node.label.part == PARTIALS and not node.outer
        self.lanes = self.in_order() and not self.of_leaves
        block = LANE_BLOCK if self.lanes else BLOCK
        self._measure(_EVERYTHING if node.label.part == PARTIALS else block)

    def _in_row_major_order(self) -> tuple[Expr, ...]:
        """The elements by position along all inner axes, which requires divisions."""
        coordinates = delinear(self.position, self.inner)
        rank = len(self.outer)
        return ex.substitute(
            self.elements, {ex.Index(rank + k): c for k, c in enumerate(coordinates)}
        )

    def _measure(self, block: int) -> None:
        """The numbers of rows, blocks and elements, as host expressions and scalars.

        The inner axes are `lead` rows of `run` contiguous elements (one row when they collapse);
        a block is a part of one of these rows or several whole ones.
        """
        scalar = self.builder.scalar
        inner = (at.product(self.inner),) if self.linear is not None else self.inner
        run = inner[-1] if inner else ex.constant(1)
        lead = at.product(inner[:-1])
        count, rows = lead * run, at.product(self.outer)
        group = at.maximum(block // at.maximum(run, 1), 1)
        if len(inner) <= 1:
            group = ex.constant(1)
        parts = at.maximum(at.ceil_div(run, block), 1)
        blocks = at.maximum(at.ceil_div(lead, group), 1) * parts
        if len(inner) <= 1:
            blocks = parts
        self.block = block
        self.single_row = len(inner) <= 1
        self.run, self.lead = scalar(run, "run"), scalar(lead, "lead")
        self.count, self.rows = scalar(count, "count"), scalar(rows, "rows")
        self.group, self.parts = scalar(group, "group"), scalar(parts, "parts")
        self.blocks = scalar(blocks, "blocks")
        self.host_rows, self.host_blocks, self.host_count = rows, blocks, count

    def lower(self) -> Lowered:
        scalar = self.builder.scalar
        self.several = not at.is_constant(self.host_blocks, 1)
        self.scratch = self.partials(scalar(self.host_rows * self.host_blocks, "partials"))
        self.decided: Buffer | None = None
        if self.several and not (self.lanes or self.builder.context.check) and self.decisive():
            rows = at.select(at.equal(self.host_blocks, 1), 0, self.host_rows)
            (self.decided,) = self.builder.scratch("zero_decided", [int64], scalar(rows, "flags"))
            self.builder.notes.append("a row of several blocks is left when one has decided it")
        self.visits = Visits.of(self.builder, (self.host_blocks, *self.outer),
                                (self.block, *(1 for _ in self.outer)), not self.outer)  # fmt: skip
        if self.visits is not None:
            first = self._visited(self.visits)
        else:
            first = self._lanes() if self.lanes else self._rows()
        return self.builder.lowered(first, self._combine())

    def _visited(self, visits: Visits) -> Kernel:
        """The kernel under a schedule: a task folds some of the blocks of all rows, in its
        order."""
        length = at.minimum(at.maximum(self.host_count, 1), self.block)
        least = at.maximum(self.block // length, 1)
        tasks, per_task = visits.tasks(at.maximum(least, LANE_UNITS) if self.lanes else least)
        into, task = self.builder.emitter(), ex.Var("task", int64)
        start, stop = tiling.block_range(into, "visit", task, per_task, visits.total)

        def visit(number: Expr, short: bool) -> None:
            exists, (block, *at_row) = visits.at(into, number)
            with into.when(exists):
                if short:
                    self._short(into, at_row)
                    return
                row = into.let(at.linear(at_row, self.extents), "row")
                self._one(into, row, block, at_row)

        if self.lanes:
            with into.loop("number", start, stop, "vector") as number:
                visit(number, False)
        else:
            short = self._are_short(into)
            if short is not ex.FALSE:
                with into.when(short), into.loop("number", start, stop, "vector") as number:
                    visit(number, True)
            with into.otherwise(short), into.loop("number", start, stop) as number:
                visit(number, False)
        return self.kernel("blocks", tasks, task, into,
                           f"blocks of {self.block} elements, as the schedule says")  # fmt: skip

    def _rows(self) -> Kernel:
        """The kernel whose tasks fold one block of one row, or all blocks of several rows."""
        per_task_host = at.select(
            at.equal(self.host_blocks, 1),
            at.maximum(self.block // at.maximum(self.host_count, 1), 1), 1,
        )  # fmt: skip
        per_task = self.builder.scalar(per_task_host, "rows_per_task")
        groups = self.builder.scalar(at.ceil_div(self.host_rows, per_task_host), "row_groups")
        into, task = self.builder.emitter(), ex.Var("task", int64)
        group, number = task // self.blocks, task % self.blocks
        if self.decided is None and shares_elements(self.node):
            number, group = task // groups, task % groups  # what rows share stays in the cache
        block = into.let(number, "block")
        start, stop = tiling.block_range(into, "row", group, per_task, self.rows)
        with self._short_rows(into, start, stop), into.loop("row", start, stop) as row:
            self._one(into, row, block)
        return self.kernel(
            "blocks", groups * self.blocks, task, into, f"blocks of {self.block} elements"
        )

    @contextmanager
    def _short_rows(self, into: Linearizer, start: Expr, stop: Expr) -> Iterator[None]:
        """Short rows: each vector lane folds one serially.  The `with` body handles longer rows."""
        short = self._are_short(into)
        if short is ex.FALSE:
            yield
            return
        with into.when(short), into.loop("row", start, stop, "vector") as row:
            self._short(into, tiling.coordinates(self.builder, into, row, self.outer))
        with into.otherwise(short):
            yield

    def _are_short(self, into: Linearizer) -> Expr:
        """Whether rows are short enough to be folded serially."""
        neutral = self.neutral()
        if len(self.inner) != 1 or not self.outer or neutral is None:
            return ex.FALSE
        return into.let(at.less(self.count, min(SHORT_ROW, self.block + 1)), "short")

    def _short(self, into: Linearizer, at_row: Sequence[Expr]) -> None:
        """One row of a few elements."""
        total = declare(into, self.neutral() or ())
        with into.loop("k", 0, self.count) as k:
            self.builder.stays_below(k, self.inner[0])
            bindings: dict[Expr, Expr] = {ex.Index(n): c for n, c in enumerate((*at_row, k))}
            with into.when_always(bindings):
                values = into.emit(self.elements)
            accumulate(into, self.combine, total, values)
        self.finish(into, at_row, total, self.count)

    def _lanes(self) -> Kernel:
        """The kernel whose tasks are vectors of (row, block) pairs, each folded by one lane."""
        units_host = self.host_rows * self.host_blocks
        length = at.minimum(at.maximum(self.host_count, 1), self.block)
        per_task_host = at.maximum(LANE_UNITS * 256 // length, LANE_UNITS)
        units = self.builder.scalar(units_host, "units")
        per_task = self.builder.scalar(per_task_host, "units_per_task")
        tasks = self.builder.scalar(at.ceil_div(units_host, per_task_host), "unit_groups")
        into, task = self.builder.emitter(), ex.Var("task", int64)
        start, stop = tiling.block_range(into, "unit", task, per_task, units)
        with into.loop("unit", start, stop, "vector") as unit:
            row, block = unit // self.blocks, unit % self.blocks
            if at.is_constant(self.host_rows, 1):
                row, block = ex.constant(0), unit
            self._one(into, into.let(row, "row"), into.let(block, "block"))
        return self.kernel("blocks", tasks, task, into,
                           f"a lane folds {self.block} elements in order")  # fmt: skip

    def _one(self, into: Linearizer, row: Expr, block: Expr,
             at_row: Sequence[Expr] | None = None) -> None:  # fmt: skip
        """Fold one block of one row; stored to the output if it is the only block, else as a
        partial result."""
        if at_row is None:
            at_row = tiling.coordinates(self.builder, into, row, self.outer)
        self.one(into, row, block, at_row)

    def one(self, into: Linearizer, row: Expr, block: Expr, at_row: Sequence[Expr]) -> None:
        total = self.unless_decided(
            into, row, block, lambda: self.fold_block(into, at_row, block, self.combine)
        )
        slot = row * self.blocks + block
        self.finish_or_keep(into, at_row, total, self.count, self.blocks, slot)

    def decisive(self) -> ex.Const | None:
        """The absorbing value of a block, after which the row's other blocks do not matter."""
        return _absorbing(self.combine)

    def unless_decided(self, into: Linearizer, row: Expr, block: Expr,
                       compute: Callable[[], tuple[ex.Var, ...]]
                       ) -> tuple[ex.Var, ...]:  # fmt: skip
        """The result that `compute` makes of a block, unless an earlier block has decided the row.

        `decided` holds the number of blocks from a deciding one (not necessarily the first) to the
        end, or 0.
        """
        value = self.decisive()
        if self.decided is None or value is None:
            return compute()
        total = into.declare(ex.FALSE if value is ex.TRUE else ex.TRUE, "result")
        several, before = at.less(1, self.blocks), ex.Var("before", int64)
        found, rest = into.declare(ex.constant(0), "found"), self.blocks - block
        with into.when(several):
            into.append(Fetch(before, self.decided, row, ordered=False), Assign(found, before))
        with into.when(at.less_equal(found, rest)):
            assign(into, [total], compute())
            decides = apply_primitive("equal", [total, value])
            with into.when(at.both(several, decides)):
                into.append(Publish(self.decided, row, rest, ordered=False))
        return (total,)

    def in_order(self) -> bool:
        """Whether each lane folds its own block, element by element."""
        return not is_commutative(self.combine) or is_pinned(self.node)

    def neutral(self) -> tuple[ex.Const, ...] | None:
        """The identity from which a row can be folded element by element."""
        return identities(self.combine)

    def fold_block(self, into: Linearizer, at_row: Sequence[Expr], block: Expr, combine: Combine,
                   pick: Pick | None = None, long: bool = False) -> tuple[ex.Var, ...]:  # fmt: skip
        """Fold the elements of a block, each mapped by `pick` if given, with `combine`; `long`: its
        row has several blocks."""
        rank = len(self.outer)
        bindings: dict[Expr, Expr] = {ex.Index(k): c for k, c in enumerate(at_row)}
        roots = self.elements if self.linear is None else self.linear
        last = self.position if self.linear is not None else ex.Index(rank + len(self.inner) - 1)

        def element(lead: dict[Expr, Expr]) -> Elements:
            def emit(inner: Linearizer, k: Expr) -> tuple[Expr, ...]:
                if self.linear is None and self.inner:
                    self.builder.stays_below(k, self.inner[-1])
                with inner.when_always({**bindings, **lead, last: k}):
                    if self.linear is None and not self.lanes:
                        found = self._near_the_ends(inner, k)
                    else:
                        found = inner.emit(roots)
                    if self.kept is not None:
                        position = None if self.linear is None else k
                        where = self.kept.where(inner, self.builder, position)
                        (found,) = self.kept.store(inner, self.builder, where, [found])
                return found if pick is None else pick(inner, found)

            return emit

        if self.of_leaves and pick is None:
            return self._together(into, self.count, element({}))
        if self.single_row:
            start, stop = tiling.block_range(into, "block", block, self.block, self.run)
            long = long or not self.outer
            return fold_range(into, combine, start, stop, element({}), serial=self.lanes, long=long)
        first, end = tiling.block_range(into, "lead", block // self.parts, self.group, self.lead)
        start, stop = tiling.block_range(into, "run", block % self.parts, self.block, self.run)

        def one_run(inner: Linearizer, lead: Expr) -> tuple[Expr, ...]:
            coordinates = tiling.coordinates(self.builder, inner, lead, self.inner[:-1], "k")
            where: dict[Expr, Expr] = {ex.Index(rank + k): c for k, c in enumerate(coordinates)}
            return fold_range(inner, combine, start, stop, element(where))

        return fold_runs(into, combine, first, end, one_run)

    def _near_the_ends(self, into: Linearizer, k: Expr) -> tuple[Expr, ...]:
        """An element, by plain reads in the interior of its row."""
        if self.interior is None:
            return into.emit(self.elements)
        found = declare(into, tuple(zero(e.type) for e in self.elements), "element")
        low, high, inside = self.interior
        sides = []
        for roots in (inside, self.elements):
            with into.body() as side:
                assign(into, found, into.emit(roots))
            sides.append(tuple(side))
        into.append(If(at.both(at.less_equal(low, k), at.less(k, high)), *sides))
        return found

    def _combine(self) -> Kernel:
        """Partial results in order, for a group of rows per task."""
        per_task_host = at.maximum(4096 // self.host_blocks, 1)
        tasks_host = at.select(at.less(1, self.host_blocks),
                               at.ceil_div(self.host_rows, per_task_host), 0)  # fmt: skip
        per_task = self.builder.scalar(per_task_host, "rows_per_combine")
        into, task = self.builder.emitter(), ex.Var("task", int64)
        start, stop = tiling.block_range(into, "row", task, per_task, self.rows)
        with into.loop("row", start, stop) as row:
            at_row = tiling.coordinates(self.builder, into, row, self.outer)
            base = into.let(row * self.blocks, "base")

            def partial(_: Linearizer, b: Expr) -> tuple[Expr, ...]:
                return tuple(Load(s, base + b) for s in self.scratch)

            self.finish(into, at_row, self.whole(into, at_row, partial), self.count)
        return self.kernel("combine", self.builder.scalar(tasks_host, "combines"), task, into,
                           "partial results from left to right")  # fmt: skip

    def whole(self, into: Linearizer, at_row: Sequence[Expr], partial: Elements
              ) -> tuple[ex.Var, ...]:  # fmt: skip
        """A row's result from the partial results of its blocks."""
        return self._together(into, self.blocks, partial)

    def _together(self, into: Linearizer, count: Expr, partial: Elements) -> tuple[ex.Var, ...]:
        if is_pinned(self.node):
            return fold_tree(into, self.combine, count, partial)
        return fold_partials(into, self.combine, count, partial, is_exact(self.combine))


# -----------------------------------------------------------------------------------------------
# Folds across columns, on a CPU: a vector of columns, each folded from top to bottom.

#: Elements that cost more than COSTLY additions are folded by narrower tasks and, if grouping
#: cannot change the result, in steps of COSTLY_STEP, which keeps in registers what all elements of
#: a column share.  Not if reads go down the columns of an array: the loop would leave its rows
#: after each vector.
COSTLY, COSTLY_STEP, COSTLY_COLUMNS = 8.0, 1024, 256
#: Columns of a task if columns are folded side by side: fewer than ACROSS_COLUMNS, down to
#: LEAST_COLUMNS, if that gives each thread ACROSS_TASKS tasks.
LEAST_COLUMNS, ACROSS_TASKS = 128, 16


@dataclass
class _Sizes:
    """Extents of a fold across columns."""

    planes: Expr
    columns: Expr
    count: Expr
    height: Expr
    blocks: Expr
    width: Expr
    across: Expr


class Across(RowFold):
    """A vector of columns, one per lane; the accumulators of a task are in task-private memory."""

    def __init__(self, builder: Builder, node: Fold) -> None:
        super().__init__(builder, node, node.outer)
        self.combine = argument_ahead(node.combine) or node.combine  # rows come in order
        self.inner = node.inner
        self.elements, self.interior = _in_rows(node, builder, len(node.outer) - 1)
        scalar = builder.scalar
        self.costly = element_cost(self.elements) > COSTLY
        self.width = min(COSTLY_COLUMNS, ACROSS_COLUMNS) if self.costly else ACROSS_COLUMNS
        count = at.product(node.inner)
        columns = node.outer[-1]
        self.block_rows = LANE_BLOCK if is_pinned(node) else ACROSS_ROWS
        if node.label.part == PARTIALS:
            self.block_rows = 1
        blocks = at.maximum(at.ceil_div(count, self.block_rows), 1)
        self.host_planes = at.product(node.outer[:-1])
        self.host_blocks, self.host_columns = blocks, columns
        self.host_across = at.ceil_div(columns, width := self._width())
        self.size = _Sizes(
            scalar(self.host_planes, "planes"), scalar(columns, "columns"), scalar(count, "count"),
            ex.constant(self.block_rows), scalar(blocks, "blocks"), scalar(width, "width"),
            scalar(self.host_across, "across"),
        )  # fmt: skip
        self.scratch = self.partials(
            scalar(at.product((blocks, self.host_planes, columns)), "partials")
        )

    def _width(self) -> Expr:
        """Columns of a task, at most `self.width`; results do not depend on it."""
        threads = self.builder.context.threads
        if self.width <= LEAST_COLUMNS or threads == 1:
            return ex.constant(self.width)
        tasks = ACROSS_TASKS * threads
        columns = at.product((self.host_planes, self.host_blocks, self.host_columns))
        share = at.maximum(at.ceil_div(columns, tasks * LEAST_COLUMNS), 1)
        return at.minimum(share * LEAST_COLUMNS, self.width)

    def lower(self) -> Lowered:
        return self.builder.lowered(self._blocks(), self._combine())

    def _blocks(self) -> Kernel:
        size = self.size
        into, task = self.builder.emitter(), ex.Var("task", int64)
        types = [r.type for r in self.combine.results]
        strip = strip_width(self.builder, self.width)
        grid = (self.host_blocks, *self.outer[:-1], at.ceil_div(self.host_columns, strip))
        leaf = (self.block_rows, *(1 for _ in self.outer[1:]), strip)
        visits = Visits.of(self.builder, grid, leaf)
        if visits is None:
            plane, block, across = (
                into.let(c, name) for c, name in zip(
                    at.row_major(task, (size.planes, size.blocks, size.across)),
                    ("plane", "block", "across"), strict=True)
            )  # fmt: skip
            at_plane = tiling.coordinates(self.builder, into, plane, self.outer[:-1])
            rows = tiling.block_range(into, "row", block, self.block_rows, size.count)
            cols = tiling.block_range(into, "col", across, size.width, size.columns)
            totals = self.builder.local("column", types, self.width)
            self._one_block(into, plane, at_plane, block, rows, cols, totals)
            tasks = at.product((size.planes, size.blocks, size.across))
            return self.kernel("blocks", tasks, task, into,
                               "columns side by side, blocks of "
                               f"{self.block_rows} rows")  # fmt: skip
        totals = self.builder.local("column", types, strip)
        tasks, per_task = visits.tasks(1)
        with visits.each(into, task, per_task) as (block, *lead, across):
            plane = into.let(at.linear(lead, self.extents[:-1]), "plane")
            rows = tiling.block_range(into, "row", block, self.block_rows, size.count)
            cols = tiling.block_range(into, "col", across, strip, size.columns)
            self._one_block(into, plane, lead, block, rows, cols, totals)
        return self.kernel("blocks", tasks, task, into, f"strips of {strip} columns, blocks "
                           f"of {self.block_rows} rows, as the schedule says")  # fmt: skip

    def _one_block(self, into: Linearizer, plane: Expr, at_plane: Sequence[Expr], block: Expr,
                   rows: tuple[Expr, Expr], cols: tuple[Expr, Expr], totals: Sequence[Buffer]
                   ) -> None:  # fmt: skip
        """One block of rows of some columns, accumulated in `totals`."""
        size = self.size
        self.add_rows(into, at_plane, rows, cols, totals, ex.constant(0))
        empty = at.less_equal(rows[1], rows[0])
        with into.loop("j", *cols, "vector") as j:
            self.builder.stays_below(j, self.outer[-1])
            slot = into.let(j - cols[0], "slot")
            total = declare(into, identities(self.combine) or zeros(self.combine))
            with into.when(at.negate(empty)):
                assign(into, total, [Load(b, slot) for b in totals])
            slot = self._slot(plane, block, j)
            self.finish_or_keep(into, (*at_plane, j), total, size.count, size.blocks, slot)

    def step_height(self) -> int:
        """The rows of a step."""
        exact, narrow = is_exact(self.node.combine), self.width < ACROSS_COLUMNS
        return COSTLY_STEP if exact and narrow and not self._walks_down() else ACROSS_STEP

    def before_step(self, into: Linearizer, at_plane: Sequence[Expr], step: Expr, stop: Expr
                    ) -> None:  # fmt: skip
        """A hook called before the rows of a step are folded."""

    def before_columns(self, into: Linearizer, step: Expr, whole: bool) -> None:
        """A hook called before the columns of a step, which may be a `whole` one."""

    def add_rows(self, into: Linearizer, at_plane: Sequence[Expr], rows: tuple[Expr, Expr],
                 cols: tuple[Expr, Expr], totals: Sequence[Buffer], base: Expr
                 ) -> None:  # fmt: skip
        """Fold a block of rows of some columns into `totals`, from `base` on."""
        sequential = self._is_sequential(into)
        height = self.step_height()

        def strip(step: Expr, stop: Expr, strip_cols: tuple[Expr, Expr], roots: Sequence[Expr],
                  whole: bool = False) -> None:  # fmt: skip
            self.before_columns(into, step, whole)
            with into.loop("j", *strip_cols, "vector") as j:
                element = self._column(at_plane, j, roots)
                slot = into.let(base + (j - cols[0]), "slot")
                total = declare(into, element(into, step))

                def join(when: Expr) -> None:
                    """Combine with the rows before the step, if there are any."""
                    with into.when(at.both(when, at.less(rows[0], step))):
                        old = [Load(b, slot) for b in totals]
                        made = apply_combine(into, self.combine, old, total, named=False)
                        made = tuple(into.let(m, "r") for m in made)
                        assign(into, total, made)

                if not whole and sequential is not ex.FALSE:
                    join(sequential)  # with the first row, or with the whole step
                if whole:
                    for k in range(1, height):
                        accumulate(into, self.combine, total, element(into, step + k))
                else:
                    with into.loop("k", step + 1, stop) as row:
                        accumulate(into, self.combine, total, element(into, row))
                if whole or sequential is not ex.TRUE:
                    join(ex.TRUE if whole else at.negate(sequential))
                put(into, totals, slot, total)

        with into.loop("step", *rows, step=height) as step:
            stop = into.let(at.minimum(step + height, rows[1]), "step_stop")
            self.before_step(into, at_plane, step, stop)
            if self._is_unrolled():
                full = at.equal(step + height, stop)
                whole = into.let(at.both(at.negate(sequential), full), "whole")
                with into.when(whole):
                    strip(step, stop, cols, self.elements, True)
                with into.otherwise(whole):
                    strip(step, stop, cols, self.elements)
            elif self.interior is None:
                strip(step, stop, cols, self.elements)
            else:
                low, high, inside = self.interior
                left = into.let(at.minimum(at.maximum(cols[0], low), cols[1]), "left")
                right = into.let(at.maximum(left, at.minimum(cols[1], high)), "right")
                strip(step, stop, (left, right), inside)
                with into.loop("side", 0, 2) as side:
                    first = at.equal(side, 0)
                    ends = (at.select(first, cols[0], right), at.select(first, left, cols[1]))
                    strip(step, stop, ends, self.elements)

    def _is_sequential(self, into: Linearizer) -> Expr:
        """Whether elements are folded one by one instead of in steps: if the grouping can change
        the result, and there are few elements or grouping by index is required."""
        if is_pinned(self.node):
            return ex.TRUE
        if is_exact(self.node.combine) or self.node.label.part == LEAVES:
            return ex.FALSE
        return into.let(at.less(self.size.count, SHORT_ROW), "sequential")

    def _walks_down(self) -> bool:
        """Whether consecutive elements of a column lie in different rows of an array."""
        rank = len(self.outer)
        column, folded = ex.Index(rank - 1), {ex.Index(rank + k) for k in range(len(self.inner))}
        for e in ex.walk(self.node.elements):
            if isinstance(e, ex.Read) and e.args:
                row = self.builder.row_axis(Leaf(e.node, e.component))
                along = e.args[-1 if row is None else row]
                moved = [a for a in e.args if a is not along]
                moved += [x for x in ex.walk((along,))
                          if isinstance(x, ex.Apply) and x.op.name == "multiply"]  # fmt: skip
                if column in ex.walk((along,)) and not folded.isdisjoint(ex.walk(moved)):
                    return True
        return False

    def _is_unrolled(self) -> bool:
        """Whether the rows of a whole step are unrolled: values that all columns of a row share are
        loaded once, before the loop over columns.  Costly elements do not gain."""
        return self.interior is None and len(self.inner) == 1 and not self.costly

    def _slot(self, plane: Expr, block: Expr, j: Expr) -> Expr:
        size = self.size
        row = plane * size.blocks + block
        return row * size.columns + j

    def _column(self, at_plane: Sequence[Expr], j: Expr, roots: Sequence[Expr]) -> Elements:
        """The elements of column `j`, by their position along the inner axes."""

        def element(into: Linearizer, k: Expr) -> tuple[Expr, ...]:
            self.builder.stays_below(j, self.outer[-1])
            inner: tuple[Expr, ...] = (k,)
            if len(self.inner) == 1:
                self.builder.stays_below(k, self.inner[0])
            else:
                inner = tiling.coordinates(self.builder, into, k, self.inner, "k")
            coordinates = (*at_plane, j, *inner)
            with into.when_always({ex.Index(n): c for n, c in enumerate(coordinates)}):
                return into.emit(roots)

        return element

    def _combine(self) -> Kernel:
        size = self.size
        into, task = self.builder.emitter(), ex.Var("task", int64)
        plane = into.let(task // size.across, "plane")
        at_plane = tiling.coordinates(self.builder, into, plane, self.outer[:-1])
        cols = tiling.block_range(into, "col", task % size.across, size.width,
                                  size.columns)  # fmt: skip
        with into.loop("j", *cols, "vector") as j:
            self.builder.stays_below(j, self.outer[-1])

            def partial(_: Linearizer, b: Expr) -> tuple[Expr, ...]:
                slot = self._slot(plane, b, j)
                return tuple(Load(s, slot) for s in self.scratch)

            total = fold_tree(into, self.combine, size.blocks, partial)
            self.finish(into, (*at_plane, j), total, size.count)
        tasks = at.select(at.less(1, self.host_blocks), self.host_planes * self.host_across, 0)
        return self.kernel("combine", self.builder.scalar(tasks, "combines"), task, into,
                           "partial results from top to bottom")  # fmt: skip


# -----------------------------------------------------------------------------------------------
# argmin and argmax on a CPU: vectors find the extreme, then one block is searched for its index.
#
#     blocks     the extreme of every block; a row of a single block is searched immediately
#     combine    the extreme of these, the first block that has it, and its first index there
#
# `greater` and `less` on pairs (value, index) would cost several operations per element.

_NEVER = ex.Const(int64.highest, int64)
_FIRST = simple_combine("minimum", int64)


class ArgumentFold(Along):
    """Folds of (value, index) by an `argument_combine`."""

    def __init__(self, builder: Builder, node: Fold) -> None:
        self.type = node.combine.results[0].type
        self.better = argument_of(node.combine)
        extreme = "maximum" if self.better == "greater" else "minimum"
        if self.type.family == "bool":
            extreme = "logical_or" if self.better == "greater" else "logical_and"
        self.extreme = simple_combine(extreme, self.type)
        super().__init__(builder, node)

    def in_order(self) -> bool:
        return False

    def neutral(self) -> tuple[ex.Const, ...] | None:
        if self.type.family == "bool":
            return None
        worst = self.type.lowest if self.better == "greater" else self.type.highest
        return ex.Const(worst, self.type), _NEVER

    def partials(self, size: Expr) -> tuple[Buffer, ...]:
        return self.builder.scratch("partial", [self.type], size)

    def decisive(self) -> ex.Const | None:
        return _absorbing(self.extreme)

    def one(self, into: Linearizer, row: Expr, block: Expr, at_row: Sequence[Expr]) -> None:
        alone = at.equal(self.blocks, 1)
        if self._are_held():
            with into.when(alone):
                self.finish(into, at_row, self._best_of_held(into, at_row), self.count)
            with into.otherwise(alone):
                self._put_best(into, row, block, at_row)
            return
        best = self._put_best(into, row, block, at_row, at.negate(alone))
        with into.when(alone):
            index = self._first_index(into, at_row, block, best)
            self.finish(into, at_row, (best, index), self.count)

    def _put_best(self, into: Linearizer, row: Expr, block: Expr, at_row: Sequence[Expr],
                  when: Expr = ex.TRUE) -> ex.Var:  # fmt: skip
        """The extreme of a block, stored as a partial result."""
        (best,) = self.unless_decided(into, row, block, lambda: (self._best(into, at_row, block),))
        where = row * self.blocks + block
        with into.when(when):
            into.append(Store(self.scratch[0], where, best))
        return best

    def _are_held(self) -> bool:
        """Whether the elements of a one-block row are buffered instead of recomputed for the
        search."""
        one = self.single_row and bool(self.inner) and bool(self.outer)
        return one and not self.builder.context.check and takes_vectors(self.elements)

    def _best_of_held(self, into: Linearizer, at_row: Sequence[Expr]) -> tuple[ex.Var, ...]:
        """The extreme of a row, and its first index."""
        held = self.builder.local("held", [e.type for e in self.elements], self.block)
        roots = self.elements if self.linear is None else self.linear
        last = self.position if self.linear is not None else ex.Index(len(self.outer))
        with into.loop("k", 0, self.count, "vector") as k:
            if self.linear is None:
                self.builder.stays_below(k, self.inner[-1])
            with into.when_always({**{ex.Index(n): c for n, c in enumerate(at_row)}, last: k}):
                values = self._near_the_ends(into, k) if self.linear is None else into.emit(roots)
            put(into, held, k, values)

        def value(_: Linearizer, k: Expr) -> tuple[Expr, ...]:
            return (Load(held[0], k),)

        zero_ = at.integer(0)
        (best,) = fold_range(into, self.extreme, zero_, self.count, value)

        def position(inner: Linearizer, k: Expr) -> tuple[Expr, ...]:
            is_best = self._is(inner.let(Load(held[0], k), "value"), best)
            return (inner.let(select(is_best, Load(held[1], k), _NEVER), "position"),)

        return best, fold_range(into, _FIRST, zero_, self.count, position)[0]

    def whole(self, into: Linearizer, at_row: Sequence[Expr], partial: Elements
              ) -> tuple[ex.Var, ...]:  # fmt: skip
        (best,) = fold_partials(into, self.extreme, self.blocks, partial, True)

        def having(inner: Linearizer, b: Expr) -> tuple[Expr, ...]:
            (value,) = partial(inner, b)
            return (inner.let(select(self._is(value, best), b, _NEVER), "having"),)

        (block,) = fold_partials(into, _FIRST, self.blocks, having, True)
        return best, self._first_index(into, at_row, block, best, True)

    def _best(self, into: Linearizer, at_row: Sequence[Expr], block: Expr) -> ex.Var:
        return self.fold_block(into, at_row, block, self.extreme, lambda _, pair: pair[:1])[0]

    def _first_index(
        self, into: Linearizer, at_row: Sequence[Expr], block: Expr, best: Expr, long: bool = False
    ) -> ex.Var:
        """The first index of `best` in a block."""

        def position(inner: Linearizer, pair: tuple[Expr, ...]) -> tuple[Expr, ...]:
            value, where = pair
            return (inner.let(select(self._is(value, best), where, _NEVER), "position"),)

        return self.fold_block(into, at_row, block, _FIRST, position, long)[0]

    def _is(self, value: Expr, best: Expr) -> Expr:
        """Whether two values are equal or both NaN."""
        equal = apply_primitive("equal", [value, best])
        if not self.type.is_inexact:
            return equal
        nan = [apply_primitive("isnan", [e]) for e in (value, best)]
        return apply_primitive("logical_or", [equal, apply_primitive("logical_and", nan)])


def _absorbing(combine: Combine) -> ex.Const | None:
    """The value whose combination with anything is itself."""
    result = combine.results[0]
    if len(combine.results) > 1 or result.type.family != "bool" or not is_commutative(combine):
        return None
    return ABSORBING.get(result.op.name) if isinstance(result, ex.Apply) else None


def lower_fold(node: Fold, context: LoweringContext) -> Lowered:
    """One or two kernels (module docstring)."""
    order = visited(node, context)
    builder, made = Builder(node, order.context), order.node
    strategy: Along | Across
    if goes_across(made, builder) if context.across is None else context.across:
        strategy = Across(builder, made)
    elif argument_of(made.combine) is not None:
        strategy = ArgumentFold(builder, made)
    else:
        strategy = Along(builder, rows_last(made, builder))
    strategy.place = order.place(builder, node)
    return strategy.lower()


def lower_storing_fold(node: StoringFold, context: LoweringContext) -> Lowered:
    """The kernels of the full fold, which also store the arrays."""
    kept = Kept(node)
    fold = node.fold(kept.elements()[: kept.count])
    return Along(Builder(node, context), fold, kept).lower()


def leaves_of(node: Fold) -> tuple[Fold, int, bool]:
    """How a full fold of dense arrays is cut into blocks: the fold with its axes in the kernel's
    order, the most elements of a block, and whether a block has consecutive elements of all axes in
    row-major order, instead of parts of rows or complete rows."""
    builder = Builder(node, LoweringContext())
    ordered = rows_last(node, builder)
    made = Along(builder, ordered)
    return ordered, made.block, len(made.inner) <= 1 or made.linear is not None


def rows_last(node: Fold, builder: Builder) -> Fold:
    """The fold with its inner axes reordered: the axis along which most reads have the smallest
    stride comes last (for a column-major array, the columns).  Requires that the elements may be
    combined in any order."""
    scheduled = builder.context.schedule is not None or node.label.schedule is not None
    if len(node.inner) < 2 or scheduled or is_pinned(node) or not is_commutative(node.combine):
        return node
    first = len(node.outer)
    inner = [ex.Index(first + k) for k in range(len(node.inner))]
    forms = affine_forms(node.elements)
    votes = [0] * len(inner)
    for e in ex.walk(node.elements):
        if isinstance(e, ex.Read) and e.args:
            row = builder.row_axis(Leaf(e.node, e.component))
            form = forms.get(e.args[-1 if row is None else row])
            for k, index in enumerate(inner):
                votes[k] += form is not None and form.coefficient(index) in (1, -1)
    last = len(inner) - 1
    best = max(range(len(inner)), key=lambda k: (votes[k], k))
    if votes[best] <= votes[last]:
        return node
    order = [*(k for k in range(len(inner)) if k != best), best]
    moved: dict[Expr, Expr] = {inner[old]: inner[new] for new, old in enumerate(order)}
    extents = tuple(node.inner[k] for k in order)
    return node.with_(inner=extents, elements=ex.substitute(node.elements, moved))
