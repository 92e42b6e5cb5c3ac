"""A loop around loops whose lengths only its iterations know, as one loop.

    while p(s):                        while phase >= 0:
        s = before(s)                      if phase == 1 and i < m:  s, i = inner(i, s), i + 1
        for i in range(n(s), m(s)):   →    else:
            s = inner(i, s)                    if phase == 1:        s = after(s)
        s = after(s)                           phase = 1 if p(s) else -1
                                               if phase == 1:        s, i, m = before(s), n(s), m(s)

Each iteration of the new loop updates a few elements if those of the old loops do, so
recognise_sequence makes one kernel of searches in graphs, work lists and heaps.  An iteration
consists of segments, between which the inner loops are.  What a segment computes of the state for
a later one, and what an inner loop begins with, are further parts of the state.
"""

from __future__ import annotations

import math
from collections.abc import Container, Sequence

from ..expr import FALSE, TRUE, Cond, Const, Expr, Extent, Proj, Read, constant, walk
from ..graph import ArrayLoop, Generate, Input, Label, Leaf, Node, Permute, known, topological
from ..graphs.rebuild import Rebuilder
from ..node import indices
from ..scalar import apply_primitive
from ..types import ScalarType, int64
from .recurrence import dependent, is_unsafe

#: Elements that one update of an iteration writes, at most.
MOST_ELEMENTS = 36


class OtherLoop(Exception):
    """A loop that is no sequence of writes."""


def need(condition: bool) -> None:
    if not condition:
        raise OtherLoop


def where_both(p: Expr, valid: Expr) -> Expr:
    """`p and valid`, of which the second is only evaluated where the first holds."""
    if p is TRUE or valid is TRUE:
        return valid if p is TRUE else p
    return Proj(Cond(p, (valid,), (FALSE,)), 0)


def iteration_order(loop: ArrayLoop, body: Sequence[Leaf]) -> list[Node]:
    """The nodes of an iteration, in the order of computation."""
    order = [n for n in topological(body) if not isinstance(n, Input)]
    changing = dependent(order, set(loop.bound))
    # What is unsafe, and what reads that, must not be computed before the loop, which may have no
    # iteration, unless the loop begins with it; what changes is not, anyway.
    begun = set(topological(loop.inputs()))
    unsafe = {n for n in order if n not in changing and n not in begun and is_unsafe(n)}
    kept = changing | unsafe | (dependent(order, unsafe) - begun)
    return [n for n in order if n in kept]


def few(leaf: Leaf) -> bool:
    """Whether an array has few elements, and how many is known."""
    extents = [known(n) for n in leaf.shape]
    return None not in extents and math.prod(map(int, extents)) <= MOST_ELEMENTS


class OneLoop:
    """A loop whose iterations contain loops as one loop with a predicate."""

    def __init__(self, loop: ArrayLoop, body: Sequence[Leaf]) -> None:
        """`body`: the next state, and the predicate if there is one, without branches."""
        self.loop = loop
        self.last, self.tested = list(body[: len(loop.state)]), list(body[len(loop.state) :])
        order = iteration_order(loop, body)
        loops = self.loops = [n for n in order if isinstance(n, ArrayLoop)]
        need(not any(x.changing() or any(c.reads for c in x.checks) for x in loops))
        # A kernel of its own is better for a loop whose length is known ahead.
        counts = {x: {e.node for e in walk(x.bodies()) if isinstance(e, Read)} for x in loops}
        varies = {*order, *loop.bound}
        need(all(x.count is None or counts[x] & varies for x in loops))
        outside = _not_inside(body)
        self.inner = [[n for n in iteration_order(x, x.inner_roots()) if n not in outside]
                      for x in loops]  # fmt: skip
        within = {n for nodes in self.inner for n in nodes}
        tests, others = _not_inside(self.tested), set(topological(self.last))
        self.test = [n for n in order if n in tests]
        plain = [n for n in order if n in others and n not in within and n not in loops]
        every = (*plain, *within, *self.test)
        need(all(isinstance(n, Generate | Permute) for n in every))
        need(not any(c.reads for n in every for c in n.checks))
        bound = {b for x in (loop, *loops) for b in x.bound}
        used = (e for n in (*every, *loops) for e in walk(n.expressions()))
        need(not any(isinstance(e, Extent) and e.node in bound for e in used))
        #: What is not the same in every iteration.
        self.varying = {leaf for n in (*bound, *every, *loops) for leaf in n.leaves}
        after = [dependent(order, {x}) for x in loops]
        latest = {n: max((k + 1 for k, d in enumerate(after) if n in d), default=0) for n in plain}
        self.segments = [[n for n in plain if latest[n] == k] for k in range(len(loops) + 1)]

        #: The state of the new loop, its first value, and what it is now.
        self.state: list[Input] = []
        self.init: list[Leaf] = []
        self.now: list[Leaf] = []
        for state, first in zip(loop.state, loop.init, strict=True):
            self._add(state.copy().of_shape(state.shape), first)
        if loop.index is not None:
            assert loop.count is not None
            self.counter = self._number(loop.index.name)
            self.count = self._number("count", first=loop.count)
        self.phase = self._number("phase")
        self._carry()

    # --- the parts of the state ---

    def _add(self, state: Input, first: Leaf) -> int:
        self.state.append(state)
        self.init.append(first)
        self.now.append(state.leaf())
        return len(self.state) - 1

    def _number(self, name: str, type_: ScalarType = int64, like: Leaf | None = None,
                first: Expr | None = None) -> int:  # fmt: skip
        """A part with few elements, which are 0, or another number, at first."""
        shape = () if like is None else like.shape
        made = Input(name, type_, tuple(n is constant(1) for n in shape), kind="state",
                     where=self.loop.where).of_shape(shape)  # fmt: skip
        value = Const(0, type_) if first is None else first
        start = Generate(shape, (value,), label=Label(name), where=self.loop.where)
        return self._add(made, start.leaf())

    def _carry(self) -> None:
        """Find the part of the state in which each array is; what segments keep for others."""
        loop = self.loop
        #: What is in each part, in terms of the old loop, at the beginning of each segment or loop.
        self.begun: dict[tuple[str, int], dict[Leaf, int]] = {}
        current = {s.leaf(): k for k, s in enumerate(loop.state)}
        if loop.index is not None:
            current[loop.index.leaf()] = self.counter
        #: Which numbers a segment stores: (the old leaf, the part).
        self.stores: list[list[tuple[Leaf, int]]] = [[] for _ in self.segments]
        self.within: list[list[int]] = []  # the parts of the state of each inner loop
        self.counts: list[tuple[int, int] | None] = []
        for k, nodes in enumerate(self.segments):
            self.begun["segment", k] = dict(current)
            self._updates(nodes, current)
            later = [n for x in (*self.segments[k + 1 :], *self.inner[k:]) for n in x]
            used = {leaf for n in later for leaf in n.inputs()}
            used |= {leaf for x in self.loops[k + 1 :] for leaf in x.inputs()}
            used |= {leaf for x in self.loops[k:] for leaf in x.inner_roots()} | set(self.last)
            for node in nodes:
                if isinstance(node, Generate):
                    for leaf in node.leaves:
                        if leaf in used:
                            need(few(leaf))
                            at = self._number("kept", leaf.type, leaf)
                            current[leaf] = at
                            self.stores[k].append((leaf, at))
            if k < len(self.loops):
                self._enter(self.loops[k], k, current)
        self.begun["segment", len(self.segments)] = current

    def _updates(self, nodes: Sequence[Node], current: dict[Leaf, int]) -> None:
        for node in nodes:
            if isinstance(node, Permute):
                for old, new in zip(node.defaults, node.leaves, strict=True):
                    need(old in current)
                    current[new] = current.pop(old)

    def _enter(self, inner: ArrayLoop, k: int, current: dict[Leaf, int]) -> None:
        """The parts of the state of an inner loop: arrays stay where they are."""
        self.counts.append(None if inner.index is None else
                           (self._number(inner.index.name), self._number("stop")))  # fmt: skip
        parts = []
        for state, first in zip(inner.state, inner.init, strict=True):
            if few(first):
                parts.append(self._number(state.name, state.type, first))
            else:
                need(first in current)
                parts.append(current.pop(first))
        left = dict(current)
        for state, part in zip(inner.state, parts, strict=True):
            current[state.leaf()] = part
        if inner.index is not None:
            counted = self.counts[k]
            assert counted is not None
            current[inner.index.leaf()] = counted[0]
        self.begun["loop", k] = dict(current)
        current.clear()
        current.update(left)
        current.update(zip(inner.leaves, parts, strict=True))
        self.within.append(parts)

    # --- one iteration ---

    def made(self) -> ArrayLoop:
        phase = self.now[self.phase].at()
        ends: list[Expr] = []
        for k in range(len(self.loops)):
            here = self._flag(_equal(phase, k + 1))
            ends.append(self._inner(k, here))
        again = self._flag(_equal(phase, 0))
        for k, end in enumerate(ends):
            builder = self._segment(k + 1, end)
            if k + 1 < len(self.loops):
                self._begin(k + 1, end, builder)
                self._set(self.phase, end, constant(k + 2))
            else:
                given = [*enumerate(self.last)]
                self._finish(given, end, builder, self.begun["segment", k + 2])
                if self.loop.index is not None:
                    more = apply_primitive("add", [self.now[self.counter].at(), constant(1)])
                    self._set(self.counter, end, more)
                again = self._flag(apply_primitive("logical_or", [again, end]))
        goes_on = self._flag(where_both(again, self._tested(again)))
        self._begin(0, goes_on, self._segment(0, goes_on))
        self._set(self.phase, goes_on, constant(1))
        ended = self._flag(where_both(again, apply_primitive("logical_not", [goes_on])))
        self._set(self.phase, ended, constant(-1))
        state = self.state[self.phase].leaf().at()
        running = apply_primitive("greater_equal", [state, constant(0)])
        loop = self.loop
        checks = [c for x in (loop, *self.loops) for c in x.checks]
        return ArrayLoop(
            tuple(self.state), tuple(self.init), tuple(self.now),
            Generate((), (running,), label=Label("predicate"), where=loop.where).leaf(), None, None,
            label=loop.label, where=loop.where, checks=tuple(dict.fromkeys(checks)),
            fused=(*loop.fused, *((x.label, x.where) for x in self.loops)),
        )  # fmt: skip

    def _flag(self, e: Expr) -> Expr:
        """A test, made once."""
        return Generate((), (e,), label=Label("test"), where=self.loop.where).leaf().at()

    def _set(self, part: int, valid: Expr, *values: Expr) -> None:
        """Write all elements of a part, given as an expression of their index."""
        shape = self.state[part].shape
        self.now[part] = Permute(
            shape, valid, indices(len(shape)), values, (self.now[part],), None,
            label=Label("update"), where=self.loop.where,
        ).leaf()  # fmt: skip

    def _over(self, begun: dict[Leaf, int]) -> Rebuilder:
        """From what the old loop had at some place to the new state as it is now."""
        builder = Rebuilder()
        builder.leaves.update({leaf: self.now[part] for leaf, part in begun.items()})
        return builder

    def _compute(self, nodes: Sequence[Node], valid: Expr, begun: dict[Leaf, int]) -> Rebuilder:
        builder = self._over(begun)
        parts = dict(begun)
        known = set(begun)
        for node in nodes:
            self._there(node.inputs(), known)
            known.update(node.leaves)
            made = builder.node(node)
            if isinstance(made, Permute):
                made = made.with_(valid=where_both(valid, made.valid))
                for old, new, leaf in zip(node.operands(), node.leaves, made.leaves, strict=True):
                    need(old in parts)  # otherwise a copy of what is no state, or is replaced
                    parts[new] = parts.pop(old)
                    self.now[parts[new]] = leaf
            else:
                assert isinstance(made, Generate)
                zeros = tuple(Const(0, e.type) for e in made.elements)
                chosen = Cond(valid, made.elements, zeros)
                elements = tuple(Proj(chosen, k) for k in range(len(zeros)))
                made = made.with_(elements=elements)
            builder.replace(node, made)
        self.known, self.parts = known, parts
        return builder

    def _there(self, leaves: Sequence[Leaf], known: Container[Leaf]) -> None:
        """What is read is there: an update of another segment may have replaced it."""
        need(all(leaf in known or leaf not in self.varying for leaf in leaves))

    def _segment(self, k: int, valid: Expr) -> Rebuilder:
        builder = self._compute(self.segments[k], valid, self.begun["segment", k])
        for leaf, part in self.stores[k]:
            self._set(part, valid, builder.leaf(leaf).at(*indices(len(leaf.shape))))
        return builder

    def _begin(self, k: int, valid: Expr, builder: Rebuilder) -> None:
        """Enter an inner loop."""
        inner, counted = self.loops[k], self.counts[k]
        self._there(inner.inputs(), self.known)
        if counted is not None:
            assert inner.count is not None
            self._set(counted[0], valid, constant(0))
            self._set(counted[1], valid, builder.expr(inner.count))
        for first, part in zip(inner.init, self.within[k], strict=True):
            if few(first):
                self._set(part, valid, builder.leaf(first).at(*indices(len(first.shape))))

    def _inner(self, k: int, here: Expr) -> Expr:
        """A step of an inner loop, if it has one; otherwise what this returns holds."""
        inner, nodes, begun = self.loops[k], self.inner[k], self.begun["loop", k]
        counted = self.counts[k]
        if counted is not None:
            at, stop = (self.now[part].at() for part in counted)
            step = self._flag(where_both(here, apply_primitive("less", [at, stop])))
        else:
            assert inner.predicate is not None
            tests = _not_inside([inner.predicate])
            tested = self._compute([n for n in nodes if n in tests], here, begun)
            need(all(isinstance(n, Generate) for n in nodes if n in tests))
            step = self._flag(where_both(here, tested.leaf(inner.predicate).at()))
        held = list(self.now)
        builder = self._compute(nodes, step, begun)
        # An update of what is no state of the inner loop would be of a copy.
        changed = {p for p, old in enumerate(held) if self.now[p] != old}
        need(changed.issubset(self.within[k]))
        self._finish([*zip(self.within[k], inner.body, strict=True)], step, builder, self.parts)
        if counted is not None:
            more = apply_primitive("add", [self.now[counted[0]].at(), constant(1)])
            self._set(counted[0], step, more)
        return self._flag(where_both(here, apply_primitive("logical_not", [step])))

    def _finish(self, given: Sequence[tuple[int, Leaf]], valid: Expr, builder: Rebuilder,
                begun: dict[Leaf, int]) -> None:  # fmt: skip
        """The next state, `given` as (part, leaf): arrays are there already."""
        values = []
        for part, leaf in given:
            if begun.get(leaf) == part:
                continue
            need(few(leaf))
            self._there((leaf,), self.known)
            values.append((part, builder.leaf(leaf).at(*indices(len(leaf.shape)))))
        for part, value in values:
            self._set(part, valid, value)

    def _tested(self, again: Expr) -> Expr:
        """Whether the loop goes on."""
        loop = self.loop
        begun = {s.leaf(): k for k, s in enumerate(loop.state)}
        if loop.count is not None:
            at, stop = self.now[self.counter].at(), self.now[self.count].at()
            return apply_primitive("less", [at, stop])
        (predicate,) = self.tested
        need(all(isinstance(n, Generate) for n in self.test))
        return self._compute(self.test, again, begun).leaf(predicate).at()


def _equal(e: Expr, n: int) -> Expr:
    return apply_primitive("equal", [e, constant(n)])


def _not_inside(roots: Sequence[Leaf]) -> set[Node]:
    """What is computed for these, apart from what is inside of loops."""
    found: set[Node] = set()
    todo = [leaf.node for leaf in roots]
    while todo:
        node = todo.pop()
        if node not in found:
            found.add(node)
            todo += [leaf.node for leaf in node.inputs()]
    return found
