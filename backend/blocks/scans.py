"""Scans along an axis that has several chunks."""

from __future__ import annotations

import numpy as np

from treadle.dsl.analysis.combines import identities
from treadle.dsl.expr import (
    Cond,
    Expr,
    Extent,
    Index,
    Param,
    Proj,
    Read,
    substitute,
)
from treadle.dsl.graph import (
    Fold,
    Generate,
    Input,
    Label,
    Scan,
    indices,
)
from treadle.dsl.node import result_variables
from treadle.dsl.types import int64
from treadle.skeletons.ir import arithmetic as at
from treadle.skeletons.lower.fold.rows import is_exact

from .rules import Rules


class Scans(Rules):
    """Rules of scans."""

    def _scan(self, node: Scan) -> None:
        """A scan of integers or extremes whose axis has several chunks: of one row, by carries;
        else each block by itself, the totals of the blocks before it, and both together.  Other
        scans go along complete rows."""
        free = tuple(range(len(node.shape)))
        local = self._local(node, free=free)
        axis = local.axes[node.axis]
        plain = node.form == "inclusive" and node.init is None and is_exact(node.combine)
        if not plain or len(axis.sizes) == 1 or axis.before or axis.after:
            self._plain(node)
            return
        if len(free) == 1 and identities(node.combine) is not None:
            self._carried(node, axis.sizes)
            return
        parts = result_variables(node.elements)
        bare = node.with_(results=parts, epilogue=parts, checks=())
        blocks = self._local(bare, free=free).blocks(self.program.params)
        for result in blocks.results:
            result.axes = tuple(a if a.is_cut else None for a in blocks.axes)
        own = self._results_of(blocks)
        rank, count = len(node.shape), len(axis.sizes)
        # The last (first) element of every block, and the scan of these.
        ends = Input("ends", int64, (False,), kind="argument")
        self.known = self.known.with_({Extent(ends, 0): count})
        self.plan.constants[ends.leaf()] = (
            np.cumsum(axis.sizes) - 1 if not node.reverse else (np.cumsum((0, *axis.sizes[:-1])))
        )
        self.plan.chunks[ends.leaf()] = ((count,),)
        index = list[Expr](indices(rank))
        index[node.axis] = ends.leaf().at(Index(node.axis))
        shape = (*node.shape[: node.axis], Extent(ends, 0), *node.shape[node.axis + 1 :])
        totals = Scan(shape, node.axis, tuple(leaf.at(*index) for leaf in own), node.combine, None,
                      "inclusive", node.reverse, label=node.label, where=node.where)  # fmt: skip
        self._plain(totals)
        number = Param("block", int64)
        index[node.axis] = at.add(number, 1 if node.reverse else -1)
        before = [Read(totals, k, tuple(index), "clamp") for k in range(len(own))]
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
        blocks = self._local(made, {node.axis: axis.sizes}).blocks((*self.program.params, number))
        position = blocks.program.params.index(number)
        blocks.numbers[position] = blocks.axes[node.axis].numbers()
        self._add(blocks, list(node.leaves))

    def _carried(self, node: Scan, sizes: tuple[int, ...]) -> None:
        """The total of every block, what comes before each, and the scan of each from there."""
        parts, neutral = result_variables(node.elements), identities(node.combine)
        fold = Fold((), node.shape, node.elements, node.combine, None, parts, parts,
                    label=Label("totals", node.label.name), where=node.where)  # fmt: skip
        blocks = self._local(fold, {0: sizes}, (0,)).blocks(self.program.params)
        totals = self._per_block(blocks, blocks.axes)
        carries = Scan((Extent(totals[0].node, 0),), 0, tuple(t.at(Index(0)) for t in totals),
                       node.combine, neutral, "exclusive", node.reverse,
                       label=Label("carries", node.label.name), where=node.where)  # fmt: skip
        self._plain(carries)
        number = Param("block", int64)
        following = at.add(number, int(node.reverse))
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


__all__ = ["Scans"]
