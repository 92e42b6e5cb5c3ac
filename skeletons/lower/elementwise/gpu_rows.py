"""Rows that share work, on a GPU: one thread per row, in registers (`dsl/passes/rows.py`).

    thread                    the elements at one index of the leading axes, all of a row
      load                    the rows of arrays of the same form, as 16-byte vectors
      compute                 the shared part once, the row unrolled
      store                   16-byte vectors

An element that reads whole rows, such as the determinant of a matrix, is treated as a row: if a
thread computed several of them, each from its own row, every load would touch as many cache lines.

Some rows are staged in shared memory, so that a warp's accesses are consecutive: rows whose bytes
are not a multiple of 16, such as 3 × 3 matrices of float32, and results of several vectors.  (The
L2 cache takes as long to store half a sector as a whole one; loads find the other half in the L1
cache.)

    block                     THREADS rows
      copy in, barrier        consecutive elements, or vectors, to consecutive threads
      compute                 a thread's row in shared memory: its length, in elements or vectors,
                              is odd, or there are few bank conflicts
      barrier, copy out
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

from treadle.dsl.expr import Const, Expr, Index, Read, Var, walk
from treadle.dsl.graph import Generate, Leaf, Shape
from treadle.dsl.passes.rows import row_members
from treadle.dsl.types import ScalarType

from ...ir import arithmetic as at
from ...ir.kernel import Barrier, Buffer, Kernel, Load, Store, StoreVector
from ...ir.linearize import Linearizer
from .. import tiling, transform
from ..build import Builder
from ..gpu.common import WIDEST, Threads, blocks, has_loops, load_vector, unconditional
from .gpu_elements import make_kernel

THREADS = 128
#: The most bytes of shared memory of a block.
SHARED_BYTES = 40 << 10
#: Rows of up to this many bytes can be read by threads of several elements without loss.
SHORT = 8


@dataclass
class _Rows:
    """An array of rows of `size` elements, each row read or stored by one thread; `pitch` apart in
    shared memory."""

    buffer: Buffer
    size: int
    staged: Buffer | None = None
    pitch: int = 0

    def access(self, wide: bool) -> int:
        """The elements of one access, also to a staged row: rows that vectors do not fill are
        copied element by element."""
        whole = self.vector(wide) * self.buffer.type.bytes == WIDEST
        return self.vector(wide) if whole or self.staged is None else 1

    def vector(self, wide: bool) -> int:
        """The elements of one access."""
        return vector_of(self.size, self.buffer.type) if wide else 1


def vector_of(size: int, t: ScalarType) -> int:
    """The most elements of one access to rows of `size` elements."""
    return min(size & -size, max(WIDEST // t.bytes, 1))


def reads_rows(builder: Builder, node: Generate) -> bool:
    """Whether every element reads long rows of its own; with several leading axes, nothing else, as
    the thread's number is then not split into indices."""
    if builder.context.check or has_loops(node.elements):
        return False
    reads = [e for e in walk(node.elements) if isinstance(e, Read)]
    rows = _positions(builder, reads, node.shape, 1)
    long = any(size * e.type.bytes > SHORT for e, (_, size, _) in rows.items())
    return long and (len(node.shape) == 1 or len(rows) == len(dict.fromkeys(reads)))


def _positions(builder: Builder, reads: Iterable[Expr], lead: Shape, members: int
               ) -> dict[Read, tuple[Leaf, int, int]]:  # fmt: skip
    """The reads of elements of rows: the array, its row's length and the index in the row.

    At least half of a row must be read, or it must not be much longer than a square matrix with as
    many columns as a thread computes elements (`members`).
    """
    found = {e: at for e in reads if isinstance(e, Read)
             if (at := _in_row(builder, e, lead)) is not None}  # fmt: skip
    used: dict[Leaf, set[int]] = {}
    for leaf, _, offset in found.values():
        used.setdefault(leaf, set()).add(offset)
    return {e: (leaf, size, offset) for e, (leaf, size, offset) in found.items()
            if size <= 2 * members**2 or size <= 2 * len(used[leaf])}  # fmt: skip


def _in_row(builder: Builder, e: Read, lead: Shape) -> tuple[Leaf, int, int] | None:
    """The array, row length and index in the row, for a read of the row of a dense array at the
    thread's own index; None for other reads."""
    leaf, axes = Leaf(e.node, e.component), len(lead)
    if leaf in builder.context.strided or e.boundary is not None or len(leaf.shape) <= axes:
        return None
    if not all(a is Index(k) for k, a in enumerate(e.args[:axes])):
        return None
    if not all(builder.same(a, b) for a, b in zip(leaf.shape, lead, strict=False)):
        return None
    own = [builder.root(n) for n in leaf.shape[axes:]]
    extents = [int(n.value) for n in own if isinstance(n, Const)]
    index = [int(a.value) for a in e.args[axes:] if isinstance(a, Const)]
    if not len(extents) == len(index) == len(own):
        return None
    if not all(0 <= a < n for a, n in zip(index, extents, strict=True)):
        return None  # never executed, or reported in checked mode
    offset = 0
    for a, n in zip(index, extents, strict=True):
        offset = offset * n + a
    return leaf, prod(extents), offset


def rows_kernel(builder: Builder, node: Generate, outs: Sequence[Buffer], axes: int) -> Kernel:
    """The kernel of a node whose rows, from axis `axes` on, share work."""
    made = _RowKernel(builder, node, outs, axes)
    return made.kernel(True, made.kernel(False, None))


class _RowKernel:
    def __init__(self, builder: Builder, node: Generate, outs: Sequence[Buffer], axes: int) -> None:
        self.builder, self.node, self.axes = builder, node, axes
        shape = [builder.root(e) for e in node.shape]
        elements = transform.resolve(node.elements, builder, node.shape)
        self.members = row_members(elements, shape, axes)
        self.lead = node.shape[:axes]
        self.room = SHARED_BYTES
        self.outs = [self._rows(b, len(self.members), True) for b in outs]
        self.reads: dict[Read, tuple[_Rows, int]] = {}  # row elements with their offsets
        found: dict[Leaf, _Rows] = {}
        reads = unconditional([e for member in self.members for e in member])
        places = _positions(builder, reads, self.lead, len(self.members))
        for e, (leaf, size, offset) in places.items():
            if leaf not in found:
                found[leaf] = self._rows(builder.input(leaf), size, False)
            self.reads[e] = found[leaf], offset
        self.sources = list(found.values())

    def _rows(self, buffer: Buffer, size: int, stored: bool) -> _Rows:
        vector = vector_of(size, buffer.type)
        whole = vector * buffer.type.bytes == WIDEST
        pitch = (size // vector | 1) * vector if whole else size
        made = _Rows(buffer, size, pitch=pitch)
        taken = THREADS * pitch * buffer.type.bytes
        if size > vector and (stored or not whole) and taken <= self.room:
            (made.staged,) = self.builder.shared(f"{buffer.name}_rows", (buffer.type,),
                                                 THREADS * pitch)  # fmt: skip
            self.room -= taken
        return made

    def kernel(self, wide: bool, fallback: Kernel | None) -> Kernel:
        builder = self.builder
        grid, into = Threads.of(THREADS), builder.emitter()
        total = at.product(self.lead)
        rows = builder.scalar(total, "rows")
        ident = into.let(grid.ident, "row")
        staged = [s for s in self.sources if s.staged is not None]
        for source in staged:
            self._copy(into, grid, source, rows, inward=True, count=source.access(wide))
        if staged:
            into.append(Barrier())
        with into.when(at.less(ident, rows)):
            self._row(into, grid, ident, wide)
        staged = [o for o in self.outs if o.staged is not None]
        if staged:
            into.append(Barrier())
        for out in staged:
            self._copy(into, grid, out, rows, inward=False, count=out.access(wide))
        aligned = [r.buffer for r in (*self.sources, *self.outs) if r.access(wide) > 1]
        row = f"a row of {len(self.members)} elements" if self.axes < len(self.node.shape) else (
            "an element, which reads rows")  # fmt: skip
        comments = [f"a thread {row}"]
        launch = grid.launch((), aligned, fallback)
        return make_kernel(builder, self.node, blocks(builder, total, THREADS), grid, into,
                           comments, **launch)  # fmt: skip

    def _copy(self, into: Linearizer, grid: Threads, rows: _Rows, total: Expr, inward: bool,
              count: int) -> None:  # fmt: skip
        """Copy the rows of a block to or from shared memory; `count` consecutive elements per
        thread."""
        staged, size = rows.staged, rows.size
        assert staged is not None
        start = into.let(grid.task * (THREADS * size), "start")
        stop = into.let(total * size, "stop")
        with into.loop("u", 0, size // count, "unrolled") as u:
            access = u * THREADS + grid.thread
            inside = into.let(access * count, "inside")
            outside = into.let(start + inside, "p")
            where = inside
            if rows.pitch != size:
                row = inside // size * rows.pitch
                where = into.let(row + inside % size, "where")
            with into.when(at.less(outside, stop)):
                from_, to = (rows.buffer, staged) if inward else (staged, rows.buffer)
                read, written = (outside, where) if inward else (where, outside)
                if count == 1:
                    into.append(Store(to, written, Load(from_, read)))
                else:
                    some = load_vector(into, from_, read, count)
                    into.append(StoreVector(to, written, tuple(some)))

    def _row(self, into: Linearizer, grid: Threads, ident: Expr, wide: bool) -> None:
        """Load, compute and store one row."""
        builder = self.builder
        indices = tiling.coordinates(builder, into, ident, self.lead)
        loaded = {id(s): self._load(into, grid, s, ident, wide) for s in self.sources}
        values: dict[Expr, Expr] = {e: loaded[id(s)][k] for e, (s, k) in self.reads.items()}
        with into.when_always({**{Index(k): i for k, i in enumerate(indices)}, **values}):
            width = len(self.outs)
            found = into.emit([e for member in self.members for e in member])
            for c, out in enumerate(self.outs):
                self._store(into, grid, out, ident, found[c::width], wide)

    def _load(self, into: Linearizer, grid: Threads, rows: _Rows, ident: Expr, wide: bool
              ) -> dict[int, Expr]:  # fmt: skip
        """The elements of a row that are read, by offset."""
        needed = sorted({k for s, k in self.reads.values() if s is rows})
        buffer, first = self._where(into, grid, rows, ident)
        count = rows.access(wide)
        if count == 1:
            return {k: into.let(Load(buffer, first + k), rows.buffer.name) for k in needed}
        found: dict[int, Expr] = {}
        for begin in sorted({k // count * count for k in needed}):
            got: Sequence[Var] = load_vector(into, buffer, first + begin, count)
            found.update((begin + k, v) for k, v in enumerate(got))
        return found

    def _store(self, into: Linearizer, grid: Threads, out: _Rows, ident: Expr,
               values: Sequence[Expr], wide: bool) -> None:  # fmt: skip
        (buffer, first), count = self._where(into, grid, out, ident), out.access(wide)
        for begin in range(0, out.size, count):
            some, where = tuple(values[begin : begin + count]), first + begin
            into.append(Store(buffer, where, some[0]) if count == 1
                        else StoreVector(buffer, where, some))  # fmt: skip

    def _where(self, into: Linearizer, grid: Threads, rows: _Rows, ident: Expr
               ) -> tuple[Buffer, Expr]:  # fmt: skip
        """The buffer of a thread's row, and the row's start in it."""
        if rows.staged is None:
            return rows.buffer, into.let(ident * rows.size, "first")
        return rows.staged, into.let(grid.thread * rows.pitch, "first")
