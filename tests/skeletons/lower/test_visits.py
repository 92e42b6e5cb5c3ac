"""The numbering of leaves: emitted code says what NumPy says, and no leaf is lost or repeated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import treadle as td
from tests.skeletons.schedules.strategies import PARAMETRIC
from treadle.dsl import simplify
from treadle.dsl.expr import Var
from treadle.dsl.target import CUDA, NATIVE, Target
from treadle.dsl.types import int64
from treadle.skeletons.ir.kernel import Kernel, Lowered, Store
from treadle.skeletons.lower.build import Builder, LoweringContext
from treadle.skeletons.lower.gpu.common import Threads
from treadle.skeletons.lower.visits import WHOLE, Visits
from treadle.skeletons.schedules import (
    Block,
    Column,
    Hilbert,
    Lanes,
    Morton,
    PerThread,
    PlaneOrder,
    Row,
    Swizzle,
    Table,
    Tile,
    ZigZag,
    as_schedule,
    evaluate,
)
from treadle.skeletons.schedules.examine import ascends


class Upwards(PlaneOrder):
    """A user's own."""

    def plane(self, i: Any, height: Any, width: Any) -> tuple[Any, Any]:
        return height - 1 - i // width, i % width


def expected(schedule: Any, shape: Sequence[int], leaf: Sequence[int]) -> np.ndarray:
    """Place and existence for every number, by NumPy."""
    plan = as_schedule(schedule).resolve(len(shape), leaf=leaf)
    leaves = tuple(-(-n // size) for n, size in zip(shape, leaf, strict=True))
    unit = math.prod(plan.unit)
    count = int(plan.linear_size(leaves)) * unit
    numbers = np.arange(count)
    corner = plan.origin(numbers // unit, leaves)
    own = [p if u % p == 0 else 1 for u, p in zip(plan.unit, plan.per_thread, strict=True)]
    axes = [k for k in range(plan.ndim) if k != plan.lanes] + [plan.lanes]
    local = numbers % unit
    patches = np.unravel_index(local // math.prod(own), [plan.unit[k] // own[k] for k in axes])
    inside = np.unravel_index(local % math.prod(own), own)
    place = [
        c + patches[axes.index(k)] * own[k] + inside[k]
        for k, c in enumerate(np.broadcast_arrays(*corner))
    ]
    exists = np.logical_and.reduce([p < n for p, n in zip(place, leaves, strict=True)])
    return np.stack([*place, exists])


def numbering(schedule: Any, shape: Sequence[int], leaf: Sequence[int], target: Target
              ) -> tuple[Lowered, Any, Any]:  # fmt: skip
    """Kernels that store the place of every number; their node and its input."""
    source = td.use(np.zeros(tuple(shape), np.int8))
    size = expected(schedule, shape, leaf).shape[1]
    zeros = (0,) * (len(shape) + 1)
    node = td.generate((size,), lambda i: tuple(source.shape[0] * 0 + z for z in zeros))
    node = node._leaves[0].node
    given_by_user = as_schedule(schedule)
    builder = Builder(node, LoweringContext(target=target, schedule=given_by_user))
    outs = builder.outputs()
    grid = [simplify.cast(e, int64) for e in source._leaves[0].node.shape]
    from treadle.skeletons.ir import arithmetic as at

    grid = [at.ceil_div(n, size) for n, size in zip(grid, leaf, strict=True)]
    visits = Visits.of(builder, grid, leaf)
    assert visits is not None
    into = builder.emitter()

    def store(number: Any) -> None:
        exists, place = visits.at(into, number)
        for out, value in zip(outs, (*place, exists), strict=True):
            into.append(Store(out, number, simplify.cast(value, int64)))

    if target.gpu:
        threads = Threads.of(64)
        number = into.let(threads.ident, "number")
        with into.when(at.less(number, visits.total)):
            store(number)
        tasks = builder.scalar(at.ceil_div(visits.total_host, 64), "blocks")
        kernel = builder.kernel("", tasks, threads.task, tuple(into.out), **threads.launch())
    else:
        task = Var("task", int64)
        with into.loop("number", 0, visits.total, "vector") as number:
            store(number)
        kernel = builder.kernel("", at.integer(1), task, tuple(into.out))
    return builder.lowered(kernel), node, source


def interpreted(schedule: Any, shape: Sequence[int], leaf: Sequence[int], target: Target) -> Any:
    from tests.skeletons.ir import interpret, simt

    lowered, node, source = numbering(schedule, shape, leaf, target)
    held = source._leaves[0]
    arrays = {held: held.node.source}
    (simt if target.gpu else interpret).execute(lowered, node, arrays, {}, 0)
    return np.stack([arrays[leaf] for leaf in node.leaves])


def compiled(schedule: Any, shape: Sequence[int], leaf: Sequence[int]) -> Any:
    from tests.skeletons.ir import interpret
    from treadle.backend.native.codegen.compile import compile_kernel
    from treadle.skeletons.ir.narrow import narrow

    lowered, node, source = numbering(schedule, shape, leaf, NATIVE)
    kernel: Kernel = narrow(lowered.kernels[0], indices=False) or lowered.kernels[0]
    held = source._leaves[0]
    arrays = {held: held.node.source}
    scalars = [interpret.evaluate(h, {}, arrays) for h in kernel.scalar_values]
    size = expected(schedule, shape, leaf).shape[1]
    outs = {o: np.zeros(size, np.int64) for o in node.leaves}
    addresses = [outs[b.leaf].ctypes.data for b in kernel.buffers]
    compile_kernel(kernel).bind()(addresses, scalars, 1)
    return np.stack([outs[o] for o in node.leaves])


CASES: list[tuple[Any, tuple[int, ...], tuple[int, ...]]] = [
    (Column(3), (7, 11), (1, 1)),
    (ZigZag(4), (5, 9), (1, 1)),
    (Tile(2, 3), (7, 8), (1, 1)),
    (Swizzle(3), (8, 5), (1, 1)),
    (Morton(), (5, 9), (1, 1)),
    (Hilbert(), (6, 7), (1, 1)),
    (Upwards(), (4, 5), (1, 1)),
    (Column(8) | Block(4, 8), (23, 40), (2, 4)),
    (Hilbert() | Block(6, 8) | PerThread(rows=2, cols=2), (2, 7, 9), (1, 1, 1)),
    (ZigZag(64) | Block(16, 32) | Lanes(0), (50, 90), (4, 16)),
    (Table([3, 0, 2, 1, 5, 4]), (40, 3), (20, 1)),
    (Morton(), (100, 9), (WHOLE, 2)),
    (Block(32) | PerThread(cols=4), (1021,), (8,)),
]


@pytest.mark.sample(6)
@pytest.mark.parametrize(("schedule", "shape", "leaf"), CASES, ids=str)
def test_emitted_code_is_what_numpy_says(schedule: Any, shape: Any, leaf: Any) -> None:
    want = expected(schedule, shape, leaf)
    assert np.array_equal(interpreted(schedule, shape, leaf, NATIVE), want)
    assert np.array_equal(interpreted(schedule, shape, leaf, CUDA), want)


@pytest.mark.parametrize(("schedule", "shape", "leaf"), CASES[:10:2], ids=str)
def test_compiled_by_llvm_it_is_the_same(schedule: Any, shape: Any, leaf: Any) -> None:
    assert np.array_equal(compiled(schedule, shape, leaf), expected(schedule, shape, leaf))


sides = st.sampled_from([1, 2, 3, 5, 8])


@settings(max_examples=150, deadline=None)
@given(st.one_of(*PARAMETRIC.values()), st.data())
def test_every_leaf_is_visited_once(order: Any, data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 4))
    shape = tuple(data.draw(st.sampled_from([1, 2, 7, 9, 16])) for _ in range(rank))
    leaf = tuple(data.draw(sides) for _ in range(rank))
    schedule = as_schedule(order)
    if data.draw(st.booleans()):
        own = [data.draw(st.sampled_from([1, 2])) for _ in range(2)]
        block = [own[k - rank] * data.draw(sides) if k >= rank - 2 else data.draw(sides)
                 for k in range(rank)]  # fmt: skip
        schedule = schedule | Block(*block)
        if rank > 1:
            schedule = schedule | PerThread(*own) | Lanes(data.draw(st.integers(0, rank - 1)))
    *place, exists = expected(schedule, shape, leaf)
    leaves = [-(-n // size) for n, size in zip(shape, leaf, strict=True)]
    seen = np.ravel_multi_index([p[exists == 1] for p in place], leaves)
    assert np.array_equal(np.sort(seen), np.arange(math.prod(leaves)))


@pytest.mark.parametrize("order", [Row(), Column(5), Tile(3, 4), Swizzle(3), Morton(),
                                   ZigZag(5), Hilbert(), Upwards()])  # fmt: skip
def test_which_orders_ascend(order: Any) -> None:
    shape = (6, 33)
    when = np.empty(shape, int)
    when[tuple(evaluate(order, shape).T)] = np.arange(math.prod(shape))
    assert ascends(order, 2) == bool((np.diff(when, axis=1) > 0).all())
    assert ascends(order, 1)
