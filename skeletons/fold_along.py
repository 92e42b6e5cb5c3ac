"""Folds along rows, on a CPU: blocks of the inner axes, reduced along the last one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from treadle.dsl.combines import SHORT_ROW, identities, is_commutative
from treadle.dsl.expr import FALSE, Const, Expr, Index, Var, constant, substitute
from treadle.dsl.graph import Combine, Fold
from treadle.dsl.operations.places import delinear
from treadle.dsl.types import int64

from .combining import (
    Elements,
    accumulate,
    declare,
    fold_partials,
    fold_range,
    fold_runs,
    fold_tree,
)
from .fold import RowFold, is_pinned
from .kernel import arithmetic as at
from .kernel import tiling, transform
from .kernel.build import Builder
from .kernel.ir import Kernel, Load, Lowered, Store
from .kernel.linearize import Linearizer
from .visits import Visits

Pick = Callable[[Linearizer, tuple[Expr, ...]], tuple[Expr, ...]]

#: Elements of a block where a commuting operator is reduced along it.
BLOCK = 8192
#: Elements of a block that one lane folds: no multiple of 1024, so that the lanes' lines fall
#: into different sets of the cache.
LANE_BLOCK = 1040
#: Blocks of a task where lanes fold blocks of their own.
LANE_UNITS = 64


class Along(RowFold):
    """Blocks of the inner axes, reduced along the last one."""

    def __init__(self, builder: Builder, node: Fold) -> None:
        super().__init__(builder, node, node.outer)
        self.inner = node.inner
        self.elements = transform.resolve(node.elements, builder, (*node.outer, *node.inner))
        self.position = Var("p", int64)
        self.linear: tuple[Expr, ...] | None = None
        if len(self.inner) > 1:
            self.linear = transform.collapse(
                self.elements, (*node.outer, *node.inner), builder, self.position, len(node.outer)
            )
            if self.linear is None and is_pinned(node):
                self.linear = self._in_row_major_order()
        self.lanes = self.in_order()
        self._measure(LANE_BLOCK if self.lanes else BLOCK)

    def _in_row_major_order(self) -> tuple[Expr, ...]:
        """The elements by their position along all inner axes, for the price of its division."""
        places = delinear(self.position, self.inner)
        rank = len(self.outer)
        return substitute(self.elements, {Index(rank + k): c for k, c in enumerate(places)})

    def _measure(self, block: int) -> None:
        """The numbers of rows, blocks and elements, as host expressions and scalars.

        The inner axes are `lead` rows of `run` contiguous elements (one row when they collapse);
        a block is a part of one of these rows or several whole ones.
        """
        scalar = self.builder.scalar
        inner = (at.product(self.inner),) if self.linear is not None else self.inner
        run = inner[-1] if inner else constant(1)
        lead = at.product(inner[:-1])
        count, rows = at.multiply(lead, run), at.product(self.outer)
        group = at.maximum(at.floor_divide(block, at.maximum(run, 1)), 1)
        if len(inner) <= 1:
            group = constant(1)
        parts = at.maximum(at.ceil_div(run, block), 1)
        blocks = at.multiply(at.maximum(at.ceil_div(lead, group), 1), parts)
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
        self.scratch = self.partials(
            scalar(at.multiply(self.host_rows, self.host_blocks), "partials")
        )
        self.visits = Visits.of(self.builder, (self.host_blocks, *self.outer),
                                (self.block, *(1 for _ in self.outer)), not self.outer)  # fmt: skip
        if self.visits is not None:
            first = self._visited(self.visits)
        else:
            first = self._lanes() if self.lanes else self._rows()
        return self.builder.lowered(first, self._combine())

    def _visited(self, visits: Visits) -> Kernel:
        """A task: some of the blocks of all rows, one after the other as the schedule has them."""
        length = at.minimum(at.maximum(self.host_count, 1), self.block)
        least = at.maximum(at.floor_divide(self.block, length), 1)
        tasks, per_task = visits.tasks(at.maximum(least, LANE_UNITS) if self.lanes else least)
        into, task = self.builder.emitter(), Var("task", int64)
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
            if short is not FALSE:
                with into.when(short), into.loop("number", start, stop, "vector") as number:
                    visit(number, True)
            with into.otherwise(short), into.loop("number", start, stop) as number:
                visit(number, False)
        return self.kernel("blocks", tasks, task, into,
                           f"blocks of {self.block} elements, as the schedule says")  # fmt: skip

    def _rows(self) -> Kernel:
        """A task: one block of one row, or all of several rows."""
        per_task_host = at.select(
            at.equal(self.host_blocks, 1),
            at.maximum(at.floor_divide(self.block, at.maximum(self.host_count, 1)), 1), 1,
        )  # fmt: skip
        per_task = self.builder.scalar(per_task_host, "rows_per_task")
        groups = self.builder.scalar(at.ceil_div(self.host_rows, per_task_host), "row_groups")
        into, task = self.builder.emitter(), Var("task", int64)
        block = into.let(at.remainder(task, self.blocks), "block")
        start, stop = tiling.block_range(
            into, "row", at.floor_divide(task, self.blocks), per_task, self.rows
        )
        with self._short_rows(into, start, stop), into.loop("row", start, stop) as row:
            self._one(into, row, block)
        return self.kernel(
            "blocks",
            at.multiply(groups, self.blocks),
            task,
            into,
            f"blocks of {self.block} elements",
        )

    @contextmanager
    def _short_rows(self, into: Linearizer, start: Expr, stop: Expr) -> Iterator[None]:
        """Rows of a few elements side by side in the lanes of a vector, each serially; the body is
        what happens to longer ones."""
        short = self._are_short(into)
        if short is FALSE:
            yield
            return
        with into.when(short), into.loop("row", start, stop, "vector") as row:
            self._short(into, tiling.coordinates(self.builder, into, row, self.outer))
        with into.otherwise(short):
            yield

    def _are_short(self, into: Linearizer) -> Expr:
        """Whether rows have so few elements that each is folded serially."""
        neutral = self.neutral()
        if len(self.inner) != 1 or not self.outer or neutral is None:
            return FALSE
        return into.let(at.less(self.count, min(SHORT_ROW, self.block + 1)), "short")

    def _short(self, into: Linearizer, at_row: Sequence[Expr]) -> None:
        """One row of a few elements."""
        total = declare(into, self.neutral() or ())
        with into.loop("k", 0, self.count) as k:
            self.builder.stays_below(k, self.inner[0])
            bindings: dict[Expr, Expr] = {Index(n): c for n, c in enumerate((*at_row, k))}
            with into.when_always(bindings):
                values = into.emit(self.elements)
            accumulate(into, self.combine, total, values)
        self.finish(into, at_row, total, self.count)

    def _lanes(self) -> Kernel:
        """A task: a vector of (row, block) pairs, each folded by one lane."""
        units_host = at.multiply(self.host_rows, self.host_blocks)
        length = at.minimum(at.maximum(self.host_count, 1), self.block)
        per_task_host = at.maximum(at.floor_divide(LANE_UNITS * 256, length), LANE_UNITS)
        units = self.builder.scalar(units_host, "units")
        per_task = self.builder.scalar(per_task_host, "units_per_task")
        tasks = self.builder.scalar(at.ceil_div(units_host, per_task_host), "unit_groups")
        into, task = self.builder.emitter(), Var("task", int64)
        start, stop = tiling.block_range(into, "unit", task, per_task, units)
        with into.loop("unit", start, stop, "vector") as unit:
            row, block = at.floor_divide(unit, self.blocks), at.remainder(unit, self.blocks)
            if at.is_constant(self.host_rows, 1):
                row, block = constant(0), unit
            self._one(into, into.let(row, "row"), into.let(block, "block"))
        return self.kernel("blocks", tasks, task, into,
                           f"a lane folds {self.block} elements in order")  # fmt: skip

    def _one(self, into: Linearizer, row: Expr, block: Expr,
             at_row: Sequence[Expr] | None = None) -> None:  # fmt: skip
        """One block of one row: to the output if it is the only one, else a partial result."""
        if at_row is None:
            at_row = tiling.coordinates(self.builder, into, row, self.outer)
        self.one(into, row, block, at_row)

    def one(self, into: Linearizer, row: Expr, block: Expr, at_row: Sequence[Expr]) -> None:
        """See `_one`."""
        total = self.fold_block(into, at_row, block, self.combine)
        place = at.add(at.multiply(row, self.blocks), block)
        alone = at.equal(self.blocks, 1)
        with into.when(alone):
            self.finish(into, at_row, total, self.count)
        with into.otherwise(alone):
            into.append(*(Store(b, place, t) for b, t in zip(self.scratch, total, strict=True)))

    def in_order(self) -> bool:
        """Whether a block is folded element by element, several blocks side by side."""
        return not is_commutative(self.combine) or is_pinned(self.node)

    def neutral(self) -> tuple[Const, ...] | None:
        """What a row may be folded from, element by element."""
        return identities(self.combine)

    def fold_block(self, into: Linearizer, at_row: Sequence[Expr], block: Expr, combine: Combine,
                   pick: Pick | None = None) -> tuple[Var, ...]:  # fmt: skip
        """The elements of a block, or what `pick` makes of each, by `combine`."""
        rank = len(self.outer)
        bindings: dict[Expr, Expr] = {Index(k): c for k, c in enumerate(at_row)}
        roots = self.elements if self.linear is None else self.linear
        last = self.position if self.linear is not None else Index(rank + len(self.inner) - 1)

        def element(lead: dict[Expr, Expr]) -> Elements:
            def emit(inner: Linearizer, k: Expr) -> tuple[Expr, ...]:
                if self.linear is None and self.inner:
                    self.builder.stays_below(k, self.inner[-1])
                with inner.when_always({**bindings, **lead, last: k}):
                    found = inner.emit(roots)
                return found if pick is None else pick(inner, found)

            return emit

        if self.single_row:
            start, stop = tiling.block_range(into, "block", block, self.block, self.run)
            return fold_range(into, combine, start, stop, element({}), serial=self.lanes)
        first, end = tiling.block_range(
            into, "lead", at.floor_divide(block, self.parts), self.group, self.lead
        )
        start, stop = tiling.block_range(
            into, "run", at.remainder(block, self.parts), self.block, self.run
        )

        def one_run(inner: Linearizer, lead: Expr) -> tuple[Expr, ...]:
            places = tiling.coordinates(self.builder, inner, lead, self.inner[:-1], "k")
            where: dict[Expr, Expr] = {Index(rank + k): c for k, c in enumerate(places)}
            return fold_range(inner, combine, start, stop, element(where))

        return fold_runs(into, combine, first, end, one_run)

    def _combine(self) -> Kernel:
        """Partial results in order, for a group of rows per task."""
        per_task_host = at.maximum(at.floor_divide(4096, self.host_blocks), 1)
        tasks_host = at.select(at.less(1, self.host_blocks),
                               at.ceil_div(self.host_rows, per_task_host), 0)  # fmt: skip
        per_task = self.builder.scalar(per_task_host, "rows_per_combine")
        into, task = self.builder.emitter(), Var("task", int64)
        start, stop = tiling.block_range(into, "row", task, per_task, self.rows)
        with into.loop("row", start, stop) as row:
            at_row = tiling.coordinates(self.builder, into, row, self.outer)
            base = into.let(at.multiply(row, self.blocks), "base")

            def partial(_: Linearizer, b: Expr) -> tuple[Expr, ...]:
                return tuple(Load(s, at.add(base, b)) for s in self.scratch)

            self.finish(into, at_row, self.whole(into, at_row, partial), self.count)
        return self.kernel("combine", self.builder.scalar(tasks_host, "combines"), task, into,
                           "partial results from left to right")  # fmt: skip

    def whole(self, into: Linearizer, at_row: Sequence[Expr], partial: Elements
              ) -> tuple[Var, ...]:  # fmt: skip
        """A row's result from the partial results of its blocks."""
        if is_pinned(self.node):
            return fold_tree(into, self.combine, self.blocks, partial)
        return fold_partials(into, self.combine, self.blocks, partial)
