"""Operations on whole arrays that a library provides: sorting, and a user's `foreign_array`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from treadle.dsl.graph import Library
from treadle.dsl.library import is_builtin, parts_of

from ..runtime.run import HostValues
from .device.device import Call
from .running import DeviceRun

if TYPE_CHECKING:
    from .executable import CudaExecutor

#: treadle's own operations that CuPy has too, stable and with NaN last.
_ON_DEVICE = ("sort", "argsort")


def library(owner: CudaExecutor, node: Library) -> Callable[[DeviceRun], None]:
    """The step of a library operation: on the device where there is an implementation for it
    (CuPy arrays in, CuPy arrays out), else on the host."""
    operation = node.operation
    if is_builtin(operation) and operation.name in _ON_DEVICE and _sortable(node):
        return _queued(owner, node)
    if "cuda" in dict(operation.implementations):
        return _on_device(owner, node)
    return _on_host(owner, node)


def _sortable(node: Library) -> bool:
    """Whether CuPy sorts the type."""
    return all(a.type.name != "bfloat16" for a in node.arguments)


def _queued(owner: CudaExecutor, node: Library) -> Callable[[DeviceRun], None]:
    slots = owner.planner.slots
    (source,), (target,) = [slots[a] for a in node.arguments], [slots[o] for o in node.leaves]
    (out,) = node.outputs
    shape = HostValues(owner.host, out.shape)
    name, (axis,) = node.operation.name, node.operation.parameters
    module, make = owner.device.library, node.operation.numpy

    def action(reads: Sequence[Any], writes: Sequence[Any]) -> None:
        if module is np:
            writes[0][...] = make(reads[0])
        elif name == "sort":
            writes[0][...] = module.sort(reads[0], axis=axis)
        else:
            writes[0][...] = module.argsort(reads[0], axis=axis)

    def act(run: DeviceRun) -> None:
        extents = tuple(max(int(v), 0) for v in shape(run))
        made = run.queue.block(extents, out.type.numpy)
        if made.size:
            run.queue.put(Call(action, (run.array(source),), (made,)))
        run.slots[target] = made

    return act


def _on_device(owner: CudaExecutor, node: Library) -> Callable[[DeviceRun], None]:
    """A user's function on device arrays: its extents are known once it ran."""
    sources, targets, types = _places(owner, node)
    function = node.operation.on("cuda")
    extents = _extents(owner, node)

    def act(run: DeviceRun) -> None:
        run.refuse_recording("a function of the user's")
        given = [run.array(s) for s in sources]
        for block in given:
            block.kind = "input"  # the function may keep it
        result = function(*(block.array for block in given))
        parts = parts_of(node.operation, result, iter(extents(run)), node.where)
        for slot, part, t in zip(targets, parts, types, strict=True):
            found = owner.device.adopt(part)
            if found is None:
                run.slots[slot] = np.array(part, t, order="C")
                continue
            array = found[0] if found[0].dtype == t else found[0].astype(t)
            run.slots[slot] = owner.device.block(array)
            run.dense(slot)

    return act


def _on_host(owner: CudaExecutor, node: Library) -> Callable[[DeviceRun], None]:
    """NumPy's: the arrays go to the host and back."""
    sources, targets, types = _places(owner, node)
    function = node.operation.numpy
    extents = _extents(owner, node)

    def act(run: DeviceRun) -> None:
        result = function(*(run.on_host(s) for s in sources))
        parts = parts_of(node.operation, result, iter(extents(run)), node.where)
        for slot, part, t in zip(targets, parts, types, strict=True):
            run.slots[slot] = np.array(part, t, order="C")

    return act


def _extents(owner: CudaExecutor, node: Library) -> HostValues:
    return HostValues(owner.host, [e for o in node.outputs for e in o.shape])


def _places(owner: CudaExecutor, node: Library) -> tuple[list[int], list[int], list[Any]]:
    slots = owner.planner.slots
    return (
        [slots[a] for a in node.arguments],
        [slots[o] for o in node.leaves],
        [o.type.numpy for o in node.outputs],
    )
