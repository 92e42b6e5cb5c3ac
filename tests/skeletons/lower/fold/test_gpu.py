"""Fold and FoldSeg on a GPU, by the lockstep interpreter."""

from __future__ import annotations

import functools
from itertools import pairwise

import numpy as np
import pytest

import treadle as td
from tests.skeletons.ir.simt import run, run_array
from treadle.dsl.analysis.combines import identities
from treadle.dsl.expr import Index
from treadle.dsl.passes import run_passes
from treadle.dsl.process.configuration import Settings
from treadle.dsl.scalar import Scalar
from treadle.dsl.target import CUDA
from treadle.skeletons.ir.kernel import LoadVector, statements
from treadle.skeletons.lower.build import LoweringContext
from treadle.skeletons.lower.fold import gpu_columns as fold_columns, gpu_rows as fold_rows
from treadle.skeletons.lower.lower import lower
from treadle.skeletons.lower.segmented import gpu as fold_seg

pytestmark = pytest.mark.sample(1)

SHAPES = [(0,), (1,), (33,), (700,), (33, 4), (4, 300), (0, 3), (3, 0), (2, 3, 40), (300, 5)]
CASES = [(s, x) for s in SHAPES for x in [None, *range(len(s)), *([(0, 1)] if len(s) > 2 else [])]]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks of two warps, rows cut as soon as there are several vectors for each thread."""
    for module in (fold_rows, fold_columns):
        monkeypatch.setattr(module, "THREADS", 64)
        monkeypatch.setattr(module, "LEAST", 1)
        monkeypatch.setattr(module, "COMBINE_THREADS", 96 if module is fold_columns else 64)
    for name, value in {"THREADS": 64, "SEGMENTS": 60, "BLOCKS": 3, "MANY": 4}.items():
        monkeypatch.setattr(fold_seg, name, value)


def plus(x, y):
    return x + y


def affine(x, y):
    """Composition of affine maps: associative, not commutative."""
    (a, b), (c, d) = x, y
    return a * c % 10007, (b * c + d) % 10007


def folded(arrays, init, axis):
    first, second = (np.moveaxis(v, axis, -1) for v in arrays)
    a = np.full(first.shape[:-1], init[0])
    b = np.full(first.shape[:-1], init[1])
    for k in range(first.shape[-1]):
        c, d = first[..., k], second[..., k]
        a, b = a * c % 10007, (b * c + d) % 10007
    return np.array([a, b])


def data(shape, seed=0):
    return np.random.default_rng(seed).integers(0, 50, shape)


@pytest.mark.sample(3)
@pytest.mark.parametrize(("shape", "axis"), CASES)
def test_sums_and_extremes(shape, axis):
    a = data(shape)
    assert np.array_equal(run_array(td.fold(plus, 3, a, axis=axis)), a.sum(axis) + 3)
    greatest = td.fold(lambda x, y: td.maximum(x, y), -5, a, axis=axis)
    assert np.array_equal(run_array(greatest, check=True, seed=1), a.max(axis, initial=-5))


@pytest.mark.sample(4)
@pytest.mark.parametrize(("shape", "axis"), CASES)
def test_of_a_transposed_array(shape, axis):
    a = data(shape)
    made = td.fold(plus, 3, td.use(a).T, axis=axis)
    assert np.array_equal(run_array(made), a.T.sum(axis) + 3)


@pytest.mark.sample(2)
@pytest.mark.parametrize(("shape", "axis"), [c for c in CASES if isinstance(c[1], int)])
def test_order_is_kept(shape, axis):
    a, b = data(shape), data(shape, 1)
    got = run_array(td.fold(affine, (2, 1), td.zip(a, b), axis=axis))
    assert np.array_equal(got, folded((a, b), (2, 1), axis))
    transposed = td.fold(affine, (2, 1), td.zip(td.use(a).T, td.use(b).T), axis=axis)
    assert np.array_equal(run_array(transposed, seed=1), folded((a.T, b.T), (2, 1), axis))


@pytest.mark.sample(3)
@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 13, 31, 64, 100, 127, 129, 257, 1000, 3000])
def test_every_number_of_threads_for_a_row(n):
    a = np.random.default_rng(n).random((5, n)).astype("f4")
    want = a.astype("f8").sum(1)
    assert np.allclose(run_array(td.sum(a, axis=1)), want, rtol=1e-6)
    last = td.fold1(lambda x, y: y, a)
    assert np.array_equal(run_array(last), a[:, -1])
    first = td.fold1(lambda x, y: x, td.use(a[:1].copy()))
    assert np.array_equal(run_array(first), a[:1, 0])


@pytest.mark.parametrize("axis", [None, 0, 1, 2])
def test_argmax_over_many_blocks(axis):
    a = data((3, 40, 6))
    assert np.array_equal(run_array(td.argmax(a, axis)), a.argmax(axis))


@pytest.mark.parametrize("axis", [None, 0, 1, 2])
@pytest.mark.parametrize("dtype", ["f4", "u1", "i8"])
def test_arguments_in_one_pass(dtype, axis):
    a = data((3, 40, 6)).astype(dtype)
    if dtype == "f4":
        a[1, 3:7, 2] = np.nan
    for function, want in ((td.argmax, np.argmax), (td.argmin, np.argmin)):
        made = function(td.use(a), axis=axis)
        history = run_passes(made._leaves, Settings(), "cuda")
        assert history.context.notes
        (got,) = run(*history.roots)
        assert np.array_equal(got, want(a, axis=axis))


@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("shape", [(7, 300), (70, 20)])
def test_argmin_together_with_others_of_its_array(shape, axis):
    """One pass, and every bit of each alone: signed zeros, NaN."""
    a = (np.random.default_rng(0).integers(-2, 3, shape) / 2).astype("f4")
    a[a == 0] = -0.0
    a[2, 5] = 0.0
    a[3, [7, 9]] = np.nan
    a[4] = -0.0
    a[4, 7] = 0.0
    x = td.use(a)
    ways = (td.argmin, td.min, td.argmax, td.max)
    roots = run_passes([f(x, axis=axis)._leaves[0] for f in ways], Settings(), "cuda").roots
    assert len({r.node for r in roots}) == 1
    for got, f in zip(run(*roots), ways, strict=True):
        want = td.run(f(td.use(a), axis=axis), backend="reference")
        assert np.array_equal(got, want, equal_nan=got.dtype.kind == "f")
        assert got.dtype.kind == "i" or np.array_equal(np.signbit(got), np.signbit(want))


def test_what_argmin_and_min_read_is_computed_where_they_read_it():
    x = td.use(data((5, 90)))
    made = td.generate((5, 90), lambda i, j: td.loop(3, lambda k, s: s + x[i, (j + k) % 90], 0))
    least, place = td.min(made, axis=1), td.argmin(made, axis=1)
    (root, other) = run_passes([least._leaves[0], place._leaves[0]], Settings(), "cuda").roots
    assert root.node is other.node and root.node.inputs() == tuple(x._leaves)
    got = run(root, other)
    assert all(np.array_equal(g, td.run(a, backend="reference"))
               for g, a in zip(got, (least, place), strict=True))  # fmt: skip


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16", "f2", "u1", "i2", "?"])
def test_types(dtype):
    a = (np.random.default_rng(0).random((4, 190)) * 2).astype(dtype)
    assert np.allclose(run_array(td.sum(a, axis=1)), a.sum(1), rtol=1e-2)
    assert np.allclose(run_array(td.prod(a, axis=0)), a.prod(0), rtol=1e-2)
    assert np.array_equal(run_array(td.all(a, axis=0)), a.all(0))
    assert np.array_equal(run_array(td.any(a)), a.any())


def test_signed_zero_and_nan():
    zeros = np.full(200, -0.0)
    assert np.signbit(run_array(td.fold1(plus, zeros)))
    a = np.random.default_rng(0).random(400)
    a[177] = np.nan
    assert np.isnan(run_array(td.max(a)))
    ignoring = td.fold1(lambda x, y: td.fmax(x, y), a)
    assert run_array(ignoring) == np.nanmax(a)


def test_several_reductions_in_one_pass():
    a = np.random.default_rng(0).random((3, 500))
    both = td.map(lambda x: (x, x * x), a)
    total = td.fold(lambda x, y: (x[0] + y[0], td.maximum(x[1], y[1])), (0.0, 0.0), both)
    assert identities(total._leaves[0].node.combine) is not None
    sums, greatest = run_array(total)
    assert np.allclose(sums, a.sum(1)) and np.array_equal(greatest, (a * a).max(1))


@pytest.mark.parametrize("axis", [0, 1])
def test_epilogue(axis):
    a = np.random.default_rng(0).random((400, 9))
    node = td.sum(td.use(a), axis=axis)._leaves[0].node
    (result,) = node.results
    scaled = (Scalar(result) * 2 + Scalar(Index(0)).astype(td.float64))._expr
    made = node.with_(epilogue=(scaled,))
    (got,) = run(made.leaf())
    assert np.allclose(got, a.sum(axis) * 2 + np.arange(got.size))


def test_strided_and_dense_agree_to_the_bit():
    big = np.random.default_rng(0).random((40, 600)).astype("f4")
    part = big[::2, 1:]
    leaf = td.use(part)
    made = td.sum(leaf, axis=1)
    (dense,) = run(*made._leaves)
    source = next(iter(made._leaves[0].node.inputs()))
    (strided,) = run(*made._leaves, strided=frozenset([source]))
    assert dense.tobytes() == strided.tobytes()


def test_wide_loads_and_their_fallback():
    a = np.ones((64, 64), "f4")
    for axis in (None, 0, 1):
        kernel = lower(td.sum(a, axis=axis)._leaves[0].node, LoweringContext(CUDA)).kernels[0]
        assert any(isinstance(s, LoadVector) and len(s.vars) == 4 for s in statements(kernel.body))
        assert kernel.fallback is not None


def test_nothing_depends_on_the_machine():
    node = td.sum(np.ones((3, 5)), axis=1)._leaves[0].node
    one, many = (lower(node, LoweringContext(CUDA, threads=t)) for t in (2, 64))
    assert [str(k) for k in one.kernels] == [str(k) for k in many.kernels]


def from_the_left(a, axis):
    return functools.reduce(np.add, np.moveaxis(a, axis, 0))


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "c8", "c16"])
@pytest.mark.parametrize("count", [1, 4, 5, 16, 31, 63])
def test_short_rows_that_round_are_folded_from_the_left(dtype, count):
    a = (np.random.default_rng(count).random((count, 70)) - 0.3).astype(dtype)
    zero = getattr(td, a.dtype.name)(0)
    middle = a.reshape(count, 7, 10).swapaxes(0, 1).copy()
    for source, axis in ((a, 0), (a.T.copy(), 1), (middle, 1)):
        got = run_array(td.fold(plus, zero, source, axis=axis))
        assert np.array_equal(got, from_the_left(source, axis))


@pytest.mark.parametrize("schedule", [td.schedule.Column(3), td.schedule.Block(4, 8)])
def test_short_rows_under_a_schedule_keep_their_bits(schedule):
    a = np.random.default_rng(0).random((20, 33)).astype("f4")
    for axis in (0, 1):
        got = run_array(td.sum(td.use(a), axis=axis).scheduled(schedule))
        assert np.array_equal(got, from_the_left(a, axis))


def test_short_rows_of_several_sums_and_of_two_axes():
    a = np.random.default_rng(0).random((9, 5, 6)).astype("f4")
    rows = td.use(a.reshape(9, 30))
    folds = td.sum(rows, axis=1), td.max(rows, axis=1), td.sum(rows * rows, axis=1)
    roots = run_passes([f._leaves[0] for f in folds], Settings(), "cuda").roots
    total, greatest, squares = run(*roots)
    assert np.array_equal(total, from_the_left(a.reshape(9, 30), 1))
    assert np.array_equal(squares, from_the_left(a.reshape(9, 30) ** 2, 1))
    assert np.array_equal(greatest, a.max((1, 2)))
    assert np.array_equal(run_array(td.sum(a, axis=(1, 2))), total)


def test_accuracy_of_a_long_sum():
    a = np.random.default_rng(0).random(1 << 17).astype("f4")
    got = run_array(td.sum(a))
    assert abs(got - a.astype("f8").sum()) <= 1e-6 * got


LENGTHS = [
    [0, 5, 0, 1, 14, 0],
    [1] * 200 + [700, 0, 3],
    [40, 50, 0, 60, 1000],
    list(np.random.default_rng(0).integers(0, 30, 150)),
    [3],
]


@pytest.mark.parametrize("lengths", LENGTHS, ids=range(len(LENGTHS)))
def test_segments(lengths):
    lengths = np.array(lengths)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    x = data((2, offsets[-1]))
    got = run_array(td.fold_seg(plus, 100, x, lengths), check=True)
    want = [[100 + row[a:b].sum() for a, b in pairwise(offsets)] for row in x]
    assert np.array_equal(got, want)
    composed = np.array(run_array(td.fold_seg(affine, (2, 1), td.zip(x, x + 1), lengths)))
    for s in range(len(lengths)):
        part = x[:, offsets[s] : offsets[s + 1]]
        assert np.array_equal(composed[:, :, s], folded((part, part + 1), (2, 1), 1))


def test_no_segments():
    got = run_array(td.fold_seg(plus, 0, np.zeros(0), np.zeros(0, "i8")))
    assert got.shape == (0,)


@pytest.mark.parametrize("count", [1, 5, 257, 5003])
@pytest.mark.parametrize("name", ["float32", "int32"])
def test_elements_of_long_loops_are_folded_in_turn(name, count):
    """Whole numbers, so that grouping changes no bit: each element is added once."""
    zero = getattr(td, name)(0)

    def element(i):
        return td.loop(32, lambda k, s: s + td.cast((i + k) % 3, zero.dtype), zero)

    made = td.sum(td.generate((2, count), lambda j, i: element(i + j)), axis=1)
    (got,) = run(*run_passes(made._leaves, Settings(), "cuda").roots)
    np.testing.assert_array_equal(got, td.run(made, backend="reference"))
