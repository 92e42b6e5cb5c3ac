"""Scans of very long rows: by blocks that stay, of which each works on several tiles at once."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from treadle.skeletons.lower.scan.gpu import LONG_ROW

cupy = pytest.importorskip("cupy")


def plus(x, y):
    return x + y


FORMS = {
    "scanl1": (lambda x: td.scanl1(plus, x), lambda x: np.cumsum(x, dtype=x.dtype)),
    "scanl": (
        lambda x: td.scanl(plus, 0, x),
        lambda x: np.r_[np.int32(0), np.cumsum(x, dtype=x.dtype)],
    ),
    "scanr1": (lambda x: td.scanr1(plus, x), lambda x: np.cumsum(x[::-1], dtype=x.dtype)[::-1]),
    "cummax": (lambda x: td.cummax(x), np.maximum.accumulate),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("more", (0, 4, 12_288 * 7 + 5))
def test_integers_are_exact(form, more):
    x = np.random.default_rng(3).integers(-1000, 1000, LONG_ROW + more).astype(np.int32)
    make, expected = FORMS[form]
    got = td.jit(make, backend="cuda")(cupy.asarray(x))
    np.testing.assert_array_equal(got.get(), expected(x))


def test_floats_repeat_bit_for_bit():
    x = cupy.random.default_rng(1).random(2 * LONG_ROW + 36, dtype=np.float32)
    program = td.jit(lambda x: td.cumsum(x), backend="cuda")
    first = program(x).get()
    exact = np.cumsum(x.get(), dtype=np.float64)
    assert np.abs(first - exact).max() < 3e-6 * exact[-1]
    for _ in range(5):
        np.testing.assert_array_equal(program(x).get(), first)
    # The same association where elements cannot be asked for ahead: an address that is not aligned.
    apart = cupy.empty(x.size + 1, np.float32)[1:]
    apart[...] = x
    np.testing.assert_array_equal(program(apart).get(), first)
