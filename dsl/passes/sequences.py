"""recognise_sequence: a loop that writes one element in each iteration becomes one kernel.

    loop(n, lambda k, t: t.at[f(k)].set(g(t, k)), t₀)   →   for k: t[f(k)] = g(t, k)

The elements that an iteration reads may be those that the ones before wrote: tables that are filled
cell by cell, recurrences of any reach, permutations by exchange.  A loop over arrays would start a
kernel in every iteration.  A loop around such a loop that does nothing else is one more axis of the
same kernel.  This runs after fusion, which must not compute an element of the state from the value
that it had before the loop; on a CPU only, where one thread is fast enough.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..expr import Expr, Extent, Index, Read, While, constant, rewrite, walk
from ..graph import ArrayLoop, Generate, Input, Leaf, Permute, Sequential, known, topological
from ..graphs.rebuild import Rebuilder
from ..node import indices
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
    """A loop as a sequence, where each iteration writes one element, or is a sequence itself."""
    if loop.count is None or loop.index is None or len(loop.state) != 1 or loop.changing():
        return None
    (state,), (first,), update = loop.state, loop.init, loop.body[0].node
    if not isinstance(update, Permute) or update.defaults != (state.leaf(),):
        return None
    label, nested = update.label, isinstance(update, Sequential)
    if label.ordered or label.name is not None or label.schedule is not None:
        return None
    if not nested and not all(known(n) == 1 for n in update.domain):
        return None
    checks = (*loop.checks, *update.checks)
    if any(c.reads for c in checks):
        return None
    inside = [n for n in topological(loop.body) if not isinstance(n, Input)]
    changing = dependent(inside, set(loop.bound))
    inliner = Inliner()
    for node in inside:
        # What is unsafe must not be computed before the loop, which may have no iteration.
        if node is update or not (node in changing or is_unsafe(node)):
            continue
        if not isinstance(node, Generate) or node.shape or node.label.ordered or node.checks:
            return None
        made = rewrite(node.elements, inliner.expand, inliner.memo)
        if any(isinstance(e, While) or (nested and _of(e, state.leaf())) for e in walk(made)):
            return None  # computed too often, or from what the inner loop has changed
        inliner.bodies[node] = made
    bodies = (*update.bodies(), *(e for made in inliner.bodies.values() for e in made))
    if any(_of(e, first) for e in walk((*bodies, loop.count))):
        # What a sequence reads of its defaults are the current elements: these are of a copy.
        copied = (first.at(*indices(len(first.shape))),)
        first = Generate(first.shape, copied, label=update.label, where=update.where).leaves[0]
    if update.combine is not None and any(
        isinstance(e, Read) for e in walk(update.combine.results)
    ):
        return None
    counter = loop.index.leaf().at()

    def change(e: Expr) -> Expr:
        if e is counter:
            return Index(0)
        own = _of(e, state.leaf()) and isinstance(e, Read) and e.boundary is None
        return first.at(*e.args) if own else e

    axes: dict[Expr, Expr] = {
        Index(k): Index(k + 1) if nested else constant(0) for k in range(len(update.domain))
    }
    roots = (update.valid, *update.target, *update.values)
    found = rewrite(rewrite(roots, inliner.expand, inliner.memo), change, axes)
    domain = (loop.count, *(update.domain if nested else ()))
    bound = {*loop.bound, *inliner.bodies}
    if any(isinstance(e, Read | Extent) and e.node in bound for e in walk((*domain, *found))):
        return None
    rank = len(update.target)
    return Sequential(
        domain, found[0], found[1 : 1 + rank], found[1 + rank :], (first,), update.combine,
        label=label, where=update.where, checks=checks,
        fused=(*update.fused, (loop.label, loop.where)),
    )  # fmt: skip


def _of(e: Expr, leaf: Leaf) -> bool:
    return isinstance(e, Read) and e.node is leaf.node and e.component == leaf.component
