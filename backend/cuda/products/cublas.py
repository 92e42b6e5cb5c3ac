"""Products by cuBLAS without CuPy arrays: all its types, TF32, operands read in place, results
scaled and added to existing values.

To cuBLAS a row-major matrix is the transposed one in its column-major order: C = A·B is computed as
Cᵀ = Bᵀ·Aᵀ, and an operand needs no copy if it is contiguous along one of its axes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from ctypes import c_int, c_longlong, c_void_p
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
#: cuBLAS extents and strides are 32-bit integers.
_MOST = 2**31 - 1

_Kind = type[c_int] | type[c_longlong] | type[c_void_p]
Layout = tuple[tuple[int, ...], tuple[int, ...]]
"""Extents and strides in elements: (batch…, rows, columns)."""


class Prepared:
    """A product as one call of cuBLAS, given the addresses of out, a and b."""

    __slots__ = ("_arguments", "_by_cupy", "_handle", "_name", "_scales")

    def __init__(self, name: str, arguments: Callable[[int, int, int], tuple[int, ...]],
                 scales: np.ndarray[Any, Any]) -> None:  # fmt: skip
        """`arguments`: those behind the handle, with the addresses of `scales`."""
        from cupy.cuda import device
        from cupy_backends.cuda.libs import cublas

        self._name, self._arguments, self._scales = name, arguments, scales
        self._by_cupy, self._handle = getattr(cublas, name), device.get_cublas_handle

    def __call__(self, to: int, x: int, y: int) -> None:
        """Queues it on CuPy's current stream."""
        self._by_cupy(self._handle(), *self._arguments(to, x, y))

    def queue(self, handle: int, to: int, x: int, y: int) -> int:
        """Queues it on the stream of a handle, which may be captured; the status."""
        status: int = getattr(library(), f"cublas{self._name[0].upper()}{self._name[1:]}")(
            handle, *self._arguments(to, x, y)
        )
        return status


def new_handle() -> int:
    from cupy_backends.cuda.libs import cublas

    found: int = cublas.create()
    return found


@lru_cache(maxsize=1)
def library() -> ctypes.CDLL:
    """The cuBLAS that CuPy calls, itself: CuPy's functions refuse streams that are captured."""
    from cupy_backends.cuda.libs import cublas

    found = ctypes.CDLL(cublas.__file__)  # names are looked up in what it is linked with, too
    operand: list[_Kind] = [c_void_p, c_int, c_int]
    tail: list[_Kind] = [c_int, c_int]
    start: list[_Kind] = [c_void_p, *[c_int] * 5, c_void_p]
    found.cublasGemmEx.argtypes = [*start, *operand, *operand, c_void_p, *operand, *tail]
    strided = [*operand, c_longlong]
    found.cublasGemmStridedBatchedEx.argtypes = [
        *start, *strided, *strided, c_void_p, *strided, c_int, *tail,
    ]  # fmt: skip
    found.cublasSetStream_v2.argtypes = [c_void_p, c_void_p]
    found.cublasSetWorkspace_v2.argtypes = [c_void_p, c_void_p, ctypes.c_size_t]
    return found


def gemm(out: Any, a: Any, b: Any, *, tf32: bool = False, add: bool = False,
         factor: float = 1) -> None:  # fmt: skip
    """`out = factor * (a @ b)` (`add`: += ), for CuPy arrays of one type with equal leading axes;
    the rows of `out` are contiguous.

    16-bit operands are accumulated in float32; `out` may then be float32 too.
    """
    if out.size == 0:
        return
    if a.shape[-1] == 0:
        if not add:
            out.fill(0)
        return
    layouts = [(x.shape, tuple(s // x.itemsize for s in x.strides)) for x in (out, a, b)]
    made = prepared(a.dtype.name, out.dtype.name, *layouts, tf32, add, factor)
    if made is not None:
        made(out.data.ptr, a.data.ptr, b.data.ptr)
        return
    x, y = _readable(a), _readable(b)
    if x is not a or y is not b:
        gemm(out, x, y, tf32=tf32, add=add, factor=factor)
    elif out.ndim > 2:
        for index in range(len(out)):
            gemm(out[index], a[index], b[index], tf32=tf32, add=add, factor=factor)
    else:
        raise ValueError(f"no product of cuBLAS: {layouts}")


@lru_cache(maxsize=1024)
def prepared(name: str, made: str, out: Layout, a: Layout, b: Layout, tf32: bool = False,
             add: bool = False, factor: float = 1) -> Prepared | None:  # fmt: skip
    """`factor * (a @ b)` of the type `name` into a result of the type `made` (`add`: += ); None if
    one call of cuBLAS cannot compute it.

    The extents are positive.
    """
    if name not in _TYPES or made not in _TYPES:
        return None
    (*batch, m, n), k = out[0], a[0][-1]
    left, right = (_side(x[0][-2:], x[1][-2:]) for x in (a, b))
    target = _side(out[0][-2:], out[1][-2:])
    found = (_one_step(batch, x[1][:-2]) for x in (out, a, b))
    steps = [s for s in found if s is not None]
    if left is None or right is None or target is None or len(steps) < 3 or target[0] != _NO:
        return None
    if max(m, n, k, left[1], right[1], target[1]) > _MOST:
        return None
    kind, result = _TYPES[name], _TYPES[made]
    compute = _COMPUTE_TF32 if tf32 and name == "float32" else _COMPUTE[name]
    scales = np.array([factor, int(add)], _SCALES.get(name, name))
    scale, beta, lead = scales.ctypes.data, scales[1:].ctypes.data, target[1]
    (turned_b, lead_b), (turned_a, lead_a) = right, left
    many = int(np.prod(batch, dtype=np.int64))
    head = turned_b, turned_a, n, m, k, scale
    if many == 1:

        def one(to: int, x: int, y: int) -> tuple[int, ...]:
            return (*head, y, kind, lead_b, x, kind, lead_a, beta, to, result, lead, compute,
                    _DEFAULT)  # fmt: skip

        return Prepared("gemmEx", one, scales)
    step, step_a, step_b = steps

    def several(to: int, x: int, y: int) -> tuple[int, ...]:
        return (*head, y, kind, lead_b, step_b, x, kind, lead_a, step_a, beta, to, result, lead,
                step, many, compute, _DEFAULT)  # fmt: skip

    return Prepared("gemmStridedBatchedEx", several, scales)


def _one_step(batch: Sequence[int], strides: Sequence[int]) -> int | None:
    """The constant stride between consecutive matrices; None if there is none."""
    found, count = 0, 1
    for n, step in zip(reversed(batch), reversed(strides), strict=True):
        if n == 1:
            continue
        if count == 1:
            found = step
        elif step != found * count:
            return None
        count *= n
    return found if found >= 0 else None


def _readable(x: Any) -> Any:
    """The operand, or a dense copy if cuBLAS cannot read it in place."""
    import cupy

    strides = tuple(s // x.itemsize for s in x.strides)
    return x if _side(x.shape[-2:], strides[-2:]) is not None else cupy.ascontiguousarray(x)


def _side(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, int] | None:
    """(transposed, leading dimension) for cuBLAS; None if it cannot read the matrix."""
    (rows, cols), (down, across) = shape, strides
    if (down < 0 and rows > 1) or (across < 0 and cols > 1):
        return None
    if (across == 1 or cols == 1) and (down >= max(cols, 1) or rows == 1):
        return _NO, max(down if rows > 1 else cols, cols, 1)
    if (down == 1 or rows == 1) and (across >= max(rows, 1) or cols == 1):
        return _YES, max(across if cols > 1 else rows, rows, 1)
    return None
