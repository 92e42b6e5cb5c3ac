"""Stencils with a clamped border: general and separable weights, seven points, many steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import treadle as td
from benchmarks.harness import Case, Goal, Work

from . import by_triton
from .common import (
    Run,
    Scale,
    by_jax,
    by_torch,
    cp,
    error_of,
    jax,
    jnp,
    raw,
    tensor,
    torch,
    uniform,
)

GROUP = "Stencils, float32"


def weights(size: int, kind: str) -> Any:
    if kind == "general":
        w = np.random.default_rng(7).uniform(0.5, 1.5, (size, size))
    else:
        line = np.exp(-0.5 * ((np.arange(size) - size // 2) / (size / 5)) ** 2)
        w = np.outer(line, line) if kind == "Gaussian" else np.ones((size, size))
    return (w / w.sum()).astype(np.float32)


def naive(w: Any) -> Callable[[Any, Any], None]:
    """A thread per output, weights in the code, every tap clamped: what one writes first."""
    size = w.shape[0]
    r = size // 2
    taps = "\n".join(
        f"    s += {float(w[i, j])!r}f * a[min(max(y + {i - r}, 0), h - 1) * w + "
        f"min(max(x + {j - r}, 0), w - 1)];"
        for i in range(size)
        for j in range(size)
    )
    source = f"""
extern "C" __global__ void naive(const float* __restrict__ a, float* out, int h, int w) {{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    float s = 0;
{taps}
    out[y * w + x] = s;
}}
"""
    kernel = raw(source, "naive")

    def run(a: Any, out: Any) -> None:
        h, width = a.shape
        blocks = (math.ceil(width / 32), math.ceil(h / 8))
        kernel(blocks, (32, 8), (a, out, np.int32(h), np.int32(width)))

    return run


def stencil_case(size: int, kind: str, n: int, scale: Scale, run_time: bool = False) -> Case:
    a, w = uniform((n, n)), weights(size, kind)
    r = size // 2
    places = [(i - r, j - r, float(w[i, j])) for i in range(size) for j in range(size)]

    def literal(a: Any) -> Any:
        return td.stencil(lambda x: sum(v * x[i, j] for i, j, v in places), a)

    ours: dict[str, Run] = {}
    compiled = td.jit(literal, backend=scale.backend)
    ours["weights in the program"] = lambda: compiled(a)
    device_w = cp.asarray(w)
    if run_time:
        correlated = td.jit(lambda a, w: td.correlate(a, w), backend=scale.backend)
        ours["weights at run time"] = lambda: correlated(a, device_w)
    out = cp.empty_like(a)
    by_hand = naive(w)

    def hand() -> Any:
        by_hand(a, out)
        return out

    from cupyx.scipy import ndimage

    peers: dict[str, Run] = {
        "CUDA naive": hand,
        "CuPy": lambda: ndimage.correlate(a, device_w, mode="nearest"),
    }
    if size == 3:
        peers |= by_triton.stencil(a, device_w)
    if jax is not None:

        def slices(a: Any) -> Any:
            padded = jnp.pad(a, r, mode="edge")
            return sum(v * padded[i + r : i + r + n, j + r : j + r + n] for i, j, v in places)

        peers |= by_jax(slices, a)
    if torch is not None:
        t, tw = tensor(a)[None, None], tensor(device_w)[None, None]
        pad, conv = torch.nn.functional.pad, torch.nn.functional.conv2d
        peers |= by_torch(conv2d=lambda: conv(pad(t, (r, r, r, r), mode="replicate"), tw)[0, 0])

    def exact() -> Any:
        return ndimage.correlate(a.astype(np.float64), device_w.astype(np.float64), mode="nearest")

    share = {3: 0.032 / 0.042, 5: 0.032 / 0.045, 9: 0.032 / 0.052}[size]
    goals = [Goal("copy", share if kind == "general" else 0.032 / 0.042)]
    if size == 9 and kind == "general":
        goals += [Goal("CUDA", 6.5), Goal("JAX", 12.0)]
    return Case(
        ours=ours,
        peers=peers,
        exact=exact,
        bytes=8.0 * n * n,
        flops=2.0 * size * size * n * n,
        goals=goals,
        error=error_of,
        tolerance=1e-5,
    )


def seven(n: int, scale: Scale) -> Case:
    a = uniform((n, n, n))

    def written(a: Any) -> Any:
        return td.stencil(
            lambda x: (
                0.4 * x[0, 0, 0]
                + 0.1
                * (x[-1, 0, 0] + x[1, 0, 0] + x[0, -1, 0] + x[0, 1, 0] + x[0, 0, -1] + x[0, 0, 1])
            ),
            a,
        )

    def shifted(m: Any, a: Any) -> Any:
        p = m.pad(a, 1, mode="edge")
        c = p[1:-1, 1:-1, 1:-1]
        near = (p[:-2, 1:-1, 1:-1] + p[2:, 1:-1, 1:-1] + p[1:-1, :-2, 1:-1] + p[1:-1, 2:, 1:-1]
                + p[1:-1, 1:-1, :-2] + p[1:-1, 1:-1, 2:])  # fmt: skip
        return 0.4 * c + 0.1 * near

    ours = td.jit(written, backend=scale.backend)
    return Case(
        ours={"": lambda: ours(a)},
        peers={"CuPy": lambda: shifted(cp, a), **by_jax(lambda a: shifted(jnp, a), a)},
        exact=lambda: shifted(cp, a.astype(np.float64)),
        bytes=8.0 * n**3,
        goals=(Goal("copy", 0.75),),
        error=error_of,
        tolerance=1e-5,
    )


def many_steps(n: int, steps: int, scale: Scale) -> Case:
    """Steps of the heat equation; the ceiling copies the array once a step."""
    a = uniform((n, n))

    def heat(x: Any) -> Any:
        return 0.5 * x[0, 0] + 0.125 * (x[-1, 0] + x[1, 0] + x[0, -1] + x[0, 1])

    def written(a: Any, steps: int) -> Any:
        return td.iterate(steps, lambda b: td.stencil(heat, b), a)

    def step_of(m: Any, a: Any) -> Any:
        p = m.pad(a, 1, mode="edge")
        near = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]
        return 0.5 * a + 0.125 * near

    def exact() -> Any:
        b = a.astype(np.float64)
        for _ in range(steps):
            b = step_of(cp, b)
        return b

    def looped(a: Any) -> Any:
        return jax.lax.fori_loop(0, steps, lambda _, b: step_of(jnp, b), a)

    ours = td.jit(written, backend=scale.backend)
    return Case(
        ours={"": lambda: ours(a, steps)},
        peers=by_jax(looped, a),
        exact=exact,
        bytes=8.0 * n * n * steps,
        goals=(Goal("copy", 2.0),),
        error=error_of,
        tolerance=1e-5,
    )


def waves(n: int, steps: int, scale: Scale) -> Case:
    """Steps of the wave equation with a velocity for each point: a step reads three arrays and
    writes one; the ceiling copies the array twice a step."""
    a, speed = uniform((n, n)), 0.4 * uniform((n, n))

    def step(neighbours: Any, now: Any, before: Any, speed: Any) -> Any:
        return 2 * now - before + speed * (neighbours - 4 * now)

    def written(a: Any, speed: Any, steps: int) -> Any:
        def advance(state: tuple[Any, Any]) -> tuple[Any, Any]:
            now, before = state
            near = td.stencil(lambda x: x[-1, 0] + x[1, 0] + x[0, -1] + x[0, 1], now)
            return step(near, now, before, speed), now

        return td.iterate(steps, advance, (a, a))[0]

    def near_of(m: Any, a: Any) -> Any:
        p = m.pad(a, 1, mode="edge")
        return p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]

    def exact() -> Any:
        now = before = a.astype(np.float64)
        for _ in range(steps):
            now, before = step(near_of(cp, now), now, before, speed), now
        return now

    def looped(a: Any, speed: Any) -> Any:
        def advance(_: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
            now, before = state
            return step(near_of(jnp, now), now, before, speed), now

        return jax.lax.fori_loop(0, steps, advance, (a, a))[0]

    ours = td.jit(written, backend=scale.backend)
    return Case(
        ours={"": lambda: ours(a, speed, steps)},
        peers=by_jax(looped, a, speed),
        exact=exact,
        bytes=16.0 * n * n * steps,
        goals=(Goal("copy", 2.0),),
        error=error_of,
        tolerance=1e-4,
    )


def fields(n: int, steps: int, scale: Scale) -> Case:
    """Steps of Maxwell's equations in two dimensions (Yee's scheme), updates of slices of three
    arrays: a step reads and writes each at least once; the ceiling copies them."""
    ex, ey, hz = (uniform((n, n)) for _ in range(3))

    def written(ex: Any, ey: Any, hz: Any, steps: int) -> Any:
        def step(state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
            ex, ey, hz = state
            ey = ey.at[1:].add(-0.5 * (hz[1:] - hz[:-1]))
            ex = ex.at[:, 1:].add(-0.5 * (hz[:, 1:] - hz[:, :-1]))
            curl = ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1]
            return ex, ey, hz.at[:-1, :-1].add(-0.7 * curl)

        return td.iterate(steps, step, (ex, ey, hz))[2]

    def exact() -> Any:
        e, f, h = (a.astype(np.float64) for a in (ex, ey, hz))
        for _ in range(steps):
            f[1:] -= 0.5 * (h[1:] - h[:-1])
            e[:, 1:] -= 0.5 * (h[:, 1:] - h[:, :-1])
            h[:-1, :-1] -= 0.7 * (e[:-1, 1:] - e[:-1, :-1] + f[1:, :-1] - f[:-1, :-1])
        return h

    def looped(ex: Any, ey: Any, hz: Any) -> Any:
        def step(_: Any, state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
            ex, ey, hz = state
            ey = ey.at[1:].add(-0.5 * (hz[1:] - hz[:-1]))
            ex = ex.at[:, 1:].add(-0.5 * (hz[:, 1:] - hz[:, :-1]))
            curl = ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1]
            return ex, ey, hz.at[:-1, :-1].add(-0.7 * curl)

        return jax.lax.fori_loop(0, steps, step, (ex, ey, hz))[2]

    ours = td.jit(written, backend=scale.backend)
    return Case(
        ours={"": lambda: ours(ex, ey, hz, steps)},
        peers=by_jax(looped, ex, ey, hz),
        exact=exact,
        bytes=24.0 * n * n * steps,
        goals=(Goal("copy", 2.0),),
        error=error_of,
        tolerance=1e-4,
    )


def works(scale: Scale) -> list[Work]:
    n = scale.n(4096, 2048, 40)
    made = [
        Work(f"{s}×{s}, general weights, {n}²", GROUP,
             partial(stencil_case, s, "general", n, scale, run_time=True))
        for s in (3, 5, 9)
    ]  # fmt: skip
    made += [
        Work(f"9×9 {kind}, {n}²", GROUP, partial(stencil_case, 9, kind, n, scale))
        for kind in ("box", "Gaussian")
    ]
    cube, steps = scale.n(512, 256, 12), scale.n(100, 40, 5)
    made += [
        Work(f"7 points, {cube}³", GROUP, partial(seven, cube, scale)),
        Work(f"{steps} steps of 5 points, {n}²", GROUP, partial(many_steps, n, steps, scale)),
        Work(f"{steps} steps of 5 points, {2 * n}²", GROUP,
             partial(many_steps, 2 * n, steps, scale)),
        Work(f"{steps} steps of waves, {2 * n}²", GROUP, partial(waves, 2 * n, steps, scale)),
        Work(f"{steps} steps of Maxwell's equations, {n}²", GROUP,
             partial(fields, n, steps, scale)),
    ]  # fmt: skip
    return made
