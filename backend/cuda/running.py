"""One run of a program on a GPU: the contents of its slots, on the device and on the host."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from treadle.dsl.analysis.bounds import MEMORY
from treadle.dsl.graph import Check
from treadle.dsl.graphs.relations import limit_of
from treadle.skeletons.ir import arithmetic as at
from treadle.skeletons.ir.counted import Loops, violations

from ..runtime.run import HostValues, Params, Run, Slots
from ..runtime.steps import verify
from ..runtime.types import DType, HostArray
from .device.device import Block, Copy, Fill
from .graphs.tape import DeferredCheck, Queue


class DeviceRun(Run[Block]):
    """The state of one run, which puts its operations into a queue.

    A slot holds a `Block` on the device, or a NumPy array that exists only on the host.  `loops`:
    the enclosing loops under recording, whose counters are on the device
    (`skeletons/ir/counted.py`).
    """

    __slots__ = ("_host", "loops", "queue")

    def __init__(self, queue: Queue, slots: Slots, params: Params, loops: Loops = ()) -> None:
        super().__init__(slots, params)
        self.queue, self.loops = queue, loops
        self._host: dict[int, tuple[Block, HostArray]] = {}

    def inside(self, queue: Queue, loops: Loops) -> DeviceRun:
        """A run of its own over the same arrays, of which an iteration of a loop may have others.
        It knows the numbers that the host knows."""
        made = DeviceRun(queue, list(self.slots), self.params, loops)
        made._host |= self._host
        return made

    @property
    def recording(self) -> bool:
        return self.queue.recording

    def new(self, shape: tuple[int, ...], dtype: DType) -> Block:
        return self.queue.block(shape, dtype)

    def constant(self, value: HostArray) -> Block:
        return self.queue.constant(value)

    def clear(self, array: Block) -> None:
        self.queue.put(Fill(array, np.zeros((), array.dtype)))

    def copy(self, target: Block, slot: int) -> None:
        if target.size:
            self.queue.put(Copy(target, self.array(slot)))

    def counts(self, values: HostValues) -> Sequence[Any]:
        if not self.counted(values):
            return super().counts(values)
        self.pinned |= values.params
        return [MEMORY] * len(values.roots)

    def counted(self, values: HostValues) -> bool:
        """Whether host values depend on the counter of a loop under recording."""
        return bool(self.loops) and any(map(self.needs_sync, values.reads))

    def array(self, slot: int) -> Block:
        value = self.slots[slot]
        if isinstance(value, Block):
            return value
        made = self.slots[slot] = self.queue.upload(value)
        self._host[slot] = made, value
        return made

    def reshaped(self, slots: Sequence[int], extents: HostValues) -> list[Block] | None:
        blocks = [self.array(slot) for slot in slots]
        if not all(b.dense for b in blocks) or self.counted(extents):
            return None
        shape = self.extents(extents(self))
        same = all(b.size == prod(shape) for b in blocks)
        return [b.reshaped(shape) for b in blocks] if same else None

    def dense(self, slot: int) -> Block:
        block = self.array(slot)
        if not block.dense:
            made = self.queue.block(block.shape, block.dtype)
            self.queue.put(Copy(made, block))
            block = self.slots[slot] = made
        return block

    def on_host(self, slot: int) -> HostArray:
        """The array on the host; it is copied from the device at most once."""
        value = self.slots[slot]
        if not isinstance(value, Block):
            return np.asarray(value)
        if self.needs_sync(slot):
            self._host[slot] = value, self.queue.download(value)
        return np.asarray(self._host[slot][1])

    def needs_sync(self, slot: int) -> bool:
        value, kept = self.slots[slot], self._host.get(slot)
        return isinstance(value, Block) and (kept is None or kept[0] is not value)

    def alone(self, slot: int) -> bool:
        """Also False if a deferred check reads the block."""
        value = self.slots[slot]
        if not isinstance(value, Block) or value.kind == "input":
            return False
        if any(value in v.blocks for v in self.queue.deferred or ()):
            return False
        return sum(isinstance(other, Block) and other == value for other in self.slots) == 1

    def defer(self, check: Check, values: HostValues) -> bool:
        """Only for checks of rank-0 blocks that a recording computes, which are evaluated on the
        contents of these blocks after a replay, and for checks of counters, whose values are
        known."""
        if self.counted(values):
            return self._holds_always(check, values)
        deferred = self.queue.deferred
        slots = [s for s in values.reads if self.needs_sync(s)]
        blocks: tuple[Block, ...] = tuple(self.slots[s] for s in slots)
        if deferred is None or not blocks or any(b.shape or b.kind == "input" for b in blocks):
            return False
        self.pinned |= values.params
        contents = self.readable([s for s in values.reads if s not in slots])
        function = values.plain

        def require(numbers: Sequence[Any], params: Params) -> None:
            found = list(contents)
            for slot, number in zip(slots, numbers, strict=True):
                found[slot] = number
            verify(check, *function(found, params))

        deferred.append(DeferredCheck(blocks, require))
        return True

    def _holds_always(self, check: Check, values: HostValues) -> bool:
        """Whether a check of counters holds in all iterations of the loops under recording."""
        relation = at.less_equal(check.right, check.left)
        if check.relation != ">=":
            relation = at.equal(check.left, check.right)
        violated = violations(relation, self.loops)
        return violated is not None and not values.of((violated,))(self)[0]

    def repeat(self, check: Check, values: HostValues) -> None:
        if self.queue.deferred is None:
            return
        (number,), (left, right) = values.params, values(self, shapes=False)
        above = limit_of(check) is check.right

        def require(_: Sequence[Any], params: Params) -> None:
            own = int(params[number])
            verify(check, *((left, own) if above else (own, right)))

        self.queue.deferred.append(DeferredCheck((), require))
