"""`td.linalg`: linear algebra on matrices in the last two axes, with numpy.linalg's names.

Matrices of at most 4 × 4 elements are unrolled (`small_matrices.py`): an element-wise operation
whose elements are matrices, computed by a thread each, and fused with what surrounds it like any
other.  Its results are rows of elements (`dsl/passes/rows.py`).  Larger matrices, and those whose
size is unknown when the program is traced, are a library's (`linalg_library.py`).

Arguments have any leading axes, which broadcast where there are two.  Results have the operands'
type: float32, float64, complex64 or complex128; integers are converted to float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ... import simplify
from ...analysis.short_extents import fixed, short_extent
from ...annotations import ArrayLike, AxisLike, DTypeLike
from ...array import Array
from ...errors import DTypeError, LinAlgError, ShapeError, TracingError, user_location
from ...expr import Const, Expr, Index, constant
from ...frontend.sources import as_array
from ...frontend.tracing import forbid_nesting
from ...graph import Barrier, Check, Generate, Label, Library, Output, Shape, indices
from ...libraries.linalg import library_operation
from ...scalar import Scalar, apply_primitive, refuse_traced
from ...shapes import broadcast_shapes, require, show_shape
from ...types import ScalarType, as_type, bool_, float64, int64, promote
from ..common import normalise_axes, normalise_axis, operation
from ..elements import functions as f
from ..indexing import index_space, joining, making
from ..reducing import reductions
from . import products as products
from . import small_matrices
from .small_matrices import Matrix

__all__ = [
    "LinAlgError",
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "lstsq",
    "lu",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]

#: The largest matrices that are unrolled, and those that have kernels of their own on a GPU
#: (`skeletons/linalg`); the most right-hand sides of both.
UNROLLED, KERNELS, COLUMNS = 4, 32, 8


class EighResult(NamedTuple):
    """Eigenvalues, ascending, and eigenvectors as columns."""

    eigenvalues: Array
    eigenvectors: Array


class QRResult(NamedTuple):
    """Orthonormal columns and an upper triangular matrix."""

    Q: Any
    R: Any


class SlogdetResult(NamedTuple):
    """Sign (or phase) and logarithm of the absolute value of a determinant."""

    sign: Array
    logabsdet: Array


class SVDResult(NamedTuple):
    """Left singular vectors, singular values (descending), right singular vectors."""

    U: Any
    S: Any
    Vh: Any


# --- operands and results --------------------------------------------------------------------


def _matrices(a: ArrayLike, of: str) -> Array:
    """An operand whose last two axes are those of matrices."""
    name = f"linalg.{of}"
    forbid_nesting(name)
    array = as_array(a, name)
    if not array.structure.is_leaf:
        raise DTypeError(
            f"{name} works on matrices of numbers, but the elements are tuples.",
            hint="Take them apart with td.unzip(a).",
        )
    if array.ndim < 2:
        raise ShapeError(
            f"{name} needs matrices, in the last two axes of an array, got rank {array.ndim}.",
            hint="a[None, :] is a matrix of one row, a[:, None] of one column.",
        )
    return array


def _square(array: Array, of: str) -> tuple[Check, ...]:
    rows, columns = array._shape[-2:]
    return require(
        rows, columns,
        f"linalg.{of} needs square matrices, got {{left}} × {{right}}.",
        hint="The last two axes have equal extents; td.linalg.lstsq solves other systems.",
    )  # fmt: skip


def _type(of: str, *arrays: Array) -> ScalarType:
    """The type in which an operation computes: that of its operands, float64 for integers."""
    found: ScalarType | None = None
    for array in arrays:
        t = array.types[0]
        if not t.is_inexact:
            t = float64
        elif t.bits == 16:
            raise DTypeError(
                f"linalg.{of} computes in float32, float64, complex64 or complex128, not in {t}.",
                hint="Convert the array: a.astype(td.float32).",
            )
        found = t if found is None else promote(found, False, t, False)[0]
    assert found is not None
    return found


def _real(t: ScalarType) -> ScalarType:
    return as_type(np.zeros(0, t.numpy).real.dtype)


def _unrolled(array: Array, of: str) -> tuple[int, int, tuple[Check, ...]] | None:
    """Rows and columns of small matrices, with the checks that calls have such; None for large
    ones."""
    rows, columns = array._shape[-2:]
    m, n = short_extent(rows, UNROLLED), short_extent(columns, UNROLLED)
    if not m or not n:
        return None
    return m, n, (*_fixed(rows, m, of), *_fixed(columns, n, of))


def _sized(array: Array, of: str) -> tuple[Expr, tuple[Check, ...]]:
    """The rows of square matrices: a constant where they have kernels, and the check for it."""
    rows = array._shape[-1]
    n = short_extent(rows, KERNELS)
    return (rows, ()) if n is None else (constant(n), _fixed(rows, n, of))


def _fixed(e: Expr, value: int, of: str) -> tuple[Check, ...]:
    return () if isinstance(e, Const) else fixed(e, value, f"linalg.{of}")


def _entries(array: Array, t: ScalarType, batch: Shape, m: int, n: int) -> Matrix:
    """The matrix at the element's own index along the leading axes."""
    lead = products.batch_index(array, batch)
    return [[Scalar(simplify.cast(array._element((*lead, constant(i), constant(j)))[0], t))
             for j in range(n)] for i in range(m)]  # fmt: skip


class _Group(NamedTuple):
    """Scalars that are one result: of extents `extents`, in row-major order."""

    extents: tuple[int, ...]
    values: Sequence[Any]
    type: ScalarType


def _flat(matrix: Matrix, t: ScalarType) -> _Group:
    return _Group((len(matrix), len(matrix[0])), [x for row in matrix for x in row], t)


def _results(
    of: str, batch: Shape, groups: Sequence[_Group], checks: tuple[Check, ...], bad: Any = None,
    what: str = "",
) -> list[Array]:  # fmt: skip
    """Arrays of the results of unrolled operations: a tuple for each matrix, and arrays that read
    its components.  `bad`: where there is no result, an error of checked programs."""
    where, label = user_location(), Label(f"linalg.{of}")
    if bad is not None:
        flags = Generate(batch, (bad._expr,), label=label, where=where, checks=checks)
        checks = (*checks, *_refused(of, Array(flags.leaves), what))
    made: list[list[Expr]] = [
        [simplify.cast(x._expr, g.type) for x in g.values] for g in groups
    ]  # fmt: skip
    several = [es for es in made if len(es) > 1]
    if several:
        flat = [e for es in several for e in es]
        node = Generate(batch, tuple(flat), label=label, where=where, checks=checks)
        at, here = 0, indices(len(batch))
        for es in several:
            es[:] = [leaf.at(*here) for leaf in node.leaves[at : at + len(es)]]
            at += len(es)
    arrays = []
    for group, es in zip(groups, made, strict=True):
        shape = (*batch, *map(constant, group.extents))
        element = _selected(es, group.extents, len(batch))
        result = Generate(shape, (element,), label=label, where=where, checks=checks)
        arrays.append(Array(result.leaves))
    return arrays


def _selected(values: Sequence[Expr], extents: Sequence[int], axis: int) -> Expr:
    """The value at Index(axis), Index(axis + 1), … of values in row-major order."""
    if not extents:
        return values[0]
    each = prod(extents[1:])
    chosen: Expr | None = None
    for k in reversed(range(extents[0])):
        one = _selected(values[k * each : (k + 1) * each], extents[1:], axis + 1)
        here = apply_primitive("equal", [Index(axis), constant(k)])
        chosen = one if chosen is None else simplify.select(here, one, chosen)
    assert chosen is not None
    return chosen


def _refused(of: str, bad: Array, what: str) -> tuple[Check, ...]:
    """The check of checked programs that no matrix is `bad`."""
    count = reductions.sum(bad.astype(int64))._element(())[0]
    return (
        Check(
            count, constant(0), f"linalg.{of}: {{left}} of the matrices: {what}.", "LinAlgError",
            hint="Without check=True, their results are inf or NaN.", where=user_location(),
            in_checked=True,
        ),
    )  # fmt: skip


def _by_library(
    of: str, parameters: tuple[Any, ...], arrays: Sequence[Array], t: ScalarType,
    outs: Sequence[tuple[Shape, ScalarType]], checks: tuple[Check, ...], what: str = "",
) -> list[Array]:  # fmt: skip
    """The results of a library's function.  `what`: what is wrong with the matrices for which its
    last result, of type bool, holds; it is not among those returned."""
    operands = [a if a.types[0] == t else a.astype(t) for a in arrays]
    made = tuple(Output(tuple(shape), kind) for shape, kind in outs)
    node = Library(
        library_operation(of, parameters), tuple(a._leaves[0] for a in operands), made,
        label=Label(f"linalg.{of}"), where=user_location(), checks=checks,
    )  # fmt: skip
    found = [Array((leaf,)) for leaf in node.leaves]
    if not what:
        return found
    *results, bad = found
    refused = _refused(of, bad, what)
    return [_checked(r, refused) for r in results]


def _checked(array: Array, checks: tuple[Check, ...]) -> Array:
    """The same array, after checks."""
    (leaf,) = array._leaves
    rank = len(leaf.shape)
    node = Generate(leaf.shape, (leaf.at(*indices(rank)),), label=leaf.node.label,
                    where=leaf.node.where, checks=checks)  # fmt: skip
    return Array(node.leaves)


_SINGULAR = "singular"
_INDEFINITE = "not positive definite"
_DIVERGES = "no convergence"


# --- square matrices -------------------------------------------------------------------------


@operation
def det(a: ArrayLike) -> Array:
    """The determinants of square matrices (…, n, n), of shape (…).

    Parameters
        a: square matrices (…, n, n).

    Result: an array without the last two axes.

    >>> import numpy as np, treadle as td
    >>> print(td.run(td.linalg.det(np.array([[1.0, 2.0], [3.0, 4.0]]))).round(6))
    -2.0
    """
    array = _matrices(a, "det")
    checks, t, batch = _square(array, "det"), _type("det", array), array._shape[:-2]
    small = _unrolled(array, "det")
    if small is None:
        return _by_library("det", (), [array], t, [(batch, t)], checks)[0]
    n, _, more = small
    value = small_matrices.det(_entries(array, t, batch, n, n))
    return _results("det", batch, [_Group((), [value], t)], (*checks, *more))[0]


@operation
def slogdet(a: ArrayLike) -> SlogdetResult:
    """Sign (a number of absolute value 1, or 0) and logarithm of the absolute value of the
    determinants of square matrices (…, n, n), which overflow less than they do.

    Parameters
        a: square matrices (…, n, n).

    Result: SlogdetResult.

    >>> import numpy as np, treadle as td
    >>> sign, logarithm = td.run(td.linalg.slogdet(np.diag([-1.0, np.e])))
    >>> print(sign, logarithm)
    -1.0 1.0
    """
    array = _matrices(a, "slogdet")
    checks, t, batch = _square(array, "slogdet"), _type("slogdet", array), array._shape[:-2]
    small = _unrolled(array, "slogdet")
    if small is None:
        outs = [(batch, t), (batch, _real(t))]
        return SlogdetResult(*_by_library("slogdet", (), [array], t, outs, checks))
    n, _, more = small
    sign, logarithm = small_matrices.slogdet(_entries(array, t, batch, n, n), _real(t))
    groups = [_Group((), [sign], t), _Group((), [logarithm], _real(t))]
    return SlogdetResult(*_results("slogdet", batch, groups, (*checks, *more)))


@operation
def inv(a: ArrayLike) -> Array:
    """The inverses of square matrices (…, n, n).

    A singular matrix gives inf or NaN, or a `LinAlgError` in a checked program.

    Parameters
        a: square matrices (…, n, n).

    Result: an array of the shape of `a`.

    >>> import numpy as np, treadle as td
    >>> td.run(td.linalg.inv(np.array([[2.0, 0.0], [0.0, 4.0]])))
    array([[0.5 , 0.  ],
           [0.  , 0.25]])
    """
    array = _matrices(a, "inv")
    checks, t, batch = _square(array, "inv"), _type("inv", array), array._shape[:-2]
    small = _unrolled(array, "inv")
    if small is None:
        rows, more = _sized(array, "inv")
        outs = [((*batch, rows, rows), t), (batch, bool_)]
        return _by_library("inv", (), [array], t, outs, (*checks, *more), _SINGULAR)[0]
    n, _, more = small
    x, singular = small_matrices.inv(_entries(array, t, batch, n, n))
    return _results("inv", batch, [_flat(x, t)], (*checks, *more), singular, _SINGULAR)[0]


@operation
def solve(a: ArrayLike, b: ArrayLike) -> Array:
    """X with a X = b, for square matrices `a` (…, n, n) and right-hand sides `b`: one vector (n,),
    or matrices (…, n, k) whose leading axes broadcast with those of `a`.

    A singular matrix gives inf or NaN, or a `LinAlgError` in a checked program.

    Parameters
        a: square matrices (…, n, n).
        b: vectors (n,) or matrices (…, n, k).

    Result: an array of the shape of `b`.

    >>> import numpy as np, treadle as td
    >>> td.run(td.linalg.solve(np.array([[2.0, 0.0], [0.0, 4.0]]), np.array([2.0, 2.0])))
    array([1. , 0.5])
    """
    array = _matrices(a, "solve")
    right = as_array(b, "linalg.solve")
    if right.ndim == 1:
        column = index_space.reshape(right, (right.shape[0], 1))
        solved: Array = solve(array, column)[..., 0]
        return solved
    right = _matrices(right, "solve")
    n, k = right._shape[-2:]
    checks = (*_square(array, "solve"), *require(
        array._shape[-1], n,
        "linalg.solve: the matrices have {left} rows, the right-hand sides {right}.",
        hint="b is (n,), or (…, n, k) for matrices (…, n, n): b[..., None] has one column each.",
    ))  # fmt: skip
    t = _type("solve", array, right)
    batch, more = broadcast_shapes([array._shape[:-2], right._shape[:-2]], "linalg.solve")
    checks += more
    small, columns = _unrolled(array, "solve"), short_extent(k, COLUMNS)
    if small is None or not columns:
        rows, more = _sized(array, "solve")
        if columns:
            more, k = (*more, *_fixed(k, columns, "solve")), constant(columns)
        outs = [((*batch, rows, k), t), (batch, bool_)]
        checks += more
        return _by_library("solve", (), [array, right], t, outs, checks, _SINGULAR)[0]
    size, _, more = small
    checks += (*more, *_fixed(n, size, "solve"), *_fixed(k, columns, "solve"))
    x, singular = small_matrices.solve(_entries(array, t, batch, size, size),
                                       _entries(right, t, batch, size, columns))  # fmt: skip
    return _results("solve", batch, [_flat(x, t)], checks, singular, _SINGULAR)[0]


@operation
def cholesky(a: ArrayLike, *, upper: bool = False) -> Array:
    """The lower triangular L with L Lᴴ = a of Hermitian positive definite matrices (…, n, n), or
    with `upper` its conjugate transpose; only that triangle of `a` is read.

    Other matrices give NaN, or a `LinAlgError` in a checked program.

    Parameters
        a: Hermitian, positive definite matrices (…, n, n).
        upper: whether to return the upper factor; default False.

    Result: an array.

    >>> import numpy as np, treadle as td
    >>> td.run(td.linalg.cholesky(np.array([[4.0, 2.0], [2.0, 5.0]])))
    array([[2., 0.],
           [1., 2.]])
    """
    refuse_traced("linalg.cholesky", upper=upper)
    array = _matrices(a, "cholesky")
    checks, t, batch = _square(array, "cholesky"), _type("cholesky", array), array._shape[:-2]
    small = _unrolled(array, "cholesky")
    if small is None:
        rows, more = _sized(array, "cholesky")
        outs = [((*batch, rows, rows), t), (batch, bool_)]
        checks += more
        return _by_library("cholesky", (bool(upper),), [array], t, outs, checks, _INDEFINITE)[0]
    n, _, more = small
    x, bad = small_matrices.cholesky(_entries(array, t, batch, n, n), bool(upper))
    return _results("cholesky", batch, [_flat(x, t)], (*checks, *more), bad, _INDEFINITE)[0]


@operation
def lu(a: ArrayLike) -> tuple[Array, Array]:
    """(lu, piv) of square matrices (…, n, n), as `scipy.linalg.lu_factor` returns them: L below the
    diagonal (its own is 1) and U, of matrices whose row k was exchanged with row piv[…, k] (int32),
    for k = 0, 1, ….

    Parameters
        a: square matrices (…, n, n).

    Result: two arrays.

    >>> import numpy as np, treadle as td
    >>> td.run(td.linalg.lu(np.array([[1.0, 2.0], [2.0, 4.0]])))
    (array([[2. , 4. ],
           [0.5, 0. ]]), array([1, 1], dtype=int32))
    """
    array = _matrices(a, "lu")
    checks, t, batch = _square(array, "lu"), _type("lu", array), array._shape[:-2]
    pivot = as_type(np.int32)
    small = _unrolled(array, "lu")
    if small is None:
        outs = [(array._shape, t), (array._shape[:-1], pivot)]
        made = _by_library("lu", (), [array], t, outs, checks)
        return made[0], made[1]
    n, _, more = small
    found = small_matrices.lu(_entries(array, t, batch, n, n))
    groups = [_flat(found.rows, t), _Group((n,), found.pivots, pivot)]
    both = _results("lu", batch, groups, (*checks, *more))
    return both[0], both[1]


@operation
def qr(a: ArrayLike, mode: str = "reduced") -> Any:
    """(Q, R) with Q R = a of matrices (…, m, n): orthonormal columns and an upper triangular
    matrix.  mode: "reduced" (Q is m × min(m, n)), "complete" (m × m), or "r" (only R).

    Parameters
        a: matrices (…, m, n).
        mode: "reduced" (default), "complete" or "r".

    Result: (Q, R), or R alone for the mode "r".

    >>> import numpy as np, treadle as td
    >>> q, r = td.run(td.linalg.qr(np.array([[3.0], [4.0]])))
    >>> print(r)
    [[-5.]]
    """
    if mode not in ("reduced", "complete", "r"):
        raise TracingError(
            f"linalg.qr: unknown mode {mode!r}.", hint='Modes: "reduced", "complete", "r".'
        )
    array = _matrices(a, "qr")
    t, batch = _type("qr", array), array._shape[:-2]
    rows, columns = array._shape[-2:]
    small = _unrolled(array, "qr")
    if small is None:
        least = apply_primitive("minimum", [rows, columns])
        width = rows if mode == "complete" else least
        outs = [((*batch, width, columns), t)]
        if mode != "r":
            outs.insert(0, ((*batch, rows, width), t))
        made = _by_library("qr", (mode,), [array], t, outs, ())
        return made[0] if mode == "r" else QRResult(*made)
    m, n, checks = small
    q, r = small_matrices.qr(_entries(array, t, batch, m, n), mode == "complete")
    if mode == "r":
        return _results("qr", batch, [_flat(r, t)], checks)[0]
    return QRResult(*_results("qr", batch, [_flat(q, t), _flat(r, t)], checks))


@operation
def eigh(a: ArrayLike, UPLO: str = "L") -> EighResult:
    """Eigenvalues (…, n), ascending and real, and eigenvectors (…, n, n), as columns, of Hermitian
    matrices (…, n, n), of which only the lower ("L") or upper ("U") triangle is read.

    Parameters
        a: Hermitian matrices (…, n, n).
        UPLO: which triangle is read: "L" (default) or "U".

    Result: EighResult.

    >>> import numpy as np, treadle as td
    >>> values, vectors = td.run(td.linalg.eigh(np.array([[2.0, 1.0], [1.0, 2.0]])))
    >>> print(values.round(6))
    [1. 3.]
    """
    if not isinstance(UPLO, str) or UPLO.upper() not in ("L", "U"):
        raise TracingError(
            f"linalg.eigh: UPLO is the triangle that is read, 'L' or 'U', got {UPLO!r}.",
            hint='Write UPLO="L" or UPLO="U".',
        )
    triangle = UPLO.upper()
    array = _matrices(a, "eigh")
    checks, t, batch = _square(array, "eigh"), _type("eigh", array), array._shape[:-2]
    small = _unrolled(array, "eigh")
    if small is None:
        outs = [(array._shape[:-1], _real(t)), (array._shape, t), (batch, bool_)]
        made = _by_library("eigh", (triangle,), [array], t, outs, checks, _DIVERGES)
        return EighResult(*made)
    n, _, more = small
    values, vectors = small_matrices.eigh(_entries(array, t, batch, n, n), triangle == "U")
    groups = [_Group((n,), values, _real(t)), _flat(vectors, t)]
    found = _results("eigh", batch, groups, (*checks, *more))
    # Not differentiated as it is computed: rotations of what is 0 already are left out.
    operand = array if array.types[0] == t else array.astype(t)
    node = Barrier(
        tuple(a._leaves[0] for a in (*found, operand)), library_operation("eigh", (triangle,)), 2,
        label=Label("linalg.eigh"), where=user_location(),
    )  # fmt: skip
    return EighResult(*(Array((leaf,)) for leaf in node.leaves[:2]))


@operation
def eigvalsh(a: ArrayLike, UPLO: str = "L") -> Array:
    """The eigenvalues of `eigh` alone, ascending, of shape (…, n).

    Parameters
        a: Hermitian matrices (…, n, n).
        UPLO: which triangle is read: "L" (default) or "U".

    Result: an array of real numbers.

    >>> import numpy as np, treadle as td
    >>> print(td.run(td.linalg.eigvalsh(np.array([[2.0, 1.0], [1.0, 2.0]]))).round(6))
    [1. 3.]
    """
    found: Array = eigh(a, UPLO).eigenvalues
    return found


# --- singular values -------------------------------------------------------------------------


@operation
def svd(a: ArrayLike, full_matrices: bool = True, compute_uv: bool = True,
        hermitian: bool = False) -> Any:  # fmt: skip
    """(U, S, Vh) with U diag(S) Vh = a of matrices (…, m, n): singular values (…, min(m, n)),
    descending, and singular vectors, all m and n of them with `full_matrices`; only S without
    `compute_uv`.

    Parameters
        a: matrices (…, m, n).
        full_matrices: whether the factors are square; default True.
        compute_uv: whether to return the vectors, too; default True.
        hermitian: no effect; default False.

    Result: (U, S, Vh), or S alone without `compute_uv`.

    >>> import numpy as np, treadle as td
    >>> td.run(td.linalg.svd(np.diag([3.0, 4.0]), compute_uv=False))
    array([4., 3.])
    """
    refuse_traced("linalg.svd", full_matrices=full_matrices, compute_uv=compute_uv)
    array = _matrices(a, "svd")
    t, batch = _type("svd", array), array._shape[:-2]
    m, n = array._shape[-2:]
    least = apply_primitive("minimum", [m, n])
    values = ((*batch, least), _real(t))
    if not compute_uv:
        outs = [values, (batch, bool_)]
        return _by_library("svd", (False, False), [array], t, outs, (), _DIVERGES)[0]
    rows, columns = (m, n) if full_matrices else (least, least)
    outs = [((*batch, m, rows), t), values, ((*batch, columns, n), t), (batch, bool_)]
    made = _by_library("svd", (bool(full_matrices), True), [array], t, outs, (), _DIVERGES)
    return SVDResult(*made)


@operation
def svdvals(x: ArrayLike) -> Array:
    """The singular values of `svd` alone, descending, of shape (…, min(m, n)).

    Parameters
        x: matrices (…, m, n).

    Result: an array of real numbers.

    >>> import numpy as np, treadle as td
    >>> td.run(td.linalg.svdvals(np.diag([3.0, 4.0])))
    array([4., 3.])
    """
    found: Array = svd(x, compute_uv=False)
    return found


def _tolerance(of: str, array: Array, *given: Any) -> Any:
    """The tolerance given, or that of NumPy: max(m, n) · eps of the largest singular value."""
    found = [x for x in given if x is not None]
    if found:
        return found[0][..., None] if getattr(found[0], "ndim", 0) else found[0]
    m, n = array._shape[-2:]
    most = Scalar(apply_primitive("maximum", [m, n]))
    t = _real(_type(of, array))
    return f.cast(most, t) * float(np.finfo(t.numpy).eps)


@operation
def matrix_rank(
    a: ArrayLike,
    tol: ArrayLike | None = None,
    hermitian: bool = False,
    *,
    rtol: ArrayLike | None = None,
) -> Array:
    """The number of singular values of matrices (…, m, n) above `tol`, or above `rtol` times the
    largest (default: max(m, n) · eps); int64.

    Parameters
        a: matrices (…, m, n).
        tol: the absolute tolerance; default: relative.
        hermitian: no effect; default False.
        rtol: the relative tolerance; optional.

    Result: an array.

    >>> import numpy as np, treadle as td
    >>> print(td.run(td.linalg.matrix_rank(np.ones((3, 3)))))
    1
    """
    array = _matrices(a, "matrix_rank")
    values = svd(array, compute_uv=False, hermitian=hermitian)
    if tol is None:
        tol = _largest(values, -1, True) * _tolerance("matrix_rank", array, rtol)
    elif isinstance(tol, Array) and tol.ndim:
        tol = tol[..., None]
    return reductions.sum((values > tol).astype(int64), -1)


@operation
def pinv(
    a: ArrayLike,
    rcond: ArrayLike | None = None,
    hermitian: bool = False,
    *,
    rtol: ArrayLike | None = None,
) -> Array:
    """The pseudo-inverses (…, n, m) of matrices (…, m, n): singular values up to `rcond` (or
    `rtol`) times the largest count as zero; default: max(m, n) · eps.

    Parameters
        a: matrices (…, m, n).
        rcond: singular values below `rcond` times the largest count as 0; optional.
        hermitian: no effect; default False.
        rtol: the relative tolerance; optional.

    Result: an array.

    >>> import numpy as np, treadle as td
    >>> td.run(td.linalg.pinv(np.array([[2.0], [0.0]])))
    array([[0.5, 0. ]])
    """
    array = _matrices(a, "pinv")
    left, values, right = svd(array, full_matrices=False, hermitian=hermitian)
    given = rcond if rcond is not None else rtol
    limit = _largest(values, -1, True) * _tolerance("pinv", array, given)
    large = values > limit
    inverse = f.where(large, 1 / f.where(large, values, 1), 0)
    scaled = _adjoint(right) * inverse[..., None, :]
    return products.matmul(scaled, _adjoint(left))


def _largest(values: Array, axis: AxisLike | None, keepdims: bool = False) -> Array:
    """The largest of numbers that are not negative; 0 of none."""
    return reductions.reduce(values, axis, keepdims, "max", lambda e: e, "maximum", 0)


def _adjoint(array: Array) -> Array:
    """The conjugate transposes of matrices."""
    axes = [*range(array.ndim - 2), array.ndim - 1, array.ndim - 2]
    turned: Array = index_space.transpose(array, axes)
    return f.conj(turned) if array.types[0].is_complex else turned


@operation
def lstsq(
    a: ArrayLike, b: ArrayLike, rcond: ArrayLike | None = None
) -> tuple[Array, Array, Array, Array]:
    """(x, residuals, rank, s): the x of least norm that minimises |a x − b| for a matrix (m, n) and
    one vector (m,) or several (m, k); the sums of squared residuals, (k,) if m > n else empty; the
    rank and the singular values of `a`, of which those up to `rcond` times the largest (default:
    max(m, n) · eps) count as zero.

    Parameters
        a: a matrix (m, n).
        b: a vector (m,) or a matrix (m, k).
        rcond: singular values below `rcond` times the largest count as 0; optional.

    Result: tuple[Array, Array, Array, Array].

    >>> import numpy as np, treadle as td
    >>> a, b = np.array([[1.0], [1.0]]), np.array([1.0, 3.0])
    >>> x, residuals, rank, s = td.run(td.linalg.lstsq(a, b))
    >>> print(x.round(6), residuals.round(6), rank)
    [2.] [2.] 1
    """
    array, right = _matrices(a, "lstsq"), as_array(b, "linalg.lstsq")
    if right.ndim == 1:
        column = index_space.reshape(right, (right.shape[0], 1))
        x, residuals, rank, values = lstsq(array, column, rcond)
        return x[:, 0], residuals, rank, values
    right = _matrices(right, "lstsq")
    if array.ndim != 2 or right.ndim != 2:
        raise ShapeError(
            f"linalg.lstsq takes one matrix, got {show_shape(array._shape)} and "
            f"{show_shape(right._shape)}.",
            hint="td.linalg.pinv(a) @ b solves many systems at once.",
        )
    refuse_traced("linalg.lstsq", rcond=rcond)
    (m, n), k = array._shape, right._shape[1]
    checks = require(
        m, right._shape[0],
        "linalg.lstsq: the matrix has {left} rows, the right-hand side {right}.",
        hint="b is (m,) or (m, k) for a matrix (m, n).",
    )  # fmt: skip
    t = _type("lstsq", array, right)
    taller = apply_primitive("subtract", [m, n])
    one = apply_primitive("maximum", [apply_primitive("minimum", [taller, constant(1)]),
                                      constant(0)])  # fmt: skip
    outs = [((n, k), t), ((apply_primitive("multiply", [one, k]),), _real(t)), ((), int64),
            ((apply_primitive("minimum", [m, n]),), _real(t))]  # fmt: skip
    known: Any = rcond
    cutoff = None if rcond is None else repr(float(known))
    made = _by_library("lstsq", (cutoff,), [array, right], t, outs, checks)
    return made[0], made[1], made[2], made[3]


# --- sums and products -----------------------------------------------------------------------


@operation
def trace(a: ArrayLike, *, offset: int = 0, dtype: DTypeLike | None = None) -> Array:
    """The sums of the diagonals of matrices (…, m, n), `offset` above the main one, as NumPy's
    (small integers are added in 64 bits), in type `dtype` if given.

    Parameters
        a: an array of rank ≥ 2.
        offset: the diagonal: 0 (default) the main one, positive above it, negative below.
        dtype: the element type: td.float32, np.float32, float, "float32", …; optional.

    Result: an array.

    >>> import numpy as np, treadle as td
    >>> print(td.run(td.linalg.trace(np.array([[1, 2], [3, 4]]))))
    5
    """
    found = index_space.diagonal(_matrices(a, "trace"), offset, -2, -1)
    if dtype is not None:
        found = found.astype(dtype)
    return reductions.sum(found, -1)


@operation
def diagonal(x: ArrayLike, /, *, offset: int = 0) -> Array:
    """The diagonals of matrices (…, m, n), `offset` above the main one: the last axis.

    Parameters
        x: matrices (…, m, n).
        offset: the diagonal: 0 (default) the main one, positive above it, negative below.

    Result: an array (…, k), of the k elements of a diagonal.

    >>> import numpy as np, treadle as td
    >>> td.run(td.linalg.diagonal(np.array([[1, 2], [3, 4]])))
    array([1, 4])
    """
    found: Array = index_space.diagonal(_matrices(x, "diagonal"), offset, -2, -1)
    return found


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
        axis: the axis, or a tuple of axes, from −rank to rank − 1; default None: all.
        keepdims: whether the reduced axes stay, with extent 1; default False.
        ord: which norm; default 2: Euclidean.

    Result: an array without these axes.

    Errors: `AxisError` if there is no such axis.

    >>> import numpy as np, treadle as td
    >>> print(td.run(td.linalg.vector_norm(np.array([3.0, 4.0]))))
    5.0
    """
    refuse_traced("linalg.vector_norm", ord=ord, keepdims=keepdims)
    array = _numbers(x, "vector_norm")
    axes = normalise_axes(axis, array.ndim, "linalg.vector_norm")
    return _vector_norm(array, ord, axes, keepdims)


@operation
def matrix_norm(
    x: ArrayLike, /, *, keepdims: bool = False, ord: str | float | None = "fro"
) -> Array:
    """The norms of matrices in the last two axes.  Orders as for `norm`.

    Parameters
        x: matrices (…, m, n).
        keepdims: whether the reduced axes stay, with extent 1; default False.
        ord: which norm; default "fro": Frobenius.

    Result: an array without the last two axes.

    >>> import numpy as np, treadle as td
    >>> print(td.run(td.linalg.matrix_norm(np.array([[3.0, 0.0], [0.0, 4.0]]))))
    5.0
    """
    refuse_traced("linalg.matrix_norm", ord=ord, keepdims=keepdims)
    array = _numbers(_matrices(x, "matrix_norm"), "matrix_norm")
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
        x: a number, or an array of any shape.
        ord: which norm, as NumPy's; default: Euclidean.
        axis: the axis, from −rank to rank − 1; optional.
        keepdims: whether the reduced axes stay, with extent 1; default False.

    Result: an array.

    Errors: `AxisError` if there is no such axis.

    >>> import numpy as np, treadle as td
    >>> print(td.run(td.linalg.norm(np.array([3.0, 4.0]))))
    5.0
    """
    refuse_traced("linalg.norm", ord=ord, keepdims=keepdims)
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
    if not array.structure.is_leaf:
        raise DTypeError(
            f"linalg.{of} works on numbers, but the elements are tuples.",
            hint="Take them apart with td.unzip(a).",
        )
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
        return _largest(size, axis, keepdims)
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
        values = svd(index_space.transpose(array, (*rest, rows, columns)), compute_uv=False)
        reduce: Any = {"nuc": reductions.sum, 2: _largest, -2: reductions.min}[ord]
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
    extreme = _largest if ord > 0 else reductions.min
    kept = tuple(0 if k in axes else slice(None) for k in range(array.ndim))
    norms: Array = extreme(total, other, True)
    if not keepdims:
        norms = norms[kept]
    return norms


def _unknown_order(ord: str | float | None, of: str, orders: str) -> TracingError:
    return TracingError(
        f"linalg.norm: there is no norm of order {ord!r} of {of}.", hint=f"Orders: {orders}."
    )


@operation
def matrix_power(a: ArrayLike, n: int) -> Array:
    """The n-th power of square matrices (…, m, m), by repeated squaring; the inverse's for n < 0.

    Parameters
        a: square matrices (…, n, n).
        n: an integer.

    Result: an array.

    >>> import numpy as np, treadle as td
    >>> td.run(td.linalg.matrix_power(np.array([[1, 1], [1, 0]]), 10))
    array([[89, 55],
           [55, 34]])
    """
    refuse_traced("linalg.matrix_power", n=n)
    if isinstance(n, bool) or not isinstance(n, int | np.integer):
        raise TracingError(
            f"linalg.matrix_power: the exponent is a Python integer, got {n!r}.",
            hint="Write td.linalg.matrix_power(a, 3).",
        )
    array = _matrices(a, "matrix_power")
    checks = _square(array, "matrix_power")
    if checks:
        array = _checked(array, checks)
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
        x1: an array of vectors along its last axis.
        x2: an array of vectors along its last axis.

    Result: an array (a.size, b.size).

    >>> import numpy as np, treadle as td
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

    Parameters
        x1: an array of vectors along its last axis.
        x2: an array of vectors along its last axis.
        axis: the axis, from −rank to rank − 1; default -1.

    Result: an array.

    Errors: `AxisError` if there is no such axis.

    >>> import numpy as np, treadle as td
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
    x = _checked(x, checks) if checks else x
    x = f.conj(x) if x.types[0].is_complex else x
    terms = x * y
    t = terms.types[0]
    if t.kind == "bool":
        return reductions.any(terms, axis)
    found = reductions.sum(terms, axis)
    return found if found.types[0] == t else found.astype(t)


@operation
def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Array:
    """The vector products of vectors of three elements along an axis; the others broadcast.

    Parameters
        x1: an array of vectors along its last axis.
        x2: an array of vectors along its last axis.
        axis: the axis, from −rank to rank − 1; default -1.

    Result: an array.

    Errors: `AxisError` if there is no such axis.

    >>> import numpy as np, treadle as td
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
        array = _checked(array, checks) if checks else array
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

    >>> import numpy as np, treadle as td
    >>> td.linalg.matmul(np.array([[1, 2], [3, 4]]), np.array([1, 1]))
    Array([3, 7])
    """
    found: Array = products.matmul(x1, x2)
    return found


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

    >>> import numpy as np, treadle as td
    >>> td.linalg.tensordot(np.array([[1, 2], [3, 4]]), np.array([1, 1]), axes=1)
    Array([3, 7])
    """
    found: Array = products.tensordot(x1, x2, axes)
    return found


@operation
def matrix_transpose(x: ArrayLike, /) -> Array:
    """The matrices in the last two axes, transposed.

    Parameters
        x: matrices (…, m, n).

    Result: an array (…, n, m).

    >>> import numpy as np, treadle as td
    >>> td.run(td.linalg.matrix_transpose(np.array([[1, 2], [3, 4]])))
    array([[1, 3],
           [2, 4]])
    """
    return _matrices(x, "matrix_transpose").mT
