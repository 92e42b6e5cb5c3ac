"""Prove that an index is in range for all extents, as for slices and reversals.

    a[1:-1]      i + 1 < n     for  i < max(max(n − 1, 0) − 1, 0)

Each minimum or maximum equals one of its operands, and each choice yields a fact (a ≥ b if max(a,
b) is a).  If the domain is empty, nothing is read.  What remains are polynomials in extents, which
are non-negative.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from ..expr import Apply, Const, Expr, Extent, Index, rewrite, walk
from .polynomial import Polynomial, polynomial

_Form = Polynomial[Expr]

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
        known = [*facts, *(n - 1 for n in sides)]  # no axis is empty
        if any(_never_negative(-fact - 1) for fact in known):
            continue  # contradiction: impossible case
        low, high = _extreme(position, spans, least=True), _extreme(position, spans, least=False)
        if low is None or high is None:
            return False
        if not (_follows(low, known) and _follows(size - 1 - high, known)):
            return False
    return True


def _cases(roots: Sequence[Expr]) -> Iterator[tuple[list[_Form] | None, list[_Form]]]:
    """For each choice of operands for the minima and maxima: the roots as polynomials, and
    polynomials that are then non-negative; None if a root is not one, or there are too many
    choices."""
    atoms = [e for e in walk(roots) if isinstance(e, Apply) and e.op.name in _CHOICES]
    if len(atoms) > MOST_CHOICES:
        yield None, []
        return
    for taken in itertools.product((0, 1), repeat=len(atoms)):
        facts: list[_Form] = []
        memo: dict[Expr, Expr] = {}
        for e, first in zip(atoms, taken, strict=True):
            a, b = rewrite(e.args[-2:], lambda x: x, memo)
            chosen, other = (a, b) if first else (b, a)
            memo[e] = chosen
            p, q = polynomial(chosen), polynomial(other)
            if e.op.name != "select" and p is not None and q is not None:
                facts.append(p - q if e.op.name == "maximum" else q - p)
        made = [polynomial(e) for e in rewrite(roots, lambda x: x, memo)]
        whole = [p for p in made if p is not None]
        yield (whole if len(whole) == len(made) else None), facts


def _extreme(p: _Form, spans: dict[Index, _Form], least: bool) -> _Form | None:
    """The minimum or maximum over all indices of a domain; None if it cannot be determined."""
    total: _Form = Polynomial({})
    for monomial, c in p.terms.items():
        moving = [e for e in monomial if isinstance(e, Index)]
        if len(moving) > 1 or not all(isinstance(e, Index | Extent) for e in monomial if moving):
            return None
        if not moving:
            total += Polynomial({monomial: c})
        elif (c > 0) != least:  # at the last index: c · (span − 1)
            if len(monomial) > 1:
                return None
            total += (spans[moving[0]] - 1) * c
    return total


def _follows(p: _Form, known: Sequence[_Form]) -> bool:
    """Whether p ≥ 0, by itself or from a known non-negative polynomial."""
    return _never_negative(p) or any(_never_negative(p - fact) for fact in known)


def _never_negative(p: _Form) -> bool:
    """Whether p ≥ 0 term by term; for c < 0, c · (x // d) is at least −c' · x."""
    total: _Form = Polynomial({})
    for monomial, c in p.terms.items():
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
            total += inner * (c // int(d.value))
        else:
            total += Polynomial({monomial: c})
    return all(c >= 0 and all(isinstance(e, Extent) for e in m) for m, c in total.terms.items())
