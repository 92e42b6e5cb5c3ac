"""The launches of a lowering in numbers, as `explain()` reports them.

The numbers are computed for the known extents.  Of a kernel's variants, the first valid one is
reported, assuming data aligned to 16 bytes (as are arrays that treadle allocates).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from treadle.dsl.expr import Apply, Const, Expr, substitute, walk
from treadle.dsl.graph import (
    CrossedFolds,
    Fold,
    FoldSeg,
    Generate,
    Memory,
    Node,
    Permute,
    Sequential,
    Shape,
)
from treadle.dsl.graphs.names import evaluate
from treadle.dsl.records import dataclass

from ..ir.counts import variant
from ..ir.kernel import Kernel, Lowered, show
from ..schedules import Grid, Hints, PerThread, Row, Schedule, ScheduleError, as_schedule
from ..schedules.resolved import looked_up
from ..schedules.schedule import shown
from .build import LoweringContext, describe
from .fold.traversals import why_apart
from .lower import lower, notes_of

_PER_THREAD = " elements a thread"


@dataclass(frozen=True)
class LoweringReport:
    """How a node was lowered.  `code`: the schedule that reproduces the kernels of a node without
    one (None if no schedule does).  `notes`: the effects of the given schedule.  `launches`: a line
    per launch."""

    code: Schedule | None
    notes: tuple[str, ...]
    launches: tuple[str, ...]


def lowering_report(
    node: Node, context: LoweringContext, known: Mapping[Expr, int]
) -> LoweringReport:
    """The report for a node in a context; `known`: values of Extent and Param."""
    why = two_traversals(node, context, known)
    if isinstance(node, CrossedFolds) and why is not None:
        reports = [lowering_report(fold, context, known) for fold in node.apart()]
        own = tuple(note for r in reports for note in r.notes)
        lines_of_both = tuple(line for r in reports for line in r.launches)
        return LoweringReport(reports[0].code, (*own, f"two traversals: {why}"), lines_of_both)
    lowered = lower(node, context)
    given = context.schedule_of(node)
    notes = notes_of(lowered, node, context)
    if given is not None:
        notes = (*notes, *_idle(given, node, context, lowered, notes))
        head = f"{shown(given)}: "
        notes = tuple(n.removeprefix(head) for n in notes)
    code, rectangle = None, False
    if given is None or given == Schedule():
        code = code_of(node, context, lowered)
        rectangle = code is None
    lines = [*_lines(node, lowered, known, rectangle), *_skipped(node, given, context, known)]
    lines += _shares(node, lowered, known, given)
    return LoweringReport(code, notes, tuple(lines))


def two_traversals(node: Node, context: LoweringContext, known: Mapping[Expr, int]) -> str | None:
    """Why two folds that could share a kernel do not for the known extents; None if they do."""
    if not isinstance(node, CrossedFolds):
        return None
    planes, rows, columns = (
        _size(axes, known) for axes in (node.outer[:-1], node.outer[-1:], node.inner)
    )
    if planes is None or rows is None or columns is None:
        return None
    return why_apart(planes, rows, columns, node.read_twice, context.threads)


def _skipped(node: Node, given: Schedule | None, context: LoweringContext,
             known: Mapping[Expr, int]) -> list[str]:  # fmt: skip
    """A line with the number of visits of a padding order that fall outside the domain."""
    order = None if given is None else given.order
    if given is None or order is None or order.dense or not isinstance(node, Generate):
        return []
    if not node.shape:  # a single element has no order
        return []
    plan = given.resolve(len(node.shape))
    by_blocks = plan.grain == "block"
    if by_blocks and context.gpu and looked_up(plan.order):
        return []
    extents = [_size([e], known) for e in node.shape]
    if any(n is None for n in extents):
        return []
    grid = [-(-(n or 0) // unit) for n, unit in zip(extents, plan.unit, strict=True)]
    visits, inside = int(plan.order.linear_size(tuple(grid))), math.prod(grid)
    if visits <= inside:
        return []
    return [
        f"of {_number(visits, 'block' if by_blocks else 'element')} that {plan.order!r} visits, "
        f"{visits - inside:,} lie outside and are skipped ({1 - inside / visits:.0%})"
    ]


def _idle(schedule: Schedule, node: Node, context: LoweringContext, lowered: Lowered,
          notes: Sequence[str]) -> list[str]:  # fmt: skip
    """Layers that do not change the kernels and for which no note gives a reason."""
    if any(note.startswith("deterministic=True") for note in notes):
        return []
    found, made = [], _text(lowered)
    for layer in schedule.layers:
        mentioned = any(repr(layer) in note and "in the order" not in note for note in notes)
        mentioned |= isinstance(layer, Hints) and any(n.startswith("caches:") for n in notes)
        if mentioned or layer in (Row(), Grid()) or layer.slot == "chooser":
            continue
        others = [one for one in schedule.layers if one is not layer]
        less = replace(context, schedule=Schedule().replace(*others))
        try:
            same = _text(lower(node, less)) == made
        except ScheduleError:
            same = False  # the other layers' notes apply only with this layer
        if same:
            found.append(f"{layer!r} changes nothing here")
    return found


def code_of(node: Node, context: LoweringContext, lowered: Lowered) -> Schedule | None:
    """The schedule that reproduces the kernels of `lowered`, which were made without a schedule."""
    if not lowered.kernels:  # there are no elements
        return None
    if not context.gpu or not isinstance(node, Generate) or not node.shape:
        return as_schedule(Row())  # the leaves of folds, scans and permutes, and tasks of a CPU
    # Rows × columns of a thread are those of a stencil; of other kernels, accesses × columns.
    wanted: list[Schedule] = []
    for rows, cols in _rectangle(lowered.kernels[0]):
        wanted.append(Row() | PerThread(rows=rows, cols=cols))
    wanted.append(as_schedule(Row()))
    plain = _text(lowered)
    return next((s for s in wanted if len(node.shape) > 1 or s.per_thread is None
                 if _text(lower(node, replace(context, schedule=s))) == plain), None)  # fmt: skip


def kernels_made(node: Node, context: LoweringContext) -> tuple[str, ...]:
    """The lowering of a node as text: equal if and only if the kernels are identical."""
    return tuple(_text(lower(node, context)))


def _text(lowered: Lowered) -> list[str]:
    """The kernels and their cache policies as text, without comments on the schedule."""
    return [
        show(replace(v, comments=(), fallback=None))
        + repr([(b.name, policy) for b, policy in v.policies])
        for k in lowered.kernels
        for v in k.variants
    ]


def _rectangle(kernel: Kernel) -> list[tuple[int, int]]:
    sides = [c.removesuffix(_PER_THREAD).split(" × ") for c in kernel.comments
             if c.endswith(_PER_THREAD)]  # fmt: skip
    return [(int(s[0]), int(s[1])) for s in sides if len(s) == 2 and all(x.isdigit() for x in s)]


def _lines(node: Node, lowered: Lowered, known: Mapping[Expr, int], rectangle: bool) -> list[str]:
    """A line per launched kernel; `rectangle`: with the elements per thread."""
    lines: list[str] = []
    runs: list[frozenset[int]] = []
    size = _size(_domain(node), known)
    for first in lowered.kernels:
        kernel, tasks = variant(first, known)
        if tasks is not None and tasks <= 0:
            continue
        # Elements per task are those of the domain, and so given only for the kernel that reads it,
        # not for those that combine partial results.
        each = None if lines or not tasks or size is None else size / tasks
        remarks = _remarks(node, kernel, rectangle)
        if any(r.endswith(_PER_THREAD) for r in remarks):
            each = None
        line = "; ".join([_count(kernel, tasks, each), *remarks])
        lines.append(line)
        runs.append(_runs(first, known))
    whole = frozenset(_GUESSES)
    ways = list(dict.fromkeys(r for r in runs if r != whole))
    disjoint = len(ways) == 2 and not ways[0] & ways[1]
    for k, (line, run) in enumerate(zip(lines, runs, strict=True)):
        word = "then " if k else ""
        if disjoint and run in ways and run not in runs[:k]:
            word = "or " if run == ways[1] else f"{word}either "
        lines[k] = word + line
    if isinstance(node, Memory):
        return ["nothing is launched: every element is written before it is read"]
    return lines or ["nothing is launched: there are no elements"]


def _shares(node: Node, lowered: Lowered, known: Mapping[Expr, int], given: Schedule | None
            ) -> list[str]:  # fmt: skip
    """Lines for a fold: what a thread block or a task covers (stated by the notes if there is a
    schedule), and how many partial results each result has."""
    if not isinstance(node, Fold):
        return []
    launched = [(k, n) for k, n in (variant(k, known) for k in lowered.kernels) if n]
    count, results = _size(node.inner, known), _size(node.outer, known)
    if not launched or not count or not results:
        return []
    kernel, tasks = launched[0]
    parts = max(_partials(kernel, known) // results, 1) if len(launched) > 1 else 1
    each, what = count / parts, "block" if kernel.threads else "task"
    s = given or Schedule()
    if s.order or s.block or s.per_thread or s.lanes:
        return [f"a result is folded in {parts:,} parts of {_about(each)}"] if parts > 1 else []
    covered = results * parts / tasks
    elements = f"{_about(each)} of {count:,}" if parts > 1 else f"all {count:,}"
    many = f"for each of {_about(covered)} results" if covered >= 1.5 else "for a result"
    text = f"a {what} folds {elements} elements {many}"
    return [f"{text}: {parts:,} parts of a result" if parts > 1 else text]


def _partials(kernel: Kernel, known: Mapping[Expr, int]) -> int:
    """Partial results that a kernel passes to the next one."""
    sizes = substitute([b.size for b in kernel.buffers if b.role == "scratch"], kernel.hosts)
    return max((evaluate(s, known) or 0 for s in sizes), default=0)


#: Values tried for unknown extents, to find the kernels that launch for the same extents.
_GUESSES = (1 << 6, 1 << 12, 1 << 18, 1 << 24, 1 << 30)


def _runs(kernel: Kernel, known: Mapping[Expr, int]) -> frozenset[int]:
    """The values of `_GUESSES` for which a kernel has tasks; all if its task count is known."""
    (tasks,) = substitute([kernel.tasks], kernel.hosts)
    open_ = [e for e in walk((tasks,)) if not isinstance(e, Const | Apply) and e not in known]
    if not open_:
        return frozenset(_GUESSES)
    found = {g: evaluate(tasks, {**known, **dict.fromkeys(open_, g)}) for g in _GUESSES}
    return frozenset(g for g, n in found.items() if n is None or n > 0)


def _count(kernel: Kernel, tasks: int | None, each: float | None) -> str:
    if not kernel.threads:
        many = "tasks, as many as the extents ask for" if tasks is None else _number(tasks, "task")
        return many + ("" if each is None or each < 1.5 else f" of {_about(each)} elements")
    of = f"of {_number(kernel.threads, 'thread')}"
    if tasks is None:
        return f"blocks {of}, as many as the extents ask for"
    own = None if each is None else each / kernel.threads
    spread = "" if own is None or own < 1.5 else f", {_about(own)} elements each"
    return f"{_number(tasks, 'block')} {of}{spread}"


def _remarks(node: Node, kernel: Kernel, rectangle: bool) -> list[str]:
    """The skeleton's comments on a kernel, except those that this module repeats."""
    own = kernel.comments[len(describe(node)) :]
    return [c for c in own if not c.startswith("schedule:")
            and (rectangle or not c.endswith(_PER_THREAD))]  # fmt: skip


def _domain(node: Node) -> Shape | None:
    """The extents of the elements that a node computes, or combines."""
    if isinstance(node, Fold):
        return (*node.outer, *node.inner)
    if isinstance(node, FoldSeg):
        return (*node.outer, node.extent)
    if isinstance(node, Permute | Sequential):
        return node.domain
    shape: Shape | None = getattr(node, "shape", None)
    return shape


def _size(shape: Sequence[Expr] | None, known: Mapping[Expr, int]) -> int | None:
    if shape is None:
        return None
    found = [int(e.value) if isinstance(e, Const) else evaluate(e, known) for e in shape]
    return None if None in found else math.prod(max(n or 0, 0) for n in found)


def _number(n: int, word: str) -> str:
    return f"{n:,} {word}" if n == 1 else f"{n:,} {word}s"


def _about(x: float) -> str:
    return f"{x:,.0f}" if x >= 10 else f"{x:.2g}"
