"""unroll_stacked: a fold along the axis of a stack becomes an expression of the stacked arrays.

    sum(stack([a, b, c]), axis=0)   →   ((0 + a) + b) + c

The fold would select the array for every element that it reads, and the stack, which it reads as a
whole, would be stored.  Short folds run from left to right, so the expression has their bits
(`short_folds.py`).  This runs before producers are inlined.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ..analysis.combines import identities
from ..analysis.regions import regions
from ..expr import Expr, Index, Read, constant, rewrite, substitute, walk
from ..graph import Fold, Generate, Leaf, Node, known, topological
from ..graphs.rebuild import Rebuilder
from ..simplify import chosen
from .base import Context
from .cost import operations
from .planes import places
from .rows import LONGEST
from .short_axes import is_free, is_plain, stored_by
from .vertical import checked_by_data

#: The most work of the expression, in additions.
LARGEST = 1000.0


def unroll_stacked(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    """The graph with folds along joined axes as expressions; checked programs keep them."""
    order = list(topological(roots))
    if context.settings.check or not any(isinstance(n, Fold) for n in order):
        return list(roots)
    readers = Counter(
        n for node in order for n in {x.node for x in (*node.inputs(), *node.inside())}
    )
    readers.update(leaf.node for leaf in roots)
    builder, region = Rebuilder(), dict(regions(roots))
    for node in order:
        made = builder.node(node)
        readers[made], region[made] = readers[node], region[node]
        if isinstance(made, Fold) and (found := _expression(made, readers, region)) is not None:
            readers[found], region[found] = readers[node], region[node]
            made = found
        builder.replace(node, made)
    return [builder.leaf(r) for r in roots]


def _expression(node: Fold, readers: Counter[Node], region: Mapping[Node, object]
                ) -> Generate | None:  # fmt: skip
    rank, start = len(node.outer), identities(node.combine)
    size = known(node.inner[0]) if len(node.inner) == 1 else None
    if rank < 1 or start is None or size is None or not 2 <= size <= LONGEST:
        return None
    if not is_plain(node):
        return None
    last = Index(rank)
    inside = _joined(node, int(size), readers, region)
    if not inside:
        return None
    found: tuple[Expr, ...] = start
    for k in range(int(size)):
        here = _at(node.elements, {last: constant(k)}, inside)
        found = node.combine.of(found, here)
        if operations(found) > LARGEST:
            return None
    checks = dict.fromkeys(c for n in (*inside, node) for c in n.checks)
    fused = dict.fromkeys(f for n in inside for f in ((n.label, n.where), *n.fused))
    return Generate(node.outer, stored_by(node, found), label=node.label, where=node.where,
                    checks=tuple(checks), fused=(*node.fused, *fused))  # fmt: skip


def _joined(node: Fold, size: int, readers: Counter[Node], region: Mapping[Node, object]
            ) -> list[Node]:  # fmt: skip
    """The arrays whose elements only this fold reads, each once, if one of them distinguishes its
    elements along the folded axis; else none."""
    rank = len(node.outer) + 1
    found: list[Node] = []
    apart = False
    stack: list[tuple[Sequence[Expr], Expr]] = [(node.elements, Index(rank - 1))]
    while stack:
        roots, own = stack.pop()
        every: set[Expr] = {Index(k) for k in range(rank)}
        reads = Counter(e.node for e in walk(roots) if isinstance(e, Read))
        for e in walk(roots):
            if not isinstance(e, Read) or not isinstance(of := e.node, Generate):
                continue
            whole = len(e.args) == rank and {*e.args} == every and e.boundary is None
            alone = readers[of] == 1 and reads[of] == 1 and region.get(of) == region.get(node)
            if not (whole and alone and is_free(of)) or checked_by_data(of):
                continue
            index = Index(e.args.index(own))
            apart |= len(places(of, index.axis)) >= size - 1
            if of not in found:
                found.append(of)
                stack.append((of.elements, index))
    return found if apart else []


def _at(elements: Sequence[Expr], index: dict[Expr, Expr], inside: Sequence[Node]
        ) -> tuple[Expr, ...]:  # fmt: skip
    """`elements` at an index, with reads of the arrays `inside` replaced by their elements."""

    def change(e: Expr) -> Expr:
        if isinstance(e, Read) and isinstance(e.node, Generate) and e.node in inside:
            here: dict[Expr, Expr] = {Index(k): a for k, a in enumerate(e.args)}
            return _at(e.node.elements, here, inside)[e.component]
        return chosen(e)

    return rewrite(substitute(elements, index), change)
