"""float32 products in tf32: the engine beside cuBLAS, on a Hopper GPU.

By `python -m benchmarks.matmul.tf32 --out FOLDER`: products of small integers, which must be exact,
in every layout and with what is fused; how elements are rounded, by the engine and by cuBLAS;
errors against float64; times.  Results: tf32-gpu-<date>.json and its tables.
"""

from __future__ import annotations

import argparse
import datetime
import json
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import provenance
from benchmarks.matmul.tensor import error, operands, recorded, timed
from treadle.backend.cuda.products import mapped
from treadle.backend.cuda.products.cublas import gemm, prepared
from treadle.backend.cuda.products.engine import Engine
from treadle.backend.cuda.products.form import FORMS, tf32_form
from treadle.backend.cuda.products.launching import Fused, Matrix
from treadle.skeletons.products.error import TF32, typical_factors
from treadle.skeletons.products.tables import STANDARD

RESULTS = Path(__file__).resolve().parents[1] / "results"
#: The forms of programs, and others that are timed: tiles of 192 columns, other orders of tiles.
NAMES = tuple(name for name, form in FORMS.items() if form.precision == "tf32" and form.maps)
MORE = ("Float32Tf32 192", "Float32Tf32 in groups of 16", "Float32Tf32 in groups of 4")


def add_forms() -> None:
    """Forms for this script alone."""
    FORMS[MORE[0]] = tf32_form(MORE[0], 192)
    for name, group in zip(MORE[1:], (16, 4), strict=True):
        FORMS[name] = replace(FORMS[NAMES[0]], arithmetic=name, group=group)


LAYOUTS = ("nn", "nt", "tt", "tn")
SHAPES = ((1, 1, 1), (7, 9, 130), (128, 64, 256), (129, 65, 257), (300, 1000, 200), (64, 4097, 17),
          (1000, 32, 1000), (513, 127, 1), (2048, 512, 2304))  # fmt: skip
#: Of which all forms are timed, and the others, for which only those of programs are.
SIZES, OTHERS = (2048, 4096, 8192), (1024, 1536, 3072, 6144, 12288, 16384)

RELU = """struct Epilogue {
    static constexpr bool identity = false;
    __device__ static __forceinline__ float finish(float x, int i, int j, const u64 *extra) {
        return fmaxf(x + __ldg((const float *)extra[0] + j), 0.f);
    }
};
"""
FUNCTION = """struct Producer{0} {{
    static constexpr bool identity = false;
    static constexpr int sources = 1, second = 0;
    __device__ static __forceinline__ float apply(float x, float, int i, int j, const u64 *extra) {{
        return 2.f * x + 1.f;
    }}
}};
"""


def matrix(x: Any) -> Matrix:
    return Matrix(x.data.ptr, *x.shape, *(s // x.itemsize for s in x.strides), x.itemsize)


def put(x: Any, how: str, pad: int) -> Any:
    """On the GPU, transposed in memory if `how` is "t", in lines of `pad` elements more."""
    import cupy as cp

    x = x.T if how == "t" else x
    room = np.full((x.shape[0], x.shape[1] + pad), np.nan, x.dtype)
    room[:, : x.shape[1]] = x
    there = cp.asarray(room)[:, : x.shape[1]]
    return there.T if how == "t" else there


def integers(shape: Sequence[int], seed: int) -> Any:
    return np.random.default_rng(seed).integers(-9, 10, shape).astype(np.float32)


def exact(engine: Engine) -> dict[str, Any]:
    """Products of small integers: how many, and which are wrong."""
    import cupy as cp

    count, wrong = 0, []
    for (m, k, n), how in product(SHAPES, LAYOUTS):
        a, b, bias = integers((m, k), 1), integers((k, n), 2), integers((n,), 3)
        there = cp.asarray(bias)
        words = (int(there.data.ptr),)
        plain = a.astype(np.float64) @ b
        cases: list[tuple[str, Fused | None, Any]] = [
            ("", None, plain),
            ("relu", Fused(RELU, words), np.maximum(plain + bias, 0)),
        ]
        if how == "nn":
            more = a.astype(np.float64) @ (2 * b + 1)
            cases.append(("function of b", Fused(FUNCTION.format("B"), ()), more))
        if how == "nt":
            more = (2 * a + 1).astype(np.float64) @ b
            cases.append(("function of a", Fused(FUNCTION.format("A"), ()), more))
        for name, pad in product(NAMES, (0, 3)):
            x, y = (put(v, h, pad) for v, h in zip((a, b), how, strict=True))
            for what, fused, want in cases:
                if what and name != NAMES[0]:
                    continue
                out = cp.full((m + 1, n + pad), 7, np.float32)
                engine.standard(matrix(out[:m, :n]), matrix(x), matrix(y), "owner", name, fused)
                found, count = out.get(), count + 1
                if not ((found[:m, :n] == want).all() and (found[m] == 7).all()
                        and (found[:, n:] == 7).all()):  # fmt: skip
                    wrong.append(f"{name} {m} x {k} x {n} {how} {pad} {what}")
    return {"products": count, "wrong": wrong}


def roundings() -> dict[str, Callable[[Any], Any]]:
    """Ways to round float32 to tf32, of bits."""
    cut = np.uint32(0xFFFFE000)
    return {
        "to nearest, ties away from zero": lambda x: (x + np.uint32(0x1000)) & cut,
        "to nearest, ties to even": lambda x: (x + np.uint32(0xFFF) + (x >> 13 & 1)) & cut,
        "toward zero": lambda x: x & cut,
    }


def rounding(engine: Engine) -> dict[str, Any]:
    """How elements of the left operand are rounded, in which layout, by the engine and by cuBLAS:
    each is multiplied by one, and meets zeros.  A quarter of them are ties."""
    import cupy as cp

    rng = np.random.default_rng(4)
    n = 512
    x = rng.standard_normal(n).astype(np.float32).view(np.uint32)
    x[: n // 4] = (x[: n // 4] & np.uint32(0xFFFFE000)) | np.uint32(0x1000)
    special = np.array([np.inf, -np.inf, np.nan, np.finfo("f4").max, 1e-40, -0.0], np.float32)
    x[-special.size :] = special.view(np.uint32)
    a, one = np.diag(x.view(np.float32)), np.eye(n, dtype=np.float32)
    found: dict[str, Any] = {}
    usual = slice(0, n - special.size)
    for who, how, (left, right) in product(("engine", "cuBLAS"), LAYOUTS[:3],
                                           ((a, one), (one, a))):  # fmt: skip
        u, v = (put(s, h, 0) for s, h in zip((left, right), how, strict=True))
        out = cp.zeros((n, n), np.float32)
        if who == "engine":
            engine.standard(matrix(out), matrix(u), matrix(v), "owner", NAMES[1])
        else:
            gemm(out, u, v, tf32=True)
        got = out.get().diagonal().copy()
        bits = got.view(np.uint32)[usual]
        fits = [w for w, f in roundings().items() if np.array_equal(f(x[usual]), bits)]
        found[f"{who}, {how}, {'left' if left is a else 'right'}"] = {
            "rounded": fits or "otherwise", "of special values": [str(s) for s in got[usual.stop :]]
        }  # fmt: skip
    return found


def errors(engine: Engine, n: int) -> dict[str, dict[str, float]]:
    """Relative Frobenius errors, and what td.error_bound expects, over the size of the result."""
    import cupy as cp

    found: dict[str, dict[str, float]] = {}
    for kind in ("centred", "positive"):
        a, b = (operands(kind, (n, n), s) for s in (10, 11))
        out, row = cp.empty_like(a), {}
        for name in NAMES:
            engine.standard(matrix(out), matrix(a), matrix(b), "owner", name)
            row[name] = error(out, a, b)
        gemm(out, a, b, tf32=True)
        row["cuBLAS tf32"] = error(out, a, b)
        gemm(out, a, b)
        row["cuBLAS float32"] = error(out, a, b)
        parts = [(float(x.astype(cp.float64).var()), float(x.astype(cp.float64).mean()) ** 2)
                 for x in (a, b)]  # fmt: skip
        shares = np.array([p * q for p in parts[0] for q in parts[1]])
        square = float(shares @ typical_factors(STANDARD, 0, n, n, TF32))
        size = float(cp.sqrt((out.astype(cp.float64) ** 2).mean()))
        row["expected"] = 0.42 * 2.0**-24 * square**0.5 / size
        found[kind] = row
    return found


def runs(engine: Engine, n: int, every: bool) -> Iterator[tuple[str, int, Callable[[], Any]]]:
    """What is timed: name, products of a call, call."""
    import cupy as cp

    calls = max(1, min(20, int(1e12 / n**3)))
    a, b, out = (cp.random.standard_normal((n, n), dtype=np.float32) for _ in range(3))
    bias = cp.random.standard_normal((n,), dtype=np.float32)
    turned = {"n": lambda x: x, "t": lambda x: x.T}
    relu = cp.ElementwiseKernel("float32 x, raw float32 bias, int32 n", "float32 y",
                                "y = fmaxf(x + bias[i % n], 0.f)", "relu_bias")  # fmt: skip
    twice = cp.ElementwiseKernel("float32 x", "float32 y", "y = 2.f * x + 1.f", "twice")
    made = cp.empty_like(b)

    def ours(name: str, how: str = "nn", fused: Fused | None = None) -> Callable[[], None]:
        p, q = (matrix(turned[h](x)) for h, x in zip(how, (a, b), strict=True))
        return recorded(
            lambda: engine.standard(matrix(out), p, q, "owner", name, fused), calls)  # fmt: skip

    def library(how: str = "nn", after: bool = False, before: bool = False) -> Callable[[], None]:
        x, y = (turned[h](v) for h, v in zip(how, (a, b), strict=True))
        y_or_made = made if before else y
        layouts = [(v.shape, tuple(s // 4 for s in v.strides)) for v in (out, x, y_or_made)]
        multiply = prepared("float32", "float32", *layouts, True)
        assert multiply is not None
        addresses = [v.data.ptr for v in (out, x, y_or_made)]

        def run() -> None:
            for _ in range(calls):
                if before:
                    twice(y, made)
                multiply(*addresses)
                if after:
                    relu(out, bias, n, out)

        return run

    epilogue = Fused(RELU, (int(bias.data.ptr),))
    yield "library", calls, library()
    yield "library, relu(… + bias)", calls, library(after=True)
    for name in NAMES:
        yield name, calls, ours(name)
        yield f"{name}, relu(… + bias)", calls, ours(name, fused=epilogue)
    if every:
        for how in LAYOUTS[1:]:
            yield f"library, {how}", calls, library(how)
            yield f"{NAMES[0]}, {how}", calls, ours(NAMES[0], how)
        for name in MORE:
            yield name, calls, ours(name)
        yield "library, relu(a @ (2 b + 1) + bias)", calls, library(after=True, before=True)
        both = Fused(FUNCTION.format("B") + RELU, (int(bias.data.ptr),))
        for name in NAMES:
            yield f"{name}, relu(a @ (2 b + 1) + bias)", calls, ours(name, fused=both)


def compiled(engine: Engine) -> None:
    """Compiles all kernels, several at a time."""
    import cupy as cp

    x = cp.zeros((64, 64), np.float32)
    epilogue = Fused(RELU, (int(x.data.ptr),))
    cases: list[tuple[str, str, Fused | None]] = [
        *((name, how, None) for name in NAMES for how in LAYOUTS),
        *((NAMES[0], how, epilogue) for how in LAYOUTS), (NAMES[1], "nn", epilogue),
        (NAMES[0], "nn", Fused(FUNCTION.format("B"), ())),
        (NAMES[0], "nt", Fused(FUNCTION.format("A"), ())),
        *((name, "nn", Fused(FUNCTION.format("B") + RELU, (int(x.data.ptr),))) for name in NAMES),
        *((name, "nn", None) for name in MORE),
    ]  # fmt: skip

    def one(case: tuple[str, str, Fused | None]) -> None:
        name, how, fused = case
        cp.cuda.runtime.setDevice(0)  # binds the context to this thread
        p, q = (matrix(x.T if h == "t" else x) for h in how)
        with suppress(KeyError):
            engine.standard(matrix(cp.empty_like(x)), p, q, "owner", name, fused)

    one(cases[0])
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(one, cases))
    cp.cuda.Device().synchronize()


def table(times: dict[str, dict[str, float]]) -> str:
    """Milliseconds by extent, and TFLOP/s over the library's."""
    sizes = [str(n) for n in sorted((*SIZES, *OTHERS)) if str(n) in times["library"]]
    lines = ["| n × n × n: ms, TFLOP/s, library / this | " + " | ".join(sizes) + " |",
             "| --- |" + " ---: |" * len(sizes)]  # fmt: skip
    for name, row in times.items():
        peer = "library" + name[name.index(",") :] if "," in name else "library"
        cells = []
        for n in sizes:
            if n not in row:
                cells.append("")
                continue
            rate = 2 * int(n) ** 3 / row[n] / 1e9
            ratio = times.get(peer, times["library"])[n] / row[n]
            cells.append(f"{row[n]:.4f} {rate:.0f} {ratio:.3f}")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def page(data: dict[str, Any]) -> str:
    """A result in words."""
    made = data["exact"]
    rounds = sorted({f"{k.split(',')[0]}: {v['rounded']}" for k, v in data["rounding"].items()})
    lines = [f"| n | operands | {' | '.join(NAMES)} | cuBLAS tf32 | cuBLAS float32 | expected |",
             "| ---: | --- |" + " ---: |" * (len(NAMES) + 3)]  # fmt: skip
    for n, kinds in data["errors"].items():
        lines += [f"| {n} | {kind} | " + " | ".join(f"{v:.2e}" for v in row.values()) + " |"
                  for kind, row in kinds.items()]  # fmt: skip
    return "\n\n".join([
        f"{data['device']}, {data['date']}; `{data['command']}`. Medians of CUDA events.",
        f"Small integers: {made['products']:,} products, {len(made['wrong'])} wrong.",
        "Rounding of operands: " + "; ".join(rounds) + ".",
        "Relative Frobenius errors:", "\n".join(lines), table(data["times"]),
    ])  # fmt: skip


def main() -> None:
    add_forms()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    import cupy as cp

    from treadle.backend.cuda.graphs.launch import CudaDevice

    began, device = time.time(), CudaDevice.current()
    engine = Engine(device)
    data: dict[str, Any] = {
        "date": str(datetime.date.today()), "device": device.name, "commit": provenance.commit(),
        "command": "python -m benchmarks.matmul.tf32",
        "packages": provenance.versions(("numpy", "cupy")),
    }  # fmt: skip
    given.out.mkdir(parents=True, exist_ok=True)
    to = given.out / f"tf32-gpu-{data['date']}.json"

    def keep(**more: Any) -> None:
        data.update(more, seconds=round(time.time() - began, 1))
        to.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
        print(f"{data['seconds']} s", json.dumps(more), flush=True)

    mapped.tensor_map.cache_clear()
    compiled(engine)
    keep(compiled=len(engine._loaded))
    keep(rounding=rounding(engine))
    keep(exact=exact(engine))
    keep(errors={str(n): errors(engine, n) for n in (2048, 8192)})
    found: dict[str, dict[str, float]] = {}
    for n in (*SIZES, *OTHERS):
        made = list(runs(engine, n, n in SIZES))
        seconds = timed({name: run for name, _, run in made})
        for name, calls, _ in made:
            found.setdefault(name, {})[str(n)] = round(seconds[name] / calls * 1e3, 5)
        del made
        cp.get_default_memory_pool().free_all_blocks()
        keep(times=found)
    to.with_suffix(".md").write_text(page(data), encoding="utf-8")
    print(page(data))


if __name__ == "__main__":
    main()
