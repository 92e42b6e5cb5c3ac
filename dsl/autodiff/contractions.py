"""Simplifies sums of matrix products over some of their axes, in adjoints.

The cotangent of a broadcast array is summed over the axes along which it was repeated.  If that
cotangent is a matrix product, the sum is a product with a sum, or a product that sums over one more
axis:

    Σ_i Σ_l a[i, l] · b[l, j]       = Σ_l (Σ_i a[i, l]) · b[l, j]
    Σ_k Σ_l a[k, i, l] · b[k, l, j] = Σ_(k, l) a[k, i, l] · b[k, l, j], one product

The product itself, as large as the broadcast array, is then neither computed nor stored.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..analysis.combines import ways
from ..expr import Apply, Const, Expr, Index, Read, constant, walk
from ..graph import Fold, Generate, Leaf, Matmul, Node, Shape, indices, topological
from ..operations.indexing.row_major import delinear, times
from ..scalar import apply_primitive
from .arguments import Substitution
from .expressions import add, index_map, shifted
from .reads import CHEAP, cost, stored, summed


class _Product(NamedTuple):
    """A product in a sum: its axis `a` is axis `places[a]` of the domain; negated if `minus`."""

    node: Matmul
    places: tuple[int, ...]
    minus: bool


class _Sum(NamedTuple):
    """The terms of a fold: these products, and other expressions over its domain."""

    products: tuple[_Product, ...]
    others: tuple[Expr, ...]


def contracted(found: Sequence[Leaf], also: Iterable[Leaf], given: Iterable[Node]) -> list[Leaf]:
    """Leaves equal to those `found`, with sums of products simplified.  Products that `also` or
    `given` nodes read are kept, as are those that are read otherwise than to be summed."""
    nodes = list(topological([*found, *also]))
    fixed = set(given)
    products = {n for n in nodes if n not in fixed and isinstance(n, Matmul) and is_plain(n)}
    if not products:
        return list(found)
    # Nodes inside loops and branches are computed more often, or not at all.
    inside = set(nodes).difference(topological([*found, *also], inside=False))
    products -= inside
    kept = {leaf.node for leaf in (*found, *also)}
    kept.update(leaf.node for n in nodes for leaf in (*n.operands(), *n.inside()))
    sums = _sums(nodes, products, kept, fixed | inside)
    swap = [(fold.leaf(), _without_products(fold, s)) for fold, s in sums.items()]
    return Substitution((), swap).leaves(found) if swap else list(found)


def is_plain(node: Matmul) -> bool:
    return node.epilogue == (node.result,) and node.options.open and not node.result.type.is_narrow


def _is_sum(node: Node) -> bool:
    return (
        isinstance(node, Fold)
        and node.epilogue == node.results
        and len(node.elements) == 1
        and ways(node.combine) == ["add"]
        and node.init is not None
        and isinstance(node.init[0], Const)
        and not node.init[0].value
        and not node.label.deterministic
    )


def _sums(
    nodes: Sequence[Node], products: set[Matmul], kept: set[Node], fixed: set[Node]
) -> dict[Fold, _Sum]:
    """The folds that add products which nothing else reads."""
    wanted = {n for n in products if n not in kept}
    while wanted:
        carriers: dict[Node, _Sum] = {n: _itself(n) for n in wanted}
        sums: dict[Fold, _Sum] = {}
        refused: set[Matmul] = set()
        for node in nodes:
            split = None
            if node not in fixed and (_is_sum(node) or (_is_array(node) and node not in kept)):
                assert isinstance(node, Fold | Generate)
                split = _split(node.elements[0], len(node.iteration_space()), carriers)
            if split is None or not split.products:
                refused |= _read(node.bodies(), carriers)
                continue
            refused |= _read(split.others, carriers)
            if isinstance(node, Fold):
                sums[node] = split
            else:
                carriers[node] = split._replace(others=_shared(node, split.others))
        if not refused:
            return sums
        wanted -= refused
    return {}


def _itself(node: Matmul) -> _Sum:
    return _Sum((_Product(node, tuple(range(len(node.batch) + 2)), False),), ())


def _shared(node: Node, others: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The other terms of an array that several folds may read; materialised if they are expensive,
    unless fusion decides otherwise."""
    if sum(map(cost, others)) <= CHEAP:
        return others
    rest, shape = functools.reduce(add, others), node.outputs[0].shape
    return (stored(shape, rest, node.label, node.where).at(*indices(len(shape))),)


def _is_array(node: Node) -> bool:
    return isinstance(node, Generate) and len(node.elements) == 1 and not node.checks


def _read(bodies: Iterable[Expr], carriers: dict[Node, _Sum]) -> set[Matmul]:
    """The products read in expressions, directly or through sums that contain them."""
    return {
        p.node
        for e in walk(bodies)
        if isinstance(e, Read) and e.node in carriers
        for p in carriers[e.node].products
    }


def _split(e: Expr, rank: int, carriers: dict[Node, _Sum]) -> _Sum | None:
    """An expression as a sum with products at permuted axes; None for other indices."""
    products: list[_Product] = []
    others: list[Expr] = []
    stack = [(e, False)]
    while stack:
        x, minus = stack.pop()
        if isinstance(x, Apply) and x.op.name in ("add", "subtract", "negative"):
            *before, last = x.args
            stack.append((last, minus != (x.op.name != "add")))
            stack += [(a, minus) for a in before]
        elif isinstance(x, Read) and x.node in carriers:
            places = [a.axis if isinstance(a, Index) else -1 for a in x.args]
            if x.boundary is not None or sorted(places) != list(range(rank)):
                return None
            inner = carriers[x.node]
            products += [
                _Product(p.node, tuple(places[k] for k in p.places), p.minus != minus)
                for p in inner.products
            ]
            moved = (shifted(o, index_map(x.args)) for o in inner.others)
            others += (_signed(o, minus) for o in moved)
        else:
            others.append(_signed(x, minus))
    return _Sum(tuple(products), tuple(others))


def _signed(e: Expr, minus: bool) -> Expr:
    return apply_primitive("negative", [e]) if minus else e


def _without_products(fold: Fold, found: _Sum) -> Leaf:
    rank, label, where = len(fold.outer), fold.label, fold.where
    terms: list[Expr] = []
    if found.others:
        rest = functools.reduce(add, found.others)
        terms.append(summed(fold.outer, fold.inner, rest, label, where).at(*indices(rank)))
    terms += [_signed(_contraction(p, fold), p.minus) for p in found.products]
    return stored(fold.outer, functools.reduce(add, terms), label, where)


def _contraction(p: _Product, fold: Fold) -> Expr:
    """The sum of a product over the inner axes of a fold, over the indices of its outer ones."""
    node, many = p.node, len(p.node.batch)
    outer = len(fold.outer)
    lost = [a for a, place in enumerate(p.places) if place >= outer]
    batch = [a for a in range(many) if a not in lost]
    gone = [a for a in lost if a < many]
    rows, columns = many not in lost, many + 1 not in lost
    kept = [*batch, *([many] if rows else []), *([many + 1] if columns else [])]
    extents = [*node.batch, node.m, node.n]
    common = (node.label, node.where)
    if rows and columns:
        result = _longer(node, batch, gone)
    else:
        # Operands are over (batch, l), and rows or columns that are kept.
        left, right = node.left, node.right
        if not rows:
            order = [*(Index(a) for a in range(many)), Index(many + 1), Index(many)]
            element = shifted(_source(left), index_map(order))
            left = summed((*node.batch, node.k), (node.m,), element, *common).at(
                *indices(many), Index(many + 1)
            )
        if not columns:
            order = [Index(a) for a in range(many + 2)]
            element = shifted(_source(right), index_map(order))
            right = summed((*node.batch, node.k), (node.n,), element, *common).at(
                *indices(many + 1)
            )
        # The domain: kept axes, then lost batch axes, then l.
        size = len(kept)
        place: dict[int, Expr] = {a: Index(k) for k, a in enumerate([*kept, *gone])}
        at = [place[a] for a in range(many)]
        last = Index(size + len(gone))
        left = shifted(left, index_map([*at, place.get(many, constant(0)), last]))
        right = shifted(right, index_map([*at, last, place.get(many + 1, constant(0))]))
        element = apply_primitive("multiply", [left, right])
        inner = (*(extents[a] for a in gone), node.k)
        result = summed(tuple(extents[a] for a in kept), inner, element, *common)
    return result.at(*(Index(p.places[a]) for a in kept))


def _source(e: Expr) -> Expr:
    """The array that an operand copies in another order, so that sums of copies are one pass."""
    while isinstance(e, Read) and e.boundary is None and _is_array(e.node):
        assert isinstance(e.node, Generate)
        element = e.node.elements[0]
        if not isinstance(element, Read):
            break
        e = shifted(element, index_map(e.args))
    return e


def _longer(node: Matmul, batch: Sequence[int], gone: Sequence[int]) -> Leaf:
    """The product that also sums over the batch axes `gone`."""
    many, few = len(node.batch), len(batch)
    inner: Shape = (*(node.batch[a] for a in gone), node.k)
    length = functools.reduce(times, inner)
    outer = tuple(node.batch[a] for a in batch)

    def operand(e: Expr, axis: int) -> Expr:
        """With the inner axes as one: number `axis` of the last two."""
        digits = delinear(Index(few + axis), inner)
        own = dict(zip([*batch, *gone], [*indices(few), *digits[:-1]], strict=True))
        at: list[Expr] = [own[a] for a in range(many)]
        at += [digits[-1], Index(few + 1)] if axis == 0 else [Index(few), digits[-1]]
        shape = (*outer, length, node.n) if axis == 0 else (*outer, node.m, length)
        made = stored(shape, shifted(e, index_map(at)), node.label, node.where)
        return made.at(*indices(few + 2))

    made = Matmul(outer, node.m, node.n, length, operand(node.left, 1), operand(node.right, 0),
                  node.options, label=node.label, where=node.where)  # fmt: skip
    return made.leaf()
