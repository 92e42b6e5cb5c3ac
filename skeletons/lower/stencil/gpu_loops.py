"""Windows whose extents are known when a program runs: elements that loop over run-time weights.

    Σ k in 0 .. n: w[k]·a[i + k − n // 2]      for n = 3, 5, 7, 9 as unrolled windows, chosen at
                                               launch; any other n keeps the loop

The operations and their order are those of the loop, so the choice does not change the result.
"""

from __future__ import annotations

from collections.abc import Sequence

from treadle.dsl.expr import (
    Const,
    Expr,
    Foreign,
    Loop,
    Proj,
    While,
    constant,
    rewrite,
    substitute,
    walk,
)

from ...ir.transform import is_host

#: Extents of windows that get a kernel of their own.
SIZES = (3, 5, 7, 9)
#: … of up to so many places in all.
MOST_PLACES = 81


def window_counts(roots: Sequence[Expr]) -> tuple[Expr, ...]:
    """The counts of the loops in `roots`, each once; empty unless all are known at launch and at
    least one only then."""
    counts: dict[Expr, None] = {}
    for e in walk(roots):
        if isinstance(e, While | Foreign):
            return ()
        if isinstance(e, Loop):
            if not is_host(e.count):
                return ()
            counts[e.count] = None
    return tuple(counts) if any(not isinstance(c, Const) for c in counts) else ()


def places(roots: Sequence[Expr], size: int) -> int:
    """How often the innermost loops in `roots` iterate in all, where run-time counts are `size`."""
    found: dict[Expr, int] = {}
    for e in walk(roots):
        inside = max((found[c] for c in e.scoped), default=1)
        if isinstance(e, Loop):
            inside *= int(e.count.value) if isinstance(e.count, Const) else size
        found[e] = max(inside, *(found[c] for c in e.args)) if e.args else inside
    return max(found[r] for r in roots)


def written_out(roots: Sequence[Expr], counts: Sequence[Expr], size: int) -> tuple[Expr, ...]:
    """`roots` without loops, where every run-time count is `size`."""
    known: dict[Expr, Expr] = {c: constant(size) for c in counts if not isinstance(c, Const)}
    results: dict[Expr, tuple[Expr, ...]] = {}

    def change(e: Expr) -> Expr:
        if isinstance(e, Loop) and isinstance(e.count, Const):
            index, *state = e.vars
            values = e.args[1:]
            for k in range(int(e.count.value)):
                iteration: dict[Expr, Expr] = {index: constant(k)}
                iteration.update(zip(state, values, strict=True))
                values = substitute(e.scoped, iteration)
            results[e] = values
        elif isinstance(e, Proj) and e.args[0] in results:
            return results[e.args[0]][e.which]
        return e

    return rewrite(substitute(roots, known), change)
