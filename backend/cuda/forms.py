"""What a node is for the extents of a call: folds over tiles take in the short folds they read.

argmin over j of Σₖ (x[i, k] − c[j, k])²: one kernel where rows of k are short and the pairs (i, j)
fill tiles, else the sums are stored and read

Rows of fewer than 64 elements are folded from the left whoever folds them
(`lower/fold/gpu_short.py`), so no bit depends on it.
"""

from __future__ import annotations

from typing import Any

from treadle.dsl.graph import Fold, Node
from treadle.dsl.passes.short_folds import Short, length, short_folds

from .running import HostFunction, Run

NOTHING: frozenset[Node] = frozenset()


def forms_of(program: Any) -> Short:
    """The folds of a program that may be loops in a fold over tiles."""
    from treadle.skeletons.lower.fold.gpu_jam import tiled

    short = short_folds(program.roots, program.settings)
    takes = {
        fold: reader for fold, reader in short.reader.items()
        if reader not in short.reader and _may_take(reader, fold, short)
    }  # fmt: skip
    alone = {fold: short.alone[fold] for fold in takes}
    worth = {fold: tiled(reader) for fold, reader in takes.items() if isinstance(reader, Fold)}
    return Short(alone, takes, worth)


def _may_take(reader: Node, fold: Node, short: Short) -> bool:
    """Whether a fold over tiles can be made of `reader` with `fold` as its loop."""
    from treadle.skeletons.lower.build import Builder, LoweringContext
    from treadle.skeletons.lower.fold.gpu_jam import JammedFold

    if not isinstance(reader, Fold) or not isinstance(fold, Fold):
        return False
    made = Short({fold: short.alone[fold]}, {fold: reader}).of(reader, frozenset({fold}))
    if not isinstance(made, Fold):
        return False
    return JammedFold.of(Builder(made, LoweringContext("cuda")), made) is not None


class Forms:
    """The forms of one node of a program."""

    def __init__(self, owner: Any, node: Node) -> None:
        self.node, self.short = node, owner.short
        self.inside = self.short.inside(node)
        self._values: HostFunction | None = None
        if self.inside:
            worth = [self.short.worth[f] for f in self.inside]
            self._values = HostFunction(owner.host, (*map(length, self.inside), *worth))

    def loops(self, run: Run) -> frozenset[Node]:
        """The folds that are loops in this kernel, for the extents of a run; the node itself where
        its reader computes it."""
        if self._values is None:
            return NOTHING
        values = self._values(run)
        count = len(self.inside)
        counts: dict[Node, int] = dict(zip(self.inside, values[:count], strict=True))
        worth = [self.short.worth[f] for f in self.inside]
        holds = dict(zip(worth, values[count:], strict=True))
        found: frozenset[Node] = self.short.loops(
            self.node, counts.__getitem__, holds.__getitem__
        )  # fmt: skip
        return found

    def made(self, loops: frozenset[Node]) -> Node:
        """The node with these as loops."""
        return self.short.of(self.node, loops) if loops else self.node
