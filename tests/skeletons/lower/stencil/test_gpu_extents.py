"""Stencils for a GPU: every boundary, radius and extent; staged or not; schedules."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

import treadle as td
from tests.skeletons.ir.interpret import evaluate, holds
from tests.skeletons.ir.simt import run, run_array
from tests.skeletons.lower.gpu_cases import agrees, data, same
from treadle.dsl.operations import stencils
from treadle.dsl.passes import run_passes
from treadle.dsl.process.configuration import Settings
from treadle.dsl.target import CUDA
from treadle.skeletons import schedules as sc
from treadle.skeletons.lower.lower import LoweringContext, lower
from treadle.skeletons.lower.stencil import gpu_kernel as stencil_kernel

pytestmark = pytest.mark.sample(2)

NAMED = ("clamp", "mirror", "symmetric", "wrap")
SHAPES = ((0,), (1,), (2,), (31,), (257,), (1021,), (0, 3), (3, 0), (1, 1), (1, 70), (70, 1),
          (2, 2), (33, 31), (64, 64), (37, 257), (130, 66), (2, 3, 4), (5, 1, 6), (9, 10, 35),
          (17, 16, 33))  # fmt: skip


def boundary(name):
    if name == "constant":
        return td.constant(7)
    if name == "function":
        return td.function(lambda *ix: sum((3 + 10 * k) * i for k, i in enumerate(ix)) + 1000)
    return getattr(td, name)


def weighted(offsets):
    return lambda w: sum(w[o] * (2 * k + 1) for k, o in enumerate(offsets))


@pytest.mark.parametrize("name", [*NAMED, "constant", "function"])
@pytest.mark.parametrize("shape", SHAPES)
def test_boundaries(shape, name):
    a = data(shape, high=1000)
    for radius in (1, 2):
        offsets = list(itertools.product((-radius, 0, radius), repeat=len(shape)))
        agrees(td.stencil(weighted(offsets), a, boundary=boundary(name)), f"radius {radius}")
    lopsided = [(-1,) * len(shape), (0,) * len(shape), (2, *(0,) * (len(shape) - 1))]
    agrees(td.stencil(weighted(lopsided), a, boundary=boundary(name)), check=True, seed=1)


@pytest.mark.parametrize("name", NAMED)
def test_far_and_wide(name):
    for n in (1, 5, 100, 513):
        agrees(td.stencil(weighted([-40, 0, 35]), data(n), boundary=boundary(name)))
    box = list(itertools.product(range(-4, 5), range(-3, 4)))
    for shape in ((3, 3), (40, 75), (65, 130)):
        agrees(td.stencil(weighted(box), data(shape), boundary=boundary(name)))


@pytest.mark.sample(1)
@pytest.mark.parametrize(("longest", "blocks"), [(128, 2), (8, 4)])
def test_a_block_for_each_multiprocessor(longest, blocks, monkeypatch):
    """Where there are threads for all of them: whole waves."""
    monkeypatch.setattr(stencil_kernel, "LONGEST", longest)
    box = list(itertools.product(range(-4, 5), repeat=2))
    made = td.stencil(weighted(box), data((300, 268), "float32", high=5))
    (leaf,) = made._leaves
    (kernel,) = lower(leaf.node, LoweringContext(target=CUDA, threads=2)).kernels
    hosts = zip(kernel.scalars, kernel.scalar_values, strict=True)
    known = {scalar: evaluate(host, {}, {}) for scalar, host in hosts}
    assert kernel.threads == stencil_kernel.RESIDENT_HEAVY
    assert all(holds(c, known) for c in kernel.requires)
    assert evaluate(kernel.tasks, known, {}) == blocks
    agrees(made, multiprocessors=2)


@pytest.mark.parametrize("name", ["uint8", "int16", "float32", "float64", "complex64"])
def test_types(name):
    star = [(0, 0), (-1, 0), (1, 0), (0, -1), (0, 1)]
    for shape in ((33, 70), (64, 256)):
        agrees(td.stencil(lambda w: sum(w[o] for o in star), data(shape, name, high=3)))


def test_several_arrays():
    a, b = data((35, 68), "int32"), data((35, 68), "int64", 1)
    made = td.stencil(lambda u, v: u[0, 1] * 2 + v[-1, 0] + v[0, 0], a, b)
    agrees(made)
    pairs = td.stencil(lambda w: (w[0, -1][0], w[1, 0][1]), td.zip(a, b), boundary=td.wrap)
    agrees(pairs)


def test_of_a_computed_array():
    a = td.use(data((35, 68)))
    agrees(td.stencil(weighted([(0, 0), (1, 1), (-1, 0)]), a * a))


VIEWS = {
    "slice": lambda a: a[1:-1, 4:],
    "tail": lambda a: a[5:],
    "turned": lambda a: a.T[:, 1:],
    "reversed": lambda a: a[::-1, ::-1],
    "steps": lambda a: a[::2, 1::3],
    "computed": lambda a: (a * 3 + 1)[2:, :-4],
}
STARS = {
    "rows at once": [(0, 0), (-1, 0), (2, 0), (0, -1), (0, 2)],
    "a walk": [(r, c) for r in range(-4, 5, 2) for c in (-1, 0, 3)],
}


@pytest.mark.parametrize("name", [*NAMED, "constant", "function"])
@pytest.mark.parametrize("view", VIEWS)
def test_views(view, name):
    for (label, star), shape in zip(STARS.items(), ((12, 36), (20, 36)), strict=True):
        made = td.stencil(weighted(star), VIEWS[view](td.use(data(shape, "int32"))),
                          boundary=boundary(name))  # fmt: skip
        (got,) = run(*run_passes(made._leaves, Settings(), "cuda").roots)
        same(got, td.run(made, backend="reference"), label)


@pytest.mark.parametrize("view", ["slice", "tail", "computed"])
@pytest.mark.parametrize("star", STARS.values(), ids=STARS)
def test_views_are_stencils(view, star):
    """Warps inside read plainly: places are resolved at borders only."""
    program = td.jit(lambda a: td.stencil(weighted(star), VIEWS[view](a)))
    text = program.lower(data((36, 72), "int32")).source("cuda")
    inside = text.split("if (plain) {")[1].split("} else {")[0]
    assert "quotient" not in inside
    assert not re.search(r"\ba\[[^\]]*(min|max|remainder)\(", inside)


@pytest.mark.long
def test_run_time_weights(monkeypatch):
    weights, even = data((3, 5), seed=1), data((4, 2), seed=1)
    agrees(td.correlate(data((20, 40)), weights))
    monkeypatch.setattr(stencils, "UNROLLED_TAPS", 0)
    for shape in ((20, 40), (2, 3), (0, 4)):
        for name in ("clamp", "wrap", "constant"):
            agrees(td.correlate(data(shape), weights, boundary=boundary(name)))
        agrees(td.convolve(data(shape), even, boundary=boundary("mirror")))


@pytest.mark.sample(4)
@pytest.mark.parametrize("schedule", [
    sc.PerThread(rows=4), sc.Row() | sc.Block(8, 32), sc.Column(8),
    sc.Row() | sc.Block(4, 64) | sc.PerThread(rows=2), sc.Morton(), sc.Tile(4, 8) | sc.Block(8, 8),
], ids=repr)  # fmt: skip
def test_schedules(schedule):
    star = [(0, 0), (-1, 0), (1, 0), (0, -1), (0, 1)]
    for shape in ((1, 1), (7, 31), (64, 64), (35, 130)):
        a = np.random.default_rng(0).random(shape)
        made = td.stencil(weighted(star), a, boundary=td.mirror)
        same(run_array(made, schedule=schedule), td.run(made, backend="reference"), repr(shape))


def test_strided_inputs():
    base = data((60, 140), "int32", high=100)
    for view in (base[::2, ::-3], base.T, base[3:50, 4:]):
        x = td.use(view)
        made = td.stencil(weighted([(0, 0), (-1, 0), (1, 2)]), x)
        (got,) = run(*made._leaves, strided=frozenset([x._leaves[0]]))
        same(got, td.run(made, backend="reference"))


def test_deep_nests_are_not_written_out():
    """Nine loops would be 3⁹ reads: such a nest is no window, whatever its extents."""

    def program(a):
        n, m = a.shape

        def level(depth, at, total):
            if depth == 9:
                return total + a[(at[0] + at[1]) % n, (at[7] + at[8]) % m]
            count = (n, m)[depth % 2]
            return td.loop(count, lambda k, s: level(depth + 1, (*at, k), s), total)

        return td.generate((n, m), lambda i, j: level(0, (), 0.0 * a[i, j]))

    text = td.jit(program).lower(np.ones((2, 2))).source("cuda")
    assert "shape[0] == 3" not in text
    assert text.count("for (") >= 9


def test_windows_of_several_extents_are_written_out():
    """Loops over two counts are a window up to 9 × 9 points."""

    def program(a, w):
        n, m = w.shape
        return td.generate(
            (a.shape[0] - n, a.shape[1] - m),
            lambda i, j: td.loop(n, lambda k, s: td.loop(
                m, lambda l, s: s + a[i + k, j + l] * w[k, l], s), 0.0),
        )  # fmt: skip

    text = td.jit(program).lower(np.ones((64, 64)), np.ones((3, 3))).source("cuda")
    assert all(f"w.shape[0] == {n}" in text for n in (3, 5, 7, 9))
