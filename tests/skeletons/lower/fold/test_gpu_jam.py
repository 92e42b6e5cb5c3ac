"""Folds over tiles of elements that run loops (lower/fold/gpu_jam.py), by the interpreter."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import treadle as td
from tests.skeletons.ir import simt
from tests.skeletons.lower.gpu_cases import same
from treadle.dsl.passes import run_passes
from treadle.dsl.process.configuration import Settings
from treadle.dsl.target import CUDA
from treadle.skeletons.lower.build import LoweringContext
from treadle.skeletons.lower.fold import gpu_jam as fold_jam, gpu_rows as fold_rows
from treadle.skeletons.lower.lower import lower

pytestmark = pytest.mark.sample(1)


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    """Blocks of two warps, tiles however few elements there are, rows cut early."""
    sizes = {"THREADS": 64, "LEAST_ROWS": 1, "LEAST_COLUMNS": 1, "LEAST_ELEMENTS": 1, "LEAST": 1}
    for name, value in sizes.items():
        monkeypatch.setattr(fold_jam, name, value)


def roots_of(array):
    return run_passes(array._leaves, Settings(), "cuda").roots


def tiled(array):
    """Whether the fold of a program has a kernel over tiles."""
    (root,) = roots_of(array)
    kernels = lower(root.node, LoweringContext(CUDA, threads=132)).kernels
    return any("tiles" in k.name for k in kernels)


def agrees(array, expected=True):
    """The very results of `reference`; over tiles, or not."""
    want = td.run(array, backend="reference")
    assert tiled(array) == expected
    (got,) = simt.run(*roots_of(array))
    same(got, want)


def squares(x, y, start=None):
    """Distances of points, squared: over (point of x, point of y)."""
    x, y = td.use(x), td.use(y)
    zero = getattr(td, str(x.dtype))(0) if start is None else start

    def one(i, j):
        return td.loop(x.shape[1], lambda k, s: s + (x[i, k] - y[j, k]) ** 2, zero)

    return td.generate((x.shape[0], y.shape[0]), one)


def points(n, d, t="float32", seed=0, high=4):
    return np.random.default_rng(seed).integers(0, high, (n, d)).astype(t)


@pytest.mark.parametrize("extents", [(1, 1, 1), (3, 130, 3), (33, 17, 18)])
@pytest.mark.parametrize("t", ["float32", "float64", "int32"])
def test_of_equals_the_first(extents, t):
    n, m, d = extents
    x, y = points(n, d, t), points(m, d, t, 1)
    agrees(td.argmin(squares(x, y), axis=1))
    agrees(td.argmax(squares(x, y), axis=0))


@pytest.mark.parametrize("f", [td.argmin, td.argmax, td.min, td.max])
def test_nan_and_infinities(f):
    x, y = points(9, 5), points(140, 5, seed=1)
    x[3, 2] = np.nan
    y[[77, 130], 0] = np.nan
    y[5] = np.inf
    agrees(f(squares(x, y), axis=1))
    agrees(f(squares(x[4:], np.full_like(y, np.inf)), axis=1))


def test_few_rows_are_cut_into_parts():
    x, y = points(5, 3), points(700, 3, seed=1)
    agrees(td.argmin(squares(x, y), axis=1))
    agrees(td.sum(squares(points(5, 3, "int64"), points(700, 3, "int64")), axis=1))


@pytest.mark.parametrize("f", [td.sum, td.prod, td.min, td.argmax])
def test_integers(f):
    agrees(f(squares(points(7, 4, "int64"), points(70, 4, "int64", 1)) - 3, axis=1))


def test_columns_that_are_there_twice_count_once():
    made = squares(points(5, 3, "int32"), points(21, 3, "int32", 1))
    agrees(td.fold(lambda a, b: a ^ b, 5, made, axis=1))
    agrees(td.all(made < 5, axis=1))


@pytest.mark.parametrize("t", ["float32", "float64"])
@pytest.mark.parametrize("count", [17, 33, 63])
def test_short_rows_that_round_are_folded_from_the_left(t, count):
    x, y = np.random.default_rng(count).random((70, 5)).astype(t), points(count, 5, t, 1, 2)
    elements = td.exp(-squares(x, y))
    made = td.sum(elements, axis=1)
    assert tiled(made)
    (stored,) = simt.run(*roots_of(elements))
    assert np.array_equal(simt.run(*roots_of(made))[0], functools.reduce(np.add, stored.T))


def test_no_turns_and_no_rows():
    none = np.zeros((7, 0), "int32"), np.zeros((20, 0), "int32")
    agrees(td.sum(squares(*none) + 1, axis=1))
    agrees(td.sum(squares(points(7, 3, "int32"), points(0, 3, "int32")), axis=1))
    agrees(td.sum(squares(points(0, 3, "int32"), points(7, 3, "int32")), axis=1))


@pytest.mark.sample(2)
@pytest.mark.parametrize("axes", ["ki kj", "ik kj", "ki jk"])
@pytest.mark.parametrize("axis", [0, 1])
def test_however_they_are_stored(axes, axis):
    x, y = (points(20, 9, seed=1), points(37, 9, seed=2))
    first, second = (a[0] == "k" for a in axes.split())
    a, b = td.use(x.T.copy() if first else x), td.use(y.T.copy() if second else y)

    def one(i, j):
        def iteration(k, s):
            return s + (a[k, i] if first else a[i, k]) * (b[k, j] if second else b[j, k])

        return td.loop(9, iteration, td.float32(0))

    agrees(td.argmin(td.generate((20, 37), one), axis=axis))


def test_batches():
    x, y = td.use(points(18, 4).reshape(3, 6, 4)), td.use(points(60, 4, seed=1).reshape(3, 20, 4))

    def one(b, i, j):
        return td.loop(4, lambda k, s: s + td.abs(x[b, i, k] - y[b, j, k]), td.float32(0))

    agrees(td.argmin(td.generate((3, 6, 20), one), axis=2))


@pytest.mark.parametrize("t", ["float16", "float64", "int8"])
def test_stored_in_other_types(t):
    x, y = td.use(points(9, 17, t)), td.use(points(40, 17, seed=1))

    def one(i, j):
        return td.loop(17, lambda k, s: s + td.float32(x[i, k]) * y[j, k], td.float32(0))

    agrees(td.argmax(td.generate((9, 40), one), axis=1))
    agrees(td.argmax(td.generate((9, 40), one), axis=0))


def test_states_and_what_surrounds_the_loop():
    x, y = td.use(points(9, 5)), td.use(points(40, 5, seed=1))
    w = td.use(points(40, 1, seed=2)[:, 0] / 8)  # no sum or product rounds

    def one(i, j):
        def iteration(k, s):
            return s[0] + x[i, k] * y[j, k], td.maximum(s[1], s[0] - w[k])

        a, b = td.loop(5, iteration, (td.float32(0), w[j]))
        return a * w[j] + b + x[i, 0]

    made = td.generate((9, 40), one)
    agrees(td.argmin(made, axis=1))
    agrees(td.sqrt(td.fold(lambda a, b: td.maximum(a, b), 3.0, made, axis=1)) * 2)


@pytest.mark.parametrize("extents", [(9, 30), (5, 100), (9, 600), (2, 1200)])
@pytest.mark.parametrize("t", ["float32", "float64"])
def test_sums_that_round_are_those_of_the_stored_elements(extents, t, monkeypatch):
    """For all lanes that a row may have here: the interpreter runs every variant of a kernel."""
    monkeypatch.setattr(fold_rows, "THREADS", 64)
    monkeypatch.setattr(fold_rows, "LEAST", 1)
    n, m = extents
    rng = np.random.default_rng(0)
    x, y = rng.random((n, 3)).astype(t), rng.random((m, 3)).astype(t)
    elements = td.exp(-squares(x, y))
    made = td.sum(elements, axis=1)
    assert tiled(made)
    (got,) = simt.run(*roots_of(made))
    (stored,) = simt.run(*roots_of(elements))
    same(got, simt.run_array(td.sum(stored, axis=1)))
    assert np.allclose(got, stored.sum(1), rtol=1e-5)


def test_what_stays_as_it_was():
    x, y = points(9, 5), points(40, 5)
    agrees(td.max(squares(x, x[:1]) * td.use(y.T[0, :1]), axis=None), False)
    p = td.use(x)
    alone = td.generate(
        (9, 40), lambda i, j: td.loop(5, lambda k, s: s + p[i, k] * td.float32(j), td.float32(0))
    )
    agrees(td.max(alone, axis=1), False)  # nothing that columns read
