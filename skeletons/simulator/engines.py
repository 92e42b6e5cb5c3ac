"""Replacement policies applied to traces of line numbers: compiled by Numba, one pass each.

A policy is a state, arrays that `…_state` creates, and a pass over line numbers that updates it, so
that a trace can come in chunks.  `counts`, the last array of a state, begins with hits, misses,
evictions.  A pass fills `missed` (one bool per access) unless it is empty.  Fully associative
caches find a line by a table over the address space and keep recency in a doubly linked list: a few
nanoseconds per access, for any size.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

_jit = nb.njit(cache=True, nogil=True)


#: Arrays that compiled functions read and write.
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
State = tuple[Any, ...]


def lru_state(span: int, capacity: int) -> State:
    """The slot of each line; the line, the newer and the older slot of each slot; newest, oldest,
    used."""
    links = np.empty((2, capacity), np.int32)
    counts = np.array([0, 0, 0, -1, -1, 0], np.int64)
    return np.full(span, -1, np.int32), np.full(capacity, -1, np.int64), *links, counts


@_jit
def touch(line: int, slot_of: Ints, line_in: Ints, newer: Ints, older: Ints, newest: int,
          oldest: int, used: int) -> tuple[int, int, int, int]:  # fmt: skip
    """Makes a line the newest of a cache.  Whether it was there (1), found a free slot (0) or
    evicted the oldest line (−1); the newest and the oldest slot now, and how many are used."""
    s = slot_of[line]
    found = 1
    if s >= 0:
        if s == newest:
            return found, newest, oldest, used
        # Unlink: s is not the newest, so something is newer.
        if s == oldest:
            oldest = newer[s]
            older[oldest] = -1
        else:
            newer[older[s]] = newer[s]
            older[newer[s]] = older[s]
    else:
        if used < line_in.size:
            s = used
            used += 1
            found = 0
        else:
            s = oldest
            oldest = newer[s]
            if oldest >= 0:
                older[oldest] = -1
            else:
                newest = -1
            slot_of[line_in[s]] = -1
            found = -1
        line_in[s] = line
        slot_of[line] = s
    older[s] = newest
    newer[s] = -1
    if newest >= 0:
        newer[newest] = s
    else:
        oldest = s
    return found, s, oldest, used


@_jit
def lru(
    lines: Ints, slot_of: Ints, line_in: Ints, newer: Ints, older: Ints, counts: Ints, missed: Flags
) -> None:
    """Fully associative; evicts the least recently used line."""
    hits, misses, evictions, newest, oldest, used = counts
    mark = missed.size > 0
    for t in range(lines.size):
        found, newest, oldest, used = touch(lines[t], slot_of, line_in, newer, older, newest,
                                            oldest, used)  # fmt: skip
        if found > 0:
            hits += 1
            continue
        misses += 1
        evictions -= found
        if mark:
            missed[t] = True
    counts[:] = hits, misses, evictions, newest, oldest, used


# Heaps of keys, the least first, each with a line; entries that are stale stay until they come up.


@_jit
def _sink(keys: Ints, lines: Ints, size: int, at: int, key: int, line: int) -> None:
    """Puts an entry at `at`, or below."""
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and keys[child + 1] < keys[child]:
            child += 1
        if keys[child] >= key:
            break
        keys[at], lines[at] = keys[child], lines[child]
        at = child
    keys[at], lines[at] = key, line


@_jit
def _push(keys: Ints, lines: Ints, at: int, key: int, line: int) -> None:
    """Puts an entry behind the last one, at `at`, or above."""
    while at > 0:
        parent = (at - 1) // 2
        if keys[parent] <= key:
            break
        keys[at], lines[at] = keys[parent], lines[parent]
        at = parent
    keys[at], lines[at] = key, line


@_jit
def _pop(keys: Ints, lines: Ints, size: int, now: Ints) -> tuple[int, int]:
    """Removes the least entry, whose key is `now` that of its line, and stale ones before it; its
    line, and how many entries are left."""
    while True:
        key, line = keys[0], lines[0]
        size -= 1
        _sink(keys, lines, size, 0, keys[size], lines[size])
        if now[line] == key:
            return line, size


def step_lru_state(span: int, capacity: int) -> State:
    """For cached lines (step << 32) | arrival, and the arrival; a heap of both; its size, cached
    lines, arrivals, capacity."""
    heap = np.empty((2, capacity * 4 + 16), np.int64)
    counts = np.array([0, 0, 0, 0, 0, 0, capacity], np.int64)
    return np.full(span, -1, np.int64), np.zeros(span, np.int64), *heap, counts


@_jit
def step_lru(lines: Ints, step: Any, stamp: Ints, arrival: Ints, heap_key: Ints, heap_line: Ints,
             counts: Ints, missed: Flags) -> None:  # fmt: skip
    """Fully associative; recency is the time step, and of equals the line fetched first is evicted.

    A heap over (step, arrival) packed in one integer.
    """
    hits, misses, evictions, size, resident, arrivals, capacity = counts
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
            if resident == capacity:
                old, size = _pop(heap_key, heap_line, size, stamp)
                stamp[old] = -1
                resident -= 1
                evictions += 1
            resident += 1
            arrival[line] = arrivals
            arrivals += 1
            key = now | arrival[line]
        stamp[line] = key
        if size == heap_key.size:  # remove stale entries, in place
            kept = 0
            for h in range(size):
                if stamp[heap_line[h]] == heap_key[h]:
                    heap_key[kept], heap_line[kept] = heap_key[h], heap_line[h]
                    kept += 1
            size = kept
            for start in range(size // 2 - 1, -1, -1):
                _sink(heap_key, heap_line, size, start, heap_key[start], heap_line[start])
        _push(heap_key, heap_line, size, key, line)
        size += 1
    counts[:6] = hits, misses, evictions, size, resident, arrivals


@_jit
def _shift(row: Ints, line: int) -> tuple[bool, int]:
    """Makes a line the newest of a set: shifts the others down to its previous position; whether it
    was there, and else the tag that was last."""
    carried = line
    for w in range(row.size):
        carried, row[w] = row[w], carried
        if carried == line:
            return True, carried
    return False, carried


def set_associative_state(sets: int, ways: int) -> State:
    """The tags of each set, newest first."""
    return np.full((sets, ways), -1, np.int64), np.zeros(3, np.int64)


@_jit
def set_associative(lines: Ints, tags: Ints, counts: Ints, missed: Flags) -> None:
    """Evicts the least recently used line of a set."""
    hits, misses, evictions = counts
    sets = len(tags)
    mark = missed.size > 0
    for t in range(lines.size):
        line = lines[t]
        found, carried = _shift(tags[line % sets], line)
        if found:
            hits += 1
        else:
            misses += 1
            if mark:
                missed[t] = True
            evictions += carried >= 0
    counts[:] = hits, misses, evictions


def sectored_state(per_line: int, span: int, sets: int, ways: int) -> State:
    """The tags of each set, newest first; by line, a mask of present sectors; sectors per line."""
    tags, present = np.full((sets, ways), -1, np.int64), np.zeros(span // per_line + 1, np.uint32)
    return tags, present, np.array([0, 0, 0, per_line], np.int64)


@_jit
def sectored(sectors: Ints, tags: Ints, present: Flags, counts: Ints, missed: Flags) -> None:
    """Sets of lines of several sectors; an absent sector is a miss, an absent line evicts one."""
    hits, misses, evictions, per_line = counts
    sets = len(tags)
    mark = missed.size > 0
    for t in range(sectors.size):
        line = sectors[t] // per_line
        bit = np.uint32(1) << np.uint32(sectors[t] % per_line)
        found, carried = _shift(tags[line % sets], line)
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
    counts[:3] = hits, misses, evictions


def sectored_lru_state(per_line: int, span: int, capacity: int) -> State:
    """The state of `lru` over lines; the times when each line was fetched, and each sector last
    used; the number of accesses, sectors per line."""
    lines = span // per_line + 1
    used, counts = np.full(lines * per_line, -1, np.int64), np.array([0, 0, 0, 0, per_line])
    return *lru_state(lines, capacity), np.zeros(lines, np.int64), used, counts


def sectored_lru(
    sectors: Ints,
    slot_of: Ints,
    line_in: Ints,
    newer: Ints,
    older: Ints,
    of_lines: Ints,
    brought: Ints,
    used: Ints,
    counts: Ints,
    missed: Flags,
) -> None:
    """Fully associative lines of several sectors."""
    lines = sectors // counts[4]
    absent = np.zeros(lines.size, np.bool_)
    if lines.size:
        lru(lines, slot_of, line_in, newer, older, of_lines, absent)
        _absent_sectors(sectors, lines, absent, brought, used, counts, missed)
    counts[2] = of_lines[2]


@_jit
def _absent_sectors(
    sectors: Ints,
    lines: Ints,
    absent: Flags,
    brought: Ints,
    used: Ints,
    counts: Ints,
    missed: Flags,
) -> None:
    """A sector is present if it was used since its line was fetched."""
    hits, misses, _, now, _ = counts
    mark = missed.size > 0
    for t in range(sectors.size):
        line, sector = lines[t], sectors[t]
        if absent[t]:
            brought[line] = now
        if used[sector] >= brought[line]:
            hits += 1
        else:
            misses += 1
            if mark:
                missed[t] = True
        used[sector] = now
        now += 1
    counts[0], counts[1], counts[3] = hits, misses, now


def random_groups_state(span: int, capacity: int, together: int, seed: int) -> State:
    """Slots by line, lines by slot, free slots, random bits; the number of free slots, and of slots
    that are emptied together."""
    free = np.arange(capacity, dtype=np.int32)[::-1].copy()
    bits = np.random.SeedSequence(seed).generate_state(1, np.uint64)
    counts = np.array([0, 0, 0, capacity, together], np.int64)
    return np.full(span, -1, np.int32), np.full(capacity, -1, np.int64), free, bits, counts


@_jit
def _below(bits: Ints, n: int) -> Any:
    """A random number below n, by xorshift64* (Vigna 2016); n is far below 2³²."""
    x = bits[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    bits[0] = x
    high = (x * np.uint64(0x2545F4914F6CDD1D)) >> np.uint64(32)
    return np.int64((high * np.uint64(n)) >> np.uint64(32))


@_jit
def random_groups(lines: Ints, slot_of: Ints, line_in: Ints, free: Ints, bits: Ints, counts: Ints,
                  missed: Flags) -> None:  # fmt: skip
    """A full cache empties `together` neighbouring slots chosen at random."""
    hits, misses, evictions, count, together = counts
    capacity = line_in.size
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
            group = _below(bits, capacity // together) * together
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
    counts[:4] = hits, misses, evictions, count


@_jit
def next_uses(lines: Ints, span: int) -> Ints:
    """For every access, the index of the next access to its line; `lines.size` if there is none."""
    following = np.full(span, lines.size, np.int64)
    found = np.empty(lines.size, np.int64)
    for t in range(lines.size - 1, -1, -1):
        found[t] = following[lines[t]]
        following[lines[t]] = t
    return found


@_jit
def optimal(lines: Ints, next_use: Ints, span: int, capacity: int, missed: Flags) -> Any:
    """Belady's policy: evicts the line whose next use is last."""
    due = np.full(span, 1, np.int64)  # of the cached lines, minus the next use
    heap = np.empty(lines.size + 1, np.int64)
    owner = np.empty(lines.size + 1, np.int64)
    size = resident = 0
    hits = misses = evictions = 0
    mark = missed.size > 0
    for t in range(lines.size):
        line = lines[t]
        if due[line] <= 0:
            hits += 1
        else:
            misses += 1
            if mark:
                missed[t] = True
            if resident == capacity:
                old, size = _pop(heap, owner, size, due)
                due[old] = 1
                resident -= 1
                evictions += 1
            resident += 1
        due[line] = -next_use[t]
        _push(heap, owner, size, due[line], line)
        size += 1
    return hits, misses, evictions
