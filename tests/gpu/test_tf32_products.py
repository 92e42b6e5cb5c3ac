"""float32 products in tf32 by the engine of tensor maps: exact on small integers, in every layout
and shape, and with what is fused into them; rounded to nearest."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from benchmarks.matmul.tf32 import FUNCTION, LAYOUTS, NAMES, RELU, SHAPES, integers, matrix, put
from treadle.backend.cuda.products.engine import Engine
from treadle.backend.cuda.products.launching import Fused

RNG = np.random.default_rng(3)


@pytest.fixture(scope="module")
def engine():
    from treadle.backend.cuda.graphs.launch import CudaDevice

    return Engine(CudaDevice.current())


@pytest.mark.parametrize("how", LAYOUTS)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_layout(engine, shape, name, how):
    import cupy as cp

    m, k, n = shape
    a, b, bias = integers((m, k), 1), integers((k, n), 2), integers((n,), 3)
    there = cp.asarray(bias)
    for pad in (0, 3):  # lines that begin anywhere, and at multiples of sixteen bytes
        x, y = (put(v, h, pad) for v, h in zip((a, b), how, strict=True))
        for fused in (None, Fused(RELU, (int(there.data.ptr),))):
            out = cp.full((m + 1, n + pad), 7, np.float32)
            engine.standard(matrix(out[:m, :n]), matrix(x), matrix(y), "owner", name, fused)
            found, want = out.get(), a.astype("f8") @ b
            want = np.maximum(want + bias, 0) if fused else want
            np.testing.assert_array_equal(found[:m, :n], want)
            assert (found[m] == 7).all() and (found[:, n:] == 7).all()


@pytest.mark.parametrize("side", "AB")
@pytest.mark.parametrize("how", LAYOUTS)
def test_a_function_of_an_operand(engine, how, side):
    import cupy as cp

    a, b = integers((300, 77), 1), integers((77, 500), 2)
    x, y = (put(v, h, 1) for v, h in zip((a, b), how, strict=True))
    out = cp.full((300, 500), np.nan, np.float32)
    engine.standard(matrix(out), matrix(x), matrix(y), "owner", NAMES[0],
                    Fused(FUNCTION.format(side), ()))  # fmt: skip
    want = (2 * a + 1) @ b if side == "A" else a @ (2 * b + 1)
    np.testing.assert_array_equal(out.get(), want)


@pytest.mark.parametrize("how", LAYOUTS)
def test_operands_are_rounded_to_nearest(engine, how):
    """As `td.error_bound` expects, which truncation is twice as far from."""
    import cupy as cp

    a, b = (RNG.standard_normal(s).astype("f4") for s in ((300, 500), (500, 400)))
    x, y = (put(v, h, 0) for v, h in zip((a, b), how, strict=True))
    out = cp.zeros((300, 400), np.float32)
    engine.standard(matrix(out), matrix(x), matrix(y), "owner", NAMES[0])
    true, shown = a.astype("f8") @ b, td.error_bound(a, b, "standard", precision="tf32")
    error = out.get() - true
    assert np.abs(error).max() <= shown.bound
    assert 0.8 < float(np.sqrt(np.mean(error**2))) / shown.typical < 1.2


@pytest.mark.parametrize("shape", [(2048, 2048, 2048), (2100, 2000, 2300), (4096, 512, 4096)])
def test_programs(shape):
    m, k, n = shape
    a, b, bias = (integers(s, i) for i, s in enumerate(((m, k), (k, n), (n,))))
    layer = td.jit(
        lambda a, b, c: td.maximum(td.matmul(a, 2 * b + 1, precision="tf32") + c, 0) * 2,
        backend="cuda",
    )
    assert "applied as tiles are stored" in layer.lower(a, b, bias).explain()
    want = np.maximum(a.astype("f8") @ (2 * b + 1) + bias, 0) * 2
    got = np.asarray(layer(a, b, bias))
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.asarray(layer(a, b, bias)), got)
