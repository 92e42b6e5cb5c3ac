"""float32 products on tensor cores beside cuBLAS: `python -m benchmarks.matmul.tensor`.

Square products of random normal float32 by every precision of `td.matmul`, by one level of
Strassen's algorithm over them, with relu(a @ b + bias), and by `td.precision(fast=True)`, beside
cuBLAS's float32, tf32 and float16.  Errors are relative Frobenius errors against float64, of a
band of rows, on centred, positive and spread operands, and on rows of a and columns of b that are
scaled by up to 10^12.  Times are medians of interleaved rounds of
graphs of several calls.  Results: benchmarks/results/tensor-gpu-<date>.json and .md.

`--engines` times the engines alone, by form and execution, for
skeletons/products/measured_h200.json; names of forms after it choose some.
"""

from __future__ import annotations

import argparse
import datetime
import json
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import treadle as td
from benchmarks import provenance

RESULTS = Path(__file__).resolve().parents[1] / "results"
SIZES = (1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384)
PRECISIONS = ("fp16x3", "bf16x6", "tf32x3")
#: Rounds of interleaved timings; seconds of a graph; rows whose error is measured.
ROUNDS, SECONDS, ROWS = 5, 0.02, 256
DATA = ("centred", "positive", "scaled", "spread")


def recorded(run: Callable[[], Any], calls: int) -> Callable[[], None]:
    """A graph of several calls."""
    import cupy as cp

    stream = cp.cuda.Stream(non_blocking=True)
    with stream:
        run()
        stream.synchronize()
        stream.begin_capture()
        for _ in range(calls):
            run()
        graph = stream.end_capture()
    return lambda: graph.launch(cp.cuda.get_current_stream())


def replayed(run: Callable[[], Any]) -> Callable[[], None]:
    """A graph of calls of PyTorch."""
    import torch

    graph = torch.cuda.CUDAGraph()
    run()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        run()
    replay: Callable[[], None] = graph.replay
    return replay


def timed(runs: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """The median seconds of a call, of interleaved rounds."""
    import cupy as cp

    start, end = cp.cuda.Event(), cp.cuda.Event()

    def once(run: Callable[[], Any], calls: int) -> float:
        start.record()
        for _ in range(calls):
            run()
        end.record()
        end.synchronize()
        return float(cp.cuda.get_elapsed_time(start, end)) / calls / 1e3

    counts = {}
    for name, run in runs.items():
        run()
        counts[name] = max(1, min(50, int(SECONDS / max(once(run, 1), 1e-6))))
    rounds = [{n: once(run, counts[n]) for n, run in runs.items()} for _ in range(ROUNDS)]
    return {n: statistics.median(r[n] for r in rounds) for n in runs}


def operands(kind: str, shape: tuple[int, int], seed: int) -> Any:
    import cupy as cp

    rng = cp.random.default_rng(seed)
    if kind == "positive":
        return rng.random(shape, dtype=cp.float32)
    x = rng.standard_normal(shape, dtype=cp.float32)
    if kind == "scaled":
        lines = (shape[0], 1) if seed % 2 == 0 else (1, shape[1])
        return x * cp.exp(27.6 * (2 * rng.random(lines, dtype=cp.float32) - 1))
    return x * cp.exp(2 * rng.standard_normal(shape, dtype=cp.float32)) if kind == "spread" else x


def error(made: Any, a: Any, b: Any) -> float:
    """The relative Frobenius error of a band of rows."""
    import cupy as cp

    true = a[:ROWS].astype(cp.float64) @ b.astype(cp.float64)
    return float(cp.linalg.norm(cp.from_dlpack(made)[:ROWS] - true) / cp.linalg.norm(true))


def programs() -> dict[str, Callable[..., Any]]:
    """The programs of treadle, of a, b and a bias."""

    def fast(a: Any, b: Any, bias: Any) -> Any:
        with td.precision(fast=True):
            return a @ b

    found: dict[str, Callable[..., Any]] = {"standard": lambda a, b, bias: a @ b, "fast": fast}
    for p in PRECISIONS:
        found[p] = lambda a, b, bias, p=p: td.matmul(a, b, precision=p)
    found["fp16x3, one level"] = lambda a, b, bias: td.matmul(a, b, precision="fp16x3",
                                                              algorithm="strassen")  # fmt: skip
    found["fp16x3 with relu(… + bias)"] = lambda a, b, bias: td.maximum(
        td.matmul(a, b, precision="fp16x3") + bias, 0)  # fmt: skip
    return {name: td.jit(f, backend="cuda") for name, f in found.items()}


def at(n: int, made: dict[str, Any]) -> dict[str, Any]:
    """Times and errors of n × n products."""
    import torch

    a, b, bias = (operands("centred", s, k) for k, s in enumerate(((n, n), (n, n), (1, n))))
    bias = bias[0]
    x, y, z = (torch.from_dlpack(v) for v in (a, b, bias))
    out = torch.empty_like(x)
    halves = x.half(), y.half()

    def tf32() -> None:
        torch.backends.cuda.matmul.allow_tf32 = True
        torch.mm(x, y, out=out)
        torch.backends.cuda.matmul.allow_tf32 = False

    runs: dict[str, Callable[[], Any]] = {
        "cuBLAS float32": lambda: torch.mm(x, y, out=out),
        "cuBLAS float32 with relu(… + bias)": lambda: torch.relu_(torch.mm(x, y, out=out).add_(z)),
        "cuBLAS tf32": tf32,
        "cuBLAS float16": lambda: torch.mm(*halves),
    }
    runs |= {name: (lambda f=f: f(a, b, bias)) for name, f in made.items()}
    times = timed(runs)
    errors: dict[str, dict[str, float]] = {}
    for kind in DATA:
        u, v = (operands(kind, (n, n), k) for k in (10, 11))
        torch.mm(torch.from_dlpack(u), torch.from_dlpack(v), out=out)
        errors[kind] = {"cuBLAS float32": error(out, u, v)}
        errors[kind] |= {name: error(f(u, v, bias), u, v) for name, f in made.items()
                         if "relu" not in name}  # fmt: skip
        for name in (*PRECISIONS, "fast"):
            assert errors[kind][name] <= errors[kind]["cuBLAS float32"], (n, kind, errors[kind])
    want = np.maximum((x[:8] @ y + z).cpu().numpy(), 0)
    got = made["fp16x3 with relu(… + bias)"](a, b, bias)[:8]
    np.testing.assert_allclose(np.asarray(got.get() if hasattr(got, "get") else got), want,
                               rtol=1e-3, atol=1e-3 * n**0.5)  # fmt: skip
    return {"n": n, "seconds": times, "errors": errors}


#: Forms that are timed alone: their executions, and those of one level of Strassen's algorithm.
FORMS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "Float32": (("owner", "split", "atomic"), ("owner", "atomic")),
    "Int32": (("owner", "split", "atomic"), ("owner", "atomic")),
    "Limbs32": (("owner", "atomic"), ("owner", "atomic", "recursive")),
    **{name: (("owner",), ("owner",))
       for name in ("Limbs32ImagesSquare", "Float32Fp16x3", "Float32Fp16x3Square")},
    **{name: (("owner",), ())
       for name in ("Float16", "Float16Square", "BFloat16", "BFloat16Square")},
}  # fmt: skip


def engines(sizes: tuple[int, ...], forms: Sequence[str]) -> dict[str, dict[str, dict[str, float]]]:
    """Milliseconds of engines by form, variant and extent: graphs, without the host's time.
    Integers are random ones of 32 bits, and their first rows must be exact.  Forms of one type
    share the times of the library, which are of the same rounds."""
    import cupy as cp
    import torch

    from treadle.backend.cuda.graphs.launch import CudaDevice
    from treadle.backend.cuda.products.engine import Engine
    from treadle.backend.cuda.products.form import FORMS as ALL
    from treadle.backend.cuda.products.launching import Matrix
    from treadle.skeletons.products import STRASSEN

    engine = Engine(CudaDevice.current())
    found: dict[str, dict[str, dict[str, float]]] = {}
    for n in sizes:
        calls = max(1, min(20, int(2e12 / n**3)))
        runs: dict[str, Callable[[], Any]] = {}
        arrays: list[Any] = []  # which the graphs use by address
        for form in forms:
            kind = getattr(torch, ALL[form].types[0])
            exact = not kind.is_floating_point
            low, high = -(2**31), 2**31
            x, y, z = (
                torch.randint(low, high, (n, n), device="cuda", dtype=kind)
                if exact else torch.randn(n, n, device="cuda", dtype=kind)
                for _ in range(3)
            )  # fmt: skip
            arrays += [x, y, z]
            size = x.element_size()
            p, q, r = (Matrix(v.data_ptr(), n, n, n, 1, size) for v in (x, y, z))

            def library(x: Any = x, y: Any = y, z: Any = z, calls: int = calls) -> None:
                for _ in range(calls):
                    torch.mm(x, y, out=z)

            def standard(how: str, form: str = form, p: Any = p, q: Any = q, r: Any = r) -> None:
                engine.standard(r, p, q, how, form)

            def fast(how: str, form: str = form, p: Any = p, q: Any = q, r: Any = r) -> None:
                engine.product(r, p, q, how, form, STRASSEN, 1)

            if not exact and f"{kind} library" not in runs:
                runs[f"{kind} library"] = replayed(library)
            rows, right = (cp.from_dlpack(v) for v in (x[:64], y))
            want = rows @ right if exact else x[:64].float() @ y.float()
            for name, run, ways in zip(("standard", "strassen"), (standard, fast), FORMS[form],
                                       strict=True):  # fmt: skip
                for how in ways:
                    z.zero_()
                    run(how)
                    torch.cuda.synchronize()
                    if exact:
                        assert bool((cp.from_dlpack(z[:64]) == want).all()), (form, name, how, n)
                    else:
                        error = torch.linalg.norm(z[:64].float() - want)
                        assert float(error) < 1e-2 * float(torch.linalg.norm(want)), (form, how, n)
                    runs[f"{form} {name} {how}"] = recorded(partial(run, how), calls)
        for name, seconds in timed(runs).items():
            of, _, variant = name.partition(" ")
            ms = round(seconds / calls * 1e3, 5)
            for form in forms:
                if of in (form, f"torch.{ALL[form].types[0]}"):
                    found.setdefault(form, {}).setdefault(variant, {})[str(n)] = ms
        arrays.clear()
        text = {f: {v: t[str(n)] for v, t in times.items()} for f, times in found.items()}
        print(n, text, flush=True)
    return found


def table(rows: list[dict[str, Any]]) -> str:
    """Milliseconds by extent; then TFLOP/s; then errors."""
    names = list(rows[0]["seconds"])
    kept = list(rows[0]["errors"][DATA[0]])
    times = [[str(r["n"]), *(f"{r['seconds'][x] * 1e3:.3f}" for x in names)] for r in rows]
    rates = [[str(r["n"]), *(f"{2 * r['n'] ** 3 / r['seconds'][x] / 1e12:.0f}" for x in names)]
             for r in rows]  # fmt: skip
    errors = [[str(r["n"]), kind, *(f"{r['errors'][kind][x]:.1e}" for x in kept)]
              for r in rows for kind in DATA]  # fmt: skip
    lines = [
        *provenance.markdown_table(["n", *(f"{x}, ms" for x in names)], times), "",
        *provenance.markdown_table(["TFLOP/s, n", *names], rates), "",
        *provenance.markdown_table(["error, n", "operands", *kept], errors, words=2),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--engines", nargs="*", choices=list(FORMS), metavar="FORM")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    sizes = tuple(int(n) for n in given.sizes.split(","))
    alone = given.engines is not None
    chosen = ["--engines", *given.engines] if alone else []
    name = "-".join(("tensor", *(c.strip("-") for c in chosen), "gpu"))
    name = f"{name}-{datetime.date.today()}"
    if alone:
        found: Any = engines(sizes, given.engines or tuple(FORMS))
    else:
        made = programs()
        found = []
        for n in sizes:
            found.append(at(n, made))
            print(table(found[-1:]), flush=True)
    import cupy as cp

    data = {
        "date": str(datetime.date.today()),
        "device": cp.cuda.runtime.getDeviceProperties(0)["name"].decode(),
        "commit": provenance.commit(),
        "command": " ".join(("python -m benchmarks.matmul.tensor", *chosen)),
        "packages": provenance.versions(("numpy", "torch", "cupy")), "results": found,
    }  # fmt: skip
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / f"{name}.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    if not alone:
        (given.out / f"{name}.md").write_text(table(found), encoding="utf-8")


if __name__ == "__main__":
    main()
