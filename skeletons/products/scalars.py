"""The scalar arithmetic of products on a GPU: the type of sums, and how a term is added."""

from __future__ import annotations

from treadle.dsl.expr import Apply, Expr, primitive
from treadle.dsl.types import ScalarType, float32, int32, uint32


def sum_type(t: ScalarType) -> ScalarType:
    """The accumulator type for products of `t`."""
    if t.is_narrow:
        return float32
    if t.family == "bool":
        return uint32
    return t if t.is_inexact or t.bits >= 32 else int32 if t.signed else uint32


def add_product(t: ScalarType, total: Expr, a: Expr, b: Expr) -> Expr:
    """`total + a · b` for operands of type `t`, all three of `sum_type(t)`: floats with one
    rounding, bool as or-of-ands."""
    of = sum_type(t)
    if t.family == "bool":
        both = Apply(primitive("bitwise_and"), (a, b), of)
        return Apply(primitive("bitwise_or"), (total, both), of)
    if of.is_float:
        return Apply(primitive("fma"), (a, b, total), of)
    return Apply(primitive("add"), (total, Apply(primitive("multiply"), (a, b), of)), of)
