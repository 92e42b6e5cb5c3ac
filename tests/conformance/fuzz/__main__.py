"""Runs many random programs; ends with 1 where one failed.

python -m tests.conformance.fuzz --backend native --count 10000 --seed 0 --jobs 2
python -m tests.conformance.fuzz --backend cuda --count 10000 --jobs 16 --batch 16
python -m tests.conformance.fuzz --seed 0 --first 4711 --count 1        # one of them again
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .campaign import campaign, write
from .drawing import draw


def main() -> int:
    say = argparse.ArgumentParser(prog="python -m tests.conformance.fuzz")
    say.add_argument("--backend", default="native", help="default: native")
    say.add_argument("--count", type=int, default=1000, help="how many programs; default: 1000")
    say.add_argument("--first", type=int, default=0, help="the number of the first; default: 0")
    say.add_argument("--seed", type=int, default=0)
    say.add_argument("--jobs", type=int, default=1, help="worker processes; default: 1")
    say.add_argument("--batch", type=int, default=1, help="programs that are compiled as one")
    say.add_argument("--limit", type=float, default=60, help="seconds a program; default: 60")
    say.add_argument("--seconds", type=float, help="no new programs after this time")
    say.add_argument("--most", type=int, default=50, help="stop after so many failures")
    say.add_argument("--summary", type=Path, help="write a summary as JSON to this file")
    say.add_argument("--no-shrinking", action="store_true", help="report failures as drawn")
    say.add_argument("--emulated", action="store_true", help="cuda on an emulated GPU")
    say.add_argument("--print", action="store_true", help="print the scripts and run nothing")
    given = say.parse_args()
    if given.print:
        for number in range(given.first, given.first + given.count):
            print(draw(given.seed, number).script(given.backend))
        return 0
    summary = campaign(
        given.backend, given.count, given.seed, first=given.first, jobs=given.jobs,
        batch=given.batch, shrinking=not given.no_shrinking, limit=given.limit,
        seconds=given.seconds, emulated=given.emulated, most=given.most, tell=True,
    )  # fmt: skip
    if given.summary:
        write(summary, given.summary)
    print(
        f"{sum(summary.kinds.values())} programs in {summary.seconds:.0f} s: {dict(summary.kinds)}"
    )
    return 1 if summary.failures else 0


if __name__ == "__main__":
    sys.exit(main())
