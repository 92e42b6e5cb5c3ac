"""Primitives on complex numbers, as pairs of real registers.

Transcendental functions of complex64 are computed in float64 and rounded; those of complex128
follow W. Kahan, "Branch cuts for complex elementary functions" (1987), whose formulas have no
cancellation and keep the sign of zero on branch cuts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from treadle.dsl.types import ScalarType

from . import mathlib
from .floats import sign
from .lanes import Lanes
from .target import Target
from .text import Reg
from .values import register_element

Pair = tuple[Reg, Reg]


class Real:
    """Arithmetic on real registers, short to write."""

    def __init__(self, v: Lanes, target: Target, e: str) -> None:
        self.v, self.target, self.e = v, target, e

    def lit(self, value: float) -> Reg:
        return self.v.lit(self.e, value)

    def add(self, a: Reg, b: Reg) -> Reg:
        return self.v.op("fadd", self.e, a, b)

    def sub(self, a: Reg, b: Reg) -> Reg:
        return self.v.op("fsub", self.e, a, b)

    def mul(self, a: Reg, b: Reg) -> Reg:
        return self.v.op("fmul", self.e, a, b)

    def div(self, a: Reg, b: Reg) -> Reg:
        return self.v.op("fdiv", self.e, a, b)

    def neg(self, a: Reg) -> Reg:
        return self.v.negate(self.e, a)

    def size(self, a: Reg) -> Reg:
        return self.v.call("fabs", self.e, a)

    def with_sign(self, a: Reg, b: Reg) -> Reg:
        return self.v.call("copysign", self.e, a, b)

    def fma(self, a: Reg, b: Reg, c: Reg) -> Reg:
        return self.v.call("fma", self.e, a, b, c)

    def test(self, predicate: str, a: Reg, b: Reg) -> Reg:
        return self.v.compare(predicate, self.e, a, b)

    def pick(self, condition: Reg, a: Reg, b: Reg) -> Reg:
        return self.v.select(self.e, condition, a, b)

    def f(self, name: str, *args: Reg) -> Reg:
        if name == "sqrt":
            return self.v.call("sqrt", self.e, args[0])
        return mathlib.call(self.v.code, self.target, name, self.e, self.v.lanes, list(args))

    def larger(self, a: Reg, b: Reg) -> Reg:
        return self.pick(self.test("olt", a, b), b, a)

    def infinite(self, a: Reg) -> Reg:
        return self.test("oeq", self.size(a), self.lit(math.inf))


def apply_complex(v: Lanes, target: Target, name: str, t: ScalarType,
                  args: list[tuple[Reg, ...]], consts: list[Any]) -> tuple[Reg, ...]:  # fmt: skip
    """A primitive on complex numbers of type `t`: two registers, or one when the result is real."""
    e = register_element(t)
    r = Real(v, target, e)
    pairs: list[Pair] = [(a[0], a[1]) for a in args]
    z = pairs[0]
    simple = _simple(r, name, pairs)
    if simple is not None:
        return simple
    exponent = consts[1] if name == "power" else None
    if exponent is not None and complex(exponent) in (1, 2, 3, 4):
        result = z
        for _ in range(int(complex(exponent).real) - 1):
            result = multiply(r, result, z)
        return result
    if e == "double":
        return _function(r, name, pairs)
    wide = [tuple(v.convert("fpext", "float", "double", p) for p in pair) for pair in pairs]
    result = _function(Real(v, target, "double"), name, [(p[0], p[1]) for p in wide])
    return tuple(v.convert("fptrunc", "double", "float", p) for p in result)


def _simple(r: Real, name: str, pairs: list[Pair]) -> tuple[Reg, ...] | None:
    z = pairs[0]
    w = pairs[1] if len(pairs) > 1 else z
    match name:
        case "add":
            return r.add(z[0], w[0]), r.add(z[1], w[1])
        case "subtract":
            return r.sub(z[0], w[0]), r.sub(z[1], w[1])
        case "multiply":
            return multiply(r, z, w)
        case "true_divide":
            return divide(r, z, w)
        case "fma":
            product = multiply(r, z, w)
            return r.add(product[0], pairs[2][0]), r.add(product[1], pairs[2][1])
        case "negative":
            return r.neg(z[0]), r.neg(z[1])
        case "conjugate":
            return z[0], r.neg(z[1])
        case "real":
            return (z[0],)
        case "imag":
            return (z[1],)
        case "absolute":
            return (r.f("hypot", z[0], z[1]),)
        case "sign":
            return _sign(r, z)
        case "equal":
            return (r.v.both(r.test("oeq", z[0], w[0]), r.test("oeq", z[1], w[1])),)
        case "not_equal":
            return (r.v.either(r.test("une", z[0], w[0]), r.test("une", z[1], w[1])),)
        case "isnan":
            return (r.test("uno", z[0], z[1]),)
        case "isinf":
            return (r.v.either(r.infinite(z[0]), r.infinite(z[1])),)
        case "isfinite":
            tests = [r.test("olt", r.size(p), r.lit(math.inf)) for p in z]
            return (r.v.both(*tests),)
    return None


def multiply(r: Real, z: Pair, w: Pair) -> Pair:
    return (
        r.sub(r.mul(z[0], w[0]), r.mul(z[1], w[1])),
        r.add(r.mul(z[0], w[1]), r.mul(z[1], w[0])),
    )


def divide(r: Real, z: Pair, w: Pair) -> Pair:
    """R. L. Smith's division, as NumPy does it."""
    real_larger = r.test("oge", r.size(w[0]), r.size(w[1]))
    big, small = r.pick(real_larger, w[0], w[1]), r.pick(real_larger, w[1], w[0])
    zero = r.test("oeq", big, r.lit(0.0))
    ratio = r.div(small, big)
    scale = r.div(r.lit(1.0), r.add(big, r.mul(small, ratio)))
    first, second = r.pick(real_larger, z[0], z[1]), r.pick(real_larger, z[1], z[0])
    real = r.mul(r.add(first, r.mul(second, ratio)), scale)
    up, down = r.mul(z[1], ratio), r.mul(z[0], ratio)
    imaginary = r.mul(r.pick(real_larger, r.sub(z[1], down), r.sub(up, z[0])), scale)
    positive = r.size(w[0])
    return (
        r.pick(zero, r.div(z[0], positive), real),
        r.pick(zero, r.div(z[1], positive), imaginary),
    )


def _sign(r: Real, z: Pair) -> Pair:
    size = r.f("hypot", z[0], z[1])
    endless = r.test("oeq", size, r.lit(math.inf))
    nothing = r.test("oeq", size, r.lit(0.0))
    both = r.v.both(r.infinite(z[0]), r.infinite(z[1]))
    parts = []
    for p in z:
        unit = r.pick(r.infinite(p), sign(r.v, r.e, p), r.lit(0.0))
        unit = r.pick(both, r.lit(math.nan), unit)
        part = r.pick(endless, unit, r.div(p, size))
        part = r.pick(nothing, r.lit(0.0), part)
        parts.append(r.pick(r.test("uno", size, size), r.lit(math.nan), part))
    return parts[0], parts[1]


# --- elementary functions (float64 parts) -----------------------------------------------------


def times_i(r: Real, z: Pair) -> Pair:
    return r.neg(z[1]), z[0]


def over_i(r: Real, z: Pair) -> Pair:
    return z[1], r.neg(z[0])


def exp(r: Real, z: Pair) -> Pair:
    """e^x (cos y + i sin y); beyond e^709 in two factors, since cos y may bring it back."""
    x, y = z
    large = r.test("ogt", x, r.lit(709.0))
    size = r.f("exp", r.sub(x, r.pick(large, r.lit(709.0), r.lit(0.0))))
    factor = r.pick(large, r.lit(math.exp(709.0)), r.lit(1.0))
    vanished = r.test("oeq", size, r.lit(0.0))
    real = r.mul(r.mul(size, r.f("cos", y)), factor)
    imaginary = r.mul(r.mul(size, r.f("sin", y)), factor)
    real = r.pick(vanished, r.lit(0.0), real)
    imaginary = r.pick(vanished, r.lit(0.0), imaginary)
    return real, r.pick(r.test("oeq", y, r.lit(0.0)), y, imaginary)


def _log_size(r: Real, x: Reg, y: Reg) -> Reg:
    """log |x + iy|, accurate also where |x + iy| is close to 1."""
    a, b = r.size(x), r.size(y)
    swap = r.test("olt", a, b)
    a, b = r.pick(swap, b, a), r.pick(swap, a, b)
    square, other = r.mul(a, a), r.mul(b, b)
    rest, other_rest = r.fma(a, a, r.neg(square)), r.fma(b, b, r.neg(other))
    above = r.sub(square, r.lit(1.0))
    total = r.add(above, other)
    back = r.sub(total, above)
    lost = r.add(r.sub(above, r.sub(total, back)), r.sub(other, back))
    excess = r.add(total, r.add(lost, r.add(rest, other_rest)))
    near = r.mul(r.lit(0.5), r.f("log1p", excess))
    huge = r.test("ogt", a, r.lit(1e300))
    scale = r.pick(huge, r.lit(0.25), r.lit(1.0))
    far = r.f("log", r.f("hypot", r.mul(a, scale), r.mul(b, scale)))
    far = r.add(far, r.pick(huge, r.lit(math.log(4.0)), r.lit(0.0)))
    close = r.v.both(r.test("ogt", a, r.lit(0.6)), r.test("olt", r.add(a, b), r.lit(1.75)))
    return r.pick(close, near, far)


def log(r: Real, z: Pair) -> Pair:
    return _log_size(r, z[0], z[1]), r.f("arctan2", z[1], z[0])


def sqrt(r: Real, z: Pair) -> Pair:
    x, y = z
    largest = r.larger(r.size(x), r.size(y))
    huge = r.test("ogt", largest, r.lit(1e300))
    tiny = r.test("olt", largest, r.lit(1e-290))
    scale = r.pick(huge, r.lit(0.25), r.pick(tiny, r.lit(2.0**108), r.lit(1.0)))
    undo = r.pick(huge, r.lit(2.0), r.pick(tiny, r.lit(2.0**-54), r.lit(1.0)))
    u, w = r.mul(x, scale), r.mul(y, scale)
    half = r.mul(r.lit(0.5), r.add(r.f("hypot", u, w), r.size(u)))
    root = r.f("sqrt", half)
    other = r.div(w, r.mul(r.lit(2.0), root))
    root, other = r.mul(root, undo), r.mul(other, undo)
    left = r.test("olt", x, r.lit(0.0))
    real = r.pick(left, r.size(other), root)
    imaginary = r.pick(left, r.with_sign(root, y), other)
    nothing = r.test("oeq", largest, r.lit(0.0))
    endless = r.infinite(y)
    real = r.pick(nothing, r.lit(0.0), r.pick(endless, r.lit(math.inf), real))
    return real, r.pick(r.v.either(nothing, endless), y, imaginary)


def power(r: Real, z: Pair, w: Pair) -> Pair:
    """exp(w log z); 0 to a power is 1, 0 or NaN."""
    result = exp(r, multiply(r, w, log(r, z)))
    zero = r.lit(0.0)
    no_base = r.v.both(r.test("oeq", z[0], zero), r.test("oeq", z[1], zero))
    no_exponent = r.v.both(r.test("oeq", w[0], zero), r.test("oeq", w[1], zero))
    shrinks = r.test("ogt", w[0], zero)
    of_zero = r.pick(shrinks, zero, r.lit(math.nan))
    real = r.pick(no_exponent, r.lit(1.0), r.pick(no_base, of_zero, result[0]))
    return real, r.pick(no_exponent, zero, r.pick(no_base, of_zero, result[1]))


def sinh(r: Real, z: Pair) -> Pair:
    x, y = z
    real = r.mul(r.f("sinh", x), r.f("cos", y))
    imaginary = r.mul(r.f("cosh", x), r.f("sin", y))
    zero = r.lit(0.0)
    return (
        r.pick(r.test("oeq", x, zero), x, real),
        r.pick(r.test("oeq", y, zero), y, imaginary),
    )


def cosh(r: Real, z: Pair) -> Pair:
    x, y = z
    real = r.mul(r.f("cosh", x), r.f("cos", y))
    imaginary = r.mul(r.f("sinh", x), r.f("sin", y))
    zero = r.lit(0.0)
    either = r.v.either(r.test("oeq", x, zero), r.test("oeq", y, zero))
    quiet = r.with_sign(zero, r.mul(r.with_sign(r.lit(1.0), x), r.with_sign(r.lit(1.0), y)))
    return real, r.pick(either, quiet, imaginary)


def tanh(r: Real, z: Pair) -> Pair:
    x, y = z
    one = r.lit(1.0)
    tangent = r.f("tan", y)
    beta = r.add(one, r.mul(tangent, tangent))
    s = r.f("sinh", x)
    rho = r.f("sqrt", r.add(one, r.mul(s, s)))
    below = r.add(one, r.mul(beta, r.mul(s, s)))
    real = r.div(r.mul(r.mul(beta, rho), s), below)
    imaginary = r.div(tangent, below)
    large = r.test("ogt", r.size(x), r.lit(22.0))
    small = r.f("exp", r.mul(r.lit(-2.0), r.size(x)))
    cross = r.mul(r.mul(r.lit(4.0), r.f("sin", y)), r.mul(r.f("cos", y), small))
    still = r.test("oeq", y, r.lit(0.0))
    cross = r.pick(still, y, cross)
    return r.pick(large, r.with_sign(one, x), real), r.pick(large, cross, imaginary)


def _around_one(r: Real, z: Pair) -> tuple[Pair, Pair]:
    """sqrt(1 − z), sqrt(1 + z)."""
    one = r.lit(1.0)
    return (
        sqrt(r, (r.sub(one, z[0]), r.neg(z[1]))),
        sqrt(r, (r.add(one, z[0]), z[1])),
    )


def arcsin(r: Real, z: Pair) -> Pair:
    less, more = _around_one(r, z)
    below = r.sub(r.mul(less[0], more[0]), r.mul(less[1], more[1]))
    across = r.sub(r.mul(less[0], more[1]), r.mul(less[1], more[0]))
    return r.f("arctan2", z[0], below), r.f("arcsinh", across)


def arccos(r: Real, z: Pair) -> Pair:
    less, more = _around_one(r, z)
    across = r.sub(r.mul(more[0], less[1]), r.mul(more[1], less[0]))
    angle = r.mul(r.lit(2.0), r.f("arctan2", less[0], more[0]))
    return angle, r.f("arcsinh", across)


def arccosh(r: Real, z: Pair) -> Pair:
    one = r.lit(1.0)
    less, more = sqrt(r, (r.sub(z[0], one), z[1])), sqrt(r, (r.add(z[0], one), z[1]))
    along = r.add(r.mul(less[0], more[0]), r.mul(less[1], more[1]))
    return r.f("arcsinh", along), r.mul(r.lit(2.0), r.f("arctan2", less[1], more[0]))


def arctanh(r: Real, z: Pair) -> Pair:
    one, x, y = r.lit(1.0), r.size(z[0]), z[1]
    gap = r.sub(one, x)
    below = r.add(r.mul(gap, gap), r.mul(y, y))
    real = r.mul(r.lit(0.25), r.f("log1p", r.div(r.mul(r.lit(4.0), x), below)))
    along = r.sub(r.mul(gap, r.add(one, x)), r.mul(y, y))
    turned = r.f("arctan2", r.mul(r.lit(2.0), y), along)
    imaginary = r.mul(r.lit(0.5), turned)
    far = r.test("ogt", r.larger(x, r.size(y)), r.lit(1e150))
    size = r.f("hypot", x, y)
    small = r.div(r.div(x, size), size)
    small = r.pick(r.test("oeq", size, r.lit(math.inf)), r.lit(0.0), small)
    real = r.pick(far, small, real)
    imaginary = r.pick(far, r.with_sign(r.lit(math.pi / 2), y), imaginary)
    return r.with_sign(real, z[0]), imaginary


def expm1(r: Real, z: Pair) -> Pair:
    x, y = z
    half = r.f("sin", r.mul(r.lit(0.5), y))
    bent = r.mul(r.lit(2.0), r.mul(half, half))
    real = r.sub(r.mul(r.f("expm1", x), r.f("cos", y)), bent)
    return real, r.mul(r.f("exp", x), r.f("sin", y))


def log1p(r: Real, z: Pair) -> Pair:
    x, y = z
    moved = r.add(x, r.lit(1.0))
    small = r.test("olt", r.larger(r.size(x), r.size(y)), r.lit(0.25))
    excess = r.add(r.mul(x, r.add(r.lit(2.0), x)), r.mul(y, y))
    near = r.mul(r.lit(0.5), r.f("log1p", excess))
    real = r.pick(small, near, _log_size(r, moved, y))
    return real, r.f("arctan2", y, moved)


def _scaled(factor: float, inner: Callable[[Real, Pair], Pair], before: bool
            ) -> Callable[[Real, Pair], Pair]:  # fmt: skip
    def run(r: Real, z: Pair) -> Pair:
        if before:
            return inner(r, (r.mul(z[0], r.lit(factor)), r.mul(z[1], r.lit(factor))))
        result = inner(r, z)
        return r.mul(result[0], r.lit(factor)), r.mul(result[1], r.lit(factor))

    return run


def _turned(inner: Callable[[Real, Pair], Pair]) -> Callable[[Real, Pair], Pair]:
    """−i f(iz)"""
    return lambda r, z: over_i(r, inner(r, times_i(r, z)))


_FUNCTIONS: dict[str, Callable[[Real, Pair], Pair]] = {
    "exp": exp, "log": log, "sqrt": sqrt, "sinh": sinh, "cosh": cosh, "tanh": tanh,
    "arcsin": arcsin, "arccos": arccos, "arccosh": arccosh, "arctanh": arctanh, "expm1": expm1,
    "log1p": log1p, "sin": _turned(sinh), "cos": lambda r, z: cosh(r, times_i(r, z)),
    "tan": _turned(tanh), "arcsinh": _turned(arcsin), "arctan": _turned(arctanh),
    "exp2": _scaled(math.log(2.0), exp, True), "log2": _scaled(1 / math.log(2.0), log, False),
    "log10": _scaled(1 / math.log(10.0), log, False),
}  # fmt: skip


def _function(r: Real, name: str, pairs: list[Pair]) -> Pair:
    if name == "power":
        return power(r, pairs[0], pairs[1])
    return _FUNCTIONS[name](r, pairs[0])
