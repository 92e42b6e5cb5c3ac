"""Folds: `fold`, `fold1` and helpers for reductions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...analysis.combines import simple_combine
from ...analysis.short_extents import SHORT_AXIS, fixed, short_extent
from ...annotations import ArrayLike, AxisLike, Element, Function2
from ...array import Array, map_over
from ...errors import TracingError, user_location
from ...expr import Const, Expr, Index, constant
from ...frontend.sources import as_array
from ...frontend.tracing import forbid_nesting
from ...graph import Check, Fold, Generate, Label, Shape
from ...shapes import require
from ..common import combining, fit_to, normalise_axes, trace_combine

__all__ = ["fold", "fold1"]


def short_axis(array: Array, outer: Shape, inner: Shape,
               operation: str) -> tuple[Shape, tuple[Check, ...]]:  # fmt: skip
    """The inner axes of a fold, as a number where there is one of few elements for each of a plane
    of results or more, such as the coordinates of distances; and the check that it is such."""
    computed = any(isinstance(leaf.node, Generate) for leaf in array._leaves)
    if len(outer) < 2 or len(inner) != 1 or not computed:
        return inner, ()
    size = short_extent(inner[0], SHORT_AXIS)
    if size is None or isinstance(inner[0], Const):
        return inner, ()
    return (constant(size),), fixed(inner[0], size, operation, "an axis")


def split_axes(array: Array, axes: Sequence[int]) -> tuple[Shape, Shape, list[Expr]]:
    """Outer and inner extents, and the index of an element in terms of Index(outer…, inner…)."""
    outer_axes = [k for k in range(array.ndim) if k not in axes]
    index: list[Expr] = [constant(0)] * array.ndim
    for position, k in enumerate([*outer_axes, *axes]):
        index[k] = Index(position)
    outer = tuple(array._shape[k] for k in outer_axes)
    inner = tuple(array._shape[k] for k in axes)
    return outer, inner, index


def with_unit_axis(array: Array) -> tuple[Array, tuple[int, ...]]:
    """Append an axis of extent 1: reducing over no axis (`axis=()`) reduces over it."""
    index = [Index(k) for k in range(array.ndim)]
    made = map_over(array, index, (*array._shape, constant(1)), "expand_dims")
    return made, (array.ndim,)


def folded(outer: Shape, inner: Shape, value: Expr, primitive: str, init: Expr | None, label: Label,
           checks: tuple[Check, ...] = ()) -> Fold:  # fmt: skip
    """The fold of a value by a primitive, at the user's line."""
    start = None if init is None else (init,)
    return Fold(outer, inner, (value,), simple_combine(primitive, value.type), start, label=label,
                where=user_location(), checks=checks)  # fmt: skip


def not_empty(array: Array, axes: Sequence[int], operation: str) -> tuple[Check, ...]:
    checks: tuple[Check, ...] = ()
    for k in axes:
        checks += require(
            array._shape[k],
            constant(1),
            f"{operation} of an empty axis: axis {k} has extent {{left}} and there is no "
            "neutral element.",
            relation=">=",
            hint="td.fold(f, init, a) gives init for an empty axis.",
        )
    return checks


@combining
def fold(f: Function2, init: Element, a: ArrayLike, axis: AxisLike | None = -1) -> Array:
    """Reduce along `axis` (an int, a tuple, or None for all axes) with an associative `f`.

    `f` need not be commutative.  `init` is combined once, on the left; an empty axis gives `init`.

    >>> td.run(td.fold(lambda x, y: x + y, 0, np.array([[1, 2], [3, 4]])))
    array([3, 7])
    """
    return _fold(f, (init,), a, axis, "fold")


@combining
def fold1(f: Function2, a: ArrayLike, axis: AxisLike | None = -1) -> Array:
    """`fold` without an initial value; an empty axis raises a `ShapeError`.

    >>> td.fold1(lambda a, b: 10 * a + b, np.arange(6).reshape(2, 3))
    Array([ 12, 345])
    """
    return _fold(f, (), a, axis, "fold1")


def _fold(
    f: Function2, init: tuple[Any, ...], a: ArrayLike, axis: AxisLike | None, operation: str
) -> Array:
    forbid_nesting(operation)
    where = user_location()
    array = as_array(a, operation)
    if init and not array.ndim and getattr(init[0], "ndim", None):
        raise TracingError(
            f"{operation}: the initial value is an array, and the array a single value.",
            hint="The initial value seems to be missing: fold(f, init, a, axis), or "
            "fold1(f, a, axis) without one.",
        )
    axes = normalise_axes(axis, array.ndim, operation)
    if not axes:
        array, axes = with_unit_axis(array)
    checks = () if init else not_empty(array, axes, operation)
    types = array.types
    start = (
        fit_to(init[0], array.structure, types, "the initial value", operation) if init else None
    )
    combine = trace_combine(f, array.structure, types, operation, where)
    outer, inner, index = split_axes(array, axes)
    node = Fold(
        outer,
        inner,
        tuple(array._element(index)),
        combine,
        start,
        label=Label(operation),
        where=where,
        checks=checks,
    )
    return Array(node.leaves, array.structure, outer)
