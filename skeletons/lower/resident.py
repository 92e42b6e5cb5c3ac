"""Residency: applies the `Grid`, `Clusters`, `Agents` or `LocalityGraph` of a schedule to kernels.

    Grid            nothing: the hardware assigns blocks; CPU threads have spans of tasks
    Clusters(n)     GPU: tasks are renumbered (`agents.redirected`)
    Agents(n)       GPU: persistent blocks fetch tasks (`agents.agents`)
    LocalityGraph   tasks in the order of the block-sharing graph: queues of agents on a GPU, the
                    spans of the threads on a CPU

Under any schedule, a CPU thread owns a span of neighbouring tasks and steals from other spans when
its own is finished, so `Clusters` and `Agents` have no effect there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from treadle.dsl.expr import Const, Expr, constant, substitute
from treadle.dsl.graph import Generate, Node, Permute
from treadle.dsl.types import int32, int64

from ..ir import arithmetic as at
from ..ir.kernel import Buffer, Kernel, Lowered
from ..schedules import Agents, Clusters, Grid, LocalityGraph, Schedule
from . import agents
from .build import Equals, LoweringContext
from .locality import domain_of, prepared, queue_table, unseen
from .tiling import host_ids
from .visits import QUEUES

#: Resident threads of a multiprocessor; the agents of a `LocalityGraph` fill them.
RESIDENT_THREADS = 2048


def resident(lowered: Lowered, node: Node, context: LoweringContext) -> Lowered:
    """The kernels under the residency of the node's schedule; unchanged without one."""
    schedule = context.schedule_of(node)
    layer = None if schedule is None else schedule.residency
    if schedule is None or layer is None or isinstance(layer, Grid) or not lowered.kernels:
        return lowered
    if isinstance(layer, LocalityGraph):
        return _by_graph(lowered, node, context, schedule, layer)
    if not context.gpu:
        return _noted(lowered, f"{layer!r} changes nothing on a CPU: every thread has a queue of "
                      "neighbouring tasks and steals from the others'")  # fmt: skip
    why = _why_not(lowered)
    if why is not None:
        return _noted(lowered, f"{layer!r} has no effect here: {why}")
    count = context.processors
    if isinstance(layer, Clusters):
        moved = tuple(
            k.every(lambda v: agents.redirected(v, layer.n, count)) for k in lowered.kernels
        )
        note = f"{layer!r}: {layer.n} neighbours are launched {count} blocks apart"
        return _noted(replace(lowered, kernels=moved), note)
    assert isinstance(layer, Agents), layer
    lowered = _noted(lowered, f"{layer!r}: at most {count} × {layer.per_sm} blocks stay and fetch "
                     "their work from the queue of their multiprocessor, or steal it")  # fmt: skip
    fit = min(RESIDENT_THREADS // max(k.threads, 1) for k in lowered.kernels)
    if layer.per_sm > fit:
        lowered = _noted(lowered, f"{layer!r}: at most {fit} blocks of so many threads fit on a "
                         "multiprocessor at once, and the others wait")  # fmt: skip
    return _with_agents(lowered, count, lambda kernel: layer.per_sm, None)


def _noted(lowered: Lowered, note: str) -> Lowered:
    return replace(lowered, notes=(*lowered.notes, note))


def _why_not(lowered: Lowered) -> str | None:
    if all(agents.independent(k) for k in lowered.kernels):
        return None
    return "blocks of this operation pass results on to each other"


def _with_agents(lowered: Lowered, queues: int, per_queue: Callable[[Kernel], int],
                 table: Buffer | None) -> Lowered:  # fmt: skip
    made: list[Kernel] = []
    scratch = list(lowered.scratch)
    for k, kernel in enumerate(lowered.kernels):
        name = "zero_queues" if len(lowered.kernels) == 1 else f"zero_queues{k}"
        words = Buffer(name, int64, "scratch", constant(queues * agents.STRIDE))
        count = per_queue(kernel)
        made.append(kernel.every(partial(agents.agents, queues=queues, per_queue=count, words=words,
                                         table=table)))  # fmt: skip
        scratch.append(words)
    return replace(lowered, kernels=tuple(made), scratch=tuple(scratch))


# --- LocalityGraph -------------------------------------------------------------------------------


def _by_graph(lowered: Lowered, node: Node, context: LoweringContext, schedule: Schedule,
              layer: LocalityGraph) -> Lowered:  # fmt: skip
    on_cpu = not context.gpu
    made = [b for b in lowered.scratch if b.name == QUEUES]
    why = _why_not(lowered)
    if why is None and not (isinstance(node, Generate | Permute) and domain_of(node)):
        why = "only elements that are independent of each other make a graph of blocks"
    if why is None and isinstance(node, Permute) and node.label.deterministic and not made:
        # The lowering did not apply the schedule; it does (`made`) if no target occurs twice.
        why = "deterministic=True keeps the order of the source"
    if why is None and len(lowered.kernels) != 1 and not made:
        why = "the operation is several kernels"
    if why is not None:
        assert not made, f"kernels look blocks up in a table that nothing fills: {why}"
        return _noted(lowered, f"{layer!r} has no effect here: {why}")
    assert isinstance(node, Generate | Permute)
    domain = domain_of(node)
    plan = schedule.resolve(len(domain))
    count = context.processors
    if made:
        (table,) = made  # the kernels look blocks up themselves
    else:
        (kernel,) = lowered.kernels
        if not _are_blocks(kernel, host_ids(plan, domain), Equals(node)):
            assert schedule.stage is not None, f"{kernel.name}: tasks that are no blocks"
            return _noted(lowered, f"{layer!r} has no effect here: {schedule.stage!r} has tiles of "
                          "its own")  # fmt: skip
        blocks = at.maximum(kernel.tasks, 1)
        table = Buffer(QUEUES, int32, "scratch", blocks, below=blocks)
    filled = queue_table(node, plan, layer, count, table)
    notes = [f"{layer!r}: {count} queues of blocks by the lines they share, {prepared(node)}"]
    notes += [f"{layer!r} knows nothing of the reads of {leaf!r}: their indices are known only "
             "at run time" for leaf in unseen(node)]  # fmt: skip
    lowered = replace(
        lowered,
        scratch=(*(b for b in lowered.scratch if b is not table), table),
        tables=(*lowered.tables, filled),
        notes=(*lowered.notes, *notes),
    )
    if made:
        return lowered
    if on_cpu:
        return replace(lowered, kernels=(kernel.every(lambda k: agents.reordered(k, table)),))
    return _with_agents(lowered, count, lambda k: max(1, RESIDENT_THREADS // k.threads), table)


def _are_blocks(kernel: Kernel, ids: Expr, equals: Equals) -> bool:
    """Whether the tasks of every variant are the blocks of the graph."""
    wanted = equals.root(ids)
    tasks = [equals.root(substitute((k.tasks,), k.hosts)[0]) for k in kernel.variants]
    return all(
        t is wanted
        or (
            isinstance(t, Const) and isinstance(wanted, Const) and int(t.value) == int(wanted.value)
        )
        for t in tasks
    )
