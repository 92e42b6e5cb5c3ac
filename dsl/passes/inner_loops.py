"""The iterations of loops within loops: which nodes belong to which loop, in which order they are
computed, and which arrays change in place.

    t, i = while_loop(p, f, (t, i₀))     t changes in place: it is the next value of the state t
    u = loop(0, t[i], g, t)              begins with a copy: t is the next value, too
    return t, u[0]

An array changes in place along the chain of updates and inner loops that leads from a state to its
next value.  What else an inner loop begins with is copied by a loop of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set as AbstractSet

from ..expr import FALSE, TRUE, Cond, Expr, Proj
from ..graph import ArrayLoop, Input, Leaf, Node, Permute, known, topological
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
    begun = not_inside(loop.inputs())
    unsafe = {n for n in order if n not in changing and n not in begun and is_unsafe(n)}
    kept = changing | unsafe | (dependent(order, unsafe) - begun)
    return [n for n in order if n in kept]


def own_nodes(loop: ArrayLoop, body: Sequence[Leaf], outside: AbstractSet[Node]) -> list[Node]:
    """The nodes of an iteration that are not part of an iteration of an inner loop, nor of those
    `outside`, which are computed around the loop."""
    reached = set(topological(body, known=outside))  # and not inside of loops that are outside
    order = [n for n in iteration_order(loop, body) if n in reached]
    outside = outside | not_inside(body)
    inner = {n for x in order if isinstance(x, ArrayLoop)
             for n in iteration_order(x, x.inner_roots()) if n not in outside}  # fmt: skip
    return [n for n in order if n not in inner]


def not_inside(roots: Sequence[Leaf]) -> set[Node]:
    """What is computed for these, apart from what is inside of loops."""
    return set(topological(roots, inside=False))


def few(leaf: Leaf) -> bool:
    """Whether an array has few elements, and how many is known."""
    extents = [known(n) for n in leaf.shape]
    return None not in extents and math.prod(map(int, extents)) <= MOST_ELEMENTS


def based_on(node: Node) -> tuple[Leaf, ...]:
    """The arrays that an update or an inner loop begins with."""
    if isinstance(node, Permute):
        return node.defaults
    return node.init if isinstance(node, ArrayLoop) else ()


def chains(states: Sequence[Input], body: Sequence[Leaf]) -> dict[tuple[Node, int], int]:
    """The state that a component of an update, or of an inner loop, becomes the next value of."""
    found: dict[tuple[Node, int], int] = {}
    for k, (state, leaf) in enumerate(zip(states, body, strict=True)):
        while leaf != state.leaf() and (based := based_on(leaf.node)):
            found.setdefault((leaf.node, leaf.component), k)
            leaf = based[leaf.component]
    return found


def used_by(node: Node) -> set[Leaf]:
    """What a node, with what is inside of it, reads or begins with."""
    inside = node.inside()
    return {*node.inputs(), *inside, *(leaf for n in topological(inside) for leaf in n.inputs())}


def in_turn(own: Sequence[Node], chain: Mapping[tuple[Node, int], int], order: Sequence[Node]
            ) -> list[Node]:  # fmt: skip
    """The updates and loops, as they were written, but what reads or copies an array ahead of what
    changes it in place.  `order`: all nodes of an iteration, in an order of computation."""
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
