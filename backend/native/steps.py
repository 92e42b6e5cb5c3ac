"""Running one node: kernels compiled for the layout of its inputs, launched in order."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from treadle.backend.memory import POOL, address
from treadle.dsl.errors import out_of_range
from treadle.dsl.expr import Expr, substitute
from treadle.dsl.graph import Fold, Generate, Leaf, Node, Permute, Scan
from treadle.skeletons.kernel.ir import Kernel
from treadle.skeletons.kernel.narrow import narrow
from treadle.skeletons.kernel.specialise import MOST_TURNS, counting_extents, specialise

#: Nanoseconds of work that the skeletons put into a task, roughly: a few tasks are done by the
#: calling thread alone, for waking another takes as long.
TASK_WORK = 10_000.0

Slots = list[Any]
Params = Sequence[Any]


#: So many kernels for different small extents, at most; the others share one for all.
_SIZES = 8
_NOTHING: frozenset[Leaf] = frozenset()


class KernelStep:
    """One node run by compiled kernels.

    Inputs that are not dense get a variant of their own, and so do small extents that loops of
    the element count with (the weights of a stencil).
    """

    def __init__(self, owner: Any, node: Node, released: set[int]) -> None:
        self.owner, self.node, self.released = owner, node, released
        slots = owner.planner.slots
        self.outside = [
            (slots[leaf], leaf) for leaf in node.inputs() if slots[leaf] < len(owner.program.inputs)
        ]
        self.counting = counting_extents(node)
        self.counts = [(owner.slot_of(Leaf(e.node, 0)), e.axis) for e in self.counting]
        self.variants: dict[tuple[frozenset[Leaf], tuple[int, ...]], Variant] = {}
        self.dense = self.variant(_NOTHING)

    def variant(self, strided: frozenset[Leaf], sizes: tuple[int, ...] = ()) -> Variant:
        """The kernels for inputs of which `strided` are not dense and row-major, and for these
        values of the extents that loops count with (none: for all)."""
        found = self.variants.get((strided, sizes))
        if found is None:
            if sizes and len(self.variants) > _SIZES:
                return self.variant(strided)
            node = self.node
            if sizes:
                assert isinstance(node, Generate)
                node = specialise(node, dict(zip(self.counting, sizes, strict=True)))
            found = Variant(self.owner, self.node, node, self.released, strided)
            self.variants[strided, sizes] = found
        return found

    def compiled(self) -> list[Any]:
        return self.dense.compiled()

    def __call__(self, slots: Slots, params: Params) -> None:
        strided = [leaf for slot, leaf in self.outside if not slots[slot].flags.c_contiguous]
        if self.counts:
            sizes = tuple([slots[slot].shape[axis] for slot, axis in self.counts])
            few = 0 < math.prod(sizes) <= MOST_TURNS
            self.variant(frozenset(strided), sizes if few else ())(slots, params)
        elif not strided:
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
    """Compiled kernels of a node: outputs allocated, arguments packed, launched in order.

    `lowered_as` is the node, or what it is for the extents of one call.
    """

    def __init__(
        self,
        owner: Any,
        node: Node,
        lowered_as: Node,
        released: set[int],
        strided: frozenset[Leaf],
    ) -> None:
        from treadle.skeletons.lower import LoweringContext, lower

        settings = owner.program.settings
        lowered = lower(lowered_as, LoweringContext(check=settings.check, strided=strided))
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
        slot_of, host = owner.slot_of, owner.host
        hosts: list[Expr] = []
        self.shapes = []
        for out in node.outputs:
            self.shapes.append((len(hosts), len(hosts) + len(out.shape)))
            hosts += out.shape
        bound: dict[Expr, Expr] = {}  # sizes of scratch may be over scalars of any kernel
        for kernel in lowered.kernels:
            bound.update(zip(kernel.scalars, kernel.scalar_values, strict=True))
        self.scratch = [(len(hosts) + k, b) for k, b in enumerate(lowered.scratch)]
        hosts += substitute([b.size for b in lowered.scratch], bound)
        numbers = {b: k for k, b in enumerate(lowered.scratch)}
        self.launches: list[Launch | Choice] = []
        for kernel in lowered.kernels:
            variants: list[Launch] = []
            conditions: list[Callable[[Slots, Params], tuple[Any, ...]]] = []
            narrowed: Kernel | None = narrow(kernel, indices=False) or kernel
            while narrowed is not None:
                start = len(hosts)
                hosts += narrowed.scalar_values
                end = len(hosts)
                known: dict[Expr, Expr] = {**bound}
                known.update(zip(narrowed.scalars, narrowed.scalar_values, strict=True))
                hosts += substitute([narrowed.tasks], known)
                sources: list[tuple[int, int]] = []
                for b in narrowed.buffers:
                    if b.role == "local":
                        continue
                    if b in numbers:
                        sources.append((2, numbers[b]))
                    elif b.leaf.node is lowered_as:
                        sources.append((1, b.leaf.component))
                    else:
                        sources.append((0, slot_of(b.leaf)))
                variants.append(Launch(narrowed, sources, start, end))
                conditions.append(host.compile(substitute(narrowed.requires, known)))
                narrowed = narrowed.fallback
            self.launches.append(Choice(variants, conditions) if len(variants) > 1 else variants[0])
        self.host = host.compile(hosts)
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
            self._run_checked(slots, outs, scratch, params, values)
        else:
            for one in self.launches:
                launch = one if isinstance(one, Launch) else one.chosen(slots, params, values)
                launch.run((slots, outs, scratch), values, 0, self.fast_math)
        for slot, array in zip(self.targets, outs, strict=True):
            slots[slot] = array

    def _run_checked(
        self,
        slots: Slots,
        outs: list[Any],
        scratch: list[Any],
        params: Params,
        values: Sequence[Any],
    ) -> None:
        """Launch with a buffer for out-of-range indices, read after every kernel."""
        errors = np.zeros(4, np.int64)
        for one in self.launches:
            launch = one if isinstance(one, Launch) else one.chosen(slots, params, values)
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

    def __init__(
        self, kernel: Kernel, sources: list[tuple[int, int]], start: int, end: int
    ) -> None:
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
        addresses = [address(spaces[space][k]) for space, k in self.sources]
        try:
            launcher = self._idle.pop()
        except IndexError:
            launcher = self.compiled(fast_math).bind()
        launcher(addresses, values[self.start : self.end], tasks, errors, tasks * TASK_WORK)
        self._idle.append(launcher)


class Choice:
    """Variants of a kernel, each with the conditions (`Kernel.requires`) under which it is right.

    The first right one runs; it is looked for when a scalar of the last variant, the one for
    everything, has changed.
    """

    def __init__(
        self,
        variants: list[Launch],
        conditions: list[Callable[[Slots, Params], tuple[Any, ...]]],
    ) -> None:
        self.variants, self.conditions = variants, conditions
        last = variants[-1]
        types = [v.type for v in last.kernel.scalars]
        #: The scalars that conditions may be about.
        self.watched = [last.start + k for k, t in enumerate(types) if t.is_integer]
        self._last: tuple[list[Any] | None, Launch] = (None, last)

    def compiled(self, fast_math: bool) -> Any:
        """The variant for most arrays; others are compiled when an array asks for them."""
        return self.variants[0].compiled(fast_math)

    def chosen(self, slots: Slots, params: Params, values: Sequence[Any]) -> Launch:
        """The variant for these scalars."""
        key = [values[k] for k in self.watched]
        known, launch = self._last
        if known != key:
            right = (all(test(slots, params)) for test in self.conditions)
            launch = next(v for v, r in zip(self.variants, right, strict=True) if r)
            self._last = key, launch
        return launch
