"""How a thread of a stencil reads the rows of a step.

Reads of one row of an array at neighbouring columns use the wide accesses that cover them: complete
groups of `columns` elements, the thread's own and its neighbours'.  At the border, groups beyond an
edge are replaced by existing ones, and the threads at the edge select the values that the boundary
specifies from the loaded elements:

    clamp, column −2 of the leftmost thread      group −1 is read at group 0;  x[−2] = x[0]
    wrap                                          group −1 is the last group of the row

so that a warp at the border takes about as long as one inside.  Other reads (unusual indices,
function boundaries, single columns) are resolved and read element by element.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from treadle.dsl import simplify
from treadle.dsl.expr import Expr, Read, Var, split_constant, walk
from treadle.dsl.graph import Leaf
from treadle.dsl.operations.stencils import resolve_index

from ...ir import arithmetic as at
from ...ir.linearize import Linearizer
from ..gpu.common import WIDEST, load_vector, multiples

if TYPE_CHECKING:
    from .gpu_kernel import StencilKernel

#: Inside, wide accesses cover reads that need at least so many of their elements.
LEAST_WIDE = 2
#: Boundaries whose values at an edge are values of the row, near it.
FOLDED = ("clamp", "mirror", "symmetric")

#: The array, the indices but the last, the boundary and its value.
_Row = tuple[Leaf, tuple[Expr, ...], str | None, tuple[Expr, ...]]


def folded(boundary: str, depth: int) -> int:
    """The distance inside the edge of the value for an index `depth` ≥ 1 outside."""
    return {"clamp": 0, "mirror": depth, "symmetric": depth - 1}[boundary]


class Loads:
    """The wide loads of one strip, where everything is in range (`inside`) or at the border."""

    def __init__(self, stencil: StencilKernel, inside: bool) -> None:
        self.stencil, self.inside = stencil, inside
        self.columns = stencil.part.columns

    def start(self, into: Linearizer) -> None:
        """Whether the thread is at an edge, for all steps."""
        stencil = self.stencil
        if not self.inside and self.columns > 1:
            column = stencil.indices[-1]
            last = stencil.extents[-1] - self.columns
            self.leftmost = into.let(at.equal(column, 0), "leftmost")
            self.rightmost = into.let(at.equal(column, last), "rightmost")
            self.before = into.let(at.maximum(column - self.columns, 0), "before")
            self.after = into.let(at.minimum(column + self.columns, last), "after")

    def takes(self, e: Expr) -> bool:
        """Whether `load` finds a value for this read of the border as it is written."""
        stencil, builder = self.stencil, self.stencil.builder
        if self.inside or not isinstance(e, Read) or not e.args:
            return False
        leaf = Leaf(e.node, e.component)
        rest, offset = split_constant(e.args[-1])
        return (
            self.columns > 1
            and rest is stencil.base[-1]
            and -self.columns <= offset < 2 * self.columns
            and (e.boundary in (None, "wrap", "constant") or e.boundary in FOLDED)
            and builder.same(leaf.shape[-1], stencil.domain[-1])
            and self._fits(leaf, e.args[:-1])
        )

    def _fits(self, leaf: Leaf, lead: Iterable[Expr]) -> bool:
        """Whether rows of an array consist of whole aligned groups, each of one access."""
        builder = self.stencil.builder
        return (
            leaf not in builder.context.strided
            and 1 < self.columns <= WIDEST // leaf.type.bytes
            and multiples(leaf.shape[-1], self.columns, builder) is not None
            and not any(x is self.stencil.base[-1] for x in walk(lead))
        )

    def fetch(self, into: Linearizer, roots: Sequence[Expr], known: Iterable[Expr]) -> list[Expr]:
        """The wide accesses for `roots`: the elements as they are in memory, for `use`."""
        found: list[Expr] = []
        rows = self._rows(roots, known)
        starts = zip(*(_offsets(lead) for _, lead, _, _ in rows), strict=False)
        top = [min(offsets) for offsets in starts]
        for row, reads in rows.items():
            leaf, lead, boundary, _ = row
            indices = self._indices(into, leaf, lead, boundary)
            buffer = self.stencil.builder.input(leaf)
            for group in self._groups(reads, boundary):
                start = self._start(into, group, boundary)
                where = self.stencil.builder.position(leaf, (*indices, start))
                found += load_vector(
                    into, buffer, where, self.columns, which=_name(lead, top, group)
                )
        return found

    def use(self, into: Linearizer, roots: Sequence[Expr], known: Iterable[Expr],
            fetched: Sequence[Expr]) -> set[Expr]:  # fmt: skip
        """From here on, the reads of `roots` are what was fetched for them: these reads."""
        start, taken = 0, set[Expr]()
        for row, reads in self._rows(roots, known).items():
            values: dict[int, Expr] = {}
            for group in self._groups(reads, row[2]):
                for k in range(self.columns):
                    values[group * self.columns + k] = fetched[start + k]
                start += self.columns
            self._bind(into, row, reads, values)
            taken |= {read for offset, read in reads.items() if offset in values}
            leaf = row[0]
            whole = multiples(leaf.shape[-1], self.columns, self.stencil.builder)
            assert whole is not None, "`_fits` lets only whole groups through"
            self.stencil.requires += whole
            self.stencil.aligned[self.stencil.builder.input(leaf)] = None
        return taken

    def _rows(self, roots: Sequence[Expr], known: Iterable[Expr]) -> dict[_Row, dict[int, Expr]]:
        """The reads under `roots`, unconditional and not known, by the row that they read."""
        rows: dict[_Row, dict[int, Expr]] = {}
        if self.columns == 1:
            return rows
        seen, stack = set(known), list(roots)
        while stack:
            e = stack.pop()
            if e in seen:
                continue
            seen.add(e)
            stack.extend(e.args)
            if isinstance(e, Read) and e.args and (self.inside or self.takes(e)):
                rest, offset = split_constant(e.args[-1])
                leaf = Leaf(e.node, e.component)
                if rest is self.stencil.base[-1] and self._fits(leaf, e.args[:-1]):
                    key = (leaf, e.args[:-1], e.boundary, e.scoped)
                    rows.setdefault(key, {})[offset] = e
        found = {row: reads for row, reads in rows.items() if self._groups(reads, row[2])}
        return dict(sorted(found.items(), key=lambda item: _offsets(item[0][1])))

    def _groups(self, reads: dict[int, Expr], boundary: str | None) -> list[int]:
        """The groups of columns to load for these reads."""
        if not self.inside:
            needed = set(reads)
            if boundary in FOLDED:
                needed |= {self._stands_for(str(boundary), o) for o in reads}
            return sorted({o // self.columns for o in needed})
        used = Counter(o // self.columns for o in reads)
        return sorted(g for g, n in used.items() if n >= LEAST_WIDE)

    def _indices(self, into: Linearizer, leaf: Leaf, lead: tuple[Expr, ...], boundary: str | None
                 ) -> list[Expr]:  # fmt: skip
        """All indices of a row but the last, of positions that exist."""
        emitted = list(into.emit(lead))
        if self.inside:
            return emitted
        kind = str(boundary) if boundary in (*FOLDED, "wrap") else "clamp"
        rows = zip(lead, emitted, leaf.shape, self.stencil.builder.shape(leaf.shape), strict=False)
        return [
            into.let(into.value(resolve_index(kind, index, n)), "at")
            if _varies(index) and not self.stencil.is_own(e, extent) else index
            for e, index, extent, n in rows
        ]  # fmt: skip

    def _start(self, into: Linearizer, group: int, boundary: str | None) -> Expr:
        """The first column of a group."""
        column = self.stencil.indices[-1]
        moved = column + group * self.columns
        if self.inside or group == 0:
            return moved
        if boundary == "wrap":
            return into.let(moved % self.stencil.extents[-1], "column")
        return self.before if group < 0 else self.after

    def _bind(self, into: Linearizer, row: _Row, reads: dict[int, Expr],
              values: dict[int, Expr]) -> None:  # fmt: skip
        """The value of each read, given the elements of its row."""
        leaf, lead, boundary, outside = row
        if self.inside:
            into.bind({read: values[o] for o, read in reads.items() if o in values})
            return
        other = into.emit(outside)
        whole = None
        if boundary == "constant":
            extents = self.stencil.builder.shape(leaf.shape)
            axes = zip(lead, into.emit(lead), leaf.shape, extents, strict=False)
            ok = [at.in_range(index, n) for e, index, extent, n in axes
                  if _varies(index) and not self.stencil.is_own(e, extent)]  # fmt: skip
            whole = into.let(at.both(*ok), "inside")
        for offset, read in reads.items():
            value = values[offset]
            if offset // self.columns != 0 and boundary not in (None, "wrap"):
                edge = self.leftmost if offset < 0 else self.rightmost
                folds = boundary in FOLDED
                instead = values[self._stands_for(str(boundary), offset)] if folds else other[0]
                value = simplify.select(edge, instead, value)
            if whole is not None:
                value = simplify.select(whole, value, other[0])
            into.bind({read: into.let(value, "x")})

    def _stands_for(self, boundary: str, offset: int) -> int:
        """The offset that an offset beyond the edge stands for, in the thread at that edge."""
        if offset < 0:
            return folded(boundary, -offset)
        if offset >= self.columns:
            return self.columns - 1 - folded(boundary, offset - self.columns + 1)
        return offset


def _offsets(lead: Sequence[Expr]) -> list[int]:
    """The distance of a row from the thread's own index, along each axis but the last."""
    return [split_constant(index)[1] for index in lead]


def _name(lead: Sequence[Expr], top: Sequence[int], group: int) -> str:
    """What a piece of a row is called: `2_right` is two rows below the topmost, to the right."""
    pairs = zip(_offsets(lead), top, strict=False)  # arrays of several ranks: as far as they go
    rows = [str(here - least) for here, least in pairs]
    side = {0: [], -1: ["left"], 1: ["right"]}.get(group, [f"right{group}"])
    return "_".join([*rows, *side]) or "own"


def _varies(index: Expr) -> bool:
    return any(isinstance(x, Var) for x in walk((index,)))
