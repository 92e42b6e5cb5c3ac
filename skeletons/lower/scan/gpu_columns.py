"""Scans along an axis other than the last: a thread per column, adjacent threads on adjacent
columns.

If there are enough columns, one kernel scans every column step by step and prefetches some
elements.  Otherwise columns are split into parts, and three kernels run:

    sums       the combination of every part but the last
    carries    the prefix before every part but the first: a block per column
    columns    every part again, from its carry

A schedule assigns the parts of columns to threads; consecutive numbers go to adjacent threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from treadle.dsl.expr import TRUE, Expr, Var
from treadle.dsl.graph import Scan

from ...ir import arithmetic as at
from ...ir.kernel import Barrier, Kernel, Load, Lowered
from ...ir.linearize import Linearizer
from .. import tiling
from ..build import Builder, element_cost
from ..combining import accumulate, apply_combine, assign, declare, get, put, zeros
from ..gpu.collectives import combine_cost, flipped, scan_warp, shuffled
from ..gpu.common import WARP, Threads
from ..gpu.orders import Visits, leaf
from .cpu import AxisScan

#: Threads of a block; columns, or parts of them, that saturate memory; the fewest steps of a part.
THREADS, ENOUGH, LEAST = 256, 131072, 64
#: The most parts of a column, since one block combines them.
PARTS = 4096
#: Elements that a thread prefetches; 4 if elements or combinations cost more than _EXPENSIVE.
AHEAD = 16
_EXPENSIVE = 12.0


def parts_of(n: Expr, columns: Expr) -> tuple[Expr, Expr]:
    """The parts that columns of `n` steps are split into, and the steps of a part."""
    wanted = at.minimum(at.ceil_div(ENOUGH, at.maximum(columns, 1)), PARTS)
    most = at.maximum(at.minimum(wanted, n // LEAST), 1)
    span = at.maximum(at.ceil_div(n, most), 1)
    return at.maximum(at.ceil_div(n, span), 1), span


class ColumnScan(AxisScan):
    """One kernel or three (module docstring)."""

    def __init__(self, builder: Builder, node: Scan) -> None:
        super().__init__(builder, node)
        self.order = flipped(node.combine) if node.reverse else node.combine
        self.types = [r.type for r in node.combine.results]
        cost = max(element_cost((*self.elements, *self.epilogue)), combine_cost(node.combine))
        self.ahead = AHEAD if cost <= _EXPENSIVE else 4
        scalar = builder.scalar
        n, columns = node.shape[node.axis], at.product(self.others)
        whole = node.label.grouping(node.shape)
        parts, span = parts_of(n, at.product((*whole[: node.axis], *whole[node.axis + 1 :])))
        self.host_parts, self.host_columns = parts, columns
        self.span, self.parts = scalar(span, "span"), scalar(parts, "parts")
        # The columns of a plane are adjacent: `width` of them precede the next part.
        self.width = scalar(self.others[-1], "width")
        self.columns = scalar(columns, "columns")
        size = scalar(columns * parts, "partials")
        self.sums = builder.scratch("sum", self.types, size)
        self.carries = builder.scratch("carry", self.types, size)
        axis = node.axis
        sizes = [1 for _ in self.others]
        self.visits = Visits.of(builder, (*self.others[:axis], parts, *self.others[axis:]),
                                (*sizes[:axis], LEAST, *sizes[axis:]))  # fmt: skip

    def lower(self) -> Lowered:
        """The kernels; two of them have no tasks if columns are not split."""
        return self.builder.lowered(self._sums(), self._carries(), self._scan())

    @contextmanager
    def _part(self, into: Linearizer, unit: Expr, parts: Expr
              ) -> Iterator[tuple[tuple[Expr, ...], Expr, Expr]]:  # fmt: skip
        """A scope for part `unit` of the columns, if it exists; yields its coordinates."""
        others, plane, part, exists = self._coordinates(into, unit, parts)
        with into.when(exists):
            yield others, plane, part

    def _coordinates(self, into: Linearizer, unit: Expr, parts: Expr
                     ) -> tuple[tuple[Expr, ...], Expr, Expr, Expr]:  # fmt: skip
        """For part `unit` of columns with `parts` each: the column's coordinates, its plane, the
        number of the part, and whether the part exists."""
        if self.visits is not None:
            exists, indices = leaf(self.visits, into, unit)
            part, axis = indices[self.node.axis], self.node.axis
            others = (*indices[:axis], *indices[axis + 1 :])
            plane = at.linear(others[:-1], self.builder.shape(self.others[:-1]))
            exists = into.let(at.both(exists, at.less(part, parts)), "some")
            return others, into.let(plane, "plane"), part, exists
        plane, part, column = (
            into.let(c, name) for c, name in zip(
                at.row_major(unit, (self.columns, parts, self.width)),
                ("plane", "part", "column"), strict=True)
        )  # fmt: skip
        lead = tiling.coordinates(self.builder, into, plane, self.others[:-1])
        self.builder.stays_below(column, self.others[-1])
        return (*lead, column), plane, part, TRUE

    def _slot(self, into: Linearizer, plane: Expr, part: Expr, column: Expr) -> Expr:
        row = plane * self.parts + part
        return into.let(row * self.width + column, "slot")

    def _several(self, into: Linearizer, others: Sequence[Expr], start: Expr, stop: Expr,
                 one: Callable[[Expr, Sequence[Expr]], None]) -> None:  # fmt: skip
        """`one(p, element)` for steps start … stop − 1, with several loads in flight."""
        ahead = self.builder.local("ahead", self.types, self.ahead)
        count = at.maximum(stop - start, 0) // self.ahead
        rounds = into.let(count, "rounds")
        with into.loop("iteration", 0, rounds) as iteration:
            base = into.let(start + iteration * self.ahead, "base")
            with into.loop("u", 0, self.ahead, "unrolled") as u:
                put(into, ahead, u, self.element(into, others, into.let(base + u, "p")))
            with into.loop("u", 0, self.ahead, "unrolled") as u:
                one(into.let(base + u, "p"), get(into, ahead, u))
        with into.loop("p", start + rounds * self.ahead, stop) as p:
            one(p, [into.let(v, "x") for v in self.element(into, others, p)])

    def _sums(self) -> Kernel:
        into, grid = self.builder.emitter(), Threads.of(THREADS)
        host = self.host_columns * (self.host_parts - 1)
        if self.visits is not None:
            host = at.select(at.less(1, self.host_parts), self.visits.total_host, 0)
        units = self.builder.scalar(host, "sums")
        unit = into.let(grid.ident, "unit")
        but_last = self.parts - 1
        with into.when(at.less(unit, units)), self._part(into, unit, but_last) as which:
            others, plane, part = which
            start, stop = tiling.block_range(into, "part", part, self.span, self.n)
            first = self.element(into, others, into.let(start, "p"))
            total = declare(into, first)

            def one(p: Expr, value: Sequence[Expr]) -> None:
                accumulate(into, self.order, total, value)

            self._several(into, others, start + 1, stop, one)
            put(into, self.sums, self._slot(into, plane, part, others[-1]), total)
        tasks = self.builder.scalar(at.ceil_div(host, THREADS), "sum_blocks")
        return self.kernel("sums", tasks, grid.task, into, "a thread a part", **grid.launch())

    def _carries(self) -> Kernel:
        """A block per column: each thread some consecutive parts, then prefixes over the block."""
        into, grid = self.builder.emitter(), Threads.of(THREADS)
        lane, warp = into.let(grid.lane, "lane"), into.let(grid.warp, "warp")
        plane = into.let(grid.task // self.width, "plane")
        column = into.let(grid.task % self.width, "column")
        last = self.parts - 1
        share = into.let(at.ceil_div(last, THREADS), "share")
        begin = into.let(at.minimum(grid.thread * share, last), "begin")
        end = into.let(at.minimum(begin + share, last), "end")

        def sum_of(k: Expr) -> Sequence[Expr]:
            slot = self._slot(into, plane, k, column)
            return [into.let(Load(s, slot), "x") for s in self.sums]

        total = declare(into, self.neutral or zeros(self.combine))
        with into.when(at.less(begin, end)):
            assign(into, total, sum_of(begin))
            with into.loop("k", begin + 1, end) as k:
                accumulate(into, self.order, total, sum_of(k))
        scan_warp(into, self.order, [total], lane)
        warp_totals = self.builder.shared("warp_total", self.types, THREADS // WARP)
        with into.when(at.equal(lane, WARP - 1)):
            put(into, warp_totals, warp, total)
        into.append(Barrier())
        left = shuffled(into, "shuffle_up", total, 1)
        with into.when(at.less(begin, end)):
            state, known = self._initial(into, plane, column)
            known = into.declare(known, "known")

            def join(values: Sequence[Expr]) -> None:
                if self.node.init is not None:
                    accumulate(into, self.order, state, values)
                    return
                with into.when(known):
                    accumulate(into, self.order, state, values)
                with into.otherwise(known):
                    assign(into, (*state, known), (*values, TRUE))

            with into.loop("w", 0, warp) as w:
                join(get(into, warp_totals, w))
            with into.when(at.less(0, lane)):
                join(left)
            with into.loop("k", begin, end) as k:
                join(sum_of(k))
                put(into, self.carries, self._slot(into, plane, k + 1, column), state)
        tasks = at.select(at.less(1, self.host_parts), self.host_columns, 0)
        return self.kernel("carries", self.builder.scalar(tasks, "carry_blocks"), grid.task, into,
                           "what comes before each part", **grid.launch())  # fmt: skip

    def _initial(self, into: Linearizer, plane: Expr, column: Expr) -> tuple[tuple[Var, ...], Expr]:
        """The value before a column's first step, and whether there is one."""
        if self.node.init is None:
            return declare(into, zeros(self.combine), "state"), at.less(1, 0)
        return declare(into, self.init(into), "state"), TRUE

    def _scan(self) -> Kernel:
        into, grid = self.builder.emitter(), Threads.of(THREADS)
        host = self.host_columns * self.host_parts
        if self.visits is not None:
            host = self.visits.total_host
        units = self.builder.scalar(host, "units")
        unit = into.let(grid.ident, "unit")
        inclusive = self.node.form == "inclusive"
        with into.when(at.less(unit, units)), self._part(into, unit, self.parts) as which:
            others, plane, part = which
            start, stop = tiling.block_range(into, "part", part, self.span, self.n)
            slot = self._slot(into, plane, part, others[-1])
            first_part = at.equal(part, 0)
            begin = into.declare(start, "begin")
            total = declare(into, zeros(self.combine))
            with into.when(first_part):
                if self.node.init is not None:
                    assign(into, total, self.init(into))
                else:
                    with into.when(at.less(start, stop)):
                        assign(into, total, self.element(into, others, start))
                        self.store(into, others, start, total)
                        assign(into, [begin], [start + 1])
            with into.otherwise(first_part):
                assign(into, total, [Load(c, slot) for c in self.carries])

            def one(p: Expr, value: Sequence[Expr]) -> None:
                if not inclusive:
                    self.store(into, others, p, total)
                assign(into, total, apply_combine(into, self.order, total, value))
                if inclusive:
                    self.store(into, others, p, total)

            self._several(into, others, begin, stop, one)
            if not inclusive:
                with into.when(at.equal(part, self.parts - 1)):
                    self.end(into, others, total)
        tasks = self.builder.scalar(at.ceil_div(host, THREADS), "blocks")
        return self.kernel("columns", tasks, grid.task, into, "a thread a column", **grid.launch())
