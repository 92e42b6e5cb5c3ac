"""The fold of a product's rows in the kernel that computes the product, on a GPU.

    thread     its own columns of a row
    warp       shuffles between the lanes that have columns of the row
    block      a line of shared memory for each row, with a total of each warp beside the others
    blocks     of several side by side another kernel combines the totals, in order

Columns of a row are grouped by the block's width alone, which all forms of the kernel share.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from treadle.dsl.expr import Expr, Index, Var, constant
from treadle.dsl.graph import FoldedMatmul, StoringMatmul

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


class FoldedRows(RowFold):
    """The rows of a product, in blocks of `columns` columns."""

    def __init__(self, builder: Builder, node: FoldedMatmul, columns: int) -> None:
        super().__init__(builder, node.fold(node.elements), node.outer)
        self.product = node
        space = (*node.batch, node.m, node.n)
        self.elements = tuple(transform.resolve(node.elements, builder, space))
        self.types = [r.type for r in node.combine.results]
        neutral = neutral_of(node.combine)
        assert neutral is not None
        self.neutral: Values = neutral
        across = at.ceil_div(node.n, columns)
        self.across = builder.scalar(across, "across")
        self.count = builder.scalar(at.product(space[:-1]), "rows")
        several = at.select(at.less(1, across), across, 0)
        self.scratch = self.partials(builder.scalar(at.product((several, *space[:-1])), "partials"))
        self.totals: list[tuple[Var, ...]] = []

    def begin(self, into: Linearizer, rows: int) -> None:
        """Before the rows of a thread."""
        self.totals = [declare(into, self.neutral) for _ in range(rows)]

    def add(self, into: Linearizer, row: int, values: Sequence[Expr]) -> None:
        """One element of a thread's row."""
        accumulate(into, self.combine, self.totals[row], values)

    def end(self, into: Linearizer, kernel: Product) -> None:
        """Combine the totals of all threads of a block."""
        tile, (lanes, warps) = kernel.tile, kernel.sides
        rows = tile.span(0, kernel.type)
        lines = self.builder.shared("row_totals", self.types, rows * warps)
        place, lane = kernel.within[1], kernel.position[0]
        first = at.equal(place, 0)
        for u, total in enumerate(self.totals):
            reduce_warp(into, self.combine, total, place, lanes, most=lanes)
            with into.when(first):
                line = at.multiply(at.add(lane, kernel.offset(0, u)), warps)
                put(into, lines, at.add(line, kernel.warp_across), total)
        into.append(Barrier())
        with into.loop("line", kernel.grid.thread, rows, step=tile.threads) as line:
            i = into.let(at.add(kernel.row0, line), "i")
            with into.when(at.less(i, kernel.m)):
                self.builder.stays_below(i, self.product.m)
                start = into.let(at.multiply(line, warps), "start")
                total = declare(into, get(into, lines, start))
                for w in range(1, warps):
                    accumulate(into, self.combine, total, get(into, lines, at.add(start, w)))
                row = (*kernel.batch, i)
                where = at.linear(row, self.builder.shape((*self.product.batch, self.product.m)))
                where = at.add(at.multiply(kernel.col_tile, self.count), where)
                self.finish_or_keep(into, self._at(row), total, kernel.n, self.across, where)

    def _at(self, row: Sequence[Expr]) -> list[Expr]:
        """The place of a row among the results."""
        return [row[k] for k in self.product.order]

    def after(self) -> Kernel:
        """Combines the totals of blocks side by side, in order."""
        builder, grid, into = self.builder, Threads.of(256), self.builder.emitter()
        shape = (*self.product.batch, self.product.m)
        place = into.let(grid.ident, "place")
        with into.when(at.less(place, self.count)):
            row = tiling.coordinates(builder, into, place, shape, "i")

            def partial(inside: Linearizer, b: Expr) -> Values:
                return get(inside, self.scratch, at.add(at.multiply(b, self.count), place))

            total = fold_partials(into, self.combine, self.across, partial, is_exact(self.combine))
            self.finish(into, self._at(row), total, builder.extent(self.product.n))
        tasks = at.select(at.less(1, self.across), at.ceil_div(self.count, grid.count), 0)
        return self.kernel("rows", tasks, grid.task, into, "rows of several blocks",
                           **grid.launch())  # fmt: skip


class StoredOperand(RowFold):
    """The operand of a `StoringMatmul`: the first blocks that need a line of it store the line, and
    fold what each thread loads; the threads that load parts of a line leave their totals in shared
    memory, beside each other."""

    def __init__(self, builder: Builder, node: StoringMatmul) -> None:
        storing, _ = node.apart()
        super().__init__(builder, storing.fold(storing.elements), node.outer)
        self.product, self.side = node, node.side
        self.element = tuple(transform.resolve(node.elements, builder, node.space))
        self.array = builder.outputs()[len(node.finish)]
        neutral = neutral_of(node.combine)
        assert neutral is not None
        self.neutral: Values = neutral
        lines = tuple(n for axis, n in enumerate(node.space) if axis != self.inner)
        self.lines, self.count = lines, builder.scalar(at.product(lines), "lines")
        self.totals: list[tuple[Var, ...]] = []
        self.stores: list[Expr] = []

    @property
    def inner(self) -> int:
        """The axis of k in the operand."""
        return len(self.product.batch) + 1 - self.side

    def keep_parts(self, parts: Expr) -> None:
        """Of products whose k is cut into `parts` (host) for several blocks."""
        several = at.select(at.less(1, parts), parts, 0)
        size = at.product((several, *self.lines))
        self.scratch = self.partials(self.builder.scalar(size, "line_partials"))

    def begin(self, into: Linearizer, kernel: Product) -> None:
        """Before the steps along k."""
        fetch = kernel.fetches[self.side]
        tile, start, size = (
            (kernel.row_tile, kernel.col0, kernel.n) if self.side
            else (kernel.col_tile, kernel.row0, kernel.m)
        )  # fmt: skip
        first, self.width = at.equal(tile, 0), fetch.count if fetch.operand.along_rows else 1
        own, self.places = list[Expr](), fetch.positions(kernel.grid.thread)
        for line, _ in self.places[: 1 if fetch.in_columns else None]:
            inside = at.less(at.add(start, line), size)
            own.append(into.let(at.both(first, inside), "stores"))
        self.stores = own
        self.totals = [declare(into, self.neutral) for _ in range(len(own) * self.width)]

    def add(self, into: Linearizer, share: int, indices: Sequence[Sequence[Expr]],
            values: Sequence[Expr], fetch: Fetch) -> None:  # fmt: skip
        """Store and fold neighbouring elements of a thread's share, at these indices."""
        own = 0 if fetch.in_columns else share
        node, shape = self.product, self.builder.shape(self.product.stored_shape)
        wheres = [at.linear([index[a] for a in node.order], shape) for index in indices]
        moving = self.inner if not fetch.operand.along_rows else len(node.batch) + self.side
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
                    accumulate(into, self.combine, total, into.emit(self.element, named=True))

    def end(self, into: Linearizer, kernel: Product) -> None:
        """Combine the totals of the threads of a block, in shared memory that is free again."""
        fetch, buffer, node = kernel.fetches[self.side], kernel.halves[self.side], self.product
        span, thread = fetch.span, kernel.grid.thread
        for share in range(len(self.stores)):
            line, number = self.places[share]
            if not fetch.operand.along_rows:
                number = at.floor_divide(number, fetch.count)
            for v in range(self.width):
                total = self.totals[share * self.width + v]
                put(into, (buffer,), fetch.place(at.add(line, v), number), total)
        into.append(Barrier())
        tile, start, size, host = (
            (kernel.row_tile, kernel.col0, kernel.n, node.n) if self.side
            else (kernel.col_tile, kernel.row0, kernel.m, node.m)
        )  # fmt: skip
        with into.loop("line", thread, span, step=kernel.tile.threads) as line:
            place = into.let(at.add(start, line), "place")
            with into.when(at.both(at.equal(tile, 0), at.less(place, size))):
                self.builder.stays_below(place, host)
                total = declare(into, get(into, (buffer,), fetch.place(line, constant(0))))
                for k in range(1, fetch.loaders):
                    other = get(into, (buffer,), fetch.place(line, constant(k)))
                    accumulate(into, self.combine, total, other)
                lines = (*kernel.batch, place)
                where = at.linear(lines, self.builder.shape(self.lines))
                where = at.add(at.multiply(kernel.part, self.count), where)
                self.finish_or_keep(into, self._at(lines), total, kernel.k, kernel.parts, where)

    def _at(self, line: Sequence[Expr]) -> list[Expr]:
        """The place of a line among the results."""
        return [line[min(a, len(line) - 1)] for a in self.product.places]

    def after(self, parts: Expr) -> Kernel:
        """Combines the totals of the parts of k, in order."""
        builder, grid, into = self.builder, Threads.of(256), self.builder.emitter()
        place = into.let(grid.ident, "place")
        with into.when(at.less(place, self.count)):
            line = tiling.coordinates(builder, into, place, self.lines, "i")

            def partial(inside: Linearizer, b: Expr) -> Values:
                return get(inside, self.scratch, at.add(at.multiply(b, self.count), place))

            total = fold_partials(into, self.combine, parts, partial, is_exact(self.combine))
            self.finish(into, self._at(line), total, builder.extent(self.product.k))
        tasks = at.select(at.less(1, parts), at.ceil_div(self.count, grid.count), 0)
        return self.kernel("lines", tasks, grid.task, into, "parts along k of what is folded",
                           **grid.launch())  # fmt: skip
