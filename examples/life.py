"""Conway's Game of Life: an iterated stencil on a torus."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import treadle as td
from treadle.examples._show import OUTPUT, Made, colour, progress, save

NEIGHBOURS = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)]


def generation(board: td.Array) -> td.Array:
    """One generation; an element is a pair: alive (0 or 1), and a glow that fades after death."""

    def rule(w):
        alive, glow = w[0, 0]
        count = sum(w[at][0] for at in NEIGHBOURS)
        lives = (count == 3) | ((alive == 1) & (count == 2))
        return td.cast(lives, td.uint8), td.where(lives, 1.0, 0.96 * glow)

    return td.stencil(rule, board, boundary=td.wrap, name="generation")


@td.jit
def play(alive: td.Array, glow: td.Array, generations: int) -> td.Array:
    """Many generations: one program for any number of generations and any board size."""
    return td.iterate(generations, generation, td.zip(alive, glow))


def soup(size: int, seed: int) -> NDArray[np.uint8]:
    """A random disc with the eight symmetries of the square, which Life preserves."""
    half = np.random.default_rng(seed).random((size // 2, size // 2)) < 0.35
    half = np.triu(half) | np.triu(half).T  # symmetric about the diagonal
    x = np.arange(size // 2)
    half &= np.hypot(*np.meshgrid(x, x)) < size / 2.5
    return np.block([[half[::-1, ::-1], half[::-1]], [half[:, ::-1], half]]).astype(np.uint8)


def program() -> td.Program:
    """The program, for any number of generations and any board."""
    board = soup(64, seed=1)
    return play.lower(board, board.astype(np.float32), 10)


def main(
    output: Path = OUTPUT, size: int = 256, generations: int = 300, seed: int = 3, zoom: int = 3
) -> Made:
    """Evolve a symmetric soup; draw live cells in white and dead ones by their glow."""
    alive = soup(size, seed)
    glow = alive.astype(np.float32)
    for k in progress(10, f"{generations} generations"):
        done, end = k * generations // 10, (k + 1) * generations // 10
        alive, glow = play(alive, glow, end - done)
    pixels = colour(glow, "magma", 0.0, 1.15)
    pixels[alive == 1] = (255, 250, 220)
    pixels = pixels.repeat(zoom, axis=0).repeat(zoom, axis=1)
    values = {"alive": alive, "glow": glow, "population": int(alive.sum())}
    note = f"{values['population']:,} cells alive after {generations} generations"
    return Made(values, save(pixels, output, "life", note), notes=(note,))
