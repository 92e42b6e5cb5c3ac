"""The branches and guards of iterations that are sequences of writes.

A branch that updates an array, or leaves it, is an update that is not always valid; one that runs
loops over it is loops that may have no iteration.  What only one side needs is guarded.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence, Set as AbstractSet

from .. import expr as ex, graph
from ..expr import Expr
from ..graph import Leaf, Node
from ..graphs.rebuild import Rebuilder, replace_nodes
from ..operations.stencils import in_range
from ..scalar import apply_primitive
from .inner_loops import based_on, few, need, not_inside, where_both
from .recurrence import is_unsafe


def without_branches(roots: Sequence[Leaf]) -> list[Leaf]:
    """The roots with branches that update arrays, or leave them, as updates that may be invalid and
    loops that may have no iteration."""
    order = list(graph.topological(roots))
    if not any(isinstance(n, graph.Branch) for n in order):
        return list(roots)
    anyway, computed = not_inside(roots), set[Node]()  # as they were, and as they are

    def change(node: Node, made: Node) -> Node | Sequence[Leaf]:
        found = _chosen(made, computed) if isinstance(made, graph.Branch) else made.leaves
        if node in anyway:
            computed.update(graph.topological(found, inside=False, known=computed))
        return found

    return replace_nodes(roots, change)


def _chosen(branch: graph.Branch, outside: AbstractSet[Node]) -> list[Leaf]:
    """The results of a branch."""
    p, both = branch.predicate, (branch.then, branch.other)
    needed = [{*graph.topological(side, inside=False, known=outside)} for side in both]
    own = needed[0] - needed[1], needed[1] - needed[0]
    if any(isinstance(n, graph.ArrayLoop) for n in (*own[0], *own[1])):
        p = graph.Generate((), (p,), label=branch.label, where=branch.where).leaf().at()
    conditions = p, apply_primitive("logical_not", [p])
    only = [_Only(q, nodes, side) for q, nodes, side in zip(conditions, own, both, strict=True)]
    for first in (leaf for n in (*own[0], *own[1]) for leaf in based_on(n)):
        # Others would be copied in iterations that do not change them, too.
        need(few(first) or any(_leads_to(first, leaf) for leaf in branch.inside()))
    found = []
    for then, other in zip(*both, strict=True):
        a, b = only[0].leaf(then), only[1].leaf(other)
        if then == other:
            found.append(then)
        elif not then.shape:
            sides = [x.node.elements[x.component] if type(x.node) is graph.Generate else x.at()
                     for x in (a, b)]  # fmt: skip
            e = ex.Proj(ex.Cond(p, (sides[0],), (sides[1],)), 0)
            found.append(graph.Generate((), (e,), label=branch.label, where=branch.where).leaf())
        else:
            need(_leads_to(then, other) or _leads_to(other, then))
            found.append(a if _leads_to(then, other) else b)
    return found


def _leads_to(leaf: Leaf, first: Leaf) -> bool:
    """Whether updates and loops change the first array to the other."""
    while leaf != first and (based := based_on(leaf.node)):
        leaf = based[leaf.component]
    return leaf == first


class _Only(Rebuilder):
    """One side of a branch: the nodes that others do not need do nothing, and read nothing, unless
    a condition holds."""

    def __init__(self, condition: Expr, own: AbstractSet[Node], side: Sequence[Leaf]) -> None:
        super().__init__()
        loops = any(isinstance(n, graph.ArrayLoop) for n in own)
        for node in graph.topological(side):
            made = self.node(node)
            if node in own:
                if isinstance(made, graph.Permute):
                    made = made.with_(valid=where_both(condition, made.valid))
                elif isinstance(made, graph.ArrayLoop):
                    made = _loop_only(made, condition)
                elif isinstance(made, graph.Generate) and few(made.leaf(0)):
                    if loops or is_unsafe(made):
                        elements = tuple(guarded(e, condition) for e in made.elements)
                        made = made.with_(elements=elements)
                else:
                    need(not is_unsafe(made))
            self.replace(node, made)


def _loop_only(loop: graph.ArrayLoop, condition: Expr) -> graph.ArrayLoop:
    """The loop, without an iteration unless a condition holds."""
    if loop.count is not None:
        count = ex.Proj(ex.Cond(condition, (loop.count,), (ex.constant(0),)), 0)
        return loop.with_(count=count)
    assert loop.predicate is not None
    test = loop.predicate.node
    need(type(test) is graph.Generate)
    assert isinstance(test, graph.Generate)
    more = where_both(condition, test.elements[loop.predicate.component])
    return loop.with_(predicate=test.with_(elements=(more,)).leaf())


def conditional(e: Expr) -> tuple[Expr, Expr] | None:
    """The parts of what `where_both` made."""
    cond = e.args[0] if isinstance(e, ex.Proj) else None
    if isinstance(cond, ex.Cond) and cond.other == (ex.FALSE,):
        return cond.args[0], cond.then[0]
    return None


def guarded(e: Expr, condition: Expr) -> Expr:
    """The value where the condition holds; only there is it computed, if it reads anything."""
    if condition is ex.TRUE or not e.reads:
        return e
    return ex.Proj(ex.Cond(condition, (e,), (ex.Const(0, e.type),)), 0)


def in_range_only(e: Expr) -> Expr:
    """An element, or 0 if there is none."""
    if not isinstance(e, ex.Read) or e.boundary is not None:
        return e
    shape = Leaf(e.node, e.component).shape
    valid = [in_range(i, n) for i, n in zip(e.args, shape, strict=True)]
    always: Expr = ex.TRUE
    return guarded(e, functools.reduce(where_both, valid, always))


def weaker(guard: Expr) -> Iterator[Expr]:
    """A condition, and those of its parts by which the rest of it may be computed."""
    yield guard
    if (found := conditional(guard)) is not None:
        p, valid = found
        yield from (where_both(p, v) for v in weaker(valid))
        yield from weaker(p)
