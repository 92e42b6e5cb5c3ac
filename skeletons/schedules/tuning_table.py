"""What a tuning found: its timings, the winners, and how to do with fewer of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .schedule import Schedule, as_schedule
from .serial import from_dict, to_dict


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


# --- fewer kernels ---------------------------------------------------------------------------


def fewest(
    times: Mapping[str, Mapping[Schedule | None, float]], keep: int | None, tolerance: float
) -> dict[str, Schedule | None]:
    """For every test point one schedule, with few different ones in all.

    A schedule is acceptable at a point when it is among its `keep` best and at most `tolerance`
    of the best performance is lost (time ≤ best / (1 − tolerance)); the schedule acceptable at
    most points goes first, then the one for most of the rest, and so on.

    >>> from treadle.skeletons.schedules import Column, Row
    >>> a, b = (as_schedule(s) for s in (Row(), Column(64)))
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


def reduced(table: TuningTable, keep: int | None, tolerance: float) -> dict[str, Schedule]:
    """The winners of a table, with as few different schedules as `fewest` allows."""
    times: dict[str, dict[Schedule | None, float]] = {}
    for row in table.rows:
        times.setdefault(row.operation, {})[row.schedule] = row.ms
    return {op: s for op, s in fewest(times, keep, tolerance).items() if s is not None}
