"""Loops over complete arrays: recorded as repeated iterations, or driven by the host.

A recorded loop double-buffers its state (`device.Repeat`): iterations alternate between two sets of
blocks and copy nothing.  The device waits for the host only if the predicate depends on data and
the device cannot evaluate it.  The host computes counters, and predicates on them, ahead of time,
which yields the trip count; the device computes counters only as far as arrays need them.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from treadle.dsl import graph
from treadle.dsl.analysis.bounds import is_counter
from treadle.dsl.expr import Expr, Foreign, Loop, Read, Var, While, constant, walk
from treadle.dsl.process.locks import cached
from treadle.dsl.target import CUDA
from treadle.dsl.types import int64
from treadle.skeletons.ir import arithmetic as at
from treadle.skeletons.ir.counted import Loops, loops_in
from treadle.skeletons.ir.kernel import Buffer, If, Kernel, Load, Store
from treadle.skeletons.linalg.small import has_kernel
from treadle.skeletons.lower.build import LoweringContext
from treadle.skeletons.lower.stencil.gpu_temporal import COUNT, Temporal, temporal
from treadle.skeletons.lower.stencil.iterations import changed, records_of

from ..runtime import loops
from ..runtime.host import Cell, is_host_work
from ..runtime.plan import Step
from ..runtime.run import HostValues, Slots, Unrecordable
from ..runtime.steps import SLOT, Action
from ..runtime.types import HostArray
from .device.device import Block, Code, Copy, Fill, Launch, Operation, Repeat
from .graphs.tape import Recorder, flattened, renamed
from .running import DeviceRun
from .steps import KernelLaunch

if TYPE_CHECKING:
    from .executable import CudaExecutor

#: A loop of at most this many operations in total is unrolled.
INLINE = 64
#: Bytes of state per operation of an iteration from which copying the state takes longer than
#: launching the first iteration separately, which reads the state in place.
DIRECT = 4 << 20
#: The most iterations for which the host computes counters ahead; beyond, the device tests them.
AHEAD = 1_000_000
#: The most operations in the program if a loop that the device cannot repeat is recorded iteration
#: by iteration.
UNROLLED = 2048

_int64 = np.dtype(np.int64)


def why_host_driven(
    node: graph.ArrayLoop, library: Callable[[graph.Matmul], str | None]
) -> str | None:
    """Why the host has to drive the iterations of a loop; None if the device can repeat them alone.
    `library`: the library that computes a product, if it is not a kernel of a graph."""
    nodes = list(graph.topological(node.inner_roots()))
    varying = node.varying(nodes)
    for inner in nodes:
        if inner not in varying:
            continue
        if isinstance(inner, graph.Library) and not has_kernel(inner):
            return f"{inner.operation.name} is a library's"
        if isinstance(inner, graph.Matmul) and (who := library(inner)):
            return f"the product is {who}'s"
        if isinstance(inner, graph.Branch) and _reads((inner.predicate,)):
            return "it chooses between arrays"
        if isinstance(inner, graph.ArrayLoop) and inner.count is not None:
            if any(isinstance(e, Read) and e.node in varying for e in walk((inner.count,))):
                return f"{inner.label} inside has another number of iterations in each"
        sizes = [e for out in inner.outputs for e in walk(out.shape)]
        if any(isinstance(e, Read) and not is_counter(e) for e in sizes):
            return "extents depend on data"
    if node.count is not None and not loops_in(node, ()):
        return "its state, or what is no kernel, has extents that depend on its counter"
    if node.predicate is not None and any(isinstance(n, graph.ArrayLoop) for n in varying):
        return "it has a loop inside"
    return None


def _reads(roots: Sequence[Expr]) -> bool:
    return any(isinstance(e, Read) for e in walk(roots))


def _harmless(node: graph.Node) -> bool:
    """Whether a node is safe to compute from arbitrary data: it terminates and reads only within
    its arrays (out-of-bounds writes are dropped)."""
    if isinstance(node, graph.FoldSeg | graph.Library | graph.ArrayLoop | graph.Branch):
        return False
    found = list(walk(node.expressions()))
    counters = {e.vars[0] for e in found if isinstance(e, Loop)}
    for e in found:
        if isinstance(e, While | Foreign):
            return False
        if isinstance(e, Read) and e.boundary is None:
            if any(isinstance(a, Read | Var) and a not in counters for a in walk(e.args)):
                return False
        if isinstance(e, Loop) and _reads(e.args[:1]):
            return False
    return True


class LoopStep(loops.LoopStep[DeviceRun]):
    owner: CudaExecutor

    def __init__(self, owner: CudaExecutor, node: graph.ArrayLoop, step: Step) -> None:
        super().__init__(owner, node, step)
        planner = owner.planner
        first, once, rest = step.inner
        self.used = planner.used(step)
        self.advance = _advance()
        every = [*once.steps, *first.steps, *rest.steps]
        self.harmless = all(_harmless(s.node) for s in every)
        self.ahead = Ahead(self, every)
        self.temporal = TemporalBlocking.of(owner, node)

    def __call__(self, run: DeviceRun) -> None:
        if run.recording:
            self.record(run)
            return
        try:
            self._recorded_at_once(run)
        except Unrecordable:
            super().__call__(run)  # the host waits for each test

    def argument(self, run: DeviceRun, slot: int) -> Block | HostArray:
        """A dense block, or the host scalar unchanged."""
        value: Block | HostArray = run.slots[slot]
        return run.dense(slot) if isinstance(value, Block) else value

    def _recorded_at_once(self, run: DeviceRun) -> None:
        """Record and run the loop alone, because the enclosing program could not be recorded."""
        device = self.owner.device
        if self.owner.program.settings.check:
            raise Unrecordable("checked mode")
        for slot in self.used:
            value = run.slots[slot]
            if isinstance(value, np.ndarray) and value.ndim:
                run.array(slot)
        recorder = Recorder(device, run.queue)
        inner = run.inside(recorder, run.loops)
        self.record(inner)
        operations = recorder.operations
        outside = {f for f in run.slots if isinstance(f, Block)}
        device.compile(list({op.code: None for op in flattened(operations)
                             if isinstance(op, Launch) and op.code.function is None}))  # fmt: skip
        for op in flattened(operations):
            for b in (block.whole for block in (*op.reads, *op.writes)):
                if b.array is None and b not in outside:
                    b.array = device.empty(b.shape, b.dtype)
        for op in operations:
            device.run(op)
        for t in self.targets:
            run.slots[t] = inner.slots[t]

    # --- recorded ---

    def record(self, run: DeviceRun) -> None:
        """Add the loop to a recording: as one iteration that the device repeats, or as a sequence
        of iterations if what they do depends on numbers known only to the host."""
        recorder, slots = run.queue, list(run.slots)
        assert isinstance(recorder, Recorder)
        limit = None if self.count is None else max(int(self.count(run)[0]), 0)
        before = len(recorder.operations)
        try:
            self._record_repeated(run, limit)
        except Unrecordable:
            if limit is None or limit > UNROLLED:
                raise
            del recorder.operations[before:]
            run.slots[:] = slots
            super().__call__(run)

    def finish(self, run: DeviceRun, iteration: int, limit: int | None) -> bool:
        if isinstance(run.queue, Recorder) and len(run.queue.operations) > UNROLLED:
            raise Unrecordable("more operations than a recording holds")
        return False

    def _record_repeated(self, run: DeviceRun, limit: int | None) -> None:
        queue = run.queue
        ahead = self.ahead(run, limit)
        iterations = limit if ahead is None else ahead.iterations
        front = []
        given: dict[Block, Block] = {}  # parts of the state still to be copied
        for slot in self.init:
            if slot in self.expendable and run.alone(slot):
                front.append(run.dense(slot))
                run.slots[slot] = None  # leaves the state as the only reference
                continue
            value = run.slots[slot]
            block = queue.block(value.shape, value.dtype)
            if isinstance(value, Block):
                given[block] = value
            else:
                queue.put(Fill(block, np.asarray(value).reshape(())))
            front.append(block)
        index = [queue.block((), _int64) for _ in range(2)] if self.index is not None else []
        known = set() if ahead is None else set(ahead.final)
        once: Sequence[Action] = self.once
        around = self._around(run)
        if iterations:  # otherwise it is unknown whether any iteration runs
            for act in once:
                act(run)
            once = ()
        even = self._iteration(run, front, index[0] if index else None, once, around)
        back = even.into(None)
        odd = self._iteration(run, back, index[1] if index else None, once, around)
        odd.into(front)
        live = _live(front, back, even, odd, known, iterations is None)
        counting = bool(index) and any(index[0] in op.reads for op in even.operations)
        if counting:
            for side, block in zip((even, odd), index, strict=True):
                side.operations.append(Launch(self.advance, (block,), (2,), 1))
        for op in _hoisted(even, odd, [*front, *back]):
            queue.put(op)
        done = 0
        planes = records_of(self.node)
        in_place = [k for k in changed(self.node) if front[k] is back[k] and k not in planes]
        for blocking in () if iterations is None else self.temporal:
            assert iterations is not None
            if blocking.made is None:
                continue
            counts = blocking.made[0].steps
            if done or iterations < counts[-1]:
                break
            for steps in counts:
                passes = iterations // steps
                beside = list(back)
                for k in in_place:  # a pass reads elements that it would overwrite
                    beside[k] = queue.block(front[k].shape, front[k].dtype)
                found = passes and blocking.passes(run, self, front, beside, steps)
                if not found:
                    continue
                for k, block in enumerate(found.counters):
                    queue.put(Fill(block, np.asarray(done + k * steps, np.int64)))
                self._repeat(run, passes, front, beside, found.operations, given)
                iterations, done = iterations - passes * steps, done + passes * steps
                if passes % 2:
                    for k in in_place:
                        queue.put(Copy(front[k], beside[k]))
                    front, back, even, odd = back, front, odd, even
                    index.reverse()
        for k, block in enumerate(index if counting else ()):
            queue.put(Fill(block, np.asarray(done + k, np.int64)))
        if iterations is not None:
            both = [[*t.testing, *t.operations] for t in (even, odd)]
            self._repeat(run, iterations, front, back, both, given)
        else:
            assert even.test is not None and odd.test is not None
            for block, value in given.items():
                queue.put(Copy(block, value))
            kept = not (even.changes(front) or odd.changes(back))
            queue.put(Repeat(
                None, tuple(front), tuple(back), tuple(even.operations), tuple(odd.operations),
                (tuple(even.testing), tuple(odd.testing)), (even.test, odd.test),
                self.harmless and kept,
            ))  # fmt: skip
        last = back if iterations is not None and iterations % 2 else front
        for k, target in enumerate(self.targets):
            if ahead is not None and k in ahead.final:
                run.slots[target] = ahead.final[k]
            else:
                assert k in live
                run.slots[target] = last[k]

    def _around(self, run: DeviceRun) -> Loops:
        """The enclosing loops whose counters the extents in the body may depend on."""
        found = loops_in(self.node, run.loops)
        if self.count is None or not found:
            return ()
        counts = self.count.of([count for _, count in found])(run)
        return found if prod(counts) <= AHEAD else ()

    def _repeat(self, run: DeviceRun, iterations: int, front: list[Block], back: list[Block],
                both: Sequence[Sequence[Operation]],
                given: dict[Block, Block]) -> None:  # fmt: skip
        """Record iterations that start from `front`.  Parts of it that are still `given` are copied
        to `front`, or the first iteration reads them in place."""
        size = sum(1 for ops in both for _ in flattened(ops))
        inline = iterations * size <= 2 * INLINE or iterations == 1
        direct: dict[Block, Block] = {}
        if iterations:
            written = {b.whole for op in flattened(both[0]) for b in op.writes}.union(back)
            direct = {b: v for b, v in given.items() if b not in written and v.dense and v.aligned}
            if not inline and sum(v.nbytes for v in direct.values()) < DIRECT * size / 2:
                direct = {}
        for block, value in given.items():
            if block not in direct:
                run.queue.put(Copy(block, value))
        given.clear()
        if direct:
            for op in renamed(both[0], direct):
                run.queue.put(op)
            iterations, front, back, both = iterations - 1, back, front, both[::-1]
        if inline:
            for iteration in range(iterations):
                for op in both[iteration % 2]:
                    run.queue.put(op)
        elif iterations:
            run.queue.put(
                Repeat(iterations, tuple(front), tuple(back), tuple(both[0]), tuple(both[1]))
            )

    def _iteration(self, run: DeviceRun, state: Sequence[Block], index: Block | None,
                   once: Sequence[Action], around: Loops) -> Iteration:  # fmt: skip
        recorder = Recorder(self.owner.device, run.queue)
        inner = run.inside(recorder, around)
        for slot, block in zip(self.state, state, strict=True):
            inner.slots[slot] = block
        if self.index is not None:
            inner.slots[self.index] = index
        for act in self.testing:
            act(inner)
        test = None if self.node.predicate is None else inner.array(self.results[-1])
        testing, recorder.operations = recorder.operations, []
        for act in (*once, *self.rest):
            act(inner)
        after = [inner.dense(r) for r in self.results[: len(state)]]
        for block, old in zip(after, state, strict=True):
            if block.shape != old.shape:
                raise Unrecordable("the state changes its shape")
        run.pinned |= inner.pinned
        return Iteration(testing, recorder.operations, list(state), after, test)


class Iteration:
    """The operations of one iteration: `testing` computes the test, `operations` the rest.
    `before` and `after` are the state."""

    def __init__(self, testing: list[Operation], operations: list[Operation], before: list[Block],
                 after: list[Block], test: Block | None) -> None:  # fmt: skip
        self.testing, self.operations, self.test = testing, operations, test
        self.before, self.after = before, after

    def changes(self, state: Sequence[Block]) -> bool:
        """Whether the iteration writes to the state that it starts from."""
        return any(
            b in state for op in flattened([*self.testing, *self.operations]) for b in op.writes
        )

    def into(self, targets: list[Block] | None) -> list[Block]:
        """Make the iteration store its state in `targets` or, if None, in blocks of its choice;
        unchanged state then stays in its block."""
        made = {b for op in flattened([*self.testing, *self.operations]) for b in op.writes}
        names: dict[Block, Block] = {}
        copies: list[tuple[Block, Block]] = []
        placed: list[Block] = []
        for k, block in enumerate(self.after):
            # State updated in place stays where it was.
            own = block in made and block not in (*placed, *names, *self.before)
            if targets is not None:
                target = targets[k]
                if own:
                    names[block] = target
            elif own or block is self.before[k]:
                target = block
            else:
                target = Block(block.shape, block.dtype)
            if not own and target is not block:
                copies.append((target, block))
            placed.append(target)
        if names:
            self.testing = list(renamed(self.testing, names))
            self.operations = list(renamed(self.operations, names))
            self.test = names.get(self.test, self.test) if self.test is not None else None
        self.operations += [Copy(t, names.get(s, s).reshaped(s.shape)) for t, s in copies]
        self.after = placed
        return placed


def _live(
    front: list[Block],
    back: list[Block],
    even: Iteration,
    odd: Iteration,
    known: set[int],
    tested: bool,
) -> set[int]:
    """Drop operations that contribute only to states the host has already computed (`known`).
    Returns the remaining states."""
    live = {k for k in range(len(front)) if k not in known}
    while True:
        for iteration, after, before in ((even, back, front), (odd, front, back)):
            wanted = {after[k] for k in live}
            if tested and iteration.test is not None:
                wanted.add(iteration.test)
            for part in (iteration.operations, iteration.testing):
                for op in reversed(part):
                    if wanted.intersection(op.writes):
                        wanted.update(op.reads)
            grown = live | {k for k, b in enumerate(before) if b in wanted}
            if grown != live:
                live = grown
                break
        else:
            break
    for iteration, after in ((even, back), (odd, front)):
        wanted = {after[k] for k in live}
        if tested and iteration.test is not None:
            wanted.add(iteration.test)
        for part in (iteration.operations, iteration.testing):
            kept = []
            for op in reversed(part):
                if wanted.intersection(op.writes):
                    wanted.update(op.reads)
                    kept.append(op)
            part[:] = reversed(kept)
    return live


def _hoisted(even: Iteration, odd: Iteration, state: Sequence[Block]) -> list[Operation]:
    """Remove loop-invariant operations (fills with host scalars, dense copies) and return them."""
    parts = (even.testing, even.operations, odd.testing, odd.operations)
    writers: dict[Block, int] = {}
    for part in parts:
        for op in flattened(part):
            if not isinstance(op, Repeat):
                for b in op.writes:
                    writers[b] = writers.get(b, 0) + 1
    kept = set(state)
    found: list[Operation] = []
    for part in parts:
        stay = []
        for op in part:
            fixed = isinstance(op, Fill | Copy) and all(
                writers[b] == 1 and b not in kept for b in op.writes
            )
            if fixed and all(b not in writers and b not in kept for b in op.reads):
                found.append(op)
            else:
                stay.append(op)
        part[:] = stay
    return found


# --- counters computed ahead ---------------------------------------------------------------------


class Known:
    """What the host knows about a loop: its trip count and final values of some states."""

    def __init__(self, iterations: int, final: dict[int, HostArray]) -> None:
        self.iterations, self.final = iterations, final


class Ahead:
    """Computes the states of a loop that are host scalars, one iteration after the other."""

    def __init__(self, loop: LoopStep, steps: Sequence[Step]) -> None:
        self.loop = cast(LoopStep, weakref.proxy(loop))
        planner, host = loop.owner.planner, loop.owner.host
        self.work: list[tuple[HostValues, list[tuple[int, Any]]]] = []
        self.unknown: list[int] = []
        for step in steps:
            node: graph.Node = step.node
            slots = [planner.slots[o] for o in node.leaves]
            if isinstance(node, graph.Generate) and not node.shape and is_host_work(node.elements):
                targets = [(s, o.type.numpy) for s, o in zip(slots, node.leaves, strict=True)]
                self.work.append((HostValues(host, node.elements), targets))
            else:
                self.unknown += slots

    def __call__(self, run: DeviceRun, limit: int | None) -> Known | None:
        """None if the host cannot determine the trip count."""
        loop = self.loop
        slots = list(run.slots)
        state = list(zip(loop.state, loop.init, loop.results, strict=False))
        known = {k for k, (_, i, _) in enumerate(state) if not isinstance(run.slots[i], Block)}
        if limit is not None and (not known or limit > AHEAD):
            return Known(limit, {})
        while known:
            for k, (s, i, _) in enumerate(state):
                slots[s] = run.slots[i] if k in known else None
            if loop.index is not None:
                slots[loop.index] = np.asarray(0, np.int64)
            self._iteration(run, slots)
            good = {k for k in known if isinstance(slots[state[k][2]], np.ndarray)}
            if good == known:
                break
            known = good
        if limit is not None and not known:
            return Known(limit, {})
        test = loop.results[-1]
        if limit is None and not (known and isinstance(slots[test], np.ndarray)):
            return None
        return self._count(run, slots, sorted(known), limit)

    def _count(
        self, run: DeviceRun, slots: Slots, known: list[int], limit: int | None
    ) -> Known | None:
        """Run the iterations on scalars in cells; `slots` holds arrays where a scalar is known."""
        loop = self.loop
        cells: dict[int, Cell] = {}
        for k in known:
            cells[loop.state[k]] = Cell(np.asarray(run.slots[loop.init[k]])[()])
        if loop.index is not None:
            cells[loop.index] = Cell(0)
        calls = []
        for function, targets in self.work:
            if isinstance(slots[targets[0][0]], np.ndarray):
                run.pinned |= function.params
                made = [cells.setdefault(slot, Cell(None)) for slot, _ in targets]
                calls.append((function.plain, made))
        view: list[Any] = [cells.get(slot, known_value) for slot, known_value in enumerate(slots)]
        index = None if loop.index is None else cells[loop.index]
        holds = None if limit is not None else view[loop.results[-1]]
        moves = [(cells[loop.state[k]], view[loop.results[k]]) for k in known]
        params, iteration = run.params, 0
        while limit is None or iteration < limit:
            if index is not None:
                index.value = iteration
            for compute, made in calls:
                for cell, value in zip(made, compute(view, params), strict=True):
                    cell.value = value
            if holds is not None and not holds[()]:
                break
            following = [source[()] for _, source in moves]
            for (cell, _), value in zip(moves, following, strict=True):
                cell.value = value
            iteration += 1
            if iteration > AHEAD:
                return None
        types = [loop.node.state[k].type.numpy for k in known]
        return Known(iteration, {
            k: np.array(cell.value, t) for k, (cell, _), t in zip(known, moves, types, strict=True)
        })  # fmt: skip

    def _iteration(self, run: DeviceRun, slots: Slots) -> None:
        for slot in self.unknown:
            slots[slot] = None
        for function, targets in self.work:
            if all(isinstance(slots[s], np.ndarray) for s in function.reads):
                values = function.plain(slots, run.params)
                for (slot, t), value in zip(targets, values, strict=True):
                    slots[slot] = np.array(value, t)
            else:
                for slot, _ in targets:
                    slots[slot] = None


def _advance() -> Code:
    """A kernel in which one thread computes `index[0] += by`."""
    thread, task, by = Var("thread", int64), Var("task", int64), Var("by", int64)
    index = Buffer("index", int64, "update", constant(1))
    store = Store(index, constant(0), Load(index, constant(0)) + by)
    kernel = Kernel(
        name="next_iteration",
        buffers=(index,),
        scalars=(by,),
        scalar_values=(constant(2),),
        tasks=constant(1),
        task=task,
        body=(If(at.less(thread, constant(1)), (store,)),),
        threads=32,
        thread=thread,
        comments=("the index of a loop, some iterations on",),
    )
    return Code(kernel, False)


# --- Temporal blocking: loops over stencils, several iterations in one pass over memory -----------
# The kernels are those of `skeletons/lower/stencil/gpu_temporal.py`.


class Passes(NamedTuple):
    """The operations of a pass from `front` to `back` and of the reverse pass, and where each
    receives the number of its first iteration, if the kernel reads it."""

    operations: list[list[Operation]]
    counters: list[Block]


class TemporalBlocking:
    """A kernel that computes several iterations of a loop.  `whole`: rows are whole vectors, and
    the kernel loads vectors; else it works for any number of columns."""

    def __init__(self, owner: CudaExecutor, loop: graph.ArrayLoop, whole: bool) -> None:
        self.owner, self.loop, self.whole = owner, loop, whole

    @classmethod
    def of(cls, owner: CudaExecutor, loop: graph.ArrayLoop) -> Sequence[TemporalBlocking]:
        """The kernels to try, in order."""
        if owner.program.settings.check:
            return ()
        return [cls(owner, loop, whole) for whole in (True, False)]

    @cached
    def made(self) -> tuple[Temporal, KernelLaunch] | None:
        """The kernel; None if temporal blocking is not faster or not possible."""
        context = LoweringContext(target=CUDA, threads=self.owner.device.multiprocessors)
        found = temporal(self.loop, context, self.whole)
        if found is None:
            return None
        (kernel,) = found.lowered.kernels
        return found, KernelLaunch(self.owner, found.node, kernel, ())

    def passes(self, run: DeviceRun, loop: LoopStep, front: list[Block], back: list[Block],
               steps: int) -> Passes | None:  # fmt: skip
        """Passes of `steps` iterations; None if the kernel does not apply."""
        assert self.made is not None
        found, variant = self.made
        if any(front[k] is not back[k] for k in found.records):
            return None
        read = {slot for space, slot in variant.sources if space == SLOT}
        counters = [run.queue.block((), _int64) for _ in range(2)] if loop.index in read else []
        for slot in read - {loop.index, *loop.state}:
            if run.slots[slot].shape:
                run.dense(slot)
        made: list[list[Operation]] = []
        for k, (source, target) in enumerate(((front, back), (back, front))):
            inner = run.inside(Recorder(self.owner.device), ())
            for slot, block in zip(loop.state, source, strict=True):
                inner.slots[slot] = block
            if counters and loop.index is not None:
                inner.slots[loop.index] = counters[k]
            launch = variant.launch(inner, [target[k] for k in found.states], [])
            if launch is None or launch.tasks <= 0:
                return None
            run.pinned |= inner.pinned
            made.append([self._counting(launch, steps)])
            made[-1] += [Launch(loop.advance, (c,), (2 * steps,), 1) for c in counters[k : k + 1]]
        return Passes(made, counters)

    @staticmethod
    def _counting(launch: Launch, steps: int) -> Launch:
        """A launch that computes `steps` iterations."""
        names = [v.name for v in launch.code.scalars]
        if COUNT not in names:
            return launch
        at, varying = names.index(COUNT), launch.varying

        def counting(scalars: tuple[object, ...]) -> tuple[object, ...]:
            return (*scalars[:at], steps, *scalars[at + 1 :])

        later = None if varying is None else lambda params: counting(varying(params))
        return replace(launch, scalars=counting(launch.scalars), varying=later)
