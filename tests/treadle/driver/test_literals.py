"""Expressions that differ in their literals only have one program, once these have varied."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.driver import expressions
from treadle.dsl.frontend.deferred import MOST_LITERALS
from treadle.dsl.graphs.literals import without_literals

KEY = td.random.key(5)
LINE = td.use(np.linspace(-1, 2, 10))
#: Every test takes other numbers.
_fresh = count(20, 30)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of parameters of every program that is made."""
    found: list[int] = []
    make = expressions.Program

    def program(*args: Any) -> Any:
        found.append(len(args[5]) if len(args) > 5 else 0)
        return make(*args)

    monkeypatch.setattr(expressions, "Program", program)
    return found


OF_EXTENTS: dict[str, Callable[[int], Any]] = {
    "arange": lambda k: td.arange(k) * 2,
    "from": lambda k: td.arange(7, k, 3),
    "halves": lambda k: td.arange(0.0, k, 0.5),
    "linspace": lambda k: td.sin(td.linspace(0.3, 1, k)),
    "zeros": lambda k: td.zeros((k, 3)) + 1,
    "full": lambda k: td.full(k, 2.5, td.float32),
    "eye": lambda k: td.eye(k, k + 2),
    "generate": lambda k: td.generate((k, k), lambda i, j: i * 10 + j),
    "uniform": lambda k: td.random.uniform(KEY, k),
    "sum": lambda k: td.sum(td.random.uniform(KEY, k)),
    "mean of rows": lambda k: td.mean(td.random.uniform(KEY, (3, k)), axis=1),
    "cumsum": lambda k: td.cumsum(td.random.uniform(KEY, k)),
    "pad": lambda k: td.pad(LINE, k),
    "roll": lambda k: td.roll(LINE, k),
    "counts": lambda k: td.bincount(td.use(np.array([1, 5, 1])), length=k),
}


@pytest.mark.parametrize("name", OF_EXTENTS)
def test_one_program_serves_all_extents(name: str, made: list[int]) -> None:
    f, start = OF_EXTENTS[name], next(_fresh)
    with td.config(backend="native"):
        numbers = range(start, start + 48, 4)  # random numbers come in blocks of four
        found = [td.run(f(k)) for k in numbers]
        assert len(made) <= MOST_LITERALS + 3 and max(made) > 0
        for k, x in zip(numbers, found, strict=True):
            literal = td.jit(lambda k=k: f(k))()
            assert x.shape == literal.shape and x.dtype == literal.dtype
            assert x.tobytes() == literal.tobytes()


def test_extents_are_known_before_they_are_computed() -> None:
    for k in range(8):
        a = td.zeros((k, 2))
        assert a.shape == (k, 2) and np.asarray(a).shape == (k, 2)
        assert np.array_equal(td.arange(k), np.arange(k))
        assert np.array_equal(td.arange(-k, k, 2), np.arange(-k, k, 2))


def test_numbers_that_come_to_vary_later() -> None:
    with td.config(backend="native"):
        for step in (2, 3, 5, 7):
            for k in range(400, 440, 10):
                assert np.array_equal(td.arange(11, k, step), np.arange(11, k, step))
                assert np.array_equal(td.eye(k // 10, 77), np.eye(k // 10, 77))


def test_equal_literals_that_part() -> None:
    for n, m in ((51, 51), (52, 52), (53, 53), (54, 54), (55, 56), (57, 58), (60, 59), (51, 50)):
        assert np.array_equal(td.tri(n, m), np.tri(n, m))


def test_floats_alone_are_part_of_what_is_computed(made: list[int]) -> None:
    image = td.use(np.random.default_rng(1).random((30, 40)))
    for side in (0.1, 0.2, 0.3, 0.4, 0.6, 0.7):
        weights = {(i, j): x * y for i, x in zip((-1, 0, 1), (side, 1.5, side), strict=True)
                   for j, y in zip((-1, 0, 1), (side, 1.5, side), strict=True)}  # fmt: skip
        blur = td.stencil(lambda w, v=weights: sum(w[at] * v[at] for at in v), image)
        assert td.run(blur).shape == (30, 40)
    assert max(made) == 0


def test_what_may_differ_in_a_bit_keeps_its_literals() -> None:
    windows = td.sum(td.generate((9, 8, 3, 3), lambda i, j, k, m: i + j * k - m), axis=(2, 3))
    assert without_literals(windows._leaves) is None
    assert without_literals((td.ones((8, 9)) @ td.ones((9, 7)))._leaves) is None
    assert without_literals(td.zeros(9)._leaves) is not None
