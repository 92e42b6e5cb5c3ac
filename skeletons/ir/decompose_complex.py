"""Complex numbers in real arithmetic on their parts.

Transcendental functions of complex64 are computed in complex128 and rounded; those of complex128
follow W. Kahan, "Branch cuts for complex elementary functions" (1987), whose formulas have no
cancellation and keep the sign of zero on branch cuts.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

from treadle.dsl.types import complex64, complex128

from .rules import POWERS, Rule, Value, inline, rule, where


def _number(real: Value, imag: Value | float) -> Value:
    return real.complex(imag, type_=complex64 if real.type.bits == 32 else complex128)


def _larger(a: Value, b: Value) -> Value:
    """The larger of two magnitudes; NaN if the first is NaN."""
    return where(a < b, b, a)


# --- arithmetic -------------------------------------------------------------------------------


@rule("complex")
def add(z: Value, w: Value) -> Value:
    return _number(z.real + w.real, z.imag + w.imag)


@rule("complex")
def subtract(z: Value, w: Value) -> Value:
    return _number(z.real - w.real, z.imag - w.imag)


@rule("complex")
def negative(z: Value) -> Value:
    return _number(-z.real, -z.imag)


@rule("complex")
def conjugate(z: Value) -> Value:
    return _number(z.real, -z.imag)


@rule("complex")
def rint(z: Value) -> Value:
    return _number(z.real.rint(), z.imag.rint())


@rule("complex")
def multiply(z: Value, w: Value) -> Value:
    return _number(z.real * w.real - z.imag * w.imag, z.real * w.imag + z.imag * w.real)


@rule("complex")
def fma(z: Value, w: Value, v: Value) -> Value:
    return inline(z * w + v)


@rule("complex", large=True)
def true_divide(z: Value, w: Value) -> Value:
    """Smith's division, as in NumPy."""
    wide = (abs(w.real) >= abs(w.imag)).named("wide")
    divisor, other = where(wide, w.real, w.imag).named("divisor"), where(wide, w.imag, w.real)
    ratio = (other.named("other") / divisor).named("ratio")
    scale = (1.0 / (divisor + other * ratio)).named("scale")
    real = where(wide, z.real, z.imag) + where(wide, z.imag, z.real) * ratio
    imag = where(wide, z.imag - z.real * ratio, z.imag * ratio - z.real)
    size = abs(w.real)
    return where(divisor == 0.0, _number(z.real / size, z.imag / size),
                 _number(real * scale, imag * scale))  # fmt: skip


@rule("complex")
def absolute(z: Value) -> Value:
    return z.real.hypot(z.imag)


@rule("complex", large=True)
def sign(z: Value) -> Value:
    """z / |z|; 0 for z = 0; if one part is infinite, the sign of that part."""
    size = z.real.hypot(z.imag).named("size")
    both = z.real.isinf() & z.imag.isinf()
    of_parts = [where(x.isinf(), x.literal(1.0).copysign(x), 0.0) for x in (z.real, z.imag)]
    unit = where(both, z.literal(complex(math.nan, math.nan)), _number(*of_parts))
    found = where(size.isinf(), unit, _number(z.real / size, z.imag / size))
    return where(size != size, _number(size, size), where(size == 0.0, z.literal(0), found))


@rule("complex")
def equal(z: Value, w: Value) -> Value:
    return (z.real == w.real) & (z.imag == w.imag)


@rule("complex")
def not_equal(z: Value, w: Value) -> Value:
    return (z.real != w.real) | (z.imag != w.imag)


@rule("complex")
def isnan(z: Value) -> Value:
    return (z.real != z.real) | (z.imag != z.imag)


@rule("complex")
def isinf(z: Value) -> Value:
    return z.real.isinf() | z.imag.isinf()


@rule("complex")
def isfinite(z: Value) -> Value:
    return z.real.isfinite() & z.imag.isfinite()


# --- elementary functions ---------------------------------------------------------------------


def _elementary(made: Rule) -> Rule:
    """Turn a rule for complex128 into one that computes complex64 in complex128 and rounds."""

    @functools.wraps(made)
    def found(z: Value, *others: Value) -> Value | None:
        if z.type == complex128:
            return made(z, *others)
        wide = [x.cast(complex128) for x in (z, *others)]
        return inline(getattr(wide[0], made.__name__)(*wide[1:]).cast(complex64))

    return rule("complex", large=True)(found)


@rule("float", large=True)
def log_size(x: Value, y: Value) -> Value:
    """log |x + iy|, accurate also where |x + iy| is close to 1."""
    swap = (abs(x) < abs(y)).named("swap")
    a = where(swap, abs(y), abs(x)).named("a")
    b = where(swap, abs(x), abs(y)).named("b")
    squared, other = (a * a).named("squared"), (b * b).named("other")
    above = (squared - 1.0).named("above")
    total = (above + other).named("total")
    back = (total - above).named("back")
    lost = ((above - (total - back)) + (other - back)).named("lost")
    rest = (a.fma(a, -squared) + b.fma(b, -other)).named("rest")
    huge = (a > 1e300).named("huge")
    scale = where(huge, 0.25, x.literal(1.0)).named("scale")
    far = (a * scale).hypot(b * scale).log() + where(huge, math.log(4.0), x.literal(0.0))
    return where((a > 0.6) & (a + b < 1.75), 0.5 * (total + (lost + rest)).log1p(), far)


def _beyond(x: Value, y: Value) -> Value:
    """Whether x is infinite and y is infinite or NaN, cases for which C's Annex G specifies a part
    of the result."""
    return x.isinf() & (y.isinf() | y.isnan())


@_elementary
def exp(z: Value) -> Value:
    """e^x (cos y + i sin y); e^x is applied in two factors where it overflows (x > 709), since cos
    y may bring the product back into range."""
    x, y = z.real, z.imag
    cosine = where(_beyond(x, y), 1.0, y.cos()).named("cosine")
    large = (x > 709.0).named("large")
    size = where(large, x - 709.0, x).exp().named("size")
    factor = where(large, math.exp(709.0), x.literal(1.0)).named("factor")
    flat = y == 0.0
    of_zero = _number(x.literal(0.0), where(flat, y, 0.0))
    found = _number(size * cosine * factor, where(flat, y, size * y.sin() * factor))
    return where((size == 0.0) & (y.isfinite() | x.isinf()), of_zero, found)


@_elementary
def log(z: Value) -> Value:
    return _number(z.real.log_size(z.imag), z.imag.arctan2(z.real))


@_elementary
def sqrt(z: Value) -> Value:
    """Numbers near the ends of the exponent range are scaled first."""
    largest = _larger(abs(z.real), abs(z.imag)).named("largest")
    huge, tiny = (largest > 1e300).named("huge"), (largest < 1e-290).named("tiny")
    one = largest.literal(1.0)
    scale = where(huge, 0.25, where(tiny, 2.0**108, one)).named("scale")
    undo = where(huge, 2.0, where(tiny, 2.0**-54, one)).named("undo")
    x, y = (z.real * scale).named("x"), (z.imag * scale).named("y")
    root = (0.5 * (x.hypot(y) + abs(x))).sqrt().named("root")
    other = (y / (2.0 * root) * undo).named("other")
    right = _number(root * undo, other)
    left = _number(abs(other), (root * undo).copysign(z.imag))
    return where(z.imag.isinf(), _number(abs(z.imag), z.imag),
                 where((z.real == 0.0) & (z.imag == 0.0), _number(largest.literal(0.0), z.imag),
                       where(z.real < 0.0, left, right)))  # fmt: skip


@rule("complex", large=True)
def power(z: Value, w: Value) -> Value | None:
    """exp(w log z); powers of 0 are 1, 0 or NaN."""
    if w.known.constant is not None and complex(w.known.constant) in (1, 2, 3, 4):
        result = z
        exponent = int(complex(w.known.constant).real)
        for _ in range(exponent - 1):
            result = result * z
        return inline(result, POWERS[exponent])
    if z.type == complex64:
        return inline(z.cast(complex128).power(w.cast(complex128)).cast(complex64))
    shrinks = where(w.real > 0.0, 0.0, w.real.literal(math.nan)).named("shrinks")
    return where((w.real == 0.0) & (w.imag == 0.0), 1.0,
                 where((z.real == 0.0) & (z.imag == 0.0), _number(shrinks, shrinks),
                       (w * z.log()).exp()))  # fmt: skip


@_elementary
def sinh(z: Value) -> Value:
    x, y = z.real, z.imag
    real = where(x == 0.0, x, where(_beyond(x, y), abs(x), x.sinh() * y.cos()))
    return _number(real, where(y == 0.0, y, x.cosh() * y.sin()))


@_elementary
def cosh(z: Value) -> Value:
    x, y = z.real, z.imag
    one = x.literal(1.0)
    zero = x.literal(0.0).copysign(one.copysign(x) * one.copysign(y)).named("zero")
    real = where(_beyond(x, y), abs(x), x.cosh() * y.cos())
    return _number(real, where((x == 0.0) | (y == 0.0), zero, x.sinh() * y.sin()))


@_elementary
def tanh(z: Value) -> Value:
    x, y = z.real, z.imag
    small = (-2.0 * abs(x)).exp().named("small")
    cross = (4.0 * y.sin() * (y.cos() * small)).named("cross")
    one, zero = x.literal(1.0), x.literal(0.0)
    endless = x.isinf().named("endless")
    far = _number(
        one.copysign(x) + where(endless, zero, y - y),
        where(
            y == 0.0,
            y,
            where(
                endless & (y.isinf() | y.isnan()), where(y.isinf(), zero.copysign(y), zero), cross
            ),
        ),
    )
    tangent = y.tan().named("tangent")
    beta = (1.0 + tangent * tangent).named("beta")
    s = x.sinh().named("s")
    rho = (1.0 + s * s).sqrt().named("rho")
    below = (1.0 + beta * (s * s)).named("below")
    near = _number(where(x == 0.0, x, beta * rho * s / below), where(y == 0.0, y, tangent / below))
    return where(abs(x) > 22.0, far, near)


def _around_one(z: Value) -> tuple[Value, Value]:
    """sqrt(1 − z), sqrt(1 + z)."""
    return (
        _number(1.0 - z.real, -z.imag).sqrt().named("less"),
        _number(1.0 + z.real, z.imag).sqrt().named("more"),
    )


# If the real part is 0, one part of these functions is known for any imaginary part (even NaN).


def _endless(z: Value) -> Value:
    """Whether a part is infinite: products of the roots would then be differences of infinities."""
    return z.real.isinf() | z.imag.isinf()


@_elementary
def arcsin(z: Value) -> Value:
    less, more = _around_one(z)
    below = less.real * more.real - less.imag * more.imag
    across = less.real * more.imag - less.imag * more.real
    return where(_endless(z),
                 _number(z.real.arctan2(abs(z.imag)), z.real.literal(math.inf).copysign(z.imag)),
                 _number(where(z.real == 0.0, z.real, z.real.arctan2(below)),
                         across.arcsinh()))  # fmt: skip


@_elementary
def arccos(z: Value) -> Value:
    less, more = _around_one(z)
    across = more.real * less.imag - more.imag * less.real
    real = where(z.real == 0.0, math.pi / 2, 2.0 * less.real.arctan2(more.real))
    return where(_endless(z),
                 _number(abs(z.imag).arctan2(z.real), z.real.literal(math.inf).copysign(-z.imag)),
                 _number(real, across.arcsinh()))  # fmt: skip


@_elementary
def arccosh(z: Value) -> Value:
    less = _number(z.real - 1.0, z.imag).sqrt().named("less")
    more = _number(z.real + 1.0, z.imag).sqrt().named("more")
    along = less.real * more.real + less.imag * more.imag
    quarter = z.real.literal(math.pi / 2).copysign(z.imag)
    imag = where(z.real == 0.0, quarter, 2.0 * less.imag.arctan2(more.real))
    return where(_endless(z), _number(z.real.literal(math.inf), z.imag.arctan2(z.real)),
                 _number(along.arcsinh(), imag))  # fmt: skip


@_elementary
def arctanh(z: Value) -> Value:
    """Near ±1, where the square of the distance underflows, the real part is log(2 / |y|) / 2."""
    x, y = abs(z.real).named("x"), z.imag
    size = x.hypot(y).named("size")
    small = where(size.isinf(), 0.0, x / size / size)
    far = _number(small.copysign(z.real), where(y.isnan(), y, x.literal(math.pi / 2).copysign(y)))
    gap = (1.0 - x).named("gap")
    below = (gap * gap + y * y).named("below")
    edge = ((gap == 0.0) & (abs(y) < 1e-40)).named("edge")
    ratio = where(edge, 2.0**-62 / abs(y), 4.0 * x / below)
    length = where(edge, 0.5 * (ratio.log1p() + 63.0 * math.log(2.0)), 0.25 * ratio.log1p())
    real = where(x == 0.0, z.real, length.copysign(z.real))
    imag = 0.5 * (2.0 * y).arctan2(gap * (1.0 + x) - y * y)
    large = (_larger(x, abs(y)) > 1e150) | y.isinf()
    return where(large, far, _number(real, imag))


@_elementary
def expm1(z: Value) -> Value:
    x, y = z.real, z.imag
    half = (0.5 * y).sin().named("of_half")
    wild, low = y.isinf() | y.isnan(), (x == -math.inf).named("low")
    near = where(wild & x.isinf(), x, x.expm1() * y.cos() - 2.0 * (half * half))
    imag = where(wild & low, 0.0, x.exp() * y.sin())
    return _number(where(low, -1.0, near), where(y == 0.0, y, imag))


@_elementary
def log1p(z: Value) -> Value:
    x, y = z.real, z.imag
    moved = (x + 1.0).named("moved")
    near = 0.5 * (x * (2.0 + x) + y * y).log1p()
    small = (abs(x) < 0.25) & (abs(y) < 0.25)
    return _number(where(small, near, moved.log_size(y)), y.arctan2(moved))


@_elementary
def exp2(z: Value) -> Value:
    return _number(z.real * math.log(2.0), z.imag * math.log(2.0)).exp()


@_elementary
def cos(z: Value) -> Value:
    return _number(-z.imag, z.real).cosh()


def _turned(name: str, other: str) -> None:
    def rotated(z: Value) -> Value:
        w = getattr(_number(-z.imag, z.real), other)().named("w")
        return _number(w.imag, -w.real)

    _enter(rotated, name, f"-i {other}(iz)")


def _scaled(name: str, factor: float) -> None:
    def scaled(z: Value) -> Value:
        w = z.log().named("w")
        return _number(w.real * factor, w.imag * factor)

    _enter(scaled, name, "")


def _enter(made: Callable[[Value], Value], name: str, doc: str) -> None:
    made.__name__, made.__doc__ = name, doc
    _elementary(made)


for _name, _other in (("sin", "sinh"), ("tan", "tanh"), ("arcsinh", "arcsin"),
                      ("arctan", "arctanh")):  # fmt: skip
    _turned(_name, _other)
_scaled("log2", math.log2(math.e))
_scaled("log10", math.log10(math.e))
