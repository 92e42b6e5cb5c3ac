"""`cuda` as a backend: plans, lowers, compiles and runs a program on an NVIDIA GPU."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from treadle.dsl import locks
from treadle.dsl.errors import BackendUnavailable
from treadle.dsl.graph import (
    ArrayLoop,
    Barrier,
    Branch,
    Check,
    Generate,
    Input,
    Leaf,
    Library,
    Matmul,
    Node,
)
from treadle.dsl.locks import cached
from treadle.dsl.relations import limit_of, verify_checks
from treadle.dsl.sources import host_array
from treadle.skeletons.lower.pieces import Whole, pieces_of

from ..runtime.host import HostCompiler, is_host_work
from ..runtime.plan import Plan, Planner, Step, data_checks
from .device.device import Block, Code, Copy, Device
from .forms import forms_of
from .graphs.tape import DataDependent, Direct, Judged, Recorder, Tape, Verdict
from .loops import LoopStep
from .products.parts import product_step
from .products.ways import open_ways
from .running import HostFunction, Run
from .steps import KernelStep, Outgrown

if TYPE_CHECKING:
    from treadle.skeletons.lower.lower import LoweringContext

    from .pieces import PiecewiseCalls

Action = Callable[[Run], None]
_ndarray = np.ndarray

#: Recordings kept per program: one for every combination of extents and layouts.
TAPES = 64


def unavailable() -> str | None:
    """Why there is no GPU to work with here, None when there is."""
    from .availability import why_not

    return why_not()


def source(program: Any, arch: str | None = None) -> str:
    """CUDA C++ of every kernel; needs no GPU."""
    from .source import source as printed

    return printed(program, arch)


def remarks(program: Any) -> list[str]:
    """How loops over arrays run, and how arrays of the host get there and back."""
    from .source import remarks as found

    return found(program, None if unavailable() else device_here())


def lowering(program: Any, node: Node) -> LoweringContext | None:
    """The context in which a node becomes kernels, None where a library computes it."""
    from .source import lowering as found

    return found(program, node)


def describe_product(
    node: Matmul, size: tuple[int, int, int] | None, checked: bool = False, count: int = 1
) -> dict[str, str]:
    """How a product is computed, for `explain`: on the GPU here, else on one that was measured.
    `checked`: indices are tested; `count`: so many products along leading axes."""
    from .products.explain import describe

    return describe(node, size, None if unavailable() else device_here(), checked, count)


def product_ways(node: Matmul, size: tuple[int, int, int]) -> list[Any]:
    """Ways to compute a product that are left open, for `tune`; `size` is (m, k, n)."""
    return open_ways(device_here(), node, size)


def placed(data: Sequence[Any]) -> list[Any]:
    """The arrays on the GPU."""
    device = device_here()
    return [device.upload(readable(d)) if device.adopt(d) is None else d for d in data]


def machine() -> list[str]:
    """The GPU and its architecture."""
    device = device_here()
    return [device.name, device.arch]


def wait() -> None:
    """Return when the current stream's work is done."""
    device_here().wait()


def device_here() -> Device:
    """The GPU that is current; tests put another device in its place."""
    try:
        from .graphs.launch import CudaDevice
    except ImportError as error:  # CuPy or cuda-bindings are not installed
        raise BackendUnavailable(
            unavailable() or f"the backend 'cuda' cannot be loaded: {error}."
        ) from None
    return CudaDevice.current()


class Executable:
    """A program on a GPU: call it with the data of its inputs and parameters."""

    def __init__(self, program: Any, device: Device | None = None) -> None:
        self.program = program
        self.device = device or device_here()
        self.short = forms_of(program)
        self.planner = Planner(
            program.roots, program.inputs, self.short.inside, program.settings.check
        )
        self.tables: list[tuple[int, Any]] = []
        #: What the parts of this know it by: they must not keep it, and it the data, until Python
        #: looks for cycles.
        self.owner: Any = weakref.proxy(self)
        owner = self.owner
        self.host = HostCompiler(
            lambda leaf: owner.slot_of(leaf), {p: k for k, p in enumerate(program.params)}
        )
        self.checks = [
            (c, HostFunction(self.host, (c.left, c.right))) for c in self.planner.plan.checks
        ]
        self.kernel_steps: list[KernelStep] = []
        self.actions = self.actions_of(self.planner.plan)
        self.results = self.planner.plan.results
        self.inputs = len(program.inputs)
        self.tapes: OrderedDict[Any, Any] = OrderedDict()
        self.shapers: tuple[int, ...] = ()
        self.recordable = not program.settings.check
        self.lock = locks.lock()
        self.others: dict[Device, Executable] = {}
        self.again: Any = None

    # --- calling ---

    #: What says that a recording is not good for the parameters of a call.
    unrepeatable = Outgrown

    def __call__(self, data: Sequence[Any], params: Sequence[Any]) -> list[Any]:
        """One array per root, on the device if any input was there; never aliasing inputs or
        each other."""
        try:
            if self.device.is_current():
                return self._call(data, params)
            return self._elsewhere()(data, params)
        except Exception as error:
            made = self.device.error(error)
            if made is None:
                raise
            raise made from None

    def _elsewhere(self) -> Executable:
        """The same program for the GPU that is current now."""
        device = device_here()
        with self.lock:
            found = self.others.get(device)
            if found is None:
                found = self.others[device] = Executable(self.program, device)
        return found

    def _call(self, data: Sequence[Any], params: Sequence[Any]) -> list[Any]:
        arrays: list[Any] = []
        key: list[Any] = []
        on_device = False
        for d in data:
            found = self.device.adopt(d)
            if found is None:
                arrays.append(readable(d))
                key.append(d.shape)
            else:
                on_device = True
                arrays.append(found[0])
                key.append(found[1])
        key.append(on_device)
        if self.recordable:
            try:
                if not on_device and self.piecewise is not None:
                    made = self.piecewise(arrays, params)
                    if made is not None:
                        return made
                recorded = self.recording(arrays, params, key)
                return self._replay(recorded, arrays, params, on_device)
            except Outgrown:
                pass
            except DataDependent:
                self.recordable = False
        return self._direct(arrays, params, on_device)

    @cached
    def piecewise(self) -> PiecewiseCalls | None:
        """Who makes calls with large arrays of the host in pieces; None where nobody can."""
        from .pieces import PiecewiseCalls

        program = self.program
        try:
            how = pieces_of(program.roots, program.inputs, program.settings.check)
        except Whole:
            return None
        return PiecewiseCalls(self, how)

    def recording(self, arrays: list[Any], params: Sequence[Any], key: list[Any]) -> Any:
        """What the program does for inputs of these layouts, made when it is first asked for."""
        if self.shapers:
            found = self.tapes.get((*key, *(params[k] for k in self.shapers)))
        else:
            found = self.tapes.get(tuple(key))
        return self._record(arrays, params, key) if found is None else found

    def replay(
        self, args: Sequence[Any], data: Sequence[Any], params: Sequence[Any]
    ) -> Callable[..., Any] | None:
        """What repeats calls like one that was just made with `args`, arrays on the device and
        numbers: see `again.py`.  None where nothing does: captured arrays, numbers that decide
        extents, arrays of the host."""
        if not self.recordable or self.shapers or len(data) + len(params) != len(args):
            return None
        if self.again is None:
            self.again = self.device.again(self, args)
        if self.again is not None:
            found = [self.device.adopt(d) for d in data]
            key = (*(None if f is None else f[1] for f in found), True)
            recorded = self.tapes.get(key)
            if recorded is None or any(key[k] != d.shape for k, d in enumerate(data)):
                return None
            used, constants, replay, judged = recorded
            places = None if used == list(range(len(data))) and not constants else used
            self.again.learn(args, (places, [c.data.ptr for c in constants], replay, judged))
        again: Callable[..., Any] | None = self.again
        return again

    def _replay(
        self, replay: Any, arrays: list[Any], params: Sequence[Any], on_device: bool
    ) -> list[Any]:
        device = self.device
        used, constants, run, judged = replay
        given = [device.upload(a) if type(a) is _ndarray else a for a in [arrays[k] for k in used]]
        found: list[Any] = run(given + constants, params)
        if judged is not None:
            found = judged(found, params)
        if on_device:
            return found
        return [np.array(r) if type(r) is _ndarray else device.download(r) for r in found]

    def _blocks(self, arrays: Sequence[Any]) -> list[Any]:
        """The arrays of a call, those on the device as blocks."""
        return [a if type(a) is _ndarray else self.device.block(a) for a in arrays]

    def _slots(self, faces: Sequence[Any]) -> list[Any]:
        return [*faces, *([None] * (self.planner.count - len(faces)))]

    def _record(self, arrays: list[Any], params: Sequence[Any], key: list[Any]) -> Any:
        """What the program does for inputs of these layouts, ready to be replayed: the inputs that
        it reads, arrays that it brings along, and the replay."""
        blocks = [
            Block(f.shape, f.dtype, kind="input", strides=f.strides, dense=f.dense,
                  aligned=f.aligned) if isinstance(f, Block)
            else Block(f.shape, f.dtype, kind="input") for f in self._blocks(arrays)
        ]  # fmt: skip
        recorder = Recorder(self.device)
        recorder.verdicts = []
        run = Run(recorder, self._slots(blocks), params)
        tables = []
        for slot, table in self.tables:
            tables.append(Block(table.shape, table.dtype, kind="input"))
            run.faces[slot] = tables[-1]
        self._work(run)
        results = self._own(run, key[-1])
        judged = Judged(recorder.verdicts, len(results))
        made = [b for b, _ in recorder.constants]
        tape = Tape((*blocks, *tables, *made), tuple(recorder.operations), tuple(results),
                    tuple(judged.blocks))  # fmt: skip
        used = [k for k, b in enumerate(blocks) if b in _touched(tape)]
        inputs = (*(blocks[k] for k in used), *tables, *made)
        tape = replace(tape, inputs=inputs)
        self.device.compile([c for c in tape.codes if c.function is None])
        constants = [self.device.upload(t) for _, t in self.tables]
        constants += [self.device.upload(c) for _, c in recorder.constants]
        replay = (used, constants, self.device.prepare(tape), judged if judged.verdicts else None)
        shapers = tuple(sorted(run.shapers.union(self.shapers)))
        with self.lock:
            if shapers != self.shapers:
                self.tapes.clear()
                self.shapers = shapers
            self.tapes[(*key, *(params[k] for k in shapers))] = replay
            while len(self.tapes) > TAPES:
                self.tapes.popitem(last=False)
        return replay

    def _direct(self, arrays: list[Any], params: Sequence[Any], on_device: bool) -> list[Any]:
        """Step by step: what the contents of arrays decide, and checked mode."""
        queue = Direct(self.device)
        run = Run(queue, self._slots(self._blocks(arrays)), params)
        for slot, table in self.tables:
            run.faces[slot] = table
        self._compile_all()
        self._work(run)
        found = []
        for r in self._own(run, on_device):
            if isinstance(r, Block):
                found.append(r.array if on_device else queue.download(r))
            else:
                found.append(np.array(r))
        return found

    def verify(self, run: Run) -> None:
        """Raise what is wrong with the extents of a run."""
        for check, values in self.checks:
            if limit_of(check) is None:
                _judge(check, *values(run))
                continue
            # A recording is good for other numbers, too: every replay looks at its own.
            judge = partial(_judge_later, check, values.plain)
            judge((), run.params)
            if run.queue.verdicts is not None:
                run.queue.verdicts.append(Verdict((), judge))

    def _work(self, run: Run) -> None:
        self.verify(run)
        for act in self.actions:
            act(run)

    def _own(self, run: Run, on_device: bool) -> list[Any]:
        """The results: blocks that are nobody else's, or (for the host) what is there already."""
        found: list[Any] = []
        taken: set[int] = set()
        for slot in self.results:
            face = run.faces[slot]
            if isinstance(face, Block) or on_device:
                block = run.block(slot)
                if block.kind == "input" or id(block) in taken:
                    made = run.queue.block(block.shape, block.dtype)
                    run.queue.put(Copy(made, block))
                    block = made
                taken.add(id(block))
                face = block
            found.append(face)
        return found

    def _compile_all(self) -> None:
        """Compile what will surely run, several at a time, before running step by step."""
        codes = [c for c in self.codes() if c.function is None]
        if codes:
            self.device.compile(codes)

    def codes(self) -> list[Code]:
        """The variant of every kernel that is likeliest to run."""
        first = [v[0] for s in self.kernel_steps for v in s.plain.launches]
        return [(v.narrow or v).code for v in first]

    def slot_of(self, leaf: Leaf) -> int:
        """The slot of a leaf; arrays that a schedule brought along get one when first asked for."""
        found = self.planner.slots.get(leaf)
        if found is None:
            assert isinstance(leaf.node, Input) and leaf.node.source is not None, leaf
            found = self.planner.slot(leaf)
            self.tables.append((found, np.ascontiguousarray(leaf.node.source)))
        return found

    def bring_tables(self, run: Run) -> None:
        """Have a run hold the arrays that lowerings during it asked for."""
        run.faces += [None] * (self.planner.count - len(run.faces))
        for slot, table in self.tables:
            if run.faces[slot] is None:
                run.faces[slot] = table

    # --- steps ---

    def actions_of(self, plan: Plan) -> list[Action]:
        """The steps of a plan, as functions of a run."""
        actions: list[Action] = []
        for step in plan.steps:
            for check in data_checks(step.node):
                actions.append(self._checked(check))
            actions.append(self._action(step))
            if step.release:
                actions.append(_release(step.release))
        return actions

    def _checked(self, check: Any) -> Action:
        values = HostFunction(self.host, (check.left, check.right))

        def act(run: Run) -> None:
            verdicts = run.queue.verdicts
            after = None if verdicts is None else values.after(run)
            if verdicts is None or after is None:
                _judge(check, *values(run))
                return
            blocks, found = after
            verdicts.append(Verdict(blocks, partial(_judge_later, check, found)))

        return act

    def _action(self, step: Step) -> Action:
        node = step.node
        if isinstance(node, Barrier):
            pairs = [
                (self.planner.slots[o], self.planner.slots[a])
                for o, a in zip(node.leaves, node.arguments, strict=True)
            ]
            return _copy_slots(pairs)
        if isinstance(node, Library):
            return self._library(node)
        if isinstance(node, ArrayLoop):
            return LoopStep(self.owner, node, step)
        if isinstance(node, Branch):
            return self._branch(node, step)
        if isinstance(node, Matmul):
            return product_step(self.owner, node)
        kernels = KernelStep(self.owner, node, self.planner.expendable(step))
        self.kernel_steps.append(kernels)
        if isinstance(node, Generate) and not node.shape and is_host_work(node.elements):
            return self._on_host(node, kernels)
        return kernels

    def _on_host(self, node: Generate, kernels: KernelStep) -> Action:
        """Counters and predicates of what is on the host already: cheaper here than a launch."""
        values = HostFunction(self.host, node.elements)
        targets = [(self.planner.slots[o], o.type.numpy) for o in node.leaves]
        # A recording would be good for one value of these only.
        inexact = any(self.program.params[k].type.is_inexact for k in values.params)

        def act(run: Run) -> None:
            away = any(isinstance(run.faces[s], Block) for s in values.reads)
            if away or (inexact and run.queue.recording):
                kernels(run)
                return
            for (slot, t), value in zip(targets, values(run), strict=True):
                run.faces[slot] = np.array(value, t)

        return act

    def _library(self, node: Library) -> Action:
        from .libraries import library

        return library(self.owner, node)

    def _branch(self, node: Branch, step: Step) -> Action:
        predicate = HostFunction(self.host, (node.predicate,))
        sides = [
            ([*map(self._checked, p.checks), *self.actions_of(p)], p.results) for p in step.inner
        ]
        targets = [self.planner.slots[o] for o in node.leaves]

        def act(run: Run) -> None:
            actions, results = sides[0 if predicate(run)[0] else 1]
            for one in actions:
                one(run)
            for t, r in zip(targets, results, strict=True):
                run.faces[t] = run.dense(r)

        return act


def _judge(check: Check, left: Any, right: Any) -> None:
    verify_checks((check,), lambda e: left if e is check.left else right)


def _judge_later(
    check: Check,
    values: Callable[[Sequence[Any], Sequence[Any]], tuple[Any, ...]],
    held: Sequence[Any],
    params: Sequence[Any],
) -> None:
    _judge(check, *values(held, params))


def _touched(tape: Tape) -> set[Block]:
    found = {r for r in tape.results if isinstance(r, Block)}
    for op in tape.operations:
        found.update(op.reads, op.writes)
    return found


def borrowed(value: Any) -> Any:
    """An array of another library on the GPU as one of CuPy, without a copy."""
    from .device.driver import borrowed as found

    return found(value)


def readable(value: Any) -> Any:
    """Host data as it can be copied: a NumPy array in native byte order."""
    if type(value) is np.ndarray and value.dtype.isnative:
        return value
    return host_array(value)


def _release(slots_to_drop: list[int]) -> Action:
    drop = tuple(slots_to_drop)

    def act(run: Run) -> None:
        for s in drop:
            run.faces[s] = None

    return act


def _copy_slots(pairs: list[tuple[int, int]]) -> Action:
    def act(run: Run) -> None:
        for target, source in pairs:
            run.faces[target] = run.dense(source)

    return act
