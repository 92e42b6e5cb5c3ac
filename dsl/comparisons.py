"""Comparisons of integers that no integer type holds both of: exact, as in NumPy 2."""

from __future__ import annotations

from collections.abc import Sequence

from . import simplify
from .bounds import bounds, whole, wraps
from .expr import Const, Expr
from .primitives import TABLE
from .types import bool_, promote, uint64

COMPARISONS = frozenset(
    ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")
)  # fmt: skip
#: What a comparison is called with its sides exchanged.
_MIRRORED = {"less": "greater", "less_equal": "greater_equal", "greater": "less",
             "greater_equal": "less_equal"}  # fmt: skip


def exact_comparison(name: str, operands: Sequence[Expr]) -> Expr | None:
    """What a comparison is where the common type of two integers would not do: beside a Python
    number that the other's type may not hold, and of uint64 with signed integers.  Else None."""
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
    """Integers beside a number that their type may not hold: they are compared with the nearest
    that it holds, and beyond this all are less, or none.  None where it holds the number."""
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
    """Signed integers beside uint64: what is below 0 is less than all, the rest fits in uint64."""
    if not first.type.signed:
        return _by_sign(_MIRRORED.get(name, name), second, first)
    below = simplify.apply(TABLE["less"], (first, Const(0, first.type)), bool_)
    whole = tuple(simplify.cast(e, uint64) for e in (first, second))
    compared = simplify.apply(TABLE[name], whole, bool_)
    if name in ("less", "less_equal", "not_equal"):
        return simplify.apply(TABLE["logical_or"], (below, compared), bool_)
    inside = simplify.apply(TABLE["logical_not"], (below,), bool_)
    return simplify.apply(TABLE["logical_and"], (inside, compared), bool_)
