"""Checked programs test whether the functions of folds and scans are associative.

The language does not specify how elements are grouped, so a function that is not associative
silently gives other results for other extents, backends or machines.  A checked program combines
some triples of neighbouring elements in both ways, f(f(x, y), z) and f(x, f(y, z)), and counts
those that differ.  Floats may differ by rounding: by far less than the largest number in the triple
and its combinations.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import ml_dtypes

from ..analysis.combines import argument_of, is_commutative
from ..expr import Const, Expr, Index, Loop, Proj, Var, constant, substitute
from ..graph import Check, Combine, Fold, FoldSeg, Generate, Label, Leaf, Node, Scan
from ..graphs.rebuild import rewrite_graph
from ..operations.indexing.row_major import delinear, minus, plus, product, times
from ..scalar import apply_primitive
from ..simplify import cast
from ..types import float64, int64

#: Triples tested per kernel.
TRIED = 64
#: The tolerated difference, as a multiple of the square root of the type's rounding unit.
SLACK = 8.0


def probe_associativity(roots: Sequence[Leaf]) -> list[Leaf]:
    """The graph with checks of the user-defined functions of folds and scans."""

    def change(node: Node) -> Node:
        if not isinstance(node, Fold | FoldSeg | Scan):
            return node
        if is_commutative(node.combine) or argument_of(node.combine) is not None:
            return node
        probe = Generate((), (_differing(node),), label=Label("associative"), where=node.where)
        check = Check(
            probe.leaf().at(), constant(0),
            f"{node.label.operation}: the function is not associative: f(f(x, y), z) differs from "
            f"f(x, f(y, z)) for {{left}} of {TRIED} triples of neighbouring elements.",
            "NotAssociative",
            hint="Results would depend on how elements are grouped. td.scan(step, init, xs) takes "
            "any function, and combines in the order of the array.",
            where=node.where, in_checked=True,
        )  # fmt: skip
        return node.with_(checks=(*node.checks, check))

    return rewrite_graph(roots, change)


def _differing(node: Fold | FoldSeg | Scan) -> Expr:
    """The number of triples combined differently; 0 for rows of fewer than three elements."""
    sample, found = Var("sample", int64), Var("found", int64)
    match node:
        case Scan():
            rows, row = (*node.shape[: node.axis], *node.shape[node.axis + 1 :]), node.shape
            along: tuple[Expr, ...] = (row[node.axis],)
        case Fold():
            rows, along = node.outer, node.inner
        case FoldSeg():
            rows, along = node.outer, (node.extent,)
    n, tried = product(along), constant(TRIED)
    count = _divided(times(sample, product(rows)), tried)
    first = _divided(times(sample, minus(n, constant(2))), tried)
    others = delinear(count, rows)

    def element(k: int) -> tuple[Expr, ...]:
        at = delinear(plus(first, constant(k)), along)
        index = (*others, *at)
        if isinstance(node, Scan):
            index = (*others[: node.axis], *at, *others[node.axis :])
        return substitute(node.elements, {Index(a): i for a, i in enumerate(index)})

    differs = cast(_differs(node.combine, *map(element, range(3))), int64)
    enough = apply_primitive(
        "logical_and", [apply_primitive("less", [constant(2), n]),
                        apply_primitive("less", [constant(0), product(rows)])],
    )  # fmt: skip
    tries = times(cast(enough, int64), tried)
    loop = Loop(tries, (constant(0),), (sample, found), (plus(found, differs),))
    return Proj(loop, 0)


def _divided(a: Expr, b: Expr) -> Expr:
    return apply_primitive("floor_divide", [a, b])


def _differs(combine: Combine, x: Sequence[Expr], y: Sequence[Expr], z: Sequence[Expr]) -> Expr:
    f = combine.of
    begun, ended = f(x, y), f(y, z)
    one, other = f(begun, z), f(x, ended)
    sizes = [_size(e) for e in (*x, *y, *z, *begun, *ended, *one, *other) if e.type.is_inexact]
    tests = []
    for a, b in zip(one, other, strict=True):
        if not a.type.is_inexact:
            tests.append(apply_primitive("not_equal", [a, b]))
            continue
        unit = float(ml_dtypes.finfo(a.type.numpy).eps)  # type: ignore[no-untyped-call]
        allowed = SLACK * math.sqrt(unit)
        most = times(Const(allowed, float64), functools.reduce(_larger, sizes))
        distance = _size(apply_primitive("subtract", [a, b]))
        tests.append(apply_primitive("less", [most, distance]))
    return functools.reduce(lambda p, q: apply_primitive("logical_or", [p, q]), tests)


def _larger(a: Expr, b: Expr) -> Expr:
    return apply_primitive("maximum", [a, b])


def _size(e: Expr) -> Expr:
    return cast(apply_primitive("absolute", [e]), float64)
