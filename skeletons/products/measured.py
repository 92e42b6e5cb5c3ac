"""Measured times of square products, and predictions corrected by them.

The times are data next to this module (`measured_h200.json`: device, dates, commands).  A
prediction for any extents is multiplied by the ratio of measured to predicted time at the square
product of the same volume.  Between measured sizes the logarithm of the ratio is interpolated over
the logarithm of the extent; beyond them the nearest ratio is used.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from dataclasses import replace
from functools import lru_cache
from math import ceil, exp, inf, log
from pathlib import Path

from . import model
from .at_once import passes_at_once
from .tables import STRASSEN

Table = dict[str, dict[int, float]]


def _read(name: str) -> tuple[str, dict[str, Table]]:
    """The device of a file of measured times, and milliseconds by arithmetic and variant."""
    data = json.loads((Path(__file__).parent / name).read_text(encoding="utf-8"))
    times = {
        arithmetic: {
            variant: {int(n): ms for n, ms in row.items()}
            for variant, row in entry["times"].items()
        }
        for arithmetic, entry in data["arithmetic"].items()
    }
    return data["device"], times


MEASURED: dict[tuple[str, str], Table] = {
    (device, arithmetic): table
    for device, times in (_read("measured_h200.json"),)
    for arithmetic, table in times.items()
}
"""By device and arithmetic, then variant ("standard split", "two levels atomic"), then extent."""


def raw(on: model.Machine, cost: model.EngineCost, variant: str, size: model.Size) -> float:
    """The uncorrected prediction for a variant of the engine, in seconds."""
    what, mode = variant.rsplit(" ", 1)
    if mode == "batched":
        return _over_library(on, cost, size, LEVELS[what])
    if mode == "recursive":
        return model.predict_in_memory(on, cost, size, STRASSEN, LEVELS[what]).seconds
    if what == "two levels":
        return model.predict_two_levels(on, cost, size, STRASSEN, STRASSEN, mode).seconds
    return model.predict(on, cost, size, STRASSEN if what == "strassen" else None, mode).seconds


def _over_library(
    on: model.Machine, cost: model.EngineCost, size: model.Size, levels: int
) -> float:
    """Seconds of Strassen's algorithm over a library's products, a pass for a level's sums."""
    m, k, n = size
    if not levels:
        return m * k * n / on.fma
    half = ceil(m / 2), ceil(k / 2), ceil(n / 2)
    counts = {"A": half[0] * half[1], "B": half[1] * half[2], "C": half[0] * half[2]}
    moved = sum(counts[x] * times for x, times in passes_at_once(STRASSEN, levels == 1).items())
    inner = _over_library(on, cost, half, levels - 1)
    return STRASSEN.products * inner + moved * cost.itemsize / on.memory


def corrected(arithmetic: str, variant: str, size: model.Size, *, on: model.Machine = model.H200,
              cost: model.EngineCost = model.HOPPER_FLOAT32, without: int | None = None
              ) -> float:  # fmt: skip
    """Seconds of a variant, or of the "library"; `without`: a measured extent to ignore.

    Infinite for variants that were never measured on such a machine.
    """
    known = MEASURED[model.H200.name, arithmetic].get(variant)
    if known is None:
        return inf
    volume = size[0] * size[1] * size[2]
    if not volume:
        return on.launch
    extent: float = volume ** (1 / 3)
    points = [(log(n), log(_ratio(arithmetic, variant, n))) for n in known if n != without]
    ratio = exp(_between(points, log(extent)))
    if variant == "library":  # its rate at that volume, and bytes written beyond a cube's result
        written = max(size[0] * size[2] - extent**2, 0.0)
        ratio *= model.issued(on, cost) / model.issued(ceilings(arithmetic)[0], cost)
        return ratio * volume / on.fma + cost.itemsize * written / on.memory
    return ratio * raw(on, cost, variant, size)


@lru_cache(maxsize=256)
def _ratio(arithmetic: str, variant: str, n: int) -> float:
    """The ratio of measured to predicted time at a measured extent."""
    on, cost = ceilings(arithmetic)
    found = MEASURED[model.H200.name, arithmetic][variant][n] / 1e3
    return found / (n**3 / on.fma if variant == "library" else raw(on, cost, variant, (n, n, n)))


def ceilings(
    arithmetic: str, on: model.Machine = model.H200
) -> tuple[model.Machine, model.EngineCost]:
    """The machine for an arithmetic, and the costs of its engine (for float64, which has no engine,
    just the size of an element).

    Per clock, float64 has as many multiply-adds on tensor cores as float32 has on CUDA cores, int32
    half as many there; int32 by limbs has a tenth of a multiprocessor's 4,096 byte products; 16-bit
    floats have all of its `tensor` products, tf32 half of them, float32 by two planes of 16 bits a
    third.
    """
    if arithmetic == "Int32":
        return replace(on, fma=on.fma / 2), model.HOPPER_FLOAT32
    if arithmetic.startswith("Limbs32"):
        cost = model.HOPPER_LIMB_IMAGES if "Images" in arithmetic else model.HOPPER_LIMBS
        return replace(on, fma=on.processors * on.clock * 409.6), cost
    if arithmetic.startswith(("Float16", "BFloat16")):
        step = 32 if "Small" in arithmetic else 64
        tile = (128, 128 if "Square" in arithmetic else 256, step)
        return replace(on, fma=on.processors * on.clock * on.tensor), replace(
            model.HOPPER_HALF, shape=tile
        )
    if arithmetic.startswith("Float32Tf32") and "x3" not in arithmetic:
        tile = (128, 128 if "Square" in arithmetic else 256, 32)
        return replace(on, fma=on.processors * on.clock * on.tensor / 2), replace(
            model.HOPPER_TF32, shape=tile
        )
    if "Fp16x3" in arithmetic:
        tile = (128, 128 if arithmetic.endswith("Square") else 192, 64)
        return replace(on, fma=on.processors * on.clock * on.tensor / 3), replace(
            model.HOPPER_FP16X3, shape=tile
        )
    if arithmetic == "Float64":
        return on, model.EngineCost(itemsize=8)
    return on, model.PORTABLE_FLOAT32 if arithmetic == "Float32Portable" else model.HOPPER_FLOAT32


def _between(points: list[tuple[float, float]], at: float) -> float:
    extents = [x for x, _ in points]
    k = bisect_left(extents, at)
    if k == 0:
        return points[0][1]
    if k == len(points):
        return points[-1][1]
    (x, y), (u, v) = points[k - 1], points[k]
    return y + (v - y) * (at - x) / (u - x)


LEVELS = {"library": 0, "standard": 0, "strassen": 1, "two levels": 2}
"""Levels by the first words of a variant."""


def levels_of(way: str) -> int:
    return LEVELS[way.rsplit(" ", 1)[0]]


def exact(arithmetic: str) -> bool:
    """Whether sums are independent of their order."""
    return "Float" not in arithmetic


def ways(arithmetic: str, size: model.Size, *, fast: bool, deterministic: bool,
         levels: int | None = None, on: model.Machine = model.H200
         ) -> dict[str, float]:  # fmt: skip
    """Seconds by variant, for the measured variants that may compute a product.

    `fast`: Strassen's algorithm is allowed; `levels`: it is required, with this many.  Variants
    that add floats atomically are excluded if `deterministic`, and always for the standard product.
    """
    machine, cost = ceilings(arithmetic, on)
    known = MEASURED.get((model.H200.name, arithmetic), {})
    found = {}
    for way in known:
        mine = levels_of(way)
        ordered = deterministic or not mine
        if way.endswith("atomic") and ordered and not exact(arithmetic):
            continue
        if mine == levels if levels else fast or not mine:
            found[way] = corrected(arithmetic, way, size, on=machine, cost=cost)
    return {way: seconds for way, seconds in found.items() if seconds < inf}
