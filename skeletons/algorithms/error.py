"""Bounds on the rounding error of a product by a bilinear algorithm.

Max-norm bounds ‖C − Ĉ‖ ≤ f(n)·u·‖A‖·‖B‖ + O(u²), by the one-level recurrence (Higham, Accuracy and
Stability of Numerical Algorithms, 2nd edition, section 23.2.2; Bini and Lotti 1980; Ballard et al.
2016): with a level of an algorithm, f(n) = e·f(n/n₀) + d·n/n₀, where e is the growth factor of its
tables.  For Strassen e = 12, for Winograd 18; Higham's exact forms are used for those two.
"""

from __future__ import annotations

import numpy as np

from .tables import BilinearAlgorithm


def growth(algorithm: BilinearAlgorithm) -> int:
    """The factor by which a level may multiply the error: max over p of Σ_r |w|·Σ|u|·Σ|v|.

    >>> from .tables import STANDARD, STRASSEN, WINOGRAD
    >>> growth(STANDARD), growth(STRASSEN), growth(WINOGRAD)
    (1, 12, 18)
    """
    sums = np.abs(algorithm.u).sum(0) * np.abs(algorithm.v).sum(0)
    return int((np.abs(algorithm.w) * sums).sum(1).max())


def error_bound(algorithm: BilinearAlgorithm, levels: int, m: int, k: int, n: int) -> float:
    """f with ‖C − Ĉ‖ ≤ f·u·‖A‖·‖B‖ in the max norm, to first order in the unit roundoff u.

    Without a level it is the k² of the standard product (‖·‖ the largest element).  A level adds
    the rounding of its sums: at most the terms of the longest sums of A, B and C each.

    >>> from .tables import STANDARD, STRASSEN
    >>> error_bound(STANDARD, 0, 1024, 1024, 1024) == 1024**2
    True
    >>> 1 < error_bound(STRASSEN, 1, 1024, 1024, 1024) / 1024**2 < 12
    True
    """
    if levels == 0 or algorithm.products == 1:
        return float(k) ** 2
    if (algorithm.m, algorithm.k, algorithm.n) == (2, 2, 2) and algorithm.name in _HIGHAM:
        e, d = _HIGHAM[algorithm.name]
        # f(n) = (n/n₀)^log₂e·(n₀² + d·n₀) − d·n, with n = k and n₀ = k / 2^levels
        base = k / 2**levels
        return float(e**levels * (base**2 + d * base) - d * k)
    inner = error_bound(
        algorithm, levels - 1, _up(m, algorithm.m), _up(k, algorithm.k), _up(n, algorithm.n)
    )
    longest = sum(int(np.count_nonzero(t, 0).max()) for t in (algorithm.u, algorithm.v))
    longest += int(np.count_nonzero(algorithm.w, 1).max())
    return growth(algorithm) * (inner + longest * _up(k, algorithm.k))


_HIGHAM = {"strassen": (12, 5), "winograd": (18, 6)}


def _up(extent: int, parts: int) -> int:
    return -(-extent // parts)
