"""The interface of several GPUs: queues of work on each, marks in them, copies between them.

`CudaPeers` (driver.py) are real ones.  The tests have others, over emulated GPUs, whose queues run
in any order that the marks allow.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from ...runtime.types import DeviceArray, DType, HostArray

#: The queues of a GPU: the main one, and a side queue of higher priority.  Neither is a stream of
#: the user's: a copy between GPUs in CUDA's null stream waits for all work of both.
MAIN, SIDE = 0, 1


class Peers(Protocol):
    """Several GPUs, by their position among them."""

    @property
    def ordinals(self) -> Sequence[int]:
        """The number of each among the GPUs of the machine."""

    @property
    def memory(self) -> int:
        """Bytes of memory of the smallest."""

    def on(self, device: int, lane: int = MAIN) -> AbstractContextManager[None]:
        """Inside, `device` is the current GPU, and work goes to one of its queues."""

    def enter(self, device: int) -> None:
        """What is queued on the main queue from now on follows the user's stream of that GPU."""

    def leave(self, device: int) -> None:
        """What is queued on the user's stream from now on follows the main queue of that GPU."""

    def mark(self) -> DeviceArray:
        """An event that is reached when the work queued so far on the current queue is done."""

    def follow(self, mark: DeviceArray) -> None:
        """What is queued on the current queue from now on begins after a mark."""

    def wait(self) -> None:
        """Return when the work of the current queue is done."""

    def empty(self, shape: tuple[int, ...], dtype: DType) -> DeviceArray:
        """An uninitialised dense array on the current GPU."""

    def copy(self, target: DeviceArray, source: DeviceArray) -> None:
        """Queue a copy of an array of any layout on one GPU to one of equal shape on another, or on
        the same."""

    def upload(self, value: HostArray) -> DeviceArray:
        """A dense copy of a host array on the current GPU."""

    def download(self, target: HostArray, source: DeviceArray) -> None:
        """Copy to a host array, after all earlier work on the current queue; it is there on
        return."""

    def place(self, array: DeviceArray) -> Hashable:
        """The address and the layout of an array on a GPU."""

    def captured(
        self, work: Callable[[], object], together: bool = True
    ) -> Callable[[], None] | None:
        """What `work` queues as a graph over all GPUs, or, if no work follows a mark of another
        GPU (not `together`), one for each: a function that queues it again, after what the users'
        streams and the main queues have, and before what they get later.

        The graph keeps the memory that `work` allocates, and knows other arrays by their addresses.
        None if something that `work` does cannot be part of a graph."""

    def where(self, value: DeviceArray) -> int | None:
        """The number among the GPUs of the machine of the one with an array; None if it is on the
        host."""
