"""When the states of a loop are stored and computed again, so that it can be differentiated in
reverse with few of them in memory: binomial checkpointing (Griewank and Walther, "revolve").
"""

from __future__ import annotations

from functools import lru_cache
from math import comb
from typing import Any

import numpy as np

from .base import LibraryOperation, builtin, register

#: Actions are columns: read the state in this slot, which is that after so many iterations;
#: iterate so often; store the state in this slot, or −1: use it for the adjoint of an iteration.
ROWS = SLOT, ITERATION, STEPS, TARGET = range(4)


def reach(slots: int, repeats: int) -> int:
    """How many iterations can be reversed with so many slots, if none is computed more often."""
    return comb(slots + repeats, slots)


def advance(length: int, slots: int) -> int:
    """Where to store the next state, of a part of the loop whose first one is stored already, so
    that the fewest iterations are computed again."""
    repeats = 1
    while reach(slots, repeats) < length:
        repeats += 1
    least = length - reach(slots - 1, repeats)
    most = reach(slots, repeats - 1)
    wanted = length - (reach(slots - 1, repeats - 1) if repeats > 1 else 1)
    return max(1, least, min(most, wanted, length - 1))


@lru_cache(maxsize=8)
def actions(n: int, slots: int) -> tuple[np.ndarray[Any, Any], int]:
    """The actions for n iterations, and how many of them the loop itself performs: those up to the
    last one that is stored on the way forward, and one that only iterates to the end.

    The others end with the adjoint of iteration 0.
    """
    made: list[tuple[int, int, int, int]] = []
    forward: int | None = None
    parts = [(0, n, 0, slots)] if n > 0 else []
    while parts:
        start, end, slot, free = parts.pop()
        length = end - start
        if length == 1 or free == 1:
            if forward is None:
                forward = len(made)
                made.append((slot, start, n - start, -1))
            made += [(slot, start, k, -1) for k in reversed(range(length))]
            continue
        steps = advance(length, free)
        target = slots - free + 1
        made.append((slot, start, steps, target))
        parts += [(start, start + steps, slot, free), (start + steps, end, target, free - 1)]
    if forward is None:
        return np.zeros((4, 1), np.int64), 1
    return np.array(made, np.int64).T, forward + 1


def recomputed(n: int, slots: int) -> int:
    """How many iterations are computed again."""
    table, forward = actions(n, slots)
    return int(table[STEPS, forward:].sum())


def _checkpoints(n: Any, slots: Any) -> tuple[Any, ...]:
    count = max(int(n), 0)
    table, forward = actions(count, max(1, min(int(slots), count)))
    filled = np.zeros((4, 2 * count + 2), np.int64)
    filled[:, : table.shape[1]] = table
    ends = np.array([forward, table.shape[1]], np.int64) if count else np.array([1, 1], np.int64)
    return filled, ends


register("checkpoints", lambda: _checkpoints)


def checkpoints() -> LibraryOperation:
    """(n, slots) → the table of actions, int64 of shape (4, 2 n + 2), and two numbers: the actions
    of the loop itself, and all."""
    return builtin("checkpoints", ())
