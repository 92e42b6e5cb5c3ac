"""Scatters into large arrays: each chunk of the source sorts its elements by target index, and each
part of the target combines, in order, the elements of all chunks that belong to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from treadle.dsl.expr import TRUE, Index, substitute
from treadle.dsl.graph import Combine, Generate, Label, Leaf, Permute
from treadle.dsl.types import int64
from treadle.skeletons.ir import arithmetic as at

from .domain import Axis, Known, edges
from .engine import Engine
from .localise import Blocks, Result
from .sorting import Add, Constant, Writer, library, windows_of


@dataclass
class Exchange:
    """Makes the blocks of a scatter; `add` adds earlier stages, `constant` arrays of numbers."""

    node: Permute
    known: Known
    engine: Engine
    add: Add
    constant: Constant

    def blocks(
        self,
        stored: Sequence[Leaf],
        source: Sequence[int],
        sizes: Sequence[int],
        shape: Sequence[int],
        parts: Sequence[int],
        exact: bool,
    ) -> Blocks:
        """The last stage: the results, cut along their first axis into `parts`.

        `stored`: for each element whether it is valid, its target indices and its values, as arrays
        of extents `source` with chunks of `sizes` along the first axis; `shape`: the extents of the
        results; `exact`: the order of elements does not matter.
        """
        node, rank = self.node, len(shape)
        width = prod(shape[1:])
        runs, axis = self._runs(stored, source, sizes, shape)
        ends = np.asarray(edges(parts)) * width
        keys = self.constant([*ends, *ends])
        starts = self.constant([[-1, 0]] * (2 * len(ends)))  # before all runs
        windows, _ = windows_of(
            node, self.engine, self.add, self.constant, (runs[0], axis), (keys, starts),
            self.constant(ends), len(parts),
        )  # fmt: skip
        along = Axis(shape[0], tuple(parts), 0, rank=1)
        writer = Writer(self.engine, node, node.label.name)
        share = axis.extent * (along.high - along.low) // max(shape[0], 1) + 1
        most = np.minimum(2 * share, axis.extent)
        target, *values = (writer.reads(x, [0 * most], [most], windows) for x in runs)
        rest = [0] * (rank - 1)
        before = [
            writer.reads(x, [along.low, *rest], [along.high, *shape[1:]]) for x in node.defaults
        ]
        first = writer.number("first", along.low * width)
        own = target.at(Index(0)) - first
        made = Permute(
            target.shape, TRUE, at.row_major(own, before[0].shape),
            tuple(v.at(Index(0)) for v in values), tuple(before), self._combine(writer),
            label=Label(node.label.operation, node.label.name, None, not exact), where=node.where,
        )  # fmt: skip
        cut = (along, *[None] * (rank - 1))
        results = [Result(tuple(shape), cut, x.type) for x in node.defaults]
        blocks = writer.made(made.leaves, results, along)
        blocks.notes.append("every part of the result takes its elements from all chunks, in order")
        return blocks

    def spread(
        self,
        stored: Sequence[Leaf],
        source: Sequence[int],
        shape: Sequence[int],
        parts: Sequence[int],
        exact: bool,
    ) -> Blocks:
        """The same for few elements: every part reads all of them and selects its own."""
        node, rank = self.node, len(shape)
        along = Axis(shape[0], tuple(parts), 0, rank=1)
        writer = Writer(self.engine, node, node.label.name)
        here = tuple(Index(k) for k in range(len(source)))
        given = [writer.all(x, *source) for x in stored]
        valid, *where = (x.at(*here) for x in given[: rank + 1])
        rest = [0] * (rank - 1)
        before = [
            writer.reads(x, [along.low, *rest], [along.high, *shape[1:]]) for x in node.defaults
        ]
        row = where[0] - writer.number("first", along.low)
        own = (row, *where[1:])
        made = Permute(
            given[0].shape, at.both(valid, *map(at.in_range, own, before[0].shape)), own,
            tuple(v.at(*here) for v in given[rank + 1 :]), tuple(before), self._combine(writer),
            label=Label(node.label.operation, node.label.name, None, not exact), where=node.where,
        )  # fmt: skip
        cut = (along, *[None] * (rank - 1))
        results = [Result(tuple(shape), cut, x.type) for x in node.defaults]
        blocks = writer.made(made.leaves, results, along)
        blocks.notes.append("every part of the result takes its own of all elements")
        return blocks

    def _runs(
        self,
        stored: Sequence[Leaf],
        source: Sequence[int],
        sizes: Sequence[int],
        shape: Sequence[int],
    ) -> tuple[list[Leaf], Axis]:
        """The elements of every chunk sorted by target: the linear index in the target (for
        elements without a target, the number of its elements), and the values."""
        width, rank = prod(source[1:]), len(shape)
        axis = Axis(prod(source), tuple(n * width for n in sizes), 0, rank=1)
        rows = Axis(source[0], tuple(sizes), 0, rank=1)
        rest = [0] * (len(source) - 1)
        flat = None if len(source) == 1 else (0 * axis.low, axis.high - axis.low)
        writer = Writer(self.engine, self.node, "exchange_runs")
        valid, *given = (
            writer.reads(x, [rows.low, *rest], [rows.high, *source[1:]], None, flat) for x in stored
        )
        where = [x.at(Index(0)) for x in given[:rank]]
        extents = [writer.number(f"extent{k}", n) for k, n in enumerate(shape)]
        valid_here = at.both(valid.at(Index(0)), *map(at.in_range, where, extents))
        position = at.select(valid_here, at.linear(where, extents), at.product(extents))
        targets = Generate(valid.shape, (position,), label=Label("targets")).leaves[0]
        order = library("argsort", (0,), [targets], [(valid.shape, int64)]).leaves[0]
        elements = tuple(x.at(order.at(Index(0))) for x in (targets, *given[rank:]))
        made = Generate(valid.shape, elements, label=Label("run"))
        results = [Result((axis.extent,), (axis,), leaf.type) for leaf in made.leaves]
        return self.add(writer.made(made.leaves, results, axis)), axis

    def _combine(self, writer: Writer) -> Combine | None:
        """The combination, with its run-time numbers as numbers of the block."""
        combine = self.node.combine
        if combine is None:
            return None
        moved = writer.all_numbers(combine.results, self.known)
        return Combine(combine.left, combine.right, substitute(combine.results, moved))
