"""Products on the host: BLAS, treadle kernels for other types, and the sums of fast algorithms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from treadle.dsl.array import Array
from treadle.dsl.evaluator import evaluator
from treadle.dsl.expr import Index
from treadle.dsl.frontend.trees import flatten_results
from treadle.dsl.graph import Input, Label, Leaf, Matmul
from treadle.dsl.operations.algebra.products import MatmulOptions
from treadle.dsl.process import locks
from treadle.dsl.process.configuration import Settings
from treadle.dsl.process.workers import concurrently
from treadle.dsl.types import ScalarType, as_type
from treadle.skeletons.products.kit import Job, Kit
from treadle.skeletons.products.sums_cpu import SumTable, Terms, sums_kernel

from ..runtime.memory import POOL, address, matmul
from .runtime import threads
from .runtime.code import CompiledKernel, Launcher
from .runtime.threads import thread_count

# --- Sums of blocks on all cores, in one pass over memory, by a compiled kernel -------------------

#: The approximate bytes that a task reads and writes; and nanoseconds per kilobyte.
TASK_BYTES, KILOBYTE = 1 << 18, 50.0


def add_up(made: Sequence[tuple[Any, Sequence[tuple[float, Any]]]],
           shared: Sequence[tuple[float, Any]] = ()) -> None:  # fmt: skip
    """`out[...] = Σ c·x + Σ shared` for every (out, terms), all two-dimensional and of one shape
    and type.  All reads precede all writes; arrays do not overlap unless they are identical.
    Coefficients are real.  A target among the terms of its sum is added first, then the shared
    terms."""
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
    positions, size, parts = list(map(address, arrays)), first.itemsize, 1
    dtype = first.dtype
    if dtype.kind == "c":  # as pairs of real numbers
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
        kernel([at + part * size for at in positions], scalars, -(-rows // each),
               rows * row / 1024 * KILOBYTE)  # fmt: skip


class _Kernel:
    """A compiled kernel with a pool of launchers, each used by one thread at a time."""

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


Product = Callable[[Any, Any], Any]


def blas(a: Any, b: Any) -> Any:
    """The library's product (float32, float64, complex), into pooled memory."""
    several = a.ndim > 2 or b.ndim > 2  # broadcasting costs as much as a small product
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2]) if several else ()
    out = POOL.allocate((*batch, a.shape[-2], b.shape[-1]), a.dtype)
    return matmul(a, b, out)


@lru_cache(maxsize=32)
def kernel_product(t: ScalarType) -> Product:
    """treadle's product kernel, for types that BLAS does not support; integers wrap."""
    left = Input("left", t, (False, False), kind="argument")
    right = Input("right", t, (False, False), kind="argument")
    (m, k), n = left.shape, right.shape[1]
    position = (Index(0), Index(1))
    node = Matmul(
        (), m, n, k, Leaf(left, 0).at(*position), Leaf(right, 0).at(*position),
        MatmulOptions("standard"), label=Label("matmul"),
    )  # fmt: skip

    leaves, tree = flatten_results(Array(node.leaves))
    program = evaluator().program(leaves, tree, Settings(), "native", (left, right))

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
    return matmul(a.astype(np.float32), b.astype(np.float32)).astype(a.dtype)


def standard_for(t: ScalarType) -> Product:
    if t.is_complex or (t.is_float and t.bits >= 32):
        return blas
    if t.is_float:
        return half_precision
    return kernel_product(t)


# --- fast algorithms ------------------------------------------------------------------------------


class HostKit(Kit):
    """Products by BLAS or a treadle kernel; sums by a kernel, on all cores."""

    def __init__(self, t: ScalarType, ordered: bool = False) -> None:
        """`ordered`: use one worker, so that every run adds in the same order."""
        super().__init__(np)
        self.workers = 1 if ordered else thread_count()
        self.exact = None if t.is_inexact else kernel_product(t)

    def product(self, a: Any, b: Any, out: Any) -> None:
        if self.exact is not None:
            out[...] = self.exact(a, b)
        else:
            matmul(a, b, out)

    def sums(self, made: Sequence[tuple[Any, Sequence[tuple[float, Any]]]],
             shared: Sequence[tuple[float, Any]] = ()) -> None:  # fmt: skip
        add_up(made, shared)

    def concurrently(self, jobs: Sequence[Sequence[Job]]) -> None:
        if len(jobs) == 1 or self.workers == 1:
            super().concurrently(jobs)
            return

        def work(worker: int) -> None:
            for job in jobs[worker]:
                job(worker)

        concurrently([partial(work, worker) for worker in range(len(jobs))], len(jobs))
