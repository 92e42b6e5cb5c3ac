"""Affine forms of index expressions, and the access maps built from them.

An index is affine if it equals  Σ cᵥ·v + Σ cₛ·s + c  with integer coefficients over index variables
v (Index, the variable of a counted loop) and run-time constants s (extents, parameters).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from treadle.dsl.expr import Apply, Const, Expr, Extent, Index, Loop, Param, Var, walk

#: A sum of more run-time constants is treated as one constant.
MOST_TERMS = 8


@dataclass(frozen=True)
class Affine:
    """Σ coefficient·term + constant; terms are Index, Var, or run-time constants."""

    terms: tuple[tuple[Expr, int], ...]
    constant: int

    @property
    def variables(self) -> dict[Expr, int]:
        """The coefficients of index variables."""
        return {t: c for t, c in self.terms if isinstance(t, Index | Var)}

    @property
    def uniform(self) -> tuple[tuple[Expr, int], ...]:
        """The run-time constants with their coefficients."""
        return tuple((t, c) for t, c in self.terms if not isinstance(t, Index | Var))


def affine_forms(roots: Iterable[Expr], known: dict[Expr, Affine | None] | None = None
                 ) -> dict[Expr, Affine | None]:  # fmt: skip
    """The affine form of every node under `roots`, or None if it has none.  Forms in `known` are
    reused, and new ones added to it."""
    forms = {} if known is None else known
    for e in walk(roots, lambda e: e not in forms):
        if e not in forms:
            integer = e.type is not None and e.type.name == "int64"
            forms[e] = _form(e, forms) if integer else None
    return forms


def affine(e: Expr) -> Affine | None:
    return affine_forms((e,))[e]


def _form(e: Expr, forms: dict[Expr, Affine | None]) -> Affine | None:
    if isinstance(e, Const):
        return Affine((), int(e.value))
    if isinstance(e, Index | Var | Extent | Param):
        return Affine(((e, 1),), 0)
    if not isinstance(e, Apply):
        return None
    parts = [forms.get(a) for a in e.args]
    if e.op.name in ("add", "subtract") and len(parts) == 2:
        if parts[0] is not None and parts[1] is not None:
            found = _sum(parts[0], parts[1], 1 if e.op.name == "add" else -1)
            if len(found.terms) > MOST_TERMS and not e.varies:
                return Affine(((e, 1),), 0)
            return found
        return None
    if e.op.name == "negative" and parts[0] is not None:
        return _sum(Affine((), 0), parts[0], -1)
    if e.op.name == "multiply":
        for form, other in ((parts[0], parts[1]), (parts[1], parts[0])):
            if form is not None and other is not None and not other.terms:
                return _sum(Affine((), 0), form, other.constant)
    if all(p is not None and not p.variables for p in parts):
        return Affine(((e, 1),), 0)  # a run-time constant
    return None


def _sum(a: Affine, b: Affine, factor: int) -> Affine:
    total: dict[Expr, int] = dict(a.terms)
    for term, c in b.terms:
        total[term] = total.get(term, 0) + factor * c
    kept = tuple((t, c) for t, c in total.items() if c)
    return Affine(kept, a.constant + factor * b.constant)


def loop_counts(roots: Iterable[Expr]) -> dict[Var, Expr]:
    """The index variables of counted loops with their counts."""
    return {e.vars[0]: e.count for e in walk(roots) if isinstance(e, Loop)}
