"""Several iterations of a loop in one pass over blocks of rows: the bits of single iterations."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.backend.native import loops, passes
from treadle.backend.native.runtime import replay
from treadle.backend.native.runtime.tape import Pass

pytestmark = pytest.mark.skipif(not replay.supported(), reason="loops are not recorded here")

Step = Callable[[Any, Any], Any]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Pass]]:
    """The passes that were made: with three threads, by every loop that can."""
    found: list[Pass] = []

    def noted(*args: Any) -> Pass | None:
        one = passes.pass_of(*args)
        found.extend([] if one is None else [one])
        return one

    three = SimpleNamespace(thread_count=lambda: 3, BRIEF_WORK=0.0)
    monkeypatch.setattr(passes, "threads", three)  # there alone: others import these by name
    monkeypatch.setattr(passes, "BRIEF", np.inf)
    monkeypatch.setattr(passes, "WORTH", 2)
    monkeypatch.setattr(passes, "BLOCK_WORK", 50.0)
    monkeypatch.setattr(loops, "pass_of", noted)
    yield found


def check(count: int, step: Step, *start: Any, made: list[Pass]) -> None:
    """The results are those of `reference`, whatever was recorded before; passes were made."""
    program = td.jit(lambda *state: td.loop(count, step, state), backend="native")
    wanted = td.jit(lambda *state: td.loop(count, step, state), backend="reference")(*start)
    for _ in range(3):  # iteration by iteration, recorded alone, and as part of a call
        for got, want in zip(program(*start), wanted, strict=True):
            np.testing.assert_array_equal(np.asarray(got), np.asarray(want))
    assert made


def integers(*shape: int, seed: int = 0, dtype: str = "int32") -> Any:
    return np.random.default_rng(seed).integers(-9, 9, shape).astype(dtype)


BOUNDARIES = [td.clamp, td.mirror, td.symmetric, td.wrap, td.constant(3)]


@pytest.mark.parametrize("boundary", BOUNDARIES, ids=lambda b: b.kind)
@pytest.mark.parametrize("shape", [(301, 40), (4000, 5), (120, 9, 11), (40_000,)], ids=str)
def test_stencils(shape: tuple[int, ...], boundary: Any, made: list[Pass]) -> None:
    def step(_: Any, state: Any) -> Any:
        (u,) = state
        if len(shape) == 1:
            new = td.stencil(lambda w: w[-2] + w[1] - w[0], u, boundary=boundary)
        else:
            rest = (0,) * (len(shape) - 1)
            new = td.stencil(lambda w: w[-2, *rest] + w[1, *rest] - w[0, *rest[1:], 1], u,
                             boundary=boundary)  # fmt: skip
        return (new,)

    check(50, step, integers(*shape), made=made)


def test_a_state_that_takes_another_ones_value(made: list[Pass]) -> None:
    def step(_: Any, state: Any) -> Any:
        a, b = state
        return td.stencil(lambda w: w[-1, 0] + w[1, 0] - w[0, 1], a) - b, a

    check(37, step, integers(300, 50), integers(300, 50, seed=1), made=made)


def test_updates_of_insides_and_borders(made: list[Pass]) -> None:
    def step(_: Any, state: Any) -> Any:
        ex, ey, hz = state
        ey = ey.at[0].set(hz[1])
        ey = ey.at[1:].add(hz[:-1] - hz[1:])
        ex = ex.at[:, 1:].add(hz[:, :-1] - hz[:, 1:])
        ex = ex.at[:, 0].set(ex[:, 1])
        hz = hz.at[:-1, :-1].add(ex[:-1, :-1] - ey[1:, :-1])
        return ex, ey, hz.at[-1].set(hz[-2])

    check(40, step, *(integers(301, 33, seed=k) for k in range(3)), made=made)
    assert all(len(one.units) > 4 for one in made)


def test_a_number_of_the_iteration(made: list[Pass]) -> None:
    def step(k: Any, state: Any) -> Any:
        (u,) = state
        new = td.stencil(lambda w: w[-1, 0] + w[1, 0], u, boundary=td.constant(0))
        return (new + (k % 5).astype(u.dtype),)

    check(44, step, integers(300, 40), made=made)


def test_rows_that_are_one_line(made: list[Pass]) -> None:
    """Operations on whole short rows, beside one on neighbours in them."""

    def step(_: Any, state: Any) -> Any:
        a, b = state
        b = b.at[1:-1].add(a[1:-1])
        return td.stencil(lambda w: w[1, 0] - w[0, -1], a) + b, b - 3 * a

    check(30, step, integers(3000, 7), integers(3000, 7, seed=1), made=made)


def test_a_copy_of_rows(made: list[Pass]) -> None:
    def step(_: Any, state: Any) -> Any:
        a, b = state  # a is needed after its update
        return a.at[1:-1].add(b[2:] - b[:-2]), td.stencil(lambda w: w[-1, 0] + w[1, 0], a)

    check(30, step, integers(300, 40), integers(300, 40, seed=1), made=made)


@pytest.mark.parametrize("ahead", [0, 1])
def test_planes_that_iterations_write(ahead: int, made: list[Pass]) -> None:
    """What a loop records, as rows of the axis after the counter's; the next iteration reads it."""

    def step(k: Any, state: Any) -> Any:
        u, kept = state
        kept = kept.at[k + ahead].set(u + 1)
        return td.stencil(lambda w: w[-1, 0] + w[1, 0] - w[0, 1], kept[k + ahead]), kept

    check(35, step, integers(300, 40), integers(36, 300, 40, seed=1), made=made)


def test_a_row_of_a_plane(made: list[Pass]) -> None:
    def step(k: Any, state: Any) -> Any:
        u, kept = state
        kept = kept.at[k].set(u).at[k, 0].set(u[1] * 2)
        return td.stencil(lambda w: w[-1, 0] + w[1, 0] - w[0, 1], u), kept

    check(35, step, integers(300, 40), integers(35, 300, 40, seed=1), made=made)


def test_axes_that_differ_take_single_iterations(made: list[Pass]) -> None:
    """Rows of the same array along two axes are in no order that a pass could keep."""

    def step(k: Any, state: Any) -> Any:
        u, kept = state
        kept = kept.at[k].set(u)
        return kept[:, 3, :] + u, kept

    program = td.jit(lambda *s: td.loop(30, step, s), backend="native")
    start = integers(30, 40), integers(30, 30, 40, seed=1)
    wanted = td.jit(lambda *s: td.loop(30, step, s), backend="reference")(*start)
    for _ in range(3):
        for got, want in zip(program(*start), wanted, strict=True):
            np.testing.assert_array_equal(np.asarray(got), np.asarray(want))
    assert not made


@pytest.mark.parametrize("boundary", BOUNDARIES, ids=lambda b: b.kind)
def test_gradients(boundary: Any, made: list[Pass]) -> None:
    """A loop that stores its states, and the reversed one."""

    def near(u: Any) -> Any:
        return td.stencil(lambda w: w[-1, 0] + w[1, 0] - w[0, 1] * w[0, 0], u, boundary=boundary)

    def f(u: Any, k: Any) -> Any:
        return td.sum(td.iterate(20, lambda u: u + k * near(u), u))

    u = np.random.default_rng(0).random((300, 40))
    results = [td.jit(td.grad(f, argnums=(0, 1)), backend=b) for b in ("native", "reference")]
    for _ in range(3):
        for got, want in zip(*(g(u, 0.01) for g in results), strict=True):
            np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-9)
    assert len(made) > 1 or boundary.kind == "mirror"  # whose adjoint depends on the extents


def random_step(seed: int, boundary: Any) -> Step:
    """Up to five operations of several kinds on two arrays."""

    def step(k: Any, state: Any) -> Any:
        a, b = state
        for number in range(1 + seed % 5):
            r = random.Random(f"{seed} {number}")
            kind = r.choice(["row", "column", "inside", "where", "roll"]) if number else "stencil"
            side = r.choice([0, -1])
            near = r.choice([1, 2]) if side == 0 else -2
            if kind == "stencil":
                i, j = r.choice([(-1, 0), (2, 1), (1, -1)])
                a = td.stencil(lambda w, i=i, j=j: w[i, j] + w[-1, 0] - w[0, 0], a,
                               boundary=boundary) - b  # fmt: skip
            elif kind == "row":
                a = a.at[side].set(a[near])
            elif kind == "column":
                a = a.at[:, side].set(a[:, near])
            elif kind == "inside":
                a = a.at[1:-1].add(b[:-2] - a[2:])
            elif kind == "where":
                row, column = td.indices(a.shape)
                a = td.where((row + column + k) % 2 == 0, a, b)
            else:
                a, b = b + td.roll(a, r.choice([1, -2]), axis=0), a
        return a, b

    return step


@pytest.mark.parametrize("seed", [*range(2), 3, 4, *range(6, 17)])  # all of them make passes
def test_random_iterations(seed: int, made: list[Pass], monkeypatch: pytest.MonkeyPatch) -> None:
    r = random.Random(seed)
    monkeypatch.setattr(passes, "BLOCK_WORK", r.choice([1.0, 100.0, 1000.0]))
    monkeypatch.setattr(passes, "MOST_ITERATIONS", r.choice([2, 3, 7, 32]))
    shape = r.choice([333, 500]), r.choice([8, 17, 64, 100])
    step = random_step(seed, r.choice(BOUNDARIES))
    check(r.choice([11, 30, 64]), step, integers(*shape), integers(*shape, seed=1), made=made)


@pytest.mark.parametrize("count", range(1, 16))
def test_results_of_several_states_are_where_they_must_be(count: int) -> None:
    """They change places from iteration to iteration; so large, they are not moved at the end."""

    def step(_: Any, state: Any) -> Any:
        a, b, c = state
        return a[::-1] + b, a, c + 1

    start = [integers(9000, seed=k) for k in range(3)]
    program = td.jit(lambda *state: td.loop(count, step, state), backend="native")
    wanted = td.jit(lambda *state: td.loop(count, step, state), backend="reference")(*start)
    for _ in range(4):
        for got, want in zip(program(*start), wanted, strict=True):
            np.testing.assert_array_equal(np.asarray(got), np.asarray(want))


def test_explain_says_so() -> None:
    u = integers(30, 40)
    step = lambda x: td.stencil(lambda w: w[1, 0] + w[0, 0], x)
    program = td.jit(lambda u: td.iterate(9, step, u), backend="native")
    assert "several iterations in a pass over the rows" in program.lower(u).explain()
    alone = td.jit(lambda u: td.iterate(9, lambda x: x + td.max(x), u), backend="native")
    assert "in a pass over the rows" not in alone.lower(u).explain()


def test_small_arrays_are_left_alone() -> None:
    def step(x: Any) -> Any:
        return td.stencil(lambda w: w[1, 0] + w[0, 0], x)

    found: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loops, "pass_of", lambda *a: found.append(passes.pass_of(*a)))
        program = td.jit(lambda u: td.iterate(40, step, u), backend="native")
        for _ in range(3):
            program(integers(20, 20))
    assert found and not any(found)
