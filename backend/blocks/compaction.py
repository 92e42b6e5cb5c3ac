"""Selection of elements by a mask (`compact`, `a[mask]`, `nonzero`): the elements selected in a
block of the source are a chunk of the result, whose size is their number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from treadle.dsl import simplify
from treadle.dsl.analysis.combines import simple_combine
from treadle.dsl.expr import Apply, Const, Expr, Index, Param, Read
from treadle.dsl.graph import Fold, Generate, Label, Leaf, Node, Permute, Scan
from treadle.dsl.operations.stencils import in_range
from treadle.dsl.types import int64
from treadle.skeletons.ir import arithmetic as at

from .domain import Axis, Bounds, Known, Numbers, Spans, Values
from .localise import Blocks, Result
from .program import BlockProgram


@dataclass
class Selection:
    """A permute that selects: its mask, and the node that counts the selected elements."""

    mask: Expr
    total: Fold


@dataclass
class Compactions:
    """The selecting permutes of a program, and the nodes that are the number of selected elements.

    `skipped`: nodes that are not computed: the target positions of all elements, and the arrays
    that the selected ones are written to.
    """

    selections: dict[Node, Selection] = field(default_factory=dict)
    counts: dict[Node, Fold] = field(default_factory=dict)
    skipped: set[Node] = field(default_factory=set)


def compactions(nodes: Sequence[Node], roots: Iterable[Leaf]) -> Compactions:
    readers: dict[Node, set[Node]] = {leaf.node: set() for leaf in roots}
    results = set(readers)
    for node in nodes:
        for leaf in (*node.inputs(), *node.inside()):
            readers.setdefault(leaf.node, set()).add(node)
    found = Compactions()
    for scan in nodes:
        if not isinstance(scan, Scan) or scan in results or not _counts(scan):
            continue
        total = Fold((), scan.shape, scan.elements, scan.combine, None,
                     label=Label("count", scan.label.name), where=scan.where)  # fmt: skip
        made = {n: mask for n in readers[scan] if (mask := _mask(n, scan)) is not None}
        empty = {leaf.node for n in made for leaf in n.operands()}
        others = [n for n in readers[scan] if n not in made]
        alone = not empty & results and all(len(readers[n]) == 1 for n in empty)
        if alone and all(_is_count(n, scan) for n in others):
            found.selections.update((n, Selection(mask, total)) for n, mask in made.items())
            found.counts.update((n, total) for n in others)
            found.skipped |= {scan, *empty}
    return found


def _counts(scan: Scan) -> bool:
    """Whether a scan counts the true elements before each position."""
    plain = scan.form == "exclusive" and not scan.reverse and scan.epilogue == scan.results
    adds = scan.combine == simple_combine("add", int64) and scan.init == (Const(0, int64),)
    return plain and adds and len(scan.shape) == 1


def _mask(node: Node, positions: Scan) -> Expr | None:
    """The mask by which a permute selects, or None for other nodes.  The permute writes each
    element where the mask holds to the number of selected elements before it, in an array with room
    for all elements."""
    if not isinstance(node, Permute) or node.combine is not None or len(node.target) != 1:
        return None
    (target,), (ones,) = node.target, positions.elements
    if target is not Read(positions, 0, (Index(0),)) or positions.shape != node.domain:
        return None
    if not isinstance(ones, Apply) or len(ones.args) != 1:
        return None
    (mask,) = ones.args
    extents = [leaf.shape[0] for leaf in node.defaults]
    if simplify.cast(mask, int64) is not ones or not all(
        isinstance(e, Read) and _is_count(e.node, positions) for e in extents
    ):
        return None
    guarded = at.both(mask, in_range(target, extents[0]))
    return mask if node.valid in (mask, guarded) else None


def _is_count(node: Node, positions: Scan) -> bool:
    """Whether a node is the last element of the positions, the number of selected elements."""
    last = (Read(positions, 0, positions.shape),)
    return isinstance(node, Generate) and not node.shape and node.elements == last


def elements_of(node: Permute, mask: Expr) -> Generate:
    """The mask and the values of the elements, as a node."""
    return Generate(node.domain, (mask, *node.values), label=Label("elements"), where=node.where)


def compacted(node: Permute, elements: Blocks, counts: Numbers) -> Blocks:
    """The selected elements of every block.  `elements`: the blocks of `elements_of`; `counts`: the
    numbers of selected elements."""
    program = elements.program
    valid, *values = program.roots
    count, here = Param("count", int64), Index(0)
    extent = valid.shape[0]
    ones = simplify.cast(valid.at(here), int64)
    positions = Scan((extent,), 0, (ones,), simple_combine("add", int64), (Const(0, int64),),
                     "exclusive", False, label=Label("positions"))  # fmt: skip
    empty = Generate((count,), tuple(Const(0, v.type) for v in values), label=Label("compact"))
    target = Read(positions, 0, (here,))
    made = Permute((extent,), valid.at(here), (target,), tuple(v.at(here) for v in values),
                   empty.leaves, None, label=Label(node.label.operation, node.label.name),
                   where=node.where)  # fmt: skip
    params = (*program.params, count)
    own = BlockProgram.over(made.leaves, program, program.inputs, params, program.name)
    axis = Axis(int(counts.sum()), tuple(counts.tolist()), 0, rank=1) if elements.grid else None
    results = [Result((int(counts.sum()),), (axis,), leaf.type) for leaf in made.leaves]
    return Blocks(node, own, elements.buffers, results, elements.axes,
                  [*elements.numbers, counts], elements.notes, elements.extents)  # fmt: skip


def bounds(value: Expr, blocks: Blocks, known: Known, constants: Values) -> Bounds | None:
    """Bounds of the selected elements of `value` per block, if known: indices lie in the block."""
    if not value.type.is_integer:
        return None
    found = Spans({0: blocks.axes[0]}, known, (value,), constants).of(value)
    (axis,) = blocks.results[0].axes
    if found is None or axis is None:
        return None
    low, high = (np.broadcast_to(side.reshape(-1), len(axis.sizes)) for side in found)
    return Bounds(axis.sizes, low, high)
