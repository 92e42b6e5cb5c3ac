"""What the benchmark needs of a machine: random matrices, the peer, and a stopwatch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import median
from time import perf_counter
from typing import Any, Protocol

import numpy as np

Run = Callable[[], Any]


class Device(Protocol):
    """`backend` of the language, the array `library` and what its product is called (`peer`)."""

    backend: str
    name: str
    library: Any
    peer: str

    def random(self, shape: tuple[int, int], dtype: str) -> Any: ...

    def part(self, array: Any, rows: Any, columns: Any) -> Any: ...

    def free(self) -> int: ...

    def interleaved(self, runs: Mapping[str, Run], rounds: int) -> dict[str, float]: ...


def device_for(backend: str) -> Device:
    """The machine of a backend."""
    return Gpu() if backend == "cuda" else Host()


def _part(library: Any, array: Any, rows: Any, columns: Any) -> Any:
    if rows is not None:
        array = library.take(array, library.asarray(rows), axis=0)
    return array if columns is None else library.take(array, library.asarray(columns), axis=1)


class Host:
    """NumPy, and the wall clock; the least of all rounds, since other programs only add time."""

    backend, library, peer = "native", np, "NumPy"

    def __init__(self) -> None:
        from benchmarks.harness import processor

        self.name = str(processor().get("name", "this machine"))

    def random(self, shape: tuple[int, int], dtype: str) -> Any:
        rng = np.random.default_rng(shape[0])
        if np.dtype(dtype).kind in "iu":
            about = np.iinfo(dtype)
            return rng.integers(about.min, about.max, shape, dtype, endpoint=True)
        return rng.standard_normal(shape).astype(dtype)

    def part(self, array: Any, rows: Any, columns: Any) -> Any:
        """Some rows and columns (None: all), on the host."""
        return _part(np, array, rows, columns)

    def free(self) -> int:
        from treadle.backend.memory import free_bytes

        return free_bytes()

    def interleaved(self, runs: Mapping[str, Run], rounds: int) -> dict[str, float]:
        best = dict.fromkeys(runs, float("inf"))
        for _ in range(rounds):
            for name, run in runs.items():
                start = perf_counter()
                run()
                best[name] = min(best[name], perf_counter() - start)
        return best


class Gpu:
    """CuPy (cuBLAS in float32 without TF32), and the device's events; medians."""

    backend, peer = "cuda", "CuPy (cuBLAS)"

    def __init__(self) -> None:
        import cupy

        self.library = cupy
        properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)
        self.name = properties["name"].decode()

    def random(self, shape: tuple[int, int], dtype: str) -> Any:
        cupy = self.library
        if np.dtype(dtype).kind in "iu":
            about = np.iinfo(dtype)
            return cupy.random.randint(about.min, about.max, shape, dtype=dtype)
        return cupy.random.standard_normal(shape).astype(dtype)

    def part(self, array: Any, rows: Any, columns: Any) -> Any:
        """Some rows and columns (None: all), on the host."""
        return self.library.asnumpy(_part(self.library, array, rows, columns))

    def free(self) -> int:
        self.library.get_default_memory_pool().free_all_blocks()
        return int(self.library.cuda.runtime.memGetInfo()[0])

    def interleaved(self, runs: Mapping[str, Run], rounds: int) -> dict[str, float]:
        times: dict[str, list[float]] = {name: [] for name in runs}
        for turn in range(rounds + 1):
            for name, run in runs.items():
                if turn:
                    # Calls behind each other for a millisecond: the host's part is hidden.
                    calls = max(1, min(50, round(1e-3 / times[name][0])))
                    times[name].append(self._seconds(run, calls))
                else:
                    self._seconds(run, 1)
                    times[name].append(self._seconds(run, 1))
        return {name: median(found[1:]) for name, found in times.items()}

    def _seconds(self, run: Run, calls: int) -> float:
        cuda = self.library.cuda
        start, end = cuda.Event(), cuda.Event()
        start.record()
        for _ in range(calls):
            run()
        end.record()
        end.synchronize()
        return float(cuda.get_elapsed_time(start, end)) / 1e3 / calls
