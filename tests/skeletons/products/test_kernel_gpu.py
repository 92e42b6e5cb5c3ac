"""Matmul's own kernel of a GPU by the SIMT interpreter."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import treadle as td
from tests.skeletons.ir.simt import run, run_array
from treadle.dsl.expr import Index
from treadle.dsl.scalar import Scalar
from treadle.dsl.target import CUDA
from treadle.skeletons.ir import kernel as ir
from treadle.skeletons.lower.lower import LoweringContext, lower
from treadle.skeletons.products import kernel_gpu as matmul

pytestmark = pytest.mark.sample(3)

TYPES = ["i4", "u1", "?", "f2", ml_dtypes.bfloat16, "c8", "c16", "i8", "i2", "f4", "f8"]
SIZES = [(1, 1, 1), (0, 3, 2), (3, 0, 2), (3, 2, 0), (40, 20, 72), (33, 17, 9), (2, 31, 3)]
Tile = matmul.Tile


@pytest.fixture(params=["every size", "usual"])
def tiles(request: Any, monkeypatch: pytest.MonkeyPatch) -> int:
    """Small blocks, of two warps and of one; how many multiprocessors want work."""
    if request.param == "usual":
        return 132
    small = (Tile((1, 2), (1, 1), 4, 0), Tile((1, 2), (1, 2), 8, 0), Tile((1, 1), (1, 1), 4, 0))
    monkeypatch.setattr(matmul, "TILES", {4: small, 8: small, 16: small})
    tensor = (Tile((1, 2), (2, 2), 8, 0), Tile((2, 1), (2, 1), 8, 0), Tile((1, 1), (2, 1), 8, 0))
    monkeypatch.setattr(matmul, "TENSOR", tensor)
    return 2


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("m", "k", "n"), SIZES)
def test_products(tiles: int, m: int, k: int, n: int, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(0, 9, (m, k)).astype(dtype)
    b = rng.integers(0, 9, (k, n)).astype(dtype)
    wide = "f4" if np.dtype(dtype).itemsize == 2 and np.dtype(dtype).kind not in "iu" else dtype
    want = (a.astype(wide) @ b.astype(wide)).astype(dtype)
    got = run_array(td.matmul(a, b), multiprocessors=tiles)
    assert np.array_equal(got, want)
    if dtype in ("i4", "c8"):
        checked = run_array(td.matmul(a, b), check=True, seed=1, multiprocessors=tiles)
        assert np.array_equal(checked, want)


def test_integers_wrap(tiles: int) -> None:
    a = np.full((3, 9), 200, "u1")
    assert np.array_equal(run_array(td.matmul(a, a.T.copy()), multiprocessors=tiles), a @ a.T)
    b = np.random.default_rng(0).integers(-(2**31), 2**31, (40, 33)).astype("i4")
    assert np.array_equal(run_array(td.matmul(b, b.T.copy()), multiprocessors=tiles), b @ b.T)


@pytest.mark.sample(2)
@pytest.mark.parametrize("dtype", ("i4", "f8"))
def test_layouts(tiles: int, dtype: str) -> None:
    """Each operand read along its rows and along its columns, and neither."""
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 9, (36, 24)).astype(dtype), rng.integers(0, 9, (24, 44)).astype(dtype)
    for left in (td.use(a), td.use(a.T.copy()).T, td.use(a.repeat(2, 1))[:, ::2]):
        for right in (td.use(b), td.use(b.T.copy()).T):
            node = _fused(td.matmul(left, right))
            assert np.array_equal(run(node, multiprocessors=tiles)[0], a @ b)


def _fused(array: Any) -> Any:
    from treadle.dsl.passes import run_passes
    from treadle.dsl.process.configuration import Settings

    (leaf,) = run_passes(array._leaves, Settings(), "cuda").roots
    return leaf


@pytest.mark.parametrize("n", (5, 6))
def test_parts_of_a_long_inner_axis(tiles: int, n: int) -> None:
    """float64: the parts are added in order, and the sums given to the epilogue."""
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 9, (2, 7, 1030)) * 1.0, rng.integers(0, 9, (2, 1030, n)) * 1.0
    node = td.matmul(a, b)._leaves[0].node
    kernels = lower(node, LoweringContext(target=CUDA)).kernels
    assert [k.name.startswith("matmul_parts") for k in kernels] == [False, True]
    made = node.with_(epilogue=((Scalar(node.result) + Scalar(Index(1)))._expr,))
    assert np.array_equal(run(made.leaf(), multiprocessors=tiles)[0], a @ b + np.arange(7)[:, None])


def test_batches(tiles: int) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 9, (2, 1, 4, 5)), rng.integers(0, 9, (3, 5, 6))
    for t in ("i8", "f8"):
        got = run_array(td.matmul(a.astype(t), b.astype(t)), multiprocessors=tiles)
        assert np.array_equal(got, a @ b)


@pytest.mark.parametrize("dtype", ("i8", "f8"))
@pytest.mark.parametrize("costly", [False, True])
def test_fused_operands_and_epilogue(tiles: int, costly: bool, dtype: str) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 9, (29, 14)).astype(dtype), rng.integers(0, 9, (14, 40)).astype(dtype)
    bias = td.use(rng.integers(0, 9, 40))
    node = td.matmul(a, b)._leaves[0].node
    result = Scalar(node.result) - Scalar(bias._leaves[0].at(Index(1)))
    want = (a + np.arange(14)) @ (b * 2) - np.asarray(bias._leaves[0].node.source)
    if costly:
        for k in range(20):
            result, want = (result * result) % (97 + k), (want * want) % (97 + k)
    made = node.with_(
        left=(Scalar(node.left) + Scalar(Index(1)))._expr, right=(Scalar(node.right) * 2)._expr,
        epilogue=(result._expr, (Scalar(Index(0)) + Scalar(node.result) * 0)._expr),
    )  # fmt: skip
    first, second = run(made.leaf(0), made.leaf(1), multiprocessors=tiles)
    assert np.array_equal(first, want)
    assert np.array_equal(second, np.broadcast_to(np.arange(29)[:, None], want.shape))


def test_large_blocks_for_large_matrices() -> None:
    a = td.use(np.ones((64, 64), "f4"))
    (kernel,) = lower(td.matmul(a, a)._leaves[0].node, LoweringContext(target=CUDA)).kernels
    assert kernel.threads == 256 and kernel.aligned and kernel.requires
    sizes = []
    here: ir.Kernel | None = kernel
    while here is not None:
        sizes.append(here.threads)
        here = here.fallback
    assert sizes == [256, 256, 128, 32]
