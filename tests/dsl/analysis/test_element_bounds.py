"""Ranges of elements follow from how arrays are computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.dsl.analysis.bounds import DEEPEST, MOST, _Elements

x = np.random.default_rng(5).integers(-1000, 1000, 500)


def codes(x: Any) -> Any:
    """Numbers of four digits of base 4, one for each position."""

    def step(c: Any, d: Any) -> Any:
        c = ((c << 2) | (d & 3)) & 255
        return c, c

    return td.scan(step, 0, x)[1]


def chain(x: Any) -> Any:
    for _ in range(2 * DEEPEST):
        x = td.compute(x) % 7
    return x


BOUNDED: dict[str, Any] = {
    "a remainder": lambda x: x % 10,
    "a mask": lambda x: x & 255,
    "clipped": lambda x: td.clip(x, 0, 99),
    "chosen": lambda x: td.where(x > 5, x % 7, 3),
    "one of two sides": lambda x: td.map(lambda v: td.cond(v > 5, v % 7, 3), x),
    "a part of rows": lambda x: td.reshape(x % 10, (50, 10))[:, 2:],
    "joined": lambda x: td.concatenate([x % 10, td.abs(td.clip(x, -12, 5))]),
    "updated": lambda x: (x % 10).at[3:9].set(77),
    "collected": codes,
    "of a loop": lambda x: td.iterate(9, lambda s: (s * 3 + 1) % 64, x % 64),
    "truths": lambda x: td.cast(x > 0, td.int64),
}
OTHERS: dict[str, Any] = {
    "any": lambda x: td.abs(x),
    "too large": lambda x: x % 257,
    "wraps": lambda x: td.cast(td.cast(x % 100, td.int8) * 2, td.int64) & -2 | 0 * x,
    "grows": lambda x: td.iterate(9, lambda s: s + 1, x % 10),
    "sorted": lambda x: td.sort(x % 10),
}


@pytest.mark.parametrize("name", [*BOUNDED, *(n for n in OTHERS if n != "wraps")])
def test_counts(name: str) -> None:
    """Bins that hold all elements need no maximum of these."""
    f = {**BOUNDED, **OTHERS}[name]
    counts = td.jit(lambda x: td.bincount(f(x), minlength=256), backend="native")
    values = np.asarray(td.jit(f, backend="reference")(x))
    assert np.array_equal(counts(x), np.bincount(values.reshape(-1), minlength=256))
    text = counts.lower(x).explain()
    assert ("by maximum" in text) == (name in OTHERS), text


@pytest.mark.parametrize("f", [lambda x: td.minimum(x, 9), OTHERS["wraps"], lambda x: x % -9])
def test_negative_elements(f: Any) -> None:
    with pytest.raises(td.ShapeError, match="must not be negative"):
        td.jit(lambda x: td.bincount(f(x), minlength=256), backend="native")(x)


def test_long_chains() -> None:
    """A range is followed so far, however many arrays there are."""
    found = td.jit(lambda x: td.bincount(chain(x), minlength=7), backend="native")(x)
    assert np.array_equal(found, np.bincount(x % 7, minlength=7))


def test_loops_that_read_the_loops_before_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each loop doubles the arrays to look at: there is a limit."""
    looked: list[object] = []
    of = _Elements._of
    monkeypatch.setattr(_Elements, "_of", lambda self, leaf: looked.append(leaf) or of(self, leaf))

    def program(x: Any) -> Any:
        x = x % 16
        for _ in range(16):
            x = td.iterate(3, lambda s, b=x: (td.roll(s, 1) + b) % 16, x)
        return td.bincount(x, minlength=16)

    found = td.jit(program, backend="native")(x)
    assert 0 < len(looked) <= MOST
    assert np.array_equal(found, td.jit(program, backend="reference")(x))
