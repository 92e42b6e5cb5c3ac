"""Searches in long rows stop: `any`, `all`, and `argmax` and `argmin` of booleans."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.dsl.graph import Fold, topological
from treadle.dsl.passes import run_passes
from treadle.dsl.process.configuration import Settings

N = 100_003
WAYS = {"any": (td.any, np.any), "all": (td.all, np.all),
        "argmax": (td.argmax, np.argmax), "argmin": (td.argmin, np.argmin)}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_wherever_the_first_is(way: str, axis: int | None) -> None:
    f, of = WAYS[way]
    made = td.jit(lambda x: f(x > 0.5, axis=axis), backend="native")
    rng = np.random.default_rng(3)
    shape = (N,) if axis is None else (5, N) if axis else (N, 5)
    for first in (0, 1, 8191, 8192, 50_000, 70_000, N - 1, N):
        x = np.zeros(shape)
        hits = rng.integers(first, N, 3) if first < N else []
        for k in [*hits, *([first] if first < N else [])]:
            x[(k,) if axis is None else (2, k) if axis else (k, 2)] = 1.0
        for given in (x, 1 - x):
            assert np.array_equal(made(given), of(given > 0.5, axis=axis)), first


def folds(f: Any, *args: Any) -> int:
    program = td.jit(f, backend="native").lower(*args)
    roots = run_passes(program.source_roots, Settings(), "native").roots
    return sum(isinstance(n, Fold) for n in topological(roots))


def test_the_index_of_the_first_is_found_in_one_pass() -> None:
    assert folds(lambda x: td.argmax(x > 0), np.zeros(9)) == 1


def test_explain_says_so() -> None:
    text = td.jit(lambda x: td.any(x > 0), backend="native").lower(np.zeros(N)).explain()
    assert "a row of several blocks is left when one has decided it" in text
    assert td.jit(lambda x: td.max(x), backend="native").lower(np.zeros(N)).explain().count(
        "decided") == 0  # fmt: skip


def test_checks_see_every_index() -> None:
    def f(x: Any, k: Any) -> Any:
        return td.any(td.generate(k.shape, lambda i: x[k[i]] > 0))

    k = np.zeros(N, np.int64)
    k[-1] = 9
    with pytest.raises(td.IndexOutOfBounds):
        td.run(f(td.use(np.ones(5)), td.use(k)), backend="native", check=True)
