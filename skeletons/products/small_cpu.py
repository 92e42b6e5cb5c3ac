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

from collections.abc import Sequence

from treadle.dsl import simplify
from treadle.dsl.expr import Const, Expr, Index, Var
from treadle.dsl.graph import Matmul
from treadle.dsl.types import ScalarType, int64

from ..ir import arithmetic as at
from ..ir.kernel import Assign, Kernel, Store
from ..ir.linearize import Linearizer, zero
from ..lower import tiling, transform
from ..lower.build import Builder, element_cost
from .scalars import add_product, sum_type
from .small import MANY, on_cpu

#: The longest loops along k that are unrolled.
UNROLLED = 8
#: Rows that are computed together, and operands that cost too much to be computed more than once.
TOGETHER, CHEAP = 8, 12.0
#: Multiply-adds of a task, about.
TASK = 16_384


def small_kernel(builder: Builder, node: Matmul) -> Kernel | None:
    """The kernel, if the extents of a product are small constants; the number of products is a
    run-time value.  A schedule orders the tiles of integers; of floats it changes nothing."""
    sizes = [builder.extent(e) for e in (node.m, node.k, node.n)]
    ordered = tiling.schedule_of(builder) is not None and not node.left.type.is_inexact
    if ordered or not all(isinstance(s, Const) for s in sizes):
        return None
    m, k, n = (int(s.value) for s in sizes if isinstance(s, Const))
    if not on_cpu(node.left.type, (m, k, n), MANY) or element_cost((node.left, node.right)) > CHEAP:
        return None
    return _Small(builder, node, m, n, k).kernel()


class _Small:
    def __init__(self, builder: Builder, node: Matmul, m: int, n: int, k: int) -> None:
        self.builder, self.node, self.m, self.n, self.k = builder, node, m, n, k
        batch = node.batch
        self.outs = builder.outputs()
        (self.left,) = transform.resolve((node.left,), builder, (*batch, node.m, node.k))
        (self.right,) = transform.resolve((node.right,), builder, (*batch, node.k, node.n))
        self.epilogue = transform.resolve(node.epilogue, builder, (*batch, node.m, node.n))
        self.of: ScalarType = node.left.type
        self.type = sum_type(self.of)

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
        """The rows first … last − 1 of a product."""
        rows = [at.integer(i) for i in range(first, last)]
        with into.loop("j", 0, self.n, "vector") as j:
            self.builder.stays_below(j, self.node.n)
            sums = [into.declare(zero(self.type), "sum") for _ in rows]
            if self.k <= UNROLLED:
                for k in range(self.k):
                    with into.when_always({}):
                        self._terms(into, sums, rows, at.integer(k), j)
            else:
                with into.loop("k", 0, self.k) as inner:
                    self.builder.stays_below(inner, self.node.k)
                    self._terms(into, sums, rows, inner, j)
            for i, total in zip(rows, sums, strict=True):
                self._store(into, i, j, total)

    def _terms(self, into: Linearizer, sums: Sequence[Var], rows: Sequence[Expr], k: Expr, j: Expr
               ) -> None:  # fmt: skip
        """The terms of one k."""
        right = self._element(into, self.right, (k, j))
        for i, total in zip(rows, sums, strict=True):
            left = self._element(into, self.left, (i, k))
            into.append(Assign(total, add_product(self.of, total, left, right)))

    def _element(self, into: Linearizer, root: Expr, position: Sequence[Expr]) -> Expr:
        bindings: dict[Expr, Expr] = {
            Index(a): i for a, i in enumerate((*self.batch, *position))
        }  # fmt: skip
        with into.when_always(bindings):
            value = simplify.cast(into.value(root), self.type)
            return into.let(value, "x")

    def _store(self, into: Linearizer, i: Expr, j: Expr, total: Expr) -> None:
        extents = self.builder.shape((*self.node.batch, self.node.m, self.node.n))
        result = into.let(simplify.cast(total, self.node.result.type), "result")
        position = (*self.batch, i, j)
        bindings: dict[Expr, Expr] = {Index(a): p for a, p in enumerate(position)}
        with into.when_always({**bindings, self.node.result: result}):
            values = into.emit(self.epilogue)
            where = at.linear(position, extents)
            into.append(*(Store(b, where, v) for b, v in zip(self.outs, values, strict=True)))
