"""Exchanges as tasks: the parts of runs for each block, if other arrays determine them.

Between processes, each part is a task, so that it is sent separately.  With many runs and blocks,
parts are exchanged in several levels, like digits of a number: the parts of some runs for some
blocks are joined, and split again for fewer blocks.  Each of n runs thus has a number of tasks in
the order of log n.  On threads nothing is sent, and the task of a block takes its parts of the runs
itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

import dask.array as da

from .worker import joined, part_of, parts_of

#: The most parts of a run in one level.
FAN = 64


def exchanged(graph: dict[Any, Any], name: str, source: str, table: da.Array,
              starts: Sequence[int], apart: bool) -> list[list[Any]]:  # fmt: skip
    """For each block, lists of arrays, as keys of tasks added to `graph`, or as tasks.

    `source`: the name of the array whose chunks are the runs, which begin at `starts`; `table`: the
    windows of runs for each block [block, run, first and last + 1]; `apart`: parts are sent.
    """
    blocks, windows, numbers = table.shape[0], (table.name, 0, 0, 0), count()

    def task(made: Any) -> Any:
        key = (name, next(numbers))
        graph[key] = made
        return key

    levels, fan = _levels(max(len(starts), blocks))
    #: Groups of consecutive blocks, with their data: the number of the first run, and a key.
    columns = [(0, blocks, [(k, (source, k)) for k in range(len(starts))])]
    for level in range(levels):
        copy = apart or level < levels - 1  # otherwise whole runs would stay in memory
        made = []
        for first, last, held in columns:
            width = -(-(last - first) // fan)
            for low in range(first, last, width):
                high = min(low + width, last)
                parts: list[Any] = [
                    (parts_of, key, windows, run, first, low, high, copy) if level
                    else (part_of, key, windows, run, starts[run], low, high, copy)
                    for run, key in held
                ]  # fmt: skip
                parts = [task(part) for part in parts] if apart else parts
                some = range(0, len(held), fan)
                made.append((low, high, [(held[k][0], parts[k : k + fan]) for k in some]))
        if level == levels - 1:
            break
        columns = [
            (low, high, [(run, task((joined, parts))) for run, parts in groups])
            for low, high, groups in made
        ]
    return [parts for _, _, ((_, parts),) in made]


def _levels(count: int) -> tuple[int, int]:
    """The number of levels, and of the parts in each, for so many runs or blocks."""
    levels = 1
    while FAN**levels < count:
        levels += 1
    fan = 1
    while fan**levels < count:
        fan += 1
    return levels, fan
