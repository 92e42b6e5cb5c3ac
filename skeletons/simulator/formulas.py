"""The paper's closed forms for stencils in columns (Prasetya 2021, section 4.1)."""

from __future__ import annotations


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def cache_needed(column: int, height: int, width: int, threads: int = 1, element: int = 1) -> int:
    """M_cache: what a column of `column` outputs keeps in use, in units of `element`.

    >>> cache_needed(4, 7, 7)
    88
    """
    return element * (column + width) * (height + _ceil_div(threads, column))


def line_loads(column: int, height: int, width: int, rows: int, cols: int, line: int) -> int:
    """M_loads: cache lines brought in, at most, with columns of `column` outputs.

    >>> [line_loads(c, 7, 7, 256, 256, 8) for c in (8, 16, 32, 64, 128)]
    [25152, 16768, 12576, 10480, 9432]
    """
    a_row = _ceil_div(width + column - 1, line) + 1
    return (height + rows - 1) * a_row * _ceil_div(cols, column)
