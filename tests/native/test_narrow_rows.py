"""Rows of a few elements on a CPU: many side by side in vectors, loaded and stored by shuffles."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td

pytestmark = pytest.mark.skipif("native" not in td.backends(), reason="needs the backend native")
COUNTS = (1, 15, 33, 128, 131)


def rows(n, d, type_="f4", seed=0):
    return (20 * np.random.default_rng(seed).standard_normal((n, d))).astype(type_)


@pytest.mark.parametrize("type_", ["f4", "f8", "i2", "c8"])
def test_elements_of_narrow_rows(type_):
    scaled = td.jit(lambda a, s: td.where(td.use(s)[:, None] > 0, a, td.reverse(a, 1)),
                    backend="native")  # fmt: skip
    for d in (1, 2, 3, 7, 8, 9):
        for n in COUNTS:
            a, s = rows(n, d, type_), rows(n, 1, "f8", 1)[:, 0]
            expected = np.where(s[:, None] > 0, a, a[:, ::-1])
            assert np.array_equal(scaled(a, s), expected), (d, n)
            assert np.array_equal(scaled(np.asfortranarray(a), s[::-1]),
                                  np.where(s[::-1, None] > 0, a, a[:, ::-1]))  # fmt: skip


@pytest.mark.parametrize("d", [2, 3, 6])
def test_several_results_and_more_axes(d):
    f = td.jit(lambda a, s: td.unzip(td.map(lambda x, y: (x + y, x * y), a, td.broadcast_to(
        td.use(s)[..., None], a.shape))), backend="native")  # fmt: skip
    for n in COUNTS:
        a, s = rows(4 * n, d).reshape(4, n, d), rows(4, n, seed=1)
        total, product = f(a, s)
        assert np.array_equal(total, a + s[..., None])
        assert np.array_equal(product, a * s[..., None])


@pytest.mark.parametrize("type_", ["f4", "i8", "u1"])
def test_sums_over_narrow_rows(type_):
    f = td.jit(lambda a: (td.sum(a, axis=1), td.max(a, axis=1), td.argmin(a, axis=1)),
               backend="native")  # fmt: skip
    inside = td.jit(lambda a: td.sum(td.use(a)[1:-1, 1:], axis=1), backend="native")
    for d in (2, 5, 11, 16, 17):
        for n in COUNTS:
            a = rows(n, d, type_)
            total = np.zeros(n, np.sum(a[:1]).dtype)
            for k in range(d):
                total = total + a[:, k]
            got = f(a)
            for found, expected in zip(got, (total, a.max(1), a.argmin(1)), strict=True):
                assert np.array_equal(found, expected), (d, n)
            if n > 2:
                total = np.zeros(n - 2, np.sum(a[:1]).dtype)
                for k in range(1, d):
                    total = total + a[1:-1, k]
                assert np.array_equal(inside(a), total), (d, n)


def test_a_part_of_every_row_is_read_inside_the_array():
    """Columns 4 to 6 of 7, of the last rows of the array: nothing beyond its end is touched."""
    f = td.jit(lambda a: td.use(a)[:, 6] - td.use(a)[:, 4], backend="native")
    for n in (16, 32, 48):
        a = rows(n, 7)
        assert np.array_equal(f(a), a[:, 6] - a[:, 4])
