"""Loops of small launches as one kernel.

Replaying a launch takes some 20 ns besides its work.  A recorded loop whose launches one thread
runs anyway is compiled as a whole (`codegen/merged.py`), for the extents of the recording, if it
makes enough launches in a run.  The kernel runs some iterations at a time, so that Python may
handle signals between.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from treadle.dsl.types import bool_

from ..runtime.disk_cache import sources
from .codegen.target import Target
from .runtime import code, machine
from .runtime.late import Growing, Instruction, Late
from .runtime.structures import InstructionKind as Kind
from .runtime.tape import (
    UNLIMITED,
    Branch,
    Copy,
    Evaluate,
    Fill,
    Launch,
    Loop,
    Operation,
    Tape,
    arrays_of,
)

if TYPE_CHECKING:
    from treadle.skeletons.ir.kernel import Kernel

    from ..runtime.types import HostArray
    from .codegen.merged import MergedLoop
    from .runtime.objects import Linked

#: Launches in a run from which a loop is compiled as a whole; and from which a call waits for that,
#: which takes up to half a second.  Others go on as they are until another thread has compiled it.
MANY, AT_ONCE = 200, 200_000
#: What loops of unknown length are taken to run.
UNKNOWN = 64
#: Iterations of the kernel at a time, and of a loop that contains loops.
CHUNK, OUTER_CHUNK = 4096, 16
#: Bytes of an array that launches of unknown numbers of tasks read or write.
SMALL = 1 << 20
#: The operations of a loop, and the bytes of its LLVM IR, at most: 0.4 s for LLVM.
LONGEST, LARGEST = 64, 200_000
#: Loops of one program that are compiled: for each kind of call there are others.
MOST = 8
#: The instructions that are part of a kernel.
KINDS = frozenset((
    Kind.ADD, Kind.SUBTRACT, Kind.MULTIPLY, Kind.BITWISE_AND, Kind.BITWISE_OR, Kind.BITWISE_XOR,
    Kind.LESS, Kind.LESS_EQUAL, Kind.EQUAL, Kind.NOT_EQUAL, Kind.MINIMUM, Kind.MAXIMUM, Kind.LOAD,
    Kind.RESIZE, Kind.REQUIRE, Kind.NEGATIVE, Kind.FLOOR_DIVIDE, Kind.REMAINDER, Kind.SELECT,
    Kind.INVERT, Kind.CAST, Kind.ABSOLUTE,
))  # fmt: skip
#: Compiles a loop.
Job = Callable[[], object]


class Compiled:
    """How many loops of a program have been compiled."""

    count = 0


def merge(tape: Tape, others: Collection[HostArray], program: Compiled, limits: dict[int, int],
          many: int = MANY) -> list[Job]:  # fmt: skip
    """Replace loops on a tape of a program by kernels.  Returns what compiles those for which it is
    not worth waiting: after that, another recording has them.

    `others`: the arrays that stay in use beside it; `limits`: the values of parameters; `many`:
    launches from which a loop is worth it."""
    if not any(True for _ in _loops(tape.operations)):
        return []
    merging = _Merging(tape, others, program, limits, many)
    tape.operations[:] = merging.operations(tape.operations)
    return merging.jobs


def _loops(operations: Sequence[Operation]) -> Iterator[Loop]:
    for op in operations:
        match op:
            case Loop():
                yield op
                yield from _loops((*op.testing, *op.once, *op.rest))
            case Branch():
                yield from _loops((*op.then, *op.other))


class _Merging:
    def __init__(self, tape: Tape, others: Collection[HostArray], program: Compiled,
                 limits: dict[int, int], many: int) -> None:  # fmt: skip
        self.tape, self.program, self.limits, self.many = tape, program, limits, many
        self.jobs: list[Job] = []
        self.uses = Counter(map(id, others))
        for op in tape.operations:
            self.uses.update(_used(op))
        self.known = tape.numbers.known

    def operations(self, operations: Sequence[Operation]) -> list[Operation]:
        made = list[Operation]()
        for op in operations:
            merged = self._merged(op) if isinstance(op, Loop) else None
            if merged is not None:
                made += merged
            elif isinstance(op, Loop):
                made.append(op._replace(
                    testing=self.operations(op.testing), once=self.operations(op.once),
                    rest=self.operations(op.rest)))  # fmt: skip
            elif isinstance(op, Branch):
                then, other = self.operations(op.then), self.operations(op.other)
                made.append(op._replace(then=then, other=other))
            else:
                made.append(op)
        return made

    def _merged(self, loop: Loop) -> list[Operation] | None:
        launches = self._iterations(loop) * self._launches(loop)
        if not (launches >= self.many and _fits(loop, True)):
            return None
        from .codegen.merged import MergedLoop

        tape, nested = self.tape, any(True for _ in _loops((*loop.testing, *loop.once, *loop.rest)))
        inside = Counter(_used(loop))

        def own(array: HostArray) -> bool:
            """Whether nothing but the loop refers to an array that it makes."""
            return tape.made(array) and 0 < inside[id(array)] == self.uses[id(array)]

        if any(not own(a) for a in _resized(loop)):
            return None
        chunk, true = np.zeros((), np.int64), np.ones((), bool)
        running, okay = (tape.new((), true.dtype) for _ in range(2))
        merged = MergedLoop(loop, Target.host().regular, own, self.known,
                            OUTER_CHUNK if nested else CHUNK, (chunk, running, okay))  # fmt: skip
        compiled = _compiled(merged, self.program, self.jobs if launches < AT_ONCE else None)
        if compiled is None:
            return None
        given = tuple((k, source[0]) for k, (_, source) in enumerate(merged.scalars)
                      if isinstance(source, tuple))  # fmt: skip
        scalars = tuple(0 if isinstance(source, tuple) else Late(source)
                        for _, source in merged.scalars)  # fmt: skip
        launch = Launch(compiled, tuple(merged.arrays), scalars, 1, 0.0, given)
        found: list[Operation] = [
            Copy(running, true),
            Copy(okay, true),
            Loop(0, UNLIMITED, chunk, running, [], [], [launch], [], [], []),
        ]
        instructions = list[Instruction]()
        holds = tape.numbers.load(instructions, okay, 0, bool_)
        instructions.append(Instruction(Kind.REQUIRE, 0, holds.register))
        return [*found, Evaluate(instructions)]

    def _iterations(self, loop: Loop) -> int:
        """How many there are in a run, about."""
        limit = loop.limit
        if isinstance(limit, tuple):
            limit = self.limits.get(limit[0], UNLIMITED)
        if loop.test is not None or not isinstance(limit, int) or limit == UNLIMITED:
            return UNKNOWN
        return max(limit - loop.first, 0)

    def _launches(self, loop: Loop) -> int:
        """How many operations an iteration runs, about."""
        found, waiting = 0, [*loop.testing, *loop.rest]
        while waiting:
            op = waiting.pop()
            if isinstance(op, Loop):
                found += self._iterations(op) * self._launches(op)
            elif isinstance(op, Branch):
                waiting += op.then if len(op.then) > len(op.other) else op.other
            found += not (isinstance(op, Launch) and op.in_order)  # that is a loop itself
        return found


def _used(op: Operation) -> list[int]:
    """The identities of the arrays that an operation reads or writes."""
    if isinstance(op, Evaluate):
        op = Evaluate([one for one in op.code if one.kind != Kind.RELEASE])
    return [id(a) for a in arrays_of(op)]


def _resized(op: Operation) -> Iterator[HostArray]:
    """The arrays whose extents an operation changes."""
    match op:
        case Evaluate():
            yield from (one.to for one in op.code
                        if one.kind == Kind.RESIZE and not isinstance(one.to, int))  # fmt: skip
        case Branch():
            yield from (a for one in (*op.then, *op.other) for a in _resized(one))
        case Loop():
            yield from (a for one in (*op.testing, *op.once, *op.rest) for a in _resized(one))


def _fits(op: Operation, outermost: bool = False) -> bool:
    """Whether an operation can be part of a kernel of one thread."""
    match op:
        case Launch():
            if not op.compiled.digest or op.errors is not None:
                return False
            if isinstance(op.tasks, Late):
                dense = (a for a in op.arrays if not isinstance(a, Growing))
                return op.in_order or all(a.nbytes <= SMALL for a in dense)
            return abs(op.threads(True)) <= 1
        case Copy():
            return not (isinstance(op.target, Growing) or isinstance(op.source, Growing))
        case Fill():
            return not isinstance(op.target, Growing)
        case Branch():
            return all(map(_fits, (*op.then, *op.other)))
        case Evaluate():
            return all(one.kind in KINDS for one in op.code)
        case Loop():
            parts = (*op.testing, *op.once, *op.rest)
            if op.exchanged or op.passes is not None or len(parts) > LONGEST:
                return False
            # What the first iteration computes is there for those of other runs of the kernel, too.
            if outermost and any(isinstance(one, Evaluate) for one in op.once):
                return False
            return all(map(_fits, parts))
    return False


def _compiled(merged: MergedLoop, program: Compiled, jobs: list[Job] | None
              ) -> code.CompiledKernel | None:  # fmt: skip
    """Its machine code: from memory, from disk, or made now, unless that becomes one of `jobs`.
    None if there is none, or if it is not worth it."""
    target = Target.host().regular
    types = tuple(t for t, _ in merged.scalars)
    about = [sources(), machine.llvm(), target, merged.structure, len(merged.arrays), types,
             list(merged.kernels)]  # fmt: skip
    digest = hashlib.sha256("|".join(map(str, about)).encode()).hexdigest()
    found = code.find(digest)
    if found is None:
        program.count += 1
        if program.count > MOST or len(text := merged.text()) > LARGEST:
            return None
        make = partial(_make, digest, text, sorted(merged.module.symbols), target)
        if jobs is not None:
            jobs.append(make)
            return None
        found = make(), False
    return code.CompiledKernel(_no_kernel, len(merged.arrays), types, False, *found, target)


def _make(digest: str, text: str, symbols: list[str], target: Target) -> Linked:
    from .codegen import engine

    image = engine.to_object(text, target, "thorough")
    made = code.keep(digest, image, symbols, (), None)
    code.store(digest, image, symbols, None)
    return made


def _no_kernel() -> Kernel:
    raise AssertionError("a merged loop has no kernel IR")
