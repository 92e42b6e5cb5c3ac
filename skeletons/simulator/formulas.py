"""Stencils in columns (Prasetya 2021, section 4.1): the paper's closed forms.

They bound what one array of a stencil needs.  For programs, without enumerating their accesses, see
`column_loads` and `column_cache` in `../access/footprint.py`.
"""

from __future__ import annotations

import numpy as np

from treadle.dsl.errors import ScheduleError, user_facing


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def _positive(**sizes: int) -> None:
    for name, n in sizes.items():
        if not isinstance(n, int | np.integer) or n < 1:
            raise ScheduleError(f"{name} is {n!r}, and must be a positive integer.")


@user_facing
def cache_needed(column: int, height: int, width: int, threads: int = 1, element: int = 1) -> int:
    """M_cache: the elements that a column of `column` outputs keeps in use, in units of `element`.

    >>> cache_needed(4, 7, 7)
    88
    """
    _positive(column=column, height=height, width=width, threads=threads, element=element)
    return element * (column + width) * (height + _ceil_div(threads, column))


@user_facing
def line_loads(column: int, height: int, width: int, rows: int, cols: int, line: int) -> int:
    """M_loads: an upper bound of the cache lines fetched, with columns of `column` outputs.

    >>> [line_loads(c, 7, 7, 256, 256, 8) for c in (8, 16, 32, 64, 128)]
    [25152, 16768, 12576, 10480, 9432]
    """
    _positive(column=column, height=height, width=width, rows=rows, cols=cols, line=line)
    a_row = _ceil_div(width + column - 1, line) + 1
    return (height + rows - 1) * a_row * _ceil_div(cols, column)
