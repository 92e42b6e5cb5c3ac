"""Folds across columns, on a CPU: a vector of columns, each folded from top to bottom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from treadle.dsl.combines import SHORT_ROW, argument_ahead, identities
from treadle.dsl.expr import FALSE, TRUE, Expr, Index, Var, constant
from treadle.dsl.graph import Fold
from treadle.dsl.types import int64

from .combining import (
    Elements,
    assign,
    combine_simple,
    declare,
    fold_serial,
    fold_tree,
    reduce_range,
    zeros,
)
from .fold import ACROSS_STEP, RowFold, is_exact, is_pinned
from .fold_along import LANE_BLOCK
from .kernel import arithmetic as at
from .kernel import tiling, transform
from .kernel.build import Builder, element_cost
from .kernel.ir import Buffer, Kernel, Load, Lowered, Store
from .kernel.linearize import Linearizer
from .visits import Visits, strip_width

#: Elements that cost more additions than COSTLY are folded in steps of COSTLY_STEP, where grouping
#: reaches no bit, as what they read of a column stays in registers then, and by narrower tasks.
COSTLY, COSTLY_STEP, COSTLY_COLUMNS = 8.0, 1024, 256
#: Rows of a block, and columns of a task, where columns are folded side by side.
ACROSS_ROWS, ACROSS_COLUMNS = 1024, 2048


@dataclass
class _Sizes:
    """Extents of a fold across columns."""

    planes: Expr
    columns: Expr
    count: Expr
    height: Expr
    blocks: Expr
    across: Expr


class Across(RowFold):
    """A vector of columns, folded side by side; accumulators of a task lie in its own memory."""

    def __init__(self, builder: Builder, node: Fold) -> None:
        super().__init__(builder, node, node.outer)
        self.combine = argument_ahead(node.combine) or node.combine  # rows come in order
        self.inner = node.inner
        self.elements = transform.resolve(node.elements, builder, (*node.outer, *node.inner))
        scalar = builder.scalar
        costly = element_cost(self.elements) > COSTLY
        self.width = min(COSTLY_COLUMNS, ACROSS_COLUMNS) if costly else ACROSS_COLUMNS
        count = at.product(node.inner)
        columns = node.outer[-1]
        self.block_rows = LANE_BLOCK if is_pinned(node) else ACROSS_ROWS
        blocks = at.maximum(at.ceil_div(count, self.block_rows), 1)
        self.host_planes = at.product(node.outer[:-1])
        self.host_blocks, self.host_columns = blocks, columns
        self.size = _Sizes(
            scalar(self.host_planes, "planes"), scalar(columns, "columns"), scalar(count, "count"),
            constant(self.block_rows), scalar(blocks, "blocks"),
            scalar(at.ceil_div(columns, self.width), "across"),
        )  # fmt: skip
        self.scratch = self.partials(
            scalar(at.product((blocks, self.host_planes, columns)), "partials")
        )

    def lower(self) -> Lowered:
        return self.builder.lowered(self._blocks(), self._combine())

    def _blocks(self) -> Kernel:
        size = self.size
        into, task = self.builder.emitter(), Var("task", int64)
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
            cols = tiling.block_range(into, "col", across, self.width, size.columns)
            held = self.builder.local("column", types, self.width)
            self._one_block(into, plane, at_plane, block, rows, cols, held)
            tasks = at.product((size.planes, size.blocks, size.across))
            return self.kernel("blocks", tasks, task, into,
                               "columns side by side, blocks of "
                               f"{self.block_rows} rows")  # fmt: skip
        held = self.builder.local("column", types, strip)
        tasks, per_task = visits.tasks(1)
        numbers = tiling.block_range(into, "visit", task, per_task, visits.total)
        with into.loop("number", *numbers) as number:
            exists, (block, *lead, across) = visits.at(into, number)
            with into.when(exists):
                plane = into.let(at.linear(lead, self.extents[:-1]), "plane")
                rows = tiling.block_range(into, "row", block, self.block_rows, size.count)
                cols = tiling.block_range(into, "col", across, strip, size.columns)
                self._one_block(into, plane, lead, block, rows, cols, held)
        return self.kernel("blocks", tasks, task, into, f"strips of {strip} columns, blocks "
                           f"of {self.block_rows} rows, as the schedule says")  # fmt: skip

    def _one_block(self, into: Linearizer, plane: Expr, at_plane: Sequence[Expr], block: Expr,
                   rows: tuple[Expr, Expr], cols: tuple[Expr, Expr], held: Sequence[Buffer]
                   ) -> None:  # fmt: skip
        """One block of rows of some columns, with room for them in `held`."""
        size = self.size
        in_turn = self._in_turn(into)
        exact = is_exact(self.node.combine)
        height = COSTLY_STEP if exact and self.width < ACROSS_COLUMNS else ACROSS_STEP
        with into.loop("step", *rows, step=height) as step:
            stop = into.let(at.minimum(at.add(step, height), rows[1]), "step_stop")
            with into.loop("j", *cols, "vector") as j:
                element = self._column(at_plane, j)
                # One by one, the first goes to what came before; else all of the step do.
                end = at.select(in_turn, at.add(step, 1), stop)
                total = fold_serial(into, self.combine, step, end, element)
                slot = into.let(at.subtract(j, cols[0]), "slot")
                with into.when(at.less(rows[0], step)):
                    old = [Load(b, slot) for b in held]
                    made = combine_simple(into, self.combine, old, total)
                    made = tuple(into.let(m, "r") for m in made)
                    assign(into, total, made)
                if in_turn is not FALSE:
                    reduce_range(into, self.combine, total, end, stop, element, serial=True)
                into.append(*(Store(b, slot, t) for b, t in zip(held, total, strict=True)))
        empty = at.less_equal(rows[1], rows[0])
        with into.loop("j", *cols, "vector") as j:
            self.builder.stays_below(j, self.outer[-1])
            slot = into.let(at.subtract(j, cols[0]), "slot")
            total = declare(into, identities(self.combine) or zeros(self.combine))
            with into.when(at.negate(empty)):
                assign(into, total, [Load(b, slot) for b in held])
            alone = at.equal(size.blocks, 1)
            with into.when(alone):
                self.finish(into, (*at_plane, j), total, size.count)
            with into.otherwise(alone):
                place = self._place(plane, block, j)
                into.append(*(Store(b, place, t) for b, t in zip(self.scratch, total, strict=True)))

    def _in_turn(self, into: Linearizer) -> Expr:
        """Whether elements are taken one after the other, rather than in steps: where that reaches
        bits, and they are few or their places count."""
        if is_pinned(self.node):
            return TRUE
        if is_exact(self.node.combine):
            return FALSE
        return into.let(at.less(self.size.count, SHORT_ROW), "in_turn")

    def _place(self, plane: Expr, block: Expr, j: Expr) -> Expr:
        size = self.size
        row = at.add(at.multiply(plane, size.blocks), block)
        return at.add(at.multiply(row, size.columns), j)

    def _column(self, at_plane: Sequence[Expr], j: Expr) -> Elements:
        """The elements of column `j`, by their position along the inner axes."""

        def element(into: Linearizer, k: Expr) -> tuple[Expr, ...]:
            self.builder.stays_below(j, self.outer[-1])
            inner: tuple[Expr, ...] = (k,)
            if len(self.inner) == 1:
                self.builder.stays_below(k, self.inner[0])
            else:
                inner = tiling.coordinates(self.builder, into, k, self.inner, "k")
            places = (*at_plane, j, *inner)
            with into.when_always({Index(n): c for n, c in enumerate(places)}):
                return into.emit(self.elements)

        return element

    def _combine(self) -> Kernel:
        size = self.size
        into, task = self.builder.emitter(), Var("task", int64)
        plane = into.let(at.floor_divide(task, size.across), "plane")
        at_plane = tiling.coordinates(self.builder, into, plane, self.outer[:-1])
        cols = tiling.block_range(into, "col", at.remainder(task, size.across), self.width,
                                  size.columns)  # fmt: skip
        with into.loop("j", *cols, "vector") as j:
            self.builder.stays_below(j, self.outer[-1])

            def partial(_: Linearizer, b: Expr) -> tuple[Expr, ...]:
                place = self._place(plane, b, j)
                return tuple(Load(s, place) for s in self.scratch)

            total = fold_tree(into, self.combine, size.blocks, partial)
            self.finish(into, (*at_plane, j), total, size.count)
        tasks = at.select(at.less(1, self.host_blocks), at.multiply(
            self.host_planes, at.ceil_div(self.host_columns, self.width)), 0)  # fmt: skip
        return self.kernel("combine", self.builder.scalar(tasks, "combines"), task, into,
                           "partial results from top to bottom")  # fmt: skip
