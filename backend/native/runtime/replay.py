"""Calls that were made before, made again by native code.

From the second call with arguments of one kind on, a program has a record of what such a call does:
what its arguments must look like (class, type, extents, strides, alignment; the kind of a number,
and its value where that decides more than an argument of a kernel), which arrays it makes, and the
operations of its tape with their arguments packed.  `replay(*args)` (replay.c) compares, fills in
the addresses and numbers of this call, and runs the operations without the interpreter lock; it
gives None where no record fits, another thread is using it, or a foreign function has raised an
exception, and the call goes the ordinary way.

Results are new arrays each time.  Large ones lie in memory that the record keeps for the next call:
a block is used again when nobody but the record refers to it.
"""

from __future__ import annotations

import ctypes
import functools
import struct
import sys
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from treadle.dsl import locks

from ...runtime.memory import SMALLEST, address
from ...runtime.run import Unrecordable
from . import modules, structures, threads
from .structures import NumberKind, OperationKind
from .tape import Copy, Failure, Fill, HostArray, Launch, Named, Number, Operation, Tape

#: Bytes of arrays that a record may keep: a call that moves more takes far longer than Python.
LARGEST = 16 << 20
#: Bytes that all records together may keep.
LIMIT = 128 << 20
#: Records of one program.
MOST = 8

_KINDS = {float: NumberKind.FLOAT, int: NumberKind.INT, bool: NumberKind.BOOL}


class _Head(np.ndarray[Any, Any]):
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
    """Whether calls are replayed here: never unless replay.c sees in arrays what Python does."""
    return supported() and _layout_agrees()


def _layout_agrees() -> bool:
    """Whether CPython and NumPy are laid out as in the headers that replay.c was compiled with."""
    for array in (np.zeros((3, 5), np.float32), np.zeros((4, 4))[1:, ::-1], np.empty(0, np.int8)):
        seen, n = inspect(id(array)), array.ndim
        if (
            seen.object_size != object.__basicsize__
            or seen.type != id(np.ndarray)
            or seen.data != array.ctypes.data
            or seen.rank != n
            or seen.dtype != id(array.dtype)
            or seen.flags != array.flags.num
            or tuple((ctypes.c_int64 * n).from_address(seen.extents)) != array.shape
            or tuple((ctypes.c_int64 * n).from_address(seen.strides)) != array.strides
        ):
            return False
    held = [np.zeros(1)]
    if inspect(id(held[0])).references != 1:
        return False
    return bool(ctypes.PYFUNCTYPE(ctypes.c_int32)(modules.replayer()["numpy_agrees"])())


def inspect(identity: int) -> structures.View:
    """An array, of which `id` is given, as replay.c sees it."""
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

    `arguments`: how many of its inputs are arguments, the rest being captured arrays.
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
        """Note a call that no record fitted; whether to record it: it came twice in a row."""
        if self._failures > MOST or not supported():
            return False
        key = tuple([(a.shape, a.strides, a.dtype) for a in inputs]), tuple(map(type, args))
        before, self._missed = self._missed, key
        return before == key and usable()

    def failed(self) -> None:
        """A call could not be recorded; after some of these no call will be."""
        self._failures += 1

    def add(self, tape: Tape, args: Sequence[HostArray | Number], inputs: Sequence[HostArray],
            results: Sequence[HostArray]) -> None:  # fmt: skip
        """Make a record: `args` as given to the function, `inputs` the arrays that the tape names
        by number, `results` arrays that the tape made."""
        with _lock:
            records = self._head.records
            made = _Recorded(tape, self.arguments, args, inputs, results)
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
        """Forget the records that nobody is using."""
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
_lock = locks.lock(again=True)  # one for all: a program's new record may displace another's


class _Recorded:
    """One kind of call: the `Record` that replay.c reads, and all that it points to."""

    def __init__(self, tape: Tape, arguments: int, args: Sequence[HostArray | Number],
                 inputs: Sequence[HostArray], results: Sequence[HostArray]) -> None:  # fmt: skip
        self._kept: list[object] = [[a.dtype for a in (*inputs, *results)]]
        self.size = tape.size
        patches = _Patches(inputs, results)
        operations = (structures.Operation * len(tape.operations))()
        self._kept += [operations, patches.held]
        for row, operation in zip(operations, tape.operations, strict=True):
            fill(row, operation, patches, self._kept)
        positions = [k for k, a in enumerate(args) if isinstance(a, np.ndarray)]
        positions += [-1] * (len(inputs) - arguments)
        numbers = [(k, a) for k, a in enumerate(args) if not isinstance(a, np.ndarray)]
        self.memory = structures.Record(
            0, 0, len(args),
            *self._table(structures.Array, [
                self._array(position, a, patches.of_inputs[k])
                for k, (position, a) in enumerate(zip(positions, inputs, strict=True))]),
            *self._table(structures.Number, [
                self._number(position, value, k, tape, patches.of_numbers.get(k, []))
                for k, (position, value) in enumerate(numbers)]),
            *self._table(structures.Result, [
                self._result(a, patches.of_results[id(a)]) for a in results]),
            ctypes.addressof(operations), len(operations),
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

    def _number(self, position: int, value: Number, number: int, tape: Tape, patches: list[int]
                ) -> tuple[int, ...]:  # fmt: skip
        kind = _KINDS[type(value)]
        form = "=d" if kind is NumberKind.FLOAT else "=q"
        (bits,) = struct.unpack("=q", struct.pack(form, value))
        least, most = tape.limits.get(number, (-(1 << 63), (1 << 63) - 1))
        if number in tape.pinned:
            least = most = bits
        return position, kind, least, most, bits, *self._table(ctypes.c_int64, patches)

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
                *self._table(ctypes.c_int64, patches), 0)  # fmt: skip


class Operands(Protocol):
    """What the operations of a tape name."""

    def array(self, named: Named, /) -> HostArray: ...

    def address(self, named: Named, word: int, /) -> int:
        """The address of an array that stays, 0 for one whose address is put into `word`."""

    def number(self, which: int, word: int, /) -> None:
        """A parameter of the program is put into `word`."""


class _Patches:
    """The words into which every call puts the addresses and numbers that it brings."""

    def __init__(self, inputs: Sequence[HostArray], results: Sequence[HostArray]) -> None:
        self.inputs = inputs
        self.of_inputs: list[list[int]] = [[] for _ in inputs]
        self.of_results: dict[int, list[int]] = {id(a): [] for a in results}
        self.of_numbers: dict[int, list[int]] = {}
        self._given = {id(a) for a in inputs}
        self.held: list[HostArray] = []

    def array(self, named: Named) -> HostArray:
        return self.inputs[named] if isinstance(named, int) else named

    def address(self, named: Named, word: int) -> int:
        if isinstance(named, int):
            self.of_inputs[named].append(word)
            return 0
        if id(named) in self._given:
            raise Unrecordable  # an input under another name
        if id(named) in self.of_results:
            self.of_results[id(named)].append(word)
            return 0
        self.held.append(named)
        return address(named)

    def number(self, which: int, word: int) -> None:
        self.of_numbers.setdefault(which, []).append(word)


def fill(row: structures.Operation, operation: Operation, operands: Operands, kept: list[object]
         ) -> structures.Operation:  # fmt: skip
    """Make `row` an operation of a tape; what it points to is added to `kept`."""
    match operation:
        case Launch():
            _fill_launch(row, operation, operands, kept)
        case Fill():
            row.kind = OperationKind.FILL
            row.target = operands.address(operation.target, _word(row, "target"))
            row.size = operands.array(operation.target).nbytes
        case Copy():
            row.kind = OperationKind.COPY
            row.target = operands.address(operation.target, _word(row, "target"))
            row.source = operands.address(operation.source, _word(row, "source"))
            row.size = operands.array(operation.target).nbytes
        case Failure():
            kept.append(operation.errors)
            row.kind, row.target = OperationKind.FAILURE, address(operation.errors)
    return row


def _word(row: structures.Operation, name: str) -> int:
    """The address of a field."""
    return ctypes.addressof(row) + int(getattr(structures.Operation, name).offset)


def _fill_launch(row: structures.Operation, launch: Launch, operands: Operands,
                 kept: list[object]) -> None:  # fmt: skip
    count = launch.threads
    if count > 1 and threads.team() is None:
        raise Unrecordable
    threads.join_openmp()
    launcher = launch.compiled.bind()
    kept.append(launcher)
    words = launcher.arguments
    addresses = [operands.address(a, words + 8 * k) for k, a in enumerate(launch.arrays)]
    errors = 0 if launch.errors is None else address(launch.errors)
    kept.append(launch.errors)
    launcher.pack(addresses, launch.scalars, errors)
    widths = [2 if t.is_complex else 1 for t in launch.compiled.types]
    for position, number in launch.given:
        operands.number(number, words + 8 * (len(addresses) + 1 + sum(widths[:position])))
    row.kind, row.target, row.source = OperationKind.LAUNCH, launch.compiled.entry, words
    row.size, row.threads = launch.tasks, count
