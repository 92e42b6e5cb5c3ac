"""What an evaluation keeps beside its result: arrays that it computes on the way, for the second
time, and that the user still holds.

A Python loop such as

    for _ in range(n):
        u = step(u)
        print(float(td.sum(u)))

asks for sums only, of which each is an expression of all steps before it.  The first evaluation
keeps nothing: storing an array costs memory, and fusion would have avoided it.  An evaluation that
meets nodes of an earlier one keeps the arrays on its way, so the next step starts from a value.

An array is found by its node, which knows its holders.  Values belong to arrays, never to nodes:
an equal expression that is written later reads its data again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..array import Array
from ..graph import Input, Leaf, Node, known, topological
from ..graphs.inputs import free_states

#: The most bytes of an array that is kept, unless what it is computed from is larger.
MOST_KEPT = 256 << 20


def kept_beside(array: Array) -> list[Array]:
    """The arrays to compute and to keep together with a closed array."""
    roots = {leaf.node for leaf in array._leaves}
    met = [node for node in topological(array._leaves) if not isinstance(node, Input)]
    again = any(node.evaluated for node in met)
    found = []
    if again:
        free = free_states(array._leaves)
        own = [node for node in met if node not in roots and not free[node]]
        most = max(MOST_KEPT, _bytes_read(array._leaves))
        holders = {id(a): a for node in own for a in _holders(node) if a is not array}
        whole = set(own)
        found = [
            a
            for a in holders.values()
            if whole.issuperset(leaf.node for leaf in a._leaves) and _bytes(a._leaves) <= most
        ]
    for node in met:
        node.evaluated = True
    return found


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
