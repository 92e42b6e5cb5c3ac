"""Arrays of indices: of grids, diagonals and triangles; positions in a flattened array."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from ...annotations import ArrayLike, DTypeLike, IntLike, ShapeLike, Value
from ...array import Array
from ...errors import DTypeError, ShapeError, TracingError
from ...frontend.sources import as_array
from ...scalar import Scalar, as_index
from ...shapes import as_shape, extents
from ...types import as_type
from ..common import integer, operation, whole_number
from ..elements import functions as fn
from ..reducing.quantiles import flatnonzero, nonzero
from ..reducing.scans import scanl
from ..reducing.searching import searchsorted
from .index_space import reshape
from .joining import stack
from .making import generate, iota, ones

__all__ = ["diag_indices", "diag_indices_from", "fromfunction", "indices", "ix_", "mask_indices",
           "ravel_multi_index", "tril_indices", "tril_indices_from", "triu_indices",
           "triu_indices_from", "unravel_index"]  # fmt: skip


def _shape(given: ShapeLike, operation: str) -> tuple[IntLike, ...]:
    return extents(as_shape(given, operation)[0])


def _positions(given: ArrayLike, operation: str) -> Scalar | Array:
    found = given if isinstance(given, Scalar) else as_array(given, operation)
    kind = found.dtype if isinstance(found, Scalar) else found.types[0]
    if not kind.is_integer:
        raise DTypeError(
            f"{operation} needs integers, got {kind}.", hint="Convert: a.astype(td.int64)."
        )
    return found


def _grid(dimensions: ShapeLike, dtype: DTypeLike, operation: str) -> tuple[Array, ...]:
    """The index along each axis at every element of an array of this shape."""
    shape = _shape(dimensions, operation)
    kind = as_type(dtype)

    def along(axis: int) -> Array:
        return generate(shape, lambda *at: fn.cast(at[axis], kind))

    return tuple(along(axis) for axis in range(len(shape)))


@operation
def indices(
    dimensions: ShapeLike, dtype: DTypeLike = int, sparse: bool = False
) -> Array | tuple[Array, ...]:
    """The indices of an array of this shape: element k is the array of the indices along axis k.

    `sparse`: a tuple, whose k-th array has extent 1 along all axes but k.

    Parameters
        dimensions: the extents.
        dtype: the element type: td.float32, np.float32, float, "float32", …; default int.

    >>> td.indices((2, 2))
    Array([[[0, 0],
            [1, 1]],
    <BLANKLINE>
           [[0, 1],
            [0, 1]]])
    """
    shape = _shape(dimensions, "indices")
    if sparse:
        lines = (iota(n, dtype) for n in shape)
        return tuple(_along(line, k, len(shape)) for k, line in enumerate(lines))
    if not shape:
        raise ShapeError("indices of an array of rank 0: there are none.", hint="Give a shape.")
    return stack(_grid(shape, dtype, "indices"))


def _along(line: Array, axis: int, rank: int) -> Array:
    return reshape(line, [line.shape[0] if k == axis else 1 for k in range(rank)])


@operation
def fromfunction(
    function: Callable[..., Value], shape: ShapeLike, *, dtype: DTypeLike = float
) -> Value:
    """`function(i, j, …)` of the arrays of indices, as in NumPy; `td.generate` calls its function
    with single indices.

    Parameters
        function: a function of the arrays of indices.

    Result: what the function returns: an array of that shape, mostly.

    >>> td.fromfunction(lambda i, j: i + j, (2, 3), dtype=int)
    Array([[0, 1, 2],
           [1, 2, 3]])
    """
    return function(*_grid(shape, dtype, "fromfunction"))


@operation
def ix_(*arrays: ArrayLike) -> tuple[Array, ...]:
    """Arrays of rank 1 along an axis each, so that together they index a grid; a boolean array
    stands for the positions where it holds.

    Parameters
        *arrays: 1-D arrays of integers or booleans.

    Result: a tuple of arrays, of a rank that is their number.

    >>> [x.shape for x in td.ix_(np.array([0, 2]), np.array([1, 3, 4]))]
    [(2, 1), (1, 3)]
    """
    made = []
    for k, given in enumerate(arrays):
        array = as_array(given, "ix_")
        if array.ndim != 1:
            raise ShapeError(
                f"ix_ takes arrays of rank 1, got rank {array.ndim}.",
                hint="Flatten it: td.flatten(a).",
            )
        chosen = flatnonzero(array) if array.types[0].family == "bool" else array
        made.append(_along(chosen, k, len(arrays)))
    return tuple(made)


@operation
def diag_indices(n: IntLike, ndim: int = 2) -> tuple[Array, ...]:
    """The indices of the diagonal of an array with `ndim` axes of extent `n`.

    Parameters
        n: the extent of each axis.
        ndim: the number of axes; default 2.

    Result: a tuple of `ndim` arrays (n,) of int64.

    >>> [x.tolist() for x in td.diag_indices(3)]
    [[0, 1, 2], [0, 1, 2]]
    """
    return (iota(n),) * whole_number(ndim, "diag_indices", "ndim", least=0)


@operation
def diag_indices_from(a: ArrayLike) -> tuple[Array, ...]:
    """`diag_indices` for an array of rank 2 at least, with equal extents.

    Result: a tuple of arrays of int64, one for each axis.

    >>> td.diag_indices_from(td.eye(2))
    (Array([0, 1]), Array([0, 1]))
    """
    array = as_array(a, "diag_indices_from")
    shape = array.shape
    if array.ndim < 2 or any(isinstance(n != shape[0], bool) and n != shape[0] for n in shape):
        raise ShapeError(
            f"diag_indices_from needs rank 2 at least and equal extents, got {shape}.",
            hint="td.diag_indices(n, ndim) takes the extent.",
        )
    return diag_indices(shape[0], array.ndim)


@operation
def tril_indices(n: IntLike, k: int = 0, m: IntLike | None = None) -> tuple[Array, Array]:
    """The row and column indices of the elements at and below the k-th diagonal of an n × m
    matrix (default: n × n), in row-major order.

    >>> [x.tolist() for x in td.tril_indices(2)]
    [[0, 1, 1], [0, 0, 1]]
    """
    rows, offset, columns = (_as_integer(x, "tril_indices") for x in (n, k, n if m is None else m))
    total = _total(rows, offset + 1, columns)
    return _triangle(rows, total, lambda i: _between(i + offset + 1, columns), lambda i: 0)


@operation
def triu_indices(n: IntLike, k: int = 0, m: IntLike | None = None) -> tuple[Array, Array]:
    """The row and column indices of the elements at and above the k-th diagonal of an n × m
    matrix (default: n × n), in row-major order.

    >>> td.triu_indices(2)
    (Array([0, 0, 1]), Array([0, 1, 1]))
    """
    rows, offset, columns = (_as_integer(x, "triu_indices") for x in (n, k, n if m is None else m))

    def before(i: IntLike) -> IntLike:
        return _between(i + offset, columns)

    missing = _total(rows, offset, columns)
    total = None if missing is None else int(rows) * int(columns) - missing
    return _triangle(rows, total, lambda i: columns - before(i), before)


def _as_integer(number: IntLike, operation: str) -> IntLike:
    """An integer of Python's for one of NumPy's; run-time integers unchanged."""
    found = None if isinstance(number, Scalar) else integer(number)
    return Scalar(as_index(number, operation)) if found is None else found


def _between(value: IntLike, most: IntLike) -> IntLike:
    """`value`, but at least 0 and at most `most`."""
    if isinstance(value, int) and isinstance(most, int):
        return max(0, min(value, most))
    return fn.minimum(fn.maximum(value, 0), most)


def _total(n: IntLike, offset: IntLike, most: IntLike) -> int | None:
    """The sum of `_between(i + offset, most)` for i < n; None if a number is a run-time value."""
    if not (isinstance(n, int) and isinstance(offset, int) and isinstance(most, int)):
        return None

    def below(end: int) -> int:
        inside = max(0, min(end, most))
        return inside * (inside - 1) // 2 + max(0, end - inside) * max(0, most)

    return below(n + offset) - below(offset)


def _triangle(
    n: IntLike,
    total: int | None,
    length: Callable[[IntLike], IntLike],
    first: Callable[[IntLike], IntLike],
) -> tuple[Array, Array]:
    """For each row `length(i)` neighbours from column `first(i)` on, `total` of all rows if that is
    known: a binary search finds the row of a position."""
    ends = scanl(fn.add, 0, generate((n,), lambda i: fn.cast(length(i), int)))
    extent: IntLike = ends[n] if total is None else total
    positions = iota(extent)
    rows: Array = searchsorted(ends, positions, side="right") - 1
    row: Callable[[Scalar], Scalar] = rows.__getitem__
    columns = generate((extent,), lambda p: p - ends[row(p)] + first(row(p)))
    return rows, columns


@operation
def tril_indices_from(a: ArrayLike, k: int = 0) -> tuple[Array, Array]:
    """`tril_indices` for the shape of a matrix.

    >>> td.tril_indices_from(np.arange(6).reshape(2, 3))
    (Array([0, 1, 1]), Array([0, 0, 1]))
    """
    n, m = _matrix(a, "tril_indices_from")
    return tril_indices(n, k, m)


@operation
def triu_indices_from(a: ArrayLike, k: int = 0) -> tuple[Array, Array]:
    """`triu_indices` for the shape of a matrix.

    >>> td.triu_indices_from(np.arange(6).reshape(2, 3))
    (Array([0, 0, 0, 1, 1]), Array([0, 1, 2, 1, 2]))
    """
    n, m = _matrix(a, "triu_indices_from")
    return triu_indices(n, k, m)


def _matrix(a: ArrayLike, operation: str) -> tuple[IntLike, IntLike]:
    array = as_array(a, operation)
    if array.ndim != 2:
        raise ShapeError(
            f"{operation} takes a matrix, got rank {array.ndim}.",
            hint="The function without _from takes extents.",
        )
    return array.shape[0], array.shape[1]


@operation
def mask_indices(n: IntLike, mask_func: Callable[..., Array], k: int = 0) -> tuple[Array, ...]:
    """The indices of the n × n elements that `mask_func(matrix, k)` keeps, such as `td.triu`.

    Parameters
        mask_func: `td.triu`, `td.tril` or a function like these.

    >>> [x.tolist() for x in td.mask_indices(2, td.triu)]
    [[0, 0, 1], [0, 1, 1]]
    """
    return nonzero(mask_func(ones((n, n), int), k))


@operation
def unravel_index(
    indices: ArrayLike, shape: ShapeLike, order: Literal["C", "F"] = "C"
) -> tuple[Value, ...]:
    """The index along each axis of positions in the flattened array of this shape.

    Positions out of range are not noticed, and their results are unspecified.  `order="F"` counts
    the first axis fastest.

    Result: a tuple of arrays of the shape of `indices` (scalars if it is a number), one for each
        axis.

    >>> [x.tolist() for x in td.unravel_index(np.array([1, 5]), (2, 3))]
    [[0, 1], [1, 2]]
    """
    extents = _ordered(shape, order, "unravel_index")
    rest: Value = _positions(indices, "unravel_index")
    found: list[Value] = []
    for extent in reversed(extents[1:]):
        found.append(rest % extent)
        rest = rest // extent
    found = [*found, rest] if extents else []
    return tuple(found if order == "F" else reversed(found))


def _ordered(shape: ShapeLike, order: str, operation: str) -> list[IntLike]:
    """Extents from the axis that counts slowest."""
    if order not in ("C", "F"):
        raise TracingError(
            f"{operation}: order is 'C' or 'F', got {order!r}.",
            hint='"C": the last axis counts fastest.',
        )
    extents = list(_shape(shape, operation))
    return extents[::-1] if order == "F" else extents


@operation
def ravel_multi_index(
    multi_index: Sequence[ArrayLike],
    dims: ShapeLike,
    mode: Literal["raise", "wrap", "clip"] = "raise",
    order: Literal["C", "F"] = "C",
) -> Value:
    """The positions in the flattened array of this shape of indices, an array for each axis.

    `mode`: indices out of range count modulo the extent ("wrap"), or as the nearest in range
    ("clip"); with "raise" they are not noticed, and their results are unspecified.

    Parameters
        multi_index: an array of indices for each axis.
        dims: the extents.

    Result: an array of the shape of `multi_index`; a scalar if it is a number.

    >>> td.ravel_multi_index((np.array([0, 1]), np.array([1, 2])), (2, 3))
    Array([1, 5])
    """
    if mode not in ("raise", "wrap", "clip"):
        raise TracingError(
            f"ravel_multi_index: no mode {mode!r}.", hint='Choose of "raise", "wrap", "clip".'
        )
    extents = _ordered(dims, order, "ravel_multi_index")
    parts = list(multi_index)[::-1] if order == "F" else list(multi_index)
    if len(parts) != len(extents):
        raise ShapeError(
            f"ravel_multi_index: {len(parts)} arrays of indices for {len(extents)} axes.",
            hint="Give one for each axis.",
        )
    found: Value | int = 0
    for part, extent in zip(parts, extents, strict=True):
        at: Value = _positions(part, "ravel_multi_index")
        if mode == "wrap":
            at = at % extent
        elif mode == "clip":
            at = fn.clip(at, 0, extent - 1)
        found = found * extent + at
    return found  # type: ignore[return-value]
