"""Primitives on integers and bools: wrapping arithmetic, total division and shifts."""

from __future__ import annotations

from typing import Any

from treadle.dsl.types import ScalarType

from .lanes import Lanes
from .text import Code, Reg

_COMPARE = {
    "equal": "eq", "not_equal": "ne", "less": "lt", "less_equal": "le", "greater": "gt",
    "greater_equal": "ge",
}  # fmt: skip
_BOOLEAN = {
    "add": "or", "logical_or": "or", "bitwise_or": "or", "maximum": "or", "fmax": "or",
    "multiply": "and", "logical_and": "and", "bitwise_and": "and", "minimum": "and", "fmin": "and",
    "logical_xor": "xor", "bitwise_xor": "xor", "not_equal": "xor",
}  # fmt: skip
_PLAIN = {
    "add": "add", "subtract": "sub", "multiply": "mul", "bitwise_and": "and", "bitwise_or": "or",
    "bitwise_xor": "xor",
}  # fmt: skip
_SAME = ("floor", "ceil", "trunc", "rint", "conjugate", "real")


def predicate(name: str, signed: bool) -> str:
    """The icmp predicate of a comparison."""
    word = _COMPARE[name]
    return word if word in ("eq", "ne") else ("s" if signed else "u") + word


def apply_bool(v: Lanes, name: str, args: list[Reg]) -> Reg:
    """A primitive on bools (i1)."""
    if name in _BOOLEAN:
        return v.op(_BOOLEAN[name], "i1", args[0], args[1])
    if name in ("logical_not", "invert"):
        return v.inverse(args[0])
    if name in _COMPARE:
        return v.compare(predicate(name, False), "i1", args[0], args[1])
    if name in ("isnan", "isinf", "signbit", "imag"):
        return v.lit("i1", 0)
    if name == "isfinite":
        return v.lit("i1", 1)
    if name in ("absolute", *_SAME):
        return args[0]
    raise AssertionError(f"{name} on bool")


def apply_integer(v: Lanes, name: str, t: ScalarType, args: list[Reg], consts: list[Any]) -> Reg:
    """A primitive on integers of type `t`; `consts` holds the numbers of literal arguments.

    Comparisons give i1, bit counts i32, everything else `t`.
    """
    e = f"i{t.bits}"
    a = args[0]
    b = args[1] if len(args) > 1 else ""
    match name:
        case _ if name in _PLAIN:
            return v.op(_PLAIN[name], e, a, b)
        case _ if name in _COMPARE:
            return v.compare(predicate(name, t.signed), e, a, b)
        case "minimum" | "fmin":
            return v.call("smin" if t.signed else "umin", e, a, b)
        case "maximum" | "fmax":
            return v.call("smax" if t.signed else "umax", e, a, b)
        case "floor_divide" | "remainder" | "quot" | "rem" | "fmod":
            return _divide(v, name, t, a, b, consts[1])
        case "reciprocal_divide":
            wide = [v.convert("zext", e, "i64", x) for x in args]
            product = v.op("mul nuw", "i64", wide[0], wide[1])
            shift = v.op("add", "i64", wide[2], v.lit("i64", 31))
            return v.convert("trunc", "i64", e, v.op("lshr", "i64", product, shift))
        case "negative":
            return v.negate(e, a)
        case "invert":
            return v.op("xor", e, a, v.lit(e, -1))
        case "absolute":
            return v.call_immediate("abs", e, a, False) if t.signed else a
        case "sign":
            positive = v.convert("zext", "i1", e, v.compare("ne", e, a, v.lit(e, 0)))
            if not t.signed:
                return positive
            return v.op("or", e, v.op("ashr", e, a, v.lit(e, t.bits - 1)), positive)
        case "fma":
            return v.op("add", e, v.op("mul", e, a, b), args[2])
        case "power":
            return _power(v, t, a, b, consts[1])
        case "left_shift" | "right_shift":
            return _shift(v, name, t, a, b, consts[1])
        case "popcount":
            return _to_int32(v, e, v.call("ctpop", e, a))
        case "clz":
            return _to_int32(v, e, v.call_immediate("ctlz", e, a, False))
        case "ctz":
            return _to_int32(v, e, v.call_immediate("cttz", e, a, False))
        case "isnan" | "isinf":
            return v.lit("i1", 0)
        case "isfinite":
            return v.lit("i1", 1)
        case "signbit":
            return v.compare("slt", e, a, v.lit(e, 0)) if t.signed else v.lit("i1", 0)
        case "imag":
            return v.lit(e, 0)
        case _ if name in _SAME:
            return a
    raise AssertionError(f"{name} on {t}")


def _to_int32(v: Lanes, e: str, a: Reg) -> Reg:
    if e == "i32":
        return a
    return v.convert("trunc" if e == "i64" else "zext", e, "i32", a)


def _shift(v: Lanes, name: str, t: ScalarType, a: Reg, b: Reg, amount: Any) -> Reg:
    """Shifts by the width or more, or by less than nothing, give 0, or the sign to the right."""
    e = f"i{t.bits}"
    left = name == "left_shift"
    how = "shl" if left else "ashr" if t.signed else "lshr"
    if amount is not None and 0 <= int(amount) < t.bits:
        return v.op(how, e, a, b)
    top = v.lit(e, t.bits - 1)
    if how == "ashr":
        return v.op(how, e, a, v.call("umin", e, b, top))
    inside = v.compare("ult", e, b, v.lit(e, t.bits))
    shifted = v.op(how, e, a, v.call("umin", e, b, top))
    return v.select(e, inside, shifted, v.lit(e, 0))


def _divide(v: Lanes, name: str, t: ScalarType, a: Reg, b: Reg, divisor: Any) -> Reg:
    """Quotients and remainders, floored or truncated; by zero 0, the lowest by −1 wraps."""
    e = f"i{t.bits}"
    floored = name in ("floor_divide", "remainder") and t.signed
    want_quotient = name in ("floor_divide", "quot")
    if divisor is not None:
        d = int(divisor)
        if d == 0:
            return v.lit(e, 0)
        if d == -1:
            return v.negate(e, a) if want_quotient else v.lit(e, 0)
        if floored and d > 0 and d & (d - 1) == 0:
            if want_quotient:
                return v.op("ashr", e, a, v.lit(e, d.bit_length() - 1))
            return v.op("and", e, a, v.lit(e, d - 1))
        quotient = _truncated(v, t, a, b, constant=True)
        zero = None
    else:
        zero = v.compare("eq", e, b, v.lit(e, 0))
        unsafe = zero
        if t.signed:
            minus = v.compare("eq", e, b, v.lit(e, -1))
            unsafe = v.either(zero, minus)
        safe = v.select(e, unsafe, v.lit(e, 1), b)
        quotient = _truncated(v, t, a, safe, constant=False)
        if t.signed:
            quotient = v.select(e, minus, v.negate(e, a), quotient)
    if floored or not want_quotient:
        rest = v.op("sub", e, a, v.op("mul", e, quotient, b))
    if floored:
        wrong = v.both(
            v.compare("ne", e, rest, v.lit(e, 0)),
            v.compare("slt", e, v.op("xor", e, rest, b), v.lit(e, 0)),
        )
        if want_quotient:
            down = v.op("sub", e, quotient, v.lit(e, 1))
            quotient = v.select(e, wrong, down, quotient)
        else:
            rest = v.select(e, wrong, v.op("add", e, rest, b), rest)
    result = quotient if want_quotient else rest
    return result if zero is None else v.select(e, zero, v.lit(e, 0), result)


def _truncated(v: Lanes, t: ScalarType, a: Reg, b: Reg, constant: bool) -> Reg:
    """a / b towards zero for b not 0 nor −1.

    Vectors of up to 32 bits divide as float numbers: 24 bits decide quotients of 8- and 16-bit
    numbers, 53 bits those of 32-bit ones (a quotient that is no integer is at least 1/|b| away).
    """
    e = f"i{t.bits}"
    if v.lanes and t.bits == 64 and v.code.module.vector_bytes == 64:
        return _truncated_long(v, t, a, b)
    if v.lanes == 0 or t.bits == 64 or constant:
        return v.op("sdiv" if t.signed else "udiv", e, a, b)
    f = "double" if t.bits == 32 else "float"
    to_float, to_int = ("sitofp", "fptosi") if t.signed else ("uitofp", "fptoui")
    x, y = v.convert(to_float, e, f, a), v.convert(to_float, e, f, b)
    ratio = v.code.emit(f"fdiv {v.type(f)} {x}, {y}")
    if t.bits < 32:  # through i32: direct conversions to short integers are slow
        return v.convert("trunc", "i32", e, v.convert(to_int, f, "i32", ratio))
    return v.convert(to_int, f, e, ratio)


def _truncated_long(v: Lanes, t: ScalarType, a: Reg, b: Reg) -> Reg:
    """64-bit quotients: as float64 numbers when all are below 2^51 (by the same argument, 53 bits
    decide those), else one by one.  A helper function; AVX-512 has the conversions."""
    name = f"treadle.{'s' if t.signed else 'u'}div.{v.lanes}"
    type_ = v.type("i64")
    module = v.code.module
    if name not in module.helpers:
        module.helpers.add(name)
        code = Code(module)
        w = Lanes(code, v.lanes)
        if t.signed:
            half, span = w.lit("i64", 1 << 51), w.lit("i64", 1 << 52)
            fits = [
                w.compare("ult", "i64", w.op("add", "i64", x, half), span) for x in ("%a", "%b")
            ]
        else:
            fits = [w.compare("ult", "i64", x, w.lit("i64", 1 << 51)) for x in ("%a", "%b")]
        slow, fast = code.label("slow"), code.label("fast")
        code.branch(w.any(w.inverse(w.both(*fits))), slow, fast)
        code.start(slow)
        how = "sdiv" if t.signed else "udiv"
        code.do(f"ret {type_} {w.op(how, 'i64', '%a', '%b')}")
        code.start(fast)
        x, y = (w.convert("sitofp", "i64", "double", r) for r in ("%a", "%b"))
        ratio = w.op("fdiv", "double", x, y)
        code.do(f"ret {type_} {w.convert('fptosi', 'double', 'i64', ratio)}")
        head = f"define internal {type_} @{name}({type_} %a, {type_} %b) #2"
        module.functions.append(code.finish(head))
    return v.code.emit(f"call {type_} @{name}({type_} {a}, {type_} {b})")


def _power(v: Lanes, t: ScalarType, a: Reg, b: Reg, exponent: Any) -> Reg:
    """Wrapping powers by squaring; to a negative power only ±1 are not 0."""
    e = f"i{t.bits}"
    if exponent is not None and 0 <= int(exponent) <= 64:
        return power_of(v, e, "mul", a, int(exponent), v.lit(e, 1))
    negative = v.compare("slt", e, b, v.lit(e, 0)) if t.signed else None
    count = v.select(e, negative, v.lit(e, 0), b) if negative else b
    code, type_ = v.code, v.type(e)
    before, loop, done = code.block, code.label("power"), code.label("powered")
    code.jump(loop)
    code.start(loop)
    result, at_result = code.phi(type_, v.lit(e, 1), before)
    square, at_square = code.phi(type_, a, before)
    left, at_left = code.phi(type_, count, before)
    odd = v.compare("ne", e, v.op("and", e, left, v.lit(e, 1)), v.lit(e, 0))
    next_result = v.select(e, odd, v.op("mul", e, result, square), result)
    next_square = v.op("mul", e, square, square)
    next_left = v.op("lshr", e, left, v.lit(e, 1))
    code.complete(at_result, next_result, loop)
    code.complete(at_square, next_square, loop)
    code.complete(at_left, next_left, loop)
    more = v.compare("ne", e, next_left, v.lit(e, 0))
    code.branch(v.any(more), loop, done)
    code.start(done)
    if negative is None:
        return next_result
    odd_power = v.compare("ne", e, v.op("and", e, b, v.lit(e, 1)), v.lit(e, 0))
    sign = v.select(e, odd_power, v.lit(e, -1), v.lit(e, 1))
    minus = v.select(e, v.compare("eq", e, a, v.lit(e, -1)), sign, v.lit(e, 0))
    unit = v.select(e, v.compare("eq", e, a, v.lit(e, 1)), v.lit(e, 1), minus)
    return v.select(e, negative, unit, next_result)


def power_of(v: Lanes, e: str, multiply: str, a: Reg, exponent: int, one: Reg) -> Reg:
    """a^exponent for a known exponent ≥ 0."""
    result = ""
    square = a
    while exponent:
        if exponent & 1:
            result = v.op(multiply, e, result, square) if result else square
        exponent >>= 1
        if exponent:
            square = v.op(multiply, e, square, square)
    return result or one
