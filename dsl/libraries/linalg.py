"""Linear algebra by LAPACK and cuSOLVER, for matrices without kernels of treadle's.

Every function takes the array module, NumPy or CuPy, its static parameters and the arrays, whose
last two axes are those of matrices.  Results are tuples of arrays; the last of `inv`, `solve`,
`cholesky`, … says for each matrix whether it is singular (not positive definite, not converged).
Those matrices give NaN, and no error.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import cache
from math import prod
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

from .base import LibraryOperation, builtin, register_portable

#: An array of NumPy's or CuPy's: matrices in its last two axes.
Stack: TypeAlias = Any
Arrays = tuple[Any, ...]


def _batched(f: Callable[..., Arrays], arrays: Arrays, batch: tuple[int, ...]) -> Arrays:
    """`f` of stacks of matrices on one batch axis, and which matrices it has no result for.

    LAPACK's functions in NumPy raise an error for a whole stack; halves find its matrices."""
    flat = tuple(a.reshape(prod(batch), *a.shape[len(batch) :]) for a in arrays)
    *results, bad = _by_halves(f, flat)
    return (*(r.reshape(*batch, *r.shape[1:]) for r in results), bad.reshape(batch))


def _by_halves(f: Callable[..., Arrays], arrays: Arrays) -> Arrays:
    count = arrays[0].shape[0]
    try:
        return (*f(*arrays), np.zeros(count, bool))
    except np.linalg.LinAlgError:
        if count > 1:
            middle = count // 2
            left = _by_halves(f, tuple(a[:middle] for a in arrays))
            right = _by_halves(f, tuple(a[middle:] for a in arrays))
            return tuple(np.concatenate(pair) for pair in zip(left, right, strict=True))
        units = (np.broadcast_to(np.eye(*a.shape[-2:], dtype=a.dtype), a.shape) for a in arrays)
        results = f(*units)  # for their shapes and types
        nothing = (np.full(r.shape, np.nan if r.dtype.kind in "fc" else 0, r.dtype)
                   for r in results)  # fmt: skip
        return (*nothing, np.ones(1, bool))


def _tolerant(xp: ModuleType, f: Callable[..., Arrays], *arrays: Stack) -> Arrays:
    """The results of `f` and which matrices have none (with CuPy: none that is finite)."""
    batch = np.broadcast_shapes(*(a.shape[:-2] for a in arrays))
    wide = tuple(xp.broadcast_to(a, (*batch, *a.shape[-2:])) for a in arrays)
    if xp is np:
        return _batched(f, wide, batch)
    results = f(*wide)
    bad = xp.zeros(batch, bool)
    for r in results:
        if r.dtype.kind in "fc":
            bad |= ~xp.isfinite(r).all(axis=tuple(range(len(batch), r.ndim)))
    return (*results, bad)


def det(xp: ModuleType, _: Arrays, a: Stack) -> Arrays:
    return (xp.linalg.det(a),)


def slogdet(xp: ModuleType, _: Arrays, a: Stack) -> Arrays:
    sign, logarithm = xp.linalg.slogdet(a)
    return sign, logarithm


def inv(xp: ModuleType, _: Arrays, a: Stack) -> Arrays:
    return _tolerant(xp, lambda x: (xp.linalg.inv(x),), a)


def solve(xp: ModuleType, _: Arrays, a: Stack, b: Stack) -> Arrays:
    return _tolerant(xp, lambda x, y: (xp.linalg.solve(x, y),), a, b)


def cholesky(xp: ModuleType, parameters: Arrays, a: Stack) -> Arrays:
    (upper,) = parameters
    if upper:
        a = xp.conj(xp.swapaxes(a, -1, -2))
    low, bad = _tolerant(xp, lambda x: (xp.linalg.cholesky(x),), a)
    return (xp.conj(xp.swapaxes(low, -1, -2)) if upper else low), bad


def potrf(xp: ModuleType, _: Arrays, a: Stack) -> Arrays:
    """The upper factors R with Rᴴ R = a, by which the upper triangles are replaced, and a number
    for each matrix, which is not 0 where there is no such factor."""
    whole = xp.triu(a) + xp.conj(xp.swapaxes(xp.triu(a, 1), -1, -2))
    found, bad = cholesky(xp, (True,), whole)
    return xp.triu(found) + xp.tril(a, -1), bad.astype(np.int32)


#: Rows of triangular systems that are solved one after the other, without SciPy.
ROWS = 32


def solve_triangular(xp: ModuleType, parameters: Arrays, a: Stack, b: Stack) -> Arrays:
    """op(a) X = b by BLAS if SciPy is installed, else by halves; NaN where the diagonal has a
    zero."""
    lower, trans, unit = parameters
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    found = xp.empty((*batch, *b.shape[-2:]), b.dtype)
    matrices = xp.broadcast_to(a, (*batch, *a.shape[-2:]))
    found[...] = b
    singular = np.zeros(batch, bool)
    if not unit:
        singular = (xp.diagonal(matrices, axis1=-2, axis2=-1) == 0).any(axis=-1)
    for at in np.ndindex(batch if found.size else (0,)):
        if singular[at]:
            found[at] = np.nan
        elif _has_scipy():
            found[at] = _by_blas(matrices[at], found[at], lower, trans, unit)
        else:
            matrix = matrices[at] if trans == "N" else matrices[at].T
            matrix = matrix.conj() if trans == "C" else matrix
            _substitute(matrix, found[at], lower == (trans == "N"), unit)
    return (found,)


@cache
def _has_scipy() -> bool:
    return importlib.util.find_spec("scipy") is not None


def _by_blas(a: Stack, b: Stack, lower: bool, trans: str, unit: bool) -> Stack:
    """Of row-major matrices, which are the transposes of BLAS's: Xᵀ op(a)ᵀ = bᵀ."""
    from scipy.linalg.blas import get_blas_funcs

    trsm, trsv = get_blas_funcs(("trsm", "trsv"), (a, b))
    if b.shape[1] > 1:
        return trsm(1, a.T, b.T, side=1, lower=not lower, trans_a="NTC".index(trans), diag=unit).T
    vector = b[:, 0].conj() if trans == "C" else b[:, 0]
    x = trsv(a.T, vector, lower=not lower, trans=trans == "N", diag=unit)
    return (x.conj() if trans == "C" else x)[:, None]


def _substitute(a: Stack, b: Stack, lower: bool, unit: bool) -> None:
    """X in place of b."""
    n = len(a)
    if n > ROWS:
        halves = slice(n // 2), slice(n // 2, n)
        first, second = halves if lower else halves[::-1]
        _substitute(a[first, first], b[first], lower, unit)
        b[second] -= a[second, first] @ b[first]
        _substitute(a[second, second], b[second], lower, unit)
        return
    for i in range(n) if lower else reversed(range(n)):
        known = slice(i) if lower else slice(i + 1, n)
        b[i] -= a[i, known] @ b[known]
        if not unit:
            b[i] /= a[i, i]


def lu(xp: ModuleType, _: Arrays, a: Stack) -> Arrays:
    """LU of square matrices as LAPACK's getrf: (lu, pivots)."""
    n = a.shape[-1]
    rows, pivots = xp.array(a, order="C"), xp.zeros(a.shape[:-1], np.int32)
    if xp is np and n > 2 and _has_scipy():
        from scipy.linalg.lapack import get_lapack_funcs

        (getrf,) = get_lapack_funcs(("getrf",), (rows,))
        for at in np.ndindex(a.shape[:-2]):
            rows[at], pivots[at], _ = getrf(rows[at])
        return rows, pivots
    flat, found = rows.reshape(-1, n, n), pivots.reshape(-1, n)
    every = xp.arange(flat.shape[0])
    for k in range(n):
        column = flat[:, k:, k]
        size = xp.abs(column.real) + xp.abs(column.imag) if a.dtype.kind == "c" else abs(column)
        pivot = k + xp.argmax(size, axis=1) if flat.shape[0] else every
        found[:, k] = pivot
        upper = flat[every, pivot].copy()
        flat[every, pivot] = flat[:, k]
        flat[:, k] = upper
        divisor = xp.where(upper[:, k] == 0, 1, upper[:, k]).astype(a.dtype)
        flat[:, k + 1 :, k] /= divisor[:, None]
        flat[:, k + 1 :, k + 1 :] -= flat[:, k + 1 :, k, None] * flat[:, k, None, k + 1 :]
    return rows, pivots


def qr(xp: ModuleType, parameters: Arrays, a: Stack) -> Arrays:
    (mode,) = parameters
    found = xp.linalg.qr(a, mode=mode)
    return (found,) if mode == "r" else tuple(found)


def eigh(xp: ModuleType, parameters: Arrays, a: Stack) -> Arrays:
    (triangle,) = parameters
    return _tolerant(xp, lambda x: tuple(xp.linalg.eigh(x, triangle)), a)


def svd(xp: ModuleType, parameters: Arrays, a: Stack) -> Arrays:
    full, vectors = parameters

    def some(x: Stack) -> Arrays:
        found = xp.linalg.svd(x, full_matrices=full, compute_uv=vectors)
        return tuple(found) if vectors else (found,)

    return _tolerant(xp, some, a)


def lstsq(xp: ModuleType, parameters: Arrays, a: Stack, b: Stack) -> Arrays:
    (tolerance,) = parameters
    cutoff = None if tolerance is None else float(tolerance)
    x, residuals, rank, values = xp.linalg.lstsq(a, b, rcond=cutoff)
    m, n = a.shape
    if m > n and residuals.shape != b.shape[1:]:  # NumPy has none where the rank is lower
        residuals = xp.square(xp.abs(b - a @ x)).sum(axis=0)
    return x, residuals, xp.asarray(rank, np.int64), values


def pinv(xp: ModuleType, parameters: Arrays, a: Stack) -> Arrays:
    """What `td.linalg.pinv` computes of singular values: its derivative is that of this."""
    return (xp.linalg.pinv(a),)


def _matrix_axes(parameters: Arrays, rank: int) -> tuple[int, ...]:
    return rank - 2, rank - 1


for _function in (det, slogdet, inv, solve, solve_triangular, cholesky, potrf, lu, qr, eigh, svd,
                  pinv):  # fmt: skip
    register_portable(f"linalg.{_function.__name__}", _function, along=_matrix_axes)
register_portable("linalg.lstsq", lstsq)


def library_operation(name: str, parameters: tuple[Any, ...]) -> LibraryOperation:
    """The operation of one of these functions."""
    return builtin(f"linalg.{name}", parameters)
