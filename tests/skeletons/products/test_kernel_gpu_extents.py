"""Matmul's own kernels for a GPU: types, extents around the tiles, batches, fused code."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from tests.skeletons.ir.simt import run, run_array
from tests.skeletons.lower.gpu_cases import data, dtype, same
from treadle.dsl.expr import Index
from treadle.dsl.scalar import Scalar

TYPES = ("int32", "uint8", "bool", "float16", "bfloat16", "complex64", "int64", "float32",
         "float64", "complex128", "int8", "uint32")  # fmt: skip
SIZES = [(1, 1, 1), (0, 3, 2), (3, 0, 2), (3, 2, 0), (9, 11, 13), (64, 64, 64), (2, 131, 3),
         (65, 33, 70), (130, 17, 1), (1, 40, 130)]  # fmt: skip


CASES = [(size, name) for size in SIZES for name in ("int32", "float32", "uint8")]
CASES += [(size, name) for size in ((9, 11, 13), (65, 33, 70)) for name in TYPES]


@pytest.mark.sample(1)
@pytest.mark.parametrize(("size", "name"), list(dict.fromkeys(CASES)))
def test_products(size, name):
    m, k, n = size
    a, b = data((m, k), name), data((k, n), name, 1)
    wide = "f4" if dtype(name).itemsize == 2 else name
    want = (a.astype(wide) @ b.astype(wide)).astype(dtype(name))
    same(run_array(td.matmul(a, b)), want)
    same(run_array(td.matmul(a, b), check=True, seed=1), want)


def test_integers_wrap():
    a = np.full((3, 90), 200, "u1")
    same(run_array(td.matmul(a, a.T.copy())), a @ a.T)


def test_batches():
    a, b = data((2, 1, 4, 5)), data((3, 5, 6))
    same(run_array(td.matmul(a, b)), a @ b)
    c, d = data((5, 70, 40), "int32"), data((5, 40, 66), "int32")
    same(run_array(td.matmul(c, d)), c @ d)


def test_fused_operands_and_epilogue():
    a, b = data((79, 37)), data((37, 68))
    node = td.matmul(a, b)._leaves[0].node
    made = node.with_(
        left=(Scalar(node.left) + 1)._expr, right=(Scalar(node.right) * 2)._expr,
        epilogue=((Scalar(node.result) - Scalar(Index(1)))._expr,),
    )  # fmt: skip
    same(run(made.leaf())[0], (a + 1) @ (b * 2) - np.arange(68))
