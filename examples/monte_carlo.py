"""Option prices by Monte Carlo: random walks in a kernel."""

from math import erf, exp, log, sqrt
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import treadle as td
from treadle.examples._show import OUTPUT, Made, Table, colour, progress, save

SPOT, STRIKE, RATE, VOLATILITY, STEPS = 100.0, 105.0, 0.02, 0.30, 64  # of a year


def step(x: td.Scalar, key: tuple[td.Scalar, td.Scalar]) -> td.Scalar:
    """The logarithm of the price, a step later."""
    drift, deviation = (RATE - VOLATILITY**2 / 2) / STEPS, VOLATILITY / sqrt(STEPS)
    return x + drift + deviation * td.random.normal(key, ())


@td.jit
def prices(key: td.Array, paths: int) -> tuple[td.Array, ...]:
    """Value and standard error of a call on the last price, and of one on the mean price."""

    def payoffs(i):
        def walk(k, state):
            x = step(state[0], td.random.fold_in(td.random.fold_in(key, i), k))
            return x, state[1] + td.exp(x)

        x, total = td.loop(STEPS, walk, (td.float64(log(SPOT)), td.float64(0)))
        return tuple(exp(-RATE) * td.maximum(y - STRIKE, 0) for y in (td.exp(x), total / STEPS))

    both = td.unzip(td.generate(paths, payoffs))
    return tuple(x for p in both for x in (td.mean(p), td.std(p) / td.sqrt(paths)))


@td.jit
def density(key: td.Array, paths: int, height: int) -> td.Array:
    """How many paths pass through each pixel: times across, prices from 0 to twice the first up."""

    def walk(x, k):
        later = td.map(lambda i, x: step(x, td.random.fold_in(td.random.fold_in(key, k), i)),
                       td.iota(paths), x)  # fmt: skip
        return later, td.cast(td.exp(later) * (height / (2 * SPOT)), td.int64)

    rows = height - 1 - td.scan(walk, td.fill(paths, log(SPOT)), td.iota(STEPS))[1]
    return td.permute(lambda a, b: a + b, td.zeros((height, STEPS), td.int32),
                      lambda k, i: td.where(rows[k, i] >= 0, (rows[k, i], k), td.ignore),
                      td.ones((STEPS, paths), td.int32))  # fmt: skip


def black_scholes() -> float:
    """The exact value of the call on the last price."""
    d = (log(SPOT / STRIKE) + RATE) / VOLATILITY + VOLATILITY / 2
    first, second = (0.5 * (1 + erf(x / sqrt(2))) for x in (d, d - VOLATILITY))
    return SPOT * first - exp(-RATE) * STRIKE * second


def main(output: Path = OUTPUT, paths: int = 4_000_000, height: int = 320, seed: int = 1) -> Made:
    """Price two calls with more and more paths, and draw where the paths go."""
    key: NDArray[np.uint32] = np.array([seed, 0], np.uint32)
    exact, rows = black_scholes(), []
    for k in progress(4, f"up to {paths:,} paths of {STEPS} steps"):
        n = paths // 8 ** (3 - k)
        call, error, asian, its = (float(v) for v in prices(key, n))
        rows.append((f"{n:,}", f"{call:.3f} ± {error:.3f}", f"{(call - exact) / error:+.1f}",
                     f"{asian:.3f} ± {its:.3f}"))  # fmt: skip
    columns = ("paths", "on the last price", "errors from the exact one", "on the mean price")
    counts = np.asarray(density(key, max(paths // 40, 1), height))
    shades = np.repeat(np.sqrt(counts / counts.max(axis=0)), 10, axis=1).astype(np.float32)
    picture = save(colour(shades, "magma"), output, "monte_carlo", "prices, from left to right")
    listed = Table("value of a call", columns, tuple(rows))
    note = f"exact, by Black and Scholes: {exact:.4f}"
    return Made({"counts": counts, "rows": rows}, picture, tables=(listed,), notes=(note,))


def program() -> td.Program:
    """The program, for any number of paths."""
    return prices.lower(np.array([1, 0], np.uint32), 64)
