"""Scan: prefixes along an axis, from either end.

Everything is written in scan order: step p combines element k = p, or n − 1 − p from the right, and
the operands keep the array's order.  Two shapes:

    along     the axis is contiguous.  Few rows: three kernels over blocks of a fixed size,
                 sums     the combination of every block but the last
                 carries  their prefixes, `init` first
                 scan     every block again, from its carry
              many rows: the third kernel alone, with one block per row.  Few threads and a
              function without an identity, whose sums take as long as the scan: one kernel, which
              while it scans a block also combines the block's elements separately
    across    the axis is not the last: a vector of columns, step by step

Known primitive operators process GROUPED steps at a time: the prefix within the group is computed
separately from the value before the group, so that steps do not wait for each other.  Vector loops
compute costly elements and epilogues over a part of the row that fits in the L1 cache (`staged`).
The choice depends on the operator and the extents, never on fusion.

A schedule numbers the blocks of rows, or the columns, that a task computes (`../visits.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from treadle.dsl.analysis.combines import identities
from treadle.dsl.expr import TRUE, Apply, Expr, Index, Read, Var, constant, walk
from treadle.dsl.graph import Scan
from treadle.dsl.node import ROWS
from treadle.dsl.types import int64

from ...ir import arithmetic as at
from ...ir.kernel import Assign, Buffer, Kernel, Load, Lowered
from ...ir.linearize import Linearizer
from .. import combining, tiling, transform
from ..build import Builder, LoweringContext, element_cost
from ..visits import WHOLE, Visits, strip_width

#: Elements of a block; a multiple of STAGE.
BLOCK = 16384
#: Elements computed ahead of their scan.
STAGE = 2048
#: Steps taken together; divides STAGE.
GROUPED = 8
#: Threads on which two passes over blocks take as long as one pass.
FEW_THREADS = 2
#: Minimum number of rows for which one task scans a row.
MANY_ROWS = 16
#: For `across`: columns of a task, and steps between two accesses to the accumulators.
ACROSS_COLUMNS, ACROSS_STEP = 512, 8
#: Elements that cost more are computed ahead.
_CHEAP_ELEMENT = 6.0

UserProgram = tuple[Expr, tuple[Var, ...]]
"""The first step of a block, and the combination of its elements by themselves."""


def lower_scan(node: Scan, context: LoweringContext) -> Lowered:
    """One kernel, or three (module docstring)."""
    builder = Builder(node, context)
    if node.axis == len(node.shape) - 1:
        return _Along(builder, node).lower()
    return _Across(builder, node).lower()


class AxisScan:
    """The base of both shapes: access to elements and results."""

    def __init__(self, builder: Builder, node: Scan) -> None:
        self.builder, self.node, self.combine = builder, node, node.combine
        outs = builder.outputs()
        count = len(node.epilogue)
        self.outs, self.totals = outs[:count], outs[count:]
        self.elements = transform.resolve(node.elements, builder, node.shape)
        self.epilogue = transform.resolve(node.epilogue, builder, node.outputs[0].shape)
        self.n = builder.extent(node.shape[node.axis])
        self.out_shape = builder.shape(node.outputs[0].shape)
        self.others = (*node.shape[: node.axis], *node.shape[node.axis + 1 :])
        self.neutral = identities(node.combine)

    def indices(self, others: Sequence[Expr], k: Expr) -> tuple[Expr, ...]:
        """The index of element `k` of the row at `others`."""
        axis = self.node.axis
        return (*others[:axis], k, *others[axis:])

    def source(self, p: Expr) -> Expr:
        """The element that step `p` combines."""
        return self.n - 1 - p if self.node.reverse else p

    def target(self, p: Expr) -> Expr:
        """The position of the result of step `p`; for an exclusive scan, that of the value before
        it."""
        if not self.node.reverse:
            return p
        last = self.n if self.node.form == "exclusive" else self.n - 1
        return last - p

    def element(self, into: Linearizer, others: Sequence[Expr], p: Expr) -> combining.Values:
        """Compute the components of the element of step `p`."""
        k = self.source(p)
        self.builder.stays_below(k, self.node.shape[self.node.axis])
        coordinates = self.indices(others, k)
        with into.when_always({Index(a): i for a, i in enumerate(coordinates)}):
            return into.emit(self.elements)

    def store(self, into: Linearizer, others: Sequence[Expr], p: Expr, values: Sequence[Expr]
              ) -> None:  # fmt: skip
        """Store the result of step `p`, through the epilogue."""
        coordinates = self.indices(others, self.target(p))
        values = [into.let(v, "r") for v in values]
        with into.when_always({Index(a): i for a, i in enumerate(coordinates)}):
            into.bind(dict(zip(self.node.results, values, strict=True)))
            stored = into.emit(self.epilogue)
            where = at.linear(coordinates, self.out_shape)
            combining.put(into, self.outs, where, stored)

    def end(self, into: Linearizer, others: Sequence[Expr], total: Sequence[Expr]) -> None:
        """Store the value after the last step: the last result, or the total."""
        if self.node.form == "exclusive":
            self.store(into, others, self.n, total)
        elif self.node.form == "total":
            where = at.linear(others, self.builder.shape(self.others))
            combining.put(into, self.totals, where, total)

    def step(
        self, into: Linearizer, total: Sequence[Expr], value: Sequence[Expr]
    ) -> combining.Values:
        sides = (value, total) if self.node.reverse else (total, value)
        return combining.apply_combine(into, self.combine, *sides, named=False)

    def advance(self, into: Linearizer, total: Sequence[Var], value: Sequence[Expr]) -> None:
        combining.accumulate(into, self.combine, total, value, swapped=self.node.reverse)

    def join(self, into: Linearizer, total: Sequence[Var], value: Sequence[Expr], first: Expr
             ) -> None:  # fmt: skip
        """`advance`, or an assignment if there is no total yet (`first` holds)."""
        with into.when(first):
            combining.assign(into, total, value)
        with into.otherwise(first):
            self.advance(into, total, value)

    def init(self, into: Linearizer) -> combining.Values:
        assert self.node.init is not None
        with into.when_always({}):
            return into.emit(self.node.init, named=True)

    def kernel(self, suffix: str, tasks: Expr, task: Var, into: Linearizer, comment: str,
               **gpu: Any) -> Kernel:  # fmt: skip
        return self.builder.kernel(suffix, tasks, task, tuple(into.out), comments=(comment,), **gpu)


def is_grouped(node: Scan) -> bool:
    """Whether GROUPED steps along rows are processed together."""
    cost = sum(e.op.cost for e in walk(node.combine.results) if isinstance(e, Apply))
    return identities(node.combine) is not None and cost <= 4


def _costly(roots: Sequence[Expr]) -> bool:
    """Whether a vector loop computes these faster than a serial one."""
    return element_cost(roots) > _CHEAP_ELEMENT or any(
        not isinstance(e, Apply | Read) and (bool(e.args) or bool(e.scoped)) for e in walk(roots)
    )


class _Along(AxisScan):
    """The axis is contiguous."""

    def __init__(self, builder: Builder, node: Scan) -> None:
        super().__init__(builder, node)
        scalar = builder.scalar
        n, rows = node.shape[-1], at.product(self.others)
        blocks = at.maximum(at.ceil_div(n, BLOCK), 1)
        many = TRUE if node.label.part == ROWS else at.less_equal(MANY_ROWS, rows)
        self.host_blocks = at.select(many, 1, blocks)
        self.host_rows, self.host_n = rows, n
        self.blocks = scalar(self.host_blocks, "blocks")
        self.length = scalar(at.select(at.equal(self.host_blocks, 1), n, BLOCK), "length")
        self.rows = scalar(rows, "rows")
        self.grouped = is_grouped(node)
        self.stage_in = _costly(self.elements)
        self.stage_out = _costly(self.epilogue)
        types = [r.type for r in node.combine.results]
        self.stage = builder.local("stage", types, STAGE)
        leaf = (*(1 for _ in self.others), BLOCK)
        self.visits = Visits.of(builder, (*self.others, self.host_blocks), leaf)
        few = self.neutral is None and builder.context.threads <= FEW_THREADS
        self.once = few and not node.reverse and self.visits is None
        if self.once:
            return
        size = scalar(rows * self.host_blocks, "partials")
        self.sums = builder.scratch("sum", types, size)
        self.carries = builder.scratch("carry", types, size)

    def lower(self) -> Lowered:
        if self.once:
            return self.builder.lowered(self._scan())
        if self.visits is None:
            scan = self._scan()
            return self.builder.lowered(self._sums(), self._carries(), scan)
        sums = self._visited("sums", self.visits)
        return self.builder.lowered(sums, self._carries(), self._visited("scan", self.visits))

    def _visited(self, suffix: str, visits: Visits) -> Kernel:
        """The kernel over all blocks in the order of the schedule: their sums (except the last of a
        row), or the scan of each from its carry."""
        into, task = self.builder.emitter(), Var("task", int64)
        rows = at.maximum(BLOCK // at.maximum(self.host_n, 1), 1)
        tasks, per_task = visits.tasks(rows)
        numbers = tiling.block_range(into, "visit", task, per_task, visits.total)
        with into.loop("number", *numbers) as number:
            exists, (*others, block) = visits.at(into, number)
            if suffix == "sums":
                exists = at.both(exists, at.less(block, self.blocks - 1))
            with into.when(exists):
                row = into.let(at.linear(others, self.builder.shape(self.others)), "row")
                one = self._sum if suffix == "sums" else self._scan_block
                one(into, others, row, block)
        if suffix == "sums":
            several = at.less(1, self.blocks)
            tasks = at.select(several, tasks, 0)
        return self.kernel(suffix, tasks, task, into,
                           f"blocks of {BLOCK} elements, as the schedule says")  # fmt: skip

    def _sums(self) -> Kernel:
        into, task = self.builder.emitter(), Var("task", int64)
        last = self.blocks - 1
        row, block = task // last, task % last
        if at.is_constant(self.host_rows, 1):
            row, block = constant(0), task
        row, block = into.let(row, "row"), into.let(block, "block")
        self._sum(into, tiling.coordinates(self.builder, into, row, self.others), row, block)
        tasks = at.select(at.less(1, self.host_blocks), self.host_rows * (self.host_blocks - 1), 0)
        return self.kernel("sums", self.builder.scalar(tasks, "sum_tasks"), task, into,
                           f"the combination of each block of {BLOCK}")  # fmt: skip

    def _sum(self, into: Linearizer, others: Sequence[Expr], row: Expr, block: Expr) -> None:
        """The combination of one block."""
        start, stop = tiling.block_range(into, "block", block, self.length, self.n)
        if self.node.reverse:
            start, stop = self.n - stop, self.n - start

        def element(inner: Linearizer, k: Expr) -> combining.Values:
            self.builder.stays_below(k, self.node.shape[-1])
            with inner.when_always({Index(a): i for a, i in enumerate((*others, k))}):
                return inner.emit(self.elements)

        total = combining.fold_range(into, self.combine, start, stop, element)
        where = row * self.blocks + block
        combining.put(into, self.sums, where, total)

    def _carries(self) -> Kernel:
        into, task = self.builder.emitter(), Var("task", int64)
        base = into.let(task * self.blocks, "base")
        last = self.blocks - 1

        def sum_of(b: Expr) -> combining.Values:
            return tuple(Load(s, base + b) for s in self.sums)

        def carry(inner: Linearizer, b: Expr, total: Sequence[Expr]) -> None:
            position = base + b
            combining.put(inner, self.carries, position, total)

        if self.node.init is not None:
            total = combining.declare(into, self.init(into))
            carry(into, constant(0), total)
            first = 0
        else:
            total = combining.declare(into, sum_of(constant(0)))
            carry(into, constant(1), total)
            first = 1
        with into.loop("b", first, last) as b:
            self.advance(into, total, sum_of(b))
            carry(into, b + 1, total)
        tasks = at.select(at.less(1, self.host_blocks), self.host_rows, 0)
        return self.kernel("carries", self.builder.scalar(tasks, "carry_tasks"), task, into,
                           "what comes before each block")  # fmt: skip

    def _scan(self) -> Kernel:
        per_task_host = at.select(
            at.equal(self.host_blocks, 1),
            at.maximum(BLOCK // at.maximum(self.host_n, 1), 1), 1,
        )  # fmt: skip
        per_task = self.builder.scalar(per_task_host, "rows_per_task")
        groups = self.builder.scalar(at.ceil_div(self.host_rows, per_task_host), "row_groups")
        into, task = self.builder.emitter(), Var("task", int64)
        if self.once:
            rows = tiling.block_range(into, "row", task, per_task, self.rows)
            with into.loop("row", *rows) as row:
                self._row(into, tiling.coordinates(self.builder, into, row, self.others))
            return self.kernel("scan", groups, task, into, "step by step, the blocks in order")
        block = into.let(task % self.blocks, "block")
        first, end = tiling.block_range(into, "row", task // self.blocks, per_task, self.rows)
        with into.loop("row", first, end) as row:
            others = tiling.coordinates(self.builder, into, row, self.others)
            self._scan_block(into, others, row, block)
        how = f"{GROUPED} steps together" if self.grouped else "step by step"
        return self.kernel("scan", groups * self.blocks, task, into, how)

    def _row(self, into: Linearizer, others: Sequence[Expr]) -> None:
        """Scan all blocks of a row, in order; each is also combined separately, for the carry."""
        carried = combining.declare(into, combining.zeros(self.combine))
        own = combining.declare(into, combining.zeros(self.combine), "own")
        with into.loop("block", 0, self.blocks) as block:
            start, stop = tiling.block_range(into, "step", block, self.length, self.n)
            total, begin = self._begin(into, others, carried, block, start, stop)
            if self.node.init is not None:
                with into.when(at.equal(block, 0)):
                    combining.assign(into, carried, total)
            else:
                combining.assign(into, own, total)  # if the first step has been made
            self._block(into, others, total, begin, stop, (start, own))
            if self.node.init is None:
                self.join(into, carried, own, at.equal(block, 0))
            else:
                self.advance(into, carried, own)
            with into.when(at.equal(block, self.blocks - 1)):
                self.end(into, others, total)

    def _scan_block(self, into: Linearizer, others: Sequence[Expr], row: Expr, block: Expr) -> None:
        """One block, from its carry."""
        start, stop = tiling.block_range(into, "step", block, self.length, self.n)
        position = row * self.blocks + block
        carried = [Load(c, position) for c in self.carries]
        total, begin = self._begin(into, others, carried, block, start, stop)
        self._block(into, others, total, begin, stop)
        with into.when(at.equal(block, self.blocks - 1)):
            self.end(into, others, total)

    def _begin(self, into: Linearizer, others: Sequence[Expr], carried: Sequence[Expr],
               block: Expr, start: Expr, stop: Expr) -> tuple[tuple[Var, ...], Expr]:  # fmt: skip
        """The accumulators before the first step, and the number of that step."""
        if self.node.init is not None:
            total = combining.declare(into, self.init(into))
            with into.when(at.less(0, block)):
                combining.assign(into, total, carried)
            return total, start
        total = combining.declare(into, self.neutral or combining.zeros(self.combine))
        with into.when(at.less(0, block)):
            combining.assign(into, total, carried)
        if self.neutral is not None:
            return total, start
        begin = into.declare(start, "begin")
        with into.when(at.both(at.equal(block, 0), at.less(start, stop))):
            combining.assign(into, total, self.element(into, others, start))
            self.store(into, others, start, total)
            into.append(Assign(begin, start + 1))
        return total, begin

    def _block(self, into: Linearizer, others: Sequence[Expr], total: tuple[Var, ...], start: Expr,
               stop: Expr, own: UserProgram | None = None) -> None:  # fmt: skip
        """Steps start … stop − 1."""
        if not (self.stage_in or self.stage_out):
            self._steps(into, others, total, start, stop, start, own)
            return
        with into.loop("part", start, stop, step=STAGE) as part:
            part_stop = into.let(at.minimum(part + STAGE, stop), "part_stop")
            if self.stage_in:
                with into.loop("p", part, part_stop, "vector") as p:
                    values = self.element(into, others, p)
                    combining.put(into, self.stage, p - part, values)
            self._steps(into, others, total, part, part_stop, part, own)
            if self.stage_out:
                with into.loop("p", part, part_stop, "vector") as p:
                    slot = into.let(p - part, "slot")
                    self.store(into, others, p, [Load(b, slot) for b in self.stage])

    def _steps(self, into: Linearizer, others: Sequence[Expr], total: tuple[Var, ...], start: Expr,
               stop: Expr, origin: Expr, own: UserProgram | None) -> None:  # fmt: skip
        """Steps in order, in groups and one by one."""

        def value(inner: Linearizer, p: Expr) -> combining.Values:
            if self.stage_in:
                found: combining.Values = tuple(Load(b, p - origin) for b in self.stage)
            else:
                found = self.element(inner, others, p)
            return tuple(inner.let(v, "x") for v in found)

        def result(inner: Linearizer, p: Expr, values: Sequence[Expr]) -> None:
            if self.stage_out:
                combining.put(inner, self.stage, p - origin, values)
            else:
                self.store(inner, others, p, values)

        inclusive = self.node.form == "inclusive"
        left_over = start
        if self.grouped:
            count = (stop - start) // GROUPED * GROUPED
            left_over = into.let(start + count, "left_over")
            with into.loop("p", start, left_over, step=GROUPED) as p:
                prefix: list[combining.Values] = []
                for g in range(GROUPED):
                    x = value(into, p + g)
                    new = self.step(into, prefix[-1], x) if prefix else x
                    prefix.append(tuple(into.let(v, "prefix") for v in new))
                results = [tuple(into.let(v, "r") for v in self.step(into, total, x))
                           for x in prefix]  # fmt: skip
                if not inclusive:
                    before = tuple(combining.copied(into, t) for t in total)
                    results = [before, *results]
                for g in range(GROUPED):
                    result(into, p + g, results[g])
                combining.assign(into, total, results[-1])

        def one(p: Expr, combined: Callable[[combining.Values], None]) -> None:
            x = value(into, p)
            combined(x)
            if inclusive:
                self.advance(into, total, x)
                result(into, p, total)
            else:
                result(into, p, total)
                self.advance(into, total, x)

        if own is None:
            with into.loop("p", left_over, stop) as p:
                one(p, lambda x: None)
            return
        first, alone = own
        left_over = into.declare(start, "left_over")
        with into.when(at.both(at.equal(start, first), at.less(start, stop))):
            one(start, lambda x: combining.assign(into, alone, x))
            into.append(Assign(left_over, start + 1))
        with into.loop("p", left_over, stop) as p:
            one(p, lambda x: self.advance(into, alone, x))


class _Across(AxisScan):
    """The axis is not the last: adjacent columns, with accumulators in task-private memory."""

    def lower(self) -> Lowered:
        builder, axis = self.builder, self.node.axis
        columns = builder.scalar(self.others[-1], "columns")
        types = [r.type for r in self.combine.results]
        into, task = builder.emitter(), Var("task", int64)
        strip = strip_width(builder, ACROSS_COLUMNS)
        grid = (*self.others[:-1], at.ceil_div(self.others[-1], strip))
        leaf = (*(1 for _ in self.others[:-1]), strip)
        visits = Visits.of(builder, (*grid[:axis], constant(1), *grid[axis:]),
                           (*leaf[:axis], WHOLE, *leaf[axis:]))  # fmt: skip
        if visits is None:
            across = builder.scalar(at.ceil_div(self.others[-1], ACROSS_COLUMNS), "across")
            planes = builder.scalar(at.product(self.others[:-1]), "planes")
            accumulators = builder.local("column", types, ACROSS_COLUMNS)
            plane = task // across
            at_plane = tiling.coordinates(builder, into, plane, self.others[:-1])
            cols = tiling.block_range(into, "col", task % across, ACROSS_COLUMNS,
                                      columns)  # fmt: skip
            self._columns(into, at_plane, cols, accumulators)
            tasks, how = planes * across, "columns side by side"
        else:
            accumulators = builder.local("column", types, strip)
            tasks, per_task = visits.tasks(1)
            with visits.each(into, task, per_task) as indices:
                *lead, number_of_strip = (*indices[:axis], *indices[axis + 1 :])
                cols = tiling.block_range(into, "col", number_of_strip, strip, columns)
                self._columns(into, lead, cols, accumulators)
            how = f"strips of {strip} columns, as the schedule says"
        return builder.lowered(self.kernel("", tasks, task, into, how))

    def _columns(self, into: Linearizer, at_plane: Sequence[Expr], cols: tuple[Expr, Expr],
                 accumulators: Sequence[Buffer]) -> None:  # fmt: skip
        """Some columns from end to end, accumulated in `accumulators`."""
        builder = self.builder
        if self.node.init is not None:
            start = self.init(into)
            with into.loop("j", *cols, "vector") as j:
                combining.put(into, accumulators, j - cols[0], start)
        with into.loop("step", 0, self.n, step=ACROSS_STEP) as step:
            stop = into.let(at.minimum(step + ACROSS_STEP, self.n), "step_stop")
            with into.loop("j", *cols, "vector") as j:
                builder.stays_below(j, self.others[-1])
                slot = into.let(j - cols[0], "slot")
                total = combining.declare(into, self.neutral or combining.zeros(self.combine))
                known = TRUE if self.node.init is not None else at.less(0, step)
                with into.when(known):
                    combining.assign(into, total, [Load(b, slot) for b in accumulators])
                with into.loop("p", step, stop) as p:
                    self._one(into, (*at_plane, j), total, p)
                combining.put(into, accumulators, slot, total)
        if self.node.form != "inclusive":
            with into.loop("j", *cols, "vector") as j:
                slot = into.let(j - cols[0], "slot")
                last = tuple(into.let(Load(b, slot), "last") for b in accumulators)
                self.end(into, (*at_plane, j), last)

    def _one(self, into: Linearizer, others: Sequence[Expr], total: tuple[Var, ...], p: Expr
             ) -> None:  # fmt: skip
        inclusive = self.node.form == "inclusive"
        x = tuple(into.let(v, "x") for v in self.element(into, others, p))
        if not inclusive:
            self.store(into, others, p, total)
        if self.node.init is not None or self.neutral is not None:
            self.advance(into, total, x)
        else:
            self.join(into, total, x, at.equal(p, 0))
        if inclusive:
            self.store(into, others, p, total)
