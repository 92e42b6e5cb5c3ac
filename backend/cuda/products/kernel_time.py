"""The time of a product by the kernel of the skeletons (skeletons/products/kernel_gpu.py).

Fitted to products of float32 and int32 with bias and relu on an NVIDIA H200, queued behind other
work (benchmarks/matmul/NOTES.md, "Layers"): squares from 16 to 2 048, 64 × 4 096 × 4 096 and
similar ones, 4 096 × 16 × 4 096, 65 536 × 64 × 64, within a third.
"""

from __future__ import annotations

from math import inf

from treadle.dsl.types import ScalarType, float64
from treadle.skeletons.products.kernel_gpu import TENSOR, tiles
from treadle.skeletons.products.model import Machine
from treadle.skeletons.products.scalars import sum_type

from .form import capability

#: Seconds of a wave of blocks in addition to its steps, and of eight rows of a step, whose operands
#: come from the L2 cache, one step ahead.  The addition to a step for computing an operand.
FIXED, STEP, COMPUTED = 3.2e-6, 0.5e-6, 0.13e-6
#: The fraction of peak multiply-adds that full multiprocessors reach, of floats and of integers.
FLOATS, INTEGERS = 0.73, 0.9
#: Warps of small blocks that are resident on a multiprocessor.
WARPS = 32


def kernel_seconds(t: ScalarType, size: tuple[int, int, int], on: Machine, computed: int = 0,
                count: int = 1) -> float:  # fmt: skip
    """Seconds of `count` (m, k) by (k, n) products of a type; `computed`: computed operands."""
    m, k, n = size
    processors = on.processors
    of = sum_type(t)
    sides = [(x, x.span(0, of), x.span(1, of)) for x in tiles(of)]
    counts = [count * -(-m // rows) * -(-n // cols) for _, rows, cols in sides]
    number = next(  # the order in which the kernel's variants are tried
        (x for x, (_, rows, cols) in enumerate(sides[:-1])
         if counts[x] >= processors // 2 and rows // 2 <= m and cols // 2 <= n),
        len(sides) - 1,
    )  # fmt: skip
    (tile, rows, cols), blocks = sides[number], counts[number]
    each = -(-blocks // processors)
    steps = -(-k // tile.depth)
    step = (STEP if number == len(sides) - 1 else 1.25 * STEP) + COMPUTED * computed
    resident = tile.resident or max(WARPS * 32 // tile.threads, 1)
    waiting = max(each / resident, 1.0) * (FIXED + steps * step * tile.depth / 8)
    lanes = {4: 128, 8: 64, 16: 16}[of.bytes] / 2.0
    if of.is_inexact:  # twice as many, but at compute capability 8.0
        lanes *= on.fma / processors / on.clock / 64
    rate = lanes * on.clock * (FLOATS if of.is_inexact else INTEGERS)
    issuing = FIXED + each * steps * tile.depth * rows * cols / rate
    moved = count * t.bytes * (m * k + k * n + m * n)
    return max(waiting, issuing) + moved / on.memory


#: Multiply-adds of float64 that the tensor cores of a multiprocessor do in a clock, by compute
#: capability, where these are made for it; the fraction of them that the kernel reaches; seconds in
#: which a wave of blocks begins and ends.
TENSOR64 = {80: 64, 90: 128}
REACHED, WAVE = 0.5, 5e-6


def tensor_seconds(size: tuple[int, int, int], on: Machine, arch: str, computed: int, count: int
                   ) -> float:  # fmt: skip
    """Seconds of `count` (m, k) by (k, n) products of float64 on tensor cores; `computed`: elements
    that are not in memory, as they are computed from smaller arrays, or only folded."""
    rate = TENSOR64.get(capability(arch))
    if rate is None:
        return inf
    m, k, n = size
    shapes = [(x.span(0, float64), x.span(1, float64)) for x in TENSOR]
    rows, cols = next((x for x in shapes if 3 * x[0] <= 4 * m and 3 * x[1] <= 4 * n), shapes[-1])
    depth = TENSOR[0].depth
    inside = count * -(-m // rows) * rows * -(-n // cols) * cols * -(-k // depth) * depth
    multiplying = inside / (rate * REACHED * on.processors * on.clock)
    moved = 8 * (count * (m * k + k * n + m * n) - computed) / on.memory
    return max(multiplying, moved) + 2 * WAVE
