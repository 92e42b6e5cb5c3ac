"""Choosing schedules by measurement: `program.tune(*args)`.

Every operation over two axes or more that is a kernel of its own is tried under promising
schedules, one operation after the other, on the arguments given; a candidate whose results differ
in a bit is refused.  Winners are remembered per program, class of extents, machine and versions
(store.py).
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from . import store
from .blocks import Block, PerThread
from .errors import ScheduleError
from .orders import Column, Row, Tile
from .schedule import Schedule, ScheduleLike, as_schedule
from .serial import from_dict, to_dict

if TYPE_CHECKING:
    from treadle.dsl.program import Program

BUDGET = 60.0
ROUNDS = 5
SHORTEST = 2e-3  # seconds: shorter runs are timed several at once
GAIN = 0.98  # a schedule replaces another when it takes less than this part of its time
ROWS_PER_THREAD = (2, 4, 8)

# What a block covers: threads on a GPU, a task on a CPU.
_BLOCKS = {"cuda": ((4, 64), (8, 32), (16, 32), (32, 32))}
_CPU_BLOCKS = ((16, 256), (32, 512), (64, 128))


@dataclass(frozen=True)
class Timing:
    """One measurement: the whole program with `operation` under `schedule` (None: as it was)."""

    operation: str
    schedule: Schedule | None
    ms: float


class TuningTable:
    """All timings of a tuning, and the winners; prints as a table.

    `rows` are `Timing`s; `winners` maps operations to schedules; `before` and `after` are
    milliseconds of the whole program; `best` is code to paste.
    """

    def __init__(self, rows: Sequence[Timing], winners: Mapping[str, Schedule], before: float,
                 after: float, complete: bool = True, stored: bool = False) -> None:  # fmt: skip
        self.rows, self.winners = list(rows), dict(winners)
        self.before, self.after = before, after
        self.complete, self.stored = complete, stored

    @property
    def best(self) -> str:
        """Code that gives a program these schedules."""
        named = [f"{k}={_code(s)}" for k, s in self.winners.items() if k.isidentifier()]
        others = [f'"{k}": {_code(s)}' for k, s in self.winners.items() if not k.isidentifier()]
        if others:
            named.append(f"**{{{', '.join(others)}}}")
        return f"program.scheduled({', '.join(named)})"

    def __str__(self) -> str:
        if not self.rows:
            return "nothing to tune: no operation over two axes or more is a kernel of its own\n"
        cells = [("operation", "schedule", "ms", "")]
        for operation in dict.fromkeys(row.operation for row in self.rows):
            rows = sorted((r for r in self.rows if r.operation == operation), key=lambda r: r.ms)
            for row in rows:
                winner = self.winners.get(operation) == row.schedule
                shown = "as it was" if row.schedule is None else repr(row.schedule)
                cells.append((operation, shown, f"{row.ms:.3f}", "best" if winner else ""))
        widths = [max(len(c[k]) for c in cells) for k in range(4)]
        lines = [
            f"{a:<{widths[0]}}  {b:<{widths[1]}}  {c:>{widths[2]}}  {d}".rstrip()
            for a, b, c, d in cells
        ]
        gain = f"{self.before:.3f} ms before, {self.after:.3f} ms after"
        origin = " (remembered)" if self.stored else "" if self.complete else " (stopped early)"
        return "\n".join([*lines, "", gain + origin, self.best]) + "\n"

    __repr__ = __str__

    def to_dict(self) -> dict[str, Any]:
        """For the store."""
        return {
            "rows": [[r.operation, _stored(r.schedule), r.ms] for r in self.rows],
            "winners": {k: to_dict(s) for k, s in self.winners.items()},
            "before": self.before,
            "after": self.after,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TuningTable:
        """What `to_dict` gave; ValueError, KeyError or TypeError for anything else."""
        rows = [Timing(str(o), None if s is None else from_dict(s), float(ms))
                for o, s, ms in data["rows"]]  # fmt: skip
        winners = {str(k): from_dict(s) for k, s in data["winners"].items()}
        return cls(rows, winners, float(data["before"]), float(data["after"]), stored=True)


def _stored(schedule: Schedule | None) -> Any:
    return None if schedule is None else to_dict(schedule)


def _code(schedule: Schedule) -> str:
    """The schedule as code after `import treadle as td` (orders of one's own as they print)."""
    own = __package__ or ""
    return " | ".join(
        f"td.schedule.{layer!r}" if type(layer).__module__.startswith(own) else repr(layer)
        for layer in as_schedule(schedule).layers
    )


# --- candidates ------------------------------------------------------------------------------


def candidates(backend: str, extents: Sequence[int | None]) -> list[Schedule]:
    """Promising schedules for an operation of these extents (None: not known), the plain first."""
    height, width = (10**9 if n is None else n for n in extents[-2:])
    found: list[ScheduleLike] = [Row()]
    found += [Column(w) for w in (64, 256) if w < width]
    found += [Tile(r, c) for r, c in ((32, 64), (64, 256)) if r < height and c < width]
    if height > 16 and width > 512:
        found.append(Column(512) | Block(16, 256))
    for rows, cols in _BLOCKS.get(backend, _CPU_BLOCKS):
        if rows >= 2 * height or cols >= 2 * width:
            continue
        block = Row() | Block(rows, cols)
        found.append(block)
        found += [block | PerThread(rows=k) for k in ROWS_PER_THREAD if rows % k == 0]
    return [as_schedule(s) for s in found]


def subjects(program: Program) -> dict[str, tuple[int | None, ...]]:
    """What can be tuned: the address of every operation that is a kernel of independent elements
    over two axes or more, with its extents where they are known."""
    from treadle.dsl.graph import Generate
    from treadle.dsl.names import Names, address

    names = Names(program)
    found: dict[str, tuple[int | None, ...]] = {}
    for node in names.kernels:
        number = names.number(node)
        if isinstance(node, Generate) and len(node.shape) >= 2 and number is not None:
            found[node.label.name or address(number)] = tuple(map(names.value, node.shape))
    return found


# --- measuring -------------------------------------------------------------------------------


@dataclass
class _Runner:
    """A candidate that gives the right results, with its times."""

    schedule: Schedule | None
    run: Callable[[], Any]
    repeats: int
    times: list[float]

    @property
    def ms(self) -> float:
        return 1e3 * statistics.median(self.times)

    def measure(self) -> None:
        start = time.perf_counter()
        for _ in range(self.repeats):
            self.run()
        self.times.append((time.perf_counter() - start) / self.repeats)


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, tuple | list):
        for v in value:
            yield from _leaves(v)
    elif hasattr(value, "__dataclass_fields__"):
        yield from _leaves([getattr(value, f) for f in value.__dataclass_fields__])
    else:
        yield value


def same_bits(a: Any, b: Any) -> bool:
    """Whether two results are equal to the last bit, NaN included."""
    left, right = [_host(x) for x in _leaves(a)], [_host(x) for x in _leaves(b)]
    return len(left) == len(right) and all(
        x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()
        for x, y in zip(left, right, strict=True)
    )


def _host(value: Any) -> Any:
    return value.get() if hasattr(value, "__cuda_array_interface__") else np.asarray(value)


class _Session:
    """One call of `tune`: the arguments, the clock and the rows so far."""

    def __init__(self, program: Program, args: Sequence[Any], budget: float) -> None:
        from treadle.dsl.jit import bind

        self.program = program
        self.data, self.params = bind(program, args)
        self.deadline = time.perf_counter() + budget
        self.wanted = program.execute(self.data, self.params)
        self.rows: list[Timing] = []

    @property
    def over(self) -> bool:
        return time.perf_counter() >= self.deadline

    def runner(self, schedule: Schedule | None, overrides: Mapping[str, Schedule]) -> _Runner | None:
        """A candidate, warmed up; None when the backend refuses it or a bit differs."""
        from treadle.dsl.errors import TreadleError

        try:
            program = with_schedules(self.program, overrides)

            def run() -> Any:
                return program.execute(self.data, self.params)

            found = run()
        except (TreadleError, ScheduleError, NotImplementedError):
            return None
        if not same_bits(found, self.wanted):
            return None
        start = time.perf_counter()
        run()
        once = time.perf_counter() - start
        return _Runner(schedule, run, max(1, math.ceil(SHORTEST / max(once, 1e-7))), [])

    def try_all(self, operation: str, chosen: Mapping[str, Schedule], options: Sequence[
            Schedule | None], tick: Callable[[str, float | None], None]) -> _Runner | None:  # fmt: skip
        """Times of all options for one operation, interleaved; the slower half leaves each round
        after the second.  The rows are kept even when interrupted."""
        runners: list[_Runner] = []
        try:
            for option in options:
                if self.over and runners:
                    break
                overrides = dict(chosen) if option is None else {**chosen, operation: option}
                made = self.runner(option, overrides)
                if made is not None:
                    made.measure()
                    runners.append(made)
                tick(operation, min((r.ms for r in runners), default=None))
            active = list(runners)
            for turn in range(1, ROUNDS):
                if self.over:
                    break
                for r in active:
                    r.measure()
                if turn >= 2:
                    active = sorted(active, key=lambda r: r.ms)[: max(2, (len(active) + 1) // 2)]
        finally:
            self.rows += [Timing(operation, r.schedule, r.ms) for r in runners if r.times]
        return _winner(runners)


def _winner(found: Sequence[Any]) -> Any:
    """The fastest of runners or timings; the operation as it was, unless the gain is clear."""
    best = min(found, key=lambda r: r.ms, default=None)
    plain = next((r for r in found if r.schedule is None), None)
    if best is None or plain is None or best.ms < GAIN * plain.ms:
        return best
    return plain


def with_schedules(program: Program, schedules: Mapping[str, ScheduleLike]) -> Program:
    """The program under further schedules; `overrides` holds all of them."""
    from treadle.dsl.program import Program

    made = Program(program.source_roots, program.tree, program.settings, program.backend,
                   program.arguments, program.params, program.name, dict(schedules))  # fmt: skip
    made.overrides = {**program.overrides, **made.overrides}
    made.example_shapes = program.example_shapes
    return made


# --- the public function ---------------------------------------------------------------------


def tune(program: Program, args: Sequence[Any], *, budget: float = BUDGET, keep: int | None = None,
         tolerance: float | None = None, progress: bool = True) -> Program:  # fmt: skip
    """The program under the fastest schedules found for these arguments, within `budget` seconds.

    The result's `.tuning` is the table of all timings.  Ctrl-C keeps the best so far.  `keep=BK`
    and `tolerance=TOL` (a fraction, 0.15 for 15 %) reduce the number of different schedules: of
    the BK best of every operation, the fewest that stay within TOL of the best (Abdelfattah et
    al. 2019, section V).  A second call with the same program, class of extents, machine and
    versions answers from the store.
    """
    _check_options(budget, keep, tolerance)
    name = _key(program, args)
    table = _remembered(name, program)
    if table is None:
        table = _measure(program, args, budget, progress)
        if table.complete and table.rows:
            store.put(name, table.to_dict())
    if keep is not None or tolerance is not None:
        table.winners = _reduced(table, keep, tolerance or 0.0)
    tuned = with_schedules(program, table.winners)
    tuned.tuning = table
    return tuned


def _check_options(budget: float, keep: int | None, tolerance: float | None) -> None:
    if not budget > 0:
        raise ScheduleError(f"tune: budget is a number of seconds above 0, got {budget!r}.")
    if keep is not None and keep < 1:
        raise ScheduleError(f"tune: keep is a number of schedules, 1 or more, got {keep!r}.")
    if tolerance is not None and not 0 <= tolerance < 1:
        raise ScheduleError(f"tune: tolerance is a fraction from 0 to 1, got {tolerance!r}.",
                            hint="Write 0.15 for 15 %.")  # fmt: skip


def _measure(program: Program, args: Sequence[Any], budget: float, progress: bool) -> TuningTable:
    session = _Session(program, args, budget)
    winners: dict[str, Schedule] = {}
    before = after = math.nan
    work = {op: [None, *candidates(program.backend, shape)] for op, shape in
            _known(program, args).items()}  # fmt: skip
    complete = True
    try:
        with _bar(sum(map(len, work.values())), progress) as tick:
            for operation, options in work.items():
                if session.over:
                    complete = False
                    break
                best = session.try_all(operation, winners, options, tick)
                if best is not None and best.schedule is not None:
                    winners[operation] = best.schedule
        complete = complete and not session.over
    except KeyboardInterrupt:
        complete = False
        winners = {**winners, **_best_of(session.rows)}
    if session.rows:
        first = [r for r in session.rows if r.schedule is None]
        before = first[0].ms if first else session.rows[0].ms
        last = session.rows[-1].operation
        after = min(r.ms for r in session.rows if r.operation == last)
    return TuningTable(session.rows, winners, before, after, complete)


def _known(program: Program, args: Sequence[Any]) -> dict[str, tuple[int | None, ...]]:
    """Subjects, with the extents of these arguments."""
    from treadle.dsl.jit import bind

    data, _ = bind(program, args)
    made = with_schedules(program, {})
    made.example_shapes = tuple(tuple(map(int, a.shape)) for a in data)
    return subjects(made)


def _best_of(rows: Sequence[Timing]) -> dict[str, Schedule]:
    """The fastest schedule of every operation, where one beat the operation as it was."""
    found: dict[str, Schedule] = {}
    for operation in dict.fromkeys(row.operation for row in rows):
        best = _winner([row for row in rows if row.operation == operation])
        if best.schedule is not None:
            found[operation] = best.schedule
    return found


@contextmanager
def _bar(total: int, wanted: bool) -> Iterator[Callable[[str, float | None], None]]:
    """A progress bar with the best so far, on a terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    if not (wanted and total and console.is_terminal):
        yield lambda operation, ms: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
               TextColumn("{task.fields[best]}"))  # fmt: skip
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("tuning", total=total, best="")

        def tick(operation: str, ms: float | None) -> None:
            best = "" if ms is None else f"best {ms:.3f} ms"
            bar.update(task, advance=1, description=f"tuning {operation}", best=best)

        yield tick


# --- remembering -----------------------------------------------------------------------------


def extents_class(shape: Sequence[int]) -> tuple[int, ...]:
    """Extents up to the next power of two: one winner serves a class.

    >>> extents_class((1000, 1, 1025))
    (10, 0, 11)
    """
    return tuple(max(int(n) - 1, 0).bit_length() for n in shape)


def _key(program: Program, args: Sequence[Any]) -> str:
    from treadle.dsl.jit import bind
    from treadle.dsl.serialise import canonical_key

    data, _ = bind(program, args)
    shapes = [np.shape(n.source) for n in program.inputs[len(program.arguments) :]]
    classes = [extents_class(s) for s in [*(a.shape for a in data), *shapes]]
    return store.key(_meaning(program, canonical_key), program.backend, classes, store.machine())


def _meaning(program: Program, canonical_key: Callable[..., str]) -> str:
    """The program's key; what cannot be written down is told apart by what it prints."""
    from treadle.dsl.errors import StorageError

    try:
        return canonical_key(program.source_roots, program.settings)
    except StorageError:
        return f"{program.name} {program}"


def _remembered(name: str, program: Program) -> TuningTable | None:
    value = store.get(name)
    if value is None:
        return None
    try:
        table = TuningTable.from_dict(value)
        with_schedules(program, table.winners)
    except (ValueError, KeyError, TypeError, AttributeError):
        store.drop(name)
        return None
    return table


# --- fewer kernels ---------------------------------------------------------------------------


def fewest(
    times: Mapping[str, Mapping[Schedule | None, float]], keep: int | None, tolerance: float
) -> dict[str, Schedule | None]:
    """For every test point one schedule, with few different ones in all.

    A schedule is acceptable at a point when it is among its `keep` best and at most `tolerance`
    of the best performance is lost (time ≤ best / (1 − tolerance)); the schedule acceptable at
    most points goes first, then the one for most of the rest, and so on.

    >>> a, b = as_schedule(Row()), as_schedule(Column(64))
    >>> fewest({"x": {a: 1.0, b: 1.1}, "y": {a: 2.0, b: 1.0}}, 10, 0.15) == {"x": b, "y": b}
    True
    """
    acceptable: dict[str, dict[Schedule | None, float]] = {}
    for point, found in times.items():
        ranked = sorted(found.items(), key=lambda item: item[1])[:keep]
        limit = ranked[0][1] / (1 - tolerance)
        acceptable[point] = {s: ms for s, ms in ranked if ms <= limit}
    chosen: dict[str, Schedule | None] = {}
    while len(chosen) < len(acceptable):
        left = [p for p in acceptable if p not in chosen]
        score: dict[Schedule | None, tuple[int, float]] = {}
        for p in left:
            best = min(acceptable[p].values())
            for s, ms in acceptable[p].items():
                count, loss = score.get(s, (0, 0.0))
                score[s] = (count - 1, loss + ms / best)
        winner = min(score, key=lambda s: score[s])
        chosen.update({p: winner for p in left if winner in acceptable[p]})
    return {point: chosen[point] for point in times}


def _reduced(table: TuningTable, keep: int | None, tolerance: float) -> dict[str, Schedule]:
    times: dict[str, dict[Schedule | None, float]] = {}
    for row in table.rows:
        times.setdefault(row.operation, {})[row.schedule] = row.ms
    return {op: s for op, s in fewest(times, keep, tolerance).items() if s is not None}
