"""The plan of a call: the kernels of an optimised program, each in blocks, in order.

A plan knows no engine: `graph.py` makes tasks of dask of it, `stream.py` runs it from files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from treadle.dsl.analysis.combines import identities, is_commutative
from treadle.dsl.errors import DistributionError
from treadle.dsl.expr import Cond, Expr, Extent, Index, Param, Proj, Read, constant, substitute
from treadle.dsl.graph import (
    ArrayLoop,
    Barrier,
    Fold,
    Generate,
    Input,
    Label,
    Leaf,
    Node,
    Permute,
    Scan,
    indices,
    topological,
)
from treadle.dsl.graphs.rebuild import Rebuilder
from treadle.dsl.graphs.relations import checks_before, verify_checks
from treadle.dsl.node import result_variables
from treadle.dsl.program import TracedProgram
from treadle.dsl.text import in_bytes
from treadle.dsl.types import int64
from treadle.skeletons.ir import arithmetic as at
from treadle.skeletons.lower.fold.cpu import BLOCK as LEAF
from treadle.skeletons.lower.fold.rows import is_exact

from .domain import Axis, Chunks, Known
from .leaves import Leaves
from .localise import Blocks, Localiser, NoRule, extents_of
from .loops import TASK, LoopLocaliser
from .memory import limit, require
from .whole import inside, whole

#: Bytes of a block of results that no array determines.
BLOCK = 64 << 20
#: Loops of other operations than stencils become at most so many tasks, else one.
UNROLLED = 20_000
#: The largest array, in bytes, of which every block of a scatter has one.
SMALL = 16 << 20


@dataclass
class Stage:
    """A kernel in blocks, and the arrays that it computes."""

    blocks: Blocks
    leaves: list[Leaf]


@dataclass
class Plan:
    """The stages of a call, in order.

    `stages`, the arrays `given` (with the position of their data), the `chunks` of all arrays, and
    the results.
    """

    stages: list[Stage] = field(default_factory=list)
    given: dict[Leaf, int] = field(default_factory=dict)
    chunks: dict[Leaf, Chunks] = field(default_factory=dict)
    roots: list[Leaf] = field(default_factory=list)
    #: Small arrays of numbers that stages read.
    constants: dict[Leaf, Any] = field(default_factory=dict)


class Planner:
    """Makes the plan of a program for certain extents, numbers and chunks."""

    def __init__(
        self,
        program: TracedProgram,
        shapes: Sequence[tuple[int, ...]],
        chunks: Sequence[Chunks],
        params: Sequence[Any],
        block: int = BLOCK,
        allowed: int | None = None,
        overhead: float = TASK,
    ) -> None:
        """`block`: bytes of blocks that no chunks determine; `allowed`: those that a task may use;
        `overhead`: the seconds of a task besides those of its kernels."""
        self.overhead = overhead
        if program.settings.check:
            raise DistributionError(
                "programs in checked mode do not run on dask arrays.",
                hint="Check the program on a part of the data, as NumPy arrays.",
            )
        self.program, self.block = program, block
        self.allowed = limit() if allowed is None else allowed
        self.settings = program.settings
        values: dict[Expr, Any] = dict(zip(program.params, params, strict=True))
        for given, shape in zip(program.inputs, shapes, strict=True):
            for a, n in enumerate(shape):
                values[Extent(given, a)] = n
        self.known = Known(values)
        verify_checks(checks_before(program.roots), self._checked)
        self.plan = Plan(roots=list(program.roots))
        for k, given in enumerate(program.inputs):
            self.plan.given[given.leaf()] = k
            self.plan.chunks[given.leaf()] = chunks[k]
        self.instead: dict[Fold, Fold] = {}
        order = list(topological(program.roots, inside=False))
        self.outside: set[Node] = {*order, *program.inputs}
        for node in order:
            if not isinstance(node, Input):
                self._place(node)

    def _checked(self, e: Expr) -> int:
        found = self.known.number(e)
        if found is None:
            raise DistributionError(
                "a check of this program depends on what arrays hold.", hint=_INSTEAD
            )
        return found

    # --- nodes ---

    def _place(self, node: Node) -> None:
        if isinstance(node, Barrier):
            for made, leaf in zip(node.leaves, node.arguments, strict=True):
                self._same(made, leaf)
            return
        try:
            if any(c.reads for c in node.checks):
                raise NoRule("what it checks depends on what arrays hold")
            try:
                if isinstance(node, Fold):
                    self._fold(node)
                elif isinstance(node, ArrayLoop):
                    self._loop(node)
                elif isinstance(node, Scan):
                    self._scan(node)
                elif isinstance(node, Permute):
                    self._permute(node)
                else:
                    self._plain(node)
            except NoRule as reason:
                blocks = whole(
                    node,
                    self.known,
                    self.outside - {node},
                    self.settings,
                    self.program.params,
                    str(reason),
                )
                self._add(blocks, list(node.leaves))
        except NoRule as reason:
            raise DistributionError(
                f"{node.label} cannot be computed on dask arrays: {reason}.",
                hint=_INSTEAD,
                where=node.where,
            ) from None

    def _plain(self, node: Node, sizes: Mapping[int, tuple[int, ...]] | None = None) -> Stage:
        local = Localiser(node, self.known, self.plan.chunks, self._chunks, sizes)
        return self._add(local.blocks(self.settings, self.program.params), list(node.leaves))

    def _add(self, blocks: Blocks, leaves: list[Leaf]) -> Stage:
        require(blocks, blocks.node, self.allowed)
        for leaf, result in zip(leaves, blocks.results, strict=True):
            self.plan.chunks[leaf] = tuple(
                (n,) if axis is None else axis.sizes
                for n, axis in zip(result.shape, result.axes, strict=True)
            )
        self.plan.stages.append(Stage(blocks, leaves))
        return self.plan.stages[-1]

    def _same(self, made: Leaf, leaf: Leaf) -> None:
        """An array that is another one."""
        copy = _copy_of(leaf)
        blocks = Localiser(copy, self.known, self.plan.chunks, self._chunks).blocks(
            self.settings, self.program.params
        )
        self._add(blocks, [made])

    def _chunks(self, extents: Sequence[int], itemsize: int) -> Chunks:
        return default_chunks(extents, itemsize, self.block)

    # --- loops ---

    def _loop(self, node: ArrayLoop) -> None:
        """A counted loop over stencils: several iterations per task."""
        bound: set[Node] = set(node.bound)
        for n in inside(node, self.outside - {node})[0]:  # what does not depend on the state
            if isinstance(n, Input) or any(
                leaf.node in bound for leaf in (*n.inputs(), *n.inside())
            ):
                bound.add(n)
            elif n is not node:
                self._place(n)
                self.outside.add(n)
        try:
            local = LoopLocaliser(
                node,
                self.known,
                self.plan.chunks,
                self.outside - {node},
                self._chunks,
                self.overhead,
            )
        except NoRule as reason:
            self._unrolled(node, reason)
            return
        state, made = list(node.init), None
        windows = local.windows()
        if not windows:
            for leaf, first in zip(node.leaves, node.init, strict=True):
                self._same(leaf, first)
        for k, window in enumerate(windows):
            made = local.blocks(window, state, self.settings, self.program.params, made)
            last = k == len(windows) - 1
            state = (
                list(node.leaves) if last
                else [self._between(r.shape, r.type) for r in made.results]
            )  # fmt: skip
            self._add(made, state)

    def _unrolled(self, node: ArrayLoop, reason: NoRule) -> None:
        """Every iteration as stages of their own."""
        count = None if node.count is None else self.known.number(node.count)
        if count is None or node.changing():
            raise reason
        body = [
            n
            for n in inside(node, self.outside - {node})[0]
            if n is not node and not isinstance(n, Input)
        ]
        blocks = prod(len(sizes) for sizes in self.plan.chunks[node.init[0]])
        if count * len(body) * blocks > UNROLLED:
            raise NoRule(
                f"{reason}, and one by one its iterations would be "
                f"{count * len(body) * blocks} tasks"
            )
        state = list(node.init)
        for iteration in range(count):
            builder = Rebuilder()
            for held, leaf in zip(node.state, state, strict=True):
                builder.leaves[held.leaf()] = leaf
                builder.memo.update(zip(held.shape, leaf.shape, strict=True))
            if node.index is not None:
                builder.memo[Read(node.index, 0, ())] = constant(iteration)
            for n in body:
                made = builder.over(n, builder)
                builder.nodes[n] = made
                self._place(made)
                self.outside.add(made)
            state = [builder.leaf(leaf) for leaf in node.body]
        for leaf, last in zip(node.leaves, state, strict=True):
            self._same(leaf, last)

    # --- folds ---

    def _fold(self, node: Fold) -> None:
        outer = len(node.outer)
        exact = is_exact(node.combine)
        extents = extents_of((*node.outer, *node.inner), self.known, node)
        inner = range(outer, len(extents))
        if 0 in extents:
            self._plain(node)
            return
        if not exact:
            try:
                self._leaves(node)
            except NoRule:
                self._plain(node)
            return
        local = Localiser(
            node, self.known, self.plan.chunks, self._chunks, free=tuple(range(len(extents)))
        )
        cut_axes = [k for k in inner if local.axes[k].is_cut and len(local.axes[k].sizes) > 1]
        if not is_commutative(node.combine):
            cut_axes = [k for k in cut_axes if k == outer]
        if not cut_axes:
            self._plain(node)
            return
        self._partials(node, cut_axes)

    def _partials(self, node: Fold, cut_axes: Sequence[int]) -> None:
        """Fold the parts of rows in every block, then those of a row together.  How the elements
        are grouped must not matter."""
        outer = len(node.outer)
        bare = node.with_(
            init=None,
            results=result_variables(node.elements),
            epilogue=result_variables(node.elements),
            checks=(),
        )
        free = (*range(outer), *cut_axes)
        local = Localiser(bare, self.known, self.plan.chunks, self._chunks, free=free)
        if any(local.axes[k].before or local.axes[k].after for k in cut_axes):
            # Elements within a halo, which are wrong, would be folded.
            self._fold(self._stored(node))
            return
        blocks = local.blocks(self.settings, self.program.params)
        axes = [a for k, a in enumerate(blocks.axes) if k in cut_axes]
        partial = self._per_block(blocks, axes)
        place = indices(outer + len(axes))
        counts = tuple(Extent(partial[0].node, outer + k) for k in range(len(axes)))
        total = Fold(
            node.outer,
            counts,
            tuple(p.at(*place) for p in partial),
            node.combine,
            node.init,
            node.results,
            node.epilogue,
            label=node.label,
            where=node.where,
        )
        self._instead(total, node)

    def _leaves(self, node: Fold) -> None:
        """A sum of floats: leaves, then all of them together."""
        found = Leaves(node, self.known, self.settings, self.program.params)
        sizes = found.sizes(self.plan.chunks)
        if len(sizes) <= 1:
            raise NoRule("it has one block of leaves")
        parts = []
        for blocks in (found.blocks(sizes), *([found.rest()] if found.count % LEAF else [])):
            parts.append([self._between(r.shape, r.type) for r in blocks.results])
            self._add(blocks, parts[-1])
        self._instead(found.combined(parts[0], parts[1] if len(parts) > 1 else None), node)

    # --- scans ---

    def _scan(self, node: Scan) -> None:
        """A scan of integers or extremes whose axis has several chunks: each block by itself, the
        totals of the blocks before it, and both together.  Others go along complete rows."""
        free = tuple(range(len(node.shape)))
        local = Localiser(node, self.known, self.plan.chunks, self._chunks, free=free)
        axis = local.axes[node.axis]
        plain = node.form == "inclusive" and node.init is None and is_exact(node.combine)
        if not plain or len(axis.sizes) == 1 or axis.before or axis.after:
            self._plain(node)
            return
        parts = result_variables(node.elements)
        bare = node.with_(results=parts, epilogue=parts, checks=())
        local = Localiser(bare, self.known, self.plan.chunks, self._chunks, free=free)
        blocks = local.blocks(self.settings, self.program.params)
        for result in blocks.results:
            result.axes = tuple(a if a.is_cut else None for a in blocks.axes)
        own = [self._between(r.shape, r.type) for r in blocks.results]
        self._add(blocks, own)
        rank, count = len(node.shape), len(axis.sizes)
        # The last (first) element of every block, and the scan of these.
        ends = Input("ends", int64, (False,), kind="argument")
        self.known = self.known.with_({Extent(ends, 0): count})
        self.plan.constants[ends.leaf()] = (
            np.cumsum(axis.sizes) - 1 if not node.reverse else (np.cumsum((0, *axis.sizes[:-1])))
        )
        self.plan.chunks[ends.leaf()] = ((count,),)
        place = list[Expr](indices(rank))
        place[node.axis] = ends.leaf().at(Index(node.axis))
        shape = (*node.shape[: node.axis], Extent(ends, 0), *node.shape[node.axis + 1 :])
        totals = Scan(shape, node.axis, tuple(leaf.at(*place) for leaf in own), node.combine, None,
                      "inclusive", node.reverse, label=node.label, where=node.where)  # fmt: skip
        self._plain(totals)
        number = Param("block", int64)
        place[node.axis] = at.add(number, 1 if node.reverse else -1)
        before = [Read(totals, k, tuple(place), "clamp") for k in range(len(own))]
        inside_block = [leaf.at(*indices(rank)) for leaf in own]
        first, second = (inside_block, before) if node.reverse else (before, inside_block)
        both: dict[Expr, Expr] = dict(zip(node.combine.left, first, strict=True))
        both.update(zip(node.combine.right, second, strict=True))
        either = Cond(
            at.less(number, count - 1) if node.reverse else at.less(0, number),
            substitute(node.combine.results, both), tuple(inside_block),
        )  # fmt: skip
        found: dict[Expr, Expr] = {v: Proj(either, k) for k, v in enumerate(node.results)}
        made = Generate(node.shape, substitute(node.epilogue, found), label=node.label,
                        where=node.where)  # fmt: skip
        self.known = self.known.with_({number: 0})
        local = Localiser(made, self.known, self.plan.chunks, self._chunks,
                          {node.axis: axis.sizes})  # fmt: skip
        blocks = local.blocks(self.settings, (*self.program.params, number))
        position = blocks.program.params.index(number)
        blocks.numbers[position] = blocks.axes[node.axis].numbers()
        self._add(blocks, list(node.leaves))

    # --- permutes ---

    def _permute(self, node: Permute) -> None:
        """A scatter that combines exactly, into a small array: one for every block, then all of
        them together."""
        if node.combine is None or not is_exact(node.combine) or identities(node.combine) is None:
            raise NoRule("its result depends on the order of what it scatters")
        local = Localiser(node, self.known, self.plan.chunks, self._chunks)
        axes = [a for a in local.axes if a.is_cut]
        if not axes:
            raise NoRule("its source is one block")
        if any(a.before or a.after for a in axes):
            raise NoRule("it scatters elements of a stencil")
        blocks = local.blocks(self.settings, self.program.params)
        size = sum(prod(r.shape) * r.type.numpy.itemsize for r in blocks.results)
        if size > SMALL:
            raise NoRule(f"what it scatters into has {in_bytes(size)}, more than {in_bytes(SMALL)}")
        partial = self._per_block(blocks, axes)
        rank = len(node.defaults[0].shape)
        place = indices(rank + len(axes))
        counts = tuple(Extent(partial[0].node, rank + k) for k in range(len(axes)))
        results = result_variables(node.values)
        own = [leaf.at(*indices(rank)) for leaf in node.defaults]
        both: dict[Expr, Expr] = dict(zip(node.combine.left, results, strict=True))
        both.update(zip(node.combine.right, own, strict=True))
        epilogue = substitute(node.combine.results, both)
        elements = tuple(p.at(*place) for p in partial)
        shape = node.defaults[0].shape
        label = Label(node.label.operation, node.label.name)
        total = Fold(
            shape, counts, elements, node.combine, None, results, epilogue,
            label=label, where=node.where,
        )  # fmt: skip
        self._as(total, node)

    def _per_block(self, blocks: Blocks, axes: Sequence[Axis]) -> list[Leaf]:
        """Results that every block has, as arrays with an element per block along more axes."""
        for result in blocks.results:
            result.shape = (*result.shape, *(len(a.sizes) for a in axes))
            result.axes = (*result.axes, *(a.counting() for a in axes))
            result.added = len(axes)
        partial = [self._between(result.shape, result.type) for result in blocks.results]
        self._add(blocks, partial)
        return partial

    def _instead(self, total: Fold, node: Fold) -> None:
        """A fold whose results are those of `node`."""
        self._as(total, self.instead.get(node, node))

    def _as(self, total: Node, node: Node) -> None:
        """Another node that computes the results of `node`."""
        stage = self._plain(total)
        stage.leaves = list(node.leaves)
        for made, leaf in zip(total.leaves, node.leaves, strict=True):
            self.plan.chunks[leaf] = self.plan.chunks[made]

    def _stored(self, node: Fold) -> Fold:
        """The same fold of elements that a stage of their own computes."""
        shape = (*node.outer, *node.inner)
        made = Generate(shape, node.elements, label=Label("elements"), where=node.where)
        self._plain(made)
        place = indices(len(shape))
        stored = node.with_(elements=tuple(leaf.at(*place) for leaf in made.leaves))
        self.instead[stored] = node
        return stored

    def _between(self, shape: tuple[int, ...], type_: Any) -> Leaf:
        """An array between two stages of one kernel."""
        made = Input("partial", type_, (False,) * len(shape), kind="argument")
        self.known = self.known.with_({Extent(made, a): n for a, n in enumerate(shape)})
        return made.leaf()


def _copy_of(leaf: Leaf) -> Node:
    return Generate(leaf.shape, (leaf.at(*indices(len(leaf.shape))),), label=Label("compute"))


def default_chunks(extents: Sequence[int], itemsize: int, size: int = BLOCK) -> Chunks:
    """Chunks of about `size` bytes for an array of which no other determines any: whole rows."""
    room = max(size // itemsize, 1)
    found: list[tuple[int, ...]] = []
    inner = prod(extents)
    for n in extents:
        inner = inner // max(n, 1)
        rows = min(max(room // max(inner, 1), 1), max(n, 1))
        found.append(cut(n, rows))
        room = max(room // rows, 1)
    return tuple(found)


def cut(extent: int, size: int) -> tuple[int, ...]:
    """The sizes of the chunks of an axis, all but the last equal to `size`."""
    if not extent:
        return (0,)
    full, rest = divmod(extent, max(size, 1))
    return (size,) * full + ((rest,) if rest else ())


_INSTEAD = "Compute this part on a NumPy array, or ask for a part of the data."
