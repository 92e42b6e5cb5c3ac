"""Updates of an array by the same sources, one after the other, are one kernel on a CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.dsl.graph import Permute, topological
from treadle.dsl.passes import run_passes
from treadle.dsl.process.configuration import Settings

rng = np.random.default_rng(5)
N = 4_000
I, J, K = rng.integers(-40, 40, (3, N))
X, Y = rng.random((2, N))


def permutes(f: Any, *args: Any, backend: str = "native", **settings: Any) -> int:
    program = td.jit(f, backend="native").lower(*args)
    roots = run_passes(program.source_roots, Settings(**settings), backend).roots
    return sum(isinstance(n, Permute) for n in topological(roots))


def deposit(i: Any, j: Any, x: Any, y: Any, n: int = 40) -> Any:
    grid = td.zeros((n, n)).at[i, j].add(x * (1 - y))
    return grid.at[j, i].add(x * y).at[(i + 1) % n, j].add(td.sqrt(x))


def expected(i: Any, j: Any, x: Any, y: Any, n: int = 40) -> Any:
    grid = np.zeros((n, n))
    np.add.at(grid, (i, j), x * (1 - y))
    np.add.at(grid, (j, i), x * y)
    np.add.at(grid, ((i + 1) % n, j), np.sqrt(x))
    return grid


def test_updates_by_the_same_sources_are_one_kernel() -> None:
    assert permutes(deposit, I, J, X, Y) == 1
    for _ in range(4):
        found = td.jit(deposit, backend="native")(I, J, X, Y)
        np.testing.assert_allclose(found, expected(I, J, X, Y), rtol=1e-12)


@pytest.mark.sample(4)
@pytest.mark.parametrize("n", [3, 40, 300, 2_000])
@pytest.mark.parametrize("way", ["add", "multiply", "min", "max"])
def test_ways_and_sizes_of_targets(n: int, way: str) -> None:
    """Private copies, one task in order, and atomic updates."""
    ufunc = {"add": np.add, "multiply": np.multiply, "min": np.minimum, "max": np.maximum}[way]

    def f(a: Any, i: Any, j: Any, x: Any) -> Any:
        a = getattr(a.at[i % n], way)(x)
        return getattr(a.at[td.where(j < 0, n, j % n)], way)(x + 0.5)  # outside: no update

    a = rng.random(n)
    want = a.copy()
    ufunc.at(want, I % n, X)
    inside = J >= 0
    ufunc.at(want, J[inside] % n, X[inside] + 0.5)
    assert permutes(f, a, I, J, X) == 1
    np.testing.assert_allclose(td.jit(f, backend="native")(a, I, J, X), want, rtol=1e-10)


def test_sources_of_two_axes_and_reads_that_a_condition_guards() -> None:
    table = rng.random(7)

    def f(i: Any, k: Any, table: Any) -> Any:
        bins = td.zeros(9).at[i % 9].add(1.0)
        guarded = td.generate(i.shape, lambda p, q: td.cond(k[p, q] < 7, table[k[p, q]], 0.0))
        return bins.at[k % 9].add(guarded)

    i, k = np.abs(rng.integers(0, 1 << 40, (2, 50, 30)))
    k[:, ::2] %= 7
    want = np.bincount(i.ravel() % 9, minlength=9).astype(float)
    np.add.at(want, k % 9, np.where(k < 7, table[np.minimum(k, 6)], 0))
    assert permutes(f, i, k, table) == 1
    np.testing.assert_allclose(td.jit(f, backend="native")(i, k, table), want)


def test_counts_are_one_histogram() -> None:
    def f(i: Any) -> Any:
        return td.zeros(40, td.int64).at[i].add(1).at[i // 2].add(1)

    want = np.bincount(I % 40, minlength=40) + np.bincount(I // 2 % 40, minlength=40)
    assert permutes(f, I) == 1
    assert (td.jit(f, backend="native")(I) == want).all()


def test_in_a_loop() -> None:
    def f(i: Any, j: Any, x: Any, n: Any) -> Any:
        return td.loop(n, lambda k, a: (a * 0.5).at[i].add(x).at[j].add(k * x), td.zeros(40))

    want = np.zeros(40)
    for k in range(5):
        want *= 0.5
        np.add.at(want, I, X)
        np.add.at(want, J, k * X)
    assert permutes(f, I, J, X, 5) == 1
    np.testing.assert_allclose(td.jit(f, backend="native")(I, J, X, 5), want)


def test_what_is_read_between_is_kept() -> None:
    def f(i: Any, j: Any, x: Any) -> Any:
        first = td.zeros(40).at[i].add(x)
        return first, first.at[j].add(x)

    def g(i: Any, j: Any, x: Any) -> Any:
        first = td.zeros(40).at[i].add(x)
        return first.at[j].add(first[i])

    for h in (f, g):
        assert permutes(h, I, J, X) == 2
    once = np.zeros(40)
    np.add.at(once, I, X)
    twice = once.copy()
    np.add.at(twice, J, once[I])
    np.testing.assert_allclose(td.jit(g, backend="native")(I, J, X), twice)


def test_others_stay_apart() -> None:
    def ways(i: Any, j: Any, x: Any) -> Any:
        return td.zeros(40).at[i].add(x).at[j].max(x)

    def overwriting(i: Any, j: Any, x: Any) -> Any:
        return td.zeros(40).at[i].set(x).at[j].set(x)

    def slices(i: Any, j: Any, x: Any) -> Any:
        return td.zeros(2 * N).at[::2].add(x).at[1::2].add(x)

    def sizes(i: Any, j: Any, x: Any) -> Any:
        return td.zeros(40).at[i].add(x).at[j[:100]].add(x[:100])

    for f in (ways, overwriting, slices, sizes):
        assert permutes(f, I, J, X) == 2
    assert permutes(deposit, I, J, X, Y, backend="cuda") == 3
    assert permutes(deposit, I, J, X, Y, check=True) == 3
    assert permutes(deposit, I, J, X, Y, deterministic=True) == 3
