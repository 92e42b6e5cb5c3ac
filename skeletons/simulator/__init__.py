"""A cache simulator: the effect of an order of threads on the cache lines of an access pattern.

patterns    the addresses that outputs access, in order: a trace
cache       caches and their policies, as values
engines     the policies applied to traces, compiled
programs    the patterns of programs
simulation  hits, misses, evictions, compulsory and optimal misses
diagrams    pictures (matplotlib)
thumbnails  small pictures for notebooks
"""

from treadle.skeletons.schedules import Layer

from .cache import Cache, Lru, RandomFour, Sectored, SetAssociative, StepLru
from .diagrams import plot_order, plot_predictions, plot_sweep, plot_tuning
from .patterns import Pattern, Placed, Trace, matmul_pattern, stencil_pattern, transpose_pattern
from .simulation import Simulation, cache_needed, capacity_sweep, line_loads, simulate
from .thumbnails import pictured as _pictured

__all__ = ["Cache", "Lru", "Pattern", "Placed", "RandomFour", "Sectored", "SetAssociative",
           "Simulation", "StepLru", "Trace", "cache_needed", "capacity_sweep", "line_loads",
           "matmul_pattern", "plot_order", "plot_predictions", "plot_sweep", "plot_tuning",
           "simulate", "stencil_pattern", "transpose_pattern"]  # fmt: skip

Layer._pictured = _pictured
