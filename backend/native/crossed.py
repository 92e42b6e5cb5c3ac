"""Two folds of the same arrays, as one traversal or two (`CrossedFolds`)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from treadle.dsl.graph import CrossedFolds
from treadle.skeletons.lower.fold.traversals import why_apart

from ..runtime.run import HostValues
from .running import HostRun
from .runtime.threads import thread_count
from .steps import KernelStep

if TYPE_CHECKING:
    from .executable import NativeExecutor


class CrossedStep(KernelStep):
    """One kernel if there are about as many blocks of rows as threads, and rows of the arrays are
    contiguous and short enough for the cache; otherwise the two folds.  The bits are equal."""

    def __init__(self, owner: NativeExecutor, node: CrossedFolds) -> None:
        super().__init__(owner, node)
        slots = owner.planner.slots
        along, across = node.apart()
        leaves = (*along.leaves, *across.leaves)
        slots.update(zip(leaves, [slots[leaf] for leaf in node.leaves], strict=True))
        self.parts = [KernelStep(owner, fold) for fold in (along, across)]
        self.both, self.read_twice = [slots[leaf] for leaf in node.shared], node.read_twice
        self.extents = HostValues(owner.host, (*node.outer, *node.inner))

    def __call__(self, run: HostRun) -> None:
        *planes, rows, columns = (int(n) for n in run.counts(self.extents))
        if why_apart(
            math.prod(planes), rows, columns, self.read_twice, thread_count()
        ) is None and all(run.slots[slot].flags.c_contiguous for slot in self.both):
            super().__call__(run)
            return
        for part in self.parts:
            part(run)
