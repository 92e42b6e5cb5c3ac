"""A fold along rows and one across them in one traversal, on a CPU (`CrossedFolds`).

    blocks     tasks over (plane, block of rows): of ACROSS_STEP rows at a time, the results along
               each, then all columns of these rows, added to the partial results of the block
    combine    partial results of the columns, as of a fold across rows alone

Rows, steps and blocks are those of the two separate folds, so results have the same bits.  The rows
of a step have to stay in a core's cache, and there are only as many tasks as blocks of rows, so the
backend decides for the extents of a call (`why_apart` in `traversals.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from treadle.dsl import expr as ex
from treadle.dsl.analysis.combines import identities
from treadle.dsl.expr import Expr
from treadle.dsl.graph import CrossedFolds
from treadle.dsl.types import int64

from ...ir import arithmetic as at
from ...ir.kernel import Kernel, Load, Lowered
from ...ir.linearize import Linearizer
from .. import tiling
from ..build import Builder, LoweringContext
from ..combining import Elements, assign, declare, put, zeros
from .cpu import Across, Along
from .traversals import ACROSS_STEP, ROW_BLOCKS


class Crossed(Across):
    """The fold across rows, which computes the one along rows in each step."""

    def __init__(self, builder: Builder, node: CrossedFolds) -> None:
        self.along = Along(builder, node.along())
        self.along.named = True  # a result is stored, and added to the columns
        super().__init__(builder, node.over_rows(node.across))
        self.outs = builder.outputs()[len(node.epilogue) :]
        self.names = node.names
        self.held = builder.local("held", [v.type for v in node.names], ACROSS_STEP)
        types = [r.type for r in node.combine.results]
        self.parts = builder.local("part", types, ROW_BLOCKS)
        #: The results along the rows of the current step, by row.
        self.known: dict[Expr, Sequence[Expr]] = {}
        self.step: Expr = ex.constant(0)

    def step_height(self) -> int:
        return ACROSS_STEP

    def before_step(self, into: Linearizer, at_plane: Sequence[Expr], step: Expr, stop: Expr
                    ) -> None:  # fmt: skip
        self.step = step
        with into.loop("row", step, stop) as row:
            self.builder.stays_below(row, self.along.outer[-1])
            at_row = (*at_plane, row)
            stored = self.along.finish(into, at_row, self._row(into, at_row), self.along.count)
            put(into, self.held, row - step, stored[: len(self.held)])

    def _row(self, into: Linearizer, at_row: Sequence[Expr]) -> tuple[ex.Var, ...]:
        """The result along a row, from those of its blocks."""
        along = self.along
        total = declare(into, zeros(along.combine))
        with into.loop("block", 0, along.blocks) as block:
            assign(into, total, along.fold_block(into, at_row, block, along.combine))
            put(into, self.parts, block, total)
        several = at.less(1, along.blocks)
        with into.when(several):

            def partial(_: Linearizer, b: Expr) -> tuple[Expr, ...]:
                return tuple(Load(p, b) for p in self.parts)

            assign(into, total, along.whole(into, at_row, partial))
        return total

    def before_columns(self, into: Linearizer, step: Expr, whole: bool) -> None:
        self.known = {}
        for k in range(ACROSS_STEP if whole else 0):
            values = [into.let(Load(h, ex.constant(k)), h.name) for h in self.held]
            self.known[step + k] = values

    def _column(self, at_plane: Sequence[Expr], j: Expr, roots: Sequence[Expr]) -> Elements:
        element = super()._column(at_plane, j, roots)

        def with_row(into: Linearizer, row: Expr) -> tuple[Expr, ...]:
            values = self.known.get(row)
            if values is None:
                place = row - self.step
                values = [into.let(Load(h, place), h.name) for h in self.held]
            with into.when_always(dict(zip(self.names, values, strict=True))):
                return element(into, row)

        return with_row

    def _blocks(self) -> Kernel:
        size = self.size
        into, task = self.builder.emitter(), ex.Var("task", int64)
        plane, block = (
            into.let(c, name) for c, name in zip(
                at.row_major(task, (size.planes, size.blocks)), ("plane", "block"), strict=True)
        )  # fmt: skip
        at_plane = tiling.coordinates(self.builder, into, plane, self.outer[:-1])
        rows = tiling.block_range(into, "row", block, self.block_rows, size.count)
        cols = ex.constant(0), size.columns
        base = into.let(self._slot(plane, block, ex.constant(0)), "base")
        self.add_rows(into, at_plane, rows, cols, self.scratch, base)
        with into.when(at.equal(size.blocks, 1)), into.loop("j", *cols, "vector") as j:
            self.builder.stays_below(j, self.outer[-1])
            total = declare(into, identities(self.combine) or zeros(self.combine))
            with into.when(at.less(0, size.count)):
                assign(into, total, [Load(s, base + j) for s in self.scratch])
            self.finish(into, (*at_plane, j), total, size.count)
        tasks = size.planes * size.blocks
        return self.kernel("blocks", tasks, task, into, f"blocks of {self.block_rows} rows, "
                           f"{ACROSS_STEP} of them folded, then added to the columns")  # fmt: skip


def lower_crossed_folds(node: CrossedFolds, context: LoweringContext) -> Lowered:
    """Two kernels (module docstring)."""
    return Crossed(Builder(node, context), node).lower()
