"""Products with diagonal matrices, added to matrix products: one product is differentiated."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from treadle.dsl.expr import Apply, walk
from treadle.dsl.graph import Matmul, topological

from .helpers import assert_gradient

rng = np.random.default_rng(5)
GROUPS, POINTS, SIZE = 4, 7, 3
X = rng.normal(size=(POINTS, SIZE))
MEANS, SCALES = rng.normal(size=(GROUPS, SIZE)), rng.normal(size=(GROUPS, SIZE))
LOWER = rng.normal(size=(GROUPS, SIZE, SIZE))
MASK = np.tril(np.ones((SIZE, SIZE)), -1)


def grouped(x, means, scales, lower):
    apart = x[:, None] - means
    moved = td.exp(scales) * apart + td.einsum("kij,nkj->nki", lower * MASK, apart)
    return td.sum(td.tanh(moved))


def single(x, scale, b):
    return td.sum(td.sin(td.tanh(x) @ (b * MASK) + td.tanh(x) * scale))


def by_a_number(x, b):
    return td.sum(td.sin((x + 1) @ td.exp(b) + (x + 1) * 0.5))


def joined(f, *args):
    """Whether an operand of a product of the function itself contains the diagonal."""
    found = td.value_and_grad(f, argnums=tuple(range(len(args))))(*map(td.use, args))
    nodes = topological([leaf for x in (found[0], *found[1]) for leaf in x._leaves])
    own = [n for n in nodes if isinstance(n, Matmul) and "adjoint" not in str(n.label)]
    return [any(isinstance(e, Apply) and e.op.name == "equal" for e in walk(n.right.node.bodies()))
            for n in own]  # fmt: skip


JOINED = {
    "groups": (grouped, (X, MEANS, SCALES, LOWER)),
    "one": (single, (X, SCALES[0], LOWER[0])),
    "by a number": (by_a_number, (X, LOWER[0])),
}


@pytest.mark.parametrize("name", JOINED)
def test_the_sum_is_one_product(name):
    f, args = JOINED[name]
    assert_gradient(f, *args)
    assert joined(f, *args) == [True]


def test_second_derivatives_and_single_precision():
    f, args = JOINED["one"]
    td.check_grad(lambda *a: sum(td.sum(td.square(g)) for g in td.grad(f, (0, 1, 2))(*a)), *args)
    exact = td.run(td.value_and_grad(f, (0, 1, 2))(*args))
    found = td.run(td.value_and_grad(f, (0, 1, 2))(*(a.astype(np.float32) for a in args)))
    np.testing.assert_allclose(found[0], exact[0], rtol=1e-5)
    for a, b in zip(found[1], exact[1], strict=True):
        assert a.dtype == np.float32
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", ["reference", "native"])
def test_value_auxiliary_results_and_cotangents_are_those_of_the_function(backend):
    def both(x, scale, b):
        moved = td.tanh(x) @ (b * MASK) + td.tanh(x) * scale
        return td.sum(td.sin(moved)), moved

    args = JOINED["one"][1]
    moved = np.tanh(X) @ (args[2] * MASK) + np.tanh(X) * args[1]
    differentiated = td.value_and_grad(both, (0, 1, 2), has_aux=True)
    (value, aux), gradients = td.jit(differentiated, backend=backend)(*args)
    np.testing.assert_allclose(value, np.sin(moved).sum(), rtol=1e-13)
    np.testing.assert_allclose(aux, moved, rtol=1e-13)

    def by_vjp(*args):
        y, back = td.vjp(lambda *a: both(*a)[1], *args)
        return y, back(td.cos(y))

    y, bars = td.jit(by_vjp, backend=backend)(*args)
    np.testing.assert_allclose(y, moved, rtol=1e-13)
    for a, b in zip(bars, gradients, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13)


def _by_rows(x, scale, b):
    return td.sum(td.sin(td.tanh(x) @ (b * MASK) + td.tanh(x) * scale[0, 0] * x[:, :1]))


def _an_argument(x, scale, b):
    return td.sum(td.sin(x @ b + x * scale))


def _another_factor(x, scale, b):
    return td.sum(td.sin(td.tanh(x) @ (b * MASK) + td.sin(x) * scale))


def _twice(x, scale, b):
    moved = td.tanh(x) @ (b * MASK)
    return td.sum(td.sin(moved + td.tanh(x) * scale) * moved)


def _tested(x, scale, b):
    y = td.where(td.isfinite(x), x, 0)
    return td.sum(td.sin(y @ (b * MASK) + y * scale))


@pytest.mark.parametrize("f", [_by_rows, _an_argument, _another_factor, _twice, _tested])
def test_other_sums_stay(f):
    args = X, SCALES[:1], LOWER[0]
    assert_gradient(f, *args)
    assert not any(joined(f, *args))


def test_a_product_with_a_constant_is_not_differentiated_by_its_diagonal():
    def f(x, scale):
        return td.sum(td.sin(td.tanh(x) @ td.exp(td.use(MASK)) + td.tanh(x) * scale))

    args = X, SCALES[0]
    assert_gradient(f, *args)
    assert joined(f, *args) == [False]
    assert joined(lambda x: f(x, SCALES[0]), X) == [True]


def test_extents_that_do_not_fit_are_still_refused():
    f = td.jit(td.grad(grouped, (0, 1, 2, 3)), backend="native")
    with pytest.raises(td.ShapeError):
        f(X, MEANS, SCALES[:2], LOWER)
    with pytest.raises(td.ShapeError):
        f(X, MEANS, SCALES[:, :2], LOWER)
