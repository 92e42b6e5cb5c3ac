"""Matrix products on the host: BLAS, and Strassen-like recursions over the standard product.

Operands are NumPy arrays of one type, (batch…, m, k) and (batch…, k, n), with any strides.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from treadle.backend.memory import POOL
from treadle.dsl.types import ScalarType
from treadle.skeletons.algorithms import NAMED, BilinearAlgorithm

Product = Callable[[Any, Any], Any]


def blas(a: Any, b: Any) -> Any:
    """The library's product (float32, float64, complex), into memory that is warm."""
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    out = POOL.allocate((*batch, a.shape[-2], b.shape[-1]), a.dtype)
    return np.matmul(a, b, out=out)


@lru_cache(maxsize=32)
def own_kernel(t: ScalarType) -> Product:
    """The language's own product kernel, for types that BLAS does not know; integers wrap."""
    from treadle.dsl.configuration import Settings
    from treadle.dsl.expr import Index
    from treadle.dsl.graph import Input, Label, Leaf, Matmul
    from treadle.dsl.operations.linalg import MatmulOptions
    from treadle.dsl.program import Program
    from treadle.dsl.values import flatten_results

    left = Input("left", t, (False, False), kind="argument")
    right = Input("right", t, (False, False), kind="argument")
    (m, k), n = left.shape, right.shape[1]
    place = (Index(0), Index(1))
    node = Matmul(
        (), m, n, k, Leaf(left, 0).at(*place), Leaf(right, 0).at(*place),
        MatmulOptions("standard"), label=Label("matmul"),
    )  # fmt: skip
    from treadle.dsl.array import Array

    leaves, tree = flatten_results(Array(node.leaves))
    program = Program(leaves, tree, Settings(), "native", (left, right))

    def product(a: Any, b: Any) -> Any:
        if a.ndim == 2 and b.ndim == 2:
            return program.execute((np.ascontiguousarray(a), np.ascontiguousarray(b)))
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        a, b = (np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (a, b))
        out = np.zeros((*batch, a.shape[-2], b.shape[-1]), a.dtype)
        for at in np.ndindex(*batch):
            out[at] = product(a[at], b[at])
        return out

    return product


def half_precision(a: Any, b: Any) -> Any:
    """float16 and bfloat16, accumulated in float32."""
    return np.matmul(a.astype(np.float32), b.astype(np.float32)).astype(a.dtype)


def standard_for(t: ScalarType) -> Product:
    """The standard product of a type."""
    if t.is_complex or (t.is_float and t.bits >= 32):
        return blas
    if t.is_float:
        return half_precision
    return own_kernel(t)


def algorithm_of(choice: Any) -> BilinearAlgorithm | None:
    """The algorithm an option names; None for the standard product."""
    if isinstance(choice, BilinearAlgorithm):
        return choice
    return None if choice in ("auto", "standard") else NAMED[choice]


def bilinear(a: Any, b: Any, algorithm: BilinearAlgorithm, levels: int, leaf: Product) -> Any:
    """`levels` recursive levels of `algorithm`; fringes are padded with zeros at each level.

    Sums are formed in the operands' type (integers wrap, so any integer product stays exact).
    """
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    if levels == 0 or min(m, k, n) < max(algorithm.m, algorithm.k, algorithm.n):
        return leaf(a, b)
    rows, inner, cols = -(-m // algorithm.m), -(-k // algorithm.k), -(-n // algorithm.n)
    blocks_a = _blocks(a, algorithm.m, algorithm.k, rows, inner)
    blocks_b = _blocks(b, algorithm.k, algorithm.n, inner, cols)
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    c = np.zeros((*batch, algorithm.m * rows, algorithm.n * cols), a.dtype)
    for r in range(algorithm.products):
        left = _combination(blocks_a, algorithm.u[:, r], a.dtype)
        right = _combination(blocks_b, algorithm.v[:, r], b.dtype)
        product = bilinear(left, right, algorithm, levels - 1, leaf)
        for p in np.flatnonzero(algorithm.w[:, r]):
            i, j = divmod(int(p), algorithm.n)
            block = c[..., i * rows : (i + 1) * rows, j * cols : (j + 1) * cols]
            _add_scaled(block, product, int(algorithm.w[p, r]))
    return np.ascontiguousarray(c[..., :m, :n])


def _blocks(x: Any, down: int, across: int, rows: int, cols: int) -> list[Any]:
    pad = [(0, 0)] * (x.ndim - 2)
    pad += [(0, down * rows - x.shape[-2]), (0, across * cols - x.shape[-1])]
    whole = np.pad(x, pad) if any(after for _, after in pad) else x
    return [
        whole[..., i * rows : (i + 1) * rows, j * cols : (j + 1) * cols]
        for i in range(down)
        for j in range(across)
    ]


def _combination(blocks: list[Any], coefficients: Any, dtype: Any) -> Any:
    total: Any = None
    for block, coefficient in zip(blocks, coefficients, strict=True):
        if not coefficient:
            continue
        if total is None:
            total = block if coefficient == 1 else (block * np.asarray(coefficient).astype(dtype))
        else:
            total = (
                total + block
                if coefficient == 1
                else (
                    total - block
                    if coefficient == -1
                    else total + block * np.asarray(coefficient).astype(dtype)
                )
            )
    return total


def _add_scaled(target: Any, value: Any, coefficient: int) -> None:
    if coefficient == 1:
        target += value
    elif coefficient == -1:
        target -= value
    else:
        target += value * np.asarray(coefficient).astype(target.dtype)


def product(a: Any, b: Any, t: ScalarType, options: Any) -> Any:
    """a @ b as the options say.  An empty inner axis gives zeros."""
    leaf = standard_for(t)
    algorithm = algorithm_of(options.algorithm)
    with np.errstate(all="ignore"):
        if algorithm is None or t.kind == "bool" or not options.levels:
            return leaf(a, b)
        if t.is_float and t.bits == 16:
            wide = bilinear(
                a.astype(np.float32), b.astype(np.float32), algorithm, options.levels, blas
            )
            return wide.astype(t.numpy)
        return bilinear(a, b, algorithm, options.levels, leaf)
