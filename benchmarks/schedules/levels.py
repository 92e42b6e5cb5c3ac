"""Predicted against counted traffic of a schedule, level by level.

    python -m benchmarks.schedules.levels [--only NAME …] [--out FILE.json]
    python -m benchmarks.schedules.levels --predict FILE.json

Programs of the study run once under every schedule, after two runs that fill the caches, under
Nsight Compute (`ncu`), which counts DRAM bytes, bytes between L2 and L1s, cycles in which the L1s
deliver words, and instructions.  Clocks are not locked.  `--predict` puts the current model's
predictions beside earlier counts; no GPU is needed.

Writes JSON; `python -m benchmarks.schedules.pages` makes the table of docs/study.md of it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import provenance
from benchmarks.schedules import study
from benchmarks.schedules.programs import STUDY
from benchmarks.schedules.ranks import error
from benchmarks.schedules.traffic import profiled
from treadle.dsl.graphs.names import Names
from treadle.skeletons.access.maps import kernel_maps
from treadle.skeletons.model.coverage import form_of
from treadle.skeletons.model.device import device_of
from treadle.skeletons.model.gpu import work
from treadle.skeletons.model.time import predict
from treadle.skeletons.schedules import as_schedule

#: Programs with something to tell at each level; all of one kernel, and no folds, which the model
#: of time knows by their bytes alone.
PROGRAMS = ("a + aᵀ", "axes (2, 1, 0)", "17×1", "A·B", "Aᵀ·B", "gather of rows", "Mandelbrot set")
#: What is counted, by level: counters that are added up, and how many of the unit each is.
COUNTERS: dict[str, tuple[tuple[str, float], ...]] = {
    "DRAM, bytes": (("dram__sectors_read.sum", 32), ("dram__sectors_write.sum", 32)),
    "L2, bytes": (("lts__t_sectors_srcunit_tex_op_read.sum", 32),
                  ("lts__t_sectors_srcunit_tex_op_write.sum", 32)),
    "L1, wavefronts": (("l1tex__data_pipe_lsu_wavefronts.sum", 1),),
    "issue, slots": (("smsp__inst_executed.sum", 1),),
}  # fmt: skip
Record = dict[str, Any]


def predicted(program: str, names: Sequence[str]) -> dict[str, dict[str, float]]:
    """By schedule, what the model says of each level."""
    from benchmarks.schedules.pages import lowered  # which has the table of this module

    base = lowered(next(c for c in STUDY if c.name == program), "cuda")
    node = study.operation(base)
    maps, device = kernel_maps(node, Names(base).known), device_of(base)
    assert maps is not None
    given = study.schedules()
    found = {}
    for name in names:
        schedule = as_schedule(given[name])
        p = predict(maps, schedule, device)
        wavefronts = work(maps, form_of(maps, schedule, device), device, schedule).wavefronts
        found[name] = dict(zip(COUNTERS, (p.dram, p.far, wavefronts, p.issue), strict=True))
    return found


def fill(records: Sequence[Record]) -> None:
    """Put what the model says now into records."""
    for program in dict.fromkeys(r["program"] for r in records):
        mine = [r for r in records if r["program"] == program]
        shown = predicted(program, [r["schedule"] for r in mine])
        for r in mine:
            r["predicted"] = shown[r["schedule"]]


def counted(metrics: Mapping[str, float]) -> dict[str, float]:
    """What ncu says of one kernel, by level."""
    return {level: sum(metrics[n] * unit for n, unit in names) for level, names in COUNTERS.items()}


def table(records: Sequence[Record]) -> list[str]:
    """Markdown: the typical factor between predicted and counted, by program and level.

    Of slots it is that beside their median number an instruction: the model's slots are longer for
    integers, by design."""
    rows = []
    groups = {p: [r for r in records if r["program"] == p]
              for p in dict.fromkeys(r["program"] for r in records)}  # fmt: skip
    for name, mine in [*groups.items(), ("all", list(records))]:
        cells = []
        ratio = median(r["predicted"]["issue, slots"] / r["counted"]["issue, slots"] for r in mine)
        for level in COUNTERS:
            scale = ratio if level == "issue, slots" else 1.0
            pairs = [(r["predicted"][level] / scale, r["counted"][level]) for r in mine]
            cells.append(f"{error(pairs):.0%}")
        rows.append([name, str(len(mine)), *cells, f"{ratio:.2f}"])
    head = ["program", "schedules", *COUNTERS, "slots an instruction"]
    return provenance.markdown_table(head, rows)


def run(names: Sequence[str]) -> None:
    """Under ncu: the third run of every schedule, and its name on a line."""
    import cupy as cp

    for case in (c for c in STUDY if c.name in names):
        _, args, programs, _ = study.prepared(case, "cuda", 1)
        given = [cp.asarray(a) for a in args]
        for name, program in programs.items():
            if name in ("default", "Auto()"):
                continue
            for _ in range(2):
                program(*given)
            cp.cuda.Device().synchronize()
            cp.cuda.profiler.start()
            program(*given)
            cp.cuda.Device().synchronize()
            cp.cuda.profiler.stop()
            print(json.dumps([case.name, name]), flush=True)


def records_of(names: Sequence[str]) -> list[Record]:
    """A record per program and schedule."""
    metrics = [n for several in COUNTERS.values() for n, _ in several]
    free = ("--cache-control", "none", "--clock-control", "none")
    return [{"program": p, "schedule": s, "counted": counted(m)}
            for p, s, m in profiled("levels", metrics, names, *free)]  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.schedules.levels",
                                     description=(__doc__ or "").splitlines()[0])  # fmt: skip
    parser.add_argument("--only", nargs="*", default=list(PROGRAMS), help="programs, by name")
    parser.add_argument("--run", action="store_true", help="what runs under ncu")
    parser.add_argument("--predict", type=Path, metavar="FILE.json")
    parser.add_argument("--out", type=Path, metavar="FILE.json")
    given = parser.parse_args(argv)
    if given.run:
        run(given.only)
        return 0
    if given.predict is not None:
        about, path = json.loads(given.predict.read_text(encoding="utf-8")), given.predict
    else:
        from benchmarks.gpu import device, require_gpu

        require_gpu()
        about = provenance.about("Predicted against counted", device())
        path = given.out or provenance.RESULTS / f"levels-gpu-{about['date'][:10]}.json"
        about["results"] = records_of(given.only)
    fill(about["results"])
    text = json.dumps(about, indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")
    print("\n".join(table(about["results"])))
    print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
