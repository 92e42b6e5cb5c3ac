"""Are structured schedules as good as locality-graph scheduling (PAVER)?  Simulated, and measured.

    python -m benchmarks.schedules.paver [--quick] [--only NAME] [--run BACKEND] [--out FILE.json]

Regular programs (stencils, a naive product, a transposition) and irregular ones (windows around
permuted blocks, block-sparse products), each under its row order, every structured order, CTA
clustering (`Clusters`, `Agents`: Li et al., ASPLOS 2017), structured orders on agents, and
`LocalityGraph` in its three ways (PAVER: Tripathy et al., TACO 2021), all with blocks of the same
shape.  For each: the time of the
preprocessing, lines that the first-level caches bring in, lines that memory gives, both simulated
(`skeletons/simulator/device.py`), and with `--run` the time on that backend, taken in turns.

Prints a table; writes JSON and the table in Markdown.  Without `--run` nothing is timed but the
preprocessing.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

import treadle as td
from benchmarks import harness
from treadle.skeletons.locality import queues_of
from treadle.skeletons.schedules import (
    Agents,
    Block,
    Clusters,
    Column,
    Hilbert,
    LocalityGraph,
    Morton,
    Row,
    Schedule,
    Swizzle,
    Tile,
    as_schedule,
)
from treadle.skeletons.simulator.device import (
    BlockTrace,
    DeviceRun,
    Multiprocessors,
    block_trace,
    redirected,
    run_blocks,
)
from treadle.skeletons.simulator.programs import pattern_of

HERE = Path(__file__).resolve().parent
BLOCK = Block(8, 32)
#: float32 elements of a line of 128 bytes.
LINE = 32
ORDERS = (
    Column(64), Column(128), Column(256), Column(512), Tile(32, 128), Tile(64, 64), Swizzle(32),
    Swizzle(64), Morton(), Hilbert(),
)  # fmt: skip
CLUSTERED = (Clusters(4), Agents(4), Agents(8))
GRAPHS = tuple(LocalityGraph(m) for m in ("mst", "kway", "bisect"))


@dataclass(frozen=True)
class Program:
    """`make(schedule)` is the function of `arrays`; `regular`: its reads are affine."""

    name: str
    regular: bool
    make: Callable[[Any], Callable[..., Any]]
    arrays: tuple[Any, ...]

    def lower(self, schedule: Any, backend: str = "native") -> Any:
        return td.jit(self.make(schedule), backend=backend).lower(*self.arrays)


@dataclass
class Result:
    """One schedule of one program; misses are lines of 128 bytes, seconds a call."""

    program: str
    regular: bool
    schedule: str
    family: str
    accesses: int
    l1_misses: int
    l2_misses: int
    stolen: int
    steps: int
    blocks: int
    edges: int = 0
    graph_seconds: float = 0.0
    order_seconds: float = 0.0
    timing: harness.Timing | None = None

    @property
    def preprocessing(self) -> float:
        return self.graph_seconds + self.order_seconds


# --- programs ------------------------------------------------------------------------------------


def programs(size: int) -> list[Program]:
    """All of them, for a quarter of a million elements at `size` 512."""
    rng = np.random.default_rng(1)
    image = rng.random((size, size), np.float32)
    return [
        Program("3×3 stencil", True, _stencil(1), (image,)),
        Program("9×9 stencil", True, _stencil(4), (image,)),
        Program("naive product", True, _product, (image, image.T.copy())),
        Program("transposition", True, _transposition, (image,)),
        _permuted_blocks(rng, image),
        _block_sparse(rng, size, 8),
        _block_sparse(rng, size, 1),
    ]


def _stencil(reach: int) -> Callable[[Any], Callable[..., Any]]:
    offsets = [(y, x) for y in range(-reach, reach + 1) for x in range(-reach, reach + 1)]

    def make(schedule: Any) -> Callable[..., Any]:
        def total(w: Any) -> Any:
            found = w[offsets[0]]
            for at in offsets[1:]:
                found = found + w[at]
            return found

        return lambda image: td.stencil(total, image, schedule=schedule)

    return make


def _product(schedule: Any) -> Callable[..., Any]:
    def program(a: Any, b: Any) -> Any:
        m, k = a.shape

        def element(i: Any, j: Any) -> Any:
            return td.loop(k, lambda t, total: total + a[i, t] * b[t, j], np.float32(0))

        return td.generate((m, b.shape[1]), element, schedule=schedule)

    return program


def _transposition(schedule: Any) -> Callable[..., Any]:
    return lambda a: td.generate((a.shape[1], a.shape[0]), lambda i, j: a[j, i], schedule=schedule)


def _permuted_blocks(rng: np.random.Generator, image: Any) -> Program:
    """Every block of 8 × 32 sums the windows around one block of the image, at random."""
    rows, cols = (n // b for n, b in zip(image.shape, BLOCK.extents, strict=True))
    chosen = rng.permutation(rows * cols)
    height, width = BLOCK.extents

    def make(schedule: Any) -> Callable[..., Any]:
        def program(image: Any, down: Any, across: Any) -> Any:
            n, m = image.shape

            def element(i: Any, j: Any) -> Any:
                y = down[i // height, j // width] * height + i % height
                x = across[i // height, j // width] * width + j % width
                found = np.float32(0)
                for dy in (-1, 0, 1):
                    for dx in (-1, 0, 1):
                        row = td.minimum(td.maximum(y + dy, 0), n - 1)
                        found = found + image[row, td.minimum(td.maximum(x + dx, 0), m - 1)]
                return found

            return td.generate(image.shape, element, schedule=schedule)

        return program

    places = tuple(p.reshape(rows, cols) for p in np.divmod(chosen, cols))
    return Program("windows of permuted blocks", False, make, (image, *places))


def _block_sparse(rng: np.random.Generator, size: int, communities: int) -> Program:
    """C = S·B where each block of 8 rows of S has 4 blocks of 32 columns.

    Block rows of one community have their columns in the same part of B; who belongs to which is
    shuffled.  One community: no structure.
    """
    down, taken, depth = size // BLOCK.extents[0], 4, 32
    blocks = size // depth * 8
    member = rng.permutation(np.arange(down) % communities)
    share = blocks // communities
    columns = np.stack([m * share + rng.choice(share, taken, replace=False) for m in member])
    values = rng.random((size, taken * depth), np.float32)
    right = rng.random((blocks * depth, size // 2), np.float32)

    def make(schedule: Any) -> Callable[..., Any]:
        def program(values: Any, columns: Any, right: Any) -> Any:
            def element(i: Any, j: Any) -> Any:
                def slot(t: Any, total: Any) -> Any:
                    at = columns[i // BLOCK.extents[0], t // depth] * depth + t % depth
                    return total + values[i, t] * right[at, j]

                return td.loop(taken * depth, slot, np.float32(0))

            return td.generate((values.shape[0], right.shape[1]), element, schedule=schedule)

        return program

    kind = f"{communities} communities" if communities > 1 else "random"
    return Program(f"block-sparse product, {kind}", False, make, (values, columns, right))


# --- running -------------------------------------------------------------------------------------


def study(program: Program, device: Multiprocessors) -> list[Result]:
    """Every schedule of one program, simulated; the best structured order once more under that
    name."""
    plain = program.lower(Row() | BLOCK)
    pattern = pattern_of(plain, arrays=program.arrays)
    trace = block_trace(pattern, (Row() | BLOCK).resolve(2), LINE)
    results = [_result(program, Row() | BLOCK, "row", trace, run_blocks(trace, device))]
    for order in ORDERS:
        schedule = order | BLOCK
        numbers = _numbers(schedule, pattern.shape)
        results.append(_result(program, schedule, "structured", trace,
                               run_blocks(trace, device, numbers)))  # fmt: skip
        stay = schedule | Agents(device.resident)
        results.append(_result(program, stay, "structured + agents", trace,
                               run_blocks(trace, device, numbers, queues=True)))  # fmt: skip
    for layer in CLUSTERED:
        schedule = Row() | BLOCK | layer
        if isinstance(layer, Clusters):
            order = redirected(trace.blocks, layer.n, device.count)
            ran = run_blocks(trace, device, order)
        else:
            few = Multiprocessors(device.count, layer.per_sm, device.l1, device.l2)
            ran = run_blocks(trace, few, queues=True)
        results.append(_result(program, schedule, "clustering", trace, ran))
    for graph in GRAPHS:
        schedule = Row() | BLOCK | graph
        made = queues_of(plain, schedule, device.count, program.arrays)
        ran = run_blocks(trace, device, made.order, queues=True)
        found = _result(program, schedule, "graph", trace, ran)
        found.edges = made.edges
        found.graph_seconds, found.order_seconds = made.graph_seconds, made.order_seconds
        results.append(found)
    return results


def _numbers(schedule: Schedule, shape: tuple[int, ...]) -> Any:
    """The row-major numbers of the blocks in the order of a schedule."""
    from treadle.skeletons.schedules import evaluate

    plan = schedule.resolve(len(shape))
    grid = plan.grid(shape)
    return np.ravel_multi_index(tuple(evaluate(plan.order, grid).T), grid)


def _result(program: Program, schedule: Any, family: str, trace: BlockTrace, ran: DeviceRun
            ) -> Result:  # fmt: skip
    return Result(program.name, program.regular, repr(schedule), family, ran.accesses,
                  ran.l1_misses, ran.l2_misses, ran.stolen, ran.steps, trace.blocks)  # fmt: skip


def measure(program: Program, results: Sequence[Result], backend: str, budget: float) -> None:
    """Times of the schedules on a backend, taken in turns; answers must agree bit for bit."""
    calls: dict[str, Callable[[], Any]] = {}
    want: Any = None
    given, sample = program.arrays, harness.host_stopwatch
    if backend == "cuda":
        from benchmarks.gpu_works.common import cp
        from benchmarks.gpu_works.common import sample as on_device

        given, sample = tuple(map(cp.asarray, program.arrays)), on_device
    for r in results:
        made = program.lower(as_schedule(eval(r.schedule, vars(td.schedule))), backend)
        answer = np.asarray(made(*program.arrays))
        want = answer if want is None else want
        if not np.array_equal(answer, want):
            raise SystemExit(f"{program.name} under {r.schedule} computes something else")
        calls[r.schedule] = lambda made=made: made(*given)
    for name, samples in harness.interleave(calls, budget, sample=sample).items():
        for r in results:
            if r.schedule == name:
                r.timing = harness.timing(samples)


# --- writing -------------------------------------------------------------------------------------

HEADS = ("schedule", "L1 misses", "× row", "L2 misses", "× row", "stolen", "preprocessing ms", "ms")


def rows_of(results: Sequence[Result]) -> list[tuple[str, ...]]:
    """The table of one program: the row order, the best of each family first, then the others."""
    base = next(r for r in results if r.family == "row")
    ordered = sorted(results, key=lambda r: (r.family != "row", r.l1_misses, r.l2_misses))
    found = []
    for r in ordered:
        found.append((
            _short(r), f"{r.l1_misses:,}",
            f"{r.l1_misses / base.l1_misses:.2f}", f"{r.l2_misses:,}",
            f"{r.l2_misses / max(base.l2_misses, 1):.2f}", f"{r.stolen:,}",
            f"{r.preprocessing * 1e3:.1f}" if r.family == "graph" else "",
            f"{r.timing.median * 1e3:.3g}" if r.timing else "",
        ))  # fmt: skip
    return found


def _short(result: Result) -> str:
    """A schedule without what all have in common, for a cell of a table."""
    layers = result.schedule.replace(" | Block(8, 32)", "").split(" | ")
    return ", ".join(layers[1:] if len(layers) > 1 and layers[0] == "Row()" else layers)


def summary(results: Sequence[Result]) -> list[tuple[str, ...]]:
    """For every program the best of each family: fewest lines into the first-level caches."""
    found = []
    for name in dict.fromkeys(r.program for r in results):
        mine = [r for r in results if r.program == name]
        base = next(r for r in mine if r.family == "row")
        cells = [name]
        for family in FAMILIES:
            best = min(
                (r for r in mine if r.family == family), key=lambda r: (r.l1_misses, r.l2_misses)
            )
            cells += [_short(best), f"{best.l1_misses / base.l1_misses:.2f}",
                      f"{best.l2_misses / max(base.l2_misses, 1):.2f}"]  # fmt: skip
        cells.append(f"{max(r.preprocessing for r in mine) * 1e3:.0f}")
        found.append(tuple(cells))
    return found


FAMILIES = ("structured", "clustering", "structured + agents", "graph")
SUMMARY_HEADS = (
    "program", *(h for f in FAMILIES for h in (f"best {f}", "L1", "L2")), "preprocessing ms",
)  # fmt: skip


def _markdown_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads),
            *("| " + " | ".join(r) + " |" for r in rows)]  # fmt: skip


def markdown(results: Sequence[Result], about: dict[str, Any]) -> str:
    """The summary and a table for each program."""
    device = about["simulated"]
    ran = "Nothing was timed but the preprocessing (the slowest of the three ways)."
    if about["ran_on"]:
        ran = f"Times: the backend {about['ran_on']}."
    lines = [
        f"# {about['title']}",
        "",
        f"{about['date']} · treadle {about['versions']['treadle']} at {str(about['commit'])[:12]}"
        f"{', with changes not committed' if about['dirty'] else ''}",
        "",
        f"**Simulated**: {device['count']} multiprocessors of {device['resident']} blocks, L1 of "
        f"{device['l1']} lines each, L2 of {device['l2']} lines, lines of 128 bytes; blocks of "
        f"8 × 32 elements. Misses are lines brought in; factors are against the row order (less is "
        f"better). {ran}",
        "",
        *_markdown_table(SUMMARY_HEADS, summary(results)),
    ]
    for name in dict.fromkeys(r.program for r in results):
        mine = [r for r in results if r.program == name]
        lines += ["", f"## {name}", "",
                  f"{mine[0].blocks:,} blocks, {mine[0].accesses:,} accesses; graph of "
                  f"{max(r.edges for r in mine):,} edges.", "",
                  *_markdown_table(HEADS, rows_of(mine))]  # fmt: skip
    return "\n".join(lines) + "\n"


def _print(results: Sequence[Result]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="simulated misses × row order", header_style="bold")
    for head in SUMMARY_HEADS:
        table.add_column(head, justify="left" if head[:4] in ("prog", "best") else "right")
    for row in summary(results):
        table.add_row(*row)
    Console(width=170).print(table)


@dataclass
class Options:
    """What the command line asks for."""

    size: int = 512
    device: Multiprocessors = field(default_factory=Multiprocessors)
    only: tuple[str, ...] = ()
    backend: str | None = None
    budget: float = 4.0


def run(options: Options) -> list[Result]:
    """The study."""
    results: list[Result] = []
    for program in programs(options.size):
        if options.only and not any(o in program.name for o in options.only):
            continue
        found = study(program, options.device)
        if options.backend is not None:
            measure(program, found, options.backend, options.budget)
        results += found
    return results


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.schedules.paver",
                                     description=(__doc__ or "").partition("\n")[0])  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="small data")
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--run", metavar="BACKEND", help="measure too, on native or cuda")
    parser.add_argument("--size", type=int, default=512, help="extents (a multiple of 128)")
    parser.add_argument("--multiprocessors", type=int, default=Multiprocessors.count)
    parser.add_argument("--out", type=Path, metavar="FILE.json")
    given = parser.parse_args(argv)
    size = 128 if given.quick else math.ceil(given.size / 128) * 128
    device = Multiprocessors(count=given.multiprocessors)
    results = run(Options(size, device, tuple(given.only), given.run))
    _print(results)
    day = datetime.now(UTC).strftime("%Y-%m-%d")
    path = given.out or HERE.parent / "results" / f"paver-{day}.json"
    about = {
        "title": "Structured schedules against locality-graph scheduling",
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "size": size,
        "simulated": asdict(device),
        "ran_on": given.run,
        "device": harness.processor(),
        "versions": harness.versions(),
        **harness.commit(),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [asdict(r) for r in results]
    path.write_text(json.dumps({**about, "results": rows}, indent=1, ensure_ascii=False) + "\n")
    path.with_suffix(".md").write_text(markdown(results, about))
    print(f"written: {path}, {path.with_suffix('.md')}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
