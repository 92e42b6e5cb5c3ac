"""Prove that an index is in range for all extents, as for slices and reversals.

    a[1:-1]      i + 1 < n     for  i < max(max(n − 1, 0) − 1, 0)

Each minimum or maximum equals one of its operands, and each choice yields a fact (a ≥ b if max(a,
b) is a).  If the domain is empty, nothing is read.  What remains are polynomials in extents, which
are non-negative.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from .access import Polynomial, polynomial
from .expr import Apply, Const, Expr, Extent, Index, rewrite, walk

#: The most minima and maxima considered in an index, its axis and the domain.
MOST_CHOICES = 6
_CHOICES = ("minimum", "maximum", "select")


def always_inside(index: Expr, extent: Expr, over: Sequence[Expr | None]) -> bool:
    """Whether 0 ≤ index < extent is provable over a domain of these extents (None: unknown)."""
    axes = sorted({e.axis for e in walk((index,)) if isinstance(e, Index)})
    if any(k >= len(over) or over[k] is None for k in axes):
        return False
    lengths = [e for k in axes if (e := over[k]) is not None]
    for found, facts in _cases((index, extent, *lengths)):
        if found is None:
            return False
        position, size, *sides = found
        spans = dict(zip(map(Index, axes), sides, strict=True))
        known = [*facts, *(_minus(n, {(): 1}) for n in sides)]  # no axis is empty
        if any(_never_negative(_minus({(): -1}, fact)) for fact in known):
            continue  # contradiction: impossible case
        low, high = _extreme(position, spans, least=True), _extreme(position, spans, least=False)
        if low is None or high is None:
            return False
        slack = _minus(_minus(size, {(): 1}), high)
        if not (_follows(low, known) and _follows(slack, known)):
            return False
    return True


def _cases(
    roots: Sequence[Expr],
) -> Iterator[tuple[list[Polynomial] | None, list[Polynomial]]]:
    """For each choice of operands for the minima and maxima: the roots as polynomials, and
    polynomials that are then non-negative; None if a root is not one, or there are too many
    choices."""
    atoms = [e for e in walk(roots) if isinstance(e, Apply) and e.op.name in _CHOICES]
    if len(atoms) > MOST_CHOICES:
        yield None, []
        return
    for taken in itertools.product((0, 1), repeat=len(atoms)):
        facts: list[Polynomial] = []
        memo: dict[Expr, Expr] = {}
        for e, first in zip(atoms, taken, strict=True):
            a, b = rewrite(e.args[-2:], lambda x: x, memo)
            chosen, other = (a, b) if first else (b, a)
            memo[e] = chosen
            p, q = polynomial(chosen), polynomial(other)
            if e.op.name != "select" and p is not None and q is not None:
                facts.append(_minus(p, q) if e.op.name == "maximum" else _minus(q, p))
        made = [polynomial(e) for e in rewrite(roots, lambda x: x, memo)]
        whole = [p for p in made if p is not None]
        yield (whole if len(whole) == len(made) else None), facts


def _minus(a: Polynomial, b: Polynomial) -> Polynomial:
    total = dict(a)
    for m, c in b.items():
        total[m] = total.get(m, 0) - c
    return {m: c for m, c in total.items() if c}


def _extreme(p: Polynomial, spans: dict[Index, Polynomial], least: bool) -> Polynomial | None:
    """The minimum or maximum over all indices of a domain; None if it cannot be determined."""
    total: Polynomial = {}
    for monomial, c in p.items():
        moving = [e for e in monomial if isinstance(e, Index)]
        if len(moving) > 1 or not all(isinstance(e, Index | Extent) for e in monomial if moving):
            return None
        if not moving:
            total = _minus(total, {monomial: -c})
        elif (c > 0) != least:  # at the last index: c · (span − 1) · rest
            rest = tuple(e for e in monomial if e is not moving[0])
            if rest:
                return None
            for m, k in _minus(spans[moving[0]], {(): 1}).items():
                total = _minus(total, {m: -k * c})
    return total


def _follows(p: Polynomial, known: Sequence[Polynomial]) -> bool:
    """Whether p ≥ 0, by itself or from a known non-negative polynomial."""
    return any(_never_negative(_minus(p, fact)) for fact in ({}, *known))


def _never_negative(p: Polynomial) -> bool:
    """Whether p ≥ 0 term by term; for c < 0, c · (x // d) is at least −c' · x."""
    total: Polynomial = {}
    for monomial, c in p.items():
        quotient = monomial[0] if len(monomial) == 1 else None
        if (
            c < 0
            and isinstance(quotient, Apply)
            and quotient.op.name == "floor_divide"
            and isinstance(d := quotient.args[1], Const)
            and int(d.value) > 0
            and not c % int(d.value)
            and (inner := polynomial(quotient.args[0])) is not None
        ):
            for m, k in inner.items():
                total = _minus(total, {m: -(c // int(d.value)) * k})
        else:
            total = _minus(total, {monomial: -c})
    return all(c >= 0 and all(isinstance(e, Extent) for e in m) for m, c in total.items())
