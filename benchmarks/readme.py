"""Writes the numbers of README.md and docs/performance.md: `python -m benchmarks.readme`.

The same command rewrites the tables beside the newest full results.  The numbers stand between
marks: in README.md the example of two orders and what treadle is fast at, in docs/performance.md
the tables.  This module selects and names the workloads that are shown; every number comes from the
JSON files in benchmarks/results.  A test checks that the pages are what this module would write.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import WRONG, Row, Timing
from benchmarks.npbench import page as npbench
from benchmarks.npbench.results import read
from benchmarks.provenance import ROOT, newest, replaced
from benchmarks.reporting import markdown

RESULTS = ROOT / "benchmarks" / "results"
README, PAGE = ROOT / "README.md", ROOT / "docs" / "performance.md"
#: The marks around a generated part, by name: see `written`.
MARKS = ("<!-- {}: begin (python -m benchmarks.readme) -->", "<!-- {}: end -->")

#: (name on the page, name in the results)
GPU = (
    ("Black–Scholes, 64 M options", "Black–Scholes, 64 M options"),
    ("sum of 1 G elements", "sum of 1024 M float32"),
    ("row sums, 1,000,000 × 100", "sum of 1000000 × 100 along axis 1"),
    ("cumulative sum of 256 M", "running sum of 256 M float32"),
    ("transposition, 16384²", "transposition of 16384² float32"),
    ("histogram, 256 bins of 128 M int32", "histogram of 128 M int32, 256 bins, td.permute"),
    ("histogram, 1 M bins of 128 M int32", "histogram of 128 M int32, 1 M bins, td.permute"),
    ("5×5 stencil, general weights, 4096²", "5×5, general weights, 4096², weights in the program"),
    ("9×9 stencil, general weights, 4096²", "9×9, general weights, 4096², weights in the program"),
    ("100 steps of the heat equation, 8192²", "100 steps of 5 points, 8192²"),
    ("float32 matrix product, 8192² (`a @ b`)", "float32 product, 8192², a @ b"),
    ("same, one fused Strassen level (`td.strassen`)", "float32 product, 8192², td.strassen"),
    ("int32 matrix product, 4096²", "int32 product, 4096²"),
    ("one iteration of a loop over a small array", "one of 10000 iterations: one fused map"),
    ("argmax of 256 M", "argmax of 256 M float32"),
    ("sparse matrix–vector product (`fold_seg`), 4 M rows of 16", "sparse product, 4 M rows of 16"),
)
CPU = (
    ("Black–Scholes, 16 M options", "Black-Scholes, call and put, 16 M"),
    ("sin, cos and exp of 16 M", "sin, cos and exp, 16 M"),
    ("a·x + y, then √(z² + 1), 16 M", "a·x + y, then √(z² + 1), 16 M"),
    ("a·x + y, then √(z² + 1), 256 k", "a·x + y, then √(z² + 1), 256 k"),
    ("5×5 stencil, 4096²", "5×5 on 4096², literal weights"),
    ("9×9 stencil, 4096²", "9×9 on 4096², literal weights"),
    ("9×9 Gaussian, 4096² (recognised as separable)", "9×9 Gaussian on 4096²"),
    ("7-point stencil, 256³", "7-point on 256³"),
    ("histogram, 256 bins of 16 M int32", "histogram, 256 bins, 16 M int32, td.permute"),
    ("histogram, 1 M bins of 16 M int32", "histogram, 1 M bins, 16 M int32, td.permute"),
    ("cumulative sum of 16 M", "cumulative sum of 16 M"),
    ("sum of 32 M", "sum of 32 M"),
    ("argmax of 32 M", "argmax of 32 M"),
    ("Mandelbrot set, 1600 × 1200, float64", "Mandelbrot set, 1600 × 1200, float64"),
    ("50 steps of the heat equation, 4096²", "50 steps of the heat equation, 4096²"),
    ("int32 matrix product, 1024²", "matmul int32, 1024"),
)


def _digits(seconds: float, scale: float) -> str:
    value = seconds * scale
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def line(title: str, row: Mapping[str, Any]) -> str:
    """One row of a table: treadle, the two fastest correct peers, the speedup."""
    scale, unit = (1e3, "") if row["value"] is None else (1e6, " µs")
    mine = row["treadle"]["median"] * scale if row["value"] is None else row["value"]
    peers = sorted(row["peers"].items(), key=lambda item: item[1]["median"])
    right = [(n, t) for n, t in peers if t["error"] is None or t["error"] <= WRONG]
    shown = ", ".join(f"{n} {_digits(t['median'], scale)}{unit}" for n, t in right[:2])
    gain = f"{row['ratio']:.2f}×" if row["ratio"] < 2 else f"{row['ratio']:.1f}×"
    if "copy" in row["target"] and row["of_ceiling"] is not None:
        gain += f", {row['of_ceiling']:.0%} of copy"
    return f"| {title} | {mine:.3g}{unit} | {shown} | {gain} |"


def table(chosen: Sequence[tuple[str, str]], data: Mapping[str, Any]) -> list[str]:
    """The rows chosen; KeyError names one that the result lacks."""
    rows = {r["work"]: r for r in data["rows"]}
    head = ["| workload | treadle | fastest peers | speedup |", "| --- | ---: | ---: | ---: |"]
    apart = [(title, rows[work]["note"]) for title, work in chosen]
    notes = [f"The {title}: {note}." for title, note in apart if note.startswith("measured at")]
    shown = [line(title, rows[work]) for title, work in chosen]
    return [*head, *shown, *(["", *textwrap.wrap(" ".join(notes), 88)] if notes else [])]


def section() -> str:
    """The performance section."""
    gpu_file, gpu = newest("gpu")
    cpu_file, cpu = newest("cpu")
    products = sorted(RESULTS.glob("matmul-cuda-2*.md"))[-1]
    rows = {r["work"]: r for r in cpu["rows"]}
    call = rows["calling a compiled program on 10 elements"]["value"]
    cold = rows["10 operations: native code, cold"]["value"]
    copy = gpu["ceilings"]["copy GB/s"] / 1e3
    parts = [
        "Medians of one run each, in milliseconds. All of these results were checked against a",
        "float64 computation. Peers were written with care and run in the same process. The",
        "speedup is over the fastest peer: above 1×, treadle is faster. “Of copy” compares with a",
        "copy of the bytes that each step must move; temporal blocking (several steps in one",
        "pass over memory) can exceed it.",
        "",
        f"**GPU** ({gpu['device']['gpu']}, {gpu['date'][:10]}; float32; results stay on the "
        f"device; copy rate {copy:.2f} TB/s):",
        "",
        *table(GPU, gpu),
        "",
        f"[All {len(gpu['rows'])} workloads, with notes on those below target]"
        f"({_link(gpu_file.with_suffix('.md'))});",
        "`python -m benchmarks.gpu` measures your GPU. Matrix products of all sizes, in three",
        f"families of shapes and three dtypes: [table]({_link(products)}),",
        f"[plot]({_link(products.with_suffix('.png'))}); `python -m benchmarks.matmul`.",
        "",
        f"**CPU** ({cpu['device']['cores']} cores of an {cpu['device']['cpu']}, "
        f"{cpu['device']['llvm_name']}, {cpu['date'][:10]}; float32 unless stated):",
        "",
        *table(CPU, cpu),
        "",
        f"Calling a compiled program costs {call:.2g} µs; a program of ten operations compiles in",
        f"{cold / 1e3:.2g} s the first time. [All {len(cpu['rows'])} workloads, with notes on "
        f"those below target]({_link(cpu_file.with_suffix('.md'))});",
        "`make bench` measures your machine.",
    ]
    return "\n".join(parts)


def _link(path: Path) -> str:
    """As a page in docs/ writes it."""
    return f"../{path.relative_to(ROOT).as_posix()}"


def _wrapped(text: str) -> str:
    """Lines of a page; code spans are not broken."""
    whole = re.sub(r"`[^`]*`", lambda m: m[0].replace(" ", "\0"), text)
    lines = textwrap.wrap(whole, 120, break_on_hyphens=False)
    return "\n".join(lines).replace("\0", " ")


def one_word() -> str:
    """The table of one program under two orders."""
    path = max(RESULTS.glob("reorder-gpu-*.json"))
    data = json.loads(path.read_text(encoding="utf-8"))
    rows, columns = "Row() | Block(1, 256)", 'Column(128, grain="thread") | Block(256)'
    times = data["results"]["naive product, 8192²"][rows]
    name = data["device"]["gpu"]
    lines = [f"| 8192 × 8192, float32, {name} | time | |", "| --- | ---: | ---: |"]
    for order in (rows, columns):
        cell, gain = order.replace("|", r"\|"), times[rows] / times[order]
        lines.append(f"| `{cell}` | {times[order] * 1e3:.0f} ms | {gain:.2g}× |")
    return "\n".join(lines)


def headline() -> str:
    """What treadle is fast at, with numbers."""
    gpu, cpu = (newest(kind)[1] for kind in ("gpu", "cpu"))
    on_gpu, on_cpu = ({r["work"]: r for r in data["rows"]} for data in (gpu, cpu))

    def ms(row: Mapping[str, Any]) -> str:
        return f"{float(row['treadle']['median']) * 1e3:.2g} ms"

    strassen = on_gpu["float32 product, 8192², td.strassen"]
    floats = strassen["peers"]["cuBLAS"]["median"] / strassen["treadle"]["median"]
    integers = on_gpu["int32 product, 4096²"]["ratio"]
    steps = on_cpu["50 steps of the heat equation, 4096²"]
    many = on_cpu["Black-Scholes, call and put, 16 M"]
    heat = on_gpu["100 steps of 5 points, 8192²"]
    card, cores = gpu["device"]["gpu"].removeprefix("NVIDIA "), cpu["device"]["cores"]
    others = read(npbench.newest()["M"])
    mean = {(ours, peer): f"{by:.1f}×" for ours, peer, by, _, _ in npbench.means(others)}
    text = (
        f"How fast it is: the {len(others.programs())} programs of [NPBench](docs/npbench.md), "
        f"which others wrote, run {mean['native', 'numba']} as fast as with Numba and "
        f"{mean['native', 'jax-cpu']} as with JAX on {others.devices['cpu']['cores']} CPU cores, "
        f"and {mean['cuda', 'jax-gpu']} as fast as with JAX on an {card} (geometric means). "
        f"On {cores} cores, prices of 16 million options take {ms(many)} "
        f"({many['ratio']:.1f}× as fast as JAX, {_over(many, 'Numba'):.0f}× as Numba), 50 steps of "
        f"the heat equation on 4096² {ms(steps)} ({steps['ratio']:.1f}× as fast as Numba, "
        f"{_over(steps, 'JAX'):.0f}× as JAX). On the {card}, 100 steps on 8192² take {ms(heat)} "
        f"({heat['ratio']:.1f}× JAX), a product of int32 matrices {integers:.0f}× as fast as "
        f"CuPy's, and `td.strassen(a, b)` of 8192² float32 {floats:.2f}× as fast as cuBLAS. Where "
        "it is only as fast as others, or slower, "
        "is in the same [tables](docs/performance.md)."
    )
    return _wrapped(text)


def _over(row: Mapping[str, Any], peer: str) -> float:
    return float(row["peers"][peer]["median"] / row["treadle"]["median"])


#: What stands between the marks of a page.
PARTS = {README: {"one word": one_word, "headline": headline}, PAGE: {"performance": section}}


def written(page: Path) -> str:
    """The text of `page` with its generated parts written anew."""
    text = page.read_text(encoding="utf-8")
    for name, part in PARTS[page].items():
        text = replaced(text, (MARKS[0].format(name), MARKS[1].format(name)), part())
    return text


def retold(path: Path) -> str:
    """The Markdown page for the results at `path` (JSON)."""
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
    for each in PARTS:
        each.write_text(written(each), encoding="utf-8")
    for results in (newest(kind)[0] for kind in ("gpu", "cpu")):
        results.with_suffix(".md").write_text(retold(results), encoding="utf-8")
