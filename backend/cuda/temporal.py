"""Temporal blocking: loops over stencils, several iterations in one pass over memory.

The kernels are those of `skeletons/lower/stencil/gpu_temporal.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from treadle.dsl.graph import ArrayLoop
from treadle.dsl.target import CUDA
from treadle.skeletons.lower.build import LoweringContext
from treadle.skeletons.lower.stencil.gpu_temporal import temporal

from .device.device import Block, Launch
from .graphs.tape import Recorder
from .running import DeviceRun
from .steps import KernelLaunch

if TYPE_CHECKING:
    from .executable import CudaExecutor


class TemporalBlocking:
    """The kernel that computes `steps` iterations of a loop."""

    def __init__(self, owner: CudaExecutor, steps: int, variant: KernelLaunch) -> None:
        self.owner, self.steps, self.variant = owner, steps, variant

    @classmethod
    def of(cls, owner: CudaExecutor, loop: ArrayLoop) -> TemporalBlocking | None:
        """None if temporal blocking is not faster or not possible."""
        if owner.program.settings.check:
            return None
        context = LoweringContext(target=CUDA, threads=owner.device.multiprocessors)
        made = temporal(loop, context)
        if made is None:
            return None
        (kernel,) = made.lowered.kernels
        return cls(owner, made.steps, KernelLaunch(owner, loop.body[0].node, kernel, ()))

    def launches(self, run: DeviceRun, slots: Sequence[int], front: list[Block], back: list[Block]
                 ) -> tuple[Launch, Launch] | None:  # fmt: skip
        """Launches of `steps` iterations from `front` to `back`, and the reverse; None if the
        kernel does not apply."""
        found = []
        for source, target in ((front, back), (back, front)):
            inner = DeviceRun(Recorder(self.owner.device), list(run.slots), run.params)
            for slot, block in zip(slots, source, strict=True):
                inner.slots[slot] = block
            launch = self.variant.launch(inner, target, [])
            if launch is None or launch.tasks <= 0:
                return None
            run.pinned |= inner.pinned
            found.append(launch)
        return found[0], found[1]
