"""Loops: inside a kernel (Mandelbrot), and over whole arrays (the heat equation, the Game of
Life)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numba as nb
import numpy as np

import treadle as td
from benchmarks.harness import Case, Goal, Work, mismatches

from .common import Scale, by_jax, generator, jax, jnp

GROUP = "Loops"


# --- Mandelbrot ------------------------------------------------------------------------------


def _mandelbrot(left: float, top: float, step: float, limit: int, out: Any) -> None:
    height, width = out.shape
    for i in nb.prange(height):
        y = top - step * i
        for j in range(width):
            x = left + step * j
            zx = zy = 0.0
            iterations = 0
            while zx * zx + zy * zy <= 4.0 and iterations < limit:
                zx, zy = zx * zx - zy * zy + x, 2.0 * zx * zy + y
                iterations += 1
            out[i, j] = iterations


mandelbrot_by_numba = nb.njit(parallel=True)(_mandelbrot)
mandelbrot_alone = nb.njit(_mandelbrot)


def mandelbrot(height: int, width: int, scale: Scale) -> Case:
    left, top, step, limit = -2.2, 1.2, 2.4 / height, 300
    out = np.empty((height, width), np.int32)

    def by_numba() -> Any:
        before = nb.set_parallel_chunksize(4)  # rows differ in cost: small pieces, taken in turn
        mandelbrot_by_numba(left, top, step, limit, out)
        nb.set_parallel_chunksize(before)
        return out

    def written(height: int, width: int, left: float, top: float, step: float, limit: int) -> Any:
        def point(i: Any, j: Any) -> Any:
            x = left + step * td.cast(j, td.float64)
            y = top - step * td.cast(i, td.float64)

            def inside(state: Any) -> Any:
                zx, zy, iterations = state
                return (zx * zx + zy * zy <= 4.0) & (iterations < limit)

            def iteration(state: Any) -> Any:
                zx, zy, iterations = state
                return zx * zx - zy * zy + x, 2.0 * zx * zy + y, iterations + 1

            return td.while_loop(inside, iteration, (td.float64(0), td.float64(0), td.int32(0)))[2]

        return td.generate((height, width), point)

    def exact() -> Any:
        made = np.empty((height, width), np.int32)
        mandelbrot_alone(left, top, step, limit, made)
        return made

    iterations = float(exact().sum(dtype=np.int64))
    ours = td.jit(written, backend=scale.backend)
    return Case(
        ours={"": lambda: ours(height, width, left, top, step, limit)},
        peers={"Numba": by_numba},
        exact=exact,
        error=mismatches,
        # Orbits are chaotic: rounding (a fused multiply-add) decides when some points leave.
        tolerance=0.02,
        flops=7.0 * iterations,
        ceiling="",
        goals=(Goal("Numba", 1.0),),
    )


# --- the heat equation -----------------------------------------------------------------------


@nb.njit(parallel=True)
def step_by_numba(a: Any, out: Any) -> None:
    height, width = a.shape
    rate, four = np.float32(0.2), np.float32(4)
    for y in nb.prange(height):
        north, here, south = a[max(y - 1, 0)], a[y], a[min(y + 1, height - 1)]
        o = out[y]
        for x in range(1, width - 1):
            around = north[x] + south[x] + here[x - 1] + here[x + 1]
            o[x] = here[x] + rate * (around - four * here[x])
        for x in (0, width - 1):
            around = north[x] + south[x] + here[max(x - 1, 0)] + here[min(x + 1, width - 1)]
            o[x] = here[x] + rate * (around - four * here[x])


@nb.njit
def heat_by_numba(a: Any, steps: int) -> Any:
    now, following = a.copy(), np.empty_like(a)
    for _ in range(steps):
        step_by_numba(now, following)
        now, following = following, now
    return now


def heat(side: int, steps: int, scale: Scale) -> Case:
    plate = generator().random((side, side), dtype=np.float32)

    def euler(w: Any) -> Any:
        return w[0, 0] + 0.2 * (w[-1, 0] + w[1, 0] + w[0, -1] + w[0, 1] - 4 * w[0, 0])

    def written(plate: Any, steps: int) -> Any:
        return td.iterate(steps, lambda u: td.stencil(euler, u, boundary=td.clamp), plate)

    def padded(m: Any, u: Any) -> Any:
        p = m.pad(u, 1, mode="edge")
        around = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]
        return u + u.dtype.type(0.2) * (around - 4 * u)

    def exact() -> Any:
        now = plate.astype(np.float64)
        for _ in range(steps):
            now = padded(np, now)
        return now

    def looped(plate: Any) -> Any:
        return jax.lax.fori_loop(0, steps, lambda _, u: padded(jnp, u), plate)

    ours = td.jit(written, backend=scale.backend)
    return Case(
        ours={"": lambda: ours(plate, steps)},
        peers={"Numba": lambda: heat_by_numba(plate, steps), **by_jax(looped, plate)},
        exact=exact,
        bytes=8.0 * steps * plate.size,
        goals=(Goal("Numba", 1.0),),
    )


# --- the Game of Life ------------------------------------------------------------------------


@nb.njit(inline="always")
def rule_of_bytes(n: Any, me: Any) -> Any:
    return np.uint8(np.uint8(n == 3) | (np.uint8(n == 2) & me))


@nb.njit(parallel=True)
def generation_by_numba(a: Any, out: Any) -> None:
    height, width = a.shape
    u8 = np.uint8  # Numba adds bytes as 64-bit integers; cut back at once they stay bytes
    for y in nb.prange(height):
        north, here, south = a[(y - 1) % height], a[y], a[(y + 1) % height]
        o = out[y]
        for x in range(width - 2):
            n = u8(u8(north[x] + north[x + 1]) + u8(north[x + 2] + here[x]))
            n = u8(n + u8(u8(here[x + 2] + south[x]) + u8(south[x + 1] + south[x + 2])))
            o[x + 1] = rule_of_bytes(n, here[x + 1])
        for x in (0, width - 1):
            left, right = (x - 1) % width, (x + 1) % width
            n = u8(u8(north[left] + north[x]) + u8(north[right] + here[left]))
            n = u8(n + u8(u8(here[right] + south[left]) + u8(south[x] + south[right])))
            o[x] = rule_of_bytes(n, here[x])


@nb.njit
def life_by_numba(a: Any, iterations: int) -> Any:
    now, following = a.copy(), np.empty_like(a)
    for _ in range(iterations):
        generation_by_numba(now, following)
        now, following = following, now
    return now


NEAR = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)]


def life(side: int, iterations: int, scale: Scale) -> Case:
    board = (generator().random((side, side)) < 0.3).astype(np.uint8)

    def rule(w: Any) -> Any:
        n = sum(w[at] for at in NEAR)
        return td.cast((n == 3) | ((w[0, 0] == 1) & (n == 2)), td.uint8)

    def written(board: Any, iterations: int) -> Any:
        return td.iterate(iterations, lambda b: td.stencil(rule, b, boundary=td.wrap), board)

    def rolled(m: Any, board: Any) -> Any:
        n = sum(m.roll(board, at, (0, 1)) for at in NEAR)
        return ((n == 3) | ((board == 1) & (n == 2))).astype(np.uint8)

    def exact() -> Any:
        now = board
        for _ in range(iterations):
            now = rolled(np, now)
        return now

    def looped(board: Any) -> Any:
        return jax.lax.fori_loop(0, iterations, lambda _, b: rolled(jnp, b), board)

    ours = td.jit(written, backend=scale.backend)
    return Case(
        ours={"": lambda: ours(board, iterations)},
        peers={"Numba": lambda: life_by_numba(board, iterations), **by_jax(looped, board)},
        exact=exact,
        error=mismatches,
        tolerance=0.0,
        bytes=2.0 * iterations * board.size,
        goals=(Goal("Numba", 1.5),),
    )


def works(scale: Scale) -> list[Work]:
    """A loop in a kernel; loops over plates of 4 and 64 MB, and over boards of 1 and 16 MB."""
    height = scale.n(1200, 600, 24)
    width = height * 4 // 3
    name = f"Mandelbrot set, {width} × {height}, float64"
    made = [Work(name, GROUP, partial(mandelbrot, height, width, scale))]
    for side, steps in ((scale.n(1024, tiny=20), scale.n(200, 50, 4)),
                        (scale.n(4096, tiny=32), scale.n(50, 10, 3))):  # fmt: skip
        name = f"{steps} steps of the heat equation, {side}²"
        made.append(Work(name, GROUP, partial(heat, side, steps, scale)))
    for side, iterations in (
        (scale.n(1024, tiny=20), scale.n(100, 50, 4)),
        (scale.n(4096, tiny=32), scale.n(20, 10, 3)),
    ):
        name = f"Game of Life, {iterations} generations of {side}²"
        made.append(Work(name, GROUP, partial(life, side, iterations, scale)))
    return made
