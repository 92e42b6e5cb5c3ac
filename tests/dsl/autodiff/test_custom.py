"""Forward derivatives, own rules, fixed points and the check of derivatives."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from treadle.dsl.node import NODES

from .helpers import BACKENDS, assert_gradient

A = np.array([4.0, 9.0, 0.5])


@td.rule
def straight(x):
    """Rounded, as if it were not."""
    return td.rint(x)


@straight.vjp
def _(ybar, y, x):
    return ybar


@td.rule
def scaled(x, p):
    return x * p[0], td.sum(x) * p[1]


@scaled.jvp
def _(args, tangents):
    (x, p), (dx, dp) = args, tangents
    return dx * p[0] + x * dp[0], td.sum(dx) * p[1] + td.sum(x) * dp[1]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_reverse_rule_is_used_in_both_directions(backend):
    x = np.array([0.4, 1.7])
    value, g = td.run(td.value_and_grad(lambda x: td.sum(straight(x) ** 2))(x), backend=backend)
    np.testing.assert_array_equal(value, 4)
    np.testing.assert_array_equal(g, [0, 4])
    y, dy = td.run(td.jvp(straight, (x,), (np.array([1.0, 3.0]),)), backend=backend)
    np.testing.assert_array_equal(y, [0, 2])
    np.testing.assert_array_equal(dy, [1, 3])
    inside = td.grad(lambda x: td.sum(td.iterate(3, lambda u: straight(u) * x, x)))
    u = [x, np.rint(x) * x]
    u.append(np.rint(u[1]) * x)
    by_hand = np.rint(u[2]) + x * (np.rint(u[1]) + x * (np.rint(x) + x))
    np.testing.assert_allclose(td.run(inside(x), backend=backend), by_hand)


def test_a_forward_rule_is_transposed():
    def loss(x, p):
        y, total = scaled(x, (p[0], p[1]))
        return td.sum(td.sin(y)) * total

    assert_gradient(loss, A, np.array([0.3, 0.7]))
    td.check_grad(lambda x: td.sum(td.grad(loss)(x, td.use(np.array([0.3, 0.7])))), A)


def test_a_rule_costs_nothing():
    ruled = td.jit(lambda x: td.sum(straight(x) + 1)).lower(A)
    assert len(ruled.kernels) == 1


def test_mistakes_in_rules_are_refused():
    def closing(b):
        f = td.rule(lambda x: x * b)
        f.vjp(lambda g, y, x: g * b)
        return td.sum(f(b))

    with pytest.raises(td.GradientError, match="not given as an argument"):
        td.grad(closing)(A)
    f = td.rule(td.sin)
    with pytest.raises(td.TracingError, match="has no derivative"):
        f(A)
    f.vjp(lambda g, y, x: (g, g))
    with pytest.raises(td.TracingError, match=r"2 cotangent\(s\)"):
        td.grad(lambda x: td.sum(f(x)))(A)
    f.vjp(lambda g, y, x: td.sum(g))
    with pytest.raises(td.ShapeError, match="rank 0"):
        td.grad(lambda x: td.sum(f(x)))(A)
    f.vjp(lambda g, y, x: g[1:])
    with pytest.raises(td.ShapeError, match="a cotangent has extent 2 in axis 0, its value 3"):
        td.run(td.grad(lambda x: td.sum(f(x)))(A))
    both = td.rule(td.sin)
    both.jvp(lambda args, tangents: (td.sin(args[0]), tangents[0] * td.cos(args[0])))
    with pytest.raises(td.TracingError, match="Return the tangent alone"):
        td.jvp(both, (A,), (A,))
    for name, instead in (("defvjp", "@f.vjp"), ("defjvp", "@f.jvp"), ("other", "no attribute")):
        with pytest.raises(AttributeError, match=instead):
            getattr(f, name)
    with pytest.raises(td.DTypeError, match=r"function of the\s+others"):
        td.vjp(lambda x, n: x**n, A, 2)
    both.jvp(lambda x, dx, y: dx)
    with pytest.raises(td.TracingError, match=r"given to @sin.jvp does not[^§]+def _\(args, tang"):
        td.grad(lambda x: td.sum(both(x)))(A)
    both.vjp(lambda g: g)
    with pytest.raises(td.TracingError, match=r"@sin.vjp does not[^§]+def _\(ybar, y, x\)"):
        both(A)
    f.vjp(lambda g, y, x: g * g)
    with pytest.raises(td.GradientError, match="not linear"):
        td.jvp(f, (A,), (A,))
    with pytest.raises(td.TracingError, match="inside a scalar function"):
        td.map(lambda v: f(v), A)


def root(a):
    return td.fixed_point(lambda x: (x + a / x) / 2, a, 1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_fixed_points(backend):
    value, g = td.run(td.value_and_grad(lambda a: td.sum(root(a)))(A), backend=backend)
    np.testing.assert_allclose(value, np.sqrt(A).sum())
    np.testing.assert_allclose(g, 0.5 / np.sqrt(A))
    second = td.grad(lambda a: td.sum(td.grad(lambda b: td.sum(root(b)))(a)))
    np.testing.assert_allclose(td.run(second(A), backend=backend), -0.25 * A**-1.5)


def halved(a, tol=1e-12):
    return td.fixed_point(lambda x: 0.5 * x + a, td.zeros(a.shape), tol)  # 2 a


def test_second_derivatives_of_fixed_points_where_the_first_equations_have_solution_zero():
    f = td.grad(lambda a: td.sum(halved(a) ** 2))
    zero, one = np.zeros(1), np.ones(1)
    np.testing.assert_allclose(td.run(td.jvp(f, (zero,), (one,))[1]), 8, rtol=1e-10)
    np.testing.assert_allclose(td.run(td.grad(lambda a: td.sum(f(a)))(zero)), 8, rtol=1e-10)
    g = lambda a: td.jvp(lambda b: td.sum(halved(b) ** 3), (a,), (one,))[1]
    np.testing.assert_allclose(td.run(td.jvp(td.grad(g), (zero,), (one,))[1]), 48, rtol=1e-10)


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_gradients_of_fixed_points_are_as_accurate_for_small_and_large_cotangents(scale):
    a = np.array([0.5, -2.0])
    found = td.run(td.grad(lambda a: td.sum(halved(a, 1e-9)) * scale)(a))
    np.testing.assert_allclose(found, 2 * scale, rtol=1e-7)
    _, dy = td.run(td.jvp(lambda a: halved(a, 1e-9), (a,), (np.full(2, scale),)))
    np.testing.assert_allclose(dy, 2 * scale, rtol=1e-7)
    large = td.run(td.grad(lambda a: td.sum(halved(a, scale * 1e-9)))(a * scale))
    np.testing.assert_allclose(large, 2, rtol=1e-7)


@pytest.mark.parametrize("backend", BACKENDS)
def test_fixed_points_that_are_not_found_are_nan(backend):
    x = np.array([0.25, 0.5])
    if backend == "native":  # by default it ends
        turns = td.run(td.fixed_point(lambda x: 1 - x, x, 1e-9), backend=backend)
        assert np.isnan(turns).all()
    with td.config(backend=backend):
        for count, found in ((1, False), (22, False), (23, True), (24, True)):
            slow = np.asarray(td.fixed_point(lambda x: x / 2, x, 1e-7, maxiter=count))
            np.testing.assert_array_equal(slow, x / 2**23 if found else [np.nan, np.nan])
        value, slope = td.value_and_grad(
            lambda a: td.sum(td.fixed_point(lambda x: a - x, a / 3, 1e-9, maxiter=50))
        )(x)
        assert np.isnan(float(value)) and np.isnan(np.asarray(slope)).all()
        late = td.grad(  # the value is found at once, the derivative too late
            lambda a: td.sum(td.fixed_point(lambda x: 0.9 * x + 0.1 * a, a, 1e-9, maxiter=50))
        )(x)
        assert np.isnan(np.asarray(late)).all()


def test_second_derivatives_of_fixed_points_in_loops():
    a, d = np.array([0.3, 0.5, -0.7]), np.array([1.0, 0.5, 2.0])

    def loss(solve):
        def step(state):
            x, y = state
            z = solve(lambda u: 0.2 * td.sin(u) * y + 0.3 * a_ + 0.5 * y)
            return z, td.sin(z) + 0.1 * x

        def f(a):
            nonlocal a_
            a_ = a
            return td.sum(td.iterate(3, step, (a, a))[0] * np.array([1.0, 2.0, 3.0]))

        a_ = None
        return td.grad(f)

    implicit = loss(lambda f: td.fixed_point(f, td.zeros(3), 1e-15))
    written_out = loss(lambda f: td.iterate(40, f, td.zeros(3)))
    for of in (
        lambda g: td.jvp(g, (a,), (d,))[1],
        lambda g: td.grad(lambda a: td.sum(g(a) * d))(a),
    ):
        found, expected = (td.run(of(g), backend="reference") for g in (implicit, written_out))
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_second_derivatives_of_fixed_points_whose_extents_a_loop_computes():
    a, d = np.linspace(0.1, 0.9, 8), np.cos(np.arange(8.0))
    places = np.array([1, 2, 2, 4, 5, 0, 7, 3])

    def gathered(solve, y):  # has the extent of one side or of the other
        return td.cond(td.sum(y) > 0.01, solve(y)[td.use(places)], y * 0.9)

    def loss(solve):
        return td.grad(lambda a: td.sum(td.loop(2, lambda k, y: gathered(solve, y), a) ** 2))

    implicit = loss(lambda y: td.fixed_point(lambda z: 0.3 * td.cos(z + y), y * 0.0, 1e-15))
    written_out = loss(lambda y: td.iterate(40, lambda z: 0.3 * td.cos(z + y), y * 0.0))
    for of in (
        lambda g: td.jvp(g, (a,), (d,))[1],
        lambda g: td.grad(lambda a: td.sum(g(a) * d))(a),
    ):
        found, expected = (td.run(of(g), backend="reference") for g in (implicit, written_out))
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-14)


def test_a_tolerance_that_the_program_computes():
    def f(a):
        def step(k, x):
            return td.fixed_point(lambda u: 0.5 * u + x * a, x, 1e-12 / (k + 1))

        return td.sum(td.loop(3, step, td.ones(2)) ** 2)

    assert_gradient(f, np.array([0.4, 0.6]))


def test_fixed_points_of_pairs_and_matrices():
    w = np.random.default_rng(0).normal(size=(4, 4)) * 0.2

    def loss(w, b):
        x, y = td.fixed_point(
            lambda s: (td.tanh(w @ s[0] + b), s[0] * 0.3 + td.sin(s[1]) * 0.2),
            (td.zeros(4), td.ones(4)), 1e-13,
        )  # fmt: skip
        return td.sum(x * x) + td.sum(y**3)

    assert_gradient(loss, w, np.array([0.1, 0.5, -0.3, 0.9]))


def test_forward_derivatives_of_nested_values_and_loops():
    x = np.linspace(0.1, 0.9, 5)

    def f(p, k):
        u = td.while_loop(lambda u: td.sum(u) < 40, lambda u: u * 1.5 + p["a"] * k, p["b"])
        return {"u": u, "n": td.sum(u) * k}

    args, moved = ({"a": x, "b": x * x}, 0.7), ({"a": x + 1, "b": x}, 0.2)
    _, dy = td.run(td.jvp(f, args, moved))
    h = 1e-6

    def at(t):
        p = {n: args[0][n] + t * moved[0][n] for n in args[0]}
        return td.run(f({n: td.use(v) for n, v in p.items()}, 0.7 + 0.2 * t))

    for name in ("u", "n"):
        np.testing.assert_allclose(dy[name], (at(h)[name] - at(-h)[name]) / (2 * h), rtol=1e-7)


def test_forward_over_reverse_where_first_derivatives_vanish():
    x = np.array([0.0, 0.3])
    f = td.grad(lambda y: td.sum(td.square(td.exp(y)) - 2 * td.exp(y)))
    _, second = td.jvp(f, (x,), (np.ones(2),))
    np.testing.assert_allclose(td.run(second), 4 * np.exp(2 * x) - 2 * np.exp(x))


def test_check_grad_finds_a_wrong_rule():
    f = td.rule(td.sin)
    f.vjp(lambda g, y, x: g * td.cos(x))
    td.check_grad(lambda x: td.sum(f(x)), A)
    f.vjp(lambda g, y, x: g * td.sin(x))
    with pytest.raises(td.GradientError, match="central differences"):
        td.check_grad(lambda x: td.sum(f(x)), A)
    td.check_grad(lambda z: td.sum(td.abs(td.sin(z)) ** 2), A + 1j * A[::-1])
    with pytest.raises(td.DTypeError, match="float32"):
        td.check_grad(lambda x: td.sum(x), A.astype(np.float32))


def test_every_node_has_a_derivative():
    from treadle.dsl import graph
    from treadle.dsl.autodiff import forward, reverse

    #: Sources of values; and what only the passes make.
    without = {graph.Input, graph.Memory, graph.Recurrence, graph.Sequential, graph.Compact,
               graph.StoringFold, graph.CrossedFolds, graph.FoldingMatmul, graph.FoldedMatmul,
               graph.StoringMatmul}  # fmt: skip
    assert {*NODES.values()} - without == set(reverse.RULES) >= set(forward.RULES)


def test_an_argument_given_twice():
    """The transpose of a reverse rule has one tangent for an array that is given twice."""
    f = td.rule(lambda x, y: x * y)
    f.vjp(lambda g, y, a, b: (g * b, g * a))
    _, moved = td.jvp(lambda x: f(x, x), (A,), (np.ones_like(A),))
    np.testing.assert_allclose(td.run(moved), 2 * A)


def test_rules_of_arrays_whose_extents_come_from_data():
    @td.rule
    def product(x, y):
        return td.sin(x) * y

    @product.vjp
    def _(g, value, x, y):
        return g * td.cos(x) * y, g * td.sin(x)

    x, y = np.linspace(0.1, 1.2, 7), np.linspace(1.0, 2.0, 7)
    td.check_grad(lambda x, y: td.sum(product(x[x > 0.5], y[x > 0.5])), x, y)
    td.check_grad(lambda x: td.sum(product(*[td.filter(lambda v: v > 0.5, x)[0]] * 2)), x)


def test_bodies_of_functions_with_rules_need_no_derivative():
    @td.rule
    def twice(x):
        return td.map(lambda v: td.foreign(lambda t: 2 * t, v), x)

    @twice.vjp
    def _(g, y, x):
        return 2 * g

    with td.config(backend="reference"):
        td.check_grad(lambda x: td.sum(twice(td.sin(x)) ** 2), np.linspace(0.1, 1.2, 7))
