"""Histogram equalisation: a permute, a scan, a gather."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import treadle as td
from treadle.examples._show import INK, OUTPUT, PAPER, Made, beside, blend, photograph, save
from treadle.examples._timing import race


def histogram(grey: td.Array) -> td.Array:
    """The number of pixels with each of the 256 levels: colliding updates are added."""
    count = lambda new, old: new + old  # noqa: E731
    level = lambda i, j: grey[i, j]  # noqa: E731
    return td.permute(count, td.fill((256,), 0), level, td.fill(grey.shape, 1))


@td.jit
def equalise(grey: td.Array) -> td.Array:
    """The picture with its levels remapped to be about equally frequent."""
    below = td.cumsum(histogram(grey))
    least = td.min(td.where(below > 0, below, 2**62))
    span = td.maximum(grey.shape[0] * grey.shape[1] - least, 1)
    table = td.cast(td.round((below - least) * 255.0 / span), td.uint8)
    return td.gather(table, grey)


def by_numpy(grey: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The same in NumPy, for comparison."""
    below = np.bincount(grey.ravel(), minlength=256).cumsum()
    least = below[below > 0].min()
    span = max(grey.size - least, 1)
    return np.rint((below - least) * 255.0 / span).astype(np.uint8)[grey]


def chart(grey: NDArray[np.uint8], height: int = 96) -> NDArray[np.uint8]:
    """The histogram as bars, as wide as the picture."""
    counts = td.jit(histogram)(grey)
    bars = counts[np.arange(grey.shape[1]) * 256 // grey.shape[1]] / counts.max()
    return blend(bars >= np.linspace(1, 0, height, endpoint=False)[:, None], PAPER, INK)


def program() -> td.Program:
    """The program, for any grey picture."""
    return equalise.lower(photograph(size=64)[:, :, 1])


def main(output: Path = OUTPUT, image: Path | None = None, size: int | None = None) -> Made:
    """Draw a picture before and after, with histograms; compare the time with NumPy's."""
    grey = np.rint(photograph(image, size) @ (0.299, 0.587, 0.114)).astype(np.uint8)
    if image is None:
        grey = (60 + grey * 0.4).astype(np.uint8)  # as faded as an old print
    even = equalise(grey)
    table = race("equalisation", "NumPy", [("grey picture", equalise, by_numpy, (grey,))])
    panels = [
        np.concatenate([blend(p / 255, (0,) * 3, (255,) * 3), chart(p)]) for p in (grey, even)
    ]
    values = {"before": grey, "after": even, "histogram": td.jit(histogram)(even)}
    picture = save(beside(*panels), output, "equalise", "before, and its histogram", "equalised")
    return Made(values, picture, (table,))
