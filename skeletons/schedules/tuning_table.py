"""What a tuning found: its timings, the winners, and how to do with fewer of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from treadle.dsl.quantities import duration

from .schedule import Schedule, as_schedule
from .serial import from_dict, to_dict

#: Sets of schedules that are tried for a smaller one.
_SETS = 20_000


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

    def plot(self, axes: Any = None) -> Any:
        """Draws all timings as bars, fastest first, the winners marked (matplotlib); returns the
        axes. See ``td.simulator.plot_tuning``."""
        from treadle.skeletons.simulator.diagrams import plot_tuning

        return plot_tuning(self, axes)

    def __str__(self) -> str:
        if not self.rows and not self.complete:
            return "nothing was timed: it ended before the first candidate could run\n"
        if not self.rows:
            return (
                "nothing to tune: what is tried are generates, maps and stencils over two axes or "
                "more that are kernels of their own (folds, scans, permutes and products keep "
                "their schedules)\n"
            )
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
        gain = f"{duration(self.before / 1e3)} before, {duration(self.after / 1e3)} after"
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
    """For every test point one schedule, with as few different ones in all as there can be.

    A schedule is acceptable at a point when it is among its `keep` best and at most `tolerance`
    of the best performance is lost (time ≤ best / (1 − tolerance)).  The schedules acceptable at
    most points come first (Abdelfattah et al. 2019, section V); fewer are looked for as long as
    there are not too many sets of them.  Of the sets that are as small, the one that loses least.

    >>> from treadle.skeletons.schedules import Column, Row
    >>> a, b = (as_schedule(s) for s in (Row(), Column(64)))
    >>> fewest({"x": {a: 1.0, b: 1.1}, "y": {a: 2.0, b: 1.0}}, 10, 0.15) == {"x": b, "y": b}
    True
    """
    acceptable: dict[str, dict[Schedule | None, float]] = {}
    for point, found in times.items():
        ranked = sorted(found.items(), key=lambda item: item[1])[:keep]
        limit = ranked[0][1] / (1 - tolerance)
        acceptable[point] = {s: ms / ranked[0][1] for s, ms in ranked if ms <= limit}
    if not acceptable:
        return {}
    chosen = _fewer(acceptable, _most_frequent(acceptable))
    return {p: min((s for s in chosen if s in a), key=a.__getitem__)
            for p, a in acceptable.items()}  # fmt: skip


#: Loss by schedule, at every test point: only what is acceptable there.
_Acceptable = Mapping[str, Mapping[Schedule | None, float]]


def _most_frequent(acceptable: _Acceptable) -> list[Schedule | None]:
    """The schedule acceptable at most points, then the one at most of the rest, and so on."""
    chosen: list[Schedule | None] = []
    left = list(acceptable)
    while left:
        score: dict[Schedule | None, tuple[int, float]] = {}
        for p in left:
            for s, loss in acceptable[p].items():
                count, total = score.get(s, (0, 0.0))
                score[s] = (count - 1, total + loss)
        chosen.append(min(score, key=lambda s: score[s]))
        left = [p for p in left if chosen[-1] not in acceptable[p]]
    return chosen


def _fewer(acceptable: _Acceptable, known: list[Schedule | None]) -> list[Schedule | None]:
    """A smallest set that has something acceptable for every point; `known` is one."""
    everything = list(dict.fromkeys(s for a in acceptable.values() for s in a))
    for count in range(1, len(known) + 1):
        if math.comb(len(everything), count) > _SETS:
            return known
        sets = [
            (sum(min(a[s] for s in some if s in a) for a in acceptable.values()), n, some)
            for n, some in enumerate(itertools.combinations(everything, count))
            if all(any(s in a for s in some) for a in acceptable.values())
        ]
        if sets:
            return list(min(sets)[2])
    return known


def reduced(table: TuningTable, keep: int | None, tolerance: float) -> dict[str, Schedule]:
    """The winners of a table, with as few different schedules as `fewest` allows."""
    times: dict[str, dict[Schedule | None, float]] = {}
    for row in table.rows:
        times.setdefault(row.operation, {})[row.schedule] = row.ms
    return {op: s for op, s in fewest(times, keep, tolerance).items() if s is not None}


@dataclass(frozen=True)
class Reduction:
    """What a tolerance buys: `schedules` different ones serve all test points instead of `before`;
    `worst` and `mean` are the parts of the best performance lost at the worst point and on average.
    `chosen`: the schedule of every point."""

    tolerance: float
    schedules: int
    before: int
    worst: float
    mean: float
    chosen: Mapping[str, Schedule | None]

    @property
    def reduction(self) -> float:
        """How many of the schedules needed without a tolerance are saved, as a part."""
        return 1 - self.schedules / self.before if self.before else 0.0


class Family:
    """The report on a family of kernels: how many schedules it needs, by tolerance; prints as a
    table (Abdelfattah et al. 2019, table I).

    `tables`: what `tune` found, by the name of the test point (a size, usually): every operation
    of every table is a point.
    """

    def __init__(self, tables: Mapping[str, TuningTable], keep: int = 10,
                 tolerances: Sequence[float] = (0.0, 0.05, 0.10, 0.15)) -> None:  # fmt: skip
        self.times: dict[str, dict[Schedule | None, float]] = {}
        for name, table in tables.items():
            several = len({row.operation for row in table.rows}) > 1
            for row in table.rows:
                point = f"{name} {row.operation}" if several else name
                self.times.setdefault(point, {})[row.schedule] = row.ms
        self.keep = keep
        self.rows = [self._reduced(t) for t in tolerances]

    def _reduced(self, tolerance: float) -> Reduction:
        chosen = fewest(self.times, self.keep, tolerance)
        best = {p: min(found.values()) for p, found in self.times.items()}
        losses = [1 - best[p] / self.times[p][s] for p, s in chosen.items()]
        before = len(set(fewest(self.times, self.keep, 0.0).values()))
        return Reduction(tolerance, len(set(chosen.values())), before, max(losses, default=0.0),
                         sum(losses) / max(len(losses), 1), chosen)  # fmt: skip

    def __str__(self) -> str:
        cells = [("tolerance", "schedules", "saved", "worst loss", "mean loss")]
        for r in self.rows:
            cells.append((f"{r.tolerance:.0%}", str(r.schedules), f"{r.reduction:.0%}",
                          f"{r.worst:.1%}", f"{r.mean:.1%}"))  # fmt: skip
        widths = [max(len(c[k]) for c in cells) for k in range(len(cells[0]))]
        lines = ["  ".join(f"{c:>{w}}" for c, w in zip(row, widths, strict=True)) for row in cells]
        points = len(self.times)
        return "\n".join([f"{points} test points, the {self.keep} best of each", *lines]) + "\n"

    __repr__ = __str__
