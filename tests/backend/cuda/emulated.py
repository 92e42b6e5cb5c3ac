"""A GPU made of NumPy: the `Device` protocol over the SIMT interpreter of tests/skeletons/ir.

Its memory is `DeviceArray`s, which nothing else makes; so what mixes up the host's memory and the
device's fails here as it would there.  Fresh memory is filled with what shows.  Recorded programs
run in their planned memory, now in their order and now in another that the dependencies allow, as
a CUDA graph would.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from tests.skeletons.ir.simt import Compiled
from treadle.backend.cuda.device.device import (
    Block,
    Call,
    Code,
    Copy,
    Fill,
    Launch,
    Operation,
    Repeat,
)
from treadle.backend.cuda.gpu import Gpu
from treadle.backend.cuda.graphs.tape import (
    Tape,
    dependencies,
    flattened,
    plan_memory,
    renamed,
    rounds_of,
    sharing,
)
from treadle.skeletons.ir.verify import verify

ALIGNMENT = 256


class DeviceArray(np.ndarray):
    """An array in the memory of an emulated device, the one of number `gpu`."""

    gpu: int

    def __array_finalize__(self, of: np.ndarray | None) -> None:
        self.gpu = getattr(of, "gpu", 0)

    def get(self) -> np.ndarray:
        """A copy on the host."""
        return np.array(self, copy=True, subok=False)


def on_device(value: np.ndarray) -> DeviceArray:
    """A dense copy of a host array on the device."""
    made = _memory(value.shape, value.dtype)
    made[...] = value
    return made


def with_scalars(operations: Sequence[Operation], params: Sequence[Any]) -> tuple[Operation, ...]:
    """The operations with the scalars of their launches for these parameters."""

    def one(op: Operation) -> Operation:
        if isinstance(op, Launch) and op.varying is not None:
            return replace(op, scalars=op.varying(params), varying=None)
        if isinstance(op, Repeat):
            first, second = (with_scalars(part, params) for part in op.testing)
            even, odd = (with_scalars(part, params) for part in (op.even, op.odd))
            return replace(op, even=even, odd=odd, testing=(first, second))
        return op

    return tuple(map(one, operations))


def _memory(shape: tuple[int, ...], dtype: np.dtype[Any]) -> DeviceArray:
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    raw = np.full(size + ALIGNMENT, 0x5B, np.uint8)
    first = -raw.ctypes.data % ALIGNMENT
    return raw[first : first + size].view(dtype).reshape(shape).view(DeviceArray)


class Transfer:
    """A copy that is made when somebody waits for it, and not before."""

    def __init__(self, target: np.ndarray, source: np.ndarray) -> None:
        assert target.flags.c_contiguous and target.shape == source.shape
        self.target, self.source = target, source

    def finish(self) -> None:
        self.target[...] = self.source


class EmulatedDevice(Gpu):
    """See `backend.cuda.device.Device`."""

    name, arch, multiprocessors, library = "emulated GPU", "sm_90a", 132, np
    shared = 227 * 1024

    def __init__(self) -> None:
        self._seeds = itertools.count()
        #: Kernels launched so far, by name.
        self.launched: dict[str, int] = {}

    def is_current(self) -> bool:
        return True

    def wait(self) -> None:
        pass

    def compile(self, codes: Sequence[Code]) -> None:
        for code in codes:
            if code.function is None:
                verify(code.kernel)
                code.function = Compiled(code.kernel)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> DeviceArray:
        return _memory(shape, dtype)

    def adopt(self, value: Any) -> tuple[Any, Any] | None:
        if not isinstance(value, DeviceArray):
            return None
        return value, (value.shape, value.strides, value.ctypes.data % 16)

    def block(self, array: Any) -> Block:
        return Block(
            array.shape, array.dtype, array, kind="input", strides=array.strides,
            dense=array.flags.c_contiguous, aligned=array.ctypes.data % 16 == 0,
        )  # fmt: skip

    def upload(self, value: np.ndarray) -> DeviceArray:
        assert not isinstance(value, DeviceArray), "already on the device"
        return on_device(value)

    def download(self, array: Any) -> np.ndarray:
        return _mine(array).get()

    def mark(self) -> int:
        """How many kernels were launched before."""
        return sum(self.launched.values())

    @contextmanager
    def lanes(self) -> Iterator[EmulatedDevice]:
        yield self

    def send(self, target: Any, source: np.ndarray, after: int) -> Transfer:
        assert after <= self.mark()
        return Transfer(_mine(target), source)

    def fetch(self, target: np.ndarray, source: Any, after: int) -> Transfer:
        assert after <= self.mark()
        return Transfer(target, _mine(source))

    def run(self, operation: Operation) -> None:
        match operation:
            case Launch():
                self._launch(operation)
            case Fill():
                assert operation.value.shape == ()
                assert operation.value.dtype == operation.block.dtype
                _mine(operation.block.array)[...] = operation.value
            case Copy():
                target, source = operation.target, operation.source
                assert target.shape == source.shape and target.dtype == source.dtype
                assert target.dense
                _mine(target.array)[...] = _mine(source.array)
            case Call():
                operation.action([_mine(b.array) for b in operation.reads],
                                 [_mine(b.array) for b in operation.writes])  # fmt: skip
            case Repeat():
                repeat(self, operation)
            case _:
                raise AssertionError(operation)

    def error(self, error: Exception) -> None:
        return None

    def current(self) -> EmulatedDevice:
        return self

    def dispatcher(self, args: Any, unrepeatable: Any) -> None:
        return None

    def prepare(self, tape: Tape) -> Callable[[Sequence[Any], Sequence[Any]], list[Any]]:
        self.compile(tape.codes)
        tape, _ = tape.numbers_first()
        offsets, size = plan_memory(tape)
        made = [r for r in tape.results if isinstance(r, Block)]

        def replay(
            arrays: Sequence[Any], params: Sequence[Any], into: Sequence[Any] | None = None
        ) -> list[Any]:
            memory = {b: Block(b.shape, b.dtype, array, kind="input", strides=b.strides,
                               dense=b.dense, aligned=b.aligned)
                      for b, array in zip(tape.inputs, arrays, strict=True)}  # fmt: skip
            if into is None or len(into) != len(tape.results) or not all(map(_fits, into)):
                into = [self.empty(b.shape, b.dtype) for b in made]
            memory |= {b: Block(b.shape, b.dtype, a) for b, a in zip(made, into, strict=True)}
            work = self.empty((size,), np.dtype("u1"))
            for b, at in offsets.items():
                array = work[at : at + b.nbytes].view(b.dtype).reshape(b.shape)
                memory[b] = Block(b.shape, b.dtype, array)
            self.queue(with_scalars(renamed(tape.operations, memory), params))
            found = [memory[r].array if isinstance(r, Block) else r for r in tape.results]
            return found + [self.download(memory[b].array) for b in tape.numbers]

        return replay

    def queue(self, operations: Sequence[Operation]) -> None:
        """Run operations as a stream does, or as a graph."""
        shuffle = random.Random(next(self._seeds))
        if not _simple(operations) or shuffle.random() < 0.5:
            for op in operations:
                self.run(op)
            return
        blocks = {b: b.array.ctypes.data for op in operations for b in (*op.reads, *op.writes)}
        left = list(enumerate(dependencies(operations, sharing(blocks))))
        done: set[int] = set()
        while left:
            k, needs = shuffle.choice([step for step in left if done.issuperset(step[1])])
            self.run(operations[k])
            left.remove((k, needs))
            done.add(k)

    def _launch(self, operation: Launch) -> None:
        code = operation.code
        kernel = code.kernel
        self.launched[kernel.name] = self.launched.get(kernel.name, 0) + 1
        arrays: dict[Any, np.ndarray] = {}
        for buffer, block in zip(code.pointers, operation.blocks, strict=True):
            array = _mine(block.array)
            assert array.dtype == buffer.type.numpy, (buffer, array.dtype)
            assert (array.shape == block.shape and array.strides == block.strides) or not array.size
            assert buffer.role == "input" or block.dense, buffer
            assert buffer not in kernel.aligned or array.ctypes.data % 16 == 0, buffer
            plain = array.view(np.ndarray)
            arrays[buffer] = plain.reshape(-1) if block.dense else plain
        _apart(kernel, arrays)
        order = random.Random(next(self._seeds))
        # A scalar that is not passed must not matter.
        known = dict(zip(code.scalars, operation.scalars, strict=True))
        scalars = [known.get(v, v.type.numpy.type(1)) for v in kernel.scalars]
        failed = code.function.launch(arrays, scalars, operation.tasks, order)
        if failed:
            assert operation.errors is not None, f"{kernel.name} reports errors that are not read"
            site, index, extent = order.choice(failed)
            _mine(operation.errors.array)[:3] = (site + 1, index, extent)


#: Iterations that make a graph.
CHUNK = 4


def _simple(operations: Sequence[Operation]) -> bool:
    """Whether operations can be a graph."""
    return all(
        isinstance(op, Launch | Fill) or (isinstance(op, Copy) and op.source.dense)
        for op in operations
    )


def repeat(device: EmulatedDevice, op: Repeat) -> None:
    """A loop: by graphs of iterations, by itself, or by the host, which waits for every test."""
    if _simple(list(flattened(op.inside))):
        if op.trips is not None:
            _by_chunks(device, op, op.trips)
            return
        if device.mark() % 2:
            _by_itself(device, op)
            return
    iteration = 0
    while op.trips is None or iteration < op.trips:
        side = iteration % 2
        if op.test is not None:
            for inner in op.testing[side]:
                device.run(inner)
            if not device.download(op.test[side].array)[()]:
                break
        for inner in (op.even, op.odd)[side]:
            device.run(inner)
        iteration += 1
    if op.trips is None and iteration % 2:
        for target, source in zip(op.front, op.back, strict=True):
            if target is not source:
                device.run(Copy(target, source))


def _by_chunks(device: EmulatedDevice, op: Repeat, count: int) -> None:
    for first in range(0, count, CHUNK):
        chunk = range(first, min(first + CHUNK, count))
        device.queue([o for iteration in chunk for o in (op.even, op.odd)[iteration % 2]])


def _by_itself(device: EmulatedDevice, op: Repeat) -> None:
    """As a conditional node does it: see `backend.cuda.graphs.while_graph`."""
    assert op.test is not None
    first, second = (_mine(b.array) for b in op.test)
    back = [Copy(t, s) for t, s in zip(op.front, op.back, strict=True) if t is not s]
    device.queue(op.testing[0])
    second[...] = True
    match rounds_of(op):
        case "two":
            while first and second:
                device.queue([*op.even, *op.testing[1], *op.odd, *op.testing[0]])
            if not second:
                device.queue(back)
        case "beside":
            go = bool(first)
            while go:
                device.queue([*op.even, *op.testing[1]])
                device.queue(back)
                go = bool(second)
        case "after":
            while first:
                device.queue(op.even)
                device.queue(back)
                device.queue(op.testing[0])


def _fits(array: Any) -> bool:
    """Whether an array is dense and aligned."""
    return array.flags.c_contiguous and array.ctypes.data % 16 == 0


def _mine(array: Any) -> DeviceArray:
    assert isinstance(array, DeviceArray), f"{type(array).__name__} is not the device's"
    return array


def _apart(kernel: Any, arrays: dict[Any, np.ndarray]) -> None:
    """Distinct buffers never overlap, unless both are only read.

    Defaults that are updated in place may also be an input, for elements that the kernel does not
    write: it gets the old ones, as a GPU may read it through a cache."""
    for a, b in itertools.combinations(arrays, 2):
        first, second = arrays[a], arrays[b]
        same = (first.ctypes.data, first.nbytes) == (second.ctypes.data, second.nbytes)
        if same and {a.role, b.role} == {"input", "update"}:
            arrays[a if a.role == "input" else b] = first.copy()
        elif a.role != "input" or b.role != "input":
            assert not np.shares_memory(arrays[a], arrays[b]), f"{kernel.name}: {a} and {b}"


@contextmanager
def emulation() -> Iterator[EmulatedDevice]:
    """While it lasts, this process's backend "cuda" runs on an emulated GPU."""
    from treadle.backend import registry
    from treadle.backend.cuda import availability, executable

    device = EmulatedDevice()
    before = executable.device_here, availability.unavailable
    executable.device_here, availability.unavailable = lambda: device, lambda: None
    registry.load.cache_clear()
    registry.why_not.cache_clear()
    try:
        yield device
    finally:
        executable.device_here, availability.unavailable = before
        registry.load.cache_clear()
        registry.why_not.cache_clear()
