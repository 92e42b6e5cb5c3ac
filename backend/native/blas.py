"""Products of floats by the BLAS that NumPy has loaded, on treadle's own threads.

OpenBLAS's threads wait for each other, and for the next product, in busy loops.  They would take
cores from the team of threads that runs treadle's kernels (`runtime/threads.py`), and from other
programs.  A product is therefore cut into blocks for that team, and OpenBLAS computes each block
with the thread that calls it (`runtime/blas.c`).

It is NumPy's product, with the library's own threads, where there is no such team or another
library (MKL, Accelerate, an OpenBLAS for OpenMP), and where the library has fewer threads than the
team, because somebody asked for that (`OPENBLAS_NUM_THREADS`, threadpoolctl).
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from treadle.dsl.errors import DeviceOutOfMemory
from treadle.dsl.process import locks
from treadle.dsl.process.limits import BLAS, require_memory

from ..runtime import memory
from ..runtime.memory import address
from ..runtime.types import HostArray
from .runtime import modules, threads

#: Multiplications up to which OpenBLAS uses one thread (its SMP_THRESHOLD_MIN times
#: GEMM_MULTITHREAD_THRESHOLD; matrix times vector: 2304 times that).
ALONE, VECTOR_ALONE = 1 << 18, 2304 * 4
#: Multiplications that are worth a task, of matrices and of a matrix and a vector, and how many
#: take a nanosecond, about.
TASK, VECTOR_TASK, RATE = 1 << 21, 1 << 16, 16
#: The least extent of a block: a multiple of what micro-kernels compute at a time.
LEAST = 48
#: Tasks for each thread, if there are so many multiplications: one that is late has less to do.
EACH, LARGE = 4, 1 << 26
#: Threads that may call OpenBLAS at the same time: it ends the process if its buffers are too few.
MOST_CALLERS = 64

#: The letters of BLAS for NumPy's types, and blas.c's kinds of products.
_LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}
_MATRICES, _VECTOR, _SQUARE = range(3)
_OPENMP = 2  # what openblas_get_parallel says
#: blas.c's `struct product`.
_Product = ctypes.c_int64 * 22
_Entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


class Functions(NamedTuple):
    """Addresses of functions for one type, and of its 1 and 0."""

    gemm: int
    gemv: int
    syrk: int
    one: int
    zero: int


class Library(NamedTuple):
    """An OpenBLAS: the threads that it would use, the most that it might without being told
    otherwise, functions by type, and blas.c's."""

    threads: Callable[[], int]
    most: int
    get_threads: int
    set_threads: int
    functions: dict[str, Functions]
    entry: int
    call: Callable[[int, int, int], None]
    constants: dict[str, HostArray]  # of which `functions` has addresses


@functools.lru_cache(maxsize=1)
def library() -> Library | None:
    """NumPy's OpenBLAS; None if there is another library, or no team, or a very large one."""
    if threads.team() is None or threads.thread_count() > MOST_CALLERS:
        return None
    try:
        loaded = ctypes.CDLL(np.linalg._umath_linalg.__file__)
    except (OSError, AttributeError):
        return None
    for prefix, suffix in (("scipy_", "64_"), ("scipy_", ""), ("", "64_"), ("", "")):
        with suppress(AttributeError):  # a name that is not there
            return _library(loaded, prefix, suffix)
    return None


def _library(loaded: ctypes.CDLL, prefix: str, suffix: str) -> Library | None:
    def of(name: str) -> int:
        return ctypes.cast(getattr(loaded, prefix + name + suffix), ctypes.c_void_p).value or 0

    if getattr(loaded, f"{prefix}openblas_get_parallel{suffix}")() == _OPENMP:
        return None
    constants = {t: np.array([1, 0], t) for t in _LETTERS}
    functions = {}
    for t, letter in _LETTERS.items():
        one = address(constants[t])
        gemm, gemv, syrk = (of(f"{letter}{name}_") for name in ("gemm", "gemv", "syrk"))
        functions[t] = Functions(gemm, gemv, syrk, one, one + constants[t].itemsize)
    found = modules.blas()
    locks.after_fork(ctypes.CFUNCTYPE(None)(found["forget_products"]))
    get_threads, set_threads = of("openblas_get_num_threads"), of("openblas_set_num_threads")
    count = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(found["threads_outside"])
    most = min(getattr(loaded, f"{prefix}openblas_get_num_procs{suffix}")(), threads.thread_count())
    return Library(partial(count, get_threads), most, get_threads, set_threads, functions,
                   found["blocks"], _Entry(found["blocks"]), constants)  # fmt: skip


def matmul(a: HostArray, b: HostArray, out: HostArray | None = None, alone: bool = False
           ) -> HostArray:  # fmt: skip
    """`np.matmul` of arrays of one type with at least two axes; `out` overlaps none of them.

    `alone`: by this thread, because others have work.  `DeviceOutOfMemory` without memory for BLAS.
    """
    found: HostArray = memory.matmul(a, b, out, _alone if alone else _together)
    return found


def _together(a: HostArray, b: HostArray, out: HostArray | None) -> HostArray:
    return _multiply(a, b, out, threads.thread_count())


def _alone(a: HostArray, b: HostArray, out: HostArray | None) -> HostArray:
    return _multiply(a, b, out, 1)


def _multiply(a: HostArray, b: HostArray, out: HostArray | None, most: int) -> HostArray:
    (m, k), n, type_ = a.shape[-2:], b.shape[-1], a.dtype
    if m * n * k <= VECTOR_ALONE:
        return np.matmul(a, b, out=out)
    blas = library()
    if blas is None or not type_.isnative or blas.threads() < blas.most:
        return np.matmul(a, b, out=out)
    if out is None:
        out = memory.POOL.allocate((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), m, n), type_)
    if m == 1 or out.strides[-1] != out.itemsize:
        # Of a row, or into columns: the transposed product.
        left, right, to = b.swapaxes(-1, -2), a.swapaxes(-1, -2), out.swapaxes(-1, -2)
    else:
        left, right, to = a, b, out
    left, right = _readable(left), _readable(right)
    square = left.ndim == 2 == right.ndim and address(left) == address(right)
    plan = _plan(type_.char, to.shape, left.shape, right.shape, to.strides, left.strides,
                 right.strides, square, most)  # fmt: skip
    if plan is None or not to.flags.aligned:
        return np.matmul(a, b, out=out)
    product = _Product.from_buffer_copy(plan.product)
    if to.ndim == 2:
        product[-3:] = [address(left), address(right), address(to)]
    else:
        batch = to.shape[:-2]
        held = np.stack([_addresses(x, batch) for x in (left, right, to)], axis=-1)
        product[-4] = address(held)
    if plan.callers > 1:
        with suppress(DeviceOutOfMemory):
            require_memory(BLAS * plan.callers, "for the library of matrix products")
            threads.parallel(blas.entry, blas.call, ctypes.addressof(product), plan.blocks,
                             plan.work)  # fmt: skip
            return out
    blas.call(ctypes.addressof(product), 0, plan.blocks)
    return out


class _Plan(NamedTuple):
    """blas.c's product without addresses of arrays, the number of its blocks, the threads that
    compute them and how many nanoseconds they need, about."""

    product: bytes
    blocks: int
    callers: int
    work: float


@functools.lru_cache(maxsize=1024)
def _plan(char: str, shape: tuple[int, ...], left: tuple[int, ...], right: tuple[int, ...],
          steps: tuple[int, ...], left_steps: tuple[int, ...], right_steps: tuple[int, ...],
          square: bool, most: int) -> _Plan | None:  # fmt: skip
    """How a product of these shapes and strides is computed; None: by NumPy.

    `square`: both operands begin at the same address.
    """
    blas = library()
    assert blas is not None
    (*batch, m, n), k, size = shape, left[-1], np.dtype(char).itemsize
    (down, across), count, vector = steps[-2:], math.prod(batch), n == 1
    each = m * n * k * (4 if char in "FD" else 1)
    if not count or each <= (VECTOR_ALONE if vector else ALONE):
        return None
    if down <= 0 or down % size or not (vector or (across == size and down >= n * size)):
        return None
    tasks = min(max(each * count // (VECTOR_TASK if vector else TASK), 1), most)
    if each * count >= LARGE * most and most > 1:
        tasks = EACH * most
    tasks = -(-tasks // count)
    functions, kind = blas.functions[char], _MATRICES
    left_by_columns, left_next = _layout(left, left_steps, size)
    if vector:
        kind, rows, columns = _VECTOR, _extent(m, tasks), 1
        right_by_columns, right_next = False, right_steps[-2] // size
    elif square and left[::-1] == right and left_steps[::-1] == right_steps:
        kind = _SQUARE
        rows = columns = _extent(m, 1 if tasks == 1 else math.isqrt(2 * tasks) + 1)
        right_by_columns, right_next = not left_by_columns, left_next
    else:
        rows, columns = _grid(m, n, tasks)
        right_by_columns, right_next = _layout(right, right_steps, size)
    blocks = -(-m // rows)
    blocks = count * (blocks * (blocks + 1) // 2 if kind == _SQUARE else blocks * -(-n // columns))
    product = _Product(
        functions.gemv if vector else functions.gemm, functions.syrk, blas.get_threads,
        blas.set_threads, functions.one, functions.zero, kind, m, n, k, size, left_by_columns,
        right_by_columns, left_next, right_next, down // size, rows, columns,
    )  # fmt: skip
    return _Plan(bytes(product), blocks, min(blocks, most), each * count / RATE)


def _layout(shape: tuple[int, ...], steps: tuple[int, ...], size: int) -> tuple[bool, int]:
    """Whether columns are contiguous, not rows; and the elements from one to the next."""
    down, across = steps[-2:]
    if across == size and down >= shape[-1] * size:
        return False, down // size
    return True, across // size


def _readable(x: HostArray) -> HostArray:
    """The matrices if BLAS can read them in place, or a copy: rows (or columns) are contiguous, and
    their distance is a number of elements; elements of a single column may have any distance."""
    size, (rows, columns), (down, across) = x.itemsize, x.shape[-2:], x.strides[-2:]
    if x.flags.aligned and not down % size and not across % size:
        if across == size and down >= columns * size:
            return x
        if down == size and across >= rows * size:
            return x
        if columns == 1 and down > 0:
            return x
    return np.array(x, order="C")


def _addresses(x: HostArray, batch: tuple[int, ...]) -> NDArray[np.int64]:
    """The address of each matrix of a batch to which `x` is broadcast."""
    found = np.full((), address(x), np.int64)
    if batch:
        wide = np.broadcast_to(x, (*batch, *x.shape[-2:]))
        for extent, stride in zip(batch, wide.strides, strict=False):
            found = found[..., None] + np.arange(extent) * stride
    return found


def _extent(extent: int, parts: int) -> int:
    """The extent of about so many blocks."""
    each = -(-extent // parts)
    return min(extent, -(-each // LEAST) * LEAST)


def _grid(m: int, n: int, blocks: int) -> tuple[int, int]:
    """The rows and columns of about so many blocks, which are as square as they can be."""
    divisors = (d for d in range(1, blocks + 1) if blocks % d == 0)
    across = min(divisors, key=lambda d: m * d / blocks + n / d)
    return _extent(m, blocks // across), _extent(n, across)
