"""Tests of the counters of loops over arrays that always hold, or never."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.dsl.expr import Apply, walk
from treadle.dsl.graph import Permute, topological

X = np.random.default_rng(2).random((7, 40))


def comparisons(f: Any, *args: Any) -> int:
    """The comparisons of loop counters in the kernels of a program."""
    program = td.jit(f, backend="native").lower(*args)
    found = 0
    for node in topological(program.roots):
        counters = {
            leaf.node for leaf in node.inputs() if getattr(leaf.node, "kind", 0) == "counter"
        }
        for e in walk(node.expressions()) if counters else ():
            found += isinstance(e, Apply) and e.type is td.bool_ and e.reads
    return found


def tracked(x: Any) -> Any:
    """The states of a loop over the rows of x."""

    def step(s: Any, row: Any) -> Any:
        s = td.sin(s + td.roll(row, 1)) * td.the(td.sum(s))
        return s, s * row

    return td.scan(step, x[0] * 0, x)[1]


def test_what_loops_collect_is_written_without_tests() -> None:
    assert not comparisons(tracked, X)
    want, s = [], X[0] * 0
    for row in X:
        s = np.sin(s + np.roll(row, 1)) * s.sum()
        want.append(s * row)
    np.testing.assert_allclose(td.jit(tracked)(X), want)


def test_derivatives_visit_all_iterations() -> None:
    assert not comparisons(td.grad(lambda x: td.sum(tracked(x + 1) ** 2)), X)


@pytest.mark.parametrize(("k", "always"), [(0, True), (1, False), (4, False)])
def test_tests_of_some_iterations_stay(k: int, always: bool) -> None:
    def last(x: Any) -> Any:
        def step(j: Any, s: Any) -> Any:
            return td.where(j >= k, td.roll(s, 1) + x[j], s * 2)

        return td.loop(x.shape[0], step, x[0])

    assert bool(comparisons(last, X)) is not always
    want = X[0]
    for j, row in enumerate(X):
        want = np.roll(want, 1) + row if j >= k else want * 2
    np.testing.assert_allclose(td.jit(last)(X), want)


def test_writes_that_may_be_outside_are_tested() -> None:
    def shifted(x: Any, at: Any) -> Any:
        def step(k: Any, s: Any) -> Any:
            return s.at[k + 1].set(td.sin(s[k]) + td.roll(x[at[k]], 1))

        return td.loop(x.shape[0], step, x)

    at = np.arange(7)[::-1].copy()
    program = td.jit(shifted).lower(X, at)
    writes = [n for n in topological(program.roots) if isinstance(n, Permute)]
    assert all(any(isinstance(e, Apply) for e in walk((n.valid,))) for n in writes)
