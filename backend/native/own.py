"""Products on the host: BLAS, treadle kernels for other types, operations of fast algorithms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import numpy as np

from treadle.dsl.array import Array
from treadle.dsl.evaluator import evaluator
from treadle.dsl.expr import Index
from treadle.dsl.frontend.trees import flatten_results
from treadle.dsl.graph import Input, Label, Leaf, Matmul
from treadle.dsl.operations.linalg import MatmulOptions
from treadle.dsl.process import limits, locks
from treadle.dsl.process.configuration import Settings
from treadle.dsl.types import ScalarType
from treadle.skeletons.products.kit import Job, Kit

from ..runtime.memory import POOL, matmul
from .runtime.threads import thread_count
from .sums import add_up

Product = Callable[[Any, Any], Any]


def blas(a: Any, b: Any) -> Any:
    """The library's product (float32, float64, complex), into pooled memory."""
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    out = POOL.allocate((*batch, a.shape[-2], b.shape[-1]), a.dtype)
    return matmul(a, b, out)


@lru_cache(maxsize=32)
def own_kernel(t: ScalarType) -> Product:
    """treadle's product kernel, for types that BLAS does not support; integers wrap."""
    left = Input("left", t, (False, False), kind="argument")
    right = Input("right", t, (False, False), kind="argument")
    (m, k), n = left.shape, right.shape[1]
    place = (Index(0), Index(1))
    node = Matmul(
        (), m, n, k, Leaf(left, 0).at(*place), Leaf(right, 0).at(*place),
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
    """The standard product of a type."""
    if t.is_complex or (t.is_float and t.bits >= 32):
        return blas
    if t.is_float:
        return half_precision
    return own_kernel(t)


# --- fast algorithms ------------------------------------------------------------------------------


class Host(Kit):
    """Products by BLAS or a treadle kernel; sums by a kernel, on all cores."""

    def __init__(self, t: ScalarType, ordered: bool = False) -> None:
        """`ordered`: use one worker, so that every run adds in the same order."""
        super().__init__(np)
        self.workers = 1 if ordered else thread_count()
        self.exact = None if t.is_inexact else own_kernel(t)

    def product(self, a: Any, b: Any, out: Any) -> None:
        if self.exact is not None:
            out[...] = self.exact(a, b)
        else:
            matmul(a, b, out)

    def sums(self, made: Sequence[tuple[Any, Sequence[tuple[float, Any]]]],
             shared: Sequence[tuple[float, Any]] = ()) -> None:  # fmt: skip
        add_up(made, shared)

    def together(self, jobs: Sequence[Sequence[Job]]) -> None:
        if len(jobs) == 1 or self.workers == 1:
            super().together(jobs)
            return

        def work(worker: int) -> None:
            for job in jobs[worker]:
                job(worker)

        pool = _pool(len(jobs))
        list((pool.map if pool else map)(work, range(len(jobs))))


@lru_cache(maxsize=8)
def _pool(threads: int) -> ThreadPoolExecutor | None:
    """The threads of jobs that run together."""
    return limits.threads(threads, "treadle jobs")


locks.after_fork(_pool.cache_clear)  # a forked child does not have its parent's threads
