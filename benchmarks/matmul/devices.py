"""What the benchmark needs of a machine: random matrices, the peer, and a stopwatch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from statistics import median
from time import perf_counter
from typing import Any, Protocol

import numpy as np

Run = Callable[[], Any]
#: Seconds from which on a call is timed three times, however many rounds are asked for.
LONG = 0.02


class Device(Protocol):
    """`backend` of the language, the array `library` and what its product is called (`peer`)."""

    backend: str
    name: str
    library: Any
    peer: str

    def random(self, shape: tuple[int, int], dtype: str) -> Any: ...

    def part(self, array: Any, rows: Any, columns: Any) -> Any: ...

    def free(self) -> int: ...

    def limited(self, size: int) -> AbstractContextManager[None] | None: ...

    def interleaved(self, runs: Mapping[str, Run], rounds: int) -> dict[str, float]: ...

    def compile(self, programs: Iterable[Any]) -> None: ...


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
        from benchmarks.provenance import processor

        self.name = str(processor()["cpu"])

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
        from treadle.backend.runtime.memory import free_bytes

        return free_bytes()

    def limited(self, size: int) -> None:
        """A host gives memory that it may not have."""

    def interleaved(self, runs: Mapping[str, Run], rounds: int) -> dict[str, float]:
        best = dict.fromkeys(runs, float("inf"))
        for _ in range(rounds):
            for name, run in runs.items():
                start = perf_counter()
                run()
                best[name] = min(best[name], perf_counter() - start)
        return best

    def compile(self, programs: Iterable[Any]) -> None:
        """Nothing: kernels of the host are compiled when they are first called."""


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
        if np.dtype(dtype).kind == "f":
            return cupy.random.standard_normal(shape, dtype=dtype)
        return cupy.random.standard_normal(shape).astype(dtype)

    def part(self, array: Any, rows: Any, columns: Any) -> Any:
        """Some rows and columns (None: all), on the host."""
        return self.library.asnumpy(_part(self.library, array, rows, columns))

    def free(self) -> int:
        self.library.get_default_memory_pool().free_all_blocks()
        return int(self.library.cuda.runtime.memGetInfo()[0])

    @contextmanager
    def limited(self, size: int) -> Iterator[None]:
        """No more than so many bytes for all arrays, as on a smaller card."""
        pool = self.library.get_default_memory_pool()
        pool.free_all_blocks()
        before = pool.get_limit()
        pool.set_limit(size=pool.total_bytes() + size)
        try:
            yield
        finally:
            pool.free_all_blocks()
            pool.set_limit(size=before)

    def interleaved(self, runs: Mapping[str, Run], rounds: int) -> dict[str, float]:
        for run in runs.values():
            run()  # libraries load what they need
        first = {name: self._seconds(run, 1) for name, run in runs.items()}
        times: dict[str, list[float]] = {name: [] for name in runs}
        for turn in range(rounds):
            for name, run in runs.items():
                if first[name] < LONG:
                    # Calls behind each other for a millisecond: the host's part is hidden.
                    calls = max(1, min(50, round(1e-3 / first[name])))
                    times[name].append(self._seconds(run, calls))
                elif turn < 2:
                    times[name].append(self._seconds(run, 1))
        return {name: median(found if first[name] < LONG else [first[name], *found])
                for name, found in times.items()}  # fmt: skip

    def compile(self, programs: Iterable[Any]) -> None:
        """The kernels of programs (lowered), on all cores, into the caches."""
        from concurrent.futures import ThreadPoolExecutor

        from treadle.backend.cuda.availability import DEFAULT_ARCH
        from treadle.backend.cuda.compile.nvrtc import compile_text
        from treadle.backend.cuda.products.form import FORMS
        from treadle.backend.cuda.source import engine_kernels
        from treadle.dsl.errors import ScheduleError

        codes = {}
        for program in programs:
            try:
                made = engine_kernels(program, DEFAULT_ARCH).values()
            except ScheduleError:
                continue  # refused: it does not exist on this device
            codes |= {code: FORMS[code.arithmetic] for code, *_ in made if code is not None}

        def build(code: Any) -> None:
            form = codes[code]
            compile_text(code.source(), form.entry, DEFAULT_ARCH,
                         dynamic_shared_bytes=form.shared_bytes)  # fmt: skip

        with ThreadPoolExecutor() as pool:
            list(pool.map(build, codes))

    def _seconds(self, run: Run, calls: int) -> float:
        cuda = self.library.cuda
        start, end = cuda.Event(), cuda.Event()
        if calls > 1:  # the GPU has work while the host asks for what is timed
            for _ in range(max(1, calls // 4)):
                run()
        start.record()
        for _ in range(calls):
            run()
        end.record()
        end.synchronize()
        return float(cuda.get_elapsed_time(start, end)) / 1e3 / calls
