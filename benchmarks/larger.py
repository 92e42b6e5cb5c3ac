"""Measures arrays of dask and streams beside dask.array, and simulates clusters.

    python -m benchmarks.larger [--tiny] [--only PART] [--out FILE.json]

The parts: seconds of a task; time, memory and number of tasks of a plan of 10⁵ chunks; the heat
equation in one process, on threads of dask, and on `LocalCluster`s of one and two processes;
streams of eight times the memory that they may use, beside a copy of the file; and what a list
scheduler with the costs measured here predicts for these clusters, and for up to 1,024 workers.
Peers run in the same process, after treadle.  Writes JSON, tables in Markdown, and a picture.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np

import treadle as td
from benchmarks import provenance
from benchmarks.gpus import ITERATIONS, heat
from treadle.backend.blocks.localise import Blocks
from treadle.backend.blocks.plan import Plan
from treadle.backend.blocks.simulation import Costs, simulated
from treadle.backend.blocks.tasks import count

PACKAGES = ("treadle", "numpy", "dask", "distributed", "zarr", "llvmlite")
WORKERS = [2**k for k in range(11)]


def least(call: Callable[[], Any], times: int = 3) -> float:
    """Seconds of the fastest of some calls."""
    found = []
    for _ in range(times):
        begin = time.perf_counter()
        call()
        found.append(time.perf_counter() - begin)
    return min(found)


def twice(a: Any) -> Any:
    return a * 2


def multiplied(a: Any, factor: int) -> Any:
    return a * factor


def numpy_step(u: Any) -> Any:
    """An iteration of `heat` on a chunk with a halo of one element."""
    v = u.copy()
    near = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
    v[1:-1, 1:-1] += np.float32(0.2) * (near - 4 * u[1:-1, 1:-1])
    return v


def of_tasks(tiny: bool) -> dict[str, Any]:
    """Seconds of a task of one small chunk, on threads."""
    n = 50 if tiny else 3000
    x = da.zeros(16 * n, chunks=16).persist()
    mine, theirs = td.jit(twice), lambda: x.map_blocks(twice, dtype=x.dtype)
    mine(x).compute(scheduler="threads")
    ours = least(lambda: mine(x).compute(scheduler="threads"), 5) / n
    dasks = least(lambda: theirs().compute(scheduler="threads"), 5) / n
    return {"tasks": n, "treadle": ours, "dask.array": dasks, "above": ours - dasks}


PLAN = """
import json, resource, sys, time
import dask.array as da, numpy as np, treadle as td
from benchmarks.larger import numpy_step
n, who = int(sys.argv[1]), sys.argv[2]

def near(w):
    return w[0, 0] + w[-1, 0] + w[1, 0] + w[0, -1] + w[0, 1]

def smooth(a):
    return td.stencil(near, a, boundary=td.clamp)

def resident():
    return int(open("/proc/self/status").read().split("VmRSS:")[1].split()[0]) * 1024

f = td.jit(smooth)
f(da.zeros((8, 8), chunks=4)).compute(scheduler="synchronous")
x = da.zeros((64 * n, 64 * n), chunks=64, dtype=np.float32)
dict(x.dask)  # what dask needs for the array itself is not the plan's
before, begin, used = resident(), time.perf_counter(), time.process_time()
y = f(x) if who == "treadle" else da.map_overlap(numpy_step, x, depth=1, boundary="nearest")
graph = dict(y.dask)
took, used = time.perf_counter() - begin, time.process_time() - used
print(json.dumps({"seconds": took, "processor seconds": used, "bytes": resident() - before,
                  "tasks": (len(graph) - len(dict(x.dask))) / n ** 2}))
"""


def of_plans(tiny: bool) -> dict[str, Any]:
    """The graph of a stencil on many chunks; the peer's on a tenth of them."""
    found: dict[str, Any] = {}
    for who, n in (("treadle", 10 if tiny else 317), ("dask.array", 10 if tiny else 100)):
        ran = subprocess.run([sys.executable, "-c", PLAN, str(n), who], check=True,
                             capture_output=True, text=True)  # fmt: skip
        found[who] = {"chunks": n * n, **json.loads(ran.stdout)}
    return found


ALONE = """
import sys
import numpy as np, treadle as td
from benchmarks.larger import heat, least
n = int(sys.argv[1])
u = np.random.default_rng(1).random((n, n), dtype=np.float32)
f = td.jit(heat, backend="native")
f(u)
print(least(lambda: f(u)))
"""


def of_heat(tiny: bool) -> dict[str, Any]:
    """100 iterations of `heat`: seconds, and whether the bits are those of one process."""
    n = 128 if tiny else 4096
    u = np.random.default_rng(1).random((n, n), dtype=np.float32)
    x = da.from_array(u, chunks=(n // 8, n))
    alone, split = td.jit(heat, backend="native"), td.jit(heat)
    wanted = alone(u)
    found: dict[str, Any] = {"extent": n, "one process": least(lambda: alone(u))}
    ran = subprocess.run([sys.executable, "-c", ALONE, str(n)], check=True, capture_output=True,
                         text=True, env={**os.environ, "TREADLE_NUM_THREADS": "1"})  # fmt: skip
    found["one thread"] = float(ran.stdout)
    same = split(x).compute(scheduler="threads").tobytes() == wanted.tobytes()
    found["dask, threads"] = least(lambda: split(x).compute(scheduler="threads"))

    def overlapped() -> Any:
        v = x
        for _ in range(ITERATIONS):
            v = da.map_overlap(numpy_step, v, depth=1, boundary="nearest")
        return v.compute(scheduler="threads")

    found["map_overlap, threads"] = least(overlapped, 1)
    distributed = importlib.import_module("distributed")
    for workers in (1, 2):
        with cluster(distributed, workers) as client:
            held = client.persist(x)
            distributed.wait(held)
            same &= split(held).compute().tobytes() == wanted.tobytes()
            others = [client.persist(x + k) for k in (1, 2, 3)]  # equal keys would be found again
            distributed.wait(others)
            given = iter(others)
            found[f"{workers} workers"] = least(
                lambda given=given: distributed.wait(split(next(given)).persist())  # type: ignore[misc]
            )
            found.setdefault("costs", {})[str(workers)] = costs(client, distributed, tiny)
    return {**found, "same bits": bool(same)}


@contextmanager
def cluster(distributed: Any, workers: int) -> Iterator[Any]:
    """A client of a cluster of this host, whose workers have one thread each."""
    with distributed.LocalCluster(
        n_workers=workers, threads_per_worker=1, dashboard_address=None, silence_logs=40,
        env={"TREADLE_NUM_THREADS": "1"},
    ) as made, distributed.Client(made) as client:  # fmt: skip
        client.wait_for_workers(workers)
        yield client


def costs(client: Any, distributed: Any, tiny: bool) -> dict[str, float]:
    """Seconds of a trivial task when there are many, and of one after the other; bytes a second
    between two workers."""
    n = 50 if tiny else 500
    x = client.persist(da.zeros(n, chunks=1))
    distributed.wait(x)
    factors = iter((2, 3, 4))  # equal keys would be found again
    each = least(
        lambda: distributed.wait(x.map_blocks(multiplied, next(factors), dtype=x.dtype).persist())
    ) / n  # fmt: skip
    chain = client.submit(float, 1.0)
    begin = time.perf_counter()
    for _ in range(20):
        chain = client.submit(twice, chain)
    chain.result()
    found = {"task": each, "step": (time.perf_counter() - begin) / 20}
    names = list(client.scheduler_info(n_workers=-1)["workers"])
    if len(names) > 1:
        size = 1 << (16 if tiny else 26)
        there = client.submit(np.ones, size // 8, workers=names[0])
        distributed.wait(there)
        begin = time.perf_counter()
        client.submit(np.sum, there, workers=names[1]).result()
        found["rate"] = size / max(time.perf_counter() - begin, 1e-9)
    return found


STREAM = """
import json, sys, time
import numpy as np, treadle as td
name, folder, rows, memory = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
from benchmarks.larger import STREAMS
f, width = td.jit(STREAMS[name]), 4096

def kilobytes(what):
    return int(open("/proc/self/status").read().split(what)[1].split()[0])

rng = np.random.default_rng(1)
source = np.memmap(folder + "/a", np.float32, "w+", shape=(rows, width))
for k in range(0, rows, 64):
    source[k : k + 64] = rng.random((min(64, rows - k), width), dtype=np.float32)
td.stream(f, np.array(source[:64]), memory="64 MB")
source.flush()
del source
source = np.memmap(folder + "/a", np.float32, "r", shape=(rows, width))
def target():
    return np.memmap(folder + "/b", np.float32, "w+", shape=(rows, width))
out = target()
begin = time.perf_counter()
for k in range(0, rows, 256):
    out[k : k + 256] = source[k : k + 256]
copied = time.perf_counter() - begin
del out, source
source = np.memmap(folder + "/a", np.float32, "r", shape=(rows, width))
out = target() if name != "percentiles" else None
open("/proc/self/clear_refs", "w").write("5")
before, begin = kilobytes("VmRSS:"), time.perf_counter()
td.stream(f, source, out=out, memory=memory)
print(json.dumps({"copy": copied, "seconds": time.perf_counter() - begin,
                  "peak": 1024 * (kilobytes("VmHWM:") - before)}))
"""
STREAMS: dict[str, Callable[..., Any]] = {
    "element-wise": lambda a: td.sqrt(a) * 2 + 1,
    "heat": heat,
    "sums of columns": lambda a: a / td.sum(a, axis=0),
    "percentiles": lambda a: td.percentile(a, [5.0, 50.0, 95.0]),
}


def of_streams(tiny: bool) -> dict[str, Any]:
    """Files of eight times the memory: seconds of a copy of the file and of a stream; peak bytes
    above those before."""
    memory = 2 << 20 if tiny else 64 << 20
    rows = 8 * memory // (4 * 4096)
    found: dict[str, Any] = {"file": 8 * memory, "memory": memory}
    for name in STREAMS:
        with tempfile.TemporaryDirectory() as folder:
            ran = subprocess.run(
                [sys.executable, "-c", STREAM, name, folder, str(rows), str(memory)],
                check=True, capture_output=True, text=True,
            )  # fmt: skip
        found[name] = json.loads(ran.stdout)
    return found


def planned(f: Callable[..., Any], *args: Any) -> Plan:
    program = td.jit(f).lower(*args)
    plan: Plan = program.executable.plan(args, ())
    return plan


def work_of(element: float, plan: Plan) -> Callable[[Blocks, int], float]:
    """Seconds of blocks of which every element takes `element` seconds in all stages."""
    return lambda blocks, n: n * element / len(plan.stages)


def of_clusters(tiny: bool, heat_: dict[str, Any]) -> dict[str, Any]:
    """What list scheduling predicts: for the clusters measured, and for many workers."""
    n, one = heat_["extent"], heat_["costs"]["1"]
    two = heat_["costs"]["2"]
    rate = two.get("rate", 4e8)
    paid = Costs(min(one["task"], two["task"]) / 2, one["task"] / 2, 1e-3, rate)
    element = heat_["one thread"] / n**2
    x = da.zeros((n, n), chunks=(n // 8, n), dtype=np.float32)
    plan = planned(heat, x)
    found: dict[str, Any] = {"costs": vars(paid), "predicted": {}, "many": {}}
    for workers in (1, 2):
        found["predicted"][f"{workers} workers"] = simulated(plan, workers, paid,
                                                             work_of(element, plan))  # fmt: skip
    side = 4096 if tiny else 65536
    size = side // 32
    large = da.zeros((side, side), chunks=size, dtype=np.float32)
    row = da.zeros(side * side, chunks=side * size // 4, dtype=np.float32)
    programs: dict[str, tuple[Callable[..., Any], Any, float]] = {
        "heat, 100 iterations": (heat, large, element),
        "element-wise": (lambda a: td.sqrt(a) * 2 + 1, large, 1e-9),
        "sum": (lambda a: td.sum(a), large, 5e-10),
        "transposition": (lambda a: (a * 2).T + 1, large, 4e-9),
        "sort": (lambda a: td.sort(a * 2), row, 4e-8),
    }
    for name, (f, data, each) in programs.items():
        plan = planned(f, data)
        times = {w: simulated(plan, w, paid, work_of(each, plan)) for w in WORKERS}
        found["many"][name] = {
            "seconds": times,
            "tasks": sum(count(stage.blocks) for stage in plan.every()),
        }
    return found


def table(report: dict[str, Any]) -> str:
    """What was measured, in Markdown."""
    lines = ["# Larger than one machine", "",
             f"{provenance.describe(report['device'])}; {report['date']}; "
             f"`{report['command']}`.", ""]  # fmt: skip
    parts = report["parts"]
    for name, part in parts.items():
        lines += [f"## {name}", "", "| what | measured |", "| --- | --- |"]
        lines += [f"| {key} | {_shown(value)} |" for key, value in _flat(part)]
        lines.append("")
    return "\n".join(lines)


def _flat(part: dict[str, Any], before: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, value in part.items():
        name = f"{before}{key}"
        found += _flat(value, f"{name}, ") if isinstance(value, dict) else [(name, value)]
    return found


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def picture(report: dict[str, Any], path: Path) -> None:
    """How many times as fast as one worker the simulated clusters are; the measured one as dots."""
    many = report["parts"].get("clusters", {}).get("many")
    if not many:
        return
    try:
        plt = importlib.import_module("matplotlib.pyplot")
    except ImportError:
        return
    figure, axes = plt.subplots(figsize=(7, 4.6))
    axes.plot(WORKERS, WORKERS, color="0.8", linestyle=":", label="ideal")
    for name, found in many.items():
        seconds = [found["seconds"][w] for w in WORKERS]
        axes.plot(WORKERS, [seconds[0] / s for s in seconds], marker="o", markersize=3, label=name)
    heat_ = report["parts"]["heat"]
    axes.plot([2], [heat_["1 workers"] / heat_["2 workers"]], "k*", markersize=11,
              label="heat on 4,096², measured")  # fmt: skip
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_xlabel("workers (simulated)")
    axes.set_ylabel("times as fast as one")
    axes.legend(fontsize=8, frameon=False)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.savefig(path, dpi=130, bbox_inches="tight")
    plt.close(figure)


def main(argv: list[str] | None = None) -> int:
    """The command; the exit status is 1 if bits differ."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.larger")
    parser.add_argument("--tiny", action="store_true", help="tiny data: checks the results")
    parser.add_argument("--only", action="append", default=[], metavar="PART")
    parser.add_argument("--out", type=Path, metavar="FILE.json")
    options = parser.parse_args(argv)
    parts: dict[str, Any] = {}
    measures: dict[str, Callable[[], dict[str, Any]]] = {
        "tasks": lambda: of_tasks(options.tiny),
        "plans": lambda: of_plans(options.tiny),
        "heat": lambda: of_heat(options.tiny),
        "streams": lambda: of_streams(options.tiny),
        "clusters": lambda: of_clusters(options.tiny, parts["heat"]),
    }
    report: dict[str, Any] = {
        "date": datetime.now(UTC).date().isoformat(), "device": provenance.processor(),
        "load": os.getloadavg()[0], "versions": provenance.versions(PACKAGES),
        **provenance.commit(),
        "command": " ".join(["python -m benchmarks.larger", *(argv or sys.argv[1:])]),
        "parts": parts,
    }  # fmt: skip
    for name, measure in measures.items():
        if options.only and name not in options.only:
            continue
        parts[name] = measure()
        print(name, json.dumps(parts[name], indent=1), flush=True)
        if options.out:
            options.out.parent.mkdir(parents=True, exist_ok=True)
            options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
            options.out.with_suffix(".md").write_text(table(report), encoding="utf-8")
    if options.out:
        picture(report, options.out.with_suffix(".png"))
    return int(not parts.get("heat", {}).get("same bits", True))


if __name__ == "__main__":
    raise SystemExit(main())
