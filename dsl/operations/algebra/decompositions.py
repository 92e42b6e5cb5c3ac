"""Decompositions of matrices in the last two axes, and what is solved by them.

Matrices of at most 4 × 4 elements are unrolled (`small_matrices.py`): an element-wise operation
whose elements are matrices, computed by a thread each, and fused with what surrounds it like any
other.  Its results are rows of elements (`dsl/passes/rows.py`).  Larger matrices, and those whose
size is unknown when the program is traced, are a library's (`dsl/libraries/linalg.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ... import simplify
from ...analysis.short_extents import fixed, short_extent, short_extents
from ...annotations import ArrayLike, AxisLike
from ...array import Array, map_over, require_scalars
from ...errors import DTypeError, ShapeError, TracingError, user_location
from ...expr import Const, Expr, Index, constant
from ...frontend.sources import as_array
from ...frontend.tracing import forbid_nesting
from ...graph import Barrier, Check, Generate, Label, Library, Output, Shape, indices, known
from ...libraries.linalg import library_operation
from ...scalar import Scalar, apply_primitive, refuse_traced
from ...shapes import broadcast_shapes, require, same_shape, show_shape
from ...types import ScalarType, as_type, bool_, float64, int32, int64, promote
from ..common import checked, operation
from ..elements import functions as f
from ..indexing import index_space
from ..reducing import reductions
from . import products as products, small_matrices
from .small_matrices import Matrix

#: The largest matrices that are unrolled, and those that have kernels of their own on a GPU
#: (`skeletons/linalg`), as right-hand sides of triangular systems have; the most right-hand sides
#: of others.
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


def matrices(a: ArrayLike, of: str) -> Array:
    """An operand whose last two axes are those of matrices."""
    name = f"linalg.{of}"
    forbid_nesting(name)
    array = as_array(a, name)
    require_scalars(array, name)
    if array.ndim < 2:
        raise ShapeError(
            f"{name} needs matrices, in the last two axes of an array, got rank {array.ndim}.",
            hint="a[None, :] is a matrix of one row, a[:, None] of one column.",
        )
    return array


def square(array: Array, of: str) -> tuple[Check, ...]:
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
    """Rows and columns of small matrices, with checks that calls have such; None for large ones."""
    found = short_extents(array._shape[-2:], UNROLLED, f"linalg.{of}")
    if found is None:
        return None
    (m, n), checks = found
    return m, n, checks


def _sized(array: Array, of: str) -> tuple[Expr, tuple[Check, ...]]:
    """The rows of square matrices: a constant where they have kernels, and the check for it."""
    rows = array._shape[-1]
    n = short_extent(rows, KERNELS)
    return (rows, ()) if n is None else (constant(n), fixed(rows, n, f"linalg.{of}"))


def _entries(array: Array, t: ScalarType, batch: Shape, m: int, n: int) -> Matrix:
    """The matrix at the element's own index along the leading axes."""
    lead = products.batch_index(array, batch)
    return [[Scalar(simplify.cast(array._element((*lead, constant(i), constant(j)))[0], t))
             for j in range(n)] for i in range(m)]  # fmt: skip


def _with_all(array: Array, batch: Shape) -> Array:
    """The matrices with all leading axes of a batch, if an extent is 1 or 0, as of `a[:1]`: what
    has no elements is not read."""
    lead, rank = products.batch_index(array, batch), len(batch)
    if all(isinstance(i, Index) or known(e) == 1 for i, e in zip(lead, array._shape, strict=False)):
        return array
    index = (*lead, Index(rank), Index(rank + 1))
    return map_over(array, index, (*batch, *array._shape[-2:]), "broadcast_to")


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
    made: list[list[Expr]] = [[simplify.cast(x._expr, g.type) for x in g.values] for g in groups]
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


def _with_rule(
    of: str, parameters: tuple[Any, ...], found: Sequence[Array], operands: Sequence[Array],
    t: ScalarType,
) -> list[Array]:  # fmt: skip
    """The results of an unrolled operation, differentiated by the rule of the library's operation,
    not as they are computed."""
    given = [a if a.types[0] == t else a.astype(t) for a in operands]
    node = Barrier(
        tuple(a._leaves[0] for a in (*found, *given)), library_operation(of, parameters),
        len(found), label=Label(f"linalg.{of}"), where=user_location(),
    )  # fmt: skip
    return [Array((leaf,)) for leaf in node.leaves[: len(found)]]


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
    return [checked(r, refused) for r in results]


_SINGULAR = "singular"
_INDEFINITE = "not positive definite"
_DIVERGES = "no convergence"


# --- systems ---------------------------------------------------------------------------------


class _System(NamedTuple):
    """Square matrices and right-hand sides (…, n, k) that fit."""

    array: Array
    right: Array
    type: ScalarType
    batch: Shape
    shape: Shape
    checks: tuple[Check, ...]
    unrolled: tuple[Matrix, Matrix] | None

    def operands(self) -> list[Array]:
        return [_with_all(x, self.batch) for x in (self.array, self.right)]

    def result(self, of: str, parameters: tuple[Any, ...], x: Matrix, bad: Any,
               checks: tuple[Check, ...]) -> Array:  # fmt: skip
        """Of what is unrolled."""
        made = _results(of, self.batch, [_flat(x, self.type)], checks, bad, _SINGULAR)
        return _with_rule(of, parameters, made, [self.array, self.right], self.type)[0]


def _column(vector: Array) -> Array:
    return index_space.reshape(vector, (vector.shape[0], 1))


def _system(of: str, array: Array, right: Array, most: int) -> _System:
    """`most`: the most right-hand sides for which there are kernels."""
    n, k = right._shape[-2:]
    checks = (*square(array, of), *require(
        array._shape[-1], n,
        f"linalg.{of}: the matrices have {{left}} rows, the right-hand sides {{right}}.",
        hint="b is (n,), or (…, n, k) for matrices (…, n, n): b[..., None] has one column each.",
    ))  # fmt: skip
    t = _type(of, array, right)
    batch, more = broadcast_shapes([array._shape[:-2], right._shape[:-2]], f"linalg.{of}")
    checks += more
    small, columns = _unrolled(array, of), short_extent(k, most)
    if small is None or not columns or columns > COLUMNS:
        rows, more = _sized(array, of)
        if columns and isinstance(rows, Const):
            more, k = (*more, *fixed(k, columns, f"linalg.{of}")), constant(columns)
        return _System(array, right, t, batch, (*batch, rows, k), (*checks, *more), None)
    size, _, more = small
    checks += (*more, *fixed(n, size, f"linalg.{of}"), *fixed(k, columns, f"linalg.{of}"))
    entries = (_entries(array, t, batch, size, size), _entries(right, t, batch, size, columns))
    return _System(array, right, t, batch, (), checks, entries)


# --- square matrices -------------------------------------------------------------------------


class _Pivots(NamedTuple):
    """Of LU decompositions: the diagonals of U, and whether the number of exchanges is odd."""

    diagonal: Sequence[Scalar]
    odd: Scalar | None
    checks: tuple[Check, ...]


def _pivots(array: Array, t: ScalarType, of: str, checks: tuple[Check, ...]) -> _Pivots | None:
    """None for large matrices, whose determinants are a library's."""
    batch = array._shape[:-2]
    if small := _unrolled(array, of):
        n, _, more = small
        made = small_matrices.lu(_entries(array, t, batch, n, n))
        return _Pivots(made.diagonal, made.odd, (*checks, *more))
    rows, more = _sized(array, of)
    if not isinstance(rows, Const) or not rows.value:
        return None
    checks = (*checks, *more)
    outs = [((*batch, rows, rows), t), ((*batch, rows), int32)]
    factors, exchanged = _by_library("lu", (), [array], t, outs, checks)
    here, n = indices(len(batch)), int(rows.value)
    diagonal = [Scalar(factors._element((*here, constant(k), constant(k)))[0]) for k in range(n)]
    odd: Scalar | None = None
    for k in range(n - 1):
        moved = Scalar(exchanged._element((*here, constant(k)))[0]) != k
        odd = moved if odd is None else odd ^ moved
    return _Pivots(diagonal, odd, checks)


@operation
def det(a: ArrayLike) -> Array:
    """The determinants of square matrices (…, n, n), of shape (…).

    >>> print(td.run(td.linalg.det(np.array([[1.0, 2.0], [3.0, 4.0]]))).round(6))
    -2.0
    """
    array = matrices(a, "det")
    checks, t, batch = square(array, "det"), _type("det", array), array._shape[:-2]
    factors = _pivots(array, t, "det", checks)
    if factors is None:
        return _by_library("det", (), [array], t, [(batch, t)], checks)[0]
    value = small_matrices.det(factors.diagonal, factors.odd)
    found = _results("det", batch, [_Group((), [value], t)], factors.checks)
    return _with_rule("det", (), found, [array], t)[0]


def cofactors(a: Array) -> Array | None:
    """Of small matrices, the derivatives of the determinant by the elements: polynomials, also of
    singular matrices.  None for large ones."""
    small = _unrolled(a, "det")
    if small is None:
        return None
    (n, _, checks), t, batch = small, a.types[0], a._shape[:-2]
    made = small_matrices.cofactors(_entries(a, t, batch, n, n))
    return _results("det", batch, [_flat(made, t)], checks)[0]


@operation
def slogdet(a: ArrayLike) -> SlogdetResult:
    """Sign (a number of absolute value 1, or 0) and logarithm of the absolute value of the
    determinants of square matrices (…, n, n), which do not overflow where determinants would.

    Result: a named tuple (sign, logabsdet) of arrays (…).

    >>> sign, logarithm = td.run(td.linalg.slogdet(np.diag([-1.0, np.e])))
    >>> print(sign, logarithm)
    -1.0 1.0
    """
    array = matrices(a, "slogdet")
    checks, t, batch = square(array, "slogdet"), _type("slogdet", array), array._shape[:-2]
    factors = _pivots(array, t, "slogdet", checks)
    if factors is None:
        outs = [(batch, t), (batch, _real(t))]
        return SlogdetResult(*_by_library("slogdet", (), [array], t, outs, checks))
    sign, logarithm = small_matrices.slogdet(factors.diagonal, factors.odd, _real(t))
    groups = [_Group((), [sign], t), _Group((), [logarithm], _real(t))]
    found = _results("slogdet", batch, groups, factors.checks)
    return SlogdetResult(*_with_rule("slogdet", (), found, [array], t))


@operation
def inv(a: ArrayLike) -> Array:
    """The inverses of square matrices (…, n, n).

    A singular matrix gives inf or NaN, or a `LinAlgError` in a checked program.

    >>> td.run(td.linalg.inv(np.array([[2.0, 0.0], [0.0, 4.0]])))
    array([[0.5 , 0.  ],
           [0.  , 0.25]])
    """
    array = matrices(a, "inv")
    checks, t, batch = square(array, "inv"), _type("inv", array), array._shape[:-2]
    small = _unrolled(array, "inv")
    if small is None:
        rows, more = _sized(array, "inv")
        outs = [((*batch, rows, rows), t), (batch, bool_)]
        return _by_library("inv", (), [array], t, outs, (*checks, *more), _SINGULAR)[0]
    n, _, more = small
    x, singular = small_matrices.inv(_entries(array, t, batch, n, n))
    made = _results("inv", batch, [_flat(x, t)], (*checks, *more), singular, _SINGULAR)
    return _with_rule("inv", (), made, [array], t)[0]


@operation
def solve(a: ArrayLike, b: ArrayLike) -> Array:
    """X with a X = b, for square matrices `a` (…, n, n) and right-hand sides `b`: one vector (n,),
    or matrices (…, n, k) whose leading axes broadcast with those of `a`.

    A singular matrix gives inf or NaN, or a `LinAlgError` in a checked program.

    Parameters
        b: vectors (n,) or matrices (…, n, k).

    Result: an array of the shape of `b`.

    >>> td.run(td.linalg.solve(np.array([[2.0, 0.0], [0.0, 4.0]]), np.array([2.0, 2.0])))
    array([1. , 0.5])
    """
    array, right = matrices(a, "solve"), as_array(b, "linalg.solve")
    if right.ndim == 1:
        return solve(array, _column(right))[..., 0]
    system = _system("solve", array, matrices(right, "solve"), COLUMNS)
    if system.unrolled is None:
        outs = [(system.shape, system.type), (system.batch, bool_)]
        operands, t = system.operands(), system.type
        return _by_library("solve", (), operands, t, outs, system.checks, _SINGULAR)[0]
    x, singular = small_matrices.solve(*system.unrolled)
    return system.result("solve", (), x, singular, system.checks)


@operation
def solve_triangular(
    a: ArrayLike, b: ArrayLike, trans: int | str = 0, lower: bool = False,
    unit_diagonal: bool = False,
) -> Array:  # fmt: skip
    """X with op(a) X = b, as SciPy's, for triangular matrices `a` (…, n, n) and right-hand sides
    `b`: one vector (n,), or matrices (…, n, k) whose leading axes broadcast with those of `a`.
    Only the triangle of `a` is read.

    A zero on the diagonal gives inf or NaN, or a `LinAlgError` in a checked program.

    Parameters
        a: triangular matrices (…, n, n).
        b: vectors (n,) or matrices (…, n, k).
        trans: 0 or "N" (default): op(a) is `a`; 1 or "T": its transpose; 2 or "C": its conjugate
            transpose.
        lower: whether the lower triangle is read; default False, the upper one.
        unit_diagonal: whether the diagonal counts as ones and is not read; default False.

    Result: an array of the shape of `b`.

    >>> a, b = np.array([[2.0, 0.0], [1.0, 4.0]]), np.array([2.0, 5.0])
    >>> td.run(td.linalg.solve_triangular(a, b, lower=True))
    array([1., 1.])
    """
    of = "solve_triangular"
    refuse_traced(f"linalg.{of}", trans=trans, lower=lower, unit_diagonal=unit_diagonal)
    given = trans.upper() if isinstance(trans, str) else trans
    if given not in (0, 1, 2, "N", "T", "C"):
        raise TracingError(
            f"linalg.{of}: trans is 0, 1, 2, 'N', 'T' or 'C', got {trans!r}.",
            hint='Write trans="T" for the transposed matrix.',
        )
    array, right = matrices(a, of), as_array(b, f"linalg.{of}")
    if right.ndim == 1:
        return solve_triangular(array, _column(right), trans, lower, unit_diagonal)[..., 0]
    system = _system(of, array, matrices(right, of), KERNELS)
    kind = given if isinstance(given, str) else "NTC"[int(given)]
    kind = "T" if kind == "C" and not system.type.is_complex else kind
    how = bool(lower), kind, bool(unit_diagonal)
    checks = system.checks
    if not unit_diagonal:
        zeros = reductions.any(index_space.diagonal(array, 0, -2, -1) == 0, -1)
        checks += _refused(of, zeros, _SINGULAR)
    if system.unrolled is None:
        outs = [(system.shape, system.type)]
        return _by_library(of, how, system.operands(), system.type, outs, checks)[0]
    a_rows, b_rows = system.unrolled
    return system.result(of, how, small_matrices.solve_triangular(a_rows, b_rows, *how), None,
                         checks)  # fmt: skip


@operation
def cholesky(a: ArrayLike, *, upper: bool = False) -> Array:
    """The lower triangular L with L Lᴴ = a of Hermitian positive definite matrices (…, n, n), or
    with `upper` its conjugate transpose; only that triangle of `a` is read.

    Other matrices give NaN, or a `LinAlgError` in a checked program.

    Parameters
        a: Hermitian, positive definite matrices (…, n, n).
        upper: whether to return the upper factor; default False.

    Result: triangular matrices (…, n, n), in floating point.

    >>> td.run(td.linalg.cholesky(np.array([[4.0, 2.0], [2.0, 5.0]])))
    array([[2., 0.],
           [1., 2.]])
    """
    array = matrices(a, "cholesky")
    checks, t, batch = square(array, "cholesky"), _type("cholesky", array), array._shape[:-2]
    small = _unrolled(array, "cholesky")
    if small is None:
        rows, more = _sized(array, "cholesky")
        outs = [((*batch, rows, rows), t), (batch, bool_)]
        checks += more
        return _by_library("cholesky", (bool(upper),), [array], t, outs, checks, _INDEFINITE)[0]
    n, _, more = small
    x, bad = small_matrices.cholesky(_entries(array, t, batch, n, n), bool(upper))
    made = _results("cholesky", batch, [_flat(x, t)], (*checks, *more), bad, _INDEFINITE)
    return _with_rule("cholesky", (bool(upper),), made, [array], t)[0]


@operation
def lu(a: ArrayLike) -> tuple[Array, Array]:
    """(lu, piv) of square matrices (…, n, n), as `scipy.linalg.lu_factor` returns them: L below the
    diagonal (its own is 1) and U, of matrices whose row k was exchanged with row piv[…, k] (int32),
    for k = 0, 1, ….

    Result: a tuple of two arrays: (…, n, n), and (…, n) of int32.

    >>> td.run(td.linalg.lu(np.array([[1.0, 2.0], [2.0, 4.0]])))
    (array([[2. , 4. ],
           [0.5, 0. ]]), array([1, 1], dtype=int32))
    """
    array = matrices(a, "lu")
    checks, t, batch = square(array, "lu"), _type("lu", array), array._shape[:-2]
    small = _unrolled(array, "lu")
    if small is None:
        rows, more = _sized(array, "lu")
        outs = [((*batch, rows, rows), t), ((*batch, rows), int32)]
        made = _by_library("lu", (), [array], t, outs, (*checks, *more))
        return made[0], made[1]
    n, _, more = small
    found = small_matrices.lu(_entries(array, t, batch, n, n))
    groups = [_flat(found.rows, t), _Group((n,), found.pivots, int32)]
    both = _results("lu", batch, groups, (*checks, *more))
    factors, pivots = _with_rule("lu", (), both, [array], t)
    return factors, pivots


@operation
def qr(a: ArrayLike, mode: str = "reduced") -> Any:
    """(Q, R) with Q R = a of matrices (…, m, n): orthonormal columns and an upper triangular
    matrix.  mode: "reduced" (Q is m × min(m, n)), "complete" (m × m), or "r" (only R).

    Parameters
        mode: "reduced" (default), "complete" or "r".

    Result: (Q, R), or R alone for the mode "r".

    >>> q, r = td.run(td.linalg.qr(np.array([[3.0], [4.0]])))
    >>> print(r)
    [[-5.]]
    """
    if mode not in ("reduced", "complete", "r"):
        raise TracingError(
            f"linalg.qr: unknown mode {mode!r}.", hint='Modes: "reduced", "complete", "r".'
        )
    array = matrices(a, "qr")
    t, batch = _type("qr", array), array._shape[:-2]
    rows, columns = array._shape[-2:]
    small = _unrolled(array, "qr")
    if small is None:
        short = short_extents((rows, columns), KERNELS, "linalg.qr")
        checks: tuple[Check, ...] = ()
        if short is not None:
            (rows, columns), checks = map(constant, short[0]), short[1]
        least = apply_primitive("minimum", [rows, columns])
        width = rows if mode == "complete" else least
        outs = [((*batch, width, columns), t)]
        if mode != "r":
            outs.insert(0, ((*batch, rows, width), t))
        made = _by_library("qr", (mode,), [array], t, outs, checks)
        return made[0] if mode == "r" else QRResult(*made)
    m, n, checks = small
    q, r = small_matrices.qr(_entries(array, t, batch, m, n), mode == "complete")
    groups = [_flat(r, t)] if mode == "r" else [_flat(q, t), _flat(r, t)]
    # (There is no reflection where a column is 0 already: its derivative would be taken for 0.)
    found = _with_rule("qr", (mode,), _results("qr", batch, groups, checks), [array], t)
    return found[0] if mode == "r" else QRResult(*found)


@operation
def eigh(a: ArrayLike, UPLO: str = "L") -> EighResult:
    """Eigenvalues (…, n), ascending and real, and eigenvectors (…, n, n), as columns, of Hermitian
    matrices (…, n, n), of which only the lower ("L") or upper ("U") triangle is read.

    Result: a named tuple (eigenvalues, eigenvectors): (…, n) and (…, n, n).

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
    array = matrices(a, "eigh")
    checks, t, batch = square(array, "eigh"), _type("eigh", array), array._shape[:-2]
    small = _unrolled(array, "eigh")
    if small is None:
        rows, more = _sized(array, "eigh")
        outs = [((*batch, rows), _real(t)), ((*batch, rows, rows), t), (batch, bool_)]
        checks += more
        made = _by_library("eigh", (triangle,), [array], t, outs, checks, _DIVERGES)
        return EighResult(*made)
    n, _, more = small
    values, vectors = small_matrices.eigh(_entries(array, t, batch, n, n), triangle == "U")
    groups = [_Group((n,), values, _real(t)), _flat(vectors, t)]
    found = _results("eigh", batch, groups, (*checks, *more))
    # (Rotations of what is 0 already are left out, so derivatives of the others would be wrong.)
    return EighResult(*_with_rule("eigh", (triangle,), found, [array], t))


@operation
def eigvalsh(a: ArrayLike, UPLO: str = "L") -> Array:
    """The eigenvalues of `eigh` alone, ascending, of shape (…, n).

    >>> print(td.run(td.linalg.eigvalsh(np.array([[2.0, 1.0], [1.0, 2.0]]))).round(6))
    [1. 3.]
    """
    return eigh(a, UPLO).eigenvalues


# --- singular values -------------------------------------------------------------------------


@operation
def svd(a: ArrayLike, full_matrices: bool = True, compute_uv: bool = True,
        hermitian: bool = False) -> Any:  # fmt: skip
    """(U, S, Vh) with U diag(S) Vh = a of matrices (…, m, n): singular values (…, min(m, n)),
    descending, and singular vectors, all m and n of them with `full_matrices`; only S without
    `compute_uv`.

    Parameters
        full_matrices: whether the factors are square; default True.
        compute_uv: whether to return the vectors, too; default True.

    Result: (U, S, Vh), or S alone without `compute_uv`.

    >>> td.run(td.linalg.svd(np.diag([3.0, 4.0]), compute_uv=False))
    array([4., 3.])
    """
    array = matrices(a, "svd")
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

    >>> td.run(td.linalg.svdvals(np.diag([3.0, 4.0])))
    array([4., 3.])
    """
    found: Array = svd(x, compute_uv=False)
    return found


def _tolerance(of: str, array: Array, *given: Any) -> Any:
    """The tolerance given, or that of NumPy: max(m, n) · eps of the largest singular value."""
    found = [x for x in given if x is not None]
    if found:
        return _of_each(found[0], array, of)
    m, n = array._shape[-2:]
    most = Scalar(apply_primitive("maximum", [m, n]))
    t = _real(_type(of, array))
    return f.cast(most, t) * float(np.finfo(t.numpy).eps)


def _of_each(given: ArrayLike, array: Array, of: str) -> ArrayLike:
    """A number for all matrices, or one for each, beside their singular values."""
    limits = as_array(given, f"linalg.{of}")
    if not limits.ndim:
        return given
    checks = same_shape(array._shape[:-2], limits._shape, f"linalg.{of}")
    return (checked(limits, checks) if checks else limits)[..., None]


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
        tol: the absolute tolerance; default: relative.

    Result: an int64 array (…).

    >>> print(td.run(td.linalg.matrix_rank(np.ones((3, 3)))))
    1
    """
    array = matrices(a, "matrix_rank")
    values = svd(array, compute_uv=False, hermitian=hermitian)
    if tol is None:
        tol = largest(values, -1, True) * _tolerance("matrix_rank", array, rtol)
    else:
        tol = _of_each(tol, array, "matrix_rank")
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

    Result: matrices (…, n, m).

    >>> td.run(td.linalg.pinv(np.array([[2.0], [0.0]])))
    array([[0.5, 0. ]])
    """
    array = matrices(a, "pinv")
    left, values, right = svd(array, full_matrices=False, hermitian=hermitian)
    given = rcond if rcond is not None else rtol
    limit = largest(values, -1, True) * _tolerance("pinv", array, given)
    large = values > limit
    inverse = f.where(large, 1 / f.where(large, values, 1), 0)
    scaled = conjugate_transpose(right) * inverse[..., None, :]
    found = products.matmul(scaled, conjugate_transpose(left))
    return _with_rule("pinv", (), [found], [array], found.types[0])[0]


def largest(values: Array, axis: AxisLike | None, keepdims: bool = False) -> Array:
    """The largest of numbers that are not negative; 0 of none."""
    return reductions.reduce(values, axis, keepdims, "max", lambda e: e, "maximum", 0)


def conjugate_transpose(a: Array) -> Array:
    """Of the matrices in the last two axes."""
    found: Array = index_space.transpose(a, (*range(a.ndim - 2), a.ndim - 1, a.ndim - 2))
    return f.conj(found) if a.types[0].is_complex else found


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

    Result: a tuple of four arrays (x, residuals, rank, s).

    >>> a, b = np.array([[1.0], [1.0]]), np.array([1.0, 3.0])
    >>> x, residuals, rank, s = td.run(td.linalg.lstsq(a, b))
    >>> print(x.round(6), residuals.round(6), rank)
    [2.] [2.] 1
    """
    array, right = matrices(a, "lstsq"), as_array(b, "linalg.lstsq")
    if right.ndim == 1:
        column = index_space.reshape(right, (right.shape[0], 1))
        x, residuals, rank, values = lstsq(array, column, rcond)
        return x[:, 0], residuals, rank, values
    right = matrices(right, "lstsq")
    if array.ndim != 2 or right.ndim != 2:
        inverses = "td.linalg.pinv(a)"
        many = f"td.matvec({inverses}, b)" if right.ndim < array.ndim else f"{inverses} @ b"
        raise ShapeError(
            f"linalg.lstsq takes one matrix, got {show_shape(array._shape)} and "
            f"{show_shape(right._shape)}.",
            hint=f"{many} solves many systems at once.",
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
    if rcond is not None and as_array(rcond, "linalg.lstsq").ndim:
        raise ShapeError(
            f"linalg.lstsq: rcond is one number, got {rcond!r}.", hint="Write rcond=1e-10."
        )
    cutoff = None if rcond is None else repr(float(known))
    made = _by_library("lstsq", (cutoff,), [array, right], t, outs, checks)
    return made[0], made[1], made[2], made[3]
