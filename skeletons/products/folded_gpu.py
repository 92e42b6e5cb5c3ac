"""Folds of a product's rows, inside the GPU kernel that computes the product.

    thread     folds its own columns of a row
    warp       shuffles between the lanes that have columns of the row
    block      one total per warp and row, in shared memory
    blocks     if several blocks share a row, another kernel combines their totals, in order

The grouping of a row's columns depends only on the block's width, which all variants of the kernel
share.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from treadle.dsl.expr import Expr, Index, Var, constant
from treadle.dsl.graph import FoldedMatmul, FoldingMatmul, StoringMatmul

from ..ir import arithmetic as at
from ..ir.kernel import Barrier, Kernel
from ..ir.linearize import Linearizer
from ..lower import tiling, transform
from ..lower.build import Builder
from ..lower.combining import Values, accumulate, declare, fold_partials, get, put, store_group
from ..lower.fold.rows import RowFold
from ..lower.gpu.collectives import is_exact, neutral_of, reduce_warp
from ..lower.gpu.common import Threads

if TYPE_CHECKING:
    from .kernel_gpu import Fetch, Product


class _FoldedLines(RowFold):
    """Base class of the folds inside a product kernel: lines of its space along one axis are
    folded, in parts that different blocks compute; another kernel combines the totals of the
    parts."""

    #: The number of parts of a line.
    parts: Expr

    def __init__(self, builder: Builder, node: FoldingMatmul) -> None:
        super().__init__(builder, node.fold(), node.outer)
        self.product = node
        self.elements = tuple(transform.resolve(node.elements, builder, node.space))
        neutral = neutral_of(node.combine)
        assert neutral is not None
        self.neutral: Values = neutral
        self.lines = tuple(n for axis, n in enumerate(node.space) if axis != node.inner)
        self.count = builder.scalar(at.product(self.lines), "lines")
        self.totals: list[tuple[Var, ...]] = []

    def keep_parts(self, parts: Expr) -> None:
        """Set the number of blocks (host) that share a line."""
        self.parts = self.builder.scalar(parts, "across")
        several = at.select(at.less(1, parts), parts, 0)
        size = at.product((several, *self.lines))
        self.scratch = self.partials(self.builder.scalar(size, "line_partials"))

    def combine_line(self, into: Linearizer, kernel: Product, part: Expr, place: Expr,
                     totals: Iterable[Values], count: Expr) -> None:  # fmt: skip
        """Combine and store the threads' totals for a part of the line at `place` of `count`."""
        found = iter(totals)
        total = declare(into, next(found))
        for other in found:
            accumulate(into, self.combine, total, other)
        line = (*kernel.batch, place)
        where = at.linear(line, self.builder.shape(self.lines))
        where = part * self.count + where
        self.finish_or_keep(into, self._at(line), total, count, self.parts, where)

    def _at(self, line: Sequence[Expr]) -> list[Expr]:
        return [line[min(a, len(line) - 1)] for a in self.product.places]

    def after(self, comment: str) -> Kernel:
        """The kernel that combines the totals of the parts of a line, in order."""
        builder, grid, into = self.builder, Threads.of(256), self.builder.emitter()
        place = into.let(grid.ident, "place")
        with into.when(at.less(place, self.count)):
            line = tiling.coordinates(builder, into, place, self.lines, "i")

            def partial(inside: Linearizer, b: Expr) -> Values:
                return get(inside, self.scratch, b * self.count + place)

            total = fold_partials(into, self.combine, self.parts, partial, is_exact(self.combine))
            count = builder.extent(self.product.space[self.product.inner])
            self.finish(into, self._at(line), total, count)
        tasks = at.select(at.less(1, self.parts), at.ceil_div(self.count, grid.count), 0)
        return self.kernel("lines", tasks, grid.task, into, comment, **grid.launch())


class FoldedRows(_FoldedLines):
    """Folds of the rows of a product; a block has `columns` columns of a row."""

    def __init__(self, builder: Builder, node: FoldedMatmul, columns: int) -> None:
        super().__init__(builder, node)
        self.keep_parts(at.ceil_div(node.n, columns))

    def begin(self, into: Linearizer, rows: int) -> None:
        self.totals = [declare(into, self.neutral) for _ in range(rows)]

    def add(self, into: Linearizer, row: int, values: Sequence[Expr]) -> None:
        accumulate(into, self.combine, self.totals[row], values)

    def end(self, into: Linearizer, kernel: Product) -> None:
        """Combine the totals of all threads of a block."""
        tile, (lanes, warps) = kernel.tile, kernel.sides
        rows = tile.span(0, kernel.type)
        types = [r.type for r in self.combine.results]
        lines = self.builder.shared("row_totals", types, rows * warps)
        place, lane = kernel.within[1], kernel.position[0]
        first = at.equal(place, 0)
        for u, total in enumerate(self.totals):
            reduce_warp(into, self.combine, total, place, lanes, most=lanes)
            with into.when(first):
                line = (lane + kernel.offset(0, u)) * warps
                put(into, lines, line + kernel.warp_across, total)
        into.append(Barrier())
        with into.loop("line", kernel.grid.thread, rows, step=tile.threads) as line:
            i = into.let(kernel.row0 + line, "i")
            with into.when(at.less(i, kernel.m)):
                self.builder.stays_below(i, self.product.m)
                start = into.let(line * warps, "start")
                totals = (get(into, lines, start + w) for w in range(warps))
                self.combine_line(into, kernel, kernel.col_tile, i, totals, kernel.n)


class StoredOperand(_FoldedLines):
    """The operand of a `StoringMatmul`: the first blocks that need a line of the operand store the
    line and fold what their threads load.  The threads that load parts of a line leave their totals
    side by side in shared memory."""

    def __init__(self, builder: Builder, node: StoringMatmul) -> None:
        super().__init__(builder, node)
        self.storing, self.side = node, node.side
        self.array = builder.outputs()[len(node.finish)]
        self.stores: list[Expr] = []

    def begin(self, into: Linearizer, kernel: Product) -> None:
        fetch = kernel.fetches[self.side]
        tile, start, size = (
            (kernel.row_tile, kernel.col0, kernel.n) if self.side
            else (kernel.col_tile, kernel.row0, kernel.m)
        )  # fmt: skip
        first, self.width = at.equal(tile, 0), fetch.count if fetch.operand.along_rows else 1
        own, self.places = list[Expr](), fetch.positions(kernel.grid.thread)
        for line, _ in self.places[: 1 if fetch.in_columns else None]:
            inside = at.less(start + line, size)
            own.append(into.let(at.both(first, inside), "stores"))
        self.stores = own
        self.totals = [declare(into, self.neutral) for _ in range(len(own) * self.width)]

    def add(self, into: Linearizer, share: int, indices: Sequence[Sequence[Expr]],
            values: Sequence[Expr], fetch: Fetch) -> None:  # fmt: skip
        """Store and fold neighbouring elements of a thread's share, at these indices."""
        own = 0 if fetch.in_columns else share
        node, shape = self.storing, self.builder.shape(self.storing.stored_shape)
        wheres = [at.linear([index[a] for a in node.order], shape) for index in indices]
        moving = node.inner if not fetch.operand.along_rows else len(node.batch) + self.side
        with into.when(self.stores[own]):
            if node.order[-1] == moving:
                store_group(into, (self.array,), wheres[0], [(v,) for v in values])
            else:
                for where, value in zip(wheres, values, strict=True):
                    put(into, (self.array,), where, (value,))
            for v, (index, value) in enumerate(zip(indices, values, strict=True)):
                bound: dict[Expr, Expr] = {Index(a): i for a, i in enumerate(index)}
                with into.when_always({**bound, node.kept: value}):
                    total = self.totals[own * self.width + (v if self.width > 1 else 0)]
                    accumulate(into, self.combine, total, into.emit(self.elements, named=True))

    def end(self, into: Linearizer, kernel: Product) -> None:
        """Combine the totals of a block's threads, in shared memory no longer in use."""
        fetch, buffer, node = kernel.fetches[self.side], kernel.halves[self.side], self.product
        span, thread = fetch.span, kernel.grid.thread
        for share in range(len(self.stores)):
            line, number = self.places[share]
            if not fetch.operand.along_rows:
                number = number // fetch.count
            for v in range(self.width):
                total = self.totals[share * self.width + v]
                put(into, (buffer,), fetch.place(line + v, number), total)
        into.append(Barrier())
        tile, start, size, host = (
            (kernel.row_tile, kernel.col0, kernel.n, node.n) if self.side
            else (kernel.col_tile, kernel.row0, kernel.m, node.m)
        )  # fmt: skip
        with into.loop("line", thread, span, step=kernel.tile.threads) as line:
            place = into.let(start + line, "place")
            with into.when(at.both(at.equal(tile, 0), at.less(place, size))):
                self.builder.stays_below(place, host)
                totals = (get(into, (buffer,), fetch.place(line, constant(k)))
                          for k in range(fetch.loaders))  # fmt: skip
                self.combine_line(into, kernel, kernel.part, place, totals, kernel.k)
