"""Checked mode tests every index of what is written, whether or not a result needs the element."""

import faulthandler

import numpy as np
import pytest

import treadle as td

from .helpers import assert_same, small, to_host

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
    "an operand that map ignores": lambda: td.map(lambda x, y: x, td.iota(8), ends_outside()),
    "all operands": lambda: td.map(lambda x: 1, ends_outside()),
    "a component that imap ignores": lambda: td.imap(lambda i, p: p[1], pairs()),
    "neighbours that are not used": lambda: td.stencil(lambda v, w: v[1], X, ends_outside()),
    "what expand only counts": lambda: td.expand(lambda x: 2, lambda x, k: k, ends_outside()),
    "unused lengths": lambda: td.fold_seg(plus, 0, X, td.map(lambda n: 1, ends_outside())),
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
    "an iteration": lambda: td.iterate(2, lambda s: s + ends_outside()[:4], td.iota(4)),
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
    """Nor is what nothing depends on, or an iteration that is not made."""
    guarded = td.generate(
        (8,), lambda i: td.cond(i < 4, X[i + 4], -1) * 0 + td.cond(True, i, X[-i])
    )
    ends_outside()
    no_turn = td.iterate(0, lambda s: s + td.compute(ends_outside()), td.iota(8))
    assert_same(td.run(no_turn, backend=backend, check=True), np.arange(8))
    assert_same(td.run(guarded, backend=backend, check=True), np.arange(8))


def beyond(s):
    """A loop that an index of X would end, were there such an element."""
    return td.while_loop(lambda k: X[k] < 100, lambda k: k + 1, s)


def never(s):
    """A loop that ends for numbers of 1 and more, not for the zero that no element is."""
    return td.while_loop(lambda t: t < 1000, lambda t: t * 2, s)


def up_to(x, y):
    return beyond(x * 0 + y * 0)


#: What does not end by itself once an index is outside.
ENDLESS = {
    "a loop": lambda: td.generate(3, lambda i: beyond(0)),
    "vectors": lambda: td.generate((50, 50), lambda i, j: beyond((i + j) % 5)),
    "a state of several": lambda: td.generate(
        90, lambda i: td.while_loop(lambda s: X[s[0]] < 99, lambda s: (s[0] + 1, -s[1]), (i, 1.5))
    ),
    "iterations": lambda: td.generate(3, lambda i: td.loop(2**60, lambda k, s: s + X[s + k], i)),
    "iterations of vectors": lambda: td.generate(
        90, lambda i: td.loop(2**60 + i, lambda k, s: s + X[s + k], i)
    ),
    "a loop in a loop": lambda: td.generate(
        9, lambda i: td.while_loop(lambda s: s < 9, lambda s: beyond(s) * 0, i * 0)
    ),
    "iterations in a loop": lambda: td.generate(
        9, lambda i: td.while_loop(lambda s: s < 9, lambda s: td.loop(9, lambda k, t: X[k], s), 0)
    ),
    "a loop after it": lambda: td.generate(70, lambda i: never(X[i + FAR])),
    "a side": lambda: td.generate(40, lambda i: td.cond(i > 3, beyond(0), 0)),
    "a fold": lambda: td.fold(up_to, 0, td.iota(100)),
    "a fold's state": lambda: td.fold(lambda x, y: never(x * X[y + FAR]), 1, td.iota(100)),
    "segments": lambda: td.fold_seg(up_to, 0, td.iota(100), np.array([50, 50])),
    "a scan": lambda: td.scanl1(up_to, td.iota(1000)),
    "updates": lambda: td.permute(up_to, np.zeros(3, "i8"), lambda i: i % 3, td.iota(1000)),
    "a place": lambda: td.permute(plus, np.zeros(3, "i8"), lambda i: beyond(i % 3), td.iota(40)),
    "a stencil": lambda: td.stencil(lambda w: beyond(w[0] * 0), td.iota(40)),
    "a predicate": lambda: td.filter(lambda x: beyond(x) > 0, td.iota(5))[0],
    "counts": lambda: td.expand(lambda x: beyond(x), lambda x, k: k, td.iota(5)),
    "a product": lambda: (
        td.generate((5, 5), lambda i, j: beyond(j)) @ td.generate((5, 5), lambda i, j: i)
    ),
    "arrays in a loop": lambda: td.while_loop(
        lambda s: td.sum(s) < 100, lambda s: td.gather(X, s + 8), td.fill(4, 0)
    ),
    "a number in a loop": lambda: td.while_loop(lambda s: X[s] < 100, lambda s: s + 1, td.unit(0)),
}


@pytest.fixture
def watched():
    """Ends the tests where a kernel does not end."""
    faulthandler.dump_traceback_later(300, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


def test_an_index_outside_ends_the_loops(backend, watched):
    for label, build in ENDLESS.items():
        with pytest.raises(td.IndexOutOfBounds, match="out of range for axis"):
            td.run(build(), backend=backend, check=True)
            pytest.fail(label)


def test_loops_of_other_tasks_end_as_well(backend, watched):
    """Millions of elements, of which the first is outside."""
    far = td.generate((1 << 22,), lambda i: td.loop(1 << 40, lambda k, s: s + X[k % 8 + FAR], i))
    with pytest.raises(td.IndexOutOfBounds, match="out of range for axis"):
        td.run(td.sum(far), backend=backend, check=True)


def test_numbers_as_indices_are_always_checked(backend):
    """Without checked mode; literals and arguments, with and without a compiled function."""
    a, m = np.arange(5.0), small("float32", (2, 3))
    readers = {"take": lambda x, n: td.take(x, n, axis=0), "flat": td.take, "gather": td.gather}
    for label, read in readers.items():
        compiled = td.jit(read, backend=backend)
        for array, extent in ((a, 5), (m, 6 if label == "flat" else 2), (a[:0], 0)):
            least = 0 if label == "gather" else -extent
            for wrong in (extent, least - 1, 2**40, -(2**62)):
                with pytest.raises(td.IndexOutOfBounds, match="out of range for axis 0"):
                    read(array, wrong)
                with pytest.raises(td.IndexOutOfBounds, match="out of range for axis 0"):
                    compiled(array, wrong)
                with pytest.raises(td.IndexOutOfBounds, match="out of range for axis 0"):
                    td.jit(lambda x, f=read, n=wrong: f(x, n), backend=backend)(array)
            if extent:
                for right in (0, extent - 1, least):
                    axis = None if label == "flat" else 0
                    want = np.take(array, right, axis)
                    assert_same(to_host(td.run(read(array, right), backend=backend)), want)
                    assert_same(to_host(compiled(array, right)), want)


def test_what_is_written_outside_is_told_the_same_everywhere(backend):
    far = td.use(np.array([5])) * 1
    for write in (
        lambda: td.permute(plus, np.zeros(3), lambda i: i + 5, np.ones(1)),
        lambda: td.use(np.zeros(3)).at[far].add(1.0),
        lambda: td.scatter(np.zeros(3), far, np.ones(1)),
        lambda: td.bincount(far, length=3),
    ):
        with pytest.raises(td.IndexOutOfBounds, match="axis 0 of the array that is written") as e:
            td.run(write(), backend=backend, check=True)
        assert "td.ignore" in e.value.hint and "reads" not in e.value.hint
    with pytest.raises(td.IndexOutOfBounds, match="of the array used at") as e:
        td.run(td.use(np.zeros(3))[far], backend=backend, check=True)
    assert "reads only where p holds" in e.value.hint
