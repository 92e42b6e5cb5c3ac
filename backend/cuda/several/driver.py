"""`CudaPeers`: the GPUs of this machine, with CuPy's streams and copies between peers."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import lru_cache, partial
from typing import Any

from cuda.bindings import driver as cu

from treadle.dsl.errors import BackendUnavailable, DeviceOutOfMemory, TreadleError
from treadle.dsl.process import locks

from ...runtime.types import DeviceArray, DType, Handle, HostArray
from ..device.copies import LARGE
from ..device.driver import borrowed
from ..device.optional import DriverError, checked, cupy, runtime
from ..graphs.captured import destroyed
from ..graphs.graphs import ExecutableGraph
from ..graphs.launch import CudaDevice
from ..graphs.queued import capturing
from .peers import MAIN, SIDE

_ANY_TO_ANY = 4
#: The share of a GPU's memory that arrays of graphs may take.
SHARE = 1 / 8


class Queue:
    """Inside, a GPU is the current one, and a stream its current one (without: the user's)."""

    def __init__(self, *contexts: AbstractContextManager[object]) -> None:
        """A device, and a stream of it: they know what was current before, in every thread."""
        self._contexts = contexts

    def __enter__(self) -> None:
        for context in self._contexts:
            context.__enter__()

    def __exit__(self, *error: Any) -> None:
        for context in reversed(self._contexts):
            context.__exit__(*error)


class CudaPeers:
    """See `peers.Peers`."""

    def __init__(self, ordinals: Sequence[int]) -> None:
        count = runtime.getDeviceCount()
        missing = [n for n in ordinals if n >= count]
        if missing:
            raise BackendUnavailable(
                f"there is no GPU {missing[0]}: this machine has {count}.",
                hint="devices= takes the number of GPUs to use, or their numbers.",
            )
        self.ordinals = tuple(ordinals)
        devices = [cupy.cuda.Device(n) for n in ordinals]
        self._gpus: list[CudaDevice] = []
        self._queues: list[tuple[Queue, Queue]] = []
        self._users: list[Queue] = []
        #: The queues from which graphs are captured, and the thread that does so.
        self._recorded: list[tuple[Queue, Queue]] = []
        self._thread, self._capturing = threading.local(), locks.lock()
        #: What launches graphs: the main queues, and events of all GPUs.
        self._main: list[int] = []
        self._events: list[DeviceArray] = []
        self._launching = locks.lock()
        #: The memory of graphs, which run one after the other: free for the next one that is
        #: captured, but not for anything else as long as there are any.
        self._pool = cupy.cuda.MemoryPool()
        self._graphs: weakref.WeakSet[ExecutableGraph] = weakref.WeakSet()
        for device in devices:
            with device:
                self._gpus.append(CudaDevice.current())
                for queues in (self._recorded, self._queues):
                    main = cupy.cuda.Stream(non_blocking=True)
                    side = cupy.cuda.Stream(non_blocking=True, priority=-1)
                    queues.append((Queue(device, main), Queue(device, side)))
                self._main.append(main.ptr)
                self._events.append(cupy.cuda.Event(disable_timing=True))
                self._users.append(Queue(device))
                for other in ordinals:
                    if other != device.id and runtime.deviceCanAccessPeer(device.id, other):
                        _enable(other)
        self.memory = min(d.mem_info[1] for d in devices)

    @staticmethod
    @lru_cache(maxsize=16)
    def of(ordinals: tuple[int, ...]) -> CudaPeers:
        """The GPUs of these numbers."""
        return CudaPeers(ordinals)

    def on(self, device: int, lane: int = MAIN) -> Queue:
        queues: list[tuple[Queue, Queue]] = getattr(self._thread, "queues", self._queues)
        return queues[device][lane]

    def enter(self, device: int) -> None:
        with self._users[device]:
            mark = self.mark()
        with self.on(device):
            self.follow(mark)

    def leave(self, device: int) -> None:
        with self.on(device):
            mark = self.mark()
        with self._users[device]:
            self.follow(mark)

    def mark(self) -> DeviceArray:
        made = cupy.cuda.Event(disable_timing=True)
        made.record()
        return made

    def follow(self, mark: DeviceArray) -> None:
        cupy.cuda.get_current_stream().wait_event(mark)

    def wait(self) -> None:
        cupy.cuda.get_current_stream().synchronize()

    def _here(self) -> CudaDevice:
        return self._gpus[self.ordinals.index(runtime.getDevice())]

    def empty(self, shape: tuple[int, ...], dtype: DType) -> DeviceArray:
        return self._here().empty(shape, dtype)

    def upload(self, value: HostArray) -> DeviceArray:
        return self._here().upload(value)

    def download(self, target: HostArray, source: DeviceArray) -> None:
        if not source.nbytes:
            return
        dense = source if source._c_contiguous else cupy.ascontiguousarray(source)
        if target.flags.c_contiguous and dense.nbytes >= LARGE:
            here = self._here()
            with here.lanes() as lanes:
                lanes.fetch(target, dense, here.mark()).finish()
        else:
            target[...] = dense.get()

    def copy(self, target: DeviceArray, source: DeviceArray) -> None:
        """Rows that are dense in both are copied as a rectangle; further axes one by one."""
        if not target.size:
            return
        to, of = target.data.ptr, source.data.ptr
        if target._c_contiguous and source._c_contiguous:
            size, axes = target.nbytes, list[tuple[int, int, int]]()
        else:
            size, axes = dense_rows(target.shape, target.itemsize, target.strides, source.strides)
        stream = cupy.cuda.get_current_stream().ptr
        if not axes:
            runtime.memcpyAsync(to, of, size, _ANY_TO_ANY, stream)
            return
        *outer, (rows, pitch, other) = axes
        for a, b in offsets(outer):
            if pitch < size or other < size:  # reversed or repeated rows
                for k in range(rows):
                    runtime.memcpyAsync(to + a + k * pitch, of + b + k * other, size, _ANY_TO_ANY,
                                        stream)  # fmt: skip
                continue
            runtime.memcpy2DAsync(to + a, pitch, of + b, other, size, rows, _ANY_TO_ANY, stream)

    def place(self, array: DeviceArray) -> Hashable:
        return array.data.ptr, array.strides

    def captured(
        self, work: Callable[[], object], together: bool = True
    ) -> Callable[[], None] | None:
        count = len(self.ordinals)
        groups = [range(count)] if together else [range(d, d + 1) for d in range(count)]
        with self._capturing, ExitStack() as stack:
            if not self._graphs:
                self._empty_pool()
            graphs = self._captured(groups, work)
            for graph in graphs:
                stack.enter_context(destroyed(graph))
            try:
                made = [ExecutableGraph(graph, priorities=True) for graph in graphs]
            except DriverError:  # no memory for it
                return None
            self._graphs.update(made)

        return partial(self._launch, list(zip(groups, made, strict=True))) if made else None

    def _launch(self, graphs: Sequence[tuple[Sequence[int], ExecutableGraph]]) -> None:
        """Each on the main queue of the first of its GPUs, after the users' streams, and before
        these."""
        record, wait = runtime.eventRecord, runtime.streamWaitEvent
        current = runtime.getDevice()
        users = [cupy.cuda.get_current_stream(gpu).ptr for gpu in self.ordinals]
        streams = list(zip(self.ordinals, self._events, self._main, users, strict=True))
        with self._launching:  # the events are those of all threads
            try:
                for group, graph in graphs:
                    here = self._main[group[0]]
                    for gpu, event, main, user in reversed([streams[d] for d in group]):
                        runtime.setDevice(gpu)  # the null stream is that of the current GPU
                        for stream in (user, main) if main != here else (user,):
                            record(event.ptr, stream)
                            wait(here, event.ptr)
                    graph.launch(here)
                    done = self._events[group[0]].ptr
                    record(done, here)
                    for gpu, _, main, user in (streams[d] for d in group):
                        runtime.setDevice(gpu)
                        for stream in (main, user) if main != here else (user,):
                            wait(stream, done)
            finally:
                runtime.setDevice(current)

    def _captured(
        self, groups: Sequence[Sequence[int]], work: Callable[[], object]
    ) -> list[Handle]:
        """The graphs of some work on queues of this thread alone, which others do not use: one for
        each group of GPUs; none if it cannot be part of a graph."""
        mode = cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        places = [[(d, lane) for d in group for lane in (MAIN, SIDE)] for group in groups]
        streams, done = list[int](), False
        self._thread.queues, capturing.here = self._recorded, True
        try:
            try:
                with cupy.cuda.using_allocator(self._allocate):
                    for first, *others in places:
                        with self.on(*first):
                            stream = cupy.cuda.get_current_stream().ptr
                        checked(cu.cuStreamBeginCapture(stream, mode), "a graph of several GPUs")
                        streams.append(stream)
                        self._join([first], others)
                    work()
                    for first, *others in places:
                        self._join(others, [first])
                done = True
            except (DriverError, TreadleError, runtime.CUDARuntimeError):
                pass  # what is queued for a graph has not run
            finally:
                ended = [cu.cuStreamEndCapture(stream) for stream in streams]
        finally:
            del self._thread.queues
            capturing.here = False
        if done and not any(status for status, _ in ended):
            return [graph for _, graph in ended]
        for status, graph in ended:
            if not status:
                cu.cuGraphDestroy(graph)
        return []

    def _allocate(self, size: int) -> DeviceArray:
        """Memory for a graph."""
        if self._pool.total_bytes() + size > SHARE * self.memory:
            raise DeviceOutOfMemory("the graphs of programs on several GPUs have their share.")
        return self._pool.malloc(size)

    def _empty_pool(self) -> None:
        for gpu in self.ordinals:
            with cupy.cuda.Device(gpu):
                self._pool.free_all_blocks()

    def _join(self, before: Sequence[tuple[int, int]], after: Sequence[tuple[int, int]]) -> None:
        """Some queues follow others."""
        marks = []
        for place in before:
            with self.on(*place):
                marks.append(self.mark())
        for place in after:
            with self.on(*place):
                for mark in marks:
                    self.follow(mark)

    def where(self, value: DeviceArray) -> int | None:
        found = value if type(value) is cupy.ndarray else borrowed(value)
        return None if found is None else int(found.data.device_id)


def _enable(other: int) -> None:
    """Let the current GPU access the memory of another one."""
    try:
        runtime.deviceEnablePeerAccess(other)
    except runtime.CUDARuntimeError as error:
        if "AlreadyEnabled" not in str(error):
            raise


def dense_rows(
    shape: Sequence[int], itemsize: int, first: Sequence[int], second: Sequence[int]
) -> tuple[int, list[tuple[int, int, int]]]:
    """Two arrays as bytes that are contiguous in both, and axes (extent and both strides) over
    them.

    >>> dense_rows((4, 2, 3), 4, (96, 12, 4), (24, 12, 4))
    (24, [(4, 96, 24)])
    """
    size, axes = itemsize, list[tuple[int, int, int]]()
    for n, a, b in zip(reversed(shape), reversed(first), reversed(second), strict=True):
        if n == 1:
            continue
        if not axes and a == b == size:
            size *= n
        elif axes and a == axes[0][1] * axes[0][0] and b == axes[0][2] * axes[0][0]:
            axes[0] = (n * axes[0][0], axes[0][1], axes[0][2])
        else:
            axes.insert(0, (n, a, b))
    return size, axes


def offsets(axes: Sequence[tuple[int, int, int]]) -> Iterator[tuple[int, int]]:
    """The offsets in bytes of all elements along axes."""
    if not axes:
        yield 0, 0
        return
    (n, a, b), *rest = axes
    for k in range(n):
        for x, y in offsets(rest):
            yield k * a + x, k * b + y
