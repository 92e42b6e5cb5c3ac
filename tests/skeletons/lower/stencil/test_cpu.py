"""Rows of stencils from end to end: what is read over their ends goes nowhere, and is there."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np
import pytest

import treadle as td
from treadle.dsl.expr import Expr, Index, Param, constant
from treadle.dsl.graph import Input
from treadle.dsl.scalar import apply_primitive
from treadle.dsl.types import float64, int64
from treadle.skeletons.lower.build import element_cost

pytestmark = pytest.mark.skipif("native" not in td.backends(), reason="needs the backend native")
STAR = [(-1, 0, 0), (1, 0, 0), (0, -1, 0), (0, 1, 0), (0, 0, -1), (0, 0, 1)]
#: Reads of rows in which neighbours do not share much: only these go from end to end.
SHAPES = {
    "star": [(0, 0, 0), *STAR],
    "row": [(0, 0, -2), (0, 0, 0), (0, 0, 2)],
    "diagonal": [(0, -1, -1), (0, 0, 0), (0, 1, 1)],
    "left": [(0, 1, -2), (0, 0, 0), (1, 0, 0)],
    "planes": [(-1, -1, -1), (1, 1, 1), (1, -1, 0)],
}
MODES = {"clamp": "edge", "mirror": "reflect", "symmetric": "symmetric", "wrap": "wrap"}


def weighted(offsets, rank, boundary):
    return td.jit(
        lambda a: td.stencil(
            lambda w: sum((k + 1) * w[o[3 - rank :]] for k, o in enumerate(offsets)),
            a,
            boundary=boundary,
        ),
        backend="native",
    )


def expected(a, offsets, boundary):
    mode = {"mode": "constant", "constant_values": 7} if boundary == "constant" else {
        "mode": MODES[boundary]}  # fmt: skip
    p = np.pad(a, 2, **mode)
    total = np.zeros_like(a)
    for k, o in enumerate(offsets):
        at = tuple(slice(2 + d, 2 + d + n) for d, n in zip(o[3 - a.ndim :], a.shape, strict=True))
        total += (k + 1) * p[at]
    return total


CASES = [("star", b) for b in (*MODES, "constant")] + [
    ("row", "clamp"), ("diagonal", "wrap"), ("left", "mirror"), ("planes", "constant")]  # fmt: skip


@pytest.mark.sample(3)
@pytest.mark.parametrize(("name", "boundary"), CASES)
def test_every_width(name, boundary):
    offsets = SHAPES[name]
    mode = td.constant(7) if boundary == "constant" else getattr(td, boundary)
    for rank in (2, 3) if name == "diagonal" else (3,):
        f = weighted(offsets, rank, mode)
        for width in (3, 4, 15, 16, 17, 31, 32, 33, 64, 70):
            for height in (3, 6):
                shape = (4, height, width)[3 - rank :]
                a = np.random.default_rng(width).integers(0, 99, shape).astype(np.int32)
                assert np.array_equal(f(a), expected(a, offsets, boundary)), (shape, rank)


def test_several_results_and_arrays():
    a, b = (np.random.default_rng(k).standard_normal((5, 9, 50)).astype("f4") for k in (1, 2))
    f = td.jit(
        lambda a, b: td.unzip(
            td.stencil(lambda v, w: (v[0, 0, 1] - w[0, 0, -1], w[1, 0, 0] + v[-1, 0, 0]), a, b)
        ),
        backend="native",
    )
    p, q = (np.pad(x, 1, mode="edge") for x in (a, b))
    first, second = f(a, b)
    assert np.array_equal(first, p[1:-1, 1:-1, 2:] - q[1:-1, 1:-1, :-2])
    assert np.array_equal(second, q[2:, 1:-1, 1:-1] + p[:-2, 1:-1, 1:-1])


@pytest.mark.parametrize("name", ["star", "planes"])
def test_nothing_outside_of_the_array_is_read(name):
    """The array ends where a page that may not be read begins, and begins after one."""
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 4 * page)
    whole = np.frombuffer(memory, np.float32)
    start = whole.ctypes.data
    libc = ctypes.CDLL(None, use_errno=True)
    for guard in (0, 3):
        assert libc.mprotect(ctypes.c_void_p(start + guard * page), page, 0) == 0
    f = weighted(SHAPES[name], 3, td.clamp)
    try:
        for at in (page, 3 * page - 4 * 4 * 8 * 16):
            a = whole[at // 4 : at // 4 + 4 * 8 * 16].reshape(4, 8, 16)
            a[...] = np.arange(a.size).reshape(a.shape)
            assert np.array_equal(f(a), expected(a, SHAPES[name], "clamp"))
    finally:
        for guard in (0, 3):
            libc.mprotect(ctypes.c_void_p(start + guard * page), page, 3)


def test_large_results_of_whole_lines_and_others():
    """Beyond the caches rows of whole lines go past them; rows of others do not."""
    for width in (256, 250):
        a = np.random.default_rng(0).integers(0, 9, (2, 16400, width)).astype(np.int32)
        got = weighted(SHAPES["row"], 3, td.clamp)(a)
        assert np.array_equal(got, expected(a, SHAPES["row"], "clamp"))


def test_numbers_that_all_elements_share_cost_nothing():
    """Reads of a plane cost the same however its number is computed: rows go from end to end."""
    i, k = Index(0), constant(7)
    a = Input("a", float64, (False, False)).leaf()
    number: Expr = Param("n", int64)
    plain = element_cost([a.at(number, i)])
    for name in ("floor_divide", "minimum", "remainder", "multiply"):
        number = apply_primitive(name, [number, k])
    assert element_cost([a.at(number, i)]) == plain
    assert element_cost([a.at(apply_primitive("remainder", [i, k]), i)]) > plain
