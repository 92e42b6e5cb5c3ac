"""cross_folds: a fold along the rows of an array and one across them, in one traversal.

    r = Σ_j f(a[i, j]);  c = Σ_i g(a[i, j], r[i])   →   one kernel: a row is folded, then added to
                                                        the columns while it is in the cache

The second fold may read the first one's result for a row (`(a @ x) @ a`, the gradient `(a @ x - y)
@ a` of a sum of squares), or not depend on it (`r @ a` and `a @ p`).  CPU only: the backend decides
for the extents of a call whether to make one traversal or two, with the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis.combines import argument_of, is_commutative
from ..analysis.regions import innermost, nests, regions
from ..expr import Expr, Foreign, Index, Read, Var, rewrite, substitute, walk
from ..graph import CrossedFolds, Fold, Generate, Leaf, Node, indices, topological
from .base import Context
from .short_folds import short_folds
from .stored_folds import as_one, is_convex
from .vertical import checked_by_data


def cross_folds(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    """Merge pairs of folds, with the nodes between them, one pair after the other."""
    found = list(roots)
    if not context.target.cores or context.settings.check or context.in_parts:
        return found
    while (group := _group(found, context)) is not None:
        nodes, made = group
        results = [leaf for node in nodes for leaf in node.leaves]
        found = as_one(found, nodes, made, results, context)
    return found


def _group(roots: Sequence[Leaf], context: Context) -> tuple[list[Node], CrossedFolds] | None:
    """The first nodes that can be merged, in the order of the components, and the merged node."""
    folds = [n for n in topological(roots) if isinstance(n, Fold) and _may_cross(n)]
    pairs = [(a, b) for b in folds for a in folds if a is not b and _share(a, b)]
    if not pairs:
        return None
    changing, nest = innermost(roots, regions(roots)), nests(roots)
    taken = short_folds(roots, context.settings).reader
    for along, across in pairs:
        arrays = _between(along, across)
        nodes = [along, *arrays, across]
        if along in taken or across in taken or not is_convex(nodes):
            continue
        if len({(changing[n], nest[n]) for n in nodes}) > 1:
            continue
        made = _together(_extended(along, arrays), across, nodes)
        if made is not None:
            return nodes, made
    return None


def _may_cross(node: Fold) -> bool:
    label = node.label
    return (
        len(node.inner) == 1
        and bool(node.outer)
        and label.schedule is None
        and not (label.ordered or label.deterministic)
        and argument_of(node.combine) is None
        and is_commutative(node.combine)
        and not checked_by_data(node)
        and not any(isinstance(e, Foreign) for e in walk((*node.elements, *node.epilogue)))
    )


def _share(along: Fold, across: Fold) -> bool:
    """Whether one fold reads an array along its rows and the other across them, and neither reads
    another array with both axes, which would decide how each is computed alone."""
    row = len(along.outer) - 1
    if (*across.outer, *across.inner) != (*along.outer[:-1], *along.inner, along.outer[-1]):
        return False
    first = _read_at(along, indices(row + 2))
    second = _read_at(across, (*indices(row), Index(row + 1), Index(row)))
    return first is not None and second is not None and not first.isdisjoint(second)


def _read_at(node: Fold, at: tuple[Expr, ...]) -> set[Leaf] | None:
    """The arrays that a fold reads at these indices; None if others use the last two indices."""
    found, both = set[Leaf](), set(at[-2:])
    for e in walk(node.elements):
        if isinstance(e, Read) and both <= set(walk(e.args)):
            if e.boundary is not None or e.args != at:
                return None
            found.add(Leaf(e.node, e.component))
    return found


def _between(along: Fold, across: Fold) -> list[Generate]:
    """The arrays computed from single results of the first fold that the second fold reads."""
    own = indices(len(along.outer))
    found: dict[Generate, None] = {}
    for e in walk(across.elements):
        if isinstance(e, Read) and isinstance(e.node, Generate) and e.node.shape == along.outer:
            node = e.node
            reads = [x for x in walk(node.elements) if isinstance(x, Read) and x.node is along]
            plain = all(x.args == own and x.boundary is None for x in reads)
            free = node.label.schedule is None and not checked_by_data(node)
            foreign = any(isinstance(x, Foreign) for x in walk(node.elements))
            if reads and plain and free and not foreign:
                found[node] = None
    return list(found)


def _extended(along: Fold, arrays: Sequence[Generate]) -> Fold:
    def value(e: Expr) -> Expr:
        return along.epilogue[e.component] if isinstance(e, Read) and e.node is along else e

    more = rewrite([e for node in arrays for e in node.elements], value)
    return along.with_(epilogue=(*along.epilogue, *more))


def _together(along: Fold, across: Fold, nodes: Sequence[Node]) -> CrossedFolds | None:
    """The merged node, where the first fold has all components of the other `nodes`; None if the
    second fold needs other elements of them than those for its row."""
    row, column = len(along.outer) - 1, len(along.outer)
    components = [leaf for node in nodes if node is not across for leaf in node.leaves]
    at_row = (*indices(row), Index(column))

    def is_result(e: Expr) -> bool:
        return isinstance(e, Read) and Leaf(e.node, e.component) in components

    results = [e for e in walk(across.elements) if is_result(e)]
    late = (*across.epilogue, *(across.init or ()), *across.host_expressions())
    if any(is_result(e) for e in walk(late)):
        return None
    if any(isinstance(e, Read) and (e.args != at_row or e.boundary is not None) for e in results):
        return None
    names = tuple(Var(f"row{k}", e.type) for k, e in enumerate(along.epilogue)) if results else ()

    def value(e: Expr) -> Expr:
        if not (isinstance(e, Read) and is_result(e)):
            return e
        return names[components.index(Leaf(e.node, e.component))]

    turned: dict[Expr, Expr] = {Index(row): Index(column), Index(column): Index(row)}
    return CrossedFolds(
        along.outer, along.inner, along.elements, along.combine, along.init, along.results,
        along.epilogue, names, substitute(rewrite(across.elements, value), turned), across.combine,
        across.init, across.results, across.epilogue, label=along.label, where=along.where,
        checks=tuple(dict.fromkeys(c for n in nodes for c in n.checks)),
        fused=(*along.fused, *(f for n in nodes[1:] for f in ((n.label, n.where), *n.fused))),
    )  # fmt: skip
