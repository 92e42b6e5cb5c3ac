"""Differences, derivatives and integrals of sampled functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...annotations import ArrayLike, IntLike, Value
from ...array import Array
from ...errors import DTypeError, ShapeError
from ...expr import constant
from ...frontend.sources import as_array
from ...scalar import Scalar
from ...shapes import require, same_shape
from ..common import alike, checked, normalise_axis, operation, whole_number
from ..control import cond, iterate
from ..elements.functions import absolute, cast, minimum, remainder, where
from ..indexing.index_space import broadcast_to, flatten
from ..indexing.joining import concatenate
from ..indexing.making import generate, the
from ..queries import ndim, result_type
from .reductions import sum as sum_
from .scans import cumsum

__all__ = ["diff", "ediff1d", "gradient", "trapezoid", "unwrap"]


#: Differences of more than this order are computed by a loop over arrays.
_UNROLLED = 32


def _along(axis: int, part: slice) -> tuple[slice, ...]:
    return (*[slice(None)] * axis, part)


@operation
def diff(
    a: ArrayLike,
    n: int = 1,
    axis: int = -1,
    *,
    prepend: ArrayLike | None = None,
    append: ArrayLike | None = None,
) -> Array:
    """The n-th difference along an axis, `a[1:] - a[:-1]` repeated; `!=` for booleans.

    The result is shorter by `n`; all differences are one kernel.

    Parameters
        n: how many times; default 1.
        prepend: an array, or one number, to be joined before `a`; optional.
        append: an array, or one number, to be joined after `a`; optional.

    Result: an array of the shape of `a`, shorter by `n` along the axis.

    >>> td.diff(np.array([1, 4, 9]))
    Array([3, 5])
    """
    array = as_array(a, "diff")
    n = whole_number(n, "diff", "n", "Write td.diff(a, 1).", least=0)
    axis = normalise_axis(axis, array.ndim, "diff")
    joined = [_as_slice(x, array, axis) for x in (prepend, array, append) if x is not None]
    array = concatenate(joined, axis) if len(joined) > 1 and n else array
    if n <= _UNROLLED:
        for _ in range(n):
            upper, lower = array[_along(axis, slice(1, None))], array[_along(axis, slice(None, -1))]
            array = as_array(_less(upper, lower), "diff")
        return array
    kind = array.types[0]

    def step(array: Array) -> Array:  # of equal shapes: what is cut off later reads zeros
        def element(*index: IntLike) -> Value:
            after = index[axis] + 1
            above = (*index[:axis], after, *index[axis + 1 :])
            return _less(cond(after < array.shape[axis], array[above], kind(0)), array[index])

        return generate(array.shape, element)

    n = min(n, 1 << 62)
    found: Array = iterate(minimum(n, array.shape[axis]), step, array)
    rest: Array = found[_along(axis, slice(None, -n))]
    return rest


def _less(upper: Value, lower: Value) -> Value:
    return upper != lower if result_type(upper).family == "bool" else upper - lower


def _as_slice(given: ArrayLike, array: Array, axis: int) -> Array:
    """What is joined to an array along an axis: a number fills one slice, in the array's type."""
    if isinstance(given, Scalar | int | float | complex | np.generic):
        given = cast(given, result_type(array, given))
    other = as_array(given, "diff")
    if other.ndim:
        return other
    return broadcast_to(other, (*array.shape[:axis], 1, *array.shape[axis + 1 :]))


@operation
def ediff1d(
    a: ArrayLike, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None
) -> Array:
    """The differences of the flattened array, between optional other elements.

    Parameters
        to_end: values after the differences; optional.
        to_begin: values before the differences; optional.

    Result: an array of rank 1: a.size − 1 differences and the other elements.

    >>> td.ediff1d(np.array([3, 1, 2]))
    Array([-2,  1])
    """
    array = diff(flatten(as_array(a, "ediff1d")))
    given = [None if x is None else as_array(x, "ediff1d") for x in (to_begin, to_end)]
    kind = array.types[0]
    for other in (x.types[0] for x in given if x is not None):
        if (other.is_complex and not kind.is_complex) or (other.is_float and not kind.is_inexact):
            raise DTypeError(
                f"ediff1d: the differences are {kind}, what is joined to them {other}.",
                hint=f"Convert one of them: a.astype(td.{other}).",
            )
    parts: list[Any] = [None if x is None else flatten(x).astype(array.dtype) for x in given]
    parts.insert(1, array)
    return concatenate([p for p in parts if p is not None])


@operation
def gradient(
    a: ArrayLike, *spacing: float | ArrayLike, axis: int | tuple[int, ...] | None = None
) -> Array | tuple[Array, ...]:
    """The derivative along each axis: central differences, one-sided ones at both ends.

    `spacing`: one number for all axes, or for each a number or the array of its coordinates
    (default 1).  `axis`: one (a single array is returned), several, or None: all.  Integers and
    booleans give float64.  Each axis needs at least 2 elements.

    Parameters
        *spacing: the distance of neighbours, or the coordinates, for all axes or for each; default
            1.

    >>> td.gradient(np.array([0.0, 1.0, 4.0, 9.0]))
    Array([1., 2., 4., 5.])
    """
    array = as_array(a, "gradient")
    if not array.types[0].is_inexact:
        array = array.astype(float)
    axes = range(array.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    chosen = [normalise_axis(x, array.ndim, "gradient") for x in axes]
    one = len(spacing) < 2 and not (spacing and _rank(spacing[0]))
    steps: list[Any] = [*(spacing or (1.0,))] * len(chosen) if one else list(spacing)
    if len(steps) != len(chosen):
        raise ShapeError(
            f"gradient: {len(steps)} spacings for {len(chosen)} axes.",
            hint="Give one for all axes, or one for each.",
        )
    found = tuple(_derivative(array, k, h) for k, h in zip(chosen, steps, strict=True))
    return found[0] if len(found) == 1 else found


def _rank(spacing: float | ArrayLike) -> int:
    return as_array(spacing, "gradient").ndim


def _derivative(f: Array, axis: int, spacing: Any) -> Array:
    checks = require(
        f._shape[axis], constant(2), f"gradient: axis {axis} has {{left}} elements.",
        relation=">=", hint="A difference takes two: choose other axes by axis=.",
    )  # fmt: skip
    f = checked(f, checks) if checks else f
    below, here, above = (f[_along(axis, part)] for part in
                          (slice(None, -2), slice(1, -1), slice(2, None)))  # fmt: skip
    first, second, last, before = (f[_along(axis, slice(k, k + 1 or None))] for k in (0, 1, -1, -2))
    if not _rank(spacing):
        spacing = the(spacing) if isinstance(spacing, Array) else spacing
        inner = (above - below) / (2 * spacing)
        return concatenate([(second - first) / spacing, inner, (last - before) / spacing], axis)
    points = as_array(spacing, "gradient")
    if points.ndim != 1:
        raise ShapeError(
            f"gradient: coordinates have rank 1, not {points.ndim}.",
            hint="Give one number for an axis, or the coordinate of each of its elements.",
        )
    checks = same_shape(f._shape[axis : axis + 1], points._shape, "gradient")
    steps = diff(checked(points, checks) if checks else points)
    steps = steps[(slice(None), *[None] * (f.ndim - axis - 1))]
    left, right = steps[:-1], steps[1:]
    inner = (
        above * (left / (right * (left + right)))
        + here * ((right - left) / (left * right))
        - below * (right / (left * (left + right)))
    )
    return concatenate([(second - first) / steps[:1], inner, (last - before) / steps[-1:]], axis)


@operation
def trapezoid(y: ArrayLike, x: ArrayLike | None = None, dx: float = 1.0, axis: int = -1) -> Array:
    """The integral along an axis by the trapezoidal rule, over the coordinates `x` (of rank 1, or
    of the shape of `y`), or with the spacing `dx`.

    Parameters
        x: a number, or an array of any shape; optional.
        dx: the distance of neighbours; default 1.

    Result: an array without the axis, in floating point.

    >>> float(td.trapezoid(np.array([1.0, 2.0, 3.0])))
    4.0
    """
    array = as_array(y, "trapezoid")
    axis = normalise_axis(axis, array.ndim, "trapezoid")
    width: Any = dx
    if x is not None:
        points = as_array(x, "trapezoid")
        if points.ndim == 1:
            checks = same_shape(array._shape[axis : axis + 1], points._shape, "trapezoid")
            points = checked(points, checks) if checks else points
            width = diff(points)[(slice(None), *[None] * (array.ndim - axis - 1))]
        else:
            points = alike(points, array, "trapezoid")
            width = diff(points, axis=axis)
    upper, lower = array[_along(axis, slice(1, None))], array[_along(axis, slice(None, -1))]
    return sum_(width * (upper + lower) / 2.0, axis=axis)


@operation
def unwrap(
    p: ArrayLike, discont: float | None = None, axis: int = -1, period: float = 2 * np.pi
) -> Array:
    """Angles without jumps: multiples of `period` are added where neighbours differ by more than
    `discont` (default: half a period).

    Parameters
        p: angles, an array; integers are converted first, and their differences do not wrap.
        discont: the jump that is corrected; default: half the period.
        period: the period, one number; default 2π.

    Result: an array of the shape of `p`, in floating point.

    >>> td.unwrap(np.array([0.0, 6.0]), period=6.0)
    Array([0., 0.])
    """
    array = as_array(p, "unwrap")
    for word, number in (("discont", discont), ("period", period)):
        if number is not None and ndim(number):
            raise ShapeError(f"unwrap: {word} is one number, got an array of rank {ndim(number)}.",
                             hint="Unwrap the parts of an array that have different periods one by "
                             "one.")  # fmt: skip
    if array.types[0].is_complex:
        raise DTypeError("unwrap: angles are real.", hint="td.unwrap(td.angle(z)).")
    if not array.types[0].is_float:
        array = array.astype(float)
    axis = normalise_axis(axis, array.ndim, "unwrap")
    half = period / 2
    steps = diff(array, axis=axis)
    folded = remainder(steps + half, period) - half
    folded = where((folded == -half) & (steps > 0), half, folded)
    least = half if discont is None else max(discont, half)
    corrections = where(absolute(steps) < least, 0.0, folded - steps)
    rest = array[_along(axis, slice(1, None))] + cumsum(corrections, axis=axis)
    return concatenate([array[_along(axis, slice(None, 1))], rest], axis)
