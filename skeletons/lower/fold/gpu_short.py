"""Short rows of a floating-point reduction, folded from the left like a loop.

    loads      `lanes` adjacent threads load a row, all loads first
    shared     a line for each row of the block
    results    one thread per row folds its elements in sequence

A kernel that stores such folds therefore agrees bit for bit with a loop inside a kernel that
consumes them (`gpu_jam.py`).  If a row has only a few lanes, shuffles pass the totals on instead
(`gpu_rows.py`).  For adjacent columns, a thread folds its own columns from the top
(`gpu_columns.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from treadle.dsl.analysis.combines import SHORT_ROW
from treadle.dsl.expr import FALSE, Expr, Index, Var
from treadle.dsl.graph import Combine, Fold

from ...ir import arithmetic as at
from ...ir.kernel import Barrier, Buffer, Kernel, LoadVector
from ...ir.linearize import Linearizer
from .. import tiling
from ..combining import Values, accumulate, declare, get, put, store_group
from ..gpu.collectives import is_exact, neutral_of
from ..gpu.common import Threads
from ..gpu.orders import leaf
from .gpu_row_folder import RowElements, heavy_loops

if TYPE_CHECKING:
    from .gpu_rows import RowsFold

#: Maximum lanes that pass totals by shuffles: rows of more vectors use lines.
FEW_LANES = 8
#: Vectors that a thread loads at once, of all components together; of single elements.
VECTORS, SINGLE = 4, 8


def sequential(node: Fold) -> Expr:
    """The host condition on extents under which elements are folded in sequence."""
    if not node.outer or neutral_of(node.combine) is None or is_exact(node.combine):
        return FALSE
    return at.less(at.product(node.inner), SHORT_ROW)


def fold_line(into: Linearizer, combine: Combine, total: Sequence[Var], lines: Sequence[Buffer],
              start: Expr, vectors: Expr, width: int) -> None:  # fmt: skip
    """Combine the elements of a line from `start` on, in sequence, into `total`."""
    with into.loop("q", 0, vectors) as q:
        loaded = []
        for buffer in lines:
            names = tuple(Var("x", buffer.type) for _ in range(width))
            into.append(LoadVector(names, buffer, start + q * width))
            loaded.append(names)
        for values in zip(*loaded, strict=True):
            accumulate(into, combine, total, values)


class ShortRows:
    """The kernel of a `RowsFold` for rows of fewer than SHORT_ROW elements, in blocks of
    `threads`."""

    def __init__(self, fold: RowsFold, when: Expr, threads: int) -> None:
        builder = fold.builder
        self.fold, self.builder, self.threads = fold, builder, threads
        self.types = [r.type for r in fold.combine.results]
        self.vector = vector = fold.elements.count
        widest = max(t.bytes for t in self.types)
        per_thread = VECTORS if vector > 1 else SINGLE
        self.per_thread = max(per_thread * widest // sum(t.bytes for t in self.types), 1)
        neutral = neutral_of(fold.combine)
        assert neutral is not None
        self.neutral: Values = neutral
        width = 1
        while width * vector < SHORT_ROW - 1:
            width *= 2
        lanes: Expr = at.integer(width)
        most = threads * self.per_thread * vector
        while width > 1:
            width //= 2
            lanes = at.select(at.less_equal(fold.count, width * vector), width, lanes)
        side = threads // lanes
        each = side * self.per_thread
        numbers = fold.rows if fold.visits is None else fold.visits.total_host
        # An odd number of vectors per line: threads that read the same column avoid bank conflicts.
        vectors = at.minimum(at.ceil_div(fold.count, vector), SHORT_ROW)
        pitch = (vectors + (1 - vectors % 2)) * vector
        names = ("lanes", "side", "each", "vectors", "pitch", "count", "rows", "short_blocks")
        hosts = (lanes, side, each, vectors, pitch, fold.count, fold.rows,
                 at.select(when, at.ceil_div(numbers, each), 0))  # fmt: skip
        (self.lanes, self.side, self.each, self.vectors, self.pitch, self.count, self.rows,
         self.tasks) = map(builder.scalar, hosts, names)  # fmt: skip
        #: A line is at most one vector longer than its row, which has more than FEW_LANES vectors.
        self.lines = builder.shared("line", self.types, most + most // FEW_LANES)

    def kernel(self, elements: RowElements, fallback: Kernel | None) -> Kernel:
        builder, grid = self.builder, Threads.of(self.threads)
        into = builder.emitter()
        lane = into.let(grid.thread % self.lanes, "lane")
        group = into.let(grid.thread // self.lanes, "group")
        base = into.let(grid.task * self.each, "base")
        row = builder.local("row", self.types, self.per_thread * self.vector)
        self._load(into, elements, base, group, lane, row)
        self._stage(into, elements, group, lane, row)
        into.append(Barrier())
        with into.loop("line", grid.thread, self.each, step=self.threads) as line:
            self._row(into, base, line)
        gpu = grid.launch(elements.requires if elements.wide else (), elements.aligned, fallback)
        return self.fold.kernel("short", self.tasks, grid.task, into,
                                "short rows, each from the left", **gpu)  # fmt: skip

    def _unrolled(self, into: Linearizer, name: str, count: int) -> AbstractContextManager[Var]:
        kind = "serial" if heavy_loops(self.fold.elements.roots) else "unrolled"
        return into.loop(name, 0, count, kind)

    def _first(self, elements: RowElements, lane: Expr, m: Expr | int) -> Expr:
        """Element `m` of a thread: neighbours of a vector, else of the next lanes."""
        if elements.wide:
            return lane * self.vector + m
        return lane + self.lanes * m

    def _load(self, into: Linearizer, elements: RowElements, base: Expr, group: Expr, lane: Expr,
              row: Sequence[Buffer]) -> None:  # fmt: skip
        """Load the elements of a thread, row by row; neutral beyond a row."""
        v = self.vector
        with self._unrolled(into, "iteration", self.per_thread) as iteration:
            number = base + (group + self.side * iteration)
            at_row, _ = self._row_at(into, number)
            slot = into.let(iteration * v, "slot")
            with into.when_always({Index(k): c for k, c in enumerate(at_row)}):
                if elements.wide:
                    for m in range(v):
                        put(into, row, slot + m, self.neutral)
                    first = into.let(self._first(elements, lane, 0), "first")
                    with into.when(at.less(first, self.count)):
                        (found,) = elements.vectors(into, [first])
                        for m, value in enumerate(found):
                            put(into, row, slot + m, value)
                else:
                    with self._unrolled(into, "m", v) as other:
                        target = into.let(slot + other, "position")
                        put(into, row, target, self.neutral)
                        k = into.let(self._first(elements, lane, other), "k")
                        with into.when(at.less(k, self.count)):
                            put(into, row, target, elements.one(into, k))

    def _stage(self, into: Linearizer, elements: RowElements, group: Expr, lane: Expr,
               row: Sequence[Buffer]) -> None:  # fmt: skip
        """Store the loaded elements to the lines of their rows; neutral elements fill the last
        vector."""
        v = self.vector
        with into.loop("iteration", 0, self.per_thread, "unrolled") as iteration:
            line = (group + self.side * iteration) * self.pitch
            line = into.let(line, "line")
            slot = into.let(iteration * v, "slot")
            if elements.wide:
                first = into.let(self._first(elements, lane, 0), "first")
                with into.when(at.less(first, self.count)):
                    values = [get(into, row, slot + m) for m in range(v)]
                    store_group(into, self.lines, line + first, values)
            else:
                with into.loop("m", 0, v, "unrolled") as other:
                    k = into.let(self._first(elements, lane, other), "k")
                    with into.when(at.less(k, self.vectors * v)):
                        put(into, self.lines, line + k, get(into, row, slot + other))

    def _row(self, into: Linearizer, base: Expr, line: Expr) -> None:
        """One row of the block, from its line."""
        at_row, own = self._row_at(into, base + line)
        with into.when(own):
            start = into.let(line * self.pitch, "start")
            total = declare(into, self.neutral)
            fold_line(into, self.fold.combine, total, self.lines, start, self.vectors, self.vector)
            self.fold.finish(into, at_row, total, self.count)

    def _row_at(self, into: Linearizer, number: Expr) -> tuple[Sequence[Expr], Expr]:
        """The position of row `number`, clamped to an existing row, and whether it exists."""
        number = into.let(number, "number")
        visits = self.fold.visits
        if visits is not None:
            own, position = leaf(visits, into, number)
            return position[1:], own
        row = into.let(at.minimum(number, self.rows - 1), "row")
        at_row = tiling.coordinates(self.builder, into, row, self.fold.outer)
        return at_row, at.less(number, self.rows)
