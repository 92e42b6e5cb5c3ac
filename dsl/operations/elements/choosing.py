"""`where`: a choice by element, of values, tuples or indices; the common type of several choices;
and `ignore`, no index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast as cast_type

import numpy as np

from ... import late_binding as later, simplify
from ...annotations import ChoiceFunction, Element, Operand
from ...array import Array
from ...errors import TracingError
from ...expr import FALSE, TRUE, Cond, Const, Expr, Proj
from ...frontend.refusals import called
from ...frontend.sources import as_array
from ...frontend.tracing import Scope, Scoped, current_scope, reject_escaped
from ...scalar import Scalar, as_index, as_truth, lift, unify
from ...types import ScalarType, children_of, flatten, int64, is_composite, promote
from .lifting import lifted


class Ignore:
    """Returned by an index function of `permute` to drop an element: `td.ignore`."""

    def __repr__(self) -> str:
        return "td.ignore"


ignore = Ignore()


class MaybeIndex(Scoped):
    """An index that may be `td.ignore`, built by where/cond inside an index function."""

    __slots__ = ("index", "valid")

    def __init__(self, valid: Expr, index: tuple[Expr, ...] | None) -> None:
        self.valid, self.index = valid, index
        self.scope = current_scope()

    def needs(self) -> tuple[Expr, ...]:
        return (self.valid, *(self.index or ()))

    def rescoped(self, scope: Scope | None) -> MaybeIndex:
        made = MaybeIndex(self.valid, self.index)
        made.scope = scope
        return made


def as_maybe_index(value: Any) -> MaybeIndex:
    """The target of a permute: an index, a tuple of indices, or `td.ignore`."""
    if isinstance(value, MaybeIndex):
        reject_escaped(value)
        return value
    if isinstance(value, Ignore):
        return MaybeIndex(FALSE, None)
    parts = children_of(value) if is_composite(value) else (value,)
    if any(isinstance(p, Ignore | MaybeIndex) for p in parts):
        raise TracingError(
            "td.ignore is one component of an index.",
            hint="The index is ignored as a whole: td.where(p, (i, j), td.ignore).",
        )
    return MaybeIndex(TRUE, tuple(as_index(p, "the index function of permute") for p in parts))


def choose_index(p: Expr, a: Operand, b: Operand, both: bool) -> MaybeIndex:
    """where/cond on indices, some of which may be `td.ignore`."""
    x, y = as_maybe_index(a), as_maybe_index(b)
    if x.index is not None and y.index is not None and len(x.index) != len(y.index):
        raise TracingError(
            "the two sides give indices of different rank.",
            hint="Both return one index per axis of the defaults, or td.ignore.",
        )
    rank = len(x.index or y.index or ())
    zero = tuple(Const(0, int64) for _ in range(rank))
    left, right = x.index or zero, y.index or zero
    if both:
        valid = simplify.select(p, x.valid, y.valid)
        if x.index is None or y.index is None:  # only used where valid
            return MaybeIndex(valid, x.index or y.index)
        return MaybeIndex(
            valid, tuple(simplify.select(p, u, v) for u, v in zip(left, right, strict=True))
        )
    node = Cond(simplify.in_order(p), (x.valid, *left), (y.valid, *right))
    return MaybeIndex(Proj(node, 0), tuple(Proj(node, k + 1) for k in range(rank)))


def _chooser(function: Callable[[Operand, Element, Element], Element]) -> ChoiceFunction:
    return cast_type(ChoiceFunction, function)


@_chooser
def where(p: Operand, a: Element, b: Element) -> Element:
    """Select `a` where `p` holds, else `b`; both are evaluated; arrays broadcast, also in tuples.

    Parameters
        p: booleans: a scalar or an array.
        a: what is taken where `p` holds: numbers, arrays, tuples.
        b: what is taken elsewhere.

    Result: an array if any operand is one, else a scalar; a tuple for tuples.

    >>> import numpy as np, treadle as td
    >>> td.run(td.where(np.array([True, False]), 1, 2))
    array([1, 2])

    See also `select`, `piecewise`, `choose`.
    """
    if isinstance(a, Ignore | MaybeIndex) or isinstance(b, Ignore | MaybeIndex):
        return choose_index(as_truth(lift(p, "where")), a, b, both=True)
    if is_composite(a) or is_composite(b):
        return _where_tuples(p, a, b)
    if isinstance(a, Array) and isinstance(b, Array) and not a.structure.is_leaf:
        return _where_arrays_of_tuples(p, a, b)
    for side in (a, b):
        if callable(side) and not isinstance(side, ScalarType | Scalar | Array):
            raise TracingError(
                f"where takes values, got {called(side)}.",
                hint="Write td.where(p, a, b) with values: both sides are evaluated.",
            )

    def build(values: list[Expr]) -> Expr:
        sides, weak = unify(values[1:])
        chosen = simplify.select(as_truth(values[0]), sides[0], sides[1])
        return chosen if weak == chosen.weak else simplify.cast(chosen, chosen.type, weak)

    return lifted(build, "where", (p, a, b))


def _where_tuples(p: Operand, a: Element, b: Element) -> Element:
    left, structure = flatten(a, lambda v: False)
    right, other = flatten(b, lambda v: False)
    if not structure.same_nesting(other):
        raise TracingError(
            "the two sides of where have different structure: "
            f"{structure.outline()} against {other.outline()}.",
            hint="Both sides must be tuples of the same nesting.  [1, 2] and np.array((1, 2)) are "
            "arrays.",
        )
    return structure.build([where(p, x, y) for x, y in zip(left, right, strict=True)])


def _where_arrays_of_tuples(p: Any, a: Array, b: Array) -> Array:
    parts = [where(p, x, y) for x, y in zip(later.unzip_flat(a), later.unzip_flat(b), strict=True)]
    return later.zip_like(parts, a.structure)


def of_one_type(values: Sequence[Operand], operation: str) -> list[Any]:
    """Choices in the type of the sum of all of them.  (Chosen pair by pair, they would meet in
    other types: uint64, a boolean and 5 in float64, 3 and 0 in int64.)"""
    typed: list[tuple[int, ScalarType]] = []
    if any(map(is_composite, values)):
        return list(values)
    for k, v in enumerate(values):
        if isinstance(v, Scalar | int | float | complex) and not isinstance(v, np.generic):
            e = lift(v, operation)
            if not e.weak:
                typed.append((k, e.type))
        else:
            array = as_array(v, operation)
            if not array.structure.is_leaf:
                return list(values)
            typed.append((k, array.types[0]))
    found = list(values)
    common: ScalarType | None = None
    for _, own in typed:
        common = own if common is None else promote(common, False, own, False)[0]
    for k, own in typed:
        if common is not None and own != common:
            found[k] = later.cast(values[k], common)
    if common is not None:
        # A number of Python takes the type of what it is added to.
        zero = later.cast(0, common)
        found = [zero + v if type(v) in (int, float, complex) else v for v in found]
    return found
