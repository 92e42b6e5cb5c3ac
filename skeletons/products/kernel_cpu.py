"""The CPU kernel for matrix products of types that BLAS does not support.

A task computes ROWS × COLUMNS of the product.  For every DEPTH of the inner axis it packs

    left    ROWS × DEPTH, zero beyond the matrix     (fused producers run here, once per block)
    right   DEPTH × STRIP, strip by strip

and adds their product to a block of accumulators, TOGETHER rows at a time:

    for k:  r = right[k, j];  sum_u = sum_u + left[i + u, k] · r     for u < TOGETHER

Integers wrap exactly, float16 and bfloat16 accumulate in float32, bool is or-of-ands.  Additions
are in the order of k, whether or not operands are fused.  A schedule orders the blocks.
"""

from __future__ import annotations

from treadle.dsl.expr import Apply, Expr, Var, constant, primitive
from treadle.dsl.graph import Matmul
from treadle.dsl.types import ScalarType, float32, int64

from ..ir import arithmetic as at
from ..ir.kernel import Assign, Comment, Load, Lowered, Store
from ..ir.linearize import Linearizer, zero
from ..lower import tiling
from ..lower.build import Builder, LoweringContext
from ..lower.visits import Visits
from .elements import CpuProduct, add_product
from .small_cpu import small_kernel
from .tall_cpu import tall_kernels
from .wide_cpu import wide_kernels

ROWS, COLUMNS, DEPTH, STRIP, TOGETHER = 64, 256, 256, 32, 8


def lower_matmul(node: Matmul, context: LoweringContext) -> Lowered:
    """One kernel (see the module docstring), or those for small extents."""
    builder = Builder(node, context)
    small = small_kernel(builder, node)
    if small is not None:
        return builder.lowered(small)
    few = tall_kernels(builder, node) or wide_kernels(builder, node)
    return few or _Matmul(builder, node).lower()


def accumulator_type(t: ScalarType) -> ScalarType:
    """The accumulator type for products of `t`."""
    return float32 if t.is_narrow else t


class _Matmul(CpuProduct):
    def __init__(self, builder: Builder, node: Matmul) -> None:
        super().__init__(builder, node, accumulator_type(node.left.type))
        self.m, self.n, self.k = (builder.extent(e) for e in (node.m, node.n, node.k))
        (self.lefts,) = builder.local("left", [self.type], ROWS * DEPTH)
        (self.rights,) = builder.local("right", [self.type], DEPTH * STRIP)
        (self.sums,) = builder.local("sum", [self.type], ROWS * COLUMNS)

    def lower(self) -> Lowered:
        node, builder = self.node, self.builder
        down = builder.scalar(at.ceil_div(node.m, ROWS), "down")
        across = builder.scalar(at.ceil_div(node.n, COLUMNS), "across")
        batches = builder.scalar(at.product(node.batch), "batches")
        into, task = builder.emitter(), Var("task", int64)
        tasks = at.product((batches, down, across))
        grid = (*node.batch, at.ceil_div(node.m, ROWS), at.ceil_div(node.n, COLUMNS))
        visits = Visits.of(builder, grid, (*(1 for _ in node.batch), ROWS, COLUMNS))
        if visits is None:
            which, row_block, col_block = at.row_major(task, (batches, down, across))
            self.batch = tiling.coordinates(builder, into, which, node.batch, "batch")
            self._block(into, row_block, col_block)
        else:
            tasks, per_task = visits.tasks(1)
            with visits.each(into, task, per_task) as (*batch, row_block, col_block):
                self.batch = tuple(batch)
                self._block(into, row_block, col_block)
        kernel = builder.kernel(
            "", tasks, task, tuple(into.out),
            comments=(f"blocks of {ROWS} x {COLUMNS}, {TOGETHER} rows together",),
        )  # fmt: skip
        return builder.lowered(kernel)

    def _block(self, into: Linearizer, row_block: Expr, col_block: Expr) -> None:
        rows = tiling.block_range(into, "row", row_block, ROWS, self.m)
        cols = tiling.block_range(into, "col", col_block, COLUMNS, self.n)
        height = at.ceil_div(rows[1] - rows[0], TOGETHER) * TOGETHER
        self.height = into.let(height, "height")
        self._clear(into)
        with into.loop("depth", 0, self.k, step=DEPTH) as depth:
            depth_stop = into.let(at.minimum(depth + DEPTH, self.k), "depth_stop")
            self._pack_left(into, rows, depth, depth_stop)
            with into.loop("strip", *cols, step=STRIP) as strip:
                strip_stop = into.let(at.minimum(strip + STRIP, cols[1]), "strip_stop")
                self._pack_right(into, depth, depth_stop, strip, strip_stop)
                self._multiply(into, depth, depth_stop, strip, strip_stop, cols[0])
        self._finish(into, rows, cols)

    def _clear(self, into: Linearizer) -> None:
        with into.loop("c", 0, self.height * COLUMNS, "vector") as c:
            into.append(Store(self.sums, c, zero(self.type)))

    def _pack_left(self, into: Linearizer, rows: tuple[Expr, Expr], depth: Expr, stop: Expr
                   ) -> None:  # fmt: skip
        """Pack rows of the left operand, with zeros up to a multiple of TOGETHER rows."""
        with into.loop("r", 0, self.height) as r:
            i = into.let(rows[0] + r, "i")
            base = into.let(r * DEPTH, "base")
            inside = at.less(i, rows[1])
            with into.when(inside), into.loop("k", depth, stop, "vector") as k:
                self.builder.stays_below(i, self.node.m)
                self.builder.stays_below(k, self.node.k)
                value = self.element(into, self.left, i, k)
                into.append(Store(self.lefts, base + (k - depth), value))
            with into.otherwise(inside), into.loop("k", depth, stop, "vector") as k:
                where = base + (k - depth)
                into.append(Store(self.lefts, where, zero(self.type)))

    def _pack_right(self, into: Linearizer, depth: Expr, stop: Expr, strip: Expr, strip_stop: Expr
                    ) -> None:  # fmt: skip
        with into.loop("k", depth, stop) as k:
            base = into.let((k - depth) * STRIP, "base")
            with into.loop("j", strip, strip_stop, "vector") as j:
                self.builder.stays_below(k, self.node.k)
                self.builder.stays_below(j, self.node.n)
                value = self.element(into, self.right, k, j)
                into.append(Store(self.rights, base + (j - strip), value))

    def _multiply(self, into: Linearizer, depth: Expr, stop: Expr, strip: Expr, strip_stop: Expr,
                  first: Expr) -> None:  # fmt: skip
        width = strip_stop - strip
        offset = strip - first
        with (
            into.loop("r", 0, self.height, step=TOGETHER) as r,
            into.loop("j", 0, width, "vector") as j,
        ):
            positions = [(r + u) * COLUMNS + offset + j
                      for u in range(TOGETHER)]  # fmt: skip
            sums = [into.declare(Load(self.sums, p), "sum") for p in positions]
            with into.loop("k", 0, stop - depth) as k:
                right = into.let(Load(self.rights, k * STRIP + j), "r")
                for u, total in enumerate(sums):
                    left = Load(self.lefts, (r + u) * DEPTH + k)
                    into.append(Assign(total, self._add_product(total, left, right)))
            into.append(*(Store(self.sums, p, s) for p, s in zip(positions, sums, strict=True)))

    def _add_product(self, total: Expr, left: Expr, right: Expr) -> Expr:
        if self.type.is_float:  # as in the kernel for small products: the same bits
            return add_product(self.type, total, left, right)
        boolean = self.type.family == "bool"
        times, plus = ("logical_and", "logical_or") if boolean else ("multiply", "add")
        both = Apply(primitive(times), (left, right), self.type)
        return Apply(primitive(plus), (total, both), self.type)

    def _finish(self, into: Linearizer, rows: tuple[Expr, Expr], cols: tuple[Expr, Expr]) -> None:
        into.append(Comment("epilogue"))
        with into.loop("i", *rows) as i, into.loop("j", *cols, "vector") as j:
            self.builder.stays_below(i, self.node.m)
            self.builder.stays_below(j, self.node.n)
            row = (i - rows[0]) * constant(COLUMNS)
            total = Load(self.sums, row + (j - cols[0]))
            self.store(into, i, j, total)
