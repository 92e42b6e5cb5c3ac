"""What all works on a GPU share: data made there, peers if they are installed, the stopwatch."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from functools import cache
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.works.common import Scale, count

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # the card is shared with peers

Run = Callable[[], Any]
__all__ = ["Run", "Scale", "by_jax", "copies", "count", "error_of", "mismatches_of", "raw",
           "sample", "tensor", "torch_compiled", "uniform"]  # fmt: skip


def _optional(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


cp: Any = _optional("cupy")
torch: Any = _optional("torch")
jax: Any = _optional("jax")
jnp: Any = _optional("jax.numpy")
triton: Any = _optional("triton")


def uniform(shape: Any, low: float = 0.0, high: float = 1.0, dtype: Any = np.float32) -> Any:
    """Random numbers in [low, high), on the device; the same in every run."""
    generator = cp.random.default_rng(20)
    made = generator.random(shape, dtype=np.float32 if dtype == np.float32 else np.float64)
    if (low, high) != (0.0, 1.0):
        made *= high - low
        made += low
    return made.astype(dtype, copy=False)


def integers(low: int, high: int, shape: Any, dtype: Any = np.int32) -> Any:
    """Random integers in [low, high), on the device."""
    return cp.random.default_rng(21).integers(low, high, shape, dtype=dtype)


def tensor(x: Any) -> Any:
    """The same memory as a PyTorch tensor; None without PyTorch."""
    return None if torch is None else torch.from_dlpack(x)


def by_torch(**named: Callable[[], Any] | None) -> dict[str, Run]:
    """Peers that need PyTorch, none without it; `_` in a name prints as a space."""
    return {} if torch is None else {f"torch {k}".replace("_", " ").strip(): v
                                     for k, v in named.items() if v is not None}  # fmt: skip


def torch_compiled(f: Callable[..., Any], *tensors: Any) -> Run | None:
    """A peer by `torch.compile`; None without PyTorch."""
    if torch is None:
        return None
    made = torch.compile(f)
    return lambda: made(*tensors)


def by_jax(f: Callable[..., Any], *args: Any, name: str = "JAX") -> dict[str, Run]:
    """{name: the compiled function on data that JAX holds already}; nothing without JAX.

    Results come back without waiting: the stopwatch does that.
    """
    if jax is None:
        return {}
    compiled = jax.jit(f)
    held = [jax.dlpack.from_dlpack(a) for a in args]
    return {name: lambda: compiled(*held)}


# --- the stopwatch -----------------------------------------------------------------------------


def sample(name: str, run: Run, calls: int) -> float:
    """Seconds a call, by device events around all of them.

    JAX launches on streams of its own: the host's clock around all calls, waiting for the last.
    """
    cp.cuda.Device().synchronize()
    if name.startswith("JAX"):
        start = perf_counter()
        for _ in range(calls):
            last = run()
        jax.block_until_ready(last)
        return (perf_counter() - start) / calls
    first, second = cp.cuda.Event(), cp.cuda.Event()
    if calls > 1:
        run()
    first.record()
    for _ in range(calls):
        run()
    second.record()
    second.synchronize()
    return float(cp.cuda.get_elapsed_time(first, second)) / 1e3 / calls


@cache
def _block(size: int) -> Any:
    return cp.zeros(size, np.uint8)


class Copies:
    """A device-to-device copy; `size` bytes read and written together."""

    def __init__(self) -> None:
        self._source = self._target = None

    def __call__(self, size: float) -> Run:
        half = max(int(size) // 2, 1)
        if self._source is None or self._source.size < half:
            self._source = self._target = None  # free the old ones first
            self._source, self._target = cp.ones(half, np.uint8), cp.ones(half, np.uint8)
        source, target = self._source[:half], self._target[:half]
        return lambda: target.data.copy_from_device_async(source.data, half,
                                                          cp.cuda.get_current_stream())  # fmt: skip


copies = Copies()


# --- right or wrong ----------------------------------------------------------------------------


def _device(x: Any) -> Any:
    """A result of any library as a CuPy array."""
    if isinstance(x, cp.ndarray):
        return x
    if torch is not None and isinstance(x, torch.Tensor):
        return cp.from_dlpack(x.detach().contiguous())
    if isinstance(x, np.ndarray | np.generic | int | float):
        return cp.asarray(x)
    return cp.from_dlpack(jax.block_until_ready(x))


def error_of(found: Any, exact: Any) -> float:
    """The largest difference over the largest exact value, computed on the device in float64."""
    if isinstance(exact, tuple | list):
        return max(error_of(f, e) for f, e in zip(found, exact, strict=True))
    got, want = _device(found), _device(exact)
    if got.shape != want.shape:
        return float("inf")
    worst, scale, step = 0.0, 0.0, 1 << 26
    got, want = got.reshape(-1), want.reshape(-1)
    for at in range(0, want.size, step):
        g, w = got[at : at + step].astype(np.float64), want[at : at + step].astype(np.float64)
        difference = float(cp.abs(g - w).max())
        worst = max(worst, difference if np.isfinite(difference) else float("inf"))
        scale = max(scale, float(cp.abs(w).max()))
    return worst / scale if scale > 0 else worst


def mismatches_of(found: Any, exact: Any) -> float:
    """The share of elements that differ at all."""
    got, want = _device(found), _device(exact)
    if got.shape != want.shape:
        return float("inf")
    return float((got != want).mean())


def raw(source: str, name: str) -> Any:
    """A hand-written CUDA kernel, as a peer."""
    return cp.RawKernel(source, name, options=("--std=c++17",))
