"""The GPU kernel for many small products of 16-bit floats on tensor cores, without shared memory.

A warp computes a product, in tiles of 16 rows and 8 columns and steps of 16 along k.  The order of
k, and the assignment of columns to tiles, are free as long as both operands (or the result) use the
same; they are chosen to make a thread's elements contiguous in memory.  Thread 4·g + q, for V = 2
or 4:

    left    rows g and g + 8, k = 4·q … 4·q + 3                 one access for each row
    right   k = 4·q … 4·q + 3, columns V·g … V·g + V − 1        one access for each k; column
            V·g + t belongs to tile t
    result  rows g and g + 8, columns 2·V·q … 2·V·q + 2·V − 1   one access for each row

Elements beyond the matrices are zero and are not stored.
"""

from __future__ import annotations

from collections.abc import Sequence

from treadle.dsl.expr import TRUE, Expr, Var
from treadle.dsl.graph import Matmul
from treadle.dsl.types import float32

from ..ir import arithmetic as at
from ..ir.kernel import Assign, Kernel, WarpProduct
from ..ir.linearize import Linearizer, zero
from ..lower import tiling
from ..lower.build import Builder
from ..lower.gpu import common
from .small import width
from .small_gpu import GpuProduct, Results, Side

#: Rows and columns of a tile, and the elements of k in a step.
ROWS, COLUMNS, DEPTH = 16, 8, 16
#: The most sums of a thread; further rows of tiles are computed afterwards.
SUMS = 64


class TensorProducts(GpuProduct):
    """The kernel of one `Matmul` with these extents."""

    def __init__(self, builder: Builder, node: Matmul, left: Side, right: Side,
                 epilogue: Sequence[Expr], m: int, n: int, k: int) -> None:  # fmt: skip
        super().__init__(builder, node, left, right, epilogue, m, n, k)
        #: Columns loaded at once: as few unused ones as possible, then as many as possible.
        self.vector = min((v for v in (4, 2) if n % v == 0),
                          key=lambda v: (-(-n // (COLUMNS * v)) * COLUMNS * v, -v))  # fmt: skip

    def kernel(self, wide: bool, fallback: Kernel | None) -> Kernel:
        builder, node = self.builder, self.node
        along = min(self.left.widest(self.k), 4) if wide else 1
        across = min(self.right.widest(self.n), self.vector) if wide else 1
        self.groups = (self.left.group(along), self.right.group(across))
        widest = max(o.type.bytes for o in node.outputs)
        stored = min(width(self.n, common.WIDEST // widest), 2 * self.vector) if wide else 1
        self.results = Results(builder, node, self.epilogue, stored)
        grid = common.Threads.of()
        batches = builder.scalar(at.product(node.batch), "products")
        into = builder.emitter()
        number = into.let(grid.ident // common.WARP, "number")
        # All threads of a warp multiply: those beyond the last product repeat it.
        product = into.let(at.minimum(number, batches - 1), "product")
        self.own = into.let(at.less(number, batches), "own")
        lane = into.let(grid.lane, "lane")
        self.g = into.let(lane // 4, "g")
        self.q = into.let(lane % 4, "q")
        self.batch = tiling.coordinates(builder, into, product, node.batch, "batch")
        self._product(into)
        tasks = at.ceil_div(batches * common.WARP, grid.count)
        comment = "a product a warp, on tensor cores"
        return self.made(into, grid, tasks, comment, self.groups, fallback)

    def _product(self, into: Linearizer) -> None:
        tiles = range(0, self.m, ROWS)
        together = max(SUMS // (self._groups() * self.vector * 4), 1)
        for first in range(0, len(tiles), together):
            self._tiles(into, tiles[first : first + together])

    def _groups(self) -> int:
        """The number of column groups that cover a row of the result."""
        return -(-self.n // (COLUMNS * self.vector))

    def _tiles(self, into: Linearizer, tiles: Sequence[Expr | int]) -> None:
        """Compute the tiles of the rows that start at `tiles`."""
        groups = self._groups()
        sums = {
            (r, c): [into.declare(zero(float32), "sum") for _ in range(4)]
            for r in tiles for c in range(groups * self.vector)
        }  # fmt: skip
        for step in range(0, self.k, DEPTH):
            with into.when_always({}):
                self._step(into, sums, tiles, groups, step)
        for r in tiles:
            for half in (0, 8):
                # Column V·e + t of a thread is element e of tile t.
                values = [[sums[r, c * self.vector + t][half // 4 + e]
                           for e in range(2) for t in range(self.vector)]
                          for c in range(groups)]  # fmt: skip
                self._store_row(into, r, half, values)

    def _store_row(self, into: Linearizer, row: Expr | int, half: int,
                   values: Sequence[Sequence[Var]]) -> None:  # fmt: skip
        """Store a thread's elements of a row of the result, for each group of columns."""
        for c, mine in enumerate(values):
            self._store(into, row, half, c * COLUMNS * self.vector, mine)

    def _within(self, row: Expr | int, half: int) -> bool:
        """Whether all rows of half a tile are inside the matrix."""
        return row + half + 8 <= self.m if isinstance(row, int) else self.m % ROWS == 0

    def _step(self, into: Linearizer, sums: dict[tuple[Expr | int, int], list[Var]],
              tiles: Sequence[Expr | int], groups: int, step: int) -> None:  # fmt: skip
        """One step along k: loads, then the products of all tiles."""
        right = [self._rows(into, step, COLUMNS * self.vector * c) for c in range(groups)]
        left = {r: [self._along_k(into, r, half, step) for half in (0, 8)] for r in tiles}
        for r in tiles:
            low, high = left[r]
            a = (*low[:2], *high[:2], *low[2:], *high[2:])
            for c in range(groups):
                for t in range(self.vector):
                    total = sums[r, c * self.vector + t]
                    made = tuple(Var("sums", float32) for _ in range(4))
                    b = tuple(right[c][e][t] for e in range(4))
                    into.append(WarpProduct(made, tuple(total), a, b))
                    into.append(*(Assign(x, y) for x, y in zip(total, made, strict=True)))

    def _along_k(self, into: Linearizer, row: Expr | int, half: int, step: int) -> list[Expr]:
        group, found = self.groups[0], list[Expr]()
        i = self.g + row + half
        inside = TRUE if self._within(row, half) else at.less(i, self.m)
        for e in range(0, 4, group.count):
            k = self.q * 4 + (step + e)
            there = TRUE if step + DEPTH <= self.k else at.less(k, self.k)
            found += self._elements(into, self.left, group, i, self.node.m, k, self.node.k,
                                    at.both(inside, there))  # fmt: skip
        return found

    def _rows(self, into: Linearizer, step: int, column: int) -> list[list[Expr]]:
        """A thread's columns of four rows of the right operand."""
        return [self._row(into, self.q * 4 + (step + e), step + e, column)
                for e in range(4)]  # fmt: skip

    def _row(self, into: Linearizer, k: Expr, first: int, column: int) -> list[Expr]:
        """A thread's columns of a row of the right operand."""
        group, found = self.groups[1], list[Expr]()
        last = first // DEPTH * DEPTH + DEPTH
        inside = TRUE if last <= self.k else at.less(k, self.k)
        for v in range(0, self.vector, group.count):
            j = self.g * self.vector + (column + v)
            there = TRUE if column + COLUMNS * self.vector <= self.n else at.less(j, self.n)
            found += self._elements(into, self.right, group, k, self.node.k, j, self.node.n,
                                    at.both(inside, there))  # fmt: skip
        return found

    def _elements(self, into: Linearizer, side: Side, group: common.Group, fixed: Expr,
                  below: Expr, first: Expr, end: Expr, inside: Expr) -> list[Expr]:  # fmt: skip
        fixed, first = into.let(fixed, "at_row"), into.let(first, "first")
        self.builder.stays_below(fixed, below)
        self.builder.stays_below(first, end)
        kind = side.root.type
        return side.elements(into, group, self.batch, fixed, first, kind, inside)

    def _store(self, into: Linearizer, row: Expr | int, half: int, column: int,
               sums: Sequence[Var]) -> None:  # fmt: skip
        """Store a thread's consecutive elements of a row of the result."""
        i = into.let(self.g + row + half, "i")
        inside = TRUE if self._within(row, half) else at.less(i, self.m)
        complete = column + COLUMNS * self.vector <= self.n
        for v in range(0, len(sums), self.results.count):
            first = self.q * len(sums) + (column + v)
            first = into.let(first, "j")
            there = TRUE if complete else at.less(first, self.n)
            with into.when(at.both(self.own, inside, there)):
                self.builder.stays_below(i, self.node.m)
                self.results.store(into, self.batch, i, first, sums[v : v + self.results.count])
