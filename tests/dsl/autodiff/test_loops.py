"""Gradients through loops over arrays, branches and what they update."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import treadle as td
from treadle.backend.runtime.memory import Pool
from treadle.dsl.expr import Apply, walk
from treadle.dsl.graph import ArrayLoop, topological
from treadle.dsl.libraries.checkpoints import SHORT, actions, recomputed, segment

from ...conformance.helpers import cuda
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
    "inner loops of changing length": lambda x: td.sum(
        W * td.loop(4, lambda k, u: td.loop(k, lambda j, v: td.sin(v) * u, u), x)
    ),
    "inner while loops": lambda x: td.sum(
        W
        * td.loop(
            3,
            lambda k, u: td.while_loop(
                lambda v: td.sum(v) < 10 + td.cast(k, td.float64) * 7,
                lambda v: v * 1.2 + 0.1 * u,
                u * 0.3,
            ),
            x,
        )
    ),
    "inner loops as long as the state says": lambda x: td.sum(
        W
        * td.while_loop(
            lambda u: td.sum(u) < 200,
            lambda u: (
                1.1
                * td.loop(
                    td.cast(td.the(td.sum(u)), td.int64) % 5,
                    lambda j, v: td.sin(v) * u * 0.05 + v * 1.01,
                    u,
                )
            ),
            x,
        )
    ),
    "branch": lambda x: td.sum(td.cond(td.sum(x) > 100, td.sqrt(x - 100), x * x) * W),
    "branch in a loop": lambda x: td.sum(
        td.loop(4, lambda k, u: td.cond(k % 2 == 0, u * u * x, td.sin(u)), x) * W
    ),
    "nested in a branch": lambda x: td.sum(W * td.cos(td.cond(td.sum(x) > 1, nested(x), x))),
    "branch on nested loops": lambda x: td.sum(
        (lambda v: W * td.cond(td.sum(x) > 1, v * v, td.sin(v)))(nested(x))
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
    "while of loops": lambda x: td.sum(
        W
        * td.while_loop(
            lambda v: td.sum(v) < 90,
            lambda v: td.iterate(2, lambda u: u * 1.2 + 0.1 * u * u * x, v),
            x,
        )
    ),
    "fixed point": lambda x: td.sum(
        W * td.fixed_point(lambda y: (y + x / y) / 2 + 0.1 * td.sin(x * y), x, 1e-13)
    ),
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    assert_gradient(PROGRAMS[name], X)


def cubes(v):
    return td.sum(v * v * v)


#: Loops whose states change their extents, and whose derivatives need none of these states.
CHANGING = {
    "growing": lambda x: cubes(td.loop(3, lambda k, s: td.concatenate([s, s[:1] * 2], axis=0), x)),
    "shrinking": lambda x: cubes(td.loop(2, lambda k, s: s[1:] * 2, x)),
    "two of which one is used": lambda x: cubes(
        td.loop(3, lambda k, s: (s[0][1:], td.concatenate([s[1], s[0][:1]], axis=0)), (x, x))[1]
    ),
    "counted by a predicate": lambda x: cubes(
        td.while_loop(
            lambda s: s.shape[0] < 9, lambda s: td.concatenate([s[::-1], s[:2]], axis=0), x
        )
    ),
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("backend", ["reference", "native"])
@pytest.mark.parametrize("name", CHANGING)
def test_extents_that_change(name, backend):
    f = CHANGING[name]
    along = td.jit(lambda x: td.jvp(td.grad(f), (x,), (W,))[1], backend=backend)
    again = td.jit(lambda x: td.grad(lambda y: td.sum(td.grad(f)(y) * W))(x), backend=backend)
    step = 1e-5
    exact = (td.run(td.grad(f)(X + step * W)) - td.run(td.grad(f)(X - step * W))) / (2 * step)
    assert_gradient(f, X)
    for second in (along, again):
        np.testing.assert_allclose(second(X), exact, rtol=1e-6, atol=1e-6)
    with td.config(check=True):
        checked = td.jit(td.grad(f), backend=backend)(X)
    np.testing.assert_array_equal(checked, td.jit(td.grad(f), backend=backend)(X))


def rims(u):
    """The ends stay; between them neighbours are multiplied."""
    return td.concatenate([u[:1], u[1:-1] + 0.2 * u[2:] * u[:-2], u[-1:]])


#: Loops whose extents are equal in every iteration, which no analysis says.
EQUAL = {
    "ends": lambda x: td.loop(4, lambda k, u: rims(u), x),
    "padded": lambda x: td.loop(3, lambda k, u: td.pad(u[1:-1] * u[2:], 1), x),
    "halves": lambda x: td.loop(2, lambda k, u: td.concatenate([u[:4] ** 2, u[4:]]), x),
    "repeated": lambda x: td.loop(2, lambda k, u: td.repeat(u[:3] * u[3:6], 3), x),
    "counted by a predicate": lambda x: td.while_loop(
        lambda u: td.sum(u) < 20, lambda u: td.concatenate([td.sin(u[:1]), u[1:] * 1.5]), x
    ),
    "a side of a condition": lambda x: td.loop(
        3, lambda k, u: td.cond(k % 2 == 0, td.concatenate([u[:1], u[1:] ** 2]), td.sin(u)), x
    ),
    "two states": lambda x: td.loop(
        3,
        lambda k, s: (
            td.concatenate([s[0][1:] * s[1][1:], s[0][:1]]),
            td.concatenate([s[1][:2] ** 2, s[1][2:]]),
        ),
        (x, x * 0.5),
    )[0],
    "matrices": lambda x: td.loop(
        2, lambda k, s: td.hstack([s[:, :1], s[:, 1:] * s[:, :-1]]), td.reshape(x, (3, 3))
    ),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", EQUAL)
def test_extents_that_are_equal_in_every_iteration(name):
    x = np.linspace(0.5, 1.3, 9)
    f = td.grad(lambda x: td.sum(td.sin(EQUAL[name](x))))
    with td.config(backend="reference"):
        td.check_grad(lambda x: td.sum(td.sin(EQUAL[name](x))), x)
        td.check_grad(lambda x: td.sum(td.sin(f(x))), x)
        found = td.run(f(x))
        for memory in (1, 200):
            few = td.grad(lambda x: td.sum(td.sin(EQUAL[name](x))), memory=memory)
            np.testing.assert_array_equal(td.run(few(x)), found)
    np.testing.assert_allclose(td.jit(f, backend="native")(x), found, rtol=1e-9)


@pytest.mark.parametrize("memory", [None, 1])
def test_what_is_computed_in_every_iteration_with_the_extents_of_a_state(memory):
    """With those of the first state it is the same in every iteration, and leaves the loop."""
    start, m = np.linspace(0.5, 1.3, 4).reshape(2, 2), np.array([[0.3, 1.0], [-0.4, 0.2]])

    def f(x):
        def step(k, s):
            return td.cond(k == 0, s @ m, td.vjp(lambda z: td.cumsum(z * z, 1), s)[1](x))

        return td.sum(td.sin(td.loop(2, step, td.use(start))))

    x = np.array([[0.7, -0.2], [0.1, 0.4]])
    found = td.run(td.grad(f, memory=memory)(x))
    assert np.all(found != 0)
    _, slope = td.jvp(f, (x,), (np.ones((2, 2)),))
    np.testing.assert_allclose(float(slope), found.sum())
    with td.config(backend="reference"):
        td.check_grad(f, x)


LOOPS = (
    "while",
    "scan",
    "two states",
    "nested",
    "inner loops of changing length",
    "inner while loops",
    "branch in a loop",
    "nested in a branch",
    "branch on nested loops",
    "fixed point",
)


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", LOOPS)
def test_second_derivatives(name, memory=None):
    """Reverse over reverse and forward over reverse; states whose number is itself computed."""
    gradient = td.grad(PROGRAMS[name], memory=memory)
    td.check_grad(lambda x: td.sum(W * gradient(x)), X)


@pytest.mark.parametrize(
    "name",
    [n if n in ("stencils", "while") else pytest.param(n, marks=pytest.mark.long) for n in LOOPS],
)
def test_second_derivatives_with_few_states_in_memory(name):
    test_second_derivatives(name, 400)


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", LOOPS)
def test_reverse_over_forward(name):
    def along(x):
        return td.jvp(PROGRAMS[name], (x,), (W,))[1]

    expected = td.run(td.jvp(lambda x: td.sum(W * td.grad(PROGRAMS[name])(x)), (X,), (X,))[1])
    found = td.run(td.sum(td.grad(along)(X) * X))
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.long
def test_a_value_that_a_side_and_two_loops_in_a_loop_need():
    """A side of a branch computed it as well, and released what the loop after it reads."""
    loss = PROGRAMS["while of loops"]
    gradient = td.grad(loss, memory=400)
    found = td.run(td.grad(lambda x: td.sum(W * gradient(x)))(X))
    expected = td.run(td.grad(lambda x: td.sum(W * td.grad(loss)(x)))(X))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.sample(1)
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


def whole(n):
    """A loop with its counter, two states and something that it does not change."""

    def loss(x, y):
        def body(k, s):
            u, v = s
            return step(u) + 0.01 * td.sin(v) * y * td.cast(k, td.float64), v * 0.9 + 0.1 * u * y

        u, v = td.loop(n, body, (x, x * y))
        return td.sum(W * u * v)

    return loss


BYTES = 2 * X.nbytes  # of both states


@pytest.mark.sample(1)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("n", [0, 1, 2, 7, 64])
def test_gradients_with_few_states_in_memory(n, backend):
    """They are those with all states; equal in every bit for every number of states."""
    expected = td.run(td.value_and_grad(whole(n), (0, 1))(X, W), backend=backend)
    found = []
    for slots in sorted({1, 2, 3, max(n, 1)}):
        f = td.value_and_grad(whole(n), (0, 1), memory=BYTES * slots)
        found.append(td.run(f(X, W), backend=backend))
    for value, gradients in found:
        np.testing.assert_allclose(value, expected[0], rtol=1e-14)
        for g, e, first in zip(gradients, expected[1], found[0][1], strict=True):
            np.testing.assert_allclose(g, e, rtol=1e-12)
            np.testing.assert_array_equal(g, first)


def recurrent(w, x):
    def layer(h, row):
        h = td.tanh(h @ w + row)
        return h / (1 + td.sqrt(td.sum(h * h, axis=1)))[:, None], td.sum(h)

    last, sums = td.scan(layer, x[0], x)
    return td.sum(last * last) + td.sum(sums * sums)


def transformed(w, x):
    def body(u):
        f = td.fft.fft(u * w[0])
        return td.abs(f * f) / td.max(td.abs(u))

    def one(s):
        return s[0] + 1, body(s[1])

    return td.sum(td.while_loop(lambda s: s[0] < 4, one, (0, x[0, 0]))[1])


def powers(w, x):
    def step(v):
        moved = w @ v
        return moved / td.sqrt(td.sum(moved * moved))

    return td.sum(td.iterate(6, step, x[0, 0]) * x[0, 1])


@pytest.mark.sample(2)
@pytest.mark.parametrize("backend", [*BACKENDS, "emulated"])
@pytest.mark.parametrize("f", [recurrent, transformed, powers])
def test_products_and_transforms_in_a_loop_are_stored(f, backend):
    """They are not computed again, unless memory is limited: the gradients are the same."""
    w, x = rng.random((6, 6)) * 0.3, rng.random((5, 3, 6)) + 0.5
    emulated = backend == "emulated"

    def gradients(**options):
        g = td.grad(f, (0, 1), **options)
        with cuda(emulated):
            return td.jit(g, backend="cuda" if emulated else backend)(w, x)

    td.check_grad(lambda w: f(w, x), w)
    for all_states, few in zip(gradients(), gradients(memory=2 * 18 * 8), strict=True):
        np.testing.assert_array_equal(all_states, few)


def test_what_is_computed_again_in_reverse():
    """No product but the three of a derivative, unless it is one over a short axis."""
    w, x = rng.random((6, 6)), rng.random((5, 3, 6))
    text = str(td.jit(td.grad(recurrent, (0, 1)), backend="reference").lower(w, x))
    assert text.count("= matmul") == 1 and text.count("= adjoint of matmul") == 2
    assert text.count("stored 0.0") == 2  # the state and the product

    text = str(td.jit(td.grad(powers, (0, 1)), backend="reference").lower(w, x))
    assert (
        text.count("stored 0.0") == 2
    )  # the state and the product with it, not the sum of squares

    def short(x):
        return td.sum(td.iterate(5, lambda v: td.sin(v @ td.eye(3)), td.zeros((4, 3)) + x))

    text = str(td.jit(td.grad(short), backend="reference").lower(np.ones((4, 3))))
    assert text.count("= matmul") == 2 and text.count("stored 0.0") == 1


@pytest.mark.parametrize("slots", [2, 5, 12])
def test_repeated_calls_with_few_states_in_memory(slots):
    """Segments are recorded, also those whose number of iterations is another one."""
    n = 50
    all_states = td.jit(td.value_and_grad(whole(n), (0, 1)), backend="native")
    f = td.jit(td.value_and_grad(whole(n), (0, 1), memory=BYTES * slots), backend="native")
    for scale in (1.0, 1.0, 0.9, 1.1):
        for found, expected in zip(f(X * scale, W)[1], all_states(X * scale, W)[1], strict=True):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.sample(3)
@pytest.mark.parametrize("memory", [None, 3 * X.nbytes])
@pytest.mark.parametrize("name", PROGRAMS)
def test_memory_is_not_read_before_it_is_written_or_after_it_is_released(name, memory, monkeypatch):
    """Whatever is handed out, released memory too, is full of NaN."""

    def compiled():
        return td.jit(td.value_and_grad(PROGRAMS[name], memory=memory), backend="native")

    value, gradient = compiled()(X)
    allocate, count = Pool.allocate, 0

    def poisoned(pool, shape, dtype):
        nonlocal count
        made = allocate(pool, shape, dtype)
        made.reshape(-1).view(np.uint8).fill(0xFF)
        count += 1
        return made

    monkeypatch.setattr(Pool, "allocate", poisoned)
    again = compiled()
    for _ in range(3):
        found = again(X)
        np.testing.assert_array_equal(found[0], value)
        np.testing.assert_array_equal(found[1], gradient)
    assert count


COEFFICIENTS = {
    "a number": (lambda p: lambda u: td.sin(u) * p + u, 0.3),
    "another type": (lambda p: lambda u: td.sin(u) * td.cast(p, "f8") + u, np.float32(0.3)),
    "elements": (lambda p: lambda u: td.sin(u) * p[0] + u * p[2], np.array([0.3, 9, 0.5])),
    "by data": (lambda p: lambda u: u * p[td.cast(u[0, 0], "i8") % 3], np.array([0.3, 2, 0.5])),
    "more numbers than states": (
        lambda p: lambda u: td.sin(u * p[0]) * p[1] + p[2],
        np.array([0.3, 0.9, 0.1]),
    ),
    "in a loop inside": (lambda p: lambda u: td.iterate(2, lambda v: td.sin(v) * p + u, u), 0.3),
    "beside a matrix": (lambda p: lambda u: td.sin(u @ W.T * 0.1) @ W * p, 0.3),
}  # fmt: skip


@pytest.mark.sample(1)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", COEFFICIENTS)
def test_coefficients_of_a_loop(name, backend):
    """They collect contributions in arrays, which are summed after the loop, whatever is stored."""
    body, p = COEFFICIENTS[name]

    def loss(p, x):
        return td.sum(W * td.iterate(5, body(p), x))

    assert_gradient(loss, p, X, backends=(backend,))
    found = [td.run(td.grad(loss, (0, 1), memory=m)(p, X), backend=backend)
             for m in (2 * X.nbytes, 4 * X.nbytes)]  # fmt: skip
    for few, more in zip(*found, strict=True):
        np.testing.assert_array_equal(few, more)


@pytest.mark.parametrize(("body", "kernels", "sums"), [
    (lambda p: lambda u: td.sin(td.roll(u, 1, 0)) * p[0] + u, 2, 1),
    (lambda p: lambda u: td.sin(u) * p[0] + u * p[1] + p[2], 0, 3),
], ids=["one for a state", "any of a walk"])  # fmt: skip
def test_sums_for_a_coefficient_are_no_kernels_of_the_loop(body, kernels, sums):
    gradient = td.jit(td.grad(lambda p, x: td.sum(td.iterate(5, body(p), x))))
    text = gradient.lower(np.ones(3), X).explain()
    inside = [line for line in text.splitlines() if re.match(r" +Kernel", line)]
    assert len(inside) == kernels and text.count("by add") == sums, text


CHECKPOINTED = {
    "while": (PROGRAMS["while"], 1),
    "nested": (PROGRAMS["nested"], 3 * X.nbytes),
    "second derivative": (
        lambda x: td.sum(W * td.grad(PROGRAMS["stencils"], memory=BYTES)(x)),
        3 * X.nbytes,
    ),
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", CHECKPOINTED)
@pytest.mark.parametrize("backend", BACKENDS)
def test_checkpoints_of_while_and_nested_loops_and_second_derivatives(name, backend):
    f, memory = CHECKPOINTED[name]
    expected = td.run(td.grad(f)(X), backend=backend)
    found = td.run(td.grad(f, memory=memory)(X), backend=backend)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.long
@pytest.mark.parametrize("backend", BACKENDS)
def test_checkpoints_of_inner_loops_whose_length_changes(backend):
    f = PROGRAMS["inner loops of changing length"]
    expected = td.run(td.grad(f)(X), backend=backend)
    for memory in (1, 3 * X.nbytes):
        found = td.run(td.grad(f, memory=memory)(X), backend=backend)
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_stored_states_are_updated_in_place_in_loops_of_loops(monkeypatch):
    """A call copies no array of several states but the results: the inner loop has the array of the
    outer one, and each segment memory of its own."""
    from treadle.backend.native.running import HostRun

    copied = []
    copy = HostRun.copy
    monkeypatch.setattr(HostRun, "copy", lambda self, target, slot: (
        copied.append(target.shape), copy(self, target, slot)))  # fmt: skip
    f = td.jit(td.value_and_grad(whole(30), memory=BYTES * 8), backend="native")
    f(X, W)
    copied.clear()
    f(X, W)
    several = [shape for shape in copied if len(shape) > X.ndim]
    assert (
        several == [(4, *X.shape)] * 2
    )  # the zeros that the checkpoints of both states begin with


def test_memory_is_an_amount():
    for wrong in ("two", -1, "2 XB", True):
        with pytest.raises(td.TracingError, match="amount of memory"):
            td.grad(PROGRAMS["stencils"], memory=wrong)(X)
    few = td.grad(PROGRAMS["stencils"], memory="0.5 kB")(X)
    np.testing.assert_allclose(td.run(few), td.run(td.grad(PROGRAMS["stencils"])(X)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_too_little_memory_for_the_states_names_the_loop(backend):
    f = td.grad(lambda x: td.sum(td.iterate(1 << 44, lambda u: td.sin(u) * x, x)))
    with pytest.raises(td.DeviceOutOfMemory, match=r'of this loop .*; less with memory="1 GB"'):
        td.run(f(X), backend=backend)


def test_explain_says_what_is_stored_and_computed_again():
    f = td.value_and_grad(lambda x: td.sum(td.iterate(100, lambda u: td.sin(u) * x, x)),
                          memory=9 * X.nbytes)  # fmt: skip
    text = " ".join(str(td.jit(f).lower(X).explain()).split())
    again = recomputed(100, *segment(100, 9))
    assert f"stored 9 of 100 states; {again} iterations are computed again" in text


def least(n, slots, known={}):  # noqa: B006
    """The fewest iterations, the first ones included, with which n can be reversed."""
    if n == 1:
        return 0
    if slots == 1:
        return n * (n - 1) // 2
    key = n, slots
    if key not in known:
        known[key] = min(k + least(n - k, slots - 1) + least(k, slots) for k in range(1, n))
    return known[key]


def test_as_few_segments_as_possible_are_computed_again():
    for n in range(1, 41):
        for slots in range(1, min(n, 7) + 1):
            table, forward = actions(n, slots)
            states, adjoints, again = {0: 0}, n, 0
            for k, (slot, place, steps, target) in enumerate(table.T):
                assert states[slot] == place
                again += steps if k != forward - 1 else 0
                if target >= 0:
                    assert 0 < target < slots
                    states[target] = place + steps
                elif k != forward - 1:
                    adjoints -= 1
                    assert place + steps == adjoints
                else:
                    assert place + steps == n
            assert adjoints == 0 and again == least(n, slots), (n, slots)


def test_the_states_of_segments_and_their_first_ones_fit_into_memory():
    for n in range(60):
        for states in range(1, n + 3):
            length, slots = segment(n, states)
            again = recomputed(n, length, slots)
            if states >= n:
                assert length == max(n, 1) and again == n
            else:
                assert length + slots <= max(states, 2)
                half = max(states // 2, 1)
                assert n <= again <= recomputed(n, half, states - half or 1)
                if states * states >= 4 * n:
                    assert again == n and length <= max(SHORT, -(-2 * n // states))


@pytest.mark.parametrize("memory", [None, "1 kB"])
def test_states_whose_extents_change(memory):
    """Where the derivative needs no state, extents may change; else they are refused."""
    x = np.arange(1.0, 7.0)
    shifted = td.grad(lambda x: td.sum(td.loop(3, lambda k, s: s[1:] * 2.0, x)), memory=memory)
    assert np.array_equal(td.run(shifted(x)), [0, 0, 0, 8, 8, 8])
    products = td.grad(lambda x: td.sum(td.loop(3, lambda k, s: s[1:] * s[:-1], x)), memory=memory)
    for run in (lambda: td.run(products(x)), lambda: td.jit(products)(x)):
        with pytest.raises(td.GradientError, match="extents change") as caught:
            run()
        assert "td.loop(3, lambda k, s: s[1:]" in str(caught.value)


def test_the_table_of_checkpoints_in_the_documentation():
    page = Path(__file__).resolve().parents[3] / "docs" / "derivatives.md"
    text = page.read_text(encoding="utf-8").partition("1 000 iterations, states stored")[2]
    rows = re.findall(r"^\| ([\d ]+) \| ([\d ]+) \|$", text, re.MULTILINE)
    numbers = [tuple(int(cell.replace(" ", "")) for cell in row) for row in rows]
    assert len(numbers) == 4
    found = [(states, recomputed(1000, *segment(1000, states))) for states, _ in numbers]
    assert numbers == found


@pytest.mark.parametrize("branches", [False, True])
def test_adjoints_read_what_is_costly_in_an_iteration(branches):
    """The reversed loop has one exponential and one tangent, as the loop has."""

    def step(u):
        return u / (1 + td.exp(-u)) + td.tanh(u)

    def loss(u):
        taken = (lambda u: td.cond(td.sum(u) > 0, step(u), u)) if branches else step
        return td.sum(td.iterate(5, taken, u))

    program = td.jit(td.grad(loss)).lower(W)
    reverse = [n for n in topological(program.source_roots) if isinstance(n, ArrayLoop)][-1]
    costly = [
        e.op.name
        for n in reverse.varying(list(topological(reverse.inner_roots())))
        for e in walk(n.expressions())
        if isinstance(e, Apply) and e.op.cost >= 20
    ]
    assert sorted(costly) == ["exp", "tanh"]
    assert_gradient(loss, W)


@pytest.mark.parametrize("count", [0, 3])
def test_tangents_of_few_states_of_a_loop_of_updates(count):
    """The extents of the stored states are computed by a loop that is one kernel, like the loop
    that stores them."""
    x, d, places = np.linspace(0.1, 0.9, 8), np.cos(np.arange(8.0)), np.array([1, 2, 2, 4, 5, 0])

    def loss(y):
        def step(s):
            return td.zeros(8).at[td.use(places)].add(0.5 * td.sin(s[0][:6])), s[1] + 1

        return td.sum(td.while_loop(lambda s: s[1] < count, step, (y, 0))[0])

    found, expected = (
        td.jit(lambda x, d, m=m: td.jvp(td.grad(loss, memory=m), (x,), (d,))[1])(x, d)
        for m in (200, None)
    )
    np.testing.assert_array_equal(found, expected)
