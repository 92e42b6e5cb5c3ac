"""Every primitive has a rule, a derivative of 0, or is refused; and the rules are right."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from treadle.dsl.autodiff.rules import COMPLEX_REFUSED, RULES, ZERO
from treadle.dsl.primitives import TABLE
from treadle.dsl.scalar import Scalar, apply_primitive, lift

#: Where to differentiate: arguments in the interior of the domains.
POINTS = {
    "arccosh": [(1.5,), (7.0,)],
    "log": [(0.3,), (5.0,)],
    "log1p": [(-0.4,), (2.0,)],
    "power": [(0.7, 2.5), (3.0, -1.5), (2.0, 3.0)],
    "sqrt": [(0.3,), (4.0,)],
    "log2": [(0.3,), (5.0,)],
    "log10": [(0.3,), (5.0,)],
    "fma": [(0.3, -2.0, 1.5)],
    "copysign": [(0.3, -2.0), (-1.0, -3.0)],
}
UNARY = [(0.3,), (-0.6,), (0.9,)]
BINARY = [(0.3, 0.8), (-1.7, 0.6), (2.5, -0.7)]
#: Their arguments are no real floats, or their value is not one.
OTHER = {"select", "also", "complex", "real", "imag", "conjugate", "cast", "nextafter",
         "gamma_draw"}  # fmt: skip
REAL = sorted(set(RULES) - OTHER)


def test_every_primitive_is_covered_once():
    covered = [*RULES, *ZERO]
    assert sorted(covered) == sorted(TABLE)
    assert len(covered) == len(set(covered))
    assert set(COMPLEX_REFUSED) <= ZERO
    for name, rules in RULES.items():
        assert len(rules) == TABLE[name].arity, name


def call(name, args):
    return Scalar(apply_primitive(name, [lift(a) for a in args]))


@pytest.mark.sample(16)
@pytest.mark.parametrize("name", REAL)
def test_rule_against_central_differences(name):
    arity = TABLE[name].arity
    for point in POINTS.get(name, UNARY if arity == 1 else BINARY):
        for k in range(arity):
            if RULES[name][k] is None:
                continue
            found = td.run(td.grad(lambda *xs: call(name, xs), argnums=k)(*point))
            h = 1e-6
            up, down = list(point), list(point)
            up[k] += h
            down[k] -= h
            value = TABLE[name].numpy
            numbers = [value(*(np.float64(x) for x in p)) for p in (up, down)]
            expected = (numbers[0] - numbers[1]) / (2 * h)
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8, err_msg=f"{point}{k}")


HOLOMORPHIC = sorted(
    n
    for n in REAL
    if TABLE[n].arity == 1
    and TABLE[n].rule(td.complex128) is not None
    and n not in ("absolute", "exp2")
)


@pytest.mark.parametrize("name", HOLOMORPHIC)
def test_complex_rules_are_steepest_ascent(name):
    z, w, h = 0.4 + 0.7j, 0.3 - 1.1j, 1e-6

    def loss(x):
        return td.real(call(name, (x,)) * w)

    found = td.run(td.grad(loss)(td.complex128(z)))

    def value(x):
        return (TABLE[name].numpy(np.complex128(x)) * w).real

    expected = (value(z + h) - value(z - h)) / (2 * h)
    expected += 1j * (value(z + h * 1j) - value(z - h * 1j)) / (2 * h)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_complex_sign_is_refused():
    with pytest.raises(td.GradientError, match="sign of complex"):
        td.grad(lambda z: td.real(td.sign(z)))(1 + 2j)


@pytest.mark.parametrize(
    ("f", "at", "expected"),
    [
        (lambda x: td.abs(x), 0.0, 0.0),
        (lambda x: td.maximum(x, 0.0), 0.0, 1.0),
        (lambda x: td.maximum(0.0, x), 0.0, 1.0),  # a constant is the right operand
        (lambda x: td.minimum(x, 0.0), 0.0, 1.0),
        (lambda x: td.fmax(x, 0.0), 0.0, 1.0),
        (lambda x: td.fmin(0.0, x), 0.0, 1.0),
        (lambda x: td.copysign(x, 1.0), 0.0, 1.0),
        (lambda x: td.copysign(x, -1.0), 0.0, -1.0),
        (lambda x: td.logaddexp(x, -np.inf), -np.inf, 1.0),
        (lambda x: td.where(x < 1, x, td.sqrt(x - 1)), 0.5, 1.0),
        (lambda x: td.angle(td.complex_(x, 0.0)), 0.0, 0.0),
        (lambda x: td.hypot(x, 0.0), 0.0, 0.0),
        (lambda x: td.sqrt(x), 0.0, np.inf),
        (lambda x: td.sign(x), 1.0, 0.0),
        (lambda x: x**0, 0.0, 0.0),
        (lambda x: td.power(x, td.float64(0.0)), 0.0, 0.0),
        (lambda x: x**2, 0.0, 0.0),
        (lambda x: td.arctan2(x, 0.0), 0.0, 0.0),
        (lambda p: td.power(td.float64(0.0), p), 2.0, 0.0),
        (lambda p: td.power(td.float64(0.0), p), -1.0, -np.inf),
        (lambda b: td.remainder(td.float64(0.9), b), 0.1, -8.0),  # 0.9 / 0.1 is rounded to 9
        (lambda b: td.fmod(td.float64(-0.9), b), 0.1, 8.0),
        (td.lgamma, 0.0, -np.inf),
        (td.lgamma, np.nan, np.nan),
        (td.digamma, -1.0, np.nan),
        (td.digamma, np.nan, np.nan),
    ],
)
def test_points_without_a_derivative(f, at, expected):
    np.testing.assert_array_equal(td.run(td.grad(f)(at)), expected)


@pytest.mark.parametrize(
    ("f", "at", "first", "second"),
    [
        (lambda x: td.logaddexp(0.0, x), 0.0, 0.5, 0.25),
        (lambda x: td.logaddexp(x, 1.0), 1.0, 0.5, 0.25),
        (lambda x: td.logaddexp2(x, 2.0), 2.0, 0.5, np.log(2) / 4),
        (td.sinc, 0.0, 0.0, -(np.pi**2) / 3),
        (td.sinc, 1e-9, -(np.pi**2) / 3 * 1e-9, -(np.pi**2) / 3),
        (td.sinc, 0.08, -0.26153074815846605, -3.227760327778129),
        (td.digamma, -0.5, 8.93480220054468, -0.8287966442343199),
        (lambda x: 1 / td.tan(x), np.pi / 2, -1.0, 2 / np.tan(np.pi / 2)),
        (td.i0, 0.0, 0.0, 0.5),
        (td.i0, 8.0, 399.8731367825599, 377.57997362398464),
    ],
)
def test_smooth_functions_computed_in_pieces_have_derivatives_where_these_meet(
    f, at, first, second
):
    slope = td.grad(f)
    np.testing.assert_allclose(td.run(slope(at)), first, rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(td.run(td.grad(lambda x: slope(x))(at)), second, rtol=1e-11)
    np.testing.assert_allclose(td.run(td.jvp(slope, (at,), (1.0,))[1]), second, rtol=1e-11)
