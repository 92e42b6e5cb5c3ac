"""Measurements of a kernel on this device next to predictions, for `explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from treadle.dsl.program import TracedProgram
from treadle.dsl.target import target_of
from treadle.dsl.text import duration
from treadle.skeletons.model.report import seconds_predicted
from treadle.skeletons.schedules.schedule import Schedule

from .memory import remembered
from .table import Timing, TuningTable, option_name

if TYPE_CHECKING:
    from treadle.dsl.graph import Node
    from treadle.dsl.graphs.names import Names

#: Candidates shown; the others are counted.
SHOWN = 5


def table_of(program: TracedProgram) -> TuningTable | None:
    """The results of `tune` on this device for a program, at its example extents."""
    if program.tuning is not None:
        return program.tuning  # type: ignore[no-any-return]
    if program.example_shapes is None or not target_of(program.backend).kernels:
        return None

    return remembered(program, program.example_shapes)


def measured_lines(names: Names, node: Node, table: TuningTable | None) -> list[str]:
    """The winner, its gain and date, then times of the entire program next to the predicted time of
    the kernel; empty if it was not tuned."""
    operation = names.address(node)
    rows = [] if table is None else table.of(operation)
    if table is None or not rows:
        return []
    predicted = _predicted(names, node, rows)
    plain = next((r for r in rows if r.schedule is None), None)
    winner = table.winners.get(operation)
    shown = rows[:SHOWN]
    shown += [r for r in rows[SHOWN:] if r is plain or r.schedule == winner]
    cells = [("whole program", "kernel predicted", "")] if any(predicted.values()) else []
    for r in shown:
        guess = predicted.get(r.schedule)
        text = "—" if guess is None else duration(guess)
        cells.append((duration(r.ms / 1e3), text, option_name(r.schedule)))
    keep = (0, 1, 2) if any(predicted.values()) else (0, 2)
    widths = [max(len(c[k]) for c in cells) for k in range(3)]
    lines = [_verdict(table, rows, operation, plain)]
    for c in cells:
        parts = [c[k] if k == 2 else f"{c[k]:>{widths[k]}}" for k in keep]
        lines.append("  ".join(parts).rstrip())
    more = len(rows) - len(shown)
    refused = [r for r in table.refused if r.operation == operation]
    if more:
        lines.append(f"and {more} more")
    if refused:
        lines.append(
            f"{len(refused)} refused: {option_name(refused[0].schedule)} ({refused[0].why})"
        )
    return lines


def _verdict(table: TuningTable, rows: list[Timing], operation: str, plain: Timing | None) -> str:
    """The winner and its gain.

    >>> from .orders import Column
    >>> from .schedule import as_schedule
    >>> best = as_schedule(Column(64))
    >>> rows = [Timing("blur", best, 2.0), Timing("blur", None, 3.0)]
    >>> _verdict(TuningTable(rows, {"blur": best}, 3.0, 2.0), rows, "blur", rows[1])
    'Column(64) is the fastest of 2 timed (program.tune): 1.50 × as fast as it was'
    """
    when = f", {table.when}" if table.when else ""
    winner = table.winners.get(operation)
    best = next((r for r in rows if winner is not None and r.schedule == winner), None)
    of = f"of {len(rows)} timed (program.tune{when})"
    if best is None:
        return f"as it was: nothing clearly faster {of}"
    if plain is None:
        return f"{option_name(winner)} is the fastest {of}"
    return (
        f"{option_name(winner)} is the fastest {of}: {plain.ms / best.ms:.2f} × as fast as it was"
    )


def _predicted(names: Names, node: Node, rows: list[Timing]) -> dict[Any, float | None]:
    asked = [r.schedule for r in rows if r.schedule is None or isinstance(r.schedule, Schedule)]
    return dict(seconds_predicted(names.program, node, names.known, asked))
