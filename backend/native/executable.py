"""`native` as a backend: programs on this machine's cores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from treadle.dsl.graph import CrossedFolds, Fold, Library, Matmul, Node
from treadle.dsl.passes.convolutions import contracted
from treadle.dsl.process.locks import cached
from treadle.dsl.program import TracedProgram
from treadle.dsl.target import NATIVE
from treadle.skeletons.linalg.small import has_kernel
from treadle.skeletons.store import processor

from ..runtime.executor import Executor
from ..runtime.steps import Action, LibraryStep
from .calls import ReplayedCalls
from .codegen.target import Target as CpuTarget
from .crossed import CrossedStep
from .forms import forms_of
from .loops import LoopStep
from .merged import Compiled
from .passes import loops_by_rows
from .recipe import repeated_places
from .runtime.replay import bits
from .runtime.threads import thread_count
from .steps import BranchStep, KernelStep

if TYPE_CHECKING:
    from treadle.dsl.operations.algebra.product_way import ProductWay
    from treadle.skeletons.ir.literals import Differences
    from treadle.skeletons.lower.lower import LoweringContext
    from treadle.skeletons.model.device import Ceilings


def describe_product(
    node: Matmul, size: tuple[int, int, int] | None, checked: bool = False, count: int = 1
) -> dict[str, str]:
    """How a product is computed, for `explain`; `size` is (m, k, n), if known; `count`: the number
    of products along leading axes.  Index checks do not affect it."""
    from .products import describe

    return describe(node, size, count)


def product_ways(node: Matmul, size: tuple[int, int, int]) -> list[ProductWay]:
    """Alternative ways to compute a product, for `tune`; `size` is (m, k, n)."""
    from .products import alternatives

    return alternatives(node, size)


def lowering(program: TracedProgram, node: Node) -> LoweringContext | None:
    """The context in which a node is lowered to kernels, None if a library computes it."""
    from treadle.skeletons.lower.lower import LoweringContext

    if isinstance(node, Library) and not has_kernel(node):
        return None
    if isinstance(node, Matmul) and not _in_language(node):
        return None
    return LoweringContext(threads=thread_count(), check=program.settings.check)


def remarks(program: TracedProgram) -> list[str]:
    """Which loops over arrays may run several iterations at a time, for `explain`."""
    return [
        f"The loop {loop.label}{'' if loop.where is None else f' at {loop.where.short()}'}: "
        "several iterations in a pass over the rows, if faster."
        for loop in loops_by_rows(program)
    ]


def source(program: TracedProgram, arch: str | None = None) -> str:
    """LLVM IR of every kernel, for this machine."""
    from .codegen.compile import llvm_ir

    kernels = cast(NativeExecutor, program.executable).kernel_steps
    text = "\n".join(llvm_ir(k) for s in kernels for k in cast(KernelStep, s).compiled())
    return text or "; no kernel: the host does everything in this program\n"


def vectors(node: Node, context: LoweringContext) -> list[str]:
    """How the loops of a node's kernels use SIMD lanes, for `explain`, if not in the usual way."""
    from treadle.skeletons.lower.lower import lower

    from .codegen import divergence

    found = (divergence.remarks(k, CpuTarget.host()) for k in lower(node, context).kernels)
    return list(dict.fromkeys(line for lines in found for line in lines))


def sizes(shipped: Ceilings) -> Ceilings:
    """The ceilings of this machine before any are measured."""
    lanes = CpuTarget.host().vector_bytes // 4
    return replace(shipped, name=processor() or shipped.name, lanes=lanes)


def crossovers(remeasure: bool) -> list[tuple[str, str]]:
    """The extent per type from which a fast algorithm computes products, and when it was measured;
    `remeasure`: measure now, and replace stored values."""
    from . import crossover

    if remeasure:
        for t in crossover.TYPES:
            crossover.remeasure(t)
    kept = crossover.known()
    return [
        (f"products of {t.name}", crossover.in_words(t, kept.get(t.name))) for t in crossover.TYPES
    ]


def executable(program: TracedProgram) -> NativeExecutor:
    """The program, ready to run."""
    return Executor(program, Cpu(program))


#: Converts NumPy scalars other than Python numbers to what replayed calls take.
other_numbers: dict[type, Callable[..., int | complex]] = {
    np.float16: bits,
    np.float32: bits,
    **{np.dtype(f"{sign}int{8 << k}").type: int for sign in ("", "u") for k in range(3)},
    np.uint64: int,
    np.complex64: complex,
}


class Cpu:
    """This machine's cores, as the `Device` of an executor."""

    folds = staticmethod(forms_of)
    loop_step = LoopStep
    branch_step = BranchStep
    calls = ReplayedCalls

    def __init__(self, program: TracedProgram) -> None:
        #: Source locations of several nodes, whose kernels may differ only in literals.
        self.repeated = repeated_places(program.roots)
        #: The nodes of loops that may run in passes over blocks of rows.
        self.by_rows = frozenset().union(*loops_by_rows(program).values())
        self.merged = Compiled()

    @cached
    def differences(self) -> Differences:
        """In which integers kernels have differed."""
        from treadle.skeletons.ir.literals import Differences

        return Differences()

    def kernel_step(
        self, owner: NativeExecutor, node: Node, expendable: frozenset[int] = frozenset()
    ) -> KernelStep:
        parts = None
        if isinstance(node, Fold) and len(node.inner) > 1 and not owner.program.settings.check:
            parts = None if node.label.deterministic else contracted(node)
        if isinstance(node, Fold) and parts is not None:
            from .products import ContractionStep

            return ContractionStep(owner, node, parts)
        if isinstance(node, CrossedFolds):
            return CrossedStep(owner, node)
        return KernelStep(owner, node, expendable)

    def product_step(self, owner: NativeExecutor, node: Matmul) -> Action:
        from .products import product_step

        kernels = KernelStep(owner, node) if _in_language(node) else None
        if kernels is not None:
            owner.kernel_steps.append(kernels)
        return product_step(owner, node, kernels)

    def library_step(self, owner: NativeExecutor, node: Library) -> Action:
        if has_kernel(node):
            made = KernelStep(owner, node)
            owner.kernel_steps.append(made)
            return made
        return LibraryStep(owner, node, node.operation.on(NATIVE.name))


NativeExecutor = Executor[Cpu]


def _in_language(node: Matmul) -> bool:
    """Whether a product runs as a treadle kernel for all extents: integers and booleans."""
    plain = node.options.algorithm in ("auto", "standard")
    return plain and not node.left.type.is_inexact
