"""The states that a gradient stores are computed where they are stored."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.backend.cuda.emulated import emulation
from treadle.dsl.graph import ArrayLoop, Memory, Permute, topological
from treadle.dsl.passes import run_passes
from treadle.dsl.process.configuration import Settings

rng = np.random.default_rng(0)
K = np.float64(0.3)


def stored(f: Any, *args: Any, check: bool = False) -> tuple[int, list[int]]:
    """How many arrays begin unwritten, and the sizes of the states of the loops."""
    program = td.jit(f, backend="native").lower(*args)
    nodes = list(
        topological(run_passes(program.source_roots, Settings(check=check), "native").roots)
    )
    loops = [n for n in nodes if isinstance(n, ArrayLoop)]
    return sum(isinstance(n, Memory) for n in nodes), [len(n.state) for n in loops]


def heat(boundary: Any) -> Any:
    def loss(n: Any, u: Any, k: Any) -> Any:
        def step(u: Any) -> Any:
            if boundary == "roll":
                beside = td.roll(u, 1, -1) + td.roll(u, -1, -1) + td.roll(u, 2, 0)
            elif u.ndim == 1:
                beside = td.stencil(lambda w: w[-1] + 2 * w[2], u, boundary=boundary)
            else:
                beside = td.stencil(
                    lambda w: w[-1, 0] + 2 * w[0, 1] * w[1, 1] + w[0, -1], u, boundary=boundary
                )
            return u + k * (beside * 0.25 - u) * u

        return td.sum(td.iterate(n, step, u) ** 2)

    return loss


def waves(n: Any, u: Any, k: Any) -> Any:
    """Two states, both of which are stored."""

    def step(s: Any) -> Any:
        u, v = s
        v = v + k * (td.roll(u, 1, -1) - u) * v
        return u + k * v * u, v

    first, second = td.iterate(n, step, (u, td.cos(u)))
    return td.sum(first * second)


def before(n: Any, u: Any, k: Any) -> Any:
    """A state is also the next value of another."""

    def step(s: Any) -> Any:
        u, old = s
        return u + k * td.roll(u, 1, 0) * old, u

    return td.sum(td.iterate(n, step, (u, u + 1))[0])


def folded(n: Any, u: Any, k: Any) -> Any:
    """A state that is folded as well."""

    def step(s: Any) -> Any:
        u, total = s
        return td.sin(u) * td.roll(u, 1, 0) + k, total * td.mean(u * u)

    u, total = td.iterate(n, step, (u, td.use(np.float64(1.5))))
    return td.sum(u) + total


def grown(n: Any, u: Any, k: Any) -> Any:
    """By matrices, which are no elements of a stencil."""
    return td.sum(td.iterate(n, lambda u: td.sin(u @ u) * k, u))


BOUNDARIES = ["roll", td.wrap, td.clamp, td.mirror, td.symmetric, td.constant(0.5),
              td.function(lambda *i: 0.1 * i[0])]  # fmt: skip
LOSSES = {**{f"heat {k}": heat(b) for k, b in enumerate(BOUNDARIES)},
          "waves": waves, "before": before, "folded": folded, "grown": grown}  # fmt: skip


def gradients(loss: Any, memory: int | None = None) -> Any:
    return td.value_and_grad(loss, (1, 2), memory=memory)


@pytest.mark.sample(1)
@pytest.mark.parametrize("backend", ["native", "cuda"])
@pytest.mark.parametrize("name", LOSSES)
def test_gradients(name: str, backend: str) -> None:
    shape = (6, 6) if name == "grown" else (9, 40)
    u = rng.random(shape)
    with emulation():
        program = td.jit(gradients(LOSSES[name]), backend=backend)
        few = td.jit(gradients(LOSSES[name], 2 * u.nbytes), backend=backend)
        for n in (0, 1, 2, 7):
            value, (du, dk) = td.run(gradients(LOSSES[name])(n, u, K), backend="reference")
            for found in (program(n, u, K), program(n, u, K), few(n, u, K)):
                assert np.allclose(found[0], value, rtol=1e-12)
                assert np.allclose(found[1][0], du, rtol=1e-11)
                assert np.allclose(found[1][1], dk, rtol=1e-11)


@pytest.mark.sample(2)
@pytest.mark.parametrize("shape", [(1,), (2,), (300,), (1, 3), (3, 1), (2, 2), (5, 64), (70, 33)])
@pytest.mark.parametrize("kind", range(1, 5))
def test_small_extents(shape: tuple[int, ...], kind: int) -> None:
    u = rng.random(shape)
    found = td.jit(gradients(heat(BOUNDARIES[kind])), backend="native")(3, u, K)
    value, (du, dk) = td.run(gradients(heat(BOUNDARIES[kind]))(3, u, K), backend="reference")
    assert np.allclose(found[0], value) and np.allclose(found[1][0], du)
    assert np.allclose(found[1][1], dk)


def test_which_loops() -> None:
    """The state that is stored is no other one; where something else needs it, it is copied."""
    args = 7, rng.random((9, 40)), K
    for name, memories, states in (("heat 0", 1, 1), ("heat 5", 1, 1), ("waves", 2, 2),
                                   ("before", 2, 4), ("folded", 2, 3)):  # fmt: skip
        found = stored(gradients(LOSSES[name]), *args)
        assert (found[0], found[1][0]) == (memories, states), name
    assert stored(gradients(heat("roll")), *args, check=True)[0] == 0
    assert stored(gradients(heat("roll"), 10_000), *args)[0] == 1  # the states of a segment


def test_what_a_scan_collects_is_written_once() -> None:
    def scanned(x: Any, n: Any) -> Any:
        return td.scan(lambda s, _: (td.roll(s, 1) * 0.5, (s, td.sum(s))), x, length=n)

    x = np.arange(6.0)
    want = td.jit(scanned, backend="reference")
    for backend in ("native", "cuda"):
        text = td.jit(scanned).lower(x, 4).explain(backend)
        assert text.count("every element is written before it is read") == 2, text
    for n in (4, 0, 1, 7):
        last, collected = td.jit(scanned, backend="native")(x, n)
        expected, rows = want(x, n)
        np.testing.assert_array_equal(last, expected)
        for got, row in zip(collected, rows, strict=True):
            np.testing.assert_array_equal(got, row)


def test_arrays_in_blocks_are_stored_as_written() -> None:
    da = pytest.importorskip("dask.array")
    u = rng.random((64, 40))
    value, (du, _) = td.run(gradients(heat("roll"))(4, u, K), backend="reference")
    program = td.jit(gradients(heat("roll")), backend="dask")
    found = program(4, da.from_array(u, chunks=(16, 40)), K)
    assert np.allclose(found[0], value) and np.allclose(np.asarray(found[1][0]), du)


def test_calls_have_memory_of_their_own() -> None:
    """A second call does not change what the first returned."""
    u = rng.random((9, 40))
    every = td.jit(lambda u: td.grad(heat("roll"), 1)(5, u, K), backend="native")
    first = every(u)
    kept = np.array(first)
    every(u + 1)
    assert np.array_equal(first, kept)


def test_updates_of_rows_by_stencils() -> None:
    """Rows of an array that hold a stencil are computed as arrays are; others are dropped."""

    def rows(a: Any, u: Any, k: Any) -> Any:
        return a.at[k].set(td.roll(u, 1, 0) + td.roll(u, -1, 1) * 2)

    a, u = rng.random((3, 8, 40)), rng.random((8, 40))
    for backend in ("native", "cuda"):
        with emulation():
            program = td.jit(rows, backend=backend)
            for k in (0, 2, -1):
                want = a.copy()
                want[k] = np.roll(u, 1, 0) + np.roll(u, -1, 1) * 2
                assert np.array_equal(np.asarray(program(a, u, k)), want)
    nodes = run_passes(
        td.jit(rows, backend="native").lower(a, u, 1).source_roots, Settings(), "native"
    )
    assert any(isinstance(n, Permute) for n in topological(nodes.roots))


@pytest.mark.sample(2)
@pytest.mark.parametrize("steps", [0, 1, 5])
def test_stored_states_that_are_a_result_have_the_rows_of_the_scan(steps: int) -> None:
    """The row that is more is for those who read rows one by one."""

    def states(x):
        return td.scan(lambda s, k: (td.sin(td.roll(s, 1)) * 2, s), x, length=steps)

    x = np.arange(6.0)
    wanted = np.empty((steps, 6))
    last = x
    for k in range(steps):
        wanted[k], last = last, np.sin(np.roll(last, 1)) * 2
    got, stored = td.jit(states, backend="native")(x)
    np.testing.assert_allclose(got, last)
    np.testing.assert_allclose(stored, wanted)
    for f in (lambda y: y[::-1], lambda y: td.sort(y, axis=1), lambda y: td.cumsum(y, axis=0)):
        part = td.jit(lambda x, f=f: f(states(x)[1]), backend="native")(x)
        np.testing.assert_allclose(part, td.run(f(wanted)))
    if steps:
        for boundary in (td.symmetric, td.mirror, td.wrap, td.clamp, td.constant(-1.0)):

            def below(y, boundary=boundary):
                return td.stencil(lambda w: w[-1, 0] - w[1, 1], y, boundary=boundary)

            part = td.jit(lambda x, f=below: f(states(x)[1]), backend="native")(x)
            np.testing.assert_allclose(part, td.run(below(wanted)))
    count = td.jit(lambda x: td.sum(states(x)[1]) + states(x)[1].shape[0], backend="native")(x)
    np.testing.assert_allclose(count, wanted.sum() + steps)


def test_rows_that_are_read_before_they_are_written_begin_as_given() -> None:
    """The first iteration reads the row that it writes."""

    def summed(x: Any) -> Any:
        def step(k: Any, t: Any) -> Any:
            return t.at[k].set(td.roll(t[td.maximum(k - 1, 0)], 1) + x)

        return td.loop(5, step, td.zeros((5, x.shape[0])))

    program = td.jit(summed, backend="native").lower(np.ones(3))
    assert "before it is read" not in program.explain()
    assert np.array_equal(program(np.ones(3))[:, 0], np.arange(1.0, 6.0))
