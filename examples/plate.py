"""Heat in a plate whose file is larger than its workers' memory."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import treadle as td
from treadle.examples._show import OUTPUT, ExampleError, Made, beside, colour, save, stage


@td.jit
def cool(plate: td.Array, steps: int) -> td.Array:
    """Explicit Euler steps of du/dt = laplacian(u); no heat leaves the plate."""

    def euler(w):
        return w[0, 0] + 0.2 * (w[-1, 0] + w[1, 0] + w[0, -1] + w[0, 1] - 4 * w[0, 0])

    return td.iterate(steps, lambda u: td.stencil(euler, u, boundary=td.clamp, name="euler"), plate)


def rings(top: int, rows: int, size: int) -> NDArray[np.float32]:
    """Hot rings on a cold plate: some of its rows."""
    i, j = ((k / size - 0.5).astype(np.float32) for k in np.ogrid[top : top + rows, :size])
    waves = np.cos(60 * np.hypot(i + 0.1, j)) * np.cos(45 * np.hypot(i, j + 0.2))
    return (waves > 0.4).astype(np.float32)


def hot(size: int, megabytes: int = 16) -> Any:
    """An array of dask, whose chunks are made where they are needed."""
    from dask.array import map_blocks

    def made(block_info: Any) -> NDArray[np.float32]:
        (first, last), _ = block_info[None]["array-location"]
        return rings(first, last - first, size)

    rows = max(min(megabytes * 10**6 // (4 * size), size // 4), 1)
    chunks = tuple(min(rows, size - top) for top in range(0, size, rows))
    return map_blocks(made, chunks=(chunks, (size,)), dtype=np.float32)


def program() -> td.Program:
    """The program, for any number of steps and any size of the plate."""
    return cool.lower(np.zeros((64, 64), np.float32), 10)


def main(output: Path = OUTPUT, size: int = 16384, steps: int = 100, workers: int = 2,
         memory: str = "500 MB") -> Made:  # fmt: skip
    """Draw the plate before and after; a worker may use so much `memory`."""
    try:
        import zarr  # noqa: F401 - what dask stores arrays with
        from dask.array import from_zarr
        from dask.utils import parse_bytes
        from distributed import Client, LocalCluster
    except ImportError:
        raise ExampleError("plate needs dask and zarr: pip install 'treadle[dask]'") from None
    try:
        enough = parse_bytes(memory) >= 4e8  # Python, dask and the compiler need half of that
    except ValueError:
        enough = False
    if not enough:
        raise ExampleError(f"memory={memory!r}: a worker needs 400 MB, or would wait for ever.")
    cluster = LocalCluster(n_workers=workers, threads_per_worker=1, memory_limit=memory,
                           dashboard_address=":0")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder, cluster, Client(cluster) as client:
        where = f"{workers} workers of {memory}; dashboard: {client.dashboard_link}"
        stage(f"a plate of {4e-6 * size**2:.0f} MB on {where}")
        hot(size).to_zarr(f"{folder}/before.zarr")
        before = from_zarr(f"{folder}/before.zarr")
        cool(before, steps).to_zarr(f"{folder}/after.zarr")
        after = from_zarr(f"{folder}/after.zarr")
        step = max(size // 320, 1)
        frames = [plate[::step, ::step].compute() for plate in (before, after)]
        means = [f"{plate.mean(dtype=np.float64).compute():.6f}" for plate in (before, after)]
    picture = save(beside(*(colour(frame, "inferno") for frame in frames)), output, "plate")
    note = f"{4e-6 * size**2:.0f} MB on {where}\nmean temperatures: {' and '.join(means)}"
    return Made({"frames": frames}, picture, notes=(note,))
