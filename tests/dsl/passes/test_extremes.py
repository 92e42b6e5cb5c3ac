"""An extreme and its index in one fold."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from treadle.dsl.graph import Fold, topological
from treadle.dsl.graphs.verify import verify
from treadle.dsl.passes import run_passes
from treadle.dsl.process.configuration import Settings

rng = np.random.default_rng(8)
A = rng.standard_normal((90, 70))


def folds(f, *args, backend="native"):
    roots = run_passes(td.jit(f, backend="native").lower(*args).source_roots, Settings(), backend)
    verify(roots.roots)
    return [n for n in topological(roots.roots) if isinstance(n, Fold)]


def step(state, cost):
    """A step of Viterbi's algorithm."""
    to = state[:, None] + cost
    return td.max(to, axis=0) + 1, td.argmax(to, axis=0)


def steps(a):
    state, back = td.scan(lambda s, k: step(s, a[:70] * k), a[0], td.arange(3.0))
    return state, back


JOINED = {
    "columns": lambda a: (td.max(a, axis=0), td.argmax(a, axis=0)),
    "rows": lambda a: (td.argmin(a, axis=1), td.min(a, axis=1)),
    "everything": lambda a: (td.max(a), td.argmax(a)),
    "computed": lambda a: step(a[:70, 0], a[:70]),
    "one result of both": lambda a: td.max(a, axis=1) * 2 + td.argmax(a, axis=1),
    "in a loop": steps,
}  # fmt: skip

APART = {
    "other extremes": lambda a: (td.max(a, axis=0), td.argmin(a, axis=0)),
    "other axes": lambda a: (td.max(a, axis=0), td.argmax(a, axis=1)),
    "a start": lambda a: (td.max(a, axis=0, initial=1.0), td.argmax(a, axis=0)),
    "one needs the other": lambda a: (
        td.max(a, axis=0),
        td.argmax(a, axis=0) + td.cast(td.roll(td.max(a, axis=0), 1), td.int64),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", JOINED)
def test_one_fold_is_both(name):
    assert len(folds(JOINED[name], A)) == 1


@pytest.mark.parametrize("name", APART)
def test_two_folds_remain(name):
    assert len(folds(APART[name], A)) >= 2


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i4", "u1", "?"])
@pytest.mark.parametrize("name", [*JOINED, *APART])
def test_results(name, dtype):
    f = {**JOINED, **APART}[name]
    a = (A * 10).astype(dtype)
    if dtype == "?" and name not in ("columns", "rows", "everything", "other axes"):
        pytest.skip("sums of booleans")
    if np.dtype(dtype).kind == "f":
        a[3, ::7] = np.nan
        a[50, 14], a[20] = np.nan, 0.0
    if name in ("in a loop", "computed") and dtype != "f8":
        pytest.skip("the state's type")
    for array in (a, np.asfortranarray(a), a[:, :40].copy()):
        if name in ("in a loop", "computed") and array.shape[1] < 70:
            continue
        wanted = td.jit(f, backend="reference")(array)
        for _ in range(2):
            found = td.jit(f, backend="native")(array)
            pairs = zip(
                *(r if isinstance(r, tuple) else (r,) for r in (found, wanted)), strict=True
            )
            for one, other in pairs:
                np.testing.assert_array_equal(one, other)
