"""Scan by the interpreter: every form, direction, axis and size around the blocks."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from tests.skeletons.ir.interpret import run, run_array
from tests.skeletons.lower.fold.test_cpu import affine, data
from treadle.dsl.scalar import Scalar
from treadle.skeletons.lower.lower import lower
from treadle.skeletons.lower.scan import cpu as scan

pytestmark = pytest.mark.usefixtures("small_blocks")

SHAPES = [(0,), (1,), (2,), (15,), (16,), (17,), (33,), (97,), (3, 33), (33, 3), (4, 0), (0, 4),
          (2, 3, 19), (2, 19, 3), (17, 2, 3), (5, 40)]  # fmt: skip
FORMS = {"inclusive": ("scanl1", "scanr1"), "exclusive": ("scanl", "scanr"),
         "total": ("scanl_total", "scanr_total")}  # fmt: skip


def plus(x, y):
    return x + y


def scanned(f, arrays, init, axis, form, reverse):
    """Prefixes and totals, by the definition."""
    arrays = [np.moveaxis(v, axis, -1) for v in arrays]
    lead, n = arrays[0].shape[:-1], arrays[0].shape[-1]
    prefixes = [np.zeros((*lead, n + (form == "exclusive")), "i8") for _ in arrays]
    totals = [np.zeros(lead, "i8") for _ in arrays]
    for ix in np.ndindex(*lead):
        elements = [tuple(int(v[ix][k]) for v in arrays) for k in range(n)]
        if len(arrays) == 1:
            elements = [e[0] for e in elements]
        state, results = init, []
        for e in reversed(elements) if reverse else elements:
            if form != "inclusive":
                results.append(state)
            state = e if state is None else f(e, state) if reverse else f(state, e)
            if form == "inclusive":
                results.append(state)
        if form == "exclusive":
            results.append(state)
        for k, result in enumerate(results[::-1] if reverse else results):
            for out, v in zip(prefixes, _tuple(result), strict=True):
                out[ix][k] = v
        if state is not None:
            for out, v in zip(totals, _tuple(state), strict=True):
                out[ix] = v
    return [np.moveaxis(p, -1, axis) for p in prefixes], totals


def _tuple(value):
    return value if isinstance(value, tuple) else (value,)


@pytest.mark.sample(12)
@pytest.mark.parametrize(("many_rows", "few_threads"), [(3, 2), (16, 2), (16, 0)])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", SHAPES)
def test_scans(shape, form, reverse, many_rows, few_threads, monkeypatch):
    monkeypatch.setattr(scan, "MANY_ROWS", many_rows)
    monkeypatch.setattr(scan, "FEW_THREADS", few_threads)
    operation = getattr(td, FORMS[form][reverse])
    a, b = data(shape), data(shape, 1)
    for axis in range(len(shape)):
        for f, arrays, init in ((plus, [a], 7), (affine, [a, b], (2, 1))):
            source = td.use(a) if len(arrays) == 1 else td.zip(*arrays)
            if form == "inclusive":
                made, init = (operation(f, source, axis=axis),), None
            else:
                made = operation(f, init, source, axis=axis)
                made = made if isinstance(made, tuple) else (made,)
            prefixes, totals = scanned(f, arrays, init, axis, form, reverse)
            got = [_tuple(run_array(m, seed=axis, check=reverse)) for m in made]
            assert all(np.array_equal(x, y) for x, y in zip(got[0], prefixes, strict=True))
            if form == "total":
                assert all(np.array_equal(x, y) for x, y in zip(got[1], totals, strict=True))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("costly", [False, True])
def test_costly_elements_and_epilogues_change_no_bit(axis, costly):
    x = np.random.default_rng(0).random((5, 41)).astype("f4")
    node = td.cumsum(td.use(x), axis=axis)._leaves[0].node
    plain = run(node.leaf())[0]
    (result,) = node.results
    (element,) = node.elements
    if costly:  # a value that survives exactly: × 8 and ÷ 8 through many operations
        for _ in range(8):
            element = (Scalar(element) * 2)._expr
        epilogue = Scalar(result)
        for _ in range(8):
            epilogue = epilogue / 2
        node = node.with_(elements=(element,), epilogue=(epilogue._expr,))
    assert np.array_equal(run(node.leaf())[0], plain)


def test_segmented():
    x, lengths = np.arange(40), np.array([0, 5, 0, 1, 14, 20])
    got = run_array(td.scanl_seg(plus, 0, x, lengths))
    parts = np.split(x, np.cumsum(lengths)[:-1])
    assert np.array_equal(got, np.concatenate([[0, *np.cumsum(p)] for p in parts]))


@pytest.mark.sample(16)
@pytest.mark.parametrize("costly", [False, True])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", [(0,), (1,), (16,), (17,), (97,), (3, 33)])
def test_the_number_of_threads_changes_no_bit(shape, form, costly, monkeypatch):
    rng = np.random.default_rng(1)
    a, b = rng.random(shape), rng.random(shape)
    source = td.zip(td.exp(td.sin(td.use(a))) if costly else td.use(a), b)
    operation = getattr(td, FORMS[form][0])
    made = operation(affine, source) if form == "inclusive" else operation(
        affine, (2.0, 0.5), source)  # fmt: skip
    leaves = made._leaves if form != "total" else (*made[0]._leaves, *made[1]._leaves)
    few = run(*leaves)
    kernels = len(lower(leaves[0].node).kernels)
    monkeypatch.setattr(scan, "FEW_THREADS", 0)
    many = run(*leaves)
    assert kernels == 1 and (shape != (97,) or len(lower(leaves[0].node).kernels) == 3)
    for one, other in zip(few, many, strict=True):
        assert one.tobytes() == other.tobytes()
