"""The derivatives of matrix products."""

from __future__ import annotations

from dataclasses import replace

from ..expr import Expr, Index, Read, constant
from ..graph import Leaf, Matmul, Node, Shape, indices, known
from ..operations.indexing.index_space import reshaped, reshaped_index
from ..passes.convolutions import sum_over_windows
from ..scalar import apply_primitive
from .contractions import is_plain
from .expressions import add, index_map, shifted
from .forward import Forward, forward_rule, tangent_of
from .reads import stored, summed
from .reverse import Bars, Reverse, adjoint, own, reverse_rule, through_epilogue


@forward_rule(Matmul)
def _matmul_tangents(f: Forward, node: Matmul) -> None:
    shape = (*node.batch, node.m, node.n)
    rank = len(shape)
    total: Expr | None = None
    left, right = f.along((node.left, node.right))
    term = _term(node)
    if term is not None and f.smooth((term,)) != (term,):
        left = right = None
        (moved,) = f.along((term,))
        if moved is not None:
            batches = summed(node.batch, (node.k,), moved, tangent_of(node), node.where)
            total = batches.at(*indices(rank - 2))
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
    along = None if total is None else stored(shape, total, tangent_of(node), node.where)
    f.epilogue(node, (along,))


def _term(node: Matmul) -> Expr | None:
    """The term of a product of a row and a column, over (batch…, k)."""
    if not (known(node.m) == known(node.n) == 1 and is_plain(node)):
        return None
    at = indices(len(node.batch))
    k = Index(len(node.batch))
    left = shifted(node.left, index_map([*at, constant(0), k]))
    right = shifted(node.right, index_map([*at, k, constant(0)]))
    return apply_primitive("multiply", [left, right])


@reverse_rule(Matmul)
def _matmul(r: Reverse, node: Matmul, bars: Bars) -> None:
    """Abar = G Bᴴ, Bbar = Aᴴ G, whatever algorithm computes the product."""
    batch = len(node.batch)
    rank = batch + 2
    (bar,) = through_epilogue(r, node, bars)
    if bar is None:
        return
    term = _term(node)
    if term is not None and r.smooth((term,)) != (term,):
        one = bar.at(*indices(batch), constant(0), constant(0))
        r.through((*node.batch, node.k), [(term, one)], node)
        return
    vector = 1 in (known(node.m), known(node.n))
    whole = sum_over_windows(node, r.unified) if vector else None
    if whole is not None:  # each number of the vector times windows, not an array of all windows
        given = _reshaped(bar, whole.outer, node)
        r.through((*whole.outer, *whole.inner), [(whole.elements[0], given)], node)
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


def _reshaped(bar: Leaf, shape: Shape, node: Node) -> Expr:
    """The elements of an array in another shape, perhaps the one that it had before."""
    before = reshaped(bar.node)
    if before is None or len(before) > 1 or before[0].shape != shape:
        at = bar.at(*reshaped_index(bar.shape, shape))
        before = (stored(shape, at, adjoint(node), node.where),)
    return own(before[0], len(shape))


def operand(e: Expr, shape: Shape, node: Node) -> Expr:
    """The operand of a product: a read, of a new array if it is computed."""
    if isinstance(e, Read) and e.boundary is None:
        return e
    return own(stored(shape, e, adjoint(node), node.where), len(shape))
