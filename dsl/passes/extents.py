"""unify_extents: replace extents that a program requires to be equal by one symbol.

    td.zip(h, u)  of arguments h[n1, n2] and u[n3, n4]   →   h and u, both [n1, n2]

Operations that combine several arrays (`zip`, `map`, stencils, operators, the state of a loop)
check that their extents are equal, before the first kernel runs.  After these checks one extent may
replace another, so that all passes, kernels and explanations use a single symbol.

The checks themselves remain as written, each over the extents of its own arrays: they decide
whether a call is valid, in their order and with their messages.  Checks in the sides of a `cond`
imply nothing, as they are made only if the side is taken.  An extent of 1 is already a constant
when a program is traced (it broadcasts), and is never compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..expr import Apply, Const, Expr, Extent, rewrite, walk
from ..graph import Check, Input, Leaf, Node, topological
from ..graphs.rebuild import Rebuilder
from ..graphs.relations import checks_before
from .base import Context

Same = dict[Expr, Expr]


def unify_extents(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    """The graph with one symbol for equal extents; `context.inputs` maps replaced inputs."""
    same = equal_extents(checks_before(roots))
    if not same:
        return list(roots)
    unifier = _Unifier(same)
    for node in topological(roots):
        made = unifier.node(node)
        unifier.replace(node, made)
    context.inputs.update(unifier.inputs)
    return [unifier.leaf(r) for r in roots]


def equal_extents(checks: Iterable[Check]) -> Same:
    """Map extents, and expressions of extents, to their representatives.

    Expressions of equal extents are equal, and may be extents themselves (n2 // n1 for n1 = 1).
    Checks are in the order of their operations, so the first iteration resolves most: what one
    check implies is applied to the following ones.  Further iterations resolve the rest.
    """
    sides = [(c.left, c.right) for c in checks if c.relation == "=="]
    same: Same = {}
    sizes: dict[Expr, int] = {}
    # The uids of inputs depend on when an array was first used, possibly in another program.
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
            if not isinstance(b, Const):  # two constants: every call fails its checks
                same[b] = a
                memo.update(dict.fromkeys((*pair, b), a))
        if len(same) == before:
            break
        same = dict(zip(same, rewrite(tuple(same.values()), root), strict=True))
    return same


def _renamed(es: Sequence[Expr], same: Same) -> tuple[Expr, ...]:
    return rewrite(es, lambda e: same.get(e, e))


def _rank(e: Expr, order: dict[Node, int], sizes: dict[Expr, int]) -> tuple[int, int, int]:
    """The sort key of representatives: constants first, then extents of the first argument, other
    extents in the order of the checks, and the smallest computed expression (so that nothing is
    replaced by an expression that contains it)."""
    if isinstance(e, Const):
        return 0, 0, 0
    if not isinstance(e, Extent):
        return 3, _size(e, sizes), 0
    return 1 + (_kind(e.node) != "argument"), order[e.node], e.axis


def _kind(node: Node) -> str:
    return getattr(node, "kind", "")


def _size(e: Expr, sizes: dict[Expr, int]) -> int:
    """The number of operations of `e` as a tree; `sizes` caches those of subexpressions."""
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
    """Rebuilds nodes with one symbol for equal extents, over inputs of such shapes.

    `inputs`: replaced inputs and their replacements.
    """

    def __init__(self, same: Same) -> None:
        super().__init__()
        self.inputs: dict[Input, Input] = {}
        self.checks = Rebuilder()  # in checks, every array keeps its own extents
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
