"""The derivatives of loops over arrays and of branches.

The loop runs with its states stored, and then in reverse: a loop over the adjoint of the body,
which reads the stored states.  With a memory limit, only checkpoints are stored, and the other
states are recomputed from them.  The cotangents of loop-invariant arrays that the body uses are
accumulated in the state of the reversed loop.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import NamedTuple

from ..analysis.combines import simple_combine
from ..errors import Location, TreadleError
from ..expr import TRUE, Apply, Const, Expr, Extent, Read, constant, walk
from ..graph import (
    ArrayLoop,
    Branch,
    Check,
    Fold,
    Generate,
    Input,
    Label,
    Leaf,
    Library,
    Matmul,
    Node,
    Output,
    Permute,
    Shape,
    ended,
    indices,
    is_identity_read,
    topological,
)
from ..libraries.checkpoints import ITERATION, SHORT, SLOT, STEPS, TARGET, checkpoints
from ..operations.indexing.row_major import minus
from ..scalar import apply_primitive
from ..shapes import on_host
from ..simplify import cast, select
from ..types import ScalarType, int64
from .arguments import Substitution, constant_leaf
from .collected import adds_to_zeros, collected, evolves_by_element, guarded_sum, slices
from .contractions import contracted
from .expressions import add, guarded, sum_type, zero
from .forward import Forward, forward_rule, tangent_of
from .reads import stored, summed
from .reverse import Bars, Reverse, adjoint, moving, own, reverse_rule


def state_like(like: Leaf, name: str, where: Location | None, type_: ScalarType | None = None
               ) -> Input:  # fmt: skip
    """A state of the shape, and by default the type, of `like`."""
    made = Input(name, type_ or like.type, (False,) * len(like.shape), kind="state", where=where)
    return made.of_shape(like.shape)


def states_like(states: Sequence[Input], name: str, where: Location | None) -> list[Input]:
    """New states with the types and shapes of these; extents among them are renamed accordingly."""
    made = [state_like(s.leaf(), name, where) for s in states]
    extents: dict[Expr, Expr] = {
        s.leaf().at(): m.leaf().at() for s, m in zip(states, made, strict=True) if not s.shape
    }
    for m, s in zip(made, states, strict=True):
        m.of_shape(tuple(extents.get(e, e) for e in s.shape))
    return made


def closed_loop(loop: ArrayLoop) -> ArrayLoop:
    ended(loop.bound)
    return loop


def invariants(loop: ArrayLoop) -> list[Leaf]:
    """The leaves that the body uses and that depend on no state and no counter."""
    roots = loop.inner_roots()
    nodes = list(topological(roots))
    changing = loop.varying(nodes)
    found: dict[Leaf, None] = {}
    for node in nodes:
        if node in changing:
            for leaf in (*node.inputs(), *node.inside()):
                if leaf.node not in changing:
                    found[leaf] = None
    for leaf in roots:
        if leaf.node not in changing:
            found[leaf] = None
    return list(found)


def counted(loop: ArrayLoop) -> tuple[ArrayLoop, Expr]:
    """The loop with a trip count; a `while` loop is run once to count its iterations."""
    if loop.count is not None:
        return loop, loop.count
    assert loop.predicate is not None
    where = loop.where
    states = states_like(loop.state, "state", where)
    iterations = Input("iterations", int64, (), kind="state", where=where)
    swap = [(s.leaf(), t.leaf()) for s, t in zip(loop.state, states, strict=True)]
    put = Substitution((), swap)
    put.renew(loop.inner_roots())
    *body, predicate = put.leaves([*loop.body, loop.predicate])
    following = apply_primitive("add", [iterations.leaf().at(), constant(1)])
    label = Label(f"iterations of {loop.label}")
    start = Generate((), (constant(0),), label=label, where=where)
    step = Generate((), (following,), label=label, where=where)
    count = closed_loop(
        ArrayLoop((*states, iterations), (*loop.init, start.leaf()), (*body, step.leaf()),
                  predicate, None, None, label=label, where=where, checks=loop.checks)
    )  # fmt: skip
    n = on_host(count.leaf(len(states)).at())
    index = Input("k", int64, (), kind="counter", where=where)
    return loop.with_(predicate=None, count=n, index=index), n


def with_first_extents(loop: ArrayLoop) -> ArrayLoop:
    """The loop with states that keep their initial extents, as checked in every iteration."""
    where, changing = loop.where, loop.changing()
    states = list(loop.state)
    extents: dict[Expr, Expr] = {}
    for k in changing:
        states[k] = state_like(loop.init[k], "state", where)
        pairs = zip(loop.state[k].shape, loop.init[k].shape, strict=True)
        extents.update((e, n) for e, n in pairs if isinstance(e, Read) and e.node in loop.bound)
    swap = [(loop.state[k].leaf(), states[k].leaf()) for k in changing]
    swap += [
        (Leaf(e.node, e.component), Generate((), (n,), label=loop.label, where=where).leaf())
        for e, n in extents.items()
        if isinstance(e, Read)
    ]
    put = Substitution((), swap, extents)
    put.renew(loop.inner_roots())
    body = put.leaves(loop.inner_roots())
    predicate = None if loop.predicate is None else body.pop()
    for k in changing:
        shape = loop.init[k].shape
        checks = tuple(
            Check(new, old, _changing(loop), error="GradientError", hint=_KEEP, where=where)
            for new, old in zip(body[k].shape, shape, strict=True)
            if new is not old
        )
        body[k] = Generate(shape, (own(body[k], len(shape)),), label=loop.label, where=where,
                           checks=checks).leaf()  # fmt: skip
    return closed_loop(loop.with_(state=tuple(states), body=tuple(body), predicate=predicate))


_KEEP = "Keep the extents, and leave out elements by td.where."


def _changing(loop: ArrayLoop) -> str:
    return f"{loop.label} has no derivative: it needs the states, whose extents change."


def needed_states(loop: ArrayLoop, wanted: Iterable[int]) -> list[int]:
    """The states on which those of `wanted` depend, themselves included."""
    found = {k for k in wanted if k < len(loop.state)}
    while True:
        used = set(topological([loop.body[k] for k in found]))
        more = {k for k, s in enumerate(loop.state) if s in used}
        if more <= found:
            return sorted(found)
        found |= more


def active_states(
    moved: Container[Leaf], loop: ArrayLoop, fixed: Sequence[Leaf], among: Sequence[int]
) -> list[int]:
    """The numbers of the states of `among` that depend differentiably on a target."""
    found = {k for k, leaf in enumerate(loop.init) if leaf in moved}
    while True:
        targets = [*fixed, *(loop.state[k].leaf() for k in found)]
        following = moving(loop.body, targets)
        more = {k for k, leaf in enumerate(loop.body) if leaf in following}
        if more <= found:
            return [k for k in among if k in found and loop.init[k].type.is_inexact]
        found |= more


def _increased(total: Leaf, parts: Sequence[Expr], label: Label, where: Location | None) -> Leaf:
    """A total plus contributions; a permute that adds to zeros adds to the total instead."""
    rank = len(total.shape)
    dense: Expr = own(total, rank)
    scattered: list[Permute] = []
    for e in parts:
        by = e.node if isinstance(e, Read) and is_identity_read(e, rank) else None
        if isinstance(by, Permute) and by.combine is not None and adds_to_zeros(by):
            scattered.append(by)
        else:
            dense = add(dense, cast(e, total.type))
    if not is_identity_read(dense, rank):
        total = Generate(total.shape, (dense,), label=label, where=where).leaf()
    for by in scattered:
        total = by.with_(values=(cast(by.values[0], total.type),), defaults=(total,),
                         combine=simple_combine("add", total.type)).leaf()  # fmt: skip
    return total


class _LateSum(NamedTuple):
    """A contribution to the cotangent of `leaf`, over its indices, where `condition` holds: the sum
    of `elements` over all iterations and all indices of state number `like`."""

    leaf: Leaf
    condition: Expr
    like: int
    type: ScalarType
    elements: tuple[Expr, ...]

    def of(self, array: Leaf, label: Label, where: Location | None) -> Expr:
        """The contribution, from the array of sums over all iterations."""
        total = summed((), array.shape, own(array, len(array.shape)), label, where)
        return guarded(self.condition, total.at(), zero(self.type))


#: The least cost, in additions, of operations whose results are computed only once per iteration.
_COSTLY = 15.0
#: The most arrays that are summed after a loop whose states evolve in registers.
_MOST_LATE = 8
#: Sums along constant extents up to this are recomputed.
_SHORT = 32


def _summed(node: Node) -> Shape | None:
    """The axes, except short ones, that a product or fold sums over; None for other nodes."""
    if not isinstance(node, Matmul | Fold):
        return None
    extents = (node.k,) if isinstance(node, Matmul) else node.inner
    constant_ = math.prod(int(e.value) for e in extents if isinstance(e, Const))
    return tuple(e for e in extents if constant_ > _SHORT or not isinstance(e, Const))


def _is_costly(node: Node) -> bool:
    """Whether an element is better stored than recomputed wherever it is needed."""
    if not isinstance(node, Generate) or len(node.elements) > 1:
        return False
    return isinstance(e := node.elements[0], Apply) and e.op.cost >= _COSTLY


class _Adjoint:
    """The adjoint of a loop's body: `new` are the next values of `states`.  In order: the changing
    extents of cotangents (`extents`, numbers of states); `incoming`, the cotangents of the active
    states, without those that iterations only write (`collected`); `sums`, those of loop-invariant
    arrays; arrays whose sums are such cotangents (`late`); and what iterations send to indices of
    their own (`slices`)."""

    def __init__(self, r: Reverse, node: ArrayLoop, loop: ArrayLoop, bars: Bars) -> None:
        where, label = node.where, adjoint(node)
        self.fixed = [leaf for leaf in invariants(node) if leaf in r.moving]
        wanted = needed_states(loop, [k for k, bar in enumerate(bars) if bar is not None])
        active = active_states(r.moving, node, self.fixed, wanted)
        written = collected(loop, list(topological(loop.inner_roots())))
        self.collected = [(c, bar) for k, c in written.items()
                          if k in active and (bar := bars[k]) is not None]  # fmt: skip
        self.active = [k for k in active if k not in written]
        #: The axis along which iterations collect and store.
        self.axis = next((c.axis for c in written.values()), 0)
        states = [loop.state[k].leaf() for k in self.active]
        roots = [*(loop.body[k] for k in self.active), *(c.value for c, _ in self.collected)]
        inner = Reverse(roots, [*states, *self.fixed], r.memory)
        inner.results = {n for n in inner.nodes if _is_costly(n)}
        # A cotangent has the extents of the next state.
        scalars = {s.leaf().at(): j for j, s in enumerate(loop.state) if not s.shape}
        read = {e for k in self.active for e in loop.state[k].shape}
        self.extents = sorted(j for e, j in scalars.items() if e in read)
        many = len(self.extents)
        moved = states_like(
            [loop.state[k] for k in (*self.extents, *self.active)], "cotangent", where
        )
        self.incoming = moved[many:]
        for k, g in zip(self.active, self.incoming, strict=True):
            inner.give(loop.body[k], own(g.leaf(), len(g.shape)))
        #: Stand-ins, in the body, for arrays computed before this loop.
        self.given = [(state_like(bar, "cotangent", where).leaf(), bar)
                      for _, bar in self.collected]  # fmt: skip
        for (c, _), (bar, _) in zip(self.collected, self.given, strict=True):
            inner.give(c.value, c.given(bar))
        inner.run()
        self.slices = slices(inner, loop, self.fixed, self.active, self.axis)
        self.late = self._late(inner, loop)
        self.fixed = [leaf for leaf in self.fixed if inner.parts.get(leaf)]
        self.sums = [state_like(leaf, "sum", where, sum_type(leaf.type)) for leaf in self.fixed]
        added = [
            Input("sum", s.type, (False,) * len(loop.state[s.like].shape), kind="state",
                  where=where).of_shape(loop.state[s.like].shape)
            for s in self.late
        ]  # fmt: skip
        assert loop.index is not None and loop.count is not None
        steps, counter = _extent(node, loop.count), loop.index.leaf().at()
        into = [
            Input("slices", sum_type(s.leaf.type), (False,) * (len(s.domain) + 1), kind="state",
                  where=where).of_shape(s.shape(steps))
            for s in self.slices
        ]  # fmt: skip
        self.states = [*moved, *self.sums, *added, *into]
        self.new = [loop.state[j].leaf() for j in self.extents]
        self.new += [inner.bar(s) or constant_leaf(0, s, label.operation) for s in states]
        self.new += [
            _increased(total.leaf(), inner.parts.get(leaf, ()), label, where)
            for leaf, total in zip(self.fixed, self.sums, strict=True)
        ]
        for total, s in zip(added, self.late, strict=True):
            e = own(total.leaf(), len(total.shape))
            for element in s.elements:
                e = add(e, element)
            self.new.append(Generate(total.shape, (e,), label=label, where=where).leaf())
        self.new += [s.put(state.leaf(), counter, label, loop)
                     for s, state in zip(self.slices, into, strict=True)]  # fmt: skip
        #: The initial values of the states, but for those of the active ones.
        self.starts = [constant_leaf(0, t.leaf(), str(label)) for t in (*self.sums, *added, *into)]
        self.replaced = inner.replaced
        self.new = contracted(self.new, inner.replaced.values(), inner.nodes)
        dear = self._dear(inner, loop) if r.memory is None else []
        #: The loop, with what it is to store.
        self.forward, made, known = loop, dear, {}
        if dear:
            storing = dict.fromkeys(leaf.node for leaf in dear)
            known = {leaf: state_like(leaf, "result", where).leaf()
                     for n in storing for leaf in n.leaves}  # fmt: skip
            put = Substitution((), list(known.items()))
            self.new = put.leaves(self.new)
            self.replaced = {a: put.leaves([b])[0] for a, b in self.replaced.items()}
            put = Substitution((), [(a, b) for a, b in inner.replaced.items() if b.node in storing])
            self.forward = loop.with_(body=tuple(put.leaves(loop.body)))
            made = put.leaves(dear)
        used = set(topological(self.new))
        #: The states that the adjoint reads.
        self.kept = [k for k, s in enumerate(loop.state) if s in used]
        #: Pairs of what the loop stores, and its stand-in here.
        self.stored = [(loop.state[k].leaf(), loop.state[k].leaf()) for k in self.kept]
        self.stored += zip(made, (known[leaf] for leaf in dear), strict=True)
        #: The states that the loop also collects as it computes them, which are not stored; numbers
        #: are, as the test for the first iteration would be made for each of them.
        self.read = {loop.state[k].leaf(): (c, loop.init[k]) for k in self.kept
                     for c in written.values() if loop.state[k].shape and c.holds(loop, k)
                     }  # fmt: skip

    def _dear(self, inner: Reverse, loop: ArrayLoop) -> list[Leaf]:
        """Expensive values that the adjoint needs, to be stored instead of recomputed, if they are
        no larger than a state: results of libraries, sums over more elements than a state has, and
        what loops in the body store, up to two arrays for each state."""
        inner_loops = {b.node: a.node for a, b in inner.replaced.items()}
        forward = list(topological([*loop.body, *inner.replaced.values()], inside=False))
        changing = loop.varying(forward)
        resized = loop.changing()
        shapes = [Counter(inner.unified(shape)) for k, s in enumerate(loop.state)
                  if k not in resized for shape in (s.shape, loop.body[k].shape)]  # fmt: skip

        def is_small(leaf: Leaf) -> bool:
            own_extents = any(isinstance(e, Read | Extent) and e.node in changing
                              for e in walk(leaf.shape))  # fmt: skip
            axes = Counter(inner.unified(leaf.shape))
            return not own_extents and any(axes <= s for s in shapes)

        def is_dear(n: Node) -> bool:
            if n not in changing or n in inner_loops.values() or len(n.outputs) > 1:
                return False
            leaf, added = n.leaf(), _summed(n)
            if added is None:
                dear = isinstance(n, Library)
            else:
                whole = Counter(inner.unified(leaf.shape)) + Counter(inner.unified(added))
                dear = bool(added) and not any(whole <= s for s in shapes)
            return dear and leaf.type.is_inexact and is_small(leaf)

        dear = {n for n in forward if is_dear(n)}
        read = self._read(dear)
        room = 2 * len(loop.state)
        for n in forward:
            leaves = [leaf for leaf in read if leaf.node is n]
            if n in inner_loops and n in changing and len(leaves) <= room \
                    and all(map(is_small, leaves)):  # fmt: skip
                room -= len(leaves)
                dear.add(n)
        return [leaf for leaf in self._read(dear) if leaf.node in dear]

    def _read(self, known: Container[Node]) -> list[Leaf]:
        """The leaves that the adjoint reads, if it knows the results of some nodes."""
        found: dict[Leaf, None] = {}
        waiting = list(self.new)
        while waiting:
            leaf = waiting.pop()
            leaf = self.replaced.get(leaf, leaf)
            if leaf not in found:
                found[leaf] = None
                if leaf.node not in known:
                    waiting += (*leaf.node.inputs(), *leaf.node.inside())
        return list(found)

    def _late(self, inner: Reverse, loop: ArrayLoop) -> list[_LateSum]:
        """Sums over all elements of arrays as large as an active state: the arrays are accumulated
        in every iteration, beside the cotangent of the state, and summed once after the loop.  At
        most one array per active state, or more if elements of the states evolve independently, in
        registers.  These contributions are removed from `inner`."""
        most = len(self.active)
        if evolves_by_element(loop, self.active):
            most = max(most, _MOST_LATE)
        changing = loop.changing()
        shapes = {inner.unified(loop.state[k].shape): k for k in self.active if k not in changing}
        found: dict[tuple[Leaf, Expr, int, ScalarType], list[Expr]] = {}
        taken: list[tuple[Leaf, Expr]] = []
        for leaf in self.fixed:
            for part in inner.parts.get(leaf, ()):
                condition, total = guarded_sum(part)
                if total is None or (like := shapes.get(inner.unified(total.inner))) is None:
                    continue
                wide = sum_type(total.elements[0].type)
                key = leaf, condition, like, wide
                if key in found or len(found) < most:
                    found.setdefault(key, []).append(cast(total.elements[0], wide))
                    taken.append((leaf, part))
        for leaf, part in taken:
            inner.parts[leaf].remove(part)
        return [_LateSum(*key, tuple(elements)) for key, elements in found.items()]

    def at(self, swap: dict[Leaf, Leaf], index: dict[Expr, Expr]) -> list[Leaf]:
        """The new values with states and the counter replaced."""
        put = Substitution((), [*self.replaced.items(), *swap.items(), *self.given], index)
        put.renew([*self.new, *self.replaced.values()])
        return put.leaves(self.new)


@forward_rule(ArrayLoop)
def _loop_tangents(f: Forward, node: ArrayLoop) -> None:
    """The loop with the tangents of its state as additional states."""
    outside = invariants(node)
    f.run(outside)
    fixed = [leaf for leaf in outside if leaf in f.tangents]
    wanted = needed_states(node, [k for k, x in enumerate(node.leaves) if x in f.used])
    active = active_states(f.tangents, node, fixed, wanted)
    if not active:
        return
    states = [state_like(node.state[k].leaf(), "tangent", node.where) for k in active]
    inside = {node.state[k].leaf(): s.leaf() for k, s in zip(active, states, strict=True)}
    inner = Forward({**{leaf: f.tangents[leaf] for leaf in fixed}, **inside}, outside)
    inner.run([node.body[k] for k in active])
    roots = [*node.inner_roots(), *(inner.of(node.body[k]) for k in active)]
    if inner.replaced:  # only in this body: others may have the same nodes
        roots = Substitution((), list(inner.replaced.items())).leaves(roots)
    many = len(node.state)
    predicate = None if node.predicate is None else roots.pop(many)
    init = (*node.init, *(f.of(node.init[k]) for k in active))
    made = closed_loop(node.with_(state=(*node.state, *states), init=init, body=tuple(roots),
                                  predicate=predicate))  # fmt: skip
    f.replaced.update(zip(node.leaves, made.leaves, strict=False))
    f.tangents.update((node.leaf(k), made.leaf(many + j)) for j, k in enumerate(active))


@reverse_rule(ArrayLoop)
def _loop(r: Reverse, node: ArrayLoop, bars: Bars) -> None:
    original = node
    loop, n = counted(node)
    back = _Adjoint(r, node, loop, bars)
    needed = back.kept if r.memory is None else needed_states(loop, back.kept)
    limited = r.memory is not None and back.extents and back.kept != back.extents
    if limited or not set(needed).isdisjoint(loop.changing()):
        # They may still be equal, like those of a[:1], a[1:-1] and a[-1:] joined.
        bars = [
            None if bar is None else stored(first.shape, own(bar, len(first.shape)),
                                            adjoint(node), node.where)
            for bar, first in zip(bars, node.init, strict=True)
        ]  # fmt: skip
        node = with_first_extents(node)
        r.admit(invariants(node))
        loop, n = counted(node)
        back = _Adjoint(r, node, loop, bars)
    starts = [bars[k] or constant_leaf(0, node.leaf(k), str(adjoint(node))) for k in back.active]
    starts += back.starts
    if r.memory is not None and back.kept and not back.extents:
        storing, reversed_ = _checkpointed(r.memory, node, loop, n, back, starts)
    else:
        storing, reversed_ = _stored(node, loop, n, back, starts)
    # If no state is needed, it is the same loop.
    r.replaced.update((a, b) for a, b in zip(original.leaves, storing, strict=False) if a != b)
    targets = [*(loop.init[k] for k in back.active), *back.fixed]
    for leaf, g in zip(targets, reversed_, strict=False):
        r.pass_on(leaf, cast(own(g, len(leaf.shape)), leaf.type))
    after = reversed_[len(targets) :]
    for late, g in zip(back.late, after, strict=False):
        r.pass_on(late.leaf, late.of(g, adjoint(node), node.where))
    for s, g in zip(back.slices, after[len(back.late) :], strict=True):
        r.pass_on(s.leaf, cast(s.contribution(g, loop, r), s.leaf.type))
    for c, bar in back.collected:
        if loop.init[c.state] in r.moving:
            r.pass_on(loop.init[c.state], c.of_initial(bar, n))


#: The name of the operation whose results are the stored states of a loop.
STORED = "stored"


def with_stored_states(error: TreadleError, roots: Sequence[Leaf]) -> TreadleError:
    """The error of a program that needs too much memory, with the loops that store states."""
    for node in topological(roots):
        if node.label.operation == STORED and not any(
            where == node.where for _, where in error.also
        ):
            error.also += (("stores the states of this loop for its gradient; less with "
                            'memory="1 GB":', node.where),)  # fmt: skip
    return error


def _checkpoint_storage(rows: Expr, loop: ArrayLoop, kept: Sequence[Leaf], axis: int = 0
                        ) -> list[Leaf]:  # fmt: skip
    """Arrays for `rows` of these states or per-iteration results, along an axis."""
    return [
        Generate(_with(leaf.shape, axis, rows), (Const(0, leaf.type),), label=Label(STORED),
                 where=loop.where).leaf()
        for leaf in kept
    ]  # fmt: skip


def _with(those: Sequence[Expr], axis: int, e: Expr) -> tuple[Expr, ...]:
    """Extents or indices with another one for an axis before `axis`, or the last."""
    return (*those[:axis], e, *those[axis:])


def _put(store: Leaf, position: Expr, state: Leaf, valid: Expr, node: ArrayLoop, axis: int = 0
         ) -> Leaf:  # fmt: skip
    ix = indices(len(state.shape))
    made = Permute(state.shape, valid, _with(ix, axis, position), (state.at(*ix),), (store,), None,
                   label=Label(f"states of {node.label}"), where=node.where)  # fmt: skip
    return made.leaf()


def _taken(store: Leaf, position: Expr, label: Label, where: Location | None, axis: int = 0
           ) -> Leaf:  # fmt: skip
    axis = min(axis, len(store.shape) - 1)
    shape = (*store.shape[:axis], *store.shape[axis + 1 :])
    read = store.at(*_with(indices(len(shape)), axis, position))
    return Generate(shape, (read,), label=label, where=where).leaf()


def _storing(
    node: ArrayLoop, loop: ArrayLoop, first: Sequence[Leaf], n: Expr, kept: Sequence[Leaf],
    axis: int,
) -> tuple[Sequence[Leaf], Sequence[Leaf]]:  # fmt: skip
    """The loop from initial states `first`, and the stored `kept` leaves: states before each
    iteration, or values computed in it; iterations are along `axis`."""
    where = node.where
    assert loop.index is not None
    empty = _checkpoint_storage(_extent(node, n), loop, kept, axis)
    stores = [state_like(e, "stored", where) for e in empty]
    position = loop.index.leaf().at()
    puts = (_put(s.leaf(), position, leaf, TRUE, node, axis)
            for s, leaf in zip(stores, kept, strict=True))  # fmt: skip
    storing = closed_loop(loop.with_(state=(*loop.state, *stores), init=(*first, *empty),
                                     body=(*loop.body, *puts)))  # fmt: skip
    many = len(loop.state)
    return storing.leaves[:many], storing.leaves[many:]


def _reversed(
    node: ArrayLoop, loop: ArrayLoop, n: Expr, begin: Expr, back: _Adjoint, starts: Sequence[Leaf],
    stored: Mapping[Leaf, Leaf], results: Sequence[Leaf],
) -> Sequence[Leaf]:  # fmt: skip
    """The cotangents before n iterations, the first of which is iteration `begin`, from what the
    loop stored, or else collected (`results`)."""
    where, label = node.where, adjoint(node)
    assert loop.index is not None
    step = Input("k", int64, (), kind="counter", where=where)
    row = minus(minus(n, constant(1)), step.leaf().at())
    here = apply_primitive("add", [begin, row])
    swap = {loop.index.leaf(): Generate((), (here,), label=label, where=where).leaf()}
    index: dict[Expr, Expr] = {loop.index.leaf().at(): here}
    for leaf, known in back.stored:
        if leaf in stored:
            swap[known] = _taken(stored[leaf], row, label, where, back.axis)
        else:
            c, first = back.read[leaf]
            swap[known] = c.before(here, results[c.state], first, loop, label)
    states = states_like(back.states, "cotangent", where)
    swap.update((b.leaf(), s.leaf()) for b, s in zip(back.states, states, strict=True))
    made = ArrayLoop(tuple(states), tuple(starts), tuple(back.at(swap, index)), None, n, step,
                     label=label, where=where)  # fmt: skip
    return closed_loop(made).leaves


def _stored(
    node: ArrayLoop, loop: ArrayLoop, n: Expr, back: _Adjoint, starts: Sequence[Leaf]
) -> tuple[Sequence[Leaf], Sequence[Leaf]]:
    """With all needed states and expensive values stored: the loop's results, the cotangents."""
    kept = [leaf for leaf, _ in back.stored if leaf not in back.read]
    results, stored = _storing(node, back.forward, loop.init, n, kept, back.axis)
    starts = (*(results[j] for j in back.extents), *starts)
    found = _reversed(node, loop, n, constant(0), back, starts,
                      dict(zip(kept, stored, strict=True)), results)  # fmt: skip
    return results, found[len(back.extents) :]


def _extent(node: ArrayLoop, n: Expr) -> Expr:
    """The number of iterations, or 0, as the extent of an array."""
    lengths = {e for leaf in (*invariants(node), *node.init) for e in leaf.shape}
    return n if n in lengths else _not_negative(n)


def _not_negative(n: Expr) -> Expr:
    return apply_primitive("maximum", [n, constant(0)])


def _plus(a: Expr, b: Expr) -> Expr:
    return apply_primitive("add", [a, b])


def _times(a: Expr, b: Expr) -> Expr:
    return apply_primitive("multiply", [a, b])


def _at_least(e: Expr, least: int) -> Expr:
    return apply_primitive("maximum", [e, constant(least)])


def _pieces(n: Expr, length: Expr) -> Expr:
    """The number of pieces of at most `length` iterations."""
    return apply_primitive("floor_divide", [minus(_plus(n, length), constant(1)), length])


def _segments(memory: int, loop: ArrayLoop, kept: Sequence[int], n: Expr) -> tuple[Expr, Expr]:
    """The iterations of a segment and the number of checkpoints that fit in the memory
    (`libraries.checkpoints.segment`)."""
    size: Expr = constant(0)
    for k in kept:
        own_size: Expr = constant(loop.state[k].type.bytes)
        for extent in loop.init[k].shape:
            own_size = apply_primitive("multiply", [own_size, extent])
        size = apply_primitive("add", [size, own_size])
    fitting = apply_primitive("floor_divide", [constant(memory), _at_least(size, 1)])
    states = apply_primitive("minimum", [_at_least(fitting, 1), _at_least(n, 1)])
    half = apply_primitive("floor_divide", [states, constant(2)])
    part = apply_primitive("minimum", [half, _at_least(_pieces(_plus(n, n), states), SHORT)])
    whole = apply_primitive("greater_equal", [states, n])
    length = select(whole, states, _at_least(part, 1))
    segments = _pieces(n, length)
    return length, _at_least(apply_primitive("minimum", [minus(states, length), segments]), 1)


def _checkpointed(
    memory: int, node: ArrayLoop, loop: ArrayLoop, n: Expr, back: _Adjoint, starts: Sequence[Leaf]
) -> tuple[Sequence[Leaf], Sequence[Leaf]]:
    """Differentiation with as many states stored as fit in memory: all states of one segment, and
    the first states of others, from which segments are recomputed in the order of
    `libraries/checkpoints.py`."""
    where, label = node.where, adjoint(node)
    assert loop.index is not None
    kept = needed_states(loop, back.kept)
    length, slots = _segments(memory, loop, kept, n)
    many = _at_least(_pieces(n, length), 0)
    plan = Library(
        checkpoints(),
        tuple(Generate((), (e,), label=Label("checkpoints"), where=where).leaf()
              for e in (n, length, slots)),
        (Output((constant(4), _plus(_times(many, constant(2)), constant(2))), int64),
         Output((_plus(many, constant(1)),), int64)),
        label=Label("checkpoints"), where=where,
    )  # fmt: skip
    table, ends = plan.leaves

    def part(states: Sequence[int], first: Sequence[Leaf], begin: Expr, count: Expr) -> ArrayLoop:
        """The loop over these states, from iteration `begin` on."""
        index = Input("k", int64, (), kind="counter", where=where)
        now = states_like([loop.state[k] for k in states], "state", where)
        here = _plus(begin, index.leaf().at())
        counter = Generate((), (here,), label=Label("k"), where=where).leaf()
        swap = [(loop.state[k].leaf(), s.leaf()) for k, s in zip(states, now, strict=True)]
        put = Substitution((), [*swap, (loop.index.leaf(), counter)])  # type: ignore[union-attr]
        roots = [loop.body[k] for k in states]
        put.renew(roots)
        name = str(node.label) if len(states) == len(loop.state) else f"{node.label} again"
        return ArrayLoop(tuple(now), tuple(first), tuple(put.leaves(roots)), None, count, index,
                         label=Label(name), where=where, checks=loop.checks)  # fmt: skip

    def acted(action: Expr, states: Sequence[int], first: Sequence[Leaf], stores: Sequence[Leaf]
              ) -> list[Leaf]:  # fmt: skip
        """These states after an action, and the checkpoints then stored."""
        begin, steps = (_times(table.at(constant(k), action), length) for k in (ITERATION, STEPS))
        count = apply_primitive("minimum", [steps, minus(n, begin)])
        made = closed_loop(part(states, first, begin, count)).leaves
        target = table.at(constant(TARGET), action)
        valid = apply_primitive("greater_equal", [target, constant(0)])
        puts = [_put(s, target, made[states.index(k)], valid, node)
                for s, k in zip(stores, kept, strict=True)]  # fmt: skip
        return [*made, *puts]

    def walked(actions: Expr, before: Expr, states: Sequence[int], first: Sequence[Leaf],
               stores: Sequence[Leaf], taken: bool) -> Sequence[Leaf]:  # fmt: skip
        """States and stores after a number of actions, the first of which is number `before`; the
        states are `taken` from the stores, or else those after the last action."""
        counter = Input("part", int64, (), kind="counter", where=where)
        action = _plus(before, counter.leaf().at())
        now = states_like([loop.state[k] for k in states], "state", where)
        stored = [state_like(e, "stored", where) for e in stores]
        slot = table.at(constant(SLOT), action)
        begin = [_taken(s.leaf(), slot, label, where) if taken else x.leaf()
                 for s, x in zip(stored if taken else now, now, strict=True)]  # fmt: skip
        after = acted(action, states, begin, [s.leaf() for s in stored])
        name = f"parts of {node.label}" + (" again" if taken else "")
        made = ArrayLoop((*now, *stored), (*first, *stores), tuple(after), None, actions, counter,
                         label=Label(name), where=where)  # fmt: skip
        return closed_loop(made).leaves

    storage = _checkpoint_storage(slots, loop, [loop.state[k].leaf() for k in kept])
    empty = [_put(e, constant(0), loop.init[k], TRUE, node)
             for e, k in zip(storage, kept, strict=True)]  # fmt: skip
    every = range(len(loop.state))
    results = walked(ends.at(constant(0)), constant(0), every, loop.init, empty, taken=False)
    # Backward: recompute each segment with all its states, and reverse it.
    counter = Input("segment", int64, (), kind="counter", where=where)
    number = counter.leaf().at()
    begin = _times(minus(minus(many, constant(1)), number), length)
    count = apply_primitive("minimum", [length, minus(n, begin)])
    stores = [state_like(e, "stored", where) for e in empty]
    before, end = ends.at(number), ends.at(_plus(number, constant(1)))
    again = walked(minus(end, before), before, kept, [loop.init[k] for k in kept],
                   [s.leaf() for s in stores], taken=True)  # fmt: skip
    segment = part(kept, again[: len(kept)], begin, count)
    _, stored = _storing(node, segment, segment.init, count,
                         [segment.state[kept.index(k)].leaf() for k in back.kept],
                         back.axis)  # fmt: skip
    sums = states_like(back.states, "cotangent", where)
    known = dict(zip((leaf for leaf, _ in back.stored), stored, strict=True))
    found = _reversed(node, loop, count, begin, back, [s.leaf() for s in sums], known, ())
    reversed_ = closed_loop(
        ArrayLoop((*sums, *stores), (*starts, *results[len(every) :]),
                  (*found, *again[len(kept) :]), None, many, counter, label=label, where=where)
    )  # fmt: skip
    return results[: len(every)], reversed_.leaves[: len(sums)]


@forward_rule(Branch)
def _branch_tangents(f: Forward, node: Branch) -> None:
    f.run(node.inside())
    pairs = list(zip(node.then, node.other, strict=True))
    moving = [k for k, pair in enumerate(pairs) if any(x in f.tangents for x in pair)]
    if not moving:
        return
    made = Branch(
        node.predicate,
        tuple(f.of(node.then[k]) for k in moving),
        tuple(f.of(node.other[k]) for k in moving),
        tuple(Output(node.outputs[k].shape, node.outputs[k].type) for k in moving),
        label=tangent_of(node),
        where=node.where,
    )
    f.tangents.update((node.leaf(k), made.leaf(j)) for j, k in enumerate(moving))


@reverse_rule(Branch)
def _branch(r: Reverse, node: Branch, bars: Bars) -> None:
    """A branch over the adjoints of the sides, with respect to values computed outside them."""
    outside = r.outside
    frontier: dict[Leaf, None] = {}
    for root in node.inside():
        if root.node in outside:
            frontier[root] = None
    for inner in topological(node.inside()):
        if inner not in outside:
            frontier.update((leaf, None) for leaf in inner.inputs() if leaf.node in outside)
            frontier.update((leaf, None) for leaf in inner.inside() if leaf.node in outside)
            frontier.update((leaf, None) for leaf in inner.leaves if leaf in r.targets)
    targets = [leaf for leaf in frontier if leaf in r.moving]
    if not targets:
        return
    sides = []
    for side in (node.then, node.other):
        pairs = [(leaf, g) for leaf, g in zip(side, bars, strict=True) if g is not None]
        inner_r = Reverse([leaf for leaf, _ in pairs], targets, r.memory)
        inner_r.results = r.results
        for leaf, g in pairs:
            inner_r.give(leaf, own(g, len(leaf.shape)))
        inner_r.run()
        found = [inner_r.bar(t) or constant_leaf(0, t, "no gradient") for t in targets]
        found = contracted(found, inner_r.replaced.values(), inner_r.nodes)
        swap = list(inner_r.replaced.items())
        sides.append(Substitution((), swap).leaves(found) if swap else found)
    made = Branch(
        node.predicate,
        tuple(sides[0]),
        tuple(sides[1]),
        tuple(Output(t.shape, t.type) for t in targets),
        label=adjoint(node),
        where=node.where,
    )
    for leaf, t in zip(made.leaves, targets, strict=True):
        r.give(t, own(leaf, len(t.shape)))
