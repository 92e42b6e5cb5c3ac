"""Choosing schedules by measurement: `program.tune(*args)`.

Every operation over two axes or more that is a kernel of its own is tried under those schedules
that the model finds most promising, one operation after the other, on the arguments given; a
candidate whose results differ in a bit is refused.  Winners are remembered per program, class of
extents, machine and versions (store.py).
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from treadle.dsl.errors import user_facing
from treadle.dsl.quantities import duration

from . import store
from .candidates import MOST, candidates, promising, subjects, tunable
from .errors import ScheduleError
from .remembering import extents_class, key_of, recall
from .schedule import Schedule, ScheduleLike
from .tuning_table import Timing, TuningTable, reduced

if TYPE_CHECKING:
    from treadle.dsl.program import Program

__all__ = ["MOST", "candidates", "extents_class", "same_bits", "subjects", "tune"]

BUDGET = 60.0
ROUNDS = 5
SHORTEST = 2e-3  # seconds: shorter runs are timed several at once
GAIN = 0.98  # a schedule replaces another when it takes less than this part of its time


# --- measuring -------------------------------------------------------------------------------


@dataclass
class _Runner:
    """A candidate that gives the right results, with its times."""

    schedule: Schedule | None
    run: Callable[[], Any]
    wait: Callable[[], None]
    repeats: int
    times: list[float]

    @property
    def ms(self) -> float:
        return 1e3 * statistics.median(self.times)

    def measure(self) -> None:
        start = time.perf_counter()
        for _ in range(self.repeats):
            self.run()
        self.wait()
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
    """Whether two results are equal to the last bit, NaN included.

    >>> same_bits(0.0, 0.0), same_bits(0.0, -0.0)
    (True, False)
    """
    left, right = [_host(x) for x in _leaves(a)], [_host(x) for x in _leaves(b)]
    return len(left) == len(right) and all(
        x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()
        for x, y in zip(left, right, strict=True)
    )


def _host(value: Any) -> Any:
    return value.get() if hasattr(value, "__cuda_array_interface__") else np.asarray(value)


class _Session:
    """One call of `tune`: the arguments, the clock and the rows so far."""

    def __init__(self, program: Program, args: Sequence[Any], budget: float,
                 rows: list[Timing]) -> None:  # fmt: skip
        from treadle.dsl.jit import bind

        self.program, self.rows = program, rows
        data, self.params = bind(program, args)
        self.data = program.placed(data)  # copies to a GPU are no part of what is timed
        self.deadline = time.perf_counter() + budget
        self.wanted = program.execute(self.data, self.params)

    @property
    def over(self) -> bool:
        return time.perf_counter() >= self.deadline

    def runner(
        self, schedule: Schedule | None, overrides: Mapping[str, Schedule]
    ) -> _Runner | None:
        """A candidate, warmed up; None when the backend refuses it or a bit differs."""
        from treadle.dsl.errors import TreadleError

        try:
            program = with_schedules(self.program, overrides)

            def run() -> Any:
                return program.execute(self.data, self.params)

            found = run()
        except (TreadleError, ScheduleError):
            return None
        if not same_bits(found, self.wanted):
            return None
        program.wait()
        start = time.perf_counter()
        run()
        program.wait()
        once = time.perf_counter() - start
        return _Runner(
            schedule, run, program.wait, max(1, math.ceil(SHORTEST / max(once, 1e-7))), []
        )

    def try_all(
        self,
        operation: str,
        chosen: Mapping[str, Schedule],
        options: Sequence[Schedule | None],
        tick: Callable[[str, float | None], None],
    ) -> _Runner | None:
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
        best: _Runner | None = _winner(runners)
        return best


def _winner(found: Sequence[Any]) -> Any:
    """The fastest of runners or timings; the operation as it was, unless the gain is clear."""
    best = min(found, key=lambda r: r.ms, default=None)
    plain = next((r for r in found if r.schedule is None), None)
    if best is None or plain is None or best.ms < GAIN * plain.ms:
        return best
    return plain


def with_schedules(program: Program, schedules: Mapping[str, ScheduleLike]) -> Program:
    """The program under further schedules; its `overrides` hold all of them."""
    return program.scheduled(**schedules)


# --- the public function ---------------------------------------------------------------------


@user_facing
def tune(program: Program, args: Sequence[Any], *, budget: float = BUDGET, keep: int | None = None,
         tolerance: float | None = None, progress: bool = True) -> Program:  # fmt: skip
    """The program under the fastest schedules found for these arguments, within `budget` seconds.

    What is tried is what the model predicts to be fastest (`promising`).

    The result's `.tuning` is the table of all timings.  Ctrl-C keeps the best so far.  `keep=BK`
    and `tolerance=TOL` (a fraction, 0.15 for 15 %) reduce the number of different schedules: of
    the BK best of every operation, the fewest that stay within TOL of the best (Abdelfattah et
    al. 2019, section V).  A second call with the same program, class of extents, machine and
    versions answers from the store.
    """
    _check_options(budget, keep, tolerance)
    name = key_of(program, args)
    table = recall(name, program)
    if table is None:
        table = _measure(program, args, budget, progress)
        if table.complete and table.rows:
            with suppress(ScheduleError):  # orders that no other process could import
                store.put(name, table.to_dict())
    if keep is not None or tolerance is not None:
        table.winners = reduced(table, keep, tolerance or 0.0)
    tuned = with_schedules(program, table.winners)
    tuned.tuning = table
    return tuned


def _check_options(budget: float, keep: int | None, tolerance: float | None) -> None:
    if not isinstance(budget, int | float) or isinstance(budget, bool) or not budget > 0:
        raise ScheduleError(f"tune: budget is a number of seconds above 0, got {budget!r}.")
    if keep is not None and (not isinstance(keep, int) or keep < 1):
        raise ScheduleError(f"tune: keep is a number of schedules, 1 or more, got {keep!r}.")
    if tolerance is not None and not (isinstance(tolerance, int | float) and 0 <= tolerance < 1):
        raise ScheduleError(f"tune: tolerance is a fraction from 0 to 1, got {tolerance!r}.",
                            hint="Write 0.15 for 15 %.")  # fmt: skip


def _measure(program: Program, args: Sequence[Any], budget: float, progress: bool) -> TuningTable:
    rows: list[Timing] = []
    winners: dict[str, Schedule] = {}
    before = after = math.nan
    complete = True
    try:
        session = _Session(program, args, budget, rows)
        work = _options(program, args)
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
        winners = {**winners, **_best_of(rows)}
    if rows:
        first = [r for r in rows if r.schedule is None]
        before = first[0].ms if first else rows[0].ms
        last = rows[-1].operation
        after = min(r.ms for r in rows if r.operation == last)
    return TuningTable(rows, winners, before, after, complete)


def _options(program: Program, args: Sequence[Any]) -> dict[str, list[Schedule | None]]:
    """For every operation what to try on these arguments; first, as it is."""
    from treadle.dsl.jit import bind
    from treadle.dsl.names import Names

    data, _ = bind(program, args)
    made = with_schedules(program, {})
    made.example_shapes = tuple(tuple(map(int, a.shape)) for a in data)
    names = Names(made)
    return {
        op: [None, *promising(made, node, extents, names.known)]
        for op, node, extents in tunable(names)
    }


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
            best = "" if ms is None else f"best {duration(ms / 1e3)}"
            bar.update(task, advance=1, description=f"tuning {operation}", best=best)

        yield tick
