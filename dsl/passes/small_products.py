"""unroll_small_products: products and sums of a few elements become expressions.

    loop(n, lambda k, p: f @ p + q, p₀)  of matrices of 4 × 4   →   16 elements, sums of 4 terms

A product of tiny matrices takes less time than calling the kernel or library that computes it.  If
everything that changes from iteration to iteration has a few elements, the loop becomes one kernel
whose iterations are straight-line code (`sequences.py`), in which a product is the sums of its
elements: from the left, with one rounding per term, as in the kernel for small products.
(Invariant arrays, such as the row that an inner loop walks along, are computed before the loop.)

    max(exp(−(p @ q.T)), axis=1)  of points of 3 coordinates   →   Σ over k < 3 inside the maximum

A product of large matrices with an inner axis of a few elements is bound by writing its result to
memory: as sums, each with the bits of the library's, it is computed where it is read.

Extents must be constants, which `dsl/operations/` requests for products in loops and for short
inner axes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..analysis.combines import identities
from ..analysis.short_extents import SHORT_AXIS, TINY
from ..expr import Const, Expr, Index, constant, primitive, substitute
from ..graph import ArrayLoop, Fold, Generate, Leaf, Matmul, Node, Permute, known, topological
from ..graphs.rebuild import replace_nodes
from ..simplify import apply
from .base import Context
from .short_axes import is_free, is_plain, unrolled

#: The most elements of an array that is computed in straight-line code.
FEW = TINY * TINY
#: The most operations of an iteration in straight-line code.
LARGEST = 4000


def unroll_small_products(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    """The graph with products of few columns by few rows as expressions, as well as products and
    folds of few elements in loops whose iterations compute nothing else.  CPU only, which runs such
    a loop as one kernel."""
    order = list(topological(roots))
    if not context.target.cores or context.settings.check:
        return list(roots)
    chosen = {n for loop in order if isinstance(loop, ArrayLoop) for n in _unrolled(loop)}
    chosen |= {n for n in order if isinstance(n, Matmul) and _is_thin(n)}
    if not chosen:
        return list(roots)

    def change(node: Node, made: Node) -> Node:
        if node not in chosen:
            return made
        return unrolled(made) if isinstance(made, Fold) else _product(made)

    return replace_nodes(roots, change, context.kept)


def _unrolled(loop: ArrayLoop) -> list[Node]:
    """The products and folds of an iteration, if everything that it changes has few elements."""
    order = [*topological(loop.inner_roots())]
    changing = loop.varying(order).difference(loop.bound)
    kinds = Generate | Permute | Fold | Matmul
    if loop.changing() or not all(isinstance(n, kinds) for n in changing):
        return []
    found: list[Node] = []
    work = 0
    for node in changing:
        space: tuple[Expr | None, ...] = node.iteration_space()
        if isinstance(node, Matmul):
            space = (*node.batch, node.m, node.n, node.k)
        sizes = [None if e is None else known(e) for e in space]
        if None in sizes:
            return []
        terms = math.prod(map(int, sizes))  # type: ignore[arg-type]
        work += terms
        if isinstance(node, Matmul | Fold):
            few = all(0 < int(n) <= FEW for n in sizes if n is not None)
            if not few or not _is_plain(node):
                return []
            found.append(node)
        elif terms > FEW:
            return []
    return found if work <= LARGEST else []


def _is_thin(node: Matmul) -> bool:
    """Whether this is a product of floats with an inner axis of a few elements."""
    few = isinstance(node.k, Const) and 0 < int(node.k.value) <= SHORT_AXIS
    return few and not node.batch and node.left.type.is_float and _is_plain(node)


def _is_plain(node: Matmul | Fold) -> bool:
    """Whether nothing fixes another way to compute it, now or later by its name."""
    if isinstance(node, Fold):
        return is_plain(node) and identities(node.combine) is not None
    t = node.left.type
    # Sums of other types have a wider accumulator (`skeletons/products/elements.py`).
    wide = t.is_inexact or (t.is_integer and t.bits >= 32)
    return is_free(node) and node.options.open and wide and not t.is_narrow


def _product(node: Node) -> Generate:
    assert isinstance(node, Matmul)
    lead, t = len(node.batch), node.left.type
    total: Expr = Const(0, t)
    for k in range(int(known(node.k) or 0)):
        (a,) = substitute((node.left,), {Index(lead + 1): constant(k)})
        (b,) = substitute((node.right,), {Index(lead): constant(k)})
        if t.is_float:
            total = apply(primitive("fma"), (a, b, total), t)
        else:
            total = apply(primitive("add"), (total, apply(primitive("multiply"), (a, b), t)), t)
    stored = substitute(node.epilogue, {node.result: total})
    return Generate((*node.batch, node.m, node.n), stored, label=node.label, where=node.where,
                    checks=node.checks)  # fmt: skip
