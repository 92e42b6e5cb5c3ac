"""Folds on a CPU visit elements in the order of the memory that they read."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.dsl.graph import Fold, Leaf, topological
from treadle.skeletons.lower.build import LoweringContext
from treadle.skeletons.lower.fold.memory_order import Visited, visited
from treadle.skeletons.schedules import Block, Row

EXTENTS = 5, 70, 3
ORDERS = list(itertools.permutations(range(3)))
AXES = (0, 1, 2, (0, 1), (0, 2), (1, 2), (0, 1, 2))


def in_layout(order: tuple[int, ...], seed: int = 0, t: Any = np.float64) -> Any:
    """An array of shape EXTENTS that is dense with its axes in another order."""
    extents = [EXTENTS[k] for k in order]
    dense = (100 * np.random.default_rng(seed).random(extents)).astype(t)
    return dense.transpose(np.argsort(order))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("axes", AXES)
def test_every_order_and_axis(order: tuple[int, ...], axes: Any) -> None:
    a, b, k = in_layout(order), in_layout((2, 0, 1), 1), in_layout(order, 2, np.int32)
    rest = np.sum(a, axis=axes)

    def results(a: Any, b: Any, k: Any, rest: Any) -> Any:
        total = td.sum(a * b, axis=axes)
        return total * 2 + rest, td.max(a, axis=axes), td.sum(k, axis=axes), td.any(a < 1, axes)

    found = td.jit(results, backend="native")(a, b, k, rest)
    dense = map(np.ascontiguousarray, (a, b, k, rest))
    of_dense = td.jit(results, backend="native")(*dense)
    np.testing.assert_allclose(found[0], (a * b).sum(axes) * 2 + rest, rtol=1e-12)
    assert np.array_equal(found[1], a.max(axes))
    assert np.array_equal(found[2], k.sum(axes))
    assert np.array_equal(found[3], (a < 1).any(axes))
    assert all(x.tobytes() == y.tobytes() for x, y in zip(found[1:], of_dense[1:], strict=True))


@pytest.mark.parametrize("order", ORDERS)
def test_positions_and_functions_that_do_not_commute(order: tuple[int, ...]) -> None:
    a = in_layout(order, 3, np.int64) % 7  # with many equal elements

    def results(a: Any) -> Any:
        last = lambda x, y: y
        pair = td.fold1(last, a, axis=1), td.fold1(last, a, axis=None)
        return td.argmax(a), td.argmax(a, axis=1), td.argmin(a, axis=0), *pair

    found = td.jit(results, backend="native")(a)
    want = a.argmax(), a.argmax(1), a.argmin(0), a[:, -1], a[-1, -1, -1]
    assert all(np.array_equal(x, y) for x, y in zip(found, want, strict=True))


@pytest.mark.parametrize("order", ORDERS)
def test_deterministic_sums_have_the_bits_of_dense_arrays(order: tuple[int, ...]) -> None:
    a = in_layout(order)
    for axes in AXES:
        f = td.jit(lambda a, axes=axes: td.sum(a, axes, deterministic=True), backend="native")
        assert np.asarray(f(a)).tobytes() == np.asarray(f(np.ascontiguousarray(a))).tobytes()


@pytest.mark.sample(4)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("axes", AXES)
def test_rows_of_several_blocks(order: tuple[int, ...], axes: Any) -> None:
    """Results are combined from those of blocks, and columns are those of several tasks."""
    dense = np.random.default_rng(5).integers(-9999, 9999, (37, 2100, 11))
    a = np.ascontiguousarray(dense.transpose(order)).transpose(np.argsort(order))
    both = td.jit(lambda a: (td.sum(a, axis=axes), td.max(a / 7, axis=axes)), backend="native")(a)
    assert np.array_equal(both[0], dense.sum(axes))
    assert np.array_equal(both[1], (dense / 7).max(axes))


def test_sums_of_few_elements_run_from_left_to_right() -> None:
    """One axis of fewer than 64: the bits do not depend on the layout."""
    dense = np.random.default_rng(4).random((40, 60, 6))
    for order in ORDERS:
        a = np.ascontiguousarray(dense.transpose(order)).transpose(np.argsort(order))
        for axis in range(3):
            f = td.jit(lambda a, axis=axis: td.sum(a * a, axis=axis), backend="native")
            assert f(a).tobytes() == f(dense).tobytes(), (order, axis)


def found(f: Any, a: Any, order: tuple[int, ...] = ()) -> Visited:
    """How the fold of a program visits its elements if its argument is dense in an order."""
    program = td.jit(f, backend="native").lower(a)
    (node,) = [n for n in topological(program.roots) if isinstance(n, Fold)]
    (leaf,) = {Leaf(i, 0) for i in program.inputs}
    steps = {(leaf, order[-1], 1, order)} if order else set()
    strided = {leaf} if order else set()
    return visited(node, LoweringContext(strided=frozenset(strided), steps=frozenset(steps)))


def test_orders() -> None:
    a = np.zeros((8, 9, 10))
    # The last two axes of the results are next to each other in memory, and so are all of them.
    assert found(lambda a: td.max(a, axis=0), a).groups == ((0, 1),)
    assert found(lambda a: td.sum(a, axis=0), a).groups == ((0, 1),)
    assert found(lambda a: td.sum(a, axis=1), a).groups == ((0,), (1,))
    assert found(lambda a: td.sum(a, axis=0), a, (2, 1, 0)).groups == ((1, 0),)
    assert found(lambda a: td.sum(a, axis=1), a, (2, 1, 0)).groups == ((1,), (0,))
    # All of an array, and rows of three colours: what is folded is one row of memory.
    whole = found(lambda a: td.max(a), a, (2, 1, 0)).node
    assert [n.axis for n in whole.inner] == [2, 1, 0]  # type: ignore[attr-defined]
    # A read with other axes beside this one keeps axes apart.
    mixed = found(lambda a: td.max(a + td.iota(a.shape[2]), axis=0), a)
    assert mixed.groups == ((0,), (1,))
    # A transpose of floats is summed as it is written; maxima have the same bits in every order.
    assert found(lambda a: td.sum(td.transpose(a, (2, 1, 0)), axis=1), a).groups == ((0,), (1,))
    assert found(lambda a: td.max(td.transpose(a, (2, 1, 0)), axis=1), a).groups == ((1,), (0,))


def test_folds_with_a_schedule_and_deterministic_ones_keep_their_order() -> None:
    a, order = np.zeros((8, 9, 10)), (2, 1, 0)
    kept = ((0,), (1,))
    assert found(lambda a: td.sum(a, 0, deterministic=True), a, order).groups == kept
    assert found(lambda a: td.sum(a, 0, schedule=Row() | Block(4, 4, 4)), a, order).groups == kept
