"""Integer and logical expressions, simplified as they are built.

The skeletons use these functions for bounds, block indices and linear positions.  All values are
int64; Python ints are constants.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from treadle.dsl import simplify
from treadle.dsl.expr import FALSE, TRUE, Cond, Const, Expr, Proj, constant, primitive
from treadle.dsl.simplify import (
    Int as Int,
    add as add,
    floor_divide as floor_divide,
    integer as integer,
    multiply as multiply,
    remainder as remainder,
    subtract as subtract,
)
from treadle.dsl.types import bool_


def minimum(a: Int, b: Int) -> Expr:
    return simplify.of_integers("minimum", a, b)


def maximum(a: Int, b: Int) -> Expr:
    return simplify.of_integers("maximum", a, b)


def ceil_div(a: Int, b: Int) -> Expr:
    """`a / b` rounded up, for a ≥ 0 and b ≥ 1.

    >>> ceil_div(65, 32).value
    np.int64(3)
    """
    return floor_divide(add(a, subtract(b, 1)), b)


def product(extents: Iterable[Int]) -> Expr:
    """The number of elements of a shape; 1 for rank 0."""
    total: Expr = constant(1)
    for extent in extents:
        total = multiply(total, extent)
    return total


def _compare(name: str, a: Int, b: Int) -> Expr:
    return simplify.apply(primitive(name), (integer(a), integer(b)), bool_)


def less(a: Int, b: Int) -> Expr:
    return _compare("less", a, b)


def less_equal(a: Int, b: Int) -> Expr:
    return _compare("less_equal", a, b)


def equal(a: Int, b: Int) -> Expr:
    return _compare("equal", a, b)


def both(*conditions: Expr) -> Expr:
    """The conjunction; TRUE for no operands."""
    total: Expr = TRUE
    for condition in conditions:
        total = simplify.apply(primitive("logical_and"), (total, condition), bool_)
    return total


def either(*conditions: Expr) -> Expr:
    """The disjunction; FALSE for no operands."""
    total: Expr = FALSE
    for condition in conditions:
        total = simplify.apply(primitive("logical_or"), (total, condition), bool_)
    return total


def negate(condition: Expr) -> Expr:
    return simplify.apply(primitive("logical_not"), (condition,), bool_)


def select(condition: Expr, a: Int, b: Int) -> Expr:
    return simplify.select(condition, integer(a), integer(b))


def choose(condition: Expr, values: Sequence[Expr], others: Sequence[Expr]) -> tuple[Expr, ...]:
    """`values` if the condition holds, else `others`; only the chosen ones are evaluated."""
    made = Cond(condition, tuple(values), tuple(others))
    return tuple(Proj(made, k) for k in range(len(values)))


def in_range(index: Int, extent: Int) -> Expr:
    """0 ≤ index < extent."""
    return both(less_equal(0, index), less(index, extent))


def row_major(index: Expr, extents: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The coordinates of a linear id, last axis fastest.

    >>> [int(c.value) for c in row_major(constant(7), (constant(2), constant(5)))]
    [1, 2]
    """
    found: list[Expr] = []
    for extent in extents[:0:-1]:
        found.append(remainder(index, extent))
        index = floor_divide(index, extent)
    return (*((index,) if extents else ()), *found[::-1])


def linear(coordinates: Iterable[Int], extents: Iterable[Int]) -> Expr:
    """The row-major position of coordinates: the inverse of `row_major`."""
    position: Expr | None = None
    for at, extent in zip(coordinates, extents, strict=True):
        position = integer(at) if position is None else add(multiply(position, extent), at)
    return integer(0) if position is None else position


def is_constant(e: Expr, value: int) -> bool:
    return isinstance(e, Const) and not e.type.is_inexact and int(e.value) == value
