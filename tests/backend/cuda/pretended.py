"""A machine with several GPUs made of NumPy, whose queues run in any order that marks allow.

Nothing runs before somebody waits for it; then queues take turns at random.  So work that should
follow a copy of another GPU, and does not say so, reads what has not arrived.  Memory that arrays
gave back is that of the next ones, so addresses recur; graphs keep addresses, and run in any order
that their marks allow.
"""

from __future__ import annotations

import random
import weakref
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from tests.backend.cuda.emulated import DeviceArray, EmulatedDevice, on_device
from treadle.backend.cuda.device.device import Block, Operation
from treadle.backend.cuda.device.optional import DriverError
from treadle.backend.cuda.graphs.tape import renamed
from treadle.backend.cuda.several.peers import MAIN
from treadle.dsl.errors import BackendUnavailable, TreadleError


class Mark:
    """An event of a queue."""

    reached = False


Act = Callable[[], None]
#: Something to do, a mark to set, or one to wait for.
Step = tuple[str, Any]
Place = tuple[int, int]


class PretendedDevice(EmulatedDevice):
    """One GPU: its operations wait in a queue of the machine."""

    def __init__(self, machine: Machine, number: int) -> None:
        super().__init__()
        self.machine, self.number = machine, number

    def is_current(self) -> bool:
        return self.machine.now[0] == self.number

    def current(self) -> EmulatedDevice:
        return self.machine.devices[self.machine.now[0]]

    def wait(self) -> None:
        self.machine.drain(self.machine.now)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> DeviceArray:
        size = (self.number, int(np.prod(shape, dtype=np.int64)) * dtype.itemsize)
        free = self.machine.free[size]
        if self.machine.graph is not None or not free:
            made = super().empty(shape, dtype)
            memory = made.base
        else:
            memory, first = free.pop()
            made = np.ndarray.__new__(DeviceArray, shape, dtype, memory, first)
        if self.machine.graph is None:
            first = made.ctypes.data - memory.ctypes.data
            weakref.finalize(made, free.append, (memory, first))
        return self._own(made)

    def upload(self, value: np.ndarray) -> DeviceArray:
        return self._own(super().upload(value))

    def _own(self, array: DeviceArray) -> DeviceArray:
        array.gpu = self.number
        return array

    def adopt(self, value: Any) -> tuple[Any, Any] | None:
        assert not isinstance(value, DeviceArray) or value.gpu == self.number
        return super().adopt(value)

    def download(self, array: Any) -> np.ndarray:
        assert array.gpu == self.number
        if not self.machine.running:  # (else it is the test of a loop that the host drives)
            self.machine.drain(self.machine.now)
        return super().download(array)

    def run(self, operation: Operation) -> None:
        if self.machine.running:  # the iterations of a loop
            super().run(operation)
            return
        assert self.is_current()
        blocks = {*operation.reads, *operation.writes}
        for block in blocks:
            assert block.array.gpu == self.number, f"{block} is on GPU {block.array.gpu}"
        if self.machine.graph is not None:
            (operation,) = renamed((operation,), {b: _addressed(b) for b in blocks})
        self.machine.put(lambda: self._now(operation))

    def _now(self, operation: Operation) -> None:
        self.machine.ran.append(self.number)
        super().run(operation)


def _at(array: DeviceArray) -> DeviceArray:
    """What is at the address of an array, even when this does not exist any more."""
    memory = array
    while isinstance(memory, DeviceArray):
        memory = memory.base
    first = array.ctypes.data - memory.ctypes.data
    made = np.ndarray.__new__(DeviceArray, array.shape, array.dtype, memory, first, array.strides)
    made.gpu = array.gpu
    return made


def _addressed(block: Block) -> Block:
    return Block(block.shape, block.dtype, _at(block.array), kind=block.kind,
                 strides=block.strides, dense=block.dense, aligned=block.aligned)  # fmt: skip


class Machine:
    """Several GPUs, and the interface of `backend.cuda.several.peers.Peers` over all of them."""

    memory = 1 << 40

    def __init__(self, count: int, seed: int = 0) -> None:
        self.devices = [PretendedDevice(self, k) for k in range(count)]
        self.now: Place = (0, MAIN)
        self.queues: dict[Place, deque[Step]] = defaultdict(deque)
        #: The queues of a graph that is captured; how many ran.
        self.graph: dict[Place, deque[Step]] | None = None
        self.launched = 0
        #: The GPUs of each graph that was queued.
        self.groups: list[list[int]] = []
        #: Memory that was given back, with the offset of its first byte, by GPU and size.
        self.free: dict[tuple[int, int], list[tuple[Any, int]]] = defaultdict(list)
        self.random = random.Random(seed)
        self.running = False
        #: Bytes that were copied from one GPU to another, and within one.
        self.moved = self.copied = 0
        #: The GPU of every operation, in the order in which they ran.
        self.ran: list[int] = []

    @contextmanager
    def on(self, device: int, lane: int = MAIN) -> Iterator[None]:
        before, self.now = self.now, (device, lane)
        try:
            yield
        finally:
            self.now = before

    def enter(self, device: int) -> None:
        """There is no other stream."""

    leave = enter

    def put(self, act: Act) -> None:
        self._add("do", act)

    def _add(self, kind: str, what: Any) -> None:
        (self.queues if self.graph is None else self.graph)[self.now].append((kind, what))

    def drain(self, place: Place, first: bool = False) -> None:
        """Run until nothing is left in a queue; `first`: others only while it waits for them."""
        if self.graph is not None:
            raise DriverError("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "a queue")
        self._run(self.queues, self.queues[place], first)

    def _run(
        self, queues: dict[Place, deque[Step]], until: deque[Step] | None, first: bool = False
    ) -> None:
        """Run steps until a queue is empty, or all are."""
        while until or (until is None and any(queues.values())):
            ready = [q for q in queues.values() if q]
            self.random.shuffle(ready)
            if first:
                ready.sort(key=lambda q: q is not until)
            for queue in ready:
                kind, what = queue[0]
                if kind == "follow" and not what.reached:
                    continue
                queue.popleft()
                if kind == "mark":
                    what.reached = True
                if kind == "do":
                    before, self.running = self.running, True
                    try:
                        what()
                    finally:
                        self.running = before
                break
            else:
                raise AssertionError("every queue waits for another")

    def mark(self) -> Mark:
        made = Mark()
        self._add("mark", made)
        return made

    def follow(self, mark: Mark) -> None:
        self._add("follow", mark)

    def place(self, array: DeviceArray) -> Hashable:
        return array.ctypes.data, array.strides

    def captured(
        self, work: Callable[[], object], together: bool = True
    ) -> Callable[[], None] | None:
        assert self.graph is None
        graph = self.graph = defaultdict(deque)
        try:
            work()
        except (DriverError, TreadleError):
            return None
        finally:
            self.graph = None
        groups = [range(len(self.devices))]
        if not together:
            groups = [range(d, d + 1) for d in range(len(self.devices))]

        def launch(group: range) -> None:
            queues = {place: queue for place, queue in graph.items() if place[0] in group}
            main = [(device, MAIN) for device in group]

            def act() -> None:
                marks: dict[Any, Mark] = defaultdict(Mark)
                self.launched += 0 in group
                self._run({place: deque((kind, what if kind == "do" else marks[what])
                                        for kind, what in queue)
                           for place, queue in queues.items()}, None)  # fmt: skip

            self._join(main, main[:1])
            with self.on(*main[0]):
                self.put(act)
            self._join(main[:1], main)

        def launches() -> None:
            for group in groups:
                self.groups.append([*group])
                launch(group)

        return launches

    def _join(self, before: Sequence[Place], after: Sequence[Place]) -> None:
        marks = []
        for place in before:
            with self.on(*place):
                marks.append(self.mark())
        for place in after:
            with self.on(*place):
                for mark in marks:
                    self.follow(mark)

    def wait(self) -> None:
        self.drain(self.now)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> DeviceArray:
        return self.devices[self.now[0]].empty(shape, dtype)

    def upload(self, value: np.ndarray) -> DeviceArray:
        return self.devices[self.now[0]].upload(value)

    def download(self, target: np.ndarray, source: DeviceArray) -> None:
        target[...] = self.devices[self.now[0]].download(source)

    def copy(self, target: DeviceArray, source: DeviceArray) -> None:
        assert target.shape == source.shape and target.dtype == source.dtype
        assert isinstance(target, DeviceArray) and isinstance(source, DeviceArray)
        count = ["copied", "moved"][target.gpu != source.gpu]
        setattr(self, count, getattr(self, count) + target.nbytes)
        if self.graph is not None:
            target, source = _at(target), _at(source)

        def act() -> None:
            target[...] = source

        self.put(act)

    def where(self, value: Any) -> int | None:
        return value.gpu if isinstance(value, DeviceArray) else None


class Some:
    """Some of the GPUs of a machine."""

    def __init__(self, machine: Machine, ordinals: Sequence[int]) -> None:
        if max(ordinals) >= len(machine.devices):
            raise BackendUnavailable(f"there is no GPU {max(ordinals)}.")
        self.machine, self.ordinals = machine, tuple(ordinals)

    def on(self, device: int, lane: int = MAIN) -> AbstractContextManager[None]:
        return self.machine.on(self.ordinals[device], lane)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.machine, name)


@contextmanager
def pretended(count: int, seed: int = 0) -> Iterator[Machine]:
    """While it lasts, this process's backend "cuda" has `count` GPUs."""
    from treadle.backend import registry
    from treadle.backend.cuda import availability, executable

    machine = Machine(count, seed)
    before = executable.device_here, executable.peers_of, availability.unavailable
    executable.device_here = lambda: machine.devices[machine.now[0]]
    executable.peers_of = lambda ordinals: Some(machine, ordinals)
    availability.unavailable = lambda: None
    registry.load.cache_clear()
    registry.why_not.cache_clear()
    try:
        yield machine
    finally:
        executable.device_here, executable.peers_of, availability.unavailable = before
        registry.load.cache_clear()
        registry.why_not.cache_clear()


__all__ = ["Machine", "on_device", "pretended"]
