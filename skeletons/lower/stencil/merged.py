"""Stencils over short last axes: columns and channels as one axis.

    a[i, j + c, k] over n × m × 3   →   a[(i·m·3) + p + 3·c],  p = 3·j + k

No offset touches the last axis, so neighbours in memory are neighbours of p: what is a vector of
three elements for every column is a row of 3·m, as it is for an image of one channel.
"""

from __future__ import annotations

from collections.abc import Sequence

from treadle.dsl.analysis.polynomial import Polynomial, affine_forms
from treadle.dsl.expr import Const, Expr, Index, Read, Var, rewrite, walk
from treadle.dsl.graph import Leaf, Shape

from ...ir import arithmetic as at
from ...ir.kernel import Load
from ..build import Builder


def merge(roots: Sequence[Expr], domain: Shape, builder: Builder, position: Var
          ) -> tuple[Expr, ...] | None:  # fmt: skip
    """`roots`, whose boundaries are resolved, over the position in the last two axes.

    None where these are used for anything but reading arrays of the same two last extents, at the
    very index of the last.
    """
    column, channel = Index(len(domain) - 2), Index(len(domain) - 1)
    forms = affine_forms(roots)
    found: dict[Expr, Expr] = {}
    for e in walk(roots):
        if not isinstance(e, Read) or not any(x in (column, channel) for x in walk(e.args)):
            continue
        leaf = Leaf(e.node, e.component)
        shape = leaf.shape
        if (
            e.boundary is not None
            or len(shape) < 2
            or e.args[-1] is not channel
            or leaf in builder.context.strided
            or any(not builder.same(a, b) for a, b in zip(shape[-2:], domain[-2:], strict=True))
            or any(x in (column, channel) for x in walk(e.args[:-2]))
        ):
            return None
        along = forms[e.args[-2]]
        if along is None or along.nonconstant != Polynomial.atom(column):
            return None
        extents = builder.shape(shape)
        rows = at.multiply(at.linear(e.args[:-2], extents[:-2]), at.product(extents[-2:]))
        offset = at.multiply(extents[-1], along.constant)
        found[e] = Load(builder.input(leaf), at.add(at.add(rows, position), offset))
    made = rewrite(roots, lambda e: e, found)
    return None if any(e in (column, channel) for e in walk(made)) else made


def is_short(builder: Builder, extent: Expr, most: int) -> bool:
    """Whether an extent is known to be more than one and at most so many."""
    known = builder.root(extent)
    return isinstance(known, Const) and 1 < int(known.value) <= most
