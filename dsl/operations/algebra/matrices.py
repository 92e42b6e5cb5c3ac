"""Matrices made of other arrays: diagonals, triangles, grids, Kronecker and cross products."""

from __future__ import annotations

from typing import Any, Literal

from ...annotations import ArrayLike, DTypeLike, IntLike
from ...array import Array
from ...errors import ShapeError, TracingError
from ...frontend.sources import as_array
from ...graph import known
from ...scalar import Scalar, as_count
from ...types import as_type, int64, promote
from ..common import combining, operation, whole_number
from ..control import cond
from ..elements.functions import where
from ..elements.mapping import imap
from ..indexing.index_space import broadcast_to, diagonal, flatten, reshape, transpose
from ..indexing.joining import stack
from ..indexing.making import eye, generate, ones_like
from ..reducing.recurrences import scan
from ..reducing.reductions import sum as sum_
from . import linear_algebra

__all__ = ["cross", "diag", "diagflat", "identity", "kron", "meshgrid", "trace", "tri", "tril",
           "triu", "vander", "vecdot"]  # fmt: skip

#: A Vandermonde matrix of more columns is a scan over the powers.
_MOST_POWERS = 32


@operation
def identity(n: IntLike, dtype: DTypeLike = float) -> Array:
    """The n × n identity matrix, `eye(n)`.

    Parameters
        n: the number of rows and columns.

    Result: an array (n, n).

    >>> td.identity(2)
    Array([[1., 0.],
           [0., 1.]])
    """
    return eye(n, dtype=dtype)


@operation
def diag(a: ArrayLike, k: int = 0) -> Array:
    """The k-th diagonal of a matrix; of an array of rank 1 the matrix with this diagonal.

    Result: an array of rank 1 for a matrix, a square matrix for an array of rank 1.

    >>> td.diag(np.array([1, 2]))
    Array([[1, 0],
           [0, 2]])
    """
    array = as_array(a, "diag")
    if array.ndim == 2:
        return diagonal(array, k)
    if array.ndim != 1:
        raise ShapeError(
            f"diag takes an array of rank 1 or 2, got rank {array.ndim}.",
            hint="td.diagonal(a, axis1=…, axis2=…) takes higher ranks.",
        )
    k = whole_number(k, "diag", "k")
    n, above = array.shape[0] + abs(k), max(-k, 0)
    zero = array.types[0](0)
    return generate((n, n), lambda i, j: cond(j - i == k, array[i - above], zero))


@operation
def diagflat(a: ArrayLike, k: int = 0) -> Array:
    """The matrix whose k-th diagonal has the elements of the flattened array.

    Result: a square matrix with size + |k| rows, zeros elsewhere.

    >>> td.diagflat(np.array([3, 1, 2]), 1).shape
    (4, 4)
    """
    return diag(flatten(as_array(a, "diagflat")), k)


@operation
def trace(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The sum of a diagonal over two axes, in the type of `sum`.

    Result: an array without the two axes; of rank 0 for a matrix.

    >>> td.trace(np.array([[1, 2], [3, 4]]))
    Array(5)
    """
    return sum_(diagonal(a, offset, axis1, axis2), axis=-1)


@operation
def tri(n: IntLike, m: IntLike | None = None, k: int = 0, dtype: DTypeLike = float) -> Array:
    """Ones at and below the k-th diagonal of an n × m matrix, zeros above.

    >>> td.tri(2)
    Array([[1., 0.],
           [1., 1.]])
    """
    one, zero = as_type(dtype)(1), as_type(dtype)(0)
    above = Scalar(as_count(k, "tri"))
    return generate((n, n if m is None else m), lambda i, j: where(j - i <= above, one, zero))


@operation
def tril(a: ArrayLike, k: int = 0) -> Array:
    """The elements at and below the k-th diagonal of the last two axes, zeros above.

    >>> td.tril(np.array([[1, 2], [3, 4]]))
    Array([[1, 0],
           [3, 4]])
    """
    return _triangle(a, k, "tril", lower=True)


@operation
def triu(a: ArrayLike, k: int = 0) -> Array:
    """The elements at and above the k-th diagonal of the last two axes, zeros below.

    >>> td.triu(td.ones((2, 2)))
    Array([[1., 1.],
           [0., 1.]])
    """
    return _triangle(a, k, "triu", lower=False)


def _triangle(a: ArrayLike, k: int, operation: str, lower: bool) -> Array:
    array = as_array(a, operation)
    if array.ndim == 1:  # as in NumPy: each row of a square
        array = broadcast_to(array, (array.shape[0], array.shape[0]))
    if array.ndim < 1:
        raise ShapeError(f"{operation} needs rank 1 at least, got 0.", hint="Give it a matrix.")
    zero, above = array.types[0](0), Scalar(as_count(k, operation))

    def element(*given: Any) -> Any:  # the indices, then the element
        i, j, x = given[-3:]
        return where(j - i <= above if lower else j - i >= above, x, zero)

    return imap(element, array)


@operation
def vander(x: ArrayLike, N: int | None = None, increasing: bool = False) -> Array:
    """The Vandermonde matrix: column j has x ** (N − 1 − j), or x ** j if `increasing`.

    `N` must be known (a Python number, or the extent of data) and defaults to the extent of `x`.

    Parameters
        N: the number of columns; default: as many as elements.
        increasing: whether powers increase from left to right; default False.

    Result: an array (n, N) for `x` of n elements.

    >>> td.vander(np.array([3, 1, 2]))
    Array([[9, 3, 1],
           [1, 1, 1],
           [4, 2, 1]])
    """
    array = as_array(x, "vander")
    if array.ndim != 1:
        raise ShapeError(
            f"vander takes an array of rank 1, got rank {array.ndim}.",
            hint="Flatten it: td.vander(td.flatten(a)).",
        )
    columns = known(array._shape[0]) if N is None else whole_number(N, "vander", "N", least=0)
    if columns is None:
        raise TracingError(
            "vander: the number of columns is a run-time value.", hint="Give it: N=4."
        )
    array = array.astype(promote(array.types[0], False, int64, False)[0])  # as NumPy's
    if not 0 < columns <= _MOST_POWERS:
        _, rows = scan(lambda power, _: (power * array, power), ones_like(array), length=columns)
        return transpose(rows if increasing else rows[::-1])
    powers: list[Any] = [ones_like(array)]
    for _ in range(1, int(columns)):
        powers.append(powers[-1] * array)
    return stack(powers if increasing else powers[::-1], axis=1)


@operation
def meshgrid(
    *arrays: ArrayLike, indexing: Literal["xy", "ij"] = "xy", sparse: bool = False
) -> tuple[Array, ...]:
    """Coordinate matrices of arrays of rank 1: the k-th result has the values of the k-th array
    along its axis, and repeats them along the others (`sparse`: has extent 1 there).

    `indexing="xy"` swaps the first two axes, as in NumPy.

    Parameters
        *arrays: 1-D arrays.
        indexing: "xy" (default) or "ij": whether the first array varies along the second axis or
            the first.

    Result: a tuple of as many arrays as were given, each with an axis for each of them.

    >>> td.meshgrid(td.iota(3), td.iota(2))[1]
    Array([[0, 0, 0],
           [1, 1, 1]])
    """
    if indexing not in ("xy", "ij"):
        raise TracingError(
            f"meshgrid: indexing is 'xy' or 'ij', got {indexing!r}.",
            hint='"ij" keeps the order of the axes.',
        )
    made = [reshape(as_array(a, "meshgrid"), -1) for a in arrays]
    rank, swapped = len(made), indexing == "xy" and len(made) > 1
    axes = [1 - k if swapped and k < 2 else k for k in range(rank)]
    shape: list[Any] = [1] * rank
    for a, axis in zip(made, axes, strict=True):
        shape[axis] = a.shape[0]
    found = []
    for a, axis in zip(made, axes, strict=True):
        own = reshape(a, [a.shape[0] if k == axis else 1 for k in range(rank)])
        found.append(own if sparse else broadcast_to(own, shape))
    return tuple(found)


@operation
def kron(a: ArrayLike, b: ArrayLike) -> Array:
    """The Kronecker product: every element of `a` times all of `b`, with the higher rank.

    Parameters
        b: an array.

    Result: an array whose extents are the products of the operands'.

    >>> td.kron(np.array([1, 10]), np.array([1, 2]))
    Array([ 1,  2, 10, 20])
    """
    left, right = as_array(a, "kron"), as_array(b, "kron")
    rank = max(left.ndim, right.ndim)
    m = [1] * (rank - left.ndim) + list(left.shape)
    n = [1] * (rank - right.ndim) + list(right.shape)
    left = reshape(left, [e for pair in zip(m, [1] * rank, strict=True) for e in pair])
    right = reshape(right, [e for pair in zip([1] * rank, n, strict=True) for e in pair])
    return reshape(left * right, [x * y for x, y in zip(m, n, strict=True)])


@operation
def cross(a: ArrayLike, b: ArrayLike, axis: int = -1) -> Array:
    """The vector product of three-dimensional vectors along an axis; the others broadcast.

    `ShapeError` if the extent of the axis is not 3.

    >>> td.cross(np.array([1, 0, 0]), np.array([0, 1, 0]))
    Array([0, 0, 1])
    """
    return linear_algebra.cross(a, b, axis=axis)


@combining
def vecdot(x1: ArrayLike, x2: ArrayLike, axis: int = -1) -> Array:
    """The sum of conj(x1) · x2 along an axis, in the type of the products; the others broadcast.

    >>> td.vecdot(np.array([[1, 2], [3, 4]]), np.array([1, 1]))
    Array([3, 7])
    """
    return linear_algebra.vecdot(x1, x2, axis=axis)
