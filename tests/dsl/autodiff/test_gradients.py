"""Gradients of array programs: gathers, stencils, folds, scans, products, permutes."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

import treadle as td
from treadle.dsl.expr import Apply, Cond, Const, Extent, Read, walk
from treadle.dsl.graph import Fold, topological
from treadle.dsl.graphs.printer import show_graph

from .helpers import BACKENDS, assert_gradient

rng = np.random.default_rng(3)
X = rng.random((5, 4)) + 0.5
W = rng.random((5, 4))
A = rng.random((4, 3))
INDEX = np.array([0, 3, 3, 1])
LENGTHS = np.array([2, 3, 0])


def affine(p, q):
    return p[0] * q[0], p[1] * q[0] + q[1]


def beyond(combine, target=lambda i, j: (i * j % 7 - 1, 4 - i // 2)):
    """Some targets are out of range, where nothing is written."""
    return lambda x: td.sum(td.permute(combine, x, target, td.sin(x) + 0.1) ** 2 * W)


PROGRAMS = {
    "elementwise": lambda x: td.sum(td.sin(x) * W + x**3 / (1 + x)),
    "broadcast": lambda x: td.sum(td.sum(x, axis=0)[None, :] * x * W),
    "transposed": lambda x: td.sum(x.T @ x),
    "product": lambda x: td.sum(td.sin(x @ A)),
    "matrix and vector": lambda x: td.sum(td.exp(x @ x[0])),
    "sum of products": lambda x: td.sum(td.sum(x[:, :, None] * A[None], axis=1) ** 2),
    "mean": lambda x: td.mean(x**3),
    "deviation": lambda x: td.std(x) + td.sum(td.var(x, axis=0)),
    "extremes": lambda x: td.min(x * W) + td.sum(td.max(x, axis=1)),
    "products": lambda x: td.sum(td.prod(x, axis=1) ** 2),
    "slices": lambda x: td.sum(x[1:, ::2] ** 2) + td.sum(x[::-1] * x),
    "reshaped": lambda x: td.sum(td.reshape(x, (4, 5)) * td.sin(x).T),
    "concatenated": lambda x: td.sum(td.concatenate([x, 2 * x]) ** 2),
    "rolled": lambda x: td.sum(td.roll(x, 2, axis=0) * x * W),
    "padded": lambda x: td.sum(td.pad(x, 2, mode="reflect") ** 2),
    "convolved": lambda x: td.sum(td.convolve(x, np.ones((3, 3))) ** 2),
    "gathered": lambda x: td.sum(x[INDEX] ** 2),
    "diagonal": lambda x: td.sum(index_twice(x)),
    "windows": lambda x: td.sum(windows(x)),
    "permuted": lambda x: td.sum(
        td.permute(lambda n, o: n + o, td.zeros(3), lambda i, j: (i * j) % 3, x) ** 2
    ),
    "permuted by a function": lambda x: td.sum(
        td.permute(lambda n, o: n + o + n * o, x[0], lambda i, j: (i * j) % 4, td.sin(x)) ** 2
    ),
    "added, some out of range": beyond(lambda n, o: n + o),
    "multiplied, some out of range": beyond(lambda n, o: n * o),
    "overwritten, some out of range": beyond(td.overwrite),
    "maxima, some out of range": beyond(td.maximum),
    "moved, some out of range": beyond(td.overwrite, lambda i, j: (i + 1, j)),
    "moved and multiplied, some out of range": beyond(lambda n, o: n * o, lambda i, j: (i, j - 2)),
    "permuted pairs": lambda x: td.sum(
        td.unzip(
            td.permute(
                lambda n, o: (n[0] * o[0], n[1] + o[1]),
                td.zip(x[0], x[1]),
                lambda i, j: td.where(i < 3, (i + j) % 2 * 3, td.ignore),
                td.zip(x, x * x),
            )
        )[0]
        ** 2
    ),
    "products of sources, of which some are 0": lambda x: td.sum(
        (x[0] * x[1]).at[np.array([1, 1, 3, 1])].multiply(x[2] * np.array([1.0, 0, 0, 1]))
    ),
    "cumulative sum": lambda x: td.sum(td.cumsum(x, axis=1) ** 2 * W),
    "cumulative product": lambda x: td.sum(td.cumprod(x, axis=0) * W),
    "exclusive scan": lambda x: td.sum(td.scanl(lambda a, b: a * b, 1.3, x, axis=0)[:5] * W),
    "scan from the right": lambda x: td.sum(td.scanr(lambda a, b: a + b, 1.3, x, axis=1) ** 2),
    "scan of pairs": lambda x: td.sum(td.unzip(td.scanl1(affine, td.zip(x, x * x), axis=1))[1] * W),
    "fold of pairs": lambda x: td.sum(
        td.unzip(td.fold1(affine, td.zip(x, x * x), axis=1))[1] * W[:, 0]
    ),
    "fold of two axes": lambda x: td.sum(
        td.unzip(td.fold(affine, (1.0, 2.0), td.zip(x, x * x), axis=(0, 1)))[1]
    ),
    "segments": lambda x: td.sum(
        td.fold_seg(lambda a, b: a + b, 0.5, x.T, LENGTHS) ** 2
        * td.fold_seg(td.maximum, 0.9, x.T, LENGTHS)
    ),
    "segmented extremes": lambda x: td.sum(td.fold1_seg(td.minimum, x.T, LENGTHS[:2]) * W[:4, :2]),
    "segmented products": lambda x: td.sum(
        td.fold_seg(lambda a, b: a * b, 1.3, x.T, LENGTHS) ** 2
        + td.fold_seg(lambda a, b: a * b, 1.3, x.T, LENGTHS[::-1])
    ),
    "segmented pairs": lambda x: td.sum(
        td.unzip(td.fold_seg(affine, (1.0, 2.0), td.zip(x.T, x.T * x.T), LENGTHS))[1] ** 2
    ),
    "segmented scans": lambda x: (
        td.sum(td.scanl1_seg(lambda a, b: a * b, x.T, LENGTHS) ** 2)
        + td.sum(td.scanr_seg(lambda a, b: a * b, 1.5, x.T, LENGTHS) ** 2)
    ),
    "norm": lambda x: td.sum(td.fold(lambda a, b: td.sqrt(a * a + b * b), 0.5, x) ** 2),
    "softmax": lambda x: td.sum(
        td.log(td.sum(td.exp(x - td.max(x, axis=1)[:, None]), axis=1)) * W[:, 0]
    ),
    "loop in an element": lambda x: td.sum(
        td.map(lambda v: td.loop(3, lambda k, s: s * td.sin(v) + s, v), x)
    ),
    "while in an element": lambda x: td.sum(
        td.map(lambda v: td.while_loop(lambda s: s < 5, lambda s: s * 1.5 * v + 1, v), x)
    ),
    "condition": lambda x: td.sum(td.map(lambda v: td.cond(v < 1, v * v, td.sqrt(v - 1)), x)),
    "gradient of a scalar function": lambda x: td.sum(
        td.map(lambda v: td.grad(lambda u: u**3 * td.sin(u))(v), x)
    ),
    "gradient of a gradient": lambda x: td.sum(
        td.grad(lambda y: td.sum(td.sin(y) * (y * y @ W.T @ y)))(x) * W
    ),
}


def sums_of(result):
    """All components of arrays of numbers or tuples, in one number."""
    parts = result if isinstance(result, tuple) else (result,)
    flat = [p for part in parts for p in (td.unzip(part) if len(part.types) > 1 else (part,))]
    return sum(td.sum(td.imap(lambda i, v: v * td.cos(i + 0.3), td.flatten(p))) for p in flat)


def curved(a, b):
    return a + b + 0.3 * a * b


def squares(x):
    return td.zip(x, x * x)


INITIAL = {
    "fold": lambda i, x: td.fold(curved, i, x, 0),
    "fold of everything": lambda i, x: td.fold(lambda a, b: a * b, i, x, None),
    "fold of pairs": lambda i, x: td.fold(affine, (i, 2 * i), squares(x)),
    "one of a pair": lambda i, x: td.fold(affine, (1.0, i), squares(x)),
    "extremes": lambda i, x: td.fold(td.maximum, i, x),
    "prefixes": lambda i, x: td.scanl(curved, i, x, 0),
    "suffixes": lambda i, x: td.scanr(curved, i, x, 1),
    "prefixes of pairs": lambda i, x: td.scanl(affine, (i, 2 * i), squares(x)),
    "prefixes and total": lambda i, x: td.scanl_total(curved, i, x),
    "suffixes and total": lambda i, x: td.scanr_total(affine, (i, 2 * i), squares(x), 0),
    "total alone": lambda i, x: td.scanl_total(curved, i, x)[1],
}
SEGMENTS = {
    "fold": lambda i, x: td.fold_seg(curved, i, x, LENGTHS),
    "sums": lambda i, x: td.fold_seg(lambda a, b: a + b, i, x, LENGTHS),
    "extremes": lambda i, x: td.fold_seg(td.maximum, i, x, LENGTHS),
    "pairs": lambda i, x: td.fold_seg(affine, (i, 2 * i), squares(x), LENGTHS),
    "prefixes": lambda i, x: td.scanl_seg(curved, i, x, LENGTHS),
}


@pytest.mark.sample(4)
@pytest.mark.parametrize("shape", [(3, 4), (1, 1), (3, 0), (0, 3)])
@pytest.mark.parametrize("name", INITIAL)
def test_initial_values(name, shape):
    with td.config(backend="reference"):
        td.check_grad(
            lambda i, x: sums_of(INITIAL[name](i, x)),
            np.array(0.7),
            X[:3, :4][tuple(map(slice, shape))],
        )


def turned(a, b):
    """Products of matrices of two rows and columns."""
    p, q, r, s = a
    t, u, v, w = b
    return p * t + q * v, p * u + q * w, r * t + s * v, r * u + s * w


def conjugating(a, b):
    """Linear functions of complex numbers and their conjugates."""
    return a[0] * b[0], td.conj(b[0]) * a[1] + b[1]


MANY = {
    "matrices": lambda x: td.scanl1(turned, td.zip(x, x * x, td.sin(x), td.cos(x)), 0),
    "matrices from the right": lambda x: td.scanr(
        turned, (1.0, 0.0, 0.5, 1.0), td.zip(x, x * x, td.sin(x), td.cos(x))
    ),
    "complex products": lambda x: td.abs(td.cumprod(td.complex_(x, x * x), axis=1)) ** 2,
    "complex numbers": lambda x: td.real(
        td.scanl1(lambda a, b: a + b + a * b, td.complex_(x, 0.3 * x), 0)
    ),
    "conjugates": lambda x: td.imag(
        td.unzip(td.scanl1(conjugating, td.zip(td.complex_(x, x), td.complex_(x, 1 - x))))[1]
    ),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("shape", [(3, 4), (1, 1), (3, 0)])
@pytest.mark.parametrize("name", MANY)
def test_scans_of_many_or_complex_numbers(name, shape):
    x = X[:3, :4][tuple(map(slice, shape))]
    with td.config(backend="reference"):
        td.check_grad(lambda x: sums_of(MANY[name](x)), x)
    f = td.grad(lambda x: sums_of(MANY[name](x)))
    np.testing.assert_allclose(td.jit(f, backend="native")(x), td.run(f(x)), rtol=1e-9)


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", SEGMENTS)
def test_initial_values_of_segments(name):
    with td.config(backend="reference"):
        x = np.random.default_rng(1).random((2, sum(LENGTHS)))
        td.check_grad(lambda i, x: sums_of(SEGMENTS[name](i, x)), np.array(0.7), x)


def test_compiled_initial_values():
    def loss(i, x):
        return sums_of(td.fold(affine, (i, 2 * i), squares(x))) + sums_of(td.scanl(curved, i, x))

    f, x = td.grad(loss, argnums=(0, 1)), X[:3]
    for found, given in zip(td.jit(f, backend="native")(0.7, x), td.run(f(0.7, x)), strict=True):
        np.testing.assert_allclose(found, given)


def index_twice(x):
    x = td.use(x)
    return td.generate((4,), lambda i: x[i, i] * x[i + 1, 3 - i])


def windows(x):
    x = td.use(x)
    return td.generate((3, 4, 2), lambda i, j, k: x[i + k, j] ** 2 * x[4 - i, j // 2])


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    assert_gradient(PROGRAMS[name], X)


BORDERS = {
    "clamp": td.clamp,
    "mirror": td.mirror,
    "symmetric": td.symmetric,
    "wrap": td.wrap,
    "constant": td.constant(0.3),
    "function": td.function(lambda i, j: td.sin(td.cast(i + 2 * j, td.float64))),
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("shape", [(5, 4), (2, 3), (1, 1), (1, 4)])
def test_stencils(border, shape):
    w = rng.random(shape)

    def loss(x):
        def f(v):
            return v[-1, 0] * v[1, 1] + 3 * v[0, 2] * v[0, 0] - v[-2, -1]

        return td.sum(w * td.stencil(f, x, boundary=BORDERS[border]))

    assert_gradient(loss, rng.random(shape) + 0.5)


def test_a_border_function_that_reads_is_differentiated():
    edge = rng.random(9)

    def loss(x, e):
        border = td.function(lambda i: e[i + 2] ** 2)
        return td.sum(td.stencil(lambda v: v[-2] * v[2], x, boundary=border))

    assert_gradient(lambda x, e: loss(x, td.use(e)),
                    rng.random(5), edge)  # fmt: skip


@pytest.mark.sample(1)
@pytest.mark.parametrize("shift", [1, -1, 2, -7])
def test_rolled_stencils_become_stencils(shift):
    def loss(x):
        moved = td.roll(x, shift, 0) * td.roll(td.sin(x), -shift, 1)
        return td.sum(moved * x) + td.sum(td.roll(x, (1, shift), (0, 1)) ** 3)

    assert_gradient(loss, X)
    compiled = td.jit(td.value_and_grad(loss)).lower(X)
    assert not any(type(n).__name__ == "Permute" for n in compiled.kernels)


def test_indices_that_wrap_around_elsewhere():
    """Windows that wrap, and an axis that is longer or shorter than what it is reduced by."""

    def loss(x):
        x = td.use(x)
        wide = td.generate((9, 4), lambda i, j: x[(i + 2) % 5, j] * x[(3 - i) % 5, (i + j) % 4])
        narrow = td.generate((3,), lambda i: x[(i + 4) % 5, (i + 1) % 4] ** 2)
        return td.sum(wide**2) + td.sum(td.sin(narrow))

    assert_gradient(loss, X)


def test_extents_that_are_checked_to_be_equal_are_one():
    """No copy and no test of a border where the product's and the argument's are equal."""
    a, b = rng.random((4, 6)), rng.random((6, 5))
    f = td.value_and_grad(lambda a, b: td.sum((a @ b) ** 2), (0, 1))
    both = td.jit(f, backend="native")  # (on a GPU the sum stores what is summed)
    kernels = both.lower(a, b).kernels
    assert sorted(type(n).__name__ for n in kernels) == ["Fold", "Generate", *["Matmul"] * 3]


def test_axes_of_one_element_are_not_summed():
    """What inserted axes lost needs no sum: it is fused into what reads it."""

    def loss(x, y):
        return td.sum(td.sin(x[:, None, :] - y[None, :, :]) * x[:, None, :])

    args = X, rng.random((3, 4))
    assert_gradient(loss, *args)
    kernels = td.jit(td.grad(loss, (0, 1))).lower(*args).kernels
    assert [len(n.inner) for n in kernels] == [1, 1]
    one = td.jit(td.grad(lambda v: td.sum(td.exp(v[:, None, None])))).lower(rng.random(6))
    assert [type(n).__name__ for n in one.kernels] == ["Generate"]


#: Elements in row-major order in another shape, of a matrix of 6 by 4.
IN_ORDER = {
    "ravel": lambda x: td.ravel(x),
    "of constant extents": lambda x: td.reshape(x, (3, 8)),
    "with axes of one element": lambda x: td.reshape(x, (6, 1, 4, 1)),
    "rows split": lambda x: td.reshape(x, (x.shape[0] // 2, 2, x.shape[1])),
    "half of the split rows": lambda x: td.reshape(x, (x.shape[0] // 2, 2, x.shape[1]))[:, 1],
    "columns split": lambda x: td.reshape(x, (x.shape[0], 2, -1)),
    "joined with others": lambda x: td.reshape(x, (2, -1, 2)),
    "by columns": lambda x: td.reshape(x, (-1, 3), order="F"),
    "transposed": lambda x: td.ravel(x.T),
    "reversed": lambda x: td.ravel(x)[::-1],
    "some of them": lambda x: td.ravel(x)[3:17:2],
    "fewer": lambda x: td.generate((7,), lambda i: x[i // x.shape[1], i % x.shape[1]]),
    "from a place on": lambda x: td.generate(
        (3, 4), lambda i, j: x[(4 * i + j + 5) // x.shape[1], (4 * i + j + 5) % x.shape[1]]
    ),
    "repeated": lambda x: td.repeat(x, 3, axis=1),
    "tiled": lambda x: td.tile(x, (2, 3)),
    "kron": lambda x: td.kron(x, td.use(np.arange(6.0).reshape(2, 3))),
}


@pytest.mark.parametrize("name", IN_ORDER)
def test_another_shape_becomes_another_shape(name):
    """The adjoint of elements in row-major order is a gather: nothing is scattered."""

    def loss(x):
        y = IN_ORDER[name](x)
        return td.sum(td.sin(y) * td.reshape(td.arange(y.size, dtype=td.float64), y.shape))

    x = rng.random((6, 4))
    assert_gradient(loss, x)
    kernels = td.jit(td.grad(loss)).lower(x).kernels
    assert not any(type(n).__name__ == "Permute" for n in kernels)


def test_reads_that_are_almost_in_order_are_scattered():
    """Rows that overlap, and rows with gaps, are not one array in another shape."""

    def loss(x):
        over = td.generate((3, 6), lambda i, j: x[(4 * i + j) // 4, (4 * i + j) % 4])
        gaps = td.generate((5, 3), lambda i, j: x[(4 * i + j) // 4, (4 * i + j) % 4])
        return td.sum(td.sin(over) * over) + td.sum(td.exp(gaps))

    assert_gradient(loss, rng.random((6, 4)))


def test_windows_with_a_stride_sum_over_the_window():
    """Not over all windows, whose number is that of the elements."""

    def loss(x):
        n = (x.shape[0] - 3) // 2 + 1
        return td.sum(td.sin(td.generate((n, 3), lambda i, k: x[2 * i + k])))

    x = rng.random(23)
    assert_gradient(loss, x)
    for node in td.jit(td.grad(loss)).lower(x).kernels:
        assert len([n for n in node.iteration_space() if not isinstance(n, Const)]) == 1


def test_a_linear_stencil_becomes_a_stencil():
    f = td.grad(lambda x: td.sum(td.stencil(lambda v: v[-1] + 2 * v[0], x, boundary=td.wrap) ** 2))
    x = td.jit(f).lower(np.ones(8))
    assert "permute" not in str(x.graph())


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 3)])
def test_empty_and_single_extents(shape):
    x = rng.random(shape)
    for f in (
        lambda x: td.sum(td.sin(x)),
        lambda x: td.sum(td.cumsum(x, axis=1)),
        lambda x: td.sum(td.prod(x, axis=1)),
        lambda x: td.sum(x.T @ x),
    ):
        for backend in BACKENDS:
            assert td.run(td.grad(f)(x), backend=backend).shape == shape


@pytest.mark.parametrize("zeros", [0, 1, 2, 4])
def test_products_with_zeros(zeros):
    x = np.array([2.0, 3.0, 0.5, 7.0])
    x[:zeros] = 0
    expected = [np.prod(np.delete(x, k)) for k in range(4)]
    for backend in BACKENDS:
        np.testing.assert_allclose(td.run(td.grad(td.prod)(x), backend=backend), expected)
        scanned = td.grad(lambda x: td.cumprod(x)[3])(x)
        np.testing.assert_allclose(td.run(scanned, backend=backend), expected)


def test_ties_go_to_the_lowest_index():
    x = np.array([1.0, 3.0, 3.0, 1.0])
    np.testing.assert_array_equal(td.run(td.grad(td.max)(x)), [0, 1, 0, 0])
    np.testing.assert_array_equal(td.run(td.grad(td.min)(x)), [1, 0, 0, 0])


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_not_taken_is_not_multiplied(backend):
    x = np.array([0.5, 2.0, 0.0])
    expected = [1, 0.5, 1]
    arrays = td.grad(lambda x: td.sum(td.where(x < 1, x, td.sqrt(x - 1))))
    inside = td.grad(lambda x: td.sum(td.map(lambda v: td.where(v < 1, v, td.sqrt(v - 1)), x)))
    guarded = td.grad(lambda x: td.sum(td.map(lambda v: td.cond(v < 1, v, td.sqrt(v - 1)), x)))
    for f in (arrays, inside, guarded):
        np.testing.assert_allclose(td.run(f(x), backend=backend), expected)
    sliced = td.grad(lambda x: td.sum(td.sqrt(x)[:2]))(x)
    assert td.run(sliced, backend=backend)[2] == 0
    products = td.grad(lambda x: td.sum(td.where(x > 0, x * td.log(x), 0.0)))(x)
    np.testing.assert_allclose(
        td.run(products, backend=backend), [1 + np.log(0.5), 1 + np.log(2), 0]
    )


class Pair(NamedTuple):
    w: object
    b: object


@dataclass
class Model:
    layer: Pair
    scale: object


def test_structures_argnums_and_aux():
    model = Model(Pair(A, np.ones(3)), 2.0)

    def loss(x, m):
        y = td.tanh(x @ m.layer.w + m.layer.b) * m.scale
        return td.sum(y), y

    (value, aux), (gx, gm) = td.run(td.value_and_grad(loss, (0, 1), True)(X, model))
    y = np.tanh(X @ A + 1)
    np.testing.assert_allclose(value, 2 * y.sum())
    np.testing.assert_allclose(aux, 2 * y)
    slope = 2 * (1 - y * y)
    np.testing.assert_allclose(gx, slope @ A.T)
    assert isinstance(gm, Model) and isinstance(gm.layer, Pair)
    np.testing.assert_allclose(gm.layer.w, X.T @ slope)
    np.testing.assert_allclose(gm.layer.b, slope.sum(0))
    np.testing.assert_allclose(gm.scale, y.sum())


def test_vjp_and_stop():
    y, back = td.vjp(lambda a, b: (a * b, td.sum(a)), X, W)
    np.testing.assert_allclose(td.run(y[0]), X * W)
    ga, gb = td.run(back((np.ones((5, 4)), 2.0)))
    np.testing.assert_allclose(ga, W + 2)
    np.testing.assert_allclose(gb, X)
    stopped = td.grad(lambda x: td.sum(x * td.stop(x * x)))(X)
    np.testing.assert_allclose(td.run(stopped), X * X)


STOPPED = {
    "loop": lambda x, c: td.iterate(3, lambda z: td.sin(z) * c + x * c, x),
    "scan": lambda x, c: td.scan(lambda s, r: (s * r[1] + r[0], s * r[0]), x[0], (x, c))[1],
    "branch": lambda x, c: td.cond(td.sum(c) > 0, x * c, x - c * x * x),
    "element": lambda x, c: td.map(lambda v, k: td.loop(3, lambda i, s: s * k + v, v), x, c),
    "sort": lambda x, c: td.sort(x * c, axis=0),
    "product": lambda x, c: (x @ c.T) @ (x * c),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", STOPPED)
def test_what_is_stopped_is_a_constant_in_every_derivative(name, backend):
    """As if another argument had its value."""
    f = STOPPED[name]

    def loss(x, c):
        return td.sum(td.sin(f(x, c)) * W)

    def derivatives(of):
        gradient = td.grad(of)
        return td.jit(lambda x: (gradient(x), td.jvp(gradient, (x,), (td.use(W),))[1]),
                      backend=backend)(X)  # fmt: skip

    value = np.asarray(td.run(td.cumsum(td.use(X), axis=0) - 1.5))
    stopped = derivatives(lambda x: loss(x, td.stop(td.cumsum(x, axis=0) - 1.5)))
    for mine, expected in zip(stopped, derivatives(lambda x: loss(x, td.use(value))), strict=True):
        np.testing.assert_allclose(mine, expected, rtol=1e-11, atol=1e-12)
    assert not np.allclose(
        stopped[0], derivatives(lambda x: loss(x, td.cumsum(x, axis=0) - 1.5))[0]
    )


def test_auxiliary_results_of_vjp_and_jvp():
    def f(a, b):
        return a * b, {"sum": td.sum(a), "name": "f"}

    y, back, aux = td.vjp(f, X, W, has_aux=True)
    np.testing.assert_allclose(td.run(y), X * W)
    np.testing.assert_allclose(td.run(back(np.ones((5, 4))))[1], X)
    np.testing.assert_allclose(td.run(aux["sum"]), X.sum())
    assert aux["name"] == "f"
    y, dy, aux = td.jvp(f, (X, W), (W, X), has_aux=True)
    np.testing.assert_allclose(td.run(y), X * W)
    np.testing.assert_allclose(td.run(dy), W * W + X * X)
    np.testing.assert_allclose(td.run(aux["sum"]), X.sum())
    compiled = td.jit(lambda x: td.jvp(lambda a: (a * a, td.max(a)), (x,), (x,), has_aux=True)[1:])
    np.testing.assert_allclose(compiled(X)[0], 2 * X * X)
    np.testing.assert_allclose(compiled(X)[1], X.max())
    for derivative in (lambda g: td.vjp(g, X, has_aux=True),
                       lambda g: td.jvp(g, (X,), (X,), has_aux=True)):  # fmt: skip
        with pytest.raises(td.TracingError, match=r"returns the pair \(value, aux\)"):
            derivative(td.sin)


def test_none_is_the_tangent_or_cotangent_of_what_does_not_move():
    value, along = td.jvp(lambda a, n: a**n, (X, 3), (W, None))
    np.testing.assert_allclose(td.run(value), X**3)
    np.testing.assert_allclose(td.run(along), 3 * X**2 * W)
    _, along = td.jvp(lambda p, q: p["a"] * p["b"] * q[0], ({"a": X, "b": W}, (X, W)),
                      ({"b": None, "a": W}, None))  # fmt: skip
    np.testing.assert_allclose(td.run(along), W * W * X)
    _, along = td.jvp(td.sin, (X,), (None,))
    np.testing.assert_array_equal(td.run(along), np.zeros_like(X))
    _, back = td.vjp(lambda a: (a * a, td.sum(a)), X)
    np.testing.assert_allclose(td.run(back((None, 2.0))), np.full_like(X, 2))
    np.testing.assert_array_equal(td.run(back(None)), np.zeros_like(X))
    with pytest.raises(td.DTypeError, match="or give None as its tangent"):
        td.jvp(lambda a, n: a**n, (X, 3), (W, 0))


def test_derivatives_by_numbers_are_carried_on_by_python_loops():
    """Each is an array, which is computed once: no expression of all iterations before."""
    slope = td.grad(lambda x: (x - 3) ** 2)
    x = 0.0
    for _ in range(300):
        x = x - 0.1 * slope(x)
    assert isinstance(x, td.Array)
    assert len(list(topological(x._leaves))) < 100
    assert abs(float(x) - 3) < 1e-12
    (value, by_x), (y, dy) = td.value_and_grad(lambda x: x**3)(2.0), td.jvp(td.exp, (0.0,), (2.0,))
    assert [type(v) for v in (value, by_x, y, dy)] == [td.Array] * 4
    assert [v.item() for v in (value, by_x, y, dy)] == [8, 12, 1, 2]
    assert td.grad(lambda x: td.grad(lambda y: x * y * y)(3.0))(2.0).item() == 6
    total, _ = td.scan(lambda c, x: (c + x, c), 0.0, X[0])
    assert isinstance(total, td.Array) and isinstance(td.loop(3, lambda k, s: s * 2, 1.5), td.Array)


def test_derivatives_by_other_numbers_are_the_same_program():
    """The number is data, so nothing is compiled again."""
    slope = td.grad(lambda x: td.exp(x) * x)
    first, second = (re.sub(r"%\d+", "%", show_graph(slope(x)._leaves)) for x in (0.25, 1.75))
    assert first == second and "0.25" not in first


def test_entries_of_dicts_belong_to_the_same_keys_in_any_order():
    _, back = td.vjp(lambda a: {"u": a * 2, "v": a * 3}, X)
    np.testing.assert_allclose(td.run(back({"v": 0 * X, "u": W})), 2 * W)
    _, along = td.jvp(lambda p: p["a"] * 2 + p["b"], ({"a": X, "b": X},), ({"b": 0 * W, "a": W},))
    np.testing.assert_allclose(td.run(along), 2 * W)

    @td.rule
    def product(p):
        return p["a"] * p["b"]

    @product.vjp
    def _(g, y, p):
        return {"b": g * p["a"], "a": g * p["b"]}

    found = td.run(td.grad(lambda p: td.sum(product(p)))({"a": X, "b": W}))
    np.testing.assert_allclose(found["a"], W)
    np.testing.assert_allclose(found["b"], X)
    with pytest.raises(td.TracingError, match="keys 'u', and belongs to a dict with 'u', 'v'"):
        back({"u": W})


def test_cotangents_and_tangents_of_real_values_are_real():
    with pytest.raises(td.DTypeError, match="vjp: a cotangent is complex128, its value float64"):
        td.vjp(td.sin, X)[1](X * 1j)
    with pytest.raises(td.DTypeError, match="jvp: a tangent is complex128, its value float64"):
        td.jvp(td.sin, (X,), (X * 1j,))

    @td.rule
    def twice(x):
        return x * 2

    @twice.vjp
    def _(g, y, x):
        return g * 2j

    with pytest.raises(td.DTypeError, match="a cotangent is complex128, its value float64"):
        td.grad(lambda x: td.sum(twice(x)))(X)


TIES, KNOTS = np.array([1.0, 3.0, 3.0, 2.0, 1.0]), np.arange(4.0)


@pytest.mark.parametrize(
    ("f", "at", "expected"),
    [
        (td.max, TIES, [0, 1, 0, 0, 0]),
        (td.min, TIES, [1, 0, 0, 0, 0]),
        (td.ptp, TIES, [-1, 1, 0, 0, 0]),
        (lambda x: td.sum(td.cummax(x)), TIES, [1, 4, 0, 0, 0]),
        (lambda x: td.sum(td.zeros(2).at[[0, 1, 1, 1, 0]].max(x)), TIES, [1, 1, 0, 0, 0]),
        (lambda x: td.sum(td.full(2, 3.0).at[[0, 1, 1, 1, 0]].max(x)), TIES, [0, 0, 0, 0, 0]),
        (lambda x: td.sum(td.clip(x, 0.0, 1.0)), [-1.0, 0.0, 1.0, 2.0], [0, 1, 1, 0]),
        (td.median, [1.0, 1.0, 1.0], [0, 1, 0]),
        (lambda x: td.linalg.norm(x, ord=1), [0.0, -1.0], [0, -1]),
        (td.prod, [0.0, 2.0, 3.0], [6, 0, 0]),
        (td.linalg.norm, [0.0, 0.0], [0, 0]),
        (td.std, [2.0, 2.0], [0, 0]),
        (td.nanstd, [2.0, np.nan, 2.0], [0, 0, 0]),
        (lambda x: td.sum(td.interp(x, KNOTS, [0.0, 1.0, 3.0, 2.0])), [0.0, 1.0, 2.0], [1, 2, -1]),
    ],
)  # fmt: skip
def test_points_without_a_derivative(f, at, expected):
    at = np.array(at)
    np.testing.assert_array_equal(td.run(td.grad(f)(at)), expected)
    along = [td.run(td.jvp(f, (at,), (e,))[1]) for e in np.eye(len(at))]
    np.testing.assert_array_equal(along, expected)


@pytest.mark.parametrize("n", [2, 3, 4, 6, 25, 26])
def test_quantiles_of_equal_elements_are_of_different_ones(n):
    """Sorted rows, and short ones that pass a network of comparisons."""
    x, middle = np.ones(n), np.zeros(n)
    middle[[(n - 1) // 2, n // 2]] = 0.5 if n % 2 == 0 else 1
    for gradient in (td.grad(td.median), td.jit(td.grad(td.median), backend="reference")):
        np.testing.assert_array_equal(td.run(gradient(x), backend="reference"), middle)
    share = td.run(td.grad(lambda v: td.quantile(v, 0.4))(x), backend="reference")
    at = 0.4 * (n - 1)
    np.testing.assert_allclose(share[int(at)], 1 - at % 1)
    np.testing.assert_allclose(share.sum(), 1)


def test_a_constant_from_outside_is_constant():
    """An array that was computed before from the same data is not differentiated."""
    x = td.use(X)
    z = x + 1
    np.testing.assert_allclose(td.run(td.grad(lambda y: td.sum(y * z))(x)), X + 1)
    np.testing.assert_allclose(td.run(td.grad(lambda y: td.sum(y * (y + 1)))(x)), 2 * X + 1)


def test_types_of_gradients():
    x = X.astype(np.float32)
    assert td.run(td.grad(lambda x: td.sum(td.sin(x) * 2))(x)).dtype == np.float32
    wide = td.grad(lambda x: td.sum(x.astype(td.float64) ** 2))(x)
    assert td.run(wide).dtype == np.float32
    z = np.array([3 + 4j])
    np.testing.assert_allclose(td.run(td.grad(lambda z: td.sum(abs(z) ** 2))(z)), 2 * z)
    tiny = np.array([5e-324, 3e-310j])  # their squares are 0
    np.testing.assert_allclose(td.run(td.grad(lambda z: td.sum(abs(z)))(tiny)), [1, 1j])


MANY_SMALL = np.full(20_000, 0.01)
#: Functions of small numbers, and of others, whose gradients are sums of many of the former.
SUMMED_IN_16_BITS = {
    "broadcast": (lambda x, a: td.sum(x * a), 1),
    "rows": (lambda x, a: td.sum(x[:, None] * a[None]), 3),
    "gathered": (lambda x, a: td.sum(x[td.use(np.zeros(len(MANY_SMALL), np.int64))] * a), 1),
    "scanned": (lambda x, a: td.sum(td.scanl1(lambda u, v: u + v, td.concatenate([x, 0 * a])) * (
        td.concatenate([0 * x, a]))), 1),
    "in a loop": (lambda x, a: td.sum(td.loop(
        2000, lambda k, u: u + x[:1] * a[:10], td.zeros(10, dtype=a.dtype))), 1),
    "gathered in a loop": (lambda x, a: td.sum(td.loop(
        200, lambda k, u: u + x[td.use(np.zeros(100, np.int64))] * a[:100],
        td.zeros(100, dtype=a.dtype))), 1),
}  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", SUMMED_IN_16_BITS)
def test_cotangents_of_16_bits_are_summed_in_32(name, kind, backend):
    """As sums are: a sum of 16 bits does not grow beyond some hundred times what is added."""
    f, n = SUMMED_IN_16_BITS[name]
    t = getattr(td, kind)
    a = MANY_SMALL.astype(t.numpy)
    found = td.run(td.grad(f)(np.ones(n, t.numpy), a), backend=backend)
    assert found.dtype == t.numpy
    np.testing.assert_allclose(found.astype(float), 200, rtol=0.01)


@pytest.mark.parametrize("of", [td.var, td.nanvar, td.cov])
def test_second_derivatives_of_variances_where_elements_are_their_mean(of):
    x, v = np.array([1.0, 2.0, 3.0]), np.array([1.0, 5.0, 0.0])
    found = td.run(td.jvp(td.grad(of), (x,), (v,))[1])
    np.testing.assert_allclose(found, (1 if of is td.cov else 2 / 3) * (v - v.mean()))


def test_second_derivatives_of_complex_variances():
    along = np.array([1.0, 5.0, 0.0])
    td.check_grad(
        lambda x: td.sum(td.grad(lambda y: td.var(y * (1 + 1j)))(x) * along), np.array([1.0, 2, 3])
    )


def test_refusals_are_at_the_line_of_the_operation():
    def loss(x):
        y = td.linalg.qr(x, "complete")[0]
        return td.sum(y)

    with pytest.raises(td.GradientError) as caught:
        td.grad(loss)(np.ones((7, 2)))
    assert "y = td.linalg.qr(" in str(caught.value)
    with pytest.raises(td.DTypeError, match="int64"):
        td.grad(lambda x: x * 2)(np.int64(3))
    with pytest.raises(td.ShapeError, match="one number"):
        td.grad(lambda x: x * 2)(np.ones(3))
    with pytest.raises(td.TracingError, match="argnums=2"):
        td.grad(lambda x: td.sum(x), argnums=2)(np.ones(3))
    with pytest.raises(td.TracingError, match="names an argument twice"):
        td.grad(lambda x, y: td.sum(x * y), argnums=(0, -2))(np.ones(3), np.ones(3))
    with pytest.raises(td.GradientError, match="changes from iteration"):
        td.grad(reading_loop)(np.ones(7))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda x: td.grad(lambda a, b: td.sum(a * b))(x), "missing a required argument: 'b'"),
        (lambda x: td.grad(lambda a: td.sum(a))(x, x), "too many positional arguments"),
        (lambda x: td.map(td.grad(lambda a: (a, a)), x), "one real number, got a tuple"),
        (lambda x: td.map(td.grad(lambda a: a * a, has_aux=True), x), "returned a Scalar"),
        (lambda x: td.map(td.grad(lambda a: a * 1.0), x.astype(int)), "argument a is int64"),
        (lambda x: td.check_grad(lambda: td.sum(x)), "no argument to differentiate by"),
    ],
)
def test_wrong_arguments_and_results(wrong, message):
    with pytest.raises(td.TreadleError, match=message) as caught:
        wrong(np.ones(3))
    assert "lambda x: " in str(caught.value)  # the line above


def reading_loop(x):
    """In the side of a condition: elsewhere the index may be outside."""
    a = td.use(x)

    def element(i):
        return td.cond(i < 2, td.loop(3, lambda k, s: s * a[i + k], 1.0), 0.0)

    return td.sum(td.generate((3,), element))


def products_by_hand(x):
    a, b = td.use(x), td.use(A)
    return td.generate((5, 3), lambda i, j: td.loop(4, lambda k, s: s + a[i, k] * b[k, j], 0.5))


def windows_by_hand(x):
    a, w = td.use(x), td.use(W)

    def element(i, j):
        return td.loop(2, lambda p, s: s + td.loop(
            2, lambda q, t: t + a[i + p, j + q] * w[p, q], 0.0) ** 2, 0.0)  # fmt: skip

    return td.generate((4, 3), element)


def in_elements(f, n=5):
    """A sum of the squares of elements that a scalar function computes from an array."""

    def loss(x):
        a = td.use(x)
        return td.sum(td.generate((n,), lambda i: f(a, i)) ** 2)

    return loss


LOOPS_IN_ELEMENTS = {
    "sums of products": lambda x: td.sum(td.sin(products_by_hand(x)) * W[:, :3]),
    "sums of squares of sums": lambda x: td.sum(td.sqrt(windows_by_hand(x))),
    "as long as an extent": in_elements(
        lambda a, i: td.loop(a.shape[1] - 1, lambda k, s: a[i, k] * a[i, k + 1] + s, a[i, 0])
    ),
    "products": in_elements(
        lambda a, i: td.loop(3, lambda k, s: s * a[i + k, k] + td.sin(s), a[i, 0]), 3
    ),
    "as long as the index says": in_elements(
        lambda a, i: td.loop(i, lambda k, s: s * a[i, k] + a[k, i], 1.0), 4
    ),
    "while": in_elements(
        lambda a, i: td.while_loop(
            lambda t: (t[1] < 4) & (t[0] < 2.5),
            lambda t: (t[0] + t[0] * a[i, t[1]], t[1] + 1),
            (a[i, 0], td.int64(1)),
        )[0]
    ),
    "nested": in_elements(
        lambda a, i: td.loop(
            2, lambda k, s: td.loop(k + 1, lambda q, t: t * a[i + k, q] + 0.1, s), a[i, 0]
        ),
        4,
    ),
    "pairs": in_elements(
        lambda a, i: td.loop(
            4, lambda k, s: (s[0] * a[i, k] + s[1], s[1] * 0.5 + s[0]), (a[i, 0], 1.0)
        )[0]
    ),
    "equal first states": in_elements(
        lambda a, i: td.loop(
            2, lambda k, s: (s[0] * a[k, i], s[1] + a[i, k] * s[0]), (a[i, 0], a[i, 0])
        )[1],
        4,
    ),
    "equal terms": in_elements(
        lambda a, i: td.multiply(
            *td.loop(3, lambda k, s: (s[0] + a[k, i] ** 2, s[1] + a[k, i] ** 2), (1.0, 2.0))
        ),
        4,
    ),
    "many values": in_elements(
        lambda a, i: td.loop(
            3,
            lambda k, s: td.sin(
                s * a[0, 0]
                + a[0, 1] * a[0, 2]
                + a[0, 3] * a[1, i] * a[1, 1]
                + a[1, 2] * a[2, i]
                + a[2, 1] * a[3, i]
            ),
            a[4, i],
        ),
        4,
    ),
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", LOOPS_IN_ELEMENTS)
def test_loops_in_elements_that_read_arrays(name):
    assert_gradient(LOOPS_IN_ELEMENTS[name], X)


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["products", "pairs", "equal first states", "equal terms"])
def test_second_derivatives_of_loops_in_elements(name):
    td.check_grad(lambda x: td.sum(td.grad(LOOPS_IN_ELEMENTS[name])(x) * W), X)


def test_second_derivatives_where_first_ones_vanish():
    x = np.array([0.0, 0.3])
    exact = 4 * np.exp(2 * x) - 2 * np.exp(x)

    def loss(y):
        e = td.exp(y)
        return td.sum(td.square(e) - 2 * e)

    def gathered(y):
        e = td.exp(y)[np.array([0, 1])]
        return td.sum(td.square(e) - 2 * e)

    def residuals(y):  # at the optimum, the Hessian is that of Gauss and Newton
        return td.sum(td.square(td.exp(y) - np.exp(x)))

    for f, expected in ((loss, exact), (gathered, exact), (residuals, 2 * np.exp(2 * x))):
        second = td.grad(lambda y, f=f: td.sum(td.grad(f)(y)))
        for backend in BACKENDS:
            np.testing.assert_allclose(td.run(second(x), backend=backend), expected)


@pytest.mark.parametrize("zeros", [0, 1, 2])
def test_second_derivatives_of_products_with_zeros(zeros):
    x = np.array([2.0, 3.0, 0.5, 7.0])
    x[:zeros] = 0
    direction = np.array([1.0, -2.0, 0.5, 3.0])
    hessian = np.array(
        [[0 if i == j else np.prod(np.delete(x, [i, j])) for j in range(4)] for i in range(4)]
    )
    for f in (td.prod, lambda x: td.cumprod(x)[3]):
        second = td.grad(lambda y, f=f: td.sum(td.grad(f)(y) * direction))
        for backend in BACKENDS:
            np.testing.assert_allclose(td.run(second(x), backend=backend), hessian @ direction)


def test_mixed_second_derivative_of_powers():
    mixed = td.grad(lambda b: td.grad(lambda a: a**b)(2.0))(0.0)
    np.testing.assert_allclose(td.run(mixed), 0.5)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("of", [td.max, td.min])
def test_extremes_of_small_windows(of, backend):
    x = np.random.default_rng(4).random((2, 6, 4, 3))

    def pooled(x):
        return of(x.reshape(2, 3, 2, 2, 2, 3), axis=(2, 4))

    found = td.jit(td.grad(lambda x: td.sum(pooled(x) ** 2)), backend=backend)(x)
    best = np.asarray(pooled(x)).repeat(2, 1).repeat(2, 2)
    np.testing.assert_allclose(found, np.where(x == best, 2 * x, 0), rtol=1e-13)


@pytest.mark.parametrize("backend", BACKENDS)
def test_missing_values_that_are_tested_for_receive_zero(backend):
    x, w = np.array([1.0, np.nan, 3.0, np.inf]), np.array([2.0, 1.0])
    rows = np.arange(8.0).reshape(4, 2)
    losses = {
        "where": (lambda r: td.sum(td.where(td.isfinite(r), r * r, 0)), [2, 0, 6, 0]),
        "nansum": (lambda r: td.nansum(r[:3] ** 2), [2, 0, 6, 0]),
        "nanmean": (lambda r: td.nanmean(td.sin(r[:3])), [*np.cos([1]) / 2, 0, np.cos(3) / 2, 0]),
    }
    for loss, expected in losses.values():
        np.testing.assert_allclose(td.run(td.grad(loss)(x), backend=backend), expected, 1e-12)
    y = x[:3]
    fit = td.grad(lambda w: td.nanmean((rows[:3] @ w - y) ** 2))
    seen = [0, 2]
    expected = rows[seen].T @ (rows[seen] @ w - y[seen])
    np.testing.assert_allclose(td.run(fit(w), backend=backend), expected, 1e-12)


def test_arguments_by_name_and_constants_in_classes():
    def loss(p, x, y, scale=0.5, *, power=2):
        return td.sum((x @ p - y) ** power) * scale

    p, x, y = np.ones(2), np.arange(6.0).reshape(3, 2), np.ones(3)
    both = x.T @ (x @ p - y)
    np.testing.assert_allclose(td.run(td.grad(loss)(p, x, y, scale=2.0)), 4 * both)
    np.testing.assert_allclose(td.run(td.grad(loss)(p, y=y, x=x)), both)
    np.testing.assert_allclose(td.run(td.value_and_grad(loss)(p, x, y, power=1)[1]), x.sum(0) / 2)
    with pytest.raises(td.TracingError, match=r"(?s)no argument 'scal'.*scale"):
        td.grad(loss)(p, x, y, scal=2.0)

    @dataclasses.dataclass
    class Layer:
        w: td.ArrayLike
        kind: str

    found = td.grad(lambda m: td.sum(m.w**2) * (2 if m.kind == "twice" else 1))(Layer(p, "twice"))
    assert found.kind == "twice" and np.asarray(found.w).tolist() == [4, 4]


def test_cotangents_with_the_same_factor_are_multiplied_once():
    """What neighbours receive, (g · u · c) at four indices, is a sum times c."""

    def loss(u, c):
        near = (td.roll(u, 1, 0) + td.roll(u, -1, 0) + td.roll(u, 1, 1) + td.roll(u, -1, 1)) * 0.25
        return td.sum((near - u) * c * td.sin(u))

    c = np.float64(1.5)
    text = str(td.jit(td.grad(loss), backend="reference").lower(X, c))
    assert text.count("c * 0.25") == 1
    found = td.run(td.grad(loss)(X, c))
    near = sum(np.roll(X, *by) for by in ((1, 0), (-1, 0), (1, 1), (-1, 1))) * 0.25
    g = c * np.sin(X)
    back = sum(np.roll(g, *by) for by in ((1, 0), (-1, 0), (1, 1), (-1, 1))) * 0.25
    np.testing.assert_allclose(found, c * (near - X) * np.cos(X) + back - g, rtol=1e-13)


def test_cotangents_that_are_passed_on_are_not_compared_with_zero():
    gradient = td.grad(lambda x: td.sum(td.exp(-td.sqrt(2 * td.exp(x).T))))(td.use(X))
    compared = [
        e
        for node in topological(gradient._leaves)
        for e in walk(node.bodies())
        if isinstance(e, Apply) and e.op.name == "not_equal"
    ]
    assert len(compared) == 3  # where exp, sqrt and exp are differentiated


@pytest.mark.parametrize("backend", BACKENDS)
def test_elements_that_are_not_read_receive_zero_whatever_the_factor(backend):
    for c in (np.inf, np.nan, 0.0, 1e-300):
        found = td.run(td.grad(lambda x, c=c: td.sum(x[1:] * td.unit(c)))(X), backend=backend)
        assert (found[0] == 0).all()
        np.testing.assert_array_equal(found[1:], np.full((4, 4), c))


def test_long_products_are_followed_once():
    def loss(x, c):
        for _ in range(400):
            x = x * c
        return td.sum(td.roll(x, 1, 0) * x)

    np.testing.assert_allclose(
        td.run(td.grad(loss)(X, np.float64(1.0))), np.roll(X, 1, 0) + np.roll(X, -1, 0)
    )


def test_pairs_of_a_value_and_a_key_that_several_elements_have():
    """The same function as that of `argmax`, whose keys are positions."""
    x, keys = np.array([0.3, -0.7, 1.2, 0.9, -0.2]), np.array([0, 1, 0, 2, 1])

    def best_of(a, b):
        (x, i), (y, j) = a, b
        none = td.isnan(x) & td.isnan(y)
        take = (y > x) | (td.isnan(y) & ~td.isnan(x)) | (((x == y) | none) & (j < i))
        return td.where(take, y, x), td.where(take, j, i)

    for f in (
        lambda x: td.unzip(td.fold1(best_of, td.zip(x, keys)))[0],
        lambda x: td.unzip(td.fold(best_of, (3.0 * x[2], 0), td.zip(x, td.iota(5))))[0],
        lambda x: td.sum(td.unzip(td.fold1_seg(best_of, td.zip(x, keys), [3, 2]))[0] ** 2),
    ):
        assert_gradient(f, x, backends=("reference",))


#: Functions whose derivative by their only element is 10 000.
TEN_THOUSAND = {
    "broadcast": lambda x: td.broadcast_to(x, (10_000,)),
    "the same element": lambda x: x[np.zeros(10_000, np.int64)],
    "a product": lambda x: 2 * td.broadcast_to(x, (100, 50)),
    "a loop": lambda x: td.loop(
        10_000, lambda k, s: s + (x * td.cast(k % 1 + 1, x.dtype)).astype(td.float32),
        td.zeros(1, td.float32),
    ),
}  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [td.float16, td.bfloat16])
@pytest.mark.parametrize("name", TEN_THOUSAND)
def test_cotangents_of_16_bits_are_added_in_single_precision(name, dtype, backend):
    def loss(x):
        return td.sum(TEN_THOUSAND[name](x).astype(td.float32))

    x = td.run(td.ones(1, dtype))
    for memory in (None, "1 KB"):
        found = td.run(td.grad(loss, memory=memory)(x), backend=backend)
        assert found.dtype == x.dtype
        np.testing.assert_allclose(found.astype(np.float64), 10_000, rtol=4e-3)


def test_second_derivatives_of_deep_expressions_in_conditions():
    """What all parts of a derivative have in common is tested once: not nested for each of them."""
    f = lambda v: td.cond(v > 3, td.lgamma(v), v)
    first = td.grad(lambda a: td.sum(td.map(f, a)))
    x = np.array([3.1, 2.4, 5.0])
    found = td.run(td.grad(lambda a: td.sum(first(a)))(x), backend="reference")
    plain = td.run(td.grad(lambda a: td.sum(td.digamma(a)))(x), backend="reference")
    np.testing.assert_allclose(found, np.where(x > 3, plain, 0), rtol=1e-12)


@pytest.mark.sample(3)
@pytest.mark.parametrize("boundary", [td.clamp, td.wrap, td.mirror, td.symmetric, td.constant(2.0)])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_arrays_shorter_than_the_weights_of_a_stencil(n, boundary):
    """The gradient by the weights reads the array at more indices than it has, on both sides."""
    rng = np.random.default_rng(n)
    x, moved = rng.random(n), rng.random(n)
    for m in (3, 4):
        w, tilted = rng.random(m), rng.random(m)
        f = lambda x, w: td.sum(td.correlate(x, w, boundary) ** 2)

        def slope(x, w, f=f, tilted=tilted):
            of_x, of_w = td.grad(f, argnums=(0, 1))(x, w)
            return td.sum(of_x * moved) + td.sum(of_w * tilted)

        td.check_grad(slope, x, w)
        stopped = td.jit(td.grad(slope, argnums=(0, 1)))  # of extents that are known when it runs
        for a, b in zip(stopped(x, w), td.run(td.grad(slope, argnums=(0, 1))(x, w)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)


def strided(extent, step, dilation=1, start=0):
    """Sums of weighted windows at a distance of `step`."""

    def loss(x, w):
        n = (x.shape[0] - start - max((extent - 1) * dilation, 0) - 1) // step + 1
        at = lambda i, k: x[start + step * i + dilation * k] * w[k]
        return td.sum(td.sin(td.sum(td.generate((n, extent), at), axis=1)))

    return loss


@pytest.mark.parametrize(
    "of",
    [(5, 2), (4, 2), (3, 3), (2, 3), (5, 3, 2, 1), (5, 2, 3), (4, 3, -1, 9), (7, 4, 3, 2)],
    ids=str,
)
@pytest.mark.parametrize("n", (23, 24))
def test_windows_at_a_distance(of, n):
    """Each element sums over the windows that have it, and these alone."""
    loss, x, w = strided(*of), rng.random(n), rng.random(of[0])
    assert_gradient(loss, x, w)
    assert "% " not in str([n.bodies() for n in td.jit(td.grad(loss)).lower(x, w).kernels
                            if isinstance(n, Fold)])  # fmt: skip
    second = lambda x, w: td.sum(td.grad(loss)(x, w) ** 2)
    assert_gradient(second, x, w)
    assert "permute" not in str(td.jit(td.grad(second)).lower(x, w).graph())


def test_windows_of_arguments_at_a_distance():
    """Through slices and transposes, of windows whose extents are those of an argument."""

    def loss(x, w):
        windows = td.sliding_window_view(x, w.shape)[::2, 1::3]
        return td.sum(td.cos(td.einsum("ijkl,kl->ij", windows, w)))

    x, w = rng.random((12, 15)), rng.random((3, 4))
    assert_gradient(loss, x, w)
    made = td.jit(td.grad(loss)).lower(x, w)
    (adjoint,) = [n for n in made.kernels if isinstance(n, Fold) and len(n.outer) == 4]
    assert [e.value for e in adjoint.outer[:2]] == [2, 3]
    assert all(e.node.name == "w" for n in adjoint.inner for e in walk((n,))
               if isinstance(e, Extent))  # fmt: skip


def largest(extents, step=1, fold=td.max):
    """Squares of the extremes of windows."""

    def loss(x):
        windows = td.sliding_window_view(x, extents)
        windows = windows[tuple(slice(None, None, step) for _ in extents)]
        axes = tuple(range(x.ndim, 2 * x.ndim))
        return td.sum(fold(windows, axis=axes) ** 2)

    return loss


@pytest.mark.parametrize("fold", [td.max, td.min])
@pytest.mark.parametrize("of", [((3, 3),), ((2, 4),), ((3, 2), 2), ((2, 2), 2), ((5,), 3)], ids=str)
def test_extremes_of_windows(of, fold):
    """Positions take a byte each, and elements are gathered as by a stencil with a border of
    zeros, without conditions."""
    loss, x = largest(*of, fold=fold), rng.permuted(np.arange(99.0)).reshape(9, 11)
    x = x if len(of[0]) == 2 else x.ravel()
    assert_gradient(loss, x)
    kernels = td.jit(td.grad(loss)).lower(x).kernels
    assert "int8" in {o.type.name for n in kernels for o in n.outputs}
    if len(of) == 1:
        found = [walk(n.bodies()) for n in kernels]
        (adjoint,) = [es for es in found if any(isinstance(e, Read) and e.boundary for e in es)]
        assert not any(isinstance(e, Cond) for e in adjoint)


@pytest.mark.parametrize("fold", [td.max, td.min])
def test_extremes_of_large_windows_go_axis_by_axis(fold):
    """Of equal extremes the first in row-major order gets the cotangent, and NaN is an extreme."""
    extents = 6, 9
    x, rank = rng.integers(0, 4, (15, 17)).astype(float), 2
    x[4, 12] = x[7, 11] = np.nan
    g = rng.random(tuple(n - k + 1 for n, k in zip(x.shape, extents, strict=True)))

    def loss(x, g):
        windows = td.sliding_window_view(x, extents)
        return td.sum(fold(windows, axis=(rank, rank + 1)) * g)

    want = np.zeros_like(x)
    first = np.argmax if fold is td.max else np.argmin
    for i, j in np.ndindex(*g.shape):
        window = x[i : i + extents[0], j : j + extents[1]]
        p, q = np.unravel_index(first(window), window.shape)
        want[i + p, j + q] += g[i, j]
    gradient = td.jit(td.grad(loss))
    np.testing.assert_allclose(gradient(x, g), want, rtol=1e-13)
    kernels = gradient.lower(x, g).kernels
    assert max(len(n.iteration_space()) for n in kernels) == 3
    assert_gradient(lambda x: loss(x, g), rng.permuted(np.arange(255.0)).reshape(x.shape))


def test_many_positions_are_integers():
    """Of more than 127 elements."""
    x = rng.permuted(np.arange(400.0)).reshape(20, 20)
    assert_gradient(largest((12, 12)), x)
    assert_gradient(largest((16, 8)), x)
