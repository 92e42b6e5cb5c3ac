"""Linear algebra of many small matrices on a CPU: the kernel of a library operation."""

from __future__ import annotations

from treadle.dsl.graph import Library

from ..ir.kernel import Lowered
from ..lower.build import Builder, LoweringContext
from .lanes import Lanes
from .lanes_elimination import Cholesky, Elimination, Triangular
from .lanes_orthogonal import QR, Eigh
from .small import has_kernel

KERNELS: dict[str, type[Lanes]] = {
    "linalg.inv": Elimination,
    "linalg.solve": Elimination,
    "linalg.solve_triangular": Triangular,
    "linalg.lu": Elimination,
    "linalg.cholesky": Cholesky,
    "linalg.qr": QR,
    "linalg.eigh": Eigh,
}


def lower_linalg(node: Library, context: LoweringContext) -> Lowered:
    """One kernel."""
    if not has_kernel(node):
        raise TypeError(f"{node.operation.name} is a library's")
    builder = Builder(node, context)
    return builder.lowered(KERNELS[node.operation.name](builder, node).kernel())
