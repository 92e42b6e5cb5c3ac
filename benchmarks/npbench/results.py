"""What was measured: one record per program and framework, and the files that hold them."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from math import exp, log
from pathlib import Path
from typing import Any

from benchmarks.provenance import commit


@dataclass
class Version:
    """One version of a program on one framework, in seconds."""

    version: str
    first: float | None = None
    median: float | None = None
    low: float | None = None
    high: float | None = None
    least: float | None = None
    samples: int = 0
    right: bool | None = None
    error: float | None = None
    status: str = "ok"  # "failed"
    message: str = ""

    @property
    def counts(self) -> bool:
        """Whether its time is that of a result that is not wrong."""
        return self.median is not None and self.right is not False


@dataclass
class Entry:
    """One program on one framework."""

    program: str
    framework: str
    status: str = "ok"  # "failed", "wrong", "timeout", "skipped", "missing"
    message: str = ""
    versions: list[Version] = field(default_factory=list)

    @property
    def best(self) -> Version | None:
        """The fastest version with a right result."""
        right = [v for v in self.versions if v.counts]
        return min(right, key=lambda v: v.median or 0.0) if right else None

    @property
    def seconds(self) -> float | None:
        return None if self.best is None else self.best.median

    def close(self) -> None:
        """Say in `status` what became of it, unless that is said already."""
        if self.best is not None:
            self.status = "ok"
        elif self.status == "ok" and self.versions:
            wrong = [v for v in self.versions if v.right is False]
            self.status = "wrong" if wrong else "failed"
            self.message = self.message or next((v.message for v in self.versions if v.message), "")


@dataclass
class Run:
    """All results of a command."""

    preset: str
    frameworks: list[str]
    npbench: str
    seconds: float = 0.0
    devices: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)
    date: str = field(default_factory=lambda: datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"))
    source: dict[str, Any] = field(default_factory=commit)
    #: How many programs were measured at a time, each on its part of the cores and its own GPU.
    parts: int = 1

    def write(self, path: Path) -> None:
        """To a file that is whole at any time."""
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(asdict(self), indent=1, ensure_ascii=False)
        partial = path.with_suffix(".partial")
        partial.write_text(text + "\n", encoding="utf-8")
        os.replace(partial, path)

    def find(self, program: str, framework: str) -> Entry | None:
        for entry in self.entries:
            if (entry.program, entry.framework) == (program, framework):
                return entry
        return None

    def seconds_of(self, program: str, framework: str) -> float | None:
        entry = self.find(program, framework)
        return None if entry is None else entry.seconds

    def programs(self) -> list[str]:
        return list(dict.fromkeys(e.program for e in self.entries))

    def complete(self) -> set[str]:
        """The programs that were tried on every framework."""
        tried = {(e.program, e.framework) for e in self.entries if e.status != "skipped"}
        return {n for n in self.programs() if all((n, f) in tried for f in self.frameworks)}

    def ratios(self, ours: str, peers: Sequence[str]) -> dict[str, tuple[float, str]]:
        """By program: the time of the fastest of the peers over ours, and that peer."""
        found = {}
        for program in self.programs():
            mine = self.seconds_of(program, ours)
            times = {p: t for p in peers if (t := self.seconds_of(program, p)) is not None}
            if mine is not None and times:
                best = min(times, key=lambda p: times[p])
                found[program] = (times[best] / mine, best)
        return found


def read(path: Path) -> Run:
    """The results that `Run.write` wrote."""
    data = json.loads(path.read_text(encoding="utf-8"))
    data["entries"] = [
        Entry(**{**e, "versions": [Version(**v) for v in e["versions"]]}) for e in data["entries"]
    ]
    return Run(**data)


def geometric_mean(values: Sequence[float]) -> float:
    return exp(sum(log(v) for v in values) / len(values))
