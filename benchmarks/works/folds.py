"""Reductions and scans."""

from __future__ import annotations

from functools import partial
from typing import Any

import numba as nb
import numpy as np

import treadle as td
from benchmarks.harness import Case, Goal, Work

from .common import Run, Scale, by_jax, count, jnp, uniform

GROUP = "Folds and scans"
GOALS = (Goal("Numba", 1.0),)


# --- sums and their like by Numba: as written, and with floats allowed to change order -------


def _sum(x: Any) -> Any:
    total = np.float32(0)
    for i in nb.prange(x.size):
        total += x[i]
    return total


def _dot(x: Any, y: Any) -> Any:
    total = np.float32(0)
    for i in nb.prange(x.size):
        total += x[i] * y[i]
    return total


def _three(x: Any) -> Any:
    total, high, low = np.float32(0), np.float32(-np.inf), np.float32(np.inf)
    for i in nb.prange(x.size):
        v = x[i]
        total += v
        high = max(high, v)
        low = min(low, v)
    return total / np.float32(x.size), high, low


def _rows(a: Any, out: Any) -> None:
    for i in nb.prange(a.shape[0]):
        row, total = a[i], np.float32(0)
        for j in range(row.size):
            total += row[j]
        out[i] = total


def _columns(a: Any, out: Any) -> None:
    parts = nb.get_num_threads()
    height, width = a.shape
    for p in nb.prange(parts):  # each core takes columns of its own
        low, high = width * p // parts, width * (p + 1) // parts
        piece = out[low:high]
        piece[:] = 0
        for i in range(height):
            row = a[i, low:high]
            for j in range(row.size):
                piece[j] += row[j]


def _times(a: Any, x: Any, out: Any) -> None:
    for i in nb.prange(a.shape[0]):
        row, total = a[i], x[0] * 0
        for j in range(row.size):
            total += row[j] * x[j]
        out[i] = total


def _weighted(a: Any, x: Any, out: Any) -> None:
    parts = nb.get_num_threads()
    height, width = a.shape
    for p in nb.prange(parts):
        low, high = width * p // parts, width * (p + 1) // parts
        piece = out[low:high]
        piece[:] = 0
        for i in range(height):
            row, factor = a[i, low:high], x[i]
            for j in range(row.size):
                piece[j] += factor * row[j]


def _argmax(x: Any) -> Any:
    parts = nb.get_num_threads()
    best, at = np.empty(parts, x.dtype), np.empty(parts, np.int64)
    n = x.size
    for p in nb.prange(parts):
        low, high = n * p // parts, n * (p + 1) // parts
        value, place = x[low], low
        for i in range(low, high):
            if x[i] > value:
                value, place = x[i], i
        best[p], at[p] = value, place
    return at[np.argmax(best)]


def both(f: Any) -> dict[str, Any]:
    """Numba with and without the licence to reorder floats (without it sums stay scalar)."""
    return {
        "Numba": nb.njit(parallel=True)(f),
        "Numba fastmath": nb.njit(parallel=True, fastmath=True)(f),
    }


def _into(out: Any, g: Any, *arrays: Any) -> Any:
    g(*arrays, out)
    return out


def reduction(
    f: Any,
    ours: Any,
    numpy: Any,
    jax: Any,
    data: Any,
    scale: Scale,
    out: Any = None,
    fast: bool = True,
    **about: Any,
) -> Case:
    """A case from the same reduction in four languages; `out`, if given, is Numba's."""
    arrays = data if isinstance(data, tuple) else (data,)
    compiled = td.jit(ours, backend=scale.backend)
    peers: dict[str, Run] = {"NumPy": lambda: numpy(*arrays)}
    for name, g in both(f).items():
        if fast or name == "Numba":
            peers[name] = partial(g, *arrays) if out is None else partial(_into, out, g, *arrays)
    peers.update(by_jax(jax, *arrays))
    size = float(sum(a.nbytes for a in arrays)) + (out.nbytes if out is not None else 0)
    about.setdefault("goals", GOALS)
    return Case({"": lambda: compiled(*arrays)}, peers, bytes=size, **about)


def total(n: int, scale: Scale) -> Case:
    x = uniform(n)
    return reduction(
        _sum,
        td.sum,
        np.sum,
        lambda x: jnp.sum(x),
        x,
        scale,
        exact=lambda: np.sum(x, dtype=np.float64),
        tolerance=1e-6,
        flops=1.0 * n,
    )


def dot(n: int, scale: Scale) -> Case:
    x, y = uniform(n), uniform(n, 0.5, 1.5)
    return reduction(
        _dot,
        lambda x, y: td.sum(x * y),
        np.dot,
        lambda x, y: jnp.dot(x, y),
        (x, y),
        scale,
        tolerance=1e-6,
        flops=2.0 * n,
        exact=lambda: np.dot(x.astype(np.float64), y),
    )


def three(n: int, scale: Scale) -> Case:
    x = uniform(n)
    return reduction(
        _three,
        lambda x: (td.mean(x), td.max(x), td.min(x)),
        lambda x: (x.mean(), x.max(), x.min()),
        lambda x: (jnp.mean(x), jnp.max(x), jnp.min(x)),
        x,
        scale,
        tolerance=1e-6,
        flops=3.0 * n,
        exact=lambda: (np.mean(x, dtype=np.float64), x.max(), x.min()),
    )


def axis_sum(axis: int, shape: tuple[int, int], scale: Scale) -> Case:
    a = uniform(shape)
    out = np.empty(shape[1 - axis], np.float32)
    return reduction(
        (_columns, _rows)[axis],
        lambda a: td.sum(a, axis=axis),
        lambda a: a.sum(axis=axis),
        lambda a: jnp.sum(a, axis=axis),
        a,
        scale,
        out=out,
        tolerance=1e-5,
        flops=1.0 * a.size,
        exact=lambda: a.sum(axis=axis, dtype=np.float64),
    )


def times_vector(side: int, scale: Scale) -> Case:
    a, x = uniform((side, side)), uniform(side, 0.5, 1.5)
    return reduction(
        _times,
        lambda a, x: a @ x,
        np.matmul,
        lambda a, x: a @ x,
        (a, x),
        scale,
        out=np.empty(side, np.float32),
        tolerance=1e-5,
        goals=(Goal("NumPy", 1.0), Goal("Numba", 1.0)),
        flops=2.0 * a.size,
        exact=lambda: a.astype(np.float64) @ x,
    )


def weighted_rows(side: int, scale: Scale) -> Case:
    """As a product with a vector would be written by broadcasting."""
    a, x = uniform((side, side)), uniform(side, 0.5, 1.5)
    return reduction(
        _weighted,
        lambda a, x: td.sum(x[:, None] * a, axis=0),
        lambda a, x: x @ a,
        lambda a, x: jnp.sum(x[:, None] * a, axis=0),
        (a, x),
        scale,
        out=np.empty(side, np.float32),
        tolerance=1e-5,
        goals=(Goal("NumPy", 1.0), Goal("Numba", 1.0)),
        flops=2.0 * a.size,
        exact=lambda: x.astype(np.float64) @ a,
    )


def argmax(n: int, scale: Scale) -> Case:
    x = uniform(n)
    return reduction(
        _argmax,
        td.argmax,
        np.argmax,
        lambda x: jnp.argmax(x),
        x,
        scale,
        fast=False,
        exact=lambda: np.argmax(x),
        tolerance=0.0,
        flops=1.0 * n,
    )


# --- scan ------------------------------------------------------------------------------------


@nb.njit(parallel=True)
def scan_by_numba(x: Any, out: Any, piece: int) -> None:
    """Piece by piece through the cache; in each piece every core sums, then scans its share."""
    parts = nb.get_num_threads()
    sums = np.zeros((parts, 16), np.float32)
    carry = np.float64(0)
    for begin in range(0, x.size, piece):
        n = min(piece, x.size - begin)
        for p in nb.prange(parts - 1):
            low, high = begin + n * p // parts, begin + n * (p + 1) // parts
            lanes = np.zeros(16, np.float32)
            for i in range(low, high - 15, 16):
                for k in range(16):
                    lanes[k] += x[i + k]
            total = np.float32(0)
            for k in range(16):
                total += lanes[k]
            for i in range(high - (high - low) % 16, high):
                total += x[i]
            sums[p, 0] = total
        start = carry
        for p in range(parts):
            before, start = start, start + sums[p, 0]
            sums[p, 0] = before
        for p in nb.prange(parts):
            low, high = begin + n * p // parts, begin + n * (p + 1) // parts
            running = sums[p, 0]
            for i in range(low, high):
                running += x[i]
                out[i] = running
        carry = np.float64(out[begin + n - 1])
        sums[:, 0] = 0


def cumulative(n: int, scale: Scale) -> Case:
    x = uniform(n)
    outs = [np.empty_like(x) for _ in range(2)]

    def by_numba() -> Any:
        scan_by_numba(x, outs[0], 1 << 18)
        return outs[0]

    ours = td.jit(lambda x: td.cumsum(x), backend=scale.backend)
    return Case(
        ours={"": lambda: ours(x)},
        peers={
            "NumPy": lambda: np.cumsum(x, out=outs[1]),
            "Numba": by_numba,
            **by_jax(lambda x: jnp.cumsum(x), x),
        },
        exact=lambda: np.cumsum(x, dtype=np.float64),
        bytes=8.0 * n,
        flops=1.0 * n,
        goals=GOALS,
        tolerance=1e-4,
    )


def works(scale: Scale) -> list[Work]:
    """Beyond the L3 cache; the sum, the dot product and the scan inside it too."""
    large, small = scale.n(32 << 20, 16 << 20), scale.n(1 << 20, tiny=997)
    middle = scale.n(16 << 20)
    shape = (scale.n(8192, tiny=37), scale.n(4096, 2048, tiny=53))
    sides = f"{shape[0]} × {shape[1]}"
    side, few = scale.n(4096, 2048, tiny=41), scale.n(100, tiny=17)
    builds = {
        f"sum of {count(large)}": partial(total, large, scale),
        f"sum of {count(small)}": partial(total, small, scale),
        f"dot product of {count(middle)}": partial(dot, middle, scale),
        f"dot product of {count(small // 2)}": partial(dot, small // 2, scale),
        f"mean, max and min of {count(large)}": partial(three, large, scale),
        f"sum along axis 0 of {sides}": partial(axis_sum, 0, shape, scale),
        f"sum along axis 1 of {sides}": partial(axis_sum, 1, shape, scale),
        f"matrix times vector, {side}²": partial(times_vector, side, scale),
        f"matrix times vector, {few}²": partial(times_vector, few, scale),
        f"weighted sum of the rows of {side}²": partial(weighted_rows, side, scale),
        f"argmax of {count(large)}": partial(argmax, large, scale),
        f"cumulative sum of {count(middle)}": partial(cumulative, middle, scale),
        f"cumulative sum of {count(small)}": partial(cumulative, small, scale),
    }
    return [Work(name, GROUP, build) for name, build in builds.items()]
