"""In-place calls of cuBLAS and cuSOLVER: the first result starts as a copy of the last argument.

To these column-major libraries, a row-major matrix is its transpose:

    solve_triangular   op(a) X = b is Xᵀ op(a)ᵀ = bᵀ; if b is a vector, it is a column for them, too
    potrf              the upper factor is their lower one, for which cuSOLVER takes much less time
                       than for the upper one
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from treadle.dsl.graph import Library
from treadle.dsl.libraries.base import PORTABLE

from ..runtime.run import HostValues
from ..runtime.steps import Action
from ..runtime.types import DeviceArray, Numbers
from .device.device import Block, Call, Copy, Fill
from .running import DeviceRun

if TYPE_CHECKING:
    from .executable import CudaExecutor

_LEFT, _RIGHT, _LOWER, _UPPER = 0, 1, 0, 1

Arrays: TypeAlias = Sequence[DeviceArray]
InPlace = Callable[[Numbers, Arrays, Arrays], None]
"""Static parameters, the other arguments, and the results: dense CuPy arrays."""


def trsm(parameters: Numbers, reads: Arrays, writes: Arrays) -> None:
    from cupy.cuda import device
    from cupy_backends.cuda.libs import cublas

    (lower, trans, unit), (x,) = parameters, writes
    *batch, n, k = x.shape
    a = reads[0].reshape((1,) * (x.ndim - reads[0].ndim) + reads[0].shape)
    fill, one = _UPPER if lower else _LOWER, np.ones(1, x.dtype)
    how: tuple[int, ...] = _RIGHT, fill, "NTC".index(trans), int(unit), k, n
    if k == 1 and trans != "C":
        how = _LEFT, fill, "TN".index(trans), int(unit), n, 1
    leads = n, n if how[0] == _LEFT else k
    handle, name = device.get_cublas_handle(), _letter(x) + "trsm"
    if prod(batch) == 1:
        call, a_at, x_at = getattr(cublas, name), a.data.ptr, x.data.ptr
        call(handle, *how, one.ctypes.data, a_at, leads[0], x_at, leads[1])
        return
    matrices, sides = (_pointers(array, batch) for array in (a, x))
    call, a_at, x_at = getattr(cublas, name + "Batched"), matrices.data.ptr, sides.data.ptr
    call(handle, *how, one.ctypes.data, a_at, leads[0], x_at, leads[1], prod(batch))


def potrf(_: Numbers, reads: Arrays, writes: Arrays) -> None:
    import cupy
    from cupy.cuda import device
    from cupy_backends.cuda.libs import cusolver

    x, info = writes
    *batch, n, _ = x.shape
    handle, name, at = device.get_cusolver_handle(), _letter(x) + "potrf", x.data.ptr
    if prod(batch) == 1:
        size = getattr(cusolver, name + "_bufferSize")(handle, _LOWER, n, at, n)
        space = cupy.empty(size, x.dtype)
        call = getattr(cusolver, name)
        call(handle, _LOWER, n, at, n, space.data.ptr, size, info.data.ptr)
        return
    matrices, call = _pointers(x, batch), getattr(cusolver, name + "Batched")
    call(handle, _LOWER, n, matrices.data.ptr, n, info.data.ptr, prod(batch))


IN_PLACE: dict[str, InPlace] = {"linalg.solve_triangular": trsm, "linalg.potrf": potrf}


def _letter(x: DeviceArray) -> str:
    return "sdcz"["fdFD".index(x.dtype.char)]


def _pointers(array: DeviceArray, batch: Sequence[int]) -> DeviceArray:
    """The addresses of the matrices of a batch, broadcast over the leading axes."""
    import cupy

    at = np.full(batch, array.data.ptr, np.int64)
    for axis, (n, count) in enumerate(zip(array.shape, batch, strict=False)):
        step = array.strides[axis] if n > 1 else 0
        at += (np.arange(count) * step).reshape(-1, *(1,) * (len(batch) - 1 - axis))
    return cupy.asarray(at.reshape(-1))


def in_place_step(owner: CudaExecutor, node: Library) -> Action:
    slots, operation, device = owner.planner.slots, node.operation, owner.device
    *others, source = (slots[a] for a in node.arguments)
    targets = [slots[o] for o in node.leaves]
    shapes = [HostValues(owner.host, out.shape) for out in node.outputs]

    def compute(reads: Arrays, writes: Arrays) -> None:
        if device.library is not np:
            IN_PLACE[operation.name](operation.parameters, reads, writes)
            return
        made = PORTABLE[operation.name](np, operation.parameters, *reads, writes[0])
        for target, result in zip(writes, made, strict=True):
            target[...] = result

    def spread(reads: Arrays, writes: Arrays) -> None:
        writes[0][...] = reads[0]

    def act(run: DeviceRun) -> None:
        made: list[Block] = []
        for shape, out in zip(shapes, node.outputs, strict=True):
            extents = tuple(max(int(v), 0) for v in shape(run))
            made.append(run.queue.block(extents, out.type.numpy))
        given, first = run.array(source), made[0]
        if first.size:
            alike = given.shape == first.shape
            run.queue.put(Copy(first, given) if alike else Call(spread, (given,), (first,)))
            run.queue.put(Call(compute, tuple(run.dense(s) for s in others), tuple(made)))
        else:
            for block in filter(lambda b: b.size, made):
                run.queue.put(Fill(block, np.zeros((), block.dtype)))
        for target, block in zip(targets, made, strict=True):
            run.slots[target] = block

    return act
