"""A program on a device: its plan as steps, each a function of a run.

The parts common to all devices are here: slots, checks, branches, host expressions, the order of
steps.  The device provides the steps of kernels, products, libraries and loops, and decides how
calls are made: directly, or recorded and replayed (`Device`).  The memory, copies and fills that
running steps need are in the interface of `Run`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

import numpy as np

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
from treadle.dsl.graphs.relations import limit_of
from treadle.dsl.passes.short_folds import Short
from treadle.dsl.program import TracedProgram

from . import steps
from .host import HostCompiler, is_host_work
from .plan import Plan, Planner, Step, data_checks
from .run import HostValues, Params, Run, Slots
from .steps import verify
from .types import HostArray

if TYPE_CHECKING:
    from .plan import Step
    from .steps import Action, AnyKernelStep


class Device(Protocol):
    """A kind of machine that computes nodes; each backend implements it."""

    def folds(self, program: TracedProgram) -> Short:
        """The folds of a program that may become loops if their rows are short."""

    def kernel_step(
        self, owner: Executor[Any], node: Node, expendable: frozenset[int] = frozenset()
    ) -> AnyKernelStep:
        """The step of a compiled node; it may overwrite the arrays in `expendable` slots."""

    def product_step(self, owner: Executor[Any], node: Matmul) -> Action:
        """The step of a matrix product."""

    def library_step(self, owner: Executor[Any], node: Library) -> Action:
        """The step of an operation that a library performs, or of a user's function."""

    def loop_step(self, owner: Executor[Any], node: ArrayLoop, step: Step) -> Action:
        """The step of a loop over arrays."""

    def branch_step(self, owner: Executor[Any], node: Branch, step: Step) -> Action:
        """The step of a branch over arrays."""

    def calls(self, owner: Executor[Any]) -> Calls:
        """The object that makes the calls of a program."""


class Executable(Protocol):
    """A program that a backend can run."""

    def __call__(self, data: Sequence[Any], params: Params) -> list[Any]:
        """One array per root, for the data of the inputs and the parameters.  Results alias neither
        inputs nor each other."""

    def replay(
        self, args: Sequence[Any], data: Sequence[Any], params: Params
    ) -> Callable[..., Any] | None:
        """A function for further calls like the one just made, or None if there is none (yet).  It
        returns the results, one array or a tuple, or None for a call unlike any recorded one.

        `args` are arrays and Python numbers as the user passed them; `data` and `params` are the
        same arguments separated (`data` includes captured arrays).
        """


class Calls(Executable, Protocol):
    """Makes the calls of one program, and replays recorded calls."""


D = TypeVar("D", bound=Device)


class Executor(Generic[D]):
    """A compiled program: call it with the data of its inputs and parameters."""

    def __init__(self, program: TracedProgram, device: D) -> None:
        self.program, self.device = program, device
        self.short = device.folds(program)
        self.planner = Planner(
            program.roots, program.inputs, self.short.inside, program.settings.check
        )
        self.tables: list[tuple[int, HostArray]] = []
        #: A weak reference for the parts: a reference cycle would keep the executor and its data
        #: alive until Python's cycle collector runs.
        self.owner = owner = cast(Executor[D], weakref.proxy(self))
        self.host = HostCompiler(
            lambda leaf: owner.slot_of(leaf), {p: k for k, p in enumerate(program.params)}
        )
        checks = self.planner.plan.checks
        self.limits = [
            (c, HostValues(self.host, (c.left, c.right))) for c in checks if limit_of(c) is not None
        ]
        self.checks = [c for c in checks if limit_of(c) is None]
        self.sides = HostValues(self.host, [e for c in self.checks for e in (c.left, c.right)])
        self.kernel_steps: list[steps.AnyKernelStep] = []
        self.actions = self.actions_of(self.planner.plan)
        self.results = self.planner.plan.results
        self.calls = device.calls(owner)

    def __call__(self, data: Sequence[Any], params: Params) -> list[Any]:
        return self.calls(data, params)

    def replay(
        self, args: Sequence[Any], data: Sequence[Any], params: Params
    ) -> Callable[..., Any] | None:
        return self.calls.replay(args, data, params)

    # --- a run ---

    def work(self, run: Run[Any]) -> None:
        self.verify(run)
        for act in self.actions:
            act(run)

    def verify(self, run: Run[Any]) -> None:
        """Raise an error if the extents or parameters of a run are invalid."""
        if self.checks:
            sides = self.sides(run)
            if sides[::2] != sides[1::2]:  # or a relation other than equality
                for k, check in enumerate(self.checks):
                    verify(check, *sides[2 * k : 2 * k + 2])
        for check, values in self.limits:
            verify(check, *values(run, shapes=False))
            run.repeat(check, values)

    def slots(self, arrays: Sequence[Any]) -> Slots:
        """The slots of a run, with the inputs and the arrays of schedules in place."""
        slots = [*arrays, *([None] * (self.planner.count - len(arrays)))]
        for slot, table in self.tables:
            slots[slot] = table
        return slots

    def slot_of(self, leaf: Leaf) -> int:
        """The slot of a leaf; an array of a schedule gets one when first requested."""
        found = self.planner.slots.get(leaf)
        if found is None:
            assert isinstance(leaf.node, Input) and leaf.node.source is not None, leaf
            found = self.planner.slot(leaf)
            self.tables.append((found, np.ascontiguousarray(leaf.node.source)))
        return found

    def add_tables(self, run: Run[Any]) -> None:
        """Add arrays of schedules to a run that lowering requested since the run began."""
        missing = self.planner.count - len(run.slots)
        if missing > 0:
            run.slots += [None] * missing
            for slot, table in self.tables:
                if run.slots[slot] is None:
                    run.slots[slot] = table

    # --- steps ---

    def actions_of(self, plan: Plan) -> list[steps.Action]:
        actions: list[steps.Action] = []
        for step in plan.steps:
            actions += [steps.CheckStep(self.owner, check) for check in data_checks(step.node)]
            actions.append(self._action(step))
            if step.release:
                actions.append(steps.ReleaseStep(step.release))
        return actions

    def _action(self, step: Step) -> steps.Action:
        node, owner, device = step.node, self.owner, self.device
        match node:
            case Barrier():
                slots = self.planner.slots
                pairs = zip(node.leaves, node.arguments, strict=True)
                return steps.BarrierStep([(slots[o], slots[a]) for o, a in pairs])
            case Library():
                return device.library_step(owner, node)
            case ArrayLoop():
                return device.loop_step(owner, node, step)
            case Branch():
                return device.branch_step(owner, node, step)
            case Matmul():
                return device.product_step(owner, node)
            case Generate() if not node.shape and is_host_work(node.elements):
                return steps.HostStep(owner, node)
        made = device.kernel_step(owner, node, self.planner.expendable(step))
        self.kernel_steps.append(made)
        return steps.moving(made)
