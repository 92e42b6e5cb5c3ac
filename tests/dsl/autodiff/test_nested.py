"""Second derivatives of random nestings of loops, conditions, gathers, scatters and fixed points.

The fixed points are compared with as many iterations as they need; the order in which a program is
differentiated, and whether states are stored or computed again, change nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest

import treadle as td

X, D = np.linspace(0.1, 0.9, 8), np.cos(np.arange(8.0))
PLACES, WEIGHTS = np.array([1, 2, 2, 4, 5, 0, 7, 3]), np.arange(1.0, 9.0)

#: A function of an array of eight elements; the second argument solves x = f(x) from x0 on.
Step = Callable[[Any, Any], Any]

LEAVES: list[tuple[str, Step]] = [
    ("sin", lambda y, solve: td.sin(y) * 0.7 + 0.1),
    ("tanh", lambda y, solve: 0.8 * td.tanh(y + 0.2)),
    ("square", lambda y, solve: 0.5 * y * y + 0.1),
    ("roll", lambda y, solve: td.roll(y, 1) * 0.6 + y * 0.1),
    ("cumsum", lambda y, solve: td.cumsum(y) * 0.08),
    ("sum", lambda y, solve: y * td.sum(y) * 0.08),
]


def selected(y: Any) -> Any:
    return td.update(y, slice(0, 4), td.tanh(td.sum(y[y > 0.2])))


#: What is made of one function and of another.
AROUND: dict[str, Callable[[Step, Step, int], Step]] = {
    "loop": lambda f, g, n: lambda y, s: td.loop(n, lambda k, u: f(u, s) * (1 - 0.05 * k), y),
    "iterate": lambda f, g, n: (
        lambda y, s: td.iterate(n, lambda u: (f(u[0], s), g(u[1], s) * 0.5), (y, y))[0]
    ),
    "while": lambda f, g, n: (
        lambda y, s: td.while_loop(lambda u: u[1] < n, lambda u: (f(u[0], s), u[1] + 1), (y, 0))[0]
    ),
    "scan": lambda f, g, n: (
        lambda y, s: td.scan(lambda u, e: (f(u, s) * 0.5 + e * 0.1, td.sum(u) * e), y, y)[1]
    ),
    "cond": lambda f, g, n: lambda y, s: td.cond(td.sum(y) > 2 * n - 2.1, f(y, s), g(y, s)),
    "gather": lambda f, g, n: lambda y, s: f(y, s)[td.use(PLACES)],
    "scatter": lambda f, g, n: lambda y, s: td.zeros(8).at[td.use(PLACES)].add(f(y, s)),
    "update": lambda f, g, n: lambda y, s: td.update(y, slice(2, 6), f(y, s)[1:5]),
    "select": lambda f, g, n: lambda y, s: selected(f(y, s)),
    "fixed point": lambda f, g, n: (
        lambda y, s: s(lambda z: 0.2 * td.cos(z) + 0.1 * f(z * 0.3 + y * 0.5, s) + 0.3 * y, y * 0.0)
    ),
    "then": lambda f, g, n: lambda y, s: g(f(y, s), s),
}


def drawn(rng: Random, depth: int) -> tuple[str, Step]:
    if depth == 0:
        return rng.choice(LEAVES)
    name = rng.choice(list(AROUND))
    (first, f), (second, g) = (drawn(rng, depth - 1) for _ in range(2))
    n = rng.randint(0, 2)
    pair = name in ("iterate", "cond", "then")
    return f"{name} {n} ({first}{f', {second}' if pair else ''})", AROUND[name](f, g, n)


WAYS: dict[str, Callable[[Any], Callable[..., Any]]] = {
    "jvp of grad": lambda f: lambda x, d: td.jvp(td.grad(f), (x,), (d,))[1],
    "grad of grad": lambda f: lambda x, d: td.grad(lambda x: td.sum(td.grad(f)(x) * d))(x),
    "grad of jvp": lambda f: lambda x, d: td.grad(lambda x: td.jvp(f, (x,), (d,))[1])(x),
    "vjp of grad": lambda f: lambda x, d: td.vjp(td.grad(f), x)[1](d),
    "few states": lambda f: lambda x, d: td.jvp(td.grad(f, memory=200), (x,), (d,))[1],
    "few states twice": lambda f: (
        lambda x, d: td.grad(lambda x: td.sum(td.grad(f, memory=200)(x) * d), memory=130)(x)
    ),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("backend", ["reference", "native"])
@pytest.mark.parametrize("number", range(60))
def test_second_derivatives(number, backend):
    rng = Random(number)
    text, step = drawn(rng, rng.randint(2, 3))

    def of(solve):
        return lambda x: td.sum(td.sin(step(x, solve)) * WEIGHTS)

    implicit = of(lambda f, x0: td.fixed_point(f, x0, 1e-14))
    written_out = of(lambda f, x0: td.iterate(45, f, x0))
    gradient = td.jit(td.grad(written_out), backend="native")
    h = 1e-5
    differences = (gradient(X + h * D) - gradient(X - h * D)) / (2 * h)
    for way in rng.sample(list(WAYS), 2):
        found = td.jit(WAYS[way](implicit), backend=backend)(X, D)
        np.testing.assert_allclose(
            found, differences, rtol=1e-4, atol=1e-5, err_msg=f"{way} {text}"
        )
