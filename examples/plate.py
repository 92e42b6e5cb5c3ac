"""Heat in a plate whose file is larger than the memory in use."""

import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import treadle as td
from treadle.examples._show import OUTPUT, Made, beside, colour, save


@td.jit
def cool(plate: td.Array, steps: int) -> td.Array:
    """Explicit Euler steps of du/dt = laplacian(u); no heat leaves the plate."""

    def euler(w):
        return w[0, 0] + 0.2 * (w[-1, 0] + w[1, 0] + w[0, -1] + w[0, 1] - 4 * w[0, 0])

    return td.iterate(steps, lambda u: td.stencil(euler, u, boundary=td.clamp, name="euler"), plate)


def in_file(path: Path, size: int) -> NDArray[np.float32]:
    """An array in a file; only the parts in use are in memory."""
    return np.memmap(path, np.float32, "w+", shape=(size, size))


def heat_up(plate: NDArray[np.float32]) -> None:
    """Hot rings on a cold plate, some hundred rows at a time."""
    size = len(plate)
    for top in range(0, size, 256):
        i, j = np.mgrid[top : min(top + 256, size), :size] / size - 0.5
        waves = np.cos(60 * np.hypot(i + 0.1, j)) * np.cos(45 * np.hypot(i, j + 0.2))
        plate[top : top + 256] = waves > 0.4


def small(plate: NDArray[np.float32], width: int = 320) -> NDArray[np.float32]:
    """Every n-th element."""
    step = max(len(plate) // width, 1)
    return np.array(plate[::step, ::step])


def program() -> td.Program:
    """The program, for any number of steps and any size of the plate."""
    return cool.lower(np.zeros((64, 64), np.float32), 10)


def main(output: Path = OUTPUT, size: int = 4096, steps: int = 400, memory: str = "16 MB") -> Made:
    """Draw the plate before and after; `memory` is what its parts in memory may have together."""
    with tempfile.TemporaryDirectory() as folder:
        before, after = in_file(Path(folder, "before"), size), in_file(Path(folder, "after"), size)
        heat_up(before)
        td.stream(cool, before, steps, out=after, memory=memory, progress=True)
        frames = [small(before), small(after)]
        means = f"{before.mean(dtype=np.float64):.6f}, {after.mean(dtype=np.float64):.6f}"
    picture = save(beside(*(colour(frame, "inferno") for frame in frames)), output, "plate")
    note = f"{4e-6 * size**2:.0f} MB with {memory} in memory; mean temperatures: {means}"
    return Made({"frames": frames}, picture, notes=(note,))
