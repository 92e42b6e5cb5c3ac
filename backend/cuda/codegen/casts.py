"""Conversions between types: integers wrap, floats saturate, NaN gives 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.dsl.expr import Expr
from treadle.dsl.types import ScalarType, float32, float64, int32

from .prelude import Helper
from .scalars import EQUALITY, UNARY, Term, part

if TYPE_CHECKING:
    from .expressions import Expressions

HELPERS = {
    **{
        f"{source}2{short}": Helper(
            f"""
// A {source} towards zero as {target}, held within the range; 0 of NaN.
__device__ __forceinline__ {kind} to_{target}({source} x) {{
  return x != x ? 0 : __{source}2{short}_rz(x);
}}
""",
            needs,
        )
        for source, short, target, kind, needs in (
            ("float", "ll", "int64", "int64", ("int64",)),
            ("float", "ull", "uint64", "uint64", ("uint64",)),
            ("double", "int", "int32", "int", ()),
            ("double", "uint", "uint32", "uint32", ("uint32",)),
            ("double", "ll", "int64", "int64", ("int64",)),
            ("double", "ull", "uint64", "uint64", ("uint64",)),
        )
    },
    "saturate": Helper("""
// A float as an integer of fewer than 32 bits: whole part, held within the range; 0 of NaN.
template <class T>
__device__ __forceinline__ T saturate(int x, int lowest, int highest) {
  return T(min(max(x, lowest), highest));
}
"""),
}


def component(t: ScalarType) -> ScalarType:
    """The type of the real and the imaginary part."""
    return float32 if t.bits == 64 else float64


def cast(p: Expressions, e: Expr, target: ScalarType) -> Term:
    source = e.type
    if source == target:
        return p.term(e)
    if target.kind == "bool":
        return _truth(p, e)
    if target.is_complex:
        kind = p.type(target)
        if source.is_complex:
            return Term(f"{kind}({p.text(e)})")
        real = cast_real(p, source, component(target), p.term(e))
        return Term(f"{kind}({real.code}, 0)")
    if source.is_complex:
        return cast_real(p, component(source), target, Term(f"{p.term(e).within(16)}.real"))
    return cast_real(p, source, target, p.term(e))


def _truth(p: Expressions, e: Expr) -> Term:
    t = e.type
    if t.is_complex:
        x = p.term(e).within(16)
        return Term(f"({x}.real != 0 || {x}.imag != 0)")
    zero = "0.0f" if t.is_float and part(t) == "float" else "0.0" if t.is_float else "0"
    return Term(f"{p.term(e).within(EQUALITY + 1)} != {zero}", EQUALITY)


def cast_real(p: Expressions, source: ScalarType, target: ScalarType, x: Term) -> Term:
    """One real number, integer or bool as another type (not bool)."""
    if source == target:
        return x
    name = p.type(target)
    if target.is_integer:
        if source.is_float:
            return _to_integer(p, source, target, x)
        return p.cast(name, x)
    if target.bits == 16:
        if (source.name == "float64" and target.name == "bfloat16") or source.name not in (
            "float32",
            "float64",
        ):
            x = p.cast("float", x)
        return Term(f"{name}({x.code})")
    return p.cast(name, x)


def _to_integer(p: Expressions, source: ScalarType, target: ScalarType, x: Term) -> Term:
    """Towards zero; the machine's conversions saturate."""
    letter = "double" if source.bits == 64 else "float"
    if source.bits == 16:
        x = Term(f"(float){x.within(UNARY)}", UNARY)
    wide = target if target.bits >= 32 else int32
    short = {"int32": "int", "uint32": "uint", "int64": "ll", "uint64": "ull"}[wide.name]
    key = f"{letter}2{short}"
    if key in HELPERS:
        p.use(key)
        whole = f"to_{wide.name}({x.code})"
    else:
        whole = f"__{key}_rz({x.code})"
    if wide is target:
        return Term(whole)
    p.use("saturate")
    return Term(f"saturate<{p.type(target)}>({whole}, {target.lowest}, {target.highest})")
