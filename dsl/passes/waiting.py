"""What an iteration waits for comes last in minima and maxima.

    max(max(s, x), y)   →   max(max(x, y), s)

It is the same number in every bit.  The next iteration waits for one operation instead of two if
`s` is what this one waits for: the state of a recurrence, or what the iteration before has written.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

from ..expr import Apply, Expr, Var, rewrite, walk
from ..simplify import apply


def last_comes_last(roots: Sequence[Expr], late: Iterable[Expr]) -> tuple[Expr, ...]:
    """The expressions with minima and maxima grouped so that what depends on `late` comes last."""
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
    """The states whose values have only just been computed when an iteration begins: those that
    are computed from states.  What is only handed on is older."""
    every = set(states)
    return [
        state for state, e in zip(states, following, strict=False)
        if not isinstance(e, Var) and not every.isdisjoint(walk((e,)))
    ]  # fmt: skip
