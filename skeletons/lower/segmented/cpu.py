"""FoldSeg on a CPU: a fold of every segment; a task is a group of segments, or set by a
schedule."""

from __future__ import annotations

from collections.abc import Sequence

from treadle.dsl.analysis.combines import SHORT_ROW, identities
from treadle.dsl.expr import Expr, Index, Var
from treadle.dsl.graph import Combine, FoldSeg
from treadle.dsl.types import int64

from ...ir import arithmetic as at
from ...ir.kernel import Load, Lowered
from ...ir.linearize import Linearizer
from .. import tiling, transform
from ..build import Builder, LoweringContext, takes_vectors
from ..combining import Elements, accumulate, declare, fold_range, put, reduce_range
from ..fold.rows import RowFold
from ..visits import Visits

#: Segments of a task.
SEGMENTS = 64
#: The most elements of a task's short segments that are first computed in vectors.
HELD = SEGMENTS * SHORT_ROW


def _fold_segment(into: Linearizer, combine: Combine, start: Expr, stop: Expr,
                  element: Elements) -> tuple[Var, ...]:  # fmt: skip
    """Fold short segments element by element, and long ones with interleaved partial results:
    combining the partial results of a `Reduce` costs more than a short segment."""
    neutral = identities(combine)
    if neutral is None:
        return fold_range(into, combine, start, stop, element)
    total = declare(into, neutral)
    short = into.let(at.less(stop - start, SHORT_ROW), "short")
    with into.when(short), into.loop("k", start, stop) as k:
        accumulate(into, combine, total, element(into, k))
    with into.otherwise(short):
        reduce_range(into, combine, total, start, stop, element)
    return total


def lower_fold_seg(node: FoldSeg, context: LoweringContext) -> Lowered:
    """One kernel; tasks over (row, group of segments)."""
    builder = Builder(node, context)
    outer = (*node.outer, node.segments)
    fold = RowFold(builder, node, outer)
    offsets = builder.input(node.offsets)
    elements = transform.resolve(node.elements, builder, node.outer)
    segments = builder.scalar(node.segments, "segments")
    into, task = builder.emitter(), Var("task", int64)

    def begin(segment: Expr, name: str) -> Expr:
        return into.let(Load(offsets, builder.position(node.offsets, [segment])), name)

    def computed(at_row: Sequence[Expr]) -> Elements:
        bindings: dict[Expr, Expr] = {Index(k): c for k, c in enumerate(at_row)}

        def element(inner: Linearizer, k: Expr) -> tuple[Expr, ...]:
            with inner.when_always({**bindings, Index(len(at_row)): k}):
                return inner.emit(elements)

        return element

    def fold_one(at_row: Sequence[Expr], segment: Expr, element: Elements) -> None:
        start, stop = begin(segment, "start"), begin(segment + 1, "stop")
        total = _fold_segment(into, node.combine, start, stop, element)
        fold.finish(into, (*at_row, segment), total, stop - start)

    def fold_all(at_row: Sequence[Expr], first: Expr, end: Expr, element: Elements) -> None:
        with into.loop("segment", first, end) as segment:
            builder.stays_below(segment, node.segments)
            fold_one(at_row, segment, element)

    visits = Visits.of(builder, outer, [1 for _ in outer])
    if visits is not None:
        tasks, per_task = visits.tasks(SEGMENTS)
        with visits.each(into, task, per_task) as (*at_row, segment):
            fold_one(at_row, segment, computed(at_row))
        return builder.lowered(fold.kernel("", tasks, task, into, "segments, as the schedule says"))
    groups = builder.scalar(at.ceil_div(node.segments, SEGMENTS), "groups")
    rows = builder.scalar(at.product(node.outer), "rows")
    at_outer = tiling.coordinates(builder, into, task // groups, node.outer)
    first, end = tiling.block_range(into, "segment", task % groups, SEGMENTS, segments)
    how = f"{SEGMENTS} segments a task"
    if not takes_vectors(elements):
        fold_all(at_outer, first, end, computed(at_outer))
    else:
        how += f"; elements in vectors, up to {HELD} at a time"
        held = builder.local("held", [e.type for e in elements], HELD)
        base, last = begin(first, "base"), begin(end, "last")
        few = into.let(at.less_equal(last - base, HELD), "few")
        with into.when(few):
            with into.loop("k", base, last, "vector") as k:
                values = computed(at_outer)(into, k)
                slot = k - base
                put(into, held, slot, values)

            def loaded(_: Linearizer, k: Expr) -> tuple[Expr, ...]:
                return tuple(Load(b, k - base) for b in held)

            fold_all(at_outer, first, end, loaded)
        with into.otherwise(few):
            fold_all(at_outer, first, end, computed(at_outer))
    kernel = fold.kernel("", rows * groups, task, into, how)
    return builder.lowered(kernel)
