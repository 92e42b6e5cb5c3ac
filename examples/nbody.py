"""Colliding galaxies: a fold over n x n pairs, none stored."""

from pathlib import Path

import numpy as np

import treadle as td
from treadle.examples._show import OUTPUT, Made, beside, colour, progress, save

SOFT = 0.05  # softening length for close encounters


def acceleration(x: td.Array, y: td.Array, mass: td.Array) -> td.Array:
    """The acceleration of each body by all others: an array of pairs."""

    def pull(i, j):
        dx, dy = x[j] - x[i], y[j] - y[i]
        square = dx * dx + dy * dy + SOFT * SOFT
        strength = mass[j] / (square * td.sqrt(square))
        return strength * dx, strength * dy

    add = lambda a, b: (a[0] + b[0], a[1] + b[1])  # noqa: E731
    return td.fold(add, (0.0, 0.0), td.generate((x.shape[0], x.shape[0]), pull))


@td.jit
def leapfrog(bodies: tuple[td.Array, ...], mass: td.Array, dt: float, steps: int):
    """Leapfrog steps (half drift, kick, half drift); bodies are the arrays (x, y, vx, vy)."""

    def step(state):
        x, y, vx, vy = state
        x, y = x + dt / 2 * vx, y + dt / 2 * vy
        ax, ay = td.unzip(acceleration(x, y, mass))
        vx, vy = vx + dt * ax, vy + dt * ay
        return x + dt / 2 * vx, y + dt / 2 * vy, vx, vy

    return td.iterate(steps, step, bodies)


@td.jit
def energy(bodies: tuple[td.Array, ...], mass: td.Array) -> td.Array:
    """The sum of kinetic and potential energy, conserved up to the discretisation error."""
    (x, y, vx, vy), n = bodies, mass.shape[0]

    def bond(i, j):
        distance = td.sqrt((x[i] - x[j]) ** 2 + (y[i] - y[j]) ** 2 + SOFT * SOFT)
        return td.where(i < j, mass[i] * mass[j] / distance, 0)

    return td.sum(mass * (vx * vx + vy * vy)) / 2 - td.sum(td.generate((n, n), bond))


def galaxies(n: int, seed: int) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """Two discs of light bodies, each around a heavy one, on a collision course."""
    random, side = np.random.default_rng(seed), np.arange(n) % 2 * 2 - 1
    r, angle = 0.12 + 0.48 * random.random(n) ** 0.7, 2 * np.pi * random.random(n)
    r[:2], mass = 0, np.where(np.arange(n) < 2, 1.0, 0.1 / n)
    unit, speed = np.stack([np.cos(angle), np.sin(angle)]), r / (r * r + SOFT * SOFT) ** 0.75
    x, y = r * unit + 0.8 * side
    vx, vy = speed * unit[::-1] * [[-1], [1]] - 0.6 * np.stack([side, 0 * side])
    return tuple(b.astype(np.float32) for b in (x, y, vx, vy)), mass.astype(np.float32)


def program() -> td.Program:
    """The program, for any number of steps and bodies."""
    return leapfrog.lower(*galaxies(64, seed=1), 0.01, 10)


def main(output: Path = OUTPUT, bodies: int = 3072, steps: int = 270, seed: int = 5) -> Made:
    """Draw three moments, with fading trails; print the error of the energy."""
    state, mass = galaxies(bodies, seed)
    before, plate, frames = energy(state, mass), np.zeros((400, 400)), {}
    for k in progress(steps, f"{steps} steps of {bodies:,} bodies"):
        state = leapfrog(state, mass, 0.01, 1)
        plate = 0.9 * plate + np.histogram2d(-state[1], state[0], 400, [(-2, 2)] * 2)[0]
        if (k + 1) % max(1, steps // 3) == 0:
            frames[f"step {k + 1}"] = colour(np.log1p(plate), "inferno", 0, 2.6)
    note = f"relative change of the energy: {abs(energy(state, mass) / before - 1):.1e}"
    picture = save(beside(*frames.values()), output, "nbody", *frames)
    return Made({"bodies": state, "mass": mass}, picture, notes=(note,))
