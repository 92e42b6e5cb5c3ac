"""Matrix products: algorithms as coefficient tables, kernels, and predicted times and errors.

tables        bilinear algorithms, Brent's equations, composition primitives    instances of the
fused primitive, their variants, dependency stages sequences     straight-line programs over blocks:
sums in memory, few temporaries, passes counted executions    how products are combined in C, on
arrays of any library scaling       powers of two for badly scaled operands model         predicted
times;  measured: corrected by measurements error         bounds on the rounding error, and typical
errors kernel_…      products by the skeletons' kernels;  small…: many small products elements
what these kernels share: operands and results by index sums_cpu      the kernel for sums of blocks
on a CPU epilogue      a product without its epilogue, and a kernel for that
"""

from ..products.error import ErrorBound, bound_factor, error_bound, growth
from ..products.primitives import Instance, Stage, instances, stages, variants
from ..products.tables import (
    LADERMAN,
    NAMED,
    STANDARD,
    STRASSEN,
    WINOGRAD,
    BilinearAlgorithm,
    algorithm_of,
    power,
)

__all__ = ["LADERMAN", "NAMED", "STANDARD", "STRASSEN", "WINOGRAD", "BilinearAlgorithm",
           "ErrorBound", "Instance", "Stage", "algorithm_of", "bound_factor", "error_bound",
           "growth", "instances", "power", "stages", "variants"]  # fmt: skip
