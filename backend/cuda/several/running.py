"""A plan on several GPUs: what each GPU copies and computes in each stage; prepared, then queued.

Work is in stages, as in the plan.  In a stage a GPU has work on its main queue and, at the cuts
between parts, on a side queue of higher priority:

    main      the chunk, without its halo; then the side queue's results overwrite the elements
              near its cuts, which are wrong without the halo
    side      copies of the halo from the neighbours, then the block at the cut

Parts that this call allocates have room for a halo around them, if a later stage needs one.  The
halo is then copied into that room, and one block computes the chunk together with it.

The main queues follow the user's streams before the first stage, and the user's streams follow the
main queues after the last.  Before a stage, the main queue of each GPU that others copy from
records a mark.  Work follows the marks of the GPUs whose parts it copies, and a main queue follows
the copies that others make of its parts; memory that is freed on a queue is therefore not in use on
another.

The host first queues work that needs no copies, so that all GPUs are busy.  It then queues copies
in rounds: in round r, each GPU copies from the r-th GPU after it; in the last round, from itself.
The copies of a round thus have different sources; CUDA serialises copies from one source in the
order in which they are queued.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from treadle.dsl.errors import DeviceOutOfMemory
from treadle.dsl.expr import Param
from treadle.dsl.graph import Leaf
from treadle.dsl.process.locks import cached
from treadle.dsl.process.recent import Recent

from ...blocks.buffers import Whole
from ...blocks.domain import Axis, Chunks, edges
from ...blocks.stages import Plan, Stage
from ...blocks.tasks import Task, tasks
from ...runtime.run import Params
from ...runtime.types import DeviceArray, DType
from .peers import MAIN, SIDE, Peers

if TYPE_CHECKING:
    from ...blocks.program import BlockProgram

#: Copies of at least this many bytes within a GPU take longer than a wait for another queue.
LARGE = 1 << 22

#: The maximum number of graphs per schedule, and of calls remembered to see whether they recur.
GRAPHS, SEEN = 4, 16

Box = tuple[slice, ...]
#: A box, with None where the array has an additional axis of extent 1.
Index = tuple[slice | None, ...]


@dataclass
class Parts:
    """An array in parts, in row-major order of its chunks; part k is on the GPU `owners[k]`.

    `rooms`: for a part with margins around it (`Margins`), the array that includes them."""

    chunks: Chunks
    owners: Sequence[int]
    arrays: list[DeviceArray]
    dtype: DType
    rooms: list[DeviceArray] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rooms = self.rooms or [None] * len(self.arrays)


#: Rows before and after a part, along the axis that is cut.
Margins = tuple[int, int]


@dataclass(frozen=True)
class Piece:
    """A box of a part, and where it is copied in a buffer."""

    part: int
    owner: int
    source: Box
    target: Box


@dataclass(frozen=True)
class Fetch:
    """How the buffer of a block is made: a view of a part on the same GPU, or a copy of pieces.

    `flat`: the program gets these elements in row-major order; `shared`: all work on a GPU can use
    the same buffer; `halo`: the margins by which the buffer exceeds the local part, which is `own`.
    """

    leaf: Leaf
    shape: tuple[int, ...]
    dtype: DType
    pieces: tuple[Piece, ...]
    view: bool
    flat: slice | None
    shared: bool
    halo: Margins | None = None
    own: Piece | None = None


@dataclass(frozen=True)
class Stored:
    """Where a result goes: to a complete part (`box` None), or to a box of a part of this shape.
    `kept`: the elements of the result that are stored; the rest is the halo, of size `halo`."""

    part: int
    box: Box | None
    shape: tuple[int, ...]
    kept: Index | None
    halo: Margins | None


@dataclass(frozen=True)
class Work:
    """A block: where it is computed, from what, and where its results go."""

    device: int
    lane: int
    fetches: tuple[Fetch, ...]
    numbers: tuple[object, ...]
    stored: tuple[Stored, ...]
    #: The other GPUs from whose parts it copies.
    sources: tuple[int, ...]

    @cached
    def copied(self) -> list[int]:
        """The positions of the fetches that copy."""
        return [k for k, fetch in enumerate(self.fetches) if not fetch.view]

    @cached
    def lane_of_copies(self) -> int:
        """The queue of copies from other GPUs: large copies are on the side queue."""
        size = 0
        for fetch in self.fetches if self.sources else ():
            for piece in () if fetch.view else fetch.pieces:
                if piece.owner != self.device:
                    lengths = [s.stop - s.start for s in piece.target if s.stop is not None]
                    size += fetch.dtype.itemsize * prod(lengths or fetch.shape)
        return SIDE if size >= LARGE else self.lane


@dataclass
class Prepared:
    """A stage: its work, sorted so that work without copies is first, and the arrays that no later
    stage reads (`last`)."""

    program: BlockProgram
    leaves: list[Leaf]
    works: list[Work]
    #: Which of the program's numbers are arguments of the call, and at which position there.
    given: list[tuple[int, int]]
    last: list[Leaf] = field(default_factory=list)
    #: The number of blocks that copy nothing.
    alone: int = field(init=False)
    #: The pieces to copy, in rounds, each with the positions of its work and fetch; and for each
    #: work the position of its last copy.
    copies: list[tuple[int, int, Piece]] = field(init=False)
    ends: dict[int, int] = field(init=False)
    #: The GPUs whose main queues record a mark: others copy their parts, or their side queue works.
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

    def run(
        self, buffers: Sequence[DeviceArray], numbers: Sequence[object],
        into: Sequence[DeviceArray] | None = None,
    ) -> Sequence[DeviceArray]:  # fmt: skip
        """Queue the program on the current GPU.  Its results are in the arrays `into` where that is
        possible."""
        made: Sequence[DeviceArray] = self.program.executable.calls(buffers, numbers, into)
        return made


class Schedule:
    """A plan prepared for a number of GPUs and a placement of its arguments."""

    def __init__(
        self, plan: Plan, devices: int, owners: Mapping[Leaf, Sequence[int]],
        given: Mapping[Param, int],
    ) -> None:  # fmt: skip
        """`owners`: the GPU of each part of each argument and constant; `given`: the numbers that
        change between calls, with their positions."""
        self.plan, self.devices, self.given = plan, devices, given
        self.owners: dict[Leaf, Sequence[int]] = dict(owners)
        #: The margins of parts.
        self.margins: dict[Leaf, Margins] = {}
        self.stages = [self._stage(stage) for stage in plan.stages]
        self.constants: dict[Leaf, Parts] = {}
        #: The results that are computed (others are arguments).
        self.made = [x for x in dict.fromkeys(plan.roots) if x not in owners]
        self.graphs = Recent[Hashable, Callable[[], None]](GRAPHS)
        self.seen = Recent[Hashable, None](SEEN)
        self.capturable = True
        self.together = any(w.sources for stage in self.stages for w in stage.works)
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
                kept = _plain(task.block.kept[k])
                halo = None
                if kept is not None and box is None:
                    halo = _halo_of(result.axes, block, shape, leaf.type.numpy)
                self._widen(leaf, halo)
                stored.append(Stored(part, box, shape, kept, halo))
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
        """The GPU that computes a block: that of the block's chunk if there are as many chunks as
        GPUs, else the one that holds most of what the block reads."""
        count = 1 if cut is None else len(cut.sizes)
        chunk = 0 if cut is None else cut.chunk[block]
        if count == self.devices:
            return chunk
        weights = [0] * self.devices
        for buffer, cuts, used in zip(
            stage.blocks.buffers, task.block.cuts, task.chunks, strict=True
        ):
            grid = self.plan.chunks[buffer.leaf]
            if isinstance(cuts, Whole):
                sizes = [prod(cuts.shape)]
            else:
                sizes = [prod(p[1] - p[0] for p in piece) for piece in product(*cuts)]
            for size, position in zip(sizes, used, strict=True):
                owner = self.owners[buffer.leaf][_number(position, grid)]
                weights[owner] += size * buffer.leaf.type.numpy.itemsize
        most = max(weights)
        if weights.count(most) > 1 and count > 1:
            return chunk * self.devices // count
        return weights.index(most)

    @staticmethod
    def _part_of(axes: Sequence[Axis | None], block: int, within: bool) -> tuple[int, Box | None]:
        """The part that a block computes and, if it computes less than the part (`within`), the
        box."""
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
        if isinstance(cuts, Whole):
            part = _number(used[0], grid) if used else 0
            whole = (slice(None),) * len(grid)
            piece = Piece(part, owners[part], whole, whole)
            view, everything = owners[part] == device, len(owners) == 1
            return Fetch(buffer.leaf, cuts.shape, dtype, (piece,), view, flat, everything)
        shape = tuple(along[-1][1] if along else 0 for along in cuts)
        pieces = []
        for at, chunk in zip(product(*cuts), used, strict=True):
            part = _number(chunk, grid)
            source, target = (tuple(slice(p[j], p[j + 1]) for p in at) for j in (2, 0))
            pieces.append(Piece(part, owners[part], source, target))
        view = len(pieces) == 1 and pieces[0].owner == device
        everything = shape == tuple(map(sum, grid)) and bool(pieces) and pieces[0].part == 0
        everything = everything and all(s.start == 0 for s in pieces[0].source)
        halo, own = None, None
        if not view and flat is None and buffer.leaf not in self.plan.given:
            halo, own = _around(pieces, shape, grid, device, dtype)
            self._widen(buffer.leaf, halo)
        return Fetch(buffer.leaf, shape, dtype, tuple(pieces), view, flat, everything, halo, own)

    def _widen(self, leaf: Leaf, halo: Margins | None) -> None:
        """Enlarge the margins of an array's parts for a halo."""
        if halo is not None:
            had = self.margins.get(leaf, (0, 0))
            self.margins[leaf] = max(had[0], halo[0]), max(had[1], halo[1])

    # --- running ---

    def run(self, peers: Peers, given: Mapping[Leaf, Parts], params: Params) -> list[Parts]:
        """Queue all stages on arguments in parts; return the results in parts."""
        arrays = self._by_graph(peers, given, params) if self.capturable else None
        if arrays is None:
            arrays = self._queued(peers, given, params, {})
        return [arrays[leaf] for leaf in self.plan.roots]

    def _by_graph(
        self, peers: Peers, given: Mapping[Leaf, Parts], params: Params
    ) -> dict[Leaf, Parts] | None:
        """All results, by a graph for these addresses and numbers; it is captured when they recur.
        None if memory does not suffice for all results at once."""
        try:
            made = {leaf: self._empty(leaf, peers) for leaf in self.made}
            arrays = [a for x in (given, made) for parts in x.values() for a in parts.arrays]
            numbers = (np.asarray(params[k]).tobytes() for k in self.given.values())
            key = (*map(peers.place, arrays), *numbers)
            graph = self.graphs.get(key)
            if graph is None and not self.seen.seen(key):
                return self._queued(peers, given, params, made)
            if graph is None:
                graph = peers.captured(
                    lambda: self._stages(peers, given, params, made, fixed=True), self.together
                )
                if graph is None:
                    self.capturable = False
                    return self._queued(peers, given, params, made)
                self.graphs[key] = graph
        except DeviceOutOfMemory:
            self.capturable = False
            self.graphs.clear()
            return None
        graph()
        return {**given, **made}

    def _empty(self, leaf: Leaf, peers: Peers) -> Parts:
        """Allocate a result."""
        chunks, owners = self.plan.chunks[leaf], self.owners[leaf]
        made = Parts(chunks, owners, [None] * len(owners), leaf.type.numpy)
        for part, device in enumerate(owners):
            with peers.on(device):
                self._part(leaf, made, part, _part_shape(part, chunks), peers)
        return made

    def _part(
        self, leaf: Leaf, parts: Parts, part: int, shape: tuple[int, ...], peers: Peers
    ) -> DeviceArray:
        """A part; it is allocated on first use, with its margins."""
        if parts.arrays[part] is None:
            margins = self.margins.get(leaf)
            if margins is None:
                parts.arrays[part] = peers.empty(shape, parts.dtype)
            else:
                axis = _axis(parts.chunks)
                parts.rooms[part] = peers.empty(_longer(shape, axis, margins), parts.dtype)
                inner = slice(margins[0], margins[0] + shape[axis])
                parts.arrays[part] = _along(parts.rooms[part], axis, inner)
        return parts.arrays[part]

    def _roomy(
        self, leaf: Leaf, parts: Parts, part: int, halo: Margins | None
    ) -> DeviceArray | None:
        """A part with this halo around it; None if its margins were not allocated."""
        if halo is None or parts.rooms[part] is None:
            return None
        axis, first = _axis(parts.chunks), self.margins[leaf][0]
        inner = slice(first - halo[0], first + parts.arrays[part].shape[axis] + halo[1])
        return _along(parts.rooms[part], axis, inner)

    def _target(self, leaf: Leaf, parts: Parts, stored: Stored, peers: Peers) -> DeviceArray:
        """The array that the program may store a block's result in."""
        part = self._part(leaf, parts, stored.part, stored.shape, peers)
        if stored.box is not None:
            return part[stored.box]
        return part if stored.halo is None else self._roomy(leaf, parts, stored.part, stored.halo)

    def _queued(
        self, peers: Peers, given: Mapping[Leaf, Parts], params: Params, made: Mapping[Leaf, Parts]
    ) -> dict[Leaf, Parts]:
        """Queue all stages after the users' streams, and make these follow all stages."""
        for device in range(self.devices):
            peers.enter(device)
        arrays = self._stages(peers, given, params, made, fixed=False)
        for device in range(self.devices):
            peers.leave(device)
        return arrays

    def _stages(
        self, peers: Peers, given: Mapping[Leaf, Parts], params: Params,
        made: Mapping[Leaf, Parts], *, fixed: bool,
    ) -> dict[Leaf, Parts]:  # fmt: skip
        """Queue all stages.  `made`: memory for some of the results; unless it is `fixed`, a part
        may be replaced by the array that the program returned."""
        arrays = dict(given)
        copies: dict[tuple[Leaf, int], DeviceArray] = {}
        for stage in self.stages:
            self._queue(stage, peers, arrays, copies, params, made, fixed)
            for leaf in stage.last:
                del arrays[leaf]
                for device in range(self.devices):
                    copies.pop((leaf, device), None)
        return arrays

    def _queue(self, stage: Prepared, peers: Peers, arrays: dict[Leaf, Parts],
               copies: dict[tuple[Leaf, int], DeviceArray], params: Params,
               results: Mapping[Leaf, Parts], fixed: bool) -> None:  # fmt: skip
        marks: dict[int, DeviceArray] = {}
        for device in stage.marked:
            with peers.on(device):
                marks[device] = peers.mark()
        made = [
            results[x] if x in results
            else Parts(self.plan.chunks[x], self.owners[x], [None] * len(self.owners[x]),
                       x.type.numpy)
            for x in stage.leaves
        ]  # fmt: skip
        placed = any(x in results or x in self.margins for x in stage.leaves)
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
                    split_boundary.append((work, stage.run(buffers, numbers), peers.mark()))
                    continue
                into = None
                if (placed or any(s.box is not None for s in work.stored)) and all(
                    s.kept is None or s.halo is not None for s in work.stored
                ):
                    into = [
                        self._target(leaf, parts, stored, peers)
                        for leaf, parts, stored in zip(stage.leaves, made, work.stored, strict=True)
                    ]
                found = stage.run(buffers, numbers, into)
                for n, (parts, array, stored) in enumerate(
                    zip(made, found, work.stored, strict=True)
                ):
                    if into is not None and array is into[n]:
                        continue
                    part = array if stored.kept is None else array[stored.kept]
                    leaf = stage.leaves[n]
                    if stored.box is None and not (fixed and leaf in results):
                        parts.arrays[stored.part], parts.rooms[stored.part] = part, None
                    else:
                        whole = self._part(leaf, parts, stored.part, stored.shape, peers)
                        peers.copy(whole if stored.box is None else whole[stored.box], part)
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

    def _copied(
        self, stage: Prepared, peers: Peers, arrays: Mapping[Leaf, Parts],
        shared: dict[tuple[Leaf, int], DeviceArray], marks: Mapping[int, DeviceArray],
    ) -> tuple[dict[tuple[int, int], DeviceArray], dict[int, DeviceArray]]:  # fmt: skip
        """Queue the copies of a stage.  Returns the buffers, by the positions of their work and
        fetch, and for each work the mark after its copies.

        `shared`: the buffers that all work on a GPU uses.
        """
        made: dict[tuple[int, int], DeviceArray] = {}
        new: set[tuple[int, int]] = set()
        around: set[tuple[int, int]] = set()  # what gets its halo where the part is
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
                    if array is None and fetch.own is not None:
                        parts = arrays[fetch.leaf]
                        array = self._roomy(fetch.leaf, parts, fetch.own.part, fetch.halo)
                        if array is not None:
                            around.add((k, n))
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
            if (k, n) in new or ((k, n) in around and piece is not work.fetches[n].own):
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
        made = copied
        if made is None:
            (piece,) = fetch.pieces
            made = parts.arrays[piece.part]
            if any(s != slice(None) for s in piece.source):
                made = made[piece.source]
        return made if fetch.flat is None else made.reshape(-1)[fetch.flat]


def _part_shape(part: int, grid: Chunks) -> tuple[int, ...]:
    shape = []
    for sizes in reversed(grid):
        part, k = divmod(part, len(sizes))
        shape.append(sizes[k])
    return tuple(reversed(shape))


def _axis(grid: Chunks) -> int:
    """The axis that is cut, or the first one."""
    return next((k for k, sizes in enumerate(grid) if len(sizes) > 1), 0)


def _along(array: DeviceArray, axis: int, inner: slice) -> DeviceArray:
    return array[(*[slice(None)] * axis, inner)]


def _longer(shape: tuple[int, ...], axis: int, by: Margins) -> tuple[int, ...]:
    return (*shape[:axis], by[0] + shape[axis] + by[1], *shape[axis + 1 :])


def _is_dense(shape: Sequence[int], axis: int, dtype: DType) -> bool:
    """Whether rows along an axis are contiguous, and multiples of 16 bytes."""
    return prod(shape[:axis]) == 1 and prod(shape[axis + 1 :]) * dtype.itemsize % 16 == 0


def _halo_of(axes: Sequence[Axis | None], block: int, shape: Sequence[int], dtype: DType
             ) -> Margins | None:  # fmt: skip
    """The margins by which a block exceeds what it keeps, along its only axis with several blocks.
    None without such an axis, or if its rows are not dense."""
    wide = [k for k, a in enumerate(axes) if a is not None and a.count > 1]
    if len(wide) != 1 or len(axes) != len(shape) or not _is_dense(shape, wide[0], dtype):
        return None
    axis = axes[wide[0]]
    assert axis is not None
    low, start, stop, high = (
        int(x.reshape(-1)[block]) for x in (axis.low, axis.start, axis.stop, axis.high)
    )
    return start - low, high - stop


def _around(pieces: Sequence[Piece], shape: Sequence[int], grid: Chunks, device: int, dtype: DType
            ) -> tuple[Margins | None, Piece | None]:  # fmt: skip
    """The halo and the local piece, if the pieces are a complete part on this GPU and at most as
    many rows before and after it."""
    axis = _axis(grid)
    if not _is_dense(shape, axis, dtype):
        return None, None
    for piece in pieces:
        size = _part_shape(piece.part, grid)
        if piece.owner == device and size == tuple(s.stop - s.start for s in piece.source):
            target = piece.target[axis]
            others = (*shape[:axis], *shape[axis + 1 :])
            if others == (*size[:axis], *size[axis + 1 :]) and shape[axis] <= 2 * size[axis]:
                return (target.start, shape[axis] - target.stop), piece
    return None, None


def _number(chunk: Sequence[int], grid: Chunks) -> int:
    """The number of a chunk in row-major order."""
    number = 0
    for k, sizes in zip(chunk, grid, strict=True):
        number = number * len(sizes) + k
    return number


def _plain(kept: Index | None) -> Index | None:
    """The part of a program's result that is kept, None for all of it."""
    return None if kept is None or all(s == slice(None) for s in kept) else kept
