"""Running one node: kernels compiled for the layout of its inputs, launched in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.backend.memory import POOL
from treadle.dsl.errors import out_of_range
from treadle.dsl.expr import Expr, substitute
from treadle.dsl.graph import Fold, Generate, Leaf, Node, Permute, Scan

#: Nanoseconds of work that the skeletons put into a task, roughly: a few tasks are done by the
#: calling thread alone, for waking another takes as long.
TASK_WORK = 10_000.0

Slots = list[Any]
Params = Sequence[Any]


class KernelStep:
    """One node run by compiled kernels; inputs that are not dense get a variant of their own."""

    def __init__(self, owner: Any, node: Node, released: set[int]) -> None:
        self.owner, self.node, self.released = owner, node, released
        slots = owner.planner.slots
        self.outside = [
            (slots[leaf], leaf) for leaf in node.inputs() if slots[leaf] < len(owner.program.inputs)
        ]
        self.variants: dict[frozenset[Leaf], Variant] = {}
        self.dense = self.variant(frozenset())

    def variant(self, strided: frozenset[Leaf]) -> Variant:
        """The kernels for inputs of which `strided` are not dense and row-major."""
        found = self.variants.get(strided)
        if found is None:
            found = self.variants[strided] = Variant(self.owner, self.node, self.released, strided)
        return found

    def compiled(self) -> list[Any]:
        return self.dense.compiled()

    def __call__(self, slots: Slots, params: Params) -> None:
        strided = [leaf for slot, leaf in self.outside if not slots[slot].flags.c_contiguous]
        if not strided:
            self.dense(slots, params)
        elif isinstance(self.node, Generate | Fold | Scan):
            self.variant(frozenset(strided))(slots, params)
        else:
            whole = [
                np.ascontiguousarray(a) if k < len(self.owner.program.inputs) else a
                for k, a in enumerate(slots)
            ]
            self.dense(whole, params)
            for slot in self.dense.targets:
                slots[slot] = whole[slot]


class Variant:
    """Compiled kernels of a node: outputs allocated, arguments packed, launched in order."""

    def __init__(
        self, owner: Any, node: Node, released: set[int], strided: frozenset[Leaf]
    ) -> None:
        from treadle.skeletons.lower import LoweringContext, lower

        settings = owner.program.settings
        lowered = lower(node, LoweringContext(check=settings.check, strided=strided))
        slots = owner.planner.slots
        self.fast_math, self.check = settings.fast_math, settings.check
        self.targets = [slots[o] for o in node.leaves]
        self.types = [o.type.numpy for o in node.outputs]
        self.reuse: list[int | None] = [None] * len(self.targets)
        self.defaults: list[int] = []
        if isinstance(node, Permute):
            self.defaults = [slots[d] for d in node.defaults]
            for k, slot in enumerate(self.defaults):
                # Defaults that nobody reads afterwards are updated in place.
                mine = slot in released and self.defaults.count(slot) == 1
                if mine and slot >= len(owner.program.inputs):
                    self.reuse[k] = slot
        hosts: list[Expr] = []
        self.shapes = []
        for out in node.outputs:
            self.shapes.append((len(hosts), len(hosts) + len(out.shape)))
            hosts += out.shape
        bound: dict[Expr, Expr] = {}
        for kernel in lowered.kernels:
            bound.update(zip(kernel.scalars, kernel.scalar_values, strict=True))
        self.scratch = [(len(hosts) + k, b) for k, b in enumerate(lowered.scratch)]
        hosts += substitute([b.size for b in lowered.scratch], bound)
        numbers = {b: k for k, b in enumerate(lowered.scratch)}
        self.launches: list[Launch] = []
        for kernel in lowered.kernels:
            start = len(hosts)
            hosts += kernel.scalar_values
            end = len(hosts)
            hosts += substitute([kernel.tasks], bound)
            sources: list[tuple[int, int]] = []
            for b in kernel.buffers:
                if b.role == "local":
                    continue
                if b in numbers:
                    sources.append((2, numbers[b]))
                elif b.leaf.node is node:
                    sources.append((1, b.leaf.component))
                else:
                    sources.append((0, owner.slot_of(b.leaf)))
            self.launches.append(Launch(kernel, sources, start, end))
        self.host = owner.host.compile(hosts)
        self.table = _table_of(node)

    def compiled(self) -> list[Any]:
        return [launch.compiled(self.fast_math) for launch in self.launches]

    def __call__(self, slots: Slots, params: Params) -> None:
        values = self.host(slots, params)
        outs = []
        for k, (start, end) in enumerate(self.shapes):
            reused = self.reuse[k]
            if reused is not None:
                outs.append(slots[reused])
                continue
            shape = tuple([v if v > 0 else 0 for v in values[start:end]])
            if self.table is not None:
                self.table.order.require(self.table.grid(shape))
            array = POOL.allocate(shape, self.types[k])
            if self.defaults:
                np.copyto(array, slots[self.defaults[k]])
            outs.append(array)
        scratch = []
        for at, b in self.scratch:
            block = POOL.allocate((max(int(values[at]), 1),), b.type.numpy)
            if b.name.startswith("zero_"):
                block.fill(0)
            scratch.append(block)
        if self.check:
            self._run_checked(slots, outs, scratch, values)
        else:
            for launch in self.launches:
                launch.run((slots, outs, scratch), values, 0, self.fast_math)
        for slot, array in zip(self.targets, outs, strict=True):
            slots[slot] = array

    def _run_checked(
        self, slots: Slots, outs: list[Any], scratch: list[Any], values: Sequence[Any]
    ) -> None:
        """Launch with a buffer for out-of-range indices, read after every kernel."""
        errors = np.zeros(4, np.int64)
        for launch in self.launches:
            launch.run((slots, outs, scratch), values, errors.ctypes.data, self.fast_math)
            if errors[0]:
                site, index, extent, _ = (int(v) for v in errors)
                place = launch.kernel.sites[site - 1]
                raise out_of_range(
                    place.operation, place.array, place.axis, index, extent, place.where
                )


def _table_of(node: Node) -> Any:
    """The resolved schedule of a node whose order is a table: it fits one extent only."""
    from treadle.skeletons.schedules import Table, as_schedule

    if node.label.schedule is None or not isinstance(node, Generate) or not node.shape:
        return None
    schedule = as_schedule(node.label.schedule)
    return schedule.resolve(len(node.shape)) if isinstance(schedule.order, Table) else None


class Launch:
    """One kernel of a step and where its arguments come from.

    `sources` are (space, number): 0 a slot of the program, 1 an output of the step, 2 scratch.
    `values[start:end]` are the kernel's scalars and `values[end]` its number of tasks.
    """

    def __init__(self, kernel: Any, sources: list[tuple[int, int]], start: int, end: int) -> None:
        self.kernel, self.sources, self.start, self.end = kernel, sources, start, end
        self._compiled: Any = None
        self._idle: list[Any] = []  # launchers: one per thread at a time

    def compiled(self, fast_math: bool) -> Any:
        if self._compiled is None:
            from .compile import compile_kernel

            self._compiled = compile_kernel(self.kernel, fast_math=fast_math)
        return self._compiled

    def run(
        self, spaces: tuple[list[Any], ...], values: Sequence[Any], errors: int, fast_math: bool
    ) -> None:
        tasks = values[self.end]
        if tasks <= 0:
            return
        addresses = [spaces[space][k].__array_interface__["data"][0] for space, k in self.sources]
        try:
            launcher = self._idle.pop()
        except IndexError:
            launcher = self.compiled(fast_math).bind()
        launcher(addresses, values[self.start : self.end], tasks, errors, tasks * TASK_WORK)
        self._idle.append(launcher)
