"""Derivatives of the scalar primitives: for each argument, the contribution of the result's
cotangent.

A rule is a function of the cotangent `g`, the result `y` and the arguments.  For complex numbers a
cotangent is the direction of steepest ascent: `z·g` has the rule `conj(z)·g`.  A rule returns the
cotangent, or the pair of a condition and the cotangent where it holds (0 elsewhere), so that
non-finite values on the other side are never multiplied.

At points without a derivative the rules choose one-sided derivatives (docs/derivatives.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ..operations.control import loop
from ..operations.elements import functions as f
from ..operations.elements.gamma import digamma
from ..scalar import Scalar
from ..types import float64

#: A cotangent, or the condition under which it is not 0 and the cotangent.
Result = Scalar | tuple[Scalar, Scalar]
#: The rule of one argument; None: its cotangent is 0.
Rule = Callable[..., Result] | None


def _conj(x: Scalar) -> Scalar:
    return f.conjugate(x) if x.dtype.is_complex else x


def _through(partial: Callable[..., Scalar]) -> tuple[Rule, ...]:
    """The rule of a one-argument function, given its derivative (of result and argument)."""
    return (lambda g, y, x: g * _conj(partial(y, x)),)


def _over(divisor: Callable[..., Scalar]) -> tuple[Rule, ...]:
    """The same, for a derivative of 1 / divisor."""
    return (lambda g, y, x: g / _conj(divisor(y, x)),)


def _real(x: Scalar) -> Scalar:
    return f.real(x) if x.dtype.is_complex else x


def _of_base(g: Scalar, y: Scalar, a: Scalar, b: Scalar) -> Result:
    return (a != 0) | (b != 0), g * _conj(b * a ** (b - 1))


def _of_exponent(g: Scalar, y: Scalar, a: Scalar, b: Scalar) -> Result:
    return (a != 0) | ~(_real(b) >= 0), g * _conj(y * f.log(a))


def _of_absolute(g: Scalar, y: Scalar, x: Scalar) -> Result:
    if x.dtype.is_complex:
        return y != 0, g * f.complex_(x.real / y, x.imag / y)  # (x / y squares y, which underflows)
    return g * f.sign(x)


def _of_angle(numerator: int, sign: int) -> Rule:
    def rule(g: Scalar, t: Scalar, y: Scalar, x: Scalar) -> Result:
        """Divided by the radius twice: its square may overflow."""
        r = f.hypot(x, y)
        return r != 0, sign * g * ((y, x)[numerator] / r) / r

    return rule


#: The quotient as used by the remainder: a / b may be rounded to the next integer.
_OF_REMAINDER: tuple[Rule, ...] = (
    lambda g, y, a, b: g,
    lambda g, y, a, b: -g * f.rint((a - y) / b),
)

_TWO_OVER_ROOT_PI = 2 / math.sqrt(math.pi)


def _bell(x: Scalar) -> Scalar:
    return _TWO_OVER_ROOT_PI * f.exp(-(x * x))


#: The exponents u, from … to, and the number of steps, for which the integral below has a relative
#: error of 10⁻¹³.
_LEAST, _MOST, _PARTS = -4.0, 4.5, 80


def _of_gamma_parameter(g: Scalar, x: Scalar, drawn: Scalar, a: Scalar) -> Scalar:
    """dx/da = −(∂P/∂a) / p of the distribution P(a, x) with density p = ∂P/∂x: how the quantile x
    of a given probability moves with a (Figurnov and others 2018).

    ∂P/∂a is the integral of p(t) (log t − ψ(a)) up to x, or minus the integral from x on.  Of the
    two, take the one whose integrand has one sign: from x on if log x ≥ ψ(a), with t = x + s, and
    otherwise up to x, with t = x e⁻ˢ.  Divided by p(x), it decays exponentially from s = 0, and s =
    σ exp(u − e⁻ᵘ) turns it into an integral for which the trapezoidal rule converges exponentially
    (Takahasi and Mori).
    """
    kind = a.dtype
    x, a = f.cast(x, float64), f.cast(a, float64)
    level = f.log(x) - digamma(a)
    above = level >= 0
    width = 1 / (abs(a - x) + f.sqrt(a))
    step = (_MOST - _LEAST) / _PARTS

    def term(k: Scalar, total: Scalar) -> Scalar:
        u = _LEAST + k * step
        faster = f.exp(-u)
        s = width * f.exp(u - faster)
        moved = f.where(above, f.log1p(s), -s)
        weight = f.where(above, (a - 1) * moved - x * s, a * moved - x * f.expm1(moved))
        signed = f.where(above, level + moved, -level - moved)
        return total + f.exp(weight) * signed * s * (1 + faster)

    integral: Scalar = loop(_PARTS + 1, term, 0.0)
    return g * f.cast(x * step * integral, kind)


#: Rules by primitive, one per argument.
RULES: dict[str, tuple[Rule, ...]] = {
    "add": (lambda g, y, a, b: g, lambda g, y, a, b: g),
    "subtract": (lambda g, y, a, b: g, lambda g, y, a, b: -g),
    "multiply": (lambda g, y, a, b: g * _conj(b), lambda g, y, a, b: g * _conj(a)),
    "true_divide": (lambda g, y, a, b: g / _conj(b), lambda g, y, a, b: -(g * _conj(y)) / _conj(b)),
    "remainder": _OF_REMAINDER,
    "rem": _OF_REMAINDER,
    "fmod": _OF_REMAINDER,
    "power": (_of_base, _of_exponent),
    "fma": (
        lambda g, y, a, b, c: g * _conj(b),
        lambda g, y, a, b, c: g * _conj(a),
        lambda g, y, a, b, c: g,
    ),
    "minimum": (lambda g, y, a, b: (a <= b, g), lambda g, y, a, b: (~(a <= b), g)),
    "maximum": (lambda g, y, a, b: (a >= b, g), lambda g, y, a, b: (~(a >= b), g)),
    "fmin": (
        lambda g, y, a, b: ((a <= b) | f.isnan(b), g),
        lambda g, y, a, b: (~((a <= b) | f.isnan(b)), g),
    ),
    "fmax": (
        lambda g, y, a, b: ((a >= b) | f.isnan(b), g),
        lambda g, y, a, b: (~((a >= b) | f.isnan(b)), g),
    ),
    "negative": (lambda g, y, x: -g,),
    "absolute": (_of_absolute,),
    "sqrt": _over(lambda y, x: 2 * y),
    "cbrt": _over(lambda y, x: 3 * (y * y)),
    "exp": _through(lambda y, x: y),
    "exp2": _through(lambda y, x: y * math.log(2)),
    "expm1": _through(lambda y, x: y + 1),
    "log": _over(lambda y, x: x),
    "log2": _over(lambda y, x: x * math.log(2)),
    "log10": _over(lambda y, x: x * math.log(10)),
    "log1p": _over(lambda y, x: 1 + x),
    "sin": _through(lambda y, x: f.cos(x)),
    "cos": _through(lambda y, x: -f.sin(x)),
    "tan": _through(lambda y, x: 1 + y * y),
    "arcsin": _over(lambda y, x: f.sqrt(1 - x * x)),
    "arccos": _over(lambda y, x: -f.sqrt(1 - x * x)),
    "arctan": _over(lambda y, x: 1 + x * x),
    "sinh": _through(lambda y, x: f.cosh(x)),
    "cosh": _through(lambda y, x: f.sinh(x)),
    "tanh": _through(lambda y, x: 1 - y * y),
    "arcsinh": _over(lambda y, x: f.sqrt(1 + x * x)),
    "arccosh": _over(lambda y, x: f.sqrt(x - 1) * f.sqrt(x + 1)),
    "arctanh": _over(lambda y, x: 1 - x * x),
    "erf": _through(lambda y, x: _bell(x)),
    "erfc": _through(lambda y, x: -_bell(x)),
    "arctan2": (_of_angle(1, 1), _of_angle(0, -1)),
    "hypot": (lambda g, r, a, b: (r != 0, g * (a / r)), lambda g, r, a, b: (r != 0, g * (b / r))),
    "copysign": (lambda g, y, a, b: f.where(f.signbit(a) == f.signbit(b), g, -g), None),
    "nextafter": (lambda g, y, a, b: g, None),
    "real": (lambda g, y, z: f.complex_(g, 0 * g),),
    "imag": (lambda g, y, z: f.complex_(0 * g, g),),
    "conjugate": (lambda g, y, z: _conj(g),),
    "complex": (lambda g, z, a, b: f.real(g), lambda g, z, a, b: f.imag(g)),
    "cast": (lambda g, y, x: g if x.dtype.is_complex else _real(g),),
    "select": (None, lambda g, y, p, a, b: (p, g), lambda g, y, p, a, b: (~p, g)),
    "gamma_draw": (None, _of_gamma_parameter),
    "also": (lambda g, y, value, tested: g, None),
}

#: Primitives with a derivative of 0 wherever there is one, or without floats.
ZERO = frozenset(
    [
        "stop",
        "floor_divide",
        "quot",
        "sign",
        "floor",
        "ceil",
        "trunc",
        "rint",
        "equal",
        "not_equal",
        "less",
        "less_equal",
        "greater",
        "greater_equal",
        "logical_and",
        "logical_or",
        "logical_xor",
        "logical_not",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "invert",
        "left_shift",
        "right_shift",
        "popcount",
        "clz",
        "ctz",
        "isnan",
        "isinf",
        "isfinite",
        "signbit",
    ]
)

#: Primitives whose derivative is refused for complex numbers, and what to write.
COMPLEX_REFUSED = {"sign": "Write z / abs(z)."}

#: Primitives by which a program indicates that their arguments may be infinite or NaN.
TESTS = frozenset(["isfinite", "isinf", "isnan"])
#: Primitives whose values or derivatives may be infinite or NaN for finite arguments.
WILD = frozenset(
    [
        "true_divide",
        "floor_divide",
        "remainder",
        "rem",
        "fmod",
        "quot",
        "power",
        "sqrt",
        "cbrt",
        "exp",
        "exp2",
        "expm1",
        "log",
        "log2",
        "log10",
        "log1p",
        "tan",
        "arcsin",
        "arccos",
        "sinh",
        "cosh",
        "arccosh",
        "arctanh",
        "arctan2",
        "hypot",
    ]
)
