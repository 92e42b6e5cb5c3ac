"""The GPU kernel for many small matrix products, without shared memory or barriers.

A thread computes ROWS × COLUMNS of one product; neighbouring threads compute the rest of it, then
the next products.  Extents are compile-time constants, so sums stay in registers:

    product = thread / LANES,  lane = thread % LANES
    for each chunk of k:
      load      ROWS × chunk of the left and chunk × COLUMNS of the right operand (fused producers
                run here; contiguous elements as vectors of up to 16 bytes)
      multiply  sum[r, c] += left[r, k] · right[k, c], in the order of k
    epilogue, stores as vectors

The lanes of a product read the same elements at the same time, so the L1 cache serves all reads of
an element but the first.  The results equal those of `kernel_gpu` bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from treadle.dsl import simplify
from treadle.dsl.expr import TRUE, Expr, Index, Read, walk
from treadle.dsl.graph import Matmul
from treadle.dsl.types import ScalarType

from ..ir import arithmetic as at
from ..ir.kernel import Assign, Buffer, Kernel
from ..ir.linearize import Linearizer, zero
from ..lower import tiling
from ..lower.build import Builder
from ..lower.combining import store_group
from ..lower.gpu import common
from .elements import add_product, sum_type
from .small import tile_for, width

#: Operands that cost more additions than this are not recomputed by every lane that needs them.
CHEAP = 12.0
#: Threads per block.
THREADS = 128


class Side:
    """One operand: its elements, and vectors of them along `moving` (the axis of k or of rows)."""

    def __init__(self, builder: Builder, root: Expr, moving: int, fixed: int) -> None:
        self.root, self.fixed = root, Index(fixed)
        self.moving = Index(moving)
        types = [e.type for e in walk((root,)) if isinstance(e, Read) and e.args]
        self.most = common.vector_count(types) if types else 1
        self.builder = builder

    def group(self, count: int) -> common.Group:
        return common.Group(self.builder, (self.root,), self.moving, count)

    def widest(self, extent: int) -> int:
        count = width(extent, self.most)
        while count > 1 and not self.group(count).streams:
            count //= 2
        return count

    def elements(self, into: Linearizer, group: common.Group, batch: Sequence[Expr], fixed: Expr,
                 first: Expr, kind: ScalarType, inside: Expr = TRUE) -> list[Expr]:  # fmt: skip
        """`group.count` consecutive elements from `first` on, as `kind`; zeros unless `inside`."""
        bindings: dict[Expr, Expr] = {Index(a): p for a, p in enumerate(batch)}
        bindings[self.fixed] = fixed
        declared = [] if inside is TRUE else [
            into.declare(zero(kind), "x") for _ in range(group.count)]  # fmt: skip
        found = list[Expr]()
        with into.when(inside), into.when_always(bindings):
            loaded = group.load(into, first) if group.count > 1 else [{}]
            for v, reads in enumerate(loaded):
                with into.when_always({self.moving: first + v, **reads}):
                    value = simplify.cast(into.value(self.root), kind)
                    if declared:
                        into.append(Assign(declared[v], value))
                    else:
                        found.append(into.let(value, "x"))
        return [*declared] or found


class Results:
    """Stores of the results; `count` consecutive ones of a row are stored together."""

    def __init__(self, builder: Builder, node: Matmul, epilogue: Sequence[Expr], count: int
                 ) -> None:  # fmt: skip
        self.builder, self.node, self.epilogue = builder, node, tuple(epilogue)
        self.outs, self.count, self.rank = builder.outputs(), count, len(node.batch)
        self.group = common.Group(builder, self.epilogue, Index(self.rank + 1), count)

    @property
    def aligned(self) -> list[Buffer]:
        """The buffers that vectors read or write."""
        return [*self.group.aligned, *(self.outs if self.count > 1 else ())]

    def store(self, into: Linearizer, batch: Sequence[Expr], i: Expr, first: Expr,
              sums: Sequence[Expr]) -> None:  # fmt: skip
        """Apply the epilogue to the sums of row `i` from column `first` on, and store them."""
        node = self.node
        self.builder.stays_below(first, node.n)
        bindings: dict[Expr, Expr] = {Index(a): p for a, p in enumerate((*batch, i))}
        values = []
        with into.when_always(bindings):
            loaded = self.group.load(into, first) if self.group.streams else [{} for _ in sums]
            for v, (total, reads) in enumerate(zip(sums, loaded, strict=True)):
                result = into.let(simplify.cast(total, node.result.type), "result")
                j = into.let(first + v, "j")
                self.builder.stays_below(j, node.n)
                with into.when_always({Index(self.rank + 1): j, node.result: result, **reads}):
                    values.append(into.emit(self.epilogue, named=True))
        shape = self.builder.shape((*node.batch, node.m, node.n))
        where = into.let(at.linear((*batch, i, first), shape), "at")
        store_group(into, self.outs, where, values)


class GpuProduct:
    """A kernel of one `Matmul` with constant extents, for any number of products."""

    batch: tuple[Expr, ...]
    results: Results

    def __init__(self, builder: Builder, node: Matmul, left: Side, right: Side,
                 epilogue: Sequence[Expr], m: int, n: int, k: int) -> None:  # fmt: skip
        self.builder, self.node, self.left, self.right = builder, node, left, right
        self.epilogue, self.m, self.n, self.k = tuple(epilogue), m, n, k
        self.type = sum_type(node.left.type)

    def made(self, into: Linearizer, grid: common.Threads, tasks: Expr, comment: str,
             groups: Sequence[common.Group], fallback: Kernel | None, resident: int = 0
             ) -> Kernel:  # fmt: skip
        """The kernel, under the conditions of its wide accesses."""
        requires = [c for g in (*groups, self.results.group) for c in g.requires]
        aligned = [b for g in groups for b in g.aligned] + self.results.aligned
        return self.builder.kernel(
            "", tasks, grid.task, tuple(into.out), comments=(comment,),
            **grid.launch(requires, aligned, fallback, resident),
        )  # fmt: skip


class SmallProducts(GpuProduct):
    """Each thread computes rows and columns of one product."""

    def kernel(self, wide: bool, fallback: Kernel | None) -> Kernel:
        builder, node = self.builder, self.node
        wide_left = self.left.widest(self.k) if wide else 1
        wide_right = self.right.widest(self.n) if wide else 1
        tile = tile_for(self.m, self.n, self.k, node.left.type, wide_left, wide_right)
        self.tile = tile
        self.groups = (self.left.group(tile.left), self.right.group(tile.right))
        widest = max(o.type.bytes for o in node.outputs)
        stored = width(tile.right, common.WIDEST // widest) if wide else 1
        self.results = Results(builder, node, self.epilogue, stored)
        lanes = tile.lanes(self.m, self.n)
        grid = common.Threads.of(THREADS)
        batches = builder.scalar(at.product(node.batch), "products")
        into = builder.emitter()
        ident = into.let(grid.ident, "ident")
        product = into.let(ident // lanes, "product")
        lane = into.let(ident % lanes, "lane")
        with into.when(at.less(product, batches)):
            self.batch = tiling.coordinates(builder, into, product, node.batch, "batch")
            across = self.n // tile.columns
            self.row = into.let(lane // across, "row")
            self.col = into.let(lane % across * tile.right, "col")
            self._product(into)
        tasks = at.ceil_div(batches * lanes, THREADS)
        comment = f"{tile.rows} x {tile.columns} of a product a thread"
        return self.made(into, grid, tasks, comment, self.groups, fallback)

    def _product(self, into: Linearizer) -> None:
        tile = self.tile
        distance = self.m // tile.rows
        rows = [into.let(self.row + r * distance, "i") for r in range(tile.rows)]
        for i in rows:
            self.builder.stays_below(i, self.node.m)
        sums = [[into.declare(zero(self.type), "sum") for _ in range(tile.columns)] for _ in rows]
        with self._chunks(into) as first:
            left = [self._along_k(into, i, first) for i in rows]
            right = [self._row_of_right(into, first + k) for k in range(tile.chunk)]
            for k in range(tile.chunk):
                for r in range(tile.rows):
                    for c in range(tile.columns):
                        made = add_product(self.node.left.type, sums[r][c], left[r][k], right[k][c])
                        into.append(Assign(sums[r][c], made))
        for i, mine in zip(rows, sums, strict=True):
            for c in range(0, tile.columns, self.results.count):
                first = into.let(self._column(c), "j")
                self.results.store(into, self.batch, i, first, mine[c : c + self.results.count])

    def _column(self, c: int) -> Expr:
        """The column of a thread's sum `c`."""
        vector, inside = divmod(c, self.tile.right)
        distance = self.n // self.tile.columns * self.tile.right
        return self.col + (vector * distance + inside)

    @contextmanager
    def _chunks(self, into: Linearizer) -> Iterator[Expr]:
        """The first k of each chunk: a loop, unless there is only one."""
        if self.tile.chunk == self.k:
            with into.when_always({}):
                yield at.integer(0)
        else:
            with into.loop("k", 0, self.k, step=self.tile.chunk) as first:
                yield first

    def _along_k(self, into: Linearizer, i: Expr, first: Expr) -> list[Expr]:
        group, found = self.groups[0], list[Expr]()
        for k in range(0, self.tile.chunk, group.count):
            start = into.let(first + k, "k")
            self.builder.stays_below(start, self.node.k)
            found += self.left.elements(into, group, self.batch, i, start, self.type)
        return found

    def _row_of_right(self, into: Linearizer, k: Expr) -> list[Expr]:
        group, found = self.groups[1], list[Expr]()
        k = into.let(k, "k")
        self.builder.stays_below(k, self.node.k)
        for c in range(0, self.tile.columns, group.count):
            start = into.let(self._column(c), "j")
            self.builder.stays_below(start, self.node.n)
            found += self.right.elements(into, group, self.batch, k, start, self.type)
        return found
