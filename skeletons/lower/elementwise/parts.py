"""Splits rows into parts in which the index conditions that guard reads are constant.

    out[i, j] = j < n ? a[i, j] : b[i, j − n]          joined arrays, padded ones, triangles

    for j in 0 … n     out[i, j] = a[i, j]
    for j in n … m     out[i, j] = b[i, j − n]

Without the split, a vector of such elements would load both sides under masks and select.  A
condition on the row itself (`i < n`) is tested once per row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field, replace

from treadle.dsl import expr as ex
from treadle.dsl.analysis.polynomial import Forms, Polynomial, affine_forms
from treadle.dsl.expr import Expr
from treadle.dsl.records import dataclass

from ...ir import arithmetic as at
from ...ir.linearize import Linearizer
from ..build import Builder

#: Up to MOST_PARTS parts of a row are always emitted; more if their total size is at most
#: MOST_WRITTEN times that of the unsplit row, as for joined arrays.
MOST_PARTS = 8
MOST_WRITTEN = 4
#: Sums of extents and indices are compared only if they cannot overflow: the largest constant and
#: the largest factor in them.
LARGEST_CONSTANT, LARGEST_FACTOR = 1 << 61, 1 << 20

Roots = tuple[Expr, ...]
#: Emits a part of a row: its range, the expressions computed there, and whether it is known to have
#: at most one element.
Part = Callable[[tuple[Expr, Expr], Sequence[Expr], bool], None]


@dataclass(frozen=True)
class Border:
    """`Index(axis) < Σ coefficient · term + constant`; `written` is its form in the program."""

    axis: int
    terms: tuple[tuple[Expr, int], ...]
    constant: int
    written: Expr | None = field(default=None, compare=False)

    def needs(self) -> set[int]:
        """The axes that the bound depends on."""
        return {t.axis for t, _ in self.terms if isinstance(t, ex.Index)}

    def bound(self) -> Expr:
        if self.written is not None:
            return self.written
        total: Expr = at.integer(0)
        for term, c in sorted(self.terms, key=lambda t: t[1], reverse=True):
            total = total + term if c == 1 else total + term * c
        return total + self.constant

    def implies(self, other: Border, below: bool) -> bool | None:
        """Whether `other` holds where this one does (`below`) or does not; None: undecided."""
        if other.axis != self.axis or len(other.terms) != len(self.terms):
            return None
        if set(other.terms) == set(self.terms):
            if below and other.constant >= self.constant:
                return True
            if not below and other.constant <= self.constant:
                return False
        return None


@dataclass(frozen=True)
class Split:
    """The expressions below a border, and from it on."""

    border: Border
    below: Split | Roots
    beyond: Split | Roots


def in_parts(into: Linearizer, builder: Builder, roots: Roots, indices: Mapping[int, Expr],
             axis: int, span: tuple[Expr, Expr], row: Part) -> None:  # fmt: skip
    """Call `row` for every part of `span` along `axis`, with the expressions computed there.

    `indices`: the known indices, by axis.
    """
    _emit(into, builder, parts(roots, axis, indices), indices, axis, span, row)


def _emit(into: Linearizer, builder: Builder, part: Split | Roots, indices: Mapping[int, Expr],
          axis: int, span: tuple[Expr, Expr], row: Part, low: int = 0, high: int = LARGEST_CONSTANT
          ) -> None:  # fmt: skip
    """`low` and `high`: constants that bound the range."""
    if not isinstance(part, Split):
        row(span, part, high - low <= 1)
        return
    border = part.border
    host = border.bound()
    if border.needs():
        with into.when_always({ex.Index(k): i for k, i in indices.items()}):
            bound = into.value(host, "bound")
    else:
        bound = builder.extent(host, "bound")
    if border.axis != axis:
        before = into.let(at.less(indices[border.axis], bound), "before")
        with into.when(before):
            _emit(into, builder, part.below, indices, axis, span, row, low, high)
        with into.otherwise(before):
            _emit(into, builder, part.beyond, indices, axis, span, row, low, high)
        return
    middle = into.let(at.minimum(at.maximum(span[0], bound), span[1]), "border")
    least, most = (low, high) if border.terms else (border.constant, border.constant)
    _emit(into, builder, part.below, indices, axis, (span[0], middle), row, low, min(high, most))
    _emit(into, builder, part.beyond, indices, axis, (middle, span[1]), row, max(low, least), high)


def parts(roots: Roots, axis: int, known: Collection[int]) -> Split | Roots:
    """The parts of a row along `axis`, given the indices of the axes `known`; `roots` if there is
    one part or too many."""
    if not any(isinstance(e, ex.Cond) for e in ex.walk(roots)):
        return roots
    borders = _Borders()
    for k in range(axis + 1):  # no index is below 0
        roots = borders.where(roots, Border(k, (), 0), False)
    found = _Division(borders, axis, known, roots).of(roots)
    return roots if found is None else found


class _Division:
    """Divides rows while the limit on parts permits."""

    def __init__(self, borders: _Borders, axis: int, known: Collection[int], roots: Roots) -> None:
        self.borders, self.axis, self.known = borders, axis, known
        self.parts = MOST_PARTS
        self.size = MOST_WRITTEN * sum(1 for _ in ex.walk(roots, ex.varies))

    def of(self, roots: Roots) -> Split | Roots | None:
        """The parts; None if they exceed the limit."""
        border = self.borders.first(roots, self.axis, self.known)
        if border is None:
            self.parts -= 1
            self.size -= sum(1 for _ in ex.walk(roots, ex.varies))
            return roots if self.parts >= 0 or self.size >= 0 else None
        below = self.of(self.borders.where(roots, border, True))
        if below is None:
            return None
        beyond = self.of(self.borders.where(roots, border, False))
        return None if beyond is None else Split(border, below, beyond)


def leaves_of(part: Split | Roots) -> list[Roots]:
    """The expressions of each part."""
    if isinstance(part, Split):
        return leaves_of(part.below) + leaves_of(part.beyond)
    return [part]


def _tests(e: Expr) -> list[Expr]:
    if isinstance(e, ex.Apply) and e.op.name in ("logical_and", "logical_or", "logical_not"):
        return [t for a in e.args for t in _tests(a)]
    return [e]


class _Borders:
    """The borders that comparisons represent, with memoisation."""

    def __init__(self) -> None:
        self.forms: Forms = {}
        self.found: dict[Expr, tuple[Border, bool] | None] = {}
        self.extents: dict[Expr, bool] = {}

    def _of(self, e: Expr) -> tuple[Border, bool] | None:
        """A comparison as (border, whether it holds below it)."""
        if not isinstance(e, ex.Apply) or e.op.name not in _STRICT:
            return None
        if e not in self.found:
            affine_forms(e.args, self.forms)
            self.found[e] = _border(e, self.forms, self.extents)
        return self.found[e]

    def first(self, roots: Roots, axis: int, known: Collection[int]) -> Border | None:
        """A border that guards reads: preferably one for whole rows, otherwise the outermost, so
        that the two sides have no part in common."""
        found = None
        for e in reversed(list(ex.walk(roots, ex.reads))):
            if not isinstance(e, ex.Cond) or not any(map(ex.reads, e.scoped)):
                continue
            for test in _tests(e.args[0]):
                made = self._of(test)
                if made is None or not all(k in known for k in made[0].needs()):
                    continue
                if made[0].axis in known:
                    return made[0]
                if made[0].axis == axis and found is None:
                    found = made[0]
        return found

    def where(self, roots: Roots, border: Border, below: bool) -> Roots:
        """`roots` below a border, or from it on."""

        def change(e: Expr) -> Expr:
            if isinstance(e, ex.Apply):
                made = self._of(e)
                implies = None if made is None else border.implies(made[0], below)
                if made is not None and implies is not None:
                    return ex.TRUE if implies == made[1] else ex.FALSE
            elif isinstance(e, ex.Proj) and isinstance(choice := e.args[0], ex.Cond):
                if choice.args[0] is ex.TRUE:
                    return choice.then[e.which]
                if choice.args[0] is ex.FALSE:
                    return choice.other[e.which]
            return e

        return ex.rewrite(roots, change, into=ex.varies)


def _border(e: ex.Apply, forms: Forms, extents: dict[Expr, bool]) -> tuple[Border, bool] | None:
    a, b = forms.get(e.args[0]), forms.get(e.args[1])
    if a is None or b is None:
        return None
    if e.op.name.startswith("greater"):
        a, b = b, a
    made = _below(b - a + (0 if _STRICT[e.op.name] else 1), extents)
    if made is not None and e.op.name == "less" and isinstance(e.args[0], ex.Index):
        return replace(made[0], written=None if e.args[1].varies else e.args[1]), made[1]
    return made


#: Comparisons, and whether equal operands fail them.
_STRICT = {"less": True, "greater": True, "less_equal": False, "greater_equal": False}


def _below(distance: Polynomial[Expr], extents: dict[Expr, bool]) -> tuple[Border, bool] | None:
    """distance > 0."""
    constant = distance.constant
    rest = {m[0]: c for m, c in distance.terms.items() if m}
    axis = max((t.axis for t, c in rest.items() if isinstance(t, ex.Index) and c in (1, -1)),
               default=None)  # fmt: skip
    large = abs(constant) >= LARGEST_CONSTANT or any(
        abs(c) >= LARGEST_FACTOR for c in rest.values()
    )
    if axis is None or large:
        return None
    sign = rest.pop(ex.Index(axis))
    if not all(_is_extent(t, extents) for t in rest):
        # Another scalar may have any value, so that a sum with it could overflow.
        if not (len(rest) == 1 and sign == -1 and constant == 0):
            return None
        ((term, c),) = rest.items()
        if not isinstance(term, ex.Param) or c != 1:
            return None
    if sign == -1:  # 0 < Σ + constant − index
        return Border(axis, tuple(rest.items()), constant), True
    # index > −Σ − constant, that is not  index < −Σ − constant + 1
    return Border(axis, tuple((t, -c) for t, c in rest.items()), 1 - constant), False


def _is_extent(e: Expr, known: dict[Expr, bool]) -> bool:
    """Whether a term consists of extents and indices, whose sums do not overflow; `known` caches
    the answers for terms and their parts."""
    if isinstance(e, ex.Index):
        return True
    for x in ex.walk((e,), lambda x: x not in known):
        known[x] = isinstance(x, ex.Extent | ex.Const) or (
            isinstance(x, ex.Apply) and all(known[a] for a in x.args)
        )
    return known[e]
