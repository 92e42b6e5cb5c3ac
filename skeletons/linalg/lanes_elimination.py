"""Systems, inverses, LU and Cholesky factors of many matrices on a CPU, one a lane.

for k < n:  pivot, exchange rows (lanes differ), subtract multiples of row k from those below
back substitution
"""

from __future__ import annotations

from treadle.dsl import simplify
from treadle.dsl.expr import FALSE, Const, Expr, Var
from treadle.dsl.graph import Library
from treadle.dsl.scalar import apply_primitive
from treadle.dsl.types import int32

from ..ir import arithmetic as at
from ..ir.kernel import Assign, Store
from ..ir.linearize import Linearizer
from ..lower.build import Builder
from .lanes import Lanes, Local
from .small import conjugate, constant_of, negative, number, over, real, size


class Elimination(Lanes):
    """`inv`, `solve` and `lu`, with partial pivoting."""

    def __init__(self, builder: Builder, node: Library) -> None:
        super().__init__(builder, node)
        self.what = node.operation.name.removeprefix("linalg.")
        self.out, self.other = builder.outputs()
        self.columns = number(node.outs[0].shape[-1])
        self.x = None if self.what == "lu" else self.local("x", self.n, self.columns)

    def compute(self, into: Linearizer, matrix: Expr) -> None:
        self.load(into, matrix, self.node.arguments[0], self.a)
        if self.what == "lu":
            self._eliminate(into, matrix * self.n)
            self.store(into, matrix, self.out, self.n, self.n,
                       lambda i, j: self.get(into, self.a, i, j))  # fmt: skip
            return
        assert self.x is not None
        x = self.x
        if self.what == "solve":
            self.load(into, matrix, self.node.arguments[1], x)
        else:
            self.unit(into, x)
        into.append(Store(self.other, matrix, self._eliminate(into, None)))
        self._substitute(into, x)
        self.store(into, matrix, self.out, self.n, self.columns,
                   lambda i, j: self.get(into, x, i, j))  # fmt: skip

    def _eliminate(self, into: Linearizer, pivots: Expr | None) -> Expr:
        """U, right-hand sides with the rows of U, and whether a pivot is missing; with `pivots`,
        where the result has them, L below U."""
        n, a, x = self.n, self.a, self.x
        bad = into.declare(FALSE, "bad")
        with into.loop("k", 0, n) as k:
            pivot, none = self._pivot(into, k)
            into.append(Assign(bad, at.either(bad, none)))
            self._exchange(into, a, k, pivot, k if pivots is None else 0)
            if x is not None:
                self._exchange(into, x, k, pivot, 0)
            if pivots is not None:
                into.append(Store(self.other, pivots + k, simplify.cast(pivot, int32)))
            top = self.get(into, a, k, k)
            is_zero = apply_primitive("equal", [top, self.zero])
            divisor = into.let(simplify.select(is_zero, self.one, top), "divisor")
            with into.loop("i", k + 1, n) as i:
                below = negative(self.get(into, a, i, k))
                factor = into.let(apply_primitive("true_divide", [below, divisor]), "factor")
                if pivots is not None:
                    self.put(into, a, i, k, negative(factor))
                self._add_row(into, a, i, k, factor, k + 1)
                if x is not None:
                    self._add_row(into, x, i, k, factor, 0)
        return bad

    def _substitute(self, into: Linearizer, x: Local) -> None:
        with into.loop("step", 0, self.n) as step:
            last = into.let(self.n - 1 - step, "last")
            divisor = self.get(into, self.a, last, last)
            with into.loop("c", 0, x.columns) as c:
                found = apply_primitive("true_divide", [self.get(into, x, last, c), divisor])
                self.put(into, x, last, c, found)
            with into.loop("i", 0, last) as i:
                factor = into.let(negative(self.get(into, self.a, i, last)), "factor")
                self._add_row(into, x, i, last, factor, 0)

    def _pivot(self, into: Linearizer, k: Expr) -> tuple[Expr, Expr]:
        """The row of the largest element of column k, and whether that is zero or NaN."""
        best = into.declare(size(self.get(into, self.a, k, k)), "best")
        pivot = into.declare(k, "pivot")
        with into.loop("i", k + 1, self.n) as i:
            other = into.let(size(self.get(into, self.a, i, k)), "size")
            larger = into.let(apply_primitive("greater", [other, best]), "larger")
            into.append(Assign(best, simplify.select(larger, other, best)))
            into.append(Assign(pivot, at.select(larger, i, pivot)))
        none = at.negate(apply_primitive("greater", [best, Const(0.0, best.type)]))
        return into.let(pivot, "row"), into.let(none, "none")

    def _exchange(self, into: Linearizer, of: Local, k: Expr, pivot: Expr, start: Expr | int
                  ) -> None:  # fmt: skip
        with into.loop("j", start, of.columns) as j:
            upper, lower = self.get(into, of, k, j), self.get(into, of, pivot, j)
            self.put(into, of, pivot, j, upper)
            self.put(into, of, k, j, lower)

    def _add_row(self, into: Linearizer, of: Local, i: Expr, k: Expr, factor: Expr,
                 start: Expr | int) -> None:  # fmt: skip
        """Row i plus `factor` times row k, from column `start`."""
        with into.loop("j", start, of.columns) as j:
            self.add_product(into, of, i, j, factor, self.get(into, of, k, j))


class Triangular(Lanes):
    """`solve_triangular`: after each component, multiples of it are subtracted from the others."""

    def compute(self, into: Linearizer, matrix: Expr) -> None:
        (out,) = self.builder.outputs()
        lower, trans, unit = self.node.operation.parameters
        columns = number(self.node.outs[0].shape[-1])
        x, last = self.local("x", self.n, columns), self.n - 1
        self.load(into, matrix, self.node.arguments[0], self.a)
        self.load(into, matrix, self.node.arguments[1], x)

        def row(step: Expr) -> Expr:
            return step if lower == (trans == "N") else last - step

        def element(i: Expr, k: Expr) -> Expr:
            found = self.get(into, self.a, *((i, k) if trans == "N" else (k, i)))
            return conjugate(found) if trans == "C" else found

        with into.loop("step", 0, self.n) as step:
            k = into.let(row(step), "k")
            if not unit:
                divisor = into.let(element(k, k), "divisor")
                with into.loop("c", 0, columns) as c:
                    quotient = [self.get(into, x, k, c), divisor]
                    self.put(into, x, k, c, apply_primitive("true_divide", quotient))
            with into.loop("next", step + 1, self.n) as following:
                i = into.let(row(following), "i")
                factor = into.let(negative(element(i, k)), "factor")
                with into.loop("c", 0, columns) as c:
                    self.add_product(into, x, i, c, factor, self.get(into, x, k, c))
        self.store(into, matrix, out, self.n, columns, lambda i, j: self.get(into, x, i, j))


class Cholesky(Lanes):
    def compute(self, into: Linearizer, matrix: Expr) -> None:
        out, failed = self.builder.outputs()
        self.load(into, matrix, self.node.arguments[0], self.a)
        bad = into.declare(FALSE, "bad")
        with into.loop("k", 0, self.n) as k:
            self._column(into, k, bad)
        into.append(Store(failed, matrix, bad))
        nan = constant_of(float("nan"), self.type)

        def value(i: Expr, j: Expr) -> Expr:
            low = simplify.select(at.less_equal(j, i), self.get(into, self.a, i, j), self.zero)
            return simplify.select(bad, nan, low)

        self.store(into, matrix, out, self.n, self.n, value)

    def _column(self, into: Linearizer, k: Expr, bad: Var) -> None:
        a, n = self.a, self.n
        top = into.let(real(self.get(into, a, k, k)), "top")
        fails = at.negate(apply_primitive("greater", [top, Const(0.0, top.type)]))
        into.append(Assign(bad, at.either(bad, fails)))
        root = into.let(apply_primitive("sqrt", [top]), "root")
        with into.loop("i", k, n) as i:
            self.put(into, a, i, k, over(self.get(into, a, i, k), root))
        with into.loop("i", k + 1, n) as i:
            factor = into.let(negative(self.get(into, a, i, k)), "factor")
            with into.loop("j", k + 1, i + 1) as j:
                self.add_product(into, a, i, j, factor, conjugate(self.get(into, a, j, k)))
