"""Short extents as numbers: programs for each of them, and one for all larger ones."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from treadle.dsl.analysis.short_extents import fixed, short_extent

rng = np.random.default_rng(11)


def compiled(traces):
    def f(a, b=None):
        n = short_extent(a._shape[1], 4)
        traces.append(n)
        return a * 2 if n is None else a * n

    return td.jit(f, backend="reference")


def test_a_program_for_each_short_extent_and_one_for_the_rest():
    traces = []
    f = compiled(traces)
    for n in (2, 3, 2, 9, 4, 10, 3, 11):
        assert (f(np.ones((5, n))) == (n if n <= 4 else 2)).all()
    assert traces == [2, 3, None, 4]
    assert (f(np.ones((7, 3))) == 3).all() and len(traces) == 4


def test_lower_finds_the_program_of_a_call():
    traces = []
    f = compiled(traces)
    for n in (3, 9):
        f(np.ones((2, n)))
        f.lower(np.ones((4, n)))
    assert traces == [3, None]


def test_extents_may_be_asked_for_one_after_the_other():
    """What is asked for second may depend on the first."""

    def f(a):
        if short_extent(a._shape[0], 4) == 2:
            return a * (short_extent(a._shape[1], 4) or 100)
        return a

    f = td.jit(f, backend="reference")
    for _ in range(2):
        for m, n, want in ((2, 3, 3), (3, 3, 1), (2, 2, 2), (3, 4, 1), (2, 9, 100)):
            assert (f(np.ones((m, n))) == want).all()


def test_computed_extents_and_data():
    asked = []

    def f(a):
        asked.append(short_extent(a[1:, :2]._shape[0], 4))
        asked.append(short_extent(td.use(np.ones(3))._shape[0], 4))
        asked.append(short_extent(td.compact(a[:, 0] > 0, a[:, 0])[0]._shape[0], 4))
        return a

    td.jit(f, backend="reference")(np.ones((4, 5)))
    assert asked == [3, 3, None]
    assert short_extent(td.use(np.ones((2, 9)))._shape[0], 4) == 2
    assert short_extent(td.use(np.ones((2, 9)))._shape[1], 4) is None


def test_fixed():
    (check,) = fixed(td.use(np.ones(3))._shape[0], 3, "linalg.inv")
    assert (check.left, int(check.right.value)) == (td.use(np.ones(3))._shape[0], 3) or check
    with pytest.raises(td.ShapeError, match="this program is for matrices with an extent of 2"):
        fixed(td.use(np.ones(3))._shape[0], 2, "linalg.inv")


def of_rotations(q, v):
    w, x, y, z = q.T
    a, b, c = td.unstack(v, -1)
    return td.stack([w * a + x, y * b, z * c], axis=-1) + sum(row for row in q)[:3]


@pytest.mark.parametrize("backend", ["native", "reference"])
def test_python_takes_short_axes_apart(backend):
    q, v = rng.standard_normal((5, 4)), rng.standard_normal((5, 3))
    for n in (5, 3, 5, 32):
        q, v = rng.standard_normal((n, 4)), rng.standard_normal((n, 3))
        w, x, y, z = q.T
        expected = np.stack([w * v[:, 0] + x, y * v[:, 1], z * v[:, 2]], axis=-1)
        for program in (of_rotations, td.jit(of_rotations, backend=backend)):
            np.testing.assert_allclose(program(q, v), expected + q.sum(axis=0)[:3], rtol=1e-12)
    program = td.jit(of_rotations, backend=backend).lower(q, v)
    with pytest.raises(td.ShapeError, match="unstack: this program is for an axis with an extent"):
        program(q[:4], v[:4])


def test_states_of_loops_and_gradients_are_taken_apart():
    def step(state, _):
        angle, speed = state
        return td.stack([angle + 0.1 * speed, speed - 0.1 * td.sin(angle)]), angle

    def energy(state):
        (angle, speed), path = td.scan(step, state, length=5)
        return angle * angle + speed + td.sum(path)

    state = np.array([1.0, 0.5])
    gradient = td.jit(td.grad(energy))(state)
    for k, e in enumerate(np.eye(2) * 1e-6):
        slope = (td.jit(energy)(state + e) - td.jit(energy)(state - e)) / 2e-6
        assert abs(gradient[k] - slope) < 1e-6


@pytest.mark.parametrize("backend", ["reference", "native"])
def test_extents_of_two_sides_in_a_loop(backend):
    """Where they are equal, the state has fixed extents; another program is for those that are
    not."""

    def picked(c, t):
        def step(k, t):
            return td.cond(td.sum(t) > 1.0, t[td.arange(c.shape[0]) % t.shape[0]] * 0.5, t)

        return td.loop(3, step, t)

    f = td.jit(picked, backend=backend)
    for n, m in ((4, 4), (3, 5), (6, 6), (5, 3), (4, 4)):
        expected = np.arange(m) * 1.0
        for _ in range(3):
            if expected.sum() > 1.0:
                expected = expected[np.arange(n) % expected.size] * 0.5
        np.testing.assert_array_equal(f(np.ones(n), np.arange(m) * 1.0), expected)
    equal = str(td.jit(picked, backend=backend).lower(np.ones(4), np.ones(4)))
    assert "state 'extent'" not in equal
    other = str(td.jit(picked, backend=backend).lower(np.ones(4), np.ones(5)))
    assert "state 'extent'" in other
    with pytest.raises(td.ShapeError):
        td.jit(picked, backend=backend).lower(np.ones(4), np.ones(4))(np.ones(5), np.ones(4))
