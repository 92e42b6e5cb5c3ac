"""The scalar operations: one table with type rules, meaning (in NumPy) and cost.

A `Primitive` is all that a backend needs to know of an operation: the number of arguments, the
result type, and the meaning.  `numpy` is that meaning: `reference` and constant folding run it, and
the other backends are tested against it.  Arguments arrive already promoted to the type that `rule`
chose.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import erf, erfc
from typing import Any, TypeAlias

import numpy as np

from .types import (
    ScalarType,
    bool_,
    complex64,
    float16,
    float32,
    float64,
    int32,
    uint16,
    uint32,
    uint64,
)

Rule = Callable[[ScalarType], "tuple[ScalarType, ScalarType] | None"]
#: NumPy arrays or scalars: NumPy's stubs have no types for arithmetic on both.
Values: TypeAlias = Any


@dataclass(frozen=True)
class Primitive:
    """`rule(common)` maps the promoted type to (argument type, result type), None if it is
    rejected.  `cost` is in units of one addition.  `reduces` names an operation that folds may
    treat as commutative as well as associative.  `formula` defines it for every type by other
    primitives, if possible (`skeletons/ir/decompose.py` has the rules that depend on types and
    targets)."""

    name: str
    arity: int
    rule: Rule
    numpy: Callable[..., Values]
    cost: float = 1.0
    symbol: str = ""
    commutative: bool = False
    reduces: bool = False
    formula: Callable[..., Any] | None = None

    def __repr__(self) -> str:
        return self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return self is other


TABLE: dict[str, Primitive] = {}


def _complex(a: Values, b: Values) -> Values:
    """Assemble the two parts: a + 1j * b would multiply infinities by 0."""
    a, b = np.broadcast_arrays(np.asarray(a), np.asarray(b))
    made = np.empty(a.shape, np.complex64 if a.dtype.itemsize <= 4 else np.complex128)
    made.real, made.imag = a, b
    return made[()]


def _define(name: str, arity: int, rule: Rule, numpy: Callable[..., Values], **kw: Any) -> None:
    TABLE[name] = Primitive(name, arity, rule, numpy, **kw)


# --- type rules ------------------------------------------------------------------------------


def _same(t: ScalarType) -> tuple[ScalarType, ScalarType]:
    return t, t


def _number(t: ScalarType) -> tuple[ScalarType, ScalarType] | None:
    return None if t.family == "bool" else (t, t)


def _ordered(t: ScalarType) -> tuple[ScalarType, ScalarType] | None:
    return None if t.is_complex else (t, t)


def _ordered_number(t: ScalarType) -> tuple[ScalarType, ScalarType] | None:
    return None if t.is_complex or t.family == "bool" else (t, t)


def _integer_or_bool(t: ScalarType) -> tuple[ScalarType, ScalarType] | None:
    return None if t.is_inexact else (t, t)


def _integer(t: ScalarType) -> tuple[ScalarType, ScalarType] | None:
    return (t, t) if t.is_integer else None


def floating(t: ScalarType) -> ScalarType:
    """The float type NumPy's transcendental functions compute a type in."""
    if t.is_inexact:
        return t
    return {8: float16, 16: float32}.get(t.bits, float64)


def _float(t: ScalarType) -> tuple[ScalarType, ScalarType]:
    f = floating(t)
    return f, f


def _real_float(t: ScalarType) -> tuple[ScalarType, ScalarType] | None:
    return None if t.is_complex else _float(t)


def _divide(t: ScalarType) -> tuple[ScalarType, ScalarType]:
    f = t if t.is_inexact else float64
    return f, f


def _compare(t: ScalarType) -> tuple[ScalarType, ScalarType]:
    return t, bool_


def _compare_ordered(t: ScalarType) -> tuple[ScalarType, ScalarType] | None:
    return None if t.is_complex else (t, bool_)


def _classify(t: ScalarType) -> tuple[ScalarType, ScalarType]:
    return t, bool_


def _logical(t: ScalarType) -> tuple[ScalarType, ScalarType]:
    return bool_, bool_


def real_part(t: ScalarType) -> ScalarType:
    if t.is_complex:
        return float32 if t.bits == 64 else float64
    return t


def _to_real(t: ScalarType) -> tuple[ScalarType, ScalarType]:
    return t, real_part(t)


def _count_bits(t: ScalarType) -> tuple[ScalarType, ScalarType] | None:
    return (t, int32) if t.is_integer else None


# --- meanings that differ from NumPy's or that NumPy lacks -----------------------------------


def _multiply(a: Values, b: Values) -> Values:
    """Complex products; NumPy's round once or twice, depending on the position in the array."""
    product = np.asarray(np.multiply(a, b))
    if product.dtype.kind == "c":
        product.real = a.real * b.real - a.imag * b.imag
        product.imag = a.real * b.imag + a.imag * b.real
    return product


def _floor_divide(a: Values, b: Values) -> Values:
    t = np.result_type(a, b)
    if t.kind in "iu":
        safe = np.where(b == 0, np.ones_like(b), b)
        return np.where(b == 0, np.zeros_like(a), np.floor_divide(a, safe)).astype(t)
    return np.floor_divide(a, b)


def _remainder(a: Values, b: Values) -> Values:
    t = np.result_type(a, b)
    if t.kind in "iu":
        safe = np.where((b == 0) | (b == _minus_one(t)), np.ones_like(b), b)
        return np.remainder(a, safe).astype(t)
    return np.remainder(a, b)


def _log1p(a: Values) -> Values:
    """log1p; NumPy's loses small complex numbers."""
    found = np.asarray(np.log1p(a))
    if found.dtype.kind == "c":
        x, y = a.real, a.imag
        small = np.hypot(x, y) < 0.5
        found.real = np.where(small, np.log1p(x * (2 + x) + y * y) / 2, found.real)
    return found


def _expm1(a: Values) -> Values:
    """expm1; NumPy's has NaN for complex numbers where exp has a limit."""
    found = np.asarray(np.expm1(a))
    return np.where(np.isfinite(a), found, np.exp(a) - 1) if found.dtype.kind == "c" else found


#: Elementary functions that differ from NumPy's.
_OWN = {"expm1": _expm1, "log1p": _log1p}


def _minus_one(t: np.dtype[Any]) -> Values:
    return t.type(-1) if t.kind == "i" else t.type(0)


def _quot(a: Values, b: Values) -> Values:
    t = np.result_type(a, b)
    if t.kind not in "iu":
        return np.trunc(a / b)
    q = _floor_divide(a, b)
    if t.kind == "u":
        return q
    exact = (q * b).astype(t) == a
    return np.where((b != 0) & ~exact & ((a < 0) != (b < 0)), q + t.type(1), q).astype(t)


def _rem(a: Values, b: Values) -> Values:
    t = np.result_type(a, b)
    if t.kind not in "iu":
        return np.fmod(a, b)
    return np.where(b == 0, np.zeros_like(a), a - _quot(a, b) * b).astype(t)


def _left_shift(a: Values, b: Values) -> Values:
    bits = np.asarray(a).dtype.itemsize * 8
    inside = (b >= 0) & (b < bits)
    shifted = np.left_shift(a, np.where(inside, b, 0).astype(a.dtype))
    return np.where(inside, shifted, np.zeros((), a.dtype))


def _right_shift(a: Values, b: Values) -> Values:
    bits = np.asarray(a).dtype.itemsize * 8
    inside = (b >= 0) & (b < bits)
    fill = np.where(np.asarray(a) < 0, -1, 0).astype(a.dtype)
    return np.where(inside, np.right_shift(a, np.where(inside, b, 0).astype(a.dtype)), fill)


def _power(a: Values, b: Values) -> Values:
    t = np.result_type(a, b)
    if t.kind == "i":
        whole = np.power(a, np.where(b < 0, 0, b).astype(t))
        unit = np.where(a == 1, 1, np.where(a == -1, np.where(b % 2 == 0, 1, -1), 0))
        return np.where(b < 0, unit, whole).astype(t)
    return np.power(a, b)


def _popcount(a: Values) -> Values:
    unsigned = np.asarray(a)
    return np.bitwise_count(unsigned.view(f"u{unsigned.dtype.itemsize}")).astype(np.int32)


def _clz(a: Values) -> Values:
    value = np.asarray(a)
    bits = value.dtype.itemsize * 8
    x = value.view(f"u{value.dtype.itemsize}").astype(np.uint64)
    n = np.zeros(x.shape, np.int32)
    for shift in (32, 16, 8, 4, 2, 1):
        high = x >> np.uint64(shift)
        n = np.where(high != 0, n + shift, n)
        x = np.where(high != 0, high, x)
    return np.where(value == 0, bits, bits - 1 - n).astype(np.int32)


def _ctz(a: Values) -> Values:
    value = np.asarray(a)
    x = value.view(f"u{value.dtype.itemsize}")
    lowest = x & (~x + x.dtype.type(1))
    bits = value.dtype.itemsize * 8
    return np.where(value == 0, bits, bits - 1 - _clz(lowest)).astype(np.int32)


def _rint(x: Values) -> Values:
    """Integers unchanged (NumPy's goes through float64, which cannot hold large ones)."""
    return x if np.asarray(x).dtype.kind in "iu" else np.rint(x)


def _nextafter(a: Values, b: Values) -> Values:
    """For equal arguments the second, as in C: NumPy before 2.5 returns a half's first."""
    return np.where(np.equal(a, b), b, np.nextafter(a, b))


def _erf(a: Values) -> Values:
    """W. J. Cody's error function (SciPy's), in float64 and rounded."""
    x = np.asarray(a)
    return np.vectorize(erf, otypes=[np.float64])(x.astype(np.float64)).astype(x.dtype)


def _erfc(a: Values) -> Values:
    x = np.asarray(a)
    return np.vectorize(erfc, otypes=[np.float64])(x.astype(np.float64)).astype(x.dtype)


def _fma(a: Values, b: Values, c: Values) -> Values:
    """Rounded once: float64 represents the products of float32 exactly."""
    if np.result_type(a, b, c) == np.float32:
        return (a.astype(np.float64) * b + c).astype(np.float32)
    return _multiply(a, b) + c


def _select(p: Values, a: Values, b: Values) -> Values:
    return np.where(p, a, b)


def _sign(a: Values) -> Values:
    return np.sign(a)


# --- the table -------------------------------------------------------------------------------

_define("add", 2, _same, np.add, symbol="+", commutative=True, reduces=True)
_define("subtract", 2, _number, np.subtract, symbol="-")
_define("multiply", 2, _same, _multiply, symbol="*", commutative=True, reduces=True)
_define("true_divide", 2, _divide, np.true_divide, symbol="/", cost=8)
_define("floor_divide", 2, _ordered_number, _floor_divide, symbol="//", cost=20)
_define("remainder", 2, _ordered_number, _remainder, symbol="%", cost=20)
_define("quot", 2, _ordered_number, _quot, cost=20)
_define("rem", 2, _ordered_number, _rem, cost=20)
_define("power", 2, _number, _power, symbol="**", cost=40)
_define("fma", 3, _number, _fma, cost=1)
_define("minimum", 2, _ordered, np.minimum, commutative=True, reduces=True)
_define("maximum", 2, _ordered, np.maximum, commutative=True, reduces=True)
_define("fmin", 2, _ordered, np.fmin, commutative=True, reduces=True)
_define("fmax", 2, _ordered, np.fmax, commutative=True, reduces=True)
_define("negative", 1, _number, np.negative, symbol="-")
_define("absolute", 1, _to_real, np.absolute)
_define("sign", 1, _number, _sign)

_define("equal", 2, _compare, np.equal, symbol="==", commutative=True)
_define("not_equal", 2, _compare, np.not_equal, symbol="!=", commutative=True)
_define("less", 2, _compare_ordered, np.less, symbol="<")
_define("less_equal", 2, _compare_ordered, np.less_equal, symbol="<=")
_define("greater", 2, _compare_ordered, np.greater, symbol=">")
_define("greater_equal", 2, _compare_ordered, np.greater_equal, symbol=">=")

_define("logical_and", 2, _logical, np.logical_and, commutative=True, reduces=True)
_define("logical_or", 2, _logical, np.logical_or, commutative=True, reduces=True)
_define("logical_xor", 2, _logical, np.logical_xor, commutative=True, reduces=True)
_define("logical_not", 1, _logical, np.logical_not)
_define("bitwise_and", 2, _integer_or_bool, np.bitwise_and, symbol="&", commutative=True,
        reduces=True)  # fmt: skip
_define("bitwise_or", 2, _integer_or_bool, np.bitwise_or, symbol="|", commutative=True,
        reduces=True)  # fmt: skip
_define("bitwise_xor", 2, _integer_or_bool, np.bitwise_xor, symbol="^", commutative=True,
        reduces=True)  # fmt: skip
_define("invert", 1, _integer_or_bool, np.invert, symbol="~")
_define("left_shift", 2, _integer, _left_shift, symbol="<<", cost=2)
_define("right_shift", 2, _integer, _right_shift, symbol=">>", cost=2)
_define("popcount", 1, _count_bits, _popcount, cost=2)
_define("clz", 1, _count_bits, _clz, cost=2)
_define("ctz", 1, _count_bits, _ctz, cost=2)

#: Elementary functions, with their costs.
ELEMENTARY = {
    "sqrt": 10, "exp": 20, "log": 20, "sin": 25, "cos": 25, "tan": 40, "arcsin": 30,
    "arccos": 30, "arctan": 30, "sinh": 30, "cosh": 30, "tanh": 30, "arcsinh": 40,
    "arccosh": 40, "arctanh": 40, "exp2": 20, "expm1": 25, "log2": 20, "log10": 20,
    "log1p": 25,
}  # fmt: skip
for _name, _cost in ELEMENTARY.items():
    _define(_name, 1, _float, _OWN.get(_name) or getattr(np, _name), cost=_cost)
_define("cbrt", 1, _real_float, np.cbrt, cost=30)
_define("erf", 1, _real_float, _erf, cost=30)
_define("erfc", 1, _real_float, _erfc, cost=40)
_define("arctan2", 2, _real_float, np.arctan2, cost=40)
_define("hypot", 2, _real_float, np.hypot, cost=15)
_define("fmod", 2, _ordered_number, _rem, cost=30)
_define("copysign", 2, _real_float, np.copysign, cost=2)
_define("nextafter", 2, _real_float, _nextafter, cost=6)
_define("floor", 1, _ordered, np.floor)
_define("ceil", 1, _ordered, np.ceil)
_define("trunc", 1, _ordered, np.trunc)
_define("rint", 1, _same, _rint)

_define("isnan", 1, _classify, np.isnan)
_define("isinf", 1, _classify, np.isinf)
_define("isfinite", 1, _classify, np.isfinite)
_define("signbit", 1, _compare_ordered, np.signbit)
_define("real", 1, _to_real, np.real, cost=0)
_define("imag", 1, _to_real, np.imag, cost=0)
_define("conjugate", 1, _number, np.conjugate, cost=0)
_define("complex", 2, lambda t: None, _complex, cost=0)

# `cast` and `select` carry their own typing (see expr.py).
_define("cast", 1, _same, lambda a: a, cost=1)
_define("select", 3, _same, _select, cost=1)
#: The identity, constant for derivatives (autodiff/).
_define("stop", 1, _same, lambda a: a, cost=0, formula=lambda a: a)
#: `x`, drawn from the gamma distribution with parameter `a`: differentiated as a quantile, not
#: through the algorithm that found it (autodiff/).
_define("gamma_draw", 2, _real_float, lambda x, a: x, cost=0, formula=lambda x, a: x)
#: `value`; `tested`, of any type, is computed only for the indices of its reads, which a checked
#: program tests: when an expression is simplified away, its reads are kept by this (simplify.py).
_define("also", 2, lambda t: None, lambda value, tested: value, cost=0)


# --- operations of kernels alone ----------------------------------------------------------------


def _reciprocal_divide(n: Values, multiplier: Values, shift: Values) -> Values:
    wide = np.asarray(n).astype(np.uint64) * np.asarray(multiplier).view(np.uint32)
    return (wide >> (np.asarray(shift).astype(np.uint64) + np.uint64(31))).astype(np.int32)


def _unsigned(t: ScalarType) -> ScalarType:
    return {16: uint16, 32: uint32, 64: uint64}[t.bits]


def _log_size(x: Values, y: Values) -> Values:
    return np.log(x + 1j * y).real


#: Functions of floats whose last bits depend on the backend; and those of complex numbers.
_ROUNDED = frozenset(ELEMENTARY) - {"sqrt"} | {"cbrt", "erf", "erfc", "arctan2", "hypot", "power"}
_COMPLEX_ROUNDED = _ROUNDED | {"sqrt", "multiply", "true_divide", "absolute"}


def is_rounded(op: Primitive, of: ScalarType) -> bool:
    """Whether the last bits of a function of floats of this type depend on the backend."""
    return of.is_inexact and op.name in (_COMPLEX_ROUNDED if of.is_complex else _ROUNDED)


#: Primitives of kernels in addition to the table.  Results are unspecified where nothing is said.
KERNEL: dict[str, Primitive] = {
    op.name: op
    for op in (
        # `n // d` of int32 numbers 0 ≤ n and 1 ≤ d, given the reciprocal (multiplier, shift) of d
        # (`skeletons/ir/narrow.py`): unsigned, in 64 bits, `n · multiplier >> (31 + shift)`, which
        # is the high half of `2n · multiplier`, shifted.
        Primitive("reciprocal_divide", 3, lambda t: (t, t) if t == int32 else None,
                  _reciprocal_divide, cost=3),
        # The bits of a float as an unsigned integer, and back.
        Primitive("to_bits", 1, lambda t: (t, _unsigned(t)),
                  lambda a: np.asarray(a).view(f"u{np.asarray(a).dtype.itemsize}")),
        Primitive("from_bits", 1, _same,
                  lambda a: np.asarray(a).view(f"f{np.asarray(a).dtype.itemsize}")),
        # Integers: a / b towards zero, where b is not 0 and the quotient does not wrap.
        Primitive("divide", 2, _integer, lambda a, b: _quot(a, b), cost=20),
        # Integers: the remainder of that division.
        Primitive("modulo", 2, _integer, lambda a, b: _rem(a, b), cost=20),
        # Integers: by a number of bits from 0 to the width − 1.
        Primitive("shift_left", 2, _integer, lambda a, b: _left_shift(a, b), cost=2),
        Primitive("shift_right", 2, _integer, lambda a, b: _right_shift(a, b), cost=2),
        # Integers: to a power that is not negative.
        Primitive("natural_power", 2, _integer, lambda a, b: _power(a, b), cost=40),
        # Floats towards zero as integers: within the range (`Target` says what is beyond).
        Primitive("to_integer", 1, lambda t: None, lambda a: np.trunc(a)),
        # A float32 number that the half-precision type of the result represents.
        Primitive("narrow", 1, lambda t: None, lambda a: a),
        # log |x + iy|
        Primitive("log_size", 2, _real_float, _log_size, cost=60),
    )
}  # fmt: skip
RECIPROCAL_DIVIDE, TO_BITS, FROM_BITS = (
    KERNEL[name] for name in ("reciprocal_divide", "to_bits", "from_bits")
)


def value_of(
    op: Primitive, types: Sequence[ScalarType], values: Sequence[Values], result: ScalarType
) -> Values:
    """The meaning of an operation: its value on numbers or arrays of `types`, as an array.

    Everything that evaluates expressions with NumPy goes through here.  Halves are computed in
    float32 and rounded once, except by nextafter; functions of complex64 are computed in
    complex128.
    """
    with np.errstate(all="ignore"):
        given = [np.asarray(v, t.numpy) for v, t in zip(values, types, strict=True)]
        if op.name == "cast":
            return convert(given[0], result)
        if op.name in ("to_bits", "from_bits"):
            return given[0].view(result.numpy)
        for k, t in enumerate(types):
            if t.is_float and t.bits == 16 and op.name != "nextafter":
                given[k] = given[k].astype(np.float32)
            elif t == complex64 and (op.name in ELEMENTARY or op.name == "power"):
                given[k] = given[k].astype(np.complex128)
        return convert(op.numpy(*given), result)


def convert(value: Values, target: ScalarType) -> Values:
    """A NumPy value in another type: integers wrap, floats saturate, NaN gives 0."""
    value = np.asarray(value)
    if value.dtype == target.numpy:
        return value
    if target.family == "bool":
        return value.astype(np.bool_)
    source = value.dtype
    if target.is_integer and (source.kind == "c"):
        value = value.real
        source = value.dtype
    if target.is_integer and source.kind not in "iub":
        wide = value.astype(np.float64)
        low, high = target.lowest, target.highest
        # 2^63 − 1 is no float64: compare with the power of two above it.
        inside = (wide >= float(low)) & (wide < float(high) + 1.0)
        with np.errstate(all="ignore"):
            kept = np.where(inside, wide, 0.0)
            if target.bits == 64 and not target.signed:
                big = kept >= 2.0**63
                small = np.where(big, kept - 2.0**63, kept).astype(np.int64).astype(np.uint64)
                body = np.where(big, small + np.uint64(1 << 63), small)
            else:
                body = kept.astype(np.int64).astype(target.numpy)
        body = np.where(wide >= float(high) + 1.0, np.asarray(high, target.numpy), body)
        return np.where(wide < float(low), np.asarray(low, target.numpy), body).astype(target.numpy)
    if source.kind == "c" and not target.is_complex:
        value = value.real
    with np.errstate(all="ignore"):
        return value.astype(target.numpy)
