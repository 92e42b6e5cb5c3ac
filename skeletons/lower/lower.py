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
from .caching import cached
from .resident import resident
from .transform import has_boundary, inside

Lowering = Callable[[Any, LoweringContext], Lowered]


@functools.cache
def _for_cpu(usual: bool) -> dict[type[graph.Node], Lowering]:
    """The lowerings of the `usual` classes, which most programs have, or of all others: importing
    them takes as long."""
    if usual:
        from .elementwise import cpu as generate
        from .fold import cpu as fold_cpu

        return {graph.Generate: generate.lower_generate, graph.Fold: fold_cpu.lower_fold}

    from ..linalg import cpu as linalg
    from ..products import kernel_cpu as matmul
    from .fold import cpu as fold_cpu, crossed
    from .scan import cpu as scan, recurrence
    from .scatter import cpu, cpu as permute, sequential
    from .segmented import cpu as fold_seg

    return {
        graph.Memory: _unwritten,
        graph.StoringFold: fold_cpu.lower_storing_fold,
        graph.CrossedFolds: crossed.lower_crossed_folds,
        graph.FoldSeg: fold_seg.lower_fold_seg,
        graph.Scan: scan.lower_scan,
        graph.Recurrence: recurrence.lower_on_cpu,
        graph.Permute: permute.lower_permute,
        graph.Compact: cpu.lower_compact,
        graph.Sequential: sequential.lower_sequential,
        graph.Matmul: matmul.lower_matmul,
        graph.Library: linalg.lower_linalg,
    }


@functools.cache
def _for_gpu(usual: bool) -> dict[type[graph.Node], Lowering]:
    if usual:
        from .elementwise import gpu as generate
        from .fold import gpu as fold

        return {graph.Generate: generate.lower_generate, graph.Fold: fold.lower_fold}

    from ..linalg import gpu as linalg
    from ..products import kernel_gpu as matmul
    from .fold import gpu as fold
    from .scan import gpu as scan, recurrence
    from .scatter import gpu as permute
    from .segmented import gpu as fold_seg

    return {
        graph.Memory: _unwritten,
        graph.StoringFold: fold.lower_storing_fold,
        graph.FoldSeg: fold_seg.lower_fold_seg,
        graph.Scan: scan.lower_scan,
        graph.Recurrence: recurrence.lower_on_gpu,
        graph.Permute: permute.lower_permute,
        graph.Matmul: matmul.lower_matmul,
        graph.FoldedMatmul: matmul.lower_matmul,
        graph.StoringMatmul: matmul.lower_matmul,
        graph.Library: linalg.lower_linalg,
    }


__all__ = ["LoweringContext", "Site", "Stride", "lower", "notes_of", "untidied"]


def lower(node: graph.Node, context: LoweringContext | None = None) -> Lowered:
    """The kernels that compute `node`, in order, with the scratch memory between them.

    Arrays that the node reads are input buffers, whoever computes them; its own components are
    output buffers (for a Permute "update" buffers, which hold the defaults when the first kernel
    starts).  Barrier, ArrayLoop and Branch are the executor's, and so is Library, except for the
    linear algebra of small matrices: `TypeError`.

    The schedule layers that concern complete blocks (residency and cache hints) are applied to the
    kernels afterwards, independently of the skeleton.

    Errors: `ScheduleError`, which names the operation, where its schedule does not fit it.
    """
    context = context or LoweringContext()
    lowered = untidied(node, context)
    if not context.gpu:
        return lowered
    return replace(lowered, kernels=tuple(k.every(tidied) for k in lowered.kernels))


def untidied(node: graph.Node, context: LoweringContext) -> Lowered:
    """The kernels of `lower` before they are tidied: in half the time, to count what they do."""
    with of_operation(node.label, node.where):
        return cached(resident(_lowered(node, context), node, context), node, context)


def notes_of(lowered: Lowered, node: graph.Node, context: LoweringContext) -> tuple[str, ...]:
    """Notes on how a node was lowered, without duplicates."""
    notes, given = lowered.notes, node.label.schedule
    stage = None if given is None else as_schedule(given).stage
    if stage is not None and not context.gpu:
        notes = (*notes, f"{stage!r} has no effect on a CPU: its caches hold what a block reads")
    return tuple(dict.fromkeys(notes))


def _lowered(node: graph.Node, context: LoweringContext) -> Lowered:
    table = _for_gpu if context.gpu else _for_cpu
    lowering = table(True).get(type(node)) or table(False).get(type(node))
    if lowering is None:
        raise TypeError(f"{type(node).__name__} is not lowered to kernels")
    if isinstance(node, graph.Permute) and _is_row_of_stencils(node, context):
        made = graph.Generate(node.domain, node.values, label=node.label, where=node.where,
                        fused=node.fused, checks=node.checks)  # fmt: skip
        return _lowered(made, replace(context, into=node))
    return lowering(node, context)


def _is_row_of_stencils(node: graph.Permute, context: LoweringContext) -> bool:
    """Whether elements that read their neighbours are stored in complete rows, as they are where
    they are all of an array."""
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
