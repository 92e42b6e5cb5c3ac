"""The functions of GradBench: their gradients against central differences and, where it is
installed, JAX; and two programs whose derivatives are inside of derivatives, through loops that end
by their data."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from benchmarks import gradbench

SMALL = {
    "gmm": gradbench.mixture(3, 4, 7),
    "ba": gradbench.adjustment(3, 5, 11),
    "ht": gradbench.hand(6, 9),
    "lstm": gradbench.lstm(2, 5, 3),
    "kmeans": gradbench.Workload(
        "kmeans", 4, gradbench.k_means, (gradbench.rng.random((3, 2)), gradbench.rng.random((9, 2)))
    ),
    "lse": gradbench.Workload(
        "lse", 4, lambda m, x: gradbench.log_sum_exp(m, x, 0), (gradbench.rng.random(9),)
    ),
    "llsq": gradbench.squares(9, 4),
    "ode": gradbench.runge_kutta(3, 5),
    "det": gradbench.determinants(2, 4),
}


@pytest.mark.parametrize("name", SMALL)
def test_against_differences(name):
    w = SMALL[name]
    data = tuple(map(td.use, w.data))
    td.check_grad(lambda *args: w.function(td, *args, *data), *w.arguments)


@pytest.mark.parametrize("name", SMALL)
def test_against_jax(name):
    jax = pytest.importorskip("jax")
    w, x64 = SMALL[name], jax.config.jax_enable_x64
    which = tuple(range(len(w.arguments)))
    jax.config.update("jax_enable_x64", True)
    try:
        given = [jax.numpy.asarray(a) for a in (*w.arguments, *w.data)]
        value, expected = jax.value_and_grad(lambda *a: w.function(jax.numpy, *a), which)(*given)
    finally:
        jax.config.update("jax_enable_x64", x64)
    both = td.value_and_grad(lambda *a: w.function(td, *a), which)
    number, found = td.jit(both)(*w.arguments, *w.data)
    np.testing.assert_allclose(number, value, rtol=1e-10)
    for g, e in zip(found, expected, strict=True):
        np.testing.assert_allclose(g, e, rtol=1e-10, atol=1e-10 * np.abs(e).max())


def least(f, start):
    """Where f is least, by the gradient descent of Siskind and Pearlmutter: steps become longer
    after ten that are good, and shorter after one that is not."""
    slope = td.grad(f)

    def length(x):
        return td.sqrt(td.sum(x * x))

    def step(state):
        x, value, g, eta, good, _ = state
        near = x - eta * g
        other = f(near)
        longer, still = good == 10, length(x - near) <= 1e-5
        moved = ~longer & ~still & (other < value)
        return (
            td.where(moved, near, x),
            td.where(moved, other, value),
            td.where(moved, slope(near), g),
            td.where(longer, eta * 2, td.where(still | moved, eta, eta / 2)),
            td.where(moved, good + 1, 0),
            (longer | ~still) & (length(g) > 1e-5),
        )

    first = slope(start)
    start = (start, f(start), first, td.float64(1e-5), td.int64(0), length(first) > 1e-5)
    return td.while_loop(lambda state: state[5], step, start)[0]


@pytest.mark.long
def test_saddle():
    """The least of a maximum: the outer gradient goes through the loop that finds the inner one."""

    @td.jit
    def saddle(start):
        def farthest(x):
            return least(lambda y: td.sum(y * y) - td.sum(x * x), start)

        x = least(lambda x: td.sum(x * x) - td.sum(farthest(x) ** 2), start)
        return td.concatenate([x, farthest(x)])

    np.testing.assert_allclose(saddle(np.ones(2)), np.full(4, 8.246324826140356e-06), rtol=1e-9)


def test_particle():
    """A charge moves so that a particle lands near the origin; its acceleration is a gradient."""

    def path(w):
        charges = td.stack([td.float64(10), 10 - w[0]]), td.use(np.array([10.0, 0.0]))

        def potential(x):
            return sum(1 / td.sqrt(td.sum((x - c) ** 2)) for c in charges)

        def step(state):
            x, v = state
            return x + 0.1 * v, v - 0.1 * td.grad(potential)(x)

        start = td.use(np.array([0.0, 8.0])), td.use(np.array([0.75, 0.0]))
        x, v = td.while_loop(lambda s: (s[0] + 0.1 * s[1])[1] > 0, step, start)
        return (x[0] - x[1] / v[1] * v[0]) ** 2

    found = td.jit(lambda w: least(path, w))(np.zeros(1))
    np.testing.assert_allclose(found, [0.20719187464861194], rtol=1e-9)
