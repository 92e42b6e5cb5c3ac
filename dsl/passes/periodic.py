"""recognise_periodic: u[(i − 1) mod n, j]  →  u[i − 1, j] at a border that wraps.

That is what `td.roll` is, and how periodic neighbours are written with indices.  As a stencil,
neighbours share what they read, only the border divides, and schedules know who needs what.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..expr import Apply, Const, Expr, Index, Read, constant, rewrite, walk
from ..graph import Generate, Leaf, Node
from ..scalar import apply_primitive
from .base import Context
from .rebuild import rewrite_graph

#: Neighbours further away share nothing; and a border that wide may be all of an array.
FARTHEST = 64


def recognise_periodic(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    """Reads at neighbours modulo the extent become reads with the boundary "wrap"."""

    def change(node: Node) -> Node:
        if not isinstance(node, Generate):
            return node

        wrapped: dict[Expr, Expr] = {}
        for e in walk(node.elements):
            if isinstance(e, Read):
                found = _neighbour(e, node)
                if found is not e:
                    wrapped[e] = found
        if not wrapped:
            return node
        arrays = {_array(e) for e in wrapped}
        axes = tuple(Index(k) for k in range(len(node.shape)))

        def periodic(e: Expr) -> Expr:
            if e in wrapped:
                return wrapped[e]
            # The element itself is one of the neighbourhood.
            if isinstance(e, Read) and e.args == axes and e.boundary is None:
                inside = e.node.outputs[e.component].shape == node.shape
                if inside and _array(e) in arrays:
                    return Read(e.node, e.component, axes, "wrap")
            return e

        elements = rewrite(node.elements, periodic)
        made: Node = node.with_(elements=elements)
        if node in context.kept:
            context.kept[made] = context.kept[node]
        return made

    return rewrite_graph(roots, change)


def _array(read: Any) -> tuple[Node, int]:
    return read.node, read.component


def _neighbour(read: Read, node: Generate) -> Expr:
    """The read with a boundary, if all its places are neighbours and one of them wraps."""
    extents = read.node.outputs[read.component].shape
    if read.boundary is not None or len(extents) != len(node.shape):
        return read
    places: list[Expr] = []
    for k, (place, n) in enumerate(zip(read.args, extents, strict=True)):
        wraps = isinstance(place, Apply) and place.op.name == "remainder"
        off = _offset(place, Index(k), n)
        # Without a remainder only a place that is in range for certain is left as it is.
        if off is None or abs(off) > FARTHEST or not (wraps or (off == 0 and node.shape[k] is n)):
            return read
        places.append(apply_primitive("add", [Index(k), constant(off)]) if off else Index(k))
    if tuple(places) == read.args:
        return read
    return Read(read.node, read.component, tuple(places), "wrap")


def _offset(e: Expr, index: Expr, n: Expr) -> int | None:
    """The c of an expression that is index + c modulo n."""
    if e is index:
        return 0
    if not isinstance(e, Apply) or len(e.args) != 2:
        return None
    x, y = e.args
    if e.op.name == "remainder":
        return _offset(x, index, n) if y is n else None
    if e.op.name == "add" and isinstance(x, Const):
        x, y = y, x
    if e.op.name not in ("add", "subtract") or not isinstance(y, Const):
        return None
    found = _offset(x, index, n)
    if found is None:
        return None
    return found + int(y.value) if e.op.name == "add" else found - int(y.value)
