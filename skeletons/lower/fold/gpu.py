"""Folds on a GPU: rows along the inner axes, or columns side by side.

    blocks     a block of threads folds a part of a row, a complete row, or several short rows
    combine    if rows are split: combines the partial results of a row, in order

The assignment of elements to threads depends on extents and on the folded types, never on fusion or
memory layout, so fusion never changes the result.  Rows are in `gpu_rows.py`, columns (sums over
axis 0) in `gpu_columns.py`, segments in `../segmented/gpu.py`.
"""

from __future__ import annotations

from treadle.dsl.expr import Expr, constant
from treadle.dsl.graph import Fold, Shape, StoringFold

from ...ir import arithmetic as at
from ...ir.kernel import Lowered
from ..build import Builder, LoweringContext
from ..gpu.collectives import neutral_of
from .gpu_columns import WIDTH, ColumnFold, parts_of, sides_across
from .gpu_jam import JammedFold
from .gpu_row_folder import run_of, vector_of
from .gpu_rows import THREADS, RowsFold, part_of
from .rows import Kept, is_pinned, runs_across


def lower_fold(node: Fold, context: LoweringContext) -> Lowered:
    """One or two kernels, each perhaps with a fallback (module docstring)."""
    return _fold(node, context).lower()


def lower_storing_fold(node: StoringFold, context: LoweringContext) -> Lowered:
    """The kernels of the fold, which also store the arrays."""
    _, alone = node.apart()
    kept = Kept(node)
    fold, builder = node.fold(kept.elements()[: kept.count]), Builder(node, context)
    if runs_across(alone):
        return ColumnFold(builder, fold, kept).lower()
    return RowsFold(builder, fold, kept).lower()


def blocks(node: Fold, context: LoweringContext) -> Expr:
    """The number of thread blocks (host) that `lower_fold`'s kernels use for long rows or columns,
    without making the kernels."""
    return _fold(node, context).blocks()


def _fold(node: Fold, context: LoweringContext) -> ColumnFold | RowsFold:
    builder = Builder(node, context)
    columns = runs_across(node) and not is_pinned(node)
    if columns and JammedFold.of(builder, node) is None:
        return ColumnFold(builder, node)
    return RowsFold(builder, node)


def grouping(node: Fold) -> Expr | None:
    """For folds along rows: the values on which a fold of some of the rows must agree with the fold
    of all rows to group the elements of a row identically.  None for columns."""
    if runs_across(node) and not is_pinned(node):
        return None
    return groups(node, (*node.outer, *node.inner))[0]


def groups(node: Fold, extents: Shape) -> tuple[Expr, ...]:
    """The values that determine how a fold of `extents`, outer axes first, groups the elements of a
    row or column: folds with equal elements and equal values have equal bits."""
    outer, inner = extents[: len(node.outer)], extents[len(node.outer) :]
    count = at.product(inner)
    if not runs_across(node) or is_pinned(node):
        each = vector_of(node) * (
            1 if neutral_of(node.combine) is not None else run_of(node.combine)
        )
        return (part_of(at.product(outer), count, THREADS * each),)
    width, across = sides_across(outer[-1], vector_of(node), constant(WIDTH))
    height = THREADS // width
    return width, *parts_of(at.product(outer[:-1]), across, height, count)
