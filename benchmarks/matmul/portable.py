"""The engines without instructions of Hopper, on a Hopper GPU.

By `python -m benchmarks.matmul.portable --out FOLDER`.

Kernels are compiled by nvcc as PTX for compute capability 8.0, and to machine code of this GPU, so
they have cp.async, mbarriers, ldmatrix and mma.sync, and nothing newer.  In one run of about a
minute and a half: products of small integers, which must be exact, in every layout and mode; times
beside cuBLAS and the engines of Hopper, of several configurations of tiles and stages; then
racecheck and memcheck of a product of each.  Results: portable-gpu-<date>.json, its table, and
portable.log.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import product
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from benchmarks import provenance
from benchmarks.matmul.tensor import recorded, replayed, timed
from treadle.backend.cuda.compile.nvrtc import Cubin
from treadle.backend.cuda.products.engine import Engine
from treadle.backend.cuda.products.form import FORMS, half_form, text
from treadle.backend.cuda.products.launching import Matrix
from treadle.skeletons.products import STRASSEN

RESULTS = Path(__file__).resolve().parents[1] / "results"
BUILD = Path(tempfile.gettempdir()) / "treadle-portable"
SIZES = (2048, 4096, 8192)
#: Launches in a graph of a half product.
CALLS = 5


def half(name: str, columns: int, step: int, stages: int) -> str:
    """A portable form of 16-bit floats, among `FORMS`."""
    FORMS[name] = half_form(name, columns, True, step, stages)
    return name


#: Float32 forms, with the modes that are timed: of the standard product, of one level.
FLOATS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "Float32Portable": (("owner", "split", "atomic"), ("owner", "persistent", "atomic")),
}
OF_HALVES = tuple(name for name, form in FORMS.items() if form.copies and form.itemsize == 2)
HALVES = (
    *OF_HALVES,
    half("Float16 256, 4 of 32", 256, 32, 4),
    half("Float16 256, 6 of 32", 256, 32, 6),
    half("Float16 256, 4 of 64", 256, 64, 4),
    half("Float16 128, 4 of 32", 128, 32, 4),
)
#: Those whose products are checked.
CHECKED = ("Float32Portable", *OF_HALVES)
HOPPER = {"Float32": (("split",), ("atomic", "persistent")), "Float16": (), "BFloat16": ()}
SHAPES = ((1, 1, 1), (7, 9, 130), (128, 64, 256), (129, 65, 257), (300, 1000, 200), (64, 4097, 17),
          (1000, 8, 1000), (513, 127, 1), (2048, 512, 2048))  # fmt: skip


def sources() -> dict[str, str]:
    """What tells versions of the kernels apart, where no repository is: hashes of their texts."""
    names = ("f32_matmul.cu", "half_matmul.cu")
    return {name: hashlib.sha256(text(name).encode()).hexdigest()[:16] for name in names}


class Place(NamedTuple):
    """Where products are computed: what brings an array of NumPy there and back, and describes a
    matrix there."""

    put: Callable[[Any], Any]
    get: Callable[[Any], Any]
    matrix: Callable[[Any], Matrix]


def gpu() -> Place:
    import torch

    return Place(
        lambda x: torch.from_numpy(x).cuda(),
        lambda x: x.cpu().numpy(),
        lambda x: Matrix(x.data_ptr(), *x.shape, *x.stride(), x.element_size()),
    )


class Portable(Engine):
    """An engine whose kernels have no instruction of Hopper; `checked`: for racecheck."""

    def __init__(self, device: Any, checked: bool = False) -> None:
        super().__init__(device)
        self.checked, self.pending = checked, False
        self.kernels: dict[str, dict[str, int]] = {}
        self.locks: dict[str, Lock] = {}

    def compiled(self, code: Any, name: str, shared: int) -> Cubin:
        number = self.device.arch[3:].rstrip("a")
        more = ["-DTILE_EVERY_LANE_ARRIVES=1", "-lineinfo"] if self.checked else []
        command = ["nvcc", f"-gencode=arch=compute_80,code=sm_{number}", "-cubin", "-std=c++17",
                   "-fmad=false", "-Xptxas", "-v", *more]  # fmt: skip
        source = code.source()
        key = hashlib.sha256(repr((source, command)).encode()).hexdigest()[:24]
        made = BUILD / f"{key}.cubin"
        with self.locks.setdefault(key, Lock()):
            if not made.exists():
                BUILD.mkdir(parents=True, exist_ok=True)
                written = BUILD / f"{key}.cu"
                written.write_text(source, encoding="utf-8")
                new = BUILD / f"{key}.new"
                done = subprocess.run([*command, str(written), "-o", str(new)], capture_output=True,
                                      text=True, check=False)  # fmt: skip
                if done.returncode:
                    raise RuntimeError(done.stderr)
                (BUILD / f"{key}.log").write_text(done.stderr, encoding="utf-8")
                new.rename(made)
        log = (BUILD / f"{key}.log").read_text(encoding="utf-8")
        registers = int(re.findall(r"Used (\d+) registers", log)[0])
        spills = int(re.findall(r"(\d+) bytes spill stores", log)[0])
        form = FORMS[code.arithmetic].arithmetic
        self.kernels[f"{form} {code.left}{code.right} {code.vector} {code.mode} {code.terms}"] = {
            "registers": registers, "spills": spills}  # fmt: skip
        return Cubin(name, self.device.arch, made.read_bytes(), source, registers, spills, 0, 0,
                     shared)  # fmt: skip

    def load(self, what: Any, name: str, threads: int, shared: int) -> Any:
        if isinstance(what, tuple):  # sums in memory
            return super().load(what, name, threads, shared)
        found = self._loaded.get(what)
        if found is None:
            made = self.compiled(what, name, shared)
            if self.pending:
                raise _Compiled
            found = self._loaded[what] = self.device.load(made, threads)
        return found


class _Compiled(Exception):
    """The kernel of a job exists now."""


def job(engine: Engine, place: Place, form: str, level: int, mode: str, out: Any, a: Any, b: Any
        ) -> Callable[[], None]:  # fmt: skip
    """A product, which keeps its operands and its result."""

    def run() -> None:
        p, q, r = map(place.matrix, (a, b, out))
        if level:
            engine.product(r, p, q, mode, form, STRASSEN, 1)
        else:
            engine.standard(r, p, q, mode, form)

    return run


def compile_all(engine: Portable, jobs: list[Callable[[], None]]) -> None:
    """Compiles the kernels of jobs on all cores, without running them."""

    def one(run: Callable[[], None]) -> None:
        with suppress(_Compiled):
            run()

    engine.pending = True
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(one, jobs))
    engine.pending = False


class Check(NamedTuple):
    """A product, its result with a margin of one row, and what it must be."""

    name: str
    run: Callable[[], None]
    out: Any
    want: Any


MARGIN = 77


def checks(engine: Engine, place: Place, forms: Sequence[str] = CHECKED, shapes: Any = SHAPES,
           layouts: Sequence[int] = range(4)) -> list[Check]:  # fmt: skip
    """Products of small integers; bits of a layout: which operands are transposed.

    What is beside the lines of operands must not matter: it is NaN.
    """
    import ml_dtypes

    made = []
    rng = np.random.default_rng(1)
    for form in forms:
        t: Any = {"float32": "f4", "float16": "f2"}.get(FORMS[form].types[0], ml_dtypes.bfloat16)
        bits = f"i{np.dtype(t).itemsize}"  # not every library knows bfloat16
        ways = ((0, "owner"),)
        if t == "f4":
            ways += ((0, "split"), (1, "owner"), (1, "atomic"), (1, "persistent"))  # type: ignore[assignment]
        for m, k, n in shapes:
            x, y = (rng.integers(-2, 3, s).astype("f4") for s in ((m, k), (k, n)))
            x[:, 8:] *= rng.random(max(k - 8, 0)) < 0.1
            want = (x @ y).astype(t)
            for layout, pad in product(layouts, (0, 3)):
                sides = []
                for side, v in enumerate((x, y)):
                    v = v.T if layout >> side & 1 else v
                    room = np.full((v.shape[0], -(-v.shape[1] // 8) * 8 + pad), np.nan, t)
                    room[:, : v.shape[1]] = v
                    there = place.put(room.view(bits))[:, : v.shape[1]]
                    sides.append(there.T if layout >> side & 1 else there)
                for level, mode in ways:
                    out = place.put(np.full((m + 1, n), MARGIN, t).view(bits))
                    name = f"{form} {m}x{k}x{n} layout {layout} pad {pad} {mode} level {level}"
                    run = job(engine, place, form, level, mode, out[:m], *sides)
                    made.append(Check(name, run, out, want))
    return made


def wrong(place: Place, made: Sequence[Check]) -> list[str]:
    """The names of the products that are not exact."""
    found = []
    for check in made:
        check.run()
        got = place.get(check.out).view(check.want.dtype).astype("f4")
        right = np.array_equal(got[:-1], check.want.astype("f4")) and (got[-1] == MARGIN).all()
        if not right:
            found.append(check.name)
    return found


def times(device: Any, engine: Portable, place: Place, n: int) -> dict[str, dict[str, float]]:
    """Milliseconds by form and variant; "library" in the same rounds."""
    import torch

    hopper = Engine(device)
    found: dict[str, dict[str, float]] = {}
    groups: dict[Any, dict[str, Any]] = {
        torch.float32: {**FLOATS, "Float32": HOPPER["Float32"]},
        torch.float16: dict.fromkeys((*(h for h in HALVES if h[0] == "F"), "Float16")),
        torch.bfloat16: dict.fromkeys((*(h for h in HALVES if h[0] == "B"), "BFloat16")),
    }
    for t, forms in groups.items():
        x, y, z = (torch.randn(n, n, device="cuda").to(t) for _ in range(3))
        runs: dict[str, Callable[[], Any]] = {}
        calls = 1 if t == torch.float32 else CALLS

        def library(x: Any = x, y: Any = y, z: Any = z, calls: int = calls) -> None:
            for _ in range(calls):
                torch.mm(x, y, out=z)

        runs["library"] = library if calls == 1 else replayed(library)
        for form, modes in forms.items():
            by = hopper if form in HOPPER else engine
            ways = [(0, "owner")] if modes is None else [
                (level, m) for level in range(2) for m in modes[level]]  # fmt: skip
            for level, mode in ways:
                run = job(by, place, form, level, mode, z, x, y)
                run()
                torch.cuda.synchronize()
                near = torch.linalg.norm(z[:64].double() - x[:64].double() @ y.double())
                assert float(near) < 1e-2 * float(torch.linalg.norm(z[:64].double())), (form, n)
                what = "strassen" if level else "standard"
                runs[f"{form}|{what} {mode}"] = run if calls == 1 else recorded(run, calls)
        for name, seconds in timed(runs).items():
            form, _, way = name.partition("|")
            to = found.setdefault(form if way else str(t).removeprefix("torch."), {})
            to[way or "library"] = round(seconds / calls * 1e3, 5)
    return found


SMALL = ((140, 100, 270),)


def one(engine: Portable) -> None:
    """What the sanitizer runs."""
    place = gpu()
    found = wrong(place, checks(engine, place, shapes=SMALL, layouts=(0, 3)))
    print("wrong:", found, flush=True)
    assert not found


def sanitized(tool: str) -> dict[str, Any]:
    """What a tool of compute-sanitizer finds."""
    command = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    more = {"racecheck": ["--racecheck-report", "analysis"],
            "memcheck": ["--report-api-errors", "no"]}[tool]  # fmt: skip
    try:
        done = subprocess.run(
            [command, "--tool", tool, *more, sys.executable, "-m", "benchmarks.matmul.portable",
             "--one"],
            capture_output=True, text=True, timeout=45, check=False,
        )  # fmt: skip
        lines = (done.stdout + done.stderr).splitlines()
        return {"rc": done.returncode, "first": lines[:40], "last": lines[-15:]}
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"rc": None, "first": [str(error)[:500]], "last": []}


Times = dict[str, dict[str, dict[str, float]]]
"""Milliseconds by form (or type, for the library), variant and extent."""


def type_of(form: str) -> str:
    """The type that a form multiplies; of a type, itself."""
    return re.match("b?float[0-9]+", form.lower())[0]  # type: ignore[index]


def table(found: Times) -> str:
    """Markdown: milliseconds, and how many times the library's rate."""
    sizes = list(next(iter(found.values()))["library"])
    head = ["form, mode", *(f"{int(n):,}: {x}" for n in sizes for x in ("ms", "TFLOP/s", "ratio"))]
    rows = []
    for form, ways in found.items():
        for way, row in ways.items():
            cells = [form + f", {way}" * (way != "library")]
            for n, ms in row.items():
                rate = 2 * int(n) ** 3 / ms / 1e9
                ratio = found[type_of(form)]["library"][n] / ms
                cells += [f"{ms:.3f}", f"{rate:.1f}", f"{ratio:.3f}"]
            rows.append(cells)
    return "\n".join(provenance.markdown_table(head, rows)) + "\n"


def page(data: dict[str, Any]) -> str:
    """A result in words."""
    exact = data["exact"]
    checks = ", ".join(
        f"{tool} {'no errors' if data[tool]['rc'] == 0 else 'errors or no result'}"
        for tool in ("memcheck", "racecheck") if tool in data
    )  # fmt: skip
    about = (
        f"{data['device']}, {data['date']}; `{data['command']}`. n x n x n, medians of CUDA "
        f"events; ratio: the library's time divided by this. Small integers: {exact['products']:,} "
        f"products, {len(exact['wrong'])} wrong. A small product of each: {checks}."
    )
    return "\n\n".join([about, *filter(None, [data.get("note")]), table(data["times"])])


def best(found: Times) -> dict[str, dict[str, tuple[float, str]]]:
    """The fastest way of each type, at each extent: how many times the library's rate, and which;
    float32 by levels."""
    made: dict[str, dict[str, tuple[float, str]]] = {}
    for form, ways in found.items():
        if form in HOPPER or "library" in ways:
            continue
        kind = type_of(form)
        for way, row in ways.items():
            for n, ms in row.items():
                to = made.setdefault(f"{kind} {way.split()[0]}", {})
                rate = round(found[kind]["library"][n] / ms, 3)
                to[n] = max(to.get(n, (0.0, "")), (rate, f"{form}, {way}"))
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--one", action="store_true", help="a few products, for compute-sanitizer")
    parser.add_argument("--no-sanitizer", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    from treadle.backend.cuda.graphs.launch import CudaDevice

    device = CudaDevice.current()
    if given.one:
        one(Portable(device, checked=True))
        return
    began = time.time()
    engine, place = Portable(device), gpu()
    import torch

    data: dict[str, Any] = {
        "date": str(datetime.date.today()), "device": device.name, "commit": provenance.commit(),
        "command": "python -m benchmarks.matmul.portable", "sources": sources(),
        "packages": provenance.versions(("numpy", "torch", "cupy")),
    }  # fmt: skip
    given.out.mkdir(parents=True, exist_ok=True)
    to, log = given.out / f"portable-gpu-{data['date']}.json", given.out / "portable.log"
    log.write_text("", encoding="utf-8")

    def say(*words: Any) -> None:
        line = " ".join(map(str, words))
        print(line, flush=True)
        with log.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def keep(**more: Any) -> None:
        data.update(more, kernels=engine.kernels, seconds=round(time.time() - began, 1))
        to.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
        say(f"{data['seconds']} s", json.dumps(more))

    made = checks(engine, place)
    small = torch.zeros(1024, 1024, device="cuda")
    jobs = [c.run for c in made]
    jobs += [
        job(engine, place, f, level, m, small, small, small)
        for f, modes in FLOATS.items() for level in range(2) for m in modes[level]
    ]  # fmt: skip
    tiny = torch.zeros(1024, 1024, device="cuda", dtype=torch.float16)
    jobs += [job(engine, place, f, 0, "owner", tiny, tiny, tiny) for f in HALVES]
    compile_all(engine, jobs)
    keep(compiled=len(engine.kernels))
    keep(exact={"products": len(made), "wrong": wrong(place, made)})
    found: dict[str, dict[str, dict[str, float]]] = {}
    for n in (int(n) for n in given.sizes.split(",")):
        for form, row in times(device, engine, place, n).items():
            for way, ms in row.items():
                found.setdefault(form, {}).setdefault(way, {})[str(n)] = ms
        keep(times=found)
    say(table(found))
    keep(best=best(found))
    if not given.no_sanitizer:
        checked = Portable(device, checked=True)
        compile_all(checked, [c.run for c in checks(checked, place, shapes=SMALL, layouts=(0, 3))])
        tools = ("memcheck", "racecheck")
        with ThreadPoolExecutor(2) as pool:
            keep(**dict(zip(tools, pool.map(sanitized, tools), strict=True)))
    to.with_suffix(".md").write_text(page(data), encoding="utf-8")


if __name__ == "__main__":
    main()
