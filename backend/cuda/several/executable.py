"""Programs compiled for several GPUs: plans and schedules by call, kept for calls like it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from treadle.dsl.errors import TracingError
from treadle.dsl.graph import Leaf
from treadle.dsl.process.recent import Recent

from ...blocks import report
from ...blocks.domain import Chunks, even
from ...blocks.plan import Planner
from ...runtime.run import Params
from ...runtime.types import DeviceArray
from ..calls import readable
from .engine import engine
from .peers import Peers
from .running import Parts, Schedule
from .sharded import Sharded, shard

if TYPE_CHECKING:
    from treadle.dsl.program import TracedProgram

#: Schedules kept per program: for extents, numbers, and where arguments are.
SCHEDULES = 64


class SeveralExecutable:
    """A program on several GPUs."""

    def __init__(self, program: TracedProgram, peers: Peers) -> None:
        self.program, self.peers = program, peers
        self.engine = engine(program.settings, len(peers.ordinals), peers.memory)
        self.schedules = Recent[object, Schedule](SCHEDULES)
        #: The positions of the numbers on which a plan may depend; others a call gives anew.
        self.planned = [
            k for k, p in enumerate(program.params) if p.type.is_integer or p.type.family == "bool"
        ]
        self.given = {p: k for k, p in enumerate(program.params) if k not in self.planned}

    def __call__(self, data: Sequence[DeviceArray], params: Params) -> list[DeviceArray]:
        """One array per root: of NumPy if all inputs are on the host, else sharded."""
        on_host = all(not isinstance(d, Sharded) and self.peers.where(d) is None for d in data)
        given = [self._sharded(d) for d in data]
        results = self._run(self._schedule(given, params), given, params)
        return [np.asarray(r) for r in results] if on_host else results

    def _run(self, schedule: Schedule, given: Sequence[Sharded], params: Params) -> list[Sharded]:
        captured = {
            leaf: Parts(given[k].chunks, given[k].owners, list(given[k].parts), given[k].dtype)
            for leaf, k in schedule.plan.given.items()
        }
        captured.update(schedule.constants)
        found = schedule.run(self.peers, captured, params)
        return [
            Sharded(self.peers, parts.arrays, parts.owners, parts.chunks, leaf.type.numpy)
            for leaf, parts in zip(schedule.plan.roots, found, strict=True)
        ]

    def _sharded(self, value: DeviceArray) -> Sharded:
        if not isinstance(value, Sharded):
            on_gpu = self.peers.where(value) is not None
            return shard(self.peers, value if on_gpu else readable(value))
        if not set(value.devices) <= set(self.peers.ordinals):
            raise TracingError(
                f"an argument is on the GPUs {_listed(value.devices)}, and the function is "
                f"compiled for {_listed(self.peers.ordinals)}.",
                hint="Compile it for the same: td.jit(f, devices=…).",
            )
        return value

    def _key(self, given: Sequence[Sharded], owners: Sequence[tuple[int, ...]], params: Params
             ) -> Hashable:  # fmt: skip
        """On what a schedule depends."""
        return (tuple((g.chunks, o) for g, o in zip(given, owners, strict=True)),
                *(params[k] for k in self.planned))  # fmt: skip

    def _schedule(self, given: Sequence[Sharded], params: Params) -> Schedule:
        ordinals = list(self.peers.ordinals)
        owners = [tuple(ordinals.index(d) for d in g.devices) for g in given]
        key = self._key(given, owners, params)
        found = self.schedules.get(key)
        if found is None:
            shapes = [g.shape for g in given]
            chunks = [g.chunks for g in given]
            plan = Planner(self.program, shapes, chunks, params, self.engine).plan
            where: dict[Leaf, Sequence[int]] = {x: owners[k] for x, k in plan.given.items()}
            where.update((leaf, (0,)) for leaf in plan.constants)
            found = self.schedules[key] = Schedule(plan, len(ordinals), where, self.given)
            for leaf, value in plan.constants.items():
                with self.peers.on(0):
                    array = self.peers.upload(np.asarray(value, leaf.type.numpy))
                found.constants[leaf] = Parts(plan.chunks[leaf], (0,), [array], leaf.type.numpy)
        return found

    def replay(
        self, args: Sequence[DeviceArray], data: Sequence[DeviceArray], params: Params
    ) -> Callable[..., DeviceArray] | None:
        """For calls on arrays in parts, and numbers: their schedules are found without a look at
        the program."""
        if len(data) + len(params) != len(args) or any(type(d) is not Sharded for d in data):
            return None
        kinds, types = [type(a) for a in args], [d.dtype for d in data]
        ordinals, single = self.peers.ordinals, len(self.program.roots) == 1

        def again(*values: DeviceArray) -> DeviceArray:
            if [type(v) for v in values] != kinds:
                return None
            given = [v for v in values if type(v) is Sharded]
            if [g.dtype for g in given] != types or any(g.ordinals != ordinals for g in given):
                return None
            numbers = [v for v in values if type(v) is not Sharded]
            schedule = self.schedules.get(self._key(given, [g.owners for g in given], numbers))
            if schedule is None:
                return None
            found = self._run(schedule, given, numbers)
            return found[0] if single else found

        return again


def remarks(program: TracedProgram, devices: int, memory: int) -> list[str]:
    """The stages of a program on `devices` GPUs with `memory` bytes each."""

    def chunks(k: int, shape: Sequence[int], itemsize: int) -> Chunks:
        whole = tuple((n,) for n in shape)
        return (even(shape[0], devices), *whole[1:]) if shape else whole

    where = f"on {devices} GPU{'s' * (devices != 1)}"
    return report.remarks(program, engine(program.settings, devices, memory), where, chunks)


def _listed(ordinals: Sequence[int]) -> str:
    return ", ".join(map(str, dict.fromkeys(ordinals)))
