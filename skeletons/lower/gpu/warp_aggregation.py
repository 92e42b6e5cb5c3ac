"""Warp aggregation: lanes of a warp that update the same target index issue one update.

    same = the lanes with this index                      (match)
    counts      popcount(same) times the constant
    others      next = the nearest lane above with the same index
                value = value ∘ value of next, lanes of odd rank retire, until none has a next
    the lowest of them updates the element

With few collisions this costs a match and a vote per element, which the latency of the updates
hides.  With many collisions it reduces the number of updates to about a thirtieth.
"""

from __future__ import annotations

from collections.abc import Sequence

from treadle.dsl import simplify
from treadle.dsl.analysis.combines import is_commutative
from treadle.dsl.expr import Apply, Const, Expr, Var, primitive
from treadle.dsl.graph import Combine
from treadle.dsl.types import bool_, int32, int64, uint32

from ...ir import arithmetic as at
from ...ir.kernel import Assign, Atomic, Buffer, Collective, While
from ...ir.linearize import Linearizer
from ..combining import Values, accumulate, declare
from ..scatter.gpu_bins import Counts, accumulators, component
from . import common

_NONE, _ONE, _ALL = Const(0, uint32), Const(1, uint32), Const(uint32.highest, uint32)


def _bits(name: str, a: Expr, b: Expr) -> Expr:
    return simplify.apply(primitive(name), (a, b), uint32)


def _is(name: str, a: Expr, b: Expr) -> Expr:
    return simplify.apply(primitive(name), (a, b), bool_)


def _count(e: Expr) -> Expr:
    return Apply(primitive("popcount"), (e,), uint32)


class Meeting:
    """Updates of a permute's target by complete warps.  `size`: elements of the target."""

    def __init__(self, into: Linearizer, grid: common.Threads, outs: Sequence[Buffer],
                 combine: Combine, values: Sequence[Expr], size: Expr) -> None:  # fmt: skip
        self.outs, self.combine, self.size = outs, combine, size
        made = accumulators(combine, values) or ()
        counts = [a for a in made if isinstance(a, Counts)]
        self.counts = counts if counts and len(counts) == len(made) else None
        self.lane = into.let(grid.lane, "lane")
        bit = into.let(_bits("left_shift", _ONE, simplify.cast(self.lane, uint32)), "bit")
        self.below = into.let(_bits("subtract", bit, _ONE), "below")
        self.above = into.let(_bits("bitwise_xor", _bits("bitwise_or", self.below, bit), _ALL),
                              "above")  # fmt: skip

    @staticmethod
    def suits(combine: Combine) -> bool:
        """Whether values may be combined before they reach the target: known operators."""
        return is_commutative(combine)

    def update(self, into: Linearizer, position: Expr, target: Expr, values: Values) -> None:
        """Update by all lanes of a warp at once; index −1 means no update."""
        same = self._same(into, target)
        if self.counts is None:
            values = self._joined(into, same, values)
        first = _is("equal", _bits("bitwise_and", same, self.below), _NONE)
        with into.when(at.both(first, at.less_equal(0, target))):
            if self.counts is not None:
                values = tuple(c.finish(_count(same))[1] for c in self.counts)
            for k, (out, value) in enumerate(zip(self.outs, values, strict=True)):
                into.append(Atomic((out,), target, (value,), component(self.combine, k)))

    def _same(self, into: Linearizer, target: Expr) -> Expr:
        half = Var("same", uint32)
        into.append(Collective(half, "match", (simplify.cast(target, int32),)))
        same = into.declare(half, "same")
        with into.when(at.less(1 << 31, self.size)):  # the high halves of the indices
            high = Var("high", uint32)
            upper = simplify.cast(at.floor_divide(target, 1 << 32), int32)
            into.append(Collective(high, "match", (upper,)))
            into.append(Assign(same, _bits("bitwise_and", same, high)))
        return same

    def _joined(self, into: Linearizer, same: Expr, values: Values) -> Values:
        """Combine the values of each index into its lowest lane."""
        peers = into.declare(_bits("bitwise_and", same, self.above), "peers")
        rank = into.declare(_count(_bits("bitwise_and", same, self.below)), "rank")
        totals = declare(into, values, "joined")
        some, even = Var("some", uint32), Var("even", uint32)
        waiting = _is("not_equal", peers, _NONE)
        with into.body() as before:
            into.append(Collective(some, "ballot", (waiting,)))
        with into.body() as body:
            lowest = _bits("bitwise_and", peers, _bits("subtract", _NONE, peers))
            number = simplify.cast(_count(_bits("subtract", lowest, _ONE)), int64)
            source = into.let(simplify.select(waiting, number, self.lane), "next")
            others = [Var("other", v.type) for v in totals]
            for other, v in zip(others, totals, strict=True):
                into.append(Collective(other, "shuffle", (v, source)))
            with into.when(waiting):
                accumulate(into, self.combine, totals, others)
            stays = _is("equal", _bits("bitwise_and", rank, _ONE), _NONE)
            into.append(Collective(even, "ballot", (stays,)))
            into.append(Assign(peers, _bits("bitwise_and", peers, even)))
            into.append(Assign(rank, _bits("right_shift", rank, _ONE)))
        into.append(While(tuple(before), _is("not_equal", some, _NONE), tuple(body)))
        return totals
