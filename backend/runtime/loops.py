"""Loops over arrays, iteration by iteration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic

import numpy as np

from treadle.dsl.graph import ArrayLoop

from .run import HostValues
from .steps import R

if TYPE_CHECKING:
    from .executor import Executor
    from .plan import Step


class LoopStep(Generic[R]):
    """One `ArrayLoop`: `state = body(state)` while a predicate holds, or a number of times.

    Actions: `testing` computes the predicate, `once` the loop-invariant values that the first
    iteration computes, `rest` the next state.  Slots: `results` of the body (the predicate last),
    `state` and `index` as the body reads them, `init` and `targets` of the complete loop.
    """

    def __init__(self, owner: Executor[Any], node: ArrayLoop, step: Step) -> None:
        self.owner, self.node = owner, node
        planner = owner.planner
        self.expendable = planner.expendable(step)
        testing, once, rest = step.inner
        self.testing, self.once, self.rest = map(owner.actions_of, step.inner)
        self.results = rest.results
        self.state = [planner.slot(s.leaf()) for s in node.state]
        self.init = [planner.slots[i] for i in node.init]
        self.targets = [planner.slots[o] for o in node.leaves]
        self.index = None if node.index is None else planner.slot(node.index.leaf())
        self.count = None if node.count is None else HostValues(owner.host, (node.count,))
        self.predicate = None if node.predicate is None else self.results[-1]
        made = {
            planner.slots[leaf] for s in (*testing.steps, *rest.steps) for leaf in s.node.leaves
        }
        self.renewed = [r for r in self.results if r in made]
        self.spent = {*self.state, *made, *(planner.slots[leaf] for s in once.steps
                                            for leaf in s.node.leaves)}  # fmt: skip

    def finish(self, run: R, iteration: int, limit: int | None) -> bool:
        """Run the remaining iterations in a faster way, if there is one; returns whether it did."""
        return False

    def dense_array(self, run: R, slot: int) -> Any:
        return run.dense(slot)

    def __call__(self, run: R) -> None:
        slots = run.slots
        limit = None if self.count is None else int(self.count(run)[0])  # may read the first state
        for s, i in zip(self.state, self.init, strict=True):
            slots[s] = self.dense_array(run, i)
            if i in self.expendable:
                slots[i] = None  # leaves the state as the only reference
        iteration = 0
        while limit is None or iteration < limit:
            if self.finish(run, iteration, limit):
                break
            if self.index is not None:
                slots[self.index] = np.asarray(iteration, np.int64)
            for act in self.testing:
                act(run)
            if self.predicate is not None and not run.on_host(self.predicate)[()]:
                break
            for act in self.rest if iteration else (*self.once, *self.rest):
                act(run)
            following = [self.dense_array(run, r) for r in self.results[: len(self.state)]]
            for s, value in zip(self.state, following, strict=True):
                slots[s] = value
            for r in self.renewed:
                slots[r] = None
            iteration += 1
        for t, s in zip(self.targets, self.state, strict=True):
            slots[t] = slots[s]
        for s in self.spent:  # leaves the targets as the only references
            slots[s] = None
