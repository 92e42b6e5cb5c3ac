"""Transposing reads on a CPU: reads along an axis other than the last go through tiles in a core's
caches.

    out[…, i, …, j] = f(a[…, j, …, i], …)          `across` is the axis of i
    task                      a tile of `width` × `length`: i along `across`, j along the last axis
      for j, for i (vector)   held[j, i] = a[…, j, …, i]        pieces of rows of a
      for i, for j (vector)   out[…, i, …, j] = f(held[j, i])   pieces of rows of out

The second loop computes some rows of i at a time: squares of the tile are transposed in registers.
Conditions on indices (joined arrays) split tiles into parts.  `a` may be a column-major argument
that is read at the element's own index.

Each cache line of either array is accessed once, completely, and need not stay in the cache, so row
pitches near powers of two (rows that map to few cache sets) do no harm.  Axes that are too short
are detected at run time; their reads stay direct.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext

from treadle.dsl.expr import Expr, Index, Read, Var, rewrite
from treadle.dsl.graph import Generate, Leaf

from ...ir import arithmetic as at
from ...ir.kernel import Buffer, Load
from ...ir.linearize import Linearizer
from ..build import Builder, element_cost
from ..combining import compute, put
from ..elementwise.parts import in_parts, leaves_of, parts
from ..tiling import block_range
from ..transform import has_boundary, resolve
from .gpu import staged_reads

#: The most elements of a side of a tile, and bytes of its rows.
SIDE, ROW_BYTES = 128, 512
#: The approximate bytes of all tiles of a task, and the shortest side.
TILES_BYTES, SHORTEST = 1 << 16, 16
#: If either side has fewer elements, no tile is used: loads would immediately follow stores to the
#: same vectors and stall on them.
WORTH_HOLDING = 48
#: Rows of results computed together: squares of as many elements are transposed in registers.
TOGETHER = 16
#: The largest cost of elements for which rows are computed together.
CHEAP = 32.0
#: The most reads of elements that are staged: more tiles would be too small to gain, and the code
#: for each read transposes a square.
MOST_READS = 8

Ranges = Mapping[int, tuple[Expr, Expr]]


def in_tiles(builder: Builder, node: Generate, outs: Sequence[Buffer], task: Var,
               into: Linearizer) -> Expr | None:  # fmt: skip
    """The number of tasks; None if no read can be staged, for example under a condition on data."""
    last = len(node.shape) - 1
    for across in range(last - 1, -1, -1):
        tiles = _Tiles(builder, node, outs, across)
        if tiles.staged:
            return tiles.emit(into, task)
    return None


class _Tiles:
    """Tiles of the axes `across` and the last one, and the staged reads."""

    def __init__(self, builder: Builder, node: Generate, outs: Sequence[Buffer], across: int
                 ) -> None:  # fmt: skip
        self.builder, self.node, self.outs = builder, node, outs
        self.across, self.last = across, len(node.shape) - 1
        self.others = [k for k in range(self.last) if k != across]
        self.extents = builder.shape(node.shape)
        reads = [self._staged(roots) for roots in self._parts_of(node.elements)]
        most = max(reads, key=lambda found: sum(e.type.bytes for e in found))
        self.staged: tuple[Buffer, ...] = ()
        if not most or len(most) > MOST_READS:
            return
        self.width, self.length = sides([e.type.bytes for e in most])
        self.together = TOGETHER if element_cost(node.elements) <= CHEAP else 1
        self.pitch = self.width + TOGETHER  # rows of a square map to different cache sets
        # The parts of a tile share one buffer, as large as the largest part needs.
        names: dict[str, list[str]] = {}
        for found in reads:
            wanted: dict[str, int] = {}
            for e in found:
                k = wanted[e.type.name] = wanted.get(e.type.name, 0) + 1
                known = names.setdefault(e.type.name, [])
                if k > len(known):
                    known.append(builder.input(Leaf(e.node, e.component)).name)
        types = {e.type.name: e.type for found in reads for e in found}
        size = self.length * self.pitch
        self.staged = tuple(
            builder.local(f"{name}_held", [types[t]], size)[0] for t in names for name in names[t]
        )

    def _parts_of(self, roots: tuple[Expr, ...]) -> list[tuple[Expr, ...]]:
        """The expressions of the parts of a tile."""
        return [
            inner
            for outer in leaves_of(parts(roots, self.across, self.others))
            for inner in leaves_of(parts(outer, self.last, self.others))
        ]

    def _staged(self, roots: tuple[Expr, ...]) -> list[Read]:
        """The reads to stage in the tile."""
        node = self.node if roots == self.node.elements else self.node.with_(elements=roots)
        staged = staged_reads(self.builder, node)
        if staged is None or staged[0] != self.across:
            return []
        rows = self.builder.row_axis
        return [e for e in staged[1] if rows(Leaf(e.node, e.component)) is not None]

    def emit(self, into: Linearizer, task: Var) -> Expr:
        """Emit the loops over the tiles; returns their number."""
        builder, extents, across, last = self.builder, self.extents, self.across, self.last
        counts = [extents[k] for k in self.others]
        tiled = ((across, self.width, "tiles_down"), (last, self.length, "tiles_across"))
        shape = self.node.shape
        counts += [builder.scalar(at.ceil_div(shape[k], n), name) for k, n, name in tiled]
        *planes, row, col = at.row_major(task, tuple(counts))
        self.position = {k: into.let(p, f"i{k}") for k, p in zip(self.others, planes, strict=True)}
        ranges = {
            k: block_range(into, f"at{k}", number, n, extents[k])
            for number, (k, n, _) in zip((row, col), tiled, strict=True)
        }
        self.origin = {k: ranges[k][0] for k in ranges}
        enough = at.both(*(at.less_equal(WORTH_HOLDING, extents[k]) for k in ranges))
        enough = into.let(enough, "hold")
        elements = self.node.elements
        with into.when(enough):

            def down(span: tuple[Expr, Expr], roots: Sequence[Expr], _: bool) -> None:
                def along(inner: tuple[Expr, Expr], roots: Sequence[Expr], _: bool) -> None:
                    self._part(into, {across: span, last: inner}, tuple(roots))

                in_parts(into, builder, tuple(roots), self.position, last, ranges[last], along)

            in_parts(into, builder, elements, self.position, across, ranges[across], down)
        with into.otherwise(enough), self._loops(into, across, last, "serial", ranges) as here:
            self._compute(into, here, elements, {})
        names = ", ".join(b.name.removesuffix("_held") for b in self.staged)
        builder.notes.append(f"tiles of {self.width} × {self.length} in a core's caches: {names}")
        return at.product(counts)

    def _part(self, into: Linearizer, ranges: Ranges, roots: tuple[Expr, ...]) -> None:
        """A part of a tile: filled in rows along `across`, computed in rows along the last axis."""
        across, last = self.across, self.last
        free = list(self.staged)
        tiles: dict[Read, Buffer] = {}
        for e in self._staged(roots):
            tiles[e] = next(b for b in free if b.type == e.type)
            free.remove(tiles[e])
        if tiles:
            with self._loops(into, last, across, "vector", ranges) as here:
                self._fill_tiles(into, here, tiles)
        start, stop = ranges[across]
        if tiles and self.together > 1:
            squares = (stop - start) // self.together
            left = start + squares * self.together
            left = into.let(left, "rows_left")
            whole = {**ranges, across: (start, left)}
            with self._loops(into, across, last, "vector", whole, self.together) as here:
                self._compute(into, here, roots, tiles)
            start = left
        with self._loops(into, across, last, "vector", {**ranges, across: (start, stop)}) as here:
            self._compute(into, here, roots, tiles)

    @contextmanager
    def _loops(self, into: Linearizer, outer: int, inner: int, kind: str, ranges: Ranges,
               several: int = 1) -> Iterator[dict[int, Expr]]:  # fmt: skip
        """Rows along `inner`, `several` at a time; yields the position."""
        with (
            into.loop("ij"[outer == self.last], *ranges[outer], step=several) as o,
            into.loop("ij"[inner == self.last], *ranges[inner], kind) as v,
            into.loop("u", 0, several, "unrolled") if several > 1 else nullcontext(0) as u,
        ):
            here = {**self.position, outer: o + u, inner: v}
            for k, index in here.items():
                self.builder.stays_below(index, self.node.shape[k])
            yield here

    def _slot(self, here: Mapping[int, Expr]) -> Expr:
        """The position of an element in a tile."""
        i, j = (here[k] - self.origin[k] for k in (self.across, self.last))
        return j * self.pitch + i

    def _fill_tiles(self, into: Linearizer, here: Mapping[int, Expr], tiles: Mapping[Read, Buffer]
              ) -> None:  # fmt: skip
        slot = self._slot(here)
        with into.when_always({Index(k): x for k, x in here.items()}):
            put(into, list(tiles.values()), slot, into.emit(list(tiles)))

    def _compute(self, into: Linearizer, here: Mapping[int, Expr], roots: Sequence[Expr],
                 tiles: Mapping[Read, Buffer]) -> None:  # fmt: skip
        slot = self._slot(here)
        memo: dict[Expr, Expr] = {e: Load(b, slot) for e, b in tiles.items()}
        if has_boundary(roots):  # only in parts without staged reads
            roots = resolve(roots, self.builder, self.node.shape)
        indices = [here[k] for k in range(self.last + 1)]
        compute(into, self.outs, indices, self.extents, rewrite(roots, lambda e: e, memo))


def sides(sizes: Sequence[int]) -> tuple[int, int]:
    """Elements of a tile across and along, for reads of these sizes in bytes: rows of both sides
    span some cache lines, and all tiles together stay in the L2 cache."""
    width = max(min(SIDE, ROW_BYTES // max(sizes)), 1)
    length = SIDE
    while length > SHORTEST and width * length * sum(sizes) > TILES_BYTES:
        length //= 2
    return width, length
