"""Updates of most of an array are computed element by element, and fuse with what is around."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.dsl.graph import Permute, topological
from treadle.dsl.passes import run_passes
from treadle.dsl.process.configuration import Settings

rng = np.random.default_rng(6)


def permutes(f: Any, *args: Any, **settings: Any) -> int:
    program = td.jit(f, backend="native").lower(*args)
    roots = run_passes(program.source_roots, Settings(**settings), "native").roots
    return sum(isinstance(n, Permute) for n in topological(roots))


PARTS: dict[str, Any] = {
    "behind the first": (slice(1, None),),
    "before the last": (slice(None), slice(None, -1)),
    "inner": (slice(1, -1), slice(2, -3)),
    "all": (slice(None), slice(None)),
    "one axis more": (None, slice(2, None), slice(None, -2)),
    "all but many": (slice(40, -40),),
}


@pytest.mark.sample(12)
@pytest.mark.parametrize("shape", [(0, 5), (1, 1), (2, 3), (4, 5), (37, 81), (100, 130)])
@pytest.mark.parametrize("t", [np.uint8, np.float32, np.complex128])
@pytest.mark.parametrize("part", PARTS)
def test_parts(part: str, t: Any, shape: tuple[int, int]) -> None:
    """Also of arrays that are too small for the part."""
    a, at = rng.integers(0, 100, shape).astype(t), PARTS[part]
    b = rng.integers(0, 100, a[at].shape).astype(t)

    def f(a: Any, b: Any) -> Any:
        return td.update(a, at, b) + a

    want = a.copy()
    want[at] = b
    want = want + a
    for backend in ("native", "reference"):
        assert np.array_equal(td.jit(f, backend=backend)(a, b), want), backend
    if min(shape) != 1:  # of a known extent, the part is empty
        assert permutes(f, a, b) == 0


def test_a_gradient() -> None:
    """Its components are written one after the other into zeros, and reads are shifted."""

    def f(u: Any) -> Any:
        g = td.zeros((2, *u.shape), u.dtype)
        g = td.update(g, (0, slice(None, -1)), u[1:] - u[:-1])
        g = td.update(g, (1, slice(None), slice(None, -1)), u[:, 1:] - u[:, :-1])
        return td.update(u, slice(1, None), u[1:] * 2) + td.sqrt(td.sum(g * g, axis=0))

    u = rng.random((40, 60))
    g = np.zeros((2, *u.shape))
    g[0, :-1], g[1, :, :-1] = np.diff(u, axis=0), np.diff(u, axis=1)
    want = u.copy()
    want[1:] *= 2
    want += np.sqrt((g * g).sum(axis=0))
    assert np.allclose(td.jit(f, backend="native")(u), want, rtol=1e-14)
    assert permutes(f, u) == 0


OTHERS: dict[str, Any] = {
    "a row": lambda a, k: td.update(a, 0, 1.0),
    "a column": lambda a, k: td.update(a, (slice(None), 3), 1.0),
    "every second": lambda a, k: td.update(a, slice(None, None, 2), 1.0),
    "transposed": lambda a, k: td.permute(
        lambda new, old: new, a, lambda i, j: (j, i), td.transpose(a)
    ),
    "run-time part": lambda a, k: td.update(a, slice(k, None), 1.0),
    "added to a row": lambda a, k: a.at[0].add(1.0),
    "added to few results of a fold": lambda a, k: td.sum(a > 0.5, axis=1).at[:8].add(1),
    "state": lambda a, k: td.loop(
        k, lambda _, x: td.update(x, slice(1, -1), x[1:-1] * 0.5), td.zeros((30, 30))
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_stays_an_update(name: str) -> None:
    """A small part costs what it writes; a state is updated in place."""
    f, a = OTHERS[name], rng.random((30, 30))
    found, want = (td.jit(f, backend=b)(a, 7) for b in ("native", "reference"))
    assert np.array_equal(found, want)
    assert permutes(f, a, 7) == 1


@pytest.mark.sample(12)
@pytest.mark.parametrize("shape", [(0, 5), (1, 1), (2, 3), (4, 5), (37, 81)])
@pytest.mark.parametrize("t", [np.uint8, np.float32, np.complex128])
@pytest.mark.parametrize("part", PARTS)
def test_combinations_of_parts(part: str, t: Any, shape: tuple[int, int]) -> None:
    """Bit by bit those of an update of a stored array."""
    a, at = rng.integers(0, 100, shape).astype(t), PARTS[part]
    b = rng.integers(0, 100, a[at].shape).astype(t)

    def f(a: Any, b: Any) -> Any:
        return (a / 3).astype(t).at[at].add(b).at[at].multiply(b) + a

    want = (a / 3).astype(t)
    want[at] += b
    want[at] *= b
    want = want + a
    for backend in ("native", "reference"):
        assert np.array_equal(td.jit(f, backend=backend)(a, b), want), backend
    if min(shape) != 1:
        assert permutes(f, a, b) == 0


def test_a_divergence() -> None:
    """Its parts are added to a sum along a short axis, whose kernel makes all of it."""

    def f(p: Any) -> Any:
        d = -td.sum(p, axis=0)
        d = d.at[1:].add(p[0, :-1])
        return d.at[:, 1:].add(p[1, :, :-1]) * 2

    p = rng.random((2, 40, 60))
    want = -p.sum(axis=0)
    want[1:] += p[0, :-1]
    want[:, 1:] += p[1, :, :-1]
    program = td.jit(f, backend="native").lower(p)
    assert np.array_equal(program(p), want * 2)
    assert len(program.kernels) == 1, program.explain()


def test_zeros_that_a_loop_starts_with_are_no_array_of_its_body() -> None:
    """A loop stores them as its first state; the body has the number."""

    def f(x: Any) -> Any:
        zeros = td.zeros_like(x)

        def step(s: Any) -> Any:
            return s * 0.5 + td.update(td.zeros_like(x), slice(1, None), x[1:] + s[:-1])

        return td.iterate(3, step, zeros)

    x = rng.random(5000)
    program = td.jit(f, backend="native").lower(x)
    assert np.array_equal(program(x), td.jit(f, backend="reference")(x))
    text = " ".join(program.explain().split())
    assert "iterate uses it whole" not in text, text
