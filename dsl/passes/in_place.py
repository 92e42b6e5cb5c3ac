"""fuse_in_place: merge kernels that read a stored result at their own index into its kernel.

A result of the program, or an array with several readers, is stored in memory.  A kernel over the
same extents that reads it only at its own index is merged with its kernel, where the value is still
in a register.

    call = s·n₁ − k·n₂;  put = call − s + k        →   one kernel with two outputs
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..analysis.regions import nests, regions
from ..expr import Cond, Expr, Read, rewrite, walk
from ..graph import Generate, Input, Leaf, Node, is_identity_read, topological
from ..graphs.rebuild import Rebuilder
from .base import Context
from .horizontal import _common
from .vertical import LARGEST, MOST_ARRAYS, MOST_CONDITIONS, checked_by_data

#: The most arrays that a kernel stores, unless a single operation has more.
MOST_STORED = 32


def fuse_in_place(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    """Merge each `Generate` with those that it reads at its own index.

    All other operands of these must be computed before the first of them, so that the order of
    kernels is kept.
    """
    order = list(topological(roots))
    region, nest = regions(roots), nests(roots)
    where = {node: (region[node], nest[node]) for node in order}
    groups = _Clusters(roots, order, where, context.settings.check).of
    if not any(len(group.members) > 1 for group in groups.values()):
        return list(roots)
    builder = Rebuilder()
    done: set[Node] = set()
    for node in order:
        if node in done:
            continue
        members = groups[node].members if node in groups else [node]
        done |= set(members)
        merged = node if len(members) == 1 else _merged(members)
        made = builder.node(merged)
        builder.replace(node, made, context.kept)
        if len(members) > 1:
            builder.join(members, made)
    return [builder.leaf(r) for r in roots]


@dataclass
class _Group:
    """Nodes that become one kernel, in order: their operations and conditions (in total, and the
    most of one node), their operands, and which of their results are stored."""

    members: list[Any]
    size: int
    conditions: int
    most_conditions: int
    reads: set[Node]
    stored: set[Leaf]

    @staticmethod
    def joined(groups: Sequence[_Group], position: Mapping[Node, int]) -> _Group:
        members = [n for g in groups for n in g.members]
        return _Group(
            sorted(members, key=position.__getitem__),
            sum(g.size for g in groups),
            sum(g.conditions for g in groups),
            max(g.most_conditions for g in groups),
            set().union(*(g.reads for g in groups)),
            set().union(*(g.stored for g in groups)),
        )

    @property
    def is_small(self) -> bool:
        return (
            len(self.stored) <= MOST_STORED
            and self.size <= LARGEST
            and self.conditions <= max(MOST_CONDITIONS, self.most_conditions)
            and len(self.reads.difference(self.members)) <= MOST_ARRAYS
        )


class _Clusters:
    """The groups; `where`: a node's loops and branches; `every`: all results are stored."""

    def __init__(self, roots: Sequence[Leaf], order: Sequence[Node],
                 where: Mapping[Node, object], every: bool) -> None:  # fmt: skip
        self.where, self.every = where, every
        self.position = {node: k for k, node in enumerate(order)}
        self.of: dict[Node, _Group] = {}
        self._reads: dict[Node, dict[Node, list[Read]]] = {}
        self._results = set(roots)
        self._readers: dict[Leaf, set[Node]] = {}
        for node in order:
            for leaf in (*node.inputs(), *node.inside()):
                self._readers.setdefault(leaf, set()).add(node)
        for node in order:
            plain = isinstance(node, Generate) and node.shape and not node.label.ordered
            if plain and not checked_by_data(node):
                self._add(node)

    def _add(self, node: Node) -> None:
        """Join the groups of all nodes, or of some, that a node reads at its own index."""
        own = self._alone(node)
        near: dict[int, _Group] = {}
        for producer in self._reads[node]:
            group = self.of.get(producer)
            if group is not None and self._alike(group.members[0], node):
                near[id(group)] = group
        groups = sorted(near.values(), key=lambda g: self.position[g.members[0]])
        for chosen in ([groups] if len(groups) > 1 else []) + [[g] for g in near.values()]:
            made = _Group.joined([*chosen, own], self.position)
            members = set(made.members)
            made.stored = {leaf for leaf in made.stored if self._is_stored(leaf, members)}
            later = [node, *(n for g in chosen[1:] for n in g.members)]
            if made.is_small and self._may_join(later, made.members[0], members):
                own = made
                break
        self.of.update((n, own) for n in own.members)

    def _alone(self, node: Node) -> _Group:
        nodes = walk(node.bodies())
        reads = self._reads[node] = {}
        for e in nodes:
            if isinstance(e, Read):
                reads.setdefault(e.node, []).append(e)
        conditions = sum(isinstance(e, Cond) for e in nodes)
        return _Group([node], len(nodes), conditions, conditions, set(reads), set(node.leaves))

    def _alike(self, first: Node, node: Node) -> bool:
        return first.leaf().shape == node.leaf().shape and self.where[first] == self.where[node]

    def _is_stored(self, leaf: Leaf, members: set[Any]) -> bool:
        """Whether a result is read outside its kernel."""
        return self.every or leaf in self._results or not self._readers.get(leaf, set()) <= members

    def _may_join(self, nodes: Sequence[Node], first: Node, members: set[Any]) -> bool:
        """Whether members' operands precede the first, or are members read at their own index."""
        start = self.position[first]
        for node in nodes:
            reads, rank = self._reads[node], len(node.leaf().shape)
            for leaf in node.inputs():
                source = leaf.node
                if source in members:
                    if not all(is_identity_read(e, rank) for e in reads.get(source, ())):
                        return False
                    if source not in reads:  # an extent or a check reads it
                        return False
                elif not isinstance(source, Input) and self.position[source] >= start:
                    return False
        return True


def _merged(members: list[Any]) -> Node:
    """One node with all outputs; members' reads of each other become the values themselves."""
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
