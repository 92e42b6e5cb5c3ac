"""A stack of images: histogram and percentiles on a cluster."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import treadle as td
from treadle.examples._show import OUTPUT, ExampleError, Made, beside, colour, save, stage


@td.jit
def summary(stack: td.Array) -> tuple[td.Array, td.Array]:
    """How many pixels have each of 256 levels; and percentiles of every pixel over the images."""
    counts = td.bincount(td.reshape(td.cast(stack, td.int64), (-1,)), length=256)
    shares = np.array([5, 50, 95], np.float32)
    return counts, td.percentile(td.cast(stack, td.float32), shares, axis=0)


def sky(size: int) -> NDArray[np.float32]:
    """Stars, and a galaxy across the picture."""
    random = np.random.default_rng(7)
    i, j = np.mgrid[:size, :size] / size - 0.5
    light = 70 * np.exp(-(((i + 0.6 * j) * 7) ** 2) - (j * 2) ** 2)
    light[tuple(random.integers(0, size, (2, size * 2)))] += random.exponential(60, size * 2)
    return light.astype(np.float32)


def exposures(first: int, count: int, size: int) -> NDArray[np.uint8]:
    """Images of the sky with noise, each with the trail of a satellite through it."""
    made, light = np.empty((count, size, size), np.uint8), sky(size)
    i, j = np.mgrid[:size, :size] / size
    for k in range(count):
        random = np.random.default_rng(first + k)
        angle, at = random.uniform(0, np.pi), random.uniform(0.2, 0.8)
        trail = np.abs(np.sin(angle) * (i - at) + np.cos(angle) * (j - at)) < 1 / 150
        made[k] = np.clip(light + random.normal(20, 12, light.shape) + 150 * trail, 0, 255)
    return made


def stacked(count: int, size: int) -> Any:
    """An array of dask of images, four in a chunk, which are made where they are needed."""
    from dask.array import map_blocks

    def made(block_info: Any) -> NDArray[np.uint8]:
        (first, last), *_ = block_info[None]["array-location"]
        return exposures(first, last - first, size)

    chunks = tuple(min(4, count - k) for k in range(0, count, 4))
    return map_blocks(made, chunks=(chunks, (size,), (size,)), dtype=np.uint8)


def chart(counts: NDArray[np.int64], size: int) -> NDArray[np.uint8]:
    """The logarithms of the counts as bars, as wide and as high as an image."""
    heights = np.log1p(counts)[np.arange(size) * 256 // size] / np.log1p(counts.max())
    return colour(heights < np.linspace(1, 0, size, endpoint=False)[:, None], "bone")


def program() -> td.Program:
    """The program, for any number and size of the images."""
    return summary.lower(exposures(0, 3, 64))


def main(output: Path = OUTPUT, images: int = 64, size: int = 320, workers: int = 2) -> Made:
    """Draw an image, the median of all and their histogram, computed by processes of a cluster."""
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise ExampleError("this example needs dask: pip install 'treadle[dask]'") from None
    cluster = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0")
    with cluster, Client(cluster) as client:
        stage(f"{images} images on {workers} processes; dashboard: {client.dashboard_link}")
        stack = stacked(images, size)
        one, counts, levels = (part.compute() for part in (stack[0], *summary(stack)))
    panels = beside(one, np.rint(levels[1]).astype(np.uint8), chart(counts, size))
    picture = save(panels, output, "stack", "one image", f"median of {images}", "histogram of all")
    spread = f"nine tenths of a pixel's values span {np.median(levels[2] - levels[0]):.1f} levels"
    return Made({"counts": counts, "levels": levels, "one": one}, picture, notes=(spread,))
