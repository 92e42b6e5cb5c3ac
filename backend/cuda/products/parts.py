"""Steps of a program that compute products, with separate kernels for some of their parts.

    (2*a + 1) @ map(f, b)      operands computed while tiles are loaded, or before the product
    relu(strassen(a, b) + c)   an epilogue in the last product added to a block, or after

`choice.decide` decides this once the extents are known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from treadle.dsl.expr import Index, Read
from treadle.dsl.graph import Fold, FoldedMatmul, Generate, Leaf, Matmul, StoringFold, StoringMatmul
from treadle.dsl.process.recent import Recent
from treadle.skeletons.products import algorithm_of
from treadle.skeletons.products.elements import without_epilogue

from ...runtime.run import HostValues
from ..running import DeviceRun
from ..steps import KernelStep
from .choice import (
    ENGINE,
    EPILOGUE,
    LEFT,
    LIBRARY,
    RIGHT,
    ROWS,
    STORED,
    Decision,
    decide,
    dense_scattered,
)
from .engine import engine_for
from .form import form_of
from .fused import pieces_of
from .library import Product
from .step import Launcher, Leaves
from .ways import refused

if TYPE_CHECKING:
    from ..executable import CudaExecutor

Action = Callable[[DeviceRun], None]
#: Decisions cached by a step.
KEPT = 256


def product_step(owner: CudaExecutor, node: Matmul) -> Action:
    """The step of a product."""
    t = node.left.type
    named = algorithm_of(node.options.algorithm) is not None and node.options.levels
    if t.family == "bool" or not (named or t.is_inexact or form_of(t)):  # no alternatives
        kernels = KernelStep(owner, node)
        owner.kernel_steps.append(kernels)
        return kernels
    return ProductStep(owner, node)


class ProductStep:
    """One `Matmul` (see the module docstring)."""

    def __init__(self, owner: CudaExecutor, node: Matmul) -> None:
        self.owner, self.node = owner, node
        self.engine = engine_for(owner.device)
        form = None if self.engine is None else form_of(
            node.left.type, options=node.options, arch=self.engine.device.arch)  # fmt: skip
        error = refused(node, form)
        if error is not None:
            raise error
        self.extents = HostValues(owner.host, (*node.batch, node.m, node.k, node.n))
        self.decisions = Recent[Any, Decision](KEPT)  # extents may change in every iteration
        self.steps: dict[Any, Steps] = {}

    def __call__(self, run: DeviceRun) -> None:
        size = tuple(max(int(v), 0) for v in self.extents(run))
        scattered = None
        while True:
            decision = self._decision(size, scattered)
            steps = self._steps(decision)
            found = steps.scattered(run)
            if not found:
                break
            scattered = found | (dense_scattered(self.node) if scattered is None else scattered)
        steps(run, size, decision)

    def _decision(self, size: tuple[int, ...], scattered: frozenset[str] | None) -> Decision:
        found = self.decisions.get((size, scattered))
        if found is None:
            m, k, n = size[-3:]
            found = self.decisions[size, scattered] = decide(
                self.engine, self.node, (m, k, n), processors=self.owner.device.multiprocessors,
                checked=self.owner.program.settings.check, scattered=scattered,
                count=prod(size[:-3]),
            )  # fmt: skip
        return found

    def _steps(self, decision: Decision) -> Steps:
        key = decision.by, decision.separate
        if key not in self.steps:
            self.steps[key] = Steps(self, *key)
        return self.steps[key]


class Steps:
    """A product by one of `choice`'s alternatives, with kernels for its separate parts."""

    def __init__(self, step: ProductStep, by: str, separate: frozenset[str]) -> None:
        owner, node, engine = step.owner, step.node, step.engine
        self.owner, planner = owner, owner.planner
        made = separated(node, separate)
        before, inner, after = made.before, made.product, made.after
        used = (leaf for n in (*before, inner) for leaf in n.leaves)
        self.spent = [planner.slot(leaf) for leaf in used if leaf not in made.results]
        for leaf, own in zip(made.results, node.leaves, strict=True):
            planner.slots[leaf] = planner.slots[own]
        self.before = [KernelStep(owner, n) for n in before]
        self.launcher: Launcher | None = None
        self.product: Action | None = None
        if by == ENGINE:
            pieces = pieces_of(owner, inner)
            assert engine is not None and pieces is not None
            self.launcher = Launcher(owner, inner, engine, pieces)
        elif by == LIBRARY:
            leaves = None if engine is None or form_of(
                node.left.type, arch=engine.device.arch) is None else (
                Leaves(engine, node.left.type, node.options))  # fmt: skip
            self.product = Product(owner, inner, leaves)
        else:
            self.product = KernelStep(owner, inner)
        self.after = [] if after is None else [KernelStep(owner, after)]

    def scattered(self, run: DeviceRun) -> frozenset[str]:
        """Fused operands whose arrays are contiguous along different indices in this run."""
        if self.launcher is None:
            return frozenset()
        sides = zip((LEFT, RIGHT), self.launcher.alike(run), strict=True)
        return frozenset(name for name, alike in sides if not alike)

    def __call__(self, run: DeviceRun, size: Sequence[int], decision: Decision) -> None:
        self.owner.add_tables(run)
        for act in self.before:
            act(run)
        if self.product is not None:
            self.product(run)
        else:
            assert self.launcher is not None
            assert decision.form is not None and decision.way is not None
            given = self.launcher.given(run)
            self.launcher(run, given, size, decision.form, decision.way)
        for act in self.after:
            act(run)
        for slot in self.spent:
            run.slots[slot] = None


class Separated(NamedTuple):
    """Kernels before and after the rest of a product, and what has the results of the whole."""

    before: list[Generate | StoringFold]
    product: Matmul
    after: Fold | Generate | None
    results: tuple[Leaf, ...]


def separated(node: Matmul, parts: frozenset[str]) -> Separated:
    """The product without these parts."""
    before, inner = list[Generate | StoringFold](), node
    if STORED in parts and isinstance(inner, StoringMatmul):
        storing, inner = inner.apart()
        before.append(storing)
    here = tuple(Index(axis) for axis in range(len(node.batch) + 2))
    for name, shape in ((LEFT, (node.m, node.k)), (RIGHT, (node.k, node.n))):
        if name in parts:
            e = node.left if name == LEFT else node.right
            made = Generate((*node.batch, *shape), (e,), label=node.label, where=node.where)
            before.append(made)
            inner = inner.with_(**{name.split()[0]: Read(made, 0, here)})
    if ROWS in parts and isinstance(inner, FoldedMatmul):
        product, fold = inner.apart()
        stored = product.leaves[: len(node.epilogue)]
        return Separated(before, product, fold, (*fold.leaves, *stored))
    if EPILOGUE in parts:
        inner, after = without_epilogue(inner)
        return Separated(before, inner, after, after.leaves)
    kept = before[0].leaves if STORED in parts else ()
    return Separated(before, inner, None, (*kept, *inner.leaves))
