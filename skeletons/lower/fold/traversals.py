"""How CPU folds cut rows and columns, and whether two folds share a traversal."""

from __future__ import annotations

from treadle.dsl.analysis.combines import SHORT_ROW

#: Elements of a block along which a commutative operator is reduced.
BLOCK = 8192
#: Elements of a column folded between two accesses to its accumulator in memory.
ACROSS_STEP = 8
#: Rows of a block, and columns of a task, if columns are folded side by side.
ACROSS_ROWS, ACROSS_COLUMNS = 1024, 2048
#: Limits of one traversal: the bytes of the rows of a step, and the blocks of the longest row.
STEP_BYTES = 1 << 20
ROW_BLOCKS = STEP_BYTES // ACROSS_STEP // BLOCK
#: The least average share of busy threads for which one traversal is faster than two.
BUSY = 0.75


def why_apart(planes: int, rows: int, columns: int, bytes_: int, threads: int) -> str | None:
    """Why two traversals of `planes` of arrays are faster than one; None if they are not.
    `bytes_`: per element, over all arrays that both folds read."""
    if planes == 0 or min(rows, columns) < SHORT_ROW:
        return f"rows or columns have fewer than {SHORT_ROW} elements"
    if columns > min(STEP_BYTES // (ACROSS_STEP * bytes_), ROW_BLOCKS * BLOCK):
        return f"{ACROSS_STEP} rows do not stay in a core's cache"
    tasks = planes * -(-rows // ACROSS_ROWS)
    if tasks < BUSY * threads * -(-tasks // threads):
        return f"{tasks:,} blocks of {ACROSS_ROWS:,} rows are too few for {threads} threads"
    return None
