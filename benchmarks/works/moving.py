"""Work whose cost is where the data goes: histograms, transposition, sparse products."""

from __future__ import annotations

from functools import partial
from typing import Any

import numba as nb
import numpy as np

import treadle as td
from benchmarks.harness import Case, Goal, Work

from .common import Scale, by_jax, count, generator, jnp, uniform

GROUP = "Histograms, transposition, sparse products"


# --- histograms ------------------------------------------------------------------------------


@nb.njit(parallel=True)
def histogram_by_numba(x: Any, bins: int) -> Any:
    """A table per core, added up in the end."""
    parts = nb.get_num_threads()
    tables = np.zeros((parts, bins), np.int32)
    n = x.size
    for p in nb.prange(parts):
        mine = tables[p]
        for i in range(n * p // parts, n * (p + 1) // parts):
            mine[x[i]] += 1
    out = np.empty(bins, np.int32)
    for b in nb.prange(bins):
        total = 0
        for p in range(parts):
            total += tables[p, b]
        out[b] = total
    return out


def histogram(n: int, bins: int, dtype: Any, scale: Scale) -> Case:
    x = generator().integers(0, bins, n, dtype=dtype)

    def permuted(x: Any) -> Any:
        zeros, ones = td.zeros(bins, td.int32), td.fill(x.shape, td.int32(1))
        return td.permute(
            lambda new, old: new + old, zeros, lambda i: td.cast(x[i], td.int64), ones
        )

    by_permute = td.jit(permuted, backend=scale.backend)
    by_bincount = td.jit(lambda x: td.bincount(x, length=bins), backend=scale.backend)
    return Case(
        ours={"td.permute": lambda: by_permute(x), "td.bincount": lambda: by_bincount(x)},
        peers={
            "NumPy": lambda: np.bincount(x, minlength=bins),
            "Numba": lambda: histogram_by_numba(x, bins),
            **by_jax(lambda x: jnp.bincount(x, length=bins), x),
        },
        exact=lambda: np.bincount(x, minlength=bins),
        bytes=float(x.nbytes + 4 * bins),
        flops=1.0 * n,
        ceiling="copy",
        tolerance=0.0,
        goals=(Goal("NumPy", 3.0), Goal("Numba", 1.0)),
    )


@nb.njit(parallel=True)
def channels_by_numba(image: Any, bins: int) -> Any:
    """A table per core, added up in the end."""
    parts, (height, width, channels) = nb.get_num_threads(), image.shape
    tables = np.zeros((parts, channels, bins), np.int32)
    for p in nb.prange(parts):
        for i in range(height * p // parts, height * (p + 1) // parts):
            for j in range(width):
                for k in range(channels):
                    tables[p, k, image[i, j, k]] += 1
    return tables.sum(axis=0)


def channels(height: int, width: int, scale: Scale) -> Case:
    """A histogram for each channel of a colour image."""
    image = generator().integers(0, 256, (height, width, 3), dtype=np.uint8)

    def permuted(image: Any) -> Any:
        zeros, ones = td.zeros((3, 256), td.int32), td.fill(image.shape, td.int32(1))
        return td.permute(
            lambda new, old: new + old, zeros, lambda i, j, k: (k, image[i, j, k]), ones
        )

    def by_numpy() -> Any:
        return np.stack([np.bincount(image[..., k].ravel(), minlength=256) for k in range(3)])

    ours = td.jit(permuted, backend=scale.backend)
    return Case(
        ours={"": lambda: ours(image)},
        peers={"NumPy": by_numpy, "Numba": lambda: channels_by_numba(image, 256)},
        exact=by_numpy,
        bytes=float(image.nbytes),
        flops=1.0 * image.size,
        ceiling="copy",
        tolerance=0.0,
        goals=(Goal("NumPy", 3.0), Goal("Numba", 1.0)),
    )


# --- transposition ---------------------------------------------------------------------------


@nb.njit(parallel=True)
def transpose_by_numba(a: Any, out: Any) -> None:
    height, width = a.shape
    tile = 32
    for t in nb.prange((width + tile - 1) // tile):
        for top in range(0, height, tile):
            for j in range(t * tile, min(width, (t + 1) * tile)):
                for i in range(top, min(height, top + tile)):
                    out[j, i] = a[i, j]


def transpose(n: int, scale: Scale) -> Case:
    a = uniform((n, n))
    outs = [np.empty_like(a) for _ in range(2)]

    def by_numba() -> Any:
        transpose_by_numba(a, outs[0])
        return outs[0]

    def by_numpy() -> Any:
        np.copyto(outs[1], a.T)
        return outs[1]

    ours = td.jit(lambda a: td.transpose(a), backend=scale.backend)
    return Case(
        ours={"": lambda: ours(a)},
        peers={"NumPy": by_numpy, "Numba": by_numba, **by_jax(lambda a: jnp.transpose(a), a)},
        exact=lambda: a.T,
        bytes=8.0 * n * n,
        tolerance=0.0,
    )


# --- sparse products -------------------------------------------------------------------------


@nb.njit(parallel=True)
def sparse_by_numba(data: Any, columns: Any, starts: Any, x: Any, out: Any) -> None:
    for i in nb.prange(out.size):
        total = np.float32(0)
        for k in range(starts[i], starts[i + 1]):
            total += data[k] * x[columns[k]]
        out[i] = total


def sparse_product(rows: int, scale: Scale) -> Case:
    """CSR, 1 to 31 entries a row, anywhere."""
    from scipy import sparse

    random = generator()
    lengths = random.integers(1, 32, rows).astype(np.int32)
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    entries = int(starts[-1])
    columns = random.integers(0, rows, entries, dtype=np.int32)
    data, x = uniform(entries), uniform(rows, 0.5, 1.5)
    matrix = sparse.csr_array((data, columns, starts), shape=(rows, rows))
    out = np.empty(rows, np.float32)

    def by_numba() -> Any:
        sparse_by_numba(data, columns, starts, x, out)
        return out

    def written(data: Any, columns: Any, starts: Any, x: Any) -> Any:
        products = td.map(lambda v, j: v * x[j], data, columns)
        return td.fold_seg(lambda a, b: a + b, 0.0, products, starts[1:] - starts[:-1])

    ours = td.jit(written, backend=scale.backend)
    return Case(
        ours={"": lambda: ours(data, columns, starts, x)},
        peers={"SciPy": lambda: matrix @ x, "Numba": by_numba},
        exact=lambda: matrix.astype(np.float64) @ x.astype(np.float64),
        bytes=float(data.nbytes + columns.nbytes + starts.nbytes + 2 * x.nbytes),
        flops=2.0 * entries,
        goals=(Goal("SciPy", 1.0), Goal("Numba", 1.0)),
        tolerance=1e-5,
    )


def works(scale: Scale) -> list[Work]:
    """Beyond the caches, and one of each kind inside."""
    made = []
    n, small = scale.n(16 << 20), scale.n(1 << 20, tiny=500)
    for bins, dtype, size in (
        (256, np.uint8, n),
        (256, np.int32, n),
        (256, np.int32, small),
        (1 << 20, np.int32, n),
    ):
        name = f"histogram, {count(bins)} bins, {count(size)} {np.dtype(dtype).name}"
        made.append(Work(name, GROUP, partial(histogram, size, bins, dtype, scale)))
    height, width = scale.n(1080, tiny=19), scale.n(1920, tiny=23)
    name = f"histogram of each channel, {height} × {width} × 3 uint8"
    made.append(Work(name, GROUP, partial(channels, height, width, scale)))
    for side in (scale.n(8192, 4096, 67), scale.n(1024, tiny=33)):
        made.append(Work(f"transpose of {side}²", GROUP, partial(transpose, side, scale)))
    rows = scale.n(1 << 20, 1 << 19, 300)
    name = f"sparse (CSR) matrix times vector, {count(rows)} rows"
    made.append(Work(name, GROUP, partial(sparse_product, rows, scale)))
    return made
