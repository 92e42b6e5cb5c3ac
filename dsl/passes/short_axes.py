"""unroll_short: axes of a few elements are unrolled, so that shared work is computed once.

    d = x[:, None, :] − x[None, :, :]          of points of three coordinates
    r = Σ over c of d[i, k, c]²          →     r = d[i, k, 0]² + d[i, k, 1]² + d[i, k, 2]²
    Σ over k of f(r[i, k]) · d[i, k, c]  →     three sums of one kernel that computes f(r) once

A fold whose results lie along an axis of few elements becomes a fold of several components, if its
operands take work that does not depend on the axis.  The folds along such axes that it reads become
expressions; so do, on a CPU, folds of computed elements that only element-wise operations read.
The extents must be constants, which `dsl/operations/` requests for such folds.  This runs before
producers are inlined, so that each has a single reader.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence

from ..analysis.combines import argument_of, identities
from ..analysis.short_extents import SHORT_AXIS
from ..expr import Const, Expr, Index, Read, constant, primitive, rewrite, substitute, walk
from ..graph import Fold, Generate, Leaf, Node, known, result_variables, topological
from ..graphs.rebuild import replace_nodes
from ..simplify import apply, select
from ..types import bool_
from .base import Context
from .cost import operations
from .horizontal import joined
from .rows import SHARED
from .vertical import Inliner, checked_by_data

#: The most components of a fold.
MOST_COMPONENTS = 8


def unroll_short(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    """The graph with short axes of folds unrolled; checked programs keep them as written."""
    order = list(topological(roots))
    if context.settings.check:
        return list(roots)
    axes: dict[Node, int] = {}
    rows: set[Node] = set()
    for node in order:
        found = _shared(node) if isinstance(node, Fold) and is_plain(node) else None
        if found is not None:
            axes[node], read = found
            rows |= {n for n in read if isinstance(n, Fold) and is_plain(n)}
    if context.target.cores:
        rows |= _read_by_elements(order, roots)
    if not axes and not rows:
        return list(roots)

    def change(node: Node, made: Node) -> Node:
        if isinstance(made, Fold) and node in rows:
            return _row(made) or made
        return _components(made, axes[node]) if isinstance(made, Fold) and node in axes else made

    return replace_nodes(roots, change)


def _read_by_elements(order: Sequence[Node], roots: Sequence[Leaf]) -> set[Node]:
    """The folds of computed elements that only element-wise operations read."""
    found: set[Node] = {n for n in order if isinstance(n, Fold) and is_plain(n) and _is_computed(n)}
    found -= {leaf.node for leaf in roots}
    for node in order if found else ():
        if not isinstance(node, Generate):
            found -= {leaf.node for leaf in (*node.inputs(), *node.inside())}
    return found


def _is_computed(node: Fold) -> bool:
    """Whether the elements, or their operands, take work."""
    return any(isinstance(e, Read) and isinstance(e.node, Generate) for e in walk(node.elements))


def is_plain(node: Fold) -> bool:
    return is_free(node) and argument_of(node.combine) is None


def is_free(node: Node) -> bool:
    """Whether nothing fixes the order of elements, now or later through the operation's name."""
    return not node.label.ordered and node.label.name is None and node.label.schedule is None


def _size(e: Expr) -> int | None:
    return int(e.value) if isinstance(e, Const) and 2 <= int(e.value) <= SHORT_AXIS else None


def _row(node: Fold) -> Generate | None:
    """A fold along one short axis of a computed array as an expression."""
    size = _size(node.inner[0]) if len(node.inner) == 1 else None
    if len(node.outer) < 2 or size is None or identities(node.combine) is None:
        return None
    return unrolled(node)


def unrolled(node: Fold) -> Generate:
    """A fold along axes of few elements as an expression of these, from the left, which has the
    bits of the fold (`short_folds.py`)."""
    rank, start = len(node.outer), identities(node.combine)
    assert start is not None
    found: tuple[Expr, ...] = start
    for at in itertools.product(*(range(int(known(n) or 0)) for n in node.inner)):
        here: dict[Expr, Expr] = {Index(rank + a): constant(k) for a, k in enumerate(at)}
        found = node.combine.of(found, substitute(node.elements, here))
    return Generate(node.outer, stored_by(node, found), label=node.label, where=node.where,
                    checks=node.checks, fused=node.fused)  # fmt: skip


def stored_by(node: Fold, found: Sequence[Expr]) -> tuple[Expr, ...]:
    """The values that a fold stores, given the combination of all its elements."""
    if node.init is not None:
        found = node.combine.of(node.init, found)
    return substitute(node.epilogue, dict(zip(node.results, found, strict=True)))


def _components(node: Fold, axis: int) -> Generate:
    """The results along a short axis as components of one fold."""
    rank, size = len(node.outer), _size(node.outer[axis])
    assert size is not None
    node = _with_own(node, axis)
    moved: dict[Expr, Expr] = {
        Index(a): Index(a - 1) for a in range(axis + 1, rank + len(node.inner))
    }
    positions = [{**moved, Index(axis): constant(k)} for k in range(size)]
    elements = tuple(e for at in positions for e in substitute(node.elements, at))
    variables, count = result_variables(elements), len(node.elements)
    stored: list[Expr] = []
    for k, at in enumerate(positions):
        own = variables[k * count : (k + 1) * count]
        stored += substitute(node.epilogue, {**at, **dict(zip(node.results, own, strict=True))})
    fold = node.with_(
        outer=(*node.outer[:axis], *node.outer[axis + 1 :]),
        elements=elements,
        combine=joined([node] * size),
        init=None if node.init is None else node.init * size,
        results=variables,
        epilogue=tuple(stored),
    )
    others = [Index(a) for a in range(rank) if a != axis]
    values: list[Expr] = []
    for c in range(len(node.epilogue)):
        parts = [Leaf(fold, k * len(node.epilogue) + c).at(*others) for k in range(size)]
        value: Expr = parts.pop()
        while parts:
            here = apply(primitive("equal"), (Index(axis), constant(len(parts) - 1)), bool_)
            value = select(here, parts.pop(), value)
        values.append(value)
    return Generate(node.outer, tuple(values), label=node.label, where=node.where)


def _with_own(node: Fold, axis: int) -> Fold:
    """The fold with arrays that have this axis and all others inlined: each component reads
    different elements of them."""
    inliner, rank = Inliner(), len(node.iteration_space())

    def expanded(elements: tuple[Expr, ...]) -> tuple[Expr, ...]:
        for e in walk(elements):
            made = e.node if isinstance(e, Read) and e.boundary is None else None
            if isinstance(made, Generate) and made not in inliner.bodies and is_free(made):
                whole = len(made.shape) == rank and node.outer[axis] in made.shape
                if whole and not checked_by_data(made):
                    inliner.bodies[made] = expanded(made.elements)
        return rewrite(elements, inliner.expand, inliner.memo)

    elements = expanded(node.elements)
    inlined = list(inliner.bodies)
    checks = dict.fromkeys((*(c for n in inlined for c in n.checks), *node.checks))
    fused = dict.fromkeys(
        (*node.fused, *(f for n in inlined for f in ((n.label, n.where), *n.fused)))
    )
    return node.with_(elements=elements, checks=tuple(checks), fused=tuple(fused))


def _shared(node: Fold) -> tuple[int, set[Node]] | None:
    """The last short axis of a fold's results, if its elements read, directly or through other
    arrays, computed arrays over the other axes that take work; and the nodes on the way."""
    axes = [a for a, e in enumerate(node.outer) if _size(e) is not None]
    if not axes or len(node.outer) < 2 or any(isinstance(e, Read) for e in walk(node.init or ())):
        return None
    own = node.outer[axes[-1]]
    if int(own.value) * len(node.elements) > MOST_COMPONENTS:  # type: ignore[attr-defined]
        return None
    space = Counter(e for e in node.iteration_space() if not isinstance(e, Const))
    work, seen = 0.0, set[Node]()
    stack: list[Sequence[Expr]] = [node.elements]
    while stack:
        for e in walk(stack.pop()):
            of = e.node if isinstance(e, Read) else None
            if not isinstance(of, Generate | Fold) or of in seen:
                continue
            shape = of.outputs[0].shape
            if Counter(x for x in shape if not isinstance(x, Const)) == space:
                seen.add(of)
                work += 0 if own in shape else operations(of.elements)
                stack.append(of.elements)
    return (axes[-1], seen) if work >= SHARED else None
