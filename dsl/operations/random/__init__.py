"""`td.random`: random numbers as functions of a key and an index.

Philox 4×32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3; 2011) maps
a counter of four words and a key of two to four random words.  There is no state: element i of an
array takes its words from the block of its own number, so arrays of random numbers are element-wise
operations like any other, fused with what surrounds them and computed in any order.
"""

from .choices import choice, permutation, shuffle
from .distributions import beta, exponential, gamma, normal, poisson
from .philox import fold_in, key, split
from .uniforms import bits, integers, uniform

__all__ = ["beta", "bits", "choice", "exponential", "fold_in", "gamma", "integers", "key", "normal",
           "permutation", "poisson", "shuffle", "split", "uniform"]  # fmt: skip
