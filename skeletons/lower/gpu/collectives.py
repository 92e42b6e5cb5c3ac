"""Collective operations of a warp and of a block: reductions and prefixes of tuples.

Values are mutable variables, one per component, of any scalar types; the operator is any `Combine`.
Thread 0 has the value that comes first in the array, and operands keep that order, so an operator
need not commute.  If an operator has no neutral element, `valid` is the number of threads, counted
from the first, that have a value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from treadle.dsl import simplify
from treadle.dsl.analysis.combines import argument_of, identities, independent_parts
from treadle.dsl.expr import TRUE, Apply, Const, Expr, Var, primitive, walk
from treadle.dsl.graph import Combine
from treadle.dsl.types import int64

from ...ir import arithmetic as at
from ...ir.kernel import Barrier, Buffer, Collective
from ...ir.linearize import Linearizer
from ..combining import Values, accumulate, assign, get, put
from .common import WARP

#: The distances in a reduction tree over a warp.
STEPS = (1, 2, 4, 8, 16)
#: Operators whose result does not depend on grouping, for any type.
_EXACT = ("minimum", "maximum", "fmin", "fmax", "logical_and", "logical_or", "logical_xor",
          "bitwise_and", "bitwise_or", "bitwise_xor")  # fmt: skip


def flipped(combine: Combine) -> Combine:
    """The operator whose first operand comes later in the array: for scans from the right."""
    return Combine(combine.right, combine.left, combine.results)


def neutral_of(combine: Combine) -> Values | None:
    """The neutral element of a commutative operator, if known."""
    found: dict[int, Expr] = {}
    for group, one in independent_parts(combine):
        better, neutral = argument_of(one), identities(one)
        if better is not None:
            value = one.results[0].type
            worst = value.highest if better == "less" else value.lowest
            neutral = Const(worst, value), Const(int64.highest, int64)
        if neutral is None:
            return None
        found.update(zip(group, neutral, strict=True))
    return tuple(found[k] for k in range(len(combine.results)))


def is_exact(combine: Combine) -> bool:
    """Whether grouping and order never change the result."""
    return all(
        argument_of(one) is not None or (identities(one) is not None and all(
            not r.type.is_inexact or r.op.name in _EXACT  # type: ignore[attr-defined]
            for r in one.results))
        for _, one in independent_parts(combine)
    )  # fmt: skip


def combine_cost(combine: Combine) -> float:
    """The cost of one combination in additions; infinite if it contains loops."""
    cost = 0.0
    for e in walk(combine.results):
        if isinstance(e, Apply):
            cost += e.op.cost
        elif e.scoped:
            cost += 1000.0
    return cost


def shuffled(into: Linearizer, op: str, values: Sequence[Expr], which: Expr | int
             ) -> tuple[Var, ...]:  # fmt: skip
    """The value of another thread of the warp; all threads of the warp must execute this."""
    got = tuple(Var("other", v.type) for v in values)
    for var, value in zip(got, values, strict=True):
        into.append(Collective(var, op, (value, at.integer(which))))
    return got


def _if(into: Linearizer, valid: Expr | None, index: Expr) -> AbstractContextManager[None]:
    return into.when(TRUE if valid is None else at.less(index, valid))


def reduce_warp(into: Linearizer, combine: Combine, values: Sequence[Var], lane: Expr,
                width: Expr | int = WARP, valid: Expr | None = None, most: int = WARP
                ) -> None:  # fmt: skip
    """In the first of every `width` threads, `values` become the combination of all `width`.

    `width` is a power of two; `lane` is the index among the `width`.  A width beyond `most`, itself
    at most a warp, counts as `most`.  The values of the other threads become undefined.
    """
    for step in [s for s in STEPS if s < most]:
        with into.when(at.less(step, width)):
            other = shuffled(into, "shuffle_down", values, step)
            with _if(into, valid, lane + step):
                accumulate(into, combine, values, other)


def tree(into: Linearizer, combine: Combine, totals: Sequence[tuple[Var, ...]]) -> tuple[Var, ...]:
    """Combine a thread's values, whose number is a power of two, into the first."""
    while len(totals) > 1:
        for a, b in zip(totals[::2], totals[1::2], strict=True):
            accumulate(into, combine, a, b)
        totals = totals[::2]
    return totals[0]


def scan_warp(into: Linearizer, combine: Combine, several: Sequence[Sequence[Var]], lane: Expr,
              width: int = WARP) -> None:  # fmt: skip
    """Inclusive prefixes over every `width` threads, for several independent tuples at once.

    Threads without a value must come last; their results are undefined.
    """
    for step in STEPS:
        if step >= width:
            break
        others = [shuffled(into, "shuffle_up", values, step) for values in several]
        with into.when(at.less_equal(step, lane)):
            for values, other in zip(several, others, strict=True):
                accumulate(into, combine, values, other, swapped=True)


@contextmanager
def steps(into: Linearizer, count: Expr | int, kind: str = "rolled") -> Iterator[Expr]:
    """The first `count` distances of a tree, one after the other, sharing code if `rolled`."""
    known = at.minimum(at.maximum(count, 0), len(STEPS))  # for range analysis
    with into.loop("e", 0, known, kind) as e:
        shifted = simplify.apply(primitive("left_shift"), (at.integer(1), e), int64)
        yield into.let(shifted, "step")


def reduce_block(into: Linearizer, combine: Combine, values: Sequence[Var], thread: Expr,
                 partials: Sequence[Buffer], threads: Expr | int, valid: Expr | None = None
                 ) -> None:  # fmt: skip
    """In the first of every `threads` threads, `values` become the combination of all of them; the
    first thread of each warp must have the combination of its warp.

    `threads` is a power of two, uniform in the block; up to a warp there is nothing to do.
    `partials` has an element per warp of the block; `valid` counts warps.
    """
    most = int(partials[0].size.value)  # type: ignore[attr-defined]
    valid = None if valid is None else into.let(valid, "valid")
    own = thread % threads
    lane = into.let(thread % WARP, "lane")
    with into.when(at.less(WARP, threads)):
        into.note("Each warp leaves its total; the first warp combines them.")
        with into.when(at.equal(lane, 0)):
            put(into, partials, thread // WARP, values)
        into.append(Barrier())
        warps = into.let(at.floor_divide(threads, WARP), "warps")
        with into.when(at.less(own, WARP)):
            first = thread // WARP
            position = first + at.minimum(lane, warps - 1)
            assign(into, values, get(into, partials, position))
            reduce_warp(into, combine, values, lane, warps, valid, most)
