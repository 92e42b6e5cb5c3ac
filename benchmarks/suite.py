"""What `benchmarks.cpu` and `benchmarks.gpu` share: options, and a run from workloads to files."""

from __future__ import annotations

import argparse
import contextlib
import gc
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from time import perf_counter
from types import ModuleType

from benchmarks import harness, provenance, reporting
from benchmarks.works.common import Scale

Wanted = Callable[..., bool]


def parser(command: str, doc: str | None) -> argparse.ArgumentParser:
    """The options of both commands."""
    made = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{command}", description=(doc or "").partition("\n")[0]
    )
    add = made.add_argument
    add("--quick", action="store_true", help="smaller data, fewer repetitions")
    add("--tiny", action="store_true", help="tiny data: checks every result, times mean nothing")
    add("--only", action="append", default=[], metavar="NAME",
        help="only workloads whose name or group contains NAME (may be repeated)")  # fmt: skip
    add("--out", type=Path, metavar="FILE.json",
        help=f"the results (default: benchmarks/results/{command}-<date>.json)")  # fmt: skip
    add("--list", action="store_true", help="list the workloads and stop")
    return made


def scale_of(options: argparse.Namespace, backend: str) -> Scale:
    return Scale("tiny" if options.tiny else "quick" if options.quick else "full", backend)


def wanted(options: argparse.Namespace) -> Wanted:
    """Whether one of these names is wanted."""
    parts = [name.lower() for name in options.only]
    return lambda *names: not parts or any(p in n.lower() for p in parts for n in names)


def chosen(
    modules: Sequence[ModuleType], scale: Scale, options: argparse.Namespace
) -> list[harness.Work]:
    """The workloads of these modules that are wanted."""
    is_wanted = wanted(options)
    works = [work for module in modules for work in module.works(scale)]
    return [work for work in works if is_wanted(work.name, work.group)]


def listed(works: Iterable[harness.Work]) -> int:
    print("\n".join(f"{w.group}: {w.name}" for w in works))
    return 0


def one_line(row: harness.Row) -> str:
    work, mine, peers, ratio, of, _, met, error = reporting.cells(row)
    parts = [
        f"{work}: treadle {mine}",
        peers and f"({peers})",
        ratio and f"× {ratio}",
        of,
        error and f"error {error}",
        met and f"target met: {met}",
        row.note,
    ]
    return "  ".join(p for p in parts if p)


def guarded(
    work: harness.Work,
    top: harness.Ceilings,
    budget: float,
    sample: harness.Stopwatch = harness.host_stopwatch,
) -> list[harness.Row]:
    """The rows of a workload; one failed row if its data could not be made."""
    try:
        return harness.measure(work, top, budget, sample)
    except Exception as error:
        message = (str(error).strip().splitlines() or [""])[0][:200]
        note = f"{type(error).__name__}: {message}"
        return [harness.Row(work.name, work.group, None, {}, correct=False, met=False, note=note)]


def run(
    options: argparse.Namespace,
    report: reporting.Report,
    works: Iterable[harness.Work],
    measure: Callable[[harness.Work], list[harness.Row]],
    overheads: Callable[[], Iterable[harness.Row]],
    kind: str,
    partial: bool = False,
) -> int:
    """Measure everything, print it, and write it; the exit status: 1 if a result is wrong or a
    workload failed.  `partial`: not for the record, whatever the other options say."""
    started = perf_counter()

    def keep(rows: Iterable[harness.Row]) -> None:
        for row in rows:
            report.rows.append(row)
            print(one_line(row), flush=True)

    for work in works:
        gc.collect()
        with contextlib.suppress(KeyboardInterrupt):
            keep(measure(work))
            continue
        print("interrupted: writing the results so far", file=sys.stderr)
        break
    else:
        keep(overheads())
    notes = Path(__file__).with_name(f"NOTES-{kind}.md")
    reporting.give_reasons(report.rows, reporting.read_notes(notes))
    report.seconds = perf_counter() - started
    print()
    reporting.print_table(report.rows)
    met = [r.met for r in report.rows if r.met is not None]
    wrong = [r.work for r in report.rows if r.correct is False]
    print(f"{sum(met)} of {len(met)} targets met; {report.seconds:.0f} s")
    if wrong:
        print("WRONG or failed: " + "; ".join(wrong), file=sys.stderr)
    if not options.tiny or options.out is not None:
        partial = partial or report.scale != "full" or bool(options.only)
        name = f"{kind}-{report.date[:10]}{'-partial' if partial else ''}.json"
        for path in report.write(options.out or provenance.RESULTS / name):
            shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
            print(f"wrote {shown}")
    return 1 if wrong else 0
