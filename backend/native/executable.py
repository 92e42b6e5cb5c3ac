"""`native` as a backend: plans, lowers, compiles and runs a program on this machine's cores."""

from __future__ import annotations

import math
import os
import time
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from treadle.dsl.expr import Apply, Const, Expr, Index, Read, substitute
from treadle.dsl.graph import (
    ArrayLoop,
    Barrier,
    Branch,
    Generate,
    Input,
    Leaf,
    Library,
    Matmul,
    Node,
)
from treadle.dsl.library import is_builtin, parts_of
from treadle.dsl.limits import threads
from treadle.dsl.relations import limit_of, verify_checks
from treadle.dsl.sources import host_array

from ..runtime.host import HostCompiler, is_host_work
from ..runtime.memory import address
from ..runtime.plan import Plan, Planner, Step, data_checks
from .calls import forms_of
from .loops import Loop, dense
from .runtime.replay import LARGEST, Replays
from .runtime.tape import Action, Tape, TooLarge, Unrecordable, dependence, record
from .runtime.threads import thread_count
from .steps import KernelStep, Params, Slots

if TYPE_CHECKING:
    from treadle.skeletons.lower.lower import LoweringContext

#: Seconds of work from which on a call is not repeated by native code, which does not look at
#: Python's signals.
LONG = 0.05


def describe_product(
    node: Matmul, size: tuple[int, int, int] | None, checked: bool = False, count: int = 1
) -> dict[str, str]:
    """How a product is computed, for `explain`; `size` (m, k, n) where it is known.  Checks of
    indices, and how many products there are along leading axes, change nothing of it."""
    from .products import describe

    return describe(node, size)


def product_ways(node: Matmul, size: tuple[int, int, int]) -> list[Any]:
    """Ways to compute a product that are left open, for `tune`; `size` is (m, k, n)."""
    from .products import open_ways

    return open_ways(node, size)


def lowering(program: Any, node: Node) -> LoweringContext | None:
    """The context in which a node becomes kernels, None where a library computes it."""
    from treadle.skeletons.lower.lower import LoweringContext

    if isinstance(node, Library) or (isinstance(node, Matmul) and not _in_language(node)):
        return None
    return LoweringContext(threads=thread_count(), check=program.settings.check)


class Executable:
    """A compiled program: call it with the data of its inputs and parameters."""

    def __init__(self, program: Any) -> None:
        self.program = program
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
        self.checks = self.planner.plan.checks
        self.sides = self.host.compile([e for c in self.checks for e in (c.left, c.right)])
        self.kernel_steps: list[KernelStep] = []
        self.actions = self._actions(self.planner.plan)
        self._compile_all()
        self.results = self.planner.plan.results
        self.inputs = len(program.inputs)
        self.replays = Replays(len(program.arguments))
        self.recordable = not program.settings.check
        self.took = 0.0  # seconds that the last call worked

    def __call__(self, data: Sequence[Any], params: Params) -> list[Any]:
        """One array per root; results never alias inputs nor each other."""
        began = time.thread_time()
        found = self._run(data, params)
        self.took = time.thread_time() - began
        return found

    def _run(self, data: Sequence[Any], params: Params) -> list[Any]:
        slots = self._slots(data)
        if self.checks:
            sides = self.sides(slots, params)
            if sides[::2] != sides[1::2]:  # or a relation that does not ask for equality
                self._verify(sides)
        for act in self.actions:
            act(slots, params)
        found: list[Any] = []
        taken: list[Any] = [*data, *slots[: self.inputs]]  # what a result must not be
        for slot in self.results:
            array = slots[slot]
            for other in taken:
                if array is other:
                    array = np.array(array, order="C")
                    break
            taken.append(array)
            found.append(array)
        return found

    def _slots(self, data: Sequence[Any]) -> Slots:
        slots: Slots = [readable(d) for d in data]
        self.bring_tables(slots)
        return slots

    def bring_tables(self, slots: Slots) -> None:
        """Slots for all there is by now, and in them the arrays that schedules brought along:
        kernels that are made during a call may be the first to need some."""
        slots += [None] * (self.planner.count - len(slots))
        for slot, table in self.tables:
            slots[slot] = table

    def replay(
        self, args: Sequence[Any], data: Sequence[Any], params: Params
    ) -> Callable[..., Any] | None:
        """A function for calls like one that was just made: its results, one array or a tuple, or
        None if a call is not like any that was recorded.  None: there is no such function (yet).

        `args` are NumPy arrays and Python's numbers as the user gave them, `data` and `params` the
        same apart (and captured arrays)."""
        plain = all(type(d) is np.ndarray for d in data)
        if (self.recordable and plain and self.replays.missed(args, data)
                and self.took < LONG):  # fmt: skip
            try:
                self._record(args, data, params)
            except TooLarge:
                pass
            except Unrecordable:
                self.replays.failed()
        return self.replays.function

    def _record(self, args: Sequence[Any], data: Sequence[Any], params: Params) -> None:
        slots = self._slots(data)
        if any(s is not d for s, d in zip(slots, data, strict=False)):
            raise Unrecordable
        tape = Tape(frozenset(range(self.inputs)), LARGEST, _fresh)
        compared: list[Expr] = []
        for check in self.checks:
            limit = limit_of(check)
            if limit is None:
                compared += (check.left, check.right)
                continue
            number = self.host.param_index[limit[0]]
            low, high = tape.limits.get(number, limit[1:])
            tape.limits[number] = max(low, limit[1]), min(high, limit[2])
        sides = dependence(compared, self.host.param_index)
        if sides.reads:
            raise Unrecordable
        tape.pinned |= sides.params
        record(self.actions, tape, slots, params)
        results = [slots[slot] for slot in self.results]
        if len({id(r) for r in results}) < len(results) or not all(map(tape.made, results)):
            raise Unrecordable
        self.replays.add(tape, args, data, results)

    def _verify(self, sides: Sequence[Any]) -> None:
        for k, check in enumerate(self.checks):
            known = {check.left: sides[2 * k], check.right: sides[2 * k + 1]}
            verify_checks((check,), known.__getitem__)

    def slot_of(self, leaf: Leaf) -> int:
        """The slot of a leaf; arrays that a schedule brought along get one when first asked for."""
        found = self.planner.slots.get(leaf)
        if found is None:
            assert isinstance(leaf.node, Input) and leaf.node.source is not None, leaf
            found = self.planner.slot(leaf)
            self.tables.append((found, np.ascontiguousarray(leaf.node.source)))
        return found

    def _compile_all(self) -> None:
        """Compile every kernel now that is not on disk, several at a time (LLVM runs without the
        interpreter lock)."""
        wanted = [
            (launch, step.dense.fast_math)
            for step in self.kernel_steps
            if not step.forms.several  # the extents of the first call decide
            for launch in step.dense.launches
            if not launch.found(step.dense.fast_math)
        ]
        jobs = list(
            {job[0].about.digest or id(job[0]): job for job in wanted}.values()
        )  # each once
        if len(jobs) > 1:
            pool = threads(min(len(jobs), os.cpu_count() or 1), "treadle compiles")
            if pool is not None:
                with pool:
                    list(pool.map(lambda job: job[0].compiled(job[1]), jobs))

    def source(self) -> str:
        """LLVM IR of every kernel."""
        from .codegen.compile import llvm_ir

        text = "\n".join(llvm_ir(k) for s in self.kernel_steps for k in s.compiled())
        return text or "; no kernel: the host does everything in this program\n"

    # --- steps ---
    def _actions(self, plan: Plan) -> list[Action]:
        actions: list[Action] = []
        for step in plan.steps:
            for check in data_checks(step.node):
                actions.append(self._checked(check))
            actions.append(self._action(step))
            if step.release:
                actions.append(Release(step.release))
        return actions

    def _checked(self, check: Any) -> Action:
        values = self.host.compile((check.left, check.right))

        def act(slots: Slots, params: Params) -> None:
            left, right = values(slots, params)
            verify_checks((check,), lambda e: left if e is check.left else right)

        return act

    def _action(self, step: Step) -> Action:
        node = step.node
        if isinstance(node, Barrier):
            pairs = [
                (self.planner.slots[o], self.planner.slots[a])
                for o, a in zip(node.leaves, node.arguments, strict=True)
            ]
            return CopySlots(pairs)
        if isinstance(node, Library):
            return self._library(node)
        if isinstance(node, ArrayLoop):
            return self._loop(node, step)
        if isinstance(node, Branch):
            return self._branch(node, step)
        if isinstance(node, Matmul) and not _in_language(node):
            return self._matmul(node)
        if isinstance(node, Generate) and not node.shape and is_host_work(node.elements):
            return OnHost(self.owner, node)
        made = KernelStep(self.owner, node, self.planner.expendable(step))
        self.kernel_steps.append(made)
        if isinstance(node, Matmul):
            from .products import exact_step

            owner = self.owner
            return exact_step(node, made, lambda: owner._operands(node))  # type: ignore[no-any-return]
        return made

    def _library(self, node: Library) -> Action:
        sources = [self.planner.slots[a] for a in node.arguments]
        targets = [self.planner.slots[o] for o in node.leaves]
        types = [o.type.numpy for o in node.outputs]
        function, ours = node.operation.on("native"), is_builtin(node.operation)
        extents = self.host.compile([e for o in node.outputs for e in o.shape])

        def act(slots: Slots, params: Params) -> None:
            given = [slots[s] for s in sources]
            result = function(*given)
            parts = parts_of(node.operation, result, iter(extents(slots, params)), node.where)
            for slot, part, t in zip(targets, parts, types, strict=True):
                slots[slot] = np.array(part, t, order="C", copy=None if ours else True)
            if not ours:
                # The user's function may keep what it was given: held, it is never overwritten.
                slots.extend(given)

        return act

    def _matmul(self, node: Matmul) -> Action:
        from .products import product

        left, right, slot = self._operands(node)
        t = node.left.type

        def act(slots: Slots, params: Params) -> None:
            result = product(left(slots, params), right(slots, params), t, node.options)
            slots[slot] = np.ascontiguousarray(result)

        return act

    def _operands(self, node: Matmul) -> tuple[Any, Any, int]:
        """Functions giving the operands as views, and the slot of the result."""
        slots = self.planner.slots
        left = operand_view(self.host, slots, node.left, (*node.batch, node.m, node.k))
        right = operand_view(self.host, slots, node.right, (*node.batch, node.k, node.n))
        return left, right, slots[node.leaf()]

    def _loop(self, node: ArrayLoop, step: Step) -> Action:
        slots = self.planner.slots
        look, once, rest = map(self._actions, step.inner)
        return Loop(
            look,
            once,
            rest,
            step.inner[-1].results,
            {slots[leaf] for p in step.inner for s in p.steps for leaf in s.node.leaves},
            [self.planner.slot(s.leaf()) for s in node.state],
            [slots[i] for i in node.init],
            [slots[o] for o in node.leaves],
            None if node.index is None else self.planner.slot(node.index.leaf()),
            None if node.count is None else self.host.compile((node.count,)),
            node.predicate is not None,
        )

    def _branch(self, node: Branch, step: Step) -> Action:
        predicate = self.host.compile((node.predicate,))
        sides = [
            ([*map(self._checked, p.checks), *self._actions(p)], p.results) for p in step.inner
        ]
        targets = [self.planner.slots[o] for o in node.leaves]

        def act(slots: Slots, params: Params) -> None:
            actions, results = sides[0 if predicate(slots, params)[0] else 1]
            for one in actions:
                one(slots, params)
            for t, r in zip(targets, results, strict=True):
                slots[t] = dense(slots[r])

        return act


def readable(value: Any) -> Any:
    """Host data as kernels read it: aligned, in native byte order, strides in whole elements."""
    if type(value) is np.ndarray and value.flags.carray and value.dtype.isnative:
        return value
    array = host_array(value.get() if hasattr(value, "__cuda_array_interface__") else value)
    whole = all(s % array.itemsize == 0 for s in array.strides)
    return array if array.flags.aligned and whole else np.array(array, order="C")


def _in_language(node: Matmul) -> bool:
    """Whether a product runs as a kernel of ours: integers and booleans, or a fused epilogue."""
    plain = node.options.algorithm in ("auto", "standard")
    return node.epilogue != (node.result,) or (plain and not node.left.type.is_inexact)


def _fresh(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """An array that stays with a record, not the pool's: it would never be idle there."""
    raw = np.empty(math.prod(shape) * dtype.itemsize + 64, np.uint8)
    return np.ndarray(shape, dtype, raw, -address(raw) % 64)


class Release:
    """Slots that nobody reads any more."""

    def __init__(self, slots_to_drop: Sequence[int]) -> None:
        self.drop = tuple(slots_to_drop)

    def __call__(self, slots: Slots, params: Params) -> None:
        for s in self.drop:
            slots[s] = None

    def record(self, tape: Tape, slots: Slots, params: Params) -> None:
        """Nothing is done."""


class CopySlots:
    """Arrays under other numbers, dense: (target, source)."""

    def __init__(self, pairs: Sequence[tuple[int, int]]) -> None:
        self.pairs = tuple(pairs)

    def __call__(self, slots: Slots, params: Params) -> None:
        for target, source in self.pairs:
            slots[target] = dense(slots[source])

    def record(self, tape: Tape, slots: Slots, params: Params) -> None:
        for target, source in self.pairs:
            if not slots[source].flags.c_contiguous:
                raise Unrecordable
            slots[target] = slots[source]


class OnHost:
    """Counters, predicates of loops: cheaper here than a launch from Python.

    Not so on a tape: what reads arrays is a kernel there.
    """

    def __init__(self, owner: Executable, node: Generate) -> None:
        self.owner, self.node = owner, node
        self.values = owner.host.compile(node.elements)
        self.dependence = dependence(node.elements, owner.host.param_index)
        self.targets = [(owner.planner.slots[o], o.type.numpy) for o in node.leaves]
        self._kernel: KernelStep | None = None

    def __call__(self, slots: Slots, params: Params) -> None:
        for (slot, t), value in zip(self.targets, self.values(slots, params), strict=True):
            slots[slot] = np.array(value, t)

    def record(self, tape: Tape, slots: Slots, params: Params) -> None:
        if not self.dependence.reads:
            tape.pinned |= self.dependence.params
            self(slots, params)
            return
        if self._kernel is None:
            self._kernel = KernelStep(self.owner, self.node)
        self._kernel.record(tape, slots, params)

    @property
    def ready(self) -> bool:
        """Whether recording needs no compiler."""
        return self._kernel is not None or not self.dependence.reads


# --- operands of BLAS as strided views ---------------------------------------------------------


def operand_view(
    host: HostCompiler, slots: dict[Leaf, int], e: Expr, shape: Sequence[Expr]
) -> Callable[[Slots, Params], Any]:
    """A function giving the operand as a NumPy view: index maps that are affine cost no copy."""
    casts = []
    while isinstance(e, Apply) and e.op.name == "cast":
        casts.append(e.type.numpy)
        e = e.args[0]
    if not isinstance(e, Read) or e.boundary is not None:
        raise AssertionError("an operand of a product must be a plain read")
    slot = slots[Leaf(e.node, e.component)]
    rank = len(shape)
    # An affine map is known from its value at the origin and at the unit vectors.
    points: list[dict[Expr, Expr]] = [
        {Index(k): Const(int(k == at), Index(0).type) for k in range(rank)}
        for at in range(-1, rank)
    ]
    hosts: list[Expr] = list(shape)
    for p in points:
        hosts += substitute(e.args, p)
    values_of = host.compile(hosts)
    axes = len(e.args)
    # Nearly always: the whole array, its axes in some order, and between them axes of one element.
    order = [a.axis for a in e.args if isinstance(a, Index)]
    whole = len(order) == axes == len(set(order))
    places, sizes_of = tuple(np.argsort(order).tolist()), host.compile(shape)
    between = tuple(slice(None) if k in order else None for k in range(rank))

    def view(values_slots: Slots, params: Params) -> Any:
        array = values_slots[slot]
        if whole and not casts:
            found = array.transpose(places)
            if axes < rank:
                found = found[between]
            if found.shape == sizes_of(values_slots, params):
                return found
        values = values_of(values_slots, params)
        extents = tuple(max(int(v), 0) for v in values[:rank])
        rows = [values[rank + k * axes : rank + (k + 1) * axes] for k in range(rank + 1)]
        origin = rows[0]
        if 0 in extents:
            made = np.zeros(extents, array.dtype)
        else:
            strides = []
            for k in range(rank):
                steps = [int(x) - int(o) for x, o in zip(rows[k + 1], origin, strict=True)]
                strides.append(sum(d * s for d, s in zip(steps, array.strides, strict=True)))
            base = array[tuple(slice(int(o), None) for o in origin)]
            made = np.lib.stride_tricks.as_strided(base, extents, strides)
        for t in reversed(casts):
            made = made.astype(t)
        return made

    return view
