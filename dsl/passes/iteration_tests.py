"""What iterations test: what always holds, and, in a sequence, what holds up to an iteration.

for k < n: if 0 <= n - 1 - k < n: g = …  →   for k < n: g = …
for j < m: if j + 1 < n: t[j + 1] = …    →   for j < min(m, n − 1): t[j + 1] = …
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..analysis.polynomial import always_inside
from ..expr import (
    FALSE,
    TRUE,
    Apply,
    Const,
    Expr,
    Index,
    conjuncts,
    constant,
    known_before,
    reading,
    rewrite,
    split_constant,
    substitute,
)
from ..graph import ArrayLoop, Input, Leaf, Node, Sequential, Shape, topological
from ..graphs.rebuild import Rebuilder, replace_nodes
from ..operations.indexing.row_major import greatest, least, minus
from ..scalar import apply_primitive
from ..simplify import chosen
from ..types import int64
from .base import Context


def decide_counters(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    """The graph without tests of loop counters that always hold, or never: those of derivatives,
    which visit the iterations backwards, and of what a loop collects.  Checked programs keep
    them."""
    counters = Counters(roots)
    if not counters.counts or context.settings.check:
        return list(roots)
    return replace_nodes(roots, lambda _, made: made, context.kept, _Deciding(counters))


class Counters:
    """The counters of the loops over arrays in a graph, with their numbers of iterations."""

    def __init__(self, roots: Sequence[Leaf]) -> None:
        loops = [node for node in topological(roots) if isinstance(node, ArrayLoop)]
        self.counts = {n.index: n.count for n in loops if n.index and n.count is not None}

    def over(self, es: Sequence[Expr]) -> tuple[tuple[Expr, ...], Shape] | None:
        """Expressions without indices over those of a domain, instead of counters."""
        axes: dict[Expr, Expr] = {}
        domain: list[Expr] = []
        for e in reading(es) if not any(e.varies for e in es) else ():
            if e.node in self.counts:
                axes[e] = Index(len(domain))
                domain.append(self.counts[e.node])
        return (substitute(es, axes), tuple(domain)) if axes else None

    def inside(self, index: Expr, extent: Expr) -> bool:
        """Whether 0 ≤ index < extent in all iterations."""
        made = self.over((index, extent))
        if made is None:
            return False
        (at, size), domain = made
        return always_inside(at, size, domain)


class _Deciding(Rebuilder):
    def __init__(self, counters: Counters) -> None:
        super().__init__()
        self.counters = counters

    def _read(self, e: Expr) -> Expr:
        if not (isinstance(e, Apply) and e.op.name in _TESTS and e.reads):
            return chosen(super()._read(e))
        made = self.counters.over((e,))
        found = e if made is None else _decided(made[0][0], made[1])
        return found if isinstance(found, Const) else e

    def node(self, node: Node) -> Node:
        made = super().node(node)
        if isinstance(node, Input) or self.counters.counts.keys().isdisjoint(
            leaf.node for leaf in node.inputs()
        ):
            return made
        return self.over(made, self)


def with_tests_decided(node: Sequential) -> Sequential:
    """The sequence without tests that always hold, and without the iterations at the end of an axis
    that write nothing."""
    node = _rewritten(node, lambda e: _decided(e, node.domain))
    if min(node.written) < 0:  # a loop in it has iterations of its own
        return node
    same = set.intersection(*({*conjuncts(e)} for e in node.valid))
    domain, held = list(node.domain), dict[Expr, Expr]()
    for test in (e for e in conjuncts(node.valid[0]) if e in same):
        for axis in range(len(domain)):
            if (stop := _holds_before(test, axis)) is not None:
                domain[axis], held[test] = least(domain[axis], stop), TRUE
    return _rewritten(node, lambda e: held.get(e, e)).with_(domain=tuple(domain))


def _rewritten(node: Sequential, change: Callable[[Expr], Expr]) -> Sequential:
    memo: dict[Expr, Expr] = {}
    return node.with_(**{f: rewrite(getattr(node, f), change, memo) for f in node.computed})


def _holds_before(test: Expr, axis: int) -> Expr | None:
    """The first index along an axis for which a test does not hold that holds for those before."""
    if not (isinstance(test, Apply) and test.op.name == "less" and test.args[0].type is int64):
        return None
    index, limit = test.args
    counter, ahead = split_constant(index)
    if counter is not Index(axis) or not known_before(limit):
        return None
    return greatest(minus(limit, constant(ahead)), constant(0))


def _decided(e: Expr, domain: Shape) -> Expr:
    """A test of an index, or its result where this is the same in all iterations: counters are
    neither negative nor beyond their loops."""
    if not (isinstance(e, Apply) and e.args[0].type is int64 and e.op.name in _TESTS):
        return e
    index, limit = e.args
    if limit is not constant(0):
        inside = e.op.name == "less" and always_inside(index, limit, domain)
        return TRUE if inside else e
    # What is more than the index at one end of every loop, if it grows, or shrinks, with all.
    ends: list[dict[Expr, Expr]] = [
        {Index(k): n for k, n in enumerate(domain)},
        {Index(k): constant(0) for k in range(len(domain))},
    ]
    for end in ends:
        beyond = apply_primitive("add", [substitute((index,), end)[0], constant(1)])
        if always_inside(index, beyond, domain):
            return TRUE if e.op.name == "greater_equal" else FALSE
    return e


#: What indices are tested by.
_TESTS = ("less", "greater_equal")
