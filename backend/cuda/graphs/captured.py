"""Products by cuBLAS in CUDA graphs: what a call of the library queues is captured from a stream.

cuBLAS then needs memory that belongs to the caller.  The graphs of one stream run one after the
other, and so do the products of a graph: they share a workspace, which lives as long as a graph
that uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from weakref import WeakValueDictionary

import numpy as np
from cuda.bindings import driver as cu

from treadle.dsl.process import locks

from ...runtime.types import DeviceArray, Handle
from ..device.driver import DriverDevice, stream_here
from ..device.optional import DriverError, checked
from ..products import cublas

#: Bytes of a workspace, from an architecture on: those that cuBLAS itself takes for a stream.  It
#: chooses its kernels by them, so a product has the same bits in a graph as outside of one.
WORKSPACES = ((90, 32 << 20), (0, 4 << 20))
WHAT = "a product of a CUDA graph"

Queue = Callable[[int], int]
"""Queues a call of cuBLAS on the stream of a handle; its status."""


class Captures:
    """The stream of a device from which calls are captured, and for each stream that launches what
    they were captured for its workspace, while graphs use it."""

    def __init__(self, device: DriverDevice) -> None:
        self.device, self.library = device, cublas.library()
        self.handle = cublas.new_handle()
        flags = cu.CUstream_flags.CU_STREAM_NON_BLOCKING
        self.stream = checked(cu.cuStreamCreate(flags), WHAT)
        arch = int("".join(filter(str.isdigit, device.arch)))
        self.size = next(size for least, size in WORKSPACES if arch >= least)
        self.known: WeakValueDictionary[int, Capture] = WeakValueDictionary()
        self.lock = locks.lock()

    def on(self, stream: int) -> Capture:
        """For graphs that are launched on a stream, the current one: its memory is that stream's,
        and can be given back before the graphs are done."""
        with self.lock:
            found = self.known.get(stream)
            if found is None:
                found = self.known[stream] = Capture(self, self.device.allocate(self.size))
        return found

    def graph(self, queue: Queue, workspace: int) -> Handle:
        """The graph of one call."""
        with self.lock:
            # (In this order: with its stream, a handle gets the library's own workspace.)
            _passed(self.library.cublasSetStream_v2(self.handle, int(self.stream)))
            _passed(self.library.cublasSetWorkspace_v2(self.handle, workspace, self.size))
            mode = cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
            checked(cu.cuStreamBeginCapture(self.stream, mode), WHAT)
            status = None
            try:
                status = queue(self.handle)
            finally:  # the capture ends in any case, also if it has become invalid
                ended = cu.cuStreamEndCapture(self.stream)
                if status != 0 and not int(ended[0]):
                    cu.cuGraphDestroy(ended[1])
        _passed(status)
        return checked(ended, WHAT)


class Capture:
    """Adds calls to graphs that are launched on one stream, whose workspace is `memory`."""

    def __init__(self, captures: Captures, memory: DeviceArray) -> None:
        self.captures, self.memory = captures, memory

    def add(self, graph: Handle, after: Sequence[Handle], queue: Queue) -> Handle:
        """The node of a call."""
        with destroyed(self.captures.graph(queue, self.memory.ptr)) as made:
            node = cu.cuGraphAddChildGraphNode(graph, list(after), len(after), made)
            return checked(node, WHAT)


@contextmanager
def destroyed(graph: Handle) -> Iterator[Handle]:
    """A graph from which another one, or an executable one, is made."""
    try:
        yield graph
    finally:
        cu.cuGraphDestroy(graph)


def _passed(status: int) -> None:
    if status:
        raise DriverError(f"CUBLAS_STATUS {status}", WHAT)


@lru_cache(maxsize=64)
def captures(device: DriverDevice) -> Captures | None:
    """None if this cuBLAS or this driver cannot capture products: two are tried."""
    try:
        found = Captures(device)
        return found if _right(found) else None
    except (AttributeError, DriverError, OSError):
        return None


def _right(found: Captures) -> bool:
    """Whether a graph of two products of whole numbers, one of which reads the other, is right."""
    numbers = np.arange(256.0).reshape(16, 16)
    x, y, z = [found.device.upload(numbers) for _ in range(3)]
    layout = numbers.shape, (16, 1)
    product = cublas.prepared("float64", "float64", layout, layout, layout)
    assert product is not None
    stream = stream_here()
    capture = found.on(stream)

    def product_of(a: DeviceArray, to: DeviceArray) -> Queue:
        return lambda handle: product.queue(handle, to.data.ptr, a.data.ptr, x.data.ptr)

    with destroyed(checked(cu.cuGraphCreate(0), WHAT)) as graph:
        first = capture.add(graph, [], product_of(x, y))
        capture.add(graph, [first], product_of(y, z))
        made = checked(cu.cuGraphInstantiate(graph, 0), WHAT)
    try:
        checked(cu.cuGraphLaunch(made, stream), WHAT)
        return bool((found.device.download(z) == numbers @ numbers @ numbers).all())
    finally:
        cu.cuGraphExecDestroy(made)
