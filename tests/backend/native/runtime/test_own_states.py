"""Recorded loops write to states that nothing else refers to, and to no others: arrays that are
larger than what a recording may keep."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import treadle as td
from treadle.backend.native import calls, loops
from treadle.backend.native.runtime.replay import LARGEST
from treadle.backend.native.runtime.tape import Copy, State
from treadle.backend.runtime.memory import _FREE, POOL

N = 40
rng = np.random.default_rng(0)
U = rng.random(LARGEST // 8 // N + 100)
Z = rng.random((N, U.size))


@pytest.fixture
def kept():
    before = Z.copy()
    yield
    np.testing.assert_array_equal(Z, before)


def test_arguments_and_earlier_results_keep_their_values(kept):
    f = td.jit(lambda z, u: td.loop(N, lambda k, s: (s[0].at[k].add(s[1]), s[1] * 0.5), (z, u)),
               backend="native")  # fmt: skip
    expected = Z + U * 0.5 ** np.arange(N)[:, None]
    first, again, other = f(Z, U), f(Z, U), f(Z, 2 * U)
    np.testing.assert_allclose(first[0], expected)
    np.testing.assert_allclose(again[0], expected)
    np.testing.assert_allclose(other[0] - Z, 2 * (expected - Z), atol=1e-12)


def test_a_state_that_is_read_after_the_loop(kept):
    def program(z, u):
        start = z * 2
        made, total = td.loop(N, lambda k, s: (s[0].at[k].add(u), s[1] + s[0][k]), (start, u))
        return made, total, td.sum(start)

    for _ in range(2):
        made, total, before = td.jit(program, backend="native")(Z, U)
        np.testing.assert_allclose(made, 2 * Z + U)
        np.testing.assert_allclose(total, U + 2 * Z.sum(0))
        np.testing.assert_allclose(before, 2 * Z.sum())


def test_one_array_as_two_states(kept):
    f = td.jit(lambda z, u: td.loop(N, lambda k, s: (s[0].at[k].add(u), s[0]), (z, z)),
               backend="native")  # fmt: skip
    made, before = f(Z, U)
    np.testing.assert_allclose(made, Z + U)
    np.testing.assert_allclose(before, np.concatenate([(Z + U)[:-1], Z[-1:]]))


def test_what_an_iteration_makes_is_the_next_state_and_is_not_copied(monkeypatch):
    copied = []
    monkeypatch.setattr(loops, "Copy", lambda to, of: copied.append(to) or Copy(to, of))
    f = td.jit(lambda u: td.iterate(N, lambda s: (s[1] * 0.5, s[0] + 1.0), (u, u)),
               backend="native")  # fmt: skip
    for u in (U[:1000], U):
        a, b = u, u
        for _ in range(N):
            a, b = b * 0.5, a + 1.0
        for _ in range(3):
            found = f(u)
            np.testing.assert_array_equal(found[0], a)
            np.testing.assert_array_equal(found[1], b)
    assert not copied


def test_a_loop_that_was_recorded_runs_no_iteration_in_python(monkeypatch):
    """Also where its first state is an argument, and has other extents."""
    began = []
    finish = loops.LoopStep.finish

    def watched(self, run, iteration, limit):
        began.append(iteration)
        return finish(self, run, iteration, limit)

    monkeypatch.setattr(loops.LoopStep, "finish", watched)
    f = td.jit(lambda u: td.iterate(N, lambda s: td.roll(s, 1) + 1.0, u), backend="native")
    f(U)
    assert max(began) > 0
    for many in (U.size - 9, U.size - 30):
        u = U[:many].copy()
        began.clear()
        np.testing.assert_allclose(f(u), np.roll(u, N) + N)
        assert began == [0]


def test_short_loops_in_loops_are_recorded(monkeypatch):
    """None of them runs as many iterations as recording it would take, all together do."""
    made = []
    finish = loops.LoopStep.finish

    def watched(self, run, iteration, limit):
        ended = finish(self, run, iteration, limit)
        made.append(not ended)
        return ended

    monkeypatch.setattr(loops.LoopStep, "finish", watched)
    monkeypatch.setattr(calls, "LONG", 0.0)  # as if a call took so long that it is not recorded

    def turned(t, c):
        def inner(i, j, s):
            near = td.sum((c[s[0][i]] - c[s[0][j]]) ** 2) < 0.5
            return td.cond(near, td.roll(s[0], 1), s[0]), s[1] | near

        def outer(i, s):
            return td.loop(i, 40, lambda j, s: inner(i, j, s), s)

        return td.loop(40, outer, (t, False))[0]

    t, c = np.arange(40), np.random.default_rng(0).random((40, 2))
    f = td.jit(turned, backend="native")
    want = td.jit(turned, backend="reference")(t, c)
    for _ in range(3):
        made.clear()
        np.testing.assert_array_equal(f(t, c), want)
    assert sum(made) < 100


#: What each of four states becomes: that of a state, or, counted from −1 downwards, one of two
#: arrays that an iteration makes.
FOLLOWING = [
    (-1, -1, -2, 0), (1, 3, 1, -2), (-2, -2, -2, 1), (-1, -2, -1, 0), (-1, -1, -1, -1),
    (3, -1, -1, -1), (-2, 0, -2, -1), (2, -1, -1, 3),
]  # fmt: skip


@pytest.mark.parametrize("following", FOLLOWING)
def test_several_states_become_one_array(following):
    """Their results are copies, wherever the iterations have put it."""

    def body(roll, total, s):
        made = (
            roll(s[1], 1, axis=0) / 2 + s[2] / 8,
            roll(s[0], 1, axis=0) + total(s[2], axis=0) / 64,
        )
        return tuple(s[k] if k >= 0 else made[~k] for k in following)

    state = rng.random((4, 30, 4))
    for count in (9, 12):
        f = td.jit(lambda *s, n=count: td.iterate(n, lambda s: body(td.roll, td.sum, s), s),
                   backend="native")  # fmt: skip
        expected = tuple(state)
        for _ in range(count):
            expected = body(np.roll, np.sum, expected)
        for _ in range(3):
            for found, one in zip(f(*state), expected, strict=True):
                np.testing.assert_allclose(found, one, atol=1e-14)


def _fill_idle_memory():
    """With NaN."""
    for blocks in POOL._blocks.values():
        for block, _ in blocks:
            if sys.getrefcount(block) == _FREE:
                block.fill(255)


def test_recordings_are_kept_and_borrow_their_memory(monkeypatch):
    """Those of large loops, too, whose arrays have known extents or grow: later calls make no new
    ones, and what the memory holds when they begin does not matter."""
    made = []
    recording = loops._Recording
    monkeypatch.setattr(loops, "_Recording", lambda *args: made.append(args) or recording(*args))
    x = rng.random(LARGEST // 64)

    def program(x):
        return td.sum(td.iterate(N, lambda u: td.sin(td.roll(u, 1)) * x, x))

    expected = td.run(td.grad(program)(x), backend="native")
    for memory in (None, 12 * x.nbytes, 4 * x.nbytes):
        f = td.jit(td.grad(program, memory=memory), backend="native")
        for _ in range(3):
            np.testing.assert_array_equal(f(x), expected)
        made.clear()
        size = POOL.pooled
        for _ in range(3):
            _fill_idle_memory()
            np.testing.assert_array_equal(f(x), expected)
        assert not made and POOL.pooled == size


def test_without_memory_for_all_iterations_python_runs_them(monkeypatch):
    """It needs what a single iteration has at the same time."""
    allocate, refused = POOL.allocate, []

    def few(shape, dtype):
        if len(shape) == 1 and dtype == np.uint8:
            refused.append(shape)
            raise td.DeviceOutOfMemory("no memory")
        return allocate(shape, dtype)

    x = rng.random(LARGEST // 64)
    f = td.jit(td.grad(lambda x: td.sum(td.iterate(N, lambda u: td.sin(td.roll(u, 1)) * x, x))),
               backend="native")  # fmt: skip
    expected = f(x)
    monkeypatch.setattr(POOL, "allocate", few)
    for _ in range(2):
        np.testing.assert_array_equal(f(x), expected)
    assert refused


@pytest.mark.parametrize("derive", [td.grad, td.value_and_grad])
def test_the_stored_states_of_a_gradient_are_never_copied(derive, monkeypatch):
    """Whether the loop that stores them runs before the reversed loop, or in its first iteration,
    where nothing else needs it."""
    states = []
    monkeypatch.setattr(loops, "State", lambda *of: states.append(State(*of)) or states[-1])
    x = rng.random(U.size)
    f = td.jit(derive(lambda x: td.sum(td.iterate(N, lambda u: td.sin(td.roll(u, 1)) * x, x))),
               backend="native")  # fmt: skip
    for _ in range(3):
        f(x)
    stored = [s for s in states if s.now.nbytes == (N + 1) * x.nbytes]
    assert stored and not any(s.copied for s in stored)
