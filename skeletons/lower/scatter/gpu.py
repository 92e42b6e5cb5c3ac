"""Permute on a GPU: scatter with combination, into buffers that hold the defaults already.

    bins       operators with an identity, small targets (histograms): each block accumulates in
               private bins in shared memory (several copies if there are few) and finally adds
               them to the target.  Targets that do not fit are divided among up to RANGES blocks,
               which all read the same part of the source
    atomic     operators on one component of up to eight bytes, or on independent components:
               atomic updates in the L2 cache.  Lanes of a warp that update the same index issue
               one update (`WarpAggregation`); frequent indices have bins in the block
    locked     any other function of several components, complex128: complete elements under one
               of LOCKS spin locks (functions without an identity have bins too, with separate
               locks in shared memory)
    overwrite  of one component: the last store wins
    stores     one-to-one maps: no two updates have the same index
    claimed    overwrite of tuples, and overwrite with deterministic=True: atomic maxima find the
               last source of each index, then only that source stores
    owned      deterministic=True for order-dependent updates, and functions that read arrays or
               have loops: every warp owns a share of the target, each lane a share of that, and
               iterates over the complete source in order

`bins` of two sizes and `atomic` are chosen by the extents at each launch.  The order of updates
is not that of the source: sums of floats may differ in their last bits from one run to the next,
unless deterministic=True.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from treadle.dsl import simplify
from treadle.dsl.analysis.combines import is_commutative
from treadle.dsl.analysis.updates import is_one_to_one
from treadle.dsl.expr import TRUE, Apply, Const, Expr, Var, constant, primitive
from treadle.dsl.graph import Combine, Permute
from treadle.dsl.types import bool_, int32, int64, uint32
from treadle.skeletons.schedules import LocalityGraph

from ...ir import arithmetic as at, kernel as ir
from ...ir.linearize import Linearizer, zero
from ..build import Builder, LoweringContext
from ..combining import Values, accumulate, arithmetic, declare, is_arithmetic
from ..gpu import common
from ..tiling import host_ids, schedule_of
from .cpu import RUN_TO_RUN, rounds, update
from .gpu_bins import Accumulator, Bins, Counts, Filled, accumulators, component, words
from .gpu_sources import Action, Sources

#: Threads of a block, and resident blocks of a multiprocessor (with bins, without).
THREADS, RESIDENT, PLAIN_RESIDENT = 512, 3, 3
#: Bytes of the private bins of a block: RESIDENT blocks share a multiprocessor, or one has it.
SMALL_BINS, LARGE_BINS = 32 << 10, 192 << 10
LARGE_THREADS = 1024
#: Bytes of the bins of a block for frequent indices, if the bins of all do not fit.
HOT_BINS = 32 << 10
#: Copies of each bin, at most.
COPIES = 32
#: The most parts that the targets are divided into, and the largest cost, in additions, of an
#: element that is recomputed for each part.
RANGES, RANGE_COST = 8, 32.0
#: A block with private bins takes at least this many elements, and this many for each of its bins.
LEAST, LEAST_PER_BIN = 4096, 2
LOCKS = 1 << 16
#: Most elements whose count one word holds.
MOST = (1 << 32) - 1


def lower_permute(node: Permute, context: LoweringContext) -> ir.Lowered:
    """One kernel with its fallbacks, or two (`claimed`)."""
    return _Permute(Builder(node, context), node).lower()


class _Permute:
    def __init__(self, builder: Builder, node: Permute) -> None:
        self.builder, self.node = builder, node
        self.combine = None if node.combine is None else arithmetic(node.combine, builder)
        self.outs = builder.outputs("update")
        self.sources = Sources(builder, node)
        self.size = builder.scalar(self.sources.size_host, "targets")
        self.processors = builder.context.processors
        self.locks: tuple[ir.Buffer, ...] = ()

    # --- choice of the strategy ---

    def lower(self) -> ir.Lowered:
        builder, node, combine = self.builder, self.node, self.combine
        if is_one_to_one(node):
            builder.notes.append("every source has a target of its own")
            if self._by_graph():
                return builder.lowered(self._block_by_block("stores"))
            return self._lowered(lambda wide: self._each("stores", wide))
        deterministic = node.label.deterministic
        if combine is not None and not is_arithmetic(combine):
            builder.notes.append("every warp owns targets: the combination reads or has loops")
            return builder.lowered(self._owned())
        if rounds(node) and not deterministic:
            builder.notes.append(RUN_TO_RUN)
        if self._by_graph():
            return builder.lowered(self._block_by_block(self._way()))
        if combine is None:
            if deterministic or len(self.outs) > 1 or self.outs[0].type.bits > 64:
                return self._claimed()
            return self._lowered(lambda wide: self._each("overwrite", wide))
        if deterministic and not self._is_order_irrelevant():
            builder.notes.append("deterministic: every warp owns targets, sources in their order")
            return builder.lowered(self._owned())
        way = self._way()
        made = accumulators(combine, node.values)
        if made is None:
            kernel, each = self._each(way, None), Filled.bytes(combine)
            for suffix, threads, resident, room in (
                ("large_bins", LARGE_THREADS, 1, LARGE_BINS), ("bins", THREADS, 2, SMALL_BINS),
            ):  # fmt: skip
                filled = Filled(builder, combine, room // each)
                kernel = self._bins(suffix, threads, resident, filled, False, kernel)
            return builder.lowered(kernel)
        # Each kernel falls back to the previous one; only the first is worth a variant with wide
        # accesses.
        kernel = self._hot(made, self._each(way, None))
        kernel = self._bins("large_bins", LARGE_THREADS, 1, Bins(
            builder, made, LARGE_BINS // words(made)), False, kernel)  # fmt: skip
        for wide in (False, True) if self.sources.wide else (False,):
            kernel = self._bins("bins", THREADS, RESIDENT, Bins(
                builder, made, SMALL_BINS // words(made)), wide, kernel)  # fmt: skip
        return builder.lowered(kernel)

    def _way(self) -> str:
        """The strategy for updating the target if an index may occur twice."""
        if self.combine is None:
            return "overwrite"
        parts = is_commutative(self.combine) or len(self.outs) == 1
        return "atomic" if parts and all(b.type.bits <= 64 for b in self.outs) else "locked"

    def _by_graph(self) -> bool:
        """Whether blocks of the source are queued by shared lines; a task is one such block."""
        schedule = schedule_of(self.builder)
        asked = schedule is not None and isinstance(schedule.residency, LocalityGraph)
        whole = self.combine is None and (len(self.outs) > 1 or self.outs[0].type.bits > 64)
        return asked and self.sources.visits is not None and not whole

    def _lowered(self, make: Any) -> ir.Lowered:
        return self.builder.lowered(self._variants(make)[0])

    def _variants(self, make: Any) -> list[ir.Kernel]:
        """The kernel with wide accesses, if there are any, that falls back to the one without."""
        plain = make(None)
        return [make(plain), plain] if self.sources.wide else [plain]

    def _is_order_irrelevant(self) -> bool:
        """Whether the order of updates cannot change the result: exact commutative operators."""
        assert self.combine is not None
        return is_commutative(self.combine) and not any(b.type.is_inexact for b in self.outs)

    def _blocks(self, resident: int, least: Expr | int) -> Expr:
        """The number of blocks that the GPU holds, or fewer with `least` elements each."""
        wanted = self.sources.count_host // at.maximum(least, 1)
        return at.minimum(at.maximum(wanted, 1), self.processors * resident)

    # --- private bins ---

    def _bins(self, suffix: str, threads: int, resident: int, bins: Bins | Filled, wide: bool,
              fallback: ir.Kernel) -> ir.Kernel:  # fmt: skip
        builder, sources = self.builder, self.sources
        assert self.combine is not None
        large = resident == 1
        grid = common.Threads.of(threads)
        into = builder.emitter()
        size, capacity = sources.size_host, bins.capacity
        copies = constant(1) if large else self._copies(capacity)
        ranges = RANGES if large and sources.cost <= RANGE_COST and isinstance(bins, Bins) else 1
        parts_host = at.maximum(at.ceil_div(size, capacity), 1) if ranges > 1 else constant(1)
        parts = builder.scalar(parts_host, "ranges")
        least = at.maximum(LEAST, at.minimum(size, capacity) * LEAST_PER_BIN)
        groups_host = self._blocks(resident, least) // parts_host
        groups = builder.scalar(at.maximum(groups_host, 1), "groups")
        part = into.let(grid.task % parts, "part") if ranges > 1 else constant(0)
        first = into.let(part * capacity, "first_bin")
        count = self.size
        if ranges > 1:
            count = into.let(at.minimum(self.size - first, capacity), "bins")
        into.note("The bins of this block: copies of one lie side by side, so that threads which\n"
                  "meet in it seldom wait for each other.")  # fmt: skip
        bins.clear(into, grid.thread, count * copies, threads)
        into.append(ir.Barrier())
        mine = into.let(grid.thread % copies, "copy")

        def act(inner: Linearizer, position: Expr, target: Expr, values: Values) -> None:
            own = inner.let(target - first, "own")
            inside = at.in_range(own, count) if ranges > 1 else TRUE
            with inner.when(inside):
                bins.add(inner, own * copies + mine, values)

        group = into.let(grid.task // parts, "group") if ranges > 1 else grid.task
        sources.walk(into, grid, groups, act, wide, group)
        into.append(ir.Barrier())
        into.note("The copies together, into the target.")
        with into.loop("b", grid.thread, count, step=threads) as b:
            target = first + b
            bins.flush(into, b, target, copies, grid.thread, self.outs, self.combine, *self.locks)
        enough = at.less_equal(self.size * LEAST_PER_BIN, sources.count)
        requires = (at.less_equal(self.size, capacity * ranges), enough,
                    at.less_equal(sources.count, MOST))  # fmt: skip
        comment = f"{capacity} bins in shared memory" + (", or ranges of them" * (ranges > 1))
        return self._kernel(suffix, groups * parts, grid, into, wide, comment,
                            requires, fallback, resident)  # fmt: skip

    def _copies(self, capacity: int) -> Expr:
        """The number of copies of all bins that fit, a power of two."""
        copies: Expr = constant(1)
        for count in (2, 4, 8, 16, 32):
            if count <= COPIES:
                fits = at.less_equal(self.sources.size_host * count, capacity)
                copies = at.select(fits, count, copies)
        return self.builder.scalar(copies, "copies")

    # --- direct updates, with bins for frequent indices ---

    def _hot(self, made: Sequence[Accumulator], fallback: ir.Kernel) -> ir.Kernel:
        """Direct updates, but frequent positions, found by sampling, have bins in the block.

        Each position may use one bin, its number modulo the number of bins.  In a block's first
        tile, the last element to claim a bin gets it: mostly one of the frequent ones.
        """
        builder, sources, combine = self.builder, self.sources, self.combine
        assert combine is not None
        grid, into = common.Threads.of(THREADS), builder.emitter()
        capacity = 1 << ((HOT_BINS // (4 + words(made))).bit_length() - 1)
        bins = Bins(builder, made, capacity)
        (owner,) = builder.shared("owner", [int32], capacity)
        tasks = builder.scalar(self._blocks(PLAIN_RESIDENT, THREADS), "blocks")
        with into.loop("b", grid.thread, capacity, step=THREADS) as b:
            into.append(ir.Store(owner, b, Const(-1, int32)))
        bins.clear(into, grid.thread, constant(capacity), THREADS)
        into.append(ir.Barrier())

        def slot(target: Expr) -> Expr:
            return simplify.apply(primitive("bitwise_and"), (target, constant(capacity - 1)), int64)

        def look(inner: Linearizer, position: Expr, target: Expr, values: Values) -> None:
            inner.append(ir.Atomic((owner,), slot(target), (simplify.cast(target, int32),), None))

        def act(inner: Linearizer, position: Expr, target: Expr, values: Values) -> None:
            for k, (out, value) in enumerate(zip(self.outs, values, strict=True)):
                inner.append(ir.Atomic((out,), target, (value,), component(combine, k)))

        aggregation = WarpAggregation(into, grid, self.outs, combine, self.node.values, self.size)

        def together(inner: Linearizer, position: Expr, target: Expr, values: Values) -> None:
            where = inner.let(slot(target), "slot")
            same = at.equal(simplify.cast(ir.Load(owner, where), int64), target)
            cached = inner.let(at.both(same, at.less_equal(0, target)), "cached")
            with inner.when(cached):
                bins.add(inner, where, values)
            rest = inner.let(at.select(cached, -1, target), "rest")
            aggregation.update(inner, position, rest, values)

        sources.sample(into, grid, look)
        into.append(ir.Barrier())
        sources.walk(into, grid, tasks, act, False, None, together)
        into.append(ir.Barrier())
        with into.loop("b", grid.thread, capacity, step=THREADS) as b:
            target = into.let(simplify.cast(ir.Load(owner, b), int64), "target")
            with into.when(at.less_equal(0, target)):
                bins.flush(into, b, target, constant(1), constant(0), self.outs, combine)
        requires = (at.less_equal(sources.count, MOST), at.less(self.size, 1 << 31))
        comment = f"updates of the target; {capacity} frequent targets cached in shared memory"
        return self._kernel("atomic", tasks, grid, into, False, comment, requires, fallback,
                            PLAIN_RESIDENT)  # fmt: skip

    # --- one update after the other ---

    def _each(self, way: str, fallback: ir.Kernel | None) -> ir.Kernel:
        """Every element updates the target directly; wide accesses if there is a fallback."""
        builder = self.builder
        grid = common.Threads.of(THREADS)
        into = builder.emitter()
        tasks = builder.scalar(self._blocks(PLAIN_RESIDENT, THREADS), "blocks")
        act = self._action(way)
        together: Action | None = None
        if way == "atomic" and self.combine is not None and WarpAggregation.suits(self.combine):
            values = self.node.values
            together = WarpAggregation(
                into, grid, self.outs, self.combine, values, self.size
            ).update
        self.sources.walk(into, grid, tasks, act, fallback is not None, None, together)
        return self._kernel(way, tasks, grid, into, fallback is not None, f"{way} updates", (),
                            fallback, PLAIN_RESIDENT)  # fmt: skip

    def _block_by_block(self, way: str) -> ir.Kernel:
        """The kernel whose tasks apply one block of the schedule to the target itself."""
        visits = self.sources.visits
        assert visits is not None
        grid, into = common.Threads.of(common.threads_for(visits.unit)), self.builder.emitter()
        blocks = self.builder.scalar(host_ids(visits.plan, visits.grid), "blocks")
        first = into.let(grid.task * visits.unit, "first")
        with into.loop("local", grid.thread, visits.unit, step=grid.count) as local:
            self.sources.element(into, first + local, self._action(way))
        return self._kernel(way, blocks, grid, into, False, f"{way} updates, block by block", (),
                            None, 0)  # fmt: skip

    def _action(self, way: str) -> Action:
        """The action on one element."""
        if way == "locked" and not self.locks:
            self.locks = self.builder.scratch("zero_locks", [int32], constant(LOCKS))

        def act(inner: Linearizer, position: Expr, target: Expr, values: Values) -> None:
            if way == "stores":
                update(inner, self.outs, target, values, self.combine)
            elif way in ("overwrite", "locked"):
                inner.append(ir.Atomic(self.outs, target, values, self.combine, *self.locks))
            else:
                assert self.combine is not None
                for k, (out, value) in enumerate(zip(self.outs, values, strict=True)):
                    inner.append(ir.Atomic((out,), target, (value,), component(self.combine, k)))

        return act

    # --- the last source of each target ---

    def _claimed(self) -> ir.Lowered:
        builder = self.builder
        (last,) = builder.scratch("zero_last", [int64], self.size)

        def claim(inner: Linearizer, position: Expr, target: Expr, values: Values) -> None:
            number = position + 1
            inner.append(ir.FetchUpdate(Var("before", int64), last, target, number, "maximum"))

        def store(inner: Linearizer, position: Expr, target: Expr, values: Values) -> None:
            with inner.when(at.equal(ir.Load(last, target), position + 1)):
                inner.append(
                    *(ir.Store(b, target, v) for b, v in zip(self.outs, values, strict=True))
                )

        kernels = []
        for suffix, act in (("claim", claim), ("claimed", store)):

            def make(fallback: ir.Kernel | None, suffix: str = suffix, act: Any = act) -> ir.Kernel:
                grid, into = common.Threads.of(THREADS), builder.emitter()
                tasks = builder.scalar(self._blocks(PLAIN_RESIDENT, THREADS), "blocks")
                self.sources.walk(into, grid, tasks, act, fallback is not None)
                return self._kernel(suffix, tasks, grid, into, fallback is not None,
                                    "the last source of each target", (), fallback,
                                    PLAIN_RESIDENT)  # fmt: skip

            kernels.append(self._variants(make)[0])
        return builder.lowered(*kernels)

    # --- in the order of the source ---

    def _owned(self) -> ir.Kernel:
        builder, sources = self.builder, self.sources
        grid, into = common.Threads.of(THREADS), builder.emitter()
        warps = THREADS // common.WARP
        wanted = at.minimum(at.ceil_div(sources.size_host, warps), self.processors * 2)
        tasks = builder.scalar(wanted, "blocks")
        owners = into.let(tasks * warps, "owners")
        own = into.let(grid.task * warps + grid.warp, "own")
        lane = into.let(grid.lane, "lane")
        bit = simplify.apply(
            primitive("left_shift"), (Const(1, uint32), simplify.cast(lane, uint32)), uint32
        )
        bit = into.let(bit, "bit")
        with into.loop("base", 0, sources.count, step=common.WARP) as base:
            target = into.declare(constant(-1), "mine")
            kept = [into.declare(zero(v.type), "value") for v in self.node.values]

            def act(inner: Linearizer, position: Expr, where: Expr, values: Values) -> None:
                where = inner.let(where, "target")
                with inner.when(at.equal(where % owners, own)):
                    inner.append(ir.Assign(target, where))
                    inner.append(*(ir.Assign(h, v) for h, v in zip(kept, values, strict=True)))

            position = into.let(base + lane, "p")
            with into.when(at.less(position, sources.count)):
                sources.element(into, position, act)
            self._one_by_one(into, target, kept, lane, bit, owners)
        comment = "every warp owns targets, in the order of the source"
        return self._kernel("owned", tasks, grid, into, False, comment, (), None, 0)

    def _one_by_one(self, into: Linearizer, target: Var, kept: Sequence[Var], lane: Expr, bit: Expr,
                 owners: Expr) -> None:  # fmt: skip
        """Process the elements of the lanes that have an index, lowest first.  One lane makes all
        updates of an index, so it observes its earlier ones."""
        waiting, none = Var("waiting", uint32), Const(0, uint32)
        with into.body() as before:
            into.append(ir.Collective(waiting, "ballot", (at.less_equal(0, target),)))
        with into.body() as body:
            negative = simplify.apply(primitive("subtract"), (none, waiting), uint32)
            lowest = simplify.apply(primitive("bitwise_and"), (waiting, negative), uint32)
            under = simplify.apply(primitive("subtract"), (lowest, Const(1, uint32)), uint32)
            number = simplify.cast(Apply(primitive("popcount"), (under,), uint32), int64)
            source = into.let(number, "source")
            given = [Var(v.name, v.type) for v in (target, *kept)]
            for var, own in zip(given, (target, *kept), strict=True):
                into.append(ir.Collective(var, "shuffle", (own, source)))
            mine = given[0] // owners % common.WARP
            with into.when(at.equal(mine, lane)):
                update(into, self.outs, given[0], given[1:], self.combine)
            with into.when(simplify.apply(primitive("equal"), (lowest, bit), bool_)):
                into.append(ir.Assign(target, constant(-1)))
        some = simplify.apply(primitive("not_equal"), (waiting, none), bool_)
        into.append(ir.While(tuple(before), some, tuple(body)))

    # --- kernels ---

    def _kernel(self, suffix: str, tasks: Expr, grid: common.Threads, into: Linearizer, wide: bool,
                comment: str, requires: Sequence[Expr], fallback: ir.Kernel | None, resident: int
                ) -> ir.Kernel:  # fmt: skip
        builder = self.builder
        group = self.sources.group
        conditions = (*requires, *(group.requires if wide else ()))
        return builder.kernel(
            suffix, tasks, grid.task, tuple(into.out), comments=(comment,),
            **grid.launch(conditions, group.aligned if wide else (), fallback, resident),
        )  # fmt: skip


# --- Warp aggregation: lanes of a warp that update the same target index issue one update ---------
#     same = the lanes with this index                      (match)
#     counts      popcount(same) times the constant
#     others      next = the nearest lane above with the same index
#                 value = value ∘ value of next, lanes of odd rank retire, until none has a next
#     the lowest of them updates the element
#
# With few collisions this costs a match and a vote per element, which the latency of the updates
# hides.  With many collisions it reduces the number of updates to about a thirtieth.

_NONE, _ONE, _ALL = Const(0, uint32), Const(1, uint32), Const(uint32.highest, uint32)


def _bits(name: str, a: Expr, b: Expr) -> Expr:
    return simplify.apply(primitive(name), (a, b), uint32)


def _is(name: str, a: Expr, b: Expr) -> Expr:
    return simplify.apply(primitive(name), (a, b), bool_)


def _count(e: Expr) -> Expr:
    return Apply(primitive("popcount"), (e,), uint32)


class WarpAggregation:
    """Updates of a permute's target by complete warps.  `size`: elements of the target."""

    def __init__(self, into: Linearizer, grid: common.Threads, outs: Sequence[ir.Buffer],
                 combine: Combine, values: Sequence[Expr], size: Expr) -> None:  # fmt: skip
        self.outs, self.combine, self.size = outs, combine, size
        made = accumulators(combine, values) or ()
        counts = [a for a in made if isinstance(a, Counts)]
        self.counts = counts if counts and len(counts) == len(made) else None
        self.lane = into.let(grid.lane, "lane")
        bit = into.let(_bits("left_shift", _ONE, simplify.cast(self.lane, uint32)), "bit")
        self.below = into.let(_bits("subtract", bit, _ONE), "below")
        self.above = into.let(_bits("bitwise_xor", _bits("bitwise_or", self.below, bit), _ALL),
                              "above")  # fmt: skip

    @staticmethod
    def suits(combine: Combine) -> bool:
        """Whether values may be combined before they reach the target: known operators."""
        return is_commutative(combine)

    def update(self, into: Linearizer, position: Expr, target: Expr, values: Values) -> None:
        """Update by all lanes of a warp at once; index −1 means no update."""
        same = self._same(into, target)
        if self.counts is None:
            values = self._joined(into, same, values)
        first = _is("equal", _bits("bitwise_and", same, self.below), _NONE)
        with into.when(at.both(first, at.less_equal(0, target))):
            if self.counts is not None:
                values = tuple(c.finish(_count(same))[1] for c in self.counts)
            for k, (out, value) in enumerate(zip(self.outs, values, strict=True)):
                into.append(ir.Atomic((out,), target, (value,), component(self.combine, k)))

    def _same(self, into: Linearizer, target: Expr) -> Expr:
        half = Var("same", uint32)
        into.append(ir.Collective(half, "match", (simplify.cast(target, int32),)))
        same = into.declare(half, "same")
        with into.when(at.less(1 << 31, self.size)):  # the high halves of the indices
            high = Var("high", uint32)
            upper = simplify.cast(target // (1 << 32), int32)
            into.append(ir.Collective(high, "match", (upper,)))
            into.append(ir.Assign(same, _bits("bitwise_and", same, high)))
        return same

    def _joined(self, into: Linearizer, same: Expr, values: Values) -> Values:
        """Combine the values of each index into its lowest lane."""
        peers = into.declare(_bits("bitwise_and", same, self.above), "peers")
        rank = into.declare(_count(_bits("bitwise_and", same, self.below)), "rank")
        totals = declare(into, values, "joined")
        some, even = Var("some", uint32), Var("even", uint32)
        waiting = _is("not_equal", peers, _NONE)
        with into.body() as before:
            into.append(ir.Collective(some, "ballot", (waiting,)))
        with into.body() as body:
            lowest = _bits("bitwise_and", peers, _bits("subtract", _NONE, peers))
            number = simplify.cast(_count(_bits("subtract", lowest, _ONE)), int64)
            source = into.let(simplify.select(waiting, number, self.lane), "next")
            others = [Var("other", v.type) for v in totals]
            for other, v in zip(others, totals, strict=True):
                into.append(ir.Collective(other, "shuffle", (v, source)))
            with into.when(waiting):
                accumulate(into, self.combine, totals, others)
            stays = _is("equal", _bits("bitwise_and", rank, _ONE), _NONE)
            into.append(ir.Collective(even, "ballot", (stays,)))
            into.append(ir.Assign(peers, _bits("bitwise_and", peers, even)))
            into.append(ir.Assign(rank, _bits("right_shift", rank, _ONE)))
        into.append(ir.While(tuple(before), _is("not_equal", some, _NONE), tuple(body)))
        return totals
