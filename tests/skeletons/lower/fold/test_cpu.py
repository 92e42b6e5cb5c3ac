"""Fold and FoldSeg by the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from tests.skeletons.ir.interpret import run, run_array
from treadle.dsl.analysis.combines import identities
from treadle.dsl.expr import Index
from treadle.dsl.scalar import Scalar
from treadle.skeletons.ir import kernel as ir
from treadle.skeletons.lower.fold import cpu
from treadle.skeletons.lower.fold.rows import runs_across
from treadle.skeletons.lower.lower import LoweringContext, lower

pytestmark = pytest.mark.usefixtures("small_blocks")

SHAPES = [(0,), (1,), (2,), (5,), (31,), (97,), (33, 4), (4, 33), (0, 3), (3, 0), (2, 3, 5),
          (5, 2, 31), (1, 1, 1), (3, 40, 2)]  # fmt: skip
CASES = [(s, x) for s in SHAPES for x in [None, *range(len(s)), *([(0, 1)] if len(s) > 2 else [])]]


def affine(x, y):
    """Composition of affine maps: associative, not commutative."""
    (a, b), (c, d) = x, y
    return a * c % 10007, (b * c + d) % 10007


def folded(arrays, init, axis):
    first, second = (np.moveaxis(v, axis, -1) for v in arrays)
    out = np.zeros((2, *first.shape[:-1]), "i8")
    for ix in np.ndindex(*first.shape[:-1]):
        state = init
        for k in range(first.shape[-1]):
            state = affine(state, (int(first[ix][k]), int(second[ix][k])))
        out[(slice(None), *ix)] = state
    return out


def data(shape, seed=0):
    return np.random.default_rng(seed).integers(0, 50, shape)


@pytest.mark.parametrize(("shape", "axis"), CASES)
def test_sums_and_extremes(shape, axis):
    a = data(shape)
    assert np.array_equal(run_array(td.fold(lambda x, y: x + y, 3, a, axis=axis)), a.sum(axis) + 3)
    greatest = td.fold(lambda x, y: td.maximum(x, y), -5, a, axis=axis)
    assert np.array_equal(run_array(greatest, check=True, seed=1), a.max(axis, initial=-5))


@pytest.mark.parametrize(("shape", "axis"), CASES)
def test_of_a_transposed_array(shape, axis):
    a = data(shape)
    made = td.fold(lambda x, y: x + y, 3, td.use(a).T, axis=axis)
    assert np.array_equal(run_array(made), a.T.sum(axis) + 3)


@pytest.mark.sample(16)
@pytest.mark.parametrize(("shape", "axis"), [c for c in CASES if isinstance(c[1], int)])
def test_order_is_kept(shape, axis):
    a, b = data(shape), data(shape, 1)
    got = run_array(td.fold(affine, (2, 1), td.zip(a, b), axis=axis))
    assert np.array_equal(got, folded((a, b), (2, 1), axis))
    transposed = td.fold(affine, (2, 1), td.zip(td.use(a).T, td.use(b).T), axis=axis)
    assert np.array_equal(run_array(transposed, seed=1), folded((a.T, b.T), (2, 1), axis))


@pytest.mark.parametrize("axis", [None, 0, 1, 2])
def test_argmax_over_many_blocks(axis):
    a = data((3, 40, 2))
    assert np.array_equal(run_array(td.argmax(a, axis)), a.argmax(axis))


@pytest.mark.parametrize("where", [None, 0, 7, 8, 20, 96])
@pytest.mark.parametrize("rows", [1, 3])
def test_rows_are_left_when_a_block_decides_them(where, rows):
    """Tasks run in any order, so a block behind may decide a row first."""
    a = np.zeros((rows, 97), bool)
    a[-1, 13] = True
    if where is not None:
        a[0, where] = True
    for x in (a[0], a):
        for seed in range(4):
            assert np.array_equal(run_array(td.any(x, axis=-1), seed=seed), x.any(-1))
            assert np.array_equal(run_array(td.all(~x, axis=-1), seed=seed), (~x).all(-1))
            assert np.array_equal(run_array(td.argmax(x, axis=-1), seed=seed), x.argmax(-1))
            assert np.array_equal(run_array(td.argmin(~x, axis=-1), seed=seed), (~x).argmin(-1))


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "f2", "u1", "?"])
def test_types(dtype):
    a = (np.random.default_rng(0).random((4, 19)) * 3).astype(dtype)
    assert np.allclose(run_array(td.sum(a, axis=1)), a.sum(1), rtol=1e-2)
    assert np.allclose(run_array(td.prod(a, axis=0)), a.prod(0), rtol=1e-2)
    assert np.array_equal(run_array(td.all(a, axis=0)), a.all(0))


def test_signed_zero_and_nan():
    zeros = np.full(20, -0.0)
    assert np.signbit(run_array(td.fold1(lambda x, y: x + y, zeros)))
    a = np.random.default_rng(0).random(40)
    a[17] = np.nan
    assert np.isnan(run_array(td.max(a)))
    ignoring = td.fold1(lambda x, y: td.fmax(x, y), a)
    assert run_array(ignoring) == np.nanmax(a)


def test_several_reductions_in_one_pass():
    a = np.random.default_rng(0).random((3, 50))
    both = td.map(lambda x: (x, x * x), a)
    total = td.fold(lambda x, y: (x[0] + y[0], td.maximum(x[1], y[1])), (0.0, 0.0), both)
    assert identities(total._leaves[0].node.combine) is not None
    sums, greatest = run_array(total)
    assert np.allclose(sums, a.sum(1)) and np.array_equal(greatest, (a * a).max(1))


@pytest.mark.parametrize("axis", [0, 1])
def test_epilogue(axis):
    a = np.random.default_rng(0).random((40, 9))
    node = td.sum(td.use(a), axis=axis)._leaves[0].node
    (result,) = node.results
    scaled = (Scalar(result) * 2 + Scalar(Index(0)).astype(td.float64))._expr
    made = node.with_(epilogue=(scaled,))
    (got,) = run(made.leaf())
    assert np.allclose(got, a.sum(axis) * 2 + np.arange(got.size))


def test_one_block_has_no_second_phase():
    a = np.ones(5, "i4")
    small = lower(td.sum(td.generate((5,), lambda i: i))._leaves[0].node)
    assert len(small.kernels) == 1
    assert len(lower(td.sum(a)._leaves[0].node).kernels) == 2


def test_partial_results_are_combined_by_little_code():
    """Exact ones in a loop, others by a reduction that takes a rest for rare."""
    a = td.use(data(9).astype("f4"))
    for made, reductions in ((td.sum(a), 1), (td.min(a), 0)):
        _, second = lower(made._leaves[0].node, LoweringContext()).kernels
        found = [s for s in ir.statements(second.body) if isinstance(s, ir.Reduce)]
        assert len(found) == reductions and all(s.long for s in found)


def test_blocks_depend_on_extents_only():
    from treadle.skeletons.lower.lower import LoweringContext

    node = td.sum(np.ones((3, 5)), axis=1)._leaves[0].node
    one, many = (lower(node, LoweringContext(threads=t)) for t in (1, 64))
    assert [str(k) for k in one.kernels] == [str(k) for k in many.kernels]


@pytest.mark.parametrize(
    ("element", "across"),
    [
        (lambda p, i, k: p[i, 0] * p[k, 0] + p[k, 1], True),
        (lambda p, i, k: p[p[k, 0], 1], True),  # wherever the data says: one gather for all rows
        (lambda p, i, k: p[i, 2 * k], False),
        (lambda p, i, k: p[i, k] * p[0, k], False),
        (lambda p, i, k: p[i, 0] * p[0, k], False),
    ],
)
def test_what_rows_have_in_common_is_read_once_for_all(element, across):
    """Lanes run along the rows where lanes along a row would gather the same for every row."""
    p = td.use(data((9, 18)) % 9)
    folded = td.sum(td.generate((9, 9), lambda i, k: element(p, i, k)), axis=1)
    (kernel, *_) = td.jit(lambda: folded, backend="native").lower().kernels
    assert ("columns side by side" in str(lower(kernel).kernels[0])) is across
    values = td.run(td.generate((9, 9), lambda i, k: element(p, i, k)), backend="reference")
    assert np.array_equal(run_array(folded), values.sum(1))


LENGTHS = np.array([0, 5, 0, 1, 14, 0])


def test_segments():
    x = data((3, 20))
    offsets = np.concatenate([[0], np.cumsum(LENGTHS)])
    got = run_array(td.fold_seg(lambda x, y: x + y, 100, x, LENGTHS))
    want = [[100 + row[offsets[k] : offsets[k + 1]].sum() for k in range(6)] for row in x]
    assert np.array_equal(got, want)
    composed = np.array(run_array(td.fold_seg(affine, (2, 1), td.zip(x, x + 1), LENGTHS)))
    for s in range(6):
        part = x[:, offsets[s] : offsets[s + 1]]
        assert np.array_equal(composed[:, :, s], folded((part, part + 1), (2, 1), 1))


def test_columns_that_lie_down_an_array_are_folded_in_short_steps(monkeypatch):
    """Steps of many rows are for elements that have no rows in memory."""
    monkeypatch.setattr(cpu, "COSTLY_COLUMNS", 2)
    x = data((40, 30)).astype("f8")
    poly = lambda v: ((v * 3 + 1) * v + 2) * v + ((v + 1) * v + 5) * (v - 3)

    def step(array):
        (leaf,) = td.jit(lambda: array).lower().roots
        kernel = lower(leaf.node, LoweringContext()).kernels[0]
        return max(s.step for s in ir.statements(kernel.body) if isinstance(s, ir.For))

    points = td.use(x)
    pairs = td.generate((40, 40), lambda j, k: poly(points[j, 0] - points[k, 0]))
    assert step(td.max(pairs, axis=1)) == cpu.COSTLY_STEP
    flat = td.use(x.ravel())
    for array, axis in (
        (poly(td.use(x)), 0),
        (poly(flat.reshape((40, 30))), 0),
        (poly(td.use(x).T), 1),
    ):
        assert step(td.max(array, axis=axis)) < cpu.COSTLY_STEP
        want = poly(x).max(0)
        np.testing.assert_allclose(run_array(td.max(array, axis=axis)), want, rtol=1e-12)


def test_costly_elements_are_computed_once_for_their_argument():
    x = data((6, 70)).astype("f8")
    for values in (x, np.where(x == x.max(), np.nan, x)):
        elements = td.exp(td.use(values) / 10)
        want = np.argmax(np.exp(values / 10), axis=1)
        assert np.array_equal(run_array(td.argmax(elements, axis=1)), want)

    def held(array):
        (leaf,) = td.jit(lambda: array).lower().roots
        kernel = lower(leaf.node, LoweringContext()).kernels[0]
        return any(
            isinstance(s, ir.Store) and s.buffer.role == "local" for s in ir.statements(kernel.body)
        )

    assert held(td.argmax(td.exp(td.use(x)), axis=1))
    assert not held(td.argmax(td.use(x) * 2, axis=1))


def test_costly_elements_of_short_segments_are_computed_in_vectors():
    """Those of some segments together; of long segments as they are combined."""
    x = data((3, 20)).astype("f8")
    add = lambda x, y: x + y
    segments = td.fold_seg(add, 0, td.exp(x / 100), LENGTHS)
    offsets = np.concatenate([[0], np.cumsum(LENGTHS)])
    want = [[np.exp(r[offsets[k] : offsets[k + 1]] / 100).sum() for k in range(6)] for r in x]
    np.testing.assert_allclose(run_array(segments), want, rtol=1e-12)

    def held(array):
        (leaf,) = td.jit(lambda: array).lower().roots
        (kernel,) = lower(leaf.node, LoweringContext()).kernels
        found = [s for s in ir.statements(kernel.body) if isinstance(s, ir.For)]
        return [s.kind for s in found].count("vector")

    assert held(segments) == 1
    assert held(td.fold_seg(add, 0, x / 100, LENGTHS)) == 0


def test_no_segments():
    got = run_array(td.fold_seg(lambda x, y: x + y, 0, np.zeros(0), np.zeros(0, "i8")))
    assert got.shape == (0,)


def between(f, dtype):
    """Rows of one matrix against columns of another, folded over what they have in common."""
    a, b = data((5, 9)).astype(dtype), data((9, 7), 1).astype(dtype)
    pairs = td.generate((5, 7, 9), lambda i, j, k: f(td.use(a)[i, k], td.use(b)[k, j]))
    return a[:, None, :], b.T[None, :, :], pairs


def test_neighbours_fold_what_lies_side_by_side():
    def made(array):
        (leaf,) = td.jit(lambda: array).lower().roots
        return leaf.node

    a, b, sums = between(lambda x, y: x + y, "f8")
    least = td.min(sums, axis=2)
    assert runs_across(made(least))
    assert np.array_equal(run(made(least).leaf())[0], (a + b).min(2))
    a, b, products = between(lambda x, y: x * y, "i8")
    assert runs_across(made(td.max(products, axis=2)))
    a, b, apart = between(lambda x, y: abs(x - y), "f8")
    total = td.sum(apart, axis=2)
    assert runs_across(made(total))
    np.testing.assert_allclose(run(made(total).leaf())[0], abs(a - b).sum(2), rtol=1e-12)
    x, square = data((6,), 2).astype("f8"), td.use(data((6, 6)).astype("f8"))
    assert runs_across(made(td.sum(td.use(x)[:, None] * square, axis=0)))  # x is one number
    assert not runs_across(made(td.sum(td.use(x) * square, axis=1)))
    assert not runs_across(made(td.max(square, axis=1)))
    assert runs_across(made(td.max(square, axis=0)))
