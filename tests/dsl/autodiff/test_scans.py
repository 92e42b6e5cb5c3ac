"""Gradients of scans and of loops that read and write an index of their own in each iteration."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from treadle.dsl.graph import ArrayLoop, Recurrence, topological

from .helpers import BACKENDS, assert_gradient

rng = np.random.default_rng(3)
X = rng.random((5, 4)) + 0.5
W = rng.random((6, 4))


def decay(s, x):
    return td.sin(s) * x + x, s * x


def alignment(d):
    """The least cost of a path through a matrix, as of dynamic time warping."""

    def row(before, d):
        def cell(s, v):
            left, corner = s
            above, here = v
            cost = here + td.minimum(td.minimum(left, above), corner)
            return (cost, above), cost

        return td.scan(cell, (10.0 + d[0], 10.0 + d[0]), (before, d))[1], None

    return td.scan(row, td.cumsum(d[0]), d[1:])[0][-1]


def path(x, n=None):
    """All states of a loop, the first of which is given."""
    states = td.concatenate([x[:1], x]) * 2.0
    n = x.shape[0] if n is None else n
    return td.sum(W * td.loop(
        n, lambda k, s: (td.sin(s[0]) * x[k], s[1].at[k + 1].set(s[0])), (x[1], states)
    )[1])  # fmt: skip


PROGRAMS = {
    "forward": lambda x: td.sum(td.scan(decay, x[0], x)[1] * W[1:]),
    "states": lambda x: td.sum(td.scan(lambda s, v: (decay(s, v)[0],) * 2, x[0], x)[1] * W[1:]),
    "states from the end": lambda x: td.sum(
        td.scan(lambda s, v: (decay(s, v)[0],) * 2, x[0], x, reverse=True)[1] * W[1:]
    ),
    "backward": lambda x: td.sum(td.scan(decay, x[0], x, reverse=True)[1] * W[1:]),
    "along rows": lambda x: td.sum(td.scan(decay, x[:, 0], x, axis=1)[1] * W[1:]),
    "numbers for all elements": lambda x: td.sum(
        W[1:] * td.scan(lambda s, v: (td.sin(s) * v + s, s * v), x[0], x[:, 1])[1]
    ),
    "numbers for all elements along rows": lambda x: td.sum(
        td.scan(lambda s, v: (td.sin(s) * v[0] + td.the(td.sum(v[1])), s), x[:, 0],
                (x[0], x[:4]), axis=0)[1]
    ),
    "several coefficients": lambda x: td.sum(
        td.scan(lambda s, v: (x[0, 0] * td.sin(x[1, 1] * s) + x[2, 2] * v + x[3, 3], s), x[0], x)[1]
    ),
    "slices at two distances": lambda x: td.sum(
        td.loop(4, lambda k, s: td.sin(s) * x[k] + x[k + 1] * x[4 - k], x[0])
    ),
    "parts of slices": lambda x: td.sum(td.loop(3, lambda k, s: td.sin(s) + x[k, 1:3], x[0, :2])),
    "slices under a condition": lambda x: td.sum(
        td.loop(5, lambda k, s: s * td.where(x[k] > 0.8, td.sqrt(x[k]), 2.0), x[0])
    ),
    "an element of a row": lambda x: td.sum(td.loop(4, lambda k, s: s * x[2, k], x[0])),
    "slices at each element": lambda x: td.sum(
        td.loop(4, lambda j, t: td.loop(5, lambda k, s: td.sin(s) * x[k, j] + t, t), 1.0 + x[0, 0])
    ),
    "results in part of an array": path,
    "no iterations": lambda x: path(x, 0) + td.sum(x),
    "results that are not used": lambda x: td.sum(td.scan(decay, x[0], x)[0]),
    "results that states do not need": lambda x: td.sum(
        td.scan(lambda s, v: (s + 1.0, s * v * v), 1.0, x)[1] * W[1:]
    ),
    "scans of scans": alignment,
    "segments": lambda x: td.sum(
        td.scan(lambda s, v: (s, td.scan(decay, v[0], v)[1]), 0.0, x)[1] * W[1:]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    assert_gradient(PROGRAMS[name], X)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_few_states_in_memory(name, backend):
    want = td.run(td.grad(PROGRAMS[name])(X), backend="reference")
    found = td.jit(td.grad(PROGRAMS[name], memory=80), backend=backend)(X)
    np.testing.assert_allclose(found, want, rtol=1e-12)


@pytest.mark.parametrize("name", ["backward", "along rows", "results in part of an array",
                                  "scans of scans", "slices at each element"])  # fmt: skip
def test_second_derivatives(name):
    gradient = td.grad(PROGRAMS[name])
    assert_gradient(lambda x: td.sum(td.sin(gradient(x)) * W[1:]), X, rtol=1e-5)


def optimised(f, *args):
    nodes = list(topological(td.jit(f, backend="native").lower(*args).roots))
    return [n for n in nodes if isinstance(n, Recurrence)], [
        n for n in nodes if isinstance(n, ArrayLoop)
    ]


@pytest.mark.parametrize("name", ["forward", "backward", "along rows", "several coefficients",
                                  "numbers for all elements"])  # fmt: skip
def test_adjoints_of_walks_are_walks(name):
    """A kernel for the scan, and one for its adjoint, which collects what slices receive."""
    walks, loops = optimised(td.value_and_grad(PROGRAMS[name]), X)
    assert len(walks) == 2 and not loops


@pytest.mark.parametrize(("memory", "walks"), [(None, 2), ("1 MB", 4)])
def test_adjoints_of_walks_in_loops_are_walks(memory, walks):
    """A row of the alignment is one kernel; of its gradient, another one, and with a limit of
    memory two more, which compute again what the first did not store."""
    gradient = td.value_and_grad(alignment, memory=memory)
    found, loops = optimised(gradient, rng.random((30, 40)))
    assert len(found) == walks and loops


def test_walks_ahead_of_walks_read_nothing_if_there_are_no_iterations():
    def f(n, i, t, x):
        def body(k, s):
            return s * td.scan(lambda a, v: (a * v, a), t[i[0]], x)[1]

        return td.loop(n, body, x)

    t, x = np.array([2.0, 3.0]), np.array([1.0, 2.0, 3.0])
    assert len(optimised(f, 2, np.array([1]), t, x)[0]) == 2
    g = td.jit(f, backend="native")
    np.testing.assert_array_equal(g(2, np.array([1]), t, x), x * np.array([3.0, 3.0, 6.0]) ** 2)
    np.testing.assert_array_equal(g(0, np.array([10**12]), t, x), x)


def test_what_inner_loops_store_with_other_axes():
    def turned(u):
        return td.scan(decay, u[0], td.sin(u))[1].T

    assert_gradient(lambda u: td.sum(td.iterate(3, turned, u)), X[:4])


@pytest.mark.parametrize("backend", BACKENDS)
def test_infinities_that_are_not_taken(backend):
    """inf · x, an array of infinities, and what it is compared with."""
    x = np.array([3.0, 1.0, 2.0])
    beside = td.run(td.grad(lambda x: td.sum(td.minimum(np.inf * x, 2 * x)))(x), backend=backend)
    np.testing.assert_array_equal(beside, [2, 2, 2])
    before = td.grad(lambda x: td.scan(lambda s, v: (td.minimum(s, v), None), np.inf * x[0], x)[0])
    np.testing.assert_array_equal(td.run(before(x), backend=backend), [0, 1, 0])


@pytest.mark.parametrize("name", ["states", "states from the end"])
def test_states_that_are_collected_are_not_stored(name):
    walks, _ = optimised(td.value_and_grad(PROGRAMS[name]), X)
    assert [len(n.collected) for n in walks] == [1, 1]
