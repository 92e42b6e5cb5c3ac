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
from ..rebuild import Rebuilder
from ..relations import checks_before
from .base import Context

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
    1).  Checks come in the order of their operations, so most are settled in the first turn: what
    one finds, the next ones are read with.  What that leaves, the next turn finds.
    """
    sides = [(c.left, c.right) for c in checks if c.relation == "=="]
    same: Same = {}
    sizes: dict[Expr, int] = {}
    # Numbers of inputs tell when an array was first used, which may have been in another program.
    order: dict[Node, int] = {}
    for e in walk([e for pair in sides for e in pair]):
        if isinstance(e, Extent):
            of = e.node
            order.setdefault(of, of.uid if _kind(of) == "argument" else len(order))

    def root(e: Expr) -> Expr:
        while e in same:
            e = same[e]
        return e

    for _ in sides:
        memo: Same = {}
        before = len(same)
        for pair in sides:
            a, b = map(root, rewrite(pair, root, memo))
            if a is b:
                continue
            a, b = sorted((a, b), key=lambda e: _rank(e, order, sizes))
            if not isinstance(b, Const):  # two numbers: no call is right
                same[b] = a
                memo.update(dict.fromkeys((*pair, b), a))
        if len(same) == before:
            break
        same = dict(zip(same, rewrite(tuple(same.values()), root), strict=True))
    return same


def _renamed(es: Sequence[Expr], same: Same) -> tuple[Expr, ...]:
    return rewrite(es, lambda e: same.get(e, e))


def _rank(e: Expr, order: dict[Node, int], sizes: dict[Expr, int]) -> tuple[int, int, int]:
    """Who stands for others: numbers, the extents of the first argument, other extents as the
    checks name them, and the least that is computed (so that nothing stands for a part of
    itself)."""
    if isinstance(e, Const):
        return 0, 0, 0
    if not isinstance(e, Extent):
        return 3, _size(e, sizes), 0
    return 1 + (_kind(e.node) != "argument"), order[e.node], e.axis


def _kind(node: Node) -> str:
    return getattr(node, "kind", "")


def _size(e: Expr, sizes: dict[Expr, int]) -> int:
    """The operations of `e`, written out; those of parts are kept in `sizes`."""
    stack = [e]
    while stack:
        x = stack[-1]
        parts = (*x.args, *x.scoped)
        missing = [p for p in parts if p not in sizes]
        if not missing:
            sizes[x] = 1 + sum(sizes[p] for p in parts)
            stack.pop()
        stack += missing
    return sizes[e]


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
        own = self.checks.memo
        lengths = [e for e in (*own, *same) if isinstance(e, Extent)]
        renamed = _renamed([same.get(e, e) for e in lengths], own)
        self.memo.update(zip(lengths, renamed, strict=True))
        named = dict(self.memo)
        pairs = [(e, r) for e, r in same.items() if not isinstance(e, Extent)]
        left = _renamed([e for e, _ in pairs], named)
        right = _renamed([r for _, r in pairs], named)
        self.computed: Same = {
            e: r for e, r in zip(left, right, strict=True) if isinstance(e, Apply)
        }
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
