"""Very long rows scanned by blocks that pipeline several tiles, which keeps memory busy.

The grouping and the communication between blocks are as in `gpu_tiles.py`: a block takes tiles in
order, and earlier tiles always belong to running blocks.  Here a block iterates over tiles.  An
iteration, between two barriers, processes five of them:

    data threads      store the results of the first, whose prefixes are in shared memory;
                      combine the elements of the fourth, which have arrived in registers;
                      issue the loads of the fifth
    the last warp     publishes the total of the third;
                      finds the prefix before the second

The total of a tile is thus published one iteration before its block waits for the tiles on its
left, which were started at the same time.  Other blocks have usually published those by then, so
blocks rarely wait (measured with hand-written kernels, 256 M float32: 0.54 ms, and 0.77 if an
iteration publishes the totals that it needs itself).
"""

from __future__ import annotations

from collections.abc import Sequence

from treadle.dsl.expr import TRUE, Expr, Var
from treadle.dsl.graph import Scan
from treadle.dsl.records import dataclass
from treadle.dsl.simplify import cast
from treadle.dsl.types import int32, int64

from ...ir import arithmetic as at
from ...ir.kernel import Barrier, Kernel, Load, Store, While
from ...ir.linearize import Linearizer
from .. import tiling
from ..build import Builder
from ..combining import assign, declare, get, put, zeros
from ..gpu.collectives import STEPS, reduce_warp, scan_warp, shuffled
from ..gpu.common import WARP, Threads
from .gpu_rows import Prefix, Reach
from .gpu_tiles import PartialPrefix, TileScan, by_reach

#: Threads of a block that hold data, and the bytes of a tile that each holds; blocks of a
#: multiprocessor if nothing is prefetched (otherwise one).
THREADS, BYTES, RESIDENT = 384, 128, 3
#: Tiles of a block in shared memory.
STAGES = 3
#: The most registers of a thread for prefetched elements; beyond that, registers spill.
PREFETCHED = 32


def fits(node: Scan) -> bool:
    """Whether a thread's registers hold a tile in flight, the prefixes of the vectors of three
    tiles, and the totals of tiles on the left: values of one register each.  It depends on nothing
    else, as the bits depend on it."""
    types = [r.type for r in node.combine.results]
    return len(types) == 1 and types[0].bytes == 4


@dataclass(frozen=True)
class _Tile:
    """One of the tiles of a block, in the scope of an iteration.

    `exists`: whether the tile exists; if not, all numbers are those of an existing tile.  `first`:
    a thread's first element; `whole`: whether the row contains all of the tile.
    """

    exists: Expr
    row: Expr
    others: Sequence[Expr]
    tile: Expr
    first: Expr
    whole: Expr


class PipelinedScan(TileScan):
    """A block iterates over tiles.

    If elements cannot be prefetched, each block scans one tile: the same tiles and the same result.
    """

    def __init__(self, builder: Builder, node: Scan) -> None:
        super().__init__(builder, node, THREADS, BYTES, RESIDENT)
        types, vectors, streams = self.types, self.vectors, self.group.streams
        fetched = [(s.buffer.type, len(s.windows(self.vector)) * self.vector) for s in streams]
        registers = sum(-(-t.bytes // 4) * count for t, count in fetched) * vectors
        self.ahead = 0 < registers <= PREFETCHED and not self.serial
        self.coming = [builder.local("coming", [t], vectors * c)[0] for t, c in fetched]
        self.middle = builder.local("middle", types, vectors)
        self.oldest = builder.local("oldest", types, vectors)
        size = self.vector * vectors * self.threads
        self.rings = builder.shared("ring", types, STAGES * size)
        self.warp_totals = builder.shared("warp_total", types, 2 * self.warps)
        self.warp_prefixes = builder.shared("prefix", types, STAGES * self.warps)
        self.bases = builder.shared("base", types, 2)
        (self.taken,) = builder.shared("taken", [int32], 2)
        self.prefetched = False

    def _kernel(self, wide: bool, fallback: Kernel | None) -> Kernel:
        if not (wide and self.ahead):
            return super()._kernel(wide, fallback)
        self.inside, self.behind, self.prefetched = self.rings, self.oldest, True
        into, grid = self.builder.emitter(), Threads.of(self.threads + WARP)
        lane, warp = into.let(grid.lane, "lane"), into.let(grid.warp, "warp")
        taker = into.let(at.equal(grid.thread, self.threads), "taker")
        with into.when(taker):
            self.take(into, self.taken, at.integer(1), "found")
        into.append(Barrier())
        end = self.tickets
        names = ("stored", "looks_back", "published", "combined")
        numbers = [into.declare(end, name) for name in names]
        numbers.append(into.declare(self._number_at(into, at.integer(1)), "asked"))
        side, stage = (into.declare(at.integer(0), name) for name in ("side", "stage"))
        iteration = _Iteration(into, grid.thread, lane, warp, taker, side, stage)
        start = self.neutral or zeros(self.combine)
        totals = declare(into, start, "total"), declare(into, start, "newest")
        with into.body() as body:
            self._iteration(iteration, numbers, *totals)
        more = at.either(*(at.less(number, end) for number in numbers))
        into.append(While((), more, tuple(body)))
        most = at.minimum(self.tickets_host, self.builder.context.processors)
        blocks = self.builder.scalar(most, "blocks")
        comment = f"tiles of {self.tile} elements, in one pass, five of a block at once"
        return self.kernel("pipelined", blocks, grid.task, into, comment,
                           **self.gpu(grid, wide, fallback, 1))  # fmt: skip

    def _iteration(self, iteration: _Iteration, numbers: Sequence[Var], totals: tuple[Var, ...],
              newest: tuple[Var, ...]) -> None:  # fmt: skip
        """The code between two barriers, and the second barrier."""
        into, side, stage = iteration.into, iteration.side, iteration.stage
        other = into.let(1 - side, "other")
        self.filled, self.shown = stage, stage  # a tile stays there until it is stored
        helps = into.let(at.equal(iteration.warp, self.warps), "helps")
        with into.when(helps):
            with into.when(iteration.taker):
                self.take(into, self.taken, side, "found")
            assign(into, totals, newest)
            published = self._tile_at(iteration, numbers[2])
            with into.when(published.exists):
                into.note("The last warp: prefixes over the warps' totals, the tile's published.")
                self._publish_total(iteration, published, newest, other)
            ahead = self._tile_at(iteration, numbers[1])
            with into.when(ahead.exists):
                into.note("… and what comes before the tile that is stored in the next iteration.")
                self._find_base(iteration, ahead, totals, other)
        with into.otherwise(helps):
            self._data_threads(iteration, numbers)
        into.append(Barrier())
        assign(into, numbers[:-1], numbers[1:])
        assign(into, numbers[-1:], [self._number_at(into, side)])
        assign(into, [side], [other])
        assign(into, [stage], [(stage + 1) % STAGES])

    def _data_threads(self, iteration: _Iteration, numbers: Sequence[Var]) -> None:
        """The work of the data threads: results of one tile, prefixes of another."""
        into, lane, warp = iteration.into, iteration.lane, iteration.warp
        step = at.integer(WARP * self.vector)
        vectors = self.by_vectors(into)
        self.rolls, self.spreading = True, "rolled"

        stored = self._tile_at(iteration, numbers[0])
        with into.when(stored.exists):
            into.note("Results of the oldest tile, whose prefixes lie in shared memory.")
            base = self._base(iteration, stored)
            where = stored.others, stored.first, step, base
            by_reach(into, stored.whole, vectors,
                     lambda r: self.write(into, iteration.thread, lane, *where, r))  # fmt: skip
        with self._each(into) as j:
            put(into, self.oldest, j, get(into, self.middle, j))
            put(into, self.middle, j, get(into, self.before, j))
        combined = self._tile_at(iteration, numbers[3])
        with into.when(combined.exists):
            into.note("Prefixes inside a tile whose elements were requested one iteration ago.")
            with into.when_always(self.bindings(combined.others)):
                by_reach(into, combined.whole, vectors, lambda r: self.read(
                    into, iteration.thread, combined.first, step, r))  # fmt: skip
            run = self.spread(into, lane, len(STEPS), at.integer(WARP - 1))
            with into.when(at.equal(lane, 0)):
                put(into, self.warp_totals, self._of(iteration.side, warp), run)
        prefetched = self._tile_at(iteration, numbers[4])
        exists = at.both(prefetched.exists, prefetched.whole)
        with into.when(exists), into.when_always(self.bindings(prefetched.others)):
            into.note("The elements of the newest tile, for the next iteration.")
            self._prefetch(into, prefetched.first, step)

    def _of(self, stage: Expr, warp: Expr) -> Expr:
        return stage * self.warps + warp

    def _tile_at(self, iteration: _Iteration, number: Var) -> _Tile:
        """The tile with a given number."""
        into = iteration.into
        known = into.let(at.minimum(number, self.tickets - 1), "number")
        real, row, others, tile = self._find(into, known)
        exists = at.both(at.less(number, self.tickets), real)
        start, stop = tiling.block_range(into, "tile", tile, self.tile, self.n)
        share = WARP * self.vector * self.vectors
        inside = iteration.warp * share + iteration.lane * self.vector
        return _Tile(
            into.let(exists, "exists"), row, others, tile,
            into.let(start + inside, "first"),
            into.let(at.equal(stop - start, self.tile), "whole"),
        )  # fmt: skip

    # --- tickets ---

    def _number_at(self, into: Linearizer, side: Expr) -> Expr:
        (number,) = get(into, (self.taken,), side)
        return at.minimum(at.maximum(cast(number, int64), 0), self.tickets)

    # --- prefetched elements ---

    def _prefetch(self, into: Linearizer, first: Expr, step: Expr) -> None:
        """Issue the loads of a complete tile."""
        with self._each(into) as j:
            p = into.let(first + j * step, "p")
            fetched = self.group.fetch(into, p)
            for buffer, values in zip(self.coming, fetched, strict=True):
                slot = j * len(values)
                into.append(*(Store(buffer, slot + k, v) for k, v in enumerate(values)))

    def loaded(self, into: Linearizer, j: Expr, p: Expr, reach: Reach) -> list[dict[Expr, Expr]]:
        if not self.prefetched or reach is not Reach.WHOLE:
            return super().loaded(into, j, p, reach)
        fetched: list[list[Expr]] = []
        for stream, buffer in zip(self.group.streams, self.coming, strict=True):
            count = len(stream.windows(self.vector)) * self.vector
            slot = j * count
            fetched.append([into.let(Load(buffer, slot + k), "x") for k in range(count)])
        return self.group.reads(fetched)

    # --- what comes before a tile ---

    def _publish_total(self, iteration: _Iteration, tile: _Tile, newest: tuple[Var, ...],
                       other: Expr) -> None:  # fmt: skip
        """For the last warp: prefixes over the totals of the warps; the tile's total, published and
        kept in `newest`."""
        into, lane = iteration.into, iteration.lane
        index = at.minimum(lane, self.warps - 1)
        found = get(into, self.warp_totals, self._of(other, index))
        prefix = declare(into, found, "prefix")
        scan_warp(into, self.order, [prefix], lane, self.warps)
        # This tile lies in the stage before the one that is stored now.
        stage = at.select(at.equal(iteration.stage, 0), STAGES - 1, iteration.stage - 1)
        with into.when(at.less(lane, self.warps)):
            put(into, self.warp_prefixes, self._of(stage, lane), prefix)
        assign(into, newest, shuffled(into, "shuffle", prefix, self.warps - 1))
        more = at.less(tile.tile + 1, self.tiles)
        with into.when(at.both(at.equal(lane, 0), more)):
            slot = tile.row * self.tiles + tile.tile
            self.tile_slots.publish(into, slot, newest)

    def _find_base(self, iteration: _Iteration, tile: _Tile, totals: tuple[Var, ...], other: Expr
                   ) -> None:  # fmt: skip
        """For the last warp: the prefix before a tile, for the other warps; and the prefix before
        the next group, published."""
        into, lane = iteration.into, iteration.lane
        group = into.let(tile.tile // WARP, "group")
        index = into.let(tile.tile % WARP, "index")
        near, slot, heads = self.ask(into, lane, tile.row, group)
        several = []
        for k in range(self.back + 1):
            known = at.less(lane, index) if k == 0 else at.less_equal(k, group)
            several.append(self.tile_slots.declare(into, into.let(known, "wanted")))
        first = tile.row * self.tiles + group * WARP
        own_slot = into.let(first + lane, "tile_slot")
        away = into.declare(at.integer(0), "away")
        with into.body() as again:
            self.group_slots.fetch(into, slot, heads)
            for k, words in enumerate(several):
                self.tile_slots.fetch(into, own_slot - k * WARP, words)
            missing = [at.both(at.less_equal(k, away), at.negate(self.tile_slots.here(words)))
                       for k, words in enumerate(several)]  # fmt: skip
            waiting = self.lacks(into, near, heads, away, lambda none: at.either(none, *missing))
        into.append(While(tuple(again), waiting, ()))
        head = shuffled(into, "shuffle", self.group_slots.values(heads), away)
        found = [self.tile_slots.values(words) for words in several]
        before = self._add(iteration, tile, group, index, away, head, found, totals)
        with into.when(at.equal(lane, 0)):
            put(into, self.bases, other, before)

    def _add(self, iteration: _Iteration, tile: _Tile, group: Expr, index: Expr, away: Expr,
             head: Sequence[Expr], found: Sequence[Sequence[Expr]], totals: tuple[Var, ...]
             ) -> tuple[Var, ...]:  # fmt: skip
        """The combination of everything before a tile, in the one fixed association, from the
        nearest known start of a group."""
        into, order, lane = iteration.into, self.order, iteration.lane
        initial = self.nothing()
        if self.node.init is not None:
            with into.when_always(self.bindings(tile.others)):
                initial = Prefix(TRUE, self.init(into))
        state = self.begin(into, away, group, initial, lambda: head)
        for k in range(self.back, 0, -1):
            with into.when(at.less_equal(k, away)):
                own = declare(into, found[k], "sum")
                reduce_warp(into, order, own, lane)
                state.append(own)
        own = declare(into, found[0], "sum")
        more = at.less(tile.tile + 1, self.tiles)
        with into.when(at.both(at.equal(index, WARP - 1), more)):
            whole = declare(into, own, "whole")
            with into.when(at.equal(lane, WARP - 1)):
                assign(into, whole, totals)
            reduce_warp(into, order, whole, lane)
            with into.when(at.equal(lane, 0)):
                self.publish_start(into, tile.row, group, state, whole)
        with into.when(at.less(0, index)):
            self.combine_front(into, own, lane, index, index)
            state.append(own)
        return state.values

    def _base(self, iteration: _Iteration, tile: _Tile) -> Prefix:
        """The prefix before the elements of a warp."""
        into = iteration.into
        known = self.neutral is not None or self.node.init is not None
        before = declare(into, get(into, self.bases, iteration.side), "base")
        state = PartialPrefix(into, self.order, before, TRUE if known else at.less(0, tile.tile))
        with into.when(at.less(0, iteration.warp)):
            last = self._of(iteration.stage, iteration.warp - 1)
            state.append(get(into, self.warp_prefixes, last))
        return Prefix(state.known, before)


@dataclass(frozen=True)
class _Iteration:
    """The threads of an iteration, the half of double-buffered values it uses (`side`), and the one
    of the `STAGES` stages (`stage`)."""

    into: Linearizer
    thread: Expr
    lane: Expr
    warp: Expr
    taker: Expr
    side: Var
    stage: Var
