"""Permute for a GPU: every combination, targets few and many, threads that meet."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from tests.skeletons.ir.interpret import Reported
from tests.skeletons.ir.simt import run_array
from tests.skeletons.lower.gpu_cases import TYPES, agrees, data, same
from treadle.dsl.errors import WRITTEN

pytestmark = pytest.mark.sample(1)

SHAPES = [(0,), (1,), (33,), (300,), (5003,), (17, 9), (40, 77), (3, 0)]


@pytest.mark.parametrize("targets", [1, 10, 600, 9000])
@pytest.mark.parametrize("shape", SHAPES)
def test_combinations(shape, targets):
    rng = np.random.default_rng(0)
    at, values = rng.integers(-2, targets, shape), rng.integers(0, 100, shape)
    start = rng.integers(0, 100, targets)
    there, x = at >= 0, td.use(at)

    def place(*ix):
        return td.cond(x[ix] >= 0, x[ix], td.ignore)

    def scattered(f, defaults, source, **options):
        return td.permute(f, defaults, place, source, **options)

    agrees(scattered(lambda new, old: new + old, start, values))
    agrees(scattered(lambda new, old: new + old, start, values), check=True, seed=1)
    agrees(scattered(lambda new, old: td.maximum(new, old), start, values))
    agrees(scattered(lambda new, old: (new + old) % 1000, start, values))
    agrees(scattered(lambda new, old: (new[0] + old[0], td.maximum(new[1], old[1])),
                     td.zip(start, start * 1.0), td.zip(values, values * 1.0)))  # fmt: skip
    agrees(scattered(td.overwrite, start, values, deterministic=True))
    kept = scattered(td.overwrite, td.zip(start, start), td.zip(values, values * 2))
    first, second = run_array(kept)
    for t in range(targets):
        meeting = values[there & (at == t)]
        if meeting.size:
            assert first[t] in meeting and second[t] == 2 * first[t]
        else:
            assert first[t] == second[t] == start[t]


@pytest.mark.parametrize("name", TYPES)
def test_types(name):
    at = td.use(np.random.default_rng(0).integers(0, 40, 700))
    start, values = data(40, name, high=2), data(700, name, 1, high=2)
    for f in (lambda new, old: new + old, lambda new, old: new * old):
        agrees(td.permute(f, start, lambda i: at[i], values))
    if not name.startswith("complex"):
        agrees(td.permute(lambda new, old: td.minimum(new, old), start, lambda i: at[i], values))


def test_targets_are_checked():
    at = td.use(np.array([0, 3, -1, 2]))
    made = td.permute(lambda new, old: new + old, np.zeros(3), lambda i: at[i], np.ones(4))
    with pytest.raises(Reported) as caught:
        run_array(made, check=True)
    found = sorted((site.array, index, extent) for site, index, extent in caught.value.args[0])
    assert found == [(WRITTEN, -1, 3), (WRITTEN, 3, 3)]


@pytest.mark.parametrize("bins", [1, 7, 256, 5000])
def test_histograms(bins):
    image = np.random.default_rng(0).random((61, 83))
    uniform, _ = td.histogram(image, bins=bins, range=(0.0, 1.0))
    same(run_array(uniform), np.histogram(image, bins, (0, 1))[0])
    agrees(td.bincount(data(3000, high=bins), minlength=bins))


def test_injective_scatter():
    order = np.random.default_rng(0).permutation(3001)
    agrees(td.scatter(np.zeros(3001, "i8"), td.use(order), np.arange(3001)))


def test_rank_two_targets_and_rank_zero_sources():
    image = data((20, 30))
    agrees(td.permute(lambda new, old: new + old, np.zeros((4, 5), "i8"),
                      lambda i, j: (i % 4, j % 5), image))  # fmt: skip
    single = td.permute(lambda new, old: new + old, np.zeros(3, "i8"), lambda: 1, np.array(5))
    agrees(single)


def test_float_sums_are_close():
    at = td.use(np.random.default_rng(0).integers(0, 7, 3000))
    for name in ("float16", "bfloat16", "float32", "float64", "complex64"):
        values = data(3000, name, high=2)
        made = td.permute(lambda new, old: new + old, data(7, name), lambda i: at[i], values)
        got, want = run_array(made, seed=3), td.run(made, backend="reference")
        assert np.allclose(got.astype("c16"), want.astype("c16"), rtol=0.05)
