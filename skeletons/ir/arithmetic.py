"""Integer and logical expressions, simplified as they are built.

The skeletons use these functions for bounds, block indices and linear positions.  All values are
int64; Python ints are constants.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from treadle.dsl import simplify
from treadle.dsl.expr import FALSE, TRUE, Cond, Const, Expr, Proj, constant, primitive
from treadle.dsl.types import bool_, int64

Int = Expr | int


_constants: dict[int, Expr] = {}  # small ones


def integer(value: Int) -> Expr:
    if not isinstance(value, int):
        return value
    found = _constants.get(value)
    if found is None:
        found = constant(value)
        if -64 <= value <= 1024:
            _constants[value] = found
    return found


def _apply(name: str, a: Int, b: Int) -> Expr:
    return simplify.apply(primitive(name), (integer(a), integer(b)), int64)


def _known(a: Int, b: Int) -> tuple[int, int] | None:
    """Both values, if they are constants far from the limits of int64."""
    found = []
    for e in (a, b):
        value = e if isinstance(e, int) else int(e.value) if isinstance(e, Const) else None
        if value is None or not -_SMALL < value < _SMALL:
            return None
        found.append(value)
    return found[0], found[1]


_SMALL = 1 << 31


def add(a: Int, b: Int) -> Expr:
    known = _known(a, b)
    return integer(known[0] + known[1]) if known else _apply("add", a, b)


def subtract(a: Int, b: Int) -> Expr:
    known = _known(a, b)
    return integer(known[0] - known[1]) if known else _apply("subtract", a, b)


def multiply(a: Int, b: Int) -> Expr:
    known = _known(a, b)
    return integer(known[0] * known[1]) if known else _apply("multiply", a, b)


def floor_divide(a: Int, b: Int) -> Expr:
    return _apply("floor_divide", a, b)


def remainder(a: Int, b: Int) -> Expr:
    return _apply("remainder", a, b)


def minimum(a: Int, b: Int) -> Expr:
    return _apply("minimum", a, b)


def maximum(a: Int, b: Int) -> Expr:
    return _apply("maximum", a, b)


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
    """`values` if the condition holds, else `others`; only these are evaluated."""
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
