"""A simulator of caches: what an order of threads does to the lines of an access pattern.

patterns    who reads which addresses, in which order: a trace
cache       caches and their policies, as values
engines     the policies on traces, compiled
simulation  hits, misses, evictions, compulsory and optimal misses; diagrams
"""

from .cache import Cache, Lru, RandomFour, Sectored, SetAssociative, StepLru
from .patterns import Pattern, Trace, matmul_pattern, stencil_pattern, transpose_pattern
from .simulation import Simulation, capacity_sweep, simulate

__all__ = [
    "Cache",
    "Lru",
    "Pattern",
    "RandomFour",
    "Sectored",
    "SetAssociative",
    "Simulation",
    "StepLru",
    "Trace",
    "capacity_sweep",
    "matmul_pattern",
    "simulate",
    "stencil_pattern",
    "transpose_pattern",
]
