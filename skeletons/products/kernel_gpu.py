"""The GPU kernel for matrix products of all types, with fused operands and epilogues.

A block computes ROWS × COLUMNS of one product; a thread computes a few groups of rows times a few
groups of columns:

    for every DEPTH of the inner axis, one step ahead of the multiplication:
      fetch     load the operands' elements into registers (fused producers run here, 16 bytes
                at a time where elements are contiguous)
      multiply  what the previous step stored in shared memory,
                for k: sum[u, v] += left[k, u] · right[k, v]
      store     what was fetched, as left[k][row] and right[k][column], into the other buffer

Sums are formed in the order of k, one term at a time (floats fused: one rounding per term), for any
extents, so all block shapes give the same bits. float16 and bfloat16 accumulate in float32;
integers narrower than 32 bits wrap in 32 bits; bool is or-of-ands.

Tensor cores multiply float64, eight elements of k at a time.  If there are few products with a long
inner axis, that axis is split: each block sums a part, and another kernel adds the parts in order.

Rows and columns beyond the matrix repeat its last ones and are not stored; only the last step tests
the end of the inner axis.  A `FoldedMatmul` folds rows where they are stored (`folded_gpu.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from treadle.dsl import simplify
from treadle.dsl.expr import Apply, Expr, Index, Read, Var, constant, primitive, walk
from treadle.dsl.graph import FoldedMatmul, Matmul, StoringMatmul
from treadle.dsl.types import ScalarType, float64

from ..ir import arithmetic as at, kernel as ir
from ..ir.linearize import Linearizer, zero
from ..lower import tiling
from ..lower.build import Builder, LoweringContext, element_cost
from ..lower.combining import put, store_group
from ..lower.gpu import common
from ..lower.gpu.orders import BlockVisits, Visits
from .elements import add_product, resolved, small_sizes, sum_type
from .folded_gpu import FoldedRows, StoredOperand
from .small import MANY, on_gpu, on_tensor_cores, staged
from .small_gpu import CHEAP, Side, SmallProducts
from .small_staged import StagedProducts, StagedTensorProducts
from .small_tensor import TensorProducts

#: Rows of tiles in a band visited column by column, which share operand rows in the L2.
TOGETHER = 8
#: Epilogues of more additions than this are not repeated for every output of a thread.
CHEAP_EPILOGUE = 24.0
#: Lanes of a warp along rows and columns.
LANES = (8, 4)
_Form = type[SmallProducts] | type[TensorProducts] | type[StagedProducts]


@dataclass(frozen=True)
class Tile:
    """A block shape: `warps` down and across, `groups` of rows and columns per thread, `depth` of a
    step.

    A group has as many elements as 16 bytes hold; the groups of a warp's lanes interleave.
    """

    warps: tuple[int, int]
    groups: tuple[int, int]
    depth: int
    resident: int

    @property
    def threads(self) -> int:
        return self.warps[0] * self.warps[1] * common.WARP

    def span(self, side: int, t: ScalarType) -> int:
        """Rows (side 0) or columns (1) of a block for sums of type `t`."""
        return self.warps[side] * self.groups[side] * LANES[side] * widths(t)[side]


#: By bytes of the accumulator type: large blocks, then smaller ones for few or small matrices.
TILES = {
    4: (Tile((2, 4), (2, 2), 16, 2), Tile((2, 2), (1, 2), 16, 0), Tile((1, 1), (1, 2), 8, 0)),
    8: (Tile((2, 4), (4, 2), 8, 2), Tile((2, 2), (2, 2), 8, 0), Tile((1, 1), (2, 2), 8, 0)),
    16: (Tile((2, 4), (4, 4), 4, 2), Tile((2, 2), (2, 2), 8, 0), Tile((1, 1), (2, 2), 8, 0)),
}  # fmt: skip
#: The same on tensor cores, where a group of rows is one row.
TENSOR = (Tile((2, 2), (4, 4), 16, 3), Tile((1, 1), (4, 4), 16, 0))
#: Elements of k that tensor cores multiply at a time.
DEEP = 8
#: For an inner axis that is split: the number of parts of CUT × CUT products that the GPU should
#: compute at a time, if that many are large enough, and the fewest elements of k in a part.
#: Constants, since sums depend on them.
CUT, PARTS, LONG = 64, 1024, 256


def widths(t: ScalarType) -> tuple[int, int]:
    """The rows and columns of a group for sums of type `t`."""
    return (1 if t == float64 else 16 // t.bytes), 16 // t.bytes


def tiles(t: ScalarType) -> Sequence[Tile]:
    return TENSOR if t == float64 else TILES[t.bytes]


def parts_along(batch: Sequence[Expr], size: Sequence[Expr]) -> tuple[Expr, Expr]:
    """The elements of k that a block adds for (m, k) by (k, n) products on tensor cores, and the
    number of parts into which k is split; host expressions."""
    (m, k, n), deep = size, TENSOR[0].depth
    cut = at.product((*batch, at.ceil_div(m, CUT), at.ceil_div(n, CUT)))
    wanted = at.minimum(constant(PARTS) // at.maximum(cut, 1),
                        k // LONG)  # fmt: skip
    steps = at.ceil_div(k, at.maximum(wanted, 1) * deep)
    length = at.maximum(steps, 1) * deep
    return length, at.maximum(at.ceil_div(k, length), 1)


def lower_matmul(node: Matmul, context: LoweringContext) -> ir.Lowered:
    """One kernel, with fallbacks to smaller blocks."""
    builder = Builder(node, context)
    small = _small_kernel(builder, node) if type(node) is Matmul else None
    if small is not None:
        return builder.lowered(small)
    made = (_TensorMatmul if sum_type(node.left.type) == float64 else Product)(builder, node)
    *larger, least = range(len(made.tiles))
    kernel = made.kernel(least, False, None)
    for size in reversed(larger):
        kernel = made.kernel(size, False, kernel)
    return builder.lowered(made.kernel(0, True, kernel) if made.wide else kernel, *made.after())


def _small_kernel(builder: Builder, node: Matmul) -> ir.Kernel | None:
    """The kernel for many small products, if the extents of a product are small constants.  A
    schedule orders the tiles of integer products and has no effect on floats."""
    sizes = small_sizes(builder, node)
    if sizes is None or not on_gpu(node.left.type, sizes, MANY):
        return None
    (m, k, n), rank = sizes, len(node.batch)
    left, right, epilogue = resolved(builder, node)
    if max(element_cost((left,)), element_cost((right,))) > CHEAP:
        return None
    sides = Side(builder, left, rank + 1, rank), Side(builder, right, rank + 1, rank)
    of = node.left.type, m, n, k
    forms: tuple[_Form, _Form] = (SmallProducts, TensorProducts)
    if staged(*of):
        forms = StagedProducts, StagedTensorProducts
    kernels = forms[on_tensor_cores(*of)]
    made = kernels(builder, node, *sides, epilogue, m, n, k)
    return made.kernel(True, made.kernel(False, None))


class _Operand:
    """One operand: the axis along which it is read, and how it is copied to shared memory.

    `axis` is the axis of its rows (left) or columns (right), `inner` that of k.
    """

    def __init__(self, builder: Builder, root: Expr, axis: int, inner: int, t: ScalarType) -> None:
        self.builder, self.root, self.axis, self.inner, self.type = builder, root, axis, inner, t
        types = [e.type for e in walk((root,)) if isinstance(e, Read | ir.Load) and e.args]
        count = min(common.vector_count(types), 4) if types else 1
        groups = [common.Group(builder, (root,), Index(a), count) for a in (inner, axis)]
        wide = [g for g in groups if g.streams]
        self.group = wide[0] if wide else common.Group(builder, (root,), Index(inner), 1)
        self.along_rows = self.group is groups[1] if wide else self._follows(axis)

    @property
    def wide(self) -> bool:
        return bool(self.group.streams)

    def _follows(self, axis: int) -> bool:
        """Whether most of its reads are contiguous along `axis`."""
        reads = [e for e in walk((self.root,)) if isinstance(e, Read | ir.Load) and e.args]
        steps = [common.coefficient(e.args[-1], Index(axis)) in (1, -1) for e in reads]
        return sum(steps) * 2 > len(steps)


class Fetch:
    """The part of one operand that a thread loads in one step, as shares."""

    def __init__(self, operand: _Operand, tile: Tile, span: int, wide: bool, tensor: bool) -> None:
        self.operand, self.span, self.depth = operand, span, tile.depth
        self.count = operand.group.count if wide and operand.wide else 1
        #: Whether shared memory is contiguous along a row (rather than across rows, for one k).
        self.by_row = tensor and not operand.along_rows
        length = tile.depth if self.by_row else span
        # (Padding: the elements that half a warp reads, four neighbours at four rows or k, are in
        # different banks.)
        self.pitch = length + (4 if tensor else 16 // operand.type.bytes)
        self.size = (span if self.by_row else tile.depth) * self.pitch
        along, across = (span, tile.depth) if operand.along_rows else (tile.depth, span)
        if along % self.count:
            self.count = 1
        self.per_line = along // self.count
        total = self.per_line * across
        self.shares = -(-total // tile.threads)
        self.threads, self.total = tile.threads, total
        #: Whether all shares of a thread belong to the same rows, and how many threads load a row.
        self.in_columns = operand.along_rows and tile.threads % self.per_line == 0
        self.loaders = min(tile.depth, tile.threads // self.per_line)
        if not operand.along_rows:
            self.loaders = self.per_line
        elif not self.in_columns:
            self.loaders = tile.depth

    def place(self, row: Expr, k: Expr) -> Expr:
        """The position of an element in shared memory."""
        line, inside = (row, k) if self.by_row else (k, row)
        return line * self.pitch + inside

    def positions(self, thread: Expr) -> list[tuple[Expr, Expr]]:
        """(row, k) within the block of the first element of each of a thread's shares."""
        found = []
        for q in range(self.shares):
            if self.threads % self.per_line == 0:  # constant distances from the first
                line = thread // self.per_line + q * (self.threads // self.per_line)  # fmt: skip
                first = thread % self.per_line
            else:
                number = thread + q * self.threads
                line = number // self.per_line
                first = number % self.per_line
            start = first * self.count
            found.append((start, line) if self.operand.along_rows else (line, start))
        return found


class Product:
    """The kernels of one product."""

    tensor = False
    #: The parts of a split inner axis, in the kernel and on the host.
    parts: Expr = constant(1)
    host_parts: Expr = constant(1)

    def __init__(self, builder: Builder, node: Matmul) -> None:
        self.builder, self.node = builder, node
        self.rank = len(node.batch)
        left, right, self.epilogue = resolved(builder, node)
        self.m, self.n, self.k = (builder.extent(e) for e in (node.m, node.n, node.k))
        self.type = sum_type(node.left.type)
        self.left = _Operand(builder, left, self.rank, self.rank + 1, self.type)
        self.right = _Operand(builder, right, self.rank + 1, self.rank, self.type)
        self.widths = widths(self.type)
        self.wide = self.left.wide or self.right.wide
        self.outs, self.tiles = builder.outputs(), tiles(self.type)
        self.folded: FoldedRows | None = None
        if isinstance(node, FoldedMatmul):
            first = self.tiles[0]
            self.outs = self.outs[len(node.finish) :]
            self.tiles = first, replace(first, warps=(1, first.warps[1]), resident=0)
            self.folded = FoldedRows(builder, node, first.span(1, self.type))
        self.stored: StoredOperand | None = None
        if isinstance(node, StoringMatmul):
            self.outs = self.outs[len(node.finish) + 1 :]
            self.stored = StoredOperand(builder, node)

    @property
    def sides(self) -> tuple[int, int]:
        """The numbers of lanes of a warp, and of warps of a block, that share a row."""
        return LANES[1], self.tile.warps[1]

    def after(self) -> Sequence[ir.Kernel]:
        """The kernels to run after this one."""
        return () if self.folded is None else (self.folded.after("rows of several blocks"),)

    # --- a kernel ---

    def kernel(self, size: int, wide: bool, fallback: ir.Kernel | None) -> ir.Kernel:
        """A kernel with blocks of tiles[size]; `wide`: vector accesses if the operands allow."""
        node, builder, tile = self.node, self.builder, self.tiles[size]
        rows, cols = tile.span(0, self.type), tile.span(1, self.type)
        grid = common.Threads.of(tile.threads)
        down_host, across_host = at.ceil_div(node.m, rows), at.ceil_div(node.n, cols)
        down, across = builder.scalar(down_host, "down"), builder.scalar(across_host, "across")
        batches = builder.scalar(at.product(node.batch), "batches")
        self.tile, self.grid = tile, grid
        self.fetches = [
            Fetch(o, tile, span, wide, self.tensor)
            for o, span in ((self.left, rows), (self.right, cols))
        ]
        self.halves = [
            builder.shared(name, [self.type], 2 * f.size)[0]
            for name, f in zip(("left", "right"), self.fetches, strict=True)
        ]
        into = builder.emitter()
        tasks = at.product((self.parts, batches, down, across))
        leaf = (1, *(1 for _ in node.batch), rows, cols)
        visits = Visits.of(builder, (self.host_parts, *node.batch, down_host, across_host), leaf)
        if visits is None:
            which, number = at.row_major(grid.task, (tasks, down * across))
            self.part, which = at.row_major(which, (self.parts, batches))
            self.batch = tiling.coordinates(builder, into, which, node.batch, "batch")
            row_tile, col_tile = self._tile_of(into, number, down, across)
            self._tile_at(into, row_tile, col_tile, rows, cols, wide)
        else:
            iterations = BlockVisits(visits)
            tasks = builder.scalar(iterations.tasks, "visit_blocks")
            with iterations.leaves(into, grid.task, constant(0)) as (
                own,
                (self.part, *batch, row_tile, col_tile),
            ):
                self.batch = tuple(batch)
                with into.when(own):
                    self._tile_at(into, row_tile, col_tile, rows, cols, wide)
        vector = self._by_vectors(wide)
        requires: list[Expr] = []
        aligned: list[object] = []
        if wide:
            for fetch in self.fetches:
                if fetch.count > 1:
                    requires += fetch.operand.group.requires
                    extent = (self.m if fetch.operand is self.left else self.n
                              ) if fetch.operand.along_rows else self.k  # fmt: skip
                    requires.append(at.equal(extent % fetch.count, 0))
                    aligned += fetch.operand.group.aligned
                    if self.stored is not None and fetch is self.fetches[self.stored.side]:
                        aligned.append(self.stored.array)
            if vector:
                requires.append(at.equal(self.n % self.widths[1], 0))
                aligned += self.outs
        if fallback is not None:  # enough blocks for the GPU, none mostly outside the matrix
            tasks_host = at.product((self.host_parts, *node.batch, down_host, across_host))
            enough = builder.context.processors // 2
            requires.append(at.less_equal(enough, builder.scalar(tasks_host, "blocks")))
            filled = 3 if self.tensor else 2  # quarters
            requires += [at.less_equal(side * filled // 4, extent)
                         for side, extent in ((rows, self.m), (cols, self.n))]  # fmt: skip
        return builder.kernel(
            "", tasks, grid.task, tuple(into.out),
            comments=(f"blocks of {rows} x {cols}, {tile.depth} deep",),
            **grid.launch(requires, aligned, fallback, tile.resident),  # type: ignore[arg-type]
        )  # fmt: skip

    def _tile_at(self, into: Linearizer, row_tile: Expr, col_tile: Expr, rows: int, cols: int,
                 wide: bool) -> None:  # fmt: skip
        self.row_tile, self.col_tile = row_tile, col_tile
        self.row0 = into.let(row_tile * rows, "row")
        self.col0 = into.let(col_tile * cols, "col")
        self._steps(into)
        into.append(ir.Comment("epilogue"))
        self._finish(into, self._by_vectors(wide))

    def _by_vectors(self, wide: bool) -> bool:
        return wide and all(b.type.bytes * self.widths[1] <= 16 for b in self.outs)

    def _tile_of(self, into: Linearizer, number: Expr, down: Expr, across: Expr
                 ) -> tuple[Expr, Expr]:  # fmt: skip
        """The tile with a number: bands of TOGETHER rows of tiles, column by column."""
        number = into.let(number, "tile")
        per = into.let(across * TOGETHER, "band_tiles")
        band = into.let(number // per, "band")
        first = into.let(band * TOGETHER, "band_start")
        height = into.let(at.minimum(down - first, TOGETHER), "band_rows")
        inside = into.let(number - band * per, "inside")
        return first + inside % height, inside // height

    # --- along k ---

    def _inner(self, into: Linearizer) -> tuple[Expr, Expr]:
        """The first element of k that a block adds, and the number of elements."""
        return constant(0), self.k

    def _steps(self, into: Linearizer) -> None:
        depth, thread = self.tile.depth, self.grid.thread
        self._thread_position(into)
        self.sums = [[into.declare(zero(self.type), "sum") for _ in range(self._across())]
                     for _ in range(self._down())]  # fmt: skip
        positions = [f.positions(thread) for f in self.fetches]
        rows = [
            self._clamped(into, f, p, start, extent)
            for f, p, start, extent in zip(self.fetches, positions, (self.row0, self.col0),
                                           (self.node.m, self.node.n), strict=True)
        ]  # fmt: skip
        fetched = [[[into.declare(zero(self.type), "next") for _ in range(f.count)]
                    for _ in range(f.shares)] for f in self.fetches]  # fmt: skip
        if self.stored is not None:
            self.stored.begin(into, self)
        begin, count = self._inner(into)
        steps = into.let(at.ceil_div(count, depth), "steps")
        whole = into.let(count // depth, "whole_steps")
        with into.loop("s", 0, steps + 1) as s:
            first = into.let(begin + s * depth, "k0")
            inside = at.less(s, whole)
            with into.when(inside):
                self._fetch(into, rows, positions, fetched, first, False)
            with into.otherwise(inside):
                left_over = at.less(s, steps)
                with into.when(left_over):
                    self._fetch(into, rows, positions, fetched, first, True)
            with into.when(at.less(0, s)):
                self._multiply(into, (s + 1) % 2)
            with into.when(at.less(s, steps)):
                self._store(into, positions, fetched, s % 2)
                if self.stored is not None:
                    side = self.stored.side
                    self._keep_operand(into, rows[side], positions[side], fetched[side], first)
            into.append(ir.Barrier())
        if self.stored is not None:
            self.stored.end(into, self)

    def _down(self) -> int:
        return self.tile.groups[0] * self.widths[0]

    def _across(self) -> int:
        return self.tile.groups[1] * self.widths[1]

    def _clamped(self, into: Linearizer, fetch: Fetch, positions: Sequence[tuple[Expr, Expr]],
                 start: Expr, extent: Expr) -> list[Expr]:  # fmt: skip
        """The rows (or columns) of a thread's shares, clamped to the matrix."""
        size = self.builder.extent(extent)
        last = size - (fetch.count if fetch.operand.along_rows else 1)
        found = []
        for row, _ in positions:
            r = into.let(at.minimum(start + row, last), "r")
            self.builder.stays_below(r, extent)
            found.append(r)
        return found

    def _fetch(self, into: Linearizer, rows: Sequence[Sequence[Expr]],
               positions: Sequence[Sequence[tuple[Expr, Expr]]],
               fetched: Sequence[Sequence[Sequence[Var]]], first: Expr, last: bool
               ) -> None:  # fmt: skip
        for f, rs, ps, hs in zip(self.fetches, rows, positions, fetched, strict=True):
            for q, (r, (_, k), h) in enumerate(zip(rs, ps, hs, strict=True)):
                with into.when_always({}):
                    k = into.let(first + k, "k")
                    self._guarded(into, f, q, r, k, h, last)

    def _guarded(self, into: Linearizer, fetch: Fetch, share: int, r: Expr, k: Expr,
                 fetched: Sequence[Var], last: bool) -> None:  # fmt: skip
        """Fetch one share; zeros beyond the end of k, nothing for threads without this share."""
        mine: Expr = at.less(k, self.k) if last else at.less(0, 1)
        if fetch.total % fetch.threads and share == fetch.shares - 1:
            number = self.grid.thread + share * fetch.threads
            mine = at.both(mine, at.less(number, fetch.total))
        with into.when(mine):
            self._elements(into, fetch, r, k, fetched)
        if last:
            with into.otherwise(mine):
                into.append(*(ir.Assign(h, zero(self.type)) for h in fetched))

    def _elements(self, into: Linearizer, fetch: Fetch, r: Expr, k: Expr, fetched: Sequence[Var]
                  ) -> None:  # fmt: skip
        operand = fetch.operand
        self.builder.stays_below(k, self.node.k)
        bindings: dict[Expr, Expr] = {Index(a): i for a, i in enumerate(self.batch)}
        bindings |= {Index(operand.axis): r, Index(operand.inner): k}
        moving = Index(operand.axis) if operand.along_rows else Index(operand.inner)
        start = bindings.pop(moving)
        with into.when_always(bindings):
            loaded = operand.group.load(into, start) if fetch.count > 1 else [{}] * fetch.count
            for v, (reads, h) in enumerate(zip(loaded, fetched, strict=True)):
                with into.when_always({moving: start + v, **reads}):
                    into.append(ir.Assign(h, simplify.cast(into.value(operand.root), self.type)))

    def _keep_operand(self, into: Linearizer, rows: Sequence[Expr],
                      positions: Sequence[tuple[Expr, Expr]], fetched: Sequence[Sequence[Var]],
                      first: Expr) -> None:  # fmt: skip
        """Store and fold the elements fetched of an operand, which have arrived by now: the
        preceding stores to shared memory waited for them."""
        assert self.stored is not None
        side = self.stored.side
        fetch = self.fetches[side]
        leading = fetch.operand.along_rows != bool(side)
        for q, (r, (_, k), h) in enumerate(zip(rows, positions, fetched, strict=True)):
            with into.when_always({}):
                k = into.let(first + k, "k")
                pair = (k, r) if side else (r, k)
                indices = [(*self.batch, *(x + v * (leading == (a == 0))
                                           for a, x in enumerate(pair)))
                           for v in range(fetch.count)]  # fmt: skip
                with into.when(at.less(k, self.k)):
                    self.stored.add(into, q, indices, h, fetch)

    def _store(self, into: Linearizer, positions: Sequence[Sequence[tuple[Expr, Expr]]],
               fetched: Sequence[Sequence[Sequence[Var]]], half: Expr) -> None:  # fmt: skip
        for f, ps, hs, buffer in zip(self.fetches, positions, fetched, self.halves, strict=True):
            base = half * f.size
            for q, ((row, k), h) in enumerate(zip(ps, hs, strict=True)):
                where, near = base + f.place(row, k), f.by_row or f.operand.along_rows
                mine: Expr = at.less(0, 1)
                if f.total % f.threads and q == f.shares - 1:
                    mine = at.less(self.grid.thread + q * f.threads, f.total)
                with into.when(mine):
                    if near and f.count * self.type.bytes <= common.WIDEST:
                        into.append(ir.StoreVector(buffer, where, tuple(h)) if f.count > 1
                                    else ir.Store(buffer, where, h[0]))  # fmt: skip
                        continue
                    step = 1 if near else f.pitch
                    into.append(*(ir.Store(buffer, where + v * step, x)
                                  for v, x in enumerate(h)))  # fmt: skip

    # --- the products of one thread ---

    def _thread_position(self, into: Linearizer) -> None:
        """The first row and column of a thread within its block."""
        lane, warp = into.let(self.grid.lane, "lane"), into.let(self.grid.warp, "warp")
        warp_at = at.row_major(warp, tuple(map(constant, self.tile.warps)))
        self.warp_across = warp_at[1]
        self.within = lane // LANES[1], lane % LANES[1]
        self.starts = [w * (g * n * width) for w, g, n, width in
                       zip(warp_at, self.tile.groups, LANES, self.widths, strict=True)]  # fmt: skip
        row, col = (start + x * width for start, x, width in
                    zip(self.starts, self.within, self.widths, strict=True))  # fmt: skip
        self.position = (into.let(row, "own_row"), into.let(col, "own_col"))

    def _multiply(self, into: Linearizer, half: Expr) -> None:
        bases = [into.let(half * f.size + p, "base")
                 for f, p in zip(self.fetches, self.position, strict=True)]  # fmt: skip
        with into.loop("k", 0, self.tile.depth, "unrolled") as k:
            parts = []
            for side, (f, base, buffer) in enumerate(
                zip(self.fetches, bases, self.halves, strict=True)
            ):
                own: list[Var] = []
                for g in range(self.tile.groups[side]):
                    where = base + k * f.pitch + g * LANES[side] * self.widths[side]  # fmt: skip
                    names = tuple(Var("ab"[side], self.type) for _ in range(self.widths[side]))
                    into.append(ir.LoadVector(names, buffer, where))
                    own += names
                parts.append(own)
            for v, b in enumerate(parts[1]):  # boustrophedon: consecutive products share an operand
                for u in range(len(parts[0]))[:: 1 if v % 2 == 0 else -1]:
                    total = self.sums[u][v]
                    made = add_product(self.node.left.type, total, parts[0][u], b)
                    into.append(ir.Assign(total, made))

    # --- epilogue ---

    def _finish(self, into: Linearizer, vector: bool) -> None:
        row = into.let(self.row0 + self.position[0], "first_row")
        col = into.let(self.col0 + self.position[1], "first_col")
        folded, cost = self.folded, element_cost(self.epilogue)
        if folded is None and (cost > CHEAP_EPILOGUE or common.has_loops(self.epilogue)):
            self._one_by_one(into, row, col)
            return
        if folded is not None:
            folded.begin(into, self._down())
        for u in range(self._down()):
            i = into.let(row + self.offset(0, u), "i")
            with into.when(at.less(i, self.m)):
                self.builder.stays_below(i, self.node.m)
                for g in range(self.tile.groups[1]):
                    sums = self.sums[u][g * self.widths[1] : (g + 1) * self.widths[1]]
                    first = into.let(col + g * LANES[1] * self.widths[1], "j")
                    self._write(into, u, i, first, sums, vector)
        if folded is not None:
            folded.end(into, self)

    def offset(self, side: int, u: int) -> int:
        """The distance from a thread's first row (or column) to its `u`-th."""
        width = self.widths[side]
        return u % width + u // width * LANES[side] * width

    def _write(self, into: Linearizer, u: int, i: Expr, first: Expr, sums: Sequence[Expr],
               vector: bool) -> None:  # fmt: skip
        """Store neighbouring elements of a thread's row `u`."""
        if vector:
            with into.when(at.less(first, self.n)):
                made = [self._element(into, i, first + v, s, u) for v, s in enumerate(sums)]
                where = into.let(at.linear((*self.batch, i, first), self._shape()), "at")
                store_group(into, self.outs, where, made)
            return
        for v, total in enumerate(sums):
            j = into.let(first + v, "j")
            with into.when(at.less(j, self.n)):
                self._store_element(into, i, j, total, u)

    def _store_element(self, into: Linearizer, i: Expr, j: Expr, total: Expr, u: int = 0) -> None:
        values = self._element(into, i, j, total, u)
        where = at.linear((*self.batch, i, j), self._shape())
        put(into, self.outs, where, values)

    def _shape(self) -> tuple[Expr, ...]:
        return self.builder.shape((*self.node.batch, self.node.m, self.node.n))

    def _element(self, into: Linearizer, i: Expr, j: Expr, total: Expr, u: int
                 ) -> tuple[Expr, ...]:  # fmt: skip
        """The values to store for an element; folds add to the totals of row `u`."""
        j = into.let(j, "j")
        self.builder.stays_below(j, self.node.n)
        result = into.let(simplify.cast(total, self.node.result.type), "result")
        bindings: dict[Expr, Expr] = {Index(a): p for a, p in enumerate((*self.batch, i, j))}
        elements = () if self.folded is None else self.folded.elements
        with into.when_always({**bindings, self.node.result: result}):
            made = into.emit((*self.epilogue, *elements), named=True)
            if self.folded is not None:
                self.folded.add(into, u, made[len(self.epilogue) :])
            return made[: len(self.epilogue)]

    def _one_by_one(self, into: Linearizer, row: Expr, col: Expr) -> None:
        """Loops over an array of the sums, with one copy of the epilogue."""
        down, across = self._down(), self._across()
        (kept,) = self.builder.local("kept", [self.type], down * across)
        for u in range(down):
            into.append(*(ir.Store(kept, constant(u * across + v), s)
                          for v, s in enumerate(self.sums[u])))  # fmt: skip

        def offset(side: int, number: Expr) -> Expr:
            width = self.widths[side]
            group = number // width * (LANES[side] * width)
            return group + number % width

        with into.loop("u", 0, down) as du, into.loop("v", 0, across) as dv:
            i = into.let(row + offset(0, du), "i")
            j = into.let(col + offset(1, dv), "j")
            with into.when(at.both(at.less(i, self.m), at.less(j, self.n))):
                self.builder.stays_below(i, self.node.m)
                self.builder.stays_below(j, self.node.n)
                total = ir.Load(kept, du * across + dv)
                self._store_element(into, i, j, total)


class _TensorMatmul(Product):
    """On tensor cores: a thread has two rows and columns of each 16 × 8 tile (`WarpProduct`)."""

    tensor = True

    def __init__(self, builder: Builder, node: Matmul) -> None:
        super().__init__(builder, node)
        if self.folded is not None:
            return
        length, parts = parts_along(node.batch, (node.m, node.k, node.n))
        self.length, self.parts = builder.scalar(length, "length"), builder.scalar(parts, "parts")
        self.host_parts = parts
        if self.stored is not None:
            self.stored.keep_parts(parts)
        size = at.product((at.select(at.less(1, parts), parts, 0), *self._whole()))
        (self.partials,) = builder.scratch(
            "partials", [self.type], builder.scalar(size, "partials")
        )

    def _whole(self) -> tuple[Expr, ...]:
        return (*self.node.batch, self.node.m, self.node.n)

    def _inner(self, into: Linearizer) -> tuple[Expr, Expr]:
        if self.folded is not None:
            return super()._inner(into)
        begin = into.let(self.part * self.length, "begin")
        return begin, at.minimum(self.length, self.k - begin)

    def _multiply(self, into: Linearizer, half: Expr) -> None:
        row, q = self.within
        bases = [
            into.let(half * f.size + f.place(start + row, q), "base")
            for f, start in zip(self.fetches, self.starts, strict=True)
        ]  # fmt: skip

        def element(side: int, offset: int, k: Expr) -> Expr:
            where = bases[side] + self.fetches[side].place(constant(offset), k)
            return into.let(ir.Load(self.halves[side], where), "ab"[side])

        with into.loop("k", 0, self.tile.depth, "unrolled", step=DEEP) as k:
            ks = k, k + DEEP // 2
            columns = [tuple(element(1, 8 * c, x) for x in ks) for c in range(self._across() // 2)]
            for r in range(0, self._down(), 2):
                rows = tuple(element(0, 8 * u, x) for x in ks for u in (r, r + 1))
                for c, column in enumerate(columns):
                    sums = [self.sums[u][2 * c + v] for u in (r, r + 1) for v in range(2)]
                    made = tuple(Var("sums", self.type) for _ in sums)
                    into.append(ir.WarpProduct(made, tuple(sums), rows, column))
                    into.append(*(ir.Assign(x, y) for x, y in zip(sums, made, strict=True)))

    def _finish(self, into: Linearizer, vector: bool) -> None:
        if self.folded is not None:
            super()._finish(into, vector)
            return
        alone = at.less(self.parts, 2)
        with into.when(alone):
            super()._finish(into, vector)
        with into.otherwise(alone):
            self._keep(into, vector)

    def _keep(self, into: Linearizer, vector: bool) -> None:
        """Store the sums of a part of k."""
        row = into.let(self.row0 + self.position[0], "first_row")
        col = into.let(self.col0 + self.position[1], "first_col")
        extents, kept = (self.parts, *self._shape()), self.partials
        for u, sums in enumerate(self.sums):
            i = into.let(row + self.offset(0, u), "i")
            with into.when(at.less(i, self.m)):
                for v in range(0, len(sums), 2):
                    j = into.let(col + self.offset(1, v), "j")
                    where = at.linear((self.part, *self.batch, i, j), extents)
                    pair = tuple(sums[v : v + 2])
                    if vector:
                        with into.when(at.less(j, self.n)):
                            into.append(ir.StoreVector(kept, where, pair))
                        continue
                    for w, value in enumerate(pair):
                        with into.when(at.less(j + w, self.n)):
                            into.append(ir.Store(kept, where + w, value))

    def after(self) -> Sequence[ir.Kernel]:
        """The kernel that adds the parts of each element, in order."""
        if self.folded is not None:
            return super().after()
        lines = (
            () if self.stored is None else (self.stored.after("parts along k of what is folded"),)
        )
        builder, grid, into = self.builder, common.Threads.of(256), self.builder.emitter()
        whole = self._whole()
        count = builder.scalar(at.product(whole), "elements")
        place = into.let(grid.ident, "place")
        with into.when(at.less(place, count)):
            *batch, i, j = tiling.coordinates(builder, into, place, whole, "i")
            self.batch = tuple(batch)
            total = into.declare(zero(self.type), "total")
            with into.loop("part", 0, self.parts) as part:
                where = part * count + place
                added = into.let(ir.Load(self.partials, where), "part_of")
                summed = Apply(primitive("add"), (total, added), self.type)
                into.append(ir.Assign(total, summed))
            self.builder.stays_below(i, self.node.m)
            self._store_element(into, i, j, total)
        tasks = at.select(at.less(1, self.parts), at.ceil_div(count, grid.count), 0)
        made = builder.kernel("parts", tasks, grid.task, tuple(into.out),
                              comments=("parts along k, in order",), **grid.launch())  # fmt: skip
        return made, *lines
