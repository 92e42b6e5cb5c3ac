"""Long rows scanned by blocks, one tile each, in one pass over memory (decoupled look-back).

After D. Merrill and M. Garland, "Single-pass parallel prefix scan with decoupled look-back" (2016),
with an association that does not depend on time.  Blocks take tiles in order (a ticket), so a tile
may wait for earlier ones.  Tiles come in groups of a warp:

    a block publishes the total of its tile as soon as it is computed
    before group g  =  (before group g − 1) · (a tree over the tiles of group g − 1)
    before tile t   =  (before its group) · (a tree over the tiles of the group before t)

The prefix before a group is published by the block of the last tile of the preceding group.  A
block takes the nearest group whose prefix is known, at most BACK groups away, and sums the tiles of
the groups in between itself, one warp per group.  The result is bitwise the same for every choice.

A schedule maps tickets to tiles.  The tiles of a row must come from left to right; otherwise a tile
could wait for one that no block has started.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from treadle.dsl import simplify
from treadle.dsl.expr import TRUE, Const, Expr, Var, primitive
from treadle.dsl.graph import Combine, Scan
from treadle.dsl.primitives import FROM_BITS, TO_BITS, real_part
from treadle.dsl.simplify import apply, cast
from treadle.dsl.types import ScalarType, bool_, float32, int32, int64, uint32, uint64
from treadle.skeletons.schedules.examine import ascends

from ...ir import arithmetic as at, kernel as ir
from ...ir.linearize import Linearizer
from .. import tiling
from ..build import Builder
from ..combining import apply_combine, assign, declare, get, put
from ..gpu.collectives import STEPS, reduce_warp, scan_warp
from ..gpu.common import WARP, Threads, vector_count
from ..gpu.orders import Visits
from ..tiling import schedule_of
from .gpu_rows import Prefix, Reach, Rows

#: Threads of a block, bytes that each holds, and blocks of a multiprocessor: together, the data in
#: flight fills the shared memory.
THREADS, BYTES, RESIDENT = 512, 192, 2
#: Groups that a block looks back, each summed by its own warp.
BACK = 8


def by_reach(into: Linearizer, whole: Expr, vectors: Expr, do: Callable[[Reach], None]) -> None:
    """Code for a tile inside the row, for a tile of whole vectors, and for any other."""
    with into.when(whole):
        do(Reach.WHOLE)
    with into.otherwise(whole):
        with into.when(vectors):
            do(Reach.VECTORS)
        with into.otherwise(vectors):
            do(Reach.BEYOND)


class TileScan(Rows):
    """Scans with one tile per block."""

    def __init__(self, builder: Builder, node: Scan, threads: int = 0, size: int = 0,
                 resident: int = 0) -> None:  # fmt: skip
        """`threads` of a block, each of which holds `size` bytes, and `resident` blocks of a
        multiprocessor (0: the defaults)."""
        threads, size, self.resident = threads or THREADS, size or BYTES, resident or RESIDENT
        types = [r.type for r in node.combine.results]
        together = sum(t.bytes for t in types) * vector_count(types)
        vectors = max(size // together, 1)
        super().__init__(builder, node, vectors, threads, "shared")
        self.tile = threads * self.vector * vectors
        self.warps = threads // WARP
        self.totals_of_warps = builder.shared("warp_total", types, self.warps)
        self.prefixes_of_warps = builder.shared("warp_prefix", types, self.warps)
        self.back = min(BACK, self.warps - 1)
        self.head = builder.shared("head", types, 1)
        self.sums = builder.shared("sum", types, self.back + 2)
        (self.nearest,) = builder.shared("nearest", [int64], 1)
        (self.ticket,) = builder.shared("ticket", [int32], 1)

    def lower(self, when: Expr) -> ir.Kernel:
        """The kernel; it has no tasks unless `when` (a host condition)."""
        builder = self.builder
        tiles = at.ceil_div(self.node.shape[-1], self.tile)
        groups = at.ceil_div(tiles, WARP) + 1
        rows = at.product(self.others)
        tasks = at.select(when, rows * tiles, 0)
        self.tiles = builder.scalar(tiles, "tiles")
        self.groups = builder.scalar(groups, "groups")
        self.tasks = self.tickets = builder.scalar(tasks, "all_tiles")
        self.visits, self.tickets_host = self._visits(tiles), tasks
        if self.visits is not None:
            self.tickets_host = at.select(when, self.visits.total_host, 0)
            self.tickets = builder.scalar(self.tickets_host, "tickets")
        words = Slots(self.ticket, 1, self.types).words
        size = rows * (tiles + groups) * words
        size = at.select(when, size + 1, 0)
        (self.state,) = builder.scratch("zero_state", [uint64], builder.scalar(size, "state_words"))
        self.tile_slots = Slots(self.state, 1, self.types)
        self.group_slots = Slots(self.state, self.tasks * words + 1, self.types)
        plain = self._kernel(False, None)
        return self._kernel(True, plain) if self.wide else plain

    def _visits(self, tiles: Expr) -> Visits | None:
        """The numbering of the tiles under the schedule; None if it cannot order them: a tile waits
        for those on its left, which must not come later."""
        notes = self.builder.notes
        said = len(notes)
        visits = Visits.of(self.builder, (*self.others, tiles),
                           (*(1 for _ in self.others), self.tile))  # fmt: skip
        if visits is None or ascends(visits.plan.order, visits.plan.ndim):
            return visits
        schedule = schedule_of(self.builder)
        order = visits.plan.order if schedule is None else schedule.order
        del notes[said:]
        notes.append(
            f"{order!r} has no effect on long rows: a part waits for what is on its left, and it "
            "does not go from left to right (Column(w), Swizzle(n) and Morton() do)"
        )
        return None

    def _kernel(self, wide: bool, fallback: ir.Kernel | None) -> ir.Kernel:
        into, grid = self.builder.emitter(), Threads.of(self.threads)
        thread = grid.thread
        lane, warp = into.let(grid.lane, "lane"), into.let(grid.warp, "warp")
        exists, row, others, tile = self._find(into, self._number(into, thread))
        with into.when(exists):
            self._tile(into, grid, lane, warp, others, row, tile, wide)
        comment = f"tiles of {self.tile} elements, in one pass"
        return self.kernel("tiles", self.tickets, grid.task, into, comment,
                           **self.gpu(grid, wide, fallback, self.resident))  # fmt: skip

    def _find(self, into: Linearizer, number: Expr) -> tuple[Expr, Expr, list[Expr], Expr]:
        """Whether a tile has this number; its row, as a number and in coordinates; its position in
        the row."""
        if self.visits is not None:
            exists, (*others, tile) = self.visits.at(into, number)
            row = into.let(at.linear(others, self.builder.shape(self.others)), "row")
            return exists, row, others, tile
        row, tile = at.integer(0), number
        if self.others:
            row = into.let(number // self.tiles, "row")
            tile = into.let(number % self.tiles, "tile")
        return TRUE, row, list(tiling.coordinates(self.builder, into, row, self.others)), tile

    def _tile(self, into: Linearizer, grid: Threads, lane: Expr, warp: Expr,
              others: Sequence[Expr], row: Expr, tile: Expr, wide: bool) -> None:  # fmt: skip
        """One tile of a row."""
        thread = grid.thread
        start, stop = tiling.block_range(into, "tile", tile, self.tile, self.n)
        share = WARP * self.vector * self.vectors
        inside = warp * share + lane * self.vector
        first = into.let(start + inside, "first")
        step = at.integer(WARP * self.vector)
        whole = into.let(at.equal(stop - start, self.tile), "whole")
        vectors = self.by_vectors(into)
        # Values of several words are shuffled word by word: long code for each distance.
        several = sum(t.bytes for t in self.types) > 4
        self.rolls, self.spreading = wide, "rolled" if wide or several else "unrolled"

        def each(do: Callable[[Reach], None]) -> None:
            if wide:
                by_reach(into, whole, vectors, do)
            else:
                do(Reach.BEYOND)

        with into.when_always(self.bindings(others)):
            initial = self.nothing()
            if self.node.init is not None:
                initial = Prefix(TRUE, self.init(into))
            into.note("inside: the prefixes inside each vector; before: their totals.")
            each(lambda reach: self.read(into, thread, first, step, reach))
        run = self.spread(into, lane, len(STEPS), at.integer(WARP - 1))
        into.note("Every warp leaves its total.")
        with into.when(at.equal(lane, 0)):
            put(into, self.totals_of_warps, warp, run)
        into.append(ir.Barrier())
        self._look_back(into, lane, warp, row, tile)
        base = self._before(into, thread, warp, row, tile, initial)
        each(lambda reach: self.write(into, thread, lane, others, first, step, base, reach))

    def _number(self, into: Linearizer, thread: Expr) -> Expr:
        """The number of the tile: blocks take them in the order in which they start."""
        into.note("Blocks take tiles in the order in which they start: those before this one run.")
        with into.when(at.equal(thread, 0)):
            self.take(into, self.ticket, at.integer(0), "taken")
        into.append(ir.Barrier())
        (number,) = get(into, (self.ticket,), at.integer(0))
        most = self.tickets - 1  # for range analysis
        number = at.minimum(at.maximum(cast(number, int64), 0), most)
        return into.let(number, "number")

    def take(self, into: Linearizer, tickets: ir.Buffer, index: Expr, name: str) -> None:
        """For one thread: take the number of a tile; tiles are taken in the order of requests."""
        taken = Var(name, uint64)
        into.append(ir.FetchUpdate(taken, self.state, at.integer(0), Const(1, uint64)))
        put(into, (tickets,), index, (cast(taken, int32),))

    def combine_front(self, into: Linearizer, own: tuple[Var, ...], lane: Expr, count: Expr,
                      valid: Expr | None = None) -> None:  # fmt: skip
        """Combine the values of the first `count` lanes of a warp into the first lane."""
        if self.neutral is not None:
            with into.when(at.less_equal(count, lane)):
                assign(into, own, self.neutral)
            reduce_warp(into, self.order, own, lane)
        else:
            reduce_warp(into, self.order, own, lane, valid=valid or into.let(count, "count"))

    # --- what comes before a tile ---

    def _publish(self, into: Linearizer, lane: Expr, row: Expr, tile: Expr) -> None:
        """For the first warp: prefixes over the totals of the warps; publish the tile's total."""
        index = at.minimum(lane, self.warps - 1)
        totals = declare(into, get(into, self.totals_of_warps, index), "prefix")
        scan_warp(into, self.order, [totals], lane, self.warps)
        with into.when(at.less(lane, self.warps)):
            put(into, self.prefixes_of_warps, lane, totals)
        last = at.equal(lane, self.warps - 1)
        more = at.less(tile + 1, self.tiles)
        with into.when(at.both(last, more)):
            slot = row * self.tiles + tile
            self.tile_slots.publish(into, slot, totals)

    def _look_back(self, into: Linearizer, lane: Expr, warp: Expr, row: Expr, tile: Expr) -> None:
        """The first warp waits for the preceding tiles of its group, and for the start of a nearby
        group; then warp w sums the tiles of group − w, if needed."""
        into.note(
            "Look back: the first warp publishes the total of the tile, waits for those in front\n"
            f"of it in its group of {WARP} and finds a group whose start is known; warp w adds up\n"
            "the group that is w before."
        )
        group = into.let(tile // WARP, "group")
        index = into.let(tile % WARP, "index")
        own = into.let(group - warp, "own")
        inside = at.either(at.less(0, warp), at.less(lane, index))
        known = at.both(at.less_equal(warp, self.back), at.less_equal(0, own))
        tile_slot = row * self.tiles + own * WARP + lane
        tile_slot = into.let(tile_slot, "tile_slot")
        words = self.tile_slots.declare(into, into.let(at.both(known, inside), "wanted"))
        first = into.let(at.equal(warp, 0), "first_warp")
        with into.when(first):
            self._publish(into, lane, row, tile)
            self._find_start(into, lane, row, group, tile_slot, words)
        with into.otherwise(first):
            self.tile_slots.fetch(into, tile_slot, words)
        into.append(ir.Barrier())
        (away,) = get(into, (self.nearest,), at.integer(0))
        with into.when(at.less_equal(warp, away)):
            self._wait(into, words, lambda: self.tile_slots.fetch(into, tile_slot, words))
            self._add_up(into, lane, warp, index, self.tile_slots.values(words))
        into.append(ir.Barrier())

    def _wait(self, into: Linearizer, words: Sequence[Var], reload: Callable[[], None]) -> None:
        """Loop until all threads of the warp have their values."""
        with into.body() as again:
            lacking = Var("lacking", uint32)
            missing = at.negate(self.tile_slots.here(words))
            into.append(ir.Collective(lacking, "ballot", (missing,)))
            waiting = apply(primitive("not_equal"), (lacking, Const(0, uint32)), bool_)
            with into.body() as body:
                reload()
        into.append(ir.While(tuple(again), waiting, tuple(body)))

    def _find_start(self, into: Linearizer, lane: Expr, row: Expr, group: Expr, tile_slot: Expr,
                    words: Sequence[Var]) -> None:  # fmt: skip
        """For the first warp: find the prefix before the nearest group for which it is known."""
        near, slot, heads = self.ask(into, lane, row, group)
        away = into.declare(at.integer(0), "away")
        with into.body() as again:
            self.group_slots.fetch(into, slot, heads)
            self.tile_slots.fetch(into, tile_slot, words)
            missing = at.negate(self.tile_slots.here(words))
            waiting = self.lacks(into, near, heads, away, lambda none: at.either(missing, none))
        into.append(ir.While(tuple(again), waiting, ()))
        with into.when(at.equal(lane, away)):
            put(into, (self.nearest,), at.integer(0), [away])
            put(into, self.head, at.integer(0), self.group_slots.values(heads))

    def ask(self, into: Linearizer, lane: Expr, row: Expr, group: Expr
            ) -> tuple[Expr, Expr, list[Var]]:  # fmt: skip
        """Thread i requests the prefix before group − i, unless that is too far or the start of the
        row: whether it is near, its slot, and its words."""
        mine = into.let(group - lane, "mine")
        near = into.let(at.less_equal(lane, self.back), "near")
        requested = into.let(at.both(near, at.less(0, mine)), "asked")
        slot = into.let(row * self.groups + mine, "slot")
        return near, slot, self.group_slots.declare(into, requested)

    def lacks(self, into: Linearizer, near: Expr, heads: Sequence[Var], away: Var,
              lacking: Callable[[Expr], Expr]) -> Expr:  # fmt: skip
        """The distance `away` to the nearest group with a known start; whether a thread still lacks
        something, given whether there is no such group."""
        starts, waiting = Var("starts", uint32), Var("lacking", uint32)
        ready = at.both(near, self.group_slots.here(heads))
        into.append(ir.Collective(starts, "ballot", (ready,)))
        assign(into, [away], [cast(apply(primitive("ctz"), (starts,), int32), int64)])
        none = at.less_equal(WARP, away)
        into.append(ir.Collective(waiting, "ballot", (lacking(none),)))
        return apply(primitive("not_equal"), (waiting, Const(0, uint32)), bool_)

    def begin(self, into: Linearizer, away: Expr, group: Expr, initial: Prefix,
              head: Callable[[], Sequence[Expr]]) -> PartialPrefix:  # fmt: skip
        """The prefix before the nearest group with a known start."""
        begun = into.let(at.less(away, group), "begun")
        before = declare(into, head(), "before")
        with into.when(at.negate(begun)):
            assign(into, before, initial.values)
        return PartialPrefix(into, self.order, before, at.either(initial.known, begun))

    def publish_start(self, into: Linearizer, row: Expr, group: Expr, state: PartialPrefix,
                      whole: Sequence[Var]) -> None:  # fmt: skip
        """Publish the prefix before the next group, given this group's total `whole`."""
        with into.when(state.known):
            assign(into, whole, apply_combine(into, self.order, state.values, whole))
        slot = row * self.groups + group + 1
        self.group_slots.publish(into, slot, whole)

    def _add_up(self, into: Linearizer, lane: Expr, warp: Expr, index: Expr,
                values: Sequence[Expr]) -> None:  # fmt: skip
        """The sum over a group, or over the preceding tiles of the own group; for the last tile of
        a group, also the sum over the whole group."""
        order = self.order
        own = declare(into, values, "sum")
        count = at.select(at.equal(warp, 0), index, WARP)
        with into.when(at.both(at.equal(warp, 0), at.equal(index, WARP - 1))):
            whole = declare(into, own, "whole")
            with into.when(at.equal(lane, WARP - 1)):
                assign(into, whole, get(into, self.prefixes_of_warps, at.integer(self.warps - 1)))
            reduce_warp(into, order, whole, lane)
            with into.when(at.equal(lane, 0)):
                put(into, self.sums, at.integer(self.back + 1), whole)
        self.combine_front(into, own, lane, count)
        with into.when(at.equal(lane, 0)):
            put(into, self.sums, warp, own)

    def _before(self, into: Linearizer, thread: Expr, warp: Expr, row: Expr, tile: Expr,
                initial: Prefix) -> Prefix:  # fmt: skip
        """The prefix before the elements of a warp: everything combined in the one fixed
        association, from the nearest group start that any warp knows."""
        group = into.let(tile // WARP, "group")
        index = into.let(tile % WARP, "index")
        into.note("What comes before this warp, combined from left to right.")
        (away,) = get(into, (self.nearest,), at.integer(0))
        state = self.begin(into, away, group, initial, lambda: get(into, self.head, at.integer(0)))
        if self.spreading == "rolled":
            between = into.let(at.minimum(at.maximum(away, 0), self.back), "between")
            with into.loop("w", 0, between, "rolled") as w:
                state.append(get(into, self.sums, between - w))
        else:
            for back in range(self.back, 0, -1):
                with into.when(at.less_equal(back, away)):
                    state.append(get(into, self.sums, at.integer(back)))
        last = at.both(at.equal(thread, 0), at.equal(index, WARP - 1))
        more = at.less(tile + 1, self.tiles)
        with into.when(at.both(last, more)):
            whole = declare(into, get(into, self.sums, at.integer(self.back + 1)), "whole")
            self.publish_start(into, row, group, state, whole)
        with into.when(at.less(0, index)):
            state.append(get(into, self.sums, at.integer(0)))
        with into.when(at.less(0, warp)):
            state.append(get(into, self.prefixes_of_warps, warp - 1))
        return Prefix(state.known, state.values)


class PartialPrefix:
    """A value that may be missing, and the values appended to it."""

    def __init__(self, into: Linearizer, order: Combine, values: tuple[Var, ...], known: Expr
                 ) -> None:  # fmt: skip
        self.into, self.order, self.values = into, order, values
        self.known = known if known is TRUE else into.declare(known, "some")

    def append(self, values: Sequence[Expr]) -> None:
        into = self.into
        if self.known is TRUE:
            assign(into, self.values, apply_combine(into, self.order, self.values, values))
            return
        with into.when(self.known):
            assign(into, self.values, apply_combine(into, self.order, self.values, values))
        with into.otherwise(self.known):
            assign(into, self.values, values)
            assert isinstance(self.known, Var)
            assign(into, [self.known], [TRUE])


# --- Tuples in memory words that other blocks poll: 32 bits of a value and 32 bits of status ------
# A value of any type is split into 32-bit parts, each of which is stored in a separate 64-bit word
# with a "present" flag.  Words are read and written atomically, so no order between them is needed:
# a tuple is present when all its words are.  Zero memory is empty.

#: A word that is present (with value zero).
HERE = Const(1 << 32, uint64)


def _unsigned(t: ScalarType) -> ScalarType:
    return uint64 if t.bits == 64 else uint32


def pieces_of(t: ScalarType) -> int:
    """The number of words of a value."""
    return max(t.bits // 32, 1)


def _apply(name: str, t: ScalarType, *args: Expr) -> Expr:
    return simplify.apply(primitive(name), args, t)


def _halves(e: Expr) -> list[Expr]:
    high = _apply("right_shift", uint64, e, Const(32, uint64))
    return [simplify.cast(e, uint32), simplify.cast(high, uint32)]


def pieces(e: Expr) -> list[Expr]:
    """The 32-bit pieces of a value, lowest first."""
    t = e.type
    if t.is_complex:
        return [x for name in ("real", "imag") for x in pieces(_apply(name, real_part(t), e))]
    if t.is_float:
        wide = simplify.cast(e, float32) if t.bits < 32 else e
        bits = simplify.apply(TO_BITS, (wide,), _unsigned(wide.type))
        return _halves(bits) if wide.type.bits == 64 else [bits]
    if t.bits == 64:
        return _halves(simplify.cast(e, uint64))
    return [simplify.cast(e, uint32)]


def value(found: Sequence[Expr], t: ScalarType) -> Expr:
    """The value of type `t` made of its pieces."""
    if t.is_complex:
        half = len(found) // 2
        part = real_part(t)
        parts = (value(found[:half], part), value(found[half:], part))
        return simplify.apply(primitive("complex"), parts, t)
    bits = found[0]
    if len(found) == 2:
        high = _apply("left_shift", uint64, simplify.cast(found[1], uint64), Const(32, uint64))
        bits = _apply("bitwise_or", uint64, high, simplify.cast(found[0], uint64))
    if t.is_float:
        wide = t if t.bits >= 32 else float32
        return simplify.cast(simplify.apply(FROM_BITS, (bits,), wide), t)
    if t.family == "bool":
        return _apply("not_equal", bool_, bits, Const(0, uint32))
    return simplify.cast(bits, t)


class Slots:
    """Slots for tuples of `types` in a buffer of words, from word `origin` on."""

    def __init__(self, buffer: ir.Buffer, origin: Expr | int, types: Sequence[ScalarType]) -> None:
        self.buffer, self.origin, self.types = buffer, at.integer(origin), tuple(types)
        self.counts = [pieces_of(t) for t in types]
        self.words = sum(self.counts)

    def _first(self, into: Linearizer, slot: Expr) -> Expr:
        return into.let(self.origin + slot * self.words, "word")

    def publish(self, into: Linearizer, slot: Expr, values: Sequence[Expr]) -> None:
        """Write a tuple to an empty slot."""
        first = self._first(into, slot)
        found = [p for v in values for p in pieces(into.let(v, "v"))]
        for k, piece in enumerate(found):
            word = _apply("bitwise_or", uint64, simplify.cast(piece, uint64), HERE)
            into.append(ir.Publish(self.buffer, first + k, word, ordered=False))

    def declare(self, into: Linearizer, wanted: Expr) -> list[Var]:
        """Variables for the words of a tuple: empty if it is `wanted`, otherwise present."""
        start = simplify.select(wanted, Const(0, uint64), HERE)
        return [into.declare(start, "word") for _ in range(self.words)]

    def fetch(self, into: Linearizer, slot: Expr, words: Sequence[Var]) -> None:
        """Reload the words that are still missing."""
        with into.when(at.negate(self.here(words))):
            first = self._first(into, slot)
            for k, word in enumerate(words):
                got = Var("got", uint64)
                into.append(ir.Fetch(got, self.buffer, first + k, ordered=False))
                into.append(ir.Assign(word, got))

    def here(self, words: Sequence[Expr]) -> Expr:
        """Whether all words are present."""
        return at.both(*(_apply("less_equal", bool_, HERE, word) for word in words))

    def values(self, words: Sequence[Expr]) -> tuple[Expr, ...]:
        """The tuple made of its words."""
        found, position = [], 0
        for t, count in zip(self.types, self.counts, strict=True):
            own = words[position : position + count]
            found.append(value([simplify.cast(w, uint32) for w in own], t))
            position += count
        return tuple(found)
