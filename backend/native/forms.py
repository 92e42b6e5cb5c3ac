"""What a node is for the extents of a call: folds of short rows are loops, short loops written out.

A program is compiled for all extents.  Where a few of them are small, a kernel for these is much
better than one for all: the three coordinates of a point are three registers, the distance between
two points is no array, and the weights of a stencil stay where they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from treadle.dsl.combines import SHORT_ROW, argument_of
from treadle.dsl.expr import Apply, Const, Extent, Index, Read, walk
from treadle.dsl.graph import Fold, Generate, Leaf, Node, Permute, is_identity_read
from treadle.dsl.passes.short_folds import Short, length, short_folds
from treadle.skeletons.ir.specialise import MOST_TURNS, computed, counting_extents, specialise

from ..runtime.forms import NOTHING, PLAIN, Form, Forms
from ..runtime.run import Run

if TYPE_CHECKING:
    from treadle.dsl.program import TracedProgram

    from .executable import NativeExecutor

#: Rows of short folds have kernels of their own, whose loads are shuffled and asked for once; of
#: elements below four bytes, which are not gathered, up to as many as are loaded by strides.
MOST_SMALL = 4
#: Rows of results of at most so many elements lie side by side in vectors.
NARROW = 8


class NativeForms(Forms):
    """The forms of one node of a program: loops, and extents that a kernel is made for."""

    def __init__(self, owner: NativeExecutor, node: Node) -> None:
        super().__init__(owner, node)
        self.owner = owner
        self._counting: dict[frozenset[Node], list[tuple[Extent, int, int, int]]] = {}
        if owner.program.settings.check:  # loops written out leave what only earlier turns read
            self._counting[NOTHING] = []

    @property
    def several(self) -> bool:
        """Whether extents decide."""
        return bool(self.inside) or bool(self._counts(NOTHING))

    def form(self, run: Run[Any], loops: frozenset[Node]) -> Form:
        sizes: list[tuple[Extent, int]] = []
        turns = 1
        for extent, most, slot, axis in self._counts(loops):
            n = run.slots[slot].shape[axis]
            if 0 < n <= most and n * turns <= MOST_TURNS:
                sizes.append((extent, n))
                turns *= n
        return Form(loops, tuple(sizes)) if loops or sizes else PLAIN

    def made(self, form: Form) -> Node:
        node = self.short.of(self.node, form.loops)
        return specialise(node, dict(form.sizes))

    def _counts(self, loops: frozenset[Node]) -> list[tuple[Extent, int, int, int]]:
        """The extents that loops count with, up to which size a kernel is made for each, and where
        they are: slot and axis."""
        found = self._counting.get(loops)
        if found is None:
            around = {self.short.reader.get(f) for f in loops}
            alone = MOST_SMALL if _reads_small(self.node) else SHORT_ROW
            most = {
                length(f): 0 if f in around else alone if f is self.node else SHORT_ROW
                for f in self.inside
            }  # fmt: skip
            extents = counting_extents(self.short.of(self.node, loops))
            made = self.short.of(self.node, loops)
            for narrow in _narrow_extents(made):
                if narrow not in extents:
                    extents, most[narrow] = (*extents, narrow), NARROW
            found = [
                (e, most.get(e, MOST_TURNS), self.owner.slot_of(Leaf(e.node, 0)), e.axis)
                for e in extents
            ]  # fmt: skip
            self._counting[loops] = found
        return found


def forms_of(program: TracedProgram) -> Short:
    """The folds of a program that may be loops on a CPU."""
    short = short_folds(program.roots, program.settings)
    takes = {
        fold: reader for fold, reader in short.reader.items()
        if _may_take(reader, short.of(reader, frozenset({fold})))
    }  # fmt: skip
    return Short(short.alone, takes)


def _reads_small(node: Node) -> bool:
    """Whether elements of fewer than four bytes are read."""
    return any(isinstance(e, Read) and e.type.bytes < 4 for e in walk(computed(node)))


def _narrow_extents(node: Node) -> list[Extent]:
    """Extents of a `Generate` for which, where they are small, there is other code: what the last
    of its results is, or is made of, if their rows are not one line with those read and no offset
    of a stencil is along them; and rows of which neighbours in a row of results read one element.
    Of a `Permute` the last of its source.
    """
    if isinstance(node, Permute) and node.domain and len(node.domain) > 1:
        last = node.domain[-1]
        return [last] if isinstance(last, Extent) else []
    if not isinstance(node, Generate) or not node.shape or node.label.ordered:
        return []
    rank = len(node.shape)
    reads = [e for e in walk(node.elements) if isinstance(e, Read)]
    found: dict[Extent, None] = {}
    made_of = [e for e in walk(node.shape[-1:]) if not isinstance(e, Const | Apply)]
    in_lines = all(is_identity_read(e, rank) for e in reads)
    beside = all(e.boundary is None or e.args[-1] is Index(rank - 1) for e in reads)
    if rank > 1 and not in_lines and len(made_of) == 1 and beside:
        found.update((e, None) for e in made_of if isinstance(e, Extent))
    last = node.shape[-1]
    narrow = rank > 1 and isinstance(last, Const) and int(last.value) <= NARROW
    lanes = Index(rank - 2 if narrow else rank - 1)  # narrow rows lie side by side
    for e in reads:
        width = e.node.outputs[e.component].shape[-1:]
        if len(e.args) > 1 and isinstance(width[0], Extent):
            across, along = (lanes in walk((a,)) for a in e.args[-2:])
            if across and not along:
                found[width[0]] = None
    return list(found)


def _may_take(reader: Node, made: Node) -> bool:
    """Whether a reader, `made` when it takes a fold in, keeps its bits and reads elements once."""
    if not isinstance(reader, Fold):
        return True
    from treadle.skeletons.lower.fold.rows import (  # a kernel that is found needs no more
        goes_across,
        is_exact,
    )

    if argument_of(reader.combine) is not None:  # along rows, it looks for the extreme's place
        return isinstance(made, Fold) and goes_across(made)
    # Stored results of several axes lie in one line, whose blocks are not those of the axes.
    return len(reader.inner) == 1 or is_exact(reader.combine)


def given_way(node: Node, made: Node) -> bool | None:
    """Whether a fold in another form goes across as `node` does: where grouping reaches bits.

    None where it is for the fold's own elements to decide."""
    if not isinstance(node, Fold) or not isinstance(made, Fold) or node is made:
        return None
    from treadle.skeletons.lower.fold.rows import goes_across, is_exact

    return None if is_exact(node.combine) else goes_across(node)
