"""The form of a node for the extents of a call: folds over tiles fuse the short folds they read.

argmin over j of Σₖ (x[i, k] − c[j, k])²: one kernel where rows of k are short and the pairs (i, j)
fill tiles, else the sums are stored and read

Every kernel folds rows of fewer than 64 elements from the left (`lower/fold/gpu_short.py`), so
fusion does not change any bit of the result.
"""

from __future__ import annotations

from treadle.dsl.graph import Fold, Node
from treadle.dsl.passes.short_folds import Short, short_folds
from treadle.dsl.program import TracedProgram
from treadle.skeletons.lower.build import Builder, LoweringContext
from treadle.skeletons.lower.fold.gpu_jam import JammedFold, tiled


def forms_of(program: TracedProgram) -> Short:
    """The folds of a program that may be fused as loops into a fold over tiles."""
    short = short_folds(program.roots, program.settings)
    takes = {
        fold: reader for fold, reader in short.reader.items()
        if reader not in short.reader and _may_take(reader, fold, short)
    }  # fmt: skip
    alone = {fold: short.alone[fold] for fold in takes}
    worth = {fold: tiled(reader) for fold, reader in takes.items() if isinstance(reader, Fold)}
    return Short(alone, takes, worth)


def _may_take(reader: Node, fold: Node, short: Short) -> bool:
    """Whether `reader` can become a fold over tiles with `fold` as its inner loop."""
    if not isinstance(reader, Fold) or not isinstance(fold, Fold):
        return False
    made = Short({fold: short.alone[fold]}, {fold: reader}).of(reader, frozenset({fold}))
    if not isinstance(made, Fold):
        return False
    return JammedFold.of(Builder(made, LoweringContext("cuda")), made) is not None
