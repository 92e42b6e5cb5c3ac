"""widen_halves: 16-bit floats are combined in float32, and rounded once.

    fold(+, 0, x)               →   cast(fold(+, 0, cast(x, float32)), bfloat16)
    permute(+, bins, at, x)     →   cast(permute(+, cast(bins, float32), at, …), bfloat16)

A sum of 16-bit floats that is rounded at every step stops growing after a few hundred elements, and
where it stops depends on how a backend groups them.  This pass is therefore part of the meaning of
folds, scans and permutes, and runs on every backend.

A component of a combining function is widened if it is computed by arithmetic (`_ARITHMETIC`) from
widened components and anything from other components.  Extremes round nothing and stay as they are.
So does a function that tests or converts its sums: it may mean the rounded number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from .. import graph, simplify
from ..analysis.combines import independent_parts
from ..analysis.updates import is_one_to_one
from ..expr import Apply, Expr, Var, substitute, walk
from ..graph import Leaf, Node
from ..graphs.rebuild import rewrite_graph
from ..primitives import ELEMENTARY
from ..types import ScalarType, float32
from .base import Context

#: Arithmetic that rounds nothing.
_EXACT = frozenset(("select", "minimum", "maximum", "fmin", "fmax", "negative", "absolute"))
#: Functions of floats that are continuous, or select.
_ARITHMETIC = _EXACT.union(
    ELEMENTARY, ("add", "subtract", "multiply", "true_divide", "fma", "power", "hypot")
)


#: The nodes that combine elements.
Combining: TypeAlias = graph.Fold | graph.FoldSeg | graph.Scan | graph.Permute


def widen_halves(roots: Sequence[Leaf], _: Context) -> list[Leaf]:
    """Combine in float32 what folds, scans and permutes combine of 16-bit floats."""
    return rewrite_graph(roots, lambda n: (isinstance(n, Combining) and _rounded(n)) or n)


def _in_float32(node: Combining) -> graph.Combine | None:
    """The combining function with 16-bit components in float32; None if it has none, or if nothing
    is rounded because every target of a permute has one source."""
    if node.combine is None or not any(v.type.is_narrow for v in node.combine.left):
        return None
    if isinstance(node, graph.Permute) and is_one_to_one(node):
        return None
    wide = [k for group, part in independent_parts(node.combine) for k in _summed(group, part)]
    if not wide:
        return None
    return _widened(node.combine, wide)


def _summed(group: Sequence[int], combine: graph.Combine) -> list[int]:
    """The components of an independent part of a function that are to be widened."""
    found = [k for k, r in enumerate(combine.results) if r.type.is_narrow and _rounds(r)]
    sums = {v for side in (combine.left, combine.right) for k, v in enumerate(side) if k in found}
    on: dict[Expr, bool] = {}  # whether an expression depends on summed components
    for e in walk(combine.results):
        below = (*e.args, *e.scoped)
        on[e] = e in sums or any(on[x] for x in below)
        if any(on[x] for x in below) and not _is_arithmetic(e, on):
            return []
    if any(on[r] for k, r in enumerate(combine.results) if k not in found):
        return []
    return [group[k] for k in found]


def _rounds(e: Expr) -> bool:
    """Whether an expression contains arithmetic on 16-bit floats."""
    return any(
        isinstance(x, Apply) and x.type.is_narrow and x.op.name in _ARITHMETIC - _EXACT
        for x in walk((e,))
    )


def _is_arithmetic(e: Expr, on: dict[Expr, bool]) -> bool:
    chooses = isinstance(e, Apply) and e.op.name == "select" and on[e.args[0]]
    return isinstance(e, Apply) and e.type.is_narrow and e.op.name in _ARITHMETIC and not chooses


def _widened(combine: graph.Combine, wide: Sequence[int]) -> graph.Combine:
    left, right = (
        tuple(Var("wide", float32) if k in wide else v for k, v in enumerate(side))
        for side in (combine.left, combine.right)
    )
    made: dict[Expr, Expr] = {}
    for k in wide:
        made[combine.left[k]], made[combine.right[k]] = left[k], right[k]
    for e in walk([combine.results[k] for k in wide]):
        if not e.type.is_narrow or e in made:
            continue
        if isinstance(e, Apply) and e.op.name in _ARITHMETIC:
            args = tuple(made[a] if a.type.is_narrow else a for a in e.args)
            made[e] = simplify.apply(e.op, args, float32)
        else:
            made[e] = simplify.cast(e, float32)
    results = tuple(made[e] if k in wide else e for k, e in enumerate(combine.results))
    return graph.canonical_combine(left, right, results)


def _rounded(node: Combining) -> list[Leaf] | None:
    """A node's results, combined in float32 and converted; None if nothing is widened."""
    combine = _in_float32(node)
    if combine is None:
        return None
    types = [v.type for v in combine.left]

    def wide(of: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(map(simplify.cast, of, types))

    made: Node
    if isinstance(node, graph.Permute):
        defaults = _converted(node.defaults, types, node)
        made = node.with_(values=wide(node.values), combine=combine, defaults=tuple(defaults))
    else:
        elements, init = wide(node.elements), node.init
        results = graph.result_variables(elements)
        epilogue: tuple[Expr, ...] = results
        if node.epilogue != node.results:
            pairs = zip(node.results, results, strict=True)
            epilogue = substitute(node.epilogue, {r: simplify.cast(w, r.type) for r, w in pairs})
        made = node.with_(elements=elements, combine=combine, results=results, epilogue=epilogue,
                          init=None if init is None else wide(init))  # fmt: skip
    return _converted(made.leaves, [leaf.type for leaf in node.leaves], node)


def _converted(leaves: Sequence[Leaf], types: Sequence[ScalarType], of: Node) -> list[Leaf]:
    """Arrays converted to other types; those of one shape are converted by one node."""
    changed: dict[graph.Shape, list[int]] = {}
    for k, (leaf, t) in enumerate(zip(leaves, types, strict=True)):
        if leaf.type != t:
            changed.setdefault(leaf.shape, []).append(k)
    found = list(leaves)
    for shape, places in changed.items():
        elements = [
            simplify.cast(leaves[k].at(*graph.indices(len(shape))), types[k]) for k in places
        ]
        made = graph.Generate(shape, tuple(elements), label=graph.Label("cast"), where=of.where)
        for k, leaf in zip(places, made.leaves, strict=True):
            found[k] = leaf
    return found
