"""`td.random`: random numbers as functions of a key and an index.

Philox 4×32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3; 2011) maps
a counter of four words and a key of two to four random words.  There is no state: element i of an
array takes its words from the block of its own number, so arrays of random numbers are element-wise
operations like any other, fused with what surrounds them and computed in any order.

    counter (c0, c1, c2, c3)            random words for
    (block, block >> 32, 0, 0)          `bits`, `uniform`, `normal`, `exponential`, `integers`
    (n, n >> 32, 0, 1)                  the key `fold_in(key, n)`
    (number, number >> 32, attempt, 2)  draws of an element that may be rejected (`integers` after
                                        the first, `gamma`, `beta`, `poisson`)

Every distribution is a function of a scalar key and an element's number (`_Draw`), called with the
number 0 inside kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from .. import late_binding as later
from .. import simplify
from ..annotations import ArrayLike, DTypeLike, IntLike, ShapeLike, Value
from ..array import Array
from ..errors import DTypeError, NestedParallelismError, ShapeError, user_location
from ..expr import Const, Expr, Index, constant
from ..frontend.sources import as_array, is_arraylike, use
from ..frontend.tracing import enclosing_kernel, forbid_nesting
from ..graph import Check, Generate, Label
from ..scalar import Scalar, as_count, lift, refuse_traced
from ..shapes import as_shape, require, show_shape
from ..types import ScalarType, as_type, float32, float64, int32, int64, uint32, uint64
from .common import normalise_axis, operation, trace_elements
from .control import cond, while_loop
from .elements.functions import cast, elementwise, exp, floor, isfinite, log, log1p, sqrt, where
from .indexing import index_space
from .reducing import irregular, scans

__all__ = [
    "beta",
    "bits",
    "choice",
    "exponential",
    "fold_in",
    "gamma",
    "integers",
    "key",
    "normal",
    "permutation",
    "poisson",
    "shuffle",
    "split",
    "uniform",
]

#: A key inside kernels: two scalars of type uint32.
ScalarKey: TypeAlias = tuple[Scalar, Scalar]
#: A key: an array (2,) of uint32, or a `ScalarKey`.
KeyLike: TypeAlias = ArrayLike | ScalarKey
Words: TypeAlias = tuple[Scalar, Scalar, Scalar, Scalar]
#: The element with a row-major number, under a key.
_Draw: TypeAlias = Callable[[ScalarKey, Scalar], Any]

_MULTIPLIERS, _WEYL, _ROUNDS = (0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85), 10
_FIRST, _KEYS, _AGAIN = 0, 1, 2  # the last word of counters


# --- Philox ----------------------------------------------------------------------------------


def _u32(value: Any) -> Scalar:
    made: Scalar = cast(value, uint32)
    return made


def _halves(value: Scalar) -> tuple[Scalar, Scalar]:
    """The high and the low half of a uint64."""
    return _u32(value >> 32), _u32(value)


def philox(counter: Words, key: ScalarKey) -> Words:
    """Ten rounds of Philox 4×32."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(_ROUNDS):
        high0, low0 = _halves(cast(c0, uint64) * _MULTIPLIERS[0])
        high1, low1 = _halves(cast(c2, uint64) * _MULTIPLIERS[1])
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = k0 + _WEYL[0], k1 + _WEYL[1]
    return c0, c1, c2, c3


def _block(key: ScalarKey, number: Scalar, attempt: Any = 0, use: int = _FIRST) -> Words:
    """The words of a block, whose number is an int64 or a uint64."""
    last = Scalar(Const(use, uint32))
    return philox((_u32(number), _u32(number >> 32), _u32(attempt), last), key)


def _wide(high: Scalar, low: Scalar) -> Scalar:
    made: Scalar = (cast(high, uint64) << 32) | cast(low, uint64)
    return made


def _word(words: Words, i: Scalar, bits: int) -> Scalar:
    """The word of element i among those of its block: one of four, or of two that are 64 bits."""
    odd = (i & 1) == 1
    if bits == 64:
        return _wide(where(odd, words[2], words[0]), where(odd, words[3], words[1]))
    low, high = where(odd, words[1], words[0]), where(odd, words[3], words[2])
    made: Scalar = where((i & 2) == 2, high, low)
    return made


def _number_of_block(i: Scalar, bits: int) -> Scalar:
    made: Scalar = i >> (1 if bits == 64 else 2)
    return made


def _drawn(key: ScalarKey, i: Scalar, bits: int) -> Scalar:
    """Element i of `bits` in type uint32 or uint64."""
    return _word(_block(key, _number_of_block(i, bits)), i, bits)


# --- keys and shapes -------------------------------------------------------------------------


def _refused_key(what: str, name: str) -> DTypeError:
    return DTypeError(
        f"random.{name} needs a key, two numbers of type uint32; got {what}.",
        hint="Make one of a number, key = td.random.key(0), and others of it: "
        "k1, k2 = td.random.split(key), or td.random.fold_in(key, i).",
    )


def _held_key(key: Any, name: str) -> tuple[Callable[[], ScalarKey], tuple[Check, ...]]:
    """A function that gives the words of a key, where it is called, and the check of its extent."""
    if isinstance(key, tuple) and not is_arraylike(key):
        if len(key) != 2:
            raise _refused_key(f"a tuple of {len(key)}", name)
        words = [lift(word, f"random.{name}") for word in key]
        if any(not e.type.is_integer for e in words):
            raise _refused_key(f"numbers of type {words[0].type}", name)
        first, second = (Scalar(simplify.cast(e, uint32)) for e in words)
        return lambda: (first, second), ()
    if isinstance(key, Scalar | int | float | complex | np.generic) or key is None:
        raise _refused_key(f"a {key.dtype}" if isinstance(key, Scalar) else repr(key), name)
    array = as_array(key, f"random.{name}")
    if not array.structure.is_leaf or array.types[0] != uint32:
        raise _refused_key(f"elements of type {array.structure.describe(array.types)}", name)
    if array.ndim != 1:
        several = "  keys[k] is one of several." if array.ndim == 2 else ""
        raise ShapeError(
            f"random.{name} needs one key, an array of shape (2,), got one of rank {array.ndim}.",
            hint=f"td.random.key(0) makes one; td.random.split(key, n) several.{several}",
        )
    checks = require(
        array._shape[0], constant(2),
        f"random.{name} needs a key of two numbers, got {{left}}.",
        hint="td.random.key(0) makes one.",
    )  # fmt: skip

    def words_of() -> ScalarKey:
        a, b = (Scalar(array._element((constant(k),))[0]) for k in range(2))
        return a, b

    return words_of, checks


def _is_scalar(shape: Any) -> bool:
    return isinstance(shape, tuple | list) and len(shape) == 0


def _random(
    name: str, key: Any, shape: ShapeLike, draw: Callable[..., Any], *arguments: Any
) -> Any:
    """The array of `shape` of draws: `draw(key, number of the element, arguments…)`; arguments that
    are arrays broadcast to the shape.  Inside a kernel, where the shape is (), one scalar."""
    words, checks = _held_key(key, name)
    outer = enclosing_kernel()
    if outer is not None:
        if not _is_scalar(shape):
            raise NestedParallelismError(
                f"random.{name} of shape {shape!r} was called inside the scalar function of "
                f"{outer[0]!r}, where there is one value per element.",
                also=((f"the enclosing '{outer[0]}' is here:", outer[1]),),
                hint=f"Draw single numbers, td.random.{name}(td.random.fold_in(key, i), ()), or "
                "make the array outside, and index it.",
            )
        return draw(words(), Scalar(constant(0)), *map(_scalar, arguments))
    extents, more = as_shape(shape, f"random.{name}")
    given = [_broadcast(a, extents) if _is_array(a) else a for a in arguments]

    def element(*at: Scalar) -> Any:
        number = Scalar(constant(0))
        for k, (extent, index) in enumerate(zip(extents, at, strict=True)):
            number = index if k == 0 else number * Scalar(extent) + index
        here = [a._scalar_at([x._expr for x in at]) if isinstance(a, Array) else a for a in given]
        return draw(words(), number, *map(_scalar, here))

    where_ = user_location()
    indices = [Scalar(Index(k)) for k in range(len(extents))]
    elements, structure = trace_elements(element, indices, f"random.{name}", where_)
    node = Generate(extents, elements, label=Label(f"random.{name}"), where=where_,
                    checks=(*checks, *more))  # fmt: skip
    return Array(node.leaves, structure, extents)


def _is_array(value: Any) -> bool:
    return (isinstance(value, Array) and value.ndim > 0) or (
        isinstance(value, list) or (is_arraylike(value) and np.ndim(value) > 0)
    )


def _scalar(value: Any) -> Any:
    return value if isinstance(value, Scalar | int | float) else Scalar(lift(value, "random"))


def _broadcast(value: Any, extents: Sequence[Expr]) -> Array:
    shape = tuple(Scalar(e) for e in extents)
    return index_space.broadcast_to(value, shape)


def _number(value: Any) -> Scalar:
    """A seed or an index as a uint64, modulo 2⁶⁴."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return Scalar(Const(int(value) % (1 << 64), uint64))
    return Scalar(simplify.cast(as_count(value, "random.key"), uint64))


@operation
def key(seed: IntLike) -> Any:
    """The key of a number: (seed mod 2³², seed div 2³² mod 2³²), an array (2,) of uint32; inside a
    kernel a tuple of two scalars.

    Parameters
        seed: an integer, known at trace time or not.

    A key is a value: the same key gives the same numbers, so each use needs its own, made by
    `split` or `fold_in`.

    Result: arrays, as described.

    >>> import treadle as td
    >>> td.run(td.random.key(7))
    array([7, 0], dtype=uint32)

    See also `split`, `fold_in`.
    """
    if isinstance(seed, bool | float | str) or seed is None:
        raise DTypeError(
            f"random.key needs an integer, got {seed!r}.", hint="Write td.random.key(0)."
        )
    number = _number(seed)
    low, high = number._expr, (number >> 32)._expr
    words = Scalar(simplify.cast(low, uint32)), Scalar(simplify.cast(high, uint32))
    if enclosing_kernel() is not None:
        return words
    if isinstance(low, Const):  # data, so that programs of different seeds are one
        return use(np.array([int(w._expr.value) for w in words], np.uint32))  # type: ignore[attr-defined]
    return _pair("key", words, ())


def _pair(name: str, words: ScalarKey, checks: tuple[Check, ...]) -> Array:
    """A key as an array."""
    element = where(Scalar(Index(0)) == 0, *words)._expr
    node = Generate((constant(2),), (element,), label=Label(f"random.{name}"),
                    where=user_location(), checks=checks)  # fmt: skip
    return Array(node.leaves)


def _derived(key: ScalarKey, n: Any) -> ScalarKey:
    words = _block(key, n if isinstance(n, Scalar) else _number(n), use=_KEYS)
    return words[0], words[1]


@operation
def fold_in(key: KeyLike, n: IntLike) -> Any:
    """The key number `n` of those that a key gives: words 0 and 1 of the Philox block with counter
    (n mod 2³², n div 2³², 0, 1).  An array (2,) of uint32; inside a kernel a tuple of two scalars.

    Parameters
        key: an array (2,) of uint32, or two scalars.
        n: an integer, in kernels usually an index.

    Result: arrays, as described.

    >>> import treadle as td
    >>> key = td.random.key(0)
    >>> td.run(td.generate(3, lambda i: td.random.uniform(td.random.fold_in(key, i), ()))).round(3)
    array([0.333, 0.045, 0.346])

    See also `split`, for a few keys.
    """
    words, checks = _held_key(key, "fold_in")
    number = _number(n)
    if enclosing_kernel() is not None:
        return _derived(words(), number)
    return _pair("fold_in", _derived(words(), number), checks)


@operation
def split(key: KeyLike, n: IntLike = 2) -> Any:
    """Independent keys: `fold_in(key, k)` for k < n, an array (n, 2) of uint32; inside a kernel a
    tuple of n keys.

    Parameters
        key: a key.
        n: a number of elements, ≥ 0; default 2.

    Result: arrays, as described.

    >>> import treadle as td
    >>> first, second = td.random.split(td.random.key(0))
    >>> first.shape
    (2,)
    """
    words, checks = _held_key(key, "split")
    if enclosing_kernel() is not None:
        refuse_traced("random.split", n=n)
        return tuple(_derived(words(), k) for k in range(int(n)))
    (count,), more = as_shape((n,), "random.split")
    number = cast(Scalar(Index(0)), uint64)
    element = where(Scalar(Index(1)) == 0, *_derived(words(), number))._expr
    node = Generate((count, constant(2)), (element,), label=Label("random.split"),
                    where=user_location(), checks=(*checks, *more))  # fmt: skip
    return Array(node.leaves)


# --- uniform bits, integers and floats -------------------------------------------------------


@operation
def bits(key: KeyLike, shape: ShapeLike = (), dtype: DTypeLike = uint32) -> Value:
    """Uniform random bits, the same on every backend.

    Parameters
        key: an array (2,) of uint32, or two scalars.
        shape: the extents; () inside a kernel.
        dtype: uint8, uint16, uint32 or uint64.

    The element with row-major number i is word i mod 4 of Philox block i div 4; of uint64, words
    2 (i mod 2) (high) and 2 (i mod 2) + 1 (low) of block i div 2; narrower types are the top bits
    of a uint32 each.

    Result: an array; a scalar if all operands are numbers.

    >>> import treadle as td
    >>> td.run(td.random.bits(td.random.key(0), 3))
    array([1713891541, 3781805453, 3159862348], dtype=uint32)
    """
    t = as_type(dtype)
    if not t.is_integer or t.signed:
        raise DTypeError(
            f"random.bits gives unsigned integers, not {t}.",
            hint="td.random.integers(key, shape, low, high) gives numbers of any integer type.",
        )

    def draw(key: ScalarKey, i: Scalar) -> Scalar:
        word = _drawn(key, i, max(t.bits, 32))
        made: Scalar = cast(word >> (32 - t.bits), t) if t.bits < 32 else word
        return made

    return _random("bits", key, shape, draw)


def _float_type(dtype: DTypeLike, name: str) -> ScalarType:
    t = as_type(dtype)
    if t not in (float32, float64):
        raise DTypeError(
            f"random.{name} gives float32 or float64, not {t}.",
            hint=f"Convert the numbers: td.random.{name}(key, …, dtype=td.float32).astype(td.{t}).",
        )
    return t


def _unit(word: Scalar, t: ScalarType) -> Scalar:
    """A uniform number in [0, 1) of a word as wide as `t`: exactly."""
    shift, unit = (8, 2.0**-24) if t == float32 else (11, 2.0**-53)
    made: Scalar = cast(word >> shift, t) * unit
    return made


def _odd(word: Scalar, t: ScalarType) -> Scalar:
    """A number in (−1, 1) of a word as wide as `t`: 2u − 1 of u = (k + ½) / 2ⁿ, k its top n bits.

    Exactly: an odd integer 2k + 1 − 2ⁿ, divided by 2ⁿ."""
    n, whole = (23, int32) if t == float32 else (52, int64)
    k = cast(word >> (t.bits - n), whole)
    made: Scalar = cast(2 * k + (1 - (1 << n)), t) * 2.0**-n
    return made


def _float(value: Any, t: ScalarType) -> Scalar:
    """A parameter of a distribution in its type."""
    return Scalar(simplify.cast(lift(value, "random"), t))


def _is_literal(value: Any, number: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == number


def _between(u: Scalar, low: Any, high: Any, t: ScalarType) -> Scalar:
    """low + (high − low) u, in two roundings on every backend."""
    if _is_literal(low, 0) and _is_literal(high, 1):
        return u
    low, high = _float(low, t), _float(high, t)
    made: Scalar = low + elementwise("fma", high - low, u, -0.0)  # (never contracted)
    return made


@operation
def uniform(
    key: KeyLike, shape: ShapeLike = (), dtype: DTypeLike = float64, low: ArrayLike = 0.0,
    high: ArrayLike = 1.0,
) -> Value:  # fmt: skip
    """Uniform floats in [low, high), the same bits on every backend.

    Parameters
        key: an array (2,) of uint32, or two scalars.
        shape: the extents; () inside a kernel.
        dtype: float32 or float64.
        low, high: numbers, or arrays that broadcast to `shape`.

    In [0, 1), float32 are the top 24 bits of `bits(key, shape, uint32)` times 2⁻²⁴, float64 the top
    53 of `bits(key, shape, uint64)` times 2⁻⁵³; the result is low + (high − low) u.

    Result: an array; a scalar if all operands are numbers.

    >>> import treadle as td
    >>> td.run(td.random.uniform(td.random.key(0), 3)).round(3)
    array([0.399, 0.736, 0.972])
    """
    t = _float_type(dtype, "uniform")

    def draw(key: ScalarKey, i: Scalar, low: Any, high: Any) -> Scalar:
        return _between(_unit(_drawn(key, i, t.bits), t), low, high, t)

    return _random("uniform", key, shape, draw, low, high)


@operation
def integers(
    key: KeyLike, shape: ShapeLike, low: ArrayLike, high: ArrayLike, dtype: DTypeLike = int64
) -> Value:
    """Uniform integers low ≤ k < high, the same on every backend, all equally likely.

    Parameters
        key: an array (2,) of uint32, or two scalars.
        shape: the extents; () inside a kernel.
        low, high: integers, known at trace time or not, or arrays that broadcast to `shape`;
            `high` may be one more than the largest number of the type.  Where low ≥ high: an error
            for numbers, `low` for elements of arrays.
        dtype: an integer type.

    Lemire's method (2019), without bias: of x, a word of 32 bits (64 for types of 64 bits), and
    n = high − low, the number is low + ⌊x n / 2³²⌋, unless x n mod 2³² < 2³² mod n.  Such an x, of
    which there are fewer than n in 2³², is replaced by the next word of the element's own.

    Result: an array; a scalar if all operands are numbers.

    >>> import treadle as td
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
            hint="low is the smallest number, high one more than the largest.",
        )
    wide = uint64 if t == uint64 else int64
    bits = 64 if t.bits == 64 else 32

    def draw(key: ScalarKey, i: Scalar, low: Any, high: Any) -> Scalar:
        if first is not None and end is not None:
            base = _whole(first, wide)
            span = Scalar(Const((end - first) % (1 << 64), uint64))
        else:
            base, most = (_whole(v, wide) for v in (low, high))
            span = cast(most, uint64) - cast(base, uint64)
            if end != t.highest + 1:
                span = where(most > base, span, 1)
        made: Scalar = cast(base, t) + cast(_below(key, i, span, bits), t)
        return made

    return _random("integers", key, shape, draw, low, high)


def _whole(value: Any, t: ScalarType) -> Scalar:
    """A bound of `integers`; a literal modulo the range of the type."""
    if isinstance(value, int | np.integer):
        return Scalar(Const((int(value) - t.lowest) % (1 << 64) + t.lowest, t))
    return Scalar(simplify.cast(as_count(value, "random.integers"), t))


def _below(key: ScalarKey, i: Scalar, span: Scalar, bits: int) -> Scalar:
    """A uint64 below the uint64 `span`: from 1 to 2 to the number of bits (0 means 2⁶⁴)."""
    uneven = ((1 << 32) if bits == 32 else 0 - span) % span  # x % 0 is 0

    def product(word: Scalar) -> tuple[Scalar, Scalar]:
        """The integral part of word · span / 2 to the number of bits, and the rest."""
        if bits == 64:
            return where(span == 0, word, _high(word, span)), word * span
        wide = cast(word, uint64) * span
        return wide >> 32, wide & 0xFFFFFFFF

    found, rest = product(_drawn(key, i, bits))
    if isinstance(uneven._expr, Const) and not uneven._expr.value:
        return found
    block = _number_of_block(i, bits)

    def again(state: tuple[Scalar, Scalar, Scalar]) -> tuple[Scalar, Scalar, Scalar]:
        attempt = state[0] + 1
        return attempt, *product(_word(_block(key, block, attempt, _AGAIN), i, bits))

    done = while_loop(lambda state: state[2] < uneven, again, (uint32(0), found, rest))
    made: Scalar = done[1]
    return made


def _high(x: Scalar, y: Scalar) -> Scalar:
    """The high 64 bits of the product of two uint64."""
    (x1, x0), (y1, y0) = (((v >> 32), v & 0xFFFFFFFF) for v in (x, y))
    middle = x1 * y0 + ((x0 * y0) >> 32)
    other = x0 * y1 + (middle & 0xFFFFFFFF)
    made: Scalar = x1 * y1 + (middle >> 32) + (other >> 32)
    return made


# --- other distributions ---------------------------------------------------------------------

# The quantiles of the normal distribution.  float64: Wichura's algorithm AS 241 (1988), ratios of
# polynomials of degree 7 in 0.180625 − q², of q = u − ½, and in √(−log min(u, 1 − u)).  float32:
# Giles, Approximating the erfinv function (2010), polynomials in −log (1 − x²), of x = 2u − 1.
_CENTRE = (
    (3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,
     1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
     3.3430575583588128105e4, 2.5090809287301226727e3),
    (1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3,
     2.1213794301586595867e4, 3.9307895800092710610e4, 2.8729085735721942674e4,
     5.2264952788528545610e3),
)  # fmt: skip
_FLANK = (
    (1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0,
     3.64784832476320460504e0, 1.27045825245236838258e0, 2.41780725177450611770e-1,
     2.27238449892691845833e-2, 7.74545014278341407640e-4),
    (1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
     1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4,
     1.05075007164441684324e-9),
)  # fmt: skip
_TAIL = (
    (6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0,
     2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
     2.71155556874348757815e-5, 2.01033439929228813265e-7),
    (1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
     7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7,
     2.04426310338993978564e-15),
)  # fmt: skip
_SHORT_CENTRE = (1.50140941, 0.246640727, -0.00417768164, -0.00125372503, 0.00021858087,
                 -4.39150654e-06, -3.5233877e-06, 3.43273939e-07, 2.81022636e-08)  # fmt: skip
_SHORT_TAIL = (2.83297682, 1.00167406, 0.00943887047, -0.0076224613, 0.00573950773,
               -0.00367342844, 0.00134934322, 0.000100950558, -0.000200214257)  # fmt: skip


def _polynomial(coefficients: Sequence[float], x: Any) -> Any:
    """Of coefficients in ascending order."""
    value: Any = coefficients[-1]
    for c in coefficients[-2::-1]:
        value = value * x + c
    return value


def _quantile(x: Scalar) -> Scalar:
    """√2 · erf⁻¹(x), of an `_odd` number."""
    size = abs(x)
    if x.dtype == float32:
        w = -log((1 - x) * (1 + x))
        centre, tail = _polynomial(_SHORT_CENTRE, w - 2.5), _polynomial(_SHORT_TAIL, sqrt(w) - 3)
        made: Scalar = where(w < 5, centre, tail) * x * math.sqrt(2.0)
        return made
    q = 0.5 * x
    square = 0.180625 - q * q
    r = sqrt(-log(0.5 * (1 - size)))
    centre, flank = ([_polynomial(c, y) for c in of]
                     for of, y in ((_CENTRE, square), (_FLANK, r - 1.6)))  # fmt: skip
    rare = _polynomial(_TAIL[0], r - 5) / _polynomial(_TAIL[1], r - 5)
    near = size <= 0.85
    above = where(near, centre[0] * q, where(x < 0, -flank[0], flank[0]))
    usual = above / where(near, centre[1], flank[1])
    made = cond(r <= 5, usual, where(x < 0, -rare, rare))
    return made


@operation
def normal(
    key: KeyLike, shape: ShapeLike = (), dtype: DTypeLike = float64, loc: ArrayLike = 0.0,
    scale: ArrayLike = 1.0,
) -> Value:  # fmt: skip
    """Normally distributed floats.

    Parameters
        key: an array (2,) of uint32, or two scalars.
        shape: the extents; () inside a kernel.
        dtype: float32 or float64.
        loc, scale: mean and standard deviation, numbers or arrays that broadcast to `shape`.

    √2 erf⁻¹(2u − 1) of u = (k + ½) 2⁻²³, k the top 23 bits of `bits(key, shape, uint32)`; float64:
    (k + ½) 2⁻⁵² of the top 52 bits of a uint64.

    Result: an array; a scalar if all operands are numbers.

    >>> import treadle as td
    >>> td.run(td.random.normal(td.random.key(0), 3)).round(3)
    array([-0.256,  0.63 ,  1.915])
    """
    t = _float_type(dtype, "normal")

    def draw(key: ScalarKey, i: Scalar, loc: Any, scale: Any) -> Scalar:
        return _moved(_quantile(_odd(_drawn(key, i, t.bits), t)), loc, scale, t)

    return _random("normal", key, shape, draw, loc, scale)


def _moved(x: Scalar, loc: Any, scale: Any, t: ScalarType) -> Scalar:
    if not _is_literal(scale, 1):
        x = x * _float(scale, t)
    return x if _is_literal(loc, 0) else x + _float(loc, t)


@operation
def exponential(
    key: KeyLike, shape: ShapeLike = (), dtype: DTypeLike = float64, scale: ArrayLike = 1.0
) -> Value:
    """Exponentially distributed floats: −scale · log(1 − u) of `uniform` numbers u.

    Parameters
        key: an array (2,) of uint32, or two scalars.
        shape: the extents; () inside a kernel.
        dtype: float32 or float64.
        scale: the mean, a number or an array that broadcasts to `shape`.

    Result: an array; a scalar if all operands are numbers.

    >>> import treadle as td
    >>> td.run(td.random.exponential(td.random.key(0), 3)).round(3)
    array([0.509, 1.331, 3.584])
    """
    t = _float_type(dtype, "exponential")

    def draw(key: ScalarKey, i: Scalar, scale: Any) -> Scalar:
        return _moved(-log1p(-_unit(_drawn(key, i, t.bits), t)), 0, scale, t)

    return _random("exponential", key, shape, draw, scale)


def _gamma_parts(key: ScalarKey, i: Scalar, a: Scalar) -> tuple[Scalar, Scalar]:
    """x and y of a number x · eʸ of the gamma distribution, by Marsaglia and Tsang (2000).

    Of a < 1, the number of a + 1 times a power of a uniform one, which may underflow: y is its
    logarithm, else 0."""
    t = a.dtype
    small = a < 1
    usable = (a > 0) & isfinite(a)
    d = where(small, a + 1, a) - 1 / 3
    c = 1 / sqrt(9 * d)

    def pair(attempt: Any) -> tuple[Scalar, Scalar]:
        words = _block(key, i, attempt, _AGAIN)
        if t == float32:
            return words[0], words[1]
        return _wide(words[0], words[1]), _wide(words[2], words[3])

    def draw(state: tuple[Scalar, Scalar, Scalar]) -> tuple[Scalar, Scalar, Scalar]:
        attempt = state[0] + 1
        first, second = pair(attempt)
        x, u = _quantile(_odd(first, t)), _unit(second, t)
        root = 1 + c * x
        v = root * root * root
        bound = 0.5 * x * x + d - d * v + d * log(v)
        return attempt, v, (root > 0) & (log(u) < bound)

    _, v, _ = while_loop(lambda s: ~s[2], draw, (uint32(0), t(1), ~usable))
    power = log(0.5 * (1 + _odd(pair(0)[0], t))) / a
    value = where(usable, d * v, where((a == 0) | (a == math.inf), a, math.nan))
    return value, where(small & usable, power, 0)


@operation
def gamma(
    key: KeyLike, shape: ShapeLike, a: ArrayLike, scale: ArrayLike = 1.0,
    dtype: DTypeLike = float64,
) -> Value:  # fmt: skip
    """Floats of the gamma distribution, of density xᵃ⁻¹ e⁻ˣ / Γ(a).

    Parameters
        key: an array (2,) of uint32, or two scalars.
        shape: the extents; () inside a kernel.
        a: the shape parameter, a number or an array that broadcasts to `shape`; NaN results where
            it is negative.
        scale: what the numbers are multiplied by.
        dtype: float32 or float64.

    By the rejection method of Marsaglia and Tsang (2000).

    Result: an array; a scalar if all operands are numbers.

    >>> import treadle as td
    >>> td.run(td.random.gamma(td.random.key(0), 3, 2.0)).round(3)
    array([2.559, 3.371, 1.041])
    """
    t = _float_type(dtype, "gamma")

    def draw(key: ScalarKey, i: Scalar, a: Any, scale: Any) -> Scalar:
        value, power = _gamma_parts(key, i, _float(a, t))
        return _moved(value * exp(power), 0, scale, t)

    return _random("gamma", key, shape, draw, a, scale)


@operation
def beta(
    key: KeyLike, shape: ShapeLike, a: ArrayLike, b: ArrayLike, dtype: DTypeLike = float64
) -> Value:
    """Floats of the beta distribution, of density xᵃ⁻¹ (1 − x)ᵇ⁻¹ / B(a, b).

    Parameters
        key: an array (2,) of uint32, or two scalars.
        shape: the extents; () inside a kernel.
        a, b: the shape parameters, positive numbers or arrays that broadcast to `shape`.
        dtype: float32 or float64.

    Of two numbers x and y of gamma distributions, x / (x + y).

    Result: an array; a scalar if all operands are numbers.

    >>> import treadle as td
    >>> td.run(td.random.beta(td.random.key(0), 3, 2.0, 5.0)).round(3)
    array([0.301, 0.228, 0.034])
    """
    t = _float_type(dtype, "beta")

    def draw(key: ScalarKey, i: Scalar, a: Any, b: Any) -> Scalar:
        (x, p), (y, q) = (
            _gamma_parts(_derived(key, k), i, _float(v, t)) for k, v in enumerate((a, b))
        )
        most = where(p > q, p, q)
        x, y = x * exp(p - most), y * exp(q - most)
        made: Scalar = x / (x + y)
        return made

    return _random("beta", key, shape, draw, a, b)


def _log_factorial(k: Scalar) -> Scalar:
    """log k! of whole float64 numbers k ≥ 0: Stirling's series from 7 on."""
    x = k + 1
    below: Any = 1.0
    for step in range(7):  # Γ(x) = Γ(x + n) / (x (x + 1) … (x + n − 1))
        below = below * where(x + step < 7, x + step, 1.0)
    x = where(x < 7, 7.0, x)
    inverse = 1 / (x * x)
    series = _polynomial((1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156),
                         inverse) / x  # fmt: skip
    made: Scalar = (x - 0.5) * log(x) - x + 0.5 * math.log(2 * math.pi) + series - log(below)
    return made


def _poisson_by_search(key: ScalarKey, i: Scalar, mean: Scalar) -> Scalar:
    """The first k whose cumulative probability exceeds a uniform number."""
    words = _block(key, i, 0, _AGAIN)
    u = _unit(_wide(words[0], words[1]), float64)

    def step(state: tuple[Scalar, Scalar, Scalar]) -> tuple[Scalar, Scalar, Scalar]:
        k, probability, total = state
        probability = probability * mean / (k + 1)
        return k + 1, probability, total + probability

    start = exp(-mean)  # (beyond 100, probabilities are below 2⁻²⁰⁰)
    found: Scalar = while_loop(
        lambda s: (u >= s[2]) & (s[0] < 100), step, (float64(0), start, start)
    )[0]
    return found


def _poisson_by_rejection(key: ScalarKey, i: Scalar, mean: Scalar) -> Scalar:
    """Hörmann's transformed rejection (PTRS, 1993), for means of 10 and more."""
    root, logarithm = sqrt(mean), log(mean)
    b = 0.931 + 2.53 * root
    a = -0.059 + 0.02483 * b
    inverse = 1.1239 + 1.1328 / (b - 3.4)
    accepted = 0.9277 - 3.6224 / (b - 2)

    def draw(state: tuple[Scalar, Scalar, Scalar]) -> tuple[Scalar, Scalar, Scalar]:
        attempt = state[0] + 1
        words = _block(key, i, attempt, _AGAIN)
        u = _unit(_wide(words[0], words[1]), float64) - 0.5
        v = _unit(_wide(words[2], words[3]), float64)
        near = 0.5 - abs(u)
        k = floor((2 * a / near + b) * u + mean + 0.43)
        outside = (k < 0) | ((near < 0.013) & (v > near))
        left = log(v * inverse / (a / (near * near) + b))
        inside = left <= k * logarithm - mean - _log_factorial(where(k < 0, 0.0, k))
        return attempt, k, ((near >= 0.07) & (v <= accepted)) | (~outside & inside)

    usable = (mean >= 10) & isfinite(mean)
    found: Scalar = while_loop(lambda s: ~s[2], draw, (uint32(0), float64(0), ~usable))[1]
    return found


@operation
def poisson(key: KeyLike, shape: ShapeLike, lam: ArrayLike, dtype: DTypeLike = int64) -> Value:
    """Integers of the Poisson distribution, of probability lamᵏ e⁻ˡᵃᵐ / k!.

    Parameters
        key: an array (2,) of uint32, or two scalars.
        shape: the extents; () inside a kernel.
        lam: the mean, a number or an array that broadcasts to `shape`; −1 results where it is
            negative, infinite or NaN.
        dtype: a signed integer type, or a float type.

    By search for means below 10, else by Hörmann's transformed rejection (1993).

    Result: an array; a scalar if all operands are numbers.

    >>> import treadle as td
    >>> td.run(td.random.poisson(td.random.key(0), 5, 3.0))
    array([5, 4, 3, 1, 1])
    """
    t = as_type(dtype)
    if not (t.is_float or (t.is_integer and t.signed)):
        raise DTypeError(
            f"random.poisson gives signed integers or floats, not {t}.",
            hint="Convert the numbers: td.random.poisson(key, shape, lam).astype(…).",
        )

    def draw(key: ScalarKey, i: Scalar, lam: Any) -> Scalar:
        mean = _float(lam, float64)
        large, small = _poisson_by_rejection(key, i, mean), _poisson_by_search(key, i, mean)
        found = cond(mean < 10, small, large)
        made: Scalar = cast(where((mean >= 0) & isfinite(mean), found, -1.0), t)
        return made

    return _random("poisson", key, shape, draw, lam)


# --- permutations and choices ----------------------------------------------------------------


def _shuffled(key: KeyLike, n: Expr, name: str) -> Array:
    """The numbers below n in random order: where sorting random numbers of 64 bits moves them."""
    forbid_nesting(f"random.{name}")
    order: Array = irregular.argsort(bits(key, (Scalar(n),), uint64))
    return order


@operation
def permutation(key: KeyLike, x: ArrayLike, axis: int = 0) -> Array:
    """The numbers 0 … x − 1 of an integer in random order, int64; of an array, its slices along an
    axis in random order.  The same on every backend.

    Parameters
        key: an array (2,) of uint32.
        x: an integer, known at trace time or not, or an array.
        axis: of an array: which slices move.

    Result: an array.

    Errors: `AxisError` if there is no such axis.

    >>> import treadle as td
    >>> td.run(td.random.permutation(td.random.key(0), 5))
    array([4, 0, 3, 1, 2])
    """
    forbid_nesting("random.permutation")
    if not _is_array(x):
        return _shuffled(key, as_count(x, "random.permutation"), "permutation")
    return shuffle(key, x, axis)


@operation
def shuffle(key: KeyLike, x: ArrayLike, axis: int = 0) -> Array:
    """The slices of an array along an axis in random order (a new array: `x` stays as it is).

    Parameters
        key: an array (2,) of uint32.
        x: an array, of at least one axis.
        axis: which slices move.

    Result: an array.

    Errors: `AxisError` if there is no such axis.

    >>> import numpy as np, treadle as td
    >>> td.run(td.random.shuffle(td.random.key(0), np.array([10, 20, 30, 40, 50])))
    array([50, 10, 40, 20, 30])

    See also `permutation`, which gives indices.
    """
    forbid_nesting("random.shuffle")
    array = as_array(x, "random.shuffle")
    k = normalise_axis(axis, array.ndim, "random.shuffle")
    return index_space.take(array, _shuffled(key, array._shape[k], "shuffle"), k)


@operation
def choice(
    key: KeyLike, a: ArrayLike, shape: ShapeLike = (), replace: bool = True,
    p: ArrayLike | None = None, axis: int = 0,
) -> Any:  # fmt: skip
    """Elements chosen at random: of 0 … a − 1 for an integer `a`, else slices of an array along an
    axis, of which the result has `shape` in that place.

    Parameters
        key: an array (2,) of uint32.
        a: an integer, known at trace time or not, or an array.
        shape: the extents; () for one element.
        replace: whether an element may be chosen again.
        p: a probability for each element (their sum need not be 1); without: all are equal.
        axis: of an array.

    With `p` and `replace`, the element is the first whose cumulative probability exceeds a uniform
    number.  With `p` but not `replace`, elements come in the order of exponential waiting times of
    rates p, which is choosing one after the other; those of probability 0 come last.  More choices
    than elements, without `replace`: `ShapeError`.

    Result: arrays, as described.

    Errors: `AxisError` if there is no such axis.

    >>> import numpy as np, treadle as td
    >>> td.run(td.random.choice(td.random.key(0), np.array([2, 3, 5, 7]), 6))
    array([3, 5, 7, 5, 2, 2])
    """
    refuse_traced("random.choice", replace=replace)
    if enclosing_kernel() is not None and not _is_array(a) and p is None and replace:
        return integers(key, shape, 0, a)
    forbid_nesting("random.choice")
    array = as_array(a, "random.choice") if _is_array(a) else None
    k = 0 if array is None else normalise_axis(axis, array.ndim, "random.choice")
    n = as_count(a, "random.choice") if array is None else array._shape[k]
    extents, _ = as_shape(shape, "random.choice")
    weights = None if p is None else _weights(p, n)
    if replace:
        chosen = (
            integers(key, shape, 0, Scalar(n))
            if weights is None
            else _weighted(key, shape, weights)
        )
    else:
        order = _shuffled(key, n, "choice") if weights is None else _heaviest(key, weights)
        chosen = _leading(order, n, extents)
    if array is None:
        return chosen
    flat = index_space.flatten(chosen)
    taken = index_space.take(array, flat, k)
    target = (*taken._shape[:k], *extents, *taken._shape[k + 1 :])
    return index_space.reshape(taken, tuple(Scalar(e) for e in target))


def _weights(p: ArrayLike, n: Expr) -> Array:
    array = as_array(p, "random.choice")
    if array.ndim != 1 or not array.structure.is_leaf or array.types[0].is_complex:
        raise ShapeError(
            f"random.choice: p is a vector of real numbers, got {show_shape(array._shape)} of "
            f"{array.structure.describe(array.types)}.",
            hint="One probability for each element.",
        )
    checks = require(
        array._shape[0], n, "random.choice: {left} probabilities for {right} elements.",
        hint="One probability for each element.",
    )  # fmt: skip
    element = simplify.cast(array._element((Index(0),))[0], float64)
    node = Generate(array._shape, (element,), label=Label("random.choice"), where=user_location(),
                    checks=checks)  # fmt: skip
    return Array(node.leaves)


def _weighted(key: KeyLike, shape: ShapeLike, weights: Array) -> Array:
    """Indices drawn independently, with probabilities in proportion to weights."""
    sums = scans.cumsum(weights)
    n = sums.shape[0]

    def draw(key: ScalarKey, i: Scalar) -> Scalar:
        u = _unit(_drawn(key, i, 64), float64) * sums[n - 1]

        def half(span: tuple[Any, Any]) -> tuple[Any, Any]:
            low, high = span
            middle = (low + high) // 2
            beyond = sums[middle] > u
            return where(beyond, low, middle + 1), where(beyond, middle, high)

        found: Scalar = while_loop(lambda s: s[0] < s[1], half, (int64(0), cast(n - 1, int64)))[0]
        return found

    made: Array = _random("choice", key, shape, draw)
    return made


def _heaviest(key: KeyLike, weights: Array) -> Array:
    """Indices in the order of their draws without replacement, by exponential clocks."""
    waiting = exponential(key, weights.shape) / weights
    order: Array = irregular.argsort(waiting)
    return order


def _leading(order: Array, n: Expr, extents: Sequence[Expr]) -> Array:
    """The first elements of an order, in a shape."""
    count = later.product_of(extents)
    checks = require(
        n, count, "random.choice: {right} of {left} elements, without replacement.",
        hint="replace=True may choose an element again.", relation=">=",
    )  # fmt: skip
    node = Generate((count,), (order._element((Index(0),))[0],), label=Label("random.choice"),
                    where=user_location(), checks=checks)  # fmt: skip
    return index_space.reshape(Array(node.leaves), tuple(Scalar(e) for e in extents))
