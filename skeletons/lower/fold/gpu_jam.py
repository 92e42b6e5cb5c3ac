"""Folds whose elements run a loop: a tile of elements is computed at once and folded immediately.

    argmin over j of Σₖ (x[i, k] − y[j, k])²        (nearest neighbours, products folded away, …)
      columns of the tile, from the left:
        every DEPTH iterations: rows and columns that the loops read go to shared memory
          each iteration:       state[u, v] = body(state[u, v], x[u], y[v])
        total[u] = combine(total[u], element(state[u, v])), v from the left
      finally, the lanes of a row are combined

Computed separately, an element takes as many reads as operations.  A thread with a tile of `rows` ×
`cols` reads each row and column once for the whole tile, and a block loads them from memory once.
The operations of each element and their order do not change.  If grouping cannot change the result,
tiles are about square.  Floating-point reductions are grouped as when a row is folded alone
(`gpu_row_folder.py`): a row has the same number of lanes, and a thread has a total for each of its
columns.  Rows and columns beyond the array repeat the last ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Protocol

from treadle.dsl import expr as ex, simplify
from treadle.dsl.analysis.combines import SHORT_ROW, argument_of, argument_passes, independent_parts
from treadle.dsl.expr import Expr
from treadle.dsl.graph import Fold
from treadle.dsl.records import dataclass
from treadle.dsl.types import int32, int64

from ...ir import arithmetic as at
from ...ir.kernel import Barrier, Buffer, Kernel, Load, LoadVector, Store
from ...ir.linearize import Linearizer
from .. import tiling, transform
from ..build import Builder
from ..combining import accumulate, declare, get, put, store_group
from ..gpu.collectives import is_exact, neutral_of, reduce_warp, tree
from ..gpu.common import WARP, WIDEST, Threads, coefficient, unconditional, vector_count
from .gpu_short import fold_line
from .rows import RowFold, is_pinned, runs_across

#: Threads of a block; blocks requested per multiprocessor.
THREADS, RESIDENT = 256, 2
#: Blocks per resident block for which rows are split into parts; tiles of a part.
WAVES, LEAST = 4, 4
#: Minimum rows, columns and elements for which tiles are filled well enough.
LEAST_ROWS, LEAST_COLUMNS, LEAST_ELEMENTS = 64, 16, 1 << 18
#: Bytes of the states of all jammed loops of a thread with the totals of its rows, and of the data
#: that a block stages.
MOST_STATE, MOST_REGISTERS, MOST_SHARED = 256, 384, 48 << 10
#: Idempotent operators: an element may be combined twice.
_IDEMPOTENT = ("minimum", "maximum", "fmin", "fmax", "logical_and", "logical_or", "bitwise_and",
               "bitwise_or")  # fmt: skip


class RowSplit(Protocol):
    """The values of the row assignment (`gpu_rows.py`) that tiles follow, as kernel scalars: lanes
    of a row in a floating-point reduction, parts of a row, columns of a part."""

    @property
    def lanes(self) -> Expr: ...
    @property
    def parts(self) -> Expr: ...
    @property
    def span(self) -> Expr: ...


@dataclass(frozen=True)
class Tile:
    """`lanes` threads across, with `rows` × `cols` elements each, `depth` iterations at a time.

    `sequential`: for rows that are folded from the left, each by one thread.
    """

    lanes: int
    rows: int
    cols: int
    depth: int
    sequential: bool = False

    @property
    def down(self) -> int:
        """Rows of a block."""
        return THREADS // self.lanes * self.rows

    @property
    def across(self) -> int:
        """Columns of a block."""
        return self.lanes * self.cols


#: Lanes of a row if grouping cannot change the result, for many columns and for few.
LANES = (16, 8, 4)
#: Lanes of a row if grouping can change the result (`gpu_rows.py`: a power of two, at least 8).
ROUNDED_LANES = (256, 128, 64, 32, 16, 8)
#: Loads of a thread in flight at once.
SHARES = 8
#: Iterations staged at a time, if shared memory suffices.
DEPTH = 16


@dataclass(frozen=True)
class _Operand:
    """A read in the loop along the rows or the columns of a tile, and its staging location:
    `buffer[iteration][line]`, `width` lines per access."""

    read: ex.Read
    of_rows: bool
    width: int
    buffer: Buffer
    registers: Buffer

    def pitch(self, tile: Tile) -> int:
        return (tile.down if self.of_rows else tile.across) + WIDEST // self.read.type.bytes


def tiled(node: Fold) -> Expr:
    """The host condition on extents under which tiles are full enough and column numbers fit their
    type."""
    rows, count = node.outer[-1], node.inner[0]
    least = LEAST_COLUMNS
    if not is_exact(node.combine):  # no tile has so few lanes per row
        vector = vector_count(r.type for r in node.combine.results)
        least = max(least, ROUNDED_LANES[-1] // 2 * vector + 1)
    return at.both(
        at.less_equal(LEAST_ROWS, rows), at.less_equal(least, count),
        at.less_equal(LEAST_ELEMENTS, rows * count), at.less(count, 1 << 31),
    )  # fmt: skip


class JammedFold:
    """The kernels of a fold over tiles, valid for extents that satisfy `when`."""

    def __init__(self, builder: Builder, node: Fold, loop: ex.Loop) -> None:
        self.builder, self.node, self.loop, self.combine = builder, node, loop, node.combine
        self.roots = transform.resolve(node.elements, builder, (*node.outer, *node.inner))
        rank = len(node.outer)
        self.row, self.column = ex.Index(rank - 1), ex.Index(rank)
        self.better = argument_of(node.combine)
        self.rows, self.count = node.outer[-1], node.inner[0]
        self.planes = at.product(node.outer[:-1])
        self.exact = is_exact(node.combine)
        self.unit = self._unit()

    @classmethod
    def of(cls, builder: Builder, node: Fold) -> JammedFold | None:
        """None if `node` cannot be folded this way."""
        if len(node.inner) != 1 or not node.outer or builder.context.check:
            return None
        if tiling.schedule_of(builder) is not None or (
            runs_across(node) and not is_pinned(node) and not is_exact(node.combine)
        ):
            return None
        loops = [
            e for e in ex.walk(node.elements) if isinstance(e, ex.Loop | ex.While | ex.Foreign)
        ]
        if len(loops) != 1 or not isinstance(loops[0], ex.Loop):
            return None
        made = cls(builder, node, loops[0])
        return made if made._possible() else None

    def _possible(self) -> bool:
        loop = self.loop
        if neutral_of(self.combine) is None or loop not in unconditional(self.roots):
            return False
        if not all(
            isinstance(e, ex.Const | ex.Extent | ex.Param | ex.Apply)
            for e in ex.walk((loop.count,))
        ):
            return False
        if self.better is not None and any(isinstance(e, ex.Read | ex.Loop) for e in ex.walk(
                self.roots[1:])):  # fmt: skip
            return False
        sides = [of_rows for _, of_rows in self._staged()]
        return self.unit != (0, 0) and True in sides and False in sides

    def _unit(self) -> tuple[int, int]:
        """The largest rows × columns of a thread that fit its registers; (0, 0) if none fit."""
        types = [r.type for r in self.combine.results]
        state = sum(v.type.bytes for v in self.loop.vars[1:])
        total = sum(t.bytes for t in types)
        if not self.exact:
            units = [(r, vector_count(types)) for r in (8, 4)]
            return next((u for u in units if u[0] * u[1] * (state + total) <= MOST_STATE), (0, 0))
        units = [(8, 8), (8, 4), (4, 4)]
        return next((u for u in units if u[0] * u[1] * state <= MOST_STATE
                     and u[0] * (u[1] * state + total) <= MOST_REGISTERS), (0, 0))  # fmt: skip

    def _staged(self) -> list[tuple[ex.Read, bool]]:
        """The reads of every loop iteration that depend only on rows (True), or only on columns."""
        index, *state = self.loop.vars
        found = []
        for e in unconditional(self.loop.scoped):
            if not isinstance(e, ex.Read) or e.boundary is not None:
                continue
            inside = set(ex.walk(e.args))
            of_rows, of_columns = self.row in inside, self.column in inside
            if index in inside and inside.isdisjoint(state) and of_rows != of_columns:
                found.append((e, of_rows))
        return found

    # --- assignment of elements ---

    @property
    def tiles(self) -> list[Tile]:
        """The tiles to choose from, the widest first."""
        lanes = LANES if self.exact else [n for n in ROUNDED_LANES if n <= THREADS]
        return [self._deepest(Tile(n, *self.unit, DEPTH)) for n in lanes]

    def _deepest(self, tile: Tile) -> Tile:
        """The tile with as many iterations at a time as fit in shared memory."""
        line = sum((tile.down if of_rows else tile.across) * e.type.bytes + WIDEST
                   for e, of_rows in self._staged())  # fmt: skip
        room, depth = MOST_SHARED, DEPTH
        if tile.sequential:
            lines = tile.down * (tile.across + tile.cols)
            room -= lines * sum(r.type.bytes for r in self.combine.results)
        while depth > 1 and depth * line > room:
            depth //= 2
        return replace(tile, depth=depth)

    @property
    def when(self) -> Expr:
        """The condition on extents under which tiles pay off."""
        return tiled(self.node)

    def _chosen(self, values: Sequence[int]) -> Expr:
        """Selects from per-tile values the one of the tile in use: the widest that is full."""
        found: Expr = at.integer(values[-1])
        for tile, value in list(zip(self.tiles, values, strict=True))[-2::-1]:
            found = at.select(at.less(tile.across // 2, self.count), value, found)
        return found

    @property
    def span(self) -> Expr:
        """Columns of a part."""
        across = self._chosen([t.across for t in self.tiles])
        tiles = self.planes * at.ceil_div(
            self.rows, self._chosen([t.down for t in self.tiles]))  # fmt: skip
        blocks = self.builder.context.processors * RESIDENT * WAVES
        most = at.minimum(blocks // at.maximum(tiles, 1),
                          self.count // (across * LEAST))  # fmt: skip
        share = at.ceil_div(self.count, at.maximum(most, 1))
        return at.maximum(at.ceil_div(share, across) * across, 1)

    # --- the kernel ---

    def kernels(self, fold: RowFold, split: RowSplit, fallback: Kernel) -> Kernel:
        """One variant per tile, of which the first that fits runs; `fallback` unless `when`."""
        self.fold, self.split = fold, split
        self.parts = split.parts
        self.builder.notes.append(
            f"over tiles from {LEAST_ROWS} rows, {LEAST_COLUMNS} columns and {LEAST_ELEMENTS:,} "
            "elements on, else row by row"
        )
        for tile in self.tiles[::-1]:
            fallback = self._kernel(tile, fallback)
        return fallback

    def sequential(self, fold: RowFold, split: RowSplit, fallback: Kernel) -> Kernel:
        """The variant for short rows of floating-point reductions, with the fallback for extents
        that do not satisfy `when`."""
        self.fold, self.split, self.parts = fold, split, split.parts
        return self._kernel(
            self._deepest(Tile(ROUNDED_LANES[-1], *self.unit, DEPTH, True)), fallback
        )

    def _kernel(self, tile: Tile, fallback: Kernel) -> Kernel:
        builder, grid = self.builder, Threads.of(THREADS)
        into = builder.emitter()
        self.tile, self.grid = tile, grid
        self.operands = self._operands()
        self.n_rows, self.n_count = builder.extent(self.rows), builder.extent(self.count)
        planes = builder.scalar(self.planes, "planes")
        down = at.ceil_div(self.rows, tile.down)
        which = (planes, self.parts, builder.scalar(down, "tiles_down"))
        names = ("plane", "part", "tile")
        plane, part, number = (into.let(c, name) for c, name in zip(
            at.row_major(grid.task, which), names, strict=True))  # fmt: skip
        self.lane = into.let(grid.thread % tile.lanes, "lane")
        self.row0 = into.let(number * tile.down, "row0")
        self.group = into.let(grid.thread // tile.lanes * tile.rows,
                              "own_row")  # fmt: skip
        at_plane = tiling.coordinates(builder, into, plane, self.node.outer[:-1])
        self.start, self.stop = tiling.block_range(
            into, "part", part, self.split.span, self.n_count)  # fmt: skip
        with into.when_always({ex.Index(k): c for k, c in enumerate(at_plane)}):
            if tile.sequential:
                self._fold_sequentially(into, at_plane)
            else:
                self._fold(into)
                self._finish(into, at_plane, plane, part)
        requires = [builder.scalar(self.when, "tiled")]
        if tile.sequential:
            requires.append(at.less(self.n_count, SHORT_ROW))
        elif not self.exact:
            requires += [at.less_equal(SHORT_ROW, self.n_count),
                         at.equal(self.split.lanes, tile.lanes)]  # fmt: skip
        elif tile != self.tiles[-1]:
            requires.append(at.less(tile.across // 2, self.n_count))
        tasks = at.product((planes, self.parts, which[2]))
        comment = (f"tiles of {tile.down} × {tile.across} elements, {tile.rows} × {tile.cols} "
                   f"a thread, {tile.depth} iterations at a time")  # fmt: skip
        return self.fold.kernel("tiles", tasks, grid.task, into, comment,
                           **grid.launch(requires, (), fallback, RESIDENT))  # fmt: skip

    def _operands(self) -> list[_Operand]:
        tile, builder, found = self.tile, self.builder, []
        staged = self._staged()
        for read, of_rows in staged:
            own, span = (tile.rows, tile.down) if of_rows else (tile.cols, tile.across)
            width = min(own, *(WIDEST // e.type.bytes for e, side in staged if side == of_rows))
            name = "rows" if of_rows else "columns"
            size = tile.depth * (span + WIDEST // read.type.bytes)
            (buffer,) = builder.shared(name, [read.type], size)
            (registers,) = builder.local("x" if of_rows else "y", [read.type], own)
            found.append(_Operand(read, of_rows, width, buffer, registers))
        return found

    def _offset(self, v: Expr) -> Expr:
        """The distance from a thread's first column to its column `v` (lanes interleave)."""
        width = self.width
        group = v // width * (width * self.tile.lanes)
        return group + v % width

    def _fold(self, into: Linearizer) -> None:
        """All columns of the part, into `best` (and `number`, the best's distance from the first
        column of the thread)."""
        builder, tile = self.builder, self.tile
        types = [r.type for r in self.combine.results]
        neutral = neutral_of(self.combine)
        assert neutral is not None
        totals = tile.rows if self.exact else tile.rows * tile.cols
        self.best = builder.local("best" if self.better else "total",
                                  types[: 1 if self.better else None], totals)  # fmt: skip
        (self.number,) = builder.local("number", [int32], tile.rows)
        with into.loop("u", 0, totals, "unrolled") as u:
            put(into, self.best, u, neutral[: len(self.best)])
            if self.better is not None:
                into.append(Store(self.number, u, ex.Const(0, int32)))
        with (
            self._tiles(into) as (_, passed),
            self._each(into) as (u, v),
            self._at(into, passed, u, v, {}),
        ):
            self._combine(into, passed, u, v, neutral)

    @contextmanager
    def _tiles(self, into: Linearizer) -> Iterator[tuple[Expr, Expr]]:
        """The tiles of the part, from the left, after their loops ran: yields the first column of
        each and the number of tiles before it."""
        builder, tile = self.builder, self.tile
        self.width = next(o.width for o in self.operands if not o.of_rows)
        self.first = into.let(self.start + self.lane * self.width, "first")
        names = [v.name for v in self.loop.vars[1:]]
        self.state = [builder.local(name, [v.type], tile.rows * tile.cols)[0]
                      for name, v in zip(names, self.loop.vars[1:], strict=True)]  # fmt: skip
        with into.loop("from", self.start, self.stop, step=tile.across) as begin:
            passed = into.let(begin - self.start, "passed")
            with self._each(into) as (u, v), self._at(into, passed, u, v, {}):
                put(into, self.state, self._slot(u, v), into.emit(self.loop.args[1:]))
            self._iterations(into, begin, passed)
            yield begin, passed

    def _fold_sequentially(self, into: Linearizer, at_plane: Sequence[Expr]) -> None:
        """Pass rows of the tile through shared memory; one thread folds each from the left."""
        builder, tile, thread = self.builder, self.tile, self.grid.thread
        types = [r.type for r in self.combine.results]
        neutral = neutral_of(self.combine)
        assert neutral is not None
        width = next(o.width for o in self.operands if not o.of_rows)
        pitch = tile.across + width  # an odd number of vectors avoids bank conflicts
        lines = builder.shared("line", types, tile.down * pitch)
        values = builder.local("value", types, tile.rows * tile.cols)
        total = declare(into, neutral)
        mine = ex.TRUE if tile.down == THREADS else at.less(thread, tile.down)
        with self._tiles(into) as (begin, passed):
            with self._each(into) as (u, v), self._at(into, passed, u, v, {}):
                put(into, values, self._slot(u, v), self._element(into, passed, u, v, neutral))
            with into.loop("u", 0, tile.rows, "unrolled") as u:
                line = (self.group + u) * pitch
                line = into.let(line + self.lane * width, "line")
                for n in range(0, tile.cols, width):
                    slots = [self._slot(u, at.integer(n + k)) for k in range(width)]
                    where = line + self._offset(at.integer(n))
                    store_group(into, lines, where, [get(into, values, slot) for slot in slots])
            into.append(Barrier())
            here = at.minimum(self.stop - begin, tile.across)
            with into.when(mine):
                start, vectors = thread * pitch, at.ceil_div(here, width)
                fold_line(into, self.combine, total, lines, start, vectors, width)
            into.append(Barrier())
        row = into.let(self.row0 + thread, "row")
        with into.when(at.both(mine, at.less(row, self.n_rows))):
            self.fold.finish(into, (*at_plane, row), total, self.n_count)

    def _element(self, into: Linearizer, passed: Expr, u: Expr, v: Expr, neutral: Sequence[Expr]
                 ) -> Sequence[Expr]:  # fmt: skip
        """Element (u, v); the neutral one beyond the last column unless combining twice is safe."""
        self._bind(into, u, v)
        values = into.emit(self.roots, named=True)
        if self._idempotent():
            return values
        column = self.first + passed + self._offset(v)
        inside = into.let(at.less(column, self.stop), "inside")
        return tuple(simplify.select(inside, x, n) for x, n in zip(values, neutral, strict=True))

    def _bind(self, into: Linearizer, u: Expr, v: Expr) -> None:
        """The results of the loop of element (u, v)."""
        slot = self._slot(u, v)
        into.bind({e: Load(self.state[e.which], slot) for e in ex.walk(self.roots)
                   if isinstance(e, ex.Proj) and e.args[0] is self.loop})  # fmt: skip

    def _each(self, into: Linearizer) -> _Each:
        return _Each(into, self.tile)

    def _slot(self, u: Expr, v: Expr) -> Expr:
        return u * self.tile.cols + v

    def _at(self, into: Linearizer, passed: Expr, u: Expr, v: Expr,
            known: Mapping[Expr, Expr]) -> AbstractContextManager[None]:  # fmt: skip
        """A scope in which the indices are those of element (u, v) of the thread."""
        row = at.minimum(self.row0 + self.group + u, self.n_rows - 1)
        column = self.first + passed + self._offset(v)
        column = at.minimum(column, self.stop - 1)
        return into.when_always({self.row: row, self.column: column, **known})

    def _iterations(self, into: Linearizer, begin: Expr, passed: Expr) -> None:
        """The loops of the tile from column `begin` on, in `state`."""
        tile = self.tile
        count = into.let(into.value(self.loop.count), "iterations")
        index, *state = self.loop.vars
        with into.loop("k0", 0, count, step=tile.depth) as k0:
            into.append(Barrier())
            again = at.either(at.equal(passed, 0), at.less(tile.depth, count))
            with into.when(again):
                self._stage(into, True, self.row0, self.n_rows - 1, k0, count)
            self._stage(into, False, begin, self.stop - 1, k0, count)
            into.append(Barrier())
            here = into.let(at.minimum(count - k0, tile.depth), "here")
            with into.loop("k", 0, here) as k:
                known: dict[Expr, Expr] = {index: simplify.cast(k0 + k, index.type)}
                for o in self.operands:
                    self._take(into, o, k)
                with self._each(into) as (u, v):
                    for o in self.operands:
                        known[o.read] = Load(o.registers, u if o.of_rows else v)
                    slot = self._slot(u, v)
                    state_values = get(into, self.state, slot)
                    known.update(zip(state, state_values, strict=True))
                    with self._at(into, passed, u, v, known):
                        put(into, self.state, slot,
                            into.emit(self.loop.scoped, named=len(state) > 1))  # fmt: skip

    def _stage(self, into: Linearizer, of_rows: bool, first: Expr, last: Expr, k0: Expr,
               count: Expr) -> None:  # fmt: skip
        """Stage the rows, or columns, of the tile for iterations from `k0`; lanes follow memory."""
        tile, thread = self.tile, self.grid.thread
        span = tile.down if of_rows else tile.across
        index = self.loop.vars[0]
        for o in self.operands:
            if o.of_rows != of_rows:
                continue
            by_lines = coefficient(o.read.args[-1], index) not in (1, -1)
            shares = -(-span * tile.depth // THREADS)
            side = self.row if of_rows else self.column
            several = into.loop("share", 0, shares, step=SHARES)
            with (
                several if shares > SHARES else nullcontext(at.integer(0)) as share,
                into.loop("q", 0, min(SHARES, shares), "unrolled") as q,
            ):
                number = thread + (share + q) * THREADS
                number = into.let(number, "number")
                by = span if by_lines else tile.depth
                line, iteration = number // by, number % by
                line, iteration = (iteration, line) if by_lines else (line, iteration)
                line, iteration = into.let(line, "line"), into.let(iteration, "iteration")
                whole = span * tile.depth % (THREADS * min(SHARES, shares)) == 0
                with into.when(ex.TRUE if whole else at.less(number, span * tile.depth)):
                    here = into.let(at.minimum(k0 + iteration, count - 1), "k")
                    position = into.let(at.minimum(first + line, last), "position")
                    with into.when_always({index: simplify.cast(here, index.type), side: position}):
                        where = iteration * o.pitch(tile) + line
                        into.append(Store(o.buffer, where, into.value(o.read)))

    def _take(self, into: Linearizer, o: _Operand, k: Expr) -> None:
        """Load the values that iteration `k` of a thread reads from shared memory to registers."""
        tile = self.tile
        own = tile.rows if o.of_rows else tile.cols
        base = self.group if o.of_rows else self.lane * o.width
        base = k * o.pitch(tile) + base
        distance = o.width if o.of_rows else o.width * tile.lanes
        for n in range(own // o.width):
            names = tuple(ex.Var("x" if o.of_rows else "y", o.read.type) for _ in range(o.width))
            into.append(LoadVector(names, o.buffer, base + n * distance))
            into.append(*(Store(o.registers, at.integer(n * o.width + m), x)
                          for m, x in enumerate(names)))  # fmt: skip

    def _combine(self, into: Linearizer, passed: Expr, u: Expr, v: Expr,
                 neutral: Sequence[Expr]) -> None:  # fmt: skip
        """Combine element (u, v) into the total of its row."""
        if self.better is not None:
            self._bind(into, u, v)
            value = into.value(self.roots[0], "value")
            (old,) = get(into, self.best, u)
            passes = into.let(argument_passes(self.better, old, value), "passes")
            position = simplify.cast(passed + self._offset(v), int32)
            into.append(Store(self.best[0], u, simplify.select(passes, value, old)))
            into.append(Store(self.number, u,
                              simplify.select(passes, position, Load(self.number, u))))  # fmt: skip
            return
        values = self._element(into, passed, u, v, neutral)
        own = u if self.exact else self._slot(u, v)
        total = declare(into, get(into, self.best, own))
        accumulate(into, self.combine, total, values)
        put(into, self.best, own, total)

    def _idempotent(self) -> bool:
        return all(
            argument_of(one) is not None
            or all(isinstance(r, ex.Apply) and r.op.name in _IDEMPOTENT for r in one.results)
            for _, one in independent_parts(self.combine)
        )

    def _finish(self, into: Linearizer, at_plane: Sequence[Expr], plane: Expr, part: Expr) -> None:
        """Combine the lanes of a row; the result of the row or of its part."""
        tile = self.tile
        warps = -(-tile.lanes // WARP)
        totals = self.builder.shared("warp_total", [r.type for r in self.combine.results],
                                   tile.rows * THREADS // WARP)  # fmt: skip
        lane = self.lane if warps == 1 else into.let(self.lane % WARP, "in_warp")
        warp = self.grid.thread // WARP

        def store(u: Expr, total: Sequence[ex.Var]) -> None:
            row = into.let(self.row0 + self.group + u, "row")
            with into.when(at.both(at.equal(self.lane, 0), at.less(row, self.n_rows))):
                line = plane * self.n_rows + row
                where = line * self.parts + part
                self.fold.finish_or_keep(
                    into, (*at_plane, row), total, self.n_count, self.parts, where
                )

        with into.loop("u", 0, tile.rows, "unrolled") as u:
            total = self._of_thread(into, u)
            reduce_warp(into, self.combine, total, lane, min(tile.lanes, WARP))
            if warps == 1:
                store(u, total)
            else:
                with into.when(at.equal(lane, 0)):
                    put(into, totals, u * (THREADS // WARP) + warp, total)
        if warps == 1:
            return
        into.append(Barrier())
        with into.when(at.less(self.lane, WARP)), into.loop("u", 0, tile.rows, "unrolled") as u:
            slot = warp + at.minimum(lane, warps - 1)
            slot = u * (THREADS // WARP) + slot
            total = declare(into, get(into, totals, slot))
            reduce_warp(into, self.combine, total, lane, warps)
            store(u, total)

    def _of_thread(self, into: Linearizer, u: Expr) -> tuple[ex.Var, ...]:
        """The total of a thread for its row `u`."""
        if not self.exact:
            cols = range(self.tile.cols)
            own = [declare(into, get(into, self.best, self._slot(u, at.integer(v)))) for v in cols]
            return tree(into, self.combine, own)
        found = list(get(into, self.best, u))
        if self.better is not None:
            column = self.first + simplify.cast(Load(self.number, u), int64)
            column = at.minimum(column, self.stop - 1)
            with into.when_always({self.column: into.let(column, "column")}):
                found.append(into.value(self.roots[1]))
        return declare(into, found)


class _Each:
    """Loops over the elements of a thread, unrolled by the compiler."""

    def __init__(self, into: Linearizer, tile: Tile) -> None:
        self.loops = (into.loop("u", 0, tile.rows, "unrolled"),
                      into.loop("v", 0, tile.cols, "unrolled"))  # fmt: skip

    def __enter__(self) -> tuple[ex.Var, ex.Var]:
        return self.loops[0].__enter__(), self.loops[1].__enter__()

    def __exit__(self, *error: object) -> None:
        self.loops[1].__exit__(*error)  # type: ignore[arg-type]
        self.loops[0].__exit__(*error)  # type: ignore[arg-type]
