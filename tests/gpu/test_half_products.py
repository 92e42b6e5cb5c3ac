"""Products of 16-bit floats by the engine of tensor maps: exact on small integers, in every layout
and shape, and with what is fused into them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import treadle as td
from treadle.backend.cuda.products.engine import Engine
from treadle.backend.cuda.products.launching import Matrix

RNG = np.random.default_rng(3)
TYPES = {"Float16": np.float16, "BFloat16": ml_dtypes.bfloat16}
SHAPES = ((1, 1, 1), (7, 9, 130), (128, 64, 256), (129, 65, 257), (300, 1000, 200), (64, 4097, 17),
          (1000, 8, 1000), (1, 64, 300), (513, 127, 1))  # fmt: skip


@pytest.fixture(scope="module")
def engine():
    from treadle.backend.cuda.graphs.launch import CudaDevice

    return Engine(CudaDevice.current())


def matrix(x, t):
    """A matrix in device memory, of words of 16 bits."""
    down, across = (s // 2 for s in x.strides)
    return Matrix(x.data.ptr, *x.shape, down, across, 2)


@pytest.mark.parametrize("columns", ["", "Square"])
@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_layout(engine, shape, name, columns):
    import cupy as cp

    m, k, n = shape
    t = TYPES[name]
    a, b = (RNG.integers(-2, 3, s).astype(t) for s in ((m, k), (k, n)))
    a[np.arange(m) % 3 == 1] = 0
    a[:, 4:] *= np.asarray(RNG.random(max(k - 4, 0)) < 0.05).astype(t)  # sums stay small
    want = (a.astype("f4") @ b.astype("f4")).astype(t)
    for layout in range(4):
        for pad in (0, 3):  # lines that begin anywhere, and at multiples of sixteen bytes
            sides = []
            for side, x in enumerate((a, b)):
                x = x.T if layout >> side & 1 else x
                room = np.zeros((x.shape[0], -(-x.shape[1] // 8) * 8 + pad), "u2")
                room[:, : x.shape[1]] = x.view("u2")
                there = cp.asarray(room)[:, : x.shape[1]]
                sides.append(there.T if layout >> side & 1 else there)
            out = cp.full((m + 1, n), 0x7FFF, "u2")
            engine.standard(matrix(out[:m], t), *(matrix(x, t) for x in sides), "owner",
                            name + columns)  # fmt: skip
            found = out.get()
            np.testing.assert_array_equal(found[:m].view(t).astype("f4"), want.astype("f4"),
                                          err_msg=f"{layout} {pad}")  # fmt: skip
            assert (found[m] == 0x7FFF).all()


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("shape", [(2048, 2048, 2048), (2100, 2000, 2300), (4096, 512, 4096)])
def test_an_epilogue_is_fused(shape, name):
    m, k, n = shape
    t = TYPES[name]
    a, b, bias = (RNG.integers(-2, 3, s).astype(t) for s in ((m, k), (k, n), (n,)))
    a[:, 8:] *= np.asarray(RNG.random(k - 8) < 0.01).astype(t)
    program = td.jit(lambda a, b, c: td.maximum(a @ b + c, 0) * 2, backend="cuda")
    assert "applied as tiles are stored" in program.lower(a, b, bias).explain()
    want = np.maximum((a.astype("f4") @ b.astype("f4")).astype(t) + bias, 0).astype(t) * t(2)
    got = program(a, b, bias)
    np.testing.assert_array_equal(np.asarray(got).astype("f4"), want.astype("f4"))
    np.testing.assert_array_equal(np.asarray(program(a, b, bias)), np.asarray(got))
