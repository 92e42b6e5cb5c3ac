"""The heat equation: an iterated stencil with its own boundary."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import treadle as td
from treadle.examples._show import OUTPUT, Made, beside, colour, progress, save


def rim(i: td.Scalar, j: td.Scalar) -> td.Scalar:
    """The fixed temperature outside the plate: warm waves along the rim."""
    return td.sin(0.045 * td.cast(i - j, td.float32)) ** 2


@td.jit
def diffuse(plate: td.Array, steps: int) -> td.Array:
    """Explicit Euler steps of du/dt = laplacian(u), with dt/dx^2 = 1/5 (stable below 1/4)."""

    def step(u):
        def euler(w):
            return w[0, 0] + 0.2 * (w[-1, 0] + w[1, 0] + w[0, -1] + w[0, 1] - 4 * w[0, 0])

        return td.stencil(euler, u, boundary=td.function(rim), name="euler")

    return td.iterate(steps, step, plate)


def embers(size: int, seed: int) -> NDArray[np.float32]:
    """A cold plate with hot discs on it."""
    random = np.random.default_rng(seed)
    i, j = np.mgrid[:size, :size]
    plate = np.zeros((size, size), np.float32)
    for _ in range(24):
        y, x, radius = *random.integers(0, size, 2), random.uniform(0.02, 0.09) * size
        plate[np.hypot(i - y, j - x) < radius] = random.uniform(0.6, 1.0)
    return plate


def program() -> td.Program:
    """The program, for any number of steps and any size of the plate."""
    return diffuse.lower(embers(64, seed=1), 10)


def main(output: Path = OUTPUT, size: int = 320, steps: int = 2400, seed: int = 8) -> Made:
    """Draw the plate at the start and after a twelfth, a third and all of the steps."""
    plate = embers(size, seed)
    moments, frames = (0, steps // 12, steps // 3, steps), [plate]
    for k in progress(3, f"{steps} steps on {size} x {size} cells"):
        frames.append(diffuse(frames[-1], moments[k + 1] - moments[k]))
    pixels = beside(*(colour(frame, "inferno") for frame in frames))
    picture = save(pixels, output, "heat", *(f"after {n} steps" for n in moments))
    means = ", ".join(f"{frame.mean():.4f}" for frame in frames)
    return Made({"frames": frames}, picture, notes=(f"mean temperatures: {means}",))
