"""The engine of a plan: where blocks run, and what that costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isqrt, prod

from treadle.dsl.analysis.combines import is_commutative
from treadle.dsl.graph import Fold, Label, Scan
from treadle.dsl.node import ROWS
from treadle.dsl.process.configuration import Settings
from treadle.skeletons.lower.fold.cpu import LANE_BLOCK, leaves_of
from treadle.skeletons.lower.fold.rows import is_pinned, runs_across
from treadle.skeletons.lower.fold.traversals import ACROSS_ROWS, BLOCK as LEAF
from treadle.skeletons.lower.scan import cpu as scans

from .domain import Chunks, edges

#: Bytes of a block of results if no array determines its size.
BLOCK = 64 << 20
#: An exchange has at least `FEWEST` runs, if there are as many chunks, and at most `MOST`, provided
#: that they are no larger than `LONGEST` bytes.
FEWEST, MOST, LONGEST = 8, 64, 256 << 20
#: Seconds per task of the engine, and per iteration of an element of a kernel.
TASK, ELEMENT = 2e-3, 0.5e-9


@dataclass(frozen=True)
class Engine:
    """Where and how the blocks of a program are computed.

    `name`, `instead`: for errors, the engine and an alternative to it; `backend`: that of the block
    programs; `allowed`: bytes that a task may use, and `smaller`: the remedy if it needs more;
    `choose`: chunks for extents for which no array has any, given the extents and the bytes of an
    element.

    `overhead`: seconds of a task besides its kernels; `queueing`: the least seconds of kernels per
    task that hide the queueing of tasks; `element`: seconds of an iteration of an element; `sent`:
    bytes in an exchange that justify a task of their own to send them (0: there are no such tasks).
    `gathers`: the chunks that buffers are assembled from stay in memory beside them.

    `workers`: the threads of other processes that share the blocks (0: none); `latency`: seconds
    until one of them starts a task that others wait for; `copying`, `moving`: seconds per byte to
    assemble a block, and to send one to another process.

    `iterations`: the most iterations of a loop that a kernel computes in one pass over memory.
    `pieces`, `pipelined`: a block that receives at least `pipelined` bytes of other chunks is
    computed in this many pieces, each while the bytes of the next are copied.

    `separate`: blocks run in other processes, to which Python functions cannot travel.  `single`: a
    kernel is cut along at most one axis, which for results is the first.  `split_boundary`: each
    part of an array stays where it was computed.  A block is therefore computed from the local part
    alone while the halo is exchanged, and separate blocks compute the elements near its edges,
    which need other parts (`Axis.split_boundary`).  `dynamic`: earlier blocks can determine which
    parts of arrays a block reads (`Buffer.windows`), and what is computed at all (`Repeat`,
    `Either`).
    """

    name: str
    backend: str
    settings: Settings
    allowed: int
    choose: Callable[[Sequence[int], int], Chunks]
    instead: str = "Compute this part on a NumPy array, or ask for a part of the data."
    smaller: str = "Give the arrays smaller chunks, x.rechunk(…), or tasks more memory."
    overhead: float = TASK
    queueing: float = 0.0
    iterations: int = 1
    pieces: int = 1
    pipelined: int = 1 << 62
    element: float = ELEMENT
    sent: int = 0
    gathers: bool = False
    workers: int = 0
    latency: float = 0.0
    copying: float = 0.0
    moving: float = 0.0
    separate: bool = True
    single: bool = False
    split_boundary: bool = False
    dynamic: bool = False

    def runs(self, sizes: Sequence[int], each: int) -> tuple[int, ...]:
        """The sizes of the runs, of one or several chunks, that exchange their elements of `each`
        bytes.  Every run sends a part to every other, so many small ones are expensive."""
        total = sum(sizes) * each
        count = MOST
        if self.sent:  # at most three tasks for each chunk
            count = min(isqrt(total // self.sent), isqrt(5 * len(sizes) // 2), MOST)
            count = max(count, FEWEST)
        size = max(min(-(-total // count), LONGEST, self.allowed // 8), 1)
        ends = edges(sizes)
        middle = [(a + b) * each // (2 * size) for a, b in pairwise(ends)]
        found = Counter[int]()
        for group, n in zip(middle, sizes, strict=True):
            found[group] += n
        return tuple(found.values())

    def leaf(self, node: Fold, count: int) -> int | None:
        """The elements per leaf of a fold of `count` elements; None if unknown."""
        in_order = is_pinned(node) or not is_commutative(node.combine)
        return LANE_BLOCK if in_order else LEAF

    def leaves(self, node: Fold, count: int) -> tuple[Fold, int, bool] | None:
        """How the kernel of a full fold groups elements (see `leaves_of`); None if unknown."""
        return leaves_of(node)

    def part(self, node: Fold, extents: Sequence[int]) -> int | None:
        """The elements of a row or column that the kernel of a fold combines into one partial
        result; None if that is unknown or rows are not split."""
        across = runs_across(node) and not is_pinned(node) and extents[-1] > ACROSS_ROWS
        return ACROSS_ROWS if across else None

    def grouping(self, node: Fold | Scan, extents: Sequence[int]) -> object:
        """A key that determines, besides their elements, the bits of the rows of a fold or scan:
        equal for arrays of different extents whose equal rows have equal bits."""
        if isinstance(node, Fold) or node.axis < len(extents) - 1:
            return None
        # Whether rows are scanned in one piece.
        return prod(extents[:-1]) >= scans.MANY_ROWS or extents[-1] <= scans.BLOCK

    def regrouped(self, label: Label, extents: Sequence[int]) -> Label:
        """The label of a block whose rows must be grouped as in an array of these extents."""
        return replace(label, operation=ROWS)


def default_chunks(extents: Sequence[int], itemsize: int, size: int = BLOCK) -> Chunks:
    """Whole rows of about `size` bytes, for an array whose chunks no other determines."""
    room = max(size // itemsize, 1)
    found: list[tuple[int, ...]] = []
    inner = prod(extents)
    for n in extents:
        inner = inner // max(n, 1)
        rows = min(max(room // max(inner, 1), 1), max(n, 1))
        found.append(cut(n, rows))
        room = max(room // rows, 1)
    return tuple(found)


def cut(extent: int, size: int) -> tuple[int, ...]:
    """The sizes of the chunks of an axis, all but the last equal to `size`."""
    if not extent:
        return (0,)
    full, rest = divmod(extent, max(size, 1))
    return (size,) * full + ((rest,) if rest else ())
