"""Loops over numbers read the costly parts of their iterations, where these are of an array."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.dsl.expr import Loop, walk
from treadle.dsl.graph import Generate, topological


def walked(f: Any, *args: Any) -> bool:
    """Whether a loop has nothing costly: logarithms and sines are computed before it."""
    program = td.jit(f, backend="native").lower(*args)
    kernels = [n for n in topological(program.roots) if isinstance(n, Generate)]
    loops = [e for n in kernels for e in walk(n.elements) if isinstance(e, Loop)]
    assert loops
    return all(not hasattr(e, "op") or e.op.cost < 15 for x in loops for e in walk(x.scoped))


def logs(x: Any) -> Any:
    return td.loop(x.shape[0] // 2, lambda k, s: s + td.log(x[2 * k + 1]), 0.0)


def drawn(x: Any) -> Any:
    """Several numbers, of which one decides whether another changes."""

    def step(k: Any, s: Any) -> Any:
        count, t = s
        t = t - td.log(x[k])
        return td.cond(t * td.sin(x[k]) < 1, count + 1, count), t

    return td.loop(x.shape[0], step, (0, 0.0))


@pytest.mark.parametrize("n", [0, 1, 2, 1001])
def test_what_does_not_depend_on_the_state_is_computed_before(n: int) -> None:
    x = np.random.default_rng(n).random(n)
    want = 0.0
    for e in np.asarray(td.run(td.log(x)))[1::2][: n // 2]:
        want += e
    assert td.jit(logs, backend="native")(x) == want  # in every bit
    assert walked(logs, x) and walked(drawn, x)
    found, expected = (td.jit(drawn, backend=b)(x) for b in ("native", "reference"))
    assert found[0] == expected[0] and np.allclose(found[1], expected[1], rtol=1e-12)


def test_other_parts_stay() -> None:
    """Of the counter alone, of a short table, of the state: an array of results might be larger
    than all arrays of the program."""
    x = np.random.default_rng(0).random(4) + 1
    for f in (
        lambda x: td.loop(10**9, lambda k, s: s + td.sin(1.0 * k), 0.0),
        lambda x: td.loop(10**9, lambda k, s: s + td.log(x[k % 4]), 0.0),
        lambda x: td.loop(10**9, lambda k, s: s + td.log(x[k % 4] + s), 0.0),
    ):
        assert not walked(f, x)
