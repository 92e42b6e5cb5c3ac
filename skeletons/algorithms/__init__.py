"""Matrix-multiplication algorithms as data, and what follows from their tables.

tables        bilinear algorithms, Brent's equations, composition
primitives    instances of the fused primitive, their variants, dependency stages
sequences     straight-line programs over blocks: sums in memory, few temporaries
counts        operations, memory transactions and volume of those programs, in closed form
error         bounds on the rounding error
"""

from .error import error_bound, growth
from .primitives import Instance, Stage, instances, stages, variants
from .tables import (
    LADERMAN,
    NAMED,
    STANDARD,
    STRASSEN,
    WINOGRAD,
    BilinearAlgorithm,
    power,
)

__all__ = [
    "LADERMAN",
    "NAMED",
    "STANDARD",
    "STRASSEN",
    "WINOGRAD",
    "BilinearAlgorithm",
    "Instance",
    "Stage",
    "error_bound",
    "growth",
    "instances",
    "power",
    "stages",
    "variants",
]
