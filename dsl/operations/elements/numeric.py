"""Functions of numbers that are written with others: of scalars in kernels, and of arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...annotations import Operand, Value
from ...array import Array
from ...errors import DTypeError, TracingError
from ...expr import Expr
from ...frontend.sources import as_array, is_arraylike
from ...primitives import floating
from ...scalar import Scalar, apply_primitive, as_strong, lift, unify
from ...types import ScalarType, bool_, float32, float64, int32, int64
from ..common import alike
from ..control import while_loop
from . import functions as fn
from .bits import bitcast
from .choosing import of_one_type
from .lifting import binary, lifted, unary

__all__ = ["divmod", "float_power", "frexp", "gcd", "i0", "iscomplex", "isneginf", "isposinf",
           "isreal", "lcm", "ldexp", "logaddexp2", "modf", "nan_to_num", "piecewise", "positive",
           "rotate_left", "rotate_right", "select", "sinc", "spacing"]  # fmt: skip


def _of_scalars(f: Callable[..., Any], name: str, *operands: Operand) -> Any:
    """`f` of scalars of one type, for each element of operands that broadcast."""

    def build(values: list[Expr]) -> Expr:
        alike, _ = unify(values)
        return lift(f(*(Scalar(as_strong(v)) for v in alike)), name)

    return lifted(build, name, operands)


def _type(x: Operand, name: str) -> ScalarType:
    """The type of an operand."""
    if is_arraylike(x) or isinstance(x, Array):
        return as_array(x, name).types[0]
    return as_strong(lift(x, name)).type


@unary
def positive(x: Operand) -> Value:
    """`x` itself, booleans too.

    >>> td.positive(np.array([3, 1, 2]))
    Array([3, 1, 2])
    """
    return lifted(lambda values: values[0], "positive", (x,))


@unary
def isposinf(x: Operand) -> Value:
    """Whether x is +∞.

    >>> td.isposinf(np.array([0.0, 0.5, 1.0]))
    Array([False, False, False])
    """
    return fn.isinf(x) & fn.greater(x, 0)


@unary
def isneginf(x: Operand) -> Value:
    """Whether x is −∞.

    >>> td.isneginf(np.array([0.0, 0.5, 1.0]))
    Array([False, False, False])
    """
    return fn.isinf(x) & fn.less(x, 0)


@unary
def isreal(x: Operand) -> Value:
    """Whether the imaginary part is 0.

    >>> td.isreal(np.array([3 + 4j]))
    Array([False])
    """
    return fn.equal(fn.imag(x), 0)


@unary
def iscomplex(x: Operand) -> Value:
    """Whether the imaginary part is not 0.

    >>> td.iscomplex(np.array([3 + 4j]))
    Array([ True])
    """
    return fn.not_equal(fn.imag(x), 0)


def _constant(x: object) -> Scalar:
    return Scalar(apply_primitive("stop", [lift(x, "stop")]))


@unary
def sinc(x: Operand) -> Value:
    """sin(πx) / (πx), and 1 at 0.

    >>> td.sinc(np.array([0.0, 0.5]))
    Array([1.        , 0.63661977])
    """

    def value(x: Any) -> Any:
        at = x * np.pi
        zero = at == 0
        found = fn.where(zero, 1.0, fn.sin(at) / fn.where(zero, 1.0, at))
        # Near 0 it has the derivatives of the series: those of the quotient are differences of
        # large numbers.
        series = 1.0 + at * 0.0
        for n in (156.0, 110.0, 72.0, 42.0, 20.0, 6.0):
            series = 1.0 - at * at / n * series
        near = _constant(found) + (series - _constant(series))
        return fn.where(abs(at) < 0.25, near, found)

    return _of_scalars(value, "sinc", x)


#: Chebyshev coefficients of exp(−x) I₀(x) on 0 … 8, and of √x exp(−x) I₀(x) on 8 … ∞ (Cephes).
_I0_BELOW = (
    -4.4153416464793395e-18, 3.3307945188222384e-17, -2.431279846547955e-16,
    1.715391285555133e-15, -1.1685332877993451e-14, 7.676185498604936e-14, -4.856446783111929e-13,
    2.95505266312964e-12, -1.726826291441556e-11, 9.675809035373237e-11, -5.189795601635263e-10,
    2.6598237246823866e-09, -1.300025009986248e-08, 6.046995022541919e-08, -2.670793853940612e-07,
    1.1173875391201037e-06, -4.4167383584587505e-06, 1.6448448070728896e-05,
    -5.754195010082104e-05, 0.00018850288509584165, -0.0005763755745385824, 0.0016394756169413357,
    -0.004324309995050576, 0.010546460394594998, -0.02373741480589947, 0.04930528423967071,
    -0.09490109704804764, 0.17162090152220877, -0.3046826723431984, 0.6767952744094761,
)  # fmt: skip
_I0_ABOVE = (
    -7.233180487874754e-18, -4.830504485944182e-18, 4.46562142029676e-17, 3.461222867697461e-17,
    -2.8276239805165836e-16, -3.425485619677219e-16, 1.7725601330565263e-15,
    3.8116806693526224e-15, -9.554846698828307e-15, -4.150569347287222e-14, 1.54008621752141e-14,
    3.8527783827421426e-13, 7.180124451383666e-13, -1.7941785315068062e-12,
    -1.3215811840447713e-11, -3.1499165279632416e-11, 1.1889147107846439e-11,
    4.94060238822497e-10, 3.3962320257083865e-09, 2.266668990498178e-08, 2.0489185894690638e-07,
    2.8913705208347567e-06, 6.889758346916825e-05, 0.0033691164782556943, 0.8044904110141088,
)  # fmt: skip


@unary
def i0(x: Operand) -> Value:
    """The modified Bessel function of the first kind and order 0, of real numbers.

    >>> round(float(td.i0(td.unit(1.0))), 6)
    1.266066
    """

    def series(x: Any, coefficients: Sequence[float]) -> Any:
        first: Any = coefficients[0]
        second = third = x * 0.0
        for c in coefficients[1:]:
            second, third = first, second
            first = x * second - third + c
        return 0.5 * (first - third)

    def value(x: Any) -> Any:
        x = fn.cast(x, int64) if x.dtype == bool_ else x
        x = x * 1.0  # integers have no −x of their least
        size = fn.where(x < 0, -x, x)  # (unlike |x|, it has a slope at 0)
        below = fn.where(size <= 8.0, size, 8.0)
        above = fn.where(size <= 8.0, 8.0, size)
        near = series(below / 2.0 - 2.0, _I0_BELOW)
        far = series(32.0 / above - 2.0, _I0_ABOVE) / fn.sqrt(above)
        return fn.exp(size) * fn.where(size <= 8.0, near, far)

    if _type(x, "i0").is_complex:
        raise DTypeError("i0 is for real numbers, got complex ones.", hint="Take the real part.")
    return _of_scalars(value, "i0", x)


@unary
def spacing(x: Operand) -> Value:
    """The distance from a float to the next one away from 0, with its sign (0: positive); NaN of
    ±∞.

    >>> float(td.spacing(td.unit(1.0))) == 2.0**-52
    True
    """

    def value(x: Any) -> Any:
        x = fn.cast(x, floating(x.dtype))
        infinite = fn.cast(np.inf, x.dtype)
        return fn.nextafter(x, fn.where(x < 0, -infinite, infinite)) - x

    return _of_scalars(value, "spacing", x)


@binary
def float_power(x: Operand, y: Operand) -> Value:
    """x ** y in float64, or complex128.

    >>> td.float_power(np.array([3, 1, 2]), 2)
    Array([9., 1., 4.])
    """
    return fn.power(fn.multiply(x, fn.cast(1.0, float64)), y)


@binary
def logaddexp2(x: Operand, y: Operand) -> Value:
    """log₂(2ˣ + 2ʸ) without overflow.

    >>> td.logaddexp2(np.array([1.0]), np.array([1.0]))
    Array([2.])
    """

    def value(x: Any, y: Any) -> Any:
        high, low = fn.ordered(x, y)
        return fn.where(
            (high == low) & fn.isinf(high),
            high,
            high + fn.log1p(fn.exp2(low - high)) / math.log(2.0),
        )

    return fn.in_floats(value, "logaddexp2", x, y)


def divmod(x: Operand, y: Operand) -> tuple[Value, Value]:
    """`(x // y, x % y)`.

    Parameters
        x: a number, or an array of any shape.
        y: a number, or an array that broadcasts with `x`.

    Result: two arrays, or two scalars if the operands are numbers.

    >>> import numpy as np, treadle as td
    >>> td.divmod(np.array([3, 1, 2]), 2)
    (Array([1, 0, 1]), Array([1, 1, 0]))
    """
    return fn.floor_divide(x, y), fn.remainder(x, y)


@binary
def gcd(x: Operand, y: Operand) -> Value:
    """The greatest common divisor of integers, not negative; gcd(0, 0) = 0.

    >>> td.gcd(np.array([12, 7]), 18)
    Array([6, 1])
    """
    return _of_scalars(_gcd, "gcd", x, y)


def _gcd(x: Any, y: Any) -> Any:
    if not x.dtype.is_integer:
        raise DTypeError(
            f"gcd and lcm are for integers, got {x.dtype}.", hint="Convert it: x.astype(td.int64)."
        )
    unsigned = np.dtype(f"uint{x.dtype.bits}")  # which has |x| of the least number, too
    start = tuple(fn.cast(fn.absolute(v), unsigned) for v in (x, y))
    found = while_loop(lambda s: s[1] != 0, lambda s: (s[1], s[0] % s[1]), start)[0]
    return fn.cast(found, x.dtype)


@binary
def lcm(x: Operand, y: Operand) -> Value:
    """The least common multiple of integers, not negative; 0 if one of them is 0.

    >>> td.lcm(np.array([3, 1, 2]), 2)
    Array([6, 2, 2])
    """

    def value(x: Any, y: Any) -> Any:
        divisor = _gcd(x, y)
        one = fn.cast(1, x.dtype)
        return fn.absolute(x) // fn.where(divisor == 0, one, divisor) * fn.absolute(y)

    return _of_scalars(value, "lcm", x, y)


def modf(x: Operand) -> tuple[Value, Value]:
    """`(fraction, whole)`, both with the sign of x; the fraction of ±∞ is ±0.

    Parameters
        x: a number, or an array of any shape.

    Result: two arrays, or two scalars if the operands are numbers.

    >>> import numpy as np, treadle as td
    >>> td.modf(np.array([1.5]))
    (Array([0.5]), Array([1.]))
    """
    kind = _type(x, "modf")
    x = x if kind.is_inexact else fn.cast(x, floating(kind))
    whole = fn.trunc(x)
    return fn.copysign(fn.where(fn.isinf(whole), 0.0, fn.subtract(x, whole)), x), whole


def frexp(x: Operand) -> tuple[Value, Value]:
    """`(mantissa, exponent)` with x = mantissa · 2 ** exponent and 0.5 ≤ |mantissa| < 1 (0, ±∞ and
    NaN have exponent 0); the exponent is int32.

    Parameters
        x: a number, or an array of any shape.

    Result: two arrays, or two scalars if the operands are numbers.

    >>> import numpy as np, treadle as td
    >>> td.frexp(np.array([8.0]))
    (Array([0.5]), Array([4], dtype=int32))
    """

    def exponent(x: Any) -> Any:
        special = ~fn.isfinite(x) | (x == 0)
        size = fn.absolute(fn.where(special, 1.0, x))
        # log2 may be off by one next to powers of two, and subnormal numbers have few digits.
        guess = fn.cast(fn.floor(fn.log2(size)), int32) + 1
        share = _scaled(size, -guess)
        guess = fn.where(share >= 1.0, guess + 1, fn.where(share < 0.5, guess - 1, guess))
        return fn.where(special, fn.cast(0, int32), guess)

    exponents = _of_scalars(exponent, "frexp", fn.multiply(x, 1.0))
    return ldexp(x, fn.negative(exponents)), exponents


def _scaled(x: Any, n: Any) -> Any:
    """x · 2ⁿ, rounded once, with at most two steps before where 2ⁿ has no number of its own."""
    kind = x.dtype
    if kind.bits == 16:  # whose products are numbers of float32
        return fn.cast(_scaled(fn.cast(x, float32), n), kind)
    limits = np.finfo(kind.numpy)
    least, most, digits = limits.minexp, limits.maxexp - 1, limits.nmant + 1
    for _ in range(2):
        # (What is subnormal after a step down is 0 in the end.)
        up, down = n > most, n < least
        x = fn.where(up, x * 2.0**most, fn.where(down, x * 2.0 ** (least + digits), x))
        n = n - fn.where(up, most, fn.where(down, least + digits, 0))
    exponent = fn.cast(fn.clip(n, least, most) - (least - 1), {32: int32, 64: int64}[kind.bits])
    return x * bitcast(exponent << limits.nmant, kind)


@binary
def ldexp(x: Operand, n: Operand) -> Value:
    """x · 2 ** n for integers n.

    Parameters
        n: integers.

    >>> td.ldexp(np.array([0.5]), 4)
    Array([8.])
    """
    if not _type(n, "ldexp").is_integer:
        raise DTypeError(
            f"ldexp needs integer exponents, got {_type(n, 'ldexp')}.",
            hint="Write x * 2.0 ** n for others.",
        )
    kind = floating(_type(x, "ldexp"))

    def build(values: list[Expr]) -> Expr:
        value, count = (Scalar(as_strong(v)) for v in values)
        if count.dtype.bits > 16:  # as far as numbers of any type are apart
            low = 0 if count.dtype.family == "uint" else -5000
            count = fn.clip(count, low, 5000)
        return lift(_scaled(fn.cast(value, kind), fn.cast(count, int32)), "ldexp")

    return lifted(build, "ldexp", (x, n))


def nan_to_num(
    x: Operand,
    copy: bool = True,
    nan: float = 0.0,
    posinf: float | None = None,
    neginf: float | None = None,
) -> Value:
    """NaN replaced by `nan`, +∞ and −∞ by the largest and the smallest number or what is given.

    `copy` has no effect: arrays never change.

    Parameters
        x: a number, or an array of any shape.
        copy: has no effect: arrays never change; default True.
        nan: the number for NaN, or an array that broadcasts to the shape of `x`; default 0.
        posinf: the one for +∞; default: the largest.
        neginf: the one for −∞; default: the least.

    Result: an array of the shape of `x`; a scalar if it is a number.

    >>> import numpy as np, treadle as td
    >>> td.nan_to_num(np.array([1.0, np.nan, -np.inf]), neginf=-9.0)
    Array([ 1.,  0., -9.])
    """
    kind = _type(x, "nan_to_num")
    if not kind.is_inexact:
        return positive(x)
    if kind.is_complex:
        parts = (nan_to_num(part, copy, nan, posinf, neginf) for part in (fn.real(x), fn.imag(x)))
        return fn.complex_(*parts)
    most = float(np.finfo(kind.numpy).max) if kind.name != "bfloat16" else 3.3895313892515355e38
    high, low = most if posinf is None else posinf, -most if neginf is None else neginf
    found = fn.where(isposinf(x), high, fn.where(isneginf(x), low, x))
    found = fn.where(fn.isnan(x), nan, found)
    if (given := _type(found, "nan_to_num")) != kind:
        if given.is_complex:
            raise DTypeError(f"nan_to_num: complex numbers do not fit into {kind}.",
                             hint="Take the real part of nan, posinf and neginf.")  # fmt: skip
        found = fn.cast(found, kind)
    return alike(found, as_array(x), "nan_to_num") if isinstance(found, Array) else found


def select(
    conditions: Sequence[Operand], choices: Sequence[Operand], default: Operand = 0
) -> Value:
    """For each element the choice of the first condition that holds, else `default`.

    Parameters
        conditions: arrays of booleans, or of numbers, of which those that are not 0 hold.
        choices: arrays that broadcast together.
        default: the value where no condition holds; default 0.

    Result: an array of the shape to which the operands broadcast; a scalar without arrays.

    >>> import treadle as td
    >>> k = td.iota(5)
    >>> td.select([k < 2, k > 3], [k, -k], 9)
    Array([ 0,  1,  9,  9, -4])

    See also `where`, `piecewise`, `choose`.
    """
    if len(conditions) != len(choices):
        raise TracingError(
            f"select: {len(conditions)} conditions for {len(choices)} choices.",
            hint="Give as many of each: td.select([p, q], [a, b], default).",
        )
    *choices, found = of_one_type([*choices, default], "select")
    for p, choice in zip(reversed(conditions), reversed(choices), strict=True):
        found = fn.where(p, choice, found)
    return found


def piecewise(
    x: Operand,
    conditions: Sequence[Operand],
    functions: Sequence[Callable[[Value], Operand] | Operand],
) -> Value:
    """For each element the function of the last condition that holds, applied to it; one function
    more than conditions is for the others (else they are 0).  Numbers are constant functions.

    Parameters
        x: an array.
        conditions: arrays of booleans.
        functions: functions of an array, or numbers.

    Result: an array of the shape of `x`; a scalar if it is a number.

    >>> import treadle as td
    >>> x = td.iota(5) - 2
    >>> td.piecewise(x, [x < 0, x >= 0], [lambda v: -v, lambda v: 10 * v])
    Array([ 2,  1,  0, 10, 20])

    See also `where`, `select`, `choose`.
    """
    if len(functions) not in (len(conditions), len(conditions) + 1):
        raise TracingError(
            f"piecewise: {len(functions)} functions for {len(conditions)} conditions.",
            hint="One for each, and perhaps one for the elements of none.",
        )
    own = x if isinstance(x, Scalar) else as_array(x, "piecewise")
    kind = _type(own, "piecewise")

    def value(function: Any) -> Any:
        return fn.cast(function(own) if callable(function) else function, kind)

    found: Any = value(functions[-1] if len(functions) > len(conditions) else 0)
    for p, function in zip(conditions, functions, strict=False):
        if isinstance(own, Array):
            p = alike(as_array(p, "piecewise"), own, "piecewise")
        found = fn.where(p, value(function), found)
    return found


def _rotated(x: Operand, n: Operand, left: bool, name: str) -> Any:
    kind = _type(x, name)
    if not kind.is_integer or not _type(n, name).is_integer:
        raise DTypeError(
            f"{name} is for integers, got {kind} and {_type(n, name)}.",
            hint="Convert them: x.astype(td.uint32).",
        )

    def build(values: list[Expr]) -> Expr:
        value, count = Scalar(as_strong(values[0])), Scalar(as_strong(values[1]))
        unsigned = getattr(np, f"uint{kind.bits}")
        bits = fn.cast(value, unsigned)
        n = fn.cast(fn.cast(count, int64) % kind.bits, unsigned)
        other = fn.cast((kind.bits - fn.cast(n, int64)) % kind.bits, unsigned)
        up, down = (n, other) if left else (other, n)
        return lift(fn.cast((bits << up) | (bits >> down), kind), name)

    return lifted(build, name, (x, n))


@binary
def rotate_left(x: Operand, n: Operand) -> Value:
    """The bits of an integer rotated by n places to the left; n is taken modulo the width.

    >>> td.rotate_left(np.array([129], "uint8"), 1)
    Array([3], dtype=uint8)
    """
    return _rotated(x, n, True, "rotate_left")


@binary
def rotate_right(x: Operand, n: Operand) -> Value:
    """The bits of an integer rotated by n places to the right; n is taken modulo the width.

    >>> td.rotate_right(np.array([2]), 1)
    Array([1])
    """
    return _rotated(x, n, False, "rotate_right")


fn.label(globals())
