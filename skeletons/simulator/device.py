"""Blocks on several multiprocessors at once, with an L1 cache each and a common L2.

Time advances in steps. In each step every multiprocessor makes one access, for one of its resident
blocks, round-robin. A block runs warp by warp: a load of the 32 threads of a warp makes as many
accesses as it touches lines. Blocks are assigned as by a GPU (in the order of their ids, to any
multiprocessor with a free slot), or come from queues of agents (`skeletons/lower/agents.py`). All
caches are fully associative with LRU replacement; stores go through to the L2.

This models placement and reuse, not time: every access takes one step, hit or miss.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

from treadle.dsl.errors import ScheduleError
from treadle.skeletons.schedules import Resolved

from .engines import touch
from .patterns import Pattern

WARP = 32
#: Accesses per batch when traces are built.
_BATCH = 1 << 22


@dataclass(frozen=True)
class Multiprocessors:
    """`count` multiprocessors that run `resident` blocks each at once, with an L1 of `l1` lines
    each, and an L2 of `l2` lines.

    Raises `ScheduleError` for invalid sizes.
    """

    count: int = 16
    resident: int = 8
    l1: int = 512
    l2: int = 8192

    def __post_init__(self) -> None:
        if min(self.count, self.resident, self.l1, self.l2) < 1:
            raise ScheduleError(
                f"{self!r} is not a valid device.", hint="All sizes are at least 1."
            )


@dataclass(frozen=True)
class BlockTrace:
    """The lines that each block accesses: `lines[starts[b]:starts[b + 1]]` for block b; −1 − k is a
    store to line k.  Lines are below `span`."""

    lines: NDArray[np.int64]
    starts: NDArray[np.int64]
    span: int

    @property
    def blocks(self) -> int:
        return len(self.starts) - 1


@dataclass(frozen=True)
class DeviceRun:
    """The misses of both levels; `stolen`: blocks that ran on another multiprocessor than that of
    their queue; `steps`: until the last block had ended."""

    accesses: int
    l1_misses: int
    l2_misses: int
    stolen: int
    steps: int


def block_trace(pattern: Pattern, plan: Resolved, line_width: int, stores: int = 1) -> BlockTrace:
    """The accesses of every block of a plan.  The last `stores` addresses of an output are written.

    A warp is 32 consecutive elements of a block, row by row; each thread has one element.
    """
    shape = pattern.shape
    grid = tuple(int(n) for n in plan.grid(shape))
    count = int(plan.order.linear_size(grid))
    origins = plan.order.coordinates(np.arange(count, dtype=np.int64), grid)
    first = np.stack([np.broadcast_to(p, (count,)) for p in origins], 1) * np.array(plan.unit)
    inside = np.stack(np.meshgrid(*map(np.arange, plan.unit), indexing="ij"), -1)
    inside = inside.reshape(-1, len(shape))
    extra = -len(inside) % WARP
    parts: list[NDArray[np.int64]] = []
    counts: list[NDArray[np.int64]] = []
    taps = pattern.touched(np.zeros((1, len(shape)), np.int64)).shape[1]
    step = max(1, _BATCH // (taps * (len(inside) + extra)))
    for k in range(0, count, step):
        points = first[k : k + step, None, :] + inside[None, :, :]
        real = ((points < np.array(shape)) & (points >= 0)).all(2)
        clipped = np.minimum(points, np.array(shape) - 1).reshape(-1, len(shape))
        touched = pattern.touched(np.maximum(clipped, 0)).reshape(*real.shape, taps)
        lines = np.where((touched >= 0) & real[:, :, None], touched // line_width, -1)
        lines = np.pad(lines, ((0, 0), (0, extra), (0, 0)), constant_values=-1)
        # (blocks, warps, taps, lanes), each line of a warp's load once
        lines = np.sort(lines.reshape(len(lines), -1, WARP, taps).transpose(0, 1, 3, 2), -1)
        new = np.ones(lines.shape, np.bool_)
        new[..., 1:] = lines[..., 1:] != lines[..., :-1]
        new &= lines >= 0
        if stores:
            lines[:, :, taps - stores :] = -1 - lines[:, :, taps - stores :]
        parts.append(lines[new])
        counts.append(new.sum((1, 2, 3)))
    starts = np.zeros(count + 1, np.int64)
    np.cumsum(np.concatenate(counts) if counts else np.zeros(0, np.int64), out=starts[1:])
    lines = np.concatenate(parts) if parts else np.zeros(0, np.int64)
    return BlockTrace(lines, starts, pattern.span // line_width + 1)


def run_blocks(trace: BlockTrace, device: Multiprocessors, order: Any = None,
               queues: bool = False) -> DeviceRun:  # fmt: skip
    """Runs the blocks in an order (of their ids by default), assigned dynamically, or from a queue
    per multiprocessor; queue lengths differ by at most one, the longer ones first."""
    given = (
        np.arange(trace.blocks, dtype=np.int64) if order is None else np.asarray(order, np.int64)
    )
    found = _run(trace.lines, trace.starts, trace.span, given, queues, device.count,
                 device.resident, device.l1, device.l2)  # fmt: skip
    return DeviceRun(*(int(v) for v in found))


def redirected(blocks: int, neighbours: int, count: int) -> NDArray[np.int64]:
    """The permutation of `kernel.agents.redirected`: position u runs block found[u].

    >>> redirected(7, 2, 3).tolist()
    [0, 2, 4, 1, 3, 5, 6]
    """
    u = np.arange(blocks, dtype=np.int64)
    group = neighbours * count
    rest = u % group
    moved = u - rest + rest % count * neighbours + rest // count
    found: NDArray[np.int64] = np.where(u < blocks // group * group, moved, u)
    return found


@nb.njit(cache=True, nogil=True)
def _touch(line: int, slot_of: Any, line_in: Any, newer: Any, older: Any, ends: Any) -> bool:
    """Makes a line the newest of a cache; whether it was there.  ends: newest, oldest, used."""
    found, newest, oldest, used = touch(line, slot_of, line_in, newer, older,
                                         ends[0], ends[1], ends[2])  # fmt: skip
    ends[:] = newest, oldest, used
    return bool(found > 0)


@nb.njit(cache=True, nogil=True)
def _run(lines: Any, starts: Any, span: int, order: Any, queues: bool, count: int, resident: int,
         l1: int, l2: int) -> Any:  # fmt: skip
    blocks = order.size
    slot1 = np.full((count, span), -1, np.int32)
    line1 = np.empty((count, l1), np.int64)
    newer1, older1 = np.empty((count, l1), np.int32), np.empty((count, l1), np.int32)
    ends1 = np.full((count, 3), -1, np.int64)
    ends1[:, 2] = 0
    slot2 = np.full(span, -1, np.int32)
    line2 = np.empty(l2, np.int64)
    newer2, older2 = np.empty(l2, np.int32), np.empty(l2, np.int32)
    ends2 = np.array([-1, -1, 0], np.int64)
    at = np.zeros((count, resident), np.int64)
    stop = np.zeros((count, resident), np.int64)
    next_slot = np.zeros(count, np.int64)
    share, spare = blocks // count, blocks % count
    first = np.arange(count) * share + np.minimum(np.arange(count), spare)
    last = first + share + (np.arange(count) < spare)
    if not queues:
        first[0], last[0] = 0, blocks
    accesses = misses1 = misses2 = stolen = steps = done = 0
    # A GPU first assigns one block to every multiprocessor, then a second one, …
    for r in range(resident):
        for m in range(count):
            position, other = _take(m, first, last, queues)
            if position >= 0:
                stolen += other
                block = order[position]
                at[m, r], stop[m, r] = starts[block], starts[block + 1]
                done += 1
    while True:
        busy = False
        for m in range(count):
            r = -1
            for k in range(resident):
                here = (next_slot[m] + k) % resident
                while at[m, here] == stop[m, here]:
                    position, other = _take(m, first, last, queues)
                    if position < 0:
                        break
                    stolen += other
                    block = order[position]
                    at[m, here], stop[m, here] = starts[block], starts[block + 1]
                if at[m, here] < stop[m, here]:
                    r = here
                    break
            if r < 0:
                continue
            busy = True
            next_slot[m] = (r + 1) % resident
            line = lines[at[m, r]]
            at[m, r] += 1
            accesses += 1
            if line < 0:  # a store
                line = -1 - line
            elif _touch(line, slot1[m], line1[m], newer1[m], older1[m], ends1[m]):
                continue
            else:
                misses1 += 1
            misses2 += not _touch(line, slot2, line2, newer2, older2, ends2)
        if not busy:
            break
        steps += 1
    return accesses, misses1, misses2, stolen, steps


@nb.njit(cache=True, nogil=True)
def _take(m: int, first: Any, last: Any, queues: bool) -> Any:
    """The next position for a multiprocessor, and whether it was stolen; −1 if none is left."""
    if not queues:
        if first[0] == last[0]:
            return -1, 0
        first[0] += 1
        return first[0] - 1, 0
    if first[m] < last[m]:
        first[m] += 1
        return first[m] - 1, 0
    victim = m  # the fullest queue, of several the next one, as in `kernel.agents`
    for away in range(1, len(first)):
        q = (m + away) % len(first)
        if last[q] - first[q] > last[victim] - first[victim]:
            victim = q
    if first[victim] >= last[victim]:
        return -1, 0
    last[victim] -= 1
    return last[victim], 1
