"""Bilinear matrix-multiplication algorithms as coefficient tables.

⟨m, k, n; R⟩: with the blocks of A (m·k, row-major), B (k·n) and C (m·n),

    M_r = (Σᵢ U[i, r]·A_i) · (Σⱼ V[j, r]·B_j),      C_p = Σ_r W[p, r]·M_r.

`verify` checks Brent's equations over the integers.  Levels compose by the Kronecker product.
Sources: V. Strassen, Numer. Math. 13 (1969); S. Winograd's variant with 15 additions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class BilinearAlgorithm:
    """Three integer tables: `u` (m·k, R), `v` (k·n, R), `w` (m·n, R)."""

    name: str
    m: int
    k: int
    n: int
    u: Any
    v: Any
    w: Any

    @property
    def products(self) -> int:
        """R, the number of multiplications."""
        return int(self.u.shape[1])

    def verify(self) -> None:
        """Brent's equations: Σ_r U[ia·k+ja]·V[ib·n+jb]·W[ic·n+jc] = [ja=ib][ia=ic][jb=jc]."""
        t = np.einsum("ar,br,cr->abc", self.u, self.v, self.w)
        want = np.zeros_like(t)
        for i in range(self.m):
            for j in range(self.k):
                for p in range(self.n):
                    want[i * self.k + j, j * self.n + p, i * self.n + p] = 1
        if not np.array_equal(t, want):
            raise ValueError(f"{self.name} is no ⟨{self.m}, {self.k}, {self.n}⟩ algorithm")

    def compose(self, inner: BilinearAlgorithm) -> BilinearAlgorithm:
        """Two levels at once: this algorithm over blocks multiplied by `inner`."""

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

NAMED = {a.name: a for a in (STANDARD, STRASSEN, WINOGRAD)}


def power(algorithm: BilinearAlgorithm, levels: int) -> BilinearAlgorithm:
    """The algorithm applied `levels` times."""
    return reduce(lambda a, b: a.compose(b), [algorithm] * levels, STANDARD)
