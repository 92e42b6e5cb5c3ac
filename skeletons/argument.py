"""argmin and argmax on a CPU: vectors find the extreme, then one block is searched for its place.

    blocks     the extreme of every block; a row of a single block is searched at once
    combine    the extreme of these, the first block that has it, and its first place there

`greater` and `less` on pairs of a value and its place would cost several operations an element.
"""

from __future__ import annotations

from collections.abc import Sequence

from treadle.dsl.combines import argument_of, simple_combine
from treadle.dsl.expr import Const, Expr, Var
from treadle.dsl.graph import Fold
from treadle.dsl.scalar import apply_primitive
from treadle.dsl.simplify import select
from treadle.dsl.types import int64

from .combining import Elements, fold_partials
from .fold_along import Along
from .kernel import arithmetic as at
from .kernel.build import Builder
from .kernel.ir import Buffer, Store
from .kernel.linearize import Linearizer

_NEVER = Const(int64.highest, int64)
_FIRST = simple_combine("minimum", int64)


class ArgumentFold(Along):
    """Folds of (value, place) by an `argument_combine`."""

    def __init__(self, builder: Builder, node: Fold) -> None:
        self.type = node.combine.results[0].type
        self.better = argument_of(node.combine)
        extreme = "maximum" if self.better == "greater" else "minimum"
        self.extreme = simple_combine(extreme, self.type)
        super().__init__(builder, node)

    def in_order(self) -> bool:
        return False

    def neutral(self) -> tuple[Const, ...] | None:
        if self.type.kind == "bool":
            return None
        worst = self.type.lowest if self.better == "greater" else self.type.highest
        return Const(worst, self.type), _NEVER

    def partials(self, size: Expr) -> tuple[Buffer, ...]:
        return self.builder.scratch("partial", [self.type], size)

    def one(self, into: Linearizer, row: Expr, block: Expr, at_row: Sequence[Expr]) -> None:
        best = self._best(into, at_row, block)
        alone = at.equal(self.blocks, 1)
        with into.when(alone):
            place = self._place(into, at_row, block, best)
            self.finish(into, at_row, (best, place), self.count)
        with into.otherwise(alone):
            where = at.add(at.multiply(row, self.blocks), block)
            into.append(Store(self.scratch[0], where, best))

    def whole(self, into: Linearizer, at_row: Sequence[Expr], partial: Elements
              ) -> tuple[Var, ...]:  # fmt: skip
        (best,) = fold_partials(into, self.extreme, self.blocks, partial)

        def having(inner: Linearizer, b: Expr) -> tuple[Expr, ...]:
            (value,) = partial(inner, b)
            return (inner.let(select(self._is(value, best), b, _NEVER), "having"),)

        (block,) = fold_partials(into, _FIRST, self.blocks, having)
        return best, self._place(into, at_row, block, best)

    def _best(self, into: Linearizer, at_row: Sequence[Expr], block: Expr) -> Var:
        return self.fold_block(into, at_row, block, self.extreme, lambda _, pair: pair[:1])[0]

    def _place(self, into: Linearizer, at_row: Sequence[Expr], block: Expr, best: Expr) -> Var:
        """The first place in a block where `best` stands."""

        def place(inner: Linearizer, pair: tuple[Expr, ...]) -> tuple[Expr, ...]:
            value, where = pair
            return (inner.let(select(self._is(value, best), where, _NEVER), "place"),)

        return self.fold_block(into, at_row, block, _FIRST, place)[0]

    def _is(self, value: Expr, best: Expr) -> Expr:
        """Equal, or both not a number."""
        equal = apply_primitive("equal", [value, best])
        if not self.type.is_inexact:
            return equal
        nan = [apply_primitive("isnan", [e]) for e in (value, best)]
        return apply_primitive("logical_or", [equal, apply_primitive("logical_and", nan)])
