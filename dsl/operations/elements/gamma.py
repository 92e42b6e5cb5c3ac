"""The logarithm of the gamma function, and its derivative: of scalars in kernels, and of arrays.

Both are computed in float64, and rounded.  Derivatives are those of the formulas.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ...annotations import Element, Operand, Value
from ...errors import DTypeError
from ...expr import Expr
from ...frontend.sources import as_array
from ...primitives import floating
from ...scalar import Scalar, as_strong, lift
from ...types import float64
from . import functions as fn
from .choosing import where
from .lifting import lifted, unary

__all__ = ["digamma", "lgamma"]


def _real(f: Callable[[Element], Element], name: str, x: Operand) -> Value:
    """`f` in float64 of each element of real numbers."""
    kind = x.dtype if isinstance(x, Scalar) else as_array(x, name).types[0]
    if kind.is_complex:
        raise DTypeError(
            f"{name} is for real numbers, got complex ones.", hint="Take the real part."
        )
    own = floating(kind)

    def build(values: list[Expr]) -> Expr:
        value = fn.cast(Scalar(as_strong(values[0])), float64)
        return lift(fn.cast(f(value), own), name)

    return lifted(build, name, (x,))


def _polynomial(x: Element, coefficients: Sequence[float]) -> Element:
    """Of the constant first."""
    value = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        value = value * x + c
    return value


def _pole(x: Element) -> Element:
    """The distance to the nearest integer, exactly."""
    return x - fn.rint(x)


# --- log |Γ(x)|: Sun's fdlibm, e_lgamma_r.c ------------------------------------------------------

#: log Γ(2 − y) + y/2, near 2 and, without log x, near 1: in y² the even and the odd powers.
_A_EVEN = (7.72156649015328655494e-02, 6.73523010531292681824e-02, 7.38555086081402883957e-03,
           1.19270763183362067845e-03, 2.20862790713908385557e-04,
           2.52144565451257326939e-05)  # fmt: skip
_A_ODD = (3.22467033424113591611e-01, 2.05808084325167332806e-02, 2.89051383673415629091e-03,
          5.10069792153511336608e-04, 1.08011567247583939954e-04,
          4.48640949618915160150e-05)  # fmt: skip
#: The minimum of log Γ: where, its value, and what is left of it.
_AT, _LEAST = 1.46163214496836224576, -1.21486290535849611461e-01
_REST = -3.63867699703950536541e-18
#: From there: the third parts of the powers.
_T0 = (4.83836122723810047042e-01, -3.27885410759859649565e-02, 6.10053870246291332635e-03,
       -1.40346469989232843813e-03, 3.15632070903625950361e-04)  # fmt: skip
_T1 = (-1.47587722994593911752e-01, 1.79706750811820387126e-02, -3.68452016781138256760e-03,
       8.81081882437654011382e-04, -3.12754168375120860518e-04)  # fmt: skip
_T2 = (6.46249402391333854778e-02, -1.03142241298341437450e-02, 2.25964780900612472250e-03,
       -5.38595305356740546715e-04, 3.35529192635519073543e-04)  # fmt: skip
#: log Γ(1 + y) + y/2.
_U = (-7.72156649015328655494e-02, 6.32827064025093366517e-01, 1.45492250137234768737e+00,
      9.77717527963372745603e-01, 2.28963728064692451092e-01,
      1.33810918536787660377e-02)  # fmt: skip
_V = (1.0, 2.45597793713041134822e+00, 2.12848976379893395361e+00, 7.69285150456672783825e-01,
      1.04222645593369134254e-01, 3.21709242282423911810e-03)  # fmt: skip
#: log Γ(2 + y) − y/2.
_S = (-7.72156649015328655494e-02, 2.14982415960608852501e-01, 3.25778796408930981787e-01,
      1.46350472652464452805e-01, 2.66422703033638609560e-02, 1.84028451407337715652e-03,
      3.19475326584100867617e-05)  # fmt: skip
_R = (1.0, 1.39200533467621045958e+00, 7.21935547567138069525e-01, 1.71933865632803078993e-01,
      1.86459191715652901344e-02, 7.77942496381893596434e-04,
      7.32668430744625636189e-06)  # fmt: skip
#: log Γ(x) − (x − ½)(log x − 1), in 1/x: the constant and the odd powers.
_W0, _W = 4.18938533204672725052e-01, (
    8.33333333333329678849e-02, -2.77777777728775536470e-03, 7.93650558643019558500e-04,
    -5.95187557450339963135e-04, 8.36339918996282139126e-04,
    -1.63092934096575273989e-03)  # fmt: skip


def _near_two(y: Element) -> Element:
    z = y * y
    return y * _polynomial(z, _A_EVEN) + z * _polynomial(z, _A_ODD) - 0.5 * y


def _near_least(y: Element) -> Element:
    z = y * y
    w = z * y
    rest = _REST - w * (_polynomial(w, _T1) + y * _polynomial(w, _T2))
    return _LEAST + (z * _polynomial(w, _T0) - rest)


def _near_one(y: Element) -> Element:
    return -0.5 * y + y * _polynomial(y, _U) / _polynomial(y, _V)


def _log_gamma(x: Element) -> Element:
    size = where(x < 0, -x, x)
    # Below 0.9, log Γ(x) = log Γ(1 + x) − log x.
    low = size <= 0.9
    small = where(size < 2.0, size, 1.5)
    up = where(low, small + 1.0, small)
    two = where(low, 1.0 - small, 2.0 - small)
    least = small - where(low, _AT - 1.0, _AT)
    one = where(low, small, small - 1.0)
    below = where(
        up >= 1.7316, _near_two(two), where(up >= 1.23, _near_least(least), _near_one(one))
    )
    # 2 … 8: log Γ(2 + y) + log((y + 2) … (y + n − 1)).
    middle = where(size < 8.0, where(size >= 2.0, size, 2.0), 7.0)
    whole = fn.floor(middle)
    y = middle - whole
    product = y * 0.0 + 1.0
    for k in range(2, 7):
        product = where(whole > k, product * (y + k), product)
    between = 0.5 * y + y * _polynomial(y, _S) / _polynomial(y, _R)
    large = where(size >= 8.0, size, 8.0)
    z = 1.0 / large
    end = _W0 + z * _polynomial(z * z, _W)
    log = fn.log(where(size >= 8.0, size, where(size >= 2.0, product, where(low, size, 1.0))))
    above = where(large < 2.0**58, (large - 0.5) * (log - 1.0) + end, large * (log - 1.0))
    above = where(fn.isinf(size), size, above)
    value = where(
        size >= 8.0, above, where(size >= 2.0, between + log, where(low, below - log, below))
    )
    # Reflected: log |Γ(−x)| = log(π / |x sin πx|) − log Γ(x).
    away = _pole(x)
    sine = fn.sin(math.pi * away)
    tiny = size < 2.0**-70
    negative = (x < 0) & ~tiny
    turned = where(negative, sine * x, 1.0)
    value = where(tiny, -log, value)
    found = where(negative, fn.log(math.pi / where(turned < 0, -turned, turned)) - value, value)
    # At poles and NaN with derivatives that are not finite.
    pole = where((x <= 0) & (away == 0), abs(1.0 / away), math.inf)
    found = where(fn.isnan(x), x * math.nan, found)
    return where(((x <= 0) & (away == 0)) | (x == -math.inf), pole, found)


# --- ψ(x): near its root a rational function (J. Maddock, in Boost), else its series --------------

#: The root, in parts.
_ROOT = (1569415565 / 2**30, 381566830 / 2**60, 0.9016312093258695918615325266959189453125e-19)
_FIRST = 0.99558162689208984375
_P = (0.25479851061131551, -0.32555031186804491, -0.65031853770896507, -0.28919126444774784,
      -0.045251321448739056, -0.0020713321167745952)  # fmt: skip
_Q = (1.0, 2.0767117023730469, 1.4606242909763515, 0.43593529692665969, 0.054151797245674225,
      0.0021284987017821144, -0.55789841321675513e-6)  # fmt: skip
#: B₂ₙ / 2n.
_BERNOULLI = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12, -3617 / 8160)


def _psi(x: Element) -> Element:
    y = where(x < 0, 1.0 - x, x)
    under = y < 1.0
    first = where(under, y, 1.0)
    up = where(under, y + 1.0, y)
    # 1 … 10, from 1 … 2: ψ(y) = ψ(y − 1) + 1 / (y − 1).
    middle = where(up < 10.0, up, 1.5)
    base = middle - fn.floor(middle) + 1.0
    more = middle * 0.0
    for k in range(9):
        more = where(base + k < middle - 0.5, more + 1.0 / (base + k), more)
    near = base - _ROOT[0] - _ROOT[1] - _ROOT[2]
    at = base - 1.0
    value = near * _FIRST + near * (_polynomial(at, _P) / _polynomial(at, _Q)) + more
    large = where(up < 10.0, 10.0, up)
    z = 1.0 / (large * large)
    series = fn.log(large) - 0.5 / large - z * _polynomial(z, _BERNOULLI)
    value = where(up < 10.0, value, series)
    value = where(under, value - 1.0 / first, value)
    # Reflected: ψ(x) = ψ(1 − x) − π / tan πx, NaN at poles.
    away = _pole(x)
    tangent = fn.tan(math.pi * where((x < 0) & (away != 0), away, 0.25))
    value = where(x < 0, value - math.pi / tangent, value)
    pole = ((x < 0) & (away == 0)) | (x == -math.inf)
    return where(pole | fn.isnan(x), x * math.nan, value)


@unary
def lgamma(x: Operand) -> Value:
    """log |Γ(x)|, of real numbers; ∞ at 0, −1, −2, ….

    Errors: `DTypeError` for complex numbers.

    >>> td.lgamma(np.array([0.5, 5.0]))
    Array([0.57236494, 3.17805383])
    """
    return _real(_log_gamma, "lgamma", x)


@unary
def digamma(x: Operand) -> Value:
    """ψ(x) = Γ′(x) / Γ(x), the derivative of `lgamma`; NaN at −1, −2, …, and ∓∞ at ±0.

    Errors: `DTypeError` for complex numbers.

    >>> td.digamma(np.array([0.5, 5.0]))
    Array([-1.96351003,  1.50611767])
    """
    return _real(_psi, "digamma", x)


fn.label(globals())
