"""Updates by what a walk collects are a part of the walk, on a CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.dsl.graph import Node, Recurrence, Sequential, topological
from treadle.dsl.passes import run_passes
from treadle.dsl.process.configuration import Settings
from treadle.dsl.target import NATIVE
from treadle.skeletons.lower.lower import LoweringContext, lower

rng = np.random.default_rng(23)


def kernels(f: Any, *args: Any, backend: str = "native") -> list[Node]:
    program = td.jit(f, backend="native").lower(*args)
    roots = run_passes(program.source_roots, Settings(), backend).roots
    return [n for n in topological(roots) if isinstance(n, Recurrence | Sequential)]


def rolling(letters: Any, bins: int = 64) -> Any:
    """The code of the last three letters, at each."""

    def step(code: Any, letter: Any) -> Any:
        code = (code * 4 + letter) % bins
        return code, code

    return td.scan(step, td.int64(0), letters)[1]


def words(letters: Any) -> Any:
    return td.bincount(rolling(letters)[2:], minlength=64)


def expected(letters: Any) -> Any:
    n = max(letters.size - 2, 0)
    a = letters.astype("i8")
    return np.bincount(16 * a[:n] + 4 * a[1 : n + 1] + a[2:], minlength=64)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 6, 7, 4095, 4096, 4097, 10_000])
def test_words_are_counted(n: int) -> None:
    letters = rng.integers(0, 4, n).astype(np.uint8)
    assert np.array_equal(td.jit(words, backend="native")(letters), expected(letters))


def test_codes_are_not_stored() -> None:
    letters = rng.integers(0, 4, 100).astype(np.uint8)
    assert [type(n) for n in kernels(words, letters)] == [Sequential]
    assert [type(n) for n in kernels(words, letters, backend="cuda")] == [Recurrence]
    program = td.jit(words, backend="native").lower(letters)
    assert "a part of the walk whose results it reads" in program.explain()


def test_beyond_the_first_columns_nothing_is_tested() -> None:
    letters = rng.integers(0, 4, 100).astype(np.uint8)
    (node,) = kernels(words, letters)
    text = str(lower(node, LoweringContext(target=NATIVE)).kernels[0])
    loops = text.split("for j")[1:]
    assert [part.count(" + -2) >= 0") for part in loops] == [1, 0, 1], text
    assert [part.count("out1[value") for part in loops] == [2, 8, 2], text  # four at a time


def test_several_states_and_several_results() -> None:
    def f(x: Any) -> Any:
        def step(state: Any, x: Any) -> Any:
            total, odd = state
            total, odd = (total + x) % 11, odd ^ (x & 1)
            return (odd + total, odd), (total, odd)

        totals, odds = td.scan(step, (td.int64(0), td.int64(1)), x)[1]
        return td.full((5, 30), 7).at[odds + (totals & 3), 2 * totals].max(totals * x)

    x = rng.integers(0, 50, 500)
    want, total, odd = np.full((5, 30), 7), 0, 1
    for k in x:
        total, odd = (total + k) % 11, odd ^ (k & 1)
        at = odd + (total & 3), 2 * total
        want[at] = max(want[at], total * k)
        total += odd
    assert [type(n) for n in kernels(f, x)] == [Sequential]
    assert np.array_equal(td.jit(f, backend="native")(x), want)


def histogram(at: Any, x: Any) -> Any:
    return td.zeros(64, td.int64).at[at].add(x)


@pytest.mark.parametrize("f", [
    lambda x: (rolling(x), words(x)),  # the codes are a result
    lambda x: (words(x), td.sum(rolling(x))),  # something else reads them
    lambda x: histogram(rolling(x), rolling(x)[::-1]),  # at other steps
    lambda x: td.zeros(64).at[rolling(x)].add(0.1),  # in another order with other bits
    lambda x: td.bincount(rolling(x, 1 << 20), minlength=1 << 20),  # the caches are too small
    lambda x: histogram(rolling(x), td.floor(td.exp(td.sin(x * 1.0))).astype(td.int64)),  # slow
])  # fmt: skip
def test_other_walks_store_their_results(f: Any) -> None:
    x = rng.integers(0, 4, 100)
    assert Recurrence in [type(n) for n in kernels(f, x)]
    results = [td.jit(lambda x: f(x), backend=b)(x) for b in ("native", "reference")]
    for made, want in zip(*(r if isinstance(r, tuple) else (r,) for r in results), strict=True):
        assert np.allclose(made, want)


def test_an_update_that_reads_its_target_stays_apart() -> None:
    def f(x: Any, h: Any) -> Any:
        return h.at[rolling(x)].max(h[x])

    x, h = rng.integers(0, 4, 100), rng.integers(0, 50, 64)
    want = h.copy()
    np.maximum.at(want, np.asarray(td.jit(rolling, backend="reference")(x)), h[x])
    assert np.array_equal(td.jit(f, backend="native")(x, h), want)


def test_updates_in_a_loop() -> None:
    def f(x: Any) -> Any:
        return td.loop(3, lambda k, h: h.at[(rolling(x) + k) % 64].add(1), td.zeros(64, td.int64))

    x = rng.integers(0, 4, 100)
    codes = np.asarray(td.jit(rolling, backend="reference")(x))
    want = sum(np.bincount((codes + k) % 64, minlength=64) for k in range(3))
    assert np.array_equal(td.jit(f, backend="native")(x), want)


def test_what_a_walk_ends_with_is_known_after_it() -> None:
    def f(x: Any) -> Any:
        last, sums = td.scan(lambda s, v: ((s + v) % 8, s), 0, x)
        return td.zeros(8, td.int64).at[sums].add(last)

    x = np.arange(40)
    want, got = (td.jit(f, backend=b)(x) for b in ("reference", "native"))
    assert np.array_equal(got, want)
