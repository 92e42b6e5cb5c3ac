"""Running traces through caches."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treadle.dsl.errors import ScheduleError, user_facing
from treadle.skeletons.schedules import Auto, Grid, Row, as_schedule
from treadle.skeletons.schedules.schedule import shown

from .cache import Cache, Lru, RandomFour, Sectored, SetAssociative, StepLru
from .patterns import Pattern, Trace

_NOT_MARKED = np.zeros(0, np.bool_)


@dataclass(frozen=True)
class Simulation:
    """What happened: `misses` of `accesses`; of those `compulsory` cannot be avoided by any cache.

    `optimal`: the misses of Belady's policy, which knows the future, on the same cache (lines, or
    sectors where a miss brings in one).  `missed`: which accesses missed, when asked for.
    `left_out`: layers of the schedule that the simulation takes no notice of.
    """

    pattern: str
    schedule: Any
    cache: Cache
    trace: Trace
    hits: int
    misses: int
    evictions: int
    compulsory: int
    optimal: int
    missed: NDArray[np.bool_]
    left_out: tuple[str, ...] = ()

    @property
    def accesses(self) -> int:
        return self.hits + self.misses

    def __str__(self) -> str:
        rate = self.misses / self.accesses if self.accesses else 0.0
        return (
            f"{self.pattern} under {shown(self.schedule)}: {self.misses:,} misses of "
            f"{self.accesses:,} accesses ({rate:.1%}), {self.compulsory:,} compulsory, "
            f"{self.optimal:,} at best; {self.evictions:,} lines thrown out"
            + (f" (not simulated: {', '.join(self.left_out)})" if self.left_out else "")
        )

    def plot(self, axes: Any = None) -> Any:
        """The spatial-temporal diagram; see `diagrams.spatial_temporal`."""
        from .diagrams import spatial_temporal

        return spatial_temporal(self, axes)


@user_facing
def simulate(pattern: Any, schedule: Any = None, cache: Cache | None = None, *,
             kernel: str | None = None, arrays: Sequence[Any] | None = None,
             mark: bool = False, at_once: int = 1) -> Simulation:  # fmt: skip
    """The accesses of a pattern, or of one kernel of a program, under a schedule, through a cache.

    Without a schedule it is the kernel's own, if the program gives it one, else `Row()`.
    `kernel` and `arrays`: see `programs.pattern_of`.  `mark`: remember which accesses missed.
    `at_once`: so many consecutive outputs share a time step (a warp: 32).  Only the order and the
    shape of blocks are played; other layers are named in the result.

    >>> from .patterns import stencil_pattern
    >>> from treadle.skeletons.schedules import Column, Row
    >>> setting = Cache(24, 4, StepLru())
    >>> [simulate(stencil_pattern(16, 16, 7, 7), s, setting).misses for s in (Row(), Column(4))]
    [462, 264]
    """
    cache = Cache(256, 32) if cache is None else cache
    if not isinstance(cache, Cache):
        raise ScheduleError(f"{cache!r} is no cache.",
                            hint="Write td.Cache(lines=256, line_width=32).")  # fmt: skip
    if not isinstance(pattern, Pattern):
        from .programs import as_scheduled, pattern_of, schedule_of

        program = pattern if schedule is None else as_scheduled(pattern, kernel, schedule)
        pattern = pattern_of(program, kernel, arrays)
        schedule = schedule_of(program, kernel) if schedule is None else schedule
    schedule = Row() if schedule is None else schedule
    trace = pattern.trace(schedule, at_once)
    found = run(pattern.name, schedule, trace, cache, mark)
    return dataclasses.replace(found, left_out=_left_out(schedule))


def _left_out(schedule: Any) -> tuple[str, ...]:
    """The layers that decide who runs what, or how caches are used: a trace has none of them."""
    whole = as_schedule(schedule)
    layers = (whole.per_thread, whole.lanes, whole.stage, whole.residency, whole.hints)
    found = [repr(layer) for layer in layers if layer is not None and layer != Grid()]
    if whole == Auto() or whole.chooser != Auto():
        found.append(f"{whole.chooser!r}, played as Row()")
    return tuple(found)


def as_pattern(pattern: Any) -> Pattern:
    """A pattern, or that of the only kernel of a program."""
    if isinstance(pattern, Pattern):
        return pattern
    from .programs import pattern_of

    return pattern_of(pattern)


def run(name: str, schedule: Any, trace: Trace, cache: Cache, mark: bool = False) -> Simulation:
    """A trace through a cache, and through the best that a cache of its size can do."""
    lines, span = _pieces(trace, cache)
    capacity = cache.lines * (cache.line_width // _piece(cache))
    missed = np.zeros(lines.size, np.bool_) if mark else _NOT_MARKED
    hits, misses, evictions = _engine(trace, lines, span, cache, missed)
    from . import engines

    best = engines.optimal(lines, engines.next_uses(lines, span), span, capacity, _NOT_MARKED)
    compulsory = int(np.count_nonzero(np.bincount(lines, minlength=1)))
    return Simulation(name, schedule, cache, trace, int(hits), int(misses), int(evictions),
                      compulsory, int(best[1]), missed)  # fmt: skip


def _piece(cache: Cache) -> int:
    """Elements that a miss brings in: a line, or a sector of one."""
    sectors = cache.policy.sectors if isinstance(cache.policy, Sectored) else 1
    return cache.line_width // sectors


def _pieces(trace: Trace, cache: Cache) -> tuple[Any, int]:
    """The numbers of the pieces that are accessed, and how many there are."""
    return trace.addresses // _piece(cache), trace.span // _piece(cache) + 1


def _engine(trace: Trace, lines: Any, span: int, cache: Cache, missed: Any) -> Any:
    from . import engines

    policy = cache.policy
    match policy:
        case Lru():
            return engines.lru(lines, span, cache.lines, missed)
        case StepLru():
            return engines.step_lru(lines, trace.step, span, cache.lines, missed)
        case SetAssociative():
            return engines.set_associative(lines, cache.lines // policy.ways, policy.ways, missed)
        case Sectored():
            ways = policy.ways or cache.lines
            return engines.sectored(lines, policy.sectors, span, cache.lines // ways, ways, missed)
        case RandomFour():
            return engines.random_groups(lines, span, cache.lines, policy.together, policy.seed,
                                         missed)  # fmt: skip
    raise ScheduleError(f"{policy!r} is no policy that the simulator knows.")


@user_facing
def capacity_sweep(pattern: Any, schedules: Sequence[Any], line_width: int,
                   lines: Sequence[int], policy: Any = None) -> NDArray[np.int64]:  # fmt: skip
    """Misses of a pattern, or of the kernel of a program: one row per schedule, one column per
    number of lines.  `policy`: a value, or its name (see `Cache`).

    >>> from .patterns import stencil_pattern
    >>> from treadle.skeletons.schedules import Column, Row
    >>> p = stencil_pattern(16, 16, 7, 7)
    >>> capacity_sweep(p, [Row(), Column(4)], 4, [20, 24, 28], StepLru()).tolist()
    [[1057, 462, 90], [1584, 264, 264]]
    """
    pattern = as_pattern(pattern)
    if not all(isinstance(x, Iterable) and not isinstance(x, str) for x in (schedules, lines)):
        raise ScheduleError(
            "a sweep takes a list of schedules, the width of a line and a list of numbers of "
            f"lines, got {schedules!r}, {line_width!r} and {lines!r}.",
            hint="For example capacity_sweep(pattern, [Row(), Column(8)], 32, [64, 128]).",
        )
    found = np.empty((len(schedules), len(lines)), np.int64)
    for row, schedule in enumerate(schedules):
        trace = pattern.trace(schedule)
        for col, count in enumerate(lines):
            cache = Cache(count, line_width, policy or Lru())
            found[row, col] = _engine(trace, *_pieces(trace, cache), cache, _NOT_MARKED)[1]
    return found
