"""Timing, and comparison of treadle with a peer on the same workload."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from treadle.examples._show import Table, progress

Contest = tuple[str, Callable[..., Any], Callable[..., Any], tuple[Any, ...]]


def timed(f: Callable[..., Any], *args: Any, most: int = 9, budget: float = 0.5) -> float:
    """Median seconds of a call, after one that compiles and warms up.

    Calls at most `most` times, and after the third call only within `budget` seconds.  Arguments
    and results are host arrays, so a call is complete when it returns.
    """
    f(*args)
    seconds: list[float] = []
    while len(seconds) < most and (len(seconds) < 3 or sum(seconds) < budget):
        start = perf_counter()
        f(*args)
        seconds.append(perf_counter() - start)
    return median(seconds)


def size_in_bytes(value: Any) -> int:
    """The total bytes of all arrays in nested tuples."""
    if isinstance(value, tuple | list):
        return sum(map(size_in_bytes, value))
    return int(np.asarray(value).nbytes)


def race(title: str, peer: str, contests: Sequence[Contest]) -> Table:
    """Time each (name, treadle's function, the peer's function, arguments).

    GB/s counts arguments and results once, for both: the traffic of perfectly fused code, so a
    program that writes intermediate arrays has a lower rate.
    """
    columns = ("workload", "MB", "treadle ms", "GB/s", f"{peer} ms", "GB/s", "speedup")
    rows = []
    for k in progress(len(contests), f"timing treadle and {peer}"):
        work, ours, theirs, args = contests[k]
        size = size_in_bytes(args) + size_in_bytes(ours(*args))
        fast, slow = timed(ours, *args), timed(theirs, *args)
        rates = (fast * 1e3, size / fast / 1e9, slow * 1e3, size / slow / 1e9, slow / fast)
        rows.append((work, size / 1e6, *rates))
    return Table(title, columns, tuple(rows))
