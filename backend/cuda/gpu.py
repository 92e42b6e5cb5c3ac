"""How nodes run on a GPU: the part that all `Device`s of this backend share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.dsl.graph import ArrayLoop, Branch, Library, Matmul, Node
from treadle.dsl.passes.short_folds import Short
from treadle.dsl.program import TracedProgram
from treadle.skeletons.linalg.small import has_kernel

from ..runtime.plan import Step
from ..runtime.steps import Action, BranchStep
from .calls import RecordedCalls
from .forms import forms_of
from .libraries import library
from .loops import LoopStep
from .products.parts import product_step
from .steps import KernelStep

if TYPE_CHECKING:
    from .executable import CudaExecutor


class Gpu:
    """Steps and calls, for a device that has memory and launches kernels."""

    def folds(self, program: TracedProgram) -> Short:
        return forms_of(program)

    def kernel_step(
        self, owner: CudaExecutor, node: Node, expendable: frozenset[int] = frozenset()
    ) -> KernelStep:
        return KernelStep(owner, node, expendable)

    def product_step(self, owner: CudaExecutor, node: Matmul) -> Action:
        return product_step(owner, node)

    def library_step(self, owner: CudaExecutor, node: Library) -> Action:
        if has_kernel(node):
            made = KernelStep(owner, node)
            owner.kernel_steps.append(made)
            return made
        return library(owner, node)

    def loop_step(self, owner: CudaExecutor, node: ArrayLoop, step: Step) -> Action:
        return LoopStep(owner, node, step)

    def branch_step(self, owner: CudaExecutor, node: Branch, step: Step) -> Action:
        return BranchStep(owner, node, step)

    def calls(self, owner: CudaExecutor) -> RecordedCalls:
        return RecordedCalls(owner)
