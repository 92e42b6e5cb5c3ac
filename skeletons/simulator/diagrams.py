"""Pictures of simulations (matplotlib)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .patterns import Pattern
from .simulation import Simulation, capacity_sweep

HELD, USED, BROUGHT = 1, 2, 3
COLOURS = ("#ffffff", "#c6dbef", "#2171b5", "#d7301f")
#: Wider or taller diagrams are sampled down to this many pixels.
_PIXELS = 2000


def states(simulation: Simulation) -> Any:
    """(span, steps) of what an address is at a time step: 0 away, 1 held, 2 accessed, 3 brought in.

    The cache is replayed line by line, so this is for small settings (millions of cells).
    """
    from .simulation import run

    trace, cache = simulation.trace, simulation.cache
    marked = simulation if simulation.missed.size else run(
        simulation.pattern, simulation.schedule, trace, cache, mark=True)  # fmt: skip
    width = cache.line_width
    picture = np.zeros((trace.span, trace.steps), np.uint8)
    lines = trace.addresses // width
    for line in np.unique(lines):
        at = np.flatnonzero(lines == line)
        steps, missed = trace.step[at], marked.missed[at]
        rows = slice(line * width, min((line + 1) * width, trace.span))
        # Held from a miss to the last use before the next one.
        begins = np.flatnonzero(missed)
        for k, begin in enumerate(begins):
            end = begins[k + 1] if k + 1 < len(begins) else len(at)
            picture[rows, steps[begin] : steps[end - 1] + 1] = HELD
            picture[rows, steps[begin]] = BROUGHT
    picture[trace.addresses, trace.step] = np.where(
        picture[trace.addresses, trace.step] == BROUGHT, BROUGHT, USED
    )
    return picture


def spatial_temporal(simulation: Simulation, axes: Any = None) -> Any:
    """The spatial-temporal diagram: addresses upwards, time to the right; the figure's axes.

    Red: lines brought in; blue: addresses accessed; light: held until their last use.
    """
    from matplotlib import colors, pyplot

    if axes is None:
        _, axes = pyplot.subplots(figsize=(7, 5), layout="constrained")
    picture = states(simulation)
    steps = [max(1, n // _PIXELS) for n in picture.shape]
    shown = picture[:: steps[0], :: steps[1]]
    axes.imshow(
        shown, cmap=colors.ListedColormap(COLOURS), vmin=0, vmax=3, aspect="auto",
        interpolation="nearest", origin="lower", extent=(0, picture.shape[1], 0, picture.shape[0]),
    )  # fmt: skip
    axes.set_xlabel("time (outputs)")
    axes.set_ylabel("address")
    axes.set_title(
        f"{simulation.pattern}, {simulation.schedule!r}: {simulation.misses:,} misses", fontsize=9
    )
    return axes


def sweep(pattern: Pattern, schedules: Sequence[Any], line_width: int, lines: Sequence[int],
          policy: Any = None, axes: Any = None) -> Any:  # fmt: skip
    """Misses against the size of the cache, one line per schedule."""
    from matplotlib import pyplot

    if axes is None:
        _, axes = pyplot.subplots(figsize=(6, 4), layout="constrained")
    found = capacity_sweep(pattern, schedules, line_width, lines, policy)
    for schedule, misses in zip(schedules, found, strict=True):
        axes.step(lines, misses, where="mid", label=repr(schedule))
    axes.set_xlabel(f"cache lines of {line_width} elements")
    axes.set_ylabel("misses")
    axes.set_title(pattern.name, fontsize=9)
    axes.legend(fontsize=8)
    return axes
