"""The Mandelbrot set: a loop inside a kernel."""

from math import log
from pathlib import Path

import numpy as np

import treadle as td
from treadle.examples._show import OUTPUT, Made, Table, colour, save, stage
from treadle.examples._timing import timed

SEAHORSES = (-0.745, 0.1145)


@td.jit
def escape(height: int, width: int, x: float, y: float, pixel: float, limit: int) -> td.Array:
    """For each pixel: (iterations until |z| > 16, at most `limit`; the same as a smooth float)."""

    def point(i, j):
        cx = x + pixel * (td.cast(j, td.float64) - width / 2)
        cy = y - pixel * (td.cast(i, td.float64) - height / 2)

        def inside(state):
            zx, zy, count = state
            return (zx * zx + zy * zy <= 256.0) & (count < limit)

        def step(state):
            zx, zy, count = state
            return zx * zx - zy * zy + cx, 2 * zx * zy + cy, count + 1

        zx, zy, count = td.while_loop(inside, step, (0 * cx, 0 * cy, td.int32(0)))
        beyond = td.log(td.log(td.maximum(zx * zx + zy * zy, 4.0)) / (2 * log(2))) / log(2)
        return count, td.cast(count + 1 - beyond, td.float32)

    return td.generate((height, width), point)


def program() -> td.Program:
    """The program, for any window of the plane and any resolution."""
    return escape.lower(48, 64, *SEAHORSES, 1e-4, 100)


def main(
    output: Path = OUTPUT,
    size: int = 900,
    x: float = SEAHORSES[0],
    y: float = SEAHORSES[1],
    span: float = 0.009,
    limit: int = 1000,
) -> Made:
    """Draw `span` of the plane around (x, y), four points per pixel; print the speed."""
    height, width = size * 2 // 3, size
    window = (2 * height, 2 * width, x, y, span / (2 * width), limit)
    stage(f"iterating {4 * height * width:,} points")
    counts, smooth = escape(*window)
    seconds = timed(escape, *window, most=1)
    pixels = colour(0.8 * np.log(np.maximum(smooth, 1)) % 1, "twilight_shifted")
    pixels[counts == limit] = 0
    pixels = pixels.reshape(height, 2, width, 2, 3).mean(axis=(1, 3)).astype(np.uint8)
    total = int(counts.sum(dtype=np.int64))
    row = (f"{4 * height * width:,}", f"{total:,}", seconds, total / seconds / 1e6)
    columns = ("points", "iterations", "seconds", "million/s")
    table = Table("loops in one kernel", columns, (row,))
    picture = save(pixels, output, "mandelbrot", f"around {x:g} + {y:g}i, {span:g} wide")
    return Made({"counts": counts, "smooth": smooth}, picture, (table,))
