"""Fast products against the library's, in the three families of Huang, Yu, van de Geijn (2020).

    python -m benchmarks.matmul                       on the GPU: families, executions, crossovers
    python -m benchmarks.matmul --backend native --sizes 512,1024
    python -m benchmarks.matmul --only square --types float32,int32 --save
    python -m benchmarks.matmul --largest float64=16384 --largest int32=8192 …

Families: square; k = 4 096 with m = n varying; m = n = 8 192 with k varying (`--rank`, `--panel`:
other fixed extents).  Variants: the standard product, Strassen's algorithm with one and two levels
(with the default execution, and with `--executions` every execution), and two peers: the library's
product (cuBLAS, CuPy, NumPy), and a plain Strassen level over it that stores its block sums.

Every variant is checked against float64 (integers: against the exact product modulo 2^32) on a
sample of rows and columns, and timed interleaved with the others; effective TFLOP/s count 2mkn for
every algorithm.  Last come the extents from which each variant stays faster than the library, and
the largest square product that fits into memory with and without workspace: computed for the
device, and run in as much memory as the paper's GPU had.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

import treadle as td
from benchmarks import provenance
from benchmarks.matmul.devices import Device, device_for
from treadle.dsl.operations.algebra.products import EXECUTIONS
from treadle.skeletons.products import STRASSEN
from treadle.skeletons.products.executions import execute, plan
from treadle.skeletons.products.kit import Kit

SIZES = (512, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 20480)
RESULTS = Path(__file__).resolve().parents[1] / "results"
#: Bytes of the card on which Huang et al. multiplied squares of 36 000 without a workspace, and of
#: 22 500 with it.
CARD = 16 * 10**9
#: Bytes for flags, what the allocator rounds up, and rows and columns that are checked.
BESIDE = 64 << 20
#: Rows and columns that are checked.
SAMPLE = 48
#: Largest error over Σ|a||b| that a float32 product may have in the sample.
TOLERANCE = 1e-4

Size = tuple[int, int, int]
"""m, k, n."""
Run = Callable[[], Any]


def families(sizes: tuple[int, ...], rank: int, panel: int) -> dict[str, list[Size]]:
    """The products of each family, by their varying extent."""
    return {
        "square": [(n, n, n) for n in sizes],
        f"k = {rank}": [(n, rank, n) for n in sizes],
        f"m = n = {panel}": [(panel, k, panel) for k in sizes],
    }


# --- the ways -----------------------------------------------------------------------------------


def asked(executions: bool) -> dict[str, dict[str, Any]]:
    """The language's own products: options by name."""
    found: dict[str, dict[str, Any]] = {
        "standard": {"algorithm": "standard"},
        "strassen 1": {"algorithm": "strassen", "levels": 1},
        "strassen 2": {"algorithm": "strassen", "levels": 2},
        "winograd 1": {"algorithm": "winograd", "levels": 1},
        "winograd 2": {"algorithm": "winograd", "levels": 2},
    }
    if executions:
        found |= {f"strassen {x} {e}": {"algorithm": "strassen", "levels": x, "execution": e}
                  for e in EXECUTIONS if e for x in (1, 2)}  # fmt: skip
    return found


def ours(device: Device, a: Any, b: Any, executions: bool) -> dict[str, Run]:
    """The language's own products, by name."""
    made: dict[str, Run] = {}
    for name, options in asked(executions).items():
        work = td.jit(lambda x, y, o=options: td.matmul(x, y, **o), backend=device.backend)
        made[name] = lambda work=work: work(a, b)
    return made


def compile_ahead(device: Device, products: Iterable[tuple[Size, str]], executions: bool) -> None:
    """What the language's products will need, on all cores."""

    def programs() -> Iterable[Any]:
        for (m, k, n), dtype in products:
            zero = np.zeros((), dtype)
            a, b = np.broadcast_to(zero, (m, k)), np.broadcast_to(zero, (k, n))
            for options in asked(executions).values():
                yield td.jit(lambda x, y, o=options: td.matmul(x, y, **o)).lower(a, b)

    device.compile(programs())


def rivals(device: Device, a: Any, b: Any) -> dict[str, Run]:
    """The library's product, and Strassen over it with sums in memory."""
    kit = Kit(device.library)
    size = a.shape[0], a.shape[1], b.shape[1]
    found: dict[str, Run] = {device.peer: lambda: device.library.matmul(a, b)}

    def workspace_strassen() -> Any:
        made = plan(STRASSEN, "sequential", 1, size)
        out = device.library.empty((size[0], size[2]), a.dtype)
        execute(kit, made, a, b, out, kit.empty(made.workspace, a.dtype))
        return out

    found["workspace strassen"] = workspace_strassen
    return found


# --- checking -------------------------------------------------------------------------------------


class Sample:
    """Some rows of A, some columns of B, and what C must be there."""

    def __init__(self, device: Device, a: Any, b: Any) -> None:
        rng = np.random.default_rng(1)
        self.rows = np.sort(rng.choice(a.shape[0], min(SAMPLE, a.shape[0]), replace=False))
        self.columns = np.sort(rng.choice(b.shape[1], min(SAMPLE, b.shape[1]), replace=False))
        x, y = device.part(a, self.rows, None), device.part(b, None, self.columns)
        self.device, self.exact = device, x.dtype.kind in "iu"
        if self.exact:
            self.want = (x.astype(np.int64) @ y.astype(np.int64)).astype(x.dtype)
        else:
            self.want = x.astype(np.float64) @ y.astype(np.float64)
            self.size = np.abs(x).astype(np.float64) @ np.abs(y).astype(np.float64)

    def error(self, found: Any) -> float:
        """The largest error over Σ|a||b|; of integers how many are wrong."""
        got = self.device.part(found, self.rows, self.columns)
        if self.exact:
            return float(np.count_nonzero(got != self.want))
        return float((np.abs(got - self.want) / np.maximum(self.size, 1e-300)).max())

    def right(self, error: float) -> bool:
        return error == 0 if self.exact else error < TOLERANCE


# --- measuring ------------------------------------------------------------------------------------


def measure(device: Device, family: str, size: Size, dtype: str, executions: bool, rounds: int
            ) -> dict[str, Any]:  # fmt: skip
    """One row: every way's error, milliseconds and effective TFLOP/s, and the ratio to the peer."""
    m, k, n = size
    a, b = device.random((m, k), dtype), device.random((k, n), dtype)
    runs = {**rivals(device, a, b), **ours(device, a, b, executions)}
    sample = Sample(device, a, b)
    errors = {}
    for name, run in dict(runs).items():
        try:
            errors[name] = sample.error(run())
        except td.ScheduleError:
            del runs[name]  # refused: it does not exist on this device
    seconds = device.interleaved(runs, rounds)
    base = seconds[device.peer]
    return {
        "family": family, "m": m, "k": k, "n": n, "type": dtype,
        "ways": {
            name: {"ms": 1e3 * t, "tflops": 2e-12 * m * k * n / t, "ratio": base / t,
                   "error": errors[name], "right": sample.right(errors[name])}
            for name, t in seconds.items()
        },
    }  # fmt: skip


def varying(row: dict[str, Any]) -> int:
    """The extent that its family varies."""
    return int(row["k"] if row["family"].startswith("m") else row["m"])


def crossovers(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """From which extent on a way stays ahead of the library's product, by family and type."""
    found = []
    for family, dtype in dict.fromkeys((r["family"], r["type"]) for r in rows):
        mine = [r for r in rows if (r["family"], r["type"]) == (family, dtype)]
        mine.sort(key=varying)
        for way in dict.fromkeys(w for r in mine for w in r["ways"]):
            ahead = None
            for row in mine:
                one = row["ways"].get(way)
                if one is None or one["ratio"] <= 1 or not one["right"]:
                    ahead = None
                elif ahead is None:
                    ahead = varying(row)
            found.append({"family": family, "type": dtype, "way": way, "from": ahead})
    return found


def largest(free: int, itemsize: int = 4) -> dict[str, int]:
    """The largest n of a square product in so many bytes: fused, two levels, and with the workspace
    of sums and products in memory (`workspace strassen`)."""

    def fits(needs: Callable[[int], int]) -> int:
        low, high = 0, 1 << 22
        while high - low > 1:
            n = (low + high) // 2
            low, high = (n, high) if itemsize * needs(n) <= free else (low, n)
        return low

    return {
        "fused, no workspace": fits(lambda n: 3 * n * n),
        "two levels, outer sums": fits(lambda n: 3 * n * n + 2 * ((n + 1) // 2) ** 2),
        "workspace strassen": fits(
            lambda n: 3 * n * n + plan(STRASSEN, "sequential", 1, (n, n, n)).workspace
        ),
    }


def filled(device: Device, size: int = CARD) -> list[dict[str, Any]]:
    """The largest products of a card of `size` bytes, in that much memory: every way at the extent
    that is said to fit, the last one (with a workspace) at the first one's extent too."""
    said = largest(size - BESIDE)
    found = []
    for name, n in [*said.items(), (list(said)[-1], max(said.values()))]:
        limit = device.limited(size)
        if limit is None:
            return []
        row = {"way": name, "n": n, "bytes": size, "ms": None}
        try:
            with limit:
                row |= _one(device, name, n)
        except MemoryError:
            pass  # as it should at the last extent
        found.append(row)
    return found


def _one(device: Device, name: str, n: int) -> dict[str, Any]:
    """A way of `largest` once, all of whose memory is given back."""
    a, b = device.random((n, n), "float32"), device.random((n, n), "float32")
    short = {"fused, no workspace": "strassen 1", "two levels, outer sums": "strassen 2"}
    run = {**rivals(device, a, b), **ours(device, a, b, False)}[short.get(name, name)]
    sample = Sample(device, a, b)
    device.free()  # what the sample was copied through
    error = sample.error(run())
    seconds = device.interleaved({name: run}, 0)[name]
    return {"error": error, "right": sample.right(error), "ms": 1e3 * seconds}


# --- writing it down --------------------------------------------------------------------------


def table(rows: list[dict[str, Any]]) -> str:
    """Effective TFLOP/s (and × the library) of every way, a line for each product."""
    ways = list(dict.fromkeys(w for r in rows for w in r["ways"]))
    lines = ["| family | type | m × k × n | " + " | ".join(ways) + " |",
             "| --- | --- | --- |" + " --- |" * len(ways)]  # fmt: skip
    for r in rows:
        cells = []
        for way in ways:
            one = r["ways"].get(way)
            text = "" if one is None else f"{one['tflops']:.3g} ({one['ratio']:.2f})"
            cells.append(text + (" WRONG" if one is not None and not one["right"] else ""))
        head = f"| {r['family']} | {r['type']} | {r['m']} × {r['k']} × {r['n']} | "
        lines.append(head + " | ".join(cells) + " |")
    return "\n".join(lines)


def page(found: dict[str, Any]) -> str:
    """The results as Markdown; "note": what a reader has to know of the run, added by hand."""
    lines = [f"Effective TFLOP/s (speedup over {found['peer']}) on {found['device']}, {found['date']}", "",
             *([found["note"], ""] if "note" in found else []), table(found["rows"]), "",
             "| family | type | variant | faster from |", "| --- | --- | --- | ---: |"]  # fmt: skip
    lines += [f"| {c['family']} | {c['type']} | {c['way']} | {c['from'] or 'never'} |"
              for c in found["crossovers"]]  # fmt: skip
    lines += ["", f"Largest square float32 product in {found['free'] / 1e9:.0f} GB: "
              + ", ".join(f"{name} {n:,}" for name, n in found["largest"].items())]  # fmt: skip
    lines += [f"In {r['bytes'] / 1e9:.0f} GB, {r['way']}, {r['n']:,}: "
              + ("does not fit" if r["ms"] is None else
                 f"{r['ms'] / 1e3:.3g} s, {2e-9 * r['n']**3 / r['ms']:.3g} TFLOP/s"
                 + ("" if r["right"] else " WRONG"))
              for r in found.get("filled", ())]  # fmt: skip
    return "\n".join(lines) + "\n"


def draw(found: dict[str, Any], path: Path) -> None:
    """A row of panels for each type, one for each family; a curve for each way that was right."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    families, types = (list(dict.fromkeys(r[key] for r in found["rows"]))
                       for key in ("family", "type"))  # fmt: skip
    figure, axes = pyplot.subplots(
        len(types), len(families), figsize=(5 * len(families), 3.6 * len(types)), squeeze=False
    )
    for line, dtype in zip(axes, types, strict=True):
        for axis, family in zip(line, families, strict=True):
            mine = [r for r in found["rows"] if (r["family"], r["type"]) == (family, dtype)]
            for way in dict.fromkeys(w for r in mine for w in r["ways"]):
                points = [(varying(r), r["ways"][way]["tflops"]) for r in mine
                          if way in r["ways"] and r["ways"][way]["right"]]  # fmt: skip
                if points:
                    style = "--" if way in (found["peer"], "workspace strassen") else "-"
                    axis.plot(*zip(*points, strict=True), style, marker=".", label=way)
            axis.set(title=f"{family}, {dtype}", xlabel="varying extent",
                     ylabel="effective TFLOP/s")  # fmt: skip
            axis.grid(alpha=0.3)
    axes[0][0].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def main(arguments: list[str] | None = None) -> int:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("benchmarks.matmul", description=__doc__, formatter_class=raw)
    parser.add_argument("--backend", default="cuda", choices=["cuda", "native"])
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--types", default="float32", help="float32, float64, int32, …")
    parser.add_argument("--only", help="a family: how its name begins")
    parser.add_argument("--largest", action="append", default=[], metavar="TYPE=N",
                        help="no larger varying extent than N for this type")  # fmt: skip
    parser.add_argument("--rank", type=int, default=4096)
    parser.add_argument("--panel", type=int, default=8192)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--executions", action="store_true", help="every execution that exists")
    parser.add_argument("--save", action="store_true", help="JSON, Markdown, plot in results")
    parser.add_argument("--name", default="", help="a word for the files that --save writes")
    given = parser.parse_args(arguments)
    device = device_for(given.backend)
    sizes = tuple(int(n) for n in given.sizes.split(","))
    most = {name: int(n) for name, n in (x.split("=") for x in given.largest)}
    todo = [
        (family, size, dtype)
        for dtype in given.types.split(",")
        for family, products in families(
            tuple(n for n in sizes if n <= most.get(dtype, n)), given.rank, given.panel).items()
        if not given.only or family.startswith(given.only)
        for size in products
    ]  # fmt: skip
    compile_ahead(device, ((size, dtype) for _, size, dtype in todo), given.executions)
    rows = []
    for family, size, dtype in todo:
        rows.append(measure(device, family, size, dtype, given.executions, given.rounds))
        print(table(rows[-1:]).splitlines()[-1], flush=True)
    now = datetime.now(UTC)
    found = {
        "device": device.name, "peer": device.peer, "date": now.date().isoformat(),
        "versions": provenance.versions(), **provenance.commit(), "rows": rows,
        "crossovers": crossovers(rows), "free": device.free(), "largest": largest(device.free()),
        "filled": filled(device) if "float32" in given.types and not given.only else [],
    }  # fmt: skip
    print("\n" + page(found))
    if given.save:
        word = f"-{given.name}" if given.name else ""
        stem = RESULTS / f"matmul-{given.backend}{word}-{found['date']}"
        stem.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        stem.with_suffix(".md").write_text(page(found), encoding="utf-8")
        draw(found, stem.with_suffix(".png"))
    return 0 if all(w["right"] for r in rows for w in r["ways"].values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
