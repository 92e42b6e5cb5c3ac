"""Even functions of magnitudes have their derivatives at 0, where magnitudes have none."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td

WEIGHTS = np.array([[1.0, -2.0, 0.5], [0.3, 1.0, 1.7]])


def root(x):
    """The square root of a sum of squares, with the usual guards."""
    s = td.sum(x * x)
    return td.where(s > 0, td.sqrt(td.where(s > 0, s, 1.0)), 0.0)


def captured(x):
    size = td.abs(x)
    return td.sum(td.loop(2, lambda k, total: total + size * size / 2, 0 * x))


def chosen(x):
    size = td.abs(x)
    return td.sum(td.cond(td.sum(x) < 9, size * size, x))


def squares(x):
    return td.sum(x * x)


#: A function, and one that computes the same without magnitudes.
EVEN = {
    "abs(x) ** 2": (lambda x: td.sum(td.abs(x) ** 2), squares),
    "abs(x) * abs(x)": (lambda x: td.sum(td.abs(x) * td.abs(x)), squares),
    "square": (lambda x: td.sum(td.square(td.abs(x))), squares),
    "abs(x) ** 4": (lambda x: td.sum(td.abs(x) ** 4), lambda x: td.sum(x**4)),
    "other factors": (
        lambda x: td.sum(3 * td.abs(x) * td.exp(x) * -td.abs(x)),
        lambda x: -td.sum(3 * x * x * td.exp(x)),
    ),
    "quotients": (lambda x: td.sum((td.abs(x) / 3) ** 2), lambda x: squares(x) / 9),
    "a power of float64": (lambda x: td.sum(td.power(td.abs(x) / 3, td.float64(2.0))) * 9, squares),
    "an exponent of the data": (lambda x: td.sum(td.abs(x) ** td.use(2.0)), squares),
    "complex": (lambda x: td.sum(td.abs(x + 2j * x) ** 2), lambda x: 5 * squares(x)),
    "hypot": (lambda x: td.sum(td.hypot(x, 2 * x) ** 2), lambda x: 5 * squares(x)),
    "a norm": (lambda x: td.linalg.norm(x) ** 2, squares),
    "a norm of powers": (lambda x: td.linalg.norm(x, ord=4) ** 4, lambda x: td.sum(x**4)),
    "a root": (lambda x: td.sqrt(td.sum(x * x)) ** 2, squares),
    "a guarded root": (lambda x: root(x) ** 2, squares),
    "cos": (lambda x: td.sum(td.cos(td.abs(x))), lambda x: td.sum(td.cos(x))),
    "cosh": (lambda x: td.sum(td.cosh(td.abs(x))), lambda x: td.sum(td.cosh(x))),
    "in an element": (
        lambda x: td.sum(td.map(lambda v: abs(v) * abs(v) * td.exp(v), x)),
        lambda x: td.sum(x * x * td.exp(x)),
    ),
    "exp(-abs(x) ** 2)": (
        lambda x: td.sum(td.exp(-(td.abs(x) ** 2))),
        lambda x: td.sum(td.exp(-x * x)),
    ),
    "a product of vectors": (lambda x: td.vdot(td.abs(x), td.abs(x)), squares),
    "einsum": (lambda x: td.einsum("i,i->", td.abs(x), td.abs(x)), squares),
    "stacked": (lambda x: td.sum(td.stack([td.abs(x), x]) ** 2), lambda x: 2 * squares(x)),
    "padded": (lambda x: td.sum(td.pad(td.abs(x), 1) ** 2), squares),
    "captured by a loop": (captured, squares),
    "in a loop": (lambda x: td.sum(td.loop(2, lambda k, y: td.abs(y) ** 2, x)),
                  lambda x: td.sum(x**4)),
    "in a condition": (chosen, squares),
}  # fmt: skip


@pytest.mark.parametrize("name", EVEN)
def test_even_functions_of_magnitudes(name):
    f, plain = EVEN[name]
    ahead = np.array([0.7, -1.2, 0.4])

    def derivatives(f):
        slope = td.grad(f)
        along = lambda x: td.jvp(f, (x,), (ahead,))[1]
        return lambda x: (
            slope(x),
            td.jvp(slope, (x,), (ahead,))[1],
            td.grad(lambda y: td.sum(slope(y) * ahead))(x),
            td.grad(along)(x),
            td.jvp(along, (x,), (ahead,))[1],
        )

    for at in (np.array([0.0, 1.0, -2.0]), np.zeros(3)):
        for g, e in zip(td.run(derivatives(f)(at)), td.run(derivatives(plain)(at)), strict=True):
            np.testing.assert_allclose(g, e, rtol=1e-12, atol=1e-12)
        value, _ = td.run(td.value_and_grad(f)(at))
        np.testing.assert_array_equal(value, td.run(f(td.use(at))))  # bit for bit


def test_on_native():
    f = td.jit(td.grad(lambda x: td.sum(td.grad(lambda y: td.linalg.norm(y) ** 2)(x) * WEIGHTS[0])),
               backend="native")  # fmt: skip
    np.testing.assert_allclose(f(np.zeros(3)), 2 * WEIGHTS[0], rtol=1e-15)


def test_magnitudes_of_complex_arguments():
    z = np.array([0, 3 - 4j])
    slope = td.grad(lambda z: td.sum(td.abs(z) ** 2))
    np.testing.assert_allclose(td.run(slope(z)), 2 * z, rtol=1e-15)
    second = td.grad(lambda z: td.sum(td.real(td.conj(slope(z)) * (1 - 2j))))
    np.testing.assert_allclose(td.run(second(z)), [2 - 4j] * 2, rtol=1e-15)


def test_what_has_a_kink_keeps_it():
    cases = [
        (lambda x: x * td.abs(x), 0.0, 0.0, 0.0),
        (lambda x: td.where(x > 0, td.abs(x), 0.0) ** 2, 0.0, 0.0, 0.0),
        (lambda x: td.abs(x) ** 3, 0.0, 0.0, 0.0),
        (lambda x: td.sqrt(x) ** 2, 0.0, 1.0, 0.0),
        (lambda x: td.sqrt(x) ** 2, -1.0, np.nan, np.nan),
        (lambda x: td.sqrt(x) ** 2, np.nan, np.nan, np.nan),
        (lambda x: td.abs(x) ** td.use(3.0), 0.0, 0.0, 0.0),
    ]
    for f, at, first, second in cases:
        slope = td.grad(f)
        np.testing.assert_array_equal(td.run(slope(at)), first)
        np.testing.assert_array_equal(td.run(td.grad(lambda x, slope=slope: slope(x))(at)), second)


def test_the_exponent_has_its_derivative():
    """Where it is 2, and the base is differentiated as a square."""
    x = np.array([0.5, -2.0])
    by = td.grad(lambda p: td.sum(td.abs(x) ** p))
    both = td.grad(lambda x, p: td.sum(td.abs(x) ** p), argnums=(0, 1))
    of_x, of_p = td.run(both(x, 2.0))
    np.testing.assert_allclose(of_p, np.sum(x**2 * np.log(abs(x))), rtol=1e-14)
    np.testing.assert_allclose(of_p, td.run(by(2.0)), rtol=1e-14)
    np.testing.assert_allclose(of_x, 2 * x, rtol=1e-14)


def test_what_is_differentiated_by_is_not_read_through():
    x = np.array([0.5, -2.0, 0.0])

    def f(x):
        size = td.abs(x)
        return td.sum(td.grad(lambda s: td.sum(s * s * x))(size))

    np.testing.assert_allclose(td.run(td.grad(f)(x)), 4 * np.abs(x), rtol=1e-14)
