"""Tuples in memory words that other blocks poll: 32 bits of a value and 32 bits of status.

A value of any type is split into 32-bit parts, each of which is stored in a separate 64-bit word
with a "present" flag.  Words are read and written atomically, so no order between them is needed:
a tuple is present when all its words are.  Zero memory is empty.
"""

from __future__ import annotations

from collections.abc import Sequence

from treadle.dsl import simplify
from treadle.dsl.expr import Const, Expr, Var, primitive
from treadle.dsl.primitives import FROM_BITS, TO_BITS, real_part
from treadle.dsl.types import ScalarType, bool_, float32, uint32, uint64

from ...ir import arithmetic as at
from ...ir.kernel import Assign, Buffer, Fetch, Publish
from ...ir.linearize import Linearizer

#: A word that is present (with value zero).
HERE = Const(1 << 32, uint64)


def _unsigned(t: ScalarType) -> ScalarType:
    return uint64 if t.bits == 64 else uint32


def pieces_of(t: ScalarType) -> int:
    """The number of words of a value."""
    return max(t.bits // 32, 1)


def _apply(name: str, t: ScalarType, *args: Expr) -> Expr:
    return simplify.apply(primitive(name), args, t)


def _halves(e: Expr) -> list[Expr]:
    high = _apply("right_shift", uint64, e, Const(32, uint64))
    return [simplify.cast(e, uint32), simplify.cast(high, uint32)]


def pieces(e: Expr) -> list[Expr]:
    """The 32-bit pieces of a value, lowest first."""
    t = e.type
    if t.is_complex:
        return [x for name in ("real", "imag") for x in pieces(_apply(name, real_part(t), e))]
    if t.is_float:
        wide = simplify.cast(e, float32) if t.bits < 32 else e
        bits = simplify.apply(TO_BITS, (wide,), _unsigned(wide.type))
        return _halves(bits) if wide.type.bits == 64 else [bits]
    if t.bits == 64:
        return _halves(simplify.cast(e, uint64))
    return [simplify.cast(e, uint32)]


def value(found: Sequence[Expr], t: ScalarType) -> Expr:
    """The value of type `t` made of its pieces."""
    if t.is_complex:
        half = len(found) // 2
        part = real_part(t)
        parts = (value(found[:half], part), value(found[half:], part))
        return simplify.apply(primitive("complex"), parts, t)
    bits = found[0]
    if len(found) == 2:
        high = _apply("left_shift", uint64, simplify.cast(found[1], uint64), Const(32, uint64))
        bits = _apply("bitwise_or", uint64, high, simplify.cast(found[0], uint64))
    if t.is_float:
        wide = t if t.bits >= 32 else float32
        return simplify.cast(simplify.apply(FROM_BITS, (bits,), wide), t)
    if t.kind == "bool":
        return _apply("not_equal", bool_, bits, Const(0, uint32))
    return simplify.cast(bits, t)


class Slots:
    """Slots for tuples of `types` in a buffer of words, from word `origin` on."""

    def __init__(self, buffer: Buffer, origin: Expr | int, types: Sequence[ScalarType]) -> None:
        self.buffer, self.origin, self.types = buffer, at.integer(origin), tuple(types)
        self.counts = [pieces_of(t) for t in types]
        self.words = sum(self.counts)

    def _first(self, into: Linearizer, slot: Expr) -> Expr:
        return into.let(at.add(self.origin, at.multiply(slot, self.words)), "word")

    def publish(self, into: Linearizer, slot: Expr, values: Sequence[Expr]) -> None:
        """Write a tuple to an empty slot."""
        first = self._first(into, slot)
        found = [p for v in values for p in pieces(into.let(v, "v"))]
        for k, piece in enumerate(found):
            word = _apply("bitwise_or", uint64, simplify.cast(piece, uint64), HERE)
            into.append(Publish(self.buffer, at.add(first, k), word, ordered=False))

    def declare(self, into: Linearizer, wanted: Expr) -> list[Var]:
        """Variables for the words of a tuple: empty if it is `wanted`, otherwise present."""
        start = simplify.select(wanted, Const(0, uint64), HERE)
        return [into.declare(start, "word") for _ in range(self.words)]

    def fetch(self, into: Linearizer, slot: Expr, held: Sequence[Var]) -> None:
        """Reload the words that are still missing."""
        with into.when(at.negate(self.here(held))):
            first = self._first(into, slot)
            for k, word in enumerate(held):
                got = Var("got", uint64)
                into.append(Fetch(got, self.buffer, at.add(first, k), ordered=False))
                into.append(Assign(word, got))

    def here(self, held: Sequence[Expr]) -> Expr:
        """Whether all words are present."""
        return at.both(*(_apply("less_equal", bool_, HERE, word) for word in held))

    def values(self, held: Sequence[Expr]) -> tuple[Expr, ...]:
        """The tuple made of its words."""
        found, place = [], 0
        for t, count in zip(self.types, self.counts, strict=True):
            words = held[place : place + count]
            found.append(value([simplify.cast(w, uint32) for w in words], t))
            place += count
        return tuple(found)
