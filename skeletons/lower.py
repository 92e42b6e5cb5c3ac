"""`lower`: from a node of the array graph to kernels."""

from __future__ import annotations

from treadle.dsl.graph import Fold, FoldSeg, Generate, Matmul, Node, Permute, Scan

from .fold import lower_fold, lower_fold_seg
from .generate import lower_generate
from .kernel.build import LoweringContext, Site, Stride
from .kernel.ir import Lowered
from .matmul import lower_matmul
from .permute import lower_permute
from .scan import lower_scan

__all__ = ["LoweringContext", "Site", "Stride", "lower"]


def lower(node: Node, context: LoweringContext | None = None) -> Lowered:
    """The kernels that compute `node`, in order, with the scratch memory between them.

    Arrays that the node reads are input buffers, whoever computes them; its own components are
    output buffers (for a Permute "update" buffers, which hold the defaults when the first kernel
    starts).  Library, Barrier, ArrayLoop and Branch are the executor's: `TypeError`.
    """
    context = context or LoweringContext()
    if context.target == "cuda":
        from .gpu.lower import lower as lower_for_gpu

        return lower_for_gpu(node, context)
    match node:
        case Generate():
            return lower_generate(node, context)
        case Fold():
            return lower_fold(node, context)
        case FoldSeg():
            return lower_fold_seg(node, context)
        case Scan():
            return lower_scan(node, context)
        case Permute():
            return lower_permute(node, context)
        case Matmul():
            return lower_matmul(node, context)
    raise TypeError(f"{type(node).__name__} is not lowered to kernels")
