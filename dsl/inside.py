"""Whether an index is inside its axis whatever the extents are: of slices, reversals and the like.

    a[1:-1]      i + 1 < n     for  i < max(max(n − 1, 0) − 1, 0)

A minimum or maximum is one of its operands, and each choice says something (a ≥ b where max(a, b)
is a); where the domain is empty nothing is read.  What is left are sums of products of extents,
which are 0 or more.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from .access import Polynomial, polynomial
from .expr import Apply, Const, Expr, Extent, Index, rewrite, walk

#: Minima and maxima of an index, its axis and the domain, at most.
MOST_CHOICES = 6
_CHOICES = ("minimum", "maximum", "select")


def always_inside(index: Expr, extent: Expr, over: Sequence[Expr | None]) -> bool:
    """Whether 0 ≤ index < extent for every element of a domain of these extents (None: unknown).
    False where that is not plain."""
    axes = sorted({e.axis for e in walk((index,)) if isinstance(e, Index)})
    if any(k >= len(over) or over[k] is None for k in axes):
        return False
    lengths = [e for k in axes if (e := over[k]) is not None]
    for found, facts in _cases((index, extent, *lengths)):
        if found is None:
            return False
        place, size, *sides = found
        spans = dict(zip(map(Index, axes), sides, strict=True))
        known = [*facts, *(_minus(n, {(): 1}) for n in sides)]  # no axis is empty
        if any(_never_negative(_minus({(): -1}, fact)) for fact in known):
            continue  # this cannot be
        low, high = _extreme(place, spans, least=True), _extreme(place, spans, least=False)
        if low is None or high is None:
            return False
        room = _minus(_minus(size, {(): 1}), high)
        if not (_follows(low, known) and _follows(room, known)):
            return False
    return True


def _cases(
    roots: Sequence[Expr],
) -> Iterator[tuple[list[Polynomial] | None, list[Polynomial]]]:
    """The roots for every choice among their minima and maxima, with what is 0 or more then; None
    where they are no polynomials, or the choices too many."""
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
    """The least or the greatest value over the places of a domain, None if that is not plain."""
    total: Polynomial = {}
    for monomial, c in p.items():
        moving = [e for e in monomial if isinstance(e, Index)]
        if len(moving) > 1 or not all(isinstance(e, Index | Extent) for e in monomial if moving):
            return None
        if not moving:
            total = _minus(total, {monomial: -c})
        elif (c > 0) != least:  # at the last place: c · (span − 1) · the others
            rest = tuple(e for e in monomial if e is not moving[0])
            if rest:
                return None
            for m, k in _minus(spans[moving[0]], {(): 1}).items():
                total = _minus(total, {m: -k * c})
    return total


def _follows(p: Polynomial, known: Sequence[Polynomial]) -> bool:
    """Whether p ≥ 0, by itself or because of something known to be 0 or more."""
    return any(_never_negative(_minus(p, fact)) for fact in ({}, *known))


def _never_negative(p: Polynomial) -> bool:
    """Whether all terms are 0 or more; c · (x // d) is no less than −c' · x for c < 0."""
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
