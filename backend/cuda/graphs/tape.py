"""Recording a program's operations for given extents, and replaying them.

Recording runs nothing and allocates no memory: blocks are layouts, operations a list.  Programs
whose control flow depends on the contents of arrays cannot be recorded (`Unrecordable`).  A tape is
cheap to replay: its launches are packed once, its memory is planned, and its operations can become
a CUDA graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from treadle.dsl.records import dataclass

from ...runtime.run import Unrecordable
from ...runtime.types import DType, HostArray
from ..device.device import Block, Call, Code, Copy, Device, Fill, Launch, Operation, Repeat

#: The alignment of blocks in planned memory, in bytes.
ALIGNMENT = 256


@dataclass(frozen=True, eq=False)
class Tape:
    """`inputs` are blocks whose memory the caller of each replay provides; `results` are blocks
    that the replay computes (host constants are rank-0 NumPy arrays).  `numbers` are rank-0 blocks
    that the host reads as soon as they are computed; a replay returns their contents after the
    results."""

    inputs: tuple[Block, ...]
    operations: tuple[Operation, ...]
    results: tuple[Block | HostArray, ...]
    numbers: tuple[Block, ...] = ()

    @property
    def codes(self) -> list[Code]:
        """The code of every kernel, without duplicates."""
        launches = (op for op in flattened(self.operations) if isinstance(op, Launch))
        return list(dict.fromkeys(op.code for op in launches))

    @property
    def work(self) -> list[Block]:
        """The blocks for which a replay needs memory, in order of first use, including results."""
        outside = set(self.inputs)
        seen: dict[Block, None] = {}
        for op in flattened(self.operations):
            for b in (*op.writes, *op.reads):
                if b not in outside:
                    seen[b] = None
        for r in self.results:
            if isinstance(r, Block) and r not in outside:
                seen[r] = None
        return list(seen)

    def numbers_first(self) -> tuple[Tape, int]:
        """The tape with the operations that `numbers` depend on moved to the front, and their
        count.  The other operations run while the host waits for `numbers`."""
        if not self.numbers:
            return self, 0
        needs = dependencies(self.operations)
        wanted = {k for k, op in enumerate(self.operations)
                  if any(b in self.numbers for b in op.writes)}  # fmt: skip
        for k in range(len(self.operations) - 1, -1, -1):
            if k in wanted:
                wanted.update(needs[k])
        order = sorted(range(len(self.operations)), key=lambda k: k not in wanted)
        return replace(self, operations=tuple(self.operations[k] for k in order)), len(wanted)


def flattened(operations: Sequence[Operation]) -> Iterator[Operation]:
    """Every operation; the operations inside a loop follow the loop itself."""
    for op in operations:
        yield op
        if isinstance(op, Repeat):
            yield from flattened(op.inside)


@dataclass(frozen=True, eq=False)
class DeferredCheck:
    """A check of parameters, made before a replay, or of scalars that a program computes: after it
    `require` takes the contents of `blocks` (rank 0) and the parameters, and raises if the check
    fails.  Until then kernels may run on invalid values."""

    blocks: tuple[Block, ...]
    require: Callable[[Sequence[Any], Sequence[Any]], None]


class DeferredChecks:
    """The checks of a recording that depend on parameters and on scalars on the device (`blocks`).
    A replay returns these scalars after its `results` results."""

    def __init__(self, deferred: Sequence[DeferredCheck], results: int) -> None:
        self.first = [v for v in deferred if not v.blocks]
        self.deferred, self.results = [v for v in deferred if v.blocks], results
        self.blocks = list(dict.fromkeys(b for v in deferred for b in v.blocks))
        self.positions = [[self.blocks.index(b) for b in v.blocks] for v in self.deferred]

    def before(self, params: Sequence[Any]) -> None:
        """Make the checks that need no replay."""
        for check in self.first:
            check.require((), params)

    def __call__(self, found: list[Any], params: Sequence[Any]) -> list[Any]:
        """The results of the program, after every check has passed."""
        numbers = found[self.results :]
        for check, positions in zip(self.deferred, self.positions, strict=True):
            check.require([numbers[k] for k in positions], params)
        return found[: self.results]


class Direct:
    """A queue that runs each operation immediately."""

    recording = False
    deferred: list[DeferredCheck] | None = None

    def __init__(self, device: Device) -> None:
        self.device = device

    def block(self, shape: tuple[int, ...], dtype: DType) -> Block:
        """A block of new, uninitialised memory."""
        return Block(shape, dtype, self.device.empty(shape, dtype))

    def put(self, op: Operation) -> None:
        if isinstance(op, Launch) and op.code.function is None:
            self.device.compile([op.code])
        self.device.run(op)

    def upload(self, value: HostArray) -> Block:
        return Block(value.shape, value.dtype, self.device.upload(value))

    def constant(self, value: HostArray) -> Block:
        """A read-only array that the host computed for these extents."""
        return Block(value.shape, value.dtype, self.device.upload(value), kind="input")

    def download(self, block: Block) -> HostArray:
        return self.device.download(block.array)


class Recorder:
    """A queue that records operations, as part of the recording `outer` if that is given.

    `constants` are host arrays that every replay needs on the device.  `deferred` are the checks of
    scalars on the device that run after a replay; None where checks cannot be deferred (in loops).
    """

    recording = True

    def __init__(self, device: Device, outer: Queue | None = None) -> None:
        self.device, self.outer = device, outer
        self.operations: list[Operation] = []
        self.constants: list[tuple[Block, HostArray]] = []
        self.deferred: list[DeferredCheck] | None = None

    def block(self, shape: tuple[int, ...], dtype: DType) -> Block:
        return Block(shape, dtype)

    def put(self, op: Operation) -> None:
        self.operations.append(op)

    def upload(self, value: HostArray) -> Block:
        if value.size != 1:  # from numbers of the host: what else it is made of is not recorded
            return self.constant(value)
        made = self.block(value.shape, value.dtype)
        self.put(Fill(made, value.reshape(())))
        return made

    def constant(self, value: HostArray) -> Block:
        if self.outer is not None:
            return self.outer.constant(value)
        made = Block(value.shape, value.dtype, kind="input")
        self.constants.append((made, value))
        return made

    def download(self, block: Block) -> HostArray:
        raise Unrecordable("the contents of an array decide what runs next")


Queue = Direct | Recorder


# --- operations on other blocks -------------------------------------------------------------------


def renamed(operations: Sequence[Operation], names: Mapping[Block, Block]) -> tuple[Operation, ...]:
    """The operations with some blocks replaced by others."""

    def at(block: Block) -> Block:
        return names.get(block, block).reshaped(block.shape)

    def all_of(blocks: Sequence[Block]) -> tuple[Block, ...]:
        return tuple(map(at, blocks))

    def one(op: Operation) -> Operation:
        match op:
            case Launch():
                errors = None if op.errors is None else at(op.errors)
                return replace(op, blocks=all_of(op.blocks), errors=errors)
            case Fill():
                return Fill(at(op.block), op.value)
            case Copy():
                return Copy(at(op.target), at(op.source))
            case Call():
                return replace(op, reads=all_of(op.reads), writes=all_of(op.writes))
            case Repeat():
                first, second = (renamed(part, names) for part in op.testing)
                test = None if op.test is None else (at(op.test[0]), at(op.test[1]))
                return replace(
                    op, front=all_of(op.front), back=all_of(op.back), even=renamed(op.even, names),
                    odd=renamed(op.odd, names), testing=(first, second), test=test,
                )  # fmt: skip

    return tuple(map(one, operations))


# --- memory --------------------------------------------------------------------------------------


def lifetimes(tape: Tape) -> dict[Block, tuple[int, int]]:
    """First and last position (in flattened execution order) at which each block is live.

    A block that a loop reads from before it, or carries between iterations, is live during the
    complete loop.
    """
    spans: dict[Block, tuple[int, int]] = {}
    position = 0

    def touch(b: Block, first: int, last: int) -> None:
        old = spans.get(b)
        spans[b] = (first, last) if old is None else (min(old[0], first), max(old[1], last))

    def walk(ops: Sequence[Operation]) -> None:
        nonlocal position
        for op in ops:
            position += 1
            if not isinstance(op, Repeat):
                for b in (*op.reads, *op.writes):
                    touch(b, position, position)
                continue
            start = position
            before = set(spans)
            walk(op.inside)
            position += 1
            kept = {*op.front, *op.back, *(op.test or ())}
            for b in op.reads:
                if b in before or b in kept:
                    touch(b, start, position)

    walk(tape.operations)
    end = position + 1
    for r in (*tape.results, *tape.numbers):
        if isinstance(r, Block):
            touch(r, end, end)
    return spans


def plan_memory(tape: Tape, *, reuse: bool = True) -> tuple[dict[Block, int], int]:
    """Offsets, in one allocation, of the blocks that are neither inputs nor results, and the size
    of the allocation.  With `reuse`, a block may reuse the memory of blocks that are dead."""
    aside = {*tape.inputs, *(r for r in tape.results if isinstance(r, Block))}
    spans = lifetimes(tape)
    order = sorted((b for b in spans if b not in aside), key=lambda b: spans[b][0])
    offsets: dict[Block, int] = {}
    free: list[tuple[int, int]] = []  # (offset, size), by offset
    active: list[tuple[int, int, int]] = []  # (last use, offset, size)
    top = 0
    for b in order:
        size = -(-max(b.nbytes, 1) // ALIGNMENT) * ALIGNMENT
        if reuse:
            first = spans[b][0]
            ended = [a for a in active if a[0] < first]
            if ended:
                active = [a for a in active if a[0] >= first]
                free = _merged([*free, *((o, s) for _, o, s in ended)])
        fitting = [f for f in free if f[1] >= size]
        if fitting:
            offset, room = min(fitting, key=lambda f: f[1])
            free.remove((offset, room))
            if room > size:
                free = _merged([*free, (offset + size, room - size)])
        else:
            offset, top = top, top + size
        offsets[b] = offset
        active.append((spans[b][1], offset, size))
    return offsets, top


def _merged(pieces: list[tuple[int, int]]) -> list[tuple[int, int]]:
    made: list[tuple[int, int]] = []
    for offset, size in sorted(pieces):
        if made and made[-1][0] + made[-1][1] == offset:
            made[-1] = (made[-1][0], made[-1][1] + size)
        else:
            made.append((offset, size))
    return made


# --- order ---------------------------------------------------------------------------------------

Rounds = Literal["two", "beside", "after"]


def rounds_of(loop: Repeat) -> Rounds:
    """How a conditional graph node iterates over a loop with a test.

    two: rounds of two iterations.  The test after the first runs concurrently with the second
    iteration, which may be one too many.
    beside: rounds of one iteration, whose state is copied back concurrently with its test.
    after: rounds of one iteration, whose state is copied back before the test, because the
    iteration reads what the test computed (or one kernel computes the test and the next state).
    """
    looked = {b for part in loop.testing for op in flattened(part) for b in op.writes}
    if looked & {*loop.front, *loop.back}:
        return "after"
    if loop.harmless:
        return "two"
    return "after" if any(looked.intersection(op.reads) for op in loop.even) else "beside"


_DISJOINT: Mapping[Block, Sequence[Block]] = {}


def sharing(offsets: Mapping[Block, int]) -> dict[Block, list[Block]]:
    """For each block the others whose memory overlaps its own; `offsets` are addresses in bytes."""
    found: dict[Block, list[Block]] = {}
    active: list[Block] = []
    for b in sorted((b for b in offsets if b.nbytes), key=offsets.__getitem__):
        active = [a for a in active if offsets[a] + a.nbytes > offsets[b]]
        for a in active:
            found.setdefault(a, []).append(b)
            found.setdefault(b, []).append(a)
        active.append(b)
    return found


def dependencies(
    operations: Sequence[Operation], shared: Mapping[Block, Sequence[Block]] = _DISJOINT
) -> list[list[int]]:
    """For each operation the earlier operations that must finish before it: those that wrote a
    block it accesses, and those that accessed a block it writes.  `shared`: blocks whose memory
    overlaps."""
    writer: dict[Block, int] = {}
    readers: dict[Block, list[int]] = {}
    found: list[list[int]] = []
    for k, op in enumerate(operations):
        needs: set[int] = set()
        writes = set(op.writes)
        for b in {*op.reads, *writes}:
            if b in writer:
                needs.add(writer[b])
            if b in writes:
                needs.update(readers.get(b, ()))
                for other in shared.get(b, ()):
                    if other in writer:
                        needs.add(writer[other])
                    needs.update(readers.get(other, ()))
        for b in op.reads:
            if b not in writes:
                readers.setdefault(b, []).append(k)
        for b in writes:
            writer[b], readers[b] = k, []
        needs.discard(k)
        found.append(sorted(needs))
    return _reduced(found)


def _reduced(needs: list[list[int]]) -> list[list[int]]:
    """Remove dependencies implied by others, for implications of one step (most of them)."""
    return [
        [d for d in mine if not any(d in needs[other] for other in mine if other > d)]
        for mine in needs
    ]
