"""The form of a node for the extents of a call: folds over tiles fuse the short folds they read,
and small products have kernels for their extents.

    argmin over j of Σₖ (x[i, k] − c[j, k])²: one kernel if rows of k are short and the pairs (i, j)
    fill tiles, else the sums are stored and read

Every kernel folds rows of fewer than 64 elements from the left (`lower/fold/gpu_short.py`), so
fusion does not change any bit of the result.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from treadle.dsl.expr import Const, Expr
from treadle.dsl.graph import Fold, Matmul, Node
from treadle.dsl.passes.short_folds import Short, short_folds
from treadle.dsl.program import TracedProgram
from treadle.dsl.target import CUDA
from treadle.skeletons.ir.specialise import specialise
from treadle.skeletons.lower.build import Builder, LoweringContext
from treadle.skeletons.lower.fold.gpu_jam import JammedFold, tiled
from treadle.skeletons.products.small import on_gpu

from ..runtime.run import HostValues, Run
from ..runtime.steps import Form, Forms

if TYPE_CHECKING:
    from .executable import CudaExecutor


class CudaForms(Forms):
    """The forms of one node: folds that are loops, and the extents of small products."""

    def __init__(self, owner: CudaExecutor, node: Node) -> None:
        super().__init__(owner, node)
        #: The extents m, k, n of a product; those that are constants in its kernel are symbols.
        self._extents: HostValues | None = None
        self._symbols: tuple[Expr, ...] = ()
        if isinstance(node, Matmul):
            self._symbols = (node.m, node.k, node.n)
            self._extents = HostValues(owner.host, (*node.batch, *self._symbols))

    @property
    def several(self) -> bool:
        return bool(self.inside) or self._extents is not None

    def form(self, run: Run[Any], loops: frozenset[Node]) -> Form:
        if self._extents is None:
            return super().form(run, loops)
        *batch, m, k, n = (int(v) for v in self._extents(run))
        if not on_gpu(self.node.per_element()[0].type, (m, k, n), prod(batch)):
            return super().form(run, loops)
        pairs = zip(self._symbols, (m, k, n), strict=True)
        return Form(loops, tuple((e, size) for e, size in pairs if not isinstance(e, Const)))

    def made(self, form: Form) -> Node:
        return specialise(super().made(form), dict(form.sizes))


def forms_of(program: TracedProgram) -> Short:
    """The folds of a program that may be fused as loops into a fold over tiles."""
    short = short_folds(program.roots, program.settings)
    takes = {
        fold: reader for fold, reader in short.reader.items()
        if reader not in short.reader and _may_take(reader, fold, short)
    }  # fmt: skip
    alone = {fold: short.alone[fold] for fold in takes}
    worth = {fold: tiled(reader) for fold, reader in takes.items() if isinstance(reader, Fold)}
    return Short(alone, takes, worth)


def _may_take(reader: Node, fold: Node, short: Short) -> bool:
    """Whether `reader` can become a fold over tiles with `fold` as its inner loop."""
    if not isinstance(reader, Fold) or not isinstance(fold, Fold):
        return False
    made = Short({fold: short.alone[fold]}, {fold: reader}).of(reader, frozenset({fold}))
    if not isinstance(made, Fold):
        return False
    return JammedFold.of(Builder(made, LoweringContext(CUDA)), made) is not None
