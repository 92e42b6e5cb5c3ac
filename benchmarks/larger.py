"""Measures arrays of dask and streams beside dask.array, and simulates clusters.

    python -m benchmarks.larger [--tiny] [--only PART] [--out FILE.json]
    python -m benchmarks.larger --page FILE.json    # writes docs/larger.md's numbers from a run

The parts: seconds of a task; time, memory and number of tasks of plans of 10⁵ chunks, of a stencil
and of a scan; the heat equation in one process and on threads of dask; five programs on one thread
and on `LocalCluster`s of one and two processes, and what a list scheduler with the costs measured
here, and the seconds of every stage on one worker, predicts for these clusters, and for up to 1,024
workers; streams of eight times the memory that they may use, beside plain reads and writes of the
file, on the disk alone and in caches; streams of little data, and the same by NumPy.
Peers run in the same process, after treadle.  Writes JSON, tables in Markdown, and a picture, after
every part.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import dask.array as da
import numpy as np

import treadle as td
from benchmarks import provenance
from benchmarks.gpus import ITERATIONS, heat
from benchmarks.list_scheduling import Costs, Work, measured, simulated
from treadle.backend.blocks.stages import Plan
from treadle.backend.blocks.tasks import count
from treadle.backend.dask import executable
from treadle.backend.dask.graph import every_array

PACKAGES = ("treadle", "numpy", "dask", "distributed", "zarr", "llvmlite")
WORKERS = [2**k for k in range(11)]
#: What ends the name of a layer of dask.
HASH = re.compile("[0-9a-f]{32}")


def least(call: Callable[[], Any], times: int = 3) -> float:
    """Seconds of the fastest of some calls."""
    found = []
    for _ in range(times):
        begin = time.perf_counter()
        call()
        found.append(time.perf_counter() - begin)
    return min(found)


def middle(call: Callable[[], Any], times: int) -> float:
    """The median of the seconds of some calls."""
    return sorted(least(call, 1) for _ in range(times))[times // 2]


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
from treadle.backend.dask import graph
who, n, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])

def near(w):
    return w[0, 0] + w[-1, 0] + w[1, 0] + w[0, -1] + w[0, 1]

def smooth(a):
    return td.stencil(near, a, boundary=td.clamp)

def resident():
    return int(open("/proc/self/status").read().split("VmRSS:")[1].split()[0]) * 1024

f = td.jit(td.cumsum if who == "scan" else smooth)
small = da.zeros(8, chunks=4) if who == "scan" else da.zeros((8, 8), chunks=4)
f(small).compute(scheduler="synchronous")
graph.has_workers = lambda: who == "processes"
shape = size * n * n if who == "scan" else (size * n, size * n)
x = da.zeros(shape, chunks=size, dtype=np.float32)
given = len(x.dask.to_dict())  # what dask needs for the array itself is not the plan's
before, begin, used = resident(), time.perf_counter(), time.process_time()
y = da.map_overlap(numpy_step, x, depth=1, boundary="nearest") if who == "dask.array" else f(x)
tasks = len(y.dask.to_dict())
took, used = time.perf_counter() - begin, time.process_time() - used
print(json.dumps({"seconds": took, "processor seconds": used, "bytes": resident() - before,
                  "tasks": (tasks - given) / n ** 2}))
"""


def of_plans(tiny: bool) -> dict[str, Any]:
    """The graph of a stencil on many chunks: for threads; for processes, to which parts of large
    chunks are sent; and the peer's, of a tenth of them.  The graph of a scan of a row.  The least
    of three processes."""
    found: dict[str, Any] = {}
    large = 10 if tiny else 317
    for who, n, size in (("threads", large, 64), ("processes", large, 1024),
                         ("scan", large, 16384),
                         ("dask.array", 10 if tiny else 100, 64)):  # fmt: skip
        ran = [
            json.loads(subprocess.run([sys.executable, "-c", PLAN, who, str(n), str(size)],
                                      check=True, capture_output=True, text=True).stdout)
            for _ in range(1 if tiny else 3)
        ]  # fmt: skip
        found[who] = {"chunks": n * n, **min(ran, key=lambda r: r["seconds"])}
    return found


def of_heat(tiny: bool) -> dict[str, Any]:
    """100 iterations of `heat`: seconds, and whether the bits are those of one process."""
    n = 128 if tiny else 4096
    u = np.random.default_rng(1).random((n, n), dtype=np.float32)
    x = da.from_array(u, chunks=(n // 8, n))
    alone, split = td.jit(heat, backend="native"), td.jit(heat)
    wanted = alone(u)
    found: dict[str, Any] = {"extent": n, "one process": least(lambda: alone(u))}
    same = split(x).compute(scheduler="threads").tobytes() == wanted.tobytes()
    found["dask, threads"] = least(lambda: split(x).compute(scheduler="threads"))

    def overlapped() -> Any:
        v = x
        for _ in range(ITERATIONS):
            v = da.map_overlap(numpy_step, v, depth=1, boundary="nearest")
        return v.compute(scheduler="threads")

    found["map_overlap, threads"] = least(overlapped, 1)
    return {**found, "same bits": bool(same)}


#: Programs of a matrix of float32, of n × n elements; the sort has them in a row.
PROGRAMS: dict[str, Callable[..., Any]] = {
    "heat, 100 iterations": heat,
    "element-wise": lambda a: td.sqrt(a) * 2 + 1,
    "sum": lambda a: td.sum(a),
    "transposition": lambda a: (a * 2).T + 1,
    "sort": lambda a: td.sort(a * 2),
}

ALONE = """
import json, sys
import numpy as np, treadle as td
from benchmarks.larger import PROGRAMS, least
n = int(sys.argv[1])
u = np.random.default_rng(1).random((n, n), dtype=np.float32)
found = {}
for name, f in PROGRAMS.items():
    f, given = td.jit(f, backend="native"), u.reshape(-1) if name == "sort" else u
    f(given)
    found[name] = least(lambda: f(given))
print(json.dumps(found))
"""


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
    """Seconds of a trivial task when there are many, of one after the other, and of a call with one
    task; bytes a second between two workers."""
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
    small = iter([client.persist(da.full(1, float(k), chunks=1)) for k in range(12)])
    alone = td.jit(twice)
    distributed.wait(alone(next(small)).persist())
    found["call"] = middle(lambda: distributed.wait(alone(next(small)).persist()), 11)
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
import json, os, sys, time
import numpy as np, treadle as td
name, folder = sys.argv[1:3]
rows, memory, repeats = map(int, sys.argv[3:])
from benchmarks.larger import LONGEST, REDUCED, STREAMS
f, width, block = td.jit(STREAMS[name]), 4096, 4 << 20
a, b = folder + "/a", folder + "/b"

def kilobytes(what):
    return int(open("/proc/self/status").read().split(what)[1].split()[0])

def cached(wanted):
    # Files that the system has in its caches, or (after they are on the disk) not.
    for path in (a, b):
        file = os.open(path, os.O_RDWR)
        os.fsync(file)
        if not wanted:
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        while wanted and os.read(file, block):
            pass
        os.close(file)

def plain():
    # Reads all, and writes it if the program writes as much, by calls of the system.
    room, files = np.empty(block, np.uint8), [os.open(path, os.O_RDWR) for path in (a, b)]
    begin = time.perf_counter()
    for at in range(0, 4 * rows * width, block):
        left = memoryview(room)[: os.preadv(files[0], [room], at)]
        if name not in REDUCED:
            os.pwrite(files[1], left, at)
    took = time.perf_counter() - begin
    for file in files:
        os.close(file)
    return took

rng = np.random.default_rng(1)
with open(a, "wb") as file:
    for k in range(0, rows, 64):
        file.write(rng.random((min(64, rows - k), width), dtype=np.float32).tobytes())
open(b, "wb").write(bytes(16))
source = np.memmap(a, np.float32, "r", shape=(rows, width))
out = None if name in REDUCED else np.memmap(b, np.float32, "w+", shape=(rows, width))
if out is not None:
    for k in range(0, rows, 256):
        out[k : k + 256] = 1
    out.flush()
    out = np.memmap(b, np.float32, "r+", shape=(rows, width))
td.stream(f, np.array(source[:64]), memory="64 MB")
open("/proc/self/clear_refs", "w").write("5")
before, found = kilobytes("VmRSS:"), {}
for state in ("disk", "cached"):
    for who in ("plain", "seconds"):
        times = []
        since = time.perf_counter()
        while len(times) < repeats and not (times and time.perf_counter() - since > LONGEST):
            cached(state == "cached")
            begin = time.perf_counter()
            if who == "plain":
                times.append(plain())
                continue
            td.stream(f, source, out=out, memory=memory)
            times.append(time.perf_counter() - begin)
        found[f"{state}, {who}"] = sorted(times)[len(times) // 2]
    found[f"{state}, share of the rate"] = found[f"{state}, plain"] / found[f"{state}, seconds"]
found["peak"] = 1024 * (kilobytes("VmHWM:") - before)
print(json.dumps(found))
"""


def reductions(a: Any) -> Any:
    return td.sum(a), td.min(a), td.max(a)


STREAMS: dict[str, Callable[..., Any]] = {
    "element-wise": lambda a: td.sqrt(a) * 2 + 1,
    "heat": heat,
    "sum, minimum, maximum": reductions,
    "sums of columns": lambda a: td.sum(a, axis=0),
    "quotients by sums of columns": lambda a: a / td.sum(a, axis=0),
    "percentiles": lambda a: td.percentile(a, [5.0, 50.0, 95.0]),
}
#: After so many seconds a measurement of a stream is not repeated.
LONGEST = 10
#: Those whose results are small.
REDUCED = ("sum, minimum, maximum", "sums of columns", "percentiles")


def of_streams(tiny: bool) -> dict[str, Any]:
    """Files of eight times the memory: seconds of a plain read of the file (and a write, if the
    result is as large), and of a stream, with the files on the disk alone, and in the caches of the
    system, median of three, or fewer if they take long; peak bytes above those before."""
    memory, times, repeats = (4 << 20, 2, 1) if tiny else (64 << 20, 8, 3)
    rows = times * memory // (4 * 4096)
    found: dict[str, Any] = {"file": times * memory, "memory": memory}
    for name in STREAMS:
        with tempfile.TemporaryDirectory() as folder:
            ran = subprocess.run(
                [sys.executable, "-c", STREAM, name, folder, *map(str, (rows, memory, repeats))],
                check=True, capture_output=True, text=True,
            )  # fmt: skip
        found[name] = json.loads(ran.stdout)
    return found


#: Programs of a matrix, and the same in NumPy.
LITTLE: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "element-wise": (STREAMS["element-wise"], lambda a: np.sqrt(a) * 2 + 1),
    "sum": (lambda a: td.sum(a), np.sum),
    "sums of columns": (STREAMS["sums of columns"], lambda a: np.sum(a, axis=0)),
    "percentiles": (STREAMS["percentiles"], lambda a: np.percentile(a, [5.0, 50.0, 95.0])),
}


def of_little(tiny: bool) -> dict[str, Any]:
    """Streams of a file of 256 KiB and one of 4 MiB, which are in the caches of the system: seconds
    of a call after the first, and of NumPy's on the opened file."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for rows in (64,) if tiny else (64, 1024):
            np.save(f"{folder}/a.npy", np.random.default_rng(1).random((rows, 1024), np.float32))
            of = found[f"{rows * 4} KiB"] = {}
            for name, (f, by_numpy) in LITTLE.items():
                compiled = td.jit(f)

                def stream(compiled: Any = compiled) -> Any:
                    return td.stream(compiled, np.load(f"{folder}/a.npy", mmap_mode="r"))

                def plain(by_numpy: Any = by_numpy) -> Any:
                    return by_numpy(np.load(f"{folder}/a.npy", mmap_mode="r"))

                stream()
                of[name] = {"seconds": least(stream, 20), "NumPy": least(plain, 20)}
    return found


def as_for(workers: int) -> AbstractContextManager[Any]:
    """Calls are planned as for so many workers."""
    return patch.object(executable, "threads", lambda: workers)


def planned(f: Callable[..., Any], workers: int, *args: Any) -> Plan:
    with as_for(workers):
        program = td.jit(f).lower(*args)
        plan: Plan = program.executable.plan(args, ())
        return plan


def spread(element: float, plan: Plan) -> Work:
    """Seconds of blocks of which every element takes `element` seconds in all stages."""
    return lambda blocks, n: n * element / len(plan.stages)


def seconds_of_stages(f: Callable[..., Any], given: Any, tasks: Sequence[Any]) -> list[float]:
    """What the tasks of each stage of a call took, of those that the scheduler has noted."""
    program = td.jit(f).lower(given)
    plan: Plan = program.executable.plan([given], ())
    arrays = every_array(plan, [given], program.name)
    # Names of blocks, and of what is cut of their arrays, have the same hash.
    tokens = [HASH.findall(arrays[stage.leaves[0]].name)[-1] for stage in plan.every()]
    found = [0.0] * len(tokens)
    for task in tasks:
        key = task["key"]
        name = key if isinstance(key, str) else key[0]
        took = [s["stop"] - s["start"] for s in task["startstops"] if s["action"] == "compute"]
        for k, token in enumerate(tokens):
            if token in name:
                found[k] += sum(took)
    return found


def zeros(name: str, side: int, chunk: tuple[int, int]) -> Any:
    """The argument of a program; that of the sort is a row."""
    if name == "sort":
        return da.zeros(side * side, chunks=chunk[0] * chunk[1], dtype=np.float32)
    return da.zeros((side, side), chunks=chunk, dtype=np.float32)


def of_clusters(tiny: bool) -> dict[str, Any]:
    """Programs on one thread, and on clusters of one and two processes with one thread each; what
    list scheduling predicts for these, and for many workers."""
    n = 128 if tiny else 4096
    ran = subprocess.run([sys.executable, "-c", ALONE, str(n)], check=True, capture_output=True,
                         text=True, env={**os.environ, "TREADLE_NUM_THREADS": "1"})  # fmt: skip
    alone: dict[str, float] = json.loads(ran.stdout)
    found: dict[str, Any] = {"extent": n, "one thread": alone}
    distributed = importlib.import_module("distributed")
    u = np.random.default_rng(1).random((n, n), dtype=np.float32)
    for workers in (1, 2):
        with cluster(distributed, workers) as client:
            seconds: dict[str, float] = {}
            for name, f in PROGRAMS.items():
                plain = u.reshape(-1) if name == "sort" else u
                chunks = (plain.shape[0] // 8, *plain.shape[1:])
                x = client.persist(da.from_array(plain, chunks=chunks))
                # equal keys would be found again
                others = [client.persist(x + k) for k in range(4)]
                distributed.wait(others)
                split = td.jit(f)
                for plan in range(workers, 3):  # one worker also computes what two would
                    times, stages = [], []
                    with as_for(plan):
                        distributed.wait(split(others[0]).persist())
                        for given in others[1:]:
                            with distributed.get_task_stream(client) as noted:
                                begin = time.perf_counter()
                                distributed.wait(split(given).persist())
                                times.append(time.perf_counter() - begin)
                            stages.append(seconds_of_stages(f, given, noted.data))
                    if plan == workers:
                        seconds[name] = min(times)
                    if workers == 1:
                        of = found.setdefault("stages", {}).setdefault(str(plan), {})
                        of[name] = [min(took) for took in zip(*stages, strict=True)]
            found[f"{workers} workers"] = seconds
            found.setdefault("costs", {})[str(workers)] = costs(client, distributed, tiny)
    return {**found, **of_predictions(found, tiny)}


def of_predictions(found: dict[str, Any], tiny: bool) -> dict[str, Any]:
    """What list scheduling predicts of what was measured on clusters, for these and for more."""
    n: int = found["extent"]
    one, two = found["costs"]["1"], found["costs"]["2"]
    made: dict[str, Any] = {"predicted": {}, "many": {}}
    schedule, task = min(one["task"], two["task"]) / 2, one["task"] / 2
    paid = Costs(schedule, task, max(one["step"] - schedule - task, 0.0), two.get("rate", 4e8),
                 max(one["call"] - schedule - task, 0.0))  # fmt: skip
    made["costs"] = {**found["costs"], "of the prediction": vars(paid)}
    for workers in (1, 2):
        predicted = made["predicted"][f"{workers} workers"] = {}
        for name, f in PROGRAMS.items():
            plan = planned(f, workers, zeros(name, n, (n // 8, n)))
            work = measured(plan, found["stages"][str(workers)][name])
            predicted[name] = simulated(plan, workers, paid, work)
    side = 4096 if tiny else 65536
    for name, f in PROGRAMS.items():
        seconds: dict[str, float] = {}
        tasks: dict[str, int] = {}
        for w in WORKERS:
            plan = planned(f, w, zeros(name, side, (side // 32, side // 32)))
            work = spread(sum(found["stages"]["1"][name]) / n**2, plan)
            seconds[str(w)] = simulated(plan, w, paid, work)
            tasks[str(w)] = sum(count(stage.blocks) for stage in plan.every())
        made["many"][name] = {"seconds": seconds, "tasks": tasks}
    return made


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
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def picture(report: dict[str, Any], path: Path) -> None:
    """Two pictures side by side: seconds predicted and measured on one and two workers; how many
    times as fast as one worker many simulated ones are."""
    found = report["parts"].get("clusters")
    if not found:
        return
    try:
        plt = importlib.import_module("matplotlib.pyplot")
    except ImportError:
        return
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4))
    left.plot([1e-3, 1e3], [1e-3, 1e3], color="0.8", linestyle=":")
    right.plot(WORKERS, WORKERS, color="0.8", linestyle=":", label="ideal")
    times = []
    for name in PROGRAMS:
        of = {w: (found[f"{w} workers"][name], found["predicted"][f"{w} workers"][name])
              for w in (1, 2)}  # fmt: skip
        (line,) = left.plot(*zip(*of.values(), strict=True), linewidth=0.8, label=name)
        for w, (took, expected) in of.items():
            left.plot(took, expected, "o" if w == 1 else "*", color=line.get_color())
            times += [took, expected]
        seconds = found["many"][name]["seconds"]
        right.plot(WORKERS, [seconds["1"] / seconds[str(w)] for w in WORKERS], marker="o",
                   markersize=3, color=line.get_color(), label=name)  # fmt: skip
        right.plot([2], [of[1][0] / of[2][0]], "*", color=line.get_color(), markersize=10)
    left.set(xscale="log", yscale="log", xlim=(min(times) / 2, max(times) * 2),
             ylim=(min(times) / 2, max(times) * 2), xlabel="seconds, measured",
             ylabel="seconds, predicted",
             title=f"{found['extent']:,}², one worker (●) and two (★)")  # fmt: skip
    right.set(xlabel="workers, simulated (★: two, measured)", ylabel="times as fast as one",
              title="65,536²")  # fmt: skip
    right.set_xscale("log", base=2)
    right.set_yscale("log", base=2)
    right.legend(fontsize=8, frameon=False)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130, bbox_inches="tight")
    plt.close(figure)


PAGE = provenance.ROOT / "docs" / "larger.md"
#: Between these marks, the page has what `section` writes.
MARKS = "<!-- measured: begin (python -m benchmarks.larger --page) -->", "<!-- measured: end -->"


def section(report: dict[str, Any], stem: str) -> str:
    """What the page says of a run, whose files have this stem."""
    parts = report["parts"]
    tasks, plans, heat_, streams, little, clusters = (
        parts[name] for name in ("tasks", "plans", "heat", "streams", "little", "clusters")
    )
    results = f"../benchmarks/results/{stem}"

    def rows(head: str, lines: Sequence[Sequence[Any]]) -> list[str]:
        cells = [[_figures(c) if isinstance(c, float) else str(c) for c in line] for line in lines]
        columns = head.count("|") + 1
        return [f"| {head} |", "| --- " * columns + "|",
                *(f"| {' | '.join(line)} |" for line in cells), ""]  # fmt: skip

    where = f"{report['device']['cpu']}, {report['device']['cores']} cores"
    lines = [
        f"`python -m benchmarks.larger` on {report['date']} ({where}; load average "
        f"{report['load']:.1f}; [all numbers]({results}.md)). A task of a small chunk takes "
        f"{1e3 * tasks['treadle']:.2f} ms on threads, one of dask.array "
        f"{1e3 * tasks['dask.array']:.2f} ms.",
        "",
        *rows("graph | chunks | seconds | MB | tasks per chunk",
              [(_PLANS[who], f"{p['chunks']:,}", p["seconds"], round(p["bytes"] / 1e6),
                f"{p['tasks']:.1f}") for who, p in plans.items()]),
        f"100 iterations of `heat` on {heat_['extent']:,}² (float32), with equal bits:",
        "",
        *rows("where | seconds",
              [("one process, all threads", heat_["one process"]),
               ("one process, one thread", clusters["one thread"]["heat, 100 iterations"]),
               ("dask, threads", heat_["dask, threads"]),
               *((f"`LocalCluster`, {word}", clusters[f"{w} workers"]["heat, 100 iterations"])
                 for w, word in ((1, "one worker"), (2, "two workers"))),
               ("`map_overlap` and NumPy, threads", heat_["map_overlap, threads"])]),
        f"Five programs on {clusters['extent']:,}² on clusters of one and two workers with a "
        "thread each, and what list scheduling predicts of the seconds of the tasks of every stage "
        "on one worker, and of the costs measured for the start of a call "
        f"({1e3 * clusters['costs']['of the prediction']['start']:.1f} ms), for a trivial task "
        f"({1e3 * clusters['costs']['1']['task']:.1f} ms), for one that waits for another, and for "
        "bytes from one worker to another. For up to 1,024 workers there is only the prediction:",
        "",
        f"![Seconds predicted and measured; speedup on simulated workers]({results}.png)",
        "",
        *rows("seconds | one worker | predicted | two workers | predicted",
              [(name, *(clusters[key][f"{w} workers"][name] if key else
                        clusters[f"{w} workers"][name]
                        for w in (1, 2) for key in ("", "predicted"))) for name in PROGRAMS]),
        f"Streams of {streams['file'] >> 20} MiB with `memory` of {streams['memory'] >> 20} MiB, "
        "beside reading all of the file (and writing as much, if the result is as large) by "
        "`preadv` and `pwrite` of 4 MiB: from the disk alone, and with files that the caches of "
        "the system have.  Share: of the rate of these reads and writes.",
        "",
        *rows("program | disk, plain | disk, seconds | share | cached, plain | cached, seconds "
              "| share | memory, MiB",
              [(name, *(of[f"{state}, {what}"] for state in ("disk", "cached")
                        for what in ("plain", "seconds", "share of the rate")), of["peak"] >> 20)
               for name in STREAMS for of in (streams[name],)]),
        "Streams of little data, in the caches of the system, and NumPy on the same opened file:",
        "",
        *rows("milliseconds | " + " | ".join(f"{size} | NumPy" for size in little),
              [(name, *(1e3 * of[name][who] for of in little.values()
                        for who in ("seconds", "NumPy"))) for name in LITTLE]),
    ]  # fmt: skip
    return "\n".join(lines).rstrip()


_PLANS = {"threads": "stencil, threads", "processes": "stencil, processes, chunks of 4 MB",
          "scan": "scan of a row, threads", "dask.array": "stencil, dask.array's `map_overlap`",
          }  # fmt: skip


def _figures(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def write_files(report: dict[str, Any], path: Path) -> None:
    """A run as JSON, tables and a picture."""
    provenance.write_results(path, table(report), report)
    picture(report, path.with_suffix(".png"))


def write_page(source: Path) -> None:
    """The page with the numbers of a run between the marks; its files among the results."""
    report = json.loads(source.read_text(encoding="utf-8"))
    write_files(report, provenance.ROOT / "benchmarks" / "results" / source.name)
    text = PAGE.read_text(encoding="utf-8")
    part = f"\n{section(report, source.stem)}\n"
    PAGE.write_text(provenance.replaced(text, MARKS, part), encoding="utf-8")


def main(argv: list[str] | None = None) -> int:
    """The command; the exit status is 1 if bits differ."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.larger")
    parser.add_argument("--tiny", action="store_true", help="tiny data: checks the results")
    parser.add_argument("--only", action="append", default=[], metavar="PART")
    parser.add_argument("--out", type=Path, metavar="FILE.json")
    parser.add_argument("--page", type=Path, metavar="FILE.json", help="of a run: write the page")
    options = parser.parse_args(argv)
    if options.page:
        write_page(options.page)
        return 0
    parts: dict[str, Any] = {}
    measures: dict[str, Callable[[], dict[str, Any]]] = {
        "tasks": lambda: of_tasks(options.tiny),
        "plans": lambda: of_plans(options.tiny),
        "heat": lambda: of_heat(options.tiny),
        "clusters": lambda: of_clusters(options.tiny),
        "streams": lambda: of_streams(options.tiny),
        "little": lambda: of_little(options.tiny),
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
            write_files(report, options.out)
    return int(not parts.get("heat", {}).get("same bits", True))


if __name__ == "__main__":
    raise SystemExit(main())
