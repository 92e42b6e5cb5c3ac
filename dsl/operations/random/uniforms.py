"""Uniform bits, integers and floats."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import simplify
from ...annotations import ArrayLike, DTypeLike, ShapeLike, Value
from ...errors import DTypeError, ShapeError
from ...expr import Const
from ...scalar import Scalar, as_count, lift
from ...types import ScalarType, as_type, float32, float64, int32, int64, uint32, uint64
from ..common import operation
from ..control import while_loop
from ..elements.functions import cast, where
from ..elements.lifting import elementwise
from . import philox


@operation
def bits(key: philox.KeyLike, shape: ShapeLike = (), dtype: DTypeLike = uint32) -> Value:
    """Uniform random bits, the same on every backend.

    Parameters
        dtype: uint8, uint16, uint32 or uint64.

    The element with row-major number i is word i mod 4 of Philox block i div 4; of uint64, words
    2 (i mod 2) (high) and 2 (i mod 2) + 1 (low) of block i div 2; narrower types are the top bits
    of a uint32 each.

    >>> td.run(td.random.bits(td.random.key(0), 3))
    array([1713891541, 3781805453, 3159862348], dtype=uint32)
    """
    t = as_type(dtype)
    if not t.is_integer or t.signed:
        raise DTypeError(
            f"random.bits gives unsigned integers, not {t}.",
            hint="td.random.integers(key, shape, low, high) gives numbers of any integer type.",
        )

    def draw(key: philox.ScalarKey, i: Scalar) -> Scalar:
        word = philox.drawn_word(key, i, max(t.bits, 32))
        return cast(word >> (32 - t.bits), t) if t.bits < 32 else word

    return philox.random_values("bits", key, shape, draw)


def float_type(dtype: DTypeLike, name: str) -> ScalarType:
    if isinstance(dtype, int | float):
        raise DTypeError(
            f"random.{name}: the type of the numbers is {dtype!r}.",
            hint="The first argument is a key, td.random.key(0).  A shape of several numbers is a "
            f"tuple: td.random.{name}(key, (2, 3)).  The type comes after it; give what follows by "
            "its name, as in td.random.normal(key, shape, loc=2.0).",
        )
    t = as_type(dtype)
    if t not in (float32, float64):
        raise DTypeError(
            f"random.{name} gives float32 or float64, not {t}.",
            hint=f"Convert the numbers: td.random.{name}(key, …, dtype=td.float32).astype(td.{t}).",
        )
    return t


def unit_fraction(word: Scalar, t: ScalarType) -> Scalar:
    """A uniform number in [0, 1) of a word as wide as `t`: exactly."""
    shift, unit = (8, 2.0**-24) if t == float32 else (11, 2.0**-53)
    return cast(word >> shift, t) * unit


def odd_fraction(word: Scalar, t: ScalarType) -> Scalar:
    """A number in (−1, 1) of a word as wide as `t`: 2u − 1 of u = (k + ½) / 2ⁿ, k its top n bits.

    Exactly: an odd integer 2k + 1 − 2ⁿ, divided by 2ⁿ."""
    n, whole = (23, int32) if t == float32 else (52, int64)
    k = cast(word >> (t.bits - n), whole)
    return cast(2 * k + (1 - (1 << n)), t) * 2.0**-n


def as_float(value: Any, t: ScalarType) -> Scalar:
    """A parameter of a distribution in its type."""
    return Scalar(simplify.cast(lift(value, "random"), t))


def is_literal(value: Any, number: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == number


def _between(u: Scalar, low: Any, high: Any, t: ScalarType) -> Scalar:
    """low + (high − low) u, in two roundings on every backend."""
    if is_literal(low, 0) and is_literal(high, 1):
        return u
    low, high = as_float(low, t), as_float(high, t)
    return low + elementwise("fma", high - low, u, -0.0)  # (never contracted)


@operation
def uniform(
    key: philox.KeyLike, shape: ShapeLike = (), dtype: DTypeLike = float64, low: ArrayLike = 0.0,
    high: ArrayLike = 1.0,
) -> Value:  # fmt: skip
    """Uniform floats in [low, high), the same bits on every backend.

    Parameters
        low, high: numbers, or arrays that broadcast to `shape`.

    In [0, 1), float32 are the top 24 bits of `bits(key, shape, uint32)` times 2⁻²⁴, float64 the top
    53 of `bits(key, shape, uint64)` times 2⁻⁵³; the result is low + (high − low) u.

    >>> td.run(td.random.uniform(td.random.key(0), 3)).round(3)
    array([0.399, 0.736, 0.972])
    """
    t = float_type(dtype, "uniform")

    def draw(key: philox.ScalarKey, i: Scalar, low: Any, high: Any) -> Scalar:
        return _between(unit_fraction(philox.drawn_word(key, i, t.bits), t), low, high, t)

    return philox.random_values("uniform", key, shape, draw, low, high)


@operation
def integers(
    key: philox.KeyLike, shape: ShapeLike, low: ArrayLike, high: ArrayLike, dtype: DTypeLike = int64
) -> Value:
    """Uniform integers low ≤ k < high, the same on every backend, all equally likely.

    Parameters
        low, high: integers, known at trace time or not, or arrays that broadcast to `shape`; `high`
            may be one more than the largest number of the type. Where low ≥ high: an error for
            numbers, `low` for elements of arrays.
        dtype: an integer type.

    Lemire's method (2019), without bias: of x, a word of 32 bits (64 for types of 64 bits), and
    n = high − low, the number is low + ⌊x n / 2³²⌋, unless x n mod 2³² < 2³² mod n.  Such an x, of
    which there are fewer than n in 2³², is replaced by the next word of the element's own.

    >>> td.run(td.random.integers(td.random.key(0), 5, 1, 7))
    array([3, 5, 6, 5, 1])
    """
    t = as_type(dtype)
    if not t.is_integer:
        raise DTypeError(
            f"random.integers gives integers, not {t}.",
            hint="td.random.uniform(key, shape) gives floats.",
        )
    for value in (low, high):
        if isinstance(value, int | np.integer) and not t.lowest <= int(value) <= t.highest + 1:
            raise DTypeError(
                f"random.integers: {int(value)} is out of the range of {t} "
                f"({t.lowest} … {t.highest}).",
                hint="dtype= names a wider type.",
            )
    first, end = (int(v) if isinstance(v, int | np.integer) else None for v in (low, high))
    if first is not None and end is not None and first >= end:
        raise ShapeError(
            f"random.integers: there are no integers from {first} to below {end}.",
            hint="low is the smallest number, high one more than the largest; the shape comes "
            "before them: td.random.integers(key, shape, low, high).",
        )
    wide = uint64 if t == uint64 else int64
    bits = 64 if t.bits == 64 else 32

    def draw(key: philox.ScalarKey, i: Scalar, low: Any, high: Any) -> Scalar:
        if first is not None and end is not None:
            base = _whole(first, wide)
            span = Scalar(Const((end - first) % (1 << 64), uint64))
        else:
            base, most = (_whole(v, wide) for v in (low, high))
            span = cast(most, uint64) - cast(base, uint64)
            if end != t.highest + 1:
                span = where(most > base, span, 1)
        return cast(base, t) + cast(_below(key, i, span, bits), t)

    return philox.random_values("integers", key, shape, draw, low, high)


def _whole(value: Any, t: ScalarType) -> Scalar:
    """A bound of `integers`; a literal modulo the range of the type."""
    if isinstance(value, int | np.integer):
        return Scalar(Const((int(value) - t.lowest) % (1 << 64) + t.lowest, t))
    return Scalar(simplify.cast(as_count(value, "random.integers"), t))


def _below(key: philox.ScalarKey, i: Scalar, span: Scalar, bits: int) -> Scalar:
    """A uint64 below the uint64 `span`: from 1 to 2 to the number of bits (0 means 2⁶⁴)."""
    uneven = ((1 << 32) if bits == 32 else 0 - span) % span  # x % 0 is 0

    def product(word: Scalar) -> tuple[Scalar, Scalar]:
        """The integral part of word · span / 2 to the number of bits, and the rest."""
        if bits == 64:
            return where(span == 0, word, _high(word, span)), word * span
        wide = cast(word, uint64) * span
        return wide >> 32, wide & 0xFFFFFFFF

    found, rest = product(philox.drawn_word(key, i, bits))
    if isinstance(uneven._expr, Const) and not uneven._expr.value:
        return found
    block = philox.number_of_block(i, bits)

    def retry(state: tuple[Scalar, Scalar, Scalar]) -> tuple[Scalar, Scalar, Scalar]:
        attempt = state[0] + 1
        return attempt, *product(
            philox.word_of(philox.random_block(key, block, attempt, philox.RETRY), i, bits)
        )

    done = while_loop(lambda state: state[2] < uneven, retry, (uint32(0), found, rest))
    return done[1]


def _high(x: Scalar, y: Scalar) -> Scalar:
    """The high 64 bits of the product of two uint64."""
    (x1, x0), (y1, y0) = (((v >> 32), v & 0xFFFFFFFF) for v in (x, y))
    middle = x1 * y0 + ((x0 * y0) >> 32)
    other = x0 * y1 + (middle & 0xFFFFFFFF)
    return x1 * y1 + (middle >> 32) + (other >> 32)
