"""A machine with several GPUs made of NumPy, whose queues run in any order that marks allow.

Nothing runs before somebody waits for it; then queues take turns at random.  So work that should
follow a copy of another GPU, and does not say so, reads what has not arrived.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from tests.backend.cuda.emulated import DeviceArray, EmulatedDevice, on_device
from treadle.backend.cuda.device.device import Operation
from treadle.backend.cuda.several.peers import MAIN
from treadle.dsl.errors import BackendUnavailable


class Mark:
    """An event of a queue."""

    reached = False


Step = Callable[[], bool]
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
        return self._own(super().empty(shape, dtype))

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
        for block in (*operation.reads, *operation.writes):
            assert block.array.gpu == self.number, f"{block} is on GPU {block.array.gpu}"
        self.machine.put(lambda: self._now(operation))

    def _now(self, operation: Operation) -> None:
        self.machine.ran.append(self.number)
        super().run(operation)


class Machine:
    """Several GPUs, and the interface of `backend.cuda.several.peers.Peers` over all of them."""

    memory = 1 << 40

    def __init__(self, count: int, seed: int = 0) -> None:
        self.devices = [PretendedDevice(self, k) for k in range(count)]
        self.now: Place = (0, MAIN)
        self.queues: dict[Place, deque[Step]] = {}
        self.random = random.Random(seed)
        self.running = False
        #: Bytes that were copied from one GPU to another.
        self.moved = 0
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

    def put(self, act: Callable[[], None]) -> None:
        def step() -> bool:
            self.running = True
            try:
                act()
            finally:
                self.running = False
            return True

        self._queue(self.now).append(step)

    def _queue(self, place: Place) -> deque[Step]:
        return self.queues.setdefault(place, deque())

    def drain(self, place: Place, first: bool = False) -> None:
        """Run until nothing is left in a queue; `first`: others only while it waits for them."""
        while self._queue(place):
            ready = [q for q in self.queues.values() if q]
            self.random.shuffle(ready)
            if first:
                ready.sort(key=lambda q: q is not self._queue(place))
            for queue in ready:
                if queue[0]():
                    queue.popleft()
                    break
            else:
                raise AssertionError("every queue waits for another")

    def mark(self) -> Mark:
        made = Mark()
        self.put(lambda: setattr(made, "reached", True))
        return made

    def follow(self, mark: Mark) -> None:
        self._queue(self.now).append(lambda: mark.reached)

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
        if target.gpu != source.gpu:
            self.moved += target.nbytes

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
