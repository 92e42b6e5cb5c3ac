"""Folds over tiles of elements that run loops."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import treadle as td

RNG = np.random.default_rng(0)


def squares(x, y):
    def one(i, j):
        return td.loop(x.shape[1], lambda k, s: s + (x[i, k] - y[j, k]) ** 2, td.cast(0, x.dtype))

    return td.generate((x.shape[0], y.shape[0]), one)


@pytest.mark.parametrize("t", ["float32", "float64", "int32"])
@pytest.mark.parametrize(
    "extents", [(300, 3001, 17), (65, 40_000, 3), (20_000, 17, 40), (300, 900, 1)]
)
def test_the_first_of_the_nearest(extents, t):
    n, m, d = extents
    x, y = RNG.integers(0, 4, (n, d)).astype(t), RNG.integers(0, 4, (m, d)).astype(t)
    near = td.jit(lambda x, y: td.argmin(squares(x, y), axis=1), backend="cuda")
    assert "tiles of" in near.lower(x, y).explain()
    away = np.stack([((y.astype("f8") - one) ** 2).sum(1) for one in x])
    np.testing.assert_array_equal(near(x, y), away.argmin(1))
    far = td.jit(lambda x, y: td.argmax(squares(y, x), axis=0), backend="cuda")
    np.testing.assert_array_equal(far(x, y), away.argmax(1))


@pytest.mark.parametrize("m", [30, 100, 1000, 5000])
def test_sums_are_those_of_the_stored_elements(m):
    x, y = RNG.random((9000, 7), np.float32), RNG.random((m, 7), np.float32)

    def sums(stored):
        def written(x, y):
            near = td.exp(-squares(x, y))
            return td.sum(td.compute(near) if stored else near, axis=1)

        return td.jit(written, backend="cuda")(x, y)

    np.testing.assert_array_equal(sums(False), sums(True))


@pytest.mark.parametrize("d", [3, 16, 63])
def test_distances_by_broadcasting_are_one_kernel(d):
    x, c = RNG.random((5000, d), np.float32), RNG.random((60, d), np.float32)
    near = td.jit(
        lambda x, c: td.argmin(td.sum((x[:, None] - c[None]) ** 2, axis=2), axis=1), backend="cuda"
    )
    want = ((x[:, None] - c) ** 2).sum(2)
    assert "1 kernel launched" in near.lower(x, c).explain()
    np.testing.assert_allclose(want[np.arange(5000), near(x, c)], want.min(1), rtol=1e-5)


@pytest.mark.parametrize("shape", [(50_000, 5), (50_000, 16), (9000, 33), (9000, 63), (300, 20, 7)])
@pytest.mark.parametrize("t", ["float32", "float64", "complex64"])
def test_short_rows_are_folded_from_the_left(shape, t):
    x = RNG.random(shape).astype(t)
    for axis in range(1, len(shape)):
        want = functools.reduce(np.add, np.moveaxis(x, axis, 0))
        np.testing.assert_array_equal(td.run(td.sum(x, axis=axis), backend="cuda"), want)
        turned = td.run(td.sum(np.moveaxis(x, axis, 0).copy(), axis=0), backend="cuda")
        np.testing.assert_array_equal(turned, want)
