"""Nested loops: which nodes belong to which loop, the order of computation, and which arrays are
updated in place.

    t, i = while_loop(p, f, (t, i₀))     t is updated in place: it is the next value of the state t
    u = loop(0, t[i], g, t)              begins with a copy: t is the next value, too
    return t, u[0]

An array is updated in place along the chain of updates and inner loops that leads from a state to
its next value.  Other initial values of an inner loop are copied by a separate loop.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set as AbstractSet

from ..expr import FALSE, TRUE, Cond, Expr, Proj
from ..graph import ArrayLoop, Input, Leaf, Node, Permute, known, topological
from .recurrence import dependent, is_unsafe

#: The most elements that one update of an iteration writes.
MOST_ELEMENTS = 36


class OtherLoop(Exception):
    """A loop that is not a sequence of writes."""


def need(condition: bool) -> None:
    if not condition:
        raise OtherLoop


def where_both(p: Expr, valid: Expr) -> Expr:
    """`p and valid`; `valid` is evaluated only where `p` holds."""
    if p is TRUE or valid is TRUE:
        return valid if p is TRUE else p
    return Proj(Cond(p, (valid,), (FALSE,)), 0)


def iteration_order(loop: ArrayLoop, body: Sequence[Leaf]) -> list[Node]:
    """The nodes of an iteration, in the order of computation."""
    order = [n for n in topological(body) if not isinstance(n, Input)]
    changing = dependent(order, set(loop.bound))
    # Unsafe nodes and their readers must not be computed before the loop, which may have no
    # iteration, unless they are its initial values.  Nodes that change are not computed before it
    # anyway.
    begun = set(topological(loop.inputs()))
    unsafe = {n for n in order if n not in changing and n not in begun and is_unsafe(n)}
    kept = changing | unsafe | (dependent(order, unsafe) - begun)
    return [n for n in order if n in kept]


def own_nodes(loop: ArrayLoop, body: Sequence[Leaf], outside: AbstractSet[Node]) -> list[Node]:
    """The nodes of an iteration that belong to no inner loop's iteration and are not `outside`,
    that is, computed around the loop."""
    reached = set(topological(body, known=outside))  # not inside loops that are outside
    order = [n for n in iteration_order(loop, body) if n in reached]
    outside = outside | not_inside(body)
    inner = {n for x in order if isinstance(x, ArrayLoop)
             for n in iteration_order(x, x.inner_roots()) if n not in outside}  # fmt: skip
    return [n for n in order if n not in inner]


def not_inside(roots: Sequence[Leaf]) -> set[Node]:
    """The nodes that these depend on, without those inside loops."""
    return set(topological(roots, inside=False))


def few(leaf: Leaf) -> bool:
    """Whether an array has a known, small number of elements."""
    extents = [known(n) for n in leaf.shape]
    return None not in extents and math.prod(map(int, extents)) <= MOST_ELEMENTS


def based_on(node: Node) -> tuple[Leaf, ...]:
    """The initial arrays of an update or an inner loop."""
    if isinstance(node, Permute):
        return node.defaults
    return node.init if isinstance(node, ArrayLoop) else ()


def chains(states: Sequence[Input], body: Sequence[Leaf]) -> dict[tuple[Node, int], int]:
    """For components of updates and inner loops: the state whose next value they become."""
    found: dict[tuple[Node, int], int] = {}
    for k, (state, leaf) in enumerate(zip(states, body, strict=True)):
        while leaf != state.leaf() and (based := based_on(leaf.node)):
            found.setdefault((leaf.node, leaf.component), k)
            leaf = based[leaf.component]
    return found


def used_by(node: Node) -> set[Leaf]:
    """The arrays that a node, with the nodes inside it, reads or starts from."""
    inside = node.inside()
    return {*node.inputs(), *inside, *(leaf for n in topological(inside) for leaf in n.inputs())}


def in_turn(own: Sequence[Node], chain: Mapping[tuple[Node, int], int], order: Sequence[Node]
            ) -> list[Node]:  # fmt: skip
    """The updates and loops as written, with readers and copies of an array moved ahead of the
    nodes that update it in place.  `order`: all nodes of an iteration in an order of
    computation."""
    waiting = sorted((n for n in own if based_on(n)), key=lambda n: n.uid)
    after = {n: dependent(order, {n}) for n in waiting}
    uses = {n: used_by(n) if isinstance(n, ArrayLoop) else set(based_on(n)) for n in waiting}
    made: list[Node] = []
    while waiting:
        ready = [n for n in waiting if not any(n in after[m] for m in waiting)]
        need(bool(ready))

        def last(node: Node) -> bool:
            changed = {x for k, x in enumerate(based_on(node)) if (node, k) in chain}
            return not any(uses[m] & changed for m in waiting
                           if m is not node and m not in after[node])  # fmt: skip

        made.append(next(filter(last, ready), ready[0]))
        waiting.remove(made[-1])
    return made
