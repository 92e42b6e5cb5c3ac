"""Half-precision numbers: float32 in registers, 16 bits in memory."""

from __future__ import annotations

from treadle.dsl.types import ScalarType

from .lanes import Lanes
from .text import Reg


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


def to_storage(v: Lanes, t: ScalarType, a: Reg) -> Reg:
    """A register in its storage format (half for float16, i16 for bfloat16, i8 for bool)."""
    if t.name == "float16":
        return v.convert("fptrunc", "float", "half", a)
    if t.name == "bfloat16":
        high = v.op("lshr", "i32", v.bits("float", a), v.lit("i32", 16))
        return v.convert("trunc", "i32", "i16", high)
    if t.family == "bool":
        return v.convert("zext", "i1", "i8", a)
    return a


def from_storage(v: Lanes, t: ScalarType, a: Reg) -> Reg:
    """The register of a value in its storage format."""
    if t.name == "float16":
        return v.convert("fpext", "half", "float", a)
    if t.name == "bfloat16":
        wide = v.convert("zext", "i16", "i32", a)
        return v.from_bits("float", v.op("shl", "i32", wide, v.lit("i32", 16)))
    if t.family == "bool":
        return v.compare("ne", "i8", a, v.lit("i8", 0))
    return a


#: float16 conversions for x86 CPUs that have no instructions for them (before 2012): LLVM calls
#: these two functions of the compiler's runtime library, which a Python process does not have.
#: Both round to nearest even and keep infinities, NaNs and subnormals.
CONVERSIONS = """
define float @__extendhfsf2(half %h) #0 {
  %bits = bitcast half %h to i16
  %wide = zext i16 %bits to i32
  %size = and i32 %wide, 32767
  %sign = and i32 %wide, 32768
  %high = shl i32 %sign, 16
  %moved = shl i32 %size, 13
  %small = bitcast i32 %moved to float
  %scaled = fmul float %small, 0x46F0000000000000
  %number = bitcast float %scaled to i32
  %endless = or i32 %moved, 2139095040
  %special = icmp uge i32 %size, 31744
  %chosen = select i1 %special, i32 %endless, i32 %number
  %all = or i32 %chosen, %high
  %result = bitcast i32 %all to float
  ret float %result
}
define half @__truncsfhf2(float %f) #0 {
  %bits = bitcast float %f to i32
  %size = and i32 %bits, 2147483647
  %top = lshr i32 %bits, 16
  %sign = and i32 %top, 32768
  %value = bitcast i32 %size to float
  %shifted = fadd float %value, 5.000000e-01
  %raw = bitcast float %shifted to i32
  %subnormal = sub i32 %raw, 1056964608
  %low = lshr i32 %size, 13
  %odd = and i32 %low, 1
  %biased = sub i32 %size, 939520001
  %rounded = add i32 %biased, %odd
  %normal = lshr i32 %rounded, 13
  %is_small = icmp ult i32 %size, 947912704
  %finite = select i1 %is_small, i32 %subnormal, i32 %normal
  %is_large = icmp uge i32 %size, 1199570944
  %bounded = select i1 %is_large, i32 31744, i32 %finite
  %is_nan = icmp ugt i32 %size, 2139095040
  %chosen = select i1 %is_nan, i32 32256, i32 %bounded
  %all = or i32 %chosen, %sign
  %short = trunc i32 %all to i16
  %result = bitcast i16 %short to half
  ret half %result
}
"""
