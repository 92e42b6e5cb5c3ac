"""Operations whose blocks are positions in a list of addresses: bound, then run on a stream."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ..device.device import Block, Call, Copy, Fill, Launch
from ..device.driver import DriverDevice, arguments_of, fill
from ..device.optional import cupy, launchKernel, runtime

_DEVICE_TO_DEVICE = 3


class Capturing(threading.local):
    """Whether what this thread queues becomes part of a graph, which can have no other graphs."""

    here = False


capturing = Capturing()


class Step(Protocol):
    """An operation whose blocks are positions in a list of addresses.

    Call `bind(addresses)` before `run(stream)`, and again only when addresses change.
    """

    def bind(self, addresses: Sequence[int]) -> None: ...

    def run(self, stream: int) -> None: ...


class LaunchStep:
    """`scalars`: the current ones; `values`: their bits, if they depend on parameters."""

    __slots__ = (
        "arguments",
        "handle",
        "indices",
        "scalars",
        "shared",
        "tasks",
        "threads",
        "values",
        "varying",
    )

    def __init__(self, op: Launch, indices: dict[Block, int]) -> None:
        loaded = op.code.function
        self.handle, self.threads, self.shared = loaded.handle, loaded.threads, loaded.shared
        self.tasks, self.varying = op.tasks, op.varying
        self.values = b""
        self.indices = tuple(indices[b] for b in op.blocks)
        self.arguments = arguments_of(op.code)
        self.scalars = op.scalars
        self.arguments.scalars(op.scalars)

    def bind(self, addresses: Sequence[int]) -> None:
        self.arguments.point([addresses[k] for k in self.indices])

    def compute(self, params: Sequence[Any]) -> None:
        """Compute the scalar arguments from the program's parameters."""
        assert self.varying is not None
        self.scalars = self.varying(params)
        self.arguments.scalars(self.scalars)
        self.values = self.arguments.bits()

    def run(self, stream: int) -> None:
        launchKernel(self.handle, self.tasks, 1, 1, self.threads, 1, 1, self.shared, stream,
                     self.arguments.address, 0)  # fmt: skip


class FillStep:
    __slots__ = ("address", "count", "index", "value")

    def __init__(self, op: Fill, indices: dict[Block, int]) -> None:
        self.index, self.count, self.value = indices[op.block], op.block.size, op.value
        self.address = 0

    def bind(self, addresses: Sequence[int]) -> None:
        self.address = addresses[self.index]

    def run(self, stream: int) -> None:
        fill(self.address, self.count, self.value, stream)


class CopyStep:
    __slots__ = ("indices", "nbytes", "op", "source", "target")

    def __init__(self, op: Copy, indices: dict[Block, int]) -> None:
        self.op = op
        self.indices = indices[op.target], indices[op.source]
        self.nbytes = op.target.nbytes
        self.target = self.source = 0

    def bind(self, addresses: Sequence[int]) -> None:
        self.target, self.source = (addresses[k] for k in self.indices)

    def run(self, stream: int) -> None:
        if self.nbytes:
            runtime.memcpyAsync(self.target, self.source, self.nbytes, _DEVICE_TO_DEVICE, stream)


class ArrayStep:
    """An operation on CuPy arrays: a library call, or a copy of a strided array."""

    def __init__(self, device: DriverDevice, reads: Sequence[Block], writes: Sequence[Block],
                 action: Callable[[Sequence[Any], Sequence[Any]], None],
                 indices: dict[Block, int]) -> None:  # fmt: skip
        self.device, self.blocks, self.count = device, (*reads, *writes), len(reads)
        self.indices = [indices[b] for b in self.blocks]
        self.action = action
        self.arrays: list[Any] = []

    def bind(self, addresses: Sequence[int]) -> None:
        self.arrays = [
            array_at(b, addresses[k], self.device.ordinal)
            for b, k in zip(self.blocks, self.indices, strict=True)
        ]

    def run(self, stream: int) -> None:
        self.action(self.arrays[: self.count], self.arrays[self.count :])


class AddressStep:
    """A call of cuBLAS that takes addresses."""

    __slots__ = ("action", "addresses", "indices")

    def __init__(self, op: Call, indices: dict[Block, int]) -> None:
        assert op.addressed is not None
        self.action = op.addressed
        self.indices = [indices[b] for b in (*op.reads, *op.writes)]
        self.addresses: list[int] = []

    def bind(self, addresses: Sequence[int]) -> None:
        self.addresses = [addresses[k] for k in self.indices]

    def run(self, stream: int) -> None:
        self.action(self.addresses)

    def queue(self, handle: int) -> int:
        """On the stream of a handle of the library; the status."""
        return self.action.queue(handle, self.addresses)


def copy_array(reads: Sequence[Any], writes: Sequence[Any]) -> None:
    """The action of an `ArrayStep` that copies."""
    cupy.copyto(writes[0], reads[0])


def array_at(block: Block, address: int, ordinal: int) -> Any:
    """A CuPy array over memory that it does not own."""
    memory = cupy.cuda.UnownedMemory(address, max(block.nbytes, 1), None, ordinal)
    return cupy.ndarray(
        block.shape, block.dtype, cupy.cuda.MemoryPointer(memory, 0), strides=block.strides
    )
