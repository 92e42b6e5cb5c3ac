"""Shortens the critical path of recurrences: the value that arrives last comes last in minima and
maxima.

    max(max(s, x), y)   →   max(max(x, y), s)

The result is the same, bit for bit.  The next iteration waits for one operation instead of two if
`s` is on the critical path: the state of a recurrence, or an element that the previous iteration
wrote.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

from ..expr import Apply, Expr, Var, rewrite, walk
from ..simplify import apply


def last_comes_last(roots: Sequence[Expr], late: Iterable[Expr]) -> tuple[Expr, ...]:
    """Regroup minima and maxima so that operands that depend on `late` come last."""
    waits = dict.fromkeys(late, True)

    def change(e: Expr) -> Expr:
        if isinstance(e, Apply) and e.op.name in ("minimum", "maximum"):
            op = e.op
            nested = [a.args if isinstance(a, Apply) and a.op is op else (a,) for a in e.args]
            parts = [p for args in nested for p in args]
            before, after = ([p for p in parts if waits.get(p, False) is x] for x in (False, True))
            if len(after) == 1 and before:
                early = functools.reduce(lambda a, b: apply(op, (a, b), a.type), before)
                waits[early] = False
                e = apply(op, (early, after[0]), e.type)
        waits.setdefault(e, any(waits.get(c, False) for c in (*e.args, *e.scoped)))
        return e

    return rewrite(roots, change)


def late_states(states: Sequence[Var], following: Sequence[Expr]) -> list[Var]:
    """The states that are computed from states, and therefore available only when an iteration
    begins.  States that are merely passed on are available earlier."""
    every = set(states)
    return [
        state for state, e in zip(states, following, strict=False)
        if not isinstance(e, Var) and not every.isdisjoint(walk((e,)))
    ]  # fmt: skip
