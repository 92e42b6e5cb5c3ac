"""The CPU kernel for many small matrix products: sums in registers, nothing packed.

Extents are compile-time constants.  A task computes consecutive products; of each, up to TOGETHER
rows at a time, in vectors along the columns:

    for each column j (vector):
      for k:  r = right[k, j];  sum_u = sum_u + left[i + u, k] · r     for u < TOGETHER
      epilogue, store

Fused producers run where elements are read: those of the left operand once for each vector, those
of the right once for each group of rows.  Additions are in the order of k.
"""

from __future__ import annotations

from treadle.dsl.expr import Var
from treadle.dsl.graph import Matmul
from treadle.dsl.types import int64

from ..ir import arithmetic as at
from ..ir.kernel import Kernel
from ..ir.linearize import Linearizer, zero
from ..lower import tiling
from ..lower.build import Builder, element_cost
from .elements import CpuProduct, small_sizes, sum_type
from .small import MANY, on_cpu, repeated

#: The longest loops along k that are unrolled.
UNROLLED = 8
#: The number of rows computed together, and the cost up to which operands are recomputed.
TOGETHER, CHEAP = 8, 12.0
#: The approximate number of multiply-adds of a task.
TASK = 16_384


def small_kernel(builder: Builder, node: Matmul) -> Kernel | None:
    """The kernel, if the extents of a product are small constants; the number of products is a
    run-time value.  A schedule orders the tiles of integer products and has no effect on floats."""
    sizes = small_sizes(builder, node)
    if sizes is None or not on_cpu(node.left.type, sizes, MANY, repeated(node)):
        return None
    if element_cost((node.left, node.right)) > CHEAP:
        return None
    return _Small(builder, node, *sizes).kernel()


class _Small(CpuProduct):
    def __init__(self, builder: Builder, node: Matmul, m: int, k: int, n: int) -> None:
        super().__init__(builder, node, sum_type(node.left.type))
        self.m, self.n, self.k = m, n, k

    def kernel(self) -> Kernel:
        builder, node = self.builder, self.node
        batches = builder.scalar(at.product(node.batch), "products")
        each = max(TASK // (self.m * self.n * self.k), 1)
        into, task = builder.emitter(), Var("task", int64)
        first, last = tiling.block_range(into, "product", task, each, batches)
        with into.loop("product", first, last) as product:
            self.batch = tiling.coordinates(builder, into, product, node.batch, "batch")
            for row in range(0, self.m, TOGETHER):
                self._rows(into, row, min(row + TOGETHER, self.m))
        return builder.kernel(
            "", at.ceil_div(batches, each), task, tuple(into.out),
            comments=(f"products of {self.m} x {self.k} by {self.k} x {self.n}",),
        )  # fmt: skip

    def _rows(self, into: Linearizer, first: int, last: int) -> None:
        rows = [at.integer(i) for i in range(first, last)]
        with into.loop("j", 0, self.n, "vector") as j:
            self.builder.stays_below(j, self.node.n)
            sums = [into.declare(zero(self.type), "sum") for _ in rows]
            if self.k <= UNROLLED:
                for k in range(self.k):
                    with into.when_always({}):
                        self.terms(into, sums, rows, at.integer(k), j)
            else:
                with into.loop("k", 0, self.k) as inner:
                    self.builder.stays_below(inner, self.node.k)
                    self.terms(into, sums, rows, inner, j)
            for i, total in zip(rows, sums, strict=True):
                self.store(into, i, j, total)
