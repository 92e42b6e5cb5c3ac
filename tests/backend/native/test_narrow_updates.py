"""Updates of short rows: each source updates all elements of its row, without a division."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td

rng = np.random.default_rng(21)


@pytest.mark.sample(6)
@pytest.mark.parametrize("rows", [4, 700, 30_000, 300_000])
@pytest.mark.parametrize("width", [2, 3, 8])
@pytest.mark.parametrize("way", ["add", "max", "set"])
@pytest.mark.parametrize("deterministic", [False, True])
def test_rows_at_indices(rows: int, width: int, way: str, deterministic: bool) -> None:
    def f(a: Any, ids: Any, x: Any) -> Any:
        return getattr(a.at[ids], way)(x)

    a, x = rng.random((rows, width)), rng.random((40_000, width))
    ids = rng.integers(-rows, rows + 1, 40_000)  # rows itself is outside: no update
    if way == "set":  # of updates with the same index any may be the last
        ids = np.r_[rng.permutation(rows), np.full(40_000, rows)][:40_000]
    inside = ids < rows
    want = a.copy()
    if way == "set":
        want[ids[inside]] = x[inside]
    else:
        {"add": np.add, "max": np.maximum}[way].at(want, ids[inside], x[inside])
    made = td.jit(f, backend="native", deterministic=deterministic)
    for given in (x, np.asfortranarray(x)):
        for _ in range(2):
            np.testing.assert_allclose(made(a, ids, given), want, rtol=1e-12)


def test_rows_of_a_matrix_of_indices() -> None:
    ids, x = rng.integers(0, 50, (30, 40)), rng.integers(0, 9, (30, 40, 3))

    def f(ids: Any, x: Any) -> Any:
        return td.zeros((50, 3), td.int64).at[ids].add(x), td.zeros(50, td.int64).at[ids].add(1)

    want = np.zeros((50, 3), np.int64)
    np.add.at(want, ids, x)
    sums, counts = td.jit(f, backend="native")(ids, x)
    assert np.array_equal(sums, want)
    assert np.array_equal(counts, np.bincount(ids.ravel(), minlength=50))


def test_costly_values_of_short_rows_are_computed_in_vectors() -> None:
    ids, x = rng.integers(0, 50, 4000), rng.random((4000, 4))

    def f(ids: Any, x: Any) -> Any:
        return td.zeros((50, 4)).at[ids].add(td.exp(x) * td.sin(x))

    want = np.zeros((50, 4))
    np.add.at(want, ids, np.exp(x) * np.sin(x))
    np.testing.assert_allclose(td.jit(f, backend="native")(ids, x), want, rtol=1e-10)


def test_explain_names_the_way() -> None:
    ids, x = rng.integers(0, 50, 4000), rng.random((4000, 3))
    program = td.jit(lambda i, x: td.zeros((50, 3)).at[i].add(x), backend="native").lower(ids, x)
    assert "all elements of the last axis after each other" in program.explain()
