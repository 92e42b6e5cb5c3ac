"""Copies between the host and a GPU: large ones by way of pinned memory, by several threads.

The driver copies ordinary memory through a small buffer of its own, one thread at a time, at a part
of what the bus can do.  Here every worker has a pinned buffer and a stream: while one chunk is on
the bus, others are moved between the buffers and the array.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import cupy
from cupy.cuda import runtime

#: Bytes from which a copy goes through pinned memory (below, waking the threads costs more than
#: they save: measured on an H200), and of one chunk.
LARGE = 32 << 20
CHUNK = 4 << 20
WORKERS = min(8, os.cpu_count() or 1)
_HOST_TO_DEVICE, _DEVICE_TO_HOST = 1, 2


class Worker:
    """A pinned buffer and a stream; used by one thread at a time."""

    def __init__(self) -> None:
        self.pinned = cupy.cuda.alloc_pinned_memory(CHUNK)
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.done = cupy.cuda.Event(disable_timing=True)

    def up(self, target: int, source: int, size: int) -> None:
        """A chunk to the device: returns when the host's memory has been read."""
        self.done.synchronize()
        ctypes.memmove(self.pinned.ptr, source, size)
        runtime.memcpyAsync(target, self.pinned.ptr, size, _HOST_TO_DEVICE, self.stream.ptr)
        self.done.record(self.stream)

    def down(self, target: int, source: int, size: int) -> None:
        """A chunk to the host: returns when it is there."""
        runtime.memcpyAsync(self.pinned.ptr, source, size, _DEVICE_TO_HOST, self.stream.ptr)
        self.stream.synchronize()
        ctypes.memmove(target, self.pinned.ptr, size)


class Copier:
    """Large copies from and to one GPU; made when the first one is wanted."""

    def __init__(self, ordinal: int) -> None:
        self.ordinal = ordinal
        self._lock = threading.Lock()
        self._workers: list[Worker] = []
        self._threads: ThreadPoolExecutor | None = None

    def upload(self, target: int, source: int, size: int, stream: Any) -> None:
        """`size` bytes to the device, as the next work of `stream`; the host's may change then."""
        with self._lock:
            self._spread(lambda w, at, n: w.up(target + at, source + at, n), size, stream)
            for worker in self._workers:
                stream.wait_event(worker.done)

    def download(self, target: int, source: int, size: int, stream: Any) -> None:
        """`size` bytes to the host, after the work of `stream`; they are there on return."""
        with self._lock:
            self._spread(lambda w, at, n: w.down(target + at, source + at, n), size, stream)

    def _spread(self, move: Callable[[Worker, int, int], None], size: int, stream: Any) -> None:
        if self._threads is None:
            self._workers = [Worker() for _ in range(WORKERS)]
            self._threads = ThreadPoolExecutor(WORKERS, "treadle-copy")
        before = stream.record()
        step = CHUNK * len(self._workers)

        def work(number: int) -> None:
            runtime.setDevice(self.ordinal)
            worker = self._workers[number]
            worker.stream.wait_event(before)
            for at in range(number * CHUNK, size, step):
                move(worker, at, min(CHUNK, size - at))

        list(self._threads.map(work, range(len(self._workers))))
