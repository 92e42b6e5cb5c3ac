"""The table of a study, and a summary of it in a few lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import provenance
from benchmarks.schedules.ranks import correlation, error, geometric, ordered, relative

if TYPE_CHECKING:
    from benchmarks.schedules.study import Result


def table(results: Sequence[Result], about: Mapping[str, Any]) -> str:
    """Markdown: one line per program, and the summary."""
    lines = [
        *provenance.heading(about), "",
        "Times in milliseconds (medians; minima on a CPU), with warm caches unless *cold*. The "
        "gain is over row order with blocks of the same shape. *Spearman*: the rank correlation of "
        "predicted and measured times over all schedules except `Auto()`; times within 2 % are "
        "ties, predicted ones too (levels of 2 %, from the shortest time up). *No ties*: the same "
        "with the times as they are. *Spread*: the slowest of these schedules over the fastest; "
        "below 1.02 there is nothing to rank. Predictions are those of the model when this page "
        "was written, which may be later than the measurement. Folds on a CPU are not predicted.",
        "",
        "| program | row order | default | best schedule | ms | cold | gain of order or hint | "
        "Auto / best | spread | Spearman | no ties |",
        "| --- | ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]  # fmt: skip

    def ms(r: Result, name: str) -> str:
        return f"{r.measured[name].warm * 1e3:.3g}" if name in r.measured else ""

    for r in results:
        best = r.measured[r.best]
        auto = "" if r.auto is None else f"{r.auto:.2f}"
        rank, untied = ("" if x is None else f"{x:.2f}" for x in (r.rank, r.untied))
        spread = f"{r.spread:.2f}" if r.predicted else ""
        lines.append(
            f"| {r.program} | {ms(r, 'Row()')} | {ms(r, 'default')} | {_code(r.best)} | "
            f"{best.warm * 1e3:.3g} | {best.cold * 1e3:.3g} | {r.gain:.2f}× {_code(r.turned)} | "
            f"{auto} | {spread} | {rank} | {untied} |"
        )
    lines += ["", *summary(results), ""]
    return "\n".join(lines)


def _code(name: str) -> str:
    """A schedule in a cell of a table."""
    return f"`{name}`".replace("|", "\\|")


def against_row(result: Result, cold: bool = False) -> float | None:
    """The time of the row order over that of `Auto()`; `cold`: with nothing in the caches."""
    if not {"Row()", "Auto()"} <= set(result.measured):
        return None
    row, auto = (result.measured[n] for n in ("Row()", "Auto()"))
    return row.cold / auto.cold if cold else row.warm / auto.warm


#: The number of schedules, by predicted time, that a user who measures would time.
TIMED = 3


def best_timed(result: Result) -> float | None:
    """The best time of the TIMED schedules with the best predictions, over the best of all."""
    known = [m for m in result.measured.values() if m.predicted is not None]
    if not known:
        return None
    first = sorted(known, key=lambda m: m.predicted or 0.0)[:TIMED]
    return min(m.warm for m in first) / min(m.warm for m in result.measured.values())


def hint_gains(results: Sequence[Result]) -> dict[str, list[float]]:
    """The speedups of each hint, by program."""
    row = "Row() | Block(8, 32)"
    found: dict[str, list[float]] = {}
    for r in results:
        for name, m in r.measured.items():
            if "Hints" in name and row in r.measured:
                found.setdefault(name.removeprefix(row + " | "), []).append(
                    r.measured[row].warm / m.warm)  # fmt: skip
    return found


#: Families of layers beside a block, by how the text of a schedule begins.
FAMILIES = {
    "columns, zigzags and swizzles of blocks": ("Column", "ZigZag", "Swizzle"),
    "curves of blocks": ("Morton", "Hilbert"),
    "`Clusters(4)`": ("Row() | Block(8, 32) | Clusters",),
    "`Agents(2)`": ("Row() | Block(8, 32) | Agents",),
}


def family_gains(results: Sequence[Result], begins: tuple[str, ...]) -> list[tuple[float, str]]:
    """The speedups of a family over row order of the same blocks, each with its program."""
    return [(r.over_control(name), r.program) for r in results for name in r.measured
            if name.startswith(begins) and "Block" in name]  # fmt: skip


def summary(results: Sequence[Result]) -> list[str]:
    """The results in a few lines."""
    lines = []
    autos = {r.program: r.auto for r in results if r.auto is not None}
    if autos:
        worst = max(autos, key=lambda name: autos[name])
        rows = [x for r in results if (x := against_row(r)) is not None]
        cold = [x for r in results if (x := against_row(r, cold=True)) is not None]
        lines.append(
            f"- `Auto()`, which chooses without running anything, is "
            f"{geometric([*autos.values()]) - 1:.1%} slower than the fastest schedule (geometric "
            f"mean), at worst {autos[worst] - 1:.0%} ({worst}). Its speedup over row order is at "
            f"least {min(rows):.3f}, and {min(cold):.3f} with cold caches (two measurements of the "
            "same code differ by up to 3 %)."
        )
    timed = [x for r in results if (x := best_timed(r)) is not None]
    if timed:
        lines.append(
            f"- Timing the {TIMED} schedules with the best predictions finds one that is "
            f"{geometric(timed) - 1:.1%} slower than the fastest (geometric mean), at worst "
            f"{max(timed) - 1:.0%}."
        )
    ranks = {r.program: r.rank for r in results if r.rank is not None}
    if ranks:
        pairs = [p for r in results for p in r.predicted]
        right, known = (sum(x) for x in zip(*(ordered(r.predicted) for r in results), strict=True))
        least = min(ranks, key=lambda name: ranks[name])
        good = sum(x >= 0.9 for x in ranks.values())
        pooled = correlation(pairs) or 0.0
        shares = correlation([p for r in results for p in relative(r.predicted)]) or 0.0
        lines.append(
            f"- Predictions are {error(pairs):.0%} off (geometric mean of {len(pairs)} times). "
            f"Spearman's rank correlation with the measurements is {pooled:.2f} over all programs, "
            f"and {shares:.2f} with times divided by their program's mean. Within a program its "
            f"median is {median(ranks.values()):.2f}; it is at least 0.9 for {good} of "
            f"{len(ranks)} programs, and lowest for {least} ({ranks[least]:.2f}). Of all pairs of "
            f"schedules that differ by more than 2 %, {right / known:.0%} are predicted in the "
            "right order."
        )
        untied = {r.program: r.untied for r in results if r.untied is not None}
        last = min(untied, key=lambda name: untied[name])
        still = [r.program for r in results if r.predicted and r.rank is None]
        lines.append(
            f"- The same without ties, times within 2 % ranked as measured: median "
            f"{median(untied.values()):.2f}, at least 0.9 for "
            f"{sum(x >= 0.9 for x in untied.values())} of {len(untied)}, lowest "
            f"{untied[last]:.2f} ({last})."
            + (f" Within 2 % under all schedules: {', '.join(still)}." if still else "")
        )  # fmt: skip
    apart = [m.apart for r in results for m in r.measured.values() if m.apart is not None]
    if apart:
        lines.append("- The interquartile range of the samples of a schedule is "
                     f"{median(apart):.1%} of their median (median over all schedules; 95th "
                     f"percentile {np.quantile(apart, 0.95):.1%}).")  # fmt: skip
    once = [r.program for r in results for m in r.measured.values() if m.once]
    if once:
        lines.append(f"- {len(once)} schedules were many times slower than the fastest and were "
                     f"measured once ({', '.join(dict.fromkeys(once))}).")  # fmt: skip
    gains = sorted(results, key=lambda r: -r.gain)[:5]
    shown = "; ".join(f"{r.program} {r.gain:.2f}× (`{r.turned}`)" for r in gains)
    lines.append(f"- Largest gains of an order, a hint or a residency over row order of the "
                 f"same blocks: {shown}.")  # fmt: skip
    null = [r.program for r in results if r.gain < 1.03]
    lines.append(
        f"- None gained 3 % or more on {len(null)} of {len(results)} programs"
        f"{': ' * bool(null)}{'; '.join(null)}."
    )
    for family, begins in FAMILIES.items():
        apart = sorted(family_gains(results, begins))
        if apart:
            lines.append(f"- {family[0].upper()}{family[1:]}, speedup over row order of the same "
                         f"blocks: {geometric([g for g, _ in apart]):.2f} on average, "
                         f"{apart[0][0]:.2f} ({apart[0][1]}) to {apart[-1][0]:.2f} "
                         f"({apart[-1][1]}).")  # fmt: skip
    for hint, found in hint_gains(results).items():
        lines.append(f"- `{hint}`, speedup: {geometric(found):.2f} on average, "
                     f"{min(found):.2f} to {max(found):.2f}.")  # fmt: skip
    wrong = [f"{r.program} under `{n}`" for r in results for n, m in r.measured.items()
             if not m.same and n not in ("default", "Auto()")]  # fmt: skip
    lines.append("- Results are bit for bit those of row order under every schedule"
                 + (f", but: {'; '.join(wrong)}." if wrong else "."))  # fmt: skip
    apart_bits = [r.program for r in results if "default" in r.measured
                  and not r.measured["default"].same]  # fmt: skip
    if apart_bits:
        lines[-1] += (" Without a schedule, separable weights are summed axis by axis, which "
                      f"rounds differently: {'; '.join(apart_bits)}.")  # fmt: skip
    return lines
