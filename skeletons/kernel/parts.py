"""Conditions on places are decided for whole parts of a row, where they guard reads.

    out[i, j] = j < n ? a[i, j] : b[i, j − n]          joined arrays, padded ones, triangles

    for j in 0 … n     out[i, j] = a[i, j]
    for j in n … m     out[i, j] = b[i, j − n]

A vector of such elements would load both sides, under masks, and choose.  A condition on the row
itself (`i < n`) is asked once a row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from treadle.dsl.expr import (
    FALSE,
    TRUE,
    Apply,
    Cond,
    Const,
    Expr,
    Extent,
    Index,
    Param,
    Proj,
    Read,
    rewrite,
    walk,
)

from . import arithmetic as at
from .affine import Affine, affine_forms
from .build import Builder
from .linearize import Linearizer

#: So many parts of a row, at most, are written out.
MOST_PARTS = 8

Roots = tuple[Expr, ...]
#: Emits a part of a row: from where to where, and what is computed there.
Part = Callable[[tuple[Expr, Expr], Sequence[Expr]], None]


@dataclass(frozen=True)
class Border:
    """`Index(axis) < Σ coefficient · term + constant`."""

    axis: int
    terms: tuple[tuple[Expr, int], ...]
    constant: int

    def needs(self) -> set[int]:
        """The axes that the bound depends on."""
        return {t.axis for t, _ in self.terms if isinstance(t, Index)}

    def bound(self) -> Expr:
        total: Expr = at.integer(0)
        for term, c in sorted(self.terms, key=lambda t: t[1], reverse=True):
            total = at.add(total, term) if c == 1 else at.add(total, at.multiply(term, c))
        return at.add(total, self.constant)

    def says(self, other: Border, below: bool) -> bool | None:
        """Whether `other` holds where this one does (`below`) or does not; None: perhaps."""
        if other.axis == self.axis and set(other.terms) == set(self.terms):
            if below and other.constant >= self.constant:
                return True
            if not below and other.constant <= self.constant:
                return False
        return None


@dataclass(frozen=True)
class Split:
    """What is computed below a border, and from it on."""

    border: Border
    below: Split | Roots
    beyond: Split | Roots


def in_parts(into: Linearizer, builder: Builder, roots: Roots, place: Mapping[int, Expr], axis: int,
             span: tuple[Expr, Expr], row: Part) -> None:  # fmt: skip
    """`row` for every part of `span` along `axis`, with what is computed there.

    `place`: the indices that are known, by axis.
    """
    _emit(into, builder, parts(roots, axis, place), place, axis, span, row)


def _emit(into: Linearizer, builder: Builder, part: Split | Roots, place: Mapping[int, Expr],
          axis: int, span: tuple[Expr, Expr], row: Part) -> None:  # fmt: skip
    if not isinstance(part, Split):
        row(span, part)
        return
    border = part.border
    host = border.bound()
    if border.needs():
        with into.when_always({Index(k): i for k, i in place.items()}):
            bound = into.value(host, "bound")
    else:
        bound = builder.extent(host, "bound")
    if border.axis != axis:
        before = into.let(at.less(place[border.axis], bound), "before")
        with into.when(before):
            _emit(into, builder, part.below, place, axis, span, row)
        with into.otherwise(before):
            _emit(into, builder, part.beyond, place, axis, span, row)
        return
    middle = into.let(at.minimum(at.maximum(span[0], bound), span[1]), "border")
    _emit(into, builder, part.below, place, axis, (span[0], middle), row)
    _emit(into, builder, part.beyond, place, axis, (middle, span[1]), row)


def parts(roots: Roots, axis: int, known: Collection[int]) -> Split | Roots:
    """The parts of a row along `axis`, where the indices of the axes `known` are; `roots` where
    there is one, or too many."""
    if not any(isinstance(e, Cond) for e in walk(roots)):
        return roots
    for k in range(axis + 1):  # no index is below 0
        roots = _where(roots, Border(k, (), 0), False)
    found, _ = _divide(roots, axis, known, MOST_PARTS)
    return roots if found is None else found


def _divide(roots: Roots, axis: int, known: Collection[int], left: int
            ) -> tuple[Split | Roots | None, int]:  # fmt: skip
    """The parts (None: more than `left`), and how many more there may be."""
    border = _first_border(roots, axis, known)
    if border is None:
        return (roots if left > 0 else None), left - 1
    below, left = _divide(_where(roots, border, True), axis, known, left)
    if below is None:
        return None, left
    beyond, left = _divide(_where(roots, border, False), axis, known, left)
    return (None if beyond is None else Split(border, below, beyond)), left


def leaves_of(part: Split | Roots) -> list[Roots]:
    """What is computed in each part."""
    if isinstance(part, Split):
        return leaves_of(part.below) + leaves_of(part.beyond)
    return [part]


def _first_border(roots: Roots, axis: int, known: Collection[int]) -> Border | None:
    """One that guards reads: of the rows as a whole, if there is one."""
    forms = affine_forms(roots)
    found = None
    reads: dict[Expr, bool] = {}  # whether a node is or holds a read; children come first
    for e in walk(roots):
        reads[e] = isinstance(e, Read) or any(reads[x] for x in (*e.args, *e.scoped))
        if not isinstance(e, Cond) or not any(reads[x] for x in e.scoped):
            continue
        for test in _tests(e.args[0]):
            made = _border(test, forms)
            if made is None or not all(k in known for k in made[0].needs()):
                continue
            if made[0].axis in known:
                return made[0]
            if made[0].axis == axis and found is None:
                found = made[0]
    return found


def _tests(e: Expr) -> list[Expr]:
    if isinstance(e, Apply) and e.op.name in ("logical_and", "logical_or", "logical_not"):
        return [t for a in e.args for t in _tests(a)]
    return [e]


def _where(roots: Roots, border: Border, below: bool) -> Roots:
    """`roots` below a border, or from it on."""
    forms = affine_forms(roots)

    def change(e: Expr) -> Expr:
        if isinstance(e, Apply):
            made = _border(e, forms)
            says = None if made is None else border.says(made[0], below)
            if made is not None and says is not None:
                return TRUE if says == made[1] else FALSE
        elif isinstance(e, Proj) and isinstance(choice := e.args[0], Cond):
            if choice.args[0] is TRUE:
                return choice.then[e.which]
            if choice.args[0] is FALSE:
                return choice.other[e.which]
        return e

    return rewrite(roots, change)


def _border(e: Expr, forms: Mapping[Expr, Affine | None]) -> tuple[Border, bool] | None:
    """A comparison as (border, whether it holds below it)."""
    if not isinstance(e, Apply) or e.op.name not in _STRICT:
        return None
    a, b = forms.get(e.args[0]), forms.get(e.args[1])
    if a is None or b is None:
        return None
    if e.op.name.startswith("greater"):
        a, b = b, a
    return _below(a, b, 0 if _STRICT[e.op.name] else 1)


#: Comparisons, and whether equal numbers fail them.
_STRICT = {"less": True, "greater": True, "less_equal": False, "greater_equal": False}


def _below(a: Affine, b: Affine, more: int) -> tuple[Border, bool] | None:
    """a < b + more."""
    total: dict[Expr, int] = dict(b.terms)
    for term, c in a.terms:
        total[term] = total.get(term, 0) - c
    constant = b.constant - a.constant + more
    axis = max((t.axis for t, c in total.items() if isinstance(t, Index) and c in (1, -1)),
               default=None)  # fmt: skip
    if axis is None:
        return None
    sign = total.pop(Index(axis))
    rest = {t: c for t, c in total.items() if c}
    if not all(map(_is_extent, rest)):
        # Another number of the program may be anything: only where nothing is added to it.
        if not (len(rest) == 1 and sign == -1 and constant == 0):
            return None
        ((term, c),) = rest.items()
        if not isinstance(term, Param) or c != 1:
            return None
    if sign == -1:  # 0 < Σ + constant − index
        return Border(axis, tuple(rest.items()), constant), True
    # index > −Σ − constant, that is not  index < −Σ − constant + 1
    return Border(axis, tuple((t, -c) for t, c in rest.items()), 1 - constant), False


def _is_extent(e: Expr) -> bool:
    """Whether a term is made of extents and places, whose sums do not overflow."""
    if isinstance(e, Index):
        return True
    return all(isinstance(x, Apply | Extent | Const) for x in walk((e,)))


__all__ = ["Border", "Part", "Split", "in_parts", "leaves_of", "parts"]
