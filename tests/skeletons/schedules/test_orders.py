"""Every order is a bijection, exactly the one its definition says, on every kind of number."""

from __future__ import annotations

import importlib
import itertools
import math
import operator
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.skeletons.schedules.strategies import PARAMETRIC, examples, shapes, table_for
from treadle.skeletons.schedules import (
    Column,
    Hilbert,
    Morton,
    Order,
    Row,
    ScheduleError,
    Swizzle,
    Table,
    Tile,
    ZigZag,
    arithmetic,
    draw,
    evaluate,
    inverse_table,
    padding,
)

CASES = 320
LONG_CASES = int(os.environ.get("TREADLE_LONG_CASES", "100000")) // (len(PARAMETRIC) + 1) + 1
quick = settings(max_examples=CASES, deadline=None, database=None)
long = settings(
    max_examples=LONG_CASES,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)


def is_bijection(order: Order, shape: tuple[int, ...]) -> None:
    count = math.prod(shape)
    points = evaluate(order, shape)
    assert points.shape == (count, len(shape)) and points.dtype == np.int64
    assert (points >= 0).all() and (points < np.array(shape)).all()
    if count:
        visited = np.ravel_multi_index(tuple(points.T), shape)
        assert np.array_equal(np.sort(visited), np.arange(count))
    ids = inverse_table(order, shape)
    assert ids.shape == shape
    skipped = padding(order, shape)
    assert skipped == 0 if order.dense else 0 <= skipped <= 3 * count
    for i in {0, count // 2, count - 1} & set(range(count)):
        point = order.coordinates(i, shape)
        assert all(type(c) is int for c in point)
        inside = all(c < n for c, n in zip(point, shape, strict=True))
        assert order.dense <= inside
        assert not inside or ids[point] == i


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", PARAMETRIC)
def test_bijection(name: str) -> None:
    quick(given(PARAMETRIC[name], shapes())(is_bijection))()


@quick
@given(shapes(), st.integers(0, 2**32 - 1))
def test_table_is_a_bijection(shape: tuple[int, ...], seed: int) -> None:
    is_bijection(table_for(shape, seed), shape)


@pytest.mark.long
@pytest.mark.parametrize("name", PARAMETRIC)
def test_bijection_long(name: str) -> None:
    long(given(PARAMETRIC[name], shapes())(is_bijection))()


@pytest.mark.long
@long
@given(shapes(), st.integers(0, 2**32 - 1))
def test_table_is_a_bijection_long(shape: tuple[int, ...], seed: int) -> None:
    is_bijection(table_for(shape, seed), shape)


def points(order: Order, *shape: int) -> list[tuple[int, ...]]:
    return [tuple(point) for point in evaluate(order, shape).tolist()]


def grid(order: Order, *shape: int) -> list[list[int]]:
    """When each element is visited."""
    result = np.empty(shape, int)
    for when, point in enumerate(points(order, *shape)):
        result[point] = when
    table: list[list[int]] = result.tolist()
    return table


def test_row() -> None:
    assert grid(Row(), 2, 3) == [[0, 1, 2], [3, 4, 5]]
    assert points(Row(), 2, 2, 2) == list(itertools.product(range(2), repeat=3))


def test_column() -> None:
    assert grid(Column(2), 3, 5) == [[0, 1, 6, 7, 12], [2, 3, 8, 9, 13], [4, 5, 10, 11, 14]]
    assert grid(Column(8), 2, 3) == grid(Row(), 2, 3)
    assert grid(Column(1), 2, 3) == [[0, 2, 4], [1, 3, 5]]


def test_zigzag() -> None:
    assert grid(ZigZag(2), 3, 5) == [[0, 1, 6, 7, 12], [3, 2, 9, 8, 13], [4, 5, 10, 11, 14]]
    assert grid(ZigZag(3), 2, 4) == [[0, 1, 2, 6], [5, 4, 3, 7]]


def test_tile() -> None:
    assert grid(Tile(2, 2), 3, 5) == [[0, 1, 4, 5, 8], [2, 3, 6, 7, 9], [10, 11, 12, 13, 14]]


def test_swizzle() -> None:
    assert grid(Swizzle(2), 3, 3) == [[0, 2, 4], [1, 3, 5], [6, 7, 8]]


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 12))
@settings(max_examples=100, deadline=None)
def test_swizzle_is_column_transposed(height: int, width: int, group: int) -> None:
    swizzled = evaluate(Swizzle(group), (height, width))
    columns = evaluate(Column(group), (width, height))
    assert np.array_equal(swizzled, columns[:, ::-1])


@pytest.mark.parametrize("shape", [(5, 7), (8, 3), (1, 9), (16, 16)])
@pytest.mark.parametrize("group", [1, 2, 4, 8])
def test_swizzle_is_tritons_grouped_ordering(shape: tuple[int, int], group: int) -> None:
    rows, cols = shape
    expected = []
    for pid in range(rows * cols):  # the matrix product of Triton's tutorial
        first = pid // (group * cols) * group
        size = min(rows - first, group)
        expected.append((first + pid % (group * cols) % size, pid % (group * cols) // size))
    assert points(Swizzle(group), *shape) == expected


def test_morton() -> None:
    assert grid(Morton(), 4, 4) == [[0, 1, 4, 5], [2, 3, 6, 7], [8, 9, 12, 13], [10, 11, 14, 15]]
    assert grid(Morton(), 2, 4) == [[0, 1, 4, 5], [2, 3, 6, 7]]
    assert grid(Morton(), 4, 2) == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert grid(Morton(), 3, 3) == [[0, 1, 4], [2, 3, 5], [6, 7, 8]]


def test_morton_interleaves_bits() -> None:
    for i, (row, col) in enumerate(points(Morton(), 32, 32)):
        bits = sum((row >> k & 1) << (2 * k + 1) | (col >> k & 1) << (2 * k) for k in range(5))
        assert bits == i


def test_hilbert() -> None:
    assert grid(Hilbert(), 2, 2) == [[0, 3], [1, 2]]
    assert grid(Hilbert(), 4, 4) == [[0, 1, 14, 15], [3, 2, 13, 12], [4, 7, 8, 11], [5, 6, 9, 10]]
    assert points(Hilbert(), 8, 4)[-1] == (7, 0) and points(Hilbert(), 4, 8)[-1] == (0, 7)


@pytest.mark.parametrize(
    "shape",
    [(2, 2), (4, 4), (8, 8), (16, 16), (64, 64), (4, 16), (16, 4), (8, 24), (24, 8), (1, 9)],
)
def test_hilbert_never_jumps(shape: tuple[int, int]) -> None:
    steps = np.abs(np.diff(evaluate(Hilbert(), shape), axis=0)).sum(axis=1)
    assert (steps == 1).all()
    assert padding(Hilbert(), shape) == 0


def test_curves_at_the_size_of_real_images() -> None:
    for order in (Morton(), Hilbert()):
        size = order.linear_size((30000, 50000))
        assert size == 2**15 * 2**16
        assert all(c >= 0 for c in order.coordinates(size - 1, (30000, 50000)))


@pytest.mark.parametrize("order", examples(2))
def test_rank_one_is_left_to_right(order: Order) -> None:
    assert points(order, 7) == [(k,) for k in range(7)]
    assert points(order, 1, 7) == [(0, k) for k in range(7)]


@pytest.mark.parametrize("order", examples(2))
def test_leading_axes_are_outermost(order: Order) -> None:
    plane = points(order, 3, 5)
    assert points(order, 2, 2, 3, 5) == [
        (a, b, *point) for a in range(2) for b in range(2) for point in plane
    ]


def test_table() -> None:
    table = Table([2, 0, 3, 1])
    assert points(table, 4) == [(2,), (0,), (3,), (1,)]
    assert points(table, 2, 2) == [(1, 0), (0, 0), (1, 1), (0, 1)]
    with pytest.raises(ScheduleError, match=r"a Table for 4 ids cannot order shape \(5,\)"):
        evaluate(table, (5,))
    with pytest.raises(ScheduleError, match="a Table for 4 ids"):
        table.coordinates(0, (2, 3))
    fixed = Table([2, 0, 3, 1], shape=(2, 2))
    assert points(fixed, 2, 2) == points(table, 2, 2)
    with pytest.raises(
        ScheduleError, match=r"a Table for shape \(2, 2\) cannot order shape \(4,\)"
    ):
        evaluate(fixed, (4,))


def test_rank_zero_has_one_element() -> None:
    for order in (Row(), Column(3), Hilbert()):
        assert evaluate(order, ()).shape == (1, 0)


@quick
@given(st.one_of(*PARAMETRIC.values()), shapes(), st.data())
def test_python_integers_and_numpy_agree(
    order: Order, shape: tuple[int, ...], data: st.DataObject
) -> None:
    size = order.linear_size(shape)
    if size == 0:
        return
    some = data.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=8))
    extents = tuple(np.full(len(some), n, np.int64) for n in shape)
    by_array = order.coordinates(np.array(some, np.int64), shape)
    by_arrays = order.coordinates(np.array(some, np.int64), extents)
    for k, i in enumerate(some):
        point = order.coordinates(i, shape)
        assert point == tuple(np.broadcast_to(c, len(some))[k] for c in by_array)
        assert point == tuple(np.broadcast_to(c, len(some))[k] for c in by_arrays)
    assert order.linear_size(extents)[0] == size


class Traced:
    """A stand-in for traced scalars: builds a graph, and refuses to have a value."""

    __array_ufunc__ = None

    def __init__(self, function: Callable[..., Any], *operands: Any) -> None:
        self.function, self.operands = function, operands

    def __bool__(self) -> bool:
        raise TypeError("a traced value has no truth")

    __int__ = __index__ = __float__ = __len__ = __iter__ = __bool__  # type: ignore[assignment]


def value_of(node: Any, memo: dict[Any, Any]) -> Any:
    """The value of a graph, every node computed once; ``memo`` holds those of the symbols."""
    if not isinstance(node, Traced):
        return node
    if node not in memo:
        memo[node] = node.function(*(value_of(x, memo) for x in node.operands))
    return memo[node]


def overload(name: str) -> None:
    function = getattr(operator, f"__{name}__")
    setattr(Traced, f"__{name}__", lambda a, b: Traced(function, a, b))
    setattr(Traced, f"__r{name}__", lambda a, b: Traced(function, b, a))


for _name in ("add", "sub", "mul", "floordiv", "mod", "lshift", "rshift", "and", "or", "xor"):
    overload(_name)
for _name in ("lt", "le", "gt", "ge"):
    overload(_name)


class TracedFunctions:
    """Stands in for the functions of the language."""

    def cast(self, value: Traced, dtype: type) -> Traced:
        assert dtype is np.int64
        return value

    def __getattr__(self, name: str) -> Any:
        return lambda *operands: Traced(getattr(arithmetic, name), *operands)


@settings(max_examples=60, deadline=None)
@given(st.one_of(*PARAMETRIC.values()), shapes())
def test_traced_definition_is_the_same(order: Order, shape: tuple[int, ...]) -> None:
    size = order.linear_size(shape)
    ids = np.unique(np.linspace(0, max(size - 1, 0), 20).astype(np.int64)).tolist() if size else []
    i, extents = Traced(int), tuple(Traced(int) for _ in shape)
    known = dict(zip(extents, shape, strict=True))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arithmetic, "functions", TracedFunctions())
        traced = order.coordinates(i, extents)
        whole = order.linear_size(extents)
    assert value_of(whole, dict(known)) == size
    for k in ids:
        memo = {**known, i: k}
        assert tuple(value_of(c, memo) for c in traced) == order.coordinates(k, shape)


@pytest.mark.parametrize("order", examples(2))
@pytest.mark.parametrize("shape", [(5, 7), (3,), (2, 3, 4), (1, 9), (9, 1), (70000, 40000)])
def test_scalars_of_the_language_agree(order: Order, shape: tuple[int, ...]) -> None:
    # Typed constants go through the language's own rules of types and fold to a number.
    pytest.importorskip("treadle.dsl.operations.elements.functions")
    int64 = importlib.import_module("treadle.dsl.types").int64
    extents = tuple(int64(n) for n in shape)
    size = order.linear_size(shape)
    assert int(order.linear_size(extents)) == size
    for i in (0, size // 3, size // 2, size - 1):
        point = order.coordinates(int64(i), extents)
        assert tuple(int(c) for c in point) == order.coordinates(i, shape)
        assert all(isinstance(c, int) or str(c.dtype) == "int64" for c in point)


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_clz_of_arrays(numbers: list[int]) -> None:
    counts = arithmetic.clz(np.array(numbers, np.int64))
    assert counts.tolist() == [arithmetic.clz(n) for n in numbers]


def test_pieces_of_rows_are_what_their_ends_say() -> None:
    """`Order.run`: what a backend concludes from the ends of a piece (and the second id)."""
    wrong = []
    extents = [(h, w) for h in range(1, 6) for w in range(1, 12)]
    extents += [(n, h, w) for n in (2, 3) for h in (1, 2, 3) for w in (1, 4, 5, 7, 9)]
    orders = [kind(w) for kind in (Column, ZigZag) for w in range(1, 6)]
    orders += [Tile(rows, cols) for rows in (1, 2, 3) for cols in range(1, 6)]
    for order, shape in itertools.product(orders, extents):
        assert order.run is not None
        points = evaluate(order, shape).tolist()
        for begin in range(0, len(points), order.run):
            piece = points[begin : begin + order.run]
            step = (piece[-1][-1] > piece[0][-1]) - (piece[-1][-1] < piece[0][-1])
            between = [[*piece[0][:-1], piece[0][-1] + step * k] for k in range(len(piece))]
            alike = piece[-1] == between[-1]
            if order.reverses:
                alike = alike and piece[min(1, len(piece) - 1)] == between[min(1, len(piece) - 1)]
            if alike and piece != between:
                wrong.append((order, shape, begin))
    assert not wrong, wrong[:3]


def test_what_is_too_large_is_not_drawn() -> None:
    with pytest.raises(ScheduleError, match="2,199,023,255,552 are too many"):
        draw(ZigZag(2), (2, 1 << 40))
