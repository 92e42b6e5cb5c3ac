"""Checked mode tests every index of what is written, whether or not a result needs the element."""

import numpy as np
import pytest

import treadle as td

from .helpers import assert_same

X = td.use(np.arange(8))
GRID = td.use(np.arange(12.0).reshape(3, 4))
FAR = 10**9


def plus(x, y):
    return x + y


def ends_outside():
    """Eight elements, the last four of which would be read outside."""
    return td.generate((8,), lambda i: X[i + 4])


def reading(array):
    return td.generate((3,), lambda i: array[i + FAR])


def pairs():
    return td.map(lambda y, i: (y, i), ends_outside(), td.iota(8))


WRONG = {
    "times zero": lambda: td.generate((4,), lambda i: X[i + FAR] * 0),
    "where": lambda: td.generate((4,), lambda i: td.where(True, X[i], X[i + FAR])),
    "in a loop": lambda: td.generate((4,), lambda i: td.loop(3, lambda k, s: s + X[k + 6] * 0, i)),
    "combining": lambda: td.fold(lambda x, y: x + y + X[x + FAR] * 0, 0, td.iota(4)),
    "an array times zero": lambda: ends_outside() * 0,
    "zeros": lambda: td.zeros(8, td.int64) * ends_outside(),
    "a component": lambda: td.unzip(td.generate((4,), lambda i: (X[i], X[i + FAR])))[0],
    "a component of another": lambda: td.unzip(pairs())[1],
    "a component after a fold": lambda: (
        td.unzip(td.map(lambda s: (s, X[s + FAR]), td.sum(GRID.astype("i8"), axis=1)))[0] + 1
    ),
    "a slice": lambda: ends_outside()[:4] + 1,
    "an element": lambda: td.fold(plus, td.the(ends_outside()[0]) * 0, td.iota(4)),
    "a stencil": lambda: td.stencil(lambda w: w[-1], ends_outside())[:3],
    "a guard": lambda: td.map(lambda i, y: td.cond(i < 4, y, 0), td.iota(8), ends_outside()),
    "ignored": lambda: td.permute(
        plus, np.zeros(4, "i8"), lambda i: td.where(i < 4, i, td.ignore), ends_outside()
    ),
    "a turn": lambda: td.iterate(2, lambda s: s + ends_outside()[:4], td.iota(4)),
    "a product": lambda: td.sum(
        td.generate((3, 3, 8), lambda i, j, k: GRID[i, k] * GRID[j, k]), axis=2
    ),
    "of what reads nothing": lambda: reading(td.iota(5) * 2),
    "of a stencil": lambda: reading(td.stencil(lambda w: w[1], X)),
    "a slice of an operand": lambda: td.generate((3, 8), lambda i, j: GRID[i, j])[:, :4] @ GRID.T,
}


def test_every_index_is_tested(backend):
    for label, build in WRONG.items():
        with pytest.raises(td.IndexOutOfBounds, match="out of range for axis"):
            td.run(build(), backend=backend, check=True)
            pytest.fail(label)


def test_what_cond_guards_is_not(backend):
    """Nor is what nothing depends on, or a turn that is not made."""
    guarded = td.generate(
        (8,), lambda i: td.cond(i < 4, X[i + 4], -1) * 0 + td.cond(True, i, X[-i])
    )
    ends_outside()
    no_turn = td.iterate(0, lambda s: s + td.compute(ends_outside()), td.iota(8))
    assert_same(td.run(no_turn, backend=backend, check=True), np.arange(8))
    assert_same(td.run(guarded, backend=backend, check=True), np.arange(8))
