"""The colours of a photograph (k-means): argmin and permute."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import treadle as td
from treadle.examples._show import OUTPUT, Made, Table, beside, photograph, save, stage


def nearest(pixels: td.Array, centres: td.Array) -> td.Array:
    """The index of the centre closest to each pixel; the n x k distances are never stored."""

    def distance(p, c):
        (r, g, b), (cr, cg, cb) = pixels[p], centres[c]
        return (r - cr) * (r - cr) + (g - cg) * (g - cg) + (b - cb) * (b - cb)

    return td.argmin(td.generate((pixels.shape[0], centres.shape[0]), distance), axis=1)


def means(pixels: td.Array, labels: td.Array, centres: td.Array) -> td.Array:
    """The mean colour around each centre; the sums are exact, as colours are integers."""
    add = lambda new, old: tuple(x + y for x, y in zip(new, old, strict=True))  # noqa: E731
    counted = td.map(lambda p: (*(td.cast(x, td.int64) for x in p), td.int64(1)), pixels)
    none = td.fill(centres.shape, (0, 0, 0, 0))
    sums = td.permute(add, none, lambda p: labels[p], counted)
    mean = lambda s: tuple(td.cast(x / td.maximum(s[3], 1), td.float32) for x in s[:3])  # noqa: E731
    return td.map(lambda s, old: td.cond(s[3] > 0, mean(s), old), sums, centres)


@td.jit
def cluster(rgb: td.Array, centres: td.Array, most: int) -> Any:
    """Move the centres (k, 3) until they rest, at most `most` times: (centres, labels, count)."""
    pixels = td.zip(*(rgb[:, k].astype(td.float32) for k in range(3)))

    def step(state):
        old, _, count = state
        new = means(pixels, nearest(pixels, old), old)
        shift = lambda a, b: abs(a[0] - b[0]) + abs(a[1] - b[1]) + abs(a[2] - b[2])  # noqa: E731
        return new, td.max(td.map(shift, new, old)), count + 1

    def restless(state):
        return (state[1] > 0) & (state[2] < most)

    start = (td.zip(*(centres[:, k] for k in range(3))), td.unit(td.float32(1)), td.unit(0))
    final, _, count = td.while_loop(restless, step, start)
    return final, nearest(pixels, final), count


def seeds(rgb: NDArray[np.uint8], k: int) -> NDArray[np.float32]:
    """k evenly spaced pixels in order of brightness."""
    order = np.argsort(rgb.sum(axis=1, dtype=np.int64), kind="stable")
    return rgb[order[(2 * np.arange(k) + 1) * len(rgb) // (2 * k)]].astype(np.float32)


def program() -> td.Program:
    """The program, for any picture and any number of colours."""
    rgb = photograph(size=32).reshape(-1, 3)
    return cluster.lower(rgb, seeds(rgb, 4), 10)


def main(
    output: Path = OUTPUT, image: Path | None = None, colours: int = 8, most: int = 100
) -> Made:
    """Draw the photograph in few colours; print them, and the share of each."""
    picture = photograph(image)
    stage(f"looking for {colours} colours")
    rgb = picture.reshape(-1, 3)
    centres, labels, count = cluster(rgb, seeds(rgb, colours), most)
    palette = np.rint(np.stack(centres, axis=1)).astype(np.uint8)
    share = np.bincount(labels, minlength=colours) / len(labels)
    name = "#{:02x}{:02x}{:02x}".format
    rows = tuple((name(*palette[c]), f"{share[c]:.1%}") for c in np.argsort(-share))
    pixels = beside(picture, palette[labels].reshape(picture.shape))
    table = Table(f"{colours} colours after {int(count)} iterations", ("colour", "share"), rows)
    values = {"centres": np.stack(centres, axis=1), "labels": labels, "iterations": int(count)}
    return Made(values, save(pixels, output, "kmeans", "before", f"{colours} colours"), (table,))
