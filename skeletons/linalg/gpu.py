"""Linear algebra of many small matrices on a GPU: the kernel of a library operation."""

from __future__ import annotations

from treadle.dsl.graph import Library

from ..ir.kernel import Lowered
from ..lower.build import Builder, LoweringContext
from .small import ELIMINATIONS, has_kernel
from .warps import Warps
from .warps_columns import QR, Eigh
from .warps_rows import Rows

KERNELS: dict[str, type[Warps]] = {
    **dict.fromkeys(ELIMINATIONS, Rows),
    "linalg.qr": QR,
    "linalg.eigh": Eigh,
}


def lower_linalg(node: Library, context: LoweringContext) -> Lowered:
    """One kernel, with a variant for data that is not aligned."""
    if not has_kernel(node):
        raise TypeError(f"{node.operation.name} is a library's")
    builder = Builder(node, context)
    return builder.lowered(KERNELS[node.operation.name](builder, node).variants())
