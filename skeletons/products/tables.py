"""Bilinear matrix-multiplication algorithms as coefficient tables.

⟨m, k, n; R⟩: with the blocks of A (m·k, row-major), B (k·n) and C (m·n),

    M_r = (Σᵢ U[i, r]·A_i) · (Σⱼ V[j, r]·B_j),      C_p = Σ_r W[p, r]·M_r.

Brent's equations are checked on construction.  Levels compose by the Kronecker product.
Sources: V. Strassen, Numer. Math. 13 (1969); S. Winograd's variant with 15 additions; J. Laderman,
Bull. AMS 82 (1976).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import reduce
from numbers import Integral, Rational
from typing import Any

import numpy as np

from treadle.dsl.errors import DTypeError, ShapeError, TracingError, user_facing_class
from treadle.dsl.records import dataclass

#: Coefficients are multiples of 1/256.
_DYADIC = 256


@user_facing_class
@dataclass(frozen=True, eq=False, repr=False)
class BilinearAlgorithm:
    """A fast matrix product, such as Strassen's: R products of sums of blocks, as three tables.

    Matrices of m × k and k × n blocks are multiplied by R products of blocks; row by row from the
    top left, `u` (m·k, R) and `v` (k·n, R) say which sums of blocks are multiplied, `w` (m·n, R)
    which of the products are added in each block of the result.  The coefficients are integers, or
    fractions whose denominator is a power of two (which integer matrices reject).

    Raises ShapeError or DTypeError for invalid tables, TracingError if they compute no product.

    >>> import numpy as np, treadle as td
    >>> one = np.ones((1, 1), int)
    >>> td.BilinearAlgorithm("usual", 1, 1, 1, one, one, one).products
    1
    """

    name: str
    m: int
    k: int
    n: int
    u: Any
    v: Any
    w: Any

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise DTypeError(
                f"BilinearAlgorithm: name must be a string, got {type(self.name).__name__}.",
                hint='Write the name first: BilinearAlgorithm("mine", m, k, n, u, v, w).',
            )
        extents = self.m, self.k, self.n
        if not all(isinstance(x, Integral) and x > 0 for x in extents):
            raise ShapeError(f"{self.name}: m, k and n are counts of blocks, got {extents}.")
        for letter, extent in zip("mkn", extents, strict=True):
            object.__setattr__(self, letter, int(extent))
        for letter, shape in (("u", (self.m, self.k)), ("v", (self.k, self.n)),
                              ("w", (self.m, self.n))):  # fmt: skip
            object.__setattr__(self, letter, self._table(letter, *shape))
        if len({t.shape[1] for t in (self.u, self.v, self.w)}) > 1:
            raise ShapeError(
                f"{self.name}: the tables have {self.u.shape[1]}, {self.v.shape[1]} and "
                f"{self.w.shape[1]} columns, of which each is one product."
            )
        for letter in ("u", "v", "w"):
            used = getattr(self, letter).any(axis=0)
            if not used.all():
                raise TracingError(
                    f"{self.name}: product {int(used.argmin())} has no term in table {letter}.",
                    hint="Leave its column out of all three tables: it adds nothing to the result.",
                )
        # Compositions of verified algorithms are correct; checking large ones would take too long.
        if np.prod([float(t.shape[0]) for t in (self.u, self.v, self.w)]) * self.products < 1e7:
            self.verify()

    def _table(self, letter: str, rows: int, cols: int) -> Any:
        """One of the tables as an array of int64, or of float64 if it has fractions."""
        try:
            given = np.asarray(getattr(self, letter))
            if given.dtype == object and all(isinstance(x, Rational) for x in given.flat):
                given = given.astype(np.float64)  # exact for the fractions accepted below
        except ValueError:
            raise ShapeError(f"{self.name}: the rows of table {letter} differ in length.") from None
        if given.ndim != 2 or given.shape[0] != rows * cols:
            raise ShapeError(
                f"{self.name}: table {letter} has the shape {given.shape}.",
                hint=f"It has {rows * cols} rows, one for each of {rows} × {cols} blocks row by "
                "row, and a column for each product.",
            )
        if given.dtype.kind not in "iuf" or not np.isfinite(given).all():
            raise DTypeError(f"{self.name}: table {letter} holds {given.dtype}, no coefficients.")
        with np.errstate(invalid="ignore"):
            whole = given.astype(np.int64)
        if np.array_equal(whole, given):
            return whole
        if not np.array_equal(np.rint(given * _DYADIC), given * _DYADIC):
            raise DTypeError(
                f"{self.name}: table {letter} has fractions that floats only come near to.",
                hint="Coefficients are integers, or fractions over 2, 4, 8, … 256.",
            )
        return given.astype(np.float64)

    def _value(self) -> tuple[Any, ...]:
        tables = (tuple(map(tuple, t.tolist())) for t in (self.u, self.v, self.w))
        return (self.name, self.m, self.k, self.n, *tables)

    def __eq__(self, other: object) -> bool:
        if self is other or not isinstance(other, BilinearAlgorithm):
            return self is other
        return self._value() == other._value()

    def __hash__(self) -> int:
        return hash((self.name, self.m, self.k, self.n, self.products))

    @property
    def fractions(self) -> bool:
        return any(t.dtype.kind == "f" for t in (self.u, self.v, self.w))

    def __repr__(self) -> str:
        return f"BilinearAlgorithm({self.name!r}: ⟨{self.m}, {self.k}, {self.n}; {self.products}⟩)"

    @property
    def products(self) -> int:
        """R, the number of multiplications."""
        return int(self.u.shape[1])

    def verify(self) -> None:
        """Check Brent's equations: Σ_r U[ia·k+ja]·V[ib·n+jb]·W[ic·n+jc] = [ja=ib][ia=ic][jb=jc]."""
        # Dyadic fractions are exact in float64, as are their products and short sums.
        t = np.einsum("ar,br,cr->abc", self.u, self.v, self.w)
        want = np.zeros_like(t)
        for i in range(self.m):
            for j in range(self.k):
                for p in range(self.n):
                    want[i * self.k + j, j * self.n + p, i * self.n + p] = 1
        if not np.array_equal(t, want):
            wrong = np.argwhere(t != want)
            a, b, c = (int(x) for x in wrong[0])
            raise TracingError(
                f"{self.name} is no ⟨{self.m}, {self.k}, {self.n}⟩ algorithm: {len(wrong)} of "
                f"{want.size} equations fail, the first for blocks A{a}·B{b} in C{c} "
                f"(wanted {int(want[a, b, c])}, got {t[a, b, c]:g}).",
                hint="Blocks are numbered row by row from 0; a sign or a row of a table is wrong.",
            )

    def compose(self, inner: BilinearAlgorithm) -> BilinearAlgorithm:
        """Two levels in one: this algorithm over blocks multiplied by `inner`."""

        def joined(a: Any, b: Any, rows: tuple[int, int], cols: tuple[int, int]) -> Any:
            # Block (i, j) of a, sub-block (p, q) of b → row i·p' + p, column j·q' + q.
            x = a.reshape(rows[0], cols[0], -1)
            y = b.reshape(rows[1], cols[1], -1)
            z = np.einsum("ijr,pqs->ipjqrs", x, y)
            return z.reshape(rows[0] * rows[1] * cols[0] * cols[1], -1)

        return BilinearAlgorithm(
            f"{self.name}∘{inner.name}", self.m * inner.m, self.k * inner.k, self.n * inner.n,
            joined(self.u, inner.u, (self.m, inner.m), (self.k, inner.k)),
            joined(self.v, inner.v, (self.k, inner.k), (self.n, inner.n)),
            joined(self.w, inner.w, (self.m, inner.m), (self.n, inner.n)),
        )  # fmt: skip


def _table(rows: list[list[int]]) -> Any:
    return np.array(rows, np.int64)


STANDARD = BilinearAlgorithm("standard", 1, 1, 1, _table([[1]]), _table([[1]]), _table([[1]]))

STRASSEN = BilinearAlgorithm(
    "strassen", 2, 2, 2,
    _table([[1, 0, 1, 0, 1, -1, 0], [0, 0, 0, 0, 1, 0, 1],
            [0, 1, 0, 0, 0, 1, 0], [1, 1, 0, 1, 0, 0, -1]]),
    _table([[1, 1, 0, -1, 0, 1, 0], [0, 0, 1, 0, 0, 1, 0],
            [0, 0, 0, 1, 0, 0, 1], [1, 0, -1, 0, 1, 0, 1]]),
    _table([[1, 0, 0, 1, -1, 0, 1], [0, 0, 1, 0, 1, 0, 0],
            [0, 1, 0, 1, 0, 0, 0], [1, -1, 1, 0, 0, 1, 0]]),
)  # fmt: skip

WINOGRAD = BilinearAlgorithm(
    "winograd", 2, 2, 2,
    _table([[1, 0, 1, 0, 0, -1, 1], [0, 1, 1, 0, 0, 0, 0],
            [0, 0, -1, 0, 1, 1, -1], [0, 0, -1, 1, 1, 1, 0]]),
    _table([[1, 0, 0, 1, -1, 1, 0], [0, 0, 0, -1, 1, -1, -1],
            [0, 1, 0, -1, 0, 0, 0], [0, 0, 1, 1, 0, 1, 1]]),
    _table([[1, 1, 0, 0, 0, 0, 0], [1, 0, 1, 0, 1, 1, 0],
            [1, 0, 0, -1, 0, 1, 1], [1, 0, 0, 0, 1, 1, 1]]),
)  # fmt: skip


def written(name: str, m: int, k: int, n: int, products: Sequence[str], results: Sequence[str]
            ) -> BilinearAlgorithm:  # fmt: skip
    """An algorithm from its usual notation: indices from 1, blocks `a12`, `b21`, products `m3`.

    `products` are "sum of a's * sum of b's", `results` the blocks of C row by row.

    >>> whole = written("whole", 1, 1, 1, ["a11 * b11"], ["m1"])
    >>> whole.u.tolist(), whole.w.tolist()
    ([[1]], [[1]])
    """
    u = np.zeros((m * k, len(products)), np.int64)
    v = np.zeros((k * n, len(products)), np.int64)
    w = np.zeros((m * n, len(products)), np.int64)
    for r, text in enumerate(products):
        for side, table, letter, cols in zip(text.split("*"), (u, v), "ab", (k, n), strict=True):
            for sign, i, j in re.findall(rf"([+-]?)\s*{letter}(\d)(\d)", side):
                table[(int(i) - 1) * cols + int(j) - 1, r] = -1 if sign == "-" else 1
    for p, text in enumerate(results):
        for sign, r in re.findall(r"([+-]?)\s*m(\d+)", text):
            w[p, int(r) - 1] = -1 if sign == "-" else 1
    return BilinearAlgorithm(name, m, k, n, u, v, w)


LADERMAN = written(
    "laderman", 3, 3, 3,
    ["a11+a12+a13-a21-a22-a32-a33 * b22", "a11-a21 * -b12+b22",
     "a22 * -b11+b12+b21-b22-b23-b31+b33", "-a11+a21+a22 * b11-b12+b22",
     "a21+a22 * -b11+b12", "a11 * b11", "-a11+a31+a32 * b11-b13+b23", "-a11+a31 * b13-b23",
     "a31+a32 * -b11+b13", "a11+a12+a13-a22-a23-a31-a32 * b23",
     "a32 * -b11+b13+b21-b22-b23-b31+b32", "-a13+a32+a33 * b22+b31-b32", "a13-a33 * b22-b32",
     "a13 * b31", "a32+a33 * -b31+b32", "-a13+a22+a23 * b23+b31-b33", "a13-a23 * b23-b33",
     "a22+a23 * -b31+b33", "a12 * b21", "a23 * b32", "a21 * b13", "a31 * b12", "a33 * b33"],
    ["m6+m14+m19", "m1+m4+m5+m6+m12+m14+m15", "m6+m7+m9+m10+m14+m16+m18",
     "m2+m3+m4+m6+m14+m16+m17", "m2+m4+m5+m6+m20", "m14+m16+m17+m18+m21",
     "m6+m7+m8+m11+m12+m13+m14", "m12+m13+m14+m15+m22", "m6+m7+m8+m9+m23"],
)  # fmt: skip

NAMED = {a.name: a for a in (STANDARD, STRASSEN, WINOGRAD, LADERMAN)}


def power(algorithm: BilinearAlgorithm, levels: int) -> BilinearAlgorithm:
    return reduce(lambda a, b: a.compose(b), [algorithm] * levels, STANDARD)


def algorithm_of(choice: object) -> BilinearAlgorithm | None:
    """The algorithm that an option names or is; None for "auto" and "standard"."""
    if isinstance(choice, BilinearAlgorithm):
        return choice
    return None if choice in ("auto", "standard") else NAMED[str(choice)]
