"""Reorders the axes of a CPU fold so that it visits elements in the memory order of its operands.

    sum over i, k of a[i, j, k], of which k, i, j have ever smaller strides
        →   sum over k, i of v[k, i, j]         with a view v of the same memory, dense in rows

1.  An array that is dense in another order of its axes is read as a view with its axes in order. 2.
Axes are visited in the order preferred by most reads: the outer axes among themselves, and the
   folded axes among themselves.
3.  Outer axes that are adjacent in every read are merged into one.

All other code for folds therefore handles only dense arrays, and short axes become part of long
rows.  Results are stored at their proper positions (`Visited.place`).  The order of elements in a
sum of floats may depend on the layout of an argument, but on nothing else; other folds have the
same bits in every order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from treadle.dsl.analysis.combines import argument_of, is_commutative
from treadle.dsl.expr import Expr, Index, Read, Var, rewrite, substitute, walk
from treadle.dsl.graph import Fold, Input, Leaf
from treadle.dsl.records import dataclass
from treadle.dsl.types import int64

from ...ir import arithmetic as at
from ..build import Builder, LoweringContext
from .rows import Place, is_exact, is_pinned


@dataclass(frozen=True)
class Visited:
    """A fold in memory order.  `groups`: for each outer axis, the outer axes of the fold as written
    that it consists of."""

    node: Fold
    context: LoweringContext
    groups: tuple[tuple[int, ...], ...]

    def place(self, builder: Builder, written: Fold) -> Place | None:
        """The position at which a result is stored, from its coordinates; None if axes are in
        order."""
        if [k for group in self.groups for k in group] == list(range(len(written.outer))):
            return None
        extents = builder.shape(written.outer)

        def place(coordinates: Sequence[Expr]) -> Expr:
            found: dict[int, Expr] = {}
            for group, index in zip(self.groups, coordinates, strict=True):
                sizes = tuple(extents[k] for k in group)
                parts = at.row_major(index, sizes) if len(group) > 1 else (index,)
                found.update(zip(group, parts, strict=True))
            return at.linear([found[k] for k in range(len(extents))], extents)

        return place


def visited(node: Fold, context: LoweringContext) -> Visited:
    """The fold in memory order, as far as its order is free."""
    groups: tuple[tuple[int, ...], ...] = tuple((k,) for k in range(len(node.outer)))
    unchanged = Visited(node, context, groups)
    scheduled = context.schedule is not None or node.label.schedule is not None
    if scheduled or context.check or context.across is not None or is_pinned(node):
        return unchanged
    if any(isinstance(e, Read) and e.boundary is not None for e in walk(_roots(node))):
        return unchanged
    node, context = _as_views(node, context)
    if context.views or is_exact(node.combine):
        node, groups = _in_order(node)
    return _merged(Visited(node, context, groups))


def _roots(node: Fold) -> tuple[Expr, ...]:
    return (*node.elements, *node.epilogue, *(node.init or ()))


def _with_roots(node: Fold, roots: Sequence[Expr], **changes: object) -> Fold:
    elements, epilogue = len(node.elements), len(node.epilogue)
    return node.with_(
        elements=tuple(roots[:elements]), epilogue=tuple(roots[elements : elements + epilogue]),
        init=None if node.init is None else tuple(roots[elements + epilogue :]), **changes,
    )  # fmt: skip


def _view(leaf: Leaf, shape: Sequence[Expr], context: LoweringContext
          ) -> tuple[Leaf, LoweringContext]:  # fmt: skip
    """An array's memory as a dense array of another shape."""
    made = Input("view", leaf.type, (False,) * len(shape)).of_shape(tuple(shape))
    of = context.views.get(leaf, leaf)
    return made.leaf(), replace(
        context, views={**context.views, made.leaf(): of}, strided=context.strided - {leaf},
        steps=frozenset(s for s in context.steps if s[0] != leaf),
    )  # fmt: skip


def _as_views(node: Fold, context: LoweringContext) -> tuple[Fold, LoweringContext]:
    """The fold over views of arrays that are dense in another order of their axes."""
    views: dict[Leaf, tuple[Leaf, tuple[int, ...]]] = {}
    read = {Leaf(e.node, e.component) for e in walk(_roots(node)) if isinstance(e, Read)}
    for leaf, _, _, order in sorted(context.steps, key=lambda s: s[0].node.uid):
        if order and leaf in read:
            made, context = _view(leaf, [leaf.shape[k] for k in order], context)
            views[leaf] = made, order

    def change(e: Expr) -> Expr:
        found = views.get(Leaf(e.node, e.component)) if isinstance(e, Read) else None
        return e if found is None else found[0].at(*(e.args[k] for k in found[1]))

    return (_with_roots(node, rewrite(_roots(node), change)), context) if views else (node, context)


def _in_order(node: Fold) -> tuple[Fold, tuple[tuple[int, ...], ...]]:
    """The fold with its axes in the order preferred by most reads."""
    outer, inner = len(node.outer), len(node.inner)
    votes: Counter[tuple[int, ...]] = Counter()
    for e in walk(node.elements):
        if isinstance(e, Read):
            axes = tuple(a.axis for a in e.args if isinstance(a, Index))
            if len(set(axes)) == len(axes):
                votes[axes] += 1
    best = max(votes, key=lambda axes: (len(axes), votes[axes]), default=())
    wanted = list(range(outer + inner))
    free = is_commutative(node.combine) and argument_of(node.combine) is None
    for first, last in ((0, outer), (outer, outer + inner if free else outer)):
        own = [a for a in best if first <= a < last]
        for place, axis in zip(sorted(own), own, strict=True):
            wanted[place] = axis
    groups = tuple((k,) for k in wanted[:outer])
    if wanted == sorted(wanted):
        return node, groups
    moved: dict[Expr, Expr] = {Index(axis): Index(place) for place, axis in enumerate(wanted)}
    domain = (*node.outer, *node.inner)
    shape = tuple(domain[k] for k in wanted)
    roots = substitute(_roots(node), moved)
    return _with_roots(node, roots, outer=shape[:outer], inner=shape[outer:]), groups


def _merged(made: Visited) -> Visited:
    """The fold with outer axes merged where every read has them adjacent."""
    axis = 0
    while axis + 1 < len(made.groups):
        found = _merged_at(made, axis)
        if found is None:
            axis += 1
        else:
            made = found
    return made


def _merged_at(made: Visited, axis: int) -> Visited | None:
    """The fold with an outer axis and the next one merged, or None."""
    node, context, groups = made.node, made.context, made.groups
    pair, roots = (Index(axis), Index(axis + 1)), _roots(node)
    places: dict[Leaf, set[int | None]] = {}
    for e in walk(roots):
        if isinstance(e, Read):
            at_pair = (k for k in range(len(e.args) - 1) if e.args[k : k + 2] == pair)
            places.setdefault(Leaf(e.node, e.component), set()).add(next(at_pair, None))
    position = Var("position", int64)
    views: dict[Leaf, tuple[Leaf, int]] = {}
    for leaf, found in places.items():
        if found == {None}:
            continue
        (place, *others) = found
        if others or place is None or leaf in context.strided:
            return None
        if leaf.shape[place + 1] is not node.outer[axis + 1]:
            return None
        joined = at.product(leaf.shape[place : place + 2])
        shape = (*leaf.shape[:place], joined, *leaf.shape[place + 2 :])
        view, context = _view(leaf, shape, context)
        views[leaf] = view, place

    def change(e: Expr) -> Expr:
        known = views.get(Leaf(e.node, e.component)) if isinstance(e, Read) else None
        if known is None:
            return e
        view, place = known
        return view.at(*e.args[:place], position, *e.args[place + 2 :])

    changed = rewrite(roots, change)
    if not views or any(e in pair for e in walk(changed)):
        return None
    rank = len(node.outer) + len(node.inner)
    moved: dict[Expr, Expr] = {Index(k): Index(k - 1) for k in range(axis + 2, rank)}
    changed = substitute(changed, {**moved, position: Index(axis)})
    extent = at.product(node.outer[axis : axis + 2])
    node = _with_roots(node, changed, outer=(*node.outer[:axis], extent, *node.outer[axis + 2 :]))
    joined_groups = (*groups[:axis], groups[axis] + groups[axis + 1], *groups[axis + 2 :])
    return Visited(node, context, joined_groups)
