"""Calls with large host arrays, one chunk ("piece") of the leading axis at a time.

A program on such arrays is bound by the bus, which is full duplex.  While one piece is computed,
the next is uploaded and the results of the previous one are downloaded.  The device stores only a
few pieces, however long the arrays are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from treadle.skeletons.lower.pieces import Pieces

from ..runtime.memory import POOL
from ..runtime.run import Params
from .graphs.tape import Direct
from .running import DeviceRun

if TYPE_CHECKING:
    from .calls import RecordedCalls, Recording
    from .device.device import Lanes, Transfer
    from .executable import CudaExecutor

#: LARGE: a call is split into at least two pieces if its largest input or output has at least this
#: many bytes.  PIECE: maximum bytes of a piece.  √(ab + 1) on an H200: arrays of 256 MB take 19.3
#: to 21.1 ms unsplit and 15.2 to 15.3 in pieces; with copy buffers of 1 MB (4 MB), arrays of 32 MB
#: take 4.5 (6.4) unsplit and 3.2 (4.2) in two pieces, arrays of 64 MB 7.5 (8.2) and 6.0 (5.6).
LARGE = 32 << 20
PIECE = 32 << 20
#: Pieces with more rows than this have a multiple of it, so that vectors are not split.
MULTIPLE = 256
#: Minimum rows of a piece per row that it shares with its neighbours.
SHARED = 8
#: Number of pieces whose inputs (and whose results) are on the device at a time.
HELD = 2


@dataclass(frozen=True)
class Piece:
    """Rows `first` … `last` − 1 of the results, from rows `start` … `stop` − 1 of the inputs."""

    first: int
    last: int
    start: int
    stop: int


def cut(length: int, rows: int, how: Pieces) -> list[Piece]:
    """The pieces of an axis, with `rows` rows each except for the last.

    >>> cut(5, 3, Pieces((0,), before=1))
    [Piece(first=0, last=3, start=0, stop=3), Piece(first=3, last=5, start=2, stop=5)]
    """
    return [
        Piece(first, min(first + rows, length), max(first - how.before, 0),
              min(first + rows + how.after, length))
        for first in range(0, length, rows)
    ]  # fmt: skip


class PiecewiseCalls:
    """Splits calls of a program into pieces where that pays off."""

    def __init__(self, owner: CudaExecutor, calls: RecordedCalls, how: Pieces) -> None:
        """`calls` makes the call of each piece."""
        self.owner, self.of_pieces, self.how, self.cut = owner, calls, how, frozenset(how.cut)
        program = owner.program
        self.types = [leaf.type.numpy for leaf in program.roots]
        shapes = [e for leaf in program.roots for e in leaf.shape]
        self.ranks = [len(leaf.shape) for leaf in program.roots]
        self.shapes = owner.host.compile(shapes)
        self.grouped = owner.host.compile(how.grouped)

    def results(self, arrays: Sequence[Any], params: Params) -> list[tuple[int, ...]]:
        found, positions = list(self.shapes(arrays, params)), []
        for rank in self.ranks:
            positions.append(tuple(max(int(n), 0) for n in found[:rank]))
            del found[:rank]
        return positions

    def pieces(self, arrays: Sequence[Any], params: Params,
               shapes: Sequence[tuple[int, ...]]) -> list[Piece]:  # fmt: skip
        """The pieces of a call; empty if splitting does not pay off or is not possible."""
        if not shapes:
            return []
        cut_arrays = [arrays[k] for k in self.how.cut]
        sizes = [a.nbytes for a in cut_arrays]
        sizes += [prod(s) * t.itemsize for s, t in zip(shapes, self.types, strict=True)]
        largest, length = max(sizes), shapes[0][0]
        if largest < LARGE or any(a.shape[0] != length for a in cut_arrays):
            return []
        rows = max(min(PIECE * length // largest, length // 2), 1)
        if rows > MULTIPLE:
            rows -= rows % MULTIPLE
        if rows >= length or rows < SHARED * (self.how.before + self.how.after):
            return []
        made = cut(length, rows, self.how)
        if self.how.grouped:
            wanted = self.grouped(arrays, params)
            for piece in {p.stop - p.start: p for p in made}.values():
                if self.grouped(self.rows(arrays, piece), params) != wanted:
                    return []
        return made

    def rows(self, arrays: Sequence[Any], piece: Piece) -> list[Any]:
        return [a[piece.start : piece.stop] if k in self.cut else a for k, a in enumerate(arrays)]

    def __call__(self, arrays: Sequence[Any], params: Params) -> list[Any] | None:
        """The results for host arrays; None if the call should not be split."""
        shapes = self.results(arrays, params)
        pieces = self.pieces(arrays, params, shapes)
        if not pieces:
            return None
        self.owner.verify(DeviceRun(Direct(self.owner.device), list(arrays), params))
        return _Call(self, arrays, params, shapes, pieces).results()


class _Call:
    """One call in pieces."""

    def __init__(self, owner: PiecewiseCalls, arrays: Sequence[Any], params: Params,
                 shapes: Sequence[tuple[int, ...]], pieces: Sequence[Piece]) -> None:  # fmt: skip
        self.owner, self.device, self.cut = owner, owner.owner.device, owner.cut
        self.arrays, self.params, self.pieces = arrays, params, pieces
        device, longest = self.device, max(p.stop - p.start for p in pieces)
        # Recording and uploading may need the lanes, so both precede `lanes()`.
        self.recorded = [self._recorded(p) for p in pieces]
        used = self.recorded[0][0]
        self.wholes = {k: device.upload(arrays[k]) for k in used if k not in self.cut}
        self.slots = [
            {k: device.empty((longest, *arrays[k].shape[1:]), arrays[k].dtype)
             for k in used if k in self.cut}
            for _ in range(HELD)
        ]  # fmt: skip
        self.outs = [POOL.allocate(s, t) for s, t in zip(shapes, owner.types, strict=True)]
        #: Transfers of pieces in progress: uploads and downloads.
        self.sent: deque[list[Transfer]] = deque()
        self.fetched: deque[list[Transfer]] = deque()

    def results(self) -> list[Any]:
        """Compute all pieces, overlapping computation with copies."""
        with self.device.lanes() as lanes:
            self.free = [self.device.mark()] * HELD
            self._send(lanes, 0)
            for number in range(len(self.pieces)):
                self._piece(lanes, number)
            while self.fetched:
                self._end(self.fetched)
        return self.outs

    def _piece(self, lanes: Lanes, number: int) -> None:
        """Upload the next piece, compute this one, fetch its results."""
        piece, slot = self.pieces[number], number % HELD
        if number + 1 < len(self.pieces):
            self._send(lanes, number + 1)
        used, constants, run, _ = self.recorded[number]
        size = piece.stop - piece.start
        given = [self.slots[slot][k][:size] if k in self.cut else self.wholes[k] for k in used]
        self._end(self.sent)
        while len(self.fetched) >= HELD:
            self._end(self.fetched)
        found = run(given + constants, self.params)
        done = self.free[slot] = self.device.mark()
        own = slice(piece.first - piece.start, piece.last - piece.start)
        self.fetched.append([
            lanes.fetch(out[piece.first : piece.last], array[own], done)
            for out, array in zip(self.outs, found, strict=True)
        ])  # fmt: skip

    def _send(self, lanes: Lanes, number: int) -> None:
        piece, slot = self.pieces[number], number % HELD
        self.sent.append([
            lanes.send(memory[: piece.stop - piece.start], self.arrays[k][piece.start : piece.stop],
                       self.free[slot])
            for k, memory in self.slots[slot].items()
        ])  # fmt: skip

    def _recorded(self, piece: Piece) -> Recording:
        """The recording of the program for a piece of this size."""
        arrays = self.owner.rows(self.arrays, piece)
        key = [*(a.shape for a in arrays), False]
        return self.owner.of_pieces.recording(arrays, self.params, key)

    @staticmethod
    def _end(transfers: deque[list[Transfer]]) -> None:
        """Wait for the oldest of these transfers."""
        for transfer in transfers.popleft():
            transfer.finish()
