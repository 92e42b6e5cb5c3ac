"""The gain of an order alone: the same kernel body, with its blocks or threads in another order.

    python -m benchmarks.schedules.reorder [--backend native|cuda] [--quick] [--out FILE.json]

A naive product with one element per thread, and a transposition with one or four, under many
orders, each against row order of the same blocks or of as many elements, interleaved; results must
agree bit for bit.  Prints the best of every block shape; writes JSON and a table in Markdown.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import treadle as td
from benchmarks import harness, provenance
from benchmarks.schedules.study import Machine

S = td.schedule

#: A product of twice the extents takes eight times as long: only with the orders that gained most.
KEPT = 2
#: Samples of a schedule that takes longer than a twentieth of a second.
FEW = 3
#: Blocks that are the next so many elements of an order of elements; the control is the row order
#: of as many.  Below: rectangles that are visited in orders of blocks.
PRODUCT_THREADS: dict[int, tuple[Any, ...]] = {
    128: (S.Column(32), S.Column(64), S.Column(128), S.ZigZag(64), S.ZigZag(128), S.Tile(8, 32),
          S.Tile(64, 64)),
    256: (S.Column(32), S.Column(64), S.Column(128), S.ZigZag(128), S.Tile(64, 64)),
    1024: (S.Column(64), S.Column(128), S.ZigZag(128), S.Tile(32, 32)),
}  # fmt: skip
PRODUCT_BLOCKS: dict[tuple[int, ...], tuple[Any, ...]] = {
    (1, 128): (S.Column(128), S.Tile(64, 512), S.Tile(32, 512)),
    (1, 256): (S.Column(256), S.Tile(64, 512), S.Tile(64, 1024), S.Tile(128, 1024)),
    (8, 32): (S.Column(256), S.Column(512), S.Column(1024)),
    (16, 32): (S.Column(128), S.Column(256), S.Column(512)),
}
TURNED_THREADS: dict[int, tuple[Any, ...]] = {
    192: (S.Column(8), S.ZigZag(8)),
    224: (S.Column(8), S.ZigZag(8)),
    256: (S.Column(8), S.ZigZag(8), S.Column(16), S.Tile(64, 8), S.Tile(4096, 8)),
    320: (S.Column(8), S.ZigZag(8)),
}
TURNED_BLOCKS: dict[tuple[int, ...], tuple[Any, ...]] = {
    (1, 256): (S.Column(256), S.Swizzle(256)),
    (8, 32): (S.Column(64), S.Swizzle(256)),
    (32, 8): (S.Column(64), S.Swizzle(256)),
    (24, 8): (S.Column(64),),
}
#: With four words on their way in every thread.
FOUR = S.PerThread(cols=4)
FOUR_THREADS: dict[int, tuple[Any, ...]] = {
    256: (S.Column(8), S.ZigZag(8), S.Tile(64, 8)),
    1024: (S.Column(8), S.ZigZag(8), S.Column(16), S.Column(32), S.Tile(64, 8)),
}
FOUR_BLOCKS: dict[tuple[int, ...], tuple[Any, ...]] = {
    (1, 1024): (S.Column(1024), S.Swizzle(256)),
    (32, 32): (S.Column(64), S.Swizzle(256)),
}


def product(a: Any, b: Any) -> Any:
    return td.generate(
        (a.shape[0], b.shape[1]),
        lambda i, j: td.loop(a.shape[1], lambda k, s: s + a[i, k] * b[k, j], np.float32(0)),
        name="op",
    )


def turned(a: Any) -> Any:
    return td.generate((a.shape[1], a.shape[0]), lambda i, j: a[j, i], name="op")


Groups = dict[str, dict[str, Any]]
#: Seconds, by control and schedule.
Times = dict[str, dict[str, float]]


def schedules(by_threads: Mapping[int, Sequence[Any]], by_blocks: Mapping[tuple[int, ...],
              Sequence[Any]], own: Any = None) -> Groups:  # fmt: skip
    """By control, the row order: itself, and all orders of as many elements or of the same blocks.

    Elements in row order come as rows of blocks: so a thread has one element in every program, or
    those of `own`, a PerThread.
    """
    found: Groups = {}

    def add(row: Any, orders: Sequence[Any]) -> None:
        made = [s if own is None else s | own for s in (row, *orders)]
        found.setdefault(repr(made[0]), {}).update({repr(s): s for s in made})

    for size, orders in by_threads.items():
        add(S.Row() | S.Block(1, size),
            [replace(order, grain="thread") | S.Block(size) for order in orders])  # fmt: skip
    for extents, orders in by_blocks.items():
        add(S.Row() | S.Block(*extents), [order | S.Block(*extents) for order in orders])
    return found


@dataclass(frozen=True)
class Case:
    """A function of `arrays` squares of `extent`, under `groups` of schedules."""

    name: str
    function: Callable[..., Any]
    extent: int
    arrays: int
    groups: Groups


PRODUCTS = schedules(PRODUCT_THREADS, PRODUCT_BLOCKS)
TURNED = (schedules(TURNED_THREADS, TURNED_BLOCKS)
          | schedules(FOUR_THREADS, FOUR_BLOCKS, FOUR))  # fmt: skip
CASES = (Case("naive product, 4096²", product, 4096, 2, PRODUCTS),
         Case("transposition, 16384²", turned, 16384, 1, TURNED))  # fmt: skip


def larger(case: Case, times: Times) -> Case:
    """The product of twice the extent, under the controls and the KEPT fastest others of each."""
    kept = {row: [row, *sorted((n for n in group if n != row), key=lambda n: group[n])[:KEPT]]
            for row, group in times.items()}  # fmt: skip
    groups = {row: {name: case.groups[row][name] for name in names} for row, names in kept.items()}
    return Case("naive product, 8192²", case.function, 2 * case.extent, case.arrays, groups)


def measure(case: Case, machine: Machine, budget: float, divide: int) -> Times:
    """Median seconds by control and schedule; `SystemExit` where a result differs."""
    n = case.extent // divide
    made = np.random.default_rng(2).random((case.arrays, n, n), np.float32)
    given = [machine.put(a) for a in made]
    base = td.jit(case.function, backend=machine.backend).lower(*given)
    runs: dict[str, Callable[[], Any]] = {}
    want: Any = None
    for group in case.groups.values():
        for name, schedule in group.items():
            program = base.scheduled(op=schedule)
            answer = program(*given)
            want = answer if want is None else want
            if not bool((answer == want).all()):
                raise SystemExit(f"{name} computes something else")
            runs[name] = partial(program, *given)
    del want, answer
    slow = machine.sample("", next(iter(runs.values())), 1) > 0.05
    samples = harness.interleave(runs, budget, FEW if slow else 40, machine.sample)
    return {row: {n: median(samples[n]) for n in group} for row, group in case.groups.items()}


def table(results: Mapping[str, Mapping[str, Mapping[str, float]]], about: Mapping[str, Any]
          ) -> str:  # fmt: skip
    """Markdown: for every block shape the row order, the best order and its gain."""
    lines = [
        *provenance.heading(about), "",
        "Medians of interleaved runs, in milliseconds. The gain is over row order of the same "
        "blocks, with the same kernel body.", "",
        "| program | row order | ms | best order of such blocks | ms | gain |",
        "| --- | --- | ---: | --- | ---: | ---: |",
    ]  # fmt: skip
    for program, groups in results.items():
        for row, times in groups.items():
            best = min(times, key=lambda name: times[name])
            cells = [f"`{name}`".replace("|", "\\|") for name in (row, best)]
            lines.append(f"| {program} | {cells[0]} | {times[row] * 1e3:.3g} | {cells[1]} | "
                         f"{times[best] * 1e3:.3g} | {times[row] / times[best]:.2f} |")  # fmt: skip
    return "\n".join(lines) + "\n"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.schedules.reorder",
                                     description=(__doc__ or "").splitlines()[0])  # fmt: skip
    parser.add_argument("--backend", choices=("native", "cuda"), default="cuda")
    parser.add_argument("--quick", action="store_true", help="small data")
    parser.add_argument("--budget", type=float, default=0.02, help="seconds for every schedule")
    parser.add_argument("--out", type=Path, metavar="FILE.json")
    given = parser.parse_args(argv)
    machine = Machine(given.backend)
    where = "gpu" if given.backend == "cuda" else "cpu"
    day = datetime.now(UTC).strftime("%Y-%m-%d")
    path = given.out or provenance.RESULTS / f"reorder-{where}-{day}.json"
    about = provenance.about("What an order alone gains", machine.about())
    results: dict[str, Times] = {}
    cases = list(CASES)
    while cases:
        case = cases.pop(0)
        found = results[case.name] = measure(case, machine, given.budget, 64 if given.quick else 1)
        if case.function is product and len(results) == 1:
            cases.append(larger(case, found))
        text = table(results, about)
        provenance.write_results(path, text, {**about, "results": results})
    print("\n".join(line for line in text.splitlines() if line.startswith("|")))
    print(f"wrote {path} and its table")
    return 0


if __name__ == "__main__":
    sys.exit(main())
