"""Maps: chains of arithmetic, option prices, the Mandelbrot set."""

from __future__ import annotations

import math
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
    jnp,
    raw,
    tensor,
    torch,
    torch_compiled,
    uniform,
)

GROUP = "Element-wise, fused"
ROOT_HALF = 0.7071067811865476
RATE, VOLATILITY = 0.02, 0.3


def mapped(n: int, scale: Scale) -> Case:
    x = uniform(n)
    ours = td.jit(lambda x: 2.0 * x + 1.0, backend=scale.backend)
    t = tensor(x)
    return Case(
        ours={"": lambda: ours(x)},
        peers=by_torch(compiled=torch_compiled(lambda x: 2.0 * x + 1.0, t)),
        exact=lambda: 2.0 * x.astype(np.float64) + 1.0,
        bytes=8.0 * n,
        goals=(Goal("copy", 0.95),),
        error=error_of,
        tolerance=1e-6,
    )


def chain(n: int, scale: Scale) -> Case:
    x, y = uniform(n), uniform(n, -1, 1)
    ours = td.jit(lambda a, x, y: td.sqrt((a * x + y) * (a * x + y) + 1), backend=scale.backend)
    t, u = tensor(x), tensor(y)
    return Case(
        ours={"": lambda: ours(2.5, x, y)},
        peers={
            **by_torch(
                compiled=torch_compiled(lambda x, y: torch.sqrt((2.5 * x + y) ** 2 + 1), t, u)
            ),
            **by_jax(lambda x, y: jnp.sqrt((2.5 * x + y) * (2.5 * x + y) + 1), x, y),
            **by_triton.chain(2.5, x, y),
        },
        exact=lambda: cp.sqrt((2.5 * x.astype(np.float64) + y) ** 2 + 1),
        bytes=12.0 * n,
        goals=(Goal("copy", 0.95),),
        error=error_of,
        tolerance=1e-6,
    )


def prices(m: Any, erf: Any, s: Any, k: Any, t: Any) -> Any:
    """Calls and puts by Black and Scholes, with the functions of any library."""
    root = VOLATILITY * m.sqrt(t)
    d1 = (m.log(s / k) + (RATE + VOLATILITY * VOLATILITY / 2) * t) / root
    d2 = d1 - root
    n1, n2 = 0.5 + 0.5 * erf(d1 * ROOT_HALF), 0.5 + 0.5 * erf(d2 * ROOT_HALF)
    discounted = k * m.exp(-RATE * t)
    call = s * n1 - discounted * n2
    return call, call - s + discounted


def black_scholes(n: int, scale: Scale) -> Case:
    s, k, t = uniform(n, 10, 50), uniform(n, 20, 40), uniform(n, 0.2, 2)
    ours = td.jit(lambda s, k, t: prices(td, td.erf, s, k, t), backend=scale.backend)
    tensors = [tensor(x) for x in (s, k, t)]

    def by_jnp(s: Any, k: Any, t: Any) -> Any:
        from jax.scipy.special import erf

        return prices(jnp, erf, s, k, t)

    def exact() -> Any:
        from cupyx.scipy.special import erf

        return prices(cp, erf, *(x.astype(np.float64) for x in (s, k, t)))

    return Case(
        ours={"": lambda: ours(s, k, t)},
        peers={
            **by_jax(by_jnp, s, k, t),
            **by_torch(
                compiled=torch_compiled(
                    lambda s, k, t: prices(torch, torch.erf, s, k, t), *tensors
                ),
                eager=lambda: prices(torch, torch.erf, *tensors),
            ),
            **by_triton.prices(RATE, VOLATILITY, s, k, t),
        },
        exact=exact,
        bytes=20.0 * n,
        goals=(Goal("JAX", 1.0),),
        error=error_of,
        tolerance=1e-5,
    )


MANDELBROT = r"""
extern "C" __global__ void mandelbrot(int h, int w, double left, double top, double step,
                                      int limit, int* out) {
    int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= h || j >= w) return;
    double x = left + j * step, y = top - i * step, zx = 0, zy = 0;
    int turns = 0;
    while (turns < limit && zx * zx + zy * zy <= 4.0) {
        double next = zx * zx - zy * zy + x;
        zy = 2.0 * zx * zy + y;
        zx = next;
        ++turns;
    }
    out[i * w + j] = turns;
}
"""


def mandelbrot(height: int, scale: Scale) -> Case:
    width, limit = height * 4 // 3, 500
    left, top, step = -2.2, 1.2, 2.4 / height

    # The corners are an array on the device, so that the picture stays there too.
    corners = cp.asarray([left, top, step])

    def written(height: int, width: int, corners: Any, limit: int) -> Any:
        left, top, step = (corners[k] for k in range(3))

        def point(i: Any, j: Any) -> Any:
            x = left + td.cast(j, td.float64) * step
            y = top - td.cast(i, td.float64) * step

            def inside(zx: Any, zy: Any, iterations: Any) -> Any:
                return (iterations < limit) & (zx * zx + zy * zy <= 4.0)

            def iteration(zx: Any, zy: Any, iterations: Any) -> Any:
                return zx * zx - zy * zy + x, 2.0 * zx * zy + y, iterations + 1

            first = (td.float64(0), td.float64(0), td.int32(0))
            return td.while_loop(lambda s: inside(*s), lambda s: iteration(*s), first)[2]

        return td.generate((height, width), point)

    kernel = raw(MANDELBROT, "mandelbrot")
    out = cp.empty((height, width), np.int32)
    blocks = (math.ceil(width / 32), math.ceil(height / 8))

    def by_hand() -> Any:
        kernel(blocks, (32, 8), (np.int32(height), np.int32(width), left, top, step,
                                 np.int32(limit), out))  # fmt: skip
        return out

    compiled = td.jit(written, backend=scale.backend)
    from .common import mismatches_of

    return Case(
        ours={"": lambda: compiled(height, width, corners, limit)},
        peers={"CUDA by hand": by_hand},
        exact=lambda: by_hand().copy(),
        error=mismatches_of,
        tolerance=0.02,  # orbits are chaotic: rounding decides when some points leave
        ceiling="",
        goals=(Goal("CUDA", 0.98),),
    )


def works(scale: Scale) -> list[Work]:
    big = scale.n(1 << 28, 1 << 26)
    options = scale.n(1 << 26, 1 << 24)
    side = scale.n(3000, 1500, 24)
    return [
        Work(f"map 2x + 1 of {count(big)} float32", GROUP, partial(mapped, big, scale)),
        Work(f"√((ax + y)² + 1) of {count(big)} float32", GROUP, partial(chain, big, scale)),
        Work(f"Black–Scholes, {count(options)} options", GROUP,
             partial(black_scholes, options, scale)),
        Work(f"Mandelbrot set, {side} rows, float64", GROUP, partial(mandelbrot, side, scale)),
    ]  # fmt: skip
