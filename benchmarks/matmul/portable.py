"""The engines without instructions of Hopper, on a Hopper GPU.

By `python -m benchmarks.matmul.portable`.

Kernels are compiled by nvcc as PTX for compute capability 8.0, and to machine code of this GPU, so
they have cp.async, mbarriers, ldmatrix and mma.sync, and nothing newer.  In one run of about two
minutes: products of small integers, which must be exact, in every layout and mode; times beside
cuBLAS and the engines of Hopper, of several configurations of tiles and stages; then racecheck and
memcheck of one product each.  Results: benchmarks/results/portable-gpu-<date>.json.
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
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from benchmarks import provenance
from benchmarks.matmul.tensor import recorded, replayed, timed
from treadle.backend.cuda.compile.nvrtc import Cubin
from treadle.backend.cuda.products.engine import Engine
from treadle.backend.cuda.products.form import FORMS
from treadle.backend.cuda.products.launching import Matrix
from treadle.skeletons.products import STRASSEN

RESULTS = Path(__file__).resolve().parents[1] / "results"
BUILD = Path(tempfile.gettempdir()) / "treadle-portable"
SIZES = (2048, 4096, 8192)
#: Launches in a graph of a half product.
CALLS = 5


def variant(name: str, base: str, **macros: int) -> str:
    """A form with other macros, among `FORMS`."""
    form = FORMS[base]
    defines = dict(form.defines) | {f"TILE_{k.upper()}": str(v) for k, v in macros.items()}
    stages = macros.get("stages", 8 if base.startswith("Float32") else 3)
    step = macros.get("deep", form.step)
    if form.copies:
        part = 8 * 16 * 2 * min(form.columns // 4, 64)
        shared = stages * ((128 + form.columns) * step * 2 + 16) + part
    else:
        stage = -(-(8 * 4 * (128 + 4 + form.columns + 4) + 16) // 128) * 128
        shared = stages * stage + 2048 + 128
    FORMS[name] = replace(form, arithmetic=name, step=step, shared_bytes=shared,
                          defines=tuple(defines.items()))  # fmt: skip
    return name


#: Float32 forms, with the modes that are timed: of the standard product, of one level.
FLOATS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "Float32Portable": (("owner", "split", "atomic"), ("owner", "persistent", "atomic")),
    "Float32Square": (("owner", "split", "atomic"), ("owner", "persistent", "atomic")),
    variant("Float32Portable 4 stages", "Float32Portable", stages=4): (("split",), ("atomic",)),
    variant("Float32Portable 6 stages", "Float32Portable", stages=6): (("split",), ("atomic",)),
}
HALVES = (
    "Float16Portable",
    "Float16SquarePortable",
    variant("Float16 256 4 stages", "Float16Portable", stages=4),
    variant("Float16 256 4 stages 2 ahead", "Float16Portable", stages=4, ahead=2),
    variant("Float16 256 6 stages", "Float16Portable", stages=6),
    variant("Float16 256 64 deep 3 stages", "Float16Portable", stages=3, deep=64),
    variant("Float16 256 64 deep 4 stages 2 ahead", "Float16Portable", stages=4, deep=64, ahead=2),
    variant("Float16 128 5 stages", "Float16SquarePortable", stages=5),
    variant("Float16 128 64 deep 4 stages", "Float16SquarePortable", stages=4, deep=64),
    "BFloat16Portable",
    "BFloat16SquarePortable",
)
HOPPER = {"Float32": (("split",), ("atomic", "persistent")), "Float16": (), "BFloat16": ()}
SHAPES = ((1, 1, 1), (7, 9, 130), (128, 64, 256), (129, 65, 257), (300, 1000, 200), (64, 4097, 17),
          (1000, 8, 1000), (513, 127, 1), (2048, 512, 2048))  # fmt: skip


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
                text = BUILD / f"{key}.cu"
                text.write_text(source, encoding="utf-8")
                new = BUILD / f"{key}.new"
                done = subprocess.run([*command, str(text), "-o", str(new)], capture_output=True,
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


def matrix(x: Any) -> Matrix:
    """A matrix of PyTorch."""
    return Matrix(x.data_ptr(), *x.shape, *x.stride(), x.element_size())


def job(engine: Engine, form: str, level: int, mode: str, out: Any, a: Any, b: Any
        ) -> Callable[[], None]:  # fmt: skip
    p, q, r = map(matrix, (a, b, out))
    if level:
        return lambda: engine.product(r, p, q, mode, form, STRASSEN, 1)
    return lambda: engine.standard(r, p, q, mode, form)


def compile_all(engine: Portable, jobs: list[Callable[[], None]]) -> None:
    """Compiles the kernels of jobs on all cores, without running them."""

    def one(run: Callable[[], None]) -> None:
        with suppress(_Compiled):
            run()

    engine.pending = True
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(one, jobs))
    engine.pending = False


def exact_jobs(engine: Portable, shapes: Any = SHAPES) -> list[tuple[str, Any, Any, Any]]:
    """Products of small integers: name, call, result with a margin, and what it must be."""
    import torch

    made = []
    rng = np.random.default_rng(1)
    forms = [(f, torch.float32) for f in ("Float32Portable", "Float32Square")]
    forms += [
        ("Float16Portable", torch.float16),
        ("Float16SquarePortable", torch.float16),
        ("BFloat16Portable", torch.bfloat16),
        ("Float16 256 64 deep 3 stages", torch.float16),
    ]
    for form, t in forms:
        for m, k, n in shapes:
            x, y = (rng.integers(-2, 3, s).astype("f4") for s in ((m, k), (k, n)))
            x[:, 8:] *= rng.random(max(k - 8, 0)) < 0.1
            want = torch.from_numpy(x @ y).cuda()
            ways = [(0, "owner")]
            if t == torch.float32:
                ways = [(0, "owner"), (0, "split"), (1, "atomic"), (1, "persistent")]
                if form.endswith("Square"):
                    ways = [(0, "split"), (1, "owner")]
            for layout in range(4):
                for pad in (0, 3):
                    sides = []
                    for side, v in enumerate((x, y)):
                        v = v.T if layout >> side & 1 else v
                        room = torch.zeros(v.shape[0], -(-v.shape[1] // 8) * 8 + pad, dtype=t,
                                           device="cuda")  # fmt: skip
                        room[:, : v.shape[1]] = torch.from_numpy(np.ascontiguousarray(v)).to(t)
                        there = room[:, : v.shape[1]]
                        sides.append(there.T if layout >> side & 1 else there)
                    for level, mode in ways:
                        out = torch.full((m + 1, n), 77.0, dtype=t, device="cuda")
                        name = f"{form} {m}x{k}x{n} layout {layout} pad {pad} {mode} level {level}"
                        made.append((name, job(engine, form, level, mode, out[:m], *sides), out,
                                     (want, t)))  # fmt: skip
    return made


def verified(jobs: list[tuple[str, Any, Any, Any]]) -> list[str]:
    """The names of the products that are not exact."""
    import torch

    wrong = []
    for name, run, out, (want, t) in jobs:
        run()
        torch.cuda.synchronize()
        right = torch.equal(out[:-1], want.to(t)) and bool((out[-1] == 77).all())
        if not right:
            wrong.append(name)
    return wrong


def times(device: Any, engine: Portable, n: int) -> dict[str, dict[str, float]]:
    """Milliseconds by form and variant; "library" in the same rounds."""
    import torch

    hopper = Engine(device)
    found: dict[str, dict[str, float]] = {}
    groups: dict[Any, dict[str, Any]] = {
        torch.float32: {**FLOATS, "Float32": HOPPER["Float32"]},
        torch.float16: dict.fromkeys((*HALVES[:9], "Float16")),
        torch.bfloat16: dict.fromkeys((*HALVES[9:], "BFloat16")),
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
                run = job(by, form, level, mode, z, x, y)
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


def one(engine: Portable) -> None:
    """What the sanitizer runs."""
    jobs = exact_jobs(engine, ((140, 100, 270),))
    picked = [j for j in jobs if "layout 0" in j[0] or "layout 3" in j[0]]
    compile_all(engine, [j[1] for j in picked])
    wrong = verified(picked)
    print("wrong:", wrong, flush=True)
    assert not wrong


def sanitized(tool: str) -> dict[str, Any]:
    command = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    more = ["--racecheck-report", "analysis"] if tool == "racecheck" else []
    try:
        done = subprocess.run(
            [command, "--tool", tool, *more, sys.executable, "-m", "benchmarks.matmul.portable",
             "--one"],
            capture_output=True, text=True, timeout=100, check=False,
        )  # fmt: skip
        text = done.stdout + done.stderr
        return {"rc": done.returncode, "says": text[-1500:]}
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"rc": None, "says": str(error)[:500]}


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
    engine = Portable(device)
    import torch

    data: dict[str, Any] = {
        "date": str(datetime.date.today()), "device": device.name, "commit": provenance.commit(),
        "command": "python -m benchmarks.matmul.portable",
        "packages": provenance.versions(("numpy", "torch", "cupy")),
    }  # fmt: skip
    given.out.mkdir(parents=True, exist_ok=True)
    to = given.out / f"portable-gpu-{data['date']}.json"

    def keep(**more: Any) -> None:
        data.update(more, kernels=engine.kernels, seconds=round(time.time() - began, 1))
        to.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
        print(json.dumps(more), f"{data['seconds']} s", flush=True)

    checks = exact_jobs(engine)
    small = torch.zeros(1024, 1024, device="cuda")
    jobs = [j[1] for j in checks]
    jobs += [
        job(engine, f, level, m, small, small, small)
        for f, modes in FLOATS.items() for level in range(2) for m in modes[level]
    ]  # fmt: skip
    tiny = torch.zeros(1024, 1024, device="cuda", dtype=torch.float16)
    jobs += [job(engine, f, 0, "owner", tiny, tiny, tiny) for f in HALVES]
    compile_all(engine, jobs)
    keep(compiled=len(engine.kernels))
    keep(exact={"products": len(checks), "wrong": verified(checks)})
    found: dict[str, dict[str, dict[str, float]]] = {}
    for n in (int(n) for n in given.sizes.split(",")):
        for form, row in times(device, engine, n).items():
            for way, ms in row.items():
                found.setdefault(form, {}).setdefault(way, {})[str(n)] = ms
        keep(times=found)
    for form, table in found.items():
        kind = re.sub(r"^(float|bfloat|Float|BFloat)", lambda m: m[1].lower(), form.split()[0])
        kind = re.match(r"b?float\d+", kind)[0]  # type: ignore[index]
        for way, row in table.items():
            cells = (
                f"{n}: {ms:.3f} ms {2 * int(n) ** 3 / ms / 1e9:.1f} TF "
                f"{found[kind]['library'][n] / ms:.3f} x" for n, ms in row.items()
            )  # fmt: skip
            print(f"{form:40} {way:20}", "   ".join(cells), flush=True)
    if not given.no_sanitizer:
        for tool in ("memcheck", "racecheck"):
            keep(**{tool: sanitized(tool)})


if __name__ == "__main__":
    main()
