"""What an order alone gains: the same kernel body, its blocks or threads in another order.

    python -m benchmarks.schedules.reorder [--backend native|cuda] [--quick] [--out FILE.json]

A naive product and a transposition under many orders, each against the row order of the same
blocks, in turns; products must agree bit for bit.  Prints the best of every block shape; writes
JSON and a table in Markdown.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import treadle as td
from benchmarks import harness
from benchmarks.schedules.study import Machine

HERE = Path(__file__).resolve().parent
S = td.schedule

#: Of each program: blocks ("None": threads are ordered, not blocks), orders of them.
PRODUCT_BLOCKS = (None, S.Block(1, 256), S.Block(8, 32), S.Block(16, 64))
PRODUCT_ORDERS = (S.Column(256), S.Column(1024))
TURNED_BLOCKS = (None, S.Block(1, 256), S.Block(8, 32), S.Block(32, 8), S.Block(64, 8))
TURNED_ORDERS = (S.Column(8), S.Column(16), S.Column(64), S.Column(256), S.Swizzle(256),
                 S.Tile(256, 256), S.Column(256) | S.Agents(8), S.Row() | S.Agents(8),
                 S.Row() | S.Clusters(8))  # fmt: skip


def product(a: Any, b: Any) -> Any:
    return td.generate(
        (a.shape[0], b.shape[1]),
        lambda i, j: td.loop(a.shape[1], lambda k, s: s + a[i, k] * b[k, j], np.float32(0)),
        name="op",
    )


def turned(a: Any) -> Any:
    return td.generate((a.shape[1], a.shape[0]), lambda i, j: a[j, i], name="op")


def programs(quick: bool) -> Iterator[tuple[str, Callable[..., Any], tuple[Any, ...], Any, Any]]:
    """Name, function, arguments, blocks, orders."""
    rng, less = np.random.default_rng(2), 64 if quick else 1
    for n in (4096 // less, 8192 // less):
        made = rng.random((2, n, n), np.float32)
        yield (f"naive product, {n}²", product, (made[0], made[1]), PRODUCT_BLOCKS, PRODUCT_ORDERS)
    n = 16384 // less
    made = rng.random((n, n), np.float32)
    yield f"transposition, {n}²", turned, (made,), TURNED_BLOCKS, TURNED_ORDERS


def schedules(blocks: Sequence[Any], orders: Sequence[Any]) -> dict[str, dict[str, Any]]:
    """By control, the row order of the same blocks: itself, and all orders of such blocks."""
    found: dict[str, dict[str, Any]] = {}
    for block in blocks:
        row = S.Row() if block is None else S.Row() | block
        made = [row]
        for order in orders:
            if block is not None:
                made.append(order | block)
            elif getattr(order, "residency", None) is None:
                made.append(order)
        found[repr(row)] = {repr(s): s for s in made}
    return found


def measure(function: Callable[..., Any], args: Sequence[Any], machine: Machine,
            groups: Mapping[str, Mapping[str, Any]], budget: float
            ) -> dict[str, dict[str, float]]:  # fmt: skip
    """Median seconds by control and schedule; `SystemExit` where a result differs."""
    given = [machine.put(a) for a in args]
    base = td.jit(function, backend=machine.backend).lower(*given)
    runs: dict[str, Callable[[], Any]] = {}
    want: Any = None
    for group in groups.values():
        for name, schedule in group.items():
            program = base.scheduled(op=schedule)
            answer = program(*given)
            want = answer if want is None else want
            if not bool((answer == want).all()):
                raise SystemExit(f"{name} computes something else")
            runs[name] = partial(program, *given)
    del want, answer
    samples = harness.interleave(runs, budget, sample=machine.sample)
    return {row: {n: median(samples[n]) for n in group} for row, group in groups.items()}


def table(results: Mapping[str, Mapping[str, Mapping[str, float]]], about: Mapping[str, Any]
          ) -> str:  # fmt: skip
    """Markdown: for every block shape the row order, the best order and its gain."""
    lines = [
        f"# {about['title']}", "",
        f"{about['date']} · {harness.describe(about['device'])} · treadle "
        f"{about['versions']['treadle']} at {str(about['commit'])[:12]}"
        f"{', with changes not committed' if about['dirty'] else ''}", "",
        "Milliseconds, medians, in turns. Gain: over the row order of the same blocks, the same "
        "kernel body.", "",
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
    path = given.out or HERE.parent / "results" / f"reorder-{where}-{day}.json"
    about = {
        "title": "What an order alone gains",
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "device": machine.about(),
        "versions": harness.versions(),
        **harness.commit(),
    }
    results = {}
    for name, function, args, blocks, orders in programs(given.quick):
        results[name] = measure(function, args, machine, schedules(blocks, orders), given.budget)
        text = table(results, about)
        data = json.dumps({**about, "results": results}, indent=1, ensure_ascii=False)
        path.write_text(data + "\n")
        path.with_suffix(".md").write_text(text)
    print("\n".join(line for line in text.splitlines() if line.startswith("|")))
    print(f"wrote {path} and its table")
    return 0


if __name__ == "__main__":
    sys.exit(main())
