"""The loops and branches that contain the nodes of a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..graph import ArrayLoop, Branch, Input, Leaf, Node, topological


def regions(roots: Sequence[Leaf]) -> dict[Node, frozenset[Node]]:
    """The loop states on which each node depends.  Dependence on one state of a loop implies
    dependence on all of them, as they change together."""
    found: dict[Node, frozenset[Node]] = {}
    order = list(topological(roots))
    loops = [node for node in order if isinstance(node, ArrayLoop)]
    together = {variable: frozenset(loop.bound) for loop in loops for variable in loop.bound}
    for node in order:
        if isinstance(node, Input):
            alone = frozenset((node,)) if node.bound else frozenset()
            found[node] = together.get(node, alone)
            continue
        mine: frozenset[Node] = frozenset()
        for leaf in node.inputs():
            mine |= found[leaf.node]
        if isinstance(node, ArrayLoop):
            for leaf in node.inner_roots():
                mine |= found[leaf.node]
            mine -= frozenset(node.bound)
        elif isinstance(node, Branch):
            for leaf in (*node.then, *node.other):
                mine |= found[leaf.node]
        found[node] = mine
    return found


def nested(roots: Sequence[Leaf]) -> dict[Node, frozenset[Node]]:
    """For each state of a loop, the states of the loops inside its body."""
    loops = [node for node in topological(roots) if isinstance(node, ArrayLoop)]
    found: dict[Node, frozenset[Node]] = {}
    for loop in loops:
        inner = [n for n in topological(loop.body) if isinstance(n, ArrayLoop)]
        within = frozenset(variable for n in inner for variable in n.bound)
        found.update(dict.fromkeys(loop.bound, within))
    return found


def innermost(roots: Sequence[Leaf], region: Mapping[Node, frozenset[Node]]
              ) -> dict[Node, frozenset[Node]]:  # fmt: skip
    """The states of the innermost loops on which each node depends: nodes with equal sets are
    computed in the same iterations."""
    inside = nested(roots)
    if not inside:
        return dict(region)
    found: dict[frozenset[Node], frozenset[Node]] = {}
    for states in {*region.values()}:
        outer = {s for s in states if not inside.get(s, frozenset()).isdisjoint(states)}
        found[states] = states - outer
    return {node: found[states] for node, states in region.items()}


def changes_with(node: Node, reader: Node, region: Mapping[Node, frozenset[Node]],
                 inside: Mapping[Node, frozenset[Node]]) -> bool:  # fmt: skip
    """Whether a node changes in every iteration in which its reader does: it depends on the same
    loops, or on loops nested inside the missing ones."""
    missing = region[reader] - region[node]
    return all(inside.get(state, frozenset()) & region[node] for state in missing)


#: A nest of cond sides and loop bodies, each given by its node and side.
Nest = frozenset[tuple[Node, int]]
#: The most nests of a node.  A node with more gets a unique nest.
MOST_NESTS = 8


def nests(roots: Sequence[Leaf]) -> dict[Node, frozenset[Nest]]:
    """For each node, the nests of cond sides and loop bodies inside which it is computed; the empty
    set is the top level of the program.

    The operands of a loop's predicate are computed where the loop is, or in its body.
    """
    order = list(topological(roots))
    everywhere: frozenset[Nest] = frozenset({frozenset()})
    if not any(isinstance(node, ArrayLoop | Branch) for node in order):
        return dict.fromkeys(order, everywhere)
    found: dict[Node, set[Nest]] = {leaf.node: set(everywhere) for leaf in roots}
    made: dict[Node, frozenset[Nest]] = {}
    for node in reversed(order):
        mine = made[node] = _outermost(found.pop(node), node)
        inside: list[tuple[Sequence[Leaf], int]] = []
        around = node.inputs()
        if isinstance(node, Branch):
            inside = [(node.then, 0), (node.other, 1)]
        elif isinstance(node, ArrayLoop):
            inside = [(node.body, 0)]
            if node.predicate is not None:
                around = (*around, node.predicate)
        for leaf in around:
            found.setdefault(leaf.node, set()).update(mine)
        for leaves, side in inside:
            within = [nest | {(node, side)} for nest in mine]
            for leaf in leaves:
                found.setdefault(leaf.node, set()).update(within)
    return made


def _outermost(found: set[Nest], node: Node) -> frozenset[Nest]:
    """The nests that contain no other nest as a subset: the outermost ones."""
    least = frozenset(p for p in found if not any(other < p for other in found))
    return least if len(least) <= MOST_NESTS else frozenset({frozenset({(node, 0)})})
