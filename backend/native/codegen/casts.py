"""Conversions between types: integers wrap, floats saturate, NaN gives 0."""

from __future__ import annotations

from treadle.dsl.types import ScalarType, float32, float64

from .floats import round_to
from .lanes import Lanes
from .text import Reg
from .values import register_element


def cast(v: Lanes, source: ScalarType, target: ScalarType, a: tuple[Reg, ...]) -> tuple[Reg, ...]:
    """The parts of a value of type `source` as type `target`."""
    if source == target:
        return a
    if target.kind == "bool":
        return (_truth(v, source, a),)
    if target.is_complex:
        real = complex_part(target)
        first = (
            cast_real(v, real if source.is_complex else source, real, a[0])
            if not (source.is_complex)
            else cast_real(v, complex_part(source), real, a[0])
        )
        second = (
            cast_real(v, complex_part(source), real, a[1])
            if source.is_complex
            else v.lit(register_element(real), 0.0)
        )
        return first, second
    if source.is_complex:
        return (cast_real(v, complex_part(source), target, a[0]),)
    return (cast_real(v, source, target, a[0]),)


def complex_part(t: ScalarType) -> ScalarType:
    """The type of the real and the imaginary part."""
    return float32 if t.bits == 64 else float64


def _truth(v: Lanes, source: ScalarType, a: tuple[Reg, ...]) -> Reg:
    e = register_element(source)
    if source.is_integer:
        return v.compare("ne", e, a[0], v.lit(e, 0))
    tests = [v.compare("une", e, part, v.lit(e, 0.0)) for part in a]
    return v.either(*tests) if len(tests) == 2 else tests[0]


def cast_real(v: Lanes, source: ScalarType, target: ScalarType, a: Reg) -> Reg:
    """One real, integer or bool register as another (not bool) type."""
    if source == target:
        return a
    s, e = register_element(source), register_element(target)
    if target.is_integer:
        if source.is_float:
            return _to_integer(v, s, target, a)
        bits = 1 if source.kind == "bool" else source.bits
        if bits == target.bits:
            return a
        how = "trunc" if bits > target.bits else "sext" if source.signed else "zext"
        return v.convert(how, s, e, a)
    if source.is_float:
        if s == e:
            return round_to(v, target, a) if target.bits < 32 else a
        if e == "double":
            return v.convert("fpext", s, e, a)
        if target.name == "float16":
            return round_to(v, target, _round_to_odd(v, a))
        return round_to(v, target, v.convert("fptrunc", s, e, a))
    how = "sitofp" if source.signed else "uitofp"
    return round_to(v, target, v.convert(how, s, e, a))


def _to_integer(v: Lanes, s: str, target: ScalarType, a: Reg) -> Reg:
    """A float as an integer: what is beyond an end is that end, NaN 0.

    LLVM's intrinsic for that (`fptosi.sat`) takes the lanes of a vector one by one.
    """
    e, bits = register_element(target), target.bits
    low = -(1 << bits - 1) if target.signed else 0
    high = low + (1 << bits) - 1
    wide = e if bits >= 32 else "i32"
    how = "fptosi" if target.signed or bits < 32 else "fptoui"
    least = v.lit(s, float(low))
    above = v.select(s, v.compare("ogt", s, a, least), a, least)  # of NaN: `least`
    if bits < (32 if s == "float" else 64):  # the end is a float
        most = v.lit(s, float(high))
        found = v.convert(how, s, wide, v.select(s, v.compare("olt", s, above, most), above, most))
    else:
        beyond = v.compare("oge", s, a, v.lit(s, float(high + 1)))
        inside = v.convert(how, s, wide, v.select(s, beyond, least, above))
        found = v.select(wide, beyond, v.lit(wide, high), inside)
    if low:
        found = v.select(wide, v.compare("uno", s, a, a), v.lit(wide, 0), found)
    return found if wide == e else v.convert("trunc", wide, e, found)


def _round_to_odd(v: Lanes, a: Reg) -> Reg:
    """float64 to float32 with inexact results made odd, so that rounding again is rounding once.

    (Boldo and Melquiond, "When double rounding is odd".)
    """
    single = v.convert("fptrunc", "double", "float", a)
    back = v.convert("fpext", "float", "double", single)
    inexact = v.compare("one", "double", back, a)
    bits = v.bits("float", single)
    larger = v.compare("ogt", "double", v.call("fabs", "double", back), v.call("fabs", "double", a))
    toward_zero = v.op("sub", "i32", bits, v.convert("zext", "i1", "i32", larger))
    odd = v.op("or", "i32", toward_zero, v.convert("zext", "i1", "i32", inexact))
    return v.from_bits("float", odd)
