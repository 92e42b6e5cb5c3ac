"""Distances between floating-point numbers, and values worth trying."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.dsl.types import ScalarType

Numbers = np.ndarray[Any, Any]
_LARGEST = {
    "float16": 65504.0, "bfloat16": 3.3895313892515355e38, "float32": float(np.finfo("f").max),
    "float64": float(np.finfo("d").max),
}  # fmt: skip


def spacing(reference: Numbers, t: ScalarType) -> Numbers:
    """One unit in the last place of type `t` at `reference` (float64 or long double)."""
    digits, least = {
        "float16": (11, -24), "bfloat16": (8, -133), "float32": (24, -149), "float64": (53, -1074),
    }[t.name]  # fmt: skip
    _, exponent = np.frexp(np.abs(reference))
    unit: Numbers = np.ldexp(np.ones_like(reference), np.maximum(exponent - digits, least))
    return unit


def distance(found: Numbers, reference: Numbers, t: ScalarType) -> Numbers:
    """|found − reference| in units in the last place; equal infinities and NaNs are 0 apart."""
    wide = reference.dtype.type
    f = found.astype(wide)
    with np.errstate(all="ignore"):
        top = _LARGEST[t.name]
        fits = np.isfinite(reference) & (np.abs(reference) <= wide(top))
        off = np.abs(f - reference) / spacing(np.where(fits, reference, 1), t)
        # A result past the largest number may be rounded to infinity or to the largest.
        over = ~fits & np.isfinite(reference)
        near = np.isinf(f) | (np.abs(f) >= wide(top) * wide(1 - 2.0**-7))
        same = (np.isnan(f) & np.isnan(reference)) | (f == reference)
        same |= over & near & (np.sign(f) == np.sign(reference))
        off = np.where(same, 0, off)
        off = np.where(~same & (~fits | ~np.isfinite(f)), np.inf, off)
    return off.astype(np.float64)


def integers(t: ScalarType, rng: np.random.Generator, count: int = 24) -> Numbers:
    low, high = t.lowest, t.highest
    edges = [0, 1, 2, 3, 7, t.bits - 1, t.bits, high, high - 1, low, low + 1]
    if t.signed:
        edges += [-1, -2, -7]
    some = rng.integers(low, high, count, dtype=t.numpy, endpoint=True)
    return np.concatenate([np.array(edges, t.numpy), some])


def floats(t: ScalarType, rng: np.random.Generator, count: int = 24) -> Numbers:
    least = {"float16": 6e-8, "bfloat16": 1e-40, "float32": 1e-45, "float64": 5e-324}[t.name]
    large = {"float16": 6e4, "bfloat16": 3e38, "float32": 3.4e38, "float64": 1.7e308}[t.name]
    edges = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, np.inf, -np.inf, np.nan]
    edges += [least, -least, large, -large, 3.0, 1e-3, 100.0]
    spread = 10.0 ** rng.uniform(-6, 4, count) * rng.choice([-1, 1], count)
    return np.concatenate([np.array(edges), rng.normal(0, 2, count), spread]).astype(t.numpy)


def samples(t: ScalarType, rng: np.random.Generator, count: int = 24) -> Numbers:
    """Edges and random numbers of a type."""
    if t.family == "bool":
        return np.array([False, True])
    if t.is_integer:
        return integers(t, rng, count)
    if t.is_float:
        return floats(t, rng, count)
    real = np.dtype("f4" if t.bits == 64 else "f8")
    parts = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 1e-3, 30.0], real)
    grid = (parts[:, None] + 1j * parts[None, :]).ravel()
    some = rng.normal(0, 2, count) + 1j * rng.normal(0, 2, count)
    return np.concatenate([grid, some]).astype(t.numpy)
