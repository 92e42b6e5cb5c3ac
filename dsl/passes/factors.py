"""factor_in_place: on a GPU, cuSOLVER computes Cholesky factors in place.

    cholesky(a, upper=True)   →   where(i ≤ j, potrf(a)[i, j], 0), NaN where that fails
    cholesky(a)               →   where(j ≤ i, potrf(aᵀ)[j, i], 0)

`potrf` computes the upper factor of matrices in row-major order and leaves the other triangle
unchanged.  The operation that clears that triangle fuses with the factor's readers, and the
transpose with the matrix's producer.  Matrices that treadle's own kernels factor are left alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis.combines import simple_combine
from ..expr import TRUE, Const, Index
from ..graph import Fold, Generate, Label, Leaf, Library, Node, Output, indices, topological
from ..graphs.rebuild import rewrite_graph
from ..libraries.linalg import library_operation
from ..operations.algebra.decompositions import KERNELS
from ..scalar import apply_primitive
from ..simplify import cast, select
from ..types import bool_, int32
from .base import Context


def factor_in_place(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    """Replace Cholesky factors by those in place, on a GPU."""
    if not context.target.gpu or not any(_is_factor(n) for n in topological(roots)):
        return list(roots)

    def change(node: Node) -> Node | Sequence[Leaf]:
        return _factor(node) if isinstance(node, Library) and _is_factor(node) else node

    return rewrite_graph(roots, change, context.kept)


def _is_factor(node: Node) -> bool:
    if not isinstance(node, Library) or node.operation.name != "linalg.cholesky":
        return False
    (upper,), n = node.operation.parameters, node.outs[0].shape[-1]
    return upper or not (isinstance(n, Const) and 0 < int(n.value) <= KERNELS)


def _factor(node: Library) -> Sequence[Leaf]:
    """The factors, and a mask of the matrices for which factorisation failed."""
    (upper,), (given,) = node.operation.parameters, node.arguments
    shape, t, label = node.outs[0].shape, node.outs[0].type, Label("linalg.cholesky")
    *lead, i, j = indices(len(shape))
    if not upper:
        turned = (given.at(*lead, j, i),)
        given = Generate(shape, turned, label=Label("transpose"), where=node.where).leaf()
    raw, info = Library(
        library_operation("potrf", ()), (given,), (Output(shape, t), Output(shape[:-2], int32)),
        label=node.label, where=node.where, checks=node.checks,
    ).leaves  # fmt: skip
    k = Index(len(lead))
    real = apply_primitive("real", [raw.at(*lead, k, k)])
    positive = Fold(
        shape[:-2], shape[-1:], (apply_primitive("greater", [real, Const(0.0, real.type)]),),
        simple_combine("logical_and", bool_), (TRUE,), label=label, where=node.where,
    ).leaf()  # fmt: skip
    failed = [apply_primitive("not_equal", [info.at(*lead), Const(0, int32)]),
              apply_primitive("logical_not", [positive.at(*lead)])]  # fmt: skip
    bad = apply_primitive("logical_or", failed)
    flags = Generate(shape[:-2], (bad,), label=label, where=node.where).leaf()
    row, column = (i, j) if upper else (j, i)
    there = apply_primitive("less_equal", [row, column])
    kept = select(there, raw.at(*lead, row, column), cast(Const(0.0, real.type), t))
    nan = cast(Const(float("nan"), real.type), t)
    made = Generate(shape, (select(flags.at(*lead), nan, kept),), label=label, where=node.where)
    return made.leaf(), flags
