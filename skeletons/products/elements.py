"""Shared by the CPU and GPU kernels of products: operand elements and results by index, constant
extents, the accumulator type, adding a term, and separating a product from its epilogue."""

from __future__ import annotations

from collections.abc import Sequence

from treadle.dsl import simplify
from treadle.dsl.expr import Apply, Const, Expr, Index, Read, Var, primitive, rewrite
from treadle.dsl.graph import Generate, Matmul
from treadle.dsl.types import ScalarType, float32, int32, uint32

from ..ir import arithmetic as at
from ..ir.kernel import Assign
from ..ir.linearize import Linearizer
from ..lower import tiling, transform
from ..lower.build import Builder
from ..lower.combining import put


def small_sizes(builder: Builder, node: Matmul) -> tuple[int, int, int] | None:
    """The extents m, k and n, if constant and without a schedule of tiles (floats have none)."""
    sizes = [builder.extent(e) for e in (node.m, node.k, node.n)]
    ordered = tiling.schedule_of(builder) is not None and not node.left.type.is_inexact
    if ordered or not all(isinstance(s, Const) for s in sizes):
        return None
    m, k, n = (int(s.value) for s in sizes if isinstance(s, Const))
    return m, k, n


def resolved(builder: Builder, node: Matmul) -> tuple[Expr, Expr, tuple[Expr, ...]]:
    """The element expressions of both operands, and the epilogue, with boundaries resolved."""
    batch = node.batch
    (left,) = transform.resolve((node.left,), builder, (*batch, node.m, node.k))
    (right,) = transform.resolve((node.right,), builder, (*batch, node.k, node.n))
    return left, right, tuple(transform.resolve(node.epilogue, builder, (*batch, node.m, node.n)))


class CpuProduct:
    """A product with its accumulator type; `batch` is the index along the leading axes."""

    def __init__(self, builder: Builder, node: Matmul, sums: ScalarType) -> None:
        self.builder, self.node, self.type = builder, node, sums
        self.outs = builder.outputs()
        self.left, self.right, self.epilogue = resolved(builder, node)
        self.batch: Sequence[Expr] = ()

    def element(self, into: Linearizer, root: Expr, i: Expr, j: Expr) -> Expr:
        """An element of an operand, converted to the accumulator type."""
        bindings: dict[Expr, Expr] = {Index(a): p for a, p in enumerate((*self.batch, i, j))}
        with into.when_always(bindings):
            return simplify.cast(into.value(root), self.type)

    def terms(self, into: Linearizer, sums: Sequence[Var], rows: Sequence[Expr], k: Expr, j: Expr
              ) -> None:  # fmt: skip
        """Add the terms of one k to the accumulators of some rows and a column."""
        right = into.let(self.element(into, self.right, k, j), "x")
        for i, total in zip(rows, sums, strict=True):
            left = into.let(self.element(into, self.left, i, k), "x")
            into.append(Assign(total, add_product(self.node.left.type, total, left, right)))

    def store(self, into: Linearizer, i: Expr, j: Expr, total: Expr) -> None:
        result = into.let(simplify.cast(total, self.node.result.type), "result")
        position = (*self.batch, i, j)
        bindings: dict[Expr, Expr] = {Index(a): p for a, p in enumerate(position)}
        with into.when_always({**bindings, self.node.result: result}):
            values = into.emit(self.epilogue)
            extents = self.builder.shape((*self.node.batch, self.node.m, self.node.n))
            where = at.linear(position, extents)
            put(into, self.outs, where, values)


def without_epilogue(node: Matmul) -> tuple[Matmul, Generate]:
    """The plain product, and a kernel that applies the epilogue to its result."""
    inner = node.with_(epilogue=(node.result,))
    value = Read(inner, 0, tuple(Index(axis) for axis in range(len(node.batch) + 2)))
    stored = rewrite(node.epilogue, lambda e: value if e is node.result else e)
    shape = (*node.batch, node.m, node.n)
    return inner, Generate(shape, stored, label=node.label, where=node.where)


def sum_type(t: ScalarType) -> ScalarType:
    """The accumulator type for products of `t`."""
    if t.is_narrow:
        return float32
    if t.family == "bool":
        return uint32
    return t if t.is_inexact or t.bits >= 32 else int32 if t.signed else uint32


def add_product(t: ScalarType, total: Expr, a: Expr, b: Expr) -> Expr:
    """`total + a · b`, all of `sum_type(t)`: floats with one rounding, bool as or-of-ands."""
    of = sum_type(t)
    if t.family == "bool":
        both = Apply(primitive("bitwise_and"), (a, b), of)
        return Apply(primitive("bitwise_or"), (total, both), of)
    if of.is_float:
        return Apply(primitive("fma"), (a, b, total), of)
    return Apply(primitive("add"), (total, Apply(primitive("multiply"), (a, b), of)), of)
