"""A compiled function reads the arrays of NumPy that it refers to in each call: what they hold may
change between calls, whatever the operation does with them."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td

from .helpers import assert_same, generator, to_host

X = generator("captured").random(12)

#: An operation of `xp` on X and a captured array c; what c holds while it is traced, and after.
CASES = {
    "take": (lambda xp, x, c: xp.take(x, c), [0, 2, 5], [[1, 4, 3], [0, 0, 11]]),
    "an index": (lambda xp, x, c: x[c], [0, 2, 5], [[1, 4, 3], [-1, 0, 0]]),
    "a mask": (lambda xp, x, c: x[c], [True, False] * 6, [[True] * 12, [False] * 12]),
    "compress": (lambda xp, x, c: xp.compress(c, x), [1, 0] * 6, [[1] * 12]),
    "nonzero": (lambda xp, x, c: xp.nonzero(c), [1, 0, 2], [[1, 1, 1], [0, 0, 0]]),
    "where": (lambda xp, x, c: xp.where(c, x, 0), [1, 0] * 6, [[1] * 12]),
    "isin": (lambda xp, x, c: xp.isin(xp.arange(9), c), [1, 3], [[5, 3], [0, 1]]),
    "digitize": (lambda xp, x, c: xp.digitize(x, c), [0, 0.2, 0.9], [[0.1, 0.5, 0.6],
                                                                     [0.9, 0.5, 0.1]]),
    "digitize, falling": (lambda xp, x, c: xp.digitize(x, c, True), [0.9, 0.5], [[0.1, 0.5]]),
    "searchsorted": (lambda xp, x, c: xp.searchsorted(c, x), [0, 0.2, 0.9], [[0.1, 0.5, 0.6]]),
    "histogram": (lambda xp, x, c: xp.histogram(x, c), [0, 0.2, 0.9], [[0.1, 0.5, 0.6]]),
    "percentile": (lambda xp, x, c: xp.percentile(x, c), [10.0, 50.0], [[99.0, 0.0]]),
    "repeat": (lambda xp, x, c: xp.repeat(x[:3], c), [1, 0, 2], [[2, 2, 2], [0, 1, 0]]),
    "delete": (lambda xp, x, c: xp.delete(x, c), [1, 0], [[2, 11], [3, 3]]),
    "insert": (lambda xp, x, c: xp.insert(x, c, 5.0), [1, 0], [[2, 11], [3, 3]]),
    "split": (lambda xp, x, c: xp.split(x, c), [2, 5], [[1, 2], [3, 12]]),
    "array_split": (lambda xp, x, c: xp.array_split(x, c), [2, 5], [[1, 2], [3, 12]]),
    "bincount": (lambda xp, x, c: xp.bincount(c), [1, 0, 2], [[1, 1, 9], [0, 0, 0]]),
    "unique": (lambda xp, x, c: xp.unique(c), [1, 0, 2], [[1, 1, 1]]),
    "setdiff1d": (lambda xp, x, c: xp.setdiff1d(c, [1, 2]), [1, 0, 2], [[1, 4, 5]]),
    "trim_zeros": (lambda xp, x, c: xp.trim_zeros(c), [1, 0, 0], [[0, 1, 0], [1, 1, 1]]),
    "choose": (lambda xp, x, c: xp.choose(c, [x[:2], x[2:4]]), [0, 1], [[1, 0]]),
    "ix_": (lambda xp, x, c: x.reshape(3, 4)[xp.ix_(c, c)], [0, 1], [[2, 0]]),
    "interp": (lambda xp, x, c: xp.interp(x, c, c), [0, 0.5, 1], [[0.1, 0.2, 0.3]]),
    "gradient": (lambda xp, x, c: xp.gradient(x[:3], c), [0, 0.5, 1], [[0.1, 0.2, 0.9]]),
    "average": (lambda xp, x, c: xp.average(x[:2], weights=c), [1, 2], [[5, 1]]),
    "lexsort": (lambda xp, x, c: xp.lexsort((c,)), [1, 0, 2], [[5, 1, 0]]),
    "polyval": (lambda xp, x, c: xp.polyval(c, x), [1, 0, 2], [[0, 0, 4]]),
    "unravel_index": (lambda xp, x, c: xp.unravel_index(c, (3, 4)), [1, 0], [[11, 5]]),
}  # fmt: skip


@pytest.mark.sample(10)
@pytest.mark.parametrize("case", CASES)
def test_what_a_captured_array_holds_may_change(case: str, backend: str) -> None:
    f, first, later = CASES[case]
    captured = np.array(first)
    compiled = td.jit(lambda x: f(td, x, captured), backend=backend)
    for held in (first, *later):
        captured[...] = held
        got, want = compiled(X), f(np, X, captured)
        several = isinstance(want, list | tuple)
        assert_same(tuple(map(to_host, got)) if several else to_host(got),
                    tuple(want) if several else want, label=case, ulps=2)  # fmt: skip


def test_in_a_function_of_elements(backend: str) -> None:
    values = np.array([1, 3])
    member = td.jit(lambda x: td.map(lambda v: td.isin(v, values), x), backend=backend)
    for first in (1, 5, 0):
        values[0] = first
        assert_same(to_host(member(np.arange(6))), np.isin(np.arange(6), values))
