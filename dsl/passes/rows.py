"""Rows of results that share work: a thread computes a whole row, and the shared part once.

The last axes of an array may be short, with constant extents: the 4 × 4 elements of an inverse.
The elements that differ only in their indices along these axes form a *row*.  If they have common
subexpressions that do not depend on those axes (the elimination, of which each element is one
result), a row is computed together:

    inverse[b, i, j] = select(i, j, eliminate(a[b, 0, 0], a[b, 0, 1], …))      a row is a matrix

A producer of such a row is inlined although every element of the row reads it, and a reader that
would not compute whole rows does not inline it (`vertical.py`).  The lowerings unroll the short
axes (`skeletons/lower/elementwise/`), so that the shared part is one expression.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

from ..expr import Apply, Const, Expr, Index, Read, constant, evaluated, substitute, walk
from ..graph import Generate, Node
from .cost import operations

#: The most elements of a row.
LONGEST = 32
#: The least shared work, in additions, that matters; it must also be at least one addition per
#: element of the row.
SHARED = 8.0
#: The most unshared work of a row: its code is copied for each element.
LARGEST = 8000.0

#: Rows of at most this many elements (a constant in the kernel) occupy one vector lane each on a
#: CPU; a lane computes its row from left to right.
NARROW = 8
#: The most work of longer rows, in additions, conditions included.
LITTLE = 1000.0
COMPARISONS = frozenset(("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"))


def most_narrow(elements: Sequence[Expr], rank: int) -> int:
    """The most elements of a narrow row: more than `NARROW` if at least every other element is
    distinguished by a condition on the last index, like the columns that a matrix is joined from,
    and a row of them is little work."""
    last = Index(rank - 1)
    places = {
        e.args[1]
        for e in walk(elements)
        if isinstance(e, Apply) and e.op.name in COMPARISONS and e.args[0] is last
        if isinstance(e.args[1], Const)
    }
    apart = min(2 * len(places), LONGEST, int(LITTLE / max(operations(elements), 1.0)))
    return max(NARROW, apart)


def leading(shape: Sequence[Expr | None]) -> int:
    """The number of axes before the longest row that an array of this shape can have."""
    lead, size = len(shape), 1
    while lead and isinstance(extent := shape[lead - 1], Const):
        size *= max(int(extent.value), 1)
        if size > LONGEST:
            break
        lead -= 1
    return lead


def row_axes(elements: Sequence[Expr], shape: Sequence[Expr]) -> int | None:
    """The number of axes before those of a row, if the elements of rows share work, else None.

    Reads with a boundary do not count as shared by a row: neighbouring rows share them too.
    """
    if not shape or not isinstance(shape[-1], Const):
        return None
    lead = leading(shape)
    sizes = [int(e.value) for e in shape[lead:] if isinstance(e, Const)]
    if prod(sizes) < 2:
        return None
    last: dict[Expr, int] = {}  # the last axis that an expression depends on
    for e in walk(elements):
        if isinstance(e, Read) and e.boundary is not None:
            return None
        if isinstance(e, Index):
            last[e] = e.axis
        else:
            last[e] = max((last[x] for x in (*e.args, *e.scoped)), default=-1)
    total = operations(elements)
    for axes in range(lead, len(shape)):
        size = prod(sizes[axes - lead :])
        shared = operations(_common(elements, last, axes))
        enough = size > 1 and shared >= max(SHARED, size)
        if enough and (total - shared) * size <= LARGEST:
            return axes
    return None


def _common(elements: Sequence[Expr], last: dict[Expr, int], axes: int) -> list[Expr]:
    """The largest expressions, outside loops, that depend only on the first `axes` axes."""
    inside = evaluated(elements, lambda e: last[e] >= axes and not isinstance(e, Read))
    return [e for e in inside if last[e] < axes]


def row_members(elements: Sequence[Expr], shape: Sequence[Expr], axes: int
                ) -> list[tuple[Expr, ...]]:  # fmt: skip
    """`elements` at every index along the axes of a row, from `axes` on, in row-major order."""
    extents = [range(int(e.value)) for e in shape[axes:] if isinstance(e, Const)]
    own = [Index(k) for k in range(axes, len(shape))]
    return [substitute(elements, dict(zip(own, map(constant, at), strict=True)))
            for at in product(*extents)]  # fmt: skip


def reads_rows(reader: Node, read: Read, axes: int, work: float = 0.0) -> bool:
    """Whether `reader` computes rows, each from the row of the array at its own first `axes`
    indices, and whether `work` is worth sharing in them."""
    if not isinstance(reader, Generate) or reader.label.ordered or read.boundary is not None:
        return False
    if not all(a is Index(k) for k, a in enumerate(read.args[:axes])):
        return False
    if not leading(reader.shape) <= axes <= len(reader.shape):
        return False
    size = prod(int(e.value) for e in reader.shape[axes:] if isinstance(e, Const))
    return not work or (size > 1 and work >= max(SHARED, size))
