"""16-bit floats are combined in float32 and rounded once, by whatever function and wherever."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import treadle as td

from .helpers import generator, to_host

N = 5000
HALVES = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}


def plus(x, y):
    return x + y


def plus_and_most(x, y):
    return x[0] + y[0], td.maximum(x[1], y[1]), x[2] + y[2]


def log_plus(x, y):
    most = td.maximum(x, y)
    return most + td.log(td.exp(x - most) + td.exp(y - most))


def sums_to(x, bins, size):
    return np.bincount(bins, x, size)


def cases(x, bins):
    """Programs of `x`, and their results in float64."""
    wide, lengths = x.astype(float), [N // 3, 0, N - N // 3]
    first, last = wide[: N // 3], wide[N // 3 :]
    zeros, start = np.zeros(3, x.dtype), np.full(3, 2, x.dtype)
    used = td.use(bins)
    prefixes = np.cumsum(wide)
    return {
        "fold": (lambda: td.fold(plus, 3, x), wide.sum() + 3),
        "fold1": (lambda: td.fold1(plus, x), wide.sum()),
        "fold of columns": (
            lambda: td.fold(plus, 0, x.reshape(-1, 5), axis=0), wide.reshape(-1, 5).sum(0)),
        "fold of both axes": (lambda: td.fold(plus, 0, x.reshape(-1, 5), axis=None), wide.sum()),
        "fold of triples": (
            lambda: td.fold(plus_and_most, (0, 0, 0), td.zip(x, x, np.ones(N, np.int8))),
            (wide.sum(), wide.max(), np.int8(N % 256 - 256 * (N % 256 > 127)))),
        "fold of logarithms": (lambda: td.fold1(log_plus, x), np.log(np.exp(wide).sum())),
        "fold_seg": (
            lambda: td.fold_seg(plus, 1, x, lengths), [first.sum() + 1, 1, last.sum() + 1]),
        "sum": (lambda: td.sum(x), wide.sum()),
        "cumsum": (lambda: td.cumsum(x), prefixes),
        "cumsum of columns": (
            lambda: td.cumsum(x.reshape(-1, 5), 0), wide.reshape(-1, 5).cumsum(0)),
        "scanl": (lambda: td.scanl(plus, 1, x), 1 + np.r_[0, prefixes]),
        "scanl_total": (
            lambda: td.scanl_total(plus, 0, x), (np.r_[0, prefixes[:-1]], wide.sum())),
        "scanr1": (lambda: td.scanr1(plus, x), wide[::-1].cumsum()[::-1]),
        "scanl1_seg": (
            lambda: td.scanl1_seg(plus, x, lengths), np.r_[first.cumsum(), last.cumsum()]),
        "scanr_total_seg": (
            lambda: td.scanr_total_seg(plus, 0, x, lengths)[1], [first.sum(), 0, last.sum()]),
        "permute": (
            lambda: td.permute(plus, start, lambda i: used[i], x), 2 + sums_to(wide, bins, 3)),
        "permute of triples": (
            lambda: td.permute(plus_and_most, td.zip(start, zeros, np.zeros(3, np.uint8)),
                               lambda i: used[i], td.zip(x, x, np.ones(N, np.uint8))),
            (2 + sums_to(wide, bins, 3), [wide[bins == k].max() for k in range(3)],
             np.bincount(bins).astype(np.uint8))),
        "scatter": (lambda: td.scatter(zeros, bins, x, td.add), sums_to(wide, bins, 3)),
        "at.add": (lambda: td.use(start).at[bins].add(x), 2 + sums_to(wide, bins, 3)),
        "in a loop": (
            lambda: td.loop(2, lambda _, s: s.at[bins].add(x), td.use(zeros)),
            2 * sums_to(wide, bins, 3)),
    }  # fmt: skip


def data(dtype):
    random = generator("halves")
    return random.random(N).astype(dtype), random.integers(0, 3, N)


def assert_rounded(found, want, dtype):
    """As far from the exact result as one rounding, or two of a loop."""
    found = found if isinstance(found, tuple) else (found,)
    want = want if isinstance(want, tuple) else (want,)
    for f, w in zip(map(to_host, found), want, strict=True):
        if f.dtype != dtype:
            assert np.array_equal(f, w)
            continue
        unit = float(ml_dtypes.finfo(dtype).eps)
        np.testing.assert_allclose(f.astype(float), w, rtol=1.1 * unit, atol=0)


NAMES = [*cases(*data(np.float32))]


@pytest.mark.sample(16)
@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("name", NAMES)
def test_rounded_once(backend, name, half):
    x, bins = data(HALVES[half])
    with td.config(backend=backend):
        program, want = cases(x, bins)[name]
        assert_rounded(td.run(program()), want, x.dtype)


@pytest.mark.parametrize("half", HALVES)
def test_products_of_rows_and_columns(backend, half):
    """A sum of products that is rounded is a product of matrices; one in float32 is not."""
    x, _ = data(HALVES[half])
    a, b = x.reshape(5, 1, -1), x[::-1].reshape(1, 5, -1)
    want = (a.astype(float) * b.astype(float)).sum(-1)
    with td.config(backend=backend):
        sums = td.run(td.fold(plus, 0, td.use(a) * b), td.sum(td.use(a) * b, -1))
        for found in map(to_host, sums):
            assert_rounded(found, want, x.dtype)
        wide = to_host(td.run(td.sum(td.use(a) * b, -1, dtype=np.float32)))
        exact = (a * b).astype(np.float64).sum(-1)
        np.testing.assert_allclose(wide, exact, rtol=1e-5)


def test_what_tests_its_sums_is_not_changed(backend):
    """A function that saturates compares what it has rounded."""
    most = float(np.finfo(np.float16).max)

    def saturating(x, y):
        return td.where(td.isinf(x + y), most, x + y)

    x = np.full(9, 30000, np.float16)
    with td.config(backend=backend):
        found = to_host(td.run(td.fold(saturating, 0, x)))
    assert found == np.float16(most)
