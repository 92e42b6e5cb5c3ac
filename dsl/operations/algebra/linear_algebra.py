"""`td.linalg`: linear algebra on matrices in the last two axes, with numpy.linalg's names.

Arguments have any leading axes, which broadcast where there are two.  Results have the operands'
type: float32, float64, complex64 or complex128; integers are converted to float64.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...annotations import ArrayLike, AxisLike, DTypeLike
from ...array import Array
from ...errors import LinAlgError, ShapeError
from ...expr import constant
from ...frontend.sources import as_array
from ...frontend.tracing import forbid_nesting
from ...graph import Check
from ...shapes import require
from ..common import checked, normalise_axis, operation, whole_number
from ..elements import functions as f
from ..indexing import index_space, joining, making
from ..reducing import reductions
from . import decompositions, products as products
from .decompositions import (
    cholesky,
    det,
    eigh,
    eigvalsh,
    inv,
    lstsq,
    lu,
    matrix_rank,
    pinv,
    qr,
    slogdet,
    solve,
    solve_triangular,
    svd,
    svdvals,
)
from .norms import matrix_norm, norm, vector_norm

__all__ = ["LinAlgError", "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv",
           "lstsq", "lu", "matmul", "matrix_norm", "matrix_power", "matrix_rank",
           "matrix_transpose", "norm", "outer", "pinv", "qr", "slogdet", "solve",
           "solve_triangular", "svd", "svdvals", "tensordot", "trace", "vecdot",
           "vector_norm"]  # fmt: skip


@operation
def trace(a: ArrayLike, *, offset: int = 0, dtype: DTypeLike | None = None) -> Array:
    """The sums of the diagonals of matrices (…, m, n), `offset` above the main one, as NumPy's
    (small integers are added in 64 bits), in type `dtype` if given.

    Result: an array (…), of rank 0 for one matrix.

    >>> print(td.run(td.linalg.trace(np.array([[1, 2], [3, 4]]))))
    5
    """
    found = index_space.diagonal(decompositions.matrices(a, "trace"), offset, -2, -1)
    if dtype is not None:
        found = found.astype(dtype)
    return reductions.sum(found, -1)


@operation
def diagonal(x: ArrayLike, /, *, offset: int = 0) -> Array:
    """The diagonals of matrices (…, m, n), `offset` above the main one: the last axis.

    Result: an array (…, k), of the k elements of a diagonal.

    >>> td.run(td.linalg.diagonal(np.array([[1, 2], [3, 4]])))
    array([1, 4])
    """
    return index_space.diagonal(decompositions.matrices(x, "diagonal"), offset, -2, -1)


@operation
def matrix_power(a: ArrayLike, n: int) -> Array:
    """The n-th power of square matrices (…, m, m), by repeated squaring; the inverse's for n < 0.

    Parameters
        n: an integer.

    Result: matrices (…, m, m).

    >>> td.run(td.linalg.matrix_power(np.array([[1, 1], [1, 0]]), 10))
    array([[89, 55],
           [55, 34]])
    """
    n = whole_number(n, "linalg.matrix_power", "n", "Write td.linalg.matrix_power(a, 3).")
    array = decompositions.matrices(a, "matrix_power")
    checks = decompositions.square(array, "matrix_power")
    if checks:
        array = checked(array, checks)
    if n == 0:
        size = array.shape[-1]
        unit = making.eye(size, dtype=array.types[0].numpy)
        return index_space.broadcast_to(unit, array.shape)
    if n < 0:
        array, n = inv(array), -n
    result: Array | None = None
    square, left = array, int(n)
    while left:
        if left % 2:
            result = square if result is None else products.matmul(result, square)
        left //= 2
        if left:
            square = products.matmul(square, square)
    assert result is not None
    return result


@operation
def outer(x1: ArrayLike, x2: ArrayLike) -> Array:
    """All products of an element of `x1` (m,) and one of `x2` (n,): (m, n).

    Parameters
        x1: a vector (m,).
        x2: a vector (n,).

    Result: an array (a.size, b.size).

    >>> td.run(td.linalg.outer(np.array([1, 2]), np.array([3, 4])))
    array([[3, 4],
           [6, 8]])
    """
    x, y = as_array(x1, "linalg.outer"), as_array(x2, "linalg.outer")
    if x.ndim != 1 or y.ndim != 1:
        raise ShapeError(
            f"linalg.outer takes two vectors, got arrays of rank {x.ndim} and {y.ndim}.",
            hint="td.outer flattens its arguments.",
        )
    return products.outer(x, y)


@operation
def vecdot(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Array:
    """Σ conj(x1) · x2 along an axis, in the type of the products; the others broadcast.

    >>> td.run(td.linalg.vecdot(np.array([[1, 2], [3, 4]]), np.array([1, 1])))
    array([3, 7])
    """
    x, y = as_array(x1, "linalg.vecdot"), as_array(x2, "linalg.vecdot")
    checks = require(
        x._shape[normalise_axis(axis, x.ndim, "linalg.vecdot")],
        y._shape[normalise_axis(axis, y.ndim, "linalg.vecdot")],
        "linalg.vecdot: the vectors have {left} and {right} elements.",
        hint="They have equally many; the other axes broadcast.",
    )
    x = checked(x, checks) if checks else x
    x = f.conj(x) if x.types[0].is_complex else x
    terms = x * y
    t = terms.types[0]
    if t.family == "bool":
        return reductions.any(terms, axis)
    found = reductions.sum(terms, axis)
    return found if found.types[0] == t else found.astype(t)


@operation
def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Array:
    """The vector products of vectors of three elements along an axis; the others broadcast.

    >>> td.run(td.linalg.cross(np.array([1, 0, 0]), np.array([0, 1, 0])))
    array([0, 0, 1])
    """
    forbid_nesting("linalg.cross")
    parts: list[list[Array]] = []
    checks: tuple[Check, ...] = ()
    for given in (x1, x2):
        array = as_array(given, "linalg.cross")
        k = normalise_axis(axis, array.ndim, "linalg.cross")
        checks += require(
            array._shape[k], constant(3),
            "linalg.cross takes vectors of three elements, got {left}.",
            hint="Their axis is axis= (default: the last).",
        )  # fmt: skip
        array = checked(array, checks) if checks else array
        parts.append([array[(slice(None),) * k + (i,)] for i in range(3)])
    (a, b, c), (x, y, z) = parts
    found = joining.stack([b * z - c * y, c * x - a * z, a * y - b * x], -1)
    last = normalise_axis(axis, found.ndim, "linalg.cross")
    if last == found.ndim - 1:
        return found
    order = [*range(found.ndim - 1)]
    order.insert(last, found.ndim - 1)
    return index_space.transpose(found, order)


@operation
def matmul(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """`td.matmul`, which has more arguments: products of matrices in the last two axes.

    Parameters
        x1: matrices (…, m, k), or a vector (k,).
        x2: matrices (…, k, n), or a vector (k,).

    Result: an array (…, m, n), without the axis of a vector.

    Errors: `ShapeError` if the extents do not agree.

    >>> td.linalg.matmul(np.array([[1, 2], [3, 4]]), np.array([1, 1]))
    Array([3, 7])
    """
    return products.matmul(x1, x2)


@operation
def tensordot(x1: ArrayLike, x2: ArrayLike, /, *, axes: int | Sequence[AxisLike] = 2) -> Array:
    """`td.tensordot`: sums of products over the last axes of `x1` and the first of `x2`, or over
    given pairs of axes.

    Parameters
        x1: an array of any shape.
        x2: an array of any shape.
        axes: how many axes are summed over, or a pair of lists of them, those of `x1` and those of
            `x2`; default 2.

    Result: an array with the other axes of `x1`, then those of `x2`.

    Errors: `ShapeError` if the extents do not agree.

    >>> td.linalg.tensordot(np.array([[1, 2], [3, 4]]), np.array([1, 1]), axes=1)
    Array([3, 7])
    """
    return products.tensordot(x1, x2, axes)


@operation
def matrix_transpose(x: ArrayLike, /) -> Array:
    """The matrices in the last two axes, transposed.

    >>> td.run(td.linalg.matrix_transpose(np.array([[1, 2], [3, 4]])))
    array([[1, 3],
           [2, 4]])
    """
    return decompositions.matrices(x, "matrix_transpose").mT
