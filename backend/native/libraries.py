"""Operations on whole arrays that a library performs: sorting, and a user's `foreign_array`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from treadle.dsl.graph import Library
from treadle.dsl.library import is_builtin, parts_of

from ..runtime.run import HostValues
from .running import HostRun

if TYPE_CHECKING:
    from .executable import NativeExecutor


class LibraryStep:
    """One `Library`."""

    def __init__(self, owner: NativeExecutor, node: Library) -> None:
        slots = owner.planner.slots
        self.node = node
        self.sources = [slots[a] for a in node.arguments]
        self.targets = [slots[o] for o in node.leaves]
        self.types = [o.type.numpy for o in node.outputs]
        self.function, self.ours = node.operation.on("native"), is_builtin(node.operation)
        self.extents = HostValues(owner.host, [e for o in node.outputs for e in o.shape])

    def __call__(self, run: HostRun) -> None:
        run.refuse_recording("a function of a library, or of the user's")
        node, slots = self.node, run.slots
        given = [slots[s] for s in self.sources]
        result = self.function(*given)
        parts = parts_of(node.operation, result, iter(self.extents(run)), node.where)
        for slot, part, t in zip(self.targets, parts, self.types, strict=True):
            slots[slot] = np.array(part, t, order="C", copy=None if self.ours else True)
        if not self.ours:
            # The user's function may keep what it was given: held, it is never overwritten.
            run.held += given
