"""Tables, geometric means and a picture of results."""

from __future__ import annotations
from collections.abc import Sequence
from pathlib import Path
from benchmarks.npbench.results import Run, geometric_mean

OURS = {"native": ("numpy", "numba", "jax-cpu"), "cuda": ("jax-gpu", "cupy")}


def table(run: Run) -> list[str]:
    return []


def summary(run: Run) -> list[str]:
    lines = []
    for ours, peers in OURS.items():
        for peer in peers:
            found = run.ratios(ours, [peer])
            if found:
                mean = geometric_mean([r for r, _ in found.values()])
                slower = [n for n, (r, _) in found.items() if r < 1]
                lines.append(f"{ours} over {peer}: {mean:.2f} ({len(found)} programs); slower: {' '.join(slower)}")
    return lines


def write_tables(run: Run, out: Path) -> list[Path]:
    return []
