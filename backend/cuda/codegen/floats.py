"""Primitives on real floating-point numbers in C++.

float16 and bfloat16 compute in float and round after every operation; +, −, ×, ÷ and the square
root are then correctly rounded, because 24 ≥ 2·11 + 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.dsl.expr import Apply, Const
from treadle.dsl.types import ScalarType

from .integers import COMPARE
from .prelude import Helper
from .scalars import EQUALITY, PRODUCT, SUM, UNARY, Term, part

if TYPE_CHECKING:
    from .expressions import Expressions

_PLAIN = {"add": ("+", SUM), "subtract": ("-", SUM), "multiply": ("*", PRODUCT),
          "true_divide": ("/", PRODUCT)}  # fmt: skip
#: treadle's (NumPy's) name -> C's name without the f of float.
FUNCTIONS = {
    "sqrt": "sqrt", "exp": "exp", "log": "log", "sin": "sin", "cos": "cos", "tan": "tan",
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "sinh": "sinh", "cosh": "cosh",
    "tanh": "tanh", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "exp2": "exp2",
    "expm1": "expm1", "log2": "log2", "log10": "log10", "log1p": "log1p", "cbrt": "cbrt",
    "erf": "erf", "erfc": "erfc", "arctan2": "atan2", "hypot": "hypot", "power": "pow",
    "floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "rint", "absolute": "fabs",
    "fmin": "fmin", "fmax": "fmax", "rem": "fmod", "fmod": "fmod", "copysign": "copysign",
    "fma": "fma", "nextafter": "nextafter",
}  # fmt: skip
#: float32 with fast_math: the hardware's approximations.
_FAST = {
    "exp": "__expf", "log": "__logf", "log2": "__log2f", "log10": "__log10f", "sin": "__sinf",
    "cos": "__cosf", "tan": "__tanf", "power": "__powf", "true_divide": "__fdividef",
}  # fmt: skip
#: Results that every narrower type of the arguments represents: no rounding after them.
_PICKS = frozenset(("minimum", "maximum", "fmin", "fmax", "copysign", "absolute", "negative"))

HELPERS = {
    "float16": Helper("""
// A half-precision number: computes as float, rounds to nearest even where it is made.
struct float16 {
  unsigned short bits;
  float16() = default;
  __device__ __forceinline__ explicit float16(float x) {
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  }
  __device__ __forceinline__ explicit float16(double x) {
    asm("cvt.rn.f16.f64 %0, %1;" : "=h"(bits) : "d"(x));
  }
  __device__ __forceinline__ operator float() const {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
  }
};
"""),
    "bfloat16": Helper("""
// The upper half of a float: computes as float, rounds to nearest even where it is made.
struct bfloat16 {
  unsigned short bits;
  bfloat16() = default;
  __device__ __forceinline__ explicit bfloat16(float x) {
#if __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
#else
    const unsigned u = __float_as_uint(x);
    bits = (x != x ? 0x7fff0000u : u + 0x7fff + (u >> 16 & 1)) >> 16;
#endif
  }
  __device__ __forceinline__ operator float() const { return __uint_as_float(bits << 16); }
};
"""),
    "minimum": Helper("""
// The smaller; NaN if one of them is.
__device__ __forceinline__ float minimum(float a, float b) {
#if __CUDA_ARCH__ >= 800
  float r;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
#else
  return a != a || b != b ? a + b : fminf(a, b);
#endif
}
"""),
    "minimum_double": Helper("""
// The smaller; NaN if one of them is.
__device__ __forceinline__ double minimum(double a, double b) {
  return a != a || b != b ? a + b : fmin(a, b);
}
"""),
    "nextafter_half": Helper("""
// The neighbour of a towards b, by the bits; `same` is what equal arguments give.
template <class T>
__device__ T neighbour(T a, T b, T same) {
  if (a != a || b != b) return T(a + b);
  if (a == b) return same;
  T r = a;
  if (a == 0) {
    r.bits = a < b ? 1 : 0x8001;
  } else {
    r.bits += (a < b) == (a > 0) ? 1 : -1;
  }
  return r;
}
"""),
    "INFINITY": Helper("""
#define INFINITY __int_as_float(0x7f800000)
"""),
    "NAN": Helper("""
#define NAN __int_as_float(0x7fc00000)
"""),
}
for _kind, _f in (("float", "f"), ("double", "")):
    HELPERS[f"sign_{_kind}"] = Helper(f"""
// -1, 0 or 1; NaN of NaN.
__device__ __forceinline__ {_kind} sign({_kind} x) {{
  return x != x ? x : {_kind}((x > 0) - (x < 0));
}}
""")
    HELPERS[f"floor_divide_{_kind}"] = Helper(f"""
// The quotient rounded down, from the exact remainder, as Python and NumPy define it.
__device__ {_kind} floor_divide({_kind} a, {_kind} b) {{
  if (b == 0) return a / b;
  const {_kind} rest = fmod{_f}(a, b);
  {_kind} q = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) q -= 1;
  if (q == 0) return copysign{_f}({_kind}(0), a / b);
  const {_kind} down = floor{_f}(q);
  return q - down > {_kind}(0.5) ? down + 1 : down;
}}
""")
    HELPERS[f"floor_remainder_{_kind}"] = Helper(f"""
// The exact remainder with the sign of b; NaN for b = 0.
__device__ {_kind} floor_remainder({_kind} a, {_kind} b) {{
  const {_kind} rest = fmod{_f}(a, b);
  if (rest == 0) return copysign{_f}({_kind}(0), b);
  return (b < 0) != (rest < 0) ? rest + b : rest;
}}
""")
for _name in ("minimum", "minimum_double"):
    _text = HELPERS[_name].text
    for _old, _new in (("minimum", "maximum"), ("smaller", "larger"), ("min.", "max."),
                       ("fmin", "fmax")):  # fmt: skip
        _text = _text.replace(_old, _new)
    HELPERS[_name.replace("min", "max")] = Helper(_text)


def real(p: Expressions, e: Apply) -> Term:
    """A primitive on real floats: comparisons and tests give bool, everything else its type."""
    name = e.op.name
    t = e.args[0].type
    if name in COMPARE:
        symbol, level = COMPARE[name]
        return p.binary(e.args[0], symbol, e.args[1], level)
    if name in ("isnan", "isinf", "isfinite", "signbit"):
        return _test(p, name, e)
    if name == "imag":
        return p.rounded(t, Term("0.0f" if part(t) == "float" else "0.0"))
    if name in ("real", "conjugate"):
        return p.term(e.args[0])
    if name == "nextafter" and t.bits == 16:
        p.use("nextafter_half")
        a, b = (p.exact(x) for x in e.args)
        return p.call("neighbour", a, b, a if t.name == "float16" else b)
    return p.rounded(t, _compute(p, name, e, t))


def _test(p: Expressions, name: str, e: Apply) -> Term:
    x = p.as_float(e.args[0])
    if name == "isnan" and x.code.isidentifier():
        return Term(f"{x.code} != {x.code}", EQUALITY)
    return p.call(name, x)


def _compute(p: Expressions, name: str, e: Apply, t: ScalarType) -> Term:
    single = part(t) == "float"
    args = e.args
    if p.fast_math and t.name == "float32" and name in _FAST:
        return p.call(_FAST[name], *(p.term(a) for a in args))
    if name in _PLAIN:
        symbol, level = _PLAIN[name]
        return p.binary(args[0], symbol, args[1], level)
    match name:
        case "negative":
            return Term(f"-{p.term(args[0]).within(UNARY + 1)}", UNARY)
        case "quot":
            ratio = p.binary(args[0], "/", args[1], PRODUCT)
            return p.call("truncf" if single else "trunc", ratio)
        case "minimum" | "maximum":
            p.use(name if single else f"{name}_double")
            return p.call(name, *(p.as_float(a) for a in args))
        case "sign":
            p.use(f"sign_{part(t)}")
            return p.call("sign", p.as_float(args[0]))
        case "floor_divide" | "remainder":
            function = "floor_divide" if name == "floor_divide" else "floor_remainder"
            p.use(f"{function}_{part(t)}")
            return p.call(function, *(p.as_float(a) for a in args))
        case "power" if isinstance(args[1], Const) and float(args[1].value) in (1.0, 2.0, 3.0):
            return _small_power(p, e, t, int(args[1].value))
    function = FUNCTIONS[name]
    return p.call(f"{function}f" if single else function, *(p.term(a) for a in args))


def _small_power(p: Expressions, e: Apply, t: ScalarType, exponent: int) -> Term:
    x = p.as_float(e.args[0])
    if exponent == 1:
        return x
    if x.code.isidentifier():
        square = f"{x.code} * {x.code}"
        return Term(square if exponent == 2 else f"{x.code} * ({square})", PRODUCT)
    p.use(f"power{exponent}")
    return p.call("square" if exponent == 2 else "cube", x)


HELPERS["power2"] = Helper("""
template <class T>
__device__ __forceinline__ T square(T x) {
  return x * x;
}
""")
HELPERS["power3"] = Helper("""
template <class T>
__device__ __forceinline__ T cube(T x) {
  return x * (x * x);
}
""")
