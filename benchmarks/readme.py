"""The numbers of README.md, written from the newest full results: `python -m benchmarks.readme`,
which also writes the tables beside these results anew.

They stand between marks: three lines at the top, and the tables.  Which works are shown, and how
they are called, is chosen here; every number comes from the JSON files in benchmarks/results.  A
test holds the page to what this would write.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import WRONG, Row, Timing
from benchmarks.matmul.page import newest as newest_products
from benchmarks.provenance import ROOT
from benchmarks.reporting import markdown

RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "README.md"
#: What stands between marks, by name: see `written`.
MARKS = ("<!-- {}: begin (python -m benchmarks.readme) -->", "<!-- {}: end -->")

#: (how the page calls it, how the result does)
GPU = (
    ("Black–Scholes, 64 M options", "Black–Scholes, 64 M options"),
    ("sum of 1 G", "sum of 1024 M float32"),
    ("sums of 1 000 000 × 100 along axis 1", "sum of 1000000 × 100 along axis 1"),
    ("running sum of 256 M", "running sum of 256 M float32"),
    ("transposition, 16 384²", "transposition of 16384² float32"),
    ("histogram, 256 bins of 128 M int32", "histogram of 128 M int32, 256 bins, td.permute"),
    ("histogram, 1 M bins of 128 M int32", "histogram of 128 M int32, 1 M bins, td.permute"),
    ("5×5 stencil, general weights, 4 096²", "5×5, general weights, 4096², weights in the program"),
    ("9×9 stencil, general weights, 4 096²", "9×9, general weights, 4096², weights in the program"),
    ("100 steps of the heat equation, 8 192²", "100 steps of 5 points, 8192²"),
    ("float32 product, 8 192² (`a @ b`)", "float32 product, 8192², a @ b"),
    ("… by one fused level of Strassen (`td.strassen`)", "float32 product, 8192², td.strassen"),
    ("int32 product, 4 096²", "int32 product, 4096²"),
    ("a turn of a loop on a small array", "a turn of 10000: one fused map"),
    ("argmax of 256 M", "argmax of 256 M float32"),
    ("sparse product by `fold_seg`, 4 M rows of 16", "sparse product, 4 M rows of 16"),
)
CPU = (
    ("Black–Scholes, 16 M options", "Black-Scholes, call and put, 16 M"),
    ("sin, cos and exp of 16 M", "sin, cos and exp, 16 M"),
    ("a·x + y, then √(z² + 1), 16 M", "a·x + y, then √(z² + 1), 16 M"),
    ("a·x + y, then √(z² + 1), 256 k", "a·x + y, then √(z² + 1), 256 k"),
    ("5×5 stencil, 4 096²", "5×5 on 4096², literal weights"),
    ("9×9 stencil, 4 096²", "9×9 on 4096², literal weights"),
    ("9×9 Gaussian, 4 096² (found to be separable)", "9×9 Gaussian on 4096²"),
    ("7-point stencil, 256³", "7-point on 256³"),
    ("histogram, 256 bins of 16 M int32", "histogram, 256 bins, 16 M int32, td.permute"),
    ("histogram, 1 M bins of 16 M int32", "histogram, 1 M bins, 16 M int32, td.permute"),
    ("cumulative sum of 16 M", "cumulative sum of 16 M"),
    ("sum of 32 M", "sum of 32 M"),
    ("argmax of 32 M", "argmax of 32 M"),
    ("Mandelbrot set, 1600 × 1200, float64", "Mandelbrot set, 1600 × 1200, float64"),
    ("product of int32 matrices, 1 024²", "matmul int32, 1024"),
)


def newest(kind: str) -> tuple[Path, dict[str, Any]]:
    """The newest full result of `kind` ("cpu" or "gpu"): its file and its contents."""
    found = [
        p for p in sorted(RESULTS.glob(f"{kind}-*.json")) if re.fullmatch(rf"{kind}-[\d-]+", p.stem)
    ]
    if not found:
        raise FileNotFoundError(f"no results of kind {kind!r} in {RESULTS}")
    return found[-1], json.loads(found[-1].read_text(encoding="utf-8"))


def _digits(seconds: float, scale: float) -> str:
    value = seconds * scale
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def line(title: str, row: Mapping[str, Any]) -> str:
    """One row of a table: treadle, the two fastest peers, the ratio, and what else was aimed at."""
    scale, unit = (1e3, "") if row["value"] is None else (1e6, " µs")
    mine = row["treadle"]["median"] * scale if row["value"] is None else row["value"]
    peers = sorted(row["peers"].items(), key=lambda item: item[1]["median"])
    right = [(n, t) for n, t in peers if t["error"] is None or t["error"] <= WRONG]
    shown = ", ".join(f"{n} {_digits(t['median'], scale)}{unit}" for n, t in right[:2])
    gain = f"{row['ratio']:.2f} ×" if row["ratio"] < 2 else f"{row['ratio']:.1f} ×"
    if "copy" in row["target"] and row["of_ceiling"] is not None:
        gain += f", {row['of_ceiling']:.0%} of copy".replace("%", " %")
    return f"| {title} | {mine:.3g}{unit} | {shown} | {gain} |"


def table(chosen: Sequence[tuple[str, str]], data: Mapping[str, Any]) -> list[str]:
    """The rows chosen; KeyError names one that the result lacks."""
    rows = {r["work"]: r for r in data["rows"]}
    head = ["| work | treadle | fastest peers | |", "| --- | ---: | ---: | ---: |"]
    apart = [(title, rows[work]["note"]) for title, work in chosen]
    notes = [f"The {title}: {note}." for title, note in apart if note.startswith("measured at")]
    shown = [line(title, rows[work]) for title, work in chosen]
    return [*head, *shown, *(["", *textwrap.wrap(" ".join(notes), 88)] if notes else [])]


def section() -> str:
    """The section between the marks."""
    gpu_file, gpu = newest("gpu")
    cpu_file, cpu = newest("cpu")
    products = sorted(RESULTS.glob("matmul-cuda-2*.md"))[-1]
    rows = {r["work"]: r for r in cpu["rows"]}
    call = rows["calling a compiled program on 10 elements"]["value"]
    cold = rows["10 operations: native code, cold"]["value"]
    copy = gpu["ceilings"]["copy GB/s"] / 1e3
    parts = [
        "Medians of one run each, in milliseconds; all of these results checked against float64.",
        "Peers are written with care and run in the same process; above 1 ×, treadle beats the",
        "fastest.",
        "",
        f"**On a GPU** ({gpu['device']['gpu']}, {gpu['date'][:10]}; float32, results stay on the "
        f"device; copy rate {copy:.2f} TB/s):",
        "",
        *table(GPU, gpu),
        "",
        f"[All {len(gpu['rows'])} works, and why some are slower]"
        f"({gpu_file.with_suffix('.md').relative_to(ROOT)});",
        "`python -m benchmarks.gpu` measures your card. Products of all sizes, in three families",
        f"and three types: [table]({products.relative_to(ROOT)}),",
        f"[plot]({products.with_suffix('.png').relative_to(ROOT)}); `python -m benchmarks.matmul`.",
        "",
        f"**On a CPU** ({cpu['device']['cores']} cores of an {cpu['device']['cpu']}, "
        f"{cpu['device']['llvm_name']}, {cpu['date'][:10]}; float32):",
        "",
        *table(CPU, cpu),
        "",
        f"A call costs {call:.2g} µs; a program of ten operations compiles in {cold / 1e3:.2g} s",
        f"the first time. [All {len(cpu['rows'])} works, and why some are slower]"
        f"({cpu_file.with_suffix('.md').relative_to(ROOT)});",
        "`make bench` measures your machine.",
    ]
    return "\n".join(parts)


def _of_products(dtype: str, n: int) -> float:
    """How many times as fast as the library's a square product was where only products ran."""
    rows = newest_products("matmul-cuda")[1]["rows"]
    row = next(r for r in rows if (r["family"], r["type"], r["n"]) == ("square", dtype, n))
    return float(row["ways"]["standard"]["ratio"])


def headline() -> str:
    """Why to try it, in three lines."""
    gpu, cpu = (newest(kind)[1] for kind in ("gpu", "cpu"))
    on_gpu, on_cpu = ({r["work"]: r for r in data["rows"]} for data in (gpu, cpu))
    plain = "plain transposition of 16384² in order, Row() | Block({})"
    orders = [on_gpu[plain.format(b)]["treadle"]["median"] for b in ("1, 256", "32, 8")]
    own = on_gpu["transposition of 16384² float32"]["treadle"]["median"] * 1e3
    floats = on_gpu["float32 product, 8192², td.strassen"]["peers"]["cuBLAS"]["median"]
    floats /= on_gpu["float32 product, 8192², td.strassen"]["treadle"]["median"]
    integers = sorted((on_gpu["int32 product, 4096²"]["ratio"], _of_products("int32", 4096)))
    small = on_cpu["5×5 on 4096², literal weights"]
    large = on_gpu["5×5, general weights, 4096², weights in the program"]
    name = gpu["device"]["gpu"].removeprefix("NVIDIA ")
    return "\n".join([
        "- **Schedules are values**, composed, drawn, simulated, explained. An element a thread, a",
        f"  transposition of 16 384² takes {orders[0] * 1e3:.2f} ms on an {name} row by row, "
        f"{orders[1] * 1e3:.2f} under",
        f"  `Row() | Block(32, 8)`; unasked, treadle takes tiles of shared memory: {own:.2f}.",
        "- **Matrix products faster than the library's** on a GPU. `td.strassen(a, b)` is "
        f"{floats:.2f} ×",
        "  cuBLAS in float32 at 8 192², without workspace; `a @ b` of int32 is exact and "
        f"{integers[0]:.1f} to {integers[1]:.1f} ×",
        "  CuPy's at 4 096² (two runs). What surrounds a product is fused into it where that is "
        "faster.",
        "- **One program, every machine.** A 5×5 stencil of 4 096² takes "
        f"{small['treadle']['median'] * 1e3:.1f} ms on {cpu['device']['cores']} CPU cores",
        f"  ({small['ratio']:.1f} × Numba) and {large['treadle']['median'] * 1e3:.3f} ms with "
        f"`backend=\"cuda\"` ({large['ratio']:.1f} × plain CUDA). [All the",
        "  numbers](#performance).",
    ])  # fmt: skip


def written(page: str) -> str:
    """`page` with the parts between marks as the results have them."""
    for name, part in (("headline", headline), ("performance", section)):
        begin, end = (mark.format(name) for mark in MARKS)
        before, rest = page.split(begin)
        _, after = rest.split(end)
        page = f"{before}{begin}\n{part()}\n{end}{after}"
    return page


def retold(path: Path) -> str:
    """What stands beside the results at `path`, JSON, for reading."""
    about = json.loads(path.read_text(encoding="utf-8"))

    def timing_of(kept: Any) -> Timing | None:
        return None if kept is None else Timing(**kept)

    rows = [
        Row(**{
            **row,
            "treadle": timing_of(row["treadle"]),
            "peers": {n: Timing(**t) for n, t in row["peers"].items()},
        })
        for row in about["rows"]
    ]  # fmt: skip
    return markdown(rows, about)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    for results in (newest(kind)[0] for kind in ("gpu", "cpu")):
        results.with_suffix(".md").write_text(retold(results), encoding="utf-8")
