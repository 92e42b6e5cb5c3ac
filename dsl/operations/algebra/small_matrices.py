"""Unrolled algorithms on small matrices of scalars: a thread computes one matrix in registers.

A matrix is a list of rows of `Scalar`s, so these functions write straight-line code; a choice of
rows by a pivot is a select.  The algorithms are LAPACK's: elimination with partial pivoting, by
|re| + |im| for complex elements (getrf), Cholesky's (potrf), Householder reflections (geqrf); and
Jacobi's cyclic rotations for eigenvalues.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from ...annotations import Element
from ...scalar import Scalar
from ...types import ScalarType, int32
from ..control import counted
from ..elements import functions as f

Matrix = list[list[Any]]

#: Sweeps of Jacobi's method: quadratic convergence leaves nothing off the diagonal of a 4 × 4
#: matrix of float64 after five or six.
SWEEPS = 8


@dataclass
class Lu:
    """L (below the diagonal, with ones on it) and U of a matrix with permuted rows; row k was
    exchanged with row `pivots[k]` at step k.  `singular`: whether a pivot is zero or NaN."""

    rows: Matrix
    pivots: list[Any]
    odd: Any
    singular: Any

    @property
    def diagonal(self) -> list[Scalar]:
        return [row[k] for k, row in enumerate(self.rows)]


def size(x: Scalar) -> Any:
    """|x|, or |re| + |im|, by which LAPACK chooses pivots."""
    return f.abs(f.real(x)) + f.abs(f.imag(x)) if x.dtype.is_complex else f.abs(x)


def _times(x: Scalar, r: Any) -> Any:
    """x · r for a real r."""
    return f.complex_(f.real(x) * r, f.imag(x) * r) if x.dtype.is_complex else x * r


def _over(x: Scalar, r: Any) -> Any:
    """x / r for a real r, of which no reciprocal overflows."""
    return f.complex_(f.real(x) / r, f.imag(x) / r) if x.dtype.is_complex else x / r


def _exchange(rows: Matrix, k: int, pivot: Any, columns: range) -> None:
    """Exchange row k with row `pivot` ≥ k."""
    for j in columns:
        old = [row[j] for row in rows]
        for i in range(k + 1, len(rows)):
            rows[k][j] = f.where(pivot == i, old[i], rows[k][j])
            rows[i][j] = f.where(pivot == i, old[k], old[i])


def lu(a: Matrix, right_sides: Matrix | None = None) -> Lu:
    """Elimination of an n × n matrix; the rows of `right_sides` are changed as those of `a`.

    A column without a pivot is left as it is, so that the results stay finite.
    """
    n = len(a)
    rows = [list(row) for row in a]
    more = right_sides if right_sides is not None else [[] for _ in a]
    pivots: list[Any] = []
    odd: Any = None
    singular: Any = None
    for k in range(n):
        best, pivot = size(rows[k][k]), f.cast(k, int32)
        for i in range(k + 1, n):
            larger = size(rows[i][k]) > best
            best, pivot = f.where(larger, size(rows[i][k]), best), f.where(larger, i, pivot)
        if k + 1 < n:
            _exchange(rows, k, pivot, range(n))
            _exchange(more, k, pivot, range(len(more[0])))
            moved = pivot != k
            odd = moved if odd is None else odd ^ moved
        pivots.append(pivot)
        none = f.logical_not(best > 0)
        singular = none if singular is None else singular | none
        divisor = f.where(rows[k][k] == 0, 1, rows[k][k])
        for i in range(k + 1, n):
            factor = rows[i][k] / divisor
            rows[i][k] = factor
            for j in range(k + 1, n):
                rows[i][j] = rows[i][j] - factor * rows[k][j]
            more[i][:] = [x - factor * y for x, y in zip(more[i], more[k], strict=True)]
    return Lu(rows, pivots, odd, singular)


def det(diagonal: Sequence[Scalar], odd: Scalar | None) -> Element:
    """The determinant: the product of the pivots, in order, negative after an odd number of
    exchanges (None: none)."""
    product = diagonal[0]
    for x in diagonal[1:]:
        product = product * x
    return product if odd is None else f.where(odd, -product, product)


def cofactors(a: Matrix) -> Matrix:
    """The determinants without row i and column j, negative where i + j is odd: by expansion along
    first rows, each determinant of the same rows and columns once."""
    n = len(a)

    @cache
    def minor(rows: tuple[int, ...], columns: tuple[int, ...]) -> Scalar:
        terms: list[Scalar] = []
        for k, column in enumerate(columns):
            others = columns[:k] + columns[k + 1 :]
            x = a[rows[0]][column]
            terms.append(x * minor(rows[1:], others) if others else x)
        total = terms[0]
        for k, term in enumerate(terms[1:]):
            total = total + term if k % 2 else total - term
        return total

    def cofactor(i: int, j: int) -> Scalar:
        rows, columns = (tuple(k for k in range(n) if k != away) for away in (i, j))
        value = minor(rows, columns)
        return -value if (i + j) % 2 else value

    if n == 1:
        return [[a[0][0].dtype(1)]]
    return [[cofactor(i, j) for j in range(n)] for i in range(n)]


def slogdet(
    diagonal: Sequence[Scalar], odd: Scalar | None, real: ScalarType
) -> tuple[Element, Element]:
    """The determinant's sign (or phase) and the logarithm of its absolute value."""
    sign: Any = None
    logarithm: Any = None
    for x in diagonal:
        r = f.abs(x)
        phase = _over(x, f.where(r == 0, 1, r)) if x.dtype.is_complex else f.sign(x)
        sign = phase if sign is None else sign * phase
        logarithm = f.log(r) if logarithm is None else logarithm + f.log(r)
    if odd is not None:
        sign = f.where(odd, -sign, sign)
    return sign, f.cast(logarithm, real)


def solve(a: Matrix, b: Matrix) -> tuple[Matrix, Any]:
    """X with a X = b, and whether `a` is singular."""
    n = len(a)
    x = [list(row) for row in b]
    made = lu(a, x)
    for k in reversed(range(n)):
        for c in range(len(x[k])):
            for j in range(k + 1, n):
                x[k][c] = x[k][c] - made.rows[k][j] * x[j][c]
            x[k][c] = x[k][c] / made.rows[k][k]
    return x, made.singular


def inv(a: Matrix) -> tuple[Matrix, Any]:
    """The inverse, and whether `a` is singular: U⁻¹ L⁻¹ with permuted columns (getri)."""
    n = len(a)
    made = lu(a)
    rows = made.rows
    inverse = [1 / rows[k][k] for k in range(n)]
    x: Matrix = [[None] * n for _ in range(n)]
    for c in range(n):
        column: list[Any] = [None] * n  # L⁻¹ of a unit vector: zeros, a one, and the rest
        for i in range(c + 1, n):
            total = 0 - rows[i][c]  # no negative zeros of nothing
            for j in range(c + 1, i):
                total = total - rows[i][j] * column[j]
            column[i] = total
        for k in reversed(range(n)):
            total = column[k] if k > c else None
            for j in range(k + 1, n):
                term = rows[k][j] * x[j][c]
                start = int(k == c) - term
                total = start if total is None else total - term
            x[k][c] = inverse[k] if total is None else total * inverse[k]
    for k in reversed(range(n - 1)):
        for row in x:
            old = list(row)
            for j in range(k + 1, n):
                row[k] = f.where(made.pivots[k] == j, old[j], row[k])
                row[j] = f.where(made.pivots[k] == j, old[k], old[j])
    return x, made.singular


def solve_triangular(a: Matrix, b: Matrix, lower: bool, trans: str, unit: bool) -> Matrix:
    """X with op(a) X = b, by substitution."""
    n = len(a)
    if trans != "N":
        a = [[a[j][i] for j in range(n)] for i in range(n)]
        a = [[f.conj(x) for x in row] for row in a] if trans == "C" else a
        lower = not lower
    x = [list(row) for row in b]
    order = [*range(n)] if lower else [*reversed(range(n))]
    for step, k in enumerate(order):
        x[k] = x[k] if unit else [v / a[k][k] for v in x[k]]
        for i in order[step + 1 :]:
            x[i] = [v - a[i][k] * known for v, known in zip(x[i], x[k], strict=True)]
    return x


def cholesky(a: Matrix, upper: bool) -> tuple[Matrix, Any]:
    """L with L Lᴴ = a (or its conjugate transpose), all NaN if `a` is not positive definite, and
    whether it is not.  Only the triangle of the result is read."""
    n = len(a)
    low = [[f.conj(a[j][i]) if upper else a[i][j] for j in range(n)] for i in range(n)]
    made: Matrix = [[None] * n for _ in range(n)]
    bad: Any = None
    for k in range(n):
        pivot = f.real(low[k][k])
        for j in range(k):
            pivot = pivot - _squared(made[k][j])
        fails = f.logical_not(pivot > 0)
        bad = fails if bad is None else bad | fails
        root = f.sqrt(pivot)
        made[k][k] = f.cast(root, a[0][0].dtype)
        for i in range(k + 1, n):
            total = low[i][k]
            for j in range(k):
                total = total - made[i][j] * f.conj(made[k][j])
            made[i][k] = _over(total, root)
    nan = f.cast(float("nan"), a[0][0].dtype)
    result = [[f.where(bad, nan, made[i][j] if j <= i else 0) for j in range(n)] for i in range(n)]
    return ([[f.conj(result[j][i]) for j in range(n)] for i in range(n)] if upper else result), bad


def _squared(x: Scalar) -> Any:
    """|x|²."""
    if not x.dtype.is_complex:
        return x * x
    return f.real(x) * f.real(x) + f.imag(x) * f.imag(x)


def _total(values: list[Any], combine: Callable[[Any, Any], Any]) -> Any:
    total = values[0]
    for value in values[1:]:
        total = combine(total, value)
    return total


def _norm(column: list[Any]) -> Any:
    """The Euclidean norm, scaled by the largest element so that no square overflows."""
    most = _total([size(x) for x in column], f.maximum)
    scale = f.where(most > 0, most, 1)
    squares = [_squared(_over(x, scale)) for x in column]
    return scale * f.sqrt(_total(squares, lambda x, y: x + y))


def qr(a: Matrix, complete: bool) -> tuple[Matrix, Matrix]:
    """Q (m × min(m, n), or m × m if `complete`) and R by Householder reflections, with the signs
    of LAPACK: reflection k maps column k to β e_k with β of the sign opposite to its element."""
    m, n = len(a), len(a[0])
    count, kind = min(m, n), a[0][0].dtype
    r = [list(row) for row in a]
    reflections: list[tuple[list[Any], Any]] = []
    for k in range(count):
        alpha = r[k][k]
        if k + 1 == m and not kind.is_complex:
            break  # nothing below: LAPACK leaves a real element as it is
        below = [r[i][k] for i in range(k + 1, m)]
        whole = _norm([alpha, *below])
        rest = _total([size(x) for x in below], f.maximum) if below else f.real(alpha) * 0
        if kind.is_complex:
            rest = f.maximum(rest, f.abs(f.imag(alpha)))
        none = rest == 0  # already zero below: no reflection
        beta = f.where(f.real(alpha) >= 0, -whole, whole)
        divisor = f.where(none, 1, beta)
        tau = f.where(none, 0, _over(beta - alpha, divisor))
        scale = f.where(none, 1, alpha - beta)
        vector = [x / scale for x in below]  # below a one
        reflections.append((vector, tau))
        for j in range(k + 1, n):
            dot = r[k][j]
            for i, v in enumerate(vector, k + 1):
                dot = dot + f.conj(v) * r[i][j]
            dot = f.conj(tau) * dot
            r[k][j] = r[k][j] - dot
            for i, v in enumerate(vector, k + 1):
                r[i][j] = r[i][j] - v * dot
        r[k][k] = f.cast(f.where(none, alpha, beta), kind)
        for i in range(k + 1, m):
            r[i][k] = alpha * 0
    zero, one = f.cast(0, kind), f.cast(1, kind)
    width = m if complete else count
    q = [[one if i == j else zero for j in range(width)] for i in range(m)]
    for k in reversed(range(len(reflections))):
        vector, tau = reflections[k]
        for j in range(k, width):
            dot = q[k][j]
            for i, v in enumerate(vector, k + 1):
                dot = dot + f.conj(v) * q[i][j]
            dot = tau * dot
            q[k][j] = q[k][j] - dot
            for i, v in enumerate(vector, k + 1):
                q[i][j] = q[i][j] - v * dot
    upper = [[r[i][j] if i <= j else zero for j in range(n)] for i in range(width)]
    return q, upper


def eigh(a: Matrix, upper: bool, vectors: bool = True) -> tuple[list[Any], Matrix]:
    """The eigenvalues of a Hermitian matrix, ascending, and its eigenvectors as columns.

    Jacobi's method: in each sweep, every pair of axes is rotated so that the element of their plane
    off the diagonal vanishes.  Only the given triangle is read.
    """
    n, kind = len(a), a[0][0].dtype
    pairs = [(p, q) for p in range(n) for q in range(p + 1, n)]
    diagonal = [f.real(a[k][k]) for k in range(n)]
    off = {(p, q): a[p][q] if upper else f.conj(a[q][p]) for p, q in pairs}
    most = _total([size(x) for x in (*diagonal, *off.values())], f.maximum)
    scale = f.where(most > 0, most, 1)  # no square overflows, and what underflows is negligible
    diagonal = [x / scale for x in diagonal]
    off = {pair: _over(x, scale) for pair, x in off.items()}
    unit = [[f.cast(int(i == j), kind) for j in range(n)] for i in range(n)]
    start = (*diagonal, *(off[pair] for pair in pairs), *(x for row in unit for x in row))

    def sweep(_: Any, state: tuple[Any, ...]) -> tuple[Any, ...]:
        d = list(state[:n])
        o = dict(zip(pairs, state[n : n + len(pairs)], strict=True))
        v = [list(state[n + len(pairs) + i * n :][:n]) for i in range(n)]
        for p, q in pairs:
            _rotate(d, o, v, p, q)
        return (*d, *(o[pair] for pair in pairs), *(x for row in v for x in row))

    end = counted(SWEEPS, sweep, start) if n > 1 else start
    values = [x * scale for x in end[:n]]
    columns = [[end[n + len(pairs) + i * n + j] for i in range(n)] for j in range(n)]
    for last in reversed(range(1, n)):  # ascending: exchange neighbours
        for k in range(last):
            more = values[k] > values[k + 1]
            low, high = values[k], values[k + 1]
            values[k], values[k + 1] = f.where(more, high, low), f.where(more, low, high)
            left, right = columns[k], columns[k + 1]
            columns[k] = [f.where(more, y, x) for x, y in zip(left, right, strict=True)]
            columns[k + 1] = [f.where(more, x, y) for x, y in zip(left, right, strict=True)]
    return values, [[columns[j][i] for j in range(n)] for i in range(n)]


def _rotate(d: list[Any], o: dict[tuple[int, int], Any], v: Matrix, p: int, q: int) -> None:
    """One rotation: the element of the axes p < q off the diagonal becomes zero."""
    x = o[p, q]
    real = not x.dtype.is_complex
    g = x if real else f.abs(x)
    bits = np.finfo(d[p].dtype.numpy)
    none = f.abs(g) <= float(bits.tiny / bits.eps)  # its phase would be inexact
    tau = (d[q] - d[p]) / (2 * f.where(none, 1, g))
    t = f.where(tau < 0, -1, 1) / (f.abs(tau) + f.hypot(tau, 1))
    t = f.where(none, 0, t)
    c = 1 / f.sqrt(t * t + 1)
    s = t * c
    phase = None if real else f.where(none, 1, _over(f.conj(x), f.where(none, 1, g)))

    def rotated(left: Any, right: Any) -> tuple[Any, Any]:
        right = right if phase is None else right * phase
        return (_times(left, c) - _times(right, s), _times(left, s) + _times(right, c))

    d[p], d[q] = d[p] - t * g, d[q] + t * g
    o[p, q] = x * 0
    for k in range(len(d)):
        if k not in (p, q):
            left = o[k, p] if k < p else f.conj(o[p, k])
            right = o[k, q] if k < q else f.conj(o[q, k])
            left, right = rotated(left, right)
            o[(k, p) if k < p else (p, k)] = left if k < p else f.conj(left)
            o[(k, q) if k < q else (q, k)] = right if k < q else f.conj(right)
    for row in v:
        row[p], row[q] = rotated(row[p], row[q])
