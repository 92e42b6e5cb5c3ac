"""`lower`: from a node of the array graph to kernels."""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import cast

from treadle.dsl.graph import Fold, FoldSeg, Generate, Matmul, Node, Permute, Scan

from .caching import cached
from .kernel.build import LoweringContext, Site
from .kernel.hosted import Stride
from .kernel.ir import Lowered
from .kernel.tidy import tidy
from .resident import resident
from .schedules import as_schedule
from .schedules.errors import of_operation

#: Where each way of computing becomes kernels: a module here for a CPU, and its namesake in `gpu`.
_SKELETONS: dict[type[Node], tuple[str, str]] = {
    Generate: ("generate", "lower_generate"),
    Fold: ("fold", "lower_fold"),
    FoldSeg: ("fold_seg", "lower_fold_seg"),
    Scan: ("scan", "lower_scan"),
    Permute: ("permute", "lower_permute"),
    Matmul: ("matmul", "lower_matmul"),
}

__all__ = ["LoweringContext", "Site", "Stride", "layer_notes", "lower", "notes_of"]


def lower(node: Node, context: LoweringContext | None = None) -> Lowered:
    """The kernels that compute `node`, in order, with the scratch memory between them.

    Arrays that the node reads are input buffers, whoever computes them; its own components are
    output buffers (for a Permute "update" buffers, which hold the defaults when the first kernel
    starts).  Library, Barrier, ArrayLoop and Branch are the executor's: `TypeError`.

    The layers of a schedule that are about blocks as wholes, who runs them and how the caches treat
    what they touch, are put on the kernels afterwards, whatever made these.

    Errors: `ScheduleError`, which names the operation, where its schedule does not fit it.
    """
    context = context or LoweringContext()
    with of_operation(node.label, node.where):
        lowered = cached(resident(_lowered(node, context), node, context), node, context)
    if context.target == "cpu":
        return lowered
    return replace(lowered, kernels=tuple(tidy(k) for k in lowered.kernels))


def layer_notes(node: Node, context: LoweringContext) -> tuple[str, ...]:
    """What came of the schedule that a node was given, in words."""
    return () if node.label.schedule is None else notes_of(lower(node, context), node, context)


def notes_of(lowered: Lowered, node: Node, context: LoweringContext) -> tuple[str, ...]:
    """What is worth knowing of how a node was lowered, each once."""
    notes, given = lowered.notes, node.label.schedule
    stage = None if given is None else as_schedule(given).stage
    if stage is not None and context.target == "cpu":
        notes = (*notes, f"{stage!r} has no effect on a CPU: its caches hold what a block reads")
    return tuple(dict.fromkeys(notes))


def _lowered(node: Node, context: LoweringContext) -> Lowered:
    if type(node) not in _SKELETONS:
        raise TypeError(f"{type(node).__name__} is not lowered to kernels")
    name, function = _SKELETONS[type(node)]
    place = f".gpu.{name}" if context.target == "cuda" else f".{name}"
    module = importlib.import_module(place, __package__)
    return cast(Lowered, getattr(module, function)(node, context))
