"""Memory of the SIMT interpreter: every access in range, every race between threads reported.

A thread of a launch has a number, `block · threads + thread`.  Two accesses to one element, not
both reads and not both atomic, are ordered if one thread made both, or if a barrier of their block
lies between.  All others are races: what the hardware does then depends on timing.  The threads of
a warp are no exception, and what they do together passes registers on but orders no memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Lanes = Any  # int64[lanes in flight]

_SAME, _BLOCK, _GRID = 0, 1, 2


class KernelFault(AssertionError):
    """A kernel did what has no meaning on a GPU."""


class Race(KernelFault):
    """Two threads touch one element without anything that orders them."""


class OutOfRange(KernelFault):
    """An index outside of a buffer, or no multiple of the width of the access."""


class Divergence(KernelFault):
    """A barrier, or a collective of a warp, that only some of the threads reach."""


class Endless(KernelFault):
    """A loop that waits for what never comes."""


class Mask:
    """Some but not all of the lanes."""

    __slots__ = ("_where", "on")

    def __init__(self, on: np.ndarray) -> None:
        self.on = on
        self._where: np.ndarray | None = None

    @property
    def where(self) -> np.ndarray:
        if self._where is None:
            self._where = np.flatnonzero(self.on)
        return self._where


class Lockstep:
    """The lanes in flight: one block, or several that cannot tell.

    `lane` are their numbers, `synced` the time of the last barrier of the block of each.
    """

    def __init__(self, grid: Grid, tasks: np.ndarray) -> None:
        self.grid, self.threads = grid, grid.threads
        self.tasks = tasks
        self.count = len(tasks) * grid.threads
        thread = np.arange(grid.threads, dtype=np.int64)
        self.thread = np.tile(thread, len(tasks))
        self.task = np.repeat(tasks, grid.threads)
        self.lane = self.task * grid.threads + self.thread
        self.synced = np.zeros(self.count, np.int64)
        self.held: dict[Any, Memory] = {}

    def enter(self, mask: Mask | None, condition: Any) -> Mask | bool | None:
        """The lanes of `mask` where `condition` holds; None for all lanes, False for none."""
        on = np.broadcast_to(condition, self.count)
        if mask is not None:
            on = mask.on & on
        active = np.count_nonzero(on)
        if not active:
            return False
        return None if active == self.count else Mask(on)

    def active(self, mask: Mask | None) -> Any:
        return slice(None) if mask is None else mask.where

    def spread(self, values: Any, mask: Mask | None) -> np.ndarray:
        """A value per active lane."""
        full = np.broadcast_to(values, self.count)
        return full if mask is None else full[mask.where]

    def fill(self, values: np.ndarray, mask: Mask | None) -> np.ndarray:
        """Values of the active lanes as values of all; the others get what shows."""
        if mask is None:
            return values
        made = np.empty(self.count, values.dtype)
        made.view(np.uint8)[:] = 0x5B if values.dtype != np.bool_ else 1
        made[mask.where] = values
        return made

    def place(self) -> Any:
        """The multiprocessor of a block (of every lane, where several blocks are in flight)."""
        places = self.grid.places[self.tasks]
        return places[0] if len(places) == 1 else np.repeat(places, self.threads)

    def barrier(self, mask: Mask | None) -> None:
        now = self.grid.tick()
        if mask is None:
            self.synced[:] = now
            return
        blocks = mask.on.reshape(-1, self.threads)
        here = blocks.all(1)
        if not np.array_equal(here, blocks.any(1)):
            late = int(np.flatnonzero(here != blocks.any(1))[0])
            raise Divergence(
                f"{self.grid.name}: {np.count_nonzero(blocks[late])} of {self.threads} threads of "
                f"block {self.tasks[late]} reach a barrier"
            )
        self.synced[mask.where] = now

    def together(self, op: str, mask: Mask | None) -> None:
        """All threads of a warp, or none of them, execute an operation."""
        if mask is None:
            return
        warps = mask.on.reshape(-1, 32)
        if not np.array_equal(warps.all(1), warps.any(1)):
            late = int(np.flatnonzero(warps.all(1) != warps.any(1))[0])
            raise Divergence(
                f"{self.grid.name}: {np.count_nonzero(warps[late])} of 32 threads of a warp of "
                f"block {self.task[late * 32]} reach {op}"
            )

    def warp_product(self, mask: Mask | None, values: list[Any]) -> list[np.ndarray]:
        """See `ir.WarpProduct`; sums are rounded once."""
        self.together("a product", mask)
        warps = self.count // 32
        given = [np.broadcast_to(v, self.count).reshape(warps, 32) for v in values]
        double = given[-1].dtype == np.float64
        deep = 8 if double else 16
        row, pair = np.divmod(np.arange(32), 4)
        left, right = np.zeros((warps, 16, deep)), np.zeros((warps, deep, 8))
        sums = np.zeros((warps, 16, 8))
        at = [(row + 8 * (k // 2), 2 * pair + k % 2) for k in range(4)]
        middle = 8 if double else 12  # where the elements of the right matrix begin
        for k, value in enumerate(given[4:middle]):
            if double:
                left[:, row + 8 * (k % 2), pair + 4 * (k // 2)] = value
            else:
                left[:, row + 8 * (k // 2 % 2), 2 * pair + k % 2 + 8 * (k // 4)] = value
        for k, value in enumerate(given[middle:]):
            right[:, pair + 4 * k if double else 2 * pair + k % 2 + 8 * (k // 2), row] = value
        for place, value in zip(at, given[:4], strict=True):
            sums[:, *place] = value
        sums = (sums + left @ right).astype("f8" if double else "f4")
        return [sums[:, *place].reshape(-1) for place in at]

    def collective(self, op: str, mask: Mask | None, args: list[Any]) -> np.ndarray:
        """See `ir.Collective`."""
        self.together(op, mask)
        value = np.broadcast_to(args[0], self.count).reshape(-1, 32)
        if op == "all":
            return np.repeat(value.all(1), 32)
        if op in ("ballot", "match"):
            bits = np.uint32(1) << np.arange(32, dtype=np.uint32)
            if op == "ballot":
                return np.repeat((value * bits).sum(1, dtype=np.uint32), 32)
            same = value[:, :, None] == value[:, None, :]
            return (same * bits).sum(2, dtype=np.uint32).reshape(-1)
        by = np.broadcast_to(args[1], self.count).astype(np.int64).reshape(-1, 32)
        own = np.arange(32)
        source = {"shuffle": by, "shuffle_up": own - by, "shuffle_down": own + by,
                  "shuffle_xor": own ^ by}[op]  # fmt: skip
        odd = ((source < 0) | (source > 31)) if op in ("shuffle", "shuffle_xor") else by < 0
        if (odd.reshape(-1) if mask is None else odd.reshape(-1)[mask.where]).any():
            raise OutOfRange(f"{self.grid.name}: {op} by {by[odd][0]}")
        source = np.where((source < 0) | (source > 31), own, source)
        return np.take_along_axis(value, source, 1).reshape(-1)


class Grid:
    """One launch: its clock, and what is visible to other blocks.

    `by_lane`: when each thread last fenced.  A fence covers others' writes too: those before the
    last barrier (`by_block`).  `places` has the multiprocessor (uint32) of every block.
    """

    def __init__(self, name: str, threads: int, tasks: int, places: Any = None) -> None:
        self.places = np.zeros(tasks, np.uint32) if places is None else places
        self.name, self.threads = name, threads
        self.time = 0
        self.by_lane = np.zeros(tasks * threads, np.int64)
        self.by_block = np.zeros(tasks, np.int64)
        #: Counts what other blocks may wait for.
        self.progress = 0

    def fence(self, step: Lockstep, mask: Mask | None) -> None:
        self.progress += 1
        here = step.active(mask)
        lane, synced = step.lane[here], step.synced[here]
        self.by_lane[lane] = self.tick()
        np.maximum.at(self.by_block, lane // self.threads, synced)

    def visible(self, lane: Lanes, time: np.ndarray) -> np.ndarray:
        """Whether what threads wrote at these times is visible to other blocks."""
        return time <= np.maximum(self.by_lane[lane], self.by_block[lane // self.threads])

    def tick(self) -> int:
        self.time += 1
        return self.time

    def relation(self, a: Lanes, b: Lanes) -> np.ndarray:
        """How far apart two threads are."""
        apart = (a != b).astype(np.int8)
        if apart.any():
            apart += a // self.threads != b // self.threads
        return apart


class _Touched:
    """When each element was last touched, by which thread, and how far apart its partners were."""

    def __init__(self, size: int) -> None:
        self.time = np.zeros(size, np.int64)
        self.lane = np.zeros(size, np.int64)
        self.level = np.zeros(size, np.int8)
        self.atomic = np.zeros(size, np.bool_)
        self.last = 0

    def unordered(self, grid: Grid, at: np.ndarray, lane: Lanes, synced: Lanes
                  ) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
        """Where something not ordered before this access was, and how far away."""
        time = self.time[at]
        level = np.maximum(grid.relation(self.lane[at], lane), self.level[at])
        after = np.where(level == _BLOCK, synced, np.int64(0))
        return (time > after) & (level != _SAME), level

    def touch(self, grid: Grid, at: np.ndarray, lane: Lanes, old: np.ndarray | int,
              now: int, atomic: bool) -> None:  # fmt: skip
        """Note an access; `old` is how far the unordered ones before it were."""
        self.lane[at] = lane
        spread = np.maximum(grid.relation(self.lane[at], lane), old)
        self.level[at] = 0
        if spread.any():
            np.maximum.at(self.level, at, spread.astype(np.int8))
        self.time[at] = now
        self.atomic[at] = atomic
        self.last = now


class Memory:
    """One buffer: flat data, checked.

    `origin` is the position of element 0 (strided arrays may go backwards), `valid` says which
    positions belong to the array.  Shared and local memory have `size` elements for each block or
    thread in flight, beginning at `base`.  Only what this kernel writes is watched.
    """

    def __init__(self, name: str, data: np.ndarray, *, size: int | None = None, origin: int = 0,
                 valid: np.ndarray | None = None, base: np.ndarray | None = None,
                 watched: bool = False) -> None:  # fmt: skip
        assert data.ndim == 1
        self.name, self.data, self.origin, self.valid, self.base = name, data, origin, valid, base
        self.low = -origin
        self.high = (data.size if size is None else size) - origin
        self.writes = _Touched(data.size) if watched else None
        self.reads = _Touched(data.size) if watched else None

    def where(self, step: Lockstep, index: Any, mask: Mask | None, width: int = 1,
              what: str = "load") -> np.ndarray:  # fmt: skip
        """Positions of the active lanes' elements; range and alignment are checked."""
        at = step.spread(index, mask)
        least, most = int(at.min()), int(at.max())
        if least < self.low or most + width > self.high:
            raise OutOfRange(
                f"{step.grid.name}: {what} {self.name}[{least if least < self.low else most}] of "
                f"{self.high}"
            )
        if width > 1 and (at % width).any():
            odd = int(at[at % width != 0][0])
            raise OutOfRange(
                f"{step.grid.name}: {what} of {width} elements at {self.name}[{odd}]: not aligned"
            )
        at = at.astype(np.int64) if self.origin == 0 else at.astype(np.int64) + self.origin
        if self.base is not None:
            at = at + (self.base if mask is None else self.base[mask.where])
        if self.valid is not None and not self.valid[at].all():
            raise OutOfRange(f"{step.grid.name}: {what} {self.name}: between its elements")
        return at

    def load(self, step: Lockstep, index: Any, mask: Mask | None) -> np.ndarray:
        at = self.where(step, index, mask)
        self.read(step, at, mask)
        return step.fill(self.data[at], mask)

    def load_uniform(self, step: Lockstep, index: Any, mask: Mask | None) -> Any:
        """The same element for all lanes, as one value."""
        if self.writes is None and self.valid is None:
            at = int(index)
            if not self.low <= at < self.high:
                raise OutOfRange(f"{step.grid.name}: load {self.name}[{at}] of {self.high}")
            return self.data[at + self.origin]
        at = self.where(step, index, mask)
        self.read(step, at, mask)
        return self.data[at[0]]

    def store(self, step: Lockstep, index: Any, value: Any, mask: Mask | None) -> None:
        at = self.where(step, index, mask, what="store")
        self.put(step, at, value, mask)

    def put(self, step: Lockstep, at: np.ndarray, value: Any, mask: Mask | None) -> None:
        if value.dtype != self.data.dtype:
            raise KernelFault(f"{step.grid.name}: {value.dtype} stored to {self.name}")
        value = step.spread(value, mask)
        self.data[at] = value
        if self.writes is None:
            return
        found = self.data[at]
        if found.tobytes() != np.ascontiguousarray(value).tobytes():
            raise Race(f"{step.grid.name}: two threads store different values to {self.name}["
                       f"{at[_bits(found) != _bits(value)][0]}] at once")  # fmt: skip
        self.write(step, at, mask)

    # --- what threads do to each other ---

    def read(self, step: Lockstep, at: np.ndarray, mask: Mask | None) -> None:
        if self.writes is None or self.reads is None:
            return
        here = step.active(mask)
        who = (step.lane[here], step.synced[here])
        if self.writes.last:
            bad, level = self.writes.unordered(step.grid, at, *who)
            if bad.any():
                self.race(step, at, bad, level, who[0], self.writes, "reads", "wrote")
        old: Any = 0
        if self.reads.last:
            still, level = self.reads.unordered(step.grid, at, *who)
            old = np.where(still, level, np.int8(0))
        self.reads.touch(step.grid, at, who[0], old, step.grid.tick(), False)

    def write(self, step: Lockstep, at: np.ndarray, mask: Mask | None,
              atomic: bool = False) -> None:  # fmt: skip
        if self.writes is None or self.reads is None:
            return
        here = step.active(mask)
        who = (step.lane[here], step.synced[here])
        if self.reads.last:
            bad, level = self.reads.unordered(step.grid, at, *who)
            if bad.any():
                self.race(step, at, bad, level, who[0], self.reads, "writes", "read")
        old: Any = 0
        if self.writes.last:
            bad, level = self.writes.unordered(step.grid, at, *who)
            if atomic:
                old = np.where(bad, level, np.int8(0))
                bad = bad & ~self.writes.atomic[at]
            if bad.any():
                self.race(step, at, bad, level, who[0], self.writes, "writes", "wrote")
        now = step.grid.tick()
        self.writes.touch(step.grid, at, who[0], old, now, atomic)
        if not atomic and (self.writes.level[at] == _GRID).any():
            place = int(at[self.writes.level[at] == _GRID][0])
            raise Race(f"{step.grid.name}: two blocks store to {self.name}[{place}]")

    def fetch(self, step: Lockstep, index: Any, mask: Mask | None) -> np.ndarray:
        """Read past all caches: what other blocks wrote is there once they fenced."""
        at = self.where(step, index, mask, what="fetch")
        if self.writes is not None and self.writes.last:
            here = step.active(mask)
            lane = step.lane[here]
            bad, level = self.writes.unordered(step.grid, at, lane, step.synced[here])
            bad &= ~self.writes.atomic[at]
            seen = step.grid.visible(self.writes.lane[at], self.writes.time[at])
            bad &= ~(seen & (level == _GRID))
            if bad.any():
                self.race(step, at, bad, level, lane, self.writes, "fetches", "wrote")
        return step.fill(self.data[at], mask)

    def race(self, step: Lockstep, at: np.ndarray, bad: np.ndarray, level: np.ndarray,
             lane: Lanes, others: _Touched, now: str, before: str) -> None:  # fmt: skip
        k = int(np.flatnonzero(bad)[0])
        place = int(at[k])
        missing = {_BLOCK: "no barrier", _GRID: "nothing orders blocks"}[int(level[k])]
        size = self.high - self.low
        index = place % size if self.base is not None and size else place - self.origin
        mine, theirs = int(lane[k]), int(others.lane[place])
        threads = step.threads
        raise Race(
            f"{step.grid.name}: thread {mine % threads} of block {mine // threads} {now} "
            f"{self.name}[{index}], which thread {theirs % threads} of block {theirs // threads} "
            f"{before}: {missing} between"
        )


def _bits(a: np.ndarray) -> np.ndarray:
    """A row of bytes as one comparable value per element."""
    a = np.ascontiguousarray(a)
    return a.view(f"V{a.dtype.itemsize}").reshape(a.shape)
