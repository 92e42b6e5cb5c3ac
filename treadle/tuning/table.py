"""Tuning results: timings, winners, and reduction to fewer schedules."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from treadle.dsl.html import escape, preformatted, table
from treadle.dsl.operations.algebra.product_way import ProductWay
from treadle.dsl.text import duration
from treadle.skeletons.schedules.layers import is_built_in
from treadle.skeletons.schedules.schedule import Schedule, as_schedule, shown
from treadle.skeletons.schedules.serial import from_dict, to_dict
from treadle.skeletons.simulator.diagrams import plot_tuning

from .candidates import Option

#: The most sets of schedules tried in the search for a smaller one.
_SETS = 20_000


@dataclass(frozen=True)
class Timing:
    """One measurement: the time of the entire program with `operation` under `schedule`, or
    computed by a `ProductWay` (None: unchanged)."""

    operation: str
    schedule: Option
    ms: float

    @property
    def option(self) -> str:
        """The name of the candidate in a table."""
        return option_name(self.schedule)


@dataclass(frozen=True)
class Refusal:
    """A rejected candidate, and why; `differs`: it gave a different result."""

    operation: str
    schedule: Option
    why: str
    differs: bool = False


class TuningTable:
    """All timings of a tuning, and the winners; prints as a table.

    `rows`: `Timing`s; `refused`: `Refusal`s; `winners`: schedules by operation, and `ProductWay`s
    by product; `before` and `after`: milliseconds of the entire program; `best`: code to paste;
    `notes`: what was not tried, and why; `complete`: nothing was omitted for lack of `budget`;
    `runs` of the program took `seconds` in total; `when` it was measured; `stored`: by an earlier
    call.
    """

    def __init__(self, rows: Sequence[Timing], winners: Mapping[str, Any], before: float,
                 after: float, complete: bool = True, stored: bool = False, *,
                 refused: Sequence[Refusal] = (), notes: Sequence[str] = (),
                 budget: float = math.inf, runs: int = 0, seconds: float = 0.0, when: str = ""
                 ) -> None:  # fmt: skip
        self.rows, self.winners = list(rows), dict(winners)
        self.refused, self.notes = list(refused), list(notes)
        self.before, self.after = before, after
        self.complete, self.stored = complete, stored
        self.budget, self.runs, self.seconds, self.when = budget, runs, seconds, when

    @property
    def best(self) -> str:
        """Code that sets these schedules, followed by comments for products."""
        given = {k: _code(s) for k, s in self.winners.items() if not isinstance(s, ProductWay)}
        named = [f"{k}={code}" for k, code in given.items() if k.isidentifier()]
        others = [f'"{k}": {code}' for k, code in given.items() if not k.isidentifier()]
        if others:
            named.append(f"**{{{', '.join(others)}}}")
        products = [f"\n# {k}: {s!r}" for k, s in self.winners.items() if isinstance(s, ProductWay)]
        return f"program.scheduled({', '.join(named)})" + "".join(products)

    def of(self, operation: str) -> list[Timing]:
        """The timings of one operation, fastest first."""
        return sorted((r for r in self.rows if r.operation == operation), key=lambda r: r.ms)

    def plot(self, ax: Any = None) -> Any:
        """Draw all timings as bars, fastest first, with winners marked (matplotlib); returns the
        axes.  See ``td.simulator.plot_tuning``."""
        return plot_tuning(self, ax)

    def __str__(self) -> str:
        if not self.rows and not self.complete:
            return "nothing was timed: it ended before the first candidate could run\n"
        if not self.rows and not self.refused:
            nothing = "nothing to tune: no kernel has another schedule that would change it"
            took = [] if math.isnan(self.before) else [f"{duration(self.before / 1e3)} as it is"]
            return "\n".join([nothing, *self.notes, *took]) + "\n"
        cells = [("operation", "schedule", "ms", "")]
        for operation in dict.fromkeys(row.operation for row in self.rows):
            for row in self.of(operation):
                winner = self.winners.get(operation) == row.schedule
                cells.append((operation, option_name(row.schedule), f"{row.ms:.3f}",
                              "best" if winner else ""))  # fmt: skip
        widths = [max(len(c[k]) for c in cells) for k in range(4)]
        lines = [
            f"{a:<{widths[0]}}  {b:<{widths[1]}}  {c:>{widths[2]}}  {d}".rstrip()
            for a, b, c, d in cells
        ]
        for r in self.refused:
            lines.append(f"{r.operation}  {option_name(r.schedule)}  refused: {r.why}")
        lines += self.notes
        gain = f"{duration(self.before / 1e3)} before, {duration(self.after / 1e3)} after"
        if self.runs:
            gain += f"; {self.runs:,} runs in {duration(self.seconds)}, {self.when}"
        origin = " (remembered)" if self.stored else "" if self.complete else " (stopped early)"
        return "\n".join([*lines, "", gain + origin, self.best]) + "\n"

    __repr__ = __str__

    def _repr_html_(self) -> str | None:
        """The timings with bars, which notebooks show, and the code to paste."""
        if not self.rows:
            return None
        longest = max(r.ms for r in self.rows)
        cells = []
        for operation in dict.fromkeys(row.operation for row in self.rows):
            for r in self.of(operation):
                won = self.winners.get(operation) == r.schedule
                bar = (f'<div style="width:{round(160 * r.ms / longest)}px;height:0.7em;'
                       f'background:{"#2f6fb3" if won else "#b8bcc8"}"></div>')  # fmt: skip
                name = escape(option_name(r.schedule))
                cells.append((escape(operation), f"<b>{name}</b>" if won else name,
                              f"{r.ms:.3f}", bar))  # fmt: skip
        *_, rest = str(self).rpartition("\n\n")
        shown = table(cells, ("operation", "schedule", "ms", ""))
        return shown + preformatted("\n".join([*self.notes, rest.rstrip()]))

    def to_dict(self) -> dict[str, Any]:
        """The table as plain data, for storage."""
        return {
            "rows": [[r.operation, _stored(r.schedule), r.ms] for r in self.rows],
            "refused": [[r.operation, _stored(r.schedule), r.why, r.differs] for r in self.refused],
            "notes": self.notes,
            "winners": {k: _stored(s) for k, s in self.winners.items()},
            "before": self.before,
            "after": self.after,
            "complete": self.complete,
            "budget": min(self.budget, sys.float_info.max),
            "runs": self.runs,
            "seconds": self.seconds,
            "when": self.when,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TuningTable:
        """The inverse of `to_dict`; ValueError, KeyError or TypeError for malformed data."""
        rows = [Timing(str(o), _restored(s), _time(ms)) for o, s, ms in data["rows"]]
        refused = [Refusal(str(o), _restored(s), str(why), bool(differs))
                   for o, s, why, differs in data["refused"]]  # fmt: skip
        winners = {str(k): _restored(s) for k, s in data["winners"].items()}
        return cls(rows, winners, _time(data["before"]), _time(data["after"]),
                   bool(data["complete"]), True, refused=refused,
                   notes=[str(n) for n in data["notes"]], budget=_time(data["budget"]),
                   runs=int(data["runs"]), seconds=_time(data["seconds"]),
                   when=str(data["when"]))  # fmt: skip


def option_name(option: Option) -> str:
    """The name of a candidate in a table."""
    if isinstance(option, ProductWay):
        return option.words()
    return "as it was" if option is None else shown(option)


def _stored(option: Option) -> Any:
    if isinstance(option, ProductWay):
        return {"product": option.to_dict()}
    return None if option is None else to_dict(option)


def _restored(data: Any) -> Option:
    if data is None:
        return None
    return ProductWay.from_dict(data["product"]) if "product" in data else from_dict(data)


def _time(value: Any) -> float:
    """A time as a float; ValueError unless it is finite and non-negative."""
    found = float(value)
    if not (math.isfinite(found) and found >= 0):
        raise ValueError(f"no time: {value!r}")
    return found


def _code(schedule: Schedule) -> str:
    """The schedule as code after `import treadle as td` (user-defined orders by their repr)."""
    return " | ".join(
        f"td.schedule.{layer!r}" if is_built_in(type(layer)) else repr(layer)
        for layer in as_schedule(schedule).layers
    )


# --- fewer kernels ---------------------------------------------------------------------------


def fewest(
    times: Mapping[str, Mapping[Option, float]], keep: int | None, tolerance: float
) -> dict[str, Option]:
    """One schedule per test point, with as few different schedules as possible.

    A schedule is acceptable at a point if it is among its `keep` best and loses at most `tolerance`
    of the best performance (time ≤ best / (1 − tolerance)).  Schedules acceptable at most points
    are chosen first (Abdelfattah et al. 2019, section V); smaller sets are searched unless there
    are too many of them.  Of the smallest sets, the one with the least loss is taken.

    >>> from treadle.skeletons.schedules import Column, Row
    >>> a, b = (as_schedule(s) for s in (Row(), Column(64)))
    >>> fewest({"x": {a: 1.0, b: 1.1}, "y": {a: 2.0, b: 1.0}}, 10, 0.15) == {"x": b, "y": b}
    True
    """
    acceptable: dict[str, dict[Option, float]] = {}
    for point, found in times.items():
        ranked = sorted(found.items(), key=lambda item: item[1])[:keep]
        limit = ranked[0][1] / (1 - tolerance)
        acceptable[point] = {s: ms / ranked[0][1] for s, ms in ranked if ms <= limit}
    if not acceptable:
        return {}
    chosen = _fewer(acceptable, _most_frequent(acceptable))
    return {p: min((s for s in chosen if s in a), key=a.__getitem__) for p, a in acceptable.items()}


#: The loss of each acceptable schedule, per test point.
_Acceptable = Mapping[str, Mapping[Option, float]]


def _most_frequent(acceptable: _Acceptable) -> list[Option]:
    """Greedily: the schedule acceptable at most points, then at most of the remaining ones."""
    chosen: list[Option] = []
    left = list(acceptable)
    while left:
        score: dict[Option, tuple[int, float]] = {}
        for p in left:
            for s, loss in acceptable[p].items():
                count, total = score.get(s, (0, 0.0))
                score[s] = (count - 1, total + loss)
        chosen.append(min(score, key=lambda s: score[s]))
        left = [p for p in left if chosen[-1] not in acceptable[p]]
    return chosen


def _fewer(acceptable: _Acceptable, known: list[Option]) -> list[Option]:
    """A smallest set with an acceptable schedule for every point; `known` is such a set."""
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


def reduced(table: TuningTable, keep: int | None, tolerance: float) -> dict[str, Any]:
    """The winners of a table, with as few different schedules as `fewest` permits."""
    times: dict[str, dict[Option, float]] = {}
    for row in table.rows:
        times.setdefault(row.operation, {})[row.schedule] = row.ms
    return {op: s for op, s in fewest(times, keep, tolerance).items() if s is not None}
