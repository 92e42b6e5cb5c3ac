"""Fold, FoldSeg for a GPU: every way, axis and extent; order kept; types."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from tests.skeletons.ir.simt import run, run_array
from tests.skeletons.lower.gpu_cases import EXTENTS, SHAPES, TYPES, agrees, data, same
from treadle.dsl.expr import Index
from treadle.dsl.scalar import Scalar

pytestmark = pytest.mark.sample(1)

CASES = [(s, x) for s in SHAPES for x in [None, *range(len(s)), *([(0, 1)] if len(s) > 2 else [])]]


def affine(x, y):
    """Composition of affine maps: associative, not commutative; wraps."""
    (a, b), (c, d) = x, y
    return a * c, b * c + d


def plus(x, y):
    return x + y


@pytest.mark.sample(2)
@pytest.mark.parametrize("n", [*EXTENTS, 70001])
def test_lines(n):
    a, b = data(n), data(n, seed=1)
    agrees(td.fold(plus, 3, a))
    agrees(td.fold(lambda x, y: td.maximum(x, y), -5, a), check=True, seed=1)
    agrees(td.fold(affine, (3, 5), td.zip(a, b)))
    agrees(td.argmax(a) if n else td.sum(a))


@pytest.mark.parametrize(("shape", "axis"), CASES)
def test_axes(shape, axis):
    a, b = data(shape), data(shape, seed=1)
    agrees(td.fold(plus, 3, a, axis=axis))
    agrees(td.fold(plus, 3, a, axis=axis), check=True, seed=1)
    agrees(td.fold(plus, 3, td.use(a).T, axis=axis))
    if isinstance(axis, int):
        agrees(td.fold(affine, (2, 1), td.zip(a, b), axis=axis))
        agrees(td.fold(affine, (2, 1), td.zip(td.use(a).T, td.use(b).T), axis=axis), seed=1)


@pytest.mark.parametrize("shape", [(3, 5003), (5003, 3), (1300, 33), (33, 1300), (2, 70, 130)])
def test_larger(shape):
    a, b = data(shape), data(shape, seed=1)
    for axis in range(len(shape)):
        agrees(td.fold(plus, 3, a, axis=axis))
        agrees(td.fold(affine, (2, 1), td.zip(a, b), axis=axis))


@pytest.mark.parametrize("name", TYPES)
def test_types(name):
    for shape in ((4, 19), (3, 1021)):
        a = data(shape, name, high=2)
        agrees(td.sum(a, axis=1))
        agrees(td.prod(a, axis=0))
        agrees(td.all(a, axis=0))
        if not name.startswith("complex"):
            agrees(td.max(a))
            agrees(td.argmin(a, axis=1))


def test_float_sums_are_close_and_do_not_depend_on_what_is_fused():
    a = np.random.default_rng(0).random(70001)
    total = run_array(td.sum(a))
    assert abs(total - a.sum()) < 1e-9
    node = td.sum(td.use(a))._leaves[0].node
    (element,) = node.elements
    costly = Scalar(element)
    for _ in range(8):
        costly = costly * 2
    for _ in range(8):
        costly = costly / 2
    (again,) = run(node.with_(elements=(costly._expr,)).leaf(), multiprocessors=7, seed=1)
    assert again == total


def test_signed_zero_and_nan():
    zeros = np.full(300, -0.0)
    assert np.signbit(run_array(td.fold1(plus, zeros)))
    a = np.random.default_rng(0).random(400)
    a[17] = np.nan
    assert np.isnan(run_array(td.max(a)))
    ignoring = td.fold1(lambda x, y: td.fmax(x, y), a)
    assert run_array(ignoring) == np.nanmax(a)


def test_several_reductions_in_one_pass():
    a = data((3, 500))
    both = td.map(lambda x: (x, x * x), a)
    agrees(td.fold(lambda x, y: (x[0] + y[0], td.maximum(x[1], y[1])), (0, 0), both))


@pytest.mark.parametrize("axis", [0, 1])
def test_epilogue(axis):
    a = data((400, 9))
    node = td.sum(td.use(a), axis=axis)._leaves[0].node
    (result,) = node.results
    scaled = (Scalar(result) * 2 + Scalar(Index(0)))._expr
    (got,) = run(node.with_(epilogue=(scaled,)).leaf())
    same(got, a.sum(axis) * 2 + np.arange(got.size))


LENGTHS = {
    "few": [0, 5, 0, 1, 14, 0],
    "short": [3] * 200,
    "long": [1000, 0, 2000, 1, 31, 32, 33, 700],
    "none": [],
    "empty": [0, 0, 0],
}


@pytest.mark.parametrize("kind", LENGTHS)
@pytest.mark.parametrize("rows", [None, 1, 3])
def test_segments(kind, rows):
    lengths = np.array(LENGTHS[kind], "i8")
    n = int(lengths.sum())
    shape = n if rows is None else (rows, n)
    a, b = data(shape), data(shape, seed=1)
    agrees(td.fold_seg(plus, 100, a, lengths))
    agrees(td.fold_seg(affine, (2, 1), td.zip(a, b), lengths))
    agrees(td.fold_seg(plus, 100, a, lengths), check=True, seed=1)


def test_strided_inputs():
    base = data((60, 140), "int32", high=100)
    for view in (base[::2, ::-3], base.T, base[3:50, 4:]):
        x = td.use(view)
        for axis in (0, 1, None):
            made = td.sum(x, axis=axis)
            (got,) = run(*made._leaves, strided=frozenset([x._leaves[0]]))
            same(got, td.run(made, backend="reference"))
