"""Localisation: a kernel of an optimised program as one program that computes any block of its
results.

`Index(k)` becomes the position in the block plus the origin of the block, extents become numbers,
and every array becomes a buffer with the elements that the block reads.  Origins and extents are
run-time numbers, so one compiled program computes all blocks.

A stencil computes its block as written, boundary included, on a buffer with a halo.  Where a buffer
ends at an edge of the array, its boundary is that of the array; elsewhere, the results within the
halo are wrong and are dropped.  Blocks therefore run the same code as the whole array, and give the
same bits.  Other reads use the position in the array minus the origin of a buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from treadle.dsl import expr as ex, graph
from treadle.dsl.analysis.combines import identities
from treadle.dsl.expr import Expr
from treadle.dsl.graph import Leaf, Node
from treadle.dsl.libraries.base import combined_axes
from treadle.dsl.types import int64
from treadle.skeletons.ir import arithmetic as at

from .domain import (
    BACK,
    MOST_INDEX,
    Axis,
    Chunks,
    Cuts,
    Following,
    Known,
    Numbers,
    Spans,
    Values,
    follows,
    joined,
    needed,
    reads_of,
    shifted,
    spread,
    stepped,
    strides,
    without_short_ends,
)
from .engine import Engine, default_chunks
from .program import BlockProgram

WRAP = "wrap"
#: Arrays from this size in bytes are cut whatever their extents.
LARGE = 1 << 40
#: The most blocks of an array that is read periodically.
MOST_CUTS = 100_000
#: The least bytes of a block of results if no array determines it but arrays have several chunks.
SMALLEST = 64 << 10


class NoRule(Exception):
    """The reason why a kernel cannot be computed in blocks, and perhaps an alternative."""

    def __init__(self, reason: str, instead: str | None = None) -> None:
        super().__init__(reason)
        self.instead = instead


def require_travel(e: Expr, node: Node, engine: Engine) -> None:
    """Raise `NoRule` for a Python function if blocks run in other processes."""
    if isinstance(e, ex.Foreign) and engine.separate:
        raise NoRule(
            f"{node.label} calls the Python function {e.function.name!r}, which "
            "cannot travel to other processes"
        )


@dataclass(frozen=True)
class Reading:
    """How the index of a read is computed along one axis of an array.

    kind "near": the buffer has the indices of the block, so the read stays as it is; "offset": the
    same, shifted by a constant; "image": the range of indices that the block reads; "whole": all of
    them.  In an array that is read periodically, an "offset" or "image" wraps around; otherwise,
    where an "image" goes beyond an edge, the buffer ends there, and so its boundary is that of the
    array.
    """

    kind: str
    axis: int = -1
    rest: Any = None
    periodic: bool = False


@dataclass
class Buffer:
    """The part of an array that a block reads: indices `low` … `high` − 1 along each axis."""

    leaf: Leaf
    input: graph.Input
    low: list[Numbers]
    high: list[Numbers]
    periodic: list[bool]
    #: The program gets elements `flat[0]` … `flat[1]` − 1 of the buffer, in row-major order.
    flat: tuple[Numbers, Numbers] | None = None
    #: A computed array with the range of elements that each block reads in each chunk of a rank-1
    #: array, [block, chunk, first and last + 1]; `low` and `high` bound their number.
    windows: Leaf | None = None

    @staticmethod
    def whole(leaf: Leaf, given: graph.Input, shape: Sequence[int]) -> Buffer:
        full = [np.asarray(np.int64(n)) for n in shape]
        return Buffer(leaf, given, [np.zeros((), np.int64)] * len(full), full, [False] * len(full))


@dataclass
class Result:
    """A computed array: its extents, and for each axis the cut domain axis (None: not cut)."""

    shape: tuple[int, ...]
    axes: tuple[Axis | None, ...]
    type: Any
    #: Trailing axes that the program's results lack: one element per block.
    added: int = 0


@dataclass
class Blocks:
    """A kernel in blocks: its program, what each block reads and writes, and its numbers."""

    node: Node
    program: BlockProgram
    buffers: list[Buffer]
    results: list[Result]
    axes: list[Axis]
    numbers: list[Any]
    notes: list[str] = field(default_factory=list)
    #: For the program of a loop, the extents that are passed as numbers.
    extents: list[Expr] = field(default_factory=list)
    #: The buffers assembled from several chunks, or from parts, which stay in memory.
    copied: list[Buffer] = field(default_factory=list)
    #: Whether blocks that read results of others need later blocks, not earlier ones.
    backwards: bool = False
    #: Whether memory around each chunk holds the halo, so that buffers need no copy.
    around: bool = False

    @property
    def grid(self) -> tuple[int, ...]:
        return tuple(a.count for a in self.axes if a.is_cut)


@dataclass
class _Scope:
    """Expressions over the same indices: the indices' domain axes, and the node's fields."""

    roots: tuple[Expr, ...]
    axes: tuple[int, ...]
    fields: tuple[str, ...] = ()


@dataclass
class Shape:
    """A node's domain: extents, axes that may be cut, scopes, and the axes of each result."""

    extents: tuple[Expr, ...]
    free: tuple[int, ...]
    scopes: list[_Scope]
    results: Sequence[tuple[int | None, ...]]
    #: The axes whose extents are fields of the node: one axis or a tuple per field.
    sizes: Mapping[str, int | Sequence[int]] = field(default_factory=dict)
    #: Axes of results that are not axes of the domain.
    written: tuple[int, ...] = ()


def _as_roots(value: Any) -> tuple[Expr, ...]:
    """The expressions of a field; an array stands for a read of all its elements."""
    if isinstance(value, Leaf):
        return (value.at(*graph.indices(len(value.shape))),)
    return value if isinstance(value, tuple) else (value,)


def shape_of(node: Node) -> Shape:
    """The domain of a node; `NoRule` if it has none that can be cut."""
    outs = node.outputs
    scopes: list[tuple[Sequence[int], tuple[str, ...]]]

    def shape(
        sizes: Mapping[str, int | Sequence[int]], free: Sequence[int],
        scopes: Sequence[tuple[Sequence[int], tuple[str, ...]]],
        results: Sequence[Sequence[int | None]], *more: Expr,
    ) -> Shape:  # fmt: skip
        """`more`: extents that are no fields."""
        extents = [e for name in sizes for e in _as_roots(getattr(node, name))]
        made = [
            _Scope(tuple(e for name in names for e in _as_roots(getattr(node, name))), (*axes,),
                   names)
            for axes, names in scopes
        ]  # fmt: skip
        return Shape((*extents, *more), (*free,), made, [(*axes,) for axes in results], sizes)

    match node:
        case graph.Generate():
            rank = range(len(node.shape))
            return shape({"shape": rank}, rank, [(rank, ("elements",))], [rank] * len(outs))
        case graph.Fold():
            outer, inner = range(len(node.outer)), len(node.inner)
            every = range(len(outer) + inner)
            scopes = [(every, ("elements",)), (outer, ("epilogue",))]
            sizes = {"outer": outer, "inner": every[len(outer) :]}
            return shape(sizes, outer, scopes, [outer] * len(outs))
        case graph.Scan():
            rank = range(len(node.shape))
            free = [k for k in rank if k != node.axis]
            along = [None if k == node.axis else k for k in rank]
            results = [along if len(o.shape) == len(rank) else free for o in outs]
            return shape({"shape": rank}, free, [(rank, ("elements", "epilogue"))], results)
        case graph.Recurrence():
            rank = range(len(node.shape))
            free = [k for k in rank if k != node.axis]
            stored = [*[rank] * len(node.collected), *[free] * len(node.last)]
            return shape({"shape": rank}, free,
                         [(rank, ("steps", "collected")), (free, ("start",))], stored)  # fmt: skip
        case graph.Permute():
            rank = range(len(node.domain))
            return shape({"domain": rank}, rank, [(rank, ("valid", "target", "values"))],
                         [(None,) * len(o.shape) for o in outs])  # fmt: skip
        case graph.Matmul() if not isinstance(node, graph.FoldingMatmul):
            batch = range(len(node.batch))
            m, n, k = (len(batch) + j for j in range(3))
            scopes = [((*batch, m, k), ("left",)), ((*batch, k, n), ("right",)),
                      ((*batch, m, n), ("epilogue",))]  # fmt: skip
            return shape({"batch": batch, "m": m, "n": n, "k": k}, (*batch, m, n), scopes,
                         [(*batch, m, n)] * len(outs))  # fmt: skip
        case graph.Library():
            return _rows_of(node)
        case graph.FoldSeg():
            outer, p = range(len(node.outer)), len(node.outer)
            scopes = [((*outer, p), ("elements",)), ((*outer, p + 1), ("epilogue",)),
                      ((p + 2,), ("offsets",))]  # fmt: skip
            return shape({"outer": outer, "extent": p, "segments": p + 1}, outer, scopes,
                         [(*outer, p + 1)] * len(outs), node.offsets.shape[0])  # fmt: skip
    raise NoRule(f"there is no rule for {node.label} on blocks")


def _rows_of(node: graph.Library) -> Shape:
    """The domain of a library operation.  Along the leading axes it is independent for each index,
    and arrays of fewer axes, or of extent 1 there, are broadcast; along the others, every array has
    its own extents."""
    rank = max(len(leaf.shape) for leaf in node.arguments)
    combined = combined_axes(node.operation, rank)
    if combined is None:
        raise NoRule(f"there is no rule for {node.label} on blocks")
    rows = [k for k in range(rank) if k not in combined]
    aligned = [dict(enumerate(leaf.shape, rank - len(leaf.shape))) for leaf in node.arguments]
    one = ex.constant(1)
    extents = [next((x[k] for x in aligned if x.get(k, one) is not one), one) for k in rows]

    def axes_of(shape: Mapping[int, Expr], whole: list[Expr]) -> tuple[int, ...]:
        found: list[int] = []
        for k, e in shape.items():
            if k in rows and e is extents[rows.index(k)]:
                found.append(rows.index(k))
                continue
            same = [len(rows) + j for j, other in enumerate(whole) if other is e]
            axis = next((j for j in same if j not in found), None)
            if axis is None:
                axis = len(rows) + len(whole)
                whole.append(e)
            found.append(axis)
        return tuple(found)

    whole: list[Expr] = []
    scopes = []
    for leaf, shape in zip(node.arguments, aligned, strict=True):
        if any(shape.get(k, one) not in (e, one) for k, e in zip(rows, extents, strict=True)):
            raise NoRule(f"the arrays of {node.label} have other extents")
        at_all = leaf.at(*graph.indices(len(leaf.shape)))
        scopes.append(_Scope((at_all,), axes_of(shape, whole)))
    read = len(rows) + len(whole)
    outs = [axes_of(dict(enumerate(o.shape)), whole) for o in node.outs]
    return Shape(
        (*extents, *whole),
        tuple(range(len(rows))),
        scopes,
        outs,
        written=tuple(range(read, len(rows) + len(whole))),
    )


def of_constant_extents(read: Expr, shape: tuple[Expr, ...]) -> Leaf:
    """The array read at every index, with constant extents if known, for small matrices."""
    assert isinstance(read, ex.Read)
    leaf = Leaf(read.node, read.component)
    if not any(isinstance(e, ex.Const) and e.value != 1 for e in shape):
        return leaf
    return graph.Generate(shape, (read,), label=graph.Label("copy")).leaves[0]


def extents_of(shape: Iterable[Expr], known: Known, node: Node) -> tuple[int, ...]:
    """The values of extents; `NoRule` if they depend on the contents of arrays."""
    found = [known.number(e) for e in shape]
    if any(n is None for n in found):
        raise NoRule(
            f"the extents of {node.label} depend on what arrays hold",
            "A reduction need not select elements: td.sum(td.where(p, a, 0)) is the sum of a[p], "
            "td.sum(p) their number."
            if node.label.operation == "compact"
            else None,
        )
    return tuple(max(int(n or 0), 0) for n in found)


class Localiser:
    """Makes the `Blocks` of one node."""

    def __init__(
        self,
        node: Node,
        known: Known,
        grids: Mapping[Leaf, Chunks],
        engine: Engine,
        sizes: Mapping[int, tuple[int, ...]] | None = None,
        free: Sequence[int] | None = None,
        result: bool = False,
        constants: Values | None = None,
        pieces: int = 1,
    ) -> None:
        """`grids`: the chunks of all arrays; `constants`: arrays whose elements, or bounds of
        elements, are known.  `sizes`: the blocks along some axes.  `free`: the axes that may be
        cut, if not those of the node's domain.  `result`: whether the node computes a result of the
        program.  `pieces`: the blocks of a chunk."""
        self.pieces = pieces
        self.given = dict(sizes or {})
        self.node, self.known, self.grids, self.engine = node, known, grids, engine
        self.is_result, self.constants = result, constants or {}
        self.shape = shape_of(node)
        self.extents = extents_of(self.shape.extents, known, node)
        self.notes: list[str] = []
        label = node.label
        #: The label of the node over buffers.
        self.label = graph.Label(label.operation, label.name, None, label.deterministic)
        allowed = self.shape.free if free is None else free
        self.free = tuple(k for k in allowed if self.extents[k] > 1)
        bodies = [e for s in self.shape.scopes for e in s.roots]
        for e in ex.walk((*bodies, *node.expressions())):
            require_travel(e, node, engine)
        self._cut()

    # --- the domain ---

    def _cut(self) -> None:
        """The axes of the domain, their blocks and their halos."""
        #: Axes along which neighbours are read like arbitrary elements, by blocks without halos.
        self.far: frozenset[int] = frozenset()
        self.far = self._distant()
        while True:
            self.axes = self._axes(self.free)
            if not (others := self._halos(self.free)):
                return
            self.far |= others

    def _axes(self, free: tuple[int, ...], halos: Mapping[int, Any] | None = None) -> list[Axis]:
        sizes = self._sizes(free)
        halos = halos or {}
        made = []
        for k, n in enumerate(self.extents):
            cut = free.index(k) if k in free else None
            before, after, periodic = halos.get(k, (0, 0, False))
            made.append(Axis(n, sizes.get(k, (n,)), cut, before, after, periodic, len(free),
                             self.engine.split_boundary, self.pieces))  # fmt: skip
        return made

    def _sizes(self, free: tuple[int, ...]) -> dict[int, tuple[int, ...]]:
        """The sizes of blocks along the axes to cut: those of the largest array with several chunks
        that is read along them (of equally large ones, one that has several chunks along this
        axis), and outside its range those of the other arrays."""
        found: dict[int, list[tuple[tuple[int, bool, int], Cuts]]] = {}
        for scope in self.shape.scopes:
            for read in reads_of(scope.roots):
                leaf = Leaf(read.node, read.component)
                shape = extents_of(leaf.shape, self.known, self.node)
                weight = prod(shape) * leaf.type.numpy.itemsize
                grid = self.grids[leaf]
                if all(len(chunks) == 1 for chunks in grid):
                    continue
                for a in range(len(read.args)):
                    if shape[a] and (cuts := self._cuts_of(scope, read, a, grid[a], free)):
                        order = weight, len(grid[a]) > 1, -cuts.times
                        found.setdefault(cuts.axis, []).append((order, cuts))
        cut: dict[int, tuple[int, tuple[int, ...]]] = {}
        for k, several in found.items():
            several.sort(key=lambda one: one[0], reverse=True)
            (weight, is_cut, _), _ = several[0]
            if is_cut:
                cut[k] = (
                    weight,
                    joined([cuts for (_, is_cut, _), cuts in several if is_cut], self.extents[k]),
                )
        found_sizes = {k: s for k, (_, s) in cut.items()} | self.given
        if self.engine.single and not self.given:
            found_sizes = self._along_one(cut, free)
        missing = [k for k in free if k not in found_sizes]
        if missing and not found_sizes:
            found_sizes = self._chosen(missing)
        return {k: found_sizes.get(k, (self.extents[k],)) for k in free}

    def _cuts_of(
        self, scope: _Scope, read: ex.Read, a: int, sizes: tuple[int, ...], free: Sequence[int]
    ) -> Cuts | None:
        """How to cut a domain axis so that an index of a read stays within one chunk per block."""
        e, n = read.args[a], sum(sizes)
        periodic = self._unwrapped(read, a)
        e = e if periodic is None else periodic
        found = follows(e, self.known)
        position, each = (e, 1) if found is not None else self._quotient(e)
        if found is None and isinstance(position, ex.Index):
            found = follows(position, self.known)
        steps = strides(e, self.known) if found is None else None
        axis = found.axis if found is not None else steps[0] if steps else None
        if axis is None or axis >= len(scope.axes) or scope.axes[axis] not in free:
            return None
        k = scope.axes[axis]
        extent = self.extents[k]
        if found is None:
            assert steps is not None
            return Cuts(k, stepped(sizes, *steps[1:], extent), 0, extent)
        offset = found.offset + found.value
        around = periodic is not None
        if offset and n == extent and k not in self.far and (read.boundary or not around):
            offset = 0
        if each > 1:
            return Cuts(k, shifted([m * each for m in sizes], offset, extent), 0, extent)
        if around and (offset or extent > n):
            times = (extent + offset % n) // n + 1
            if times * len(sizes) > MOST_CUTS:
                return None
            found_sizes = shifted(sizes * times, offset % n, extent)
            return Cuts(k, without_short_ends(found_sizes), 0, extent, times)
        first, last = (min(max(end - offset, 0), extent) for end in (0, n))
        return Cuts(k, shifted(sizes, offset, extent), first, last)

    def _quotient(self, e: Expr) -> tuple[Expr, int]:
        """`i` and c for an index `i // c`, which reads an array in row-major order."""
        if isinstance(e, ex.Apply) and e.op.name == "floor_divide":
            number = self.known.number(e.args[1])
            if number is not None and number > 0:
                return e.args[0], number
        return e, 1

    def _along_one(
        self, best: Mapping[int, tuple[int, tuple[int, ...]]], free: Sequence[int]
    ) -> dict[int, tuple[int, ...]]:
        """The blocks along one axis: the first of a result, else that of the largest array."""
        axes = self.shape.results[0]
        first = axes[0] if axes and isinstance(self.node, graph.Generate | graph.Matmul) else None
        if self.is_result and first is not None and first in free:
            if first in best:
                return {first: best[first][1]}
            return self._chosen([first], large=bool(best))
        if not best:
            return {}
        k = max(best, key=lambda k: (best[k][0], -k))
        return {k: best[k][1]}

    def _chosen(self, axes: Sequence[int], large: bool = False) -> dict[int, tuple[int, ...]]:
        """The blocks along axes without chunks; `large`: cut an array of any size."""
        itemsize = max(o.type.numpy.itemsize for o in self.node.outputs)
        others = {*axes, *self.shape.written}
        itemsize *= prod(n for k, n in enumerate(self.extents) if k not in others) or 1
        itemsize = max(itemsize, LARGE if large else 0)
        if isinstance(self.node, graph.Matmul) and not self.engine.single:
            return self._of_product(len(self.node.batch), axes, itemsize)
        rest = [self.extents[k] for k in axes]
        chosen = self.engine.choose(rest, itemsize)
        size, each = prod(rest) * itemsize, prod(map(max, chosen)) * itemsize
        most = max(-(-size // self._parts()) + size // max(rest[0], 1), SMALLEST)
        if not self.engine.single and each > most:
            chosen = default_chunks(rest, itemsize, most)
        return dict(zip(axes, chosen, strict=True))

    def _parts(self) -> int:
        """The number of chunks of the largest array read."""
        found = [(0, 1)]
        for leaf in {
            Leaf(r.node, r.component) for s in self.shape.scopes for r in reads_of(s.roots)
        }:
            sizes = self.grids[leaf]
            size = prod(map(sum, sizes)) * leaf.type.numpy.itemsize
            found.append((size, prod(map(len, sizes))))
        return max(found)[1]

    def _of_product(self, batch: int, axes: Sequence[int], line: int) -> dict[int, tuple[int, ...]]:
        """The blocks of a product along these axes: whole matrices if they fit, else as many rows
        as columns of `line` bytes each, but fewer rows where the result would need more."""
        m, n, k = self.extents[batch:]
        each, columns = line // max(k, 1), 0
        matrix = max(line * (m + n) + each * m * n, 1)
        before = [a for a in axes if a < batch]
        chosen = self.engine.choose([self.extents[a] for a in before], matrix)
        found = dict(zip(before, chosen, strict=True))
        for a in reversed(axes[len(before) :]):
            (found[a],) = self.engine.choose([self.extents[a]], max(2 * line, each * columns))
            columns = max(found[a])
        return found

    def _halos(self, free: tuple[int, ...]) -> set[int]:
        """Extend each axis by the halo that its neighbours need.  Returns the axes that cannot have
        one: periodic ones along which there are other reads too."""
        halos: dict[int, tuple[int, int, bool]] = {}
        edged: set[int] = set()  # axes with boundaries that are not periodic
        for scope in self.shape.scopes:
            for read in reads_of(scope.roots):
                if read.boundary is None:
                    continue
                leaf = Leaf(read.node, read.component)
                shape = extents_of(leaf.shape, self.known, self.node)
                for a in range(len(read.args)):
                    found = self._near(scope, read, a, shape[a])
                    if found is None:
                        continue
                    k, c = scope.axes[found.axis], found.offset
                    before, after = max(-c, 0), max(c, 0)
                    if read.boundary in BACK:
                        before = after = abs(c)
                    if read.boundary != WRAP and c:
                        edged.add(k)
                    had = halos.get(k, (0, 0, False))
                    wrap = had[2] or (read.boundary == WRAP and c != 0)
                    halos[k] = max(had[0], before), max(had[1], after), wrap
        others: set[int] = set()
        for k, (_, _, wrap) in halos.items():
            if k not in free:
                continue
            if wrap and (k in edged or not self._only_near(k)):
                others.add(k)
        if others:
            return others
        if any(before or after for before, after, _ in halos.values()):
            self.axes = self._axes(free, halos)
        return others

    def _distant(self) -> frozenset[int]:
        """The axes along which neighbours lie beyond the adjacent chunk."""
        reach: dict[int, tuple[int, int, int]] = {}
        for scope in self.shape.scopes:
            for read in reads_of(scope.roots):
                leaf = Leaf(read.node, read.component)
                shape = extents_of(leaf.shape, self.known, self.node)
                for a, n in enumerate(shape):
                    found = self._near(scope, read, a, n)
                    if found is not None:
                        k, c = scope.axes[found.axis], found.offset
                        least, most, size = reach.get(k, (0, 0, 0))
                        size = max(size, *self.grids[leaf][a])
                        reach[k] = min(least, c), max(most, c), size
        return frozenset(k for k, (least, most, size) in reach.items() if most - least > size)

    def _unwrapped(self, read: ex.Read, a: int) -> Expr | None:
        """The index of a read along an axis before its remainder by the extent is taken; None if
        the array is not read periodically."""
        e = read.args[a]
        if read.boundary == WRAP:
            return e
        if read.boundary is None and isinstance(e, ex.Apply) and e.op.name == "remainder":
            extent = read.node.outputs[read.component].shape[a]
            same = self.known.number(e.args[1]) == self.known.number(extent)
            return e.args[0] if same else None
        return None

    def _near(self, scope: _Scope, read: ex.Read, a: int, extent: int) -> Following | None:
        """How an index of a read follows a domain axis of the same extent."""
        found = follows(read.args[a], self.known)
        if found is None or found.rest or found.axis >= len(scope.axes):
            return None
        k = scope.axes[found.axis]
        if extent != self.extents[k] or (found.offset and k in self.far):
            return None
        return found if read.boundary is not None or not found.offset else None

    def _only_near(self, k: int) -> bool:
        """Whether every use of an index is a read at it, or at a neighbour with a boundary."""
        for scope in self.shape.scopes:
            for read in reads_of(scope.roots):
                shape = extents_of(read.node.outputs[read.component].shape, self.known, self.node)
                for a, e in enumerate(read.args):
                    if any(
                        isinstance(x, ex.Index) and scope.axes[x.axis] == k for x in ex.walk((e,))
                    ):
                        if self._near(scope, read, a, shape[a]) is None:
                            return False
        return True

    # --- the program ---

    def blocks(self, params: Sequence[ex.Param]) -> Blocks:
        self.buffers: dict[Any, Buffer] = {}
        self.params: list[ex.Param] = list(params)
        self.numbers: list[Any] = [self.known.values[p] for p in params]
        self.origins: dict[int, Expr] = {}
        self.extent_of: dict[int, Expr] = {}
        self.lows: dict[tuple[Any, int], Expr] = {}
        self.extents_known: dict[Expr, Expr] = {}
        plans = [self._plan(scope) for scope in self.shape.scopes]
        rest = self._plan(_Scope(self._others(), ()))
        self._inputs()
        memos = [self._rewritten(*plan) for plan in plans]
        self.memo = self._rewritten(*rest)
        made = self._made(memos)
        used = {
            e
            for n in graph.topological(made.leaves)
            for e in ex.walk((*n.expressions(), *n.host_expressions()))
            if isinstance(e, ex.Param)
        }
        numbered = [(p, v) for p, v in zip(self.params, self.numbers, strict=True) if p in used]
        program = BlockProgram.over(
            made.leaves,
            self.engine,
            [b.input for b in self.buffers.values()],
            [p for p, _ in numbered],
            self.node.label.operation,
        )
        self.numbers = [v for _, v in numbered]
        results = []
        for output, axes in zip(self.node.outputs, self.shape.results, strict=True):
            shape = extents_of(output.shape, self.known, self.node)
            along = tuple(
                self.axes[k] if k is not None and self.axes[k].is_cut else None for k in axes
            )
            results.append(Result(shape, along, output.type))
        return Blocks(
            self.node,
            program,
            list(self.buffers.values()),
            results,
            self.axes,
            self.numbers,
            self.notes,
        )

    def _others(self) -> tuple[Expr, ...]:
        """The expressions outside the domain: combinations and initial values."""
        node, found = self.node, list[Expr]()
        combine = getattr(node, "combine", None)
        if combine is not None:
            found += combine.results
        found += getattr(node, "init", None) or ()
        if isinstance(node, graph.Permute):
            found += [e for leaf in node.defaults for e in leaf.shape]
        return tuple(found)

    def _plan(self, scope: _Scope) -> tuple[_Scope, dict[ex.Read, tuple[Any, list[Any]]]]:
        """Find the buffers of the reads in a scope: each read's buffer key and `Reading`s."""
        axes = {j: self.axes[k] for j, k in enumerate(scope.axes)}
        spans = Spans(axes, self.known, scope.roots, self.constants)
        found: dict[ex.Read, tuple[Any, list[Any]]] = {}
        for read in reads_of(scope.roots):
            leaf = Leaf(read.node, read.component)
            shape = extents_of(leaf.shape, self.known, self.node)
            ways, lows, highs, periodic = [], [], [], []
            for a, e in enumerate(read.args):
                way, low, high, wraps = self._way(scope, spans, read, a, e, shape[a])
                ways.append(way)
                lows.append(low)
                highs.append(high)
                periodic.append(wraps)
            key = (leaf, tuple(replace(w[0]) for w in ways))
            had = self.buffers.get(key)
            if had is None:
                one = tuple(isinstance(e, ex.Const) and e.value == 1 for e in leaf.shape)
                made = graph.Input(f"in{len(self.buffers)}", leaf.type, one, kind="argument")
                self.buffers[key] = Buffer(leaf, made, lows, highs, periodic)
            else:
                had.low = [np.minimum(x, y) for x, y in zip(had.low, lows, strict=True)]
                had.high = [np.maximum(x, y) for x, y in zip(had.high, highs, strict=True)]
            found[read] = key, [w[1] for w in ways]
        return scope, found

    def _way(
        self, scope: _Scope, spans: Spans, read: ex.Read, a: int, e: Expr, extent: int
    ) -> tuple[tuple[Reading, int], Numbers, Numbers, bool]:
        """How the index of a read along an axis is computed, its offset, and its range."""
        zero, full = np.zeros((), np.int64), np.asarray(np.int64(extent))
        near = self._near(scope, read, a, extent)
        if near is not None:
            k = scope.axes[near.axis]
            axis = self.axes[k]
            return (Reading("near", k), near.offset), axis.low, axis.high, axis.periodic
        unwrapped = self._unwrapped(read, a)
        around = unwrapped is not None
        # (Narrower integers may wrap around, which would put other indices out of range.)
        free = around or read.boundary is not None
        if free and (extent <= 1 or any(x.type is not int64 for x in ex.walk((e,)))):
            return (Reading("whole"), 0), zero, full, False
        e = e if unwrapped is None else unwrapped
        found = follows(e, self.known)
        if found is not None and found.axis < len(scope.axes):
            k = scope.axes[found.axis]
            axis = self.axes[k]
            moved = found.value + found.offset
            moved = moved if abs(moved) < MOST_INDEX else MOST_INDEX
            low, high = axis.low + moved, axis.high + moved
            inside = bool((low >= 0).all() and (high <= extent).all()) and read.boundary is None
            if around:
                inside = bool((high - low <= extent).all()) and moved != MOST_INDEX
            if inside and axis.is_cut:
                return (Reading("offset", k, found.rest, around), found.offset), low, high, around
        ends = spans.of(e)
        form = e if found is None else (found.axis, found.rest)
        if ends is not None and around and spread(*ends) < extent:
            return (Reading("image", -1, form, True), 0), ends[0], ends[1] + 1, True
        if ends is None or around:
            return (Reading("whole"), 0), zero, full, False
        low, high = needed(*ends, extent, read.boundary)
        if low.size == 1 and high.size == 1 and 2 * int((high - low).max(initial=0)) >= extent:
            return (Reading("whole"), 0), zero, full, False
        return (Reading("image", -1, form), 0), low, high, False

    def _number(self, name: str, value: Any) -> Expr:
        """A new run-time number; a constant if it is 0 in all blocks."""
        if not np.any(value):
            return at.integer(0)
        made = ex.Param(name, int64)
        self.params.append(made)
        self.numbers.append(value)
        return made

    def _inputs(self) -> None:
        """The buffers' shapes, and the blocks' numbers; buffers share a domain axis's extent."""
        for k, axis in enumerate(self.axes):
            self.origins[k] = self._number(f"origin{k}", axis.low) if axis.is_cut else at.integer(0)
        for key, buffer in self.buffers.items():
            shape = list(buffer.input.shape)
            for a, way in enumerate(key[1]):
                if isinstance(shape[a], ex.Const):
                    continue
                same = way.kind in ("near", "offset") and np.array_equal(
                    buffer.high[a] - buffer.low[a],
                    self.axes[way.axis].high - self.axes[way.axis].low,
                )
                if way.kind == "whole" or not same:
                    continue
                domain = self.shape.extents[way.axis]
                if isinstance(domain, ex.Const) and not self.axes[way.axis].is_cut:
                    continue
                shape[a] = self.extent_of.setdefault(way.axis, shape[a])
            buffer.input.of_shape(tuple(shape))
            for a, way in enumerate(key[1]):
                if way.kind == "image":
                    self.lows[key, a] = self._number(f"low{len(self.lows)}", buffer.low[a])
        for k, axis in enumerate(self.axes):
            if k in self.extent_of:
                continue
            written = self.shape.extents[k]
            if isinstance(written, ex.Const) and not axis.is_cut:
                self.extent_of[k] = written
                continue
            made = ex.Param(f"extent{k}", int64)
            self.params.append(made)
            self.numbers.append(axis.high - axis.low)
            self.extent_of[k] = made

    def _whole_extent(self, e: Expr) -> Expr:
        """An extent of a whole array as a number."""
        if e not in self.extents_known:
            made = ex.Param("n", int64)
            self.params.append(made)
            self.numbers.append(np.asarray(np.int64(self.known.number(e) or 0)))
            self.extents_known[e] = made
        return self.extents_known[e]

    def _rewritten(
        self, scope: _Scope, reads: Mapping[ex.Read, tuple[Any, list[Any]]]
    ) -> dict[Expr, Expr]:
        """The expressions of a scope as those of a block."""

        def change(e: Expr, memo: dict[Expr, Expr]) -> Expr | None:
            if isinstance(e, ex.Index):
                return e + self.origins[scope.axes[e.axis]]
            if isinstance(e, ex.Extent):
                return self._whole_extent(e)
            return self._read(scope, e, *reads[e], memo) if isinstance(e, ex.Read) else None

        return rewritten(scope.roots, change)

    def _read(
        self,
        scope: _Scope,
        read: ex.Read,
        key: Any,
        offsets: Sequence[int],
        memo: Mapping[Expr, Expr],
    ) -> ex.Read:
        buffer = self.buffers[key]
        args: list[Expr] = []
        # Variables of boundary functions, shared by buffers with different origins.
        moved: dict[Expr, Expr] = {
            v: v + (self.origins[way.axis] if way.kind == "near" else self.lows[key, a])
            for a, (v, way) in enumerate(zip(read.vars, key[1], strict=False))
            if way.kind != "whole"
        }
        boundary = read.boundary
        if boundary == WRAP and all(w.periodic or (w.kind == "near" and not c)
                                    for w, c in zip(key[1], offsets, strict=True)):  # fmt: skip
            boundary = None
        for a, (e, way, offset) in enumerate(zip(read.args, key[1], offsets, strict=True)):
            if way.kind in ("near", "offset"):  # simplify: n - 1 - (n - 1 - i) is i for any n
                first = 0 if way.kind == "near" else self._least(key, a)
                args.append(ex.Index(scope.axes.index(way.axis)) + (offset - first))
            elif way.kind == "image":
                unwrapped = self._unwrapped(read, a) if way.periodic else None
                args.append(memo[unwrapped or e] - self.lows[key, a])
            else:
                args.append(memo[e])
        scoped = ex.substitute([memo[e] for e in read.scoped], moved)
        return ex.Read(buffer.input, 0, tuple(args), boundary, scoped, read.vars)

    def _least(self, key: Any, a: int) -> int:
        """The smallest offset among the reads of a buffer along an axis."""
        way: Reading = key[1][a]
        rest = sum(self._rest(way))
        difference = self.buffers[key].low[a] - self.axes[way.axis].low
        return int(difference.flat[0]) - rest

    def _rest(self, way: Reading) -> list[int]:
        found = []
        for atoms, count in way.rest:
            for atom in atoms:
                count *= self.known.number(atom) or 0
            found.append(count)
        return found

    def _made(self, memos: Sequence[dict[Expr, Expr]]) -> Node:
        node, rest = self.node, self.memo
        sizes = tuple(self.extent_of[k] for k in range(len(self.axes)))
        changes: dict[str, Any] = {
            name: sizes[axes] if isinstance(axes, int) else tuple(sizes[k] for k in axes)
            for name, axes in self.shape.sizes.items()
        }
        for memo, scope in zip(memos, self.shape.scopes, strict=True):
            for name in scope.fields:
                value = getattr(node, name)
                found = tuple(memo[e] for e in _as_roots(value))
                if isinstance(value, Leaf):
                    (read,) = found
                    assert isinstance(read, ex.Read)
                    changes[name] = Leaf(read.node, read.component)
                else:
                    changes[name] = found if isinstance(value, tuple) else found[0]
        if (combine := getattr(node, "combine", None)) is not None:
            results = tuple(rest[e] for e in combine.results)
            changes["combine"] = graph.Combine(combine.left, combine.right, results)
        if (init := getattr(node, "init", None)) is not None:
            changes["init"] = tuple(rest[e] for e in init)
        if isinstance(node, graph.Permute):
            # Start from the identity: the defaults are combined with all results later.
            neutral = () if node.combine is None else identities(node.combine) or ()
            empty = [
                graph.Generate(
                    tuple(rest[e] for e in leaf.shape), (value,), label=graph.Label("fill")
                )
                for leaf, value in zip(node.defaults, neutral, strict=True)
            ]
            changes["defaults"] = tuple(leaf for e in empty for leaf in e.leaves)
        if isinstance(node, graph.Library):
            changes["arguments"] = tuple(
                of_constant_extents(memo[scope.roots[0]], tuple(sizes[j] for j in scope.axes))
                for memo, scope in zip(memos, self.shape.scopes, strict=True)
            )
            changes["outs"] = tuple(
                graph.Output(tuple(sizes[k] for k in axes if k is not None), o.type)
                for o, axes in zip(node.outs, self.shape.results, strict=True)
            )
        return type(node)(
            *[changes.get(f, getattr(node, f)) for f in node.fields],
            label=self.label,
            where=node.where,
        )


def rewritten(
    roots: Iterable[Expr], change: Callable[[Expr, dict[Expr, Expr]], Expr | None],
    memo: dict[Expr, Expr] | None = None,
) -> dict[Expr, Expr]:  # fmt: skip
    """A rewriting of expressions and their subexpressions, as a map.  `change` returns the
    replacement, given those of the subexpressions, or None to rebuild the expression from them."""
    memo = {} if memo is None else memo
    for e in ex.walk(roots):
        if e in memo:
            continue
        made = change(e, memo)
        if made is None and (e.args or e.scoped):
            made = e.rebuild(tuple(memo[c] for c in e.args), tuple(memo[c] for c in e.scoped))
        memo[e] = e if made is None else made
    return memo
