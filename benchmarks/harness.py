"""The stopwatch and the pen: interleaved timing, correctness, tables, JSON and a picture.

A *work* is one task on data of one size; building it gives a *case*: treadle's ways to do it (each
becomes a row), the peers' ways, the exact result in float64, and what a perfect program would have
to move or compute.  The ceiling is measured in the same rounds as the contenders: a copy of as many
bytes, or a loop of fused multiply-adds.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from statistics import quantiles
from time import perf_counter, process_time, sleep
from typing import Any

import numpy as np

Run = Callable[[], Any]
ROOT = Path(__file__).resolve().parent.parent

#: A sample lasts at least this long: shorter calls are repeated within it.
SAMPLE_SECONDS = 2e-3
#: Before a sample: the threads of the contender before stop waiting actively for more work.
PAUSE_SECONDS = 4e-3

#: A peer whose error is above this did not do the work: its time does not count.  A peer that is
#: only less accurate than treadle must be does count, and the notes say so.
WRONG = 1e-2

#: Set by `--one-core`: one thread for everybody, and processor time, which other programs on the
#: machine disturb less.  Such results are for finding out why, not for the record.
ONE_CORE = "BENCHMARKS_ONE_CORE"
clock = process_time if os.environ.get(ONE_CORE) else perf_counter


# --- what is measured ------------------------------------------------------------------------


@dataclass(frozen=True)
class Goal:
    """A target: `factor` times as fast as peers, a share of the ceiling, or at most a value.

    `against`: "best" (of all peers), "copy", "fma", "value", or how the names of the peers start.
    """

    against: str
    factor: float

    def __str__(self) -> str:
        match self.against:
            case "value":
                return f"≤ {self.factor:g}"
            case "best":
                return f"≥ {self.factor:g} × the best peer"
            case "copy" | "fma":
                return f"≥ {self.factor:.0%} of {self.against}"
        return f"≥ {self.factor:g} × {self.against}"


@dataclass
class Case:
    """One task with its data.  `ours` and `peers` map names to functions that do the whole work.

    `exact` gives the result in float64 (or integers); `bytes` and `flops` are what the work cannot
    do without; `ceiling` is "copy", "fma", "fma64" or "" (none is known).
    """

    ours: Mapping[str, Run]
    peers: Mapping[str, Run]
    exact: Callable[[], Any]
    bytes: float = 0.0
    flops: float = 0.0
    ceiling: str = "copy"
    goals: Sequence[Goal] = ()
    tolerance: float = 1e-5
    error: Callable[[Any, Any], float] | None = None


@dataclass(frozen=True)
class Work:
    """A task that can be built and measured: `build` makes its data, only when it runs."""

    name: str
    group: str
    build: Callable[[], Case]


@dataclass
class Timing:
    """Seconds a call: median, quartiles, least, and how many samples."""

    median: float
    low: float
    high: float
    least: float
    samples: int
    error: float | None = None
    first: float | None = None


@dataclass
class Row:
    """A line of the table."""

    work: str
    group: str
    treadle: Timing | None
    peers: dict[str, Timing]
    unit: str = "ms"
    ratio: float | None = None  # the best peer's time over treadle's
    best: str | None = None
    ceiling: str = ""
    of_ceiling: float | None = None
    gbytes: float | None = None  # per second
    gflops: float | None = None
    target: str = ""
    met: bool | None = None
    correct: bool | None = None
    note: str = ""
    reason: str = ""
    value: float | None = None  # for overheads: the number in `unit`


def relative_error(found: Any, exact: Any) -> float:
    """The largest difference over the largest exact value, over all arrays of a result."""
    if isinstance(exact, tuple | list):
        if len(found) != len(exact):
            return float("inf")
        return max(relative_error(f, e) for f, e in zip(found, exact, strict=True))
    got, want = np.asarray(found), np.asarray(exact)
    if got.shape != want.shape:
        return float("inf")
    if want.size == 0:
        return 0.0
    worst, scale = 0.0, 0.0
    step = 1 << 22  # in pieces, so that checking needs little memory
    flat_got, flat_want = got.reshape(-1), want.reshape(-1)
    for at in range(0, want.size, step):
        g = flat_got[at : at + step].astype(np.float64)
        w = flat_want[at : at + step].astype(np.float64)
        difference = np.max(np.abs(g - w))
        worst = max(worst, float(difference) if np.isfinite(difference) else float("inf"))
        scale = max(scale, float(np.max(np.abs(w))))
    return worst / scale if scale > 0 else worst


def mismatches(found: Any, exact: Any) -> float:
    """The share of elements that differ at all."""
    return float(np.mean(np.asarray(found) != np.asarray(exact)))


# --- timing ----------------------------------------------------------------------------------


Stopwatch = Callable[[str, Run, int], float]
"""Seconds a call of the contender `name`, over so many calls."""


def host_stopwatch(_: str, run: Run, calls: int) -> float:
    """By the host's clock."""
    sleep(PAUSE_SECONDS)
    if calls > 1:
        run()  # what another contender has pushed out of the caches comes back
    start = clock()
    for _ in range(calls):
        run()
    return (clock() - start) / calls


def interleave(
    runs: Mapping[str, Run], budget: float, most: int = 40, sample: Stopwatch = host_stopwatch
) -> dict[str, list[float]]:
    """Samples of every contender, taken in turns: what disturbs the machine disturbs all alike.

    Every contender gets about `budget` seconds, but two samples at least; they must be warm.
    """
    samples: dict[str, list[float]] = {}
    calls: dict[str, int] = {}
    wanted: dict[str, int] = {}
    for name, run in runs.items():
        once = sample(name, run, 1)
        for _ in range(2):  # the second and third call may still prepare those that follow
            if once <= 0.25:
                once = min(once, sample(name, run, 1))
        calls[name] = max(1, int(np.ceil(SAMPLE_SECONDS / max(once, 1e-9))))
        # A slow call is a good sample by itself; a quick one was only an estimate.
        samples[name] = [once] if once > 0.25 else []
        cost = once * (calls[name] + (calls[name] > 1))
        wanted[name] = int(min(most, max(2 if once > 0.25 else 5, budget / max(cost, 1e-9))))
    rounds = max(wanted.values(), default=0)
    order = list(runs)
    for r in range(rounds):
        for name in order[r % len(order) :] + order[: r % len(order)]:
            due = (r + 1) * wanted[name] // rounds
            if len(samples[name]) < due:
                samples[name].append(sample(name, runs[name], calls[name]))
    return samples


def timing(samples: Sequence[float]) -> Timing:
    """Median and spread."""
    ordered = sorted(samples)
    if len(ordered) == 1:
        return Timing(ordered[0], ordered[0], ordered[0], ordered[0], 1)
    low, median, high = quantiles(ordered, n=4, method="inclusive")
    return Timing(median, low, high, ordered[0], len(ordered))


@dataclass
class Ceilings:
    """The two ceilings as contenders of their own; see works/ceilings.py."""

    copy: Callable[[float], Run]  # bytes, read and written together -> a copy of as many
    fma: Callable[[], tuple[Run, float]] | None = None  # -> a loop and its operations
    fma64: Callable[[], tuple[Run, float]] | None = None

    def arithmetic(self, name: str) -> tuple[Run, float]:
        """The loop `fma` or `fma64`; ValueError on a machine where nobody measures it."""
        loop = {"fma": self.fma, "fma64": self.fma64}[name]
        if loop is None:
            raise ValueError(f"a work asks for the ceiling {name!r}, which is not measured here")
        return loop()


def measure(
    work: Work, ceilings: Ceilings, budget: float, sample: Stopwatch = host_stopwatch
) -> list[Row]:
    """All rows of a work: warmed, checked, then timed in turns."""
    case = work.build()
    exact = case.exact()
    error_of = case.error or relative_error
    firsts: dict[str, float] = {}
    errors: dict[str, float] = {}
    failures: dict[str, str] = {}
    runs: dict[str, Run] = {}
    ours = {f"treadle {label}".strip(): run for label, run in case.ours.items()}
    for name, run in {**ours, **case.peers}.items():
        try:
            start = perf_counter()
            result = run()
            firsts[name] = perf_counter() - start
            errors[name] = error_of(result, exact)
            del result
            runs[name] = run
        except Exception as error:  # one contender that fails does not end the others' race
            failures[name] = f"{type(error).__name__}: {str(error).strip().splitlines()[0][:160]}"
    del exact
    flops = case.flops
    if case.ceiling == "copy":
        runs["ceiling"], quantity = ceilings.copy(case.bytes), case.bytes
        runs["ceiling"]()
    elif case.ceiling in ("fma", "fma64"):
        runs["ceiling"], quantity = ceilings.arithmetic(case.ceiling)
        runs["ceiling"]()
    measured = {n: timing(s) for n, s in interleave(runs, budget, sample=sample).items()}
    top = measured.pop("ceiling", None)
    for name, found in measured.items():
        found.error, found.first = errors[name], firsts[name]
    peers = {n: measured[n] for n in case.peers if n in measured}
    right = {n: t for n, t in peers.items() if t.error is not None and t.error <= WRONG}
    rows = []
    for name, label in zip(ours, case.ours, strict=True):
        row = Row(
            f"{work.name}, {label}" if label else work.name,
            work.group,
            measured.get(name),
            peers,
            ceiling=case.ceiling,
        )
        notes = [f"{n} failed: {failures[n]}" for n in (name, *case.peers) if n in failures]
        notes += [
            f"{n} is off by {t.error:.1e}{'' if n in right else ' and does not count'}"
            for n, t in peers.items()
            if t.error is None or t.error > case.tolerance
        ]
        row.note = "; ".join(notes)
        row.target = "; ".join(str(g) for g in case.goals)
        if row.treadle is None:
            row.met = False if case.goals else None
            row.correct = False
            rows.append(row)
            continue
        seconds = row.treadle.median
        row.correct = row.treadle.error is not None and row.treadle.error <= case.tolerance
        row.gbytes = case.bytes / seconds / 1e9 if case.bytes else None
        row.gflops = flops / seconds / 1e9 if flops else None
        if top is not None and case.ceiling == "copy":
            row.of_ceiling = top.median / seconds
        elif top is not None:
            row.of_ceiling = (flops / seconds) / (quantity / top.least)
        if right:
            row.best = min(right, key=lambda n: right[n].median)
            row.ratio = right[row.best].median / seconds
        row.met = judge(case.goals, row, right) if case.goals else None
        rows.append(row)
    return rows


def judge(
    goals: Sequence[Goal], row: Row, peers: Mapping[str, Timing] | None = None
) -> bool | None:
    """Whether every goal is met, against `peers` (all of the row's); None when unmeasured."""
    peers = row.peers if peers is None else peers
    verdicts: list[bool] = []
    for goal in goals:
        if goal.against == "value":
            if row.value is not None:
                verdicts.append(row.value <= goal.factor)
        elif goal.against in ("copy", "fma"):
            if row.of_ceiling is not None:
                verdicts.append(row.of_ceiling >= goal.factor)
        elif row.treadle is not None:
            chosen = [
                t.median
                for n, t in peers.items()
                if goal.against == "best" or n.startswith(goal.against)
            ]
            if chosen:
                verdicts.append(min(chosen) / row.treadle.median >= goal.factor)
    if row.correct is False:
        return False
    return all(verdicts) if verdicts else None


# --- where it ran ----------------------------------------------------------------------------


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def processor() -> dict[str, Any]:
    """The processor: model, cores that this process may use, vector features, caches."""
    model = platform.processor() or platform.machine()
    for line in _read("/proc/cpuinfo").splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    about: dict[str, Any] = {"cpu": model, "machine": platform.machine()}
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    about["cores"] = cores
    try:
        import llvmlite.binding as llvm

        about["llvm_name"] = llvm.get_host_cpu_name()
        features = llvm.get_host_cpu_features()
        wanted = ("sse4.2", "avx", "avx2", "fma", "avx512f", "avx512bw", "avx512vl", "neon", "sve")
        about["features"] = [f for f in wanted if features.get(f)]
    except (ImportError, RuntimeError):
        pass
    caches = {}
    for index in range(5):
        base = f"/sys/devices/system/cpu/cpu0/cache/index{index}"
        kind, size = _read(f"{base}/type").strip(), _read(f"{base}/size").strip()
        if size and kind != "Instruction":
            caches[f"L{_read(f'{base}/level').strip()}"] = size
    about["caches"] = caches
    about["system"] = f"{platform.system()} {platform.release().split('-')[0]}"
    return about


CPU_PACKAGES = ("treadle", "numpy", "numba", "llvmlite", "scipy", "jax", "jaxlib")


def versions(packages: Sequence[str] = CPU_PACKAGES) -> dict[str, str]:
    """Python and every package that takes part."""
    found = {"python": platform.python_version()}
    for name in packages:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            if name == "treadle":
                import treadle

                found[name] = treadle.__version__
    return found


def commit() -> dict[str, Any]:
    """The git commit of the sources, and whether they were changed since."""

    def git(*args: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", *args], cwd=ROOT, capture_output=True, text=True, timeout=20, check=True
            )
        except (OSError, subprocess.SubprocessError):
            return None
        return done.stdout.strip()

    head = git("rev-parse", "HEAD")
    # Results are written by this very command: they do not make the sources dirty.
    changes = git("status", "--porcelain", "--", ".", ":!benchmarks/results")
    return {"commit": head, "dirty": None if changes is None else bool(changes)}


# --- writing it down -------------------------------------------------------------------------


def read_notes(path: Path) -> dict[str, str]:
    """Reasons by work: a paragraph under each `## name`; the longest name that fits a row wins.

    A heading of the first level ends the last of them.
    """
    notes: dict[str, str] = {}
    name = None
    for line in path.read_text().splitlines() if path.exists() else []:
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
    """Whether a peer's time does not count: it computed something else."""
    return peer.error is not None and not peer.error <= WRONG


def cells(row: Row) -> tuple[str, ...]:
    """A row as text: work, treadle, peers, ratio, of ceiling, target, met, error."""
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
    "work",
    "treadle ms",
    "peers ms, fastest first",
    "× best peer",
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


def describe(where: Mapping[str, Any]) -> str:
    """The device in a few words."""
    if "gpu" in where:
        return f"{where['gpu']}, driver {where['driver']}, CUDA {where['cuda']}"
    name = where.get("llvm_name", where["machine"])
    return f"{where['cpu']} ({name}), {where['cores']} cores, caches {where['caches']}"


def markdown(rows: Sequence[Row], about: Mapping[str, Any]) -> str:
    """The table for reading, and below it why rows miss their target."""
    lines = [
        f"# {about['title']}",
        "",
        f"{about['date']} · {describe(about['device'])} · "
        f"treadle {about['versions']['treadle']} at {str(about['commit'])[:12]}"
        f"{', with changes not committed' if about['dirty'] else ''}"
        f"{' · quick run: smaller data, fewer repetitions' if about['scale'] != 'full' else ''}",
        "",
        "Times are medians of interleaved repetitions, ± half the distance between the quartiles. "
        "“× best peer” is the best peer's time over treadle's: above 1, treadle is faster. The "
        "ceiling is a copy of the bytes that the work must move (or a loop of fused "
        "multiply-adds), timed in the same rounds. The error is the largest difference from a "
        "float64 computation, over the largest value.",
    ]
    group = ""
    for row in rows:
        if row.group != group:
            group = row.group
            lines += [
                "",
                f"## {group}",
                "",
                "| " + " | ".join(HEADS) + " |",
                "|" + " --- |" * len(HEADS),
            ]
        lines.append("| " + " | ".join(c.replace("|", r"\|") for c in cells(row)) + " |")
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
    """A bar per row: how many times as fast as the best peer."""
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
    axes.set_xlabel("times as fast as the best peer (named at the bar)")
    axes.set_title(title, fontsize=9)
    low, high = axes.get_xlim()
    axes.set_xlim(low, high * 3)  # room for the labels
    handles = [patches.Patch(color=colours[g]) for g in groups]
    figure.legend(handles, groups, fontsize=7, loc="outside lower center", ncols=3)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


@dataclass
class Report:
    """Everything a run found.  `device` and `packages` say where it ran."""

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
        path.parent.mkdir(parents=True, exist_ok=True)
        about = self.about()
        text = json.dumps(
            {**about, "rows": [asdict(r) for r in self.rows]}, indent=1, ensure_ascii=False
        )
        path.write_text(text + "\n")
        path.with_suffix(".md").write_text(markdown(self.rows, about))
        written = [path, path.with_suffix(".md")]
        try:
            picture = path.with_suffix(".png")
            title = f"{self.title}: {describe(about['device'])}, {self.date}"
            plot(self.rows, picture, title)
            written.append(picture)
        except ImportError:
            pass
        return written
