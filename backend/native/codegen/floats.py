"""Primitives on real floating-point numbers.

float16 and bfloat16 compute in float32 and round after every operation; +, −, ×, ÷ and the square
root are then correctly rounded, because 24 ≥ 2·11 + 2.
"""

from __future__ import annotations

import math
from typing import Any

from treadle.dsl.types import ScalarType

from . import mathlib
from .integers import power_of
from .lanes import BITS, INTEGER_OF, Lanes
from .target import Target
from .text import Reg

_COMPARE = {
    "equal": "oeq", "not_equal": "une", "less": "olt", "less_equal": "ole", "greater": "ogt",
    "greater_equal": "oge",
}  # fmt: skip
_PLAIN = {"add": "fadd", "subtract": "fsub", "multiply": "fmul", "true_divide": "fdiv"}
_ROUNDINGS = {"floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "roundeven"}
#: Results that every narrower type of the arguments represents: no rounding after them.
EXACT = frozenset(
    ("minimum", "maximum", "fmin", "fmax", "negative", "absolute", "sign", "copysign", "floor",
     "ceil", "trunc", "rint", "conjugate", "real", "imag", "nextafter", "rem", "fmod")
)  # fmt: skip


def round_to(v: Lanes, t: ScalarType, a: Reg) -> Reg:
    """A float32 register rounded to half-precision type `t`; other types as they are."""
    if t.name == "float16":
        return v.convert("fpext", "half", "float", v.convert("fptrunc", "float", "half", a))
    if t.name == "bfloat16":
        bits = v.bits("float", a)
        odd = v.op("and", "i32", v.op("lshr", "i32", bits, v.lit("i32", 16)), v.lit("i32", 1))
        up = v.op("add", "i32", v.op("add", "i32", bits, v.lit("i32", 0x7FFF)), odd)
        nan = v.compare("uno", "float", a, a)
        kept = v.select("i32", nan, v.op("or", "i32", bits, v.lit("i32", 0x400000)), up)
        return v.from_bits("float", v.op("and", "i32", kept, v.lit("i32", -65536)))
    return a


def apply_float(v: Lanes, target: Target, name: str, t: ScalarType, args: list[Reg],
                consts: list[Any]) -> Reg:  # fmt: skip
    """A primitive on floats of type `t`.  Comparisons and tests give i1, everything else `t`."""
    e = "double" if t.bits == 64 else "float"
    if name in _COMPARE:
        return v.compare(_COMPARE[name], e, args[0], args[1])
    if name in ("isnan", "isinf", "isfinite", "signbit"):
        return _test(v, name, e, args[0])
    if name == "nextafter":
        return _nextafter(v, t, args[0], args[1])
    result = _compute(v, target, name, e, args, consts)
    return result if name in EXACT else round_to(v, t, result)


def _test(v: Lanes, name: str, e: str, a: Reg) -> Reg:
    if name == "isnan":
        return v.compare("uno", e, a, a)
    if name == "signbit":
        i = INTEGER_OF[e]
        return v.compare("slt", i, v.bits(e, a), v.lit(i, 0))
    size = v.call("fabs", e, a)
    return v.compare("oeq" if name == "isinf" else "olt", e, size, v.lit(e, math.inf))


def _compute(v: Lanes, target: Target, name: str, e: str, args: list[Reg],
             consts: list[Any]) -> Reg:  # fmt: skip
    a = args[0]
    b = args[1] if len(args) > 1 else ""
    match name:
        case _ if name in _PLAIN:
            return v.op(_PLAIN[name], e, a, b)
        case _ if name in _ROUNDINGS:
            return v.call(_ROUNDINGS[name], e, a)
        case "fma":
            return v.call("fma", e, a, b, args[2])
        case "minimum" | "maximum":
            return v.call(name, e, a, b)
        case "fmin" | "fmax":
            return v.call("minimumnum" if name == "fmin" else "maximumnum", e, a, b)
        case "negative":
            return v.negate(e, a)
        case "absolute":
            return v.call("fabs", e, a)
        case "sign":
            return sign(v, e, a)
        case "sqrt":
            return v.call("sqrt", e, a)
        case "copysign":
            return v.call("copysign", e, a, b)
        case "real" | "conjugate":
            return a
        case "imag":
            return v.lit(e, 0.0)
        case "quot":
            return v.call("trunc", e, v.op("fdiv", e, a, b))
        case "rem" | "fmod":
            return mathlib.fmod(v.code, e, v.lanes, a, b)
        case "floor_divide" | "remainder":
            return _divide(v, name, e, a, b)
        case "power" if consts[1] is not None and float(consts[1]) in (1.0, 2.0, 3.0):
            return power_of(v, e, "fmul", a, int(consts[1]), v.lit(e, 1.0))
    return mathlib.call(v.code, target, name, e, v.lanes, args)


def sign(v: Lanes, e: str, a: Reg) -> Reg:
    """−1, 0 or 1; NaN of NaN."""
    zero = v.lit(e, 0.0)
    low = v.select(e, v.compare("olt", e, a, zero), v.lit(e, -1.0), zero)
    high = v.select(e, v.compare("ogt", e, a, zero), v.lit(e, 1.0), low)
    return v.select(e, v.compare("uno", e, a, a), a, high)


def _divide(v: Lanes, name: str, e: str, a: Reg, b: Reg) -> Reg:
    """Floor division and its remainder, as Python and NumPy define them on floats."""
    zero = v.lit(e, 0.0)
    by_zero = v.compare("oeq", e, b, zero)
    rest = mathlib.fmod(v.code, e, v.lanes, a, b)
    some = v.compare("une", e, rest, zero)
    differ = v.op("xor", "i1", v.compare("olt", e, b, zero), v.compare("olt", e, rest, zero))
    wrong = v.both(some, differ)
    if name == "remainder":
        moved = v.select(e, wrong, v.op("fadd", e, rest, b), rest)
        signed = v.select(e, some, moved, v.call("copysign", e, zero, b))
        return v.select(e, by_zero, rest, signed)
    ratio = v.op("fdiv", e, a, b)
    quotient = v.op("fdiv", e, v.op("fsub", e, a, rest), b)
    quotient = v.select(e, wrong, v.op("fsub", e, quotient, v.lit(e, 1.0)), quotient)
    down = v.call("floor", e, quotient)
    far = v.compare("ogt", e, v.op("fsub", e, quotient, down), v.lit(e, 0.5))
    down = v.select(e, far, v.op("fadd", e, down, v.lit(e, 1.0)), down)
    nothing = v.compare("oeq", e, quotient, zero)
    down = v.select(e, nothing, v.call("copysign", e, zero, ratio), down)
    return v.select(e, by_zero, ratio, down)


def _nextafter(v: Lanes, t: ScalarType, a: Reg, b: Reg) -> Reg:
    """The neighbour of `a` towards `b`, by the bits of type `t`."""
    e = "double" if t.bits == 64 else "float"
    i = f"i{t.bits}"
    bits = to_storage(v, t, a)
    bits = v.convert("bitcast", "half", "i16", bits) if t.name == "float16" else bits
    bits = v.bits(e, bits) if BITS[e] == t.bits else bits
    zero = v.lit(e, 0.0)
    up = v.compare("olt", e, a, b)
    positive = v.compare("ogt", e, a, zero)
    grow = v.inverse(v.op("xor", "i1", up, positive))
    moved = v.select(i, grow, v.op("add", i, bits, v.lit(i, 1)), v.op("sub", i, bits, v.lit(i, 1)))
    least = v.select(i, up, v.lit(i, 1), v.lit(i, (1 << (t.bits - 1)) | 1))
    moved = v.select(i, v.compare("oeq", e, a, zero), least, moved)
    if t.name == "float16":
        result = v.convert("fpext", "half", "float", v.convert("bitcast", "i16", "half", moved))
    elif t.name == "bfloat16":
        result = from_storage(v, t, moved)
    else:
        result = v.from_bits(e, moved)
    # Equal arguments give the second, but NumPy's float16 gives the first: −0 and 0 differ.
    equal = a if t.name == "float16" else b
    result = v.select(e, v.compare("oeq", e, a, b), equal, result)
    return v.select(e, v.compare("uno", e, a, b), v.op("fadd", e, a, b), result)


def to_storage(v: Lanes, t: ScalarType, a: Reg) -> Reg:
    """A register as memory holds it (half for float16, i16 for bfloat16, i8 for bool)."""
    if t.name == "float16":
        return v.convert("fptrunc", "float", "half", a)
    if t.name == "bfloat16":
        high = v.op("lshr", "i32", v.bits("float", a), v.lit("i32", 16))
        return v.convert("trunc", "i32", "i16", high)
    if t.kind == "bool":
        return v.convert("zext", "i1", "i8", a)
    return a


def from_storage(v: Lanes, t: ScalarType, a: Reg) -> Reg:
    """The register of a value as memory holds it."""
    if t.name == "float16":
        return v.convert("fpext", "half", "float", a)
    if t.name == "bfloat16":
        wide = v.convert("zext", "i16", "i32", a)
        return v.from_bits("float", v.op("shl", "i32", wide, v.lit("i32", 16)))
    if t.kind == "bool":
        return v.compare("ne", "i8", a, v.lit("i8", 0))
    return a
