"""`lower`: from a node of the array graph to kernels."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from treadle.dsl import graph
from treadle.dsl.analysis.updates import reads_own
from treadle.dsl.expr import Index, walk
from treadle.dsl.schedule import of_operation

from ..ir.hosted import Stride
from ..ir.kernel import Lowered
from ..ir.tidy import tidied
from ..schedules import as_schedule
from .build import LoweringContext, Site
from .transform import has_boundary, inside

Lowering = Callable[[Any, LoweringContext], Lowered]


def _on_cpu(cls: type[graph.Node]) -> Lowering | None:
    """The CPU lowering of a node class; its module is imported on first use."""
    if cls is graph.Generate:
        from .elementwise import cpu as elementwise

        return elementwise.lower_generate
    if cls is graph.Fold or cls is graph.StoringFold:
        from .fold import cpu as fold

        return fold.lower_fold if cls is graph.Fold else fold.lower_storing_fold
    if cls is graph.CrossedFolds:
        from .fold import crossed

        return crossed.lower_crossed_folds
    if cls is graph.FoldSeg:
        from .segmented import cpu as segmented

        return segmented.lower_fold_seg
    if cls is graph.Scan:
        from .scan import cpu as scan

        return scan.lower_scan
    if cls is graph.Recurrence:
        from .scan import recurrence

        return recurrence.lower_on_cpu
    if cls is graph.Permute or cls is graph.Compact:
        from .scatter import cpu as scatter

        return scatter.lower_permute if cls is graph.Permute else scatter.lower_compact
    if cls is graph.Sequential:
        from .scatter import sequential

        return sequential.lower_sequential
    if cls is graph.Matmul:
        from ..products import kernel_cpu as products

        return products.lower_matmul
    if cls is graph.Library:
        from ..linalg import cpu as linalg

        return linalg.lower_linalg
    return None


def _on_gpu(cls: type[graph.Node]) -> Lowering | None:
    if cls is graph.Generate:
        from .elementwise import gpu as elementwise

        return elementwise.lower_generate
    if cls is graph.Fold or cls is graph.StoringFold:
        from .fold import gpu as fold

        return fold.lower_fold if cls is graph.Fold else fold.lower_storing_fold
    if cls is graph.FoldSeg:
        from .segmented import gpu as segmented

        return segmented.lower_fold_seg
    if cls is graph.Scan:
        from .scan import gpu as scan

        return scan.lower_scan
    if cls is graph.Recurrence:
        from .scan import recurrence

        return recurrence.lower_on_gpu
    if cls is graph.Permute:
        from .scatter import gpu as scatter

        return scatter.lower_permute
    if cls in (graph.Matmul, graph.FoldedMatmul, graph.StoringMatmul):
        from ..products import kernel_gpu as products

        return products.lower_matmul
    if cls is graph.Library:
        from ..linalg import gpu as linalg

        return linalg.lower_linalg
    return None


@functools.cache
def _lowering(cls: type[graph.Node], gpu: bool) -> Lowering:
    found = _unwritten if cls is graph.Memory else _on_gpu(cls) if gpu else _on_cpu(cls)
    if found is None:
        raise TypeError(f"{cls.__name__} is not lowered to kernels")
    return found


__all__ = ["LoweringContext", "Site", "Stride", "lower", "notes_of", "untidied"]


def lower(node: graph.Node, context: LoweringContext | None = None) -> Lowered:
    """The kernels that compute `node`, in order, with the scratch memory they share.

    Arrays that the node reads are input buffers, whether or not they are computed; its own
    components are output buffers ("update" buffers for a Permute: they hold the defaults when the
    first kernel starts).  The executor runs Barrier, ArrayLoop, Branch and Library nodes itself, so
    these raise `TypeError`, except for linear algebra of small matrices.

    The schedule layers that concern complete blocks (residency and cache hints) are applied to the
    finished kernels, independently of the skeleton.

    Errors: `ScheduleError`, naming the operation, if its schedule does not fit it.
    """
    context = context or LoweringContext()
    lowered = untidied(node, context)
    if not context.gpu:
        return lowered
    return replace(lowered, kernels=tuple(k.every(tidied) for k in lowered.kernels))


def untidied(node: graph.Node, context: LoweringContext) -> Lowered:
    """The kernels of `lower` before cleanup, in half the time: enough to count their operations."""
    with of_operation(node.label, node.where):
        lowered = _lowered(node, context)
        if context.schedule_of(node) is None:
            return lowered
        from .caching import cached
        from .resident import resident

        return cached(resident(lowered, node, context), node, context)


def notes_of(lowered: Lowered, node: graph.Node, context: LoweringContext) -> tuple[str, ...]:
    """Notes on how a node was lowered, without duplicates."""
    notes, given = lowered.notes, node.label.schedule
    stage = None if given is None else as_schedule(given).stage
    if stage is not None and not context.gpu:
        notes = (*notes, f"{stage!r} has no effect on a CPU: its caches hold what a block reads")
    return tuple(dict.fromkeys(notes))


def _lowered(node: graph.Node, context: LoweringContext) -> Lowered:
    lowering = _lowering(type(node), context.gpu)
    if isinstance(node, graph.Permute) and _is_row_of_stencils(node, context):
        made = graph.Generate(node.domain, node.values, label=node.label, where=node.where,
                        fused=node.fused, checks=node.checks)  # fmt: skip
        return _lowered(made, replace(context, into=node))
    return lowering(node, context)


def _is_row_of_stencils(node: graph.Permute, context: LoweringContext) -> bool:
    """Whether a permute stores complete rows of stencil results, as a `Generate` does."""
    rank = len(node.domain)
    if type(node) is not graph.Permute or node.combine is not None:
        return False
    if context.check or context.schedule or node.label.schedule or node.label.ordered:
        return False
    lead = len(node.target) - rank
    if lead < 0 or node.target[lead:] != graph.indices(rank) or any(
            isinstance(e, Index) for e in walk((node.valid, *node.target[:lead]))):  # fmt: skip
        return False
    if any(d.shape[lead:] != node.domain or reads_own(node, d) for d in node.defaults):
        return False
    return has_boundary(node.values) or inside(node.values, node.domain) != node.values


def _unwritten(node: graph.Memory, context: LoweringContext) -> Lowered:
    """No kernel."""
    return Lowered(())
