"""Running one node: kernels lowered for the layout of its inputs, chosen at launch, queued."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from treadle.dsl.expr import Expr, Param, substitute, walk
from treadle.dsl.graph import Fold, Generate, Leaf, Node, Permute, Scan
from treadle.dsl.locks import cached
from treadle.skeletons.ir.failures import raise_failure
from treadle.skeletons.ir.kernel import Buffer, Kernel, Lowered
from treadle.skeletons.schedules.own_orders import require_fits

from ..runtime.choosing import choosing
from .codegen.text import dynamic_shared_bytes
from .device.device import Block, Code, Copy, Fill, Launch
from .forms import NOTHING, Forms
from .running import HostFunction, Run

ZERO = "zero_"
_int64 = np.dtype(np.int64)


class Outgrown(Exception):
    """A recorded variant is not right for these parameters."""


class KernelStep:
    """One node run by kernels; inputs that are not dense get a lowering of their own."""

    def __init__(self, owner: Any, node: Node, expendable: frozenset[int] = frozenset()) -> None:
        self.owner, self.node, self.expendable = owner, node, expendable
        self.forms = Forms(owner, node)
        slots, count = owner.planner.slots, len(owner.program.inputs)
        read = dict.fromkeys(le for n in (node, *self.forms.inside) for le in n.inputs())
        self.outside = [(slots[le], le) for le in read if slots[le] < count]
        self.variants: dict[tuple[frozenset[Leaf], frozenset[Node], Any], NodeKernels] = {}
        self.choosing = choosing(owner, node)
        first = None if self.choosing is None else self.choosing.first(owner.program)
        self.plain = self.variant(frozenset(), first)

    def variant(
        self, strided: frozenset[Leaf], schedule: Any = None, loops: frozenset[Node] = NOTHING
    ) -> NodeKernels:
        """The kernels for inputs of which `strided` are not dense and row-major, under a schedule
        (None: the node's own), with `loops` in them."""
        found = self.variants.get((strided, loops, schedule))
        if found is None:
            made = self.forms.made(loops)
            found = NodeKernels(self.owner, self.node, made, self.expendable, strided, schedule)
            self.variants[strided, loops, schedule] = found
        return found

    def __call__(self, run: Run) -> None:
        loops = self.forms.loops(run)
        if self.node in loops:
            return  # the kernel that reads the results computes them
        strided = [leaf for slot, leaf in self.outside if not run.block(slot).dense]
        chosen = None
        if self.choosing is not None:
            chosen = self.choosing(lambda slot: run.block(slot).shape)
        elif not strided and not loops:
            self.plain(run)
            return
        if not isinstance(self.node, Generate | Fold | Scan):
            for slot, leaf in self.outside:
                if leaf in strided:
                    run.dense(slot)
            strided = []
        kernels = self.variant(frozenset(strided), None if loops else chosen, loops)
        self.owner.bring_tables(run)
        kernels(run)


class NodeKernels:
    """The kernels of a node for one layout of its inputs: outputs made, arguments found, queued.

    `lowered_as` is the node, or what it is for some extents.
    """

    def __init__(
        self,
        owner: Any,
        node: Node,
        lowered_as: Node,
        expendable: frozenset[int],
        strided: frozenset[Leaf],
        schedule: Any = None,
    ) -> None:
        settings = owner.program.settings
        multiprocessors = owner.device.multiprocessors
        lowered = lower_for(lowered_as, multiprocessors, settings.check, strided, schedule)
        slots = owner.planner.slots
        self.node, self.check = node, settings.check
        self.targets = [slots[o] for o in node.leaves]
        self.types = [o.type.numpy for o in node.outputs]
        self.reuse: list[int | None] = [None] * len(self.targets)
        self.defaults: list[int] = []
        if isinstance(node, Permute):
            self.defaults = [slots[d] for d in node.defaults]
            for k, slot in enumerate(self.defaults):
                # Defaults that nobody else reads are updated in place.
                if slot in expendable:
                    self.reuse[k] = slot
        hosts: list[Expr] = []
        self.shapes = []
        for out in node.outputs:
            self.shapes.append((len(hosts), len(hosts) + len(out.shape)))
            hosts += out.shape
        bound: dict[Expr, Expr] = {}
        for kernel in (v for k in lowered.kernels for v in with_fallbacks(k)):
            bound.update(zip(kernel.scalars, kernel.scalar_values, strict=True))
        self.scratch = list(lowered.scratch)
        self.sizes = len(hosts)
        hosts += substitute([b.size for b in self.scratch], bound)
        self.fits = []
        for order, grid in lowered.fits:
            self.fits.append((order, len(hosts), len(hosts) + len(grid)))
            hosts += substitute(grid, bound)
        self.filled = {}
        for t in lowered.tables:
            where = [owner.slot_of(leaf) for leaf in t.arrays]
            self.filled[t.buffer] = (t.make, len(hosts), len(hosts) + len(t.values), where)
            hosts += t.values
        self.shape = HostFunction(owner.host, hosts)
        room = owner.device.shared
        self.launches = [
            [Variant(owner, lowered_as, v, self.scratch)
             for v in with_fallbacks(k) if dynamic_shared_bytes(v) <= room]
            for k in lowered.kernels
        ]  # fmt: skip

    def __call__(self, run: Run) -> None:
        queue = run.queue
        values = self.shape(run)
        if self.fits:
            require_fits(self.node, self.fits, values, self.check)
        outs: list[Block] = []
        for k, (start, end) in enumerate(self.shapes):
            reused = self.reuse[k]
            if reused is not None and run.alone(reused):
                outs.append(run.block(reused))
                continue
            shape = tuple([v if v > 0 else 0 for v in values[start:end]])
            block = queue.block(shape, self.types[k])
            if self.defaults and block.size:
                queue.put(Copy(block, run.block(self.defaults[k])))
            outs.append(block)
        scratch: list[Block] = []
        for at, b in enumerate(self.scratch, self.sizes):
            if b in self.filled:
                make, start, end, where = self.filled[b]
                contents = [run.on_host(slot) for slot in where]
                scratch.append(queue.constant(make(values[start:end], contents)))
                continue
            block = queue.block((max(int(values[at]), 1),), b.type.numpy)
            if b.name.startswith(ZERO):
                queue.put(Fill(block, np.zeros((), b.type.numpy)))
            scratch.append(block)
        for variants in self.launches:
            self.launch(run, variants, outs, scratch)
        for slot, block in zip(self.targets, outs, strict=True):
            run.faces[slot] = block

    def launch(
        self, run: Run, variants: Sequence[Variant], outs: list[Block], scratch: list[Block]
    ) -> None:
        """Queue the first variant that is right for these extents and addresses."""
        for variant in variants:
            made = variant.launch(run, outs, scratch)
            if made is not None:
                break
        else:
            raise AssertionError(f"{variants[0].kernel.name}: no variant fits")
        if made.tasks <= 0:
            return
        if not made.code.errors:
            run.queue.put(made)
            return
        errors = run.queue.block((made.code.errors,), _int64)
        run.queue.put(Fill(errors, np.zeros((), _int64)))
        run.queue.put(Launch(made.code, made.blocks, made.scalars, made.tasks, errors))
        raise_failure(made.code.kernel, run.queue.download(errors))


class Variant:
    """One kernel of a chain of variants: its launch, in 32 bits where that is right.

    Much of it is made when it is first wanted, for most variants never are.
    """

    def __init__(self, owner: Any, node: Node, kernel: Kernel, scratch: Sequence[Buffer]) -> None:
        self.owner, self.node, self.kernel, self.scratch = owner, node, kernel, scratch
        self.code = Code(kernel, owner.program.settings.fast_math)
        numbers = {b: k for k, b in enumerate(scratch)}
        # (space, number): 0 a slot of the program, 1 an output of the node, 2 scratch.
        self.sources: list[tuple[int, int]] = []
        for b in self.code.pointers:
            if b in numbers:
                self.sources.append((2, numbers[b]))
            elif b.leaf.node is node:
                self.sources.append((1, b.leaf.component))
            else:
                self.sources.append((0, owner.slot_of(b.leaf)))
        self.aligned = [k for k, b in enumerate(self.code.pointers) if b in kernel.aligned]
        self.count = len(self.code.scalars)
        bound: dict[Expr, Expr] = dict(zip(kernel.scalars, kernel.scalar_values, strict=True))
        # The scalars, behind them the tasks, and the conditions under which the variant is right.
        (tasks,) = substitute([kernel.tasks], bound)
        given = [bound[v] for v in self.code.scalars]
        self.values = HostFunction(owner.host, [*given, tasks], kernel.requires, bound)
        self.shapers = {owner.host.param_index[e] for e in walk((tasks,)) if isinstance(e, Param)}
        self.varies = any(isinstance(e, Param) for e in walk(self.values.roots))

    @cached
    def narrow(self) -> Variant | None:
        """The kernel in 32 bits, for what fits; None when there is nothing to gain."""
        made = narrowed(self.kernel)
        return None if made is None else Variant(self.owner, self.node, made, self.scratch)

    def launch(self, run: Run, outs: list[Block], scratch: list[Block]) -> Launch | None:
        """The launch; None where this variant is not right."""
        made = self._launch(run, outs, scratch)
        if made is None or made.tasks <= 0 or self.narrow is None:
            return made
        return self.narrow._launch(run, outs, scratch) or made

    def _launch(self, run: Run, outs: list[Block], scratch: list[Block]) -> Launch | None:
        values = self.values(run, shapes=False)
        if not all(values[self.count + 1 :]):
            return None
        run.shapers |= self.shapers
        tasks = int(values[self.count])
        if tasks <= 0:
            return Launch(self.code, (), (), 0)
        spaces = (None, outs, scratch)
        blocks = tuple(
            run.block(k) if space == 0 else spaces[space][k]  # type: ignore[index]
            for space, k in self.sources
        )
        if not all(blocks[k].aligned for k in self.aligned):
            return None
        varying = None
        if self.varies and run.queue.recording:
            varying = self._varying(self.values.later(run))
        return Launch(self.code, blocks, values[: self.count], tasks, None, varying)

    def _varying(
        self, later: Callable[[Sequence[Any]], tuple[Any, ...]]
    ) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
        count = self.count

        def scalars(params: Sequence[Any]) -> tuple[Any, ...]:
            values = later(params)
            if not all(values[count + 1 :]):
                raise Outgrown
            return values[:count]

        return scalars


def narrowed(kernel: Kernel) -> Kernel | None:
    """The kernel alone, without its fallback, in 32 bits; None when there is nothing to gain."""
    from treadle.skeletons.ir.narrow import narrow

    return narrow(replace(kernel, fallback=None))


def with_fallbacks(kernel: Kernel) -> list[Kernel]:
    """The variants of a kernel as its skeleton made them, in the order of trying."""
    found = [kernel]
    while found[-1].fallback is not None:
        found.append(found[-1].fallback)
    return found


def chain(kernel: Kernel) -> list[Kernel]:
    """Every variant that may be launched, the likeliest first."""
    plain = with_fallbacks(kernel)
    return [*(n for n in map(narrowed, plain) if n is not None), *plain]


def lower_for(
    node: Node,
    multiprocessors: int,
    check: bool,
    strided: frozenset[Leaf] = frozenset(),
    schedule: Any = None,
) -> Lowered:
    """The GPU kernels of a node."""
    from treadle.skeletons.lower.lower import LoweringContext, lower

    context = LoweringContext(
        target="cuda",
        threads=multiprocessors,
        vector_bytes=16,
        check=check,
        strided=strided,
        schedule=schedule,
    )
    return lower(node, context)
