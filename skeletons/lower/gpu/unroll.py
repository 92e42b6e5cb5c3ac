"""Unrolls counted loops that read consecutive elements: one wide access for several iterations.

    loop k < n: s += a[i, k] · b[k, j]   →   loop k < n in steps of 4:  v = a[i, k … k + 3]
                                                s += v[0] · b[k, j];  …  s += v[3] · b[k + 3, j]

The iterations keep their order, and the operations of each element do not change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from treadle.dsl.expr import Expr, Loop, Read, Var, walk
from treadle.dsl.graph import Leaf

from ...ir.kernel import Buffer
from ...ir.linearize import Linearizer
from ..build import Builder
from .common import Group, load_vector, multiples, unconditional, vector_count

#: Maximum total number of expressions of the unrolled iterations.
MOST_EXPRESSIONS = 2048
#: Bytes of the state of a loop and of its unrolled reads: both should stay in registers.
MOST_BYTES = 384
#: Registers of a multiprocessor, registers of a thread for addresses and counters, and the maximum
#: registers of a thread for which a number of blocks is requested.
REGISTERS, OTHER_REGISTERS, MOST_REGISTERS = 65_536, 28, 128


def most_iterations(count: int, state: float, ahead: float, size: int = 0) -> int:
    """Iterations to read at once, `count` at most (a power of two): their reads, of `ahead` bytes
    each, and the `state` of the loop should fit registers; `size`: expressions of an iteration."""
    while count > 1 and (state + count * ahead > MOST_BYTES or count * size > MOST_EXPRESSIONS):
        count //= 2
    return count


class Unrolled:
    """A Linearizer context in which the loops of `roots` read several iterations at once.

    That is valid under `requires` (counts and rows are multiples of a vector) and `aligned`.  If
    `aligned` is empty there is nothing to gain, and loops stay unchanged.
    """

    def __init__(self, builder: Builder, roots: Sequence[Expr]) -> None:
        self.builder = builder
        self.leaf, self.host_scalar, self.read = builder.leaf, builder.host_scalar, builder.read
        self.exists = builder.exists
        self.registers = 0
        requires: list[Expr] = []
        aligned: list[Buffer] = []
        for loop in walk(roots):
            if isinstance(loop, Loop):
                count, reads = self._found(loop)
                if reads:
                    requires += multiples(loop.count, count, builder) or []
                for e, conditions in reads.items():
                    requires += conditions
                    aligned.append(builder.input(Leaf(e.node, e.component)))
        self.requires, self.aligned = tuple(dict.fromkeys(requires)), tuple(dict.fromkeys(aligned))

    def iterations(self, loop: Loop, index: Var, into: Linearizer) -> Sequence[Mapping[Expr, Expr]]:
        """The values of the joint reads, for each iteration from `index` on."""
        count, reads = self._found(loop)
        size = sum(1 for _ in walk(loop.scoped))
        state, ahead = (sum(e.type.bytes for e in es) for es in (loop.vars[1:], reads))
        count = most_iterations(count, state, ahead, size)
        every = sum(e.type.bytes for e in unconditional(loop.scoped) if isinstance(e, Read))
        self.registers = max(self.registers, OTHER_REGISTERS + (state + count * every) // 4)
        if count == 1 or not reads:
            return ({},)
        found: list[dict[Expr, Expr]] = [{} for _ in range(count)]
        with into.when_always({loop.vars[0]: index}):
            for e in reads:
                leaf = Leaf(e.node, e.component)
                begin = self.builder.position(leaf, into.emit(e.args))
                got = load_vector(into, self.builder.input(leaf), begin, count)
                for known, value in zip(found, got, strict=True):
                    known[e] = value
        return found

    def resident(self, threads: int) -> int:
        """Blocks per multiprocessor for which registers hold all joint reads; 0: unspecified.

        By default the compiler assigns fewer registers and serialises the loads (8 × 4 outputs of a
        float32 product of 4 096 squared: 5.5 ms, 10.7 without this).  If a thread needs many
        registers anyway, the compiler's choice is better (8 × 8: 4.5 ms, 4.3 without this).
        """
        if self.registers > MOST_REGISTERS:
            return 0
        return REGISTERS // (threads * self.registers)

    def _found(self, loop: Loop) -> tuple[int, dict[Read, list[Expr]]]:
        """The number of iterations whose elements fit one access, and their joint reads."""
        count = vector_count(e.type for e in self._reads(loop, 1))
        return count, self._reads(loop, count) if count > 1 else {}

    def _reads(self, loop: Loop, count: int) -> dict[Read, list[Expr]]:
        """The reads whose position increases by one per iteration from a multiple of `count`, with
        the conditions for that; none if the trip count is certainly not a multiple of `count`."""
        index, *state = loop.vars
        if multiples(loop.count, count, self.builder) is None:
            return {}
        group = Group(self.builder, (), index, count)
        found: dict[Read, list[Expr]] = {}
        always = set(unconditional(loop.scoped))
        for e in walk(loop.scoped):
            if isinstance(e, Read) and e in always and set(state).isdisjoint(walk(e.args)):
                member = group.member(e)
                if member is not None and member[0].sign == 1 and member[1] == 0:
                    found[e] = member[2]
        return found
