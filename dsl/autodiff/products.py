"""The derivatives of matrix products."""

from __future__ import annotations

from dataclasses import replace

from ..expr import Expr, Index, Read
from ..graph import Matmul, Node, Shape
from ..scalar import apply_primitive
from .expressions import add, shifted
from .forward import Forward, forward_rule, tangent_of
from .reads import stored
from .reverse import Bars, Reverse, adjoint, own, reverse_rule, through_epilogue


@forward_rule(Matmul)
def _matmul_tangents(f: Forward, node: Matmul) -> None:
    left, right = f.along((node.left, node.right))
    shape = (*node.batch, node.m, node.n)
    rank = len(shape)
    total: Expr | None = None
    if left is not None:
        left = operand(left, (*node.batch, node.m, node.k), node)
    if right is not None:
        right = operand(right, (*node.batch, node.k, node.n), node)
    for a, b in ((left, node.right), (node.left, right)):
        if a is not None and b is not None:
            made = Matmul(node.batch, node.m, node.n, node.k, a, b, node.options,
                          label=tangent_of(node), where=node.where)  # fmt: skip
            part = own(made.leaf(), rank)
            total = part if total is None else add(total, part)
    moved = None if total is None else stored(shape, total, tangent_of(node), node.where)
    f.epilogue(node, (moved,))


@reverse_rule(Matmul)
def _matmul(r: Reverse, node: Matmul, bars: Bars) -> None:
    """Abar = G Bᴴ, Bbar = Aᴴ G; whatever algorithm computes the product."""
    batch = len(node.batch)
    rank = batch + 2
    (bar,) = through_epilogue(r, node, bars)
    if bar is None:
        return
    i, j = Index(batch), Index(batch + 1)
    swapped: dict[Expr, Expr] = {i: j, j: i}
    options = (
        replace(node.options, levels=None, execution=None)
        if (node.options.algorithm not in ("auto", "standard"))
        else node.options
    )
    options = replace(options, algorithm="auto" if options.algorithm != "standard" else "standard")
    common = (adjoint(node), node.where)

    def conjugate(e: Expr) -> Expr:
        return apply_primitive("conjugate", [e]) if e.type.is_complex else e

    if r.active(node.left):
        shape = (*node.batch, node.n, node.k)
        right = operand(conjugate(shifted(node.right, swapped)), shape, node)
        made = Matmul(node.batch, node.m, node.k, node.n, own(bar, rank), right, options,
                      label=common[0], where=common[1])  # fmt: skip
        r.through((*node.batch, node.m, node.k), [(node.left, own(made.leaf(), rank))], node)
    if r.active(node.right):
        shape = (*node.batch, node.k, node.m)
        left = operand(conjugate(shifted(node.left, swapped)), shape, node)
        made = Matmul(node.batch, node.k, node.n, node.m, left, own(bar, rank), options,
                      label=common[0], where=common[1])  # fmt: skip
        r.through((*node.batch, node.k, node.n), [(node.right, own(made.leaf(), rank))], node)


def operand(e: Expr, shape: Shape, node: Node) -> Expr:
    """The operand of a product: a read, of an array of its own if it is computed."""
    if isinstance(e, Read) and e.boundary is None:
        return e
    return own(stored(shape, e, adjoint(node), node.where), len(shape))
