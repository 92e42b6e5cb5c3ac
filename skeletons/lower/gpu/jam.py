"""Unroll and jam: the counted loops of several elements are fused.

    loop k < n: s += a[i, k] · b[k, j]        loop k < n: s  += a[i, k]     · b[k, j]
    loop k < n: s += a[i + 1, k] · b[k, j] →              s' += a[i + 1, k] · b[k, j]

Each iteration then reads shared values once and neighbouring values with one wide access.  The
operations of each element and their order do not change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from treadle.dsl.expr import Expr, Loop, Proj, Read, Var, rewrite, substitute, walk
from treadle.dsl.graph import Leaf

from ...ir.kernel import Buffer
from ...ir.linearize import Leaves, Linearizer
from ..build import Builder
from .common import Group, load_vector, unconditional

Copies = list[Expr]


def jam(roots: Sequence[Expr], changes: Sequence[Mapping[Expr, Expr]]) -> list[tuple[Expr, ...]]:
    """`roots` for each of `changes`, which map indices to values; see the module docstring.

    Conditional loops, loops with different trip counts, and `While` are not fused.
    """
    known = {leaf: [change[leaf] for change in changes] for leaf in changes[0]}
    found = _Jam(known, len(changes)).many(roots)
    return [tuple(copies[n] for copies in found) for n in range(len(changes))]


def jams(roots: Sequence[Expr]) -> bool:
    """Whether there is a counted loop to jam."""
    return any(isinstance(e, Loop) for e in walk(roots))


class _Jam:
    def __init__(self, known: dict[Expr, Copies], count: int) -> None:
        self.known, self.count = dict(known), count
        self.fused: dict[Expr, Loop] = {}

    def many(self, roots: Sequence[Expr]) -> list[Copies]:
        stack: list[tuple[Expr, bool]] = [(r, False) for r in reversed(roots)]
        while stack:
            e, ready = stack.pop()
            if e in self.known or e in self.fused:
                continue
            if ready:
                self._one(e)
            else:
                stack.append((e, True))
                stack.extend((a, False) for a in reversed(e.args))
        return [self.known[r] for r in roots]

    def _one(self, e: Expr) -> None:
        if isinstance(e, Proj) and e.args[0] in self.fused:
            loop = e.args[0]
            width = len(loop.vars) - 1
            self.known[e] = [Proj(self.fused[loop], n * width + e.which) for n in range(self.count)]
        elif isinstance(e, Loop) and len(set(self.known[e.count])) == 1:
            self._loop(e)
        elif e.scoped:
            self.known[e] = [self._alone(e, n) for n in range(self.count)]
        elif e.args:
            columns = zip(*(self.known[a] for a in e.args), strict=True)
            made: dict[tuple[Expr, ...], Expr] = {}
            self.known[e] = [made.setdefault(args, e) if args == e.args else made.get(args)
                             or made.setdefault(args, e.rebuild(args, ()))
                             for args in columns]  # fmt: skip
        else:
            self.known[e] = [e] * self.count

    def _alone(self, e: Expr, n: int) -> Expr:
        """One copy separately, over the values known for that copy."""
        memo = {x: copies[n] for x, copies in self.known.items()}
        return rewrite((e,), lambda x: x, memo)[0]

    def _loop(self, e: Loop) -> None:
        index, *state = e.vars
        own = [[Var(v.name, v.type) for v in state] for _ in range(self.count)]
        inside: dict[Expr, Copies] = {v: [copy[k] for copy in own] for k, v in enumerate(state)}
        results = _Jam({**self.known, **inside}, self.count).many(e.scoped)
        first = [self.known[a] for a in e.args[1:]]
        self.fused[e] = Loop(
            self.known[e.count][0],
            tuple(copies[n] for n in range(self.count) for copies in first),
            (index, *(v for copy in own for v in copy)),
            tuple(copies[n] for n in range(self.count) for copies in results),
        )


# --- wide accesses inside loops ------------------------------------------------------------------


class WideReads:
    """Reads in the loops of `roots` that are adjacent in memory for adjacent elements.

    `variable` is the index along the last axis; `count` neighbours, the first at a multiple of
    `count`, are read in one access under `requires` and `aligned`.
    """

    def __init__(self, builder: Builder, roots: Sequence[Expr], variable: Expr, count: int) -> None:
        self.builder, self.count = builder, count
        group = Group(builder, (), variable, count)
        outside = set(unconditional(roots))
        state = {v for e in walk(roots) for v in (e.vars[1:] if isinstance(e, Loop) else e.vars)}
        self.reads: list[tuple[Read, Buffer]] = []
        requires: list[Expr] = []
        for e in walk(roots):
            if not isinstance(e, Read) or e in outside or not state.isdisjoint(walk(e.args)):
                continue
            found = group.member(e) if count > 1 else None
            if found is not None and found[0].sign == 1 and found[1] == 0:
                self.reads.append((e, found[0].buffer))
                requires += found[2]
        self.requires = tuple(dict.fromkeys(requires))
        self.aligned = tuple(dict.fromkeys(b for _, b in self.reads))

    def emit(self, into: Linearizer, roots: Sequence[Expr], changes: Sequence[Mapping[Expr, Expr]]
             ) -> tuple[Expr, ...]:  # fmt: skip
        """`roots`, jammed; every `count` consecutive `changes` are neighbours."""
        mates: dict[Expr, tuple[list[Expr], int]] = {}
        for e, _ in self.reads:
            for n in range(0, len(changes), self.count):
                fused = [substitute((e,), dict(p))[0] for p in changes[n : n + self.count]]
                mates.update({read: (fused, k) for k, read in enumerate(fused)})
        before = into.leaves
        into.leaves = _Neighbours(self.builder, before, mates)
        try:
            return into.emit(roots, named=True)
        finally:
            into.leaves = before


class _Neighbours:
    """A Linearizer context on top of `around` in which neighbours are read together."""

    def __init__(self, builder: Builder, around: Leaves,
                 mates: dict[Expr, tuple[list[Expr], int]]) -> None:  # fmt: skip
        self.builder, self.around, self.mates = builder, around, mates
        self.leaf, self.host_scalar = around.leaf, around.host_scalar
        self.exists, self.iterations = around.exists, around.iterations

    def read(self, read: Read, indices: tuple[Expr, ...], into: Linearizer) -> Expr:
        found = self.mates.get(read)
        if found is None:
            return self.around.read(read, indices, into)
        fused, k = found
        leaf = Leaf(read.node, read.component)
        begin = self.builder.position(leaf, indices) - k
        got = load_vector(into, self.builder.input(leaf), begin, len(fused))
        into.bind(dict(zip(fused, got, strict=True)))
        return got[k]
