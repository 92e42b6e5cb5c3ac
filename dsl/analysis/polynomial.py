"""Polynomials with integer coefficients: index arithmetic in canonical form.

The language uses them to prove that indices are in range, access analysis to derive index maps, and
code generation to find equal and neighbouring addresses.  An expression becomes a polynomial in one
of two ways:

    polynomial      (i + 1) * n  →  n·i + n     everything is expanded
    affine_forms    i + n * m    →  i + [n·m]   linear in indices; a run-time constant that is not
                                                a sum is one term, and n * i has no form
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

from .. import expr as ex
from ..expr import Expr
from ..graph import Input

A = TypeVar("A", bound=Hashable)

#: Products of polynomials with more terms are not expanded.
_MOST_PRODUCTS = 64
#: A sum of more run-time constants is one term of an affine form.
MOST_TERMS = 8


class Polynomial(Generic[A]):
    """Σ coefficient · monomial over atoms: expressions, or numbers of registers.

    `terms` maps monomials, which are sorted tuples of atoms, to nonzero coefficients.  Polynomials
    are immutable; equal ones have equal terms in any order.
    """

    __slots__ = ("terms",)

    def __init__(self, terms: dict[tuple[A, ...], int]) -> None:
        self.terms = terms

    @staticmethod
    def number(value: int) -> Polynomial[A]:
        return Polynomial({(): value} if value else {})

    @staticmethod
    def atom(atom: A) -> Polynomial[A]:
        return Polynomial({(atom,): 1})

    @property
    def key(self) -> frozenset[tuple[tuple[A, ...], int]]:
        """The terms, hashable: faster to look up than the polynomial itself."""
        return frozenset(self.terms.items())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Polynomial) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(self.key)

    def __add__(self, other: Polynomial[A] | int) -> Polynomial[A]:
        return self._plus(other, 1)

    def __sub__(self, other: Polynomial[A] | int) -> Polynomial[A]:
        return self._plus(other, -1)

    def __neg__(self) -> Polynomial[A]:
        return Polynomial({m: -c for m, c in self.terms.items()})

    def _plus(self, other: Polynomial[A] | int, sign: int) -> Polynomial[A]:
        terms = self.terms.copy()
        for monomial, c in (((), other),) if isinstance(other, int) else other.terms.items():
            total = terms.get(monomial, 0) + sign * c
            if total:
                terms[monomial] = total
            else:
                terms.pop(monomial, None)
        return Polynomial(terms)

    def __mul__(self, other: Polynomial[A] | int) -> Polynomial[A]:
        terms: dict[tuple[A, ...], int] = {}
        factors = {(): other} if isinstance(other, int) else other.terms
        for first, c in self.terms.items():
            for second, d in factors.items():
                both = tuple(sorted(first + second, key=_order)) if first and second else (
                    first or second)  # fmt: skip
                terms[both] = terms.get(both, 0) + c * d
        return Polynomial({m: c for m, c in terms.items() if c})

    @property
    def constant(self) -> int:
        return self.terms.get((), 0)

    @property
    def nonconstant(self) -> Polynomial[A]:
        return Polynomial({m: c for m, c in self.terms.items() if m})

    @property
    def value(self) -> int | None:
        """The value of a constant polynomial, else None."""
        if not self.terms:
            return 0
        return self.terms.get(()) if len(self.terms) == 1 else None

    @property
    def degree(self) -> int:
        return max(map(len, self.terms), default=0)

    def coefficient(self, atom: A) -> int:
        return self.terms.get((atom,), 0)

    def atoms(self) -> set[A]:
        return {atom for monomial in self.terms for atom in monomial}


def _order(atom: object) -> tuple[int, int, int]:
    """The order of the factors of a monomial."""
    match atom:
        case int():
            return 0, atom, 0
        case ex.Var() | ex.Param():
            return 0, atom.uid, 0
        case ex.Index():
            return 1, atom.axis, 0
        case ex.Extent():
            return 2, atom.node.uid, atom.axis
    return 3, 0, 0


def arithmetic(operation: str, args: Sequence[Polynomial[A]]) -> Polynomial[A] | None:
    """An operation of the language on polynomials; None if its result is not one."""
    if operation == "add":
        return args[0] + args[1]
    if operation == "subtract":
        return args[0] - args[1]
    if operation == "multiply":
        return args[0] * args[1]
    return -args[0] if operation == "negative" else None


# --- of expressions --------------------------------------------------------------------------

Forms = dict[Expr, Polynomial[Expr] | None]


def polynomial(e: Expr, memo: Forms | None = None) -> Polynomial[Expr] | None:
    """An integer expression as a polynomial, None if it is not one.

    >>> from treadle.dsl.expr import Index, constant
    >>> from treadle.dsl.scalar import apply_primitive
    >>> polynomial(apply_primitive("add", [Index(0), constant(2)])).terms == {(Index(0),): 1, (): 2}
    True
    """
    done: Forms = {} if memo is None else memo
    for node in ex.unknown((e,), done):
        done[node] = _polynomial(node, done)
    return done[e]


def _polynomial(e: Expr, done: Forms) -> Polynomial[Expr] | None:
    if isinstance(e, ex.Const):
        return Polynomial.number(int(e.value)) if e.type.is_integer else None
    if isinstance(e, ex.Index | ex.Extent | ex.Param | ex.Var):
        return Polynomial.atom(e)
    if not isinstance(e, ex.Apply):
        return None
    if e.op.name == "cast" and e.type.is_integer and e.args[0].type.is_integer:
        return done[e.args[0]]
    parts = [p for a in e.args if (p := done[a]) is not None]
    if len(parts) == len(e.args):
        if e.op.name == "multiply" and len(parts[0].terms) * len(parts[1].terms) > _MOST_PRODUCTS:
            return None
        found = arithmetic(e.op.name, parts)
        if found is not None:
            return found
    return Polynomial.atom(e) if e.type.is_integer and _is_fixed(e) else None


def _is_fixed(e: Expr) -> bool:
    """Whether an expression is constant during a launch: it contains only extents and scalars."""
    if e.varies or e.reads:
        return False
    return all(isinstance(x, ex.Const | ex.Extent | ex.Param | ex.Apply) for x in ex.walk((e,)))


def affine(e: Expr) -> Polynomial[Expr] | None:
    return affine_forms((e,))[e]


def affine_forms(roots: Iterable[Expr], known: Forms | None = None) -> Forms:
    """The affine form of every int64 expression under `roots`: a polynomial of degree 1 over
    indices and run-time constants; None for others.  Forms in `known` are reused, and new ones
    added to it."""
    forms: Forms = {} if known is None else known
    for e in ex.unknown(roots, forms):
        integer = e.type is not None and e.type.name == "int64"
        forms[e] = _affine(e, forms) if integer else None
    return forms


def _affine(e: Expr, forms: Forms) -> Polynomial[Expr] | None:
    if isinstance(e, ex.Const):
        return Polynomial.number(int(e.value))
    if isinstance(e, ex.Index | ex.Var | ex.Extent | ex.Param):
        return Polynomial.atom(e)
    if not isinstance(e, ex.Apply):
        return None
    parts = [p for a in e.args if (p := forms.get(a)) is not None]
    if len(parts) < len(e.args):
        return None
    if e.op.name != "multiply" or any(p.value is not None for p in parts):
        found = arithmetic(e.op.name, parts)
        if found is not None and (e.varies or len(found.nonconstant.terms) <= MOST_TERMS):
            return found
    return None if any(map(variables, parts)) else Polynomial.atom(e)


def variables(form: Polynomial[Expr]) -> dict[Expr, int]:
    """The indices (of axes and of loops) in an affine form, with their coefficients."""
    return {m[0]: c for m, c in form.terms.items() if m and isinstance(m[0], ex.Index | ex.Var)}


# --- text ------------------------------------------------------------------------------------


def show(p: Polynomial[Expr], name: Callable[[Expr], str]) -> str:
    """`i + 2·j − n`, the constant last; "" for 0.

    Extents are sorted by name: their node numbers depend on when the arrays were first used,
    possibly in another program.
    """

    def order(e: Expr) -> tuple[int, int, str]:
        kind, number, _ = _order(e)
        return (kind, len(name(e)), name(e)) if isinstance(e, ex.Extent) else (kind, number, "")

    def first(e: Expr) -> tuple[int, int, str]:
        """Sort key of terms: indices precede scalars, extents and computed values."""
        kind, *rest = order(e)
        return (1 - kind if kind < 2 else kind, *rest)  # type: ignore[return-value]

    ordered = [(sorted(m, key=order), c) for m, c in p.terms.items()]
    ordered.sort(key=lambda t: (not t[0], list(map(first, t[0]))))
    text, alone = "", len(ordered) == 1 and ordered[0][1] == 1 and len(ordered[0][0]) == 1
    for monomial, c in ordered:
        names = map(name, monomial)
        factors = next(names) if alone else "·".join(map(in_parentheses, names))
        size = abs(c)
        body = factors if size == 1 and factors else (f"{size}·{factors}" if factors else str(size))
        sign = "-" if c < 0 else "+"
        text = f"{text} {sign} {body}" if text else (f"-{body}" if c < 0 else body)
    return text


def in_parentheses(text: str) -> str:
    """A formula as a part of another: `(n - 1)`, but `n` and `min(n, m)`."""
    depth = 0
    for c in text:
        depth += (c in "([") - (c in ")]")
        if c == " " and not depth:
            return f"({text})"
    return text


# --- Proofs that an index is in range for all extents, as for slices and reversals ----------------
#     a[1:-1]      i + 1 < n     for  i < max(max(n − 1, 0) − 1, 0)
#
# Each minimum or maximum equals one of its operands, and each choice yields a fact (a ≥ b if
# max(a, b) is a).  If the domain is empty, nothing is read.  What remains are polynomials in
# extents and counters of loops, which are non-negative.

_Form = Polynomial[Expr]

#: The most minima and maxima considered in an index, its axis and the domain.
MOST_CHOICES = 6
_CHOICES = ("minimum", "maximum", "select")


def always_inside(index: Expr, extent: Expr, over: Sequence[Expr | None]) -> bool:
    """Whether 0 ≤ index < extent is provable over a domain of these extents (None: unknown)."""
    axes = sorted({e.axis for e in ex.walk((index,)) if isinstance(e, ex.Index)})
    if any(k >= len(over) or over[k] is None for k in axes):
        return False
    lengths = [e for k in axes if (e := over[k]) is not None]
    roots, counters = _counted((index, extent, *lengths))
    for found, facts in _cases(roots):
        if found is None:
            return False
        position, size, *sides = found
        spans = dict(zip(map(ex.Index, axes), sides, strict=True))
        known = [*facts, *(n - 1 for n in sides)]  # no axis is empty
        if any(_never_negative(-fact - 1, counters) for fact in known):
            continue  # contradiction: impossible case
        low, high = _extreme(position, spans, least=True), _extreme(position, spans, least=False)
        if low is None or high is None:
            return False
        if not all(_follows(p, known, counters) for p in (low, size - 1 - high)):
            return False
    return True


def _counted(roots: tuple[Expr, ...]) -> tuple[tuple[Expr, ...], set[Expr]]:
    """The roots with loop counters, which are never negative, as variables; and these."""
    counters: dict[Expr, Expr] = {
        e: ex.Var("counter", e.type) for e in ex.walk(roots)
        if isinstance(e, ex.Read) and isinstance(e.node, Input) and e.node.kind == "counter"
    }  # fmt: skip
    return ex.substitute(roots, counters) if counters else roots, set(counters.values())


def _cases(roots: Sequence[Expr]) -> Iterator[tuple[list[_Form] | None, list[_Form]]]:
    """For each choice of operands for the minima and maxima: the roots as polynomials, and
    polynomials that are then non-negative; None if a root is not one, or there are too many
    choices."""
    atoms = [e for e in ex.walk(roots) if isinstance(e, ex.Apply) and e.op.name in _CHOICES]
    if len(atoms) > MOST_CHOICES:
        yield None, []
        return
    for taken in itertools.product((0, 1), repeat=len(atoms)):
        facts: list[_Form] = []
        memo: dict[Expr, Expr] = {}
        for e, first in zip(atoms, taken, strict=True):
            a, b = ex.rewrite(e.args[-2:], lambda x: x, memo)
            chosen, other = (a, b) if first else (b, a)
            memo[e] = chosen
            p, q = polynomial(chosen), polynomial(other)
            if e.op.name != "select" and p is not None and q is not None:
                facts.append(p - q if e.op.name == "maximum" else q - p)
        made = [polynomial(e) for e in ex.rewrite(roots, lambda x: x, memo)]
        whole = [p for p in made if p is not None]
        yield (whole if len(whole) == len(made) else None), facts


def _extreme(p: _Form, spans: dict[ex.Index, _Form], least: bool) -> _Form | None:
    """The minimum or maximum over all indices of a domain; None if it cannot be determined."""
    total: _Form = Polynomial({})
    for monomial, c in p.terms.items():
        moving = [e for e in monomial if isinstance(e, ex.Index)]
        if len(moving) > 1 or not all(
            isinstance(e, ex.Index | ex.Extent) for e in monomial if moving
        ):
            return None
        if not moving:
            total += Polynomial({monomial: c})
        elif (c > 0) != least:  # at the last index: c · (span − 1)
            if len(monomial) > 1:
                return None
            total += (spans[moving[0]] - 1) * c
    return total


def _follows(p: _Form, known: Sequence[_Form], counters: set[Expr]) -> bool:
    """Whether p ≥ 0, by itself or from a known non-negative polynomial."""
    return _never_negative(p, counters) or any(_never_negative(p - x, counters) for x in known)


def _never_negative(p: _Form, counters: set[Expr]) -> bool:
    """Whether p ≥ 0 term by term; for c < 0, c · (x // d) is at least −c' · x."""
    total: _Form = Polynomial({})
    for monomial, c in p.terms.items():
        quotient = monomial[0] if len(monomial) == 1 else None
        if (
            c < 0
            and isinstance(quotient, ex.Apply)
            and quotient.op.name == "floor_divide"
            and isinstance(d := quotient.args[1], ex.Const)
            and int(d.value) > 0
            and not c % int(d.value)
            and (inner := polynomial(quotient.args[0])) is not None
        ):
            total += inner * (c // int(d.value))
        else:
            total += Polynomial({monomial: c})
    return all(
        c >= 0 and all(isinstance(e, ex.Extent) or e in counters for e in m)
        for m, c in total.terms.items()
    )
