"""Calls that were made before, made again by native code.

From the second call with arguments of one kind on, a program has a record of what such a call does:
what its arguments must look like (class, type, extents, strides, alignment; the kind of a number,
and its value where that decides more than an argument of a kernel), which arrays it makes, and the
operations of its tape with their arguments packed.  `replay(*args)` compares, fills in the
addresses and numbers of this call, and runs the operations without the interpreter lock; it gives
None where no record fits, another thread is using it, or a foreign function has raised an
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
from typing import Any

import numpy as np

from treadle.dsl import locks

from ...runtime.memory import SMALLEST, address
from . import modules as runtime
from . import threads
from .tape import Copy, Failure, Fill, Launch, Tape, Unrecordable

#: Bytes of arrays that a record may keep: a call that moves more takes far longer than Python.
LARGEST = 16 << 20
#: Bytes that all records together may keep.
LIMIT = 128 << 20
#: Records of one program.
MOST = 8

_METH_FASTCALL = 0x80
_KINDS = {float: runtime.FLOAT, int: runtime.INT, bool: runtime.BOOL}


class _Method(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class _Head(np.ndarray[Any, Any]):
    """One number, the address of the first record; keeps all of them alive."""

    records: list[_Record]


@functools.lru_cache(maxsize=1)
def usable() -> bool:
    """Whether CPython and NumPy keep things where replay.ll looks for them."""
    if (
        sys.implementation.name != "cpython"
        or not getattr(sys, "_is_gil_enabled", lambda: True)()
        or sys.byteorder != "little"
        or object.__basicsize__ != 16
    ):
        return False
    for a in (np.zeros((3, 5), np.float32), np.zeros((4, 4))[1:, ::-1], np.empty(0, np.int8)):
        at, n = id(a), a.ndim
        field = ctypes.c_int64.from_address
        if (
            field(at + 8).value != id(np.ndarray)
            or field(at + 16).value != a.ctypes.data
            or ctypes.c_int32.from_address(at + 24).value != n
            or list((ctypes.c_int64 * n).from_address(field(at + 32).value)) != list(a.shape)
            or list((ctypes.c_int64 * n).from_address(field(at + 40).value)) != list(a.strides)
            or field(at + 56).value != id(a.dtype)
            or ctypes.c_int32.from_address(at + 64).value != a.flags.num
        ):
            return False
    held = [np.zeros(1)]
    return ctypes.c_int32.from_address(id(held[0])).value == 1


@functools.lru_cache(maxsize=1)
def _method() -> _Method:
    return _Method(b"replay", runtime.replayer()["replay"], _METH_FASTCALL, None)


def _function(head: _Head) -> Callable[..., Any]:
    types = ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.py_object
    make = ctypes.PYFUNCTYPE(*types)(("PyCFunction_NewEx", ctypes.pythonapi))
    found: Callable[..., Any] = make(ctypes.addressof(_method()), head, "treadle")
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
        self._missed: Any = None
        self._failures = 0
        self._function: Callable[..., Any] | None = None

    @property
    def function(self) -> Callable[..., Any] | None:
        """`replay(*args)`, None before the first record."""
        return self._function

    @property
    def records(self) -> Sequence[_Record]:
        return self._head.records

    def missed(self, args: Sequence[Any], inputs: Sequence[Any]) -> bool:
        """Note a call that no record fitted; whether to record it: it came twice in a row."""
        if self._failures > MOST or not usable():
            return False
        key = tuple([(a.shape, a.strides, a.dtype) for a in inputs]), tuple(map(type, args))
        before, self._missed = self._missed, key
        return bool(before == key)

    def failed(self) -> None:
        """A call could not be recorded; after some of these no call will be."""
        self._failures += 1

    def add(self, tape: Tape, args: Sequence[Any], inputs: Sequence[Any],
            results: Sequence[Any]) -> None:  # fmt: skip
        """Make a record: `args` as given to the function, `inputs` the arrays that the tape names
        by number, `results` arrays that the tape made."""
        with _lock:
            records = self._head.records
            made = _Record(tape, self.arguments, args, inputs, results)
            if len(records) >= MOST and not self._drop(records[0]):
                return
            others = [r for r in list(_live) if r is not self]
            if sum(r.size for r in others) + self.size + made.size > LIMIT:
                for r in others:
                    r.clear()
            if records:
                made.memory[_NEXT] = address(records[-1].memory)
            records.append(made)
            self._head[0] = address(made.memory)
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

    def _drop(self, record: _Record) -> bool:
        if record.memory[_BUSY]:
            return False
        records = self._head.records
        at = records.index(record)
        following = int(record.memory[_NEXT])
        if at + 1 < len(records):
            records[at + 1].memory[_NEXT] = following
        else:
            self._head[0] = following
        del records[at]
        self.size -= record.size
        return True


_live: weakref.WeakSet[Replays] = weakref.WeakSet()
_lock = locks.lock(again=True)  # one for all: a program's new record may displace another's
_NEXT, _BUSY = 0, 1  # fields of a record


class _Record:
    """One kind of call in memory, as replay.ll reads it."""

    def __init__(self, tape: Tape, arguments: int, args: Sequence[Any], inputs: Sequence[Any],
                 results: Sequence[Any]) -> None:  # fmt: skip
        self._kept: list[Any] = []
        self.size = tape.size
        places = _Places(inputs, results)
        rows = self._operations(tape, places)
        positions = [k for k, a in enumerate(args) if type(a) is np.ndarray]
        arrays = [
            [position, id(a), id(a.dtype), a.ndim,
             self._table([v for pair in zip(a.shape, a.strides, strict=True) for v in pair]),
             *self._list(places.of_inputs[k])]
            for k, (position, a) in enumerate(
                zip(positions + [-1] * (len(inputs) - arguments), inputs, strict=True))
        ]  # fmt: skip
        numbers = []
        for number, k in enumerate(k for k, a in enumerate(args) if type(a) is not np.ndarray):
            kind = _KINDS[type(args[k])]
            form = "=d" if kind == runtime.FLOAT else "=q"
            bits = struct.unpack("=q", struct.pack(form, args[k]))
            range_ = tape.limits.get(number, (-(1 << 63), (1 << 63) - 1))
            low, high = bits * 2 if number in tape.pinned else range_
            numbers.append([k, kind, low, high, bits[0],
                            *self._list(places.of_numbers.get(number, []))])  # fmt: skip
        made = [self._result(a, places.of_results[id(a)]) for a in results]
        self._kept += [a.dtype for a in (*inputs, *results)]
        self.memory = np.array(
            [0, 0, len(args), self._table(arrays), len(arrays), self._table(numbers), len(numbers),
             self._table(made), len(made), address(rows), len(rows)], np.int64)  # fmt: skip

    def _table(self, values: Any) -> int:
        """Numbers in memory that lives as long as the record."""
        made = np.array(values, np.int64)
        self._kept.append(made)
        return address(made)

    def _list(self, values: Sequence[int]) -> tuple[int, int]:
        return self._table(values), len(values)

    def _operations(self, tape: Tape, places: _Places) -> Any:
        rows = np.zeros((len(tape.operations), runtime.OPERATION), np.int64)
        self._kept.append(rows)
        for k, op in enumerate(tape.operations):
            at = address(rows[k:])
            match op:
                case Launch():
                    rows[k, :5] = launch_row(op, places, self._kept)
                case Fill():
                    target = places.address(op.target, at + 8)
                    rows[k, :4] = runtime.FILL, target, 0, places.array(op.target).nbytes
                case Copy():
                    target = places.address(op.target, at + 8)
                    source = places.address(op.source, at + 16)
                    rows[k, :4] = runtime.COPY, target, source, places.array(op.target).nbytes
                case Failure():
                    rows[k, :2] = runtime.FAILURE, places.address(op.errors, 0)
        self._kept.append(places.held)
        return rows

    def _result(self, array: Any, places: list[int]) -> list[int]:
        blocks: list[int] = []
        if array.nbytes >= SMALLEST:
            # One for the result that the caller still has, one for the next.
            raws = [np.empty(array.nbytes + 64, np.uint8) for _ in range(2)]
            blocks = [v for raw in raws for v in (id(raw), address(raw) + -address(raw) % 64)]
            self._kept.append(raws)
            self.size += array.nbytes
            del raws
        return [id(array.dtype), array.ndim, self._table(array.shape), self._table(blocks),
                len(blocks) // 2, *self._list(places), 0]  # fmt: skip


class _Places:
    """Where the operations take what every call brings anew."""

    def __init__(self, inputs: Sequence[Any], results: Sequence[Any]) -> None:
        self.inputs = inputs
        self.of_inputs: list[list[int]] = [[] for _ in inputs]
        self.of_results: dict[int, list[int]] = {id(a): [] for a in results}
        self.of_numbers: dict[int, list[int]] = {}
        self._given = {id(a) for a in inputs}
        self.held: list[Any] = []

    def array(self, named: Any) -> Any:
        return self.inputs[named] if isinstance(named, int) else named

    def address(self, named: Any, place: int) -> int:
        """The address of an array that stays, 0 for one that each call fills in at `place`."""
        if isinstance(named, int):
            self.of_inputs[named].append(place)
            return 0
        if id(named) in self._given:
            raise Unrecordable  # an input under another name
        if id(named) in self.of_results:
            self.of_results[id(named)].append(place)
            return 0
        self.held.append(named)
        return address(named)

    def number(self, which: int, place: int) -> None:
        self.of_numbers.setdefault(which, []).append(place)


def launch_row(op: Launch, places: Any, kept: list[Any]) -> tuple[int, ...]:
    """The fields of a launch, its arguments packed into memory that `kept` keeps."""
    count = op.threads
    if count > 1 and threads.team() is None:
        raise Unrecordable
    threads.join_openmp()
    launcher = op.compiled.bind()
    kept.append(launcher)
    where = launcher.place
    addresses = [places.address(a, where + 8 * k) for k, a in enumerate(op.arrays)]
    errors = 0 if op.errors is None else places.address(op.errors, 0)
    launcher.pack(addresses, op.scalars, errors)
    widths = [2 if t.is_complex else 1 for t in op.compiled.types]
    for position, number in op.given:
        places.number(number, where + 8 * (len(addresses) + 1 + sum(widths[:position])))
    return runtime.LAUNCH, op.compiled.entry, where, op.tasks, count
