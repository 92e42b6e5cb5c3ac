"""What a thread of a stencil does in one step: loads, then groups of values.

    loads                     the new rows, with wide accesses where everything is in range
    if row ≥ first            a row of outputs, stored
    if …                      what the next steps need, oldest rows first

A group that would only be computed for rows outside the strip is skipped.  The tests have a second
purpose: the compiler moves no load across a branch, so all loads are issued before the first is
waited for.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from treadle.dsl.expr import Apply, Const, Expr, Proj, Read, Var, rewrite, walk
from treadle.dsl.records import dataclass

from ...ir import arithmetic as at
from ...ir.kernel import Assign, Load, Statement
from ...ir.linearize import Linearizer, zero
from .. import transform
from .gpu_loads import Loads
from .gpu_stream import in_order, moves

if TYPE_CHECKING:
    from .gpu_kernel import StencilKernel

#: Values in registers that are the same for all elements.
MOST_SHARED = 96
#: Where a step is much work, what is carried over so many rows is one group.
END_GROUP = 3


def shared_reads(roots: Iterable[Expr]) -> list[Expr]:
    """Reads that are the same for all elements, if they are few enough to stay in registers."""
    same: list[Expr] = [e for e in walk(roots) if isinstance(e, Read) and not moves(e)]
    return same if len(same) <= MOST_SHARED else []


@dataclass(frozen=True)
class _Group:
    """What a step computes together, under a condition; `finish` says what becomes of it."""

    condition: Expr
    roots: Sequence[Expr]
    finish: Callable[[Sequence[Expr]], Sequence[Statement]]


def _assigned(state: Sequence[Var], values: Sequence[Expr]) -> list[Statement]:
    pairs = in_order(zip(state, values, strict=True))
    return [Assign(v, e) for v, e in pairs if v is not e]


class Steps:
    """The steps of a strip, with plain reads (`inside`) or resolving ones.

    `first` and `last` bound the rows of outputs.
    """

    def __init__(self, stencil: StencilKernel, inside: bool, first: Expr, last: Expr) -> None:
        self.stencil, self.inside = stencil, inside
        self.first, self.last = first, last
        self.stream = s = stencil.stream if inside else stencil.around
        self.loads = Loads(stencil, inside)

        made: Sequence[Expr] = (
            *s.roots, *(c.value for c in s.carried), *(c.before for c in s.carried))  # fmt: skip
        if inside:
            resolved = transform.indices_in_range(made, lambda e: range(len(e.args)))
            made = rewrite(made, lambda e: stencil.plain(resolved.get(e, e)))
        else:
            made = rewrite(made, stencil.own)
            always = _reached(made, set())
            made = rewrite(made, lambda e: e if e in always and self.loads.takes(e)
                           else stencil.resolved(e))  # fmt: skip
        self.roots = made[: len(s.roots)]
        values = made[len(s.roots) : len(s.roots) + len(s.carried)]
        before = made[len(s.roots) + len(s.carried) :]
        # An axis of one element is always read at 0: what does not move is not carried.
        moving = [k for k, (v, b) in enumerate(zip(values, before, strict=True)) if v is not b]
        self.carried = [s.carried[k] for k in moving]
        self.values, self.before = [values[k] for k in moving], [before[k] for k in moving]
        self.state: list[Var] = []
        self.coming: list[list[Var]] = []

    def declare(self, into: Linearizer, start: Expr) -> None:
        """Before the first step of a walk, whose first row of outputs is `start`."""
        self.state = [into.declare(zero(v.type), "s") for v in self.values]
        for k in range(self.stencil.part.ahead):
            with into.when_always(self._newest(start + k * self.stream.rows)):
                fetched = self.loads.fetch(into, self._wanted(), self.before)
                self.coming.append([into.declare(e, "x") for e in fetched])

    def iteration(self, into: Linearizer, row: Expr) -> None:
        """One iteration of the loop: a step, or as many as are in flight."""
        ahead, rows = self.stencil.part.ahead, self.stream.rows
        if not ahead:
            self.step(into, row)
        for k in range(ahead):
            with into.when_always({}):
                self.step(into, row + k * rows, self.coming[k])
            with into.when_always(self._newest(row + (k + ahead) * rows)):
                fetched = self.loads.fetch(into, self._wanted(), self.before)
                pairs = zip(self.coming[k], fetched, strict=True)
                into.append(*(Assign(v, e) for v, e in pairs))

    def _newest(self, oldest: Expr) -> dict[Expr, Expr]:
        """The newest row of the step whose first row of outputs is `oldest`."""
        return {self.stream.newest: oldest + (self.stencil.shape.high + self.stream.rows - 1)}

    def _wanted(self) -> list[Expr]:
        return [*self.roots, *self.values]

    def share(self, into: Linearizer) -> None:
        """Before the steps: what is the same for all elements, such as run-time weights."""
        same = shared_reads(self.roots)
        into.bind(dict(zip(same, into.emit(same, named=True), strict=True)))
        self.loads.start(into)

    def step(self, into: Linearizer, oldest: Expr, fetched: Sequence[Expr] | None = None) -> None:
        """The next rows, of which `oldest` is the first row of outputs."""
        into.bind(self._newest(oldest))
        into.bind(dict(zip(self.before, self.state, strict=True)))
        groups = [*self._outputs(oldest), *self._kept(oldest)]
        if fetched is None:
            fetched = self.loads.fetch(into, self._wanted(), self.before)
        known = {*self.before, *self.loads.use(into, self._wanted(), self.before, fetched)}
        reached = [_reached(g.roots, known) for g in groups]
        if self.inside and not self.stencil.part.walks and len(groups) > 1:
            into.note("Every row here is below `last`. The tests keep all loads in front of the\n"
                      "arithmetic: the compiler moves no load over a branch.")  # fmt: skip
        for k, group in enumerate(groups):
            later = {e for r in reached[k + 1 :] for e in r}
            shared = _largest(group.roots, reached[k] & later)
            if self.stencil.part.columns > 1:
                shared = [e for e in shared if not _is_step(e)]
            into.bind(dict(zip(shared, into.emit(shared, named=True), strict=True)))
            with into.when(group.condition):
                into.append(*group.finish(into.emit(group.roots)))

    def _outputs(self, oldest: Expr) -> list[_Group]:
        """A group for each row of outputs, where it is a row of the strip.

        A row that is always one is tested too: see the module.
        """
        stencil, rows = self.stencil, self.stencil.part.rows
        size = len(self.roots) // rows
        groups = []
        for r in range(rows):
            row = oldest + r
            conditions = [at.less_equal(self.first, row)] if stencil.part.walks else []
            conditions += [at.less(row, self.last)] if r > 0 or stencil.part.ahead > 1 else []
            groups.append(_Group(
                at.both(*conditions), self.roots[r * size : (r + 1) * size],
                functools.partial(stencil.store, row),
            ))  # fmt: skip
        return groups

    def _kept(self, oldest: Expr) -> list[_Group]:
        """What the next step needs.  Where a step is much work, what nothing needs at the ends of a
        strip is left out: values that would need rows before it, or are for rows after it."""
        rows, height = self.stencil.part.rows, self.stencil.shape.height
        split = self.stencil.heavy
        groups: dict[int, list[int]] = {}
        for k, c in enumerate(self.carried):
            groups.setdefault(c.needs // END_GROUP if split else 0, []).append(k)
        made = []
        for group in sorted(groups, reverse=True):
            mine = groups[group]
            needs = min(self.carried[k].needs for k in mine)
            depth = min(self.carried[k].depth for k in mine)
            conditions = []
            if split and needs >= max(END_GROUP, rows):
                begin = self.first + (needs - (height - 1) - (rows - 1))
                conditions.append(at.less_equal(begin, oldest))
            if split and depth * rows >= END_GROUP:
                conditions.append(at.less(oldest, self.last - depth * rows))
            roots = [self.values[k] for k in mine]
            finish = functools.partial(_assigned, [self.state[k] for k in mine])
            made.append(_Group(at.both(*conditions), roots, finish))
        return made


def _is_step(e: Expr) -> bool:
    """Whether it is an index plus a constant, which needs no variable."""
    return isinstance(e, Apply) and e.op.name == "add" and isinstance(e.args[1], Const)


def _reached(roots: Iterable[Expr], known: set[Expr]) -> set[Expr]:
    """The subexpressions that these expressions compute, except those that are known."""
    seen = set(known)
    found: set[Expr] = set()
    stack = list(roots)
    while stack:
        e = stack.pop()
        if e not in seen:
            seen.add(e)
            found.add(e)
            stack.extend(e.args)
    return found


def _largest(roots: Iterable[Expr], among: set[Expr]) -> list[Expr]:
    """The largest parts of `roots` that are in `among` and cost something."""
    found: dict[Expr, None] = {}
    seen: set[Expr] = set()
    stack = list(roots)
    while stack:
        e = stack.pop()
        if e in seen:
            continue
        seen.add(e)
        if e in among and isinstance(e, Apply | Read | Load | Proj):
            found[e] = None
        else:
            stack.extend(e.args)
    return list(found)
