"""recognise_neighbours: turn explicitly resolved indices into reads of a stencil.

    u[(i − 1) mod n, j]              →  u[i − 1, j] with boundary wrap
    u[min(max(i − 1, 0), n − 1), j]  →  u[i − 1, j] with boundary clamp

`td.roll` produces the first form, users write both, and so does fusion where a producer's indices
are data (a stencil over `imap`).  In a stencil, neighbours share reads, only the border resolves
indices, and schedules know the dependences.

The element itself belongs to the neighbourhood of its array.  It is always in range, so `u[i, j]`
next to neighbours takes their boundary, and a kernel reads it once.  This must hold for the final
kernel, so the pass runs after fusion.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis.borders import FARTHEST
from ..expr import Apply, Const, Expr, Index, Read, constant, rewrite, split_constant, walk
from ..graph import Generate, Leaf, Node, Shape
from ..graphs.rebuild import rewrite_graph
from ..operations.stencils import resolve_index
from ..scalar import apply_primitive
from .base import Context


def recognise_neighbours(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    """Give reads of neighbours a boundary, and merge reads of the element with them."""

    def change(node: Node) -> Node:
        if not isinstance(node, Generate) or not node.shape:
            return node
        reads = [e for e in walk(node.elements) if isinstance(e, Read)]
        found: dict[Expr, Expr] = {
            e: read for e in reads
            if len(e.args) == len(node.shape) and (read := neighbour(e, node.shape)) is not e
        }  # fmt: skip
        elements = rewrite(node.elements, lambda e: found.get(e, e)) if found else node.elements
        elements = _one_read_of_the_element(elements, node)
        return node if elements == node.elements else node.with_(elements=elements)

    return rewrite_graph(roots, change, context.kept)


def _one_read_of_the_element(elements: tuple[Expr, ...], node: Generate) -> tuple[Expr, ...]:
    """Replace all reads of `u[i, j]`, with any boundary, by a single one with its neighbours'
    boundary.  A boundary that is a function of the index is not used, as it would be evaluated
    needlessly."""
    axes = tuple(Index(k) for k in range(len(node.shape)))
    own: dict[tuple[Node, int], list[Read]] = {}
    borders: dict[tuple[Node, int], Read] = {}
    for e in walk(elements):
        if not isinstance(e, Read):
            continue
        array = e.node, e.component
        if e.args == axes and e.node.outputs[e.component].shape == node.shape:
            own.setdefault(array, []).append(e)
        elif e.boundary is not None and e.boundary != "function":
            borders.setdefault(array, e)
    joined: dict[Expr, Expr] = {}
    for array, reads in own.items():
        border = borders.get(array)
        if border is None:  # no neighbour has a boundary that can be shared
            one = Read(*array, axes)
        else:
            one = Read(*array, axes, border.boundary, border.scoped, border.vars)
        joined.update((e, one) for e in reads if e is not one)
    return rewrite(elements, lambda e: joined.get(e, e)) if joined else elements


def neighbour(read: Read, domain: Shape, extents: Shape = ()) -> Read:
    """The read with a boundary, if all its indices are neighbours and at least one is resolved.

    An array may have leading axes that are not axes of the domain, at indices that are the same for
    all elements: these are in range, like those of every read without a boundary.  `extents`: those
    of the array, if its indices use other but equal ones.
    """
    extents = extents or read.node.outputs[read.component].shape
    lead = len(extents) - len(domain)
    if read.boundary is not None or lead < 0:
        return read
    boundary: str | None = None
    indices: list[Expr] = list(read.args[:lead])
    if any(isinstance(x, Index) for x in walk(indices)):
        return read
    for k, (index, n) in enumerate(zip(read.args[lead:], extents[lead:], strict=True)):
        fits = domain[k] is n
        if index is Index(k) and fits:  # in range with any boundary
            indices.append(index)
            continue
        kind, off = _resolved(index, Index(k), n, fits)
        if off is None or abs(off) > FARTHEST or boundary not in (None, kind):
            return read
        boundary = kind
        indices.append(apply_primitive("add", [Index(k), constant(off)]) if off else Index(k))
    if boundary is None:
        return read
    return Read(read.node, read.component, tuple(indices), boundary)


def _resolved(source: Expr, index: Index, n: Expr, fits: bool) -> tuple[str, int | None]:
    """The boundary and offset of `source` as a neighbour of `index`; None if it is none.

    `fits`: `index` is below n.
    """
    if not isinstance(source, Apply):
        return "", None
    if source.op.name == "remainder":
        return "wrap", _modulo(source, index, n)
    if source.op.name not in ("minimum", "maximum"):
        return "", None
    off = _clamped(source, index, n, fits)
    if off is not None:
        return "clamp", off
    for off in _offsets(source, index):
        for kind in ("mirror", "symmetric"):
            if resolve_index(kind, apply_primitive("add", [index, constant(off)]), n) is source:
                return kind, off
    return "", None


def _modulo(e: Expr, index: Expr, n: Expr) -> int | None:
    """c, if an expression equals index + c modulo n."""
    if e is index:
        return 0
    if not isinstance(e, Apply) or len(e.args) != 2:
        return None
    if e.op.name == "remainder":
        return _modulo(e.args[0], index, n) if e.args[1] is n else None
    x, step = split_constant(e)
    found = None if x is e else _modulo(x, index, n)
    return None if found is None else found + step


def _clamped(e: Expr, index: Expr, n: Expr, fits: bool) -> int | None:
    """c, if an expression is index + c clamped to 0 … n − 1 at the ends that it may exceed."""
    last = apply_primitive("subtract", [n, constant(1)])
    above = below = False
    while isinstance(e, Apply) and e.op.name in ("minimum", "maximum"):
        x, bound = e.args
        if isinstance(x, Const) or x is last:
            x, bound = bound, x
        if e.op.name == "minimum" and bound is last and not below:
            below = True
        elif e.op.name == "maximum" and bound is constant(0) and not above:
            above = True
        else:
            return None
        e = x
    x, off = split_constant(e)
    if x is not index:
        return None
    needed = (above or (off >= 0)) and (below or (fits and off <= 0))
    return off if needed else None


def _offsets(source: Expr, index: Expr) -> set[int]:
    """The constants added to `index` anywhere in an expression."""
    steps = (split_constant(e) for e in walk((source,)))
    return {off for x, off in steps if x is index}
