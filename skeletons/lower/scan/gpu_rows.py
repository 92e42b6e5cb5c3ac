"""Rows scanned by the threads of a warp, a chunk at a time; also the code that all scans of rows
share.

A chunk is `vectors` vectors of VECTOR consecutive elements for each of `width` threads, with vector
j of all threads before vector j + 1:

    read      each thread reads its vectors, and computes prefixes inside each vector
    spread    prefixes over the threads, for all vectors side by side, and from vector to vector
    write     the prefix before a vector, combined with the prefixes inside it

Reads beyond the end of a row are clamped to the last element; their results are not stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from enum import Enum
from typing import Any

from treadle.dsl.expr import FALSE, TRUE, Expr, Index, Var, constant, substitute
from treadle.dsl.graph import Scan
from treadle.dsl.types import int64

from ...ir import arithmetic as at
from ...ir.kernel import Buffer, Kernel, Let, Store, StoreVector
from ...ir.linearize import Linearizer
from .. import tiling
from ..build import Builder, element_cost
from ..combining import Values, apply_combine, assign, declare, get, put, zeros
from ..gpu.collectives import STEPS, flipped, shuffled, steps
from ..gpu.common import WARP, WIDEST, Group, Threads, load_vector, multiples, vector_count
from ..gpu.orders import WHOLE, BlockVisits, Visits
from .cpu import AxisScan

#: Threads of a block, and vectors of a thread in a chunk.
THREADS, VECTORS = 256, 4
#: The number of threads of a row from which on a thread takes more than one vector.
FEW_LANES = 8
#: Elements that a thread reads or writes together in an incomplete chunk.
TOGETHER = 8
#: Elements that cost more are read one vector after the other.
_EXPENSIVE = 40.0


class Reach(Enum):
    """How far a chunk extends: it is inside the row; no vector crosses the end of the row; or some
    may, and elements are read and written one by one."""

    WHOLE = 0
    VECTORS = 1
    BEYOND = 2


class Prefix:
    """A value that may be missing: `known` is the condition that it exists."""

    def __init__(self, known: Expr, values: Sequence[Expr]) -> None:
        self.known, self.values = known, tuple(values)


class Rows(AxisScan):
    """Scans along the last axis: chunks of `width` threads and `vectors` vectors each."""

    def __init__(self, builder: Builder, node: Scan, vectors: int, threads: int, stage: str
                 ) -> None:  # fmt: skip
        super().__init__(builder, node)
        self.order = flipped(node.combine) if node.reverse else node.combine
        self.types = [r.type for r in node.combine.results]
        self.vector = vector_count(self.types)
        self.vectors, self.threads = vectors, threads
        self.p = Var("p", int64)
        axis, n = Index(node.axis), node.shape[-1]
        last = n - 1
        source = last - self.p if node.reverse else self.p
        end = n if node.form == "exclusive" else last
        target = end - self.p if node.reverse else self.p
        self.roots = substitute(self.elements, {axis: source})
        self.results = substitute(self.epilogue, {axis: target})
        self.group = Group(builder, self.roots, self.p, self.vector)
        self.after = Group(builder, self.results, self.p, self.vector)
        self.group.streaming = all(s.windows(self.vector) == [0] for s in self.group.streams)
        size = self.vector * vectors
        self.stage = stage
        self.inside = (builder.local("inside", self.types, size) if stage == "local"
                       else builder.shared("inside", self.types, size * threads))  # fmt: skip
        #: The stage being written, and the stage being read.
        self.filled: Expr = at.integer(0)
        self.shown: Expr = at.integer(0)
        #: The prefix before each vector of the chunk being read, and of the chunk being written.
        self.before = builder.local("before", self.types, vectors)
        self.behind = self.before
        self.serial = element_cost(self.roots) > _EXPENSIVE
        #: Whether incomplete chunks are the exception, and for how many of their vectors the code
        #: is copied.
        self.rolls = False
        #: The kind of the loop over distances: a rolled one needs one more register, its counter.
        self.spreading = "rolled"
        self.together = most_divisor(vectors, max(TOGETHER // self.vector, 1))
        self._find_stores()

    def _find_stores(self) -> None:
        """Determine whether results can be stored in wide accesses, and under which conditions."""
        node, v = self.node, self.vector
        n, length = node.shape[-1], node.outputs[0].shape[-1]
        requires: list[Expr] | None = [*self.group.requires, *self.after.requires]
        store: list[Expr] | None = []
        if v == 1 or (node.form == "exclusive" and (self.others or node.reverse)):
            store = None
        if store is not None and self.others:
            store = multiples(length, v, self.builder)
        if store is not None and node.reverse:
            more = multiples(n, v, self.builder)
            store = None if more is None else store + more
        self.wide_store = store is not None
        self.requires = tuple(dict.fromkeys((requires or []) + (store or [])))
        self.wide = bool(self.group.streams) or self.wide_store
        aligned = (*self.group.aligned, *self.after.aligned)
        self.aligned = (*aligned, *(self.outs if self.wide_store else ()))

    # --- read ---

    def indices(self, others: Sequence[Expr], k: Expr) -> tuple[Expr, ...]:
        return (*others, k)

    def bindings(self, others: Sequence[Expr]) -> dict[Expr, Expr]:
        return {Index(k): c for k, c in enumerate(others)}

    def _slot(self, into: Linearizer, thread: Expr, j: Expr, stage: Expr) -> Expr:
        """The position of the prefixes inside vector `j`."""
        if self.stage == "shared":
            j = stage * self.vectors + j
            j = j * self.threads + thread
        return into.let(j * self.vector, "slot")

    def _keep(self, into: Linearizer, thread: Expr, j: Expr, prefixes: Sequence[Values]) -> None:
        slot = self._slot(into, thread, j, self.filled)
        for c, buffer in enumerate(self.inside):
            column = tuple(p[c] for p in prefixes)
            if self.stage == "shared" and self.vector > 1:
                into.append(StoreVector(buffer, slot, column))
            else:
                into.append(*(Store(buffer, slot + k, v) for k, v in enumerate(column)))

    def _kept(self, into: Linearizer, thread: Expr, j: Expr) -> list[Values]:
        """Load the prefixes inside vector `j`."""
        slot = self._slot(into, thread, j, self.shown)
        if self.stage == "shared" and self.vector > 1:
            columns = [load_vector(into, b, slot, self.vector) for b in self.inside]
            return list(zip(*columns, strict=True))
        return [get(into, self.inside, slot + k) for k in range(self.vector)]

    def read(self, into: Linearizer, thread: Expr, first: Expr, step: Expr, reach: Reach) -> None:
        """Read the vectors at first, first + step, … of the row in scope, and compute the prefixes
        inside them."""
        with self._vectors(into, reach, reads=True) as (j, at_j):
            p = into.let(first + j * step, "p")
            prefixes: list[Values] = []
            for value in self._vector(into, j, p, reach):
                prefixes.append(
                    apply_combine(into, self.order, prefixes[-1], value) if prefixes else value
                )
            self._keep(into, thread, j, prefixes)
            put(into, self.before, at_j, prefixes[-1])

    def _vectors(
        self, into: Linearizer, reach: Reach, reads: bool = False
    ) -> AbstractContextManager[tuple[Expr, Expr]]:
        """Loop over the vectors of a chunk: yields the number of each, and its position in `before`
        (in `behind` unless it `reads`)."""
        few = self.together if reach is not Reach.WHOLE and self.rolls else self.vectors
        return self._by_turns(into, few, reads)

    @contextmanager
    def _by_turns(self, into: Linearizer, few: int, reads: bool) -> Iterator[tuple[Expr, Expr]]:
        """Copies of the code for `few` vectors; if there are more, they rotate through these
        copies.  Register indices must be constants, so the contents of registers move instead of
        the index."""
        if few == self.vectors:
            kind = "serial" if reads and self.serial else "unrolled"
            with into.loop("j", 0, few, kind) as j:
                yield j, j
            return
        kept = self.vectors - few
        with into.loop("turn", 0, self.vectors // few, "rolled") as turn:
            if reads:
                self._move_on(into, self.before, few)
            with into.loop("u", 0, few, "unrolled") as u:
                number = into.let(turn * few + u, "j")
                yield number, u + kept if reads else u
            if not reads:
                self._move_on(into, self.behind, few)

    def _move_on(self, into: Linearizer, buffers: Sequence[Buffer], by: int) -> None:
        with into.loop("k", 0, self.vectors - by, "unrolled") as k:
            put(into, buffers, k, get(into, buffers, k + by))

    def _vector(self, into: Linearizer, j: Expr, p: Expr, reach: Reach) -> list[Values]:
        found = []
        wide = reach is not Reach.BEYOND
        if reach is Reach.VECTORS:
            p = into.let(at.minimum(p, self.n - self.vector), "p")
        reads = self.loaded(into, j, p, reach) if wide else [{} for _ in range(self.vector)]
        for k, loaded in enumerate(reads):
            at_k = p + k
            if not wide:
                at_k = into.let(at.minimum(at_k, self.n - 1), "p")
                if not self.node.reverse:
                    self.builder.stays_below(at_k, self.node.shape[-1])
            with into.when_always({self.p: at_k, **loaded}):
                found.append(into.emit(self.roots, named=True))
        return found

    def loaded(self, into: Linearizer, j: Expr, p: Expr, reach: Reach) -> list[dict[Expr, Expr]]:
        """The values of the reads of vector `j`'s elements, which start at `p`."""
        return self.group.load(into, p)

    def by_vectors(self, into: Linearizer) -> Expr:
        """Whether no vector reaches beyond the end of its row."""
        return into.let(at.equal(self.n % self.vector, 0), "by_vectors")

    # --- spread ---

    def spread(self, into: Linearizer, lane: Expr, count: Expr | int, end: Expr) -> tuple[Var, ...]:
        """Turn `before` into the prefixes before each vector in the chunk; returns the chunk's
        total.

        2 ** `count` threads take part; `end` is the lane of the last of them.  Without an identity,
        the prefix before the first vector is undefined.
        """
        order = self.order
        into.note("before[j]: prefixes over the threads of the totals of their vectors j.")
        with steps(into, count, self.spreading) as step, self._each(into) as j:
            values = get(into, self.before, j)
            other = shuffled(into, "shuffle_up", values, step)
            with into.when(at.less_equal(step, lane)):
                put(into, self.before, j, apply_combine(into, order, other, values))
        run = declare(into, self.neutral or zeros(self.combine), "run")
        first_has_none = self.neutral is None
        into.note("before[j] becomes what comes before vector j; run is the total so far.")
        with self._each(into) as j:
            values = get(into, self.before, j)
            total = shuffled(into, "shuffle", values, end)
            left = shuffled(into, "shuffle_up", values, 1)
            first = at.equal(j, 0) if first_has_none else FALSE
            with into.when(first):
                put(into, self.before, j, left)
                assign(into, run, total)
            with into.otherwise(first):
                put(into, self.before, j, run)
                with into.when(at.less(0, lane)):
                    put(into, self.before, j, apply_combine(into, order, run, left))
                assign(into, run, apply_combine(into, order, run, total))
        return run

    def _each(self, into: Linearizer) -> AbstractContextManager[Var]:
        return into.loop("j", 0, self.vectors, "unrolled")

    # --- write ---

    def write(self, into: Linearizer, thread: Expr, lane: Expr, others: Sequence[Expr], first: Expr,
              step: Expr, base: Prefix, reach: Reach, owner: Expr = TRUE
              ) -> None:  # fmt: skip
        """Write the results of the vectors at first, first + step, …; `base` is the prefix before
        the chunk.  Stores if `owner` holds; the thread with the value after the last step also
        stores that."""
        order, inclusive = self.order, self.node.form == "inclusive"
        final = () if inclusive else declare(into, zeros(self.combine), "final")
        ends: Expr = FALSE
        if not inclusive and reach is not Reach.WHOLE:
            ends = into.declare(FALSE, "ends")
        with self._vectors(into, reach) as (j, at_j):
            p = into.let(first + j * step, "p")
            start, known = self._start(into, base, j, at_j, lane)
            prefixes: list[Values] = [tuple(start)]
            for inside in self._kept(into, thread, j):
                if known is TRUE:
                    prefixes.append(apply_combine(into, order, start, inside))
                    continue
                result = declare(into, inside, "r")
                with into.when(known):
                    assign(into, result, apply_combine(into, order, start, inside))
                prefixes.append(result)
            shown = prefixes[1:] if inclusive else prefixes[:-1]
            with into.when(owner):
                if reach is not Reach.BEYOND:
                    with into.when(TRUE if reach is Reach.WHOLE else at.less(p, self.n)):
                        self._store_vector(into, others, p, shown)
                else:
                    for k, values in enumerate(shown):
                        with into.when(at.less(p + k, self.n)):
                            self.store(into, others, into.let(p + k, "p"), values)
            if isinstance(ends, Var):
                for k in range(self.vector):
                    with into.when(at.equal(p + (k + 1), self.n)):
                        assign(into, [*final, ends], [*prefixes[k + 1], TRUE])
            elif not inclusive:
                assign(into, final, prefixes[-1])
        if inclusive:
            return
        if reach is Reach.WHOLE:  # the last step can only be the last one here
            after = first + step * (self.vectors - 1) + self.vector
            ends = at.equal(after, self.n)
        with into.when(at.both(owner, ends)):
            self.end(into, others, final)

    def _start(self, into: Linearizer, base: Prefix, j: Expr, at_j: Expr, lane: Expr
               ) -> tuple[Values, Expr]:  # fmt: skip
        """The prefix before vector `j` of this thread (in `behind` at `at_j`), and whether there is
        one."""
        here = get(into, self.behind, at_j)
        if self.neutral is not None:
            return apply_combine(into, self.order, base.values, here), TRUE
        some = into.let(at.either(at.less(0, j), at.less(0, lane)), "some")
        made = declare(into, here, "start")
        with into.when(base.known):
            assign(into, made, base.values)
            with into.when(some):
                assign(into, made, apply_combine(into, self.order, base.values, here))
        return made, at.either(base.known, some)

    def _store_vector(self, into: Linearizer, others: Sequence[Expr], p: Expr,
                      shown: Sequence[Values]) -> None:  # fmt: skip
        """The results of steps p, p + 1, …, all in the row."""
        if not self.wide_store:
            for k, values in enumerate(shown):
                self.store(into, others, into.let(p + k, "p"), values)
            return
        stored = []
        with into.when_always(self.bindings(others)):
            reads = self.after.load(into, p)
            for k, values in enumerate(shown):
                with into.when_always({self.p: p + k, **reads[k]}):
                    into.bind(dict(zip(self.node.results, values, strict=True)))
                    stored.append(into.emit(self.results, named=True))
        first = self.target(p)
        if self.node.reverse:
            stored.reverse()
            first = first - (self.vector - 1)
        where = into.let(at.linear((*others, first), self.out_shape), "at")
        for c, buffer in enumerate(self.outs):
            several = min(self.vector, WIDEST // buffer.type.bytes)
            for k in range(0, self.vector, several):
                chunk = tuple(s[c] for s in stored[k : k + several])
                into.append(StoreVector(buffer, where + k, chunk, True) if several > 1
                            else Store(buffer, where + k, chunk[0]))  # fmt: skip

    def nothing(self) -> Prefix:
        """The prefix before the first step of a scan without an initial value."""
        if self.neutral is not None:
            return Prefix(TRUE, self.neutral)
        return Prefix(FALSE, zeros(self.combine))

    def gpu(self, grid: Threads, wide: bool, fallback: Kernel | None, resident: int = 0
            ) -> dict[str, Any]:  # fmt: skip
        """The launch parameters of the kernel; of the variant for aligned data if `wide`."""
        if not wide:
            return grid.launch(resident=resident)
        return grid.launch(self.requires, self.aligned, fallback, resident)


class RowScan(Rows):
    """Several rows per block: `width` threads, a power of two up to a warp, scan each."""

    def __init__(self, builder: Builder, node: Scan) -> None:
        super().__init__(builder, node, VECTORS, THREADS, "local")

    def lower(self, when: Expr) -> Kernel:
        """The kernel; it has no tasks unless `when` (a host condition)."""
        builder, n = self.builder, self.node.shape[-1]
        width, count = at.integer(WARP), at.integer(len(STEPS))
        for e, w in reversed(list(enumerate(STEPS))):
            fits = at.less_equal(n, w * self.vector * (VECTORS if w >= FEW_LANES else 1))
            width, count = at.select(fits, w, width), at.select(fits, e, count)
        rows = at.product(self.others)
        per_block = THREADS // width
        tasks = at.select(when, at.ceil_div(rows, per_block), 0)
        self.rows = builder.scalar(rows, "rows")
        self.width = builder.scalar(width, "width")
        self.steps = builder.scalar(count, "steps")
        self.per_block = builder.scalar(per_block, "rows_per_block")
        self.tasks = builder.scalar(tasks, "row_blocks")
        leaf = (*(1 for _ in self.others), WHOLE)
        visits = Visits.of(builder, (*self.others, constant(1)), leaf)
        self.iterations = None if visits is None else BlockVisits(visits, per_block)
        if self.iterations is not None:
            self.tasks = builder.scalar(at.select(when, self.iterations.tasks, 0), "row_blocks")
        plain = self._kernel(False, None)
        return self._kernel(True, plain) if self.wide else plain

    def _kernel(self, wide: bool, fallback: Kernel | None) -> Kernel:
        into, grid = self.builder.emitter(), Threads.of(THREADS)
        thread = grid.thread
        lane = into.let(thread % self.width, "lane")
        if self.iterations is not None:
            group = into.let(thread // self.width, "group")
            with self.iterations.leaves(into, grid.task, group) as (owner, (*row_at, _)):
                self._row(into, thread, lane, row_at, owner, wide)
            return self.kernel("rows", self.tasks, grid.task, into, "rows, as the schedule says",
                               **self.gpu(grid, wide, fallback))  # fmt: skip
        own = into.let(grid.task * self.per_block + thread // self.width, "own")  # fmt: skip
        row = into.let(at.minimum(own, self.rows - 1), "row")
        owner = into.let(at.less(own, self.rows), "owner")
        others = tiling.coordinates(self.builder, into, row, self.others)
        self._row(into, thread, lane, others, owner, wide)
        return self.kernel("rows", self.tasks, grid.task, into, "several rows to a block",
                           **self.gpu(grid, wide, fallback))  # fmt: skip

    def _row(self, into: Linearizer, thread: Expr, lane: Expr, others: Sequence[Expr],
             owner: Expr, wide: bool) -> None:  # fmt: skip
        """A row by the threads of `width` lanes, stored if `owner`."""
        last = self.width - 1
        end = into.let(thread % WARP - lane + last, "end")
        start = self.nothing()
        if self.node.init is not None:
            with into.when_always(self.bindings(others)):
                start = Prefix(TRUE, self.init(into))
        carry = declare(into, start.values, "carry")
        step = into.let(self.width * self.vector, "step")
        chunk = into.let(step * self.vectors, "chunk")
        with into.loop("iteration", 0, at.ceil_div(self.n, chunk)) as iteration:
            into.note("inside: the prefixes inside each vector; before: their totals.")
            origin = into.let(iteration * chunk, "origin")
            first = into.let(origin + lane * self.vector, "first")
            known = start.known if start.known is TRUE else at.less(0, iteration)
            base = Prefix(known, [into.let(c, "base") for c in copies(into, carry)])

            vectors = self.by_vectors(into) if wide else FALSE
            with into.when_always(self.bindings(others)):
                with into.when(vectors):
                    self.read(into, thread, first, step, Reach.VECTORS)
                with into.otherwise(vectors):
                    self.read(into, thread, first, step, Reach.BEYOND)
            run = self.spread(into, lane, self.steps, end)
            rest = (into, thread, lane, others, first, step, base)
            with into.when(vectors):
                self.write(*rest, Reach.VECTORS, owner)
            with into.otherwise(vectors):
                self.write(*rest, Reach.BEYOND, owner)
            with into.when(known):
                assign(into, carry, apply_combine(into, self.order, carry, run))
            with into.otherwise(known):
                assign(into, carry, run)
        if self.node.form != "inclusive":
            empty = at.both(at.equal(self.n, 0), at.both(owner, at.equal(lane, 0)))
            with into.when(empty):
                self.end(into, others, carry)


def most_divisor(n: int, most: int) -> int:
    """The largest divisor of n up to `most`."""
    return max(k for k in range(1, most + 1) if n % k == 0)


def copies(into: Linearizer, values: Sequence[Var]) -> list[Expr]:
    """The current values of variables."""
    made: list[Expr] = []
    for v in values:
        copy = Var("base", v.type)
        into.append(Let(copy, v))
        made.append(copy)
    return made
