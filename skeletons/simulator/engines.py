"""Replacement policies on traces of line numbers: compiled by Numba, one pass each.

Every engine returns (hits, misses, evictions), and fills `missed` (one bool an access) when it is
not empty.  Fully associative caches find a line by a table over the address space and keep recency
in a doubly linked list: a few nanoseconds an access, whatever the size.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

_jit = nb.njit(cache=True, nogil=True)


@_jit
def lru(lines: Any, span: int, capacity: int, missed: Any) -> Any:
    """Fully associative, least recently used."""
    slot_of = np.full(span, -1, np.int32)
    line_in = np.full(capacity, -1, np.int64)
    newer = np.empty(capacity, np.int32)
    older = np.empty(capacity, np.int32)
    newest, oldest, used = -1, -1, 0
    hits = misses = evictions = 0
    mark = missed.size > 0
    for t in range(lines.size):
        line = lines[t]
        s = slot_of[line]
        if s >= 0:
            hits += 1
            if s == newest:
                continue
            # Unlink: s is not the newest, so something is newer.
            if s == oldest:
                oldest = newer[s]
                older[oldest] = -1
            else:
                newer[older[s]] = newer[s]
                older[newer[s]] = older[s]
        else:
            misses += 1
            if mark:
                missed[t] = True
            if used < capacity:
                s = used
                used += 1
            else:
                s = oldest
                oldest = newer[s]
                if oldest >= 0:
                    older[oldest] = -1
                else:
                    newest = -1
                slot_of[line_in[s]] = -1
                evictions += 1
            line_in[s] = line
            slot_of[line] = s
        older[s] = newest
        newer[s] = -1
        if newest >= 0:
            newer[newest] = s
        else:
            oldest = s
        newest = s
    return hits, misses, evictions


@_jit
def step_lru(lines: Any, step: Any, span: int, capacity: int, missed: Any) -> Any:
    """Fully associative; recency is the time step, ties go to the line brought in first.

    A heap with lazy deletion over (step, arrival) packed in one number.
    """
    stamp = np.full(span, -1, np.int64)  # of lines that are held: (step << 32) | arrival
    arrival = np.zeros(span, np.int64)
    heap_key = np.empty(capacity * 4 + 16, np.int64)
    heap_line = np.empty(capacity * 4 + 16, np.int64)
    size, held, arrivals = 0, 0, 0
    hits = misses = evictions = 0
    mark = missed.size > 0
    for t in range(lines.size):
        line = lines[t]
        now = np.int64(step[t]) << 32
        if stamp[line] >= 0:
            hits += 1
            key = now | arrival[line]
            if key == stamp[line]:
                continue
        else:
            misses += 1
            if mark:
                missed[t] = True
            if held == capacity:
                while True:  # the oldest entry that is still true
                    key, old = heap_key[0], heap_line[0]
                    size -= 1
                    last_key, last_line = heap_key[size], heap_line[size]
                    at = 0
                    while True:
                        child = 2 * at + 1
                        if child >= size:
                            break
                        if child + 1 < size and heap_key[child + 1] < heap_key[child]:
                            child += 1
                        if heap_key[child] >= last_key:
                            break
                        heap_key[at], heap_line[at] = heap_key[child], heap_line[child]
                        at = child
                    heap_key[at], heap_line[at] = last_key, last_line
                    if stamp[old] == key:
                        break
                stamp[old] = -1
                held -= 1
                evictions += 1
            held += 1
            arrival[line] = arrivals
            arrivals += 1
            key = now | arrival[line]
        stamp[line] = key
        if size == heap_key.size:  # drop what is no longer true, in place
            kept = 0
            for h in range(size):
                if stamp[heap_line[h]] == heap_key[h]:
                    heap_key[kept], heap_line[kept] = heap_key[h], heap_line[h]
                    kept += 1
            size = kept
            for start in range(size // 2 - 1, -1, -1):
                k, v = heap_key[start], heap_line[start]
                at = start
                while True:
                    child = 2 * at + 1
                    if child >= size:
                        break
                    if child + 1 < size and heap_key[child + 1] < heap_key[child]:
                        child += 1
                    if heap_key[child] >= k:
                        break
                    heap_key[at], heap_line[at] = heap_key[child], heap_line[child]
                    at = child
                heap_key[at], heap_line[at] = k, v
        at = size
        size += 1
        while at > 0:
            parent = (at - 1) // 2
            if heap_key[parent] <= key:
                break
            heap_key[at], heap_line[at] = heap_key[parent], heap_line[parent]
            at = parent
        heap_key[at], heap_line[at] = key, line
    return hits, misses, evictions


@_jit
def set_associative(lines: Any, sets: int, ways: int, missed: Any) -> Any:
    """Least recently used of each set, newest first in a row of tags."""
    tags = np.full((sets, ways), -1, np.int64)
    hits = misses = evictions = 0
    mark = missed.size > 0
    for t in range(lines.size):
        line = lines[t]
        row = tags[line % sets]
        carried = line
        found = False
        for w in range(ways):  # shift down until the line's old place
            carried, row[w] = row[w], carried
            if carried == line:
                found = True
                break
        if found:
            hits += 1
        else:
            misses += 1
            if mark:
                missed[t] = True
            evictions += carried >= 0
    return hits, misses, evictions


@_jit
def sectored(sectors: Any, per_line: int, span: int, sets: int, ways: int, missed: Any) -> Any:
    """Lines of `per_line` sectors in sets; a sector that is absent is a miss, a line makes room."""
    tags = np.full((sets, ways), -1, np.int64)
    present = np.zeros(span // per_line + 1, np.uint32)
    hits = misses = evictions = 0
    mark = missed.size > 0
    for t in range(sectors.size):
        line = sectors[t] // per_line
        bit = np.uint32(1) << np.uint32(sectors[t] % per_line)
        row = tags[line % sets]
        carried = line
        found = False
        for w in range(ways):
            carried, row[w] = row[w], carried
            if carried == line:
                found = True
                break
        if not found and carried >= 0:
            evictions += 1
            present[carried] = 0
        if found and present[line] & bit:
            hits += 1
        else:
            misses += 1
            present[line] |= bit
            if mark:
                missed[t] = True
    return hits, misses, evictions


@_jit
def random_groups(lines: Any, span: int, capacity: int, together: int, seed: int, missed: Any
                  ) -> Any:  # fmt: skip
    """A full cache empties `together` neighbouring slots chosen at random."""
    np.random.seed(seed)
    slot_of = np.full(span, -1, np.int32)
    line_in = np.full(capacity, -1, np.int64)
    free = np.empty(capacity, np.int32)
    for s in range(capacity):
        free[s] = capacity - 1 - s
    count = capacity
    hits = misses = evictions = 0
    mark = missed.size > 0
    for t in range(lines.size):
        line = lines[t]
        if slot_of[line] >= 0:
            hits += 1
            continue
        misses += 1
        if mark:
            missed[t] = True
        if count == 0:
            group = np.random.randint(capacity // together) * together
            for s in range(group + together - 1, group - 1, -1):
                slot_of[line_in[s]] = -1
                line_in[s] = -1
                free[count] = s
                count += 1
            evictions += together
        count -= 1
        s = free[count]
        line_in[s] = line
        slot_of[line] = s
    return hits, misses, evictions


@_jit
def next_uses(lines: Any, span: int) -> Any:
    """For every access, when its line is used next; `lines.size` for never."""
    following = np.full(span, lines.size, np.int64)
    found = np.empty(lines.size, np.int64)
    for t in range(lines.size - 1, -1, -1):
        found[t] = following[lines[t]]
        following[lines[t]] = t
    return found


@_jit
def optimal(lines: Any, next_use: Any, span: int, capacity: int, missed: Any) -> Any:
    """Belady: the line that is used again last goes.  A heap of next uses, lazily cleaned."""
    due = np.full(span, -1, np.int64)  # next use of the lines that are held
    heap = np.empty(lines.size + 1, np.int64)  # next uses, the largest first
    owner = np.empty(lines.size + 1, np.int64)
    size = held = 0
    hits = misses = evictions = 0
    mark = missed.size > 0
    for t in range(lines.size):
        line = lines[t]
        if due[line] >= 0:
            hits += 1
        else:
            misses += 1
            if mark:
                missed[t] = True
            if held == capacity:
                while True:
                    key, old = heap[0], owner[0]
                    size -= 1
                    k, v = heap[size], owner[size]
                    at = 0
                    while True:
                        child = 2 * at + 1
                        if child >= size:
                            break
                        if child + 1 < size and heap[child + 1] > heap[child]:
                            child += 1
                        if heap[child] <= k:
                            break
                        heap[at], owner[at] = heap[child], owner[child]
                        at = child
                    heap[at], owner[at] = k, v
                    if due[old] == key:
                        break
                due[old] = -1
                held -= 1
                evictions += 1
            held += 1
        key = next_use[t]
        due[line] = key
        at = size
        size += 1
        while at > 0:
            parent = (at - 1) // 2
            if heap[parent] >= key:
                break
            heap[at], owner[at] = heap[parent], owner[parent]
            at = parent
        heap[at], owner[at] = key, line
    return hits, misses, evictions
