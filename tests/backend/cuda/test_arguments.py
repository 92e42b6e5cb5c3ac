"""argmin and argmax on the emulated GPU, on rows long enough for their whole rounds."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from tests.backend.cuda.emulated import emulation

N = 2 * 4096 + 77
RNG = np.random.default_rng(7)


def special(kind, dtype):
    """An array with what a comparison may get wrong."""
    if kind == "ties":
        return RNG.integers(0, 3, N).astype(dtype)
    if kind == "all worst":
        worst = -np.inf if np.issubdtype(dtype, np.floating) else np.iinfo(dtype).min
        return np.full(N, worst, dtype)
    made = RNG.integers(0, 100, N).astype(dtype)
    if kind == "nan":
        made[[6000, 5000, 8200]] = np.nan
    if kind == "late":
        made[-1] = 101
    return made


@pytest.mark.parametrize(
    ("kind", "dtype", "axis"),
    [
        ("ties", np.float32, 0),
        ("all worst", np.float32, 1),
        ("nan", np.float32, 1),
        ("nan", np.float16, 0),
        ("late", np.float64, 1),
        ("ties", np.uint8, 1),
        ("all worst", np.int64, 1),
    ],
)
def test_long_rows(kind, dtype, axis):
    row = special(kind, dtype)
    a = np.stack([row, row[::-1]], axis=1 - axis)
    ours, theirs = (td.argmin, np.argmin) if kind == "late" else (td.argmax, np.argmax)
    with emulation():
        found = td.run(ours(a, axis=axis), backend="cuda")
        np.testing.assert_array_equal(np.asarray(found), theirs(a, axis=axis))
