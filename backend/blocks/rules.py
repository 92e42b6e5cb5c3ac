"""Shared by the rules of a planner: makes the blocks of nodes, and adds them to a plan as
stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from treadle.dsl.errors import DistributionError
from treadle.dsl.expr import Expr, Extent
from treadle.dsl.graph import Fold, Generate, Input, Label, Leaf, Node, Scan, indices
from treadle.dsl.program import TracedProgram
from treadle.dsl.text import in_bytes
from treadle.dsl.types import int64
from treadle.skeletons.lower.fold.rows import is_exact

from .domain import Axis, Bounds, Chunks, Known, halves
from .engine import Engine
from .localise import Blocks, Localiser
from .memory import is_a_chunk, projected, require
from .stages import Plan, Stage
from .tasks import traffic
from .whole import why_one


class Rules:
    """A plan under construction: its `engine`, and what is `known` of extents and numbers."""

    def __init__(self, program: TracedProgram, engine: Engine, known: Known) -> None:
        self.program, self.engine, self.known = program, engine, known
        self.plan = Plan(roots=list(program.roots))
        #: Bounds of the elements of arrays.
        self.bounds: dict[Leaf, Bounds] = {}

    def _checked(self, e: Expr) -> int:
        found = self.known.number(e)
        if found is None:
            raise DistributionError(
                "a check of this program depends on what arrays hold.", hint=self.engine.instead
            )
        return found

    def _plain(self, node: Node, sizes: Mapping[int, tuple[int, ...]] | None = None) -> Stage:
        local, blocks = self._blocks_of(node, sizes)
        if self.engine.gathers and not self._fits(blocks):
            blocks = self._finer(node, local, blocks)
        if isinstance(node, Generate) and self.engine.pieces > 1:
            blocks = self._in_pieces(node, sizes, blocks)
        parts = [prod(map(len, self.plan.chunks[b.leaf])) for b in blocks.buffers]
        if prod(blocks.grid) == 1 and max(parts, default=1) > 1:
            blocks.notes.append(f"in one block: {why_one(node)}")
        return self._add(blocks, list(node.leaves))

    def _blocks_of(
        self, node: Node, sizes: Mapping[int, tuple[int, ...]] | None
    ) -> tuple[Localiser, Blocks]:
        local = self._local(node, sizes)
        if isinstance(node, Fold | Scan) and not is_exact(node.combine):
            self._group(node, local)
        return local, local.blocks(self.program.params)

    def _gathered(self, blocks: Blocks) -> Blocks:
        """The blocks, with their buffers that are assembled from several chunks recorded."""
        if self.engine.gathers:
            blocks.copied = [b for b in blocks.buffers
                             if not is_a_chunk(b, self.plan.chunks[b.leaf])]  # fmt: skip
        return blocks

    def _fits(self, blocks: Blocks) -> bool:
        return projected(self._gathered(blocks)) <= self.engine.allowed

    def _finer(self, node: Node, local: Localiser, blocks: Blocks) -> Blocks:
        """Smaller blocks, for blocks that need more memory than a task may use: halves along one
        axis after the other, as long as that reduces the memory.  Returns the blocks themselves if
        that is not enough, with the chunks that parts are read from."""
        made, needed = blocks, projected(blocks)
        room = self.engine.allowed - sum(self._largest_chunk(b.leaf) for b in blocks.buffers)
        sizes = {k: local.axes[k].sizes for k in local.free}
        for k in local.free:
            while max(sizes[k]) > 1:
                trial = {**sizes, k: halves(sizes[k])}
                found = self._gathered(self._blocks_of(node, trial)[1])
                if projected(found) >= needed:
                    break
                made, needed, sizes = found, projected(found), trial
                if needed <= room:
                    made.notes.append(
                        f"in parts of chunks: with whole ones, a task would need "
                        f"{in_bytes(projected(blocks))}"
                    )
                    return made
        return blocks

    def _largest_chunk(self, leaf: Leaf) -> int:
        return prod(map(max, self.plan.chunks[leaf])) * int(leaf.type.numpy.itemsize)

    def _in_pieces(
        self, node: Node, sizes: Mapping[int, tuple[int, ...]] | None, blocks: Blocks
    ) -> Blocks:
        """The same blocks, in pieces if they receive much data of others, and no more that way."""
        chunks = [self.plan.chunks[b.leaf] for b in blocks.buffers]
        moved = traffic(blocks, chunks)[1]
        if moved < self.engine.pipelined * prod(blocks.grid):
            return blocks
        made = self._local(node, sizes, pieces=self.engine.pieces).blocks(self.program.params)
        return made if traffic(made, chunks)[1] <= moved else blocks

    def _group(self, node: Fold | Scan, local: Localiser) -> None:
        """Ensure that the elements of rows are grouped as in the whole array, if a block of fewer
        rows would group them differently."""
        whole = self.engine.grouping(node, local.extents)
        sizes = [set((a.high - a.low).ravel().tolist()) for a in local.axes]
        same = all(self.engine.grouping(node, extents) == whole for extents in product(*sizes))
        if not same:
            local.label = self.engine.regrouped(local.label, local.extents)

    def _local(
        self,
        node: Node,
        sizes: Mapping[int, tuple[int, ...]] | None = None,
        free: Sequence[int] | None = None,
        pieces: int = 1,
    ) -> Localiser:
        result = any(leaf in self.plan.roots for leaf in node.leaves)
        return Localiser(node, self.known, self.plan.chunks, self.engine, sizes, free, result,
                         {**self.plan.constants, **self.bounds}, pieces)  # fmt: skip

    def _add(self, blocks: Blocks, leaves: list[Leaf]) -> Stage:
        self._gathered(blocks)
        require(blocks, blocks.node, self.engine)
        for leaf, result in zip(leaves, blocks.results, strict=True):
            self.plan.chunks[leaf] = tuple(
                (n,) if axis is None else axis.sizes
                for n, axis in zip(result.shape, result.axes, strict=True)
            )
        self.plan.stages.append(Stage(blocks, leaves))
        return self.plan.stages[-1]

    def _same(self, made: Leaf, leaf: Leaf) -> None:
        """Make an array an alias of another."""
        copy = _copy_of(leaf)
        self._add(self._local(copy).blocks(self.program.params), [made])

    def _in_chunks(self, leaf: Leaf, chunks: Chunks) -> Leaf:
        if self.plan.chunks[leaf] == chunks:
            return leaf
        copy = _copy_of(leaf)
        extents = [max(sum(n), 0) for n in chunks]
        sizes = {k: n for k, n in enumerate(chunks) if extents[k] > 1}
        (made,) = self._results_of(self._local(copy, sizes).blocks(self.program.params))
        return made

    def _results_of(self, blocks: Blocks) -> list[Leaf]:
        """Add blocks for intermediate results; returns the arrays of the results."""
        made = [self._between(r.shape, r.type) for r in blocks.results]
        self._add(blocks, made)
        return made

    def _constant(self, values: Any) -> Leaf:
        array = np.asarray(values, np.int64)
        made = self._between(array.shape, int64)
        self.plan.constants[made] = array
        self.plan.chunks[made] = tuple((n,) for n in array.shape)
        return made

    def _per_block(self, blocks: Blocks, axes: Sequence[Axis]) -> list[Leaf]:
        """Results that every block has, as arrays with additional axes of one element per block."""
        for result in blocks.results:
            result.shape = (*result.shape, *(a.count for a in axes))
            result.axes = (*result.axes, *(a.counting() for a in axes))
            result.added = len(axes)
        return self._results_of(blocks)

    def _as(self, total: Node, node: Node) -> None:
        """Plan a node that computes the results of `node`."""
        self._takes(self._plain(total), node)

    def _takes(self, stage: Stage, node: Node) -> None:
        """Make the results of a stage those of `node`."""
        for made, leaf in zip(stage.leaves, node.leaves, strict=True):
            self.plan.chunks[leaf] = self.plan.chunks[made]
        stage.leaves = list(node.leaves)

    def _between(self, shape: tuple[int, ...], type_: Any) -> Leaf:
        """An array between two stages of one kernel."""
        made = Input("partial", type_, (False,) * len(shape), kind="argument")
        self.known = self.known.with_({Extent(made, a): n for a, n in enumerate(shape)})
        return made.leaf()


def _copy_of(leaf: Leaf) -> Node:
    return Generate(leaf.shape, (leaf.at(*indices(len(leaf.shape))),), label=Label("compute"))
