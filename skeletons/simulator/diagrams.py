"""Pictures of schedules and simulations (matplotlib).

Every function draws on `axes`, or on a figure of its own, and returns the axes: `.figure.savefig`
writes the picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from treadle.dsl.errors import ScheduleError, user_facing
from treadle.skeletons.schedules import as_schedule
from treadle.skeletons.schedules.examine import extents_of as _extents
from treadle.skeletons.schedules.schedule import shown

from .patterns import visited

if TYPE_CHECKING:
    from .simulation import Simulation

HELD, USED, BROUGHT = 1, 2, 3
COLOURS = ("#ffffff", "#c6dbef", "#2171b5", "#d7301f")
#: From the first to the last step, as in the page of `treadle explore`.
TIME = ("#312a6b", "#2c6491", "#2f9d93", "#8fc25c", "#f4cf4f")
_INK, _QUIET = "#1c223a", "#8b90a0"
#: Wider or taller diagrams are sampled down to this many pixels.
_PIXELS = 2000
#: Boundaries of warps and blocks are drawn on no more outputs than these.
_BOUNDED = 1 << 16
_WARP = 32


def plot_order(schedule: Any, shape: Sequence[int], axes: Any = None) -> Any:
    """The outputs of `shape` coloured by when they are computed, with the borders of warps.

    A warp is 32 outputs that follow each other (fine lines); where blocks are visited, their
    borders are the heavy lines.  Leading axes lie below each other.  `schedule.plot(shape)` is the
    same.
    """
    from matplotlib import colors

    shape = _extents(shape)
    if not shape or min(shape) < 1:
        raise ScheduleError(f"there is nothing to draw on extents {shape}.",
                            hint="Write schedule.plot((16, 64)).")  # fmt: skip
    points = visited(schedule, shape)
    when = np.empty(shape, np.int64)
    when[tuple(points.T)] = np.arange(len(points))
    when = when.reshape(-1, shape[-1])
    axes = axes or _axes(max(when.shape[1], 1) / max(when.shape[0], 1))
    axes.imshow(when, cmap=colors.LinearSegmentedColormap.from_list("time", TIME),
                interpolation="nearest", extent=(0, when.shape[1], when.shape[0], 0))  # fmt: skip
    plan = as_schedule(schedule).resolve(len(shape))
    if when.size <= _BOUNDED:
        _borders(axes, when // _WARP, 0.6, 0.7)
        if plan.grain == "block":
            _borders(axes, _units(shape, plan.unit), 1.8, 1.0)
    axes.set_xticks([0, when.shape[1]])
    axes.set_yticks([0, when.shape[0]])
    axes.set_title(f"{shown(schedule)} on {' × '.join(map(str, shape))}", fontsize=9)
    return axes


def _units(shape: tuple[int, ...], unit: tuple[int, ...]) -> Any:
    """Numbers of the blocks that elements lie in."""
    found = np.zeros(shape, np.int64)
    for axis, (n, size) in enumerate(zip(shape, unit, strict=True)):
        along = (np.arange(n) // size).reshape([-1 if k == axis else 1 for k in range(len(shape))])
        found = found * -(-n // size) + along
    return found.reshape(-1, shape[-1])


def _borders(axes: Any, group: Any, width: float, alpha: float) -> None:
    """Lines between neighbours of different groups."""
    from matplotlib.collections import LineCollection

    right = np.argwhere(group[:, 1:] != group[:, :-1])
    below = np.argwhere(group[1:] != group[:-1])
    segments = [((x + 1, y), (x + 1, y + 1)) for y, x in right]
    segments += [((x, y + 1), (x + 1, y + 1)) for y, x in below]
    axes.add_collection(LineCollection(segments, colors="white", linewidths=width, alpha=alpha))


def states(simulation: Simulation) -> Any:
    """(span, steps) of what an address is at a time step: 0 away, 1 held, 2 accessed, 3 brought in.

    The cache is replayed line by line, so this is for small settings (millions of cells).
    """
    from .simulation import simulate

    trace, cache = simulation.trace, simulation.cache
    marked = (
        simulation
        if simulation.missed.size
        else simulate(
            simulation.source, simulation.schedule, cache, mark=True, at_once=simulation.at_once
        )
    )
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
    from matplotlib import colors

    axes = axes or _axes(1.4)
    picture = states(simulation)
    steps = [max(1, n // _PIXELS) for n in picture.shape]
    pixels = picture[:: steps[0], :: steps[1]]
    axes.imshow(
        pixels, cmap=colors.ListedColormap(COLOURS), vmin=0, vmax=3, aspect="auto",
        interpolation="nearest", origin="lower", extent=(0, picture.shape[1], 0, picture.shape[0]),
    )  # fmt: skip
    axes.set_xlabel("time (outputs)")
    axes.set_ylabel("address")
    axes.set_title(
        f"{simulation.pattern}, {shown(simulation.schedule)}: {simulation.misses:,} misses",
        fontsize=9,
    )
    return axes


@user_facing
def plot_sweep(pattern: Any, schedules: Sequence[Any], line_width: int, lines: Sequence[int],
               policy: Any = None, axes: Any = None) -> Any:  # fmt: skip
    """Misses of a pattern, or of the kernel of a program, against the size of the cache, one line
    per schedule."""
    from .simulation import as_pattern, capacity_sweep

    pattern = as_pattern(pattern)
    axes = axes or _axes(1.5)
    found = capacity_sweep(pattern, schedules, line_width, lines, policy)
    for schedule, misses in zip(schedules, found, strict=True):
        axes.step(lines, misses, where="mid", label=shown(schedule))
    axes.set_xlabel(f"cache lines of {line_width} elements")
    axes.set_ylabel("misses")
    axes.set_title(pattern.name, fontsize=9)
    axes.legend(fontsize=8, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return axes


@user_facing
def plot_tuning(table: Any, axes: Any = None) -> Any:
    """The timings of a `TuningTable` as bars, operation by operation, fastest first; winners are
    dark; of a tuned program, those of its `.tuning`.  Errors: `ScheduleError` where nothing was
    timed."""
    table = getattr(table, "tuning", table)
    if not hasattr(table, "rows"):
        raise ScheduleError(
            f"plot_tuning draws what program.tune(*args) measured, got {type(table).__name__}.",
            hint="Write plot_tuning(program.tune(*args)), or tuned.tuning.plot().",
        )
    if not table.rows:
        raise ScheduleError(f"there is nothing to draw: {table}".rstrip())
    rows = []
    for operation in dict.fromkeys(r.operation for r in table.rows):
        mine = sorted((r for r in table.rows if r.operation == operation), key=lambda r: r.ms)
        rows += [(r, table.winners.get(operation) == r.schedule) for r in mine]
    axes = axes or _axes(1.5)
    places = range(len(rows))[::-1]
    axes.barh(places, [r.ms for r, _ in rows], color=["#2f6fb3" if won else _QUIET
                                                      for _, won in rows])  # fmt: skip
    names = ["as it was" if r.schedule is None else shown(r.schedule) for r, _ in rows]
    axes.set_yticks(places, [f"{r.operation}: {n}" for (r, _), n in zip(rows, names, strict=True)],
                    fontsize=7)  # fmt: skip
    axes.set_xlabel("ms")
    axes.set_title(table.best, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def plot_predictions(predicted: Sequence[float], measured: Sequence[float],
                     labels: Sequence[str] = (), axes: Any = None) -> Any:  # fmt: skip
    """What a model predicted against what was measured, in one unit (say, seconds).

    On the line they agree; the title has Spearman's rank correlation and the median error.
    Errors: `ScheduleError` unless there are as many of one as of the other, all positive.
    """
    x, y = np.asarray(predicted, np.float64), np.asarray(measured, np.float64)
    if x.ndim != 1 or x.shape != y.shape or len(x) < 2 or not (np.minimum(x, y) > 0).all():
        raise ScheduleError(
            f"{x.size} predictions and {y.size} measurements cannot be compared.",
            hint="Give as many positive numbers of each, two at least.",
        )
    axes = axes or _axes(1.1)
    ends = [min(x.min(), y.min()) / 1.15, max(x.max(), y.max()) * 1.15]
    axes.plot(ends, ends, color=_QUIET, linewidth=1, zorder=1)
    axes.scatter(x, y, s=26, color="#2f6fb3", edgecolors="white", linewidths=0.6, zorder=2)
    for at, label in zip(zip(x, y, strict=True), labels, strict=False):
        axes.annotate(label, at, xytext=(5, -3), textcoords="offset points", fontsize=7, color=_INK)
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends, aspect="equal",
             xlabel="predicted", ylabel="measured")  # fmt: skip
    error = float(np.median(np.abs(x / y - 1)))
    axes.set_title(f"rank correlation {_spearman(x, y):.2f}, median error {error:.0%}", fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def _spearman(x: Any, y: Any) -> float:
    """The correlation of the ranks; equal values share the mean of theirs."""
    ranks = []
    for values in (x, y):
        _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
        ranks.append((np.cumsum(counts) - (counts + 1) / 2)[inverse])
    a, b = (r - r.mean() for r in ranks)
    scale = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / scale if scale else float("nan")


def _axes(ratio: float) -> Any:
    """The axes of a figure of its own, `ratio` times as wide as high."""
    from matplotlib import pyplot

    height = 5.0 if ratio < 2 else max(10 / ratio, 2)
    _, axes = pyplot.subplots(
        figsize=(max(ratio * height, 3), max(height, 2)), layout="constrained"
    )
    return axes
