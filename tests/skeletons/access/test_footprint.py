"""The access analysis: classes, numeric maps, footprints and M_loads, against plain enumeration."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import spearmanr

import treadle as td
from tests.treadle.driver.explained import lower
from treadle.dsl.graph import Input
from treadle.dsl.graphs.names import Names
from treadle.dsl.types import float32
from treadle.skeletons.access.footprint import (
    box_lines,
    column_cache,
    column_loads,
    columns,
    distinct,
    union_lines,
    with_inner,
)
from treadle.skeletons.access.maps import Map, access_classes, kernel_maps
from treadle.skeletons.model.coverage import Walk, points_of
from treadle.skeletons.schedules import Column, Hilbert, Morton, Row, Tile, ZigZag
from treadle.skeletons.simulator.simulation import cache_needed, line_loads


def image(*extents):
    return np.zeros(extents, np.float32)


def product(a, b):
    return td.generate(
        (a.shape[0], b.shape[1]),
        lambda i, j: td.loop(a.shape[1], lambda k, s: s + a[i, k] * b[k, j], td.float32(0)),
    )


def cross(a):
    return td.stencil(lambda w: w[0, -1] + w[-1, 0] + w[2, 0], a)


def analysed(function, *args):
    """The last kernel of a program, and its maps."""
    program = lower(function, *args)
    node = program.kernels[-1]
    return node, kernel_maps(node, Names(program).known)


# --- classes ---------------------------------------------------------------------------------

CLASSES = {
    "map": (lambda a: a + 1, [("affine", "streaming")], "streaming"),
    "transpose": (lambda a: td.transpose(a) + 0, [("affine", "vertical")], "streaming"),
    "cross": (cross, [("affine", "horizontal vertical")], "streaming"),
    "rows": (lambda a: td.stencil(lambda w: w[-1, 0] + w[1, 0], a), [("affine", "vertical")],
             "streaming"),
    "column": (lambda a: td.generate((8, 8), lambda i, j: a[i, 0]), [("affine", "horizontal")],
               "streaming"),
    "half": (lambda a: td.generate((8, 8), lambda i, j: a[i, j // 2]), [("computed", "streaming")],
             "streaming"),
    "product": (lambda a: product(a, a), [("affine", "horizontal"), ("affine", "vertical")],
                "streaming"),
    "gather": (lambda a: td.generate((8,), lambda i: a[td.cast(a[i, 0], td.int64), 0]),
               [("affine", "streaming"), ("data", "random")], "streaming"),
    "permute": (lambda a: td.permute(td.overwrite, td.zeros((8, 16), "float32"),
                                     lambda i, j: (j, i), a), None, "vertical"),
    "histogram": (lambda a: td.bincount(td.cast(td.flatten(a), td.int64), length=4), None,
                  "random"),
}  # fmt: skip


@pytest.mark.parametrize("name", CLASSES)
def test_classes_of_what_is_read_and_written(name):
    function, reads, store = CLASSES[name]
    node, _ = analysed(function, image(16, 8))
    found = access_classes(node)
    assert {" ".join(a.classes) for a in found if a.store} == {store}
    if reads is not None:
        assert [(a.kind, " ".join(a.classes)) for a in found if not a.store] == reads


def test_maps_have_numbers():
    _, kernel = analysed(lambda a, b: product(a, b), image(30, 40), image(40, 50))
    a, b, out = kernel.maps
    assert kernel.outputs == (30, 50) and kernel.inner == (40,)
    assert (a.coefficients, a.iterations, a.strides) == (((1, 0, 0), (0, 0, 1)), 40.0, (40, 0, 1))
    assert b.strides == (0, 1, 50) and out.store and out.strides == (50, 1, 0)
    _, flipped = analysed(lambda a: td.reverse(a, 1) + 0, image(4, 9))
    assert flipped.maps[0].offsets == ((0, 8),) and flipped.maps[0].strides == (9, -1)
    _, folded = analysed(lambda a: td.sum(a, axis=0), image(4, 9))
    assert folded.outputs == (9,) and folded.inner == (4,)
    _, half = analysed(lambda a: td.generate((8, 8), lambda i, j: a[i // 2, j]), image(8, 8))
    assert half.maps[0].addresses(np.array([[5, 3]])).tolist() == [4 * (2 * 8 + 3)]
    unknown = lower(lambda a: a + 1, image(4, 4))
    assert kernel_maps(unknown.kernels[-1], {}) is None


# --- footprints ------------------------------------------------------------------------------


def test_footprints_of_a_warp_and_of_blocks():
    """A 9 × 9 stencil: what the blocks of docs/design.md touch, in 32-byte sectors."""
    weights = range(-4, 5)
    _, kernel = analysed(
        lambda a: td.stencil(lambda w: sum(w[i, j] * (1.0 + 9 * i + j) for i in weights
                                           for j in weights), a), image(256, 1024))  # fmt: skip
    reads = kernel.reads

    def block(rows, cols, unit):
        low = np.array([64, 256])
        return distinct(reads, points_of(low, low + np.array((rows, cols))), unit)

    assert block(1, 32, 128) == 9 * 3  # a warp: nine rows of 40 elements
    assert [block(r, c, 32) * 32 / (r * c) for r, c in ((1, 256), (8, 32), (32, 32))] == [
        38.25, 12.0, 7.5]  # fmt: skip
    _, turned = analysed(lambda a: td.transpose(a) + 0, image(256, 256))
    warp = points_of(np.array([3, 32]), np.array([4, 64]))
    assert distinct(turned.reads, warp, 128) == 32 and distinct(turned.stores, warp, 128) == 1


def array(shape):
    return Input("x", float32, tuple(n == 1 for n in shape)).leaf()


@st.composite
def boxes_of_maps(draw):
    rank = draw(st.integers(1, 3))
    shape = tuple(draw(st.integers(1, 40)) for _ in range(rank))
    axes = draw(st.permutations(range(rank)))
    sign = [draw(st.sampled_from([1, -1])) for _ in range(rank)]
    base = [0 if s > 0 else n - 1 for s, n in zip(sign, shape, strict=True)]
    coefficients = tuple(tuple(sign[a] * (k == axes[a]) for k in range(rank)) for a in range(rank))
    reach = [range(draw(st.integers(1, 3))) for _ in range(rank)]
    offsets = tuple(tuple(b + o for b, o in zip(base, off, strict=True))
                    for off in itertools.product(*reach))  # fmt: skip
    m = Map(array(shape), False, "affine", (), 4, shape, coefficients, offsets)
    domain = tuple(shape[axes.index(k)] for k in range(rank))
    low = [draw(st.integers(0, n - 1)) for n in domain]
    high = [draw(st.integers(a + 1, n)) for a, n in zip(low, domain, strict=True)]
    return m, np.array([low]), np.array([high]), draw(st.sampled_from([4, 16, 32, 128]))


@settings(max_examples=60, deadline=None)
@given(boxes_of_maps())
def test_lines_of_a_box_are_exact(case):
    m, low, high, line = case
    wanted = distinct([m], points_of(low[0], high[0]), line)
    assert box_lines(m, low, high, line).tolist() == [wanted]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(*[st.integers(0, 30)] * 2, *[st.integers(1, 9)] * 2), min_size=1,
                max_size=6))  # fmt: skip
def test_lines_of_a_union(boxes):
    m = Map(array((40, 64)), False, "affine", (), 4, (40, 64), ((1, 0), (0, 1)), ((0, 0),))
    low = np.array([[a, b] for a, b, _, _ in boxes])
    high = low + [[c, d] for _, _, c, d in boxes]
    points = np.concatenate([points_of(a, b) for a, b in zip(low, high, strict=True)])
    assert union_lines([m], low, high, 32, ()) == distinct([m], points, 32)


@pytest.mark.parametrize("order", [Row(), Column(8), ZigZag(16), Tile(8, 16), Morton(), Hilbert()])
@pytest.mark.parametrize("domain", [(64, 64), (48, 80)])
def test_a_walk_covers_its_elements(order, domain):
    """All ids together are the whole domain, whatever the pieces; and pieces stay inside."""
    walk = Walk(domain, order, (1, 1))
    m = Map(array(domain), False, "affine", (), 4, domain, ((1, 0), (0, 1)), ((0, 0),))
    low, high = walk.boxes(0, walk.size)
    assert (low >= 0).all() and (high <= domain).all()
    covered = union_lines([m], low, high, 4, ())
    exact = not isinstance(order, Hilbert) and domain == (64, 64)
    assert covered == domain[0] * domain[1] if exact else covered > 0.5 * domain[0] * domain[1]
    part = union_lines([m], *walk.boxes(walk.size // 4, 128), 4, ())
    assert part == pytest.approx(128, rel=0.5)


# --- M_loads and M_cache ---------------------------------------------------------------------


def test_the_papers_formula():
    """Prasetya 2021, section 4.1."""
    widths = (8, 16, 32, 64, 128)
    for size, wanted in ((256, [25152, 16768, 12576, 10480, 9432]),
                         (512, [99456, 66304, 49728, 41440, 37296])):  # fmt: skip
        assert [line_loads(c, 7, 7, size, size, 8) for c in widths] == wanted
    assert cache_needed(4, 7, 7) == 88


@pytest.mark.parametrize("width", [3, 8, 32])
@pytest.mark.parametrize("name", ["cross", "two", "product", "turned", "cube"])
def test_column_loads_are_what_columns_touch(name, width):
    """Any rank, any set of arrays, fused programs: the closed form against enumeration."""
    function, args = {
        "cross": (cross, [image(24, 32)]),
        "two": (lambda a, b: td.stencil(lambda u, v: u[-2, 0] * v[0, 1] + u[0, 2], a + b, b),
                [image(16, 32), image(16, 32)]),
        "product": (product, [image(8, 32), image(32, 32)]),
        "turned": (lambda a, b: td.transpose(a) + b, [image(32, 16), image(16, 32)]),
        "cube": (lambda a: td.stencil(lambda w: w[0, -1, 0] + w[1, 0, 1], a), [image(4, 8, 32)]),
    }[name]  # fmt: skip
    _, kernel = analysed(function, *args)
    low, high = columns(kernel.outputs, width)
    wanted = 0
    for a, b in zip(low, high, strict=True):
        points = with_inner(points_of(a, b), kernel.inner)
        touched = {m.leaf: set() for m in kernel.reads}
        for m in kernel.reads:
            touched[m.leaf] |= {(m.coefficients, x) for x in (m.addresses(points) // 32).tolist()}
        wanted += sum(map(len, touched.values()))
    found = column_loads(kernel, width, 32)
    # A cross reaches fewer places than the box around it.
    assert wanted <= found <= (1.35 if name in ("cross", "two", "cube") else 1) * wanted


def test_column_cache_is_what_a_row_of_threads_needs():
    taps = [(i, j) for i in range(-3, 4) for j in range(-3, 4)]
    _, kernel = analysed(lambda a: td.stencil(
        lambda w: sum(w[i, j] * (1.0 + i + 7 * j) for i, j in taps), a), image(64, 64))  # fmt: skip
    # 7 rows of 4 + 6 elements in lines of 16 bytes, and one more row for 4 threads.
    assert column_cache(kernel, 16, 16, 16) == 7 * 5 * 16
    assert column_cache(kernel, 16, 32, 16) == 8 * 5 * 16
    lines_of_paper = cache_needed(16, 7, 7, threads=16) / 4
    assert column_cache(kernel, 16, 16, 16) / 16 <= lines_of_paper


def test_the_simulator_agrees_on_programs():
    """Fetched bytes, predicted and simulated, over programs and orders: rank correlation."""
    from treadle.skeletons.access.sets import Cache as Capacity
    from treadle.skeletons.model.time import fetched
    from treadle.skeletons.simulator import Cache, simulate
    from treadle.skeletons.simulator.programs import pattern_of

    orders = (Row(), Column(8), Column(32), Tile(16, 16), Morton())
    programs = {
        "cross": (cross, 1),
        "turned": (lambda a: td.transpose(a) + 0, 1),
        "both": (lambda a: td.transpose(a) + a, 1),
        "sum": (lambda a, b: a + b, 2),
        "outer": (lambda a, b: td.generate((64, 64), lambda i, j: a[i, 0] * b[0, j]), 2),
        "half": (lambda a: td.generate((64, 64), lambda i, j: a[i // 2, j // 2]), 1),
    }
    predicted, simulated = [], []
    for function, count in programs.values():
        program = lower(function, *[image(64, 64)] * count)
        kernel = kernel_maps(program.kernels[-1], Names(program).known)
        pattern = pattern_of(program)
        for order in orders:
            walk = Walk(kernel.outputs, order, (1, 1))
            predicted.append(fetched(kernel, walk, 32, Capacity(48 * 64), 64))
            simulated.append(simulate(pattern, order, Cache(48, 16)).misses)
    assert spearmanr(predicted, simulated).statistic > 0.8
    error = np.abs(np.log(np.array(predicted) / 64 / np.array(simulated)))
    assert np.median(error) < 0.1


def test_random_places_count_one_by_one():
    m = Map(array((8,)), False, "data", ("random",), 4, (8,), offsets=((),))
    assert distinct([m], np.zeros((5, 1), np.int64), 32) == 5
    plain = replace(m, kind="affine", coefficients=((0,),), offsets=((3,),))
    assert distinct([plain], np.zeros((5, 1), np.int64), 32) == 1
