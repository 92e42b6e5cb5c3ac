"""Built-in combining functions, and how to recognise them: sums, extremes, `argmin`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from .. import simplify
from ..expr import FALSE, TRUE, Apply, Const, Expr, Var, substitute, walk
from ..graph import Combine, canonical_combine
from ..graphs.interning import cached_per_object
from ..primitives import TABLE
from ..scalar import apply_primitive
from ..types import ScalarType, int64

#: Shorter rows are folded sequentially, from left to right: many rows in parallel (in vector lanes
#: or GPU threads), or each as a loop inside the kernel that reads it.
SHORT_ROW = 64


def _identity(op: str, t: ScalarType) -> Const | None:
    if t.family == "bool":
        return {"logical_and": TRUE, "logical_or": FALSE, "logical_xor": FALSE}.get(op)
    if op == "add":
        return Const(-0.0 if t.is_inexact else 0, t) if not t.is_complex else (
            Const(complex(-0.0, -0.0), t))  # fmt: skip
    if op == "multiply":
        return None if t.is_complex else Const(1, t)  # (1 + 0i)·∞ is NaN
    if op in ("minimum", "maximum"):
        return Const(t.highest if op == "minimum" else t.lowest, t)
    if op in ("fmin", "fmax"):
        return Const(float("nan"), t) if t.is_float else None
    if op == "bitwise_and":
        return Const(-1 if t.signed else t.highest, t)
    if op in ("bitwise_or", "bitwise_xor"):
        return Const(0, t)
    return None


def identities(combine: Combine) -> tuple[Const, ...] | None:
    """The identities of a combination of built-in primitives; None if any is unknown.

    They are neutral in every bit: −0.0 for sums, NaN for fmin.
    """
    if not is_commutative(combine):
        return None
    found = []
    for result in combine.results:
        assert isinstance(result, Apply)
        neutral = _identity(result.op.name, result.type)
        if neutral is None:
            return None
        found.append(neutral)
    return tuple(found)


def _elements(*types: ScalarType) -> tuple[Var, ...]:
    """The variables of one operand, one per component."""
    return tuple(Var("element", t) for t in types)


def simple_combine(name: str, type_: ScalarType) -> Combine:
    """`left op right` for a primitive that is associative and commutative."""
    left, right = _elements(type_), _elements(type_)
    return canonical_combine(left, right, (apply_primitive(name, [left[0], right[0]]),))


@lru_cache(maxsize=64)
def argument_combine(type_: ScalarType, better: str) -> Combine:
    """Combine (value, index) pairs: take the pair whose value is better ("less" or "greater"); NaN
    is best of all; of equal values take the lower index.  Commutative."""
    left, right = _elements(type_, int64), _elements(type_, int64)
    (x, i), (y, j) = left, right
    take = apply_primitive(better, [y, x])
    same = apply_primitive("equal", [x, y])
    if type_.is_inexact:
        x_nan, y_nan = (apply_primitive("isnan", [e]) for e in (x, y))
        only = apply_primitive("logical_and", [y_nan, apply_primitive("logical_not", [x_nan])])
        take = apply_primitive("logical_or", [take, only])
        both = apply_primitive("logical_and", [x_nan, y_nan])
        same = apply_primitive("logical_or", [same, both])
    earlier = apply_primitive("logical_and", [same, apply_primitive("less", [j, i])])
    take = apply_primitive("logical_or", [take, earlier])
    return canonical_combine(
        left, right, (simplify.select(take, y, x), simplify.select(take, j, i))
    )


def argument_ahead(combine: Combine) -> Combine | None:
    """An `argument_combine` for right indices that are always greater: ties need no test."""
    better = argument_of(combine)
    if better is None:
        return None
    type_ = combine.results[0].type
    left, right = _elements(type_, int64), _elements(type_, int64)
    take = argument_passes(better, left[0], right[0])
    chosen = (simplify.select(take, y, x) for x, y in zip(left, right, strict=True))
    return canonical_combine(left, right, tuple(chosen))


def argument_passes(better: str, x: Expr, y: Expr) -> Expr:
    """Whether `y`, with the later index, replaces `x`: it is better, or the first NaN."""
    if not x.type.is_inexact:
        return apply_primitive(better, [y, x])
    no_better = {"greater": "less_equal", "less": "greater_equal"}[better]
    passes = apply_primitive("logical_not", [apply_primitive(no_better, [y, x])])
    number = apply_primitive("logical_not", [apply_primitive("isnan", [x])])
    return apply_primitive("logical_and", [passes, number])


def argument_of(combine: Combine) -> str | None:
    """ "less" or "greater" if `combine` is that `argument_combine`, else None."""
    types = [r.type for r in combine.results]
    if len(types) != 2 or types[1] != int64 or types[0].is_complex:
        return None
    for better in ("less", "greater"):
        if argument_combine(types[0], better).results == combine.results:
            return better
    return None


def over_any_keys(combine: Combine) -> Combine:
    """The same function for a program's own pairs, in a form that `argument_of` does not recognise:
    their keys need be neither distinct nor in the order of the elements."""
    keys = [
        combine.results[group[1]]
        for group, part in independent_parts(combine)
        if argument_of(part) is not None
    ]
    swapped: dict[Expr, Expr] = {
        e: Apply(TABLE["greater"], e.args[::-1], e.type)
        for e in walk(keys)
        if isinstance(e, Apply) and e.op.name == "less" and e.args[0].type == int64
    }
    if not swapped:
        return combine
    results = substitute(combine.results, swapped)
    return canonical_combine(combine.left, combine.right, results)


@cached_per_object(1)
def independent_parts(combine: Combine) -> tuple[tuple[tuple[int, ...], Combine], ...]:
    """The independent combinations inside `combine`, each with the numbers of its components.

    For `sum` and `argmin` of one array, folded together: (0,) the sum, (1, 2) value and index.
    """
    number = {v: k for side in (combine.left, combine.right) for k, v in enumerate(side)}
    groups: list[set[int]] = []
    for k, result in enumerate(combine.results):
        mine = {k} | {number[e] for e in walk((result,)) if e in number}
        touching = [g for g in groups if g & mine]
        groups = [g for g in groups if not g & mine] + [mine.union(*touching)]

    def some(of: Sequence[Any], group: Sequence[int]) -> tuple[Any, ...]:
        return tuple(of[k] for k in group)

    return tuple(
        (group, canonical_combine(*(some(side, group) for side in (
            combine.left, combine.right, combine.results))))
        for group in sorted(tuple(sorted(g)) for g in groups)
    )  # fmt: skip


def is_commutative(combine: Combine) -> bool:
    """Whether each component combines only its own operands, by a commutative primitive."""
    for left, right, result in zip(combine.left, combine.right, combine.results, strict=True):
        if not (isinstance(result, Apply) and result.op.reduces and len(result.args) == 2):
            return False
        if {result.args[0], result.args[1]} != {left, right}:
            return False
    return True


def called(combine: Combine) -> str:
    """The name of a combining function: `add`, `argmin`, or "a function of yours"."""
    better = argument_of(combine)
    if better is not None:
        return {"less": "argmin", "greater": "argmax"}[better]
    return " and ".join(dict.fromkeys(ways(combine)))


def ways(combine: Combine) -> list[str]:
    """The names of the primitives that combine each component."""
    operands = {*combine.left, *combine.right}
    found = [
        r.op.name if isinstance(r, Apply) and set(r.args) <= operands else ""
        for r in combine.results
    ]
    return found if all(found) else ["a function of yours"] * len(found)
