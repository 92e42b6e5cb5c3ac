"""Segmented folds of one row: blocks of whole segments, each of which takes its elements from the
chunks that contain them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from treadle.dsl.expr import Index, substitute
from treadle.dsl.graph import Combine, FoldSeg, Generate, Label, Leaf
from treadle.dsl.types import int64
from treadle.skeletons.ir import arithmetic as at

from .domain import Axis, Known, edges, even
from .engine import Engine
from .localise import Blocks, Result
from .sorting import Add, Constant, Writer


@dataclass
class Segments:
    """Makes the blocks of a fold of segments.  `add`: adds stages before the last one; `constant`:
    an array of numbers."""

    node: FoldSeg
    known: Known
    engine: Engine
    add: Add
    constant: Constant

    def blocks(self, stored: Sequence[Leaf], sizes: Sequence[int], segments: int) -> Blocks:
        """The last stage: the folds, before the epilogue.

        `stored`: the components of the elements, arrays with chunks of these sizes.  All blocks
        have the same number of segments; how many elements these have follows from the offsets,
        once they are computed.
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
        # From the first element of the block on.
        moved = at.subtract(offsets.at(Index(0)), offsets.at(at.integer(0)))
        own = Generate((at.add(count, 1),), (moved,), label=Label("offsets"))
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
        edge = offsets.at(first.at(at.add(block, side)))
        low, high = ends.at(chunk), ends.at(at.add(chunk, 1))
        inside = at.minimum(at.maximum(edge, low), high)
        shape = tuple(map(at.integer, (count, chunks, 2)))
        made = Generate(shape, (inside,), label=Label("windows"))
        result = Result((count, chunks, 2), (None,) * 3, int64)
        (found,) = self.add(writer.made(made.leaves, [result], None))
        return found
