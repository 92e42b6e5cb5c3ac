"""Results as tables, geometric means and a picture; and the page docs/npbench.md.

    python -m benchmarks.npbench.page

writes the page from the newest results of every preset in benchmarks/results, and the table and the
picture beside them.  A test checks that the page is what this module would write.
"""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.npbench.results import Entry, Run, geometric_mean, read
from benchmarks.provenance import ROOT, describe, markdown_table
from benchmarks.reporting import read_notes

RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "npbench.md"
NOTES = Path(__file__).resolve().parent / "NOTES.md"
#: treadle's backends, their peers, and the device of both.
OURS = {"native": ("numpy", "numba", "jax-cpu"), "cuda": ("jax-gpu", "cupy")}
TITLES = {
    "native": "native",
    "cuda": "cuda",
    "numpy": "NumPy",
    "numba": "Numba",
    "jax-cpu": "JAX, CPU",
    "jax-gpu": "JAX, GPU",
    "cupy": "CuPy",
}
DEVICES = {"native": ("cpu", "On the CPU"), "cuda": ("gpu", "On the GPU")}


def _milliseconds(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    milliseconds = seconds * 1e3
    return f"{milliseconds:.3g}" if milliseconds < 1000 else f"{milliseconds:,.0f}"


def _cell(entry: Entry | None) -> str:
    """A time, or why there is none."""
    if entry is None or entry.status == "missing":
        return "–"
    return _milliseconds(entry.seconds) if entry.best is not None else entry.status


def _first(entry: Entry | None) -> str:
    return "–" if entry is None or entry.best is None else _milliseconds(entry.best.first)


def _measured(run: Run) -> dict[str, list[str]]:
    """treadle's backends in a run, with the peers that were measured beside them."""
    return {
        ours: [p for p in peers if p in run.frameworks]
        for ours, peers in OURS.items()
        if ours in run.frameworks
    }


def table(run: Run) -> list[str]:
    """For each of treadle's backends, a line for each program."""
    lines: list[str] = []
    for ours, peers in _measured(run).items():
        kind, title = DEVICES[ours]
        best = run.ratios(ours, peers)
        head = ["program", ours, *(TITLES[p] for p in peers), "speedup"]
        head += [f"first call: {TITLES[n]}" for n in (ours, *peers) if n != "numpy"]
        rows = []
        for program in run.programs():
            entries = [run.find(program, n) for n in (ours, *peers)]
            ratio = f"{best[program][0]:.2f}" if program in best else "–"
            firsts = [
                _first(e) for e, n in zip(entries, (ours, *peers), strict=True) if n != "numpy"
            ]
            rows.append([program, *(_cell(e) for e in entries), ratio, *firsts])
        about = describe(run.devices[kind]) if "driver" in run.devices[kind] or kind == "cpu" else (
            run.devices[kind]["gpu"]
        )  # fmt: skip
        lines += ["", f"**{title}**: {about}. Milliseconds a call; the speedup is over the "
                  "fastest peer.", "", *markdown_table(head, rows)]  # fmt: skip
    return lines


def means(run: Run) -> list[tuple[str, str, float, int, list[str]]]:
    """(backend, peer, geometric mean of speedups, programs, those slower than the peer)."""
    found = []
    for ours, peers in _measured(run).items():
        for peer in peers:
            ratios = run.ratios(ours, [peer])
            if ratios:
                slower = [n for n, (r, _) in ratios.items() if r < 1]
                mean = geometric_mean([r for r, _ in ratios.values()])
                found.append((ours, peer, mean, len(ratios), slower))
    return found


def summary(run: Run) -> list[str]:
    """The geometric means, in lines of text."""
    return [
        f"{ours} over {TITLES[peer]}: {mean:.2f} × ({count} programs)"
        + (f"; slower: {' '.join(slower)}" if slower else "")
        for ours, peer, mean, count, slower in means(run)
    ]


def losses(run: Run) -> list[str]:
    """The programs that are slower than a peer, or that failed, with the reasons from the notes."""
    notes = read_notes(NOTES)
    lines = []
    for ours, peers in _measured(run).items():
        for program, (ratio, peer) in run.ratios(ours, peers).items():
            if ratio < 1:
                reason = notes.get(f"{program} on {ours}") or notes.get(
                    program, "Not yet explained."
                )
                lines.append(f"- **{program}** on {ours}: {ratio:.2f} of {TITLES[peer]}. {reason}")
        for program in run.programs():
            entry = run.find(program, ours)
            if entry is not None and entry.best is None:
                lines.append(f"- **{program}** on {ours}: {entry.status}. {entry.message}")
    return lines


def peers_without_result(run: Run) -> list[str]:
    """Which programs of the peers are not in the means, and why."""
    lines = []
    for peers in _measured(run).values():
        for peer in peers:
            by_status: dict[str, list[str]] = {}
            for program in run.programs():
                entry = run.find(program, peer)
                if entry is not None and entry.best is None:
                    by_status.setdefault(entry.status, []).append(program)
            for status, programs in by_status.items():
                lines.append(f"- {TITLES[peer]}, {status}: {', '.join(programs)}")
    return lines


def body(run: Run) -> list[str]:
    """All of a run's results, for its own page and for the page of the documentation."""
    versions = ", ".join(f"{n} {v}" for n, v in run.versions.items())
    dirty = ", with uncommitted changes" if run.source["dirty"] else ""
    lines = [
        f"Preset {run.preset}, {run.date}, treadle at {str(run.source['commit'])[:12]}{dirty}, "
        f"NPBench at {run.npbench[:12]}; {versions}."
        + (f" {run.parts} programs were measured at a time (`--parts {run.parts}`), each on its "
           "part of the cores and a GPU of its own." if run.parts > 1 else ""),
        "",
        *markdown_table(["geometric means", "speedup", "programs", "slower than the peer"],
               [(f"{ours} over {TITLES[peer]}", f"{mean:.2f}", str(count), str(len(slower)))
                for ours, peer, mean, count, slower in means(run)]),
        *table(run),
    ]  # fmt: skip
    for title, found in (
        ("**Slower than a peer, or failed.**", losses(run)),
        ("**Peers without a result**, or with a wrong one (by NPBench's rule):",
         peers_without_result(run)),
    ):  # fmt: skip
        if found:
            lines += ["", title, "", *found]
    return lines


def plot(run: Run, path: Path) -> bool:
    """For each program, how many times as long every peer takes; whether there was any."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    shown = {ours: peers for ours, peers in _measured(run).items() if run.ratios(ours, peers)}
    if not shown:
        return False
    programs = run.programs()
    figure, panels = pyplot.subplots(
        1, len(shown), sharey=True, squeeze=False, layout="constrained",
        figsize=(2 + 4 * len(shown), 1.5 + 0.17 * len(programs)),
    )  # fmt: skip
    for axes, (ours, peers) in zip(panels[0], shown.items(), strict=True):
        for k, peer in enumerate(peers):
            ratios = run.ratios(ours, [peer])
            places = [programs.index(n) for n in ratios]
            mean = geometric_mean([r for r, _ in ratios.values()]) if ratios else 0.0
            axes.scatter([r for r, _ in ratios.values()], places, s=16, color=f"C{k}",
                         marker="osD"[k % 3], label=f"{TITLES[peer]} ({mean:.1f}×)")  # fmt: skip
        axes.axvline(1, color="black", linewidth=0.8)
        axes.set_xscale("log")
        axes.set_yticks(range(len(programs)), programs, fontsize=6)
        axes.set_ylim(len(programs) - 0.4, -0.6)
        axes.grid(alpha=0.3)
        axes.set_xlabel(f"time over that of {ours}")
        axes.legend(fontsize=7, loc="lower right")
    figure.suptitle(f"NPBench, preset {run.preset}: right of the line, treadle is faster",
                    fontsize=9)  # fmt: skip
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
    return True


def write_tables(run: Run, out: Path) -> list[Path]:
    """The table in Markdown and the picture beside the results `out`."""
    text = out.with_suffix(".md")
    text.write_text("\n".join(["# NPBench", "", *body(run)]) + "\n", encoding="utf-8")
    try:
        drawn = plot(run, out.with_suffix(".png"))
    except ImportError:
        drawn = False
    return [text, out.with_suffix(".png")] if drawn else [text]


def newest() -> dict[str, Path]:
    """The newest complete results of every preset."""
    found = {}
    for path in sorted(RESULTS.glob("npbench-*.json")):
        named = re.fullmatch(r"npbench-(\w+)-[\d-]+", path.stem)
        if named:
            found[named[1]] = path
    return {p: found[p] for p in ("S", "M", "L", "paper") if p in found}


INTRODUCTION = """\
# Programs that others wrote: NPBench

<!-- written by python -m benchmarks.npbench.page -->

[NPBench](https://github.com/spcl/npbench) is a collection of NumPy programs from weather models,
chemistry, linear algebra and learning, with versions for Numba, JAX, CuPy and others. Here each is
a treadle program ([sources](../benchmarks/npbench)), written as the [guide](guide.md) suggests, and
measured beside NPBench's own versions:

```bash
git clone https://github.com/spcl/npbench
python -m benchmarks.npbench --clone npbench --preset M \\
    --frameworks native,cuda,numpy,numba,jax-cpu,jax-gpu,cupy
python -m benchmarks.npbench.page
```

Every framework runs in a process of its own, one at a time, on data of NPBench's initialisers; on
a GPU, arguments and results stay there. A time is the median of the calls after the first, until
half a second is over. Of several versions for one framework (Numba's serial, parallel and
explicitly parallel one, without its object mode; JAX's two), the fastest with a right result
counts. Results are compared with NumPy's by NPBench's rule. The first call includes tracing and
compiling, with empty caches; of Numba's, the processor time of compiling, which happens beforehand
on all cores at once.
"""


def written() -> str:
    """The page; FileNotFoundError without results."""
    found = newest()
    if not found:
        raise FileNotFoundError(f"no results of NPBench in {RESULTS}")
    lines = [INTRODUCTION]
    for preset, path in reversed(found.items()):
        lines += [f"## Preset {preset}", "", *body(read(path))]
        if path.with_suffix(".png").exists():
            picture = f"../benchmarks/results/{path.stem}.png"
            lines += ["", f"![Times of the peers over treadle's, preset {preset}]({picture})"]
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    for path in newest().values():
        write_tables(read(path), path)
    PAGE.write_text(written(), encoding="utf-8")
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
