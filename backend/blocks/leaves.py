"""Sums of floats over a whole array, bit for bit as a single machine computes them.

On one machine, a full fold combines the results of *leaves*, blocks of consecutive elements in
row-major order.  Here, each task computes the leaves that begin in its chunk (reading the end of
the last one from the next chunk), and one task combines them like the kernel on one machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from treadle.dsl.expr import Const, Expr, Extent, Foreign, Index, Param, Read, walk
from treadle.dsl.graph import Fold, Input, Label, Leaf, is_identity_read
from treadle.dsl.node import LEAVES, PARTIALS
from treadle.dsl.types import int64
from treadle.skeletons.ir import arithmetic as at

from .domain import Axis, Chunks, Known, Numbers, edges
from .engine import Engine
from .localise import Blocks, Buffer, NoRule, Result, extents_of, rewritten
from .program import BlockProgram


class Leaves:
    """The leaves of a full fold; `NoRule` for folds with leaves of another form."""

    def __init__(self, node: Fold, known: Known, engine: Engine, params: Sequence[Param]) -> None:
        self.node, self.known = node, known
        self.extents = extents_of(node.inner, known, node)
        self.count, self.engine = prod(self.extents), engine
        leaf = None if node.outer else engine.leaf(node, self.count)
        if leaf is None:
            raise NoRule("it is not a plain sum of everything")
        self.leaf: int = leaf
        self.flat: dict[Leaf, Input] = {}
        self.whole: dict[Leaf, Input] = {}
        self.extra: list[Expr] = []
        elements = self._elements()
        self.rows, self.length = Param("leaves", int64), Param("length", int64)
        label = Label(LEAVES, node.label.called, None, node.label.deterministic)
        made = Fold((self.rows,), (self.length,), elements, node.combine, None,
                    label=label, where=node.where)  # fmt: skip
        self.program = BlockProgram.over(
            made.leaves, engine, [*self.flat.values(), *self.whole.values()],
            (*params, self.rows, self.length, *self.numbers), node.label.operation,
        )  # fmt: skip
        self.values = [known.values[p] for p in params]

    def _elements(self) -> tuple[Expr, ...]:
        """The elements as functions of the leaf and the position in the leaf."""
        self.numbers: list[Param] = []
        position = Index(0) * self.leaf + Index(1)

        def change(e: Expr, memo: dict[Expr, Expr]) -> Expr | None:
            if isinstance(e, Foreign) and self.engine.separate:
                raise NoRule(f"it calls the Python function {e.function.name!r}")
            if isinstance(e, Extent):
                self.extra.append(e)
                self.numbers.append(Param("n", int64))
                return self.numbers[-1]
            if isinstance(e, Read):
                return self._read(e, len(self.extents), position, memo)
            if any(isinstance(c, Index) for c in (*e.args, *e.scoped)):
                raise NoRule("its elements depend on their index")
            return None

        if any(isinstance(e, Index) for e in self.node.elements):
            raise NoRule("its elements depend on their index")
        memo = rewritten(self.node.elements, change)
        return tuple(memo[e] for e in self.node.elements)

    def _read(self, e: Read, rank: int, position: Expr, memo: dict[Expr, Expr]) -> Read:
        leaf = Leaf(e.node, e.component)
        if is_identity_read(e, rank):
            if rank > 1 and leaf.shape != self.node.inner:
                raise NoRule("it reads arrays of different extents")
            if leaf not in self.flat:
                self.flat[leaf] = Input(f"in{len(self.flat)}", e.type, (False,), kind="argument")
            return Read(self.flat[leaf], 0, (position,))
        if e.boundary is not None or any(isinstance(x, Index) for x in walk(e.args)):
            raise NoRule("it reads other elements than its own")
        shape = extents_of(leaf.shape, self.known, self.node)
        ones = tuple(isinstance(x, Const) for x in leaf.shape)
        if leaf not in self.whole:
            self.whole[leaf] = Input(f"all{len(self.whole)}", e.type, ones, kind="argument")
        assert len(shape) == len(e.args)
        return Read(self.whole[leaf], 0, tuple(memo[a] for a in e.args))

    def sizes(self, grids: dict[Leaf, Chunks]) -> tuple[int, ...]:
        """The number of whole leaves that begin in each chunk along the first axis."""
        best = max(self.flat, key=lambda leaf: len(grids[leaf][0]), default=None)
        if best is None:
            raise NoRule("it reads no array")
        width = self.count // max(self.extents[0], 1)
        full = self.count // self.leaf
        cuts = [e * width for e in edges(grids[best][0])]
        ends = {0, full, *(min(-(-e // self.leaf), full) for e in cuts)}
        if self.engine.split_boundary:  # a leaf that spans two chunks is a separate block
            ends |= {e // self.leaf for e in cuts}
        return tuple(b - a for a, b in pairwise(sorted(ends)))

    def blocks(self, sizes: tuple[int, ...]) -> Blocks:
        axis = Axis(self.count // self.leaf, sizes, 0, rank=1)
        shape = (axis.extent,)
        results = [Result(shape, (axis,), e.type) for e in self.node.elements]
        numbers = [axis.stop - axis.start, np.asarray(np.int64(self.leaf))]
        return self._made(axis.start * self.leaf, axis.stop * self.leaf, numbers, [axis], results)

    def rest(self) -> Blocks:
        """The last leaf, which is shorter."""
        first = self.count // self.leaf * self.leaf
        results = [Result((1,), (None,), e.type) for e in self.node.elements]
        numbers = [np.asarray(np.int64(1)), np.asarray(np.int64(self.count - first))]
        ends = np.asarray(np.int64(first)), np.asarray(np.int64(self.count))
        return self._made(*ends, numbers, [], results)

    def _made(self, low: Numbers, high: Numbers, numbers: list[Any], axes: list[Axis],
              results: list[Result]) -> Blocks:  # fmt: skip
        buffers = []
        width = self.count // max(self.extents[0], 1)
        zero: Numbers = np.zeros((), np.int64)
        for leaf, given in self.flat.items():
            shape = extents_of(leaf.shape, self.known, self.node)
            lows, highs = [low // width], [-(-high // width)]
            lows += [zero] * (len(shape) - 1)
            highs += [np.asarray(np.int64(n)) for n in shape[1:]]
            flat = None if len(shape) == 1 else (low - lows[0] * width, high - lows[0] * width)
            buffers.append(Buffer(leaf, given, lows, highs, [False] * len(shape), flat))
        for leaf, given in self.whole.items():
            shape = extents_of(leaf.shape, self.known, self.node)
            buffers.append(Buffer.whole(leaf, given, shape))
        more = [np.asarray(np.int64(self.known.number(e) or 0)) for e in self.extra]
        return Blocks(self.node, self.program, buffers, results, axes,
                      [*self.values, *numbers, *more])  # fmt: skip

    def combined(self, whole: Sequence[Leaf], rest: Sequence[Leaf] | None) -> Fold:
        count: Expr = Extent(whole[0].node, 0)
        elements: tuple[Expr, ...] = tuple(leaf.at(Index(0)) for leaf in whole)
        if rest is not None:
            last = tuple(leaf.at(at.integer(0)) for leaf in rest)
            elements = at.choose(at.less(Index(0), count), elements, last)
            count = count + 1
        node = self.node
        return together(node, elements, count)


def together(node: Fold, leaves: Sequence[Expr], count: Expr) -> Fold:
    """The fold of everything, given the results of its leaves."""
    label = Label(PARTIALS, node.label.called, None, node.label.deterministic)
    return Fold((), (count,), tuple(leaves), node.combine, node.init, node.results, node.epilogue,
                label=label, where=node.where)  # fmt: skip
