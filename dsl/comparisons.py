"""Exact comparisons of integers without a common integer type, as in NumPy 2."""

from __future__ import annotations

from collections.abc import Sequence

from . import simplify
from .analysis.bounds import bounds, whole, wraps
from .expr import Const, Expr
from .primitives import TABLE
from .types import bool_, promote, uint64

COMPARISONS = frozenset(
    ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")
)  # fmt: skip
#: The comparison with exchanged operands.
_MIRRORED = {"less": "greater", "less_equal": "greater_equal", "greater": "less",
             "greater_equal": "less_equal"}  # fmt: skip


def exact_comparison(name: str, operands: Sequence[Expr]) -> Expr | None:
    """An exact comparison of two integers whose common type cannot represent both: a Python integer
    that may not fit in the other type, or uint64 with a signed type.  None for other operands."""
    if name not in COMPARISONS:
        return None
    first, second = operands
    if not (first.type.is_integer and second.type.is_integer):
        return None
    if promote(first.type, False, second.type, False)[0].is_float:
        return _by_sign(name, first, second)
    if second.weak and not first.weak:
        return _with_number(name, first, simplify.cast(second, second.type))
    if first.weak and not second.weak:
        return _with_number(_MIRRORED.get(name, name), second, simplify.cast(first, first.type))
    return None


def _with_number(name: str, e: Expr, number: Expr) -> Expr | None:
    """Compare with an integer that may not fit in the type of `e`: clamp it to that type's range;
    if it was out of range, the result is constant.  None if it always fits."""
    least, most = bounds(number)
    if not wraps((least, most), e.type):
        return None
    low, high = (Const(limit, number.type) for limit in whole(e.type))
    above = simplify.apply(TABLE["greater"], (number, high), bool_)
    below = simplify.apply(TABLE["less"], (number, low), bool_)
    nearest = simplify.apply(TABLE["maximum"], (number, low), number.type)
    nearest = simplify.apply(TABLE["minimum"], (nearest, high), number.type)
    found = simplify.apply(TABLE[name], (e, simplify.cast(nearest, e.type)), bool_)
    for beyond, decides in ((above, ("less", "greater_equal")), (below, ("greater", "less_equal"))):
        if name in (decides[0], "not_equal"):
            found = simplify.apply(TABLE["logical_or"], (found, beyond), bool_)
        elif name in (decides[1], "equal"):
            inside = simplify.apply(TABLE["logical_not"], (beyond,), bool_)
            found = simplify.apply(TABLE["logical_and"], (found, inside), bool_)
    return found


def _by_sign(name: str, first: Expr, second: Expr) -> Expr:
    """Compare signed integers with uint64: negative ones are less; the others fit in uint64."""
    if not first.type.signed:
        return _by_sign(_MIRRORED.get(name, name), second, first)
    below = simplify.apply(TABLE["less"], (first, Const(0, first.type)), bool_)
    whole = tuple(simplify.cast(e, uint64) for e in (first, second))
    compared = simplify.apply(TABLE[name], whole, bool_)
    if name in ("less", "less_equal", "not_equal"):
        return simplify.apply(TABLE["logical_or"], (below, compared), bool_)
    inside = simplify.apply(TABLE["logical_not"], (below,), bool_)
    return simplify.apply(TABLE["logical_and"], (inside, compared), bool_)
