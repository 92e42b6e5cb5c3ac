"""fuse_walked_updates: values that a walk collects for a single update are not stored.

    c[k] = s = f(s, x[k]);  h[c[k]] += 1 for all k   →   for k: s = f(s, x[k]); h[s] += 1

A single walk runs on one thread, step by step, and is bound by the latency of its state.  The
update of a small array hides behind that latency, while a separate kernel would read what the walk
has stored.  Only updates whose result does not depend on their order become part of the walk, and
only those of arrays that stay in a core's cache: others wait for memory, which several threads do
better.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from .. import graph
from ..analysis.polynomial import Polynomial, always_inside, polynomial
from ..expr import TRUE, Expr, Index, Read, constant, rewrite, walk
from ..graph import Leaf, Node
from ..graphs.rebuild import Rebuilder
from ..scalar import apply_primitive
from ..types import int64
from .base import Context
from .cost import operations
from .inner_loops import where_both
from .sequences import as_sequence
from .walks import HIDDEN, is_costly

#: The bytes of an array that stays in a core's cache.
CACHED = 1 << 20


def fuse_walked_updates(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    """Merge updates of small arrays by the values that a walk collects into the walk, on a CPU."""
    order = list(graph.topological(roots))
    if not context.target.cores or context.settings.check:
        return list(roots)
    users: dict[Node, set[Node | None]] = {n: set() for n in order if _is_single(n)}
    for node in order if users else ():
        for leaf in (*node.inputs(), *node.inside()):
            if leaf.node in users:
                users[leaf.node].add(node)
    for leaf in roots:
        if leaf.node in users:
            users[leaf.node].add(None)
    alone = {next(iter(found)): node for node, found in users.items() if len(found) == 1}
    builder = Rebuilder()
    for node in order:
        made = builder.node(node)
        if node in alone and isinstance(made, graph.Permute):
            walked = builder.nodes.get(alone[node], alone[node])
            found = _fused(made, walked) if isinstance(walked, graph.Recurrence) else None
            if found is not None:
                builder.leaves[node.leaf()] = found.leaves[-1]
                context.notes.append(f"{node.label}: a part of the walk whose results it reads")
                continue
        builder.replace(node, made, context.kept)
    return [builder.leaf(r) for r in roots]


def _is_single(node: Node) -> bool:
    return isinstance(node, graph.Recurrence) and len(node.shape) == 1 and not node.reverse


def _fused(update: graph.Permute, walked: graph.Recurrence) -> graph.Sequential | None:
    ahead = _ahead(update, walked)
    if ahead is None or not _fits(update) or _depends(update, walked):
        return None
    target, k = update.defaults[0], graph.Input("k", int64, (), kind="counter", where=walked.where)
    states = [
        graph.Input(v.name, v.type, (), kind="state", where=walked.where) for v in walked.state
    ]
    held = graph.Input("update", target.type, (False,) * len(target.shape), kind="state")
    held = held.of_shape(target.shape)
    here: dict[Expr, Expr] = {v: s.leaf().at() for v, s in zip(walked.state, states, strict=True)}
    here[Index(0)] = k.leaf().at()
    per_step = rewrite(walked.per_element(), lambda e: e, here)
    next_ = graph.Generate((), per_step, label=walked.label, where=walked.where)
    source = apply_primitive("subtract", [k.leaf().at(), constant(ahead)])
    there: dict[Expr, Expr] = {Index(0): source}
    for n in range(len(walked.collected)):
        for e in walk(update.bodies()):
            if isinstance(e, Read) and e.node is walked and e.component == n:
                there[e] = Leaf(next_, len(states) + n).at()
    found = rewrite((update.valid, *update.target, *update.values), lambda e: e, there)
    rank = len(update.target)
    own = graph.Permute(
        (), where_both(_in_domain(update, walked, source, ahead), found[0]), found[1 : rank + 1],
        found[rank + 1 :], (held.leaf(),), update.combine,
        label=graph.Label(update.label.operation), where=update.where, fused=update.fused,
    )  # fmt: skip
    loop = graph.ArrayLoop(
        (*states, held), (*graph.Generate((), walked.start, label=walked.label).leaves, target),
        (*next_.leaves[: len(states)], own.leaf()), None, walked.shape[0], k,
        label=update.label, where=update.where, checks=(*walked.checks, *update.checks),
    )  # fmt: skip
    made = as_sequence(loop, {})
    if not isinstance(made, graph.Sequential):
        return None
    fused = (*made.fused, (walked.label, walked.where), *walked.fused)
    return made.with_(fused=tuple(dict.fromkeys(fused)))


def _ahead(update: graph.Permute, walked: graph.Recurrence) -> int | None:
    """The constant number of steps by which the walk is ahead of the source that reads its result;
    None if it varies."""
    found: set[int | None] = set()
    for e in walk(update.bodies()):
        if isinstance(e, Read) and e.node is walked:
            own = e.component < len(walked.collected)
            at = polynomial(e.args[0]) if own else None
            if at is None or not own or e.boundary is not None:
                return None
            found.add((at - Polynomial.atom(Index(0))).value)
    (ahead,) = found if len(found) == 1 else (None,)
    return ahead if ahead is not None and ahead >= 0 else None


def _fits(update: graph.Permute) -> bool:
    """Whether the updates are cheap, go to one small array, and may be made in any order."""
    target, label = update.defaults[0], update.label
    fixed = label.ordered or label.deterministic
    extents = [graph.known(n) for n in target.shape]
    if (
        fixed
        or isinstance(update, graph.Compact)
        or len(update.defaults) > 1
        or len(update.domain) != 1
    ):
        return False
    if target.type.is_inexact or None in extents:
        return False
    small = math.prod(int(n) for n in extents if n is not None) * target.type.bytes <= CACHED
    work = (update.valid, *update.target, *update.values)
    return small and operations(work) <= HIDDEN and not any(is_costly(e, set()) for e in work)


def _depends(update: graph.Permute, walked: graph.Recurrence) -> bool:
    """Whether the update also reads arrays made from the walk, or its old target."""
    bodies = (*update.bodies(), *walked.bodies())
    if any(isinstance(e, Read) and Leaf(e.node, e.component) in update.defaults
           for e in walk(bodies)):  # fmt: skip
        return True
    others = [leaf for leaf in update.inputs() if leaf.node is not walked]
    return walked in graph.topological(others)


def _in_domain(update: graph.Permute, walked: graph.Recurrence, source: Expr, ahead: int) -> Expr:
    """Whether a step of the walk corresponds to a source of the update."""
    inside: Expr = TRUE
    if ahead:
        inside = apply_primitive("greater_equal", [source, constant(0)])
    end = apply_primitive("add", [update.domain[0], constant(ahead)])
    if not always_inside(Index(0), end, walked.shape):
        below = apply_primitive("less", [source, update.domain[0]])
        inside = below if inside is TRUE else apply_primitive("logical_and", [inside, below])
    return inside
