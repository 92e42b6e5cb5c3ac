"""The contenders: how each takes its arguments, runs, and gives its results back.

A framework imports its library when it is made, in a process of its own (see `worker`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.npbench.clone import Benchmark
from benchmarks.npbench.registry import load

#: By name: the device, and the settings of the environment that the library reads when imported.
FRAMEWORKS: dict[str, tuple[str, dict[str, str]]] = {
    "native": ("cpu", {}),
    "cuda": ("gpu", {}),
    "numpy": ("cpu", {}),
    "numba": ("cpu", {}),
    "jax-cpu": ("cpu", {"JAX_PLATFORMS": "cpu", "JAX_ENABLE_X64": "1"}),
    "jax-gpu": (
        "gpu",
        {
            "JAX_PLATFORMS": "cuda",
            "JAX_ENABLE_X64": "1",
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",  # other processes use this GPU, too
        },
    ),
    "cupy": ("gpu", {}),
    "reference": ("cpu", {}),
}
OURS = ("native", "cuda", "reference")
#: Other names on the command line.
ALIASES = {"treadle": "native", "jax": "jax-cpu"}


def as_list(result: Any) -> list[Any]:
    """What a version returned, as a list of arrays."""
    if result is None:
        return []
    return list(result) if isinstance(result, tuple | list) else [result]


class Framework:
    """NumPy, and Numba: versions that work on NumPy arrays, and change them in place."""

    #: Whether a version may change its arguments: each call then gets copies.
    in_place = True
    #: The packages whose versions are recorded.
    packages: Sequence[str] = ("numpy",)

    def __init__(self, name: str) -> None:
        self.name = name

    def device(self) -> dict[str, Any]:
        from benchmarks.provenance import processor

        return processor()

    def versions(self, benchmark: Benchmark) -> dict[str, Callable[[], Callable[..., Any]]]:
        """By name, functions that make a callable of the arguments' values."""
        return benchmark.versions(self.name)

    def upload(self, array: np.ndarray) -> Any:
        """An argument, where the framework wants it; a copy."""
        return array.copy()

    def download(self, result: Any) -> np.ndarray:
        return np.asarray(result)

    def wait(self, result: Any) -> None:
        """Return when the result is ready."""

    def clear(self) -> None:
        """Free what the framework keeps of finished programs."""


class Numba(Framework):
    packages = ("numba", "llvmlite")

    def versions(self, benchmark: Benchmark) -> dict[str, Callable[[], Callable[..., Any]]]:
        def cached(load: Callable[[], Callable[..., Any]]) -> Callable[[], Callable[..., Any]]:
            def loaded() -> Callable[..., Any]:
                from numba.core.dispatcher import Dispatcher

                function = load()
                for made in vars(sys.modules[function.__module__]).values():
                    if isinstance(made, Dispatcher):
                        made.enable_caching()
                return function

            return loaded

        return {name: cached(load) for name, load in super().versions(benchmark).items()}

    def compile(self, function: Any, values: Sequence[Any]) -> None:
        """Compile a version for the types of these values, without running it."""
        import numba

        function.compile(tuple(numba.typeof(v) for v in values))


class Jax(Framework):
    in_place = False
    packages = ("jax", "jaxlib")

    def __init__(self, name: str) -> None:
        super().__init__(name)
        import jax

        self.jax = jax
        jax.devices()  # starts the backend

    def device(self) -> dict[str, Any]:
        first = self.jax.devices()[0]
        return super().device() if first.platform == "cpu" else {"gpu": first.device_kind}

    def versions(self, benchmark: Benchmark) -> dict[str, Callable[[], Callable[..., Any]]]:
        return benchmark.versions("jax")

    def upload(self, array: np.ndarray) -> Any:
        return self.jax.numpy.array(array)

    def wait(self, result: Any) -> None:
        self.jax.block_until_ready(result)

    def clear(self) -> None:
        self.jax.clear_caches()


class CuPy(Framework):
    packages = ("cupy-cuda13x", "cupy-cuda12x", "cuda-core", "cuda-bindings")

    def __init__(self, name: str) -> None:
        super().__init__(name)
        import cupy

        self.cupy = cupy
        cupy.zeros(1)  # starts the device

    def device(self) -> dict[str, Any]:
        from benchmarks.gpu import device

        return device()

    def upload(self, array: np.ndarray) -> Any:
        return self.cupy.array(array)

    def download(self, result: Any) -> np.ndarray:
        return np.asarray(self.cupy.asnumpy(result))

    def wait(self, result: Any) -> None:
        self.cupy.cuda.runtime.deviceSynchronize()

    def clear(self) -> None:
        self.cupy.get_default_memory_pool().free_all_blocks()


class OnCpu(Framework):
    """treadle on NumPy arrays."""

    in_place = False
    packages = ("treadle", "numpy", "llvmlite")

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.programs = load()

    def versions(self, benchmark: Benchmark) -> dict[str, Callable[[], Callable[..., Any]]]:
        ours = self.programs.get(benchmark.name)
        return {} if ours is None else {"treadle": lambda: Compiled(ours, self.name)}


class OnGpu(CuPy):
    """treadle on arrays of CuPy's: they, and the results, stay on the GPU."""

    in_place = False
    packages = ("treadle", "numpy", "cupy-cuda13x", "cupy-cuda12x", "cuda-core", "cuda-bindings")

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.programs = load()

    def versions(self, benchmark: Benchmark) -> dict[str, Callable[[], Callable[..., Any]]]:
        ours = self.programs.get(benchmark.name)
        return {} if ours is None else {"treadle": lambda: Compiled(ours, self.name)}


class Compiled:
    """A treadle program, compiled for the fixed arguments of its first call."""

    def __init__(self, program: Any, backend: str) -> None:
        self.program, self.backend = program, backend
        self.compiled: Callable[..., Any] | None = None
        self.kept: list[int] = []

    def __call__(self, *values: Any) -> Any:
        if self.compiled is None:
            import treadle as td

            bound, self.kept = self.program.bind(values)
            self.compiled = td.jit(bound, backend=self.backend)
        return self.compiled(*(values[k] for k in self.kept))


def make(name: str) -> Framework:
    """The framework of that name, its library imported; ImportError where it is missing."""
    os.environ.update(FRAMEWORKS[name][1])
    if name == "cuda":
        return OnGpu(name)
    if name in OURS:
        return OnCpu(name)
    if name.startswith("jax"):
        return Jax(name)
    return {"numpy": Framework, "numba": Numba, "cupy": CuPy}[name](name)
