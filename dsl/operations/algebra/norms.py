"""Norms of vectors and matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...annotations import ArrayLike, AxisLike
from ...array import Array, require_scalars
from ...errors import ShapeError, TracingError
from ...frontend.sources import as_array
from ...frontend.tracing import forbid_nesting
from ...scalar import refuse_traced
from ...types import float64
from ..common import normalise_axes, normalise_axis, operation
from ..elements import functions as f
from ..indexing import index_space
from ..reducing import reductions
from . import decompositions, products as products


@operation
def vector_norm(
    x: ArrayLike,
    /,
    *,
    axis: AxisLike | None = None,
    keepdims: bool = False,
    ord: str | float | None = 2,
) -> Array:
    """The norm of vectors along an axis, or over several axes as if they were one; of all elements
    by default.  Orders as for `norm`.

    Parameters
        x: an array of any shape.
        ord: which norm; default 2: Euclidean.

    Result: an array without these axes.

    >>> print(td.run(td.linalg.vector_norm(np.array([3.0, 4.0]))))
    5.0
    """
    refuse_traced("linalg.vector_norm", ord=ord)
    array = _numbers(x, "vector_norm")
    axes = normalise_axes(axis, array.ndim, "linalg.vector_norm")
    return _vector_norm(array, ord, axes, keepdims)


@operation
def matrix_norm(
    x: ArrayLike, /, *, keepdims: bool = False, ord: str | float | None = "fro"
) -> Array:
    """The norms of matrices in the last two axes.  Orders as for `norm`.

    Parameters
        ord: which norm; default "fro": Frobenius.

    >>> print(td.run(td.linalg.matrix_norm(np.array([[3.0, 0.0], [0.0, 4.0]]))))
    5.0
    """
    refuse_traced("linalg.matrix_norm", ord=ord)
    array = _numbers(decompositions.matrices(x, "matrix_norm"), "matrix_norm")
    return _matrix_norm(array, ord, (array.ndim - 2, array.ndim - 1), keepdims)


@operation
def norm(
    x: ArrayLike,
    ord: str | float | None = None,
    axis: AxisLike | None = None,
    keepdims: bool = False,
) -> Array:
    """The norm of vectors (along one axis) or of matrices (over two axes), by default of all
    elements, as numpy.linalg.norm.

    Vectors: ord None or 2 (Euclidean), 1, inf, -inf, 0 (the number of nonzero elements) or another
    number p, (Σ |x|ᵖ)^(1/p).  Matrices: None or "fro" (Frobenius), 1 and -1 (the largest and the
    smallest column sum), inf and -inf (row sums), 2 and -2 (singular values), "nuc" (their sum).

    Parameters
        ord: which norm, as NumPy's; default: Euclidean.
        axis: the axis, from −rank to rank − 1; default None: all elements, or the last two of a
            matrix.

    Result: an array of real numbers without the axes; of rank 0 for all elements.

    >>> print(td.run(td.linalg.norm(np.array([3.0, 4.0]))))
    5.0
    """
    refuse_traced("linalg.norm", ord=ord)
    array = _numbers(x, "norm")
    if axis is None and ord is None:
        axes: tuple[int, ...] = tuple(range(array.ndim))
        return _euclidean(array, axes, keepdims)
    axes = _given_axes(axis, array.ndim)
    if len(axes) == 1:
        return _vector_norm(array, ord, axes, keepdims)
    if len(axes) == 2:
        return _matrix_norm(array, ord, (axes[0], axes[1]), keepdims)
    raise ShapeError(
        f"linalg.norm: ord={ord!r} is of vectors or matrices, got {len(axes)} axes.",
        hint="Name one axis, or two of matrices: axis=(-2, -1).",
    )


def _numbers(x: ArrayLike, of: str) -> Array:
    """An operand of inexact numbers; integers become float64."""
    forbid_nesting(f"linalg.{of}")
    array = as_array(x, f"linalg.{of}")
    require_scalars(array, f"linalg.{of}")
    return array if array.types[0].is_inexact else array.astype(float64)


def _given_axes(axis: AxisLike | None, ndim: int) -> tuple[int, ...]:
    """The axes in the order given, which matters for matrices."""
    if axis is None:
        return tuple(range(ndim))
    normalise_axes(axis, ndim, "linalg.norm")
    given = axis if isinstance(axis, tuple | list) else (axis,)
    return tuple(normalise_axis(k, ndim, "linalg.norm") for k in given)


def _euclidean(array: Array, axes: AxisLike, keepdims: bool) -> Array:
    if array.types[0].is_complex:
        re, im = f.real(array), f.imag(array)
        squares = re * re + im * im
    else:
        squares = array * array
    return reductions.root(reductions.sum(squares, axes, keepdims), 2)


def _vector_norm(
    array: Array, ord: str | float | None, axis: tuple[int, ...], keepdims: bool
) -> Array:
    if ord is None or ord == 2:
        return _euclidean(array, axis, keepdims)
    if isinstance(ord, str) or not isinstance(ord, int | float | np.number):
        raise _unknown_order(ord, "a vector", "None, 1, 2, inf, -inf, 0 or another number")
    size = f.abs(array)
    if ord == np.inf:
        return decompositions.largest(size, axis, keepdims)
    if ord == -np.inf:
        return reductions.min(size, axis, keepdims)
    if ord == 0:
        counted = (array != 0).astype(size.types[0])
        return reductions.sum(counted, axis, keepdims)
    if ord == 1:
        return reductions.sum(size, axis, keepdims)
    power = float(ord)
    total: Array = reductions.sum(size**power, axis, keepdims)
    return reductions.root(total, power) if power > 0 else total ** (1 / power)


def _matrix_norm(
    array: Array, ord: str | float | None, axes: tuple[int, int], keepdims: bool
) -> Array:
    rows, columns = axes
    if ord is None or ord == "fro":
        return _euclidean(array, axes, keepdims)
    if ord in ("nuc", 2, -2):
        rest = [k for k in range(array.ndim) if k not in axes]
        values = decompositions.svd(
            index_space.transpose(array, (*rest, rows, columns)), compute_uv=False
        )
        reduce: Any = {"nuc": reductions.sum, 2: decompositions.largest, -2: reductions.min}[ord]
        found: Array = reduce(values, -1)
        for k in sorted(axes) if keepdims else ():
            found = found[(slice(None),) * k + (None,)]
        return found
    sums = {1: (rows, columns), -1: (rows, columns), np.inf: (columns, rows),
            -np.inf: (columns, rows)}  # fmt: skip
    if isinstance(ord, str) or ord not in sums:
        raise _unknown_order(ord, "matrices", 'None, "fro", "nuc", 1, -1, 2, -2, inf or -inf')
    added, other = sums[ord]
    total = reductions.sum(f.abs(array), added, True)
    extreme = decompositions.largest if ord > 0 else reductions.min
    kept = tuple(0 if k in axes else slice(None) for k in range(array.ndim))
    norms: Array = extreme(total, other, True)
    if not keepdims:
        norms = norms[kept]
    return norms


def _unknown_order(ord: str | float | None, of: str, orders: str) -> TracingError:
    return TracingError(
        f"linalg.norm: there is no norm of order {ord!r} of {of}.", hint=f"Orders: {orders}."
    )
