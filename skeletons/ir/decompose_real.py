"""Rules for bools, integers, floats, and conversions between all types.

Integers wrap; quotients by zero are 0; shifts by the bit width or more give 0, or for right shifts
the sign. float16 and bfloat16 compute in float32 and round after every operation; +, -, ×, ÷ and
the square root are then correctly rounded, because 24 ≥ 2·11 + 2.
"""

from __future__ import annotations

from treadle.dsl.expr import Const
from treadle.dsl.primitives import TABLE, real_part
from treadle.dsl.simplify import LOGICAL_ON_BOOL
from treadle.dsl.types import ScalarType, as_type, bool_, float32, float64, int32

from .rules import POWERS, Rule, Value, inline, rule, where

# --- what is the identity, or always the same -------------------------------------------------


@rule("bool integer", "floor", "ceil", "trunc", "rint")
@rule("bool integer float half", "conjugate", "real")
def _same(a: Value) -> Value:
    return inline(a)


@rule("bool integer", "isnan", "isinf")
def _false(a: Value) -> Value:
    return inline(a.literal(0, bool_))


@rule("bool integer", "isfinite")
def _true(a: Value) -> Value:
    return inline(a.literal(1, bool_))


@rule("bool integer float half")
def imag(a: Value) -> Value:
    return inline(a.literal(0))


# --- bools ------------------------------------------------------------------------------------


def _of_bools(name: str, other: str) -> None:
    def logical(*args: Value) -> Value:
        return inline(args[0].apply(TABLE[other], *args[1:]))

    rule("bool", name)(logical)


for _name, _other in LOGICAL_ON_BOOL.items():
    _of_bools(_name, _other)
rule("bool", "absolute")(_same)
rule("bool", "signbit")(_false)


# --- integers ---------------------------------------------------------------------------------


@rule("integer")
def absolute(a: Value) -> Value | None:
    """|a|; the lowest number maps to itself."""
    if not a.type.signed:
        return inline(a)
    return None if a.body.has("integer absolute") else where(a < 0, -a, a)


@rule("integer", "sign")
def _integer_sign(a: Value) -> Value:
    positive = (a != 0).cast(a.type)
    return a.shift_right(a.type.bits - 1) | positive if a.type.signed else inline(positive)


@rule("integer", "signbit")
def _integer_signbit(a: Value) -> Value:
    return inline(a < 0 if a.type.signed else a.literal(0, bool_))


@rule("integer", "fma")
def _integer_fma(a: Value, b: Value, c: Value) -> Value:
    return inline(a * b + c)


@rule("integer")
def fmin(a: Value, b: Value) -> Value:
    return inline(a.minimum(b))


@rule("integer")
def fmax(a: Value, b: Value) -> Value:
    return inline(a.maximum(b))


# Division: quotients rounded down (`floor_divide`, `remainder`) or towards zero (`quot`, `rem`).


def _is_plain(a: Value, b: Value, floored: bool) -> bool:
    """Whether the machine's division has the required semantics here and cannot trap."""
    if not a.type.signed:
        return b.known.nonzero
    return b.known.positive and (a.known.natural or not floored)


def _shift_of(b: Value) -> int | None:
    """The number of bits to shift by, if the divisor is a constant power of two."""
    d = 0 if b.known.constant is None or not b.type.signed else int(b.known.constant)
    return d.bit_length() - 1 if d > 0 and d & (d - 1) == 0 else None


def _total(b: Value, found: Value, of_minus_one: Value) -> Value:
    """`found` completed for the divisors it does not cover: 0 for b = 0; `of_minus_one` for b = −1,
    by which the lowest number wraps."""
    if b.known.constant is not None:
        divisor = int(b.known.constant)
        return of_minus_one if divisor == -1 else found if divisor else found.literal(0)
    if isinstance(of_minus_one.expr, Const) and b.type.signed:
        return where((b == 0) | (b == -1), 0, found)
    if b.type.signed:
        found = where(b == -1, of_minus_one, found)
    return where(b == 0, 0, found)


def _wrong(rest: Value, b: Value) -> Value:
    """Whether truncated division rounded up, so that floor division is one less."""
    return (rest != 0) & ((rest ^ b) < 0)


@rule("integer")
def floor_divide(a: Value, b: Value) -> Value:
    """a / b rounded down, as Python does it; 0 for b = 0, and the lowest a by -1 wraps."""
    if _is_plain(a, b, True):
        return inline(a.divide(b))
    if (shift := _shift_of(b)) is not None:
        return inline(a.shift_right(shift))
    if not a.type.signed:
        return _total(b, a.divide(b), a)
    q = a.divide(b).named("q")
    rest = (a - q * b).named("rest")
    return _total(b, where(_wrong(rest, b), q - 1, q), -a)


@rule("integer")
def remainder(a: Value, b: Value) -> Value:
    """a modulo b with the sign of b, as Python does it; 0 for b = 0."""
    if _is_plain(a, b, True):
        return inline(a.modulo(b))
    if _shift_of(b) is not None:
        return inline(a & int(b.known.constant) - 1)
    if not a.type.signed:
        return _total(b, a.modulo(b), a)
    rest = a.modulo(b).named("rest")
    return _total(b, where(_wrong(rest, b), rest + b, rest), a.literal(0))


@rule("integer")
def quot(a: Value, b: Value) -> Value:
    """a / b towards zero; 0 for b = 0, and the lowest a by -1 wraps."""
    if _is_plain(a, b, False):
        return inline(a.divide(b))
    return _total(b, a.divide(b), -a if a.type.signed else a)


@rule("integer")
def rem(a: Value, b: Value) -> Value:
    """a − b · quot(a, b); 0 for b = 0."""
    if _is_plain(a, b, False):
        return inline(a.modulo(b))
    return _total(b, a.modulo(b), a.literal(0))


def _unsigned(b: Value) -> Value:
    """A shift count as unsigned, so that negative counts become large ones."""
    return b.cast(as_type(f"uint{b.type.bits}"))


def _is_within(b: Value) -> bool:
    """Whether a shift count is known to be from 0 to the bit width − 1."""
    constant = b.known.constant
    return b.known.within or (constant is not None and 0 <= int(constant) < b.type.bits)


@rule("integer")
def left_shift(a: Value, b: Value) -> Value:
    """a << b; 0 when b is negative or not less than the width."""
    if _is_within(b):
        return inline(a.shift_left(b))
    return where(_unsigned(b) < a.type.bits, a.shift_left(b), 0)


@rule("integer")
def right_shift(a: Value, b: Value) -> Value:
    """a >> b; the sign of a (0 for unsigned) when b is negative or not less than the width."""
    if _is_within(b):
        return inline(a.shift_right(b))
    if a.type.signed:
        return a.shift_right(_unsigned(b).minimum(a.type.bits - 1).cast(b.type))
    return where(b < a.type.bits, a.shift_right(b), 0)


@rule("integer", "power")
def _integer_power(a: Value, b: Value) -> Value:
    """a to the power b, wrapping; negative powers are 0 except for those of 1 and −1."""
    if b.known.constant is not None and 0 <= int(b.known.constant) <= 64:
        return _squared(a, int(b.known.constant))
    if not a.type.signed:
        return a.natural_power(b)
    unit = where(a == 1, 1, where(a == -1, where((b & 1) != 0, -1, a.literal(1)), 0))
    return where(b < 0, unit, a.natural_power(b.maximum(0)))


def _squared(a: Value, exponent: int) -> Value:
    result, square = None, a
    while exponent:
        if exponent & 1:
            result = square if result is None else result * square
        exponent >>= 1
        if exponent:
            square = square * square
    return a.literal(1) if result is None else result


# --- floats -----------------------------------------------------------------------------------


@rule("float")
def isnan(x: Value) -> Value | None:
    return None if x.body.has("classification") else x != x


@rule("float")
def isinf(x: Value) -> Value | None:
    return None if x.body.has("classification") else abs(x) == float("inf")


@rule("float")
def isfinite(x: Value) -> Value | None:
    return None if x.body.has("classification") else abs(x) < float("inf")


@rule("float")
def signbit(x: Value) -> Value | None:
    if x.body.has("classification"):
        return None
    return x.to_bits().cast(as_type(f"int{x.type.bits}")) < 0


@rule("float")
def sign(x: Value) -> Value:
    """−1, 0 or 1; NaN for NaN."""
    return where(x != x, x, where(x > 0.0, 1.0, where(x < 0.0, -1.0, x.literal(0.0))))


@rule("integer float", "fmod")
def _fmod(a: Value, b: Value) -> Value:
    return inline(a.rem(b))


@rule("float", "quot")
def _float_quot(a: Value, b: Value) -> Value:
    return inline((a / b).trunc())


@rule("float", "floor_divide", large=True)
def _float_floor_divide(a: Value, b: Value) -> Value:
    """The quotient rounded down, from the exact remainder, as Python and NumPy define it."""
    rest = a.rem(b).named("rest")
    q = ((a - rest) / b).named("q")
    low = where((rest != 0.0) & ((b < 0.0) ^ (rest < 0.0)), q - 1.0, q).named("low")
    down = low.floor().named("down")
    nearest = where(low - down > 0.5, down + 1.0, down)
    zero = a.literal(0.0)
    return where(b == 0.0, a / b, where(low == 0.0, zero.copysign(a / b), nearest))


@rule("float", "remainder", large=True)
def _float_remainder(a: Value, b: Value) -> Value:
    """The exact remainder with the sign of b; NaN for b = 0."""
    rest = a.rem(b).named("rest")
    return where(rest == 0.0, a.literal(0.0).copysign(b),
                 where((b < 0.0) ^ (rest < 0.0), rest + b, rest))  # fmt: skip


@rule("float")
def power(x: Value, y: Value) -> Value | None:
    if y.known.constant is None or float(y.known.constant) not in (1.0, 2.0, 3.0):
        return None
    exponent = int(y.known.constant)
    return inline(_squared(x, exponent), POWERS[exponent])


@rule("float half")
def nextafter(a: Value, b: Value) -> Value | None:
    """The neighbour of a towards b, computed on the bit pattern."""
    if a.type.bits > 16 and a.body.has("nextafter"):
        return None
    bits = a.to_bits()
    up = (a < b).named("up")
    least = where(up, 1, bits.literal(1 << a.type.bits - 1 | 1))
    moved = where(up ^ (a > 0.0), bits - 1, bits + 1)
    found = where(a == 0.0, least, moved).from_bits(type_=a.type)
    return where((a != a) | (b != b), a + b, where(a == b, b, found))


# --- half-precision floats --------------------------------------------------------------------

#: Operations whose results are representable in the operands' type: no rounding afterwards.
_EXACT = frozenset(("minimum", "maximum", "fmin", "fmax", "negative", "absolute", "sign",
                    "copysign", "floor", "ceil", "trunc", "rint", "rem", "fmod"))  # fmt: skip


def _wide(x: Value) -> Value:
    """A half-precision number converted to float32."""
    if x.known.constant is not None:
        return x.literal(float(x.known.constant), float32)
    return x.cast(float32)


def _of_halves(name: str) -> Rule:
    def computed(x: Value, *others: Value) -> Value:
        found = _wide(x).apply(TABLE[name], *map(_wide, others))
        if found.type == bool_:
            return inline(found)
        return inline(found.narrow(type_=x.type) if name in _EXACT else found.cast(x.type))

    return computed


for _name, _op in TABLE.items():
    _ruled = _op.rule(float32)
    if _ruled is not None and _ruled[0] == float32 and _name not in (
            "cast", "select", "complex", "conjugate", "real", "imag", "nextafter"):  # fmt: skip
        rule("half", _name)(_of_halves(_name))


# --- conversions: integers wrap, floats saturate, NaN gives 0 -----------------------------------


@rule("bool integer", "cast")
def _integer_cast(a: Value, to: ScalarType) -> Value | None:
    if to == a.type:
        return inline(a)
    if to == bool_:
        return inline(a != 0)
    if to.is_complex:
        return inline(a.cast(real_part(to)).complex(0.0, type_=to))
    return inline(a.cast(float32).cast(to)) if to.is_float and to.bits == 16 else None


@rule("float", "cast")
def _float_cast(x: Value, to: ScalarType) -> Value | None:
    if to == x.type:
        return inline(x)
    if to == bool_:
        return inline(x != 0.0)
    if to.is_complex:
        return inline(x.cast(real_part(to)).complex(0.0, type_=to))
    if to.is_integer:
        saturates = x.body.has("saturating conversion")
        return _saturated(x, to) if saturates else _clamped(x, to)
    if x.type == float64 and to.bits == 16 and not x.body.has(f"float64 to {to.name}"):
        return inline(_to_odd(x).cast(to) if to.name == "float16" else x.cast(float32).cast(to))
    return None


@rule("half", "cast")
def _half_cast(x: Value, to: ScalarType) -> Value | None:
    if to == x.type:
        return inline(x)
    return None if to == float32 else inline(x.cast(float32).cast(to))


@rule("complex", "cast")
def _complex_cast(z: Value, to: ScalarType) -> Value | None:
    if to == z.type:
        return inline(z)
    if to == bool_:
        return inline((z.real != 0.0) | (z.imag != 0.0), "to_bool")
    if not to.is_complex:
        return inline(z.real.cast(to))
    if z.body.has("complex conversion"):
        return None
    part = real_part(to)
    return z.real.cast(part).complex(z.imag.cast(part), type_=to)


def _saturated(x: Value, to: ScalarType) -> Value:
    """A float truncated toward zero and clamped to the integer type's range; 0 for NaN."""
    if to.bits < 32:
        return inline(x.cast(int32).maximum(int(to.lowest)).minimum(int(to.highest)).cast(to))
    x.body.doc = f"A float towards zero as {to.name}, held within the range; 0 of NaN."
    whole = x.to_integer(type_=to)
    of_nan = x.body.has(f"{x.type.name} to {to.name} of NaN")
    return inline(whole) if of_nan else where(x != x, 0, whole)


def _clamped(x: Value, to: ScalarType) -> Value:
    """`_saturated` for targets whose conversion is unspecified outside the range."""
    low, high = int(to.lowest), int(to.highest)
    wide = to if to.bits >= 32 else int32
    least = x.literal(float(low))
    above = where(x > least, x, least)  # of NaN: `least`
    if to.bits < (32 if x.type == float32 else 64):  # the end is a float
        most = x.literal(float(high))
        found = where(above < most, above, most).to_integer(type_=wide)
    else:
        beyond = x >= float(high + 1)
        found = where(beyond, high, where(beyond, least, above).to_integer(type_=wide))
    if low:
        found = where(x != x, 0, found)
    return found.cast(to)


def _to_odd(x: Value) -> Value:
    """float64 to float32, rounding inexact results to odd, so that a second rounding gives the
    result of a single one.

    (Boldo and Melquiond, "When double rounding is odd".)
    """
    single = x.cast(float32)
    back = single.cast(float64)
    bits = single.to_bits()
    toward_zero = bits - (abs(back) > abs(x)).cast(bits.type)
    return (toward_zero | (back != x).cast(bits.type)).from_bits(type_=float32)
