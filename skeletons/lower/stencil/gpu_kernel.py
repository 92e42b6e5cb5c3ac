"""The kernel of a stencil: the assignment of elements to threads, and their reads.

    blocks of threads    rectangles of a warp's width, for rows at once;
                         one after the other, columns fastest, for walks
      thread             `columns` neighbouring columns of a strip of rows
        steps            (`gpu_steps.py`)

A warp whose reads are all in range (uniform for its 32 threads) uses plain wide reads; other warps
resolve the boundary once per row and column, not once per tap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from treadle.dsl.analysis.polynomial import affine
from treadle.dsl.expr import Expr, Index, Read, Var, constant, split_constant, substitute, walk
from treadle.dsl.graph import Generate, Leaf
from treadle.dsl.operations.stencils import resolve_index, resolved_index
from treadle.dsl.records import dataclass
from treadle.dsl.types import ScalarType, bool_, int64

from ...ir import arithmetic as at
from ...ir.kernel import Buffer, Collective, Comment, Kernel, Statement, Store, StoreVector
from ...ir.linearize import Linearizer
from .. import transform
from ..build import Builder
from ..elementwise.gpu_elements import make_kernel
from ..gpu.common import WARP, WIDEST, Threads, blocks, multiples, threads_for
from ..gpu.jam import jam, jams
from .gpu_steps import Steps, shared_reads
from .gpu_stream import Stream, row_of, stream

#: Threads of a block.
THREADS = 128
#: Threads on a multiprocessor at once that walk, where a step is much work and where it is little.
#: Much work: as many warps for each of its four schedulers, so many that some load while others
#: compute.
RESIDENT_HEAVY, RESIDENT_LIGHT = 640, 512
RESIDENT_LEAST, RESIDENT_STEP = 512, 128
#: Registers of a multiprocessor, those of a thread for what is neither carried nor loaded nor
#: shared, and how many values that all threads share a warp has room for once (its uniform
#: registers).
REGISTERS, OTHER_REGISTERS, UNIFORM_REGISTERS = 65_536, 24, 60
#: Much work: so many additions per element of a step.
HEAVY_WORK = 40.0
#: … so many that large blocks pay (on an H200 7×7 takes 48.1 µs without and 49.5 with them, 9×9
#: 60.5 and 57.5, 13×13 150 and 119).
FULL_WORK = 64.0
#: Rows that a thread walks.
SHORTEST, LONGEST = 4, 128
#: Up to so many carried values, a search for fewer does not pay.
FEW_CARRIED = 8


@dataclass(frozen=True)
class Span:
    """The walk: its axis, and the least and the greatest offset of the reads along it."""

    axis: int
    low: int
    high: int

    @property
    def height(self) -> int:
        """Rows of the input that a row of outputs needs."""
        return self.high - self.low + 1


@dataclass(frozen=True)
class Part:
    """What a thread computes: `columns` neighbours of every row, `rows` rows at a time.

    `walks`: a strip of rows, `rows` of them in a step; else one step is all.  `strip` is its
    height, None for one that keeps the machine busy.  `ahead`: the wide loads of so many steps are
    on their way at a time.
    """

    columns: int
    rows: int
    walks: bool
    strip: int | None = None
    ahead: int = 0


#: Blocks, the index of a thread along every axis, and whether it exists.
_Dealt = tuple[Expr, tuple[Expr, ...], Expr]


def _stream(roots: Sequence[Expr], newest: Var, rows: int) -> Stream:
    """Partial results or whole taps, whichever are fewer."""
    partial = stream(roots, newest, rows)
    if len(partial.carried) <= FEW_CARRIED:
        return partial
    whole = stream(roots, newest, rows, whole_taps=True)
    return whole if len(whole.carried) < len(partial.carried) else partial


@dataclass
class StencilKernel:
    """One kernel: every thread has a `part` of each row, and goes along `shape.axis`."""

    builder: Builder
    node: Generate
    outs: Sequence[Buffer]
    elements: tuple[Expr, ...]
    shape: Span
    part: Part
    requires: list[Expr] = field(default_factory=list)
    threads: int | None = None
    aligned: dict[Buffer, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rank = len(self.node.shape)
        self.domain = self.node.shape
        self.extents = self.builder.shape(self.domain)
        self.newest = Var("y", int64)
        #: The variables for the index of a thread, except along its walk.
        self.base = [Var(f"i{k}", int64) for k in range(self.rank)]
        mapping: dict[Expr, Expr] = {Index(k): v for k, v in enumerate(self.base)}
        bindings = [
            {**mapping, Index(self.shape.axis): self.row(r),
             Index(self.rank - 1): self.base[-1] + k}
            for r in range(self.part.rows)
            for k in range(self.part.columns)
        ]  # fmt: skip
        #: Loops of all elements of a thread are jammed.
        self.loops = jams(self.elements)
        #: The elements where everything is in range.
        self.within = transform.inside(self.elements, self.domain)
        self.box = transform.interior(self.elements, self.domain, self.builder)
        roots = self._everywhere(self.within, bindings)
        if self.part.walks:
            self.stream = _stream(roots, self.newest, self.part.rows)
        else:
            self.stream = Stream(self.newest, self.part.rows, roots, ())
        #: The steps of strips at a border: where its positions are made, nothing can be carried.
        self.around = self.stream
        if self.within != self.elements:
            roots = self._everywhere(self.elements, bindings)
            self.around = Stream(self.newest, self.part.rows, roots, ())

    def _everywhere(self, elements: tuple[Expr, ...], bindings: Sequence[dict[Expr, Expr]]
                    ) -> tuple[Expr, ...]:  # fmt: skip
        """The elements of all positions of a thread, row by row."""
        points = (jam(elements, bindings) if self.loops
                  else [substitute(elements, indices) for indices in bindings])  # fmt: skip
        return tuple(e for point in points for e in point)

    @property
    def work(self) -> float:
        """Arithmetic of a step, per element of the domain."""
        return self.stream.work / (self.part.rows * self.part.columns)

    @property
    def heavy(self) -> bool:
        """Whether a step is expensive."""
        return self.work >= HEAVY_WORK

    def row(self, r: int) -> Expr:
        """The r-th row of outputs of a step, as expressions have it."""
        return self.newest - (self.shape.high + self.part.rows - 1 - r)

    def kernel(self, fallback: Kernel | None, full: bool = False) -> Kernel:
        """The kernel; `full`: for so many threads that each multiprocessor has a block of its own,
        as large as fits, and all of them have as much to do."""
        builder, domain, axis, part = self.builder, self.domain, self.shape.axis, self.part
        into = builder.emitter()
        units = list(domain)
        units[-1] = at.ceil_div(domain[-1], part.columns)
        others = at.product(n for k, n in enumerate(units) if k != axis)
        rows = self._rows(others)
        units[axis] = at.ceil_div(domain[axis], rows)
        grid = Threads.of(self.resident if full else threads_for(self.threads or THREADS))
        deal = self._in_line if part.walks and axis == self.rank - 2 else self._in_tiles
        tasks, found, active = deal(into, grid, units)
        active = into.let(active, "active")
        self.indices = [into.let(p * (part.columns if k == self.rank - 1 else 1), f"i{k}")
                      for k, p in enumerate(found)]  # fmt: skip
        into.bind(dict(zip(self.base, self.indices, strict=True)))
        height = builder.scalar(rows, "strip")
        first = into.let(self.indices[axis] * height, "first")
        last = into.let(at.minimum(first + height, self.extents[axis]), "last")
        plain = Var("plain", bool_)
        inside = self._inside(first, last)
        into.append(
            Comment("A warp of which every thread is inside needs no look at the borders."),
            Collective(plain, "all", (at.either(at.negate(active), inside),)),
        )
        with into.when(active):
            with into.when(plain):
                self._strip(into, first, last, True)
            with into.otherwise(plain):
                into.note("At a border: what is outside is what the boundary says.")
                self._strip(into, first, last, False)
        if part.columns > 1:
            whole = multiples(domain[-1], part.columns, builder)
            assert whole is not None, "a row is no multiple of a thread's columns"
            self.requires += whole
            self.requires.append(at.less_equal(2 * part.columns, self.extents[-1]))
            self.aligned.update(dict.fromkeys(self.outs))
        if full:
            least = at.integer(builder.context.processors * grid.count)
            threads = others * at.ceil_div(domain[axis], SHORTEST)
            self.requires.append(builder.scalar(at.less_equal(least, threads), "full"))
        if part.walks:
            comment = (f"{part.columns} columns a thread, walking along axis {axis}, "
                       f"{len(self.stream.carried)} values carried")  # fmt: skip
        else:
            comment = f"{part.rows} × {part.columns} elements a thread"
        return make_kernel(
            builder, self.node, tasks, grid, into, [comment],
            **grid.launch(self.requires, self.aligned, fallback),
        )  # fmt: skip

    def _in_line(self, into: Linearizer, grid: Threads, units: Sequence[Expr]) -> _Dealt:
        """Threads one after the other, columns fastest."""
        ids = at.product(units)
        ident = into.let(grid.ident, "id")
        names = [*(f"units{k}" for k in range(self.rank - 1)), "groups"]
        found = at.row_major(ident, self.builder.shape(units, names))
        active = at.less(ident, self.builder.scalar(ids, "ids"))
        return blocks(self.builder, ids, grid.count), found, active

    def _in_tiles(self, into: Linearizer, grid: Threads, units: Sequence[Expr]) -> _Dealt:
        """Rectangles of threads: about a warp wide, as many rows of them as a block has."""
        builder = self.builder
        across_host = at.ceil_div(units[-1], WARP)
        width_host = at.maximum(at.ceil_div(units[-1], at.maximum(across_host, 1)), 1)
        height_host = grid.count // width_host
        down_host = at.ceil_div(units[-2], height_host)
        tiles = (*units[:-2], down_host, across_host)
        names = [*(f"units{k}" for k in range(self.rank - 2)), "blocks_down", "blocks_across"]
        *lead, down, across = at.row_major(grid.task, builder.shape(tiles, names))
        width = builder.scalar(width_host, "block_width")
        height = builder.scalar(height_host, "block_height")
        own = into.let(grid.thread // width, "own")
        row = into.let(down * height + own, "row")
        column = across * width + grid.thread % width
        column = into.let(column, "column")
        active = at.both(
            at.less(own, height),
            at.less(row, builder.extent(units[-2], "strips")),
            at.less(column, builder.extent(units[-1], "groups")),
        )
        return builder.scalar(at.product(tiles), "blocks"), (*lead, row, column), active

    @property
    def fitting(self) -> int:
        """Threads of a heavy walk for which a multiprocessor has registers, about."""
        across: dict[Leaf, list[int]] = {}
        for e in walk(self.within):
            if isinstance(e, Read) and (c := row_of(e, Index(self.rank - 1))) is not None:
                across.setdefault(Leaf(e.node, e.component), []).append(c)
        rows, columns = self.part.rows, self.part.columns
        loaded = sum(_registers(leaf.type) * rows * (columns + max(cs) - min(cs))
                     for leaf, cs in across.items())  # fmt: skip
        carried = sum(_registers(c.value.type) for c in self.stream.carried)
        shared = sum(_registers(e.type) for e in shared_reads(self.elements))
        own = carried + loaded + max(shared - UNIFORM_REGISTERS, 0) + OTHER_REGISTERS
        return REGISTERS // own // RESIDENT_STEP * RESIDENT_STEP

    @property
    def resident(self) -> int:
        """Threads that walk on a multiprocessor at once."""
        if not self.heavy:
            return RESIDENT_LIGHT
        return max(min(self.fitting, RESIDENT_HEAVY), RESIDENT_LEAST)

    @property
    def can_be_full(self) -> bool:
        """Whether there may be a kernel that is `full`: see `kernel`."""
        enough = self.work >= FULL_WORK and self.fitting >= RESIDENT_LEAST
        return self.part.walks and enough

    def _rows(self, others: Expr) -> Expr:
        """Rows of a thread: if it walks, as many as make whole waves of all threads that are on the
        machine at once, where there are enough of them."""
        if not self.part.walks:
            return constant(self.part.rows)
        if self.part.strip is not None:
            return constant(self.part.strip)
        length = self.domain[self.shape.axis]
        threads = self.builder.context.processors * self.resident
        waves = at.ceil_div(others * at.ceil_div(length, LONGEST), threads)
        strips = waves * threads // at.maximum(others, 1)
        return at.maximum(at.ceil_div(length, at.maximum(strips, 1)), SHORTEST)

    def _inside(self, first: Expr, last: Expr) -> Expr:
        """Whether everything that this thread reads is in range, and all its rows exist."""
        conditions: list[Expr] = []
        axis, box, part = self.shape.axis, self.box, self.part
        for k, indices in enumerate(self.indices):
            begin = first if k == axis else indices
            own = part.rows if k == axis else part.columns if k == self.rank - 1 else 1
            end = last if k == axis and part.walks else begin + own
            least: Expr = constant(0)
            most = self.extents[k]
            if k == axis and not self.loops:
                least, most = self._rows_in_range(k)
                if box is not None and k in box.positions:
                    least, most = at.maximum(least, box.low[k]), at.minimum(most, box.high[k])
            elif box is not None:
                least, most = box.low[k], box.high[k]
            conditions += [at.less_equal(least, begin), at.less_equal(end, most)]
        return at.both(*conditions)

    def _rows_in_range(self, axis: int) -> tuple[Expr, Expr]:
        """The rows of outputs for which all steps read rows that exist, of every array."""
        part = self.part
        beyond = self.shape.high + (part.rows * max(2 * part.ahead, 1) - 1 if part.walks else 0)
        high = self.domain[axis]
        for e in walk(self.within):
            if isinstance(e, Read):
                for k, index in enumerate(e.args):
                    if any(x is Index(axis) for x in walk((index,))):
                        extent = e.node.outputs[e.component].shape[k]
                        high = at.minimum(high, extent - max(beyond, 0))
        return constant(max(-self.shape.low, 0)), self.builder.scalar(high, "rows_inside")

    # --- one strip ---

    def _strip(self, into: Linearizer, first: Expr, last: Expr, inside: bool) -> None:
        steps = Steps(self, inside, first, last)
        steps.share(into)
        if not self.part.walks:
            steps.step(into, first)
            return
        start = first - (self.shape.height - 1)
        steps.declare(into, start)
        stride = self.part.rows * max(self.part.ahead, 1)
        with into.loop("row", start, last, step=stride) as row:
            steps.iteration(into, row)

    def is_own(self, index: Expr, extent: Expr) -> bool:
        """Whether an index is that of an element of the thread, along an axis as long as the
        domain's: such a position exists, at a border as well."""
        axis = self._own_axis(index)
        return axis is not None and self.builder.same(extent, self.domain[axis])

    def _own_axis(self, index: Expr) -> int | None:
        if not self.part.walks and index is self.row(0):
            return self.shape.axis
        rest, offset = split_constant(index)
        for k, v in enumerate(self.base):
            own = self.part.columns if k == self.rank - 1 else 1
            if rest is v and 0 <= offset < own:
                return k
        return None

    def own(self, e: Expr) -> Expr:
        """A resolved position of an element of the thread is the position itself."""
        found = resolved_index(e)
        axis = None if found is None else self._own_axis(found[1])
        if found is None or axis is None:
            return e
        kind, index = found
        return index if resolve_index(kind, index, self.domain[axis]) is e else e

    def plain(self, e: Expr) -> Expr:
        """A read as it is where everything is in range."""
        if not isinstance(e, Read) or e.boundary is None:
            return e
        return Read(e.node, e.component, e.args)

    def resolved(self, e: Expr) -> Expr:
        """A read that may be out of range, as one that is not and means the same.

        Steps at the ends of a strip read rows of which nothing is used: those reads are clamped.
        """
        if not isinstance(e, Read):
            return e
        shape = self.builder.node_shape(e)
        moving = [k for k, a in enumerate(e.args) if any(isinstance(x, Var) for x in walk((a,)))
                  and not self.is_own(a, shape[k])]  # fmt: skip
        if e.boundary is None:
            rows = [k for k in moving if any(x is self.newest for x in walk((e.args[k],)))
                    and affine(e.args[k]) is not None]  # fmt: skip
            if not rows:
                return e
            clamped = Read(e.node, e.component, e.args, "clamp")
            return transform.resolve_axes(clamped, rows)
        return transform.resolve_axes(e, moving)

    # --- stores ---

    def store(self, row: Expr, values: Sequence[Expr]) -> tuple[Statement, ...]:
        """The elements of one row of the thread."""
        indices = list(self.indices)
        indices[self.shape.axis] = row
        position = at.linear(indices, self.extents)
        made: list[Statement] = []
        components = len(self.outs)
        for c, out in enumerate(self.outs):
            mine = values[c::components]
            wide = max(WIDEST // out.type.bytes, 1)
            for k in range(0, len(mine), wide):
                part = tuple(mine[k : k + wide])
                where = position + k
                made.append(Store(out, where, part[0]) if self.part.columns == 1
                            else StoreVector(out, where, part))  # fmt: skip
        return tuple(made)


def _registers(t: ScalarType) -> int:
    return max(t.bytes // 4, 1)
