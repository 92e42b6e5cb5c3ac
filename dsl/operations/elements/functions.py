"""Element-wise functions with NumPy's names, on scalars and, with broadcasting, on arrays."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from ... import late_binding as later, simplify
from ...annotations import DTypeLike, Operand, Value
from ...array import Array, require_scalars
from ...errors import DTypeError, TracingError
from ...expr import Const, Expr
from ...frontend.suggestions import UFUNC_METHODS, of_ufunc
from ...primitives import TABLE, floating
from ...scalar import Scalar, apply_primitive, as_strong, as_truth, lift, unify_in_floats
from ...types import as_type, float64, int64, promote, uint8
from ..common import operation, operation_of_numbers, whole_number
from . import lifting
from .choosing import where

add = lifting.documented_binary("add", """
    The sum x + y, element by element.  Integers wrap around; of booleans, logical or.
    >>> td.add(np.array([3, 1, 2]), np.array([2, 0, 1]))
    Array([5, 1, 3])""")  # fmt: skip
subtract = lifting.documented_binary("subtract", """
    The difference x − y.  Integers wrap around.
    >>> td.subtract(np.array([3, 1, 2]), np.array([2, 0, 1]))
    Array([1, 1, 1])""")  # fmt: skip
multiply = lifting.documented_binary("multiply", """
    The product x · y of elements (`td.matmul` multiplies matrices).  Integers wrap around;
    of booleans, logical and.
    >>> td.multiply(np.array([3, 1, 2]), np.array([2, 0, 1]))
    Array([6, 0, 2])""")  # fmt: skip
true_divide = lifting.documented_binary("true_divide", """
    The quotient x / y in floating point; a number over 0 is ±∞, 0 over 0 is NaN.
    >>> td.true_divide(np.array([3, 1, 2]), 2)
    Array([1.5, 0.5, 1. ])""")  # fmt: skip
divide = true_divide
floor_divide = lifting.documented_binary("floor_divide", """
    The quotient rounded down, x // y: −7 // 2 is −4.  Division of integers by 0 gives 0.
    >>> td.floor_divide(np.array([-7, 7, 7]), np.array([2, 2, 0]))
    Array([-4,  3,  0])""")  # fmt: skip
remainder = lifting.documented_binary("remainder", """
    The remainder of `floor_divide`, x % y, with the sign of y.  Integers modulo 0 give 0.
    >>> td.remainder(np.array([-7, 7]), 3)
    Array([2, 1])""")  # fmt: skip
mod = remainder
quot = lifting.documented_binary("quot", """
    The quotient rounded towards zero, as C divides integers: quot(−7, 2) is −3.  Division of
    integers by 0 gives 0.
    >>> td.quot(np.array([-7, 7]), 2)
    Array([-3,  3])""")  # fmt: skip
rem = lifting.documented_binary("rem", """
    The remainder of `quot`, with the sign of x, as C's % of integers.
    >>> td.rem(np.array([-7, 7]), 3)
    Array([-1,  1])""")  # fmt: skip
fmod = lifting.documented_binary("fmod", """
    The remainder with the sign of x, as C's fmod: fmod(−7.5, 2) is −1.5.
    >>> td.run(td.fmod(-7.5, 2.0))
    array(-1.5)""")  # fmt: skip
minimum = lifting.documented_binary("minimum", """
    The smaller of two elements; NaN if one of them is NaN.  Of 0.0 and −0.0 it is either.
    >>> td.minimum(np.array([3, 1, 2]), np.array([2, 0, 1]))
    Array([2, 0, 1])""")  # fmt: skip
maximum = lifting.documented_binary("maximum", """
    The larger of two elements; NaN if one of them is NaN.  Of 0.0 and −0.0 it is either.
    >>> td.maximum(np.array([3, 1, 2]), np.array([2, 0, 1]))
    Array([3, 1, 2])""")  # fmt: skip
fmin = lifting.documented_binary("fmin", """
    The smaller of two elements; of a number and NaN, the number.
    >>> td.fmin(np.array([np.nan, 1.0]), 2.0)
    Array([2., 1.])""")  # fmt: skip
fmax = lifting.documented_binary("fmax", """
    The larger of two elements; of a number and NaN, the number.
    >>> td.fmax(np.array([np.nan, 1.0]), 2.0)
    Array([2., 2.])""")  # fmt: skip
equal = lifting.documented_comparison("equal", """
    Whether x == y.  NaN equals nothing; tuples are equal if all their components are.
    >>> td.equal(np.array([3, 1, 2]), np.array([3, 0, 2]))
    Array([ True, False,  True])""")  # fmt: skip
not_equal = lifting.documented_comparison("not_equal", """
    Whether x != y: the opposite of `equal`.
    >>> td.not_equal(np.array([3, 1, 2]), np.array([3, 0, 2]))
    Array([False,  True, False])""")  # fmt: skip
less = lifting.documented_comparison("less", """
    Whether x < y.  Tuples are compared by their first components that differ.
    >>> td.less(np.array([3, 1, 2]), 2)
    Array([False,  True, False])""")  # fmt: skip
less_equal = lifting.documented_comparison("less_equal", """
    Whether x <= y; False where one is NaN.
    >>> td.less_equal(np.array([3, 1, 2]), 2)
    Array([False,  True,  True])""")  # fmt: skip
greater = lifting.documented_comparison("greater", """
    Whether x > y; False where one is NaN.
    >>> td.greater(np.array([3, 1, 2]), 2)
    Array([ True, False, False])""")  # fmt: skip
greater_equal = lifting.documented_comparison("greater_equal", """
    Whether x >= y; False where one is NaN.
    >>> td.greater_equal(np.array([3, 1, 2]), 2)
    Array([ True, False,  True])""")  # fmt: skip
logical_and = lifting.documented_binary("logical_and", """
    Whether both are true; numbers other than 0 are.
    >>> td.logical_and(np.array([3, 0, 2]), np.array([True, True, False]))
    Array([ True, False, False])""")  # fmt: skip
logical_or = lifting.documented_binary("logical_or", """
    Whether one of them is true, or both; numbers other than 0 are.
    >>> td.logical_or(np.array([3, 0, 0]), np.array([True, True, False]))
    Array([ True,  True, False])""")  # fmt: skip
logical_xor = lifting.documented_binary("logical_xor", """
    Whether exactly one of them is true; numbers other than 0 are.
    >>> td.logical_xor(np.array([3, 0, 0]), np.array([True, True, False]))
    Array([False,  True, False])""")  # fmt: skip
bitwise_and = lifting.documented_binary("bitwise_and", """
    The bits that both have, x & y; of booleans, logical and.
    >>> td.bitwise_and(np.array([3, 1, 2]), 1)
    Array([1, 1, 0])""")  # fmt: skip
bitwise_or = lifting.documented_binary("bitwise_or", """
    The bits that one of them has, or both, x | y; of booleans, logical or.
    >>> td.bitwise_or(np.array([3, 1, 2]), 1)
    Array([3, 1, 3])""")  # fmt: skip
bitwise_xor = lifting.documented_binary("bitwise_xor", """
    The bits in which they differ, x ^ y; of booleans, logical exclusive or.
    >>> td.bitwise_xor(np.array([3, 1, 2]), 1)
    Array([2, 0, 3])""")  # fmt: skip
left_shift = lifting.documented_binary("left_shift", """
    The bits of x moved y places up, x << y; a shift by all bits or more gives 0.
    >>> td.left_shift(np.array([3, 1, 2]), np.array([1, 64, 0]))
    Array([6, 0, 2])""")  # fmt: skip
right_shift = lifting.documented_binary("right_shift", """
    The bits of x moved y places down, x >> y, with copies of the sign: x // 2**y.
    >>> td.right_shift(np.array([-8, 8]), 1)
    Array([-4,  4])""")  # fmt: skip
bitwise_left_shift, bitwise_right_shift = left_shift, right_shift
hypot = lifting.documented_binary("hypot", """
    The length √(x² + y²), without overflow on the way.
    >>> td.hypot(np.array([3.0, 3e200]), np.array([4.0, 4e200]))
    Array([5.e+000, 5.e+200])""")  # fmt: skip
copysign = lifting.documented_binary("copysign", """
    The absolute value of x with the sign of y; −0.0 and NaN have signs, too.
    >>> td.copysign(3.0, np.array([1.0, -0.0]))
    Array([ 3., -3.])""")  # fmt: skip
nextafter = lifting.documented_binary("nextafter", """
    The float next to x in the direction of y; x if they are equal.
    >>> td.nextafter(np.array([1.0, 2.0]), 2.0) - np.array([1.0, 2.0])
    Array([2.22044605e-16, 0.00000000e+00])""")  # fmt: skip


@lifting.binary
def arctan2(y: Operand, x: Operand) -> Value:
    """The angle of the point (x, y) in radians; y is the first argument, as in NumPy.

    Parameters
        y: the y coordinates.
        x: the x coordinates.

    >>> td.run(td.atan2(1.0, -1.0))
    array(2.35619449)
    """
    return lifting.elementwise("arctan2", y, x)


negative = lifting.documented_unary("negative", """
    The negative −x; of unsigned integers modulo 2 to the number of bits.
    >>> td.negative(np.array([3, 1, 2]))
    Array([-3, -1, -2])""")  # fmt: skip
absolute = lifting.documented_unary("absolute", """
    The absolute value |x|; of complex numbers √(re² + im²), without overflow.
    >>> td.absolute(np.array([-2, 3]))
    Array([2, 3])""")  # fmt: skip
abs = absolute
sign = lifting.documented_unary("sign", """
    −1, 0 or 1 by the sign of x; NaN of NaN; of complex numbers x / |x|.
    >>> td.sign(np.array([-2, 0, 3]))
    Array([-1,  0,  1])""")  # fmt: skip
logical_not = lifting.documented_unary("logical_not", """
    Whether x is 0 (or False).
    >>> td.logical_not(np.array([2, 0, 1]))
    Array([False,  True, False])""")  # fmt: skip
invert = lifting.documented_unary("invert", """
    All bits of x inverted, ~x, which is −x − 1 of signed integers; of booleans, logical not.
    >>> td.invert(np.array([3, 1, 2]))
    Array([-4, -2, -3])""")  # fmt: skip
bitwise_not = bitwise_invert = invert
sqrt = lifting.documented_unary("sqrt", """
    The square root; NaN of negative real numbers.  Of complex numbers the root whose real part
    is not negative.
    >>> td.sqrt(np.array([4.0, -4.0]))
    Array([ 2., nan])""")  # fmt: skip
exp = lifting.documented_unary("exp", """
    The exponential function eˣ.
    >>> td.exp(np.array([0.0, 0.5, 1.0]))
    Array([1.        , 1.64872127, 2.71828183])""")  # fmt: skip
exp2 = lifting.documented_unary("exp2", """
    The power 2ˣ.
    >>> td.exp2(np.array([0.0, 0.5, 1.0]))
    Array([1.        , 1.41421356, 2.        ])""")  # fmt: skip
expm1 = lifting.documented_unary("expm1", """
    eˣ − 1, accurate where x is close to 0 and `exp(x) - 1` is not.
    >>> td.expm1(np.array([1e-12, 1.0]))
    Array([1.00000000e-12, 1.71828183e+00])""")  # fmt: skip
log = lifting.documented_unary("log", """
    The natural logarithm: −∞ of 0, NaN of negative real numbers.  Of complex numbers, the one
    whose imaginary part is in [−π, π].
    >>> td.log(np.array([1.0, 10.0]))
    Array([0.        , 2.30258509])""")  # fmt: skip
log2 = lifting.documented_unary("log2", """
    The logarithm to base 2: −∞ of 0, NaN of negative real numbers.
    >>> td.log2(np.array([8.0, 0.5]))
    Array([ 3., -1.])""")  # fmt: skip
log10 = lifting.documented_unary("log10", """
    The logarithm to base 10: −∞ of 0, NaN of negative real numbers.
    >>> td.log10(np.array([1000.0, 0.1]))
    Array([ 3., -1.])""")  # fmt: skip
log1p = lifting.documented_unary("log1p", """
    log(1 + x), accurate where x is close to 0 and `log(1 + x)` is not.
    >>> td.log1p(np.array([1e-12, 1.0]))
    Array([1.00000000e-12, 6.93147181e-01])""")  # fmt: skip
sin = lifting.documented_unary("sin", """
    The sine of an angle in radians.
    >>> td.sin(np.array([0.0, 0.5, 1.0]))
    Array([0.        , 0.47942554, 0.84147098])""")  # fmt: skip
cos = lifting.documented_unary("cos", """
    The cosine of an angle in radians.
    >>> td.cos(np.array([0.0, 0.5, 1.0]))
    Array([1.        , 0.87758256, 0.54030231])""")  # fmt: skip
tan = lifting.documented_unary("tan", """
    The tangent of an angle in radians.
    >>> td.tan(np.array([0.0, 0.5, 1.0]))
    Array([0.        , 0.54630249, 1.55740772])""")  # fmt: skip
arcsin = lifting.documented_unary("arcsin", """
    The angle in [−π/2, π/2] whose sine is x; NaN of real numbers beyond ±1.  Of complex
    numbers, with cuts along the real axis beyond ±1.
    >>> td.arcsin(np.array([0.0, 0.5, 1.0]))
    Array([0.        , 0.52359878, 1.57079633])""")  # fmt: skip
arccos = lifting.documented_unary("arccos", """
    The angle in [0, π] whose cosine is x; NaN of real numbers beyond ±1.  Of complex numbers,
    with cuts along the real axis beyond ±1.
    >>> td.arccos(np.array([0.0, 0.5, 1.0]))
    Array([1.57079633, 1.04719755, 0.        ])""")  # fmt: skip
arctan = lifting.documented_unary("arctan", """
    The angle in [−π/2, π/2] whose tangent is x (`arctan2` knows the quadrant).  Of complex
    numbers, with cuts along the imaginary axis beyond ±i.
    >>> td.arctan(np.array([0.0, 0.5, 1.0]))
    Array([0.        , 0.46364761, 0.78539816])""")  # fmt: skip
sinh = lifting.documented_unary("sinh", """
    The hyperbolic sine (eˣ − e⁻ˣ) / 2.
    >>> td.sinh(np.array([0.0, 0.5, 1.0]))
    Array([0.        , 0.52109531, 1.17520119])""")  # fmt: skip
cosh = lifting.documented_unary("cosh", """
    The hyperbolic cosine (eˣ + e⁻ˣ) / 2.
    >>> td.cosh(np.array([0.0, 0.5, 1.0]))
    Array([1.        , 1.12762597, 1.54308063])""")  # fmt: skip
tanh = lifting.documented_unary("tanh", """
    The hyperbolic tangent sinh(x) / cosh(x), in [−1, 1].
    >>> td.tanh(np.array([0.0, 0.5, 1.0]))
    Array([0.        , 0.46211716, 0.76159416])""")  # fmt: skip
arcsinh = lifting.documented_unary("arcsinh", """
    The number whose hyperbolic sine is x.  Of complex numbers, with cuts along the imaginary
    axis beyond ±i.
    >>> td.arcsinh(np.array([0.0, 0.5, 1.0]))
    Array([0.        , 0.48121183, 0.88137359])""")  # fmt: skip
arccosh = lifting.documented_unary("arccosh", """
    The number ≥ 0 whose hyperbolic cosine is x; NaN of real numbers below 1.  Of complex
    numbers, with a cut along the real axis below 1.
    >>> td.arccosh(np.array([1.0, 2.0]))
    Array([0.       , 1.3169579])""")  # fmt: skip
arctanh = lifting.documented_unary("arctanh", """
    The number whose hyperbolic tangent is x: ±∞ of ±1, NaN of real numbers beyond.  Of complex
    numbers, with cuts along the real axis beyond ±1.
    >>> td.arctanh(np.array([0.0, 0.5]))
    Array([0.        , 0.54930614])""")  # fmt: skip
asin, acos, atan, atan2 = arcsin, arccos, arctan, arctan2
asinh, acosh, atanh = arcsinh, arccosh, arctanh
cbrt = lifting.documented_unary("cbrt", """
    The real cube root, also of negative numbers.
    >>> td.cbrt(np.array([27.0, -8.0]))
    Array([ 3., -2.])""")  # fmt: skip
erf = lifting.documented_unary("erf", """
    The error function 2/√π ∫₀ˣ exp(−t²) dt, in [−1, 1].
    >>> td.erf(np.array([0.0, 0.5, 1.0]))
    Array([0.        , 0.52049988, 0.84270079])""")  # fmt: skip
erfc = lifting.documented_unary("erfc", """
    1 − erf(x), accurate for large x, where `erf` is almost 1.
    >>> td.erfc(np.array([0.0, 5.0]))
    Array([1.00000000e+00, 1.53745979e-12])""")  # fmt: skip
floor = lifting.documented_unary("floor", """
    The largest whole number ≤ x, in the type of x; integers stay as they are.
    >>> td.floor(np.array([-1.5, 1.5]))
    Array([-2.,  1.])""")  # fmt: skip
ceil = lifting.documented_unary("ceil", """
    The smallest whole number ≥ x, in the type of x; integers stay as they are.
    >>> td.ceil(np.array([-1.5, 1.5]))
    Array([-1.,  2.])""")  # fmt: skip
trunc = lifting.documented_unary("trunc", """
    x without its fraction, in the type of x; integers stay as they are.
    >>> td.trunc(np.array([-1.5, 1.5]))
    Array([-1.,  1.])""")  # fmt: skip
rint = lifting.documented_unary("rint", """
    The nearest whole number, in the type of x; the even one if there are two.  Both parts of a
    complex number are rounded.
    >>> td.rint(np.array([0.5, 1.5, 2.7]))
    Array([0., 2., 3.])""")  # fmt: skip
isnan = lifting.documented_unary("isnan", """
    Whether x is NaN (for complex numbers: whether a part is).
    >>> td.isnan(np.array([1.0, np.nan]))
    Array([False,  True])""")  # fmt: skip
isinf = lifting.documented_unary("isinf", """
    Whether x is +∞ or −∞ (for complex numbers: whether a part is).
    >>> td.isinf(np.array([1.0, -np.inf, np.nan]))
    Array([False,  True, False])""")  # fmt: skip
isfinite = lifting.documented_unary("isfinite", """
    Whether x is neither infinite nor NaN.
    >>> td.isfinite(np.array([1.0, np.nan]))
    Array([ True, False])""")  # fmt: skip
signbit = lifting.documented_unary("signbit", """
    Whether x has a minus sign: also −0.0, and NaN whose sign bit is set.
    >>> td.signbit(np.array([-0.0, 1.0]))
    Array([ True, False])""")  # fmt: skip
real = lifting.documented_unary("real", """
    The real part of complex numbers; real numbers are returned as they are.
    >>> td.real(np.array([3 + 4j]))
    Array([3.])""")  # fmt: skip
imag = lifting.documented_unary("imag", """
    The imaginary part of complex numbers; 0 of other numbers.
    >>> td.imag(np.array([3 + 4j]))
    Array([4.])""")  # fmt: skip
conjugate = lifting.documented_unary("conjugate", """
    The complex conjugate re − i·im; real numbers are returned as they are.
    >>> td.conjugate(np.array([3 + 4j]))
    Array([3.-4.j])""")  # fmt: skip
conj = conjugate
popcount = lifting.documented_unary("popcount", """
    How many bits of x are 1: all of them of −1 (`bitwise_count` takes |x|, as NumPy does).
    >>> td.popcount(np.array([3, 1, 2]))
    Array([2, 1, 1], dtype=int32)""")  # fmt: skip


@lifting.unary
def bitwise_count(x: Operand) -> Value:
    """How many bits of |x| are 1, as NumPy counts them: 1 of −1, where `popcount` has all bits.

    Parameters
        x: integers.

    Result: an array of the shape of `x`, of uint8; a scalar if it is a number.

    >>> td.bitwise_count(np.array([-1, 3]))
    Array([1, 2], dtype=uint8)
    """
    return cast(popcount(absolute(x)), uint8)


clz = lifting.documented_unary("clz", """
    How many zero bits stand above the highest one bit; all of them for 0.
    >>> td.clz(np.uint8([1, 0]))
    Array([7, 8], dtype=int32)""")  # fmt: skip
ctz = lifting.documented_unary("ctz", """
    How many zero bits stand below the lowest one bit; all of them for 0.
    >>> td.ctz(np.uint8([8, 0]))
    Array([3, 8], dtype=int32)""")  # fmt: skip


@lifting.unary
def square(x: Operand) -> Value:
    """x * x.

    >>> td.square(np.array([3, 1, 2]))
    Array([9, 1, 4])
    """
    return lifting.elementwise("multiply", x, x)


@lifting.unary
def reciprocal(x: Operand) -> Value:
    """1 / x in floating point.

    >>> td.run(td.reciprocal(4.0))
    array(0.25)
    """
    return lifting.elementwise("true_divide", 1, x)


def _scaled(x: Operand, factor: float, name: str) -> Any:
    def build(values: list[Expr]) -> Expr:
        value = simplify.cast(values[0], floating(values[0].type), values[0].weak)
        if value.type.is_complex:
            raise DTypeError(f"{name} is not defined for {value.type}.", hint="Angles are real.")
        return apply_primitive("multiply", [value, Const(factor, float64, True)])

    return lifting.lifted(build, name, (x,))


@lifting.unary
def fabs(x: Operand) -> Value:
    """|x| of real numbers, in floating point.

    Result: an array of the shape of `x`, of integers in the type that `td.sqrt` has for them; a
        scalar if it is a number.

    >>> td.fabs(np.array([-2, 3]))
    Array([2., 3.])
    """

    def build(values: list[Expr]) -> Expr:
        t = values[0].type
        if t.is_complex:
            raise DTypeError(f"fabs takes real numbers, got {t}.", hint="Write td.abs(x).")
        return apply_primitive("absolute", [simplify.cast(values[0], floating(t), values[0].weak)])

    return lifting.lifted(build, "fabs", (x,))


@lifting.unary
def degrees(x: Operand) -> Value:
    """Radians to degrees.

    >>> td.run(td.degrees(np.pi))
    array(180.)
    """
    return _scaled(x, 180.0 / math.pi, "degrees")


@lifting.unary
def radians(x: Operand) -> Value:
    """Degrees to radians.

    >>> td.run(td.radians(180.0))
    array(3.14159265)
    """
    return _scaled(x, math.pi / 180.0, "radians")


deg2rad, rad2deg = radians, degrees


def in_floats(f: Callable[[Any, Any], Any], name: str, x: Operand, y: Operand) -> Any:
    """Apply `f` to two operands in the float type in which NumPy computes."""

    def build(values: list[Expr]) -> Expr:
        both, weak = unify_in_floats(values)
        to = floating(both[0].type)
        return lift(f(*(Scalar(simplify.cast(e, to, weak)) for e in both)), name)

    return lifting.lifted(build, name, (x, y))


def ordered(x: Any, y: Any) -> tuple[Any, Any]:
    """The larger and the smaller one; of equal ones, `x` and `y`, so that a smooth function of the
    two has its derivatives there, too."""
    first = x >= y
    return where(first, x, y), where(first, y, x)


@lifting.binary
def logaddexp(x: Operand, y: Operand) -> Value:
    """log(eˣ + eʸ) without overflow.

    >>> td.run(td.logaddexp(1000.0, 1000.0))
    array(1000.69314718)
    """

    def added(x: Operand, y: Operand) -> Any:
        high, low = ordered(x, y)
        return where((high == low) & isinf(high), high, high + log1p(exp(low - high)))

    return in_floats(added, "logaddexp", x, y)


@lifting.binary
def heaviside(x: Operand, at_zero: Operand) -> Value:
    """0 below zero, 1 above, `at_zero` at zero.

    Parameters
        at_zero: the value at 0.

    >>> td.heaviside(np.array([-1.0, 0.0, 2.0]), 0.5)
    Array([0. , 0.5, 1. ])
    """

    def step(x: Operand, at_zero: Any) -> Any:
        return where(equal(x, 0), at_zero, where(less(x, 0), 0.0, where(isnan(x), x, 1.0)))

    return in_floats(step, "heaviside", x, at_zero)


@lifting.unary
def angle(z: Operand) -> Value:
    """The argument of a complex number, in radians.

    Parameters
        z: complex numbers.

    Result: an array of the shape of `z`; a scalar if it is a number.

    >>> td.angle(np.array([3 + 4j]))
    Array([0.92729522])
    """
    return arctan2(imag(z), real(z))


@lifting.binary
def complex_(re: Operand, im: Operand) -> Value:
    """re + i·im: complex64 from float32 parts, complex128 from float64.

    Parameters
        re: the real parts.
        im: the imaginary parts.

    >>> td.run(td.complex_(1.0, 2.0))
    array(1.+2.j)
    """
    return lifting.elementwise("complex", re, im)


_DECIMALS = "Write td.round(x, 2); for a run-time number: td.round(x * scale) / scale."


@lifting.leading
def round(x: Operand, decimals: int = 0) -> Value:
    """Round half to even, to `decimals` decimal places (a Python int); of a complex number both
    parts.

    Parameters
        decimals: a Python int, the number of decimal places; default 0.

    >>> td.round(np.array([2.675, 2.5]), 1)
    Array([2.7, 2.5])
    """
    decimals = whole_number(decimals, "round", "decimals", _DECIMALS)
    if decimals == 0:
        return rint(x)
    scale = 10.0 ** abs(decimals)

    def rounded(v: Expr) -> Expr:
        if v.type.is_complex:
            parts = [rounded(apply_primitive(part, [v])) for part in ("real", "imag")]
            return apply_primitive("complex", parts)
        if not v.type.is_inexact:
            if decimals > 0:
                return v
            return _to_multiples(v, 10 ** min(-decimals, 20))  # (beyond 64 bits: 0)
        first, second = ("multiply", "true_divide") if decimals > 0 else ("true_divide", "multiply")
        factor = Const(scale, float64, True)
        moved = apply_primitive("rint", [apply_primitive(first, [v, factor])])
        return apply_primitive(second, [moved, factor])

    return lifting.lifted(lambda values: rounded(as_strong(values[0])), "round", (x,))


around = round


def _to_multiples(v: Expr, unit: int) -> Expr:
    """An integer rounded to a multiple of `unit`, half to even; beyond its type it wraps."""
    wide = v.type if v.type.bits == 64 and v.type.is_integer else int64
    if unit > wide.highest:
        return Const(0, v.type)

    def apply(name: str, *operands: Expr) -> Expr:
        return apply_primitive(name, list(operands))

    x, by, half = simplify.cast(v, wide), Const(unit, wide), Const(unit // 2, wide)
    times, rest = apply("floor_divide", x, by), apply("remainder", x, by)
    odd = apply("not_equal", apply("bitwise_and", times, Const(1, wide)), Const(0, wide))
    tie = apply("logical_and", apply("equal", rest, half), odd)
    up = simplify.cast(apply("logical_or", apply("greater", rest, half), tie), wide)
    return simplify.cast(apply("multiply", apply("add", times, up), by), v.type)


#: Powers of floats up to this constant are products, which cost far less than a function.
_PRODUCTS = 8


@lifting.binary
def power(x: Operand, y: Operand) -> Value:
    """x ** y; constant integer powers up to 8 are products, −1 to −8 their inverses, 0.5 a root.

    Integers wrap.  A negative exponent of integers raises an ExponentError if it is known at trace
    time.  For a run-time exponent, the power is the truncated inverse: 1 for 1, ±1 for −1, and 0
    for all other bases, including 0.

    >>> td.power(np.array([3, 1, 2]), 2)
    Array([9, 1, 4])
    """
    if isinstance(y, int | float) and not isinstance(y, bool):

        def build(values: list[Expr]) -> Expr:
            base = values[0]
            inexact = base.type.is_inexact
            if isinstance(y, np.generic) and inexact:  # it has a type of its own
                base = simplify.cast(base, promote(base.type, False, as_type(y.dtype), False)[0])
            if y == 0.5 and inexact:
                return apply_primitive("sqrt", [base])
            if isinstance(y, float) and not inexact:
                return apply_primitive("power", [base, lift(y)])
            limit = _PRODUCTS if inexact else 64
            if float(y).is_integer() and 0 < y <= limit and base.type.family != "bool":
                return _repeated(base, int(y))
            if float(y).is_integer() and -_PRODUCTS <= y < 0 and inexact:
                return apply_primitive("true_divide", [lift(1), _repeated(base, int(-y))])
            return apply_primitive("power", [base, lift(y)])

        return lifting.lifted(build, "power", (x,))
    return lifting.elementwise("power", x, y)


pow = power


def _repeated(base: Expr, n: int) -> Expr:
    """Exponentiation by squaring."""
    result: Expr | None = None
    factor = base
    while n:
        if n & 1:
            result = factor if result is None else apply_primitive("multiply", [result, factor])
        n >>= 1
        if n:
            factor = apply_primitive("multiply", [factor, factor])
    assert result is not None
    return result


@lifting.leading
def cast(x: Operand, dtype: DTypeLike) -> Value:
    """Convert to `dtype`: integers wrap; float to integer saturates, and NaN gives 0.

    >>> td.cast(np.array([3.9, 300.0, -1.0]), td.uint8)
    Array([  3, 255,   0], dtype=uint8)
    """
    target = as_type(dtype)

    def build(values: list[Expr]) -> Expr:
        value = as_strong(values[0])
        return as_truth(value) if target.family == "bool" else simplify.cast(value, target)

    if isinstance(x, Array):
        require_scalars(x, "cast")
    return lifting.lifted(build, "cast", (x,))


@lifting.leading
def clip(x: Operand, min: Operand | None = None, max: Operand | None = None) -> Value:
    """x clamped to [min, max]; either bound may be None.

    Parameters
        min: the least result; optional.
        max: the greatest result; optional.

    >>> td.clip(np.array([3, 1, 2]), 2, None)
    Array([3, 2, 2])
    """
    if min is not None:
        x = _limited("maximum", x, min)
    if max is not None:
        x = _limited("minimum", x, max)
    clipped: Any = x
    return clipped


def _limited(name: str, x: Operand, bound: Any) -> Any:
    """`maximum` or `minimum` with a bound; a bound outside the range of x's type has no effect."""

    def build(values: list[Expr]) -> Expr:
        e, limit = values
        if limit.weak and limit.type.is_integer and e.type.is_integer and not e.weak:
            last = e.type.lowest if name == "maximum" else min(e.type.highest, int64.highest)
            limit = simplify.apply(TABLE[name], (limit, Const(last, int64)), int64, True)
        return apply_primitive(name, [e, limit])

    return lifting.lifted(build, name, (x, bound))


@lifting.leading
def isclose(
    a: Operand, b: Operand, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Value:
    """|a − b| ≤ atol + rtol·|b|, or a = b.

    >>> x = np.array([0.0, 0.5, 1.0])
    >>> td.isclose(x, x + 1e-09)
    Array([ True,  True,  True])
    """
    near = _as_inexact(b)
    close = less_equal(absolute(subtract(a, near)), add(atol, multiply(rtol, absolute(near))))
    found = logical_or(logical_and(close, isfinite(near)), equal(a, near))
    if not equal_nan:
        return found
    return logical_or(found, logical_and(not_equal(a, a), not_equal(near, near)))


def _as_inexact(x: Operand) -> Any:
    """Integers converted to float64, where differences do not overflow."""

    def build(values: list[Expr]) -> Expr:
        (e,) = values
        return e if e.type.is_inexact else simplify.cast(e, float64, e.weak)

    return lifting.lifted(build, "isclose", (x,))


__all__ = ["abs", "absolute", "acos", "acosh", "add", "angle", "arccos", "arccosh", "arcsin",
           "arcsinh", "arctan", "arctan2", "arctanh", "around", "asin", "asinh", "atan", "atan2",
           "atanh", "bitwise_and", "bitwise_count", "bitwise_invert", "bitwise_left_shift",
           "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "cast", "cbrt",
           "ceil", "clip", "clz", "complex_", "conj", "conjugate", "copysign", "cos", "cosh", "ctz",
           "deg2rad", "degrees", "divide", "equal", "erf", "erfc", "exp", "exp2", "expm1", "fabs",
           "floor", "floor_divide", "fmax", "fmin", "fmod", "greater", "greater_equal", "heaviside",
           "hypot", "imag", "invert", "isclose", "isfinite", "isinf", "isnan", "left_shift", "less",
           "less_equal", "log", "log10", "log1p", "log2", "logaddexp", "logical_and", "logical_not",
           "logical_or", "logical_xor", "maximum", "minimum", "mod", "multiply", "negative",
           "nextafter", "not_equal", "popcount", "pow", "power", "quot", "rad2deg", "radians",
           "real", "reciprocal", "rem", "remainder", "right_shift", "rint", "round", "sign",
           "signbit", "sin", "sinh", "sqrt", "square", "subtract", "tan", "tanh", "true_divide",
           "trunc", "where"]  # fmt: skip


def _refusing(name: str, method: str) -> Callable[..., NoReturn]:
    def refuse(*_: object, **named: object) -> NoReturn:
        raise TracingError(f"{name} has no {method!r}.", hint=of_ufunc(name, method))

    return refuse


def label(module: dict[str, Any]) -> None:
    """Add `name=` and `schedule=` to every public function of a module, as all operations have,
    and to those that NumPy has, its methods, which say what is written instead."""
    wrapped: dict[int, Any] = {}
    for name in module["__all__"]:
        function = module[name]
        if id(function) not in wrapped:
            function.__module__ = module["__name__"]  # where pickles find it
            numbers = function.__name__ in TABLE and function is not power
            made = wrapped[id(function)] = (operation_of_numbers if numbers else operation)(
                function
            )
            if isinstance(getattr(np, name, None), np.ufunc):
                for method in ("at", *UFUNC_METHODS):
                    setattr(made, method, _refusing(name, method))
        module[name] = wrapped[id(function)]


label(globals())


later.offer(
    cast=cast,
    clip=clip,
    elementwise=lifting.elementwise,
    functions=sys.modules[__name__],
    power=power,
    round=round,
)
