"""Generate: element-wise work, index transforms, stencils and schedules, by the interpreter."""

from __future__ import annotations

import itertools
from collections import namedtuple

import numpy as np
import pytest

import treadle as td
from tests.skeletons.ir.interpret import Reported, run, run_array
from treadle.dsl.expr import constant, walk
from treadle.dsl.graph import Leaf
from treadle.dsl.operations import stencils
from treadle.skeletons import schedules as sc
from treadle.skeletons.ir import kernel as ir
from treadle.skeletons.lower.lower import LoweringContext, lower
from treadle.skeletons.lower.transpose import cpu as transpose

pytestmark = pytest.mark.usefixtures("small_blocks")

SHAPES = [(), (0,), (1,), (2,), (31,), (32,), (33,), (97,), (0, 3), (3, 0), (1, 1), (1, 7), (2, 2),
          (37, 29), (8, 1), (2, 3, 4), (5, 1, 6), (3, 4, 33)]  # fmt: skip
PADS = {"clamp": "edge", "mirror": "reflect", "symmetric": "symmetric", "wrap": "wrap"}


def kernel(array, **context):
    return lower(array._leaves[0].node, LoweringContext(**context)).kernels[0]


def integers(shape, high=100, dtype="i4", seed=0):
    return np.random.default_rng(seed).integers(0, high, shape).astype(dtype)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("check", [False, True])
def test_elementwise(shape, check):
    a, b = integers(shape), integers(shape, seed=1)
    assert np.array_equal(run_array(td.use(a) * 2 + b, check=check), a * 2 + b)


def test_contiguous_axes_are_one():
    a = integers((4, 5))
    text = str(kernel(td.use(a) + td.use(a + 1)))
    assert "2 contiguous axes as one" in text
    loops = [s for s in ir.statements(kernel(td.use(a) + 1).body) if isinstance(s, ir.For)]
    assert len(loops) == 1


def test_axes_of_one_element_are_no_rows():
    a, b = integers((4, 5)), integers((3, 4, 5))
    for made, want in (
        (td.use(a)[:, :, None] * 2, a[:, :, None] * 2),
        (td.use(a)[None, :, None] + td.use(a)[None, :, None, :, None][:, :, 0],
         a[None, :, None] + a[None, :, :, None]),
        (td.use(b).T[..., None] + 1, b.T[..., None] + 1),
        (td.use(a[:1, :1])[None] - 1, a[None, :1, :1] - 1),
    ):  # fmt: skip
        assert np.array_equal(run_array(made), want)
        assert np.array_equal(run_array(made, check=True), want)
    assert "2 contiguous axes as one" in str(kernel(td.use(a)[:, None, :, None] * 2))


def test_broadcasting_keeps_its_axes():
    a, row, column = integers((6, 9)), integers((9,)), integers((6, 1))
    assert np.array_equal(run_array(td.use(a) + row + column), a + row + column)


def test_reshape_of_a_dense_array_is_linear():
    a = integers((6, 10))
    for shape in [(60,), (4, 15), (3, 4, 5)]:
        reshaped = td.reshape(td.use(a), shape)
        assert np.array_equal(run_array(reshaped), a.reshape(shape))
        assert np.array_equal(run_array(reshaped, check=True), a.reshape(shape))
    flat = td.reshape(td.use(np.zeros((6, 10))), (-1,))
    assert "= input[j]" in str(kernel(flat))


@pytest.mark.parametrize("axes", list(itertools.permutations(range(3))))
def test_transpose(axes):
    a = integers((5, 18, 11))
    assert np.array_equal(run_array(td.transpose(td.use(a), axes)), a.transpose(axes))


def test_transposed_reads_are_held_in_tiles():
    a, b = integers((21, 30)), integers((30, 21), seed=1)
    x, y = td.use(a), td.use(b)
    several = td.generate((30, 21), lambda i, j: y[i, j] + 2 * x[j, i] * x[20 - j, i])
    assert np.array_equal(run_array(several), b + 2 * a.T * a[::-1].T)
    held = [v for v in kernel(several).buffers if v.role == "local"]
    assert [v.size for v in held] == [constant(4 * 8)] * 2  # 4 rows of 6, and two between

    guarded = td.generate((30, 21), lambda i, j: td.cond(y[i, j] > 50, x[j, i], 0))
    assert np.array_equal(run_array(guarded), np.where(b > 50, a.T, 0))
    assert not any(v.role == "local" for v in kernel(guarded).buffers)


@pytest.mark.parametrize(
    "sizes, tile",
    [([4], (128, 128)), ([8], (64, 128)), ([1], (128, 128)), ([16], (32, 128)),
     ([4, 4], (128, 64)), ([8, 4], (64, 64)), ([4] * 9, (128, 16))],
)  # fmt: skip
def test_tiles_fit_the_second_cache(sizes, tile, monkeypatch):
    for name, value in {"SIDE": 128, "ROW_BYTES": 512, "TILES_BYTES": 1 << 16,
                        "SHORTEST": 16}.items():  # fmt: skip
        monkeypatch.setattr(transpose, name, value)
    assert transpose.sides(sizes) == tile


def test_slices_and_reversals():
    a = integers((9, 11))
    x = td.use(a)
    for index in [np.s_[::-1, 2:7], np.s_[1:, ::3], np.s_[::-2, ::-1], np.s_[3], np.s_[:, None]]:
        assert np.array_equal(run_array(x[index]), a[index])


def test_strided_inputs():
    base = integers((14, 20))
    for view in [base[::2, ::-3], base.T, base[3:9, 4:], base[::-1]]:
        x = td.use(view)
        leaf: Leaf = x._leaves[0]
        doubled = x * 2 + td.transpose(td.transpose(x))
        (got,) = run(*doubled._leaves, strided=frozenset([leaf]))
        assert np.array_equal(got, view * 3)


def test_several_components():
    pair = namedtuple("pair", "x y")
    a = integers((5, 7))
    got = run_array(td.map(lambda v: pair(v + 1, v * 0.5), a))
    assert np.array_equal(got.x, a + 1) and np.array_equal(got.y, a * 0.5)


@pytest.mark.sample(4)
@pytest.mark.parametrize("shape", [s for s in SHAPES if s and 0 not in s])
@pytest.mark.parametrize("boundary", PADS)
@pytest.mark.parametrize("radius", [1, 2])
def test_stencil_boundaries(shape, boundary, radius):
    a = integers(shape)
    offsets = list(itertools.product((-radius, 0, radius), repeat=len(shape)))
    made = td.stencil(lambda w: sum(w[o] * (k + 1) for k, o in enumerate(offsets)), a,
                      boundary=getattr(td, boundary))  # fmt: skip
    padded = np.pad(a, radius, mode=PADS[boundary])
    want = sum(
        (k + 1) * padded[tuple(slice(radius + d, radius + d + n) for d, n in
                               zip(o, shape, strict=True))]
        for k, o in enumerate(offsets)
    )  # fmt: skip
    assert np.array_equal(run_array(made), want)
    assert np.array_equal(run_array(made, check=True, seed=1), want)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (1,), (4, 5), (33, 31)])
@pytest.mark.parametrize("check", [False, True])
def test_stencil_constant_and_function(shape, check):
    a = integers(shape, dtype="i8")
    back, ahead = (-1,) * len(shape), (2,) * len(shape)
    made = td.stencil(lambda w: w[back] * 10 + w[ahead], a, boundary=td.constant(7))
    padded = np.pad(a, 2, constant_values=7)
    want = (padded[tuple(slice(1, 1 + n) for n in shape)] * 10
            + padded[tuple(slice(4, 4 + n) for n in shape)])  # fmt: skip
    assert np.array_equal(run_array(made, check=check), want)
    by_function = td.stencil(lambda w: w[back] * 10 + w[ahead], a,
                             boundary=td.function(lambda *ix: sum(ix) * 0 + 7))  # fmt: skip
    assert np.array_equal(run_array(by_function, check=check), want)


def test_run_time_weights_split_the_border(monkeypatch):
    monkeypatch.setattr(stencils, "UNROLLED_TAPS", 0)
    a, weights = integers((9, 12), dtype="i8"), integers((3, 5), high=9, dtype="i8")
    made = td.correlate(a, weights)
    padded = np.pad(a, ((1, 1), (2, 2)), mode="edge")
    want = sum(weights[i, j] * padded[i : i + 9, j : j + 12] for i in range(3) for j in range(5))
    assert np.array_equal(run_array(made), want)
    assert "interior" in str(kernel(made))


def test_rows_share_their_reads():
    a = integers((9, 11))
    text = str(kernel(td.stencil(lambda w: w[-1, 0] + w[0, 0] + w[1, 0], a)))
    assert "unrolled" in text
    alone = str(kernel(td.stencil(lambda w: w[0, -1] + w[1, 0], a)))
    assert "unrolled" not in alone
    wide = td.stencil(lambda w: w[-1, 0] + w[1, 0], a, schedule=sc.PerThread(rows=2))
    assert ".. 2 unrolled" in str(kernel(wide))


ORDERS = [sc.Column(4), sc.ZigZag(3), sc.Tile(2, 3), sc.Morton(), sc.Hilbert(), sc.Swizzle(2),
          sc.Row() | sc.Block(4, 4) | sc.PerThread(rows=2), sc.Column(8) | sc.Block(2, 4),
          sc.Morton() | sc.Block(4, 4), sc.Column(4) | sc.PerThread(rows=2),
          sc.Table(np.random.default_rng(0).permutation(99))]  # fmt: skip


@pytest.mark.sample(6)
@pytest.mark.parametrize("order", ORDERS, ids=repr)
def test_orders_never_change_a_bit(order):
    a = np.random.default_rng(0).random((9, 11))
    for made in (td.use(a) * 2, td.stencil(lambda w: w[1, 0] + w[-1, 0], a)):
        assert np.array_equal(run_array(made, schedule=order), run_array(made))


def test_blocks_of_rank_three():
    a = np.random.default_rng(0).random((5, 6, 7))
    made = td.use(a) + a[:, 0:1, :]
    schedule = sc.Column(2) | sc.Block(2, 2, 3)
    assert np.array_equal(run_array(made, schedule=schedule), a + a[:, 0:1, :])


def test_checked_mode_reports_and_does_not_read():
    a, at = integers((5,)), np.array([0, 4, 5, -1, 2])
    x, ix = td.use(a), td.use(at)
    with pytest.raises(Reported) as caught:
        run_array(td.generate((5,), lambda i: x[ix[i]]), check=True)
    found = sorted((site.operation, site.axis, index, extent)
                   for site, index, extent in caught.value.args[0])  # fmt: skip
    assert found == [("generate", 0, -1, 5), ("generate", 0, 5, 5)]


def test_checked_mode_leaves_sure_reads_alone():
    a = integers((5, 6))
    assert not kernel(td.use(a) * 2 + a[:, :1], check=True).sites
    assert not kernel(td.stencil(lambda w: w[-1, 2], a), check=True).sites


def inside_vectors(lowered):
    """The statements of all vector loops."""
    loops = [s for s in ir.statements(lowered.body) if isinstance(s, ir.For) and s.kind == "vector"]
    return [s for loop in loops for s in ir.statements(loop.body)]


PARTS = {
    "joined rows": lambda a, b: (td.concatenate((a, b), axis=1), np.concatenate((a, b), 1)),
    "joined columns": lambda a, b: (td.concatenate((a, b)), np.concatenate((a, b))),
    "four": lambda a, b: (td.concatenate((a, b, b, a), axis=1), np.concatenate((a, b, b, a), 1)),
    "joined lines": lambda a, b: (td.concatenate((a[2], b[3])), np.concatenate((a[2], b[3]))),
    "middle axis": lambda a, b: (
        td.concatenate((a[:, None], b[:, None, :]), axis=1), np.stack((a, b), 1)),
    "padded": lambda a, b: (td.pad(a, ((1, 2), (3, 0))), np.pad(a, ((1, 2), (3, 0)))),
    "lower triangle": lambda a, b: (
        td.generate(a.shape, lambda i, j: td.cond(j <= i, td.use(a)[i, j], 0)), np.tril(a)),
    "not the first": lambda a, b: (
        td.generate(a.shape, lambda i, j: td.cond(j > 0, td.use(a)[i, j - 1], -1)),
        np.pad(a, ((0, 0), (1, 0)), constant_values=-1)[:, :-1]),
    "joined transposes": lambda a, b: (
        td.concatenate((td.use(a).T, td.use(b).T)), np.concatenate((a.T, b.T))),
    "joined with a transpose": lambda a, b: (
        td.concatenate((td.use(a).T, td.use(b).reshape(17, 9)), axis=1),
        np.concatenate((a.T, b.reshape(17, 9)), 1)),
    "either side": lambda a, b: (
        td.generate(a.shape, lambda i, j: td.cond(
            td.logical_or(j < 3, td.logical_not(j < 12)), td.use(a)[i, j], td.use(b)[i, j])),
        np.where((np.arange(17) < 3) | (np.arange(17) >= 12), a, b)),
}  # fmt: skip


@pytest.mark.parametrize("name", PARTS)
def test_conditions_on_places_are_decided_for_parts_of_rows(name):
    a, b = integers((9, 17)), integers((9, 17), seed=1)
    made, wanted = PARTS[name](a, b)
    assert np.array_equal(run_array(made), wanted)
    assert np.array_equal(run_array(made, check=True), wanted)
    assert not any(isinstance(s, ir.If) for s in inside_vectors(kernel(made)))


def test_conditions_that_stay_in_vectors():
    a, b = integers((9, 17)), integers((9, 17), seed=1)
    x, y = td.use(a), td.use(b)
    sides = lambda i, j, k: td.cond(j < k, x[i, j] * k, y[i, j] + k)
    many = td.generate(a.shape, lambda i, j: sum(sides(i, j, k) for k in range(1, 17)))
    data = td.generate(a.shape, lambda i, j: td.cond(y[i, j] > 50, x[i, j], 0))
    square = td.generate(a.shape, lambda i, j: td.cond(j * j < 60, x[i, j], 0))
    place = np.arange(17)
    wanted = (sum(np.where(place < k, a * k, b + k) for k in range(1, 17)), np.where(b > 50, a, 0),
              np.where(place**2 < 60, a, 0))  # fmt: skip
    for made, result in zip((many, data, square), wanted, strict=True):
        assert np.array_equal(run_array(made), result)
        assert any(isinstance(s, ir.If) for s in inside_vectors(kernel(made)))


@pytest.mark.parametrize("axis", (0, 1))
def test_joined_arrays_have_a_part_of_a_row_each(axis):
    arrays = [integers((3, 4), seed=k) for k in range(20)]
    made = td.concatenate(arrays, axis=axis)
    assert np.array_equal(run_array(made), np.concatenate(arrays, axis))
    found = kernel(made)
    assert not any(isinstance(s, ir.If) for s in inside_vectors(found))
    loads = sum(isinstance(e, ir.Load) for e in walk(
        e for s in ir.statements(found.body) for e in ir.expressions(s)))  # fmt: skip
    assert loads == len(arrays)


def test_light_tasks_are_those_that_memory_decides():
    a = integers((50, 60), dtype="f4")
    assert kernel(td.use(a) + 1).light and kernel(td.use(a).T).light
    steps = td.map(lambda x: td.while_loop(lambda s: s < 9, lambda s: td.exp(td.sin(s)), x), a)
    assert not kernel(steps).light
