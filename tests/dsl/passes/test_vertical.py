"""Which views are stored: reads that a CPU cannot divide into the interior and the border."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from treadle.dsl.expr import Apply, walk
from treadle.dsl.graph import Matmul, topological
from treadle.dsl.graphs.printer import show_graph

MODES = ("reflect", "symmetric", "wrap", "edge")


def moved_by_a_counter(mode):
    """Sums of neighbours at the offset of an iteration."""

    def f(x):
        q = td.pad(x, 3, mode=mode)

        def step(k, s):
            return s * 0.5 + td.generate(x.shape, lambda i, j: q[i + k, j + 2 * k // 3])

        return td.loop(0, 7, step, x)

    return f


def moved_by_slices(mode):
    def f(x):
        n, m = x.shape
        q = td.pad(x, 3, mode=mode)
        return td.loop(0, 7, lambda k, s: s * 0.5 + q[k : k + n, 2 * k // 3 : 2 * k // 3 + m], x)

    return f


def with_numpy(x, mode):
    (n, m), q, s = x.shape, np.pad(x, 3, mode=mode), x
    for k in range(7):
        s = s * 0.5 + q[k : k + n, 2 * k // 3 : 2 * k // 3 + m]
    return s


def stored(f, x, backend):
    """The names of the arrays that are computed into memory, before loops or in them."""
    program = td.jit(f, backend=backend).lower(x)
    return [str(node.label) for node in topological(program.roots)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("make", [moved_by_a_counter, moved_by_slices])
def test_a_border_read_at_the_offset_of_an_iteration_is_stored_once(make, mode):
    x = np.random.default_rng(1).random((23, 41))
    f = make(mode)
    assert "pad" in stored(f, x, "native")
    for backend in ("reference", "native"):
        assert np.allclose(td.jit(f, backend=backend)(x), with_numpy(x, mode), rtol=1e-14)
    reason = " ".join(str(td.jit(f, backend="native").lower(x).explain()).split())
    alone = "it does not change in the loop that reads it, and has indices to resolve"
    times = "times where every index would be resolved"  # the loop is one kernel
    assert (alone if make is moved_by_slices else times) in reason


@pytest.mark.parametrize("mode", MODES)
def test_a_border_read_by_the_loop_of_a_window_is_stored(mode):
    def f(x):
        q = td.pad(x, 2, mode=mode)
        return td.generate(
            x.shape, lambda i, j: td.loop(0, 5, lambda k, s: s + q[i + k, j + k], 0.0)
        )

    x = np.random.default_rng(1).random((23, 41))
    q = np.pad(x, 2, mode=mode)
    wanted = sum(q[k : k + 23, k : k + 41] for k in range(5))
    assert "pad" in stored(f, x, "native")
    for backend in ("reference", "native"):
        assert np.allclose(td.jit(f, backend=backend)(x), wanted, rtol=1e-14)


@pytest.mark.parametrize("mode", MODES)
def test_a_border_at_known_offsets_is_not_stored(mode):
    """It is the border of a stencil, also in a loop."""

    def f(x):
        n, m = x.shape
        q = td.pad(x, 1, mode=mode)
        return td.iterate(5, lambda s: s + q[:n, :m] + q[2:, 2:] - 2 * q[1:-1, 1:-1], x)

    x = np.random.default_rng(1).random((23, 41))
    assert "pad" not in stored(f, x, "native")
    wanted, q = x, np.pad(x, 1, mode=mode)
    for _ in range(5):
        wanted = wanted + q[:-2, :-2] + q[2:, 2:] - 2 * q[1:-1, 1:-1]
    assert np.allclose(td.jit(f, backend="native")(x), wanted, rtol=1e-12)


def test_a_view_with_affine_indices_is_not_stored():
    """A transposition or a slice costs nothing at any offset."""

    def f(x):
        y = x.T[2:, ::2]
        return td.loop(0, 3, lambda k, s: s + td.generate(s.shape, lambda i, j: y[i + k, j]), x[:4])

    x = np.random.default_rng(1).random((9, 5))
    assert stored(f, x, "native").count("slice") <= 1


def test_an_array_that_products_read_through_views_is_stored_once():
    def f(x, w):
        g = x * 2 + 1
        return td.matrix_transpose(g) @ w, td.reshape(g, (-1, 5)) @ w[:5], td.sum(g, axis=0)

    x, w = np.random.default_rng(2).random((6, 10)), np.random.default_rng(3).random((6, 3))
    program = td.jit(f, backend="native").lower(x, w)
    computed = [n for n in topological(program.roots)
                if any(isinstance(e, Apply) and e.type.is_float for e in walk(n.per_element()))
                and not isinstance(n, Matmul)]  # fmt: skip
    assert len(computed) == 1  # (the sum reads it, too)
    g = x * 2 + 1
    for found, wanted in zip(program(x, w), (g.T @ w, g.reshape(-1, 5) @ w[:5], g.sum(0)),
                             strict=True):  # fmt: skip
        np.testing.assert_allclose(found, wanted, rtol=1e-13)


@pytest.mark.parametrize("backend", ["native", "reference"])
def test_a_product_reads_ones_that_are_a_result(backend):
    """Others compute these numbers instead of reading them."""

    def f(a):
        ones = td.ones((5, 3))
        return ones, ones @ a, ones[:, :2] + a[0, 0]

    a = np.random.default_rng(0).random((3, 7))
    found = td.jit(f, backend=backend)(a)
    ones = np.ones((5, 3))
    for got, want in zip(found, (ones, ones @ a, ones[:, :2] + a[0, 0]), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-14)


def test_a_gradient_that_is_a_product_is_not_copied():
    """What is known of an index where an array is read decides a condition of it."""

    def loss(x, means, factors):
        return td.sum(td.square(td.matmul((x[:, None] - means[None])[:, 0], factors)))

    rng = np.random.default_rng(0)
    args = rng.random((9, 4)), rng.random((1, 4)), rng.random((4, 5))
    gradient = td.jit(td.grad(loss), backend="native")
    program = gradient.lower(*args)
    assert isinstance(program.roots[0].node, Matmul)
    assert "cond" not in show_graph(program.roots)
    wanted = 2 * (args[0] - args[1]) @ args[2] @ args[2].T
    np.testing.assert_allclose(gradient(*args), wanted, rtol=1e-12)


def test_a_copy_that_has_a_name_is_made():
    """A schedule can be given to it by this name."""

    def twice(x, **given):
        return td.transpose(td.transpose(td.matmul(x, x)), **given)

    x = np.random.default_rng(0).random((5, 5))
    named = td.jit(lambda x: twice(x, name="copy"), backend="native").lower(x)
    assert [k.label.name for k in named.kernels] == [None, "copy"]
    assert len(td.jit(twice, backend="native").lower(x).kernels) == 1


def test_equal_results_are_arrays_of_their_own():
    def loss(x, y):
        return td.sum(td.sin(x[None] + y[None]))

    x = np.arange(6.0).reshape(2, 3)
    first, second = td.jit(td.grad(loss, (0, 1)), backend="native")(x, x)
    assert not np.shares_memory(first, second)
    np.testing.assert_allclose(first, np.cos(2 * x))
    np.testing.assert_array_equal(first, second)
