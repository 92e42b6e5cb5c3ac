"""Writes the numbers of docs/products.md from the newest results, between marks.

    python -m benchmarks.matmul.page

A test checks that the page is what this module would write.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.provenance import markdown_table, newest, replaced
from treadle.backend.cuda.products.form import FORMS
from treadle.backend.cuda.products.ways import BY_LIBRARY

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "products.md"
MARKS = ("<!-- products: begin (python -m benchmarks.matmul.page) -->", "<!-- products: end -->")
#: A plain Strassen level over the library, for comparison.
RIVAL = "workspace strassen"


def _ways(rows: Sequence[dict[str, Any]], peer: str) -> list[str]:
    found = dict.fromkeys(w for r in rows for w in r["ways"])
    return [w for w in found if w not in (peer, RIVAL)] + [RIVAL] * (RIVAL in found)


def _ratio(row: dict[str, Any], way: str) -> str:
    """The speedup over the library's product; – where it was wrong or not measured."""
    one = row["ways"].get(way)
    return f"{one['ratio']:.2f}" if one is not None and one["right"] else "–"


def squares(data: dict[str, Any], dtype: str) -> list[str]:
    """The square products of one type: the library's rate, and the speedups over it."""
    peer = data["peer"]
    rows = [r for r in data["rows"] if r["family"] == "square" and r["type"] == dtype]
    ways = _ways(rows, peer)
    unit = "TOP/s" if "int" in dtype else "TFLOP/s"
    head = ["n", peer, *ways]
    cells = ([f"{r['n']:,}", f"{r['ways'][peer]['tflops']:.1f}", *(_ratio(r, w) for w in ways)]
             for r in rows)  # fmt: skip
    title = f"**Square products, {dtype}**: {unit} of {peer}, and speedups over it."
    return [title, "", *markdown_table(head, cells)]


def crossovers(data: dict[str, Any]) -> list[str]:
    """The extents from which each variant stays ahead, a line for each type and family."""
    found = data["crossovers"]
    ways = [w for w in dict.fromkeys(c["way"] for c in found) if w != data["peer"]]
    held = {(c["type"], c["family"], c["way"]): c["from"] for c in found}
    rows = dict.fromkeys((c["type"], c["family"]) for c in found)

    def cell(key: tuple[str, str], way: str) -> str:
        at = held.get((*key, way))
        return f"{at:,}" if at else "never"

    return markdown_table(["type, family", *ways],
                  ([", ".join(k), *(cell(k, w) for w in ways)] for k in rows))  # fmt: skip


def executions(data: dict[str, Any]) -> list[str]:
    """The executions at the largest extent of each type, a column for each number of levels; of
    types without an engine, those over the library's products."""
    found = []
    for dtype in dict.fromkeys(r["type"] for r in data["rows"]):
        row = [r for r in data["rows"] if r["type"] == dtype][-1]
        names = dict.fromkeys(w.split(" ", 2)[2] for w in row["ways"] if w.count(" ") == 2)
        engine = any(dtype in form.types for form in FORMS.values())
        names = {n: None for n in names if engine or n in BY_LIBRARY}
        found += [[f"{dtype}, {row['n']:,}: {name}",
                   *(_ratio(row, f"strassen {x} {name}") for x in (1, 2))]
                  for name in names]  # fmt: skip
    return markdown_table(["type, n: execution", "one level", "two levels"], found)


def filled(data: dict[str, Any]) -> list[str]:
    """The largest products in the memory of a smaller GPU."""
    return markdown_table(
        ["memory, variant", "n", "seconds", "TFLOP/s"],
        ([f"{r['bytes'] / 1e9:.0f} GB, {r['way']}", f"{r['n']:,}",
          *(("does not fit", "") if r["ms"] is None else
            (f"{r['ms'] / 1e3:.3g}", f"{2e-9 * r['n'] ** 3 / r['ms']:.1f}"))]
         for r in data["filled"]),
    )  # fmt: skip


def section() -> str:
    """The generated part of the page."""
    path, data = newest("matmul-cuda")
    other, ways = newest("matmul-cuda-executions")
    picture = path.with_suffix(".png").relative_to(ROOT)
    whole = ", ".join(f"{name}: {n:,}" for name, n in data["largest"].items())
    lines = [
        f"On an {data['device']}, {data['date']}; medians of CUDA events, every result checked; "
        f"[all products](../{path.with_suffix('.md').relative_to(ROOT)}).",
        "", *([data["note"], ""] if "note" in data else []),
        f"![Effective TFLOP/s of three families of products, by type](../{picture})", "",
        f"**Crossover**: the extent from which each variant stays faster than {data['peer']}:", "",
        *crossovers(data), "",
    ]  # fmt: skip
    for dtype in dict.fromkeys(r["type"] for r in data["rows"]):
        lines += [*squares(data, dtype), ""]
    lines += [f"**Executions**, speedup over {ways['peer']} "
              f"([all](../{other.with_suffix('.md').relative_to(ROOT)})):", "",
              *executions(ways), "",
              f"**The largest square float32 product** in the {data['free'] / 1e9:.0f} GB of this "
              f"GPU: {whole}."]  # fmt: skip
    if data.get("filled"):
        lines += ["", *filled(data)]
    return "\n".join(lines)


def written(page: str) -> str:
    """The page with the numbers of the newest results."""
    return replaced(page, MARKS, section())


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
