"""Segmented folds on a GPU, such as the rows of a sparse matrix.

A block takes some consecutive segments.  `lanes` threads fold one segment, such that each has about
FEW elements of a segment of the block's mean length.  All threads of the block fold segments that
are much longer, in sequence.  The choice depends only on the lengths.  A schedule orders the groups
of segments.

The lanes of a segment take, round-robin, the vectors of the array that overlap the segment, with
wide loads if data is aligned; elements outside the segment are ignored.
"""

from __future__ import annotations

from collections.abc import Sequence

from treadle.dsl import simplify
from treadle.dsl.expr import FALSE, TRUE, Const, Expr, Index, Var, constant, primitive
from treadle.dsl.graph import FoldSeg
from treadle.dsl.types import bool_, int32, int64, uint32

from ...ir import arithmetic as at
from ...ir.kernel import Assign, Barrier, Collective, Kernel, Load, Lowered, While
from ...ir.linearize import Linearizer
from .. import tiling, transform
from ..build import Builder, LoweringContext
from ..combining import Values, accumulate, assign, declare, get, put
from ..fold.gpu_row_folder import RowElements, RowFolder
from ..fold.rows import RowFold
from ..gpu.collectives import neutral_of, reduce_warp, tree
from ..gpu.common import WARP, Threads, vector_count
from ..gpu.orders import BlockVisits, Visits

#: Threads of a block; the most segments it takes, one per thread; the number of blocks aimed at.
THREADS, SEGMENTS, BLOCKS = 256, 256, 2112
#: Blocks of a multiprocessor at once, of small values: on an H200 rows of 16 take 0.518 ms with 6
#: and 0.520 with 8, rows of 0 to 3 0.362 and 0.343.
RESIDENT = 8
#: Elements of a lane in a segment of mean length; in one that is left to the whole block.
FEW, MANY = 4, 64


def lower_fold_seg(node: FoldSeg, context: LoweringContext) -> Lowered:
    """One kernel; blocks over (row, group of segments)."""
    builder = Builder(node, context)
    return builder.lowered(_Segments(builder, node).lower())


class _Segments(RowFold):
    def __init__(self, builder: Builder, node: FoldSeg) -> None:
        super().__init__(builder, node, (*node.outer, node.segments))
        self.segments = node
        self.offsets = builder.input(node.offsets)
        roots = transform.resolve(node.elements, builder, node.outer)
        self.elements = RowElements(builder, roots, Index(len(node.outer)), 1)
        self.neutral = neutral_of(node.combine)
        count = min(vector_count(r.type for r in node.combine.results), FEW)
        self.vectors = RowElements(builder, roots, Index(len(node.outer)), count)
        self.extent = builder.scalar(node.extent, "extent")
        types = [r.type for r in node.combine.results]
        self.warp_totals = builder.shared("warp_total", types, THREADS // WARP)
        self.ends = builder.shared("segment_end", [int64], SEGMENTS + 1)
        self.long = builder.shared("long", [uint32], THREADS // WARP)
        self.owner: Expr = TRUE

    def lower(self) -> Kernel:
        builder, node = self.builder, self.segments
        rows, segments = at.product(node.outer), node.segments
        all_segments = rows * segments
        each = at.maximum(at.minimum(at.ceil_div(all_segments, BLOCKS), SEGMENTS), 1)
        groups = at.ceil_div(segments, each)
        visits = Visits.of(builder, (*node.outer, groups), (*(1 for _ in node.outer), SEGMENTS))
        tasks = builder.scalar(rows * groups, "blocks")
        each, groups = builder.scalar(each, "each"), builder.scalar(groups, "groups")
        count = builder.scalar(segments, "segments")
        assigned = (visits, tasks, groups, each, count)
        plain = self._kernel(False, None, *assigned)
        wide = self.vectors.wide and self.neutral is not None
        return self._kernel(True, plain, *assigned) if wide else plain

    def _kernel(self, wide: bool, fallback: Kernel | None, visits: Visits | None, tasks: Expr,
                groups: Expr, each: Expr, count: Expr) -> Kernel:  # fmt: skip
        """The kernel; the variant for aligned data if `wide`."""
        builder, node = self.builder, self.segments
        self.wide = wide
        into, grid = builder.emitter(), Threads.of(THREADS)
        small = sum(r.type.bytes for r in node.combine.results) <= 8
        resident = RESIDENT if small else 0
        if visits is not None:
            iterations = BlockVisits(visits)
            with iterations.leaves(into, grid.task, constant(0)) as (own, (*at_row, group)):
                self._group(into, grid, at_row, group, each, count, own)
            tasks = builder.scalar(iterations.tasks, "visit_blocks")
        else:
            row = grid.task // groups
            at_row = list(tiling.coordinates(builder, into, row, node.outer))
            self._group(into, grid, at_row, grid.task % groups, each, count, TRUE)
        launch = grid.launch(resident=resident)
        if wide:
            vectors = self.vectors
            launch = grid.launch(vectors.requires, vectors.group.aligned, fallback, resident)
        return self.kernel("", tasks, grid.task, into, f"up to {SEGMENTS} segments a block",
                           **launch)  # fmt: skip

    def _group(self, into: Linearizer, grid: Threads, at_row: Sequence[Expr], group: Expr,
               each: Expr, count: Expr, owner: Expr) -> None:  # fmt: skip
        """Fold some consecutive segments; stored if `owner`."""
        first, end = tiling.block_range(into, "segment", group, each, count)
        # These bounds always hold; stating them proves that 32 bits suffice.
        own = into.let(at.maximum(at.minimum(end - first, SEGMENTS), 1), "own")
        self.owner = owner
        self._fetch_ends(into, grid, first, own)
        lanes, shift = self._lanes(into, own)
        with into.when_always({Index(k): c for k, c in enumerate(at_row)}):
            self._find_long(into, grid, own, lanes)
            self._side_by_side(into, grid, at_row, first, own, lanes, shift)
            self._one_by_one(into, grid, at_row, first)

    def _fetch_ends(self, into: Linearizer, grid: Threads, first: Expr, own: Expr) -> None:
        """Where the segments of the block begin and end, to shared memory."""
        into.note("Where the segments of this block begin and end.")
        with into.loop("iteration", 0, at.ceil_div(own + 1, THREADS)) as iteration:
            k = into.let(iteration * THREADS + grid.thread, "k")
            with into.when(at.less_equal(k, own)):
                position = self.builder.position(self.segments.offsets, [first + k])
                put(into, self.ends, k, [Load(self.offsets, position)])
        into.append(Barrier())

    def _ends(self, into: Linearizer, segment: Expr) -> tuple[Expr, Expr]:
        """The ends of a segment, clamped to the row, which proves that 32 bits suffice."""
        (start,) = get(into, self.ends, segment)
        (stop,) = get(into, self.ends, segment + 1)
        return self._within(into, start), self._within(into, stop)

    def _within(self, into: Linearizer, end: Expr) -> Expr:
        return into.let(at.minimum(at.maximum(end, 0), self.extent), "end")

    def _lanes(self, into: Linearizer, own: Expr) -> tuple[Expr, Expr]:
        """Threads for a segment of the block, a power of two up to a warp, and its logarithm.

        In order they are one or a whole warp, whose threads must keep together.
        """
        (begin,) = get(into, self.ends, constant(0))
        (end,) = get(into, self.ends, own)
        begin, end = self._within(into, begin), self._within(into, end)
        length = at.maximum(end - begin, 0)
        mean = into.let(length // at.maximum(own, 1), "mean")
        lanes: Expr = constant(WARP)
        shift: Expr = constant(5)
        for k in (4, 3, 2, 1, 0) if self.neutral is not None else (0,):
            few = into.let(at.less_equal(mean, FEW << k), "few")
            lanes, shift = at.select(few, 1 << k, lanes), at.select(few, k, shift)
        return into.let(lanes, "lanes"), into.let(shift, "shift")

    def _side_by_side(self, into: Linearizer, grid: Threads, at_row: Sequence[Expr], first: Expr,
                      own: Expr, lanes: Expr, shift: Expr) -> None:  # fmt: skip
        """Fold segments that are not long, several at once."""
        into.note("Segments that are not long: `lanes` threads each, side by side.")
        lane = into.let(grid.thread % lanes, "lane")
        together = into.let(THREADS // lanes, "together")
        mine = into.let(grid.thread // lanes, "mine")
        with into.loop("iteration", 0, at.ceil_div(own, together)) as iteration:
            number = into.let(iteration * together + mine, "number")
            segment = into.let(at.minimum(number, own - 1), "segment")
            start, stop = self._ends(into, segment)
            short = at.less_equal(stop - start, lanes * MANY)
            short = into.let(at.both(at.less(number, own), short), "short")
            length = at.select(short, stop - start, 0)
            length = into.let(at.maximum(length, 0), "length")
            if self.neutral is not None and self.vectors.count > 1:
                end = into.let(start + length, "stop")
                total = self._by_vectors(into, self.neutral, lane, start, end, lanes)
            else:
                folder = RowFolder(self.combine, self.elements, lanes, shift=shift)
                total, _ = folder.fold_warps(into, lane, start, start + length)
            with into.when(at.both(at.equal(lane, 0), short, self.owner)):
                self._finish(into, at_row, first + segment, total, start, stop)

    def _by_vectors(self, into: Linearizer, neutral: Values, lane: Expr, start: Expr, stop: Expr,
                    lanes: Expr) -> tuple[Var, ...]:  # fmt: skip
        """The combination of start … stop − 1, in the first lane: the lanes take
        elements round-robin."""
        v, extent = self.vectors.count, self.segments.extent
        totals = [declare(into, neutral) for _ in range(v)]
        # No index exceeds this; stating it proves that 32 bits suffice.
        beyond = self.builder.scalar(at.ceil_div(extent, v) * v, "beyond")
        begin = start // v * v
        p = into.declare(at.minimum(begin + lane * v, beyond), "p")
        with into.body() as body:
            values = [declare(into, neutral, "x") for _ in range(v)]
            whole = at.less_equal(p + v, self.extent) if self.wide else FALSE
            whole = into.let(whole, "whole")
            with into.when(whole):
                self._read(into, values, p, start, stop, self.vectors.group.load(into, p))
            with into.otherwise(whole):
                self._read(into, values, p, start, stop, [{} for _ in range(v)])
            for total, value in zip(totals, values, strict=True):
                accumulate(into, self.combine, total, value)
            after = p + lanes * v
            assign(into, [p], [at.minimum(at.maximum(after, 0), beyond)])
        into.append(While((), at.less(p, stop), tuple(body)))
        total = tree(into, self.combine, totals)
        reduce_warp(into, self.combine, total, lane, lanes)
        return total

    def _read(self, into: Linearizer, values: Sequence[tuple[Var, ...]], p: Expr, start: Expr,
              stop: Expr, loaded: Sequence[dict[Expr, Expr]]) -> None:  # fmt: skip
        """Read the segment's elements from `p` on into `values`; all loads come first."""
        for k, (variables, reads) in enumerate(zip(values, loaded, strict=True)):
            q = into.let(p + k, "q")
            own = at.both(at.less_equal(start, q), at.less(q, stop))
            with into.when(own), into.when_always({self.vectors.variable: q, **reads}):
                assign(into, variables, into.emit(self.vectors.roots))

    def _find_long(self, into: Linearizer, grid: Threads, own: Expr, lanes: Expr) -> None:
        """Mark the long segments in a bit set, as there are few of them."""
        into.note("A bit for each segment that is long.")
        segment = into.let(at.minimum(grid.thread, own - 1), "segment")
        start, stop = self._ends(into, segment)
        long = at.less(lanes * MANY, stop - start)
        bits = Var("bits", uint32)
        into.append(Collective(bits, "ballot", (at.both(at.less(grid.thread, own), long),)))
        with into.when(at.equal(grid.lane, 0)):
            put(into, self.long, grid.warp, [bits])

    def _one_by_one(self, into: Linearizer, grid: Threads, at_row: Sequence[Expr], first: Expr
                    ) -> None:  # fmt: skip
        """Fold long segments, each by all threads."""
        none, one = Const(0, uint32), Const(1, uint32)
        into.append(Barrier())
        into.note("Long segments, one after the other by the whole block.")
        with into.loop("word", 0, THREADS // WARP) as word:
            left = into.declare(get(into, self.long, word)[0], "left")
            with into.body() as body:
                bit = simplify.cast(simplify.apply(primitive("ctz"), (left,), int32), int64)
                segment = into.let(word * WARP + bit, "segment")
                start, stop = self._ends(into, segment)
                folder = RowFolder(self.combine, self.elements, at.integer(THREADS))
                total = folder.fold(into, grid, grid.thread, start, stop, self.warp_totals)
                with into.when(at.both(at.equal(grid.thread, 0), self.owner)):
                    self._finish(into, at_row, first + segment, total, start, stop)
                into.append(Barrier())
                less = simplify.apply(primitive("subtract"), (left, one), uint32)
                rest = simplify.apply(primitive("bitwise_and"), (left, less), uint32)
                into.append(Assign(left, rest))
            some = simplify.apply(primitive("not_equal"), (left, none), bool_)
            into.append(While((), some, tuple(body)))

    def _finish(self, into: Linearizer, at_row: Sequence[Expr], segment: Expr,
                total: Sequence[Expr], start: Expr, stop: Expr) -> None:  # fmt: skip
        segment = into.let(segment, "s")
        self.builder.stays_below(segment, self.segments.segments)
        self.finish(into, (*at_row, segment), total, stop - start)
