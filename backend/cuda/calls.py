"""The calls of a program on a GPU: recorded per layout of the arrays, and replayed.  Programs whose
control flow depends on array contents, and checked mode, run step by step."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from treadle.dsl.frontend.sources import host_array
from treadle.dsl.process import locks
from treadle.dsl.process.locks import cached
from treadle.dsl.process.recent import Recent
from treadle.skeletons.lower.pieces import NotDivisible, pieces_of

from ..runtime.executor import Executor
from ..runtime.run import Params, Unrecordable
from ..runtime.types import DeviceArray, HostArray
from .device.device import Block, Code, Copy, Device, Replay
from .graphs.tape import DeferredChecks, Direct, Recorder, Tape
from .pieces import PiecewiseCalls
from .running import DeviceRun
from .steps import GuardFailure

if TYPE_CHECKING:
    from .executable import CudaExecutor

_ndarray = np.ndarray

#: Maximum recordings per program; there is one for each combination of extents and layouts.
TAPES = 64


class Recording(NamedTuple):
    """A recording of a program for some input layouts: the positions of the inputs that it reads,
    its constant arrays, its replay, and its checks."""

    used: list[int]
    constants: list[DeviceArray]
    replay: Replay
    checks: DeferredChecks | None


class RecordedCalls:
    """Makes the calls of one program."""

    def __init__(self, owner: CudaExecutor) -> None:
        self.owner, self.device = owner, owner.device
        self.tapes = Recent[Hashable, Recording](TAPES)
        #: The parameters for whose values recordings are specialised.
        self.pinned: tuple[int, ...] = ()
        self.recordable = not owner.program.settings.check
        self.lock = locks.lock()
        self.others: dict[Device, CudaExecutor] = {}
        self.dispatcher: Any = None

    def __call__(
        self, data: Sequence[Any], params: Params, into: Sequence[DeviceArray] | None = None
    ) -> list[Any]:
        """Run; results are on the device if any input is, and in `into` where possible."""
        try:
            if self.device.is_current():
                return self._call(data, params, into)
            calls = self._elsewhere().calls
            assert isinstance(calls, RecordedCalls)
            return calls(data, params, into)
        except Exception as error:
            made = self.device.error(error)
            if made is None:
                raise
            raise made from None

    def _elsewhere(self) -> CudaExecutor:
        """The executor of the same program for the current GPU."""
        device = self.device.current()
        with self.lock:
            found = self.others.get(device)
            if found is None:
                found = self.others[device] = Executor(self.owner.program, device)
        return found

    def _call(
        self, data: Sequence[Any], params: Params, into: Sequence[DeviceArray] | None
    ) -> list[Any]:
        arrays: list[DeviceArray] = []
        key: list[Any] = []
        on_device = self.owner.program.stays
        for d in data:
            found = self.device.adopt(d)
            if found is None:
                arrays.append(readable(d))
                key.append(d.shape)
            else:
                on_device = True
                arrays.append(found[0])
                key.append(found[1])
        key.append(on_device)
        if self.recordable:
            try:
                if not on_device and self.piecewise is not None:
                    made = self.piecewise(arrays, params)
                    if made is not None:
                        return made
                recorded = self.recording(arrays, params, key)
                return self._replay(recorded, arrays, params, on_device, into)
            except GuardFailure:
                pass
            except Unrecordable:
                self.recordable = False
        return self._direct(arrays, params, on_device)

    @cached
    def piecewise(self) -> PiecewiseCalls | None:
        """Splits calls with large host arrays into pieces; None if the program cannot be split."""
        program = self.owner.program
        try:
            how = pieces_of(program.roots, program.inputs, program.settings.check)
        except NotDivisible:
            return None
        # It shares the kernels, but not the recordings: only pieces have the extents of pieces.
        return PiecewiseCalls(self.owner, RecordedCalls(self.owner), how)

    def recording(self, arrays: list[DeviceArray], params: Params, key: list[Any]) -> Recording:
        """The recording of the program for inputs of these layouts, created on first use."""
        if self.pinned:
            found = self.tapes.get((*key, *(params[k] for k in self.pinned)))
        else:
            found = self.tapes.get(tuple(key))
        return self._record(arrays, params, key) if found is None else found

    def replay(
        self, args: Sequence[Any], data: Sequence[Any], params: Params
    ) -> Callable[..., Any] | None:
        """See `Dispatcher`: for arrays on the device and scalar arguments.  None where calls
        cannot be cached: captured arrays, scalars that determine extents, host arrays."""
        if not self.recordable or self.pinned or len(data) + len(params) != len(args):
            return None
        if self.dispatcher is None:
            self.dispatcher = self.device.dispatcher(args, GuardFailure)
        if self.dispatcher is not None:
            found = [self.device.adopt(d) for d in data]
            key = (*(None if f is None else f[1] for f in found), True)
            recorded = self.tapes.get(key)
            if recorded is None or any(key[k] != d.shape for k, d in enumerate(data)):
                return None
            used, constants, replay, checks = recorded
            order = None if used == list(range(len(data))) and not constants else used
            self.dispatcher.add(args, (order, [c.data.ptr for c in constants], replay, checks))
        dispatcher: Callable[..., Any] | None = self.dispatcher
        return dispatcher

    def _replay(
        self, recorded: Recording, arrays: list[DeviceArray], params: Params, on_device: bool,
        into: Sequence[DeviceArray] | None,
    ) -> list[Any]:  # fmt: skip
        device = self.device
        used, constants, run, checks = recorded
        given = [device.upload(a) if type(a) is _ndarray else a for a in [arrays[k] for k in used]]
        if checks is not None:
            checks.before(params)
        found = run(given + constants, params, into)
        if checks is not None:
            found = checks(found, params)
        if on_device:
            return found
        return [np.array(r) if type(r) is _ndarray else device.download(r) for r in found]

    def _as_blocks(self, arrays: Sequence[Any]) -> list[HostArray | Block]:
        """The arrays of a call; those on the device become blocks."""
        return [a if type(a) is _ndarray else self.device.block(a) for a in arrays]

    def _record(self, arrays: list[DeviceArray], params: Params, key: list[Any]) -> Recording:
        owner, device = self.owner, self.device
        blocks = [
            Block(f.shape, f.dtype, kind="input", strides=f.strides, dense=f.dense,
                  aligned=f.aligned) if isinstance(f, Block)
            else Block(f.shape, f.dtype, kind="input") for f in self._as_blocks(arrays)
        ]  # fmt: skip
        recorder = Recorder(device)
        recorder.deferred = []
        run = DeviceRun(recorder, owner.slots(blocks), params)
        tables, brought = [], list(owner.tables)  # (kernels that the run makes may add others)
        for slot, table in brought:
            tables.append(Block(table.shape, table.dtype, kind="input"))
            run.slots[slot] = tables[-1]
        owner.work(run)
        results = self._own(run, key[-1])
        checks = DeferredChecks(recorder.deferred, len(results))
        tape = Tape((*blocks, *tables), tuple(recorder.operations), tuple(results),
                    tuple(checks.blocks))  # fmt: skip
        touched = _touched(tape)
        recorder.constants = [c for c in recorder.constants if c[0] in touched]
        made = [b for b, _ in recorder.constants]
        used = [k for k, b in enumerate(blocks) if b in touched]
        inputs = (*(blocks[k] for k in used), *tables, *made)
        tape = replace(tape, inputs=inputs)
        device.compile([c for c in tape.codes if c.function is None])
        constants = [device.upload(t) for _, t in brought]
        constants += [device.upload(c) for _, c in recorder.constants]
        recorded = Recording(used, constants, device.prepare(tape), checks if recorder.deferred
                             else None)  # fmt: skip
        pinned = tuple(sorted(run.pinned.union(self.pinned)))
        with self.lock:
            if pinned != self.pinned:
                self.tapes.clear()
                self.pinned = pinned
            self.tapes[(*key, *(params[k] for k in pinned))] = recorded
        return recorded

    def _direct(self, arrays: list[DeviceArray], params: Params, on_device: bool) -> list[Any]:
        """Run step by step: for data-dependent control flow and checked mode."""
        queue = Direct(self.device)
        run = DeviceRun(queue, self.owner.slots(self._as_blocks(arrays)), params)
        self.compile()
        self.owner.work(run)
        found = []
        for r in self._own(run, on_device):
            if isinstance(r, Block):
                found.append(r.array if on_device else queue.download(r))
            else:
                found.append(np.array(r))
        return found

    def _own(self, run: DeviceRun, on_device: bool) -> list[HostArray | Block]:
        """The results: blocks distinct from the inputs and from each other.  Unless `on_device`,
        host arrays stay on the host."""
        found: list[HostArray | Block] = []
        taken: set[Block] = set()
        for slot in self.owner.results:
            result = run.slots[slot]
            if isinstance(result, Block) or on_device:
                block = run.array(slot)
                if block.kind == "input" or block in taken:
                    made = run.new(block.shape, block.dtype)
                    run.queue.put(Copy(made, block))
                    block = made
                taken.add(block)
                result = block
            found.append(result)
        return found

    def compile(self) -> None:
        """Compile the kernels that are most likely to run, several in parallel."""
        codes = [c for c in self.codes() if c.function is None]
        if codes:
            self.device.compile(codes)

    def codes(self) -> list[Code]:
        """The variant of every kernel that is most likely to run."""
        # (Dense arrays in another shape need no kernel.)
        steps = (s for s in self.owner.kernel_steps if s.reshaped is None)
        first = [v[0] for s in steps for v in s.dense.launches]
        return [(v.narrow or v).code for v in first]


def _touched(tape: Tape) -> set[Block]:
    found = {r for r in tape.results if isinstance(r, Block)}
    for op in tape.operations:
        found.update(op.reads, op.writes)
    return found


def readable(value: Any) -> HostArray:
    """Host data in a form that can be copied: a NumPy array in native byte order."""
    if type(value) is np.ndarray and value.dtype.isnative:
        return value
    found: HostArray = host_array(value)
    return found
