"""Work on several streams of a GPU, ordered by the memory that each task accesses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from .launching import address_of


class Lane(Protocol):
    """A stream."""

    def mark(self) -> Any:
        """An event that is reached when everything queued so far is done."""

    def wait(self, event: Any) -> None:
        """Make work queued from now on wait for an event of another lane."""

    def run(self, action: Callable[[], None]) -> None:
        """Run the action, which queues work on this lane."""


class Region(NamedTuple):
    """The memory of a matrix: `width` bytes in every `pitch`, from `first` to `end` (exclusive)."""

    first: int
    end: int
    pitch: int
    width: int

    def overlaps(self, other: Region) -> bool:
        """Whether they may overlap; adjacent blocks of one matrix do not."""
        if self.end <= other.first or other.end <= self.first:
            return False
        if self.pitch != other.pitch:
            return True
        between = (other.first - self.first) % self.pitch
        return between < self.width or between + other.width > self.pitch


def region(x: Any) -> Region:
    """The region of a two-dimensional array."""
    axes = sorted((abs(step), n) for step, n in zip(x.strides, x.shape, strict=True) if n > 1)
    lengths = [step * (n - 1) for step, n in axes]
    backwards = (step * (n - 1) for step, n in zip(x.strides, x.shape, strict=True) if step < 0)
    first = address_of(x) + sum(backwards)
    size = sum(lengths) + x.itemsize
    if len(axes) == 2:
        return Region(first, first + size, axes[1][0], lengths[0] + x.itemsize)
    return Region(first, first + size, size, size)


class _Piece(NamedTuple):
    reads: Sequence[Region]
    writes: Sequence[Region]
    event: Any

    def before(self, reads: Sequence[Region], writes: Sequence[Region]) -> bool:
        """Whether work that reads and writes these regions must run after this task."""
        return any(x.overlaps(y) for x in self.writes for y in (*reads, *writes)) or any(
            x.overlaps(y) for x in self.reads for y in writes
        )


class Flow:
    """Products alternate between the first two lanes; sums use the third.  So another product
    starts on multiprocessors that the tail of a product leaves idle, and the sums of later products
    run concurrently with the current one.

    All lanes run after the work queued on the first lane before; `finish` makes the first lane wait
    for the others.
    """

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self.lanes, self.next = lanes, 0
        self.queued: list[list[_Piece]] = [[] for _ in lanes]
        #: By lane and other lane: how many tasks of the other are known to run before.
        self.seen = [[0] * len(lanes) for _ in lanes]
        start = lanes[0].mark()
        for lane in lanes[1:]:
            lane.wait(start)

    def issue(self, sums: bool, reads: Sequence[Any], writes: Sequence[Any],
              action: Callable[[], None]) -> None:  # fmt: skip
        """Queue an action that reads and writes these arrays."""
        at = 2 if sums else self.next
        self.next ^= not sums
        lane, old, new = self.lanes[at], [region(x) for x in reads], [region(x) for x in writes]
        for number, pieces in enumerate(self.queued):
            if number == at:
                continue
            for k in range(len(pieces) - 1, self.seen[at][number] - 1, -1):
                if pieces[k].before(old, new):
                    lane.wait(pieces[k].event)
                    self.seen[at][number] = k + 1
                    break
        lane.run(action)
        self.queued[at].append(_Piece(old, new, lane.mark()))

    def finish(self) -> None:
        """Make the first lane wait for the others."""
        for pieces in self.queued[1:]:
            if pieces:
                self.lanes[0].wait(pieces[-1].event)


class Stream:
    """A CuPy stream as a lane."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def mark(self) -> Any:
        import cupy

        event = cupy.cuda.Event(disable_timing=True)
        event.record(self.stream)
        return event

    def wait(self, event: Any) -> None:
        self.stream.wait_event(event)

    def run(self, action: Callable[[], None]) -> None:
        with self.stream:
            action()


def flow_here() -> Flow:
    """A flow whose first lane is the current stream."""
    import cupy

    here = Stream(cupy.cuda.get_current_stream())
    return Flow([here, *_other_streams(cupy.cuda.Device().id)])


@lru_cache(maxsize=16)
def _other_streams(device: int) -> tuple[Stream, Stream]:
    """Two additional streams of a device; the second has priority over products."""
    import cupy

    return (Stream(cupy.cuda.Stream(non_blocking=True)),
            Stream(cupy.cuda.Stream(non_blocking=True, priority=-5)))  # fmt: skip
