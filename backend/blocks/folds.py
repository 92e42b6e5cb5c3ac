"""Rules for folds whose elements lie in several blocks: full folds, folds along rows or columns of
several chunks, and those in matrix products; and segmented folds of one row, in blocks of whole
segments."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from treadle.dsl.analysis.combines import identities, is_commutative, simple_combine
from treadle.dsl.expr import Expr, Extent, Index, constant, substitute
from treadle.dsl.graph import Combine, Fold, FoldSeg, Generate, Label, Leaf, Matmul, Shape, indices
from treadle.dsl.node import LEAVES, PARTIALS, result_variables
from treadle.dsl.operations.indexing.row_major import delinear
from treadle.dsl.program import TracedProgram
from treadle.dsl.types import int64
from treadle.skeletons.ir import arithmetic as at
from treadle.skeletons.lower.fold.rows import goes_across, runs_across

from .domain import Axis, Known, edges, even, halves, reads_of, whole_parts
from .engine import BLOCK, Engine
from .leaves import Leaves, together
from .localise import Blocks, NoRule, Result, extents_of
from .memory import projected
from .scans import Scans
from .sorting import Add, Constant, Writer

#: Bytes of row totals that one task combines.
FEW = 1 << 20


class Folds(Scans, ABC):
    """Rules of folds."""

    def __init__(self, program: TracedProgram, engine: Engine, known: Known) -> None:
        super().__init__(program, engine, known)
        self.instead: dict[Fold, Fold] = {}
        #: The partial results of blocks for each fold, and the sizes of the blocks.
        self.partial: dict[Fold, tuple[Leaf, tuple[int, ...]]] = {}

    @abstractmethod
    def _fold(self, node: Fold) -> None:
        """Any fold: the planner's rule, which chooses among those of this class."""

    def _partials(self, node: Fold, cut_axes: Sequence[int]) -> None:
        """Fold rows' parts in every block, then combine them, where grouping does not matter."""
        outer = len(node.outer)
        bare = node.with_(
            init=None,
            results=result_variables(node.elements),
            epilogue=result_variables(node.elements),
            checks=(),
        )
        free = (*range(outer), *cut_axes)
        local = self._local(bare, free=free)
        if any(local.axes[k].before or local.axes[k].after for k in cut_axes):
            # Elements in a halo, which are wrong, would be folded too.
            self._fold(self._stored(node))
            return
        blocks = local.blocks(self.program.params)
        axes = [a for k, a in enumerate(blocks.axes) if k in cut_axes]
        partial = self._per_block(blocks, axes)
        if len(extents_of(bare.inner, self.known, node)) == 1:
            self.partial[self.instead.get(node, node)] = partial[0], axes[0].sizes
        index = indices(outer + len(axes))
        counts = tuple(Extent(partial[0].node, outer + k) for k in range(len(axes)))
        total = Fold(
            node.outer,
            counts,
            tuple(p.at(*index) for p in partial),
            node.combine,
            node.init,
            node.results,
            node.epilogue,
            label=node.label,
            where=node.where,
        )
        self._instead(total, node)

    def _leaves(self, node: Fold) -> None:
        """A sum of floats: the leaves in blocks, then their combination."""
        found = Leaves(node, self.known, self.engine, self.program.params)
        sizes = found.sizes(self.plan.chunks)
        if len(sizes) <= 1:
            raise NoRule("it has one block of leaves")
        if self.engine.gathers:  # if rows have chunks of their own, there may be many leaves
            while max(sizes) > 1 and not self._fits(found.blocks(sizes)):
                sizes = halves(sizes)
        parts = []
        for blocks in (found.blocks(sizes), *([found.rest()] if found.count % found.leaf else [])):
            parts.append(self._results_of(blocks))
        self._instead(found.combined(parts[0], parts[1] if len(parts) > 1 else None), node)

    # --- sums of floats of any elements ---

    def _rows(self, node: Fold) -> None:
        """A full sum of floats whose elements depend on their index or read other elements: the
        leaves of its kernel, then their combination."""
        count = prod(extents_of(node.inner, self.known, node))
        found = None if node.outer else self.engine.leaves(node, count)
        if found is None:
            raise NoRule("how its elements are grouped is not known")
        fold, size, in_order = found
        extents = extents_of(fold.inner, self.known, node)
        axes = self._local(fold, free=tuple(range(len(extents)))).axes
        rows = range(len(extents) if len(extents) == 1 else len(extents) - 1)
        if prod(extents) <= size or all(len(axes[k].sizes) == 1 for k in rows):
            raise NoRule("it has one block of leaves")
        if not in_order and (not is_commutative(fold.combine) or goes_across(_of_rows(fold))):
            raise NoRule("its kernel does not go along rows")
        instead = self.instead.get(node, node)
        bounded = any(read.boundary is not None for read in reads_of(fold.elements))
        stored = len(extents) > 1 if in_order else extents[-1] > size
        if (stored and (in_order or bounded)) or (in_order and bounded):
            fold = self._stored(fold)
            self.instead[fold] = instead
        if in_order and len(extents) > 1:  # in the order of an array, now
            try:
                self._leaves(fold)
            except NoRule:
                self._takes(self._plain(fold), instead)
            return
        if in_order:
            leaves, count = self._of_parts(
                fold, extents, size, {0: whole_parts(axes[0].sizes, size)}
            )
        elif extents[-1] > size:
            leaves, count = self._of_parts(fold, extents, size, None)
        else:
            leaves, count = self._of_groups(fold, extents, size)
        self._takes(self._plain(together(fold, leaves, constant(count))), instead)

    def _of_parts(self, fold: Fold, extents: Sequence[int], size: int,
                  sizes: Mapping[int, tuple[int, ...]] | None
                  ) -> tuple[tuple[Expr, ...], int]:  # fmt: skip
        """Leaves of `size` elements of rows, by their number; and how many there are."""
        *lead, run = extents
        last, (full, rest) = len(lead), divmod(run, size)
        shape, here = fold.inner[:-1], Index(last) * size
        moved: dict[Expr, Expr] = {Index(last): here + Index(last + 1)}
        whole = _leaves_of(fold, (*shape, constant(full)), size, moved)
        self._plain(whole, sizes)
        count = full + bool(rest)
        *row, part = delinear(Index(0), (*map(constant, lead), constant(count)))
        elements: tuple[Expr, ...] = tuple(leaf.at(*row, part) for leaf in whole.leaves)
        if rest:
            ends = _leaves_of(fold, shape, rest, {Index(last): Index(last) + full * size})
            self._plain(ends)
            short = tuple(leaf.at(*row) for leaf in ends.leaves)
            elements = at.choose(at.less(part, full), elements, short)
        if not lead:
            return elements, count
        # The kernel adds each to the neutral element, as it adds several rows.
        count *= prod(lead)
        alone = _in_order(fold, (constant(count),), 1, elements)
        self._plain(alone)
        return tuple(leaf.at(Index(0)) for leaf in alone.leaves), count

    def _of_groups(self, fold: Fold, extents: Sequence[int], size: int
                   ) -> tuple[tuple[Expr, ...], int]:  # fmt: skip
        """Leaves of complete rows with `size` elements in total; and how many there are."""
        *lead, run = extents
        each = max(size // run, 1)
        full, rest = divmod(prod(lead), each)
        rows = _of_rows(fold)
        self._plain(rows)
        sizes, shape = None, tuple(map(constant, lead))
        if prod(lead) * sum(leaf.type.numpy.itemsize for leaf in rows.leaves) > FEW:
            width = prod(lead[1:])
            ends = [n * width for n in self.plan.chunks[rows.leaves[0]][0]]
            sizes = {0: whole_parts(ends, each)}

        def group(shape_: Shape, count: int, position: Expr) -> Fold:
            row = delinear(position, shape)
            return _in_order(fold, shape_, count, [leaf.at(*row) for leaf in rows.leaves])

        position = Index(0) * each + Index(1)
        whole = group((constant(full),), each, position)
        self._plain(whole, sizes)
        elements: tuple[Expr, ...] = tuple(leaf.at(Index(0)) for leaf in whole.leaves)
        if rest:
            end = group((constant(1),), rest, position + full * each)
            self._plain(end)
            short = tuple(leaf.at(at.integer(0)) for leaf in end.leaves)
            elements = at.choose(at.less(Index(0), full), elements, short)
        return elements, full + bool(rest)

    def _parts(self, node: Fold) -> None:
        """Float sums along cut rows or columns: partial sums, grouped as in the whole kernel."""
        outer, inner = len(node.outer), node.inner
        if not outer or len(inner) != 1 or identities(node.combine) is None:
            raise NoRule("it is not a plain sum of rows or columns")
        extents = extents_of((*node.outer, *inner), self.known, node)
        size = self.engine.part(node, extents)
        if size is None:
            raise NoRule("its rows are not folded in parts")
        ends = self._local(node, free=tuple(range(outer + 1))).axes[outer].sizes
        if len(ends) == 1:
            raise NoRule("its rows are complete in a block")
        if any(read.boundary is not None for read in reads_of(node.elements)):
            self._fold(self._stored(node))
            return
        columns = runs_across(node)
        axis, (full, rest) = 0 if columns else outer, divmod(extents[outer], size)
        known = result_variables(node.elements)

        def fold(shape: Shape, count: int, moved: Mapping[Expr, Expr]) -> Fold:
            elements = substitute(node.elements, dict(moved))
            return Fold(shape, (constant(count),), elements, node.combine, None, known, known,
                        label=Label(LEAVES, node.label.called), where=node.where)  # fmt: skip

        shape = (*node.outer[:axis], constant(full), *node.outer[axis:])
        moved: dict[Expr, Expr] = {Index(k): Index(k + columns) for k in range(outer)}
        moved[Index(outer)] = Index(axis) * size + Index(outer + 1)
        whole = fold(shape, size, moved)
        sizes = {axis: whole_parts(ends, size)}
        within = range(outer - (columns and self.engine.single))
        free = tuple(range(len(within) + 1))
        local = self._local(whole, sizes, free)
        blocks = local.blocks(self.program.params)
        if (
            columns and not self.engine.single
            and all(len(local.axes[k].sizes) == 1 for k in free[1:])
            and projected(blocks) > min(self.engine.allowed, BLOCK)
        ):  # fmt: skip
            # All columns of a leaf are more than a block.  (Files have whole rows.)
            each = size * max(leaf.type.numpy.itemsize for leaf in whole.leaves)
            narrow = self.engine.choose(extents[:outer], each)
            local = self._local(whole, sizes | dict(enumerate(narrow, 1)), free)
            blocks = local.blocks(self.program.params)
        self._add(blocks, list(whole.leaves))
        at_row = indices(outer + 1)
        read = (at_row[outer], *at_row[:outer]) if columns else at_row
        elements: tuple[Expr, ...] = tuple(leaf.at(*read) for leaf in whole.leaves)
        if rest:
            last = fold(node.outer, rest, {Index(outer): Index(outer) + full * size})
            self._add(self._local(last, free=within).blocks(self.program.params), list(last.leaves))
            ends_ = tuple(leaf.at(*at_row[:outer]) for leaf in last.leaves)
            elements = at.choose(at.less(at_row[outer], full), elements, ends_)
        total = Fold(node.outer, (constant(full + bool(rest)),), elements, node.combine,
                     node.init, node.results, node.epilogue,
                     label=Label(PARTIALS, node.label.called), where=node.where)  # fmt: skip
        blocks = self._local(total, free=within).blocks(self.program.params)
        stage = self._add(blocks, list(total.leaves))
        self._takes(stage, self.instead.get(node, node))

    def _instead(self, total: Fold, node: Fold) -> None:
        """Plan a fold whose results are those of `node`."""
        self._as(total, self.instead.get(node, node))

    def _stored(self, node: Fold) -> Fold:
        """The same fold over elements that a separate stage computes and stores."""
        shape = (*node.outer, *node.inner)
        made = Generate(shape, node.elements, label=Label("elements"), where=node.where)
        self._plain(made)
        index = indices(len(shape))
        stored = node.with_(elements=tuple(leaf.at(*index) for leaf in made.leaves))
        self.instead[stored] = node
        return stored


def _leaves_of(fold: Fold, shape: Shape, count: int, moved: Mapping[Expr, Expr]) -> Fold:
    """A fold with results of this shape, each of `count` elements."""
    known = result_variables(fold.elements)
    label = Label(LEAVES, fold.label.called, None, fold.label.deterministic)
    elements = substitute(fold.elements, dict(moved))
    return Fold(shape, (constant(count),), elements, fold.combine, None, known, known, label=label,
                where=fold.where)  # fmt: skip


def _of_rows(fold: Fold) -> Fold:
    """The rows of a full fold as several rows: one short row alone has another order."""
    known, last = result_variables(fold.elements), len(fold.inner) - 1
    elements = substitute(fold.elements, {Index(last): Index(last + 1)})
    return Fold(fold.inner[:-1], (constant(1), fold.inner[-1]), elements, fold.combine, None, known,
                known, label=Label(LEAVES, fold.label.called), where=fold.where)  # fmt: skip


def _in_order(fold: Fold, shape: Shape, count: int, elements: Sequence[Expr]) -> Fold:
    """A fold of `count` elements per result from left to right, starting from the identity."""
    known = result_variables(fold.elements)
    label = Label(PARTIALS, fold.label.called, None, True)
    return Fold(shape, (constant(count),), tuple(elements), fold.combine, None, known, known,
                label=label, where=fold.where)  # fmt: skip


@dataclass
class Segments:
    """Makes a segmented fold's blocks; `add` adds earlier stages, `constant` arrays of numbers."""

    node: FoldSeg
    known: Known
    engine: Engine
    add: Add
    constant: Constant

    def blocks(self, stored: Sequence[Leaf], sizes: Sequence[int], segments: int) -> Blocks:
        """The last stage: the folds, before the epilogue.

        `stored`: the components of the elements, arrays with chunks of these sizes.  All blocks
        have the same number of segments; their numbers of elements follow from the offsets, once
        these are computed.
        """
        node, extent = self.node, sum(sizes)
        along = Axis(segments, even(segments, len(sizes)), 0, rank=1)
        windows = self._windows(along, sizes, segments)
        writer = Writer(self.engine, node, node.label.name)
        share = extent * (along.high - along.low) // segments + 1
        most = share.clip(max=extent // 2) * 2
        values = [writer.reads(x, [0 * most], [most], windows) for x in stored]
        offsets = writer.reads(node.offsets, [along.low], [along.high + 1])
        count = writer.number("segments", along.high - along.low)
        # Offsets relative to the first element of the block.
        moved = offsets.at(Index(0)) - offsets.at(at.integer(0))
        own = Generate((count + 1,), (moved,), label=Label("offsets"))
        inside = (*node.combine.results, *(node.init or ()))
        rewritten = writer.all_numbers(inside, self.known)
        combine = Combine(
            node.combine.left, node.combine.right, substitute(node.combine.results, rewritten)
        )
        init = None if node.init is None else substitute(node.init, rewritten)
        made = FoldSeg(
            (),
            count,
            values[0].shape[0],
            own.leaf(),
            tuple(v.at(Index(0)) for v in values),
            combine,
            init,
            label=Label(node.label.operation, node.label.name, None, node.label.deterministic),
            where=node.where,
        )
        results = [Result((segments,), (along,), e.type) for e in node.elements]
        blocks = writer.made(made.leaves, results, along)
        blocks.notes.append("every block takes the elements of its segments from all chunks")
        return blocks

    def _windows(self, along: Axis, sizes: Sequence[int], segments: int) -> Leaf:
        """The elements of each block in each chunk, [block, chunk, first and last + 1]."""
        count, chunks = along.count, len(sizes)
        writer = Writer(self.engine, self.node, "segments of blocks")
        offsets = writer.all(self.node.offsets, segments + 1)
        firsts = [*along.start.reshape(-1).tolist(), segments]
        first = writer.all(self.constant(firsts), count + 1)
        ends = writer.all(self.constant(edges(sizes)), chunks + 1)
        block, chunk, side = (Index(k) for k in range(3))
        edge = offsets.at(first.at(block + side))
        low, high = ends.at(chunk), ends.at(chunk + 1)
        inside = at.minimum(at.maximum(edge, low), high)
        shape = tuple(map(at.integer, (count, chunks, 2)))
        made = Generate(shape, (inside,), label=Label("windows"))
        result = Result((count, chunks, 2), (None,) * 3, int64)
        (found,) = self.add(writer.made(made.leaves, [result], None))
        return found


#: The smallest parts of a sum to try.
LEAST = 16


@dataclass
class Parts:
    """A product whose sum of `count` terms is cut into parts of `size` terms: the `whole` parts as
    a leading axis, the `rest`, and the fold that adds them."""

    whole: Matmul
    rest: Matmul | None
    total: Fold


def parts(node: Matmul, size: int, count: int) -> Parts:
    full, left = divmod(count, size)
    batch = len(node.batch)
    before: dict[Expr, Expr] = {Index(k): Index(k) for k in range(batch)}
    at_part = Index(batch) * size + Index(batch + 2)
    # The operands have indices (batch…, row, k) and (batch…, k, column).
    rows = {**before, Index(batch): Index(batch + 1), Index(batch + 1): at_part}
    at_part = Index(batch) * size + Index(batch + 1)
    columns = {**before, Index(batch): at_part, Index(batch + 1): Index(batch + 2)}
    plain = node.with_(epilogue=(node.result,), checks=())
    whole = plain.with_(
        batch=(*node.batch, constant(full)), k=constant(size),
        left=substitute((node.left,), rows)[0], right=substitute((node.right,), columns)[0],
    )  # fmt: skip
    at_all = indices(batch + 3)
    (part,) = whole.leaves
    element: Expr = part.at(*at_all[:batch], at_all[-1], *at_all[batch:-1])
    rest = None
    if left:
        ends = Index(batch + 1) + full * size, Index(batch) + full * size
        rest = plain.with_(
            k=constant(left),
            left=substitute((node.left,), {Index(batch + 1): ends[0]})[0],
            right=substitute((node.right,), {Index(batch): ends[1]})[0],
        )
        last = rest.leaves[0].at(*indices(batch + 2))
        (element,) = at.choose(at.less(at_all[-1], full), (element,), (last,))
    total = Fold(
        (*node.batch, node.m, node.n), (constant(full + bool(left)),), (element,),
        simple_combine("add", node.result.type), None, (node.result,), node.epilogue,
        label=node.label, where=node.where,
    )  # fmt: skip
    return Parts(whole, rest, total)


def are_better(cut: Blocks, plain: Blocks, allowed: int) -> bool:
    """Whether parts transfer fewer bytes than blocks of the result, and fit in `allowed`."""
    fits, too = (projected(blocks) <= allowed for blocks in (cut, plain))
    return fits and (not too or _read(cut) + 2 * _written(cut) < _read(plain))


def _read(blocks: Blocks) -> int:
    total = 0
    for buffer in blocks.buffers:
        size = np.asarray(np.int64(buffer.leaf.type.numpy.itemsize))
        for low, high in zip(buffer.low, buffer.high, strict=True):
            size = size * (high - low)
        total += int(np.broadcast_to(size, blocks.grid).sum())
    return total


def _written(blocks: Blocks) -> int:
    return sum(prod(r.shape) * r.type.numpy.itemsize for r in blocks.results)
