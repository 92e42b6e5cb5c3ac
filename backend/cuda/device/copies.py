"""Copies between the host and a GPU; large copies use pinned memory and several threads.

The driver copies pageable memory through a small internal buffer on one thread, at a fraction of
the bandwidth of the bus.  Here every worker has two pinned buffers and a stream: while one chunk
is on the bus, the worker moves the next between the other buffer and the array.  Workers are native
code (`bus.c`): uploading 256 MB in chunks of 2 MB took 11.4 ms with Python threads and takes 6.2.
Uploads and downloads have separate workers, because the bus is full duplex.
"""

from __future__ import annotations

import ctypes
import functools
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import c_int64
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np

from treadle.backend.native.runtime import modules
from treadle.backend.native.runtime.structures import words
from treadle.dsl.process import locks

from ...runtime.types import HostArray
from .optional import DriverError, cupy, runtime

#: Sizes in bytes.  LARGE: from here a copy goes through pinned memory (on an H200 32 MB take 1.2 to
#: 1.6 ms by threads and 1.9 to 2.2 by the driver, 16 MB about the same, 8 MB longer).  The others:
#: what a worker takes at a time, and its buffers (1 MB and 8 MB were slower, 4 MB the same).
LARGE = 32 << 20
SEGMENT = 4 << 20
CHUNK = 2 << 20
WORKERS = min(8, os.cpu_count() or 1)
#: Maximum number of segments that wait for a worker (a power of two).
TABLE = 4096
#: Polling interval for completed copies, in seconds.
_LOOK = 20e-6


class _Counter(ctypes.Structure):
    """`struct counter` of bus.c.  The structures here mirror those of bus.c; a test compares them.
    Pointers are addresses of memory that the code which fills the structure keeps alive."""

    _fields_ = (("value", c_int64), ("padding", c_int64 * 7))
    value: int


@words
class _Segment(ctypes.Structure):
    target: int
    source: int
    size: int
    after: int
    arrived: int


class _Lane(ctypes.Structure):
    _fields_ = [
        *((name, _Counter) for name in ("taken", "active", "filled", "closed", "failed")),
        *((name, c_int64) for name in ("table", "entries", "chunk", "upload", "synchronize",
                                       "wait", "copy", "record", "sleep")),
    ]  # fmt: skip
    active: _Counter
    filled: _Counter
    closed: _Counter
    failed: _Counter


@words
class _Buffer(ctypes.Structure):
    pinned: int
    event: int
    size: int
    target: int
    arrived: int


class _WorkerState(ctypes.Structure):
    _fields_ = (("stream", c_int64), ("last", c_int64), ("buffers", _Buffer * 2))


@functools.cache
def _native() -> tuple[Callable[[int, int], None], Callable[[int, int], None]]:
    """`serve` (which releases the GIL) and `publish` of bus.c."""
    found = modules.linked(Path(__file__).with_name("bus.ll"), ("serve", "publish"))
    serve = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(found["serve"])
    publish = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(found["publish"])
    return serve, publish


@functools.cache
def _driver() -> dict[str, int]:
    """Addresses of the driver's functions and of a sleep function."""
    driver, system = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL(None)
    names = ("cuEventSynchronize", "cuStreamWaitEvent", "cuMemcpyHtoDAsync_v2",
             "cuMemcpyDtoHAsync_v2", "cuEventRecord")  # fmt: skip
    found = {name: ctypes.cast(getattr(driver, name), ctypes.c_void_p).value for name in names}
    found["usleep"] = ctypes.cast(system.usleep, ctypes.c_void_p).value
    return {name: int(address or 0) for name, address in found.items()}


class _Worker:
    """Two pinned buffers with an event each, and a stream, as bus.c expects them."""

    def __init__(self) -> None:
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.pinned = [cupy.cuda.alloc_pinned_memory(CHUNK) for _ in range(2)]
        self.events = [cupy.cuda.Event(disable_timing=True) for _ in range(2)]
        buffers = zip(self.pinned, self.events, strict=True)
        self.state = _WorkerState(
            self.stream.ptr, 0, tuple((memory.ptr, event.ptr) for memory, event in buffers)
        )


class Transfer:
    """A copy in progress.  `kept_alive`: the arrays that it accesses and the event that it waits
    for, until it is complete."""

    def __init__(self, lane: Lane, size: int, kept_alive: tuple[Any, ...]) -> None:
        self.lane, self.size, self.kept_alive = lane, size, kept_alive
        self.arrived = np.zeros(1, np.int64)

    def finish(self) -> None:
        """Return when all bytes have arrived."""
        while self.arrived[0] < self.size:
            self.lane.raise_error()
            time.sleep(_LOOK)
        self.kept_alive = ()


class Lane:
    """One direction of copies while in use: its workers' segments, in the structures of bus.c."""

    def __init__(self, upward: bool, workers: int) -> None:
        self.table = (_Segment * TABLE)()
        self.filled = 0
        self.transfers: list[Transfer] = []  # until all workers are done
        self.absent: list[Exception] = []  # why workers could not start
        call = _driver()
        copy = call["cuMemcpyHtoDAsync_v2" if upward else "cuMemcpyDtoHAsync_v2"]
        self.state = _Lane(
            table=ctypes.addressof(self.table), entries=TABLE, chunk=CHUNK, upload=upward,
            synchronize=call["cuEventSynchronize"], wait=call["cuStreamWaitEvent"], copy=copy,
            record=call["cuEventRecord"], sleep=call["usleep"],
        )  # fmt: skip
        self.state.active.value = workers

    def copy(self, target: int, source: int, size: int, after: Any, *kept_alive: Any) -> Transfer:
        """Begin to copy `size` bytes, once the event `after` is reached."""
        _, publish = _native()
        made = Transfer(self, size, (*kept_alive, after))
        self.transfers.append(made)
        arrived = made.arrived.ctypes.data
        for at in range(0, size, SEGMENT):
            entry = self.table[self.filled % TABLE]
            while entry.size:  # until a worker has read it
                self.raise_error()
                time.sleep(_LOOK)
            entry.target, entry.source = target + at, source + at
            entry.size = min(SEGMENT, size - at)
            entry.after, entry.arrived = after.ptr, arrived
            self.filled += 1
            publish(ctypes.addressof(self.state.filled), self.filled)
        return made

    def raise_error(self) -> None:
        """Raise the error of a worker, if there is one."""
        if self.absent:
            raise self.absent[0]
        if self.state.failed.value:
            from cuda.bindings.driver import CUresult

            name = CUresult(self.state.failed.value).name
            raise DriverError(name, "a copy between the host and the GPU")

    def close(self, abandon: bool) -> None:
        """Accept no more segments (with `abandon`, also drop those that no worker has taken) and
        wait until all workers are done."""
        _, publish = _native()
        if abandon:
            publish(ctypes.addressof(self.state.failed), -1)
        publish(ctypes.addressof(self.state.closed), 1)
        while self.state.active.value > len(self.absent):
            time.sleep(_LOOK)


class Team:
    """Threads that copy in one direction, started on first use."""

    def __init__(self, ordinal: int, upward: bool) -> None:
        self.ordinal, self.upward = ordinal, upward
        self._workers = 0
        self._lanes: SimpleQueue[Lane] = SimpleQueue()

    @contextmanager
    def lane(self) -> Iterator[Lane]:
        """A lane with all workers; on exit no copy is in progress, even after an error."""
        self._start()
        made = Lane(self.upward, self._workers)
        for _ in range(self._workers):
            self._lanes.put(made)
        done = False
        try:
            yield made
            done = True
        finally:
            made.close(abandon=not done)
        made.raise_error()

    def _start(self) -> None:
        if self._workers:
            return
        _native(), _driver()
        workers = [_Worker() for _ in range(WORKERS)]
        for worker in workers:
            threading.Thread(
                target=self._serve, args=(worker,), name="treadle-copy", daemon=True
            ).start()
        self._workers = len(workers)

    def _serve(self, worker: _Worker) -> None:
        (serve, _), mine, entered = _native(), ctypes.addressof(worker.state), False
        while True:
            lane = self._lanes.get()
            try:
                if not entered:
                    runtime.setDevice(self.ordinal)
                    runtime.free(0)  # the driver, unlike CUDA's runtime, does not make a context
                    entered = True
            except Exception as error:  # the user of the lane raises it
                lane.absent.append(error)
            else:
                serve(ctypes.addressof(lane.state), mine)


class Lanes:
    """Copies of arrays in both directions; see `device.Lanes`."""

    def __init__(self, up: Lane, down: Lane) -> None:
        self._up, self._down = up, down

    def send(self, target: Any, source: HostArray, after: Any) -> Transfer:
        dense = np.ascontiguousarray(source)
        return self._up.copy(target.data.ptr, dense.ctypes.data, dense.nbytes, after, target, dense)

    def fetch(self, target: HostArray, source: Any, after: Any) -> Transfer:
        return self._down.copy(target.ctypes.data, source.data.ptr, target.nbytes, after, source,
                               target)  # fmt: skip


class Copier:
    """Copies from and to one GPU by threads, for one call at a time."""

    def __init__(self, ordinal: int) -> None:
        self._up, self._down = Team(ordinal, True), Team(ordinal, False)
        self._lock = locks.lock()

    @contextmanager
    def lanes(self) -> Iterator[Lanes]:
        """Lanes for both directions."""
        with self._lock, self._up.lane() as up, self._down.lane() as down:
            yield Lanes(up, down)

    def upload(self, target: int, source: int, size: int, after: Any) -> None:
        """Copy `size` bytes to the device after the event `after`; complete on return."""
        with self._lock, self._up.lane() as lane:
            lane.copy(target, source, size, after).finish()

    def download(self, target: int, source: int, size: int, after: Any) -> None:
        """Copy `size` bytes to the host after the event `after`; complete on return."""
        with self._lock, self._down.lane() as lane:
            lane.copy(target, source, size, after).finish()
