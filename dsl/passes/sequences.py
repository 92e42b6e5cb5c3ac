"""recognise_sequence: a loop that writes one element in each iteration becomes one kernel.

    loop(n, lambda k, t: t.at[f(k)].set(g(t, k)), t₀)   →   for k: t[f(k)] = g(t, k)

The elements that an iteration reads may be those that the ones before wrote: tables that are filled
cell by cell, recurrences of any reach, permutations by exchange.  A loop over arrays would start a
kernel in every iteration.  This runs after fusion, which must not compute an element of the state
from the value that it had before the loop; on a CPU only, where one thread is fast enough.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..expr import Expr, Extent, Index, Read, constant, rewrite, walk
from ..graph import ArrayLoop, Generate, Input, Leaf, Permute, Sequential, known, topological
from ..graphs.rebuild import Rebuilder
from .base import Context
from .recurrence import dependent, is_unsafe
from .vertical import Inliner


def recognise_sequence(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    """Replace the loops whose iterations write one element each; checked programs keep them."""
    order = list(topological(roots))
    loops = any(isinstance(n, ArrayLoop) for n in order)
    if context.backend != "native" or context.settings.check or not loops:
        return list(roots)
    builder = Rebuilder()
    for node in order:
        made = builder.node(node)
        found = _sequence(made) if isinstance(made, ArrayLoop) else None
        if found is not None:
            builder.leaves[Leaf(node, 0)] = Leaf(found, 0)
            context.notes.append(f"{node.label}: one kernel writes an element in each iteration")
        elif made is not node:
            builder.nodes[node] = made
            if node in context.kept:
                context.kept[made] = context.kept[node]
    return [builder.leaf(r) for r in roots]


def _sequence(loop: ArrayLoop) -> Sequential | None:
    if loop.count is None or loop.index is None or len(loop.state) != 1 or loop.changing():
        return None
    (state,), (first,), update = loop.state, loop.init, loop.body[0].node
    if not isinstance(update, Permute) or update.defaults != (state.leaf(),):
        return None
    label = update.label
    if label.ordered or label.name is not None or label.schedule is not None:
        return None
    if not all(known(n) == 1 for n in update.domain):
        return None
    inside = [n for n in topological(loop.body) if not isinstance(n, Input)]
    checks = (*loop.checks, *update.checks)
    if dependent(inside, set(loop.bound)) != {update} or any(c.reads for c in checks):
        return None
    inliner = Inliner()
    for node in inside:  # where there is no iteration, these must not be computed
        if node is update or not is_unsafe(node):
            continue
        if not isinstance(node, Generate) or node.shape or node.label.ordered or node.checks:
            return None
        inliner.bodies[node] = rewrite(node.elements, inliner.expand, inliner.memo)
    counter = loop.index.leaf().at()

    def change(e: Expr) -> Expr:
        if e is counter:
            return Index(0)
        own = isinstance(e, Read) and e.node is state and e.boundary is None
        return first.at(*e.args) if own else e

    roots = (update.valid, *update.target, *update.values)
    if update.combine is not None and any(
        isinstance(e, Read) for e in walk(update.combine.results)
    ):
        return None
    found = rewrite(roots, change, {Index(k): constant(0) for k in range(len(update.domain))})
    bound = set(loop.bound)
    if any(isinstance(e, Read | Extent) and e.node in bound for e in walk(found)):
        return None
    rank = len(update.target)
    return Sequential(
        (loop.count,), found[0], found[1 : 1 + rank], found[1 + rank :], (first,), update.combine,
        label=label, where=update.where, checks=checks,
        fused=(*update.fused, (loop.label, loop.where)),
    )  # fmt: skip
