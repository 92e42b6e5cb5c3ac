"""fold_products, store_operands: a product with a fold of its rows, or of an operand it stores.

    y = (x − c) @ a;  s = Σ_j f(y)[i, j]   →   one kernel, which stores y only if others read it
    g = f(y), Σ_k g[k, j];  (x − c)ᵀ @ g   →   one kernel, which stores g as it loads y

Only on a GPU, for products that a treadle kernel may compute because it computes an operand (a
library multiplies arrays, and stores plain products).  The function must be cheap, since each
thread has a copy of its code for all its elements, and the operator must commute.  Only outside of
loops, and where arrays are whole in one memory, as in `store_in_folds`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

from ..analysis.combines import identities
from ..expr import Expr, Foreign, Index, Loop, Read, Var, While, rewrite, substitute, walk
from ..graph import (
    Fold,
    FoldedMatmul,
    FoldingMatmul,
    Leaf,
    Matmul,
    Node,
    StoringFold,
    StoringMatmul,
    topological,
)
from . import cost
from .base import Context
from .operands import BROADCAST, LIGHT_BATCHED, sources
from .stored_folds import between, merged, needed
from .vertical import checked_by_data

#: The most additions per element, and the most arrays that it reads.
CHEAP, ARRAYS = 8.0, 4

#: The class of the merged node.
Made = TypeVar("Made", bound=FoldingMatmul)


def fold_products(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    """Merge pairs of a `Matmul` and a `Fold` outside of loops, one after the other."""
    return _merge(roots, context, _pair)


def store_operands(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    """Merge pairs of a `StoringFold` and a `Matmul` outside of loops, one after the other."""
    return _merge(roots, context, _stored_pair)


#: A product, a fold, and the merged node.
_Pair: TypeAlias = tuple[Matmul, Fold | StoringFold, FoldingMatmul]


def _merge(roots: Sequence[Leaf], context: Context,
           pair_in: Callable[[Sequence[Leaf]], _Pair | None]) -> list[Leaf]:  # fmt: skip
    found = list(roots)
    if not context.target.gpu or context.settings.check or context.in_parts:
        return found
    while (pair := pair_in(found)) is not None:
        found = merged(found, *pair, context)
    return found


def _pair(roots: Sequence[Leaf]) -> _Pair | None:
    """The first product with a fold of its rows."""
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


def _stored_pair(roots: Sequence[Leaf]) -> _Pair | None:
    """The first product with a fold that stores its operand."""
    for product in topological(roots, inside=False):
        if not _is_computed(product):
            continue
        assert isinstance(product, Matmul)
        for side, e in enumerate((product.left, product.right)):
            fold = e.node if isinstance(e, Read) else None
            if isinstance(e, Read) and isinstance(fold, StoringFold):
                made = _storing(product, side, e, fold)
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


def _commutes(node: Fold | StoringFold) -> bool:
    """Whether elements of rows may be folded in the order of a product's tiles."""
    return (
        len(node.inner) == 1
        and node.label.schedule is None
        and not node.label.deterministic
        and not checked_by_data(node)
        and identities(node.combine) is not None
    )


def _is_cheap(node: Fold) -> bool:
    parts = list(walk(node.elements))
    return (
        _commutes(node)
        and cost.operations(node.elements) <= CHEAP
        and len({e for e in parts if isinstance(e, Read)}) <= ARRAYS
        and not any(isinstance(e, Foreign | Loop | While) for e in parts)
    )


def _axes(read: Read, rank: int) -> list[int]:
    """The axes of the indices of a read that permutes them, else none."""
    axes = [a.axis for a in read.args if isinstance(a, Index)]
    whole = read.boundary is None and len(read.args) == rank
    return axes if whole and sorted(axes) == list(range(rank)) else []


def _together(product: Matmul, fold: Fold, stored: bool) -> FoldedMatmul | None:
    """The two as one node, if the fold reads each element of a row once, at its own index."""
    mine = {e for e in walk(fold.elements) if isinstance(e, Read) and e.node is product}
    rank = len(product.batch) + 2
    if len(mine) != 1 or len(fold.outer) != rank - 1:
        return None
    if any(isinstance(e, Read) and e.node is product for e in walk(fold.epilogue)):
        return None
    (read,) = mine
    axes = _axes(read, rank)
    if not axes or axes[-1] != rank - 1:
        return None
    domain = [axes.index(k) for k in range(rank)]
    values = rewrite(fold.elements, lambda e: product.result if e is read else e)
    kept = (product.result,) if stored else ()
    return _made(FoldedMatmul, product, fold, (product, fold), (product.left, product.right), kept,
                 values, domain)  # fmt: skip


def _storing(product: Matmul, side: int, read: Read, fold: StoringFold) -> StoringMatmul | None:
    """The product with the fold that stores its operand, if the fold is along k."""
    rank = len(product.batch) + 2
    if len(fold.names) != 1 or read.component != len(fold.epilogue) or not _commutes(fold):
        return None
    one = len(fold.elements) == 1 and fold.elements[0].type == product.result.type
    cheap = cost.operations((*fold.elements, *fold.kept)) <= LIGHT_BATCHED
    axes = _axes(read, rank)  # of the product, by axis stored
    if not (one and cheap and axes) or sources(fold.kept[0]) is None:
        return None
    domain = [axes[fold.order.index(d)] for d in range(rank)]  # of the product, by axis folded
    if len(fold.outer) != rank - 1 or domain[-1] != rank - 1 - side:
        return None
    others = [e for e in product.inputs() if e != Leaf(fold, read.component)]
    if fold in set(topological(others)):
        return None
    (value,) = _moved(fold.kept, domain)
    operands = (product.left, value) if side else (value, product.right)
    return _made(StoringMatmul, product, fold, (fold, product), operands, product.epilogue,
                 fold.elements, domain, side, fold.names[0], tuple(axes))  # fmt: skip


def _made(kind: type[Made], product: Matmul, fold: Fold | StoringFold, order: tuple[Node, Node],
          operands: tuple[Expr, Expr], epilogue: tuple[Expr, ...], elements: tuple[Expr, ...],
          domain: Sequence[int], *more: int | Var | tuple[int, ...]) -> Made | None:  # fmt: skip
    """The merged node, if the fold has the extents of the product's axes `domain`."""
    (first, second), values = order, _moved(elements, domain)
    made = kind(
        product.batch, product.m, product.n, product.k, *operands, product.options, product.result,
        epilogue, values, fold.combine, fold.init, fold.results, fold.epilogue, tuple(domain[:-1]),
        *more, label=product.label, where=product.where,
        checks=tuple(dict.fromkeys((*first.checks, *second.checks))),
        fused=(*product.fused, (fold.label, fold.where), *fold.fused),
    )  # fmt: skip
    return made if tuple(made.space[a] for a in domain) == fold.iteration_space() else None


def _moved(values: Sequence[Expr], domain: Sequence[int]) -> tuple[Expr, ...]:
    """Expressions over the fold's axes, rewritten over the axes of the product's space."""
    return substitute(values, {Index(d): Index(a) for d, a in enumerate(domain)})
