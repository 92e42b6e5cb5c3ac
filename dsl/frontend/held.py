"""What an evaluation keeps beside its result: arrays that it computes on the way, for the second
time, and that the user still holds.

A Python loop such as

    for _ in range(n):
        u = step(u)
        print(float(td.sum(u)))

asks for sums only, of which each is an expression of all steps before it.  The first evaluation
keeps nothing: storing an array costs memory, and fusion would have avoided it.  An evaluation that
meets nodes of an earlier one keeps the arrays on its way, so the next step starts from a value.

An array on the way is found by its node, which knows its holders.  Others only share what is
computed again, as v does with u where `u, v = step(u, v)` and only u is looked at: their chains
would grow with every step.  They are among the arrays made last, and are computed, too, once they
need no more nodes of their own than the evaluation has, so that no evaluation computes more in
advance than it was asked for.

Values belong to arrays, never to nodes: an equal expression that is written later reads its data
again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from ..array import Array
from ..graph import Input, Leaf, Node, known, latest_held, topological
from ..graphs.inputs import free_states

#: The most bytes of an array that is kept, unless what it is computed from is larger.
MOST_KEPT = 256 << 20


class Beside(NamedTuple):
    """The arrays to keep: those on the way, and others that share what is computed again."""

    on_the_way: list[Array]
    others: list[Array]


def kept_beside(array: Array) -> Beside:
    """The arrays to compute and to keep together with a closed array."""
    roots = {leaf.node for leaf in array._leaves}
    met = [node for node in topological(array._leaves) if not isinstance(node, Input)]
    found = Beside([], [])
    if any(node.evaluated for node in met):
        free = free_states(array._leaves)
        own = [node for node in met if node not in roots and not free[node]]
        most = max(MOST_KEPT, _bytes_read(array._leaves))
        holders = {id(a): a for node in own for a in _holders(node) if a is not array}
        whole = set(own)
        found.on_the_way[:] = [
            a
            for a in holders.values()
            if whole.issuperset(leaf.node for leaf in a._leaves) and _bytes(a._leaves) <= most
        ]
        found.others[:] = _sharing(met, most)
    for node in met:
        node.evaluated = True
    return found


def _sharing(met: Sequence[Node], most: int) -> list[Array]:
    """The arrays that need what the evaluation of these nodes computes again, and few others."""
    again: set[Node] = set()
    for node in met:
        if (node.evaluated and node.inputs()) or not again.isdisjoint(_needed(node)):
            again.add(node)
    found = []
    done = set(met)
    room, visits = len(met), 8 * len(met)
    for holder in reversed(latest_held.copy()) if again else ():
        array = holder()
        if not isinstance(array, Array) or isinstance(array._leaves[0].node, Input):
            continue
        own = list(islice(topological(array._leaves, known=done), room + 1))
        shares = any(not again.isdisjoint(_needed(node)) for node in own)
        if 0 < len(own) <= room and shares and (size := _bytes(array._leaves)) <= most:
            found.append(array)
            done.update(own)
            room, most = room - len(own), most - size
        visits -= len(own)
        if not room or visits < 0:
            break
    return found


def _needed(node: Node) -> list[Node]:
    """What a node reads, in its subprograms too."""
    return [leaf.node for leaf in (*node.inputs(), *node.inside())]


def _holders(node: Node) -> list[Array]:
    """The arrays with components of a node that are alive, and have not become values."""
    alive = [array for holder in node.holders if isinstance(array := holder(), Array)]
    return [array for array in alive if array._leaves[0].node is node]


def _bytes_read(leaves: Sequence[Leaf]) -> int:
    """The bytes of the data that an expression reads."""
    read = {node for node in topological(leaves) if isinstance(node, Input) and not node.bound}
    return _bytes([leaf for node in read for leaf in node.leaves])


def _bytes(leaves: Sequence[Leaf]) -> int:
    """The bytes of arrays.  Extents that data decides do not count: such arrays are stored in any
    case."""
    sizes = (math.prod(int(n) for e in leaf.shape if (n := known(e)) is not None)
             * leaf.type.numpy.itemsize for leaf in leaves)  # fmt: skip
    return sum(sizes)
