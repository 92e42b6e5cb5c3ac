"""When the states of a loop are stored and computed again, so that it can be differentiated in
reverse with few of them in memory: binomial checkpointing (Griewank and Walther, "revolve") of
segments, each of which is computed again with all of its states stored.
"""

from __future__ import annotations

from functools import lru_cache
from math import comb
from typing import Any

import numpy as np

from .base import LibraryOperation, builtin, register

#: Actions are columns: read the state in this slot, which is that after so many segments; compute
#: so many segments; store the state in this slot, or −1: reverse the segment that begins with it.
ROWS = SLOT, ITERATION, STEPS, TARGET = range(4)


#: Iterations of a segment that take far longer than to copy its first state.
SHORT = 10


def segment(n: int, states: int) -> tuple[int, int]:
    """Iterations of a segment, and slots for the first states of segments, where so many states of
    n iterations fit into memory: all for the only segment, or at most half of them for a segment.

    Of segments that are all computed again once, short ones stay in the caches: their first states
    take half of the memory then."""
    if states >= n:
        return max(n, 1), 1
    short = max(-(-2 * n // max(states, 1)), SHORT)
    length = max(min(states // 2, short), 1)
    return length, max(min(states - length, -(-n // length)), 1)


def reach(slots: int, repeats: int) -> int:
    """How many segments can be reversed with so many slots, if none is computed more often."""
    return comb(slots + repeats, slots)


def advance(length: int, slots: int) -> int:
    """Where to store the next state, of so many segments whose first state is stored already, so
    that the fewest are computed again."""
    repeats = 1
    while reach(slots, repeats) < length:
        repeats += 1
    least = length - reach(slots - 1, repeats)
    most = reach(slots, repeats - 1)
    wanted = length - (reach(slots - 1, repeats - 1) if repeats > 1 else 1)
    return max(1, least, min(most, wanted, length - 1))


@lru_cache(maxsize=8)
def actions(n: int, slots: int) -> tuple[np.ndarray[Any, Any], int]:
    """The actions for n segments, and how many of them the loop itself performs: those up to the
    last state that is stored on the way forward, and one that only computes all that follow.

    The others end with the adjoint of the first segment.
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


def recomputed(n: int, length: int, slots: int) -> int:
    """How many of n iterations are computed again, in segments of this length, with so many slots:
    each once to store its states, and others to come to it."""
    table, forward = actions(-(-n // length), slots)
    return n + length * int(table[STEPS, forward:].sum())


def _checkpoints(n: Any, length: Any, slots: Any) -> tuple[Any, ...]:
    segments = -(-max(int(n), 0) // max(int(length), 1))
    table, forward = actions(segments, max(1, int(slots)))
    filled = np.zeros((4, 2 * segments + 2), np.int64)
    filled[:, : table.shape[1]] = table
    reversals = forward + 1 + np.flatnonzero(table[TARGET, forward:] < 0)
    ends = np.zeros(segments + 1, np.int64)
    ends[0], ends[1:] = forward, reversals
    return filled, ends


register("checkpoints", lambda: _checkpoints)


def checkpoints() -> LibraryOperation:
    """(n, length of a segment, slots) → for m segments, the table of actions, int64 of shape
    (4, 2 m + 2), and in m + 1 numbers the ends of those of the loop itself, and of each reversal.
    """
    return builtin("checkpoints", ())
