"""Pooled host memory for results and intermediates.

A fresh large allocation causes a page fault every 4 kB, which takes as long as the kernel that
fills it.  The pool keeps its blocks and reuses a block once nothing else refers to it: no program,
and no array or view of a user.
"""

from __future__ import annotations

import ctypes
import math
import os
import sys
from typing import Any

import numpy as np

from treadle.dsl.errors import DeviceOutOfMemory, ShapeError, TreadleError
from treadle.dsl.process import locks
from treadle.dsl.process.limits import BLAS, limit, require_memory

from .types import DType

SMALLEST = 1 << 16
LIMIT = 1 << 30
#: More bytes than any array has.
ADDRESSABLE = 1 << 62


def _idle_references() -> int:
    """The `sys.getrefcount` of a block that only the pool refers to, measured in a loop over
    blocks, since Python 3.14 counts differently from earlier versions."""
    blocks = [(np.empty(1, np.uint8), 0)]
    counts = []
    for block, _ in blocks:
        counts.append(sys.getrefcount(block))
    return counts[0]


_FREE = _idle_references()

_from_address = ctypes.c_size_t.from_address
#: The offset of the data pointer in an array object: a field of NumPy's C interface.
_FIELD = object.__basicsize__


def _read(array: Any) -> int:
    return _from_address(id(array) + _FIELD).value


def address_word(array: Any) -> int:
    """The address of the field of an array object that holds its data pointer; CPython only."""
    return id(array) + _FIELD


def _ask(array: Any) -> int:
    return int(array.ctypes.data)


def _works() -> bool:
    """Whether the field at that address is the data pointer."""
    arrays = [np.zeros(100), np.zeros((4, 4))[1:, ::-1], np.empty(0)]
    return sys.implementation.name == "cpython" and all(_read(a) == _ask(a) for a in arrays)


#: The address of an array's first element (`array.ctypes.data`, ten times as fast).
address = _read if _works() else _ask


def free_bytes() -> int:
    """The free physical memory in bytes, 0 if the system does not report it."""
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return 0


def matmul(a: Any, b: Any, out: Any = None) -> Any:
    """`np.matmul`, but raises an error first if there is too little memory for its workspace.

    A batch of matrices times the same matrix is computed as one product of all their rows.
    """
    require_memory(BLAS, "for the library of matrix products")
    filled = a.size and b.shape[-1] and a.flags.c_contiguous
    if a.ndim > 2 and filled and _is_one_matrix(b, a.shape[:-2]):
        one = b[(0,) * (b.ndim - 2)]
        shape = (*a.shape[:-1], b.shape[-1])
        rows = None if out is None else out.reshape(-1, b.shape[-1])
        if rows is None or np.may_share_memory(rows, out):
            return np.matmul(a.reshape(-1, a.shape[-1]), one, out=rows).reshape(shape)
    return np.matmul(a, b, out=out)


def _is_one_matrix(b: Any, batch: tuple[int, ...]) -> bool:
    """Whether an operand is the same matrix for a whole batch of these extents."""
    own = b.shape[:-2]
    return (
        len(own) <= len(batch)
        and all(n == 1 or not stride for n, stride in zip(own, b.strides, strict=False))
        and all(n in (1, m) for n, m in zip(own[::-1], batch[::-1], strict=False))
    )


def no_memory(shape: tuple[int, ...], dtype: DType, pooled: int = 0) -> TreadleError:
    """The error of a failed allocation, with the bytes requested, pooled and free."""
    size = math.prod(shape, start=dtype.itemsize)
    if not size:
        return ShapeError(
            f"no array has the shape {shape}: it is empty, but its other extents multiply to more "
            "bytes than can be addressed.",
            hint="Give the other axes the extents of what is there, 0 where there is nothing.",
        )
    return DeviceOutOfMemory(
        f"no memory for an array of shape {shape} ({dtype}): {size:,} bytes asked for, "
        f"{pooled:,} held for reuse, {free_bytes():,} free{_limited()}.",
        hint="Use smaller arrays, or compute in parts; the program stays usable.",
    )


def _limited() -> str:
    most = limit()
    return "" if most is None else f", {most:,} the most that this process may have"


class Pool:
    """Blocks by size in bytes; thread-safe; at most `limit` bytes are kept, of `sizes` sizes."""

    sizes = 64

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit = limit
        # By size: the memory, and the offset of its first 64-byte boundary.
        self._blocks: dict[int, list[tuple[Any, int]]] = {}
        self._pooled = 0
        self._lock = locks.lock()

    def allocate(self, shape: tuple[int, ...], dtype: DType) -> Any:
        """An uninitialised C-contiguous array, 64-byte aligned when it comes from the pool."""
        size = dtype.itemsize
        for n in shape:
            size *= n
        if size < SMALLEST:
            try:
                return np.empty(shape, dtype)
            except ValueError:
                raise no_memory(shape, dtype) from None
        if size >= ADDRESSABLE:
            raise no_memory(shape, dtype, self._pooled)
        with self._lock:
            for block, shift in self._blocks.get(size, ()):
                if sys.getrefcount(block) == _FREE:
                    return np.ndarray(shape, dtype, block, shift)
            try:
                raw = np.empty(size + 64, np.uint8)
            except MemoryError:
                self._drop(everything=True)
                try:
                    raw = np.empty(size + 64, np.uint8)
                except MemoryError:
                    raise no_memory(shape, dtype, self._pooled) from None
            shift = -address(raw) % 64
            if self._pooled + size > self.limit:
                self._drop()
            if size not in self._blocks and len(self._blocks) >= self.sizes:
                self._drop_a_size()
            if self._pooled + size <= self.limit:
                self._blocks.setdefault(size, []).append((raw, shift))
                self._pooled += size
            return np.ndarray(shape, dtype, raw, shift)

    def _drop(self, everything: bool = False) -> None:
        """Free idle blocks, oldest sizes first, down to half the limit."""
        for size in list(self._blocks):
            kept = []
            for block, shift in self._blocks[size]:
                idle = sys.getrefcount(block) == _FREE
                if idle and (everything or self._pooled > self.limit // 2):
                    self._pooled -= size
                else:
                    kept.append((block, shift))
            if kept:
                self._blocks[size] = kept
            else:
                del self._blocks[size]

    def _drop_a_size(self) -> None:
        """Free the blocks of the oldest size whose blocks are all idle."""
        for size, blocks in self._blocks.items():
            if all(sys.getrefcount(block) == _FREE for block, _ in blocks):
                del self._blocks[size]
                self._pooled -= size * len(blocks)
                return

    @property
    def pooled(self) -> int:
        """Bytes in blocks of the pool, idle or not."""
        return self._pooled


POOL = Pool()
