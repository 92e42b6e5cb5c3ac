"""Families of graphs that differ only in the values of literals, such as `td.arange(k)` for
successive k: they share one program over run-time numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from ..expr import Const, Expr, Param
from ..graph import Fold, Generate, Input, Leaf, Permute, Scan, topological
from ..types import ScalarType, float32, float64, int64
from .rebuild import Rebuilder

#: Types of literals that may vary; and values with special meaning, which never vary.
_TYPES, _OWN = (int64, float32, float64), (0, 1, -1)
#: Nodes that compute the same bits from a literal and from a run-time value.
_NODES = frozenset((Input, Generate, Fold, Permute, Scan))


@lru_cache(maxsize=1024)
def _nth(number: int, type_: ScalarType, weak: bool) -> Param:
    """The placeholder number `number`, the same in all graphs."""
    return Param(f"literal {number}", type_, weak=weak)


class _Replaced(Rebuilder):
    """Replaces literals by others or by placeholders, equal ones by the same."""

    def __init__(self, known: Mapping[Expr, Expr] | None = None) -> None:
        super().__init__()
        self.known, self.found = known, dict[Const, Param]()

    def _read(self, e: Expr) -> Expr:
        if self.known is not None:
            return self.known.get(e) or super()._read(e)
        if isinstance(e, Const) and e.type in _TYPES and e.value not in _OWN:
            return self.found.setdefault(e, _nth(len(self.found), e.type, e.weak))
        return super()._read(e)

    def graph(self, roots: Sequence[Leaf]) -> list[Leaf]:
        for node in topological(roots):
            if type(node) is not Input:
                self.replace(node, self.over(node, self))
        return [self.leaf(r) for r in roots]


class Family:
    """Graphs equal over placeholders for literals, and the literals that have varied."""

    def __init__(self, roots: Sequence[Leaf], literals: Mapping[Const, Param]) -> None:
        self.roots, self.literals = roots, literals
        self.varied, self.graphs = dict[Param, None](), 0

    def join(self, literals: Mapping[Const, Param]) -> None:
        self.graphs += 1
        of = {param: e for e, param in self.literals.items()}
        self.varied.update({p: None for e, p in literals.items() if of[p] is not e})

    def general(
        self, literals: Mapping[Const, Param]
    ) -> tuple[list[Leaf], dict[Param, float]] | None:
        """The graph with numbers in place of the literals that vary, and their values for these
        literals.  None unless there are integers (extents or indices) among them: floats alone,
        such as the weights of a stencil, are part of the computation."""
        if not any(p.type is int64 for p in self.varied):
            return None
        of = {param: e for e, param in literals.items()}
        fixed: dict[Expr, Expr] = {p: e for p, e in of.items() if p not in self.varied}
        numbers = {p: of[p].value.item() for p in self.varied}
        return _Replaced(fixed).graph(self.roots), numbers


def without_literals(roots: Sequence[Leaf]) -> tuple[list[Leaf], dict[Const, Param]] | None:
    """A graph over placeholders for its literals, and the placeholders; None if it has nodes whose
    results might differ in a bit.  (A window of constant extents is added in another order.)"""
    for node in topological(roots):
        if type(node) not in _NODES or (isinstance(node, Fold) and len(node.inner) > 1):
            return None
    replaced = _Replaced()
    return replaced.graph(roots), replaced.found
