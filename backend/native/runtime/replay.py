"""Repeated calls, run by native code.

From the second call with arguments of one kind on, a program has a record of such a call: what its
arguments must look like (class, type, extents, strides, alignment; the kind of a number, and its
value where it decides more than an argument of a kernel), which arrays the call allocates, and the
operations of its tape with packed arguments.  `replay(*args)` (replay.c) compares the arguments,
fills in the addresses and numbers of this call, and runs the operations without the interpreter
lock.  It returns None if no record fits, another thread is using the record, or a foreign function
has raised an exception; the call then runs in Python.

Results are new arrays each time.  Large ones are in memory that the record keeps for the next call:
a block is reused when only the record refers to it.  A result whose extents the operations compute
takes over the memory they have written.
"""

from __future__ import annotations

import ctypes
import functools
import math
import struct
import sys
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from treadle.dsl.process import locks
from treadle.dsl.types import bool_, complex64

from ...runtime.memory import SMALLEST, address, address_word, no_memory
from ...runtime.run import Unrecordable
from ...runtime.types import HostArray
from . import modules, structures, threads
from .late import Extent, Growing, Instruction, Late
from .structures import InstructionKind, NumberKind, OperationKind, Outcome
from .tape import (
    Branch,
    Call,
    Copy,
    Evaluate,
    Failure,
    Fill,
    Launch,
    Loop,
    Number,
    Operation,
    Pass,
    Tape,
)

#: Bytes of arrays that a record may keep: a call that moves more hides the overhead of Python.
LARGEST = 16 << 20
#: Bytes that all records together may keep.
LIMIT = 128 << 20
#: Bytes that a growing array may keep.
KEPT = 1 << 20
#: The maximum number of records of a program.
MOST = 8

_T = TypeVar("_T", bound=ctypes.Structure)
_KINDS = {float: NumberKind.FLOAT, int: NumberKind.INT, bool: NumberKind.BOOL}
_EVERY = (-(1 << 63), (1 << 63) - 1)
#: Those of the parts of a complex number, as kernels of complex128 and of complex64 take them.
_PARTS = ((NumberKind.REAL, NumberKind.IMAGINARY), (NumberKind.REAL_32, NumberKind.IMAGINARY_32))


def bits(x: float | np.generic) -> int:
    """The integer with the bits of a real number, as a kernel takes it: those of a float of up to
    32 bits are in the lower half."""
    if isinstance(x, np.float16 | np.float32):
        return int(np.float32(x).view(np.int32))
    if isinstance(x, float):
        (found,) = struct.unpack("=q", struct.pack("=d", x))
        return int(found)
    return int(x)


class _Head(HostArray):
    """One number, the address of the first record; keeps all of them alive."""

    records: list[_Recorded]


def supported() -> bool:
    """Whether calls can be replayed on this kind of Python."""
    return (
        sys.implementation.name == "cpython"
        and getattr(sys, "_is_gil_enabled", lambda: True)()
        and sys.byteorder == "little"
        and ctypes.sizeof(ctypes.c_void_p) == 8
    )


@functools.lru_cache(maxsize=1)
def usable() -> bool:
    """Whether calls are replayed here: only if replay.c sees the same arrays as Python."""
    return supported() and _layout_agrees()


def _layout_agrees() -> bool:
    """Whether CPython and NumPy are laid out as in the headers that replay.c was compiled with."""
    for array in (np.zeros((3, 5), np.float32), np.zeros((4, 4))[1:, ::-1], np.empty(0, np.int8)):
        seen, n = inspect(id(array)), array.ndim
        if (
            seen.object_size != object.__basicsize__
            or seen.type != id(np.ndarray)
            or seen.data != array.ctypes.data
            or ctypes.c_void_p.from_address(address_word(array)).value != seen.data
            or seen.rank != n
            or seen.dtype != id(array.dtype)
            or seen.flags != array.flags.num
            or tuple((ctypes.c_int64 * n).from_address(seen.extents)) != array.shape
            or tuple((ctypes.c_int64 * n).from_address(seen.strides)) != array.strides
        ):
            return False
    probe = [np.zeros(1)]
    if inspect(id(probe[0])).references != 1:
        return False
    return bool(ctypes.PYFUNCTYPE(ctypes.c_int32)(modules.replayer()["numpy_agrees"])())


def inspect(identity: int) -> structures.View:
    """The array with this `id`, as replay.c sees it."""
    seen = structures.View()
    call = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
    call(modules.replayer()["inspect"])(identity, ctypes.addressof(seen))
    return seen


def _function(head: _Head) -> Callable[..., Any]:
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.py_object)
    found: Callable[..., Any] = make(modules.replayer()["replay_function"])(head, "treadle")
    return found


class Replays:
    """The records of one program.

    `arguments`: the number of inputs that are arguments; the others are captured arrays.
    """

    def __init__(self, arguments: int) -> None:
        self.arguments = arguments
        self.size = 0
        self._head = np.zeros(1, np.int64).view(_Head)
        self._head.records = []
        self._missed: object = None
        self._failures = 0
        self._function: Callable[..., Any] | None = None

    @property
    def function(self) -> Callable[..., Any] | None:
        """`replay(*args)`, None before the first record."""
        return self._function

    @property
    def records(self) -> Sequence[_Recorded]:
        return self._head.records

    def missed(self, args: Sequence[HostArray | Number], inputs: Sequence[HostArray]) -> bool:
        """Note a call that no record fits.  Returns whether to record it: it came twice in a
        row."""
        if self._failures > MOST or not supported():
            return False
        key = tuple([(a.shape, a.strides, a.dtype) for a in inputs]), tuple(map(type, args))
        before, self._missed = self._missed, key
        return before == key and usable()

    def failed(self) -> None:
        """Note a call that could not be recorded; after several of these, none is recorded any
        more."""
        self._failures += 1

    def add(self, tape: Tape, args: Sequence[HostArray | Number], data: Sequence[HostArray],
            inputs: Sequence[HostArray], results: Sequence[HostArray]) -> None:  # fmt: skip
        """Make a record.  `args`: as given to the function; `data`: the arrays of the inputs;
        `inputs`: their placeholders on the tape; `results`: arrays that the tape made."""
        with _lock:
            records = self._head.records
            made = _Recorded(tape, self.arguments, args, data, inputs, results)
            if len(records) >= MOST and not self._drop(records[0]):
                return
            others = [r for r in list(_live) if r is not self]
            if sum(r.size for r in others) + self.size + made.size > LIMIT:
                for r in others:
                    r.clear()
            if records:
                made.memory.next = records[-1].address
            records.append(made)
            self._head[0] = made.address
            self.size += made.size
            _live.add(self)
            self._failures = 0
            if self._function is None:
                self._function = _function(self._head)

    def clear(self) -> None:
        """Drop the records that are not in use."""
        with _lock:
            for record in list(self._head.records):
                self._drop(record)

    def _drop(self, record: _Recorded) -> bool:
        if record.memory.busy:
            return False
        records = self._head.records
        at = records.index(record)
        if at + 1 < len(records):
            records[at + 1].memory.next = record.memory.next
        else:
            self._head[0] = record.memory.next
        del records[at]
        self.size -= record.size
        return True


_live: weakref.WeakSet[Replays] = weakref.WeakSet()
_lock = locks.lock(reentrant=True)  # one for all: a program's new record may displace another's


class _Recorded:
    """One kind of call: the `Record` that replay.c reads, and everything that it points to."""

    def __init__(self, tape: Tape, arguments: int, args: Sequence[HostArray | Number],
                 data: Sequence[HostArray], inputs: Sequence[HostArray],
                 results: Sequence[HostArray]) -> None:  # fmt: skip
        self._kept: list[object] = [[a.dtype for a in (*data, *results)]]
        self.size = tape.size
        late = {id(a): self._late_extents(tape, a) for a in results if isinstance(a, Growing)}
        code = Code(tape, (*inputs, *(a for a in results if id(a) not in late)))
        self._kept.append(code)
        positions = [k for k, a in enumerate(args) if isinstance(a, np.ndarray)]
        positions += [-1] * (len(data) - arguments)
        numbers = [(k, a) for k, a in enumerate(args) if not isinstance(a, np.ndarray)]
        self.memory = structures.Record(
            0, 0, len(args),
            *self._table(structures.Array, [
                self._array(position, a, code.words[id(stands)])
                for position, a, stands in zip(positions, data, inputs, strict=True)]),
            *self._table(structures.Number, [
                row for k, (position, value) in enumerate(numbers)
                for row in self._number(position, value, k, tape, code)]),
            *self._table(structures.Result, [
                self._growing(a, code, late[id(a)]) if isinstance(a, Growing)
                else self._result(a, code.words[id(a)]) for a in results]),
            code.part,
        )  # fmt: skip

    @property
    def address(self) -> int:
        return ctypes.addressof(self.memory)

    def _table(self, kind: type[ctypes.Structure] | type[ctypes.c_int64], rows: Sequence[Any]
               ) -> tuple[int, int]:  # fmt: skip
        """The address of an array that lives as long as the record, and its length."""
        made = (kind * len(rows))(*rows)
        self._kept.append(made)
        return ctypes.addressof(made), len(rows)

    def _array(self, position: int, array: HostArray, patches: list[int]) -> tuple[int, ...]:
        dimensions, rank = self._table(
            structures.Dimension, list(zip(array.shape, array.strides, strict=True))
        )
        return (position, id(array), id(array.dtype), rank, dimensions,
                *self._table(ctypes.c_int64, patches))  # fmt: skip

    def _number(self, position: int, value: Number, number: int, tape: Tape, code: Code
                ) -> list[tuple[int, ...]]:  # fmt: skip
        """What the number must be; for a complex number, each of its parts."""
        patches = code.of_numbers.get(number, [])
        if isinstance(value, complex):
            rows: list[tuple[int, ...]] = []
            for kinds, words in zip(_PARTS, (patches, code.of_halves.get(number, [])), strict=True):
                for k, (kind, part) in enumerate(zip(kinds, (value.real, value.imag), strict=True)):
                    own = bits(part) if kinds is _PARTS[0] else bits(np.float32(part))
                    pinned = number in tape.pinned
                    least, most = (own, own) if pinned else _EVERY
                    at = self._table(ctypes.c_int64, [word + 8 * k for word in words])
                    rows.append((position, kind, least, most, own, *at))
            return rows
        kind, own = _KINDS[type(value)], bits(value)
        least, most = tape.limits.get(number, _EVERY)
        if number in tape.pinned:
            least = most = own
        patched = self._table(ctypes.c_int64, patches)
        return [(position, kind, least, most, own, *patched)]

    def _result(self, array: HostArray, patches: list[int]) -> tuple[int, ...]:
        blocks: list[tuple[int, int]] = []
        if array.nbytes >= SMALLEST:
            # One for the result that the caller still has, one for the next.
            raws = [np.empty(array.nbytes + 64, np.uint8) for _ in range(2)]
            blocks = [(id(raw), address(raw) + -address(raw) % 64) for raw in raws]
            self._kept.append(raws)
            self.size += array.nbytes
        extents, rank = self._table(ctypes.c_int64, array.shape)
        return (id(array.dtype), rank, extents, *self._table(structures.Block, blocks),
                *self._table(ctypes.c_int64, patches), 0, 0)  # fmt: skip

    def _late_extents(self, tape: Tape, array: Growing) -> tuple[int, int]:
        """The address of the extents of a result that operations compute, and their number."""
        extents, rank = self._table(ctypes.c_int64, [0] * len(array.extents))
        for k, extent in enumerate(array.extents):
            where, register = extents + 8 * k, tape.numbers.register(extent)
            tape.code.append(Instruction(InstructionKind.STORE, where, register))
        return extents, rank

    def _growing(self, array: Growing, code: Code, late: tuple[int, int]) -> tuple[int, ...]:
        extents, rank = late
        memory = ctypes.addressof(code.memory(array))
        return id(array.dtype), rank, extents, 0, 0, 0, 0, memory, 0


class Code:
    """The operations of a tape as replay.c runs them.

    `words` has for each placeholder (those in `moving`, and the state of loops) the addresses of
    the words that receive its address, `of_numbers` those of each parameter.  `homes` has such
    words for the memory in which a loop stores what is in `moving`.
    """

    def __init__(self, tape: Tape, moving: Sequence[HostArray]) -> None:
        self.words: dict[int, list[int]] = {id(a): [] for a in moving}
        self.homes: dict[int, list[int]] = {}
        self.of_numbers: dict[int, list[int]] = {}
        #: Those that take it as complex64; of a complex number the imaginary part comes next.
        self.of_halves: dict[int, list[int]] = {}
        self.memories: dict[int, structures.Memory] = {}  # of arrays that grow
        self._replaced = list(moving)
        self._kept: list[object] = []
        self._numbers = tape.numbers
        self._evaluations: list[structures.Evaluation] = []
        self._loops = 0  # that the operations being made are in
        self._stores: list[Instruction] = []  # those before the next operation
        self.part = self._part(tape.operations)
        for array, memory in self.memories.items():
            memory.patches, memory.patch_count = self._addresses(self.words[array])
        registers = np.array(self._numbers.first, np.int64)
        self._kept.append(registers)
        for evaluation in self._evaluations:
            evaluation.registers = address(registers)
        if self.memories:
            weakref.finalize(self, _release, list(self.memories.values()))

    def let_go(self, arrays: Iterable[HostArray]) -> None:
        """Drop references to these arrays of `moving`: each run sets other addresses."""
        gone = {id(a) for a in arrays}
        self._replaced = [a for a in self._replaced if id(a) not in gone]

    def run(self) -> Outcome:
        """Run the operations; raises what a signal handler raises."""
        return Outcome(_run()(ctypes.addressof(self.part)))

    def give(self, number: int, value: Number | np.generic) -> None:
        """Set the value of a parameter for the next run."""
        words = self.of_numbers.get(number, ())
        if not isinstance(value, complex | np.complexfloating):
            write(words, bits(value))
            return
        both = complex(value)
        for k, part in enumerate((both.real, both.imag)):
            write([word + 8 * k for word in words], bits(part))
            halves = self.of_halves.get(number, ())
            write([word + 8 * k for word in halves], bits(np.float32(part)))

    def _part(self, operations: Sequence[Operation]) -> structures.Part:
        for operation in operations:
            if isinstance(operation, Loop):
                for array in (*(s.now for s in operation.states), *operation.made):
                    self.words.setdefault(id(array), [])
        rows = (structures.Operation * sum(2 if _is_late(o) else 1 for o in operations))()
        self._kept.append(rows)
        row = iter(rows)
        for operation in operations:
            if _is_late(operation):
                before, own = next(row), next(row)
                self._fill(own, operation)
                self._evaluate(before, self._stores)
                self._stores = []
            else:
                self._fill(next(row), operation)
        return structures.Part(ctypes.addressof(rows), len(rows))

    def _fill(self, row: structures.Operation, operation: Operation) -> None:
        match operation:
            case Launch():
                self._launch(row, operation)
            case Call():
                arrays = [self._placed(a) for a in operation.arrays]
                function = functools.partial(operation.function, *arrays)
                self._kept.append(function)
                row.kind, row.target = OperationKind.CALL, id(function)
            case Fill():
                row.kind = OperationKind.FILL
                self._address(row, "target", operation.target)
                self._size(row, operation.target)
            case Copy():
                row.kind = OperationKind.COPY
                self._address(row, "target", operation.target)
                self._address(row, "source", operation.source)
                self._size(row, operation.target)
            case Failure():
                row.kind = OperationKind.FAILURE
                self._address(row, "target", operation.errors)
            case Loop():
                row.kind, row.target = OperationKind.LOOP, ctypes.addressof(self._loop(operation))
            case Branch():
                then, other = self._part(operation.then), self._part(operation.other)
                branch = structures.Branch(0, then, other)
                self._address(branch, "test", operation.test)
                row.kind, row.target = OperationKind.BRANCH, ctypes.addressof(branch)
            case Evaluate():
                self._evaluate(row, operation.code)

    # --- numbers that operations compute ---

    def _evaluate(self, row: structures.Operation, code: Sequence[Instruction]) -> None:
        table = self._table(structures.Instruction, len(code))
        for entry, one in zip(table, code, strict=True):
            entry.kind, entry.exact, entry.b, entry.c = one.kind, one.exact, one.b, one.c
            bits = 1 if one.type == bool_ else one.type.bits
            entry.bits = -bits if one.type.signed else bits
            for name, operand in (("to", one.to), ("a", one.a)):
                if isinstance(operand, int):
                    setattr(entry, name, operand)
                elif isinstance(operand, Growing):
                    setattr(entry, name, ctypes.addressof(self.memory(operand)))
                else:
                    self._address(entry, name, operand)
        made = structures.Evaluation(ctypes.addressof(table), len(table))
        self._evaluations.append(made)
        row.kind, row.target = OperationKind.EVALUATE, ctypes.addressof(made)

    def memory(self, array: Growing) -> structures.Memory:
        """The structure that describes the memory of a growing array."""
        if id(array) not in self.memories:
            self.memories[id(array)] = structures.Memory()
            self.words[id(array)] = []
            self._kept.append(array)
        return self.memories[id(array)]

    def _store(self, word: int, value: Extent) -> None:
        """Add an instruction that stores a number in a word of an operation."""
        to = InstructionKind.STORE
        self._stores.append(Instruction(to, word, self._numbers.register(value)))

    def _size(self, row: structures.Operation, array: HostArray) -> None:
        if isinstance(array, Growing):
            size = self._numbers.size(self._stores, array)
            self._store(ctypes.addressof(row) + _offset(structures.Operation, "size"), size)
        else:
            row.size = array.nbytes

    def _address(self, structure: ctypes.Structure, field: str, array: HostArray | None) -> None:
        """Put the address of an array into a field of a structure, or register the field for a
        placeholder."""
        self._kept.append(structure)
        offset = _offset(type(structure), field)
        setattr(structure, field, self._address_word(array, ctypes.addressof(structure) + offset))

    def _address_word(self, array: HostArray | None, word: int) -> int:
        if array is None:
            return 0
        if isinstance(array, Growing):
            self.memory(array)
        if id(array) in self.words:
            self.words[id(array)].append(word)
            return 0
        self._kept.append(array)
        return address(array)

    def _placed(self, array: HostArray) -> HostArray:
        """The array for a Python function; for a placeholder, an array whose address is set
        later."""
        if isinstance(array, Growing):
            raise Unrecordable("extents depend on data")
        if id(array) not in self.words:
            self._kept.append(array)
            return array
        made = np.lib.stride_tricks.as_strided(np.empty(1, array.dtype), array.shape, array.strides)
        self.words[id(array)].append(address_word(made))
        self._kept.append(made)
        return made

    def _table(self, kind: type[_T], count: int) -> ctypes.Array[_T]:
        made = (kind * count)()
        self._kept.append(made)
        return made

    def _launch(self, row: structures.Operation, launch: Launch) -> None:
        late = isinstance(launch.tasks, Late)
        several = late and not launch.in_order
        repeated = self._loops > 0 and threads.team() is not None
        count = threads.thread_count() if several else 1 if late else launch.threads(repeated)
        if abs(count) > 1:
            if threads.team() is None:
                raise Unrecordable
            threads.join_openmp()
        launcher = launch.compiled.bind()
        words = launcher.arguments
        addresses = [self._address_word(a, words + 8 * k) for k, a in enumerate(launch.arrays)]
        errors = 0 if launch.errors is None else address(launch.errors)
        self._kept += [launcher, launch.errors]
        widths = [2 if t.is_complex else 1 for t in launch.compiled.types]
        scalar_words = [
            words + 8 * (len(addresses) + 1 + sum(widths[:k])) for k in range(len(widths))
        ]
        known: list[Number] = []
        for word, type_, value in zip(
            scalar_words, launch.compiled.types, launch.scalars, strict=True
        ):
            if isinstance(value, Late):
                if type_.is_inexact:
                    raise Unrecordable
                self._store(word, value)
                known.append(0)
            else:
                known.append(value)
        launcher.pack(addresses, known, errors)
        for position, number in launch.given:
            half = launch.compiled.types[position] == complex64
            words_of = self.of_halves if half else self.of_numbers
            words_of.setdefault(number, []).append(scalar_words[position])
        row.kind, row.target, row.source = OperationKind.LAUNCH, launch.compiled.entry, words
        row.threads = count
        if isinstance(launch.tasks, int):
            row.size = launch.tasks
            return
        at = ctypes.addressof(row)
        self._store(at + _offset(structures.Operation, "size"), launch.tasks)
        if count > 1:
            apply, code = self._numbers.apply, self._stores
            fewest = max(2, math.ceil(threads.SERIAL_WORK / launch.task_work))
            few = apply(code, InstructionKind.LESS, launch.tasks, fewest)
            most = apply(code, InstructionKind.MINIMUM, launch.tasks, count)
            used = apply(code, InstructionKind.SELECT, few, 1, most)
            self._store(at + _offset(structures.Operation, "threads"), used)

    def _loop(self, loop: Loop) -> structures.Loop:
        made = structures.Loop(loop.first)
        self._kept.append(made)
        if isinstance(loop.limit, tuple):
            word = ctypes.addressof(made) + _offset(structures.Loop, "limit")
            self.of_numbers.setdefault(loop.limit[0], []).append(word)
        elif isinstance(loop.limit, int):
            made.limit = loop.limit
        else:
            self._address(made, "computed_limit", loop.limit)
        for name in ("counter", "test"):
            self._address(made, name, getattr(loop, name))
        self._loops += 1
        rest = loop.rest if loop.passes is None else ()
        made.testing, made.once, made.rest = map(self._part, (loop.testing, loop.once, rest))
        self._loops -= 1
        if loop.passes is not None:
            made.passes = self._pass(loop.passes)
        self._buffers(made, loop)
        return made

    def _pass(self, passes: Pass) -> int:
        """The address of the structure."""
        rows = (structures.Operation * len(passes.units))()
        units, words = self._table(structures.Unit, len(passes.units)), 0
        for row, unit, one in zip(rows, units, passes.units, strict=True):
            if isinstance(one.operation, Launch):
                self._launch(row, one.operation)
                unit.words = one.operation.compiled.words
            else:
                unit.words = self._copy_rows(row, one.operation)
            unit.function, unit.source, unit.counter = row.target, row.source, one.counter
            unit.first, unit.blocks, unit.tasks = one.first, one.blocks, one.tasks
            unit.down, unit.up = one.down, one.up
            words += unit.words
        bounds, count = self._addresses(passes.bounds)
        copies, _ = self._addresses([0] * (words * passes.depth))
        numbers, _ = self._addresses([0] * passes.depth)
        made = structures.Pass(ctypes.addressof(units), len(units), passes.depth, passes.down,
                               passes.up, bounds, count - 1, passes.circular, copies, words,
                               numbers)  # fmt: skip
        self._kept.append(made)
        return ctypes.addressof(made)

    def _copy_rows(self, row: structures.Operation, copy: Copy) -> int:
        """A copy as a launch; returns the number of its arguments."""
        rows = copy.target.shape[0]
        where, count = self._addresses([0, 0, rows, copy.target.nbytes // max(rows, 1)])
        for k, array in enumerate((copy.target, copy.source)):
            write([where + 8 * k], self._address_word(array, where + 8 * k))
        row.target, row.source = modules.passes()["copy_rows"], where
        return count

    def _buffers(self, made: structures.Loop, loop: Loop) -> None:
        """The memory of a loop: consecutive buffers of one size."""
        results = [s.result for s in loop.states if s.result is not None]
        by_size: dict[int, list[HostArray]] = {}
        for array in (*results, *loop.made):
            by_size.setdefault(array.nbytes, []).append(array)
        buffers = [array for same in by_size.values() for array in same]
        number = {id(array): k for k, array in enumerate(buffers)}
        own = set(map(id, loop.made))
        moving = set(map(id, self._replaced))
        table = self._table(structures.Buffer, len(buffers))
        for buffer, array in zip(table, buffers, strict=True):
            buffer.bytes = array.nbytes
            if id(array) in own and id(array) in moving:
                word = ctypes.addressof(buffer) + _offset(structures.Buffer, "address")
                self.homes[id(array)] = [word]
            elif id(array) in own:
                buffer.address = address(array)
                self._kept.append(array)
            else:
                self._address(buffer, "address", array)
        states = self._table(structures.State, len(loop.states))
        for row, state in zip(states, loop.states, strict=True):
            row.now = self._moving(state.now)
            self._address(row, "first", state.first)
            row.copied, row.source = state.copied, state.source
            row.result = -1 if state.result is None else number[id(state.result)]
        makes = self._table(structures.Made, len(loop.made))
        for k, (row, array) in enumerate(zip(makes, loop.made, strict=True)):
            same = by_size[array.nbytes]
            row.now = self._moving(array)
            row.first_buffer, row.last_buffer = number[id(same[0])], number[id(same[-1])]
            row.result = row.partner = -1
            alike = [s for s in loop.states if s.result is not None
                     and s.result.nbytes == array.nbytes]  # fmt: skip
            if len({s.source for s in alike if s.source < 0}) == len(alike):
                user = next(j for j, s in enumerate(alike) if s.source == ~k)
                row.result, row.partner = (
                    number[id(same[user])],
                    number[id(same[len(alike) + user])],
                )
        made.states, made.state_count = ctypes.addressof(states), len(states)
        made.made, made.made_count = ctypes.addressof(makes), len(makes)
        made.buffers, made.buffer_count = ctypes.addressof(table), len(table)
        pairs = [ctypes.addressof(self.memory(a)) for pair in loop.exchanged for a in pair]
        made.exchanged, made.exchange_count = self._addresses(pairs)[0], len(pairs) // 2

    def _moving(self, array: HostArray) -> structures.Moving:
        return structures.Moving(0, -1, *self._addresses(self.words[id(array)]))

    def _addresses(self, words: Sequence[int]) -> tuple[int, int]:
        """The address of a table of words that lives as long as the code, and its length."""
        table = (ctypes.c_int64 * len(words))(*words)
        self._kept.append(table)
        return ctypes.addressof(table), len(words)


def _is_late(operation: Operation) -> bool:
    """Whether earlier operations compute some numbers of an operation."""
    match operation:
        case Launch():
            return any(isinstance(x, Late) for x in (operation.tasks, *operation.scalars))
        case Fill() | Copy():
            return isinstance(operation.target, Growing)
    return False


def write(words: Iterable[int], value: int) -> None:
    """Write a number to these addresses."""
    for word in words:
        ctypes.c_int64.from_address(word).value = value


def fill(memory: structures.Memory, array: HostArray) -> None:
    """Copy a dense array into memory that grows."""
    make = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    call = make(modules.late()["fill_memory"])
    if not call(ctypes.addressof(memory), address(array), array.nbytes):
        raise no_memory(array.shape, array.dtype)


def release(memory: structures.Memory, most: int) -> None:
    """Free growing memory if it exceeds `most` bytes."""
    make = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
    make(modules.late()["release"])(ctypes.addressof(memory), most)


def _release(memories: Sequence[structures.Memory]) -> None:
    """Free the memory of a recording that has been deleted."""
    for memory in memories:
        memory.patch_count = 0
        release(memory, -1)


def _offset(kind: type[ctypes.Structure], field: str) -> int:
    return int(getattr(kind, field).offset)


@functools.lru_cache(maxsize=1)
def _run() -> Callable[[int], int]:
    make = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
    return make(modules.replayer()["run_operations"])
