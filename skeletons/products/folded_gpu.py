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

from treadle.dsl.expr import Expr, Var
from treadle.dsl.graph import FoldedMatmul

from ..ir import arithmetic as at
from ..ir.kernel import Barrier, Kernel
from ..ir.linearize import Linearizer
from ..lower import tiling, transform
from ..lower.build import Builder
from ..lower.combining import Values, accumulate, declare, fold_partials, get, put
from ..lower.fold.rows import RowFold
from ..lower.gpu.collectives import is_exact, neutral_of, reduce_warp
from ..lower.gpu.common import Threads

if TYPE_CHECKING:
    from .kernel_gpu import Product


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
