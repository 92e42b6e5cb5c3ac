"""Work on several streams of a GPU, kept in order by the memory that each piece of it touches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from ..products.engine import address_of


class Lane(Protocol):
    """A stream."""

    def mark(self) -> Any:
        """An event: everything that was queued so far is done."""
        ...

    def wait(self, event: Any) -> None:
        """What is queued from now on comes after an event of another lane."""
        ...

    def run(self, action: Callable[[], None]) -> None:
        """Queue what the action queues."""
        ...


class Region(NamedTuple):
    """Memory of a matrix: from `first` to before `end`; `width` bytes in every `pitch`."""

    first: int
    end: int
    pitch: int
    width: int

    def meets(self, other: Region) -> bool:
        """Whether they may share a byte: blocks of one matrix beside each other do not."""
        if self.end <= other.first or other.end <= self.first:
            return False
        if self.pitch != other.pitch:
            return True
        between = (other.first - self.first) % self.pitch
        return between < self.width or between + other.width > self.pitch


def region(x: Any) -> Region:
    """Of a two-dimensional array."""
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
        """Whether work that reads and writes these has to come after it."""
        return any(x.meets(y) for x in self.writes for y in (*reads, *writes)) or any(
            x.meets(y) for x in self.reads for y in writes
        )


class Flow:
    """Products take turns on the first two lanes, sums have the third: the end of a product, when
    multiprocessors have nothing to do, is the beginning of another one, and sums of later products
    are made beside the present one.

    The first lane comes after all that was queued on it before, and is what `finish` leaves
    everything on.
    """

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self.lanes, self.turn = lanes, 0
        self.queued: list[list[_Piece]] = [[] for _ in lanes]
        #: By lane and other lane: how many pieces of the other are known to come before.
        self.seen = [[0] * len(lanes) for _ in lanes]
        start = lanes[0].mark()
        for lane in lanes[1:]:
            lane.wait(start)

    def issue(self, sums: bool, reads: Sequence[Any], writes: Sequence[Any],
              action: Callable[[], None]) -> None:  # fmt: skip
        """Queue what reads and writes these arrays."""
        at = 2 if sums else self.turn
        self.turn ^= not sums
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
        """The first lane waits for the others."""
        for pieces in self.queued[1:]:
            if pieces:
                self.lanes[0].wait(pieces[-1].event)


class Stream:
    """A stream of CuPy as a lane."""

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
    """From the current stream on."""
    import cupy

    here = Stream(cupy.cuda.get_current_stream())
    return Flow([here, *_beside(cupy.cuda.Device().id)])


@lru_cache(maxsize=16)
def _beside(device: int) -> tuple[Stream, Stream]:
    """Two more streams of a device; what is on the second takes room before products do."""
    import cupy

    return (Stream(cupy.cuda.Stream(non_blocking=True)),
            Stream(cupy.cuda.Stream(non_blocking=True, priority=-5)))  # fmt: skip
