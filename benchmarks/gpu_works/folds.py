"""Folds and scans: sums, dot products, sums along axes, running sums, sparse products."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import treadle as td
from benchmarks.harness import Case, Goal, Work

from . import by_triton
from .common import (
    Scale,
    by_jax,
    by_torch,
    count,
    cp,
    error_of,
    integers,
    jnp,
    tensor,
    torch,
    torch_compiled,
    uniform,
)

GROUP = "Folds and scans"


def total(n: int, scale: Scale) -> Case:
    x = uniform(n)
    t = tensor(x)
    ours = td.jit(lambda x: td.sum(x), backend=scale.backend)
    return Case(
        ours={"": lambda: ours(x)},
        peers={"CuPy": lambda: x.sum(), **by_torch(sum=lambda: t.sum()), **by_triton.total(x)},
        exact=lambda: x.sum(dtype=np.float64),
        bytes=4.0 * n,
        goals=(Goal("torch", 0.98),),
        error=error_of,
        tolerance=1e-5,
    )


def dot(n: int, scale: Scale) -> Case:
    x, y = uniform(n), uniform(n, -1, 1)
    t, u = tensor(x), tensor(y)
    ours = td.jit(lambda x, y: td.sum(x * y), backend=scale.backend)

    def exact() -> Any:
        parts = range(0, n, 1 << 26)
        whole = sum((x[a : a + (1 << 26)].astype(np.float64) * y[a : a + (1 << 26)]).sum()
                    for a in parts)  # fmt: skip
        scale_of = sum(abs(x[a : a + (1 << 26)].astype(np.float64) * y[a : a + (1 << 26)]).sum()
                       for a in parts)  # fmt: skip
        exact.scale = float(scale_of)  # type: ignore[attr-defined]
        return whole

    return Case(
        ours={"": lambda: ours(x, y)},
        peers={"cuBLAS": lambda: cp.dot(x, y), **by_torch(dot=lambda: torch.dot(t, u))},
        exact=exact,
        bytes=8.0 * n,
        goals=(Goal("cuBLAS", 0.98),),
        error=lambda f, e: abs(float(f) - float(e)) / exact.scale,  # type: ignore[attr-defined]
        tolerance=1e-5,
    )


def axis(rows: int, cols: int, which: int, scale: Scale) -> Case:
    x = uniform((rows, cols))
    t = tensor(x)
    ours = td.jit(lambda x: td.sum(x, axis=which), backend=scale.backend)
    return Case(
        ours={"": lambda: ours(x)},
        peers={"CuPy": lambda: x.sum(which), **by_torch(sum=lambda: t.sum(which))},
        exact=lambda: x.sum(which, dtype=np.float64),
        bytes=4.0 * rows * cols,
        goals=(Goal("torch", 0.98),),
        error=error_of,
        tolerance=1e-5,
    )


def largest(n: int, scale: Scale) -> Case:
    x = uniform(n)
    t = tensor(x)
    ours = td.jit(lambda x: td.argmax(x), backend=scale.backend)
    return Case(
        ours={"": lambda: ours(x)},
        peers={"CuPy": lambda: x.argmax(), **by_torch(argmax=lambda: t.argmax())},
        exact=lambda: x[int(x.argmax())],
        bytes=4.0 * n,
        goals=(Goal("torch", 1.0),),
        error=lambda f, e: abs(float(x[int(f)]) - float(e)),
        tolerance=0.0,
    )


def running(n: int, scale: Scale) -> Case:
    x = uniform(n, -1, 1)
    t = tensor(x)
    ours = td.jit(lambda x: td.cumsum(x), backend=scale.backend)
    return Case(
        ours={"": lambda: ours(x)},
        peers={"CuPy": lambda: x.cumsum(), **by_torch(cumsum=lambda: t.cumsum(0)),
               **by_jax(jnp.cumsum, x)} if jnp else {"CuPy": lambda: x.cumsum()},
        exact=lambda: x.cumsum(dtype=np.float64),
        bytes=8.0 * n,
        goals=(Goal("torch", 1.5),),
        error=error_of,
        tolerance=1e-3,
    )  # fmt: skip


def rows_running(rows: int, cols: int, scale: Scale) -> Case:
    x = uniform((rows, cols), -1, 1)
    t = tensor(x)
    ours = td.jit(lambda x: td.cumsum(x, axis=1), backend=scale.backend)
    return Case(
        ours={"": lambda: ours(x)},
        peers={"CuPy": lambda: x.cumsum(1), **by_torch(cumsum=lambda: t.cumsum(1))},
        exact=lambda: x.cumsum(1, dtype=np.float64),
        bytes=8.0 * rows * cols,
        goals=(Goal("torch", 1.0),),
        error=error_of,
        tolerance=1e-4,
    )


def sparse(rows: int, per_row: int, scale: Scale) -> Case:
    import cupyx.scipy.sparse as sparse_

    starts = cp.arange(rows + 1, dtype=np.int32) * per_row
    columns = integers(0, rows, rows * per_row)
    values, x = uniform(rows * per_row), uniform(rows)
    lengths = cp.full(rows, per_row, np.int32)

    def written(values: Any, columns: Any, lengths: Any, x: Any) -> Any:
        return td.fold_seg(td.add, td.float32(0), values * x[columns], lengths)

    ours = td.jit(written, backend=scale.backend)
    matrix = sparse_.csr_matrix((values, columns, starts), shape=(rows, rows))
    wide = sparse_.csr_matrix((values.astype(np.float64), columns, starts), shape=(rows, rows))
    return Case(
        ours={"": lambda: ours(values, columns, lengths, x)},
        peers={"cuSPARSE": lambda: matrix @ x},
        exact=lambda: wide @ x.astype(np.float64),
        bytes=8.0 * rows * per_row + 12.0 * rows,
        goals=(Goal("cuSPARSE", 1.0),),
        error=error_of,
        tolerance=1e-5,
    )


def nearest(n: int, k: int, d: int, factor: float, scale: Scale) -> Case:
    """Which of k points is nearest to each of n, in d dimensions, written by broadcasting."""
    x, c = uniform((n, d)), uniform((k, d), -1, 1)
    t, u = tensor(x), tensor(c)

    def squares(x: Any, c: Any) -> Any:
        return td.sum((x[:, None, :] - c[None, :, :]) ** 2, axis=2)

    def exact() -> Any:
        wide = c.astype(np.float64)
        parts = (x[a : a + 1024].astype(np.float64) for a in range(0, n, 1024))
        return cp.concatenate([
            ((p * p).sum(1)[:, None] - 2 * (p @ wide.T) + (wide * wide).sum(1)).min(1)
            for p in parts])  # fmt: skip

    def error(found: Any, least: Any) -> float:
        """How much further away than the nearest point the one found is, of the distances."""
        chosen = c[cp.asarray(found)].astype(np.float64)
        return float((((x - chosen) ** 2).sum(1) - least).max() / least.mean())

    ours = td.jit(lambda x, c: td.argmin(squares(x, c), axis=1), backend=scale.backend)
    return Case(
        ours={"": lambda: ours(x, c)},
        peers=by_torch(
            cdist=lambda: torch.cdist(t, u).argmin(1),
            compiled=torch_compiled(lambda t, u: ((t[:, None] - u) ** 2).sum(2).argmin(1), t, u),
        ),
        exact=exact,
        goals=(Goal("torch", factor),),
        error=error,
        tolerance=1e-5,
    )


def works(scale: Scale) -> list[Work]:
    big, large = scale.n(1 << 30, 1 << 27), scale.n(1 << 28, 1 << 26)
    side = scale.n(32768, 8192, 40)
    made = [
        Work(f"sum of {count(big)} float32", GROUP, partial(total, big, scale)),
        Work(f"dot product of {count(large)} float32", GROUP, partial(dot, large, scale)),
    ]
    long = scale.n(10**6, 10**5, 50)
    for rows, cols in ((side, side), (long, 100), (100, long)):
        for a in (0, 1):
            name = f"sum of {rows} × {cols} along axis {a}"
            made.append(Work(name, GROUP, partial(axis, rows, cols, a, scale)))
    made += [
        Work(f"argmax of {count(large)} float32", GROUP, partial(largest, large, scale)),
        Work(f"running sum of {count(large)} float32", GROUP, partial(running, large, scale)),
        Work(f"running sums of {side // 4} rows of {side}", GROUP,
             partial(rows_running, side // 4, side, scale)),
        Work(f"sparse product, {count(scale.n(1 << 22, 1 << 20))} rows of 16", GROUP,
             partial(sparse, scale.n(1 << 22, 1 << 20), 16, scale)),
    ]  # fmt: skip
    points, others = scale.n(1 << 14, 1 << 12), scale.n(1 << 16, 1 << 13)
    many = scale.n(1 << 20, 1 << 18)
    made += [
        Work(f"nearest of {others} points to {points}, 16 dimensions", GROUP,
             partial(nearest, points, others, 16, 3.0, scale)),
        Work(f"nearest of 64 centres to {count(many)} points, 3 dimensions", GROUP,
             partial(nearest, many, 64, 3, 1.2, scale)),
    ]  # fmt: skip
    return made
