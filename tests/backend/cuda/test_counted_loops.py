"""Loops whose extents depend on their counters, recorded whole: programs on an emulated GPU."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from tests.backend.cuda.emulated import emulation
from tests.dsl.autodiff.test_loops import PROGRAMS as DIFFERENTIATED, W, X
from treadle.backend.runtime.loops import LoopStep

RNG = np.random.default_rng(0)
M = RNG.integers(-4, 5, (13, 13)).astype("f8")
V = RNG.integers(-4, 5, 13).astype("f8")


def triangular(a, v):
    """A fold over the first k elements."""
    return td.loop(
        v.shape[0], lambda k, x: td.update(x, k, v[k] - td.the(td.sum(a[k, :k] * x[:k]))), v
    )


def reversed_part(a, v):
    """A map of the first k elements, updated in place."""
    return td.loop(
        1, v.shape[0], lambda k, x: td.update(x, slice(None, k), x[:k] + td.flip(v[:k])), v
    )


def columns(a, v):
    """Arrays of n - k elements between kernels."""

    def column(k, a):
        below = a[k:, k] - a[k:, :k] @ a[k, :k]
        return td.update(a, (slice(k, None), k), td.remainder(below + below[0], 7.0))

    return td.loop(a.shape[0], column, a)


def rank_one(a, v):
    """A matrix of (n - k - 1)² elements."""

    def step(k, a):
        return a.at[k + 1 :, k + 1 :].add(-td.outer(a[k + 1 :, k], a[k, k + 1 :]) % 5.0)

    return td.loop(a.shape[0], step, a)


def scanned(a, v):
    """Inclusive scans of growing parts."""
    return td.loop(
        v.shape[0], lambda k, x: td.update(x, slice(None, k + 1), td.cumsum(x[: k + 1]) % 11.0), v
    )


def histogram(a, v):
    def step(k, h):
        return td.permute(lambda x, y: x + y, h, lambda i: (a[k, i] % 5).astype(int), v[: k + 1])

    return td.loop(v.shape[0], step, td.zeros(5))


def nested(a, v):
    """The extents of the inner loop's body depend on both counters."""

    def inner(k):
        def step(j, x):
            n = td.minimum(k + j, x.shape[0])
            return td.update(x, slice(None, n), (x[:n] + a[k, :n]) % 9.0)

        return step

    return td.loop(4, lambda k, x: td.loop(3, inner(k), x), v)


def blocked(a, v):
    """An extent that is not monotonic in the counter."""

    def step(k, x):
        n = (k * 5) % 13
        return td.update(x, slice(None, n), td.flip(x[:n]) + td.the(td.sum(v[:n])))

    return td.loop(13, step, v)


PROGRAMS = [triangular, reversed_part, columns, rank_one, scanned, histogram, nested, blocked]


@pytest.fixture
def driven(monkeypatch):
    """The loops that the host has driven."""
    found = []
    original = LoopStep.__call__

    def call(self, run):
        found.append(self.node)
        original(self, run)

    monkeypatch.setattr(LoopStep, "__call__", call)
    return found


@pytest.mark.sample(3)
@pytest.mark.parametrize("n", [13, 1])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_recorded(program, n, driven):
    if n == 1 and program in (nested, blocked):
        pytest.skip("has constant extents")
    given = M[:n, :n].copy(), V[:n].copy()
    want = td.jit(program, backend="reference")(*given)
    driven.clear()
    with emulation():
        made = td.jit(program, backend="cuda")
        for _ in range(3):
            assert np.array_equal(np.asarray(made(*given)), want)
    assert not driven


def test_a_number_of_iterations_that_is_given(driven):
    def program(v, n):
        return td.loop(n, lambda k, x: td.update(x, slice(None, k), x[:k] * 2 + 1), v)

    with emulation():
        made = td.jit(program, backend="cuda")
        for n in (5, 0, 12, 5, -3):
            want = V.copy()
            for k in range(n):
                want[:k] = want[:k] * 2 + 1
            assert np.array_equal(np.asarray(made(V, n)), want)
    assert not driven


def test_a_check_that_a_later_iteration_violates(driven):
    """Extents agree in the first iterations only: the host drives the loop and raises there."""

    def program(a, v):
        return td.loop(13, lambda k, x: td.update(x, 0, td.the(a[k, :k] @ v[:k])), v)

    with emulation():
        made = td.jit(program, backend="cuda")
        want = td.jit(program, backend="reference")(M, V)
        assert np.array_equal(np.asarray(made(M, V)), want) and not driven
        with pytest.raises(td.TreadleError, match="7"):
            made(M, V[:7])
    assert driven


def test_state_that_changes_its_extents_is_driven_by_the_host(driven):
    def program(v):
        return td.loop(5, lambda k, x: x[: v.shape[0] - k], v)

    with emulation():
        assert np.array_equal(np.asarray(td.jit(program, backend="cuda")(V)), V[:9])
    assert driven


def test_checkpoints():
    """The table of a gradient's checkpoints is an operation of the host."""
    gradient = td.grad(lambda x: td.sum(td.loop(6, lambda k, s: s * s, x)), memory="200 B")
    x = np.linspace(0.8, 1.1, 13)
    want = td.run(gradient(x), backend="native")
    with emulation():
        found = td.jit(gradient, backend="cuda")(x)
    np.testing.assert_allclose(np.asarray(found), want, rtol=1e-12)


@pytest.mark.parametrize(
    "name",
    ["inner while loops", pytest.param("inner loops of changing length", marks=pytest.mark.long)],
)
def test_numbers_of_iterations_that_an_iteration_computes(name):
    """They have no largest value over the iterations of the loops around: the host drives these."""
    f = DIFFERENTIATED[name]
    twice = td.grad(lambda x: td.jvp(f, (x,), (W,))[1] + td.sum(W * td.grad(f)(x)))
    want = td.run(twice(X), backend="native")
    with emulation():
        found = td.run(twice(X), backend="cuda")
    np.testing.assert_allclose(np.asarray(found), want, rtol=1e-12)
