"""A driver that is not there: `CudaDevice` on the host's memory, its kernels interpreted.

What packs arguments, plans memory and builds graphs is the real code; CuPy's arrays lie over
NumPy's memory.  Launches read their arguments from where they were packed.  A graph runs its nodes
in a random order that its edges allow, so that an edge too few shows.
"""

from __future__ import annotations

import ctypes
import random
from types import SimpleNamespace
from typing import Any

import cupy
import numpy as np

from tests.skeletons.ir.simt import Compiled
from treadle.backend.cuda.device import driver
from treadle.backend.cuda.device.device import Code
from treadle.backend.cuda.graphs import captured, graphs, launch, queued

ONE, DEVICE_TO_HOST = 1, 2
CAPTURED = 77
GO_ON, UNLESS = 99, 98
INVALID_VALUE = 1


class Held:
    """Gives its memory back when nothing refers to it."""

    def __init__(self, idle: list[int], first: int) -> None:
        self.idle, self.first = idle, first

    def __del__(self) -> None:
        self.idle.append(self.first)


class Memory:
    """A pool: what was given back last is given out first, as CuPy's does."""

    def __init__(self) -> None:
        self.held: dict[int, np.ndarray] = {}
        self.idle: dict[int, list[int]] = {}

    def take(self, size: int) -> Any:
        if not size:
            return cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(0, 1, self, 0), 0)
        idle = self.idle.setdefault(size, [])
        if idle:
            first = idle.pop()
        else:
            raw = np.empty(size + 512, np.uint8)
            first = raw.ctypes.data + -raw.ctypes.data % 256
            self.held[first] = raw
        self.held[first][:] = 0x5B
        owner = Held(idle, first)
        return cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(first, max(size, 1), owner, 0), 0)

    def view(self, address: int, dtype: Any) -> np.ndarray:
        """Everything from an address to the end of its allocation; arrays without elements have
        none."""
        if not address:
            return np.empty(0, dtype)
        for first, raw in self.held.items():
            end = raw.ctypes.data + raw.size
            if first <= address < end:
                count = (end - address) // np.dtype(dtype).itemsize
                flat = (ctypes.c_char * (count * np.dtype(dtype).itemsize)).from_address(address)
                return np.frombuffer(flat, dtype)
        raise AssertionError(f"{address:#x} is in no allocation")


class Mailbox:
    """Memory of the host, and an event that may be read only after it was recorded."""

    def __init__(self, device: PretendedDevice, blocks: Any) -> None:
        self.device, self.types, self.recorded = device, [b.dtype for b in blocks], False
        self.held = (ctypes.c_char * (16 * len(blocks)))()
        self.words = [ctypes.addressof(self.held) + 16 * k for k in range(len(blocks))]
        self.event = SimpleNamespace(ptr=id(self))

    def post(self, addresses: Any, stream: int) -> None:
        for t, word, address in zip(self.types, self.words, addresses, strict=True):
            self.device.copy(word, address, t.itemsize)
        self.recorded = True

    def read(self) -> list[np.ndarray]:
        assert self.recorded
        self.recorded = False
        return [np.frombuffer(self.held, t, 1, 16 * k).reshape(()).copy()
                for k, t in enumerate(self.types)]  # fmt: skip


class PretendedDevice(launch.CudaDevice):
    """See the module."""

    def __init__(self) -> None:
        self.ordinal, self.name, self.arch, self.multiprocessors = 0, "pretended", "sm_90a", 132
        self.shared = 227 * 1024
        self.memory = Memory()
        self.codes: dict[int, Code] = {}
        self.launches = 0

    def empty(self, shape: Any, dtype: Any) -> Any:
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        return cupy.ndarray(shape, dtype, self.memory.take(size))

    def allocate(self, size: int) -> Any:
        return self.memory.take(size)

    def upload(self, value: Any) -> Any:
        made = self.empty(value.shape, value.dtype)
        if value.size:
            self.memory.view(made.data.ptr, value.dtype)[: value.size] = value.reshape(-1)
        return made

    def download(self, array: Any) -> Any:
        if not array.size:
            return np.empty(array.shape, array.dtype)
        flat = self.memory.view(array.data.ptr, array.dtype)[: array.size]
        return flat.reshape(array.shape).copy()

    def mailbox(self, blocks: Any) -> Any:
        return Mailbox(self, blocks)

    def compile(self, codes: Any) -> None:
        for code in codes:
            handle = 1000 + len(self.codes)
            self.codes[handle] = code
            code.function = SimpleNamespace(handle=handle, threads=code.kernel.threads, shared=0)

    # --- the driver's part ---

    def launch_kernel(
        self, handle: int, grid: int, gy: int, gz: int, threads: int, *rest: int
    ) -> None:
        self.launches += 1
        ty, tz, _, _, address, extra = rest
        assert (gy, gz, ty, tz, extra) == (1, 1, 1, 1, 0)
        code = self.codes[handle]
        kernel = code.kernel
        assert threads == kernel.threads
        slots = (ctypes.c_void_p * 64).from_address(address)
        arrays = {
            b: self.memory.view(ctypes.c_uint64.from_address(slots[k]).value, b.type.numpy)
            for k, b in enumerate(code.pointers)
        }
        at = len(code.pointers) + bool(code.errors)
        known = {}
        for k, v in enumerate(code.scalars, at):
            raw = ctypes.string_at(slots[k], v.type.bytes)
            value = np.frombuffer(raw, v.type.numpy)[0]
            known[v] = value.item() if v.type.name in ("int64", "bool") else value
        scalars = [known.get(v, v.type.numpy.type(1)) for v in kernel.scalars]
        failed = Compiled(kernel).launch(arrays, scalars, grid, random.Random(self.launches))
        if failed:
            errors = ctypes.c_uint64.from_address(slots[len(code.pointers)]).value
            site, index, extent = failed[0]
            self.memory.view(errors, np.int64)[:3] = site + 1, index, extent

    def fill(self, address: int, words: int, pitch: int, word: int, size: int) -> None:
        kind = {1: np.uint8, 2: np.uint16, 4: np.uint32}[size]
        for k in range(words):
            self.memory.view(address + k * (pitch or size), kind)[0] = word

    def copy(self, target: int, source: int, nbytes: int, kind: int = 3, stream: int = 0) -> None:
        ctypes.memmove(target, source, nbytes)


class Graph:
    def __init__(self) -> None:
        self.nodes: list[tuple[Any, list[int]]] = []

    def add(self, after: Any, action: Any) -> int:
        self.nodes.append((action, [int(n) for n in after]))
        return len(self.nodes) - 1

    def run(self, order: random.Random) -> None:
        left = dict(enumerate(self.nodes))
        while left:
            ready = [k for k, (_, needs) in left.items() if not any(n in left for n in needs)]
            k = order.choice(ready)
            left.pop(k)[0](order)


class PretendedDriver:
    """The part of cuda.bindings.driver that graphs are made with."""

    def __init__(self, device: PretendedDevice) -> None:
        self.device = device
        self.conditions: dict[int, bool] = {}
        self.graphs = 0
        self.order = random.Random(1)
        real = graphs.cu
        for name in ("CUDA_KERNEL_NODE_PARAMS", "CUDA_MEMSET_NODE_PARAMS", "CUDA_MEMCPY3D",
                     "CUfunction", "CUmemorytype", "CUgraphNodeType", "CUDA_VERSION",
                     "CUgraphConditionalNodeType", "CU_GRAPH_COND_ASSIGN_DEFAULT",
                     "CUevent", "CUstream_flags", "CUstreamCaptureMode",
                     "CUgraphInstantiate_flags"):  # fmt: skip
            setattr(self, name, getattr(real, name))
        self.captured: Graph | None = None
        #: Graphs that have not been destroyed, executable ones apart.
        self.alive: list[Graph] = []

    def cuGraphCreate(self, flags: int) -> Any:
        self.alive.append(Graph())
        return 0, self.alive[-1]

    def cuGraphDestroy(self, graph: Any) -> Any:
        self.alive.remove(graph)
        return (0,)

    def cuGraphInstantiate(self, graph: Any, flags: int) -> Any:
        self.graphs += 1
        return 0, graph

    def cuGraphExecDestroy(self, graph: Any) -> Any:
        return (0,)

    def cuGraphLaunch(self, graph: Any, stream: int) -> Any:
        graph.run(self.order)
        return (0,)

    def cuCtxGetCurrent(self) -> Any:
        return 0, None

    def cuGraphAddKernelNode(self, graph: Any, after: Any, count: int, node: Any) -> Any:
        assert count == len(after)
        handle = int(node.func)
        slots = (ctypes.c_void_p * 64).from_address(int(node.kernelParams))
        if handle == GO_ON:
            loop = ctypes.c_uint64.from_address(slots[0]).value
            tests = [ctypes.c_uint64.from_address(slots[k]).value for k in (1, 2)]

            def ask(order: Any) -> None:
                self.conditions[loop] = all(self.device.memory.view(t, np.bool_)[0] for t in tests)

            return 0, graph.add(after, ask)
        if handle == UNLESS:
            given = [ctypes.c_uint64.from_address(slots[k]).value for k in range(4)]

            def unless(order: Any) -> None:
                test, target, source, words = given
                if not (test and self.device.memory.view(test, np.bool_)[0]):
                    self.device.copy(target, source, 16 * words)

            return 0, graph.add(after, unless)
        # The arguments are copied when the node is added.
        code = self.device.codes[handle]
        count = len(code.pointers) + bool(code.errors) + len(code.scalars)
        room = ctypes.create_string_buffer(16 * max(count, 1))
        copied = (ctypes.c_void_p * 64)()
        for k in range(count):
            copied[k] = ctypes.addressof(room) + 16 * k
            ctypes.memmove(copied[k], slots[k], 16)
        grid, threads, shared = node.gridDimX, node.blockDimX, node.sharedMemBytes
        if not grid:
            return (INVALID_VALUE,)

        def go(order: Any, room: Any = room) -> None:
            self.device.launch_kernel(handle, grid, 1, 1, threads, 1, 1, shared, 0,
                                      ctypes.addressof(copied), 0)  # fmt: skip

        return 0, graph.add(after, go)

    def cuGraphAddMemsetNode(self, graph: Any, after: Any, count: int, node: Any, ctx: Any) -> Any:
        address, word, size = int(node.dst), node.value, node.elementSize
        if not node.width or not node.height:
            return (INVALID_VALUE,)
        if node.height > 1:
            assert node.width == 1
            words, pitch = node.height, node.pitch
        else:
            words, pitch = node.width, 0
        return 0, graph.add(
            after, lambda order: self.device.fill(address, words, pitch, word, size)
        )

    def cuGraphAddMemcpyNode(self, graph: Any, after: Any, count: int, node: Any, ctx: Any) -> Any:
        to_host = node.dstMemoryType == self.CUmemorytype.CU_MEMORYTYPE_HOST
        target = int(node.dstHost if to_host else node.dstDevice)
        source, nbytes = int(node.srcDevice), node.WidthInBytes
        if not nbytes:
            return (INVALID_VALUE,)
        return 0, graph.add(after, lambda order: self.device.copy(target, source, nbytes))

    def cuGraphAddEventRecordNode(self, graph: Any, after: Any, count: int, event: Any) -> Any:
        assert count == len(after)
        box = ctypes.cast(int(event), ctypes.py_object).value

        def record(order: Any) -> None:
            box.recorded = True

        return 0, graph.add(after, record)

    def cuStreamCreate(self, flags: Any) -> Any:
        return 0, CAPTURED

    def cuStreamBeginCapture(self, stream: int, mode: Any) -> Any:
        assert stream == CAPTURED and self.captured is None
        self.captured = Graph()
        return (0,)

    def cuStreamEndCapture(self, stream: int) -> Any:
        made, self.captured = self.captured, None
        assert made is not None
        self.alive.append(made)
        return 0, made

    def cuGraphAddChildGraphNode(self, graph: Any, after: Any, count: int, child: Any) -> Any:
        assert count == len(after)
        return 0, graph.add(after, child.run)

    def cuGraphConditionalHandleCreate(self, graph: Any, ctx: Any, start: int, flags: int) -> Any:
        handle = 7000 + len(self.conditions)
        self.conditions[handle] = bool(start)
        return 0, handle

    def CUgraphNodeParams(self) -> Any:
        return SimpleNamespace(conditional=SimpleNamespace())

    def cuGraphAddNode(self, graph: Any, after: Any, *rest: Any) -> Any:
        params = rest[-1]
        handle, body = int(params.conditional.handle), Graph()
        params.conditional.phGraph_out = [body]

        def loop(order: Any) -> None:
            while self.conditions[handle]:
                body.run(order)

        return 0, graph.add(after, loop)


def pretend(monkeypatch: Any) -> tuple[PretendedDevice, PretendedDriver]:
    """A device and its driver, put in the place of the real ones."""
    device = PretendedDevice()
    fake = PretendedDriver(device)
    runtime = SimpleNamespace(memcpyAsync=device.copy, streamSynchronize=lambda stream: None,
                              getDevice=lambda: 0)  # fmt: skip

    def fill(address: int, count: int, value: Any, stream: int) -> None:
        for words, pitch, offset, word, size in driver.patterns(value, count):
            device.fill(address + offset, words, pitch, word, size)

    names = {"launchKernel": device.launch_kernel, "runtime": runtime,
             "stream_here": lambda: 0, "fill": fill}  # fmt: skip
    for module in (driver, launch, queued):
        for name, value in names.items():
            if hasattr(module, name):
                monkeypatch.setattr(module, name, value)
    for module in (driver, launch):
        monkeypatch.setattr(module, "enter", lambda: None)
    for module in (graphs, captured):
        monkeypatch.setattr(module, "cu", fake)
    monkeypatch.setattr(captured, "stream_here", lambda: 0)
    monkeypatch.setattr(graphs, "conditional", lambda device: None)
    extra = SimpleNamespace(handle=GO_ON), SimpleNamespace(handle=UNLESS)
    monkeypatch.setattr(graphs, "go_on", lambda device: extra)
    return device, fake
