"""Primitives on integers and bools in C++: wrapping arithmetic, total division and shifts."""

from __future__ import annotations

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
    CHOICE,
    EQUALITY,
    OR,
    PRIMARY,
    PRODUCT,
    RELATION,
    SHIFT,
    SUM,
    UNARY,
    Term,
    type_name,
)

if TYPE_CHECKING:
    from .expressions import Expressions

COMPARE = {
    "equal": ("==", EQUALITY), "not_equal": ("!=", EQUALITY), "less": ("<", RELATION),
    "less_equal": ("<=", RELATION), "greater": (">", RELATION), "greater_equal": (">=", RELATION),
}  # fmt: skip
_BOOLEAN = {
    "add": ("||", OR), "logical_or": ("||", OR), "bitwise_or": ("||", OR), "maximum": ("||", OR),
    "fmax": ("||", OR), "multiply": ("&&", AND), "logical_and": ("&&", AND),
    "bitwise_and": ("&&", AND), "minimum": ("&&", AND), "fmin": ("&&", AND),
    "logical_xor": ("!=", EQUALITY), "bitwise_xor": ("!=", EQUALITY), **COMPARE,
}  # fmt: skip
_BITS = {"bitwise_and": ("&", BIT_AND), "bitwise_or": ("|", BIT_OR), "bitwise_xor": ("^", BIT_XOR)}
_PLAIN = {"add": ("+", SUM), "subtract": ("-", SUM), "multiply": ("*", PRODUCT)}
_SAME = ("floor", "ceil", "trunc", "rint", "conjugate", "real")
_DIVISIONS = {
    "floor_divide": "floor_divide", "remainder": "floor_remainder", "quot": "quot", "rem": "rem",
    "fmod": "rem",
}  # fmt: skip

HELPERS = {
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
    "quot": Helper("""
// a / b towards zero; 0 for b = 0, and the lowest a by -1 wraps.
template <class T>
__device__ __forceinline__ T quot(T a, T b) {
  if (b == 0) return 0;
  if (T(-1) < 0 && b == T(-1)) return negated(a);
  return a / b;
}
""", ("negated",)),
    "rem": Helper("""
// What quot leaves; 0 for b = 0.
template <class T>
__device__ __forceinline__ T rem(T a, T b) {
  return b == 0 || (T(-1) < 0 && b == T(-1)) ? T(0) : T(a % b);
}
"""),
    "floor_divide": Helper("""
// a / b rounded down, as Python does it; 0 for b = 0, and the lowest a by -1 wraps.
template <class T>
__device__ __forceinline__ T floor_divide(T a, T b) {
  if (b == 0) return 0;
  if (T(-1) < 0 && b == T(-1)) return negated(a);
  const T q = a / b;
  return q * b != a && (a < 0) != (b < 0) ? T(q - 1) : q;
}
""", ("negated",)),
    "floor_remainder": Helper("""
// a modulo b with the sign of b, as Python does it; 0 for b = 0.
template <class T>
__device__ __forceinline__ T floor_remainder(T a, T b) {
  if (b == 0 || (T(-1) < 0 && b == T(-1))) return 0;
  const T r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? T(r + b) : r;
}
"""),
    "integer_power": Helper("""
// a to the power b, wrapping; to a negative power only 1 and -1 are not 0.
template <class T>
__device__ __forceinline__ T power(T a, T b) {
  if (b < 0) return a == 1 ? T(1) : a == T(-1) ? T(b & 1 ? -1 : 1) : T(0);
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
    "shift_left": Helper("""
// a << b; 0 when b is negative or not less than the width.
template <class T>
__device__ __forceinline__ T shift_left(T a, T b) {
  return b >= 0 && b < T(8 * sizeof(T)) ? T(a << b) : T(0);
}
"""),
    "shift_right": Helper("""
// a >> b; the sign of a (0 for unsigned) when b is negative or not less than the width.
template <class T>
__device__ __forceinline__ T shift_right(T a, T b) {
  return b >= 0 && b < T(8 * sizeof(T)) ? T(a >> b) : T(a < 0 ? -1 : 0);
}
"""),
}  # fmt: skip


def boolean(p: Expressions, e: Apply) -> Term:
    """A primitive on bools."""
    name = e.op.name
    if name in ("logical_not", "invert"):
        return _inverse(p, e)
    if name in _BOOLEAN:
        symbol, level = _BOOLEAN[name]
        return p.binary(e.args[0], symbol, e.args[1], level)
    if name in ("isnan", "isinf", "signbit", "imag"):
        return Term("false")
    if name == "isfinite":
        return Term("true")
    if name == "absolute" or name in _SAME:
        return p.term(e.args[0])
    raise AssertionError(f"{name} on bool")


_OPPOSITE = {"equal": "not_equal", "not_equal": "equal"}
_OPPOSITE_ORDER = {
    "less": "greater_equal", "less_equal": "greater", "greater": "less_equal",
    "greater_equal": "less",
}  # fmt: skip


def _inverse(p: Expressions, e: Apply) -> Term:
    inner = e.args[0]
    if isinstance(inner, Apply) and not p.is_named(inner):
        opposite = _OPPOSITE.get(inner.op.name)
        if opposite is None and not inner.args[0].type.is_inexact:
            opposite = _OPPOSITE_ORDER.get(inner.op.name)
        if opposite is not None:
            return p.term(Apply(TABLE[opposite], inner.args, e.type))
    return Term(f"!{p.term(inner).within(UNARY)}", UNARY)


def integer(p: Expressions, e: Apply) -> Term:
    """A primitive on integers: comparisons give bool, bit counts int, everything else its type."""
    name, args = e.op.name, e.args
    t = args[0].type
    if name in _PLAIN:
        return _arithmetic(p, e)
    if name in COMPARE:
        symbol, level = COMPARE[name]
        return p.binary(args[0], symbol, args[1], level)
    if name in _BITS:
        symbol, level = _BITS[name]
        return p.narrowed(t, Term(
            f"{_bit_operand(p, args[0], symbol, level)} {symbol} "
            f"{_bit_operand(p, args[1], symbol, level)}", level))  # fmt: skip
    match name:
        case "minimum" | "maximum" | "fmin" | "fmax":
            function = "min" if name in ("minimum", "fmin") else "max"
            return p.narrowed(t, p.call(function, *(_exactly(p, a) for a in args)))
        case "floor_divide" | "remainder" | "quot" | "rem" | "fmod":
            return _divide(p, e)
        case "reciprocal_divide":
            p.use(name)
            return p.call("quotient", *(p.term(a) for a in args))
        case "negative" if t.bits == 16:
            return _negated(p, args[0])
        case "negative":
            return p.wrapped(e, t)
        case "invert":
            return p.narrowed(t, Term(f"~{p.exact(args[0]).within(UNARY)}", UNARY))
        case "absolute":
            if not t.signed:
                return p.term(args[0])
            p.use("absolute")
            return p.call("absolute", _exactly(p, args[0]))
        case "sign":
            if not t.signed:
                x = p.term(args[0])
                return p.cast(p.type(t), Term(f"{x.within(RELATION + 1)} > 0", RELATION))
            p.use("integer_sign")
            return p.call("sign", _exactly(p, args[0]))
        case "fma":
            return p.wrapped(e, t)
        case "power":
            return _power(p, e)
        case "left_shift" | "right_shift":
            return _shift(p, e)
        case "popcount":
            return p.call("__popcll" if t.bits == 64 else "__popc", _bits(p, args[0]))
        case "clz" | "ctz":
            return _count_zeros(p, name, args[0])
        case "isnan" | "isinf":
            return Term("false")
        case "isfinite":
            return Term("true")
        case "signbit":
            if not t.signed:
                return Term("false")
            return Term(f"{p.term(args[0]).within(RELATION + 1)} < 0", RELATION)
        case "imag":
            return Term("0")
        case _ if name in _SAME:
            return p.term(args[0])
    raise AssertionError(f"{name} on {t}")


HELPERS["absolute"] = Helper("""
// |a|; of the lowest number, itself.
template <class T>
__device__ __forceinline__ T absolute(T a) {
  return a < 0 ? negated(a) : a;
}
""", ("negated",))  # fmt: skip
HELPERS["integer_sign"] = Helper("""
template <class T>
__device__ __forceinline__ T sign(T a) {
  return T((a > 0) - (a < 0));
}
""")


def _exactly(p: Expressions, e: object) -> Term:
    """An operand that has its very type, for templates and overloads."""
    return p.exact(e)  # type: ignore[arg-type]


def _bit_operand(p: Expressions, e: object, symbol: str, level: int) -> str:
    """Operands of & ^ | that have operators of their own are put in parentheses."""
    term = p.term(e)  # type: ignore[arg-type]
    if term.level == level and f" {symbol} " in term.code:
        return term.code
    return term.within(UNARY)


def _bits(p: Expressions, e: object) -> Term:
    """The bits of an integer, zero-extended: a negative int8 must not fill 32 bits with ones."""
    t: ScalarType = e.type  # type: ignore[attr-defined]
    if t.bits < 32 and t.signed:
        return p.cast(f"uint{t.bits}", p.term(e))  # type: ignore[arg-type]
    return p.term(e)  # type: ignore[arg-type]


def _count_zeros(p: Expressions, name: str, e: object) -> Term:
    t: ScalarType = e.type  # type: ignore[attr-defined]
    x = _bits(p, e)
    if name == "clz":
        if t.bits >= 32:
            return p.call("__clzll" if t.bits == 64 else "__clz", x)
        return Term(f"{p.call('__clz', x).code} - {32 - t.bits}", SUM)
    if t.bits < 32:  # a one above the number: ctz of 0 is the width
        return Term(f"__ffs({x.within(UNARY)} | {1 << t.bits}) - 1")._replace(level=SUM)
    function = "__clzll(__brevll" if t.bits == 64 else "__clz(__brev"
    return Term(f"{function}({x.code}))", PRIMARY)


def _arithmetic(p: Expressions, e: Apply) -> Term:
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


def _divide(p: Expressions, e: Apply) -> Term:
    name, (a, b) = e.op.name, e.args
    t = a.type
    function = _DIVISIONS[name]
    symbol = "/" if name in ("floor_divide", "quot") else "%"
    floored = name in ("floor_divide", "remainder") and t.signed
    positive = p.facts.is_positive(b) if t.signed else p.facts.is_nonzero(b)
    if positive and (not floored or p.facts.is_natural(a)):
        return p.narrowed(t, p.binary(a, symbol, b, PRODUCT))
    if floored and isinstance(b, Const) and int(b.value) > 0:
        d = int(b.value)
        if d & (d - 1) == 0:  # rounds down for negative numbers too
            if symbol == "/":
                return p.narrowed(t, p.with_right(a, ">>", str(d.bit_length() - 1), SHIFT))
            return p.narrowed(t, Term(f"{p.term(a).within(UNARY)} & {d - 1}", BIT_AND))
    p.use(function)
    return p.call(function, _exactly(p, a), _exactly(p, b))


def _shift(p: Expressions, e: Apply) -> Term:
    left = e.op.name == "left_shift"
    a, b = e.args
    t = a.type
    if isinstance(b, Const) and 0 <= int(b.value) < t.bits:
        symbol = "<<" if left else ">>"
        return p.narrowed(t, p.with_right(a, symbol, str(int(b.value)), SHIFT))
    least, most = p.facts.range(b)
    if least >= 0 and most < t.bits:
        return p.narrowed(t, p.binary(a, "<<" if left else ">>", b, SHIFT))
    function = "shift_left" if left else "shift_right"
    p.use(function)
    return p.call(function, _exactly(p, a), _exactly(p, b))


def _power(p: Expressions, e: Apply) -> Term:
    p.use("integer_power")
    return p.call("power", *(_exactly(p, a) for a in e.args))


def choice(condition: str, yes: str, no: str) -> Term:
    """`condition ? yes : no`."""
    return Term(f"{condition} ? {yes} : {no}", CHOICE)


__all__ = ["COMPARE", "HELPERS", "boolean", "choice", "integer", "type_name"]
