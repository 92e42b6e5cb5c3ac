"""`lower` for a GPU: from a node of the array graph to kernels whose tasks are thread blocks."""

from __future__ import annotations

from treadle.dsl.graph import Fold, FoldSeg, Generate, Matmul, Node, Permute, Scan
from treadle.skeletons.kernel.build import LoweringContext
from treadle.skeletons.kernel.ir import Lowered

from .fold import lower_fold, lower_fold_seg
from .generate import lower_generate
from .matmul import lower_matmul
from .permute import lower_permute
from .scan import lower_scan


def lower(node: Node, context: LoweringContext) -> Lowered:
    """See `skeletons.lower.lower`."""
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
