"""unroll_columns: an update by a sum of columns becomes an update per column.

    t[i[p], j] += where(j == 0, x[p], 0) + where(j == 2, y[p], 0)   for every j
        →   t[i[p], 0] += x[p], t[i[p], 2] += y[p]                  for each source p

The gradient with respect to a table that is read as `rows = t[i]` and then by column, `rows[:, 0]`,
has this form.  The sum, every element of which would choose among the columns, is then neither
computed nor stored.  As in `fuse_updates`, the permute has an axis of constant extent along which a
`cond` chooses.  The target must be zeros, which adding 0 does not change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from ..analysis.combines import ways
from ..analysis.regions import regions
from ..expr import Apply, Cond, Const, Expr, Index, Proj, Read, constant, walk
from ..graph import Generate, Leaf, Node, Permute, is_identity_read, known, topological
from ..graphs.rebuild import Rebuilder
from ..scalar import apply_primitive
from .base import Context
from .short_axes import is_free
from .updates import COLUMNS, along
from .vertical import checked_by_data


def unroll_columns(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    """The graph with such updates by column; checked programs keep them."""
    order = list(topological(roots))
    if context.settings.check or not context.target.cores:
        return list(roots)
    if not any(isinstance(n, Permute) for n in order):
        return list(roots)
    readers = Counter(
        n for node in order for n in {x.node for x in (*node.inputs(), *node.inside())}
    )
    readers.update(leaf.node for leaf in roots)
    builder, region = Rebuilder(), regions(roots)
    for node in order:
        found = None
        if isinstance(node, Permute) and (of := _joined(node)) is not None:
            if readers[of] == 1 and region.get(of) == region.get(node):
                found = _by_column(node, of)
        builder.replace(node, builder.node(found or node), context.kept)
    return [builder.leaf(r) for r in roots]


def _joined(node: Permute) -> Generate | None:
    """The array of values of a permute that adds to zeros."""
    rank = len(node.domain)
    if rank < 2 or type(node) is not Permute or len(node.values) != 1 or not is_free(node):
        return None
    if known(node.domain[-1]) is not None:  # short ones are unrolled as they are
        return None
    (value,), start = node.values, node.defaults[0].node
    if node.combine is None or ways(node.combine) != ["add"] or not _zeros(start):
        return None
    of = value.node if isinstance(value, Read) and is_identity_read(value, rank) else None
    last, along_columns = Index(rank - 1), node.domain[-1]
    if type(of) is not Generate or not is_free(of) or checked_by_data(of):
        return None
    # (A column that the target does not have is ignored.)
    places = [n for t, n in zip(node.target, start.outputs[0].shape, strict=True) if t is last]
    others = walk((node.valid, *(t for t in node.target if t is not last)))
    return of if places == [along_columns] and last not in others else None


def _zeros(node: Node) -> bool:
    """Whether all elements of an array are +0."""
    elements = node.elements if isinstance(node, Generate) else ()
    return bool(elements) and all(
        isinstance(e, Const) and not e.value
        and not np.signbit(np.array([e.value], complex).view(float)).any()
        for e in elements
    )  # fmt: skip


def _by_column(node: Permute, of: Generate) -> Permute | None:
    last = Index(len(node.domain) - 1)
    columns = _columns(of.elements[0], last)
    if columns is None or not 2 <= len(columns) <= COLUMNS or min(columns) < 0:
        return None
    places = sorted(columns)
    column = along(last, [constant(c) for c in places])
    return node.with_(
        domain=(*node.domain[:-1], constant(len(places))),
        target=tuple(column if t is last else t for t in node.target),
        values=(along(last, [columns[c] for c in places]),),
        checks=tuple(dict.fromkeys((*of.checks, *node.checks))),
        fused=(*node.fused, (of.label, of.where), *of.fused),
    )


def _columns(e: Expr, last: Index) -> dict[int, Expr] | None:
    """The elements by column, for an element that is 0 in all other columns; else None."""
    if isinstance(e, Const) and not e.value:
        return {}
    if isinstance(e, Apply) and e.op.name == "add":
        left, right = (_columns(a, last) for a in e.args)
        if left is None or right is None:
            return None
        both = {c: apply_primitive("add", [left[c], right[c]]) for c in left if c in right}
        return left | right | both
    found = _column(e, last)
    return None if found is None else dict([found])


def _column(e: Expr, last: Index) -> tuple[int, Expr] | None:
    """The column and the element, for an element that is 0 in all other columns."""
    if isinstance(e, Apply) and e.op.name == "select":
        test, value, other = e.args
    elif isinstance(e, Proj) and isinstance(e.args[0], Cond):
        cond = e.args[0]
        test, value, other = cond.args[0], cond.then[e.which], cond.other[e.which]
    else:
        return None
    compares = isinstance(test, Apply) and test.op.name == "equal" and test.args[0] is last
    if not (compares and isinstance(other, Const) and not other.value):
        return None
    place = test.args[1]
    if not isinstance(place, Const) or last in walk((value,)):
        return None
    return int(place.value), value
