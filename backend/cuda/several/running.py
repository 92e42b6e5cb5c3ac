"""A plan on several GPUs: what each stage copies and computes where, prepared once, then queued.

Work is in stages, as in the plan.  In each, a GPU has work on its main queue, and, at the cuts
between parts, work on a side queue of higher priority:

    main      the chunk, without its halo; then the results of the side queue replace the wrong
              ones near its cuts
    side      copies of the halo from the neighbours, the block at the cut

The main queues follow the user's streams before the first stage, and these the main queues after
the last.  Before a stage, the main queues of the GPUs that others copy from have a mark.  Work
follows the marks of the GPUs whose parts it copies, and a main queue follows the copies of its
parts by others: then memory that is given back to a queue is not in use elsewhere.

The host queues first what needs no copies, so that all GPUs have something to do.  It queues copies
in rounds: in round r, each GPU gets what it needs from the r-th one after it, in the last one its
own.  So the copies of a round have different sources; those from one source, CUDA makes one after
the other, in the order in which they are queued.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from treadle.dsl.expr import Param
from treadle.dsl.graph import Leaf
from treadle.dsl.process.locks import cached

from ...blocks.domain import Axis, Chunks, edges
from ...blocks.stages import Plan, Stage
from ...blocks.tasks import Task, tasks
from ...runtime.run import Params
from ...runtime.types import DeviceArray, DType
from .peers import MAIN, SIDE, Peers

if TYPE_CHECKING:
    from ...blocks.program import BlockProgram

#: Bytes that take longer to copy within a GPU than another queue takes to follow.
LARGE = 1 << 22

Box = tuple[slice, ...]
#: A box, with None for more axes of one element.
Index = tuple[slice | None, ...]


@dataclass
class Parts:
    """An array in parts: in row-major order of its chunks, each on the GPU of that position."""

    chunks: Chunks
    owners: Sequence[int]
    arrays: list[DeviceArray]
    dtype: DType


@dataclass(frozen=True)
class Piece:
    """What a buffer gets of a part."""

    part: int
    owner: int
    source: Box
    target: Box


@dataclass(frozen=True)
class Fetch:
    """How a buffer is made: a view of one part on the same GPU, or a new array of pieces.

    `flat`: the elements in row-major order that the program gets; `shared`: whether all work on a
    GPU gets the same buffer.
    """

    leaf: Leaf
    shape: tuple[int, ...]
    dtype: DType
    pieces: tuple[Piece, ...]
    view: bool
    flat: slice | None
    shared: bool


@dataclass(frozen=True)
class Stored:
    """Where a result goes: it becomes a part (`box` None), or a box of a part of this shape."""

    part: int
    box: Box | None
    shape: tuple[int, ...]
    kept: Index | None


@dataclass(frozen=True)
class Work:
    """A block: where it is computed, from what, and where its results go."""

    device: int
    lane: int
    fetches: tuple[Fetch, ...]
    numbers: tuple[object, ...]
    stored: tuple[Stored, ...]
    #: The GPUs whose parts it copies.
    sources: tuple[int, ...]

    @cached
    def copied(self) -> list[int]:
        """The positions of the fetches that copy."""
        return [k for k, fetch in enumerate(self.fetches) if not fetch.view]

    @cached
    def lane_of_copies(self) -> int:
        """The queue of what it copies from other GPUs: beside others, if it is much."""
        size = 0
        for fetch in self.fetches if self.sources else ():
            for piece in () if fetch.view else fetch.pieces:
                if piece.owner != self.device:
                    lengths = [s.stop - s.start for s in piece.target if s.stop is not None]
                    size += fetch.dtype.itemsize * prod(lengths or fetch.shape)
        return SIDE if size >= LARGE else self.lane


@dataclass
class Prepared:
    """A stage: its work, that without copies first; and the arrays that no later stage reads."""

    program: BlockProgram
    leaves: list[Leaf]
    works: list[Work]
    #: The positions of numbers that are arguments of the call, and their positions there.
    given: list[tuple[int, int]]
    last: list[Leaf] = field(default_factory=list)
    #: The number of blocks that copy nothing.
    alone: int = field(init=False)
    #: The pieces that are copied, in rounds, each with the positions of its work and fetch; and of
    #: each work the position of the last one.
    copies: list[tuple[int, int, Piece]] = field(init=False)
    ends: dict[int, int] = field(init=False)
    #: The GPUs whose parts are copied by others, or beside their own work.
    marked: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.works.sort(key=lambda w: (bool(w.copied), w.lane))
        self.alone = sum(not w.copied for w in self.works)
        copies = [
            (k, n, piece)
            for k, work in enumerate(self.works)
            for n in work.copied
            for piece in work.fetches[n].pieces
        ]
        devices = 1 + max((max(x[2].owner, self.works[x[0]].device) for x in copies), default=0)
        before: Counter[tuple[int, int]] = Counter()
        round_ = []
        for work in self.works:
            round_.append(before[work.device, work.lane])
            before[work.device, work.lane] += bool(work.copied)

        def order(copy: tuple[int, int, Piece]) -> tuple[int, int]:
            return round_[copy[0]], (copy[2].owner - self.works[copy[0]].device - 1) % devices

        self.copies = sorted(copies, key=order)
        self.ends = {k: position for position, (k, *_) in enumerate(self.copies)}
        split_boundary = {w.device for w in self.works if w.lane == SIDE}
        self.marked = sorted(split_boundary.union(*(w.sources for w in self.works)))
        self.replays: dict[int, Callable[..., DeviceArray]] = {}

    def run(
        self, device: int, buffers: Sequence[DeviceArray], numbers: Sequence[object],
        into: Sequence[DeviceArray] | None = None,
    ) -> Sequence[DeviceArray]:  # fmt: skip
        """Queue the program on the current GPU, the `device`-th; its results, in the arrays `into`
        where that is possible."""
        replay = self.replays.get(device)
        found = None if replay is None else replay(*buffers, *numbers, into=into)
        if found is not None:
            return found if isinstance(found, tuple) else (found,)
        made: Sequence[DeviceArray] = self.program.execute(buffers, numbers)
        again = self.program.executable.calls.here().replay([*buffers, *numbers], buffers, numbers)
        if again is not None:
            self.replays[device] = again
        return made


class Schedule:
    """A plan, prepared for GPUs and for where its arguments are."""

    def __init__(
        self, plan: Plan, devices: int, owners: Mapping[Leaf, Sequence[int]],
        given: Mapping[Param, int],
    ) -> None:  # fmt: skip
        """`owners`: the GPU of each part of each argument, and of the constants; `given`: the
        numbers that each call gives anew, with their positions."""
        self.plan, self.devices, self.given = plan, devices, given
        self.owners: dict[Leaf, Sequence[int]] = dict(owners)
        self.stages = [self._stage(stage) for stage in plan.stages]
        last: dict[Leaf, int] = {}
        for k, prepared in enumerate(self.stages):
            last.update((fetch.leaf, k) for w in prepared.works for fetch in w.fetches)
            last.update((leaf, k) for leaf in prepared.leaves if leaf not in last)
        for leaf, k in last.items():
            if leaf not in plan.roots:
                self.stages[k].last.append(leaf)

    # --- preparing ---

    def _stage(self, stage: Stage) -> Prepared:
        blocks = stage.blocks
        several = [a for a in blocks.axes if a.count > 1]
        assert len(several) <= 1, "a kernel is cut along one axis"
        cut = several[0] if several else None
        chunks = [self.plan.chunks[b.leaf] for b in blocks.buffers]
        owners: list[list[int]] = [[0] * prod(map(len, self.plan.chunks[x])) for x in stage.leaves]
        works = []
        for task in tasks(blocks, chunks):
            block = 0 if cut is None or cut.dimension is None else task.position[cut.dimension]
            device = self._device(task, stage, cut, block)
            at_boundary = (
                cut is not None
                and cut.split_boundary
                and block != cut.chunk.index(cut.chunk[block])
            )
            within = at_boundary or (cut is not None and cut.pieces > 1)
            stored = []
            for k, (result, leaf) in enumerate(zip(blocks.results, stage.leaves, strict=True)):
                part, box = self._part_of(result.axes, block, within)
                if not at_boundary:
                    owners[k][part] = device
                shape = _part_shape(part, self.plan.chunks[leaf])
                stored.append(Stored(part, box, shape, _plain(task.block.kept[k])))
            fetches = tuple(
                self._fetch(stage, task, k, device, chunks[k]) for k in range(len(blocks.buffers))
            )
            sources = {p.owner for f in fetches if not f.view for p in f.pieces} - {device}
            works.append(Work(device, SIDE if at_boundary else MAIN, fetches, task.block.numbers,
                              tuple(stored), tuple(sorted(sources))))  # fmt: skip
        self.owners.update(zip(stage.leaves, owners, strict=True))
        params = blocks.program.params
        given = [(k, self.given[p]) for k, p in enumerate(params) if p in self.given]
        return Prepared(blocks.program, stage.leaves, works, given)

    def _device(self, task: Task, stage: Stage, cut: Axis | None, block: int) -> int:
        """Where a block is computed: in as many chunks as there are GPUs, by its number; else where
        most of what it reads is."""
        count = 1 if cut is None else len(cut.sizes)
        chunk = 0 if cut is None else cut.chunk[block]
        if count == self.devices:
            return chunk
        weights = [0] * self.devices
        for buffer, cuts, used in zip(
            stage.blocks.buffers, task.block.cuts, task.chunks, strict=True
        ):
            grid = self.plan.chunks[buffer.leaf]
            for piece, position in zip(
                product(*cuts) if cuts is not None else [()], used, strict=True
            ):
                size = prod(p[1] - p[0] for p in piece)
                if cuts is None:
                    size = prod(sizes[k] for sizes, k in zip(grid, position, strict=True))
                owner = self.owners[buffer.leaf][_number(position, grid)]
                weights[owner] += size * buffer.leaf.type.numpy.itemsize
        most = max(weights)
        if weights.count(most) > 1 and count > 1:
            return chunk * self.devices // count
        return weights.index(most)

    @staticmethod
    def _part_of(axes: Sequence[Axis | None], block: int, within: bool) -> tuple[int, Box | None]:
        """The part that a block computes, and, `within` one, the box of it."""
        part, box = 0, list[slice]()
        for axis in axes:
            if axis is None or axis.count == 1:
                box.append(slice(None))
                continue
            part = axis.chunk[block]
            first = edges(axis.sizes)[part]
            start, stop = int(axis.start.reshape(-1)[block]), int(axis.stop.reshape(-1)[block])
            box.append(slice(start - first, stop - first))
        return part, tuple(box) if within else None

    def _fetch(self, stage: Stage, task: Task, k: int, device: int, grid: Chunks) -> Fetch:
        buffer, cuts, used = stage.blocks.buffers[k], task.block.cuts[k], task.chunks[k]
        owners = self.owners[buffer.leaf]
        flat = task.block.flat[k] if task.block.flat else None
        dtype = buffer.leaf.type.numpy
        if cuts is None:
            part = _number(used[0], grid) if used else 0
            whole = (slice(None),) * len(grid)
            shape = tuple(sizes[p] for sizes, p in zip(grid, used[0], strict=True)) if used else ()
            piece = Piece(part, owners[part], whole, whole)
            view, everything = owners[part] == device, len(owners) == 1
            return Fetch(buffer.leaf, shape, dtype, (piece,), view, flat, everything)
        shape = tuple(along[-1][1] if along else 0 for along in cuts)
        pieces = []
        for at, chunk in zip(product(*cuts), used, strict=True):
            part = _number(chunk, grid)
            source, target = (tuple(slice(p[j], p[j + 1]) for p in at) for j in (2, 0))
            pieces.append(Piece(part, owners[part], source, target))
        view = len(pieces) == 1 and pieces[0].owner == device
        everything = shape == tuple(map(sum, grid)) and bool(pieces) and pieces[0].part == 0
        everything = everything and all(s.start == 0 for s in pieces[0].source)
        return Fetch(buffer.leaf, shape, dtype, tuple(pieces), view, flat, everything)

    # --- running ---

    def run(self, peers: Peers, given: Mapping[Leaf, Parts], params: Params) -> list[Parts]:
        """Queue all stages on arguments in parts; the results in parts."""
        arrays = dict(given)
        for device in range(self.devices):
            peers.enter(device)
        copies: dict[tuple[Leaf, int], DeviceArray] = {}
        for stage in self.stages:
            self._queue(stage, peers, arrays, copies, params)
            for leaf in stage.last:
                del arrays[leaf]
                for device in range(self.devices):
                    copies.pop((leaf, device), None)
        for device in range(self.devices):
            peers.leave(device)
        return [arrays[leaf] for leaf in self.plan.roots]

    def _queue(self, stage: Prepared, peers: Peers, arrays: dict[Leaf, Parts],
               copies: dict[tuple[Leaf, int], DeviceArray], params: Params) -> None:  # fmt: skip
        """Queue a stage."""
        marks: dict[int, DeviceArray] = {}
        for device in stage.marked:
            with peers.on(device):
                marks[device] = peers.mark()
        made = [
            Parts(self.plan.chunks[x], self.owners[x], [None] * len(self.owners[x]), x.type.numpy)
            for x in stage.leaves
        ]
        copied: dict[tuple[int, int], DeviceArray] = {}
        arrived: dict[int, DeviceArray] = {}
        split_boundary: list[tuple[Work, Sequence[DeviceArray], DeviceArray]] = []
        for k, work in enumerate(stage.works):
            if k == stage.alone:
                copied, arrived = self._copied(stage, peers, arrays, copies, marks)
            with peers.on(work.device, work.lane):
                if work.lane == SIDE and k < stage.alone:
                    peers.follow(marks[work.device])
                if work.lane != work.lane_of_copies:
                    peers.follow(arrived[k])
                buffers = [
                    self._buffer(f, copied.get((k, n)), arrays[f.leaf])
                    for n, f in enumerate(work.fetches)
                ]
                numbers = list(work.numbers)
                for n, position in stage.given:
                    numbers[n] = params[position]
                if work.lane == SIDE:
                    split_boundary.append(
                        (work, stage.run(work.device, buffers, numbers), peers.mark())
                    )
                    continue
                into = None
                if any(s.box is not None for s in work.stored):
                    into = [_box_of(p, s, peers) for p, s in zip(made, work.stored, strict=True)]
                found = stage.run(work.device, buffers, numbers, into)
                for n, (parts, array, stored) in enumerate(
                    zip(made, found, work.stored, strict=True)
                ):
                    part = array if stored.kept is None else array[stored.kept]
                    if into is None:
                        parts.arrays[stored.part] = part
                    elif array is not into[n]:
                        peers.copy(into[n], part)
        for work, found, mark in split_boundary:
            with peers.on(work.device):
                peers.follow(mark)
                for parts, array, stored in zip(made, found, work.stored, strict=True):
                    part = array if stored.kept is None else array[stored.kept]
                    peers.copy(parts.arrays[stored.part][stored.box], part)
        for device in stage.marked:
            after = [m for k, m in arrived.items() if device in stage.works[k].sources]
            if after:
                with peers.on(device):
                    for mark in after:
                        peers.follow(mark)
        arrays.update(zip(stage.leaves, made, strict=True))

    @staticmethod
    def _copied(
        stage: Prepared, peers: Peers, arrays: Mapping[Leaf, Parts],
        shared: dict[tuple[Leaf, int], DeviceArray], marks: Mapping[int, DeviceArray],
    ) -> tuple[dict[tuple[int, int], DeviceArray], dict[int, DeviceArray]]:  # fmt: skip
        """Queue the copies of a stage: the buffers, by the positions of their work and fetch, and
        for each work the mark after its copies.

        `shared`: the buffers that all work on a GPU gets.
        """
        made: dict[tuple[int, int], DeviceArray] = {}
        new: set[tuple[int, int]] = set()
        followed: set[tuple[int, int, int]] = set()  # a GPU, its queue, and the GPU of the mark
        large: dict[int, None] = {}
        for k, work in enumerate(stage.works[stage.alone :], stage.alone):
            with peers.on(work.device, work.lane):
                if work.lane == SIDE and (work.device, SIDE, work.device) not in followed:
                    followed.add((work.device, SIDE, work.device))
                    peers.follow(marks[work.device])
                for n in work.copied:
                    fetch, key = work.fetches[n], (work.fetches[n].leaf, work.device)
                    all_get = fetch.shared and work.lane == MAIN
                    array = shared.get(key) if all_get else None
                    if array is None:
                        array = peers.empty(fetch.shape, fetch.dtype)
                        new.add((k, n))
                        if all_get:
                            shared[key] = array
                    made[k, n] = array
            if work.lane != work.lane_of_copies:
                large[work.device] = None
        for device in large:  # before its main queue made room, other arrays may have been there
            with peers.on(device):
                allocated = peers.mark()
            with peers.on(device, SIDE):
                peers.follow(allocated)
        arrived: dict[int, DeviceArray] = {}
        for k_copy, (k, n, piece) in enumerate(stage.copies):
            work = stage.works[k]
            last = k_copy == stage.ends[k] and bool(work.sources)
            lane = work.lane if piece.owner == work.device else work.lane_of_copies
            if (k, n) in new:
                target, source = made[k, n], arrays[work.fetches[n].leaf].arrays[piece.part]
                follows = work.device, lane, piece.owner
                with peers.on(work.device, lane):
                    if piece.owner != work.device and follows not in followed:
                        followed.add(follows)
                        peers.follow(marks[piece.owner])
                    peers.copy(
                        target[piece.target] if piece.target else target,
                        source[piece.source] if piece.source else source,
                    )
            if last:
                with peers.on(work.device, work.lane_of_copies):
                    arrived[k] = peers.mark()
        return made, arrived

    @staticmethod
    def _buffer(fetch: Fetch, copied: DeviceArray | None, parts: Parts) -> DeviceArray:
        """The buffer of a block, on its GPU."""
        made = copied
        if made is None:
            (piece,) = fetch.pieces
            made = parts.arrays[piece.part]
            if any(s != slice(None) for s in piece.source):
                made = made[piece.source]
        return made if fetch.flat is None else made.reshape(-1)[fetch.flat]


def _box_of(parts: Parts, stored: Stored, peers: Peers) -> DeviceArray:
    """The box of a part that a block computes; the first one to do so makes the part."""
    if parts.arrays[stored.part] is None:
        parts.arrays[stored.part] = peers.empty(stored.shape, parts.dtype)
    return parts.arrays[stored.part][stored.box]


def _part_shape(part: int, grid: Chunks) -> tuple[int, ...]:
    """The extents of a part."""
    shape = []
    for sizes in reversed(grid):
        part, k = divmod(part, len(sizes))
        shape.append(sizes[k])
    return tuple(reversed(shape))


def _number(chunk: Sequence[int], grid: Chunks) -> int:
    """The number of a chunk in row-major order."""
    number = 0
    for k, sizes in zip(chunk, grid, strict=True):
        number = number * len(sizes) + k
    return number


def _plain(kept: Index | None) -> Index | None:
    """The part of a program's result that is kept, None for all of it."""
    return None if kept is None or all(s == slice(None) for s in kept) else kept


__all__ = ["Parts", "Schedule"]
