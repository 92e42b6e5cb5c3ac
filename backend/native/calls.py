"""The calls of a program on this machine's cores: step by step, or replayed by native code."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

import numpy as np

from treadle.dsl.expr import walk
from treadle.dsl.frontend.sources import host_array
from treadle.dsl.process.workers import later
from treadle.skeletons.ir.specialise import computed

from ..runtime.run import Params, Slots, Unrecordable
from ..runtime.types import HostArray
from .merged import merge
from .running import HostRun, memory_of
from .runtime.replay import KEPT, LARGEST, Replays
from .runtime.tape import Tape, TooLarge
from .steps import Job, KernelStep, compile_together

if TYPE_CHECKING:
    from .executable import NativeExecutor

#: Native code replays only calls that take fewer seconds than this, because it does not check for
#: signals.
LONG = 0.05


@runtime_checkable
class OneCall(Protocol):
    """A step that may be a single library call (`ProductStep` in products.py)."""

    slot: int

    def direct(self, run: HostRun, args: Sequence[HostArray]) -> Callable[..., Any] | None:
        """A function that repeats this call; None if it takes more than a single call."""


class ReplayedCalls:
    """Makes the calls of one program."""

    def __init__(self, owner: NativeExecutor) -> None:
        self.owner, program = owner, owner.program
        self.inputs = len(program.inputs)
        self.replays = Replays(len(program.arguments))
        self.recordable = not program.settings.check
        self.prepared = False
        self.took = 0.0  # seconds that the last call took
        step = owner.actions[0] if len(owner.actions) == 1 else None
        #: The product that is the complete program.
        self.product: OneCall | None = None
        if isinstance(step, OneCall) and owner.results == [step.slot]:
            self.product = step

    def _prepare(self, run: HostRun) -> None:
        """Compile the kernels that the first call launches and that are not on disk, several at a
        time, as far as they are known before the call."""
        compile_together(self._launched(run))

    def _launched(self, run: HostRun) -> Iterator[Job]:
        steps = cast("list[KernelStep]", self.owner.kernel_steps)
        # Those of the most operations first: LLVM is then done with them when the others are ready.
        for step in sorted(steps, key=lambda s: -len(walk(tuple(computed(s.node))))):
            # Nothing is compiled ahead where the kernels depend on what other nodes compute, nor
            # for arrays that are copied first or reshaped: dense ones need no kernel.
            if step.reshaped is not None:
                continue
            chosen = step.chosen(run) if step.decided(run) else None
            if chosen is not None and not chosen[1]:
                yield from chosen[0].ahead(run)

    def __call__(self, data: Sequence[Any], params: Params) -> list[HostArray]:
        began = time.thread_time()
        run = HostRun(self._slots(data), params)
        if not self.prepared:
            self.owner.verify(run)
            self._prepare(run)
            self.prepared = True
        self.owner.work(run)
        found: list[HostArray] = []
        taken: list[Any] = [*data, *run.slots[: self.inputs]]  # results must not alias these
        for slot in self.owner.results:
            array = run.slots[slot]
            for other in taken:
                if array is other or memory_of(array) is memory_of(other):
                    array = np.array(array, order="C")
                    break
            taken.append(array)
            found.append(array)
        self.took = time.thread_time() - began
        return found

    def _slots(self, data: Sequence[Any]) -> Slots:
        return self.owner.slots([readable(d) for d in data])

    def replay(
        self, args: Sequence[Any], data: Sequence[Any], params: Params
    ) -> Callable[..., Any] | None:
        plain = all(type(d) is np.ndarray for d in data)
        if self.product is not None and self.recordable and plain and not params:
            run = HostRun(self._slots(data), params)
            same = all(x is d for x, d in zip(args, data, strict=False)) and all(
                x is d for x, d in zip(data, run.slots, strict=False)
            )
            found = self.product.direct(run, cast("Sequence[HostArray]", args)) if same else None
            if found is not None:
                return found
        if self.recordable and plain and self.replays.missed(args, data) and self.took < LONG:
            try:
                self._record(args, data, params)
            except TooLarge:
                pass
            except Unrecordable:
                self.replays.failed()
        return self.replays.function

    def _record(self, args: Sequence[Any], data: Sequence[HostArray], params: Params) -> None:
        if any(readable(d) is not d for d in data):
            raise Unrecordable("an array that kernels do not read as it is")
        tape = Tape(LARGEST)
        inputs = [d.view() for d in data]  # the same array may be several arguments
        run = HostRun(self.owner.slots(inputs), params, tape)
        self.owner.work(run)
        tape.pinned |= run.pinned
        results: dict[int, HostArray] = {}
        for slot in self.owner.results:
            array = run.dense(slot)
            if id(array) in results or not tape.made(array):
                array = run.new(array.shape, array.dtype)
                run.copy(array, slot)
            results[id(array)] = array
        used = *inputs, *results.values()
        jobs = merge(tape, used, self.owner.device.merged, dict(enumerate(params)))
        tape.release(KEPT, results)
        self.replays.add(tape, args, data, inputs, list(results.values()))
        if jobs:
            later(partial(_record_again, self.replays, jobs), 0.0)


def _record_again(replays: Replays, jobs: Sequence[Callable[[], object]]) -> None:
    """Compile loops; the next calls are then recorded with them."""
    for job in jobs:
        job()
    replays.clear()


def readable(value: Any) -> HostArray:
    """Host data for kernels: aligned, in native byte order, strides in whole elements."""
    if type(value) is np.ndarray and value.flags.carray and value.dtype.isnative:
        return value
    array = host_array(value.get() if hasattr(value, "__cuda_array_interface__") else value)
    whole = all(s % array.itemsize == 0 for s in array.strides)
    return array if array.flags.aligned and whole else np.array(array, order="C")
