"""Fold: reductions, in blocks whose size depends only on the extents.

    blocks     tasks over (row, block): the partial result of one block of the inner axes
    combine    tasks over rows: partial results in order, `init` on the left, epilogue

When the inner axes are a single block, the first kernel finishes the row itself and the second
has no tasks.  Three shapes of the first kernel:

    along      the inner axis is contiguous, the operator commutes: `Reduce` along it
    lanes      any other operator: a vector of blocks, one per lane, each folded in order
    across     the last outer axis is contiguous (sums over axis 0), or its stride is smaller than
               that of the inner axis: a vector of columns

The CPU versions are in `cpu.py`.  All of them fold rows of fewer than `SHORT_ROW` elements in
sequence.  If the extents are compile-time constants, such rows become loops inside other kernels
(`dsl/passes/short_folds.py`).

A schedule numbers the parts that the tasks of the first kernel compute (`../visits.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from treadle.dsl.analysis.combines import argument_of, identities, independent_parts, is_commutative
from treadle.dsl.analysis.polynomial import affine_forms, variables
from treadle.dsl.expr import Apply, Expr, Index, Read, Var, substitute, walk
from treadle.dsl.graph import Combine, Fold, FoldSeg, Leaf, StoringFold
from treadle.dsl.records import dataclass

from ...ir import arithmetic as at
from ...ir.kernel import Buffer, Kernel
from ...ir.linearize import Linearizer
from .. import transform
from ..build import Builder
from ..combining import Values, apply_combine, assign, declare, put, store_group
from .traversals import ACROSS_STEP

#: The position at which a result is stored, from its coordinates.
Place = Callable[[Sequence[Expr]], Expr]


def goes_across(node: Fold, builder: Builder | None = None) -> bool:
    """Whether a CPU fold vectorises across columns."""
    return runs_across(node, builder) or gathers_less_across(node)


def runs_across(node: Fold, builder: Builder | None = None) -> bool:
    """Whether reads are contiguous along the last outer axis and not along the last inner one.
    Arrays count as dense, or have the layout known to `builder` unless the grouping is pinned.

    The decision counts the reads that the other strategy would turn into gathers.  A read that does
    not follow the other axis, such as `x[k]` for all `j`, is uniform there; such reads only break
    ties.
    """
    ro, ri = len(node.outer), len(node.inner)
    if ro == 0 or ri == 0:
        return False
    outer, inner = Index(ro - 1), Index(ro + ri - 1)
    forms = affine_forms(node.elements)
    scattered = alike = 0
    known = None if is_pinned(node) else builder
    for e in walk(node.elements):
        if not isinstance(e, Read) or not e.args:
            continue
        row = None if known is None else known.row_axis(Leaf(e.node, e.component))
        form = forms.get(e.args[-1 if row is None else row])
        if form is None:
            continue
        if form.coefficient(outer) == form.coefficient(inner) == 1 and _is_window(node, e):
            alike -= 1
            continue
        for here, there, sign in ((outer, inner, 1), (inner, outer, -1)):
            if form.coefficient(here) == 1:
                if there in walk(e.args):
                    scattered += sign
                else:
                    alike += sign
                break
    return (scattered, alike) > (0, 0)


def _is_window(node: Fold, read: Read) -> bool:
    """Whether the last outer axis is along a window of an array, and the last inner one along all
    windows, whose number is computed from its extent."""
    own = {Leaf(read.node, read.component).shape[-1]}
    along, windows = (own & {*walk((e,))} for e in (node.outer[-1], node.inner[-1]))
    return bool(windows) and not along


def shares_elements(node: Fold | FoldSeg) -> bool:
    """Whether each row reads elements of arrays that the next one reads, too: windows of an array,
    or the same elements."""
    ro, forms = len(node.outer), affine_forms(node.elements)
    moving = [
        e for e in walk(node.elements)
        if isinstance(e, Read) and any(isinstance(i, Index) and i.axis >= ro for i in walk(e.args))
    ]  # fmt: skip
    last = Index(ro - 1)

    def stays(i: Expr) -> bool:
        form = forms.get(i)
        return last not in walk((i,)) or (
            form is not None
            and form.coefficient(last) == 1
            and any(
                isinstance(v, Index) and v.axis >= ro and c == 1 for v, c in variables(form).items()
            )
        )

    return ro > 0 and bool(moving) and all(stays(i) for e in moving for i in e.args)


def gathers_less_across(node: Fold) -> bool:
    """Whether lanes along the inner axis would gather values that are uniform for lanes along the
    outer one: `p[k, 0]`, `p[k, 1]` for all `i`, as in sums over all pairs of points.

    The values that outer lanes gather, `p[i, 0]`, are reused for ACROSS_STEP rows.
    """
    ro, ri = len(node.outer), len(node.inner)
    if ro == 0 or ri == 0:
        return False
    outer, inner = Index(ro - 1), Index(ro + ri - 1)
    forms = affine_forms(node.elements)
    along = across = 0
    for e in walk(node.elements):
        if not isinstance(e, Read) or not e.args:
            continue
        used, form = set(walk(e.args)), forms.get(e.args[-1])
        if outer in used and inner in used:
            return False
        across += outer in used
        along += inner in used and (form is None or form.coefficient(inner) != 1)
    return along * ACROSS_STEP > across


def is_pinned(node: Fold | FoldSeg) -> bool:
    """Whether elements are grouped by their index, whatever the memory layout, as
    `deterministic=True` requires.  Both strategies then fold blocks of LANE_BLOCK elements one by
    one."""
    return node.label.deterministic and not is_exact(node.combine)


def is_exact(combine: Combine) -> bool:
    """Whether results are bitwise independent of how elements are grouped."""
    return all(_is_exact(one) for _, one in independent_parts(combine))


def _is_exact(combine: Combine) -> bool:
    if argument_of(combine) is not None or not any(r.type.is_inexact for r in combine.results):
        return True
    rounds = ("add", "multiply")
    return is_commutative(combine) and not any(
        isinstance(r, Apply) and r.op.name in rounds and r.type.is_inexact for r in combine.results
    )


@dataclass(frozen=True)
class Kept:
    """The arrays that a fold stores besides its results: `values` over the axes of its domain."""

    node: StoringFold

    @property
    def count(self) -> int:
        """The number of folded values of an element, which precede the kept ones."""
        return len(self.node.elements)

    def elements(self) -> tuple[Expr, ...]:
        """The values to fold, then the values to store."""
        values: dict[Expr, Expr] = dict(zip(self.node.names, self.node.kept, strict=False))
        return (*substitute(self.node.elements, values), *self.node.kept)

    def buffers(self, builder: Builder) -> tuple[Buffer, ...]:
        return builder.outputs()[len(self.node.epilogue) :]

    def where(self, into: Linearizer, builder: Builder, position: Expr | None = None) -> Expr:
        """The position at which the element at this scope's indices is stored; `position`, if
        given, replaces the indices along all folded axes."""
        node = self.node
        if position is not None:
            outer = [into.value(Index(k)) for k in range(len(node.outer))]
            extents = builder.shape((*node.outer, at.product(node.inner)))
            return into.let(at.linear((*outer, position), extents), "there")
        index = [into.value(Index(k)) for k in node.order]
        return into.let(at.linear(index, builder.shape(node.stored_shape)), "there")

    def store(self, into: Linearizer, builder: Builder, where: Expr, values: Sequence[Values]
              ) -> list[Values]:  # fmt: skip
        """Store the kept values of neighbouring elements; returns the values to fold."""
        store_group(into, self.buffers(builder), where, [v[self.count :] for v in values])
        return [v[: self.count] for v in values]

    @property
    def in_order(self) -> bool:
        """Whether the elements of a row are stored in order."""
        return self.node.order == tuple(range(len(self.node.order)))


class RowFold:
    """The base of all fold strategies: the outer coordinates and the end of a row."""

    #: The position of a result, if the axes are not in the order of the result.
    place: Place | None = None
    #: The partial results of rows of several parts.
    scratch: tuple[Buffer, ...] = ()
    #: Whether stored results are used again.
    named = False

    def __init__(self, builder: Builder, node: Fold | FoldSeg, outer: tuple[Expr, ...]) -> None:
        self.builder, self.node = builder, node
        self.combine, self.outer = node.combine, outer
        self.outs = builder.outputs()[: len(node.epilogue)]
        self.epilogue = transform.resolve(node.epilogue, builder, outer)
        self.extents = builder.shape(outer)

    def finish(self, into: Linearizer, coordinates: Sequence[Expr], total: Sequence[Expr],
               count: Expr) -> tuple[Expr, ...]:  # fmt: skip
        """Combine `init` with a row's `total` over `count` elements, apply the epilogue and store.
        Returns the stored values."""
        with into.when_always({Index(k): c for k, c in enumerate(coordinates)}):
            result = tuple(total)
            if self.node.init is not None:
                init = into.emit(self.node.init, named=True)
                if identities(self.combine) is not None:
                    result = apply_combine(into, self.combine, init, total)
                else:
                    chosen = declare(into, init, "result")
                    with into.when(at.less(0, count)):
                        made = apply_combine(into, self.combine, init, total, named=False)
                        made = tuple(into.let(m, "r") for m in made)
                        assign(into, chosen, made)
                    result = chosen
            into.bind(dict(zip(self.node.results, result, strict=True)))
            stored = into.emit(self.epilogue, named=self.named)
            if self.place is None:
                where = at.linear(coordinates, self.extents)
            else:
                where = self.place(coordinates)
            put(into, self.outs, where, stored)
        return stored

    def finish_or_keep(self, into: Linearizer, coordinates: Sequence[Expr], total: Sequence[Expr],
                       count: Expr, parts: Expr, where: Expr) -> None:  # fmt: skip
        """Finish a row of one part; otherwise store the part's `total` in `scratch`."""
        if not self.scratch:
            self.finish(into, coordinates, total, count)
            return
        alone = at.equal(parts, 1)
        with into.when(alone):
            self.finish(into, coordinates, total, count)
        with into.otherwise(alone):
            put(into, self.scratch, where, total)

    def partials(self, size: Expr) -> tuple[Buffer, ...]:
        types = [r.type for r in self.combine.results]
        return self.builder.scratch("partial", types, size)

    def kernel(self, suffix: str, tasks: Expr, task: Var, into: Linearizer, comment: str,
               **gpu: Any) -> Kernel:  # fmt: skip
        return self.builder.kernel(suffix, tasks, task, tuple(into.out), comments=(comment,), **gpu)
