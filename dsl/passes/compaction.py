"""recognise_compaction: selected elements are stored without computing the position of each.

    p = scan(+, 0, mask);  permute(i ↦ p[i] where mask, values);  p[n] of them
    →  m = mask, stored;  o = scan(+, 0, c),  where c[b] elements of block b are selected
       compact(values where m; those of block b from o[b] on);  o[blocks] of them

`a[mask]`, `compact`, `filter`, `nonzero` and `flatnonzero` have the first form, which writes and
reads a position of eight bytes per element, although only those of selected elements are needed.
In the second form, each element of the mask is computed once, and its byte is read twice.
"""

from __future__ import annotations

from collections.abc import Sequence

from .. import simplify
from ..analysis.combines import simple_combine
from ..expr import Const, Expr, Index, Read, constant, walk
from ..graph import Compact, FoldSeg, Generate, Label, Leaf, Node, Permute, Scan, topological
from ..graphs.rebuild import Rebuilder
from ..scalar import apply_primitive
from ..types import int64
from .base import Context

BLOCK = constant(Compact.BLOCK)


def recognise_compaction(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    """Replace scans of masks whose results are the targets and the size of permutes."""
    if not context.target.cores or context.settings.check:
        return list(roots)
    order = list(topological(roots))
    found = {n for n in order if isinstance(n, Scan) and _counts(n)}
    found -= {leaf.node for leaf in roots}
    used: dict[Node, list[Node]] = {}
    for node in order if found else ():
        for leaf in {*node.inputs(), *node.inside()}:
            if leaf.node in found:
                used.setdefault(leaf.node, []).append(node)
    scans = {n for n in found if isinstance(n, Scan) and _only_compacts(n, used.get(n, []))}
    if not scans:
        return list(roots)
    compacts = {m: n for n in scans for m in used[n] if _compacts(m, n)}
    masks: dict[Node, Expr] = {}
    builder = Rebuilder()
    for node in order:
        made = builder.node(node)
        if isinstance(node, Scan) and node in scans:
            assert isinstance(made, Scan)
            masks[node], blocks, made = _of_blocks(made)
            place, end = _reads(node)
            at = apply_primitive("floor_divide", [Index(0), BLOCK])
            builder.memo |= {place: Read(made, 0, (at,)), end: Read(made, 0, (blocks,))}
        elif node in compacts:
            assert isinstance(made, Permute)
            made = Compact(
                made.domain, masks[compacts[node]], made.target, made.values, made.defaults, None,
                label=made.label, where=made.where, checks=made.checks, fused=made.fused,
            )  # fmt: skip
        builder.replace(node, made, context.kept)
    return [builder.leaf(r) for r in roots]


def _counts(node: Scan) -> bool:
    """Whether a scan counts the selected elements before each element."""
    return (
        len(node.shape) == 1
        and node.form == "exclusive"
        and not node.reverse
        and not node.label.ordered
        and node.combine.results == simple_combine("add", int64).results
        and node.init == (constant(0),)
        and not isinstance(node.elements[0], Const)  # a constant mask
        and node.epilogue == node.results
    )


def _reads(node: Scan) -> tuple[Expr, Expr]:
    """The position of an element, if it is selected, and the number of selected elements."""
    return Read(node, 0, (Index(0),)), Read(node, 0, node.shape)


def _compacts(node: Node, scan: Scan) -> bool:
    """Whether a permute stores the elements that a scan counts consecutively."""
    return (
        type(node) is Permute
        and node.combine is None
        and not node.label.ordered
        and node.domain == scan.shape
        and node.target == _reads(scan)[:1]
        and simplify.cast(node.valid, int64) is scan.elements[0]
        and not any(isinstance(e, Read) and e.node is scan for e in walk(node.values))
    )


def _only_compacts(scan: Scan, used: Sequence[Node]) -> bool:
    """Whether the positions of all elements are not needed."""
    end = _reads(scan)[1]

    def knows(node: Node) -> bool:
        own = (e for e in walk(node.expressions()) if isinstance(e, Read) and e.node is scan)
        return not any(leaf.node is scan for leaf in node.inside()) and all(e is end for e in own)

    made = [_compacts(node, scan) for node in used]
    return any(made) and all(c or knows(n) for c, n in zip(made, used, strict=True))


def _of_blocks(scan: Scan) -> tuple[Expr, Expr, Scan]:
    """The mask, the number of blocks, and the scan of selected elements before each block."""
    (n,), (count,) = scan.shape, scan.elements
    fits, checks, fused = count.args[0], scan.checks, scan.fused
    if not isinstance(fits, Read) or fits.boundary is not None or fits.args != (Index(0),):
        mask = Generate(scan.shape, (fits,), label=Label("mask"), where=scan.where,
                        checks=checks, fused=fused)  # fmt: skip
        fits, checks, fused = Read(mask, 0, (Index(0),)), (), ()
    last = apply_primitive("add", [n, constant(Compact.BLOCK - 1)])
    blocks = apply_primitive("floor_divide", [last, BLOCK])
    first = apply_primitive("multiply", [Index(0), BLOCK])
    ends = Generate(
        (apply_primitive("add", [blocks, constant(1)]),),
        (apply_primitive("minimum", [first, n]),),
        label=Label("blocks"), where=scan.where,
    )  # fmt: skip
    counts = FoldSeg(
        (), blocks, n, Leaf(ends, 0), (simplify.cast(fits, int64),), scan.combine, (constant(0),),
        label=Label("counts"), where=scan.where,
    )  # fmt: skip
    made = Scan(
        (blocks,), 0, (Read(counts, 0, (Index(0),)),), scan.combine, scan.init, "exclusive", False,
        label=scan.label, where=scan.where, checks=checks, fused=fused,
    )  # fmt: skip
    return fits, blocks, made
