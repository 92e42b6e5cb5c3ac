"""Traffic between memory and multiprocessors under a schedule, by hardware counters.

    python -m benchmarks.schedules.traffic [--only NAME …] [--out FILE.json]

The orders of `reorder.py`, and structured schedules beside locality graphs (`paver.py`), each run
once under Nsight Compute (`ncu`), which counts the 32-byte sectors that loads request from the
first-level caches, that these request from the second level, and that memory delivers.  Only the
kernel in question is profiled, with ten counters: about a second per schedule.

Prints a table; writes JSON and the table in Markdown.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import treadle as td
from benchmarks import provenance
from benchmarks.schedules import paver, reorder

S = td.schedule
#: What is counted: its head in the table, and the counters that are added up.
COUNTERS = {
    "time, ms": ("gpu__time_duration.sum",),
    "warp loads": ("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",),
    "L1 sectors": ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",),
    "L1 sector hits": ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum",),
    "L2 → L1 sectors": ("lts__t_sectors_srcunit_tex_op_read.sum",),
    "L1 → L2 sectors": ("lts__t_sectors_srcunit_tex_op_write.sum",),
    "L2 requests": ("lts__t_requests_srcunit_tex.sum",),
    "DRAM sectors": ("dram__sectors_read.sum", "dram__sectors_write.sum"),
    "instructions": ("smsp__inst_executed.sum",),
}
#: Extents of the programs of `paver.py`; of the two of `reorder.py`.
GRAPHS, PRODUCT, TURNED = 2048, 4096, 8192
AGENTS = S.Agents(8)


def works(only: Sequence[str]) -> Iterator[tuple[str, Any, tuple[Any, ...], list[Any]]]:
    """Name, function, arrays, schedules; the row order of each shape of blocks comes first."""
    block = paver.BLOCK
    row = S.Row() | block
    structured = [row, S.Swizzle(32) | block, row | AGENTS, S.Column(128) | block | AGENTS,
                  row | S.LocalityGraph(), row | S.LocalityGraph(method="kway")]  # fmt: skip
    for name in (
        "9×9 stencil",
        "windows of permuted blocks",
        "block-sparse product, 8 communities",
    ):
        if not only or any(o in name for o in only):
            made = paver.PROGRAMS[name][0](GRAPHS)
            yield name, made.function, made.arrays, structured
    rng = np.random.default_rng(2)
    name = f"naive product, {PRODUCT}²"
    if not only or any(o in name for o in only):
        arrays = rng.random((2, PRODUCT, PRODUCT), np.float32)
        yield name, reorder.product, tuple(arrays), [
            S.Row() | S.Block(1, 256), S.Column(256) | S.Block(1, 256),
            S.Column(1024) | S.Block(1, 256), S.Row() | S.Block(1, 1024),
            replace(S.Tile(32, 32), grain="thread") | S.Block(1024),
            S.Row() | S.Block(8, 32), S.Column(1024) | S.Block(8, 32),
        ]  # fmt: skip
    name = f"transposition, {TURNED}²"
    if not only or any(o in name for o in only):
        yield name, reorder.turned, (rng.random((TURNED, TURNED), np.float32),), [
            S.Row() | S.Block(1, 256), replace(S.Column(8), grain="thread") | S.Block(256),
            S.Row() | S.Block(32, 8),
        ]  # fmt: skip


def run(only: Sequence[str]) -> None:
    """Under ncu: every schedule once, and their names, in order, on a line each."""
    import cupy as cp

    for name, function, arrays, schedules in works(only):
        given = [cp.asarray(a) for a in arrays]
        base = td.jit(function, backend="cuda").lower(*given)
        for schedule in schedules:
            program = base.scheduled(op=schedule)
            cp.cuda.profiler.start()
            program(*given)
            cp.cuda.Device().synchronize()
            cp.cuda.profiler.stop()
            print(json.dumps([name, repr(schedule)]), flush=True)


def metrics_of(log: str) -> list[dict[str, float]]:
    """By kernel, in the order of their launches: its metrics, from ncu's CSV."""
    lines = log.splitlines()
    start = next((k for k, line in enumerate(lines) if line.startswith('"ID"')), len(lines))
    kernels: dict[str, dict[str, float]] = {}
    for found in csv.DictReader(lines[start:]):
        value = float(found["Metric Value"].replace(",", ""))
        kernels.setdefault(found["ID"], {})[found["Metric Name"]] = value
    return list(kernels.values())


def counted(metrics: Mapping[str, float]) -> dict[str, float]:
    """What `COUNTERS` says of the metrics of a kernel."""
    made = {head: sum(metrics[n] for n in names) for head, names in COUNTERS.items()}
    made["time, ms"] *= 1e-6  # nanoseconds
    return made


def profiled(
    module: str, metrics: Iterable[str], only: Sequence[str], *options: str
) -> list[tuple[str, str, dict[str, float]]]:
    """Program, schedule and metrics of what `module --run` runs under ncu, with options of ncu;
    `SystemExit` where that does not say what was asked for."""
    with TemporaryDirectory() as folder:
        log = Path(folder) / "counters.csv"
        command = ["ncu", "--profile-from-start", "off", *options, "--kernel-name-base",
                   "function", "--kernel-name", "regex:^op", "--metrics", ",".join(metrics),
                   "--csv", "--print-units", "base", "--log-file", str(log), sys.executable, "-m",
                   f"benchmarks.schedules.{module}", "--run"]  # fmt: skip
        command += ["--only", *only] if only else []
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, encoding="utf-8"
            )
        except FileNotFoundError:
            raise SystemExit("ncu (Nsight Compute) is not installed.") from None
        ran = [json.loads(x) for x in done.stdout.splitlines() if x.startswith("[")]
        text = log.read_text(encoding="utf-8") if log.exists() else ""
    found = metrics_of(text)
    if not ran or len(found) != len(ran):
        said = "\n".join(x[-2000:] for x in (done.stdout, done.stderr, text))
        raise SystemExit(f"ncu counted {len(found)} kernels of {len(ran)}:\n{said}")
    return [(*names, metrics) for names, metrics in zip(ran, found, strict=True)]


def table(results: Sequence[tuple[str, str, Mapping[str, float]]]) -> list[str]:
    """Markdown: a line a schedule, in millions."""
    rows = []
    for program, schedule, counts in results:
        cells = [f"{v:.3g}" if head == "time, ms" else f"{v / 1e6:,.3g}"
                 for head, v in counts.items()]  # fmt: skip
        code = f"`{schedule}`".replace("|", "\\|")
        rows.append([program, code, *cells])
    return provenance.markdown_table(["program", "schedule", *COUNTERS], rows, words=2)


def main(argv: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.schedules.traffic",
                                     description=(__doc__ or "").splitlines()[0])  # fmt: skip
    parser.add_argument("--only", nargs="*", default=[], help="programs whose name contains this")
    parser.add_argument("--run", action="store_true", help="what runs under ncu")
    parser.add_argument("--out", type=Path, metavar="FILE.json")
    given = parser.parse_args(argv)
    if given.run:
        run(given.only)
        return 0
    from benchmarks.gpu import device, require_gpu

    require_gpu()
    about = provenance.about("Traffic between memory and multiprocessors", device())
    names = [name for several in COUNTERS.values() for name in several]
    results = [(p, s, counted(m)) for p, s, m in profiled("traffic", names, given.only)]
    day = datetime.now(UTC).strftime("%Y-%m-%d")
    path = given.out or provenance.RESULTS / f"traffic-gpu-{day}.json"
    head = [*provenance.heading(about), "",
            "Counters of one launch each, in millions; sectors of 32 bytes. Clocks were not "
            "locked, and the caches were flushed before.", ""]  # fmt: skip
    lines = table(results)
    page = "\n".join([*head, *lines, ""])
    provenance.write_results(path, page, {**about, "results": results})
    print("\n".join(lines))
    print(f"wrote {path} and its table")
    return 0


if __name__ == "__main__":
    sys.exit(main())
