"""What conducts the heat: gradients through 1000 time steps."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import treadle as td
from treadle.examples._show import OUTPUT, Made, Table, beside, colour, progress, save
from treadle.examples.heat import embers

TRUTH = (0.05, 0.2, 0.12, 0.015)
Plate = NDArray[np.float32]


def conductivity(c: td.Array, shape: tuple[int | td.Scalar, ...]) -> td.Array:
    """One coefficient for each quarter of the plate."""
    return td.generate(shape, lambda i, j: c[2 * (2 * i // shape[0]) + 2 * j // shape[1]])


def diffuse(c: td.Array, plate: td.Array, steps: int) -> td.Array:
    """Euler steps of du/dt = div(k grad u) on a torus."""
    k = conductivity(c, plate.shape)

    def flow(u, axis):
        there = td.roll(k, -1, axis)
        return 2 * k * there / (k + there) * (td.roll(u, -1, axis) - u)

    def step(u):
        down, right = flow(u, 0), flow(u, 1)
        return u + down - td.roll(down, 1, 0) + right - td.roll(right, 1, 1)

    return td.iterate(steps, step, plate)


def coefficients(p: td.Array) -> td.Array:
    """Between 0 and 1/4, beyond which the steps are not stable, for any parameters."""
    return 0.25 / (1 + td.exp(-p))


def loss(p: td.Array, plate: td.Array, seen: td.Array, steps: int) -> td.Array:
    """How far the plate is from the observed one."""
    return td.mean((diffuse(coefficients(p), plate, steps) - seen) ** 2)


def fit(plate: Plate, seen: Plate, steps: int, rounds: int, memory: str) -> list[Plate]:
    """The coefficients after each round of gradient descent (Adam)."""
    descent, value = td.jit(td.grad(loss, memory=memory)), td.jit(coefficients)
    p, found = np.zeros(4, np.float32), []
    mean, square = np.zeros(4), np.zeros(4)
    for t in progress(rounds, f"gradients through {steps} steps"):
        g = np.asarray(descent(p, plate, seen, steps), np.float64)
        mean, square = 0.8 * mean + 0.2 * g, 0.95 * square + 0.05 * g * g
        rate = 0.3 * (1 - t / rounds) / (np.sqrt(square / (1 - 0.95 ** (t + 1))) + 1e-12)
        p = (p - rate * mean / (1 - 0.8 ** (t + 1))).astype(np.float32)
        found.append(value(p))
    return found


def program() -> td.Program:
    """The gradient, for any plate and any number of steps."""
    plate = embers(32, seed=1)
    return td.jit(td.grad(loss, memory="100 kB")).lower(np.zeros(4, np.float32), plate, plate, 9)


def main(output: Path = OUTPUT, size: int = 128, steps: int = 1000, rounds: int = 80) -> Made:
    """Draw the plate before, as observed, and with the coefficients of three rounds."""
    plate, run = embers(size, seed=8), td.jit(diffuse)
    seen = run(np.array(TRUTH, np.float32), plate, steps)
    found = fit(plate, seen, steps, rounds, f"{100 * plate.nbytes} B")
    frames = [plate, seen, *(run(found[k], plate, steps) for k in (0, rounds // 8, rounds - 1))]
    picture = save(beside(*(colour(f, "inferno", 0, 0.4) for f in frames)), output, "diffusion")
    rows = tuple((k + 1, *map(float, found[k])) for k in (0, rounds // 8, rounds - 1))
    table = Table("coefficients", ("round", "a", "b", "c", "d"), (*rows, ("true", *TRUTH)))
    return Made({"found": found[-1], "frames": frames}, picture, (table,))
