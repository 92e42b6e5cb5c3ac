"""Matrix products: by BLAS, in integers, by Strassen's algorithm."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import treadle as td
from benchmarks.harness import Case, Goal, Work

from .common import Scale, by_jax, generator, jnp, uniform

GROUP = "Matrix products"


def product(n: int, dtype: Any, scale: Scale) -> Case:
    """Floats: NumPy calls BLAS too.  Integers: NumPy has a plain loop."""
    whole = np.issubdtype(dtype, np.integer)
    if whole:
        random = generator()
        a, b = (random.integers(-1000, 1000, (n, n), dtype=dtype) for _ in range(2))
    else:
        a, b = uniform((n, n), dtype=dtype), uniform((n, n), -1, 1, dtype=dtype)
    ours = td.jit(lambda a, b: a @ b, backend=scale.backend)
    out = np.empty_like(a)
    jax = by_jax(lambda a, b: jnp.matmul(a, b, precision="highest"), a, b)
    return Case(
        ours={"": lambda: ours(a, b)},
        peers={"NumPy": lambda: np.matmul(a, b, out=out), **jax},
        exact=lambda: a.astype(np.float64) @ b.astype(np.float64),
        flops=2.0 * n**3,
        bytes=3.0 * a.nbytes,
        ceiling="" if whole else "fma",
        goals=(Goal("NumPy", 5.0 if whole else 0.98),),
        tolerance=0.0 if whole else 1e-5,
    )


def strassen(n: int, scale: Scale) -> Case:
    """One level of Strassen's algorithm beside the standard product, float64."""
    a, b = uniform((n, n), dtype=np.float64), uniform((n, n), -1, 1, dtype=np.float64)
    one = td.jit(lambda a, b: td.strassen(a, b, levels=1), backend=scale.backend)
    standard = td.jit(lambda a, b: a @ b, backend=scale.backend)
    out = np.empty_like(a)
    return Case(
        ours={"standard": lambda: standard(a, b), "1 level": lambda: one(a, b)},
        peers={"NumPy": lambda: np.matmul(a, b, out=out)},
        exact=lambda: a @ b,
        flops=2.0 * n**3,
        bytes=3.0 * a.nbytes,
        ceiling="fma64",
        goals=(Goal("NumPy", 0.98),),
        tolerance=1e-12,
    )


def works(scale: Scale) -> list[Work]:
    """Sizes at which BLAS is at its best, and one at which Strassen's algorithm pays."""
    made = []
    for n in (scale.n(1024, tiny=32), scale.n(2048, 1536, 48)):
        made.append(Work(f"matmul float32, {n}", GROUP, partial(product, n, np.float32, scale)))
    n = scale.n(1024, 512, 40)
    made.append(Work(f"matmul int32, {n}", GROUP, partial(product, n, np.int32, scale)))
    large = scale.n(4096, 2048, 64)
    made.append(Work(f"Strassen float64, {large}", GROUP, partial(strassen, large, scale)))
    return made
