"""recognise_recurrence: loops whose elements evolve independently become one kernel.

    s, ys = scan(lambda s, x: (a·s + x, s), s₀, xs)   →   for each column j (in parallel):
                                                             s = s₀[j]
                                                             for k: ys[k, j] = s; s = a·s + xs[k, j]

If an iteration of a counted loop computes each element of its state from that element and from
other arrays, the state stays in registers, and values collected at the counter are stored as they
are computed.  A loop over arrays would launch kernels and move the state through memory in every
iteration.  This runs after products and additions are fused (form_fma), whose bits it keeps.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from .. import expr as ex, graph
from ..analysis.polynomial import Polynomial, polynomial
from ..analysis.steps import moving_with, written_alone
from ..expr import Expr
from ..graphs.interning import cached_per_object
from ..graphs.rebuild import Rebuilder, replace_nodes
from ..operations.indexing.row_major import minus
from ..scalar import apply_primitive
from .base import Context
from .tested import may_be_outside
from .vertical import LARGEST, Inliner, checked_by_data
from .waiting import last_comes_last, late_states

#: The most arrays of a state.
MOST_STATES = 16


def recognise_recurrence(roots: Sequence[graph.Leaf], context: Context) -> list[graph.Leaf]:
    """Replace loops that are recurrences; not in checked programs, which test indices."""
    order = list(graph.topological(roots))
    if context.settings.check or not any(isinstance(n, graph.ArrayLoop) for n in order):
        return list(roots)

    builder = Rebuilder()

    def change(old: graph.Node, node: graph.Node) -> graph.Node | Sequence[graph.Leaf]:
        if not isinstance(node, graph.ArrayLoop):
            return node
        found = _recurrence(node, context, lambda: {
            builder.leaf(leaf).node for n in _computed_with(old, roots, order) for leaf in n.leaves
        })  # fmt: skip
        if found is None:
            return node
        context.notes.append(f"{node.label}: one kernel walks along the axis")
        return found

    return replace_nodes(roots, change, builder=builder)


def _computed_with(loop: graph.Node, roots: Sequence[graph.Leaf], order: Sequence[graph.Node]
                   ) -> set[graph.Node]:  # fmt: skip
    """The nodes that are computed wherever a loop is, whether or not it has iterations."""
    levels: list[tuple[graph.Node | None, Sequence[graph.Leaf]]] = [(None, roots)]
    for node in order:
        if isinstance(node, graph.Branch):
            levels += [(node, node.then), (node, node.other)]
        elif isinstance(node, graph.ArrayLoop):
            levels.append((node, node.inner_roots()))
    inside = [(owner, set(graph.topological(level, inside=False))) for owner, level in levels]
    known: dict[graph.Node, set[graph.Node]] = {}

    def of(node: graph.Node) -> set[graph.Node]:
        if node not in known:
            known[node] = set.intersection(
                *(
                    found if owner is None else found | of(owner)
                    for owner, found in inside
                    if node in found
                )
            )
        return known[node]

    return of(loop)


class _Unfit(Exception):
    """The loop is not a recurrence."""


class _Place(NamedTuple):
    """The index `at` = `sign` · k + `start` at which step k stores a result; `full`: of an array
    with an element for each step, in their order or in the opposite one."""

    at: Expr
    sign: int
    start: Expr
    full: bool


def _recurrence(
    loop: graph.ArrayLoop, context: Context, others: Callable[[], set[graph.Node]]
) -> list[graph.Leaf] | None:
    """The results of a loop, computed by a recurrence; `others` are computed in any case."""
    if loop.count is None or loop.index is None or loop.changing():
        return None
    try:
        walk = _Walk(loop, others)
        if walk.ahead:
            walk = _Walk(*walk.guarded())
        return walk.made(context)
    except _Unfit:
        return None


class _Walk:
    """The body of a loop as expressions over one element of its state."""

    def __init__(self, loop: graph.ArrayLoop, others: Callable[[], set[graph.Node]]) -> None:
        self.loop = loop
        self.nodes = [n for n in graph.topological(loop.body) if not isinstance(n, graph.Input)]
        self.depends = dependent(self.nodes, set(loop.bound))
        numbers = range(len(loop.state))
        self.collected = written_alone(loop, self.nodes)
        self.carried = [k for k in numbers if k not in self.collected]
        inside = [n for n in self.nodes if n in self.depends]
        self.checks = dict.fromkeys((*loop.checks, *(c for n in inside for c in n.checks)))
        if any(c.reads for c in self.checks):
            raise _Unfit
        self.equal = {frozenset((c.left, c.right)) for c in self.checks if c.relation == "=="}
        shapes = [loop.init[k].shape for k in self.carried]
        shapes += [p.domain for p in self.collected.values()]
        if not shapes or len(self.carried) > MOST_STATES:
            raise _Unfit
        self.shape: graph.Shape = shapes[0]
        if not all(map(self._fits, shapes)):
            raise _Unfit
        self.others, self.inliner = others, Inliner()
        self.inlined = self._inlined()
        #: What cannot be computed in iterations, such as other walks.
        self.ahead = [n for n in self.inlined
                      if n not in self.depends and not isinstance(n, graph.Generate)]  # fmt: skip

    def guarded(self) -> tuple[graph.ArrayLoop, Callable[[], set[graph.Node]]]:
        """The loop with `ahead` computed before it; what this would read, and must not if there is
        no iteration, is 0 then.  And the nodes that may be computed in any case."""
        safe, before, builder = set(self.others()), Rebuilder(), Rebuilder()
        some = apply_primitive("greater", [self.loop.count or ex.constant(0), ex.constant(0)])
        leaves = [leaf for n in self.ahead for leaf in n.leaves]
        for node in graph.topological(leaves, inside=False):
            made = before.node(node)
            if node in self.inlined and isinstance(made, graph.Generate) and is_unsafe(node):
                none = tuple(ex.Const(0, e.type) for e in made.elements)
                chosen = ex.Cond(some, made.elements, none)
                made = made.with_(elements=tuple(ex.Proj(chosen, k) for k in range(len(none))))
                safe.add(made)
            before.replace(node, made)
        builder.leaves.update((leaf, before.leaf(leaf)) for leaf in leaves)
        for node in graph.topological(self.loop.body, inside=False):
            builder.replace(node, node if node in self.ahead else builder.node(node))
        body = tuple(builder.leaf(leaf) for leaf in self.loop.body)
        return self.loop.with_(body=body), lambda: safe

    def _fits(self, shape: graph.Shape) -> bool:
        """Whether a shape is that of the state, identically or by the checks made."""
        return len(shape) == len(self.shape) and all(map(self._same, shape, self.shape))

    def _same(self, a: Expr | None, b: Expr | None) -> bool:
        return a is b or frozenset((a, b)) in self.equal

    def _inlined(self) -> set[graph.Node]:
        """The nodes that must be computed in iterations: those that change from one to the next,
        those that must not be computed if there is no iteration, and their readers, but not what is
        computed in any case.  A node with an element per iteration is exempt: without iterations it
        is empty and computes nothing."""
        computed: set[graph.Node] | None = None
        count = self.loop.count
        assert count is not None
        some = isinstance(count, ex.Const) and int(count.value) > 0
        found = set(self.depends)
        for node in graph.topological(self.loop.body, inside=False):
            full = not some and not any(self._same(n, count) for n in node.iteration_space())
            reads = (*node.inputs(), *node.inside())
            if any(leaf.node in found for leaf in reads) or (full and is_unsafe(node)):
                computed = self.others() if computed is None else computed
                if node not in computed:
                    found.add(node)
        return found

    def _inline(self, node: graph.Node) -> None:
        if isinstance(node, graph.Permute) and node in self.collected.values():
            return
        if not isinstance(node, graph.Generate) or node.label.ordered or checked_by_data(node):
            raise _Unfit
        self.inliner.bodies[node] = self._expanded(node.elements)

    def _expanded(self, roots: tuple[Expr, ...]) -> tuple[Expr, ...]:
        if any(isinstance(e, ex.Read) and e.boundary is not None and e.node in self.inliner.bodies
               for e in ex.walk(roots)):  # fmt: skip
            raise _Unfit
        found = ex.rewrite(roots, self.inliner.expand, self.inliner.memo)
        if sum(1 for _ in ex.walk(found)) > LARGEST:
            raise _Unfit
        return found

    def _placed(self) -> tuple[int, dict[int, _Place]]:
        """The axis along which results are collected, and where each is in step k."""
        found: dict[int, _Place] = {}
        axes: set[int] = set()
        index = graph.indices(len(self.shape))
        for k, node in self.collected.items():
            fitting = [a for a in range(len(node.target)) if _drop(node.target, a) == index]
            if not fitting:
                raise _Unfit
            axes.add(fitting[-1])
            found[k] = self._place(node.target[fitting[-1]], self.loop.init[k].shape[fitting[-1]])
        if len(axes) > 1:
            raise _Unfit
        return (axes.pop() if axes else 0), found

    def _place(self, at: Expr, extent: Expr) -> _Place:
        """Where a result is in step k: at ±k + start, in an array of at least as many elements as
        there are steps, by a constant number."""
        loop = self.loop
        assert loop.index is not None and loop.count is not None
        counter: Expr = loop.index.leaf().at()
        not_negative = apply_primitive("maximum", [loop.count, ex.constant(0)])
        if extent is not_negative or self._same(extent, loop.count):
            extent = loop.count
        found, size, count = moving_with(at, counter), polynomial(extent), polynomial(loop.count)
        if found is not None and extent is loop.count and found[1] is ex.constant(0):
            return _Place(at, *found, found[0] > 0)
        if found is None or size is None or count is None:
            raise _Unfit
        left_over, begin = (size - count).value, polynomial(found[1])
        if left_over is None or left_over < 0 or begin is None:
            raise _Unfit
        first = count - 1 if found[0] < 0 else Polynomial.number(0)
        return _Place(at, *found, not left_over and begin == first)

    def made(self, context: Context) -> list[graph.Leaf]:
        loop, rank = self.loop, len(self.shape)
        assert loop.count is not None and loop.index is not None
        for node in self.nodes:
            if node in self.inlined:
                self._inline(node)
        self.axis, self.places = self._placed()
        counter: Expr = loop.index.leaf().at()
        full = [p for p in self.places.values() if p.full]
        reverse = bool(full) and full[0].sign < 0
        count = loop.count
        if len(full) < len(self.places):  # of a longer array, whose extent is not negative
            count = apply_primitive("maximum", [count, ex.constant(0)])
        last = minus(count, ex.constant(1))
        state = {loop.state[k].leaf(): ex.Var(f"state{n}", loop.state[k].type)
                 for n, k in enumerate(self.carried)}  # fmt: skip
        here = ex.Index(self.axis)
        moved: dict[Expr, Expr] = {ex.Index(a): ex.Index(a + (a >= self.axis)) for a in range(rank)}
        step = minus(last, here) if reverse else here
        memo: dict[Expr, Expr] = {**moved, counter: step}
        memo.update((p.at, here) for p in full if p.sign == (-1 if reverse else 1))
        for leaf, variable in state.items():
            memo[leaf.at(*graph.indices(rank))] = variable

        def over(roots: Sequence[Expr]) -> tuple[Expr, ...]:
            found = ex.rewrite(roots, lambda e: e, memo)
            bound = set(loop.bound)
            if any(isinstance(e, ex.Read | ex.Extent) and e.node in bound for e in ex.walk(found)):
                raise _Unfit
            return found

        stored: list[Expr] = []
        components: dict[int, int] = {}
        for k, update in self.collected.items():
            components[k] = len(stored)
            stored.append(self._expanded((update.values[loop.body[k].component],))[0])
        for n, k in enumerate(self.carried):
            components[k] = len(stored) + n
        following = [self._next(loop.body[k]) for k in self.carried]
        made = over((*following, *stored))
        made = last_comes_last(made, late_states(tuple(state.values()), made))
        shape = (*self.shape[: self.axis], count, *self.shape[self.axis :])
        node = graph.Recurrence(
            shape,
            self.axis,
            reverse,
            tuple(loop.init[k].at(*graph.indices(rank)) for k in self.carried),
            tuple(state.values()),
            made[: len(following)],
            made[len(following) :],
            label=loop.label,
            where=loop.where,
            checks=tuple(self.checks),
            fused=tuple((n.label, n.where) for n in self.nodes if n in self.depends),
        )
        parts = context.inlined[node] = {}
        for inner in (n for n in self.nodes if n in self.depends and n in self.inliner.bodies):
            with contextlib.suppress(_Unfit):  # it reads a state that is not in the walk
                parts.update(dict.fromkeys(over(self.inliner.bodies[inner]),
                                           ((inner.label, inner.where),)))  # fmt: skip
        return [self._result(k, node.leaf(components[k]), reverse) for k in range(len(loop.state))]

    def _result(self, k: int, made: graph.Leaf, reverse: bool) -> graph.Leaf:
        """State number `k` after the loop: the final state, or the results of the walk `made`,
        which are elsewhere in an array of which they may be a part."""
        place, init, axis = self.places.get(k), self.loop.init[k], self.axis
        if place is None or (place.full and reverse == (place.sign < 0)):
            return made
        steps, here = made.shape[axis], ex.Index(axis)
        step = minus(here, place.start) if place.sign > 0 else minus(place.start, here)
        at = minus(minus(steps, ex.constant(1)), step) if reverse else step
        index = graph.indices(len(init.shape))
        element: Expr = made.at(*index[:axis], at, *index[axis + 1 :])
        if not place.full:
            tests = [apply_primitive("greater_equal", [step, ex.constant(0)]),
                     apply_primitive("less", [step, steps])]  # fmt: skip
            inside = apply_primitive("logical_and", tests)
            element = ex.Proj(ex.Cond(inside, (element,), (init.at(*index),)), 0)
        return graph.Generate(init.shape, (element,), label=self.loop.label,
                              where=self.loop.where).leaf()  # fmt: skip

    def _next(self, leaf: graph.Leaf) -> Expr:
        read = leaf.at(*graph.indices(len(self.shape)))
        if not self._fits(leaf.shape):
            raise _Unfit
        return self._expanded((read,))[0]


def _drop(target: tuple[Expr, ...], axis: int) -> tuple[Expr, ...]:
    return (*target[:axis], *target[axis + 1 :])


def is_unsafe(node: graph.Node) -> bool:
    """Whether a node may read outside an array, not terminate, or call a foreign function."""
    return any(map(_is_unsafe_alone, (node, *graph.topological(node.inside()))))


@cached_per_object(1)
def _is_unsafe_alone(node: graph.Node) -> bool:
    """The same for the node without the nodes inside it."""
    if isinstance(node, graph.ArrayLoop | graph.Branch):
        return isinstance(node, graph.ArrayLoop) and node.count is None
    space = node.iteration_space()
    return any(
        isinstance(e, ex.While | ex.Foreign)
        or (isinstance(e, ex.Read) and may_be_outside(e, space))
        for e in ex.walk(node.expressions())
    )


def dependent(nodes: Sequence[graph.Node], bound: Collection[graph.Node]) -> set[graph.Node]:
    """The nodes that depend on those of `bound`."""
    found = set(bound)
    for node in nodes:
        if any(leaf.node in found for leaf in (*node.inputs(), *node.inside())):
            found.add(node)
    return found.difference(bound)
