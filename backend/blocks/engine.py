"""What a plan of blocks depends on besides the program: where blocks run, and what that costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isqrt, prod

from treadle.dsl.analysis.combines import is_commutative
from treadle.dsl.graph import Fold, Label, Scan
from treadle.dsl.process.configuration import Settings
from treadle.skeletons.lower.fold.cpu import LANE_BLOCK, leaves_of
from treadle.skeletons.lower.fold.rows import is_pinned, runs_across
from treadle.skeletons.lower.fold.traversals import ACROSS_ROWS, BLOCK as LEAF
from treadle.skeletons.lower.scan import cpu as scans

from .domain import Chunks, edges

#: Bytes of a block of results that no array determines.
BLOCK = 64 << 20
#: An exchange has at least `FEWEST` runs, if there are as many chunks, and at most `MOST`, if these
#: are no larger than `LONGEST` bytes.
FEWEST, MOST, LONGEST = 8, 64, 256 << 20
#: Seconds that the engine needs for a task, and a kernel for an iteration of an element.
TASK, ELEMENT = 2e-3, 0.5e-9


@dataclass(frozen=True)
class Engine:
    """Where the blocks of a program are computed.

    `name`: what errors say that they are computed on, and `instead`: what to do; `backend`: that of
    their programs; `allowed`: bytes that a task may use, and `smaller`: what to do if it needs
    more; `choose`: chunks for extents of which no array has any, given the extents and the bytes of
    an element.

    `overhead`: seconds of a task besides those of its kernels; `queueing`: seconds that its kernels
    need at least, as it takes as long to queue those of all tasks; `element`: seconds of an
    iteration of an element; `sent`: bytes that are worth a task that sends them in an exchange
    (0: there are no such tasks).  `gathers`: the chunks of which buffers are put together stay in
    memory beside them.

    `workers`: the threads of other processes that share the blocks (0: none); `latency`: seconds
    until one of them begins what others wait for; `copying`, `moving`: seconds to put together a
    byte of a block, and to send one to another process.

    `iterations`: the most iterations of a loop that a kernel computes in one pass over memory.
    `pieces`, `pipelined`: a block that gets at least `pipelined` bytes of other chunks is computed
    in so many pieces, each while the next one's bytes are copied.

    `separate`: blocks run in other processes, to which Python functions cannot travel.  `single`:
    a kernel is cut along one axis at most, which for results is the first one.
    `split_boundary`: each part of an array stays where it was computed.  A block is therefore
    computed from the local part alone, and the elements near its edges, which need other parts,
    are computed by blocks of their own (`Axis.split_boundary`), while the halo is exchanged.
    `dynamic`: what earlier blocks computed can determine which parts of arrays a block reads
    (`Buffer.windows`), and what is computed at all (`Repeat`, `Either`).
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
        """The sizes of the parts that exchange their elements, of `each` bytes: chunks, or several
        together.  Every part sends a part to every other one, so many small ones cost most."""
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
        """The elements of a leaf of a fold of `count` elements, which are those of arrays in their
        order; None if that is not known."""
        in_order = is_pinned(node) or not is_commutative(node.combine)
        return LANE_BLOCK if in_order else LEAF

    def leaves(self, node: Fold, count: int) -> tuple[Fold, int, bool] | None:
        """How the kernel of a fold of everything groups any elements (see `leaves_of`); None if
        that is not known."""
        return leaves_of(node)

    def part(self, node: Fold, extents: Sequence[int]) -> int | None:
        """The elements of a row or column that the kernel of a fold combines by themselves, before
        it combines such parts; None if that is not known, or rows are not split."""
        across = runs_across(node) and not is_pinned(node) and extents[-1] > ACROSS_ROWS
        return ACROSS_ROWS if across else None

    def grouping(self, node: Fold | Scan, extents: Sequence[int]) -> object:
        """On which the bits of the rows of a fold or scan depend, besides their elements: equal for
        equal rows of arrays of different extents if these have equal bits."""
        if isinstance(node, Fold) or node.axis < len(extents) - 1:
            return None
        # Whether rows are scanned in one piece.
        return prod(extents[:-1]) >= scans.MANY_ROWS or extents[-1] <= scans.BLOCK

    def regrouped(self, label: Label, extents: Sequence[int]) -> Label:
        """The label of a block whose elements are grouped as in an array of these extents, which
        its own would not do."""
        return replace(label, operation=scans.ROWS)


def default_chunks(extents: Sequence[int], itemsize: int, size: int = BLOCK) -> Chunks:
    """Chunks of about `size` bytes for an array of which no other determines any: whole rows."""
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
