"""Bounds on the rounding error of a product by a bilinear algorithm.

Max-norm bounds ‖C − Ĉ‖ ≤ f(n)·u·‖A‖·‖B‖ + O(u²), by the one-level recurrence (Higham, Accuracy and
Stability of Numerical Algorithms, 2nd edition, section 23.2.2; Bini and Lotti 1980; Ballard et al.
2016): with a level of an algorithm, f(n) = e·f(n/n₀) + d·n/n₀, where e is the growth factor of its
tables.  For Strassen e = 12, for Winograd 18; Higham's exact forms are used for those two.

Typical errors follow from the tables, and from the number and size of the partial sums that are
rounded (`typical_factors`); the largest error of a product is about ten times that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from treadle.dsl.annotations import ArrayLike
from treadle.dsl.array import Array
from treadle.dsl.errors import DTypeError, ShapeError, TracingError, user_facing_maker
from treadle.dsl.operations.algebra.products import (
    ALGORITHMS,
    DEEPEST_OF_ALL,
    no_fast_product,
    no_fast_tf32,
)
from treadle.dsl.types import as_type, promote

from .executions import plan
from .tables import NAMED, STRASSEN, WINOGRAD, BilinearAlgorithm

#: The algorithms that `matmul` accepts by name, except "auto".
NAMES = ALGORITHMS[1:]


def growth(algorithm: BilinearAlgorithm) -> int:
    """The factor by which a level may multiply the error: max over p of Σ_r |w|·Σ|u|·Σ|v|.

    >>> from .tables import STANDARD
    >>> growth(STANDARD), growth(STRASSEN), growth(WINOGRAD)
    (1, 12, 18)
    """
    sums = np.abs(algorithm.u).sum(0) * np.abs(algorithm.v).sum(0)
    return math.ceil(float((np.abs(algorithm.w) * sums).sum(1).max()))


@dataclass(frozen=True)
class Split:
    """The rounding of float32 products split into 16-bit or tf32 parts for tensor cores.

    Tensor cores add `chunk` products along the inner axis, rounding toward zero; the sums of chunks
    are added in float32.  `bound`: the error of a chunk over Σ|a||b|, from what the parts omit and
    from four sums of 16 (8 of tf32) products, each of which may lose 2^-20.6; `typical`: the root
    mean square, measured on an H200.  `least`: the inner extent from which the error does not
    exceed float32's, even for positive operands: shorter products are computed in float32.
    """

    chunk: int
    bound: float
    typical: float
    least: int

    def most(self, k: int) -> float:
        """The largest error of an element, over the unit roundoff and max|a| max|b|."""
        return k * (self.bound * 2**24 + k / self.chunk)

    def usual(self, k: float) -> NDArray[np.float64]:
        """The counterpart of `typical_factors` of a standard product."""
        chunks = math.ceil(k / self.chunk)
        each, r = (self.typical / ROUNDING * 2**24) ** 2, k / chunks
        scattered = k * each + r * (chunks * (chunks + 1) / 2 - 1)
        square = chunks * (chunks + 1) * (2 * chunks + 1) / 6 - 1
        return np.array([scattered] * 3 + [k * k * each + r * r * square])


class Rounded(Split):
    """The rounding of tf32.  Operands are rounded to nearest, to 11 significant bits (`bound`
    covers the error of two operands); tensor cores add `chunk` products at a time to the sum,
    toward zero.

    All these additions together lose `LOST` units of the sum for every `chunk` products if terms
    have one sign, and `SCATTERED` units of a term times k^1.5 if terms have zero mean.  Both
    constants come from the simulated arithmetic of Hopper
    (tests/backend/cuda/products/emulation/tensor.h), for inner extents up to 16,384.
    """

    LOST, SCATTERED = 0.9, 0.04

    def most(self, k: int) -> float:
        return k * (self.bound * 2**24 + k / self.chunk * 2**3.4)

    def usual(self, k: float) -> NDArray[np.float64]:
        each = 2 * 2.0**26
        scattered = k * each + (self.SCATTERED / ROUNDING) ** 2 * k**3
        lost = (self.LOST / ROUNDING * k * k / self.chunk) ** 2
        return np.array([scattered] * 3 + [k * each + lost])


#: float32 products of `precision="tf32"`.
TF32 = Rounded(8, 2**-10 + 2**-22, 2.9e-4, 0)
SPLITS = {
    "fp16x3": Split(64, 1.5 * 2**-21 + 4 * 2**-20.6, 1.38e-7, 192),
    "bf16x6": Split(64, 2**-23 + 4 * 2**-20.6, 0.87e-7, 128),
    "tf32x3": Split(32, 1.5 * 2**-22 + 4 * 2**-20.6, 1.28e-7, 96),
}


def bound_factor(algorithm: BilinearAlgorithm, levels: int, m: int, k: int, n: int,
                 split: Split | None = None) -> float:  # fmt: skip
    """f with ‖C − Ĉ‖ ≤ f·u·‖A‖·‖B‖ in the max norm, to first order in the unit roundoff u.

    Without levels it is the k² of the standard product (‖·‖ is the largest element).  A level adds
    the rounding of its sums, one rounding per term of the longest sums of A, of B and of C.

    >>> from .tables import STANDARD
    >>> bound_factor(STANDARD, 0, 1024, 1024, 1024) == 1024**2
    True
    >>> 1 < bound_factor(STRASSEN, 1, 1024, 1024, 1024) / 1024**2 < 12
    True
    """
    if levels == 0 or algorithm.products == 1:
        return split.most(k) if split else float(k) ** 2
    if split is None and algorithm in _HIGHAM:
        e, d = _HIGHAM[algorithm]
        # f(n) = (n/n₀)^log₂e·(n₀² + d·n₀) − d·n, with n = k and n₀ = k / 2^levels
        base = k / 2**levels
        return float(e**levels * (base**2 + d * base) - d * k)
    inner = bound_factor(
        algorithm, levels - 1, _up(m, algorithm.m), _up(k, algorithm.k), _up(n, algorithm.n), split
    )
    longest = sum(int(np.count_nonzero(t, 0).max()) for t in (algorithm.u, algorithm.v))
    longest += int(np.count_nonzero(algorithm.w, 1).max())
    return growth(algorithm) * (inner + longest * _up(k, algorithm.k))


_HIGHAM = {STRASSEN: (12, 5), WINOGRAD: (18, 6)}


def _up(extent: int, parts: int) -> int:
    return -(-extent // parts)


# --- for given operands ---------------------------------------------------------------------------


class ErrorBound(NamedTuple):
    """Errors of the elements of a product: an upper bound (to first order in the unit roundoff),
    and the expected root mean square.

    `typical` assumes that the elements of an operand are independent draws from one distribution,
    with the mean and variance of the operand. It covers centred and positive data, but not graded
    rows or repeated patterns.
    """

    bound: float
    typical: float

    def __repr__(self) -> str:
        """Shows the typical error first: the bound is often millions of times larger."""
        return f"ErrorBound(typical={self.typical!r}, bound={self.bound!r})"


#: Root mean square error of one rounding, in units of u: mantissas have density 1/x.
ROUNDING = 0.42
#: Terms that a BLAS adds before it updates C; a GPU adds all terms in one sum.
IN_A_ROW = 384
_UNITS = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "complex64": 2.0**-24,
          "float64": 2.0**-53, "complex128": 2.0**-53}  # fmt: skip


def typical_factors(algorithm: BilinearAlgorithm, levels: int, k: int, row: int,
                    split: Split | None = None) -> Any:  # fmt: skip
    """Mean square errors over ROUNDING²·u², one per component of the data: var(a)·var(b),
    var(a)·mean(b)², mean(a)²·var(b), mean(a)²·mean(b)².

    A partial sum of j terms has magnitude √j with zero mean and j otherwise, and each is rounded: j
    or j² is summed over `row` terms, then over the sums of rows.  A level computes products of Σu·A
    by Σv·B, whose variances grow by Σu² and Σv² and whose means grow by Σu and Σv, over 1/k₀ of the
    terms, and adds them: independent errors add with w².

    >>> from .tables import STANDARD
    >>> typical_factors(STANDARD, 0, 2, 8).tolist()
    [3.0, 3.0, 3.0, 5.0]
    >>> fast, standard = typical_factors(STRASSEN, 1, 64, 64), typical_factors(STANDARD, 0, 64, 64)
    >>> (fast / standard).round(1).tolist()
    [2.2, 2.7, 2.7, 1.7]
    """
    return np.asarray(_typical(algorithm, levels, float(k), row, split))


def _typical(algorithm: BilinearAlgorithm, levels: int, k: float, row: int, split: Split | None
             ) -> Any:  # fmt: skip
    if not levels and split:
        return split.usual(k)
    if not levels:
        rows = math.ceil(k / row)
        r = k / rows
        scattered = k * (r + 1) / 2 + r * (rows * (rows + 1) / 2 - 1)
        square = rows * (rows + 1) * (2 * rows + 1) / 6 - 1
        return np.array([scattered] * 3 + [k * (r + 1) * (2 * r + 1) / 6 + r * r * square])
    u, v, w = (np.asarray(t, float) for t in (algorithm.u, algorithm.v, algorithm.w))
    met = (w**2).mean(0)
    left, right = (((t**2).sum(0), t.sum(0) ** 2) for t in (u, v))
    grown = np.array([(met * x * y).sum() for x in left for y in right])
    depth = k / algorithm.k
    return grown * (
        _typical(algorithm, levels - 1, depth, row, split) + np.array([depth] * 3 + [depth**2])
    )


@user_facing_maker
def error_bound(
    a: ArrayLike,
    b: ArrayLike,
    algorithm: str | BilinearAlgorithm = "strassen",
    levels: int | None = None,
    precision: str | None = None,
) -> ErrorBound:
    """The rounding error of an element of a @ b by an algorithm in floating point: an upper bound,
    and the root mean square that is typical of such data.

    The bound is normwise: f·u·max|a|·max|b|, for f see `bound_factor`; integers are exact.  The
    typical error follows from the mean and variance of each operand (`typical_factors`). For
    Strassen and Winograd it is within a quarter if all elements have the same distribution; it does
    not cover graded rows or repeated patterns.  Sums are formed as in BLAS, of operands on a GPU in
    one row.

    algorithm: "standard", "strassen", "winograd" or a BilinearAlgorithm; levels: at most, as far as
    the extents allow (default 1); float16 and bfloat16 have only the standard algorithm.
    precision, for float32: that of `matmul` on GPUs that have it (elsewhere, and for operands that
    its parts cannot hold, products are float32's).  "tf32" has only the standard algorithm; its
    bound is that of operands rounded to nearest, as GPUs with compute capability 9.0 round them.
    The operands may be arrays of NumPy or of the language, which are then evaluated.

    Parameters
        a: an array of any shape.
        b: an array that broadcasts with `a`.
        algorithm: "strassen" (default), "standard", "winograd" or a BilinearAlgorithm.
        levels: how often the fast product is applied recursively; default 1.
        precision: the arithmetic of float32 products: "float32", "tf32", "fp16x3", "bf16x6",
            "tf32x3"; optional.

    Result: an object with the numbers `bound` and `typical`.

    >>> a = np.ones((256, 256), np.float32)
    >>> standard, fast = (error_bound(a, a, name) for name in ("standard", "strassen"))
    >>> standard.bound < fast.bound and standard.typical < fast.typical
    True
    """
    chosen = _algorithm(algorithm)
    if levels is None:
        levels = int(chosen.products > 1)
    if not isinstance(levels, int) or not 0 <= levels <= DEEPEST_OF_ALL:
        raise TracingError(
            f"error_bound: levels must be a number from 0 to {DEEPEST_OF_ALL}, got {levels!r}."
        )
    known = ("float32", "tf32", *SPLITS)
    if precision not in (None, *known):
        raise TracingError(
            f"error_bound: there is no bound for precision {precision!r}.",
            hint="Precisions: " + ", ".join(map(repr, known)) + ".",
        )
    levels *= chosen.products > 1  # the standard algorithm has no levels
    row = 1 << 62 if any(hasattr(s, "__cuda_array_interface__") for s in (a, b)) else IN_A_ROW
    x, y = (_values(side) for side in (a, b))
    if x.ndim < 2 or y.ndim < 2 or x.shape[-1] != y.shape[-2]:
        raise ShapeError(f"error_bound: {x.shape} @ {y.shape} is not a product of matrices.")
    t = promote(as_type(x.dtype), False, as_type(y.dtype), False)[0]
    if precision in known[1:] and t.name != "float32":
        raise DTypeError(
            f"error_bound: precision {precision!r} applies to products of float32, but these are "
            f"{t}.",
            hint="Leave it out, or convert the operands.",
        )
    if not t.is_inexact:
        return ErrorBound(0.0, 0.0)
    if levels and t.is_narrow:
        raise no_fast_product("error_bound", chosen, t, 'error_bound(a, b, "standard")')
    if levels and precision == "tf32":
        standard = 'error_bound(a, b, "standard", precision="tf32")'
        raise no_fast_tf32("error_bound", chosen, standard)
    m, k, n = x.shape[-2], x.shape[-1], y.shape[-1]
    if not x.size or not y.size:
        return ErrorBound(0.0, 0.0)
    levels = plan(chosen, "recursive", levels, (m, k, n)).levels
    # 16-bit floats accumulate in float32, and are rounded once at the end.
    unit = _UNITS[t.name]
    inner = _UNITS["float32"] if t.is_narrow else unit
    split = SPLITS.get(precision or "")
    if split is not None and (
        k < split.least
        or not (
            _representable(x, precision == "fp16x3")
            and _representable(y.swapaxes(-1, -2), precision == "fp16x3")
        )
    ):
        split = None  # like the product, which is computed in float32
    if precision == "tf32":
        split = TF32
    wide = [v.astype(np.complex128 if t.is_complex else np.float64) for v in (x, y)]
    most = [float(np.abs(v).max()) for v in wide]
    left, right = map(_variance_and_mean, wide)
    parts = np.array([p * q for p in left for q in right])
    typical = (
        ROUNDING * inner * float(np.sqrt(parts @ typical_factors(chosen, levels, k, row, split)))
    )
    extra = (0.0, 0.0)
    if t.is_narrow:
        size = float(np.sqrt(k * parts[:3].sum() + k**2 * parts[3]))
        extra = k * most[0] * most[1] * unit, ROUNDING * size * unit
    return ErrorBound(
        bound_factor(chosen, levels, m, k, n, split) * inner * most[0] * most[1] + extra[0],
        typical + extra[1],
    )


def _algorithm(given: Any) -> BilinearAlgorithm:
    found = NAMED[given] if isinstance(given, str) and given in NAMES else given
    if not isinstance(found, BilinearAlgorithm):
        raise TracingError(
            f"error_bound: {given!r} is no algorithm"
            + (": it is chosen when the product is computed." if given == "auto" else "."),
            hint="Algorithms: " + ", ".join(map(repr, NAMES)) + ", or a BilinearAlgorithm.",
        )
    return found


#: At most one in SPREAD elements of a row of a (column of b) may be small; and the largest
#: magnitude that parts can hold.
SPREAD, LOST = 8, 3.3895314e38


def _representable(x: Any, scaled: bool) -> bool:
    """Whether parts hold the rows of an operand, by the rule of engines/tensor_images.cuh: finite,
    and few elements below 2^-20 of the row's largest (`scaled`), or below 2^-102."""
    size = np.abs(x)
    if not (size < (np.inf if scaled else LOST)).all():
        return False
    most = size.max(-1, keepdims=True)
    least = np.ldexp(np.float64(1), np.frexp(most)[1] - 21) if scaled else 2.0**-102
    few = np.count_nonzero((size > 0) & (size < least), -1)
    return bool((few * SPREAD <= x.shape[-1]).all())


def _variance_and_mean(v: Any) -> tuple[float, float]:
    return float(np.var(v)), float(abs(np.mean(v)) ** 2)


def error_in_words(algorithm: BilinearAlgorithm, levels: int, size: tuple[int, int, int], name: str,
                   split: Split | None = None) -> str:  # fmt: skip
    """The bound over max|a|·max|b|, and the ratio of typical errors to those of the standard
    product, for data without a mean."""
    m, k, n = size
    most = bound_factor(algorithm, levels, m, k, n, split) * _UNITS[name]
    fast = typical_factors(algorithm, levels, k, IN_A_ROW, split)[0]
    standard = typical_factors(algorithm, 0, k, IN_A_ROW)[0]
    ratio = float(np.sqrt(fast / standard)) if standard else 1.0
    return f"at most {most:.2g} max|a| max|b|; typically {ratio:.2g} times the standard product's"


def _values(side: Any) -> Any:
    if isinstance(side, Array):
        return np.asarray(side)
    return np.asarray(side.get() if hasattr(side, "__cuda_array_interface__") else side)
