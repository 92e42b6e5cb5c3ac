"""Permute on a CPU: scatter with combination, into buffers that already hold the defaults.

    private     small targets, operators with an identity (histograms): each chunk of the source
                accumulates into private copies; a second kernel adds the copies to the target.
                Chunks depend only on the extents, so the result does too; if chunks cannot change
                a bit, every thread has the same number of them.  If every update adds the same
                constant, the copies count in 32 bits, or in 8 bits for large targets, so that a
                copy stays in the cache; overflows are added to the target
    ordered     any operator: one task, in the order of the visits.  Used if it is as fast as all
                threads with the atomic updates below, and for deterministic=True
    atomic      independent operators on components of up to eight bytes: atomic updates
    locked      tuples, complex128: complete elements under one of LOCKS spin locks
    stores      one-to-one maps (slices, transposes), where no two updates have the same index; and
                overwrite of one component: the last store wins
    compact     the selected sources, stored consecutively (`lower_compact`)

As in `elementwise/`, rows of `stores`, `atomic` and `locked` are split into parts if conditions on
indices guard reads.  The extents select the strategy at run time; the kernels of the other
strategies then have no tasks.  `atomic` and `locked` updates run in any order: floats may differ in
the last bits from run to run.

A schedule determines the visiting order of the source elements and their assignment to tasks; a
chunk is a number of consecutive tasks.  `deterministic=True` keeps the order of the source.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

from treadle.dsl import expr as ex, simplify
from treadle.dsl.analysis.combines import (
    identities,
    independent_parts,
    is_commutative,
    simple_combine,
)
from treadle.dsl.analysis.updates import is_one_to_one, parted
from treadle.dsl.errors import WRITTEN
from treadle.dsl.expr import FALSE, Expr, Index, Var, constant
from treadle.dsl.graph import Combine, Compact, Permute, Shape, known
from treadle.dsl.passes.recognise import counts_in_bytes, is_count
from treadle.dsl.passes.rows import NARROW
from treadle.dsl.passes.updates import COLUMNS
from treadle.dsl.types import bool_, int32, int64, uint8, uint32, uint64

from ...ir import arithmetic as at
from ...ir.kernel import Assign, Atomic, Buffer, Kernel, Load, Lowered, Store
from ...ir.linearize import Linearizer, zero
from ...schedules import LocalityGraph, Schedule
from .. import combining, tiling, transform
from ..build import Builder, LoweringContext, element_cost
from ..combining import compute, reduce_range
from ..elementwise.cpu import elements_per_task
from ..elementwise.parts import in_parts
from ..stencil.cpu import is_short
from ..tiling import Inner, Tile, Tiling
from ..visits import QUEUES, shown

#: Targets of at most this many elements are accumulated in private copies.
PRIVATE_TARGET = 1 << 21
#: At most this many chunks, of at least so many source elements.
CHUNKS, CHUNK_ELEMENTS = 64, 1 << 15
#: The fewest updates per element of a copy for which there are more chunks, for threads to share.
SHARED_TARGET = 2
#: Copies per chunk for small targets, used round-robin, so that consecutive updates of the same
#: element do not wait for each other; and the most bytes of all copies: more would evict each
#: other, and the source, from an L1 cache of 32 KB.
COPIES, COPIED_BYTES = 4, 1 << 13
#: Source elements whose target indices a vector loop computes in advance.
STAGE = 1024
#: Elements of the target that one task of the second kernel combines.
GATHER = 1024
#: Maximum number of elements to count: the count of a chunk must fit in 32 bits.
COUNTED = 1 << 36
LOCKS = 1024
#: The cost of an update's index, in additions, that the loads and stores of others hide: an index
#: from the end and a range test take 6.
_CHEAP_TARGET = 8.0
#: Target bytes up to which threads contend for its cache lines, so that more threads do not
#: increase the rate of atomic updates; and from which its elements come from memory.
FEW_BYTES, FAR_BYTES = 1 << 16, 12 << 20
#: Nanoseconds of an update, for a target in the caches and one in memory: by one task in order;
#: atomic (from memory, compare-and-swap misses twice, fetch-and-add of an integer once); under a
#: lock.  And of one addition besides it.  Measured on an EPYC.
ORDERED, ATOMIC, FETCH, LOCKED = (1.0, 5.5), (5.0, 12.0), (5.0, 9.0), (15.0, 19.0)
WORK = 0.08
#: Operators with atomic hardware instructions for integers, and operators exact for floats.
FETCHES = frozenset(("add", "bitwise_and", "bitwise_or", "bitwise_xor"))
EXACT = frozenset(("minimum", "maximum", "fmin", "fmax"))
#: Operators whose operands may be guarded.
DIVISIONS = frozenset(("floor_divide", "remainder", "quot", "rem"))
#: `ordered` is used if its cost is at most this fraction of that of atomic updates.
AS_FAST = 1.1
RUN_TO_RUN = ("updates by atomics: float results may differ in the last bits from run to run; "
              "deterministic=True orders them")  # fmt: skip

Action = Callable[[Linearizer, Expr, combining.Values], None]


class _Update(NamedTuple):
    """An update of a source: whether it is valid, its target indices, and its values."""

    valid: Expr
    target: tuple[Expr, ...]
    values: tuple[Expr, ...]


def _update_of(roots: Sequence[Expr], rank: int) -> _Update:
    """The update given by `roots`, for a target of `rank` axes."""
    return _Update(roots[0], tuple(roots[1 : rank + 1]), tuple(roots[rank + 1 :]))


class _Stage(NamedTuple):
    """Local memory for parts of an update that a vector loop computes in advance."""

    update: _Update
    targets: Buffer
    kept: list[Buffer | None]


def lower_permute(node: Permute, context: LoweringContext) -> Lowered:
    """Up to four kernels (module docstring)."""
    return _Permute(Builder(node, context), node).lower()


class _Permute:
    def __init__(self, builder: Builder, node: Permute) -> None:
        self.builder, self.node = builder, node
        self.combine = None if node.combine is None else combining.arithmetic(node.combine, builder)
        self.outs = builder.outputs("update")
        self.target_shape = node.defaults[0].shape
        self.size_host = at.product(self.target_shape)
        self.size = builder.scalar(self.size_host, "targets")
        self.domain = node.domain or (ex.constant(1),)
        self.count_host = at.product(self.domain)
        self.one_to_one = is_one_to_one(node)
        roots = (node.valid, *node.target, *node.values)
        roots = transform.resolve(roots, builder, self.domain)
        parts = _alternatives(roots, self.domain)
        stacked = len(parts) > 1
        self.launched: Expr = ex.TRUE
        rank = len(node.domain)
        if len(parts) == 1:
            self.launched, valid = parted(roots[0])
            roots = (valid, *roots[1:])
        else:
            roots, self.domain = tuple(e for part in parts for e in part), self.domain[:-1]
            self.count_host, rank = at.product(self.domain), rank - 1
        self.line = ex.Var("p", int64)
        self.collapsed = None
        plan, unit = None, None  # `unit`: the elements of a row, if rows are one line
        if node.label.deterministic and not self.one_to_one:
            if tiling.schedule_of(builder) is not None:
                builder.notes.append("deterministic=True: the source is visited in its own order")
        else:
            plan = tiling.plan_of(builder, rank, outputs=True)
        if len(self.domain) > 1 and plan is None:
            self.collapsed = transform.collapse(roots, self.domain, builder, self.line)
            short = self.collapsed is None and is_short(builder, self.domain[-1], NARROW)
            members: list[tuple[Expr, ...]] = []
            if short and len(parts) == 1 and not self.one_to_one:
                members = _members(roots, self.domain, builder)
            every = tuple(e for member in members for e in member)
            if members and not _is_costly(every, len(members)):
                builder.notes.append("all elements of the last axis after each other")
                parts, roots, short, self.domain = members, every, False, self.domain[:-1]
                self.count_host = at.product(self.domain)
            first = len(self.domain) - 2 if short else 0
            if short:
                self.collapsed = transform.collapse(roots, self.domain, builder, self.line, first,
                                                    divided=True)  # fmt: skip
            if self.collapsed is not None:
                if short:
                    builder.notes.append("columns and elements of the last axis as one row")
                row = at.product(self.domain[first:])
                unit = at.product(self.domain[1:]) if first == 0 else None
                roots, self.domain = self.collapsed, (*self.domain[:first], row)
        #: A condition that is constant along a row, and therefore tested once per row.
        self.row: Expr = ex.TRUE
        if len(parts) == 1 and len(self.domain) > 1:
            last = ex.Index(len(self.domain) - 1) if self.collapsed is None else self.line
            self.row, roots = _by_row(roots, last)
        size = len(roots) // len(parts)
        #: The updates of each source.
        self.parts = [_update_of(roots[k : k + size], len(node.target))
                      for k in range(0, len(roots), size)]  # fmt: skip
        self.common = _common(self.parts)
        #: The number of updates of all sources, if those of a source go to columns of a row.
        self.updates_host = self.count_host
        if stacked and _are_columns(self.parts):
            self.updates_host = self.count_host * len(self.parts)
        self.counted = self.combine is not None and all(
            is_count(self.combine, k, v) for k, v in enumerate(node.values)
        )
        self.bytes = counts_in_bytes(node)
        self.elements = elements_per_task(builder, roots, self.outs)
        if plan is None:
            self.tiling = tiling.default_tiling(builder, self.domain, self.elements)
            if self.tiling.blocks is not None and unit is not None:
                self.tiling = replace(self.tiling, blocks=replace(self.tiling.blocks, unit=unit))
        else:
            self.tiling = tiling.ordered_tiling(plan, builder, self.domain, self.elements)
            schedule = tiling.schedule_of(builder) or Schedule()
            if isinstance(schedule.residency, LocalityGraph):
                self.tiling = self._by_graph(self.tiling)
            builder.notes.append(shown(schedule, plan, [1 for _ in self.domain]))
            if schedule.lanes is not None:
                builder.notes.append(f"{schedule.lanes!r} has no effect: updates go row by row")

    def _by_graph(self, blocks: Tiling) -> Tiling:
        """The same blocks in the graph's order, from a table that the host fills."""
        (order,) = self.builder.scratch(QUEUES, [int32], at.maximum(blocks.tasks, 1))

        def emit(into: Linearizer, position: ex.Var, inner: Inner) -> None:
            # Explicit bounds for the range analysis of later arithmetic.
            found = at.maximum(simplify.cast(Load(order, position), int64), 0)
            block = into.let(at.minimum(found, blocks.tasks - 1), "block")
            assert isinstance(block, ex.Var)
            blocks.emit(into, block, inner)

        return Tiling(blocks.tasks, emit)

    # --- elements of the source ---

    @contextmanager
    def in_row(self, into: Linearizer, tile: Tile, row: Expr) -> Iterator[None]:
        """The scope of a tile's row, entered if any of its elements has a target."""
        if self.row is ex.TRUE:
            yield
            return
        found: dict[Expr, Expr] = {
            ex.Index(k): i for k, i in enumerate((*tile.leading, row)) if k < len(self.domain) - 1
        }
        for k, index in enumerate(found.values()):
            self.builder.stays_below(index, self.domain[k])
        with into.when_always(found), into.when(into.value(self.row)):
            yield

    def roots(self) -> tuple[Expr, ...]:
        """The expressions that a source computes."""
        return tuple(e for u in self.parts for e in (u.valid, *u.target, *u.values))

    def _bindings(self, tile: Tile, row: Expr, col: Expr) -> dict[Expr, Expr]:
        indices = (*tile.leading, row, col) if len(self.domain) > 1 else (col,)
        for k, index in enumerate(indices):
            self.builder.stays_below(index, self.domain[k])
        found: dict[Expr, Expr] = {ex.Index(k): i for k, i in enumerate(indices)}
        if self.collapsed is not None:  # the last axis is a line
            found[self.line] = found.pop(ex.Index(len(indices) - 1))
        return found

    def _locate(self, into: Linearizer, update: _Update,
                found: Callable[[Linearizer, Expr], None]) -> None:  # fmt: skip
        """`found(position)` if the update has a target index; checked in checked mode."""
        with into.when(into.value(update.valid)):
            target = into.emit(update.target)
            ok: Expr = ex.TRUE
            if self.builder.context.check:
                target = tuple(into.let(i, "at") for i in target)
                ok = self.builder.check_index(WRITTEN, target, self.target_shape, into)
            with into.when(ok):
                found(into, at.linear(target, self.builder.shape(self.target_shape)))

    def _direct(self, into: Linearizer, tile: Tile, row: Expr, col: Expr, act: Action,
                updates: Sequence[_Update] = ()) -> None:  # fmt: skip
        """`updates`: the updates of the source, if its indices simplify them."""
        with into.when_always(self._bindings(tile, row, col)):
            for e in self.common:
                into.value(e, "common")
            for update in updates or self.parts:

                def found(inner: Linearizer, position: Expr, update: _Update = update) -> None:
                    where = inner.let(position, "target")
                    values = inner.emit(update.values, named=len(update.values) > 1)
                    act(inner, where, values)

                self._locate(into, update, found)

    # --- strategies ---

    def lower(self) -> Lowered:
        builder = self.builder
        if self.one_to_one:
            builder.notes.append("every source has a target of its own")
            return builder.lowered(self._each("stores", self.tiling.tasks))
        if self.node.label.deterministic:
            builder.notes.append("deterministic: one task, in the order of the source")
            return builder.lowered(self._ordered(ex.constant(1)))
        neutral = None if self.combine is None else identities(self.combine)
        if neutral is None:
            return builder.lowered(*self._directly(ex.constant(0), ex.FALSE))
        if self.counted:
            neutral = tuple(ex.Const(0, uint8 if self.bytes else uint32) for _ in self.outs)
        most = COPIED_BYTES // (COPIES * sum(n.type.bytes for n in neutral))
        sub_host = at.select(at.less_equal(self.size_host, most), COPIES, 1)
        per_target = sub_host * (4 if self.bytes else 8)
        least = at.maximum(self.size_host * per_target, CHUNK_ELEMENTS)
        chunks_host = at.minimum(at.maximum(self.updates_host // least, 1), CHUNKS)
        if not rounds(self.node):
            chunks_host = self._for_all_threads(chunks_host)
        worth = at.both(
            at.less_equal(self.size_host, PRIVATE_TARGET),
            at.less_equal(self.size_host * 2, self.count_host + 4096),
        )
        if self.counted:
            worth = at.both(worth, at.less_equal(self.count_host, COUNTED))
        # A single copy would only add overhead to the ordered strategy.
        alone = at.both(at.equal(chunks_host, 1), at.equal(sub_host, 1))
        in_order = at.both(worth, alone)
        chunks_host = at.select(at.both(worth, at.negate(alone)), chunks_host, 0)
        chunks = builder.scalar(chunks_host, "chunks")
        self.sub = builder.scalar(sub_host, "copies")
        length = at.product((chunks_host, sub_host, self.size_host))
        copies = builder.scratch("private", [n.type for n in neutral],
                                 builder.scalar(length, "private_size"))  # fmt: skip
        private = self._private(copies, chunks, neutral)
        gather = self._gather(copies, chunks, chunks_host)
        return builder.lowered(private, gather, *self._directly(chunks_host, in_order))

    def _for_all_threads(self, chunks: Expr) -> Expr:
        """An equal number of chunks per thread, as long as the copies cost less than their updates;
        for results that do not depend on the chunks."""
        threads = max(self.builder.context.threads, 1)
        least = at.maximum(self.size_host * SHARED_TARGET, CHUNK_ELEMENTS)
        most = at.minimum(self.count_host // least, CHUNKS)
        even = at.ceil_div(chunks, threads) * threads
        return at.minimum(even, at.maximum(chunks, most))

    def _directly(self, chunks_host: Expr, in_order: Expr) -> list[Kernel]:
        """The strategies that update the target directly, used if there are no chunks; `in_order`:
        the condition that forces the ordered one, besides its speed."""
        way, limit = self._way(), self._order_limit()
        if limit is None:
            in_order = ex.TRUE
        elif limit:
            size = sum(b.type.bytes for b in self.outs)
            small = at.less_equal(self.size_host * size, limit)
            in_order = at.either(in_order, small)
        direct = at.equal(chunks_host, 0)
        made = []
        for suffix, wanted in (("ordered", in_order), (way, at.negate(in_order))):
            chosen = at.both(direct, wanted)
            if at.is_constant(chosen, 0):
                continue
            one = self.builder.scalar(at.select(chosen, 1, 0), suffix)
            if suffix == "ordered":
                made.append(self._ordered(one))
            else:
                tasks = at.select(at.equal(one, 0), 0, self.tiling.tasks)
                made.append(self._each(way, tasks))
        return made

    def _order_limit(self) -> int | None:
        """Target bytes up to which one task in order is as fast as all threads with atomic updates;
        None: no limit, 0: never.

        The estimate includes that a single thread then computes the source elements.
        """
        if self._way() == "stores":
            return 0
        if self.combine is not None and not combining.is_arithmetic(self.combine):
            return None  # an update with reads or loops cannot be atomic
        threads = self.builder.context.threads
        results = () if self.combine is None else self.combine.results
        roots = (*self.roots(), *results)
        reads = sum(isinstance(e, ex.Read) for e in ex.walk(roots))
        work = WORK * max(element_cost(roots) - reads - len(results), 0.0)
        integer = self.outs[0].type.is_integer and all(_is_any(e, FETCHES) for e in results)
        near, far = LOCKED if self._way() == "locked" else FETCH if integer else ATOMIC
        limit: int | None = 0
        for bytes_, ordered, together in (
            (FEW_BYTES, ORDERED[0], work / threads + near),
            (FAR_BYTES, ORDERED[0], (work + near) / threads),
            (None, ORDERED[1], (work + far) / threads),
        ):
            if work + ordered > AS_FAST * together:
                break
            limit = bytes_
        return limit

    def _way(self) -> str:
        alone = len(self.outs) == 1 or (self.combine is not None and is_commutative(self.combine))
        if not alone or any(b.type.bits > 64 for b in self.outs):
            return "locked"
        overwrites = self.combine is None and not self.outs[0].type.is_complex
        return "stores" if overwrites else "atomic"

    def _each(self, way: str, tasks: Expr) -> Kernel:
        """The kernel that processes all source elements in parallel, updating the target
        directly."""
        into, task = self.builder.emitter(), ex.Var("task", int64)
        locks = None
        if way == "locked":
            (locks,) = self.builder.scratch("zero_locks", [int32], ex.constant(LOCKS))

        def act(inner: Linearizer, where: Expr, values: combining.Values) -> None:
            if way == "stores":
                update(inner, self.outs, where, values, self.combine)
            elif way == "locked":
                inner.append(Atomic(self.outs, where, values, self.combine, locks))
            elif self.combine is None:
                inner.append(Atomic(self.outs, where, values, None))
            else:
                for (k,), combine in independent_parts(self.combine):
                    inner.append(Atomic((self.outs[k],), where, (values[k],), combine))

        def loops(inner: Linearizer, tile: Tile) -> None:
            with inner.loop("i", *tile.rows) as i, self.in_row(inner, tile, i):

                def part(cols: tuple[Expr, Expr], roots: Sequence[Expr], single: bool) -> None:
                    with inner.loop("j", *cols, "serial" if single else "vector") as j:
                        self._direct(inner, tile, i, j, act, [_update_of(roots, target)])

                if len(self.parts) == 1 and self.collapsed is None:
                    last, target = len(self.domain) - 1, len(self.parts[0].target)
                    known = dict(enumerate((*tile.leading, i)[:last]))
                    in_parts(inner, self.builder, self.roots(), known, last, tile.cols, part)
                    return
                with inner.loop("j", *tile.cols, "vector") as j:
                    self._direct(inner, tile, i, j, act)

        with into.when(into.value(self.launched)):
            self.tiling.emit(into, task, loops)
        comments = [f"{way} updates"]
        if way != "stores" and rounds(self.node):
            comments.append(RUN_TO_RUN)
        return self.kernel(way, tasks, task, into, *comments)

    def _ordered(self, tasks: Expr) -> Kernel:
        """The kernel of one task that processes the source in sequence, updating the target
        directly."""
        into, task = self.builder.emitter(), ex.Var("task", int64)
        body = _Staged(self, self.outs, [ex.constant(0)] * COPIES, counted=False)
        launched = into.value(self.launched)
        with into.when(launched), into.loop("tile", 0, self.tiling.tasks) as number:
            self.tiling.emit(into, number, body.tile)
        return self.kernel("ordered", tasks, task, into, "updates in the order of the visits")

    def _private(self, copies: tuple[Buffer, ...], chunks: Expr, neutral: Sequence[ex.Const]
                 ) -> Kernel:  # fmt: skip
        """The kernel whose tasks accumulate one chunk of the source into private copies of the
        target."""
        into, task = self.builder.emitter(), ex.Var("task", int64)
        size = self.size
        base = into.let(at.product((task, self.sub, size)), "base")
        with into.loop("t", base, base + self.sub * size, "vector") as t:
            combining.put(into, copies, t, neutral)
        step = at.select(at.equal(self.sub, 1), 0, size)
        bases = [into.let(base + step * u, "copy") for u in range(COPIES)]
        per_chunk = into.let(at.ceil_div(self.tiling.tasks, chunks), "tiles_per_chunk")
        first, end = tiling.block_range(into, "tile", task, per_chunk, self.tiling.tasks)
        body = _Staged(self, copies, bases, self.counted)
        with into.when(into.value(self.launched)), into.loop("tile", first, end) as number:
            self.tiling.emit(into, number, body.tile)
        return self.kernel("private", chunks, task, into, "a copy of the target for each chunk")

    def _gather(self, copies: tuple[Buffer, ...], chunks: Expr, chunks_host: Expr) -> Kernel:
        """The kernel that combines the copies, in order, and the defaults."""
        assert self.combine is not None
        into, task = self.builder.emitter(), ex.Var("task", int64)
        start, stop = tiling.block_range(into, "target", task, GATHER, self.size)
        count = chunks * self.sub
        wide = [uint64 if self.counted else b.type for b in copies]
        combine = _sums(len(copies)) if self.counted else self.combine

        def copy_at(where: Expr) -> list[Expr]:
            return [simplify.cast(Load(b, where), t) for b, t in zip(copies, wide, strict=True)]

        with into.loop("t", start, stop, "vector") as t:
            total: combining.Values = combining.declare(into, copy_at(t))
            with into.loop("c", 1, count) as c:
                where = c * self.size + t
                combining.accumulate(into, combine, total, copy_at(where))  # type: ignore[arg-type]
            if self.counted:
                each = zip(total, self.node.values, strict=True)
                total = tuple(
                    simplify.apply(ex.primitive("multiply"), (simplify.cast(n, v.type), v), v.type)
                    for n, v in each
                )
            update(into, self.outs, t, total, self.combine)
        tasks = at.select(at.less(0, chunks_host), at.ceil_div(self.size_host, GATHER), 0)
        return self.kernel("gather", self.builder.scalar(tasks, "gathers"), task, into,
                           "the copies and the defaults")  # fmt: skip

    def kernel(self, suffix: str, tasks: Expr, task: ex.Var, into: Linearizer, *comments: str
               ) -> Kernel:  # fmt: skip
        blocks = self.tiling.blocks if suffix == "stores" and self.one_to_one else None
        return self.builder.kernel(suffix, tasks, task, tuple(into.out), comments=comments,
                                   blocks=blocks)  # fmt: skip


def update(into: Linearizer, buffers: Sequence[Buffer], where: Expr, values: Sequence[Expr],
           combine: Combine | None) -> None:  # fmt: skip
    """`buffers[where] = combine(values, buffers[where])`, by one thread."""
    if combine is not None:
        where = into.let(where, "target")
        old = [into.let(Load(b, where), "old") for b in buffers]
        values = combining.apply_combine(into, combine, values, old, named=False)
        if len(values) > 1:
            values = [into.let(v, "r") for v in values]
    combining.put(into, buffers, where, values)


def _sums(count: int) -> Combine:
    """Component-wise sums of uint64."""
    left, right = (
        [ex.Var(f"{side}{k}", uint64) for k in range(count)] for side in ("left", "right")
    )
    results = [simplify.apply(ex.primitive("add"), (a, b), uint64)
               for a, b in zip(left, right, strict=True)]  # fmt: skip
    return Combine(tuple(left), tuple(right), tuple(results))


class _Staged:
    """The loops of one task: costly positions in advance by vectors, then updates, round-robin over
    the copies; `counted`: the copies count."""

    def __init__(self, permute: _Permute, copies: tuple[Buffer, ...], bases: Sequence[Expr],
                 counted: bool) -> None:  # fmt: skip
        self.permute, self.copies, self.bases = permute, copies, bases
        self.counted = counted
        # The arithmetic of several updates hides behind their loads and stores.
        self.staged = len(permute.parts) == 1 and _is_costly(permute.roots())
        self.stage = STAGE // (1 << (len(permute.parts) - 1).bit_length())
        if self.staged:
            self.stages = [self._stage(update) for update in permute.parts]

    def _stage(self, update: _Update) -> _Stage:
        """Memory for the targets and the values; None for a value that is constant."""
        builder = self.permute.builder
        (targets,) = builder.local("target", [int64], self.stage)
        varying = [
            any(isinstance(e, ex.Index | ex.Read | ex.Var) for e in ex.walk([v]))
            for v in update.values
        ]
        kept = [
            builder.local("value", [v.type], self.stage)[0] if varies else None
            for v, varies in zip(update.values, varying, strict=True)
        ]
        return _Stage(update, targets, kept)

    def tile(self, into: Linearizer, tile: Tile) -> None:
        with into.loop("i", *tile.rows) as row, self.permute.in_row(into, tile, row):
            if not self.staged:
                self._round_robin(
                    into, *tile.cols, lambda x, j, u: self._direct(x, tile, row, j, u)
                )
                return
            with into.loop("part", *tile.cols, step=self.stage) as part:
                stop = into.let(at.minimum(part + self.stage, tile.cols[1]), "part_stop")
                with into.loop("j", part, stop, "vector") as j:
                    self._ahead(into, tile, row, j, j - part)
                self._round_robin(into, ex.constant(0), stop - part, self._update_staged)

    def _round_robin(self, into: Linearizer, start: Expr, stop: Expr,
                 one: Callable[[Linearizer, Expr, int], None]) -> None:  # fmt: skip
        """Elements in sequence, the copies round-robin."""
        iterations = (stop - start) // COPIES * COPIES
        left = into.let(start + iterations, "left_over")
        with into.loop("q", start, left, step=COPIES) as q:
            for u in range(COPIES):
                one(into, q + u, u)
        with into.loop("q", left, stop) as q:
            one(into, q, 0)

    def _update(self, into: Linearizer, where: Expr, values: Sequence[Expr], copy: int) -> None:
        target = self.bases[copy] + where
        if not self.counted:
            update(into, self.copies, target, values, self.permute.combine)
            return
        target = into.let(target, "target")
        for b in self.copies:
            one = ex.Const(1, b.type)
            count = simplify.apply(ex.primitive("add"), (Load(b, target), one), b.type)
            count = into.let(count, "count")
            into.append(Store(b, target, count))
            if self.permute.bytes:
                self._carry(into, where, count)

    def _carry(self, into: Linearizer, where: Expr, count: Expr) -> None:
        """A count that wraps to 0 has lost 256 updates: add them to the target."""
        (value,), (out,) = self.permute.node.values, self.permute.outs
        times = simplify.cast(ex.Const(256, uint64), value.type)
        all_of_them = simplify.apply(
            ex.primitive("multiply"), (into.value(value), times), value.type
        )
        none = simplify.apply(ex.primitive("equal"), (count, zero(count.type)), bool_)
        with into.when(none):
            into.append(Atomic((out,), where, (all_of_them,), self.permute.combine))

    def _direct(self, into: Linearizer, tile: Tile, row: Expr, col: Expr, copy: int) -> None:
        self.permute._direct(
            into, tile, row, col, lambda x, where, values: self._update(x, where, values, copy)
        )

    def _ahead(self, into: Linearizer, tile: Tile, row: Expr, col: Expr, slot: Expr) -> None:
        """Compute the target indices (−1: none) and the values of one element in advance."""
        slot = into.let(slot, "slot")
        with into.when_always(self.permute._bindings(tile, row, col)):
            for stage in self.stages:
                self._part_ahead(into, stage, slot)

    def _part_ahead(self, into: Linearizer, stage: _Stage, slot: Expr) -> None:
        target = into.declare(ex.constant(-1), "target")
        values = zip(stage.update.values, stage.kept, strict=True)
        wanted = [v for v, b in values if b is not None]
        kept = combining.declare(into, [zero(v.type) for v in wanted], "value")

        def found(inner: Linearizer, position: Expr) -> None:
            inner.append(Assign(target, position))
            combining.assign(inner, kept, inner.emit(wanted))

        self.permute._locate(into, stage.update, found)
        into.append(Store(stage.targets, slot, target))
        combining.put(into, [b for b in stage.kept if b is not None], slot, kept)

    def _update_staged(self, into: Linearizer, slot: Expr, copy: int) -> None:
        for stage in self.stages:
            target = into.let(Load(stage.targets, slot), "target")
            with into.when(at.less_equal(0, target)):
                values = [
                    into.value(v) if b is None else Load(b, slot)
                    for v, b in zip(stage.update.values, stage.kept, strict=True)
                ]
                self._update(into, target, values, copy)


def _alternatives(roots: tuple[Expr, ...], domain: Shape) -> list[tuple[Expr, ...]]:
    """The roots for each index along the last axis, if it selects between updates (`fuse_updates`);
    otherwise the roots."""
    last, n = ex.Index(len(domain) - 1), known(domain[-1])
    chooses = any(isinstance(e, ex.Cond) and last in e.args[0].args for e in ex.walk(roots))
    if len(domain) < 2 or not n or n > COLUMNS or not chooses:
        return [roots]

    return [ex.rewrite(roots, simplify.chosen, {last: ex.constant(k)}) for k in range(n)]


def _are_columns(updates: Sequence[_Update]) -> bool:
    """Whether the updates differ along only one target axis, with constant indices there."""
    differ = [set(index) for index in zip(*(u.target for u in updates), strict=True)]
    apart = [found for found in differ if len(found) > 1]
    return len(apart) == 1 and all(isinstance(e, ex.Const) for e in apart[0])


def _by_row(roots: tuple[Expr, ...], last: Expr) -> tuple[Expr, tuple[Expr, ...]]:
    """The conjuncts of an update's validity (the first of `roots`) that do not depend on the index
    `last`; and the roots where these hold."""
    found: dict[Expr, Expr] = {}
    guarded = False
    for e in _required(roots[0]):
        parts = ex.walk((e,))
        if last in parts:
            guarded = True  # later conjuncts may be valid only where this holds
        elif not guarded or not any(map(_may_be_guarded, parts)):
            found[e] = ex.TRUE
    row: Expr = ex.TRUE
    for e in found:
        row = simplify.apply(ex.primitive("logical_and"), (row, e), bool_)
    return row, ex.rewrite(roots, simplify.chosen, found) if found else roots


def _may_be_guarded(e: Expr) -> bool:
    """Whether an expression may be valid only under a condition."""
    divides = isinstance(e, ex.Apply) and e.op.name in DIVISIONS
    return divides or isinstance(e, ex.Read | ex.Loop | ex.While | ex.Foreign)


def _required(condition: Expr) -> Iterator[Expr]:
    """The conjuncts of a condition, in the order of evaluation."""
    if isinstance(condition, ex.Apply) and condition.op.name == "logical_and":
        for e in condition.args:
            yield from _required(e)
    elif isinstance(condition, ex.Proj) and isinstance(condition.args[0], ex.Cond):
        if condition.args[0].other[condition.which] is ex.FALSE:
            yield from _required(condition.args[0].args[0])
    elif not isinstance(condition, ex.Const):
        yield condition


def _members(roots: tuple[Expr, ...], domain: Shape, builder: Builder) -> list[tuple[Expr, ...]]:
    """The roots for each index along the last axis, which is short."""
    n = known(builder.root(domain[-1]))
    assert n is not None
    last = ex.Index(len(domain) - 1)
    return [ex.substitute(roots, {last: ex.constant(k)}) for k in range(n)]


def _common(parts: Sequence[_Update]) -> list[Expr]:
    """Expressions common to several updates that are valid whether or not there is an update; of
    reads, only those that determine whether there is one."""
    if len(parts) == 1:
        return []
    known = set(ex.walk([u.valid for u in parts], lambda e: not e.scoped))
    times: Counter[Expr] = Counter()
    safe: dict[Expr, bool] = {}
    for update in parts:
        for e in ex.walk((*update.target, *update.values)):
            times[e] += 1
            plain = isinstance(e, ex.Apply) and not (
                e.op.name in DIVISIONS and not isinstance(e.args[-1], ex.Const)
            )
            safe[e] = (
                e in known
                or isinstance(e, ex.Index | ex.Const)
                or (plain and all(safe[a] for a in e.args))
            )
    found = [e for e, n in times.items() if n > 1 and safe[e] and isinstance(e, ex.Apply)]
    inner = {a for e in found for a in e.args}
    return [e for e in found if e not in inner or e in known]


def rounds(node: Permute) -> bool:
    """Whether the order of updates can change float results (minima and maxima: no)."""
    if node.combine is None or not any(o.type.is_inexact for o in node.outputs):
        return False
    return not all(_is_any(e, EXACT) for e in node.combine.results)


def _is_any(e: Expr, names: frozenset[str]) -> bool:
    return isinstance(e, ex.Apply) and e.op.name in names


def _is_costly(roots: Sequence[Expr], updates: int = 1) -> bool:
    """Whether computing `updates` updates by a vector loop pays for storing them in between.

    Not for the arithmetic of indices read from an array (x[i[k]], with i[k] < 0 from the end):
    vector gathers are no faster than scalar loads.
    """
    nodes = list(ex.walk(roots))
    reading: set[Expr] = set()
    for e in nodes:
        if isinstance(e, ex.Read) or any(a in reading for a in e.args):
            reading.add(e)
    indices = reading.intersection(
        ex.walk([a for e in nodes if isinstance(e, ex.Read) for a in e.args])
    )
    cost = sum(e.op.cost for e in nodes if isinstance(e, ex.Apply) and e not in indices)
    control = any(not isinstance(e, ex.Apply | ex.Read) and (bool(e.args) or bool(e.scoped))
                  for e in nodes)  # fmt: skip
    return control or cost > _CHEAP_TARGET * updates


#: Marks that are tested at a time.
TESTED = 64


def lower_compact(node: Compact, context: LoweringContext) -> Lowered:
    """The selected sources, stored consecutively.

        tasks                          blocks of `Compact.BLOCK` sources
          for i (vector)               mark[i] = whether source i is selected
          for 64 marks, if any is set
            for i                      chosen[count] = i;  count += mark[i]
          for k < count (vector)       out[first + k] = the value of source chosen[k]

    Only selected sources compute a value, so a mask may guard its reads.
    """
    builder = Builder(node, context)
    outs = builder.outputs("update")
    (n,) = node.domain
    roots = (node.valid, *node.target, *node.values)
    valid, target, *values = transform.resolve(roots, builder, node.domain)
    (marks,) = builder.local("mark", [bool_], Compact.BLOCK)
    (chosen,) = builder.local("chosen", [int64], Compact.BLOCK)
    into, task = builder.emitter(), Var("task", int64)
    start, stop = tiling.block_range(into, "source", task, Compact.BLOCK, builder.extent(n))
    with into.loop("i", start, stop, "vector") as i:
        builder.stays_below(i, n)
        with into.when_always({Index(0): i}):
            into.append(Store(marks, i - start, into.value(valid)))
    count = into.declare(constant(0), "count")
    length = into.let(stop - start, "length")

    def mark(_: Linearizer, k: Expr) -> tuple[Expr, ...]:
        return (Load(marks, k),)

    with into.loop("group", 0, length, step=TESTED) as group:
        end = into.let(at.minimum(group + TESTED, length), "group_end")
        some = into.declare(FALSE, "some")
        reduce_range(into, simple_combine("logical_or", bool_), (some,), group, end, mark)
        with into.when(some), into.loop("k", group, end) as k:
            one = simplify.cast(Load(marks, k), int64)
            into.append(Store(chosen, count, k), Assign(count, count + one))
    with into.when_always({Index(0): start}):
        first = into.let(into.value(target), "first")
    with into.loop("k", 0, count, "vector") as k:
        source = into.let(start + Load(chosen, k), "chosen")
        builder.stays_below(source, n)
        compute(into, outs, (source,), (), values, first + k)
    tasks = builder.scalar(at.ceil_div(n, Compact.BLOCK), "blocks")
    builder.notes.append(f"blocks of {Compact.BLOCK} elements, of which those that fit are stored")
    return builder.lowered(builder.kernel("", tasks, task, tuple(into.out)))
