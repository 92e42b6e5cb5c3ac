"""Times of square products that were measured, and predictions corrected by them.

Milliseconds by extent, as committed under benchmarks/matmul/results: medians of events, random
normal data, cuBLAS and CuPy ("library") in the same run.  A prediction for other extents is
multiplied by measured over predicted at the square of the same volume, between measured sizes by
interpolating logarithms; outside them the nearest one's ratio holds.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from functools import lru_cache
from math import ceil, exp, inf, log

from .at_once import passes_at_once
from .model import (
    H200,
    HOPPER_FLOAT32,
    HOPPER_FLOAT64,
    HOPPER_LIMBS,
    EngineCost,
    Machine,
    Size,
    predict,
    predict_in_memory,
    predict_two_levels,
)
from .tables import STRASSEN

Table = dict[str, dict[int, float]]

MEASURED: dict[tuple[str, str], Table] = {
    ("NVIDIA H200", "Float32"): {
        "library": {
            256: 0.007379,
            384: 0.01013,
            512: 0.01326,
            640: 0.02282,
            768: 0.03318,
            896: 0.04151,
            1024: 0.05612,
            1280: 0.1202,
            1536: 0.18636,
            1792: 0.2834,
            2048: 0.34164,
            3072: 1.28097,
            4096: 2.71525,
            6144: 9.1443,
            8192: 22.3598,
            12288: 74.3549,
            16384: 166.422,
            20480: 340.288,
        },
        "standard owner": {
            256: 0.04474,
            384: 0.0677,
            512: 0.08305,
            640: 0.1067,
            768: 0.12176,
            896: 0.1462,
            1024: 0.1597,
            1280: 0.2009,
            1536: 0.23687,
            1792: 0.284,
            2048: 0.31628,
            3072: 1.40024,
            4096: 2.5055,
            6144: 8.35395,
            8192: 20.3007,
            12288: 65.0394,
            16384: 157.461,
            20480: 305.888,
        },
        "standard split": {
            256: 0.05076,
            384: 0.1097,
            512: 0.09147,
            640: 0.09622,
            768: 0.06345,
            896: 0.07699,
            1024: 0.06901,
            1280: 0.09795,
            1536: 0.14413,
            1792: 0.2289,
            2048: 0.32317,
            3072: 1.05101,
            4096: 2.49061,
            6144: 8.26459,
            8192: 19.9401,
            12288: 66.0834,
            16384: 157.51,
            20480: 312.111,
        },
        "standard atomic": {
            256: 0.01329,
            384: 0.01956,
            512: 0.01767,
            640: 0.03362,
            768: 0.02955,
            896: 0.0502,
            1024: 0.0511,
            1280: 0.09058,
            1536: 0.14099,
            1792: 0.225,
            2048: 0.3174,
            3072: 1.04784,
            4096: 2.46904,
            6144: 8.17494,
            8192: 19.3662,
            12288: 64.9583,
            16384: 155.741,
            20480: 302.531,
        },
        "strassen owner": {
            512: 0.31933,
            768: 0.49464,
            1024: 0.59565,
            1536: 0.86731,
            2048: 1.15749,
            3072: 1.69757,
            4096: 2.31517,
            6144: 10.043,
            8192: 18.26,
            12288: 60.3375,
            16384: 154.247,
            20480: 293.613,
        },
        # of 22 November, scaled by what "strassen atomic" took then
        "strassen persistent": {
            2048: 0.372,
            3072: 1.044,
            4096: 2.4356,
            6144: 7.896,
            8192: 18.62,
        },
        "strassen atomic": {
            256: 0.02679,
            384: 0.03979,
            512: 0.02117,
            640: 0.05341,
            768: 0.05378,
            896: 0.08401,
            1024: 0.05585,
            1280: 0.1179,
            1536: 0.13807,
            1792: 0.2684,
            2048: 0.30206,
            3072: 0.98045,
            4096: 2.28816,
            6144: 7.45021,
            8192: 17.8009,
            12288: 60.1783,
            16384: 145.896,
            20480: 288.585,
        },
        "two levels atomic": {
            512: 0.2342,
            768: 0.39658,
            1024: 0.20344,
            1536: 0.56294,
            2048: 0.50876,
            3072: 1.1134,
            4096: 2.41899,
            6144: 7.38341,
            8192: 17.1269,
            12288: 56.4137,
            16384: 131.176,
            20480: 255.252,
        },
        "two levels owner": {
            512: 1.87749,
            768: 2.79871,
            1024: 2.43071,
            1536: 3.86989,
            2048: 4.39798,
            3072: 6.33804,
            4096: 8.48813,
            6144: 12.5166,
            8192: 17.7848,
            12288: 74.4585,
            16384: 133.453,
            20480: 279.065,
        },
    },
    ("NVIDIA H200", "Int32"): {
        "library": {
            1024: 0.27834,
            2048: 0.7921,
            4096: 6.15277,
            8192: 50.1769,
        },
        "standard owner": {
            1024: 0.2733,
            2048: 0.54334,
            4096: 4.32496,
            8192: 34.4904,
            16384: 271.225,
        },
        "standard atomic": {
            1024: 0.09809,
            2048: 0.55852,
            4096: 4.27322,
            8192: 33.7288,
            16384: 268.683,
        },
        "strassen owner": {
            1024: 1.02168,
            2048: 1.98207,
            4096: 3.9705,
            8192: 31.0511,
            16384: 246.666,
        },
        "strassen atomic": {
            1024: 0.12048,
            2048: 0.53907,
            4096: 3.93168,
            8192: 30.4097,
            16384: 240.793,
        },
    },
}
"""By device and arithmetic, then variant ("standard split", "two levels atomic"), then extent."""

# int32 by limbs; its "library" is the kernel that runs without an engine.  The recursive executions
# at 4096 were bound by the host, which launched them one by one: they do not count.
LIMBS: Table = {
    "library": {
        128: 0.013, 256: 0.0191, 512: 0.0356, 1024: 0.0934, 2048: 0.6004,
    },
    "standard owner": {
        256: 0.01457, 512: 0.02348, 768: 0.03263, 1024: 0.04087, 2048: 0.159, 4096: 1.316,
        8192: 9.975, 16384: 80.36,
    },
    "standard atomic": {
        256: 0.01744, 512: 0.01814, 768: 0.02202, 1024: 0.03396, 2048: 0.1729, 4096: 1.31,
        8192: 9.618, 16384: 87.45,
    },
    "strassen recursive": {
        2048: 0.3352, 8192: 10.46, 16384: 73.66,
    },
    "strassen atomic": {
        2048: 0.2416, 4096: 1.669, 8192: 14.6, 16384: 130.2,
    },
    "two levels recursive": {
        8192: 12.95, 16384: 77.32,
    },
    "strassen owner": {
        2048: 0.415, 4096: 1.654, 8192: 12.63, 16384: 104.2,
    },
}  # fmt: skip

# float64: cuBLAS, and what was measured beside it in turns, as its time over the ratio.  "batched"
# is over cuBLAS, the others are an engine's.
FLOAT64: Table = {
    "library": {
        1024: 0.04267, 2048: 0.3188, 4096: 2.51, 6144: 8.6, 8192: 20.09, 12288: 70.6,
        16384: 167.8, 20480: 336.0,
    },
    "standard owner": {
        1024: 0.07551, 2048: 0.3163, 4096: 2.586, 8192: 21.32,
    },
    "standard atomic": {
        1024: 0.0573, 2048: 0.3494, 4096: 2.626, 8192: 21.47,
    },
    "strassen hybrid": {
        2048: 0.554, 4096: 2.765, 8192: 20.09,
    },
    "strassen recursive": {
        2048: 0.5657, 4096: 2.805, 8192: 20.4,
    },
    "two levels hybrid": {
        4096: 5.461, 8192: 21.82,
    },
    "strassen batched": {
        2048: 0.5926, 4096: 2.637, 6144: 8.456, 8192: 18.99, 12288: 64.07, 16384: 149.4,
        20480: 297.6,
    },
    "two levels batched": {
        4096: 4.095, 6144: 8.848, 8192: 18.64, 12288: 60.76, 16384: 138.7, 20480: 260.1,
    },
    "strassen owner": {
        2048: 0.9503, 4096: 3.931, 8192: 32.02,
    },
    "strassen atomic": {
        2048: 0.5523, 4096: 4.162, 8192: 33.27,
    },
}  # fmt: skip

MEASURED[H200.name, "Limbs32"] = LIMBS
MEASURED[H200.name, "Float64"] = FLOAT64


def raw(on: Machine, cost: EngineCost, variant: str, size: Size) -> float:
    """The model's own seconds for a variant of the engine."""
    what, mode = variant.rsplit(" ", 1)
    if mode == "batched":
        return _over_library(on, cost, size, LEVELS[what])
    if mode in ("recursive", "hybrid"):
        levels, ahead = LEVELS[what], mode == "hybrid"
        return predict_in_memory(on, cost, size, STRASSEN, levels, ahead).seconds
    if what == "two levels":
        return predict_two_levels(on, cost, size, STRASSEN, STRASSEN, mode).seconds
    return predict(on, cost, size, STRASSEN if what == "strassen" else None, mode).seconds


def _over_library(on: Machine, cost: EngineCost, size: Size, levels: int) -> float:
    """Of Strassen's algorithm over a library's products, all sums of a level at once."""
    m, k, n = size
    if not levels:
        return m * k * n / on.fma
    half = ceil(m / 2), ceil(k / 2), ceil(n / 2)
    counts = {"A": half[0] * half[1], "B": half[1] * half[2], "C": half[0] * half[2]}
    moved = sum(counts[x] * times for x, times in passes_at_once(STRASSEN, levels == 1).items())
    inner = _over_library(on, cost, half, levels - 1)
    return STRASSEN.products * inner + moved * cost.itemsize / on.memory


def corrected(arithmetic: str, variant: str, size: Size, *, on: Machine = H200,
              cost: EngineCost = HOPPER_FLOAT32, without: int | None = None) -> float:  # fmt: skip
    """Seconds of a variant, or of the "library"; `without`: as if that extent were not measured.

    Inf for what was never measured on a machine of the kind.
    """
    known = MEASURED[H200.name, arithmetic].get(variant)
    if known is None:
        return inf
    volume = size[0] * size[1] * size[2]
    if not volume:
        return on.launch
    extent: float = volume ** (1 / 3)
    points = [(log(n), log(_ratio(arithmetic, variant, n))) for n in known if n != without]
    ratio = exp(_between(points, log(extent)))
    if variant == "library":  # its rate at that volume, and what it writes beyond a cube's result
        written = max(size[0] * size[2] - extent**2, 0.0)
        return ratio * volume / on.fma + cost.itemsize * written / on.memory
    return ratio * raw(on, cost, variant, size)


@lru_cache(maxsize=256)
def _ratio(arithmetic: str, variant: str, n: int) -> float:
    """Measured over predicted at a measured extent."""
    on, cost = ceilings(arithmetic)
    found = MEASURED[H200.name, arithmetic][variant][n] / 1e3
    return found / (n**3 / on.fma if variant == "library" else raw(on, cost, variant, (n, n, n)))


def ceilings(arithmetic: str, on: Machine = H200) -> tuple[Machine, EngineCost]:
    """The machine for an arithmetic, and what its engine costs.

    float64 has as many multiply-adds a clock on tensor cores as float32 has outside them, int32
    half as many outside; by limbs a tenth of 4 096 products of bytes a multiprocessor.
    """
    if arithmetic == "Int32":
        return replace(on, fma=on.fma / 2), HOPPER_FLOAT32
    if arithmetic == "Limbs32":
        return replace(on, fma=on.processors * on.clock * 409.6), HOPPER_LIMBS
    return on, HOPPER_FLOAT64 if arithmetic == "Float64" else HOPPER_FLOAT32


def _between(points: list[tuple[float, float]], at: float) -> float:
    places = [x for x, _ in points]
    k = bisect_left(places, at)
    if k == 0:
        return points[0][1]
    if k == len(points):
        return points[-1][1]
    (x, y), (u, v) = points[k - 1], points[k]
    return y + (v - y) * (at - x) / (u - x)


LEVELS = {"library": 0, "standard": 0, "strassen": 1, "two levels": 2}
"""By what a way begins with."""


def levels_of(way: str) -> int:
    """Of a variant or of the library."""
    return LEVELS[way.rsplit(" ", 1)[0]]


def exact(arithmetic: str) -> bool:
    """Whether sums come out the same in any order."""
    return not arithmetic.startswith("Float")


def ways(arithmetic: str, size: Size, *, fast: bool, deterministic: bool, levels: int | None = None,
         on: Machine = H200) -> dict[str, float]:  # fmt: skip
    """Seconds by variant: what was measured and may compute a product.

    `fast`: Strassen's algorithm may be used; `levels`: it must, with so many; floats that are
    `deterministic` take no atomic additions (integers may), and standard products of floats never
    do.
    """
    machine, cost = ceilings(arithmetic, on)
    known = MEASURED.get((H200.name, arithmetic), {})
    found = {}
    for way in known:
        mine = levels_of(way)
        ordered = deterministic or not mine
        if way.endswith("atomic") and ordered and not exact(arithmetic):
            continue
        if mine == levels if levels else fast or not mine:
            found[way] = corrected(arithmetic, way, size, on=machine, cost=cost)
    return {way: seconds for way, seconds in found.items() if seconds < inf}
