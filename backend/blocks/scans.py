"""Rules for scans and recurrences along an axis that has several chunks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod

import numpy as np

from treadle.dsl.analysis.combines import identities, is_commutative
from treadle.dsl.expr import TRUE, Expr, Extent, Index, Param, Read, Var, constant, substitute
from treadle.dsl.graph import Combine, Fold, Generate, Label, Leaf, Node, Recurrence, Scan, indices
from treadle.dsl.node import PARTIALS, result_variables
from treadle.dsl.scalar import apply_primitive
from treadle.dsl.types import bool_, int64
from treadle.skeletons.ir import arithmetic as at
from treadle.skeletons.ir.linearize import zero
from treadle.skeletons.lower.fold.rows import is_exact
from treadle.skeletons.lower.scan.cpu import BLOCK, GROUPED, MANY_ROWS, is_grouped

from .domain import edges, whole_parts
from .localise import Localiser, extents_of
from .rules import Rules

#: Bytes of rows that one task scans if their bits depend on where they are cut.
ALONE = 1 << 20


class Scans(Rules):
    def _scan(self, node: Scan) -> None:
        """A scan whose axis has several chunks.

        Integers and extremes: a single row by carries, several rows in three stages (each block by
        itself, the totals of the preceding blocks, both combined).  Floats are added in the order
        of the kernel for the whole array: columns and many rows from block to block, one or a few
        rows via the totals of the kernel's blocks.  Other scans use complete rows.
        """
        free = tuple(range(len(node.shape)))
        local = self._local(node, free=free)
        axis = local.axes[node.axis]
        if len(axis.sizes) == 1:
            self._plain(node)
            return
        exact = is_exact(node.combine)
        reason = None if exact else self._not_cut(node, local)
        if reason is not None:
            self._plain(node).blocks.notes.append(f"axis {node.axis} is complete: {reason}")
        elif axis.before or axis.after:  # elements in a halo are wrong
            made = Generate(node.shape, node.elements, label=Label("elements"), where=node.where)
            self._plain(made)
            here = indices(len(node.shape))
            again = node.with_(elements=tuple(leaf.at(*here) for leaf in made.leaves))
            self._scan(again)
            self._named(again.leaves, node.leaves)
        elif not exact and not self._is_sequential(node, local):
            self._by_leaves(node, axis.sizes)
        elif node.form != "inclusive":
            self._shifted(node)
        elif not exact:
            together = node.axis == len(free) - 1 and is_grouped(node)
            self._handed_on((_in_groups if together else _as_recurrence)(node), node)
        elif len(free) == 1 and identities(node.combine) is not None:
            self._carried(node, axis.sizes)
        else:
            self._by_ends(node, free, axis.sizes)

    def _not_cut(self, node: Scan, local: Localiser) -> str | None:
        """Why a scan of floats needs complete rows."""
        if not self.engine.dynamic:
            return "its blocks would be computed one after the other"
        if self._is_small(local):
            return "it is small"
        if node.axis < len(node.shape) - 1 or self._is_sequential(node, local):
            return None
        if identities(node.combine) is None and is_commutative(node.combine):
            return "its function has no known neutral element"
        return None

    def _is_small(self, local: Localiser) -> bool:
        each = sum(o.type.numpy.itemsize for o in local.node.outputs)
        return prod(local.extents) * each <= min(ALONE, self.engine.allowed // 4)

    def _is_sequential(self, node: Scan, local: Localiser) -> bool:
        """Whether the kernel takes the steps of every row in order."""
        if node.axis < len(node.shape) - 1:
            return True
        return prod(local.extents[:-1]) >= MANY_ROWS or local.extents[-1] <= BLOCK

    def _shifted(self, node: Scan) -> None:
        """Plan a scan with an initial value as an inclusive one."""
        assert node.init is not None
        bare = Scan(node.shape, node.axis, node.elements, node.combine, node.init, "inclusive",
                    node.reverse, label=node.label, where=node.where)  # fmt: skip
        self._scan(bare)
        rank, n = len(node.shape), node.shape[node.axis]
        index = list[Expr](indices(rank))
        k, moved = index[node.axis], list(index)
        exclusive = node.form == "exclusive"
        if not node.reverse:
            inside, moved[node.axis] = at.less(0, k), k - 1
        elif exclusive:
            inside = at.less(k, n)
        else:
            inside, moved[node.axis] = at.less(k + 1, n), k + 1
        self._ends(node, inside, tuple(leaf.at(*moved) for leaf in bare.leaves), node.init)
        if not exclusive:
            last = at.integer(0) if node.reverse else n - 1
            before, after = indices(rank - 1)[: node.axis], indices(rank - 1)[node.axis :]
            self._total(node, tuple(leaf.at(*before, last, *after) for leaf in bare.leaves))

    def _ends(self, node: Scan, inside: Expr, values: tuple[Expr, ...], end: Sequence[Expr]
              ) -> None:  # fmt: skip
        """Plan the prefixes of a scan: `values`, and at the ends the initial value or the total."""
        either = at.choose(inside, values, end)
        found: dict[Expr, Expr] = dict(zip(node.results, either, strict=True))
        made = Generate(node.outputs[0].shape, substitute(node.epilogue, found), label=node.label,
                        where=node.where)  # fmt: skip
        self._plain(made)
        self._named(made.leaves, node.leaves[: len(node.epilogue)])

    def _total(self, node: Scan, values: tuple[Expr, ...]) -> None:
        """Plan the values after the last step."""
        others = (*node.shape[: node.axis], *node.shape[node.axis + 1 :])
        made = Generate(others, values, label=node.label, where=node.where)
        self._plain(made)
        self._named(made.leaves, node.leaves[len(node.epilogue) :])

    def _named(self, made: Sequence[Leaf], leaves: Sequence[Leaf]) -> None:
        names = dict(zip(made, leaves, strict=True))
        for stage in self.plan.stages[-2:]:
            stage.leaves = [names.get(leaf, leaf) for leaf in stage.leaves]
        for leaf, other in names.items():
            self.plan.chunks[other] = self.plan.chunks[leaf]

    # --- block after block ---

    def _recurrence(self, node: Recurrence) -> None:
        """A recurrence over several chunks: a block continues where the previous one ended."""
        local = self._local(node, free=range(len(node.shape)))
        axis = local.axes[node.axis]
        several = len(axis.sizes) > 1 and not (axis.before or axis.after)
        if self.engine.dynamic and several and not self._is_small(local):
            self._handed_on(node, node)
        else:
            self._plain(node)

    def _handed_on(self, node: Recurrence, results: Node) -> None:
        """The steps along an axis in blocks, each of which starts with the last state of the
        previous block; `results`: the node that they compute."""
        rank, stored = len(node.shape), len(node.collected)
        axes = self._local(node, free=range(rank)).axes
        sizes = {k: a.sizes for k, a in enumerate(axes) if a.is_cut}
        others = [k for k in range(rank) if k != node.axis]
        count = axes[node.axis].count
        states = [self._between((*(axes[k].extent for k in others), count), v.type)
                  for v in node.state]  # fmt: skip
        for state in states:
            self.plan.chunks[state] = (*(axes[k].sizes for k in others), (1,) * count)
        number = Param("block", int64)
        known, self.known = self.known, self.known.with_({number: axes[node.axis].numbers()})
        before = number + (1 if node.reverse else -1)
        first = at.less(number, count - 1) if node.reverse else at.less(0, number)
        ended = [s.at(*indices(rank - 1), before) for s in states]
        made = node.with_(
            start=at.choose(first, ended, node.start), last=tuple(range(len(states))), checks=()
        )
        blocks = self._local(made, sizes, range(rank)).blocks((*self.program.params, number))
        self.known = known
        for result in blocks.results[stored:]:
            result.shape = (*result.shape, count)
            result.axes = (*result.axes, blocks.axes[node.axis].counting())
            result.added = 1
        blocks.backwards = node.reverse
        blocks.notes.append(f"block after block along axis {node.axis}: each begins where the one "
                            f"{'behind' if node.reverse else 'before'} it ended")  # fmt: skip
        self._add(blocks, [*results.leaves[:stored], *states])
        if len(results.leaves) > stored:
            end = at.integer(0 if node.reverse else count - 1)
            kept = tuple(states[k].at(*indices(rank - 1), end) for k in node.last)
            last = Generate(node.others, kept, label=node.label, where=node.where)
            self._plain(last)
            self._named(last.leaves, results.leaves[stored:])

    # --- floats, by the blocks of the kernel ---

    def _by_leaves(self, node: Scan, sizes: tuple[int, ...]) -> None:
        """A few long rows, in three stages: the totals of the kernel's blocks, the totals of all
        that precedes each, and from these the scan of chunks of whole blocks."""
        rank = len(node.shape)
        start = node.init or identities(node.combine)
        steps = node if start is not None else _lifted(node)
        nothing = tuple(zero(e.type) for e in steps.elements)
        *rows, n = extents_of(node.shape, self.known, node)
        full, others = n // BLOCK, node.shape[:-1]
        if node.reverse:
            sizes = sizes[::-1]
        # Block b begins at b·BLOCK or, if scanned from the end, ends before the last b·BLOCK.
        first = Index(rank - 1) * BLOCK
        if node.reverse:
            first = n - BLOCK - first
        moved: dict[Expr, Expr] = {Index(rank - 1): first + Index(rank)}
        parts = result_variables(node.elements)
        totals = Fold((*others, constant(full)), (constant(BLOCK),),
                      substitute(node.elements, moved), node.combine, None, parts, parts,
                      label=Label(PARTIALS, node.label.name or "totals"),
                      where=node.where)  # fmt: skip
        local = self._local(totals, {rank - 1: whole_parts(sizes, BLOCK)}, range(rank))
        self._add(local.blocks(self.program.params), list(totals.leaves))
        blocks = -(-n // BLOCK)
        state = result_variables(steps.elements)
        flags, here = len(state) - len(node.elements), indices(rank)
        total: Sequence[Expr] = (*[TRUE] * flags, *(leaf.at(*here) for leaf in totals.leaves))
        if blocks > full:  # (nothing follows the last one)
            total = at.choose(at.less(here[-1], full), total, nothing)
        carries = Recurrence((*others, constant(blocks)), rank - 1, False, start or nothing,
                             state, _combined(steps, state, total), state, (),
                             label=Label("carries", node.label.name), where=node.where)  # fmt: skip
        self._plain(carries)
        ends = [-(-e // BLOCK) * BLOCK for e in edges(sizes)]
        starts = sorted({min(e, n) for e in ends})
        chunks = tuple(b - a for a, b in pairwise(starts))
        if node.reverse:
            chunks = chunks[::-1]
        ones = {k: (1,) * extent for k, extent in enumerate(rows)}
        axes = self._local(node, {**ones, rank - 1: chunks}, range(rank)).axes
        begin = n - axes[-1].stop if node.reverse else axes[-1].start
        numbers = [Param("row", int64) for _ in rows] + [Param("block", int64)]
        values = [a.start for a in axes[:-1]] + [begin // BLOCK]
        known, self.known = self.known, self.known.with_(dict(zip(numbers, values, strict=True)))
        inclusive, parts = node.form == "inclusive", result_variables(steps.elements)
        again = Scan(node.shape, node.axis, steps.elements, steps.combine,
                     tuple(c.at(*numbers) for c in carries.leaves),
                     "inclusive" if inclusive else "total", node.reverse,
                     steps.results if inclusive else parts,
                     node.epilogue if inclusive else parts[flags:],
                     label=node.label, where=node.where)  # fmt: skip
        local = self._local(again, {**ones, rank - 1: chunks}, range(rank))
        made = local.blocks((*self.program.params, *numbers))
        self.known = known
        for k, result in enumerate(made.results):
            cut = [a if a.is_cut else None for a in made.axes]
            result.axes = tuple(cut)
            if k >= len(again.epilogue):  # the value after the last step of every block
                result.shape = (*result.shape, made.axes[-1].count)
                result.axes = (*cut[:-1], made.axes[-1].counting())
                result.added = 1
        if inclusive:
            self._add(made, list(node.leaves))
            return
        found = self._results_of(made)
        index, at_k = list[Expr](here), here[-1]
        last = at.integer(0 if node.reverse else made.axes[-1].count - 1)
        count = len(parts) - flags
        total = tuple(leaf.at(*here[:-1], last) for leaf in found[count + flags :])
        inside: Expr = TRUE
        if node.form == "exclusive":
            inside = at.less(0, at_k) if node.reverse else at.less(at_k, n)
            index[-1] = at_k - 1 if node.reverse else at_k
        self._ends(node, inside, tuple(leaf.at(*index) for leaf in found[:count]), total)
        if node.form == "total":
            self._total(node, total)

    # --- integers and extremes ---

    def _by_ends(self, node: Scan, free: Sequence[int], sizes: tuple[int, ...]) -> None:
        """Every block by itself, the totals of the blocks before it, and both together."""
        parts = result_variables(node.elements)
        bare = node.with_(results=parts, epilogue=parts, init=None, checks=())
        blocks = self._local(bare, free=free).blocks(self.program.params)
        for result in blocks.results:
            result.axes = tuple(a if a.is_cut else None for a in blocks.axes)
        own = self._results_of(blocks)
        rank, count = len(node.shape), len(sizes)
        # The last (first) element of every block, and the scan of these.
        index, end = list[Expr](indices(rank)), Param("end", int64)
        index[node.axis] = end
        shape = (*node.shape[: node.axis], constant(count), *node.shape[node.axis + 1 :])
        ends = Generate(shape, tuple(leaf.at(*index) for leaf in own),
                        label=Label("ends", node.label.name), where=node.where)  # fmt: skip
        axis, every = blocks.axes[node.axis], {k: a.sizes for k, a in enumerate(blocks.axes)}
        known = self.known
        self.known = known.with_({end: axis.start if node.reverse else axis.stop - 1})
        local = self._local(ends, every | {node.axis: (1,) * count}, free)
        self._add(local.blocks((*self.program.params, end)), list(ends.leaves))
        self.known = known
        here = indices(rank)
        totals = Scan(shape, node.axis, tuple(leaf.at(*here) for leaf in ends.leaves), node.combine,
                      None, "inclusive", node.reverse, label=node.label,
                      where=node.where)  # fmt: skip
        self._plain(totals)
        number = Param("block", int64)
        index[node.axis] = number + (1 if node.reverse else -1)
        before = [Read(totals, k, tuple(index), "clamp") for k in range(len(own))]
        inside_block = [leaf.at(*indices(rank)) for leaf in own]
        first, second = (inside_block, before) if node.reverse else (before, inside_block)
        follows = at.less(number, count - 1) if node.reverse else at.less(0, number)
        whole = at.choose(follows, node.combine.of(first, second), inside_block)
        if node.init is not None:
            whole = _combined(node, node.init, whole)
        found: dict[Expr, Expr] = dict(zip(node.results, whole, strict=True))
        made = Generate(node.shape, substitute(node.epilogue, found), label=node.label,
                        where=node.where)  # fmt: skip
        self.known = self.known.with_({number: 0})
        local = self._local(made, {node.axis: sizes})
        local.known = self.known.with_({number: local.axes[node.axis].numbers()})
        self._add(local.blocks((*self.program.params, number)), list(node.leaves))

    def _carried(self, node: Scan, sizes: tuple[int, ...]) -> None:
        """Three stages: block totals, totals of all that precedes, and scans from these."""
        parts, neutral = result_variables(node.elements), identities(node.combine)
        fold = Fold((), node.shape, node.elements, node.combine, None, parts, parts,
                    label=Label("totals", node.label.name), where=node.where)  # fmt: skip
        blocks = self._local(fold, {0: sizes}, (0,)).blocks(self.program.params)
        totals = self._per_block(blocks, blocks.axes)
        carries = Scan((Extent(totals[0].node, 0),), 0, tuple(t.at(Index(0)) for t in totals),
                       node.combine, node.init or neutral, "exclusive", node.reverse,
                       label=Label("carries", node.label.name), where=node.where)  # fmt: skip
        self._plain(carries)
        number = Param("block", int64)
        following = number + int(node.reverse)
        self.known = self.known.with_({number: np.arange(len(sizes))})
        local = self._local(
            node.with_(init=tuple(c.at(following) for c in carries.leaves), checks=()),
            {0: sizes},
            (0,),
        )
        blocks = local.blocks((*self.program.params, number))
        for result in blocks.results:
            result.axes = tuple(blocks.axes)
        self._add(blocks, list(node.leaves))


def _combined(node: Scan, total: Sequence[Expr], value: Sequence[Expr]) -> tuple[Expr, ...]:
    """The step of a scan: the total so far combined with an element."""
    left, right = (value, total) if node.reverse else (total, value)
    return node.combine.of(left, right)


def _lifted(node: Scan) -> Scan:
    """The same scan with an identity: elements get a flag, which is false for the identity."""
    combine = node.combine
    x, y = Var("left", bool_), Var("right", bool_)
    both = at.choose(y, combine.results, combine.left)
    values = at.choose(x, both, combine.right)
    flag = apply_primitive("logical_or", [x, y])
    made = Combine((x, *combine.left), (y, *combine.right), (flag, *values))
    return Scan(node.shape, node.axis, (TRUE, *node.elements), made, None, node.form, node.reverse,
                (Var("flag", bool_), *node.results), node.epilogue, label=node.label,
                where=node.where)  # fmt: skip


def _as_recurrence(node: Scan) -> Recurrence:
    """The same scan as a recurrence, which takes its steps in order."""
    state, axis = result_variables(node.elements), node.axis
    steps = _combined(node, state, node.elements)
    start = node.init or identities(node.combine)
    if start is None:  # the first element is the first state
        start = tuple(zero(e.type) for e in node.elements)
        end = node.shape[axis] - 1 if node.reverse else 0
        steps = at.choose(at.equal(Index(axis), end), node.elements, steps)
    stored = substitute(node.epilogue, dict(zip(node.results, steps, strict=True)))
    return Recurrence(node.shape, axis, node.reverse, tuple(start), state, steps, stored, (),
                      label=node.label, where=node.where)  # fmt: skip


def _in_groups(node: Scan) -> Recurrence:
    """The same steps in groups of GROUPED, as along the rows on one machine: the state is the total
    before a group, and that of the group's own elements."""
    axis, n, count = node.axis, node.shape[node.axis], len(node.elements)
    start = tuple(node.init or identities(node.combine) or ())
    state = result_variables((*node.elements, *node.elements))
    before, own = state[:count], state[count:]
    p: Expr = Index(axis)
    if node.reverse:
        p = n - 1 - p
    step = p % GROUPED
    # The remaining elements, fewer than a group, are combined one by one, as groups of one.
    left_over = at.less_equal(n // GROUPED * GROUPED, p)
    begins = at.either(left_over, at.equal(step, 0))
    ends = at.either(left_over, at.equal(step, GROUPED - 1))
    group = at.choose(begins, node.elements, _combined(node, own, node.elements))
    total = _combined(node, before, group)
    following = at.choose(ends, total, before)
    stored = substitute(node.epilogue, dict(zip(node.results, total, strict=True)))
    return Recurrence(node.shape, axis, node.reverse, (*start, *start), state,
                      (*following, *group), stored, (),
                      label=node.label, where=node.where)  # fmt: skip
