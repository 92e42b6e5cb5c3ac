"""Measures rounding errors of fast products, for the tables of docs/accuracy.md.

    python -m benchmarks.matmul.accuracy                       print
    python -m benchmarks.matmul.accuracy --write               also benchmarks/results and the page
    python -m benchmarks.matmul.accuracy --sizes 256,512 --backend cuda

float32 against the product in float64, as in Li, Ranka, Sahni (2011), figures 19–22: the largest
and the mean absolute error for 0 to 4 levels of Strassen's and Winograd's algorithm; for centred
data (uniform in −1 … 1), positive data (0 … 1), and rows of A and columns of B scaled by 10^±4.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
from pathlib import Path
from typing import Any

import numpy as np

import treadle as td

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "accuracy.md"
HEADING = "# Accuracy of matrix products\n"
SIZES = (256, 512, 1024, 2048)
LEVELS = (0, 1, 2, 3, 4)
ALGORITHMS = ("strassen", "winograd")
SCALINGS = (None, "outer", "inner-outer")

Numbers = np.ndarray[Any, Any]


def operands(kind: str, n: int) -> tuple[Numbers, Numbers]:
    """Two matrices of one kind of data."""
    rng = np.random.default_rng(n)
    low = 0.0 if kind == "positive" else -1.0
    a, b = (rng.uniform(low, 1, (n, n)).astype(np.float32) for _ in range(2))
    if kind == "badly scaled":
        a *= (10.0 ** rng.uniform(-4, 4, (n, 1))).astype(np.float32)
        b *= (10.0 ** rng.uniform(-4, 4, (1, n))).astype(np.float32)
    return a, b


def product(a: Numbers, b: Numbers, algorithm: str, levels: int, backend: str,
            scaling: str | None = None) -> Numbers:  # fmt: skip
    name = algorithm if levels else "standard"
    made = td.matmul(a, b, algorithm=name, levels=levels or None, scaling=scaling)
    found: Numbers = td.run(made, backend=backend)
    return found


def errors(kind: str, n: int, backend: str) -> list[dict[str, Any]]:
    """A row for every algorithm and number of levels."""
    a, b = operands(kind, n)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    size = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    rows = []
    scalings = SCALINGS if kind == "badly scaled" else (None,)
    for algorithm in ALGORITHMS:
        for levels in LEVELS:
            for scaling in scalings if levels else (None,):
                error = np.abs(product(a, b, algorithm, levels, backend, scaling) - exact)
                rows.append({
                    "data": kind, "n": n, "algorithm": algorithm, "levels": levels,
                    "scaling": scaling, "maximum": float(error.max()), "mean": float(error.mean()),
                    "rms": float(np.sqrt(np.mean(error**2))),
                    "frobenius": float(np.linalg.norm(error) / np.linalg.norm(exact)),
                    "componentwise": float((error / size).max()),
                    "bound": td.error_bound(a, b, algorithm if levels else "standard",
                                            levels).bound,
                })  # fmt: skip
    return rows


def measure(sizes: tuple[int, ...], backend: str) -> dict[str, Any]:
    rows = [r for kind in ("centred", "positive", "badly scaled") for n in sizes
            for r in errors(kind, n, backend)]  # fmt: skip
    return {
        "what": "errors of float32 products against float64",
        "date": datetime.date.today().isoformat(), "backend": backend,
        "machine": platform.machine(), "numpy": np.__version__, "rows": rows,
    }  # fmt: skip


def _typical(found: dict[str, Any]) -> list[tuple[dict[str, Any], float]]:
    """The rows of data that is drawn alike, and what `td.error_bound` calls typical of them."""
    kept: dict[tuple[Any, ...], float] = {}
    rows = [r for r in found["rows"] if r["data"] != "badly scaled"]
    for r in rows:
        name = r["algorithm"] if r["levels"] else "standard"
        key = r["data"], r["n"], name, r["levels"]
        if key not in kept:
            kept[key] = td.error_bound(*operands(r["data"], r["n"]), name, r["levels"]).typical
    return [(r, kept[r["data"], r["n"], r["algorithm"] if r["levels"] else "standard", r["levels"]])
            for r in rows]  # fmt: skip


def _against_typical(found: dict[str, Any]) -> str:
    ratios = [r["rms"] / typical for r, typical in _typical(found)]
    return f"{min(ratios):.2f} to {max(ratios):.2f}"


def _largest(found: dict[str, Any]) -> float:
    return max(float(r["maximum"]) / typical for r, typical in _typical(found))


# --- tables -------------------------------------------------------------------------------------


def _rows(found: dict[str, Any], **want: Any) -> list[dict[str, Any]]:
    return [r for r in found["rows"] if all(r[k] == v for k, v in want.items())]


def _levels(count: int) -> str:
    return f"{count} level" if count == 1 else f"{count} levels"


def table(found: dict[str, Any], kind: str, what: str) -> str:
    """Extents by levels, one column of errors for each."""
    sizes = sorted({r["n"] for r in found["rows"]})
    lines = ["| algorithm | n | " + " | ".join(map(_levels, LEVELS)) + " |",
             "| --- | ---: |" + " ---: |" * len(LEVELS)]  # fmt: skip
    for algorithm in ALGORITHMS:
        for n in sizes:
            cells = {r["levels"]: f"{r[what]:.1e}"
                     for r in _rows(found, data=kind, algorithm=algorithm, n=n)}  # fmt: skip
            lines.append(f"| {algorithm} | {n} | " + " | ".join(cells[x] for x in LEVELS) + " |")
    return "\n".join(lines)


def scaled_table(found: dict[str, Any]) -> str:
    """Componentwise errors of badly scaled operands, by scaling."""
    n = max(r["n"] for r in found["rows"])
    lines = ["| algorithm | scaling | " + " | ".join(map(_levels, LEVELS)) + " |",
             "| --- | --- |" + " ---: |" * len(LEVELS)]  # fmt: skip
    for algorithm in ALGORITHMS:
        for scaling in SCALINGS:
            cells = []
            for levels in LEVELS:
                (row,) = _rows(found, data="badly scaled", algorithm=algorithm, n=n,
                               levels=levels, scaling=scaling if levels else None)  # fmt: skip
                cells.append(f"{row['componentwise']:.1e}")
            lines.append(f"| {algorithm} | {scaling or 'none'} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def section(found: dict[str, Any]) -> str:
    """The part of docs/accuracy.md on products."""
    return f"""{HEADING}
Errors of float32 products against float64, on the {found["backend"]} backend ({found["machine"]},
NumPy {found["numpy"]}), by `python -m benchmarks.matmul.accuracy --write`. The column "0 levels"
is the standard product.

For given operands, `td.error_bound(a, b, "strassen", levels)` returns a `bound` that no element
exceeds and a `typical` root mean square error. The latter treats the elements of an operand as
independent draws and needs only their mean and their spread: data with a nonzero mean have larger
partial sums, and larger errors. For the products of the first four tables, the root mean square
error was {_against_typical(found)} times `typical`, and the largest error of an element at most
{_largest(found):.0f} times. The estimate does not hold for graded rows or repeating patterns. For
operands on a GPU it assumes that a kernel adds all terms one after the other, whereas BLAS adds
them in blocks. `explain()` shows the bound, and the growth of the error over the standard product
for data with zero mean.

**Centred data** (uniform in −1 … 1), largest error of an element:

{table(found, "centred", "maximum")}

Mean error:

{table(found, "centred", "mean")}

**Positive data** (uniform in 0 … 1), largest error of an element:

{table(found, "positive", "maximum")}

Mean error:

{table(found, "positive", "mean")}

On centred data, a level of Strassen's algorithm costs about one bit, and a level of Winograd's
variant one and a third. On positive data, Winograd's mean errors hardly grow, because the
rounding of the standard product's own sums dominates. The worst-case bound grows by a factor of
up to 12 per level (Strassen) or 18 (Winograd). Li, Ranka and Sahni (2011) saw the largest error
grow by factors of 200 (Strassen) and 1,600 (Winograd) over four levels at 16,384.

**Badly scaled operands** (rows of A and columns of B times 10^±4), largest error relative to
Σ|a||b|, element by element, at the largest extent. The bound of a fast product is *normwise*:
small elements of the result carry the errors of the large ones. `scaling="outer"` divides rows of
A and columns of B by powers of two and multiplies the result, which is exact. `"inner-outer"`
first balances the columns of A against the rows of B.

{scaled_table(found)}

## When not to use a fast product

- **Small elements matter** relative to their own size (graded matrices, probabilities, residuals
  that cancel). Only norms are bounded. Use `scaling=`, or the standard product.
- **Infinities or NaNs are meaningful.** A block that contains one is added to others, so they
  spread to whole blocks of the result; in a standard product they affect one row or column.
- **Values are near the largest numbers of the type.** Sums of blocks may overflow.
- **Bits must not depend on the number of levels.** For a given choice, results repeat bit for
  bit, except under the executions `"atomic"`, `"batched"` and, on a CPU, `"persistent"`, which
  add floats in any order (`deterministic=True` never does). Inside `td.precision(fast=True)`,
  [measurements on the machine](guide.md#products) make the choice; `levels=` and `algorithm=` fix
  it.
- **Subnormal results matter.** On a GPU, the atomic update flushes them to zero; on the host
  nothing is flushed.

None of this applies to integers: they wrap, and every algorithm gives the exact bits.
"""


def newest() -> dict[str, Any] | None:
    """The results that were kept last."""
    kept = sorted(RESULTS.glob("matmul-accuracy-*.json"))
    found: dict[str, Any] | None = json.loads(kept[-1].read_text(encoding="utf-8")) if kept else None
    return found


def write_page(found: dict[str, Any]) -> None:
    """Replace the section on products, the page's last."""
    text = PAGE.read_text(encoding="utf-8")
    before = text.partition("\n" + HEADING)[0].rstrip("\n")
    PAGE.write_text(f"{before}\n\n{section(found)}", encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.matmul.accuracy", description=__doc__)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--backend", default="native")
    parser.add_argument("--write", action="store_true", help="keep the results and the page")
    given = parser.parse_args(arguments)
    found = measure(tuple(int(n) for n in given.sizes.split(",")), given.backend)
    print(section(found))
    if given.write:
        path = RESULTS / f"matmul-accuracy-{found['date']}.json"
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        write_page(found)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
