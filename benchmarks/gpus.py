"""Measures treadle on 1, 2, 4, 8 GPUs of one host, beside JAX's own sharding.

    python -m benchmarks.gpus [--quick] [--only NAME] [--budget 200] [--out FILE.json]

For every program: seconds of a call on arrays that stay on the GPUs, on one GPU and on all counts
of GPUs that there are, and what the model of several GPUs predicts from the time on one and from
what is measured in the same run: the rate at which all GPUs exchange data, and what calls on next
to no data take.  More GPUs than there are, up to 8, have the prediction only.  Results on several
GPUs are compared with those on one, bit by bit.  Writes JSON, a table in Markdown, and a picture,
the first two after each program.

JAX, if it is installed, measures each program after treadle, in a process of its own.  If it gives
no result within `--patience` seconds, which include the time to compile, the process is ended, and
another one measures the next program.  NVLink multicast is off.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import importlib.util
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

import treadle as td
from benchmarks import provenance
from treadle.backend.blocks.loops import spans
from treadle.backend.cuda import executable
from treadle.backend.cuda.several.engine import ELEMENT, EXCHANGE, PIECES, QUEUE, engine
from treadle.dsl.process.configuration import settings

HERE = Path(__file__).resolve().parent
PACKAGES = ("treadle", "numpy", "cupy-cuda13x", "cupy-cuda12x", "cuda-core", "jax", "jaxlib")
ITERATIONS, BINS = 100, 256
COUNTS = (1, 2, 4, 8)


# --- the programs ---------------------------------------------------------------------------------


def heat(u: Any) -> Any:
    def euler(w: Any) -> Any:
        near = w[-1, 0] + w[1, 0] + w[0, -1] + w[0, 1]
        return w[0, 0] + np.float32(0.2) * (near - 4 * w[0, 0])

    return td.iterate(ITERATIONS, lambda u: td.stencil(euler, u, boundary=td.clamp), u)


def counts(a: Any) -> Any:
    return td.bincount(td.cast(a * np.float32(BINS), td.int32).ravel(), length=BINS)


@dataclass(frozen=True)
class Model:
    """What the machine does, by numbers of GPUs; between and beyond those that were measured, what
    lies on a line through two of them.

    `memory`: bytes per second that one GPU reads; `exchange`: that each gets from all others at
    once; `call`: seconds of a call on next to no data; `gather`: of one whose results one GPU
    combines.
    """

    memory: float
    exchange: dict[int, float]
    call: dict[int, float]
    gather: dict[int, float]

    def at(self, what: dict[int, float], d: int) -> float:
        """A number for `d` GPUs."""
        if d in what or len(what) < 2:
            return what.get(d, next(iter(what.values()), 1e12))
        *_, low, high = sorted(what)
        return what[low] + (d - low) * (what[high] - what[low]) / (high - low)

    def rate(self, d: int) -> float:
        """Bytes per second that each of `d` GPUs gets."""
        return self.exchange.get(d) or min(self.exchange.values(), default=1e12)


def sharing_of_loop(n: int, d: int, one: float, model: Model, columns: int = 0) -> float:
    """The model of `blocks/loops.py`: what is computed twice, and exchanges between windows."""
    if d == 1:
        return one
    rows = n // d
    host = engine(settings(), d, 1 << 36)
    each = rows * (columns or n) * ELEMENT
    windows = spans(ITERATIONS, rows, each, 1 / rows, host.overhead, host, True)
    halos = sum(k * k for k in windows) / 2 * min(d - 1, 2)
    work = one / d * (1 + halos / ITERATIONS / rows)
    return max(work + len(windows) * EXCHANGE, len(windows) * d * QUEUE) + model.at(model.call, d)


@dataclass(frozen=True)
class Work:
    """A program of float32 arrays of n × n elements, or of n.

    `predicted(n, d, seconds on one GPU, model)`; `weak`: the extents of d GPUs, if not
    those of one; `exact`: whether the bits must be those of one GPU.
    """

    name: str
    run: Callable[..., Any]
    shapes: Callable[[int], Sequence[tuple[int, ...]]]
    n: int
    quick: int
    tiny: int
    predicted: Callable[[int, int, float, Model], float]
    by_jax: str
    weak: bool = False
    exact: bool = True
    type: Any = np.float32

    def longer(self, d: int) -> Work:
        """The same with arrays `d` times as long along the first axis."""
        shapes = self.shapes
        return replace(self, shapes=lambda n: [(s[0] * d, *s[1:]) for s in shapes(n)])


def square(n: int) -> list[tuple[int, ...]]:
    return [(n, n)]


def two(n: int) -> list[tuple[int, ...]]:
    return [(n, n), (n, n)]


def line(n: int) -> list[tuple[int, ...]]:
    return [(n,)]


def _alone(n: int, d: int, one: float, model: Model) -> float:
    return one if d == 1 else one / d + model.at(model.call, d)


def _gathered(n: int, d: int, one: float, model: Model) -> float:
    return one if d == 1 else one / d + model.at(model.gather, d)


def _twice(n: int, d: int, one: float, model: Model) -> float:
    """A scan along the cut axis: elements are read for the totals of parts, and again."""
    if d == 1:
        return one
    read = 4 * n / d / model.memory
    return read + one / d + model.at(model.gather, d) + model.at(model.call, d)


def _all_to_all(n: int, d: int, one: float, model: Model) -> float:
    """All but the last piece is computed while others are copied."""
    if d == 1:
        return one
    moved = 4 * n * n / d * (d - 1) / d
    return moved / model.rate(d) + one / d / PIECES + model.at(model.call, d)


def _product(n: int, d: int, one: float, model: Model) -> float:
    return one if d == 1 else one / d + 4 * n * n * (d - 1) / d / model.rate(d)


WORKS = (
    Work("stencil loop", heat, square, 16384, 4096, 48, sharing_of_loop, "heat"),
    Work("stencil loop, weak", heat, square, 16384, 4096, 48,
         lambda n, d, one, model: sharing_of_loop(n * d, d, one * d, model, n), "heat", weak=True),
    Work("sum", td.sum, square, 32768, 8192, 160, _gathered, "sum"),
    Work("sums of rows", lambda a: td.sum(a, axis=1), square, 32768, 8192, 48, _alone, "rows"),
    Work("histogram", counts, square, 32768, 8192, 48, _gathered, "histogram"),
    Work("scan of integers", td.cumsum, line, 1 << 30, 1 << 26, 3000, _twice, "scan",
         type=np.int32),
    Work("scans of rows", lambda a: td.cumsum(a, axis=1), square, 32768, 8192, 48, _alone,
         "scans of rows", exact=True),
    Work("transposition", lambda a: a.T, square, 32768, 8192, 48, _all_to_all, "transpose"),
    Work("product", lambda a, b: td.matmul(a, b, algorithm="standard"), two, 32768, 4096, 24,
         _product, "product", exact=False),
    Work("product, one Strassen level", lambda a, b: td.strassen(a, b, levels=1), two, 32768, 4096,
         32, _product, "", exact=False),
    Work("stencil loop, large", heat, square, 65536, 8192, 64, sharing_of_loop, ""),
)  # fmt: skip


# --- measuring ------------------------------------------------------------------------------------


def data(work: Work, n: int, d: int) -> list[Any]:
    """Arrays on `d` GPUs, made there."""
    made = []
    for k, shape in enumerate(work.shapes(n)):
        rows, *rest = shape

        def element(*index: Any, k: int = k) -> Any:
            mixed = index[0] * 7919
            for i in index[1:]:
                mixed = mixed + i * 104729
            number = td.rem(mixed * (k + 1), 4099)
            if work.type == np.int32:
                return td.cast(number, td.int32) - 2049
            return td.cast(number, td.float32) * np.float32(1 / 4100)

        def fill(rows: Any, rest: Any = tuple(rest), element: Any = element) -> Any:
            return td.generate((rows, *rest), element)

        made += [td.jit(fill, backend="cuda", devices=d)(rows)]
    return [m if isinstance(m, td.Sharded) else td.shard(m, d) for m in made]


def seconds(call: Callable[[], Any], budget: float) -> list[float]:
    """Times of a call, after one that compiles and, of short ones, one that builds graphs."""
    call()
    started = perf_counter()
    call()
    found = [perf_counter() - started]
    if found[0] < budget:
        found.clear()
    while not found or (
        len(found) < 50 and perf_counter() - started < budget * (1 if len(found) > 2 else 5)
    ):
        before = perf_counter()
        call()
        found.append(perf_counter() - before)
    return found


def mismatches(found: td.Sharded, wanted: td.Sharded, d: int) -> int:
    """Elements that have other bits than those of one GPU."""
    word = td.uint32 if found.dtype.itemsize == 4 else td.uint64

    def differing(a: Any, b: Any) -> Any:
        return td.sum(td.cast(td.bitcast(a, word) != td.bitcast(b, word), td.int64))

    if not found.shape or found.nbytes < 1 << 16:
        return int((np.asarray(found) != np.asarray(wanted)).sum())
    again = td.shard(wanted.parts[0], d)
    return int(np.asarray(td.jit(differing, backend="cuda", devices=d)(found, again)))


def exchange(d: int, size: int) -> float:
    """Bytes per second that every GPU receives while each sends a part to each other one."""
    peers = executable.peers_of(range(d))
    part = np.dtype(np.uint8), (size // d,)
    sources, targets = [], []
    for k in range(d):
        with peers.on(k):
            sources.append([peers.empty(part[1], part[0]) for _ in range(d)])
            targets.append([peers.empty(part[1], part[0]) for _ in range(d)])

    def once() -> None:
        for j in range(1, d):  # in rounds, as running.py
            for k in range(d):
                with peers.on(k):
                    other = (k + j) % d
                    peers.copy(targets[k][other], sources[other][k])
        for k in range(d):
            with peers.on(k):
                peers.wait()

    return size // d * (d - 1) / min(seconds(once, 0.2))


@dataclass
class Line:
    """One program on one number of GPUs."""

    work: str
    n: int
    devices: int
    seconds: float
    median: float
    predicted: float
    speedup: float
    same_bits: bool | None
    #: Seconds that JAX needs, or why that is not known.
    jax: float | str | None = None
    error: str = ""


def model_of(counted: Sequence[int], tiny: bool) -> Model:
    """What the machine does, measured."""

    def call(f: Callable[[Any], Any], d: int, size: int) -> float:
        (given,) = data(replace(WORKS[2], shapes=line), size, d)
        compiled = td.jit(f, backend="cuda", devices=d)
        found = min(seconds(lambda: compiled(given).wait(), 0.0 if tiny else 0.05))
        _free(d)
        return found

    few, many = (1 << 10, 1 << 10) if tiny else (1 << 18, 1 << 28)
    return Model(
        4 * many / call(td.sum, 1, many),
        {d: exchange(d, 1 << 16 if tiny else 1 << 30) for d in counted if d > 1},
        {d: call(lambda a: a + a, d, few) for d in counted},
        {d: call(td.sum, d, few * d) for d in counted},
    )


def measured(work: Work, n: int, counted: Sequence[int], model: Model, budget: float,
             left: Callable[[], float]) -> list[Line]:  # fmt: skip
    """A program on every number of GPUs, `budget` seconds each."""
    lines: list[Line] = []
    wanted: td.Sharded | None = None
    one = 0.0
    for d in counted:
        if left() < 0:
            break
        try:
            arrays = data(work.longer(d) if work.weak else work, n, d)
            compiled = td.jit(work.run, backend="cuda", devices=d)
            held: list[Any] = [None]

            def call(compiled: Any = compiled, arrays: Any = arrays, held: Any = held) -> None:
                held[0] = None
                held[0] = compiled(*arrays)
                held[0].wait()

            times = seconds(call, budget)
            same = None
            if d == 1:
                one, wanted = min(times), None if work.weak else held[0]
            elif wanted is not None:
                same = mismatches(held[0], wanted, d) == 0
            factor = d * one / min(times) if work.weak else one / min(times)
            lines.append(
                Line(
                    work.name,
                    n,
                    d,
                    min(times),
                    median(times),
                    work.predicted(n, d, one, model),
                    factor,
                    same,
                )
            )
        except td.TreadleError as error:
            lines.append(
                Line(work.name, n, d, 0, 0, 0, 0, None, error=str(error).partition("\n")[0])
            )
        arrays = held = []
        call = compiled = None  # type: ignore[assignment]
        gc.collect()
        _free(d)
    return lines


def _free(d: int) -> None:
    """Give memory back, which the next program may need on other GPUs."""
    try:
        cupy = importlib.import_module("cupy")
    except ImportError:
        return
    for k in range(d):
        with cupy.cuda.Device(k):
            cupy.get_default_memory_pool().free_all_blocks()


# --- JAX ------------------------------------------------------------------------------------------


def jax_worker() -> None:
    """Measure what lines of the standard input ask for: the name of a program, its extents, and the
    number of GPUs.  A line of the standard output for each: seconds, or what went wrong."""
    jax = importlib.import_module("jax")
    jnp = importlib.import_module("jax.numpy")
    sharding = importlib.import_module("jax.sharding")

    def step(_: Any, u: Any) -> Any:
        p = jnp.pad(u, 1, mode="edge")
        near = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]
        return u + np.float32(0.2) * (near - 4 * u)

    programs = {
        "heat": lambda u: jax.lax.fori_loop(0, ITERATIONS, step, u),
        "sum": jnp.sum,
        "rows": lambda a: jnp.sum(a, axis=1),
        "histogram": lambda a: jnp.zeros(BINS, jnp.int32).at[
            (a * np.float32(BINS)).astype(jnp.int32).ravel()].add(1),
        "scan": jnp.cumsum,
        "scans of rows": lambda a: jnp.cumsum(a, axis=1),
        "transpose": lambda a: a.T,
        "product": lambda a, b: jnp.matmul(a, b, precision="highest"),
    }  # fmt: skip

    def once(work: Work, n: int, d: int) -> float:
        mesh = sharding.Mesh(np.array(jax.devices()[:d]), ("x",))
        rows = {r: sharding.NamedSharding(mesh, sharding.PartitionSpec("x", *[None] * (r - 1)))
                for r in (1, 2)}  # fmt: skip
        arrays = []
        for shape in work.shapes(n):
            make = jax.jit(partial(jnp.full, shape, 0.25, work.type),
                           out_shardings=rows[len(shape)])  # fmt: skip
            arrays.append(make())
        out = jax.eval_shape(programs[work.by_jax], *arrays)
        more = {"out_shardings": rows[out.ndim]} if out.ndim and out.shape[0] >= d else {}
        compiled = jax.jit(programs[work.by_jax], **more)
        return min(seconds(lambda: jax.block_until_ready(compiled(*arrays)), 0.2))

    print(json.dumps(len(jax.devices())), flush=True)
    for line in sys.stdin:
        name, n, d = json.loads(line)
        (work,) = [w for w in WORKS if w.name == name]
        found: float | str
        try:
            found = once(work.longer(d) if work.weak else work, n, d)
        except Exception as error:  # out of memory, or no such program
            found = str(error).strip().partition("\n")[0][:120] or type(error).__name__
        gc.collect()
        print(json.dumps(found), flush=True)


class Jax:
    """`jax_worker` in a process, which is started when something is asked, and again after it has
    taken too long."""

    def __init__(self, patience: float, command: Sequence[str] | None = None) -> None:
        self.patience = patience
        self.command = command or [sys.executable, "-m", "benchmarks.gpus", "--jax-worker"]
        self.process: subprocess.Popen[str] | None = None
        self.lines: queue.Queue[str] = queue.Queue()
        self.works = importlib.util.find_spec("jax") is not None or command is not None

    def _start(self) -> bool:
        """Whether the process is there; importing JAX has a minute."""
        if self.process is None and self.works:
            more = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "NCCL_NVLS_ENABLE": "0"}
            self.process = process = subprocess.Popen(
                self.command, cwd=HERE.parent, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, text=True, env={**os.environ, **more},
            )  # fmt: skip
            lines = self.lines = queue.Queue[str]()

            def read() -> None:
                assert process.stdout is not None
                for line in process.stdout:
                    lines.put(line)
                lines.put("")

            threading.Thread(target=read, daemon=True).start()
            self.works = self._line(60.0) != ""
            if not self.works:
                self.stop()
        return self.process is not None

    def _line(self, patience: float) -> str | None:
        """The next line; "" after the last one, None if there is none within some seconds."""
        try:
            return self.lines.get(timeout=patience)
        except queue.Empty:
            return None

    def ask(self, work: Work, n: int, d: int) -> float | str | None:
        """Seconds of a program, or why there is no result; None without JAX."""
        if not work.by_jax or not self._start():
            return None
        assert self.process is not None and self.process.stdin is not None
        self.process.stdin.write(json.dumps([work.name, n, d]) + "\n")
        self.process.stdin.flush()
        line = self._line(self.patience)
        if line:
            found: float | str = json.loads(line)
            return found
        self.stop()
        return "the process ended" if line == "" else f"no result within {self.patience:g} s"

    def stop(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


# --- reports --------------------------------------------------------------------------------------


def table(report: dict[str, Any]) -> str:
    """The report in Markdown."""
    rows = ["| program | extents | GPUs | ms | predicted | speed-up | bits of one GPU | JAX, ms |",
            "| --- | --- | --- | --- | --- | --- | --- | --- |"]  # fmt: skip
    order = list(dict.fromkeys(x["work"] for x in report["lines"]))
    every = sorted([*report["lines"], *report.get("predicted", ())],
                   key=lambda x: (order.index(x["work"]), x["devices"]))  # fmt: skip
    for x in every:
        if "seconds" not in x:
            rows.append(
                f"| {x['work']} | {x['n']:,} | {x['devices']} | not measured | "
                f"{x['predicted'] * 1e3:.2f} | predicted: {x['speedup']:.2f} × | | |"
            )
            continue
        if x["error"]:
            rows.append(f"| {x['work']} | {x['n']:,} | {x['devices']} | {x['error']} | | | | |")
            continue
        bits = {None: "", True: "yes", False: "no"}[x["same_bits"]]
        jax = x["jax"] or ""
        jax = jax if isinstance(jax, str) else f"{jax * 1e3:.2f}"
        rows.append(
            f"| {x['work']} | {x['n']:,} | {x['devices']} | {x['seconds'] * 1e3:.2f} | "
            f"{x['predicted'] * 1e3:.2f} | {x['speedup']:.2f} × | {bits} | {jax} |"
        )
    rates = ", ".join(f"{d} GPUs {r / 1e9:.0f} GB/s" for d, r in report["exchange"].items())
    heading = f"# Several GPUs\n\n{provenance.describe(report['device'])}; {report['date']}.\n\n"
    what = "Every GPU receives from all others at once: " + (rates or "not measured") + ".\n\n"
    return heading + what + "\n".join(rows) + "\n"


def picture(report: dict[str, Any], path: Path) -> None:
    """For each program a bar for each number of GPUs: how many times as fast as one."""
    try:
        plt = importlib.import_module("matplotlib.pyplot")
    except ImportError:
        return
    lines = [x for x in report["lines"] if not x["error"]]
    counted = sorted({x["devices"] for x in lines} - {1})
    if not counted:
        return
    names = list(dict.fromkeys(x["work"] for x in lines))
    most, height = counted[-1], 0.8 / len(counted)
    figure, axes = plt.subplots(figsize=(9, 0.62 * len(names) + 1.4))
    shades = plt.get_cmap("Blues")(np.linspace(0.4, 0.85, len(counted)))
    for d, shade in zip(counted, shades, strict=True):
        axes.axvline(d, color=shade, linestyle=":", zorder=0)
    for k, name in enumerate(names):
        mine = {x["devices"]: x for x in lines if x["work"] == name}
        one = mine[1]["seconds"]
        for n, (d, shade) in enumerate(zip(counted, shades, strict=True)):
            if d not in mine:
                continue
            place = k + (n - (len(counted) - 1) / 2) * height
            speed = mine[d]["speedup"]
            axes.barh(place, speed, 0.9 * height, color=shade, label=f"{d} GPUs" if not k else None)
            axes.plot([speed * mine[d]["seconds"] / mine[d]["predicted"]], [place], "|",
                      color="black", markersize=60 * height / 2,
                      label="predicted" if not k and d == most else None)  # fmt: skip
        last = mine[max(mine)]
        text = f"{_three(one)} → {_three(last['seconds'])} ms"
        if isinstance(last["jax"], float):
            text += f" (JAX {_three(last['jax'])})"
        axes.text(1.02 * most + 0.45, k, text, va="center", fontsize=8)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlim(0, most + 0.4)
    axes.set_xticks(range(most + 1))
    axes.set_xlabel(f"times as fast as one GPU; on the right, ms on 1 and on {most} GPUs")
    axes.legend(fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, frameon=False)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.savefig(path, dpi=130, bbox_inches="tight")
    plt.close(figure)


def _three(seconds: float) -> str:
    """Milliseconds, three digits of them."""
    return f"{seconds * 1e3:#.3g}" if seconds < 0.9995 else f"{seconds * 1e3:,.0f}"


def main(argv: list[str] | None = None) -> int:
    """The command; the exit status is 1 if bits differ where they must not."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpus")
    parser.add_argument("--quick", action="store_true", help="smaller data")
    parser.add_argument("--tiny", action="store_true", help="tiny data: checks the results")
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--most", type=int, default=0, help="GPUs at most")
    parser.add_argument("--budget", type=float, default=200.0, help="seconds in all")
    parser.add_argument("--no-jax", action="store_true")
    parser.add_argument("--patience", type=float, default=20.0, help="seconds for a program of JAX")
    parser.add_argument("--out", type=Path, metavar="FILE.json")
    parser.add_argument("--jax-worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.jax_worker:
        jax_worker()
        return 0
    global ITERATIONS
    ITERATIONS = 9 if options.tiny else ITERATIONS
    started = perf_counter()
    device, there = _machine()
    counted = [d for d in COUNTS if d <= (options.most or there) and d <= there]
    works = [w for w in WORKS if not options.only or any(o in w.name for o in options.only)]
    sizes = {w.name: w.tiny if options.tiny else w.quick if options.quick else w.n for w in works}
    model = model_of(counted, options.tiny)
    lines: list[Line] = []
    more: list[dict[str, Any]] = []
    jax = Jax(options.patience)

    def left() -> float:
        return float(options.budget - (perf_counter() - started))

    def write() -> dict[str, Any]:
        report = {
            "date": datetime.now(UTC).date().isoformat(), "device": device,
            "budget": options.budget, "took": perf_counter() - started,
            "versions": provenance.versions(PACKAGES), **provenance.commit(), **vars(model),
            "lines": [vars(x) for x in lines], "predicted": more,
        }  # fmt: skip
        if options.out:
            options.out.parent.mkdir(parents=True, exist_ok=True)
            options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
            options.out.with_suffix(".md").write_text(table(report), encoding="utf-8")
        return report

    for work in works:
        made = measured(work, sizes[work.name], counted, model, 0.0 if options.tiny else 0.4, left)
        for line in made:
            if not options.no_jax and left() > 0:
                none = any(isinstance(x.jax, str) for x in made)  # nor on more GPUs
                line.jax = "not tried" if none else jax.ask(work, line.n, line.devices)
            print(f"{line.work:30s} {line.devices} GPUs {line.seconds * 1e3:10.3f} ms "
                  f"(predicted {line.predicted * 1e3:10.3f}) {line.speedup:5.2f} × "
                  f"{line.same_bits} JAX {line.jax} {line.error}", flush=True)  # fmt: skip
        lines += made
        one = made[0].seconds if made else 0.0
        for d in [d for d in COUNTS if d > max(counted) and one]:
            found = work.predicted(sizes[work.name], d, one, model)
            speed = one / found * (d if work.weak else 1)
            more.append({"work": work.name, "n": sizes[work.name], "devices": d,
                         "predicted": found, "speedup": speed})  # fmt: skip
        write()
    jax.stop()
    report = write()
    print(table(report))
    if options.out:
        picture(report, options.out.with_suffix(".png"))
    must = {w.name for w in works if w.exact}
    return int(any((x.same_bits is False and x.work in must) or x.error for x in lines))


def _machine() -> tuple[dict[str, Any], int]:
    """The GPUs, and how many there are."""
    try:
        cupy = importlib.import_module("cupy")
    except ImportError:
        return {**provenance.processor(), "count": 2}, 2  # pretended ones, in tests
    from benchmarks.gpu import device

    count = cupy.cuda.runtime.getDeviceCount()
    return {**device(), "count": count}, count


if __name__ == "__main__":
    raise SystemExit(main())
