"""Writes the numbers of docs/study.md and docs/locality.md from the results, between marks.

    python -m benchmarks.schedules.pages [--predict FILE.json]

Writes both pages from the newest results in benchmarks/results (`schedules-gpu-*`, `paver-gpu-*`,
`reorder-gpu-*`, `traffic-gpu-*`, `levels-gpu-*`); a test checks that the pages are what this module
would write.  `--predict` first replaces the predictions in an earlier study by those of the current
model: nothing is run, and no GPU is needed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import treadle as td
from benchmarks import provenance
from benchmarks.schedules import levels, paver, programs, ranks, reorder, study, traffic
from benchmarks.schedules.summary import summary
from benchmarks.schedules.unseen import UNSEEN
from treadle.driver.program import Program
from treadle.dsl.process.configuration import Settings

ROOT = Path(__file__).resolve().parents[2]
MARKS = ("<!-- {}: begin (python -m benchmarks.schedules.pages) -->", "<!-- {}: end -->")


def newest(kind: str) -> Path:
    """The newest whole result of a kind, say "schedules-gpu"; FileNotFoundError without any."""
    return provenance.newest(kind)[0]


# --- predictions, again ---------------------------------------------------------------------


def lowered(case: programs.Study, backend: str, divide: int = 1) -> Any:
    """A program of the study for a backend that need not be there; its arrays hold nothing."""
    programs.SHAPES_ONLY = True
    try:
        function, args = case.build(lambda extent: max(extent // divide, 16))
    finally:
        programs.SHAPES_ONLY = False
    traced = td.jit(function, backend="reference").lower(*args)
    made = Program(traced.source_roots, traced.tree, Settings(), backend, traced.arguments,
                   traced.params, traced.name)  # fmt: skip
    made.example_shapes = traced.example_shapes
    return made


def predict(results: Sequence[study.Result], backend: str, divide: int = 1) -> None:
    """Put the predictions of now into results; those of `default` and `Auto()` only where what is
    chosen now is what ran."""
    cases = {c.name: c for c in (*programs.STUDY, *UNSEEN)}
    for result in results:
        found, chosen = study.predictions(lowered(cases[result.program], backend, divide),
                                          list(result.measured))  # fmt: skip
        for name, measured in result.measured.items():
            own = name in ("default", "Auto()")
            measured.predicted = None if own and chosen != result.chosen else found.get(name)


# --- docs/study.md --------------------------------------------------------------------------


def _code(name: str) -> str:
    return f"`{name}`".replace("|", "\\|")


def _microseconds(seconds: float) -> str:
    return f"{seconds * 1e6:,.0f}" if seconds >= 99.5e-6 else f"{seconds * 1e6:.1f}"


def which_schedule() -> str:
    """The table of the study, and what it says."""
    path = newest("schedules-gpu")
    results, about = study.read(path)
    lines = [
        f"{len(results)} programs under up to {max(len(r.measured) for r in results)} schedules on "
        f"an {about['device']['gpu']}, {about['date'][:10]}; float32; medians in microseconds; "
        "caches as the previous run left them. *Default*: no schedule and `Auto()` are measured "
        "separately, and the shorter time is shown; the two differ by up to 3 %. *Order alone*: "
        "the largest gain of an order, a hint or a residency over row order with blocks of the "
        "same shape, which may be slower than the default.",
        "",
        "| program | `Row()` | row order of 8 × 32 blocks | default | fastest other | | "
        "order alone | `Auto()` / fastest |",
        "| --- | ---: | ---: | ---: | --- | ---: | --- | ---: |",
    ]
    for r in results:
        times = {n: _microseconds(m.warm) for n, m in r.measured.items()}
        twice = [r.measured[n].warm for n in ("default", "Auto()") if n in r.measured]
        unasked = _microseconds(min(twice)) if twice else ""
        turned = f"{r.gain:.2f}× {_code(r.turned)}" if r.gain >= 1.03 else "none"
        auto = "" if r.auto is None else f"{r.auto:.2f}"
        lines.append(
            f"| {r.program} | {times.get('Row()', '')} | {times.get('Row() | Block(8, 32)', '')} | "
            f"{unasked} | {_code(r.best)} | {times[r.best]} | {turned} | {auto} |"
        )
    box = next(r for r in results if "box" in r.program).measured
    zigzag = min(m.warm for n, m in box.items() if n.startswith("ZigZag") and "Block" in n)
    lines += ["", *summary(results),
              "- A zigzag of blocks on the 9×9 box of a 4K image gains a factor of "
              f"{box['Row() | Block(8, 32)'].warm / zigzag:.2f}; the paper reported 13 %.", "",
              f"[All times]({_link(path)}), also with cold caches; [raw data]"
              f"({_link(path, '.json')})."]  # fmt: skip
    return "\n".join(lines)


def _link(path: Path, suffix: str = ".md") -> str:
    return f"../{path.with_suffix(suffix).relative_to(ROOT)}"


def orders_alone() -> str:
    """The table of `reorder`."""
    about = json.loads(newest("reorder-gpu").read_text(encoding="utf-8"))
    text = reorder.table(about["results"], about)
    return "\n".join(line for line in text.splitlines() if line.startswith("|"))


def counted(graphs: bool) -> str:
    """The table of `traffic`: of the programs with locality graphs, or of orders alone."""
    found = json.loads(newest("traffic-gpu").read_text(encoding="utf-8"))["results"]
    return "\n".join(traffic.table([r for r in found if (r[0] in paver.PROGRAMS) is graphs]))


def unseen() -> str:
    """The table of `study --unseen`, and a summary."""
    results, about = study.read(newest("unseen-gpu"))
    lines = ["| program | Spearman | typical error | `Auto()` / fastest |",
             "| --- | ---: | ---: | ---: |"]  # fmt: skip
    lines += [f"| {r.program} | {r.rank or 0:.2f} | {ranks.error(r.predicted):.0%} | "
              f"{r.auto or 0:.2f} |" for r in results]  # fmt: skip
    shares = ranks.correlation([p for r in results for p in ranks.relative(r.predicted)]) or 0.0
    right, apart = (sum(x) for x in zip(
        *(ranks.ordered(r.predicted) for r in results), strict=True))  # fmt: skip
    good = sum((r.rank or 0) >= 0.9 for r in results)
    lines += ["", f"{about['date'][:10]}: {good} of {len(results)} programs have a rank "
              "correlation of 0.9 or more. Over all of them, with times divided by their program's "
              f"mean, it is {shares:.2f}. Of all pairs of schedules that differ by more than 2 %, "
              f"{right / apart:.0%} are predicted in the right order."]  # fmt: skip
    return "\n".join(lines)


def by_level() -> str:
    """The table of `levels`."""
    about = json.loads(newest("levels-gpu").read_text(encoding="utf-8"))
    return "\n".join(levels.table(about["results"]))


# --- docs/locality.md -----------------------------------------------------------------------


def graphs_measured() -> str:
    """The table of `paver --run cuda`, and what it says."""
    path = newest("paver-gpu")
    about = json.loads(path.read_text(encoding="utf-8"))
    results = [paver.result_of(r) for r in about["results"]]
    against = paver.against_graphs(results)
    regular = {r.program for r in results if r.regular}
    on_agents = paver.against_graphs(results, ("structured + agents",))
    irregular = [n for n in against if n not in regular]
    least = min(regular, key=lambda n: against[n])
    lines = [
        f"On an {about['device']['gpu']}, {about['date'][:10]}, images of {about['size']}² "
        f"(the product and irregular programs {about['irregular']}²), blocks of 8 × 32; "
        "milliseconds for the row order of these blocks, and speedups over it. *Against graph*: "
        "the time of the fastest graph divided by that of the fastest other schedule.",
        "",
        "| program | row order, ms | best order | | clustering | | order on agents | | graph | | "
        "preprocessing, s | against graph |",
        "| --- | ---: | --- | ---: | --- | ---: | --- | ---: | --- | ---: | ---: | ---: |",
    ]
    for row in paver.measured(results):
        cells = [f"`{c}`" if k in (2, 4, 6, 8) else c for k, c in enumerate(row)]
        lines.append("| " + " | ".join(cells) + " |")
    lines += [
        "",
        "- On the regular programs, the best structured schedule needs no preprocessing and is "
        f"at least {against[least]:.2f}× as fast as the best graph ({least}).",
        "- Orders on agents pay for the queue as the graph does. Their speedup over the best "
        "graph: " + ", ".join(f"{on_agents[n]:.2f}× ({n})" for n in on_agents) + ".",
        "- On the irregular programs, the speedup of the best graph over the best other schedule "
        "is " + ", ".join(f"{1 / against[n]:.2f} ({n})" for n in irregular) + ".",
        f"- [All times]({_link(path)}).",
    ]  # fmt: skip
    return "\n".join(lines)


def graphs_simulated() -> str:
    """The table of `paver` without a GPU: lines brought into the first-level caches."""
    about = json.loads(newest("paver").read_text(encoding="utf-8"))
    results = [paver.result_of(r) for r in about["results"]]
    lines = [
        "| program | best order | clustering | best order on agents | best graph | "
        "preprocessing, ms |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in paver.summary(results):
        mine = [r for r in results if r.program == row[0] and r.family == "graph"]
        took = [f"{f(r.preprocessing for r in mine) * 1e3:.0f}" for f in (min, max)]
        best = [f"{row[k + 1]} `{row[k]}`" for k in (1, 4, 7, 10)]
        lines.append("| " + " | ".join([row[0], *best, " … ".join(took)]) + " |")
    return "\n".join(lines)


PARTS: dict[str, tuple[Path, Callable[[], str]]] = {
    "study": (ROOT / "docs" / "study.md", which_schedule),
    "unseen": (ROOT / "docs" / "study.md", unseen),
    "levels": (ROOT / "docs" / "study.md", by_level),
    "orders": (ROOT / "docs" / "study.md", orders_alone),
    "counted orders": (ROOT / "docs" / "study.md", partial(counted, False)),
    "counted graphs": (ROOT / "docs" / "locality.md", partial(counted, True)),
    "simulated": (ROOT / "docs" / "locality.md", graphs_simulated),
    "graphs": (ROOT / "docs" / "locality.md", graphs_measured),
}


def written(page: Path, text: str) -> str:
    """`text` with the parts of `page` between marks as the results have them."""
    for name, (where, part) in PARTS.items():
        marks = (MARKS[0].format(name), MARKS[1].format(name))
        if where == page and marks[0] in text:
            text = provenance.replaced(text, marks, part())
    return text


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.schedules.pages",
                                     description=(__doc__ or "").splitlines()[0])  # fmt: skip
    parser.add_argument("--predict", type=Path, metavar="FILE.json")
    given = parser.parse_args(argv)
    if given.predict is not None:
        results, about = study.read(given.predict)
        predict(results, about["backend"], study.DIVIDE[about["backend"]])
        study.write(given.predict, results, about)
    for page in dict.fromkeys(page for page, _ in PARTS.values()):
        page.write_text(written(page, page.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
