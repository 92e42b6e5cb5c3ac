"""Matrix products: written naively under several orders, recognised, and the library's."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import treadle as td
from benchmarks.harness import Case, Goal, Work

from . import by_triton
from .common import Run, Scale, by_torch, error_of, integers, mismatches_of, tensor, uniform

GROUP = "Matrix products"


def naive(n: int, scale: Scale) -> Case:
    """A loop over k per element: the time is the thread order's, and nothing else's."""
    a, b = uniform((n, n), -1, 1), uniform((n, n), -1, 1)[::-1].copy()

    def written(a: Any, b: Any, schedule: Any) -> Any:
        def element(i: Any, j: Any) -> Any:
            return td.loop(a.shape[1], lambda k, s: s + a[i, k] * b[k, j], td.float32(0))

        return td.generate((a.shape[0], b.shape[1]), element, schedule=schedule)

    order = td.schedule
    ours: dict[str, Run] = {}
    for s in (order.Row(), order.Column(256), order.Column(1024), order.ZigZag(128)):
        compiled = td.jit(partial(written, schedule=s), backend=scale.backend)
        ours[repr(s)] = lambda compiled=compiled: compiled(a, b)
    return Case(
        ours=ours,
        peers={"cuBLAS": lambda: a @ b},
        exact=lambda: a.astype(np.float64) @ b.astype(np.float64),
        flops=2.0 * n**3,
        ceiling="",
        error=error_of,
        tolerance=1e-4,
    )


def float_product(n: int, scale: Scale) -> Case:
    a, b = uniform((n, n), -1, 1), uniform((n, n), -1, 1)[::-1].copy()
    ours = td.jit(lambda a, b: a @ b, backend=scale.backend)
    strassen = td.jit(lambda a, b: td.strassen(a, b), backend=scale.backend)
    t, u = tensor(a), tensor(b)
    return Case(
        ours={"a @ b": lambda: ours(a, b), "td.strassen": lambda: strassen(a, b)},
        peers={"cuBLAS": lambda: a @ b, **by_torch(mm=lambda: t @ u), **by_triton.product(a, b)},
        exact=lambda: a.astype(np.float64) @ b.astype(np.float64),
        flops=2.0 * n**3,
        ceiling="",
        goals=(Goal("cuBLAS", 1.0 if n < 8192 else 1.05),),
        error=error_of,
        tolerance=1e-4,
    )


def int_product(n: int, scale: Scale) -> Case:
    a, b = integers(-1000, 1000, (n, n)), integers(-1000, 1000, (n, n))
    ours = td.jit(lambda a, b: a @ b, backend=scale.backend)
    return Case(
        ours={"": lambda: ours(a, b)},
        peers={"CuPy": lambda: a @ b},
        exact=lambda: (
            (a.astype(np.float64) @ b.astype(np.float64)).astype(np.int64).astype(np.int32)
        ),
        flops=2.0 * n**3,
        ceiling="",
        goals=(Goal("CuPy", 1.1),),
        error=mismatches_of,
        tolerance=0.0,
    )


def works(scale: Scale) -> list[Work]:
    made = []
    for n in (scale.n(4096, 2048, 40), scale.n(8192, 2048, 64)):
        made.append(Work(f"product written with generate, {n}²", GROUP, partial(naive, n, scale)))
    for n in (scale.n(2048, 1024, 40), scale.n(4096, 2048, 64), scale.n(8192, 4096, 72)):
        made.append(Work(f"float32 product, {n}²", GROUP, partial(float_product, n, scale)))
    n = scale.n(4096, 2048, 40)
    made.append(Work(f"int32 product, {n}²", GROUP, partial(int_product, n, scale)))
    return made
