"""The CPU kernels for products of few rows with a large right operand, such as a layer of a neural
network for a few inputs.

The number of rows is a compile-time constant; the right operand is read once, row by row.  A task
computes the product over a block of the inner axis and a strip of columns whose sums stay in a
core's L1 cache, STEP rows of the right operand at a time:

    for each column j (vector):  sum_u = sum_u + left[u, k] · right[k, j]     for k < STEP, all u

A second kernel adds the blocks in order.  Blocks depend only on extents.
"""

from __future__ import annotations

from treadle.dsl.expr import Apply, Const, Expr, Var, primitive
from treadle.dsl.graph import Matmul
from treadle.dsl.types import int64

from ..ir import arithmetic as at
from ..ir.kernel import Assign, Kernel, Load, Lowered, Store
from ..ir.linearize import Linearizer, zero
from ..lower import tiling
from ..lower.build import Builder
from .elements import CpuProduct, sum_type
from .small import CPU_WIDE

#: Rows of the right operand that are multiplied between loading and storing the sums.
STEP = 8
#: Rows of a block, and bytes of a row of a strip.
HEIGHT, STRIP_BYTES = 1024, 4096


def wide_kernels(builder: Builder, node: Matmul) -> Lowered | None:
    """The kernels, if the number of rows is a small constant."""
    m = builder.extent(node.m)
    if node.batch or not node.left.type.is_float or not isinstance(m, Const):
        return None
    if not 0 < int(m.value) <= CPU_WIDE:
        return None
    made = _Wide(builder, node, int(m.value))
    return builder.lowered(made.parts(), made.whole())


class _Wide(CpuProduct):
    def __init__(self, builder: Builder, node: Matmul, m: int) -> None:
        super().__init__(builder, node, sum_type(node.left.type))
        self.width = STRIP_BYTES // self.type.bytes
        self.rows = [at.integer(u) for u in range(m)]
        blocks = at.ceil_div(node.k, HEIGHT)
        self.k, self.n = builder.scalar(node.k, "k_extent"), builder.scalar(node.n, "n_extent")
        self.blocks = builder.scalar(blocks, "blocks")
        self.strips = builder.scalar(at.ceil_div(node.n, self.width), "strips")
        (self.sums,) = builder.local("sum", [self.type], m * self.width)
        (self.partial,) = builder.scratch(
            "partial", [self.type], builder.scalar(at.product((blocks, m, node.n)), "partials")
        )

    def parts(self) -> Kernel:
        """Tasks: the product over a block of the inner axis, for a strip of columns."""
        into, task = self.builder.emitter(), Var("task", int64)
        block, strip = (
            into.let(e, name)
            for e, name in zip(
                at.row_major(task, (self.blocks, self.strips)), ("block", "strip"), strict=True
            )
        )
        start, stop = tiling.block_range(into, "k", block, HEIGHT, self.k)
        cols = tiling.block_range(into, "col", strip, self.width, self.n)
        with into.loop("step", start, stop, step=STEP) as step:
            end = into.let(at.minimum(step + STEP, stop), "step_stop")
            whole = into.let(at.equal(step + STEP, end), "whole")
            for full, when in ((True, into.when), (False, into.otherwise)):
                with when(whole), into.loop("j", *cols, "vector") as j:
                    self._add(into, at.equal(step, start), step, None if full else end, cols[0], j)
        with into.loop("j", *cols, "vector") as j:
            for row in self.rows:
                where = at.linear((block, row, j), (1, len(self.rows), self.n))
                into.append(
                    Store(self.partial, where, Load(self.sums, self._slot(row, j, cols[0])))
                )
        return self.builder.kernel(
            "blocks", self.blocks * self.strips, task, tuple(into.out),
            comments=(f"blocks of {HEIGHT} elements of the inner axis, {self.width} columns",),
        )  # fmt: skip

    def _slot(self, row: Expr, j: Expr, first: Expr) -> Expr:
        return row * self.width + (j - first)

    def _add(self, into: Linearizer, first: Expr, step: Expr, end: Expr | None, column: Expr,
             j: Expr) -> None:  # fmt: skip
        """Add the terms of a step (STEP rows, or up to `end`) to the sums of a column."""
        self.builder.stays_below(j, self.node.n)
        slots = [into.let(self._slot(row, j, column), "slot") for row in self.rows]
        sums = [into.declare(zero(self.type), "sum") for _ in slots]
        with into.when(at.negate(first)):
            into.append(*(Assign(s, Load(self.sums, p)) for s, p in zip(sums, slots, strict=True)))
        if end is None:
            for u in range(STEP):
                self.terms(into, sums, self.rows, step + u, j)
        else:
            with into.loop("k", step, end) as k:
                self.builder.stays_below(k, self.node.k)
                self.terms(into, sums, self.rows, k, j)
        into.append(*(Store(self.sums, p, s) for p, s in zip(slots, sums, strict=True)))

    def whole(self) -> Kernel:
        """The kernel whose tasks add a strip of a row of the product from its blocks."""
        into, task = self.builder.emitter(), Var("task", int64)
        row, strip = at.row_major(task, (at.integer(len(self.rows)), self.strips))
        row = into.let(row, "row")
        self.builder.stays_below(row, self.node.m)
        cols = tiling.block_range(into, "col", strip, self.width, self.n)
        with into.loop("j", *cols, "vector") as j:
            self.builder.stays_below(j, self.node.n)
            total = into.declare(zero(self.type), "total")
            with into.loop("block", 0, self.blocks) as block:
                part = Load(self.partial, at.linear((block, row, j), (1, len(self.rows), self.n)))
                into.append(Assign(total, Apply(primitive("add"), (total, part), self.type)))
            self.store(into, row, j, total)
        return self.builder.kernel(
            "sums", len(self.rows) * self.strips, task, tuple(into.out),
            comments=("sums of blocks",), light=True,
        )  # fmt: skip
