"""Short folds inside folds over tiles on the `cuda` backend (backend/cuda/forms.py), emulated."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from tests.backend.cuda.emulated import EmulatedDevice
from treadle.backend import registry
from treadle.backend.cuda import availability, executable
from treadle.skeletons.lower.fold import gpu_jam as fold_jam


@pytest.fixture(autouse=True)
def gpu(monkeypatch):
    """An emulated GPU, on which tiles are worth it from eight rows on."""
    sizes = {"THREADS": 64, "LEAST_ROWS": 8, "LEAST_COLUMNS": 1, "LEAST_ELEMENTS": 1, "LEAST": 1}
    for name, value in sizes.items():
        monkeypatch.setattr(fold_jam, name, value)
    device = EmulatedDevice()
    monkeypatch.setattr(executable, "device_here", lambda: device)
    monkeypatch.setattr(availability, "unavailable", lambda: None)
    caches = (registry.load, registry.why_not)
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


def points(n, d, t="float32", seed=0):
    return np.random.default_rng(seed).integers(0, 9, (n, d)).astype(t)


def nearest(x, c):
    return td.argmin(td.sum((x[:, None, :] - c[None, :, :]) ** 2, axis=2), axis=1)


def launched(compiled, *args):
    """What explain() says that runs."""
    return compiled.lower(*args).explain().splitlines()[0].rsplit(", ", 1)[1]


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("n", "m", "d", "t", "kernels"),
    [(9, 5, 3, "float32", "1 kernel"), (9, 5, 63, "float32", "1 kernel"),
     (9, 5, 64, "float32", "2 kernels"), (9, 5, 20, "int32", "1 kernel"),
     (7, 50, 3, "float32", "2 kernels")],
)  # fmt: skip
def test_where_results_fill_tiles_and_no_bit_changes(n, m, d, t, kernels):
    x, c = points(n, d, t), points(m, d, t, 1)
    compiled = td.jit(nearest, backend="cuda")
    assert np.array_equal(compiled(x, c), td.jit(nearest, backend="reference")(x, c))
    assert np.array_equal(compiled(x[::-1], c), compiled(x, c)[::-1])
    assert launched(compiled, x, c) == f"{kernels} launched"


@pytest.mark.sample(1)
@pytest.mark.parametrize("d", [5, 16, 63])
@pytest.mark.parametrize("m", [6, 40, 70])
def test_stored_sums_are_those_of_loops(d, m):
    """To the last bit, whoever folds them, and whoever folds what is made of them."""
    rng = np.random.default_rng(d)
    x, c = rng.random((9, d), np.float32), rng.random((m, d), np.float32)

    def weights(stored):
        def written(x, c):
            squares = td.sum((x[:, None, :] - c[None, :, :]) ** 2, axis=2)
            return td.sum(td.exp(-(td.compute(squares) if stored else squares)), axis=1)

        return td.jit(written, backend="cuda")

    wanted = "1 kernel launched" if m > 16 else "2 kernels launched"
    assert launched(weights(False), x, c) == wanted
    assert np.array_equal(weights(False)(x, c), weights(True)(x, c))


def test_extents_decide_at_each_call():
    compiled = td.jit(nearest, backend="cuda")
    for n, d in ((9, 3), (9, 70), (3, 3), (9, 3)):
        x, c = points(n, d), points(6, d, seed=1)
        assert np.array_equal(compiled(x, c), td.jit(nearest, backend="reference")(x, c))


def test_what_the_loop_reads_lives_until_then():
    def of_sums(x, c):
        return nearest(td.cumsum(x, axis=0), td.cumsum(c, axis=0))

    x, c = points(9, 3), points(6, 3, seed=1)
    want = td.jit(of_sums, backend="reference")(x, c)
    assert np.array_equal(td.jit(of_sums, backend="cuda")(x, c), want)


def test_explain_tells_when():
    x, c = points(9, 70), points(6, 70)
    text = " ".join(td.jit(nearest, backend="cuda").lower(x, c).explain().split())
    assert "a loop in kernel 2 where its results fill tiles and their rows have fewer" in text


def test_what_is_printed_is_what_is_launched():
    def printed(n, d):
        return td.jit(nearest, backend="cuda").lower(points(n, d), points(6, d)).source()

    assert "argmin_tiles" in printed(9, 3) and "sum_" not in printed(9, 3)
    assert "sum_" in printed(9, 70)


def test_in_a_loop_over_arrays():
    def iterations(x, c):
        def iteration(c):
            near = nearest(x, c)
            return c + td.cast(td.bincount(near, length=6), td.float32)[:, None]

        return td.iterate(3, iteration, c)

    x, c = points(9, 3), points(6, 3, seed=1)
    want = td.jit(iterations, backend="reference")(x, c)
    compiled = td.jit(iterations, backend="cuda")
    assert np.array_equal(compiled(x, c), want)
    assert np.array_equal(compiled(x, c), want)
