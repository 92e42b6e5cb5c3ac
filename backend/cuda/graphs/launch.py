"""Replaying a tape: packed launches, planned memory, CUDA graphs for repeated operations."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from treadle.dsl.process import locks
from treadle.dsl.process.recent import Recent

from ...runtime.types import DeviceArray, Numbers
from ..device.device import Block, Call, Copy, Fill, Launch, Operation, Repeat
from ..device.driver import DriverDevice, enter, explained, stream_here
from ..device.optional import DriverError, runtime
from ..gpu import Gpu
from . import captured, graphs, one_block, queued
from .captured import Captures
from .tape import Tape, flattened, plan_memory, sharing

#: Programs with more bytes of intermediate arrays than this reuse their memory, as far as graphs do
#: not need it; those with more for each operation are not launch-bound.
GRAPH_BYTES, OPERATION_BYTES = 64 << 20, 16 << 20
#: A graph is built for addresses that recur; each tape caches at most this many.
GRAPHS = 4
#: A loop that launches a graph at least this many times builds it on the first run.
LONG = 8
#: The fewest operations between library calls and loops that are launched as a graph.
LEAST = 4
#: Operations of a loop that may be part of a graph that somebody captures.
LARGEST = 1 << 13
_SEEN = 16
_DEVICE_TO_HOST = 2


class RepeatStep:
    """A loop.  A counted loop runs chunks of iterations as CUDA graphs; a loop with a test runs as
    a conditional node, or is driven by the host."""

    def __init__(self, device: DriverDevice, op: Repeat, indices: dict[Block, int]) -> None:
        self.device, self.op = device, op

        def steps(ops: Sequence[Operation]) -> list[queued.Step]:
            return [step_of(device, o, indices) for o in ops]

        self.even, self.odd = steps(op.even), steps(op.odd)
        self.testing = steps(op.testing[0]), steps(op.testing[1])
        self.test = None if op.test is None else (indices[op.test[0]], indices[op.test[1]])
        back = zip(op.front, op.back, strict=True)
        self.back = [queued.CopyStep(Copy(t, s), indices) for t, s in back if t is not s]
        simple = not any(isinstance(o, Repeat) or _strided(o) for o in op.inside)
        called = any(isinstance(o, Call) for o in op.inside)
        self.captures = _captures(device, op.inside)
        self.chunk = 0
        if simple and op.trips is not None and (not called or self.captures is not None):
            self.chunk = graphs.chunk_of(op)
        self.conditional = (
            simple and not called and op.test is not None and graphs.conditional(device) is None
        )
        self.addresses: list[int] = []
        self.graphs = Recent[Hashable, graphs.ExecutableGraph](GRAPHS)
        self.seen = Recent[Hashable, None](_SEEN)
        self.parts = [*self.even, *self.odd, *self.testing[0], *self.testing[1], *self.back]
        self.indices = {b: indices[b] for b in (*op.reads, *op.writes)}
        self.touched = sorted(set(self.indices.values()))
        self.varying = [s for s in _launches(self.parts) if s.varying is not None]
        self.choice = one_block.Choice.of(device, op)

    def bind(self, addresses: Sequence[int]) -> None:
        self.addresses = list(addresses)
        for step in self.parts:
            step.bind(addresses)

    def shared(self) -> dict[Block, list[Block]]:
        """The blocks of the loop that share memory; see `tape.sharing`."""
        return sharing({b: self.addresses[k] for b, k in self.indices.items()})

    def run(self, stream: int) -> None:
        if self.choice is None:
            self._by_kernels(stream)
        else:
            self.choice.run(self, stream, lambda: self._by_kernels(stream))

    def _by_kernels(self, stream: int) -> None:
        if self.test is not None:
            if self.conditional:
                self.graphs.made(self._key(0), lambda: graphs.while_graph(self)).launch(stream)
            else:
                self._host_tested(stream)
            return
        assert self.op.trips is not None
        left, key = self.op.trips, self._key(stream)
        if queued.capturing.here:
            if left * len(self.parts) > LARGEST:
                raise DriverError("CUDA_ERROR_NOT_SUPPORTED", "a graph of a long loop")
        elif self.chunk and left >= 2 * self.chunk and self._worth_a_graph(left, key):
            capture = None if self.captures is None else self.captures.on(stream)
            graph = self.graphs.made(
                key, lambda: graphs.iterations_graph(self, self.chunk, capture)
            )
            while left >= self.chunk:
                graph.launch(stream)
                left -= self.chunk
        for iteration in range(left):
            for step in (self.even, self.odd)[iteration % 2]:
                step.run(stream)

    def _key(self, stream: int) -> tuple[Hashable, ...]:
        """What a graph of this loop is specialised to: addresses, scalar arguments computed from
        parameters, and the stream whose workspace its products use."""
        places = (self.addresses[k] for k in self.touched)
        return (*places, *(v.values for v in self.varying), *_used(self.captures, stream))

    def _worth_a_graph(self, count: int, key: tuple[Hashable, ...]) -> bool:
        """Whether the loop has many iterations, or has run with this key before."""
        return count >= LONG * self.chunk or key in self.graphs or self.seen.seen(key)

    def _host_tested(self, stream: int) -> None:
        """Run the loop; the host waits for the result of each test."""
        assert self.test is not None
        holds = np.empty((), np.bool_)
        iteration = 0
        while True:
            for step in self.testing[iteration % 2]:
                step.run(stream)
            address = self.addresses[self.test[iteration % 2]]
            runtime.memcpyAsync(holds.ctypes.data, address, 1, _DEVICE_TO_HOST, stream)
            runtime.streamSynchronize(stream)
            if not holds:
                break
            for step in (self.even, self.odd)[iteration % 2]:
                step.run(stream)
            iteration += 1
        if iteration % 2:
            for step in self.back:
                step.run(stream)


def _strided(op: Operation) -> bool:
    return isinstance(op, Copy) and not op.source.dense


def _captures(device: DriverDevice, operations: Sequence[Operation]) -> Captures | None:
    """What captures the library calls of these operations; None if some cannot be captured, or
    there are none."""
    calls = [op for op in operations if isinstance(op, Call)]
    if not calls or not all(op.addressed for op in calls):
        return None
    return captured.captures(device)


def _used(captures: Captures | None, stream: int) -> tuple[int, ...]:
    return () if captures is None else (stream,)


def graph_parts(
    operations: Sequence[Operation], early: int, captures: bool = False
) -> dict[int, int]:
    """The operations that graphs launch: the end of each part by its start.  A program without
    loops and library calls is one part; otherwise parts lie between these, before the first
    `early` operations or after them.  `captures`: calls of cuBLAS lie within parts."""

    def alone(op: Operation) -> bool:
        if isinstance(op, Call):
            return not (captures and op.addressed)
        return isinstance(op, Repeat) or _strided(op)

    apart = [alone(op) for op in operations]
    count = len(operations)
    if not any(apart):
        return {0: count} if count > 1 else {}
    ends = sorted({*(k for k, alone in enumerate(apart) if alone), early, count})
    starts = [0, *(k + apart[k] for k in ends[:-1])]
    return {a: b for a, b in zip(starts, ends, strict=True) if b - a >= LEAST}


def step_of(device: DriverDevice, op: Operation, indices: dict[Block, int]) -> queued.Step:
    """The step of an operation; its blocks become positions in a list of addresses."""
    match op:
        case Launch():
            return queued.LaunchStep(op, indices)
        case Fill():
            return queued.FillStep(op, indices)
        case Copy():
            if op.source.dense:
                return queued.CopyStep(op, indices)
            return queued.ArrayStep(device, (op.source,), (op.target,), queued.copy_array, indices)
        case Call(addressed=None):
            return queued.ArrayStep(device, op.reads, op.writes, op.action, indices)
        case Call():
            return queued.AddressStep(op, indices)
        case Repeat():
            return RepeatStep(device, op, indices)


class Replay:
    """A tape on a device, callable: (input arrays, parameters) → result arrays, followed by the
    contents of the tape's `numbers`.  It waits for these after it has queued all operations."""

    def __init__(self, device: DriverDevice, tape: Tape) -> None:
        tape, self.early = tape.numbers_first()
        self.device = device
        operations = tape.operations
        products = [op for op in operations if isinstance(op, Call) and op.addressed]
        self.captures = _captures(device, products) if len(operations) > 1 else None
        self.parts = graph_parts(operations, self.early, self.captures is not None)
        offsets, size = plan_memory(tape, reuse=False)
        self.shared: dict[Block, list[Block]] = {}
        if not self.parts or size > GRAPH_BYTES:
            if size > len(operations) * OPERATION_BYTES:
                self.parts = {}
            offsets, size = plan_memory(tape)
            self.shared = sharing(offsets) if self.parts else {}
        self.whole = self.parts.get(0) == len(operations)
        self.size, self.offsets = size, tuple(offsets.values())
        self.results = tape.results
        self.made = [(r.shape, r.dtype) for r in tape.results if isinstance(r, Block)]
        blocks = [*tape.inputs, *(r for r in tape.results if isinstance(r, Block)), *offsets]
        indices = {b: k for k, b in enumerate(blocks)}
        self.operations, self.numbers = operations, tape.numbers
        self.steps = [step_of(device, op, indices) for op in operations]
        self.varying = [s for s in _launches(self.steps) if s.varying is not None]
        self.mailbox = device.mailbox(tape.numbers) if tape.numbers else None
        self.posted = [indices[b] for b in tape.numbers]
        self.key: list[int] | None = None
        #: The graphs of all parts, by start.
        self.graphs = Recent[Hashable, dict[int, graphs.ExecutableGraph]](GRAPHS)
        self.seen = Recent[Hashable, None](_SEEN)
        self.lock = locks.lock()

    def __call__(
        self, arrays: Sequence[DeviceArray], params: Numbers,
        into: Sequence[DeviceArray] | None = None,
    ) -> list[DeviceArray]:  # fmt: skip
        return self.run([a.data.ptr for a in arrays], params, into)

    def run(
        self, addresses: list[int], params: Numbers, into: Sequence[DeviceArray] | None = None
    ) -> list[DeviceArray]:
        """Like a call, but takes the addresses of the inputs.  The replay takes over the list.
        `into`: arrays for the results, used if all are dense and aligned."""
        device = self.device
        if (
            into is not None
            and len(into) == len(self.made) == len(self.results)
            and all(a._c_contiguous and not a.data.ptr & 15 for a in into)
        ):
            outs = list(into)
        else:
            outs = [device.empty(shape, dtype) for shape, dtype in self.made]
        addresses += [a.data.ptr for a in outs]
        if self.size:
            work = device.allocate(self.size)
            base = work.ptr
            addresses += [base + o for o in self.offsets]
        stream = stream_here()
        with self.lock:
            if addresses != self.key:
                for step in self.steps:
                    step.bind(addresses)
                self.key = addresses
            for launch in self.varying:
                launch.compute(params)
            numbers = [launch.values for launch in self.varying]
            ready = {}
            if self.parts and not queued.capturing.here:
                ready = self._graphs((*addresses, *numbers), stream)
            if ready and self.whole:
                ready[0].launch(stream)
            else:
                self._queue(0, self.early, ready, stream)
                if self.mailbox is not None:
                    self.mailbox.post([addresses[k] for k in self.posted], stream)
                self._queue(self.early, len(self.steps), ready, stream)
            found = [] if self.mailbox is None else self.mailbox.read()
        if len(outs) < len(self.results):
            made = iter(outs)
            outs = [next(made) if isinstance(r, Block) else r for r in self.results]
        return outs + found if found else outs

    def _queue(
        self, first: int, last: int, made: dict[int, graphs.ExecutableGraph], stream: int
    ) -> None:
        """Queue some steps, those of a part that has a graph by this."""
        while first < last:
            if first in made:
                made[first].launch(stream)
                first = self.parts[first]
            else:
                self.steps[first].run(stream)
                first += 1

    def _graphs(self, key: tuple[Any, ...], stream: int) -> dict[int, graphs.ExecutableGraph]:
        """The graphs of the parts for these addresses and scalars; none if they are new."""
        key += _used(self.captures, stream)
        found = self.graphs.get(key)
        if found is not None:
            return found
        if not self.seen.seen(key):
            return {}
        post = None
        if self.mailbox is not None and self.whole:
            post = self.mailbox, [key[k] for k in self.posted], self.numbers
        capture = None if self.captures is None else self.captures.on(stream)
        self.graphs[key] = made = {
            a: graphs.program_graph(
                self.operations[a:b], self.steps[a:b], post, self.shared, capture
            )
            for a, b in self.parts.items()
        }
        return made


def _launches(steps: Sequence[queued.Step]) -> list[queued.LaunchStep]:
    found = []
    for s in steps:
        if isinstance(s, queued.LaunchStep):
            found.append(s)
        elif isinstance(s, RepeatStep):
            found += _launches(s.parts)
    return found


def repeat(device: DriverDevice, op: Repeat) -> None:
    """Run a loop whose blocks are allocated."""
    blocks: dict[Block, int] = {}
    addresses: list[int] = []
    for inner in flattened((op,)):
        for b in (*inner.reads, *inner.writes):
            if b not in blocks:
                blocks[b] = len(addresses)
                addresses.append(b.array.data.ptr)
    step = RepeatStep(device, op, blocks)
    step.bind(addresses)
    step.run(stream_here())


class CudaDevice(Gpu, DriverDevice):
    """See `device.Device`.  There is one instance per GPU of the machine."""

    @staticmethod
    def current() -> CudaDevice:
        """CuPy's current device."""
        try:
            enter()
            return _device(runtime.getDevice())
        except runtime.CUDARuntimeError as error:
            raise explained(error, "the GPU", "it") or error from None

    def repeat(self, operation: Repeat) -> None:
        repeat(self, operation)

    def prepare(self, tape: Tape) -> Replay:
        return Replay(self, tape)


@lru_cache(maxsize=64)
def _device(ordinal: int) -> CudaDevice:
    return CudaDevice(ordinal)
