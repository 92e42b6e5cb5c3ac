"""The adjoints of loops over arrays and of branches.

A loop is run once more (or instead) with its states stored, and then in reverse: a loop over the
adjoint of the body, in which the state is read from what was stored.  The cotangents of arrays that
the body uses but does not change are part of the state of the reversed loop, and are added to.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from ..errors import GradientError, Location
from ..expr import TRUE, Const, Expr, Read, constant, walk
from ..graph import (
    ArrayLoop,
    Branch,
    Generate,
    Input,
    Label,
    Leaf,
    Node,
    Output,
    Permute,
    indices,
    topological,
)
from ..node import fresh_uid
from ..scalar import apply_primitive
from ..shapes import on_host
from ..types import int64
from .arguments import Substitution, constant_leaf
from .reverse import Bars, Reverse, adjoint, moving, own, rule_for


def _minus(a: Expr, b: Expr) -> Expr:
    return apply_primitive("subtract", [a, b])


def state_like(like: Leaf, name: str, where: Location | None) -> Input:
    made = Input(name, like.type, (False,) * len(like.shape), kind="state", where=where)
    return made.of_shape(like.shape)


def closed_loop(loop: ArrayLoop) -> ArrayLoop:
    ended = fresh_uid()
    for bound in loop.bound:
        bound.until = ended
    return loop


def invariants(loop: ArrayLoop) -> list[Leaf]:
    """What the body uses and does not change: leaves that depend on no state and no counter."""
    roots = loop.inner_roots()
    nodes = list(topological(roots))
    bound: set[Node] = set(loop.bound)
    for node in nodes:
        if isinstance(node, ArrayLoop):
            bound.update(node.bound)
    changing: set[Node] = set()
    found: dict[Leaf, None] = {}
    for node in nodes:
        used = (*node.inputs(), *node.inside())
        if node in bound or any(leaf.node in changing for leaf in used):
            changing.add(node)
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
    """The loop with a number of iterations: those of `while` are counted by running it."""
    if loop.count is not None:
        return loop, loop.count
    assert loop.predicate is not None
    where = loop.where
    states = [state_like(i, "state", where) for i in loop.init]
    turns = Input("turns", int64, (), kind="state", where=where)
    swap = [(s.leaf(), t.leaf()) for s, t in zip(loop.state, states, strict=True)]
    put = Substitution((), swap)
    put.renew(loop.inner_roots())
    *body, predicate = put.leaves([*loop.body, loop.predicate])
    following = apply_primitive("add", [turns.leaf().at(), constant(1)])
    label = Label(f"iterations of {loop.label}")
    start = Generate((), (constant(0),), label=label, where=where)
    step = Generate((), (following,), label=label, where=where)
    count = closed_loop(
        ArrayLoop(
            (*states, turns),
            (*loop.init, start.leaf()),
            (*body, step.leaf()),
            predicate,
            None,
            None,
            label=label,
            where=where,
            checks=loop.checks,
        )
    )
    n = on_host(count.leaf(len(states)).at())
    index = Input("k", int64, (), kind="counter", where=where)
    made = ArrayLoop(loop.state, loop.init, loop.body, None, n, index, label=loop.label,
                     where=where, checks=loop.checks)  # fmt: skip
    return made, n


def _changes(n: Expr) -> bool:
    """Whether a number of iterations depends on the state or the counter of an outer loop."""
    read = [Leaf(e.node, e.component) for e in walk((n,)) if isinstance(e, Read)]
    return any(isinstance(x, Input) and x.bound for x in topological(read, inside=False))


def active_states(moved: Container[Leaf], loop: ArrayLoop, fixed: Sequence[Leaf]) -> list[int]:
    """The numbers of the states that depend differentiably on a target."""
    found = {k for k, leaf in enumerate(loop.init) if leaf in moved}
    while True:
        targets = [*fixed, *(loop.state[k].leaf() for k in found)]
        following = moving(loop.body, targets)
        more = {k for k, leaf in enumerate(loop.body) if leaf in following}
        if more <= found:
            return sorted(k for k in found if loop.init[k].type.is_inexact)
        found |= more


@rule_for(ArrayLoop)
def _loop(r: Reverse, node: ArrayLoop, bars: Bars) -> None:
    where, label = node.where, adjoint(node)
    fixed = [leaf for leaf in invariants(node) if leaf in r.moving]
    active = active_states(r.moving, node, fixed)
    loop, n = counted(node)
    if _changes(n):
        raise GradientError(
            "the derivative of a loop inside another loop, whose number of iterations changes from "
            "iteration to iteration of the outer loop, is not supported.",
            hint="Give it a fixed number of iterations, and keep the state in the others: "
            "td.where(k < n, new, old).",
        )
    assert loop.index is not None
    # The adjoint of the body.
    states = [loop.state[k].leaf() for k in active]
    inner = Reverse([loop.body[k] for k in active], [*states, *fixed])
    incoming = [state_like(loop.init[k], "cotangent", where) for k in active]
    sums = [state_like(leaf, "sum", where) for leaf in fixed]
    for k, g in zip(active, incoming, strict=True):
        inner.give(loop.body[k], own(g.leaf(), len(g.shape)))
    inner.run()
    outgoing = [inner.bar(s) or constant_leaf(0, s, label.operation) for s in states]
    added = []
    for leaf, total in zip(fixed, sums, strict=True):
        part = inner.bar(leaf)
        if part is None:
            added.append(total.leaf())
            continue
        ix = indices(len(leaf.shape))
        e = apply_primitive("add", [total.leaf().at(*ix), part.at(*ix)])
        added.append(Generate(leaf.shape, (e,), label=label, where=where).leaf())
    new = [*outgoing, *added]
    # The states that it reads, stored.
    needed = set(topological(new))
    kept = [s for s in loop.state if s in needed]
    rows = apply_primitive("maximum", [n, constant(0)])
    place = loop.index.leaf().at()
    stores, updates, empty = [], [], []
    for s in kept:
        shape = (rows, *s.shape)
        first = Generate(shape, (Const(0, s.type),), label=Label("stored"), where=where)
        store = state_like(first.leaf(), "stored", where)
        ix = indices(len(s.shape))
        update = Permute(s.shape, TRUE, (place, *ix), (s.leaf().at(*ix),), (store.leaf(),), None,
                         label=Label(f"states of {node.label}"), where=where)  # fmt: skip
        stores.append(store)
        updates.append(update.leaf())
        empty.append(first.leaf())
    storing = closed_loop(
        ArrayLoop(
            (*loop.state, *stores),
            (*loop.init, *empty),
            (*loop.body, *updates),
            None,
            n,
            loop.index,
            label=node.label,
            where=where,
            checks=loop.checks,
        )
    )
    for k in range(len(node.state) if storing is not node else 0):
        r.replaced[node.leaf(k)] = storing.leaf(k)
    # The reversed loop.
    step = Input("k", int64, (), kind="counter", where=where)
    back = _minus(_minus(n, constant(1)), step.leaf().at())
    swap = dict(inner.replaced)
    swap[loop.index.leaf()] = Generate((), (back,), label=label, where=where).leaf()
    for j, s in enumerate(kept):
        stored = storing.leaf(len(loop.state) + j)
        read = stored.at(back, *indices(len(s.shape)))
        swap[s.leaf()] = Generate(s.shape, (read,), label=label, where=where).leaf()
    put = Substitution((), list(swap.items()))
    put.renew([*new, *inner.replaced.values()])
    body = put.leaves(new)
    starts = [bars[k] or constant_leaf(0, loop.init[k], label.operation) for k in active]
    starts += [constant_leaf(0, leaf, label.operation) for leaf in fixed]
    reversed_ = closed_loop(
        ArrayLoop(
            (*incoming, *sums), tuple(starts), tuple(body), None, n, step, label=label, where=where
        )
    )
    for j, leaf in enumerate([*(loop.init[k] for k in active), *fixed]):
        r.give(leaf, own(reversed_.leaf(j), len(leaf.shape)))


@rule_for(Branch)
def _branch(r: Reverse, node: Branch, bars: Bars) -> None:
    """A branch over the adjoints of the sides, by what is computed outside of them."""
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
        inner_r = Reverse([leaf for leaf, _ in pairs], targets)
        for leaf, g in pairs:
            inner_r.give(leaf, own(g, len(leaf.shape)))
        inner_r.run()
        found = [inner_r.bar(t) or constant_leaf(0, t, "no gradient") for t in targets]
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
