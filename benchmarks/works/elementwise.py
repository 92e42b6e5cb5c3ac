"""Maps: chains of arithmetic, sines and exponentials, option prices."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numba as nb
import numpy as np

import treadle as td
from benchmarks.harness import Case, Goal, Work

from .common import Scale, by_jax, count, jax, jnp, uniform

GROUP = "Element-wise, fused"
F = np.float32
ONE, HALF, RATE, VOLATILITY = F(1), F(0.5), F(0.02), F(0.3)
ROOT_HALF = F(0.7071067811865476)

FUSED = (Goal("best", 1.0), Goal("copy", 0.9))
COMPUTE = (Goal("best", 1.0),)


# --- saxpy, then sqrt(z² + 1) ----------------------------------------------------------------


@nb.njit(parallel=True)
def chain_by_numba(a: Any, x: Any, y: Any, out: Any) -> None:
    for i in nb.prange(x.size):
        z = a * x[i] + y[i]
        out[i] = math.sqrt(z * z + ONE)


def chain_by_numpy(a: Any, x: Any, y: Any, out: Any) -> Any:
    np.multiply(x, a, out=out)
    np.add(out, y, out=out)
    np.multiply(out, out, out=out)
    np.add(out, 1, out=out)
    return np.sqrt(out, out=out)


def chain(n: int, scale: Scale) -> Case:
    x, y, a = uniform(n), uniform(n, -1, 1), F(2.5)
    outs = [np.empty_like(x) for _ in range(2)]

    def written(a: Any, x: Any, y: Any) -> Any:
        z = a * x + y
        return td.sqrt(z * z + 1)

    def by_numba() -> Any:
        chain_by_numba(a, x, y, outs[0])
        return outs[0]

    ours = td.jit(written, backend=scale.backend)
    return Case(
        ours={"": lambda: ours(2.5, x, y)},
        peers={
            "NumPy": lambda: chain_by_numpy(a, x, y, outs[1]),
            "Numba": by_numba,
            **by_jax(lambda a, x, y: jnp.sqrt((a * x + y) * (a * x + y) + 1), a, x, y),
        },
        exact=lambda: np.sqrt((2.5 * x.astype(np.float64) + y) ** 2 + 1),
        bytes=12.0 * n,
        flops=5.0 * n,
        goals=FUSED,
        tolerance=1e-6,
    )


# --- sines and exponentials ------------------------------------------------------------------


@nb.njit(parallel=True)
def waves_by_numba(x: Any, out: Any) -> None:
    for i in nb.prange(x.size):
        v = x[i]
        out[i] = math.sin(v) * math.exp(-v * v) + math.cos(F(3) * v) * math.exp(-HALF * v)


def waves(n: int, scale: Scale) -> Case:
    x = uniform(n, -3, 3)
    out = np.empty_like(x)

    def written(m: Any) -> Any:
        return lambda v: m.sin(v) * m.exp(-v * v) + m.cos(3 * v) * m.exp(-0.5 * v)

    def by_numba() -> Any:
        waves_by_numba(x, out)
        return out

    ours = td.jit(lambda x: td.map(written(td), x), backend=scale.backend)
    return Case(
        ours={"": lambda: ours(x)},
        peers={
            "NumPy": lambda: written(np)(x),
            "Numba": by_numba,
            **by_jax(lambda x: written(jnp)(x), x),
        },
        exact=lambda: written(np)(x.astype(np.float64)),
        bytes=8.0 * n,
        ceiling="copy",
        goals=COMPUTE,
        tolerance=1e-6,
    )


# --- Black-Scholes ---------------------------------------------------------------------------


@nb.njit(parallel=True)
def prices_by_numba(spot: Any, strike: Any, years: Any, call: Any, put: Any) -> None:
    for i in nb.prange(spot.size):
        s, k, t = spot[i], strike[i], years[i]
        deviation = VOLATILITY * math.sqrt(t)
        d1 = (math.log(s / k) + RATE * t) / deviation + deviation * HALF
        d2 = d1 - deviation
        later = k * math.exp(-RATE * t)
        n1 = HALF * (ONE + math.erf(d1 * ROOT_HALF))
        n2 = HALF * (ONE + math.erf(d2 * ROOT_HALF))
        call[i] = s * n1 - later * n2
        put[i] = later * (ONE - n2) - s * (ONE - n1)


def pricing(m: Any, erf: Any) -> Any:
    """Call and put, in the words of the module `m`."""

    def price(s: Any, k: Any, t: Any) -> Any:
        deviation = 0.3 * m.sqrt(t)
        d1 = (m.log(s / k) + 0.02 * t) / deviation + deviation * 0.5
        d2 = d1 - deviation
        later = k * m.exp(-0.02 * t)
        n1 = 0.5 * (1 + erf(d1 * 0.7071067811865476))
        n2 = 0.5 * (1 + erf(d2 * 0.7071067811865476))
        return s * n1 - later * n2, later * (1 - n2) - s * (1 - n1)

    return price


def black_scholes(n: int, scale: Scale) -> Case:
    from scipy import special

    spot, strike = uniform(n, 10, 50), uniform(n, 12, 45)[::-1].copy()
    years = np.roll(uniform(n, 0.1, 3), n // 3)
    given = (spot, strike, years)
    call, put = np.empty_like(spot), np.empty_like(spot)

    def by_numba() -> Any:
        prices_by_numba(spot, strike, years, call, put)
        return call, put

    def compiled(*arrays: Any) -> Any:
        return td.map(pricing(td, td.erf), *arrays)

    ours = td.jit(compiled, backend=scale.backend)
    erf = jax.scipy.special.erf if jax is not None else None
    return Case(
        ours={"": lambda: ours(*given)},
        peers={
            "NumPy": lambda: pricing(np, special.erf)(*given),
            "Numba": by_numba,
            **by_jax(lambda *a: pricing(jnp, erf)(*a), *given),
        },
        exact=lambda: pricing(np, special.erf)(*(g.astype(np.float64) for g in given)),
        bytes=20.0 * n,
        ceiling="copy",
        goals=COMPUTE,
        tolerance=2e-6,
    )


def works(scale: Scale) -> list[Work]:
    """Each beyond the L3 cache and inside it (Black-Scholes of 4 M is just beyond)."""
    made = []
    for title, build, large, small in (
        ("a·x + y, then √(z² + 1)", chain, 16 << 20, 256 << 10),
        ("sin, cos and exp", waves, 16 << 20, 512 << 10),
    ):
        for n in (scale.n(large, large // 2), scale.n(small, tiny=999)):
            made.append(Work(f"{title}, {count(n)}", GROUP, partial(build, n, scale)))
    sizes = (scale.n(16 << 20, 8 << 20), scale.n(4 << 20, tiny=777), scale.n(128 << 10, tiny=99))
    for n in sizes:
        name = f"Black-Scholes, call and put, {count(n)}"
        made.append(Work(name, GROUP, partial(black_scholes, n, scale)))
    return made
