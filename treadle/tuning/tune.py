"""Choosing schedules by measurement: `program.tune(*args)`.

Every operation with a kernel is tried under the most promising schedules, and a product in the most
promising ways (candidates.py), one operation after the other, on the given arguments; then the
winner with hints.  A candidate that cannot be compiled or launched, or whose results differ, is
rejected, and the table says why (trials.py).  Winners are stored by program, class of extents,
machine and versions (memory.py).

>>> from treadle.tuning.tune import extents_class
>>> extents_class((1000, 1025))
(10, 11)
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from treadle.driver.arguments import bind
from treadle.dsl.errors import user_facing
from treadle.dsl.graphs.names import Names
from treadle.dsl.operations.algebra.product_way import ProductWay
from treadle.dsl.schedule import ScheduleError
from treadle.skeletons import store
from treadle.skeletons.model.report import seconds_expected

from .candidates import MOST, candidates, options, tunable
from .memory import extents_class, key_of, recall
from .progress import progress_bar
from .table import Timing, TuningTable, reduced
from .trials import Session, Subject, winner_of, with_schedules

if TYPE_CHECKING:
    from treadle.dsl.program import TracedProgram

__all__ = ["MOST", "candidates", "extents_class", "tune"]

BUDGET = 60.0


@user_facing
def tune(program: TracedProgram, args: Sequence[Any], *, budget: float = BUDGET,
         keep: int | None = None, tolerance: float | None = None,
         progress: bool = True) -> TracedProgram:  # fmt: skip
    """The program with the fastest schedules found for these arguments within `budget` seconds,
    which operations share.

    The candidates are those that the model predicts to be fastest (candidates.py).

    The result's `.tuning` is the table of all timings.  Ctrl-C keeps the best so far.  `keep=BK`
    and `tolerance=TOL` (a fraction, 0.15 for 15 %) reduce the number of different schedules: of the
    BK best of every operation, the fewest that stay within TOL of the best (Abdelfattah et al.
    2019, section V). A second call with the same program, class of extents, machine and versions
    uses the stored results, unless a smaller budget cut them short.
    """
    _check_options(budget, keep, tolerance)
    name = key_of(program, args)
    table = recall(name, program)
    if table is None or (not table.complete and table.budget < budget):
        table, interrupted = _measure(program, args, budget, progress)
        if table.rows and not interrupted:
            with suppress(ScheduleError):  # orders that no other process could import
                store.put(name, table.to_dict())
    if keep is not None or tolerance is not None:
        table.winners = reduced(table, keep, tolerance or 0.0)
    tuned = with_schedules(program, table.winners)
    tuned.tuning, tuned.measured_as = table, program
    return tuned


def _check_options(budget: float, keep: int | None, tolerance: float | None) -> None:
    if not isinstance(budget, int | float) or isinstance(budget, bool) or not budget > 0:
        raise ScheduleError(f"tune: budget is a number of seconds above 0, got {budget!r}.")
    if keep is not None and (not isinstance(keep, int) or keep < 1):
        raise ScheduleError(f"tune: keep is a number of schedules, 1 or more, got {keep!r}.")
    if tolerance is not None and not (isinstance(tolerance, int | float) and 0 <= tolerance < 1):
        raise ScheduleError(f"tune: tolerance is a fraction from 0 to 1, got {tolerance!r}.",
                            hint="Write 0.15 for 15 %.")  # fmt: skip


def _measure(program: TracedProgram, args: Sequence[Any], budget: float, progress: bool
             ) -> tuple[TuningTable, bool]:  # fmt: skip
    """The table, and whether the user interrupted it."""
    started, before, after = time.perf_counter(), math.nan, math.nan
    session: Session | None = None
    notes: list[str] = []
    interrupted = complete = False
    try:
        found = _work(program, args)
        work = [s for s in found if len(s.options) > 1 or s.hinted(None)]
        notes = [f"{s.operation}: {why}" for s in found if s not in work for why in s.closed()]
        session = Session(program, args, started, budget)
        with progress_bar(sum(len(s.options) for s in work), progress) as bar:
            for n, subject in enumerate(work):
                if time.perf_counter() >= session.deadline:
                    session.cut = True
                    break
                session.tune(subject, len(work) - n, bar)
        if len({r.operation for r in session.rows}) != 1:
            before, after = session.before_and_after()
        complete = not work or (not session.cut and time.perf_counter() < session.deadline)
    except KeyboardInterrupt:
        interrupted = True
    if session is None:
        return TuningTable([], {}, math.nan, math.nan, False), interrupted
    rows, winners = session.rows, session.winners
    if interrupted:
        winners = {**winners, **_best_of(rows)}
    if rows and math.isnan(before):  # one operation only, or interrupted
        before = after = next((r.ms for r in rows if r.schedule is None), rows[0].ms)
        after = next((r.ms for r in rows if r.schedule is not None
                      and r.schedule == winners.get(r.operation)), before)  # fmt: skip
    return TuningTable(
        rows, winners, before, after, complete, refused=session.refused,
        notes=[*notes, *session.notes], budget=budget,
        runs=session.runs, seconds=time.perf_counter() - started,
        when=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    ), interrupted  # fmt: skip


def _work(program: TracedProgram, args: Sequence[Any]) -> list[Subject]:
    """Every operation with its candidates for these arguments, the longest first; but products
    last, because other ways to compute them change the rounding of all later results."""
    data, numbers = bind(program, args)
    made = with_schedules(program, {})
    made.example_shapes = tuple(tuple(map(int, a.shape)) for a in data)
    made.example_numbers = tuple(numbers)
    names = Names(made)
    found = {op: Subject(op, node, names, options(made, names, node, extents))
             for op, node, extents in tunable(names)}  # fmt: skip
    cost = {op: seconds_expected(made, s.node, names.known) for op, s in found.items()}
    return sorted(found.values(), key=lambda s: (
        any(isinstance(o, ProductWay) for o in s.options), -cost[s.operation]))  # fmt: skip


def _best_of(rows: Sequence[Timing]) -> dict[str, Any]:
    """The fastest schedule of every operation for which one beat the unchanged operation."""
    found: dict[str, Any] = {}
    for operation in dict.fromkeys(row.operation for row in rows):
        best = winner_of([row for row in rows if row.operation == operation])
        if best.schedule is not None:
            found[operation] = best.schedule
    return found
