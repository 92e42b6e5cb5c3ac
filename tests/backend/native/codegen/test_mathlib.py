"""Functions whose vector routines are slow for some arguments: these have other instructions."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from tests.backend.native.codegen.ulps import distance
from treadle.dsl.types import ScalarType, float32, float64

NAMES = ["exp", "exp2", "log", "log2", "log10"]
EDGES = [0.0, -0.0, 1.0, -1.0, -2.0, np.inf, -np.inf, np.nan]


def hard(name: str, t: ScalarType) -> np.ndarray:
    """Arguments around those from which on the routines are slow, and where results end."""
    info = np.finfo(t.numpy)
    least, most = float(info.smallest_subnormal), float(info.max)
    if name in ("exp", "exp2"):
        lowest, highest = np.log2(least), np.log2(most)
        scale = np.log(2) if name == "exp" else 1
        found = np.linspace(1.1 * lowest, 1.1 * highest, 4001) * scale
        ends = np.array([lowest - 1, lowest, highest, highest + 1]) * scale
        near = ends[:, None] + np.linspace(-1, 1, 301)
        found = np.concatenate([found, near.ravel()])
    else:
        found = np.ldexp(np.linspace(0.5, 1, 97)[:, None], np.arange(-info.nmant, 9) + info.minexp)
        found = np.concatenate([found.ravel(), [least, most]])
    with np.errstate(over="ignore"):
        made: np.ndarray = np.concatenate([found, -found, EDGES]).astype(t.numpy)
    return made


@pytest.mark.parametrize("t", [float32, float64], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_arguments_outside_the_usual_range(name: str, t: ScalarType) -> None:
    x = hard(name, t)
    f = td.jit(getattr(td, name))
    found = np.asarray(f(x))
    with np.errstate(all="ignore"):
        wanted = getattr(np, name)(x.astype("longdouble"))
    off = distance(found, wanted, t)
    worst = int(np.argmax(off))
    assert off[worst] <= 4, (x[worst], found[worst], wanted[worst])


@pytest.mark.parametrize("t", [float32, float64], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_a_result_does_not_depend_on_its_neighbours(name: str, t: ScalarType) -> None:
    rng = np.random.default_rng(0)
    usual = rng.uniform(0.1, 30, 4096).astype(t.numpy)
    mixed = usual.copy()
    places = rng.integers(0, mixed.size, 600)
    mixed[places] = rng.choice(hard(name, t), 600)
    f = td.jit(getattr(td, name))
    alone, beside = np.asarray(f(usual)), np.asarray(f(mixed))
    same = np.ones(mixed.size, bool)
    same[places] = False
    assert np.array_equal(alone[same], beside[same])
    for k in places[:40]:
        assert np.array_equal(f(mixed[k : k + 1])[0], beside[k], equal_nan=True)


@pytest.mark.parametrize("t", [float32, float64], ids=str)
def test_powers_of_zero_and_negative_numbers(t: ScalarType) -> None:
    tiny = float(np.finfo(t.numpy).smallest_subnormal)
    bases = np.array([*EDGES, 0.5, -0.5, 3, -3, tiny, -tiny, 1e30, -1e30], t.numpy)
    exponents = np.array([*EDGES, 0.5, -0.5, 2, -3, 3, 2.5, -2.5, 2.0**24 + 2, 1e30], t.numpy)
    x, y = (np.ascontiguousarray(g.ravel()) for g in np.meshgrid(bases, exponents))
    found = np.asarray(td.jit(lambda x, y: x**y)(x, y))
    with np.errstate(all="ignore"):
        wanted = x.astype("longdouble") ** y.astype("longdouble")
    off = distance(found, wanted, t)
    worst = int(np.argmax(off))
    assert off[worst] <= 4, (x[worst], y[worst], found[worst], wanted[worst])
    signed = ~np.isnan(wanted)
    assert np.array_equal(np.signbit(found[signed]), np.signbit(wanted[signed]))


def test_slow_arguments_have_a_function_of_their_own() -> None:
    text = td.jit(td.exp).lower(np.ones(8)).source()
    assert ("@treadle._ZGV" in text) == ("@_ZGV" in text)
