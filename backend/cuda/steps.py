"""Runs one node: kernels lowered for the layout of its inputs, selected at launch, and queued."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from treadle.dsl.expr import Expr, Param, substitute, walk
from treadle.dsl.graph import Leaf, Node
from treadle.dsl.process.locks import cached
from treadle.dsl.schedule import Schedule
from treadle.dsl.target import CUDA
from treadle.skeletons.ir.counted import Loops, counted, most
from treadle.skeletons.ir.kernel import Buffer, Kernel, raise_failure
from treadle.skeletons.ir.narrow import narrow
from treadle.skeletons.ir.tidy import tidied
from treadle.skeletons.lower.lower import LoweringContext, untidied

from ..runtime import steps
from ..runtime.run import HostValues, Params, Unrecordable
from ..runtime.steps import SCRATCH, SLOT, Sizes, sources_of
from .codegen.text import dynamic_shared_bytes
from .device.device import Block, Code, Fill, Launch
from .forms import CudaForms
from .running import DeviceRun

if TYPE_CHECKING:
    from .executable import CudaExecutor

_int64 = np.dtype(np.int64)


class GuardFailure(Exception):
    """A recorded variant is not valid for these parameters."""


class KernelStep(steps.KernelStep[DeviceRun, "NodeKernels", Leaf]):
    """One node run by kernels; a leaf marks an input that is not dense and row-major."""

    owner: CudaExecutor

    def __init__(
        self, owner: CudaExecutor, node: Node, expendable: frozenset[int] = frozenset()
    ) -> None:
        super().__init__(owner, node, expendable)
        _ = self.dense  # report lowering errors before anything runs

    def _forms(self) -> CudaForms:
        return CudaForms(self.owner, self.node)

    def kernels(
        self, made: Node, layouts: frozenset[Leaf], schedule: Schedule | None
    ) -> NodeKernels:
        return NodeKernels(self.owner, self.node, made, self.expendable, layouts, schedule)

    def layouts(self, run: DeviceRun) -> frozenset[Leaf]:
        return frozenset(leaf for slot, leaf in self.outside if not run.array(slot).dense)


class NodeKernels(steps.NodeKernels[DeviceRun, Block]):
    """The kernels of a node; `lowered_as` is the node, or its specialisation for some extents."""

    def __init__(
        self,
        owner: CudaExecutor,
        node: Node,
        lowered_as: Node,
        expendable: frozenset[int],
        strided: frozenset[Leaf],
        schedule: Schedule | None = None,
    ) -> None:
        super().__init__(owner, node, lowered_as, expendable)
        multiprocessors = owner.device.multiprocessors
        context = context_for(multiprocessors, self.check, strided, schedule)
        lowered = untidied(lowered_as, context)
        bound: dict[Expr, Expr] = {}
        for kernel in (v for k in lowered.kernels for v in k.variants):
            bound.update(kernel.hosts)
        sizes = Sizes.of(node, lowered, bound, owner.slot_of)
        self._sized(sizes.shapes, sizes.scratch, sizes.fits, sizes.filled)
        self.owner, self.sizes = owner, sizes
        self.host = HostValues(owner.host, sizes.hosts)
        self._most: HostValues | None = None
        room = owner.device.shared
        self.launches = [
            Variants(owner, lowered_as, lowered.scratch,
                     [v for v in k.variants if dynamic_shared_bytes(v) <= room])
            for k in lowered.kernels
        ]  # fmt: skip

    def values(self, run: DeviceRun) -> tuple[Any, ...]:
        if not run.counted(self.host):
            return self.host(run)
        if self._most is None:
            found = [most(e, run.loops) for e in self.sizes.hosts]
            if None in found or self.fits or self.filled:
                raise Unrecordable("an extent depends on the counter of a loop, and has no bound")
            self._most = HostValues(self.owner.host, [e for e in found if e is not None])
        return self._most(run)

    def launch(
        self, run: DeviceRun, outs: Sequence[Block], scratch: Sequence[Block], values: Sequence[Any]
    ) -> None:
        """Launch, for each kernel, the first variant valid for these extents and addresses."""
        for variants in self.launches:
            for variant in variants:
                self.owner.add_tables(run)  # preparing the variant may have requested new tables
                made = variant.launch(run, outs, scratch)
                if made is not None:
                    break
            else:
                run.refuse_recording("a kernel has no form for every value of a loop's counter")
                raise AssertionError(f"{variants.kernels[0].name}: no variant fits")
            if made.tasks <= 0:
                continue
            if not made.code.errors:
                run.queue.put(made)
                continue
            errors = run.queue.block((made.code.errors,), _int64)
            run.queue.put(Fill(errors, np.zeros((), _int64)))
            run.queue.put(Launch(made.code, made.blocks, made.scalars, made.tasks, errors))
            raise_failure(made.code.kernel, run.queue.download(errors))


class Variants:
    """A kernel's variants in the order tried, prepared when first tried: most never are."""

    def __init__(
        self, owner: CudaExecutor, node: Node, scratch: Sequence[Buffer], kernels: Sequence[Kernel]
    ) -> None:
        self.owner, self.node, self.scratch, self.kernels = owner, node, scratch, kernels
        self._made: dict[int, KernelLaunch] = {}

    def __iter__(self) -> Iterator[KernelLaunch]:
        return (self[k] for k in range(len(self.kernels)))

    def __getitem__(self, k: int) -> KernelLaunch:
        found = self._made.get(k)
        if found is None:
            kernel = tidied(self.kernels[k])
            made = KernelLaunch(self.owner, self.node, kernel, self.scratch)
            found = self._made.setdefault(k, made)
        return found


class KernelLaunch:
    """One kernel of a chain of variants and its launch, in 32 bits where that is valid.

    Most of it is computed on first use, because most variants are never launched.
    """

    def __init__(
        self, owner: CudaExecutor, node: Node, kernel: Kernel, scratch: Sequence[Buffer]
    ) -> None:
        self.owner, self.node, self.kernel, self.scratch = owner, node, kernel, scratch
        self.code = Code(kernel, owner.program.settings.fast_math)
        self.sources = sources_of(self.code.pointers, scratch, node, owner.slot_of)
        self.aligned = [k for k, b in enumerate(self.code.pointers) if b in kernel.aligned]
        self.count = len(self.code.scalars)
        bound = kernel.hosts
        # The scalars, then the task count, then the conditions under which the variant is valid.
        (tasks,) = substitute([kernel.tasks], bound)
        given = [bound[v] for v in self.code.scalars]
        self.values = HostValues(owner.host, [*given, tasks], kernel.requires, bound)
        self.pinned = {owner.host.param_index[e] for e in walk((tasks,)) if isinstance(e, Param)}
        self.pinned |= self.values.over
        self._over: tuple[KernelLaunch | None] | None = None
        self.varies = any(isinstance(e, Param) for e in walk(self.values.roots))

    @cached
    def narrow(self) -> KernelLaunch | None:
        """The kernel with 32-bit indices, for extents that fit; None if that gains nothing."""
        made = narrowed(self.kernel)
        return None if made is None else KernelLaunch(self.owner, self.node, made, self.scratch)

    def _counted(self, loops: Loops) -> KernelLaunch | None:
        """The kernel for all iterations of the enclosing loops; None if it is not valid for some.
        A step always runs inside the same loops."""
        if self._over is None:
            kernel = counted(self.kernel, loops)
            made = KernelLaunch(self.owner, self.node, kernel, self.scratch) if kernel else None
            self._over = (made,)
        return self._over[0]

    def launch(
        self, run: DeviceRun, outs: Sequence[Block], scratch: Sequence[Block]
    ) -> Launch | None:
        """The launch; None if this variant is not valid."""
        if run.counted(self.values):
            over = self._counted(run.loops)
            # Data that iterations compute, such as the trip count of an inner `while`, has no
            # single value for all of them.
            if over is None or run.counted(over.values):
                return None
            return over.launch(run, outs, scratch)
        made = self._launch(run, outs, scratch)
        if made is None or made.tasks <= 0 or self.narrow is None:
            return made
        return self.narrow._launch(run, outs, scratch) or made

    def _launch(
        self, run: DeviceRun, outs: Sequence[Block], scratch: Sequence[Block]
    ) -> Launch | None:
        values = self.values(run, shapes=False)
        if not all(values[self.count + 1 :]):
            return None
        run.pinned |= self.pinned
        tasks = int(values[self.count])
        if tasks <= 0:
            return Launch(self.code, (), (), 0)
        blocks = tuple(
            run.array(k) if space == SLOT else scratch[k] if space == SCRATCH else outs[k]
            for space, k in self.sources
        )
        if not all(blocks[k].aligned for k in self.aligned):
            return None
        varying = None
        if self.varies and run.recording:
            varying = self._varying(self.values.later(run))
        return Launch(self.code, blocks, values[: self.count], tasks, None, varying)

    def _varying(
        self, later: Callable[[Params], tuple[Any, ...]]
    ) -> Callable[[Params], tuple[Any, ...]]:
        count = self.count

        def scalars(params: Params) -> tuple[Any, ...]:
            values = later(params)
            if not all(values[count + 1 :]):
                raise GuardFailure
            return values[:count]

        return scalars


def narrowed(kernel: Kernel) -> Kernel | None:
    """The kernel without its fallback, with 32-bit indices; None if that gains nothing."""
    return narrow(replace(kernel, fallback=None))


def chain(kernel: Kernel) -> list[Kernel]:
    """Every variant that may be launched, the most likely first."""
    return [*(n for n in map(narrowed, kernel.variants) if n is not None), *kernel.variants]


def context_for(
    multiprocessors: int,
    check: bool,
    strided: frozenset[Leaf] = frozenset(),
    schedule: Schedule | None = None,
) -> LoweringContext:
    return LoweringContext(
        target=CUDA,
        threads=multiprocessors,
        vector_bytes=16,
        check=check,
        strided=strided,
        schedule=schedule,
    )
