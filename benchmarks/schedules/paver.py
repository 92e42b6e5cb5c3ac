"""Are structured schedules as good as locality-graph scheduling (PAVER)?  Simulated, and measured.

    python -m benchmarks.schedules.paver [--quick] [--only NAME] [--out FILE.json]
    python -m benchmarks.schedules.paver --run cuda --no-simulation --size 4096 --irregular 2048

Regular programs (stencils, a naive product, a transposition) and irregular ones (windows around
permuted blocks, block-sparse products), each under its row order, every structured order, CTA
clustering (`Clusters`, `Agents`: Li et al., ASPLOS 2017), structured orders on agents, and
`LocalityGraph` in its three ways (PAVER: Tripathy et al., TACO 2021), all with blocks of the same
shape.  For each: the time of the preprocessing; the lines that the first-level caches load and
those that memory delivers, both simulated (`skeletons/simulator/device.py`; not with
`--no-simulation`, for data as large as a GPU needs); and with `--run` the time on that backend, in
interleaved runs.

Prints a table; writes JSON and the table in Markdown.  Without `--run` nothing is timed but the
preprocessing.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import treadle as td
from benchmarks import harness, provenance
from treadle.skeletons.lower.locality import Queues, last_used, queues_of
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
    """`function` of `arrays`, one operation called "op"; `regular`: its reads are affine.  Index
    arrays are brought along, so that a graph is made once."""

    name: str
    regular: bool
    function: Callable[..., Any]
    arrays: tuple[Any, ...]

    def lower(self, backend: str = "native") -> Any:
        return td.jit(self.function, backend=backend).lower(*self.arrays)


@dataclass
class Result:
    """One schedule of one program; misses are lines of 128 bytes, all 0 where nothing was
    simulated; seconds a call."""

    program: str
    regular: bool
    schedule: str
    family: str
    accesses: int = 0
    l1_misses: int = 0
    l2_misses: int = 0
    stolen: int = 0
    steps: int = 0
    blocks: int = 0
    edges: int = 0
    graph_seconds: float = 0.0
    order_seconds: float = 0.0
    timing: harness.Timing | None = None

    @property
    def preprocessing(self) -> float:
        return self.graph_seconds + self.order_seconds


def result_of(found: dict[str, Any]) -> Result:
    """A result from what `asdict` made of it."""
    timing = found["timing"]
    return Result(**{**found, "timing": None if timing is None else harness.Timing(**timing)})


# --- programs ------------------------------------------------------------------------------------


#: By name: what makes each for an extent, and whether it is regular.
PROGRAMS: dict[str, tuple[Callable[[int], Program], bool]] = {}


def programs(size: int, irregular: int | None = None, only: Sequence[str] = ()
             ) -> Iterator[Program]:  # fmt: skip
    """One after the other, for `size` squared elements; the irregular ones for `irregular`."""
    for name, (make, regular) in PROGRAMS.items():
        if not only or any(o in name for o in only):
            yield make(size if regular or irregular is None else irregular)


def _image(size: int) -> Any:
    return np.random.default_rng(1).random((size, size), np.float32)


def _stencil(name: str, reach: int, size: int) -> Program:
    offsets = [(y, x) for y in range(-reach, reach + 1) for x in range(-reach, reach + 1)]

    def total(w: Any) -> Any:
        found = w[offsets[0]]
        for at in offsets[1:]:
            found = found + w[at]
        return found

    return Program(name, True, lambda a: td.stencil(total, a, name="op"), (_image(size),))


def _product(name: str, size: int) -> Program:
    def program(a: Any, b: Any) -> Any:
        m, k = a.shape

        def element(i: Any, j: Any) -> Any:
            return td.loop(k, lambda t, total: total + a[i, t] * b[t, j], np.float32(0))

        return td.generate((m, b.shape[1]), element, name="op")

    image = _image(min(size, 2048))  # every block reads rows of one array, columns of another
    return Program(name, True, program, (image, image.T.copy()))


def _transposition(name: str, size: int) -> Program:
    return Program(name, True, lambda a: td.generate(
        (a.shape[1], a.shape[0]), lambda i, j: a[j, i], name="op"), (_image(size),))  # fmt: skip


def _permuted_blocks(name: str, size: int) -> Program:
    """Every block of 8 × 32 sums the windows around one block of the image, at random."""
    image = _image(size)
    height, width = BLOCK.extents
    rows, cols = size // height, size // width
    chosen = np.random.default_rng(2).permutation(rows * cols)
    down, across = (td.use(p.reshape(rows, cols)) for p in np.divmod(chosen, cols))

    def program(image: Any) -> Any:
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

        return td.generate(image.shape, element, name="op")

    return Program(name, False, program, (image,))


def _block_sparse(name: str, communities: int, size: int) -> Program:
    """C = S·B where each block of 8 rows of S has 4 blocks of 32 columns.

    Block rows of one community have their columns in the same part of B; who belongs to which is
    shuffled.  One community: no structure.
    """
    rng = np.random.default_rng(3)
    down, taken, depth = size // BLOCK.extents[0], 4, 32
    blocks = size // depth * 8
    member = rng.permutation(np.arange(down) % communities)
    share = blocks // communities
    columns = td.use(
        np.stack([m * share + rng.choice(share, taken, replace=False) for m in member])
    )
    values = rng.random((size, taken * depth), np.float32)
    right = rng.random((blocks * depth, size // 2), np.float32)

    def program(values: Any, right: Any) -> Any:
        def element(i: Any, j: Any) -> Any:
            def slot(t: Any, total: Any) -> Any:
                at = columns[i // BLOCK.extents[0], t // depth] * depth + t % depth
                return total + values[i, t] * right[at, j]

            return td.loop(taken * depth, slot, np.float32(0))

        return td.generate((values.shape[0], right.shape[1]), element, name="op")

    return Program(name, False, program, (values, right))


def _named(name: str, regular: bool, make: Callable[..., Program], *given: Any) -> None:
    PROGRAMS[name] = (lambda size: make(name, *given, size)), regular


_named("3×3 stencil", True, _stencil, 1)
_named("9×9 stencil", True, _stencil, 4)
_named("naive product", True, _product)
_named("transposition", True, _transposition)
_named("windows of permuted blocks", False, _permuted_blocks)
_named("block-sparse product, 8 communities", False, _block_sparse, 8)
_named("block-sparse product, random", False, _block_sparse, 1)


# --- running -------------------------------------------------------------------------------------


def tried(resident: int) -> list[tuple[Schedule, str]]:
    """Every schedule and its family; agents are `resident` on each multiprocessor."""
    found: list[tuple[Schedule, str]] = [(Row() | BLOCK, "row")]
    for order in ORDERS:
        found.append((order | BLOCK, "structured"))
        found.append((order | BLOCK | Agents(resident), "structured + agents"))
    found += [(Row() | BLOCK | layer, "clustering") for layer in CLUSTERED]
    return found + [(Row() | BLOCK | graph, "graph") for graph in GRAPHS]


def study(program: Program, device: Multiprocessors, simulated: bool = True) -> list[Result]:
    """Every schedule of one program: what its preprocessing takes, and `simulated` misses."""
    plain = program.lower().scheduled(op=Row() | BLOCK)
    pattern = pattern_of(plain)
    trace = block_trace(pattern, (Row() | BLOCK).resolve(2), LINE) if simulated else None
    results = []
    for schedule, family in tried(device.resident):
        made = Result(program.name, program.regular, repr(schedule), family)
        made.blocks = math.prod(schedule.resolve(2).grid(pattern.shape))
        order = None
        if family == "graph" and simulated:
            queues = queues_of(plain, schedule, device.count, program.arrays)
            order = queues.order
            _note(made, queues)
        if trace is not None:
            ran = _simulated(trace, schedule, device, pattern.shape, order)
            made.accesses, made.stolen, made.steps = ran.accesses, ran.stolen, ran.steps
            made.l1_misses, made.l2_misses = ran.l1_misses, ran.l2_misses
        results.append(made)
    return results


def _note(result: Result, queues: Queues) -> None:
    """What the preprocessing was."""
    result.edges = queues.edges
    result.graph_seconds, result.order_seconds = queues.graph_seconds, queues.order_seconds


def _simulated(trace: BlockTrace, schedule: Schedule, device: Multiprocessors,
               shape: tuple[int, ...], order: Any) -> DeviceRun:  # fmt: skip
    """`order`: of the blocks of a graph."""
    layer = schedule.residency
    if isinstance(layer, Clusters):
        return run_blocks(trace, device, redirected(trace.blocks, layer.n, device.count))
    if isinstance(layer, Agents):
        device = Multiprocessors(device.count, layer.per_sm, device.l1, device.l2)
    if order is None:
        order = _numbers(schedule, shape)
    return run_blocks(trace, device, order, queues=layer is not None)


def _numbers(schedule: Schedule, shape: tuple[int, ...]) -> Any:
    """The row-major numbers of the blocks in the order of a schedule."""
    from treadle.skeletons.schedules import evaluate

    plan = schedule.resolve(len(shape))
    grid = plan.grid(shape)
    return np.ravel_multi_index(tuple(evaluate(plan.order, grid).T), grid)


def _schedule(result: Result) -> Schedule:
    return as_schedule(eval(result.schedule, vars(td.schedule)))


def measure(program: Program, results: Sequence[Result], backend: str, budget: float) -> None:
    """Times of the schedules on a backend, interleaved; answers must agree bit for bit."""
    base, given = program.lower(backend), _on(backend, program.arrays)
    calls: dict[str, Callable[[], Any]] = {}
    want: Any = None
    for r in results:
        made = base.scheduled(op=_schedule(r))
        answer = made(*given)
        want = answer if want is None else want
        if not bool((answer == want).all()):
            raise SystemExit(f"{program.name} under {r.schedule} computes something else")
        if r.family == "graph":
            queues = last_used()
            assert queues is not None, "the call made them"
            _note(r, queues)
        calls[r.schedule] = lambda made=made: made(*given)
    sample = harness.host_stopwatch
    if backend == "cuda":
        from benchmarks.gpu_works.common import sample
    for name, samples in harness.interleave(calls, budget, sample=sample).items():
        for r in results:
            if r.schedule == name:
                r.timing = harness.timing(samples)


def _on(backend: str, arrays: Sequence[Any]) -> tuple[Any, ...]:
    """The arrays where the backend reads them."""
    if backend != "cuda":
        return tuple(arrays)
    from benchmarks.gpu_works.common import cp

    return tuple(map(cp.asarray, arrays))


def _compile(name: str, size: int, resident: int) -> None:
    """All kernels of a program on a GPU into the disk cache."""
    (program,) = programs(size, size, (name,))
    base, given = program.lower("cuda"), _on("cuda", program.arrays)
    for schedule, family in tried(resident):
        if family != "graph":  # it would be made here and there: theirs is one kernel
            base.scheduled(op=schedule)(*given)


# --- writing -------------------------------------------------------------------------------------

FAMILIES = ("structured", "clustering", "structured + agents", "graph")
SUMMARY_HEADS = (
    "program", *(h for f in FAMILIES for h in (f"best {f}", "L1", "L2")), "preprocessing ms",
)  # fmt: skip
MEASURED_HEADS = (
    "program", "row order, ms", *(h for f in FAMILIES for h in (f"best {f}", "gain")),
    "preprocessing, s", "structured against graph",
)  # fmt: skip


def _misses(r: Result) -> tuple[int, int]:
    return r.l1_misses, r.l2_misses


def _seconds(r: Result) -> float:
    return math.inf if r.timing is None else r.timing.median


def rows_of(results: Sequence[Result]) -> tuple[list[str], list[list[str]]]:
    """Heads and rows of the table of one program: the row order, then the best first."""
    base = next(r for r in results if r.family == "row")
    simulated, timed = base.accesses > 0, base.timing is not None
    best: Callable[[Result], Any] = _misses if simulated else _seconds
    heads = ["schedule", *(["L1 misses", "× row", "L2 misses", "× row", "stolen"] * simulated),
             "preprocessing ms", *(["ms", "gain"] * timed)]  # fmt: skip
    rows = []
    for r in sorted(results, key=lambda r: (r.family != "row", best(r))):
        row = [_short(r)]
        if simulated:
            row += [f"{r.l1_misses:,}", f"{r.l1_misses / base.l1_misses:.2f}", f"{r.l2_misses:,}",
                    f"{r.l2_misses / max(base.l2_misses, 1):.2f}", f"{r.stolen:,}"]  # fmt: skip
        row.append(f"{r.preprocessing * 1e3:.1f}" if r.family == "graph" else "")
        if timed:
            row += [f"{_seconds(r) * 1e3:.3g}", f"{_seconds(base) / _seconds(r):.2f}"]
        rows.append(row)
    return heads, rows


def _short(result: Result) -> str:
    """A schedule without what all have in common, for a cell of a table."""
    layers = result.schedule.replace(" | Block(8, 32)", "").split(" | ")
    return ", ".join(layers[1:] if len(layers) > 1 and layers[0] == "Row()" else layers)


def _by_program(results: Sequence[Result]) -> list[list[Result]]:
    names = dict.fromkeys(r.program for r in results)
    return [[r for r in results if r.program == name] for name in names]


def summary(results: Sequence[Result]) -> list[list[str]]:
    """For every program the best of each family: fewest lines into the first-level caches."""
    found = []
    for mine in _by_program(results):
        base = next(r for r in mine if r.family == "row")
        cells = [base.program]
        for family in FAMILIES:
            best = min((r for r in mine if r.family == family), key=_misses)
            cells += [_short(best), f"{best.l1_misses / base.l1_misses:.2f}",
                      f"{best.l2_misses / max(base.l2_misses, 1):.2f}"]  # fmt: skip
        cells.append(f"{max(r.preprocessing for r in mine) * 1e3:.0f}")
        found.append(cells)
    return found


def against_graphs(results: Sequence[Result], families: Sequence[str] = ("row", *FAMILIES[:-1])
                   ) -> dict[str, float]:  # fmt: skip
    """By program: the time of the best graph over that of the best schedule of other families."""
    found = {}
    for mine in _by_program(results):
        graph = min(_seconds(r) for r in mine if r.family == "graph")
        found[mine[0].program] = graph / min(_seconds(r) for r in mine if r.family in families)
    return found


def measured(results: Sequence[Result]) -> list[list[str]]:
    """For every program the fastest of each family, and how much faster than the row order."""
    found = []
    for mine in _by_program(results):
        base = next(r for r in mine if r.family == "row")
        cells = [base.program, f"{_seconds(base) * 1e3:.3g}"]
        for family in FAMILIES:
            best = min((r for r in mine if r.family == family), key=_seconds)
            cells += [_short(best), f"{_seconds(base) / _seconds(best):.2f}"]
        cells.append(f"{min(r.preprocessing for r in mine if r.family == 'graph'):.2f}")
        found.append([*cells, f"{against_graphs(mine)[base.program]:.2f}"])
    return found


def markdown(results: Sequence[Result], about: dict[str, Any]) -> str:
    """The summaries and a table for each program."""
    lines = provenance.heading(about)
    if results[0].accesses:
        device = about["simulated"]
        lines += ["", f"**Simulated**: {device['count']} multiprocessors of {device['resident']} "
                  f"blocks, L1 of {device['l1']} lines each, L2 of {device['l2']} lines, lines of "
                  "128 bytes; blocks of 8 × 32 elements. Misses count loaded lines; factors are "
                  "relative to row order (less is better).", "",
                  *provenance.markdown_table(SUMMARY_HEADS, summary(results), None)]  # fmt: skip
    if results[0].timing is not None:
        lines += ["", f"**Measured** on {provenance.describe(about['device'])}: medians of "
                  "interleaved runs; speedups over row order of the same blocks (more is better); "
                  "preprocessing time of the fastest graph, on the host. The last column is the "
                  "time of the best graph divided by that of the best other schedule.", "",
                  *provenance.markdown_table(MEASURED_HEADS, measured(results), None)]  # fmt: skip
    for mine in _by_program(results):
        accesses = f"{mine[0].accesses:,} accesses; " * bool(mine[0].accesses)
        lines += ["", f"## {mine[0].program}", "", f"{mine[0].blocks:,} blocks; {accesses}graph "
                  f"of {max(r.edges for r in mine):,} edges.", "",
                  *provenance.markdown_table(*rows_of(mine), None)]  # fmt: skip
    return "\n".join(lines) + "\n"


def _print(results: Sequence[Result]) -> None:
    from rich.console import Console
    from rich.table import Table

    tables = []
    if results[0].accesses:
        tables.append(("simulated misses × row order", SUMMARY_HEADS, summary(results)))
    if results[0].timing is not None:
        tables.append(("measured", MEASURED_HEADS, measured(results)))
    for title, heads, rows in tables:
        table = Table(title=title, header_style="bold")
        for head in heads:
            table.add_column(head, justify="left" if head[:4] in ("prog", "best") else "right")
        for row in rows:
            table.add_row(*row)
        Console(width=170).print(table)


@dataclass
class Options:
    """What the command line asks for."""

    size: int = 512
    irregular: int | None = None
    device: Multiprocessors = field(default_factory=Multiprocessors)
    only: tuple[str, ...] = ()
    backend: str | None = None
    budget: float = 4.0
    simulated: bool = True


def run(options: Options) -> Iterator[list[Result]]:
    """The study, program by program."""
    for program in programs(options.size, options.irregular, options.only):
        found = study(program, options.device, options.simulated)
        if options.backend is not None:
            measure(program, found, options.backend, options.budget)
        yield found


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.schedules.paver",
                                     description=(__doc__ or "").partition("\n")[0])  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="small data")
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--run", metavar="BACKEND", help="measure too, on native or cuda")
    parser.add_argument("--no-simulation", action="store_true", help="measure only")
    parser.add_argument("--size", type=int, default=512, help="extents (a multiple of 128)")
    parser.add_argument("--irregular", type=int, help="extents of the irregular programs")
    parser.add_argument("--budget", type=float, default=4.0, help="seconds for every schedule")
    parser.add_argument("--multiprocessors", type=int, help="default: 16, and those of the GPU")
    parser.add_argument("--compile-first", type=int, default=0, metavar="N",
                        help="let N processes fill the disk cache first")  # fmt: skip
    parser.add_argument("--out", type=Path, metavar="FILE.json")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    given = _arguments(argv)
    only = tuple(given.only)
    size = 128 if given.quick else math.ceil(given.size / 128) * 128
    count, about_device = Multiprocessors.count, provenance.processor
    if given.run == "cuda":
        from benchmarks.gpu import device as about_device

        count = about_device()["multiprocessors"]
    device = Multiprocessors(count=given.multiprocessors or count)
    if given.compile_first:
        small = size if given.irregular is None else given.irregular
        with ProcessPoolExecutor(given.compile_first, mp_context=get_context("spawn")) as pool:
            names = [n for n in PROGRAMS if not only or any(o in n for o in only)]
            list(pool.map(_compile, names, [small] * len(names), [device.resident] * len(names)))
    day = datetime.now(UTC).strftime("%Y-%m-%d")
    kind = "paver-gpu" if given.run == "cuda" else "paver"
    path = given.out or provenance.RESULTS / f"{kind}-{day}.json"
    about = {
        **provenance.about("Structured schedules against locality-graph scheduling",
                           about_device()),
        "size": size,
        "irregular": given.irregular or size,
        "simulated": None if given.no_simulation else asdict(device),
        "ran_on": given.run,
    }  # fmt: skip
    options = Options(size, given.irregular, device, only, given.run, given.budget,
                      not given.no_simulation)  # fmt: skip
    results: list[Result] = []
    for found in run(options):
        results += found
        rows = [asdict(r) for r in results]  # after each: an interrupted run keeps what it has
        provenance.write_results(path, markdown(results, about), {**about, "results": rows})
        print(f"{found[0].program}: done", flush=True)
    _print(results)
    print(f"written: {path}, {path.with_suffix('.md')}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
