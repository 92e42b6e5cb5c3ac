"""`native` as a backend: plans, lowers, compiles and runs a program on this machine's cores."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from treadle.backend.host import HostCompiler, is_host_work
from treadle.backend.plan import Plan, Planner, Step, data_checks
from treadle.dsl.expr import Apply, Const, Expr, Index, Read, substitute
from treadle.dsl.graph import ArrayLoop, Barrier, Branch, Generate, Input, Leaf, Library, Matmul
from treadle.dsl.program import host_array
from treadle.dsl.relations import verify_checks

from .steps import KernelStep, Params, Slots

Action = Callable[[Slots, Params], None]


def unavailable() -> str | None:
    """Why LLVM does not work here, None when it does."""
    try:
        import llvmlite.binding  # noqa: F401
    except ImportError as error:
        return f"llvmlite cannot be imported ({error}); pip install llvmlite"
    return None


class Executable:
    """A compiled program: call it with the data of its inputs and parameters."""

    def __init__(self, program: Any) -> None:
        self.program = program
        self.planner = Planner(program.roots, program.inputs)
        self.tables: list[tuple[int, Any]] = []
        self.host = HostCompiler(self.slot_of, {p: k for k, p in enumerate(program.params)})
        self.checks = self.planner.plan.checks
        self.sides = self.host.compile([e for c in self.checks for e in (c.left, c.right)])
        self.kernel_steps: list[KernelStep] = []
        self.actions = self._actions(self.planner.plan)
        self._compile_all()
        self.results = self.planner.plan.results
        self.inputs = len(program.inputs)

    def __call__(self, data: Sequence[Any], params: Params) -> list[Any]:
        """One array per root; results never alias inputs nor each other."""
        slots: Slots = [readable(d) for d in data]
        slots += [None] * (self.planner.count - len(slots))
        for slot, table in self.tables:
            slots[slot] = table
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
                    array = np.array(array)
                    break
            taken.append(array)
            found.append(array)
        return found

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
        """Compile every kernel now, several at a time (LLVM runs without the interpreter lock)."""
        jobs = [
            (launch, step.dense.fast_math)
            for step in self.kernel_steps
            if not step.counts  # the extents of the first call decide
            for launch in step.dense.launches
        ]
        if len(jobs) > 1:
            with ThreadPoolExecutor(min(len(jobs), os.cpu_count() or 1)) as pool:
                list(pool.map(lambda job: job[0].compiled(job[1]), jobs))

    def source(self) -> str:
        """LLVM IR of every kernel."""
        text = "\n".join(k.llvm_ir for s in self.kernel_steps for k in s.compiled())
        return text or "; no kernel: the host does everything in this program\n"

    # --- steps ---
    def _actions(self, plan: Plan) -> list[Action]:
        actions: list[Action] = []
        for step in plan.steps:
            for check in data_checks(step.node):
                actions.append(self._checked(check))
            actions.append(self._action(step))
            if step.release:
                actions.append(_release(step.release))
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
            return _copy_slots(pairs)
        if isinstance(node, Library):
            return self._library(node)
        if isinstance(node, ArrayLoop):
            return self._loop(node, step)
        if isinstance(node, Branch):
            return self._branch(node, step)
        if isinstance(node, Matmul) and not _in_language(node):
            return self._matmul(node)
        if isinstance(node, Generate) and not node.shape and is_host_work(node.elements):
            return self._on_host(node)
        made = KernelStep(self, node, set(step.release))
        self.kernel_steps.append(made)
        return made

    def _on_host(self, node: Generate) -> Action:
        """Counters, predicates of loops: cheaper here than a launch."""
        params = self.host.param_index
        values = HostCompiler(self.slot_of, params, wrap=True).compile(node.elements)
        targets = [(self.planner.slots[o], o.type.numpy) for o in node.leaves]

        def act(slots: Slots, params: Params) -> None:
            for (slot, t), value in zip(targets, values(slots, params), strict=True):
                slots[slot] = np.array(value, t)

        return act

    def _library(self, node: Library) -> Action:
        sources = [self.planner.slots[a] for a in node.arguments]
        targets = [self.planner.slots[o] for o in node.leaves]
        types = [o.type.numpy for o in node.outputs]

        def act(slots: Slots, params: Params) -> None:
            result = node.operation.on("native")(*(slots[s] for s in sources))
            parts = result if isinstance(result, tuple) else (result,)
            for slot, part, t in zip(targets, parts, types, strict=True):
                slots[slot] = np.ascontiguousarray(np.asarray(part, t))

        return act

    def _matmul(self, node: Matmul) -> Action:
        from .products import product

        left = operand_view(self.host, self.planner.slots, node.left, (*node.batch, node.m, node.k))
        right = operand_view(
            self.host, self.planner.slots, node.right, (*node.batch, node.k, node.n)
        )
        slot = self.planner.slots[node.leaf()]
        t = node.left.type

        def act(slots: Slots, params: Params) -> None:
            result = product(left(slots, params), right(slots, params), t, node.options)
            slots[slot] = np.ascontiguousarray(result)

        return act

    def _loop(self, node: ArrayLoop, step: Step) -> Action:
        inner = self._actions(step.inner[0])
        results = step.inner[0].results
        state = [self.planner.slot(s.leaf()) for s in node.state]
        init = [self.planner.slots[i] for i in node.init]
        targets = [self.planner.slots[o] for o in node.leaves]
        index = None if node.index is None else self.planner.slot(node.index.leaf())
        count = None if node.count is None else self.host.compile((node.count,))

        def act(slots: Slots, params: Params) -> None:
            for s, i in zip(state, init, strict=True):
                slots[s] = dense(slots[i])
            limit = None if count is None else int(count(slots, params)[0])
            turn = 0
            while limit is None or turn < limit:
                if index is not None:
                    slots[index] = np.asarray(turn, np.int64)
                for one in inner:
                    one(slots, params)
                if node.predicate is not None and not slots[results[-1]][()]:
                    break
                following = [dense(slots[r]) for r in results[: len(state)]]
                for s, value in zip(state, following, strict=True):
                    slots[s] = value
                turn += 1
            for t, s in zip(targets, state, strict=True):
                slots[t] = slots[s]

        return act

    def _branch(self, node: Branch, step: Step) -> Action:
        predicate = self.host.compile((node.predicate,))
        sides = [(self._actions(p), p.results) for p in step.inner]
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


def dense(array: Any) -> Any:
    """The array as kernels expect what a program computed: row-major, without gaps."""
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def _in_language(node: Matmul) -> bool:
    """Whether a product runs as a kernel of ours: integers and booleans, or a fused epilogue."""
    plain = node.options.algorithm in ("auto", "standard")
    return node.epilogue != (node.result,) or (plain and not node.left.type.is_inexact)


def _release(slots_to_drop: list[int]) -> Action:
    drop = tuple(slots_to_drop)

    def act(slots: Slots, params: Params) -> None:
        for s in drop:
            slots[s] = None

    return act


def _copy_slots(pairs: list[tuple[int, int]]) -> Action:
    def act(slots: Slots, params: Params) -> None:
        for target, source in pairs:
            slots[target] = dense(slots[source])

    return act


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

    def view(values_slots: Slots, params: Params) -> Any:
        values = values_of(values_slots, params)
        array = values_slots[slot]
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
