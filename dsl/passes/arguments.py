"""single_pass_arguments: argmin, argmax, and extremes with their indices read an array once.

    m = fold(max, x);  fold(min, where(x == m, i, ∞))   →   fold(best of (value, index), (x, i))
    m = fold(max, x);  fold(best of (value, index), (x, i))   →   the second, whose value m is

A GPU folds the pairs; a CPU makes two passes over each block while the block is in cache.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis.combines import argument_combine, argument_of, ways
from ..analysis.regions import nests
from ..expr import Apply, Read, walk
from ..graph import Fold, Leaf, Node, result_variables, topological
from ..graphs.rebuild import Rebuilder, rewrite_graph
from .base import Context

#: Of booleans, the extremes are `all` and `any`.
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
    """Extremes that are also folded with their index, as for a gradient, become its results."""
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


def _extreme(node: Fold, better: str | None) -> object:
    """What a fold that stores the extreme of its first component has in common with others."""
    if better is None or node.epilogue != node.results:
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
