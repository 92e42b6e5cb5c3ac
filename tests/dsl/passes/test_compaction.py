"""Elements that fit a mask are stored without the position of each, on a CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.dsl.graph import Compact, Node, Scan, topological
from treadle.dsl.passes import run_passes
from treadle.dsl.process.configuration import Settings

rng = np.random.default_rng(17)
SIZES = [0, 1, 63, 64, 65, 4095, 4096, 4097, 20_000]


def nodes(f: Any, *args: Any, backend: str = "native") -> list[Node]:
    program = td.jit(f, backend="native").lower(*args)
    roots = run_passes(program.source_roots, Settings(), backend).roots
    return list(topological(roots))


def compacts(f: Any, *args: Any, backend: str = "native") -> int:
    return sum(isinstance(n, Compact) for n in nodes(f, *args, backend=backend))


@pytest.mark.parametrize("n", SIZES)
def test_any_share_of_any_number_of_elements(n: int) -> None:
    x = rng.random(n)
    made = td.jit(lambda x, t: x[x > t], backend="native")
    for t in (2.0, 0.99, 0.5, -1.0, 0.999):
        assert np.array_equal(made(x, t), x[x > t])


def test_no_position_is_stored() -> None:
    x = rng.random(100)
    assert compacts(lambda x: x[x > 0.5], x) == 1
    assert compacts(lambda x: x[x > 0.5], x, backend="cuda") == 0
    found = [n for n in nodes(lambda x: x[x > 0.5], x) if isinstance(n, Scan)]
    assert len(found) == 1 and str(found[0].shape[0]) != "%0.shape[0]"


def test_only_elements_that_fit_are_read() -> None:
    k, x = rng.integers(-50, 50, 9000), rng.integers(1, 9, 50)

    def f(k: Any, x: Any) -> Any:
        values = td.generate(k.shape, lambda i: td.cond(k[i] >= 0, 100 // x[k[i]], -1))
        return td.compact(k >= 0, values)

    found, count = td.jit(f, backend="native")(k, x)
    assert np.array_equal(found, 100 // x[k[k >= 0]]) and count == (k >= 0).sum()


def test_run_lengths() -> None:
    def runs(k: Any) -> Any:
        first = td.concatenate([td.full(1, True), k[1:] != k[:-1]])
        starts = td.flatnonzero(first)
        return starts, td.diff(starts, append=k.shape[0])

    for n in (1, 2, 5000, 30_000):
        k = np.sort(rng.integers(0, 90, n))
        starts, lengths = td.jit(runs, backend="native")(k)
        expected = np.flatnonzero(np.r_[True, k[1:] != k[:-1]])
        assert np.array_equal(starts, expected)
        assert np.array_equal(lengths, np.diff(expected, append=n))


CASES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "nonzero": (lambda m: td.nonzero(m > 0.7), (rng.random((70, 90)),)),
    "argwhere": (lambda m: td.argwhere(m > 0.7), (rng.random((70, 90)),)),
    "columns": (lambda m: m[m[:, 0] > 0.5], (rng.random((700, 3)),)),
    "slices": (lambda m: m[:, 1:][m[:, 1:] > 0.5], (rng.random((70, 90)),)),
    "pairs": (lambda x, y: td.unzip(td.compact(x > y, td.zip(x, y))[0]),
              (rng.random(5000), rng.random(5000))),
    "twice": (lambda x: (lambda y: y[y < 0.7])(x[x > 0.5]), (rng.random(9000),)),
    "sums": (lambda x: td.sum(td.floor(x[x > 0.5] * 8)), (rng.random(9000),)),
    "two of one mask": (lambda x, y: (x[x > 0.5], y[x > 0.5]),
                        (rng.random(9000), rng.random(9000))),
    "costly": (lambda x: x[td.sin(x * 99) > 0.5] * 2, (rng.random(9000),)),
    "count": (lambda x: td.compact(x > 0.5, x)[1] * 2, (rng.random(9000),)),
    "in a loop": (lambda x: td.loop(3, lambda k, s: s + td.sum(td.floor(x[x * k > s] * 8)), 0.0),
                  (rng.random(9000),)),
    "positions": (lambda x: (td.cumsum(x > 0.5), x[x > 0.5]), (rng.random(9000),)),
    "complex": (lambda x: (x + 1j)[x > 0.5], (rng.random(5000),)),
    "a mask that holds": (lambda x: (x[td.ones(x.shape, bool)], td.nonzero(td.ones(x.shape))[0]),
                          (rng.random(5000),)),
    "a mask that does not": (lambda x: (x[(x * 0).astype(bool) & False], td.filter(
        lambda e: False, x)[0]), (rng.random(5000),)),
    "a comparison that the type decides": (lambda x: (x[x < 300], x[x > -1], x[x > 300]),
                                           (rng.integers(0, 99, 5000).astype("u1"),)),
    "halves": (lambda x: x.astype(td.float16)[x > 0.5], (rng.random(5000),)),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_results_are_those_of_the_graph_as_written(case: str) -> None:
    f, arguments = CASES[case]
    expected = td.jit(f, backend="reference")(*arguments)
    made = td.jit(f, backend="native")
    for _ in range(4):
        found = made(*arguments)
        pairs = (
            zip(found, expected, strict=True) if isinstance(found, tuple) else [(found, expected)]
        )
        for one, other in pairs:
            assert np.array_equal(one, other) and one.dtype == other.dtype
