"""Passes of several iterations that store planes, or read windows of stored ones: the bits of
single iterations, by the SIMT interpreter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.skeletons.ir.simt import execute
from treadle.dsl.expr import Extent, constant, walk
from treadle.dsl.graph import ArrayLoop, topological
from treadle.dsl.target import CUDA
from treadle.skeletons.lower.build import LoweringContext
from treadle.skeletons.lower.lower import lower
from treadle.skeletons.lower.stencil import gpu_temporal as temporal
from treadle.skeletons.lower.stencil.iterations import records_of

pytestmark = pytest.mark.sample(2)

CONTEXT = LoweringContext(target=CUDA, threads=132)
COUNT = 12
Step = Callable[[Any], Any]


def rolled(u: Any) -> Any:
    return td.roll(u, 1, 0) + td.roll(u, -1, 0) + td.roll(u, 1, 1) - td.roll(u, -1, 1) * 2


def stencil(boundary: Any) -> Step:
    return lambda u: td.stencil(
        lambda w: w[-1, 0] + w[1, 0] * 2 + w[0, -1] - w[0, 1], u, boundary=boundary
    )


NEIGHBOURS = {
    "roll": rolled, "clamp": stencil(td.clamp), "constant": stencil(td.constant(2)),
    "mirror": stencil(td.mirror), "symmetric": stencil(td.symmetric),
}  # fmt: skip


def loops(f: Callable[..., Any], *arguments: Any) -> list[ArrayLoop]:
    program = td.jit(f, backend="native").lower(*arguments)._on("cuda")
    return [n for n in topological(program.roots) if isinstance(n, ArrayLoop)]


def same_as_single(loop: ArrayLoop, begin: int = 0) -> int:
    """The most iterations of a pass; after passes from iteration `begin` on, states and stored
    planes have the bits of single iterations."""
    random = np.random.default_rng(1)
    order = list(topological(loop.body))
    inside = loop.varying(order)
    shape = (40, 72)
    arrays: dict[Any, Any] = {}
    steps = [n for n in order if n in inside and n not in loop.state and n is not loop.index]
    extents = (e.node for n in order for e in walk(n.expressions()) if isinstance(e, Extent))
    for node in dict.fromkeys((*order, *extents)):
        for leaf in () if node in steps else node.leaves:
            planes = (COUNT + 1,) * (len(leaf.shape) - 2)
            given = random.integers(-3, 4, (*planes, *shape)) if leaf.shape else begin
            arrays[leaf] = np.asarray(given, leaf.type.numpy)
    found = 0
    for whole in (True, False):
        made = temporal.temporal(loop, CONTEXT, whole)
        if made is None:
            continue
        (kernel,) = made.lowered.kernels
        for count in made.steps:
            single = {leaf: a.copy() for leaf, a in arrays.items()}
            for _ in range(count):
                for node in steps:
                    execute(lower(node, CONTEXT), node, single, {}, 0)
                after = [single[leaf] for leaf in loop.body]
                single.update((s.leaf(), a) for s, a in zip(loop.state, after, strict=True))
                single[loop.index.leaf()] = single[loop.index.leaf()] + 1
            passed = {leaf: a.copy() for leaf, a in arrays.items()}
            values = tuple(
                constant(count) if v.name == temporal.COUNT else e
                for v, e in zip(kernel.scalars, kernel.scalar_values, strict=True)
            )
            launched = replace(kernel, scalar_values=values)
            execute(replace(made.lowered, kernels=(launched,)), made.node, passed, {}, 0)
            for k, leaf in zip(made.states, made.node.leaves, strict=True):
                np.testing.assert_array_equal(passed[leaf], single[loop.state[k].leaf()])
            for k in made.records:
                leaf = loop.state[k].leaf()
                np.testing.assert_array_equal(passed[leaf], single[leaf])
            found = max(found, count)
    return found


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_gradients_of_loops(name: str) -> None:
    """Of a loop that stores its states, and of the reversed one that reads them."""
    near = NEIGHBOURS[name]

    def f(u: Any, k: Any) -> Any:
        return td.sum(td.iterate(COUNT, lambda u: u + k * (near(u) - u) * u, u))

    g = td.value_and_grad(f, argnums=(0, 1))
    storing, back = loops(g, *np.ones((2, 40, 72), "f4"))
    assert records_of(storing) and not records_of(back)
    assert same_as_single(storing, 3) > 2
    assert same_as_single(back, 2) > 1 or name == "mirror"  # whose adjoint depends on the extents


@pytest.mark.parametrize("name", ["roll", "constant"])
def test_planes_that_nothing_reads(name: str) -> None:
    """Every iteration of a pass stores its own."""
    near = NEIGHBOURS[name]

    def step(k: Any, state: Any) -> Any:
        u, before, kept = state
        return near(u) - before, u, kept.at[COUNT - k].set(u * 2 + before)

    def f(u: Any, v: Any, kept: Any) -> Any:
        return td.loop(COUNT, step, (u, v, kept))

    (loop,) = loops(f, *np.zeros((2, 40, 72), "i4"), np.zeros((COUNT + 1, 40, 72), "i4"))
    assert [*records_of(loop)] == [2]
    assert same_as_single(loop, 1) > 2


def test_planes_that_may_not_be_there() -> None:
    """A loop that reads another plane than the last, or writes some planes twice."""

    def steps(place: Callable[[Any], Any], seen: Callable[[Any], Any]) -> ArrayLoop:
        def step(k: Any, state: Any) -> Any:
            u, kept = state
            return rolled(u) + kept[seen(k)], kept.at[place(k)].set(u)

        start = np.zeros((40, 72), "i4"), np.zeros((COUNT + 1, 40, 72), "i4")
        (found,) = loops(lambda *s: td.loop(COUNT, step, s), *start)
        return found

    assert same_as_single(steps(lambda k: k + 1, lambda k: k), 1) > 2
    for other in (steps(lambda k: k + 2, lambda k: k), steps(lambda k: k, lambda k: k + 1),
                  steps(lambda k: k // 2, lambda k: k // 2), steps(lambda k: k * 2, lambda k: k),
                  steps(lambda k: 3, lambda k: 3)):  # fmt: skip
        assert all(temporal.temporal(other, CONTEXT, whole) is None for whole in (True, False))
