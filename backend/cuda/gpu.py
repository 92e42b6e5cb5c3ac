"""Steps and calls that all GPU `Device`s share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from treadle.dsl.graph import Library
from treadle.dsl.libraries.base import PORTABLE, LibraryOperation, is_builtin
from treadle.dsl.target import CUDA
from treadle.skeletons.linalg.small import has_kernel

from ..runtime.run import HostValues
from ..runtime.steps import Action, BranchStep, LibraryStep
from .calls import RecordedCalls
from .device.device import Call
from .forms import forms_of
from .in_place import IN_PLACE, in_place_step
from .loops import LoopStep
from .products.parts import product_step
from .running import DeviceRun
from .steps import KernelStep

if TYPE_CHECKING:
    from .executable import CudaExecutor


class Gpu:
    """Steps and calls, for a device that has memory and launches kernels."""

    folds = staticmethod(forms_of)
    kernel_step = KernelStep
    product_step = staticmethod(product_step)
    loop_step = LoopStep
    branch_step = BranchStep
    calls = RecordedCalls

    def library_step(self, owner: CudaExecutor, node: Library) -> Action:
        if has_kernel(node):
            made = KernelStep(owner, node)
            owner.kernel_steps.append(made)
            return made
        return library(owner, node)


# --- Operations on complete arrays by a library: sorting, linear algebra, Fourier transforms, and a
# user's `foreign_array`.


def library(owner: CudaExecutor, node: Library) -> Action:
    """The step of a library operation: on the device if there is an implementation for it (CuPy
    arrays in, CuPy arrays out), else on the host."""
    operation = node.operation
    if is_builtin(operation):
        if operation.name in IN_PLACE:
            return in_place_step(owner, node)
        if operation.name in PORTABLE:
            function = PORTABLE[operation.name]
            return _queued(
                owner, node, partial(function, owner.device.library, operation.parameters)
            )
        if _sortable(node):
            return _queued(owner, node, partial(_sorted, owner.device.library, operation))
    if CUDA.name in dict(operation.implementations):
        return DeviceLibraryStep(owner, node)
    return LibraryStep(owner, node, operation.numpy)


def _sortable(node: Library) -> bool:
    sorts = node.operation.name in ("sort", "argsort")
    return sorts and all(a.type.name != "bfloat16" for a in node.arguments)


def _sorted(module: ModuleType, operation: LibraryOperation, keys: Any) -> tuple[Any, ...]:
    if module is np:
        return (operation.numpy(keys),)
    (axis,) = operation.parameters
    if keys.dtype.kind == "f":
        # CuPy's radix sort puts NaN with a sign first, and 0 / 0 has a sign on the device.
        keys = module.where(module.isnan(keys), keys.dtype.type(np.nan), keys)
    return (getattr(module, operation.name)(keys, axis=axis),)


def _queued(owner: CudaExecutor, node: Library, function: Callable[..., tuple[Any, ...]]) -> Action:
    """The step of a function on device arrays with results of the node's extents."""
    slots = owner.planner.slots
    sources, targets = [slots[a] for a in node.arguments], [slots[o] for o in node.leaves]
    shapes = [HostValues(owner.host, out.shape) for out in node.outputs]

    def action(reads: Sequence[Any], writes: Sequence[Any]) -> None:
        options = node.operation.options(writes[0].shape)
        for made, result in zip(writes, function(*reads, **options), strict=True):
            made[...] = result

    def act(run: DeviceRun) -> None:
        made = []
        for shape, out in zip(shapes, node.outputs, strict=True):
            extents = tuple(max(int(v), 0) for v in shape(run))
            made.append(run.queue.block(extents, out.type.numpy))
        if any(block.size for block in made):
            run.queue.put(Call(action, tuple(run.array(s) for s in sources), tuple(made)))
        for target, block in zip(targets, made, strict=True):
            run.slots[target] = block

    return act


class DeviceLibraryStep(LibraryStep[DeviceRun]):
    """A user's function on device arrays, whose results' extents are known after it ran."""

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
