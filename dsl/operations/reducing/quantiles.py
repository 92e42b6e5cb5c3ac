"""Order statistics, positions of elements, and interpolation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np

from ... import late_binding as later
from ...annotations import ArrayLike, AxisLike, Value
from ...array import Array
from ...errors import DTypeError, ShapeError, TracingError
from ...expr import constant
from ...frontend.deferred import HostArray, fact
from ...frontend.sources import as_array
from ...scalar import Scalar
from ...shapes import require
from ...types import bfloat16, float16, float32, float64, int8, int64, uint8
from ..common import alike, checked, normalise_axes, operation, require_real
from ..control import cond
from ..elements.functions import cast, clip, floor, isfinite, isnan, maximum, minimum, rint, where
from ..elements.mapping import map as map_
from ..indexing.index_space import expand_dims, flatten, reshape, take
from ..indexing.joining import concatenate, stack
from ..indexing.making import generate, iota, ones_like, zeros
from ..indexing.permuting import permute
from ..indexing.rearranging import moveaxis
from ..indexing.row_major import product
from .folds import not_empty
from .irregular import argsort, compact, placed, sort as sort_
from .reductions import count_nonzero
from .scans import cumsum
from .searching import searchsorted

__all__ = ["argwhere", "flatnonzero", "interp", "median", "nanmedian", "nanpercentile",
           "nanquantile", "nonzero", "percentile", "quantile"]  # fmt: skip

Method = Literal["linear", "lower", "higher", "midpoint", "nearest"]
#: Rows of at most this constant length are ordered by a thread: those of 5 × 5 pixels.
_NETWORK = 25
_METHODS = ("linear", "lower", "higher", "midpoint", "nearest")
#: Rows of at least so many bytes are counted, which takes 256 counters for each.
_COUNTED = 2048


@operation
def quantile(
    a: ArrayLike,
    q: ArrayLike | Sequence[float],
    axis: AxisLike | None = None,
    method: Method = "linear",
    keepdims: bool = False,
) -> Array:
    """The `q`-th quantiles along axes (of all elements for None), q between 0 and 1.

    The result has the shape of `q`, then the other axes, without elements too, and the type of `a`:
    integers and booleans give float64, but integers stay integers for methods that choose one.
    `method`: between two elements `linear` interpolates; `lower`, `higher`, `nearest` choose one,
    `midpoint` takes their mean.  NaN where an element is NaN.  A CPU selects the elements of these
    positions, a GPU sorts; long rows of integers of eight bits are counted.

    >>> td.quantile(np.array([1.0, 2.0, 4.0]), [0.5, 0.75])
    Array([2., 3.])
    """
    return _quantile(a, q, axis, method, keepdims, "quantile", 1.0, skip=False)


@operation
def percentile(
    a: ArrayLike,
    q: ArrayLike | Sequence[float],
    axis: AxisLike | None = None,
    method: Method = "linear",
    keepdims: bool = False,
) -> Array:
    """`quantile` with q between 0 and 100.

    >>> td.percentile(np.array([0.0, 0.5, 1.0]), [50, 75])
    Array([0.5 , 0.75])
    """
    return _quantile(a, q, axis, method, keepdims, "percentile", 100.0, skip=False)


@operation
def nanquantile(
    a: ArrayLike,
    q: ArrayLike | Sequence[float],
    axis: AxisLike | None = None,
    method: Method = "linear",
    keepdims: bool = False,
) -> Array:
    """`quantile` of the elements that are not NaN; NaN if there are none.

    >>> td.nanquantile(np.array([0.0, 0.5, 1.0]), 0.25)
    Array(0.25)
    """
    return _quantile(a, q, axis, method, keepdims, "nanquantile", 1.0, skip=True)


@operation
def nanpercentile(
    a: ArrayLike,
    q: ArrayLike | Sequence[float],
    axis: AxisLike | None = None,
    method: Method = "linear",
    keepdims: bool = False,
) -> Array:
    """`percentile` of the elements that are not NaN; NaN if there are none.

    >>> td.nanpercentile(np.array([0.0, 0.5, 1.0]), 50)
    Array(0.5)
    """
    return _quantile(a, q, axis, method, keepdims, "nanpercentile", 100.0, skip=True)


@operation
def median(a: ArrayLike, axis: AxisLike | None = None, keepdims: bool = False) -> Array:
    """The middle element, or the mean of the two in the middle; NaN where an element is NaN.

    As `quantile`; the median along an axis of up to 25 elements, if that is a constant (as of
    a `stack`), is computed element by element, and fused.

    >>> td.median(np.array([3, 1, 2]))
    Array(2.)
    """
    return _quantile(a, 0.5, axis, "midpoint", keepdims, "median", 1.0, skip=False)


@operation
def nanmedian(a: ArrayLike, axis: AxisLike | None = None, keepdims: bool = False) -> Array:
    """The median of the elements that are not NaN; NaN if there are none.

    >>> td.nanmedian(np.array([3.0, np.nan, 1.0]))
    Array(2.)
    """
    return _quantile(a, 0.5, axis, "midpoint", keepdims, "nanmedian", 1.0, skip=True)


def _quantile(a: ArrayLike, q: ArrayLike | Sequence[float], axis: AxisLike | None, method: str,
              keepdims: bool, operation: str, whole: float, skip: bool) -> Array:  # fmt: skip
    if method not in _METHODS:
        raise TracingError(
            f"{operation}: no method {method!r}.", hint=f"Choose of {', '.join(_METHODS)}."
        )
    numbers = q if isinstance(q, list | tuple) else [q]
    if all(isinstance(n, int | float | np.number) for n in numbers) and not all(
        np.all((n >= 0) & (n <= whole)) for n in map(np.asarray, numbers)
    ):
        raise _no_share(operation, whole, q)
    array, parts = as_array(a, operation), as_array(list(numbers) if q is numbers else q, operation)
    require_real(array, operation)
    if parts.types[0].is_complex:
        raise DTypeError(f"{operation}: q is a real number.", hint="Write q=0.5, or td.real(q).")

    def are_shares(data: HostArray) -> bool:
        if not np.all(np.greater_equal(data, 0) & np.less_equal(data, whole)):
            raise _no_share(operation, whole, data)
        return True

    if numbers is not q or any(isinstance(n, np.ndarray) for n in numbers):
        fact(parts, are_shares)
    shares = parts.astype(float) / whole
    exact = array.types[0].is_integer and method in ("lower", "higher", "nearest")
    axes = normalise_axes(axis, array.ndim, operation)
    if exact and (checks := not_empty(array, axes, operation)):  # there is no NaN
        array = checked(array, checks)
    own = array.types[0]
    kind = own if exact or own.is_inexact else float64
    rows = _rows(array, axes)
    lead, extent = rows.ndim - 1, rows.shape[-1]
    if (isinstance(extent, int) and 0 < extent <= _NETWORK and isinstance(q, int | float)
            and kind.is_float and not skip):  # fmt: skip
        chosen = _chosen(rows.astype(kind), extent, q / whole, method)
        return expand_dims(chosen, axes) if keepdims else chosen
    valid: Value | bool = extent > 0
    present: Value | int = extent
    if own.is_inexact:
        count = count_nonzero(~isnan(rows), axis=-1)
        count = expand_dims(count, [-1 - k for k in range(shares.ndim)])
        valid = count > 0 if skip else (count == extent) & (extent > 0)
        present = count if skip else extent
    at = shares * cast(present - 1, float64)
    low = cast(floor(at), int64)
    share = at - floor(at)
    share = share if exact else share.astype(kind)
    high = minimum(low + 1, present - 1)
    if method == "nearest":  # as NumPy's: halves to even
        low = high = cast(rint(at), int64)
    both = stack([clip(k, 0, extent - 1) for k in (low, high)], axis=-1)
    both = cast(_in_order(rows, both, shares.ndim + 1), kind)
    first, last = both[..., 0], both[..., 1]
    found: Any = _between(first, last, share, method)
    if not exact:
        found = where(valid, found, np.nan).astype(kind)
    for k in range(shares.ndim):  # the axes of q come first
        found = moveaxis(found, lead + k, k)
    if keepdims:
        found = expand_dims(found, [shares.ndim + k for k in axes])
    return found  # type: ignore[no-any-return]


def _no_share(operation: str, whole: float, q: object) -> ShapeError:
    return ShapeError(
        f"{operation}: q must be in 0 … {whole:g}, got {q!r}.",
        hint="td.percentile takes percentages, and td.quantile shares of 1.",
    )


def _rows(array: Array, axes: Sequence[int]) -> Array:
    """The array with these axes as one, the last."""
    if len(axes) == array.ndim:
        return flatten(array)
    if not axes:
        return expand_dims(array, -1)
    moved = moveaxis(array, axes, range(-len(axes), 0))
    first = array.ndim - len(axes)
    length = Scalar(product(moved._shape[first:]))
    return moved if len(axes) == 1 else reshape(moved, (*moved.shape[:first], length))


def _between(first: Any, last: Any, share: Any, method: str) -> Any:
    """The value at a share of the way between two elements."""
    if method in ("lower", "nearest"):
        return first
    if method == "higher":
        return where(share > 0, last, first)
    if method == "midpoint":
        t = first.dtype
        wide = float32 if t in (float16, bfloat16) else t  # in which the sum does not overflow
        mean = cast((cast(first, wide) + cast(last, wide)) / 2, t)
        return where(share > 0, mean, first)
    distance = last - first
    return where(share < 0.5, first + distance * share, last - distance * (1 - share))


def _chosen(rows: Array, length: int, share: float, method: str) -> Array:
    """A quantile of each row, computed by a thread: the elements pass a network that orders them,
    of which only what leads to the result is left.  `minimum` and `maximum` pass NaN on, and every
    element leads to each result."""
    at = share * (length - 1)
    low = int(np.rint(at)) if method == "nearest" else int(at)
    high = low if method == "nearest" else min(low + 1, length - 1)
    between = rows.types[0](at - int(at))

    def of_row(*elements: Any) -> Any:
        row = list(elements)
        for i, k in _comparisons(length):
            # Of equal elements the left operand has the derivative: here each has that of one.
            row[i], row[k] = minimum(row[i], row[k]), maximum(row[k], row[i])
        return _between(row[low], row[high], between, method)

    return map_(of_row, *(rows[..., k] for k in range(length)))


def _comparisons(n: int) -> Iterator[tuple[int, int]]:
    """Batcher's odd-even merge sort: pairs of positions that are put in order, one after another
    (Knuth, The Art of Computer Programming, volume 3, section 5.2.2, algorithm M)."""
    half = 1
    while half < n:
        step = half
        while step:
            for start in range(step % half, n - step, 2 * step):
                for i in range(start, min(start + step, n - step)):
                    if i // (2 * half) == (i + step) // (2 * half):
                        yield i, i + step
            step //= 2
        half *= 2


def _in_order(rows: Array, at: Array, axes: int) -> Array:
    """Elements of the sorted rows, 0 of rows without elements.  Their positions are in the last
    axes of `at`, and the same for all rows if it has no others."""
    lead, t = rows.ndim - 1, rows.types[0]
    shape = (*rows.shape[:-1], *at.shape[at.ndim - axes :])

    def position(*i: Scalar) -> Scalar:
        found: Scalar = at[i if at.ndim > axes else i[lead:]]
        return found

    def gathered() -> Array:
        same = at.ndim == axes
        ordered = placed(rows, flatten(at), lead) if same else sort_(rows)

        def element(*i: Scalar) -> Any:
            return cond(rows.shape[-1] > 0, ordered[(*i[:lead], position(*i))], t(0))

        return generate(shape, element)

    if t not in (int8, uint8):
        return gathered()
    places = cast(rows, int64) - t.lowest
    count = permute(
        lambda new, old: new + old,
        zeros((*rows.shape[:-1], 256), int64),
        lambda *i: (*i[:-1], places[i]),
        ones_like(rows, int64),
    )
    below = cumsum(count, axis=-1)

    def counted(*i: Scalar) -> Any:
        row, number, value = i[:lead], position(*i), 0
        for step in (128, 64, 32, 16, 8, 4, 2, 1):  # how many values have all their elements before
            value = where(below[(*row, value + (step - 1))] <= number, value + step, value)
        return cast(value + t.lowest, t)

    found: Array = generate(shape, counted)
    return cond(rows.shape[-1] >= _COUNTED, found, gathered()) if lead else found


# --- where ----------------------------------------------------------------------------------


@operation
def flatnonzero(a: ArrayLike) -> Array:
    """The indices of the elements that are not 0 in the flattened array, ascending (int64).

    Result: an int64 array of rank 1, whose extent is known when the program runs.

    >>> td.flatnonzero(np.array([2, 0, 1]))
    Array([0, 2])
    """
    array = flatten(as_array(a, "flatnonzero"))
    return compact(array, iota(array.shape[0]))[0]


@operation
def nonzero(a: ArrayLike) -> tuple[Array, ...]:
    """The indices of the elements that are not 0, in row-major order: an array for each axis.

    Their extent is a run-time value.

    Result: a tuple of int64 arrays of rank 1.

    >>> [x.tolist() for x in td.nonzero(np.array([[0, 3], [4, 0]]))]
    [[0, 1], [1, 0]]
    """
    array = as_array(a, "nonzero")
    if not array.ndim:
        raise ShapeError("nonzero needs axes.", hint="Compare the number: a != 0.")
    remaining = flatnonzero(array)
    found = []
    for extent in reversed(array.shape[1:]):
        found.append(remaining % extent)
        remaining = remaining // extent
    return (remaining, *reversed(found))


@operation
def argwhere(a: ArrayLike) -> Array:
    """The indices of the elements that are not 0, a row for each.

    Result: an int64 array (count, rank), whose number of rows is known when the program runs.

    >>> td.argwhere(np.array([2, 0, 1]))
    Array([[0],
           [2]])
    """
    return stack(nonzero(a), axis=1)


# --- interpolation --------------------------------------------------------------------------


@operation
def interp(
    x: ArrayLike,
    xp: ArrayLike,
    fp: ArrayLike,
    left: float | None = None,
    right: float | None = None,
    period: float | None = None,
) -> Array:
    """The piecewise linear function through the points (xp, fp), `xp` ascending, at `x`.

    Below and above it is `left` and `right` (default: the first and the last of `fp`).  With
    `period` the function repeats, and `xp` may have any order.  float64, or complex128.

    Parameters
        xp: the known x coordinates, increasing.
        fp: the known values.
        left: the value below `xp[0]`; default `fp[0]`.
        right: the value above `xp[-1]`; default `fp[-1]`.
        period: the period of `x`; default None.

    >>> td.interp(np.array([0.5, 9.0]), np.array([0.0, 1.0]), np.array([10.0, 20.0]))
    Array([15., 20.])
    """
    at, knots, values = (as_array(v, "interp") for v in (x, xp, fp))
    if at.types[0].is_complex or knots.types[0].is_complex:
        raise DTypeError(
            "interp: x and xp are real; fp may be complex.", hint="Take a part: td.real(x)."
        )
    at, knots = at.astype(float), knots.astype(float)
    if knots.ndim != 1 or values.ndim != 1:
        raise ShapeError(
            f"interp: xp and fp have rank 1, not {knots.ndim} and {values.ndim}.",
            hint="Interpolate each row by itself.",
        )
    for word, number in (("left", left), ("right", right), ("period", period)):
        rank = 0 if number is None else as_array(number, "interp").ndim
        if rank:
            raise ShapeError(
                f"interp: {word} is a number, got an array of rank {rank}.",
                hint="Choose of arrays by td.where(x < xp[0], a, td.interp(x, xp, fp)).",
            )
    if isinstance(period, int | float) and not 0 < abs(period) < np.inf:
        raise ShapeError(f"interp: a period is not 0, and finite, got {period}.",
                         hint="Leave it out if the function does not repeat.")  # fmt: skip
    values = alike(values, knots, "interp")
    checks = require(
        knots._shape[0], constant(1), "interp: there are no points.", relation=">=",
        hint="Give the coordinates of one at least.",
    )  # fmt: skip
    values = checked(values, checks) if checks else values
    values = values.astype(complex if values.types[0].is_complex else float)
    if period is not None:
        at, knots = at % abs(period), knots % abs(period)
        order = argsort(knots)
        knots, values = take(knots, order), take(values, order)
        knots = concatenate([knots[-1:] - abs(period), knots, knots[:1] + abs(period)])
        values = concatenate([values[-1:], values, values[:1]])
    last = knots.shape[0] - 1
    below = clip(searchsorted(knots, at, side="right") - 1, 0, last)
    above = minimum(below + 1, last)
    x0, x1 = take(knots, below), take(knots, above)
    y0, y1 = take(values, below), take(values, above)
    slope = (y1 - y0) / where(x1 == x0, 1.0, x1 - x0)
    found = slope * (at - x0) + y0
    found = where(isnan(found), slope * (at - x1) + y1, found)  # as NumPy beside infinities
    at_a_point = (at == x0) & ~isfinite(slope)  # elsewhere the line has a derivative there, too
    found = where(at_a_point | (isnan(found) & (y0 == y1)), y0, found)
    first, end = take(knots, 0 * below), take(knots, 0 * below + last)
    found = where(at < first, values[0] if left is None else left, found)
    found = where(at > end, values[-1] if right is None else right, found)
    return where(isnan(at), np.nan, found)


later.offer(nonzero=nonzero)
