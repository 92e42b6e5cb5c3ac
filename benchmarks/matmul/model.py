"""The performance model against what was measured: figure 10 of Huang, Yu, van de Geijn (2020).

    python -m benchmarks.matmul.model            the errors of every way, from the committed results
    python -m benchmarks.matmul.model --write    also results/matmul-model.md and .png

Nothing is fitted: instruction counts and the share of issue slots come from the machine code and a
profiler, rates from microbenchmarks.  "raw" is the model by itself, "left out" what
`measured.corrected` says of an extent from the measurements at the others.  The second table and
the figure take the newest results of the three families, measured through the language: none of
them went into a prediction.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from benchmarks.provenance import newest
from treadle.skeletons.products.measured import MEASURED, ceilings, corrected, raw, ways
from treadle.skeletons.products.model import H200, Size

HERE = Path(__file__).resolve().parent
SOURCE = HERE / "results" / "2026-11-21-nvidia-h200-float32.json"
RESULTS = HERE.parent / "results"
#: Below this extent the pipelines' start and the chains of "split" dominate.
LEAST = 1536


# --- the paper's model -------------------------------------------------------------------------


@dataclass(frozen=True)
class Strategy:
    """Block sizes: tile (m_S, n_S, k_S) of a thread block, (m_R, n_R) of a thread (figure 3)."""

    name: str
    rows: int
    cols: int
    step: int
    thread_rows: int
    thread_cols: int

    @property
    def threads(self) -> int:
        return self.rows // self.thread_rows * (self.cols // self.thread_cols)


STRATEGIES = (
    Strategy("small", 16, 16, 16, 2, 2), Strategy("medium", 32, 32, 8, 4, 4),
    Strategy("large", 64, 64, 8, 8, 8), Strategy("tall", 128, 32, 8, 8, 4),
    Strategy("wide", 32, 128, 8, 4, 8), Strategy("huge", 128, 128, 8, 8, 8),
)  # fmt: skip
#: The paper's machine: multiprocessors, multiply-adds a second, bytes a second of memory (with the
#: paper's 1 + λ = 1.2 for the L2) and of shared memory; resident blocks of a multiprocessor.
V100, PROCESSORS, FMA, MEMORY, SHARED, RESIDENT = (
    "Tesla V100", 80, 15.67e12 / 2, 1.08e12, 15.67e12, 2)  # fmt: skip


class Parts(NamedTuple):
    """Seconds by resource; the slowest determines the time of a product."""

    arithmetic: float
    shared: float
    memory: float

    @property
    def seconds(self) -> float:
        return max(self)


def paper(block: Strategy, size: Size, itemsize: int = 4) -> Parts:
    """One kernel of (m, k) by (k, n) on the paper's machine (equations 8–14 and 19–22)."""
    m, k, n = size
    fragments = block.threads * (block.thread_rows + block.thread_cols) * k
    moved = block.rows * k + block.cols * k + block.rows * block.cols
    tiles = ceil(m / block.rows) * ceil(n / block.cols)
    launched = ceil(tiles / (PROCESSORS * RESIDENT)) * PROCESSORS * RESIDENT
    return Parts(
        launched * block.rows * block.cols * k / FMA,
        launched * itemsize * ((block.rows + block.cols) * k + fragments) / SHARED,
        tiles * itemsize * moved / MEMORY,
    )


# --- predictions and measurements --------------------------------------------------------------


def squares() -> list[dict[str, Any]]:
    """Predicted over measured for every way and extent, raw and left out."""
    found = []
    for (device, arithmetic), known in MEASURED.items():
        on, cost = ceilings(arithmetic)
        for way, times in known.items():
            for n, milliseconds in times.items():
                size = (n, n, n)
                said = None if way == "library" else raw(on, cost, way, size) * 1e3 / milliseconds
                others = corrected(arithmetic, way, size, on=on, cost=cost, without=n)
                found.append({
                    "device": device, "arithmetic": arithmetic, "way": way, "n": n,
                    "tflops": 2e-9 * n**3 / milliseconds, "raw": said,
                    "left out": others * 1e3 / milliseconds,
                })  # fmt: skip
    return found


def ragged() -> list[dict[str, Any]]:
    """The same for the measured extents that fill no tile, or are no squares: none was used."""
    found = []
    for row in json.loads(SOURCE.read_text(encoding="utf-8"))["ragged"]:
        size = row["m"], row["k"], row["n"]
        for way, one in row["variants"].items():
            found.append({"size": size, "way": way,
                          "ratio": corrected("Float32", way, size) * 1e3 / one["ms"]})  # fmt: skip
    return found


#: Levels of the ways of the three families that an engine computes in float32.
CHOSEN = {"standard": 0, "strassen 1": 1, "strassen 2": 2}


def families() -> list[dict[str, Any]]:
    """The products of the newest results, float32: seconds measured through the language, and for
    the execution that is chosen as predicted, raw and corrected."""
    found = []
    for row in newest("matmul-cuda")[1]["rows"]:
        if row["type"] != "float32":
            continue
        size = row["m"], row["k"], row["n"]
        for way, levels in CHOSEN.items():
            said = ways(
                "Float32", size, fast=levels > 0, deterministic=False, levels=levels or None
            )
            best = min(said, key=said.__getitem__)
            own = min((w for w in said if w != "library"), key=said.__getitem__)
            on, cost = ceilings("Float32")
            found.append({
                "family": row["family"], "size": size, "way": way, "by": best,
                "seconds": row["ways"][way]["ms"] / 1e3, "corrected": said[best],
                "raw": raw(on, cost, own, size),
            })  # fmt: skip
    return found


def summary(rows: list[dict[str, Any]]) -> list[tuple[str, str, float, float, float]]:
    """(arithmetic, way, mean raw error, mean and largest error left out), from LEAST on."""
    found = []
    for arithmetic, way in dict.fromkeys((r["arithmetic"], r["way"]) for r in rows):
        mine = [r for r in rows if (r["arithmetic"], r["way"]) == (arithmetic, way)
                and r["n"] >= LEAST and r["raw"] is not None]  # fmt: skip
        if mine:
            out = [abs(r["left out"] - 1) for r in mine]
            found.append((arithmetic, way, mean(abs(r["raw"] - 1) for r in mine), mean(out),
                          max(out)))  # fmt: skip
    return found


def page(rows: list[dict[str, Any]]) -> str:
    """The errors as Markdown."""
    lines = [f"Errors of predicted times on an {H200.name}, n ≥ {LEAST}", "",
             "| arithmetic | variant | raw, mean error | cross-validated, mean | largest |",
             "| --- | --- | ---: | ---: | ---: |"]  # fmt: skip
    lines += [f"| {a} | {w} | {r:.1%} | {m:.1%} | {x:.1%} |" for a, w, r, m, x in summary(rows)]
    lines += ["", "Extents that do not fill tiles, or are not square: predicted / measured", "",
              "| m × k × n | variant | ratio |", "| --- | --- | ---: |"]  # fmt: skip
    lines += [f"| {' × '.join(map(str, r['size']))} | {r['way']} | {r['ratio']:.2f} |"
              for r in ragged()]  # fmt: skip
    lines += [
        "",
        f"Three families through the language, all extents ≥ {LEAST}: mean error",
        "",
        "| family | variant | raw | corrected | largest |",
        "| --- | --- | ---: | ---: | ---: |",
    ]
    chosen = [r for r in families() if min(r["size"]) >= LEAST and r["by"] != "library"]
    for family, way in dict.fromkeys((r["family"], r["way"]) for r in chosen):
        mine = [r for r in chosen if (r["family"], r["way"]) == (family, way)]
        errors = [abs(r["corrected"] / r["seconds"] - 1) for r in mine]
        alone = mean(abs(r["raw"] / r["seconds"] - 1) for r in mine)
        lines.append(f"| {family} | {way} | {alone:.1%} | {mean(errors):.1%} | {max(errors):.1%} |")
    lines += ["", f"The paper's own model, {V100}, 8192³, TFLOP/s by strategy:", ""]
    for block in STRATEGIES:
        seconds = paper(block, (8192, 8192, 8192)).seconds
        lines.append(f"- {block.name} {block.rows} × {block.cols}: {2e-12 * 8192**3 / seconds:.1f}")
    return "\n".join(lines) + "\n"


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Measured (points) and modelled (lines) effective TFLOP/s by extent: every way of an engine,
    and in a second line of panels the three families through the language."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    kinds = list(dict.fromkeys(r["arithmetic"] for r in rows))
    chosen = families()
    names = list(dict.fromkeys(r["family"] for r in chosen))
    across = max(len(kinds), len(names))
    figure, axes = pyplot.subplots(2, across, figsize=(6 * across, 9), squeeze=False)
    for axis, kind in zip(axes[0], kinds, strict=False):
        each = dict.fromkeys(r["way"] for r in rows if r["arithmetic"] == kind)
        for colour, way in enumerate(each):
            mine = [r for r in rows if (r["arithmetic"], r["way"]) == (kind, way)]
            axis.plot([r["n"] for r in mine], [r["tflops"] for r in mine], ".", color=f"C{colour}")
            if mine[0]["raw"] is not None:
                axis.plot([r["n"] for r in mine], [r["tflops"] / r["raw"] for r in mine], "--",
                          color=f"C{colour}", label=way)  # fmt: skip
        axis.set(title=f"{kind}: measured (points), modelled (lines)", xlabel="n", xscale="log")
    for axis, name in zip(axes[1], names, strict=False):
        for colour, way in enumerate(CHOSEN):
            mine = [r for r in chosen if (r["family"], r["way"]) == (name, way)]
            at = [r["size"][1] if name.startswith("m") else r["size"][0] for r in mine]
            for key, style in (("seconds", "."), ("raw", "--"), ("corrected", "-")):
                rate = [2e-12 * r["size"][0] * r["size"][1] * r["size"][2] / r[key] for r in mine]
                axis.plot(at, rate, style, color=f"C{colour}",
                          label=f"{way}, {key}" if key != "seconds" else way)  # fmt: skip
        axis.set(title=f"float32, {name}: through the language", xlabel="varying extent",
                 xscale="log")  # fmt: skip
    for axis in axes.flat:
        if axis.lines:
            axis.set(ylabel="effective TFLOP/s")
            axis.grid(alpha=0.3)
            axis.legend(fontsize=7)
        else:
            axis.set_axis_off()
    figure.tight_layout()
    figure.savefig(path, dpi=90)
    pyplot.close(figure)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.matmul.model")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args(arguments)
    rows = squares()
    print(page(rows))
    if given.write:
        (RESULTS / "matmul-model.md").write_text(page(rows), encoding="utf-8")
        draw(rows, RESULTS / "matmul-model.png")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
