"""The CPU kernels for products of few rows and columns over a long inner axis, such as `X.T @ X`
for many observations of a few variables.

The numbers of rows and columns are compile-time constants, the inner extent is a run-time value.  A
task computes the product over a block of the inner axis, some rows at a time, in vectors along the
columns:

    for each column j (vector):
      for k:  r = right[k, j];  sum_u = sum_u + left[i + u, k] · r     for u < together
      partial[block, i + u, j] = sum_u

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
from .small import is_tall

#: Candidates for the number of rows computed together: the first that divides the number of rows,
#: or else the first.  Their sums take two registers each, besides the loaded operands.
TOGETHER = 6, 5, 4, 7
#: The approximate size of both operands of a block in bytes: they stay in a core's L2 cache.
BLOCK = 1 << 18


def tall_kernels(builder: Builder, node: Matmul) -> Lowered | None:
    """The kernels, if the numbers of rows and columns are small constants."""
    m, n = (builder.extent(e) for e in (node.m, node.n))
    if not (isinstance(m, Const) and isinstance(n, Const)):
        return None
    if node.batch or not is_tall(node.left.type, int(m.value), int(n.value)):
        return None
    return _Tall(builder, node, int(m.value), int(n.value)).lower()


class _Tall(CpuProduct):
    def __init__(self, builder: Builder, node: Matmul, m: int, n: int) -> None:
        super().__init__(builder, node, sum_type(node.left.type))
        self.m, self.n = m, n
        height = BLOCK // ((m + n) * node.left.type.bytes)
        self.height = 1 << (height.bit_length() - 1)
        self.blocks = at.ceil_div(node.k, self.height)
        (self.partial,) = builder.scratch(
            "partial", [self.type], builder.scalar(self.blocks * (m * n), "partials")
        )

    def lower(self) -> Lowered:
        return self.builder.lowered(self._parts(), self._whole())

    def _parts(self) -> Kernel:
        """The kernel whose tasks compute the product over a block of the inner axis."""
        into, task = self.builder.emitter(), Var("task", int64)
        block = tiling.block_range(
            into, "k", task, self.height, self.builder.scalar(self.node.k, "k_extent")
        )
        together = next((d for d in TOGETHER if self.m % d == 0), TOGETHER[0])
        looped = self.m - self.m % together
        if looped > together:
            with into.loop("i", 0, looped, step=together) as i:
                self._rows(into, task, block, i, together)
        for first in range(0 if looped <= together else looped, self.m, together):
            self._rows(into, task, block, at.integer(first), min(together, self.m - first))
        return self.builder.kernel(
            "blocks", self.builder.scalar(self.blocks, "blocks"), task, tuple(into.out),
            comments=(f"blocks of {self.height} elements of the inner axis",),
        )  # fmt: skip

    def _rows(
        self, into: Linearizer, task: Expr, block: tuple[Expr, Expr], first: Expr, count: int
    ) -> None:
        rows = [into.let(first + u, "row") for u in range(count)]
        for row in rows:
            self.builder.stays_below(row, self.node.m)
        with into.loop("j", 0, self.n, "vector") as j:
            self.builder.stays_below(j, self.node.n)
            sums = [into.declare(zero(self.type), "sum") for _ in rows]
            with into.loop("k", *block) as k:
                self.builder.stays_below(k, self.node.k)
                self.terms(into, sums, rows, k, j)
            for i, total in zip(rows, sums, strict=True):
                where = at.linear((task, i, j), (1, self.m, self.n))
                into.append(Store(self.partial, where, total))

    def _whole(self) -> Kernel:
        """The kernel whose tasks add a row of the product from its blocks."""
        into, row = self.builder.emitter(), Var("row", int64)
        self.builder.stays_below(row, self.node.m)
        blocks = self.builder.scalar(self.blocks, "blocks")
        with into.loop("j", 0, self.n, "vector") as j:
            self.builder.stays_below(j, self.node.n)
            total = into.declare(zero(self.type), "total")
            with into.loop("block", 0, blocks) as block:
                part = Load(self.partial, at.linear((block, row, j), (1, self.m, self.n)))
                into.append(Assign(total, Apply(primitive("add"), (total, part), self.type)))
            self.store(into, row, j, total)
        return self.builder.kernel(
            "sums", at.integer(self.m), row, tuple(into.out), comments=("sums of blocks",),
            light=True,
        )  # fmt: skip
