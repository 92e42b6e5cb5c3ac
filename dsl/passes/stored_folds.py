"""store_in_folds: an array and a sum of it, or of its operands, in one kernel.

    g = f(x);  s = Σ h(g)       →   one pass that computes g, stores it and sums
    g = f(x);  s = Σ h(x)       →   one pass that reads x, stores g and sums

The second form requires a full sum.  Gradients consist of such pairs: the sum of squares and twice
the numbers, or a cotangent that products read and its sum over the rows.  Arrays must be whole in
one memory; reads must be of the element's own index, along rows, and as wide as those of the sum
alone.  On a CPU only vectors are merged: it reads matrices in memory order for a sum, and in tiles
for an array.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..analysis.combines import ways
from ..expr import Expr, Foreign, Index, Read, Var, rewrite, substitute, walk
from ..graph import Fold, Generate, Leaf, Node, StoringFold, indices, topological
from ..graphs.rebuild import Rebuilder
from .base import Context
from .rows import row_axes
from .vertical import checked_by_data


def store_in_folds(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    """Merge pairs of a `Generate` and a `Fold` outside of loops, one after the other."""
    found = list(roots)
    gpu = context.target.gpu
    if not (gpu or context.target.cores) or context.settings.check or context.in_parts:
        return found
    while (pair := _pair(found, gpu)) is not None:
        found = merged(found, *pair, context)
    return found


def _pair(roots: Sequence[Leaf], columns: bool) -> tuple[Generate, Fold, StoringFold] | None:
    """The first array and sum that can be merged, and the merged node: for vectors, or (`columns`)
    for full sums and sums of columns of any rank."""
    order, outside = list(topological(roots)), set(topological(roots, inside=False))
    nodes = [n for n in order if n in outside]
    arrays = [n for n in nodes if _is_stored(n)]
    folds = [n for n in nodes if _is_sum(n, columns)] if arrays else []
    for fold in folds:
        assert isinstance(fold, Fold)
        used = needed(roots, order, fold)
        for array in arrays:
            assert isinstance(array, Generate)
            stored = [k for k, leaf in enumerate(array.leaves) if leaf in used]
            made = _together(array, fold, stored) if stored else None
            if made is not None and not between(array, fold):
                return array, fold, made
    return None


def _is_stored(node: Node) -> bool:
    return (
        type(node) is Generate
        and node.label.schedule is None
        and not checked_by_data(node)
        and bool(node.shape)
        and row_axes(node.elements, node.shape) is None
        and _is_plain(node.elements, len(node.shape) - 1)
    )


def _is_sum(node: Node, columns: bool) -> bool:
    return (
        isinstance(node, Fold)
        and (columns or (not node.outer and len(node.inner) == 1))
        and node.label.schedule is None
        and not node.label.deterministic
        and not checked_by_data(node)
        and bool(node.inner)
        and set(ways(node.combine)) == {"add"}
        and all(r.type.is_inexact for r in node.combine.results)
        and _is_plain(node.elements, len(node.outer or node.inner) - 1)
    )


def _is_plain(elements: Sequence[Expr], last: int) -> bool:
    """Whether elements are operations on reads at their own index, or at a part of it, with only
    the last index along axis `last`."""
    for e in walk(elements):
        if e.vars or isinstance(e, Foreign):
            return False
        if not isinstance(e, Read):
            continue
        axes = [a.axis for a in e.args if isinstance(a, Index)]
        others = walk(a for a in e.args if not isinstance(a, Index))
        if e.boundary is not None or any(isinstance(x, Index) for x in others):
            return False
        if len(set(axes)) < len(axes) or (last in axes and e.args[-1] is not Index(last)):
            return False
    return True


def _together(array: Generate, fold: Fold, stored: Sequence[int]) -> StoringFold | None:
    """The merged node; None if the domains differ or nothing is shared."""
    domain = fold.iteration_space()
    reads = [e for e in walk(fold.elements) if isinstance(e, Read) and e.node is array]
    if any(isinstance(e, Read) and e.node is array for e in walk(fold.epilogue)):
        return None
    order = tuple(range(len(domain)))
    if reads:
        at = {e.args for e in reads}
        axes = [a.axis for a in reads[0].args if isinstance(a, Index)]
        if len(at) > 1 or sorted(axes) != list(order):
            return None
        order = tuple(axes)
    elif fold.outer or not _shared(array, fold):
        return None
    last = len(fold.outer or fold.inner) - 1
    if order[-1] != last or tuple(domain[k] for k in order) != array.shape:
        return None
    if not fold.outer and order != tuple(sorted(order)):
        return None
    moved: dict[Expr, Expr] = {Index(k): Index(a) for k, a in enumerate(order)}
    values = list(substitute(array.elements, moved))
    kept = tuple(values[k] for k in stored)
    names = tuple(Var(f"kept{k}", e.type) for k, e in enumerate(kept)) if reads else ()
    for k, name in zip(stored, names, strict=False):
        values[k] = name

    def value(e: Expr) -> Expr:
        return values[e.component] if isinstance(e, Read) and e.node is array else e

    return StoringFold(
        fold.outer, fold.inner, rewrite(fold.elements, value), fold.combine, fold.init, kept, names,
        order, fold.results, fold.epilogue, label=fold.label, where=fold.where,
        checks=tuple(dict.fromkeys((*array.checks, *fold.checks))),
        fused=(*fold.fused, (array.label, array.where), *array.fused),
    )  # fmt: skip


def _shared(array: Generate, fold: Fold) -> bool:
    """Whether both read the same element of an array with the extents of their domain."""
    own = indices(len(array.shape))
    found = ({e for e in walk(es) if isinstance(e, Read) and e.args == own}
             for es in (array.elements, fold.elements))  # fmt: skip
    return bool(set.intersection(*found))


def between(array: Node, fold: Node) -> bool:
    """Whether one depends on the other, apart from elements of the array that the sum reads."""
    before = {n for leaf in _used(fold) if leaf.node is not array for n in topological((leaf,))}
    return array in before or fold in set(topological(array.leaves))


def is_convex(nodes: Sequence[Node]) -> bool:
    """Whether no node depends on a later one, or on any of them through nodes outside the list."""
    before: set[Leaf] = set()
    for k, node in enumerate(nodes):
        used = set(_used(node))
        if any(leaf.node in nodes[k:] for leaf in used):
            return False
        before |= {leaf for leaf in used if leaf.node not in nodes}
    return set(topological(tuple(before))).isdisjoint(nodes)


def needed(roots: Sequence[Leaf], order: Sequence[Node], fold: Node) -> set[Leaf]:
    """The results of the program, and the leaves used by nodes other than the fold."""
    return {*roots, *(leaf for n in order if n is not fold for leaf in _used(n))}


def _used(node: Node) -> Iterator[Leaf]:
    yield from node.inputs()
    yield from node.inside()


def merged(roots: Sequence[Leaf], array: Node, fold: Fold | StoringFold, made: Node,
           context: Context) -> list[Leaf]:  # fmt: skip
    """The graph with both nodes merged: the results of the fold, and whatever else is needed."""
    kept = needed(roots, list(topological(roots)), fold)
    results = [*fold.leaves, *(leaf for leaf in array.leaves if leaf in kept)]
    return as_one(roots, (array, fold), made, results, context)


def as_one(roots: Sequence[Leaf], nodes: Sequence[Node], made: Node, results: Sequence[Leaf],
           context: Context) -> list[Leaf]:  # fmt: skip
    """The graph with `nodes` merged into one node, whose components replace `results`, and which
    precedes every reader of any of them."""
    order = list(topological(roots))
    late: set[Node] = set(nodes)
    for node in order:
        if any(leaf.node in late for leaf in _used(node)):
            late.add(node)
    builder = Rebuilder()

    def rebuild(node: Node) -> None:
        builder.replace(node, builder.node(node), context.kept)

    for node in order:
        if node not in late:
            rebuild(node)
    new = builder.node(made)
    builder.leaves.update(zip(results, new.leaves, strict=True))
    for node in order:
        if node in late and node not in nodes:
            rebuild(node)
    return [builder.leaf(r) for r in roots]
