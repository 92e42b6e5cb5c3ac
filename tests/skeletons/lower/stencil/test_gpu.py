"""Stencils on a GPU, by the SIMT interpreter: walks, windows at once, iterations together."""

from __future__ import annotations

import functools
import itertools
from dataclasses import replace

import numpy as np
import pytest

import treadle as td
from tests.skeletons.ir.simt import execute, run_array
from treadle.dsl.expr import constant
from treadle.dsl.operations import stencils
from treadle.dsl.passes import run_passes
from treadle.dsl.process.configuration import Settings
from treadle.dsl.target import CUDA
from treadle.skeletons import schedules as sc
from treadle.skeletons.ir import kernel as ir
from treadle.skeletons.ir.verify import verify
from treadle.skeletons.lower.build import LoweringContext
from treadle.skeletons.lower.lower import lower
from treadle.skeletons.lower.stencil import (
    gpu as stencil,
    gpu_kernel as stencil_kernel,
    gpu_steps as stencil_steps,
    gpu_temporal as temporal,
)

pytestmark = pytest.mark.sample(1)

RANDOM = np.random.default_rng(0)
BOUNDARIES = [td.clamp, td.mirror, td.symmetric, td.wrap, td.constant(3)]
SHAPES = [(40, 64), (37, 29), (1, 1), (1, 8), (8, 1), (90, 4)]
CONTEXT = LoweringContext(target=CUDA, threads=132)
boundaries = pytest.mark.parametrize("boundary", BOUNDARIES, ids=lambda b: b.kind)
shapes = pytest.mark.parametrize("shape", SHAPES, ids=str)


def values(shape, dtype="f4", high=100):
    return RANDOM.integers(0, high, shape).astype(dtype)


def kernels(array):
    """The chain of variants of the one kernel of an array."""
    (kernel,) = lower(array._leaves[0].node, CONTEXT).kernels
    found = [kernel]
    while found[-1].fallback is not None:
        found.append(found[-1].fallback)
    return found


def text(kernel):
    return str(replace(kernel, fallback=None))


def same_as_reference(array, how="columns a thread"):
    """Computed as a stencil, with the bits of the reference."""
    assert any(how in c for c in kernels(array)[0].comments)
    got, want = run_array(array), td.run(array, backend="reference")
    assert got.dtype == want.dtype and np.array_equal(got, want, equal_nan=True)


def window(radius):
    return list(itertools.product(range(-radius, radius + 1), repeat=2))


def cross(w):
    return w[-1, 0] + w[0, -1] * 2 + w[0, 1] * 5 + w[1, 0] * 3


def median(w):
    v = [w[o] for o in window(1)]
    for i in range(9):
        for j in range(8 - i):
            v[j], v[j + 1] = td.minimum(v[j], v[j + 1]), td.maximum(v[j], v[j + 1])
    return v[4]


def life(w):
    around = sum(w[o] for o in window(1) if any(o))
    return td.where((around == 3) | ((around == 2) & (w[0, 0] == 1)), 1, 0).astype("uint8")


def sobel(w):
    gx = w[-1, 1] + 2 * w[0, 1] + w[1, 1] - w[-1, -1] - 2 * w[0, -1] - w[1, -1]
    gy = w[1, -1] + 2 * w[1, 0] + w[1, 1] - w[-1, -1] - 2 * w[-1, 0] - w[-1, 1]
    return td.sqrt(gx * gx + gy * gy)


@pytest.mark.sample(4)
@shapes
@boundaries
def test_a_few_rows_at_once(shape, boundary):
    same_as_reference(td.stencil(cross, values(shape), boundary=boundary), "elements a thread")


@shapes
@boundaries
def test_a_walk(shape, boundary):
    made = td.stencil(lambda w: sum(w[o] * (7 * o[0] + o[1] + 3) for o in window(3)),
                      values(shape), boundary=boundary)  # fmt: skip
    same_as_reference(made, "walking along axis 0")


@pytest.mark.parametrize(("rows", "ahead"), [(1, 0), (4, 0), (1, 1), (1, 3)])
@pytest.mark.parametrize("group", [1, 3, 100])
@pytest.mark.parametrize("longest", [4, 128])
def test_steps_and_ends_of_a_walk(rows, ahead, group, longest, monkeypatch):
    monkeypatch.setattr(stencil, "HEAVY_AHEAD", ahead)
    monkeypatch.setattr(stencil, "LIGHT_AHEAD", ahead)
    monkeypatch.setattr(stencil, "AT_ONCE", {})
    monkeypatch.setattr(stencil, "HEAVY_ROWS", rows)
    monkeypatch.setattr(stencil, "LIGHT_ROWS", rows)
    monkeypatch.setattr(stencil_steps, "END_GROUP", group)
    monkeypatch.setattr(stencil_kernel, "HEAVY_WORK", 0.0)
    monkeypatch.setattr(stencil_kernel, "SHORTEST", longest)
    monkeypatch.setattr(stencil_kernel, "LONGEST", longest)
    for shape, radius in [((23, 132), 2), ((6, 8), 3)]:
        terms = window(radius)
        a = values(shape)
        same_as_reference(td.stencil(lambda w, terms=terms: sum(w[o] * (o[0] - 2 * o[1])
                                                                for o in terms), a))  # fmt: skip


@pytest.mark.parametrize("f", [median, life, sobel])
@pytest.mark.parametrize("walked", [False, True])
def test_any_function_of_a_neighbourhood(f, walked, monkeypatch):
    if walked:
        monkeypatch.setattr(stencil, "AT_ONCE", {})
    for shape in [(33, 132), (20, 29)]:
        a = values(shape, "u1" if f is life else "f4", 2 if f is life else 100)
        same_as_reference(td.stencil(f, a, boundary=td.wrap), "a thread")


@pytest.mark.sample(2)
@shapes
@boundaries
@pytest.mark.parametrize("f", [cross, sobel], ids=["at once", "walk"])
def test_rows_of_an_array_of_more_axes(f, shape, boundary, monkeypatch):
    if f is sobel:
        monkeypatch.setattr(stencil, "AT_ONCE", {})
    table, other = values((4, *shape)), values(shape)
    row = td.use(table)[3 - td.the(td.use(np.array(2)))]
    for made in (
        td.stencil(f, row, boundary=boundary),
        td.stencil(lambda v, w: cross(v) * w[0, 0] - cross(w), row, other, boundary=boundary),
    ):
        (root,) = run_passes(made._leaves, Settings(), "cuda").roots
        inputs = root.node.inputs()
        assert {len(leaf.shape) for leaf in inputs} >= {0, 3}
        arrays = {leaf: np.ascontiguousarray(leaf.node.source) for leaf in inputs}
        lowered = lower(root.node, CONTEXT)
        assert any("a thread" in c for c in lowered.kernels[0].comments)
        execute(lowered, root.node, arrays, {}, 0)
        np.testing.assert_array_equal(arrays[root], td.run(made, backend="reference"))


def test_partial_results_are_carried_where_they_are_fewer(monkeypatch):
    monkeypatch.setattr(stencil, "AT_ONCE", {})
    monkeypatch.setattr(stencil, "HEAVY_ROWS", 1)
    monkeypatch.setattr(stencil, "LIGHT_ROWS", 1)
    monkeypatch.setattr(stencil, "LIGHT_AHEAD", 1)
    monkeypatch.setattr(stencil, "HEAVY_AHEAD", 1)
    a = values((40, 64))

    def comment(f):
        return kernels(td.stencil(f, a))[0].comments[-1]

    nine = window(4)
    assert "32 values" in comment(lambda w: sum(w[o] * (o[0] + 3 * o[1]) for o in nine))
    assert "12 values" in comment(median)  # two rows of 4 columns and their neighbours
    rows = [[(i, j) for j in range(-4, 5)] for i in range(-4, 5)]
    separable = functools.partial(lambda w: sum(sum(w[o] * (o[1] + 9) for o in r) * (r[0][0] + 7)
                                                for r in rows))  # fmt: skip
    same_as_reference(td.stencil(separable, a))
    body = text(kernels(td.stencil(separable, a))[0])
    assert body.count("* 12.0)") == 4 * 2  # a row is summed once, whichever rows use it


def test_neighbours_share_wide_loads():
    a = values((64, 64))
    kernel = kernels(td.stencil(lambda w: w[0, -1] + w[0, 2] + w[-1, 0] + w[1, 0], a))[0]
    loads = [s for s in ir.statements(kernel.body) if isinstance(s, ir.LoadVector)]
    assert {len(s.vars) for s in loads} == {4} and len(loads) == (6 + 4) + (6 + 8)
    assert kernel.fallback is not None and kernel.aligned


def test_two_inputs_and_their_types():
    for shape in [(33, 132), (7, 6)]:
        a, b = values(shape, "f8"), values(shape, "i2")
        made = td.stencil(lambda x, y: x[-2, 0] * y[0, 1] + x[1, 1] * y[2, 0] + y[0, -1], a, b,
                          boundary=(td.clamp, td.wrap))  # fmt: skip
        same_as_reference(made, "a thread")


def test_several_results():
    a = values((21, 32))
    made = td.stencil(lambda w: (w[-1, 0] + w[1, 0], (w[0, 1] - w[0, -1]).astype("int16")), a)
    got, want = run_array(made), td.run(made, backend="reference")
    assert all(np.array_equal(g, w) for g, w in zip(got, want, strict=True))


def test_places_in_the_element_and_functions_outside():
    a = values((19, 40))
    made = td.stencil(lambda w: w[-1, 0] * 2 + w[1, 1], a, boundary=td.function(lambda i, j: i - j))
    same_as_reference(made, "a thread")
    x = td.use(a)
    made = td.generate(a.shape, lambda i, j: td.where(j > 3, x[i, j] * i + x[i, 39 - j], i))
    assert np.array_equal(run_array(made), td.run(made, backend="reference"))


@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 6, 8), (9, 4, 33), (20, 3, 64)], ids=str)
@boundaries
def test_three_axes(shape, boundary):
    a = values(shape)
    places = list(itertools.product((-1, 0, 1), repeat=3))
    star = [p for p in places if sum(map(abs, p)) <= 1]
    for taps in (star, places, [p for p in places if p[0] == 0]):
        made = td.stencil(lambda w, taps=taps: sum(w[p] * (p[0] + 5 * p[2]) for p in taps), a,
                          boundary=boundary)  # fmt: skip
        same_as_reference(made, "a thread")


@pytest.mark.parametrize("size", [(3, 3), (7, 7), (3, 5), (2, 2)], ids=str)
@pytest.mark.parametrize("boundary", [td.clamp, td.constant(2)], ids=lambda b: b.kind)
def test_windows_of_run_time_extents(size, boundary, monkeypatch):
    monkeypatch.setattr(stencils, "UNROLLED_TAPS", 0)
    monkeypatch.setattr(stencil, "SIZES", (3, 7))
    for shape in [(33, 32), (20, 29)]:
        made = td.correlate(values(shape), values(size, high=9), boundary)
        got, want = run_array(made), td.run(made, backend="reference")
        assert np.array_equal(got, want)
    variants = kernels(made)
    assert len(variants) == 1 + 2 + 1  # 7 × 7 integers: in small blocks and in large ones
    assert "8 × 1 elements a thread" in variants[-1].comments


@pytest.mark.parametrize("schedule", [
    td.schedule.PerThread(rows=2, cols=4), td.schedule.PerThread(rows=16, cols=2),
    td.schedule.PerThread(rows=3), td.schedule.Row() | td.schedule.PerThread(rows=7),
], ids=repr)  # fmt: skip
def test_rows_and_columns_of_a_thread_by_schedule(schedule):
    for shape, radius in [((33, 132), 1), ((20, 29), 3)]:
        terms = window(radius)
        made = td.stencil(lambda w, terms=terms: sum(w[o] * (o[0] - 2 * o[1]) for o in terms),
                          values(shape), schedule=schedule)  # fmt: skip
        same_as_reference(made, "a thread")
    unit = sc.as_schedule(schedule).resolve(2).unit
    at_once = unit[0] <= stencil.MOST_AT_ONCE
    small = td.stencil(cross, values((32, 64)), schedule=schedule)
    comment = f"{unit[0]} × {unit[1]} elements" if at_once else f"{unit[1]} columns a thread"
    assert any(comment in c for c in kernels(small)[0].comments)


def test_what_is_no_stencil():
    a, b = values((8, 8)), values((8, 8), "i8", 8)
    x, at = td.use(a), td.use(b)
    for made in [
        x * 2 + 1,
        td.generate((8, 8), lambda i, j: x[at[i, j], j] + x[at[i, j], 7 - j]),
        td.stencil(lambda w: w[-1] + w[1], a[0]),
    ]:
        assert not any("a thread, walking" in c for c in kernels(made)[0].comments)


def test_sums_of_a_separable_window_stay_one_operation():
    a = values((40, 64)) / 7
    made = td.stencil(lambda w: sum(w[o] for o in window(4)) / 81, a)
    (root,) = run_passes(made._leaves, Settings(), "cuda").roots
    assert root.node.elements[0] is not made._leaves[0].node.elements[0]
    assert all(leaf.node.label.operation == "use" for leaf in root.node.inputs())
    arrays = {root.node.inputs()[0]: np.ascontiguousarray(a)}
    execute(lower(root.node, CONTEXT), root.node, arrays, {}, 0)
    assert np.allclose(arrays[root], td.run(made, backend="reference"), rtol=1e-5)


# --- iterations of a loop ------------------------------------------------------------------------


def together(f, a, backend="reference"):
    """How many iterations over f `temporal` takes at once at most, with the bits of single ones."""
    (leaf,) = td.iterate(20, f, td.use(a))._leaves
    loop = run_passes([leaf], Settings(), backend).roots[0].node
    made = temporal.temporal(loop, CONTEXT)
    if made is None:
        return None
    (kernel,) = made.lowered.kernels
    verify(kernel)
    after = [a]
    for _ in range(made.steps[0]):
        after.append(np.asarray(td.run(f(td.use(after[-1])), backend="reference")))
    for steps in made.steps:
        arrays = {loop.state[0].leaf(): np.ascontiguousarray(a)}
        values = [
            constant(steps) if v.name == temporal.COUNT else e
            for v, e in zip(kernel.scalars, kernel.scalar_values, strict=True)
        ]
        launched = replace(made.lowered, kernels=(replace(kernel, scalar_values=tuple(values)),))
        execute(launched, made.node, arrays, {}, 0)
        assert np.array_equal(arrays[made.node.leaf()], after[steps]), steps
    return made.steps[0]


@pytest.mark.parametrize("shape", [(40, 128), (37, 64), (5, 8), (300, 12)], ids=str)
@boundaries
def test_turns_together(shape, boundary):
    a = values(shape)
    assert together(lambda x: td.stencil(cross, x, boundary=boundary), a) > 4
    full = window(1)
    assert together(lambda x: td.stencil(lambda w: sum(w[o] * (o[0] + 2 * o[1]) for o in full), x,
                                         boundary=boundary), a) > 2  # fmt: skip


@pytest.mark.parametrize("shape", [(27, 9), (40, 126), (16, 4), (1, 64)], ids=str)
def test_known_extents_that_do_not_fit_take_single_turns(shape):
    """Rows that are not whole vectors, and arrays narrower or lower than the window."""
    a = td.generate(shape, lambda i, j: (i * 7 + j).astype(td.float32))
    (leaf,) = td.iterate(20, lambda x: td.stencil(cross, x, boundary=td.clamp), a)._leaves
    loop = run_passes([leaf], Settings(), "cuda").roots[0].node
    assert temporal.temporal(loop, CONTEXT) is None


@pytest.mark.parametrize("steps", [2, 3, 5])
@pytest.mark.parametrize("boundary", [td.clamp, td.mirror, td.wrap], ids=lambda b: b.kind)
def test_windows_that_are_not_square(steps, boundary, monkeypatch):
    monkeypatch.setattr(temporal, "MOST_ITERATIONS", steps)

    def f(x):
        made = td.stencil(lambda w: w[-2, 0] * 0.5 + w[0, -2] * 0.25 + w[1, 1] * 0.25, x,
                          boundary=boundary)  # fmt: skip
        return made.astype(x.dtype)

    for dtype in ("f4", "i4"):
        assert together(f, values((30, 160), dtype), "cuda") in (steps, 4)


def test_what_takes_its_turns_one_by_one():
    a = values((16, 16))
    heavy = window(4)
    assert together(lambda x: td.stencil(lambda w: sum(w[o] * o[0] for o in heavy), x), a) is None
    assert together(lambda x: td.stencil(lambda w: w[-1] + w[1], x), values(64)) is None
    assert together(lambda x: x * 2, a) is None
    assert together(lambda x: td.stencil(cross, x, schedule=td.schedule.Column(8)), a) is None
