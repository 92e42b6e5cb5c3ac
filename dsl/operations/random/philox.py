"""Keys, and the random words of an element.

    counter (c0, c1, c2, c3)            random words for
    (block, block >> 32, 0, 0)          `bits`, `uniform`, `normal`, `exponential`, `integers`
    (n, n >> 32, 0, 1)                  the key `fold_in(key, n)`
    (number, number >> 32, attempt, 2)  draws of an element that may be rejected (`integers` after
                                        the first, `gamma`, `beta`, `poisson`)

Every distribution is a function of a scalar key and an element's number (`Draw`), called with the
number 0 inside kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from ... import simplify
from ...annotations import ArrayLike, IntLike, ShapeLike
from ...array import Array, generated
from ...errors import DTypeError, NestedParallelismError, ShapeError, user_location
from ...expr import Const, Expr, Index, constant
from ...frontend.sources import as_array, is_arraylike, is_rows, use
from ...frontend.tracing import enclosing_kernel
from ...graph import Check, Generate, Label
from ...scalar import Scalar, as_count, lift, refuse_traced
from ...shapes import as_shape, require
from ...types import uint32, uint64
from ..common import operation, operation_of_integers, trace_elements, unrolled
from ..elements.functions import cast, where
from ..indexing import index_space

#: A key inside kernels: two scalars of type uint32.
ScalarKey: TypeAlias = tuple[Scalar, Scalar]
#: A key: an array (2,) of uint32, or a `ScalarKey`.
KeyLike: TypeAlias = ArrayLike | ScalarKey
Words: TypeAlias = tuple[Scalar, Scalar, Scalar, Scalar]
#: The element with a row-major number, under a key.
Draw: TypeAlias = Callable[[ScalarKey, Scalar], Any]

_MULTIPLIERS, _WEYL, _ROUNDS = (0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85), 10
_FIRST, _KEYS, RETRY = 0, 1, 2  # the last word of counters


# --- Philox ----------------------------------------------------------------------------------


def _u32(value: Any) -> Scalar:
    return cast(value, uint32)


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


def random_block(key: ScalarKey, number: Scalar, attempt: Any = 0, use: int = _FIRST) -> Words:
    """The words of a block, whose number is an int64 or a uint64."""
    last = Scalar(Const(use, uint32))
    return philox((_u32(number), _u32(number >> 32), _u32(attempt), last), key)


def wide_word(high: Scalar, low: Scalar) -> Scalar:
    return (cast(high, uint64) << 32) | cast(low, uint64)


def word_of(words: Words, i: Scalar, bits: int) -> Scalar:
    """The word of element i among those of its block: one of four, or of two that are 64 bits."""
    odd = (i & 1) == 1
    if bits == 64:
        return wide_word(where(odd, words[2], words[0]), where(odd, words[3], words[1]))
    low, high = where(odd, words[1], words[0]), where(odd, words[3], words[2])
    return where((i & 2) == 2, high, low)


def number_of_block(i: Scalar, bits: int) -> Scalar:
    return i >> (1 if bits == 64 else 2)


def drawn_word(key: ScalarKey, i: Scalar, bits: int) -> Scalar:
    """Element i of `bits` in type uint32 or uint64."""
    return word_of(random_block(key, number_of_block(i, bits)), i, bits)


# --- keys and shapes -------------------------------------------------------------------------


def _refused_key(what: str, name: str) -> DTypeError:
    return DTypeError(
        f"random.{name} needs a key, two numbers of type uint32; got {what}.",
        hint="Make one of a number, key = td.random.key(0), and others of it: "
        "k1, k2 = td.random.split(key), or td.random.fold_in(key, i).  The shape comes after it.",
    )


def _key_words(key: Any, name: str) -> tuple[Callable[[], ScalarKey], tuple[Check, ...]]:
    """A function that gives the words of a key, where it is called, and the check of its extent."""
    if isinstance(key, tuple) and not is_arraylike(key):
        if len(key) != 2 or all(isinstance(word, int) for word in key):  # (a shape)
            raise _refused_key(f"a tuple of {len(key)}" if len(key) != 2 else repr(key), name)
        words = [lift(word, f"random.{name}") for word in key]
        if any(not e.type.is_integer for e in words):
            raise _refused_key(f"numbers of type {words[0].type}", name)
        first, second = (Scalar(simplify.cast(e, uint32)) for e in words)
        return lambda: (first, second), ()
    if isinstance(key, Scalar) and key.dtype == uint32 and enclosing_kernel() is not None:
        raise DTypeError(
            f"random.{name} needs a key, two numbers of type uint32; got one of them.",
            hint=f"Map over both: td.map(lambda a, b: td.random.{name}((a, b), …), keys[:, 0], "
            "keys[:, 1]); or make keys in the kernel: td.random.fold_in(key, i).",
        )
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


def random_values(
    name: str, key: Any, shape: ShapeLike, draw: Callable[..., Any], *arguments: Any
) -> Any:
    """The array of `shape` of draws: `draw(key, number of the element, arguments…)`; arguments that
    are arrays broadcast to the shape.  Inside a kernel, where the shape is (), one scalar."""
    words, checks = _key_words(key, name)
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
    if isinstance(shape, float):
        raise DTypeError(
            f"random.{name} needs integer extents, got {shape!r}.",
            hint=f"The shape comes after the key, and parameters after the shape: "
            f"td.random.{name}(key, (3, 4), …).",
        )
    if any(isinstance(a, tuple) for a in arguments):
        raise DTypeError(
            f"random.{name}: a parameter is a number or an array, not a tuple.",
            hint=f"The shape comes after the key: td.random.{name}(key, (3, 4), …).",
        )
    extents, more = as_shape(shape, f"random.{name}")
    given = [_broadcast(a, extents) if is_array(a) else a for a in arguments]

    def element(*at: Scalar) -> Any:
        number = Scalar(constant(0))
        for k, (extent, index) in enumerate(zip(extents, at, strict=True)):
            number = index if k == 0 else number * Scalar(extent) + index
        here = [a._scalar_at([x._expr for x in at]) if is_array(a) else a for a in given]
        return draw(words(), number, *map(_scalar, here))

    where_ = user_location()
    indices = [Scalar(Index(k)) for k in range(len(extents))]
    elements, structure = trace_elements(element, indices, f"random.{name}", where_)
    node = Generate(extents, elements, label=Label(f"random.{name}"), where=where_,
                    checks=(*checks, *more))  # fmt: skip
    return Array(node.leaves, structure, extents)


def is_array(value: Any) -> bool:
    return (isinstance(value, Array) and value.ndim > 0) or (
        is_rows(value) or (is_arraylike(value) and np.ndim(value) > 0)
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

    >>> td.run(td.random.key(7))
    array([7, 0], dtype=uint32)

    See also `split`, `fold_in`.
    """
    if isinstance(seed, bool | float | str) or seed is None:
        raise DTypeError(
            f"random.key needs an integer, got {seed!r}.", hint="Write td.random.key(0)."
        )
    number, inside = _number(seed), enclosing_kernel() is not None
    if isinstance(number._expr, Const) and not inside:  # programs of different seeds are one
        value = int(number._expr.value)
        return use(np.array([value & 0xFFFFFFFF, value >> 32], np.uint32))
    low, high = number._expr, (number >> 32)._expr
    words = Scalar(simplify.cast(low, uint32)), Scalar(simplify.cast(high, uint32))
    return words if inside else _pair("key", words, ())


def _pair(name: str, words: ScalarKey, checks: tuple[Check, ...]) -> Array:
    """A key as an array."""
    element = where(Scalar(Index(0)) == 0, *words)._expr
    return generated((constant(2),), (element,), f"random.{name}", checks)


def derived_key(key: ScalarKey, n: Any) -> ScalarKey:
    words = random_block(key, n if isinstance(n, Scalar) else _number(n), use=_KEYS)
    return words[0], words[1]


@operation_of_integers
def fold_in(key: KeyLike, n: IntLike) -> Any:
    """The key number `n` of those that a key gives: words 0 and 1 of the Philox block with counter
    (n mod 2³², n div 2³², 0, 1).  An array (2,) of uint32; inside a kernel a tuple of two scalars.

    Parameters
        n: an integer, in kernels usually an index.

    >>> key = td.random.key(0)
    >>> td.run(td.generate(3, lambda i: td.random.uniform(td.random.fold_in(key, i), ()))).round(3)
    array([0.333, 0.045, 0.346])

    See also `split`, for a few keys.
    """
    words, checks = _key_words(key, "fold_in")
    number = _number(n)
    if enclosing_kernel() is not None:
        return derived_key(words(), number)
    return _pair("fold_in", derived_key(words(), number), checks)


@operation
def split(key: KeyLike, n: IntLike = 2) -> Any:
    """Independent keys: `fold_in(key, k)` for k < n, an array (n, 2) of uint32; inside a kernel a
    tuple of n keys.

    Parameters
        key: a key.
        n: a number of elements, ≥ 0; default 2.

    Result: an array (n, 2) of uint32; inside a kernel a tuple of n keys.

    >>> first, second = td.random.split(td.random.key(0))
    >>> first.shape
    (2,)
    """
    words, checks = _key_words(key, "split")
    if enclosing_kernel() is not None:
        refuse_traced("random.split", n=n)
        return tuple(derived_key(words(), k) for k in unrolled(int(n), "random.split", "n"))
    (count,), more = as_shape((n,), "random.split")
    number = cast(Scalar(Index(0)), uint64)
    element = where(Scalar(Index(1)) == 0, *derived_key(words(), number))._expr
    return generated((count, constant(2)), (element,), "random.split", (*checks, *more))
