"""Merges products with diagonal matrices into matrix products before differentiation.

    d[j] · a[i, j] + Σ_l a[i, l] · b[l, j] = Σ_l a[i, l] · (b[l, j] + [l = j] · d[j])

This is how a triangular matrix is applied whose diagonal is a separate argument.  As one product,
its adjoint is two products; otherwise the cotangent would also be multiplied by `d` and by `a` and
summed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..expr import Apply, Expr, Index, Read, rewrite, walk
from ..graph import Generate, Input, Leaf, Matmul, Node, indices, topological
from ..scalar import apply_primitive
from ..simplify import select
from .contractions import is_plain
from .expressions import Active, add, index_map, shifted, zero
from .reads import stored
from .reverse import moving
from .rules import TESTS


class _Term(NamedTuple):
    """A matrix product as a term of a sum: its result at (batch…, i, j) is read at these axes."""

    node: Matmul
    axes: tuple[Expr, ...]


def with_diagonals(roots: Sequence[Leaf], targets: Sequence[Leaf]) -> list[tuple[Leaf, Leaf]]:
    """Leaves of such sums, with those of the products that replace them.

    The right operand must be computed, and so stored in any case, and be differentiated if the
    diagonal is.  Nothing is replaced if the program tests whether numbers are finite, since a
    product multiplies all of them by all others.
    """
    nodes = list(topological(roots))
    products = any(isinstance(n, Matmul) for n in nodes)
    if not products or any(
        isinstance(e, Apply) and e.op.name in TESTS for n in nodes for e in walk(n.bodies())
    ):
        return []
    readers: dict[Node, int] = {}
    for node in nodes:
        for used in {leaf.node for leaf in (*node.inputs(), *node.inside())}:
            readers[used] = readers.get(used, 0) + 1
    for used in {root.node for root in roots}:
        readers[used] = readers.get(used, 0) + 1
    known = moving(roots, targets)
    active = Active(lambda e: isinstance(e, Read) and Leaf(e.node, e.component) in known)
    found = []
    for node in topological(roots, inside=False):
        if not _is_array(node) or not isinstance(node, Generate):
            continue
        for term, other in _terms(node):
            made = _joined(node, term, other, readers, active)
            if made is not None:
                found.append((node.leaf(), made))
                break
    return found


def _is_array(node: Node) -> bool:
    return type(node) is Generate and len(node.elements) == 1


def _terms(node: Generate) -> Iterator[tuple[Read, Expr]]:
    """The two terms of a sum of two, in either order."""
    e = node.elements[0]
    if isinstance(e, Apply) and e.op.name == "add" and len(e.args) == 2:
        for first, second in (e.args, e.args[::-1]):
            if isinstance(first, Read):
                yield first, second


def _joined(node: Generate, read: Read, other: Expr, readers: dict[Node, int], active: Active
            ) -> Leaf | None:  # fmt: skip
    """The product that equals the sum of another product and `other`, over the domain of `node`."""
    term = _product(read, len(node.shape), readers)
    if term is None:
        return None
    product, axes = term
    factors = _factors(other)
    batch = len(product.batch)
    *at, row, column = axes
    mine = _source(shifted(product.left, index_map([*at, row, column])))
    if len(factors) != 2 or mine not in factors:
        return None
    diagonal = factors[1 - factors.index(mine)]
    right = _source(product.right)
    computed = isinstance(right, Read) and not isinstance(right.node, Input)
    if not computed or row in walk((diagonal,)) or (active(diagonal) and not active(right)):
        return None
    if any(e.type != product.result.type for e in (*factors, product.right)):
        return None
    # Over (batch…, l, j).
    place: dict[Expr, Expr] = {a: Index(k) for k, a in enumerate(at)}
    place[column] = Index(batch + 1)
    on = apply_primitive("equal", [Index(batch), Index(batch + 1)])
    whole = add(product.right, select(on, shifted(diagonal, place), zero(diagonal.type)))
    shape = (*product.batch, product.k, product.n)
    operand = stored(shape, whole, product.label, product.where).at(*indices(batch + 2))
    made = product.with_(right=operand)
    instead = node.with_(elements=(Read(made, 0, axes),))
    lost = set(topological(node.leaves)).difference(topological(instead.leaves))
    checks = (c for n in topological(node.leaves) if n in lost for c in n.checks)
    return instead.with_(checks=tuple(dict.fromkeys(checks))).leaf()


def _product(read: Read, rank: int, readers: dict[Node, int]) -> _Term | None:
    """The matrix product that is read, possibly through views, if nothing else reads it."""
    e: Expr = read
    while isinstance(e, Read) and e.boundary is None and readers[e.node] == 1:
        if isinstance(e.node, Matmul):
            whole = set(e.args) == set(indices(rank)) and len(e.args) == rank
            plain = is_plain(e.node) and not e.node.options.fast
            return _Term(e.node, e.args) if whole and plain else None
        if not _is_array(e.node):
            return None
        e = shifted(e.node.elements[0], index_map(e.args))  # type: ignore[attr-defined]
    return None


def _source(e: Expr) -> Expr:
    """The expression with reads through views replaced by direct reads."""

    def direct(x: Expr) -> Expr:
        while isinstance(x, Read) and x.boundary is None and _is_array(x.node):
            element = x.node.elements[0]  # type: ignore[attr-defined]
            if not isinstance(element, Read) or element.boundary is not None:
                break
            x = shifted(element, index_map(x.args))
        return x

    return rewrite((e,), direct)[0]


def _factors(e: Expr) -> list[Expr]:
    """The two factors of a product, which may be stored in an array."""
    e = _source(e)
    if isinstance(e, Read) and e.boundary is None and _is_array(e.node):
        e = shifted(e.node.elements[0], index_map(e.args))  # type: ignore[attr-defined]
    if not isinstance(e, Apply) or e.op.name != "multiply":
        return []
    return [_source(a) for a in e.args]
