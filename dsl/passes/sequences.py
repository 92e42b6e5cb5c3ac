"""recognise_sequence: a loop that writes a few elements in each iteration becomes one kernel.

    loop(n, lambda k, t: t.at[f(k)].set(g(t, k)), t₀)   →   for k: t[f(k)] = g(t, k)

The elements that an iteration reads may be those that it, or the ones before, wrote: tables that
are filled cell by cell, recurrences of any reach, exchanges, walks that count what they visit.  A
loop over arrays would start several kernels in every iteration.  A loop around such a loop that
does nothing else is one more axis of the same kernel.  This runs after fusion, which must not
compute an element of the state from the value that it had before the loop; on a CPU only, where
one thread is fast enough.

An iteration is a list of writes.  What one of them needs of an array as it was before another is
computed ahead of that one (`_Iteration`).  Branches are such writes, too (`iteration_branches`).

    while_loop(p, f, s)   →   while_loop(p, several, s)
    where several(s) is loop(1024, lambda k, t: f(t) if p(t) else t, s)

Such a loop, here of one iteration at most, is also around a sequence for which something is
computed that must not be where there is no iteration, such as a table read by data.

Inner loops are steps of such an iteration (`inner_loops`); so are those that had become walks over
numbers, such as sums of what the iterations before have written.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set as AbstractSet
from typing import NamedTuple

from .. import expr as ex, graph
from ..analysis.bounds import element_bounds
from ..errors import Location
from ..expr import Expr
from ..graph import Leaf, Node, known
from ..graphs.rebuild import Rebuilder, replace_nodes, rewrite_graph
from ..node import indices
from ..scalar import apply_primitive
from ..simplify import cast, in_order
from ..types import ScalarType, int64
from .base import Context
from .guard import inside
from .inner_loops import (
    MOST_ELEMENTS,
    OtherLoop,
    based_on,
    chains,
    few,
    in_turn,
    iteration_order,
    need,
    not_inside,
    own_nodes,
    used_by,
    where_both,
)
from .iteration_branches import conditional, guarded, in_range_only, weaker, without_branches
from .iteration_tests import with_tests_decided
from .recurrence import dependent, is_unsafe
from .short_axes import is_free
from .vertical import LARGEST, Inliner

#: The iterations of a loop with a predicate that one kernel runs.
AT_ONCE = 1024


def recognise_sequence(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    """Replace the loops whose iterations write a few elements each; checked programs keep them."""
    order = list(graph.topological(roots))
    loops = any(isinstance(n, graph.ArrayLoop) for n in order)
    if not context.target.cores or context.settings.check or not loops:
        return list(roots)
    written: dict[Node, graph.ArrayLoop] = {}

    def change(node: Node) -> Node | Sequence[Leaf]:
        found = as_sequence(node, written) if isinstance(node, graph.ArrayLoop) else None
        if found is None:
            return node
        number = _writes(found)
        what = "an element" if number == 1 else f"{number} elements"
        context.notes.append(f"{node.label}: one kernel writes {what} in each iteration")
        return found.leaves[: len(node.leaves)]  # one loop of several has further state

    return rewrite_graph(roots, change, context.kept)


def _writes(node: graph.Sequential | graph.ArrayLoop) -> int:
    """How many elements an iteration writes."""
    sequence = node if isinstance(node, graph.Sequential) else node.body[0].node
    assert isinstance(sequence, graph.Sequential)
    return sum(k in range(len(sequence.defaults)) for k in sequence.written)


def as_sequence(
    loop: graph.ArrayLoop, written: dict[Node, graph.ArrayLoop]
) -> graph.Sequential | graph.ArrayLoop | None:
    """A loop as a sequence, where each iteration writes a few elements, or is a sequence itself;
    one with a predicate as a loop around a sequence.  `written`: the loops that sequences were."""
    if loop.changing() or any(c.reads for c in loop.checks):
        return None
    try:
        every = [*graph.topological(loop.inner_roots())]
        order, changing = iteration_order(loop, loop.inner_roots()), loop.varying(every)
        around = loop.predicate is not None or not all(map(_is_small, {*order} - changing))
        own = changing if around else {*order}
        body = without_branches(_as_loops(loop.inner_roots(), written, own))
        last, predicate = tuple(body[: len(loop.state)]), loop.predicate and body[-1]
        one = loop.with_(body=last, predicate=predicate)
        made: graph.Sequential | graph.ArrayLoop
        if around:
            made = _around(loop, body)
        else:
            try:
                roots = without_branches(loop.inner_roots())
                order = sorted(iteration_order(loop, roots), key=lambda n: n.uid)  # as written
                made = _Nest(loop, order).made()
            except OtherLoop:
                made = _Iteration(one, body).made()
    except OtherLoop:
        return None
    written[made] = one
    return made


def _is_small(node: Node) -> bool:
    """Whether a node is computed as quickly as it is read."""
    return isinstance(node, graph.Generate) and few(node.leaf(0))


def _as_loops(roots: Sequence[Leaf], written: Mapping[Node, graph.ArrayLoop],
              own: AbstractSet[Node]) -> list[Leaf]:  # fmt: skip
    """The roots with the loops that the sequences and the walks of iterations, which have their
    `own` nodes, were."""
    builder = Rebuilder()
    for node in graph.topological(roots):
        source = written.get(node) if node in own else None
        if source is not None:
            for inside in graph.topological(source.inner_roots()):
                builder.replace(inside, builder.node(inside))
            builder.nodes[node] = builder.node(source)
        elif isinstance(node, graph.Recurrence) and node in own and _is_number(node):
            made = builder.node(node)
            assert isinstance(made, graph.Recurrence)
            builder.leaves.update(zip(node.leaves, _as_loop(made), strict=True))
        else:
            builder.replace(node, builder.node(node))
    return [builder.leaf(leaf) for leaf in roots]


def _is_number(walk: graph.Recurrence) -> bool:
    """Whether a walk only has the last values of numbers.  Longer states are walked in vectors."""
    return not walk.others and not walk.collected and not walk.label.ordered


def _as_loop(walk: graph.Recurrence) -> list[Leaf]:
    """The results of a walk as those of a loop over its numbers."""
    label, where = graph.Label(walk.label.operation), walk.where
    states = tuple(graph.Input("state", v.type, (), kind="state", where=where) for v in walk.state)
    index = graph.Input("k", int64, (), kind="counter", where=where)
    memo: dict[Expr, Expr] = {v: s.leaf().at() for v, s in zip(walk.state, states, strict=True)}
    memo[ex.Index(0)] = index.leaf().at()
    steps = ex.rewrite(walk.steps, lambda e: e, memo)
    init, body = (graph.Generate((), es, label=label, where=where) for es in (walk.start, steps))
    made = graph.ArrayLoop(states, init.leaves, body.leaves, None, walk.shape[0], index,
                           label=walk.label, where=where, checks=walk.checks)  # fmt: skip
    return [made.leaf(k) for k in walk.last]


def _around(loop: graph.ArrayLoop, body: Sequence[Leaf]) -> graph.ArrayLoop:
    """A loop around a sequence: of some iterations of one with a predicate, or of all of another.
    What must only be computed if there is an iteration is before the sequence, in the loop."""
    body, safe = _computed_anyway(loop, body)
    states = [state.copy().of_shape(state.shape) for state in loop.state]
    inner = loop.with_(init=tuple(s.leaf() for s in states), body=tuple(body[: len(states)]),
                       predicate=None, checks=())  # fmt: skip
    index = graph.Input("k", int64, (), kind="counter", where=loop.where)
    if loop.predicate is not None:
        inner = inner.with_(count=ex.constant(AT_ONCE), index=index)
        outer = loop
    else:
        assert loop.count is not None
        some = apply_primitive("less", [ex.constant(0), loop.count])
        outer = loop.with_(count=cast(some, int64), index=index)
    order = [*graph.topological(inner.body)]
    same = {*order} - inner.varying(order)
    # What loops inside compute stays there if it must not be without an iteration of theirs.
    unsafe = {n for n in same - not_inside(inner.body) - safe if is_unsafe(n)}
    made = _Iteration(inner, body, same - unsafe - dependent(order, unsafe)).made()
    outside = Rebuilder()
    outside.leaves.update({s.leaf(): t.leaf() for s, t in zip(loop.state, states, strict=True)})
    tests = body[len(states) :]
    for node in graph.topological(tests):
        outside.replace(node, outside.node(node))
    # Copies that iterations change are further states.
    copies = made.defaults[len(states) :]
    kept = [graph.Input("copy", leaf.type, (False,) * len(leaf.shape), kind="state",
                        where=loop.where).of_shape(leaf.shape) for leaf in copies]  # fmt: skip
    within = Rebuilder()
    within.leaves.update({leaf: s.leaf() for leaf, s in zip(copies, kept, strict=True)})
    init = *loop.init, *copies
    each = made.with_(checks=(), first=tuple(map(element_bounds, init)))
    return outer.with_(
        state=(*states, *kept), init=init,
        body=within.node(each).leaves,
        predicate=outside.leaf(tests[0]) if tests else None,
        checks=tuple(dict.fromkeys((*loop.checks, *made.checks))),
    )  # fmt: skip


def _computed_anyway(loop: graph.ArrayLoop, body: Sequence[Leaf]
                     ) -> tuple[Sequence[Leaf], set[Node]]:  # fmt: skip
    """The body of a loop with the arrays that only loops within it need, and no iteration changes,
    such as `table[order]`, as arrays that may be computed without an iteration: they have 0 where
    an index is out of range.  And these."""
    order, safe = [*graph.topological(body)], set[Node]()
    found = {*order} - loop.varying(order) - not_inside(body)

    def change(node: Node, made: Node) -> Node:
        if node not in found or not isinstance(made, graph.Generate) or _is_small(made):
            return made
        if not is_unsafe(made) or any(isinstance(e, ex.While | ex.Foreign) for e in
                                      ex.walk(made.elements)):  # fmt: skip
            return made
        made = made.with_(elements=ex.rewrite(made.elements, in_range_only))
        safe.add(made)
        return made

    return replace_nodes(body, change), safe


class _Write(NamedTuple):
    """`value` at `target` of a component where `valid` holds.  `given`: what the program says of
    the validity; `valid` has the target in range, too.  Or a step of `Sequential` that writes
    nothing."""

    component: int
    given: Expr
    valid: Expr
    target: tuple[Expr, ...] = ()
    value: Expr = ex.FALSE


class _Kept(NamedTuple):
    """What is computed ahead of a write."""

    before: int
    name: ex.Var
    value: Expr


class _Loop:
    """What a loop and a nest of loops have in common."""

    def __init__(self, loop: graph.ArrayLoop, order: Sequence[Node]) -> None:
        self.loop, self.order = loop, order
        self.firsts = list(loop.init)

    def _own_elements(self, bodies: Sequence[Expr]) -> None:
        """What a sequence reads of its defaults are the current elements: those that are read for
        other reasons, or twice the defaults, are of a copy."""
        read = {Leaf(e.node, e.component) for e in ex.walk(bodies) if isinstance(e, ex.Read)}
        for k, (first, state) in enumerate(zip(self.firsts, self.loop.state, strict=True)):
            if first in read or first in self.firsts[:k]:
                copied = (first.at(*indices(len(first.shape))),)
                label = graph.Label(self.loop.label.operation, f"{state.name}{k}")
                copy = graph.Generate(first.shape, copied, label=label, where=self.loop.where)
                self.firsts[k] = copy.leaf()

    def _finished(self, node: graph.Sequential) -> graph.Sequential:
        """The node, if it uses nothing that only the loop has."""
        loops = [n for n in self.order if isinstance(n, graph.ArrayLoop)]
        bound = {*self.order, *(b for x in (self.loop, *loops) for b in x.bound)}
        need(bound.isdisjoint(graph.topological(node.leaves, inside=False)))
        return with_tests_decided(node)


class _Iteration(_Loop):
    """A loop of updates of a few elements each, and of loops of such updates.

    An array has a version for each number of writes before; a value is computed while the versions
    that it reads are the current ones, ahead of the write that needs it if another comes between.
    """

    def __init__(self, loop: graph.ArrayLoop, body: Sequence[Leaf],
                 outside: AbstractSet[Node] = frozenset()) -> None:  # fmt: skip
        """`body`: the next state, and the predicate if there is one, without branches; `outside`:
        what is computed before the loop, although it may have no iteration."""
        super().__init__(loop, [n for n in iteration_order(loop, body) if n not in outside])
        self.body, self.outside = body, outside
        #: The component and version that a leaf is.
        self.version: dict[Leaf, tuple[int, int]] = {}
        self.writes: list[_Write] = []
        #: For each component, the writes before which it has its versions.
        self.began = [[0] for _ in loop.state]
        #: The components that hold what inner loops have of their own; numbers are variables.
        self.variables: dict[int, ex.Var] = {}
        #: The elements of small arrays, and the write before which they may be computed first.
        self.scalars: list[tuple[Leaf, Expr, int]] = []
        self.computed: set[Node] = set()
        self.kept: list[_Kept] = []
        self.names: dict[Expr, Expr] = {}
        self.checks = loop.checks
        self.fused: list[tuple[graph.Label, Location | None]] = []

    def made(self) -> graph.Sequential:
        loop, given = self.loop, list(self.body)
        assert loop.count is not None
        # Of what is computed before the loop, an iteration may return, or change a copy of, the
        # elements as they are.
        for node in self.order:
            given += (*node.inside(), *based_on(node))
        bodies = [e for n in self.order for e in n.bodies()]
        bodies += [leaf.at(*indices(len(leaf.shape))) for leaf in given]
        self._own_elements([*bodies, loop.count])
        self._iterate(loop, self.body, range(len(loop.state)), self.outside)
        need(any(w.component >= 0 for w in self.writes))
        self._place()
        ready = [self._ready(number) for number in range(len(self.writes))]
        kept = sorted(self.kept, key=lambda x: x.before)
        arrays = [k for k in range(len(self.firsts)) if k not in self.variables]
        place = {k: number for number, k in enumerate((*arrays, *self.variables))}
        made = graph.Sequential(
            (loop.count,),
            tuple(place.get(w.component, w.component) for w in ready),
            self._final([w.valid for w in ready]),
            self._final([e for w in ready for e in w.target]),
            self._final([w.value for w in ready]),
            tuple(self.firsts[k] for k in arrays),
            tuple(self.variables.values()),
            tuple(x.name for x in kept),
            self._final([x.value for x in kept]),
            tuple(x.before for x in kept),
            label=loop.label,
            where=loop.where,
            checks=tuple(dict.fromkeys(self.checks)),
            fused=tuple(self.fused),
        )
        need(sum(1 for _ in ex.walk(made.bodies())) <= LARGEST)
        return self._finished(made)

    # --- the steps of an iteration ---

    def _iterate(self, loop: graph.ArrayLoop, body: Sequence[Leaf], parts: Sequence[int],
                 outside: AbstractSet[Node], test: Expr = ex.TRUE) -> None:  # fmt: skip
        """An iteration of a loop whose states are these components."""
        for state, part in zip(loop.state, parts, strict=True):
            need(state.leaf() not in self.version)
            self._becomes(state.leaf(), part)
        first, own, tested = len(self.writes), own_nodes(loop, body, outside), set[Node]()
        shared = self._shared(loop, body, own, outside)
        outside = outside | {*shared}
        if len(body) > len(parts):
            node, component = body[-1].node, body[-1].component
            need(isinstance(node, graph.Generate) or node not in own)
            tested = not_inside([body[-1]]) - {node}
            test = body[-1].at()
            if isinstance(node, graph.Generate) and node in own:
                test = in_order(node.elements[component])
        if test is not ex.TRUE:
            self._step(graph.TEST, test)
        chain = chains(loop.state, body[: len(parts)])
        steps = in_turn(own, chain, list(graph.topological(body)))
        need(not tested.intersection(steps))
        scalars = [n for n in own if isinstance(n, graph.Generate)]
        need(len(scalars) + len(steps) == len(own))
        made: set[Node] = {*loop.state, *steps}  # others have the same elements in all iterations
        # Larger arrays are only computed as what inner loops begin with.
        for n in scalars:
            if few(n.leaf(0)):
                self._scalar(n, first if n in tested else len(self.writes))
        for n in shared:
            self._scalar(n, len(self.writes), safe=True)
        for number, step in enumerate(steps):
            later = {leaf for n in steps[number + 1 :] for leaf in used_by(n)} | set(body)
            based = list[int]()
            for k, leaf in enumerate(based_on(step)):
                into = chain.get((step, k))
                kept = None if into is None else parts[into]
                stays = leaf in later or leaf.node not in made
                based.append(self._base(leaf, kept, stays, based, scalars))
            if isinstance(step, graph.Permute):
                self._update(step, based)
            else:
                assert isinstance(step, graph.ArrayLoop)
                self._enter(step, based, outside | not_inside(body))
        pending = [pair for pair in zip(parts, body, strict=False) if not self._is_current(*pair)]
        for part, leaf in sorted(pending, key=lambda pair: few(pair[1])):
            self._copy(leaf, part, scalars)

    def _shared(self, loop: graph.ArrayLoop, body: Sequence[Leaf], own: Sequence[Node],
                outside: AbstractSet[Node]) -> list[graph.Generate]:  # fmt: skip
        """What several loops within an iteration need, each only if it has an iteration, and none
        of them changes."""
        states = dependent(iteration_order(loop, body), set(loop.state))
        needed = Counter[Node]()
        for x in (n for n in own if isinstance(n, graph.ArrayLoop)):
            order = iteration_order(x, x.inner_roots())
            needed.update({*order} - dependent(order, set(x.bound)) - states - outside - {*own})
        return [
            n for n, loops in needed.items()
            if loops > 1 and isinstance(n, graph.Generate) and few(n.leaf(0))
            and not any(isinstance(e, ex.While | ex.Foreign) for e in ex.walk(n.elements))
        ]  # fmt: skip

    def _enter(self, loop: graph.ArrayLoop, parts: Sequence[int], outside: AbstractSet[Node]
               ) -> None:  # fmt: skip
        """An inner loop."""
        need(not loop.changing())
        self._check(loop)
        self.fused.append((loop.label, loop.where))
        body = loop.inner_roots()
        if loop.count is not None:
            # What does not change is computed before the loop, if that has an iteration.
            order = iteration_order(loop, body)
            changing = dependent(order, set(loop.bound))
            enters = apply_primitive("less", [ex.constant(0), loop.count])
            for n in own_nodes(loop, body, outside):
                if n not in changing and isinstance(n, graph.Generate) and few(n.leaf(0)):
                    self._scalar(n, len(self.writes), enters)
                    outside = outside | {n}
        with self._repeated(parts, loop.index, loop.count) as test:
            self._iterate(loop, body, parts, outside, test)
        for leaf, part in zip(loop.leaves, parts, strict=True):
            self._becomes(leaf, part)

    @contextlib.contextmanager
    def _repeated(self, parts: Sequence[int], index: graph.Input | None, count: Expr | None
                  ) -> Iterator[Expr]:  # fmt: skip
        """Steps that are repeated, which change these components; yields the test of a counter."""
        counter = list[int]()
        test: Expr = ex.TRUE
        if index is not None and count is not None:
            stop = graph.Input("stop", int64, ())
            self.scalars.append((stop.leaf(), count, len(self.writes)))
            counter = [self._component(int64, ())]
            self._write(counter[0], ex.TRUE, (), ex.constant(0))
            test = apply_primitive("less", [index.leaf().at(), stop.leaf().at()])
        self._step(graph.BEGIN)
        for part in (*parts, *counter):
            self.began[part].append(len(self.writes))
        if index is not None:
            self._becomes(index.leaf(), *counter)
        yield test
        if index is not None:
            more = apply_primitive("add", [index.leaf().at(), ex.constant(1)])
            self._write(counter[0], ex.TRUE, (), more)
        self._step(graph.END)
        for part in (*parts, *counter):
            self.began[part].append(len(self.writes))

    def _is_current(self, component: int, leaf: Leaf) -> bool:
        return self.version.get(leaf) == (component, len(self.began[component]) - 1)

    def _becomes(self, leaf: Leaf, component: int) -> None:
        """The leaf is the component as it is now."""
        self.version[leaf] = component, len(self.began[component]) - 1

    def _base(self, leaf: Leaf, kept: int | None, stays: bool, taken: Sequence[int],
              scalars: Sequence[Node]) -> int:  # fmt: skip
        """The component in which an update or an inner loop changes this, or a copy of it: `kept`
        for a state, its own unless that `stays` as it is, or a new one."""
        held = self.version.get(leaf, (-1, -1))[0]
        if held >= 0 and held not in taken and self._is_current(held, leaf):
            if held == kept or (held >= len(self.loop.state) and kept is None and not stays):
                return held
        if kept is None or few(leaf) or kept in taken:
            kept = self._component(leaf.type, leaf.shape)
        self._copy(leaf, kept, scalars)
        return kept

    def _component(self, type_: ScalarType, shape: graph.Shape) -> int:
        """A further array, or number."""
        number, zero = len(self.firsts), ex.Const(0, type_)
        first = graph.Memory(shape, (zero,), label=graph.Label("copy"), where=self.loop.where)
        self.firsts.append(first.leaf())
        self.began.append([0])
        if not shape:
            self.variables[number] = ex.Var("state", type_)
        return number

    def _copy(self, leaf: Leaf, component: int, scalars: Sequence[Node]) -> None:
        """Write all elements of a component."""
        if few(leaf):
            for at in _elements(leaf.shape):
                value: Expr = leaf.at(*at)
                if type(leaf.node) is graph.Generate:
                    element = leaf.node.elements[leaf.component]
                    value = element if isinstance(element, ex.Const) else value
                self._write(component, ex.TRUE, at, value)
            return
        need(any(isinstance(n, graph.ArrayLoop) for n in self.order))
        with contextlib.ExitStack() as loops:
            counters = [graph.Input("i", int64, (), kind="counter") for _ in leaf.shape]
            for counter, extent in zip(counters, leaf.shape, strict=True):
                test = loops.enter_context(self._repeated([component], counter, extent))
                self._step(graph.TEST, test)
            at = tuple(counter.leaf().at() for counter in counters)
            value = leaf.at(*at)
            if isinstance(leaf.node, graph.Generate) and leaf.node in scalars:
                here: dict[Expr, Expr] = dict(zip(indices(len(at)), at, strict=True))
                (value,) = ex.substitute((leaf.node.elements[leaf.component],), here)
            self._write(component, ex.TRUE, at, value, True)

    def _step(self, kind: int, valid: Expr = ex.TRUE) -> None:
        self.writes.append(_Write(kind, ex.TRUE, valid))

    def _update(self, node: graph.Permute, components: Sequence[int]) -> None:
        """The writes of an update of elements that are known to be few."""
        need(is_free(node))
        self._check(node)
        self.fused += [(node.label, node.where), *node.fused]
        for at in _elements(node.domain):
            here: dict[Expr, Expr] = dict(zip(indices(len(at)), at, strict=True))
            target = ex.substitute(node.target, here)
            values = ex.substitute(node.values, here)
            (valid,) = ex.substitute((node.valid,), here)
            if node.combine is not None:
                current = [self.firsts[k].at(*target) for k in components]
                values = node.combine.of(values, current)
            for k, value in zip(components, values, strict=True):
                self._write(k, valid, target, value)
        for leaf, k in zip(node.leaves, components, strict=True):
            self._becomes(leaf, k)

    def _check(self, node: Node) -> None:
        """What a node checks is checked before the loop."""
        need(not any(c.reads for c in node.checks))
        self.checks = (*self.checks, *node.checks)

    def _write(self, component: int, given: Expr, target: tuple[Expr, ...], value: Expr,
               inside_: bool = False) -> None:  # fmt: skip
        """`inside_`: the target is in range."""
        loop = self.loop
        assert loop.count is not None
        shape = self.firsts[component].shape
        equal = [(c.left, c.right) for c in self.checks if c.relation == "=="]
        count = loop.count
        (*at, condition) = self._counted((*target, given))

        def tested(condition: Expr) -> Expr:
            if (found := conditional(condition)) is not None:
                return where_both(found[0], tested(found[1]))
            return inside(condition, at, shape, (count,), equal)

        valid = given if inside_ else tested(condition)
        self.writes.append(_Write(component, given, valid, target, value))
        self.began[component].append(len(self.writes))

    def _scalar(self, node: graph.Generate, first: int, valid: Expr = ex.TRUE,
                safe: bool = False) -> None:  # fmt: skip
        """An array of few elements, where this holds: computed once in each iteration.  `safe`:
        with 0 where an index is out of range."""
        need(not node.label.ordered and node not in self.computed)
        self.computed.add(node)
        self._check(node)
        elements = ex.rewrite(node.elements, in_range_only) if safe else node.elements
        self.scalars += [(leaf, guarded(e, valid), first)
                         for leaf, e in zip(node.leaves, elements, strict=True)]  # fmt: skip

    def _place(self) -> None:
        """Loops over numbers, between the elements of small arrays that they need and those that
        need them: of the loop, then of those in it."""
        parts, ends = self._segments(), len(self.writes)
        of = {p: k for k, numbers in enumerate(parts) for p in numbers} | {ends: 0}
        for k, numbers in enumerate(parts):
            scalars = [x for x in self.scalars if of[x[2]] == k]
            others = [x for x in self.scalars if of[x[2]] != k]
            written = [w for p, w in enumerate(self.writes) if of[p] != k]
            beside = [e for w in written for e in (*w.target, w.value, w.valid)]
            elsewhere = {*ex.walk([*beside, *(e for _, e, _ in others)])}
            late: dict[Leaf, tuple[Expr, int]] = {}
            for leaf, element, first in scalars:
                uses = ex.walk((element,))
                if any(_is_found(e) or _of_any(e, [*late]) for e in uses):
                    late[leaf] = element, first
                else:
                    self._place_elements(leaf, element, first)
            self._place_loops(numbers, scalars, elsewhere)
            for leaf, (element, first) in late.items():
                self._place_elements(leaf, element, first)

    def _place_elements(self, leaf: Leaf, element: Expr, first: int) -> None:
        for at in _elements(leaf.shape):
            here: dict[Expr, Expr] = dict(zip(indices(len(at)), at, strict=True))
            (e,) = ex.substitute((element,), here)
            self.names[leaf.at(*at)] = self._placed(e, ex.TRUE, first)

    def _segments(self) -> list[list[int]]:
        """The writes of the loop, and of each loop in it, without those of the loops in that."""
        found, inside = [list[int]()], [0]
        for number, write in enumerate(self.writes):
            found[inside[-1]].append(number)
            if write.component == graph.BEGIN:
                inside.append(len(found))
                found.append([])
            elif write.component == graph.END:
                inside.pop()
        return found

    def _place_loops(self, numbers: Sequence[int], scalars: Sequence[tuple[Leaf, Expr, int]],
                     elsewhere: AbstractSet[Expr]) -> None:  # fmt: skip
        """Loops over numbers that every iteration of a loop runs, for several parts of what only
        that computes: once."""
        writes = [self.writes[p] for p in numbers]
        kinds = [w.component for w in writes]
        before = numbers[0] if numbers else 0
        at = numbers[kinds.index(graph.TEST)] if graph.TEST in kinds else before - 1
        run = [e for w in writes for e in ((*w.target, w.value) if w.valid is ex.TRUE else ())]
        run += [w.valid for w in writes]
        run += [e for _, e, first in scalars if first > at]
        parts = [*run, *(e for w in writes for e in (*w.target, w.value))]
        # The results of each loop; conditions have the index for the counter.
        loops: dict[Expr, dict[Expr, dict[Expr, None]]] = {}
        uses = Counter[Expr]()
        for part in dict.fromkeys(parts):
            for e in filter(_is_found, ex.walk((part,))):
                (form,), known = self._named(self._counted((e,))), self._named((e,))
                if _is_found(form):
                    forms = loops.setdefault(form.args[0], {})
                    forms.setdefault(form, {}).update(dict.fromkeys((e, *known)))
                    uses[form.args[0]] += 1
        always, few_ = set(ex.evaluated(run)), {leaf for leaf, _, _ in self.scalars}
        test = [w.valid for w in writes if w.component == graph.TEST]
        tested, by_test = set(ex.walk(test)), set(ex.evaluated(test))
        for loop, forms in loops.items():
            same = {e for of_form in forms.values() for e in of_form}
            # What the test has, too, is computed ahead of it.
            begun, runs = (at + 1, always) if tested.isdisjoint(same) else (at, by_test)
            first, last = self._span((loop,), -1)[loop]
            read = {Leaf(x.node, x.component) for x in ex.walk((loop,)) if isinstance(x, ex.Read)}
            if (uses[loop] > 1 and not runs.isdisjoint(same) and max(first, begun) <= last
                    and read.isdisjoint(few_) and elsewhere.isdisjoint(same)):  # fmt: skip
                for form, of_form in forms.items():
                    kept = self._keep(form, "found", max(first, begun))
                    self.names.update(dict.fromkeys(of_form, kept))

    # --- the order in which it is computed ---

    def _span(self, roots: Sequence[Expr], now: int) -> dict[Expr, tuple[int, int]]:
        """For each expression the first and the last write before which it can be computed."""
        found: dict[Expr, tuple[int, int]] = {}
        placed = {x.name: x.before for x in self.kept}
        ends = len(self.writes)
        for e in ex.walk(roots):
            first, last = 0, ends
            if isinstance(e, ex.Read):
                version = self.version.get(Leaf(e.node, e.component))
                if version is not None:
                    began = self.began[version[0]]
                    first = began[version[1]]
                    last = began[version[1] + 1] - 1 if version[1] + 1 < len(began) else ends
                elif Leaf(e.node, e.component) in self.firsts:  # what an update changes
                    first = last = now
            elif isinstance(e, ex.Var) and e in placed:
                first = placed[e]
            inner = [found[x] for x in (*e.args, *e.scoped)]
            found[e] = (max([first, *(a for a, _ in inner)]), min([last, *(b for _, b in inner)]))
        return found

    def _named(self, roots: Sequence[Expr]) -> tuple[Expr, ...]:
        return ex.rewrite(roots, lambda e: self.names.get(e, e))

    def _keep(self, e: Expr, name: str, at: int | None = None) -> Expr:
        """A variable with the value of `e`, computed as soon as it can be, or at a write."""
        (e,) = self._named((e,))
        if isinstance(e, ex.Const) or (
            isinstance(e, ex.Var) and any(x.name is e for x in self.kept)
        ):
            return e
        first, last = self._span((e,), -1)[e]
        need(first <= last)
        place = first if at is None else at
        for x in self.kept:
            if x.value is e and x.before == place:
                return x.name
        made = ex.Var(name, e.type)
        self.kept.append(_Kept(place, made, e))
        return made

    def _ready(self, number: int) -> _Write:
        """A write with what it needs of earlier versions computed ahead of it."""
        write = self.writes[number]
        valid = self._in_time(write.valid, ex.TRUE, number)
        target = tuple(self._in_time(e, write.given, number) for e in write.target)
        value = self._in_time(write.value, write.valid, number)
        return _Write(write.component, write.given, valid, target, value)

    def _in_time(self, e: Expr, guard: Expr, now: int) -> Expr:
        """The expression for a write: parts that can only be computed before are variables."""
        e, guard = self._named((e, guard))
        span = self._span((e, guard), now)
        first, last = span[e]
        if first <= now <= last:
            return e
        if first <= last:
            need(last < now)
            e, _, last = self._under(e, guard, first, last, now)
            return self._keep(e, "before", last)
        return self._in_parts(e, guard, lambda a, g: self._in_time(a, g, now))

    def _placed(self, e: Expr, guard: Expr, begun: int) -> Expr:
        """A variable with the value of an expression, computed as soon as it can be, but not before
        the write `begun`."""
        e, guard = self._named((e, guard))
        first, last = self._span((e,), -1)[e]
        if first > last:
            e = self._in_parts(e, guard, lambda a, g: self._placed(a, g, begun))
            first, last = self._span((e,), -1)[e]
        if begun > last:  # before the loop
            return self._keep(self._anyway(e), "value", last)
        e, first, _ = self._under(e, guard, max(first, begun), last, -1)
        return self._keep(e, "value", first)

    def _under(self, e: Expr, guard: Expr, first: int, last: int, now: int
               ) -> tuple[Expr, int, int]:  # fmt: skip
        """A value as it is computed between two writes, and the writes between which what guards it
        is known, too; if nothing is, its reads are guarded one by one."""
        need(first <= last)
        for condition in weaker(guard):
            a, b = self._span((condition,), now)[condition]
            if max(a, first) <= min(b, last):
                return guarded(e, condition), max(a, first), min(b, last)
        return self._anyway(e), first, last

    def _anyway(self, e: Expr) -> Expr:
        """A value that may be computed where it is not needed."""
        need(not any(isinstance(x, ex.While | ex.Foreign) for x in ex.walk((e,))))
        return ex.rewrite((e,), in_range_only)[0]

    def _in_parts(self, e: Expr, guard: Expr, part: Callable[[Expr, Expr], Expr]) -> Expr:
        """An expression of which no version of the arrays has all parts."""
        if (found := conditional(e)) is not None:
            p = part(found[0], guard)
            return where_both(p, part(found[1], where_both(guard, p)))
        if not isinstance(e, ex.Apply):
            raise OtherLoop
        if e.op.name != "select":
            return e.rebuild(tuple(part(a, guard) for a in e.args), ())
        p, a, b = e.args
        p = part(p, guard)
        sides = (a, p), (b, apply_primitive("logical_not", [p]))
        made = [part(x, where_both(guard, q) if x.reads else guard) for x, q in sides]
        return e.rebuild((p, *made), ())

    # --- over the axis of the sequence ---

    def _counted(self, roots: Sequence[Expr]) -> tuple[Expr, ...]:
        assert self.loop.index is not None
        counter = self.loop.index.leaf().at()
        return ex.rewrite(roots, lambda e: ex.Index(0) if e is counter else e)

    def _final(self, roots: Sequence[Expr]) -> tuple[Expr, ...]:
        held = {self.firsts[k]: var for k, var in self.variables.items()}

        def change(e: Expr) -> Expr:
            if not isinstance(e, ex.Read) or e.boundary is not None:
                return e
            leaf = Leaf(e.node, e.component)
            if (version := self.version.get(leaf)) is not None:
                leaf = self.firsts[version[0]]
            return held[leaf] if leaf in held else leaf.at(*e.args)

        return ex.rewrite(self._counted(roots), change)


def _is_found(e: Expr) -> bool:
    """Whether this is a result of a loop over numbers."""
    return isinstance(e, ex.Proj) and isinstance(e.args[0], ex.While | ex.Loop)


def _elements(shape: Sequence[Expr]) -> list[tuple[Expr, ...]]:
    """The indices of a small array."""
    extents = [known(n) for n in shape]
    need(None not in extents and math.prod(extents) <= MOST_ELEMENTS)
    return [
        tuple(map(ex.constant, at)) for at in itertools.product(*(range(int(n)) for n in extents))
    ]


class _Nest(_Loop):
    """A loop around a sequence: one more axis of the kernel."""

    def made(self) -> graph.Sequential:
        loop = self.loop
        assert loop.count is not None and loop.index is not None
        inner = [n for n in self.order if isinstance(n, graph.Sequential)]
        need(len(inner) == 1)
        (update,) = inner
        states = tuple(s.leaf() for s in loop.state)
        need(update.defaults == states and update.leaves == tuple(loop.body))
        need(not any(c.reads for c in update.checks))
        inliner = Inliner()
        for node in self.order:
            if node is update:
                continue
            need(isinstance(node, graph.Generate) and not (
                node.shape or node.label.ordered or node.checks))  # fmt: skip
            assert isinstance(node, graph.Generate)
            body = ex.rewrite(node.elements, inliner.expand, inliner.memo)
            # Computed too often, or from what the inner loop has changed.
            need(not any(isinstance(e, ex.While) or _of_any(e, states) for e in ex.walk(body)))
            inliner.bodies[node] = body
        bodies = [*update.bodies(), *(e for made in inliner.bodies.values() for e in made)]
        self._own_elements([*bodies, loop.count])
        counter = loop.index.leaf().at()

        def change(e: Expr) -> Expr:
            if e is counter:
                return ex.Index(0)
            if isinstance(e, ex.Read) and e.boundary is None and _of_any(e, states):
                return self.firsts[states.index(Leaf(e.node, e.component))].at(*e.args)
            return e

        axes: dict[Expr, Expr] = {ex.Index(k): ex.Index(k + 1) for k in range(len(update.domain))}

        def over(roots: tuple[Expr, ...]) -> tuple[Expr, ...]:
            return ex.rewrite(ex.rewrite(roots, inliner.expand, inliner.memo), change, axes)

        return self._finished(update.with_(
            domain=(loop.count, *update.domain), valid=over(update.valid),
            target=over(update.target), values=over(update.values), early=over(update.early),
            defaults=tuple(self.firsts), label=loop.label, checks=(*loop.checks, *update.checks),
            fused=(*update.fused, (loop.label, loop.where)),
        ))  # fmt: skip


def _of_any(e: Expr, leaves: Sequence[Leaf]) -> bool:
    return isinstance(e, ex.Read) and Leaf(e.node, e.component) in leaves
