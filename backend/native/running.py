"""One run of a program on this machine's cores, where every array is on the host."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from treadle.dsl.analysis.bounds import MEMORY
from treadle.dsl.graph import Check
from treadle.dsl.graphs.relations import limit_of
from treadle.dsl.types import as_type, int64

from ..runtime.host import HostFunction
from ..runtime.memory import POOL
from ..runtime.run import HostValues, Params, Run, Slots
from ..runtime.types import DType, HostArray, Numbers
from .layouts import copying, row_major
from .runtime.late import Instruction, Late, is_late
from .runtime.structures import InstructionKind
from .runtime.tape import Call, Copy, Fill, Operation, Tape


def memory_of(array: HostArray) -> object:
    """The owner of an array's memory; a reshaped array has that of another array."""
    return array if array.base is None else array.base


class HostRun(Run[HostArray]):
    """The state of one run; with a `tape`, operations are recorded on it."""

    __slots__ = ("_before", "_outer", "_shared", "tape")

    def __init__(self, slots: Slots, params: Params, tape: Tape | None = None) -> None:
        super().__init__(slots, params)
        self.tape = tape
        self._shared: list[HostArray] = []
        #: The enclosing run of a run of a part, and the operations recorded before it.
        self._outer: HostRun | None = None
        self._before: list[Operation] = []

    @property
    def recording(self) -> bool:
        return self.tape is not None

    def new(self, shape: tuple[int, ...], dtype: DType) -> HostArray:
        found: HostArray = (POOL.allocate if self.tape is None else self.tape.new)(shape, dtype)
        return found

    def extents(self, values: Numbers, least: int = 0) -> tuple[Any, ...]:
        if self.tape is None or not any(isinstance(v, Late) for v in values):
            return super().extents(values, least)
        most = functools.partial(self.tape.apply, InstructionKind.MAXIMUM, least)
        return tuple([most(v) if isinstance(v, Late) else max(int(v), least) for v in values])

    def counts(self, values: HostValues) -> Numbers:
        if self.tape is None or not values.reads:
            return super().counts(values)
        self.pinned |= values.params
        found = self.tape.numbers.evaluate([], values.hosted, self.slots, self.params)
        return [MEMORY if isinstance(v, Late) else v for v in found]

    def evaluate(self, host: HostFunction, function: Callable[[Slots, Params], tuple[Any, ...]]
                 ) -> Numbers:  # fmt: skip
        """The values of a host function, whose compiled form is `function`; while recording, values
        that depend on the contents of arrays are `Late`."""
        if self.tape is None or not is_late(host, self.slots):
            return function(self.slots, self.params)
        return self.tape.numbers.evaluate(self.tape.code, host, self.slots, self.params)

    def defer(self, check: Check, values: HostValues) -> bool:
        tape = self.tape
        if tape is None:
            return False
        self.pinned |= values.params
        left, right = self.evaluate(values.hosted, values.plain)
        if not isinstance(left, Late) and not isinstance(right, Late):
            return False
        equal = check.relation == "=="
        kind = InstructionKind.EQUAL if equal else InstructionKind.LESS_EQUAL
        holds = tape.apply(kind, *((left, right) if equal else (right, left)))
        tape.code.append(Instruction(InstructionKind.REQUIRE, 0, holds.register))
        return True

    def constant(self, value: HostArray) -> HostArray:
        return np.ascontiguousarray(value)

    def clear(self, array: HostArray) -> None:
        if self.tape is None:
            array.fill(0)
        else:
            self.tape.operations.append(Fill(array))

    def copy(self, target: HostArray, slot: int) -> None:
        if self.tape is None:
            np.copyto(target, self.slots[slot])
        else:
            self.tape.operations.append(Copy(target, self.dense(slot)))

    def known(self, value: HostArray) -> HostArray:
        if self.tape is not None:
            self.tape.known[id(value)] = value
        return value

    def array(self, slot: int) -> HostArray:
        found: HostArray = self.slots[slot]
        return found

    def dense(self, slot: int) -> HostArray:
        array: HostArray = self.slots[slot]
        if not array.flags.c_contiguous:
            copied = row_major if self.tape is None else functools.partial(self._copied, slot)
            array = self.slots[slot] = copied(array)
        return array

    def reshaped(self, slots: Sequence[int], extents: HostValues) -> list[HostArray] | None:
        arrays = [self.array(slot) for slot in slots]
        if self.tape is not None or not all(a.flags.c_contiguous for a in arrays):
            return None
        shape = self.extents(extents(self))
        same = all(a.size == math.prod(shape) for a in arrays)
        return [a.reshape(shape) for a in arrays] if same else None

    def _copied(self, slot: int, array: HostArray) -> HostArray:
        """A dense copy by the tape; of an outer array, before the loop or branch."""
        assert self.tape is not None
        outer = self._outer
        if outer is not None and outer.slots[slot] is array:
            with self.tape.part(self._before):
                found = outer.dense(slot)
            self.tape.earlier.add(id(found))
            return found
        owner = copying(as_type(array.dtype), array.ndim).executable
        run = HostRun(owner.slots([array]), (), self.tape)
        owner.work(run)
        return run.array(owner.results[0])

    def recorded(
        self,
        function: Callable[..., object],
        sources: Sequence[int],
        targets: Sequence[tuple[int, tuple[int, ...], DType]],
    ) -> bool:
        if self.tape is None or not any(map(self.needs_sync, sources)):
            return False
        given = [self.array(slot) for slot in sources]
        made = [self.tape.new(shape, dtype) for _, shape, dtype in targets]
        self.tape.operations.append(Call(function, (*given, *made)))
        for (slot, _, _), array in zip(targets, made, strict=True):
            self.slots[slot] = array
        return True

    def on_host(self, slot: int) -> HostArray:
        if self.needs_sync(slot):
            self.refuse_recording("the contents of an array decide what runs next")
        return self.array(slot)

    def readable(self, slots: Sequence[int]) -> Slots:
        for slot in slots:
            self.on_host(slot)
        return self.slots

    def needs_sync(self, slot: int) -> bool:
        return self.tape is not None and id(self.slots[slot]) not in self.tape.known

    def alone(self, slot: int) -> bool:
        """Arguments have separate slots, which keep the originals."""
        array, referenced = self.slots[slot], (*self.slots, *self._shared)
        if self.tape is None:
            memory = memory_of(array)
            return (
                sum(other is not None and memory_of(other) is memory for other in referenced) == 1
            )
        found = sum(other is array for other in referenced) == 1
        found = found and id(array) not in self.tape.known
        if found:
            self.tape.overwritten.add(id(array))
        return found

    def mark_shared(self, slots: Sequence[int]) -> None:
        self._shared += [self.slots[slot] for slot in slots]

    def with_dense(self, slots: Sequence[int]) -> HostRun:
        """A separate run: other steps still read the original arguments."""
        made = self.inner()
        for slot in slots:
            made.dense(slot)
        return made

    def inner(self) -> HostRun:
        """A run of a part of the program, with its own slots."""
        made = HostRun(list(self.slots), self.params, self.tape)
        made._shared, made.pinned = self._shared, self.pinned
        if self.tape is not None:
            made._outer, made._before = self, self.tape.operations
        return made

    def repeat(self, check: Check, values: HostValues) -> None:
        if self.tape is not None:
            (number,) = values.params
            low, high = self.tape.limits.get(number, (int64.lowest, int64.highest))
            left, right = values(self, shapes=False)
            above = limit_of(check) is check.right
            self.tape.limits[number] = (low, min(high, left)) if above else (max(low, right), high)
