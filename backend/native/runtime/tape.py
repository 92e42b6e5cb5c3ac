"""Tapes: the launches, library calls, fills, copies, loops and branches of a call, as a list.

Operations are recorded without running.  For given extents a program does the same in each call,
unless the contents of arrays decide (`Unrecordable`).  `replay.py` turns tapes into the structures
of replay.c.  The tape refers to arrays by identity.  Some of them are placeholders: for the inputs
and results of a program, whose memory differs from call to call, and for the state of a loop, whose
memory differs from iteration to iteration.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from treadle.dsl.expr import Expr, Param, Read, walk

from ...runtime.memory import address
from ...runtime.run import Unrecordable
from ...runtime.types import DType, HostArray
from . import threads
from .late import Extent, Growing, Instruction, Late, Numbers
from .structures import InstructionKind

if TYPE_CHECKING:
    from treadle.skeletons.ir.kernel import Kernel

    from .code import CompiledKernel

#: The limit of a loop that only ends by its test.
UNLIMITED = (1 << 63) - 1
#: A scalar, as Python has it.
Number = bool | int | float | complex
#: The number of a parameter of the program, a known number, or a computed number.
Given = tuple[int] | int | HostArray


class TooLarge(Unrecordable):
    """The tape would need more memory than allowed, for these extents."""


class Rows(NamedTuple):
    """The tasks of a kernel as blocks of rows (`Kernel.blocks`).

    `size` is the position of the size of a block among the scalars, −1 if all tasks make one row.
    `extent` and `unit` are those of `Blocks`, and `row` is the first row.  `touched`: for each
    array the rows touched as (low, high, whether they wrap, their axis, whether they are written),
    None: any of them, which are not written.
    """

    size: int
    extent: int
    unit: int
    row: int
    multiple: int
    touched: tuple[tuple[int, int, bool, int, bool] | None, ...]


class Launch(NamedTuple):
    """A kernel's arguments and tasks.  `given`: which scalars are parameters of the program, as
    (position, parameter number); `errors`: the array that receives failures; `in_order`: as
    `Kernel.in_order`.  With `rows`, passes of a loop can run blocks of rows by `regular()`, the
    kernel without streaming stores."""

    compiled: CompiledKernel
    arrays: tuple[HostArray, ...]
    scalars: tuple[Number | Late, ...]
    tasks: Extent
    task_work: float
    given: tuple[tuple[int, int], ...] = ()
    errors: HostArray | None = None
    in_order: bool = False
    rows: Rows | None = None
    regular: Callable[[], CompiledKernel] | None = None

    def threads(self, repeated: bool) -> int:
        """The number of threads that share the tasks, if their number is known; `repeated`: in a
        loop.  Negative for a brief job, which only threads that are awake share."""
        assert isinstance(self.tasks, int)
        count = 1 if self.in_order else min(self.tasks, threads.thread_count())
        work = self.tasks * self.task_work
        if count <= 1 or work >= threads.SERIAL_WORK:
            return count
        return -count if repeated and work >= threads.BRIEF_WORK else 1


class Fill(NamedTuple):
    """Zero an array."""

    target: HostArray


class Copy(NamedTuple):
    """Copy a dense array to another one of the same size."""

    target: HostArray
    source: HostArray


class Failure(NamedTuple):
    """Stop if a launch of `kernel` has reported a failure in `errors`."""

    errors: HostArray
    kernel: Callable[[], Kernel]


class Call(NamedTuple):
    """A library call by a Python function.  It gets these arrays, and must not keep views of them,
    because the memory of some changes between calls."""

    function: Callable[..., object]
    arrays: tuple[HostArray, ...]


class State(NamedTuple):
    """One array of the state of a loop.

    `now`: its placeholder in an iteration; `first`: its first value.  The last value is moved to
    `result`; None if it stays in the memory of the first value.  `copied`: the first value is
    copied, because iterations write to it.  `source`: which array becomes its next value: a
    position in the state, or −1 − k for `Loop.made[k]`.
    """

    now: HostArray
    first: HostArray
    result: HostArray | None
    copied: bool
    source: int


class Unit(NamedTuple):
    """An operation of an iteration in a pass: `struct unit` of passes.h.  `counter`: which of its
    arrays is the loop's counter; −1: none.  The tasks of a copy are rows."""

    operation: Launch | Copy
    counter: int
    first: int
    blocks: int
    tasks: int
    down: int
    up: int


class Pass(NamedTuple):
    """Several iterations of a loop at a time: `struct pass` of passes.h."""

    units: list[Unit]
    depth: int
    down: int
    up: int
    bounds: list[int]
    circular: bool


class Loop(NamedTuple):
    """Iterations `first` to `limit` − 1, as long as `test` holds; `counter` has their number.

    An iteration runs `testing`, which computes the test, `once` if it is the first, and `rest`.
    The arrays `made` by an iteration are parts of the next state: in results, or where they are
    now.
    `exchanged`: a state whose extents change, and what an iteration makes for the next one.
    """

    first: int
    limit: Given
    counter: HostArray | None
    test: HostArray | None
    testing: list[Operation]
    once: list[Operation]
    rest: list[Operation]
    states: list[State]
    made: list[HostArray]
    exchanged: list[tuple[Growing, Growing]]
    passes: Pass | None = None


class Branch(NamedTuple):
    """One of two lists of operations."""

    test: HostArray
    then: list[Operation]
    other: list[Operation]


class Evaluate(NamedTuple):
    """Instructions that compute numbers for what follows."""

    code: list[Instruction]


Operation = Launch | Call | Fill | Copy | Failure | Loop | Branch | Evaluate


def arrays_of(op: Operation) -> Iterator[HostArray]:
    """The arrays that an operation refers to."""
    match op:
        case Launch() | Call():
            yield from op.arrays
        case Fill():
            yield op.target
        case Copy():
            yield from (op.target, op.source)
        case Failure():
            yield op.errors
        case Branch():
            yield op.test
            yield from (a for one in (*op.then, *op.other) for a in arrays_of(one))
        case Loop():
            yield from (a for a in (op.counter, op.test) if a is not None)
            if not isinstance(op.limit, int | tuple):
                yield op.limit
            for s in op.states:
                yield from (a for a in (s.now, s.first, s.result) if a is not None)
            yield from op.made
            yield from (a for pair in op.exchanged for a in pair)
            yield from (a for one in (*op.testing, *op.once, *op.rest) for a in arrays_of(one))
        case Evaluate():
            for one in op.code:
                yield from (a for a in (one.to, one.a) if not isinstance(a, int))


@dataclass
class Tape:
    """Operations in order, on arrays of at most `limit` bytes together.  With `lent`, these have no
    memory of their own: each run lends them some (`Code.lend`)."""

    limit: int
    lent: bool = False
    operations: list[Operation] = field(default_factory=list)
    pinned: set[int] = field(default_factory=set)  # parameters whose values decided something
    limits: dict[int, tuple[int, int]] = field(default_factory=dict)  # where others must lie
    size: int = 0
    arrays: dict[int, HostArray] = field(default_factory=dict)  # those made, by identity
    known: dict[int, HostArray] = field(default_factory=dict)  # the same in every call
    overwritten: set[int] = field(default_factory=set)  # the identities of arrays that had values
    earlier: set[int] = field(default_factory=set)  # of those made before the part that reads them
    numbers: Numbers = field(default_factory=Numbers)

    @property
    def code(self) -> list[Instruction]:
        """The instructions that are run next."""
        if not (self.operations and isinstance(self.operations[-1], Evaluate)):
            self.operations.append(Evaluate([]))
        last = self.operations[-1]
        assert isinstance(last, Evaluate)
        return last.code

    def apply(self, kind: InstructionKind, *args: Extent, exact: bool = False) -> Late:
        """A number computed by an instruction."""
        return self.numbers.apply(self.code, kind, *args, exact=exact)

    def bytes_of(self, array: HostArray) -> Extent:
        """The bytes of an array, as they are now."""
        if isinstance(array, Growing):
            return self.numbers.size(self.code, array)
        return array.nbytes

    def growing(self, shape: tuple[Extent, ...], dtype: DType, size: Extent) -> Growing:
        """An array of so many bytes that the operations will write."""
        array = Growing.of(shape, dtype)
        self.code.append(Instruction(InstructionKind.RESIZE, array, self.numbers.register(size)))
        self.arrays[id(array)] = array
        return array

    def copied(self, array: HostArray, growing: bool = False) -> HostArray:
        """A copy of an array."""
        if growing or isinstance(array, Growing):
            made: HostArray = self.growing(array.shape, array.dtype, self.bytes_of(array))
        else:
            made = self.new(array.shape, array.dtype)
        self.operations.append(Copy(made, array))
        return made

    def release(self, most: int, results: Collection[int]) -> None:
        """Give back what has grown beyond `most` bytes, but not the results (their identities)."""
        for array in self.arrays.values():
            if isinstance(array, Growing) and id(array) not in results:
                self.code.append(
                    Instruction(InstructionKind.RELEASE, array, self.numbers.register(most))
                )

    def new(self, shape: tuple[Extent, ...], dtype: DType) -> HostArray:
        """An array that the operations will write."""
        if any(isinstance(n, Late) for n in shape):
            total: Extent = dtype.itemsize
            for n in shape:
                total = self.apply(InstructionKind.MULTIPLY, total, n, exact=True)
            return self.growing(shape, dtype, total)
        size = dtype.itemsize * math.prod(map(int, shape))
        self.size += size
        if self.size > self.limit:
            raise TooLarge
        known = tuple(map(int, shape))
        array = standing(known, dtype) if self.lent else fresh(known, dtype)
        self.arrays[id(array)] = array
        return array

    def made(self, array: HostArray) -> bool:
        """Whether the operations write this array."""
        return id(array) in self.arrays

    @contextmanager
    def part(self, operations: list[Operation] | None = None) -> Iterator[list[Operation]]:
        """What is recorded inside is put into this list, a new one if none is given."""
        outer, self.operations = self.operations, [] if operations is None else operations
        try:
            yield self.operations
        finally:
            self.operations = outer

    def made_since(self, before: Set[int]) -> set[int]:
        """The identities of the arrays that have been made since these were all, here."""
        return self.arrays.keys() - before - self.earlier


def fresh(shape: tuple[int, ...], dtype: DType) -> HostArray:
    """An array that belongs to a recording.  It is not pooled: it would never be idle."""
    raw = np.empty(math.prod(shape) * dtype.itemsize + 64, np.uint8)
    return np.ndarray(shape, dtype, raw, -address(raw) % 64)


def standing(shape: tuple[int, ...], dtype: DType) -> HostArray:
    """A dense array without memory, which stands for others."""
    strides = [dtype.itemsize * math.prod(shape[k + 1 :]) for k in range(len(shape))]
    made: HostArray = np.lib.stride_tricks.as_strided(np.empty(1, dtype), shape, strides)
    return made


class Dependence(NamedTuple):
    """What host expressions depend on besides extents and strides.

    `reads`: elements of arrays; `params`: the numbers of parameters.
    """

    reads: bool
    params: frozenset[int]


def dependence(roots: Sequence[Expr], index: dict[Param, int]) -> Dependence:
    """What the values of `roots` depend on."""
    nodes = list(walk(roots))
    return Dependence(
        any(isinstance(e, Read) for e in nodes),
        frozenset(index[e] for e in nodes if isinstance(e, Param)),
    )


#: The types of these.
_GIVEN = frozenset(("bool", "float16", "float32", "float64", "int8", "int16", "int32", "int64",
                    "uint8", "uint16", "uint32", "uint64", "complex64", "complex128"))  # fmt: skip


def given(values: Sequence[Expr], index: dict[Param, int]) -> tuple[tuple[int, int], ...]:
    """The scalars that are a parameter whose bits a Python number can have: (position, number)."""
    return tuple(
        (k, index[e])
        for k, e in enumerate(values)
        if isinstance(e, Param) and e.type.name in _GIVEN
    )
