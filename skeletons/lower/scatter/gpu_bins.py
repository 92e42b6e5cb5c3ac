"""Private bins: a block accumulates in shared memory before it updates the target.

Each component of a permute is accumulated in the form that is fastest in hardware:

    Counts    a constant is added: 32-bit counters (a warp's increments of one bin are one)
    Halves    64-bit integers are added: two 32-bit words, the carry by hand
    Plain     everything else, in 32 or 64 bits of its own or a wider type

An element of a bin has `copies` adjacent slots, so that the lanes of a warp conflict neither in one
slot nor in one bank.
"""

from __future__ import annotations

from collections.abc import Sequence

from treadle.dsl import simplify
from treadle.dsl.analysis.combines import identities, simple_combine
from treadle.dsl.expr import FALSE, TRUE, Apply, Const, Expr, Var, primitive
from treadle.dsl.graph import Combine
from treadle.dsl.passes.recognise import is_count
from treadle.dsl.records import dataclass
from treadle.dsl.types import ScalarType, bool_, float32, int32, uint32, uint64

from ...ir import arithmetic as at
from ...ir.kernel import Assign, Atomic, Buffer, FetchUpdate, Load, Store
from ...ir.linearize import Linearizer, zero
from ..build import Builder
from ..combining import apply_combine, declare, join, put

_BITWISE = {"logical_and": "bitwise_and", "logical_or": "bitwise_or", "logical_xor": "bitwise_xor"}


@dataclass(frozen=True)
class Plain:
    """`combine` itself, on values of type `stored`, starting with `neutral`."""

    combine: Combine
    neutral: Const
    target: ScalarType

    @property
    def types(self) -> tuple[ScalarType, ...]:
        return (self.neutral.type,)

    @property
    def start(self) -> tuple[Const, ...]:
        return (self.neutral,)

    def add(self, into: Linearizer, bins: Sequence[Buffer], where: Expr, value: Expr) -> None:
        value = simplify.cast(value, self.neutral.type)
        into.append(Atomic(tuple(bins), where, (value,), self.combine))

    def joined(self, into: Linearizer, total: Expr, bins: Sequence[Buffer], where: Expr) -> Expr:
        return apply_combine(into, self.combine, (total,), (Load(bins[0], where),), named=False)[0]

    @property
    def total(self) -> Const:
        return self.neutral

    def finish(self, total: Expr) -> tuple[Expr | None, Expr]:
        """Whether there is anything to update (None: always), and the value."""
        value = simplify.cast(total, self.target)
        if self.neutral.type.is_inexact:
            return None, value
        return at.negate(_equal(total, self.neutral)), value


@dataclass(frozen=True)
class Counts:
    """Counts how often the constant `each` was added."""

    each: Const

    types = (uint32,)
    start = (Const(0, uint32),)
    total = Const(0, uint32)

    def add(self, into: Linearizer, bins: Sequence[Buffer], where: Expr, value: Expr) -> None:
        into.append(Atomic(tuple(bins), where, (Const(1, uint32),), simple_combine("add", uint32)))

    def joined(self, into: Linearizer, total: Expr, bins: Sequence[Buffer], where: Expr) -> Expr:
        return simplify.apply(primitive("add"), (total, Load(bins[0], where)), uint32)

    def finish(self, total: Expr) -> tuple[Expr | None, Expr]:
        t = self.each.type
        value = simplify.apply(primitive("multiply"), (simplify.cast(total, t), self.each), t)
        return at.negate(_equal(total, self.total)), value


@dataclass(frozen=True)
class Halves:
    """A sum modulo 2^64 as two words; shared memory has no 64-bit atomic addition."""

    target: ScalarType

    types = (uint32, uint32)
    start = (Const(0, uint32), Const(0, uint32))
    total = Const(0, uint64)

    def add(self, into: Linearizer, bins: Sequence[Buffer], where: Expr, value: Expr) -> None:
        where = into.let(where, "slot")
        value = into.let(simplify.cast(value, uint64), "wide")
        shifted = simplify.apply(primitive("right_shift"), (value, Const(32, uint64)), uint64)
        low = into.let(simplify.cast(value, uint32), "low")
        old = Var("old", uint32)
        into.append(FetchUpdate(old, bins[0], where, low))
        after = simplify.apply(primitive("add"), (old, low), uint32)
        carry = simplify.apply(primitive("less"), (after, low), bool_)
        high = simplify.apply(
            primitive("add"), (simplify.cast(shifted, uint32), simplify.cast(carry, uint32)), uint32
        )
        high = into.let(high, "high")
        with into.when(at.negate(_equal(high, Const(0, uint32)))):
            into.append(Atomic((bins[1],), where, (high,), simple_combine("add", uint32)))

    def joined(self, into: Linearizer, total: Expr, bins: Sequence[Buffer], where: Expr) -> Expr:
        low, high = (simplify.cast(Load(b, where), uint64) for b in bins)
        high = simplify.apply(primitive("left_shift"), (high, Const(32, uint64)), uint64)
        both = simplify.apply(primitive("add"), (low, high), uint64)
        return simplify.apply(primitive("add"), (total, both), uint64)

    def finish(self, total: Expr) -> tuple[Expr | None, Expr]:
        return at.negate(_equal(total, self.total)), simplify.cast(total, self.target)


Accumulator = Plain | Counts | Halves


def _equal(a: Expr, b: Expr) -> Expr:
    return simplify.apply(primitive("equal"), (a, b), bool_)


def component(combine: Combine, k: int) -> Combine:
    """Component `k` of a combination with independent components."""
    return Combine((combine.left[k],), (combine.right[k],), (combine.results[k],))


def accumulators(combine: Combine, values: Sequence[Expr]) -> tuple[Accumulator, ...] | None:
    """The accumulator of each component; None if an identity is unknown."""
    neutral = identities(combine)
    if neutral is None or any(n.type.is_complex for n in neutral):
        return None
    return tuple(
        _accumulator(component(combine, k), n, v)
        for k, (n, v) in enumerate(zip(neutral, values, strict=True))
    )


def _accumulator(combine: Combine, neutral: Const, value: Expr) -> Accumulator:
    t, result = neutral.type, combine.results[0]
    assert isinstance(result, Apply)
    op = result.op.name
    if isinstance(value, Const) and is_count(combine, 0, value):
        return Counts(Const(value.value, t))
    if op == "add" and t.is_integer and t.bits == 64:
        return Halves(t)
    if t.bits >= 32:
        return Plain(combine, neutral, t)
    stored = float32 if t.is_float else int32 if t.signed else uint32
    started = Const(neutral.value, stored)
    if t.family == "bool":
        op = _BITWISE[op]
    return Plain(simple_combine(op, stored), started, t)


class Bins:
    """The private bins of one block: `capacity` entries for each word of each accumulator."""

    def __init__(self, builder: Builder, made: Sequence[Accumulator], capacity: int) -> None:
        self.made, self.capacity = tuple(made), capacity
        self.buffers = [builder.shared("bin", a.types, capacity) for a in made]

    def clear(self, into: Linearizer, first: Expr, stop: Expr, step: int) -> None:
        with into.loop("b", first, stop, step=step) as b:
            for a, buffers in zip(self.made, self.buffers, strict=True):
                put(into, buffers, b, a.start)

    def add(self, into: Linearizer, where: Expr, values: Sequence[Expr]) -> None:
        where = into.let(where, "slot")
        for a, buffers, value in zip(self.made, self.buffers, values, strict=True):
            a.add(into, buffers, where, value)

    def flush(self, into: Linearizer, bin_: Expr, target: Expr, copies: Expr, start: Expr,
              outs: Sequence[Buffer], combine: Combine, locks: Buffer | None = None
              ) -> None:  # fmt: skip
        """Add the copies of one bin, beginning with number `start`, to an element of the target."""
        del locks
        base = into.let(bin_ * copies, "base")
        last = into.let(copies - 1, "last")
        totals = [declare(into, (a.total,))[0] for a in self.made]
        with into.loop("c", 0, copies) as c:
            copy = simplify.apply(primitive("bitwise_and"), (c + start, last), c.type)
            where = into.let(base + copy, "slot")
            for a, buffers, total in zip(self.made, self.buffers, totals, strict=True):
                into.append(Assign(total, a.joined(into, total, buffers, where)))
        for k, (a, total) in enumerate(zip(self.made, totals, strict=True)):
            wanted, value = a.finish(total)
            update = Atomic((outs[k],), target, (value,), component(combine, k))
            if wanted is None:
                into.append(update)
            else:
                with into.when(wanted):
                    into.append(update)


def words(made: Sequence[Accumulator]) -> int:
    """Bytes of shared memory for one copy of one bin."""
    return sum(t.bytes for a in made for t in a.types)


#: Spin locks of a block.
_LOCKS = 1024


class Filled:
    """Private bins for any function: the first value of a bin is stored, the others are combined
    under a lock."""

    def __init__(self, builder: Builder, combine: Combine, capacity: int) -> None:
        self.capacity = capacity
        types = [r.type for r in combine.results]
        self.values = builder.shared("bin", types, capacity)
        (self.filled,) = builder.shared("filled", [int32], capacity)
        (self.locks,) = builder.shared("lock", [int32], _LOCKS)
        new, old = Var("new", int32), Var("old", int32)
        empty = _equal(old, Const(0, int32))
        pairs = zip(combine.left, combine.results, strict=True)
        results = tuple(simplify.select(empty, first, r) for first, r in pairs)
        self.combine = Combine((new, *combine.left), (old, *combine.right),
                               (Const(1, int32), *results))  # fmt: skip

    @staticmethod
    def bytes(combine: Combine) -> int:
        """Bytes of shared memory for one bin."""
        return 4 + sum(r.type.bytes for r in combine.results)

    def clear(self, into: Linearizer, first: Expr, stop: Expr, step: int) -> None:
        with into.loop("b", first, stop, step=step) as b:
            into.append(Store(self.filled, b, Const(0, int32)))
            into.append(*(Store(v, b, zero(v.type)) for v in self.values))
        with into.loop("b", first, _LOCKS, step=step) as b:
            into.append(Store(self.locks, b, Const(0, int32)))

    def add(self, into: Linearizer, where: Expr, values: Sequence[Expr]) -> None:
        new = (Const(1, int32), *values)
        into.append(Atomic((self.filled, *self.values), where, new, self.combine, self.locks))

    def flush(self, into: Linearizer, bin_: Expr, target: Expr, copies: Expr, start: Expr,
              outs: Sequence[Buffer], combine: Combine, locks: Buffer | None = None
              ) -> None:  # fmt: skip
        """Add the copies of one bin, beginning with number `start`, to an element of the target."""
        base = into.let(bin_ * copies, "base")
        last = into.let(copies - 1, "last")
        some = into.declare(FALSE, "some")
        totals = declare(into, [zero(v.type) for v in self.values])
        with into.loop("c", 0, copies) as c:
            copy = simplify.apply(primitive("bitwise_and"), (c + start, last), c.type)
            where = into.let(base + copy, "slot")
            with into.when(at.negate(_equal(Load(self.filled, where), Const(0, int32)))):
                loaded = [Load(v, where) for v in self.values]
                join(into, combine, totals, loaded, known=some)
                into.append(Assign(some, TRUE))
        with into.when(some):
            into.append(Atomic(tuple(outs), target, totals, combine, locks))
