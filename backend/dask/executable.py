"""`dask` as a backend: lazy for dask arrays; calls with other arrays are computed at once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from treadle.dsl.errors import ShapeError

from ..blocks import report as blocks
from ..blocks.domain import Chunks
from ..blocks.engine import TASK, Engine, default_chunks
from ..blocks.plan import Planner
from ..blocks.stages import Later, Plan
from ..blocks.tasks import WORTH
from ..native.executable import lowering, source
from ..runtime.run import Params
from .graph import arrays, as_dask, chunks_of, compute, is_dask
from .memory import limit, threads
from .versions import check_workers

if TYPE_CHECKING:
    from treadle.dsl.program import TracedProgram


def executable(program: TracedProgram) -> DaskExecutable:
    """The program, ready to run."""
    return DaskExecutable(program)


#: Between processes: seconds until a worker begins a task that others wait for, seconds per byte to
#: assemble a block in fresh memory, and to send one (`benchmarks/larger.py` measures the first and
#: the last for a `LocalCluster`).
LATENCY, COPYING, MOVING = 7e-3, 0.5e-9, 2.5e-9


def engine(program: TracedProgram) -> Engine:
    """Tasks on the current client's workers, else on threads."""
    made = Engine("dask arrays", "native", program.settings, limit(), default_chunks, dynamic=True,
                  gathers=True)  # fmt: skip
    workers = threads()
    if not workers:
        return made
    # (A block and what others need of it are two tasks.)
    return replace(made, sent=WORTH, workers=workers, overhead=2 * TASK, latency=LATENCY,
                   copying=COPYING, moving=MOVING)  # fmt: skip


def remarks(program: TracedProgram) -> list[str]:
    """The stages of a program, for its example chunks if it has any."""

    def chunks(k: int, shape: Sequence[int], itemsize: int) -> Chunks:
        given = program.example_chunks[k] if k < len(program.example_chunks) else None
        return default_chunks(shape, itemsize) if given is None else given

    return blocks.remarks(program, engine(program), "on arrays of dask", chunks)


#: The number of stream plans that a program keeps.
PLANS = 16


class DaskExecutable:
    """Plans a call of a program, and makes dask arrays from the plan."""

    def __init__(self, program: TracedProgram) -> None:
        self.program = program
        self.plans: dict[Hashable, Plan] = {}

    def planned_once(self, key: Hashable, make: Callable[[], Plan]) -> Plan:
        """The plan of a stream, cached, so that its blocks keep their compiled programs; a plan
        that depends on the contents of arrays is made anew."""
        plan = self.plans.get(key)
        if plan is None:
            plan = make()
            if not any(isinstance(part, Later) for part in plan.parts()):
                self.plans = {**dict(list(self.plans.items())[1 - PLANS :]), key: plan}
        return plan

    def __call__(self, data: Sequence[Any], params: Params) -> list[Any]:
        """One array per root: a dask array if one of the inputs is, else a NumPy array."""
        check_workers()
        lazy = any(is_dask(d) for d in data)
        given = [as_dask(d) for d in data]
        plan = self.plan(given, params)
        results = arrays(plan, given, self.program.name)
        return results if lazy else _own_memory(compute(results), data)

    def plan(self, given: Sequence[Any], params: Params) -> Plan:
        for array, node in zip(given, self.program.inputs, strict=True):
            if any(n != n for n in array.shape):
                raise ShapeError(
                    f"the extents of {node.called()} are not known: {array.shape}.",
                    hint="Call x.compute_chunk_sizes() first.",
                )
        shapes = [tuple(int(n) for n in a.shape) for a in given]
        chunks = [chunks_of(a) for a in given]
        return Planner(self.program, shapes, chunks, params, engine(self.program)).plan

    def replay(
        self, args: Sequence[Any], data: Sequence[Any], params: Params
    ) -> Callable[..., Any] | None:
        """Calls are never replayed: they make graphs."""
        return None


def _own_memory(results: Sequence[Any], data: Sequence[Any]) -> list[Any]:
    """NumPy arrays that share no memory with each other or with the arguments."""
    made: list[Any] = []
    for result in results:
        array = np.asarray(result)
        if any(np.may_share_memory(array, other) for other in (*data, *made)):
            array = array.copy()
        made.append(array)
    return made


__all__ = ["DaskExecutable", "executable", "lowering", "remarks", "source"]
