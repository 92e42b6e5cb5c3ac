"""Transposing reads on a GPU: reads along an axis other than the last go through tiles of shared
memory.

    out[…, i, …, j] = f(a[…, j, …, i], …)          `across` is the axis of i
    block                     a square of T × T: i along `across`, j along the last axis
      load                    each thread some i at one j: whole cache lines of a
      barrier
      compute and store       each thread some j at one i: whole cache lines of out

Row j of a tile holds its elements at  i xor (j / V · W mod T): both phases use all banks of the
shared memory, with accesses of W elements in the first phase and of one in the second, whose V
neighbours along j are stored together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from treadle.dsl import simplify
from treadle.dsl.expr import FALSE, TRUE, Expr, Index, Read, Var, constant, primitive, rewrite
from treadle.dsl.graph import Generate, Leaf
from treadle.dsl.types import int64
from treadle.skeletons.schedules import Resolved

from ...ir import arithmetic as at
from ...ir.hosted import Stride
from ...ir.kernel import Barrier, Buffer, Kernel, Load, Store, StoreVector
from ...ir.linearize import Linearizer
from .. import transform
from ..build import Builder
from ..elementwise.gpu_elements import Elements, make_kernel
from ..gpu.common import WIDEST, Group, Threads, coefficient, contains, unconditional, vector_count
from ..tiling import host_ids, unit_origin

#: Sides of a tile by the bytes of its smallest element: rows of 128 bytes and more.
SIDES = {1: 128, 2: 128, 4: 64, 8: 32, 16: 32}
#: Sides of a tile if elements are moved one by one.
SIDES_ONE_BY_ONE = {1: 64, 2: 64, 4: 64, 8: 32, 16: 32}
#: Bytes of all tiles of a block: several blocks share a multiprocessor.
TILES_BYTES = 1 << 15
MOST_TILES_BYTES = 48 << 10
THREADS = 512
#: Shorter axes leave too many threads of a tile idle.
SHORTEST = 16
#: Lanes of a warp along j, with four along i, if each stores several neighbours.
LANES = 8


def staged_reads(builder: Builder, node: Generate) -> tuple[int, dict[Read, int]] | None:
    """The axis that most reads follow, and the reads to stage, each with the index that follows it.

    They are unconditional, contiguous along that axis of the domain (with run-time strides: if its
    stride there may be 1) and not along its last one.
    """
    rank = len(node.shape)
    if rank < 2 or builder.context.check or transform.has_boundary(node.elements):
        return None
    found: dict[int, dict[Read, int]] = {}
    for e in unconditional(node.elements):
        if isinstance(e, Read) and len(e.args) > 1:
            row = builder.row_axis(Leaf(e.node, e.component))
            moved = _across(e, rank, range(len(e.args)) if row is None else (row,))
            if moved is not None:
                found.setdefault(moved[0], {})[e] = moved[1]
    if not found:
        return None
    across = max(found, key=lambda axis: sum(e.type.bytes for e in found[axis]))
    return across, found[across]


def _across(e: Read, rank: int, rows: Sequence[int]) -> tuple[int, int] | None:
    """The domain axis, other than the last, that an index of a read follows; and that index, among
    the axes `rows` that may be the array's rows."""
    last = Index(rank - 1)
    follows_last = [contains(a, last) for a in e.args]
    if not any(follows_last):
        return None
    for axis in range(rank - 2, -1, -1):
        for k in reversed(rows):
            if not follows_last[k] and coefficient(e.args[k], Index(axis)) in (1, -1):
                return axis, k
    return None


def can_stage(builder: Builder, node: Generate, plan: Resolved) -> bool:
    """Whether the blocks of a schedule are tiles that its reads can be staged in."""
    found = staged_reads(builder, node)
    if found is None or plan.block is None or max(plan.per_thread) > 1:
        return False
    across, reads = found
    side = plan.block[-1]
    square = tuple(side if k in (across, plan.ndim - 1) else 1 for k in range(plan.ndim))
    size = side * side * max(e.type.bytes for e in reads)
    return plan.block == square and side in (32, 64, 128) and size <= MOST_TILES_BYTES


def side_of(reads: Sequence[int], stores: Sequence[int], wide: bool) -> int:
    """The side of a tile, by the bytes of the elements that are read through it and stored."""
    side = (SIDES if wide else SIDES_ONE_BY_ONE)[min(*reads, *stores)]
    while side > 32 and side * side * sum(reads) > TILES_BYTES:
        side //= 2
    return side


def threads_of(side: int, widest: int) -> int:
    """The threads of a block that moves a tile; `widest`: the most elements of an access."""
    return min(THREADS, side * side // widest)


def transposing_kernel(builder: Builder, node: Generate, outs: Sequence[Buffer], across: int,
                       reads: dict[Read, int], fallback: Kernel, plan: Resolved | None = None
                       ) -> Kernel:  # fmt: skip
    """A kernel that stages what `staged_reads` found; `fallback` where that cannot be.

    The tiles are visited row by row, or as `plan` says (see `can_stage`).
    """
    enough = [at.less_equal(SHORTEST, n) for n in
              (builder.extent(node.shape[across]), builder.extent(node.shape[-1]))]  # fmt: skip
    if FALSE in enough:
        return fallback
    strides = {e: builder.scalar(Stride(Leaf(e.node, e.component), k), f"stride{k}")
               for e, k in reads.items()
               if Leaf(e.node, e.component) in builder.context.strided}  # fmt: skip
    dense = [e for e in reads if e not in strides]
    kernel = fallback
    if dense:
        kernel = _variants(builder, node, outs, across, dense, enough, kernel, plan)
    if strides:
        enough += [at.equal(stride, 1) for stride in strides.values()]
        kernel = _variants(builder, node, outs, across, list(reads), enough, kernel, plan)
    return kernel


def _variants(builder: Builder, node: Generate, outs: Sequence[Buffer], across: int,
              reads: Sequence[Read], enough: Sequence[Expr], fallback: Kernel,
              plan: Resolved | None) -> Kernel:  # fmt: skip
    single = _Staged(builder, node, outs, across, reads, False, plan)
    kernel = single.kernel(enough, fallback)
    wide = _Staged(builder, node, outs, across, reads, True, plan)
    return wide.kernel(enough, kernel) if wide.possible else kernel


@dataclass
class _Tile:
    """One staged read: its tile, the loads that fill it, and the variable of its first element."""

    read: Read
    buffer: Buffer
    group: Group
    step: int
    base: Var


class _Staged:
    """One variant: `wide` accesses on both sides, or one element at a time."""

    def __init__(self, builder: Builder, node: Generate, outs: Sequence[Buffer], across: int,
                 reads: Sequence[Read], wide: bool, plan: Resolved | None) -> None:  # fmt: skip
        self.builder, self.node, self.outs, self.across = builder, node, outs, across
        self.plan = plan
        self.rank = len(node.shape)
        self.last = self.rank - 1
        self.extents = builder.shape(node.shape)
        self.count = vector_count(b.type for b in outs) if wide else 1
        side = side_of([e.type.bytes for e in reads], [b.type.bytes for b in outs], wide)
        side = side if plan is None else plan.unit[-1]
        self.side = side
        self.j = Var("j", int64)
        self.tiles: list[_Tile] = []
        room = TILES_BYTES if plan is None else MOST_TILES_BYTES
        for e in reads:
            room -= side * side * e.type.bytes
            if room < 0:
                break
            (buffer,) = builder.shared(f"{builder.input(Leaf(e.node, e.component))}_tile",
                                       (e.type,), side * side)  # fmt: skip
            group = Group(builder, (e,), Index(across), WIDEST // e.type.bytes if wide else 1)
            if not group.streams:
                group = Group(builder, (e,), Index(across), 1)
            step = group.count if group.count > 1 else 4 if self.count > 1 else 1
            self.tiles.append(_Tile(e, buffer, group, step, Var("begin", int64)))
        widest = max([self.count, *(t.group.count for t in self.tiles)])
        self.threads = threads_of(side, widest)
        axes = tuple(Index(k) for k in range(self.rank))
        memo: dict[Expr, Expr] = {t.read: self._staged_element(t) for t in self.tiles}
        roots = rewrite(node.elements, lambda e: e, memo)
        self.elements = Elements(builder, outs, roots, axes, node.shape)

    @property
    def possible(self) -> bool:
        """Whether wide accesses are useful."""
        return self.count > 1 or any(t.group.count > 1 for t in self.tiles)

    def _staged_element(self, tile: _Tile) -> Expr:
        """The staged element at Index(last), for a thread whose first is `self.j`."""
        along = Index(self.last) - self.j
        return Load(tile.buffer, tile.base + along * self.side)

    def _position(self, tile: _Tile, j: Expr, group: Expr, i: Expr) -> Expr:
        """The position in its tile of the element of row j, group j // count, and column i."""
        rotation = group * tile.step
        mixed = _bits("bitwise_xor", i, _bits("bitwise_and", rotation, constant(self.side - 1)))
        return j * self.side + mixed

    def kernel(self, enough: Sequence[Expr], fallback: Kernel) -> Kernel:
        builder, shape, side, plan = self.builder, self.node.shape, self.side, self.plan
        grid, into = Threads.of(self.threads), builder.emitter()
        if plan is None:
            tasks, corner = self._row_by_row(into, grid.task)
            self._tile(into, grid, corner)
        else:
            tasks = builder.scalar(host_ids(plan, shape), "blocks")
            exists, corner = unit_origin(plan, builder, shape, into, grid.task)
            with into.when(exists):
                self._tile(into, grid, corner)
        requires = list(enough)
        aligned: list[Buffer] = []
        for t in self.tiles:
            if t.group.count > 1:
                requires += t.group.requires
                requires.append(_divides(t.group.count, self.extents[self.across]))
                aligned += t.group.aligned
        if self.count > 1:
            group = self.elements.group(self.count)
            requires += [*group.requires, _divides(self.count, self.extents[-1])]
            aligned += [*group.aligned, *self.outs]
        comments = [f"tiles of {side} × {side} in shared memory: {', '.join(self._staged_names())}"]
        return make_kernel(builder, self.node, tasks, grid, into, comments,
                           **grid.launch(requires, aligned, fallback))  # fmt: skip

    def _row_by_row(self, into: Linearizer, task: Expr) -> tuple[Expr, tuple[Expr, ...]]:
        """The number of tiles, and the first element of tile `task`."""
        shape, tiled = self.node.shape, (self.across, self.last)
        others = [k for k in range(self.rank) if k not in tiled]
        counts = [self.builder.extent(shape[k]) for k in others]
        for k, name in zip(tiled, ("tiles_down", "tiles_across"), strict=True):
            counts.append(self.builder.scalar(at.ceil_div(shape[k], self.side), name))
        *planes, row, col = at.row_major(task, tuple(counts))
        origin = dict(zip(others, planes, strict=True))
        origin |= {self.across: row * self.side, self.last: col * self.side}
        return at.product(counts), tuple(into.let(origin[k], f"i{k}") for k in range(self.rank))

    def _tile(self, into: Linearizer, grid: Threads, corner: Sequence[Expr]) -> None:
        origin = {k: x for k, x in enumerate(corner) if k not in (self.across, self.last)}
        i0, j0 = corner[self.across], corner[self.last]
        fits = [at.less_equal(corner[k] + self.side, self.extents[k])
                for k in (self.across, self.last)]  # fmt: skip
        whole = into.let(at.both(*fits), "whole")
        names = ", ".join(self._staged_names())
        for part in (self._load, self._compute):
            if part == self._load:
                into.note(
                    f"Rows of {names} into the tile, columns exchanged by exclusive or: columns\n"
                    "read below meet each bank of shared memory once."
                )
            else:
                into.note("Columns of the tile are rows of the result.")
            with into.when(whole):
                part(into, grid, origin, i0, j0, True)
            with into.otherwise(whole):
                into.note("A tile at an edge: what is beyond it is left out.")
                part(into, grid, origin, i0, j0, False)
            if part == self._load:
                into.append(Barrier())

    def _staged_names(self) -> list[str]:
        return [self.builder.input(Leaf(t.read.node, t.read.component)).name for t in self.tiles]

    def _load(self, into: Linearizer, grid: Threads, origin: dict[int, Expr], i0: Expr, j0: Expr,
              whole: bool) -> None:  # fmt: skip
        """Fill the tiles: consecutive threads along `across`."""
        for tile in self.tiles:
            width = tile.group.count
            per_row = self.side // width
            rows = grid.count // per_row
            il = into.let(grid.thread % per_row * width, "across")
            row = into.let(grid.thread // per_row, "row")
            i = into.let(i0 + il, "i")
            with into.loop("iteration", 0, self.side // rows, _kind(whole)) as iteration:
                jl = into.let(row + iteration * rows, "along")
                j = into.let(j0 + jl, "j")
                with into.when(self._inside(i, j, whole)):
                    here = {k: x for k, x in origin.items()} | {self.last: j}
                    with into.when_always({Index(k): x for k, x in here.items()}):
                        values = [v for (v,) in tile.group.values(into, i)]
                        where = self._position(tile, jl, jl // self.count, il)
                        if width == 1:
                            into.append(Store(tile.buffer, where, values[0]))
                        else:
                            into.append(StoreVector(tile.buffer, where, tuple(values)))

    def _compute(self, into: Linearizer, grid: Threads, origin: dict[int, Expr], i0: Expr, j0: Expr,
                 whole: bool) -> None:  # fmt: skip
        """The elements, read from the tiles: consecutive threads along the last axis."""
        side, count = self.side, self.count
        groups = side // count
        lanes = min(LANES, groups) if count > 1 else 32
        iterations = side * groups // grid.count
        low = grid.thread % lanes
        row = grid.thread // lanes % (32 // lanes)
        with into.loop("iteration", 0, iterations, _kind(whole)) as iteration:
            rest = iteration * (grid.count // 32) + grid.thread // 32
            m = into.let(low + rest % (groups // lanes) * lanes, "group")
            i_high = rest // (groups // lanes) * (32 // lanes)
            il = into.let(i_high + row, "across")
            i = into.let(i0 + il, "i")
            jl = m * count
            j = into.let(j0 + jl, "j")
            with into.when(self._inside(i, j, whole)):
                begin: dict[Expr, Expr] = {
                    t.base: into.let(self._position(t, jl, m, il), "begin") for t in self.tiles
                }
                here = {**origin, self.across: i, self.last: j}
                with into.when_always({self.j: j, **begin}):
                    self.elements.several(into, [here[k] for k in range(self.rank)], count)

    def _inside(self, i: Expr, j: Expr, whole: bool) -> Expr:
        if whole:
            return TRUE
        return at.both(at.less(i, self.extents[self.across]), at.less(j, self.extents[-1]))


def _divides(count: int, extent: Expr) -> Expr:
    return at.equal(extent % count, 0)


def _kind(whole: bool) -> str:
    return "unrolled" if whole else "serial"


def _bits(name: str, a: Expr, b: Expr) -> Expr:
    return simplify.apply(primitive(name), (a, b), int64)
