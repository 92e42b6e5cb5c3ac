"""guard_reads: `where(p, a[f(i)], x)` reads only where p holds.

`where` evaluates both sides, and a checked program reports an index out of range in either.  In
unchecked programs, users write `where(i > 0, a[i - 1], 0)`, and reading element −1 could access
memory outside the array.  A select with a read at a computed index therefore becomes a `Cond`: a
masked load on vector units, with the same value and without unused accesses.  So does a select with
a loop that contains such a read.  Reads that are made in any case need no guard, nor do those of
reshaped arrays.  For the same reason, a permute drops writes outside its target.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any

from ..analysis.polynomial import always_inside
from ..expr import Apply, Cond, Const, Expr, Index, Loop, Proj, Read, Var, rewrite, walk
from ..graph import Compact, Fold, Generate, Leaf, Node, Permute, Shape
from ..graphs.rebuild import rewrite_graph
from ..operations.indexing.row_major import product
from ..operations.stencils import in_range
from ..scalar import apply_primitive
from .base import Context
from .iteration_tests import Counters


def guard_reads(roots: Sequence[Leaf], context: Context) -> list[Leaf]:
    """Guard selects over reads at computed indices (unchecked programs only)."""
    if context.settings.check:
        return list(roots)
    counters = Counters(roots)

    def change(node: Node) -> Node:
        changes: dict[str, Any] = {}
        domain = node.iteration_space() if isinstance(node, Generate | Fold) else ()
        for name in node.computed:
            value = getattr(node, name)
            if isinstance(value, tuple):
                made = guarded(value, domain)
                if made != value:
                    changes[name] = made
        if isinstance(node, Permute) and not isinstance(node, Compact):  # its target is a place
            equal = [(c.left, c.right) for c in node.checks if c.relation == "=="]
            changes["valid"] = inside(node.valid, node.target, node.defaults[0].shape, node.domain,
                                      equal, counters)  # fmt: skip
        return node.with_(**changes) if changes else node

    return rewrite_graph(roots, change, context.kept)


def inside(valid: Expr, target: Sequence[Expr], shape: Shape, domain: Shape,
           equal: Iterable[tuple[Expr, Expr]], counters: Counters | None = None
           ) -> Expr:  # fmt: skip
    """The condition of a write, extended so that its target is in range: other writes would corrupt
    memory.

    Indices known to be in range, by the extents of the domain, by those that are `equal` to them,
    or by the iterations of loops, add nothing.
    """
    same: dict[Expr, Expr] = {}
    for left, right in equal:
        same |= {left: right, right: left}
    domains = {domain, tuple(same.get(n, n) for n in domain)}
    for i, n in zip(target, shape, strict=True):
        known = any(always_inside(i, n, d) for d in domains)
        if not (known or (counters is not None and counters.inside(i, n))):
            valid = apply_primitive("logical_and", [valid, in_range(i, n)])
    return valid


def guarded(roots: tuple[Expr, ...], domain: Shape) -> tuple[Expr, ...]:
    """The expressions with selects over possibly invalid reads replaced by conditionals.

    A read that is evaluated whatever the selects choose, such as `v` in `where(v > 0, v, 0)`, needs
    no guard."""
    found = list(walk(roots))
    if not any(isinstance(e, Apply) and e.op.name == "select" for e in found):
        return roots
    counts = {e.vars[0]: e.count for e in found if isinstance(e, Loop)}
    computed = [e for e in found if isinstance(e, Read) and not _is_plain(e, counts)]
    always = _always_read(found, roots, computed)
    own = {e for e in computed if e not in always and not _is_reshaped(e, domain)}
    risky: dict[Expr, bool] = {}
    for e in found:
        risky[e] = e in own or any(risky[x] for x in (*e.args, *e.scoped))

    def change(e: Expr) -> Expr:
        if not isinstance(e, Apply) or e.op.name != "select":
            return e
        p, a, b = e.args
        if isinstance(p, Const) or not (risky.get(a, True) or risky.get(b, True)):
            return e
        return Proj(Cond(p, (a,), (b,)), 0)

    return rewrite(roots, change)


def _always_read(found: Sequence[Expr], roots: Sequence[Expr], reads: Sequence[Expr]
                 ) -> set[Expr]:  # fmt: skip
    """The reads evaluated whatever selects and conditionals choose; `found`: operands first."""
    number = {e: 1 << k for k, e in enumerate(reads)}
    masks: dict[Expr, int] = {}

    def mask(exprs: Iterable[Expr]) -> int:
        return reduce(or_, (masks[e] for e in exprs), 0)

    for e in found:
        if isinstance(e, Apply) and e.op.name == "select":
            made = masks[e.args[0]] | (masks[e.args[1]] & masks[e.args[2]])
        elif isinstance(e, Cond):
            made = masks[e.args[0]] | (mask(e.then) & mask(e.other))
        else:
            made = mask(e.args)
        masks[e] = made | number.get(e, 0)
    every = mask(roots)
    return {e for e, bit in number.items() if bit & every}


def _is_plain(read: Read, counts: Mapping[Var, Expr]) -> bool:
    """Whether a read has a boundary, or its indices are domain axes, constants, and counters of
    loops over a whole axis; `counts` has the trip count of each counter."""
    shape = read.node.outputs[read.component].shape
    return read.boundary is not None or all(
        isinstance(i, Index | Const) or (isinstance(i, Var) and counts.get(i) == n)
        for i, n in zip(read.args, shape, strict=True)
    )


def _is_reshaped(read: Read, domain: Shape) -> bool:
    """Whether a read is that of a reshaped array: its indices are the row-major coordinates of a
    position that is in range over a domain of these extents."""
    shape, q, position = read.node.outputs[read.component].shape, None, None
    for n, i in zip(reversed(shape[1:]), reversed(read.args[1:]), strict=True):
        if not isinstance(i, Apply) or i.op.name != "remainder" or i.args[1] != n:
            return False
        if q is None:
            q = position = i.args[0]
        if i.args[0] != q:
            return False
        q = apply_primitive("floor_divide", [q, n])
    if position is None or q != read.args[0]:
        return False
    return always_inside(position, product(shape), domain)
