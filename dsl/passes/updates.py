"""fuse_updates: successive updates of an array by the same sources become one kernel.

    g.at[i].add(x).at[j].add(y)   →   for each source p: g[i[p]] += x[p], g[j[p]] += y[p]

The sources are visited once, and shared work is computed once.  The merged permute has one more
axis, of constant extent, along which a `cond` selects the update; the CPU lowering unrolls it (at
most `COLUMNS` updates).  A GPU keeps separate kernels: its atomic updates take longer than the
shared work.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis.combines import is_commutative
from ..analysis.regions import nests, regions
from ..analysis.updates import is_one_to_one
from ..expr import Cond, Expr, Extent, Index, Proj, Read, constant, walk
from ..graph import Leaf, Node, Permute, known, topological
from ..graphs.rebuild import Rebuilder
from ..scalar import apply_primitive
from .base import Context
from .horizontal import _common

#: The most updates of one kernel; and the most columns of a row (`columns.py`) at otherwise equal
#: indices.
SHORT, COLUMNS = 8, 16


def fuse_updates(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    """Merge chains of permutes with the same function, each read only by the next."""
    order = list(topological(roots))
    if not context.target.cores or context.settings.check:
        return list(roots)
    if sum(isinstance(n, Permute) for n in order) < 2:
        return list(roots)
    chains = _chains(order, roots, context)
    if not chains:
        return list(roots)
    builder = Rebuilder()
    inner = {node for chain in chains.values() for node in chain[:-1]}
    for node in order:
        if node in inner:
            continue  # merged into the last of its chain
        made = builder.node(_merged(chains[node]) if node in chains else node)
        builder.replace(node, made, context.kept)
    return [builder.leaf(r) for r in roots]


def _chains(order: Sequence[Node], roots: Sequence[Leaf], context: Context
            ) -> dict[Node, list[Permute]]:  # fmt: skip
    """The chains of several permutes, by their last permute."""
    readers: dict[Node, list[Node | None]] = {}
    for node in order:
        for leaf in {*node.inputs(), *node.inside()}:
            readers.setdefault(leaf.node, []).append(node)
    for leaf in roots:
        readers.setdefault(leaf.node, []).append(None)
    region, nest = regions(roots), nests(roots)
    chains: dict[Node, list[Permute]] = {}
    for node in order:
        if not (isinstance(node, Permute) and _may_move(node, context)):
            continue
        chain = chains.get(node.defaults[0].node, [])
        before = chain[-1] if chain else None
        if (
            before is not None
            and len(chain) < SHORT
            and set(readers[before]) == {node}
            and node.defaults == before.leaves
            and not _reads(node, before)
            and (node.domain, node.combine) == (before.domain, before.combine)
            and (region[node], nest[node]) == (region[before], nest[before])
        ):
            del chains[before]
            chains[node] = [*chain, node]
        else:
            chains[node] = [node]
    return {last: chain for last, chain in chains.items() if len(chain) > 1}


def _may_move(node: Permute, context: Context) -> bool:
    """Whether an update may be interleaved with others that have the same function."""
    if node.label.ordered or node.combine is None or not is_commutative(node.combine):
        return False
    rounds = any(o.type.is_inexact for o in node.outputs)
    if rounds and (node.label.deterministic or context.settings.deterministic):
        return False
    # Slices are updated in vectors, single elements in place.
    return not is_one_to_one(node) and not all(known(n) == 1 for n in node.domain)


def _reads(node: Permute, other: Node) -> bool:
    """Whether a permute reads elements of the other, which is its default."""
    checks = [e for c in node.checks for e in (c.left, c.right)]
    found = walk((*node.expressions(), *checks))
    return any(isinstance(e, Read | Extent) and e.node is other for e in found)


def along(index: Expr, sides: Sequence[Expr]) -> Expr:
    """The element of `sides` that the index selects."""
    *others, made = sides
    for k in reversed(range(len(others))):
        if others[k] is not made:
            here = apply_primitive("equal", [index, constant(k)])
            made = Proj(Cond(here, (others[k],), (made,)), 0)
    return made


def _merged(chain: Sequence[Permute]) -> Permute:
    first, last = chain[0], len(chain[0].domain)

    def of(name: str) -> tuple[Expr, ...]:
        return tuple(
            along(Index(last), sides)
            for sides in zip(*(getattr(n, name) for n in chain), strict=True)
        )

    return first.with_(
        domain=(*first.domain, constant(len(chain))),
        valid=along(Index(last), [n.valid for n in chain]),
        target=of("target"), values=of("values"), where=chain[-1].where, **_common(chain),
    )  # fmt: skip
