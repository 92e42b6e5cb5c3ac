"""Programs in natural form that once took a cliff: many times as long as the same by other means.

    python -m benchmarks.cliffs [--all-cores] [--quick] [--out FILE.json] [PART_OF_A_NAME …]

Each program is measured beside NumPy, Numba, and treadle's own fastest other form, in one process
and interleaved; every result is checked.  One core and processor time, unless `--all-cores`.
`kernels` counts what `explain()` lists.  The exit status is 1 if a result is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import harness, provenance
from benchmarks.cpu import alone

from .cliff import CLIFFS


def main(argv: list[str] | None = None) -> int:
    """The command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cliffs")
    parser.add_argument("names", nargs="*", help="only programs whose name contains one of these")
    parser.add_argument("--all-cores", action="store_true", help="all cores, and the time of day")
    parser.add_argument("--quick", action="store_true", help="small data, few repetitions")
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="write the results")
    options = parser.parse_args(argv)
    if not options.all_cores and not os.environ.get(harness.ONE_CORE):
        alone("benchmarks.cliffs", sys.argv[1:] if argv is None else argv)
    results, wrong = [], False
    top = harness.Ceilings(lambda _: lambda: None)
    for name, make in CLIFFS.items():
        if options.names and not any(part in name for part in options.names):
            continue
        made = make(8 if options.quick else 1)
        rows = harness.measure(
            harness.Work(name, "cliffs", made.case), top, 0.05 if options.quick else 0.3
        )
        for row in rows:
            timings = {"treadle": row.treadle, **row.peers}
            shown = "  ".join(f"{n} {t.least * 1e6:10.1f}" for n, t in timings.items() if t)
            best = min((t.least for t in row.peers.values()), default=float("nan"))
            ratio = row.treadle.least / best if row.treadle else float("nan")
            correct = "" if row.correct else "  WRONG " + row.note
            print(f"{row.work:44} {shown}  {ratio:6.2f} × the best peer{correct}", flush=True)
            wrong |= not row.correct
        results.append({"name": name, "kernels": made.kernels(), "rows": [asdict(r) for r in rows]})
    if options.out is not None:
        about = {
            "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
            **provenance.processor(),
            "versions": provenance.versions(),
            **provenance.commit(),
            "programs": results,
        }
        options.out.write_text(json.dumps(about, indent=1, default=str) + "\n", encoding="utf-8")
    return int(wrong)


if __name__ == "__main__":
    raise SystemExit(main())
