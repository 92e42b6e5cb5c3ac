"""Operations of kernel IR in C++ (others are decomposed: `skeletons/ir/decompose.py`)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from treadle.dsl.expr import Apply, Const, Expr
from treadle.dsl.primitives import TABLE
from treadle.dsl.types import ScalarType

from .prelude import Helper
from .scalars import (
    AND,
    BIT_AND,
    BIT_OR,
    BIT_XOR,
    EQUALITY,
    OR,
    PRIMARY,
    PRODUCT,
    RELATION,
    SHIFT,
    SUM,
    UNARY,
    Term,
    part,
)

if TYPE_CHECKING:
    from .expressions import Expressions

_COMPARE = {
    "equal": ("==", EQUALITY), "not_equal": ("!=", EQUALITY), "less": ("<", RELATION),
    "less_equal": ("<=", RELATION), "greater": (">", RELATION), "greater_equal": (">=", RELATION),
}  # fmt: skip
_LOGICAL = {"logical_or": ("||", OR), "logical_and": ("&&", AND)}
_BITS = {"bitwise_and": ("&", BIT_AND), "bitwise_or": ("|", BIT_OR), "bitwise_xor": ("^", BIT_XOR)}
_DIVIDE = {"divide": "/", "modulo": "%"}
_SHIFT = {"shift_left": "<<", "shift_right": ">>"}
_FLOAT = {"add": ("+", SUM), "subtract": ("-", SUM), "multiply": ("*", PRODUCT),
          "true_divide": ("/", PRODUCT)}  # fmt: skip
_TESTS = ("isnan", "isinf", "isfinite", "signbit")
#: treadle's (NumPy's) name -> C's name without the suffix f of float functions.
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
#: float32 with fast_math: hardware approximations.
_FAST = {
    "exp": "__expf", "log": "__logf", "log2": "__log2f", "log10": "__log10f", "sin": "__sinf",
    "cos": "__cosf", "tan": "__tanf", "power": "__powf", "true_divide": "__fdividef",
}  # fmt: skip
#: The bits of a float as an integer, and back.
_REINTERPRET = {
    ("to_bits", 32): "__float_as_uint", ("to_bits", 64): "__double_as_longlong",
    ("from_bits", 32): "__uint_as_float", ("from_bits", 64): "__longlong_as_double",
    ("from_bits", 16): "from_bits",
}  # fmt: skip
#: The names of integer types in conversions from floats.
_SHORT = {"int32": "int", "uint32": "uint", "int64": "ll", "uint64": "ull"}

HELPERS = {
    "opaque": Helper("""
// A constant that the compiler does not compute functions of: it rounds them in its own way.
__device__ __forceinline__ float opaque(float x) {
  asm("" : "+f"(x));
  return x;
}
__device__ __forceinline__ double opaque(double x) {
  asm("" : "+d"(x));
  return x;
}
"""),
    "complex": Helper("""
template <class T>
struct alignas(2 * sizeof(T)) complex {
  T real, imag;
  complex() = default;
  __device__ __forceinline__ complex(T r, T i) : real(r), imag(i) {}
  template <class U>
  __device__ __forceinline__ explicit complex(complex<U> z) : real(z.real), imag(z.imag) {}
};
"""),
    "complex64": Helper("using complex64 = complex<float>;", ("complex",)),
    "complex128": Helper("using complex128 = complex<double>;", ("complex",)),
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
    "half_of_bits": Helper("""
template <class T>
__device__ __forceinline__ T from_bits(unsigned short bits) {
  T x;
  x.bits = bits;
  return x;
}
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
    "INFINITY": Helper("""
#define INFINITY __int_as_float(0x7f800000)
"""),
    "NAN": Helper("""
#define NAN __int_as_float(0x7fc00000)
"""),
    "negated": Helper("""
// -a, wrapping.  The assembler of CUDA 13.0 does not wrap a 16-bit negation before it compares,
// shifts, divides or widens it: this one is of 32 bits, and the empty statement keeps it so.
template <class T>
__device__ __forceinline__ T negated(T a) {
  if (sizeof(T) != 2) return T(0ull - a);
  int wide = int(0u - unsigned(a));
  asm("" : "+r"(wide));
  return T(wide);
}
"""),
    "natural_power": Helper("""
// a to the power b, wrapping, for b >= 0.
template <class T>
__device__ __forceinline__ T natural_power(T a, T b) {
  uint64 result = 1, square = uint64(a);
  for (uint64 left = uint64(b); left != 0; left >>= 1) {
    if (left & 1) result *= square;
    square *= square;
  }
  return T(result);
}
""", ("uint64",)),
    "reciprocal_divide": Helper("""
// n / d for 0 <= n, by the reciprocal of d that the host made: a multiplier and a shift.
__device__ __forceinline__ int quotient(int n, int multiplier, int shift) {
  return __umulhi(2u * n, multiplier) >> shift;
}
"""),
}  # fmt: skip
for _name in ("minimum", "minimum_double"):
    _text = HELPERS[_name].text
    for _old, _new in (("minimum", "maximum"), ("smaller", "larger"), ("min.", "max."),
                       ("fmin", "fmax")):  # fmt: skip
        _text = _text.replace(_old, _new)
    HELPERS[_name.replace("min", "max")] = Helper(_text)


def operation(p: Expressions, e: Apply) -> Term:
    """An operation that is not decomposed."""
    name, args, t = e.op.name, e.args, e.args[0].type
    if name in _COMPARE:
        symbol, level = _COMPARE[name]
        return p.binary(args[0], symbol, args[1], level)
    match name:
        case "cast":
            return _cast(p, args[0], e.type)
        case "complex":
            return p.call(p.type(e.type), *(p.term(a) for a in args))
        case "real" | "imag":
            return Term(f"{p.term(args[0]).within(PRIMARY)}.{name}")
        case "to_bits" | "from_bits":
            return _reinterpreted(p, name, args[0], e.type)
    if t.family == "bool":
        if name == "logical_not":
            return _inverse(p, args[0], e.type)
        if name == "logical_xor":
            left, right = (p.term(a).within(RELATION + 1) for a in args)
            return Term(f"{left} != {right}", EQUALITY)
        symbol, level = _LOGICAL[name]
        return p.binary(args[0], symbol, args[1], level)
    return _integer(p, e) if t.is_integer else _float(p, e)


_OPPOSITE = {"equal": "not_equal", "not_equal": "equal"}
_OPPOSITE_ORDER = {
    "less": "greater_equal", "less_equal": "greater", "greater": "less_equal",
    "greater_equal": "less",
}  # fmt: skip


def _inverse(p: Expressions, inner: Expr, t: ScalarType) -> Term:
    if isinstance(inner, Apply) and not p.is_named(inner):
        opposite = _OPPOSITE.get(inner.op.name)
        if opposite is None and not inner.args[0].type.is_inexact:
            opposite = _OPPOSITE_ORDER.get(inner.op.name)
        if opposite is not None:
            return p.term(Apply(TABLE[opposite], inner.args, t))
    return Term(f"!{p.term(inner).within(UNARY)}", UNARY)


def _cast(p: Expressions, e: Expr, target: ScalarType) -> Term:
    name = p.type(target)
    if target.bits == 16 and target.is_float:
        return Term(f"{name}({p.text(e)})")
    if target.is_complex:
        return p.call(name, p.term(e))
    return p.cast(name, p.operand(e))


def _reinterpreted(p: Expressions, name: str, e: Expr, target: ScalarType) -> Term:
    if e.type.is_float and e.type.bits == 16:
        return Term(f"{p.term(e).within(PRIMARY)}.bits")
    if target.bits == 16:
        p.use("half_of_bits")
        return p.call(f"from_bits<{p.type(target)}>", p.term(e))
    made = p.call(_REINTERPRET[name, target.bits], p.term(e))
    return p.cast(p.type(target), made) if name == "to_bits" else made


# --- integers ---------------------------------------------------------------------------------


def _integer(p: Expressions, e: Apply) -> Term:
    """An integer operation; bit counts return int, the others their own type."""
    name, args, t = e.op.name, e.args, e.args[0].type
    if name in _BITS:
        symbol, level = _BITS[name]
        return p.narrowed(t, Term(
            f"{_bit_operand(p, args[0], symbol, level)} {symbol} "
            f"{_bit_operand(p, args[1], symbol, level)}", level))  # fmt: skip
    if name in _DIVIDE:
        return p.narrowed(t, p.binary(args[0], _DIVIDE[name], args[1], PRODUCT))
    if name in _SHIFT:
        if isinstance(args[1], Const):
            return p.narrowed(t, p.with_right(args[0], _SHIFT[name], str(args[1].value), SHIFT))
        return p.narrowed(t, p.binary(args[0], _SHIFT[name], args[1], SHIFT))
    match name:
        case "add" | "subtract" | "multiply" | "negative":
            return _arithmetic(p, e)
        case "minimum" | "maximum":
            return p.narrowed(t, p.call(name[:3], *map(p.exact, args)))
        case "reciprocal_divide":
            p.use(name)
            return p.call("quotient", *(p.term(a) for a in args))
        case "natural_power":
            p.use(name)
            return p.call(name, *map(p.exact, args))
        case "invert":
            return p.narrowed(t, Term(f"~{p.exact(args[0]).within(UNARY)}", UNARY))
        case "popcount":
            return p.call("__popcll" if t.bits == 64 else "__popc", _bits(p, args[0]))
        case "clz" | "ctz":
            return _count_zeros(p, name, args[0])
    raise AssertionError(f"{name} on {t}")


def _bit_operand(p: Expressions, e: Expr, symbol: str, level: int) -> str:
    """An operand of & ^ |; it is put in parentheses if it contains an operator."""
    term = p.term(e)
    if term.level == level and f" {symbol} " in term.code:
        return term.code
    return term.within(UNARY)


def _bits(p: Expressions, e: Expr) -> Term:
    """The bits of an integer, zero-extended: a negative int8 must not fill 32 bits with ones."""
    t = e.type
    if t.bits < 32 and t.signed:
        return p.cast(f"uint{t.bits}", p.term(e))
    return p.term(e)


def _count_zeros(p: Expressions, name: str, e: Expr) -> Term:
    t = e.type
    x = _bits(p, e)
    if name == "clz":
        if t.bits >= 32:
            return p.call("__clzll" if t.bits == 64 else "__clz", x)
        return Term(f"{p.call('__clz', x).code} - {32 - t.bits}", SUM)
    if t.bits < 32:  # a one above the top bit: ctz of 0 is the width
        return Term(f"__ffs({x.within(UNARY)} | {1 << t.bits}) - 1")._replace(level=SUM)
    function = "__clzll(__brevll" if t.bits == 64 else "__clz(__brev"
    return Term(f"{function}({x.code}))", PRIMARY)


def _arithmetic(p: Expressions, e: Apply) -> Term:
    if e.type.bits == 16 and e.op.name == "negative":
        return _negated(p, e.args[0])
    if e.type.bits == 16:
        a, b = e.args
        if e.op.name == "subtract" and _is(a, 0):
            return _negated(p, b)
        if e.op.name == "multiply" and (_is(a, -1) or _is(b, -1)):
            return _negated(p, b if _is(a, -1) else a)
    return p.wrapped(e, e.type)


def _is(e: Expr, value: int) -> bool:
    """Whether `e` is the constant `value`, modulo 2 to the width."""
    return isinstance(e, Const) and (int(e.value) - value) % (1 << e.type.bits) == 0


def _negated(p: Expressions, e: Expr) -> Term:
    p.use("negated")
    return p.call("negated", p.exact(e))


# --- floats -----------------------------------------------------------------------------------


def _float(p: Expressions, e: Apply) -> Term:
    name, args, t = e.op.name, e.args, e.args[0].type
    single = part(t) == "float"
    if p.fast_math and t.name == "float32" and name in _FAST and e not in p.precise:
        return p.call(_FAST[name], *map(p.operand, args))
    if name in _FLOAT:
        symbol, level = _FLOAT[name]
        return p.binary(args[0], symbol, args[1], level)
    if name in _TESTS:
        x = p.term(args[0])
        if name == "isnan" and x.code.isidentifier():
            return Term(f"{x.code} != {x.code}", EQUALITY)
        return p.call(name, x)
    match name:
        case "negative":
            return Term(f"-{p.operand(args[0]).within(UNARY + 1)}", UNARY)
        case "minimum" | "maximum":
            p.use(name if single else f"{name}_double")
            return p.call(name, *(_argument(p, a, p.term(a)) for a in args))
        case "narrow":
            return p.call(p.type(e.type), p.term(args[0]))
        case "to_integer":
            function = f"__{part(t)}2{_SHORT[e.type.name]}_rz"
            return p.call(function, p.term(args[0]))
    function = FUNCTIONS[name]
    return p.call(
        f"{function}f" if single else function, *(_argument(p, a, p.operand(a)) for a in args)
    )


def _argument(p: Expressions, e: Expr, term: Term) -> Term:
    """An operand of an overloaded function, which C++ chooses by the types of all arguments."""
    return p.call("double", term) if e.type.name == "float64" and _is_single(p, e) else term


def _is_single(p: Expressions, e: Expr) -> bool:
    """Whether the text of a float64 is of the type float, as the macros INFINITY and NAN are."""
    if e in p.bound:
        return False
    if isinstance(e, Const):
        return not math.isfinite(e.value)
    return isinstance(e, Apply) and (
        (e.op.name == "negative" and _is_single(p, e.args[0]))
        or (e.op.name == "select" and all(_is_single(p, a) for a in e.args[1:]))
    )
