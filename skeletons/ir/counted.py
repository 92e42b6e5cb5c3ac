"""Kernels inside a loop whose extents depend on its counter: one set of scalars for all iterations.

    scalars n1 = k + 1, tasks = ⌈n1 / 64⌉     →     scalars n1 = count, tasks = ⌈count / 64⌉;
                                                    n1' = min(k[0] + 1, n1);
                                                    if task < ⌈n1' / 64⌉: …

Otherwise the host would compute the scalars of every launch in every iteration.  Instead it passes
the largest values once and always launches the largest number of blocks; the kernel reads the
counter from memory and computes the scalars of the iteration, and surplus blocks exit at once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from treadle.dsl import graph, simplify
from treadle.dsl.analysis.bounds import bounds
from treadle.dsl.expr import Expr, Extent, Param, Read, Var, constant, rewrite, substitute, walk
from treadle.dsl.types import int64

from . import arithmetic as at
from .hosted import Most, Stride
from .kernel import Buffer, If, Kernel, Let, Load, Statement

#: The counters of the enclosing loops, outermost first, with their numbers of iterations.
Loops = tuple[tuple[Expr, Expr], ...]
_KERNELS = graph.Generate | graph.Fold | graph.Scan | graph.Permute | graph.Recurrence


def loops_in(loop: graph.ArrayLoop, outer: Loops) -> Loops:
    """The counters of a loop and its enclosing loops; none if a node other than a kernel reads or
    computes arrays whose extents depend on them."""
    if loop.index is None or loop.count is None:
        return outer
    count = most(at.maximum(loop.count, 0), outer)
    if count is None:
        return ()
    loops = (*outer, (loop.index.leaf().at(), count))
    inside = graph.topological(loop.inner_roots())
    varying = {n for n in inside if _depends([e for o in n.outputs for e in o.shape], loops)}
    readers = {n for n in inside if varying.intersection(leaf.node for leaf in
                                                         (*n.inputs(), *n.inside()))}  # fmt: skip
    if any(not isinstance(n, _KERNELS) for n in (*varying, *readers)):
        return ()
    return () if any(leaf.node in varying for leaf in loop.inner_roots()) else loops


def _depends(roots: Iterable[Expr], loops: Loops) -> bool:
    return any(e is counter for e in walk(roots) for counter, _ in loops)


def most(e: Expr, loops: Loops) -> Expr | None:
    """The largest value of a host expression over all iterations, and at least 0.  The expression
    itself if it depends on no counter; None if it also depends on other data."""
    if not _depends((e,), loops):
        return e
    counters = {counter for counter, _ in loops}
    if e.type != int64 or any(isinstance(x, Read) and x not in counters for x in walk((e,))):
        return None
    return Most(e, loops)


def violations(holds: Expr, loops: Loops) -> Expr | None:
    """1 if a condition is violated in some iteration, else 0; None as for `most`."""
    return most(simplify.select(holds, constant(0), constant(1)), loops)


def counted(kernel: Kernel, loops: Loops) -> Kernel | None:
    """The kernel for all iterations, without a fallback; None if scalars depend on other data."""
    bound = kernel.hosts
    varying = [v for v in kernel.scalars if _depends((bound[v],), loops)]
    hosted = substitute((kernel.tasks, *kernel.requires), bound)
    launched = most(hosted[0], loops)
    conditions = {c: violations(outer, loops) for c, outer in zip(kernel.requires, hosted[1:],
                                                                  strict=True)}  # fmt: skip
    highest = {v: most(bound[v], loops) for v in varying}
    if launched is None or None in highest.values() or None in conditions.values():
        return None
    inside = _Inside(kernel, bound)
    lets: list[Statement] = []
    now: dict[Expr, Expr] = {}
    scalars = dict(zip(kernel.scalars, kernel.scalar_values, strict=True))
    scalars |= {v: value for v, value in highest.items() if value is not None}
    for v in varying:
        value = at.minimum(inside.value(bound[v]), v)
        if bounds(bound[v])[0] >= 0:
            value = at.maximum(value, 0)
        now[v] = here = Var(v.name, v.type)
        lets.append(Let(here, value))
    (limit,) = substitute((kernel.tasks,), now)
    total = Var("most_tasks", int64)
    scalars |= {**inside.scalars, total: launched}
    requires: list[Expr] = []
    for condition, violated in conditions.items():
        if violated is not None and any(v in now for v in walk((condition,))):
            found = Var("violated", int64)
            scalars[found] = violated
            condition = at.equal(found, 0)
        requires.append(condition)
    return replace(
        kernel,
        buffers=(*inside.buffers, *kernel.buffers),
        scalars=tuple(scalars),
        scalar_values=tuple(scalars.values()),
        tasks=total,
        body=(*lets, If(at.less(kernel.task, limit), _over(kernel.body, now, {}))),
        requires=tuple(requires),
        fallback=None,
    )


class _Inside:
    """Rewrites host expressions for a kernel: over its scalars, and counters in memory."""

    def __init__(self, kernel: Kernel, bound: Mapping[Expr, Expr]) -> None:
        self.buffers: list[Buffer] = []
        self.scalars: dict[Var, Expr] = {}
        self._given = {e: v for v, e in bound.items()}
        self._of = {graph.Leaf(b.leaf.node, b.leaf.component): b for b in kernel.buffers
                    if b.leaf is not None}  # fmt: skip
        self._memo: dict[Expr, Expr] = {}

    def value(self, e: Expr) -> Expr:
        return rewrite((e,), self._change, self._memo)[0]

    def _change(self, e: Expr) -> Expr:
        if isinstance(e, Read):
            leaf = graph.Leaf(e.node, e.component)
            if leaf not in self._of:
                self._of[leaf] = Buffer("counter", leaf.type, "input", constant(1), leaf)
                self.buffers.append(self._of[leaf])
            return Load(self._of[leaf], constant(0))
        if isinstance(e, Extent | Param | Stride):
            if e not in self._given:
                self._given[e] = made = Var("given", e.type)
                self.scalars[made] = e
            return self._given[e]
        return e


def _over(part: Any, now: Mapping[Expr, Expr], memo: dict[Expr, Expr]) -> Any:
    """A part of a kernel with variables substituted."""
    if isinstance(part, Expr):
        memo.update(now)
        return rewrite((part,), lambda e: e, memo)[0]
    if isinstance(part, tuple):
        return tuple(_over(p, now, memo) for p in part)
    if isinstance(part, Statement | graph.Combine) and dataclasses.is_dataclass(part):
        changed = {f.name: _over(getattr(part, f.name), now, memo)
                   for f in dataclasses.fields(part)}  # fmt: skip
        return replace(part, **changed)
    return part
