"""Operations on complete arrays by a library: sorting, and a user's `foreign_array`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from treadle.dsl.graph import Library
from treadle.dsl.library import is_builtin
from treadle.dsl.target import CUDA

from ..runtime.run import HostValues
from ..runtime.steps import Action, LibraryStep
from .device.device import Call
from .running import DeviceRun

if TYPE_CHECKING:
    from .executable import CudaExecutor

#: treadle's operations that CuPy provides too: stable, with NaN last.
_ON_DEVICE = ("sort", "argsort")


def library(owner: CudaExecutor, node: Library) -> Action:
    """The step of a library operation: on the device where there is an implementation for it
    (CuPy arrays in, CuPy arrays out), else on the host."""
    operation = node.operation
    if is_builtin(operation) and operation.name in _ON_DEVICE and _sortable(node):
        return _queued(owner, node)
    if CUDA.name in dict(operation.implementations):
        return DeviceLibraryStep(owner, node)
    return LibraryStep(owner, node, operation.numpy)


def _sortable(node: Library) -> bool:
    """Whether CuPy can sort the type."""
    return all(a.type.name != "bfloat16" for a in node.arguments)


def _queued(owner: CudaExecutor, node: Library) -> Action:
    slots = owner.planner.slots
    (source,), (target,) = [slots[a] for a in node.arguments], [slots[o] for o in node.leaves]
    (out,) = node.outputs
    shape = HostValues(owner.host, out.shape)
    name, (axis,) = node.operation.name, node.operation.parameters
    module, make = owner.device.library, node.operation.numpy

    def action(reads: Sequence[Any], writes: Sequence[Any]) -> None:
        if module is np:
            writes[0][...] = make(reads[0])
            return
        keys = reads[0]
        if keys.dtype.kind == "f":
            # CuPy's radix sort puts NaN with a sign first, and 0 / 0 has a sign on the device.
            keys = module.where(module.isnan(keys), keys.dtype.type(np.nan), keys)
        writes[0][...] = getattr(module, name)(keys, axis=axis)

    def act(run: DeviceRun) -> None:
        extents = tuple(max(int(v), 0) for v in shape(run))
        made = run.queue.block(extents, out.type.numpy)
        if made.size:
            run.queue.put(Call(action, (run.array(source),), (made,)))
        run.slots[target] = made

    return act


class DeviceLibraryStep(LibraryStep[DeviceRun]):
    """A user's function on device arrays; the extents of its results are known after it ran."""

    def __init__(self, owner: CudaExecutor, node: Library) -> None:
        super().__init__(owner, node, node.operation.on(CUDA.name))
        self.device = owner.device

    def __call__(self, run: DeviceRun) -> None:
        run.refuse_recording("a function of the user's")
        given = [run.array(s) for s in self.sources]
        for block in given:
            block.kind = "input"  # the function may keep it
        for slot, t, part in self.parts(run, self.function(*(block.array for block in given))):
            found = self.device.adopt(part)
            if found is None:
                run.slots[slot] = np.array(part, t, order="C")
                continue
            array = found[0] if found[0].dtype == t else found[0].astype(t)
            run.slots[slot] = self.device.block(array)
            run.dense(slot)
