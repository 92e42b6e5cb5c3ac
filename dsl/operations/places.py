"""Arithmetic on extents and places: row-major positions, and what they are made of."""

from __future__ import annotations

from collections.abc import Sequence

from ..expr import Const, Expr, constant
from ..graph import Shape
from ..scalar import apply_primitive


def plus(a: Expr, b: Expr) -> Expr:
    return apply_primitive("add", [a, b])


def minus(a: Expr, b: Expr) -> Expr:
    return apply_primitive("subtract", [a, b])


def times(a: Expr, b: Expr) -> Expr:
    return apply_primitive("multiply", [a, b])


def least(a: Expr, b: Expr) -> Expr:
    return apply_primitive("minimum", [a, b])


def greatest(a: Expr, b: Expr) -> Expr:
    return apply_primitive("maximum", [a, b])


def product(extents: Sequence[Expr]) -> Expr:
    total: Expr = constant(1)
    for e in extents:
        total = times(total, e)
    return total


def linear(place: Sequence[Expr], shape: Shape) -> Expr:
    """Row-major position."""
    at: Expr = constant(0)
    for i, n in zip(place, shape, strict=True):
        at = plus(times(at, n), i)
    return at


def delinear(at: Expr, shape: Shape) -> tuple[Expr, ...]:
    """Row-major coordinates of a position."""
    place: list[Expr] = []
    for n in reversed(shape[1:]):
        if isinstance(n, Const) and int(n.value) == 1:
            place.append(constant(0))
            continue
        place.append(apply_primitive("remainder", [at, n]))
        at = apply_primitive("floor_divide", [at, n])
    return (at, *reversed(place)) if shape else ()
