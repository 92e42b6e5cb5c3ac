"""fold_products, store_operands: a product with a fold of its rows, or of an operand it stores.

    y = (x − c) @ a;  s = Σ_j f(y)[i, j]   →   one kernel, which stores y only if others read it
    g = f(y), Σ_k g[k, j];  (x − c)ᵀ @ g   →   one kernel, which stores g as it loads y

On a GPU, of products that a kernel of treadle's may compute since they compute an operand: a
library multiplies arrays, and stores plain products.  The function is cheap, as code that each
thread has for all its elements, and the operator commutes.  Outside of loops, and where arrays are
whole in one memory, as in `store_in_folds`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis.combines import identities
from ..expr import Expr, Foreign, Index, Loop, Read, While, rewrite, substitute, walk
from ..graph import Fold, FoldedMatmul, Leaf, Matmul, Node, StoringFold, StoringMatmul, topological
from . import cost
from .base import Context
from .operands import BROADCAST, LIGHT_BATCHED, sources
from .stored_folds import between, merged, needed
from .vertical import checked_by_data

#: The most additions of an element, and the most arrays that it reads.
CHEAP, ARRAYS = 8.0, 4


def fold_products(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    """Merge pairs of a `Matmul` and a `Fold` outside of loops, one after the other."""
    found = list(roots)
    if not context.target.gpu or context.settings.check or context.in_parts:
        return found
    while (pair := _pair(found)) is not None:
        found = merged(found, *pair, context)
    return found


def _pair(roots: Sequence[Leaf]) -> tuple[Matmul, Fold, FoldedMatmul] | None:
    """The first product and fold of its rows, and what they become."""
    order, outside = list(topological(roots)), set(topological(roots, inside=False))
    products = {n for n in order if n in outside and _is_computed(n)}
    for fold in order if products else ():
        if fold not in outside or not isinstance(fold, Fold) or not _is_cheap(fold):
            continue
        for product in {e.node: None for e in walk(fold.elements) if isinstance(e, Read)}:
            if product in products and not between(product, fold):
                assert isinstance(product, Matmul)
                stored = product.leaf() in needed(roots, order, fold)
                made = _together(product, fold, stored)
                if made is not None:
                    return product, fold, made
    return None


def _is_computed(node: Node) -> bool:
    return (
        type(node) is Matmul
        and not (isinstance(node.left, Read) and isinstance(node.right, Read))
        and node.left.type.name in BROADCAST
        and node.epilogue == (node.result,)
        and node.label.schedule is None
        and not (node.options.levels or node.options.fast)
    )


def _is_cheap(node: Fold) -> bool:
    parts = list(walk(node.elements))
    return (
        len(node.inner) == 1
        and node.label.schedule is None
        and not node.label.deterministic
        and not checked_by_data(node)
        and identities(node.combine) is not None
        and cost.operations(node.elements) <= CHEAP
        and len({e for e in parts if isinstance(e, Read)}) <= ARRAYS
        and not any(isinstance(e, Foreign | Loop | While) for e in parts)
    )


def _together(product: Matmul, fold: Fold, stored: bool) -> FoldedMatmul | None:
    """The two as one node, if the fold reads each element of a row once, at its own index."""
    mine = {e for e in walk(fold.elements) if isinstance(e, Read) and e.node is product}
    rank = len(product.batch) + 2
    if len(mine) != 1 or len(fold.outer) != rank - 1:
        return None
    if any(isinstance(e, Read) and e.node is product for e in walk(fold.epilogue)):
        return None
    (read,) = mine
    axes = [a.axis for a in read.args if isinstance(a, Index)]
    if read.boundary is not None or sorted(axes) != list(range(rank)) or axes[-1] != rank - 1:
        return None
    order = tuple(axes.index(k) for k in range(rank - 1))
    rows = (*product.batch, product.m)
    if fold.iteration_space() != (*(rows[k] for k in order), product.n):
        return None
    values = rewrite(fold.elements, lambda e: product.result if e is read else e)
    place: dict[Expr, Expr] = {Index(k): Index(a) for k, a in enumerate(order)}
    return FoldedMatmul(
        product.batch, product.m, product.n, product.k, product.left, product.right,
        product.options, product.result, (product.result,) if stored else (),
        substitute(values, place), fold.combine, fold.init, fold.results, fold.epilogue, order,
        label=product.label, where=product.where,
        checks=tuple(dict.fromkeys((*product.checks, *fold.checks))),
        fused=(*product.fused, (fold.label, fold.where), *fold.fused),
    )  # fmt: skip


def store_operands(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    """Merge pairs of a `StoringFold` and a `Matmul` outside of loops, one after the other."""
    found = list(roots)
    if not context.target.gpu or context.settings.check or context.in_parts:
        return found
    while (pair := _stored_pair(found)) is not None:
        found = merged(found, *pair, context)
    return found


def _stored_pair(roots: Sequence[Leaf]) -> tuple[Matmul, StoringFold, StoringMatmul] | None:
    """The first product and fold that stores its operand, and what they become."""
    outside = list(topological(roots, inside=False))
    for product in outside:
        if not _is_computed(product):
            continue
        assert isinstance(product, Matmul)
        for side, e in enumerate((product.left, product.right)):
            made = _storing(product, side, e) if isinstance(e, Read) else None
            if made is not None:
                assert isinstance(e, Read) and isinstance(e.node, StoringFold)
                return product, e.node, made
    return None


def _storing(product: Matmul, side: int, read: Read) -> StoringMatmul | None:
    """The product with the fold that stores its operand, if the fold is along k."""
    fold, rank = read.node, len(product.batch) + 2
    if not isinstance(fold, StoringFold) or len(fold.names) != 1 or read.boundary is not None:
        return None
    one = len(fold.elements) == 1 and fold.elements[0].type == product.result.type
    cheap = cost.operations((*fold.elements, *fold.kept)) <= LIGHT_BATCHED
    commutes = identities(fold.combine) is not None and not fold.label.deterministic
    if not (one and cheap and commutes) or read.component != len(fold.epilogue):
        return None
    if len(fold.inner) != 1 or checked_by_data(fold) or fold.label.schedule is not None:
        return None
    if sources(fold.kept[0]) is None or not all(isinstance(a, Index) for a in read.args):
        return None
    axes = [a.axis for a in read.args if isinstance(a, Index)]  # of the product, by axis stored
    if sorted(axes) != list(range(rank)) or len(fold.outer) != rank - 1:
        return None
    domain = [axes[fold.order.index(d)] for d in range(rank)]  # of the product, by axis folded
    inner = rank - 1 - side
    space = [*product.batch, product.m, product.k] if not side else [
        *product.batch, product.k, product.n]  # fmt: skip
    if domain[-1] != inner or tuple(space[a] for a in domain) != fold.iteration_space():
        return None
    others = [e for e in product.inputs() if e != Leaf(fold, read.component)]
    if fold in set(topological(others)):
        return None
    place: dict[Expr, Expr] = {Index(d): Index(a) for d, a in enumerate(domain)}
    (value, *elements) = substitute((*fold.kept, *fold.elements), place)
    left, right = (product.left, value) if side else (value, product.right)
    return StoringMatmul(
        product.batch, product.m, product.n, product.k, left, right, product.options,
        product.result, product.epilogue, side, fold.names[0], tuple(elements), fold.combine,
        fold.init, fold.results, fold.epilogue, tuple(domain[:-1]), tuple(axes),
        label=product.label, where=product.where,
        checks=tuple(dict.fromkeys((*fold.checks, *product.checks))),
        fused=(*product.fused, (fold.label, fold.where), *fold.fused),
    )  # fmt: skip
