"""split_flattened: elements of a flattened view are visited by the axes of the underlying array.

    permute, fold, generate over n·m elements p that read a[p // m, p % m, 0]
    →  over n × m elements i, j that read a[i, j, 0];  p is i·m + j, in the same order

A dense array that is flattened as a whole needs no division, as the lowerings read it at `p`; a
slice, a channel or a transpose of one needs two per element.  The results of a `generate` get their
shape back from a reshaping node, which costs nothing.  Folds of floats stay as they are: their
blocks, and so their bits, are those of the flat axis.  CPU only: a GPU hides the divisions behind
its memory accesses.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..expr import Apply, Const, Expr, Index, Read, constant, primitive, rewrite, walk
from ..graph import Compact, Fold, Generate, Label, Leaf, Node, Permute, Shape
from ..graphs.rebuild import rewrite_graph
from ..operations.indexing.index_space import reshaped, reshaped_index
from ..operations.indexing.row_major import delinear, linear, product
from ..simplify import apply
from .base import Context


def split_flattened(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    """Split flat axes whose elements are read by quotient and remainder."""
    if not context.target.cores or context.settings.check:
        return list(roots)

    def change(node: Node) -> Node:
        if node.label.ordered or isinstance(node, Compact):
            return node
        if isinstance(node, Permute):
            exprs, shape = _split((node.valid, *node.target, *node.values), node.domain, 0)
            if shape == node.domain:
                return node
            at = 1 + len(node.target)
            return node.with_(domain=shape, valid=exprs[0], target=exprs[1:at], values=exprs[at:])
        if isinstance(node, Fold) and not any(r.type.is_inexact for r in node.combine.results):
            outer = len(node.outer)
            exprs, shape = _split(node.elements, (*node.outer, *node.inner), outer, moved=False)
            inner = shape[outer:]
            return node if inner == node.inner else node.with_(inner=inner, elements=exprs)
        if isinstance(node, Generate) and reshaped(node) is None:
            exprs, shape = _split(node.elements, node.shape, 0)
            if shape == node.shape:
                return node
            made = node.with_(shape=shape, elements=exprs, checks=())
            index = reshaped_index(shape, node.shape)
            elements = tuple(Read(made, k, index) for k in range(len(exprs)))
            return Generate(node.shape, elements, label=Label("reshape"), where=node.where,
                            checks=node.checks)  # fmt: skip
        return node

    return rewrite_graph(roots, change, context.kept)


def _split(roots: tuple[Expr, ...], domain: Shape, first: int, moved: bool = True
           ) -> tuple[tuple[Expr, ...], Shape]:  # fmt: skip
    """The roots over a domain whose flat axes, from `first` on, are split.  With `moved=False`, an
    axis is split only if nothing else uses its index."""
    axis = first
    while axis < len(domain):
        by = _divisor(roots, domain, axis)
        quotient = None if by is None else _quotient(domain[axis], by)
        if by is None or quotient is None:
            axis += 1
            continue
        made = _over(roots, len(domain), axis, by)
        index = linear((Index(axis), Index(axis + 1)), (quotient, by))
        if not moved and index in walk(made):
            axis += 1
            continue
        roots, domain = made, (*domain[:axis], quotient, by, *domain[axis + 1 :])
    return roots, domain


def _divisor(roots: Sequence[Expr], domain: Shape, axis: int) -> Expr | None:
    """The extent by which indices along `axis` are divided, if arrays are read by quotient and
    remainder (other than a dense array that is flattened as a whole)."""
    index = Index(axis)
    names: dict[Expr, set[str]] = {}
    for e in walk(roots):
        if not isinstance(e, Read) or len(e.args) < 2:
            continue
        divided = [x for x in walk(e.args) if isinstance(x, Apply) and index in x.args]
        if not divided or e.args == delinear(index, e.node.outputs[e.component].shape):
            continue
        for x in divided:
            if x.args[0] == index and x.op.name in ("floor_divide", "remainder"):
                names.setdefault(x.args[1], set()).add(x.op.name)
    return next(
        (n for n, found in names.items()
         if len(found) == 2 and _quotient(domain[axis], n) is not None), None,
    )  # fmt: skip


def _over(roots: tuple[Expr, ...], rank: int, axis: int, by: Expr) -> tuple[Expr, ...]:
    index, upper, lower = Index(axis), Index(axis), Index(axis + 1)
    memo: dict[Expr, Expr] = {Index(k): Index(k + 1) for k in range(axis + 1, rank)}
    for name, part in (("floor_divide", upper), ("remainder", lower)):
        memo[apply(primitive(name), (index, by), index.type)] = part
    memo[index] = linear((upper, lower), (constant(1), by))
    return rewrite(roots, lambda e: e, memo)


def _factors(e: Expr) -> tuple[int, list[Expr]]:
    """A product as a constant and other factors, in order."""
    if isinstance(e, Const):
        return int(e.value), []
    if isinstance(e, Apply) and e.op.name == "multiply":
        (a, left), (b, right) = map(_factors, e.args)
        return a * b, left + right
    return 1, [e]


def _quotient(e: Expr, by: Expr) -> Expr | None:
    """The remaining factors of an extent that contains the factors of `by`, as written."""
    (times, factors), (constant_, needed) = _factors(e), _factors(by)
    if constant_ == 0 or times % constant_:
        return None
    for x in needed:
        if x not in factors:
            return None
        factors.reverse()
        factors.remove(x)  # the last of them
        factors.reverse()
    return product([*factors, constant(times // constant_)])
