"""fold_products: fold the rows of a product where it is computed.

    y = (x − c) @ a;  s = Σ_j f(y)[i, j]   →   one kernel, which stores y only if others read it

On a GPU, of products that a kernel of treadle's may compute since they compute an operand: a
library multiplies arrays, and stores plain products.  The function is cheap, as code that each
thread has for all its elements, and the operator commutes.  Outside of loops, and where arrays are
whole in one memory, as in `store_in_folds`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis.combines import identities
from ..expr import Expr, Foreign, Index, Loop, Read, While, rewrite, substitute, walk
from ..graph import Fold, FoldedMatmul, Leaf, Matmul, Node, topological
from . import cost
from .base import Context
from .operands import BROADCAST
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
