"""single_pass_arguments: argmin, argmax, and extremes with their indices read an array once.

    m = fold(max, x);  fold(min, where(x == m, i, ∞))   →   fold(best of (value, index), (x, i))
    m = fold(max, x);  fold(best of (value, index), (x, i))   →   only the second, which yields m

On a CPU, join_extremes applies the latter again after producers and consumers have been fused.  A
GPU folds the pairs; a CPU makes two passes over each block while the block is in cache.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis.combines import argument_combine, argument_of, ways
from ..analysis.regions import innermost, nests, regions
from ..expr import Apply, Expr, Read, rewrite, substitute, walk
from ..graph import Fold, Leaf, Node, indices, result_variables, topological
from ..graphs.rebuild import Rebuilder, rewrite_graph
from .base import Context
from .stored_folds import as_one, is_convex

#: The extremes of booleans are `all` and `any`.
_BETTER = {"minimum": "less", "maximum": "greater", "logical_and": "less", "logical_or": "greater"}


def single_pass_arguments(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    """See the module docstring; the reference interprets programs as written."""
    if not context.target.kernels:
        return list(roots)

    def change(node: Node) -> Node:
        made = _single_pass(node)
        if made is None or (context.target.gpu and made.elements[0].type.family == "bool"):
            return node
        context.notes.append(f"{node.label}: the value and its index in one pass")
        return made

    return _with_indices(rewrite_graph(roots, change), context)


def _with_indices(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    """Extremes that are also folded with their index become results of that fold."""
    folds = [node for node in topological(roots) if isinstance(node, Fold)]
    pairs = {_extreme(f, better): f for f in folds if (better := argument_of(f.combine))}
    found = {f: pair for f in folds if (pair := pairs.get(_extreme(f, _better(f)))) and f != pair}
    if not found:
        return list(roots)
    where = nests(roots)
    joined: dict[Node, Fold] = {}
    for f, pair in found.items():
        if where[f] == where[pair] and set(pair.inputs()) <= set(f.inputs()):
            context.notes.append(f"{f.label}: the value and its index in one pass")
            joined[f] = joined[pair] = pair.with_(
                label=f.label, where=f.where, checks=(*f.checks, *pair.checks)
            )
    builder = Rebuilder()
    for node in topological(roots):
        builder.replace(node, builder.node(joined.get(node, node)))
    return [builder.leaf(r) for r in roots]


def join_extremes(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    """On a CPU, merge an extreme and element-wise work on it into the fold for its index."""
    found = list(roots)
    while context.target.cores and (pair := _extreme_and_index(found)) is not None:
        extreme, index = pair
        known: dict[Node, tuple[Expr, ...]] = {
            extreme: substitute(extreme.epilogue, {extreme.results[0]: index.results[0]}),
            index: index.epilogue,
        }

        def result(e: Expr, known: dict[Node, tuple[Expr, ...]] = known) -> Expr:
            return known[e.node][e.component] if isinstance(e, Read) and e.node in known else e

        made = index.with_(
            epilogue=rewrite((*known[index], *known[extreme]), result),
            checks=tuple(dict.fromkeys((*index.checks, *extreme.checks))),
            fused=(*index.fused, (extreme.label, extreme.where), *extreme.fused),
        )
        context.notes.append(f"{extreme.label}: the value and its index in one pass")
        found = as_one(found, (index, extreme), made, (*index.leaves, *extreme.leaves), context)
    return found


def _extreme_and_index(roots: Sequence[Leaf]) -> tuple[Fold, Fold] | None:
    """The first pair of folds, for an extreme and for its index, that can be merged."""
    folds = [n for n in topological(roots) if isinstance(n, Fold) and not n.label.ordered]
    pairs: dict[object, Fold] = {}
    for fold in folds:
        better = argument_of(fold.combine)
        if better is not None and fold.init is None:
            pairs[fold.outer, fold.inner, fold.elements[0], better] = fold
    if not pairs:
        return None
    changing, nest = innermost(roots, regions(roots)), nests(roots)
    for fold in folds:
        index = pairs.get((fold.outer, fold.inner, fold.elements[0], _better(fold)))
        if index is None or fold.init is not None:
            continue
        same = (changing[fold], nest[fold]) == (changing[index], nest[index])
        first, last = (fold, index) if is_convex((fold, index)) else (index, fold)
        if same and is_convex((first, last)) and _reads_at_the_end(last, first):
            return fold, index
    return None


def _reads_at_the_end(node: Fold, other: Node) -> bool:
    """Whether a fold reads another node only in its epilogue, at its own index."""
    reads = {e for e in walk(node.epilogue) if isinstance(e, Read) and e.node is other}
    rest = (*node.elements, *(node.init or ()), *node.host_expressions())
    own = indices(len(node.outer))
    return all(e.args == own and e.boundary is None for e in reads) and not any(
        isinstance(e, Read) and e.node is other for e in walk(rest)
    )


def _extreme(node: Fold, better: str | None) -> object:
    """A key of a fold that stores its first component's extreme; equal keys match."""
    if better is None or node.epilogue[0] is not node.results[0]:
        return node
    init = None if node.init is None else node.init[0]
    return node.outer, node.inner, node.elements[0], better, init


def _better(node: Fold) -> str | None:
    return _BETTER.get(ways(node.combine)[0]) if len(node.elements) == 1 else None


def _single_pass(node: Node) -> Fold | None:
    if not isinstance(node, Fold) or node.label.operation not in ("argmin", "argmax"):
        return None
    element = node.elements[0]
    if len(node.elements) != 1 or not isinstance(element, Apply) or element.op.name != "select":
        return None
    hit, index, _ = element.args
    for e in walk((hit,)):
        extreme = e.node if isinstance(e, Read) else None
        if not isinstance(extreme, Fold) or extreme.label.operation != node.label.operation:
            continue
        better = _better(extreme)
        same = (extreme.outer, extreme.inner) == (node.outer, node.inner)
        if better is None or not same or extreme.epilogue != extreme.results:
            return None
        value = extreme.elements[0]
        results = result_variables((value, index))
        combine = argument_combine(value.type, better)
        return Fold(
            node.outer, node.inner, (value, index), combine, None, results, (results[1],),
            label=node.label, where=node.where, checks=node.checks, fused=node.fused,
        )  # fmt: skip
    return None
