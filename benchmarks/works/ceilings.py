"""What this machine can do at most: copying, and multiplying and adding."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numba as nb
import numpy as np

Run = Callable[[], Any]


@nb.njit(parallel=True)
def copy_by_slices(source: Any, target: Any, parts: int) -> None:
    """A copy in large pieces, one or a few per core: memcpy inside."""
    n = source.size
    for p in nb.prange(parts):
        low, high = n * p // parts, n * (p + 1) // parts
        target[low:high] = source[low:high]


@nb.njit(parallel=True)
def copy_by_elements(source: Any, target: Any) -> None:
    """A copy element by element, as a map would do it."""
    for i in nb.prange(source.size):
        target[i] = source[i]


@nb.njit(parallel=True, fastmath={"contract"})
def polynomial(x: Any, out: Any, iterations: int, parts: int) -> None:
    """A polynomial of degree 32 by Horner's rule, again and again on data in the L1 cache."""
    n = x.shape[1]
    for p in nb.prange(parts):
        for _ in range(iterations):
            for i in range(n):
                v = x[p, i]
                r = v
                for _k in range(32):
                    r = r * v + v
                out[p, i] = r


class Copies:
    """Copies of any size between two buffers that are made once."""

    def __init__(self) -> None:
        self._source = np.zeros(0, np.float32)
        self._target = np.zeros(0, np.float32)
        self.parts = nb.get_num_threads()

    def _buffers(self, count: int) -> tuple[Any, Any]:
        if self._source.size < count:
            self._source = np.ones(count, np.float32)
            self._target = np.zeros(count, np.float32)
        return self._source[:count], self._target[:count]

    def ways(self, size: float) -> dict[str, Run]:
        """All ways to copy, `size` bytes read and written together."""
        source, target = self._buffers(max(1, int(size) // 8))
        to, by, n = target.ctypes.data, source.ctypes.data, source.nbytes
        return {
            "parallel memcpy": lambda: copy_by_slices(source, target, self.parts),
            "parallel loop": lambda: copy_by_elements(source, target),
            "memcpy": lambda: ctypes.memmove(to, by, n),
            "numpy.copyto": lambda: np.copyto(target, source),
        }

    def __call__(self, size: float) -> Run:
        """The ceiling: the copy by all cores."""
        return self.ways(size)["parallel memcpy"]


@cache
def _fma(dtype: str) -> tuple[Run, float]:
    parts, n, iterations = nb.get_num_threads(), 2048 * 4 // np.dtype(dtype).itemsize, 200
    x = np.full((parts, n), 0.25, dtype)
    out = np.zeros_like(x)
    flops = 2.0 * 32 * parts * n * iterations
    return lambda: polynomial(x, out, iterations, parts), flops


def fma() -> tuple[Run, float]:
    """A loop of float32 multiply-adds on all cores, and its operations."""
    return _fma("float32")


def fma64() -> tuple[Run, float]:
    """The same in float64."""
    return _fma("float64")
