"""Stencils on a GPU: elements that read neighbours of their index.

    a few rows      a thread computes some rows × columns at once; all loads come first
    a walk          a thread iterates down a strip and keeps values that it still needs in
                    registers (`gpu_kernel.py`, `gpu_stream.py`)
    a loop          windows of run-time extents: an unrolled kernel for each of the common extents,
                    and one that loops (`written_out`)

Every value read is used for all elements of the thread that need it, and neighbours in a warp share
cache lines.  Other reads (along one axis only, or at data-dependent indices) are handled by
`../elementwise/gpu.py`, which also reads the neighbours of several columns together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from treadle.dsl import expr as ex
from treadle.dsl.analysis.polynomial import affine
from treadle.dsl.expr import Expr
from treadle.dsl.graph import Generate
from treadle.dsl.types import int64
from treadle.skeletons.schedules import Resolved, Row

from ...ir import arithmetic as at
from ...ir.kernel import Buffer, Kernel, Lowered
from ...ir.specialise import unroll
from .. import transform
from ..build import Builder
from ..gpu.common import in_scalars, multiples, vector_count
from ..transform import is_host
from .gpu_kernel import Part, Span, StencilKernel
from .gpu_stream import NotAStream, moves, row_of, stream

# --- Windows whose extents are known when a program runs: elements that loop over run-time weights
#     Σ k in 0 .. n: w[k]·a[i + k − n // 2]      for n = 3, 5, 7, 9 as unrolled windows, chosen at
#                                                launch; any other n keeps the loop
#
# The operations and their order are those of the loop, so the choice does not change the result.

#: Extents of windows that get a kernel of their own.
SIZES = (3, 5, 7, 9)
#: … of up to so many iterations in all.
MOST_TRIPS = 81


def window_counts(roots: Sequence[Expr]) -> tuple[Expr, ...]:
    """The counts of the loops in `roots`, each once; empty unless all are known at launch and at
    least one only then."""
    counts: dict[Expr, None] = {}
    for e in ex.walk(roots):
        if isinstance(e, ex.While | ex.Foreign):
            return ()
        if isinstance(e, ex.Loop):
            if not is_host(e.count):
                return ()
            counts[e.count] = None
    return tuple(counts) if any(not isinstance(c, ex.Const) for c in counts) else ()


def trips(roots: Sequence[Expr], size: int) -> int:
    """How often the innermost loops in `roots` iterate in all, where run-time counts are `size`."""
    found: dict[Expr, int] = {}
    for e in ex.walk(roots):
        inside = max((found[c] for c in e.scoped), default=1)
        if isinstance(e, ex.Loop):
            inside *= int(e.count.value) if isinstance(e.count, ex.Const) else size
        found[e] = max(inside, *(found[c] for c in e.args)) if e.args else inside
    return max(found[r] for r in roots)


def written_out(roots: Sequence[Expr], counts: Sequence[Expr], size: int) -> tuple[Expr, ...]:
    """`roots` without loops, where every run-time count is `size`."""
    known: dict[Expr, Expr] = {c: ex.constant(size) for c in counts if not isinstance(c, ex.Const)}
    return ex.rewrite(ex.substitute(roots, known), unroll())


#: Windows of up to so many rows: a thread computes so many rows at once, without a walk, …
AT_ONCE = {1: 4, 2: 4, 3: 4, 4: 6, 5: 6}
#: … unless asked for more than so many.
MOST_AT_ONCE = 8
#: Rows of a thread, where elements loop over the window.
LOOPED_ROWS = 8
#: Rows per step of a walk, for elements that cost little per row, and for others.
LIGHT_ROWS, HEAVY_ROWS, LIGHT_WORK = 4, 2, 30.0
#: Rows whose loads are on their way at a time, where a step is one row.
LIGHT_AHEAD, HEAVY_AHEAD = 4, 0
#: Values carried in registers: beyond so many, a thread has fewer columns.
MOST_CARRIED = 80
#: Neighbouring columns of a thread, where data is narrow.
MOST_COLUMNS = 4


def is_stencil(node: Generate, builder: Builder) -> bool:
    """Whether `lower_stencil` has something better for this node than elements one by one."""
    if builder.context.check or len(node.shape) < 2:
        return False
    if _span_of(node.elements, node, builder) is not None:
        return True
    counts = window_counts(node.elements)
    if not counts or trips(node.elements, SIZES[0]) > MOST_TRIPS:
        return False
    return _span_of(written_out(node.elements, counts, SIZES[0]), node, builder) is not None


def follows(plan: Resolved, node: Generate, builder: Builder) -> bool:
    """Whether `lower_stencil` computes this stencil as the user's schedule says: the row order,
    with several rows and columns of a thread."""
    rank = len(node.shape)
    if builder.context.check or rank < 2 or type(plan.order) is not Row or plan.grain != "thread":
        return False
    shape = _span_of(node.elements, node, builder)
    simple = max(plan.unit) > 1 and max(plan.unit[:-2], default=1) == 1
    return simple and plan.unit[-1] in (1, 2, 4) and shape is not None and shape.axis == rank - 2


def lower_stencil(builder: Builder, node: Generate, outs: Sequence[Buffer],
                  plan: Resolved | None = None) -> Lowered:  # fmt: skip
    """One kernel, with variants: for aligned data, for windows of known extents.

    A `plan` is one that this module `follows`."""
    shape = _span_of(node.elements, node, builder)
    if shape is not None:
        return builder.lowered(_Window(builder, node, outs, node.elements, shape, plan).kernel())
    counts = window_counts(node.elements)
    varying = [c for c in counts if not isinstance(c, ex.Const)]
    rows = Span(len(node.shape) - 2, 0, 0)
    part = Part(1, LOOPED_ROWS, False)
    kernel = StencilKernel(builder, node, outs, node.elements, rows, part).kernel(None)
    for size in SIZES:
        if trips(node.elements, size) > MOST_TRIPS:
            break
        elements = written_out(node.elements, counts, size)
        shape = _span_of(elements, node, builder)
        if shape is not None:
            known = [at.equal(in_scalars(builder, c), size) for c in varying]
            window = _Window(builder, node, outs, elements, shape, None, known)
            kernel = window.kernel(kernel)
    return builder.lowered(kernel)


@dataclass
class _Window:
    """The kernels of a window whose extents are known: for aligned data, and for any."""

    builder: Builder
    node: Generate
    outs: Sequence[Buffer]
    elements: tuple[Expr, ...]
    shape: Span
    plan: Resolved | None = None
    requires: Sequence[Expr] = ()

    def kernel(self, otherwise: Kernel | None = None) -> Kernel:
        """Where `requires` fails, `otherwise` runs."""
        one = self._made(1)
        count = self._columns()
        while count > 1 and multiples(self.node.shape[-1], count, self.builder) is not None:
            wide = self._made(count)
            if len(wide.stream.carried) <= MOST_CARRIED:
                found = wide.kernel(one.kernel(None) if otherwise is None else otherwise)
                full = self.plan is None and wide.can_be_full
                return wide.kernel(found, full=True) if full else found
            count //= 2
        return one.kernel(otherwise)

    def _made(self, columns: int) -> StencilKernel:
        strip = None if self.plan is None else self.plan.unit[-2]
        rows = AT_ONCE.get(self.shape.height)
        if rows is not None and (strip is None or strip <= MOST_AT_ONCE):
            return self._with(Part(columns, strip or rows, False))
        light = self._with(Part(columns, LIGHT_ROWS, True, strip))
        is_light = light.work <= LIGHT_WORK
        ahead = LIGHT_AHEAD if is_light else HEAVY_AHEAD
        if ahead and columns > 1:
            return self._with(Part(columns, 1, True, strip, ahead))
        return light if is_light else self._with(Part(columns, HEAVY_ROWS, True, strip))

    def _with(self, part: Part) -> StencilKernel:
        return StencilKernel(self.builder, self.node, self.outs, self.elements, self.shape, part,
                        list(self.requires), self.plan.threads if self.plan else None)  # fmt: skip

    def _columns(self) -> int:
        """Neighbouring columns of a thread."""
        types = [b.type for b in self.outs]
        types += [e.type for e in ex.walk(self.elements) if isinstance(e, ex.Read) and moves(e)]
        most = MOST_COLUMNS if self.plan is None else self.plan.unit[-1]
        return min(vector_count(types), most)


# --- which elements ------------------------------------------------------------------------------


def _span_of(elements: Sequence[Expr], node: Generate, builder: Builder) -> Span | None:
    """How elements over the domain of `node` are walked; None for what is no stencil."""
    rank = len(node.shape)
    written, elements = elements, transform.inside(elements, node.shape)
    if written != elements and transform.is_transposing(elements, rank):
        return None  # of 4 096² on an H200, one by one 67 µs, as strips 143
    if any(isinstance(e, ex.While | ex.Loop | ex.Foreign) for e in ex.walk(elements)):
        return None
    spans = [_offsets(elements, k, builder) for k in range(rank)]
    if any(s is None for s in spans) or not _shares(elements):
        return None
    for axis in range(rank - 1):
        span = spans[axis]
        assert span is not None
        if span[1] > span[0] and axis >= rank - 3:
            newest = ex.Var("y", int64)
            moved = ex.substitute(elements, {ex.Index(axis): newest - span[1]})
            try:
                stream(moved, newest, 1)
            except NotAStream:
                continue
            return Span(axis, *span)
    return None


def _offsets(roots: Sequence[Expr], axis: int, builder: Builder) -> tuple[int, int] | None:
    """The least and the greatest offset of reads along an axis; None where they have none."""
    low = high = 0
    first = True
    for e in ex.walk(roots):
        if isinstance(e, ex.Cond) and any(isinstance(x, ex.Read) for x in ex.walk(e.scoped)):
            return None
        if not isinstance(e, ex.Read):
            continue
        if e.boundary is not None and any(
            not any(isinstance(x, ex.Index) for x in ex.walk((a,)))
            for k, a in enumerate(e.args)
            if k not in builder.inside.get(e, ())
        ):
            return None
        try:
            row = row_of(e, ex.Index(axis))
        except NotAStream:
            return None
        if row is not None:
            low, high = (row, row) if first else (min(low, row), max(high, row))
            first = False
    return low, high


def _shares(elements: Sequence[Expr]) -> bool:
    """Whether neighbouring elements read the same elements of an array."""
    seen: dict[tuple[object, ...], set[tuple[int, ...]]] = {}
    for e in ex.walk(elements):
        if not isinstance(e, ex.Read):
            continue
        terms: list[object] = [e.node, e.component]
        offsets: list[int] = []
        for a in e.args:
            if not any(isinstance(x, ex.Index) for x in ex.walk((a,))):  # the same for all elements
                terms.append(a)
            elif (form := affine(a)) is not None:
                terms.append(form.nonconstant)
                offsets.append(form.constant)
            else:
                break
        else:
            if offsets:
                seen.setdefault(tuple(terms), set()).add(tuple(offsets))
    return any(len(offsets) > 1 for offsets in seen.values())
