"""Matrix products by cuBLAS, and Strassen-like recursions over them, queued as library calls.

Operands are read in place as strided views; results are written to the program's memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from treadle.dsl.graph import Matmul
from treadle.dsl.types import ScalarType
from treadle.skeletons.products import STRASSEN, algorithm_of
from treadle.skeletons.products.executions import Plan, execute, plan
from treadle.skeletons.products.kit import Job, Kit, add_up
from treadle.skeletons.products.measured import levels_of
from treadle.skeletons.products.scaling import scaled, undo

from ...runtime.operand import ViewLayout
from ..device.device import Addressed, Block, Call, Fill
from ..running import DeviceRun
from .cublas import Prepared, gemm, prepared
from .engine import engine_for, on_streams
from .flow import Flow, flow_here
from .operand import Operand
from .sums import adder_for
from .ways import OVER_LIBRARY, predicted

if TYPE_CHECKING:
    from ..executable import CudaExecutor

Leafs = Callable[[Any, Any, Any], bool]
"""(a, b, out) → whether it computed the product."""


class Product:
    """One `Matmul` by the library; `leaf`: an alternative for standard products of blocks."""

    def __init__(self, owner: CudaExecutor, node: Matmul, leaf: Leafs | None = None) -> None:
        slots = owner.planner.slots
        self.owner, self.node, self.leaf = owner, node, leaf
        self.left = Operand(owner, node.left, (*node.batch, node.m, node.k))
        self.right = Operand(owner, node.right, (*node.batch, node.k, node.n))
        self.slot = slots[node.leaf()]

    def __call__(self, run: DeviceRun) -> None:
        t, options = self.node.left.type, self.node.options
        layouts = self.left.layout(run), self.right.layout(run)
        left, right = (extents for extents, *_ in layouts)
        out = run.queue.block((*left[:-1], right[-1]), t.numpy)
        run.slots[self.slot] = out
        if out.size == 0:
            return
        if left[-1] == 0:
            run.queue.put(Fill(out, np.zeros((), t.numpy)))
            return
        views = [
            side.view_at(at) for side, at in zip((self.left, self.right), layouts, strict=True)
        ]

        def action(reads: Sequence[Any], writes: Sequence[Any]) -> None:
            device = self.owner.device
            a, b = (view(device.library, x) for view, x in zip(views, reads, strict=True))
            product_into(device, writes[0], a, b, t, options, self.leaf)

        blocks = (run.array(self.left.slot), run.array(self.right.slot))
        run.queue.put(Call(action, blocks, (out,), self._addressed(run, layouts, out)))

    def _addressed(self, run: DeviceRun, layouts: tuple[ViewLayout, ViewLayout], out: Block
                   ) -> Addressed | None:  # fmt: skip
        """The product as one call of cuBLAS that only needs addresses; None if it is not one."""
        t, options = self.node.left.type, self.node.options
        a, b = (side.plain(run, at) for side, at in zip((self.left, self.right), layouts,
                                                         strict=True))  # fmt: skip
        device, size = self.owner.device, (out.shape[-2], layouts[0][0][-1], out.shape[-1])
        if a is None or b is None or device.library is np:
            return None
        if planned(device, t, options, size) is not None:
            return None
        target = out.shape, tuple(s // out.itemsize for s in out.strides)
        made = prepared(t.name, t.name, target, a[0], b[0], options.precision == "tf32")
        return None if made is None else _Addressed(made, a[1], b[1])


class _Addressed:
    """A product given the addresses of the arrays that its operands are in, and of its result."""

    def __init__(self, made: Prepared, first_a: int, first_b: int) -> None:
        self.made, self.first_a, self.first_b = made, first_a, first_b

    def __call__(self, addresses: Sequence[int]) -> None:
        x, y, to = addresses
        self.made(to, x + self.first_a, y + self.first_b)

    def queue(self, handle: int, addresses: Sequence[int]) -> int:
        x, y, to = addresses
        return self.made.queue(handle, to, x + self.first_a, y + self.first_b)


#: Types whose standard product cuBLAS always computes: it scales, and adds to existing values.
ADDING = ("float64", "complex64", "complex128")
#: Largest workspace in bytes that is used by default; beyond it, sums are formed one by one.
MOST_WORKSPACE = 1 << 34
#: Multiply-adds of a leaf from which on several streams outweigh their overhead.
LARGE_LEAF = 1 << 33


def planned(device: Any, t: ScalarType, options: Any, size: tuple[int, int, int]) -> Plan | None:
    """The plan of a product over the library's standard ones; None if it is one of these."""
    algorithm, levels = algorithm_of(options.algorithm), options.levels
    if options.algorithm == "auto" and options.fast:
        algorithm, levels = STRASSEN, _fast_levels(device, t, options, size)
    if algorithm is None or not levels:
        return None
    adds = t.name in ADDING
    if options.execution is None and t.name == "float64":
        made = plan(algorithm, "batched", levels, size, GpuKit.workers, adds)
        if made.workspace * t.bytes <= MOST_WORKSPACE:
            return made
    return plan(algorithm, options.execution or "recursive", levels, size, GpuKit.workers, adds)


def flows(made: Plan) -> bool:
    """Whether its products and sums are issued to several streams (`flow`)."""
    algorithm, leaf = made.algorithm, prod(made.core)
    leaf //= (algorithm.m * algorithm.k * algorithm.n) ** made.levels
    return made.execution == "batched" and made.adds and leaf >= LARGE_LEAF


def _fast_levels(device: Any, t: ScalarType, options: Any, size: tuple[int, int, int]) -> int:
    """The levels by measured times; 0 for types that were not measured over the library."""
    engine, arithmetic = engine_for(device), OVER_LIBRARY.get(t.name)
    if engine is None or arithmetic is None or options.scaling is not None:
        return 0
    found = predicted(engine, arithmetic, size, fast=True, deterministic=options.deterministic)
    most = options.levels
    known = {way: s for way, s in found.items() if most is None or levels_of(way) <= most}
    return levels_of(min(known, key=known.__getitem__)) if known else 0


def product_into(device: Any, out: Any, a: Any, b: Any, t: ScalarType, options: Any,
                 leaf: Leafs | None = None) -> None:  # fmt: skip
    """`out[...] = a @ b` as the options say; 16-bit floats accumulate in float32.

    `leaf`: the standard product for blocks of a fast one (default: the library's).
    """
    library = device.library
    made = planned(device, t, options, (a.shape[-2], a.shape[-1], b.shape[-1]))
    if made is None:
        tf32, narrow = options.precision == "tf32" and t.name == "float32", t.is_narrow
        if library is not np and (narrow or tf32):
            gemm(out, a, b, tf32=tf32)
        elif narrow:
            out[...] = np.matmul(a.astype("f4"), b.astype("f4")).astype(out.dtype)
        else:
            library.matmul(a, b, out=out)
        return
    # With several streams cuBLAS may choose other algorithms from call to call.
    flowing = flows(made) and not options.deterministic and library is not np
    flow = flow_here() if flowing else None
    kit = GpuKit(device, made.adds, leaf, flow)
    rows = columns = None
    if options.scaling is not None and t.is_inexact:
        a, b, rows, columns = scaled(library, a, b, options.scaling)
    workspace = kit.empty(made.workspace, a.dtype)
    a, b = (library.broadcast_to(x, (*out.shape[:-2], *x.shape[-2:])) for x in (a, b))
    try:
        for at in np.ndindex(*out.shape[:-2]):
            execute(kit, made, a[at], b[at], out[at], workspace)
    finally:  # before this memory is reused
        if flow is not None:
            flow.finish()
    if rows is not None:
        undo(library, out, rows, columns)


class GpuKit(Kit):
    """A GPU: standard products by cuBLAS (CuPy for integers) or by `leaf`, sums by one of our
    kernels; the execution `streams` uses two streams."""

    workers = 2

    def __init__(self, device: Any, adds: bool, leaf: Leafs | None = None,
                 flow: Flow | None = None) -> None:  # fmt: skip
        """`flow`: the streams that all operations are issued to."""
        super().__init__(device.library)
        self.adds, self.leaf, self.flow = adds, leaf, flow
        self.sum = adder_for(device)

    def product(self, a: Any, b: Any, out: Any) -> None:
        self._queue(False, (a, b), (out,), lambda: self._product(a, b, out))

    def _queue(self, sums: bool, reads: Sequence[Any], writes: Sequence[Any],
               action: Callable[[], None]) -> None:  # fmt: skip
        if self.flow is None:
            action()
        else:
            self.flow.issue(sums, reads, writes, action)

    def _product(self, a: Any, b: Any, out: Any) -> None:
        if self.leaf is not None and a.ndim == 2 and self.leaf(a, b, out):
            return
        if self.library is not np and a.dtype.kind in "fc":
            gemm(out, a, b)
        elif self.library is not np and not out.flags.c_contiguous:
            out[...] = self.library.matmul(a, b)
        else:
            self.library.matmul(a, b, out=out)

    def update(self, a: Any, b: Any, out: Any, factor: float, add: bool) -> None:
        self._queue(False, (a, b, out), (out,), lambda: self._update(a, b, out, factor, add))

    def _update(self, a: Any, b: Any, out: Any, factor: float, add: bool) -> None:
        if self.library is np:
            Kit.update(self, a, b, out, factor, add)
            return
        gemm(out, a, b, add=add, factor=factor)

    def sums(self, made: Sequence[tuple[Any, Sequence[tuple[float, Any]]]],
             shared: Sequence[tuple[float, Any]] = ()) -> None:  # fmt: skip
        add = partial(add_up, self.library) if self.sum is None else self.sum
        reads = [x for _, terms in (*made, (None, shared)) for _, x in terms]
        self._queue(True, reads, [out for out, _ in made], lambda: add(made, shared))

    def concurrently(self, jobs: Sequence[Sequence[Job]]) -> None:
        if self.library is np or len(jobs) == 1:
            super().concurrently(jobs)
            return

        def all_of(worker: int) -> None:
            for job in jobs[worker]:
                job(worker)

        on_streams([lambda w=w: all_of(w) for w in range(len(jobs))])  # type: ignore[misc]
