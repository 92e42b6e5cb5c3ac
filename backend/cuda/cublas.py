"""Products by cuBLAS where CuPy's `matmul` will not do: bfloat16, TF32, operands read in place.

A row-major matrix is, to cuBLAS, the transposed one in its column-major order: C = A·B is computed
as Cᵀ = Bᵀ·Aᵀ, and an operand needs no copy if either of its axes runs through memory in steps of
one.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

# cudaDataType and cublasComputeType_t
_TYPES = {"float16": 2, "bfloat16": 14, "float32": 0, "float64": 1, "complex64": 4, "complex128": 5}
_COMPUTE = {"float16": 68, "bfloat16": 68, "float32": 68, "float64": 70, "complex64": 68,
            "complex128": 70}  # fmt: skip
_COMPUTE_TF32 = 77
_SCALES = {"float16": "float32", "bfloat16": "float32"}
_NO, _YES = 0, 1  # transposed?
_DEFAULT = -1


def gemm(out: Any, a: Any, b: Any, *, tf32: bool = False, add: bool = False) -> None:
    """`out = a @ b` (`add`: += ): CuPy arrays of one type, equal leading axes, the columns of
    `out` side by side.

    16-bit operands are accumulated in float32; `out` may then be float32 too.
    """
    if out.size == 0:
        return
    if a.shape[-1] == 0:
        if not add:
            out.fill(0)
        return
    a, b = _readable(a), _readable(b)
    if out.ndim > 3:
        for place in np.ndindex(*out.shape[:-3]):
            _batch(out[place], a[place], b[place], tf32, add)
    else:
        _batch(out, a, b, tf32, add)


def _batch(out: Any, a: Any, b: Any, tf32: bool, add: bool) -> None:
    from cupy.cuda import device
    from cupy_backends.cuda.libs import cublas

    name = a.dtype.name
    (m, k), n = a.shape[-2:], b.shape[-1]
    right, left = _layout(b), _layout(a)
    compute = _COMPUTE_TF32 if tf32 and name == "float32" else _COMPUTE[name]
    one, zero = _scales(_SCALES.get(name, name))
    old = one if add else zero
    kind, made = _TYPES[name], _TYPES[out.dtype.name]
    handle = device.get_cublas_handle()
    lead = out.strides[-2] // out.itemsize if m > 1 else n
    if out.ndim == 2:
        cublas.gemmEx(
            handle, right[0], left[0], n, m, k, one.ctypes.data, b.data.ptr, kind, right[1],
            a.data.ptr, kind, left[1], old.ctypes.data, out.data.ptr, made, lead, compute, _DEFAULT,
        )  # fmt: skip
        return
    cublas.gemmStridedBatchedEx(
        handle, right[0], left[0], n, m, k, one.ctypes.data, b.data.ptr, kind, right[1],
        b.strides[0] // b.itemsize, a.data.ptr, kind, left[1], a.strides[0] // a.itemsize,
        old.ctypes.data, out.data.ptr, made, lead, out.strides[0] // out.itemsize, out.shape[0],
        compute, _DEFAULT,
    )  # fmt: skip


@lru_cache(maxsize=8)
def _scales(name: str) -> tuple[Any, Any]:
    """One and zero of the type that products are scaled in."""
    return np.ones((), name), np.zeros((), name)


def _readable(x: Any) -> Any:
    """The operand, or a dense copy where cuBLAS could not read it in place."""
    import cupy

    whole = _layout(x) is not None and min(x.strides) >= 0
    return x if whole else cupy.ascontiguousarray(x)


def _layout(x: Any) -> Any:
    """(transposed, leading dimension) to cuBLAS; None for what it cannot read."""
    rows, cols = x.shape[-2:]
    down, across = (s // x.itemsize for s in x.strides[-2:])
    if (across == 1 or cols == 1) and (down >= max(cols, 1) or rows == 1):
        return _NO, max(down if rows > 1 else cols, cols, 1)
    if (down == 1 or rows == 1) and (across >= max(rows, 1) or cols == 1):
        return _YES, max(across if cols > 1 else rows, rows, 1)
    return None
