"""Statistics: reductions that leave out NaN, weighted averages, covariances, comparisons."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...annotations import ArrayLike, AxisLike, DTypeLike
from ...array import Array
from ...errors import ShapeError
from ...frontend.sources import as_array
from ...graph import known
from ...scalar import Scalar
from ...shapes import extents, same_shape
from ...types import float64, promote
from ..common import alike, checked, combining, normalise_axis, operation, whole_number
from ..control import cond
from ..elements.functions import clip, isclose, isnan, maximum, sqrt, where
from ..indexing.index_space import broadcast_to, diagonal, reshape, transpose
from ..indexing.joining import concatenate
from ..indexing.making import generate, unit
from ..indexing.row_major import product
from . import reductions
from .reductions import all as all_, max as max_, min as min_, sum as sum_
from .scans import cumprod, cumsum

__all__ = ["allclose", "array_equal", "array_equiv", "average", "corrcoef", "cov", "nanargmax",
           "nanargmin", "nancumprod", "nancumsum", "nanmax", "nanmean", "nanmin", "nanprod",
           "nanstd", "nansum", "nanvar", "ptp"]  # fmt: skip


def _filled(a: ArrayLike, operation: str, value: float) -> Array:
    """The array with `value` instead of NaN."""
    array = as_array(a, operation)
    if not array.types[0].is_inexact:
        return array
    filled: Array = where(isnan(array), array.types[0](value), array)
    return filled


@combining
def nansum(
    a: ArrayLike,
    axis: AxisLike | None = None,
    keepdims: bool = False,
    *,
    dtype: DTypeLike | None = None,
) -> Array:
    """The sum without NaN (0 if nothing is left).

    >>> td.nansum(np.array([1.0, np.nan, 2.0]))
    Array(3.)
    """
    return sum_(_filled(a, "nansum", 0), axis, keepdims, dtype=dtype)


@combining
def nanprod(
    a: ArrayLike,
    axis: AxisLike | None = None,
    keepdims: bool = False,
    *,
    dtype: DTypeLike | None = None,
) -> Array:
    """The product without NaN (1 if nothing is left).

    >>> td.nanprod(np.array([3.0, np.nan]))
    Array(3.)
    """
    return reductions.prod(_filled(a, "nanprod", 1), axis, keepdims, dtype=dtype)


@combining
def nancumsum(a: ArrayLike, axis: int | None = None) -> Array:
    """Cumulative sums in which NaN counts as 0.

    >>> td.nancumsum([1.0, np.nan, 2.0])
    Array([1., 1., 3.])
    """
    return cumsum(_filled(a, "nancumsum", 0), axis)


@combining
def nancumprod(a: ArrayLike, axis: int | None = None) -> Array:
    """Cumulative products in which NaN counts as 1.

    >>> td.nancumprod([1.0, np.nan, 2.0])
    Array([1., 1., 2.])
    """
    return cumprod(_filled(a, "nancumprod", 1), axis)


@operation
def nanmin(a: ArrayLike, axis: AxisLike | None = None, keepdims: bool = False) -> Array:
    """The minimum without NaN; NaN where nothing is left.

    >>> td.nanmin(np.array([3.0, np.nan]))
    Array(3.)
    """
    return _extreme(a, axis, keepdims, "nanmin", min_, np.inf)


@operation
def nanmax(a: ArrayLike, axis: AxisLike | None = None, keepdims: bool = False) -> Array:
    """The maximum without NaN; NaN where nothing is left.

    >>> td.nanmax(np.array([3.0, np.nan]))
    Array(3.)
    """
    return _extreme(a, axis, keepdims, "nanmax", max_, -np.inf)


def _extreme(a: ArrayLike, axis: AxisLike | None, keepdims: bool, operation: str,
             reduced: Callable[..., Array], beyond: float) -> Array:  # fmt: skip
    array = as_array(a, operation)
    if not array.types[0].is_inexact:
        return reduced(array, axis, keepdims)
    found = reduced(_filled(array, operation, beyond), axis, keepdims)
    nothing = all_(isnan(array), axis, keepdims)
    chosen: Array = where(nothing, array.types[0](np.nan), found)
    return chosen


@operation
def nanargmin(a: ArrayLike, axis: AxisLike | None = None, keepdims: bool = False) -> Array:
    """The index of the first minimum without NaN; 0 where there is only NaN
    (NumPy raises an error).

    >>> td.nanargmin(np.array([np.nan, 3.0]))
    Array(1)
    """
    return reductions.argmin(_filled(a, "nanargmin", np.inf), axis, keepdims)


@operation
def nanargmax(a: ArrayLike, axis: AxisLike | None = None, keepdims: bool = False) -> Array:
    """The index of the first maximum without NaN; 0 where there is only NaN
    (NumPy raises an error).

    >>> td.nanargmax(np.array([np.nan, 3.0]))
    Array(1)
    """
    return reductions.argmax(_filled(a, "nanargmax", -np.inf), axis, keepdims)


@combining
def nanmean(
    a: ArrayLike,
    axis: AxisLike | None = None,
    keepdims: bool = False,
    *,
    dtype: DTypeLike | None = None,
) -> Array:
    """The mean without NaN; NaN where nothing is left.

    >>> td.nanmean(np.array([1.0, np.nan, 2.0]))
    Array(1.5)
    """
    array = reductions.in_type(a, dtype, "nanmean")
    if not array.types[0].is_inexact:
        return reductions.mean(array, axis, keepdims)
    count = reductions.count_nonzero(~isnan(array), axis, keepdims)
    return nansum(array, axis, keepdims) / count.astype(array.dtype)


@combining
def nanvar(
    a: ArrayLike,
    axis: AxisLike | None = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    dtype: DTypeLike | None = None,
) -> Array:
    """The variance without NaN; NaN where not more than `ddof` elements are left.

    >>> td.nanvar(np.array([3.0, np.nan, 1.0]))
    Array(1.)
    """
    array = reductions.in_type(a, dtype, "nanvar")
    if not array.types[0].is_inexact:
        array = array.astype(float)
    present = ~isnan(array)
    centred = array - nanmean(array, axis, keepdims=True)
    squares = where(present, (centred * centred.conj()).real, 0)
    count = reductions.count_nonzero(present, axis, keepdims) - ddof
    share = where(count > 0, count, 0).astype(squares.dtype)
    return where(count > 0, sum_(squares, axis, keepdims) / share, share * np.nan)


@combining
def nanstd(
    a: ArrayLike,
    axis: AxisLike | None = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    dtype: DTypeLike | None = None,
) -> Array:
    """The standard deviation without NaN.

    >>> td.nanstd(np.array([3.0, np.nan, 1.0]))
    Array(1.)
    """
    return reductions.root(nanvar(a, axis, ddof, keepdims, dtype=dtype), 2)


@operation
def ptp(a: ArrayLike, axis: AxisLike | None = None, keepdims: bool = False) -> Array:
    """The maximum minus the minimum.

    >>> td.ptp(np.array([3, 1, 2]))
    Array(2)
    """
    array = as_array(a, "ptp")
    return max_(array, axis, keepdims) - min_(array, axis, keepdims)


@combining
def average(
    a: ArrayLike, axis: int | None = None, weights: ArrayLike | None = None, keepdims: bool = False
) -> Array:
    """The mean, or with `weights` (of the shape of `a`, or along the axis) the weighted mean.

    Parameters
        axis: the axis, from −rank to rank − 1; default None: of all elements.

    >>> td.average(np.array([1.0, 3.0]), weights=np.array([3.0, 1.0]))
    Array(1.5)
    """
    array = as_array(a, "average")
    if weights is None:
        return reductions.mean(array, axis, keepdims)
    by = as_array(weights, "average")
    if by.ndim != array.ndim:
        if axis is None or by.ndim != 1:
            raise ShapeError(
                f"average: weights of rank {by.ndim} for an array of rank {array.ndim}.",
                hint="Give weights of the same shape, or of rank 1 together with axis=.",
            )
        position = normalise_axis(axis, array.ndim, "average")
        checks = same_shape(array._shape[position : position + 1], by._shape, "average")
        by = checked(by, checks) if checks else by
        by = by[(slice(None), *[None] * (array.ndim - position - 1))]
    else:
        by = alike(by, array, "average")
    if not array.types[0].is_inexact:  # as in NumPy: at least float64
        by = by * np.float64(1)
    weighted = array * by
    by = broadcast_to(by.astype(weighted.dtype), array.shape)
    return sum_(weighted, axis, keepdims) / sum_(by, axis, keepdims)


@combining
def cov(
    m: ArrayLike,
    y: ArrayLike | None = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
) -> Array:
    """The covariance matrix of variables that are the rows (`rowvar`), or the columns, of `m`, and
    of those of `y`; divided by the number of observations minus `ddof` (default 1, 0 if `bias`).

    One matrix product.  Rank 0 for a single variable, if their number is known when traced.
    float64 or complex128, as in NumPy.

    Parameters
        bias: whether to divide by n instead of n − 1; default False.
        ddof: the divisor is the number of observations minus `ddof`; default 1, or 0 with `bias`.

    >>> td.cov(np.arange(6).reshape(2, 3))
    Array([[1., 1.],
           [1., 1.]])
    """
    data = _variables(m, rowvar, "cov")
    if y is not None:
        data = concatenate([data, _variables(y, rowvar, "cov")])
    less = (0 if bias else 1) if ddof is None else whole_number(ddof, "cov", "ddof")
    centred = data - reductions.mean(data, axis=1, keepdims=True)
    count = Scalar(product([data._shape[1]])) - less
    share = maximum(count, 0)
    found = (centred @ transpose(centred.conj())) / share
    return reshape(found, ()) if known(found._shape[0]) == 1 else found


def _variables(a: ArrayLike, rowvar: bool, operation: str) -> Array:
    array = as_array(a, operation)
    if array.ndim > 2:
        raise ShapeError(
            f"{operation} takes an array of rank 2 at most, got rank {array.ndim}.",
            hint="Reshape it: a row for each variable.",
        )
    array = array.astype(promote(array.types[0], False, float64, False)[0])  # as NumPy's
    if array.ndim < 2:
        return reshape(array, (1, -1))
    return array if rowvar else transpose(array)


@combining
def corrcoef(m: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True) -> Array:
    """The matrix of correlation coefficients of the variables of `cov`, between −1 and 1.

    >>> td.corrcoef(np.arange(6).reshape(2, 3))
    Array([[1., 1.],
           [1., 1.]])
    """
    c = cov(m, y, rowvar)
    if c.ndim == 0:
        return c / c
    deviation = sqrt(diagonal(c).real)
    scaled = c / deviation[:, None] / deviation[None, :]
    if scaled.types[0].is_float:
        return clip(scaled, -1, 1)
    return scaled


# --- comparisons of whole arrays -------------------------------------------------------------


@operation
def allclose(
    a: ArrayLike, b: ArrayLike, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Array:
    """Whether all elements are close (`isclose`): a boolean of rank 0.

    >>> bool(td.allclose(np.ones(3), np.ones(3) + 1e-9))
    True
    """
    left, right = as_array(a, "allclose"), as_array(b, "allclose")
    return all_(isclose(left, right, rtol, atol, equal_nan))


@operation
def array_equal(a: ArrayLike, b: ArrayLike, equal_nan: bool = False) -> Array:
    """Whether two arrays have the same shape and equal elements: a boolean of rank 0.

    The shapes may be run-time values.

    Parameters
        b: an array of any shape.

    >>> td.array_equal(np.array([3, 1, 2]), np.array([2, 0, 1]))
    Array(False)
    """
    left, right = as_array(a, "array_equal"), as_array(b, "array_equal")
    if left.ndim != right.ndim:
        return unit(False)
    same: Any = True
    for m, n in zip(extents(left._shape), extents(right._shape), strict=True):
        same = (m == n) & same

    def equal(*at: Any) -> Any:  # the second array is read where it has the same shape
        x, y = left[at], right[at]
        return cond(same, (x == y) | ((x != x) & (y != y)) if equal_nan else x == y, False)

    return unit(same) & all_(generate(left.shape, equal)) if left.ndim else equal()


@operation
def array_equiv(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Whether two arrays broadcast to one shape, and are equal there: a boolean of rank 0.

    Extents that are not known must fit.

    >>> bool(td.array_equiv(np.array([1, 2]), np.array([[1, 2], [1, 2]])))
    True
    """
    left, right = as_array(a1, "array_equiv"), as_array(a2, "array_equiv")
    for m, n in zip(reversed(left._shape), reversed(right._shape), strict=False):
        numbers = {known(m), known(n)} - {1, None}
        if len(numbers) > 1:
            return unit(False)
    return all_(left == right)
