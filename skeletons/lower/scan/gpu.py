"""Scan on a GPU: prefixes along an axis, in one pass over memory.

    rows       the last axis, rows that are short or many: threads of a warp scan a row, a chunk
               at a time
    tiles      the last axis, few long rows: a block scans a tile and gets the preceding prefix
               from the blocks of earlier tiles (`gpu_tiles.py`)
    pipelined  the same for very long rows: a block iterates over tiles and pipelines several at
               once (`gpu_pipelined.py`)
    columns    another axis: a thread per column (`gpu_columns.py`)

Everything is written in scan order: step p combines element p, or n − 1 − p from the right.  The
grouping of elements depends on extents and on the combined types, never on fusion or the order of
blocks: a scan of floats is bitwise reproducible.
"""

from __future__ import annotations

from treadle.dsl.expr import Expr
from treadle.dsl.graph import Scan, Shape

from ...ir import arithmetic as at
from ...ir.kernel import Lowered
from ..build import Builder, LoweringContext
from .gpu_columns import ColumnScan, parts_of
from .gpu_pipelined import PipelinedScan, fits
from .gpu_rows import RowScan
from .gpu_tiles import TileScan

#: Rows of at most this many elements are scanned by a warp, and so are rows when there are many.
SHORT_ROW, MANY_ROWS = 1024, 2048
#: Rows of at least this many elements keep every multiprocessor busy for several iterations.
LONG_ROW = 1 << 24


def lower_scan(node: Scan, context: LoweringContext) -> Lowered:
    """One kernel of three that suit different extents, or those of `ColumnScan`."""
    builder = Builder(node, context)
    if node.axis != len(node.shape) - 1:
        return ColumnScan(builder, node).lower()
    length = node.shape[-1]
    narrow = _is_narrow(length, at.product(node.label.grouping(node.shape)[:-1]))
    wide, kernels = at.negate(narrow), [RowScan(builder, node).lower(narrow)]
    if fits(node):
        long = at.less_equal(LONG_ROW, length)
        kernels.append(TileScan(builder, node).lower(at.both(wide, at.negate(long))))
        kernels.append(PipelinedScan(builder, node).lower(at.both(wide, long)))
    else:
        kernels.append(TileScan(builder, node).lower(wide))
    return builder.lowered(*kernels)


def groups(node: Scan, extents: Shape) -> tuple[Expr, ...]:
    """The values that determine how a scan over `extents` groups the elements of a row: scans of
    rows with equal elements and equal values have equal bits."""
    length = extents[node.axis]
    others = (*extents[: node.axis], *extents[node.axis + 1 :])
    if node.axis != len(extents) - 1:
        return parts_of(length, at.product(others))
    return (_is_narrow(length, at.product(others)),)


def _is_narrow(length: Expr, rows: Expr) -> Expr:
    return at.either(at.less_equal(length, SHORT_ROW), at.less_equal(MANY_ROWS, rows))
