"""Kernels for many small products, by the SIMT interpreter: all types, extents and layouts give the
bits of the general kernel."""

from __future__ import annotations

from itertools import product as product_of

import numpy as np
import pytest

import treadle as td
from tests.conformance.helpers import cuda
from tests.skeletons.ir.simt import run
from tests.skeletons.lower.gpu_cases import data, dtype, same
from treadle.dsl.expr import Extent, Index, Read
from treadle.dsl.graph import Matmul
from treadle.dsl.scalar import Scalar
from treadle.dsl.target import CUDA
from treadle.dsl.types import float16, float32, float64, int32
from treadle.skeletons.ir.specialise import specialise
from treadle.skeletons.lower.lower import LoweringContext, lower
from treadle.skeletons.products.small import on_gpu, share_for, tile_for

pytestmark = pytest.mark.sample(1)

TYPES = ("float16", "bfloat16", "float32", "float64", "complex64", "int8", "int32", "bool")


def test_products_that_are_spread_over_four_warps() -> None:
    """From 36 × 36 results on: a block of fewer warps leaves schedulers without work."""
    assert share_for(32, 32, 32).rows == 8
    assert share_for(36, 36, 36).lanes(36, 36) <= 96 < share_for(40, 40, 40).lanes(40, 40)


def product(array: td.Array, *sizes: int) -> Matmul:
    """The product in a program, specialised for its extents m, n and k."""
    (node,) = {leaf.node for leaf in array._leaves}
    assert isinstance(node, Matmul)
    pairs = zip((node.m, node.n, node.k), sizes, strict=True)
    return specialise(node, {e: s for e, s in pairs if isinstance(e, Extent)})  # type: ignore[return-value]


def small(node: Matmul) -> bool:
    """Whether the kernel for small products is selected."""
    (kernel,) = lower(node, LoweringContext(CUDA)).kernels
    return any("product a" in line for line in kernel.comments)


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("size", [(2, 3, 2), (3, 3, 3), (4, 4, 4), (8, 8, 8), (5, 6, 7),
                                  (2, 16, 12), (32, 24, 20), (15, 9, 15)])  # fmt: skip
def test_products_of_all_types(name, size):
    m, k, n = size
    a, b = data((9, m, k), name), data((9, k, n), name, 1)
    node = product(td.matmul(a, b), m, n, k)
    assert small(node)
    wide = "f4" if dtype(name).itemsize == 2 else name
    want = (a.astype(wide) @ b.astype(wide)).astype(dtype(name))
    same(run(node.leaf())[0], want)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
@pytest.mark.parametrize("size", [(16, 16, 16), (14, 14, 14), (17, 10, 22), (32, 32, 32),
                                  (16, 33, 24), (40, 20, 18), (9, 40, 36)])  # fmt: skip
def test_products_on_tensor_cores(name, size):
    m, k, n = size
    a, b = data((7, m, k), name), data((7, k, n), name, 1)
    node = product(td.matmul(a, b), m, n, k)
    (kernel,) = lower(node, LoweringContext(CUDA)).kernels
    assert any("a product a warp, on tensor cores" in line for line in kernel.comments)
    same(run(node.leaf())[0], (a.astype("f4") @ b.astype("f4")).astype(dtype(name)))
    turned = td.matmul(td.transpose(td.use(b), (0, 2, 1)), td.transpose(td.use(a), (0, 2, 1)))
    if m % 2 == 0:
        want = (a.astype("f4") @ b.astype("f4")).swapaxes(1, 2).astype(dtype(name))
        same(run(product(turned, n, m, k).leaf())[0], want)


@pytest.mark.parametrize("name, size", [
    ("float32", (17, 20, 24)), ("float32", (33, 5, 18)), ("int32", (20, 33, 18)),
    ("int8", (48, 6, 48)), ("float32", (64, 64, 64)), ("float16", (64, 64, 64)),
    ("float32", (33, 33, 33)), ("bfloat16", (60, 70, 62)), ("float16", (100, 9, 12)),
    ("bfloat16", (5, 100, 100)), ("float16", (52, 60, 68)), ("bfloat16", (84, 52, 60)),
    ("float16", (40, 56, 56)), ("bfloat16", (80, 48, 96)), ("float16", (100, 100, 100)),
    ("float32", (48, 56, 48)), ("int32", (64, 32, 64)), ("float32", (22, 20, 44)),
    ("float16", (54, 54, 54)), ("bfloat16", (90, 70, 90)),
])  # fmt: skip
@pytest.mark.parametrize("count", [1, 3])
def test_products_staged_in_shared_memory(name, size, count):
    m, k, n = size
    a, b = data((count, m, k), name), data((count, k, n), name, 1)
    node = product(td.matmul(a, b), m, n, k)
    (kernel,) = lower(node, LoweringContext(CUDA)).kernels
    assert any("from shared memory" in line for line in kernel.comments)
    wide = "f4" if dtype(name).itemsize == 2 else name
    want = (a.astype(wide) @ b.astype(wide)).astype(dtype(name))
    same(run(node.leaf())[0], want)
    turned = np.ascontiguousarray(np.swapaxes(b, 1, 2))
    node = product(td.matmul(a, td.transpose(td.use(turned), (0, 2, 1))), m, n, k)
    fused = node.with_(epilogue=(td.maximum(Scalar(node.result), 1)._expr,))
    same(run(fused.leaf())[0], np.maximum(want, 1))


@pytest.mark.parametrize("count", [0, 1, 2, 31, 33, 257])
def test_numbers_of_products(count):
    a, b = data((count, 4, 4), "int32"), data((count, 4, 4), "int32", 1)
    same(run(product(td.matmul(a, b), 4, 4, 4).leaf())[0], a @ b)


def test_several_leading_axes_broadcast_and_transposed_operands():
    a, b = data((2, 1, 4, 8), "int32"), data((3, 8, 4), "int32", 1)
    same(run(product(td.matmul(a, b), 4, 4, 8).leaf())[0], a @ b)
    turned = td.matmul(td.transpose(td.use(a), (0, 1, 3, 2)), td.transpose(td.use(b), (0, 2, 1)))
    same(run(product(turned, 8, 8, 4).leaf())[0], a.swapaxes(-1, -2) @ b.swapaxes(-1, -2))


def test_fused_operands_and_epilogue():
    a, b, bias = data((7, 8, 8), "float32"), data((7, 8, 4), "float32", 1), data((4,), "float32", 2)
    node = td.matmul(a, b)._leaves[0].node
    added = Read(td.use(bias)._leaves[0].node, 0, (Index(2),))
    made = node.with_(
        left=(Scalar(node.left) + 1)._expr, right=(Scalar(node.right) * 2)._expr,
        epilogue=((Scalar(node.result) - Scalar(added))._expr,),
    )  # fmt: skip
    sizes = {e: n for e, n in zip((made.m, made.n, made.k), (8, 4, 8), strict=True)}
    same(run(specialise(made, sizes).leaf())[0], (a + 1) @ (b * 2) - bias)


@pytest.mark.parametrize("name", ["float16", "float32"])
@pytest.mark.parametrize("n", [8, 20, 40])
def test_programs_fuse_light_operands(name, n):
    """Scales, casts, sums and views of them: one kernel.  An expensive operand has its own."""
    a, b, c = (data(s, name, k) for k, s in enumerate([(66, n, n), (66, n, n), (66,)]))
    kind = getattr(td, name)
    with cuda(emulated=True):
        for f, given, kernels in (
            (lambda a, b, c: td.maximum((2 * a) @ b + 1, 0), (a, b, c), 1),
            (lambda a, b, c: (a * c[:, None, None]) @ td.swapaxes(a + b, 1, 2), (a, b, c), 1),
            (lambda a, b, c: td.cast(a, kind) @ b, (a.astype("f8"), b, c), 1),
            (lambda a, b, c: td.sin(td.exp(a)) @ b, (a, b, c), 2),
        ):
            program = td.jit(f, backend="cuda").lower(*given)
            assert program.source("cuda").count("__global__") == kernels
            want = td.jit(f, backend="reference")(*given).astype("f8")
            scale = np.abs(want).max() * (2e-3 if name == "float16" else 1e-6)
            np.testing.assert_allclose(program(*given).astype("f8"), want, atol=scale)


def test_an_expensive_operand_is_computed_once_for_each_block():
    """Lanes that share an element would each compute it."""
    a = td.use(data((5, 8, 8), "float32"))
    node = td.matmul(a, a)._leaves[0].node
    costly = node.with_(left=td.sin(td.exp(Scalar(node.left)))._expr)
    assert not small(specialise(costly, {node.m: 8, node.n: 8, node.k: 8}))


@pytest.mark.parametrize("t", [float16, float32])
def test_tiles_divide_their_product(t):
    for m, n, k in product_of(range(1, 65), (1, 3, 4, 6, 7, 8, 16, 31, 64), (1, 5, 10, 16, 24)):
        for width in (1, 2, 8):
            tile = tile_for(m, n, k, t, width, width)
            assert m % tile.rows == n % tile.columns == k % tile.chunk == 0
            assert tile.chunk % tile.left == tile.columns % tile.right == 0
            assert tile.rows * tile.columns <= 32


def test_a_library_computes_larger_plain_products_of_floats():
    assert on_gpu(float32, (64, 64, 64), 1000, plain=True)
    assert not on_gpu(float32, (66, 66, 66), 1000) and on_gpu(float32, (64, 64, 64), 1000)
    assert on_gpu(float16, (100, 100, 100), 1000, plain=True)
    assert not on_gpu(float16, (104, 104, 104), 1000, plain=True)
    assert on_gpu(float16, (112, 112, 112), 1000) and not on_gpu(float16, (114, 112, 112), 1000)
    assert on_gpu(float64, (48, 48, 48), 1000) and not on_gpu(float64, (50, 50, 50), 1000)
    assert not on_gpu(float64, (32, 32, 32), 1000, plain=True)
    assert on_gpu(int32, (48, 48, 48), 1000, plain=True)
    assert on_gpu(float32, (16, 16, 16), 1) and not on_gpu(float32, (20, 20, 20), 1)
    assert not on_gpu(float32, (4, 4, 0), 1000) and not on_gpu(float16, (17, 17, 17), 1000)
    assert on_gpu(float32, (47, 47, 47), 1000) and not on_gpu(float32, (49, 49, 49), 1000)
