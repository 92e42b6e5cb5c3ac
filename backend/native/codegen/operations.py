"""Operations of kernel IR on registers, and decomposed primitives (`skeletons/ir/decompose.py`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from treadle.dsl.expr import Const, Expr
from treadle.dsl.primitives import Primitive
from treadle.dsl.target import NATIVE
from treadle.dsl.types import ScalarType
from treadle.skeletons.ir.decompose import Function, with_constants

from . import mathlib
from .half import from_storage, round_to, to_storage
from .lanes import INTEGER_OF, Lanes, join, slice_lanes
from .target import Target
from .text import Code, Reg, is_number, literal, vector
from .values import register_element

_COMPARE = {
    "equal": "eq", "not_equal": "ne", "less": "lt", "less_equal": "le", "greater": "gt",
    "greater_equal": "ge",
}  # fmt: skip
_SWAPPED = str.maketrans("lg", "gl")
_LOGICAL = {"logical_and": "and", "logical_or": "or", "logical_xor": "xor"}
_INTEGER = {
    "add": "add", "subtract": "sub", "multiply": "mul", "bitwise_and": "and", "bitwise_or": "or",
    "bitwise_xor": "xor", "shift_left": "shl",
}  # fmt: skip
_BITS = {"popcount": "ctpop", "clz": "ctlz", "ctz": "cttz"}
_FLOAT = {"add": "fadd", "subtract": "fsub", "multiply": "fmul", "true_divide": "fdiv"}
_INTRINSICS = {
    "floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "roundeven", "fma": "fma",
    "minimum": "minimum", "maximum": "maximum", "fmin": "minimumnum", "fmax": "maximumnum",
    "absolute": "fabs", "sqrt": "sqrt", "copysign": "copysign",
}  # fmt: skip
#: Operations with a machine instruction.


def operate(v: Lanes, target: Target, op: Primitive, type_: ScalarType,
            types: Sequence[ScalarType], args: Sequence[tuple[Reg, ...]],
            consts: Sequence[Any]) -> tuple[Reg, ...]:  # fmt: skip
    """The registers of a primitive's result of `type_`; `consts` are the values of the operands
    that are literals."""
    function = with_constants(NATIVE, op, type_, types, consts)
    if function is not None:
        return _inlined(v, target, function, args)
    return _operation(v, target, op, type_, types, args, consts)


def _inlined(v: Lanes, target: Target, function: Function,
             args: Sequence[tuple[Reg, ...]]) -> tuple[Reg, ...]:  # fmt: skip
    """The body of a function."""
    registers: dict[Expr, tuple[Reg, ...]] = dict(zip(function.parameters, args, strict=True))
    for e in function.steps:
        if isinstance(e, Const):
            registers[e] = literals(v, e.type, e.value)
    for step in function.plan:
        e = step.operation
        given = [registers[a] for a in e.args]
        if step.function is not None:
            registers[e] = _inlined(v, target, step.function, given)
        else:
            registers[e] = _operation(v, target, e.op, e.type, step.types, given, step.constants)
    return registers[function.result]


def _operation(v: Lanes, target: Target, op: Primitive, type_: ScalarType,
               types: Sequence[ScalarType], args: Sequence[tuple[Reg, ...]],
               consts: Sequence[Any]) -> tuple[Reg, ...]:  # fmt: skip
    """A primitive that is not decomposed."""
    name, t = op.name, types[0]
    if name == "select":
        e = register_element(type_)
        sides = zip(args[1], args[2], strict=True)
        return tuple(v.select(e, args[0][0], yes, no) for yes, no in sides)
    if name == "complex":
        return args[0][0], args[1][0]
    if t.is_complex:
        return (args[0][("real", "imag").index(name)],)
    flat = [a[0] for a in args]
    if name == "cast":
        return (_cast(v, t, type_, flat[0]),)
    if name in _COMPARE:
        return (_compare(v, name, t, flat),)
    if t.family == "bool":
        if name == "logical_not":
            return (v.inverse(flat[0]),)
        return (v.op(_LOGICAL[name], "i1", *flat),)
    if t.is_integer:
        return (_integer(v, name, t, type_, flat, consts),)
    return (_float(v, target, name, t, type_, flat),)


def literals(v: Lanes, t: ScalarType, value: Any) -> tuple[Reg, ...]:
    """The parts of a constant."""
    e = register_element(t)
    if t.is_complex:
        return v.lit(e, float(value.real)), v.lit(e, float(value.imag))
    return (v.lit(e, float(value) if t.is_float else int(value)),)


def _compare(v: Lanes, name: str, t: ScalarType, args: list[Reg]) -> Reg:
    word = _COMPARE[name]
    if t.is_float:
        predicate = "une" if word == "ne" else f"o{word}"
    else:
        predicate = word if word in ("eq", "ne") else ("s" if t.signed else "u") + word
        predicate, args = _usual(predicate, args)
    return v.compare(predicate, register_element(t), *args)


def _usual(predicate: str, args: list[Reg]) -> tuple[str, list[Reg]]:
    """A signed comparison with a literal in LLVM's usual form, whose likely result it knows."""
    a, b = args
    if predicate[0] == "s" and is_number(a) and not is_number(b):
        predicate, a, b = predicate.translate(_SWAPPED), b, a
    if predicate == "sge" and is_number(b) and int(b) == 0:
        return "sgt", [a, "-1"]
    if predicate == "sle" and is_number(b) and int(b) == -1:
        return "slt", [a, "0"]
    return predicate, [a, b]


def _cast(v: Lanes, source: ScalarType, target: ScalarType, a: Reg) -> Reg:
    """Convert a bool, an integer or a float to another type, except a float to an integer."""
    s, e = register_element(source), register_element(target)
    if target.is_integer:
        bits = 1 if source.family == "bool" else source.bits
        if bits == target.bits:
            return a
        how = "trunc" if bits > target.bits else "sext" if source.signed else "zext"
        return v.convert(how, s, e, a)
    if not source.is_float:
        return v.convert("sitofp" if source.signed else "uitofp", s, e, a)
    if s == e:
        return round_to(v, target, a)
    return v.convert("fpext" if e == "double" else "fptrunc", s, e, a)


# --- integers ---------------------------------------------------------------------------------


def _integer(v: Lanes, name: str, t: ScalarType, result: ScalarType, args: list[Reg],
             consts: Sequence[Any]) -> Reg:  # fmt: skip
    """Bit counts give i32, `from_bits` a float, everything else `t`."""
    e = f"i{t.bits}"
    a = args[0]
    if name in _INTEGER:
        return v.op(_INTEGER[name], e, *args)
    if name in _BITS:
        count = _BITS[name]
        how = v.call if count == "ctpop" else v.call_immediate
        found = how(count, e, a, *(() if count == "ctpop" else (False,)))
        return found if t.bits == 32 else v.convert("trunc" if t.bits > 32 else "zext", e, "i32",
                                                    found)  # fmt: skip
    match name:
        case "shift_right":
            return v.op("ashr" if t.signed else "lshr", e, *args)
        case "minimum" | "maximum":
            sign, less = "s" if t.signed else "u", "lt" if name == "minimum" else "gt"
            if v.code.in_order and not v.lanes and not any(map(is_number, args)):
                # LLVM would make a branch of its own minimum.
                hidden = v.code.hidden(e, a)
                return v.select(e, v.compare(sign + less, e, *args), hidden, args[1])
            return v.call(sign + name[:3], e, *args)
        case "divide" | "modulo":
            quotient = _divide(v, t, a, args[1], consts[1] is not None)
            if name == "divide":
                return quotient
            return v.op("sub", e, a, v.op("mul", e, quotient, args[1]))
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
            return v.call_immediate("abs", e, a, False)
        case "natural_power":
            return _natural_power(v, e, *args)
        case "from_bits":
            if result.bits > 16:
                return v.from_bits(register_element(result), a)
            if result.name == "float16":
                a = v.convert("bitcast", "i16", "half", a)
            return from_storage(v, result, a)
    raise AssertionError(f"{name} on {t}")


def _divide(v: Lanes, t: ScalarType, a: Reg, b: Reg, constant: bool) -> Reg:
    """a / b towards zero; undefined for b = 0 and b = −1, for which machine division may trap."""
    e, code = f"i{t.bits}", v.code
    known = code.quotients  # a remainder has the quotient of the same numbers
    place = id(code.lines), code.block, v.lanes, t, a, b
    if place not in known:
        safe = b
        if not constant:
            unsafe = v.compare("eq", e, b, v.lit(e, 0))
            if t.signed:
                unsafe = v.either(unsafe, v.compare("eq", e, b, v.lit(e, -1)))
            safe = v.select(e, unsafe, v.lit(e, 1), b)
        known[place] = _truncated(v, t, a, safe, constant)
    return known[place]


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
    """64-bit quotients: as float64 numbers if all are below 2^51 (53 bits decide those, by the same
    argument), else one by one.  A helper function; AVX-512 has the conversions."""
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
        module.helper_functions.append(code.finish(head))
    return v.code.emit(f"call {type_} @{name}({type_} {a}, {type_} {b})")


def _natural_power(v: Lanes, e: str, a: Reg, b: Reg) -> Reg:
    """Wrapping powers by squaring, until no exponent has further bits."""
    code, type_ = v.code, v.type(e)
    before, loop, done = code.block, code.label("power"), code.label("powered")
    code.jump(loop)
    code.start(loop)
    result, at_result = code.phi(type_, v.lit(e, 1), before)
    square, at_square = code.phi(type_, a, before)
    left, at_left = code.phi(type_, b, before)
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
    return next_result


# --- floats -----------------------------------------------------------------------------------


def _number(v: Lanes, name: str, e: str, a: Reg, b: Reg) -> Reg:
    """`fmin` or `fmax` of scalars: of a number and NaN, the number.

    Where LLVM 22 knows that one of two scalars is a number, its `minimumnum` and `maximumnum`
    return NaN if the other is NaN (AVX-512).
    """
    found = v.call("minimum" if name == "fmin" else "maximum", e, a, b)
    found = v.select(e, v.compare("uno", e, b, b), a, found)
    return v.select(e, v.compare("uno", e, a, a), b, found)


def _extreme(v: Lanes, target: Target, name: str, e: str, a: Reg, b: Reg) -> Reg:
    """`minimum` or `maximum` of scalars on x86: NaN if one is NaN, and −0 is less than 0.

    Its comparisons do not wait for one another.  What LLVM makes of its own `maximum` waits for two
    in a row, which doubles the time of a loop whose state goes through it.
    """
    if target.vector_bytes == 64:  # AVX-512's `range` tells zeros apart, but ignores one NaN
        return _range(v, target, 4 + (name == "maximum"), e, a, b)
    found = v.select(e, v.compare("olt" if name == "minimum" else "ogt", e, a, b), a, b)
    both = v.op("or" if name == "minimum" else "and", INTEGER_OF[e], v.bits(e, a), v.bits(e, b))
    found = v.select(e, v.compare("oeq", e, a, b), v.from_bits(e, both), found)
    return v.select(e, v.compare("uno", e, a, a), a, found)


def _range(v: Lanes, target: Target, which: int, e: str, a: Reg, b: Reg) -> Reg:
    """The instruction `vrangesd` or `vrangess`, on the first lanes of vector registers, or NaN."""
    word, lanes, sse = ("sd", 2, "sse2") if e == "double" else ("ss", 4, "sse")
    t = vector(e, lanes)
    wide = [(t, v.code.emit(f"insertelement {t} poison, {e} {x}, i64 0")) for x in (a, b)]
    given = [*wide, (t, "zeroinitializer"), ("i8", "-1"), ("i32", str(which)), ("i32", "4")]
    found = v.code.intrinsic(f"llvm.x86.avx512.mask.range.{word}", t, given)
    if target.slow_masks:
        unordered = v.code.intrinsic(f"llvm.x86.{sse}.cmp.{word}", t, [*wide, ("i8", "3")])
        blend = [(t, found), (t, literal(e, math.nan, lanes)), (t, unordered)]
        found = v.code.intrinsic(f"llvm.x86.sse41.blendvp{word[1]}", t, blend)
    found = v.code.emit(f"extractelement {t} {found}, i64 0")
    if target.slow_masks:
        return found
    return v.select(e, v.compare("uno", e, a, b), v.lit(e, math.nan), found)


def _has_range(v: Lanes, target: Target, e: str, args: Sequence[Reg]) -> bool:
    """Whether lanes have an instruction that LLVM does not use: with a literal it needs no more."""
    return (target.is_x86 and target.vector_bytes == 64 and e in ("float", "double")
            and v.lanes * _BYTES[e] >= 16 and not v.code.flags
            and all(a.startswith("%") for a in args))  # fmt: skip


_BYTES = {"float": 4, "double": 8}


def _ranges(v: Lanes, which: int, e: str, a: Reg, b: Reg) -> Reg:
    """`vrangepd` or `vrangeps`, or NaN: three instructions, where LLVM's `maximum` takes seven."""
    lanes = min(64 // _BYTES[e], v.lanes)
    bits = lanes * _BYTES[e] * 8
    t, mask = vector(e, lanes), ("i16" if lanes == 16 else "i8", "-1")
    name = f"llvm.x86.avx512.mask.range.{'pd' if e == 'double' else 'ps'}.{bits}"
    pieces = []
    for first in range(0, v.lanes, lanes):
        x, y = (slice_lanes(v.code, e, r, v.lanes, first, lanes) for r in (a, b))
        given = [(t, x), (t, y), ("i32", str(which)), (t, "zeroinitializer"), mask]
        given += [("i32", "4")] if bits == 512 else []  # how to round
        pieces.append(v.code.intrinsic(name, t, given))
    found = join(v.code, e, pieces, lanes)
    return v.select(e, v.compare("uno", e, a, b), v.lit(e, math.nan), found)


def _float(v: Lanes, target: Target, name: str, t: ScalarType, result: ScalarType,
           args: list[Reg]) -> Reg:  # fmt: skip
    e = register_element(t)
    a = args[0]
    if name in _FLOAT:
        return v.op(_FLOAT[name], e, *args)
    if name in ("fmin", "fmax") and not v.lanes:
        return _number(v, name, e, *args)
    if name in ("minimum", "maximum") and not v.lanes and target.is_x86 and e != "half":
        return _extreme(v, target, name, e, *args)
    if name in ("minimum", "maximum") and v.lanes and _has_range(v, target, e, args):
        return _ranges(v, 4 + (name == "maximum"), e, *args)
    if name in _INTRINSICS:
        return v.call(_INTRINSICS[name], e, *args)
    match name:
        case "narrow":
            return a
        case "negative":
            return v.negate(e, a)
        case "rem":
            return mathlib.fmod(v.code, e, v.lanes, *args)
        case "to_integer":
            return v.convert("fptosi" if result.signed else "fptoui", e, f"i{result.bits}", a)
        case "to_bits":
            bits = to_storage(v, t, a)
            if t.name == "float16":
                return v.convert("bitcast", "half", "i16", bits)
            return bits if t.bits == 16 else v.bits(e, bits)
    return mathlib.call(v.code, target, name, e, v.lanes, args)
