"""unify_extents: extents that a program requires to be equal become one.

    td.zip(h, u)  of arguments h[n1, n2] and u[n3, n4]   →   h and u, both [n1, n2]

What several arrays go into side by side (`zip`, `map`, a stencil, operators, the state of a loop)
has a check that their extents are equal, made before the first kernel runs.  Whatever comes after
it may take one extent for the other, so all passes, kernels and explanations see one symbol.

The checks stay as they were written, each over its own array: they decide whether a call is right,
in their order and with their words.  Those of the sides of a `cond` prove nothing, for they are
made only where the side is taken.  An extent of 1 is a number already when a program is traced
(it broadcasts), and is never compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..expr import Apply, Const, Expr, Extent, rewrite, walk
from ..graph import Check, Input, Leaf, Node, topological
from ..relations import checks_before
from .base import Context
from .rebuild import Rebuilder

Same = dict[Expr, Expr]


def unify_extents(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    """The graph over one extent for all equal ones; `context.inputs` gets the inputs that have
    another shape by that."""
    same = _equal(checks_before(roots))
    if not same:
        return list(roots)
    unifier = _Unifier(same)
    for node in topological(roots):
        made = unifier.node(node)
        if made is not node:
            unifier.nodes[node] = made
    context.inputs.update(unifier.inputs)
    return [unifier.leaf(r) for r in roots]


def _equal(checks: Iterable[Check]) -> Same:
    """Extents, and what is computed of them, by what stands for all that are equal.

    What is computed of equal extents is equal, and may be an extent itself (n2 // n1, where n1 is
    1): what one turn finds the next one puts into the checks, and settles one of them at least.
    """
    sides = [(c.left, c.right) for c in checks if c.relation == "=="]
    same: Same = {}
    for _ in sides:
        found = _representatives(_renamed(s, same) for s in sides)
        if not found:
            break
        values = _renamed(tuple(same.values()), found)
        same = {**dict(zip(same, values, strict=True)), **found}
    return same


def _renamed(es: Sequence[Expr], same: Same) -> tuple[Expr, ...]:
    return rewrite(es, lambda e: same.get(e, e))


def _representatives(equal: Iterable[tuple[Expr, ...]]) -> Same:
    """Everything that something else stands for, with what that is."""
    parent: Same = {}

    def root(e: Expr) -> Expr:
        while parent.get(e, e) is not e:
            e = parent[e]
        return e

    for pair in equal:
        a, b = sorted(map(root, pair), key=_rank)
        if not isinstance(b, Const):  # two numbers: no call is right
            parent[a] = parent[b] = a
    return {e: root(e) for e in parent if root(e) is not e}


def _rank(e: Expr) -> tuple[int, int, int]:
    """Who stands for others: numbers, the extents of the first argument, other extents, and the
    least that is computed (so that nothing stands for a part of itself)."""
    if isinstance(e, Const):
        return 0, 0, 0
    if not isinstance(e, Extent):
        return 3, sum(1 for _ in walk((e,))), 0
    return 1 + (getattr(e.node, "kind", "") != "argument"), e.node.uid, e.axis


class _Unifier(Rebuilder):
    """Rebuilds nodes over one extent for all equal ones, and over inputs of such shapes.

    `inputs`: those that were replaced, and what by.
    """

    def __init__(self, same: Same) -> None:
        super().__init__()
        self.inputs: dict[Input, Input] = {}
        self.checks = Rebuilder()  # of what is checked: every array keeps its own extents
        for e in same:
            if isinstance(e, Extent) and e.node not in self.inputs:
                assert isinstance(e.node, Input)
                self.nodes[e.node] = made = self.inputs[e.node] = e.node.copy()
                extents = (x for x in e.node.shape if isinstance(x, Extent))
                self.checks.memo.update((x, Extent(made, x.axis)) for x in extents)
        self.checks.nodes = self.nodes
        own = dict(self.checks.memo)
        for e in (*own, *same):
            if isinstance(e, Extent):
                (self.memo[e],) = _renamed((same.get(e, e),), own)
        named = dict(self.memo)
        self.computed: Same = {}
        for pair in ((e, r) for e, r in same.items() if not isinstance(e, Extent)):
            e, r = _renamed(pair, named)
            if isinstance(e, Apply):
                self.computed[e] = r
        for node, made in self.inputs.items():
            made.of_shape(self.exprs(node.shape))

    def _read(self, e: Expr) -> Expr:
        e = super()._read(e)
        return self.computed.get(e, e)

    def node(self, node: Node) -> Node:
        if not isinstance(node, Input):
            return self.over(node, self.checks)
        shape = self.exprs(node.shape)
        if node in self.nodes or shape == node.shape:
            return self.nodes.get(node, node)
        return node.copy().of_shape(shape)  # the state of a loop
