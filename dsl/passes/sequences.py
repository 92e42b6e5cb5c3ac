"""recognise_sequence: a loop that writes a few elements in each iteration becomes one kernel.

    loop(n, lambda k, t: t.at[f(k)].set(g(t, k)), t₀)   →   for k: t[f(k)] = g(t, k)

The elements that an iteration reads may be those that it, or the ones before, wrote: tables that
are filled cell by cell, recurrences of any reach, exchanges, walks that count what they visit.  A
loop over arrays would start several kernels in every iteration.  A loop around such a loop that
does nothing else is one more axis of the same kernel.  This runs after fusion, which must not
compute an element of the state from the value that it had before the loop; on a CPU only, where
one thread is fast enough.

An iteration is a list of writes.  What one of them needs of an array as it was before another is
computed ahead of that one (`_Iteration`).  A branch that updates an array or leaves it is an update
that is not always valid.

    while_loop(p, f, s)   →   while_loop(p, several, s)
    where several(s) is loop(1024, lambda k, t: f(t) if p(t) else t, s)

A loop around loops whose lengths its iterations decide is made one loop with them (`one_loop`).
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from .. import expr as ex, graph
from ..analysis.polynomial import always_inside
from ..expr import Expr
from ..graph import Leaf, Node, known
from ..graphs.rebuild import Rebuilder, rewrite_graph
from ..node import indices
from ..scalar import apply_primitive
from ..simplify import in_order
from ..types import int64
from .base import Context
from .guard import inside
from .one_loop import MOST_ELEMENTS, OneLoop, OtherLoop, iteration_order, need, where_both
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
    return len(sequence.written)


def as_sequence(
    loop: graph.ArrayLoop, written: dict[Node, graph.ArrayLoop]
) -> graph.Sequential | graph.ArrayLoop | None:
    """A loop as a sequence, where each iteration writes a few elements, or is a sequence itself;
    one with a predicate as a loop around a sequence.  `written`: the loops that sequences were."""
    if loop.changing() or any(c.reads for c in loop.checks):
        return None
    try:
        body = _without_branches(loop.inner_roots())
        order = sorted(iteration_order(loop, body), key=lambda n: n.uid)  # as they were written
        if loop.predicate is None and any(isinstance(n, graph.Sequential) for n in order):
            with contextlib.suppress(OtherLoop):
                return _Nest(loop, order).made()
        if any(n in written for n in graph.topological(loop.inner_roots())):
            loops = _without_branches(_as_loops(loop.inner_roots(), written))
            if any(isinstance(n, graph.ArrayLoop) for n in iteration_order(loop, loops)):
                return as_sequence(OneLoop(loop, loops).made(), written)
        last, predicate = tuple(body[: len(loop.state)]), loop.predicate and body[-1]
        one = loop.with_(body=last, predicate=predicate)
        made = _Iteration(one, order).made() if predicate is None else _while(loop, body, order)
    except OtherLoop:
        return None
    written[made] = one
    return made


def _as_loops(roots: Sequence[Leaf], written: dict[Node, graph.ArrayLoop]) -> list[Leaf]:
    """The roots with the loops that sequences were."""
    builder = Rebuilder()
    for node in graph.topological(roots):
        source = written.get(node)
        if source is None:
            builder.replace(node, builder.node(node))
        else:
            for inside in graph.topological(source.inner_roots()):
                builder.replace(inside, builder.node(inside))
            builder.nodes[node] = builder.node(source)
    return [builder.leaf(leaf) for leaf in roots]


def _while(loop: graph.ArrayLoop, body: Sequence[Leaf], order: Sequence[Node]) -> graph.ArrayLoop:
    """A loop with a predicate around a sequence of some of its iterations."""
    body, order = _tested_in_order(body, order)
    states = [state.copy().of_shape(state.shape) for state in loop.state]
    index = graph.Input("k", int64, (), kind="counter", where=loop.where)
    inner = loop.with_(
        init=tuple(s.leaf() for s in states), body=tuple(body[:-1]), predicate=None,
        count=ex.constant(AT_ONCE), index=index, checks=(),
    )  # fmt: skip
    made = _Iteration(inner, order, body[-1]).made()
    outside = Rebuilder()
    outside.leaves.update({s.leaf(): t.leaf() for s, t in zip(loop.state, states, strict=True)})
    tested = set(graph.topological(body[-1:]))
    for node in order:
        if node in tested:
            outside.nodes[node] = outside.node(node)
    return loop.with_(
        state=tuple(states), body=made.with_(checks=()).leaves,
        predicate=outside.leaf(body[-1]), checks=tuple(dict.fromkeys((*loop.checks, *made.checks))),
    )  # fmt: skip


def _tested_in_order(body: Sequence[Leaf], order: Sequence[Node]
                     ) -> tuple[Sequence[Leaf], Sequence[Node]]:  # fmt: skip
    """The same with a predicate that reads nothing where a part before decides it."""
    node, component = body[-1].node, body[-1].component
    if type(node) is not graph.Generate or node in {leaf.node for leaf in body[:-1]}:
        return body, order
    made = node.with_(elements=tuple(map(in_order, node.elements)))
    return [*body[:-1], Leaf(made, component)], [made if n is node else n for n in order]


def _without_branches(roots: Sequence[Leaf]) -> list[Leaf]:
    """The roots with branches that update arrays, or leave them, as updates that may be invalid."""
    order = list(graph.topological(roots))
    if not any(isinstance(n, graph.Branch) for n in order):
        return list(roots)

    def change(node: Node) -> Node | Sequence[Leaf]:
        if not isinstance(node, graph.Branch):
            return node
        return [_chosen(node, *sides) for sides in zip(node.then, node.other, strict=True)]

    return rewrite_graph(roots, change)


def _chosen(branch: graph.Branch, then: Leaf, other: Leaf) -> Leaf:
    """One result of a branch."""
    p = branch.predicate
    if then == other:
        return then
    if not then.shape:
        sides = [x.node.elements[x.component] if type(x.node) is graph.Generate else x.at()
                 for x in (then, other)]  # fmt: skip
        e = ex.Proj(ex.Cond(p, (sides[0],), (sides[1],)), 0)
        return graph.Generate((), (e,), label=branch.label, where=branch.where).leaf()
    for changed, left, condition in (
        (then, other, p),
        (other, then, apply_primitive("logical_not", [p])),
    ):
        updates = []
        at = changed
        while at != left and isinstance(at.node, graph.Permute) and len(at.node.defaults) == 1:
            updates.append(at.node)
            at = at.node.defaults[0]
        if at == left:
            for update in reversed(updates):
                valid = where_both(condition, update.valid)
                at = update.with_(defaults=(at,), valid=valid).leaf()
            return at
    raise OtherLoop


def _conditional(e: Expr) -> tuple[Expr, Expr] | None:
    """The parts of what `where_both` made."""
    cond = e.args[0] if isinstance(e, ex.Proj) else None
    if isinstance(cond, ex.Cond) and cond.other == (ex.FALSE,):
        return cond.args[0], cond.then[0]
    return None


class _Write(NamedTuple):
    """`value` at `target` of a component where `valid` holds.  `given`: what the program says of
    the validity; `valid` has the target in range, too."""

    component: int
    given: Expr
    valid: Expr
    target: tuple[Expr, ...]
    value: Expr


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
        bound = {*self.loop.bound, *self.order}
        checked = (e for c in node.checks for e in (c.left, c.right))
        used = ex.walk((*node.bodies(), *checked))
        uses = (e.node for e in used if isinstance(e, ex.Read | ex.Extent))
        need(not any(n in bound for n in uses))
        need(not any(leaf.node in bound for leaf in node.defaults))
        memo: dict[Expr, Expr] = {}
        known = {f: ex.rewrite(getattr(node, f), lambda e: _decided(e, node.domain), memo)
                 for f in node.computed}  # fmt: skip
        return node.with_(**known)


class _Iteration(_Loop):
    """A loop of updates of a few elements each.

    An array has a version for each number of writes before; a value is computed while the versions
    that it reads are the current ones, ahead of the write that needs it if another comes between.
    """

    def __init__(
        self, loop: graph.ArrayLoop, order: Sequence[Node], predicate: Leaf | None = None
    ) -> None:
        """`predicate`: without it nothing is written, and nothing else is computed."""
        super().__init__(loop, order)
        self.predicate = predicate
        self.goes_on: Expr = ex.TRUE
        #: The component and version that a leaf is.
        self.version = {s.leaf(): (k, 0) for k, s in enumerate(loop.state)}
        self.writes: list[_Write] = []
        #: For each component, the writes before which it has its versions.
        self.began = [[0] for _ in loop.state]
        self.kept: list[_Kept] = []
        self.names: dict[Expr, Expr] = {}
        self.checks = loop.checks
        self.fused: list[Node] = []

    def made(self) -> graph.Sequential:
        loop = self.loop
        assert loop.count is not None and loop.index is not None
        scalars = [n for n in self.order if isinstance(n, graph.Generate)]
        updates = [n for n in self.order if isinstance(n, graph.Permute)]
        need(len(scalars) + len(updates) == len(self.order))
        bodies = [e for n in self.order for e in n.bodies()]
        # Of what is computed before the loop, an iteration may return the elements as they are.
        given = [*loop.body, *(() if self.predicate is None else (self.predicate,))]
        bodies += [leaf.at(*indices(len(leaf.shape))) for leaf in given]
        self._own_elements([*bodies, loop.count])
        if self.predicate is not None:
            self.goes_on = self.predicate.at()
        for update in updates:
            self._update(update)
        last = {leaf: k for leaf, (k, v) in self.version.items() if v == len(self.began[k]) - 1}
        pending = []
        for k, leaf in enumerate(loop.body):
            if last.get(leaf) != k:
                pending.append((k, leaf))
        for k, leaf in pending:
            for at in _elements(leaf.shape):
                self._write(k, ex.TRUE, at, leaf.at(*at))
        need(bool(self.writes))
        self._scalars(scalars)
        ready = [self._ready(number) for number in range(len(self.writes))]
        kept = sorted(self.kept, key=lambda x: x.before)
        made = graph.Sequential(
            (loop.count,),
            tuple(w.component for w in ready),
            self._final([w.valid for w in ready]),
            self._final([e for w in ready for e in w.target]),
            self._final([w.value for w in ready]),
            tuple(self.firsts),
            tuple(x.name for x in kept),
            self._final([x.value for x in kept]),
            tuple(x.before for x in kept),
            label=loop.label,
            where=loop.where,
            checks=tuple(dict.fromkeys(self.checks)),
            fused=tuple(f for n in updates for f in ((n.label, n.where), *n.fused)),
        )
        need(sum(1 for _ in ex.walk(made.bodies())) <= LARGEST)
        return self._finished(made)

    # --- the writes ---

    def _update(self, node: graph.Permute) -> None:
        """The writes of an update of elements that are known to be few."""
        need(is_free(node))
        need(all(d in self.version for d in node.defaults))
        self._check(node)
        components = [self.version[d][0] for d in node.defaults]
        for d, k in zip(node.defaults, components, strict=True):
            need(self.version[d][1] == len(self.began[k]) - 1)
        need(len(set(components)) == len(components))
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
            self.version[leaf] = k, len(self.began[k]) - 1

    def _check(self, node: Node) -> None:
        """What a node checks is checked before the loop."""
        need(not any(c.reads for c in node.checks))
        self.checks = (*self.checks, *node.checks)

    def _write(self, component: int, given: Expr, target: tuple[Expr, ...], value: Expr) -> None:
        loop = self.loop
        assert loop.count is not None
        shape = self.firsts[component].shape
        equal = [(c.left, c.right) for c in self.checks if c.relation == "=="]
        count = loop.count
        (*at, condition) = self._counted((*target, given))

        def tested(condition: Expr) -> Expr:
            if (found := _conditional(condition)) is not None:
                return where_both(found[0], tested(found[1]))
            return inside(condition, at, shape, (count,), equal)

        valid = where_both(self.goes_on, tested(condition))
        given = where_both(self.goes_on, given)
        self.writes.append(_Write(component, given, valid, target, value))
        self.began[component].append(len(self.writes))

    def _scalars(self, nodes: Sequence[graph.Generate]) -> None:
        """The elements of small arrays: computed once in each iteration, the predicate first."""
        always = set() if self.predicate is None else set(graph.topological((self.predicate,)))
        for node in sorted(nodes, key=lambda n: n not in always):
            need(not node.label.ordered)
            self._check(node)
            for at in _elements(node.shape):
                here: dict[Expr, Expr] = dict(zip(indices(len(at)), at, strict=True))
                guard = ex.TRUE if node in always else self.goes_on
                for leaf, e in zip(node.leaves, ex.substitute(node.elements, here), strict=True):
                    self.names[leaf.at(*at)] = self._placed(e, guard)

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
            condition, _, last = self._under(guard, first, last, now)
            return self._keep(_guarded(e, condition), "before", last)
        return self._in_parts(e, guard, lambda a, g: self._in_time(a, g, now))

    def _placed(self, e: Expr, guard: Expr) -> Expr:
        """A variable with the value of an expression, computed as soon as it can be."""
        e, guard = self._named((e, guard))
        first, last = self._span((e,), -1)[e]
        if first > last:
            e = self._in_parts(e, guard, self._placed)
            first, last = self._span((e,), -1)[e]
        condition, first, _ = self._under(guard, first, last, -1)
        return self._keep(_guarded(e, condition), "value", first)

    def _under(self, guard: Expr, first: int, last: int, now: int) -> tuple[Expr, int, int]:
        """The condition for computing something between two writes, and the writes between which
        that is known, too."""
        for condition in _weaker(guard):
            a, b = self._span((condition,), now)[condition]
            if max(a, first) <= min(b, last):
                return condition, max(a, first), min(b, last)
        raise OtherLoop

    def _in_parts(self, e: Expr, guard: Expr, part: Callable[[Expr, Expr], Expr]) -> Expr:
        """An expression of which no version of the arrays has all parts."""
        if (found := _conditional(e)) is not None:
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
        def change(e: Expr) -> Expr:
            if not isinstance(e, ex.Read) or e.boundary is not None:
                return e
            version = self.version.get(Leaf(e.node, e.component))
            return e if version is None else self.firsts[version[0]].at(*e.args)

        return ex.rewrite(self._counted(roots), change)


def _guarded(e: Expr, condition: Expr) -> Expr:
    """The value where the condition holds; only there is it computed, if it reads anything."""
    if condition is ex.TRUE or not e.reads:
        return e
    return ex.Proj(ex.Cond(condition, (e,), (ex.Const(0, e.type),)), 0)


def _weaker(guard: Expr) -> Iterator[Expr]:
    """A condition, and those of its parts by which the rest of it may be computed."""
    yield guard
    if (found := _conditional(guard)) is not None:
        p, valid = found
        yield from (where_both(p, v) for v in _weaker(valid))
        yield from _weaker(p)


def _decided(e: Expr, domain: graph.Shape) -> Expr:
    """A test of an index, or its result where this is the same in all iterations: counters are
    neither negative nor beyond their loops."""
    if not (isinstance(e, ex.Apply) and e.args[0].type is int64 and e.op.name in _TESTS):
        return e
    index, limit = e.args
    if limit is not ex.constant(0):
        inside = e.op.name == "less" and always_inside(index, limit, domain)
        return ex.TRUE if inside else e
    # What is more than the index at one end of every loop, if it grows, or shrinks, with all.
    ends: list[dict[Expr, Expr]] = [
        {ex.Index(k): n for k, n in enumerate(domain)},
        {ex.Index(k): ex.constant(0) for k in range(len(domain))},
    ]
    for end in ends:
        beyond = apply_primitive("add", [ex.substitute((index,), end)[0], ex.constant(1)])
        if always_inside(index, beyond, domain):
            return ex.TRUE if e.op.name == "greater_equal" else ex.FALSE
    return e


#: What indices are tested by.
_TESTS = ("less", "greater_equal")


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
