"""Gradients through loops over arrays, branches and what they update."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td

from .helpers import BACKENDS, assert_gradient

rng = np.random.default_rng(5)
X = rng.random((5, 4)) + 0.5
W = rng.random((5, 4))


def step(u):
    return td.stencil(lambda w: w[0, 0] + 0.1 * (w[-1, 0] + w[1, 0] - 2 * w[0, 0]) * w[0, 0], u)


def nested(x):
    def inner(u):
        return td.iterate(2, lambda v: td.sin(v) * u + x * 0.1, u * u)

    return td.iterate(3, inner, x)


PROGRAMS = {
    "stencils": lambda x: td.sum(W * td.iterate(5, step, x)),
    "invariants": lambda x: td.sum(W * td.iterate(4, lambda u: td.sin(u) * x + td.exp(x) * u, x)),
    "counter": lambda x: td.sum(
        W * td.loop(4, lambda k, u: td.sin(u) * td.cast(k, td.float64) + x, x * x)
    ),
    "while": lambda x: td.sum(
        W * td.while_loop(lambda u: td.sum(u) < 100, lambda u: u * 1.3 + u * u * x * 0.1, x)
    ),
    "scan": lambda x: td.sum(td.scan(lambda s, y: (td.sin(s) * y, s * s + y), x[0], x)[1] * W),
    "scan with a product": lambda x: td.sum(
        td.scan(lambda s, y: (s @ (x.T @ x) * 0.1 + y, s * s), x[0], x)[1] * W
    ),
    "two states": lambda x: td.sum(
        td.iterate(3, lambda s: (s[0] * s[1], s[0] + s[1]), (x, x * 2))[0]
    ),
    "a number as state": lambda x: td.iterate(
        3, lambda s: (s[0] * 0.5 + td.the(td.sum(s[1])) * 0.1, s[1] * s[0]), (1.5, x)
    )[0],
    "nested": lambda x: td.sum(W * nested(x)),
    "branch": lambda x: td.sum(td.cond(td.sum(x) > 100, td.sqrt(x - 100), x * x) * W),
    "branch in a loop": lambda x: td.sum(
        td.loop(4, lambda k, u: td.cond(k % 2 == 0, u * u * x, td.sin(u)), x) * W
    ),
    "gradient of a gradient": lambda x: td.sum(
        W * td.grad(lambda y: td.sum(W * td.iterate(3, lambda u: td.sin(u) * y, y)))(x)
    ),
    "overwrite": lambda x: td.sum(
        W[:3] * td.permute(td.overwrite, x[:3] * x[0], lambda i, j: (i % 2, j), td.sin(x))
    ),
    "scattered minimum": lambda x: td.sum(
        W[0, :3] * td.permute(td.minimum, x[0, :3] * 2, lambda i, j: (i * j) % 3, td.sin(x))
    ),
    "set": lambda x: td.sum(W * (x * x).at[1].set(td.sin(x[2]))),
    "added": lambda x: td.sum(W * (x * x).at[np.array([1, 1, 3])].add(td.sin(x[:3]))),
    "multiplied": lambda x: td.sum(W * (x * x).at[1:3, 2].multiply(td.sin(x[2:4, 0]))),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    assert_gradient(PROGRAMS[name], X)


@pytest.mark.parametrize("n", [0, 1, 2, 7, 64])
def test_numbers_of_iterations(n):
    assert_gradient(lambda x: td.sum(W * td.iterate(n, lambda u: u + 0.01 * td.sin(u) * x, x)), X)


@pytest.mark.parametrize("backend", BACKENDS)
def test_value_and_gradient_share_the_loop(backend):
    f = td.value_and_grad(lambda x: td.sum(td.iterate(3, step, x)))
    value, _ = td.run(f(X), backend=backend)
    u = td.run(td.sum(td.iterate(3, step, X)), backend="reference")
    np.testing.assert_allclose(value, u)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_branch_not_taken_does_not_matter(backend):
    x = np.array([0.0, 1.0])
    f = td.grad(lambda x: td.sum(td.cond(td.sum(x) > 9, td.sqrt(x), 3 * x)))
    np.testing.assert_array_equal(td.run(f(x), backend=backend), [3, 3])


def test_inner_loops_of_changing_length_are_refused():
    def loss(x):
        return td.sum(td.loop(3, lambda k, u: td.loop(k, lambda j, v: td.sin(v) * u, u), x))

    with pytest.raises(td.GradientError, match="number of iterations changes"):
        td.grad(loss)(X)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_inner_loop_whose_result_another_loop_and_the_body_read(backend):
    """It was planned twice, and the second plan released the results of the first."""

    def body(u):
        last, kept = td.scan(lambda v, k: (td.sin(v) * u + v.T[0, 0], v), u * u, length=2)
        return td.loop(2, lambda k, g: g * kept[1 - k], u) + last

    x = X[:4]
    found = td.run(td.iterate(3, body, x), backend=backend)
    u = x
    for _ in range(3):
        v = [u * u]
        for _ in range(2):
            v.append(np.sin(v[-1]) * u + v[-1].T[0, 0])
        u = u * v[1] * v[0] + v[2]
    np.testing.assert_allclose(found, u)
