"""Which matrix products count as small, and how much of one a thread computes.

`small_gpu`, `small_tensor`, `small_staged` and `small_cpu` have the kernels, for many products
whose extents are compile-time constants.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt, prod

from treadle.dsl.graph import Input, Matmul, topological
from treadle.dsl.records import dataclass
from treadle.dsl.types import ScalarType

from .elements import sum_type

#: The largest extents for which a GPU uses the kernels (measured on an NVIDIA H200,
#: benchmarks/matmul/batched.py): for 16-bit floats, for types with 32-bit sums, and for wider ones.
#: PLAIN…: for floats that a library multiplies too, with nothing fused.  ODD…: if the extent of a
#: row is odd, so that it has no vectors.  (Of those, 33 × 33 in float32 takes 0.37 times as long as
#: the library, 63 × 63 1.12 times.)
LARGEST_HALF, LARGEST, LARGEST_WIDE = 112, 64, 48
PLAIN_HALF, PLAIN, PLAIN_WIDE = 100, 64, 28
ODD_HALF, ODD, ODD_WIDE = 16, 48, 16
#: The least extents from which operands are staged in shared memory: for 16-bit floats on tensor
#: cores, and for types with 32-bit sums.
STAGED_HALF, STAGED = 33, 17
#: A GPU uses the kernels for at least MANY products, or for any number with extents up to FEW.
MANY, FEW = 64, 16
#: The least m·n·k for which tensor cores are faster than multiply-adds.
LEAST = 12**3
#: The most sums of a thread, for 16-bit and for other elements; the most bytes it loads at once.
SUMS_HALF, SUMS, LOADED = 16, 32, 512
#: The most elements in a vector of columns.
VECTOR = 4


@dataclass(frozen=True)
class Tile:
    """What a thread computes: `rows` × `columns` of a product, `chunk` elements of k at a time;
    `left` and `right` are the vector lengths of loads along k and along a row of the right operand.

    Neighbouring lanes have neighbouring rows and vectors of columns; the rows of one thread are m /
    rows apart.
    """

    rows: int
    columns: int
    chunk: int
    left: int
    right: int

    def lanes(self, m: int, n: int) -> int:
        return (m // self.rows) * (n // self.columns)


def on_gpu(t: ScalarType, sizes: Sequence[int], count: int, plain: bool = False) -> bool:
    """Whether a GPU uses the kernels for small products; `plain`: nothing is fused into them."""
    half, wide = t.is_float and t.bits == 16, sum_type(t).bytes > 4
    if sizes[-1] % 2:
        limits = ODD_HALF, ODD_WIDE, ODD
    elif plain and t.is_inexact:
        limits = PLAIN_HALF, PLAIN_WIDE, PLAIN
    else:
        limits = LARGEST_HALF, LARGEST_WIDE, LARGEST
    most = limits[0 if half else 1 if wide else 2]
    return min(sizes) > 0 and max(sizes) <= most and (count >= MANY or max(sizes) <= FEW)


def on_tensor_cores(t: ScalarType, m: int, n: int, k: int) -> bool:
    """Whether tensor cores compute a small product of these extents."""
    return t.is_float and t.bits == 16 and m * n * k >= LEAST and n % 2 == 0


def staged(t: ScalarType, m: int, n: int, k: int) -> bool:
    """Whether the operands of a small product are staged in shared memory."""
    if on_tensor_cores(t, m, n, k):
        return max(m, n, k) >= STAGED_HALF
    return sum_type(t).bytes == 4 and max(m, n, k) >= STAGED


def tile_for(m: int, n: int, k: int, t: ScalarType, left: int, right: int) -> Tile:
    """The tile for an (m, k) by (k, n) product with operands of type `t`, for vectors of at most
    `left` elements along k and `right` along n.

    A thread has at most √(m·n) sums, so that the lanes of a product cover consecutive memory.

    >>> from treadle.dsl.types import float32
    >>> tile_for(8, 8, 8, float32, 4, 4)
    Tile(rows=2, columns=4, chunk=8, left=4, right=4)
    """
    a, b = width(k, left), width(n, min(right, VECTOR))
    most = min(max(isqrt(m * n), b), SUMS_HALF if t.bytes <= 2 else SUMS)
    widths = [b] if b > 1 else [c for c in _divisors(n) if c <= max(VECTOR, 5)]
    rows, columns = max(((r, c) for r in _divisors(m) for c in widths if r * c <= most),
                        key=lambda x: (x[0] * x[1], x[1]))  # fmt: skip
    size = sum_type(t).bytes
    fit = [c for c in _divisors(k) if c % a == 0 and c * (rows + columns) * size <= LOADED]
    return Tile(rows, columns, max(fit, default=a), a, b)


@dataclass(frozen=True)
class Share:
    """What a thread computes of a product whose operands are in shared memory: `rows` rows, and
    `columns` columns in vectors, both evenly spaced over the product; `deep` elements of k are
    loaded together."""

    rows: int
    columns: int
    vector: int
    deep: int

    def grid(self, m: int, n: int) -> tuple[int, int]:
        return -(-m // self.rows), -(-n // self.columns)

    def lanes(self, m: int, n: int) -> int:
        down, across = self.grid(m, n)
        return down * across


#: The most sums of such a thread; the cost of a load from shared memory, in multiply-adds.
SUMS_STAGED, LOAD = 72, 3
#: Products with more than SPREAD results use at least WARPS warps, one per scheduler of a
#: multiprocessor, so that every scheduler has work while some blocks wait for memory.
SPREAD, WARPS = 36 * 36, 4


def share_for(m: int, n: int, k: int) -> Share:
    """The share with the fewest instructions over all warps of a product, including idle lanes; on
    a tie, the one with the fewest vectors of columns: a warp stores longer parts of rows.

    >>> share_for(64, 64, 64)
    Share(rows=8, columns=4, vector=4, deep=4)
    """
    vector, deep = width(n, VECTOR), width(k, 4)

    def cost(s: Share) -> tuple[float, int, int]:
        each = s.rows * s.columns + LOAD * (s.rows / deep + s.columns / vector)
        return -(-s.lanes(m, n) // 32) * each, s.rows * s.columns, s.columns

    shares = [Share(r, c, vector, deep) for r in range(2, 13) for c in range(vector, 13, vector)
              if r * c <= SUMS_STAGED]  # fmt: skip
    spread = [s for s in shares if s.lanes(m, n) > 32 * (WARPS - 1)] if m * n > SPREAD else []
    return min(spread or shares, key=cost)


def _divisors(n: int) -> list[int]:
    return [d for d in range(1, n + 1) if n % d == 0]


def width(extent: int, most: int) -> int:
    """The largest power of two that divides `extent`, at most `most`."""
    return min(extent & -extent, most)


#: The largest extents for which a CPU uses its kernel: beyond them a library is as fast.  With
#: complex elements, only MANY products on CPU_SPREAD threads are faster (a library computes them
#: one after the other).  The kernel computes at least SEVERAL products, or fewer if m·n·k is at
#: most LONE, where the call of a library costs as much as the arithmetic.  In loops it computes all
#: of these, and products as large with extents up to CPU_LONGEST: loops without library calls run
#: as native code.
CPU_LARGEST_COMPLEX, CPU_LARGEST, CPU_LONGEST = 4, 64, 256
CPU_SPREAD, SEVERAL, LONE = 4, 4, 32**3


def repeated(node: Matmul) -> bool:
    """Whether a product is computed in every iteration of a loop."""
    return any(isinstance(n, Input) and n.kind in ("state", "counter")
               for n in topological(tuple(node.inputs())))  # fmt: skip


def on_cpu(t: ScalarType, sizes: Sequence[int], count: int, looped: bool = False,
           threads: int = CPU_SPREAD) -> bool:  # fmt: skip
    """Whether a CPU computes `count` products with extents m, k, n by the kernel for small ones, on
    `threads` threads; `looped`: in every iteration of a loop."""
    shared = threads >= CPU_SPREAD and count >= MANY and not looped
    most = CPU_LARGEST if shared or not t.is_complex else CPU_LARGEST_COMPLEX
    longest = CPU_LONGEST if looped and not t.is_complex else most
    small = min(sizes) > 0 and max(sizes) <= longest and prod(sizes) <= most**3
    return small and (looped or count >= SEVERAL or prod(sizes) <= LONE)


#: The most rows and columns for which a CPU uses its kernels for a long inner axis.
CPU_TALL = 32


def is_tall(t: ScalarType, m: int, n: int) -> bool:
    """Whether a CPU computes m × n products of floats by the kernels for a long inner axis."""
    return t.is_float and 0 < m <= CPU_TALL and 1 < n <= CPU_TALL


#: The most rows for which a CPU uses its kernels for a large right operand, and the fewest columns
#: and elements of that operand.
CPU_WIDE, LEAST_COLUMNS, LEAST_ELEMENTS = 8, 256, 1 << 16


def is_wide(t: ScalarType, m: int, k: int, n: int) -> bool:
    """Whether a CPU computes a product of few rows by the kernels that read the right operand once;
    a library would pack it first."""
    large = n >= LEAST_COLUMNS and k * n >= LEAST_ELEMENTS
    return t.is_float and 1 < m <= CPU_WIDE and large


def reads_once(t: ScalarType, m: int, k: int, n: int) -> bool:
    """Whether a CPU computes a product by kernels that read the rows of the right operand once."""
    return is_tall(t, m, n) or is_wide(t, m, k, n)
