"""Stencils with a clamped border: general weights, a box, a Gaussian, seven points in 3-D."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numba as nb
import numpy as np
from scipy import ndimage

import treadle as td
from benchmarks.harness import Case, Goal, Work

from .common import Run, Scale, by_jax, generator, jax, jnp, uniform

GROUP = "Stencils"
GOALS = (Goal("Numba", 1.5), Goal("SciPy", 5.0))


@cache
def numba_stencil(size: int) -> Callable[..., None]:
    """A size × size stencil as one would write it out by hand: the interior explicit, rows in
    parallel, weights in registers where they fit; the border clamped, element by element.
    """
    span = range(size)
    loads = "\n".join(f"        r{i} = a[y + {i}]" for i in span)
    weights = "\n".join(f"    w{i}_{j} = w[{i}, {j}]" for i in span for j in span)
    total = " + ".join(f"w{i}_{j} * r{i}[x + {j}]" for i in span for j in span)
    source = f"""
def interior(a, w, out):
    height, width = a.shape
{weights}
    for y in nb.prange(height - {size - 1}):
        o = out[y + {size // 2}]
{loads}
        for x in range(width - {size - 1}):
            o[x + {size // 2}] = {total}
"""
    space: dict[str, Any] = {"nb": nb}
    exec(source, space)
    interior: Callable[..., None] = nb.njit(parallel=True)(space["interior"])
    r = size // 2

    @nb.njit(inline="always")
    def clamped(a: Any, w: Any, y: int, x: int) -> Any:
        height, width = a.shape
        total = np.float32(0)
        for i in range(size):
            for j in range(size):
                v = min(max(y + i - r, 0), height - 1)
                u = min(max(x + j - r, 0), width - 1)
                total += w[i, j] * a[v, u]
        return total

    @nb.njit
    def run(a: Any, w: Any, out: Any) -> None:
        height, width = a.shape
        interior(a, w, out)
        for y in range(height):
            if y < r or y >= height - r:
                for x in range(width):
                    out[y, x] = clamped(a, w, y, x)
            else:
                for x in range(r):
                    out[y, x] = clamped(a, w, y, x)
                    out[y, width - 1 - x] = clamped(a, w, y, width - 1 - x)

    compiled: Callable[..., None] = run
    return compiled


def jax_stencils(a: Any, w: Any) -> dict[str, Run]:
    """JAX two ways: its convolution, and a sum of shifted slices that XLA fuses."""
    if jax is None:
        return {}
    r = w.shape[0] // 2
    height, width = a.shape

    def conv(a: Any, w: Any) -> Any:
        padded = jnp.pad(a, r, mode="edge")
        return jax.lax.conv_general_dilated(
            padded[None, None], w[None, None], (1, 1), "VALID", precision="highest"
        )[0, 0]

    def slices(a: Any) -> Any:
        padded = jnp.pad(a, r, mode="edge")
        return sum(
            float(w[i, j]) * padded[i : i + height, j : j + width]
            for i in range(w.shape[0])
            for j in range(w.shape[1])
        )

    return {**by_jax(conv, a, w, name="JAX conv"), **by_jax(slices, a, name="JAX slices")}


def literal(w: Any) -> Callable[..., Any]:
    """The stencil with its weights written into the program."""
    r = w.shape[0] // 2
    places = [(i - r, j - r, float(w[i, j])) for i in range(w.shape[0]) for j in range(w.shape[1])]
    return lambda a: td.stencil(lambda n: sum(v * n[i, j] for i, j, v in places), a)


def general(size: int, n: int, scale: Scale) -> Case:
    """Weights that nothing can be recognised in."""
    w = generator().uniform(0.5, 1.5, (size, size)).astype(np.float32)
    w /= w.sum()
    return stencil_case(w, n, scale, run_time=True)


def box(size: int, n: int, scale: Scale) -> Case:
    """The mean of the neighbourhood: recognised as one pass an axis."""
    return stencil_case(np.full((size, size), 1 / size**2), n, scale)


def gaussian(size: int, n: int, scale: Scale) -> Case:
    """A Gaussian, which is an outer product too."""
    line = np.exp(-0.5 * ((np.arange(size) - size // 2) / (size / 5)) ** 2)
    line /= line.sum()
    return stencil_case(np.outer(line, line), n, scale, line)


def stencil_case(w: Any, n: int, scale: Scale, line: Any = None, run_time: bool = False) -> Case:
    size, places = len(w), w
    w = w.astype(np.float32)
    a = uniform((n, n))
    out = np.empty_like(a)
    by_hand = numba_stencil(size)
    result = np.empty_like(a)

    def by_numba() -> Any:
        by_hand(a, w, out)
        return out

    ours: dict[str, Run] = {}
    written = td.jit(literal(places), backend=scale.backend)
    ours["literal weights" if run_time else ""] = lambda: written(a)
    if run_time:
        correlate = td.jit(lambda a, w: td.correlate(a, w), backend=scale.backend)
        ours["run-time weights"] = lambda: correlate(a, w)
    peers: dict[str, Run] = {"Numba": by_numba}

    def by_scipy() -> Any:
        if run_time:
            ndimage.correlate(a, w, result, mode="nearest")
        elif line is None:
            ndimage.uniform_filter(a, size, result, mode="nearest")
        else:
            ndimage.correlate1d(a, line, 0, result, mode="nearest")
            ndimage.correlate1d(result, line, 1, result, mode="nearest")
        return result

    separable = "uniform_filter" if line is None else "correlate1d"
    peers[f"SciPy {'correlate' if run_time else separable}"] = by_scipy
    return Case(
        ours=ours,
        peers={**peers, **jax_stencils(a, w)},
        exact=lambda: exact_stencil(a, places),
        bytes=8.0 * n * n,
        flops=2.0 * w.size * n * n,
        ceiling="fma" if size >= 9 and run_time else "copy",
        goals=GOALS,
        tolerance=2e-6,
    )


def exact_stencil(a: Any, w: Any) -> Any:
    """In float64, row band by row band."""
    r, (height, width) = len(w) // 2, a.shape
    padded = np.pad(a, r, mode="edge")
    out = np.empty(a.shape, np.float64)
    band = max(1, (1 << 17) // width)
    for top in range(0, height, band):
        rows = min(band, height - top)
        piece = padded[top : top + rows + 2 * r].astype(np.float64)
        total = np.zeros((rows, width))
        for i in range(len(w)):
            for j in range(len(w)):
                total += float(w[i, j]) * piece[i : i + rows, j : j + width]
        out[top : top + rows] = total
    return out


# --- seven points ----------------------------------------------------------------------------


@nb.njit(parallel=True)
def seven_by_numba(a: Any, out: Any) -> None:
    depth, height, width = a.shape
    c, s = np.float32(0.4), np.float32(0.1)
    for z in nb.prange(depth):
        up, down = max(z - 1, 0), min(z + 1, depth - 1)
        for y in range(height):
            here, above, below = a[z, y], a[up, y], a[down, y]
            north, south = a[z, max(y - 1, 0)], a[z, min(y + 1, height - 1)]
            o = out[z, y]
            for x in range(width - 2):
                o[x + 1] = c * here[x + 1] + s * (
                    here[x]
                    + here[x + 2]
                    + north[x + 1]
                    + south[x + 1]
                    + above[x + 1]
                    + below[x + 1]
                )
            for x in (0, width - 1):
                left, right = max(x - 1, 0), min(x + 1, width - 1)
                o[x] = c * here[x] + s * (
                    here[left] + here[right] + north[x] + south[x] + above[x] + below[x]
                )


NEAR = [(-1, 0, 0), (1, 0, 0), (0, -1, 0), (0, 1, 0), (0, 0, -1), (0, 0, 1)]


def seven(n: int, scale: Scale) -> Case:
    a = uniform((n, n, n))
    out, result = np.empty_like(a), np.empty_like(a)
    w = np.zeros((3, 3, 3), np.float32)
    w[1, 1, 1] = 0.4
    for z, y, x in NEAR:
        w[1 + z, 1 + y, 1 + x] = 0.1

    def by_numba() -> Any:
        seven_by_numba(a, out)
        return out

    def by_scipy() -> Any:
        ndimage.correlate(a, w, result, mode="nearest")
        return result

    def shifted(a: Any, pad: Callable[..., Any]) -> Any:
        p = pad(a, 1, mode="edge")
        total = sum(p[1 + z : 1 + z + n, 1 + y : 1 + y + n, 1 + x : 1 + x + n] for z, y, x in NEAR)
        return 0.4 * a + 0.1 * total

    ours = td.jit(
        lambda a: td.stencil(lambda v: 0.4 * v[0, 0, 0] + 0.1 * sum(v[at] for at in NEAR), a),
        backend=scale.backend,
    )
    return Case(
        ours={"": lambda: ours(a)},
        peers={
            "Numba": by_numba,
            "SciPy correlate": by_scipy,
            **by_jax(lambda a: shifted(a, jnp.pad), a, name="JAX slices"),
        },
        exact=lambda: shifted(a.astype(np.float64), np.pad),
        bytes=8.0 * n**3,
        flops=8.0 * n**3,
        goals=GOALS,
        tolerance=2e-6,
    )


def works(scale: Scale) -> list[Work]:
    """4 096² leaves the caches; 1 024² stays in them."""
    large, small = scale.n(4096, 2900, 67), scale.n(1024, tiny=31)
    made = []
    for size in (3, 5, 9):
        for n in (large, small):
            made.append(Work(f"{size}×{size} on {n}²", GROUP, partial(general, size, n, scale)))
    made.append(Work(f"9×9 box on {large}²", GROUP, partial(box, 9, large, scale)))
    made.append(Work(f"9×9 Gaussian on {large}²", GROUP, partial(gaussian, 9, large, scale)))
    for n in (scale.n(256, 224, 19), scale.n(96, tiny=7)):
        made.append(Work(f"7-point on {n}³", GROUP, partial(seven, n, scale)))
    return made
