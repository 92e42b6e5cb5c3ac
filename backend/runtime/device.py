"""The interface of devices: they make the steps of nodes, and make and repeat calls.

Memory, copies and fills, which steps need while they run, are in the interface of `Run`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from treadle.dsl.graph import ArrayLoop, Branch, Library, Matmul, Node
from treadle.dsl.passes.short_folds import Short
from treadle.dsl.program import TracedProgram

from .run import Params

if TYPE_CHECKING:
    from .executor import Executor
    from .plan import Step
    from .steps import Action, AnyKernelStep


class Device(Protocol):
    """A machine that computes nodes."""

    def folds(self, program: TracedProgram) -> Short:
        """The folds of a program that may become loops if their rows are short."""

    def kernel_step(
        self, owner: Executor[Any], node: Node, expendable: frozenset[int] = frozenset()
    ) -> AnyKernelStep:
        """The step of a compiled node; it may overwrite the arrays in `expendable` slots."""

    def product_step(self, owner: Executor[Any], node: Matmul) -> Action:
        """The step of a matrix product."""

    def library_step(self, owner: Executor[Any], node: Library) -> Action:
        """The step of an operation that a library performs, or a function of the user's."""

    def loop_step(self, owner: Executor[Any], node: ArrayLoop, step: Step) -> Action:
        """The step of a loop over arrays."""

    def branch_step(self, owner: Executor[Any], node: Branch, step: Step) -> Action:
        """The step of a branch over arrays."""

    def calls(self, owner: Executor[Any]) -> Calls:
        """The object that makes the calls of a program."""


class Executable(Protocol):
    """A program that a backend can run."""

    def __call__(self, data: Sequence[Any], params: Params) -> list[Any]:
        """One array per root, for the data of its inputs and its parameters; results never alias
        inputs nor each other."""

    def replay(
        self, args: Sequence[Any], data: Sequence[Any], params: Params
    ) -> Callable[..., Any] | None:
        """A function for calls like one that was just made: its results, one array or a tuple, or
        None if a call is not like any that was recorded.  None: there is no such function (yet).

        `args` are arrays and Python numbers as the user passed them; `data` and `params` are the
        same arguments separated (`data` includes captured arrays)."""


class Calls(Executable, Protocol):
    """Makes the calls of one program, and repeats recorded calls."""
