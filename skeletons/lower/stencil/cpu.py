"""Stencils on a CPU: short last axes, and complete rows.

Columns and channels become one axis where the last one is short:

    a[i, j + c, k] over n × m × 3   →   a[(i·m·3) + p + 3·c],  p = 3·j + k

No offset touches the last axis, so neighbours in memory are neighbours of p: what is a vector of
three elements for every column is a row of 3·m, as it is for an image of one channel.
"""

from __future__ import annotations

from collections.abc import Sequence

from treadle.dsl import expr as ex
from treadle.dsl.analysis.polynomial import Polynomial, affine_forms
from treadle.dsl.expr import Expr
from treadle.dsl.graph import Leaf, Shape
from treadle.dsl.records import dataclass

from ...ir import arithmetic as at
from ...ir.kernel import Load
from ..build import Builder
from ..transform import Interior


def merge(roots: Sequence[Expr], domain: Shape, builder: Builder, position: ex.Var
          ) -> tuple[Expr, ...] | None:  # fmt: skip
    """`roots`, whose boundaries are resolved, over the position in the last two axes.

    None where these are used for anything but reading arrays of the same two last extents, at the
    very index of the last.
    """
    column, channel = ex.Index(len(domain) - 2), ex.Index(len(domain) - 1)
    forms = affine_forms(roots)
    found: dict[Expr, Expr] = {}
    for e in ex.walk(roots):
        if not isinstance(e, ex.Read) or not any(x in (column, channel) for x in ex.walk(e.args)):
            continue
        leaf = Leaf(e.node, e.component)
        shape = leaf.shape
        if (
            e.boundary is not None
            or len(shape) < 2
            or e.args[-1] is not channel
            or leaf in builder.context.strided
            or any(not builder.same(a, b) for a, b in zip(shape[-2:], domain[-2:], strict=True))
            or any(x in (column, channel) for x in ex.walk(e.args[:-2]))
        ):
            return None
        along = forms[e.args[-2]]
        if along is None or along.nonconstant != Polynomial.atom(column):
            return None
        extents = builder.shape(shape)
        rows = at.linear(e.args[:-2], extents[:-2]) * at.product(extents[-2:])
        offset = extents[-1] * along.constant
        found[e] = Load(builder.input(leaf), rows + position + offset)
    made = ex.rewrite(roots, lambda e: e, found)
    return None if any(e in (column, channel) for e in ex.walk(made)) else made


def is_short(builder: Builder, extent: Expr, most: int) -> bool:
    """Whether an extent is known to be more than one and at most so many."""
    known = builder.root(extent)
    return isinstance(known, ex.Const) and 1 < int(known.value) <= most


# --- Complete rows of a stencil at once: handles reads beyond the ends of a row -------------------
#     row 3:   | a30 a31 … a3n | a40 …        the left neighbour of a40 is a3n in memory
#
# If a row has a predecessor and a successor, reads beyond its ends stay inside the array.  The
# values read there are wrong and are replaced by those that the boundary specifies.  Vectors
# therefore need not stop at the border, and rows of complete cache lines are stored in complete
# cache lines.

#: Maximum number of elements at the ends of a row whose reads are patched.
MOST_ENDS = 4


@dataclass(frozen=True)
class Overrun:
    """Rows `low ≤ i < high` of the axis before the last, in whose first `left` and last `right`
    columns plain reads find what they should not: `reads`, with their distance along the row."""

    low: Expr
    high: Expr
    left: int
    right: int
    reads: tuple[tuple[ex.Read, int], ...] = ()


def overrun(roots: Sequence[Expr], domain: Shape, builder: Builder, box: Interior
            ) -> Overrun | None:  # fmt: skip
    """The rows of the interior whose reads may run over their ends.

    None if a read could then lie outside its array, or if something must not be computed for
    elements that do not exist.  Arrays have the rows of the domain and are read at
    a[…, i + r, j + c]; beyond an end is a neighbour of row i + r, if that is neither the first
    (c < 0) nor the last (c > 0).
    """
    if box.positions:  # resolved positions are plain reads, too, which may be anywhere
        return None
    rank = len(domain)
    row, column = ex.Index(rank - 2), ex.Index(rank - 1)
    forms = affine_forms(roots)
    first = last = left = right = 0
    reads: dict[ex.Read, int] = {}
    for e in ex.walk(roots):
        if isinstance(e, ex.Apply | ex.Const | ex.Index | ex.Param | ex.Extent):
            continue
        if not isinstance(e, ex.Read) or any(
            isinstance(x, ex.Read) and x.args for x in ex.walk((*e.args, *e.scoped))
        ):
            return None
        if e.boundary is None:
            continue
        leaf, axes = Leaf(e.node, e.component), box.axes.get(e, {})
        shape = leaf.shape
        if len(shape) < 2 or leaf in builder.context.strided or not all(
                axes.get(len(shape) - k) == rank - k and builder.same(shape[-k], domain[-k])
                for k in (1, 2)):  # fmt: skip
            return None
        safe = {*axes, *builder.inside.get(e, ())}
        if not all(k in safe or _own(e.args[k], shape[k], domain, builder)
                   for k in range(len(shape) - 2)):  # fmt: skip
            return None  # these axes would have to be resolved, too
        down, along = forms[e.args[-2]], forms[e.args[-1]]
        if down is None or along is None or (down.nonconstant, along.nonconstant) != (
                Polynomial.atom(row), Polynomial.atom(column)):  # fmt: skip
            return None
        if along.constant:
            reads[e] = along.constant
        if along.constant < 0:
            left, first = max(left, -along.constant), max(first, 1 - down.constant)
        elif along.constant > 0:
            right, last = max(right, along.constant), max(last, 1 + down.constant)
    if not 0 < left + right <= MOST_ENDS:
        return None
    height, width = builder.shape(domain[-2:])
    high = at.minimum(box.high[-2], height - last)
    wide = at.less_equal(left + right, width)
    found = tuple(reads.items())
    return Overrun(at.maximum(box.low[-2], first), at.select(wide, high, 0), left, right, found)


def _own(index: Expr, extent: Expr, domain: Shape, builder: Builder) -> bool:
    """Whether `index` is in range: the first, or that of the result on an axis of this extent."""
    if isinstance(index, ex.Index):
        return index.axis < len(domain) and builder.same(domain[index.axis], extent)
    return index == ex.constant(0)
