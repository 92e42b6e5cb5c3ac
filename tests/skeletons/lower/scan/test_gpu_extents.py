"""Scan for a GPU: every form, direction, axis and extent; blocks that wait for each other."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from tests.skeletons.ir.simt import run
from tests.skeletons.lower.gpu_cases import EXTENTS, SHAPES, TYPES, agrees, data, same
from treadle.dsl.scalar import Scalar

pytestmark = pytest.mark.sample(1)

FORMS = {"inclusive": ("scanl1", "scanr1"), "exclusive": ("scanl", "scanr"),
         "total": ("scanl_total", "scanr_total")}  # fmt: skip


def plus(x, y):
    return x + y


def affine(x, y):
    """Composition of affine maps: associative, not commutative; wraps."""
    (a, b), (c, d) = x, y
    return a * c, b * c + d


def scans(form, reverse, f, init, source, **options):
    operation = getattr(td, FORMS[form][reverse])
    if form == "inclusive":
        return (operation(f, source, **options),)
    made = operation(f, init, source, **options)
    return made if isinstance(made, tuple) else (made,)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("n", [n for n in EXTENTS if n not in (2, 31, 255)])
def test_lines(n, form, reverse):
    a, b = data(n), data(n, seed=1)
    for seed, (f, init, source) in enumerate(
            [(plus, 7, td.use(a)), (affine, (3, 5), td.zip(a, b))]):  # fmt: skip
        for made in scans(form, reverse, f, init, source):
            agrees(made, seed=seed, check=reverse)


@pytest.mark.parametrize("seed", range(4))
def test_blocks_come_in_any_order(seed):
    a, b = data(70001), data(70001, seed=1)
    agrees(td.scanl1(affine, td.zip(a, b)), seed=seed)
    agrees(td.scanr(plus, 1, a), seed=seed)


@pytest.mark.parametrize(("form", "reverse"), [("inclusive", True), ("exclusive", False),
                                               ("total", True)])  # fmt: skip
@pytest.mark.parametrize("shape", SHAPES[1::2])
def test_axes(shape, form, reverse):
    a, b = data(shape), data(shape, seed=1)
    for axis in range(len(shape)):
        for f, init, source in ((plus, 7, td.use(a)), (affine, (2, 1), td.zip(a, b))):
            for made in scans(form, reverse, f, init, source, axis=axis):
                agrees(made, f"axis {axis}", seed=axis)


@pytest.mark.parametrize("shape", [(3, 5003), (5003, 3), (700, 33), (33, 700), (2, 70, 130)])
def test_larger(shape):
    a, b = data(shape), data(shape, seed=1)
    for axis in range(len(shape)):
        agrees(td.scanl1(plus, a, axis=axis))
        agrees(td.scanr(affine, (2, 1), td.zip(a, b), axis=axis))


@pytest.mark.parametrize("name", TYPES)
def test_types(name):
    for shape in ((3, 19), (2, 300 if name == "bfloat16" else 700)):  # 2⁸ is where it rounds
        a = data(shape, name, high=2)
        agrees(td.cumsum(a, axis=1))
        agrees(td.cumprod(a, axis=0))
        if not name.startswith("complex"):
            agrees(td.cummax(a, axis=1))
    line = data(3001, name, high=2)
    agrees(td.scanl1(lambda x, y: td.where(y != 0, y, x), line))


def test_tuples_of_several_types():
    a, b = data(5003, "int8"), data(5003, "float64")
    agrees(td.scanl1(lambda x, y: (x[0] + y[0], td.maximum(x[1], y[1])), td.zip(a, b)))


@pytest.mark.parametrize("axis", [0, 1])
def test_fused_code_changes_no_bit(axis):
    x = np.random.default_rng(0).random((5, 4100)).astype("f4")
    node = td.cumsum(td.use(x), axis=axis)._leaves[0].node
    plain = run(node.leaf())[0]
    (result,) = node.results
    (element,) = node.elements
    for _ in range(8):
        element = (Scalar(element) * 2)._expr
    epilogue = Scalar(result)
    for _ in range(8):
        epilogue = epilogue / 2
    node = node.with_(elements=(element,), epilogue=(epilogue._expr,))
    same(run(node.leaf(), multiprocessors=7, seed=1)[0], plain)


def test_segmented():
    a, lengths = data(2000), np.array([0, 5, 0, 1, 994, 1000])
    for operation in (td.scanl_seg, td.scanr_seg):
        agrees(operation(plus, 0, a, lengths))
    agrees(td.scanl1_seg(plus, a, lengths))


def test_irregular():
    a = data(3001, high=100)
    agrees(td.filter(lambda x: x > 50, a)[0])


def test_strided_inputs():
    base = data((60, 140), "int32", high=100)
    for view in (base[::2, ::-3], base.T, base[3:50, 4:]):
        x = td.use(view)
        for axis in (0, 1):
            made = td.cumsum(x, axis=axis)
            (got,) = run(*made._leaves, strided=frozenset([x._leaves[0]]))
            same(got, td.run(made, backend="reference"))
