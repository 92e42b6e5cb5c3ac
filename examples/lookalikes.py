"""Patches that look alike: all pairs by a Strassen product."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import treadle as td
from treadle.examples._show import OUTPUT, Made, Table, blend, photograph, save, stage
from treadle.examples._timing import timed

ALGORITHMS = (("standard", 0), ("strassen", 1), ("strassen", 2), ("winograd", 1), ("winograd", 2))


def distances(algorithm: str, levels: int):
    """A function of patches (rows) that computes the squared distances of all pairs."""

    def all_pairs(x: td.Array) -> td.Array:
        gram = td.matmul(x, x.T, algorithm=algorithm, levels=levels or None)  # the only change
        square = td.sum(x * x, axis=1)
        return td.maximum(square[:, None] + square[None, :] - 2 * gram, 0)

    return td.jit(all_pairs)


def cut(image: NDArray[np.uint8], side: int) -> NDArray[np.float32]:
    """The grey values of all patches on a grid, each minus its mean."""
    grey = image.astype(np.float32) @ np.array([0.299, 0.587, 0.114], np.float32) / 255
    rows, columns = (n // side for n in grey.shape)
    tiles = grey[: rows * side, : columns * side].reshape(rows, side, columns, side)
    patches = tiles.swapaxes(1, 2).reshape(rows * columns, side * side)
    return patches - patches.mean(axis=1, keepdims=True)


def program() -> td.Program:
    """The program for few patches, with one level."""
    return distances("strassen", 1).lower(np.zeros((24, 16), np.float32))


def main(
    output: Path = OUTPUT, image: Path | None = None, size: int = 768,
    side: int = 16,
) -> Made:  # fmt: skip
    """Find the most similar patch for every patch; print errors and times."""
    pixels = photograph(image, size)
    patches = cut(pixels, side)
    exact = patches.astype(np.float64)
    square = (exact**2).sum(1)
    truth = square[:, None] + square - 2 * exact @ exact.T
    lines, found = [], {}
    for algorithm, levels in ALGORITHMS:
        stage(f"{algorithm}, {levels} levels")
        work = distances(algorithm, levels)
        found[algorithm, levels] = result = work(patches)
        said = td.error_bound(patches, patches.T, algorithm, levels)
        error = float(np.abs(result - truth).max())
        nearest = np.argmin(result + np.diag(np.full(len(patches), np.inf)), axis=1)
        seconds = timed(work, patches, most=3)
        lines.append((algorithm, levels, 1e3 * seconds, error, 2 * said.bound, nearest))
    same = [float(np.mean(line[-1] == lines[0][-1])) for line in lines]
    heading = ("algorithm", "levels", "ms", "largest error", "at most", "same neighbour")
    rows = tuple((*line[:5], f"{100 * s:.1f} %") for line, s in zip(lines, same, strict=True))
    title = f"{len(patches)} patches of {side} × {side}: all pairs by a product of depth {side**2}"
    far = np.sqrt(found["strassen", 1][np.arange(len(patches)), lines[1][-1]])
    grid = (pixels.shape[0] // side, pixels.shape[1] // side)
    shade = blend((far / far.max()).reshape(grid), (250, 246, 236), (28, 34, 58))
    shown = np.kron(shade, np.ones((side, side, 1), np.uint8))
    picture = save(shown, output, "lookalikes", "patches, darker where none is alike")
    note = "Dark patches have no lookalike. Fast products lose a few bits, and seldom a neighbour."
    return Made({"distances": found, "patches": patches, "same": same}, picture,
                (Table(title, heading, rows),), (note,))  # fmt: skip
