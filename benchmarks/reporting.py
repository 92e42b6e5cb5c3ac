"""Writes a run as a table on the screen, a page, JSON and a picture; reasons come from notes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks.harness import WRONG, Row, Timing
from benchmarks.provenance import (
    CPU_PACKAGES,
    commit,
    describe,
    heading,
    markdown_table,
    processor,
    versions,
    write_results,
)


def read_notes(path: Path) -> dict[str, str]:
    """Reasons by workload: the paragraph under each `## name`; the longest matching name wins.

    A heading of the first level ends the reasons.
    """
    notes: dict[str, str] = {}
    name = None
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        if line.startswith("# "):
            name = None
        elif line.startswith("## "):
            name = line[3:].strip()
            notes[name] = ""
        elif name is not None:
            notes[name] = f"{notes[name]} {line.strip()}".strip()
    return notes


def give_reasons(rows: Sequence[Row], notes: Mapping[str, str]) -> None:
    """Fill `reason` of the rows that miss their target, from the notes."""
    for row in rows:
        if row.met is False:
            fitting = [n for n in notes if row.work.startswith(n)]
            row.reason = notes[max(fitting, key=len)] if fitting else ""


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.3g}" if seconds < 1 else f"{seconds * 1e3:.0f}"


def _is_wrong(peer: Timing) -> bool:
    """Whether a peer's time does not count, because its result is wrong."""
    return peer.error is not None and not peer.error <= WRONG


def cells(row: Row) -> tuple[str, ...]:
    """A row as text: workload, treadle, peers, ratio, of ceiling, target, met, error."""
    if row.unit != "ms" or row.value is not None:
        mine = "failed" if row.value is None else f"{row.value:.3g} {row.unit}"
    else:
        mine = "failed" if row.treadle is None else _time(row.treadle.median)
        if row.treadle is not None and row.treadle.samples > 1:
            half = (row.treadle.high - row.treadle.low) / 2 / row.treadle.median
            mine += f" ±{half:.0%}"
    scale = {"ms": 1e3, "µs": 1e6, "s": 1.0}.get(row.unit, 1e3)
    ordered = sorted(row.peers.items(), key=lambda item: item[1].median)
    right = ", ".join(f"{n} {t.median * scale:.3g}" for n, t in ordered if not _is_wrong(t))
    wrong = ", ".join(f"{n} {t.median * scale:.3g}" for n, t in ordered if _is_wrong(t))
    peers = right + (f"; wrong: {wrong}" if wrong else "")
    of = "" if row.of_ceiling is None else f"{row.of_ceiling:.0%} of {row.ceiling}"
    error = row.treadle.error if row.treadle is not None else None
    return (
        row.work,
        mine,
        peers,
        "" if row.ratio is None else f"{row.ratio:.2f}",
        of,
        row.target,
        "" if row.met is None else "yes" if row.met else "no",
        ("" if error is None else f"{error:.1e}") + (" WRONG" if row.correct is False else ""),
    )


HEADS = (
    "workload",
    "treadle ms",
    "peers ms, fastest first",
    "speedup",
    "of the ceiling",
    "target",
    "met",
    "error",
)


def print_table(rows: Sequence[Row]) -> None:
    """The table on the screen."""
    from rich.console import Console
    from rich.table import Table

    table = Table(show_lines=False, header_style="bold")
    for k, head in enumerate(HEADS):
        table.add_column(head, justify="left" if k in (0, 2, 4, 5) else "right")
    group = ""
    for row in rows:
        if row.group != group:
            group = row.group
            table.add_section()
            table.add_row(f"[bold]{group}[/bold]")
        style = {True: "green", False: "red", None: ""}[row.met]
        parts = list(cells(row))
        parts[6] = f"[{style}]{parts[6]}[/{style}]" if style and parts[6] else parts[6]
        table.add_row(*parts)
    console = Console(width=None if sys.stdout.isatty() else 190)
    console.print(table)
    for row in rows:
        if row.note:
            console.print(f"  {row.work}: {row.note}", highlight=False, markup=False)


def markdown(rows: Sequence[Row], about: Mapping[str, Any]) -> str:
    """The table in Markdown, and below it why rows miss their target."""
    quick = " · quick run: smaller data, fewer repetitions" if about["scale"] != "full" else ""
    *title, source = heading(about)
    lines = [
        *title,
        source + quick,
        "",
        "Times are medians of interleaved repetitions, ± half the interquartile range. The speedup "
        "is over the fastest peer: above 1, treadle is faster. The ceiling is a copy of the bytes "
        "that the workload must move (or a loop of fused multiply-adds), timed in the same rounds. "
        "The error is the largest difference from a float64 computation, relative to the largest "
        "value.",
    ]
    for group, several in groupby(rows, lambda row: row.group):
        table = [[c.replace("|", r"\|") for c in cells(row)] for row in several]
        lines += ["", f"## {group}", "", *markdown_table(HEADS, table, None)]
    missed = [r for r in rows if r.met is False]
    if missed:
        lines += ["", "## Below target", ""]
        lines += [f"- **{r.work}**: {r.reason or 'not yet explained.'}" for r in missed]
    noted = [r for r in rows if r.note]
    if noted:
        lines += ["", "## Notes", ""]
        lines += [f"- {r.work}: {r.note}" for r in noted]
    return "\n".join(lines) + "\n"


def plot(rows: Sequence[Row], path: Path, title: str) -> None:
    """A bar per row: the speedup over the fastest peer."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import patches, pyplot

    shown = [r for r in rows if r.ratio is not None and r.value is None]
    if not shown:
        return
    figure, axes = pyplot.subplots(figsize=(9, 1.2 + 0.27 * len(shown)), layout="constrained")
    groups = list(dict.fromkeys(r.group for r in shown))
    colours = {g: f"C{k}" for k, g in enumerate(groups)}
    for y, row in enumerate(shown):
        ratio = row.ratio or 0.0
        axes.barh(y, ratio - 1, left=1, color=colours[row.group], height=0.72)
        axes.text(max(ratio, 1) * 1.04, y, f"{ratio:.2f}× {row.best}", va="center", fontsize=7)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_yticks(range(len(shown)), [r.work for r in shown], fontsize=7)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_xlabel("speedup over the fastest peer (named at the bar)")
    axes.set_title(title, fontsize=9)
    low, high = axes.get_xlim()
    axes.set_xlim(low, high * 3)  # room for the labels
    handles = [patches.Patch(color=colours[g]) for g in groups]
    figure.legend(handles, groups, fontsize=7, loc="outside lower center", ncols=3)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


@dataclass
class Report:
    """The results of a run.  `device` and `packages` describe where it ran."""

    scale: str
    title: str = "treadle on the CPU"
    device: Callable[[], dict[str, Any]] = processor
    packages: Sequence[str] = CPU_PACKAGES
    rows: list[Row] = field(default_factory=list)
    ceilings: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    date: str = field(default_factory=lambda: datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"))

    def about(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "date": self.date,
            "scale": self.scale,
            "device": self.device(),
            "versions": versions(self.packages),
            **commit(),
            "ceilings": self.ceilings,
            "seconds": round(self.seconds, 1),
        }

    def write(self, path: Path) -> list[Path]:
        """JSON at `path`, and the table and the picture beside it."""
        about = self.about()
        data = {**about, "rows": [asdict(r) for r in self.rows]}
        write_results(path, markdown(self.rows, about), data)
        written = [path, path.with_suffix(".md")]
        try:
            picture = path.with_suffix(".png")
            title = f"{self.title}: {describe(about['device'])}, {self.date}"
            plot(self.rows, picture, title)
            written.append(picture)
        except ImportError:
            pass
        return written
