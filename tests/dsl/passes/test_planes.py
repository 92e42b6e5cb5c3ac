"""The state of a loop that is a stack of arrays becomes these arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.conformance.helpers import cuda

rng = np.random.default_rng(18)
X = np.array([0, 1, 0, -1, 0, 1, -1, -1, 1])
Y = np.array([0, 0, 1, 0, -1, 1, 1, -1, -1])
W = np.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4)


def lattice(f: Any) -> Any:
    """A lattice-Boltzmann step, as in NumPy."""
    f = td.stack([td.roll(f[k], (Y[k], X[k]), axis=(0, 1)) for k in range(9)])
    x, y, w = (1.0 * a[:, None, None] for a in (X, Y, W))
    density = td.sum(f, axis=0)
    u, v = td.sum(f * x, axis=0) / density, td.sum(f * y, axis=0) / density
    along = 3 * (x * u + y * v)
    balance = w * density * (1 + along + 0.5 * along * along - 1.5 * (u * u + v * v))
    return f + 0.6 * (balance - f)


def waves(e: Any) -> Any:
    x, y, z = e[0], e[1], e[2]
    y = y - 0.5 * (z - td.roll(z, 1, axis=0))
    x = x - 0.5 * (z - td.roll(z, 1, axis=1))
    return td.stack([x, y, z - 0.7 * (td.roll(x, -1, axis=1) - x + td.roll(y, -1, axis=0) - y)])


def lorenz(s: Any) -> Any:
    x, y, z = s[0], s[1], s[2]
    return s + 0.01 * td.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])


def colours(a: Any) -> Any:
    r, g, b = (a[..., k] for k in range(3))
    blurred = td.stencil(lambda w: (w[0, 1] + w[0, -1] + w[1, 0] + w[-1, 0]) / 4, g)
    return td.stack([0.5 * r + 0.5 * blurred, 0.9 * g + 0.1 * b, 0.7 * b + 0.3 * r], axis=-1)


def pairs(s: Any) -> Any:
    a, b = s
    return b, td.stack([a[:, 1] + b[:, 0], td.roll(a[:, 0], 1, axis=0) * 0.5 + b[:, 0]], axis=1)


def until(f: Any) -> Any:
    return td.while_loop(
        lambda s: (s[0] < 20) & (td.the(td.max(s[1][0])) < 40.0),
        lambda s: (s[0] + 1, lorenz(s[1])),
        (0, f),
    )


def cell(*shape: int) -> np.ndarray[Any, Any]:
    return rng.random(shape) + 0.5


SPLIT: dict[str, Any] = {
    "lattice": (lambda f: td.iterate(9, lattice, f), cell(9, 12, 17)),
    "waves": (lambda e: td.iterate(9, waves, e), cell(3, 12, 17)),
    "of numbers": (lambda s: td.iterate(50, lorenz, s), cell(3, 41)),
    "channels": (lambda a: td.iterate(9, colours, a), cell(12, 17, 3)),
    "states of states": (lambda s: td.iterate(9, pairs, s), (cell(12, 2, 17), cell(12, 2, 17))),
    "by a counter": (
        lambda s: td.loop(0, 9, lambda k, s: waves(s) * (k + 1.5), s), cell(3, 12, 17)
    ),
    "until data ends it": (until, cell(3, 41)),
    "nested": (
        lambda e: td.iterate(8, lambda e: 0.5 * td.iterate(8, waves, e), e), cell(3, 12, 17)
    ),
    "around the axis": (
        lambda e: td.iterate(9, lambda e: waves(e) + td.roll(e, 1, axis=0), e), cell(3, 12, 17)
    ),
    "a part of the result": (lambda e: td.iterate(9, waves, e)[1:, ::2], cell(3, 12, 17)),
    "integers": (lambda s: td.iterate(9, lambda s: td.stack([s[1], s[0] + s[1]]), s),
                 np.arange(20).reshape(2, 10)),
    "the best": (lambda e: td.iterate(9, lambda e: waves(e) - td.max(e, axis=0), e),
                 cell(3, 12, 17)),
}  # fmt: skip
OTHERS: dict[str, Any] = {
    "few iterations": (lambda e: td.iterate(3, waves, e), cell(3, 12, 17)),
    "a run-time index": (
        lambda e: td.loop(0, 9, lambda k, e: waves(e) + e[k % 3], e), cell(3, 12, 17)
    ),
    "a sum of all": (lambda e: td.iterate(9, lambda e: waves(e) / td.the(td.sum(e)), e),
                     cell(3, 12, 17)),
    "sorted": (lambda e: td.iterate(9, lambda e: td.sort(waves(e), axis=0), e), cell(3, 12, 17)),
    "collected": (lambda e: td.scan(lambda e, _: (waves(e), e), e, None, length=9),
                  cell(3, 12, 17)),
    "nothing in common": (lambda e: td.iterate(9, lambda e: td.stack([e[0] + 1, e[1] * 2]), e),
                          cell(2, 12, 17)),
    "no stack": (lambda e: td.iterate(9, lambda e: e + td.roll(e, 1, axis=1), e), cell(3, 12, 17)),
    "changing extents": (
        lambda e: td.iterate(9, lambda e: td.stack([e[1, 1:], e[0, 1:]]), e), cell(2, 30)
    ),
}  # fmt: skip
ALL = {**SPLIT, **OTHERS}


def directions(u: Any) -> Any:
    g = td.stack([td.roll(u, -1, axis=0) - u, td.roll(u, -1, axis=1) - u])
    return g / td.sqrt(td.sum(g * g, axis=0) + 1e-9)


def shares(a: Any) -> Any:
    s = td.stack([a[0] * 2, a[1] + 1, td.roll(a[2], 1, axis=0)])
    e = td.exp(s - td.max(s, axis=0))
    return e / td.sum(e, axis=0)


def crossed(a: Any) -> Any:
    b = a[::-1] * 2 - 1
    c = td.stack([a[(k + 1) % 3] * b[(k + 2) % 3] - a[(k + 2) % 3] * b[(k + 1) % 3]
                  for k in range(3)], axis=1)  # fmt: skip
    return c / td.sqrt(td.sum(c * c, axis=1))[:, None]


#: Arrays that are joined outside of loops, and stay apart until the end, or do not.
JOINED: dict[str, Any] = {
    "lattice": (lattice, cell(9, 12, 17)),
    "directions": (directions, cell(12, 17)),
    "shares": (shares, cell(3, 12, 17)),
    "the second axis": (crossed, cell(3, 12, 17)),
    "with another result": (
        lambda a: (shares(a), td.sum(a, axis=0) / 2), cell(3, 12, 17)
    ),
}  # fmt: skip
WHOLE: dict[str, Any] = {
    "two results": (lambda a: (s := td.stack([a[0] + a[1], a[0] - a[1]]), s * td.sum(s, axis=0)),
                    cell(3, 12, 17)),
    "the last axis": (
        lambda a: td.sum(s := td.stack([a[0] + a[1], a[0] - a[1]], axis=-1), axis=-1)[..., None]
        * s, cell(3, 12, 17)
    ),
    "sorted": (lambda a: td.sort(s := td.stack([a[0] + a[1], a[0] - a[1]]), axis=0) + s,
               cell(3, 12, 17)),
    "read in a loop": (
        lambda a: (s := shares(a) + 1) * td.iterate(9, lambda v: v + s[0] * s[1], s[0]),
        cell(3, 12, 17)
    ),
    "on one side": (
        lambda a: td.cond(td.the(td.sum(a)) > 0, directions(a[0]), a[:2]), cell(3, 12, 17)
    ),
    "nothing in common": (
        lambda a: (s := td.stack([a[0] * 2, a[1] + 1])) * td.exp(s), cell(3, 12, 17)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", [*JOINED, *WHOLE])
def test_joined_outside_of_loops(name: str) -> None:
    f, argument = {**JOINED, **WHOLE}[name]
    compiled = td.jit(f, backend="native")
    same(compiled(argument), td.jit(f, backend="reference")(argument))
    with td.config(check=True):
        same(compiled(argument), td.jit(f, backend="native")(argument))
    text = compiled.lower(argument).explain()
    assert ("joined arrays stay apart until the end" in text) == (name in JOINED), text


@pytest.mark.parametrize("name", ["lattice", "the second axis"])
def test_joined_on_a_gpu(name: str) -> None:
    f, argument = JOINED[name]
    with cuda(True):
        same(td.jit(f, backend="cuda")(argument), td.jit(f, backend="reference")(argument))


@pytest.mark.parametrize("name", ["lattice", "directions"])
def test_kernels(name: str) -> None:
    """One, and one that joins its results."""
    f, argument = JOINED[name]
    assert len(td.jit(f, backend="native").lower(argument).kernels) == 2


def same(found: Any, want: Any) -> None:
    for a, b in _pairs(found, want):
        assert a.dtype == b.dtype and a.shape == b.shape
        assert np.allclose(a, b, rtol=1e-12, atol=0, equal_nan=True)


def _pairs(found: Any, want: Any) -> list[tuple[Any, Any]]:
    if isinstance(found, tuple):
        return [p for a, b in zip(found, want, strict=True) for p in _pairs(a, b)]
    return [(np.asarray(found), np.asarray(want))]


@pytest.mark.parametrize("name", ALL)
def test_results(name: str) -> None:
    f, argument = ALL[name]
    found, want = (td.jit(f, backend=b)(argument) for b in ("native", "reference"))
    same(found, want)
    with td.config(check=True):
        same(found, td.jit(f, backend="native")(argument))


@pytest.mark.parametrize("name", ["lattice", "channels", "states of states", "until data ends it"])
def test_a_gpu(name: str) -> None:
    f, argument = SPLIT[name]
    with cuda(True):
        same(td.jit(f, backend="cuda")(argument), td.jit(f, backend="reference")(argument))


@pytest.mark.parametrize("name", ALL)
def test_states(name: str) -> None:
    f, argument = ALL[name]
    text = td.jit(f, backend="native").lower(argument).explain()
    assert ("a state that is a stack of arrays is these arrays" in text) == (name in SPLIT), text


def test_one_kernel_an_iteration() -> None:
    """As many as the step over a tuple of arrays."""
    f, argument = SPLIT["lattice"]
    text = td.jit(f, backend="native").lower(argument).explain()
    repeated = text[text.index("Repeat 9 times") :]
    assert repeated.count("    Kernel ") == 1 and "Not fused" not in text, text


def test_gradient() -> None:
    f, argument = SPLIT["waves"]
    found, want = (
        td.jit(td.grad(lambda e: td.the(td.sum(f(e) ** 2))), backend=b)(argument)
        for b in ("native", "reference")
    )
    assert np.allclose(found, want, rtol=1e-12)
