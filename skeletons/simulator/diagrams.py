"""Pictures of schedules and simulations (matplotlib).

Every function draws on `ax`, matplotlib's axes, or on a new figure, and returns the axes:
`.figure.savefig` saves the picture.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from treadle.dsl.errors import ScheduleError, user_facing_maker
from treadle.skeletons.schedules import Layer, Row, as_schedule
from treadle.skeletons.schedules.examine import evaluate, extents_of as _extents
from treadle.skeletons.schedules.schedule import ScheduleLike, shown

from .simulation import Player, Simulation, capacity_sweep, pieces_of

if TYPE_CHECKING:
    from treadle.skeletons.schedules import Resolved


KEPT, USED, BROUGHT = 1, 2, 3
COLOURS = ("#ffffff", "#c6dbef", "#2171b5", "#d7301f")
#: What the colours mean, most important first.
MEANING = {BROUGHT: "fetched (miss)", USED: "in the cache (hit)", KEPT: "kept"}
#: From the first to the last step, as in the page of `treadle explore`.
TIME = ("#312a6b", "#2c6491", "#2f9d93", "#8fc25c", "#f4cf4f")
_INK, _QUIET = "#1c223a", "#8b90a0"
#: Wider or taller diagrams are downsampled to this many pixels.
_PIXELS = 2000
#: Borders of warps and blocks are drawn for at most this many outputs, the whole path of an order
#: for at most this many; beyond that, about as many arrows show where it goes.
_BOUNDED, _TRACED, _ARROWS = 1 << 16, 1 << 10, 60
_WARP = 32


@user_facing_maker
def plot_order(schedule: ScheduleLike | None, shape: Sequence[int], ax: Any = None) -> Any:
    """The outputs of `shape` coloured by the position of their threads in time, with their path.

    The path is a line from output to output, and thin where it jumps; on large extents, arrows
    show its direction here and there.  A warp is 32 consecutive threads, with all their outputs:
    thin borders.  Where blocks are visited, their borders are thick.  Leading axes are drawn below
    each other.  `schedule.plot(shape)` is the same.

    Parameters
        schedule: a schedule or a layer; None: row by row, as without a schedule.
        shape: the extents.
        ax: matplotlib's axes; default: new ones.

    Result: matplotlib's axes.
    """
    from matplotlib import colors

    shape = _extents(shape)
    if not shape or min(shape) < 1:
        raise ScheduleError(f"there is nothing to draw on extents {shape}.",
                            hint="Write schedule.plot((16, 64)).")  # fmt: skip
    plan = as_schedule(Row() if schedule is None else schedule).resolve(len(shape))
    threads, warps = (x.reshape(-1, shape[-1]) for x in threads_of(plan, shape))
    _, when = np.unique(threads, return_inverse=True)  # skips threads without an output
    when = when.reshape(threads.shape)
    ax = ax or _axes(max(when.shape[1], 1) / max(when.shape[0], 1))
    ramp = colors.LinearSegmentedColormap.from_list("time", TIME)
    extent = (0, when.shape[1], when.shape[0], 0)
    image = ax.imshow(when, cmap=ramp, interpolation="nearest", extent=extent)
    if when.size <= _BOUNDED:
        _borders(ax, warps, 0.6, 0.5)
        if plan.grain == "block":
            _borders(ax, _units(shape, plan.unit), 1.8, 1.0)
    _path(ax, when)
    bar = ax.figure.colorbar(image, ax=ax, fraction=0.04, pad=0.02)
    bar.set_ticks([0, when.max()], labels=["first", "last"])
    bar.ax.tick_params(labelsize=8, length=0)
    ax.set_xticks([0, when.shape[1]])
    ax.set_yticks([0, when.shape[0]])
    ax.set_title(f"{shown(schedule)} on {' × '.join(map(str, shape))}", fontsize=9)
    return ax


def threads_of(plan: Resolved, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Arrays of extents `shape`: the index of the thread that computes an output, in the order of
    threads, and the index of its warp."""
    grid = tuple(-(-n // size) for n, size in zip(shape, plan.unit, strict=True))
    visit = np.empty(grid, np.int64)
    visit[tuple(evaluate(plan.order, grid).T)] = np.arange(visit.size)
    indices = np.meshgrid(*map(np.arange, shape), indexing="ij", sparse=True)
    unit = visit[tuple(p // size for p, size in zip(indices, plan.unit, strict=True))]
    if plan.grain == "thread":
        return unit, unit // _WARP
    across = [n // own for n, own in zip(plan.unit, plan.per_thread, strict=True)]
    axes = [k for k in range(len(shape)) if k != plan.lanes] + [plan.lanes]
    thread = np.zeros(shape, np.int64)
    for k in axes:  # the axis of the lanes last: consecutive threads
        thread = thread * across[k] + indices[k] % plan.unit[k] // plan.per_thread[k]
    count = math.prod(across)
    return unit * count + thread, unit * -(-count // _WARP) + thread // _WARP


def _path(ax: Any, when: Any) -> None:
    """The way from output to output; `when`: the step at which each is computed."""
    from matplotlib.collections import LineCollection

    order = np.argsort(when, axis=None, kind="stable")
    points = np.stack(np.unravel_index(order, when.shape)[::-1], axis=1) + 0.5
    moves = np.diff(points, axis=0)
    if when.size <= _TRACED:
        near = np.abs(moves).max(axis=1) <= 1
        lines = np.stack([points[:-1], points[1:]], axis=1)
        for some, width, style in ((near, 1.1, "solid"), (~near, 0.6, "dotted")):
            ax.add_collection(LineCollection(lines[some], colors="white", linewidths=width,
                                             linestyles=style, alpha=0.9))  # fmt: skip
        ax.plot(*points[0], "o", color="white", markersize=4)
        return
    # Runs in one direction, so many that their arrows stay apart.  An odd stride meets runs to the
    # right and to the left where these alternate.
    turns = np.flatnonzero(np.any(moves[1:] != moves[:-1], axis=1)) + 1
    begin, end = np.append(0, turns), np.append(turns, len(moves))
    long = (np.abs(moves[begin]).max(axis=1) == 1) & (end - begin >= max(when.shape[1] // 48, 2))
    begin, end = begin[long], end[long]
    stride = -(-len(begin) // _ARROWS) | 1
    for first, last in zip(points[begin[::stride]], points[end[::stride]], strict=True):
        ax.annotate("", last, first, arrowprops={"arrowstyle": "->", "color": "white", "lw": 0.9,
                                                 "shrinkA": 0, "shrinkB": 0})  # fmt: skip


def _units(shape: tuple[int, ...], unit: tuple[int, ...]) -> Any:
    """The index of the block of each element."""
    found = np.zeros(shape, np.int64)
    for axis, (n, size) in enumerate(zip(shape, unit, strict=True)):
        along = (np.arange(n) // size).reshape([-1 if k == axis else 1 for k in range(len(shape))])
        found = found * -(-n // size) + along
    return found.reshape(-1, shape[-1])


def _borders(ax: Any, group: Any, width: float, alpha: float) -> None:
    """Lines between neighbours in different groups."""
    from matplotlib.collections import LineCollection

    right = np.argwhere(group[:, 1:] != group[:, :-1])
    below = np.argwhere(group[1:] != group[:-1])
    segments = [((x + 1, y), (x + 1, y + 1)) for y, x in right]
    segments += [((x, y + 1), (x + 1, y + 1)) for y, x in below]
    ax.add_collection(LineCollection(segments, colors="white", linewidths=width, alpha=alpha))


def states(simulation: Simulation) -> Any:
    """(span, steps) the state of an address at a time step: 0 not cached, 1 cached, 2 accessed,
    3 fetched.

    Replays the cache step by step: for small settings (millions of cells).
    """
    trace = simulation.trace
    player = Player(simulation.cache, trace.span)
    picture = np.zeros((trace.span, trace.steps), np.uint8)
    ends = np.searchsorted(trace.step, np.arange(trace.steps + 1))
    for step in range(trace.steps):
        part = slice(ends[step], ends[step + 1])
        now = replace(trace, addresses=trace.addresses[part], step=trace.step[part])
        missed = np.zeros(now.addresses.size, np.bool_)
        if missed.size:
            player.play(now, missed)
        column = np.zeros(len(player.resident()), np.uint8)
        column[player.resident()] = KEPT
        column[pieces_of(now.addresses[missed], player.piece)] = BROUGHT
        column = np.repeat(column, player.piece)[: trace.span]
        column[now.addresses[column[now.addresses] != BROUGHT]] = USED
        picture[:, step] = column
    return picture


def spatial_temporal(simulation: Simulation, ax: Any = None) -> Any:
    """The spatial-temporal diagram: addresses upwards, time to the right; returns the axes.

    Red: fetched from memory; blue: read from the cache; pale: kept in the cache.
    """
    from matplotlib import colors
    from matplotlib.patches import Patch

    ax = ax or _axes(1.4)
    picture = states(simulation)
    steps = [max(1, n // _PIXELS) for n in picture.shape]
    pixels = picture[:: steps[0], :: steps[1]]
    ax.imshow(
        pixels, cmap=colors.ListedColormap(COLOURS), vmin=0, vmax=3, aspect="auto",
        interpolation="nearest", origin="lower", extent=(0, picture.shape[1], 0, picture.shape[0]),
    )  # fmt: skip
    ax.set_xlabel("time (elements of the result)")
    ax.set_ylabel("address")
    keys = [Patch(facecolor=COLOURS[state], label=text) for state, text in MEANING.items()]
    ax.legend(handles=keys, fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=3,
              frameon=False, handlelength=1, columnspacing=1)  # fmt: skip
    ax.set_title(
        f"{simulation.pattern}, {shown(simulation.schedule)}: {simulation.misses:,} misses",
        fontsize=9,
    )
    return ax


@user_facing_maker
def plot_sweep(pattern: Any, schedules: Sequence[Any], line_width: int, lines: Sequence[int],
               policy: Any = None, ax: Any = None) -> Any:  # fmt: skip
    """Misses of a pattern, or of the kernel of a program, against the size of the cache, with one
    curve per schedule.

    Parameters
        pattern: a Pattern, or a compiled program.
        schedules: schedules to compare.
        line_width: elements of a cache line.
        lines: numbers of cache lines.
        policy: the replacement policy; default least recently used.
        ax: matplotlib's axes; default: new ones.

    Result: matplotlib's axes.
    """
    ax = ax or _axes(1.5)
    found = capacity_sweep(pattern, schedules, line_width, lines, policy)
    for schedule, misses in zip(schedules, found, strict=True):
        ax.step(lines, misses, where="mid", label=shown(schedule))
    ax.set_xlabel(f"cache lines of {line_width} elements")
    ax.set_ylabel("misses")
    ax.set_title(pattern.name, fontsize=9)
    ax.legend(fontsize=8, frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


@user_facing_maker
def plot_tuning(table: Any, ax: Any = None) -> Any:
    """The timings of a `TuningTable` as bars, operation by operation, fastest first; winners are
    dark; of a tuned program, those of its `.tuning`.  Raises `ScheduleError` if nothing was
    timed.

    Parameters
        table: a table of integers.
        ax: matplotlib's axes; default: new ones.

    Result: matplotlib's axes.
    """
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
    ax = ax or _axes(1.5)
    positions = range(len(rows))[::-1]
    for won, tone, meaning in ((True, "#2f6fb3", "chosen"), (False, _QUIET, "also tried")):
        some = [(at, r.ms) for at, (r, w) in zip(positions, rows, strict=True) if w == won]
        if some:
            ax.barh(*zip(*some, strict=True), color=tone, label=meaning)
    ax.legend(fontsize=8, frameon=False)
    names = [r.option for r, _ in rows]
    labels = [f"{r.operation}: {n}" for (r, _), n in zip(rows, names, strict=True)]
    ax.set_yticks(positions, labels, fontsize=7)
    ax.set_xlabel("ms")
    ax.set_title(table.best, fontsize=9)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def plot_predictions(predicted: Sequence[float], measured: Sequence[float],
                     labels: Sequence[str] = (), ax: Any = None) -> Any:  # fmt: skip
    """Predictions of a model against measurements, in one unit (seconds, for example).

    Points on the line agree; the title has Spearman's rank correlation and the median error.
    Raises `ScheduleError` unless both have the same number of values, all positive.

    Parameters
        predicted: predicted times.
        measured: measured times.
        labels: names of the points; default ().
        ax: matplotlib's axes; default: new ones.

    Result: matplotlib's axes.
    """
    x, y = np.asarray(predicted, np.float64), np.asarray(measured, np.float64)
    if x.ndim != 1 or x.shape != y.shape or len(x) < 2 or not (np.minimum(x, y) > 0).all():
        raise ScheduleError(
            f"{x.size} predictions and {y.size} measurements cannot be compared.",
            hint="Give as many positive numbers of each, two at least.",
        )
    ax = ax or _axes(1.1)
    ends = [min(x.min(), y.min()) / 1.15, max(x.max(), y.max()) * 1.15]
    ax.plot(ends, ends, color=_QUIET, linewidth=1, zorder=1, label="predicted = measured")
    ax.scatter(
        x,
        y,
        s=26,
        color="#2f6fb3",
        edgecolors="white",
        linewidths=0.6,
        zorder=2,
        label="a schedule",
    )
    for at, label in zip(zip(x, y, strict=True), labels, strict=False):
        ax.annotate(label, at, xytext=(5, -3), textcoords="offset points", fontsize=7, color=_INK)
    ax.set(xscale="log", yscale="log", xlim=ends, ylim=ends, aspect="equal",
             xlabel="predicted", ylabel="measured")  # fmt: skip
    ax.legend(fontsize=8, frameon=False)
    error = float(np.median(np.abs(x / y - 1)))
    ax.set_title(f"rank correlation {_spearman(x, y):.2f}, median error {error:.0%}", fontsize=9)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _spearman(x: Any, y: Any) -> float:
    """The correlation of the ranks; equal values share their mean rank."""
    ranks = []
    for values in (x, y):
        _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
        ranks.append((np.cumsum(counts) - (counts + 1) / 2)[inverse])
    a, b = (r - r.mean() for r in ranks)
    scale = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / scale if scale else float("nan")


def _axes(ratio: float) -> Any:
    """The axes of a new figure, `ratio` times as wide as high."""
    from matplotlib import pyplot

    height = 5.0 if ratio < 2 else max(10 / ratio, 2)
    _, ax = pyplot.subplots(figsize=(max(ratio * height, 3), max(height, 2)), layout="constrained")
    return ax


Layer._plot = plot_order
Simulation._plot = spatial_temporal
