"""A node specialised for the extents of a call: short folds become loops, short loops are unrolled.

A program is compiled for all extents.  If some of them are small, a kernel for just these extents
is much faster: the three coordinates of a point are three registers, the distance between two
points needs no array, and the weights of a stencil stay in registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from treadle.dsl.analysis.combines import SHORT_ROW, argument_of
from treadle.dsl.analysis.polynomial import affine_forms
from treadle.dsl.expr import Apply, Const, Expr, Extent, Index, Read, walk
from treadle.dsl.graph import (
    CrossedFolds,
    Fold,
    Generate,
    Leaf,
    Matmul,
    Node,
    Permute,
    is_identity_read,
    topological,
)
from treadle.dsl.passes.convolutions import contracted
from treadle.dsl.passes.rows import NARROW, most_narrow
from treadle.dsl.passes.short_folds import Short, deep_folds, few_gathered, length, short_folds
from treadle.skeletons.ir.specialise import MOST_ITERATIONS, computed, counting_extents, specialise
from treadle.skeletons.products.small import is_tall, is_wide, on_cpu, repeated

from ..runtime.run import HostValues, Run
from ..runtime.steps import NOTHING, PLAIN, Form, Forms
from .runtime.threads import thread_count

if TYPE_CHECKING:
    from treadle.dsl.program import TracedProgram
    from treadle.dsl.types import ScalarType

    from .executable import NativeExecutor

#: Short folds of elements smaller than four bytes, for which there are no gathers, are specialised
#: for rows of at most this many elements, which are strided loads.
MOST_SMALL = 4
#: The most operations of an unrolled loop, over all its iterations.  Longer ones run no faster than
#: a loop, and slow down LLVM's register allocation.
MOST_OPERATIONS = 512

#: An extent, the largest size that gets its own kernel, the operations of an iteration, the slot
#: and axis that hold its value, and the extents that must be constant for it to be constant.
_Count = tuple[Extent, int, int, int, int, frozenset[Extent]]


class NativeForms(Forms):
    """The forms of one node: folds that are loops, and extents that are constants."""

    def __init__(self, owner: NativeExecutor, node: Node) -> None:
        super().__init__(owner, node)
        self.owner = owner
        self._counting: dict[frozenset[Node], list[_Count]] = {}
        #: The extents m, k, n of a product, which are constants in the kernel for small ones.
        self._product: HostValues | None = None
        if isinstance(node, Matmul):
            self._product = HostValues(owner.host, (*node.batch, node.m, node.k, node.n))
            self._looped = repeated(node)
        if owner.program.settings.check:  # unrolling drops reads that checks test
            self._counting[NOTHING] = []

    @property
    def several(self) -> bool:
        return bool(self.inside) or self._product is not None or bool(self._counts(NOTHING))

    def known(self, run: Run[Any]) -> bool:
        if not super().known(run):
            return False
        if self._product is not None and not run.has(self._product.hosted.slots):
            return False
        return run.has({slot for _, _, _, slot, _, _ in self._counts(self.loops(run))})

    def form(self, run: Run[Any], loops: frozenset[Node]) -> Form:
        if self._product is not None and isinstance(self.node, Matmul):
            *batch, m, k, n = (int(v) for v in self._product(run))
            t, named = self.node.left.type, dict[Expr, int]()
            if by_kernel(t, (m, k, n), prod(batch), self._looped):
                named = {self.node.m: m, self.node.k: k, self.node.n: n}
            elif not batch and is_tall(t, m, n):
                named = {self.node.m: m, self.node.n: n}
            elif not batch and is_wide(t, m, k, n):
                named = {self.node.m: m}
            if named:
                constants = ((e, v) for e, v in named.items() if not isinstance(e, Const))
                return Form(loops, tuple(constants))
        sizes: list[tuple[Expr, int]] = []
        iterations = 1
        for extent, most, operations, slot, axis, inner in self._counts(loops):
            if not inner.issubset(e for e, _ in sizes):
                continue
            n = run.slots[slot].shape[axis]
            total = n * iterations
            if 0 < n <= most and total <= MOST_ITERATIONS and total * operations <= MOST_OPERATIONS:
                sizes.append((extent, n))
                iterations = total
        return Form(loops, tuple(sizes)) if loops or sizes else PLAIN

    def made(self, form: Form) -> Node:
        node = self.short.of(self.node, form.loops)
        return specialise(node, dict(form.sizes))

    def _counts(self, loops: frozenset[Node]) -> list[_Count]:
        found = self._counting.get(loops)
        if found is None:
            around = {self.short.reader.get(f) for f in loops}
            alone = MOST_SMALL if _reads_small(self.node) else SHORT_ROW
            most = {
                length(f): 0 if f in around else alone if f is self.node else SHORT_ROW
                for f in self.inside
            }  # fmt: skip
            made = self.short.of(self.node, loops)
            extents = counting_extents(made)
            narrow_extents = _narrow_extents(made)
            for narrow, limit in narrow_extents.items():
                if narrow not in extents:
                    extents[narrow], most[narrow] = 0, limit
            around_it = _around_narrow(made) if narrow_extents else {}
            for outer in around_it:
                if outer not in extents:
                    extents[outer], most[outer] = 0, NARROW
            found = [
                (e, most.get(e, MOST_ITERATIONS), operations, self.owner.slot_of(Leaf(e.node, 0)),
                 e.axis, around_it.get(e, frozenset()) if not operations else frozenset())
                for e, operations in extents.items()
            ]  # fmt: skip
            self._counting[loops] = found
        return found


def forms_of(program: TracedProgram) -> Short:
    """The folds that may become loops on a CPU, and the maps that few reads compute."""
    short = short_folds(program.roots, program.settings)
    takes = {
        fold: reader for fold, reader in short.reader.items()
        if _may_take(reader, short.of(reader, frozenset({fold})))
    }  # fmt: skip
    deep = deep_folds(program.roots, program.settings)
    across = {fold: where for fold, where in deep.deep.items() if _goes_across(fold)}
    alone: dict[Node, Generate] = {fold: deep.alone[fold] for fold in across}
    for node in topological(program.roots):
        if isinstance(node, CrossedFolds):  # its two folds have kernels of their own
            leaves = [leaf for fold in node.apart() for leaf in fold.leaves]
            alone |= short_folds(leaves, program.settings).alone
    few = few_gathered(program.roots, program.settings)
    for node, reader in few.reader.items():
        if _may_take(reader, few.of(reader, frozenset({node}))):
            alone[node], takes[node] = few.alone[node], reader
    return Short(short.alone | alone, takes, few.worth, across)


def by_kernel(t: ScalarType, sizes: Sequence[int], count: int, looped: bool = False) -> bool:
    """Whether the kernel for small products computes `count` products on this process's threads."""
    return on_cpu(t, sizes, count, looped, thread_count() if t.is_complex else 1)


def _goes_across(node: Node) -> bool:
    """Whether a fold adds rows to a vector of columns, is a product of matrices, or has windows at
    a distance, neighbours of which are columns."""
    from treadle.skeletons.lower.fold.rows import goes_across

    if not isinstance(node, Fold) or goes_across(node) or contracted(node) is not None:
        return isinstance(node, Fold)
    last, inner = (Index(len(axes) - 1) for axes in (node.outer, (*node.outer, *node.inner)))
    forms = affine_forms(node.elements)
    rows = [forms.get(e.args[-1]) for e in walk(node.elements) if isinstance(e, Read) and e.args]
    return any(f is not None and f.coefficient(last) > f.coefficient(inner) > 0 for f in rows)


def _reads_small(node: Node) -> bool:
    return any(isinstance(e, Read) and e.type.bytes < 4 for e in walk(computed(node)))


def _narrow_extents(node: Node) -> dict[Extent, int]:
    """Extents for which small values up to a limit get different code.

    For a `Generate`: the extent in the last extent of its results, if their rows do not coincide
    with the rows read and no stencil offset is along them; and the last extent of arrays of which
    neighbours in a row of results read different rows.  For a `Permute`: its last domain extent.
    """
    if isinstance(node, Permute) and node.domain and len(node.domain) > 1:
        last = node.domain[-1]
        return {last: NARROW} if isinstance(last, Extent) else {}
    if not isinstance(node, Generate) or not node.shape or node.label.ordered:
        return {}
    rank = len(node.shape)
    reads = [e for e in walk(node.elements) if isinstance(e, Read)]
    found: dict[Extent, int] = {}
    made_of = [e for e in walk(node.shape[-1:]) if not isinstance(e, Const | Apply)]
    in_lines = all(is_identity_read(e, rank) for e in reads)
    along_rows = all(e.boundary is None or e.args[-1] is Index(rank - 1) for e in reads)
    if rank > 1 and not in_lines and len(made_of) == 1 and along_rows:
        most = most_narrow(node.elements, rank)
        found.update((e, most) for e in made_of if isinstance(e, Extent))
    last = node.shape[-1]
    narrow = rank > 1 and isinstance(last, Const) and int(last.value) <= NARROW
    lanes = Index(rank - 2 if narrow else rank - 1)  # a vector spans several narrow rows
    for e in reads:
        width = e.node.outputs[e.component].shape[-1:]
        if len(e.args) > 1 and isinstance(width[0], Extent):
            across, along = (lanes in walk((a,)) for a in e.args[-2:])
            if across and not along:
                found.setdefault(width[0], NARROW)
    return found


def _around_narrow(node: Node) -> dict[Extent, frozenset[Extent]]:
    """The extents of a map's axes before the last, each with those of the axes after it: rows may
    span several axes if all of them are short."""
    found: dict[Extent, frozenset[Extent]] = {}
    if not isinstance(node, Generate):
        return found
    behind = frozenset[Extent]()
    for e in reversed(node.shape[1:]):
        own = {x for x in walk((e,)) if isinstance(x, Extent)}
        if behind and len(own) == 1 and not own & behind:
            found.update(dict.fromkeys(own, behind))
        behind |= own
    return found


def _may_take(reader: Node, made: Node) -> bool:
    """Whether a reader that inlines a fold (as `made`) keeps its bits and reads elements once."""
    if not isinstance(reader, Fold):
        return True
    from treadle.skeletons.lower.fold.rows import (  # a cached kernel does not need it
        goes_across,
        is_exact,
    )

    if argument_of(reader.combine) is not None:  # along rows, it searches the extreme's index
        return isinstance(made, Fold) and goes_across(made)
    # Stored results of several axes are contiguous; their blocks are not those of the axes.
    return len(reader.inner) == 1 or is_exact(reader.combine)


def fixed_direction(node: Node, made: Node) -> bool | None:
    """Whether a fold in another form reduces across rows, which decides the bits if it is inexact.
    None if the fold's own elements decide."""
    if not isinstance(node, Fold) or not isinstance(made, Fold) or node is made:
        return None
    from treadle.skeletons.lower.fold.rows import goes_across, is_exact

    return None if is_exact(node.combine) else goes_across(node)
