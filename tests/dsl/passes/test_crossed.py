"""A fold along rows and one across them in one node."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from treadle.dsl.graph import CrossedFolds, Fold, StoringFold, topological
from treadle.dsl.graphs.printer import show_node
from treadle.dsl.graphs.verify import verify
from treadle.dsl.passes import run_passes
from treadle.dsl.process.configuration import Settings

rng = np.random.default_rng(3)
A, X, Y = rng.standard_normal((90, 70)), rng.standard_normal(70), rng.standard_normal(90)


def passed(f, *args, check=False, in_parts=False, backend="native"):
    program = td.jit(f, backend="native").lower(*args)
    roots = run_passes(program.source_roots, Settings(check=check), backend, in_parts).roots
    verify(roots)
    return roots


def kinds(f, *args, **how):
    return [type(n) for n in topological(passed(f, *args, **how)) if n.per_element()]


def squares(x, a, y):
    return td.sum((a @ x - y) ** 2)


def entropy(x, a, y):
    return td.sum(td.log1p(td.exp(-y * (a @ x))))


def descent(a, x, y):
    return td.iterate(5, lambda x: x - 0.01 * (a.T @ (a @ x - y)), x)


CROSSED = {
    "both sides": lambda a, x, y: (y @ a, a @ x),
    "a row's result": lambda a, x, y: (a @ x) @ a,
    "an epilogue": lambda a, x, y: a.T @ (1 / (1 + td.exp(-(a @ x))) - y),
    "extremes": lambda a, x, y: (td.max(a, axis=1), td.min(a, axis=0), td.sum(a, axis=0)),
    "planes": lambda a, x, y: (
        td.sum(td.stack([a, a + 1]), axis=2), td.sum(td.stack([a, a * 2]), axis=1)
    ),
    "a gradient": lambda a, x, y: td.grad(squares)(x, a, y),
    "a value, too": lambda a, x, y: td.value_and_grad(squares)(x, a, y),
    "of a function": lambda a, x, y: td.value_and_grad(entropy)(x, a, y),
    "in a loop": descent,
    "all but their means": lambda a, x, y: a - td.mean(a, axis=0) - td.mean(a, axis=1)[:, None],
}  # fmt: skip


@pytest.mark.parametrize("name", [n for n in CROSSED if n != "planes"])
def test_one_node_is_both(name):
    f = CROSSED[name]
    found = kinds(f, A, X, Y)
    assert found.count(CrossedFolds) == 1 and StoringFold not in found
    for other in ({"check": True}, {"in_parts": True}, {"backend": "cuda"}, {"backend": "dask"}):
        assert CrossedFolds not in kinds(f, A, X, Y, **other)


def test_what_is_computed_between_is_stored_with_the_results():
    """The residuals and their sum: one vector is read again, the matrix is not."""
    found = kinds(CROSSED["a value, too"], A, X, Y)
    assert found.count(Fold) == 1 and len(found) == 2


APART = {
    "of other rows": lambda a, x, y: (td.roll(a @ x, 1)) @ a,
    "of all rows": lambda a, x, y: ((a @ x) / td.sum(a @ x)) @ a,
    "of columns": lambda a, x, y: a @ (y @ a),
    "other elements": lambda a, x, y: (a @ x, y @ td.roll(a, 1, axis=0)),
    "places": lambda a, x, y: (td.argmax(a, axis=1), td.sum(a, axis=0)),
    "an order of their own": lambda a, x, y: (
        td.fold(lambda p, q: p + q, 0.0, a, schedule=td.schedule.ZigZag(2)), td.sum(a, axis=0)
    ),
    "deterministic": lambda a, x, y: (
        td.sum(a, axis=1, deterministic=True), td.sum(a, axis=0, deterministic=True)
    ),
    "other iterations": lambda a, x, y: td.iterate(
        2, lambda s: s + td.sum(a * s[:, None], axis=0)[0], td.sum(a, axis=1)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", APART)
def test_two_nodes_remain(name):
    assert CrossedFolds not in kinds(APART[name], A, X, Y)


@pytest.mark.parametrize("name", CROSSED)
def test_the_meaning_is_that_of_two_folds(name):
    f = CROSSED[name]
    for a, x, y in ((A, X, Y), (A[:0], X, Y[:0]), (A[:, :1], X[:1], Y)):
        if not a.size and name == "extremes":
            continue
        wanted = td.jit(f, backend="reference")(a, x, y)
        found = td.jit(f, backend="native")(a, x, y)
        for one, other in zip(*(r if isinstance(r, tuple) else (r,) for r in (found, wanted)),
                              strict=True):  # fmt: skip
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-9)


def test_text():
    (node,) = [n for n in topological(passed(CROSSED["an epilogue"], A, X, Y))
               if isinstance(n, CrossedFolds)]  # fmt: skip
    text = show_node(node)
    for part in ("along (", " by (left0 + right0) from 0.0 then ", " as row0, across ("):
        assert part in text
