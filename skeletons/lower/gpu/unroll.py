"""Counted loops that read neighbours turn by turn: several turns at once, one access for all.

    loop k < n: s += a[i, k] · b[k, j]   →   loop k < n in steps of 4:  v = a[i, k … k + 3]
                                                s += v[0] · b[k, j];  …  s += v[3] · b[k + 3, j]

The turns follow each other as before: every element is computed by the very operations, in the very
order, in which it would be turn by turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from treadle.dsl.expr import Expr, Loop, Read, Var, walk
from treadle.dsl.graph import Leaf

from ...ir.kernel import Buffer
from ...ir.linearize import Linearizer
from ..build import Builder
from .common import Group, load_vector, multiples, unconditional, vector_count

#: Expressions of all turns together, up to which they are written one after the other.
MOST_EXPRESSIONS = 2048
#: Bytes of the state of a loop and of what its turns read together: both are to stay in registers.
MOST_BYTES = 384
#: Registers of a multiprocessor, those of a thread for addresses and counters, and the most for
#: which a number of blocks is asked.
REGISTERS, OTHER_REGISTERS, MOST_REGISTERS = 65_536, 28, 128


class Unrolled:
    """The surroundings of a Linearizer in which the loops of `roots` read several turns at once.

    That is right under `requires` (counts and rows are whole vectors) and `aligned`; with no
    `aligned` there is nothing to gain, and loops stay as they are.
    """

    def __init__(self, builder: Builder, roots: Sequence[Expr]) -> None:
        self.builder = builder
        self.leaf, self.held, self.read = builder.leaf, builder.held, builder.read
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

    def turns(self, loop: Loop, index: Var, into: Linearizer) -> Sequence[Mapping[Expr, Expr]]:
        """The values, of each of the turns from `index` on, of what they read together."""
        count, reads = self._found(loop)
        size = sum(1 for _ in walk(loop.scoped))
        state, ahead = (sum(e.type.bytes for e in es) for es in (loop.vars[1:], reads))
        while count > 1 and (state + count * ahead > MOST_BYTES or count * size > MOST_EXPRESSIONS):
            count //= 2
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
        """So many blocks of a multiprocessor have registers for all that is read at once; 0: any.

        Left to itself, the compiler gives a thread fewer, and waits for one load after the other
        (8 × 4 outputs of a float32 product of 4 096 squared: 5.5 ms, 10.7 without); where a thread
        has to have many anyhow, its own choice is better (8 × 8: 4.5 ms, 4.3 without).
        """
        if self.registers > MOST_REGISTERS:
            return 0
        return REGISTERS // (threads * self.registers)

    def _found(self, loop: Loop) -> tuple[int, dict[Read, list[Expr]]]:
        """Turns whose elements fit one access, and what they read in one."""
        count = vector_count(e.type for e in self._reads(loop, 1))
        return count, self._reads(loop, count) if count > 1 else {}

    def _reads(self, loop: Loop, count: int) -> dict[Read, list[Expr]]:
        """What every turn reads one place further than the last, the first place a multiple of
        `count`, under which conditions; nothing where the turns are surely no multiple of it."""
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
