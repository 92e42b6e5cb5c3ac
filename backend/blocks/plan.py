"""The planner: the plan of a call, with the kernels of an optimised program in blocks, in order.

`stages.py` describes the parts of a plan; `rules.py`, `scans.py` and `folds.py` have the base
classes with the rules per kind of node.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from treadle.dsl import graph
from treadle.dsl.analysis.combines import identities, is_commutative
from treadle.dsl.errors import DistributionError
from treadle.dsl.expr import Expr, Extent, Index, Read, constant, substitute, walk
from treadle.dsl.frontend.standard import MOST_AXES
from treadle.dsl.graph import Leaf, Node
from treadle.dsl.graphs.rebuild import Rebuilder
from treadle.dsl.graphs.relations import checks_before, verify_checks
from treadle.dsl.libraries.base import combined_axes
from treadle.dsl.libraries.sort import sorted_axis
from treadle.dsl.node import result_variables
from treadle.dsl.program import TracedProgram
from treadle.dsl.text import in_bytes
from treadle.skeletons.lower.fold.rows import goes_across, is_exact, runs_across

from . import folds, sorting
from .compaction import Compactions, bounds, compacted, compactions, elements_of
from .domain import Chunks, Known, Numbers, even, halves, reads_of, whole_parts
from .engine import MOST, Engine
from .exchange import Exchange
from .folds import Folds, Segments
from .gather import Gatherer
from .localise import Blocks, NoRule, extents_of
from .loops import LoopLocaliser
from .memory import elements, projected, require
from .stages import Either, Gathered, Later, Plan, Repeat, Steering
from .whole import inside, whole

#: Loops over operations other than stencils are unrolled into at most this many tasks.
UNROLLED = 20_000
#: Arrays of up to this many bytes are sorted by one task.
FEW = 1 << 20
#: Arrays from this size in bytes are gathered from at data-dependent indices.
LARGE = 4 << 20
#: Bytes of floats from which a scatter combines block by block, unless it is deterministic.
MANY = 64 << 20
#: A fold that reads more than this many times the bytes of its elements stores them first.
SPARSE = 8
#: The largest array, in bytes, of which every block of a scatter has its own copy.
SMALL = 16 << 20


class Planner(Folds):
    """Makes the plan of a program for certain extents, numbers and chunks."""

    def __init__(
        self,
        program: TracedProgram,
        shapes: Sequence[tuple[int, ...]],
        chunks: Sequence[Chunks],
        params: Sequence[Any],
        engine: Engine,
    ) -> None:
        if program.settings.check:
            raise DistributionError(
                f"programs in checked mode do not run on {engine.name}.",
                hint="Check the program on a part of the data, as NumPy arrays.",
            )
        values: dict[Expr, Any] = dict(zip((*program.params, *program.found), params, strict=True))
        for given, shape in zip(program.inputs, shapes, strict=True):
            for a, n in enumerate(shape):
                values[Extent(given, a)] = n
        super().__init__(program, engine, Known(values))
        verify_checks(checks_before(program.roots), self._checked)
        for k, given in enumerate(program.inputs):
            self.plan.given[given.leaf()] = k
            self.plan.chunks[given.leaf()] = chunks[k]
        outer = set(graph.topological(program.roots, inside=False))
        # Nodes that loops and branches read inside precede them, even if other results use them.
        order = [n for n in graph.topological(program.roots) if n in outer]
        self.outside: set[Node] = {*order, *program.inputs}
        found = compactions(order, program.roots) if engine.dynamic else Compactions()
        self.selections, self.counts, self.skipped = found.selections, found.counts, found.skipped
        #: The number of elements in each block that a mask selects.
        self.selected: dict[Node, Numbers] = {}
        self._in_order(order)

    def _in_order(self, nodes: Sequence[Node]) -> None:
        """Plan nodes in order; after one whose extents depend on data, the rest is a `Later`."""
        for k, node in enumerate(nodes):
            if isinstance(node, graph.Input) or node in self.skipped:
                continue
            if self.engine.dynamic and (needs := self._late(node, nodes[k + 1 :])):
                self._steered(self._later(node, needs, nodes[k:]))
                return
            self._plan_node(node)

    def _late(self, node: Node, rest: Sequence[Node]) -> list[Leaf]:
        """The computed numbers that the extents of a node depend on; also those that it checks, if
        the extents of the `rest` depend on data, since it would otherwise be one block."""
        numbers = self._unknown(_extents(node))
        checked = self._unknown([e for c in node.checks for e in (c.left, c.right)])
        if checked and not numbers and any(self._unknown(_extents(n)) for n in rest):
            numbers = checked
        leaves = list(dict.fromkeys(Leaf(e.node, e.component) for e in numbers))
        scalar = all(not e.args for e in numbers) and all(x in self.plan.chunks for x in leaves)
        return leaves if scalar else []

    def _unknown(self, numbers: Sequence[Expr]) -> list[Read]:
        """The reads that numbers depend on, if some of the numbers are unknown."""
        unknown = [e for e in numbers if self.known.number(e) is None]
        return [e for e in walk(unknown) if isinstance(e, Read) and self.known.number(e) is None]

    def _later(self, node: Node, needs: list[Leaf], rest: Sequence[Node]) -> Later:
        """The plan of nodes of which the first needs the values of these numbers; for an array that
        a mask selects, also the number of selected elements per block."""
        known, roots, outside = self.known, self.plan.roots, set(self.outside)
        given, numbers = self.plan.given, list(needs)
        selection = self.selections.get(node)
        if isinstance(node, graph.Permute) and selection is not None:
            if selection.total in self.partial:
                needs = [*needs, self.partial[selection.total][0]]
            require(self._compacted(node), node, self.engine)
        read = {leaf for n in rest for leaf in (*n.inputs(), *n.inside())}

        def resume(values: Sequence[Any]) -> Plan:
            found: dict[Expr, Any] = {}
            found.update((x.at(), int(v)) for x, v in zip(numbers, values, strict=False))
            self.known, self.outside = known.with_(found), set(outside)
            if selection is not None:
                self.selected[node] = np.asarray(values[-1], np.int64).reshape(-1)
            chunks, constants = self.plan.chunks, self.plan.constants
            self.plan = Plan(given=given, chunks=chunks, constants=constants, roots=roots)
            self._in_order(rest)
            return self.plan

        return Later(node, needs, read, resume)

    # --- nodes ---

    def _plan_node(self, node: Node) -> None:
        if isinstance(node, graph.Barrier):
            for made, leaf in zip(node.leaves, node.arguments, strict=True):
                self._same(made, leaf)
            return
        try:
            try:
                late = [c for c in node.checks if c.reads]
                if any(self.known.number(e) is None for c in late for e in (c.left, c.right)):
                    raise NoRule("what it checks depends on what arrays hold")
                verify_checks(late, self._checked)
                if node in self.counts:
                    self._fold(self.counts[node])
                    self._takes(self.plan.stages[-1], node)
                    return
                if isinstance(node, graph.Sequential):
                    raise NoRule("each element may need those written before it")
                if isinstance(node, graph.Generate):
                    self._generate(node)
                elif isinstance(node, graph.Fold):
                    self._fold(node)
                elif isinstance(node, graph.ArrayLoop):
                    self._loop(node)
                elif isinstance(node, graph.Branch) and self.engine.dynamic:
                    self._branch(node)
                elif isinstance(node, graph.Scan):
                    self._scan(node)
                elif isinstance(node, graph.Recurrence):
                    self._recurrence(node)
                elif isinstance(node, graph.FoldSeg):
                    self._segments(node)
                elif isinstance(node, graph.Permute):
                    self._permute(node)
                elif isinstance(node, graph.Library):
                    self._library(node)
                elif isinstance(node, graph.Matmul):
                    self._product(node)
                else:
                    self._plain(node)
            except NoRule as reason:
                blocks = whole(
                    node,
                    self.known,
                    self.outside - {node},
                    self.engine,
                    self.program.params,
                    str(reason),
                )
                self._add(blocks, list(node.leaves))
        except NoRule as reason:
            raise DistributionError(
                f"{node.label} cannot be computed on {self.engine.name}: {reason}.",
                hint=reason.instead or self.engine.instead,
                where=node.where,
            ) from None

    def _generate(self, node: graph.Generate, of: Node | None = None) -> None:
        """Elements, with gathers from large arrays; `of`: the node whose results they are."""
        answered = self._gatherer().answered(node) if self.engine.dynamic else node
        results = (of or node).leaves
        element, *more = answered.elements
        if self.engine.gathers and not more and graph.is_identity_read(element, len(node.shape)):
            steps = self.plan.steering.get(len(self.plan.stages), [])
            part = steps[-1] if steps else None
            assert isinstance(element, Read)
            read = Leaf(element.node, element.component)
            if isinstance(part, Gathered) and part.leaves == [read]:
                self.plan.chunks[results[0]] = self.plan.chunks[part.leaves[0]]
                part.leaves = list(results)
                return
        stage = self._plain(answered)
        if of is not None or answered is not node:
            self._takes(stage, of or node)

    def _gatherer(self) -> Gatherer:
        least = min(LARGE, self.engine.allowed // 8)
        return Gatherer(self.engine, self.known, self.plan.chunks, least, self._plan_node,
                        self._gathered_at, self.bounds)  # fmt: skip

    def _gathered_at(self, leaf: Leaf, axes: tuple[int, ...], positions: graph.Generate) -> Leaf:
        """The elements of an array at positions along some axes (see `Gathered`)."""
        others = [a for a in range(len(leaf.shape)) if a not in axes]
        rest: Chunks = tuple(self.plan.chunks[leaf][a] for a in others)
        local = self._local(positions)
        sizes = {k: local.axes[k].sizes for k in local.free}
        each = prod(map(max, rest)) * leaf.type.numpy.itemsize
        while sizes and each * prod(map(max, sizes.values())) > self.engine.allowed // 4:
            k = max(sizes, key=lambda k: max(sizes[k]))
            if max(sizes[k]) == 1:
                break
            sizes[k] = halves(sizes[k])
        self._plain(positions, sizes)
        (at,) = positions.leaves
        chunks = (*self.plan.chunks[at], *rest)
        made = self._between(tuple(map(sum, chunks)), leaf.type)
        self.plan.chunks[made] = chunks
        self._steered(Gathered(positions, leaf, axes, at, [made]))
        return made

    # --- loops ---

    def _loop(self, node: graph.ArrayLoop) -> None:
        """A counted loop over stencils: several iterations per task."""
        bound: set[Node] = set(node.bound)
        for n in inside(node, self.outside - {node})[0]:  # what does not depend on the state
            if isinstance(n, graph.Input) or any(
                leaf.node in bound for leaf in (*n.inputs(), *n.inside())
            ):
                bound.add(n)
            elif n is not node:
                self._plan_node(n)
                self.outside.add(n)
        try:
            local = LoopLocaliser(
                node, self.known, self.plan.chunks, self.outside - {node}, self.engine
            )
        except NoRule as reason:
            self._unrolled(node, reason)
            return
        state, made = list(node.init), None
        windows = local.windows(any(leaf in self.plan.given for leaf in state))
        if not windows:
            for leaf, first in zip(node.leaves, node.init, strict=True):
                self._same(leaf, first)
        for k, window in enumerate(windows):
            given = any(leaf in self.plan.given for leaf in state)
            made = local.blocks(window, state, self.program.params, made, given)
            last = k == len(windows) - 1
            state = (
                list(node.leaves) if last
                else [self._between(r.shape, r.type) for r in made.results]
            )  # fmt: skip
            stage = self._add(made, state)
        if windows and local.sizes != local.chunks:
            stage.chunks = local.chunks
            self.plan.chunks.update(dict.fromkeys(state, local.chunks))

    def _unrolled(self, node: graph.ArrayLoop, reason: NoRule) -> None:
        """Plan every iteration as separate stages."""
        count = None if node.count is None else self.known.number(node.count)
        if node.changing() or (
            count is None and (node.predicate is None or not self.engine.dynamic)
        ):
            raise reason
        if count is None:
            self._repeated(node, 0)
            return
        body = [
            n
            for n in inside(node, self.outside - {node})[0]
            if n is not node and not isinstance(n, graph.Input)
        ]
        own = set(graph.topological(node.body, inside=False))  # without those of nested loops
        blocks = prod(len(sizes) for sizes in self.plan.chunks[node.init[0]])
        if count * len(body) * blocks > UNROLLED:
            if self.engine.dynamic:
                self._repeated(node, count)
                return
            raise NoRule(
                f"{reason}, and one by one its iterations would be "
                f"{count * len(body) * blocks} tasks"
            )
        state = list(node.init)
        for iteration in range(count):
            builder = Rebuilder()
            for state_input, leaf in zip(node.state, state, strict=True):
                builder.leaves[state_input.leaf()] = leaf
                builder.memo.update(zip(state_input.shape, leaf.shape, strict=True))
            if node.index is not None:
                builder.memo[Read(node.index, 0, ())] = constant(iteration)
            for n in body:
                made = builder.over(n, builder)
                builder.nodes[n] = made
                verify_checks(made.checks, self._checked)
                if n in own:
                    self._plan_node(made)
                    self.outside.add(made)
            state = [builder.leaf(leaf) for leaf in node.body]
        for leaf, last in zip(node.leaves, state, strict=True):
            self._same(leaf, last)

    # --- loops and branches that are run step by step ---

    def _repeated(self, node: graph.ArrayLoop, count: int) -> None:
        """A loop that ends when a predicate says so, or that has many iterations: a `Repeat`."""
        for state_input, first in zip(node.state, node.init, strict=True):
            extents = extents_of(first.shape, self.known, node)
            self.known = self.known.with_(dict(zip(state_input.shape, extents, strict=True)))
            self.plan.chunks[state_input.leaf()] = self.plan.chunks[first]
        if node.index is not None:
            self.plan.chunks[node.index.leaf()] = ()
        with self._aside(node.bound) as step:
            self._within(node.body)
            body = [
                self._in_chunks(leaf, self.plan.chunks[first])
                for leaf, first in zip(node.body, node.init, strict=True)
            ]
            step.roots = body
        with self._aside(node.bound) as test:
            if node.predicate is not None:
                self._within([node.predicate])
                test.roots = [node.predicate]
        chunks = [self.plan.chunks[first] for first in node.init]
        self.plan.chunks.update(zip(node.leaves, chunks, strict=True))
        self._steered(Repeat(
            node, [s.leaf() for s in node.state], list(node.init), list(node.leaves), body, step,
            test, node.predicate, count, None if node.index is None else node.index.leaf(),
        ))  # fmt: skip

    def _branch(self, node: graph.Branch) -> None:
        """A branch as the stages of both sides, of which one runs."""
        chosen = self.known.number(node.predicate)
        if chosen is not None:
            side = node.then if chosen else node.other
            self._within(side)
            for made, leaf in zip(node.leaves, side, strict=True):
                self._same(made, leaf)
            return
        test = graph.Generate(
            (), (node.predicate,), label=graph.Label("predicate"), where=node.where
        )
        self._plan_node(test)
        sides: list[tuple[Plan, list[Leaf]]] = []
        for side in (node.then, node.other):
            with self._aside(()) as plan:
                self._within(side)
                like = sides[0][1] if sides else side
                found = [self._in_chunks(leaf, self.plan.chunks[other])
                         for leaf, other in zip(side, like, strict=True)]  # fmt: skip
                plan.roots = found
            sides.append((plan, found))
        (then, first), (other, second) = sides
        self.plan.chunks.update(
            (leaf, self.plan.chunks[x]) for leaf, x in zip(node.leaves, first, strict=True)
        )
        self._steered(Either(node, test.leaves[0], (then, other), (first, second),
                             list(node.leaves)))  # fmt: skip

    def _steered(self, part: Steering) -> None:
        self.plan.steering.setdefault(len(self.plan.stages), []).append(part)

    @contextmanager
    def _aside(self, bound: Sequence[Node]) -> Iterator[Plan]:
        """Plan nodes in a nested plan, which are not visible outside; `bound`: a loop's state."""
        plan, outside = self.plan, self.outside
        self.plan = Plan(given=plan.given, chunks=plan.chunks, constants=plan.constants)
        self.outside = {*outside, *bound}
        try:
            yield self.plan
        finally:
            self.plan, self.outside = plan, outside

    def _within(self, roots: Sequence[Leaf]) -> None:
        """Plan the nodes that arrays inside a loop or branch depend on."""
        for n in graph.topological(roots, inside=False):
            if n not in self.outside and not isinstance(n, graph.Input):
                self._plan_node(n)
                self.outside.add(n)

    # --- folds ---

    def _fold(self, node: graph.Fold) -> None:
        after = self._gatherer().split(node) if self.engine.dynamic else None
        if after is not None:
            self._generate(after, self.instead.get(node, node))
            return
        asked = self._of_answers(node) if self.engine.dynamic else node
        if asked is not node:
            self._fold_instead(asked, node)
            return
        outer = len(node.outer)
        exact = is_exact(node.combine)
        extents = extents_of((*node.outer, *node.inner), self.known, node)
        inner = range(outer, len(extents))
        if 0 in extents:
            self._plain(node)
            return
        if not exact and self._is_sparse(node, extents):
            self._fold_instead(self._stored(node), node)
            return
        if not exact:
            for rule in (self._leaves, self._rows, self._parts, self._plain):
                try:
                    rule(node)
                    return
                except NoRule as reason:
                    why = reason
            raise why
        local = self._local(node, free=tuple(range(len(extents))))
        cut_axes = [k for k in inner if local.axes[k].is_cut and len(local.axes[k].sizes) > 1]
        if not is_commutative(node.combine):
            cut_axes = [k for k in cut_axes if k == outer]
        if not cut_axes:
            self._plain(node)
            return
        self._partials(node, cut_axes)

    def _fold_instead(self, again: graph.Fold, node: graph.Fold) -> None:
        """Plan the fold `again` in place of `node`."""
        results = self.instead[again] = self.instead.get(node, node)
        self._fold(again)
        if self.plan.stages[-1].leaves == list(again.leaves):
            self._takes(self.plan.stages[-1], results)

    def _is_sparse(self, node: graph.Fold, extents: Sequence[int]) -> bool:
        """Whether a fold of one row reads few elements of a large part of an array, such as a
        diagonal, which blocks can extract first."""
        own = [graph.is_identity_read(read, 1) for read in reads_of(node.elements)]
        if not self.engine.dynamic or node.outer or len(extents) > 1 or all(own):
            return False
        blocks = self._local(node).blocks(self.program.params)
        read = sum(elements(b) * b.leaf.type.numpy.itemsize for b in blocks.buffers)
        size = extents[0] * sum(e.type.numpy.itemsize for e in node.elements)
        return read > LARGE and read > SPARSE * size

    def _of_answers(self, node: graph.Fold) -> graph.Fold:
        """The fold over gathered elements, if arrays are large and the grouping is equal."""
        gatherer = self._gatherer()

        def like(leaf: Leaf, axes: tuple[int, ...], positions: graph.Generate) -> Leaf:
            others = (sum(n) for a, n in enumerate(self.plan.chunks[leaf]) if a not in axes)
            own = extents_of(positions.shape, self.known, node)
            return self._between((*own, *others), leaf.type)

        trial = replace(gatherer, gathered=like).answered(node)
        ways = [(runs_across(n), goes_across(n), len(n.inner) > 1 and n) for n in (node, trial)]
        if trial is node or not (is_exact(node.combine) or ways[0] == ways[1]):
            return node
        return gatherer.answered(node)

    def _segments(self, node: graph.FoldSeg) -> None:
        """Folds of segments: blocks of rows, or of the segments of one row."""
        if node.outer:
            self._plain(node)
            return
        (extent,), (count,) = (extents_of((e,), self.known, node)
                               for e in (node.extent, node.segments))  # fmt: skip
        each = sum(e.type.numpy.itemsize for e in node.elements)
        if not self.engine.dynamic:
            raise NoRule("how many elements its segments have depends on what arrays hold")
        made = graph.Generate(
            (node.extent,), node.elements, label=graph.Label("elements"), where=node.where
        )
        if extent * each <= min(FEW, self.engine.allowed // 4):
            if self._reads_more(node, node.elements, extent * each):
                self._add(self._local(made).blocks(self.program.params), list(made.leaves))
                at_element = tuple(leaf.at(Index(0)) for leaf in made.leaves)
                self._after_elements(node.with_(elements=at_element), node)
                return
            raise NoRule("it has few elements")
        local = self._local(made, free=(0,))
        sizes = self.engine.runs(local.axes[0].sizes, each)
        if len(sizes) <= 1 or count <= 1:
            raise NoRule("it has one block" if count > 1 else "it has one segment")
        reads = [e for e in node.elements if isinstance(e, Read) and graph.is_identity_read(e, 1)]
        stored = [Leaf(e.node, e.component) for e in reads]
        if len(stored) < len(node.elements) or any(
            len(self.plan.chunks[leaf][0]) > MOST or leaf.shape != (node.extent,)
            or self.plan.chunks[leaf] != self.plan.chunks[stored[0]] for leaf in stored
        ):  # fmt: skip
            self._add(self._local(made, {0: sizes}, (0,)).blocks(self.program.params),
                      list(made.leaves))  # fmt: skip
            stored = list(made.leaves)
        parts = Segments(node, self.known, self.engine, self._results_of, self._constant)
        blocks = parts.blocks(stored, self.plan.chunks[stored[0]][0], count)
        if node.epilogue == node.results:
            self._add(blocks, list(node.leaves))
            return
        folded = self._results_of(blocks)
        at_segment = [leaf.at(Index(0)) for leaf in folded]
        values: dict[Expr, Expr] = dict(zip(node.results, at_segment, strict=True))
        after = graph.Generate(
            (node.segments,), substitute(node.epilogue, values), label=node.label, where=node.where
        )
        self._as(after, node)

    # --- products ---

    def _product(self, node: graph.Matmul) -> None:
        """A product in blocks of its result, or of parts of its sum if that moves less."""
        batch, params = len(node.batch), self.program.params
        along = self._local(node, free=range(batch + 3)).axes[-1]
        unsplit = self.engine.single or node.options.deterministic or node.result.type.is_narrow
        if not unsplit and len(along.sizes) > 1 and not (along.before or along.after):
            size = max(along.sizes)
            sizes = whole_parts(along.sizes, size)
            while True:
                made = folds.parts(node, size, along.extent)
                whole = self._local(made.whole, {batch: sizes}).blocks(params)
                if projected(whole) <= self.engine.allowed or size <= folds.LEAST:
                    break
                size //= 2
                sizes = (1,) * (along.extent // size)
            plain = self._local(node).blocks(params)
            if folds.are_better(whole, plain, self.engine.allowed):
                self._add(whole, list(made.whole.leaves))
                if made.rest is not None:
                    self._plain(made.rest)
                self._as(made.total, node)
                return
        self._plain(node)

    # --- sorting ---

    def _library(self, node: graph.Library) -> None:
        """Rows or matrices, each complete in a block; a large row is sorted by samples."""
        rank = max(len(leaf.shape) for leaf in node.arguments)
        along = combined_axes(node.operation, rank)
        if sorted_axis(node.operation) is None and along is not None and len(along) == rank:
            raise NoRule(f"{node.label} combines all elements")
        if sorted_axis(node.operation) is not None and len(node.outs[0].shape) == 1:
            (sizes,) = self.plan.chunks[node.arguments[0]]
            size = sum(sizes) * node.arguments[0].type.numpy.itemsize
            if (
                self.engine.dynamic
                and len(sizes) > 1
                and (size > min(FEW, self.engine.allowed // 4))
            ):
                sizes = self.engine.runs(sizes, size // max(sum(sizes), 1))
                blocks = sorting.sort(node, sizes, self.engine, self._results_of, self._constant)
                self._add(blocks, list(node.leaves))
                return
        self._plain(node)

    # --- permutes ---

    def _permute(self, node: graph.Permute) -> None:
        """A scatter.  Into a small array that combines exactly: one partial result per block, then
        their combination.  Otherwise, every part of the target is computed from its elements, in
        order."""
        if node in self.selected:
            blocks = self._compacted(node, self.selected[node])
            self._add(blocks, list(node.leaves))
            for leaf, value in zip(node.leaves, node.values, strict=True):
                found = bounds(value, blocks, self.known, self.plan.constants)
                if found is not None:
                    self.bounds[leaf] = found
            return
        results = [extents_of(leaf.shape, self.known, node) for leaf in node.defaults]
        size = sum(
            prod(n) * leaf.type.numpy.itemsize
            for n, leaf in zip(results, node.defaults, strict=True)
        )
        exact = node.combine is not None and is_exact(node.combine)
        most = min(SMALL, self.engine.allowed // 4)
        if node.combine is None or not self._combines_per_block(node, exact) or size > most:
            self._exchanged(node, size, exact)
            return
        local = self._local(node)
        axes = [a for a in local.axes if a.is_cut]
        if not axes:
            self._exchanged(node, size, exact)
            return
        if any(a.before or a.after for a in axes):
            self._permute(self._of_elements(node))
            self._takes(self.plan.stages[-1], node)
            return
        if len(node.defaults[0].shape) + len(axes) > MOST_AXES:
            raise NoRule(f"with the axis of blocks its result has more than {MOST_AXES} axes")
        partial = self._per_block(local.blocks(self.program.params), axes)
        rank = len(node.defaults[0].shape)
        index = graph.indices(rank + len(axes))
        counts = tuple(Extent(partial[0].node, rank + k) for k in range(len(axes)))
        folded = result_variables(node.values)
        own = [leaf.at(*graph.indices(rank)) for leaf in node.defaults]
        epilogue = node.combine.of(folded, own)
        elements = tuple(p.at(*index) for p in partial)
        label = graph.Label(node.label.operation, node.label.name)
        total = graph.Fold(
            node.defaults[0].shape, counts, elements, node.combine, None, folded, epilogue,
            label=label, where=node.where,
        )  # fmt: skip
        self._as(total, node)

    def _compacted(self, node: graph.Permute, counts: Numbers | None = None) -> Blocks:
        """The elements that a mask selects in every block: as many as `counts` says, or all."""
        selection, (extent,) = self.selections[node], extents_of(node.domain, self.known, node)
        sizes = {0: self.partial[selection.total][1] if selection.total in self.partial
                 else (extent,)}  # fmt: skip
        made = elements_of(node, selection.mask)
        local = self._local(made, sizes, (0,))
        if any(a.before or a.after for a in local.axes) and counts is not None:
            self._plain(made, sizes)  # elements of a halo are not selected
            mask, *values = (leaf.at(Index(0)) for leaf in made.leaves)
            made = elements_of(node.with_(values=tuple(values)), mask)
            local = self._local(made, sizes, (0,))
        counts = np.asarray(sizes[0], np.int64) if counts is None else counts
        return compacted(node, local.blocks(self.program.params), counts)

    def _combines_per_block(self, node: graph.Permute, exact: bool) -> bool:
        """Whether every block may combine its elements separately: if the order does not matter, or
        if it need not be kept and there are many elements."""
        if node.combine is None or identities(node.combine) is None:
            return False
        source = prod(extents_of(node.domain, self.known, node))
        many = source * sum(e.type.numpy.itemsize for e in node.values) > MANY
        # A part of the result may receive all elements, for which a task may lack memory.
        many |= source * sum(e.type.numpy.itemsize for e in node.per_element()) > (
            self.engine.allowed // 4
        )
        return exact or (many and not node.label.deterministic and is_commutative(node.combine))

    def _elements(self, node: graph.Permute, rows: bool = False) -> tuple[Leaf, ...]:
        """A scatter's per-element expressions as arrays; `rows`: in at least two chunks of rows."""
        made = graph.Generate(
            node.domain, node.per_element(), label=graph.Label("elements"), where=node.where
        )
        local = self._local(made, free=(0,) if rows else None)
        if rows and len(local.axes[0].sizes) <= 1:
            raise NoRule("its source is one block")
        self._add(local.blocks(self.program.params), list(made.leaves))
        return made.leaves

    def _of_elements(self, node: graph.Permute) -> graph.Permute:
        """The same scatter, reading stored arrays for its per-element expressions."""
        read = [leaf.at(*graph.indices(len(node.domain))) for leaf in self._elements(node)]
        rank = len(node.target)
        return node.with_(valid=read[0], target=tuple(read[1 : rank + 1]),
                          values=tuple(read[rank + 1 :]))  # fmt: skip

    def _reads_more(self, node: Node, elements: Sequence[Expr], size: int) -> bool:
        """Whether elements of so many bytes are computed from arrays too large for a task."""
        leaves = {Leaf(e.node, e.component) for e in walk(elements) if isinstance(e, Read)}
        read = sum(
            prod(extents_of(leaf.shape, self.known, node)) * leaf.type.numpy.itemsize
            for leaf in leaves
        )
        return read > 2 * size and read + size > self.engine.allowed

    def _after_elements(self, again: Node, node: Node) -> None:
        """Plan `again`, which reads stored elements, in place of `node`."""
        self.outside.update(leaf.node for leaf in again.inputs())
        self._plan_node(again)
        self._takes(self.plan.stages[-1], node)

    def _exchanged(self, node: graph.Permute, size: int, exact: bool) -> None:
        """A scatter in the order of its source, which is cut along its first axis."""
        reason = "its result depends on the order of what it scatters"
        if exact:
            limit = min(SMALL, self.engine.allowed // 4)
            why = f"more than {in_bytes(limit)}" if size > limit else "and its source is one block"
            reason = f"what it scatters into has {in_bytes(size)}, {why}"
        source = extents_of(node.domain, self.known, node)
        each = sum(e.type.numpy.itemsize for e in node.values)
        moved = prod(source) * sum(e.type.numpy.itemsize for e in node.per_element())
        few = prod(source) * each + size <= min(FEW, self.engine.allowed // 4)
        if self.engine.dynamic and few and self._reads_more(node, node.per_element(), moved):
            self._after_elements(self._of_elements(node), node)
            return
        if few or not self.engine.dynamic:
            raise NoRule(reason)
        shape = extents_of(node.defaults[0].shape, self.known, node)
        if not prod(source) or not source or not shape or not prod(shape):
            raise NoRule(reason)
        exchange = Exchange(node, self.known, self.engine, self._results_of, self._constant)
        parts = self.plan.chunks[node.defaults[0]][0]
        own = parts if len(parts) > 1 else self.engine.choose(shape, -(-size // prod(shape)))[0]
        # Few elements: every part reads all of them, in total less than twice the bytes it writes.
        few = moved <= min(SMALL, self.engine.allowed // 8) and moved * len(own) < 2 * size
        if few and len(own) > 1:
            stored = self._elements(node)
            self._add(exchange.spread(stored, source, shape, own, exact), list(node.leaves))
            return
        stored = self._elements(node, rows=True)
        each = prod(source[1:]) * sum(leaf.type.numpy.itemsize for leaf in stored)
        sizes = self.engine.runs(self.plan.chunks[stored[0]][0], each)
        if len(parts) == 1:
            parts = even(shape[0], len(sizes))
        parts = self.engine.runs(parts, size // max(shape[0], 1))
        self._add(exchange.blocks(stored, source, sizes, shape, parts, exact), list(node.leaves))


def _extents(node: Node) -> list[Expr]:
    """The extents of what a node computes."""
    shapes = (*node.iteration_space(), *(e for o in node.outputs for e in o.shape))
    return [e for e in shapes if e is not None]
