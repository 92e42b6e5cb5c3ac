"""Copies between GPUs are rectangles of bytes, whatever the layout of the arrays."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

cupy = pytest.importorskip("cupy", reason="CuPy is not installed")

#: The extents of the target and its part, then those of the source; and the calls that copy it.
COPIES: list[tuple[tuple[int, ...], Any, tuple[int, ...], Any, list[str]]] = [
    ((10, 8), np.s_[2:5], (6, 8), np.s_[0:3], ["bytes"]),
    ((10, 8), np.s_[:, 2:5], (10, 9), np.s_[:, 1:4], ["rectangle"]),
    ((4, 5, 6), np.s_[:, 1:3], (4, 2, 6), np.s_[:], ["rectangle"]),
    ((4, 5, 6), np.s_[:, 1:3, 2:4], (4, 5, 6), np.s_[:, :2, :2], 4 * ["rectangle"]),
    ((3, 1, 4), np.s_[:], (5, 1, 6), np.s_[:3, :, 1:5], ["rectangle"]),
    ((7,), np.s_[:], (7,), np.s_[::-1], 7 * ["bytes"]),
    ((7, 8), np.s_[:], (7, 16), np.s_[:, ::2], ["rectangle"]),
    ((0, 8), np.s_[:], (4, 8), np.s_[1:1], []),
]


class Runtime:
    """Copies in the memory of the host, and what was asked for."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def memcpyAsync(self, to: int, of: int, size: int, kind: int, stream: int) -> None:
        self.calls.append("bytes")
        ctypes.memmove(to, of, size)

    def memcpy2DAsync(
        self, to: int, pitch: int, of: int, other: int, width: int, rows: int, kind: int,
        stream: int,
    ) -> None:  # fmt: skip
        assert pitch >= width and other >= width
        self.calls.append("rectangle")
        for k in range(rows):
            ctypes.memmove(to + k * pitch, of + k * other, width)


def over(values: np.ndarray) -> Any:
    """An array of CuPy in the memory of one of NumPy."""
    memory = cupy.cuda.UnownedMemory(values.ctypes.data, max(values.nbytes, 1), values, 0)
    return cupy.ndarray(values.shape, values.dtype, cupy.cuda.MemoryPointer(memory, 0))


@pytest.mark.parametrize("copied", COPIES)
def test_a_copy(copied: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from treadle.backend.cuda.several import driver

    shape, to, given, of, calls = copied
    runtime = Runtime()
    stream = SimpleNamespace(ptr=0)
    monkeypatch.setattr(driver, "runtime", runtime)
    monkeypatch.setattr(
        driver, "cupy", SimpleNamespace(cuda=SimpleNamespace(get_current_stream=lambda: stream))
    )
    target = np.zeros(shape, np.float32)
    source = np.random.default_rng(0).random(given).astype(np.float32)
    wanted = target.copy()
    wanted[to] = source[of]
    peers = object.__new__(driver.CudaPeers)
    peers.copy(over(target)[to], over(source)[of])
    assert (target == wanted).all() and runtime.calls == calls


def test_a_graph_that_cannot_be_made_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the call is queued."""
    from treadle.backend.cuda.device.optional import DriverError
    from treadle.backend.cuda.several import driver

    def refused(*_: Any, **__: Any) -> Any:
        raise DriverError("CUDA_ERROR_OUT_OF_MEMORY", "making a CUDA graph")

    destroyed: list[Any] = []
    monkeypatch.setattr(driver, "ExecutableGraph", refused)
    monkeypatch.setattr(driver, "destroyed", lambda graph: closing(destroyed, graph))
    peers = object.__new__(driver.CudaPeers)
    peers.ordinals, peers._capturing, peers._graphs = (0, 1), threading.Lock(), [None]
    monkeypatch.setattr(driver.CudaPeers, "_captured", lambda *_: "graph")
    assert peers.captured(lambda: None) is None and destroyed == ["graph"]
    assert not peers._capturing.locked()


@contextmanager
def closing(closed: list[Any], graph: Any) -> Iterator[None]:
    try:
        yield
    finally:
        closed.append(graph)
