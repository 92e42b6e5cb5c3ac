"""Polynomials as arrays of rank 1 of their coefficients, the highest power first."""

from __future__ import annotations

from typing import Literal, NamedTuple, overload

import numpy as np

from ...annotations import ArrayLike, IntLike, ScheduleLike
from ...array import Array
from ...errors import ShapeError, TracingError
from ...frontend.sources import as_array
from ...graph import known
from ...types import promote
from ..common import alike, operation, unrolled, whole_number
from ..control import cond, loop
from ..elements import functions as fn
from ..elements.mapping import imap
from ..indexing.index_space import broadcast_to, expand_dims, reshape
from ..indexing.joining import concatenate
from ..indexing.making import generate, iota, unit, zeros
from ..reducing.reductions import sum as sum_
from ..stencils import convolve
from . import linear_algebra
from .matrices import vander

__all__ = ["poly", "polyadd", "polyder", "polydiv", "polyfit", "polyint", "polymul", "polysub",
           "polyval"]  # fmt: skip


def _coefficients(p: ArrayLike, operation: str) -> Array:
    array = as_array(p, operation)
    if array.ndim > 1:
        raise ShapeError(
            f"{operation} takes coefficients of rank 1, got rank {array.ndim}.",
            hint="A polynomial is the array of its coefficients, the highest power first.",
        )
    return reshape(array, -1) if array.ndim == 0 else array


def _aligned(p: Array, count: IntLike) -> Array:
    """The polynomial with `count` coefficients."""
    if p.shape[0] is count or (isinstance(count, int) and known(p._shape[0]) == count):
        return p
    more, zero = count - p.shape[0], p.types[0](0)
    return generate((count,), lambda k: cond(k >= more, p[k - more], zero))


def _both(a: ArrayLike, b: ArrayLike, operation: str) -> tuple[Array, Array]:
    left, right = _coefficients(a, operation), _coefficients(b, operation)
    m, n = left.shape[0], right.shape[0]
    count = max(m, n) if isinstance(m, int) and isinstance(n, int) else fn.maximum(m, n)
    return _aligned(left, count), _aligned(right, count)


@operation
def polyadd(a1: ArrayLike, a2: ArrayLike) -> Array:
    """The sum of two polynomials, with the number of coefficients of the longer one.

    >>> td.polyadd(np.array([1, 2]), np.array([9, 5, 4]))
    Array([9, 6, 6])
    """
    left, right = _both(a1, a2, "polyadd")
    return left + right


@operation
def polysub(a1: ArrayLike, a2: ArrayLike) -> Array:
    """The difference of two polynomials, with the number of coefficients of the longer one.

    >>> td.polysub([1, 2], np.array([3, 1, 2]))
    Array([-3,  0,  0])
    """
    left, right = _both(a1, a2, "polysub")
    return left - right


@operation
def polymul(a1: ArrayLike, a2: ArrayLike) -> Array:
    """The product of two polynomials: m + n − 1 coefficients.

    Leading zeros of the operands stay (NumPy removes them: its extent depends on the values).  The
    product is `convolve` in the mode "full", what it says of inf and NaN included.

    >>> td.polymul(np.array([1, 2]), np.array([1, -2]))
    Array([ 1,  0, -4])
    """
    left, right = _coefficients(a1, "polymul"), _coefficients(a2, "polymul")
    return convolve(left, right, mode="full", method="direct")


class Division(NamedTuple):
    """The result of `polydiv`."""

    quotient: Array
    remainder: Array


@operation
def polydiv(u: ArrayLike, v: ArrayLike) -> Division:
    """The quotient and the remainder of polynomials, in floats.

    The quotient has max(m − n + 1, 1) coefficients; the remainder has those of `u`, its leading
    zeros included (NumPy removes them: its extent depends on the values).

    Parameters
        u: the coefficients of the dividend, highest power first.
        v: the coefficients of the divisor.

    Result: a named tuple (quotient, remainder) of arrays of coefficients, highest power first.

    >>> td.polydiv(np.array([3.0, 5.0, 2.0]), np.array([2.0, 1.0])).quotient
    Array([1.5 , 1.75])
    """
    above, below = _coefficients(u, "polydiv") + 0.0, _coefficients(v, "polydiv") + 0.0
    kind = promote(above.types[0], False, below.types[0], False)[0]
    above, below = above.astype(kind), below.astype(kind)
    m, n = above.shape[0], below.shape[0]
    static = isinstance(m, int) and isinstance(n, int)
    count = max(m - n + 1, 1) if static else fn.maximum(m - n + 1, 1)
    steps = max(m - n + 1, 0) if static else fn.maximum(m - n + 1, 0)

    def step(k: IntLike, state: tuple[Array, Array]) -> tuple[Array, Array]:
        quotient, rest = state
        d = rest[k] * (1.0 / below[0])

        def less(i: IntLike) -> ArrayLike:
            inside = (i >= k) & (i < k + n)
            found: ArrayLike = rest[i] - d * cond(inside, below[i - k], kind(0))
            return found

        return quotient.at[k].set(d), generate((m,), less)

    return Division(*loop(steps, step, (zeros(count, kind), above)))


@operation
def polyval(p: ArrayLike, x: ArrayLike) -> Array:
    """The values of a polynomial at the elements of `x`, by Horner's rule: one kernel.

    >>> td.polyval(np.array([3, 0, 1]), 5)
    Array(76)
    """
    table, points = _coefficients(p, "polyval"), as_array(x, "polyval")
    kind = promote(table.types[0], False, points.types[0], False)[0]
    n = table.shape[0]

    def value(*at: IntLike) -> ArrayLike:
        here = fn.cast(points[at], kind)
        found: ArrayLike = loop(n, lambda k, s: s * here + fn.cast(table[k], kind), kind(0))
        return found

    return generate(points.shape, value)


@operation
def polyder(p: ArrayLike, m: int = 1) -> Array:
    """The m-th derivative: m coefficients fewer.

    >>> td.polyder(np.array([1, 1, 1, 1]))
    Array([3, 2, 1])
    """
    array = _coefficients(p, "polyder")
    m = _order(m, "polyder")
    if m == 0:
        return array
    n, count = array.shape[0], array[m:].shape[0]
    first = array[:count] * (n - 1 - iota(count))
    if m == 1 or known(first._shape[0]) == 0:
        return first
    # The coefficient of x^power, times power, power - 1, …
    more = min(m, 1 << 62) - 1
    return imap(lambda j, a: loop(more, lambda k, a: a * first.types[0](n - 2 - j - k), a), first)


def _order(m: object, operation: str) -> int:
    return whole_number(m, operation, "m", "Write m=1, or leave it out.", least=0)


@operation
def polyint(p: ArrayLike, m: int = 1, k: ArrayLike | None = None) -> Array:
    """The m-th antiderivative, in floats: m coefficients more.

    `k`: the constants of integration, the first for the highest power; one number stands for all
    (default: 0).

    Parameters
        k: the constants of integration; default 0.

    >>> td.polyint(np.array([4.0, 1.0]), k=3)
    Array([2., 1., 3.])
    """
    array = _coefficients(p, "polyint")
    m = _order(m, "polyint")
    constants = _coefficients(0.0 if k is None else k, "polyint")
    given = known(constants._shape[0])
    if given not in (1, None, m):
        raise ShapeError(
            f"polyint: {given} constants of integration for m={m}.", hint="Give one, or m of them."
        )
    if m == 0:
        return array
    unrolled(m, "polyint", "m")
    n = array.shape[0]
    some = broadcast_to(constants, (m,)) if given == 1 else constants
    first = concatenate([array / (n - iota(n)), some])
    kind = first.types[0]

    def divided(j: IntLike, value: ArrayLike) -> ArrayLike:
        done = fn.maximum(1, j - n + 1)  # the constants are appended one after the other
        return loop(m - done, lambda k, v: v / kind(n + done + k - j), value)

    return first if m == 1 else imap(divided, first)


@operation
def poly(seq_of_zeros: ArrayLike) -> Array:
    """The polynomial with these zeros, whose highest coefficient is 1.

    Complex zeros give complex coefficients (NumPy: real ones if the zeros come in conjugate pairs).

    Parameters
        seq_of_zeros: the roots (a number is one), or a square matrix.

    Result: an array of one coefficient more than there are zeros, the highest power first.

    >>> td.poly(np.array([1, 2]))
    Array([ 1., -3.,  2.])
    """
    array = as_array(seq_of_zeros, "poly")
    if array.ndim > 1:
        raise TracingError(
            "poly of a matrix needs its eigenvalues.",
            hint="Of a symmetric matrix: td.poly(td.linalg.eigh(a)[0]).",
        )
    array = _coefficients(array, "poly")
    if not array.types[0].is_inexact:
        array = array.astype(float)
    if known(array._shape[0]) == 0:  # as in NumPy: a number
        return unit(1.0)
    n, kind = array.shape[0], array.types[0]
    one = concatenate([generate((1,), lambda k: kind(1)), zeros(n, kind)])

    def step(k: IntLike, made: Array) -> Array:
        def value(j: IntLike) -> ArrayLike:
            below = cond(j > 0, made[j - 1], kind(0))
            found: ArrayLike = made[j] - array[k] * below
            return found

        return generate(made.shape, value)

    return loop(n, step, one)


@overload
def polyfit(
    x: ArrayLike,
    y: ArrayLike,
    deg: int,
    rcond: float | None = None,
    w: ArrayLike | None = None,
    cov: Literal[False] = False,
    *,
    name: str | None = None,
    schedule: ScheduleLike | None = None,
) -> Array: ...
@overload
def polyfit(
    x: ArrayLike,
    y: ArrayLike,
    deg: int,
    rcond: float | None = None,
    w: ArrayLike | None = None,
    *,
    cov: Literal[True, "unscaled"],
    name: str | None = None,
    schedule: ScheduleLike | None = None,
) -> tuple[Array, Array]: ...
@operation
def polyfit(
    x: ArrayLike,
    y: ArrayLike,
    deg: int,
    rcond: float | None = None,
    w: ArrayLike | None = None,
    cov: bool | Literal["unscaled"] = False,
) -> Array | tuple[Array, Array]:
    """The coefficients of the polynomial of degree `deg` that is nearest to the points (x, y): the
    sum of the squares of the differences (weighted by `w`) is least; of rank 2, `y` has a column
    for each of several polynomials.

    `rcond`: singular values below this part of the largest count as 0 (default: the extent of `x`
    times the precision).  `ShapeError` if the extents of `x` and `y` differ.

    Parameters
        deg: the degree.
        w: weights of the points; default 1.
        cov: whether the covariances of the coefficients are a second result, scaled by the sum of
            the squares over the degrees of freedom; "unscaled": for weights that are 1/σ; default
            False.

    Result: an array (deg + 1,), or (deg + 1, columns) for several polynomials, highest power first;
        with `cov` a pair: this, and an array (deg + 1, deg + 1), or one for each column along a
        third axis ("unscaled": of extent 1).

    >>> fit = td.polyfit(np.array([0.0, 1.0, 2.0]), np.array([1.0, 3.0, 5.0]), 1)
    >>> td.round(fit, 6)
    Array([2., 1.])
    """
    points, values = as_array(x, "polyfit") + 0.0, as_array(y, "polyfit") + 0.0
    deg = whole_number(deg, "polyfit", "deg", "td.polyfit(x, y, 2) fits a parabola.", least=0)
    if points.ndim != 1 or values.ndim not in (1, 2):
        raise ShapeError(
            f"polyfit takes x of rank 1 and y of rank 1 or 2, got ranks {points.ndim} and "
            f"{values.ndim}.",
            hint="td.polyfit(x, y, 2) fits a parabola.",
        )
    if rcond is None:
        extent = known(points._shape[0])
        if extent is not None:
            rcond = float(extent * np.finfo(points.dtype).eps)
    powers = vander(points, deg + 1)
    if w is not None:
        by = alike(as_array(w, "polyfit"), points, "polyfit") + 0.0
        powers = powers * by[:, None]
        values = values * (by[:, None] if values.ndim == 2 else by)
    scale = fn.sqrt(sum_(powers * powers, axis=0))
    scaled = powers / scale
    found = linear_algebra.lstsq(scaled, values, rcond)[0]
    fit = found / (expand_dims(scale, 1) if values.ndim == 2 else scale)
    if cov is False:
        return fit
    if cov is not True and cov != "unscaled":
        raise TracingError(
            f'polyfit: cov is True or "unscaled", got {cov!r}.',
            hint="fit, covariances = td.polyfit(x, y, 2, cov=True).",
        )
    base = linear_algebra.inv(scaled.T @ scaled) / (expand_dims(scale, 1) * scale)
    if cov is True:
        rest = sum_((values - scaled @ found) ** 2, axis=0) / (points.shape[0] - (deg + 1))
        base = base * rest if values.ndim == 1 else expand_dims(base, 2) * rest
    elif values.ndim == 2:
        base = expand_dims(base, 2)
    return fit, base
