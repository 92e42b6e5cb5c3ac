"""Iterations of a loop over a stencil, several in a pass: a program on an emulated GPU."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import treadle as td
from tests.backend.cuda.emulated import emulation
from treadle.backend.cuda.loops import TemporalBlocking


@pytest.fixture
def passed(monkeypatch):
    """Whether each group of passes could be made."""
    found = []
    original = TemporalBlocking.passes

    def passes(self, *args):
        made = original(self, *args)
        found.append(made is not None)
        return made

    monkeypatch.setattr(TemporalBlocking, "passes", passes)
    return found


@pytest.mark.sample(2)
@pytest.mark.parametrize("iterations", [0, 1, 3, 7, 8, 9, 12, 16, 45])
@pytest.mark.parametrize("shape", [(24, 64), (9, 30)])
def test_passes_and_what_is_left(iterations, shape, passed):
    a = np.random.default_rng(0).integers(0, 100, shape).astype("f4")

    def program(x):
        return td.iterate(iterations, lambda y: td.stencil(
            lambda w: (w[-1, 0] + w[0, -1] + w[0, 1] + w[1, 0]) * 0.25, y), x)  # fmt: skip

    want = td.run(program(td.use(a)), backend="reference")
    with emulation():
        assert np.array_equal(np.asarray(td.jit(program, backend="cuda")(a)), want)
    if shape[1] % 4 == 0:
        assert passed == [True] * ((iterations >= 8) + (iterations % 8 >= 4))
    else:  # a column per thread: the kernel for vectors is tried first
        tried = (iterations >= 8) + (iterations >= 4)
        made = (iterations >= 4) + (iterations >= 4 and iterations % 4 >= 2)
        assert passed == [False] * tried + [True] * made


SHAPES = [(40, 128), (96, 260), (7, 12)]
rng = np.random.default_rng(0)


def around(w):
    return w[-1, 0] + w[0, -1] + w[0, 1] + w[1, 0] - 3 * w[0, 0]


def turned(x):
    return td.roll(x, 1, 0) + td.roll(x, -1, 0) + td.roll(x, 1, 1) - td.roll(x, -1, 1)


def with_coefficients(n, u, c, xs):
    return td.iterate(n, lambda x: x + c * td.stencil(around, x, boundary=td.mirror), u)


def with_a_window_of_coefficients(n, u, c, xs):
    def step(x):
        shifted = td.stencil(lambda w: w[1, 1] * 2 - w[-1, 0], c, boundary=td.clamp)
        return td.stencil(around, x, boundary=td.clamp) - shifted

    return td.iterate(n, step, u)


def waves(n, u, c, xs):
    """Two times; a source that changes with time at one place."""

    def step(k, state):
        now, before = state
        i, j = td.indices(u.shape)
        source = td.where((i == 3) & (j == 5), xs[k, 0, 0] + k.astype(td.int32), 0)
        return 2 * now - before + c * td.stencil(around, now, boundary=td.constant(0)) + source, now

    return td.loop(n, step, (u, c))


def with_a_state_that_stays(n, u, c, xs):
    def step(state):
        kept, x, before = state
        return kept, turned(x) + td.roll(kept, 1, 1) - before, x

    return td.iterate(n, step, (c, u, u))


def forced(n, u, c, xs):
    """The plane of each iteration, and the one of the iteration from the end."""

    def step(k, x):
        return turned(x) * 2 + xs[k] * c - td.roll(xs[n - 1 - k], 1, 1) + k.astype(td.int32)

    return td.loop(n, step, u)


def from_the_plane_before(n, u, c, xs):
    """A plane that is not there for the first iteration."""

    def step(k, x):
        return (
            turned(x)
            + xs[k]
            + td.generate(u.shape, lambda i, j: td.cond(k > 0, xs[k - 1, i, j], td.int32(0)))
        )

    return td.loop(n, step, u)


def from_the_plane_after(n, u, c, xs):
    """A plane that is not there for the last iteration."""

    def step(k, x):
        return (
            turned(x)
            + xs[k]
            + td.generate(u.shape, lambda i, j: td.cond(k < n - 1, xs[k + 1, i, j], td.int32(0)))
        )

    return td.loop(n, step, u)


def backwards_in_a_loop(n, u, c, xs):
    return td.loop(
        3,
        lambda m, x: td.loop(n, lambda k, y: turned(y) + xs[n - 1 - k] * m.astype(td.int32), x),
        u,
    )


def as_tuple(x):
    return x if isinstance(x, tuple) else (x,)


def compare(program, shape, iterations):
    """Compare the results of the emulated GPU with those of `reference`; returns the arguments and
    the results."""
    u, c = rng.integers(-9, 9, (2, *shape)).astype("i4")
    xs = rng.integers(-9, 9, (iterations, *shape)).astype("i4")
    want = td.run(program(iterations, *map(td.use, (u, c, xs))), backend="reference")
    with emulation():
        got = td.jit(partial(program, iterations), backend="cuda")(u, c, xs)
    for found, meant in zip(as_tuple(got), as_tuple(want), strict=True):
        assert np.array_equal(found, meant)
    return (u, c, xs), got


@pytest.mark.sample(6)
@pytest.mark.parametrize("iterations", [9, 13, 20])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("program", [
    with_coefficients, with_a_window_of_coefficients, waves, with_a_state_that_stays, forced,
    from_the_plane_before, from_the_plane_after, backwards_in_a_loop,
], ids=lambda f: f.__name__)  # fmt: skip
def test_what_an_iteration_reads(program, shape, iterations, passed, monkeypatch):
    arguments, got = compare(program, shape, iterations)
    with emulation():
        monkeypatch.setattr(TemporalBlocking, "of", classmethod(lambda *_: ()))
        single = td.jit(partial(program, iterations), backend="cuda")(*arguments)
    for found, alone in zip(as_tuple(got), as_tuple(single), strict=True):
        assert np.array_equal(found, alone)
    assert any(passed)


INSIDE = (slice(1, -1), slice(1, -1))


def inside(x):
    """The mean of the neighbours, but for the rim."""
    return x[1:-1, :-2] + x[1:-1, 2:] + x[:-2, 1:-1] * 3 - x[2:, 1:-1]


def to_and_fro(n, u, c, xs):
    """Two arrays whose insides are updated in place, one from the other."""

    def step(state):
        a, b = state
        b = td.update(b, INSIDE, inside(a))
        return td.update(a, INSIDE, inside(b)), b

    return td.iterate(n, step, (u, c))


def fields(n, u, c, xs):
    """Three arrays, of which slices are added to, and a row that a number replaces."""

    def step(k, state):
        ex, ey, hz = state
        ey = ey.at[0].set(xs[k, 0, 0])
        ey = ey.at[1:].add(hz[:-1] - hz[1:])
        ex = ex.at[:, 1:].add(hz[:, :-1] - hz[:, 1:])
        curl = ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1]
        return ex, ey, hz.at[:-1, :-1].add(-curl)

    return td.loop(n, step, (u, c, u))


def red_and_black(n, u, c, xs):
    def half(colour, x):
        i, j = td.indices(x.shape)
        return td.where((i + j) % 2 == colour, td.stencil(around, x, boundary=td.clamp), x)

    return td.iterate(n, lambda x: half(1, half(0, x)), u)


def from_operation_to_operation(n, u, c, xs):
    """Neighbours of what the iteration has computed, by a border of each kind; a state that takes
    the place of another, or of one that stays."""

    def step(state):
        a, b, kept = state
        b = b - td.stencil(lambda w: w[0, 1] - w[-1, -1], a, boundary=td.symmetric)
        a = a + td.stencil(lambda w: w[1, 0] - w[0, -1], b, boundary=td.constant(2)) * kept
        return b, kept, kept

    return td.iterate(n, step, (u, c, c))


def with_profiles(n, u, c, xs):
    """A number for each row, one for each column, and a row of a plane of each iteration."""
    absorbing, flow = c[:, 0], c[0]

    def step(k, x):
        near = td.stencil(around, x, boundary=td.clamp)
        moved = near * absorbing[:, None] - x * flow[None, :]
        return moved.at[0].set(xs[k, 1])

    return td.loop(n, step, u)


def with_free_borders(n, u, c, xs):
    """Rows and columns at the edges that take the values beside them, one after the other."""

    def step(x):
        x = td.stencil(around, x, boundary=td.clamp) + c
        x = x.at[:, -1].set(x[:, -2])
        x = x.at[0].set(x[1] * 2)
        x = x.at[:, 0].set(x[:, 1])
        return x.at[-1].set(0)

    return td.iterate(n, step, u)


def along_a_channel(n, u, c, xs):
    """Periodic, but for walls: what the iterations make of the rows beyond them is not read."""

    def step(x):
        x = turned(x) + c
        x = x.at[-1].set(x[-2])
        return x.at[0].set(x[1] - 1)

    return td.iterate(n, step, u)


@pytest.mark.sample(4)
@pytest.mark.parametrize("iterations", [1, 4, 6, 13])
@pytest.mark.parametrize("shape", [*SHAPES, (37, 121)], ids=str)
@pytest.mark.parametrize("program", [
    to_and_fro, fields, red_and_black, from_operation_to_operation, with_profiles,
    with_free_borders, along_a_channel,
], ids=lambda f: f.__name__)  # fmt: skip
def test_iterations_of_several_operations(program, shape, iterations, passed, monkeypatch):
    compare(program, shape, iterations)
    if iterations > 4:
        assert any(passed)


@pytest.mark.sample(3)
@pytest.mark.parametrize("columns", [23, 29, 31, 65, 108, 112, 116, 120, 124, 224, 228, 236])
def test_the_last_warp_of_a_row_ends_at_the_edge(columns, passed):
    """The borders' values depend on more columns than a warp shares with the one beside it."""
    u, c = rng.integers(-9, 9, (2, 21, columns)).astype("i4")
    want = td.run(with_free_borders(13, td.use(u), td.use(c), None), backend="reference")
    with emulation():
        got = td.jit(lambda u, c: with_free_borders(13, u, c, None), backend="cuda")(u, c)
    assert np.array_equal(got, want)
    assert any(passed)


def test_states_of_different_shapes_take_single_iterations(passed):
    """That two arrays have one shape is known only when a program is called."""
    a, b = rng.integers(-9, 9, (40, 128)).astype("i4"), rng.integers(-9, 9, (41, 128)).astype("i4")

    def program(a, b):
        def step(state):
            a, b = state
            b = td.update(b, (slice(1, -2), slice(1, -1)), inside(a))
            return td.update(a, INSIDE, inside(b[:-1])), b

        return td.iterate(12, step, (a, b))

    want = td.run(program(td.use(a), td.use(b)), backend="reference")
    with emulation():
        got = td.jit(program, backend="cuda")(a, b)
    assert all(map(np.array_equal, got, want))
    assert not any(passed)


def test_an_update_of_a_row_takes_single_iterations(passed):
    """A pass would go through all of an array of which an iteration writes little."""
    u = rng.integers(-9, 9, (40, 128)).astype("i4")

    def program(x):
        return td.loop(12, lambda k, y: y.at[1].set(y[0] + k.astype(td.int32)), x)

    want = td.run(program(td.use(u)), backend="reference")
    with emulation():
        assert np.array_equal(td.jit(program, backend="cuda")(u), want)
    assert not passed


def test_what_takes_single_iterations(passed):
    """A place of the state that is the same for all elements, one that data choose, a fold."""
    u, at = rng.integers(0, 9, (2, 40, 128)).astype("i4")
    rows = td.use(at)

    def chosen(k, x):
        return turned(x) + td.generate(x.shape, lambda i, j: x[rows[i, j], j])

    def over_the_largest(k, x):
        return turned(x) // td.maximum(td.max(x), 1)

    for step in (lambda k, x: turned(x) - x[3, 4], chosen, over_the_largest):
        want = td.run(td.loop(12, step, td.use(u)), backend="reference")
        with emulation():
            got = td.jit(lambda a, step=step: td.loop(12, step, a), backend="cuda")(u)
        assert np.array_equal(got, want)
    assert not passed


def test_a_while_loop_whose_iterations_the_host_counts():
    """It has no count of its own, and takes single iterations."""

    def program(x):
        step = lambda s: (s[0] + 2, td.stencil(around, s[1]))
        return td.while_loop(lambda s: s[0] < 9, step, (td.unit(0), x))

    u = rng.integers(-9, 9, (8, 64)).astype("i4")
    want = td.run(program(td.use(u)), backend="reference")
    with emulation():
        got = td.jit(program, backend="cuda")(u)
    assert int(got[0]) == 10 and np.array_equal(got[1], want[1])


def test_windows_of_planes(passed):
    """Of a plane that no other iteration reads, as in a gradient."""
    u = rng.integers(0, 9, (40, 128)).astype("i4")
    planes = td.use(rng.integers(0, 9, (12, 40, 128)).astype("i4"))

    def step(k, x):
        return turned(x) + turned(planes[k])

    want = td.run(td.loop(12, step, td.use(u)), backend="reference")
    with emulation():
        got = td.jit(lambda a: td.loop(12, step, a), backend="cuda")(u)
    assert np.array_equal(got, want) and any(passed)


def test_parts_of_a_loop(passed):
    """Within a limit of memory, a gradient computes a loop in parts, whose numbers of iterations
    the host knows: storing and reversed iterations make passes in all of them."""

    def f(u, k):
        return td.sum(td.iterate(40, lambda u: u + k * (turned(u) - u) * u, u))

    u, k = rng.random((24, 64)).astype("f4"), np.float32(0.1)
    with emulation():
        g = td.jit(td.value_and_grad(f, argnums=(0, 1), memory=12 * u.nbytes), backend="cuda")
        value, both = g(u, k)
    assert len(passed) > 15 and all(passed)
    want, wanted = td.jit(td.value_and_grad(f, argnums=(0, 1)), backend="native")(u, k)
    for found, expected in zip((value, *both), (want, *wanted), strict=True):
        np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-5)
