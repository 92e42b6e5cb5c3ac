"""NumPy's reductions."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import late_binding as later, simplify
from ...annotations import ArrayLike, AxisLike, DTypeLike, Element, ScalarLike, ScheduleLike
from ...array import Array, generated, map_over, require_scalars
from ...errors import DTypeError, TracingError
from ...expr import Const, Expr, Index, Read, constant
from ...frontend.sources import as_array
from ...frontend.tracing import forbid_nesting
from ...graph import Label
from ...primitives import real_part
from ...scalar import Scalar, apply_primitive, as_truth, refuse_traced
from ...types import LEAF, ScalarType, as_type, float32, float64, int64, uint64
from ..common import combining, fit_to, normalise_axes, normalise_axis, operation, require_real
from ..elements.functions import (
    add,
    cast,
    equal,
    greater,
    less,
    maximum,
    not_equal,
    sqrt,
    square,
    subtract,
    where as choose,
)
from ..elements.lifting import elementwise
from ..elements.mapping import imap
from ..indexing.index_space import broadcast_to
from ..indexing.row_major import linear, product
from .folds import fold1, folded, not_empty, short_axis, split_axes, with_unit_axis

__all__ = ["all", "amax", "amin", "any", "argmax", "argmin", "count_nonzero", "max", "mean", "min",
           "prod", "std", "sum", "var"]  # fmt: skip


def reduce(
    array: Array,
    axis: AxisLike | None,
    keepdims: bool,
    operation: str,
    element: Callable[[Expr], Expr],
    primitive: str,
    init: Element | Expr,
    finish: Callable[[Expr], Expr] | None = None,
) -> Array:
    """A reduction by a primitive over converted elements, with NumPy's rules for axes."""
    forbid_nesting(operation)
    require_scalars(array, operation, ", or use td.fold")
    ndim = array.ndim
    axes = kept = normalise_axes(axis, ndim, operation)
    if not axes:
        array, axes = with_unit_axis(array)
    checks = not_empty(array, axes, operation) if init is None else ()
    outer, inner, index = split_axes(array, axes)
    inner, more = short_axis(array, outer, inner, operation)
    value = element(array._element(index)[0])
    start = init if init is None or isinstance(init, Expr) else Const(init, value.type)
    node = folded(outer, inner, value, primitive, start, Label(operation), (*checks, *more))
    result = Array(node.leaves, LEAF, outer)
    if finish is not None:
        ends = tuple(finish(e) for e in result._element([Index(k) for k in range(len(outer))]))
        result = generated(outer, ends, operation)
    return keep_dimensions(result, kept, ndim) if keepdims else result


def keep_dimensions(result: Array, axes: Sequence[int], ndim: int) -> Array:
    """Insert the reduced axes again, with extent 1."""
    shape: list[Expr] = []
    index: list[Expr] = []
    for k in range(ndim):
        if k in axes:
            shape.append(constant(1))
        else:
            shape.append(result._shape[len(index)])
            index.append(Index(k))
    return map_over(result, index, tuple(shape), "keepdims")


def summed_type(t: ScalarType) -> ScalarType:
    """The type of NumPy's sums."""
    if t.family == "bool" or t.family == "int":
        return int64
    return uint64 if t.family == "uint" else t


def _mask(array: Array, where: ArrayLike, operation: str) -> Array:
    """The elements of an array that `where=` chooses."""
    require_scalars(array, operation, ", or use td.fold")
    given = as_array(where, operation)
    if given.types[0].family != "bool":
        raise DTypeError(
            f"{operation}: where= is a mask of booleans, got {given.dtype}.",
            hint="Write where=mask != 0.",
        )
    return broadcast_to(given, array.shape)


def _total(a: ArrayLike, axis: AxisLike | None, keepdims: bool, dtype: DTypeLike | None,
           operation: str, combine: str, init: int, initial: ScalarLike | None,
           where: ArrayLike | None) -> Array:  # fmt: skip
    array = as_array(a, operation)
    t = summed_type(array.types[0]) if dtype is None else as_type(dtype)
    if where is not None:
        array = choose(_mask(array, where, operation), array, cast(init, array.types[0]))
    found = reduce(array, axis, keepdims, operation, lambda e: simplify.cast(e, t), combine, init)
    if initial is None:
        return found
    start = fit_to(initial, LEAF, (t,), "the initial value", operation)
    return elementwise(combine, Scalar(start[0]), found)  # type: ignore[no-any-return]


@combining
def sum(
    a: ArrayLike,
    axis: AxisLike | None = None,
    keepdims: bool = False,
    *,
    dtype: DTypeLike | None = None,
    initial: ScalarLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The sum, in `dtype`; small integers and booleans are added in 64 bits, as in NumPy.

    >>> td.sum(np.arange(6).reshape(2, 3), axis=0)
    Array([3, 5, 7])
    """
    return _total(a, axis, keepdims, dtype, "sum", "add", 0, initial, where)


@combining
def prod(
    a: ArrayLike,
    axis: AxisLike | None = None,
    keepdims: bool = False,
    *,
    dtype: DTypeLike | None = None,
    initial: ScalarLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The product, in `dtype`; small integers and booleans are multiplied in 64 bits.

    >>> td.prod(np.array([3, 1, 2]))
    Array(6)
    """
    return _total(a, axis, keepdims, dtype, "prod", "multiply", 1, initial, where)


@operation
def min(
    a: ArrayLike,
    axis: AxisLike | None = None,
    keepdims: bool = False,
    *,
    initial: ScalarLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The minimum; NaN if any element is NaN; an empty axis raises a `ShapeError` unless there is
    `initial`.  Tuples are compared by their first components that differ.

    >>> td.min(np.arange(6).reshape(2, 3), axis=1)
    Array([0, 3])
    """
    return _extreme(a, axis, keepdims, "min", initial, where)


@operation
def max(
    a: ArrayLike,
    axis: AxisLike | None = None,
    keepdims: bool = False,
    *,
    initial: ScalarLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The maximum; NaN if any element is NaN; an empty axis raises a `ShapeError` unless there is
    `initial`.

    >>> td.max(np.arange(6).reshape(2, 3))
    Array(5)
    """
    return _extreme(a, axis, keepdims, "max", initial, where)


amin, amax = min, max
#: For tuples: the comparison by which an element replaces those before it.
_BETTER = {"min": less, "argmin": less, "max": greater, "argmax": greater}


def _extreme(a: ArrayLike, axis: AxisLike | None, keepdims: bool, operation: str,
             initial: ScalarLike | None, where: ArrayLike | None) -> Array:  # fmt: skip
    array = as_array(a, operation)
    require_real(array, operation)
    if where is not None and initial is None:
        beyond = "np.inf" if operation == "min" else "-np.inf"
        raise TracingError(
            f"{operation}: where= may choose no element, and then there is no {operation}imum.",
            hint=f"Give the result of none, initial={beyond}.",
        )
    if array.structure.is_leaf or initial is not None:
        require_scalars(array, operation)
        start: Expr | None = None
        if initial is not None:
            (start,) = fit_to(initial, LEAF, array.types, "the initial value", operation)
            if where is not None:
                array = choose(_mask(array, where, operation), array, Scalar(start))
        return reduce(array, axis, keepdims, operation, lambda e: e, f"{operation}imum", start)
    better, axes = _BETTER[operation], normalise_axes(axis, array.ndim, operation)
    found = fold1(lambda x, y: choose(better(y, x), y, x), array, axes, name=operation)
    return keep_dimensions(found, axes, array.ndim) if keepdims else found


def _extreme_argument(array: Array, axes: Sequence[int], operation: str) -> Array:
    """The index along an axis, or of all axes, of the first extreme tuple."""
    better, shape = _BETTER[operation], [array.shape[k] for k in axes]

    def paired(*given: Any) -> Any:  # the indices, then the element
        at: Any = 0
        for k, extent in zip(axes, shape, strict=True):
            at = at * extent + given[k]
        return at, given[-1]

    def first(x: Any, y: Any) -> Any:
        replaced = better(y[1], x[1]) | (equal(y[1], x[1]) & (y[0] < x[0]))
        return choose(replaced, y, x)

    found = fold1(first, imap(paired, array), tuple(axes), name=operation)
    return Array(found._leaves[:1], LEAF, found._shape)


@operation
def all(
    a: ArrayLike,
    axis: AxisLike | None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Whether every element is nonzero.

    >>> td.all(np.arange(6).reshape(2, 3), axis=1)
    Array([False,  True])
    """
    return _truth(a, axis, keepdims, "all", "logical_and", True, where)


@operation
def any(
    a: ArrayLike,
    axis: AxisLike | None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Whether any element is nonzero.

    >>> td.any(np.arange(6).reshape(2, 3) > 4, axis=0)
    Array([False, False,  True])
    """
    return _truth(a, axis, keepdims, "any", "logical_or", False, where)


def _truth(a: ArrayLike, axis: AxisLike | None, keepdims: bool, operation: str, combine: str,
           init: bool, where: ArrayLike | None) -> Array:  # fmt: skip
    array = as_array(a, operation)
    if where is not None:
        mask = _mask(array, where, operation)
        array = choose(mask, not_equal(array, 0), init)
    return reduce(array, axis, keepdims, operation, as_truth, combine, init)


@operation
def count_nonzero(a: ArrayLike, axis: AxisLike | None = None, keepdims: bool = False) -> Array:
    """The number of nonzero elements (int64).

    >>> td.count_nonzero(np.arange(6).reshape(2, 3))
    Array(5)
    """
    return reduce(
        as_array(a, "count_nonzero"),
        axis,
        keepdims,
        "count_nonzero",
        lambda e: simplify.cast(as_truth(e), int64),
        "add",
        0,
    )


def in_type(a: ArrayLike, dtype: DTypeLike | None, operation: str) -> Array:
    """The array of a statistic, in the type in which it is computed."""
    array = as_array(a, operation)
    if dtype is None:
        return array
    t = as_type(dtype)
    if not t.is_inexact:
        raise DTypeError(
            f"{operation}: dtype={t} has no fractions, and the result has.",
            hint="Convert the result: x.astype(dtype), or td.floor(x).astype(dtype).",
        )
    return array.astype(t)


@combining
def mean(
    a: ArrayLike,
    axis: AxisLike | None = None,
    keepdims: bool = False,
    *,
    dtype: DTypeLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The arithmetic mean; of integers in float64; an empty axis gives NaN.

    Parameters
        dtype: the type of the sum and the result; default: that of `a`, float64 for integers.

    >>> td.mean(np.array([0.0, 0.5, 1.0]))
    Array(0.5)
    """
    array = in_type(a, dtype, "mean")
    t = array.types[0]
    target = t if t.is_inexact else float64
    wide = float32 if target.is_float and target.bits == 16 else target
    if where is not None:
        mask = _mask(array, where, "mean")
        share = cast(count_nonzero(mask, axis, keepdims), real_part(wide))
        total = sum(array, axis, keepdims, dtype=wide, where=mask)
        return cast(total / share, target)
    axes = normalise_axes(axis, array.ndim, "mean")
    count = product([array._shape[k] for k in axes])

    def finish(total: Expr) -> Expr:
        share = simplify.cast(simplify.cast(count, real_part(wide)), wide)
        return simplify.cast(apply_primitive("true_divide", [total, share]), target)

    return reduce(array, axis, keepdims, "mean", lambda e: simplify.cast(e, wide), "add", 0, finish)


@combining
def var(
    a: ArrayLike,
    axis: AxisLike | None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    correction: float | None = None,
    dtype: DTypeLike | None = None,
    where: ArrayLike | None = None,
    name: str | None = None,
    schedule: ScheduleLike | None = None,
) -> Array:
    """The variance: squares of differences from the mean, divided by n - `ddof`, in two passes;
    `name` and `schedule` apply to the second.

    Errors: `AxisError` if there is no such axis; `TracingError` for both `ddof` and `correction`.

    >>> td.var(np.array([3, 1, 2]))
    Array(0.66666667)
    """
    ddof = _correction(ddof, correction, "var")
    array = in_type(a, dtype, "var")
    mask = None if where is None else _mask(array, where, "var")
    centred = subtract(array, mean(array, axis, keepdims=True, where=mask))
    parts = (centred.real, centred.imag) if centred.types[0].is_complex else (centred,)
    squares = functools.reduce(add, map(square, parts))  # not of abs, which bends at 0
    axes = normalise_axes(axis, array.ndim, "var")
    present: Array | Scalar = Scalar(product([array._shape[k] for k in axes]))
    if mask is not None:
        present = count_nonzero(mask, axis, keepdims)
    count = cast(present, real_part(squares.types[0]))
    named: dict[str, Any] = {"name": name, "schedule": schedule}
    total = sum(squares, axis, keepdims, where=mask, **named)
    return total / maximum(count - ddof, 0)


def _correction(ddof: float, correction: float | None, operation: str) -> float:
    """The number that is subtracted from the number of elements."""
    refuse_traced(operation, ddof=ddof, correction=correction)
    given = ddof if correction is None else correction
    if (correction is not None and ddof != 0) or not isinstance(given, int | float | np.number):
        raise TracingError(
            f"{operation} takes one number, ddof or correction, got ddof={ddof!r}, "
            f"correction={correction!r}.",
            hint="Write ddof=1.",
        )
    return float(given)


@combining
def std(
    a: ArrayLike,
    axis: AxisLike | None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    correction: float | None = None,
    dtype: DTypeLike | None = None,
    where: ArrayLike | None = None,
    name: str | None = None,
    schedule: ScheduleLike | None = None,
) -> Array:
    """The standard deviation; the other arguments as for `var`.

    Errors: `AxisError` if there is no such axis; `TracingError` for both `ddof` and `correction`.

    >>> td.std(np.array([0.0, 0.5, 1.0]))
    Array(0.40824829)
    """
    ddof = _correction(ddof, correction, "std")
    squared = var(a, axis, ddof, keepdims, dtype=dtype, where=where, name=name, schedule=schedule)
    return root(squared, 2)


def root(total: Array, order: float) -> Array:
    """The root of a sum of powers.  Its derivative at 0, where it has none, is 0."""
    return choose(total == 0, 0.0, sqrt(total) if order == 2 else total ** (1 / order))


@operation
def argmin(a: ArrayLike, axis: AxisLike | None = None, keepdims: bool = False) -> Array:
    """The index (int64) of the first minimum, or of the first NaN if there is one.

    >>> td.argmin(np.array([3, 1, 2]))
    Array(1)
    """
    return _argument(a, axis, keepdims, "argmin", "less")


@operation
def argmax(a: ArrayLike, axis: AxisLike | None = None, keepdims: bool = False) -> Array:
    """The index (int64) of the first maximum, or of the first NaN if there is one.

    >>> td.argmax(np.arange(6).reshape(2, 3), axis=1)
    Array([2, 2])
    """
    return _argument(a, axis, keepdims, "argmax", "greater")


def _argument(
    a: ArrayLike, axis: AxisLike | None, keepdims: bool, operation: str, better: str
) -> Array:
    forbid_nesting(operation)
    array = as_array(a, operation)
    require_real(array, operation)
    axes = (
        tuple(range(array.ndim)) if axis is None else (normalise_axis(axis, array.ndim, operation),)
    )
    if not array.structure.is_leaf:
        result = _extreme_argument(array, axes, operation)
        return keep_dimensions(result, axes, array.ndim) if keepdims else result
    checks = not_empty(array, axes, operation)
    outer, inner, index = split_axes(array, axes)
    value = array._element(index)[0]
    # Two vectorised passes: the extreme value, then the first index at which it occurs.
    best = "minimum" if better == "less" else "maximum"
    extreme = folded(outer, inner, value, best, None, Label(operation), checks)
    found = Read(extreme, 0, tuple(Index(k) for k in range(len(outer))))
    hit = apply_primitive("equal", [value, found])
    if value.type.is_inexact:
        nan = apply_primitive(
            "logical_and", [apply_primitive("isnan", [e]) for e in (value, found)]
        )
        hit = apply_primitive("logical_or", [hit, nan])
    at = linear([Index(len(outer) + k) for k in range(len(inner))], inner)
    never = Const(int64.highest, int64)
    first = simplify.select(hit, at, never)
    node = folded(outer, inner, first, "minimum", never, Label(operation), checks)
    result = Array(node.leaves, LEAF, outer)
    return keep_dimensions(result, axes, array.ndim) if keepdims else result


later.offer(reductions=sys.modules[__name__])
