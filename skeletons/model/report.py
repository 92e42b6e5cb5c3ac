"""Explanations for `explain()`: choices and short folds in numbers; predictions as data for
plots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from treadle.dsl.analysis.combines import SHORT_ROW
from treadle.dsl.expr import Expr
from treadle.dsl.graph import Fold, Generate, Node, Permute
from treadle.dsl.graphs.names import Names
from treadle.dsl.passes.short_folds import Short, is_short, length
from treadle.dsl.schedule import ScheduleError
from treadle.dsl.target import target_of
from treadle.dsl.text import duration
from treadle.skeletons.schedules import Column, LocalityGraph, Schedule, as_schedule

from ..access.footprint import column_cache, column_loads
from ..access.maps import DATA, KernelMaps, kernel_maps
from ..lower.gpu.common import THREADS
from .choose import MARGIN, WORTH, Choice, Decider, candidates, choose, strategy_of
from .device import Ceilings, device_of
from .folds import FoldDecider, predict_fold, why_not
from .time import Prediction, least_bytes, predict

#: The names of `Prediction.terms` in order, on a GPU followed by the turnover; and their legend.
_TERMS = {True: ("DRAM", "L2", "issue", "L1", "blocks"), False: ("DRAM", "L3", "issue", "L2")}
_ABOUT = {
    True: ("DRAM and L2 bytes, warp instructions, L1 wavefronts, lifetimes of blocks",
           "*: the slowest term dominates, and terms nearly as slow add to it"),
    False: ("DRAM, L3 and L2 bytes, vector instructions (stalls included)",
            "*: the slowest term dominates, and the others add to it"),
}  # fmt: skip
#: The lines of columns are counted for at most this many row segments.
COUNTED = 1 << 22
#: The number of candidates shown; of further ones, only their number is.
SHOWN = 8

PLAIN = "without a schedule"


def summary(choice: Choice) -> list[str]:
    plain, chosen, best = choice.plain, choice.chosen, choice.best
    name = _name(choice.schedule)
    if chosen is not plain:
        return [name, f"{_time(chosen)} predicted, {_time(plain)} {_name(plain.schedule)}"]
    if best is plain or len(choice.predictions) == 1:
        return [name, f"{_time(plain)} predicted, and no candidate is faster"]
    fastest = f"{_name(best.schedule)} is predicted to take {_time(best)}"
    least = f"a change has to save {1 - MARGIN:.0%} and {duration(WORTH)}"
    return [name, f"{_time(plain)} predicted; {fastest}: {least}"]


def table(choice: Choice) -> list[tuple[str, ...]]:
    """A header and a row per candidate, the chosen one first, then by time: the predicted time, the
    amounts behind it (the limiting one marked by *), and the candidate."""
    gpu = choice.device.gpu
    rows: list[tuple[str, ...]] = [("time", *_TERMS[gpu], "candidate")]
    ranked = sorted(choice.predictions, key=lambda p: p.seconds)
    ranked.sort(key=lambda p: p is not choice.chosen)
    for p in ranked[:SHOWN]:
        amounts = [_amount(a) for a in (p.dram, p.far, p.issue, p.near)]
        if gpu:
            amounts.append(duration(max(p.turnover, p.dispatch)))
        cells = [a + ("*" if k == p.longest else " ") for k, a in enumerate(amounts)]
        rows.append((_time(p), *cells, _name(p.schedule)))
    return rows


def lines(choice: Choice) -> list[str]:
    """`summary`, `crowds`, the table in aligned columns, its legend, the source of the ceilings."""
    rows = table(choice)
    widths = [max(len(r[k]) for r in rows) for k in range(len(rows[0]) - 1)]
    shown = [
        "  ".join([*(f"{c:>{w}}" for c, w in zip(r[:-1], widths, strict=True)), r[-1]])
        for r in rows
    ]  # fmt: skip
    more = len(choice.predictions) - SHOWN
    if more > 0:
        shown.append(f"and {more} more")
    about = [*_ABOUT[choice.device.gpu]]
    if sum(row[0] == rows[1][0] for row in rows[1:]) > 1:
        stands = "no schedule" if choice.plain.schedule is None else "the given schedule"
        about.append(f"equal times: {stands} first, then the least sum of all terms")
    ceilings = f"ceilings of {choice.device.name}"
    if choice.device.guessed:
        ceilings += ", guessed: `treadle ceilings` measures this machine"
    about.append(ceilings)
    return [*summary(choice), *crowds(choice), *shown, *about]


def crowds(choice: Choice) -> list[str]:
    """Which arrays evict their own lines from the L1, in numbers."""
    ways = choice.device.first_ways
    found = []
    for m, before, after in choice.crowded:
        what = "stores" if m.store else f"reads of {m.leaf.node.called()}"
        text = (
            f"{what} in flight: {before.lines:.0f} lines map to {_sets(before.sets)} of the first "
            f"cache, with {ways} ways each; {before.lost:.0%} are evicted before they complete"
        )
        if choice.chosen is not choice.plain:
            left = f"{after.lost:.0%}" if after.lost >= 0.005 else "none"
            text += f" ({after.lines:.0f} in {_sets(after.sets)}, {left}, under this schedule)"
        found.append(text)
    return found


def _sets(count: float) -> str:
    return "1 set" if round(count) == 1 else f"{count:.0f} sets"


#: What a lowering does without a schedule, by `strategy_of`.
_DONE = {
    "strips": "without a schedule a thread computes several rows and keeps shared values in "
    "registers",
    "whole": "without a schedule rows are computed from end to end, in complete cache lines",
    "tiles": "without a schedule reads across rows go through tiles",
}


def no_choice(node: Node, gpu: bool) -> str:
    if not isinstance(node, Generate):
        return why_not(node, gpu)
    if len(node.shape) < 2:
        return "a kernel with one axis has only one useful order"
    return _DONE.get(
        strategy_of(node, gpu),
        "elements share no reads that another order would bring closer together",
    )


def compared(node: Node, known: Mapping[Expr, int], device: Ceilings) -> list[str]:
    """Numbers in addition to `no_choice`: predictions for orders and blocks next to that of the
    lowering without a schedule, or the least time for the kernel's memory traffic.  Empty if
    unknown."""
    kernel = kernel_maps(node, known)
    if kernel is None or not kernel.size or any(m.kind == DATA for m in kernel.maps):
        return []
    if isinstance(node, Generate) and len(node.shape) > 1:
        if strategy_of(node, device.gpu) in _DONE:
            tried = candidates(kernel, None, True)  # orders and blocks, on a CPU as well
            found = choose(kernel, device, None, tried, complete=True)
            return lines(found)[2:] if found.schedule is None else lines(found)
    least = least_bytes(kernel, device.piece)
    took = duration(least / device.dram)
    return [f"{_bytes(least)} have to be moved in any order: {took} at the rate of a copy"]


def against_plain(node: Node, known: Mapping[Expr, int], device: Ceilings) -> list[str]:
    """The predicted times of a given schedule and of none; empty if the extents are unknown, or if
    the model does not support one of its layers."""
    given, kernel = as_schedule(node.label.schedule), kernel_maps(node, known)
    unknown = given.stage is not None or isinstance(given.residency, LocalityGraph)
    if kernel is None or not kernel.size or 0 in kernel.inner or unknown:
        return []
    if isinstance(node, Fold):
        took, alone = (duration(predict_fold(kernel, s, device)) for s in (given, None))
        return [f"{took} predicted, {alone} without a schedule"]
    asked, plain = (predict(kernel, s, device) for s in (given, None))
    lines = [f"{_time(asked)} predicted, {_time(plain)} without a schedule"]
    if isinstance(given.order, Column) and kernel.size // given.order.width <= COUNTED:
        lines.append(columns(kernel, given.order.width, device))
    return lines


def columns(kernel: KernelMaps, width: int, device: Ceilings) -> str:
    """M_cache and M_loads of columns (Prasetya 2021, section 4.1), counted on a kernel."""
    width = min(width, kernel.outputs[-1])
    threads, line = max(width, THREADS), device.line
    used = column_cache(kernel, width, threads, line)
    loads, once = (column_loads(kernel, w, line) for w in (width, kernel.outputs[-1]))
    return (
        f"columns of {width:,}: {threads:,} outputs keep {_bytes(used)} of lines in use (M_cache), "
        f"and {_amount(loads)} lines are fetched (M_loads), {loads / max(once, 1):.2f} × the lines "
        "touched"
    )


def explained(decide: Decider | FoldDecider, known: Mapping[Expr, int]) -> list[str]:
    """The lines of `explain()` about the choice for these extents."""
    if isinstance(decide, FoldDecider):
        found = decide.choice(known)
        if found is None:
            return [f"nothing to choose: {why_not(decide.node, True)}"]
        return ([] if found.schedule is None else [repr(found.schedule)]) + found.lines()
    choice = decide.choice(known, complete=True)
    if choice is None:
        return ["chosen by the model when the extents are known"]
    return lines(choice)


def _name(schedule: Any) -> str:
    return PLAIN if schedule is None else repr(schedule)


def _time(p: Prediction) -> str:
    return duration(p.seconds)


def _amount(n: float) -> str:
    for size, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if n >= 0.9995 * size:
            return f"{n / size:.3g}{prefix}"
    return f"{n:.3g}"


def _bytes(n: float) -> str:
    """Formatted bytes, for example "16.8 MB"."""
    text = _amount(n)
    return f"{text[:-1]} {text[-1]}B" if text[-1].isalpha() else f"{text} B"


def seconds_predicted(
    program: Any, node: Node, known: Mapping[Expr, int], schedules: Sequence[Schedule | None]
) -> dict[Schedule | None, float | None]:
    """The predicted seconds of a kernel under each of `schedules` (None: without one, or under the
    choice of `Auto`); None where the model cannot predict it."""
    device = device_of(program)
    found: dict[Schedule | None, float | None] = dict.fromkeys(schedules)
    kernel = kernel_maps(node, known)
    if (
        kernel is None
        or not kernel.size
        or 0 in kernel.inner
        or not target_of(program.backend).kernels
    ):
        return found
    for schedule in schedules:
        under = program.first_choice(node) if schedule is None else schedule
        if under is not None and (under.stage or isinstance(under.residency, LocalityGraph)):
            continue
        with suppress(ScheduleError):
            if isinstance(node, Fold):
                found[schedule] = predict_fold(kernel, under, device) if device.gpu else None
            elif isinstance(node, Generate | Permute):
                found[schedule] = predict(kernel, under, device).seconds
    return found


def seconds_expected(program: Any, node: Node, known: Mapping[Expr, int]) -> float:
    """The approximate seconds of a kernel as it stands: predicted, or else the least time for its
    memory traffic; 0.0 where the extents are unknown."""
    found = seconds_predicted(program, node, known, [None])[None]
    if found is not None:
        return found
    device, kernel = device_of(program), kernel_maps(node, known)
    return 0.0 if kernel is None else least_bytes(kernel, device.piece) / device.dram


def predictions(program: Any, schedules: Sequence[Any], operation: str | None = None
                ) -> list[dict[str, Any]]:  # fmt: skip
    """Predictions as data, for studies: one record per schedule, for one kernel of a program.

    `operation`: the name of the kernel's operation; without it, the program must have exactly one
    kernel that the model supports.  Keys: schedule (code, or None), seconds, limit, dram, far,
    issue, near and their seconds (t_dram, …, t_turnover).  Errors: `ScheduleError` if no kernel or
    several kernels match, or the extents are unknown.
    """
    names = Names(program)
    found = [kernel_maps(n, names.known) for n in names.kernels
             if operation in (None, n.label.name, n.label.operation)]  # fmt: skip
    fit = [k for k in found if k is not None and k.size]
    if len(fit) != 1:
        asked = "" if operation is None else f" called {operation!r}"
        raise ScheduleError(f"the model supports {len(fit)} kernels{asked} of '{program.name}'.",
                            hint="Lower it with arguments, and pass operation=name.")  # fmt: skip
    (kernel,) = fit
    device = device_of(program)
    records = []
    for schedule in schedules:
        given = None if schedule is None else as_schedule(schedule)
        p = predict(kernel, given, device)
        record = {"schedule": None if given is None else repr(given), "seconds": p.seconds,
                  "limit": p.limit, "dram": p.dram, "far": p.far, "issue": p.issue,
                  "near": p.near}  # fmt: skip
        record.update(zip(("t_dram", "t_far", "t_issue", "t_near"), p.terms, strict=True))
        record["t_turnover"] = max(p.turnover, p.dispatch)
        records.append(record)
    return records


# --- short folds -------------------------------------------------------------------------------

#: When a GPU's tiled fold computes the folds that it reads itself (backend/cuda/forms.py).
TILED = f"its results fill tiles and their rows have fewer than {SHORT_ROW} elements"


class ShortRows:
    """The lines of `explain()` about the short folds of a program on a backend.

    Whether they are loops of their readers depends on extents (`passes/short_folds.py`), so the
    text is about the extents known to its names.
    """

    def __init__(self, names: Names) -> None:
        self.names = names
        found = names.program.offered("forms_of")
        self.short: Short = Short() if found is None else found(names.program)

    def _count(self, fold: Fold) -> int | None:
        return self.names.value(length(fold))

    def loops(self, node: Node) -> frozenset[Node]:
        """The folds that become loops inside a kernel for these extents."""
        return self.short.loops(node, self._count, self.names.value)

    def made(self, node: Node) -> Node:
        """The node from which a node's kernel is lowered for these extents."""
        return self.short.of(node, self.loops(node))

    def shown(self, node: Node) -> Node:
        """The node to describe: the kernel including the folds that it computes itself."""
        return self.made(node) if self.loops(node) - {node} else node

    def left_out(self, node: Node) -> bool:
        """Whether a node is not launched for these extents because its reader computes it."""
        return node in self.short.reader and node in self.loops(node)

    def describe(self, node: Node) -> str | None:
        """A sentence about a fold that may become loops."""
        if isinstance(node, Generate) and self.left_out(node):
            number = self.names.kernels[self.short.reader[node]]
            return f"computed in kernel {number}, which reads few of its elements; not launched"
        if node in self.short.deep and self.loops(node):
            return "each result is computed by loops, in a register"
        reader = self.short.reader.get(node)
        if not isinstance(node, Fold) or reader is None:
            return None
        where = f"kernel {self.names.kernels[reader]}"
        rows, count = self.names.extent(length(node)), self._count(node)
        if not self.left_out(node):
            known = "" if count is None else f", here {count}"
            if node in self.short.worth:
                return f"a loop in {where} where {TILED}{known}"
            return f"a loop in {where} where {rows} < {SHORT_ROW}{known}"
        size = self.names.size(node.outer)
        results = "its results are" if size is None else f"{size:,} results are"
        few = f"{rows} = {count}" if rows != str(count) else rows
        return (f"{few} < {SHORT_ROW}: a loop in {where}, which reads each result once; "
                f"not launched, {results} not stored")  # fmt: skip

    def why_separate(self, node: Node, reason: str) -> str | None:
        """Why a kernel is separate from its reader; None if it is not."""
        if node not in self.short.reader:
            return reason
        if self.left_out(node):
            return None
        if not isinstance(node, Fold):
            return reason
        count = self._count(node)
        if node in self.short.worth and count is not None and is_short(count):
            return f"no loop in its reader: that is only where {TILED}"
        return f"rows of {SHORT_ROW} elements and more are folded by many lanes together"
