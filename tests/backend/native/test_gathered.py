"""What is read where data says is stored for many reads, and computed there for few."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td

#: Elements and indices: many reads, few, and none.
SIZES = [(500, 3000), (500, 500), (5000, 40), (8, 1), (7, 0)]


def launched(f: Callable[..., Any], *args: Any) -> int:
    text = td.jit(f, backend="native").lower(*args).explain().splitlines()[0]
    return int(text.split(", ")[1].split()[0])


def data(n: int, m: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(n + m)
    return *(rng.random((3, n)) + 0.5), rng.integers(0, n, m)


def quotient(a: Any, b: Any, c: Any, k: Any) -> Any:
    return (a / b)[k]


def masked(a: Any, b: Any, c: Any, k: Any) -> Any:
    where = td.where if isinstance(a, td.Array) else np.where
    return where(c > 1, a - b, 0.0)[k] * 2


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("f", [quotient, masked])
def test_one_program_for_few_and_many(f: Callable[..., Any], size: tuple[int, int]) -> None:
    program = td.jit(f, backend="native")
    program(*data(300, 300))
    args = data(*size)
    with np.errstate(all="ignore"):
        assert np.array_equal(program(*args), f(*args))


def test_few_are_not_stored() -> None:
    assert launched(quotient, *data(500, 3000)) == 2
    assert launched(quotient, *data(5000, 40)) == 1
    assert launched(lambda a, b, c, k: a[k] + td.sqrt(b[k]), *data(500, 3000)) == 1
    text = td.jit(quotient, backend="native").lower(*data(5000, 40)).explain()
    assert "computed in kernel 2, which reads few of its elements; not launched" in text


def test_updates_and_sums() -> None:
    """A permute, whose source reads what is stored, and a fold."""

    def spread(a: Any, b: Any, c: Any, k: Any) -> Any:
        return a.at[k].add((b / c)[k[::-1]]) if isinstance(a, td.Array) else added(a, b, c, k)

    def added(a: Any, b: Any, c: Any, k: Any) -> Any:
        a = a.copy()
        np.add.at(a, k, (b / c)[k[::-1]])
        return a

    for f in (spread, lambda a, b, c, k: (a * b + c)[k].sum()):
        program = td.jit(f, backend="native")
        for size in SIZES:
            assert np.allclose(program(*data(*size)), f(*data(*size)))


def test_in_a_loop() -> None:
    """Ranks of pages, whose share of each link is computed once for a page."""

    def ranks(degree: Any, source: Any, target: Any) -> Any:
        n = degree.shape[0]

        def step(k: Any, rank: Any) -> Any:
            return 0.15 / n + 0.85 * td.zeros(n).at[target].add((rank / degree)[source])

        return td.loop(6, step, td.ones(n) / n)

    program = td.jit(ranks, backend="native")
    for n, m in ((50, 400), (400, 10)):
        rng = np.random.default_rng(n)
        source, target = rng.integers(0, n, (2, m))
        degree = np.bincount(source, minlength=n) + 1.0
        rank = np.ones(n) / n
        for _ in range(6):
            rank = 0.15 / n + 0.85 * np.bincount(target, (rank / degree)[source], n)
        assert np.allclose(program(degree, source, target), rank)
    assert launched(ranks, degree, source, target) < launched(
        ranks, np.ones(50), np.zeros(400, int), np.zeros(400, int)
    )
