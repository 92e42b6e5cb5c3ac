"""Matmul's own kernel by the interpreter."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import treadle as td
from tests.skeletons.ir.interpret import run, run_array
from treadle.dsl.expr import Index
from treadle.dsl.scalar import Scalar
from treadle.skeletons.ir.specialise import specialise
from treadle.skeletons.lower.lower import LoweringContext, lower
from treadle.skeletons.products import tall_cpu

pytestmark = pytest.mark.usefixtures("small_blocks")

TYPES = ["i4", "u1", "?", "f2", ml_dtypes.bfloat16, "c8", "i8", "f4"]
SIZES = [(1, 1, 1), (0, 3, 2), (3, 0, 2), (3, 2, 0), (9, 11, 13), (16, 6, 7), (2, 31, 3)]


@pytest.mark.sample(16)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("m", "k", "n"), SIZES)
def test_products(m, k, n, dtype):
    rng = np.random.default_rng(0)
    a = rng.integers(0, 9, (m, k)).astype(dtype)
    b = rng.integers(0, 9, (k, n)).astype(dtype)
    wide = "f4" if np.dtype(dtype).itemsize == 2 else dtype
    want = (a.astype(wide) @ b.astype(wide)).astype(dtype)
    assert np.array_equal(run_array(td.matmul(a, b)), want)
    assert np.array_equal(run_array(td.matmul(a, b), check=True, seed=1), want)


def test_integers_wrap():
    a = np.full((3, 9), 200, "u1")
    assert np.array_equal(run_array(td.matmul(a, a.T.copy())), a @ a.T)


def test_batches():
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 9, (2, 1, 4, 5)), rng.integers(0, 9, (3, 5, 6))
    assert np.array_equal(run_array(td.matmul(a, b)), a @ b)


@pytest.mark.parametrize("dtype", ["f4", "f2"])
@pytest.mark.parametrize(("m", "k", "n"), [(1, 9, 2), (4, 0, 3), (12, 9, 5), (13, 8, 9)])
def test_a_long_inner_axis(m, k, n, dtype, monkeypatch):
    """Blocks of the inner axis; rows together in a loop, and the rest of them."""
    monkeypatch.setattr(tall_cpu, "BLOCK", 4 * (m + n) * np.dtype(dtype).itemsize)
    rng = np.random.default_rng(0)
    a = rng.integers(0, 9, (k, m)).astype(dtype)
    b = rng.integers(0, 9, (k, n)).astype(dtype)
    node = td.matmul(td.use(a).T, b)._leaves[0].node
    made = specialise(node, {node.m: m, node.n: n})
    lowered = lower(made, LoweringContext())
    assert len(lowered.kernels) == 2
    assert np.array_equal(run(made.leaf())[0], (a.T.astype("f4") @ b.astype("f4")).astype(dtype))


def test_fused_operands_and_epilogue():
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 9, (9, 7)), rng.integers(0, 9, (7, 8))
    node = td.matmul(a, b)._leaves[0].node
    made = node.with_(
        left=(Scalar(node.left) + 1)._expr, right=(Scalar(node.right) * 2)._expr,
        epilogue=((Scalar(node.result) - Scalar(Index(1)))._expr,),
    )  # fmt: skip
    assert np.array_equal(run(made.leaf())[0], (a + 1) @ (b * 2) - np.arange(8))
