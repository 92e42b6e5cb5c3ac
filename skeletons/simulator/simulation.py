"""Simulations: traces run through caches."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from treadle.dsl.errors import ScheduleError, user_facing_maker
from treadle.dsl.process.locks import cached
from treadle.dsl.schedule import Schedule
from treadle.skeletons.schedules import Auto, Grid, Row, as_schedule
from treadle.skeletons.schedules.schedule import shown

from .cache import Cache, Lru, RandomFour, Sectored, SetAssociative, StepLru
from .patterns import Addresses, Pattern, Trace

_NOT_MARKED = np.zeros(0, np.bool_)
#: Most accesses for which printing computes the optimal misses.
SHOWN = 1 << 25


@dataclass(frozen=True)
class Simulation:
    """The result of a simulation: `misses` of `accesses`.

    `missed`: which accesses missed, if requested.  `left_out`: layers of the schedule that the
    simulation ignores.  `trace`, `compulsory` and `optimal` are computed on first use; printing
    uses `optimal` up to `SHOWN` accesses.

    >>> import treadle as td
    >>> td.simulate(td.simulator.transpose_pattern(4, 8)).accesses
    64
    """

    #: The implementation of `plot`, installed by the module of diagrams, which imports this one.
    _plot: ClassVar[Callable[..., Any]]

    pattern: str
    schedule: Schedule | None
    cache: Cache
    hits: int
    misses: int
    evictions: int
    source: Pattern = dataclasses.field(repr=False)
    at_once: int = 1
    missed: NDArray[np.bool_] = dataclasses.field(default_factory=lambda: _NOT_MARKED, repr=False)
    left_out: tuple[str, ...] = ()

    @property
    def accesses(self) -> int:
        return self.hits + self.misses

    @cached
    def trace(self) -> Trace:
        """All accesses: 12 bytes each."""
        return self.source.trace(self.schedule, self.at_once)

    @cached
    def compulsory(self) -> int:
        """Misses that no cache avoids: the first access to each line (or sector)."""
        piece = piece_of(self.cache)
        seen = np.zeros(self.source.span // piece + 1, np.bool_)
        for trace in self.source.pieces(self.schedule, self.at_once):
            seen[pieces_of(trace.addresses, piece)] = True
        return int(np.count_nonzero(seen))

    @cached
    def optimal(self) -> int:
        """The misses of Belady's policy, which knows the future, on the same cache (lines, or
        sectors if a miss fetches one).  Needs 40 bytes of memory per access."""
        from . import engines

        piece = piece_of(self.cache)
        lines, span = pieces_of(self.trace.addresses, piece), self.trace.span // piece + 1
        capacity = self.cache.lines * (self.cache.line_width // piece)
        following = engines.next_uses(lines, span)
        return int(engines.optimal(lines, following, span, capacity, _NOT_MARKED)[1])

    def __str__(self) -> str:
        rate = self.misses / self.accesses if self.accesses else 0.0
        best = f", {self.optimal:,} at best" if self.accesses <= SHOWN else ""
        return (
            f"{self.pattern} under {shown(self.schedule)} through {self.cache.lines:,} lines of "
            f"{self.cache.line_width}: {self.misses:,} misses of "
            f"{self.accesses:,} accesses ({rate:.1%}), {self.compulsory:,} compulsory"
            f"{best}; {self.evictions:,} lines evicted"
            + (f" (not simulated: {', '.join(self.left_out)})" if self.left_out else "")
        )

    def plot(self, ax: Any = None) -> Any:
        """The spatial-temporal diagram, on `ax` if given; see `diagrams.spatial_temporal`."""
        return self._plot(ax)


@user_facing_maker
def simulate(pattern: Any, schedule: Any = None, cache: Cache | None = None, *,
             kernel: str | None = None, arrays: Sequence[Any] | None = None,
             mark: bool = False, at_once: int = 1) -> Simulation:  # fmt: skip
    """Run the accesses of a pattern, or of one kernel of a program, through a cache.

    `schedule`: by default the kernel's own, if the program gives it one, else `Row()`.
    `kernel`: its name, or its index in `explain()` ("#3"), if a program has several; `arrays`: the
    arguments, for indices that depend on data.  `mark`: record which accesses missed.  `at_once`:
    the number of consecutive outputs in a time step (a warp: 32).  Only the order and the shape of
    blocks are simulated; the result names other layers.  The default cache is `td.Cache(256, 32)`.

    Parameters
        pattern: a compiled program, a kernel's name with `arrays`, or a Pattern.
        schedule: a schedule; optional.
        cache: the cache; default `Cache()`.
        kernel: the name of a kernel of the program; optional.
        arrays: arrays; optional.
        mark: whether to keep which accesses missed; default False.
        at_once: how many blocks run at a time; default 1.

    Result: a `Simulation`.

    >>> import treadle as td
    >>> setting, pattern = td.Cache(24, 4, "step_lru"), td.simulator.stencil_pattern(16, 16, 7, 7)
    >>> orders = td.schedule.Row(), td.schedule.Column(4)
    >>> [td.simulate(pattern, order, setting).misses for order in orders]
    [462, 264]
    """
    cache = Cache(256, 32) if cache is None else cache
    if not isinstance(cache, Cache):
        raise ScheduleError(f"{cache!r} is not a cache.",
                            hint="Write td.Cache(lines=256, line_width=32).")  # fmt: skip
    pattern, schedule, parts = _played(pattern, schedule, kernel, arrays)
    player, marks = Player(cache, pattern.span), []
    for trace in pattern.pieces(schedule, at_once):
        missed = np.zeros(trace.addresses.size, np.bool_) if mark else _NOT_MARKED
        player.play(trace, missed)
        marks.append(missed)
    return Simulation(pattern.name, schedule, cache, *player.counts, pattern, at_once,
                      np.concatenate([_NOT_MARKED, *marks]),
                      (*_left_out(schedule), *parts))  # fmt: skip


def _played(
    pattern: Any, schedule: Schedule | None, kernel: str | None, arrays: Sequence[Any] | None
) -> tuple[Pattern, Any, list[str]]:
    """The pattern of a pattern or of a program's kernel under a schedule, the schedule that is
    simulated, and the parts of it that are not."""
    if isinstance(pattern, Pattern):
        if kernel is not None or arrays is not None:
            raise ScheduleError(
                "kernel= and arrays= select a part of a program, and this is the pattern "
                f"{pattern.name!r}.", hint="Leave them out.")  # fmt: skip
        return pattern, Row() if schedule is None else schedule, []
    from .programs import as_scheduled, of_results, pattern_of, schedule_of

    program = pattern if schedule is None else as_scheduled(pattern, kernel, schedule)
    found = pattern_of(program, kernel, arrays)
    schedule = schedule_of(program, kernel) if schedule is None else schedule
    schedule, parts = of_results(program, kernel, schedule)
    return found, Row() if schedule is None else schedule, parts


def _left_out(schedule: Schedule | None) -> tuple[str, ...]:
    """The layers that assign work to processors, or set cache policies, which a trace lacks."""
    given = as_schedule(schedule)
    layers = (given.per_thread, given.lanes, given.stage, given.residency, given.hints)
    found = [repr(layer) for layer in layers if layer is not None and layer != Grid()]
    if given == Auto() or given.chooser != Auto():
        found.append(f"{given.chooser!r}, simulated as Row()")
    return tuple(found)


class Player:
    """A cache that traces are run through, chunk by chunk."""

    def __init__(self, cache: Cache, span: int) -> None:
        from . import engines

        self.policy, lines = cache.policy, cache.lines
        policy = self.policy
        self.engine: Any
        self.state: Any
        self.piece, self.timed, self.span = piece_of(cache), isinstance(policy, StepLru), span
        pieces = span // self.piece + 1
        match policy:
            case Lru():
                self.engine, self.state = engines.lru, engines.lru_state(pieces, lines)
            case StepLru():
                self.engine, self.state = engines.step_lru, engines.step_lru_state(pieces, lines)
            case SetAssociative():
                self.engine = engines.set_associative
                self.state = engines.set_associative_state(lines // policy.ways, policy.ways)
            case Sectored() if not policy.ways:
                self.engine = engines.sectored_lru
                self.state = engines.sectored_lru_state(policy.sectors, pieces, lines)
            case Sectored():
                sets, ways = lines // policy.ways, policy.ways
                self.engine = engines.sectored
                self.state = engines.sectored_state(policy.sectors, pieces, sets, ways)
            case RandomFour():
                self.engine = engines.random_groups
                self.state = engines.random_groups_state(pieces, lines, policy.together,
                                                         policy.seed)  # fmt: skip
            case _:
                raise ScheduleError(f"{policy!r} is not a policy that the simulator supports.")

    def play(self, trace: Trace, missed: NDArray[np.bool_] = _NOT_MARKED) -> None:
        """Runs a trace; `missed`, unless empty, receives which accesses missed."""
        lines = pieces_of(trace.addresses, self.piece)
        if not self.timed:
            self.engine(lines, *self.state, missed)
            return
        # The accesses of a step are simultaneous: they are taken by address.
        order = np.argsort(trace.step * (lines.max(initial=0) + 1) + lines, kind="stable")
        marks = missed[order] if missed.size else missed
        self.engine(lines[order], trace.step[order], *self.state, marks)
        if missed.size:
            missed[order] = marks

    def resident(self) -> NDArray[np.bool_]:
        """For each line (or sector) of the address space, whether it is in the cache now."""
        found = np.zeros(self.span // self.piece + 1, np.bool_)
        if isinstance(self.policy, SetAssociative):
            found[self.state[0][self.state[0] >= 0]] = True
        elif isinstance(self.policy, Sectored) and not self.policy.ways:
            there = np.repeat(self.state[0] >= 0, self.policy.sectors)
            brought = np.repeat(self.state[5], self.policy.sectors)
            found[:] = (there & (self.state[6] >= brought))[: found.size]
        elif isinstance(self.policy, Sectored):
            bits = self.state[1][:, None] >> np.arange(self.policy.sectors, dtype=np.uint32)
            found[:] = (bits & 1).astype(np.bool_).reshape(-1)[: found.size]
        else:  # the slot, or the time of the last use, of lines in the cache
            found[:] = self.state[0] >= 0
        return found

    @property
    def counts(self) -> tuple[int, int, int]:
        """Hits, misses, evictions."""
        hits, misses, evictions = self.state[-1][:3].tolist()
        return hits, misses, evictions


def piece_of(cache: Cache) -> int:
    """Elements that a miss fetches: a line, or a sector of one."""
    sectors = cache.policy.sectors if isinstance(cache.policy, Sectored) else 1
    return cache.line_width // sectors


def pieces_of(addresses: Addresses, piece: int) -> Addresses:
    """The indices of the lines (or sectors) that are accessed."""
    if piece & (piece - 1) == 0:
        return addresses >> (piece.bit_length() - 1)
    return addresses // piece


@user_facing_maker
def capacity_sweep(pattern: Any, schedules: Sequence[Any], line_width: int,
                   lines: Sequence[int], policy: Any = None) -> NDArray[np.int64]:  # fmt: skip
    """Misses of a pattern, or of the kernel of a program: one row per schedule, one column per
    number of lines.  `policy`: a value, or its name (see `Cache`).

    Parameters
        pattern: a Pattern, or a compiled program.
        schedules: schedules to compare.
        line_width: elements of a cache line.
        lines: numbers of cache lines.
        policy: the replacement policy; default least recently used.

    Result: a NumPy array of int64.

    >>> from .patterns import stencil_pattern
    >>> from treadle.skeletons.schedules import Column, Row
    >>> p = stencil_pattern(16, 16, 7, 7)
    >>> capacity_sweep(p, [Row(), Column(4)], 4, [20, 24, 28], StepLru()).tolist()
    [[1057, 462, 90], [1584, 264, 264]]
    """
    if not all(isinstance(x, Iterable) and not isinstance(x, str) for x in (schedules, lines)):
        raise ScheduleError(
            "a sweep takes a list of schedules, the width of a line and a list of numbers of "
            f"lines, got {schedules!r}, {line_width!r} and {lines!r}.",
            hint="For example capacity_sweep(pattern, [Row(), Column(8)], 32, [64, 128]).",
        )
    found = np.empty((len(schedules), len(lines)), np.int64)
    for row, schedule in enumerate(schedules):
        played, given, _ = _played(pattern, schedule, None, None)
        players = [Player(Cache(n, line_width, policy or Lru()), played.span) for n in lines]
        for trace in played.pieces(given):
            for player in players:
                player.play(trace)
        found[row] = [player.counts[1] for player in players]
    return found


# --- Stencils in columns (Prasetya 2021, section 4.1): the paper's closed forms -------------------
# They bound what one array of a stencil needs.  For programs, without enumerating their accesses,
# see `column_loads` and `column_cache` in `../access/footprint.py`.


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def _positive(**sizes: int) -> None:
    for name, n in sizes.items():
        if not isinstance(n, int | np.integer) or n < 1:
            raise ScheduleError(f"{name} is {n!r}, and must be a positive integer.")


@user_facing_maker
def cache_needed(column: int, height: int, width: int, threads: int = 1, element: int = 1) -> int:
    """M_cache: the elements that a column of `column` outputs keeps in use, in units of `element`.

    Parameters
        column: the width of the columns.
        height: the number of rows.
        width: the number of columns.
        threads: threads that share the cache; default 1.
        element: units of an element; default 1.

    Result: a Python int.

    >>> cache_needed(4, 7, 7)
    88
    """
    _positive(column=column, height=height, width=width, threads=threads, element=element)
    return element * (column + width) * (height + _ceil_div(threads, column))


@user_facing_maker
def line_loads(column: int, height: int, width: int, rows: int, cols: int, line: int) -> int:
    """M_loads: an upper bound of the cache lines fetched, with columns of `column` outputs.

    Parameters
        column: the width of the columns.
        height: the number of rows.
        width: the number of columns.
        rows: a number of rows.
        cols: a number of columns.
        line: elements of a cache line.

    Result: a Python int.

    >>> [line_loads(c, 7, 7, 256, 256, 8) for c in (8, 16, 32, 64, 128)]
    [25152, 16768, 12576, 10480, 9432]
    """
    _positive(column=column, height=height, width=width, rows=rows, cols=cols, line=line)
    a_row = _ceil_div(width + column - 1, line) + 1
    return (height + rows - 1) * a_row * _ceil_div(cols, column)
