"""Permutes to the same targets are one kernel on a CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.dsl.graph import Permute, topological
from treadle.dsl.passes import run_passes
from treadle.dsl.passes.recognise import BYTE_COUNTS
from treadle.dsl.process.configuration import Settings

rng = np.random.default_rng(4)
X, Y = rng.random(40_000), rng.random(40_000)


def permutes(f: Any, *args: Any, backend: str = "native") -> int:
    program = td.jit(f, backend="native").lower(*args)
    roots = run_passes(program.source_roots, Settings(), backend).roots
    return sum(isinstance(n, Permute) for n in topological(roots))


def means(x: Any, y: Any) -> Any:
    counts, _ = td.histogram(x, 50)
    sums, _ = td.histogram(x, 50, weights=y)
    return sums / counts


def test_sums_and_counts_over_the_same_bins_are_one_kernel() -> None:
    assert permutes(means, X, Y) == 1
    expected = np.histogram(X, 50, weights=Y)[0] / np.histogram(X, 50)[0]
    for _ in range(4):
        assert np.allclose(td.jit(means, backend="native")(X, Y), expected)


@pytest.mark.sample(4)
@pytest.mark.parametrize("bins", [3, 700, 90_000])
@pytest.mark.parametrize("deterministic", [False, True])
def test_each_component_has_its_own_function(bins: int, deterministic: bool) -> None:
    places = (X * bins).astype(np.int64)

    def f(k: Any, y: Any) -> Any:
        start = td.fill(bins, 0.5)
        options: Any = {"deterministic": deterministic}
        return (
            td.permute(td.add, start, lambda i: k[i], y, **options),
            td.permute(td.maximum, start, lambda i: k[i], y, **options),
            td.permute(td.add, td.fill(bins, np.float32(1)), lambda i: k[i],
                       td.cast(y, td.float32), **options),
        )  # fmt: skip

    assert permutes(f, places, Y) == 1
    sums, most, more = np.full(bins, 0.5), np.full(bins, 0.5), np.ones(bins, np.float32)
    np.add.at(sums, places, Y)
    np.maximum.at(most, places, Y)
    np.add.at(more, places, Y.astype(np.float32))
    for _ in range(4):
        found = td.jit(f, backend="native")(places, Y)
        for one, expected in zip(found, (sums, most, more), strict=True):
            assert one.dtype == expected.dtype and np.allclose(one, expected, rtol=1e-4)


def test_other_places_are_another_kernel() -> None:
    def f(x: Any, y: Any) -> Any:
        k, m = td.cast(x * 9, td.int64), td.cast(x * 8, td.int64)
        return td.bincount(k, weights=y, length=9), td.bincount(m, weights=y, length=9)

    assert permutes(f, X, Y) == 2


def test_what_reads_the_other_is_another_kernel() -> None:
    def f(k: Any, y: Any) -> Any:
        first = td.permute(td.add, td.fill(9, 0.0), lambda i: k[i], y)
        return td.permute(td.add, first, lambda i: k[i], td.gather(first, k))

    positions = (X * 9).astype(np.int64)
    assert permutes(f, positions, Y) == 2
    counted, sums = np.bincount(positions), np.bincount(positions, Y, 9)
    assert np.allclose(td.jit(f, backend="native")(positions, Y), sums + counted * sums)


def test_large_counts_stay_in_bytes() -> None:
    def f(k: Any, y: Any) -> Any:
        n = BYTE_COUNTS
        return td.bincount(k, weights=y, length=n), td.bincount(k, length=n)

    assert permutes(f, (X * 1000).astype(np.int64), Y) == 2


def test_a_gpu_counts_in_kernels_of_their_own() -> None:
    assert permutes(means, X, Y, backend="cuda") == 2
