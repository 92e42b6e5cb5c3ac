"""Rows that share work: what they are, what fuses into them, and who reads them from memory."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from treadle.dsl.expr import Extent, constant
from treadle.dsl.passes import cost, rows


def node_of(array):
    return array._leaves[0].node


def tower(x):
    """An expression of thousands of operations."""
    for _ in range(150):
        x = td.sin(x)
    return x


def test_rows_are_short_constant_axes():
    n = node_of(td.use(np.ones((5, 4)))).leaf().shape[0]
    assert isinstance(n, Extent)
    for shape, lead in (((9, 4, 4), 1), ((9, 40), 2), ((9, 32), 1), ((3, 3), 0), ((), 0)):
        made = node_of(td.generate(shape, lambda *_: 1.0)) if shape else None
        assert rows.leading(made.shape if made else ()) == lead
    assert rows.leading((n, n)) == 2


def test_elements_of_a_row_share_what_does_not_depend_on_its_axes():
    x = td.use(np.ones(50))
    shared = td.generate((50, 3), lambda i, j: td.exp(x[i]) * j)
    apart = td.generate((50, 3), lambda i, j: td.exp(x[i] * j))
    cheap = td.generate((50, 3), lambda i, j: (x[i] + 1) * j)
    large = td.generate((50, 3), lambda i, j: td.exp(x[i]) * tower(x[i] * j))
    for made, axes in ((shared, 1), (apart, None), (cheap, None), (large, None)):
        node = node_of(made)
        assert rows.row_axes(node.elements, node.shape) == axes


def test_members_of_a_row():
    node = node_of(td.generate((50, 2, 2), lambda i, j, k: 10 * j + k))
    members = rows.row_members(node.elements, node.shape, 1)
    assert [int(e.value) for (e,) in members] == [0, 1, 10, 11]


@pytest.mark.parametrize("backend", ["native", "cuda"])
def test_a_producer_of_rows_is_inlined(backend):
    def kernels(f, *arrays):
        program = td.jit(f, backend="native").lower(*arrays)
        return program._on(backend).kernels

    x, a = np.ones(50), np.ones((50, 3))

    def basis(x):
        length = td.map(lambda v: td.sin(v) * td.exp(-v), x)
        return td.generate((x.shape[0], 3), lambda i, k: length[i] * (k + 1))

    assert len(kernels(basis, x)) == 1
    assert len(kernels(lambda x, a: basis(x) * a[:, :3] + 1, x, a)) == 1
    # Sums, and elements of other rows, read it from memory.
    assert len(kernels(lambda x: td.sum(basis(x), axis=-1), x)) == 2
    assert len(kernels(lambda x: basis(x)[:, None] * td.ones((50, 40, 3)), x)) == 2
    # With a schedule, elements are computed one by one.
    assert len(kernels(lambda x: basis(x).scheduled(td.schedule.Column(8)), x)) == 2


def test_different_columns_are_different_elements():
    """A producer that is read at a[i, 0], a[i, 1] and a[i, 2] is computed once for each."""

    def f(a):
        b = td.exp(td.sin(a)) * td.cos(a)
        return b[:, 0] * b[:, 1] + b[:, 2]

    program = td.jit(f, backend="native").lower(np.ones((50, 3)))
    assert len(program.kernels) == 1

    def twice(a):
        b = td.exp(td.sin(a)) * td.cos(a)
        return b[:, 0] * b[:, 1] + td.roll(b[:, 0], 1)

    program = td.jit(twice, backend="native").lower(np.ones((50, 3)))
    assert len(program.kernels) == 2


@pytest.mark.parametrize("backend", ["native", "cuda"])
def test_the_adjoint_of_a_slice_with_a_step_is_inlined(backend):
    """Windows of zeros in between are not stored: the elements are summed by their remainders."""

    def cost(x, w):
        windows = td.sliding_window_view(x, (3, 3), axis=(1, 2))[:, ::2, ::2]
        return td.sum(td.einsum("nhwcij,ijcf->nhwf", windows, w) ** 2)

    x, w = np.ones((2, 9, 9, 4)), np.ones((3, 3, 4, 5))
    program = td.jit(td.grad(cost), backend="native").lower(x, w)
    kernels = program._on(backend).kernels
    shapes = [k.outputs[0].shape for k in kernels if "adjoint" in str(k.label)]
    (classes,) = [shape for shape in shapes if len(shape) > 4]
    assert classes[:2] == (constant(2), constant(2)) and len(classes) == 6


def test_what_is_selected_by_indices():
    x, chosen = td.use(np.ones(50)), td.use(np.ones(50, np.int64))

    def selects(condition, then):
        def element(i, j):
            return td.cond(condition(i, j), then(i, j), 0.0)

        return cost.is_selection(node_of(td.generate((50, 3), element)).elements)

    assert selects(lambda i, j: (i + j) % 2 == 0, lambda i, j: x[i // 2])
    assert not selects(lambda i, j: chosen[i] == j, lambda i, j: x[i])
    assert not selects(lambda i, j: i > j, lambda i, j: x[i] * 2)
