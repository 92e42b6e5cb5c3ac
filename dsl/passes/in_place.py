"""fuse_in_place: merge a kernel that is needed anyway with kernels that read it at their own index.

A result of the program, or an array with several readers, is stored in memory.  A kernel over the
same extents that reads it only at its own index is merged with it: the value is still in a
register.

    call = s·n₁ − k·n₂;  put = call − s + k        →   one kernel with two outputs
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..analysis.regions import nests, regions
from ..expr import Cond, Expr, Read, rewrite, walk
from ..graph import Generate, Input, Leaf, Node, is_identity_read, topological
from ..graphs.rebuild import Rebuilder
from .base import Context
from .horizontal import MOST_OUTPUTS, _common
from .vertical import LARGEST, MOST_ARRAYS, MOST_CONDITIONS, checked_by_data


def fuse_in_place(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    """Merge a `Generate` into the first one that it reads at its own index.

    All its other operands must be computed before that one, so that the order of kernels is kept.
    """
    order = list(topological(roots))
    region, nest = regions(roots), nests(roots)
    clusters = _clusters(order, {node: (region[node], nest[node]) for node in order})
    if not any(len(members) > 1 for members in clusters.values()):
        return list(roots)
    builder = Rebuilder()
    done: set[Node] = set()
    for node in order:
        if isinstance(node, Input):
            builder.take(node)
            continue
        if node in done:
            continue
        members = clusters.get(node, [node])
        done |= set(members)
        merged = node if len(members) == 1 else _merged(members)
        made = builder.node(merged)
        if made is not node:
            builder.nodes[node] = made
            if node in context.kept:
                context.kept[made] = context.kept[node]
        at = 0
        for original in members if len(members) > 1 else ():
            for k in range(len(original.outputs)):
                builder.leaves[Leaf(original, k)] = Leaf(made, at)
                at += 1
    return [builder.leaf(r) for r in roots]


def _clusters(order: Sequence[Node], where: Mapping[Node, object]) -> dict[Node, list[Any]]:
    """Groups by first node; `where` identifies the loops and branches that contain a node."""
    position = {node: k for k, node in enumerate(order)}
    first_of: dict[Node, Node] = {}
    groups: dict[Node, list[Any]] = {}
    sizes: dict[Node, tuple[int, int]] = {}  # operations and conditions
    arrays: dict[Node, set[Node]] = {}
    for node in order:
        if (
            not isinstance(node, Generate)
            or not node.shape
            or node.label.ordered
            or checked_by_data(node)
        ):
            continue
        size = conditions = 0
        reads: dict[Node, list[Read]] = {}
        for e in walk(node.elements):
            size += 1
            conditions += isinstance(e, Cond)
            if isinstance(e, Read):
                reads.setdefault(e.node, []).append(e)
        for producer in reads:
            first = first_of.get(producer)
            if first is None or first.leaf().shape != node.shape or where[first] != where[node]:
                continue
            outputs = sum(len(n.outputs) for n in groups[first]) + len(node.outputs)
            both = sizes[first][0] + size, sizes[first][1] + conditions
            if outputs > MOST_OUTPUTS or both[0] > LARGEST:
                continue
            if both[1] > max(MOST_CONDITIONS, sizes[first][1], conditions):
                continue
            if len((arrays[first] | reads.keys()) - {*groups[first]}) > MOST_ARRAYS:
                continue
            if _may_join(node, reads, groups[first], position):
                groups[first].append(node)
                sizes[first] = both
                arrays[first] |= reads.keys()
                first_of[node] = first
                break
        else:
            first_of[node] = node
            groups[node] = [node]
            sizes[node], arrays[node] = (size, conditions), set(reads)
    return groups


def _may_join(
    node: Generate, reads: dict[Node, list[Read]], group: list[Any], position: dict[Node, int]
) -> bool:
    start = position[group[0]]
    members = set(group)
    rank = len(node.shape)
    for leaf in node.inputs():
        source = leaf.node
        if source in members:
            if not all(is_identity_read(e, rank) for e in reads.get(source, ())):
                return False
            if source not in reads:  # an extent or a check reads it
                return False
        elif not isinstance(source, Input) and position[source] >= start:
            return False
    return True


def _merged(members: list[Any]) -> Node:
    """One node with all outputs; reads of each other become the values themselves."""
    values: dict[Node, tuple[Expr, ...]] = {}

    def inside(e: Expr) -> Expr:
        if isinstance(e, Read) and e.node in values:
            return values[e.node][e.component]
        return e

    memo: dict[Expr, Expr] = {}
    for n in members:
        values[n] = rewrite(n.elements, inside, memo)
    elements = tuple(e for n in members for e in values[n])
    return members[0].with_(elements=elements, **_common(members))  # type: ignore[no-any-return]
