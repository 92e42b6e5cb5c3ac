"""Count the walks of a knight: exact powers of a matrix."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import treadle as td
from treadle.examples._show import OUTPUT, Made, Table, colour, save, stage
from treadle.examples._timing import timed

JUMPS = tuple((i, j) for i in (-2, -1, 1, 2) for j in (-2, -1, 1, 2) if abs(i) != abs(j))
ALGORITHMS = (("standard", None), ("strassen", 1), ("winograd", 2))


def board(side: int) -> NDArray[np.uint64]:
    """Which squares are one jump apart: a side² × side² matrix of zeros and ones."""
    i, j = np.divmod(np.arange(side * side), side)
    reach = np.zeros((side * side, side * side), np.uint64)
    for down, right in JUMPS:
        inside = (i + down >= 0) & (i + down < side) & (j + right >= 0) & (j + right < side)
        here = np.flatnonzero(inside)
        reach[here, here + down * side + right] = 1
    return reach


def squarings(algorithm: str, levels: int | None, times: int):
    """A function of the board: the number of walks of 2**`times` jumps, modulo 2**64."""

    def walks(reach: td.Array) -> td.Array:
        for _ in range(times):
            reach = td.matmul(reach, reach, algorithm=algorithm, levels=levels)
        return reach

    return td.jit(walks)


def program() -> td.Program:
    """The program for two jumps on a small board, with one level."""
    return squarings("strassen", 1, 1).lower(board(4))


def main(output: Path = OUTPUT, side: int = 24, doublings: int = 4, zoom: int = 16) -> Made:
    """Count the walks of 2**doublings jumps between all squares by three algorithms.

    The counts are modulo 2**64, and the algorithms agree in every bit: sums and products of
    integers wrap, so no information is lost.
    """
    reach = board(side)
    lines, found = [], []
    for algorithm, levels in ALGORITHMS:
        stage(f"{algorithm}, {levels or 0} levels")
        work = squarings(algorithm, levels, doublings)
        found.append(work(reach))
        seconds = timed(work, reach, most=3)
        agree = "yes" if np.array_equal(found[0], found[-1]) else "NO"
        lines.append((algorithm, levels or 0, 1e3 * seconds, agree))
    corner = found[0][0].reshape(side, side)
    # Half of the squares cannot be reached in an even number of jumps: their counts are 0.
    shade = np.log1p(corner.astype(np.float64))
    pixels = colour(np.kron(shade, np.ones((zoom, zoom))), "magma", 0, float(shade.max() or 1))
    picture = save(pixels, output, "knights", "walks from the corner, brighter for more")
    title = f"walks of {2**doublings} jumps on a board of {side} × {side}"
    table = Table(title, ("algorithm", "levels", "ms", "the same, bit for bit"), tuple(lines))
    note = f"From corner to corner, a knight has {int(corner[-1, -1]):,} walks (modulo 2^64)."
    return Made({"walks": found, "board": reach}, picture, (table,), (note,))
