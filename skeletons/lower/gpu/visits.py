"""Assigns leaves, in the order of a schedule, to the thread blocks of a kernel.

    numbers of a thread block     those of the schedule's block, or one per group of threads
      iteration                   a group takes the next `own` numbers, one per iteration
        leaf                      its position in the grid (`skeletons/lower/visits.py`)

All groups of a thread block run the same number of iterations, so that all threads reach every
barrier.  A group without a leaf of its own computes another leaf and stores nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from treadle.dsl.expr import Expr

from ...ir import arithmetic as at
from ...ir.kernel import Barrier
from ...ir.linearize import Linearizer
from ..visits import WHOLE, Visits

__all__ = ["WHOLE", "BlockVisits", "Visits", "leaf"]


class BlockVisits:
    """`groups` (host) groups of threads per block, each with one leaf at a time.

    `tasks` (host): the number of thread blocks that cover the grid.
    """

    def __init__(self, visits: Visits, groups: Expr | int = 1) -> None:
        self.visits = visits
        builder = visits.builder
        together = at.multiply(groups, visits.own)
        span = at.integer(visits.per_task) if visits.per_task else together
        self.tasks = at.ceil_div(visits.total_host, span)
        iterations = at.multiply(at.ceil_div(span, together), visits.own)
        self.groups = builder.scalar(at.integer(groups), "groups")
        self.span, self.iterations = (
            builder.scalar(span, "span"),
            builder.scalar(iterations, "iterations"),
        )

    @contextmanager
    def leaves(self, into: Linearizer, task: Expr, group: Expr
               ) -> Iterator[tuple[Expr, tuple[Expr, ...]]]:  # fmt: skip
        """For each iteration of group `group` of thread block `task`: whether the group owns the
        leaf, and its position in the grid, clamped if there is no such leaf."""
        if at.is_constant(self.iterations, 1):
            yield self._leaf(into, task, group)
            return
        with into.loop("iteration", 0, self.iterations) as iteration:
            own = self.visits.own
            patch = at.multiply(at.floor_divide(iteration, own), self.groups)
            local = at.multiply(at.add(patch, group), own)
            yield self._leaf(
                into, task, into.let(at.add(local, at.remainder(iteration, own)), "local")
            )
            into.append(Barrier())

    def _leaf(self, into: Linearizer, task: Expr, local: Expr) -> tuple[Expr, tuple[Expr, ...]]:
        number = into.let(at.add(at.multiply(task, self.span), local), "number")
        exists, indices = leaf(self.visits, into, number)
        return into.let(at.both(at.less(local, self.span), exists), "owner"), indices


def leaf(visits: Visits, into: Linearizer, number: Expr) -> tuple[Expr, tuple[Expr, ...]]:
    """Whether a leaf has this number, and its position in the grid (if none, a valid position)."""
    last = at.subtract(visits.total, 1)
    exists, indices = visits.at(into, into.let(at.minimum(number, last), "visit"))
    inside = [
        into.let(at.minimum(p, at.subtract(n, 1)), f"leaf{k}")
        for k, (p, n) in enumerate(zip(indices, visits.counts, strict=True))
    ]
    for p, n in zip(inside, visits.grid, strict=True):
        visits.builder.stays_below(p, n)
    return into.let(at.both(at.less(number, visits.total), exists), "own"), tuple(inside)
