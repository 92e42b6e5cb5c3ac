"""Sums of blocks on all cores, in one pass over memory, by a compiled kernel."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from treadle.dsl.process import locks
from treadle.dsl.types import as_type
from treadle.skeletons.products.sums_cpu import SumTable, Terms, sums_kernel

from ..runtime.memory import address
from .runtime import threads
from .runtime.code import CompiledKernel, Launcher

#: Bytes that a task reads and writes, about; and nanoseconds for each kilobyte.
TASK_BYTES, KILOBYTE = 1 << 18, 50.0


def add_up(made: Sequence[tuple[Any, Sequence[tuple[float, Any]]]],
           shared: Sequence[tuple[float, Any]] = ()) -> None:  # fmt: skip
    """`out[...] = Σ c·x + Σ shared` for every (out, terms), all two-dimensional, of one shape and
    type; all reads come before all writes, and arrays do not overlap unless they are the same.

    Coefficients are real.  A target among the terms of its sum comes first, then the shared terms.
    """
    arrays: list[Any] = []
    numbers: dict[tuple[int, ...], int] = {}
    factors: list[float] = []

    def number(x: Any) -> int:
        key = address(x), *x.strides
        if key not in numbers:
            numbers[key] = len(arrays)
            arrays.append(x)
        return numbers[key]

    def numbered(terms: Sequence[tuple[float, Any]], target: int = -1) -> Terms:
        found = sorted(((number(x), c) for c, x in terms), key=lambda one: one[0] != target)
        factors.extend(c for _, c in found)
        return tuple(k for k, _ in found)

    common = numbered(shared)
    sums = tuple((k, numbered(terms, k)) for k, terms in ((number(x), t) for x, t in made))
    first = arrays[0]
    if not first.size:
        return
    rows, columns = first.shape
    strides = [x.strides for x in arrays]
    if all(abs(down) < abs(across) for down, across in strides):  # sums of the transposed matrices
        rows, columns = columns, rows
        strides = [(across, down) for down, across in strides]
    places, size, parts = list(map(address, arrays)), first.itemsize, 1
    dtype = first.dtype
    if dtype.kind == "c":  # of pairs of numbers
        dtype, size, parts = np.dtype(f"f{size // 2}"), size // 2, 2
        if all(across == 2 * size for _, across in strides):
            strides = [(down, size) for down, _ in strides]
            columns, parts = 2 * columns, 1
    t = as_type(dtype)
    contiguous = tuple(across == size for _, across in strides)
    kernel = _kernel(SumTable(t, sums, common, contiguous))
    row = size * columns * len(arrays)
    each = max(1, min(TASK_BYTES // row, -(-rows // threads.thread_count())))
    scalars: list[float] = [rows, columns, each, *(down // size for down, _ in strides)]
    scalars += [across // size for _, across in strides if across != size]
    scalars += factors if t.is_inexact else [int(c) % (1 << t.bits) for c in factors]
    for part in range(parts):
        kernel([at + part * size for at in places], scalars, -(-rows // each),
               rows * row / 1024 * KILOBYTE)  # fmt: skip


class _Kernel:
    """A compiled kernel with launchers, one for each thread at a time."""

    def __init__(self, compiled: CompiledKernel) -> None:
        self.compiled, self.idle = compiled, list[Launcher]()

    def __call__(self, addresses: Sequence[int], scalars: Sequence[float], tasks: int, work: float
                 ) -> None:  # fmt: skip
        try:
            launcher = self.idle.pop()
        except IndexError:
            threads.join_openmp()
            launcher = self.compiled.bind()
        launcher(addresses, scalars, tasks, 0, work)
        self.idle.append(launcher)


@lru_cache(maxsize=256)
def _kernel(table: SumTable) -> _Kernel:
    from .codegen.compile import compile_kernel

    return _Kernel(compile_kernel(sums_kernel(table)))


locks.after_fork(_kernel.cache_clear)
