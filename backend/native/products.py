"""Matrix products on the host: BLAS, Strassen-like recursions over BLAS, exact integers.

Operands are NumPy arrays of one type, (batch…, m, k) and (batch…, k, n), with any strides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from treadle.dsl.types import ScalarType
from treadle.skeletons.algorithms import NAMED, BilinearAlgorithm

Product = Callable[[Any, Any], Any]
LIMB = 11  # bits: 2²²·k stays below 2⁵³ for k < 2³¹


def blas(a: Any, b: Any) -> Any:
    """The library's product (float32, float64, complex)."""
    return np.matmul(a, b)


def exact_small(a: Any, b: Any) -> Any:
    """Integers of at most 16 bits through float64: every sum stays below 2⁵³ for k < 2²¹."""
    k, step = a.shape[-1], 1 << 20
    total = np.zeros((), np.int64)
    for start in range(0, max(k, 1), step):
        part = np.matmul(
            a[..., start : start + step].astype(np.float64),
            b[..., start : start + step, :].astype(np.float64),
        )
        total = total + part.astype(np.int64)
    return total.astype(a.dtype)


def limbs32(a: Any, b: Any) -> Any:
    """32-bit integers modulo 2³²: three 11-bit limbs, six float64 products, each exact."""
    if a.shape[-1] > 1 << 30:
        half = a.shape[-1] // 2
        return limbs32(a[..., :half], b[..., :half, :]) + limbs32(a[..., half:], b[..., half:, :])
    x, y = ([part.astype(np.float64) for part in _split(v)] for v in (a, b))
    mask = np.uint64(0xFFFFFFFF)

    def exact(p: Any) -> Any:
        return p.astype(np.int64).view(np.uint64) & mask

    low = exact(np.matmul(x[0], y[0]))
    middle = exact(np.matmul(x[0], y[1]) + np.matmul(x[1], y[0]))
    high = exact(np.matmul(x[0], y[2]) + np.matmul(x[1], y[1]) + np.matmul(x[2], y[0]))
    total = low + (middle << np.uint64(LIMB)) + (high << np.uint64(2 * LIMB))
    return (total & mask).astype(np.uint32).view(a.dtype)


def _split(v: Any) -> list[Any]:
    """Limbs of 32-bit values as unsigned numbers: v = l₀ + 2¹¹·l₁ + 2²²·l₂ (mod 2³²)."""
    u = np.ascontiguousarray(v).view(np.uint32)
    low = np.uint32((1 << LIMB) - 1)
    return [u & low, (u >> np.uint32(LIMB)) & low, u >> np.uint32(2 * LIMB)]


def half_precision(a: Any, b: Any) -> Any:
    """float16 and bfloat16, accumulated in float32."""
    return np.matmul(a.astype(np.float32), b.astype(np.float32)).astype(a.dtype)


def wrapping(a: Any, b: Any) -> Any:
    """64-bit integers and booleans: NumPy's own loops, which wrap (bool: or of ands)."""
    return np.matmul(a, b)


def standard_for(t: ScalarType) -> Product:
    """The standard product of a type."""
    if t.is_complex or (t.is_float and t.bits >= 32):
        return blas
    if t.is_float:
        return half_precision
    if t.is_integer and t.bits <= 16:
        return exact_small
    if t.is_integer and t.bits == 32:
        return limbs32
    return wrapping


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
