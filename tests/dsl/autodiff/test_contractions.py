"""Sums over axes of products among cotangents: the products themselves are not computed."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from treadle.dsl.graph import Matmul, topological

from ...backend.cuda.emulated import emulation
from .helpers import assert_gradient

rng = np.random.default_rng(3)
#: Extents that tell the axes apart.
GROUPS, POINTS, FROM, TO = 4, 7, 3, 5
Y = rng.normal(size=(GROUPS, POINTS, FROM))
L = rng.normal(size=(GROUPS, FROM, TO))
W = rng.normal(size=(GROUPS, POINTS, TO))


def weighted(x):
    return td.sum(td.tanh(x) * W)


#: Functions of what is broadcast, which the axes of the product in its cotangent are summed over.
SUMS = {
    "rows": (lambda v: weighted((v[:, None, :] + Y) @ L), (GROUPS, FROM)),
    "groups": (lambda v: weighted((v + Y) @ L), (POINTS, FROM)),
    "groups and rows": (lambda v: weighted((Y - v) @ L), (FROM,)),
    "all axes": (lambda v: weighted((v[0] + Y) @ L), (1,)),
    "columns": (lambda v: weighted(Y @ (v[:, :, None] * L)), (GROUPS, FROM)),
    "columns of what is added": (lambda v: weighted(Y @ (v[:, :, None] - L)), (GROUPS, FROM)),
    "groups and columns": (lambda v: weighted(Y @ (L - v[:, None])), (FROM,)),
    "groups of the right": (lambda v: weighted(Y @ (L + v)), (FROM, TO)),
    "in another order": (
        lambda v: td.sum(
            td.tanh(td.einsum("kij,nkj->nki", td.matrix_transpose(L), v[:, None] - Y[:, 0]))
        ),
        (POINTS, FROM),
    ),
    "beside others": (lambda v: weighted((v + Y) @ L) + td.sum(td.sin(v + Y) * Y), (POINTS, FROM)),
}


def products(gradient, *args):
    """The ranks of the products in a program, without those of the function itself."""
    found = gradient(*map(td.use, args))
    nodes = topological(found._leaves)
    return [len(node.outputs[0].shape) for node in nodes
            if isinstance(node, Matmul) and "adjoint" in str(node.label)]  # fmt: skip


@pytest.mark.parametrize("name", SUMS)
def test_gradients_by_what_is_broadcast(name):
    f, shape = SUMS[name]
    assert_gradient(f, rng.normal(size=shape))


@pytest.mark.parametrize("name", [n for n in SUMS if n != "columns"])
def test_products_are_not_as_large_as_what_is_broadcast(name):
    f, shape = SUMS[name]
    found = products(td.grad(f), rng.normal(size=shape))
    assert all(rank < 3 for rank in found), found


def test_on_an_emulated_gpu():
    for name in ("rows", "groups"):
        f, shape = SUMS[name]
        x = rng.normal(size=shape)
        with emulation():
            found = td.run(td.grad(f)(x), backend="cuda")
        np.testing.assert_allclose(found, td.run(td.grad(f)(x)), rtol=1e-12, atol=1e-12)


def test_in_a_loop():
    x = rng.normal(size=(POINTS, FROM))

    def square(v):
        def step(u):
            moved = td.tanh((u + Y) @ L)  # (groups, points, to)
            return u * 0.5 + td.sum(moved * W, axis=0)[:, :FROM]

        return td.sum(td.iterate(3, step, v) * x)

    assert_gradient(square, x)
    found = td.grad(square)(td.use(x))
    inside = [n for n in topological(found._leaves) if isinstance(n, Matmul)
              and "adjoint" in str(n.label)]  # fmt: skip
    assert inside and all(len(n.outputs[0].shape) == 2 for n in inside)


def _sides(x, p):
    return td.cond(p > 0, weighted((x + Y) @ L), td.sum(td.square(x)))


def _operands(x, p):
    moved = td.cond(p > 0, (x + Y) @ L, x[None, :, :1] * td.use(W))
    return td.sum(td.tanh(moved) * W)


def _nested(x, p):
    return td.cond(p > -1, _sides(x, p), td.sum(x))


@pytest.mark.parametrize("f", [_sides, _operands, _nested])
def test_in_the_sides_of_a_condition(f):
    x = rng.normal(size=(POINTS, FROM))
    for p in (1.0, -0.5, -2.0):
        assert_gradient(lambda x, p=p: f(x, td.use(np.asarray(p))), x)
    found = td.grad(f)(td.use(x), td.use(np.asarray(1.0)))
    ranks = [len(n.outputs[0].shape) for n in topological(found._leaves)
             if isinstance(n, Matmul) and "adjoint" in str(n.label)]  # fmt: skip
    assert ranks == [2]


def test_both_sides_of_a_difference():
    def f(x, means, factors):
        apart = x[:, None, :] - means[None]
        moved = td.einsum("kij,nkj->nki", factors, apart) + apart * td.exp(means)
        return td.sum(td.sin(moved)) + td.sum(td.sqrt(1 + td.square(apart)))

    args = rng.normal(size=(6, 3)), rng.normal(size=(4, 3)), rng.normal(size=(4, 3, 3))
    assert_gradient(f, *args)
    moving = products(td.grad(f), *args)
    assert moving == [2]


def test_a_product_that_is_read_as_it_is_is_computed_once():
    def f(v, y):
        return weighted((v + y) @ L)

    def of(v, y):
        by = td.grad(f, argnums=(0, 1))(v, y)
        return td.concatenate([td.ravel(by[0]), td.ravel(by[1])])

    args = rng.normal(size=(POINTS, FROM)), Y
    assert_gradient(f, *args)
    assert products(of, *args) == [3]


def test_second_derivatives_and_single_precision():
    f, shape = SUMS["groups"]
    x = rng.normal(size=shape)
    td.check_grad(lambda v: td.sum(td.square(td.grad(f)(v))), x)
    found = td.run(td.grad(lambda v: f(v.astype(td.float64)))(x.astype(np.float32)))
    np.testing.assert_allclose(found, td.run(td.grad(f)(x)), rtol=1e-5, atol=1e-5)


def test_no_points_and_no_groups():
    for groups, points in ((0, 2), (2, 0), (1, 1)):
        y, factors = np.ones((groups, points, 3)), np.ones((groups, 3, 2))

        def f(v, y=y, factors=factors):
            return td.sum(td.sin((v - y) @ factors))

        for shape in ((points, 3), (3,)):
            found = td.run(td.grad(f)(np.full(shape, 0.5)), backend="native")
            expected = np.zeros(shape) if not groups * points else 2 * np.cos(-1.5)
            np.testing.assert_allclose(found, np.broadcast_to(expected, shape))
