"""Counted loops over stencils, several iterations per task (temporal blocking).

A block of the state with a halo of k·r elements is iterated k times.  Every iteration invalidates r
more elements beside a cut; after k of them, the block itself is still correct.  Where a buffer ends
at an edge of the array, its boundary is that of the array.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from math import ceil, prod, sqrt
from typing import Any

import numpy as np

from treadle.dsl.expr import Expr, Extent, Foreign, Index, Param, Read, substitute, walk
from treadle.dsl.graph import ArrayLoop, Generate, Input, Label, Leaf, Node
from treadle.dsl.types import int64

from .domain import BACK, Axis, Chunks, Known, edges, even, follows, reads_of
from .engine import Engine
from .localise import WRAP, Blocks, Buffer, NoRule, Result, extents_of, rewritten
from .program import BlockProgram
from .whole import inside

#: The slowdown, relative to the best blocks, at which more blocks are still preferred.
NEARLY = 1.05


@dataclass
class Window:
    """Iterations `start` … `start + steps` − 1 in one task per block."""

    start: int
    steps: int


def iterations(
    count: int, most: int, work: float, overlap: float, task: float, queueing: float
) -> int:
    """The number of the `count` iterations to run in one task: it minimises the total time of tasks
    and halos, √(o / (w h)) for tasks of o seconds and iterations of w seconds, of which halos take
    w h per iteration of a task; but kernels must take at least as long as it takes to queue them.

    >>> iterations(100, 1000, 1e-3, 0.01, 1e-3, 0), iterations(100, 1000, 1e-4, 0.001, 1e-3, 0)
    (10, 100)
    """
    work, most = max(work, 1e-12), max(min(most, count), 1)
    halos = work * max(overlap, 1e-12) * count * count  # in one window
    windows = max(int(sqrt(halos / task)), 1)
    if task < halos / (windows * (windows + 1)):
        windows += 1
    windows = max(windows, -(-count // most))
    if queueing:
        windows = max(min(windows, int(work * count / queueing)), -(-count // most))
    return -(-count // max(windows, 1)) or 1  # windows of equal length have the smallest halos


def lengths(count: int, steps: int, most: int, iterations: int) -> list[int]:
    """The iterations of each window, about `steps` and at most `most`: whole passes of `iterations`
    iterations, because remainders take longer; all remaining iterations are in the last window.

    >>> lengths(100, 15, 1000, 8), lengths(100, 15, 1000, 1)
    ([16, 16, 16, 16, 16, 8, 12], [15, 15, 15, 15, 15, 15, 10])
    """
    passes, rest = divmod(count, iterations)
    if iterations > 1 and passes:
        windows = max(round(count / max(steps, iterations)), 1)
        found = sorted(even(passes, windows), reverse=True)
        last = found[-1] * iterations + rest
        if max(found[0] * iterations, last) <= most:
            return [*(n * iterations for n in found[:-1]), last]
    return [min(steps, count - k) for k in range(0, count, max(steps, 1))]


def spans(count: int, most: int, work: float, overlap: float, task: float, engine: Engine,
          given: bool) -> list[int]:  # fmt: skip
    """The iterations of each window.

    A state that is `given` has no room for halos.  With `split_boundary`, the first window
    therefore computes three halos of rows at each cut in separate blocks, and is as short as
    queueing permits.

    >>> engine = Engine("", "", None, 0, len, queueing=2e-4, iterations=8, split_boundary=True)
    >>> [spans(100, 8192, 8.7e-5, 1.2e-4, 6e-5, engine, given) for given in (True, False)]
    [[8, 92], [100]]
    """
    first = 0
    if given and engine.split_boundary:
        first = engine.iterations * max(ceil(engine.queueing / work / engine.iterations), 1)
        if first > most or 2 * first > count:
            first = 0
    steps = iterations(count - first, most, work, overlap, task, engine.queueing)
    return [first] * bool(first) + lengths(count - first, steps, most, engine.iterations)


def halvings(count: int) -> list[int]:
    """A number and its successive halves, rounded up.

    >>> halvings(5)
    [5, 3, 2, 1]
    """
    return [count, *halvings(-(-count // 2))] if count > 1 else [count]


def together(sizes: Sequence[int], count: int) -> tuple[int, ...]:
    """Merge adjacent chunks, so that there are `count`.

    >>> together((3, 3, 3, 3, 1), 2)
    (9, 4)
    """
    ends = edges(sizes)
    return tuple(ends[b] - ends[a] for a, b in pairwise(edges(even(len(sizes), count))))


class LoopLocaliser:
    """Makes the blocks of a counted loop; `NoRule` if its body has nodes other than stencils."""

    def __init__(
        self,
        node: ArrayLoop,
        known: Known,
        grids: Mapping[Leaf, Chunks],
        outside: Collection[Node],
        engine: Engine,
    ) -> None:
        self.engine = engine
        if node.count is None:
            raise NoRule("how often it iterates depends on what arrays hold")
        if node.changing():
            raise NoRule("the extents of its state change")
        count = known.number(node.count)
        if count is None:
            raise NoRule("how often it iterates depends on what arrays hold")
        self.node, self.known, self.count = node, known, max(count, 0)
        inner, self.needed = inside(node, outside)
        self.body = [n for n in inner if n is not node and not isinstance(n, Input)]
        shapes = {extents_of(leaf.shape, known, node) for leaf in node.init}
        if len(shapes) != 1:
            raise NoRule("its state has arrays of different extents")
        (self.extents,) = shapes
        self._check()
        self._halo()
        #: The chunks of the state, and the blocks, each of one or several chunks.
        self.chunks = self._chunks(grids)
        self.sizes = self._blocks()

    def _check(self) -> None:
        """Require nodes with the state's extents that read neighbours, or whole arrays."""
        self.aligned: dict[Leaf, bool] = {}
        self.periodic: set[int] = set()
        edged: set[int] = set()
        for n in self.body:
            if not isinstance(n, Generate):
                raise NoRule(f"its body has {n.label}, which is not element-wise")
            if extents_of(n.shape, self.known, n) != self.extents:
                raise NoRule(f"{n.label} in its body has other extents than the state")
            for e in walk(n.elements):
                if isinstance(e, Foreign) and self.engine.separate:
                    raise NoRule(f"{n.label} calls a Python function")
            for read in reads_of(n.elements):
                near = self._near(read)
                leaf = Leaf(read.node, read.component)
                if self.aligned.setdefault(leaf, near is not None) is not (near is not None):
                    raise NoRule(f"{n.label} reads an array in two ways")
                for a, c in enumerate(near or ()):
                    if c and read.boundary == WRAP:
                        self.periodic.add(a)
                    elif c:
                        edged.add(a)
        for leaf in (*self.node.init, *self.node.body):
            if not self.aligned.setdefault(leaf, True):
                raise NoRule("it reads an array in two ways")
        self.whole_axes = self.periodic & edged

    def _near(self, read: Read) -> tuple[int, ...] | None:
        """The offsets of a read of neighbours; None for a read that is the same for all."""
        shape = extents_of(read.node.outputs[read.component].shape, self.known, self.node)
        if (
            not any(isinstance(e, Index) for e in walk(read.args))
            and not any(e.reads for e in read.args)
            and not self._is_inner(read.node)
        ):
            return None
        offsets = []
        for a, e in enumerate(read.args):
            found = follows(e, self.known)
            if found is None or found.axis != a or found.rest:
                raise NoRule("its body reads other elements than neighbours")
            if found.offset and read.boundary is None:
                raise NoRule("its body reads neighbours without a boundary")
            offsets.append(found.offset)
        if shape != self.extents:
            raise NoRule("its body reads an array of other extents")
        return tuple(offsets)

    def _is_inner(self, n: Node) -> bool:
        return n in self.body or n in self.node.state

    def _halo(self) -> None:
        """The number of elements beside a cut that an iteration invalidates, along each axis."""
        rank = len(self.extents)
        reach: dict[Node, list[tuple[int, int]]] = {s: [(0, 0)] * rank for s in self.node.bound}
        for n in self.body:
            sides = [(0, 0)] * rank
            assert isinstance(n, Generate)
            for read in reads_of(n.elements):
                near = self._near(read) if read.node is not self.node.index else None
                for a, c in enumerate(near or ()):
                    before, after = max(-c, 0), max(c, 0)
                    if read.boundary in BACK:
                        before = after = abs(c)
                    had = reach.get(read.node, [(0, 0)] * rank)[a]
                    sides[a] = (max(sides[a][0], had[0] + before), max(sides[a][1], had[1] + after))
            reach[n] = sides
        last = [reach.get(leaf.node, [(0, 0)] * rank) for leaf in self.node.body]
        self.reach = [(max(s[a][0] for s in last), max(s[a][1] for s in last)) for a in range(rank)]

    def _chunks(self, grids: Mapping[Leaf, Chunks]) -> Chunks:
        best = max(self.node.init, key=lambda leaf: leaf.type.numpy.itemsize)
        chunks = grids[best]
        if all(len(c) == 1 for c in chunks):
            chunks = self.engine.choose(self.extents, best.type.numpy.itemsize)
        return tuple(
            (n,) if a in self.whole_axes else tuple(s for s in chunks[a] if s) or (n,)
            for a, n in enumerate(self.extents)
        )

    def _blocks(self) -> Chunks:
        """The blocks.  If other processes compute them, adjacent chunks are merged into one block
        if that is faster: into the fewest blocks for which it is, within a quarter of a task's
        memory, since workers also keep the chunks and the results."""
        if not self.engine.workers:
            return self.chunks
        found = []
        for counts in product(*(halvings(len(sizes)) for sizes in self.chunks)):
            blocks = tuple(map(together, self.chunks, counts))
            seconds, steps = self._timed(blocks)
            needed = self._memory(blocks, max(steps, default=0))
            if blocks == self.chunks or needed <= self.engine.allowed // 4:
                found.append((prod(counts), seconds, blocks))
        enough = NEARLY * min(seconds for _, seconds, _ in found)
        return max((f for f in found if f[1] <= enough), key=lambda f: f[0])[-1]

    def _timed(self, blocks: Chunks, given: bool = False) -> tuple[float, list[int]]:
        """The loop's seconds, and each window's iterations; `given`: the state is an argument."""
        engine, count = self.engine, prod(map(len, blocks))
        rounds = -(-count // max(engine.workers, 1))
        elements = prod(max(sizes) for sizes in blocks)
        state = sum(leaf.type.numpy.itemsize for leaf in self.node.init)
        work = elements * engine.element
        task = engine.overhead + engine.latency / rounds + elements * state * engine.copying
        wide = [a for a, sizes in enumerate(blocks) if len(sizes) > 1 and any(self.reach[a])]
        overlap = sum(self._halos(a, len(blocks[a])) / max(blocks[a]) for a in wide)
        steps = [self.count]
        if wide:
            most = min(self.count, *(max(blocks[a]) // max(self.reach[a]) for a in wide))
            while engine.workers and most > 1 and self._memory(blocks, most) > engine.allowed:
                most = -(-most // 2)  # (other engines choose smaller blocks)
            steps = spans(self.count, most, work, overlap, task, engine, given)
        seconds = rounds * sum(task + k * work * (1 + k * overlap) for k in steps)
        if blocks != self.chunks:  # chunks already are where memory permits
            workers = engine.workers
            seconds += prod(self.extents) * state * engine.moving * (workers - 1) / workers**2
        return seconds, steps

    def _halos(self, axis: int, count: int) -> int:
        """The elements of halo per iteration along an axis with `count` blocks: on both sides, but
        on one side of two blocks.  (Separate blocks at cuts need elements of both sides.)"""
        one = count == 2 and axis not in self.periodic and not self.engine.split_boundary
        return max(self.reach[axis]) if one else sum(self.reach[axis])

    def _memory(self, blocks: Chunks, steps: int) -> int:
        """The bytes that a task of `steps` iterations needs, approximately as in `projected`."""
        along = enumerate(blocks)
        elements = prod(max(n) + steps * self._halos(a, len(n)) * (len(n) > 1) for a, n in along)
        leaves = [*self.node.init, *self.node.init, *self.outer()]
        found = elements * sum(leaf.type.numpy.itemsize for leaf in leaves)
        return found if self.engine.split_boundary else 2 * found

    def windows(self, given: bool) -> list[Window]:
        """The iterations of each task; `given`: whether an argument is the first state."""
        _, found = self._timed(self.sizes, given)
        return [Window(a, b - a) for a, b in pairwise(edges(found)) if a < b]

    def axes(self, steps: int, split: bool) -> list[Axis]:
        cut = [a for a, s in enumerate(self.sizes) if len(s) > 1]
        return [
            Axis(
                n,
                self.sizes[a],
                cut.index(a) if a in cut else None,
                self.reach[a][0] * steps,
                self.reach[a][1] * steps,
                a in self.periodic,
                len(cut),
                split,
            )
            for a, n in enumerate(self.extents)
        ]

    def blocks(
        self, window: Window, state: Sequence[Leaf], params: Sequence[Param],
        model: Blocks | None, given: bool,
    ) -> Blocks:  # fmt: skip
        """One window over `state`; `model`: another window with the same program.  If no state is
        `given`, engines whose parts stay in place have room for halos around them."""
        axes = self.axes(window.steps, self.engine.split_boundary and given)
        sources = [*zip(state, self.node.init, strict=True), *((o, o) for o in self.outer())]
        if model is None:
            program, extents = self._program([s for s, _ in sources], params)
        else:
            program, extents = model.program, model.extents
        buffers = [
            self._buffer(source, given, axes, self.aligned.get(leaf, True))
            for (source, leaf), given in zip(sources, program.inputs, strict=True)
        ]
        numbers: list[Any] = [self.known.values[p] for p in params]
        numbers += [np.asarray(np.int64(window.steps)), np.asarray(np.int64(window.start))]
        numbers += [axis.low for axis in axes]
        numbers += [np.asarray(np.int64(self.known.number(e) or 0)) for e in extents]
        results = [
            Result(self.extents, tuple(a if a.is_cut else None for a in axes), leaf.type)
            for leaf in self.node.init
        ]
        notes = [f"{window.steps} iterations per task"]
        if self.sizes != self.chunks:
            grid = " × ".join(str(len(sizes)) for sizes in self.chunks if len(sizes) > 1)
            notes.append(f"several chunks per task, of a grid of {grid}")
        return Blocks(self.node, program, buffers, results, axes, numbers, notes, extents,
                      around=self.engine.split_boundary and not given)  # fmt: skip

    def outer(self) -> list[Leaf]:
        """The arrays from outside the loop that its body reads, or that are its next state."""
        used = {
            Leaf(r.node, r.component)
            for n in self.body
            if isinstance(n, Generate)
            for r in reads_of(n.elements)
        }
        used.update(self.node.body)
        return [leaf for leaf in self.needed if leaf in used]

    def _buffer(self, leaf: Leaf, given: Input, axes: Sequence[Axis], aligned: bool) -> Buffer:
        if aligned:
            return Buffer(
                leaf,
                given,
                [a.low for a in axes],
                [a.high for a in axes],
                [a.periodic for a in axes],
            )
        return Buffer.whole(leaf, given, extents_of(leaf.shape, self.known, self.node))

    def _program(
        self, sources: Sequence[Leaf], params: Sequence[Param]
    ) -> tuple[BlockProgram, list[Expr]]:
        """The program of a window, and the extents that are passed to it as numbers."""
        node, count = self.node, len(self.node.init)
        outer = self.outer()
        inputs: list[Input] = []
        for k, leaf in enumerate(sources):
            ones = (False,) * len(leaf.shape)
            inputs.append(Input(f"in{k}", leaf.type, ones, kind="argument"))
        sizes = inputs[0].shape
        for given, leaf in zip(inputs[1:], [*node.init[1:], *outer], strict=True):
            if self.aligned.get(leaf, True):
                given.of_shape(sizes)
        steps, start = Param("steps", int64), Param("start", int64)
        origins = [Param(f"origin{a}", int64) for a in range(len(self.extents))]
        states = [s.copy().of_shape(sizes) for s in node.state]
        index = None if node.index is None else node.index.copy()
        leaves: dict[Leaf, Leaf] = {
            s.leaf(): t.leaf() for s, t in zip(node.state, states, strict=True)
        }
        leaves.update(
            (leaf, given.leaf()) for leaf, given in zip(outer, inputs[count:], strict=True)
        )
        extents: list[Expr] = []
        numbers: list[Param] = []
        memo: dict[Expr, Expr] = {}
        cut = [len(n) > 1 for n in self.sizes]

        def change(e: Expr, memo: dict[Expr, Expr]) -> Expr | None:
            if isinstance(e, Index):
                return e + origins[e.axis] if cut[e.axis] else None
            if isinstance(e, Extent):
                extents.append(e)
                numbers.append(Param("n", int64))
                return numbers[-1]
            if not isinstance(e, Read):
                return None
            if e.node is node.index:
                assert index is not None
                return Read(index, 0, ()) + start
            leaf = Leaf(e.node, e.component)
            to, aligned = leaves[leaf], self.aligned[leaf]
            args = e.args if aligned else tuple(memo[a] for a in e.args)
            moved: dict[Expr, Expr] = {v: v + origins[a] for a, v in enumerate(e.vars)
                                       if cut[a]}  # fmt: skip
            scoped = substitute([memo[x] for x in e.scoped], moved)
            return Read(to.node, to.component, args, e.boundary, scoped, e.vars)

        for n in self.body:
            assert isinstance(n, Generate)
            rewritten(n.elements, change, memo)
            label = Label(n.label.operation, n.label.name)
            made = Generate(sizes, tuple(memo[e] for e in n.elements), label=label, where=n.where)
            leaves.update(zip(n.leaves, made.leaves, strict=True))
        loop = ArrayLoop(
            tuple(states),
            tuple(i.leaf() for i in inputs[:count]),
            tuple(leaves[leaf] for leaf in node.body),
            None,
            steps,
            index,
            label=Label(node.label.operation, node.label.name),
            where=node.where,
        )
        every = (*params, steps, start, *origins, *numbers)
        program = BlockProgram.over(loop.leaves, self.engine, inputs, every, node.label.operation)
        return program, extents
