"""Comparisons of integers that no integer type holds both of: exact, as in NumPy 2."""

from __future__ import annotations

from collections.abc import Sequence

from . import simplify
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
    """What a comparison is where the common type of two integers would not do: beside a literal
    that the other's type does not hold, and of uint64 with signed integers.  Else None."""
    if name not in COMPARISONS:
        return None
    beyond = _beyond(name, operands)
    if beyond is not None:
        return Const(beyond, bool_)
    first, second = operands
    integers = all(e.type.is_integer and not (e.weak and isinstance(e, Const)) for e in operands)
    if integers and promote(first.type, False, second.type, False)[0].is_float:
        return _by_sign(name, first, second)
    return None


def _beyond(name: str, operands: Sequence[Expr]) -> bool | None:
    """What comparing integers with a literal gives that their type does not hold: `x > -1` is true
    of every unsigned x.  None where the literal fits."""
    first, second = operands
    for e, literal, above in ((first, second, "less"), (second, first, "greater")):
        if not (isinstance(literal, Const) and literal.weak and literal.type.is_integer):
            continue
        if e.weak or not e.type.is_integer or e.type.kind == "bool":
            continue
        if int(literal.value) > e.type.highest:
            return name in ("not_equal", above, f"{above}_equal")
        if int(literal.value) < e.type.lowest:
            below = "greater" if above == "less" else "less"
            return name in ("not_equal", below, f"{below}_equal")
    return None


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
